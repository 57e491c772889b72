"""Tables of Parquet files and of DuckDB and SQLite databases that others made."""

# ruff: noqa: S608 - names from a database are quoted, and values are never put into SQL text
from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gaifman.draft import Draft
from gaifman.errors import InputError
from gaifman.io.files import GZIP, damage, exists, opened
from gaifman.io.plans import Cell, Kind, read_tables
from gaifman.names import nearest

BATCH = 20_000
"""Rows fetched at once."""


@contextmanager
def unpacked(path: Path) -> Iterator[Path]:
    """The path of the file itself, or of an unpacked copy: databases cannot be read as a stream."""
    exists(path)
    with path.open("rb") as file:
        packed = file.read(2) == GZIP
    if not packed:
        yield path
        return
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "unpacked"
        with opened(path) as file, damage(path), copy.open("wb") as whole:
            shutil.copyfileobj(file, whole)
        yield copy


@contextmanager
def duckdb_errors(path: Path) -> Iterator[None]:
    """Say what DuckDB says in one line, about the file."""
    import duckdb

    try:
        yield
    except duckdb.Error as error:
        first = str(error).split("\n", 1)[0]
        raise InputError(f"{path} cannot be read: {first}") from None
    except UnicodeDecodeError:
        raise InputError(f"{path} cannot be read: it holds text that is not UTF-8") from None


def read_parquet(path: Path, draft: Draft) -> None:
    """Put a Parquet file into a draft."""
    import duckdb

    with unpacked(path) as file, duckdb_errors(path), duckdb.connect() as connection:
        pattern = re.sub(r"([\[*?])", r"[\1]", str(file))  # DuckDB would take a name for a pattern
        connection.execute(f"CREATE VIEW facts AS FROM read_parquet({literal(pattern)})")
        read_tables([_DuckTable(connection, str(path), "facts", path.name.split(".")[0])], draft)


def read_duckdb_tables(path: Path, connection: Any, table: str | None, draft: Draft) -> None:
    """Put tables of an open DuckDB database into a draft."""
    found = connection.execute(
        "SELECT table_name FROM duckdb_tables() WHERE NOT internal AND NOT temporary ORDER BY table_name"
    ).fetchall()
    views = connection.execute("SELECT view_name FROM duckdb_views() WHERE NOT internal").fetchall()
    names = _chosen(path, [name for (name,) in found], table, [name for (name,) in views])
    read_tables([_DuckTable(connection, f"{path}, table {name}", name, name) for name in names], draft)


def read_sqlite(path: Path, table: str | None, draft: Draft) -> None:
    """Put tables of an SQLite database into a draft."""
    import sqlite3
    from contextlib import closing
    from urllib.parse import quote

    with unpacked(path) as file:
        try:
            with closing(sqlite3.connect(f"file:{quote(str(file.resolve()))}?mode=ro", uri=True)) as connection:
                found = connection.execute(
                    "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' "
                    "ORDER BY name"
                ).fetchall()
                views = connection.execute("SELECT name FROM sqlite_master WHERE type = 'view'").fetchall()
                names = _chosen(path, [name for (name,) in found], table, [name for (name,) in views])
                tables = [_LiteTable(connection, f"{path}, table {name}", name) for name in names]
                read_tables(tables, draft)
        except sqlite3.Error as error:
            raise InputError(f"{path} cannot be read: {error}") from None
        except UnicodeDecodeError:
            raise InputError(f"{path} cannot be read: it holds text that is not UTF-8") from None


def _chosen(path: Path, names: list[str], table: str | None, views: list[str]) -> list[str]:
    """The tables to read: the one asked for, which may be a view, or all."""
    if table is None:
        if not names:
            raise InputError(f"{path} holds no table", hint="views are read when asked for: table=…")
        return names
    if table not in (*names, *views):
        raise InputError(f"{path} holds no table {table}", near=nearest(table, [*names, *views]))
    return [table]


def quoted(name: str) -> str:
    """An identifier in SQL."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """A text in SQL, where a parameter cannot stand."""
    return "'" + text.replace("'", "''") + "'"


def _condition(present: str | None, absent: str | None) -> str:
    parts = [f"{quoted(present)} IS NOT NULL"] if present else []
    parts += [f"{quoted(absent)} IS NULL"] if absent else []
    return f" WHERE {' AND '.join(parts)}" if parts else ""


class _DuckTable:
    """A table or view of an open DuckDB connection."""

    def __init__(self, connection: Any, source: str, table: str, name: str) -> None:
        self.source, self.name = source, name
        self._connection, self._table = connection, table
        described = connection.execute(f"DESCRIBE {quoted(table)}").fetchall()
        self.columns: Mapping[str, Kind] = {row[0]: _duck_kind(row[1]) for row in described}

    def fetch(
        self, columns: Sequence[str], present: str | None, absent: str | None
    ) -> Iterator[Sequence[Sequence[Cell]]]:
        """Batches of rows; what is neither text nor number comes as text."""
        parts = [
            f"{quoted(name)}::DOUBLE" if self.columns[name] == "float" else f"{quoted(name)}::VARCHAR"
            for name in columns
        ]
        # Rows are counted for error messages, so their order must be the table's.
        cursor = self._connection.cursor()
        cursor.execute(f"SELECT {', '.join(parts)} FROM {quoted(self._table)}{_condition(present, absent)}")
        while batch := cursor.fetchmany(BATCH):
            yield batch


def _duck_kind(kind: str) -> Kind:
    if kind in ("VARCHAR", "UUID") or kind.startswith("ENUM"):
        return "text"
    if kind.endswith("INT") or kind in ("INTEGER", "UINTEGER"):
        return "integer"
    return "float" if kind in ("DOUBLE", "FLOAT") or kind.startswith("DECIMAL") else "other"


@dataclass
class _LiteTable:
    """A table of an open SQLite connection."""

    connection: Any
    source: str
    name: str

    def __post_init__(self) -> None:
        described = self.connection.execute(f"PRAGMA table_info({quoted(self.name)})").fetchall()
        self.columns: Mapping[str, Kind] = {row[1]: _lite_kind(row[2]) for row in described}

    def fetch(
        self, columns: Sequence[str], present: str | None, absent: str | None
    ) -> Iterator[Sequence[Sequence[Cell]]]:
        """Batches of rows; SQLite's columns can hold anything, so each name is made text."""
        parts = [quoted(name) if self.columns[name] == "float" else f"CAST({quoted(name)} AS TEXT)" for name in columns]
        cursor = self.connection.execute(
            f"SELECT {', '.join(parts)} FROM {quoted(self.name)}{_condition(present, absent)}"
        )
        while batch := cursor.fetchmany(BATCH):
            yield batch


def _lite_kind(kind: str) -> Kind:
    """SQLite's own rules of affinity."""
    kind = kind.upper()
    if "INT" in kind:
        return "integer"
    if not kind or any(word in kind for word in ("CHAR", "CLOB", "TEXT")):
        return "text"
    return "float" if "BLOB" not in kind else "other"

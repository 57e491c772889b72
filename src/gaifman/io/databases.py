"""Tables of Parquet files and of DuckDB and SQLite databases that others made."""

# ruff: noqa: S608 - names from a database are quoted, and values are never put into SQL text
from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

from gaifman.draft import KnowledgeBaseBuilder
from gaifman.errors import InputError
from gaifman.io.files import InputFile, ReadProgress, uncompressed_path
from gaifman.io.formats import file_stem
from gaifman.io.plans import Cell, ColumnKind, read_tables
from gaifman.logic.names import similar_names

BATCH_SIZE = 20_000
"""Rows fetched at once."""

MAIN_SCHEMA = "main"
"""The schema in which tables are made where none is named."""


@contextmanager
def translate_duckdb_errors(source: InputFile) -> Iterator[None]:
    """Say what DuckDB says in one line, about the file."""
    import duckdb

    try:
        yield
    except duckdb.Error as error:
        first = str(error).split("\n", 1)[0].replace(str(source.path), source.name)
        busy = any(words in first for words in ("different configuration", "Conflicting lock", "already attached"))
        hint = "it is open elsewhere: close the other connection" if busy else ""
        raise InputError(f"{source.name} cannot be read: {first}", hint=hint) from None
    except UnicodeDecodeError:
        raise InputError(f"{source.name} cannot be read: it holds text that is not UTF-8") from None


def read_parquet(source: InputFile, builder: KnowledgeBaseBuilder, progress: ReadProgress | None = None) -> None:
    """Put a Parquet file into a draft."""
    import duckdb

    with uncompressed_path(source) as file, translate_duckdb_errors(source), duckdb.connect() as connection:
        pattern = re.sub(r"([\[*?])", r"[\1]", str(file))  # DuckDB would take a name for a pattern
        connection.execute(f"CREATE VIEW facts AS FROM read_parquet({quote_literal(pattern)})")
        table = _DuckDBTable(connection, source.name, f"{MAIN_SCHEMA}.facts", file_stem(source.name))
        read_tables([table], builder, progress)


def list_tables(connection: Any, kind: str = "table") -> list[tuple[str, str]]:
    """Schema and name of all tables, or views, of an open DuckDB database."""
    found: list[tuple[str, str]] = connection.execute(
        f"SELECT schema_name, {kind}_name FROM duckdb_{kind}s() "
        "WHERE NOT internal AND NOT temporary AND database_name = current_database() ORDER BY ALL"
    ).fetchall()
    return found


def read_duckdb_tables(
    source: InputFile, connection: Any, table: str | None, builder: KnowledgeBaseBuilder, progress: ReadProgress | None
) -> None:
    """Put tables of an open DuckDB database into a draft."""
    found = list_tables(connection)
    chosen = _select_tables(source, found, table, list_tables(connection, "view"))
    several = {name for name, count in Counter(name for _, name in found).items() if count > 1}
    tables = [
        _DuckDBTable(
            connection,
            f"{source.name}, table {name}" if schema == MAIN_SCHEMA else f"{source.name}, table {schema}.{name}",
            f"{quote_identifier(schema)}.{quote_identifier(name)}",
            f"{schema}.{name}" if name in several and schema != MAIN_SCHEMA else name,
        )
        for schema, name in chosen
    ]
    read_tables(tables, builder, progress)


def read_sqlite(
    source: InputFile, table: str | None, builder: KnowledgeBaseBuilder, progress: ReadProgress | None = None
) -> None:
    """Put tables of an SQLite database into a draft."""
    import sqlite3
    from urllib.parse import quote

    with uncompressed_path(source) as file:
        try:
            with closing(sqlite3.connect(f"file:{quote(str(file.resolve()))}?mode=ro", uri=True)) as connection:
                names, views = _list_sqlite_tables(connection)
                chosen = _select_tables(source, names, table, views)
                tables = [_SQLiteTable(connection, f"{source.name}, table {name}", name) for _, name in chosen]
                read_tables(tables, builder, progress)
        except sqlite3.Error as error:
            raise InputError(f"{source.name} cannot be read: {error}") from None
        except UnicodeDecodeError:
            raise InputError(f"{source.name} cannot be read: it holds text that is not UTF-8") from None


def _list_sqlite_tables(connection: Any) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Tables that hold rows of their own, and what else can be asked for: views, and the tables of search engines."""
    found = connection.execute(
        "SELECT type, name FROM sqlite_master WHERE type IN ('table', 'view') "
        "AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name"
    ).fetchall()
    # Virtual tables and their shadows; an SQLite before 3.37 does not tell them, and they are read as others are.
    listed = connection.execute("PRAGMA table_list").fetchall()
    odd = {row[1] for row in listed if row[2] in ("virtual", "shadow")}
    names = [(MAIN_SCHEMA, name) for kind, name in found if kind == "table" and name not in odd]
    return names, [(MAIN_SCHEMA, name) for kind, name in found if kind == "view" or name in odd]


def _select_tables(
    source: InputFile, names: list[tuple[str, str]], table: str | None, views: list[tuple[str, str]]
) -> list[tuple[str, str]]:
    """The tables to read: the one asked for, perhaps with its schema, which may be a view; or all."""
    if table is None:
        if not names:
            raise InputError(f"{source.name} holds no table", hint="views are read when asked for: table=…")
        return names
    known = [*names, *views]
    found = [(schema, name) for schema, name in known if table in (name, f"{schema}.{name}")]
    first = [one for one in found if one[0] == MAIN_SCHEMA] or found
    if len(first) > 1:
        several = ", ".join(f"{schema}.{name}" for schema, name in first)
        raise InputError(f"{source.name} holds several tables {table}", hint=f"name one of {several}")
    if not first:
        plain = [name if schema == MAIN_SCHEMA else f"{schema}.{name}" for schema, name in known]
        raise InputError(f"{source.name} holds no table {table}", suggestions=similar_names(table, plain))
    return first


def quote_identifier(name: str) -> str:
    """An identifier in SQL."""
    return '"' + name.replace('"', '""') + '"'


def quote_literal(text: str) -> str:
    """A text in SQL, where a parameter cannot stand."""
    return "'" + text.replace("'", "''") + "'"


def _condition(not_null: str | None, is_null: str | None) -> str:
    parts = [f"{quote_identifier(not_null)} IS NOT NULL"] if not_null else []
    parts += [f"{quote_identifier(is_null)} IS NULL"] if is_null else []
    return f" WHERE {' AND '.join(parts)}" if parts else ""


class _DuckDBTable:
    """A table or view of an open DuckDB connection; `table` is how SQL names it."""

    def __init__(self, connection: Any, source: str, table: str, name: str) -> None:
        self.source, self.name = source, name
        self._connection, self._table = connection, table
        described = connection.execute(f"DESCRIBE {table}").fetchall()
        self.columns: Mapping[str, ColumnKind] = {row[0]: _duckdb_kind(row[1]) for row in described}

    def fetch(
        self, columns: Sequence[str], not_null: str | None, is_null: str | None
    ) -> Iterator[Sequence[Sequence[Cell]]]:
        """Batches of rows; what is neither text nor number comes as text."""
        parts = [
            f"{quote_identifier(name)}::DOUBLE"
            if self.columns[name] == "float"
            else f"{quote_identifier(name)}::VARCHAR"
            for name in columns
        ]
        # Rows are counted for error messages, so their order must be the table's.
        cursor = self._connection.cursor()
        cursor.execute(f"SELECT {', '.join(parts)} FROM {self._table}{_condition(not_null, is_null)}")
        while batch := cursor.fetchmany(BATCH_SIZE):
            yield batch


def _duckdb_kind(kind: str) -> ColumnKind:
    if kind in ("VARCHAR", "UUID") or kind.startswith("ENUM"):
        return "text"
    if kind.endswith("INT") or kind in ("INTEGER", "UINTEGER"):
        return "integer"
    return "float" if kind in ("DOUBLE", "FLOAT") or kind.startswith("DECIMAL") else "other"


@dataclass
class _SQLiteTable:
    """A table of an open SQLite connection."""

    connection: Any
    source: str
    name: str

    def __post_init__(self) -> None:
        described = self.connection.execute(f"PRAGMA table_xinfo({quote_identifier(self.name)})").fetchall()
        # The last number is 1 for what a virtual table hides, and 2 or 3 for columns that are computed.
        self.columns: Mapping[str, ColumnKind] = {row[1]: _sqlite_kind(row[2]) for row in described if row[6] != 1}

    def fetch(
        self, columns: Sequence[str], not_null: str | None, is_null: str | None
    ) -> Iterator[Sequence[Sequence[Cell]]]:
        """Batches of rows; SQLite's columns can hold anything, so each name is made text."""
        parts = [
            quote_identifier(name) if self.columns[name] == "float" else f"CAST({quote_identifier(name)} AS TEXT)"
            for name in columns
        ]
        cursor = self.connection.execute(
            f"SELECT {', '.join(parts)} FROM {quote_identifier(self.name)}{_condition(not_null, is_null)}"
        )
        while batch := cursor.fetchmany(BATCH_SIZE):
            yield batch


def _sqlite_kind(kind: str) -> ColumnKind:
    """By the words of SQLite's affinity; what it stores for a date or a truth value is taken as it stands."""
    kind = kind.upper()
    if "INT" in kind:
        return "integer"
    if any(word in kind for word in ("REAL", "FLOA", "DOUB", "NUMERIC", "DECIMAL")):
        return "float"
    return "other" if "BLOB" in kind else "text"

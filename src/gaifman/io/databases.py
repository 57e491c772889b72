"""How the columns of a table in a database become facts or values."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

import numpy as np

from gaifman.config import MAX_ARITY, ProgressCallback
from gaifman.errors import InputError, shorten, similar_names
from gaifman.io.files import InputFile, uncompressed_path
from gaifman.io.formats import file_stem
from gaifman.io.tabular import DEFAULT_LAYOUTS, RowBatch, TableLayout, add_rows, find_header_problem, parse_header
from gaifman.kb.builder import KnowledgeBaseBuilder

ColumnKind = Literal["text", "integer", "float", "other"]
Cell = str | int | float | None


class SourceTable(Protocol):
    """A table whose rows can be fetched."""

    source: str
    """File and table, for errors."""
    name: str
    columns: Mapping[str, ColumnKind]

    def fetch(
        self, columns: Sequence[str], not_null: str | None, is_null: str | None
    ) -> Iterator[Sequence[Sequence[Cell]]]:
        """Batches of rows of some columns; only those where one column is not null, and one is."""


@dataclass(frozen=True, slots=True)
class TablePass:
    """One pass over a table."""

    columns: tuple[str, ...]
    """Columns to fetch, in the order of the layout."""
    layout: TableLayout
    constant: tuple[int, str] | None = None
    """A field that is the same in each row, and where it stands."""
    not_null: str | None = None
    is_null: str | None = None


def plan_passes(table: SourceTable) -> list[TablePass]:
    """The passes that read a table, or an error that says what its columns are."""
    words = {name.strip().lower(): name for name in table.columns}
    named = _passes_by_column_names(words, table.source)
    if named:
        return named
    confidence = next((words[word] for word in ("confidence",) if word in words), None)
    names = [name for name, kind in table.columns.items() if kind in ("text", "integer") and name != confidence]
    floats = [name for name, kind in table.columns.items() if kind == "float" and name != confidence]
    others = [name for name, kind in table.columns.items() if kind == "other" and name != confidence]
    if not others and not floats and 1 <= len(names) <= MAX_ARITY:
        layout = replace(DEFAULT_LAYOUTS["nary"], number_column=1 if confidence else None)
        return [TablePass((*([confidence] if confidence else []), *names), layout, (0, table.name))]
    if not others and floats and len(names) == 1 and not confidence:
        return [TablePass((names[0], name), DEFAULT_LAYOUTS["attributes"], (1, name), not_null=name) for name in floats]
    described = ", ".join(f"{shorten(name)} ({kind})" for name, kind in list(table.columns.items())[:10])
    raise InputError(
        f"{table.source}: the columns are neither a relation nor attributes: {described}",
        hint="columns named head, relation, tail are triples; 1 to 8 columns of text are a relation; "
        "one of text and others of floating numbers are attributes",
    )


def _passes_by_column_names(words: Mapping[str, str], source: str) -> list[TablePass]:
    """The passes over a table whose columns have names that say what they hold."""
    value = words.get("value")
    layout = parse_header(list(words))
    if layout is None and value:  # as we write Parquet
        layout = parse_header([word for word in words if word != "value"])
        layout = layout if layout and layout.format == "nary" else None
    if layout is None:
        _check_column_names(words, source)
        return []
    if layout.format != "nary":
        return [TablePass(tuple(words.values()), layout)]
    # In one order, whatever the table's: relation, confidence, places. Then the places that are null can be left out.
    names = [name for name in words.values() if name != value]
    numbers = [] if layout.number_column is None else [layout.number_column]
    places = layout.objects or tuple(c for c in range(len(names)) if c not in (layout.relation, *numbers))
    plain = replace(DEFAULT_LAYOUTS["nary"], number_column=1 if numbers else None)
    found = [TablePass(tuple(names[column] for column in (layout.relation, *numbers, *places)), plain, is_null=value)]
    if value:
        columns = (names[places[0]], names[layout.relation], value)
        found.append(TablePass(columns, DEFAULT_LAYOUTS["attributes"], not_null=value))
    return found


def _check_column_names(words: Mapping[str, str], source: str) -> None:
    """Raise where some columns say that they hold relations of facts, and others cannot be told."""
    doubt = find_header_problem(list(words))
    if doubt and not {"relation", "predicate"}.isdisjoint(words):
        message = doubt.message.replace("this looks like a header", "the columns look like those of facts")
        raise InputError(f"{source}: {message}", hint="leave such columns out, by a view: table=…")


def read_tables(
    tables: Iterable[SourceTable], builder: KnowledgeBaseBuilder, progress: ProgressCallback | None
) -> None:
    """Put tables into a draft."""
    for table in tables:
        if progress:
            progress(f"reading {table.name}", 0, None)
        for plan in plan_passes(table):
            first = 1
            for batch in table.fetch(plan.columns, plan.not_null, plan.is_null):
                rows = _rows(table.source, plan, batch, first)
                if len(rows) < len(batch):
                    builder.add_note(
                        len(batch) - len(rows), "rows with NULL left out", table.source, "row with NULL left out"
                    )
                add_rows(rows, plan.layout, builder)
                first += len(batch)


def _rows(source: str, plan: TablePass, batch: Sequence[Sequence[Cell]], first: int) -> RowBatch:
    """A batch as rows: NULL ends the places of a relation that the row names; in a table of one relation it ends none.

    A row of such a table in which a NULL stands for an object is no fact, and left out; so is one without a value. A
    fact without a confidence is certain.
    """
    number = plan.layout.number_column
    fields: list[str] = []
    widths, lines = [], []
    for line, row in enumerate(batch, start=first):
        cells = list(row)
        if plan.constant:
            cells.insert(*plan.constant)
        if number is not None and cells[number] is None:
            if plan.layout.format == "attributes":
                continue
            cells[number] = 1.0
        if plan.layout.objects is None and plan.constant and None in cells:
            continue
        while plan.layout.objects is None and len(cells) > 1 and cells[-1] is None:
            cells.pop()
        fields += ["" if cell is None else cell if isinstance(cell, str) else repr(cell) for cell in cells]
        widths.append(len(cells))
        lines.append(line)
    return RowBatch(source, fields, np.array(widths, np.int64), np.array(lines, np.int64), "\t")


# ruff: noqa: S608 - names from a database are quoted, and values are never put into SQL text


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


def read_parquet(source: InputFile, builder: KnowledgeBaseBuilder, progress: ProgressCallback | None = None) -> None:
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
    source: InputFile,
    connection: Any,
    table: str | None,
    builder: KnowledgeBaseBuilder,
    progress: ProgressCallback | None,
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
    source: InputFile, table: str | None, builder: KnowledgeBaseBuilder, progress: ProgressCallback | None = None
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

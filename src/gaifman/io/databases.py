"""Read tables of databases: Parquet, DuckDB and SQLite."""

# ruff: noqa: S608 - names from a database are quoted, and values are never put into SQL text
from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

import numpy as np

from gaifman.config import MAX_ARITY, Limits, ProgressCallback, raise_limit_hint
from gaifman.errors import InputError, Location, shorten, similar_names
from gaifman.io.files import BATCH_SIZE, InputFile, file_stem, uncompressed_path
from gaifman.io.mapped_tables import ListBatch, TableColumns, TableMapper, remove_id
from gaifman.io.mapping import Clause, Column, TableMapping
from gaifman.io.readings import Table
from gaifman.io.tabular import (
    DEFAULT_LAYOUTS,
    SAMPLE_ROWS,
    RowBatch,
    TableLayout,
    add_rows,
    find_header_problem,
    parse_header,
)
from gaifman.kb.builder import KnowledgeBaseBuilder

ColumnKind = Literal["text", "integer", "float", "other"]
Cell = str | int | float | None

NO_DISK: Mapping[str, str] = {"temp_directory": ""}
"""DuckDB's setting for reading: nothing is written beside a user's file. A view that needs more memory is refused."""
MAIN_SCHEMA = "main"
"""The default schema of a database."""


class SourceTable(Protocol):
    """A table of a database."""

    source: str
    """File and table, for messages."""
    name: str
    columns: Mapping[str, ColumnKind]

    def fetch(
        self, columns: Sequence[str], not_null: str | None, is_null: str | None
    ) -> Iterator[Sequence[Sequence[Cell]]]:
        """Yield batches of rows of some columns, filtered by a column that is not null and one that is."""

    def interrupt(self) -> None:
        """Stop a running `fetch`, from another thread."""


@dataclass(frozen=True, slots=True)
class TablePass:
    """A pass over a table: the columns to fetch and their layout."""

    columns: tuple[str, ...]
    """Columns to fetch, in the order of the layout."""
    layout: TableLayout
    constant: tuple[int, str] | None = None
    """Index and value of a field that is the same in every row."""
    not_null: str | None = None
    is_null: str | None = None


def plan_passes(table: SourceTable) -> list[TablePass]:
    """Return the passes that read a table; raise if its columns hold neither facts nor values."""
    words = {name.strip().lower(): name for name in table.columns}
    named = _passes_by_column_names(words, table.source)
    if named:
        return named
    relation, confidence, names, floats = _kinds_of_columns(table)
    if relation == "nary":
        layout = replace(DEFAULT_LAYOUTS["nary"], number_column=1 if confidence else None)
        return [TablePass((*([confidence] if confidence else []), *names), layout, (0, table.name))]
    if relation == "attributes":
        return [TablePass((names[0], name), DEFAULT_LAYOUTS["attributes"], (1, name), not_null=name) for name in floats]
    described = ", ".join(f"{shorten(name)} ({kind})" for name, kind in list(table.columns.items())[:10])
    raise InputError(
        f"{table.source}: the columns are neither a relation nor attributes: {described}",
        hint="name the columns head, relation, tail for triples; 1 to 8 columns of text are a relation; "
        "one column of text and others of floats are attributes",
    )


def _kinds_of_columns(table: SourceTable) -> tuple[str, str | None, list[str], list[str]]:
    """Return the format of a table by the kinds of its columns, its confidence, columns of names, and of floats.

    The format is `nary` for a relation with the table's name, `attributes`, or empty. A column of integers holds names
    if it is alone, or called `user_id`; any other may hold numbers.
    """
    confidence = next((name for name in table.columns if name.strip().lower() == "confidence"), None)
    rest = {name: kind for name, kind in table.columns.items() if name != confidence}
    names = [name for name, kind in rest.items() if kind in ("text", "integer")]
    floats = [name for name, kind in rest.items() if kind == "float"]
    numbers = [name for name in names if rest[name] == "integer" and remove_id(name) in ("", name)]
    if "other" in rest.values():
        return "", confidence, names, floats
    if not floats and 1 <= len(names) <= MAX_ARITY and (len(names) == 1 or not numbers):
        return "nary", confidence, names, floats
    if floats and len(names) == 1 and not confidence:
        return "attributes", confidence, names, floats
    return "", confidence, names, floats


def implied_mapping(table: SourceTable) -> TableMapping | None:
    """Return the mapping of a table with integers as names, for which equal integers must become different objects.

    It reads the same as the passes of `plan_passes`, but 7 in the column `user_id` is `user/7`.
    """
    words = {name.strip().lower(): name for name in table.columns}
    if _passes_by_column_names(words, table.source) or "integer" not in table.columns.values():
        return None
    relation, confidence, names, _ = _kinds_of_columns(table)
    if not any(table.columns[name] == "integer" for name in names):
        return None
    if relation == "attributes":
        return TableMapping(id=Column(names[0]), wide=True)
    number = Column(confidence) if confidence else None
    return TableMapping((Clause(table.name, tuple(map(Column, names)), None, number),)) if relation else None


def _passes_by_column_names(words: Mapping[str, str], source: str) -> list[TablePass]:
    """Return the passes over a table with known column names; empty if they are not known."""
    value = words.get("value")
    layout = parse_header(list(words))
    if layout is None and value:  # as in our Parquet files
        layout = parse_header([word for word in words if word != "value"])
        layout = layout if layout and layout.format == "nary" else None
    if layout is None:
        _check_column_names(words, source)
        return []
    if layout.format != "nary":
        return [TablePass(tuple(words.values()), layout)]
    # Fetched as relation, confidence, arguments, so that null arguments are at the end of a row.
    names = [name for name in words.values() if name != value]
    numbers = [] if layout.number_column is None else [layout.number_column]
    arguments = layout.objects or tuple(c for c in range(len(names)) if c not in (layout.relation, *numbers))
    facts = replace(DEFAULT_LAYOUTS["nary"], number_column=1 if numbers else None)
    passes = [TablePass(tuple(names[c] for c in (layout.relation, *numbers, *arguments)), facts, is_null=value)]
    if value:
        columns = (names[arguments[0]], names[layout.relation], value)
        passes.append(TablePass(columns, DEFAULT_LAYOUTS["attributes"], not_null=value))
    return passes


def _check_column_names(words: Mapping[str, str], source: str) -> None:
    """Raise if some column names are those of facts and others are unknown."""
    problem = find_header_problem(list(words))
    if problem and not {"relation", "predicate"}.isdisjoint(words):
        message = problem.message.replace("this looks like a header", "the columns look like those of facts")
        raise InputError(f"{source}: {message}", hint="create a view without such columns and read it: table=…")


def read_tables(
    tables: Iterable[SourceTable],
    limits: Limits,
    builder: KnowledgeBaseBuilder,
    progress: ProgressCallback | None,
    mapper: TableMapper | None = None,
) -> None:
    """Read tables into the builder."""
    for table in tables:
        if progress:
            progress(f"reading {table.name}", 0, None)
        columns = table_columns(table)
        implied = implied_mapping(table)
        reader = mapper if mapper and mapper.concerns(columns) else TableMapper(implied) if implied else None
        if reader:
            read_mapped(table, columns, limits, builder, reader)
            continue
        for plan in _plan_passes(table, columns, limits, mapper):
            first = 1
            for batch in _fetch_in_time(table, plan, limits):
                rows = _rows(table.source, plan, batch, first)
                if len(rows) < len(batch):
                    skipped = len(batch) - len(rows)
                    builder.count_rows(skipped, lambda: Location(table.source, first, 1, ""))  # noqa: B023 - called at once
                    builder.add_note(skipped, "rows with NULL skipped", table.source, "row with NULL skipped")
                add_rows(rows, plan.layout, builder)
                first += len(batch)


def table_columns(table: SourceTable) -> TableColumns:
    """Return the columns of a table for a mapping; digits in columns of text are names."""
    texts = frozenset(name for name, kind in table.columns.items() if kind == "text")
    return TableColumns(table.source, table.name, tuple(table.columns), texts=texts)


def read_mapped(
    table: SourceTable, columns: TableColumns, limits: Limits, builder: KnowledgeBaseBuilder, mapper: TableMapper
) -> None:
    """Read a table by a mapping."""
    plan, first = None, 1
    everything = TablePass(tuple(table.columns), DEFAULT_LAYOUTS["nary"])
    for batch in _fetch_in_time(table, everything, limits):
        rows = ListBatch(table.source, [list(map(_cell_text, row)) for row in batch], first)
        if plan is None:
            plan = mapper.plan(columns, rows)
            assert plan is not None
            plan.note(builder)
        plan.add(rows, builder)
        first += len(batch)
    if plan is None:
        mapper.plan(columns, ListBatch(table.source, []))


def _cell_text(cell: Cell) -> str:
    return "" if cell is None else cell if isinstance(cell, str) else repr(cell)


def _plan_passes(
    table: SourceTable, columns: TableColumns, limits: Limits, mapper: TableMapper | None
) -> list[TablePass]:
    try:
        return plan_passes(table)
    except InputError as error:
        missing = mapper.missing_in(columns) if mapper else None
        if missing:
            raise missing from None  # a mistake in the mapping, not in the table
        error.hint = f"{error.hint}; or {_readings(table, columns, limits)}" if table.columns else error.hint
        raise


def _readings(table: SourceTable, columns: TableColumns, limits: Limits) -> str:
    """Return the readings of a table whose columns do not tell what they are."""
    everything = TablePass(tuple(table.columns), DEFAULT_LAYOUTS["nary"])
    batch = next(_fetch_in_time(table, everything, limits), [])
    rows = [list(map(_cell_text, row)) for row in batch[:SAMPLE_ROWS]]
    return Table("", [columns.names, *rows], True, name=table.name, texts=columns.texts, is_file=False).hint()


def _fetch_in_time(table: SourceTable, plan: TablePass, limits: Limits) -> Iterator[Sequence[Sequence[Cell]]]:
    """Yield the batches of a pass; a view may never give the next one."""
    batches = table.fetch(plan.columns, plan.not_null, plan.is_null)
    while True:
        with _time_limit(table, limits.database_seconds):
            batch = next(batches, None)
        if batch is None:
            return
        yield batch


@contextmanager
def _time_limit(table: SourceTable, seconds: int) -> Iterator[None]:
    """Stop a table that gives no rows in time."""
    late = threading.Event()

    def stop() -> None:
        late.set()
        table.interrupt()

    timer = threading.Timer(seconds, stop)
    timer.daemon = True
    timer.start()
    try:
        yield
    except Exception:
        if not late.is_set():
            raise
        message = f"{table.source}: no rows within {seconds:,} seconds"
        raise InputError(message, hint=raise_limit_hint("database_seconds")) from None
    finally:
        timer.cancel()


def _rows(source: str, plan: TablePass, batch: Sequence[Sequence[Cell]], first: int) -> RowBatch:
    """Return a batch as rows of text.

    In a table with a relation column, NULLs at the end of a row mean that the relation has fewer arguments. In a table
    of one relation, a row with a NULL argument is skipped, and so is a NULL value. A NULL confidence means 1.
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
        fields += map(_cell_text, cells)
        widths.append(len(cells))
        lines.append(line)
    return RowBatch(source, fields, np.array(widths, np.int64), np.array(lines, np.int64), "\t")


@contextmanager
def translate_duckdb_errors(source: InputFile) -> Iterator[None]:
    """Raise InputError for DuckDB's errors, with the name of the file."""
    import duckdb

    try:
        yield
    except duckdb.Error as error:
        first = str(error).split("\n", 1)[0].replace(str(source.path), source.name)
        busy = any(words in first for words in ("different configuration", "Conflicting lock", "already attached"))
        hint = "close the other connection to the file" if busy else ""
        raise InputError(f"{source.name} cannot be read: {first}", hint=hint) from None
    except UnicodeDecodeError:
        raise InputError(f"{source.name} cannot be read: it holds text that is not UTF-8") from None


def read_parquet(
    source: InputFile,
    limits: Limits,
    builder: KnowledgeBaseBuilder,
    progress: ProgressCallback | None = None,
    mapper: TableMapper | None = None,
) -> None:
    """Read a Parquet file into the builder."""
    import duckdb

    with (
        uncompressed_path(source, limits) as file,
        translate_duckdb_errors(source),
        duckdb.connect(config=dict(NO_DISK)) as connection,
    ):
        pattern = re.sub(r"([\[*?])", r"[\1]", str(file))  # DuckDB reads the name as a pattern
        connection.execute(f"CREATE VIEW facts AS FROM read_parquet({quote_literal(pattern)})")
        table = _DuckDBTable(connection, source.name, f"{MAIN_SCHEMA}.facts", file_stem(source.name))
        read_tables([table], limits, builder, progress, mapper)


def list_tables(connection: Any, kind: str = "table") -> list[tuple[str, str]]:
    """Return schema and name of all tables, or views, of an open DuckDB database."""
    tables: list[tuple[str, str]] = connection.execute(
        f"SELECT schema_name, {kind}_name FROM duckdb_{kind}s() "
        "WHERE NOT internal AND NOT temporary AND database_name = current_database() ORDER BY ALL"
    ).fetchall()
    return tables


def read_duckdb_tables(
    source: InputFile,
    connection: Any,
    table: str | None,
    limits: Limits,
    builder: KnowledgeBaseBuilder,
    progress: ProgressCallback | None,
    mapper: TableMapper | None = None,
) -> None:
    """Read tables of an open DuckDB database into the builder."""
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
    read_tables(tables, limits, builder, progress, mapper)


def read_sqlite(
    source: InputFile,
    table: str | None,
    limits: Limits,
    builder: KnowledgeBaseBuilder,
    progress: ProgressCallback | None = None,
    mapper: TableMapper | None = None,
) -> None:
    """Read tables of an SQLite database into the builder."""
    import sqlite3
    from urllib.parse import quote

    with uncompressed_path(source, limits) as file:
        try:
            with closing(sqlite3.connect(f"file:{quote(str(file.resolve()))}?mode=ro", uri=True)) as connection:
                names, views = _list_sqlite_tables(connection)
                chosen = _select_tables(source, names, table, views)
                tables = [_SQLiteTable(connection, f"{source.name}, table {name}", name) for _, name in chosen]
                read_tables(tables, limits, builder, progress, mapper)
        except sqlite3.Error as error:
            raise InputError(f"{source.name} cannot be read: {error}") from None
        except UnicodeDecodeError:
            raise InputError(f"{source.name} cannot be read: it holds text that is not UTF-8") from None


def _list_sqlite_tables(connection: Any) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Return the ordinary tables, and what is read only by name: views and virtual tables."""
    found = connection.execute(
        "SELECT type, name FROM sqlite_master WHERE type IN ('table', 'view') "
        "AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name"
    ).fetchall()
    # SQLite before 3.37 does not report virtual tables and their shadows; they are then read as ordinary tables.
    listed = connection.execute("PRAGMA table_list").fetchall()
    odd = {row[1] for row in listed if row[2] in ("virtual", "shadow")}
    names = [(MAIN_SCHEMA, name) for kind, name in found if kind == "table" and name not in odd]
    return names, [(MAIN_SCHEMA, name) for kind, name in found if kind == "view" or name in odd]


def _select_tables(
    source: InputFile, names: list[tuple[str, str]], table: str | None, views: list[tuple[str, str]]
) -> list[tuple[str, str]]:
    """Return the tables to read: the named table or view, or all tables."""
    if table is None:
        if not names:
            raise InputError(f"{source.name} has no table", hint="read a view with table=…")
        return names
    known = [*names, *views]
    found = [(schema, name) for schema, name in known if table in (name, f"{schema}.{name}")]
    first = [one for one in found if one[0] == MAIN_SCHEMA] or found
    if len(first) > 1:
        several = ", ".join(f"{schema}.{name}" for schema, name in first)
        raise InputError(f"{source.name} has several tables {table}", hint=f"use one of {several}")
    if not first:
        plain = [name if schema == MAIN_SCHEMA else f"{schema}.{name}" for schema, name in known]
        raise InputError(f"{source.name} has no table {table}", suggestions=similar_names(table, plain))
    return first


def quote_identifier(name: str) -> str:
    """Return a quoted identifier for SQL."""
    return '"' + name.replace('"', '""') + '"'


def quote_literal(text: str) -> str:
    """Return a quoted text for SQL, where a parameter is not possible."""
    return "'" + text.replace("'", "''") + "'"


def _condition(not_null: str | None, is_null: str | None) -> str:
    parts = [f"{quote_identifier(not_null)} IS NOT NULL"] if not_null else []
    parts += [f"{quote_identifier(is_null)} IS NULL"] if is_null else []
    return f" WHERE {' AND '.join(parts)}" if parts else ""


class _DuckDBTable:
    """A table or view of an open DuckDB connection; `table` is its name in SQL."""

    def __init__(self, connection: Any, source: str, table: str, name: str) -> None:
        self.source, self.name = source, name
        self._connection, self._table = connection.cursor(), table
        described = connection.execute(f"DESCRIBE {table}").fetchall()
        self.columns: Mapping[str, ColumnKind] = {row[0]: _duckdb_kind(row[1]) for row in described}

    def fetch(
        self, columns: Sequence[str], not_null: str | None, is_null: str | None
    ) -> Iterator[Sequence[Sequence[Cell]]]:
        """Yield batches of rows; other kinds than numbers are fetched as text."""
        parts = [
            f"{quote_identifier(name)}::DOUBLE"
            if self.columns[name] == "float"
            else f"{quote_identifier(name)}::VARCHAR"
            for name in columns
        ]
        # In the order of the table: error messages give the number of a row.
        self._connection.execute(f"SELECT {', '.join(parts)} FROM {self._table}{_condition(not_null, is_null)}")
        while batch := self._connection.fetchmany(BATCH_SIZE):
            yield batch

    def interrupt(self) -> None:
        """Stop a running `fetch`."""
        self._connection.interrupt()


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
        # The last field is 1 for hidden columns of virtual tables, and 2 or 3 for computed columns.
        self.columns: Mapping[str, ColumnKind] = {row[1]: _sqlite_kind(row[2]) for row in described if row[6] != 1}

    def fetch(
        self, columns: Sequence[str], not_null: str | None, is_null: str | None
    ) -> Iterator[Sequence[Sequence[Cell]]]:
        """Yield batches of rows; names are fetched as text, because SQLite's columns may hold anything."""
        parts = [
            quote_identifier(name) if self.columns[name] == "float" else f"CAST({quote_identifier(name)} AS TEXT)"
            for name in columns
        ]
        cursor = self.connection.execute(
            f"SELECT {', '.join(parts)} FROM {quote_identifier(self.name)}{_condition(not_null, is_null)}"
        )
        while batch := cursor.fetchmany(BATCH_SIZE):
            yield batch

    def interrupt(self) -> None:
        """Stop a running `fetch`."""
        self.connection.interrupt()


def _sqlite_kind(kind: str) -> ColumnKind:
    """Return the kind of a column, by SQLite's rules of affinity."""
    kind = kind.upper()
    if "INT" in kind:
        return "integer"
    if any(word in kind for word in ("REAL", "FLOA", "DOUB", "NUMERIC", "DECIMAL")):
        return "float"
    return "other" if "BLOB" in kind else "text"

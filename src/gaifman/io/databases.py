"""Read tables of databases: Parquet, DuckDB and SQLite."""

# ruff: noqa: S608 - names from a database are quoted, and values are never put into SQL text
from __future__ import annotations

import math
import re
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from copy import copy
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Literal, Protocol

import numpy as np

from gaifman.config import MAX_ARITY, Limits, ProgressCallback, raise_limit_hint
from gaifman.errors import InputError, Location, shorten, similar_names
from gaifman.io.files import BATCH_SIZE, InputFile, file_stem, uncompressed_path
from gaifman.io.foreign_keys import Columns, ForeignKey, KeyPlan, KeySchema, TableKeys
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

ColumnKind = Literal["text", "integer", "float", "boolean", "other"]
Cell = str | int | float | None
TableId = tuple[str, str]
"""Schema and name of a table."""

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
    if not {"boolean", "other"}.isdisjoint(rest.values()):
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
    keys: KeySchema | None = None,
) -> None:
    """Read tables into the builder: by a mapping, by the keys of their database, or by their columns."""
    keys = keys or KeySchema()
    for table in tables:
        if progress:
            progress(f"reading {table.name}", 0, None)
        columns, plan = table_columns(table), keys.plan(table.name)
        if mapper and mapper.concerns(columns):
            _read_mapped(table, columns, mapper, limits, builder)
        elif plan:
            _read_by_keys(table, plan, limits, builder)
        else:
            _read_by_columns(table, keys.surrogate_key(table.name), limits, builder, mapper)


def table_columns(table: SourceTable) -> TableColumns:
    """Return the columns of a table for a mapping; digits in columns of text are names."""
    texts = frozenset(name for name, kind in table.columns.items() if kind == "text")
    return TableColumns(table.source, table.name, tuple(table.columns), texts=texts)


def _read_by_columns(
    table: SourceTable,
    surrogate_key: str | None,
    limits: Limits,
    builder: KnowledgeBaseBuilder,
    mapper: TableMapper | None,
) -> None:
    """Read a table by the names and kinds of its columns, without the key that only numbers its rows."""
    if surrogate_key:
        text, singular = "columns that number the rows skipped", "column that numbers the rows skipped"
        builder.add_note(1, text, f"{table.source}, column {surrogate_key}", singular)
        table = copy(table)
        table.columns = {name: kind for name, kind in table.columns.items() if name != surrogate_key}
    if implied := implied_mapping(table):
        _read_mapped(table, table_columns(table), TableMapper(implied, implied=True), limits, builder)
        return
    for plan in plan_table(table, limits, mapper):
        first = 1
        for batch in _fetch_in_time(table, plan.columns, plan.not_null, plan.is_null, limits):
            rows = _rows(table.source, plan, batch, first)
            count_skipped_rows(len(batch) - len(rows), table.source, first, builder)
            add_rows(rows, plan.layout, builder)
            first += len(batch)


def takes_several_passes(table: SourceTable) -> bool:
    """Return whether a table that a mapping does not concern is read more than once."""
    try:
        return len(plan_passes(table)) > 1
    except InputError:
        return False


def plan_table(table: SourceTable, limits: Limits, mapper: TableMapper | None) -> list[TablePass]:
    """Return the passes that read a table; an error says which mapping could read it."""
    try:
        return plan_passes(table)
    except InputError as error:
        columns = table_columns(table)
        missing = mapper.missing_in(columns) if mapper else None
        if missing:
            raise missing from None  # a mistake in the mapping, not in the table
        if columns.names:
            error.hint = f"{error.hint}; or {_readings(table, columns, limits)}"
        raise


def _readings(table: SourceTable, columns: TableColumns, limits: Limits) -> str:
    """Return the readings of a table whose columns do not tell what they are."""
    batch = next(_fetch_in_time(table, columns.names, None, None, limits), [])
    rows = [list(map(_cell_text, row)) for row in batch[:SAMPLE_ROWS]]
    name = table.name or "table"
    return Table("", [columns.names, *rows], True, name=name, texts=columns.texts, is_file=False).hint()


def _read_mapped(
    table: SourceTable, columns: TableColumns, mapper: TableMapper, limits: Limits, builder: KnowledgeBaseBuilder
) -> None:
    """Read a table by a mapping."""
    plan, first = None, 1
    for batch in _fetch_in_time(table, columns.names, None, None, limits):
        rows = ListBatch(table.source, [list(map(_cell_text, row)) for row in batch], first)
        plan = plan or mapper.start(columns, rows, builder)
        plan.add(rows, builder)
        first += len(batch)
    if plan is None:
        mapper.start(columns, ListBatch(table.source, []), builder)


def _cell_text(cell: Cell) -> str:
    """Return a cell as text; NULL and NaN are empty."""
    if cell is None or cell != cell:  # noqa: PLR0124 - NaN
        return ""
    return cell if isinstance(cell, str) else repr(cell)


def count_skipped_rows(skipped: int, source: str, first: int, builder: KnowledgeBaseBuilder) -> None:
    """Count and note rows that are skipped because of a NULL; `first` is the number of the first row."""
    if skipped:
        builder.count_rows(skipped, lambda: Location(source, first, 1, ""))
        builder.add_note(skipped, "rows with NULL skipped", source, "row with NULL skipped")


def _read_by_keys(table: SourceTable, plan: KeyPlan, limits: Limits, builder: KnowledgeBaseBuilder) -> None:
    """Read a table of objects with keys, or a link table."""
    said = ", ".join(reading.name for reading in plan.readings)
    builder.add_note(1, "tables read by their keys", f"{table.source}: {shorten(said, 100)}", "table read by its keys")
    for column in plan.skipped:
        what = f"{table.source}, column {shorten(column)}"
        builder.add_note(1, "columns of other kinds skipped", what, "column of another kind skipped")
    first = 1
    for batch in _fetch_in_time(table, plan.columns, None, None, limits):
        found = plan.read_rows(table.source, batch, first)
        count_skipped_rows(len(batch) - len(found[0][0]), table.source, first, builder)  # their key is NULL
        for rows, reading in found:
            add_rows(rows, reading.layout, builder)
        first += len(batch)


def _fetch_in_time(
    table: SourceTable, columns: Sequence[str], not_null: str | None, is_null: str | None, limits: Limits
) -> Iterator[Sequence[Sequence[Cell]]]:
    """Yield the batches of a table; a view may never give the next one."""
    batches = table.fetch(columns, not_null, is_null)
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

    In a table with a relation column, NULLs at the end of a row mean that the relation has fewer arguments. Rows with
    another NULL are skipped. A NULL confidence means 1. NaN is as NULL.
    """
    if columns := _complete_columns(plan, batch):
        flat = list(chain.from_iterable(zip(*columns, strict=True)))
        numbers = np.arange(first, first + len(batch))
        return RowBatch(source, flat, np.full(len(batch), len(columns), np.int64), numbers, "\t")
    number = plan.layout.number_column
    fields: list[str] = []
    widths, lines = [], []
    for line, row in enumerate(batch, start=first):
        cells = [None if cell != cell else cell for cell in row]  # noqa: PLR0124 - NaN is as NULL
        if plan.constant:
            cells.insert(*plan.constant)
        if number is not None and cells[number] is None:
            if plan.layout.format == "attributes":
                continue
            cells[number] = 1.0
        while plan.layout.objects is None and not plan.constant and len(cells) > 1 and cells[-1] is None:
            cells.pop()
        if None in cells:
            continue
        fields += [cell if isinstance(cell, str) else repr(cell) for cell in cells]
        widths.append(len(cells))
        lines.append(line)
    return RowBatch(source, fields, np.array(widths, np.int64), np.array(lines, np.int64), "\t")


def _complete_columns(plan: TablePass, batch: Sequence[Sequence[Cell]]) -> list[Sequence[str]]:
    """Return the columns of a batch as text, with the constant; none if a cell is NULL or NaN."""
    columns: list[Sequence[str]] = []
    for cells in zip(*batch, strict=True):
        kinds = set(map(type, cells))
        if kinds == {str}:
            columns.append(cells)
        elif kinds <= {float, int} and not any(map(math.isnan, cells)):
            columns.append(list(map(repr, cells)))
        else:
            return []
    if plan.constant and columns:
        index, value = plan.constant
        columns.insert(index, [value] * len(batch))
    return columns


@contextmanager
def translate_duckdb_errors(source: InputFile | str) -> Iterator[None]:
    """Raise InputError for DuckDB's errors, with the name of the file or object."""
    import duckdb

    name, path = (source, source) if isinstance(source, str) else (source.name, str(source.path))
    try:
        yield
    except duckdb.Error as error:
        first = str(error).split("\n", 1)[0].removeprefix("Invalid Input Error: ").replace(path, name)
        busy = any(words in first for words in ("different configuration", "Conflicting lock", "already attached"))
        hint = "close the other connection to the file" if busy else ""
        raise InputError(f"{name} cannot be read: {first}", hint=hint) from None
    except UnicodeDecodeError:
        raise InputError(f"{name} cannot be read: it holds text that is not UTF-8") from None


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
        table = DuckDBTable(connection, source.name, f"{MAIN_SCHEMA}.facts", file_stem(source.name))
        read_tables([table], limits, builder, progress, mapper)


def list_tables(connection: Any, kind: str = "table") -> list[TableId]:
    """Return schema and name of all tables, or views, of an open DuckDB database."""
    tables: list[TableId] = connection.execute(
        f"SELECT schema_name, {kind}_name FROM duckdb_{kind}s() "
        "WHERE NOT internal AND NOT temporary AND database_name = current_database() ORDER BY ALL"
    ).fetchall()
    return tables


def read_duckdb_tables(
    source: str,
    connection: Any,
    table: str | None,
    limits: Limits,
    builder: KnowledgeBaseBuilder,
    progress: ProgressCallback | None,
    mapper: TableMapper | None = None,
) -> None:
    """Read tables of an open DuckDB database into the builder; `source` is its name for messages."""
    found = list_tables(connection)
    chosen = select_tables(source, found, table, list_tables(connection, "view"))
    names = label_tables(found, MAIN_SCHEMA)
    tables = [
        DuckDBTable(
            connection,
            f"{source}, table {name}" if schema == MAIN_SCHEMA else f"{source}, table {schema}.{name}",
            f"{quote_identifier(schema)}.{quote_identifier(name)}",
            names.get((schema, name), name),
        )
        for schema, name in chosen
    ]
    read_tables(tables, limits, builder, progress, mapper, _duckdb_keys(connection, names))


def label_tables(tables: Sequence[TableId], main: str) -> dict[TableId, str]:
    """Return the name of each table: with its schema if tables of several schemas have it, except in the main one.

    >>> label_tables([("main", "a"), ("old", "a"), ("old", "b")], "main").values()
    dict_values(['a', 'old.a', 'b'])
    """
    several = {name for name, count in Counter(name for _, name in tables).items() if count > 1}
    return {
        (schema, name): f"{schema}.{name}" if name in several and schema != main else name for schema, name in tables
    }


def _duckdb_keys(connection: Any, names: Mapping[TableId, str]) -> KeySchema:
    """Return the keys of the tables of an open DuckDB database."""
    constraints = connection.execute(
        "SELECT schema_name, table_name, constraint_type, constraint_column_names, referenced_table, "
        "referenced_column_names FROM duckdb_constraints() WHERE database_name = current_database() "
        "AND constraint_type IN ('PRIMARY KEY', 'UNIQUE', 'FOREIGN KEY') ORDER BY table_oid, constraint_index"
    ).fetchall()
    if not constraints:
        return KeySchema()
    columns = connection.execute(
        "SELECT schema_name, table_name, column_name, data_type FROM duckdb_columns() "
        "WHERE database_name = current_database() ORDER BY table_oid, column_index"
    ).fetchall()
    catalog = KeyCatalog(names)
    for schema, table, column, kind in columns:
        catalog.add_column((schema, table), column, duckdb_kind(kind))
    for schema, table, kind, own, target, target_columns in constraints:
        catalog.add_key((schema, table), kind, tuple(own), (schema, target), tuple(target_columns or ()))
    return catalog.schema()


class KeyCatalog:
    """Collects the columns and keys that a database declares."""

    def __init__(self, names: Mapping[TableId, str]) -> None:
        """`names` are those of the tables of the database."""
        self._names = names
        self._kinds: dict[TableId, dict[str, str]] = defaultdict(dict)
        self._primary: dict[TableId, Columns] = {}
        self._unique: dict[TableId, list[Columns]] = defaultdict(list)
        self._foreign: dict[TableId, list[ForeignKey]] = defaultdict(list)

    def add_column(self, table: TableId, column: str, kind: ColumnKind) -> None:
        """Add a column."""
        self._kinds[table][column] = kind

    def add_key(
        self, table: TableId, kind: str, columns: Columns, target: TableId = ("", ""), target_columns: Columns = ()
    ) -> None:
        """Add a key; `kind` is PRIMARY KEY, UNIQUE or FOREIGN KEY."""
        match kind:
            case "PRIMARY KEY":
                self._primary[table] = columns
            case "UNIQUE":
                self._unique[table].append(columns)
            case _ if target in self._names:
                self._foreign[table].append(ForeignKey(columns, self._names[target], target_columns))

    def schema(self) -> KeySchema:
        """Return the tables with their keys."""
        return KeySchema(
            TableKeys(
                name,
                self._kinds[table],
                self._primary.get(table, ()),
                tuple(self._foreign[table]),
                tuple(self._unique[table]),
            )
            for table, name in self._names.items()
        )


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

    with uncompressed_path(source, limits) as file, translate_sqlite_errors(source.name):
        address = f"file:{quote(str(file.resolve()))}?mode=ro"
        with closing(sqlite3.connect(address, uri=True)) as connection:
            read_sqlite_tables(source.name, connection, table, limits, builder, progress, mapper)


@contextmanager
def translate_sqlite_errors(source: str) -> Iterator[None]:
    """Raise InputError for SQLite's errors, with the name of the database."""
    import sqlite3

    try:
        yield
    except sqlite3.Error as error:
        raise InputError(f"{source} cannot be read: {error}") from None
    except UnicodeDecodeError:
        raise InputError(f"{source} cannot be read: it holds text that is not UTF-8") from None


def read_sqlite_tables(
    source: str,
    connection: Any,
    table: str | None,
    limits: Limits,
    builder: KnowledgeBaseBuilder,
    progress: ProgressCallback | None,
    mapper: TableMapper | None = None,
    make_table: Callable[[Any, str, str], SourceTable] | None = None,
) -> None:
    """Read tables of an open SQLite database; `make_table` makes a table of connection, source and name."""
    names, views = _list_sqlite_tables(connection)
    chosen = select_tables(source, names, table, views)
    make = make_table or _SQLiteTable
    tables = [make(connection, f"{source}, table {name}", name) for _, name in chosen]
    read_tables(tables, limits, builder, progress, mapper, _sqlite_keys(connection, [name for _, name in names]))


def sqlite_columns(connection: Any, table: str, *, booleans: bool = False) -> dict[str, ColumnKind]:
    """Return the columns of a table or view, with their kinds; SQLite itself has no booleans, which are text then."""
    described = connection.execute(f"PRAGMA table_xinfo({quote_identifier(table)})").fetchall()
    # The last field is 1 for hidden columns of virtual tables, and 2 or 3 for computed columns.
    return {
        row[1]: "boolean" if booleans and "BOOL" in row[2].upper() else _sqlite_kind(row[2])
        for row in described
        if row[6] != 1
    }


def _sqlite_keys(connection: Any, names: Sequence[str]) -> KeySchema:
    """Return the keys of the tables of an open SQLite database."""
    catalog = KeyCatalog({(MAIN_SCHEMA, name): name for name in names})
    spelling = {name.lower(): name for name in names}  # SQLite ignores capitals
    columns = {name: sqlite_columns(connection, name, booleans=True) for name in names}
    for name in names:
        table = (MAIN_SCHEMA, name)
        for column, kind in columns[name].items():
            catalog.add_column(table, column, kind)
        described = connection.execute(f"PRAGMA table_info({quote_identifier(name)})").fetchall()
        primary = sorted((row[5], row[1]) for row in described if row[5])
        catalog.add_key(table, "PRIMARY KEY", tuple(column for _, column in primary))
        for unique in _sqlite_unique_keys(connection, name):
            catalog.add_key(table, "UNIQUE", unique)
        for target, own, target_columns in _sqlite_foreign_keys(connection, name):
            known = spelling.get(target.lower(), "")
            other = _spell(target_columns, columns.get(known, {}))
            catalog.add_key(table, "FOREIGN KEY", _spell(own, columns[name]), (MAIN_SCHEMA, known), other)
    return catalog.schema()


def _spell(names: Iterable[str], columns: Iterable[str]) -> Columns:
    """Return the names with the capitals of the columns."""
    spelling = {column.lower(): column for column in columns}
    return tuple(spelling.get(name.lower(), name) for name in names)


def _sqlite_unique_keys(connection: Any, table: str) -> list[Columns]:
    listed = connection.execute(f"PRAGMA index_list({quote_identifier(table)})").fetchall()
    whole = [row[1] for row in listed if row[2] and not row[4]]  # unique, and not of some rows only
    described = [connection.execute(f"PRAGMA index_info({quote_identifier(name)})").fetchall() for name in whole]
    return [tuple(row[2] for row in rows) for rows in described if all(row[2] for row in rows)]


def _sqlite_foreign_keys(connection: Any, table: str) -> list[tuple[str, Columns, Columns]]:
    """Return target, columns and target's columns of each foreign key, in the order of their declaration."""
    found: dict[int, list[tuple[int, str, str, str | None]]] = defaultdict(list)
    for number, place, target, own, other, *_ in connection.execute(
        f"PRAGMA foreign_key_list({quote_identifier(table)})"
    ).fetchall():
        found[number].append((place, target, own, other))
    keys = []
    for number in sorted(found, reverse=True):  # SQLite numbers them backwards
        rows = sorted(found[number])
        others = tuple(row[3] for row in rows if row[3])
        keys.append((rows[0][1], tuple(row[2] for row in rows), others))
    return keys


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


def select_tables(
    source: str, names: list[TableId], table: str | None, views: list[TableId], main: str = MAIN_SCHEMA
) -> list[TableId]:
    """Return the tables to read: the named table or view, or all tables."""
    if table is None:
        if not names:
            raise InputError(f"{source} has no table", hint="read a view with table=…")
        return names
    known = [*names, *views]
    found = [(schema, name) for schema, name in known if table in (name, f"{schema}.{name}")]
    first = [one for one in found if one[0] == main] or found
    if len(first) > 1:
        several = ", ".join(f"{schema}.{name}" for schema, name in first)
        raise InputError(f"{source} has several tables {table}", hint=f"use one of {several}")
    if not first:
        plain = [name if schema == main else f"{schema}.{name}" for schema, name in known]
        raise InputError(f"{source} has no table {table}", suggestions=similar_names(table, plain))
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


class DuckDBTable:
    """A table or view of an open DuckDB connection; `table` is its name in SQL."""

    def __init__(self, connection: Any, source: str, table: str, name: str, *, own_cursor: bool = True) -> None:
        """`own_cursor` leaves the results of the connection alone, but sees none of its temporary tables."""
        self.source, self.name = source, name
        self._connection, self._table = connection.cursor() if own_cursor else connection, table
        described = connection.execute(f"DESCRIBE {table}").fetchall()
        self.columns: Mapping[str, ColumnKind] = {row[0]: duckdb_kind(row[1]) for row in described}

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


def duckdb_kind(kind: str) -> ColumnKind:
    """Return the kind of a column by the name of its type."""
    if kind in ("VARCHAR", "UUID") or kind.startswith("ENUM"):
        return "text"
    if kind.endswith("INT") or kind in ("INTEGER", "UINTEGER"):
        return "integer"
    if kind == "BOOLEAN":
        return "boolean"
    return "float" if kind in ("DOUBLE", "FLOAT") or kind.startswith("DECIMAL") else "other"


@dataclass
class _SQLiteTable:
    """A table of an open SQLite connection."""

    connection: Any
    source: str
    name: str

    def __post_init__(self) -> None:
        self.columns: Mapping[str, ColumnKind] = sqlite_columns(self.connection, self.name)

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

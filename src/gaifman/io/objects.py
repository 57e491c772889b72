"""Python objects that hold tables: data frames, Arrow data, arrays, lists of tuples and dictionaries of these.

>>> from gaifman.io import read
>>> [str(fact) for fact in read({"parent": [("ann", "bob")], "age": [("ann", 80.0)]}).facts()]
['parent(ann, bob).']

Nothing is imported: an object is recognised by its methods. Arrow streams are read by DuckDB, without pyarrow.
"""

# ruff: noqa: S608 - column names are quoted, and values are never put into SQL text
from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from itertools import chain, islice
from pathlib import PurePath
from typing import Any

import numpy as np

from gaifman.config import MAX_ARITY, Limits, ProgressCallback
from gaifman.errors import ArgumentError, InputError, Location, shorten
from gaifman.io.databases import (
    NO_DISK,
    Cell,
    ColumnKind,
    DuckDBTable,
    SourceTable,
    count_skipped_rows,
    plan_passes,
    plan_table,
    quote_identifier,
    quote_literal,
    read_tables,
    table_columns,
    takes_several_passes,
    translate_duckdb_errors,
)
from gaifman.io.files import BATCH_SIZE
from gaifman.io.mapped_tables import TableColumns, TableMapper
from gaifman.io.tabular import (
    DEFAULT_LAYOUTS,
    SAMPLE_ROWS,
    RowBatch,
    TableLayout,
    add_rows,
    check_cells,
    detect_layout,
    layout_for_format,
    mapped_columns,
    parse_header,
)
from gaifman.kb.builder import KnowledgeBaseBuilder
from gaifman.kb.knowledge_base import Fact, KnowledgeBase

READABLE = (
    "file names, database URLs, data frames (pandas, polars), Arrow tables, streams and datasets, numpy arrays, lists "
    "of tuples, dictionaries of relation and table, graphs of networkx and rdflib, relations and connections of DuckDB"
)
"""What `read` takes, for messages."""

_UNNAMED = re.compile(r"(?:column_?|col|f|V|X|_c)?([0-9]+)")
"""Names that libraries give to columns without a name: `0`, `column_1`, `col0`."""

Row = Sequence[object]


@dataclass(frozen=True, slots=True)
class TableReader:
    """Reads Python objects that hold tables into a builder."""

    limits: Limits
    builder: KnowledgeBaseBuilder
    format: str | None = None
    """Format of rows without column names; None to detect it."""
    header: bool | None = None
    """Whether the first row names the columns; None to detect it."""
    progress: ProgressCallback | None = None
    mapper: TableMapper | None = None
    """Reads tables by a mapping; None without one."""

    def read(self, found: object, source: str, name: str = "") -> None:
        """Read an object; `source` is its name for messages, `name` that of its relation, if it is known."""
        if isinstance(found, Mapping):
            self._read_mapping(found, source, name)
        elif is_of(found, "pandas") and hasattr(found, "columns"):
            self._read_pandas(found, source, name)
        elif isinstance(found, np.ndarray):
            self._read_array(found, source, name)
        elif (stream := _arrow_stream(found, source)) is not None:
            self._read_arrow(stream, source, name or _alias(found))
        elif isinstance(found, Iterable) and not _is_column(found) and not hasattr(found, "columns"):
            self._read_iterable(found, source, name)
        else:
            raise unknown_object(found)

    # Dictionaries

    def _read_mapping(self, found: Mapping[object, object], source: str, name: str) -> None:
        if not found:
            raise InputError(f"{source} is empty")
        for key, value in found.items():
            if not isinstance(key, str):
                hint = "keys are relations and values their facts: {'parent': [('ann', 'bob')]}"
                raise InputError(f"{source}: the key {shorten(repr(key))} is not text", hint=hint)
            if not _is_table_like(value):
                hint = f"give a list of tuples or a table; read files by themselves: gaifman.read({value!r})"
                raise InputError(f"{source}: {shorten(key)} is {describe(value)}, not a table", hint=hint)
        if name or _are_columns(found):
            self._read_columns(dict(found), source, name)  # type: ignore[arg-type]
            return
        for key, value in found.items():
            self.read(value, f"{source}, {describe(value)} of {shorten(str(key))}", str(key))

    def _read_columns(self, columns: Mapping[str, Any], source: str, name: str) -> None:
        """Read columns of the same length."""
        cells = {key: column.tolist() if hasattr(column, "tolist") else [*column] for key, column in columns.items()}
        lengths = {key: len(column) for key, column in cells.items()}
        if len(set(lengths.values())) > 1:
            described = ", ".join(f"{shorten(key)} ({length:,})" for key, length in lengths.items())
            raise InputError(f"{source}: the columns have different lengths: {described}")
        kinds = {key: _kind(column) for key, column in cells.items()}
        rows = next(iter(lengths.values()))
        self._read_table(PythonTable(source, name, kinds, rows, lambda key, a, b: cells[key][a:b]))

    # Tables with named columns

    def _read_table(self, table: SourceTable) -> None:
        if not (self.mapper and self.mapper.concerns(table_columns(table))):
            layout = plan_table(table, self.limits, self.mapper)[0].layout
            check_named(table)
            self._add_note(layout.format, table.source)
        read_tables([table], self.limits, self.builder, self.progress, self.mapper)

    def _read_pandas(self, frame: Any, source: str, name: str) -> None:
        if any(label is not None for label in frame.index.names):
            frame = frame.reset_index()
        if _are_unnamed(frame.columns):
            values = (frame.iloc[a : a + BATCH_SIZE] for a in range(0, len(frame), BATCH_SIZE))
            columns = ([_pandas_cells(part.iloc[:, c]) for c in range(part.shape[1])] for part in values)
            self.read_rows((row for part in columns for row in zip(*part, strict=True)), source, name)
            return
        names = [str(column) for column in frame.columns]
        _check_distinct(names, source)
        kinds = {key: _pandas_kind(frame.iloc[:, c]) for c, key in enumerate(names)}
        places = {key: c for c, key in enumerate(names)}
        table = PythonTable(
            source, name, kinds, len(frame), lambda key, a, b: _pandas_cells(frame.iloc[a:b, places[key]])
        )
        self._read_table(table)

    def _read_array(self, array: Any, source: str, name: str) -> None:
        if array.dtype.names:
            if array.ndim != 1:
                raise InputError(f"{source}: a structured array must have one dimension, got {array.ndim}")
            kinds = {key: _kind(array[key].tolist()) for key in array.dtype.names}
            table = PythonTable(source, name, kinds, len(array), lambda key, a, b: array[key][a:b].tolist())
            self._read_table(table)
            return
        if array.ndim != 2:
            hint = "a row is a fact: head, relation, tail"
            raise InputError(f"{source}: the array must have two dimensions, got {array.ndim}", hint=hint)
        if array.dtype.kind not in "OSTUiuf":
            raise InputError(f"{source}: an array of {array.dtype} holds no names", hint="names are text or integers")
        parts = (array[start : start + BATCH_SIZE].tolist() for start in range(0, len(array), BATCH_SIZE))
        self.read_rows(chain.from_iterable(parts), source, name)

    def _read_arrow(self, stream: Any, source: str, name: str) -> None:
        with _arrow_table(stream, source, name, self.builder) as table:
            if _are_unnamed(table.columns):
                batches = table.fetch([*table.columns], None, None)
                self.read_rows(chain.from_iterable(batches), source, name)
            else:
                self._read_table(table)

    # Rows without column names

    def _read_iterable(self, found: Iterable[Any], source: str, name: str) -> None:
        rows = iter(found)
        first = next(rows, None)
        rows = chain([] if first is None else [first], rows)
        if isinstance(first, Mapping):
            self._read_records([*rows], source, name)
        elif isinstance(first, Fact) and not name:
            self._read_facts(rows, source)
        else:
            self.read_rows(rows, source, name)

    def _read_records(self, records: Sequence[Mapping[str, object]], source: str, name: str) -> None:
        keys = dict.fromkeys(chain.from_iterable(records))
        self._read_columns({str(key): [record.get(key) for record in records] for key in keys}, source, name)

    def _read_facts(self, facts: Iterable[Fact], source: str) -> None:
        rows = ((fact.relation, float(fact.confidence), *fact.objects) for fact in facts)
        layout = TableLayout("nary", 0, None, 1)
        for batch in _batches(rows, source, self.builder):
            add_rows(batch.rows(layout), layout, self.builder)

    def read_rows(self, rows: Iterable[Any], source: str, name: str = "") -> None:
        """Read rows without column names. Of a named relation they are its objects; else the columns are detected."""
        layout, plan = None, None
        for batch in _batches(rows, source, self.builder, named=bool(name)):
            if plan is None and layout is None and self.mapper:
                columns = mapped_columns(source, name, batch.cells[0], self.header, self.mapper)
                if columns and columns.locate:
                    batch = batch.tail(1)  # noqa: PLW2901
                plan = self.mapper.start(columns, batch.texts(columns), self.builder) if columns else None
            if plan:
                plan.add(batch.texts(plan.columns), self.builder)
                continue
            if layout is None and name:
                layout = batch.named_layout()
            elif layout is None:
                layout = self._detect_layout(batch)
                batch = batch.tail(1) if layout.header else batch  # noqa: PLW2901
            prepared = batch.with_relation(name, layout) if name else batch
            add_rows(prepared.rows(layout), layout, self.builder)

    def _detect_layout(self, batch: RowCells) -> TableLayout:
        sample = [[*map(str, row)] for row in batch.cells[:SAMPLE_ROWS]]
        found = (
            layout_for_format(self.format, sample, self.header) if self.format else detect_layout(sample, self.header)
        )
        if not isinstance(found, TableLayout):
            columns = TableColumns(batch.source, "", tuple(sample[0]))
            if self.mapper and (missing := self.mapper.missing_in(columns)):
                raise missing  # a mistake in the mapping, not in the table
            hint = found.hint.replace("set --input-format types", 'pass format="types"')
            raise InputError(found.message, location=batch.location(0, found.column), hint=hint)
        if found.header:
            example = f"{batch.source}: {', '.join(map(shorten, sample[0]))}"
            self.builder.add_note(1, "first lines read as headers", example, "first line read as a header")
        self._add_note(found.format, batch.source)
        return found

    def _add_note(self, kind: str, source: str) -> None:
        self.builder.add_note(1, f"tables read as {kind}", source, f"table read as {kind}")


@dataclass(frozen=True, slots=True)
class RowCells:
    """Some rows whose cells are texts and numbers."""

    source: str
    cells: Sequence[Row]
    lines: Sequence[int]
    """Number of each row, from 1."""

    def rows(self, layout: TableLayout) -> RowBatch:
        """Return the rows as text, after a check that only numbers are fractions."""
        flat = list(chain.from_iterable(self.cells))
        widths = np.fromiter(map(len, self.cells), np.int64, len(self.cells))
        if set(map(type, flat)) != {str}:
            self._check_names(layout)
            flat = [cell if type(cell) is str else repr(cell) for cell in flat]
        return RowBatch(self.source, flat, widths, np.array(self.lines, np.int64), "\t")  # type: ignore[arg-type]

    def texts(self, columns: TableColumns) -> RowBatch:
        """Return the rows as text, each with a cell for each column."""
        flat = [cell if isinstance(cell, str) else repr(cell) for cell in chain.from_iterable(self.cells)]
        widths = np.fromiter(map(len, self.cells), np.int64, len(self.cells))
        rows = RowBatch(self.source, flat, widths, np.array(self.lines, np.int64), "\t")
        check_cells(rows, columns)
        return rows

    def _check_names(self, layout: TableLayout) -> None:
        for number, row in enumerate(self.cells):
            for column, cell in enumerate(row):
                if type(cell) is float and column != layout.number_column:
                    hint = "convert integers with array.astype(int); numbers are the last column"
                    message = f"a name must be text or an integer, got {cell!r}"
                    raise InputError(message, location=self.location(number, column), hint=hint)

    def named_layout(self) -> TableLayout:
        """Return the layout of the objects of one relation: a last column of fractions is a confidence or a value."""
        fractions = all(len(row) > 1 and type(row[-1]) is float for row in self.cells) and bool(self.cells)
        if fractions and all(len(row) == 2 for row in self.cells):
            return DEFAULT_LAYOUTS["attributes"]
        return TableLayout("nary", 0, None, 1 if fractions else None)

    def with_relation(self, name: str, layout: TableLayout) -> RowCells:
        """Return the rows with the name of their relation, in the order of the layout."""
        cells: list[Row]
        if layout.format == "attributes":
            cells = [(row[0], name, *row[1:]) for row in self.cells]
        elif layout.number_column:
            cells = [(name, row[-1], *row[:-1]) for row in self.cells]
        else:
            cells = [(name, *row) for row in self.cells]
        return RowCells(self.source, cells, self.lines)

    def tail(self, first: int) -> RowCells:
        """Return the rows from `first` on."""
        return RowCells(self.source, self.cells[first:], self.lines[first:])

    def location(self, row: int, column: int) -> Location:
        """Return the location of a cell."""
        return row_location(self.source, self.lines[row], self.cells[row], column)


def row_location(source: str, line: int, row: Row, column: int) -> Location:
    """Return the location of a cell in the text of its row."""
    texts = [cell if isinstance(cell, str) else repr(cell) for cell in row]
    start = sum(map(len, texts[:column])) + min(column, len(texts))
    width = len(texts[column]) if column < len(texts) else 1
    return Location(source, line, start + 1, "\t".join(texts), max(width, 1))


def _batches(
    rows: Iterable[Any], source: str, builder: KnowledgeBaseBuilder, *, named: bool = False
) -> Iterator[RowCells]:
    """Yield the rows in batches, as texts and numbers; rows with None or NaN are skipped."""
    rows, line = iter(rows), 1
    while chunk := list(islice(rows, BATCH_SIZE)):
        lines: Sequence[int] = range(line, line + len(chunk))
        chunk = [_row(row, source, at, named) for at, row in zip(lines, chunk, strict=True)]
        if set(map(type, chain.from_iterable(chunk))) != {str}:
            chunk = [
                tuple(_cell(cell, source, at, row, c) for c, cell in enumerate(row))
                for at, row in zip(lines, chunk, strict=True)
            ]
            kept = [(at, row) for at, row in zip(lines, chunk, strict=True) if None not in row]
            count_skipped_rows(len(chunk) - len(kept), source, line, builder)
            lines, chunk = [at for at, _ in kept], [row for _, row in kept]
        line += BATCH_SIZE
        if chunk:
            yield RowCells(source, chunk, lines)


def _row(row: object, source: str, line: int, named: bool) -> Row:
    """Return a row as a sequence of cells; of a named relation, one name is a row too."""
    if isinstance(row, tuple | list):
        return row
    if isinstance(row, np.void) or (isinstance(row, np.ndarray) and row.ndim == 1):
        return row.tolist()
    if named and _is_name(row):
        return (row,)
    if isinstance(row, str | PurePath):
        hint = "give files one by one: gaifman.read(*names); a list of one fact is [('ann', 'parent', 'bob')]"
    else:
        hint = "write each row as a tuple: ('ann', 'parent', 'bob')"
    raise ArgumentError(f"{source}, row {line}: {describe(row)} is not a tuple", hint=hint)


def _cell(cell: object, source: str, line: int, row: Row, column: int) -> Cell:
    """Return a cell as text or a number: bytes are UTF-8, an integer is its decimal text."""
    found = _plain(cell)
    if found is not _UNKNOWN:
        return found  # type: ignore[return-value]
    location = row_location(source, line, row, column)
    if isinstance(cell, bytes | bytearray):
        raise InputError("these bytes are not UTF-8", location=location, hint="decode them: name.decode('latin-1')")
    hint = "convert it to text with str()"
    raise InputError(f"a name must be text or an integer, got {describe(cell)}", location=location, hint=hint)


_UNKNOWN = object()


def _plain(cell: object) -> object:
    """Return text, a float, or None if there is no value; `_UNKNOWN` for what is neither name nor number."""
    if isinstance(cell, str):
        return str(cell)
    if cell is None or type(cell).__name__ in ("NAType", "NaTType"):
        return None
    if isinstance(cell, bool | np.bool_):
        return _UNKNOWN
    if isinstance(cell, int | np.integer | uuid.UUID):
        return str(cell)
    if isinstance(cell, float | np.floating | Decimal):
        return None if cell != cell else float(cell)  # noqa: PLR0124 - NaN
    if isinstance(cell, bytes | bytearray):
        try:
            return bytes(cell).decode()
        except UnicodeDecodeError:
            return _UNKNOWN
    return _UNKNOWN


def _is_name(cell: object) -> bool:
    return cell is None or isinstance(cell, str | int | bytes | np.integer | uuid.UUID)


# Columns of Python values


@dataclass
class PythonTable:
    """A table whose columns are sequences in memory."""

    source: str
    name: str
    columns: Mapping[str, ColumnKind]
    count: int
    """Number of rows."""
    cells: Callable[[str, int, int], Sequence[object]]
    """Column, first and last row → its cells."""

    def fetch(
        self, columns: Sequence[str], not_null: str | None, is_null: str | None
    ) -> Iterator[Sequence[Sequence[Cell]]]:
        """Yield batches of rows, as text and numbers."""
        needed = [*columns, *(name for name in (not_null, is_null) if name and name not in columns)]
        for first in range(0, self.count, BATCH_SIZE):
            parts = [self._column(name, first, min(first + BATCH_SIZE, self.count)) for name in needed]
            rows = list(zip(*parts, strict=True))
            if not_null:
                rows = [row for row in rows if row[needed.index(not_null)] is not None]
            if is_null:
                rows = [row for row in rows if row[needed.index(is_null)] is None]
            yield [row[: len(columns)] for row in rows]

    def _column(self, name: str, first: int, last: int) -> list[Cell]:
        cells = self.cells(name, first, last)
        if set(map(type, cells)) == {str}:
            return [*cells]  # type: ignore[list-item]
        source = f"{self.source}, column {shorten(name)}"
        return [_cell(cell, source, first + at + 1, [cell], 0) for at, cell in enumerate(cells)]

    def interrupt(self) -> None:
        """Do nothing: the rows are in memory."""


def _kind(cells: Iterable[object]) -> ColumnKind:
    """Return the kind of a column by its values.

    >>> _kind(["a", 1]), _kind([1, None]), _kind([1, 2.5]), _kind([True]), _kind([[]])
    ('text', 'integer', 'float', 'boolean', 'other')
    """
    examples = {type(cell): cell for cell in cells if cell is not None}
    kinds = {_kind_of(cell) for cell in examples.values()} - {None}
    if kinds <= {"integer"}:
        return "integer" if kinds else "text"
    if kinds <= {"integer", "float"}:
        return "float"
    if kinds <= {"integer", "text"}:
        return "text"
    return "boolean" if kinds == {"boolean"} else "other"


def _kind_of(cell: object) -> ColumnKind | None:
    if isinstance(cell, bool | np.bool_):
        return "boolean"
    if isinstance(cell, int | np.integer):
        return "integer"
    if isinstance(cell, float | np.floating | Decimal):
        return "float"
    if isinstance(cell, str | bytes | bytearray | uuid.UUID):
        return "text"
    return None if type(cell).__name__ in ("NAType", "NaTType") else "other"


def _pandas_kind(column: Any) -> ColumnKind:
    kinds: dict[str, ColumnKind] = {
        "i": "integer",
        "u": "integer",
        "f": "float",
        "b": "boolean",
        "M": "other",
        "m": "other",
    }
    kind = getattr(column.dtype, "kind", "O")
    return kinds[kind] if kind in kinds else _kind(_pandas_cells(column))


def _pandas_cells(column: Any) -> list[object]:
    """Return the cells of a column. Integers that pandas made floats, because some are missing, are integers again."""
    cells = np.array(column.to_numpy(dtype=object))
    missing = column.isna().to_numpy()
    if getattr(column.dtype, "kind", "") == "f" and missing.any():
        numbers = column.to_numpy(dtype=np.float64, na_value=np.nan)[~missing]
        if np.isfinite(numbers).all() and (numbers == np.floor(numbers)).all():
            cells[~missing] = numbers.astype(np.int64)
    cells[missing] = None
    return cells.tolist()  # type: ignore[no-any-return]


# Arrow


def _arrow_stream(found: Any, source: str) -> Any:
    """Return an object with an Arrow stream; None if the object has none."""
    try:
        if _module(found) == "polars" and hasattr(found, "collect"):
            return found.collect()
        if _module(found) == "pyarrow" and hasattr(found, "scanner"):
            return found.scanner().to_reader()
        if _module(found) == "pyarrow" and hasattr(found, "to_reader") and not hasattr(found, "__arrow_c_stream__"):
            return found.to_reader()
    except Exception as error:
        raise InputError(f"{source} cannot be read: {shorten(str(error), 200)}") from error
    return found if hasattr(found, "__arrow_c_stream__") and not _is_column(found) else None


@contextmanager
def _arrow_table(stream: Any, source: str, name: str, builder: KnowledgeBaseBuilder) -> Iterator[DuckDBTable]:
    """Yield the table of an Arrow stream. It is read as it comes, or into memory if it takes several passes."""
    import duckdb

    with translate_duckdb_errors(source), duckdb.connect(config=dict(NO_DISK)) as connection:
        connection.from_arrow(stream.__arrow_c_stream__()).create_view("stream")
        described = connection.execute("DESCRIBE stream").fetchall()
        kinds = {row[0]: row[1] for row in described}
        used = [column for column, kind in kinds.items() if kind.strip('"') != "NULL"]
        if len(used) < len(kinds):
            builder.add_note(
                len(kinds) - len(used), "columns without values skipped", source, "column without values skipped"
            )
        if not used:
            raise InputError(f"{source} has no columns with values")
        parts = ", ".join(_decoded(column) if kinds[column] == "BLOB" else quote_identifier(column) for column in used)
        connection.execute(f"CREATE VIEW rows AS SELECT {parts} FROM stream")
        table = DuckDBTable(connection, source, "rows", name, own_cursor=False)
        if not _are_unnamed(used) and takes_several_passes(table):
            connection.execute("CREATE TABLE stored AS FROM rows")
            table = DuckDBTable(connection, source, "stored", name, own_cursor=False)
        yield table


def _decoded(column: str) -> str:
    """Return SQL for a column of bytes as text."""
    name, message = quote_identifier(column), f"the column {shorten(column)} holds bytes that are not UTF-8"
    wrong = f"{name} IS NOT NULL AND try(decode({name})) IS NULL"
    return f"CASE WHEN {wrong} THEN error({quote_literal(message)}) ELSE decode({name}) END AS {name}"


# What an object is


def is_of(found: object, library: str) -> bool:
    """Whether a class of an object is of a library."""
    return any(cls.__module__.split(".", 1)[0] == library for cls in type(found).__mro__)


def _module(found: object) -> str:
    """Return the first part of the name of the module of an object's class."""
    return type(found).__module__.split(".", 1)[0]


def _alias(found: Any) -> str:
    """Return the name of a DuckDB relation, if it has one."""
    alias = getattr(found, "alias", "") if _module(found) in ("duckdb", "_duckdb") else ""
    return alias if isinstance(alias, str) and not alias.startswith("unnamed_relation") else ""


def describe(found: object) -> str:
    """Return what an object is, for messages.

    >>> describe([1]), describe(5), describe("ann")
    ('list', '5', "'ann'")
    """
    if found is None or isinstance(found, str | bytes | int | float | PurePath):
        return shorten(repr(found))
    if isinstance(found, np.ndarray):
        return "numpy array"
    library = {"_duckdb": "DuckDB", "duckdb": "DuckDB", "builtins": "", "_io": ""}.get(_module(found), _module(found))
    return f"{library} {type(found).__name__.removeprefix('DuckDBPy')}".strip()


def unknown_object(found: object) -> ArgumentError:
    """Return the error for an object that cannot be read, with the nearest remedy."""
    return ArgumentError(f"{describe(found)} cannot be read", hint=f"{_remedy(found)}. read takes {READABLE}")


def _remedy(found: object) -> str:
    if isinstance(found, KnowledgeBase):
        return "it is a knowledge base already; gaifman.union joins several"
    if isinstance(found, bytes | bytearray):
        return "write the bytes to a file and give its name, or '-' for standard input"
    if hasattr(found, "read"):
        return "give the name of the file, or '-' for standard input"
    methods = {
        "to_frame": "to_frame(), or the whole data frame",
        "toPandas": "toPandas()",
        "to_pandas": "to_pandas()",
        "to_arrow": "to_arrow()",
        "compute": "compute()",
        "numpy": "numpy()",
        "tolist": "tolist()",
    }
    for method, call in methods.items():
        if callable(getattr(found, method, None)):
            return f"give its .{call}"
    if hasattr(found, "cursor") or hasattr(found, "connect"):
        return "give the URL of the database: postgresql://user@host/db"
    return "make a list of tuples of it: [('ann', 'parent', 'bob')]"


def _is_column(found: object) -> bool:
    """Whether an object is one column, text or a file."""
    names = [cls.__name__ for cls in type(found).__mro__]
    one = not {"Series", "ChunkedArray", "Array", "Tensor", "Index"}.isdisjoint(names) and not hasattr(found, "columns")
    return one or isinstance(found, str | bytes | bytearray | KnowledgeBase) or hasattr(found, "read")


def _is_table_like(found: object) -> bool:
    """Whether a value of a dictionary can be a table."""
    arrow = any(hasattr(found, name) for name in ("__arrow_c_stream__", "scanner", "collect"))
    return arrow or (isinstance(found, Iterable) and not _is_column(found))


def _are_unnamed(columns: Iterable[object]) -> bool:
    """Whether a library has numbered the columns, from 0 or 1.

    >>> _are_unnamed([0, 1, 2]), _are_unnamed(["column_1", "column_2"]), _are_unnamed(["a1", "a2"])
    (True, True, False)
    """
    matches = [_UNNAMED.fullmatch(str(column)) for column in columns]
    numbers = [int(match[1]) for match in matches if match]
    return len(numbers) == len(matches) and numbers in ([*range(len(numbers))], [*range(1, len(numbers) + 1)])


def _are_columns(found: Mapping[object, Any]) -> bool:
    """Whether a dictionary maps the columns of facts to their cells."""
    if parse_header([str(key) for key in found]) is None:
        return False
    examples = [next(iter(value), None) for value in found.values() if hasattr(value, "__len__")]
    return len(examples) == len(found) and all(_is_name(one) or isinstance(one, float) for one in examples)


def _check_distinct(names: Sequence[str], source: str) -> None:
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        raise InputError(f"{source} has several columns {shorten(repeated)}")


def check_named(table: SourceTable) -> None:
    """Refuse a table whose columns are the objects of one relation, if the name of the relation is not known."""
    if not table.name and any(plan.constant and plan.constant[0] == 0 for plan in plan_passes(table)):
        columns = ", ".join(map(shorten, list(table.columns)[:MAX_ARITY]))
        raise InputError(
            f"{table.source}: no column names the relation: {columns}",
            hint='give the relation: gaifman.read({"works_in": table}), or name the columns head, relation, tail',
        )

"""Tables that are read by a mapping, from files, databases and Python objects alike.

A table is its column names and batches of rows (`TableBatch`). `TableMapper.plan` finds the columns of the mapping in a
table, and decides by its first batch what the others hold; `TablePlan.add` gives the facts of a batch to the builder.

>>> from gaifman.io.mapping import make_mapping
>>> builder = KnowledgeBaseBuilder()
>>> rows = ListBatch("staff.csv", [["ann", "sales", "34"], ["bob", "hr", ""]])
>>> mapper = TableMapper(make_mapping(id="name", wide=True))
>>> plan = mapper.plan(TableColumns("staff.csv", "staff", ("name", "dept", "age")), rows)
>>> plan.add(rows, builder)
>>> kb = builder.build()
>>> [str(fact) for fact in kb.facts()], kb.value("age", "ann")
(['dept(ann, sales).', 'dept(bob, hr).'], 34.0)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Final, Protocol

import numpy as np

from gaifman.errors import InputError, Location, shorten, similar_names
from gaifman.io.cells import COMMA_HINT, COMMA_NUMBER, are_whole, is_number, parse_numbers
from gaifman.io.mapping import Clause, Column, TableMapping, quote_name
from gaifman.kb.builder import NUMBER_FIELD, KnowledgeBaseBuilder
from gaifman.kb.knowledge_base import format_name
from gaifman.kb.tables import Floats, Ints
from gaifman.threads import cached_property

MAX_SHOWN: Final = 12
"""Column names that an error lists."""
_ID_END = re.compile(r"(?i:(?<=\S)[\s_.-]+id|^id)$|(?<=[a-z0-9])I[dD]$")
_SPACES = re.compile(r"[\s_.-]+")


class TableBatch(Protocol):
    """Some rows of a table, as text."""

    def __len__(self) -> int:
        """Number of rows."""

    def column(self, number: int) -> Sequence[str]:
        """Return the cells of a column, one of each row; an empty text where nothing is known."""

    def location(self, row: int, field: int) -> Location:
        """Return the location of a cell."""


class ListBatch:
    """Rows in a list."""

    def __init__(self, source: str, rows: Sequence[Sequence[str]], first: int = 1) -> None:
        self._source, self._rows, self._first = source, rows, first

    def __len__(self) -> int:
        return len(self._rows)

    def column(self, number: int) -> list[str]:
        """Return the cells of a column."""
        return [row[number] for row in self._rows]

    def location(self, row: int, field: int) -> Location:
        """Return the location of a cell: the number of its row, and its place in the row with tabs between cells."""
        cells = self._rows[row]
        start = sum(map(len, cells[:field])) + field + 1
        return Location(self._source, self._first + row, start, "\t".join(cells), max(len(cells[field]), 1))


def remove_id(column: str) -> str:
    """Return the name of a column without `_id`: what its numbers identify.

    >>> [remove_id(name) for name in ("user_id", "itemId", "Dept ID", "id", "paid")]
    ['user', 'item', 'Dept', '', 'paid']
    """
    return _ID_END.sub("", column.strip())


@dataclass(frozen=True, eq=False)
class TableColumns:
    """The columns of a table."""

    source: str
    """File and table, for messages."""
    table: str
    """Name of the table: the kind of its column `id`, and what may stand before a column: `staff.age`."""
    names: tuple[str, ...]
    kinds: Mapping[str, str] = field(default_factory=dict)
    """Column → kind of its objects, where a foreign key or other declaration says it."""
    texts: frozenset[str] = frozenset()
    """Columns of text: their digits are names, not numbers."""
    locate: Callable[[int], Location] | None = None
    """Column → location of its name."""

    @cached_property
    def _plain(self) -> list[str]:
        return [_plain(name) for name in self.names]

    def find(self, column: Column) -> int | None:
        """Return the number of a column: by its name, `table.name`, a name that differs in case, or its number."""
        exact = self._matches(self.names, column.name) or self._matches(
            [f"{self.table}.{name}" for name in self.names], column.name
        )
        found = exact or self._matches(self._plain, _plain(column.name))
        if len(found) > 1:
            raise self._duplicate(found)
        if found:
            return found[0]
        number = int(column.name) if column.name.isascii() and column.name.isdigit() and len(column.name) < 6 else 0
        return number - 1 if 1 <= number <= len(self.names) else None

    def has_name(self, column: Column) -> bool:
        """Return whether a column has this name, not number."""
        wanted = {column.name, column.name.removeprefix(f"{self.table}.")}
        return any(name in wanted or _plain(name) == _plain(column.name) for name in self.names if name)

    @staticmethod
    def _matches(names: Sequence[str], name: str) -> list[int]:
        return [number for number, other in enumerate(names) if other == name and name]

    def _duplicate(self, found: list[int]) -> InputError:
        name = shorten(self.names[found[1]])
        numbers = " and ".join(str(number + 1) for number in found[:2])
        if self.names[found[0]] == self.names[found[1]]:
            message = f"two columns are called {name}: {numbers}"
        else:
            message = f"{numbers} are columns called {name}, but for the case or spaces"
        place = self.locate(found[1]) if self.locate else None
        where = "" if place else f"{self.source}: "
        return InputError(f"{where}{message}", location=place, hint="rename one of them in the table")

    def check_unique(self, used: Iterable[int]) -> None:
        """Refuse two columns with one name."""
        first: dict[str, int] = {}
        for number in used:
            if first.setdefault(self.names[number], number) != number:
                raise self._duplicate([first[self.names[number]], number])

    def missing(self, column: Column) -> InputError:
        """Return the error of a column that the table does not have."""
        shown = ", ".join(shorten(name) for name in self.names[:MAX_SHOWN] if name)
        more = len(self.names) - MAX_SHOWN
        return InputError(
            f"{self.source} has no column {shorten(column.name)}",
            location=column.location,
            suggestions=similar_names(column.name, [name for name in self.names if name]),
            hint=f"its columns are {shown}" + (f" and {more:,} more" if more > 0 else ""),
        )


def _plain(name: str) -> str:
    """Return the name in small letters, with `_` for spaces and signs."""
    return _SPACES.sub("_", name.strip().lower())


@dataclass(frozen=True, slots=True)
class _ObjectColumn:
    number: int
    prefix: str
    """`kind/`, or empty."""
    splits: bool

    def name(self, cell: str) -> str:
        if not self.prefix or not cell:
            return cell
        whole, dot, zeros = cell.partition(".")
        return self.prefix + (whole if dot and not zeros.strip("0") and whole.isdigit() else cell)


@dataclass(frozen=True, slots=True)
class _PlannedClause:
    clause: Clause
    relation: _ObjectColumn | None
    """Column of the relation's name; None if it has one name in all rows."""
    objects: tuple[_ObjectColumn, ...]
    value: int | None
    confidence: int | None

    @property
    def numbers(self) -> list[int]:
        """All columns."""
        named = [self.relation.number] if self.relation else []
        others = [number for number in (self.value, self.confidence) if number is not None]
        return [*named, *(one.number for one in self.objects), *others]


class TableMapper:
    """Plans tables by a mapping, and knows which of its clauses were used."""

    def __init__(self, mapping: TableMapping, implied: bool = False) -> None:
        """`implied` means that the table's columns say the mapping, not the user."""
        self.mapping, self._implied = mapping, implied
        self._tables: list[TableColumns] = []
        self._used: set[Clause] = set()
        self._id_used = mapping.id is None

    def names_columns(self, columns: TableColumns) -> bool:
        """Return whether the mapping names a column of the table."""
        return any(columns.has_name(column) for column in self.mapping.columns)

    def concerns(self, columns: TableColumns) -> bool:
        """Return whether the mapping says how to read a table."""
        return bool(self._clauses(columns)) or (self.mapping.wide and self._row_id(columns) is not None)

    def _clauses(self, columns: TableColumns) -> list[Clause]:
        found = self.mapping.clauses
        return [one for one in found if all(columns.find(column) is not None for column in one.columns)]

    def _row_id(self, columns: TableColumns) -> int | None:
        """Return the column of the object that a row describes: by default the first of a wide table."""
        return columns.find(self.mapping.id) if self.mapping.id else 0 if self.mapping.wide else None

    def plan(self, columns: TableColumns, first: TableBatch) -> TablePlan | None:
        """Return the plan of a table by its columns and first rows; None if the mapping does not concern it."""
        if columns not in self._tables:
            self._tables.append(columns)
        if not self.concerns(columns):
            return None
        clauses, row_id = self._clauses(columns), self._row_id(columns)
        self._used.update(clauses)
        self._id_used |= row_id is not None
        return _Planner(self.mapping, columns, first, row_id, clauses).plan(self.mapping.wide and row_id is not None)

    def start(self, columns: TableColumns, first: TableBatch, builder: KnowledgeBaseBuilder) -> TablePlan:
        """Return the plan of a table that the mapping concerns, and note how it is read."""
        plan = self.plan(columns, first)
        assert plan is not None
        if not self._implied:
            plan.note_reading(builder)
        plan.note_kinds(builder)
        return plan

    def check_used(self) -> None:
        """Raise for the first column of the mapping that no table has."""
        if groups := self._unused():
            raise self.missing(groups[0])

    def _unused(self) -> list[tuple[Column, ...]]:
        """Return the columns of each part of the mapping that no table has so far."""
        mapping = self.mapping
        groups: list[tuple[Column, ...]] = [(mapping.id,)] if mapping.id and not self._id_used else []
        groups += [clause.columns for clause in mapping.clauses if clause not in self._used]
        return groups + [
            (column,) for column in mapping.ignore if all(table.find(column) is None for table in self._tables)
        ]

    def missing(self, wanted: Sequence[Column], tables: Sequence[TableColumns] = ()) -> InputError:
        """Return the error of columns that no table has together, by the table that has most of them."""
        known = [table for table in tables or self._tables if table.names]
        if not known:
            hint = "a mapping is for tables: text, Parquet, databases and Python objects with columns"
            return InputError("there is no table for the mapping", location=wanted[0].location, hint=hint)
        nearest = max(known, key=lambda table: sum(table.find(column) is not None for column in wanted))
        return nearest.missing(next(column for column in wanted if nearest.find(column) is None))

    def missing_in(self, columns: TableColumns) -> InputError | None:
        """Return the error of a table that cannot be read without the mapping, whose columns it does not have."""
        groups = self._unused()
        return self.missing(groups[0], [columns]) if groups else None


@dataclass
class _Planner:
    """Makes the plan of one table."""

    mapping: TableMapping
    columns: TableColumns
    first: TableBatch
    row_id: int | None
    """Column of the object that a row describes."""
    clauses: list[Clause]

    def plan(self, wide: bool) -> TablePlan:
        clauses = self.clauses + (self._wide_clauses() if wide else [])
        planned = tuple(map(self._planned, clauses))
        read = {number for one in planned for number in one.numbers}
        unread = tuple(name for number, name in enumerate(self.columns.names) if number not in read)
        row_id = self._object(Column(self._reference(self.row_id or 0)), False) if wide else None
        return TablePlan(self.columns, planned, self.mapping.separator, unread, row_id)

    def _cells(self, number: int) -> list[str]:
        return [cell.strip() for cell in self.first.column(number)]

    def _is_whole(self, number: int) -> bool:
        return self.columns.names[number] not in self.columns.texts and are_whole(self._cells(number))

    @cached_property
    def _declared(self) -> dict[int, set[str]]:
        """Column → the kinds that the mapping declares for it."""
        declared: dict[int, set[str]] = {}
        for column in [
            *([self.mapping.id] if self.mapping.id else []),
            *(c for one in self.clauses for c in one.objects),
        ]:
            number = self.columns.find(column)
            if column.kind is not None and number is not None:
                declared.setdefault(number, set()).add(column.kind)
        return declared

    def kind(self, number: int) -> str:
        """Return the kind of a column whose clause declares none; empty if its cells are names as they are."""
        declared = self._declared.get(number, set())
        if len(declared) == 1:
            return next(iter(declared))
        if not self._is_whole(number):
            return ""
        name = self.columns.names[number]
        return self.columns.kinds.get(name) or remove_id(name) or self.columns.table

    def _planned(self, clause: Clause) -> _PlannedClause:
        objects = tuple(self._object(column, isinstance(clause.relation, Column)) for column in clause.objects)
        relation = None
        if isinstance(clause.relation, Column):
            relation = _ObjectColumn(self._number(clause.relation), "", self.mapping.separator is not None)
        value, confidence = (None if one is None else self._number(one) for one in (clause.value, clause.confidence))
        return _PlannedClause(clause, relation, objects, value, confidence)

    def _number(self, column: Column) -> int:
        number = self.columns.find(column)
        assert number is not None
        return number

    def _object(self, column: Column, in_triples: bool) -> _ObjectColumn:
        """Plan a column. Where a column names the relation, others hold objects of all kinds, but for `user_id`."""
        number = self._number(column)
        kind = column.kind
        if kind is None:
            name = self.columns.names[number]
            of_all_kinds = in_triples and number not in self._declared and remove_id(name) in ("", name)
            kind = "" if of_all_kinds else self.kind(number)
        splits = self.mapping.separator is not None and number != self.row_id
        return _ObjectColumn(number, f"{kind}/" if kind else "", splits)

    def _wide_clauses(self) -> list[Clause]:
        """Return the clauses of the columns that the mapping does not name."""
        assert self.row_id is not None
        named = {self.row_id, *(self._number(column) for one in self.clauses for column in one.columns)}
        named.update(number for column in self.mapping.ignore if (number := self.columns.find(column)) is not None)
        rest = [number for number, name in enumerate(self.columns.names) if number not in named and name]
        self.columns.check_unique([self.row_id, *rest])
        return [self._wide_clause(number) for number in rest]

    def _wide_clause(self, number: int) -> Clause:
        name, subject = self.columns.names[number], Column(self._reference(self.row_id or 0))
        column = Column(self._reference(number))
        relation = remove_id(name) or name
        if relation == name and name not in self.columns.kinds and self._holds_numbers(number):
            return Clause(name, (subject,), column)
        taken = [remove_id(other) for other in self.columns.names]
        return Clause(relation if taken.count(relation) == 1 else name, (subject, column))

    def _reference(self, number: int) -> str:
        return self.columns.names[number] or str(number + 1)

    def _holds_numbers(self, number: int) -> bool:
        """Return whether a column holds numbers; one that holds some, or numbers with commas, is refused."""
        if self.columns.names[number] in self.columns.texts:
            return False
        cells = self._cells(number)
        known = [row for row, cell in enumerate(cells) if cell]
        others = [row for row in known if not is_number(cells[row])]
        commas = sum(COMMA_NUMBER.fullmatch(cells[row]) is not None for row in others)
        if 2 * (len(known) - len(others) + commas) <= len(known) or not known:
            return False
        if others:
            raise self._mixed(number, others[0], cells[others[0]])
        return True

    def _mixed(self, number: int, row: int, cell: str) -> InputError:
        name, comma = self.columns.names[number], COMMA_NUMBER.fullmatch(cell)
        subject = self._reference(self.row_id or 0)
        names = f"--map {_shell(f'{quote_name(subject)} {quote_name(name)} {quote_name(name)}')} reads names"
        remedy = COMMA_HINT if comma else "leave a cell empty where nothing is known"
        return InputError(
            f"the column {shorten(name)} holds numbers, but {shorten(repr(cell))} is none",
            location=self.first.location(row, number),
            hint=f"{remedy}; {names}",
        )


def _shell(text: str) -> str:
    """Return a text in quotes for a shell."""
    return f"'{text}'" if '"' in text else f'"{text}"'


@dataclass(frozen=True)
class TablePlan:
    """How the rows of a table become facts and values."""

    columns: TableColumns
    clauses: tuple[_PlannedClause, ...]
    separator: str | None
    unread: tuple[str, ...]
    """Columns that are not read."""

    row_id: _ObjectColumn | None
    """Column of the object of each row, which is known also without facts; None if rows are no objects."""

    def note_reading(self, builder: KnowledgeBaseBuilder) -> None:
        """Note how the table is read, and which columns are not."""
        how = "with one object per row" if self.row_id else "by the mapping"
        builder.add_note(1, f"tables read {how}", self.columns.source, f"table read {how}")
        if self.unread:
            shown = ", ".join(shorten(name) or "one without a name" for name in self.unread[:MAX_SHOWN])
            builder.add_note(len(self.unread), "columns not read", f"{self.columns.source}: {shown}", "column not read")

    def note_kinds(self, builder: KnowledgeBaseBuilder) -> None:
        """Note the columns whose objects are named by their kind."""
        objects = [one for planned in self.clauses for one in planned.objects]
        for one in sorted({one for one in objects if one.prefix}, key=lambda one: one.number):
            name = self.columns.names[one.number]
            builder.add_note(
                1,
                "columns whose objects are named by their kind",
                f"{shorten(one.prefix)}7 for 7 in {shorten(name)}",
                "column whose objects are named by their kind",
            )

    def add(self, batch: TableBatch, builder: KnowledgeBaseBuilder) -> None:
        """Add the facts and values of some rows."""
        if not len(batch):
            return
        rows = _Rows(batch, self.separator)
        self._declare(rows, builder)
        most = max((self._add_clause(one, rows, builder) for one in self.clauses), default=0)
        if most < len(batch):  # a table without an end is refused also if its cells are empty
            builder.count_rows(len(batch) - most, lambda: batch.location(0, 0))
        for number in sorted({number for one in self.clauses for number in one.numbers}):
            empty = rows.cells(number).count("")
            if empty:
                place = batch.location(rows.cells(number).index(""), number)
                example = f"{place.source}, line {place.line}, column {self.columns.names[number] or number + 1}"
                builder.add_note(
                    empty, "empty cells skipped: nothing is known", example, "empty cell skipped: nothing is known"
                )

    def _declare(self, rows: _Rows, builder: KnowledgeBaseBuilder) -> None:
        """Add the object of each row."""
        row_id = self.row_id
        if row_id is None:
            return
        cells = rows.cells(row_id.number)
        at = [row for row, cell in enumerate(cells) if cell]

        def locate(row: int, _: int = 0) -> Location:
            return rows.batch.location(at[row], row_id.number)

        objects = builder.encode_names([row_id.name(cells[row]) for row in at], locate)
        nothing = np.zeros(0, np.int32)
        builder.declare(objects, nothing, nothing, nothing, locate)

    def _add_clause(self, planned: _PlannedClause, rows: _Rows, builder: KnowledgeBaseBuilder) -> int:
        """Add the facts of a clause, and return their number."""
        at, names = rows.names(planned)
        if not at:
            return 0
        batch, objects = rows.batch, planned.objects
        columns = [*([planned.relation.number] if planned.relation else []), *(one.number for one in objects)]
        flat = [name for column in names for name in column]
        ids = builder.encode_names(flat, lambda i: batch.location(at[i % len(at)], columns[i // len(at)]))
        table = ids.reshape(len(columns), len(at)).T
        if planned.relation is None:
            assert isinstance(planned.clause.relation, str)
            relation = np.repeat(
                builder.encode_names([planned.clause.relation], lambda _: batch.location(0, 0)), len(at)
            )
        else:
            relation, table = np.ascontiguousarray(table[:, 0]), table[:, 1:]
        number_column = planned.value if planned.value is not None else planned.confidence

        def locate(row: int, field: int) -> Location:
            if field == NUMBER_FIELD:
                return batch.location(at[row], number_column or 0)
            return batch.location(at[row], columns[field if planned.relation else max(field - 1, 0)])

        numbers = self._numbers(planned, rows, at)
        self._add(planned, relation, np.ascontiguousarray(table), numbers, locate, builder)
        first = [one[0] for one in names]
        word = planned.clause.relation if planned.relation is None else first.pop(0)
        fact = f"{format_name(str(word))}({', '.join(map(format_name, first))})"
        value = f" = {numbers[0]:.12g}" if numbers is not None and planned.value is not None else ""
        kind = "facts" if planned.value is None else "values"
        builder.add_note(
            len(at), f"{kind} {planned.clause}", shorten(fact + value, 80), f"{kind.removesuffix('s')} {planned.clause}"
        )
        return len(at)

    def _numbers(self, planned: _PlannedClause, rows: _Rows, at: list[int]) -> Floats | None:
        column = planned.value if planned.value is not None else planned.confidence
        if column is None:
            return None
        cells = rows.cells(column)
        texts = [cells[row] or "1" for row in at]  # a confidence that is not known is 1
        try:
            return parse_numbers(texts, lambda row: rows.batch.location(at[row], column))
        except InputError as error:
            if planned.value is None or error.hint:
                raise
            subject, name = planned.clause.objects[0], quote_name(self.columns.names[column] or str(column + 1))
            names = f"for names instead of numbers: --map {_shell(f'{subject} {name} {name}')}"
            error.hint = f"leave a cell empty where nothing is known; {names}"
            raise

    @staticmethod
    def _add(
        planned: _PlannedClause,
        relation: Ints,
        objects: Ints,
        numbers: Floats | None,
        locate: Callable[[int, int], Location],
        builder: KnowledgeBaseBuilder,
    ) -> None:
        if planned.value is None:
            builder.add_facts(relation, objects, numbers, locate)
        else:
            assert numbers is not None
            builder.add_values(relation, np.ascontiguousarray(objects[:, 0]), numbers, locate)


class _Rows:
    """The cells of a batch, without spaces around them."""

    def __init__(self, batch: TableBatch, separator: str | None) -> None:
        self.batch, self._separator = batch, separator
        self._cells: dict[int, list[str]] = {}

    def cells(self, number: int) -> list[str]:
        """Return the cells of a column."""
        if number not in self._cells:
            self._cells[number] = [cell.strip() for cell in self.batch.column(number)]
        return self._cells[number]

    def names(self, planned: _PlannedClause) -> tuple[list[int], list[list[str]]]:
        """Return the row of each fact, and the names of its relation, if a column has it, and objects, by column."""
        columns = [*([planned.relation] if planned.relation else []), *planned.objects]
        needed = [self.cells(one.number) for one in columns]
        filled = [*needed, self.cells(planned.value)] if planned.value is not None else needed
        at = [row for row, cells in enumerate(zip(*filled, strict=True)) if all(cells)]
        chosen = [[cells[row] for row in at] for cells in needed]
        if self._separator and any(
            one.splits and any(self._separator in cell for cell in cells)
            for one, cells in zip(columns, chosen, strict=True)
        ):
            at, chosen = self._split(at, chosen, [one.splits for one in columns])
        named = [list(map(one.name, cells)) for one, cells in zip(columns, chosen, strict=True)]
        return at, named

    def _split(self, at: list[int], chosen: list[list[str]], splits: list[bool]) -> tuple[list[int], list[list[str]]]:
        """Return a row for each combination of the parts of its cells."""
        assert self._separator is not None
        rows: list[int] = []
        combined: list[tuple[str, ...]] = []
        for row, cells in zip(at, zip(*chosen, strict=True), strict=True):
            parts = [
                [part for one in cell.split(self._separator) if (part := one.strip())] if split else [cell]
                for cell, split in zip(cells, splits, strict=True)
            ]
            found = list(dict.fromkeys(product(*parts)))
            rows += [row] * len(found)
            combined += found
        columns = [list(column) for column in zip(*combined, strict=True)] if combined else [[] for _ in chosen]
        return rows, columns

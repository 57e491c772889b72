"""Foreign keys of a database, read as relations.

    employee(id, name, salary, dept_id → dept)       employee(employee/7).  name(employee/7, ann).
                                                     dept(employee/7, dept/1).  salary(employee/7) = 5000.
    works_on(employee_id → employee,                 works_on(employee/7, project/3).
             project_id → project), both the key

A table of objects has a key that names them; a link table is a relation over its foreign keys. Other tables have no
plan: they are read by the names and kinds of their columns.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gaifman.config import MAX_ARITY
from gaifman.io.tabular import DEFAULT_LAYOUTS, RowBatch, TableLayout, parse_header

Columns = tuple[str, ...]

TRUE_TEXTS = frozenset({"true", "1", "t"})
"""How databases write a boolean that is true."""

_ID_SUFFIX = re.compile(r"(?<=.)(?:_id|_ID|_fk|(?<=[a-z])I[dD])\Z")


def object_name(table: str | None, parts: Sequence[str]) -> str:
    """Return the name of an object by the values of its key.

    Text is a name by itself. Integers, and keys of several columns, begin with their table.

    >>> object_name(None, ["DE"]), object_name("employee", ["7"]), object_name("seat", ["3", "a/b"])
    ('DE', 'employee/7', 'seat/3/a%2Fb')
    """
    if table is None:
        return parts[0]
    if len(parts) > 1:  # so that ("a/b", "c") and ("a", "b/c") differ
        parts = [part.replace("%", "%25").replace("/", "%2F") for part in parts]
    return "/".join([table, *parts])


def relation_name(column: str) -> str:
    """Return the name of the relation of a foreign key: the column's, without `_id`.

    >>> relation_name("dept_id"), relation_name("ArtistId"), relation_name("boss"), relation_name("id")
    ('dept', 'Artist', 'boss', 'id')
    """
    return _ID_SUFFIX.sub("", column)


@dataclass(frozen=True, slots=True)
class ForeignKey:
    """Columns whose values are those of another table's columns, in the same order."""

    columns: Columns
    target: str
    """Name of the other table."""
    target_columns: Columns = ()
    """None: its primary key."""


@dataclass(frozen=True, slots=True)
class TableKeys:
    """The columns of a table, and its keys, as the database declares them."""

    name: str
    kinds: Mapping[str, str]
    """Column → kind: text, integer, float, boolean or other."""
    primary: Columns = ()
    foreign: tuple[ForeignKey, ...] = ()
    unique: tuple[Columns, ...] = ()


@dataclass(frozen=True, slots=True)
class ObjectColumns:
    """Columns of a table whose values name an object."""

    columns: Columns
    table: str | None = None
    """Start of the name; see `object_name`."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What some columns of a row say: a fact, or the value of an attribute."""

    name: str
    """Relation or attribute."""
    objects: tuple[ObjectColumns, ...]
    number: str | None = None
    """Column of the confidence or value."""
    is_value: bool = False
    flag: str | None = None
    """Column that must be true."""

    @property
    def layout(self) -> TableLayout:
        """The layout of the rows of `read_rows`."""
        if self.is_value:
            return DEFAULT_LAYOUTS["attributes"]
        return replace(DEFAULT_LAYOUTS["nary"], number_column=1 if self.number else None)

    @property
    def columns(self) -> Columns:
        """The columns that are read."""
        names = [column for one in self.objects for column in one.columns]
        return (*names, *([self.number] if self.number else []), *([self.flag] if self.flag else []))

    @property
    def kind(self) -> int:
        """Arity of the relation; 0 for an attribute."""
        return 0 if self.is_value else len(self.objects)


@dataclass(frozen=True, slots=True)
class KeyPlan:
    """How a table with keys is read, in one pass."""

    readings: tuple[Reading, ...]
    skipped: Columns = ()
    """Columns that say nothing."""

    @property
    def columns(self) -> Columns:
        """The columns to fetch."""
        return tuple(dict.fromkeys(column for reading in self.readings for column in reading.columns))

    def read_rows(self, source: str, batch: Sequence[Sequence[object]], first: int) -> list[tuple[RowBatch, Reading]]:
        """Return the rows of each reading in a batch of rows of `columns`; `first` is the number of the first row."""
        cells = dict(zip(self.columns, zip(*batch, strict=True), strict=True))
        texts = {column: list(map(_text, values)) for column, values in cells.items()}
        names = {one: _names(one, texts) for reading in self.readings for one in reading.objects}
        return [(_rows(source, reading, names, texts, first), reading) for reading in self.readings]


def _text(cell: object) -> str | None:
    """Return a cell as text; None for NULL, NaN and the empty text, which is no name."""
    if cell is None or cell == "" or cell != cell:  # noqa: PLR0124 - NaN
        return None
    return cell if isinstance(cell, str) else repr(cell)


def _names(one: ObjectColumns, texts: Mapping[str, list[str | None]]) -> list[str | None]:
    """Return the name of the object in each row; None if a part of its key is NULL."""
    if one.table is None:
        return texts[one.columns[0]]
    if len(one.columns) == 1:
        return [part and object_name(one.table, [part]) for part in texts[one.columns[0]]]
    keys = zip(*(texts[column] for column in one.columns), strict=True)
    return [None if None in key else object_name(one.table, key) for key in keys]


def _rows(
    source: str,
    reading: Reading,
    names: Mapping[ObjectColumns, list[str | None]],
    texts: Mapping[str, list[str | None]],
    first: int,
) -> RowBatch:
    objects = [names[one] for one in reading.objects]
    number = texts[reading.number] if reading.number else None
    flag = texts[reading.flag] if reading.flag else None
    fields: list[str] = []
    lines: list[int] = []
    for at, key in enumerate(zip(*objects, strict=True)):
        if None in key or (flag is not None and (flag[at] or "").lower() not in TRUE_TEXTS):
            continue
        if number is None:
            fields += (reading.name, *key)
        elif not reading.is_value:
            fields += (reading.name, number[at] or "1", *key)
        elif number[at] is not None:
            fields += (*key, reading.name, number[at])  # type: ignore[arg-type]
        else:
            continue
        lines.append(first + at)
    width = len(fields) // max(len(lines), 1)
    return RowBatch(source, fields, np.full(len(lines), width, np.int64), np.array(lines, np.int64), "\t")


class KeySchema:
    """The tables of a database and their keys: what each row is about."""

    def __init__(self, tables: Iterable[TableKeys] = ()) -> None:
        self._tables = {table.name: table for table in tables}
        self._referenced: dict[str, set[Columns]] = defaultdict(set)
        """Table → its columns that foreign keys of tables refer to."""
        for table in self._tables.values():
            for key in table.foreign:
                if key.target in self._tables:
                    self._referenced[key.target].add(key.target_columns or self._tables[key.target].primary)
        self._links = {name: link for name in self._tables if (link := self._plan_link(name))}
        drafts = {name: self._draft(name) for name in self._tables if self._is_entity(name)}
        self._plans = self._links | {
            name: replace(plan, readings=readings)
            for (name, plan), readings in zip(drafts.items(), self._rename(drafts), strict=True)
        }

    def plan(self, table: str) -> KeyPlan | None:
        """Return how a table is read; None if its keys do not say."""
        return self._plans.get(table)

    def surrogate_key(self, table: str) -> str | None:
        """Return the primary key of a table of facts, whose other columns are named as those of a file."""
        found = self._tables.get(table)
        if found is None or len(found.primary) != 1 or found.foreign or table in self._referenced:
            return None
        rest = [name for name in found.kinds if name not in found.primary and name.strip().lower() != "value"]
        return found.primary[0] if parse_header(rest) and not parse_header([*found.kinds]) else None

    def _key(self, table: str) -> Columns:
        """Return the columns that name the objects of a table: what foreign keys refer to, or the primary key."""
        referenced = self._referenced.get(table, set())
        return next(iter(referenced)) if len(referenced) == 1 else self._tables[table].primary

    def _foreign_keys(self, table: str) -> list[tuple[ForeignKey, ObjectColumns]]:
        """Return the foreign keys of a table that refer to the key of a known table, and the objects they name."""
        found = []
        for key in self._tables[table].foreign:
            if key.target not in self._tables or not (target_key := self._key(key.target)):
                continue
            pairs = dict(zip(key.target_columns or target_key, key.columns, strict=False))
            if set(pairs) == set(target_key) and len(pairs) == len(key.columns):
                found.append((key, self._objects(key.target, tuple(pairs[column] for column in target_key))))
        return found

    def _objects(self, table: str, columns: Columns, seen: frozenset[str] = frozenset()) -> ObjectColumns:
        """Return the objects of a table whose key has the values of these columns.

        A key that is a foreign key itself names the object of the other table.
        """
        own = self._key(table)
        for key in self._tables[table].foreign:
            if key.columns == own and key.target in self._tables and table not in seen and key.target != table:
                return self._objects(key.target, columns, seen | {table})
        plain = len(own) == 1 and self._tables[table].kinds.get(own[0]) == "text"
        return ObjectColumns(columns, None if plain else table)

    def _is_entity(self, table: str) -> bool:
        """Whether rows are objects: the table has a key, and foreign keys or references to it, or many columns."""
        found = self._tables[table]
        if table in self._links or not self._key(table) or self.surrogate_key(table):
            return False
        involved = bool(self._foreign_keys(table)) or table in self._referenced
        wide = len(found.primary) == 1 and len(found.kinds) > 2 and parse_header([*found.kinds]) is None
        return involved or wide

    def _plan_link(self, table: str) -> KeyPlan | None:
        """Return the plan of a link table, a relation over its foreign keys; None for other tables."""
        found, keys = self._tables[table], self._foreign_keys(table)
        every = {column for key, _ in keys for column in key.columns}
        rest = {*found.kinds} - every
        scores = [name for name in rest if name.strip().lower() == "confidence" and found.kinds[name] == "float"]
        if found.primary and set(found.primary) <= every:
            used = [one for key, one in keys if set(key.columns) <= set(found.primary)]
        elif not found.primary and rest <= {*scores}:
            used = [one for _, one in keys]
        elif len(found.primary) == 1 and any(set(columns) == every for columns in found.unique):
            used = [one for _, one in keys] if rest <= {*found.primary, *scores} else []
        else:
            used = []
        if not 2 <= len(used) <= MAX_ARITY or table in self._referenced:
            return None
        reading = Reading(table, tuple(used), number=next(iter(scores), None))
        skipped = [name for name in found.kinds if name not in (*reading.columns, *found.primary)]
        return KeyPlan((reading,), tuple(skipped))

    def _draft(self, table: str) -> KeyPlan:
        """Return the plan of a table of objects; its first reading is their type."""
        found, own = self._tables[table], self._key(table)
        self_columns = self._objects(table, own)
        readings = [Reading(table, (self_columns,))]
        keys = [(key, one) for key, one in self._foreign_keys(table) if key.columns != own]
        used = {*own, *found.primary, *(column for key, _ in keys for column in key.columns)}
        rest = [name for name in found.kinds if name not in used]
        for name, one in zip(_foreign_names([key for key, _ in keys], rest), (one for _, one in keys), strict=True):
            readings.append(Reading(name, (self_columns, one)))
        skipped = []
        for name in rest:
            reading = _read_column(name, found.kinds[name], self_columns)
            readings += [reading] if reading else []
            skipped += [] if reading else [name]
        return KeyPlan(tuple(readings), tuple(skipped))

    def _rename(self, drafts: Mapping[str, KeyPlan]) -> list[tuple[Reading, ...]]:
        """Return the readings of each draft, with names that mean one thing in the whole database.

        A column whose name is that of a table of facts, or is a type in one table and something else in another,
        becomes `table.column`. A type whose name a column has becomes `is_table`.
        """
        tables = {*self._tables} - {*drafts}
        kinds: dict[str, set[int]] = defaultdict(set)
        for plan in drafts.values():
            for reading in plan.readings[1:]:
                kinds[reading.name].add(reading.kind)
        unclear = tables | {name for name, found in kinds.items() if 1 in found and len(found) > 1}
        named = []
        for table, plan in drafts.items():
            first, *columns = plan.readings
            kept = [replace(one, name=f"{table}.{one.name}") if one.name in unclear else one for one in columns]
            named.append((replace(first, name=f"is_{table}") if table in kinds else first, *kept))
        return named


def _read_column(name: str, kind: str, owner: ObjectColumns) -> Reading | None:
    """Return what a column says of its row's object; None for kinds that say nothing, such as dates."""
    if kind in ("integer", "float"):
        return Reading(name, (owner,), number=name, is_value=True)
    if kind == "boolean":
        return Reading(name, (owner,), flag=name)
    return Reading(name, (owner, ObjectColumns((name,)))) if kind == "text" else None


def _foreign_names(keys: Sequence[ForeignKey], others: Sequence[str]) -> list[str]:
    """Return the relations of the foreign keys of a table; where two would be the same, the columns' full names."""
    short = [relation_name(key.columns[0]) if len(key.columns) == 1 else key.target for key in keys]
    clear = [short.count(name) == 1 and name not in others for name in short]
    return [name if ok else "_".join(key.columns) for name, key, ok in zip(short, keys, clear, strict=True)]

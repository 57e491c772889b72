"""Tables that can be read in several ways: why, and what each reading would give.

A file whose first row is a header of unknown words, or whose columns do not tell what they are, is refused with the
readings that are possible, as options to copy. `find_doubt` decides, `Table.hint` lists them.

>>> doubt = find_doubt([["employee", "boss"], ["ann", "bob"], ["bob", "cleo"]], None)
>>> print(doubt.hint())
choose a reading:
  --map "employee boss boss"        boss(ann, bob)
  --no-header --map "1 related 2"   related(employee, boss)
  --no-header --input-format types  boss(employee)
first rows:
  employee  boss
  ann       bob
  bob       cleo
in Python: gaifman.read(…, map="employee boss boss")
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from gaifman.errors import InputError, shorten
from gaifman.io.cells import COMMA_HINT, COMMA_NUMBER, are_whole, is_number
from gaifman.io.mapped_tables import ListBatch, TableColumns, TableMapper, remove_id
from gaifman.io.mapping import make_mapping, quote_name
from gaifman.kb.builder import KnowledgeBaseBuilder
from gaifman.kb.knowledge_base import format_name

MAX_READINGS: Final = 3
FEW_ROWS: Final = 4
"""Rows from which on the relation of a table of facts is expected to occur again."""
_SHOWN_ROWS, _SHOWN_COLUMNS, _SHOWN_LETTERS, _SHOWN_FACTS = 3, 6, 24, 2
_WORD: Final = re.compile(r"[^\W\d_][\w .-]*")
"""What may be the name of a column: letters first, no slashes and colons."""
_RELATIONS: Final = {"relation", "predicate", "property", "edge", "link", "rel", "pred", "verb"}
_ENDS_OF_EDGES: Final = {"target", "to", "tail", "object", "dst", "dest", "destination"}


@dataclass(frozen=True, slots=True)
class Reading:
    """A way to read a table."""

    options: str
    """Options of a command."""
    python: str
    """The same as arguments of `gaifman.read`."""
    facts: tuple[str, ...]
    """Some of what it gives for the first row."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table with several readings."""

    message: str
    rows: Sequence[Sequence[str]]
    """The first rows, the header among them."""
    header: bool | None
    """Whether the first row is a header; None if that is not known."""
    column: int = 0
    """The column to point at."""
    name: str = "table"
    """Name of the table, for the kind of its column `id`."""
    texts: frozenset[str] = frozenset()
    is_file: bool = True
    """Whether it is a text file, for which there are formats and `--no-header`."""

    def hint(self) -> str:
        """Return the possible readings, as options to copy, and the first rows."""
        readings = self.readings()
        shown = [[_cell(cell) for cell in row[:_SHOWN_COLUMNS]] for row in self.rows[: _SHOWN_ROWS + 1]]
        lines = []
        if readings:
            options = [(one.options, ", ".join(one.facts)) for one in readings]
            lines += ["choose a reading:", *_aligned(options)]
        lines += ["first rows:", *_aligned(shown)]
        if readings:
            lines.append(f"in Python: gaifman.read(…, {readings[0].python})")
        return "\n".join(lines)

    def readings(self) -> list[Reading]:
        """Return the possible readings, the likeliest first."""
        found: dict[str, Reading] = {}
        for one in self._propose():
            if one and one.facts:
                found.setdefault(one.options, one)
        return list(islice(found.values(), MAX_READINGS))

    def _propose(self) -> Iterator[Reading | None]:
        if self.header is not False and len(self.rows) > 1:
            if self.is_file and max(map(len, self.rows[0])) == 1 and len(self.rows[0]) in (3, 4):
                yield self._by_format(header=True)  # h, r, t
                yield self._by_format(header=False)
            yield from self._with_relation()
            yield from self._with_header(len(self.rows[0]))
        if self.header is not True:
            yield from self._without_header(len(self.rows[0]))

    def _with_relation(self) -> Iterator[Reading | None]:
        """Yield the readings of a table with a column of relations."""
        names = [name.strip() for name in self.rows[0]]
        relation = next((name for name in names if name.lower() in _RELATIONS), "")
        others = [quote_name(name) for name in names if name != relation]
        if relation and len(others) > 1:
            yield self._mapped(f"{others[0]} [{quote_name(relation)}] {others[1]}")
            if 2 < len(others) < 5:
                yield self._mapped(f"[{quote_name(relation)}]({', '.join(others)})")

    def _without_header(self, width: int) -> Iterator[Reading | None]:
        """Yield the readings of a table whose first row is data."""
        options = ["--no-header"]
        whole = self._whole(0) and self._whole(1)
        pair = "1:node related 2:node" if whole and width == 2 else "1:a related 2:b" if whole else "1 related 2"
        related = self._mapped(pair, options) if self.header is False or width == 2 else None
        if width == 2 and self._numeric(1) and not whole:
            yield self._mapped("value(1) = 2", options)
        if width == 2 and not self._is_certain:
            yield related
        if width == 4 and self.header is False and self._repeats(1):
            yield self._mapped("1 [2] 3", options)
            yield self._mapped("[2](1, 3, 4)", options)
        if width == 3 and self.header is False and self._numeric(2) and not self._numeric(0):
            yield self._by_format(header=None, file_format="attributes")
        yield self._by_format(header=None if self.header is False else False)
        yield related
        if width == 2:
            yield self._mapped(f"value({'1:node' if whole else '1'}) = 2", options)
        elif width == 3 and self.header is False:
            yield self._mapped("1:a [3] 2:b" if whole else "1 [3] 2", options)

    def _with_header(self, width: int) -> Iterator[Reading | None]:
        """Yield the readings of a table whose columns have names."""
        names = self.rows[0]
        first, second = self._object_columns()
        key = quote_name(names[first]) if names[first] else str(first + 1)
        many = len({row[first] for row in self._data if len(row) > first}) < len(self._data)
        ids = self._whole(first) and self._whole(second) and remove_id(names[second]) != names[second]
        if width == 2 and self._numeric(1 - first) and not self._whole(first):
            yield self._wide(key)
        elif width == 2:
            yield self._pair(first, second, False)
            yield self._by_format(header=True) if self._is_certain or self.header else None
        elif many or ids:
            yield self._pair(first, second, True)
            yield self._whole_row(names)
            yield self._wide(key)
        else:
            yield self._wide(key)
            yield self._pair(first, second, False)
            yield self._whole_row(names) if self.header else None

    @property
    def _is_certain(self) -> bool:
        width = len(self.rows[0])
        rows = [row for row in self._data if len(row) == width]
        return len(rows) > 1 and _is_certain([[row[column].strip() for row in rows] for column in range(width)], False)

    @property
    def _data(self) -> Sequence[Sequence[str]]:
        return self.rows if self.header is False else self.rows[1:]

    def _cells(self, column: int) -> list[str]:
        return [row[column].strip() for row in self._data if len(row) > column]

    def _whole(self, column: int) -> bool:
        return are_whole(self._cells(column))

    def _numeric(self, column: int) -> bool:
        return _all_numbers(self._cells(column))

    def _repeats(self, column: int) -> bool:
        cells = self._cells(column)
        return len(set(cells)) < len(cells)

    def _object_columns(self) -> tuple[int, int]:
        """Return two columns that hold objects, the first that which names a row if there is one."""
        width = len(self.rows[0])

        def order(column: int) -> tuple[bool, int]:
            is_id = remove_id(self.rows[0][column]) != self.rows[0][column]
            return self._numeric(column) and not is_id, column

        ordered = sorted(range(width), key=order)
        return ordered[0], ordered[1] if width > 1 else ordered[0]

    def _pair(self, first: int, second: int, events: bool) -> Reading | None:
        """Return the reading of two columns; `events` if a row is not one object, so that a number may name it."""
        names = self.rows[0]
        if self._numeric(second) and remove_id(names[second]) == names[second] and not self._whole(first):
            return None
        others = [column for column in range(len(names)) if column not in (first, second)]
        label = next((names[column] for column in others if self._numeric(column)), "")
        relation = label if events and label and len(others) == 1 else remove_id(names[second]) or names[second]
        if relation.lower() in _ENDS_OF_EDGES:
            relation = "linked_to"
        alike = bool(set(self._cells(first)) & set(self._cells(second))) and len(names) == 2
        kind = ":node" if alike and self._whole(first) and self._whole(second) else ""
        left, right = (quote_name(names[column]) + kind for column in (first, second))
        return self._mapped(f"{left} {quote_name(relation)} {right}")

    def _whole_row(self, names: Sequence[str]) -> Reading | None:
        if not 3 <= len(names) <= 5:
            return None
        return self._mapped(f"{quote_name(self.name)}({', '.join(map(quote_name, names))})")

    def _mapped(self, clause: str, options: Sequence[str] = ()) -> Reading | None:
        words = [*options, "--map", clause]
        header = ["header=False"] if "--no-header" in options else []
        return self._reading(words, [*header, f"map={_python(clause)}"], {"clauses": clause})

    def _wide(self, key: str) -> Reading | None:
        return self._reading(["--wide", "--id", key], [f"id={_python(key)}, wide=True"], {"id": key, "wide": True})

    def _reading(self, words: Sequence[str], python: Sequence[str], how: dict[str, Any]) -> Reading | None:
        facts = self._try(how, "--no-header" not in words and self.header is not False)
        return Reading(_shell_words(words), ", ".join(python), facts) if facts else None

    def _try(self, how: dict[str, Any], header: bool) -> tuple[str, ...]:
        """Return what a mapping gives for the first row, after the header if there is one."""
        width = len(self.rows[0])
        rows = [row for row in self.rows[header:] if len(row) == width]
        names = self.rows[0] if header else [str(number + 1) for number in range(width)]
        columns = TableColumns("", self.name, tuple(name.strip() for name in names), texts=self.texts)
        builder = KnowledgeBaseBuilder()
        try:
            plan = TableMapper(make_mapping(**how)).plan(columns, ListBatch("", rows))
            if plan is None:
                return ()
            plan.add(ListBatch("", [next((row for row in rows if all(row)), rows[0])]), builder)
            kb = builder.build()
        except InputError:
            return ()
        found = [str(fact).removesuffix(".") for fact in kb.facts()][:_SHOWN_FACTS]
        values = [f"{format_name(name)}({format_name(one)}) = {value:.12g}" for name, one, value in kb.values()]
        found += values[: 1 + _SHOWN_FACTS - len(found)]
        return tuple(shorten(fact, 60) for fact in found)

    def _by_format(self, header: bool | None, file_format: str = "") -> Reading | None:
        """Return the reading as a file of facts; with `header=None` the first row may be a header."""
        width = len(self.rows[0])
        file_format = file_format or ("types" if width == 2 else "triples" if width == 3 else "nary")
        row = self.rows[1] if header is True and len(self.rows) > 1 else self.rows[0]
        word, *names = [row[1], row[0], *row[2:]] if width < 4 else row
        if not self.is_file or len(row) != width or not all(row) or (width != 3 and is_number(word)):
            return None
        value = f" = {names.pop()}" if file_format == "attributes" else ""
        fact = f"{format_name(word)}({', '.join(map(format_name, names))}){value}"
        flag = {True: "--header ", False: "--no-header ", None: ""}[header]
        python = "" if header is None else f"header={header}, "
        return Reading(f"{flag}--input-format {file_format}", f'{python}format="{file_format}"', (shorten(fact, 60),))


def _shell_words(words: Sequence[str]) -> str:
    """Return words of a command; in double quotes where quotes are needed, as people write them."""
    plain = re.compile(r"[\w.-]+")
    return " ".join(
        word if plain.fullmatch(word) else shlex.quote(word) if re.search(r'["$`\\!]', word) else f'"{word}"'
        for word in words
    )


def _python(text: str) -> str:
    return f"'{text}'" if '"' in text and "'" not in text else '"' + re.sub(r'(["\\])', r"\\\1", text) + '"'


def _cell(text: str) -> str:
    return shorten(text.strip(), _SHOWN_LETTERS)


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows of text whose columns are aligned."""
    widths: dict[int, int] = {}
    for row in rows:
        for column, cell in enumerate(row):
            widths[column] = max(widths.get(column, 0), len(cell))
    return ["  " + "  ".join(cell.ljust(widths[at]) for at, cell in enumerate(row)).rstrip() for row in rows]


# Doubt


def find_doubt(rows: Sequence[Sequence[str]], header: bool | None, name: str = "table") -> Table | None:
    """Return the readings of a table of unknown columns; None if its columns tell what they are.

    All rows have one width. Certain are triples, n-ary facts and types whose relations occur again, and attributes
    whose objects or attributes do, if the first row is no header: one of its names occurs again, or is no word.
    """
    width = len(rows[0])
    if width == 1:
        return None
    if (column := _column_with_commas(rows)) is not None:
        known = COMMA_NUMBER.fullmatch(rows[0][column].strip()) is None
        return Table(f"the numbers have commas: {COMMA_HINT}", rows, known, column, name)
    if header is None and (column := _column_of_numbers(rows)) is not None:
        names = ", ".join(_cell(word) for word in rows[0][:_SHOWN_COLUMNS])
        return Table(f"the columns {names} can be read in several ways", rows, True, column, name)
    rows = [row for row in rows if all(row)]  # an empty name is an error of its own
    if len(rows) < 2:
        return None
    columns = [[row[column].strip() for row in rows] for column in range(width)]
    is_data = header is not None or _is_data(columns) or (width > 2 and _all_numbers(columns[2]))
    if _is_certain(columns, is_data):
        return None if is_data else Table("the first row may be a header or data", rows, None, 0, name)
    return Table("the columns can be read in several ways", rows, False if is_data else None, 0, name)


def may_be_header(rows: Sequence[Sequence[str]]) -> bool:
    """Return whether the first of several rows of one width may be a header.

    >>> may_be_header([["employee", "boss"], ["ann", "bob"]]), may_be_header([["ann", "bob"], ["bob", "cleo"]])
    (True, False)
    """
    if len(rows) < 2:
        return False
    columns = [[row[column].strip() for row in rows] for column in range(len(rows[0]))]
    return _column_of_numbers(rows) is not None or not _is_data(columns)


def _all_numbers(cells: Sequence[str]) -> bool:
    known = [cell for cell in cells if cell]
    return bool(known) and all(map(is_number, known))


def _column_with_commas(rows: Sequence[Sequence[str]]) -> int | None:
    """Return the first column of which all cells are numbers with commas, the first row perhaps not."""
    for column in range(len(rows[0])):
        cells = [cell for row in rows[1:] if (cell := row[column].strip())]
        if cells and all(map(COMMA_NUMBER.fullmatch, cells)):
            return column
    return None


def _column_of_numbers(rows: Sequence[Sequence[str]]) -> int | None:
    """Return the first column whose cells are numbers, but for the first row, which is therefore a header."""
    for column, name in enumerate(rows[0]):
        cells = [row[column].strip() for row in rows[1:]]
        if name.strip() and not is_number(name) and _all_numbers(cells):
            return column
    return None


def _is_data(columns: Sequence[Sequence[str]]) -> bool:
    """Return whether the first row cannot be a header: a name of it occurs again, or is not a word."""
    first = [cells[0] for cells in columns]
    if not all(map(_WORD.fullmatch, first)) or len(set(first)) < len(first):
        return True
    later = {cell for cells in columns for cell in cells[1:]}
    return not later.isdisjoint(first)


def _is_certain(columns: Sequence[Sequence[str]], is_data: bool) -> bool:
    """Return whether the columns are those of types, triples, attributes or n-ary facts."""
    counts = [len(set(cells)) for cells in columns]
    rows = len(columns[0])
    repeats = counts[1] < rows or (is_data and rows < FEW_ROWS)
    numeric = [_all_numbers(cells) for cells in columns]
    match numeric:
        case [_, True]:
            return True  # refused as attributes without a name
        case [_, _]:
            return repeats and set(columns[0]).isdisjoint(columns[1])
        case [True, True, True]:
            return counts[1] < min(counts[0], counts[2])
        case [_, True, _] | [_, True, _, _]:
            return False
        case [False, _, True]:
            return counts[1] == 1 or counts[0] < rows
        case [_, _, _] | [_, _, _, True]:
            return repeats or not set(columns[0]).isdisjoint(columns[2])
    return counts[0] < rows or (len(columns) == 4 and counts[1] < counts[0])

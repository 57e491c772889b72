"""Tables of proposed facts, as `gaifman predict` writes them and people and spreadsheets change them.

>>> table = ProposalTable.from_columns({"head": ["peru"], "relation": ["capital"], "tail": ["lima"], "accept": ["x"]})
>>> table.key(0), table.decision(0)
(('capital', 'peru', 'lima'), True)

The columns may be in any order, and there may be more of them. Text is separated by commas, semicolons or tabs; a byte
order mark, empty rows and missing empty cells at the end of a row do not matter.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

from gaifman._tables import Columns
from gaifman.config import DEFAULT_LIMITS
from gaifman.errors import InputError, Location, shorten, similar_names
from gaifman.io.files import InputFile, TextBlock, atomic_write, open_input, read_blocks
from gaifman.io.results import FACT_FORMATS, result_format, write_blocks
from gaifman.io.reviewed_tables import parse_probability
from gaifman.io.tabular import RowBatch, read_csv_rows, split_rows
from gaifman.kb.reviews import FactKey

ACCEPT = "accept"
"""The column of decisions."""
YES = frozenset({"yes", "y", "1", "true", "x"})
NO = frozenset({"no", "n", "0", "false"})
DELIMITERS = ",;\t"
_ARGUMENT = re.compile(r"arg([1-9])")
_RELATION = ("relation", "predicate")
_PAIR = (("head", "subject"), ("tail", "object"))
_HINT = "a table of proposed facts has the columns head, relation, tail; or relation, arg1, arg2 …"


@dataclass(frozen=True, slots=True)
class FactColumns:
    """Where the facts are among the columns of a table."""

    relation: int
    objects: tuple[int, ...]

    @classmethod
    def find(cls, names: Sequence[str]) -> FactColumns | None:
        """The columns by their names; None if there are none.

        >>> FactColumns.find(["Note", "Tail", "relation", "head"])
        FactColumns(relation=2, objects=(3, 1))
        """
        words = [name.strip().lower() for name in names]

        def column(choices: Sequence[str]) -> int | None:
            return next((words.index(word) for word in choices if words.count(word) == 1), None)

        relation, pair = column(_RELATION), [column(choices) for choices in _PAIR]
        arguments = {int(found[1]): i for i, word in enumerate(words) if (found := _ARGUMENT.fullmatch(word))}
        objects = [at for at in pair if at is not None]
        if sorted(arguments) == [*range(1, len(arguments) + 1)] and arguments:
            objects = [arguments[position] for position in sorted(arguments)]
        elif len(objects) < 2:
            return None
        return None if relation is None else cls(relation, tuple(objects))


@dataclass(frozen=True, slots=True)
class ProposalTable:
    """Proposed facts as texts, with everything that the table says about them."""

    names: tuple[str, ...]
    """The names of the columns."""
    rows: tuple[tuple[str, ...], ...]
    """One text for each column."""
    source: str = "the table"
    """The name for messages."""
    facts: FactColumns = field(default=FactColumns(0, ()))
    lines: tuple[RowBatch, ...] = field(default=(), repr=False, compare=False)
    """The text of a file, for the locations of errors."""

    def __len__(self) -> int:
        return len(self.rows)

    @classmethod
    def from_columns(cls, columns: Columns, source: str = "the table") -> ProposalTable:
        """The table of columns with values of any type; None is an empty text."""
        if len({len(values) for values in columns.values()}) > 1:
            raise InputError(f"the columns of {source} have different lengths")
        texts = [["" if _is_empty(value) else str(value) for value in values] for values in columns.values()]
        return cls._checked(tuple(map(str, columns)), tuple(zip(*texts, strict=True)), source)

    @classmethod
    def _checked(
        cls, names: tuple[str, ...], rows: tuple[tuple[str, ...], ...], source: str, lines: tuple[RowBatch, ...] = ()
    ) -> ProposalTable:
        facts = FactColumns.find(names)
        if facts is None:
            location = lines[0].location(0, 0) if lines else None
            where = "" if lines else f" in {source}"
            raise InputError(f"there are no columns of facts{where}", location=location, hint=_HINT)
        return cls(names, rows, source, facts, lines)

    def column(self, name: str) -> int | None:
        """The column of this name in any case; None if there is none. Two of them are refused."""
        found = [i for i, own in enumerate(self.names) if own.strip().lower() == name]
        if len(found) > 1:
            location = self.lines[0].location(0, found[1]) if self.lines else None
            raise InputError(f"there are two columns {name}", location=location, hint="remove one of them")
        return found[0] if found else None

    def cell(self, row: int, name: str) -> str:
        """The text of a row in a column, without spaces around it; empty if there is no such column."""
        column = self.column(name)
        return "" if column is None else self.rows[row][column].strip()

    def location(self, row: int, column: int) -> Location | None:
        """Where a cell is; None if the table is not a text file."""
        at = row + 1  # after the header
        for part in self.lines:
            if at < len(part):
                return part.location(at, column)
            at -= len(part)
        return None

    def error(
        self, row: int, column: int, message: str, hint: str = "", suggestions: tuple[str, ...] = ()
    ) -> InputError:
        """An error in one cell."""
        location = self.location(row, column)
        where = "" if location else f"{self.source}, row {row + 1}, column {self.names[column]}: "
        return InputError(where + message, location=location, hint=hint, suggestions=suggestions)

    def key(self, row: int) -> FactKey:
        """The relation and the objects of a row."""
        cells = self.rows[row]
        objects = [cells[column] for column in self.facts.objects]
        while objects and not objects[-1]:
            objects.pop()  # a relation of fewer positions than others
        if not cells[self.facts.relation] or not objects or not all(objects):
            column = self.facts.relation if not cells[self.facts.relation] else self.facts.objects[0]
            raise self.error(row, column, "the relation or an object is missing", _HINT)
        return (cells[self.facts.relation], *objects)

    @property
    def labels(self) -> dict[int, int]:
        """The column of each object → that of its labels, `head_label`, if there is one."""
        columns = {at: self.column(f"{self.names[at].strip().lower()}_label") for at in self.facts.objects}
        return {at: column for at, column in columns.items() if column is not None}

    def shown_key(self, row: int) -> FactKey:
        """The relation and the objects of a row as they are shown: by their labels, if the table has some."""
        labels, cells = self.labels, self.rows[row]
        relation, *names = self.key(row)
        shown = (cells[labels[at]].strip() if at in labels else "" for at in self.facts.objects)
        return (relation, *(label or name for name, label in zip(names, shown, strict=False)))

    def probability(self, row: int) -> float | None:
        """The probability of a row; None if there is none."""
        column = self.column("probability")
        if column is None:
            return None
        text = self.rows[row][column]
        try:
            return parse_probability(text, lambda: Location(self.source, row + 1, 1, text))
        except InputError as error:
            raise self.error(row, column, error.message) from None

    def decision(self, row: int) -> bool | None:
        """Whether a row is accepted; None if nothing was decided."""
        column = self.column(ACCEPT)
        word = "" if column is None else self.rows[row][column].strip().lower()
        if column is None or not word:
            return None
        if word not in YES | NO:
            message = f"{ACCEPT} is yes or no, not {shorten(self.rows[row][column])}"
            raise self.error(
                row, column, message, "yes: yes, 1, true or x; no: no, 0 or false; leave it empty for later"
            )
        return word in YES

    def with_decisions(self, decisions: Sequence[bool | None]) -> ProposalTable:
        """The table with these decisions; the column is added if there is none."""
        words = ["" if own is None else "yes" if own else "no" for own in decisions]
        column = self.column(ACCEPT)
        names = self.names if column is not None else (*self.names, ACCEPT)
        at = len(self.names) if column is None else column
        rows = ((*row[:at], word, *row[at + 1 :]) for row, word in zip(self.rows, words, strict=True))
        return replace(self, names=names, rows=tuple(rows))

    def save(self, path: Path) -> None:
        """Write the table to a .csv, .tsv, .jsonl or .parquet file."""
        columns = {name: [row[i] for row in self.rows] for i, name in enumerate(self.names)}
        with atomic_write(path) as temporary:
            write_blocks(temporary, table_format(path), [columns], compressed=path.name.endswith(".gz"))


def _is_empty(value: object) -> bool:
    return value is None or value != value  # noqa: PLR0124 - NaN, as pandas writes a missing text


def table_format(path: Path) -> str:
    """The format of a table of proposed facts, by the end of its name."""
    found = result_format(path)
    if found in FACT_FORMATS:
        raise InputError(
            f"{path} would have facts without decisions", hint="a name that ends with .csv, .tsv, .jsonl or .parquet"
        )
    return found


def read_proposals(path: str | Path) -> ProposalTable:
    """Read a table of proposed facts."""
    with open_input(path) as source:
        file_format = table_format(Path(path))
        if file_format == "parquet":
            return ProposalTable.from_columns(_read_parquet(source), source.name)
        blocks = read_blocks(source, DEFAULT_LIMITS)
        if file_format == "jsonl":
            return ProposalTable.from_columns(_read_json_lines(blocks), source.name)
        return _read_text(blocks, source.name)


def _read_text(blocks: Iterator[TextBlock], source: str) -> ProposalTable:
    first = next(blocks, None)
    if first is None:
        raise InputError(f"{source} is empty", hint=_HINT)
    header = first.data.split(b"\n", 1)[0].decode(errors="replace")
    delimiter = next((mark for mark in DELIMITERS if _names_facts(header, mark)), ",")
    parts = tuple(part for part in _rows(chain([first], blocks), delimiter) if len(part))
    if not parts:
        raise InputError(f"{source} is empty", hint=_HINT)
    names = tuple(parts[0].row(0))
    rows = (tuple(part.row(i)) for number, part in enumerate(parts) for i in range(number == 0, len(part)))
    table = ProposalTable._checked(names, tuple(rows), source, parts)
    return _padded(table)


def _names_facts(header: str, delimiter: str) -> bool:
    return FactColumns.find([name.strip('"') for name in header.rstrip("\r").split(delimiter)]) is not None


def _rows(blocks: Iterator[TextBlock], delimiter: str) -> Iterator[RowBatch]:
    for block in blocks:
        if b'"' in block.data or delimiter != "\t":
            yield from read_csv_rows(chain([block], blocks), delimiter)
            return
        yield split_rows(block, delimiter)


def _padded(table: ProposalTable) -> ProposalTable:
    """The table whose rows all have one cell for each column; empty rows are left out, with their locations."""
    width, kept, rows = len(table.names), [], []
    for number, row in enumerate(table.rows):
        if any(cell.strip() for cell in row[width:]):
            raise InputError(
                f"expected {width} columns ({', '.join(map(shorten, table.names))}), got {len(row)}",
                location=table.location(number, width),
                hint="write cells that contain the separator in quotation marks",
            )
        if any(cell.strip() for cell in row):
            kept.append(number)
            rows.append((*row[:width], *[""] * (width - len(row))))
    if len(kept) == len(table.rows):
        return replace(table, rows=tuple(rows))
    return replace(table, rows=tuple(rows), lines=_select_lines(table.lines, kept))


def _select_lines(parts: Sequence[RowBatch], rows: Sequence[int]) -> tuple[RowBatch, ...]:
    """The header and some rows, each by itself."""
    single = [part.tail(i) for part in parts for i in range(len(part))]
    return tuple(_one(single[i]) for i in (0, *(row + 1 for row in rows)))


def _one(batch: RowBatch) -> RowBatch:
    """The first row of a batch."""
    return RowBatch(batch.source, batch.row(0), batch.widths[:1], batch.lines[:1], batch.delimiter, batch.raw[:1])


def _read_json_lines(blocks: Iterator[TextBlock]) -> dict[str, list[Any]]:
    rows: list[Mapping[str, Any]] = []
    for block in blocks:
        for number, line in enumerate(block.decode().split("\n")):
            if not line.strip():
                continue
            try:
                found = json.loads(line)
            except ValueError:
                found = None
            if not isinstance(found, dict):
                raise InputError(
                    "expected a JSON object", location=Location(block.source, block.line + number, 1, line)
                )
            rows.append(found)
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


def _read_parquet(source: InputFile) -> dict[str, list[Any]]:
    import duckdb

    try:
        with duckdb.connect(":memory:") as connection:
            found = connection.execute("SELECT * FROM read_parquet(?)", [str(source.path)])
            names = [column[0] for column in found.description or ()]
            rows = found.fetchall()
    except duckdb.Error as error:
        raise InputError(f"{source.name} is not a Parquet file: {str(error).splitlines()[0]}") from None
    return {name: [row[i] for row in rows] for i, name in enumerate(names)}


def unknown_name(table: ProposalTable, row: int, column: int, kind: str, names: Sequence[str]) -> InputError:
    """The error of a name that the knowledge base does not have."""
    name = table.rows[row][column]
    return table.error(
        row,
        column,
        f"there is no {kind} {shorten(repr(name))} in the knowledge base",
        "proposed facts have known names: perhaps a spreadsheet changed it, or the knowledge base is another one",
        similar_names(name, names),
    )

"""Tables as text: tab-separated, and comma-separated with quotes."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Final

import numpy as np
import numpy.typing as npt

from gaifman.config import MAX_ARITY
from gaifman.errors import InputError, Location, plural, shorten
from gaifman.io.files import BLOCK_SIZE, TextBlock
from gaifman.kb.builder import NUMBER_FIELD, KnowledgeBaseBuilder
from gaifman.kb.tables import Floats, Ints, Longs

SAMPLE_ROWS = 1_000
"""Rows that are looked at to guess what the columns hold."""

_SNIFF_BYTES = 1 << 16
"""Bytes that are looked at to tell the delimiter."""

_QUOTED = re.compile(rb'(?:^|(?<=[\t,;\n]))"(?:[^"]|"")*+(?:"(?=[\t,;\r\n])|"?\Z)')


def read_table(blocks: Iterator[TextBlock], suffix: str, form: str | None, builder: KnowledgeBaseBuilder) -> str:
    """Put a text table into a draft; the form it was read as."""
    first = next(blocks, None)
    if first is None:
        return form or "triples"
    rows = _rows(chain([first], blocks), detect_delimiter(first.data, suffix))
    part = next((part for part in rows if len(part)), None)
    if part is None:
        return form or "triples"
    layout = layout_for_format(form, part.row(0)) if form else _detect_layout(part)
    add_rows(part.tail(1) if layout.header else part, layout, builder)
    for part in rows:
        add_rows(part, layout, builder)
    return layout.format


def detect_table_layout(data: bytes, suffix: str) -> tuple[str, TableLayout] | None:
    """The delimiter and layout by which the beginning of a file would be read; None where it would be refused."""
    cut = data.rfind(b"\n", 0, BLOCK_SIZE) + 1  # as the reader cuts it
    parts = [TextBlock("", 1, part) for part in (data[:cut], data[cut:]) if part]
    mark = detect_delimiter(data, suffix)
    try:
        rows = next((part for part in _rows(parts, mark) if len(part)), None)
        return (mark, _detect_layout(rows)) if rows else None
    except InputError:
        return None


def _detect_layout(rows: RowBatch) -> TableLayout:
    found = detect_layout([rows.row(number) for number in range(min(len(rows), SAMPLE_ROWS))])
    if isinstance(found, TableLayout):
        return found
    raise InputError(found.message, location=rows.location(0, found.column), hint=found.hint)


def _rows(blocks: Iterable[TextBlock], mark: str) -> Iterator[RowBatch]:
    if mark == "\t":
        return (split_rows(block, mark) for block in blocks)
    return read_csv_rows(iter(blocks), mark)


def detect_delimiter(data: bytes, suffix: str) -> str:
    r"""The mark that cuts the first rows into equally many columns, and into most; what is quoted does not count.

    >>> detect_delimiter(b"ann;age;80,5\nbob;age;70,2\n", ".csv"), detect_delimiter(b"p\ta,b\nq\ta,b\tc\n", ".tsv")
    (';', '\t')
    """
    text = _QUOTED.sub(b"", data[:_SNIFF_BYTES])
    lines = [line for line in text.split(b"\n")[:100] if line.strip(b"\r")]
    if len(data) > _SNIFF_BYTES:
        lines = lines[:-1] or lines  # the last one may be cut
    order = (b",", b";", b"\t") if suffix == ".csv" else (b"\t", b",", b";")
    counts = {mark: [line.count(mark) for line in lines] for mark in order}
    if suffix != ".csv" and all(counts[b"\t"]):
        return "\t"  # such tables quote nothing, so no tab stands in a name, and commas may
    equal = Counter({mark: found[0] for mark, found in counts.items() if len(set(found)) == 1 and found[0]})
    some = [mark for mark, found in counts.items() if found and found[0]]
    return (max(equal, key=equal.__getitem__) if equal else (some or order)[0]).decode()


DECIMAL: Final = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
"""A number as files write it."""


@dataclass(frozen=True, slots=True)
class TableLayout:
    """The columns of a table of facts or values."""

    format: str
    """`triples`, `nary`, `types` or `attributes`."""
    relation: int
    """Column of the relation, type or attribute."""
    objects: tuple[int, ...] | None
    """Columns of the objects; None: all that are left, as many as the row has."""
    number_column: int | None = None
    """Column of the confidence, or of an attribute's value."""
    header: bool = False
    """Whether the first row is none of data."""

    @property
    def column_count(self) -> int | None:
        """Columns that each row has; None: any number."""
        if self.objects is None:
            return None
        return 1 + len(self.objects) + (self.number_column is not None)

    def describe(self) -> str:
        """The columns in words, in their order."""
        names = {self.relation: {"types": "type", "attributes": "attribute"}.get(self.format, "relation")}
        if self.format == "triples" and self.objects:
            names |= dict(zip(self.objects, ("head", "tail"), strict=True))
        elif self.format == "nary" and self.objects:
            names |= {column: f"arg{place + 1}" for place, column in enumerate(self.objects)}
        elif self.objects:
            names[self.objects[0]] = "object"
        if self.number_column is not None:
            names[self.number_column] = "value" if self.format == "attributes" else "confidence"
        return ", ".join(names[column] for column in sorted(names)) + (", objects" * (self.objects is None))


DEFAULT_LAYOUTS: Final = {
    "triples": TableLayout("triples", 1, (0, 2)),
    "nary": TableLayout("nary", 0, None),
    "types": TableLayout("types", 1, (0,)),
    "attributes": TableLayout("attributes", 1, (0,), 2),
}
"""The columns of each format where no header says otherwise."""

_RELATION: Final = frozenset({"relation", "predicate", "property", "edge"})
_HOLDER: Final = frozenset({"object", "subject", "entity", "head", "name"})
_WORDS: Final = {
    "triples": (
        frozenset({"head", "subject", "source", "from"}),
        _RELATION,
        frozenset({"tail", "object", "target", "to"}),
    ),
    "types": (_HOLDER, frozenset({"type", "class"})),
    "attributes": (_HOLDER, frozenset({"attribute", "property", "relation"}), frozenset({"value", "number"})),
}
_CONFIDENCE: Final = frozenset({"confidence", "weight", "probability", "score"})
_ROLES: Final[frozenset[str]] = _CONFIDENCE.union(*(words for roles in _WORDS.values() for words in roles))
_NUMBERED: Final = frozenset({"relation", "predicate"})
"""Words for the relation beside numbered places; `a1 edge a2` may well be a fact."""
_POSITION: Final = re.compile(r"(?:arg|argument|a|object|obj|entity)_?([1-9])")


def parse_header(row: Sequence[str]) -> TableLayout | None:
    """The layout that a first row names, if it is a header.

    >>> parse_header(["relation", "arg1", "arg2"])
    Layout(format='nary', relation=0, objects=None, number=None, header=True)
    >>> parse_header(["arg2", "relation", "arg1"]).objects
    (2, 0)
    """
    words = [word.strip().lower() for word in row]
    if len(set(words)) != len(words):
        return None
    number = next((column for column, word in enumerate(words) if word in _CONFIDENCE), None)
    for form, roles in _WORDS.items():
        columns = [next((c for c, word in enumerate(words) if word in names), -1) for names in roles]
        extra = [] if number is None else [number]
        if sorted(columns + extra) != list(range(len(words))):
            continue
        if form == "triples":
            return TableLayout(form, columns[1], (columns[0], columns[2]), number, True)
        if number is None:
            return TableLayout(form, columns[1], (columns[0],), columns[2] if columns[2:] else None, True)
    return _numbered(words, number)


def _numbered(words: Sequence[str], number: int | None) -> TableLayout | None:
    """The layout of a header with a relation and numbered places, in whatever order."""
    relation = next((column for column, word in enumerate(words) if word in _NUMBERED), None)
    places = {int(found[1]): column for column, word in enumerate(words) if (found := _POSITION.fullmatch(word))}
    whole = len(places) + 1 + (number is not None) == len(words)
    if relation is None or not places or not whole or sorted(places) != list(range(1, len(places) + 1)):
        return None
    if len(places) > MAX_ARITY:
        return None
    order = tuple(places[place] for place in sorted(places))
    first = 1 + (number is not None)
    if relation == 0 and number in (None, 1) and order == tuple(range(first, len(words))):
        return TableLayout(
            "nary", 0, None, number, True
        )  # a row may then be shorter: the places that are left are its own
    return TableLayout("nary", relation, order, number, True)


@dataclass(frozen=True, slots=True)
class LayoutProblem:
    """Why the columns of a table cannot be told."""

    message: str
    hint: str
    column: int = 0
    """Where in the first row."""


def find_header_problem(row: Sequence[str]) -> LayoutProblem | None:
    """Why a first row that is no header looks like one: two of its words say what a column holds.

    >>> find_header_problem(["subject", "predicate", "object", "date"]).message
    'this looks like a header; the column date is unknown'
    """
    words = [word.strip().lower() for word in row]
    said = [word in _ROLES or _POSITION.fullmatch(word) is not None for word in words]
    placed = sum(said) > 1 and not _NUMBERED.isdisjoint(words)
    if len(_ROLES.intersection(words)) < 2 and not placed:
        return None
    hint = "leave such columns out; where the row is one of data, say so by --format (in Python format=…)"
    if not all(said):
        column = said.index(False)
        return LayoutProblem(f"this looks like a header; the column {shorten(row[column])} is unknown", hint, column)
    return LayoutProblem("this looks like a header, but its words together name no facts", f"{_KNOWN}; {hint}")


_KNOWN: Final = "known are head, relation, tail; relation, arg1, arg2 …; object, type; object, attribute, value"


def detect_layout(rows: Sequence[Sequence[str]]) -> TableLayout | LayoutProblem:
    """The layout of a table by its first rows, or why there is none."""
    if not rows:
        return LayoutProblem("there are no rows", "")
    named = parse_header(rows[0]) or find_header_problem(rows[0])
    if named:
        return named
    width = _width(rows)
    if width is None or width > 4:
        return DEFAULT_LAYOUTS["nary"]
    rows = [row for row in rows if len(row) == width]
    columns = [all(map(is_number, column)) for column in zip(*rows, strict=True)]
    match columns:
        case [_, True]:
            return LayoutProblem(
                "two columns, and the second holds numbers: values need the name of their attribute",
                "write object, attribute, value; where the numbers are types, say --format types",
                1,
            )
        case [_, _]:
            return DEFAULT_LAYOUTS["types"]
        case [False, _, True]:
            return DEFAULT_LAYOUTS["attributes"]
        case [_, _, _]:
            return DEFAULT_LAYOUTS["triples"]
        case [_, _, _, True] if _looks_like_confidence([float(row[3]) for row in rows]):
            return replace(DEFAULT_LAYOUTS["triples"], number_column=3)
        case [_, _, _, _] if len({row[1] for row in rows}) < len({row[0] for row in rows}):
            return LayoutProblem(
                "four columns, of which the second repeats itself and the fourth is no confidence: "
                "which one holds the relation cannot be told",
                "say --format nary where it is the first; where it is the second, leave the fourth column out, "
                "or say --format triples where that is a confidence",
                3,
            )
        case [_, _, _, _]:
            return DEFAULT_LAYOUTS["nary"]
    return LayoutProblem(
        "one column, where facts need at least two",
        "columns are separated by a tab, in .csv files by a comma; the file may be no table at all",
    )


def _width(rows: Sequence[Sequence[str]]) -> int | None:
    """The width of all rows; None where each relation has its own. Of rows that fit neither, some are wrong."""
    widths = Counter(map(len, rows))
    common = max(widths, key=lambda width: (widths[width], width))
    own: dict[str, int] = {}
    if len(widths) == 1 or any(own.setdefault(row[0], len(row)) != len(row) for row in rows):
        return common
    # Triples with a wrong row among them: most have one width, and it is the second column that repeats itself.
    firsts, seconds = len(own), len({row[1] for row in rows if len(row) > 1})
    return common if 2 * widths[common] >= len(rows) and common > 2 and seconds < firsts else None


def _looks_like_confidence(numbers: Sequence[float]) -> bool:
    """Whether numbers are meant as confidences, even if some of them cannot be: those are errors then."""
    good = sum(0 < number <= 1 for number in numbers)
    return 2 * good >= len(numbers) or not any(number < 0 or number > 100 for number in numbers)


def is_number(text: str) -> bool:
    """Whether the text is a decimal number, or one of the texts that programs write for no number."""
    text = text.strip()
    return DECIMAL.fullmatch(text) is not None or text.lower().lstrip("+-") in ("nan", "inf", "infinity")


def layout_for_format(form: str, first: Sequence[str]) -> TableLayout:
    """The layout of a format asked for by name; a header may still name its columns."""
    named = parse_header(first)
    if named and named.format == form:
        return named
    plain = DEFAULT_LAYOUTS[form]
    return replace(plain, number_column=3) if form == "triples" and len(first) == 4 else plain


BATCH_SIZE = 20_000
"""Rows of a file with quotes that are handed on at once."""


class RowBatch:
    """Some rows of a file or table."""

    def __init__(
        self,
        source: str,
        fields: list[str],
        widths: Longs,
        lines: Longs,
        delimiter: str = "\t",
        raw: Sequence[str] = (),
    ) -> None:
        self.source = source
        self.fields = fields
        """All fields, row after row."""
        self.widths = widths
        """Shape (rows,), int64: fields of each row."""
        self.lines = lines
        """Shape (rows,), int64: number of the line in which each row begins."""
        self.delimiter = delimiter
        self.raw = raw
        """Text of each row where fields are quoted, for the columns of errors."""

    def __len__(self) -> int:
        return len(self.widths)

    @cached_property
    def starts(self) -> Longs:
        """Shape (rows,), int64: position of each row's first field."""
        return np.cumsum(self.widths) - self.widths

    def row(self, number: int) -> list[str]:
        """The fields of one row."""
        start = int(self.starts[number])
        return self.fields[start : start + int(self.widths[number])]

    def location(self, row: int, field: int) -> Location:
        """Where a field stands; one past the last field is the end of the row."""
        fields, line = self.row(row), int(self.lines[row])
        if self.raw:
            return _quoted_location(self.source, line, self.raw[row], field, self.delimiter)
        column = sum(map(len, fields[:field])) + min(field, len(fields))
        width = len(fields[field]) if field < len(fields) else 1
        return Location(self.source, line, column + 1, self.delimiter.join(fields), max(width, 1))

    def locate(self, position: int) -> Location:
        """The place of a position in `fields`."""
        row = int(np.searchsorted(self.starts, position, side="right")) - 1
        return self.location(row, position - int(self.starts[row]))

    def tail(self, first: int) -> RowBatch:
        """The rows from one on."""
        start = int(self.widths[:first].sum())
        return RowBatch(
            self.source, self.fields[start:], self.widths[first:], self.lines[first:], self.delimiter, self.raw[first:]
        )

    def fields_at(self, positions: Longs) -> list[str]:
        """The fields at some positions."""
        return [self.fields[position] for position in positions.tolist()]

    def encode_names(self, builder: KnowledgeBaseBuilder, skipped: Longs, replacements: Longs) -> Ints:
        """Numbers in the draft of all fields; for those that are no names, the numbers of others instead."""
        names = self.fields
        if len(skipped):
            names = names.copy()
            for position, other in zip(skipped.tolist(), replacements.tolist(), strict=True):
                names[position] = names[other]
        return builder.encode_names(names, self.locate)


class ByteRowBatch(RowBatch):
    """Rows whose fields are still bytes of a block: most files are read without making a text of each."""

    def __init__(
        self, block: TextBlock, delimiter: str, spans: tuple[Longs, Longs], widths: Longs, lines: Longs
    ) -> None:
        self.source, self.delimiter, self.raw = block.source, delimiter, ()
        self.widths, self.lines = widths, lines
        self._block, self._spans = block, spans

    def fields_at(self, positions: Longs) -> list[str]:
        """The fields at some positions, decoded."""
        begins, ends = (bound[positions].tolist() for bound in self._spans)
        try:
            return [self._block.data[a:b].decode() for a, b in zip(begins, ends, strict=True)]
        except UnicodeDecodeError:
            self._block.decode()  # says where
            raise

    @cached_property
    def fields(self) -> list[str]:  # type: ignore[override]
        """All fields, row after row."""
        return self.fields_at(np.arange(len(self._spans[0])))

    def row(self, number: int) -> list[str]:
        """The fields of one row."""
        start = int(self.starts[number])
        return self.fields_at(np.arange(start, start + int(self.widths[number])))

    def tail(self, first: int) -> ByteRowBatch:
        """The rows from one on."""
        start = int(self.widths[:first].sum())
        spans = (self._spans[0][start:], self._spans[1][start:])
        return ByteRowBatch(self._block, self.delimiter, spans, self.widths[first:], self.lines[first:])

    def encode_names(self, builder: KnowledgeBaseBuilder, skipped: Longs, replacements: Longs) -> Ints:
        """Numbers in the draft of all fields; for those that are no names, the numbers of others instead."""
        begins, ends = self._spans
        if len(skipped):
            begins, ends = begins.copy(), ends.copy()
            begins[skipped], ends[skipped] = begins[replacements], ends[replacements]
        try:
            return builder.encode_bytes(
                self._block.data, begins, ends, lambda name: self.locate(self.fields.index(name))
            )
        except UnicodeDecodeError:
            self._block.decode()  # says where
            raise


def split_rows(block: TextBlock, delimiter: str) -> RowBatch:
    r"""The rows of a block: a newline ends a row, the delimiter a field, nothing is quoted, blank lines are not rows.

    >>> rows = split_rows(TextBlock("x.tsv", 1, b"a\tb\n\nc\n"), "\t")
    >>> rows.fields, rows.widths.tolist(), rows.lines.tolist()
    (['a', 'b', 'c'], [2, 1], [1, 3])
    """
    block = block.normalise_newlines()
    block.check_no_nul()
    letters = np.frombuffer(block.data, np.uint8)
    ends = np.flatnonzero(_either(letters, ord(delimiter), 10))  # of all fields
    last = np.flatnonzero(letters[ends] == 10)  # of those, the ends of rows
    widths = np.diff(last, prepend=-1)
    begins = np.concatenate([[0], ends[:-1] + 1])
    lines = np.arange(block.line, block.line + len(last))
    blank = np.diff(ends[last], prepend=-1) == 1
    if blank.any():
        kept = np.repeat(~blank, widths)
        begins, ends, widths, lines = begins[kept], ends[kept], widths[~blank], lines[~blank]
    return ByteRowBatch(block, delimiter, (begins, ends), widths, lines)


def _either(letters: npt.NDArray[np.uint8], one: int, other: int) -> npt.NDArray[np.bool_]:
    """Where a letter is one of two; a tab and a newline are neighbours, so one comparison does for them."""
    found: npt.NDArray[np.bool_]
    found = (letters - np.uint8(one)) < 2 if one + 1 == other else (letters == one) | (letters == other)
    return found


def read_csv_rows(blocks: Iterable[TextBlock], delimiter: str) -> Iterator[RowBatch]:
    """The rows of blocks in which fields may be quoted, as in RFC 4180; a quoted field may hold newlines."""
    for block in blocks:
        if b'"' in block.data:
            yield from _read_quoted_rows(chain([block], blocks), delimiter)
            return
        yield split_rows(block, delimiter)


class _Lines:
    """Lines of blocks, one by one, for the standard reader; keeps those of the row that is being read."""

    def __init__(self, blocks: Iterable[TextBlock]) -> None:
        self.source, self.line, self.text = "", 1, ""
        self._lines = self._all(blocks)

    def __iter__(self) -> Iterator[str]:
        return self._lines

    def _all(self, blocks: Iterable[TextBlock]) -> Iterator[str]:
        for number, block in enumerate(blocks):
            if number == 0:
                self.source, self.line = block.source, block.line
            for line in block.decode().split("\n")[:-1]:
                self.text += line + "\n"
                yield line + "\n"

    def take_row(self) -> tuple[int, str]:
        """Line number and text of the row that was read."""
        line, text = self.line, self.text
        self.line, self.text = line + text.count("\n"), ""
        return line, text


def _read_quoted_rows(blocks: Iterable[TextBlock], delimiter: str) -> Iterator[RowBatch]:
    """By the standard reader, which may need the lines of the next block to end a row."""
    lines = _Lines(blocks)
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    batch: list[tuple[int, str, list[str]]] = []
    while True:
        try:
            fields = next(reader, None)
        except csv.Error as error:
            raise _csv_error(lines, error) from None
        if fields is None or len(batch) >= BATCH_SIZE:
            yield _batch(lines.source, batch, delimiter)
            batch = []
        if fields is None:
            return
        line, text = lines.take_row()
        if fields:
            batch.append((line, text, fields))


def _csv_error(lines: _Lines, error: csv.Error) -> InputError:
    line, text = lines.take_row()
    place = Location(lines.source, line, 1, text.split("\n", 1)[0].rstrip("\r"))
    if "field limit" in str(error):
        return InputError(
            f"a field is longer than {csv.field_size_limit():,} characters",
            location=place,
            hint="is a quotation mark not closed? Longer names can be read from .tsv and .facts files",
        )
    return InputError(
        f"the quotation marks are not in order: {error}",
        location=place,
        hint='write "" for a quotation mark inside quotation marks',
    )


def _batch(source: str, batch: Sequence[tuple[int, str, list[str]]], delimiter: str) -> RowBatch:
    return RowBatch(
        source,
        list(chain.from_iterable(fields for _, _, fields in batch)),
        np.array([len(fields) for _, _, fields in batch], np.int64),
        np.array([line for line, _, _ in batch], np.int64),
        delimiter,
        [text for _, text, _ in batch],
    )


def _quoted_location(source: str, line: int, text: str, field: int, delimiter: str) -> Location:
    """The place of a field in the text of a row, which may go over several lines."""
    part = re.compile(rf'("(?:[^"]|"")*"|[^{re.escape(delimiter)}\n]*)(?:{re.escape(delimiter)}|\n|\Z)')
    at = 0
    found = None
    for _ in range(field + 1):
        found = part.match(text, at)
        if found is None or at >= len(text):
            break
        at = found.end()
    start, end = (found.start(1), found.end(1)) if found else (max(len(text) - 1, 0), len(text))
    place = Location.from_offset(source, text, start, max(1, end - start))
    return Location(source, line + place.line - 1, place.column, place.text.rstrip("\r"), place.width)


def add_rows(rows: RowBatch, layout: TableLayout, builder: KnowledgeBaseBuilder) -> None:
    """Put rows into a draft, as their layout says."""
    if not len(rows):
        return
    _check_widths(rows, layout)
    numbers, skipped = None, np.zeros(0, np.int64)
    if layout.number_column is not None:
        column, skipped = layout.number_column, rows.starts + layout.number_column
        numbers = parse_numbers(rows.fields_at(skipped), lambda row: rows.location(row, column))
    ids = rows.encode_names(builder, skipped, skipped - (layout.number_column or 0) + layout.relation)
    if layout.objects is None:
        where = _RowLocator(rows, np.arange(len(rows)), (layout.relation,), None)
        builder.check_arities(ids[rows.starts + layout.relation], rows.widths - _min_columns(layout) + 1, where)
    for width in np.unique(rows.widths).tolist():
        chosen = np.flatnonzero(rows.widths == width)
        table = ids.reshape(-1, width) if len(chosen) == len(rows) else _gather(ids, rows.starts[chosen], width)
        columns = layout.objects or tuple(
            column for column in range(width) if column not in (layout.relation, layout.number_column)
        )
        part = None if numbers is None else numbers[chosen]
        where = _RowLocator(rows, chosen, (layout.relation, *columns), layout.number_column)
        if layout.format == "attributes":
            assert part is not None
            builder.add_values(table[:, layout.relation], table[:, columns[0]], part, where)
        else:
            builder.add_facts(table[:, layout.relation], table[:, columns], part, where)


def _gather(ids: Ints, starts: Longs, width: int) -> Ints:
    """Rows of one width, shape (starts, width)."""
    found: Ints = ids[starts[:, None] + np.arange(width)]
    return found


@dataclass(frozen=True, slots=True)
class _RowLocator:
    """From a draft's row and field to the place in the file."""

    rows: RowBatch
    chosen: Longs
    columns: tuple[int, ...]
    number: int | None

    def __call__(self, row: int, field: int) -> Location:
        column = self.columns[field] if field != NUMBER_FIELD else self.number
        return self.rows.location(int(self.chosen[row]), column or 0)


def _check_widths(rows: RowBatch, layout: TableLayout) -> None:
    fixed = layout.column_count
    if fixed is not None:
        wrong = rows.widths != fixed
        wanted = f"{fixed} columns ({layout.describe()})"
    else:
        least = _min_columns(layout)
        wrong = (rows.widths < least) | (rows.widths >= least + MAX_ARITY)
        wanted = f"{least} to {least + MAX_ARITY - 1} columns ({layout.describe()})"
    if not wrong.any():
        return
    row = int(np.argmax(wrong))
    found = int(rows.widths[row])
    field = fixed if fixed is not None and found > fixed else found - 1 if found < 2 else min(found - 1, 9)
    raise InputError(
        f"{plural(found, 'column')}, where {wanted} were expected",
        location=rows.location(row, field),
        hint="" if found > 1 else "columns are separated by a tab, in .csv files by a comma",
    )


def _min_columns(layout: TableLayout) -> int:
    """Columns of a fact with one object."""
    return 2 + (layout.number_column is not None)


def parse_numbers(texts: Sequence[str], locate: Callable[[int], Location]) -> Floats:
    """The texts as numbers, shape (texts,)."""
    try:
        numbers = np.fromiter(map(float, texts), np.float64, len(texts))
        if np.isfinite(numbers).all() and not any("_" in text for text in texts):
            return numbers
    except ValueError:
        pass
    for row, text in enumerate(texts):
        if not DECIMAL.fullmatch(text.strip()) or not np.isfinite(float(text)):
            raise InputError(f"not a finite number: {shorten(repr(text))}", location=locate(row))
    return numbers

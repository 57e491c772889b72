"""Read tab-separated and comma-separated tables."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import numpy.typing as npt

from gaifman.config import MAX_ARITY
from gaifman.errors import InputError, Location, shorten
from gaifman.io.files import BATCH_SIZE, BLOCK_SIZE, TextBlock
from gaifman.io.layouts import DECIMAL, TableLayout, detect_layout, layout_for_format
from gaifman.kb.builder import NUMBER_FIELD, KnowledgeBaseBuilder
from gaifman.kb.tables import Floats, Ints, Longs
from gaifman.threads import cached_property

SAMPLE_ROWS = 1_000
"""Rows used to detect the layout."""

_SNIFF_BYTES = 1 << 16
"""Bytes used to detect the delimiter."""

_QUOTED = re.compile(rb'(?:^|(?<=[\t,;\n]))"(?:[^"]|"")*+(?:"(?=[\t,;\r\n])|"?\Z)')


def read_table(
    blocks: Iterator[TextBlock],
    suffix: str,
    file_format: str | None,
    builder: KnowledgeBaseBuilder,
    header: bool | None = None,
) -> str:
    """Read a table into the builder and return its format; `header` is that of `gaifman.read`."""
    first = next(blocks, None)
    if first is None:
        return file_format or "triples"
    rows = _rows(chain([first], blocks), detect_delimiter(first.data, suffix))
    part = next((part for part in rows if len(part)), None)
    if part is None:
        return file_format or "triples"
    layout = layout_for_format(file_format, _sample(part), header) if file_format else _detect_layout(part, header)
    if layout.header:
        example = f"{first.source}: {', '.join(map(shorten, part.row(0)))}"
        builder.add_note(1, "first lines read as headers", example, "first line read as a header")
    add_rows(part.tail(1) if layout.header else part, layout, builder)
    for part in rows:
        add_rows(part, layout, builder)
    return layout.format


def detect_table_layout(data: bytes, suffix: str) -> tuple[str, TableLayout] | None:
    """Return the delimiter and layout that would be detected for a file; None if it would be refused."""
    cut = data.rfind(b"\n", 0, BLOCK_SIZE) + 1  # the same blocks as in `read_blocks`
    parts = [TextBlock("", 1, part) for part in (data[:cut], data[cut:]) if part]
    delimiter = detect_delimiter(data, suffix)
    try:
        rows = next((part for part in _rows(parts, delimiter) if len(part)), None)
        return (delimiter, _detect_layout(rows)) if rows else None
    except InputError:
        return None


def _sample(rows: RowBatch) -> list[list[str]]:
    return [rows.row(number) for number in range(min(len(rows), SAMPLE_ROWS))]


def _detect_layout(rows: RowBatch, header: bool | None = None) -> TableLayout:
    layout = detect_layout(_sample(rows), header)
    if isinstance(layout, TableLayout):
        return layout
    raise InputError(layout.message, location=rows.location(0, layout.column), hint=layout.hint)


def _rows(blocks: Iterable[TextBlock], delimiter: str) -> Iterator[RowBatch]:
    if delimiter == "\t":
        return (split_rows(block, delimiter) for block in blocks)
    return read_csv_rows(iter(blocks), delimiter)


def detect_delimiter(data: bytes, suffix: str) -> str:
    r"""Return the delimiter that gives the first rows equally many columns, and the most; quoted text is ignored.

    >>> detect_delimiter(b"ann;age;80,5\nbob;age;70,2\n", ".csv"), detect_delimiter(b"p\ta,b\nq\ta,b\tc\n", ".tsv")
    (';', '\t')
    """
    text = _QUOTED.sub(b"", data[:_SNIFF_BYTES])
    lines = [line for line in text.split(b"\n")[:100] if line.strip(b"\r")]
    if len(data) > _SNIFF_BYTES:
        lines = lines[:-1] or lines  # the last one may be incomplete
    order = (b",", b";", b"\t") if suffix == ".csv" else (b"\t", b",", b";")
    counts = {mark: [line.count(mark) for line in lines] for mark in order}
    if suffix != ".csv" and all(counts[b"\t"]):
        return "\t"  # such tables have no quotes: a name may contain commas, but no tab
    equal = Counter({mark: number[0] for mark, number in counts.items() if len(set(number)) == 1 and number[0]})
    some = [mark for mark, number in counts.items() if number and number[0]]
    return (max(equal, key=equal.__getitem__) if equal else (some or order)[0]).decode()


class RowBatch:
    """Some rows of a table, as text."""

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
        """Shape (rows,), int64: number of fields."""
        self.lines = lines
        """Shape (rows,), int64: line number of the start."""
        self.delimiter = delimiter
        self.raw = raw
        """Text of each row if fields are quoted, for the columns of errors."""

    def __len__(self) -> int:
        return len(self.widths)

    @cached_property
    def starts(self) -> Longs:
        """Shape (rows,), int64: index of the first field."""
        return np.cumsum(self.widths) - self.widths

    def row(self, number: int) -> list[str]:
        """Return the fields of a row."""
        start = int(self.starts[number])
        return self.fields[start : start + int(self.widths[number])]

    def location(self, row: int, field: int) -> Location:
        """Return the location of a field; the index after the last field is the end of the row."""
        fields, line = self.row(row), int(self.lines[row])
        if self.raw:
            return _quoted_location(self.source, line, self.raw[row], field, self.delimiter)
        column = sum(map(len, fields[:field])) + min(field, len(fields))
        width = len(fields[field]) if field < len(fields) else 1
        return Location(self.source, line, column + 1, self.delimiter.join(fields), max(width, 1))

    def locate(self, index: int) -> Location:
        """Return the location of an index of `fields`."""
        row = int(np.searchsorted(self.starts, index, side="right")) - 1
        return self.location(row, index - int(self.starts[row]))

    def tail(self, first: int) -> RowBatch:
        """Return the rows from `first` on."""
        start = int(self.widths[:first].sum())
        return RowBatch(
            self.source, self.fields[start:], self.widths[first:], self.lines[first:], self.delimiter, self.raw[first:]
        )

    def fields_at(self, indices: Longs) -> list[str]:
        """Return the fields at some indices."""
        return [self.fields[index] for index in indices.tolist()]

    def encode_names(self, builder: KnowledgeBaseBuilder, skipped: Longs, replacements: Longs) -> Ints:
        """Encode all fields. A skipped field is not a name; it gets the number of its replacement."""
        names = self.fields
        if len(skipped):
            names = names.copy()
            for index, other in zip(skipped.tolist(), replacements.tolist(), strict=True):
                names[index] = names[other]
        return builder.encode_names(names, self.locate)


class ByteRowBatch(RowBatch):
    """Rows whose fields are spans of a block: most files are read without decoding each field."""

    def __init__(
        self, block: TextBlock, delimiter: str, spans: tuple[Longs, Longs], widths: Longs, lines: Longs
    ) -> None:
        self.source, self.delimiter, self.raw = block.source, delimiter, ()
        self.widths, self.lines = widths, lines
        self._block, self._spans = block, spans

    def fields_at(self, indices: Longs) -> list[str]:
        """Return the fields at some indices, decoded."""
        begins, ends = (bound[indices].tolist() for bound in self._spans)
        try:
            return [self._block.data[a:b].decode() for a, b in zip(begins, ends, strict=True)]
        except UnicodeDecodeError:
            self._block.decode()  # raises with the location
            raise

    @cached_property
    def fields(self) -> list[str]:
        """All fields, row after row, decoded."""
        return self.fields_at(np.arange(len(self._spans[0])))

    def row(self, number: int) -> list[str]:
        """Return the fields of a row."""
        start = int(self.starts[number])
        return self.fields_at(np.arange(start, start + int(self.widths[number])))

    def tail(self, first: int) -> ByteRowBatch:
        """Return the rows from `first` on."""
        start = int(self.widths[:first].sum())
        spans = (self._spans[0][start:], self._spans[1][start:])
        return ByteRowBatch(self._block, self.delimiter, spans, self.widths[first:], self.lines[first:])

    def encode_names(self, builder: KnowledgeBaseBuilder, skipped: Longs, replacements: Longs) -> Ints:
        """Encode all fields. A skipped field is not a name; it gets the number of its replacement."""
        begins, ends = self._spans
        if len(skipped):
            begins, ends = begins.copy(), ends.copy()
            begins[skipped], ends[skipped] = begins[replacements], ends[replacements]
        try:
            return builder.encode_bytes(
                self._block.data, begins, ends, lambda name: self.locate(self.fields.index(name))
            )
        except UnicodeDecodeError:
            self._block.decode()  # raises with the location
            raise


def split_rows(block: TextBlock, delimiter: str) -> RowBatch:
    r"""Return the rows of a block without quotes; blank lines are skipped.

    >>> rows = split_rows(TextBlock("x.tsv", 1, b"a\tb\n\nc\n"), "\t")
    >>> rows.fields, rows.widths.tolist(), rows.lines.tolist()
    (['a', 'b', 'c'], [2, 1], [1, 3])
    """
    block = block.normalise_newlines()
    block.check_no_nul()
    codes = np.frombuffer(block.data, np.uint8)
    ends = np.flatnonzero(_either(codes, ord(delimiter), 10))  # of all fields
    last = np.flatnonzero(codes[ends] == 10)  # of those, the ends of rows
    widths = np.diff(last, prepend=-1)
    begins = np.concatenate([[0], ends[:-1] + 1])
    lines = np.arange(block.line, block.line + len(last))
    blank = np.diff(ends[last], prepend=-1) == 1
    if blank.any():
        used = np.repeat(~blank, widths)
        begins, ends, widths, lines = begins[used], ends[used], widths[~blank], lines[~blank]
    return ByteRowBatch(block, delimiter, (begins, ends), widths, lines)


def _either(codes: npt.NDArray[np.uint8], one: int, other: int) -> npt.NDArray[np.bool_]:
    """Return where a code is one of two. One comparison is enough for tab and newline, which are 9 and 10."""
    match: npt.NDArray[np.bool_]
    match = (codes - np.uint8(one)) < 2 if one + 1 == other else (codes == one) | (codes == other)
    return match


def read_csv_rows(blocks: Iterable[TextBlock], delimiter: str) -> Iterator[RowBatch]:
    """Yield the rows of blocks with quoted fields, as in RFC 4180; a quoted field may contain newlines."""
    for block in blocks:
        if b'"' in block.data:
            yield from _read_quoted_rows(chain([block], blocks), delimiter)
            return
        yield split_rows(block, delimiter)


class _Lines:
    """Lines of blocks for Python's CSV reader; keeps the text of the current row."""

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
        """Return line number and text of the row that was read."""
        line, text = self.line, self.text
        self.line, self.text = line + text.count("\n"), ""
        return line, text


def _read_quoted_rows(blocks: Iterable[TextBlock], delimiter: str) -> Iterator[RowBatch]:
    """Yield rows from Python's CSV reader; a row may continue in the next block."""
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
    location = Location(lines.source, line, 1, text.split("\n", 1)[0].rstrip("\r"))
    if "field limit" in str(error):
        return InputError(
            f"a field is longer than {csv.field_size_limit():,} characters",
            location=location,
            hint="perhaps a quotation mark is not closed; .tsv and .facts files can have longer names",
        )
    return InputError(
        f"invalid quotation marks: {error}",
        location=location,
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
    """Return the location of a field in the text of a row, which may have several lines."""
    pattern = re.compile(rf'("(?:[^"]|"")*"|[^{re.escape(delimiter)}\n]*)(?:{re.escape(delimiter)}|\n|\Z)')
    at = 0
    match = None
    for _ in range(field + 1):
        match = pattern.match(text, at)
        if match is None or at >= len(text):
            break
        at = match.end()
    start, end = match.span(1) if match else (max(len(text) - 1, 0), len(text))
    location = Location.from_offset(source, text, start, max(1, end - start))
    return Location(source, line + location.line - 1, location.column, location.text.rstrip("\r"), location.width)


def add_rows(rows: RowBatch, layout: TableLayout, builder: KnowledgeBaseBuilder) -> None:
    """Add rows to the builder, by their layout."""
    if not len(rows):
        return
    _check_widths(rows, layout)
    numbers, skipped = None, np.zeros(0, np.int64)
    if layout.number_column is not None:
        column, skipped = layout.number_column, rows.starts + layout.number_column
        numbers = parse_numbers(rows.fields_at(skipped), lambda row: rows.location(row, column))
    ids = rows.encode_names(builder, skipped, skipped - (layout.number_column or 0) + layout.relation)
    if layout.objects is None:
        locate = _RowLocator(rows, np.arange(len(rows)), (layout.relation,), None)
        builder.check_arities(ids[rows.starts + layout.relation], rows.widths - _min_columns(layout) + 1, locate)
    for width in np.unique(rows.widths).tolist():
        chosen = np.flatnonzero(rows.widths == width)
        table = ids.reshape(-1, width) if len(chosen) == len(rows) else _gather(ids, rows.starts[chosen], width)
        columns = layout.objects or tuple(
            column for column in range(width) if column not in (layout.relation, layout.number_column)
        )
        part = None if numbers is None else numbers[chosen]
        locate = _RowLocator(rows, chosen, (layout.relation, *columns), layout.number_column)
        if layout.format == "attributes":
            assert part is not None
            builder.add_values(table[:, layout.relation], table[:, columns[0]], part, locate)
        else:
            builder.add_facts(table[:, layout.relation], table[:, columns], part, locate)


def _gather(ids: Ints, starts: Longs, width: int) -> Ints:
    """Return the rows of one width, shape (starts, width)."""
    rows: Ints = ids[starts[:, None] + np.arange(width)]
    return rows


@dataclass(frozen=True, slots=True)
class _RowLocator:
    """Row and field of the builder → location in the file."""

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
        expected = f"{fixed} columns ({layout.describe()})"
    else:
        minimum = _min_columns(layout)
        wrong = (rows.widths < minimum) | (rows.widths >= minimum + MAX_ARITY)
        expected = f"{minimum} to {minimum + MAX_ARITY - 1} columns ({layout.describe()})"
    if not wrong.any():
        return
    row = int(np.argmax(wrong))
    width = int(rows.widths[row])
    field = fixed if fixed is not None and width > fixed else width - 1 if width < 2 else min(width - 1, 9)
    raise InputError(
        f"expected {expected}, got {width}",
        location=rows.location(row, field),
        hint="" if width > 1 else "columns are separated by a tab, in .csv files by a comma",
    )


def _min_columns(layout: TableLayout) -> int:
    """Return the number of columns of a fact with one object."""
    return 2 + (layout.number_column is not None)


def parse_numbers(texts: Sequence[str], locate: Callable[[int], Location]) -> Floats:
    """Return the texts as numbers, shape (texts,)."""
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

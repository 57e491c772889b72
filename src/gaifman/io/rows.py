"""Rows of fields, cut out of text at C speed, that still know where each field stands."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain

import numpy as np
import numpy.typing as npt

from gaifman.draft import KnowledgeBaseBuilder
from gaifman.errors import InputError, Location
from gaifman.io.files import TextBlock
from gaifman.tables import Ints, Longs

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

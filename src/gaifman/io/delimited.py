"""Tables as text: tab-separated, and comma-separated with quotes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain

from gaifman.draft import KnowledgeBaseBuilder
from gaifman.errors import InputError
from gaifman.io.files import BLOCK_SIZE, TextBlock
from gaifman.io.interpret import add_rows
from gaifman.io.layouts import TableLayout, detect_layout, layout_for_format
from gaifman.io.rows import RowBatch, read_csv_rows, split_rows

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

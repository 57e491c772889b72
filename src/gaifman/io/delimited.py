"""Tables as text: tab-separated, and comma-separated with quotes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain

from gaifman.draft import Draft
from gaifman.errors import InputError
from gaifman.io.files import BLOCK, Block
from gaifman.io.interpret import interpret
from gaifman.io.layouts import Layout, asked, guess
from gaifman.io.rows import Rows, csv_rows, split

SAMPLE = 1_000
"""Rows that are looked at to guess what the columns hold."""

_BEGIN = 1 << 16
"""Bytes that are looked at to tell the delimiter."""

_QUOTED = re.compile(rb'(?:^|(?<=[\t,;\n]))"(?:[^"]|"")*+(?:"(?=[\t,;\r\n])|"?\Z)')


def read_table(blocks: Iterator[Block], suffix: str, form: str | None, draft: Draft) -> str:
    """Put a text table into a draft; the form it was read as."""
    first = next(blocks, None)
    if first is None:
        return form or "triples"
    rows = _rows(chain([first], blocks), delimiter(first.data, suffix))
    part = next((part for part in rows if len(part)), None)
    if part is None:
        return form or "triples"
    layout = asked(form, part.row(0)) if form else _guessed(part)
    interpret(part.tail(1) if layout.header else part, layout, draft)
    for part in rows:
        interpret(part, layout, draft)
    return layout.format


def layout_of(data: bytes, suffix: str) -> tuple[str, Layout] | None:
    """The delimiter and layout by which the beginning of a file would be read; None where it would be refused."""
    cut = data.rfind(b"\n", 0, BLOCK) + 1  # as the reader cuts it
    parts = [Block("", 1, part) for part in (data[:cut], data[cut:]) if part]
    mark = delimiter(data, suffix)
    try:
        rows = next((part for part in _rows(parts, mark) if len(part)), None)
        return (mark, _guessed(rows)) if rows else None
    except InputError:
        return None


def _guessed(rows: Rows) -> Layout:
    found = guess([rows.row(number) for number in range(min(len(rows), SAMPLE))])
    if isinstance(found, Layout):
        return found
    raise InputError(found.message, place=rows.place(0, found.column), hint=found.hint)


def _rows(blocks: Iterable[Block], mark: str) -> Iterator[Rows]:
    if mark == "\t":
        return (split(block, mark) for block in blocks)
    return csv_rows(iter(blocks), mark)


def delimiter(data: bytes, suffix: str) -> str:
    r"""The mark that cuts the first rows into equally many columns, and into most; what is quoted does not count.

    >>> delimiter(b"ann;age;80,5\nbob;age;70,2\n", ".csv"), delimiter(b"p\ta,b\nq\ta,b\tc\n", ".tsv")
    (';', '\t')
    """
    text = _QUOTED.sub(b"", data[:_BEGIN])
    lines = [line for line in text.split(b"\n")[:100] if line.strip(b"\r")]
    if len(data) > _BEGIN:
        lines = lines[:-1] or lines  # the last one may be cut
    order = (b",", b";", b"\t") if suffix == ".csv" else (b"\t", b",", b";")
    counts = {mark: [line.count(mark) for line in lines] for mark in order}
    if suffix != ".csv" and all(counts[b"\t"]):
        return "\t"  # such tables quote nothing, so no tab stands in a name, and commas may
    equal = Counter({mark: found[0] for mark, found in counts.items() if len(set(found)) == 1 and found[0]})
    some = [mark for mark, found in counts.items() if found and found[0]]
    return (max(equal, key=equal.__getitem__) if equal else (some or order)[0]).decode()

"""Tables as text: tab-separated, and comma-separated with quotes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

from gaifman.draft import Draft
from gaifman.errors import InputError
from gaifman.io.files import Block
from gaifman.io.layouts import PLAIN, Layout, asked, guess, interpret
from gaifman.io.rows import Rows, csv_rows, split

SAMPLE = 1_000
"""Rows that are looked at to guess what the columns hold."""


def read_table(blocks: Iterator[Block], name: str, suffix: str, form: str | None, draft: Draft) -> str:
    """Put a text table into a draft; the form it was read as."""
    first = next(blocks, None)
    if first is None:
        return form or "triples"
    delimiter = _delimiter(first, suffix)
    rows = _rows(chain([first], blocks), delimiter)
    part = next((part for part in rows if len(part)), None)
    if part is None:
        return form or "triples"
    layout = _layout(part, name, form)
    interpret(part.tail(1) if layout.header else part, layout, draft)
    for part in rows:
        interpret(part, layout, draft)
    return layout.format


def guessed(text: str, delimiter: str) -> Layout | None:
    """How a text that is the beginning of a file would be read."""
    rows = next(_rows([Block("", 1, text.encode())], delimiter), None)
    return guess(_sample(rows)) if rows else None


def _layout(rows: Rows, name: str, form: str | None) -> Layout:
    if form:
        return asked(form, rows.row(0))
    layout = guess(_sample(rows))
    if layout is None:
        raise InputError(
            "one column, where facts need at least two",
            place=rows.place(0, 0),
            hint=f"columns are separated by a tab, in .csv files by a comma; {name} may be no table at all",
        )
    return layout


def _sample(rows: Rows) -> list[list[str]]:
    return [rows.row(number) for number in range(min(len(rows), SAMPLE))]


def _rows(blocks: Iterable[Block], delimiter: str) -> Iterator[Rows]:
    if delimiter == "\t":
        return (split(block, delimiter) for block in blocks)
    return csv_rows(iter(blocks), delimiter)


def _delimiter(block: Block, suffix: str) -> str:
    """By the first line that is not blank; a comma or semicolon separates only where no tab does, or in `.csv`."""
    line = block.data.lstrip(b"\n").split(b"\n", 1)[0]
    order = (b",", b";", b"\t") if suffix == ".csv" else (b"\t", b",", b";")
    found = next((mark for mark in order if mark in line), order[0])
    return found.decode()


PLAIN_FORMATS = tuple(PLAIN)
"""Formats that are tables of text."""

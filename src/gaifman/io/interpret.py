"""Rows put into a draft, as their layout says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from gaifman.draft import NUMBER, Draft
from gaifman.errors import InputError, Place, shorten
from gaifman.facts import some
from gaifman.io.layouts import DECIMAL, Layout
from gaifman.io.rows import Rows
from gaifman.tables import LARGEST_ARITY, Floats, Ints, Longs


def interpret(rows: Rows, layout: Layout, draft: Draft) -> None:
    """Put rows into a draft, as their layout says."""
    if not len(rows):
        return
    _check_widths(rows, layout)
    numbers, skipped = None, np.zeros(0, np.int64)
    if layout.number is not None:
        column, skipped = layout.number, rows.starts + layout.number
        numbers = decimals(rows.texts(skipped), lambda row: rows.place(row, column))
    ids = rows.numbers(draft, skipped, skipped - (layout.number or 0) + layout.relation)
    if layout.objects is None:
        where = _Where(rows, np.arange(len(rows)), (layout.relation,), None)
        draft.check_arities(ids[rows.starts + layout.relation], rows.widths - _least(layout) + 1, where)
    for width in np.unique(rows.widths).tolist():
        chosen = np.flatnonzero(rows.widths == width)
        table = ids.reshape(-1, width) if len(chosen) == len(rows) else _gather(ids, rows.starts[chosen], width)
        columns = layout.objects or tuple(
            column for column in range(width) if column not in (layout.relation, layout.number)
        )
        part = None if numbers is None else numbers[chosen]
        where = _Where(rows, chosen, (layout.relation, *columns), layout.number)
        if layout.format == "attributes":
            assert part is not None
            draft.values(table[:, layout.relation], table[:, columns[0]], part, where)
        else:
            draft.facts(table[:, layout.relation], table[:, columns], part, where)


def _gather(ids: Ints, starts: Longs, width: int) -> Ints:
    """Rows of one width, shape (starts, width)."""
    found: Ints = ids[starts[:, None] + np.arange(width)]
    return found


@dataclass(frozen=True, slots=True)
class _Where:
    """From a draft's row and field to the place in the file."""

    rows: Rows
    chosen: Longs
    columns: tuple[int, ...]
    number: int | None

    def __call__(self, row: int, field: int) -> Place:
        column = self.columns[field] if field != NUMBER else self.number
        return self.rows.place(int(self.chosen[row]), column or 0)


def _check_widths(rows: Rows, layout: Layout) -> None:
    fixed = layout.width
    if fixed is not None:
        wrong = rows.widths != fixed
        wanted = f"{fixed} columns ({layout.says()})"
    else:
        least = _least(layout)
        wrong = (rows.widths < least) | (rows.widths >= least + LARGEST_ARITY)
        wanted = f"{least} to {least + LARGEST_ARITY - 1} columns ({layout.says()})"
    if not wrong.any():
        return
    row = int(np.argmax(wrong))
    found = int(rows.widths[row])
    field = fixed if fixed is not None and found > fixed else found - 1 if found < 2 else min(found - 1, 9)
    raise InputError(
        f"{some(found, 'column')}, where {wanted} were expected",
        place=rows.place(row, field),
        hint="" if found > 1 else "columns are separated by a tab, in .csv files by a comma",
    )


def _least(layout: Layout) -> int:
    """Columns of a fact with one object."""
    return 2 + (layout.number is not None)


def decimals(texts: Sequence[str], where: Callable[[int], Place]) -> Floats:
    """The texts as numbers, shape (texts,)."""
    try:
        numbers = np.fromiter(map(float, texts), np.float64, len(texts))
        if np.isfinite(numbers).all() and not any("_" in text for text in texts):
            return numbers
    except ValueError:
        pass
    for row, text in enumerate(texts):
        if not DECIMAL.fullmatch(text.strip()) or not np.isfinite(float(text)):
            raise InputError(f"not a finite number: {shorten(repr(text))}", place=where(row))
    return numbers

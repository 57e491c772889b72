"""Rows put into a draft, as their layout says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from gaifman.config import MAX_ARITY
from gaifman.draft import NUMBER_FIELD, KnowledgeBaseBuilder
from gaifman.errors import InputError, Location, shorten
from gaifman.facts import plural
from gaifman.io.layouts import DECIMAL, TableLayout
from gaifman.io.rows import RowBatch
from gaifman.tables import Floats, Ints, Longs


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

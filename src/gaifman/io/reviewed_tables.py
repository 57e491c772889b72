"""Tables of facts with the columns of a review, in which each fact says where it comes from.

    head,relation,tail,confidence,provenance,provenance_model,provenance_date,provenance_probability
    peru,capital,lima,1.0,predicted,m.gaifman,2026-05-01,0.93
    peru,capital,cusco,0.0,rejected,m.gaifman,2026-05-01,0.4

A row whose provenance is `rejected` is no fact but a known negative. Its confidence is 0, for other programs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain

import numpy as np

from gaifman.errors import InputError, Location, shorten
from gaifman.io.files import TextBlock
from gaifman.io.mapped_tables import TableMapper
from gaifman.io.tabular import (
    RowBatch,
    TableLayout,
    add_rows,
    detect_delimiter,
    detect_layout,
    layout_for_format,
    read_csv_rows,
    read_table,
    split_rows,
)
from gaifman.kb.builder import KnowledgeBaseBuilder
from gaifman.kb.reviews import PREDICTED, REJECTED, Provenance
from gaifman.kb.tables import Longs

REVIEW_COLUMNS = ("provenance", "provenance_model", "provenance_date", "provenance_probability")
"""The columns of a review; a table has all of them or none."""


def review_cells(kind: str, provenance: Provenance) -> list[str]:
    """The cells of a fact in these columns.

    >>> review_cells("predicted", Provenance("m.gaifman", "2026-05-01"))
    ['predicted', 'm.gaifman', '2026-05-01', '']
    """
    p = "" if provenance.probability is None else repr(provenance.probability)
    return [kind, provenance.model, provenance.date, p]


def read_any_table(
    blocks: Iterator[TextBlock],
    suffix: str,
    file_format: str | None,
    builder: KnowledgeBaseBuilder,
    header: bool | None = None,
    mapper: TableMapper | None = None,
) -> str:
    """Read a table, with or without the columns of a review, into the builder and return its format."""
    first = next(blocks, None)
    if first is None or header is False or REVIEW_COLUMNS[1].encode() not in first.data.split(b"\n", 1)[0].lower():
        every = blocks if first is None else chain([first], blocks)
        return read_table(every, suffix, file_format, builder, header, mapper)
    delimiter = detect_delimiter(first.data, suffix)
    whole = chain([first], blocks)
    rows = map(partial(split_rows, delimiter="\t"), whole) if delimiter == "\t" else read_csv_rows(whole, delimiter)
    batches = (batch for batch in rows if len(batch))
    part = next(batches)
    columns = _find_columns(part)
    layout = _layout_of(_Unreviewed(part, columns), file_format)
    for number, batch in enumerate(chain([part], batches)):
        _add(_Unreviewed(batch, columns), layout, builder, skip=number == 0)
    return layout.format


def _find_columns(part: RowBatch) -> list[int]:
    """The columns of the review, in our order."""
    words = [word.strip().lower() for word in part.row(0)]
    for name in REVIEW_COLUMNS:
        if words.count(name) != 1:
            found = "twice" if name in words else "not there"
            raise InputError(
                f"the column {name} is {found}",
                location=part.location(0, 0),
                hint=f"all of {', '.join(REVIEW_COLUMNS)}",
            )
    return [words.index(name) for name in REVIEW_COLUMNS]


def _layout_of(rows: RowBatch, file_format: str | None) -> TableLayout:
    sample = [rows.row(0)]
    layout = layout_for_format(file_format, sample, True) if file_format else detect_layout(sample, True)
    if isinstance(layout, TableLayout) and layout.format != "attributes":
        return layout
    raise InputError(
        "beside the columns of a review there must be those of facts",
        location=rows.location(0, 0),
        hint="head, relation, tail; or relation, arg1, arg2 …; or object, type",
    )


class _Unreviewed(RowBatch):
    """Some rows of a table without the columns of the review; errors show the whole row."""

    def __init__(self, rows: RowBatch, review: Sequence[int], chosen: Longs | None = None) -> None:
        self._rows, self._review = rows, review
        self._chosen = np.arange(len(rows)) if chosen is None else chosen
        self._plain = [self._split(row) for row in self._chosen.tolist()]
        fields = [field for own in self._plain for field in own]
        widths = np.array([len(own) for own in self._plain], np.int64)
        super().__init__(rows.source, fields, widths, rows.lines[self._chosen], rows.delimiter)

    def _split(self, row: int) -> list[str]:
        cells, least = self._rows.row(row), max(self._review) + 1
        if len(cells) < least:
            end = self._rows.location(row, max(len(cells) - 1, 0))
            raise InputError(f"expected at least {least} columns, got {len(cells)}", location=end)
        return [cell for column, cell in enumerate(cells) if column not in self._review]

    def location(self, row: int, field: int) -> Location:
        """Return the location of a field in the whole row."""
        whole = int(self._chosen[row])
        kept = [column for column in range(len(self._rows.row(whole)) + 1) if column not in self._review]
        return self._rows.location(whole, kept[min(field, len(kept) - 1)])

    def select(self, rows: Longs) -> _Unreviewed:
        """Return some of the rows."""
        return _Unreviewed(self._rows, self._review, self._chosen[rows])

    def review_of(self, row: int) -> tuple[str, Provenance] | None:
        """Return the decision about a row; None if there is none."""
        whole = int(self._chosen[row])
        cells = self._rows.row(whole)
        kind, model, date, text = (cells[column].strip() for column in self._review)
        if kind not in ("", PREDICTED, REJECTED):
            raise InputError(
                f"the provenance is {PREDICTED}, {REJECTED} or empty, not {shorten(kind)}",
                location=self._rows.location(whole, self._review[0]),
            )
        p = parse_probability(text, lambda: self._rows.location(whole, self._review[3]))
        return (kind, Provenance(model, date, p)) if kind else None


def parse_probability(text: str, locate: Callable[[], Location]) -> float | None:
    """Return the probability of a cell, with a point or a comma; None if it is empty."""
    if not text.strip():
        return None
    try:
        p = float(text.strip().replace(",", "."))
    except ValueError:
        p = -1.0
    if not 0 <= p <= 1:
        raise InputError(f"a probability is a number from 0 to 1, not {shorten(repr(text))}", location=locate())
    return p


def _add(rows: _Unreviewed, layout: TableLayout, builder: KnowledgeBaseBuilder, *, skip: bool) -> None:
    """Add facts and decisions to the builder; the first row can be the header."""
    facts = []
    for row in range(skip, len(rows)):
        review = rows.review_of(row)
        if review is not None:
            cells = rows.row(row)
            own = [i for i in range(len(cells)) if i not in (layout.relation, layout.number_column)]
            key = (cells[layout.relation], *(cells[i] for i in (layout.objects or own)))
            builder.add_review(key, review[1], review[0] == PREDICTED, partial(rows.location, row, layout.relation))
        if review is None or review[0] == PREDICTED:
            facts.append(row)
    add_rows(rows.select(np.array(facts, np.int64)), layout, builder)

"""What each input of a base model does to its log-odds: the exact effect of switching it off.

>>> import numpy as np
>>> from gaifman.models.mlp import Batch, Logistic, SparseRows
>>> rows = SparseRows(np.array([0, 2, 3]), np.array([0, 1, 1], np.int32), np.ones(3, np.float32), 2)
>>> base = Logistic(epochs=1, rate=0.5)
>>> base.begin(2, seed=0)
>>> for _ in range(50):
...     _ = base.learn(Batch(rows, np.array([1, 0], np.float32)))
>>> found = compute_effects(base, rows)
>>> found.columns.tolist(), found.draws.tolist(), bool(found.effects[0] > 0 > found.effects[1])
([0, 1], [1, 2], True)
>>> abs(found.interactions) < 1e-6  # in a sum, every input does the same whatever the others are
True

The rows are the draws of one tuple. An input that is switched off is 0: its feature then has the value that it has in a
neighbourhood of the same size without facts. Of a sum, what is left when all effects are taken away is the base; else
there are interactions, of inputs that do more together than alone, or less.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gaifman.cancellation import Deadline, no_deadline
from gaifman.kb.gaifman_graph import concatenate_ranges
from gaifman.kb.tables import Floats, Ints, Longs
from gaifman.models.mlp import BaseModel, SparseRows

MAX_ENTRIES = 1 << 20
"""Entries of changed rows that are in memory at once, about."""


@dataclass(frozen=True, slots=True)
class Effects:
    """Means over draws, in log-odds: `base + effects.sum() + interactions` is `total`."""

    base: float
    """Of a row in which every input is off."""
    columns: Ints
    """Shape (inputs,), int32, ascending: the inputs that are on in some draw."""
    effects: Floats
    """Shape (inputs,), float64: by how much the mean falls if the input is switched off wherever it is on."""
    draws: Longs
    """Shape (inputs,), int64: in how many draws it is on."""
    total: float
    """Of the rows as they are."""

    @property
    def interactions(self) -> float:
        """What the effects leave over."""
        return self.total - self.base - float(self.effects.sum())


def compute_effects(base: BaseModel, rows: SparseRows, deadline: Deadline | None = None) -> Effects:
    """The effect of each input, over all rows; changed rows are scored many at a time, and a deadline asked between."""
    whole = base.scores(rows)
    owner = np.repeat(np.arange(len(rows)), np.diff(rows.starts))
    parts = _rows_without_entry(rows, owner, deadline or no_deadline())
    changed = np.concatenate([np.zeros(0), *(base.scores(part) for part in parts)])
    columns, at, draws = np.unique(rows.columns, return_inverse=True, return_counts=True)
    sums = np.bincount(at, whole[owner] - changed, len(columns)).astype(np.float64)
    nothing = SparseRows(np.zeros(2, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32), rows.width)
    count = max(len(rows), 1)
    return Effects(float(base.scores(nothing)[0]), columns, sums / count, draws, float(whole.sum() / count))


def _rows_without_entry(rows: SparseRows, owner: Longs, deadline: Deadline) -> Iterator[SparseRows]:
    """For each entry, in their order, its row without it; some at a time."""
    begins, ends = rows.starts[owner], rows.starts[owner + 1]
    blocks = np.cumsum(ends - begins) // MAX_ENTRIES
    for entries in np.split(np.arange(len(owner)), np.flatnonzero(np.diff(blocks)) + 1):
        deadline.check()
        lengths = (ends - begins)[entries]
        kept = concatenate_ranges(begins[entries], ends[entries])
        kept = kept[kept != np.repeat(entries, lengths)]
        starts = np.append(0, np.cumsum(lengths - 1)).astype(np.int64)
        yield SparseRows(starts, rows.columns[kept], rows.values[kept], rows.width)

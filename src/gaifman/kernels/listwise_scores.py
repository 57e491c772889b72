"""Scores of the candidates of a question: some, and the logarithm of the sum of all exponentials."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gaifman.kernels.jit import kernel

Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Reals = npt.NDArray[np.float32]


class SumScratch(NamedTuple):
    """Scratch space for the sums of candidates. A stamp marks the candidates of the current question."""

    seen: Longs
    """Shape (objects,), zeros."""
    sums: Floats
    """Shape (objects,): the weighted values of each candidate that the formulas reach."""
    reached: Ints
    """Shape (objects,): these candidates."""
    stamp: Longs
    """Shape (1,): the last stamp."""


@kernel
def add_entries(
    begin: int, end: int, objects: Ints, formulas: Ints, values: Reals, weights: Floats, out: Floats
) -> None:
    """Add the weighted values of some entries to the scores of their objects."""
    for entry in range(begin, end):
        out[objects[entry]] += weights[formulas[entry]] * values[entry]


@kernel
def score_targets(
    objects: Ints,
    formulas: Ints,
    values: Reals,
    weights: Floats,
    own: Floats,
    everything: float,
    known: Ints,
    targets: Ints,
    scratch: SumScratch,
    out: Floats,
) -> float:
    """Write the scores of targets; return log Σ exp(score) over all candidates but the known ones.

    `own` (objects,) are own scores, and `everything` is the sum of their exponentials. Only reached candidates are
    visited.
    """
    scratch.stamp[0] += 1
    now, count = scratch.stamp[0], 0
    for entry in range(len(objects)):
        obj = objects[entry]
        if scratch.seen[obj] != now:
            scratch.seen[obj] = now
            scratch.sums[obj] = 0.0
            scratch.reached[count] = obj
            count += 1
        scratch.sums[obj] += weights[formulas[entry]] * values[entry]
    for i in range(len(targets)):
        obj = targets[i]
        out[i] = own[obj] + (scratch.sums[obj] if scratch.seen[obj] == now else 0.0)
    for i in range(len(known)):
        obj = known[i]
        if scratch.seen[obj] != now:
            scratch.seen[obj] = now
            scratch.reached[count] = obj
            count += 1
        scratch.sums[obj] = -np.inf
    rest, top = everything, 0.0
    for i in range(count):
        rest -= np.exp(own[scratch.reached[i]])
        top = max(top, own[scratch.reached[i]] + scratch.sums[scratch.reached[i]])
    total = max(rest, 0.0) * np.exp(-top)
    for i in range(count):
        total += np.exp(own[scratch.reached[i]] + scratch.sums[scratch.reached[i]] - top)
    return float(top + np.log(max(total, 1e-300)))

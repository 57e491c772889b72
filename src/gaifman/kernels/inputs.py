"""Features into the inputs of a network: which, in which row, how scaled."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from gaifman.kernels.jit import kernel

TRUTH, COUNT, NUMBER = 0, 1, 2
"""Kinds of features: 0 or 1, how many, and any number."""

_LARGEST = float(np.finfo(np.float32).max)


class FeatureArrays(NamedTuple):
    """A `FeatureMatrix`, as arrays."""

    starts: Any
    ids: Any
    values: Any
    sizes: Any
    default_rows: Any
    defaults: Any


class Scales(NamedTuple):
    """For each feature: its column, or −1; its kind; and for each column its centre and scale."""

    columns: Any
    kinds: Any
    centres: Any
    scales: Any


class Moments(NamedTuple):
    """For each feature, over the rows in which it is not the default: how many, the sum, the sum of squares."""

    counts: Any
    sums: Any
    squares: Any


@kernel
def transform_value(kind: int, value: float) -> float:
    """The value as it is, or as the logarithm of one more than it, with its sign: counts and numbers may be large.

    One that is too large for float32 has become infinite: it counts as the largest there is.
    """
    if kind == TRUTH:
        return value
    value = min(max(value, -_LARGEST), _LARGEST)
    return math.log1p(value) if value >= 0 else -math.log1p(-value)


@kernel
def _deviation(matrix: FeatureArrays, row: int, entry: int, kind: int) -> float:
    """How far an entry is from the default of its row."""
    shape = matrix.default_rows[matrix.ids[entry]]
    default = 0.0 if shape < 0 else np.float64(matrix.defaults[shape, matrix.sizes[row]])
    # Both in float64: numba's float() leaves a float32 as it is, and the two logarithms of one number would differ.
    return transform_value(kind, np.float64(matrix.values[entry])) - transform_value(kind, default)


@kernel
def accumulate_moments(matrix: FeatureArrays, kinds: Any, sums: Moments) -> None:
    """Add what is in some rows to the sums."""
    for row in range(len(matrix.starts) - 1):
        for entry in range(matrix.starts[row], matrix.starts[row + 1]):
            feature = matrix.ids[entry]
            away = _deviation(matrix, row, entry, kinds[feature])
            if away != 0.0:
                sums.counts[feature] += 1
                sums.sums[feature] += away
                sums.squares[feature] += away * away


@kernel
def write_inputs(matrix: FeatureArrays, order: Any, scales: Scales, starts: Any, columns: Any, values: Any) -> int:
    """Write the inputs of some rows, in this order; how many entries there are."""
    at = 0
    for i in range(len(order)):
        row = order[i]
        for entry in range(matrix.starts[row], matrix.starts[row + 1]):
            feature = matrix.ids[entry]
            column = scales.columns[feature]
            if column >= 0:
                away = _deviation(matrix, row, entry, scales.kinds[feature])
                value = (away - scales.centres[column]) / scales.scales[column]
                if away != 0.0 and value != 0.0:
                    columns[at] = column
                    values[at] = np.float32(value)
                    at += 1
        starts[i + 1] = at
    return at

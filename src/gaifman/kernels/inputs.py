"""Turn feature values into scaled inputs of a base model."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from gaifman.kernels.jit import kernel

TRUTH, COUNT, NUMBER = 0, 1, 2
"""Kinds of feature: true or false; a count or sum, 0 where there is nothing; a number that can be missing."""

_LARGEST = float(np.finfo(np.float32).max)


class FeatureArrays(NamedTuple):
    """A `FeatureMatrix` as arrays."""

    starts: Any
    ids: Any
    values: Any
    sizes: Any
    default_rows: Any
    defaults: Any


class Scales(NamedTuple):
    """For each feature its column, the column that says whether it is known, or −1, and its kind; for each column its
    centre and scale.
    """

    columns: Any
    known_columns: Any
    kinds: Any
    centres: Any
    scales: Any


class Moments(NamedTuple):
    """For each feature, over the rows where it is known or differs from its default: count, sum, sum of squares."""

    counts: Any
    sums: Any
    squares: Any


@kernel
def transform_value(kind: int, value: float) -> float:
    """Return a truth value as it is, and log(1 + |x|) with the sign of x for counts and numbers.

    An infinite value, too large for float32, counts as the largest float32.
    """
    if kind == TRUTH:
        return value
    value = min(max(value, -_LARGEST), _LARGEST)
    return math.log1p(value) if value >= 0 else -math.log1p(-value)


@kernel
def _deviation(matrix: FeatureArrays, row: int, entry: int, kind: int) -> float:
    """Return how far an entry is from the default of its row, after the transformation."""
    default_row = matrix.default_rows[matrix.ids[entry]]
    default = 0.0 if default_row < 0 else np.float64(matrix.defaults[default_row, matrix.sizes[row]])
    # Both in float64: numba's float() leaves a float32 as it is, and the logarithms of equal numbers would differ.
    return transform_value(kind, np.float64(matrix.values[entry])) - transform_value(kind, default)


@kernel
def accumulate_moments(matrix: FeatureArrays, kinds: Any, moments: Moments) -> None:
    """Add the moments of some rows."""
    for row in range(len(matrix.starts) - 1):
        for entry in range(matrix.starts[row], matrix.starts[row + 1]):
            feature = matrix.ids[entry]
            deviation = _deviation(matrix, row, entry, kinds[feature])
            if deviation != 0.0 or kinds[feature] == NUMBER:
                moments.counts[feature] += 1
                moments.sums[feature] += deviation
                moments.squares[feature] += deviation * deviation


@kernel
def write_inputs(matrix: FeatureArrays, order: Any, scales: Scales, starts: Any, columns: Any, values: Any) -> int:
    """Write the inputs of rows in the given order, at most two for each entry. Return their number."""
    at = 0
    for i in range(len(order)):
        row = order[i]
        for entry in range(matrix.starts[row], matrix.starts[row + 1]):
            feature = matrix.ids[entry]
            column = scales.columns[feature]
            if column >= 0:
                deviation = _deviation(matrix, row, entry, scales.kinds[feature])
                value = np.float32((deviation - scales.centres[column]) / scales.scales[column])
                if value != np.float32(0.0) and (deviation != 0.0 or scales.kinds[feature] == NUMBER):
                    columns[at], values[at] = column, value
                    at += 1
                if scales.known_columns[feature] >= 0:
                    columns[at], values[at] = scales.known_columns[feature], np.float32(1.0)
                    at += 1
        starts[i + 1] = at
    return at

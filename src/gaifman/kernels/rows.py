"""Rows of a sparse matrix: features of a neighbourhood, written in ascending order without sorting.

There is one bit per feature and one bit per word of those, so that only features that are set are visited.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gaifman.kernels.collections import Ints, Longs, Words, lowest_bit
from gaifman.kernels.jit import inline_kernel, kernel

Reals = npt.NDArray[np.float32]

_0, _1, _6, _12, _63 = (np.uint64(n) for n in (0, 1, 6, 12, 63))


class RowBuffer(NamedTuple):
    """The features of one row; all zero between two rows."""

    bits: Words
    """Shape (⌈features / 64⌉,)."""
    tops: Words
    """Shape (⌈words of bits / 64⌉,): which words of `bits` are not 0."""
    counts: Words
    """Shape of `bits`: the features whose values are in `values`; other features are 1 if set."""
    values: Reals
    """Shape (features,)."""


class SparseOutput(NamedTuple):
    """Rows of a sparse matrix, being written."""

    ids: Ints
    values: Reals
    ends: Longs
    """Shape (rows,): the end of each row."""
    state: Longs
    """Shape (3,): the next row, the next entry, and the first row of the block."""


@inline_kernel
def set_feature(buffer: RowBuffer, feature: int) -> None:
    """Mark a feature as different from its default. The unsigned index avoids numba's check for negative ones."""
    bit = np.uint64(feature)
    buffer.bits[bit >> _6] |= _1 << (bit & _63)
    buffer.tops[bit >> _12] |= _1 << ((bit >> _6) & _63)


@inline_kernel
def increment_feature(buffer: RowBuffer, feature: int) -> None:
    """Add 1 to a counting feature."""
    set_feature(buffer, feature)
    buffer.values[feature] += np.float32(1.0)


@inline_kernel
def set_number(buffer: RowBuffer, feature: int, number: float) -> None:
    """Set the value of a counting feature, which may be 0."""
    set_feature(buffer, feature)
    buffer.values[feature] = np.float32(number)


@inline_kernel
def copy_duplicates(buffer: RowBuffer, duplicates: Ints) -> None:
    """Copy the values of features to their duplicates."""
    for t in range(len(duplicates)):
        one, other = np.uint64(duplicates[t, 0]), np.uint64(duplicates[t, 1])
        if buffer.bits[one >> _6] >> (one & _63) & _1:
            set_feature(buffer, duplicates[t, 1])
            buffer.values[other] = buffer.values[one]


@inline_kernel
def flush_row(buffer: RowBuffer, output: SparseOutput) -> int:
    """Write the features of the row in ascending order and clear the buffer. Return the next entry."""
    at = np.uint64(output.state[1])
    for top in range(len(buffer.tops)):
        words = buffer.tops[top]
        buffer.tops[top] = _0
        while words != _0:
            w = (np.uint64(top) << _6) + np.uint64(lowest_bit(words))
            words &= words - _1
            bits, counts = buffer.bits[w], buffer.counts[w]
            buffer.bits[w] = _0
            while bits != _0:
                bit = np.uint64(lowest_bit(bits))
                bits &= bits - _1
                feature = (w << _6) + bit
                output.ids[at], output.values[at] = feature, np.float32(1.0)
                if counts >> bit & _1:
                    output.values[at] = buffer.values[feature]
                    buffer.values[feature] = 0.0
                at += _1
    return int(at)


@kernel
def merge(one: SparseOutput, other: SparseOutput, output: SparseOutput) -> None:
    """Merge the rows of two matrices that have no column in common."""
    a = b = at = 0
    for row in range(len(output.ends)):
        stop, stop2 = one.ends[row], other.ends[row]
        while a < stop or b < stop2:
            if b == stop2 or (a < stop and one.ids[a] < other.ids[b]):
                output.ids[at], output.values[at] = one.ids[a], one.values[a]
                a += 1
            else:
                output.ids[at], output.values[at] = other.ids[b], other.values[b]
                b += 1
            at += 1
        output.ends[row] = at

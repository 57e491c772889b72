"""Rows of a sparse matrix: the features met in a neighbourhood, put out in ascending order without being sorted.

A bit stands for each feature and a bit for each word of those, so that only what was met is ever visited.
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
    """The features met in one row and their values; nothing between two rows."""

    bits: Words
    """Shape (⌈features / 64⌉,)."""
    tops: Words
    """Shape (⌈words of bits / 64⌉,)."""
    counts: Words
    """Shape as bits: the features whose values are kept below; the others are 1 where they are met."""
    values: Reals
    """Shape (features,)."""


class SparseOutput(NamedTuple):
    """Rows of a sparse matrix."""

    ids: Ints
    values: Reals
    ends: Longs
    """Shape (rows,): where each row ends."""
    state: Longs
    """Shape (3,): the next row, counted from `state[2]`; the next entry."""


@inline_kernel
def set_feature(buffer: RowBuffer, feature: int) -> None:
    """A feature is not its default. (An index that has no sign need not be asked whether it counts from the end.)"""
    bit = np.uint64(feature)
    buffer.bits[bit >> _6] |= _1 << (bit & _63)
    buffer.tops[bit >> _12] |= _1 << ((bit >> _6) & _63)


@inline_kernel
def increment_feature(buffer: RowBuffer, feature: int) -> None:
    """A feature that counts is true once more."""
    set_feature(buffer, feature)
    buffer.values[feature] += np.float32(1.0)


@inline_kernel
def copy_duplicates(buffer: RowBuffer, duplicates: Ints) -> None:
    """What asks for the same as another has its value."""
    for t in range(len(duplicates)):
        one, other = np.uint64(duplicates[t, 0]), np.uint64(duplicates[t, 1])
        if buffer.bits[one >> _6] >> (one & _63) & _1:
            set_feature(buffer, duplicates[t, 1])
            buffer.values[other] = buffer.values[one]


@inline_kernel
def flush_row(buffer: RowBuffer, output: SparseOutput) -> int:
    """Put out what was met, ascending, and forget it; where the next entry is."""
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
    """Rows of two matrices with no column in common, into rows of both."""
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

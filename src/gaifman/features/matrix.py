"""Sparse feature values, with a row per neighbourhood and a column per feature, and bit sets of features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gaifman.kb.tables import Ints, Longs, freeze
from gaifman.kernels.rows import RowBuffer

Reals = npt.NDArray[np.float32]
Bits = npt.NDArray[np.uint64]
"""A set of features, 64 per word."""
SparseArrays = tuple[Longs, Ints, Reals]
"""Rows of a sparse matrix: starts (rows + 1,), then ids and values of the entries."""


@dataclass(frozen=True, slots=True)
class FeatureMatrix:
    """Feature values in compressed rows. A missing entry is the feature's default for the size of the neighbourhood."""

    starts: Longs
    """Shape (rows + 1,), int64: the entries of row `i` are `starts[i]` to `starts[i + 1]`."""
    ids: Ints
    """Shape (entries,), int32: features, ascending in each row."""
    values: Reals
    """Shape (entries,), float32."""
    sizes: Ints
    """Shape (rows,), int32: the number of members of each neighbourhood."""
    default_rows: Ints
    """Shape (features,), int32: the row of `defaults` for each feature, or −1 for a default of 0."""
    defaults: Reals
    """Shape (any, largest size + 1), float32: the default by the number of members."""

    def __len__(self) -> int:
        return len(self.sizes)

    def to_dense(self) -> Reals:
        """Return all values, defaults included, with shape (rows, features). Meant for small matrices."""
        dense = np.zeros((len(self), len(self.default_rows)), np.float32)
        with_default = self.default_rows >= 0
        dense[:, with_default] = self.defaults[self.default_rows[with_default]][:, self.sizes].T
        dense[np.repeat(np.arange(len(self)), np.diff(self.starts)), self.ids] = self.values
        return dense

    @classmethod
    def concatenate(cls, matrices: Sequence[FeatureMatrix]) -> FeatureMatrix:
        """Stack the rows of one or more matrices of the same features."""
        defaults = np.zeros((len(matrices[0].defaults), max(m.defaults.shape[1] for m in matrices)), np.float32)
        for matrix in matrices:  # a matrix may know the defaults of its own sizes only
            sizes = np.unique(matrix.sizes)
            defaults[:, sizes] = matrix.defaults[:, sizes]
        arrays = concatenate_rows([(matrix.starts, matrix.ids, matrix.values) for matrix in matrices])
        sizes = np.concatenate([matrix.sizes for matrix in matrices])
        return cls(*arrays, freeze(sizes), matrices[0].default_rows, freeze(defaults))


def concatenate_rows(parts: Sequence[SparseArrays]) -> SparseArrays:
    """Stack the rows of sparse matrices. The starts of a part may begin above 0.

    >>> one = np.array([0, 2]), np.array([3, 5], np.int32), np.array([1, 1], np.float32)
    >>> [array.tolist() for array in concatenate_rows([one, one])]
    [[0, 2, 4], [3, 5, 3, 5], [1.0, 1.0, 1.0, 1.0]]
    """
    spans = [slice(int(starts[0]), int(starts[-1])) for starts, _, _ in parts]
    lengths = [np.zeros(0, np.int64), *(np.diff(starts) for starts, _, _ in parts)]
    ids = [np.zeros(0, np.int32), *(part[1][span] for part, span in zip(parts, spans, strict=True))]
    values = [np.zeros(0, np.float32), *(part[2][span] for part, span in zip(parts, spans, strict=True))]
    starts = np.append(0, np.cumsum(np.concatenate(lengths))).astype(np.int64)
    return freeze(starts), freeze(np.concatenate(ids)), freeze(np.concatenate(values))


def feature_bits(count: int, chosen: npt.ArrayLike) -> Bits:
    """Return the set of the chosen ones of `count` features.

    >>> feature_bits(70, [0, 2, 65]).tolist()
    [5, 2]
    """
    flags = np.zeros(((count + 63) >> 6) << 6, np.uint8)
    flags[np.asarray(chosen, np.int64)] = 1
    return freeze(np.packbits(flags, bitorder="little").view(np.uint64))


def new_row_buffer(count: int, counting: Bits) -> RowBuffer:
    """Return an empty row of `count` features, of which some have counts."""
    words = (count + 63) >> 6
    tops = np.zeros((words + 63) >> 6, np.uint64)
    return RowBuffer(np.zeros(words, np.uint64), tops, counting, np.zeros(count, np.float32))

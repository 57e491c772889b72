"""Sparse rows: slices, permutations and stacks against a dense matrix."""

from __future__ import annotations

import numpy as np
import pytest

from gaifman.models import SparseRows

DENSE = np.array([[0, 1, 0], [0, 0, 0], [2, 0, 3], [0, 4, 0]], np.float32)


def sparse(dense: np.ndarray[tuple[int, int], np.dtype[np.float32]]) -> SparseRows:
    at, columns = np.nonzero(dense)
    starts = np.searchsorted(at, np.arange(len(dense) + 1)).astype(np.int64)
    return SparseRows(starts, columns.astype(np.int32), dense[at, columns], dense.shape[1])


def assert_equal(rows: SparseRows, dense: np.ndarray[tuple[int, int], np.dtype[np.float32]]) -> None:
    assert rows.starts[0] == 0
    assert [array.dtype.name for array in (rows.starts, rows.columns, rows.values)] == ["int64", "int32", "float32"]
    np.testing.assert_array_equal(rows.to_csr().toarray(), dense)


@pytest.mark.parametrize(("begin", "end"), [(0, 4), (1, 3), (2, 2), (3, 4), (0, 0)])
def test_a_slice(begin: int, end: int) -> None:
    assert_equal(sparse(DENSE).slice(begin, end), DENSE[begin:end])
    assert_equal(sparse(DENSE).slice(begin), DENSE[begin:])


@pytest.mark.parametrize("order", [[3, 0, 2, 1], [2, 2], []])
def test_rows_in_another_order(order: list[int]) -> None:
    assert_equal(sparse(DENSE).take(order), DENSE[np.array(order, np.int64)])
    assert_equal(sparse(DENSE).slice(1, 4).take([1]), DENSE[[2]])


def test_stacked_rows() -> None:
    rows = sparse(DENSE)
    later = SparseRows(rows.starts[2:], rows.columns, rows.values, 3)
    assert_equal(SparseRows.concatenate([rows.slice(0, 2), later], 3), DENSE)
    assert_equal(SparseRows.concatenate([], 3), DENSE[:0])
    assert_equal(SparseRows.empty(2, 3), np.zeros((2, 3), np.float32))
    assert rows.entry_rows().tolist() == [0, 2, 2, 3]

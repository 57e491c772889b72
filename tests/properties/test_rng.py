"""Keys of whole arrays: the same bits as the kernels' keys, one by one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chi_square import surprising
from gaifman.config import SamplingConfig
from gaifman.kernels import rng as kernels
from gaifman.sampling import rng as keys
from reference_draws import plain_join, plain_key
from reference_rng import WORDS, plain_mix


@given(st.lists(WORDS, min_size=1, max_size=8), st.integers(0, 2**31 - 1))
def test_arrays_are_mixed_and_joined_as_numbers_are(words: list[int], value: int) -> None:
    array = np.array(words, np.uint64)
    assert keys.mix(array).tolist() == [plain_mix(one) for one in words]
    assert keys.fold_in(array, np.array([value])).tolist() == [plain_join(one, value) for one in words]
    assert keys.fold_in(array, np.array([value]))[0] == kernels.fold_in(np.uint64(words[0]), value)


@given(WORDS, st.lists(st.lists(st.integers(0, 2**31 - 1), min_size=3, max_size=3), max_size=5))
def test_the_key_of_a_row_is_joined_of_its_numbers_in_their_order(word: int, rows: list[list[int]]) -> None:
    found = keys.fold_in_rows(np.uint64(word), np.array(rows, np.int32).reshape(-1, 3))
    expected = []
    for row in rows:
        key = word
        for value in row:
            key = plain_join(key, value)
        expected.append(key)
    assert found.tolist() == expected


def test_rows_can_begin_with_one_key_or_a_key_each() -> None:
    rows = np.array([[1, 2], [3, 4]], np.int32)
    whole = keys.fold_in_rows(np.array([5, 6], np.uint64), rows)
    assert whole[0] == keys.fold_in_rows(np.uint64(5), rows)[0]
    assert whole[1] == keys.fold_in_rows(np.uint64(6), rows)[1]
    assert keys.fold_in_rows(np.uint64(5), np.zeros((0, 2), np.int32)).shape == (0,)


def test_rows_of_no_numbers_keep_their_key() -> None:
    assert keys.fold_in_rows(np.uint64(5), np.zeros((2, 0), np.int32)).tolist() == [5, 5]


def test_shapes_are_broadcast() -> None:
    one, other = np.array([[1], [2]], np.uint64), np.array([[7, 8, 9], [9, 8, 7]])
    found = keys.fold_in(one, other)
    assert found.shape == (2, 3)
    assert found[1, 2] == plain_join(2, 7)
    assert found[0, 0] != found[1, 2]


def test_a_key_depends_on_seed_and_purposes_in_order() -> None:
    parts: list[tuple[int | str, ...]] = [(), (1,), ("a",), ("b",), ("a", "b"), ("b", "a"), ("a", 1), (1, "a")]
    starts = {int(keys.make_key(0, *those)) for those in parts} | {int(keys.make_key(1))}
    assert len(starts) == 9
    assert keys.make_key(0, "a") == keys.make_key(0, "a")
    assert keys.make_key(3) == plain_join(0, 3)


@pytest.mark.parametrize("seed", [0, 1, 2**63, 2**64 - 1])
def test_any_seed_of_64_bits_is_its_own(seed: int) -> None:
    assert keys.make_key(seed) == plain_join(0, seed)


def test_sampling_takes_its_keys_from_here() -> None:
    sampling = SamplingConfig(draws=3, seed=7, purpose="mine")
    assert keys.draw_keys(sampling).tolist() == [plain_key(sampling, number) for number in range(3)]


def test_an_order_by_keys_is_uniform() -> None:
    """Of three rows each comes first in a third of the seeds."""
    rows = np.array([[0, 1], [1, 0], [1, 1]], np.int32)
    first = [int(np.argmin(keys.fold_in_rows(keys.make_key(seed, "order"), rows))) for seed in range(3_000)]
    assert not surprising(np.bincount(first, minlength=3), np.full(3, 1000.0))

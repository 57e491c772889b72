"""exp, log and sums that are the same everywhere are also right."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaifman.models.calibration import add_up, exp, log, log1p

CASES: list[tuple[Callable[..., np.ndarray], Callable[[float], float], st.SearchStrategy[float]]] = [
    (exp, math.exp, st.floats(-745, 709)),
    (exp, math.exp, st.floats(-1, 1)),
    (log, math.log, st.floats(5e-324, 1e308)),
    (log, math.log, st.floats(0.5, 2)),
    (log1p, math.log1p, st.floats(-1 + 2**-52, 1e10)),
    (log1p, math.log1p, st.floats(-0.3, 0.3)),
]


@pytest.mark.parametrize("number", range(len(CASES)))
def test_values_are_those_of_the_mathematical_library_up_to_some_last_bits(number: int) -> None:
    ours, theirs, numbers = CASES[number]

    @given(numbers)
    def check(x: float) -> None:
        expected = theirs(x)
        assert abs(float(ours(x)) - expected) <= 4 * max(np.spacing(abs(expected)), 5e-324), x

    check()


def test_ends_and_missing_values() -> None:
    assert exp([-np.inf, -800.0, 0.0]).tolist() == [0.0, 0.0, 1.0]
    assert np.isnan(exp([np.nan, 1.0])).tolist() == [True, False]
    assert log(1.0) == log1p(0.0) == 0.0
    assert log1p(1e-300) == 1e-300


@given(st.lists(st.floats(-5, 5), max_size=20))
def test_an_array_is_evaluated_number_by_number(numbers: list[float]) -> None:
    """Its length, which decides how vector instructions are used, does not matter."""
    array = np.array(numbers, np.float64)
    for function in (exp, lambda x: log(np.abs(x) + 0.1), lambda x: log1p(np.abs(x))):
        assert function(array).tolist() == [float(function(x)) for x in numbers]
    assert function(array.reshape(-1, 1)).shape == (len(numbers), 1)


@given(st.lists(st.floats(-1e9, 1e9)))
def test_a_sum_is_added_from_first_to_last(numbers: list[float]) -> None:
    expected = 0.0
    for number in numbers:
        expected += number
    assert add_up(np.array(numbers, np.float64)) == expected

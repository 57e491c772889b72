"""Settings."""

from __future__ import annotations

import math
import os
from contextlib import nullcontext

import numpy as np
import pytest

from gaifman.config import (
    DEFAULT_LIMITS,
    MAX_FORMULA_DEPTH,
    MAX_QUERY_SECONDS,
    MAX_SEED,
    Budget,
    Limits,
    check_choice,
    check_fraction,
    check_int,
    check_positive,
    cpu_count,
)
from gaifman.errors import GaifmanError, KnowledgeBaseError


def test_the_defaults_are_those_of_the_design() -> None:
    assert (DEFAULT_LIMITS.characters, DEFAULT_LIMITS.depth, DEFAULT_LIMITS.nodes, DEFAULT_LIMITS.variables) == (
        8192,
        64,
        1000,
        16,
    )


@pytest.mark.parametrize("name", ["characters", "depth", "nodes", "variables", "line"])
def test_a_limit_is_at_least_one(name: str) -> None:
    with pytest.raises(GaifmanError, match=rf"Limits\.{name} must be an integer .*, got 0"):
        Limits(**{name: 0})


def test_no_setting_allows_a_formula_deeper_than_the_stack() -> None:
    with pytest.raises(GaifmanError, match=f"from 1 to {MAX_FORMULA_DEPTH}"):
        Limits(depth=MAX_FORMULA_DEPTH + 1)


def test_the_time_of_a_query_is_finite() -> None:
    assert Budget(seconds=MAX_QUERY_SECONDS).seconds == MAX_QUERY_SECONDS
    for wrong in (math.inf, math.nan, MAX_QUERY_SECONDS + 1):
        with pytest.raises(GaifmanError, match="seconds"):
            Budget(seconds=wrong)


def test_check_int_takes_integers_of_any_kind_and_nothing_else() -> None:
    for right in (0, 7, np.int32(3), np.uint64(2**64 - 1)):
        check_int("seed", right, 0, MAX_SEED)
    for wrong in (-1, True, 1.0, "1", None, np.float64(1), np.bool_(True), 2**64):
        with pytest.raises(
            KnowledgeBaseError, match=r"seed must be an integer from 0 to 18,446,744,073,709,551,615, got"
        ):
            check_int("seed", wrong, 0, MAX_SEED)


@pytest.mark.parametrize(("zero", "one"), [(True, True), (True, False), (False, True), (False, False)])
def test_check_fraction_knows_its_ends(zero: bool, one: bool) -> None:
    check_fraction("holdout", 0.5, zero=zero, one=one)
    for end, allowed in ((0, zero), (1.0, one)):
        with nullcontext() if allowed else pytest.raises(KnowledgeBaseError, match="holdout must be a number"):
            check_fraction("holdout", end, zero=zero, one=one)
    for wrong in (-0.1, 1.1, math.nan, True, "0.5", None):
        with pytest.raises(KnowledgeBaseError, match="holdout must be a number"):
            check_fraction("holdout", wrong, zero=zero, one=one)


def test_check_choice_suggests() -> None:
    check_choice("ties", "realistic", ["realistic", "pessimistic"])
    with pytest.raises(KnowledgeBaseError, match="ties must be one of realistic, pessimistic, got 'realist'") as caught:
        check_choice("ties", "realist", ["realistic", "pessimistic"])
    assert caught.value.suggestions == ("realistic",)
    with pytest.raises(KnowledgeBaseError, match="got 3"):
        check_choice("ties", 3, ["realistic"])


def test_check_positive_refuses_zero_infinity_and_other_types() -> None:
    check_positive("seconds", 0.5, 1)
    check_positive("seconds", np.float32(3))
    for wrong in (0, -1.0, math.inf, math.nan, True, "1", None):
        with pytest.raises(KnowledgeBaseError, match="seconds must be a number above 0, got"):
            check_positive("seconds", wrong)
    with pytest.raises(KnowledgeBaseError, match="seconds must be a number above 0 and at most 1, got 2"):
        check_positive("seconds", 2, 1)


def test_the_number_of_processors() -> None:
    assert 1 <= cpu_count() <= (os.cpu_count() or 1)

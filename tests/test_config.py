"""Settings."""

from __future__ import annotations

import pytest

from gaifman.config import DEEPEST, LIMITS, Limits
from gaifman.errors import GaifmanError


def test_the_defaults_are_those_of_the_design() -> None:
    assert (LIMITS.characters, LIMITS.depth, LIMITS.nodes, LIMITS.variables) == (8192, 64, 1000, 16)


@pytest.mark.parametrize("name", ["characters", "depth", "nodes", "variables", "line"])
def test_a_limit_is_at_least_one(name: str) -> None:
    with pytest.raises(GaifmanError, match=f"the limit {name} must be at least 1, not 0"):
        Limits(**{name: 0})


def test_no_setting_allows_a_formula_deeper_than_the_stack() -> None:
    with pytest.raises(GaifmanError, match=f"at most {DEEPEST}"):
        Limits(depth=DEEPEST + 1)

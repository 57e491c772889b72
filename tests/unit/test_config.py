"""Settings."""

from __future__ import annotations

import math
from dataclasses import fields

import pytest

from gaifman.config import (
    DEFAULT_LIMITS,
    MAX_FORMULA_DEPTH,
    MAX_QUERY_SECONDS,
    SERVER_MAXIMA,
    Budget,
    Limits,
    ServerLimits,
)
from gaifman.errors import GaifmanError


def test_the_defaults_are_those_of_the_design() -> None:
    assert (DEFAULT_LIMITS.characters, DEFAULT_LIMITS.depth, DEFAULT_LIMITS.nodes, DEFAULT_LIMITS.variables) == (
        8192,
        64,
        1000,
        16,
    )


@pytest.mark.parametrize("name", ["characters", "depth", "nodes", "variables", "line"])
def test_a_limit_is_at_least_one(name: str) -> None:
    with pytest.raises(GaifmanError, match=f"the limit {name} must be at least 1, not 0"):
        Limits(**{name: 0})


def test_no_setting_allows_a_formula_deeper_than_the_stack() -> None:
    with pytest.raises(GaifmanError, match=f"at most {MAX_FORMULA_DEPTH}"):
        Limits(depth=MAX_FORMULA_DEPTH + 1)


@pytest.mark.parametrize("seconds", [math.inf, math.nan, -1.0, 0.0, 86_401, True])
def test_the_time_of_a_request_is_finite(seconds: float) -> None:
    """Infinity was taken, and then every request failed."""
    with pytest.raises(GaifmanError, match="the limit seconds of a server is"):
        ServerLimits(seconds=seconds)


@pytest.mark.parametrize("name", SERVER_MAXIMA)
def test_every_limit_of_a_server_has_an_end(name: str) -> None:
    assert getattr(ServerLimits(**{name: SERVER_MAXIMA[name]}), name) == SERVER_MAXIMA[name]
    for wrong in (0, SERVER_MAXIMA[name] + 1, 2**70):
        with pytest.raises(GaifmanError, match=f"the limit {name} of a server is"):
            ServerLimits(**{name: wrong})
    assert set(SERVER_MAXIMA) == {field.name for field in fields(ServerLimits)}


def test_the_time_of_a_query_is_finite() -> None:
    assert Budget(seconds=MAX_QUERY_SECONDS).seconds == MAX_QUERY_SECONDS
    for wrong in (math.inf, math.nan, MAX_QUERY_SECONDS + 1):
        with pytest.raises(GaifmanError, match="seconds"):
            Budget(seconds=wrong)

"""Limits of a server."""

from __future__ import annotations

import math
from dataclasses import fields

import pytest

from gaifman.errors import GaifmanError
from gaifman.server.limits import SERVER_MAXIMA, ServerLimits


@pytest.mark.parametrize("seconds", [math.inf, math.nan, -1.0, 0.0, 86_401, True])
def test_the_time_of_a_request_is_finite(seconds: float) -> None:
    """Infinity was once accepted, and every request failed."""
    with pytest.raises(GaifmanError, match=r"ServerLimits\.seconds must be a number"):
        ServerLimits(seconds=seconds)


@pytest.mark.parametrize("name", SERVER_MAXIMA)
def test_every_server_limit_has_a_maximum(name: str) -> None:
    assert getattr(ServerLimits(**{name: SERVER_MAXIMA[name]}), name) == SERVER_MAXIMA[name]
    for wrong in (0, SERVER_MAXIMA[name] + 1, 2**70):
        with pytest.raises(GaifmanError, match=rf"ServerLimits\.{name} must be"):
            ServerLimits(**{name: wrong})
    assert set(SERVER_MAXIMA) == {field.name for field in fields(ServerLimits)}

"""Fixtures of more than one file."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings
from playwright.sync_api import Browser

import gaifman
from browser import Watched, browser, watched
from gaifman.server.service import Service
from http_client import Client
from processes import children, describe
from trained import FEW, towns, worker

# A busy machine, or a kernel that is compiled first, is no failure.
settings.register_profile("without a clock", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("without a clock")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # a job in the background of a script ignores Ctrl-C, and so would the commands that tests interrupt
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def no_child_is_left() -> Iterator[None]:
    """Kill what a test left running, and fail the test."""
    before = children()
    yield
    left = {pid: text for pid in children() - before if "resource_tracker" not in (text := describe(pid)) and text}
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert not left, f"processes left running: {left}"


@pytest.fixture(scope="module")
def query_service() -> Service:
    """A service with the model of one query."""
    return Service(towns(), worker())


@pytest.fixture(scope="module")
def completion_service() -> Service:
    """A service with a completion."""
    return Service(towns(), gaifman.complete(towns(), ["works_in", "citizen"], **FEW))


@pytest.fixture(scope="module")
def window() -> Iterator[Browser]:
    """One browser for all tests of a file."""
    with browser() as found:
        yield found


@pytest.fixture
def web(window: Browser, client: Client) -> Iterator[Watched]:
    """A new window for the server of the test file."""
    yield from watched(window, client.port)

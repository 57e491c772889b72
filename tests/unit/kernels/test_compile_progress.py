"""Progress of compilation."""

from __future__ import annotations

import gc
import io
from typing import Any

import pytest
from numba import njit
from numba.core.event import install_listener

from gaifman.kernels import jit
from gaifman.kernels.jit import CompilationListener, compilation_progress


class Terminal(io.StringIO):
    """A terminal that keeps its output."""

    def isatty(self) -> bool:
        return True


def kernel() -> Any:
    """A function that calls another; neither is compiled."""
    callee: Any = njit(lambda x: x + 1)
    caller: Any = njit(lambda x: callee(x) * 2)
    return caller


def test_a_terminal_sees_a_line_that_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jit, "MIN_SECONDS", 0.0)
    stream, caller = Terminal(), kernel()
    with compilation_progress(expected=2, stream=stream):
        assert caller(1) == 4
    assert "1 of about 2 functions" in stream.getvalue()
    assert "2 of about 2 functions" in stream.getvalue()
    assert stream.getvalue().endswith("\r\x1b[K")


def test_compiled_functions_show_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jit, "MIN_SECONDS", 0.0)
    stream, caller = Terminal(), kernel()
    caller(1)
    with compilation_progress(stream=stream):
        caller(2)
    assert stream.getvalue() == ""


def test_short_compilation_and_no_terminal_show_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Terminal()
    monkeypatch.setattr(jit, "MIN_SECONDS", 1e9)
    with compilation_progress(stream=stream):
        kernel()(1)
    assert stream.getvalue() == ""
    monkeypatch.setattr(jit, "MIN_SECONDS", 0.0)
    plain = io.StringIO()
    with compilation_progress(stream=plain):
        kernel()(1)
    assert plain.getvalue() == ""


def test_a_callback_gets_progress_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jit, "MIN_SECONDS", 0.0)
    stream, reports = Terminal(), list[object]()
    with compilation_progress(lambda *counts: reports.append(counts), expected=1, stream=stream):
        kernel()(1)
    assert reports == [("compiling kernels (first run)", 1, 1), ("compiling kernels (first run)", 2, None)]
    assert stream.getvalue() == ""


def test_seconds_are_those_of_outermost_functions_and_gc_is_restored() -> None:
    times, shown, before = iter([10.0, 11.0, 13.0]), list[object](), gc.get_threshold()
    listener = CompilationListener(lambda *counts: shown.append(counts), lambda: next(times))
    with install_listener("numba:compile", listener):
        kernel()(1)
    assert shown == [(1, 1.0), (2, 3.0)]
    assert gc.get_threshold() == before


def test_a_failed_compilation_restores_too() -> None:
    @njit
    def wrong(x: Any) -> Any:
        return x.nothing

    before = gc.get_threshold()
    with compilation_progress(stream=io.StringIO()), pytest.raises(Exception, match="nothing"):
        wrong(1)
    assert gc.get_threshold() == before

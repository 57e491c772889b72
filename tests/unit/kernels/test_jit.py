"""How kernels are compiled."""

from __future__ import annotations

import gc
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numba import njit
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.event import install_listener

from gaifman.kernels import jit
from gaifman.kernels.jit import (
    CompilationListener,
    compilation_progress,
    inner_options,
    kernel,
    key_cache,
    linked_compiler,
)


class OtherLibrary:
    """A code library of another numba."""


class OtherCompiler:
    """A compiler of another numba."""

    def __init__(self, context: Any) -> None:
        self.context = context


def test_inner_functions_are_linked_by_this_numba() -> None:
    assert linked_compiler() is not None


@pytest.mark.parametrize(("library", "compiler"), [(OtherLibrary, Compiler), (JITCodeLibrary, OtherCompiler)])
def test_other_internals_of_numba_mean_its_own_compiler(library: Any, compiler: Any) -> None:
    assert linked_compiler(library, compiler) is None
    assert "pipeline_class" not in inner_options(None)


@pytest.mark.parametrize("pipeline", [linked_compiler(), None])
def test_a_kernel_calls_inner_functions_compiled_either_way(pipeline: Any) -> None:
    compile_inner: Any = njit(**inner_options(pipeline) | {"cache": False})
    square = compile_inner(lambda x: x * x)
    shifted = compile_inner(lambda x, by: square(x) + by)

    def add_all(numbers: Any) -> int:
        result = 0
        for number in numbers:
            result += shifted(number, 1)
        return result

    total: Any = njit(nogil=True)(add_all)
    assert total(np.arange(5)) == 0 + 1 + 4 + 9 + 16 + 5


def test_a_kernel_keeps_its_name_and_docstring() -> None:
    @kernel
    def one() -> int:
        """Return 1."""
        return 1

    assert (one.__name__, one.__doc__) == ("one", "Return 1.")


def test_compiled_code_is_not_used_after_a_change_of_any_kernel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("numba.core.config.CACHE_DIR", str(tmp_path))

    def compiled(sources: str) -> Any:
        function: Any = njit(cache=True)(one_more)
        key_cache(function, sources)
        assert function(1) == 2
        return function

    assert compiled("old").stats.cache_misses
    assert compiled("old").stats.cache_hits
    assert compiled("new").stats.cache_misses


def one_more(number: int) -> int:
    return number + 1


# Progress of compilation


class Terminal(io.StringIO):
    """A terminal that keeps its output."""

    def isatty(self) -> bool:
        return True


def chained_kernel() -> Any:
    """A function that calls another; neither is compiled."""
    callee: Any = njit(lambda x: x + 1)
    caller: Any = njit(lambda x: callee(x) * 2)
    return caller


def test_a_terminal_sees_a_line_that_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jit, "MIN_SECONDS", 0.0)
    stream, caller = Terminal(), chained_kernel()
    with compilation_progress(expected=2, stream=stream):
        assert caller(1) == 4
    assert "1 of about 2 functions" in stream.getvalue()
    assert "2 of about 2 functions" in stream.getvalue()
    assert stream.getvalue().endswith("\r\x1b[K")


def test_compiled_functions_show_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jit, "MIN_SECONDS", 0.0)
    stream, caller = Terminal(), chained_kernel()
    caller(1)
    with compilation_progress(stream=stream):
        caller(2)
    assert stream.getvalue() == ""


def test_short_compilation_and_no_terminal_show_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Terminal()
    monkeypatch.setattr(jit, "MIN_SECONDS", 1e9)
    with compilation_progress(stream=stream):
        chained_kernel()(1)
    assert stream.getvalue() == ""
    monkeypatch.setattr(jit, "MIN_SECONDS", 0.0)
    plain = io.StringIO()
    with compilation_progress(stream=plain):
        chained_kernel()(1)
    assert plain.getvalue() == ""


def test_a_callback_gets_progress_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jit, "MIN_SECONDS", 0.0)
    stream, reports = Terminal(), list[object]()
    with compilation_progress(lambda *counts: reports.append(counts), expected=1, stream=stream):
        chained_kernel()(1)
    assert reports == [("compiling kernels (first run)", 1, 1), ("compiling kernels (first run)", 2, None)]
    assert stream.getvalue() == ""


def test_seconds_are_those_of_outermost_functions_and_gc_is_restored() -> None:
    times, shown, before = iter([10.0, 11.0, 13.0]), list[object](), gc.get_threshold()
    listener = CompilationListener(lambda *counts: shown.append(counts), lambda: next(times))
    with install_listener("numba:compile", listener):
        chained_kernel()(1)
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

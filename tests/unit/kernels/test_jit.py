"""How kernels are compiled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numba import njit
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler

from gaifman.kernels.jit import inner_options, kernel, key_cache, linked_compiler


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

"""How every kernel is compiled: kept on disk, without the interpreter's lock, so that plain threads run side by side."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit

Kernel = TypeVar("Kernel", bound=Callable[..., Any])


def compiled(function: Kernel) -> Kernel:
    """The function as machine code, with its own type: `numba` has none to give."""
    return cast(Kernel, njit(nogil=True, cache=True, error_model="numpy")(function))

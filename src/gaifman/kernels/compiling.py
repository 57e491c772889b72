"""How every kernel is compiled: kept on disk, and free of the interpreter's lock, so that plain threads run abreast."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit
from numpy import int64

Kernel = TypeVar("Kernel", bound=Callable[..., Any])

_OPTIONS: dict[str, Any] = {"nogil": True, "cache": True, "error_model": "numpy", "_nrt": False}


def compiled(function: Kernel) -> Kernel:
    """The function as machine code, with its own type: `numba` has none to give.

    Kernels make no arrays, only fill them, so nothing in them counts references: counting took more than half the time.
    """
    return cast(Kernel, njit(**_OPTIONS)(function))


def inlined(function: Kernel) -> Kernel:
    """The same for a function of an inner loop: its code stands where it is called, and no array is handed over."""
    return cast(Kernel, njit(**_OPTIONS, forceinline=True)(function))


@compiled
def zero() -> int:
    """0. Given as a literal it would be a type of its own to numba, and every kernel it is handed to compiled twice."""
    return int(int64(0))

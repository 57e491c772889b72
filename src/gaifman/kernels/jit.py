"""How every kernel is compiled: kept on disk, and free of the interpreter's lock, so that plain threads run abreast."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar, cast

from llvmlite import ir  # type: ignore[import-untyped]
from numba import njit, types
from numba.extending import intrinsic
from numpy import int64

Kernel = TypeVar("Kernel", bound=Callable[..., Any])

_OPTIONS: dict[str, Any] = {"nogil": True, "cache": True, "error_model": "numpy", "_nrt": False}
_INNER: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}


def kernel(function: Kernel) -> Kernel:
    """The function as machine code, with its own type: `numba` has none to give.

    Kernels make no arrays, only fill them, so nothing in them counts references: counting took more than half the time.
    """
    return cast(Kernel, njit(**_OPTIONS)(function))


def inner_kernel(function: Kernel) -> Kernel:
    """The same for a function that only kernels call: without a way in from Python, compiling takes half the time."""
    return cast(Kernel, njit(**_OPTIONS, **_INNER)(function))


def inline_kernel(function: Kernel) -> Kernel:
    """The same for a function of an inner loop: its code stands where it is called, and no array is handed over."""
    return cast(Kernel, njit(**_OPTIONS, **_INNER, forceinline=True)(function))


def fma_kernel(function: Kernel) -> Kernel:
    """The same for loops over reals: a product may be added without being rounded first, which is one instruction."""
    return cast(Kernel, njit(**_OPTIONS, **_INNER, fastmath={"contract"})(function))


def sum_kernel(function: Kernel) -> Kernel:
    """The same for sums whose order does not matter: several are added up at once."""
    return cast(Kernel, njit(**_OPTIONS, **_INNER, fastmath={"contract", "reassoc"})(function))


@kernel
def zero() -> int:
    """0. Given as a literal it would be a type of its own to numba, and every kernel it is handed to compiled twice."""
    return int(int64(0))


def _prefetch_intrinsic(_: Any, array: Any, __: Any) -> Any:
    """What `prefetch` is made of: one instruction."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        whole = context.make_array(signature.args[0])(context, builder, args[0])
        place = builder.gep(whole.data, [args[1]])
        number = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [place.type, number, number, number])
        prefetch = builder.module.declare_intrinsic("llvm.prefetch", [place.type], kind)
        builder.call(prefetch, [place, number(0), number(3), number(1)])
        return context.get_dummy_value()

    return types.void(array, types.int64), generate


def _no_prefetch(_: Any, __: Any) -> None:
    """Uncompiled there is nothing to foresee."""


_jit_disabled = os.environ.get("NUMBA_DISABLE_JIT", "0") != "0"
prefetch: Callable[[Any, Any], None] = _no_prefetch if _jit_disabled else cast(Any, intrinsic(_prefetch_intrinsic))
"""Begin to bring what stands at a place of an array near the processor: it will be asked for soon."""

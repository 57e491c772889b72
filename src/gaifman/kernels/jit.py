"""Decorators that compile kernels: cached on disk, without the global interpreter lock, so that threads run in
parallel.
"""

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
    """Compile a function that Python calls. The result keeps the type of the function.

    Kernels fill arrays and never create them, so reference counting is off (`_nrt`): it took more than half of the
    time.
    """
    return cast(Kernel, njit(**_OPTIONS)(function))


def inner_kernel(function: Kernel) -> Kernel:
    """Compile a function that only kernels call. Without a Python wrapper it compiles in half the time."""
    return cast(Kernel, njit(**_OPTIONS, **_INNER)(function))


def inline_kernel(function: Kernel) -> Kernel:
    """Compile a function that is inlined into the kernels that call it, so that no array is passed."""
    return cast(Kernel, njit(**_OPTIONS, **_INNER, forceinline=True)(function))


def fma_kernel(function: Kernel) -> Kernel:
    """Compile a floating-point loop that may use fused multiply-add."""
    return cast(Kernel, njit(**_OPTIONS, **_INNER, fastmath={"contract"})(function))


def sum_kernel(function: Kernel) -> Kernel:
    """Compile a sum that may be reordered, so that it runs in vector registers."""
    return cast(Kernel, njit(**_OPTIONS, **_INNER, fastmath={"contract", "reassoc"})(function))


@kernel
def zero() -> int:
    """Return 0 as a typed integer. numba gives a literal a type of its own and would compile a kernel twice."""
    return int(int64(0))


def _prefetch_intrinsic(_: Any, array: Any, __: Any) -> Any:
    """Generate the prefetch instruction."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        array_struct = context.make_array(signature.args[0])(context, builder, args[0])
        pointer = builder.gep(array_struct.data, [args[1]])
        int32 = ir.IntType(32)
        function_type = ir.FunctionType(ir.VoidType(), [pointer.type, int32, int32, int32])
        instruction = builder.module.declare_intrinsic("llvm.prefetch", [pointer.type], function_type)
        builder.call(instruction, [pointer, int32(0), int32(3), int32(1)])
        return context.get_dummy_value()

    return types.void(array, types.int64), generate


def _no_prefetch(_: Any, __: Any) -> None:
    """Do nothing: without compilation there is no prefetch."""


_jit_disabled = os.environ.get("NUMBA_DISABLE_JIT", "0") != "0"
prefetch: Callable[[Any, Any], None] = _no_prefetch if _jit_disabled else cast(Any, intrinsic(_prefetch_intrinsic))
"""Load the cache line of an array element that will be read soon."""

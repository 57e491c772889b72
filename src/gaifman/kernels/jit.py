"""Decorators that compile kernels, and the progress of compilation.

Compiled kernels are cached on disk and release the interpreter lock, so that threads run in parallel. On the first run
of a command, numba compiles kernels for some seconds.
"""

from __future__ import annotations

import gc
import inspect
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, TypeVar, cast

from llvmlite import ir  # type: ignore[import-untyped]
from numba import njit, types
from numba.core import event as numba_events
from numba.core.caching import IndexDataCacheFile
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.compiler_lock import global_compiler_lock
from numba.extending import intrinsic
from numpy import int64

if TYPE_CHECKING:
    from gaifman.config import ProgressCallback

Kernel = TypeVar("Kernel", bound=Callable[..., Any])

JIT_DISABLED = os.environ.get("NUMBA_DISABLE_JIT", "0") != "0"
"""Whether kernels run as plain Python."""
_NUMBA_INTERNALS = (
    "_ensure_finalized",
    "_finalize_dynamic_globals",
    "_finalize_final_module",
    "_optimize_final_module",
)
"""Methods of numba's code library that `linked_compiler` calls or overrides."""
_COMPILER_PARAMETERS = ["typingctx", "targetctx", "library"]

# A fork waits until no other thread compiles: a child would find the locks of numba and LLVM held for ever.
os.register_at_fork(
    before=global_compiler_lock.acquire,
    after_in_parent=global_compiler_lock.release,
    after_in_child=global_compiler_lock.release,
)


class _NoEnvironment:
    """A code generator that stores no environment: only code called from Python has one."""

    def __init__(self, codegen: Any) -> None:
        self._codegen = codegen

    def set_env(self, _: str, __: Any) -> None:
        """Do nothing."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._codegen, name)


def linked_compiler(library: Any = JITCodeLibrary, compiler: Any = Compiler) -> Any:
    """Return a numba compiler for functions that only kernels call, or None if numba's internals are others.

    numba optimises every function and generates machine code for it, and then again for each caller that inlines it.
    Kernels enter compiled code only from Python, so the machine code of inner functions is never used. This compiler
    keeps their LLVM code and links it into the callers: compilation takes half the time.
    """
    known = inspect.signature(compiler).parameters
    if not all(hasattr(library, name) for name in _NUMBA_INTERNALS) or [*known][:3] != _COMPILER_PARAMETERS:
        return None

    class LinkedLibrary(library):  # type: ignore[misc]
        @property
        def codegen(self) -> Any:
            return _NoEnvironment(self._codegen)

        def _optimize_final_module(self) -> None:
            pass

        def _finalize_final_module(self) -> None:
            self._finalize_dynamic_globals()
            self._finalized = True

        def get_pointer_to_function(self, name: str) -> int:
            self._ensure_finalized()
            return 0

    class LinkedCompiler(compiler):  # type: ignore[misc]
        def __init__(self, typingctx: Any, targetctx: Any, library: Any, *rest: Any) -> None:
            super().__init__(typingctx, targetctx, library or LinkedLibrary(targetctx.codegen(), "linked"), *rest)

    return LinkedCompiler


def inner_options(pipeline: Any) -> dict[str, Any]:
    """Return numba's options for functions that only kernels call, with a compiler or, for None, numba's own."""
    return _OPTIONS | {"no_cpython_wrapper": True} | ({"pipeline_class": pipeline} if pipeline else {"cache": True})


def _digest_sources() -> str:
    """Return a digest of the source of all kernels."""
    digest = blake2b(digest_size=8)
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


_SOURCES = _digest_sources()
_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "_nrt": False, "no_cfunc_wrapper": True}
_INNER = {} if JIT_DISABLED else inner_options(linked_compiler())


def kernel(function: Kernel) -> Kernel:
    """Compile a function that Python calls. The result keeps the type of the function.

    Kernels fill arrays and never create them, so reference counting is off (`_nrt`): it took more than half of the
    time.
    """
    compiled: Any = njit(**_OPTIONS, cache=True)(function)
    if not JIT_DISABLED:
        key_cache(compiled, _SOURCES)
    return cast(Kernel, compiled)


def key_cache(compiled: Any, sources: str) -> None:
    """Make the cache of a compiled function valid for these sources alone.

    numba compiles a cached function again when its own file changes, but not when the file of a function that it
    calls does: then it runs old code, or cannot read its index. So the sources of all kernels are part of the name.
    """
    cache: Any = getattr(compiled, "_cache", None)
    if all(hasattr(cache, name) for name in ("_cache_file", "_cache_path", "_impl")):
        make: Any = IndexDataCacheFile
        cache._cache_file = make(cache._cache_path, f"{cache._impl.filename_base}-{sources}", sources)


def inner_kernel(function: Kernel) -> Kernel:
    """Compile a function that only kernels call: it is linked into them."""
    return cast(Kernel, njit(**_INNER)(function))


def inline_kernel(function: Kernel) -> Kernel:
    """Compile a function that is inlined into the kernels that call it, so that no array is passed."""
    return cast(Kernel, njit(**_INNER, forceinline=True)(function))


def fma_kernel(function: Kernel) -> Kernel:
    """Compile a floating-point loop that may use fused multiply-add."""
    return cast(Kernel, njit(**_INNER, fastmath={"contract"})(function))


def sum_kernel(function: Kernel) -> Kernel:
    """Compile a sum that may be reordered, so that it runs in vector registers."""
    return cast(Kernel, njit(**_INNER, fastmath={"contract", "reassoc"})(function))


ZERO, ONE = cast(int, int64(0)), cast(int, int64(1))
"""0 and 1 as arguments. numba gives a literal a type of its own and compiles a function again for it."""


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


prefetch: Callable[[Any, Any], None] = _no_prefetch if JIT_DISABLED else cast(Any, intrinsic(_prefetch_intrinsic))
"""Load the cache line of an array element that will be read soon."""


# Progress

PHASE = "compiling kernels (first run)"
MIN_SECONDS = 0.5
"""Seconds of compilation before progress is reported."""
GC_THRESHOLDS = (20_000, 20, 100)
"""Thresholds of the garbage collector during compilation, which makes many objects and few cycles."""
TRAIN_FUNCTIONS = 43
"""Functions compiled by `gaifman train` with default settings."""


class CompilationListener(numba_events.Listener):
    """Count the functions that numba compiles. A kernel loaded from disk is not counted.

    numba compiles one function at a time, under its own lock, and a function's callees inside it.
    """

    def __init__(self, report: Callable[[int, float], None], clock: Callable[[], float] = time.monotonic) -> None:
        """`report` gets the number of functions compiled so far and the seconds that took."""
        self._report, self._clock = report, clock
        self._depth, self._start, self._seconds = 0, 0.0, 0.0
        self._gc_thresholds = gc.get_threshold()
        self.functions = 0

    def on_start(self, event: Any) -> None:
        """Note the start of a function."""
        if self._depth == 0:
            self._start, self._gc_thresholds = self._clock(), gc.get_threshold()
            gc.set_threshold(*GC_THRESHOLDS)
        self._depth += 1

    def on_end(self, event: Any) -> None:
        """Count a function that is compiled or has failed."""
        self._depth -= 1
        self.functions += 1
        seconds = self._seconds + self._clock() - self._start
        if self._depth == 0:
            self._seconds = seconds
            gc.set_threshold(*self._gc_thresholds)
        self._report(self.functions, seconds)


def format_progress(functions: int, seconds: float, expected: int | None = None) -> str:
    """Return one line of progress.

    >>> format_progress(87, 9.6, 154)
    'compiling kernels (first run): 87 of about 154 functions, 10 s'
    >>> format_progress(160, 14.1, 154)
    'compiling kernels (first run): 160 functions, 14 s'
    """
    total = f" of about {expected}" if expected and functions <= expected else ""
    return f"{PHASE}: {functions}{total} functions, {seconds:.0f} s"


@contextmanager
def compilation_progress(
    report: ProgressCallback | None = None, expected: int | None = None, stream: TextIO | None = None
) -> Iterator[None]:
    """Report compilation while the body runs: to `report`, or as a line on a terminal (default: stderr).

    The line is erased at the end. Without a callback and a terminal nothing is shown. `expected` is the number of
    functions that the command usually compiles.
    """
    stream = sys.stderr if stream is None else stream
    terminal, shown = stream.isatty(), False

    def show(functions: int, seconds: float) -> None:
        nonlocal shown
        if seconds < MIN_SECONDS:
            return
        if report is not None:
            report(PHASE, functions, expected if expected and functions <= expected else None)
        elif terminal:
            stream.write(f"\r\x1b[K{format_progress(functions, seconds, expected)}")
            stream.flush()
            shown = True

    with numba_events.install_listener("numba:compile", CompilationListener(show)):
        try:
            yield
        finally:
            if shown:
                stream.write("\r\x1b[K")
                stream.flush()

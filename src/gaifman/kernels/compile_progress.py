"""Progress of compilation: on the first run of a command, numba compiles kernels for some seconds."""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

from numba.core import event as numba_events

if TYPE_CHECKING:
    from gaifman.config import ProgressCallback

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

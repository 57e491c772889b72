"""How much a command prints to standard error: nothing but errors, notes, or settings and times too.

The options `--quiet` and `--verbose` are in `gaifman.cli.settings`. What they say is kept with the command's context.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO, cast

import click

from gaifman.config import ProgressCallback

KEY = "gaifman.verbosity"
"""Where the context of a command keeps the verbosity."""


@dataclass(slots=True)
class Verbosity:
    """What a command prints, and the times of its phases."""

    quiet: bool = False
    verbose: bool = False
    stderr: TextIO | None = None
    """Standard error, while a quiet command prints nothing there."""
    clock: Callable[[], float] = time.monotonic
    _times: dict[str, tuple[float, float]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def record(self, phase: str) -> None:
        """Note that a phase has reported."""
        now = self.clock()
        with self._lock:
            first, _ = self._times.get(phase, (now, now))
            self._times[phase] = first, now

    def phase_seconds(self) -> dict[str, float]:
        """Phase → the seconds between its first and last report."""
        return {phase: last - first for phase, (first, last) in self._times.items()}

    @contextmanager
    def silence(self) -> Iterator[None]:
        """Discard what is printed to standard error meanwhile; errors are printed later, or by `error_stream`."""
        self.stderr = sys.stderr
        with Path(os.devnull).open("w", encoding="utf-8") as nothing, redirect_stderr(nothing):
            try:
                yield
            finally:
                self.stderr = None


def verbosity() -> Verbosity:
    """The verbosity of the command that runs."""
    context = click.get_current_context(silent=True)
    if context is None:
        return Verbosity()
    return cast(Verbosity, context.meta.setdefault(KEY, Verbosity()))


def error_stream() -> TextIO:
    """The stream of errors, also of a quiet command."""
    return verbosity().stderr or sys.stderr


def timed(report: ProgressCallback | None) -> ProgressCallback | None:
    """A progress callback that also notes the times of phases, if the command is verbose."""
    current = verbosity()
    if not current.verbose:
        return report

    def record(phase: str, done: int, total: int | None) -> None:
        current.record(phase)
        if report:
            report(phase, done, total)

    return record

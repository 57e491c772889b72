"""Deadlines: long computations check one between their steps and stop when it has passed or was cancelled.

>>> deadline = Deadline(seconds=10)
>>> deadline.check()
>>> deadline.cancel()
>>> deadline.check()
Traceback (most recent call last):
...
gaifman.errors.StoppedError: the work was cancelled

A database statement inside such a computation gets the time that remains.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import Future, InvalidStateError
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import replace

from gaifman.config import DEFAULT_BUDGET, Budget, check_positive
from gaifman.errors import StoppedError

MIN_SECONDS = 0.001
"""Shortest time limit of a query inside a computation."""


class Deadline:
    """A time limit that can also be cancelled, shared by all steps of a computation."""

    def __init__(self, seconds: float | None = None) -> None:
        """The deadline is `seconds` from now; None for no time limit."""
        if seconds is not None:
            check_positive("seconds", seconds)
        self.seconds = seconds
        self._end = None if seconds is None else time.monotonic() + seconds
        self.cancelled: Future[None] = Future()
        """Done when the deadline was cancelled; a thread that waits for a statement waits for this too."""

    @property
    def remaining(self) -> float | None:
        """Seconds until the deadline, 0 if it has passed; None without a time limit."""
        return None if self._end is None else max(0.0, self._end - time.monotonic())

    def cancel(self) -> None:
        """Make every later `check` raise, and stop the statements that run inside `activate`."""
        with suppress(InvalidStateError):  # it was cancelled before
            self.cancelled.set_result(None)

    @contextmanager
    def activate(self) -> Iterator[None]:
        """Apply the deadline to all database statements that this thread runs inside the `with` block."""
        token = _CURRENT.set(self)
        try:
            yield
        finally:
            _CURRENT.reset(token)

    def check(self) -> None:
        """Raise `StoppedError` if the deadline has passed or was cancelled."""
        if self.cancelled.done():
            raise StoppedError("the work was cancelled")
        if self.remaining == 0:
            raise StoppedError(
                f"the query was stopped after {self.seconds:g} seconds",
                hint="ask for less, bind some variables, or allow more time",
            )

    def limit_budget(self, budget: Budget = DEFAULT_BUDGET) -> Budget:
        """Return the budget with no more time than remains."""
        Deadline.check(self)
        remaining = self.remaining
        return budget if remaining is None else replace(budget, seconds=max(MIN_SECONDS, round(remaining, 3)))


_CURRENT: ContextVar[Deadline | None] = ContextVar("deadline", default=None)
"""A context variable, because the functions between a request and the database know only a budget."""


def current_deadline() -> Deadline | None:
    """Return the deadline of the database statements of this thread."""
    return _CURRENT.get()


def no_deadline() -> Deadline:
    """Return a deadline without a time limit."""
    return Deadline()

"""How long work may go on: it asks between its parts, and is stopped there.

>>> deadline = Deadline(seconds=10)
>>> deadline.check()
>>> deadline.stop()
>>> deadline.check()
Traceback (most recent call last):
...
gaifman.errors.StoppedError: the work was stopped
hint: it is no longer wanted

Whoever works long takes one, and asks it before each part; what a database does inside gets the time that is left.
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
"""Seconds that a query inside gets at least: none would be for ever."""


class Deadline:
    """A moment at which work ends, done or not."""

    def __init__(self, seconds: float | None = None) -> None:
        """So many seconds from now; None for as long as it takes."""
        if seconds is not None:
            check_positive("seconds", seconds)
        self.seconds = seconds
        self._end = None if seconds is None else time.monotonic() + seconds
        self.cancelled: Future[None] = Future()
        """Done when the work is to stop: whoever waits for a database waits for this too."""

    @property
    def remaining(self) -> float | None:
        """Seconds until the end, 0 where it is past; None where there is none."""
        return None if self._end is None else max(0.0, self._end - time.monotonic())

    def cancel(self) -> None:
        """Whoever asks from now on is stopped, and so is what a database does `within` this."""
        with suppress(InvalidStateError):  # it was stopped before
            self.cancelled.set_result(None)

    @contextmanager
    def activate(self) -> Iterator[None]:
        """While this lasts, what a database does for this thread stops with the deadline, however deep inside."""
        before = _CURRENT.set(self)
        try:
            yield
        finally:
            _CURRENT.reset(before)

    def check(self) -> None:
        """Raise where the work has to stop."""
        if self.cancelled.done():
            raise StoppedError("the work was stopped", hint="it is no longer wanted")
        if self.remaining == 0:
            raise StoppedError(
                f"the query was stopped after {self.seconds:g} seconds",
                hint="ask for less, give some variables, or allow more time",
            )

    def limit_budget(self, budget: Budget = DEFAULT_BUDGET) -> Budget:
        """For a database that works in between: the same budget with no more time than is left."""
        Deadline.check(self)
        left = self.remaining
        return budget if left is None else replace(budget, seconds=max(MIN_SECONDS, round(left, 3)))


_CURRENT: ContextVar[Deadline | None] = ContextVar("deadline", default=None)
"""Not an argument: between who sets an end and the database stand functions that know no more than a budget."""


def current_deadline() -> Deadline | None:
    """The deadline that what a database does now stops with."""
    return _CURRENT.get()


def no_deadline() -> Deadline:
    """No end."""
    return Deadline()

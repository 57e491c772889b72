"""Progress of work on several threads."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping

from gaifman.config import ProgressCallback


class WorkStopped(Exception):
    """The work of all tasks was stopped, because one of them failed."""


class ProgressCounter:
    """Counts the finished units of all tasks and reports them. Threads can share it.

    >>> progress = ProgressCounter("training", lambda *state: print(*state))
    >>> progress.plan({"a": 10, "b": 5}, done=["b"])
    training 5 15
    >>> progress.add("a", 4)
    training 9 15
    """

    def __init__(self, phase: str, report: ProgressCallback | None = None) -> None:
        self._phase, self._report = phase, report
        self._planned: dict[str, int] = {}
        self._done: dict[str, int] = {}
        self._lock, self._stopped = threading.Lock(), False

    @property
    def counts(self) -> tuple[int, int]:
        """The number of finished units, and of all units."""
        return sum(self._done.values()), sum(self._planned.values())

    def plan(self, sizes: Mapping[str, int], done: Iterable[str] = ()) -> None:
        """Set the approximate sizes of tasks, some of which may be done already."""
        with self._lock:
            self._planned.update(sizes)
            self._done.update(dict.fromkeys(sizes, 0))
            self._done.update({task: sizes[task] for task in done if task in sizes})
            if any(self._done.values()):
                self._send_report()

    def begin(self, task: str, total: int, done: int = 0) -> None:
        """Begin or resume a task, with its exact size."""
        with self._lock:
            self._planned[task], self._done[task] = total, min(done, total)
            self._send_report()

    def add(self, task: str, units: int) -> None:
        """Count units of a task, up to its size; raise `WorkStopped` after `stop`."""
        with self._lock:
            if self._stopped:
                raise WorkStopped
            self._done[task] = min(self._done[task] + units, self._planned[task])
            self._send_report()

    def end(self, task: str) -> None:
        """End a task, whatever its count."""
        with self._lock:
            self._done[task] = self._planned[task]
            self._send_report()

    def stop(self) -> None:
        """Stop the other tasks at their next `add`."""
        self._stopped = True

    def _send_report(self) -> None:
        if self._report:
            self._report(self._phase, *self.counts)

"""What a process makes for itself: a forked child shares the memory of its parent, but not the threads.

>>> numbers = PerProcess(list)
>>> numbers.get() is numbers.get()
True

A child gets a new value, because threads, databases and held locks of the parent cannot be used in it. The value of the
parent is kept: freeing it would stop threads that the child does not have.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class _Ancestors:
    """The number of forks between the first process and this one. Unlike a process id, it is never used twice."""

    count = 0


def _count_fork() -> None:
    _Ancestors.count += 1


os.register_at_fork(after_in_child=_count_fork)


def process_key() -> int:
    """Return a number that differs between this process and the processes it was forked from."""
    return _Ancestors.count


class PerProcess(Generic[T]):
    """A value that is created once in each process."""

    def __init__(self, create: Callable[[], T]) -> None:
        self._create = create
        self._values: dict[int, T] = {}

    def get(self) -> T:
        """Return the value of this process; if threads create it at the same time, all get the same one."""
        key = process_key()
        if key not in self._values:
            self._values.setdefault(key, self._create())
        return self._values[key]


class ProcessLock:
    """A reentrant lock of threads. A forked child finds it free, whichever thread of its parent held it.

    It is meant for values that are created once and assigned when they are complete. Copies and pickles are new locks.
    """

    def __init__(self) -> None:
        self._lock = PerProcess(threading.RLock)

    def __enter__(self) -> None:
        self._lock.get().acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.get().release()

    def __reduce__(self) -> tuple[type[ProcessLock], tuple[()]]:
        return ProcessLock, ()


class cached_property(functools.cached_property[T]):  # noqa: N801 - it replaces functools.cached_property
    """`functools.cached_property`, whose lock in Python 3.11 a forked child would find held for ever."""

    def __init__(self, compute: Callable[[Any], T]) -> None:
        super().__init__(compute)
        self.lock = ProcessLock()

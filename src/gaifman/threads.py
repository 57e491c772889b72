"""Threads: pools that run tasks, and locks and values that survive a fork.

>>> map_threaded(lambda number: number**2, range(5), threads=2)
[0, 1, 4, 9, 16]

A forked child shares the memory of its parent, but not the threads:

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
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
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


Task = TypeVar("Task")
Result = TypeVar("Result")


def map_threaded(
    function: Callable[[Task], Result],
    tasks: Sequence[Task],
    threads: int,
    *,
    cost: Callable[[Task], float] | None = None,
    on_error: Callable[[], object] | None = None,
) -> list[Result]:
    """Return `function(task)` for each task; see `map_with_workers`."""
    return map_with_workers(lambda: function, tasks, threads, cost=cost, on_error=on_error)


def map_with_workers(
    make_worker: Callable[[], Callable[[Task], Result]],
    tasks: Sequence[Task],
    threads: int,
    *,
    cost: Callable[[Task], float] | None = None,
    on_error: Callable[[], object] | None = None,
) -> list[Result]:
    """Return `worker(task)` for each task, in the order of the tasks.

    Each thread calls `make_worker` once and keeps the worker, which may own scratch memory, for all its tasks. With
    `cost` the most expensive tasks start first, so that no thread is left with one at the end. After an error no
    task is started, `on_error` is called to stop those that run, and the first error is raised.
    """
    order = list(range(len(tasks)))
    if cost is not None:
        order.sort(key=lambda number: -cost(tasks[number]))
    pending = iter(order)  # threads share it: the next number of a list's iterator is taken atomically
    results: dict[int, Result] = {}
    errors: list[BaseException] = []

    def fail(error: BaseException) -> None:
        errors.append(error)
        if on_error is not None:
            on_error()

    def work() -> None:
        try:
            worker = make_worker()
            for number in pending:
                if errors:
                    return
                results[number] = worker(tasks[number])
        except BaseException as error:
            fail(error)

    count = min(threads, len(tasks))
    if count < 2:
        work()
    else:
        with ThreadPoolExecutor(count) as pool:
            try:
                wait([pool.submit(work) for _ in range(count)])
            except BaseException as error:  # Control-C reaches the main thread, which waits here
                fail(error)
    if errors:
        raise errors[0]
    return [results[number] for number in range(len(tasks))]

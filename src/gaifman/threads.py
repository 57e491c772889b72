"""Run tasks on threads: results in the order of the tasks, and the first error stops the rest.

>>> map_threaded(lambda number: number**2, range(5), threads=2)
[0, 1, 4, 9, 16]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TypeVar

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

"""Tasks on threads."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from gaifman.threads import map_threaded, map_with_workers


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("count", [0, 1, 7])
def test_results_are_in_the_order_of_the_tasks(threads: int, count: int) -> None:
    assert map_threaded(lambda n: n * n, range(count), threads) == [n * n for n in range(count)]
    assert map_threaded(lambda n: n * n, range(count), threads, cost=lambda n: n) == [n * n for n in range(count)]


@pytest.mark.parametrize("threads", [1, 3])
def test_expensive_tasks_start_first_and_equal_ones_in_their_order(threads: int) -> None:
    started: list[str] = []
    lock = threading.Lock()

    def work(task: str) -> None:
        with lock:
            started.append(task)

    map_threaded(work, ["a", "bb", "c", "dddd"], threads, cost=len)
    assert sorted(started) == ["a", "bb", "c", "dddd"]
    if threads == 1:
        assert started == ["dddd", "bb", "a", "c"]


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_each_thread_makes_one_worker(threads: int) -> None:
    made: list[int] = []
    together = threading.Barrier(threads)

    def make_worker() -> Callable[[int], int]:
        made.append(threading.get_ident())
        together.wait(60)  # all threads are at work before one takes a task
        return lambda task: task

    assert map_with_workers(make_worker, range(20), threads) == [*range(20)]
    assert len(made) == len(set(made)) == threads


@pytest.mark.parametrize("threads", [1, 2])
def test_the_first_error_stops_the_rest(threads: int) -> None:
    failed, done = threading.Event(), []

    def work(task: int) -> None:
        if task == 0:
            raise ValueError("task 0")
        failed.wait(60)
        done.append(task)

    with pytest.raises(ValueError, match="task 0"):
        map_threaded(work, range(100), threads, on_error=failed.set)
    assert failed.is_set()
    assert done in ([], [1])  # at most the task that ran already


def test_errors_that_follow_from_stopping_do_not_hide_the_first() -> None:
    stopped, both = threading.Event(), threading.Barrier(2)

    def work(task: int) -> None:
        both.wait(60)
        if task == 0:
            raise KeyError("first")
        stopped.wait(60)
        raise RuntimeError("stopped")

    with pytest.raises(KeyError, match="first"):
        map_threaded(work, range(2), 2, on_error=stopped.set)


def test_a_worker_that_cannot_be_made_is_an_error() -> None:
    def make_worker() -> Callable[[int], int]:
        raise MemoryError("no scratch")

    with pytest.raises(MemoryError, match="no scratch"):
        map_with_workers(make_worker, range(3), 2)

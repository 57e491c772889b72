"""Limits of a server."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import pytest

from gaifman.config import Deadline
from gaifman.errors import BusyError, GaifmanError, StoppedError
from gaifman.queries.answers import count
from gaifman.queries.engine import get_engine
from gaifman.server import middleware as limiter_module
from gaifman.server.middleware import SERVER_MAXIMA, CpuDeadline, CpuSlots, ServerLimits, WorkLimiter
from http_client import ENDLESS
from processes import PATIENCE, wait_until
from trained import demo


@pytest.mark.parametrize("seconds", [math.inf, math.nan, -1.0, 0.0, 86_401, True])
def test_the_time_of_a_request_is_finite(seconds: float) -> None:
    """Infinity was once accepted, and every request failed."""
    with pytest.raises(GaifmanError, match=r"ServerLimits\.seconds must be a number"):
        ServerLimits(seconds=seconds)


@pytest.mark.parametrize("name", SERVER_MAXIMA)
def test_every_server_limit_has_a_maximum(name: str) -> None:
    assert getattr(ServerLimits(**{name: SERVER_MAXIMA[name]}), name) == SERVER_MAXIMA[name]
    for wrong in (0, SERVER_MAXIMA[name] + 1, 2**70):
        with pytest.raises(GaifmanError, match=rf"ServerLimits\.{name} must be"):
            ServerLimits(**{name: wrong})
    assert set(SERVER_MAXIMA) == {field.name for field in fields(ServerLimits)}


# Limits on concurrent work


def held(release: threading.Event) -> Callable[[Deadline], str]:
    """Return work that runs until it is released or stopped."""

    def work(deadline: Deadline) -> str:
        while not release.wait(0.005):
            Deadline.check(deadline)
        return "done"

    return work


async def settled(condition: Callable[[], bool]) -> None:
    """Wait for a condition."""
    while not condition():
        await asyncio.sleep(0.005)


def test_some_run_some_wait_and_others_are_refused() -> None:
    limiter, release = WorkLimiter(ServerLimits(max_concurrency=2, max_queued=1, seconds=PATIENCE)), threading.Event()

    async def scene() -> list[str]:
        asked = [asyncio.create_task(limiter.run(held(release))) for _ in range(3)]
        await settled(lambda: limiter.running == 2 and limiter.queued == 1)
        with pytest.raises(BusyError, match="the queue is full"):
            await limiter.run(held(release))
        release.set()
        return await asyncio.gather(*asked)

    assert asyncio.run(scene()) == ["done"] * 3
    assert (limiter.running, limiter.queued) == (0, 0)
    limiter.close()


def test_work_is_stopped_at_its_time_limit() -> None:
    limiter, never = WorkLimiter(ServerLimits(seconds=0.1)), threading.Event()
    with pytest.raises(StoppedError, match="stopped after"):
        asyncio.run(limiter.run(held(never)))
    assert limiter.running == 0
    limiter.close()


def test_a_request_that_never_started_is_refused() -> None:
    limiter, release = WorkLimiter(ServerLimits(max_concurrency=1, seconds=0.3)), threading.Event()

    def deaf(_: Deadline) -> None:
        release.wait()

    async def scene() -> None:
        first = asyncio.create_task(limiter.run(deaf))
        await settled(lambda: limiter.running == 1)
        with pytest.raises(BusyError, match="not started within"):
            await limiter.run(held(release))
        with pytest.raises(StoppedError, match="stopped after"):  # it never asks its deadline: the place stays taken
            await first
        assert limiter.running == 1
        release.set()
        await settled(lambda: limiter.running == 0)

    asyncio.run(scene())
    limiter.close()


def test_an_error_of_the_work_is_that_of_the_request() -> None:
    limiter = WorkLimiter()

    def work(_: Deadline) -> None:
        raise KeyError("inside")

    with pytest.raises(KeyError, match="inside"):
        asyncio.run(limiter.run(work))
    limiter.close()


def test_cancelled_work_is_stopped() -> None:
    limiter, never = WorkLimiter(ServerLimits(seconds=PATIENCE)), threading.Event()

    async def scene() -> None:
        task = asyncio.create_task(limiter.run(held(never)))
        await settled(lambda: limiter.running == 1)
        task.cancel()
        await settled(lambda: limiter.running == 0)

    asyncio.run(scene())
    limiter.close()


def test_a_cancelled_request_leaves_the_queue_at_once() -> None:
    """It once kept its place in the queue."""
    limiter, never = WorkLimiter(ServerLimits(max_concurrency=1, seconds=PATIENCE)), threading.Event()

    async def scene() -> None:
        first = asyncio.create_task(limiter.run(held(never)))
        await settled(lambda: limiter.running == 1)
        second = asyncio.create_task(limiter.run(held(never)))
        await settled(lambda: limiter.queued == 1)
        second.cancel()
        await asyncio.wait([second])
        assert (limiter.running, limiter.queued) == (1, 0)
        never.set()
        assert await first == "done"

    asyncio.run(scene())
    limiter.close()


def test_a_database_query_is_stopped_with_its_request() -> None:
    """It once went on to the time limit of the request."""
    limiter = WorkLimiter(ServerLimits(seconds=3_000))

    async def scene() -> None:
        engine = get_engine(demo())
        task = asyncio.create_task(
            limiter.run(lambda deadline: count(engine, str(ENDLESS["query"]), budget=deadline.limit_budget()))
        )
        await settled(lambda: engine.database.running > 0)
        task.cancel()
        await settled(lambda: limiter.running == 0)

    asyncio.run(scene())
    limiter.close()


def test_closing_stops_running_work() -> None:
    limiter, never = WorkLimiter(ServerLimits(seconds=PATIENCE)), threading.Event()

    async def scene() -> None:
        task = asyncio.create_task(limiter.run(held(never)))
        await settled(lambda: limiter.running == 1)
        limiter.close()
        with pytest.raises(StoppedError):
            await task

    asyncio.run(scene())


def test_turns_are_first_come_first_served() -> None:
    slots, order = CpuSlots(1), list[int]()

    def one(number: int) -> None:
        slots.acquire()
        order.append(number)
        slots.release()

    assert slots.acquire()
    threads = []
    for number in range(5):
        thread = threading.Thread(target=one, args=(number,))
        thread.start()
        threads.append(thread)
        wait_until(lambda number=number: len(slots._queue) > number)  # type: ignore[misc]
    slots.release()
    for thread in threads:
        thread.join()
    assert order == [0, 1, 2, 3, 4]
    assert not slots.has_waiters


def test_a_timeout_leaves_the_queue() -> None:
    slots = CpuSlots(1)
    assert slots.acquire()
    assert not slots.acquire(0.01)
    assert not slots.has_waiters
    slots.release()
    assert slots.acquire(0.01)


def test_long_work_lets_others_go_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limiter_module, "TIME_SLICE", 0.0)
    slots, done = CpuSlots(1), list[str]()

    def long_work(begun: threading.Event) -> None:
        deadline = CpuDeadline(PATIENCE, slots)
        while "short" not in done:  # without slots for others it would go on to the deadline
            deadline.check()
            begun.set()
        deadline.release()
        done.append("long")

    def short_work() -> None:
        deadline = CpuDeadline(PATIENCE, slots)
        for _ in range(2):
            deadline.check()
        deadline.release()
        done.append("short")

    begun = threading.Event()
    threads = [threading.Thread(target=long_work, args=(begun,)), threading.Thread(target=short_work)]
    threads[0].start()
    begun.wait()
    threads[1].start()
    for thread in threads:
        thread.join()
    assert done == ["short", "long"]


def test_a_turn_that_does_not_come_in_time_stops_the_work() -> None:
    slots: Any = CpuSlots(1)
    slots.acquire()
    deadline = CpuDeadline(0.05, slots)
    with pytest.raises(StoppedError):
        deadline.check()
    deadline.release()
    assert slots._free == 0, "no slot is released twice"


def test_a_turn_ends_while_the_database_works() -> None:
    slots = CpuSlots(1)
    deadline = CpuDeadline(60, slots)
    deadline.check()
    assert not slots.acquire(0.01)
    seconds = deadline.limit_budget().seconds
    assert seconds is not None
    assert 0 < seconds <= 60
    assert slots.acquire(0.01)


def test_a_request_that_would_wait_in_vain_is_refused_at_once() -> None:
    limiter, release = WorkLimiter(ServerLimits(max_concurrency=1, max_queued=50, seconds=PATIENCE)), threading.Event()

    async def scene() -> None:
        first = asyncio.create_task(limiter.run(held(release)))
        await settled(lambda: limiter.running == 1)
        limiter._recent_cpu_seconds.extend([0.85 * PATIENCE * limiter.slots.slots] * limiter_module.HISTORY)
        second = asyncio.create_task(limiter.run(held(release)))  # 85 % of its time: it may wait
        await settled(lambda: limiter.queued == 1)
        with pytest.raises(BusyError, match="expected wait"):
            await limiter.run(held(release))
        release.set()
        assert [*await asyncio.gather(first, second)] == ["done", "done"]

    asyncio.run(scene())
    limiter.close()


def test_cpu_seconds_are_measured() -> None:
    limiter = WorkLimiter()

    def work(deadline: Deadline) -> None:
        deadline.check()
        time.sleep(0.01)

    asyncio.run(limiter.run(work))
    asyncio.run(limiter.run(lambda _: None))
    assert len(limiter._recent_cpu_seconds) == 1, "who takes no deadline tells nothing"
    assert limiter._recent_cpu_seconds[0] >= 0.01
    limiter.close()

"""Who may work when."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from gaifman.cancellation import Deadline
from gaifman.config import ServerLimits
from gaifman.errors import BusyError, StoppedError
from gaifman.queries.answers import count
from gaifman.queries.engine import get_engine
from gaifman.server import limiter as gates
from gaifman.server.limiter import CpuDeadline, CpuSlots, WorkLimiter
from http_client import ENDLESS
from processes import PATIENCE, wait_until
from trained import demo


def held(release: threading.Event) -> Callable[[Deadline], str]:
    """Work that goes on until it is released or stopped."""

    def work(deadline: Deadline) -> str:
        while not release.wait(0.005):
            Deadline.check(deadline)
        return "done"

    return work


async def settled(condition: Callable[[], bool]) -> None:
    """Wait until something is so."""
    while not condition():
        await asyncio.sleep(0.005)


def test_some_work_some_wait_and_others_are_refused() -> None:
    gate, release = WorkLimiter(ServerLimits(max_concurrency=2, max_queued=1, seconds=PATIENCE)), threading.Event()

    async def scene() -> list[str]:
        asked = [asyncio.create_task(gate.run(held(release))) for _ in range(3)]
        await settled(lambda: gate.running == 2 and gate.queued == 1)
        with pytest.raises(BusyError, match="the queue is full"):
            await gate.run(held(release))
        release.set()
        return await asyncio.gather(*asked)

    assert asyncio.run(scene()) == ["done"] * 3
    assert (gate.running, gate.queued) == (0, 0)
    gate.close()


def test_work_is_stopped_at_the_end_of_its_time() -> None:
    gate, never = WorkLimiter(ServerLimits(seconds=0.1)), threading.Event()
    with pytest.raises(StoppedError, match="stopped after"):
        asyncio.run(gate.run(held(never)))
    assert gate.running == 0
    gate.close()


def test_a_request_that_was_never_begun_is_refused() -> None:
    gate, release = WorkLimiter(ServerLimits(max_concurrency=1, seconds=0.3)), threading.Event()

    def deaf(_: Deadline) -> None:
        release.wait()

    async def scene() -> None:
        first = asyncio.create_task(gate.run(deaf))
        await settled(lambda: gate.running == 1)
        with pytest.raises(BusyError, match="not started within"):
            await gate.run(held(release))
        with pytest.raises(StoppedError, match="stopped after"):  # it never asks its deadline: the place stays taken
            await first
        assert gate.running == 1
        release.set()
        await settled(lambda: gate.running == 0)

    asyncio.run(scene())
    gate.close()


def test_an_error_of_the_work_is_that_of_the_request() -> None:
    gate = WorkLimiter()

    def work(_: Deadline) -> None:
        raise KeyError("inside")

    with pytest.raises(KeyError, match="inside"):
        asyncio.run(gate.run(work))
    gate.close()


def test_when_nobody_waits_any_more_the_work_is_stopped() -> None:
    gate, never = WorkLimiter(ServerLimits(seconds=PATIENCE)), threading.Event()

    async def scene() -> None:
        task = asyncio.create_task(gate.run(held(never)))
        await settled(lambda: gate.running == 1)
        task.cancel()
        await settled(lambda: gate.running == 0)

    asyncio.run(scene())
    gate.close()


def test_who_goes_away_while_waiting_leaves_at_once() -> None:
    """The place in the queue stayed taken until its turn came."""
    gate, never = WorkLimiter(ServerLimits(max_concurrency=1, seconds=PATIENCE)), threading.Event()

    async def scene() -> None:
        first = asyncio.create_task(gate.run(held(never)))
        await settled(lambda: gate.running == 1)
        second = asyncio.create_task(gate.run(held(never)))
        await settled(lambda: gate.queued == 1)
        second.cancel()
        await asyncio.wait([second])
        assert (gate.running, gate.queued) == (1, 0)
        never.set()
        assert await first == "done"

    asyncio.run(scene())
    gate.close()


def test_what_a_database_does_is_stopped_with_the_work() -> None:
    """It went on to the end of the request's time, and with it the work that waited for it."""
    gate = WorkLimiter(ServerLimits(seconds=3_000))

    async def scene() -> None:
        engine = get_engine(demo())
        task = asyncio.create_task(
            gate.run(lambda deadline: count(engine, str(ENDLESS["query"]), budget=deadline.limit_budget()))
        )
        await settled(lambda: engine.database.running > 0)
        task.cancel()
        await settled(lambda: gate.running == 0)

    asyncio.run(scene())
    gate.close()


def test_closing_stops_what_is_worked_on() -> None:
    gate, never = WorkLimiter(ServerLimits(seconds=PATIENCE)), threading.Event()

    async def scene() -> None:
        task = asyncio.create_task(gate.run(held(never)))
        await settled(lambda: gate.running == 1)
        gate.close()
        with pytest.raises(StoppedError):
            await task

    asyncio.run(scene())


def test_turns_are_given_in_the_order_in_which_they_are_asked_for() -> None:
    turns, order = CpuSlots(1), list[int]()

    def one(number: int) -> None:
        turns.acquire()
        order.append(number)
        turns.release()

    assert turns.acquire()
    threads = []
    for number in range(5):
        thread = threading.Thread(target=one, args=(number,))
        thread.start()
        threads.append(thread)
        wait_until(lambda number=number: len(turns._queue) > number)  # type: ignore[misc]
    turns.release()
    for thread in threads:
        thread.join()
    assert order == [0, 1, 2, 3, 4]
    assert not turns.has_waiters


def test_who_waits_in_vain_leaves_the_queue() -> None:
    turns = CpuSlots(1)
    assert turns.acquire()
    assert not turns.acquire(0.01)
    assert not turns.has_waiters
    turns.release()
    assert turns.acquire(0.01)


def test_long_work_lets_others_go_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gates, "TIME_SLICE", 0.0)
    turns, done = CpuSlots(1), list[str]()

    def long_work(begun: threading.Event) -> None:
        turn = CpuDeadline(PATIENCE, turns)
        while "short" not in done:  # without turns for others it would go on to the deadline
            turn.check()
            begun.set()
        turn.release()
        done.append("long")

    def short_work() -> None:
        turn = CpuDeadline(PATIENCE, turns)
        for _ in range(2):
            turn.check()
        turn.release()
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
    turns: Any = CpuSlots(1)
    turns.acquire()
    turn = CpuDeadline(0.05, turns)
    with pytest.raises(StoppedError):
        turn.check()
    turn.release()
    assert turns._free == 0, "what was not taken is not given back"


def test_while_a_database_works_the_place_is_for_others() -> None:
    turns = CpuSlots(1)
    turn = CpuDeadline(60, turns)
    turn.check()
    assert not turns.acquire(0.01)
    seconds = turn.limit_budget().seconds
    assert seconds is not None
    assert 0 < seconds <= 60
    assert turns.acquire(0.01)


def test_who_would_wait_in_vain_is_told_at_once() -> None:
    gate, release = WorkLimiter(ServerLimits(max_concurrency=1, max_queued=50, seconds=PATIENCE)), threading.Event()

    async def scene() -> None:
        first = asyncio.create_task(gate.run(held(release)))
        await settled(lambda: gate.running == 1)
        gate._recent_cpu_seconds.extend([0.85 * PATIENCE * gate.slots.slots] * gates.HISTORY)
        second = asyncio.create_task(gate.run(held(release)))  # 85 % of its time: it may wait
        await settled(lambda: gate.queued == 1)
        with pytest.raises(BusyError, match="expected wait"):
            await gate.run(held(release))
        release.set()
        assert [*await asyncio.gather(first, second)] == ["done", "done"]

    asyncio.run(scene())
    gate.close()


def test_the_time_at_the_processors_is_measured() -> None:
    gate = WorkLimiter()

    def work(deadline: Deadline) -> None:
        deadline.check()
        time.sleep(0.01)

    asyncio.run(gate.run(work))
    asyncio.run(gate.run(lambda _: None))
    assert len(gate._recent_cpu_seconds) == 1, "who takes no turn tells nothing"
    assert gate._recent_cpu_seconds[0] >= 0.01
    gate.close()

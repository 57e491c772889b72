"""Who may work when: some at once, some more wait, the others are told to come later.

>>> import asyncio
>>> gate = WorkLimiter(ServerLimits(max_concurrency=2, max_queued=1))
>>> asyncio.run(gate.run(lambda deadline: 6 * 7))
42
>>> gate.close()

Waiting, like work, ends with the request's time. What computes in this process takes turns: the processors are busy
with few things at a time, which is quicker for all of them, and one that takes long lets others go before it.
"""

from __future__ import annotations

import asyncio
import statistics
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from gaifman.cancellation import Deadline
from gaifman.config import DEFAULT_BUDGET, DEFAULT_SERVER_LIMITS, Budget, ServerLimits, cpu_count
from gaifman.errors import BusyError, StoppedError

T = TypeVar("T")
TIME_SLICE = 0.25
"""Seconds of a turn before others may go first: most rankings end within it."""
GRACE = 1.0
"""Seconds that work has to notice its end before the request is answered without it."""
HISTORY = 10
"""Requests by which the time of the next is guessed."""
MAX_WAIT_FRACTION = 0.9
"""Share of a request's time that it may have to wait, by that guess."""


class CpuSlots:
    """Places at the processors, one for each, given in the order in which they are asked for."""

    def __init__(self, slots: int | None = None) -> None:
        self.slots = slots or cpu_count()
        self._free = self.slots
        self._queue: deque[threading.Event] = deque()
        self._lock = threading.Lock()

    def acquire(self, timeout: float | None = None) -> bool:
        """Wait for a place; False where none came in time."""
        with self._lock:
            if self._free and not self._queue:
                self._free -= 1
                return True
            called = threading.Event()
            self._queue.append(called)
        if called.wait(timeout):
            return True
        with self._lock:
            if called.is_set():  # the call came in between
                return True
            self._queue.remove(called)
            return False

    def release(self) -> None:
        """Leave a place to whoever is next."""
        with self._lock:
            if self._queue:
                self._queue.popleft().set()
            else:
                self._free += 1

    @property
    def has_waiters(self) -> bool:
        """Whether somebody waits."""
        return bool(self._queue)


class CpuDeadline(Deadline):
    """The deadline of one request: whoever asks it between parts of work has a place at the processors from then on."""

    def __init__(self, seconds: float | None, slots: CpuSlots) -> None:
        super().__init__(seconds)
        self._slots, self._since = slots, 0.0
        self.cpu_seconds = 0.0
        """Seconds at the processors."""

    def check(self) -> None:
        """Raise where the work has to stop; else wait for the next turn, where this one has lasted long."""
        super().check()
        if self._since and (not self._slots.has_waiters or time.monotonic() - self._since < TIME_SLICE):
            return
        self.release()
        if self._slots.acquire(self.remaining):
            self._since = time.monotonic()
        super().check()

    def limit_budget(self, budget: Budget = DEFAULT_BUDGET) -> Budget:
        """The time that is left; the place is for others while a database works."""
        self.release()
        return super().limit_budget(budget)

    def release(self) -> None:
        """Leave the place."""
        if self._since:
            self.cpu_seconds += time.monotonic() - self._since
            self._since = 0.0
            self._slots.release()


class WorkLimiter:
    """Lets so many work at once and so many wait."""

    def __init__(self, limits: ServerLimits = DEFAULT_SERVER_LIMITS) -> None:
        self.limits, self.slots = limits, CpuSlots()
        self._pool = ThreadPoolExecutor(limits.max_concurrency, thread_name_prefix="gaifman-work")
        self._lock = threading.Lock()
        self._admitted: set[CpuDeadline] = set()
        self._recent_cpu_seconds: deque[float] = deque(maxlen=HISTORY)
        self.running = 0
        """Requests that are worked on."""

    @property
    def queued(self) -> int:
        """Requests that wait."""
        return max(0, len(self._admitted) - self.running)

    async def run(self, work: Callable[[Deadline], T]) -> T:
        """What the work makes, on a thread of its own; it is to ask the deadline between its parts."""
        turn = CpuDeadline(self.limits.seconds, self.slots)
        with self._lock:
            if len(self._admitted) >= self.limits.max_concurrency + self.limits.max_queued:
                raise BusyError(
                    f"{self.limits.max_concurrency} requests are worked on and {self.limits.max_queued} wait",
                    hint="ask again in a moment",
                )
            if self._expected_wait() > MAX_WAIT_FRACTION * self.limits.seconds:
                raise BusyError("those who wait already take all the time of a request", hint="ask again in a moment")
            self._admitted.add(turn)
        future = self._pool.submit(self._run_work, work, turn)
        future.add_done_callback(lambda _: self._remove(turn))
        return await self._await_result(future, turn)

    def _expected_wait(self) -> float:
        """Seconds until those inside are done, by what others took lately; 0 where not enough is known.

        Who would wait in vain is better told at once: else all wait until their time is nearly over, and few answers
        are still of use.
        """
        if len(self._recent_cpu_seconds) < HISTORY:
            return 0.0
        return len(self._admitted) * statistics.median(self._recent_cpu_seconds) / self.slots.slots

    async def _await_result(self, future: Future[T], deadline: CpuDeadline) -> T:
        own = asyncio.wrap_future(future)
        own.add_done_callback(lambda done: done.cancelled() or done.exception())  # also where nobody waits any more
        try:
            await asyncio.wait([own], timeout=self.limits.seconds)
            if not own.done() and future.cancel():
                raise BusyError(
                    f"the request has waited for {self.limits.seconds:g} seconds, and was not begun",
                    hint="ask again in a moment",
                )
            await asyncio.wait([own], timeout=GRACE)
        finally:
            deadline.cancel()  # also when nobody waits for it any more
            future.cancel()  # where it was never begun its place is free at once
        if not own.done():
            raise StoppedError(
                f"the request was given up after {self.limits.seconds:g} seconds; its work is told to stop",
                hint="ask for less, give some variables, or allow more time",
            )
        return own.result()

    def _run_work(self, work: Callable[[Deadline], T], deadline: CpuDeadline) -> T:
        with self._lock:
            self.running += 1
        try:
            Deadline.check(deadline)  # without a place: not all work computes here
            with deadline.activate():
                return work(deadline)
        finally:
            deadline.release()
            with self._lock:
                self.running -= 1
                if deadline.cpu_seconds:
                    self._recent_cpu_seconds.append(deadline.cpu_seconds)

    def _remove(self, deadline: CpuDeadline) -> None:
        with self._lock:
            self._admitted.discard(deadline)

    def close(self) -> None:
        """Stop what is worked on and let nobody in."""
        with self._lock:
            inside = list(self._admitted)
        for turn in inside:
            turn.cancel()
        self._pool.shutdown(wait=False, cancel_futures=True)

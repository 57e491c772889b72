"""Limits of a server, and of concurrent work: some requests run, some wait, the others are refused.

>>> import asyncio
>>> limiter = WorkLimiter(ServerLimits(max_concurrency=2, max_queued=1))
>>> asyncio.run(limiter.run(lambda deadline: 6 * 7))
42

The time limit of a request includes its waiting. Work that computes in this process takes turns at the processors: few
computations at a time are faster for all, and a long one lets others go first.
"""

from __future__ import annotations

import asyncio
import math
import statistics
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from anyio import CancelScope, CapacityLimiter, to_thread

from gaifman.config import DEFAULT_BUDGET, Budget, Deadline, check_int, check_positive, cpu_count
from gaifman.errors import BusyError, StoppedError
from gaifman.queries.engine import MIN_MEMORY_MB


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """Limits of a server, per request and in total.

    >>> ServerLimits(seconds=2.5).seconds
    2.5
    """

    seconds: float = 10.0
    """Time limit of a request, including the time in the queue."""
    write_seconds: float = 10.0
    """Time in which a client must take some of its waiting output: 1,000 bytes per second. Others are disconnected."""
    max_rows: int = 1_000
    """Rows of a page, answers of a ranking and members of a neighbourhood."""
    max_body_bytes: int = 2_000_000
    """Size of a request's body."""
    max_concurrency: int = 16
    """Requests of one kind that run at the same time; additions run one by one."""
    max_queued: int = 64
    """Requests of one kind in the queue; further ones are refused."""
    max_open_requests: int = 512
    """Open requests of all kinds, including those still being received; further ones are refused."""
    max_query_memory_mb: int = 1_024
    """Memory of all queries to the database together, besides its tables; beyond it the disk is used. At least 64."""
    max_query_disk_mb: int = 4_096
    """Disk of all queries together; a query that needs more is stopped."""
    max_draws: int = 100
    """Neighbourhoods per tuple, for an average or to show."""
    max_members: int = 10_000
    """Members of all neighbourhoods of one request, and facts inside them."""
    max_candidates: int = 100_000
    """Candidates of a query with several variables."""
    max_radius: int = 3
    """Radius of a neighbourhood."""
    max_new_facts: int = 1_000
    """Facts that one request may add."""
    max_name_length: int = 1_000
    """Characters of a name that is added or searched."""

    def __post_init__(self) -> None:
        times = ("seconds", "write_seconds")
        for name in times:
            check_positive(f"ServerLimits.{name}", getattr(self, name), SERVER_MAXIMA[name])
        for name in (one for one in self.__slots__ if one not in times):
            minimum = MIN_MEMORY_MB if name == "max_query_memory_mb" else 1
            check_int(f"ServerLimits.{name}", getattr(self, name), minimum, SERVER_MAXIMA[name])


SERVER_MAXIMA = {
    "seconds": 86_400,
    "write_seconds": 86_400,
    "max_rows": 1_000_000,
    "max_body_bytes": 1_000_000_000,
    "max_concurrency": 1_000,
    "max_queued": 100_000,
    "max_open_requests": 100_000,
    "max_query_memory_mb": 100_000_000,
    "max_query_disk_mb": 100_000_000,
    "max_draws": 10_000,
    "max_members": 10_000_000,
    "max_candidates": 1_000_000_000,
    "max_radius": 100,
    "max_new_facts": 1_000_000,
    "max_name_length": 1_000_000,
}
"""Largest value of each setting of `ServerLimits`."""

DEFAULT_SERVER_LIMITS = ServerLimits()


T = TypeVar("T")
TIME_SLICE = 0.25
"""Seconds of a turn before others may go first; most rankings take less."""
GRACE = 1.0
"""Seconds for work to notice its deadline before the request is answered without it."""
HISTORY = 10
"""Requests from which the time of the next is estimated."""
MAX_WAIT_FRACTION = 0.9
"""Share of its time limit that a request may be expected to wait."""
RETRY_HINT = "try again in a moment"


class CpuSlots:
    """Turns at the processors, one for each, in the order of the requests.

    A `threading.Semaphore` would not do: a thread that releases it and acquires it again overtakes all that wait.
    """

    def __init__(self, slots: int | None = None) -> None:
        self.slots = slots or cpu_count()
        self._free = self.slots
        self._queue: deque[threading.Event] = deque()
        self._lock = threading.Lock()

    def acquire(self, timeout: float | None = None) -> bool:
        """Wait for a turn; return False after the timeout."""
        with self._lock:
            if self._free and not self._queue:
                self._free -= 1
                return True
            turn = threading.Event()
            self._queue.append(turn)
        if turn.wait(timeout):
            return True
        with self._lock:
            if turn.is_set():  # it came in between
                return True
            self._queue.remove(turn)
            return False

    def release(self) -> None:
        """Give the turn to the next in the queue."""
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
    """The deadline of one request. Work that checks it has a turn at the processors from then on."""

    def __init__(self, seconds: float | None, slots: CpuSlots) -> None:
        super().__init__(seconds)
        self._slots, self._since = slots, 0.0
        self.cpu_seconds = 0.0
        """Seconds of its turns."""

    def check(self) -> None:
        """Raise an error if the work has to stop; after a long turn, wait for the next one."""
        super().check()
        if self._since and (not self._slots.has_waiters or time.monotonic() - self._since < TIME_SLICE):
            return
        self.release()
        if self._slots.acquire(self.remaining):
            self._since = time.monotonic()
        super().check()

    def limit_budget(self, budget: Budget = DEFAULT_BUDGET) -> Budget:
        """Return a budget with the remaining time for the database, and end the turn while it works."""
        self.release()
        return super().limit_budget(budget)

    def release(self) -> None:
        """End the turn."""
        if self._since:
            self.cpu_seconds += time.monotonic() - self._since
            self._since = 0.0
            self._slots.release()


class WorkLimiter:
    """Runs work in threads: `max_concurrency` at a time, `max_queued` waiting."""

    def __init__(self, limits: ServerLimits = DEFAULT_SERVER_LIMITS) -> None:
        self.limits, self.slots = limits, CpuSlots()
        self._capacity, self._threads = CapacityLimiter(limits.max_concurrency), CapacityLimiter(math.inf)
        self._deadlines: set[CpuDeadline] = set()
        """Of the requests that run or wait."""
        self._recent_cpu_seconds: deque[float] = deque(maxlen=HISTORY)

    @property
    def running(self) -> int:
        """Number of requests that run."""
        return int(self._capacity.borrowed_tokens)

    @property
    def queued(self) -> int:
        """Number of requests that wait."""
        return self._capacity.statistics().tasks_waiting

    async def run(self, work: Callable[[Deadline], T]) -> T:
        """Run `work` in a thread and return its result. It must check its deadline between its parts."""
        self._check_overload()
        deadline, scope, started = CpuDeadline(self.limits.seconds, self.slots), CancelScope(), asyncio.Event()
        self._deadlines.add(deadline)
        task = asyncio.create_task(self._run_in_thread(work, deadline, scope, started))
        task.add_done_callback(lambda done: done.cancelled() or done.exception())  # also if nobody awaits it
        try:
            await asyncio.wait([task], timeout=self.limits.seconds)
            if not task.done() and started.is_set():
                await asyncio.wait([task], timeout=GRACE)
        finally:
            deadline.cancel()
            scope.cancel()  # a queued request leaves the queue; a running one keeps its place until its thread ends
        if task.done():
            return task.result()
        if started.is_set():
            raise StoppedError(
                f"the request was stopped after {self.limits.seconds:g} seconds",
                hint="ask for less, bind some variables, or allow more time",
            )
        raise BusyError(f"server overloaded: not started within {self.limits.seconds:g} seconds", hint=RETRY_HINT)

    def _check_overload(self) -> None:
        if len(self._deadlines) >= self.limits.max_concurrency + self.limits.max_queued:
            raise BusyError("server overloaded: the queue is full", hint=RETRY_HINT)
        if self._expected_wait() > MAX_WAIT_FRACTION * self.limits.seconds:
            raise BusyError("server overloaded: the expected wait exceeds the time limit", hint=RETRY_HINT)

    def _expected_wait(self) -> float:
        """Return the seconds until a new request would run, from the times of recent ones; 0 without enough of them.

        A request that would wait in vain is refused at once. Otherwise all would wait until their time is nearly over.
        """
        if len(self._recent_cpu_seconds) < HISTORY:
            return 0.0
        return len(self._deadlines) * statistics.median(self._recent_cpu_seconds) / self.slots.slots

    async def _run_in_thread(
        self, work: Callable[[Deadline], T], deadline: CpuDeadline, scope: CancelScope, started: asyncio.Event
    ) -> T:
        def call() -> T:
            try:
                Deadline.check(deadline)  # without taking a turn: not all work computes here
                with deadline.activate():
                    return work(deadline)
            finally:
                deadline.release()

        try:
            with scope:
                async with self._capacity:
                    started.set()
                    return await to_thread.run_sync(call, limiter=self._threads)
            raise asyncio.CancelledError  # it left the queue
        finally:
            self._deadlines.discard(deadline)
            if deadline.cpu_seconds:
                self._recent_cpu_seconds.append(deadline.cpu_seconds)

    def close(self) -> None:
        """Stop all running work."""
        for deadline in list(self._deadlines):
            deadline.cancel()

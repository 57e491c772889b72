"""Who may work when: some at once, some more wait, the others are told to come later.

>>> import asyncio
>>> gate = Gate(Serving(at_once=2, waiting=1))
>>> asyncio.run(gate.run(lambda deadline: 6 * 7))
42
>>> gate.close()

Waiting, like work, ends with the request's time. What computes in this process takes turns: the processors are busy
with few things at a time, which is quicker for all of them, and one that takes long lets others go before it.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from gaifman.config import BUDGET, SERVING, Budget, Serving
from gaifman.deadlines import Deadline
from gaifman.errors import BusyError, StoppedError

T = TypeVar("T")
SLICE = 0.25
"""Seconds of a turn before others may go first: most rankings end within it."""
GRACE = 1.0
"""Seconds that work has to notice its end before the request is answered without it."""
LATELY = 10
"""Requests by which the time of the next is guessed."""
HOPE = 0.9
"""Share of a request's time that it may have to wait, by that guess."""


class Turns:
    """Places at the processors, one for each, given in the order in which they are asked for."""

    def __init__(self, places: int | None = None) -> None:
        self.places = places or len(os.sched_getaffinity(0))
        self._free = self.places
        self._queue: deque[threading.Event] = deque()
        self._guard = threading.Lock()

    def take(self, seconds: float | None = None) -> bool:
        """Wait for a place; False where none came in time."""
        with self._guard:
            if self._free and not self._queue:
                self._free -= 1
                return True
            called = threading.Event()
            self._queue.append(called)
        if called.wait(seconds):
            return True
        with self._guard:
            if called.is_set():  # the call came in between
                return True
            self._queue.remove(called)
            return False

    def give(self) -> None:
        """Leave a place to whoever is next."""
        with self._guard:
            if self._queue:
                self._queue.popleft().set()
            else:
                self._free += 1

    @property
    def wanted(self) -> bool:
        """Whether somebody waits."""
        return bool(self._queue)


class Turn(Deadline):
    """The deadline of one request: whoever asks it between parts of work has a place at the processors from then on."""

    def __init__(self, seconds: float | None, turns: Turns) -> None:
        super().__init__(seconds)
        self._turns, self._since = turns, 0.0
        self.used = 0.0
        """Seconds at the processors."""

    def check(self) -> None:
        """Raise where the work has to stop; else wait for the next turn, where this one has lasted long."""
        super().check()
        if self._since and (not self._turns.wanted or time.monotonic() - self._since < SLICE):
            return
        self.end()
        if self._turns.take(self.left):
            self._since = time.monotonic()
        super().check()

    def budget(self, budget: Budget = BUDGET) -> Budget:
        """The time that is left; the place is for others while a database works."""
        self.end()
        return super().budget(budget)

    def end(self) -> None:
        """Leave the place."""
        if self._since:
            self.used += time.monotonic() - self._since
            self._since = 0.0
            self._turns.give()


class Gate:
    """Lets so many work at once and so many wait."""

    def __init__(self, serving: Serving = SERVING) -> None:
        self.serving, self.turns = serving, Turns()
        self._pool = ThreadPoolExecutor(serving.at_once, thread_name_prefix="gaifman-work")
        self._guard = threading.Lock()
        self._inside: set[Turn] = set()
        self._used: deque[float] = deque(maxlen=LATELY)
        self.running = 0
        """Requests that are worked on."""

    @property
    def waiting(self) -> int:
        """Requests that wait."""
        return max(0, len(self._inside) - self.running)

    async def run(self, work: Callable[[Deadline], T]) -> T:
        """What the work makes, on a thread of its own; it is to ask the deadline between its parts."""
        turn = Turn(self.serving.seconds, self.turns)
        with self._guard:
            if len(self._inside) >= self.serving.at_once + self.serving.waiting:
                raise BusyError(
                    f"{self.serving.at_once} requests are worked on and {self.serving.waiting} wait",
                    hint="ask again in a moment",
                )
            if self._wait() > HOPE * self.serving.seconds:
                raise BusyError("those who wait already take all the time of a request", hint="ask again in a moment")
            self._inside.add(turn)
        future = self._pool.submit(self._worked, work, turn)
        future.add_done_callback(lambda _: self._left(turn))
        return await self._awaited(future, turn)

    def _wait(self) -> float:
        """Seconds until those inside are done, by what others took lately; 0 where not enough is known.

        Who would wait in vain is better told at once: else all wait until their time is nearly over, and few answers
        are still of use.
        """
        if len(self._used) < LATELY:
            return 0.0
        return len(self._inside) * statistics.median(self._used) / self.turns.places

    async def _awaited(self, future: Future[T], turn: Turn) -> T:
        own = asyncio.wrap_future(future)
        own.add_done_callback(lambda done: done.cancelled() or done.exception())  # also where nobody waits any more
        try:
            await asyncio.wait([own], timeout=self.serving.seconds)
            if not own.done() and future.cancel():
                raise BusyError(
                    f"the request has waited for {self.serving.seconds:g} seconds, and was not begun",
                    hint="ask again in a moment",
                )
            await asyncio.wait([own], timeout=GRACE)
        finally:
            turn.stop()  # also when nobody waits for it any more
            future.cancel()  # where it was never begun its place is free at once
        if not own.done():
            raise StoppedError(
                f"the request was given up after {self.serving.seconds:g} seconds; its work is told to stop",
                hint="ask for less, give some variables, or allow more time",
            )
        return own.result()

    def _worked(self, work: Callable[[Deadline], T], turn: Turn) -> T:
        with self._guard:
            self.running += 1
        try:
            Deadline.check(turn)  # without a place: not all work computes here
            with turn.within():
                return work(turn)
        finally:
            turn.end()
            with self._guard:
                self.running -= 1
                if turn.used:
                    self._used.append(turn.used)

    def _left(self, turn: Turn) -> None:
        with self._guard:
            self._inside.discard(turn)

    def close(self) -> None:
        """Stop what is worked on and let nobody in."""
        with self._guard:
            inside = list(self._inside)
        for turn in inside:
            turn.stop()
        self._pool.shutdown(wait=False, cancel_futures=True)

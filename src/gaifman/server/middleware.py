"""The limits of a server, the checks before every request, the headers of every response, error replies and metrics.

Requests for other hosts, from pages of other sites, too large, too slow or too many are refused here. An exception
behind it becomes a reply without its details. Metrics are in the text format of Prometheus:

>>> metrics = Metrics()
>>> metrics.observe_request("/api/health", 200, 0.001)
>>> print([line for line in metrics.render().decode().splitlines() if line.startswith("gaifman_requests_total")][0])
gaifman_requests_total{path="/api/health",status="200"} 1.0

Of concurrent work, some requests run, some wait, the others are refused:

>>> limiter = WorkLimiter(ServerLimits(max_concurrency=2, max_queued=1))
>>> asyncio.run(limiter.run(lambda deadline: 6 * 7))
42

The time limit of a request includes its waiting. Work that computes in this process takes turns at the processors: few
computations at a time are faster for all, and a long one lets others go first.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import statistics
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from anyio import CancelScope, CapacityLimiter, to_thread
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gaifman.config import DEFAULT_BUDGET, Budget, Deadline, check_int, check_positive, cpu_count
from gaifman.errors import BusyError, StoppedError
from gaifman.queries.engine import MIN_MEMORY_MB
from gaifman.server.schemas import ErrorDetail, ErrorResponse


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


BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds of the histogram of response times, in seconds."""


class Metrics:
    """The metrics of one server, each defined here."""

    def __init__(self) -> None:
        registry = self._registry = CollectorRegistry()
        self.requests = Counter(
            "gaifman_requests_total", "Requests, by path and status.", ["path", "status"], registry=registry
        )
        self.seconds = Histogram(
            "gaifman_request_seconds",
            "Response times, by path.",
            ["path"],
            buckets=BUCKETS,
            registry=registry,
        )
        self.overloaded = Counter("gaifman_overloaded_total", "Requests refused by overload.", registry=registry)
        self.timeouts = Counter("gaifman_timeouts_total", "Requests stopped at their time limit.", registry=registry)
        self.stalled = Counter(
            "gaifman_stalled_total", "Connections closed because the client did not read.", registry=registry
        )
        self.added_facts = Counter("gaifman_added_facts_total", "Facts added.", registry=registry)
        self.open_requests = Gauge("gaifman_open_requests", "Open requests.", registry=registry)
        self.running_requests = Gauge("gaifman_running_requests", "Requests that run.", registry=registry)
        self.queued_requests = Gauge("gaifman_queued_requests", "Requests that wait.", registry=registry)
        self.objects = Gauge("gaifman_objects", "Objects of the knowledge base.", registry=registry)
        self.facts = Gauge("gaifman_facts", "Facts of the knowledge base.", registry=registry)
        ProcessCollector(registry=registry)

    def observe_request(self, path: str, status: int, seconds: float) -> None:
        """Count a request. `path` must be one of few: each makes time series of its own."""
        self.requests.labels(path, str(status)).inc()
        self.seconds.labels(path).observe(seconds)

    def names(self) -> list[str]:
        """Return the names of gaifman's metrics."""
        families = [family for family in self._registry.collect() if family.name.startswith("gaifman_")]
        return [f"{family.name}_total" if family.type == "counter" else family.name for family in families]

    def render(self) -> bytes:
        """Return all metrics as text."""
        return generate_latest(self._registry)


def encode_json(body: object) -> bytes:
    """Return JSON in UTF-8; lone surrogates, which UTF-8 cannot hold, are escaped."""
    return json.dumps(body, ensure_ascii=False, allow_nan=False).encode(errors="backslashreplace")


def error_response(status: int, error: ErrorDetail, headers: Mapping[str, str] | None = None) -> Response:
    """Return the reply of an error."""
    body = encode_json(ErrorResponse(error=error).model_dump())
    return Response(body, status, headers, media_type="application/json")


LOOPBACK_HOSTS = ("127.0.0.1", "localhost", "[::1]")
"""Hosts that are always accepted."""
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
SECURITY_HEADERS = {
    "content-security-policy": CONTENT_SECURITY_POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
"""Headers of every response, unless the application sets them."""
DRAIN_FACTOR = 8
"""How much of an oversized body is read and dropped, as a multiple of the allowed size."""
DRAIN_SECONDS = 1.0
MAX_HEAD_BYTES = 65_536
"""Bytes of a request line and headers."""
UNLIMITED_PATHS = ("/api/health", "/metrics")
"""Paths that are answered at any load."""


class Rejection(Exception):
    """A request that is refused before the application sees it."""

    def __init__(self, status: int, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.hint = status, message, hint


class GuardMiddleware:
    """Checks requests, reads their bodies, and stops the work of clients that disconnect."""

    def __init__(
        self,
        app: ASGIApp,
        paths: Collection[str],
        allowed_hosts: Iterable[str],
        limits: ServerLimits = DEFAULT_SERVER_LIMITS,
        metrics: Metrics | None = None,
    ) -> None:
        """`paths` are counted by name in the metrics, all others together."""
        self._app, self._paths, self._limits = app, frozenset(paths), limits
        self._hosts = {host.lower() for host in (*LOOPBACK_HOSTS, *allowed_hosts)}
        self._metrics = metrics or Metrics()
        self.open_requests = 0
        self._metrics.open_requests.set_function(lambda: self.open_requests)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; WebSockets are refused."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            self.open_requests += 1
            try:
                await self._handle(scope, receive, send)
            finally:
                self.open_requests -= 1
        else:
            await send({"type": "websocket.close", "code": 1008})

    async def _handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        start, reply = time.perf_counter(), _Reply(scope, receive, send)
        try:
            self._check_head(scope)
            body = await self._read_body(scope, receive)
            await self._run_app(scope, body, receive, reply)
        except Rejection as rejection:
            if rejection.status == 413:
                await self._drain(receive)
            await reply.reject(rejection)
        except asyncio.CancelledError:  # the server stops, and its grace period is over
            await reply.reject(Rejection(503, "the server is stopping", "try again when it runs"))
        except Exception:
            logging.getLogger(__name__).exception("a request failed")
            await reply.reject(Rejection(500, "internal server error", "the server's log has details"))
        finally:
            path = scope["path"] if scope["path"] in self._paths else "other"
            self._metrics.observe_request(path, reply.status or 499, time.perf_counter() - start)

    async def _run_app(self, scope: Scope, body: bytes, receive: Receive, reply: _Reply) -> None:
        """Run the application; cancel it if the client disconnects before it answers."""
        if scope.get("method") == "HEAD":
            scope = {**scope, "method": "GET"}
        gone = asyncio.create_task(_wait_for_disconnect(receive))
        work = asyncio.ensure_future(self._app(scope, _replay_body(body, gone), reply.send))
        try:
            await asyncio.wait((gone, work), return_when=asyncio.FIRST_COMPLETED)
            if work.done() or reply.status is not None:  # the end of a response is a disconnect too
                await work
            else:
                gone.result()
                work.cancel()
                await asyncio.wait([work])
        finally:
            gone.cancel()
            work.cancel()

    def _check_head(self, scope: Scope) -> None:
        headers = Headers(scope=scope)
        if _head_size(scope) > MAX_HEAD_BYTES:
            raise Rejection(431, f"the headers exceed {MAX_HEAD_BYTES:,} bytes", "send long texts in a body")
        hosts = headers.getlist("host")
        if len(hosts) != 1 or _host_name(hosts[0]) not in self._hosts:
            raise Rejection(421, "this server does not serve that host", "allow it with --allow-host")
        if "cross-site" in headers.getlist("sec-fetch-site") and scope["path"] != "/":
            raise Rejection(403, "requests from other sites are refused", "open the server's own page")
        if self.open_requests > self._limits.max_open_requests and scope["path"] not in UNLIMITED_PATHS:
            self._metrics.overloaded.inc()
            message = f"server overloaded: {self._limits.max_open_requests:,} requests are open"
            raise Rejection(503, message, RETRY_HINT)
        for length in headers.getlist("content-length"):
            if not length.isdecimal() or int(length) > self._limits.max_body_bytes:
                raise self._too_large()

    def _too_large(self) -> Rejection:
        return Rejection(413, f"the body exceeds {self._limits.max_body_bytes:,} bytes", "send less at a time")

    async def _read_body(self, scope: Scope, receive: Receive) -> bytes:
        """Return the whole body: the application, and its threads, never wait for a slow client."""
        headers = Headers(scope=scope)
        if "content-length" not in headers and "transfer-encoding" not in headers:
            return b""
        body = bytearray()
        try:
            async with asyncio.timeout(self._limits.seconds):
                while True:
                    message = await receive()
                    if message["type"] != "http.request":
                        raise Rejection(400, "the request is incomplete")
                    body += message.get("body", b"")
                    if len(body) > self._limits.max_body_bytes:
                        raise self._too_large()
                    if not message.get("more_body"):
                        return bytes(body)
        except TimeoutError:
            raise Rejection(408, f"the body did not arrive within {self._limits.seconds:g} seconds") from None

    async def _drain(self, receive: Receive) -> None:
        """Drop the rest of a body for a while: a client that is cut off while it sends never reads the reply."""
        left = DRAIN_FACTOR * self._limits.max_body_bytes
        try:
            async with asyncio.timeout(min(self._limits.seconds, DRAIN_SECONDS)):
                while left > 0:
                    message = await receive()
                    left -= len(message.get("body", b""))
                    if message["type"] != "http.request" or not message.get("more_body"):
                        return
        except TimeoutError:
            return


class _Reply:
    """Sends one response with the security headers, and keeps its status."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._scope, self._receive, self._send = scope, receive, send
        self.status: int | None = None

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = MutableHeaders(raw=list(message.get("headers", [])))
            for name, value in SECURITY_HEADERS.items():
                headers.setdefault(name, value)
            message = {**message, "headers": headers.raw}
        elif self._scope.get("method") == "HEAD":
            message = {**message, "body": b""}
        await self._send(message)

    async def reject(self, rejection: Rejection) -> None:
        """Send an error, unless a response has begun."""
        if self.status is not None:
            return
        headers = {"retry-after": "1"} if rejection.status == 503 else {}
        if rejection.status in (408, 413, 431):  # the rest of the request is not read
            headers["connection"] = "close"
        response = error_response(
            rejection.status, ErrorDetail(message=rejection.message, hint=rejection.hint), headers
        )
        await response(self._scope, self._receive, self.send)


def _head_size(scope: Scope) -> int:
    """Return the bytes of the request line and headers, as they are usually sent."""
    line = len(scope.get("raw_path") or scope["path"]) + len(scope.get("query_string", b""))
    return line + sum(len(name) + len(value) + len(b": \r\n") for name, value in scope["headers"])


def _host_name(host: str) -> str:
    """Return a host without its port.

    >>> _host_name("LocalHost:8000"), _host_name("[::1]:80"), _host_name("[::1]")
    ('localhost', '[::1]', '[::1]')
    """
    name, _, port = host.strip().rpartition(":")
    return (name if name and port.isdecimal() else host.strip()).lower()


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _replay_body(body: bytes, gone: asyncio.Future[None]) -> Receive:
    """Return a `receive` that gives the body as one message, and then waits for the disconnect."""
    sent = False

    async def replay() -> Message:
        nonlocal sent
        if sent:
            await asyncio.wait([gone])
            return {"type": "http.disconnect"}
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay

"""The checks before every request, the headers of every response, error replies and metrics.

Requests for other hosts, from pages of other sites, too large, too slow or too many are refused here. An exception
behind it becomes a reply without its details. Metrics are in the text format of Prometheus:

>>> metrics = Metrics()
>>> metrics.observe_request("/api/health", 200, 0.001)
>>> print([line for line in metrics.render().decode().splitlines() if line.startswith("gaifman_requests_total")][0])
gaifman_requests_total{path="/api/health",status="200"} 1.0
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Collection, Iterable, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gaifman.server.limits import DEFAULT_SERVER_LIMITS, ServerLimits
from gaifman.server.schemas import ErrorDetail, ErrorResponse

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
RETRY_HINT = "try again in a moment"


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

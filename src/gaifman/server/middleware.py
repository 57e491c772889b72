"""What every request passes before it is looked at, and what every answer carries.

Requests for hosts that are not ours, from pages of other sites, too large, too slow or too many are refused here, with
the one body of errors; whatever goes wrong behind is an error without its inside.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, MutableMapping
from typing import Any

from gaifman.config import DEFAULT_SERVER_LIMITS, ServerLimits
from gaifman.server.metrics import Metrics
from gaifman.server.schemas import encode_json, http_error_body

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
Rejection = tuple[int, str, str]
"""Status, message and hint."""

LOOPBACK_HOSTS = ("127.0.0.1", "localhost", "[::1]")
"""Hosts that are always ours."""
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
"""On every answer."""
DRAIN_FACTOR = 8
"""Of a body that is too large, so many times what is allowed is read and thrown away."""
MAX_HEAD_BYTES = 65_536
"""Bytes of a request before its body."""
UNLIMITED_PATHS = ("/api/health", "/metrics")
"""Paths that are answered however busy the server is."""


class GuardMiddleware:
    """Stands before an application."""

    def __init__(
        self,
        app: App,
        paths: Collection[str],
        allowed_hosts: Iterable[str],
        limits: ServerLimits = DEFAULT_SERVER_LIMITS,
        metrics: Metrics | None = None,
    ) -> None:
        """`paths` are those that are counted by name; `hosts` the names of this server besides the loopback's."""
        self._app, self._paths, self._limits = app, frozenset(paths), limits
        self._hosts = {host.lower() for host in (*LOOPBACK_HOSTS, *allowed_hosts)}
        self._metrics = metrics or Metrics()
        self.open_requests = 0
        """Requests that are there."""
        self._metrics.add_gauge("gaifman_open_requests", lambda: self.open_requests)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            self.open_requests += 1
            try:
                await self._http(scope, receive, send)
            finally:
                self.open_requests -= 1
        else:
            await send({"type": "websocket.close", "code": 1008})

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        begin, answer = time.perf_counter(), _ResponseSender(send, bodiless=scope.get("method") == "HEAD")
        try:
            refused, body = self._check_head(scope), b""
            if refused is None:
                refused, body = await self._read_body(scope, receive)
            if refused is None:
                await self._run_app(scope, body, receive, answer)
            else:
                if refused[0] == 413:
                    await self._drain(receive)
                await answer.reject(*refused)
        except asyncio.CancelledError:  # the server ends, and has waited for long enough
            if answer.status is None:
                await answer.reject(503, "the server ends", "ask again when it runs again")
        except Exception:
            logging.getLogger(__name__).exception("a request failed")  # for whoever runs the server
            if answer.status is None:
                await answer.reject(500, "something went wrong here", "the server's own output says more")
        finally:
            path = scope["path"] if scope["path"] in self._paths else "other"
            self._metrics.observe_request(path, answer.status or 499, time.perf_counter() - begin)

    async def _run_app(self, scope: Scope, body: bytes, receive: Receive, response: _ResponseSender) -> None:
        """Let the application answer; where the client goes away before it does, its work is stopped."""
        asked = {**scope, "method": "GET"} if scope.get("method") == "HEAD" else scope  # whatever can be got has a head
        gone = asyncio.create_task(_wait_for_disconnect(receive))
        work = asyncio.ensure_future(self._app(asked, _replay_body(body, gone), response.send))
        try:
            await asyncio.wait((gone, work), return_when=asyncio.FIRST_COMPLETED)
            if work.done() or response.status is not None:  # also the end of an answer ends the waiting for a client
                await work
            else:
                gone.result()
                work.cancel()
                await asyncio.wait([work])
        finally:
            gone.cancel()
            work.cancel()

    def _check_head(self, scope: Scope) -> Rejection | None:
        """Why a request is not even read."""
        if _head_size(scope) > MAX_HEAD_BYTES:
            return 431, f"a request has at most {MAX_HEAD_BYTES:,} bytes before its body", "send what is long in a body"
        hosts = _header_values(scope, b"host")
        if len(hosts) != 1 or _host_name(hosts[0]) not in self._hosts:
            return 421, "this server does not answer for that host", "name it with --allow-host if it should"
        if (
            b"cross-site" in (site.encode() for site in _header_values(scope, b"sec-fetch-site"))
            and scope["path"] != "/"
        ):
            return 403, "pages of other sites may not ask this server", "open its own page"
        if self.open_requests > self._limits.max_open_requests and scope["path"] not in UNLIMITED_PATHS:
            self._metrics.refused.inc()
            return 503, f"{self._limits.max_open_requests:,} requests are open", "ask again in a moment"
        length = _header_values(scope, b"content-length")
        if any(not each.isdecimal() or int(each) > self._limits.max_body_bytes for each in length):
            return self._too_large()
        return None

    def _too_large(self) -> Rejection:
        return 413, f"the body of a request has at most {self._limits.max_body_bytes:,} bytes", "ask for less at once"

    async def _read_body(self, scope: Scope, receive: Receive) -> tuple[Rejection | None, bytes]:
        """The whole body, or why not: whoever sends it slowly keeps nobody waiting."""
        if not _header_values(scope, b"content-length") and not _header_values(scope, b"transfer-encoding"):
            return None, b""
        parts, size = [], 0
        try:
            async with asyncio.timeout(self._limits.seconds):
                while True:
                    message = await receive()
                    if message["type"] != "http.request":
                        return (400, "the request ended too early", ""), b""
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    if size > self._limits.max_body_bytes:
                        return self._too_large(), b""
                    if not message.get("more_body"):
                        return None, b"".join(parts)
        except TimeoutError:
            return (408, f"the request was not there after {self._limits.seconds:g} seconds", ""), b""

    async def _drain(self, receive: Receive) -> None:
        """Throw away what still comes, for a while: who is cut off while sending never reads why."""
        left = DRAIN_FACTOR * self._limits.max_body_bytes
        try:
            async with asyncio.timeout(min(self._limits.seconds, 1.0)):
                while left > 0:
                    message = await receive()
                    left -= len(message.get("body", b""))
                    if message["type"] != "http.request" or not message.get("more_body"):
                        return
        except TimeoutError:
            return


class _ResponseSender:
    """Sends an answer with all that it has to carry, and remembers its status."""

    def __init__(self, send: Send, *, bodiless: bool = False) -> None:
        self._send, self._bodiless = send, bodiless
        self.status: int | None = None

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            given = list(message.get("headers", []))
            known = {name.lower() for name, _ in given}
            more = [
                (name.encode(), text.encode()) for name, text in SECURITY_HEADERS.items() if name.encode() not in known
            ]
            message = {**message, "headers": [*given, *more]}
        elif self._bodiless:
            message = {**message, "body": b""}
        await self._send(message)

    async def reject(self, status: int, message: str, hint: str) -> None:
        body = encode_json(http_error_body(message, hint=hint or None))
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        headers += [(b"retry-after", b"1")] if status == 503 else []
        headers += [(b"connection", b"close")] if status in (408, 413, 431) else []  # what still comes is not read
        await self.send({"type": "http.response.start", "status": status, "headers": headers})
        await self.send({"type": "http.response.body", "body": body})


def _header_values(scope: Scope, name: bytes) -> list[str]:
    return [value.decode("latin-1").strip() for key, value in scope["headers"] if key.lower() == name]


def _head_size(scope: Scope) -> int:
    """Bytes of a request's first line and headers, as they are usually sent."""
    line = len(scope.get("raw_path") or scope["path"]) + len(scope.get("query_string", b""))
    return line + sum(len(name) + len(value) + len(b": \r\n") for name, value in scope["headers"])


def _host_name(host: str) -> str:
    """The host without its port.

    >>> _host_name("LocalHost:8000"), _host_name("[::1]:80"), _host_name("[::1]")
    ('localhost', '[::1]', '[::1]')
    """
    name, _, port = host.rpartition(":")
    return (name if name and port.isdecimal() else host).lower()


async def _wait_for_disconnect(receive: Receive) -> None:
    """Ends when the client goes away; of the request itself nothing is left to come."""
    while (await receive())["type"] != "http.disconnect":
        pass


def _replay_body(body: bytes, gone: asyncio.Future[None]) -> Receive:
    """The body as one message; then, when it is so, that the client has gone."""
    sent = False

    async def replay() -> Message:
        nonlocal sent
        if sent:
            await asyncio.wait([gone])
            return {"type": "http.disconnect"}
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay

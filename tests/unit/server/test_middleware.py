"""What every request passes, and what every answer carries."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest

from gaifman.config import ServerLimits
from gaifman.server.metrics import Metrics
from gaifman.server.middleware import MAX_HEAD_BYTES, SECURITY_HEADERS, GuardMiddleware

HOST = (b"host", b"localhost:8000")
SMALL = ServerLimits(max_body_bytes=10, seconds=0.1, max_open_requests=1)


async def echo(scope: Any, receive: Any, send: Any) -> None:
    """An application that says what it was sent."""
    if scope["path"] == "/broken":
        raise RuntimeError("the inside")
    if scope["path"] == "/ended":
        raise asyncio.CancelledError
    body = (await receive())["body"]
    await send({"type": "http.response.start", "status": 200, "headers": [(b"cache-control", b"no-cache")]})
    await send({"type": "http.response.body", "body": body})


def asked(
    guard: GuardMiddleware,
    *headers: tuple[bytes, bytes],
    path: str = "/",
    parts: Sequence[bytes] = (b"",),
    late: bool = False,
    method: str = "POST",
) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body of one request to a guard."""
    sent, waiting = list[Any](), list(parts)

    async def receive() -> dict[str, Any]:
        if late:
            await asyncio.sleep(60)
        if not waiting:  # all has come, and the client waits for the answer
            await asyncio.Event().wait()
        return {"type": "http.request", "body": waiting.pop(0), "more_body": bool(waiting)}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": method, "path": path, "headers": list(headers)}
    asyncio.run(guard(scope, receive, send))
    found = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], found, b"".join(message["body"] for message in sent[1:])


def guard(serving: ServerLimits = SMALL, *hosts: str) -> GuardMiddleware:
    """One before the echo."""
    return GuardMiddleware(echo, ["/"], hosts, serving)


def test_every_answer_carries_the_headers() -> None:
    for headers in ((HOST,), ()):
        _, found, _ = asked(guard(), *headers)
        wanted = SECURITY_HEADERS | ({"cache-control": "no-cache"} if headers else {})
        assert {name: found[name] for name in wanted} == wanted
    policy = SECURITY_HEADERS["content-security-policy"]
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy


@pytest.mark.parametrize("host", [b"127.0.0.1", b"LOCALHOST:99", b"[::1]:8000", b"[::1]", b"gaifman.example:1"])
def test_hosts_that_are_ours(host: bytes) -> None:
    assert asked(guard(SMALL, "Gaifman.example"), (b"host", host))[0] == 200


@pytest.mark.parametrize(
    "host",
    [b"evil.example", b"", b"localhost.evil.example", b"evil@localhost", b"localhost:x", b"::1", b"127.0.0.1.:80"],
)
def test_hosts_that_are_not(host: bytes) -> None:
    status, _, body = asked(guard(), (b"host", host))
    assert status == 421
    assert "does not serve that host" in json.loads(body)["error"]["message"]


def test_one_host_and_no_other() -> None:
    assert asked(guard())[0] == 421
    assert asked(guard(), HOST, (b"host", b"evil.example"))[0] == 421


def test_pages_of_other_sites_may_link_here_and_no_more() -> None:
    cross = (b"sec-fetch-site", b"cross-site")
    assert asked(guard(), HOST, cross, path="/api/about")[0] == 403
    assert asked(guard(), HOST, cross, path="/")[0] == 200
    assert asked(guard(), HOST, (b"sec-fetch-site", b"same-origin"), path="/api/about")[0] == 200


def test_a_body_comes_through_whole() -> None:
    assert asked(guard(), HOST, (b"content-length", b"10"), parts=[b"01234", b"56789"])[2] == b"0123456789"
    assert asked(guard(), HOST)[2] == b""


@pytest.mark.parametrize("length", [b"11", b"1" * 30, b"-1", b"x", b"1.0"])
def test_a_body_that_says_it_is_too_large(length: bytes) -> None:
    status, headers, _ = asked(guard(), HOST, (b"content-length", length))
    assert status == 413
    assert headers["connection"] == "close"


def test_a_body_that_turns_out_too_large() -> None:
    chunked = (b"transfer-encoding", b"chunked")
    assert asked(guard(), HOST, chunked, parts=[b"x" * 6] * 1000)[0] == 413
    assert asked(guard(), HOST, chunked, parts=[b"x" * 5] * 2)[0] == 200


def test_a_body_that_does_not_come() -> None:
    assert asked(guard(), HOST, (b"content-length", b"5"), late=True)[0] == 408


def test_a_client_that_goes_away() -> None:
    sent = list[Any]()

    async def receive() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "path": "/", "headers": [HOST, (b"content-length", b"5")]}
    asyncio.run(guard()(scope, receive, send))
    assert sent[0]["status"] == 400


@pytest.mark.parametrize("length", [0, 5])
def test_the_work_of_a_client_that_goes_away_is_stopped(length: int, caplog: pytest.LogCaptureFixture) -> None:
    """It went on until its time was over, and kept its place."""
    events, sent, meters = list[str](), list[Any](), Metrics()

    async def scene() -> None:
        begun, gone = asyncio.Event(), asyncio.Event()

        async def working(_: Any, receive: Any, __: Any) -> None:
            assert (await receive())["body"] == b"x" * length
            begun.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                events.append("stopped")
                raise

        messages = [{"type": "http.request", "body": b"x" * length, "more_body": False}]

        async def receive() -> Any:
            if messages:
                return messages.pop(0)
            await gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            sent.append(message)

        own = GuardMiddleware(working, ["/"], (), ServerLimits(), meters)
        headers = [HOST, *([(b"content-length", b"5")] if length else [])]
        asked = asyncio.create_task(own({"type": "http", "path": "/", "headers": headers}, receive, send))
        await begun.wait()
        assert own.open_requests == 1
        gone.set()
        await asked
        assert own.open_requests == 0

    asyncio.run(scene())
    assert events == ["stopped"]
    assert sent == [], "there is nobody to answer"
    assert 'gaifman_requests_total{path="/",status="499"} 1.0' in meters.render().decode()
    assert not caplog.records


def test_an_application_that_asks_hears_that_the_client_has_gone() -> None:
    heard = list[str]()

    async def curious(_: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        heard.extend([(await receive())["type"], (await receive())["type"]])

    async def receive() -> Any:
        return {"type": "http.disconnect"}

    async def send(_: Any) -> None:
        return

    asyncio.run(GuardMiddleware(curious, ["/"], ())({"type": "http", "path": "/", "headers": [HOST]}, receive, send))
    assert heard == ["http.request", "http.disconnect"]


def test_the_head_is_what_can_be_got_without_its_body() -> None:
    seen = list[str]()

    async def telling(scope: Any, _: Any, send: Any) -> None:
        seen.append(scope["method"])
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"4")]})
        await send({"type": "http.response.body", "body": b"body"})

    status, headers, body = asked(GuardMiddleware(telling, ["/"], ()), HOST, method="HEAD")
    assert (status, headers["content-length"], body, seen) == (200, "4", b"", ["GET"])
    assert asked(guard(), HOST, (b"x", b"y" * MAX_HEAD_BYTES), method="HEAD")[2] == b""


def test_a_head_that_is_too_large() -> None:
    """It was answered where it came at once."""
    for size, status in ((MAX_HEAD_BYTES - 100, 200), (MAX_HEAD_BYTES, 431)):
        found, headers, _ = asked(guard(), HOST, (b"x-long", b"y" * size))
        assert found == status
        assert ("connection" in headers) == (status == 431)
    assert asked(guard(), HOST, path=f"/{'p' * MAX_HEAD_BYTES}")[0] == 431


def test_too_many_are_refused_but_not_those_who_ask_for_health() -> None:
    own = guard()
    own.open_requests = 1
    status, headers, body = asked(own, HOST)
    assert (status, headers["retry-after"]) == (503, "1")
    assert "open" in json.loads(body)["error"]["message"]
    for path in ("/api/health", "/metrics"):
        assert asked(own, HOST, path=path)[0] == 200


def test_what_goes_wrong_inside_stays_inside(caplog: pytest.LogCaptureFixture) -> None:
    status, _, body = asked(guard(), HOST, path="/broken")
    assert status == 500
    assert b"the inside" not in body
    assert b"Traceback" not in body
    assert "the inside" in caplog.text, "whoever runs the server sees it"


def test_a_server_that_ends_says_so() -> None:
    status, headers, body = asked(guard(), HOST, path="/ended")
    assert (status, headers["retry-after"]) == (503, "1")
    assert json.loads(body)["error"]["message"] == "the server is stopping"


def test_paths_that_are_not_ours_are_counted_together() -> None:
    meters = Metrics()
    own = GuardMiddleware(echo, ["/"], (), SMALL, meters)
    for path in ("/", "/a", "/b"):
        asked(own, HOST, path=path)
    text = meters.render().decode()
    assert 'gaifman_requests_total{path="other",status="200"} 2.0' in text
    assert "/a" not in text


def test_no_other_protocol() -> None:
    sent = list[Any]()

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(guard()({"type": "websocket"}, None, send))  # type: ignore[arg-type]
    assert sent == [{"type": "websocket.close", "code": 1008}]

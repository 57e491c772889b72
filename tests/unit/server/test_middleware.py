"""Checks before every request, and headers of every response."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from gaifman.server.middleware import (
    MAX_HEAD_BYTES,
    SECURITY_HEADERS,
    GuardMiddleware,
    Metrics,
    ServerLimits,
    encode_json,
    error_response,
)
from gaifman.server.schemas import ErrorDetail

HOST = (b"host", b"localhost:8000")
SMALL = ServerLimits(max_body_bytes=10, seconds=0.1, max_open_requests=1)


async def echo(scope: Any, receive: Any, send: Any) -> None:
    """An application that returns the body."""
    if scope["path"] == "/broken":
        raise RuntimeError("the inside")
    if scope["path"] == "/ended":
        raise asyncio.CancelledError
    body = (await receive())["body"]
    await send({"type": "http.response.start", "status": 200, "headers": [(b"cache-control", b"no-cache")]})
    await send({"type": "http.response.body", "body": body})


def request(
    guard: GuardMiddleware,
    *headers: tuple[bytes, bytes],
    path: str = "/",
    parts: Sequence[bytes] = (b"",),
    late: bool = False,
    method: str = "POST",
) -> tuple[int, dict[str, str], bytes]:
    """Send one request; return status, headers and body."""
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
    """Return the middleware around `echo`."""
    return GuardMiddleware(echo, ["/"], hosts, serving)


def test_every_response_has_the_security_headers() -> None:
    for headers in ((HOST,), ()):
        _, found, _ = request(guard(), *headers)
        expected = SECURITY_HEADERS | ({"cache-control": "no-cache"} if headers else {})
        assert {name: found[name] for name in expected} == expected
    policy = SECURITY_HEADERS["content-security-policy"]
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy


@pytest.mark.parametrize("host", [b"127.0.0.1", b"LOCALHOST:99", b"[::1]:8000", b"[::1]", b"gaifman.example:1"])
def test_accepted_hosts(host: bytes) -> None:
    assert request(guard(SMALL, "Gaifman.example"), (b"host", host))[0] == 200


@pytest.mark.parametrize(
    "host",
    [b"evil.example", b"", b"localhost.evil.example", b"evil@localhost", b"localhost:x", b"::1", b"127.0.0.1.:80"],
)
def test_refused_hosts(host: bytes) -> None:
    status, _, body = request(guard(), (b"host", host))
    assert status == 421
    assert "does not serve that host" in json.loads(body)["error"]["message"]


def test_exactly_one_host_header() -> None:
    assert request(guard())[0] == 421
    assert request(guard(), HOST, (b"host", b"evil.example"))[0] == 421


def test_other_sites_may_link_to_the_page_only() -> None:
    cross = (b"sec-fetch-site", b"cross-site")
    assert request(guard(), HOST, cross, path="/api/about")[0] == 403
    assert request(guard(), HOST, cross, path="/")[0] == 200
    assert request(guard(), HOST, (b"sec-fetch-site", b"same-origin"), path="/api/about")[0] == 200


def test_a_body_arrives_complete() -> None:
    assert request(guard(), HOST, (b"content-length", b"10"), parts=[b"01234", b"56789"])[2] == b"0123456789"
    assert request(guard(), HOST)[2] == b""


@pytest.mark.parametrize("length", [b"11", b"1" * 30, b"-1", b"x", b"1.0"])
def test_a_declared_length_that_is_too_large(length: bytes) -> None:
    status, headers, _ = request(guard(), HOST, (b"content-length", length))
    assert status == 413
    assert headers["connection"] == "close"


def test_a_chunked_body_that_is_too_large() -> None:
    chunked = (b"transfer-encoding", b"chunked")
    assert request(guard(), HOST, chunked, parts=[b"x" * 6] * 1000)[0] == 413
    assert request(guard(), HOST, chunked, parts=[b"x" * 5] * 2)[0] == 200


def test_a_body_that_does_not_arrive() -> None:
    assert request(guard(), HOST, (b"content-length", b"5"), late=True)[0] == 408


def test_a_client_that_disconnects_while_it_sends() -> None:
    sent = list[Any]()

    async def receive() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "path": "/", "headers": [HOST, (b"content-length", b"5")]}
    asyncio.run(guard()(scope, receive, send))
    assert sent[0]["status"] == 400


@pytest.mark.parametrize("length", [0, 5])
def test_the_work_of_a_client_that_disconnects_is_stopped(length: int, caplog: pytest.LogCaptureFixture) -> None:
    """It once went on until its time limit."""
    events, sent, metrics = list[str](), list[Any](), Metrics()

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

        own = GuardMiddleware(working, ["/"], (), ServerLimits(), metrics)
        headers = [HOST, *([(b"content-length", b"5")] if length else [])]
        task = asyncio.create_task(own({"type": "http", "path": "/", "headers": headers}, receive, send))
        await begun.wait()
        assert own.open_requests == 1
        gone.set()
        await task
        assert own.open_requests == 0

    asyncio.run(scene())
    assert events == ["stopped"]
    assert sent == [], "there is nobody to answer"
    assert 'gaifman_requests_total{path="/",status="499"} 1.0' in metrics.render().decode()
    assert not caplog.records


def test_the_application_receives_the_disconnect() -> None:
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


def test_head_is_get_without_a_body() -> None:
    seen = list[str]()

    async def telling(scope: Any, _: Any, send: Any) -> None:
        seen.append(scope["method"])
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"4")]})
        await send({"type": "http.response.body", "body": b"body"})

    status, headers, body = request(GuardMiddleware(telling, ["/"], ()), HOST, method="HEAD")
    assert (status, headers["content-length"], body, seen) == (200, "4", b"", ["GET"])
    assert request(guard(), HOST, (b"x", b"y" * MAX_HEAD_BYTES), method="HEAD")[2] == b""


def test_headers_that_are_too_large() -> None:
    """It was once accepted if it arrived in one piece."""
    for size, status in ((MAX_HEAD_BYTES - 100, 200), (MAX_HEAD_BYTES, 431)):
        found, headers, _ = request(guard(), HOST, (b"x-long", b"y" * size))
        assert found == status
        assert ("connection" in headers) == (status == 431)
    assert request(guard(), HOST, path=f"/{'p' * MAX_HEAD_BYTES}")[0] == 431


def test_too_many_open_requests_are_refused_except_health() -> None:
    own = guard()
    own.open_requests = 1
    status, headers, body = request(own, HOST)
    assert (status, headers["retry-after"]) == (503, "1")
    assert "open" in json.loads(body)["error"]["message"]
    for path in ("/api/health", "/metrics"):
        assert request(own, HOST, path=path)[0] == 200


def test_details_of_an_exception_are_not_sent(caplog: pytest.LogCaptureFixture) -> None:
    status, _, body = request(guard(), HOST, path="/broken")
    assert status == 500
    assert b"the inside" not in body
    assert b"Traceback" not in body
    assert "the inside" in caplog.text, "the log has it"


def test_requests_are_refused_when_the_server_stops() -> None:
    status, headers, body = request(guard(), HOST, path="/ended")
    assert (status, headers["retry-after"]) == (503, "1")
    assert json.loads(body)["error"]["message"] == "the server is stopping"


def test_unknown_paths_are_counted_together() -> None:
    metrics = Metrics()
    own = GuardMiddleware(echo, ["/"], (), SMALL, metrics)
    for path in ("/", "/a", "/b"):
        request(own, HOST, path=path)
    text = metrics.render().decode()
    assert 'gaifman_requests_total{path="other",status="200"} 2.0' in text
    assert "/a" not in text


def test_websockets_are_refused() -> None:
    sent = list[Any]()

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(guard()({"type": "websocket"}, None, send))  # type: ignore[arg-type]
    assert sent == [{"type": "websocket.close", "code": 1008}]


# Metrics


def samples(metrics: Metrics) -> dict[str, float]:
    """Name with labels → value."""
    return {
        f"{sample.name}{sorted(sample.labels.items()) or ''}": sample.value
        for family in text_string_to_metric_families(metrics.render().decode())
        for sample in family.samples
    }


def test_requests_are_counted_by_path_and_status() -> None:
    metrics = Metrics()
    for status, seconds in ((200, 0.02), (200, 0.2), (503, 0.001)):
        metrics.observe_request("/api/query", status, seconds)
    found = samples(metrics)
    assert found["gaifman_requests_total[('path', '/api/query'), ('status', '200')]"] == 2
    assert found["gaifman_requests_total[('path', '/api/query'), ('status', '503')]"] == 1
    assert found["gaifman_request_seconds_bucket[('le', '0.025'), ('path', '/api/query')]"] == 2
    assert found["gaifman_request_seconds_sum[('path', '/api/query')]"] == pytest.approx(0.221)


def test_gauges_are_read_when_rendered() -> None:
    metrics, value = Metrics(), [1.0]
    metrics.facts.set_function(lambda: value[0])
    assert samples(metrics)["gaifman_facts"] == 1
    value[0] = 5
    assert samples(metrics)["gaifman_facts"] == 5


def test_two_servers_have_separate_metrics() -> None:
    one, two = Metrics(), Metrics()
    one.overloaded.inc()
    assert samples(one)["gaifman_overloaded_total"] == 1
    assert samples(two)["gaifman_overloaded_total"] == 0


def test_every_metric_is_described() -> None:
    metrics = Metrics()
    families = {family.name: family for family in text_string_to_metric_families(metrics.render().decode())}
    own = {name.removesuffix("_total").removesuffix("_created") for name in families if name.startswith("gaifman_")}
    assert own == {name.removesuffix("_total") for name in metrics.names()}
    assert len(own) == 11
    assert all(family.documentation for family in families.values())
    assert families["process_resident_memory_bytes"].samples[0].value > 0


# Error replies


def test_every_error_has_all_fields() -> None:
    response = error_response(422, ErrorDetail(message="no"), {"retry-after": "1"})
    assert (response.status_code, response.headers["retry-after"]) == (422, "1")
    assert json.loads(bytes(response.body)) == {"error": ErrorDetail(message="no").model_dump()}


@given(st.text(st.characters(categories=("L", "Cs", "Cc", "Cf", "P"))))
def test_any_text_survives(text: str) -> None:
    assert json.loads(encode_json({"name": text})) == {"name": text}
    assert json.loads(bytes(error_response(422, ErrorDetail(message=text)).body))["error"]["message"] == text


def test_json_has_no_nan() -> None:
    with pytest.raises(ValueError, match="JSON"):
        encode_json({"value": float("nan")})

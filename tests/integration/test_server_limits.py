"""Clients that ask for much, ask wrongly or disconnect do not disturb others."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import gaifman
from gaifman.server.edits import EditsFile
from gaifman.server.middleware import MAX_HEAD_BYTES, ServerLimits
from gaifman.server.run import StallWatch
from gaifman.server.service import Service
from gaifman.server.state import ServerState
from http_client import ENDLESS, PATIENT, TIMEOUT, TOKEN, Client, metric, serving, unanswered, unread
from processes import PATIENCE, wait_until
from trained import FEW, demo, towns, worker

BROWSED = (
    "/api/about",
    "/api/objects?text=fr",
    "/api/object?name=france",
    "/api/relations",
    "/api/facts?object=france",
    "/api/degrees",
    "/api/examples?object=france",
)
"""Requests without a database query."""


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    """A server with a model."""
    with serving(ServerState(Service(towns(), worker(), PATIENT))) as found:
        yield found


def test_lookups_do_not_wait_for_queries_and_disconnected_clients_leave_their_place() -> None:
    """Heavy queries once blocked lookups, and went on after their clients disconnected."""
    limits = ServerLimits(max_concurrency=2, max_queued=2, seconds=3_000)
    with serving(ServerState(Service(demo(), limits=limits))) as client:
        with ExitStack() as asked:
            for _ in range(4):
                asked.enter_context(unanswered(client, "/api/query", ENDLESS))
            wait_until(lambda: metric(client, "gaifman_running_requests") == 2)
            wait_until(lambda: metric(client, "gaifman_queued_requests") == 2)
            for path in BROWSED:
                assert client.get(path).status == 200
            assert client.post("/api/parse", {"query": "borders(x, y)"}).status == 200
            refused = client.post("/api/query", {"query": "borders(x, y)"})
            assert (refused.status, refused.error["kind"]) == (503, "BusyError")
            assert refused.headers["retry-after"] == "1"
            assert metric(client, "gaifman_running_requests") == 2, "the queries still run"
        for state in ("running", "queued"):
            wait_until(lambda state=state: metric(client, f"gaifman_{state}_requests") == 0)  # type: ignore[misc]
        assert not client.get("/api/about").json["editable"]
        assert client.post("/api/query", {"query": "borders('portugal', y)"}).status == 200
        wait_until(lambda: b'path="/api/query",status="499"} 4.0' in client.get("/metrics").body)


def test_the_ranking_of_a_client_that_disconnects_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, stopped = threading.Event(), threading.Event()

    def answers(_: Service, __: object, deadline: gaifman.config.Deadline) -> None:
        begun.set()
        try:
            while True:
                deadline.check()
        finally:
            stopped.set()

    monkeypatch.setattr(Service, "answers", answers)
    with serving(ServerState(Service(towns(), worker(), ServerLimits(seconds=3_000)))) as client:
        with unanswered(client, "/api/answers", {}):
            assert begun.wait(PATIENCE)
        assert stopped.wait(PATIENCE)
        wait_until(lambda: metric(client, "gaifman_running_requests") == 0)


def test_additions_wait_for_each_other_only(tmp_path: Path) -> None:
    """Each once took a place of a lookup."""
    state = ServerState(
        Service(demo(), limits=ServerLimits(max_concurrency=2, seconds=3_000)), EditsFile(tmp_path / "new.facts"), TOKEN
    )
    new = {"facts": [{"relation": "borders", "objects": ["france", "brazil"]}]}
    with serving(state) as client:
        state._lock.acquire()
        with ExitStack() as asked:
            for _ in range(3):
                asked.enter_context(unanswered(client, "/api/facts", new, TOKEN))
            wait_until(lambda: metric(client, "gaifman_running_requests") == 1)
            wait_until(lambda: metric(client, "gaifman_queued_requests") == 2)
            for path in BROWSED:
                assert client.get(path).status == 200
            assert client.post("/api/query", {"query": "borders('portugal', y)"}).status == 200
        wait_until(lambda: metric(client, "gaifman_queued_requests") == 0)
        state._lock.release()
        wait_until(lambda: metric(client, "gaifman_running_requests") == 0)
        assert state.added == 0, "the client has disconnected"


@pytest.mark.parametrize("path", ["/api/health", "/metrics", "/", "/api/about", "/openapi.json", "/api/objects?text=p"])
def test_probes_ask_for_the_head(client: Client, path: str) -> None:
    reply, whole = client.ask("HEAD", path), client.get(path)
    assert (reply.status, reply.body) == (200, b"")
    assert reply.headers["content-type"] == whole.headers["content-type"]
    assert client.ask("HEAD", "/api/query").status == 405


def test_a_trailing_slash_is_another_path(client: Client) -> None:
    for path in ("/api/health/", "/api/objects/?text=p"):
        assert client.get(path).status == 404
        assert client.get(path).error["message"] == "there is nothing at this path"


@pytest.mark.parametrize(
    ("path", "message", "near"),
    [
        ("/api/objects?txt=p", "query.txt: unknown parameter", ["text"]),
        ("/api/objects?text=p&bogus=1", "query.bogus: unknown parameter", []),
        ("/api/about?x", "query.x: unknown parameter", []),
        ("/api/object?name=p00&name=p01", "query.name: repeated parameter", []),
        (f"/api/objects?{'x' * 1000}=1", "unknown parameter", []),
    ],
)
def test_unknown_and_repeated_parameters_are_refused(client: Client, path: str, message: str, near: list[str]) -> None:
    if path.endswith("?x"):
        path += "=1"
    reply = client.get(path)
    assert reply.status == 422
    assert message in reply.error["message"]
    assert len(reply.error["message"]) < 200
    assert reply.error["suggestions"] == near
    assert reply.error["hint"]


def test_valid_parameters(client: Client) -> None:
    assert client.get("/api/neighbourhood?object=p00&object=t0").status == 200, "it is repeatable"
    assert client.post("/api/query?rows=1", {"query": "person(x)"}).status == 422
    for path in ("/api/health?when=now", "/metrics?when=now", "/?when=now"):
        assert client.get(path).status == 200, "probes and pages may have any parameter"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"{", "the body is not JSON, at character 2: Expecting property name"),
        (b'{"query": "p(x)"', "at character 17: Expecting ',' delimiter"),
        (b"{'query': 1}", "at character 2: Expecting property name enclosed in double quotes"),
        (b'{"query": "\xff"}', "it is not UTF-8, at byte 12"),
        (b"[" * 100_000, "it is nested too deeply"),
    ],
)
def test_errors_in_json_are_located(client: Client, body: bytes, message: str) -> None:
    reply = client.post("/api/query", body)
    assert reply.status in (400, 422)
    assert message in reply.error["message"]
    assert reply.error["hint"].startswith("send JSON")


def test_an_unknown_relation_without_similar_names_has_a_hint(client: Client) -> None:
    for reply in (client.get("/api/facts?relation=xyzzy"), client.post("/api/query", {"query": "xyzzy(x, y)"})):
        assert (reply.status, reply.error["suggestions"]) == (422, [])
        assert "/api/relations" in reply.error["hint"]


def test_explaining_and_ranking_without_a_query_fail_alike() -> None:
    """One once said that the query is empty."""
    with serving(ServerState(Service(towns(), gaifman.complete(towns(), ["works_in"], **FEW), PATIENT))) as client:
        one, other = (client.post(path, {}).error for path in ("/api/explanations", "/api/answers"))
        assert one == other
        assert one["message"] == "the model is a completion of 1 relations and needs a query"
        assert one["hint"] == 'such as "works_in(x, y)"'


def test_headers_that_are_too_large_are_refused(client: Client) -> None:
    assert client.get("/api/health", **{"x-long": "y" * (MAX_HEAD_BYTES - 1_000)}).status == 200
    reply = client.get("/api/health", **{"x-long": "y" * MAX_HEAD_BYTES})
    assert reply.status == 431
    assert reply.error["message"] == "the headers exceed 65,536 bytes"


def test_a_slow_body_does_not_block_others() -> None:
    with (
        serving(ServerState(Service(towns(), limits=ServerLimits(seconds=0.5)))) as client,
        socket.create_connection(("127.0.0.1", client.port), timeout=TIMEOUT) as connection,
    ):
        connection.sendall(b"POST /api/query HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\n{")
        assert client.get("/api/health").status == 200
        reply = b"".join(iter(lambda: connection.recv(10_000), b""))
        assert reply.startswith(b"HTTP/1.1 408 ")
        assert b"the body did not arrive within 0.5 seconds" in reply


def test_other_hosts_and_sites_are_refused(client: Client) -> None:
    wrong_host = client.get("/api/about", host="evil.example")
    assert (wrong_host.status, wrong_host.error["message"]) == (421, "this server does not serve that host")
    other_site = client.get("/api/about", **{"sec-fetch-site": "cross-site"})
    assert (other_site.status, other_site.error["message"]) == (403, "requests from other sites are refused")


def test_an_upgrade_is_ignored_silently(client: Client, capfd: pytest.CaptureFixture[str]) -> None:
    """The server once logged the advice to install a library."""
    reply = client.get("/api/health", **{"connection": "upgrade", "upgrade": "websocket", "sec-websocket-key": "eA=="})
    assert reply.status == 200
    assert capfd.readouterr().err == ""


def test_clients_that_never_read_do_not_keep_others_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """540 of them once made the server answer 503 to everybody, for as long as they liked."""
    limits = ServerLimits(max_open_requests=24, write_seconds=0.5)
    monkeypatch.setattr(StallWatch, "is_stalled", lambda *_: False)  # none is cut before all have come
    with (
        serving(ServerState(Service(towns(), limits=limits)), send_buffer=8_192) as client,
        ExitStack() as asked,
    ):
        for number in range(1, 24):
            asked.enter_context(unread(client, "/openapi.json", 8))
            wait_until(lambda: metric(client, "gaifman_open_requests") == number + 1)  # noqa: B023
        asked.enter_context(unread(client, "/openapi.json", 500))  # some are refused while we look
        wait_until(lambda: b"server overloaded: 24 requests are open" in client.get("/api/about").body)
        monkeypatch.undo()
        wait_until(lambda: client.get("/api/about").status == 200)
        wait_until(lambda: metric(client, "gaifman_stalled_total") == 24)
        wait_until(lambda: metric(client, "gaifman_open_requests") == 1)


def test_a_server_stops_without_a_word_about_clients_that_do_not_read(capfd: pytest.CaptureFixture[str]) -> None:
    """Each was once a traceback."""
    limits = ServerLimits(max_open_requests=3, write_seconds=3_000)
    with ExitStack() as asked, serving(ServerState(Service(towns(), limits=limits))) as client:
        for number in range(1, 3):
            asked.enter_context(unread(client, "/openapi.json", 32))
            wait_until(lambda: metric(client, "gaifman_open_requests") == number + 1)  # noqa: B023
        for _ in range(2):
            asked.enter_context(unread(client, "/openapi.json", 3_000))
        wait_until(lambda: metric(client, "gaifman_open_requests") == 5)  # a refusal waits too
    assert capfd.readouterr().err == ""

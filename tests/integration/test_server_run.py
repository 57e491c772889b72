"""Addresses and connections of a server."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any

import pytest
import uvicorn

from gaifman.errors import GaifmanError
from gaifman.server import run
from gaifman.server.run import (
    MIN_BYTES_PER_SECOND,
    CountingTransport,
    GuardedProtocol,
    StallWatch,
    UvicornServer,
    bind,
    is_loopback,
    server_url,
)
from gaifman.server.service import Service
from gaifman.server.state import ServerState
from http_client import TIMEOUT, serving
from processes import wait_until
from trained import towns


def test_a_port_in_use() -> None:
    with bind("127.0.0.1", 0) as one:
        one.listen()
        with pytest.raises(GaifmanError, match="cannot bind to 127"):
            bind("127.0.0.1", one.getsockname()[1])


@pytest.mark.parametrize("host", ["no such host", "999.1.1.1", "a" * 300])
def test_an_invalid_host(host: str) -> None:
    with pytest.raises(GaifmanError, match="cannot bind to"):
        bind(host, 0)


def test_addresses() -> None:
    with bind("127.0.0.1", 0) as found:
        assert server_url(found) == f"http://127.0.0.1:{found.getsockname()[1]}/"
        assert is_loopback(found)
    with bind("0.0.0.0", 0) as found:
        assert server_url(found).startswith("http://127.0.0.1:")
        assert not is_loopback(found)


HEAD = b"GET /api/health HTTP/1.1\r\nhost: localhost\r\n"


class Pipe(asyncio.Transport):
    """A connection without a network."""

    def __init__(self) -> None:
        super().__init__()
        self.sent, self.closed = b"", False

    def write(self, data: Any) -> None:
        self.sent += data

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default


async def connect() -> tuple[GuardedProtocol, Pipe]:
    """Open a connection to an application that answers nothing of interest."""

    async def app(_: Any, __: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    config = UvicornServer(app).config
    config.load()
    protocol, pipe = GuardedProtocol(config, uvicorn.server.ServerState(), {}), Pipe()
    protocol.connection_made(pipe)
    return protocol, pipe


def has_timer(protocol: GuardedProtocol) -> bool:
    return protocol._head_timer is not None


async def settled(condition: Callable[[], bool]) -> None:
    """Let the event loop run until a condition holds."""
    while not condition():
        await asyncio.sleep(0)


@pytest.mark.parametrize("requests", [0, 1, 2])
@pytest.mark.parametrize("sent", [b"", HEAD])
def test_a_connection_without_a_head_is_closed(requests: int, sent: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also after other requests on the connection; without any byte of the next, the limit is uvicorn's."""

    async def scene() -> None:
        monkeypatch.setattr(run, "HEAD_TIMEOUT", 3_000.0)
        protocol, pipe = await connect()
        for count in range(requests):
            assert has_timer(protocol) == (count == 0)
            protocol.data_received(HEAD)
            assert has_timer(protocol)
            protocol.data_received(b"\r\n")
            assert not has_timer(protocol), "the head is complete"
            await settled(lambda count=count: pipe.sent.count(b"HTTP/1.1 204") == count + 1)  # type: ignore[misc]
        monkeypatch.setattr(run, "HEAD_TIMEOUT", 0.0)
        if not requests:
            protocol._cancel_timer()
            protocol.connection_made(pipe)
        if sent:
            protocol.data_received(sent)
        if sent or not requests:
            await settled(lambda: pipe.closed)
        assert pipe.closed == bool(sent or not requests)
        protocol.connection_lost(None)
        assert not has_timer(protocol)

    asyncio.run(scene())


def test_a_slow_head_does_not_block_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "HEAD_TIMEOUT", 0.2)
    with serving(ServerState(Service(towns()))) as client:
        with socket.create_connection(("127.0.0.1", client.port), timeout=TIMEOUT) as connection:
            connection.sendall(HEAD)
            assert connection.recv(1000) == b"", "it is closed"
        monkeypatch.setattr(run, "HEAD_TIMEOUT", 3_000.0)
        assert client.get("/api/health").status == 200


class Backlog(Pipe):
    """A connection whose client takes as much as the test says."""

    taken = 0

    def get_write_buffer_size(self) -> int:
        return len(self.sent) - self.taken


def watched() -> tuple[Backlog, CountingTransport, StallWatch]:
    pipe = Backlog()
    transport = CountingTransport(pipe)
    return pipe, transport, StallWatch(transport, seconds=10)


def test_output_that_is_not_taken_is_a_stall() -> None:
    _, transport, watch = watched()
    assert not watch.is_stalled(0)
    assert not watch.is_stalled(1_000), "no output waits"
    transport.write(b"x" * 500)
    assert [watch.is_stalled(now) for now in (1_001, 1_010.9, 1_011)] == [False, False, True]


def test_more_output_does_not_hide_a_stall() -> None:
    """The length of the buffer alone would not tell: it changes."""
    _, transport, watch = watched()
    stalled = []
    for now in range(12):
        transport.write(b"x" * 5_000)
        stalled.append(watch.is_stalled(now))
    assert stalled == [False] * 10 + [True] * 2


@pytest.mark.parametrize(("rate", "stalled"), [(MIN_BYTES_PER_SECOND, False), (MIN_BYTES_PER_SECOND // 2, True)])
def test_a_client_must_take_a_thousand_bytes_a_second(rate: int, stalled: bool) -> None:
    pipe, transport, watch = watched()
    transport.write(b"x" * 1_000_000)
    found = []
    for now in range(40):
        found.append(watch.is_stalled(now))
        pipe.taken += rate
    assert any(found) == stalled


def test_a_client_that_has_taken_all_begins_anew() -> None:
    pipe, transport, watch = watched()
    for start in (0, 20, 40):
        transport.write(b"x" * 10)
        assert not watch.is_stalled(start)
        assert not watch.is_stalled(start + 9)
        pipe.taken = len(pipe.sent)
        assert not watch.is_stalled(start + 10)


def test_bytes_in_the_kernel_are_not_taken_yet() -> None:
    """The kernel takes megabytes: a client that reads nothing would seem to read."""
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        client.connect(listener.getsockname())
        with listener.accept()[0] as server:
            server.setblocking(False)
            transport = CountingTransport(OpenSocket(server))
            transport.written = server.send(bytes(1_000_000))
            assert transport.taken < transport.written
            received = 0
            while received < transport.written:
                received += len(client.recv(65_536))
            wait_until(lambda: transport.taken == transport.written)


class OpenSocket(Pipe):
    """A transport with a socket and an empty buffer."""

    def __init__(self, sock: socket.socket) -> None:
        super().__init__()
        self._sock = sock

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._sock if name == "socket" else default

    def get_write_buffer_size(self) -> int:
        return 0

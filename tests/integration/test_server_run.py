"""An application at an address."""

from __future__ import annotations

import socket

import pytest

from gaifman.errors import GaifmanError
from gaifman.server import run as hosting
from gaifman.server.run import bind, is_loopback, server_url
from gaifman.server.service import Service
from gaifman.server.state import ServerState
from http_client import serving
from trained import towns


def test_a_port_that_is_taken_is_said() -> None:
    with bind("127.0.0.1", 0) as one:
        one.listen()
        with pytest.raises(GaifmanError, match="cannot bind to 127"):
            bind("127.0.0.1", one.getsockname()[1])


@pytest.mark.parametrize("host", ["no such host", "999.1.1.1", "a" * 300])
def test_a_host_that_is_none_is_said(host: str) -> None:
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


def asked(connection: socket.socket) -> bytes:
    """The whole answer to one request, which is an object of JSON."""
    connection.sendall(HEAD + b"\r\n")
    found = b""
    while not found.endswith(b"}"):
        found += connection.recv(10_000)
    return found


@pytest.mark.parametrize("before", [0, 1])
@pytest.mark.parametrize("sent", [b"", HEAD])
def test_a_head_that_does_not_come_keeps_nobody_waiting(
    sent: bytes, before: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hosting, "HEAD_TIMEOUT", 0.2)
    monkeypatch.setattr(hosting, "KEEP_ALIVE_SECONDS", 60 if sent else 1)
    with serving(ServerState(Service(towns()))) as client:
        with socket.create_connection(("127.0.0.1", client.port), timeout=30) as connection:
            for _ in range(before):
                assert asked(connection).startswith(b"HTTP/1.1 200 OK")
            connection.sendall(sent)
            assert connection.recv(1000) == b"", "it is closed"
        assert client.get("/api/health").status == 200


def test_a_connection_that_is_used_again_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosting, "HEAD_TIMEOUT", 0.2)
    with (
        serving(ServerState(Service(towns()))) as client,
        socket.create_connection(("127.0.0.1", client.port), timeout=30) as connection,
    ):
        for _ in range(3):
            assert asked(connection).startswith(b"HTTP/1.1 200 OK")
            connection.settimeout(0.3)
            with pytest.raises(TimeoutError):
                connection.recv(10_000)  # nothing comes, and nothing is closed
            connection.settimeout(30)

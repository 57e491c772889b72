"""A real server on the loopback, in a thread of the tests, and a client. Not a test itself."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from gaifman.server.middleware import ServerLimits
from gaifman.server.run import bind, create_server
from gaifman.server.state import ServerState
from processes import PATIENCE

TOKEN = "a token for tests"
TIMEOUT = 300
"""Seconds of a request: kernels may have to be compiled, on a busy machine."""
PATIENT = ServerLimits(seconds=TIMEOUT)
"""For tests that are not about time."""
ENDLESS = {
    "query": f"exists {', '.join(f'y{i}' for i in range(6))}. "
    + " & ".join(f"country(x{i}) & country(y{i}) & x{i} != y{i}" for i in range(6)),
    "count": True,
}
"""A query of the demo that takes for ever."""


class Reply(NamedTuple):
    """A reply."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)

    @property
    def error(self) -> dict[str, Any]:
        """The fields of an error."""
        found = self.json
        assert set(found) == {"error"}
        fields: dict[str, Any] = found["error"]
        assert set(fields) == {
            "kind",
            "message",
            "location",
            "line",
            "column",
            "caret",
            "expected",
            "suggestions",
            "hint",
        }
        return fields


class Client:
    """Sends requests to a server on the loopback."""

    def __init__(self, port: int) -> None:
        self.port = port

    def ask(self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None) -> Reply:
        """Send one request over a new connection."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT)
        try:
            connection.request(method, path, body, dict(headers or {}))
            reply = connection.getresponse()
            return Reply(reply.status, {name.lower(): value for name, value in reply.getheaders()}, reply.read())
        finally:
            connection.close()

    def get(self, path: str, **headers: str) -> Reply:
        """Send a GET request."""
        return self.ask("GET", path, None, headers)

    def post(self, path: str, body: object, token: str | None = None) -> Reply:
        """Send JSON."""
        headers = {"content-type": "application/json"} | ({"authorization": f"Bearer {token}"} if token else {})
        return self.ask("POST", path, body if isinstance(body, bytes) else json.dumps(body).encode(), headers)


@contextmanager
def serving(state: ServerState, *hosts: str, send_buffer: int | None = None) -> Iterator[Client]:
    """Run a server inside the `with` block; `send_buffer` is how much the kernel takes of unread output."""
    ready = threading.Event()
    with bind("127.0.0.1", 0) as sock:
        if send_buffer is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer)
        server = create_server(state, hosts, ready.set)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]})
        thread.start()
        try:
            assert ready.wait(PATIENCE)
            yield Client(sock.getsockname()[1])
        finally:
            server.should_exit = True
            thread.join(PATIENCE)
            assert not thread.is_alive()


def metric(client: Client, name: str) -> float:
    """Return the value of a metric without labels."""
    lines = client.get("/metrics").body.decode().splitlines()
    return float(next(line for line in lines if line.startswith(f"{name} ")).split()[1])


@contextmanager
def unanswered(client: Client, path: str, body: object, token: str = "") -> Iterator[None]:
    """Send a request and never read the reply; the client disconnects on leaving."""
    text = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    head += f"authorization: Bearer {token}\r\ncontent-length: {len(text)}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", client.port), timeout=TIMEOUT) as connection:
        connection.sendall(head.encode() + text)
        yield


@contextmanager
def unread(client: Client, path: str, times: int) -> Iterator[socket.socket]:
    """Send the same request many times over one connection, and read nothing."""
    request = f"GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode()
    with socket.socket() as connection:
        connection.settimeout(TIMEOUT)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        connection.connect(("127.0.0.1", client.port))
        connection.sendall(request * times)
        yield connection

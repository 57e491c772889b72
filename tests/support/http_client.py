"""A real server on the loopback, in a thread of the tests, and how it is asked. Not a test itself."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from gaifman.config import ServerLimits
from gaifman.server.app import create_app
from gaifman.server.run import UvicornServer, bind
from gaifman.server.state import ServerState
from processes import PATIENCE

TOKEN = "a token for tests"
PATIENT = ServerLimits(seconds=300)
"""For tests that are not about time: kernels may have to be compiled first."""
ENDLESS = {
    "query": f"exists {', '.join(f'y{i}' for i in range(6))}. "
    + " & ".join(f"country(x{i}) & country(y{i}) & x{i} != y{i}" for i in range(6)),
    "count": True,
}
"""A query of the demo that no engine ends."""


class Reply(NamedTuple):
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)

    @property
    def error(self) -> dict[str, Any]:
        """What the one body of errors says."""
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
    """Asks a server at a port of the loopback."""

    def __init__(self, port: int) -> None:
        self.port = port

    def ask(self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None) -> Reply:
        """One request over a connection of its own."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)
        try:
            connection.request(method, path, body, dict(headers or {}))
            reply = connection.getresponse()
            return Reply(reply.status, {name.lower(): value for name, value in reply.getheaders()}, reply.read())
        finally:
            connection.close()

    def get(self, path: str, **headers: str) -> Reply:
        """A page."""
        return self.ask("GET", path, None, headers)

    def post(self, path: str, body: object, token: str | None = None) -> Reply:
        """A question in JSON."""
        headers = {"content-type": "application/json"} | ({"authorization": f"Bearer {token}"} if token else {})
        return self.ask("POST", path, body if isinstance(body, bytes) else json.dumps(body).encode(), headers)


@contextmanager
def serving(desk: ServerState, *hosts: str) -> Iterator[Client]:
    """A server that runs as long as this does."""
    ready = threading.Event()
    with bind("127.0.0.1", 0) as listening:
        host = UvicornServer(create_app(desk, hosts), ready.set)
        thread = threading.Thread(target=host.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            assert ready.wait(PATIENCE)
            yield Client(listening.getsockname()[1])
        finally:
            host.should_exit = True
            thread.join(PATIENCE)
            assert not thread.is_alive()

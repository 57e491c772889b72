"""An application at an address of this machine, by uvicorn, until it is told to end."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from gaifman.errors import GaifmanError, shorten
from gaifman.guards import HEAD

KEPT = 5
"""Seconds that a connection without requests stays open."""
ENDING = 2
"""Seconds that requests have to end when the server does."""
HEADED = 10.0
"""Seconds in which the head of a request has to come."""
BACKLOG = 2_048
"""Connections that the system keeps until they are taken."""


def bound(host: str, port: int) -> socket.socket:
    """A socket at an address, or why there is none; port 0 is any that is free."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with ExitStack() as undone:
            found = undone.enter_context(socket.socket(family, kind, protocol))
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            found.bind(address)
            undone.pop_all()  # it stays open
            return found
    except (OSError, OverflowError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise GaifmanError(
            f"there is no serving at {shorten(host)}, port {port}: {why}", hint="name another with --port or --host"
        ) from None


def url(listening: socket.socket) -> str:
    """The address of a socket, for a browser; one that listens everywhere is reached at the loopback.

    >>> with bound("127.0.0.1", 0) as found:
    ...     url(found).startswith("http://127.0.0.1:")
    True
    """
    host, port = listening.getsockname()[:2]
    address = ipaddress.ip_address(host)
    host = ("::1" if address.version == 6 else "127.0.0.1") if address.is_unspecified else host
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/"


def is_loopback(listening: socket.socket) -> bool:
    """Whether only this machine can reach it."""
    return ipaddress.ip_address(listening.getsockname()[0]).is_loopback


class Patient(H11Protocol):
    """A connection that is closed where the head of a request does not come in time: uvicorn would wait for ever."""

    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for a first request."""
        super().connection_made(transport)
        self._late = self.loop.call_later(HEADED, transport.close)

    def data_received(self, data: bytes) -> None:
        """Wait on where a head has only begun."""
        super().data_received(data)
        begun = self.conn.their_state is h11.IDLE and self.conn.trailing_data[0]
        if not begun:
            self._come()
        elif self._late is None:
            self._late = self.loop.call_later(HEADED, self.transport.close)

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        self._come()
        super().connection_lost(exc)

    def _unsupported_upgrade_warning(self) -> None:
        """Say nothing: who wants another protocol is answered in this one, and no library would change that."""

    def _come(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None


class Host(uvicorn.Server):
    """A server that says when it is ready; `should_exit = True` ends it."""

    def __init__(self, app: Any, ready: Callable[[], None] | None = None) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                log_level="warning",
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_keep_alive=KEPT,
                timeout_graceful_shutdown=ENDING,
                h11_max_incomplete_event_size=HEAD,
                http=Patient,
                ws="none",
                lifespan="on",
                backlog=BACKLOG,
            )
        )
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen, and say so."""
        await super().startup(sockets)
        if self._ready and self.started:
            self._ready()

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
from gaifman.server.middleware import MAX_HEAD_BYTES

KEEP_ALIVE_SECONDS = 5
"""Seconds that a connection without requests stays open."""
SHUTDOWN_TIMEOUT = 2
"""Seconds that requests have to end when the server does."""
HEAD_TIMEOUT = 10.0
"""Seconds in which the head of a request has to come."""
BACKLOG = 2_048
"""Connections that the system keeps until they are taken."""


def bind(host: str, port: int) -> socket.socket:
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


def server_url(sock: socket.socket) -> str:
    """The address of a socket, for a browser; one that listens everywhere is reached at the loopback.

    >>> with bind("127.0.0.1", 0) as found:
    ...     server_url(found).startswith("http://127.0.0.1:")
    True
    """
    host, port = sock.getsockname()[:2]
    address = ipaddress.ip_address(host)
    host = ("::1" if address.version == 6 else "127.0.0.1") if address.is_unspecified else host
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/"


def is_loopback(sock: socket.socket) -> bool:
    """Whether only this machine can reach it."""
    return ipaddress.ip_address(sock.getsockname()[0]).is_loopback


class HeadTimeoutProtocol(H11Protocol):
    """A connection that is closed where the head of a request does not come in time: uvicorn would wait for ever."""

    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for a first request."""
        super().connection_made(transport)
        self._head_timer = self.loop.call_later(HEAD_TIMEOUT, transport.close)

    def data_received(self, data: bytes) -> None:
        """Wait on where a head has only begun."""
        super().data_received(data)
        begun = self.conn.their_state is h11.IDLE and self.conn.trailing_data[0]
        if not begun:
            self._cancel_timer()
        elif self._head_timer is None:
            self._head_timer = self.loop.call_later(HEAD_TIMEOUT, self.transport.close)

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        self._cancel_timer()
        super().connection_lost(exc)

    def _unsupported_upgrade_warning(self) -> None:
        """Say nothing: who wants another protocol is answered in this one, and no library would change that."""

    def _cancel_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None


class UvicornServer(uvicorn.Server):
    """A server that says when it is ready; `should_exit = True` ends it."""

    def __init__(self, app: Any, on_ready: Callable[[], None] | None = None) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                log_level="warning",
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_keep_alive=KEEP_ALIVE_SECONDS,
                timeout_graceful_shutdown=SHUTDOWN_TIMEOUT,
                h11_max_incomplete_event_size=MAX_HEAD_BYTES,
                http=HeadTimeoutProtocol,
                ws="none",
                lifespan="on",
                backlog=BACKLOG,
            )
        )
        self._on_ready = on_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen, and say so."""
        await super().startup(sockets)
        if self._on_ready and self.started:
            self._on_ready()

"""Run the application with uvicorn, until Ctrl-C."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from gaifman.completion import load
from gaifman.errors import GaifmanError, OutputError, shorten
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.server.app import create_app
from gaifman.server.limits import ServerLimits
from gaifman.server.middleware import MAX_HEAD_BYTES
from gaifman.server.service import Service
from gaifman.server.state import EDITS_SUFFIX, EditsFile, ServerState

KEEP_ALIVE_SECONDS = 5
"""Seconds that an idle connection stays open."""
SHUTDOWN_TIMEOUT = 2
"""Seconds for running requests when the server stops."""
HEAD_TIMEOUT = 10.0
"""Seconds for the head of a request to arrive."""
BACKLOG = 2_048
"""Connections that the operating system queues."""
ALL_ADDRESSES = ("0.0.0.0", "::")  # noqa: S104 - compared with, not bound
"""Hosts that mean all addresses of the machine."""


# Address


def bind(host: str, port: int) -> socket.socket:
    """Return a socket bound to an address; port 0 means any free one."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with ExitStack() as stack:
            sock = stack.enter_context(socket.socket(family, kind, protocol))
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind(address)
            stack.pop_all()  # keep it open
            return sock
    except (OSError, OverflowError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise GaifmanError(
            f"cannot bind to {shorten(host)}:{port}: {reason}", hint="choose another with --port or --host"
        ) from None


def server_url(sock: socket.socket) -> str:
    """Return the URL of a socket for a browser on this machine.

    >>> with bind("127.0.0.1", 0) as sock:
    ...     server_url(sock).startswith("http://127.0.0.1:")
    True
    """
    host, port = sock.getsockname()[:2]
    address = ipaddress.ip_address(host)
    host = ("::1" if address.version == 6 else "127.0.0.1") if address.is_unspecified else host
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/"


def is_loopback(sock: socket.socket) -> bool:
    """Whether only this machine can connect."""
    return ipaddress.ip_address(sock.getsockname()[0]).is_loopback


def host_names(host: str, allowed_hosts: Sequence[str]) -> list[str]:
    """Return the host names to accept: those allowed, and the one bound to unless it means all addresses.

    >>> host_names("::1", ["kb.example.org"]), host_names("0.0.0.0", [])
    (['kb.example.org', '[::1]'], [])
    """
    bound = [] if host in ALL_ADDRESSES else [f"[{host}]" if ":" in host else host]
    return [*allowed_hosts, *bound]


# State


def find_edits_file(kb: str, path: str | None, *, needed: bool) -> EditsFile | None:
    """Return the file of added facts: `path`, or the one beside the knowledge base if it exists or is needed."""
    if path:
        return EditsFile(path)
    if Path(kb).is_file():
        beside = Path(f"{kb}{EDITS_SUFFIX}")
        return EditsFile(beside) if needed or beside.exists() else None
    if needed:
        raise OutputError(f"{kb} is not a file, so there is no place for added facts", hint="name a file with --edits")
    return None


@contextmanager
def locked_edits(edits: EditsFile | None, *, needed: bool) -> Iterator[EditsFile | None]:
    """Lock the file of added facts if facts may be added.

    Lock it before reading the knowledge base: facts that another server adds meanwhile would be lost.
    """
    try:
        if edits and needed:
            edits.lock()
        yield edits
    finally:
        if edits:
            edits.close()


def create_state(
    kb: KnowledgeBase, model: str | None, limits: ServerLimits, edits: EditsFile | None, token: str | None
) -> ServerState:
    """Load the model and return what is served; a model that fits nothing in the knowledge base is an error."""
    service = Service(edits.apply_to(kb) if edits else kb, load(model) if model else None, limits)
    service.check_model()
    return ServerState(service, edits, token)


# Server


class HeadTimeoutProtocol(H11Protocol):
    """Closes a connection if the head of a request does not arrive in time; uvicorn has no such limit."""

    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the timer of the first request."""
        super().connection_made(transport)
        self._head_timer = self.loop.call_later(HEAD_TIMEOUT, transport.close)

    def data_received(self, data: bytes) -> None:
        """Stop the timer after a whole head; start it if a head has only begun."""
        super().data_received(data)
        begun = self.conn.their_state is h11.IDLE and self.conn.trailing_data[0]
        if not begun:
            self._cancel_timer()
        elif self._head_timer is None:
            self._head_timer = self.loop.call_later(HEAD_TIMEOUT, self.transport.close)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timer."""
        self._cancel_timer()
        super().connection_lost(exc)

    def _unsupported_upgrade_warning(self) -> None:
        """Log nothing: upgrades are not supported on purpose."""

    def _cancel_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None


class UvicornServer(uvicorn.Server):
    """A uvicorn server that calls `on_ready` when it accepts requests; `should_exit = True` stops it."""

    def __init__(self, app: ASGIApp, on_ready: Callable[[], None] | None = None) -> None:
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
        """Start to listen."""
        await super().startup(sockets)
        if self._on_ready and self.started:
            self._on_ready()


def run_server(
    state: ServerState,
    sock: socket.socket,
    allowed_hosts: Sequence[str] = (),
    on_ready: Callable[[], None] | None = None,
    on_warning: Callable[[str], None] | None = None,
) -> None:
    """Serve until Ctrl-C. Once it accepts requests, build in the background what the first ones need."""

    def ready() -> None:
        if on_ready:
            on_ready()
        threading.Thread(target=preload, args=(state.service, on_warning), daemon=True, name="gaifman-preload").start()

    UvicornServer(create_app(state, allowed_hosts), ready).run(sockets=[sock])


def preload(service: Service, on_warning: Callable[[str], None] | None = None) -> None:
    """Preload a service; an error is a warning here, since each request will report it."""
    try:
        service.preload()
    except GaifmanError as error:
        if on_warning:
            on_warning(error.message)

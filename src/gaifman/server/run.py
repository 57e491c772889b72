"""Run the application with uvicorn, until Ctrl-C."""

from __future__ import annotations

import asyncio
import fcntl
import ipaddress
import socket
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from gaifman.completion import load
from gaifman.errors import GaifmanError, OutputError, shorten
from gaifman.io.database_urls import hide_password
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.server.app import create_app
from gaifman.server.edits import EDITS_SUFFIX, EditsFile
from gaifman.server.middleware import DEFAULT_SERVER_LIMITS, MAX_HEAD_BYTES, ServerLimits
from gaifman.server.service import Service
from gaifman.server.state import ServerState

KEEP_ALIVE_SECONDS = 5
"""Seconds that an idle connection stays open."""
SHUTDOWN_TIMEOUT = 2
"""Seconds for running requests when the server stops."""
HEAD_TIMEOUT = 10.0
"""Seconds for the head of a request to arrive."""
MAX_UNSENT_BYTES = 131_072
"""Output of a connection in the kernel that the client has no room for. By default it would be megabytes."""
MIN_BYTES_PER_SECOND = 1_000
"""Output that a client takes at least, while some waits; otherwise it could hold its connection for ever."""
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
            if hasattr(socket, "TCP_NOTSENT_LOWAT"):  # connections inherit it; other systems have other limits
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, MAX_UNSENT_BYTES)
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
        if Path(path).exists() and Path(kb).exists() and Path(path).samefile(kb):
            raise OutputError(f"{path} is the knowledge base itself", hint="name another file with --edits")
        return EditsFile(path)
    if Path(kb).is_file():
        beside = _path_beside(kb)
        return EditsFile(beside) if needed or beside.exists() else None
    if needed:
        raise OutputError(
            f"{hide_password(kb)} is not a file, so there is no place for added facts", hint="name a file with --edits"
        )
    return None


def _path_beside(kb: str) -> Path:
    """Return where the facts added to a file are: beside the file itself, also if `kb` is a link to it."""
    named = Path(f"{kb}{EDITS_SUFFIX}")
    if not Path(kb).is_symlink():
        return named
    beside = Path(f"{Path(kb).resolve()}{EDITS_SUFFIX}")
    if named.exists() and not (beside.exists() and named.samefile(beside)):
        raise OutputError(
            f"{kb} is a link: facts added to it belong in {beside}, not in {named}",
            hint="move the file there, or name it with --edits",
        )
    return beside


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


class CountingTransport:
    """A transport that counts the bytes written to it."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self.written = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Write bytes, which may wait in a buffer."""
        self.written += len(data)
        self._transport.write(data)

    @property
    def taken(self) -> int:
        """Bytes that the client has taken: neither in our buffer nor, where the system tells, in the kernel's."""
        return self.written - self._transport.get_write_buffer_size() - self._kernel_queue()

    def _kernel_queue(self) -> int:
        """Return the bytes in the kernel that the client has not acknowledged.

        The kernel takes megabytes at a time: without this, a slow client would seem to stand still.
        """
        try:
            sock = self._transport.get_extra_info("socket")
            return int.from_bytes(fcntl.ioctl(sock.fileno(), termios.TIOCOUTQ, bytes(4)), sys.byteorder)
        except (AttributeError, OSError, ValueError):  # another system, or the socket is closed
            return 0


class StallWatch:
    """Finds out whether a client leaves its output unread: uvicorn waits for it without end."""

    def __init__(self, transport: CountingTransport, seconds: float) -> None:
        self._transport, self._seconds = transport, seconds
        self._since: float | None = None
        """When the present measurement began; None while no output waits."""
        self._taken = 0

    def is_stalled(self, now: float) -> bool:
        """Whether output has waited for the whole time, and the client has taken next to nothing of it."""
        if not self._transport.get_write_buffer_size():
            self._since = None
            return False
        taken = self._transport.taken
        if self._since is None or taken - self._taken >= MIN_BYTES_PER_SECOND * self._seconds:
            self._since, self._taken = now, taken
        return now - self._since >= self._seconds


class GuardedProtocol(H11Protocol):
    """Closes a connection if the head of a request does not arrive, or the output is not read; uvicorn would wait."""

    _head_timer: asyncio.TimerHandle | None = None
    _stall_watch: StallWatch | None = None
    write_seconds = DEFAULT_SERVER_LIMITS.write_seconds

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the timer of the first request, and count the output."""
        counting = CountingTransport(transport)
        super().connection_made(counting)  # type: ignore[arg-type]
        self._head_timer = self.loop.call_later(HEAD_TIMEOUT, transport.close)
        self._stall_watch = StallWatch(counting, self.write_seconds)

    @property
    def has_waiting_output(self) -> bool:
        """Whether output waits for the client."""
        return self.transport.get_write_buffer_size() > 0

    def drop_if_stalled(self, now: float) -> bool:
        """Close the connection at once if its client does not read; requests that wait to send are then over."""
        stalled = self._stall_watch is not None and self._stall_watch.is_stalled(now)
        if stalled:
            self.transport.abort()
        return stalled

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
    """A uvicorn server that calls `on_ready` when it accepts requests; `should_exit = True` stops it.

    Clients that do not read their output for `write_seconds` are disconnected; `on_stall` is called for each.
    """

    def __init__(
        self,
        app: ASGIApp,
        on_ready: Callable[[], None] | None = None,
        *,
        write_seconds: float = DEFAULT_SERVER_LIMITS.write_seconds,
        on_stall: Callable[[], None] | None = None,
    ) -> None:
        protocol = type("Protocol", (GuardedProtocol,), {"write_seconds": write_seconds})
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
                http=protocol,
                ws="none",
                lifespan="on",
                backlog=BACKLOG,
            )
        )
        self._on_ready, self._on_stall = on_ready, on_stall

    async def on_tick(self, counter: int) -> bool:
        """Disconnect the clients that do not read; uvicorn calls this ten times a second."""
        now = time.monotonic()
        for connection in list(self.server_state.connections):
            if isinstance(connection, GuardedProtocol) and connection.drop_if_stalled(now) and self._on_stall:
                self._on_stall()
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Finish running requests within the grace period; half of it is for clients that still read."""
        timer = asyncio.get_running_loop().call_later(SHUTDOWN_TIMEOUT / 2, self._drop_waiting)
        try:
            await super().shutdown(sockets)
        finally:
            timer.cancel()

    def _drop_waiting(self) -> None:
        """Disconnect the clients that have not read their output; uvicorn would cancel them with a traceback each."""
        for connection in list(self.server_state.connections):
            if isinstance(connection, GuardedProtocol) and connection.has_waiting_output:
                connection.transport.abort()

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

    create_server(state, allowed_hosts, ready).run(sockets=[sock])


def create_server(
    state: ServerState, allowed_hosts: Sequence[str] = (), on_ready: Callable[[], None] | None = None
) -> UvicornServer:
    """Return the server of a state, with its limits and metrics."""
    app = create_app(state, allowed_hosts)
    stalled = app.state.context.metrics.stalled
    return UvicornServer(app, on_ready, write_seconds=state.service.limits.write_seconds, on_stall=stalled.inc)


def preload(service: Service, on_warning: Callable[[str], None] | None = None) -> None:
    """Preload a service; an error is a warning here, since each request will report it."""
    try:
        service.preload()
    except GaifmanError as error:
        if on_warning:
            on_warning(error.message)

"""`gaifman serve`: the knowledge base and a model over HTTP, with a page for people."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gaifman.cli.console import input_options, json_option, open_kb

if TYPE_CHECKING:
    from gaifman.server.service import Service
    from gaifman.server.state import EditsFile, ServerState

TOKEN_VARIABLE = "GAIFMAN_TOKEN"  # noqa: S105 - the name of a variable
"""The environment's variable with the token; a command line can be read by others."""
MIN_TOKEN_LENGTH = 16
"""Characters of a token that nobody guesses."""


@click.command(short_help="Serve a knowledge base, and a model, to a browser and to programs.")
@click.argument("kb")
@click.argument("model", required=False)
@click.option("--open", "open_browser", is_flag=True, help="Open the page in a browser.")
@click.option("--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="0 for any that is free.")
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen at: this machine alone.")
@click.option(
    "--allow-host", "allowed_hosts", multiple=True, metavar="NAME", help="Answer requests for this host name too."
)
@click.option("--allow-edit", is_flag=True, help="Let whoever has the token add facts.")
@click.option("--edits", metavar="FILE", help="Keep added facts here.  [default: KB.edits.facts]")
@click.option(
    "--seconds", type=float, default=10.0, show_default=True, help="Stop the work of a request after so long."
)
@click.option("--max-rows", type=int, default=1000, show_default=True, help="Rows of one answer at most.")
@click.option(
    "--max-concurrency", type=int, default=16, show_default=True, help="Requests that are worked on at a time."
)
@click.option("--max-queued", type=int, default=64, show_default=True, help="Requests that wait; more are refused.")
@click.option("--with", "extra_files", multiple=True, metavar="FILE", help="Read this file too.")
@input_options
@json_option
def serve(
    kb: str,
    model: str | None,
    open_browser: bool,
    port: int,
    host: str,
    allowed_hosts: tuple[str, ...],
    allow_edit: bool,
    edits: str | None,
    seconds: float,
    max_rows: int,
    max_concurrency: int,
    max_queued: int,
    extra_files: tuple[str, ...],
    file_format: str | None,
    table: str | None,
    iris: str,
    as_json: bool,
) -> None:
    """Serve KB, and MODEL if it is given, until Ctrl-C: a page for people, JSON for programs.

    Only this machine can reach it, unless --host says otherwise. With --allow-edit facts can be added by whoever has
    the token: that of the environment's GAIFMAN_TOKEN, or one that is made and shown. They are kept in a file beside
    KB, and are there again after a restart.

    \b
    Examples:
      gaifman serve demo --open
      gaifman serve train.tsv model.gaifman --port 8080
      GAIFMAN_TOKEN=… gaifman serve family.tsv family.gaifman --allow-edit
    """
    from gaifman.config import ServerLimits
    from gaifman.server.run import bind, is_loopback

    serving = ServerLimits(seconds=seconds, max_rows=max_rows, max_concurrency=max_concurrency, max_queued=max_queued)
    given = token_from_environment() if allow_edit else ""
    token = given or (secrets.token_urlsafe(24) if allow_edit else None)
    listening = bind(host, port)  # before anything is read: a port that is taken is said at once
    with listening, locked_edits(find_edits_file(kb, edits, allow_edit), allow_edit) as kept:
        names = [*allowed_hosts, *([] if host in ("0.0.0.0", "::") else [f"[{host}]" if ":" in host else host])]  # noqa: S104
        print_warnings(listening, names, given)
        known = open_kb((kb, *extra_files), file_format, table, iris)
        desk = create_state(known, model, serving, kept, token)
        folders = is_loopback(listening)  # whoever asks from elsewhere need not know where files are
        added = [str(kept.path)] if kept and kept.path.exists() else []
        desk.python = python_snippet((kb, *extra_files, *added), model, file_format, table, iris, full_paths=folders)
        run_server(desk, listening, names, "" if given else token or "", open_browser=open_browser, as_json=as_json)


def token_from_environment() -> str:
    """The token of the environment; empty where there is none."""
    from gaifman.errors import GaifmanError

    given = os.environ.get(TOKEN_VARIABLE, "")
    if given != given.strip():
        raise GaifmanError(
            f"the token in {TOKEN_VARIABLE} is blank, or begins or ends with a blank",
            hint=f"set {TOKEN_VARIABLE} to {MIN_TOKEN_LENGTH} characters or more; without it the server makes a token",
        )
    return given


def print_warnings(sock: socket.socket, allowed_hosts: list[str], token: str) -> None:
    """Say what other machines can do, where they can reach the server."""
    from gaifman.server.run import is_loopback

    if is_loopback(sock):
        return
    click.echo("warning: other machines can reach this server, and nothing is encrypted", err=True)
    if not allowed_hosts:
        click.echo("warning: they get status 421 unless --allow-host NAME says what they call this machine", err=True)
    if 0 < len(token) < MIN_TOKEN_LENGTH:
        click.echo(
            f"warning: a token of {len(token)} characters can be guessed: take {MIN_TOKEN_LENGTH} or more", err=True
        )


def find_edits_file(kb: str, path: str | None, needed: bool) -> EditsFile | None:
    """The file of added facts: the one that is named, or the one beside the knowledge base where it is there."""
    from gaifman.errors import OutputError
    from gaifman.server.state import EDITS_SUFFIX, EditsFile

    if path:
        return EditsFile(path)
    if Path(kb).is_file():
        beside = Path(f"{kb}{EDITS_SUFFIX}")
        return EditsFile(beside) if needed or beside.exists() else None
    if needed:
        raise OutputError(f"{kb} is no file that another could stand beside", hint="name one with --edits")
    return None


@contextmanager
def locked_edits(edits: EditsFile | None, needed: bool) -> Iterator[EditsFile | None]:
    """The file of added facts, which no other server writes as long as this lasts, where facts may be added.

    From before the knowledge base is read: what another server adds while that takes its time would be lost.
    """
    try:
        if edits and needed:
            edits.lock()
        yield edits
    finally:
        if edits:
            edits.close()


def create_state(kb: Any, model: str | None, limits: Any, edits: EditsFile | None, token: str | None) -> ServerState:
    """What is served; a model that has nothing to do with the knowledge base is refused."""
    from gaifman.completion import load
    from gaifman.server.service import Service
    from gaifman.server.state import ServerState

    service = Service(edits.apply_to(kb) if edits else kb, load(model) if model else None, limits)
    service.check_model()
    return ServerState(service, edits, token)


def python_snippet(
    sources: tuple[str, ...],
    model: str | None,
    file_format: str | None,
    table: str | None,
    iris: str,
    *,
    full_paths: bool,
) -> list[str]:
    """How a program reads the same, for people to copy.

    >>> python_snippet(("demo",), "dir/m.gaifman", None, None, "full", full_paths=False)
    ['import gaifman', 'kb = gaifman.demo()', 'model = gaifman.load("m.gaifman", kb)']
    >>> python_snippet(("demo", "more.facts"), None, None, None, "full", full_paths=False)[1]
    'kb = gaifman.demo().with_facts(gaifman.read("more.facts").facts())'
    """

    def written(value: str) -> str:
        return json.dumps(value if full_paths else Path(value).name, ensure_ascii=False)

    named = {"format": file_format, "table": table, "iris": "local" if iris == "local" else None}
    options = [f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in named.items() if value]
    bundled = sources[0] == "demo" and not Path("demo").exists() and not options
    read = sources[1:] if bundled else sources
    opened = f"gaifman.read({', '.join([*map(written, read), *options])})"
    if bundled:
        opened = f"gaifman.demo().with_facts({opened}.facts())" if read else "gaifman.demo()"
    loaded = [f"model = gaifman.load({written(model)}, kb)"] if model else []
    return ["import gaifman", f"kb = {opened}", *loaded]


def run_server(
    state: ServerState, sock: socket.socket, allowed_hosts: list[str], token: str, *, open_browser: bool, as_json: bool
) -> None:
    """Serve until the end."""
    from gaifman.server.app import create_app
    from gaifman.server.run import UvicornServer, server_url

    address = server_url(sock)

    def ready() -> None:
        print_status(address, state, token, as_json)
        threading.Thread(target=preload, args=(state.service,), daemon=True, name="gaifman-preload").start()
        if open_browser:
            threading.Thread(target=open_page, args=(address,), daemon=True, name="gaifman-browser").start()

    UvicornServer(create_app(state, allowed_hosts), ready).run(sockets=[sock])


def preload(service: Service) -> None:
    """Make what the first questions would have to wait for; what goes wrong there each of them will say."""
    from gaifman.errors import GaifmanError

    try:
        service.preload()
    except GaifmanError as error:
        click.echo(f"warning: {error.message}", err=True)


def open_page(url: str) -> None:
    """Open the page in a browser; xdg-open itself would write a line for each browser that it does not find."""
    opener = shutil.which("open" if sys.platform == "darwin" else "xdg-open")
    quiet: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
    quiet |= {"start_new_session": True}  # Ctrl-C ends the server, not the browser
    if not opener or subprocess.run([opener, url], check=False, **quiet).returncode:  # noqa: S603 - our address
        click.echo(f"no browser found; open {url}", err=True)


def print_status(url: str, state: ServerState, token: str, as_json: bool) -> None:
    """Where it is, once it answers."""
    import json

    added = len(state.edits) if state.edits else 0
    if as_json:
        body = {"url": url, "facts": len(state.service.kb), "edits": added, "token": token or None}
        click.echo(json.dumps(body))
        return
    click.echo(f"serving {state.service.kb!r} at {url}", err=True)
    if state.edits:
        click.echo(f"added facts are kept in {state.edits.path}: {added:,} so far", err=True)
    if token:
        click.echo(f"to add facts: Authorization: Bearer {token}", err=True)
    click.echo("Ctrl-C ends it", err=True)

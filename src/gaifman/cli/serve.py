"""`gaifman serve`: a knowledge base and a model over HTTP, with a web page."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import click

from gaifman.cli.console import InputOptions, json_option, kb_options, kernel_progress, python_snippet

if TYPE_CHECKING:
    from gaifman.server.state import ServerState

TOKEN_VARIABLE = "GAIFMAN_TOKEN"  # noqa: S105 - the name of a variable
"""The environment variable of the token; other users can read a command line."""
MIN_TOKEN_LENGTH = 16
"""Characters of a token that is hard to guess."""


@click.command(short_help="Serve a knowledge base and a model: a web page and a JSON interface.")
@click.argument("kb")
@click.argument("model", required=False)
@click.option("--open", "open_browser", is_flag=True, help="Open the page in a browser.")
@click.option("--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="0 for any free port.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen at.")
@click.option("--allow-host", "allowed_hosts", multiple=True, metavar="NAME", help="Accept requests for this host.")
@click.option("--allow-edit", is_flag=True, help="Allow adding facts with a token.")
@click.option("--edits", metavar="FILE", help="File for added facts.  [default: KB.edits.facts]")
@click.option("--seconds", type=float, default=10.0, show_default=True, help="Time limit of a request.")
@click.option(
    "--write-seconds",
    type=float,
    default=10.0,
    show_default=True,
    help="Time until a client that does not read is cut off.",
)
@click.option(
    "--memory", type=int, metavar="MB", default=1024, show_default=True, help="Memory of all exact queries together."
)
@click.option(
    "--disk", type=int, metavar="MB", default=4096, show_default=True, help="Disk that they use beyond that memory."
)
@click.option("--max-rows", type=int, default=1000, show_default=True, help="Maximum number of rows of a response.")
@click.option(
    "--max-concurrency", type=int, default=16, show_default=True, help="Requests of a kind that run at a time."
)
@click.option("--max-queued", type=int, default=64, show_default=True, help="Requests of a kind that wait.")
@kb_options
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
    write_seconds: float,
    memory: int,
    disk: int,
    max_rows: int,
    max_concurrency: int,
    max_queued: int,
    reading: InputOptions,
    as_json: bool,
) -> None:
    """Serve KB, and MODEL if given, until Ctrl-C: a web page and a JSON interface.

    By default only this machine can connect. With --allow-edit, clients with the token can add facts: the token in
    the environment variable GAIFMAN_TOKEN, or one that is generated and printed. Added facts are stored in a file
    beside KB and survive a restart.

    \b
    Examples:
      gaifman serve demo --open
      gaifman serve train.tsv model.gaifman --port 8080
      GAIFMAN_TOKEN=… gaifman serve family.tsv family.gaifman --allow-edit
    """
    from gaifman.server import run
    from gaifman.server.middleware import ServerLimits

    limits = ServerLimits(
        seconds=seconds,
        write_seconds=write_seconds,
        max_query_memory_mb=memory,
        max_query_disk_mb=disk,
        max_rows=max_rows,
        max_concurrency=max_concurrency,
        max_queued=max_queued,
    )
    own_token = token_from_environment() if allow_edit else ""
    token = own_token or (secrets.token_urlsafe(24) if allow_edit else None)
    edits_file = run.find_edits_file(kb, edits, needed=allow_edit)
    with run.bind(host, port) as sock, run.locked_edits(edits_file, needed=allow_edit):
        hosts = run.host_names(host, allowed_hosts)
        print_warnings(sock, hosts, own_token)
        for note in edits_file.notes if edits_file else ():
            print_warning(note)
        known = reading.read(kb)
        state = run.create_state(known, model, limits, edits_file, token)
        if state.service.model is not None:
            with kernel_progress():
                state.service.model.compile_kernels()  # the first request would not wait long enough
        added = [str(edits_file.path)] if edits_file and len(edits_file) else []
        local = run.is_loopback(sock)  # other machines need not know where files are
        state.python = python_snippet([kb, *reading.extra_files, *added], reading, model, full_paths=local)
        url = run.server_url(sock)

        def on_ready() -> None:
            print_status(url, state, "" if own_token else token or "", as_json)
            if open_browser:
                threading.Thread(target=open_page, args=(url,), daemon=True, name="gaifman-browser").start()

        run.run_server(state, sock, hosts, on_ready, print_warning)


def token_from_environment() -> str:
    """Return the token of the environment, or an empty string."""
    from gaifman.errors import GaifmanError

    token = os.environ.get(TOKEN_VARIABLE, "")
    if token != token.strip():
        raise GaifmanError(
            f"the token in {TOKEN_VARIABLE} is blank, or starts or ends with white space",
            hint=f"set {TOKEN_VARIABLE} to at least {MIN_TOKEN_LENGTH} characters, or unset it to generate a token",
        )
    return token


def print_warning(message: str) -> None:
    """Print a warning."""
    click.echo(f"warning: {message}", err=True)


def print_warnings(sock: socket.socket, allowed_hosts: list[str], token: str) -> None:
    """Print what a server that other machines can reach should have."""
    from gaifman.server.run import is_loopback

    if is_loopback(sock):
        return
    print_warning("other machines can connect to this server, without encryption")
    if not allowed_hosts:
        print_warning("other machines get status 421: allow their name for this machine with --allow-host NAME")
    if 0 < len(token) < MIN_TOKEN_LENGTH:
        print_warning(f"a token of {len(token)} characters can be guessed: use at least {MIN_TOKEN_LENGTH}")


def open_page(url: str) -> None:
    """Open the page in a browser, without the messages of xdg-open."""
    opener = shutil.which("open" if sys.platform == "darwin" else "xdg-open")
    quiet: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
    quiet |= {"start_new_session": True}  # Ctrl-C stops the server, not the browser
    if not opener or subprocess.run([opener, url], check=False, **quiet).returncode:  # noqa: S603 - our address
        click.echo(f"no browser found: open {url}", err=True)


def print_status(url: str, state: ServerState, token: str, as_json: bool) -> None:
    """Print the address and how to add facts."""
    added = len(state.edits) if state.edits else 0
    if as_json:
        body = {"url": url, "facts": len(state.service.kb), "edits": added, "token": token or None}
        click.echo(json.dumps(body))
        return
    click.echo(f"serving {state.service.kb!r} at {url}", err=True)
    if state.edits:
        click.echo(f"added facts: {added:,}, stored in {state.edits.path}", err=True)
    if token:
        click.echo(f"to add facts: Authorization: Bearer {token}", err=True)
    click.echo("press Ctrl-C to stop", err=True)

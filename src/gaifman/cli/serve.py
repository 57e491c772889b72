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

from gaifman.cli.terminal import json_option, open_kb, reading_options

if TYPE_CHECKING:
    from gaifman.desk import Desk
    from gaifman.edits import Edits
    from gaifman.service import Service

TOKEN = "GAIFMAN_TOKEN"  # noqa: S105 - the name of a variable
"""The environment's variable with the token; a command line can be read by others."""
LONG = 16
"""Characters of a token that nobody guesses."""


@click.command(short_help="Serve a knowledge base, and a model, to a browser and to programs.")
@click.argument("kb")
@click.argument("model", required=False)
@click.option("--open", "browse", is_flag=True, help="Open the page in a browser.")
@click.option("--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="0 for any that is free.")
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen at: this machine alone.")
@click.option("--allow-host", "hosts", multiple=True, metavar="NAME", help="Answer requests for this host name too.")
@click.option("--allow-edit", is_flag=True, help="Let whoever has the token add facts.")
@click.option("--edits", metavar="FILE", help="Keep added facts here.  [default: KB.edits.facts]")
@click.option(
    "--seconds", type=float, default=10.0, show_default=True, help="Stop the work of a request after so long."
)
@click.option("--rows", type=int, default=1000, show_default=True, help="Rows of one answer at most.")
@click.option("--at-once", type=int, default=16, show_default=True, help="Requests that are worked on at a time.")
@click.option("--waiting", type=int, default=64, show_default=True, help="Requests that wait; more are refused.")
@click.option("--with", "others", multiple=True, metavar="FILE", help="Read this file too.")
@reading_options
@json_option
def serve(
    kb: str,
    model: str | None,
    browse: bool,
    port: int,
    host: str,
    hosts: tuple[str, ...],
    allow_edit: bool,
    edits: str | None,
    seconds: float,
    rows: int,
    at_once: int,
    waiting: int,
    others: tuple[str, ...],
    form: str | None,
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
    from gaifman.config import Serving
    from gaifman.hosting import bound, is_loopback

    serving = Serving(seconds=seconds, rows=rows, at_once=at_once, waiting=waiting)
    given = token_of() if allow_edit else ""
    token = given or (secrets.token_urlsafe(24) if allow_edit else None)
    listening = bound(host, port)  # before anything is read: a port that is taken is said at once
    with listening, held(edits_of(kb, edits, allow_edit), allow_edit) as kept:
        names = [*hosts, *([] if host in ("0.0.0.0", "::") else [f"[{host}]" if ":" in host else host])]  # noqa: S104
        warn(listening, names, given)
        known = open_kb((kb, *others), form, table, iris)
        desk = desk_of(known, model, serving, kept, token)
        folders = is_loopback(listening)  # whoever asks from elsewhere need not know where files are
        added = [str(kept.path)] if kept and kept.path.exists() else []
        desk.python = python_of((kb, *others, *added), model, form, table, iris, folders=folders)
        run(desk, listening, names, "" if given else token or "", browse=browse, as_json=as_json)


def token_of() -> str:
    """The token of the environment; empty where there is none."""
    from gaifman.errors import GaifmanError

    given = os.environ.get(TOKEN, "")
    if given != given.strip():
        raise GaifmanError(
            f"the token in {TOKEN} is blank, or begins or ends with a blank",
            hint=f"set {TOKEN} to {LONG} characters or more; without it the server makes a token",
        )
    return given


def warn(listening: socket.socket, names: list[str], token: str) -> None:
    """Say what other machines can do, where they can reach the server."""
    from gaifman.hosting import is_loopback

    if is_loopback(listening):
        return
    click.echo("warning: other machines can reach this server, and nothing is encrypted", err=True)
    if not names:
        click.echo("warning: they get status 421 unless --allow-host NAME says what they call this machine", err=True)
    if 0 < len(token) < LONG:
        click.echo(f"warning: a token of {len(token)} characters can be guessed: take {LONG} or more", err=True)


def edits_of(kb: str, named: str | None, needed: bool) -> Edits | None:
    """The file of added facts: the one that is named, or the one beside the knowledge base where it is there."""
    from gaifman.edits import SUFFIX, Edits
    from gaifman.errors import OutputError

    if named:
        return Edits(named)
    if Path(kb).is_file():
        beside = Path(f"{kb}{SUFFIX}")
        return Edits(beside) if needed or beside.exists() else None
    if needed:
        raise OutputError(f"{kb} is no file that another could stand beside", hint="name one with --edits")
    return None


@contextmanager
def held(kept: Edits | None, needed: bool) -> Iterator[Edits | None]:
    """The file of added facts, which no other server writes as long as this lasts, where facts may be added.

    From before the knowledge base is read: what another server adds while that takes its time would be lost.
    """
    try:
        if kept and needed:
            kept.hold()
        yield kept
    finally:
        if kept:
            kept.close()


def desk_of(known: Any, model: str | None, serving: Any, kept: Edits | None, token: str | None) -> Desk:
    """What is served; a model that has nothing to do with the knowledge base is refused."""
    from gaifman.completion import load
    from gaifman.desk import Desk
    from gaifman.service import Service

    service = Service(kept.put(known) if kept else known, load(model) if model else None, serving)
    service.check()
    return Desk(service, kept, token)


def python_of(
    sources: tuple[str, ...], model: str | None, form: str | None, table: str | None, iris: str, *, folders: bool
) -> list[str]:
    """How a program reads the same, for people to copy.

    >>> python_of(("demo",), "dir/m.gaifman", None, None, "full", folders=False)
    ['import gaifman', 'kb = gaifman.demo()', 'model = gaifman.load("m.gaifman", kb)']
    >>> python_of(("demo", "more.facts"), None, None, None, "full", folders=False)[1]
    'kb = gaifman.demo().with_facts(gaifman.read("more.facts").facts())'
    """

    def written(value: str) -> str:
        return json.dumps(value if folders else Path(value).name, ensure_ascii=False)

    named = {"format": form, "table": table, "iris": "local" if iris == "local" else None}
    options = [f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in named.items() if value]
    bundled = sources[0] == "demo" and not Path("demo").exists() and not options
    read = sources[1:] if bundled else sources
    opened = f"gaifman.read({', '.join([*map(written, read), *options])})"
    if bundled:
        opened = f"gaifman.demo().with_facts({opened}.facts())" if read else "gaifman.demo()"
    loaded = [f"model = gaifman.load({written(model)}, kb)"] if model else []
    return ["import gaifman", f"kb = {opened}", *loaded]


def run(desk: Desk, listening: socket.socket, hosts: list[str], token: str, *, browse: bool, as_json: bool) -> None:
    """Serve until the end."""
    from gaifman.hosting import Host, url
    from gaifman.server import app_of

    address = url(listening)

    def ready() -> None:
        say(address, desk, token, as_json)
        threading.Thread(target=prepare, args=(desk.service,), daemon=True, name="gaifman-ready").start()
        if browse:
            threading.Thread(target=show, args=(address,), daemon=True, name="gaifman-browser").start()

    Host(app_of(desk, hosts), ready).run(sockets=[listening])


def prepare(service: Service) -> None:
    """Make what the first questions would have to wait for; what goes wrong there each of them will say."""
    from gaifman.errors import GaifmanError

    try:
        service.ready()
    except GaifmanError as error:
        click.echo(f"warning: {error.message}", err=True)


def show(address: str) -> None:
    """Open the page in a browser; xdg-open itself would write a line for each browser that it does not find."""
    opener = shutil.which("open" if sys.platform == "darwin" else "xdg-open")
    quiet: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
    quiet |= {"start_new_session": True}  # Ctrl-C ends the server, not the browser
    if not opener or subprocess.run([opener, address], check=False, **quiet).returncode:  # noqa: S603 - our address
        click.echo(f"no browser found; open {address}", err=True)


def say(address: str, desk: Desk, token: str, as_json: bool) -> None:
    """Where it is, once it answers."""
    import json

    added = len(desk.edits) if desk.edits else 0
    if as_json:
        body = {"url": address, "facts": len(desk.service.kb), "edits": added, "token": token or None}
        click.echo(json.dumps(body))
        return
    click.echo(f"serving {desk.service.kb!r} at {address}", err=True)
    if desk.edits:
        click.echo(f"added facts are kept in {desk.edits.path}: {added:,} so far", err=True)
    if token:
        click.echo(f"to add facts: Authorization: Bearer {token}", err=True)
    click.echo("Ctrl-C ends it", err=True)

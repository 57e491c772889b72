"""What the commands share: options, reading with a progress bar, tables, JSON."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from gaifman.errors import visible

if TYPE_CHECKING:
    from gaifman.kb import KnowledgeBase

Command = TypeVar("Command", bound=Callable[..., Any])
Progress = Callable[[str, int, int | None], None]

FORMATS = ("triples", "nary", "types", "attributes", "facts", "parquet", "ntriples", "turtle", "duckdb", "sqlite")
BUNDLED = Path(__file__).parent.parent / "data" / "countries.facts"
PATIENCE = 0.5
"""Seconds before a progress bar appears."""


def json_option(command: Command) -> Command:
    """`--json`, which every command has."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of text.")(command)


def reading_options(command: Command) -> Command:
    """How files are read."""
    for option in (
        click.option(
            "--iris",
            type=click.Choice(["full", "local"]),
            default="full",
            show_default=True,
            help="Names of RDF: whole, or what follows the last # or /.",
        ),
        click.option("--table", metavar="NAME", help="The table of a database to read; all of them otherwise."),
        click.option(
            "--format",
            "form",
            type=click.Choice(FORMATS),
            metavar="FORMAT",
            help=f"How to read the files, instead of guessing: {', '.join(FORMATS)}.",
        ),
    ):
        command = option(command)
    return command


def open_kb(
    sources: Sequence[str], form: str | None = None, table: str | None = None, iris: str = "full"
) -> KnowledgeBase:
    """Read the files; `demo` is the bundled one, where no such file is there."""
    from gaifman import datasets, io

    if list(sources) == ["demo"] and not Path("demo").exists() and form is None and table is None:
        return datasets.demo()
    sources = [str(BUNDLED) if name == "demo" and not Path("demo").exists() else name for name in sources]
    with progress() as report:
        return io.read(*sources, format=form, table=table, iris="local" if iris == "local" else "full", progress=report)


def check_target(path: str, *, force: bool) -> None:
    """Raise where a file would be replaced without being told to."""
    from gaifman.errors import OutputError

    if Path(path).exists() and not force:
        raise OutputError(f"{path} is there already", hint="--force replaces it")


@contextmanager
def progress() -> Iterator[Progress | None]:
    """A bar with phase, rate and time left, on a terminal, for work that takes longer than a moment."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    bar = Bar(*columns, console=Console(stderr=True), transient=True)
    tasks: dict[str, Any] = {}
    began = time.monotonic()

    def report(phase: str, done: int, total: int | None) -> None:
        if time.monotonic() - began < PATIENCE:
            return
        if not tasks:
            bar.start()
        if phase not in tasks:
            tasks[phase] = bar.add_task(visible(phase), total=total)
        bar.update(tasks[phase], completed=done, total=total)

    try:
        yield report
    finally:
        if tasks:
            bar.stop()


def print_table(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[object]], right: Sequence[int] = ()
) -> None:
    """A table below its title; `right` are the columns to align to the right."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for number, name in enumerate(columns):
        table.add_column(name, justify="right" if number in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell_text(cell)) for cell in row))
    console = Console(markup=False, highlight=False, emoji=False)
    with console.capture() as captured:
        console.print(table)
    click.echo("\n" + click.style(title, bold=True))
    click.echo("\n".join(line.rstrip() for line in captured.get().splitlines()))


def print_fields(fields: Iterable[tuple[str, object]]) -> None:
    """Names and values in two columns."""
    pairs = [(name, cell_text(value)) for name, value in fields]
    width = max(len(name) for name, _ in pairs)
    for name, value in pairs:
        click.echo(f"{click.style(name.ljust(width), bold=True)}  {value}")


def cell_text(value: object) -> str:
    """A value as a person reads it: numbers with separators, names with nothing hidden."""
    return f"{value:,}" if isinstance(value, int) else visible(str(value))


def print_json(body: object) -> None:
    """One JSON object, readable."""
    click.echo(json.dumps(body, ensure_ascii=False, indent=2))

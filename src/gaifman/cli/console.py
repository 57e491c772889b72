"""What the commands share: options, reading with a progress bar, tables, JSON."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from gaifman.config import ProgressCallback
from gaifman.errors import escape_unprintable

if TYPE_CHECKING:
    from rich.progress import ProgressColumn

    from gaifman.kb.knowledge_base import KnowledgeBase

Command = TypeVar("Command", bound=Callable[..., Any])

FORMATS = ("triples", "nary", "types", "attributes", "facts", "parquet", "ntriples", "turtle", "duckdb", "sqlite")
DEMO_FILE = Path(__file__).parent.parent / "data" / "countries.facts"
PROGRESS_DELAY = 0.5
"""Seconds before a progress bar appears."""
RESERVED_COLUMNS = 74
"""Columns of a terminal that are kept for what stands beside a bar."""


def json_option(command: Command) -> Command:
    """`--json`, which every command has."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of text.")(command)


def input_options(command: Command) -> Command:
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
            "file_format",
            type=click.Choice(FORMATS),
            metavar="FORMAT",
            help=f"How to read the files, instead of guessing: {', '.join(FORMATS)}.",
        ),
    ):
        command = option(command)
    return command


def open_kb(
    sources: Sequence[str], file_format: str | None = None, table: str | None = None, iris: str = "full"
) -> KnowledgeBase:
    """Read the files; `demo` is the bundled one, where no such file is there."""
    from gaifman import io
    from gaifman.io import demo as datasets

    if list(sources) == ["demo"] and not Path("demo").exists() and file_format is None and table is None:
        return datasets.demo()
    sources = [str(DEMO_FILE) if name == "demo" and not Path("demo").exists() else name for name in sources]
    with read_progress() as report:
        return io.read(
            *sources, format=file_format, table=table, iris="local" if iris == "local" else "full", progress=report
        )


def check_overwrite(path: str, *, force: bool) -> None:
    """Raise where a file would be replaced without being told to."""
    from gaifman.errors import OutputError

    if Path(path).exists() and not force:
        raise OutputError(f"{path} is there already", hint="--force replaces it")


def print_stopped(what: str, command: str, as_json: bool) -> None:
    """Ctrl-C was heard; what was done is kept, and this command goes on."""
    from gaifman.errors import StoppedError

    if as_json:
        click.echo(json.dumps(StoppedError(f"the {what} was stopped", hint=f"to go on: {command}").as_dict()), err=True)
    else:
        click.echo(f"stopped; to go on: {command}", err=True)


@contextmanager
def read_progress() -> Iterator[ProgressCallback | None]:
    """A bar with phase, rate and time left, on a terminal, for reading that takes longer than a moment."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    with _bars(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    ) as report:
        yield report


@contextmanager
def work_progress(unit: str = "examples") -> Iterator[ProgressCallback | None]:
    """As `read_progress`, for work that is counted: phase, share, count, rate in `unit` a second and time left.

    Threads may report at once. A phase that is complete, or has no known end, goes when another begins.
    """
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, ProgressColumn, Task, TextColumn, TimeRemainingColumn
    from rich.text import Text

    class Counts(ProgressColumn):
        """`45%  450/1,000  2,300 examples/s`, as far as it is known."""

        def render(self, task: Task) -> Text:
            return Text(format_counts(int(task.completed), task.total, task.finished_speed or task.speed, unit))

    class Left(TimeRemainingColumn):
        """`0:01:10 left`, once it can be told."""

        def render(self, task: Task) -> Text:
            known = task.total is not None and task.time_remaining is not None
            return super().render(task).append(" left") if known else Text()

    # On a narrow terminal the bar gives way, not the time that is left.
    bar = BarColumn(max(6, min(40, Console(stderr=True).width - RESERVED_COLUMNS)))
    columns = TextColumn("{task.description}", markup=False), bar, Counts(), Left()
    with _bars(*columns, counted=True) as report:
        yield report


def format_counts(done: int, total: float | None, speed: float | None, unit: str) -> str:
    """How far work is.

    >>> format_counts(450, 1000, 2300.4, "examples")
    ' 45%  450/1,000  2,300 examples/s'
    >>> format_counts(450, None, None, "examples")
    '450'
    """
    share = f"{done / total:>4.0%}  " if total else ""
    of = f"/{int(total):,}" if total is not None else ""
    return f"{share}{done:,}{of}" + (f"  {speed:,.{0 if speed >= 10 else 1}f} {unit}/s" if speed else "")


@contextmanager
def _bars(*columns: ProgressColumn, counted: bool = False) -> Iterator[ProgressCallback]:
    """One bar for each phase, once patience is at its end.

    Counted work may go on where it was stopped: what was done before tells nothing of its rate. Its phases go when they
    are complete.
    """
    from rich.console import Console
    from rich.progress import Progress as Bar

    bar = Bar(*columns, console=Console(stderr=True), transient=True)
    tasks: dict[str, Any] = {}
    waiting: dict[str, tuple[int, int | None]] = {}
    guard, began = threading.Lock(), time.monotonic()

    def show(phase: str, done: int, total: int | None) -> None:
        if not tasks:
            bar.start()
        if phase not in tasks:
            for task in bar.tasks if counted else ():
                bar.update(task.id, visible=not (task.finished or task.total is None))
            tasks[phase] = bar.add_task(escape_unprintable(phase), total=total, completed=done if counted else 0)
        bar.update(tasks[phase], completed=done, total=total)

    def report(phase: str, done: int, total: int | None) -> None:
        with guard:
            if time.monotonic() - began < PROGRESS_DELAY:
                waiting.clear()
                waiting[phase] = done, total
            else:
                waiting.clear()
                show(phase, done, total)

    def wake() -> None:
        """Show the phase that began before patience was at its end, if nothing was heard of it since."""
        with guard:
            for phase, (done, total) in waiting.items():
                show(phase, done, total)

    timer = threading.Timer(max(PROGRESS_DELAY, 0), wake)
    timer.daemon = True
    timer.start()
    try:
        yield report
    finally:
        timer.cancel()
        with guard:
            waiting.clear()
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
    return f"{value:,}" if isinstance(value, int) else escape_unprintable(str(value))


def print_json(body: object) -> None:
    """One JSON object, readable."""
    click.echo(json.dumps(body, ensure_ascii=False, indent=2))

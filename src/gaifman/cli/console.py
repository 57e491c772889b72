"""Parts that the commands share: options, reading files, verbosity, progress bars, tables and JSON."""

from __future__ import annotations

import functools
import json
import os
import re
import shlex
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, redirect_stderr
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, TypeVar, cast

import click

from gaifman._tables import Columns, csv_lines, json_lines
from gaifman.config import FILE_LIMITS, Limits, ProgressCallback
from gaifman.errors import escape_unprintable, shorten

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import ProgressColumn

    from gaifman.kb.knowledge_base import KnowledgeBase

Command = TypeVar("Command", bound=Callable[..., Any])

FORMATS = (
    *("triples", "nary", "types", "attributes", "facts", "parquet", "ntriples", "nquads", "turtle", "trig", "rdfxml"),
    *("jsonld", "jsonlines", "graphml", "duckdb", "sqlite"),
)
ROW_FORMAT = "gaifman.row_format"
"""Key of the chosen output format in click's context."""
VERBOSITY = "gaifman.verbosity"
"""Key of how much a command prints to standard error."""
DEMO_FILE = Path(__file__).parent.parent / "data" / "countries.facts"
PROGRESS_DELAY = 0.5
"""Seconds before a progress bar appears."""
RESERVED_COLUMNS = 74
"""Columns of a terminal for the text beside a bar."""
MAX_LISTED = 10
"""Rows of a table whose full content is in a file or in the JSON output."""


class CountOrAll(click.ParamType[int | str | None]):
    """An integer, or `all`, or another word."""

    def __init__(self, *words: str) -> None:
        self.words = words
        self.name = "|".join(("N", "all", *words))

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | str | None:
        """Return None for `all`."""
        if value == "all" or value is None:
            return None
        if value in self.words:
            return str(value)
        try:
            return int(value)
        except ValueError:
            words = "".join(f", nor {word}" for word in self.words)
            self.fail(f"{shorten(str(value))!r} is neither an integer nor all{words}.", param, ctx)


class CountOrAuto(click.ParamType[int | str]):
    """An integer, or `auto`."""

    name = "N|auto"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        """Return an integer or `auto`."""
        if value == "auto":
            return "auto"
        try:
            return int(value)
        except ValueError:
            self.fail(f"{shorten(str(value))!r} is neither an integer nor auto.", param, ctx)


def json_option(command: Command) -> Command:
    """Add `--json`, which every command has; `output_options` adds it too."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of text.")(command)


class OutputFormat(click.Choice[str]):
    """How a table is printed; a format of files gets a hint."""

    def __init__(self) -> None:
        super().__init__(("table", "csv", "json", "jsonl"))

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the format."""
        if value in FORMATS and value not in self.choices:
            self.fail(f"{value!r} is a format of files that are read: --input-format {value}.", param, ctx)
        return super().convert(value, param, ctx)


def output_options(command: Command) -> Command:
    """Add `--format` and `--json` to a command that prints a table: `as_json`, and what `print_rows` needs."""

    @functools.wraps(command)
    def with_format(*arguments: Any, output_format: str, as_json: bool, **settings: Any) -> Any:
        if as_json and output_format not in ("table", "json"):
            raise click.UsageError(f"--json and --format {output_format} exclude each other.")
        click.get_current_context().meta[ROW_FORMAT] = output_format
        return command(*arguments, as_json=as_json or output_format == "json", **settings)

    option = click.option(
        "--format",
        "output_format",
        type=OutputFormat(),
        default="table",
        show_default=True,
        help="What to print: a table for people, rows with raw numbers, or one JSON object.",
    )
    found: Any = option(json_option(with_format))
    return found  # type: ignore[no-any-return]


def print_rows(columns: Callable[[], Columns]) -> bool:
    """With `--format csv` or `jsonl`, print the rows of the command's table; return whether that was asked for."""
    chosen = click.get_current_context().meta.get(ROW_FORMAT)
    if chosen not in ("csv", "jsonl"):
        return False
    sys.stdout.writelines(csv_lines(columns()) if chosen == "csv" else json_lines(columns()))
    return True


def bind_option(command: Command) -> Command:
    """Add `--bind`."""
    return click.option(
        "--bind", "bindings", multiple=True, metavar="VARIABLE=OBJECT", help="Give a variable a value. Repeatable."
    )(command)


SIZE_HELP = "Objects of a neighbourhood besides the tuple (k), or `all`."
RADIUS_HELP = "Steps from the tuple to its members (r)."


def sampling_options(command: Command) -> Command:
    """Add the options that say how neighbourhoods are drawn."""
    size = click.option("--size", "-k", type=CountOrAll(), default=20, show_default=True, help=SIZE_HELP)
    radius = click.option("--radius", "-r", type=int, default=1, show_default=True, help=RADIUS_HELP)
    return _sampling_options(command, size, radius)


def training_sampling_options(command: Command) -> Command:
    """Add the same options for training, where size and radius depend on the base model."""
    size = click.option(
        "--size",
        "-k",
        type=CountOrAll("auto"),
        default="auto",
        show_default=True,
        help=f"{SIZE_HELP} auto: all for ranked lists, 20 for networks.",
    )
    radius = click.option(
        "--radius",
        "-r",
        type=CountOrAuto(),
        default="auto",
        show_default=True,
        help=f"{RADIUS_HELP} auto: 1 for networks, as far as paths reach for ranked lists with a size.",
    )
    return _sampling_options(command, size, radius)


def _sampling_options(
    command: Command, size: Callable[[Command], Command], radius: Callable[[Command], Command]
) -> Command:
    return radius(size(click.option("--seed", type=int, default=0, show_default=True, help="Random seed.")(command)))


@dataclass(frozen=True, slots=True)
class MappingOptions:
    """What the columns of tables are."""

    map: tuple[str, ...] = ()
    id: str | None = None
    wide: bool = False
    separator: str | None = None
    ignore: tuple[str, ...] = ()

    def arguments(self) -> dict[str, Any]:
        """Return the options that are given, as arguments of `gaifman.read` that JSON can hold."""
        given = {"map": [*self.map], "id": self.id, "wide": self.wide, "separator": self.separator}
        return {name: value for name, value in (given | {"ignore": [*self.ignore]}).items() if value}

    @classmethod
    def from_arguments(cls, given: dict[str, Any]) -> MappingOptions:
        """Return the options with these arguments."""
        options: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in given.items()
        }
        return cls(**options)

    def check(self) -> None:
        """Raise at a mistake in the mapping."""
        if arguments := self.arguments():
            from gaifman.io.mapping import make_mapping

            make_mapping(clauses=arguments.pop("map", ()), **arguments)

    def flags(self) -> list[str]:
        """Return the options as words of a command.

        >>> MappingOptions(map=("a likes b",), wide=True).flags()
        ['--map', 'a likes b', '--wide']
        """
        words = []
        for name, value in self.arguments().items():
            for one in value if isinstance(value, list) else [value]:
                words += [f"--{name}"] if one is True else [f"--{name}", one]
        return words


@dataclass(frozen=True, slots=True)
class InputOptions:
    """How a command reads its files."""

    file_format: str | None = None
    """None to detect the format."""
    table: str | None = None
    """A table of a database; None for all tables."""
    iris: str = "prefixed"
    extra_files: tuple[str, ...] = ()
    """Files of `--with`, which are read into the knowledge base too."""
    header: bool | None = None
    """Whether the first line of a table is a header; None to detect it."""
    limits: tuple[str, ...] = ()
    """Limits of `--limit`: `facts=1000000`."""
    mapping: MappingOptions = MappingOptions()
    labels: str | None = None
    """A file of labels."""
    language: str | None = None
    """The language of labels; None for those without a language, or English."""

    def read(self, *sources: str) -> KnowledgeBase:
        """Read the files and the extra files; `demo` is the bundled one, unless a file has that name."""
        from gaifman import io

        names = [*sources, *self.extra_files]
        bundled = [name == "demo" and not Path("demo").exists() for name in names]
        plain = self.file_format is None and self.table is None and self.labels is None
        if all(bundled) and len(names) == 1 and plain and self.mapping == MappingOptions():
            return io.demo()
        paths = [str(DEMO_FILE) if is_demo else name for name, is_demo in zip(names, bundled, strict=True)]
        iris: Any = self.iris
        with read_progress() as report:
            return io.read(
                *paths,
                format=self.file_format,
                table=self.table,
                iris=iris,
                header=self.header,
                limits=parse_limits(self.limits),
                labels=self.labels,
                language=self.language or "",
                progress=report,
                **self.mapping.arguments(),
            )

    def without_extra_files(self) -> InputOptions:
        """Return the options for another file, into which the extra files are not read."""
        return replace(self, extra_files=())

    def arguments(self) -> dict[str, str]:
        """Return the options that are not the default, by the names that `gaifman.read` and the commands share."""
        given = {
            "format": self.file_format,
            "table": self.table,
            "iris": None if self.iris == "prefixed" else self.iris,
            "labels": self.labels,
            "language": self.language,
        }
        return {name: value for name, value in given.items() if value}

    def flags(self) -> list[str]:
        """Return the options as words of a command."""
        options = {"input-format" if name == "format" else name: value for name, value in self.arguments().items()}
        header = [] if self.header is None else ["--header" if self.header else "--no-header"]
        words = [word for name, value in options.items() for word in (f"--{name}", value)]
        return [*words, *header, *self.mapping.flags(), *(word for limit in self.limits for word in ("--limit", limit))]


def input_options(command: Command) -> Command:
    """Add `--input-format`, `--table`, `--iris`, `--header` and `--limit`: the argument `reading` of the command."""
    return _reading_options(command)


def kb_options(command: Command) -> Command:
    """Add the input options and `--with`, for commands that take one knowledge base."""
    extra = click.option("--with", "extra_files", multiple=True, metavar="FILE", help="Read this file into KB too.")
    return extra(_reading_options(command))


def _reading_options(command: Command) -> Command:
    @functools.wraps(command)
    def with_reading(
        *arguments: Any,
        file_format: str | None,
        table: str | None,
        iris: str,
        header: bool | None,
        limits: tuple[str, ...],
        table_map: tuple[str, ...],
        row_id: str | None,
        wide: bool,
        separator: str | None,
        ignore: tuple[str, ...],
        labels: str | None,
        language: str | None,
        extra_files: tuple[str, ...] = (),
        **settings: Any,
    ) -> Any:
        mapping = MappingOptions(table_map, row_id, wide, separator, ignore)
        parse_limits(limits)  # mistakes are reported before the work begins
        mapping.check()
        reading = InputOptions(file_format, table, iris, extra_files, header, limits, mapping, labels, language)
        return command(*arguments, reading=reading, **settings)

    found: Any = with_reading
    for option in (
        click.option(
            "--limit",
            "limits",
            multiple=True,
            metavar="NAME=NUMBER",
            help=f"Read more or less than by default: {', '.join(FILE_LIMITS)}.",
        ),
        *_mapping_options(),
        click.option(
            "--header/--no-header",
            default=None,
            help="Whether the first line of a table names its columns.  [default: detected]",
        ),
        click.option(
            "--iris",
            type=click.Choice(["prefixed", "full", "local"]),
            default="prefixed",
            show_default=True,
            help="Names in RDF files: with the prefixes of the file, the full IRI, or its part after the last # or /.",
        ),
        click.option(
            "--language",
            metavar="TAG",
            help="Language of the labels in RDF files, such as de or de,fr.  [default: without a language, English]",
        ),
        click.option("--labels", metavar="FILE", help="Labels of objects: a file of lines OBJECT<tab>LABEL, or RDF."),
        click.option("--table", metavar="NAME", help="Table of a database to read.  [default: all]"),
        click.option(
            "--input-format",
            "file_format",
            type=click.Choice(FORMATS),
            metavar="FORMAT",
            help=f"Format of the files, one of {', '.join(FORMATS)}.  [default: detected]",
        ),
    ):
        found = option(found)
    return found  # type: ignore[no-any-return]


def _mapping_options() -> list[Callable[[Command], Command]]:
    return [
        click.option(
            "--ignore", multiple=True, metavar="COLUMN", help="Column of tables that is not read. Repeatable."
        ),
        click.option("--separator", metavar="TEXT", help="What separates several objects in a cell of a table."),
        click.option("--wide", is_flag=True, help="Tables have one object per row: other columns describe it."),
        click.option("--id", "row_id", metavar="COLUMN", help="Column of the object of a row.  [default: the first]"),
        click.option(
            "--map",
            "table_map",
            multiple=True,
            metavar="MAPPING",
            help='What columns of tables are: "employee works_in dept", "employee is person", "employee age", '
            '"gave(giver, gift, receiver)". Repeatable.',
        ),
    ]


def command_text(words: Sequence[str] | None = None) -> str:
    """Return a command of gaifman for messages and records, by default this one; passwords in URLs are left out.

    >>> command_text(["info", "postgresql://ann:secret@localhost/family"])
    'gaifman info postgresql://ann@localhost/family'
    """
    shown = []
    for word in sys.argv[1:] if words is None else words:
        option, sign, value = word.partition("=") if word.startswith("--") else ("", "", word)
        shown.append(f"{option}{sign}{_without_password(value)}")
    return shlex.join(["gaifman", *shown])


def _without_password(name: str) -> str:
    """A source without the password, which only a URL can have."""
    from gaifman.io.files import is_url

    if not is_url(name):
        return name
    from gaifman.io.database_urls import hide_password

    return hide_password(name)


def python_snippet(
    sources: Sequence[str], reading: InputOptions, model: str | None = None, *, full_paths: bool = True
) -> list[str]:
    """Return the lines of Python that read the same files and load the model.

    >>> python_snippet(["demo"], InputOptions(), "dir/m.gaifman", full_paths=False)
    ['import gaifman', 'kb = gaifman.demo()', 'model = gaifman.load("m.gaifman", kb)']
    >>> python_snippet(["demo", "more.facts"], InputOptions())[1]
    'kb = gaifman.demo().with_facts(gaifman.read("more.facts").facts())'
    >>> python_snippet(["staff.csv"], InputOptions(mapping=MappingOptions(id="name", wide=True)))[1]
    'kb = gaifman.read("staff.csv", id="name", wide=True)'
    """
    from gaifman.io.files import is_url

    def literal(value: str) -> str:
        if is_url(value):  # other machines need not know where the database is
            shown = _without_password(value) if full_paths else f"{value.partition(':')[0]}://…"
        else:
            shown = value if full_paths else Path(value).name
        return json.dumps(shown, ensure_ascii=False)

    options = [f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in reading.arguments().items()]
    options += [] if reading.header is None else [f"header={reading.header}"]
    for name, value in reading.mapping.arguments().items():
        options.append(f"{name}={value if value is True else json.dumps(value, ensure_ascii=False)}")
    if reading.limits:
        options.append(f"limits=gaifman.Limits({', '.join(reading.limits)})")
    bundled = sources[0] == "demo" and not Path("demo").exists() and not options
    files = sources[1:] if bundled else sources
    read = f"gaifman.read({', '.join([*map(literal, files), *options])})"
    if bundled:
        read = f"gaifman.demo().with_facts({read}.facts())" if files else "gaifman.demo()"
    load = [f"model = gaifman.load({literal(model)}, kb)"] if model else []
    return ["import gaifman", f"kb = {read}", *load]


def parse_bindings(texts: Sequence[str], option: str = "--bind", kind: str = "object") -> dict[str, str]:
    """Return the variables and values of an option.

    >>> parse_bindings(("x=ann", "?y=a=b"))
    {'x': 'ann', 'y': 'a=b'}
    """
    from gaifman.errors import FormulaError

    bindings: dict[str, str] = {}
    for text in texts:
        name, sign, value = text.partition("=")
        name = name.strip().removeprefix("?")
        if not sign or not name or not value:
            example = f"{option} x={'france' if kind == 'object' else 'country'}"
            raise FormulaError(
                f"{option} needs VARIABLE={kind.upper()}, got {shorten(text)!r}",
                hint=f"for example: {example}",
            )
        if name in bindings:
            raise FormulaError(f"{option} has two values for {name}: {shorten(bindings[name])} and {shorten(value)}")
        bindings[name] = value
    return bindings


def parse_limits(texts: Sequence[str]) -> Limits:
    """Return the limits of `--limit`.

    >>> parse_limits(["facts=1_000", "bytes=5000"]).facts
    1000
    """
    from gaifman.errors import InputError, similar_names

    given: dict[str, int] = {}
    for text in texts:
        name, _, number = text.partition("=")
        if name not in FILE_LIMITS:
            raise InputError(
                f"there is no limit {shorten(name)}",
                suggestions=similar_names(name, FILE_LIMITS),
                hint=f"limits: {', '.join(FILE_LIMITS)}",
            )
        if not re.fullmatch(r"[1-9][0-9_]{0,30}", number):
            raise InputError(
                f"--limit needs NAME=NUMBER, got {shorten(text)!r}", hint="for example: --limit facts=1000"
            )
        given[name] = int(number)
    return Limits(**given)


def parse_model_options(texts: Sequence[str]) -> dict[str, Any]:
    """Return the settings of `--option`: values are JSON if they can be, else text.

    >>> parse_model_options(["epochs=5", "hidden=[50, 50]", "activation=relu"])
    {'epochs': 5, 'hidden': [50, 50], 'activation': 'relu'}
    """
    from gaifman.errors import FormulaError

    options: dict[str, Any] = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not sign or not name.isidentifier():
            raise FormulaError(f"--option needs NAME=VALUE, got {text!r}", hint="for example: --option epochs=5")
        try:
            options[name] = json.loads(value)
        except ValueError:
            options[name] = value
    return options


def check_overwrite(path: str, *, force: bool) -> None:
    """Raise an error if the file exists, unless it is to be replaced."""
    from gaifman.errors import OutputError

    if Path(path).exists() and not force:
        raise OutputError(f"{path} already exists", hint="--force replaces it")


def print_stopped(what: str, command: str, as_json: bool) -> None:
    """Report that Ctrl-C stopped the work, and the command that resumes it."""
    from gaifman.errors import StoppedError

    if as_json:
        error = StoppedError(f"the {what} was stopped", hint=f"to resume: {command}")
        click.echo(json.dumps(error.as_dict()), file=error_stream())
    else:
        click.echo(f"stopped; to resume: {command}", file=error_stream())


# Verbosity: on standard error are errors only, or notes too, or also settings and times. Its options are in settings.py


@dataclass(slots=True)
class Verbosity:
    """How much a command prints, kept with its context, and the times of its phases."""

    quiet: bool = False
    verbose: bool = False
    stderr: TextIO | None = None
    """Standard error, while a quiet command prints nothing there."""
    clock: Callable[[], float] = time.monotonic
    _times: dict[str, tuple[float, float]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def record(self, phase: str) -> None:
        """Note that a phase has reported."""
        now = self.clock()
        with self._lock:
            first, _ = self._times.get(phase, (now, now))
            self._times[phase] = first, now

    def phase_seconds(self) -> dict[str, float]:
        """Phase → the seconds between its first and last report."""
        return {phase: last - first for phase, (first, last) in self._times.items()}

    @contextmanager
    def silence(self) -> Iterator[None]:
        """Discard what is printed to standard error meanwhile; errors are printed later, or by `error_stream`."""
        self.stderr = sys.stderr
        with Path(os.devnull).open("w", encoding="utf-8") as nothing, redirect_stderr(nothing):
            try:
                yield
            finally:
                self.stderr = None


def verbosity() -> Verbosity:
    """The verbosity of the command that runs."""
    context = click.get_current_context(silent=True)
    if context is None:
        return Verbosity()
    return cast(Verbosity, context.meta.setdefault(VERBOSITY, Verbosity()))


def error_stream() -> TextIO:
    """The stream of errors, also of a quiet command."""
    return verbosity().stderr or sys.stderr


def timed(report: ProgressCallback | None) -> ProgressCallback | None:
    """A progress callback that also notes the times of phases, if the command is verbose."""
    current = verbosity()
    if not current.verbose:
        return report

    def record(phase: str, done: int, total: int | None) -> None:
        current.record(phase)
        if report:
            report(phase, done, total)

    return record


# Progress


def _terminal() -> Console | None:
    """Return the console of standard error if it is a terminal."""
    if not sys.stderr.isatty():
        return None
    from rich.console import Console

    return Console(stderr=True)


@contextmanager
def read_progress() -> Iterator[ProgressCallback | None]:
    """On a terminal, show a bar with bytes, rate and time left while files are read; None elsewhere."""
    console = _terminal()
    if console is None:
        yield timed(None)
        return
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    columns = [TextColumn("{task.description}", markup=False), BarColumn()]
    columns += [DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn()]
    with _bars(console, columns) as report:
        yield timed(report)


@contextmanager
def work_progress(unit: str = "examples", kernels: int | None = None) -> Iterator[ProgressCallback | None]:
    """On a terminal, show a bar with count, rate in `unit` per second and time left; None elsewhere.

    Threads may report at the same time. A phase that is complete, or has no known end, disappears when another begins.
    The first run of a command on a machine compiles kernels, which has a bar too; `kernels` is their usual number.
    """
    console = _terminal()
    if console is None:
        yield timed(None)
        return
    from rich.progress import BarColumn, ProgressColumn, Task, TextColumn, TimeRemainingColumn
    from rich.text import Text

    from gaifman.kernels.jit import PHASE, compilation_progress

    class Counts(ProgressColumn):
        """`45%  450/1,000  2,300 examples/s`."""

        def render(self, task: Task) -> Text:
            own = "functions" if task.description == PHASE else unit
            return Text(format_counts(int(task.completed), task.total, task.finished_speed or task.speed, own))

    class TimeLeft(TimeRemainingColumn):
        """`0:01:10 left`, once it can be estimated."""

        def render(self, task: Task) -> Text:
            known = task.total is not None and task.time_remaining is not None
            return super().render(task).append(" left") if known else Text()

    # On a narrow terminal the bar shrinks, so that the time left is still visible.
    bar = BarColumn(max(6, min(40, console.width - RESERVED_COLUMNS)))
    columns = [TextColumn("{task.description}", markup=False), bar, Counts(), TimeLeft()]
    with _bars(console, columns, counted=True, passing=PHASE) as report, compilation_progress(report, kernels):
        yield timed(report)


def kernel_progress() -> AbstractContextManager[object]:
    """Show the compilation of kernels, for commands that have no other progress."""
    return work_progress()


def format_counts(done: int, total: float | None, speed: float | None, unit: str) -> str:
    """Return how much is done, as text.

    >>> format_counts(450, 1000, 2300.4, "examples")
    ' 45%  450/1,000  2,300 examples/s'
    >>> format_counts(450, None, None, "examples")
    '450'
    >>> format_counts(0, None, None, "examples")
    ''
    """
    if total is None and not done:
        return ""
    share = f"{done / total:>4.0%}  " if total else ""
    of = f"/{int(total):,}" if total is not None else ""
    return f"{share}{done:,}{of}" + (f"  {speed:,.{0 if speed >= 10 else 1}f} {unit}/s" if speed else "")


@contextmanager
def _bars(
    console: Console,
    columns: Sequence[ProgressColumn],
    *,
    counted: bool = False,
    passing: str = "",
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[ProgressCallback]:
    """Show one bar per phase, once `PROGRESS_DELAY` is over.

    Counted work may have been resumed: the count of its first report is no work of now, and has no rate. Its complete
    phases disappear. The `passing` phase is only visible until another one reports.
    """
    from rich.progress import Progress

    progress = Progress(*columns, console=console, transient=True, get_time=clock)
    tasks: dict[str, Any] = {}
    waiting: dict[str, tuple[int, int | None]] = {}
    lock, start = threading.Lock(), clock()

    def show(phase: str, done: int, total: int | None) -> None:
        if not tasks:
            progress.start()
        if phase not in tasks:
            for task in progress.tasks if counted else ():
                progress.update(task.id, visible=not (task.finished or task.total is None))
            tasks[phase] = progress.add_task(escape_unprintable(phase), total=total, completed=done if counted else 0)
        progress.update(tasks[phase], completed=done, total=total)
        if passing in tasks:
            progress.update(tasks[passing], visible=phase == passing)

    def report(phase: str, done: int, total: int | None) -> None:
        with lock:
            waiting.clear()
            if clock() - start < PROGRESS_DELAY:
                waiting[phase] = done, total
            else:
                show(phase, done, total)

    def show_waiting() -> None:
        """Show a phase that began within the delay and has not reported since."""
        with lock:
            for phase, (done, total) in waiting.items():
                show(phase, done, total)

    timer = threading.Timer(max(PROGRESS_DELAY, 0), show_waiting)
    timer.daemon = True
    timer.start()
    try:
        yield report
    finally:
        timer.cancel()
        with lock:
            waiting.clear()
        if tasks:
            progress.stop()


def print_table(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[object]], right: Sequence[int] = ()
) -> None:
    """Print a table below its title; `right` are the columns to align to the right."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for number, name in enumerate(columns):
        table.add_column(name, justify="right" if number in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(_cell(value)) for value in row))
    console = Console(markup=False, highlight=False, emoji=False)
    with console.capture() as captured:
        console.print(table)
    click.echo("\n" + click.style(title, bold=True))
    click.echo("\n".join(line.rstrip() for line in captured.get().splitlines()))


def print_more(count: int, what: str, where: str) -> None:
    """Print how many rows a table leaves out, and where they are; nothing if none are left out."""
    if count > 0:
        click.echo(f"… {count:,} more {what} ({where})")


def print_fields(fields: Iterable[tuple[str, object]]) -> None:
    """Print names and values in two columns."""
    pairs = [(name, _cell(value)) for name, value in fields]
    width = max(len(name) for name, _ in pairs)
    for name, value in pairs:
        click.echo(f"{click.style(name.ljust(width), bold=True)}  {value}")


def _cell(value: object) -> str:
    """A value as text: integers with separators, names without control characters."""
    return f"{value:,}" if isinstance(value, int) else escape_unprintable(str(value))


def print_json(body: object) -> None:
    """Print one JSON object, indented."""
    click.echo(json.dumps(body, ensure_ascii=False, indent=2))

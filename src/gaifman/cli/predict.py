"""The command that lists missing facts: predict."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gaifman.cli.console import (
    InputOptions,
    check_overwrite,
    command_text,
    kb_options,
    output_options,
    print_json,
    print_more,
    print_rows,
    print_stopped,
    print_table,
    work_progress,
)
from gaifman.errors import escape_unprintable

if TYPE_CHECKING:
    from gaifman.jobs.predict import MissingSearch
    from gaifman.missing import MissingFacts

MAX_ROWS = 20
"""Facts that are printed."""


@click.command(short_help="List the probable missing facts.")
@click.argument("model")
@click.argument("kb")
@click.option("-o", "--output", metavar="FILE", help="Write all to a .csv, .tsv, .jsonl, .parquet, .facts or .nt file.")
@click.option("--above", type=float, default=0.5, show_default=True, help="Smallest probability.")
@click.option("--top", type=int, metavar="N", help="At most N facts.  [default: all]")
@click.option("--per-relation", type=int, metavar="N", help="At most N facts of each relation.  [default: all]")
@click.option("--relation", "relations", multiple=True, metavar="NAME", help="Only this relation. Repeatable.")
@click.option("--why", is_flag=True, help="Add the best reason for each fact, and the facts behind it.")
@click.option("--covered", is_flag=True, help="Leave out facts about which the model has little to go on.")
@click.option("--threads", type=click.IntRange(min=1), help="Number of threads.  [default: all processors]")
@click.option("--force", is_flag=True, help="Replace FILE, and start again if the search was interrupted.")
@kb_options
@output_options
def predict(
    model: str,
    kb: str,
    output: str | None,
    above: float,
    top: int | None,
    per_relation: int | None,
    relations: tuple[str, ...],
    why: bool,
    covered: bool,
    threads: int | None,
    force: bool,
    reading: InputOptions,
    as_json: bool,
) -> None:
    """List the facts that KB does not have and MODEL, a completion, finds probable.

    \b
    Examples:
      gaifman predict countries.gaifman demo
      gaifman predict countries.gaifman demo -o missing.csv --why
      gaifman predict countries.gaifman demo --relation capital --above 0.2 --top 10

    Every tuple is a candidate whose objects can be at their positions: they were seen there, or have a type of such
    objects. All candidates that reach the probability are listed, the most probable first. If writing FILE is
    interrupted, the same command continues.
    """
    from gaifman.completion import Completion, load
    from gaifman.errors import KnowledgeBaseError
    from gaifman.io.files import check_writable
    from gaifman.io.results import result_format
    from gaifman.jobs.predict import MissingSearch
    from gaifman.missing import SearchOptions

    options = SearchOptions(above, top, per_relation, why, covered)
    if output:
        result_format(output)
        check_overwrite(output, force=force)
        check_writable(Path(output))
    loaded = load(model)
    if not isinstance(loaded, Completion):
        again = command_text(["train", kb, "-o", "MODEL"])
        raise KnowledgeBaseError(
            f"{model} is the model of one query, and missing facts need a completion",
            hint=f"{again}, without a query; or rank answers: gaifman answer",
        )
    loaded = loaded.with_kb(reading.read(kb))
    if output:
        search = MissingSearch(loaded, Path(model), Path(output), relations or None, options)
        found = _write(search, threads, force, as_json)
    else:
        with work_progress("questions") as report:
            found = loaded.find_missing(relations or None, options, threads=threads, progress=report)
    _print(found, output, as_json)


def _write(search: MissingSearch, threads: int | None, force: bool, as_json: bool) -> MissingFacts:
    """Find missing facts and write them; after Ctrl-C, print how to continue."""
    from gaifman.jobs.predict import predict_to_file
    from gaifman.jobs.run import InterruptHandler, WorkStopped

    interrupt = InterruptHandler("" if as_json else "stopping …")
    try:
        with interrupt, work_progress("questions") as report:
            return predict_to_file(
                search, threads=threads, progress=report, should_stop=interrupt.stop_requested, force=force
            )
    except (WorkStopped, KeyboardInterrupt):
        again = [word for word in sys.argv[1:] if word != "--force"]
        print_stopped("search", command_text(again), as_json)
        sys.exit(128 + (interrupt.received or signal.SIGINT))


def _print(found: MissingFacts, output: str | None, as_json: bool) -> None:
    """Print the facts, or where they were written, and what was considered."""
    from gaifman.predict import format_probability

    if as_json:
        body = found.summary.as_dict() | {"file": output} if output else found.as_dict()
        print_json(body)
        return
    if print_rows(found.columns):
        _print_summary(found, output, to_stderr=True)
        return
    rows = [(format_probability(one.probability), one.statement, one.note) for one in found[:MAX_ROWS]]
    if rows:
        title = "Missing facts, the most probable first"
        columns = ["probability", "fact", "because" if found.reasons else ""]
        print_table(title, columns, rows, right=[0])
        print_more(len(found) - MAX_ROWS, "facts", f"in {output}" if output else "-o FILE writes all")
    click.echo()
    _print_summary(found, output)


def _print_summary(found: MissingFacts, output: str | None, *, to_stderr: bool = False) -> None:
    """Print what was considered, and where the facts were written."""
    for line in found.summary.lines():
        click.echo(escape_unprintable(line), err=to_stderr)
    if output:
        click.echo(f"written: {output}", err=to_stderr)

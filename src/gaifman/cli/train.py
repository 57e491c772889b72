"""What comes out of a training, on the terminal: figures, a picture, what to type next."""

from __future__ import annotations

import json
import os
import shlex
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gaifman.cli.console import (
    DEMO_FILE,
    Command,
    check_overwrite,
    input_options,
    json_option,
    open_kb,
    print_fields,
    print_json,
    print_stopped,
    print_table,
    work_progress,
)
from gaifman.cli.kb import sampling_options

if TYPE_CHECKING:
    from gaifman.jobs.run import Run
    from gaifman.jobs.train import SourceText, TrainedModel
    from gaifman.kb.knowledge_base import KnowledgeBase
    from gaifman.logic.ast import Query


MAX_RELATIONS = 10
"""Relations listed on the terminal; the card has more."""


def reopen_kb(kb: dict[str, Any]) -> KnowledgeBase:
    """The knowledge base of a run; its files are named from the folder in which it was begun."""
    return open_kb(_sources(kb), kb["format"], kb["table"], kb["iris"])


def _sources(kb: dict[str, Any]) -> list[str]:
    """The files as they are named from here; `demo` is what it was when the run was begun."""
    there, found = Path(kb["working_dir"]), []
    for name in kb["sources"]:
        bundled = name == "demo" and not (there / name).exists()
        found.append(
            ("demo" if not Path("demo").exists() else str(DEMO_FILE)) if bundled else _shortest_path(there / name)
        )
    return found


def _shortest_path(path: Path) -> str:
    """A path from here, where that is shorter."""
    return min(os.path.relpath(path), str(path), key=len)


def plot_calibration(model: TrainedModel, settings: dict[str, Any]) -> None:
    """Draw how far the probabilities can be believed, where that was asked for."""
    from gaifman.errors import shorten
    from gaifman.plots import plot_reliability

    if (
        settings["plot"]
        and model.held_out_report
        and model.held_out_report.uncalibrated
        and model.held_out_report.calibrated
    ):
        what = model.meta.get("query") or f"{len(model.meta['relations']):,} relations"
        title = f"{shorten(what, 50)}: {len(model.held_out_report.held_out.means):,} held-out tuples"
        plot_reliability(
            model.held_out_report.uncalibrated,
            model.held_out_report.calibrated,
            Path(settings["kb"]["working_dir"]) / settings["plot"],
            title,
        )


def print_outcome(
    model: TrainedModel, kb: KnowledgeBase | None, target: Path, settings: dict[str, Any], as_json: bool
) -> None:
    """What was learnt, where it is, and what to type next."""
    if as_json:
        print_json({"written": str(target), **model.meta})
        return
    _print_metrics(model.meta, target)
    _print_next_steps(model, kb, target, settings)


def _print_metrics(meta: dict[str, Any], target: Path) -> None:
    metrics = meta["metrics"]
    rows = [("answers", metrics["answers"]), ("features", meta["features"]), ("held-out tuples", metrics["held_out"])]
    if metrics["held_out"]:
        area = (
            "–" if metrics["auc"] is None else f"{metrics['auc']:.3f}: how often an answer gets more than a corruption"
        )
        error = f"{metrics['ece_after']:.3f}, uncalibrated {metrics['ece_before']:.3f}"
        rows += [("AUC", area), ("calibration error", error)]
    print_fields(rows)
    if "relations" not in meta:
        return
    best = sorted(meta["relations"], key=lambda row: (-row["answers"], row["name"]))
    table = [(row["name"], row["answers"], *_relation_metrics(row)) for row in best]
    columns = ["relation", "answers", "held-out tuples", "AUC"]
    print_table("Relations", columns, table[:MAX_RELATIONS], right=[1, 2, 3])
    if len(table) > MAX_RELATIONS:
        click.echo(f"… and {len(table) - MAX_RELATIONS:,} more in {target}.md")


def _relation_metrics(row: dict[str, Any]) -> tuple[object, str]:
    """How well a relation was learnt, or why not."""
    if not row["trained"]:
        return "–", row["reason"]
    return row["held_out"], "–" if row["auc"] is None else f"{row['auc']:.3f}"


def _print_next_steps(model: TrainedModel, kb: KnowledgeBase | None, target: Path, settings: dict[str, Any]) -> None:
    """What is there now, and what to type to ask it."""
    plot = f" and {settings['plot']}" if settings["plot"] else ""
    click.echo(f"\nwrote {target}, {target}.md (what it is), {target}.log.jsonl (what happened){plot}", err=True)
    if kb is None:
        return
    sources = _sources(settings["kb"])
    reading = {name: settings["kb"][given] for name, given in (("format", "format"), ("table", "table"))}
    reading["iris"] = "local" if settings["kb"]["iris"] == "local" else None
    options = {name: value for name, value in reading.items() if value}
    relation, found = _example_answer(model, kb)
    words = ["gaifman", "answer", str(target), sources[0], *_query_arguments(model, kb, relation, found)]
    words += [word for other in sources[1:] for word in ("--with", other)]
    words += [word for name, value in options.items() for word in (f"--{name}", value)]
    click.echo(f"to rank answers:\n  {shlex.join(words)}", err=True)
    named = [*map(repr, sources), *(f"{name}={value!r}" for name, value in options.items())]
    read = "gaifman.demo()" if named == ["'demo'"] else f"gaifman.read({', '.join(named)})"
    call = f"model.probability({', '.join(map(repr, [*relation, *(found or ('…',))]))})"
    click.echo("to ask it, in Python:", err=True)
    for line in ("import gaifman", f"model = gaifman.load({str(target)!r}, {read})", call):
        click.echo(f"  {line}", err=True)


def _example_answer(model: TrainedModel, kb: KnowledgeBase) -> tuple[list[str], tuple[str, ...]]:
    """The largest relation of a completion, and a known answer, where one is found quickly."""
    from gaifman.completion import Completion
    from gaifman.config import Budget
    from gaifman.errors import GaifmanError
    from gaifman.logic.ast import relation_query
    from gaifman.queries.answers import query

    asked: str | Query
    if isinstance(model, Completion):
        relation = max(model.relations, key=lambda name: (name in model.scorers, kb.relations[name].count))
        asked, first = relation_query(relation, model.relations[relation]), [relation]
    else:
        asked, first = model.query, []
    try:
        return first, next(iter(query(kb, asked, budget=Budget(seconds=2, rows=1))), ())
    except GaifmanError:
        return first, ()


def _query_arguments(model: TrainedModel, kb: KnowledgeBase, relation: list[str], found: tuple[str, ...]) -> list[str]:
    """What the command is asked: objects of the known answer for all variables but the last."""
    from gaifman.completion import Completion
    from gaifman.logic.ast import Query, relation_query
    from gaifman.logic.printer import format_relation

    query = relation_query(relation[0], model.relations[relation[0]]) if isinstance(model, Completion) else model.query
    assert isinstance(query, Query), "a trained model has read its query"
    names = [variable.name for variable in query.variables]
    sure = [f"?{name}" if name in kb.objects else name for name in names]  # an object may have the variable's name
    asked = [f"{format_relation(name)}({', '.join(sure)})" for name in relation]
    return asked + [word for name, obj in zip(names[:-1], found, strict=False) for word in ("--bind", f"{name}={obj}")]


CHECKPOINT_INTERVAL = 30.0
"""Between two checkpoints of a relation."""


def run_options(command: Command) -> Command:
    """How a run goes, whatever comes out."""
    for option in (
        click.option(
            "--checkpoint-interval",
            type=click.FloatRange(min=0),
            metavar="SECONDS",
            help=f"How often to write down how far a relation is; {CHECKPOINT_INTERVAL:g} unless the run was begun with another.",
        ),
        click.option("--threads", type=click.IntRange(min=1), help="How many threads; the result is the same."),
    ):
        command = option(command)
    return command


def training_options(command: Command) -> Command:
    """How a model learns."""
    for option in (
        click.option("--option", "options", multiple=True, metavar="NAME=VALUE", help="Set the base model: epochs=5."),
        click.option("--base", default="mlp", show_default=True, help="The base model: mlp or logistic."),
        click.option(
            "--draws", type=int, default=10, show_default=True, help="Neighbourhoods to average answers over."
        ),
        click.option(
            "--patience", type=int, default=0, help="Stop after so many passes without a better loss; 0: never."
        ),
        click.option(
            "--min-examples",
            type=int,
            default=20_000,
            show_default=True,
            help="Examples to learn from at least: where a pass has few, there are more passes.",
        ),
        click.option(
            "--min-feature-count", type=int, default=2, show_default=True, help="Leave out features seen less often."
        ),
        click.option("--holdout", type=float, default=0.1, show_default=True, help="Share of the answers to hold out."),
        click.option(
            "--hide",
            type=click.Choice(["facts", "links"]),
            default="facts",
            show_default=True,
            help="What examples do not see: the facts that make them true, or all links between their objects too.",
        ),
        click.option(
            "--negative-sampling",
            type=click.Choice(["uniform", "typed", "mixed"]),
            default="mixed",
            show_default=True,
            help="Where the objects of corruptions come from.",
        ),
        click.option(
            "--hard-negative-fraction",
            type=float,
            default=0.0,
            show_default=True,
            help="Share of corruptions tried with an object two or three steps from one that stays.",
        ),
        click.option("--negatives", type=int, default=25, show_default=True, help="Corruptions of each answer (w̃)."),
        click.option("--positives", type=int, default=5, show_default=True, help="Neighbourhoods of each answer (w)."),
        click.option(
            "--phi", default="default", show_default=True, help="A .phi file, or paper, universal-schema, default."
        ),
    ):
        command = option(command)
    return command


@click.command(short_help="Learn a query, or every relation, and write the model.")
@click.argument("kb")
@click.argument("query", required=False)
@click.option("--output", "-o", required=True, metavar="MODEL", help="Where to write the model.")
@click.option("--relation", "relations", multiple=True, metavar="NAME", help="Without QUERY: only this relation.")
@sampling_options
@training_options
@click.option("--constraints", metavar="FILE", help="What is functional, and which types places have.")
@run_options
@click.option("--with", "extra_files", multiple=True, metavar="FILE", help="Read this file too.")
@click.option("--plot", metavar="FILE", help="Draw how far the probabilities can be believed: .svg, .png or .pdf.")
@click.option("--force", is_flag=True, help="Replace MODEL, or a run that was not finished.")
@input_options
@json_option
def train(
    kb: str,
    query: str | None,
    output: str,
    relations: tuple[str, ...],
    constraints: str | None,
    threads: int | None,
    checkpoint_interval: float | None,
    extra_files: tuple[str, ...],
    plot: str | None,
    force: bool,
    file_format: str | None,
    table: str | None,
    iris: str,
    as_json: bool,
    phi: str,
    options: tuple[str, ...],
    **training_settings: Any,
) -> None:
    """Learn which tuples are answers of QUERY; without QUERY, one model for each relation of KB.

    The model is written to MODEL, what it is to MODEL.md, what happened to MODEL.log.jsonl. Stopped or killed,
    `gaifman resume MODEL` goes on, and the model is the same to the last byte.

    \b
    Examples:
      gaifman train demo -o countries.gaifman
      gaifman train demo "exists z. borders(x, z) & borders(z, y)" -o near.gaifman --size 10
      gaifman train train.tsv "born_in(x, y)" -o born.gaifman --phi born.phi --option epochs=5
    """
    from gaifman.jobs.run import Run
    from gaifman.jobs.train import TrainingSpec

    _check_output(output, plot, force=force)
    file = read_text_file(phi) if Path(phi).suffix == ".phi" or Path(phi).is_file() else None
    settings = {**training_settings, "phi": Path(phi).stem if file else phi, "options": parse_model_options(options)}
    rules = read_text_file(constraints) if constraints else None
    order = TrainingSpec(settings, query, relations or None, file, rules)
    order.check()
    begun: dict[str, Any] = {
        "kb": {
            "sources": [kb, *extra_files],
            "format": file_format,
            "table": table,
            "iris": iris,
            "working_dir": str(Path.cwd()),
        },
        "spec": order.as_dict(),
        "command": shlex.join(["gaifman", *sys.argv[1:]]),
        "plot": plot,
        "checkpoint_interval": CHECKPOINT_INTERVAL if checkpoint_interval is None else checkpoint_interval,
    }
    _check_sources(begun["kb"])
    with Run.create(run_dir(output), begun, force=force) as run:
        _run_to_end(run, Path(output), threads, as_json, is_new=True)


@click.command(short_help="Go on with a training that was stopped or killed.")
@click.argument("model")
@run_options
@json_option
def resume(model: str, threads: int | None, checkpoint_interval: float | None, as_json: bool) -> None:
    """Go on with the training of MODEL from where it stood.

    \b
    Examples:
      gaifman resume countries.gaifman
    """
    from gaifman.errors import InputError
    from gaifman.jobs.run import RECORD, Run

    target = Path(model.removesuffix("/").removesuffix(".run"))
    folder = run_dir(str(target))
    if target.is_file() and not (folder / RECORD).exists():
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()  # all that was left to do
        raise InputError(f"there is nothing to resume: {target} is finished")
    with Run.open(folder) as run:
        if checkpoint_interval is not None:
            run.settings["checkpoint_interval"] = checkpoint_interval
        _run_to_end(run, target, threads, as_json, is_new=False)


def run_dir(output: str) -> Path:
    """Where the run of a model stands."""
    return Path(f"{output}.run")


def _check_output(output: str, plot: str | None, *, force: bool) -> None:
    """Say now what would be wrong at the end."""
    from gaifman.errors import OutputError
    from gaifman.io.files import check_writable

    if output.endswith((".run", "/")):
        raise OutputError(f"{output} is no name for a model", hint="as in: -o countries.gaifman")
    # Where there is a run, what stands beside the model may be its own.
    for end in ("",) if run_dir(output).exists() else ("", ".md", ".log.jsonl"):
        check_overwrite(output + end, force=force)
        check_writable(Path(output + end))
    if plot:
        from gaifman.plots import check_plot

        check_overwrite(plot, force=force)
        check_plot(Path(plot))


def _check_sources(kb: dict[str, Any]) -> None:
    """A run reads its knowledge base again when it is resumed."""
    from gaifman.errors import InputError

    for name in kb["sources"]:
        if name == "-":
            raise InputError(
                "what comes from standard input cannot be read again when the training is resumed",
                hint="write it to a file first: gaifman convert - kb.duckdb --format triples",
            )
        if name != "demo" and not Path(name).exists():
            raise InputError(f"there is no file {name}")


def _run_to_end(run: Run, target: Path, threads: int | None, as_json: bool, *, is_new: bool) -> None:
    from gaifman.errors import GaifmanError
    from gaifman.jobs.interrupt import InterruptHandler
    from gaifman.jobs.train import TrainingInterrupted, finish_cleanup, has_progress, run_training

    run.checkpoint_seconds = run.settings["checkpoint_interval"]
    again = f"gaifman resume {shlex.quote(str(target))}"
    interrupt = InterruptHandler("" if as_json else f"stopping: {again} goes on")
    try:
        model, known = finish_cleanup(run, target), None
        if model is None:
            known = reopen_kb(run.settings["kb"])  # not yet guarded: here Ctrl-C may stop at once
            with interrupt, work_progress() as report:
                model = run_training(
                    run,
                    known,
                    target,
                    threads=threads,
                    report=report,
                    should_stop=interrupt.stop_requested,
                    on_model=lambda model: plot_calibration(model, run.settings),
                )
    except (TrainingInterrupted, KeyboardInterrupt):
        print_stopped("training", again, as_json)
        sys.exit(128 + (interrupt.received or signal.SIGINT))
    except GaifmanError:
        if is_new and not has_progress(run):
            run.discard()  # what was asked for cannot be done: nothing stays behind
        elif not as_json:
            click.echo(f"what was learnt is kept; when it is put right: {again}", err=True)
        raise
    print_outcome(model, known, target, run.settings, as_json)


def read_text_file(path: str) -> SourceText:
    from gaifman.errors import InputError
    from gaifman.jobs.train import SourceText

    try:
        return SourceText(Path(path).name, Path(path).read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise InputError(f"{path} cannot be read: {why}") from None


def parse_model_options(options: tuple[str, ...]) -> dict[str, Any]:
    """`epochs=5`, `hidden=[50, 50]`, `activation=relu`: values as JSON where they are, as texts where not."""
    from gaifman.errors import FormulaError

    found: dict[str, Any] = {}
    for text in options:
        name, sign, value = text.partition("=")
        if not sign or not name.isidentifier():
            raise FormulaError(f"{text!r} sets nothing", hint="write NAME=VALUE, as in --option epochs=5")
        try:
            found[name] = json.loads(value)
        except ValueError:
            found[name] = value
    return found

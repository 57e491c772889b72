"""`gaifman train` and `gaifman resume`: learn a query or all relations, in a run that survives being killed."""

from __future__ import annotations

import json
import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gaifman.cli.neighbourhood import drawing_options
from gaifman.cli.terminal import (
    Command,
    check_target,
    json_option,
    open_kb,
    print_fields,
    print_json,
    print_table,
    reading_options,
    working,
)

if TYPE_CHECKING:
    from gaifman.completion import Completion
    from gaifman.model import GaifmanModel
    from gaifman.runs import Run

SHOWN = 10
"""Relations listed on the terminal; the card has more."""
STOPPED = 130
"""The exit code of what was stopped by Ctrl-C."""


def learning_options(command: Command) -> Command:
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
        click.option("--rare", type=int, default=2, show_default=True, help="Leave out features seen less often."),
        click.option("--holdout", type=float, default=0.1, show_default=True, help="Share of the answers to hold out."),
        click.option(
            "--hide",
            type=click.Choice(["facts", "links"]),
            default="facts",
            show_default=True,
            help="What examples do not see: the facts that make them true, or all links between their objects too.",
        ),
        click.option(
            "--pool",
            type=click.Choice(["uniform", "typed", "mixed"]),
            default="mixed",
            show_default=True,
            help="Where the objects of corruptions come from.",
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
@drawing_options
@learning_options
@click.option("--constraints", metavar="FILE", help="What is functional, and which types places have.")
@click.option("--threads", type=int, help="How many threads; the result is the same.")
@click.option("--with", "others", multiple=True, metavar="FILE", help="Read this file too.")
@click.option("--plot", metavar="FILE", help="Draw how far the probabilities can be believed: SVG, PNG or PDF.")
@click.option("--force", is_flag=True, help="Replace MODEL, or a run that was not finished.")
@reading_options
@json_option
def train(
    kb: str,
    query: str | None,
    output: str,
    relations: tuple[str, ...],
    constraints: str | None,
    threads: int | None,
    others: tuple[str, ...],
    plot: str | None,
    force: bool,
    form: str | None,
    table: str | None,
    iris: str,
    as_json: bool,
    phi: str,
    options: tuple[str, ...],
    **learning: Any,
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
    from gaifman.errors import FormulaError
    from gaifman.plots import check_name

    check_target(output, force=force)
    if plot:
        check_name(Path(plot))
    if query is not None and relations:
        raise FormulaError("a query is given and a relation too", hint="--relation is for training without a query")
    features = {"phi": _named(phi), "options": _parsed(options)}
    settings: dict[str, Any] = {
        "kb": {"sources": [kb, *others], "form": form, "table": table, "iris": iris, "folder": str(Path.cwd())},
        "order": {
            "learning": {**learning, **features},
            "query": query,
            "relations": list(relations) or None,
            "phi": _text(phi) if Path(phi).suffix == ".phi" or Path(phi).exists() else None,
            "constraints": _text(constraints) if constraints else "",
        },
        "command": shlex.join(["gaifman", *sys.argv[1:]]),
        "plot": plot,
    }
    _check_learning(settings["order"]["learning"])
    from gaifman.runs import Run

    with Run.create(folder_of(output), settings, force=force) as run:
        _carried_on(run, Path(output), threads, as_json, fresh=True)


@click.command(short_help="Go on with a training that was stopped or killed.")
@click.argument("model")
@click.option("--threads", type=int, help="How many threads; the result is the same.")
@json_option
def resume(model: str, threads: int | None, as_json: bool) -> None:
    """Go on with the training of MODEL from where it stood.

    \b
    Examples:
      gaifman resume countries.gaifman
    """
    from gaifman.errors import InputError
    from gaifman.runs import Run

    folder = Path(model) if model.endswith(".run") else folder_of(model)
    target = Path(str(folder).removesuffix(".run"))
    if not folder.exists() and target.exists():
        raise InputError(f"there is nothing to resume: {target} is finished")
    with Run.open(folder) as run:
        _carried_on(run, target, threads, as_json, fresh=False)


def folder_of(output: str) -> Path:
    """Where the run of a model stands."""
    return Path(f"{output}.run")


def _carried_on(run: Run, target: Path, threads: int | None, as_json: bool, *, fresh: bool) -> None:
    from gaifman.errors import GaifmanError
    from gaifman.runs import Interrupt
    from gaifman.training import Interrupted, carry_on

    again = f"gaifman resume {shlex.quote(str(target))}"
    try:
        with Interrupt(f"stopping: {again} goes on") as interrupt:
            known = _read(run.settings["kb"])
            with working() as report:
                model = carry_on(
                    run,
                    known,
                    target,
                    threads=threads,
                    report=report,
                    stop=interrupt.interrupted,
                    command=run.settings["command"],
                )
    except Interrupted:
        click.echo(f"stopped; to go on: {again}", err=True)
        sys.exit(STOPPED)
    except GaifmanError:
        if fresh:
            run.discard()  # what was asked for cannot be done: nothing stays behind
        raise
    if run.settings["plot"]:
        _draw(model, run.settings["plot"])
    _show(model.meta, target, as_json)


def _read(kb: dict[str, Any]) -> Any:
    """The knowledge base of a run; its files are named from the folder in which it was begun."""
    there = Path(kb["folder"])
    sources = [name if name in ("demo", "-") else os.path.relpath(there / name) for name in kb["sources"]]
    return open_kb(sources, kb["form"], kb["table"], kb["iris"])


def _named(phi: str) -> str:
    return Path(phi).stem if Path(phi).exists() else phi


def _text(path: str) -> str:
    from gaifman.errors import InputError

    try:
        return Path(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise InputError(f"{path} cannot be read: {why}") from None


def _parsed(options: tuple[str, ...]) -> dict[str, Any]:
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


def _check_learning(settings: dict[str, Any]) -> None:
    """Say at once what is wrong with settings, before anything is read."""
    from gaifman.learning import Learning
    from gaifman.phi import NAMED, chosen

    learning = Learning.of(settings)
    learning.new_base()
    if learning.phi not in NAMED:
        chosen(learning.phi, 1, {}) if not Path(learning.phi).exists() else None


def _draw(model: GaifmanModel | Completion, path: str) -> None:
    from gaifman.plots import reliability_plot

    if model.trust and model.trust.before and model.trust.after:
        reliability_plot(model.trust.before, model.trust.after, path, title=f"{model}")


def _show(meta: dict[str, Any], target: Path, as_json: bool) -> None:
    """What was learnt."""
    if as_json:
        print_json({"written": str(target), **meta})
        return
    metrics = meta["metrics"]
    rows = [("answers", metrics["answers"]), ("features", meta["features"]), ("held out", metrics["held_out"])]
    if metrics["held_out"]:
        rows += [
            ("AUC", f"{metrics['auc']:.3f}"),
            ("calibration error", f"{metrics['ece_after']:.3f} (uncalibrated {metrics['ece_before']:.3f})"),
        ]
    print_fields(rows)
    if "relations" in meta:
        best = sorted(meta["relations"], key=lambda row: (-row["answers"], row["name"]))
        table = [
            (row["name"], row["answers"], f"{row['losses'][-1]:.3f}" if row["trained"] else row["why"]) for row in best
        ]
        print_table("Relations", ["relation", "answers", "loss"], table[:SHOWN], right=[1, 2])
        if len(table) > SHOWN:
            click.echo(f"… and {len(table) - SHOWN:,} more in {target}.md")
    click.echo(f"wrote {target}, {target}.md and {target}.log.jsonl", err=True)

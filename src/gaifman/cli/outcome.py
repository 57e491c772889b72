"""What comes out of a training, on the terminal: figures, a picture, what to type next."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gaifman.cli.terminal import DEMO_FILE, open_kb, print_fields, print_json, print_table

if TYPE_CHECKING:
    from gaifman.jobs.train import Model
    from gaifman.kb.knowledge_base import KnowledgeBase
    from gaifman.logic.ast import Query

MAX_RELATIONS = 10
"""Relations listed on the terminal; the card has more."""


def reopen_kb(kb: dict[str, Any]) -> KnowledgeBase:
    """The knowledge base of a run; its files are named from the folder in which it was begun."""
    return open_kb(_sources(kb), kb["form"], kb["table"], kb["iris"])


def _sources(kb: dict[str, Any]) -> list[str]:
    """The files as they are named from here; `demo` is what it was when the run was begun."""
    there, found = Path(kb["folder"]), []
    for name in kb["sources"]:
        bundled = name == "demo" and not (there / name).exists()
        found.append(
            ("demo" if not Path("demo").exists() else str(DEMO_FILE)) if bundled else _shortest_path(there / name)
        )
    return found


def _shortest_path(path: Path) -> str:
    """A path from here, where that is shorter."""
    return min(os.path.relpath(path), str(path), key=len)


def plot_calibration(model: Model, settings: dict[str, Any]) -> None:
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
            Path(settings["kb"]["folder"]) / settings["plot"],
            title,
        )


def print_outcome(
    model: Model, kb: KnowledgeBase | None, target: Path, settings: dict[str, Any], as_json: bool
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
        return "–", row["why"]
    return row["held_out"], "–" if row["auc"] is None else f"{row['auc']:.3f}"


def _print_next_steps(model: Model, kb: KnowledgeBase | None, target: Path, settings: dict[str, Any]) -> None:
    """What is there now, and what to type to ask it."""
    plot = f" and {settings['plot']}" if settings["plot"] else ""
    click.echo(f"\nwrote {target}, {target}.md (what it is), {target}.log.jsonl (what happened){plot}", err=True)
    if kb is None:
        return
    sources = _sources(settings["kb"])
    reading = {name: settings["kb"][given] for name, given in (("format", "form"), ("table", "table"))}
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


def _example_answer(model: Model, kb: KnowledgeBase) -> tuple[list[str], tuple[str, ...]]:
    """The largest relation of a completion, and a known answer, where one is found quickly."""
    from gaifman.completion import Completion, relation_query
    from gaifman.config import Budget
    from gaifman.errors import GaifmanError
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


def _query_arguments(model: Model, kb: KnowledgeBase, relation: list[str], found: tuple[str, ...]) -> list[str]:
    """What the command is asked: objects of the known answer for all variables but the last."""
    from gaifman.completion import Completion, relation_query
    from gaifman.logic.ast import Query
    from gaifman.logic.printer import format_relation

    query = relation_query(relation[0], model.relations[relation[0]]) if isinstance(model, Completion) else model.query
    assert isinstance(query, Query), "a trained model has read its query"
    names = [variable.name for variable in query.variables]
    sure = [f"?{name}" if name in kb.objects else name for name in names]  # an object may have the variable's name
    asked = [f"{format_relation(name)}({', '.join(sure)})" for name in relation]
    return asked + [word for name, obj in zip(names[:-1], found, strict=False) for word in ("--set", f"{name}={obj}")]

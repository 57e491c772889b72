"""The command `gaifman demo`: a tour of the bundled knowledge base, and a trial with held-out facts."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gaifman.cli.console import json_option, kernel_progress, print_fields, print_json, print_table, work_progress
from gaifman.cli.kb import kb_summary, print_neighbourhood
from gaifman.cli.train import held_out_fields
from gaifman.config import ProgressCallback

if TYPE_CHECKING:
    from gaifman.completion import Completion
    from gaifman.evaluation.evaluate import Evaluation
    from gaifman.kb.knowledge_base import KnowledgeBase

HOLD_OUT_EVERY = 20
"""One fact in this many is held out."""
MIN_FACTS = 100
"""Smallest relation of the trial: of fewer facts, hardly any would be held out."""
DRAWS = 3
"""Neighbourhoods per candidate when held-out facts are ranked."""
TOP_K = 10
PRIOR = 0.001
"""Assumed fraction of true facts among the pairs of objects that are not known."""
MAX_ANSWERS = 6
"""Answers of the query to show."""
SEED = 1

EXAMPLE_FACTS = (
    ("borders", "france", "spain"),
    ("capital", "spain", "madrid"),
    ("separates", "pyrenees", "france", "spain"),
)
EXAMPLE_QUERY = "exists z. borders(x, z) & borders(z, y) & x != y & ~borders(x, y)"
EXAMPLE_PAIR = ("portugal", "france")
COUNT_QUERY = "borders('france', y)"
MISSPELLED = "bordrs(x, y)"
NEIGHBOURHOOD = ("france", "spain")
NEIGHBOURHOOD_SIZE = 5
TRAINED_QUERY = "exists z. flows_through(z, x) & flows_through(z, y) & x != y"
NEXT_COMMANDS = (
    "gaifman train demo -o countries.gaifman",
    "gaifman answer countries.gaifman demo \"official_language('malta', y)\"",
    'gaifman answer countries.gaifman demo "borders(x, y)" --known exclude',
    "gaifman info your_facts.tsv",
)

FactsByRelation = dict[str, list[tuple[str, ...]]]
"""Relation → objects of facts."""


@click.command(short_help="Show what gaifman does, on a bundled knowledge base.")
@json_option
def demo(as_json: bool) -> None:
    """Show what gaifman does, on a bundled knowledge base of the world's countries.

    \b
    Example:
      gaifman demo

    Shows facts, a query and a neighbourhood. Then holds out some facts, trains on the rest, and shows how well the
    held-out facts are predicted and which facts are probably missing. Takes about ten seconds.
    """
    from gaifman.io import demo as load_demo
    from gaifman.kb.gaifman_graph import build_graph
    from gaifman.kernels.jit import TRAIN_FUNCTIONS
    from gaifman.sampling.neighbourhoods import named_neighbourhoods

    kb = load_demo()
    graph = build_graph(kb)
    with kernel_progress():
        drawn = named_neighbourhoods(graph, NEIGHBOURHOOD, size=NEIGHBOURHOOD_SIZE)[0]
    facts, formula, sizes = _example_facts(kb), _formula_fields(kb), kb_summary(kb)
    if as_json:
        body = {"kb": sizes, "example_facts": facts, "formula": formula, "graph": graph.summary()}
        print_json({**body, "neighbourhood": drawn.as_dict(), "trial": run_trial(kb)})
        return
    _heading("The countries of the world, a bundled knowledge base", first=True)
    print_fields((name, sizes[name]) for name in ("objects", "facts", "relations", "attributes"))
    _heading("Some facts")
    click.echo("\n".join(f"  {fact}" for fact in facts))
    _print_formula(formula)
    rest = sum(drawn.not_drawn.values()) + NEIGHBOURHOOD_SIZE
    _heading(f"A neighbourhood of ({', '.join(NEIGHBOURHOOD)}): {NEIGHBOURHOOD_SIZE} of {rest} adjacent objects")
    print_neighbourhood(drawn, 3, f"gaifman neighbourhood demo {' '.join(NEIGHBOURHOOD)} --size {NEIGHBOURHOOD_SIZE}")
    with work_progress("items", TRAIN_FUNCTIONS) as report:
        results = run_trial(kb, report)
    print_trial(results)
    _heading("Next")
    click.echo("\n".join(f"  {line}" for line in (*activation_hint(), *NEXT_COMMANDS)))


def _heading(text: str, *, first: bool = False) -> None:
    click.echo(("" if first else "\n") + click.style(text, bold=True))


def activation_hint() -> list[str]:
    """Return the command that puts `gaifman` on the path, if it is not there: `make` installs into .venv."""
    activate = Path(sys.executable).with_name("activate")
    if shutil.which("gaifman") or not activate.exists():
        return []
    here = Path.cwd()
    return [f". {activate.relative_to(here) if activate.is_relative_to(here) else activate}"]


def _example_facts(kb: KnowledgeBase) -> list[str]:
    from gaifman.kb.knowledge_base import Fact

    return [str(Fact(name, tuple(objects))) for name, *objects in EXAMPLE_FACTS if (name, *objects) in kb]


def _formula_fields(kb: KnowledgeBase) -> dict[str, Any]:
    """Return a parsed query, its truth for a pair, a count, and the message for a misspelled name."""
    from gaifman.errors import FormulaError
    from gaifman.logic.ast import to_bracketed
    from gaifman.logic.parser import parse, parse_query
    from gaifman.logic.semantics import count, holds

    structure = kb.structure()
    query = parse_query(EXAMPLE_QUERY, kb.schema)
    try:
        message = str(parse(MISSPELLED, kb.schema))
    except FormulaError as error:
        message = str(error)
    return {
        "text": EXAMPLE_QUERY,
        "canonical": str(query),
        "bracketed": to_bracketed(query),
        "truth": holds(structure, query.formula, dict(zip(query.variables, EXAMPLE_PAIR, strict=True))),
        "count": count(structure, parse(COUNT_QUERY, kb.schema)),
        "error": message,
    }


def _print_formula(formula: dict[str, Any]) -> None:
    _heading("A query: which countries are two borders apart?")
    print_fields(
        [
            ("query", formula["text"]),
            ("read as", formula["bracketed"]),
            (f"for {', '.join(EXAMPLE_PAIR)}", "true" if formula["truth"] else "false"),
            (f"answers of {COUNT_QUERY}", formula["count"]),
        ]
    )
    _heading("A misspelled name")
    click.echo("\n".join(f"  {line}" for line in formula["error"].splitlines()))


def run_trial(kb: KnowledgeBase, progress: ProgressCallback | None = None) -> dict[str, Any]:
    """Hold out facts, train on the rest, rank the held-out facts, and find the best missing ones."""
    from gaifman.completion import train_completion
    from gaifman.evaluation.evaluate import evaluate, evaluate_popularity
    from gaifman.kb.knowledge_base import KnowledgeBase
    from gaifman.training import TrainingConfig

    held_out = hold_out_facts(kb)
    facts = [(name, *objects) for name, own in held_out.items() for objects in own]
    rest = kb.without_facts(facts)
    store = _counting_store(len(held_out), progress)
    completion = train_completion(rest, TrainingConfig(seed=SEED), held_out, store=store)
    test = KnowledgeBase.from_facts(facts)
    evaluation = evaluate(completion, rest, test, draws=DRAWS, progress=progress)
    popularity = evaluate_popularity(completion, rest, test)
    _report(progress, "ranking missing facts")
    missing = [best_missing(completion, name, own) for name, own in held_out.items()]
    _report(progress, "training a query")
    return {
        "held_out": len(facts),
        "relations": relation_rows(evaluation, popularity),
        "missing": sorted(missing, key=lambda row: (-row["probability"], row["fact"])),
        "missing_share": completion.assumed_missing,
        "query": train_query(kb, rest),
    }


def hold_out_facts(kb: KnowledgeBase) -> FactsByRelation:
    """Return the facts to hold out: one in `HOLD_OUT_EVERY` of each larger binary relation.

    The inverse of a held-out fact of the same relation is held out too: it would give the fact away.
    """
    held_out: FactsByRelation = {}
    for relation in kb.relations.values():
        if relation.arity == 2 and relation.count >= MIN_FACTS:
            facts = [fact.objects for fact in kb.facts(relation.name)]
            chosen = facts[::HOLD_OUT_EVERY]
            inverse = {(y, x) for x, y in chosen}
            held_out[relation.name] = [pair for pair in facts if pair in inverse or pair in chosen]
    return held_out


def relation_rows(evaluation: Evaluation, popularity: Evaluation) -> list[dict[str, Any]]:
    """Return the filtered metrics of each relation, over both positions, and those of popularity."""
    by_relation, baseline = (each.metrics_by("relation") for each in (evaluation, popularity))
    typed = [each.as_dict()["classification"]["relation"] for each in (evaluation, popularity)]
    return [
        {
            "relation": name,
            "held_out": metrics.ranks // 2,
            "mean_rank": round(metrics.mean_rank.value, 1),
            "mrr": round(metrics.mrr.value, 3),
            "mrr_popularity": round(baseline[name].mrr.value, 3),
            "hits_at_10": round(metrics.hits[10].value, 3),
            **_typed_auc(*(each[name]["auc"] for each in typed)),
        }
        for name, metrics in by_relation.items()
    ]


def _typed_auc(own: float | None, popularity: float | None) -> dict[str, float | None]:
    """Return the AUC of held-out facts and of negatives with objects of the right type."""
    if own is None or popularity is None:
        return {"typed_auc": None, "typed_auc_popularity": None}
    return {"typed_auc": round(own, 3), "typed_auc_popularity": round(popularity, 3)}


def best_missing(completion: Completion, relation: str, held_out: Sequence[tuple[str, ...]]) -> dict[str, Any]:
    """Return the best fact of a relation that is not known, and how many of the best ten were held out."""
    from gaifman.kb.knowledge_base import Fact
    from gaifman.logic.ast import relation_query

    answers = completion.answers(relation_query(relation, 2), top=TOP_K, known="exclude")
    best = answers[0]
    return {
        "fact": str(Fact(relation, best.names)).removesuffix("."),
        "probability": best.probability,
        "standard_error": best.estimate.error,
        "held_out": best.names in held_out,
        "held_out_in_top_10": sum(answer.names in held_out for answer in answers),
    }


def train_query(kb: KnowledgeBase, training_kb: KnowledgeBase) -> dict[str, Any]:
    """Train a query without the held-out facts; return its best new answers and whether they are true in `kb`."""
    from gaifman.logic.ast import to_bracketed
    from gaifman.logic.parser import parse_query
    from gaifman.model import fit
    from gaifman.queries.answers import query

    model = fit(training_kb, TRAINED_QUERY, seed=SEED)
    true, rows = set(query(kb, TRAINED_QUERY)), list[dict[str, Any]]()
    for answer in model.answers(top=2 * MAX_ANSWERS, known="exclude", prior=PRIOR):
        if [*reversed(answer.names)] not in [row["names"] for row in rows]:  # the query is symmetric
            estimate = {"probability": answer.probability, "standard_error": answer.estimate.error}
            rows.append({"names": list(answer.names), **estimate, "true": answer.names in true})
    return {
        "text": TRAINED_QUERY,
        "bracketed": to_bracketed(parse_query(TRAINED_QUERY, kb)),
        "answers": model.meta["metrics"]["answers"],
        "metrics": {name: value for name, value in model.meta["metrics"].items() if name not in ("answers", "losses")},
        "missing": rows[:MAX_ANSWERS],
    }


def print_trial(results: dict[str, Any]) -> None:
    """Print the results of a trial."""
    _heading(f"Training: {results['held_out']} facts of {len(results['relations'])} relations are held out")
    click.echo(
        "One model per relation is trained on the other facts.\n"
        "Each held-out fact is then ranked among all objects, at both of its positions."
    )
    rows = [
        (row["relation"], row["held_out"], row["mean_rank"], *_beside_popularity(row), f"{row['hits_at_10']:.3f}")
        for row in results["relations"]
    ]
    columns = ["relation", "held out", "mean rank", "typed AUC", "MRR", "hits@10"]
    print_table("Ranks of held-out facts (in brackets: by popularity)", columns, rows, right=[1, 2, 3, 4, 5])
    click.echo(
        "\nTyped AUC compares a held-out fact with one that has another object of the right type.\n"
        "Popularity puts the most frequent object first. What is unknown counts as false."
    )
    facts = [
        (row["fact"], _probability_text(row), _yes_or_dash(row["held_out"]), row["held_out_in_top_10"])
        for row in results["missing"]
    ]
    columns = ["fact", "probability", "held out", f"held out in top {TOP_K}"]
    print_table("Probably missing", columns, facts, right=[3])
    click.echo(
        f"\nBest missing fact per relation, assuming that {results['missing_share']:.0%} of the facts are missing.\n"
        "A held-out fact is true. Any other is wrong, or missing from the knowledge base."
    )
    query = results["query"]
    _heading("A model of a query: which countries share a river?")
    print_fields([("query", query["bracketed"]), *held_out_fields(query["metrics"])])
    pairs = [(*row["names"], _probability_text(row), _yes_or_dash(row["true"])) for row in query["missing"]]
    print_table("Probably missing answers", ["x", "y", "probability", "held out"], pairs)


def _beside_popularity(row: dict[str, Any]) -> list[str]:
    """Return the typed AUC and the MRR of a relation, with those of popularity in brackets."""
    pairs = [(row[name], row[f"{name}_popularity"]) for name in ("typed_auc", "mrr")]
    return ["–" if own is None else f"{own:.3f} ({popularity:.3f})" for own, popularity in pairs]


def _probability_text(row: dict[str, Any]) -> str:
    from gaifman.predict import Estimate

    return str(Estimate(row["probability"], row["standard_error"], draws=0))  # the text has no draws


def _yes_or_dash(value: bool) -> str:
    return "yes" if value else "–"


def _report(progress: ProgressCallback | None, phase: str, done: int = 0, total: int | None = None) -> None:
    if progress:
        progress(phase, done, total)


def _counting_store(total: int, progress: ProgressCallback | None) -> Any:
    """Return a store that reports how many relations are trained."""
    from gaifman.completion import PartStore

    done = count(1)  # called by several threads

    class CountingStore(PartStore):
        """Reports each relation."""

        def save(self, relation: str, part: Any) -> None:
            """Count a trained relation."""
            _report(progress, "training relations", next(done), total)

    return CountingStore()

"""A trial: facts of a knowledge base are held out, the rest is learnt, and what the models say is compared."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gaifman.cli.console import json_option, print_fields, print_json, print_table, work_progress
from gaifman.cli.kb import print_neighbourhood, summary
from gaifman.config import ProgressCallback

if TYPE_CHECKING:
    from gaifman.completion import Completion
    from gaifman.kb.knowledge_base import KnowledgeBase


HOLD_OUT_EVERY = 20
"""One fact in so many is held out."""
MIN_FACTS = 100
"""Facts that a relation must have to be learnt here: of fewer, hardly any would be held out."""
DRAWS = 3
"""Neighbourhoods of each object when held-out facts are ranked."""
TOP_K = 10
"""A held-out fact is found where its object is among so many."""
PRIOR = 0.001
"""How likely a pair is a missing fact before anything is known of it: what is right for one in two is not for pairs."""
QUERY = "exists z. flows_through(z, x) & flows_through(z, y) & x != y"
MAX_ANSWERS = 6
"""Answers of the query that are shown."""
SEED = 1

FactsByRelation = dict[str, list[tuple[str, ...]]]
"""Relation → objects of facts."""


def run_trial(kb: KnowledgeBase, progress: ProgressCallback | None = None) -> dict[str, Any]:
    """Hold out, learn, rank; all figures."""
    from gaifman.completion import train_completion
    from gaifman.training import TrainingConfig

    held = hold_out_facts(kb)
    rest = kb.without_facts((name, *objects) for name, facts in held.items() for objects in facts)
    completion = train_completion(rest, TrainingConfig(seed=SEED), held, store=_counting_store(len(held), progress))
    total, ranks = sum(map(len, held.values())), list[dict[str, Any]]()
    for name, facts in held.items():
        ranks.append({"relation": name, "held_out": len(facts), **rank_held_out(completion, name, facts)})
        _report_progress(progress, "ranking held-out facts", sum(row["held_out"] for row in ranks), total)
    _report_progress(progress, "ranking missing facts", 0, None)
    missing = [best_missing(completion, name, facts) for name, facts in held.items()]
    _report_progress(progress, "learning a query", 0, None)
    return {
        "held_out": total,
        "relations": ranks,
        "missing": sorted(missing, key=lambda row: (-row["probability"], row["fact"])),
        "prior": PRIOR,
        "query": learn_query(kb, rest),
    }


def hold_out_facts(kb: KnowledgeBase) -> FactsByRelation:
    """One fact in so many of each larger relation of two places; of a relation that goes both ways, both.

    The other direction would give a held-out border away.
    """
    held: FactsByRelation = {}
    for relation in kb.relations.values():
        if relation.arity == 2 and relation.count >= MIN_FACTS:
            facts = [fact.objects for fact in kb.facts(relation.name)]
            taken = facts[::HOLD_OUT_EVERY]
            back = {(y, x) for x, y in taken}
            held[relation.name] = [pair for pair in facts if pair in back or pair in taken]
    return held


def rank_held_out(completion: Completion, relation: str, facts: Sequence[tuple[str, ...]]) -> dict[str, float]:
    """How the last objects of held-out facts rank among all objects, known and other held-out ones left out."""
    import numpy as np

    from gaifman.logic.ast import relation_query

    areas, hits, query = [], [], relation_query(relation, 2)
    for x, y in facts:
        found = completion.answers(query, {"x": x}, top=None, known="exclude", draws=DRAWS)
        others = [found.kb.object_id(other) for first, other in facts if first == x and other != y]
        values = found.probabilities[~np.isin(found.values[:, 0], others)]
        own = found.probabilities[found.values[:, 0] == found.kb.object_id(y)]
        before = float((values > own).sum() + ((values == own).sum() - 1) / 2)  # ties: between best and worst
        areas.append(1 - before / (len(values) - 1))
        hits.append(before < TOP_K)
    return {"auc": round(float(np.mean(areas)), 3), "hits_at_10": int(np.sum(hits))}


def best_missing(completion: Completion, relation: str, held_out: Sequence[tuple[str, ...]]) -> dict[str, Any]:
    """The most probable fact of a relation that is not known, and how many of the first ten were held out."""
    from gaifman.kb.facts import Fact
    from gaifman.logic.ast import relation_query

    found = completion.answers(relation_query(relation, 2), top=TOP_K, known="exclude", prior=PRIOR)
    return {
        "fact": str(Fact(relation, found[0].names)).removesuffix("."),
        "probability": found[0].probability,
        "standard_error": found[0].estimate.error,
        "held_out": found[0].names in held_out,
        "held_out_in_top_10": sum(answer.names in held_out for answer in found),
    }


def learn_query(kb: KnowledgeBase, training_kb: KnowledgeBase) -> dict[str, Any]:
    """A query learnt from the rest: its most probable answers, and whether they are true in the whole."""
    from gaifman.logic.ast import to_bracketed
    from gaifman.logic.parser import parse_query
    from gaifman.model import fit
    from gaifman.queries.answers import query

    model = fit(training_kb, QUERY, seed=SEED)
    true, rows = set(query(kb, QUERY)), list[dict[str, Any]]()
    for answer in model.answers(top=2 * MAX_ANSWERS, known="exclude", prior=PRIOR):
        if [*reversed(answer.names)] not in [row["names"] for row in rows]:  # the query goes both ways
            estimate = {"probability": answer.probability, "standard_error": answer.estimate.error}
            rows.append({"names": list(answer.names), **estimate, "true": answer.names in true})
    return {
        "text": QUERY,
        "bracketed": to_bracketed(parse_query(QUERY, kb)),
        "auc": model.meta["metrics"]["auc"],
        "answers": model.meta["metrics"]["answers"],
        "missing": rows[:MAX_ANSWERS],
    }


def print_trial(results: dict[str, Any]) -> None:
    """The figures, for people."""
    click.echo(
        f"\nLearning: one fact in {HOLD_OUT_EVERY} is held out, {results['held_out']} in all, of the {len(results['relations'])} "
        f"relations of two places\nthat have {MIN_FACTS} facts or more; each is learnt from the rest. "
        "Is the object of a held-out fact found again\namong all objects? AUC is how often it gets more than another."
    )
    rows = [(row["relation"], row["held_out"], f"{row['auc']:.3f}", row["hits_at_10"]) for row in results["relations"]]
    print_table("Held-out facts", ["relation", "held out", "AUC", f"in first {TOP_K}"], rows, right=[1, 2, 3])
    click.echo(
        "\nWhat is missing? The most probable fact of each relation that is not known, if one pair in "
        f"{1 / results['prior']:,.0f} were a fact.\nOne that was held out is right; any other is wrong, or was missing "
        f"before. Last: how many of the first {TOP_K} were held out."
    )
    facts = [
        (row["fact"], _probability_text(row), _yes_or_dash(row["held_out"]), row["held_out_in_top_10"])
        for row in results["missing"]
    ]
    print_table("Missing facts", ["fact", "probability", "held out", f"of {TOP_K}"], facts, right=[3])
    query = results["query"]
    click.echo(
        f"\nA query is learnt in the same way, here which countries share a river:\n\n  {query['bracketed']}\n\n"
        f"The AUC of answers that it did not learn from is {query['auc']:.3f}. The most probable that are not known:"
    )
    pairs = [(*row["names"], _probability_text(row), _yes_or_dash(row["true"])) for row in query["missing"]]
    print_table("Missing answers", ["x", "y", "probability", "held out"], pairs)


def _probability_text(row: dict[str, Any]) -> str:
    from gaifman.predict import Estimate

    return str(Estimate(row["probability"], row["standard_error"], draws=0))  # how many is not shown


def _yes_or_dash(right: bool) -> str:
    return "yes" if right else "–"


def _report_progress(report: ProgressCallback | None, phase: str, done: int, total: int | None) -> None:
    if report:
        report(phase, done, total)


def _counting_store(total: int, report: ProgressCallback | None) -> Any:
    """Says how many relations are learnt."""
    from gaifman.completion import PartStore

    done = count(1)  # threads may ask it at once

    class Counting(PartStore):
        """Reports each relation that is done."""

        def save(self, relation: str, part: Any) -> None:
            _report_progress(report, "learning relations", next(done), total)

    return Counting()


FACTS = (("borders", "france", "spain"), ("capital", "spain", "madrid"), ("separates", "pyrenees", "france", "spain"))
EXAMPLE_QUERY = "exists z. borders(x, z) & borders(z, y) & x != y & ~borders(x, y)"
PAIR = ("portugal", "france")
COUNT_QUERY = "borders('france', y)"
MISSPELLED = "bordrs(x, y)"
TUPLE = ("france", "spain")
SIZE = 5
NEXT_COMMANDS = (
    "gaifman train demo -o countries.gaifman",
    "gaifman answer countries.gaifman demo \"official_language('malta', y)\"",
    'gaifman answer countries.gaifman demo "borders(x, y)" --known exclude --prior 0.01',
    "gaifman info your_facts.tsv",
)


@click.command(short_help="A first look, on the bundled knowledge base of countries.")
@json_option
def demo(as_json: bool) -> None:
    """A first look at gaifman on the bundled knowledge base of the world's countries.

    It shows facts, a formula and a neighbourhood; then it holds out facts, learns from the rest, and shows what it
    finds to be missing. That takes ten or twenty seconds.

    \b
    Example:
      gaifman demo
    """
    from gaifman.io.demo import demo as load
    from gaifman.kb.gaifman_graph import build_graph
    from gaifman.sampling.neighbourhoods import named_neighbourhoods

    kb = load()
    graph = build_graph(kb)
    drawn = named_neighbourhoods(graph, TUPLE, size=SIZE)[0]
    facts, formula, degrees = example_facts(kb), formula_fields(kb), graph.summary()
    if as_json:
        body = {"kb": summary(kb), "some_facts": facts, "formula": formula, "graph": degrees}
        print_json({**body, "neighbourhood": drawn.as_dict(), "trial": run_trial(kb)})
        return
    click.echo("The countries of the world, bundled with gaifman:\n")
    print_fields((name, summary(kb)[name]) for name in ("objects", "facts", "relations", "attributes"))
    click.echo("\n".join(["\nSome facts:\n", *(f"  {fact}" for fact in facts)]))
    print_formula(formula)
    click.echo(f"\nA neighbourhood of ({', '.join(TUPLE)}): {SIZE} objects drawn from those they share facts with:\n")
    print_neighbourhood(drawn, 3, f"gaifman neighbourhood demo {' '.join(TUPLE)} --size {SIZE}")
    with work_progress("items") as report:
        found = run_trial(kb, report)
    print_trial(found)
    click.echo("\n".join(["\nNext:", *(f"  {line}" for line in (*activation_hint(), *NEXT_COMMANDS))]))


def activation_hint() -> list[str]:
    """How the command is found, where it would not be: `make` puts it into a folder of its own."""
    activate = Path(sys.executable).with_name("activate")
    if shutil.which("gaifman") or not activate.exists():
        return []
    here = Path.cwd()
    return [f". {activate.relative_to(here) if activate.is_relative_to(here) else activate}"]


def example_facts(kb: KnowledgeBase) -> list[str]:
    """A few facts as they are written."""
    from gaifman.kb.facts import Fact

    return [str(Fact(name, tuple(objects))) for name, *objects in FACTS if (name, *objects) in kb]


def formula_fields(kb: KnowledgeBase) -> dict[str, Any]:
    """A formula read back, its truth for a pair, a count, and what a slip looks like."""
    from gaifman.errors import FormulaError
    from gaifman.logic.ast import to_bracketed
    from gaifman.logic.parser import parse, parse_query
    from gaifman.logic.semantics import count, holds

    structure = kb.structure()
    query = parse_query(EXAMPLE_QUERY, kb.schema)
    try:
        mistake = str(parse(MISSPELLED, kb.schema))
    except FormulaError as error:
        mistake = str(error)
    return {
        "text": EXAMPLE_QUERY,
        "canonical": str(query),
        "bracketed": to_bracketed(query),
        "truth": holds(structure, query.formula, dict(zip(query.variables, PAIR, strict=True))),
        "count": count(structure, parse(COUNT_QUERY, kb.schema)),
        "mistake": mistake,
    }


def print_formula(formula: dict[str, Any]) -> None:
    """The same, for people."""
    click.echo("\nA formula: which countries are two borders apart?\n")
    truth = "true" if formula["truth"] else "false"
    print_fields(
        [
            ("written", formula["text"]),
            ("read as", formula["bracketed"]),
            (f"truth for {' and '.join(PAIR)}", truth),
            (f"count of {COUNT_QUERY}", formula["count"]),
        ]
    )
    click.echo("\nA slip is pointed at:\n")
    click.echo("\n".join(f"  {line}" for line in formula["mistake"].splitlines()))

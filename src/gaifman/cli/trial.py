"""A trial: facts of a knowledge base are held out, the rest is learnt, and what the models say is compared."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

import click

from gaifman.cli.terminal import ProgressCallback, print_table

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
    from gaifman.completion import complete

    held = hold_out_facts(kb)
    rest = kb.without_facts((name, *objects) for name, facts in held.items() for objects in facts)
    completion = complete(rest, held, seed=SEED, store=_counting_store(len(held), progress))
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

    from gaifman.completion import relation_query

    areas, hits, query = [], [], relation_query(relation, 2)
    for x, y in facts:
        found = completion.answers(query, {"x": x}, top=None, known="leave out", draws=DRAWS)
        others = [found.kb.object_id(other) for first, other in facts if first == x and other != y]
        values = found.probabilities[~np.isin(found.values[:, 0], others)]
        own = found.probabilities[found.values[:, 0] == found.kb.object_id(y)]
        before = float((values > own).sum() + ((values == own).sum() - 1) / 2)  # ties: between best and worst
        areas.append(1 - before / (len(values) - 1))
        hits.append(before < TOP_K)
    return {"auc": round(float(np.mean(areas)), 3), "hits": int(np.sum(hits))}


def best_missing(completion: Completion, relation: str, held_out: Sequence[tuple[str, ...]]) -> dict[str, Any]:
    """The most probable fact of a relation that is not known, and how many of the first ten were held out."""
    from gaifman.completion import relation_query
    from gaifman.kb.facts import Fact

    found = completion.answers(relation_query(relation, 2), top=TOP_K, known="leave out", prior=PRIOR)
    return {
        "fact": str(Fact(relation, found[0].names)).removesuffix("."),
        "probability": found[0].probability,
        "error": found[0].estimate.error,
        "held_out": found[0].names in held_out,
        "of_ten": sum(answer.names in held_out for answer in found),
    }


def learn_query(kb: KnowledgeBase, training_kb: KnowledgeBase) -> dict[str, Any]:
    """A query learnt from the rest: its most probable answers, and whether they are true in the whole."""
    from gaifman.logic.ast import to_bracketed
    from gaifman.logic.parser import parse_query
    from gaifman.model import fit
    from gaifman.queries.answers import query

    model = fit(training_kb, QUERY, seed=SEED)
    true, rows = set(query(kb, QUERY)), list[dict[str, Any]]()
    for answer in model.answers(top=2 * MAX_ANSWERS, known="leave out", prior=PRIOR):
        if [*reversed(answer.names)] not in [row["names"] for row in rows]:  # the query goes both ways
            rows.append(answer.as_dict() | {"true": answer.names in true})
    return {
        "text": QUERY,
        "reading": to_bracketed(parse_query(QUERY, kb)),
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
    rows = [(row["relation"], row["held_out"], f"{row['auc']:.3f}", row["hits"]) for row in results["relations"]]
    print_table("Held-out facts", ["relation", "held out", "AUC", f"in first {TOP_K}"], rows, right=[1, 2, 3])
    click.echo(
        "\nWhat is missing? The most probable fact of each relation that is not known, if one pair in "
        f"{1 / results['prior']:,.0f} were a fact.\nOne that was held out is right; any other is wrong, or was missing "
        f"before. Last: how many of the first {TOP_K} were held out."
    )
    facts = [
        (row["fact"], _probability_text(row), _yes_or_dash(row["held_out"]), row["of_ten"])
        for row in results["missing"]
    ]
    print_table("Missing facts", ["fact", "probability", "held out", f"of {TOP_K}"], facts, right=[3])
    query = results["query"]
    click.echo(
        f"\nA query is learnt in the same way, here which countries share a river:\n\n  {query['reading']}\n\n"
        f"The AUC of answers that it did not learn from is {query['auc']:.3f}. The most probable that are not known:"
    )
    pairs = [(*row["names"], _probability_text(row), _yes_or_dash(row["true"])) for row in query["missing"]]
    print_table("Missing answers", ["x", "y", "probability", "held out"], pairs)


def _probability_text(row: dict[str, Any]) -> str:
    from gaifman.predict import Estimate

    return str(Estimate(row["probability"], row["error"], draws=0))  # how many is not shown


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

        def keep(self, relation: str, part: Any) -> None:
            _report_progress(report, "learning relations", next(done), total)

    return Counting()

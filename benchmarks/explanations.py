"""Do predictions depend on the facts that explanations name: is the probability lower without them?

    GAIFMAN_DATA=… python benchmarks/explanations.py [--quick]

1,000 facts (quick: 250) of WN18's test set, which are not known, and as many of the demo, each scored as if it were not
known. `_lowered_share` is the share of facts whose probability is lower without the named facts, with the same seed; a
fact without named facts counts as not lowered. `_lowered_again_share` is the same with another seed, which had no part
in the choice of facts. `_lowered_by_chance_share` is the baseline: as many random facts of the same neighbourhood are
removed. `_before` and `_after` are medians of the probability, `_named` is the mean number of named facts. Default
features, radius 1, size 20, ten draws; one short epoch, except for the demo in full, which is trained as `gaifman
train --base mlp` does. Without the data, a generated knowledge base replaces WN18; it has little to learn.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

import common
import gaifman
from gaifman.completion import Completion
from gaifman.explain.explanation import Explanation, estimate_hiding
from gaifman.kb.gaifman_graph import GaifmanGraph
from gaifman.kb.knowledge_base import Fact, KnowledgeBase
from gaifman.kb.tables import Floats, Longs
from training import loaded

QUICK: dict[str, Any] = {"base": "mlp", "min_examples": 0, "positives": 2, "negatives": 6, "options": {"epochs": 1}}
SEED = 1


def chosen(facts: Sequence[Fact], relations: Sequence[str], count: int) -> list[Fact]:
    """Random facts of these relations."""
    fitting = [fact for fact in facts if fact.relation in relations]
    order = np.random.default_rng(0).permutation(len(fitting))[:count]
    return [fitting[at] for at in order.tolist()]


def numbers(graph: GaifmanGraph, facts: Sequence[Fact]) -> Longs:
    """The ids of facts."""
    kb = graph.kb
    found = [np.zeros(0, np.int64)]
    for fact in facts:
        objects = np.array([[kb.object_id(name) for name in fact.objects]], np.int32)
        relation = kb.content.relations.find(fact.relation)
        assert relation is not None
        found.append(graph.kb.fact_ids(relation, objects))
    return np.concatenate(found)


def others(explanation: Explanation, count: int, at: int) -> list[Fact]:
    """As many random facts of the drawn neighbourhood."""
    facts = explanation.diagram.facts if explanation.diagram else ()
    order = np.random.default_rng(at).permutation(len(facts))[:count]
    return [facts[i] for i in order.tolist()]


def asked_again(completion: Completion, fact: Fact, without: Sequence[Sequence[Fact]], seed: int) -> Floats:
    """The probability with another seed and without some facts, for each choice of facts."""
    predictor = replace(completion.predictor(fact.relation), config=replace(completion.config, seed=seed))
    tuples = predictor.tuple_ids([fact.objects])
    own = predictor.hidden_facts(tuples).facts
    hidden = [np.union1d(own, numbers(predictor.graph, facts)) for facts in without]
    return np.array([estimate.value for estimate in estimate_hiding(predictor, tuples, hidden, predictor.budget())])


def measured(completion: Completion, facts: Sequence[Fact], short: str) -> dict[str, float]:
    """Explain each fact and remove the named facts."""
    rows, named, seconds = [], [], 0.0
    for at, fact in enumerate(facts):
        begin = time.perf_counter()
        found = completion.explain(fact.relation, *fact.objects)
        seconds += time.perf_counter() - begin
        other = found.counterfactual
        after = other.estimate.value if other else found.probability
        gone = other.facts if other else ()
        named.append(len(gone))
        again = asked_again(completion, fact, [(), gone], SEED + completion.config.seed)
        chance = asked_again(completion, fact, [others(found, max(len(gone), 1), at)], completion.config.seed)
        rows.append((found.probability, after, *again, *chance))
    before, after, first, second, random = np.array(rows).T
    return {
        f"{short}_answers": len(facts),
        f"{short}_lowered_share": float((after < before).mean()),
        f"{short}_lowered_again_share": float((second < first).mean()),
        f"{short}_lowered_by_chance_share": float((random < before).mean()),
        f"{short}_before": float(np.median(before)),
        f"{short}_after": float(np.median(after)),
        f"{short}_named": float(np.mean(named)),
        f"{short}_explanations_per_s": len(facts) / seconds,
    }


def demo(quick: bool) -> dict[str, float]:
    """Facts of the demo knowledge base."""
    kb = gaifman.demo()
    completion = gaifman.complete(kb, seed=1, **QUICK if quick else {"base": "mlp"})
    facts = chosen(list(kb.facts()), list(completion.scorers), 250 if quick else 1_000)
    return measured(completion, facts, "demo")


def wordnet(quick: bool) -> dict[str, float]:
    """Test facts of WN18."""
    kb: KnowledgeBase = loaded("WN18", 40_943, 141_442, 18)
    path = common.data("WN18/test.txt.gz")
    tested = list(gaifman.read(path).facts()) if path else list(kb.facts())
    tested = [fact for fact in tested if all(kb.objects.find(name) is not None for name in fact.objects)]
    completion = gaifman.complete(kb, seed=1, **QUICK)
    return measured(completion, chosen(tested, list(completion.scorers), 250 if quick else 1_000), "wn18")


def main() -> None:
    """Measure and report."""
    quick = common.arguments(__doc__).quick
    figures: dict[str, float] = {}
    for name, job in (("demo", demo), ("WN18", wordnet)):
        sys.stderr.write(f"{name} …\n")
        figures |= job(quick)
    common.report("explanations", figures)


if __name__ == "__main__":
    main()

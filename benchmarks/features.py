"""Neighbourhoods drawn and evaluated per second, compared with the definition.

    GAIFMAN_DATA=… python benchmarks/features.py [--quick]

Training pairs with their own fact hidden, radius 1, the `paper` set, on all processors; sampling is included. The pairs
are a random part of the facts in training order, relation by relation. `shuffled` has the same pairs in random order,
which uses the caches less. `rich` is the paper set and nine times as many mined formulas: the most frequent paths of
one and two steps and constants around training pairs. `walks` adds paths of three steps, which need the facts between
all members. `_values` is the number of nonzero values per neighbourhood. `general` has 100 formulas of two quantifiers
that only the programs over bit tables can evaluate. The definition is `gaifman.logic.semantics`, on a few of the same
neighbourhoods. Without the data, everything runs on a generated knowledge base, and the figures say `generated`.
"""

from __future__ import annotations

import time
from functools import partial

import numpy as np

import common
import gaifman
from gaifman.config import SamplingConfig
from gaifman.features.compiler import compile_features
from gaifman.features.evaluator import FeatureEvaluator
from gaifman.features.feature_sets import FeatureSet, named_feature_set, parse_phi
from gaifman.features.mining import frequent_patterns
from gaifman.kb.gaifman_graph import GaifmanGraph, build_graph
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.kb.tables import Ints
from gaifman.logic.ast import format_relation
from gaifman.logic.semantics import feature_value
from gaifman.sampling.hiding import HiddenFacts
from gaifman.sampling.neighbourhoods import draw_neighbourhoods
from neighbourhoods import generated

SIZES = (5, 10, 20, 50, 100)


def loaded(name: str, objects: int, facts: int, relations: int) -> tuple[KnowledgeBase, int]:
    """A data set, or a generated knowledge base like it, and whether it is generated."""
    path = common.data(f"{name}/train.txt.gz")
    return (gaifman.read(path), 0) if path else (generated(objects, facts, relations), 1)


def pairs(graph: GaifmanGraph, count: int, shuffled: bool = False) -> tuple[Ints, HiddenFacts]:
    """The objects of random facts, and these facts to hide."""
    table = graph.kb.fact_tables[2]
    rows = np.random.default_rng(0).integers(0, len(table), count)
    rows = rows if shuffled else np.sort(rows)
    tuples = table.objects[rows]
    return tuples, HiddenFacts.one_per_tuple(graph.kb.fact_ids(table.relation[rows], tuples))


def seconds(evaluator: FeatureEvaluator, tuples: Ints, hidden: HiddenFacts, size: int, runs: int) -> float:
    """The best time to draw and evaluate a batch, after a warm-up."""
    evaluator.sample_and_evaluate(tuples[:10], SamplingConfig(size=size))
    best = float("inf")
    for run in range(runs):
        begin = time.perf_counter()
        evaluator.sample_and_evaluate(tuples, SamplingConfig(size=size, seed=run), hidden)
        best = min(best, time.perf_counter() - begin)
    return best


def rich(graph: GaifmanGraph, paper: FeatureSet, times: int, look: int, steps: int) -> FeatureSet:
    """The paper set and mined formulas, for `times` as many features in all if enough are found."""
    tuples, hidden = pairs(graph, look, shuffled=True)
    drawn = draw_neighbourhoods(graph, tuples, SamplingConfig(size=20, purpose="mine"), hidden)
    have = len(compile_features(paper, graph.kb, 2).features)
    return FeatureSet((*paper, *frequent_patterns(graph, drawn, hidden, 1 / look, (times - 1) * have, steps)))


def general(graph: GaifmanGraph) -> FeatureSet:
    """A hundred formulas of two quantifiers over the most frequent relations."""
    frequent = sorted(graph.kb.relations.values(), key=lambda relation: -relation.count)[:25]
    names = [format_relation(relation.name) for relation in frequent]
    texts = [
        text.replace("R", name)
        for name in names
        for text in (
            "forall x, y. R(x, y) -> R(y, x)",
            "exists x, y. R(x, y) & ~R(y, x)",
            "forall x. (exists y. R(x, y)) -> R(x, s1)",
            "exists x. forall y. R(s1, y) -> R(x, y)",
        )
    ]
    return parse_phi("\n".join(texts))


def definition_seconds(graph: GaifmanGraph, features: FeatureSet, tuples: Ints) -> float:
    """Seconds for one neighbourhood by the definition, including the search for its facts."""
    plan = compile_features(features, graph.kb, 2)
    drawn = draw_neighbourhoods(graph, tuples, SamplingConfig(size=20))
    begin = time.perf_counter()
    for t in range(len(tuples)):
        names = [graph.kb.object_name(int(member)) for member in drawn.members_of(t)]
        structure = graph.kb.induced(names).structure()
        pair = tuple(names[position] for position in drawn.own_positions[t])
        for feature in plan.features[:: max(1, len(plan.features) // 100)]:
            feature_value(structure, feature, pair)
    return (time.perf_counter() - begin) / len(tuples)


def measured(name: str, graph: GaifmanGraph, quick: bool) -> dict[str, float]:
    """Rates of the paper set for every size."""
    count, runs = (50_000, 5) if quick else (200_000, 7)
    evaluator = FeatureEvaluator(
        graph, compile_features(named_feature_set("paper", 2, graph.kb.schema.relations), graph.kb, 2)
    )
    tuples, hidden = pairs(graph, count)
    sizes = (20,) if quick else SIZES
    rates = {f"{name}_k{k}_per_s": count / seconds(evaluator, tuples, hidden, k, runs) for k in sizes}
    tuples, hidden = pairs(graph, count, shuffled=True)
    return rates | {f"{name}_k20_shuffled_per_s": count / seconds(evaluator, tuples, hidden, 20, runs)}


def enriched(graph: GaifmanGraph, quick: bool) -> dict[str, float]:
    """How much slower ten times as many features are, alternating."""
    paper = named_feature_set("paper", 2, graph.kb.schema.relations)
    times, look = (2, 300) if quick else (10, 12_000)
    sets = {
        "paper": paper,
        "rich": rich(graph, paper, times, look, 2),
        "walks": rich(graph, paper, times, look // 6, 3),
    }
    evaluators = {name: FeatureEvaluator(graph, compile_features(phi, graph.kb, 2)) for name, phi in sets.items()}
    tuples, hidden = pairs(graph, 50_000 if quick else 100_000)
    for evaluator in evaluators.values():
        evaluator.sample_and_evaluate(tuples[:10], SamplingConfig())
    jobs = {
        name: partial(one.sample_and_evaluate, tuples, SamplingConfig(), hidden) for name, one in evaluators.items()
    }
    taken = common.interleaved(3 if quick else 7, **jobs)
    figures: dict[str, float] = {}
    for name, evaluator in evaluators.items():
        few = evaluator.sample_and_evaluate(tuples[::50], SamplingConfig())
        figures |= {f"{name}_features": len(evaluator.plan.features), f"{name}_values": len(few.ids) / len(few)}
        if name != "paper":
            figures[f"{name}_over_paper_rate"] = common.median_ratio(taken["paper"], taken[name])
    return figures


def main() -> None:
    """Measure and print."""
    quick = common.arguments(__doc__).quick
    kb, made = loaded("FB15k", 14_951, 483_142, 1_345)
    graph = build_graph(kb)
    figures: dict[str, float] = {"fb15k_generated": made, **measured("fb15k", graph, quick), **enriched(graph, quick)}
    hundred = general(graph)
    tuples, hidden = pairs(graph, 10_000 if quick else 50_000)
    taken = seconds(FeatureEvaluator(graph, compile_features(hundred, kb, 2)), tuples, hidden, 20, 3)
    figures["general_k20_per_s"] = len(tuples) / taken
    slow = definition_seconds(graph, hundred, tuples[:: len(tuples) // (2 if quick else 10)])
    figures["ratio_to_definition"] = slow * figures["general_k20_per_s"]
    if not quick:
        wordnet, made = loaded("WN18", 40_943, 141_442, 18)
        figures |= {"wn18_generated": made, **measured("wn18", build_graph(wordnet), quick)}
    common.report("features", figures)


if __name__ == "__main__":
    main()

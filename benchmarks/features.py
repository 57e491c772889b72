"""How fast features are evaluated, with the drawing of the neighbourhoods, beside the definition.

    GAIFMAN_DATA=… python benchmarks/features.py [--quick]

Training pairs with their own fact hidden, radius 1, the `paper` set, on all processors. `rich` is the paper
set and many more features: paths of two steps whose labels meet at an object. `general` are 100 formulas of two
quantifiers that only the machine of bit tables can evaluate. The definition is `gaifman.semantics`, on a few of the
same neighbourhoods. Without the data all of it is done on a generated knowledge base, and the figures say `generated`.
"""

from __future__ import annotations

import time

import numpy as np

import common
import gaifman
from gaifman.features import Evaluator
from gaifman.graph import Graph, fact_numbers, graph_of
from gaifman.kb import KnowledgeBase
from gaifman.neighbourhoods import Hidden, Sampling, draw
from gaifman.phi import FeatureSet, named, parse_phi
from gaifman.plans import plan_of
from gaifman.printing import relation_text
from gaifman.semantics import value
from gaifman.tables import Ints
from neighbourhoods import generated

SIZES = (5, 10, 20, 50, 100)


def loaded(name: str, objects: int, facts: int, relations: int) -> tuple[KnowledgeBase, int]:
    """A data set, or a generated knowledge base like it, and whether it is generated."""
    path = common.data(f"{name}/train.txt.gz")
    return (gaifman.read(path), 0) if path else (generated(objects, facts, relations), 1)


def pairs(graph: Graph, count: int) -> tuple[Ints, Hidden]:
    """The objects of random facts, and these facts to hide."""
    table = graph.kb.tables[2]
    rows = np.random.default_rng(0).integers(0, len(table), count)
    tuples = table.objects[rows]
    return tuples, Hidden.one_each(fact_numbers(graph, table.relation[rows], tuples))


def seconds(graph: Graph, evaluator: Evaluator, tuples: Ints, hidden: Hidden, size: int, runs: int) -> float:
    """The best time to draw and evaluate a batch; compiled and warm before."""
    few = draw(graph, tuples[:10], Sampling(size=size))
    evaluator.features(few)
    best = float("inf")
    for run in range(runs):
        begin = time.perf_counter()
        evaluator.features(draw(graph, tuples, Sampling(size=size, seed=run), hidden), hidden)
        best = min(best, time.perf_counter() - begin)
    return best


def rich(graph: Graph, paper: FeatureSet, count: int) -> FeatureSet:
    """The paper set and up to `count` paths of two steps that occur."""
    rng = np.random.default_rng(1)
    names = [relation_text(name) for name in graph.kb.relations]
    lines: dict[str, None] = {}
    for _ in range(2 * count):
        middle = rng.integers(0, len(graph))
        edges = np.arange(graph.starts[middle], graph.starts[middle + 1])
        if len(edges):
            one, other = (graph.label_table[graph.labels[graph.label_starts[e]]] for e in rng.choice(edges, 2))
            first = f"{names[one[0]]}({'x, s1' if one[1] == 0 else 's1, x'})"
            second = f"{names[other[0]]}({'x, s2' if other[1] == 0 else 's2, x'})"
            lines[f"exists x. {first} & {second}"] = None
    return FeatureSet((*paper, *parse_phi("\n".join(lines))))


def general(graph: Graph) -> FeatureSet:
    """A hundred formulas of two quantifiers over the most frequent relations."""
    frequent = sorted(graph.kb.relations.values(), key=lambda relation: -relation.count)[:25]
    names = [relation_text(relation.name) for relation in frequent]
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


def definition_seconds(graph: Graph, features: FeatureSet, tuples: Ints) -> float:
    """Seconds for one neighbourhood by the definition, gathering its facts included."""
    plan = plan_of(features, graph.kb, 2)
    drawn = draw(graph, tuples, Sampling(size=20))
    begin = time.perf_counter()
    for t in range(len(tuples)):
        names = [graph.kb.name(int(member)) for member in drawn.of(t)]
        structure = graph.kb.induced(names).structure()
        pair = tuple(names[place] for place in drawn.places[t])
        for feature in plan.features[:: max(1, len(plan.features) // 100)]:
            value(structure, feature, pair)
    return (time.perf_counter() - begin) / len(tuples)


def measured(name: str, graph: Graph, quick: bool) -> dict[str, float]:
    """Rates of the paper set for every size."""
    count, runs = (20_000, 2) if quick else (200_000, 3)
    tuples, hidden = pairs(graph, count)
    evaluator = Evaluator(graph, plan_of(named("paper", 2, graph.kb.vocabulary.relations), graph.kb, 2))
    sizes = (20,) if quick else SIZES
    return {f"{name}_k{k}_per_s": count / seconds(graph, evaluator, tuples, hidden, k, runs) for k in sizes}


def main() -> None:
    """Measure and print."""
    quick = common.arguments(__doc__).quick
    kb, made = loaded("FB15k", 14_951, 483_142, 1_345)
    graph = graph_of(kb)
    figures: dict[str, float] = {"fb15k_generated": made, **measured("fb15k", graph, quick)}
    paper = named("paper", 2, kb.vocabulary.relations)
    larger = rich(graph, paper, 2_000 if quick else 50_000)
    tuples, hidden = pairs(graph, 20_000 if quick else 100_000)
    evaluator = Evaluator(graph, plan_of(larger, kb, 2))
    rate = len(tuples) / seconds(graph, evaluator, tuples, hidden, 20, 2)
    figures |= {
        "rich_features": len(evaluator.plan.features),
        "rich_over_paper_rate": rate / figures["fb15k_k20_per_s"],
    }
    hundred = general(graph)
    few = slice(0, 2_000 if quick else 20_000)
    first = Hidden(hidden.starts[: few.stop + 1], hidden.facts[: hidden.starts[few.stop]])
    taken = seconds(graph, Evaluator(graph, plan_of(hundred, kb, 2)), tuples[few], first, 20, 2)
    figures["general_k20_per_s"] = few.stop / taken
    slow = definition_seconds(graph, hundred, tuples[: 2 if quick else 10])
    figures["ratio_to_definition"] = slow * figures["general_k20_per_s"]
    if not quick:
        wordnet, made = loaded("WN18", 40_943, 141_442, 18)
        figures |= {"wn18_generated": made, **measured("wn18", graph_of(wordnet), quick)}
    common.report("features", figures)


if __name__ == "__main__":
    main()

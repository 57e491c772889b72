"""Features against the definition: `python tests/support/long_features.py --count 100000`.

Each case is a random knowledge base (at most 30 objects, relations of one to four places), a random tuple with a drawn
neighbourhood and hidden facts, and a random feature of any kind. Progress on standard error, JSON at the end.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections import Counter
from dataclasses import dataclass, field

import numpy as np

import feature_cases
from feature_cases import visible
from gaifman.config import SamplingConfig
from gaifman.features.compiler import FeaturePlan, compile_features
from gaifman.features.evaluator import FeatureEvaluator
from gaifman.features.feature_sets import FeatureSet
from gaifman.kb.gaifman_graph import GaifmanGraph, build_graph
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.logic.ast import (
    Aggregate,
    Difference,
    Exists,
    Feature,
    Forall,
    Not,
    RelationVariable,
    free_variables,
    query_position,
    walk,
)
from gaifman.logic.semantics import feature_value
from gaifman.sampling.hiding import HiddenFacts
from gaifman.sampling.neighbourhoods import NeighbourhoodBatch, draw_neighbourhoods
from generators import ATTRIBUTES, OBJECTS, RELATIONS, Generator

THIRTY = (*OBJECTS, *(f"o{i:02}" for i in range(25)))


@dataclass
class Tally:
    """Counts of comparisons."""

    cases: int = 0
    values: int = 0
    other_than_zero: int = 0
    missing: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    worst: list[str] = field(default_factory=list)
    """The values that differ, in words."""


def knowledge(rng: random.Random) -> KnowledgeBase:
    """A random knowledge base of at most 30 objects that knows every relation of the generator; some are empty."""
    objects = THIRTY[: rng.choice([2, 5, 10, 20, 30])]
    dummies = {(name, *[objects[0]] * arity) for name, arity in RELATIONS.items()}
    facts = {
        (name, *rng.choices(objects, k=arity))
        for name, arity in RELATIONS.items()
        for _ in range(rng.randint(0, 3 * len(objects)) if rng.random() < 0.8 else 0)
    }
    values = {(a, o): float(rng.randint(-3, 5)) for a in ATTRIBUTES for o in objects if rng.random() < 0.6}
    values |= {(name, objects[0]): 1.0 for name in ATTRIBUTES}
    kb = KnowledgeBase.from_facts([*facts, *dummies], values, objects)
    return kb.without_facts(sorted(dummies - facts))


def hide(rng: random.Random, graph: GaifmanGraph, tuples: int) -> HiddenFacts:
    """From half of the tuples, a few facts and values."""
    return feature_cases.hide(rng, graph.kb, tuples, [0, 0, 1, 3, 12])


def features(rng: random.Random, width: int, count: int) -> FeatureSet:
    """Random features of every kind for a query."""
    generator = Generator(rng)
    found = [generator.feature(depth=rng.randint(1, 4)) for _ in range(count)]
    return FeatureSet(tuple(f for f in found if not any(query_position(v) > width for v in free_variables(f))))


def kind(feature: Feature) -> str:
    """The kind of a feature, in a word or two."""
    parts = list(walk(feature.body))
    if isinstance(feature.body, Aggregate):
        return feature.body.kind if feature.body.quantity else "bare count"
    if any(isinstance(part, RelationVariable) for part in parts):
        return "second order"
    if isinstance(feature.body, Difference):
        return "difference"
    if any(not query_position(v) for v in free_variables(feature)):
        return "counting"
    if any(isinstance(part, Forall) for part in parts):
        return "universal"
    if any(isinstance(part, Not) for part in parts):
        return "with negation"
    return "existential" if any(isinstance(part, Exists) for part in parts) else type(feature.body).__name__.lower()


def case(seed: int, tally: Tally) -> None:
    """One knowledge base, a few tuples, a few features: compare every value."""
    rng = random.Random(seed)
    graph = build_graph(knowledge(rng))
    width = rng.choice([1, 2, 2, 2, 3])
    tuples = np.array([[rng.randrange(len(graph)) for _ in range(width)] for _ in range(6)], np.int32)
    hidden = hide(rng, graph, len(tuples))
    sampling = SamplingConfig(rng.randint(0, 2), rng.choice([1, 3, 5, 8]), draws=2, seed=seed)
    drawn = draw_neighbourhoods(graph, tuples, sampling, hidden, threads=1)
    plan = compile_features(features(rng, width, 6), graph.kb, width)
    tally.kinds.update(map(kind, plan.features))
    compare(graph, drawn, plan, hidden, tally)
    tally.cases += 1


def compare(
    graph: GaifmanGraph, drawn: NeighbourhoodBatch, plan: FeaturePlan, hidden: HiddenFacts, tally: Tally
) -> None:
    """Compare every value of the matrix with the definition."""
    found = FeatureEvaluator(graph, plan).evaluate(drawn, hidden).to_dense()
    for row in range(len(drawn)):
        t = row // drawn.draws
        names = [graph.kb.object_name(int(member)) for member in drawn.members_of(t, row % drawn.draws)]
        inside, objects = (
            visible(graph.kb, hidden, t).induced(names),
            tuple(names[place] for place in drawn.own_positions[t]),
        )
        for column, feature in enumerate(plan.features):
            expected = np.float32(feature_value(inside, feature, objects))
            tally.values += 1
            tally.other_than_zero += bool(np.nan_to_num(expected))
            tally.missing += bool(np.isnan(expected))
            if not np.isclose(found[row, column], expected, rtol=1e-5, atol=1e-6, equal_nan=True):
                tally.worst.append(f"{feature} of {objects} in {names}: {found[row, column]}, not {expected}")


def main() -> int:
    """Compare until there are enough."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--count", type=int, default=100_000, help="values to compare")
    arguments.add_argument("--seed", type=int, default=0, help="the first seed")
    options = arguments.parse_args()
    tally, began, said = Tally(), time.monotonic(), 0.0
    seed = options.seed
    while tally.values < options.count and not tally.worst:
        case(seed, tally)
        seed += 1
        if time.monotonic() - said > 10:
            said = time.monotonic()
            print(f"{tally.values:,} of {options.count:,} values, seed {seed:,}", file=sys.stderr, flush=True)
    body = {
        "values": tally.values,
        "knowledge_bases": tally.cases,
        "other_than_zero": tally.other_than_zero,
        "missing": tally.missing,
        "seeds": [options.seed, seed],
        "features_by_kind": dict(sorted(tally.kinds.items())),
        "differences": tally.worst,
        "seconds": round(time.monotonic() - began, 1),
    }
    print(json.dumps(body, ensure_ascii=False, indent=2))
    return 1 if tally.worst else 0


if __name__ == "__main__":
    sys.exit(main())

"""Random knowledge bases, features and neighbourhoods, and a check of features by the definition."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pytest

from gaifman.config import SamplingConfig
from gaifman.features.compiler import compile_features
from gaifman.features.evaluator import FeatureEvaluator, FeatureMatrix
from gaifman.features.feature_sets import FeatureSet
from gaifman.kb.gaifman_graph import GaifmanGraph, build_graph
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.logic.ast import free_variables, query_position
from gaifman.logic.semantics import Structure, feature_value
from gaifman.sampling.hiding import HiddenFacts
from gaifman.sampling.neighbourhoods import NeighbourhoodBatch, draw_neighbourhoods
from generators import ATTRIBUTES, OBJECTS, RELATIONS, Generator

PLENTY = (*OBJECTS, *(f"o{i}" for i in range(12)))


def knowledge(rng: random.Random, count: int | None = None) -> KnowledgeBase:
    """A random knowledge base over every relation of the generator, some of them empty."""
    objects = PLENTY[: count or rng.randint(2, len(PLENTY))]
    dummies = [(name, *[objects[0]] * arity) for name, arity in RELATIONS.items()]
    facts = {
        (name, *rng.choices(objects, k=arity))
        for name, arity in RELATIONS.items()
        for _ in range(rng.randint(0, 2 * len(objects)) if rng.random() < 0.8 else 0)
    }
    values = {(a, o): float(rng.randint(-3, 5)) for a in ATTRIBUTES for o in objects if rng.random() < 0.6}
    values |= {(name, objects[0]): 1.0 for name in ATTRIBUTES}
    kb = KnowledgeBase.from_facts([*facts, *dummies], values, objects)
    return kb.without_facts([dummy for dummy in dummies if dummy not in facts])


def features(rng: random.Random, count: int) -> FeatureSet:
    """Random features for two query variables."""
    generator = Generator(rng)
    found = [generator.feature(depth=rng.randint(1, 4)) for _ in range(count)]
    return FeatureSet(tuple(f for f in found if not any(query_position(v) > 2 for v in free_variables(f))))


def check(graph: GaifmanGraph, drawn: NeighbourhoodBatch, phi: FeatureSet, hidden: HiddenFacts | None = None) -> int:
    """Compare every value with the definition; how many were compared."""
    kb = graph.kb
    plan = compile_features(phi, kb, drawn.own_positions.shape[1])
    found = FeatureEvaluator(graph, plan).evaluate(drawn, hidden).to_dense()
    for row in range(len(drawn)):
        t = row // drawn.draws
        structure = visible(kb, hidden, t)
        members = drawn.members_of(t, row % drawn.draws)
        names = [kb.object_name(int(member)) for member in members]
        inside, pair = structure.induced(names), tuple(names[place] for place in drawn.own_positions[t])
        for column, feature in enumerate(plan.features):
            expected = np.float32(feature_value(inside, feature, pair))
            same = pytest.approx(expected, rel=1e-5, abs=1e-6, nan_ok=True)
            assert found[row, column] == same, f"{feature} of {pair} in {names}"
    return found.size


def visible(kb: KnowledgeBase, hidden: HiddenFacts | None, t: int) -> Structure:
    """The facts and values that are not hidden from a tuple."""
    unseen = hidden.facts[hidden.starts[t] : hidden.starts[t + 1]].tolist() if hidden else []
    known = kb.without_facts([kb.fact_by_id(number) for number in unseen if number < len(kb)]).structure()
    values = {
        attribute: {name: v for name, v in own.items() if kb.value_id(attribute, kb.object_id(str(name))) not in unseen}
        for attribute, own in known.attributes.items()
    }
    return Structure(known.domain, known.relations, values)


def hide(rng: random.Random, kb: KnowledgeBase, tuples: int, choices: Sequence[int]) -> HiddenFacts:
    """Some facts and values for each tuple, as many as one of the choices."""
    every = len(kb) + len(kb.value_table)
    chosen = [sorted(rng.sample(range(every), min(every, rng.choice(choices)))) for _ in range(tuples)]
    starts = np.append(0, np.cumsum([len(numbers) for numbers in chosen])).astype(np.int64)
    return HiddenFacts(starts, np.array([n for numbers in chosen for n in numbers], np.int64))


def equal(one: FeatureMatrix, other: FeatureMatrix) -> bool:
    """Whether two matrices have the same values, missing ones included."""
    return np.array_equal(one.to_dense(), other.to_dense(), equal_nan=True)


def case(seed: int) -> tuple[random.Random, GaifmanGraph, NeighbourhoodBatch]:
    """A random knowledge base with some neighbourhoods of random pairs, equal objects included."""
    rng = random.Random(seed)
    graph = build_graph(knowledge(rng))
    tuples = np.array([[rng.randrange(len(graph)) for _ in range(2)] for _ in range(3)], np.int32)
    sampling = SamplingConfig(radius=rng.randint(0, 2), size=rng.choice([1, 3, 6]), draws=2, seed=seed)
    return rng, graph, draw_neighbourhoods(graph, tuples, sampling)


EVERY = """
each rel. rel(s1, s2)
each rel. rel(s2, s1)
each rel. rel(s1, s1)
∃rel rel(s1, s2)
∃rel rel(s2, s2)
each rel. rel(s1)
each rel. ∃x rel(s1, x)
each rel. ∃x rel(x, s2)
each rel. rel(s1, x)
each rel. count rel(x, s2)
each rel, other. ∃x rel(s1, x) ∧ other(x, s2)
each rel, other. ∃x rel(x, s1) ∧ other(s2, x)
each rel. ∃x rel(s1, x) ∧ rel(x, s1)
each rel, other. rel(s2, x) ∧ other(x, s1)
each rel. rel(s1, 'ann')
each rel. rel('7', s2)
each rel. rel(s2, '7')
each rel, other. ∃x, y rel(s1, x) ∧ other(x, y) ∧ rel(y, s2)
each rel, other. ∃x, y other(y, x) ∧ rel(y, s2) ∧ rel(s1, x)
each rel, other. ∃x, y rel(s2, x) ∧ rel(y, x) ∧ other(s1, y)
each rel. ∃x, y rel(s1, x) ∧ rel(x, y) ∧ rel(y, s1)
each rel, other. rel(x, s1) ∧ other(x, y) ∧ other(s2, y)
"""

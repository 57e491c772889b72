"""Features of tuples with three or more objects, some of them equal, with loops and hidden facts."""

from __future__ import annotations

import random
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from feature_cases import check, equal, hide
from gaifman.config import SamplingConfig
from gaifman.features.compiler import compile_features
from gaifman.features.evaluator import FeatureEvaluator
from gaifman.features.feature_sets import FeatureSet, parse_phi
from gaifman.features.templates import (
    ConstantFact,
    Hop,
    Linked,
    NaryAtom,
    Pair,
    Path,
    Unary,
    Value,
    ValueDifference,
    Walk,
    match_template,
)
from gaifman.kb.gaifman_graph import GaifmanGraph, build_graph
from gaifman.kb.knowledge_base import Fact, KnowledgeBase
from gaifman.logic.ast import Feature
from gaifman.logic.parser import Schema, parse_feature
from gaifman.sampling.hiding import HiddenFacts
from gaifman.sampling.neighbourhoods import NeighbourhoodBatch, draw_neighbourhoods

OBJECTS = ("a", "b", "c", "d", "e")
TEMPLATES = """
p(I, J) | u(I) | exists r. r(I, J) | p(I, 'a') | q('b', I) | exists x. p(I, x) | exists x. q(x, I) | p(x, I) | q(I, x)
exists x. p(I, x) & q(x, J) | p(x, I) & p(x, J) | q(I, x) & p(J, x)
exists x, y. p(I, x) & q(x, y) & p(y, J) | p(x, I) & q(x, y) & p(J, y) | q(I, x) & q(y, x) & q(y, J)
t(I, J, K) | exists x. t(I, x, J) | t(x, I, y) | t(J, x, I) | exists x, y. t(x, y, I)
age(I) | size(I) | age(I) - age(J) | size(I) - age(J)
"""
"""A feature of every template; I, J and K are objects of the tuple."""


def all_features(arity: int, wide: bool) -> list[Feature]:
    """The features of every template, for all objects of a tuple."""
    texts = [text.strip() for line in TEMPLATES.strip().splitlines() for text in line.split("|")]
    places = [f"s{i}" for i in range(1, arity + 1)]
    grounded = {
        text.replace("I", one).replace("J", other).replace("K", third)
        for text in texts
        for one, other, third in product(places, repeat=3)
        if wide or "t(" not in text
    }
    schema = Schema({"p": 2, "q": 2, "u": 1, "t": 3}, ("age", "size"), OBJECTS)
    return [parse_feature(text, schema) for text in sorted(grounded)]


def knowledge(rng: random.Random, wide: bool) -> KnowledgeBase:
    """A few objects with many facts, a third of them loops. Every relation is there, perhaps without facts."""
    objects = OBJECTS[: rng.randint(2, len(OBJECTS))]
    arities = {"p": 2, "q": 2, "u": 1} | ({"t": 3} if wide else {})
    dummies = {(name, *["a"] * arity) for name, arity in arities.items()}
    facts = set()
    for name, arity in arities.items():
        for _ in range(rng.randint(0, 8)):
            loop = rng.random() < 0.33
            facts.add((name, *([rng.choice(objects)] * arity if loop else rng.choices(objects, k=arity))))
    values = {(name, o): float(rng.randint(-1, 1)) for name in ("age", "size") for o in objects if rng.random() < 0.7}
    values |= {("age", "a"): 0.0, ("size", "a"): 1.0}
    return KnowledgeBase.from_facts([*facts, *dummies], values, objects).without_facts(sorted(dummies - facts))


def case(seed: int, wide: bool) -> tuple[random.Random, GaifmanGraph, NeighbourhoodBatch, FeatureSet, HiddenFacts]:
    """Tuples of three or four of at most five objects, with what is hidden from them."""
    rng = random.Random(seed)
    kb, arity = knowledge(rng, wide), rng.choice([3, 3, 4])
    graph = build_graph(kb)
    tuples = np.array([rng.choices(range(len(graph)), k=arity) for _ in range(3)], np.int32)
    hidden = hide(rng, kb, len(tuples), [0, 1, 1, 3])
    sampling = SamplingConfig(rng.randint(0, 2), rng.choice([1, 3, None]), draws=1, seed=seed)
    drawn = draw_neighbourhoods(graph, tuples, sampling, hidden, threads=1)
    chosen = rng.sample(all_features(arity, wide), 40)
    return rng, graph, drawn, FeatureSet(tuple(chosen)), hidden


def test_a_step_to_an_object_that_comes_twice_counts_once() -> None:
    """`p(x, s3)` of (a, a, b) with the one fact p(a, b) was 2: the edge was seen from both places of a."""
    kb = KnowledgeBase.from_facts([("p", "a", "b")])
    texts = "p(x, s3)\np(s1, x)\np(s2, x)\np(x, s3) & p(x, s3)\np(x, s1)"
    plan = compile_features(parse_phi(texts), kb, 3)
    tuples = [[0, 0, 1], [1, 0, 0], [0, 1, 0], [0, 1, 1]]
    for specialised in (True, False):
        evaluator = FeatureEvaluator(build_graph(kb), plan, use_templates=specialised)
        found = evaluator.sample_and_evaluate(tuples, SamplingConfig(size=None)).to_dense()
        assert found.tolist() == [[1, 1, 1, 1, 0], [0, 0, 1, 0, 1], [0, 1, 0, 0, 0], [1, 1, 0, 1, 0]]


@pytest.mark.parametrize("wide", [False, True], ids=["binary", "wide"])
@settings(max_examples=60)
@given(st.integers(0, 10**6))
def test_templates_of_repeated_objects_equal_the_definition(wide: bool, seed: int) -> None:
    _, graph, drawn, phi, hidden = case(seed, wide)
    assert check(graph, drawn, phi, hidden) > 0


@pytest.mark.parametrize("wide", [False, True], ids=["binary", "wide"])
@settings(max_examples=60)
@given(st.integers(0, 10**6))
def test_uncertain_facts_of_repeated_objects_drop_out_as_in_programs(wide: bool, seed: int) -> None:
    rng, graph, drawn, phi, hidden = case(seed, wide)
    facts = [Fact(fact.relation, fact.objects, rng.choice([0.3, 0.7, 1.0])) for fact in graph.kb.facts()]
    uncertain = build_graph(graph.kb.without_facts([*graph.kb.facts()]).with_facts(facts))
    sampling = SamplingConfig(seed=seed)
    plan = compile_features(phi, uncertain.kb, drawn.own_positions.shape[1])
    fast, slow = (
        FeatureEvaluator(uncertain, plan, use_templates=specialised).evaluate(drawn, hidden, drop_uncertain=sampling)
        for specialised in (True, False)
    )
    assert equal(fast, slow)


def test_random_cases_have_every_template_loops_and_repeated_objects() -> None:
    """What the tests above are worth."""
    found, repeated, loops, hides = set(), 0, 0, 0
    for seed in range(30):
        _, graph, drawn, phi, hidden = case(seed, wide=True)
        found |= {type(match_template(feature)) for feature in phi}
        repeated += sum(len(set(own)) < len(own) for own in drawn.own_positions.tolist())
        loops += sum(len(fact.objects) > 1 == len(set(fact.objects)) for fact in graph.kb.facts())
        hides += len(hidden.facts)
    assert found == {Pair, Linked, Unary, ConstantFact, Hop, Path, Walk, NaryAtom, Value, ValueDifference}
    assert min(repeated, loops, hides) > 50

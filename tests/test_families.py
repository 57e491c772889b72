"""Features with kernels of their own give what the machine gives."""

from __future__ import annotations

import random

import numpy as np
import pytest

from gaifman.families import families_of, pattern
from gaifman.features import Evaluator
from gaifman.neighbourhoods import Hidden, Sampling, draw
from gaifman.parser import parse_feature
from gaifman.phi import FeatureSet, named, parse_phi
from gaifman.plans import plan_of
from generators import RELATIONS, over_seeds
from test_features import case

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
"""


@pytest.mark.parametrize(
    ("text", "family"),
    [
        ("r(s1, s2)", "pair"),
        ("r(s2, s2)", "pair"),
        ("∃q q(s1, s2)", "linked"),
        ("p(s2)", "kind"),
        ("∃x r(x, s2)", "hop"),
        ("r(s1, x)", "hops"),
        ("count r(s1, x)", "hops"),
        ("∃x r(x, s1) ∧ r(x, s2)", "path"),
        ("r(x, s1) ∧ r(s2, x)", "paths"),
    ],
)
def test_a_shape_is_recognised(text: str, family: str) -> None:
    found = pattern(parse_feature(text))
    assert found is not None
    assert found[0] == family


@pytest.mark.parametrize(
    "text",
    [
        "r(x, y)",
        "∃x r(x, x)",
        "¬r(s1, s2)",
        "∃x r(s1, x) ∧ r(y, s2)",
        "∃x r(s1, x) ∨ r(x, s2)",
        "∃x t(s1, x, x)",
        "r(s1, 'ann')",
        "∃x, y r(s1, x)",
        "∀x r(s1, x)",
        "∃q q(s1, x)",
        "sum age(x) for r(s1, x)",
        "∃x r(s1, x) ∧ r(x, s2) ∧ p(x)",
    ],
)
def test_another_shape_is_left_to_the_machine(text: str) -> None:
    assert pattern(parse_feature(text)) is None


def test_what_asks_for_the_same_twice_is_asked_of_the_machine() -> None:
    _, graph, _ = case(1)
    plan = plan_of(parse_phi("∃x r(s1, x)\n∃y r(s1, y)"), graph.kb, 2)
    assert families_of(graph, plan)[1].tolist() == [0]


@over_seeds(60)
def test_every_family_equals_the_machine(seed: int) -> None:
    rng, graph, drawn = case(seed)
    plan = plan_of(parse_phi(EVERY), graph.kb, 2)
    count = len(graph.kb)
    facts = np.array(sorted(rng.sample(range(count), min(count, 3))) * len(drawn.places), np.int64)
    hidden = Hidden(np.arange(len(drawn.places) + 1) * (len(facts) // len(drawn.places)), facts)
    for unseen in (None, hidden):
        fast = Evaluator(graph, plan).features(drawn, unseen)
        slow = Evaluator(graph, plan, specialised=False).features(drawn, unseen)
        assert fast.dense().tolist() == slow.dense().tolist()


@pytest.mark.parametrize("name", ["paper", "universal-schema", "default"])
def test_named_sets_equal_the_machine_for_any_number_of_threads(name: str) -> None:
    _, graph, _ = case(3)
    plan = plan_of(named(name, 2, RELATIONS, graph.kb.attributes), graph.kb, 2)
    tuples = np.random.default_rng(1).integers(0, len(graph), (6000, 2)).astype(np.int32)
    drawn = draw(graph, tuples, Sampling(size=4))
    fast = [Evaluator(graph, plan).features(drawn, threads=threads) for threads in (1, 2, 4)]
    slow = Evaluator(graph, plan, specialised=False).features(drawn)
    for one in fast:
        assert one.starts.tolist() == fast[0].starts.tolist()
        assert one.ids.tobytes() == fast[0].ids.tobytes()
        assert one.values.tobytes() == fast[0].values.tobytes()
    assert fast[0].dense().tolist() == slow.dense().tolist()


def test_uncertain_facts_drop_out_as_often_as_they_are_uncertain() -> None:
    """A fact of confidence 0.3 is there in about 30 % of the neighbourhoods, the same ones each time."""
    from gaifman.facts import Fact
    from gaifman.graph import graph_of
    from gaifman.kb import KnowledgeBase

    kb = KnowledgeBase.from_facts([Fact("r", ("ann", "bob"), 0.3), Fact("r", ("bob", "ann"))])
    graph = graph_of(kb)
    sampling = Sampling(size=5, draws=4000, seed=2)
    drawn = draw(graph, [[0, 1]], sampling)
    plan = plan_of(FeatureSet((parse_feature("r(s1, s2)"), parse_feature("r(s2, s1)"))), kb, 2)
    for specialised in (True, False):
        evaluator = Evaluator(graph, plan, specialised=specialised)
        found = evaluator.features(drawn, dropping=sampling).dense()
        assert abs(found[:, 0].mean() - 0.3) < 0.03
        assert found[:, 1].all()
        assert evaluator.features(drawn).dense().all()
        assert evaluator.features(drawn, dropping=sampling).dense().tolist() == found.tolist()


def test_a_named_set_works_where_a_relation_has_the_name_of_its_variable() -> None:
    _, graph, _ = case(2)
    assert "r" in graph.kb.relations
    text = named("default", 2, RELATIONS).text()
    assert "each r1. r1(s1, s2)" in text
    assert plan_of(named("default", 2, RELATIONS), graph.kb, 2).features


def test_random_feature_sets_keep_their_columns() -> None:
    rng = random.Random(5)
    lines = EVERY.strip().splitlines()
    rng.shuffle(lines)
    _, graph, drawn = case(7)
    ordered = plan_of(parse_phi(EVERY), graph.kb, 2)
    shuffled = plan_of(parse_phi("\n".join(lines)), graph.kb, 2)
    columns = [shuffled.features.index(feature) for feature in ordered.features]
    one, other = Evaluator(graph, ordered).features(drawn), Evaluator(graph, shuffled).features(drawn)
    assert one.dense().tolist() == other.dense()[:, columns].tolist()


def test_a_shape_that_only_families_have_needs_no_default() -> None:
    """Once it took the first program for its own, whose tables had no room, and wrote beyond them."""
    _, graph, _ = case(2)
    drawn = draw(graph, [[0, 1]], Sampling(size=None))
    plan = plan_of(parse_phi("r(s1, x)\n∀x r(s1, x)\nr(s1, 'ann')"), graph.kb, 2)
    fast, slow = Evaluator(graph, plan), Evaluator(graph, plan, specialised=False)
    assert fast.features(drawn).dense().tolist() == slow.features(drawn).dense().tolist()
    assert fast.features(drawn).shapes.max() < plan.shapes.max()

"""Features with a template equal their programs."""

from __future__ import annotations

import random

import numpy as np
import pytest

from feature_cases import EVERY, case, check, equal
from gaifman.config import SamplingConfig
from gaifman.features.compiler import compile_features
from gaifman.features.evaluator import FeatureEvaluator
from gaifman.features.feature_sets import FeatureSet, named_feature_set, parse_phi
from gaifman.features.templates import (
    MAX_DUPLICATES,
    ConstantFact,
    Hop,
    Linked,
    NaryAtom,
    Pair,
    Path,
    Template,
    Unary,
    Walk,
    build_template_index,
    match_template,
)
from gaifman.kb.gaifman_graph import GaifmanGraph, build_graph
from gaifman.kb.knowledge_base import Fact, KnowledgeBase
from gaifman.logic.parser import parse_feature
from gaifman.sampling.hiding import HiddenFacts
from gaifman.sampling.neighbourhoods import NeighbourhoodBatch, draw_neighbourhoods
from generators import RELATIONS, over_seeds

WIDE = """
∃x, y t(s1, x, y)
∃x, y t(x, y, s2)
∃x t(s2, x, s1)
t(x, s1, y)
count t(s1, x, s1)
t(s1, s2, s2)
∃x, y, z f(x, s1, y, z)
∃x, y f(s2, x, y, s1)
f(x, y, s1, z)
"""


@pytest.mark.parametrize(
    ("text", "template", "counts"),
    [
        ("r(s1, s2)", Pair, False),
        ("r(s2, s2)", Pair, False),
        ("∃q q(s1, s2)", Linked, False),
        ("p(s2)", Unary, False),
        ("∃x r(x, s2)", Hop, False),
        ("r(s1, x)", Hop, True),
        ("count r(s1, x)", Hop, True),
        ("∃x r(x, s1) ∧ r(x, s2)", Path, False),
        ("r(x, s1) ∧ r(s2, x)", Path, True),
        ("r(s1, 'ann')", ConstantFact, False),
        ("∃x, y r(s1, x) ∧ r(x, y) ∧ r(y, s2)", Walk, False),
        ("∃x ∃y r(x, y) ∧ r(y, s2) ∧ r(s1, x)", Walk, False),
        ("r(s1, x) ∧ r(y, x) ∧ r(s1, y)", Walk, True),
        ("∃x, y t(x, s1, y)", NaryAtom, False),
        ("t(s2, s1, s1)", NaryAtom, False),
    ],
)
def test_a_template_is_recognised(text: str, template: type[Template], counts: bool) -> None:
    found = match_template(parse_feature(text))
    assert type(found) is template
    assert getattr(found, "counts", False) == counts


@pytest.mark.parametrize(
    "text",
    [
        "r(x, y)",
        "∃x r(x, x)",
        "¬r(s1, s2)",
        "∃x r(s1, x) ∧ r(y, s2)",
        "∃x r(s1, x) ∨ r(x, s2)",
        "∃x t(s1, x, x)",
        "r('bob', 'ann')",
        "∃x t(s1, x, 'ann')",
        "∃x r(x, 'ann')",
        "∃x, y, z t(x, y, z)",
        "∃x, y r(s1, x)",
        "∃x r(s1, x) ∧ r(x, y) ∧ r(y, s2)",
        "∃x, y r(s1, x) ∧ r(x, y) ∧ r(x, s2)",
        "∃x, y r(s1, x) ∧ r(x, x) ∧ r(y, s2)",
        "∃x, y r(s1, x) ∧ p(x) ∧ r(y, s2)",
        "∃x ∃x r(s1, x)",
        "∀x r(s1, x)",
        "∃q q(s1, x)",
        "sum age(x) for r(s1, x)",
        "∃x r(s1, x) ∧ r(x, s2) ∧ p(x)",
    ],
)
def test_other_features_need_a_program(text: str) -> None:
    assert match_template(parse_feature(text)) is None


def test_features_with_the_same_meaning_have_the_same_value() -> None:
    """Their number is limited, because each is copied in every row; programs evaluate the rest."""
    _, graph, drawn = case(1)
    texts = ["∃x r(s1, x)", "∃y r(s1, y)", "r(x, s2)", "r(y, s2)", "∃x r(s1, x) ∧ r(x, s2)", "∃x r(x, s2) ∧ r(s1, x)"]
    more = [f"∃x{i} r(s1, x{i})" for i in range(MAX_DUPLICATES)]
    plan = compile_features(parse_phi("\n".join(texts + more)), graph.kb, 2)
    found, taken = build_template_index(graph, plan)
    assert found.duplicates[:3].tolist() == [[0, 1], [2, 3], [4, 5]]
    assert len(taken) == MAX_DUPLICATES + 3 < len(plan.features)
    fast, slow = FeatureEvaluator(graph, plan), FeatureEvaluator(graph, plan, use_templates=False)
    assert fast.evaluate(drawn).to_dense().tolist() == slow.evaluate(drawn).to_dense().tolist()


def hide(rng: random.Random, graph: GaifmanGraph, drawn: NeighbourhoodBatch, most: int) -> HiddenFacts:
    """Up to so many facts for each tuple, those between its own objects more often than others."""
    chosen: list[list[int]] = []
    for t in range(len(drawn.own_positions)):
        own = {graph.kb.object_name(int(drawn.members_of(t)[place])) for place in drawn.own_positions[t]}
        near = [n for n in range(len(graph.kb)) if own & set(graph.kb.fact_by_id(n).objects)]
        pool = near if near and rng.random() < 0.7 else list(range(len(graph.kb)))
        chosen.append(sorted(rng.sample(pool, min(len(pool), rng.randint(0, most)))))
    starts = np.append(0, np.cumsum([len(numbers) for numbers in chosen])).astype(np.int64)
    return HiddenFacts(starts, np.array([n for numbers in chosen for n in numbers], np.int64))


def assert_the_same(rng: random.Random, graph: GaifmanGraph, drawn: NeighbourhoodBatch, phi: str) -> None:
    """Templates and programs agree, whatever is hidden."""
    plan = compile_features(parse_phi(phi), graph.kb, 2)
    fast, slow = FeatureEvaluator(graph, plan), FeatureEvaluator(graph, plan, use_templates=False)
    for most in (0, 1, 4):
        unseen = hide(rng, graph, drawn, most)
        found, expected = fast.evaluate(drawn, unseen).to_dense(), slow.evaluate(drawn, unseen).to_dense()
        wrong = [str(plan.features[column]) for column in np.flatnonzero((found != expected).any(axis=0))]
        assert not wrong


@over_seeds(60)
def test_templates_equal_programs(seed: int) -> None:
    assert_the_same(*case(seed), EVERY + WIDE)


@over_seeds(60)
def test_templates_equal_programs_for_binary_relations(seed: int) -> None:
    """That is where no relation has more than two places."""
    rng, graph, _ = case(seed)
    kb = graph.kb
    facts = {fact for fact in kb.facts() if len(fact.objects) < 3} | {Fact("r", (kb.object_name(0), kb.object_name(0)))}
    few = KnowledgeBase.from_facts(sorted(facts), objects=list(kb.objects))
    graph = build_graph(few)
    tuples = np.array([[rng.randrange(len(graph)) for _ in range(2)] for _ in range(4)], np.int32)
    drawn = draw_neighbourhoods(graph, tuples, SamplingConfig(rng.randint(0, 2), rng.choice([1, 3, 6, None]), 2, seed))
    assert_the_same(rng, graph, drawn, EVERY)


def test_a_hidden_type_is_hidden_where_there_is_nothing_but_types() -> None:
    """Once what is hidden was taken for a fact of two places, and its second object read beyond the row's end."""
    kb = KnowledgeBase.from_facts([("p", "ann"), ("p", "bob"), ("q", "ann")])
    graph = build_graph(kb)
    plan = compile_features(parse_phi("p(s1)\nq(s1)\np(s2)\np(x)"), kb, 2)
    drawn = draw_neighbourhoods(graph, [[0, 1]], SamplingConfig())
    hidden = HiddenFacts(np.array([0, 2]), np.array([0, 2], np.int64))
    for specialised in (True, False):
        found = FeatureEvaluator(graph, plan, use_templates=specialised).evaluate(drawn, hidden)
        assert found.to_dense().tolist() == [[0, 0, 1, 1]]


@over_seeds(40)
def test_templates_equal_the_definition(seed: int) -> None:
    rng, graph, drawn = case(seed)
    plan = compile_features(parse_phi(EVERY + WIDE), graph.kb, 2)
    chosen = FeatureSet(tuple(rng.sample(plan.features, 25)))
    check(graph, drawn, chosen, hide(rng, graph, drawn, 2))


@over_seeds(20)
def test_templates_drop_the_same_uncertain_facts_as_programs(seed: int) -> None:
    rng, graph, _ = case(seed)
    sure = [fact for fact in graph.kb.facts() if len(fact.objects) < 3]
    facts = [Fact(fact.relation, fact.objects, rng.choice([0.3, 0.7, 1.0])) for fact in sure]
    kb = KnowledgeBase.from_facts(facts, objects=list(graph.kb.objects))
    graph, sampling = build_graph(kb), SamplingConfig(1, 6, 3, seed)
    drawn = draw_neighbourhoods(graph, [[0, 1], [1, 1]], sampling)
    names = {name: relation.arity for name, relation in kb.relations.items()}
    if not names:
        return
    plan = compile_features(named_feature_set("default", 2, names), kb, 2)
    found = [
        FeatureEvaluator(graph, plan, use_templates=fast).evaluate(drawn, drop_uncertain=sampling)
        for fast in (True, False)
    ]
    assert found[0].to_dense().tolist() == found[1].to_dense().tolist()


@pytest.mark.parametrize("name", ["paper", "universal-schema", "default"])
def test_named_sets_equal_programs_for_any_number_of_threads(name: str) -> None:
    _, graph, _ = case(3)
    plan = compile_features(named_feature_set(name, 2, RELATIONS, graph.kb.attributes), graph.kb, 2)
    tuples = np.random.default_rng(1).integers(0, len(graph), (6000, 2)).astype(np.int32)
    drawn = draw_neighbourhoods(graph, tuples, SamplingConfig(size=4))
    fast = [FeatureEvaluator(graph, plan).evaluate(drawn, threads=threads) for threads in (1, 2, 4)]
    slow = FeatureEvaluator(graph, plan, use_templates=False).evaluate(drawn)
    for one in fast:
        assert one.starts.tolist() == fast[0].starts.tolist()
        assert one.ids.tobytes() == fast[0].ids.tobytes()
        assert one.values.tobytes() == fast[0].values.tobytes()
    assert equal(fast[0], slow)


def test_uncertain_facts_drop_out_as_often_as_they_are_uncertain() -> None:
    """A fact of confidence 0.3 is there in about 30 % of the neighbourhoods, the same ones each time."""
    kb = KnowledgeBase.from_facts([Fact("r", ("ann", "bob"), 0.3), Fact("r", ("bob", "ann"))])
    graph = build_graph(kb)
    sampling = SamplingConfig(size=5, draws=4000, seed=2)
    drawn = draw_neighbourhoods(graph, [[0, 1]], sampling)
    plan = compile_features(FeatureSet((parse_feature("r(s1, s2)"), parse_feature("r(s2, s1)"))), kb, 2)
    for specialised in (True, False):
        evaluator = FeatureEvaluator(graph, plan, use_templates=specialised)
        found = evaluator.evaluate(drawn, drop_uncertain=sampling).to_dense()
        assert abs(found[:, 0].mean() - 0.3) < 0.03
        assert found[:, 1].all()
        assert evaluator.evaluate(drawn).to_dense().all()
        assert evaluator.evaluate(drawn, drop_uncertain=sampling).to_dense().tolist() == found.tolist()


def test_a_named_set_works_where_a_relation_has_the_name_of_its_variable() -> None:
    _, graph, _ = case(2)
    assert "r" in graph.kb.relations
    text = named_feature_set("default", 2, RELATIONS).to_text()
    assert "each r1. r1(s1, s2)" in text
    assert compile_features(named_feature_set("default", 2, RELATIONS), graph.kb, 2).features


def test_random_feature_sets_keep_their_columns() -> None:
    rng = random.Random(5)
    lines = EVERY.strip().splitlines()
    rng.shuffle(lines)
    _, graph, drawn = case(7)
    ordered = compile_features(parse_phi(EVERY), graph.kb, 2)
    shuffled = compile_features(parse_phi("\n".join(lines)), graph.kb, 2)
    columns = [shuffled.features.index(feature) for feature in ordered.features]
    one, other = FeatureEvaluator(graph, ordered).evaluate(drawn), FeatureEvaluator(graph, shuffled).evaluate(drawn)
    assert one.to_dense().tolist() == other.to_dense()[:, columns].tolist()


def test_a_default_group_of_templates_only_needs_no_default() -> None:
    """Once it took the first program for its own, whose tables had no room, and wrote beyond them."""
    _, graph, _ = case(2)
    drawn = draw_neighbourhoods(graph, [[0, 1]], SamplingConfig(size=None))
    plan = compile_features(parse_phi("r(s1, x)\n∀x r(s1, x)\nr(s1, 'ann')"), graph.kb, 2)
    fast, slow = FeatureEvaluator(graph, plan), FeatureEvaluator(graph, plan, use_templates=False)
    assert fast.evaluate(drawn).to_dense().tolist() == slow.evaluate(drawn).to_dense().tolist()
    assert fast.evaluate(drawn).default_rows.max() < plan.default_groups.max()

"""Mining: frequent patterns that separate answers from negatives, with the answer's own fact hidden."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from gaifman.errors import FormulaError, KnowledgeBaseError
from gaifman.features.feature_sets import parse_phi
from gaifman.features.mining import MiningConfig, MiningResult, information_gain, known_answers, mine
from gaifman.io import demo
from gaifman.kb.gaifman_graph import GaifmanGraph, build_graph
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.logic.parser import parse_query
from gaifman.logic.semantics import feature_value
from gaifman.sampling.neighbourhoods import draw_neighbourhoods
from generators import over_seeds


def mined(source: KnowledgeBase | GaifmanGraph, query: str, mining: MiningConfig) -> MiningResult:
    graph = source if isinstance(source, GaifmanGraph) else build_graph(source)
    return mine(graph, *known_answers(graph, parse_query(query, graph.kb)), mining)


def names(found: MiningResult) -> list[str]:
    return [str(pattern.feature) for pattern in found.mined_features]


def family(count: int = 30) -> KnowledgeBase:
    """Children x{i} and parents y{i} in different towns: grandparents are two steps away, uncles three."""
    facts: list[tuple[str, ...]] = []
    for i in range(count):
        facts += [("parent", f"a{i}", f"b{i}"), ("parent", f"b{i}", f"c{i}"), ("grandparent", f"a{i}", f"c{i}")]
        facts += [("lives", f"a{i}", "rome"), ("person", f"a{i}"), ("knows", f"d{i}", f"c{i}")]
        facts += [("wrote", f"a{i}", f"book{i}"), ("read", f"d{i}", f"book{i}")]
    return KnowledgeBase.from_facts(facts)


EVERYTHING = MiningConfig(size=None, radius=2, max_features=100)


def test_a_path_of_two_that_makes_the_answers_is_found_first() -> None:
    found = mined(family(), "grandparent(x, y)", EVERYTHING)
    assert names(found)[0] == "∃x parent(s1, x) ∧ parent(x, s2)"
    best = found.mined_features[0]
    assert (best.support, best.negative_support) == (1.0, 0.0)
    assert best.gain > 0.9


def test_paths_of_three_constants_and_types_are_found_with_their_directions() -> None:
    found = names(mined(family(), "grandparent(x, y)", EVERYTHING))
    assert "∃x, y wrote(s1, x) ∧ read(y, x) ∧ knows(y, s2)" in found
    assert "lives(s1, 'rome')" in found
    assert "person(s1)" in found
    assert "∃x parent(x, s1) ∧ parent(s2, x)" not in found
    assert "person(s2)" not in found


def test_the_order_of_the_querys_variables_is_that_of_s1_and_s2() -> None:
    turned = names(mined(family(), "q(y, x) :- grandparent(x, y)", EVERYTHING))
    assert turned[0] == "∃x parent(x, s1) ∧ parent(s2, x)"


def test_the_answers_own_fact_is_never_a_feature_of_itself() -> None:
    kb = KnowledgeBase.from_facts([("likes", f"a{i}", f"b{i}") for i in range(20)])
    found = mined(kb, "likes(x, y)", EVERYTHING)
    assert names(found) == []
    both = kb.with_facts([("liked by", f"b{i}", f"a{i}") for i in range(20)])
    assert names(mined(both, "likes(x, y)", MiningConfig(min_support=0.2))) == ["'liked by'(s2, s1)"]


@pytest.mark.parametrize("query", ["borders(x, y)", "member_of(x, y)", "largest_city(x, y)"])
def test_every_figure_is_what_the_definition_counts(query: str) -> None:
    """Support by hand: the neighbourhoods of the sampled answers again, and the meaning of each formula in them."""
    kb = demo()
    graph = build_graph(kb)
    mining = MiningConfig(max_features=12, sample=40, size=6, seed=3)
    answers, own = known_answers(graph, parse_query(query, kb))
    from gaifman.features.mining import _sample_answers

    chosen = _sample_answers(answers, mining)
    drawn = draw_neighbourhoods(graph, answers[chosen], mining.sampling(), own.select(chosen))
    structures = []
    for t, row in enumerate(chosen):
        inside = [kb.object_name(int(member)) for member in drawn.members_of(t)]
        small = kb.induced(inside).without_facts([graph.kb.fact_by_id(int(own.facts[row]))])
        structures.append((small.structure(), tuple(inside[place] for place in drawn.own_positions[t])))
    found = mined(graph, query, mining)
    assert len(found.mined_features) == 12
    for pattern in found.mined_features:
        hits = sum(feature_value(structure, pattern.feature, pair) for structure, pair in structures)
        assert pattern.support == pytest.approx(hits / len(structures)), str(pattern)


@over_seeds(12)
def test_no_frequent_path_is_missed(seed: int) -> None:
    """All paths of one and two facts, tried one by one by the definition."""
    rng = random.Random(seed)
    objects = [f"o{i}" for i in range(12)]
    facts = {(name, *rng.sample(objects, 2)) for name in "pqr" for _ in range(14)}
    kb = KnowledgeBase.from_facts(facts)
    found = mined(kb, "r(x, y)", MiningConfig(size=None, min_support=0.2, max_features=10_000, seed=seed))
    graph = build_graph(kb)
    answers, own = known_answers(graph, parse_query("r(x, y)"))
    drawn = draw_neighbourhoods(graph, answers, MiningConfig(size=None, seed=seed).sampling(), own)
    texts = [f"{a}({d})" for a in "pqr" for d in ("s1, s2", "s2, s1")]
    ways = itertools.product("pqr", ("s1, x", "x, s1"), "pqr", ("x, s2", "s2, x"))
    texts += [f"∃x {a}({d}) ∧ {b}({e})" for a, d, b, e in ways]
    for feature in parse_phi("\n".join(texts)):
        hits = 0.0
        for t in range(len(answers)):
            inside = [kb.object_name(int(member)) for member in drawn.members_of(t)]
            small = kb.induced(inside).without_facts([graph.kb.fact_by_id(int(own.facts[t]))]).structure()
            hits += feature_value(small, feature, tuple(kb.object_name(int(o)) for o in answers[t]))
        assert (hits / len(answers) >= 0.2) == (str(feature) in names(found)), str(feature)


def test_the_same_seed_finds_the_same_in_any_order_and_another_seed_samples_others() -> None:
    graph = build_graph(demo())
    answers, own = known_answers(graph, parse_query("borders(x, y)"))
    mining = MiningConfig(max_features=20, sample=50, seed=5)
    shuffled = np.random.default_rng(0).permutation(len(answers))
    first = mine(graph, answers, own, mining)
    assert mine(graph, answers[shuffled], own.select(shuffled), mining) == first
    assert mine(graph, answers, own, MiningConfig(max_features=20, sample=50, seed=6)) != first


def test_ties_are_broken_by_the_formula() -> None:
    found = mined(family(), "grandparent(x, y)", EVERYTHING)
    keys = [(-p.gain, -p.support, str(p.feature)) for p in found.mined_features]
    assert keys == sorted(keys)


def test_max_features_min_support_and_sample() -> None:
    graph = build_graph(demo())
    few = mined(graph, "borders(x, y)", MiningConfig(max_features=7, min_support=0.5, sample=60))
    assert len(few.mined_features) == 7
    assert few.frequent_count > 7
    assert few.answer_count == 60
    assert all(pattern.support >= 0.5 for pattern in few.mined_features)
    more = mined(graph, "borders(x, y)", MiningConfig(max_features=7, min_support=0.05, sample=60))
    assert more.frequent_count > few.frequent_count


def test_negatives_are_no_answers_and_differ_at_one_position() -> None:
    from gaifman.features.mining import _corrupt_answers

    graph = build_graph(demo())
    answers, _ = known_answers(graph, parse_query("borders(x, y)"))
    rows, tuples = _corrupt_answers(graph, answers, np.arange(len(answers)), MiningConfig())
    known = set(map(tuple, answers.tolist()))
    assert known.isdisjoint(map(tuple, tuples.tolist()))
    assert ((answers[rows] != tuples).sum(axis=1) == 1).all()
    assert len(tuples) == 2 * len(answers)


def test_more_draws_are_more_neighbourhoods_of_the_same_answers() -> None:
    found = mined(family(), "grandparent(x, y)", MiningConfig(size=2, draws=5, radius=1))
    assert found.answer_count == 30
    assert all(0 <= pattern.support <= 1 for pattern in found.mined_features)
    assert any(pattern.support not in (0.0, 1.0) for pattern in found.mined_features)


def test_the_text_is_a_phi_file_that_says_why() -> None:
    found = mined(family(), "grandparent(x, y)", MiningConfig(size=None, radius=2, max_features=5))
    text = found.to_text("mined for grandparent(x, y)")
    assert text.startswith("# mined for grandparent(x, y)\n# 5 of ")
    assert "  # 100.0% of answers, 0.0% of negatives, 0." in text
    assert parse_phi(text, family()).features == found.feature_set().features


@pytest.mark.parametrize(
    "query",
    [
        "borders(x, x)",
        "borders(x, 'france')",
        "country(x)",
        "hosted_games(x, y, z)",
    ],
)
def test_queries_of_another_number_of_variables_are_refused_with_what_to_write(query: str) -> None:
    with pytest.raises(FormulaError, match=r"a query over two variables, got [13]") as error:
        known_answers(build_graph(demo()), parse_query(query))
    assert error.value.hint == "write: borders(x, y)"


def test_patterns_of_a_query_of_several_atoms_do_not_see_a_witness_whole() -> None:
    """Of the two facts that say that two cities are in one country one is hidden: the query's own body is not found."""
    graph = build_graph(demo())
    found = mined(graph, "∃z city_in(x, z) ∧ capital(z, y)", MiningConfig(sample=200, max_features=1_000))
    assert found.answer_count == 200
    body = [p for p in found.mined_features if str(p.feature) == "∃x city_in(s1, x) ∧ capital(x, s2)"]
    assert all(pattern.support < 0.05 for pattern in body)
    assert max(pattern.gain for pattern in found.mined_features) > 0.1


def test_a_relation_without_facts_or_with_every_pair_cannot_be_mined() -> None:
    kb = KnowledgeBase.from_facts([("likes", "a", "b"), ("hates", "a", "b")])
    with pytest.raises(KnowledgeBaseError, match="has no answers"):
        mined(kb.without_facts([("likes", "a", "b")]), "likes(x, y)", MiningConfig())
    full = KnowledgeBase.from_facts([("likes", one, other) for one in "ab" for other in "ab"])
    with pytest.raises(KnowledgeBaseError, match="every other pair is an answer too"):
        mined(full, "likes(x, y)", MiningConfig())
    with pytest.raises(FormulaError, match="no relation loves"):
        known_answers(build_graph(kb), parse_query("loves(x, y)"))


def test_invalid_settings_are_refused() -> None:
    for wrong in (
        {"max_features": 0},
        {"sample": 0},
        {"min_support": 0.0},
        {"min_support": 2.0},
        {"radius": -1},
        {"size": 0},
    ):
        with pytest.raises(KnowledgeBaseError):
            MiningConfig(**wrong)


def test_the_gain_is_symmetric_between_0_and_1_and_careful_with_few_tuples() -> None:
    p, q = np.array([1.0, 0.0, 0.3, 0.3]), np.array([0.0, 1.0, 0.3, 0.1])
    many, few = information_gain(p, 10_000, q, 10_000), information_gain(p, 4, q, 4)
    assert many[0] == many[1] > 0.99
    assert many[2] == 0
    assert (few < many + 1e-9).all()
    assert (information_gain(q, 50, p, 50) == information_gain(p, 50, q, 50)).all()

"""Predictors: estimates, hidden facts, ids of tuples, sums over draws; extended schemas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from gaifman import predict as judging
from gaifman.errors import KnowledgeBaseError
from gaifman.features.compiler import compile_features
from gaifman.features.evaluator import FeatureEvaluator
from gaifman.features.feature_sets import FeatureSet
from gaifman.kb.gaifman_graph import build_graph
from gaifman.kb.knowledge_base import Fact, KnowledgeBase
from gaifman.kb.tables import Floats
from gaifman.logic.ast import query_variables, relation_query
from gaifman.logic.parser import parse_feature, parse_query
from gaifman.models.calibration import Calibration, fit_calibration
from gaifman.predict import (
    DrawBudget,
    Estimate,
    Estimates,
    estimate_from_sums,
)
from kbs import knowledge_bases
from trained import little, same, towns, untrained_predictor

FAMILY = [("parent", "ann", "bob"), ("parent", "bob", "cleo"), ("old", "ann")]


def family() -> KnowledgeBase:
    return KnowledgeBase.from_facts(FAMILY, {("age", "ann"): 80})


# Estimates


def test_an_estimate_prints_and_counts_as_its_value() -> None:
    assert str(Estimate(0.25, 0.0104, 10)) == "0.250 ± 0.010"
    assert str(Estimate(0.25, float("nan"), 1)) == "0.250"
    assert float(Estimate(0.25, 0.1, 10)) == 0.25


def test_estimates_are_indexed() -> None:
    found = Estimates(np.array([0.1, 0.2]), np.array([0.01, np.nan]), np.array([5, 1], np.int32))
    assert len(found) == 2
    assert found[0] == Estimate(0.1, 0.01, 5)
    assert found[1].draws == 1
    assert isinstance(found[0].value, float)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"draws": 0}, "draws must be an integer from 1 to 1,000,000, got 0"),
        ({"draws": True}, "draws must be an integer"),
        ({"draws": 3, "max_draws": -1}, "max_draws must be an integer"),
        ({"draws": 3, "max_error": -0.1}, "a number above 0, got -0.1"),
    ],
)
def test_invalid_draw_budgets_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(KnowledgeBaseError, match=message):
        DrawBudget(**arguments)


def test_max_draws_needs_max_error() -> None:
    assert DrawBudget(20, max_draws=5).limit == 20
    assert DrawBudget(20, max_error=0.1, max_draws=5).limit == 5


# Extended schemas


def test_a_schema_that_has_all_relations_is_not_extended() -> None:
    kb = family()
    assert kb.extend_schema({"parent": 2}, ["age"]) is kb
    assert kb.extend_schema({}) is kb


def test_added_relations_have_no_facts() -> None:
    found = family().extend_schema({"parent": 2, "likes": 3, "young": 1}, ["age", "height"])
    assert {name: (r.arity, r.count) for name, r in found.relations.items()} == {
        "likes": (3, 0),
        "old": (1, 1),
        "parent": (2, 2),
        "young": (1, 0),
    }
    assert found.attributes["height"].count == 0
    assert found.value("age", "ann") == 80


def test_another_arity_is_refused() -> None:
    with pytest.raises(KnowledgeBaseError, match="parent has 2 arguments in the knowledge base and 3 in the model"):
        family().extend_schema({"parent": 3})


def test_a_schema_without_common_relations_is_refused() -> None:
    with pytest.raises(KnowledgeBaseError, match="none of the 6 relations") as caught:
        family().extend_schema({"parents": 2, **{f"r{i}": 2 for i in range(5)}})
    assert caught.value.suggestions == ("parent",)
    assert "…" in caught.value.hint


@given(knowledge_bases(largest_arity=3))
def test_extending_a_schema_keeps_facts_and_values(kb: KnowledgeBase) -> None:
    """Objects keep their ids, facts their confidences."""
    first = dict.fromkeys([*kb.relations][:1])
    relations = {name: kb.relations[name].arity for name in first} | {"a new one": 2}
    found = kb.extend_schema(relations, ["a new number"]) if first else kb
    assert list(found.objects) == list(kb.objects)
    assert list(found.facts()) == list(kb.facts())
    assert list(found.values()) == list(kb.values())


# Queries


@pytest.mark.parametrize(
    ("text", "relation"),
    [
        ("r(x, y)", "r"),
        ("r(x)", "r"),
        ("q(x, y, z) :- r(x, y, z)", "r"),
        ("q(y, x) :- r(x, y)", None),
        ("q(x) :- r(x, y)", None),
        ("r(x, x)", None),
        ("r(x, 'a')", None),
        ("r(x, y) & r(x, y)", None),
        ("~r(x, y)", None),
        ("x = y", None),
    ],
)
def test_the_relation_of_an_atomic_query(text: str, relation: str | None) -> None:
    assert parse_query(text).atomic_relation == relation


@pytest.mark.parametrize("width", range(1, 9))
def test_query_variables_are_distinct(width: int) -> None:
    assert len({variable.name for variable in query_variables(width)}) == width


# Hidden facts


def secrets(kb: KnowledgeBase, query: str, *tuples: tuple[str, ...]) -> list[set[str]]:
    """The facts that are hidden from each tuple."""
    asked = parse_query(query, kb)
    predictor = untrained_predictor(kb, asked)
    hidden = predictor.hidden_facts(predictor.tuple_ids(tuples))
    starts, facts = hidden.starts.tolist(), hidden.facts.tolist()
    return [{str(kb.fact_by_id(n)) for n in facts[starts[t] : starts[t + 1]]} for t in range(len(tuples))]


def test_a_known_fact_is_hidden_from_itself() -> None:
    found = secrets(family(), "parent(x, y)", ("ann", "bob"), ("bob", "ann"), ("bob", "cleo"))
    assert found == [{"parent(ann, bob)."}, set(), {"parent(bob, cleo)."}]
    assert secrets(family(), "q(y, x) :- parent(x, y)", ("ann", "bob"), ("bob", "ann")) == [
        set(),
        {"parent(ann, bob)."},
    ]


def test_enough_facts_are_hidden_to_make_a_query_false() -> None:
    kb = family()
    (found,) = secrets(kb, "exists z. parent(x, z) & parent(z, y)", ("ann", "cleo"))
    assert len(found) == 1
    assert found <= {"parent(ann, bob).", "parent(bob, cleo)."}
    assert secrets(kb, "old(x) & ~parent(x, y)", ("ann", "cleo")) == [{"old(ann)."}]


def test_a_relation_without_facts_hides_nothing() -> None:
    assert secrets(family().extend_schema({"old": 1, "likes": 2}), "likes(x, y)", ("ann", "bob")) == [set()]


# Predictors


def test_names_become_ids() -> None:
    predictor = untrained_predictor(family(), relation_query("parent", 2))
    assert predictor.tuple_ids([("cleo", "ann")]).tolist() == [[2, 0]]
    assert predictor.tuple_ids([]).shape == (0, 2)
    for wrong in ([("ann",)], [("ann", "bob", "cleo")], ["an"], [()]):
        with pytest.raises(KnowledgeBaseError, match="name as many objects"):
            predictor.tuple_ids(wrong)
    with pytest.raises(KnowledgeBaseError, match="there is no object anne") as caught:
        predictor.tuple_ids([("anne", "bob")])
    assert "ann" in caught.value.suggestions


def test_blocks_do_not_change_predictions(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = [(f"p{i:02d}", f"t{j}") for i in range(12) for j in range(5)]
    whole, embedded = little().probabilities(pairs, draws=3), little().embed(pairs, draws=3)
    monkeypatch.setattr(judging, "BLOCK_SIZE", 7)
    assert same(little().probabilities(pairs, draws=3), whole)
    assert np.array_equal(little().embed(pairs, draws=3), embedded)


def test_uncertain_facts_are_present_in_predictions_as_often_as_they_are_right() -> None:
    kb = towns()
    housed, draws = FeatureSet((parse_feature("exists x. lives_in(s1, x)"),)), 2_000
    tuples = np.array([[kb.object_id("p01")]], np.int32)
    for confidence in (0.1, 0.5, 1.0):
        doubtful = [Fact(f.relation, f.objects, confidence) for f in kb.facts()]
        other = KnowledgeBase.from_facts(doubtful, objects=kb.objects)
        evaluator = FeatureEvaluator(build_graph(other), compile_features(housed, other, 1))
        matrix = evaluator.sample_and_evaluate(tuples, little().config.sampling(draws, "answer 0"))
        share = matrix.to_dense().mean()
        assert abs(share - confidence) <= 5 * (confidence * (1 - confidence) / draws) ** 0.5


# Sums over draws

draws = arrays(np.float64, st.tuples(st.integers(1, 5), st.integers(1, 9)), elements=st.floats(0, 1, width=32))


@given(draws)
def test_mean_and_error_of_the_draws(each: Floats) -> None:
    count = each.shape[1]
    sums, squares, counts = each.sum(axis=1), (each**2).sum(axis=1), np.full(len(each), float(count))
    map_ = Calibration.identity(0.5)
    found = estimate_from_sums(map_, sums, squares, counts)
    mean = np.clip(each.mean(axis=1), 0, 1)
    np.testing.assert_allclose(found.values, map_.apply(mean), rtol=1e-9)
    assert (found.draws == count).all()
    if count == 1:
        assert np.isnan(found.errors).all()
    else:
        spread = each.std(axis=1, ddof=1) / np.sqrt(count)
        np.testing.assert_allclose(found.errors, spread * map_.slope(mean), atol=1e-6, rtol=1e-6)


def test_the_error_is_that_of_the_calibrated_probability() -> None:
    """A calibration that is flat at the mean makes the error small."""
    rng = np.random.default_rng(0)
    scores = rng.random(500)
    flat = fit_calibration(scores, (rng.random(500) < 0.5 + 0.1 * (scores - 0.5)).astype(float))
    sums, squares, counts = np.array([5.0]), np.array([2.6]), np.array([10.0])
    plain, found = (estimate_from_sums(each, sums, squares, counts) for each in (Calibration.identity(), flat))
    assert found.errors[0] < plain.errors[0] / 2


def test_no_tuples_no_estimates() -> None:
    none = np.zeros(0)
    assert len(estimate_from_sums(Calibration.identity(), none, none, none)) == 0

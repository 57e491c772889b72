"""Completions: probabilities of facts, the fallback of untrained relations, files."""

from __future__ import annotations

import random
from functools import cache
from math import prod
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gaifman
from gaifman.completion import Completion
from gaifman.errors import GaifmanError, InputError, KnowledgeBaseError
from gaifman.kb.knowledge_base import Fact, KnowledgeBase
from gaifman.kb.tables import Ints
from gaifman.logic.ast import relation_query
from gaifman.models.mlp import MLP
from kbs import knowledge_bases, plain_names
from trained import FEW, GOOD, demo, same, towns, untrained_predictor

PAIRS = [("p00", "t0"), ("p01", "t1"), ("p01", "t2"), ("p39", "t0"), ("t0", "p01")]
LATE = [("likes", "p00", "p01"), ("mayor", "p02", "t2"), ("mayor", "p03", "t3")]
"""One relation with one fact, and one with two."""


@cache
def village() -> KnowledgeBase:
    """Relations of arity 1 to 4 with none, one, two and many facts, and one that holds for all tuples."""
    kb = towns().with_facts(LATE)
    kb = kb.with_facts([("sold", f"p{i:02d}", f"p{i + 1:02d}", f"t{i % 5}", "c0") for i in range(9)])
    kb = kb.with_facts([("thing", name) for name in kb.objects] + [("empty", "p00", "p00")])
    return kb.without_facts([("empty", "p00", "p00")])


@cache
def completed() -> Completion:
    return gaifman.complete(village(), **FEW)


@cache
def good() -> Completion:
    return gaifman.complete(towns(), ["works_in", "citizen", "person"], **GOOD)


def loaded(path: Path, kb: KnowledgeBase | None = None) -> Completion:
    found = gaifman.load(path, kb)
    assert isinstance(found, Completion)
    return found


# Training


def test_every_relation_is_trained_if_possible() -> None:
    found = completed()
    assert set(found.relations) == set(village().relations)
    why = {row["name"]: row.get("reason") for row in found.meta["relations"]}
    assert {name for name in why if why[name]} == {"empty", "likes", "thing"}
    assert why["likes"] == why["empty"] == "fewer than two facts"
    assert why["thing"] == "every tuple is known"
    assert set(found.scorers) == set(found.relations) - {"empty", "likes", "thing"}
    assert repr(found) == "<Completion: 11 relations, 8 with a trained model>"


def test_relations_of_arity_one_to_four() -> None:
    texts = ("person p00", "mayor p04 t4", "moved p00 t1 t2", "sold p00 p01 t0 c0")
    for relation, *objects in (text.split() for text in texts):
        found = completed().probability(relation, *objects)
        assert 0 < found.value < 1
        assert found.draws == 4


def test_it_learns_the_rules() -> None:
    for relation, right, wrong in (("works_in", "t3", "t1"), ("citizen", "c1", "c0")):
        assert good().probability(relation, "p03", right).value > 0.5 > good().probability(relation, "p03", wrong).value
    assert good().probability("person", "p00").value > good().probability("person", "t1").value


def test_the_demo_is_completed() -> None:
    found = gaifman.complete(demo(), ["capital", "games", "hosted_games", "side"], **FEW)
    assert len(found.scorers) == 4, "two facts are enough"
    for relation in found.relations:
        first = next(demo().facts(relation)).objects
        assert 0 < found.probability(relation, *first).value < 1
    assert found.meta["metrics"]["auc"] > 0.8


def test_a_known_fact_is_scored_as_if_it_were_not_known() -> None:
    without = good().with_kb(towns().without_facts([("works_in", "p03", "t3")]))
    assert same(good().probabilities("works_in", [("p03", "t3")]), without.probabilities("works_in", [("p03", "t3")]))


def test_draws_go_on_until_the_error_is_small() -> None:
    found = good().probability("works_in", "p03", "t2", max_error=0.003, max_draws=3_000)
    assert found.error <= 0.003 or found.draws == 3_000
    assert good().probability("works_in", "p03", "t2", max_error=1e-9, max_draws=9).draws == 9


def test_a_prior_moves_the_odds() -> None:
    even = good().probability("works_in", "p03", "t2", prior=0.5, constraints=False).value
    rare = good().probability("works_in", "p03", "t2", prior=0.1, constraints=False).value
    assert rare / (1 - rare) == pytest.approx(even / (1 - even) / 9)


# The model of one relation


@pytest.mark.parametrize("relation", ["works_in", "person", "moved", "sold", "mayor"])
def test_the_model_of_a_relation_predicts_the_same(relation: str, tmp_path: Path) -> None:
    model = completed().model(relation)
    width = completed().relations[relation]
    tuples = np.stack([np.arange(5, dtype=np.int32) * (i + 1) for i in range(width)], axis=1)
    wanted = completed().probabilities(relation, tuples)
    assert same(model.probabilities(tuples), wanted)
    assert model.query == relation_query(relation, width)
    model.save(tmp_path / "one.gaifman")
    again = gaifman.load(tmp_path / "one.gaifman", village())
    assert isinstance(again, gaifman.GaifmanModel)
    assert same(again.probabilities(tuples), wanted)
    assert repr(again).endswith(f"trained on {village().relations[relation].count} answers>")


def test_an_untrained_relation_has_no_model() -> None:
    with pytest.raises(KnowledgeBaseError, match="likes has no trained model, only the fallback"):
        completed().model("likes")


# The fallback


def test_the_fallback_is_the_share_of_positions_seen() -> None:
    """likes(p00, p01) is the only fact: (m + 1/2) / (n + 1), and its own objects do not count for it."""
    tuples = [("p00", "p01"), ("p00", "p02"), ("p02", "p01"), ("p02", "p03"), ("p01", "p00")]
    found = completed().probabilities("likes", tuples)
    assert found.values.tolist() == [0.5 / 3, 1.5 / 3, 1.5 / 3, 0.5 / 3, 0.5 / 3]
    assert found.errors.tolist() == [0.0] * 5
    assert found.draws.tolist() == [0] * 5


def test_the_fallback_of_empty_and_complete_relations() -> None:
    assert completed().probability("empty", "p00", "p00").value == 0.5 / 3
    assert completed().probability("thing", "p00").value == 0.25, "only itself stands there"


def test_the_fallback_has_a_prior_too() -> None:
    found = completed().probability("likes", "p00", "p02", prior=0.1).value
    assert found == pytest.approx(0.1)


def test_the_fallback_refuses_invalid_arguments() -> None:
    for wanted in ({"draws": 0}, {"max_error": -1.0}, {"prior": 2.0}):
        with pytest.raises(KnowledgeBaseError):
            completed().probability("likes", "p00", "p01", **wanted)


def slow_fallback(kb: KnowledgeBase, relation: str, tuples: Ints) -> list[float]:
    """By its definition: the expected number of objects that another fact has at their position."""
    found = []
    for row in tuples.tolist():
        names = [kb.object_name(number) for number in row]
        others = [fact for fact in kb.facts(relation) if list(fact.objects) != names]
        absent = [
            prod(1 - fact.confidence for fact in others if fact.objects[i] == names[i]) for i in range(len(names))
        ]
        seen = sum(1 - share for share in absent)
        found.append((seen + 0.5) / (len(names) + 1))
    return found


@given(knowledge_bases(names=plain_names, attributes=False, largest_arity=3, facts=12), st.integers(0, 100))
def test_the_fallback_by_its_definition(kb: KnowledgeBase, seed: int) -> None:
    rng = np.random.default_rng(seed)
    for name, relation in kb.relations.items():
        predictor = untrained_predictor(kb, relation_query(name, relation.arity))
        tuples = rng.integers(0, len(kb.objects), (6, relation.arity)).astype(np.int32)
        known = [[kb.object_id(obj) for obj in fact.objects] for fact in kb.facts(name)]
        tuples = np.concatenate([tuples, np.array(known, np.int32).reshape(-1, relation.arity)])
        np.testing.assert_allclose(predictor.fallback_probabilities(tuples), slow_fallback(kb, name, tuples))


# Errors


def test_an_unknown_relation_is_refused_with_suggestions() -> None:
    for ask in (completed().model, completed().arity, lambda name: completed().probability(name, "p00", "t0")):
        with pytest.raises(KnowledgeBaseError, match="there is no model of work_in") as caught:
            ask("work_in")
        assert "works_in" in caught.value.suggestions


def test_wrong_objects_are_refused() -> None:
    with pytest.raises(KnowledgeBaseError, match="there is no object p0x"):
        completed().probability("works_in", "p0x", "t0")
    with pytest.raises(KnowledgeBaseError, match="the query has 2 variables"):
        completed().probability("works_in", "p00")
    with pytest.raises(KnowledgeBaseError, match="objects are numbered from 0"):
        completed().probabilities("likes", np.array([[0, 9_999]]))


# Files and other knowledge bases


def test_a_loaded_model_predicts_the_same_bits(tmp_path: Path) -> None:
    completed().save(tmp_path / "a.gaifman")
    found = loaded(tmp_path / "a.gaifman", village())
    assert repr(found) == repr(completed())
    assert found.meta == completed().meta
    for relation, width in completed().relations.items():
        tuples = np.stack([np.arange(7, dtype=np.int32)] * width, axis=1)
        assert same(found.probabilities(relation, tuples), completed().probabilities(relation, tuples))
    found.save(tmp_path / "b.gaifman")
    assert (tmp_path / "a.gaifman").read_bytes() == (tmp_path / "b.gaifman").read_bytes()


def test_a_model_without_a_knowledge_base_raises(tmp_path: Path) -> None:
    good().save(tmp_path / "a.gaifman")
    found = loaded(tmp_path / "a.gaifman")
    with pytest.raises(KnowledgeBaseError, match="no knowledge base"):
        found.probability("works_in", "p00", "t0")
    assert same(found.with_kb(towns()).probabilities("works_in", PAIRS), good().probabilities("works_in", PAIRS))


def test_a_base_model_cannot_be_given(tmp_path: Path) -> None:
    good().save(tmp_path / "a.gaifman")
    with pytest.raises(InputError, match="makes its base models itself"):
        gaifman.load(tmp_path / "a.gaifman", base=MLP())


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    good().save(tmp_path / "a.gaifman")
    data, rng = (tmp_path / "a.gaifman").read_bytes(), random.Random(0)
    for at in rng.sample(range(len(data)), 40):
        wrong = bytearray(data)
        wrong[at] ^= rng.randrange(1, 256)
        (tmp_path / "b.gaifman").write_bytes(wrong)
        with pytest.raises(GaifmanError):
            gaifman.load(tmp_path / "b.gaifman")


def test_other_knowledge_bases_with_other_objects() -> None:
    other = good().with_kb(towns(30, "new "))
    for relation, right, wrong in (("works_in", "t3", "t1"), ("citizen", "c1", "c0")):
        values = other.probabilities(relation, [("new p03", f"new {right}"), ("new p03", f"new {wrong}")]).values
        assert values[0] > 0.5 > values[1]


def test_a_missing_relation_has_no_facts() -> None:
    kb = towns()
    fewer = KnowledgeBase.from_facts([f for f in kb.facts() if f.relation != "citizen"], objects=kb.objects)
    found = good().with_kb(fewer).probabilities("citizen", [("p03", "c1"), ("p03", "c0")]).values
    assert found[0] != found[1]
    with pytest.raises(KnowledgeBaseError, match="none of the"):
        good().with_kb(KnowledgeBase.from_facts([("r", "a", "b")])).probability("citizen", "a", "b")


def test_a_new_fact_changes_predictions_without_training() -> None:
    kb = towns().with_facts([Fact("person", ("new",))])
    extended = kb.with_facts([("lives_in", "new", "t3")])
    before, after = (good().with_kb(each).probability("works_in", "new", "t3").value for each in (kb, extended))
    assert after > before + 0.1


def test_kernels_are_compiled_without_a_knowledge_base(tmp_path: Path) -> None:
    good().save(tmp_path / "model.gaifman")
    gaifman.load(tmp_path / "model.gaifman").compile_kernels()

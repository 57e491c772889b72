"""Training of completions: threads, stores, constraints, one calibration, relations that cannot be trained."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gaifman
from gaifman.completion import Completion, PartStore, RelationModel, RelationTrainer, complete, train_completion
from gaifman.errors import InputError, KnowledgeBaseError
from gaifman.features.feature_sets import parse_phi
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.models.calibration import fit_calibration
from gaifman.sampling.constraints import parse_constraints
from gaifman.training import Callback, TrainingConfig
from trained import FEW, demo, network, same, towns

PAIRS = [("p00", "t0"), ("p01", "t1"), ("p01", "t2"), ("p39", "t0"), ("t0", "p01")]


class Drawer(PartStore):
    """Stores models in memory, and records the calls."""

    def __init__(self, parts: dict[str, RelationModel] | None = None) -> None:
        self.parts, self.asked, self.watched = parts or {}, list[str](), list[str]()
        self._guard = threading.Lock()

    def load(self, relation: str) -> RelationModel | None:
        with self._guard:
            self.asked.append(relation)
        return self.parts.get(relation)

    def save(self, relation: str, part: RelationModel) -> None:
        with self._guard:
            self.parts[relation] = part

    def callback(self, relation: str) -> Callback:
        with self._guard:
            self.watched.append(relation)
        return Callback()


def trained(kb: KnowledgeBase, store: PartStore, **more: Any) -> Completion:
    return train_completion(kb, TrainingConfig(**FEW), store=store, **more)


def saved(kb: KnowledgeBase, folder: Path, **settings: Any) -> bytes:
    complete(kb, **{**FEW, **settings}).save(folder / "a.gaifman")
    return (folder / "a.gaifman").read_bytes()


# Threads and order


def test_the_same_bytes_for_any_threads_and_order(tmp_path: Path) -> None:
    kb = towns(sure=False)
    facts = sorted(kb.facts(), key=lambda fact: fact.objects[::-1])
    turned = KnowledgeBase.from_facts(facts, {(name, obj): value for name, obj, value in kb.values()})
    found = {saved(kb, tmp_path, threads=threads) for threads in (1, 2, 3, 8, None)}
    assert len(found) == 1
    assert saved(turned, tmp_path) in found
    assert saved(kb, tmp_path, seed=1) not in found
    names = ["works_in", "moved", "person"]
    assert saved(kb, tmp_path, relations=names) == saved(kb, tmp_path, relations=names[::-1] * 2, threads=1)


def test_a_relation_is_trained_the_same_alone_and_with_others() -> None:
    """Except for the calibration, which all relations share."""
    alone, all_ = complete(towns(), ["works_in"], **FEW), complete(towns(), **FEW)
    assert list(alone.relations) == ["works_in"]
    one, other = (network(each.predictor("works_in")).scorer.base.state() for each in (alone, all_))
    assert one.keys() == other.keys()
    assert all(np.array_equal(one[name], other[name]) for name in one)
    assert same(alone.model("works_in").probabilities(PAIRS), alone.probabilities("works_in", PAIRS))


def test_complete_trains_a_relation_as_fit_does() -> None:
    fitted, found = gaifman.fit(towns(), "works_in(x, y)", **FEW), complete(towns(), ["works_in"], **FEW)
    assert same(fitted.probabilities(PAIRS), found.probabilities("works_in", PAIRS))
    assert fitted.features == found.model("works_in").features
    assert fitted.meta["metrics"]["losses"] == found.meta["relations"][0]["losses"]


# The store


def test_stored_relations_are_not_trained_again(tmp_path: Path) -> None:
    first = Drawer()
    trained(towns(), first).save(tmp_path / "a.gaifman")
    assert sorted(first.watched) == sorted(towns().relations) == sorted(first.parts)
    half = {name: part for name, part in first.parts.items() if name in ("works_in", "person")}
    second = Drawer(dict(half))
    trained(towns(), second).save(tmp_path / "b.gaifman")
    assert sorted(second.watched) == sorted(set(towns().relations) - set(half))
    assert (tmp_path / "a.gaifman").read_bytes() == (tmp_path / "b.gaifman").read_bytes()


def test_the_largest_relations_come_first() -> None:
    store = Drawer()
    trained(towns(), store, threads=1)
    counts = [towns().relations[name].count for name in store.asked]
    assert counts == sorted(counts, reverse=True)


@pytest.mark.parametrize("threads", [1, 2])
def test_after_an_error_no_relation_is_started(threads: int) -> None:
    class Full(Drawer):
        def save(self, relation: str, part: RelationModel) -> None:
            raise OSError("no room")

    store = Full()
    with pytest.raises(OSError, match="no room"):
        trained(demo(), store, threads=threads)
    assert len(store.watched) <= 2 * threads < len(demo().relations)


def test_the_default_store_stores_nothing() -> None:
    store = PartStore()
    assert store.load("r") is None
    assert isinstance(store.callback("r"), Callback)
    store.save("r", ({}, {}))
    assert store.load("r") is None


# Relations that can be trained


def test_two_facts_are_enough() -> None:
    facts = [("mayor", "ann", "rome"), ("mayor", "bob", "oslo"), ("king", "cleo", "oslo")]
    found = complete(KnowledgeBase.from_facts(facts), **FEW)
    assert list(found.scorers) == ["mayor"]
    rows = {row["name"]: row for row in found.meta["relations"]}
    assert rows["mayor"]["trained"]
    assert rows["mayor"]["answers"] == 2
    assert (rows["king"]["trained"], rows["king"]["reason"]) == (False, "fewer than two facts")


def test_a_complete_relation_is_not_trained() -> None:
    facts = [("near", x, y) for x in "abc" for y in "abc"]
    found = complete(KnowledgeBase.from_facts(facts), **FEW)
    assert found.meta["relations"][0]["reason"] == "every tuple is known"
    assert not found.scorers
    assert found.probability("near", "a", "b").value == 2.5 / 3
    assert not found.calibration.fitted
    metrics = found.meta["metrics"]
    assert (metrics["answers"], metrics["held_out"], metrics["auc"], metrics["mrr"]) == (9, 0, None, None)
    assert metrics["auc_reason"] == "none of 9 answers was held out"


def test_without_negatives_a_complete_relation_is_trained() -> None:
    facts = [("near", x, y) for x in "abc" for y in "abc"]
    found = complete(KnowledgeBase.from_facts(facts), **{**FEW, "negatives": 0})
    assert list(found.scorers) == ["near"]


def test_a_completion_without_trained_relations_can_be_saved(tmp_path: Path) -> None:
    complete(KnowledgeBase.from_facts([("near", "a", "b")]), **FEW).save(tmp_path / "a.gaifman")
    found = gaifman.load(tmp_path / "a.gaifman", KnowledgeBase.from_facts([("near", "a", "b"), ("near", "b", "c")]))
    assert isinstance(found, gaifman.Completion)
    assert found.probability("near", "a", "c").value == 2.5 / 3


# Calibration


def test_one_calibration_for_all() -> None:
    store = Drawer()
    found = trained(demo(), store, relations=["capital", "borders", "city"])
    means, targets = (
        np.concatenate([store.parts[name][0][f"held/{field}"] for name in ("borders", "capital", "city")])
        for field in ("means", "targets")
    )
    expected = fit_calibration(means, targets, ratio=2.0)
    assert found.calibration.fitted
    assert np.array_equal(found.calibration.knots, expected.knots)
    assert np.array_equal(found.calibration.values, expected.values)
    assert found.meta["metrics"]["held_out"] == len(means)
    assert found.held_out_report is not None
    assert found.meta["calibration"] == found.held_out_report.reliability_table()


# Constraints, features, settings


def test_constraints_are_used() -> None:
    kb = towns().with_facts([("place", name) for name in towns().objects if name[0] in "tc"])
    rules = parse_constraints("functional: lives_in 1→2\ntypes: works_in person, place", kb)
    plain, ruled = complete(kb, **FEW), complete(kb, constraints=rules, **FEW)
    for relation, changed in (("lives_in", True), ("works_in", True), ("citizen", False)):
        one, other = (network(each.predictor(relation)).scorer.base.state()["weights/1"] for each in (plain, ruled))
        assert np.array_equal(one, other) != changed, relation


def test_only_features_that_some_relation_uses_are_kept() -> None:
    found = complete(towns(), ["works_in", "person"], **FEW)
    for width, features in found.features.items():
        names = [name for name in found.scorers if found.relations[name] == width]
        own = [network(found.predictor(name)).scorer.scaler for name in names]
        used = np.any([inputs.columns >= 0 for inputs in own], axis=0)
        assert len(used) == len(features)
        assert used.all()
    assert found.meta["features"] == sum(map(len, found.features.values()))


def test_evaluators_are_built_once() -> None:
    trainer = RelationTrainer(towns(), "paper", TrainingConfig(), None)
    assert trainer.evaluators_and_kinds(2) is trainer.evaluators_and_kinds(2)
    assert trainer.evaluators_and_kinds(1) is not trainer.evaluators_and_kinds(2)


def test_features_can_be_given() -> None:
    phi = parse_phi("lives_in(s1, s2)\nexists x. lives_in(s1, x)", towns())
    found = complete(towns(), ["works_in"], phi=phi, **FEW)
    assert [str(feature) for feature in found.features[2]] == ["lives_in(s1, s2)", "∃x lives_in(s1, x)"]
    assert [str(feature) for feature in complete(towns(), ["person"], phi=phi, **FEW).features[1]] == [
        "∃x lives_in(s1, x)"
    ]


@pytest.mark.parametrize(
    ("relations", "message"),
    [
        (["works_inn"], "there is no relation works_inn"),
        ("works_in", "relations must be an iterable of strings"),
        ([], "there are no relations to train"),
    ],
)
def test_wrong_relations_are_refused(relations: Any, message: str) -> None:
    with pytest.raises(KnowledgeBaseError, match=message):
        complete(towns(), relations, **FEW)


def test_errors_have_suggestions() -> None:
    with pytest.raises(KnowledgeBaseError) as caught:
        complete(towns(), ["works_inn"], **FEW)
    assert "works_in" in caught.value.suggestions
    with pytest.raises(TypeError, match="unexpected keyword argument 'epoch'"):
        complete(towns(), epoch=3)  # type: ignore[call-arg]
    with pytest.raises(InputError, match="no feature set or file papers"):
        complete(towns(), phi="papers", **FEW)
    with pytest.raises(KnowledgeBaseError, match="there are no relations to train"):
        complete(KnowledgeBase.from_facts([]))


def test_one_set_of_features_serves_relations_of_all_arities() -> None:
    """A feature of two objects was once an error for a relation of arity 1."""
    facts = [("knows", f"p{i}", f"p{(i * 3 + 1) % 9}") for i in range(9)] + [("old", f"p{i}") for i in range(4)]
    kb = KnowledgeBase.from_facts(facts)
    both = parse_phi("each r. exists x. r(s1, x)\nknows(s2, s1)")
    found = complete(kb, phi=both, base="mlp", min_examples=0, options={"epochs": 1})
    assert {width: len(own) for width, own in found.features.items()}.keys() == {1, 2}
    assert all("s2" not in str(feature) for feature in found.features[1])
    pairs = complete(kb, phi=parse_phi("knows(s2, s1)"), base="mlp", min_examples=0, options={"epochs": 1})
    about = {row["name"]: row for row in pairs.meta["relations"]}
    assert (about["old"]["trained"], about["old"]["reason"]) == (False, "no feature fits")
    assert 0 < pairs.probability("old", "p7").value < 1


# Collections


def test_a_completion_of_several_knowledge_bases(tmp_path: Path) -> None:
    """It was once an AttributeError."""
    one, two = towns(30), towns(20, "other ").with_facts([("rents", f"other p{i:02d}", "other t1") for i in range(9)])
    found = complete([one, two], **FEW)
    about = {row["name"]: row for row in found.meta["relations"]}
    assert about["works_in"]["answers"] == 50
    assert about["rents"]["trained"]
    assert found.meta["metrics"]["answers"] == len(one) + len(two)
    assert {kb["fingerprint"] for kb in found.meta["kb"]["collection"]} == {one.fingerprint, two.fingerprint}
    assert found.meta["kb"]["shared_names"] == 0
    with pytest.raises(KnowledgeBaseError, match="no knowledge base to answer from"):
        found.probability("works_in", "p01", "t1")
    found.save(tmp_path / "a.gaifman")
    for kb, person, town in ((one, "p01", "t1"), (two, "other p01", "other t1"), (towns(9, "3 "), "3 p01", "3 t1")):
        answer = gaifman.load(tmp_path / "a.gaifman", kb)
        assert isinstance(answer, Completion)
        assert 0 < answer.probability("works_in", person, town).value < 1


def test_a_collection_of_one_is_that_knowledge_base() -> None:
    alone, listed = complete(towns(), ["works_in"], **FEW), complete([towns()], ["works_in"], **FEW)
    assert alone.meta == listed.meta
    assert same(alone.probabilities("works_in", PAIRS), listed.probabilities("works_in", PAIRS))


def test_the_order_of_a_collection_and_threads_do_not_change_the_bytes(tmp_path: Path) -> None:
    one, two = towns(30), towns(20, "other ")
    found = set()
    for kbs, threads in (([one, two], 1), ([two, one], 1), ([one, two], 3)):
        complete(kbs, threads=threads, **FEW).save(tmp_path / "a.gaifman")
        found.add((tmp_path / "a.gaifman").read_bytes())
    assert len(found) == 1


def test_objects_of_a_collection_are_different_even_if_named_alike() -> None:
    """`p01` works in another town in the second one: a model of both sees no contradiction."""
    moved = towns(20).without_facts(towns(20).facts("works_in")).with_facts([("works_in", "p01", "t9")])
    found = complete([towns(20), moved], ["works_in"], **FEW)
    assert found.meta["kb"]["shared_names"] == len(towns(20).objects)
    assert found.meta["relations"][0]["answers"] == 21


def test_a_knowledge_base_where_a_relation_has_no_facts_or_no_unknown_tuples_adds_no_examples() -> None:
    facts = [("r", one, other) for one in "ab" for other in "ab"] + [("q", "a", "b")]
    whole = KnowledgeBase.from_facts(facts)
    rest = KnowledgeBase.from_facts([("r", f"o{i}", f"o{i * 3 % 7}") for i in range(7)])
    rows = {row["name"]: row for row in complete([whole, rest], **FEW).meta["relations"]}
    assert rows["r"]["trained"]
    assert (rows["q"]["trained"], rows["q"]["reason"]) == (False, "fewer than two facts")
    again = {row["name"]: row for row in complete([whole, whole], **FEW).meta["relations"]}
    assert again["r"]["reason"] == "every tuple is known"


def test_a_relation_of_eight_places_can_be_trained() -> None:
    """It once made the whole knowledge base untrainable: LimitError."""
    wide = [("wide", *(f"p{(i * j + j) % 11:02d}" for j in range(8))) for i in range(15)]
    kb = towns(20).with_facts(wide)
    found = complete(kb, **FEW)
    assert {"wide", "works_in"} <= set(found.trained_relations)
    objects = [f"p{i:02d}" for i in range(8)]
    assert 0 < found.probability("wide", *objects).value < 1
    bound = dict(zip("abcdefg", objects, strict=False))
    assert len(found.answers("wide(a, b, c, d, e, f, g, h)", bound, top=3)) == 3
    assert found.explain("wide", *objects).probability > 0

"""Training: any query, attributes, confidences, constraints, several knowledge bases, base models, callbacks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gaifman
from gaifman.errors import FormulaError, InputError, KnowledgeBaseError, OutputError
from gaifman.io.model_file import model_bytes, parse_model
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.model import GaifmanModel
from gaifman.models import SklearnModel, TorchModel
from gaifman.models.base import BaseModel
from gaifman.models.mlp import Logistic
from gaifman.sampling.constraints import parse_constraints
from gaifman.training import Callback
from trained import FEW, GOOD, demo, same, towns

UNSET = {name: value for name, value in FEW.items() if name != "options"}
PAIRS = [("p00", "t0"), ("p01", "t1"), ("p01", "t2"), ("p39", "t0"), ("t0", "p01")]


# Queries


@pytest.mark.parametrize(
    ("query", "answers"),
    [
        ("person(x)", 40),
        ("works_in(x, y)", 40),
        ("works_in(y, x)", 40),
        ("q(y, x) :- works_in(x, y)", 40),
        ("moved(x, y, z)", 14),
        ("exists z. works_in(x, z) & town_of(z, y)", 40),
        ("q(x) :- moved(x, y, z), town_of(y, c)", 14),
        ("works_in(x, y) | lives_in(x, y)", 45),
        ("lives_in(x, y) & ~works_in(x, y)", 5),
        ("person(x) & forall y. works_in(x, y) -> lives_in(x, y)", 35),
        ("person(x) & age(x) > 40", 19),
        ("works_in(x, 't1')", 8),
        ("town_of(t, c) & x = t & lives_in(p, x)", 40),
    ],
)
def test_queries_of_any_kind_are_trained(query: str, answers: int) -> None:
    model = gaifman.fit(towns(), query, **{**FEW, "holdout": 0.0})
    assert model.meta["metrics"]["answers"] == answers
    width = len(model.query.variables)
    tuples = np.zeros((3, width), np.int32) + np.arange(3)[:, None]
    found = model.probabilities(tuples)
    assert ((found.values > 0) & (found.values < 1)).all()
    assert np.isfinite(found.errors).all()


def test_the_demo_is_learned_well() -> None:
    model = gaifman.fit(demo(), "exists z. borders(x, z) & borders(z, y)", **FEW)
    assert model.held_out_report is not None
    assert model.held_out_report.metrics(100)["auc"] > 0.9
    assert model.probability("portugal", "france").value > model.probability("portugal", "japan").value


def test_two_facts_are_enough_and_one_too() -> None:
    for facts in ([("r", "a", "b")], [("r", "a", "b"), ("r", "b", "c")]):
        model = gaifman.fit(KnowledgeBase.from_facts(facts), "r(x, y)", **FEW)
        assert 0 < model.probability("a", "b").value < 1


# Numbers, confidences, constraints


def test_attributes_are_features() -> None:
    """Only their age separates grand people from others."""
    people = [f"p{i:02d}" for i in range(60)]
    facts = [("person", name) for name in people] + [("grand", name) for name in people[30:]]
    kb = KnowledgeBase.from_facts(facts, {("age", name): float(i) for i, name in enumerate(people)})
    model = gaifman.fit(kb, "grand(x)", **GOOD)
    assert "age(s1)" in map(str, model.features)
    values = model.probabilities([(name,) for name in people]).values
    assert values[40:].min() > values[:20].max()


def test_uncertain_facts_have_soft_targets() -> None:
    half, whole = towns(sure=False), towns()
    low, high = (
        gaifman.fit(kb, "works_in(x, y)", **GOOD).probabilities(PAIRS[:2], constraints=False).values
        for kb in (half, whole)
    )
    assert (low < high).all()


def test_constraints_shape_the_negatives() -> None:
    kb = towns()
    rules = parse_constraints("types: lives_in person, _\nfunctional: lives_in 1→2", kb)
    plain, ruled = (gaifman.fit(kb, "lives_in(x, y)", constraints=c, **FEW) for c in (None, rules))
    assert not same(plain.probabilities(PAIRS), ruled.probabilities(PAIRS))


def test_a_callback_sees_every_epoch() -> None:
    class Seen(Callback):
        blocks, passes = 0, 0

        def on_block(self, examples: int, state: Callable[[], Any]) -> None:
            self.blocks += examples

        def on_epoch_end(self, number: int, loss: float, held: float | None) -> None:
            self.passes = number

    watch = Seen()
    model = gaifman.fit(towns(), "works_in(x, y)", callback=watch, **{**FEW, "options": {"epochs": 3, "hidden": [8]}})
    assert (watch.blocks, watch.passes) == (3 * 36 * 6, 3)
    assert len(model.meta["metrics"]["losses"]) == 3


# Several knowledge bases


def test_several_knowledge_bases_are_trained_together() -> None:
    one, two = towns(20), towns(30, "other ")
    model = gaifman.fit([one, two], "works_in(x, y)", **GOOD)
    assert model.meta["metrics"]["answers"] == 18 + 27
    collection = model.meta["kb"]["collection"]
    assert [own["fingerprint"] for own in collection] == sorted([one.fingerprint, two.fingerprint])
    with pytest.raises(KnowledgeBaseError, match="no knowledge base to answer from"):
        model.probability("p01", "t1")
    assert model.with_kb(one).probability("p01", "t1").value > model.with_kb(one).probability("p01", "t3").value
    third = model.with_kb(towns(25, "third "))
    assert third.probability("third p01", "third t1").value > third.probability("third p01", "third t3").value


def test_a_collection_of_one_knowledge_base() -> None:
    alone, listed = (gaifman.fit(kb, "works_in(x, y)", **FEW) for kb in (towns(), [towns()]))
    assert alone.meta == listed.meta
    assert same(alone.probabilities(PAIRS), listed.probabilities(PAIRS))


def test_knowledge_bases_can_have_different_relations() -> None:
    one = towns(20).with_facts([("rents", f"p{i:02d}", f"t{i % 5}") for i in range(20)])
    model = gaifman.fit([one, towns(20, "other ")], "works_in(x, y)", **FEW)
    assert any("rents" in str(feature) for feature in model.features)
    assert 0 < model.with_kb(towns(20, "other ")).probability("other p01", "other t1").value < 1
    both = gaifman.fit([towns(20, "other "), one], "rents(x, y)", **FEW)
    assert both.meta["metrics"]["answers"] == 18, "the one that has none is left out"


def test_relations_of_different_arity_are_refused() -> None:
    wrong = KnowledgeBase.from_facts([("works_in", "ann", "mars", "today")])
    with pytest.raises(KnowledgeBaseError, match="works_in has"):
        gaifman.fit([towns(20), wrong], "works_in(x, y)", **FEW)


def test_a_knowledge_base_without_answers_is_left_out() -> None:
    idle = towns(20, "idle ").without_facts(towns(20, "idle ").facts("works_in"))
    for kbs in ([idle, towns()], [towns(), idle]):
        assert gaifman.fit(kbs, "works_in(x, y)", **FEW).meta["metrics"]["answers"] == 36
    with pytest.raises(KnowledgeBaseError, match="has no answers"):
        gaifman.fit([idle, idle], "works_in(x, y)", **FEW)
    with pytest.raises(FormulaError, match="no relation flies_to"):
        gaifman.fit([idle, towns()], "flies_to(x, y)", **FEW)


# Base models


def bases() -> dict[str, Callable[[], BaseModel]]:
    from lightgbm import LGBMClassifier
    from sklearn.linear_model import LogisticRegression, SGDClassifier

    return {
        "logistic": lambda: Logistic(epochs=2),
        "regression": lambda: SklearnModel(LogisticRegression(max_iter=500)),
        "descent": lambda: SklearnModel(SGDClassifier(loss="log_loss")),
        "trees": lambda: SklearnModel(LGBMClassifier(n_estimators=5, min_child_samples=2, verbose=-1, n_jobs=1)),
        "layers": lambda: TorchModel([["Linear", 4], ["ReLU"], ["Linear", 1]], epochs=2),
        "module": lambda: TorchModel(_linear, epochs=2),
    }


def _linear(width: int) -> Any:
    import torch

    return torch.nn.Linear(width, 1)


@pytest.mark.parametrize("name", sorted(bases()))
def test_other_base_models_are_trained_and_saved(name: str, tmp_path: Path) -> None:
    made = bases()[name]
    model = gaifman.fit(towns(), "works_in(x, y)", base=made(), **UNSET)
    found = model.probabilities(PAIRS)
    assert found.values[1] > found.values[2]
    assert len(model.embed(PAIRS)) == 5
    model.save(tmp_path / "a.gaifman")
    given = None if name == "logistic" else made()
    again = gaifman.load(tmp_path / "a.gaifman", towns(), base=given)
    assert isinstance(again, GaifmanModel)
    assert same(again.probabilities(PAIRS), found)
    if given is not None:
        with pytest.raises(InputError, match="needs a base model of kind") as caught:
            gaifman.load(tmp_path / "a.gaifman")
        assert "base=" in caught.value.hint


def test_a_base_model_that_cannot_be_saved_is_trained(tmp_path: Path) -> None:
    """It once failed in training, because its metadata could not be written."""
    from sklearn.tree import DecisionTreeClassifier

    model = gaifman.fit(towns(), "works_in(x, y)", base=SklearnModel(DecisionTreeClassifier()), **UNSET)
    assert model.probability("p01", "t1").value > model.probability("p01", "t2").value
    with pytest.raises(OutputError, match="cannot be saved"):
        model.save(tmp_path / "a.gaifman")
    assert not list(tmp_path.iterdir())


def test_an_unknown_loss_is_none() -> None:
    """NaN, which JSON does not have, once made the model unsaveable."""
    from sklearn.linear_model import LogisticRegression

    model = gaifman.fit(towns(), "works_in(x, y)", base=SklearnModel(LogisticRegression(max_iter=500)), **UNSET)
    assert model.meta["metrics"]["losses"] == [None]


class Stopped(Exception):
    """Raised by a callback."""


class Stopping(Callback):
    """Stops after a number of blocks and keeps the state, as a checkpoint does."""

    def __init__(self, blocks: int, at: tuple[Any, Any] | None = None) -> None:
        self.left, self.at = blocks, at

    def load_checkpoint(self) -> tuple[Any, Any] | None:
        return self.at

    def on_block(self, examples: int, state: Callable[[], tuple[Any, Any]]) -> None:
        self.left -= 1
        if not self.left:
            self.at = parse_model(model_bytes(*state()))
            raise Stopped


@pytest.mark.parametrize("name", ["logistic", "regression", "layers"])
@pytest.mark.parametrize("blocks", [1, 3])
def test_a_stopped_training_resumes_to_the_same_model(name: str, blocks: int) -> None:
    """A classifier does not know its loss before it is fitted; the sum of such losses was once NaN."""
    kb, made = demo(), bases()[name]
    settings = {**UNSET, "positives": 1, "negatives": 1}
    whole = gaifman.fit(kb, "borders(x, y)", base=made(), **settings)
    watch = Stopping(blocks)
    with pytest.raises(Stopped):
        gaifman.fit(kb, "borders(x, y)", base=made(), callback=watch, **settings)
    again = gaifman.fit(kb, "borders(x, y)", base=made(), callback=Stopping(0, watch.at), **settings)
    assert again.meta == whole.meta
    pairs = [("france", "spain"), ("france", "japan")]
    assert same(again.probabilities(pairs), whole.probabilities(pairs))

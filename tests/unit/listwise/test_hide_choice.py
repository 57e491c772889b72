"""What is hidden in training is chosen by the ranks of validation facts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gaifman
from gaifman.completion import PartStore, RelationTrainer
from gaifman.errors import KnowledgeBaseError
from gaifman.kb.knowledge_base import Fact, KnowledgeBase
from gaifman.listwise import hide_choice
from gaifman.listwise.hide_choice import CHOICES, ValidationFacts, reciprocal_ranks
from gaifman.model_card import model_card
from gaifman.training import TrainingConfig

FEW: dict[str, Any] = {"options": {"max_steps": 2}, "seed": 1}


def places(unlinked: bool) -> tuple[KnowledgeBase, KnowledgeBase]:
    """Towns and their rulers, who are reached by the seat; training pairs are linked by another fact, too.

    Validation pairs are missed at random, or were chosen to be unlinked, while a rival is linked.
    """
    facts, valid = list[tuple[str, str, str]](), list[tuple[str, str, str]]()
    for i in range(90):
        ruler, rival = f"r{i}", f"r{(i + 7) % 90}"
        facts += [("seat", f"t{i}", f"s{i}"), ("holds", ruler, f"s{i}")]
        held_out = i % 3 == 0
        (valid if held_out else facts).append(("ruled_by", f"t{i}", ruler))
        facts.append(("visited_by", f"t{i}", rival if held_out and unlinked else ruler))
    return KnowledgeBase.from_facts(facts), KnowledgeBase.from_facts(valid)


@pytest.mark.parametrize(("unlinked", "chosen"), [(True, "links"), (False, "facts")])
def test_links_are_hidden_where_validation_pairs_have_none(unlinked: bool, chosen: str) -> None:
    train, valid = places(unlinked)
    completion = gaifman.complete(train, ["ruled_by"], valid=valid, **FEW)
    choice = completion.meta["hide_choice"]
    assert (choice["chosen"], choice["facts"], choice["relations"], choice["left_out"]) == (chosen, 30, 1, 0)
    assert completion.config.hide == completion.meta["config"]["hide"] == chosen
    assert choice["mrr"][chosen] == max(choice["mrr"].values())
    assert set(choice["mrr"]) == set(CHOICES)
    named = gaifman.complete(train, ["ruled_by"], hide=chosen, **FEW)
    assert {**completion.state()[1], "hide_choice": None} == {**named.state()[1], "hide_choice": None}
    assert all(np.array_equal(array, named.state()[0][name]) for name, array in completion.state()[0].items())
    one = gaifman.fit(train, "ruled_by(x, y)", valid=valid, **FEW)
    assert one.meta["hide_choice"] == choice
    assert one.config.hide == chosen
    text = model_card(one.meta)
    assert f"{chosen}: MRR of 30 validation facts of 1 relation {choice['mrr'][chosen]:.3f}" in text


def test_the_choice_does_not_depend_on_threads() -> None:
    train, valid = places(unlinked=True)
    facts = KnowledgeBase.from_facts([*valid.facts(), Fact("seat", ("t1", "s5"))])
    found = [gaifman.complete(train, valid=facts, threads=threads, **FEW).meta["hide_choice"] for threads in (1, 2)]
    assert found[0] == found[1]
    assert (found[0]["facts"], found[0]["relations"]) == (31, 2)


def test_without_validation_facts_facts_are_hidden() -> None:
    train, valid = places(unlinked=True)
    model = gaifman.fit(train, "ruled_by(x, y)", valid=valid, **FEW)
    assert model.fit(train).config.hide == "facts"
    assert "hide_choice" not in model.meta
    assert gaifman.complete(train, ["ruled_by"], **FEW).config.hide == "facts"


def test_a_sample_is_the_same_whatever_else_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hide_choice, "MAX_RELATIONS", 2)
    monkeypatch.setattr(hide_choice, "MAX_RELATION_FACTS", 5)
    rows = {
        name: np.arange(2 * count, dtype=np.int32).reshape(-1, 2) for name, count in {"a": 9, "b": 3, "c": 30}.items()
    }
    found = ValidationFacts(rows).sample(0).tuples
    again = ValidationFacts({name: rows[name] for name in found}).sample(0).tuples
    assert len(found) == 2
    for name, some in found.items():
        assert len(some) == min(5, len(rows[name]))
        assert some.tolist() == again[name].tolist()


def test_reciprocal_ranks_are_those_of_an_evaluation() -> None:
    train, valid = places(unlinked=False)
    completion = gaifman.complete(train, ["ruled_by"], **FEW)
    expected = gaifman.evaluate(completion, train, valid).metrics().mrr.value
    predictor = completion.predictor("ruled_by")
    tuples = np.array([[train.object_id(name) for name in fact.objects] for fact in valid.facts()], np.int32)
    known = np.unique(np.concatenate([train.tuples("ruled_by"), tuples]), axis=0)
    assert reciprocal_ranks(predictor.scorer, tuples, known).mean() == pytest.approx(expected)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        (
            [("ruled_bi", "t0", "r0")],
            "relation that the knowledge base does not have: ruled_bi\ndid you mean: ruled_by",
        ),
        ([("ruled_by", "t0", "r0", "r1")], "3 arguments in the validation facts and 2 arguments in the knowledge base"),
        ([("ruled_by", "t1", "r1"), ("ruled_by", "t0", "r0")], "1 of 2 validation facts are training facts, such as"),
        ([("ruled_by", "t0", "r999")], "every validation fact has an object that .* does not have, such as r999"),
        ([("seat", "t0", "s5")], "no validation facts of the relations to train: ruled_by"),
    ],
)
def test_wrong_validation_facts_are_refused(facts: list[tuple[str, ...]], message: str) -> None:
    train, _ = places(unlinked=False)
    valid = KnowledgeBase.from_facts(facts)
    with pytest.raises(KnowledgeBaseError, match=message):
        gaifman.complete(train, ["ruled_by"], valid=valid)
    with pytest.raises(KnowledgeBaseError, match=message):
        gaifman.fit(train, "ruled_by(x, y)", valid=valid)


def test_facts_with_unknown_objects_are_left_out_and_counted() -> None:
    train, valid = places(unlinked=False)
    more = KnowledgeBase.from_facts([*valid.facts(), Fact("ruled_by", ("t0", "new"))])
    model = gaifman.fit(train, "ruled_by(x, y)", valid=more, **FEW)
    assert (model.meta["hide_choice"]["facts"], model.meta["hide_choice"]["left_out"]) == (30, 1)
    assert "1 with unknown objects left out" in model_card(model.meta)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"base": "mlp"}, "the model is a network"),
        ({"size": 20}, "the model is a network"),
        ({"hide": "links"}, "hide=links is given"),
    ],
)
def test_settings_that_leave_nothing_to_choose_are_refused(settings: dict[str, Any], message: str) -> None:
    train, valid = places(unlinked=False)
    with pytest.raises(KnowledgeBaseError, match=message):
        gaifman.complete(train, valid=valid, **settings)
    with pytest.raises(KnowledgeBaseError, match=message):
        gaifman.fit(train, "ruled_by(x, y)", valid=valid, **settings)


def test_validation_facts_are_for_one_knowledge_base() -> None:
    train, valid = places(unlinked=False)
    with pytest.raises(KnowledgeBaseError, match="several are given"):
        RelationTrainer([train, train], "default", TrainingConfig(), None).choose_hiding(
            valid, ["ruled_by"], 1, PartStore()
        )
    with pytest.raises(KnowledgeBaseError, match="several are given"):
        gaifman.fit([train, train], "ruled_by(x, y)", valid=valid)

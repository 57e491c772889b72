"""Proposals: every candidate is stood for, probabilities are those of answers, and what is random is improbable."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

import gaifman
from gaifman.errors import KnowledgeBaseError
from gaifman.evaluation import proposals as module
from gaifman.evaluation.proposals import Candidates, ProposalTest, SetTest
from gaifman.listwise.scoring import ListwisePredictor
from gaifman.plots import plot_proposals

PEOPLE = 60


@cache
def planted() -> tuple[gaifman.KnowledgeBase, gaifman.KnowledgeBase]:
    """People live where they work, with few exceptions, and like others by chance; a seventh of both is held out."""
    rng = np.random.default_rng(0)
    facts: list[tuple[str, ...]] = [("town", f"t{i}") for i in range(8)]
    for i in range(PEOPLE):
        town, other, liked = rng.integers(8), rng.integers(8), rng.integers(PEOPLE)
        facts.append(("person", f"p{i}"))
        facts.append(("works_in", f"p{i}", f"t{town}"))
        facts.append(("lives_in", f"p{i}", f"t{other if rng.random() < 0.1 else town}"))
        facts.append(("likes", f"p{i}", f"p{liked}"))
    held_out = [fact for fact in facts if fact[0] in ("lives_in", "likes")][::7]
    return gaifman.KnowledgeBase.from_facts([fact for fact in facts if fact not in held_out]), (
        gaifman.KnowledgeBase.from_facts(held_out)
    )


@cache
def completion() -> gaifman.Completion:
    return gaifman.complete(planted()[0], ["lives_in", "likes"], seed=1)


@cache
def measured(threads: int = 1) -> ProposalTest:
    return gaifman.measure_proposals(completion(), *planted(), threads=threads)


def test_every_candidate_is_stood_for() -> None:
    visible, test = planted()
    candidates, known = measured().candidates, sum(len(visible.tuples(name)) for name in completion().relations)
    assert candidates.weights.sum() == pytest.approx(PEOPLE * 8 + PEOPLE * PEOPLE - known, rel=0.05)
    assert (candidates.weights * candidates.targets).sum() == pytest.approx(len(test))
    assert measured().held_out == len(test)


def test_probabilities_are_those_of_answers_for_the_share_that_is_held_out() -> None:
    visible, _ = planted()
    predictor = completion().predictor("lives_in")
    assert isinstance(predictor, ListwisePredictor)
    own = predictor.with_missing(measured().missing)
    ids = np.array([[visible.object_id("p0"), visible.object_id("t1")]], np.int32)
    p = own.probabilities(ids, own.budget()).values[0]
    assert np.isclose(measured().candidates.probabilities, p).any()


def test_what_follows_is_probable_and_what_is_random_is_not() -> None:
    visible, test = planted()
    found = {
        name: gaifman.measure_proposals(completion(), visible, test, relations=[name]).candidates
        for name in ("lives_in", "likes")
    }
    assert found["likes"].probabilities.max() < 0.2
    assert found["lives_in"].probabilities.max() > 0.5
    quality = measured().quality()
    assert quality["model"].log_loss < quality["popularity"].log_loss
    assert measured().expected == pytest.approx(measured().held_out, rel=0.4)


def test_the_result_does_not_depend_on_the_threads() -> None:
    assert measured(2).as_dict() == measured().as_dict()


def test_known_facts_are_no_candidates() -> None:
    visible, test = planted()
    valid = gaifman.KnowledgeBase.from_facts([*test.facts()][:6])
    rest = gaifman.KnowledgeBase.from_facts([*test.facts()][6:])
    fewer = gaifman.measure_proposals(completion(), visible, rest, valid)
    assert fewer.held_out == len(test) - 6
    true = (fewer.candidates.weights * fewer.candidates.targets).sum()
    assert true == pytest.approx(len(rest))
    assert fewer.missing < measured().missing


def test_a_sample_stands_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "QUESTIONS", 40)
    monkeypatch.setattr(module, "MIN_QUESTIONS", 20)
    sampled = gaifman.measure_proposals(completion(), *planted())
    assert len(sampled.candidates.weights) < len(measured().candidates.weights)
    assert sampled.candidates.weights.sum() == pytest.approx(measured().candidates.weights.sum(), rel=0.1)
    assert sampled.expected == pytest.approx(measured().expected, rel=0.35)


def test_answer_sets_hold_the_answers_that_they_name() -> None:
    sets = SetTest(
        np.array([True, True, False, True]), np.array([1, 4, 4, 9]), np.ones(4), np.array(["n-1"] * 3 + ["n-n"])
    )
    assert sets.coverage() == {"facts": 4.0, "coverage": 0.75, "median_size": 4}
    assert sets.as_dict()["n-n"] == {"facts": 1.0, "coverage": 1.0, "median_size": 9}
    assert SetTest.concatenate([]).as_dict() == {}


def test_figures_of_few_candidates() -> None:
    p, targets, weights = np.array([[0.95, 0.5, 0.01], [1.0, 0.0, 0.0], [1.0, 2.0, 50.0]])
    own = Candidates(p, targets, weights, p, p, np.arange(3) % 2)
    test = ProposalTest(own, 2, 0.1, SetTest.concatenate([]))
    assert test.expected == pytest.approx(0.95 + 1 + 0.5)
    assert test.confident() == (1.0, 1.0)
    assert test.reliability is not None
    assert test.reliability.counts.sum() == 3
    assert test.as_dict()["quality"]["model"]["brier"] == pytest.approx((0.05**2 + 2 * 0.25 + 50 * 1e-4) / 2)


@pytest.mark.parametrize(
    ("relations", "test", "message"),
    [
        (["works_in"], None, "no model of works_in"),
        (None, [("works_in", "p0", "t7")], "no test fact has a relation of the model"),
    ],
)
def test_wrong_input(relations: list[str] | None, test: list[tuple[str, ...]] | None, message: str) -> None:
    facts = planted()[1] if test is None else gaifman.KnowledgeBase.from_facts(test)
    with pytest.raises(KnowledgeBaseError, match=message):
        gaifman.measure_proposals(completion(), planted()[0], facts, relations=relations)


def test_a_network_proposes_nothing() -> None:
    network = gaifman.complete(planted()[0], ["lives_in"], base="mlp", size=5, options={"epochs": 1}, seed=1)
    with pytest.raises(KnowledgeBaseError, match="ranked lists"):
        gaifman.measure_proposals(network, *planted())


def test_the_plot_is_written(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    plot_proposals(measured(), tmp_path / "plot.svg")
    assert "facts held out" in (tmp_path / "plot.svg").read_text()


def test_uncertain_test_facts_can_lack_a_relation_of_the_model() -> None:
    visible, test = planted()
    uncertain = gaifman.KnowledgeBase.from_facts(
        [gaifman.Fact("lives_in", fact.objects, 0.7) for fact in test.facts("lives_in")]
    )
    found = gaifman.measure_proposals(completion(), visible, uncertain)
    assert (found.candidates.weights * found.candidates.targets).sum() == pytest.approx(0.7 * len(uncertain), rel=0.1)

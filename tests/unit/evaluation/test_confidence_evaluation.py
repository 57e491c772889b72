"""Probabilities against the confidences of test facts: MAE and correlation, beside constants of the relation."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

import gaifman
from gaifman.completion import Completion
from gaifman.evaluation.evaluate import Evaluation, evaluate, evaluate_draw_counts
from gaifman.evaluation.tasks import ConfidenceTest
from gaifman.kb.knowledge_base import Fact, KnowledgeBase
from trained import FEW, towns

TEST = [
    Fact("works_in", ("p03", "t3"), 0.9),
    Fact("works_in", ("p04", "t4"), 0.3),
    Fact("works_in", ("newcomer", "t1"), 0.6),
    Fact("person", ("p05",)),
    Fact("likes", ("p02", "p01"), 0.7),
]
"""Facts of a trained relation, of a new object, a certain one, and one of a relation that has the fallback."""


@cache
def train() -> KnowledgeBase:
    kb = towns(sure=False).with_facts([Fact("likes", ("p00", "p01"), 0.4), Fact("works_in", ("p00", "t4"), 0.2)])
    return kb.without_facts([fact for fact in TEST if fact in kb])


@cache
def completed() -> Completion:
    return gaifman.complete(train(), **FEW)


@cache
def found() -> Evaluation:
    return evaluate(completed(), train(), KnowledgeBase.from_facts(TEST), threads=1)


def compared() -> ConfidenceTest:
    test = found().confidences
    assert test is not None
    return test


def by_confidence() -> dict[float, int]:
    return {confidence: row for row, confidence in enumerate(compared().confidences.tolist())}


def test_each_test_fact_is_compared_with_its_own_confidence() -> None:
    scores = found().classification.scores[found().classification.targets == 1]
    assert sorted(compared().confidences.tolist()) == [0.3, 0.6, 0.7, 0.9, 1.0]
    for fact in TEST:
        row = by_confidence()[fact.confidence]
        if fact.relation == "likes":
            assert compared().probabilities[row] == scores[row], "the fallback is not calibrated"
        else:
            assert compared().probabilities[row] == completed().calibration.apply(scores[row])


def test_the_constants_are_those_of_the_visible_facts() -> None:
    rows = by_confidence()
    visible = {name: train().confidences_of(name) for name in ("works_in", "person", "likes")}
    for fact in TEST:
        row = rows[fact.confidence]
        assert compared().relation_means[row] == pytest.approx(visible[fact.relation].mean())
        assert compared().relation_medians[row] == np.median(visible[fact.relation])
    assert len(visible["works_in"]) == 39, "without the test facts, and with the uncertain one"


def test_mae_and_correlation_by_definition() -> None:
    metrics, test = compared().metrics(), compared()
    assert metrics == found().as_dict()["confidences"]
    assert metrics["facts"] == 5
    for name, values in (("model", test.probabilities), ("relation_mean", test.relation_means)):
        assert metrics[name]["mae"] == pytest.approx(np.abs(values - test.confidences).mean(), abs=1e-6)
        centred = values - values.mean(), test.confidences - test.confidences.mean()
        r = (centred[0] * centred[1]).sum() / np.sqrt((centred[0] ** 2).sum() * (centred[1] ** 2).sum())
        assert metrics[name]["correlation"] == pytest.approx(r, abs=1e-6)


def test_the_correlation_with_a_constant_is_none() -> None:
    same = ConfidenceTest(np.array([0.5, 0.5]), np.array([0.4, 0.8]), np.ones(2), np.ones(2))
    assert same.metrics()["model"] == {"mae": 0.2, "correlation": None}
    assert ConfidenceTest(np.array([0.5]), np.array([0.4]), np.ones(1), np.ones(1)).metrics()["facts"] == 1


def test_certain_test_facts_are_not_compared() -> None:
    certain = KnowledgeBase.from_facts([Fact(f.relation, f.objects) for f in TEST])
    result = evaluate(completed(), train(), certain, threads=1)
    assert result.confidences is None
    assert "confidences" not in result.as_dict()
    ranks = [each.filtered.realistic.tolist() for each in (result, found())]
    assert ranks[0] == ranks[1], "the confidence of a test fact does not change its rank"


def test_the_model_of_one_relation_and_of_other_queries() -> None:
    one = gaifman.fit(train(), "works_in(x, y)", **FEW)
    test = evaluate(one, train(), KnowledgeBase.from_facts(TEST), threads=1).confidences
    assert test is not None
    assert sorted(test.confidences.tolist()) == [0.3, 0.6, 0.9]
    other = gaifman.fit(train(), "exists z. lives_in(x, z) & town_of(z, y)", **FEW)
    moved = KnowledgeBase.from_facts([Fact("lives_in", ("newcomer", "t1"), 0.6)])
    assert evaluate(other, train(), moved, threads=1).confidences is None


def test_a_relation_without_visible_facts_gets_the_constants_of_all() -> None:
    kb = train().without_facts([*train().facts("works_in")])
    test = evaluate(completed(), kb, KnowledgeBase.from_facts(TEST[:3]), threads=1).confidences
    assert test is not None
    assert test.relation_means.tolist() == pytest.approx([kb.confidences.mean()] * 3)


def test_samples_checkpoints_threads_and_draws_keep_the_pairs(tmp_path: Path) -> None:
    some = evaluate(completed(), train(), KnowledgeBase.from_facts(TEST), count=2, threads=1).confidences
    assert some is not None
    pairs = {*zip(compared().confidences.tolist(), compared().probabilities.tolist(), strict=True)}
    assert {*zip(some.confidences.tolist(), some.probabilities.tolist(), strict=True)} < pairs
    for folder in (tmp_path / "ranks", tmp_path / "ranks"):
        again = evaluate(completed(), train(), KnowledgeBase.from_facts(TEST), threads=2, checkpoint_dir=folder)
        assert again.as_dict() == found().as_dict()
    one, four = evaluate_draw_counts(completed(), train(), KnowledgeBase.from_facts(TEST), draws=[1, 4], threads=1)
    assert four.as_dict() == found().as_dict()
    assert one.as_dict()["confidences"] != four.as_dict()["confidences"]

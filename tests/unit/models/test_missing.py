"""Unknown is not false: figures and probabilities, corrected for negatives that are true."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gaifman
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.kb.tables import Floats
from gaifman.models.calibration import HeldOut, HeldOutReport, auc, auc_metrics, correct_auc, reliability
from gaifman.sampling.negatives import NegativeSampler
from gaifman.sampling.rng import make_key

SHARES = pytest.mark.parametrize("share", [0.05, 0.2, 0.4])


def scores(share: float, count: int = 20_000, seed: int = 0) -> tuple[HeldOut, Floats]:
    """Held-out tuples of which a share of the negatives is true and scored as answers are, and the truth of each."""
    random = np.random.default_rng(seed)
    truth = np.concatenate([np.ones(count), (random.random(count) < share).astype(np.float64)])
    logits = random.normal(np.where(truth > 0, 1.2, -1.2), 1.5)
    shares = np.repeat([0.0, share], count)
    return HeldOut(1 / (1 + np.exp(-logits)), np.repeat([1.0, 0.0], count), shares), truth


@SHARES
def test_the_corrected_auc_is_that_of_the_truth(share: float) -> None:
    given, truth = scores(share)
    true = auc(given.means, truth)
    metrics = auc_metrics(given, 20_000)
    assert true is not None
    assert metrics["auc_corrected"] == pytest.approx(true, abs=0.01)
    assert metrics["auc"] < true - share / 4
    assert metrics["true_negatives"] == pytest.approx(share)
    assert "missing_reason" not in metrics


def weigh(truth: Floats) -> Floats:
    """Weights with which as many tuples are true as false."""
    return np.asarray(np.where(truth > 0, 1 / truth.sum(), 1 / (1 - truth).sum()))


@SHARES
def test_corrected_probabilities_are_those_of_being_true(share: float) -> None:
    given, truth = scores(share)
    weights = weigh(truth)
    corrected, plain = (
        HeldOut(given.means, given.targets, shares).fit_calibration(1.0) for shares in (given.true_shares, None)
    )
    after = reliability(corrected.apply(given.means), truth, weights)
    before = reliability(plain.apply(given.means), truth, weights)
    assert after.ece < 0.02
    assert before.ece > after.ece + share / 8
    report = HeldOutReport.from_held_out(given, 1.0)
    assert report.calibrated is not None
    assert report.calibrated.ece < 0.03
    assert report.calibrated.brier == pytest.approx(after.brier, abs=0.01)
    assert report.calibrated.log_loss == pytest.approx(after.log_loss, abs=0.03)


def test_a_prior_means_the_same_with_and_without_a_correction() -> None:
    given, _ = scores(0.2)
    plain = HeldOut(given.means, given.targets).fit_calibration(1.0)
    corrected = given.fit_calibration(1.0)
    assert corrected.prior == plain.prior == 0.5
    assert (corrected.with_prior(0.5).values == corrected.values).all()


def test_more_true_negatives_than_the_scores_allow_are_reported() -> None:
    given, _ = scores(0.0)
    wrong = HeldOut(given.means, given.targets, np.repeat([0.0, 0.6], 20_000))
    metrics = auc_metrics(wrong, 20_000)
    assert metrics["auc_corrected"] == 1.0
    assert metrics["missing_reason"].startswith("at most 0.25")
    report = HeldOutReport.from_held_out(wrong, 1.0)
    assert report.calibrated is not None
    assert report.calibrated.brier >= 0


def test_nothing_is_corrected_without_true_negatives() -> None:
    assert correct_auc(0.8, 0.0) == 0.8
    given, _ = scores(0.2)
    none = HeldOut(given.means, given.targets, np.zeros(40_000))
    assert (none.fit_calibration(2.0).values == HeldOut(given.means, given.targets).fit_calibration(2.0).values).all()
    assert auc_metrics(none, 20_000)["auc_corrected"] == auc_metrics(none, 20_000)["auc"]


def friends(seed: int, missing: float, groups: int = 6) -> tuple[KnowledgeBase, set[tuple[str, ...]]]:
    """Friends within groups, some of which are missing; all who share a club. Also the missing pairs."""
    random = np.random.default_rng(seed)
    pairs = [(x, y) for x in range(90) for y in range(90) if x % groups == y % groups and x != y]
    true = [pair for pair in pairs if random.random() < 0.6]
    gone = {pair for pair in true if random.random() < missing}
    facts = [("friend", f"p{x:02d}", f"p{y:02d}") for x, y in true if (x, y) not in gone]
    facts += [("club", f"p{x:02d}", f"c{x % groups}") for x in range(90)]
    return KnowledgeBase.from_facts(facts), {(f"p{x:02d}", f"p{y:02d}") for x, y in gone}


@pytest.mark.parametrize("sampling", ["uniform", "typed", "mixed"])
@pytest.mark.parametrize("missing", [0.1, 0.3])
def test_the_share_of_true_negatives_is_that_of_removed_facts(sampling: str, missing: float) -> None:
    kb, gone = friends(1, missing)
    answers, rows = kb.tuples("friend"), np.arange(kb.relations["friend"].count)
    sampler = NegativeSampler(kb, answers, negative_sampling=sampling)
    negatives = sampler.sample(rows, 5, make_key(0, "test"))
    names = [tuple(kb.object_name(obj) for obj in row) for row in negatives.tuples.tolist()]
    real = np.mean([pair in gone for pair in names])
    assert sampler.true_shares(rows, negatives, missing).mean() == pytest.approx(real, abs=0.012)


def test_functions_have_no_missing_facts() -> None:
    kb = KnowledgeBase.from_facts([("capital", f"c{i}", f"t{i}") for i in range(30)])
    sampler = NegativeSampler(kb, kb.tuples("capital"))
    negatives = sampler.sample(np.arange(30), 3, make_key(0, "test"))
    assert not sampler.true_shares(np.arange(30), negatives, 0.5).any()


def claimed_and_true(seed: int) -> list[float]:
    """The AUC that a model claims, the corrected one, and that of removed facts against false negatives."""
    kb, gone = friends(seed, 0.3, groups=2)
    quick: dict[str, Any] = {"holdout": 0.2, "min_examples": 5_000, "draws": 3, "options": {"hidden": [20]}}
    model = gaifman.fit(kb, "friend(x, y)", missing=0.3, negative_sampling="uniform", seed=seed, **quick)
    answers = kb.tuples("friend")
    sampler = NegativeSampler(kb, answers, negative_sampling="uniform")
    drawn = sampler.sample(np.arange(len(answers)), 1, make_key(seed, "test")).tuples.tolist()
    false = [pair for x, y in drawn if (pair := (kb.object_name(x), kb.object_name(y))) not in gone]
    truth = np.repeat([1.0, 0.0], [len(gone), len(false)])
    true = auc(model.probabilities([*sorted(gone), *false]).values, truth)
    assert true is not None
    assert model.meta["config"]["missing"] == 0.3
    return [model.meta["metrics"]["auc"], model.meta["metrics"]["auc_corrected"], true]


def test_the_corrected_auc_of_a_model_is_that_of_removed_facts() -> None:
    claimed, corrected, true = np.mean([claimed_and_true(seed) for seed in range(4)], axis=0)
    assert abs(corrected - true) < 0.015
    assert claimed < true - 0.025

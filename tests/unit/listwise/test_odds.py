"""Odds: probabilities that fit, few parameters that share strength, priors."""

from __future__ import annotations

import numpy as np
import pytest

from gaifman.errors import InputError, KnowledgeBaseError
from gaifman.listwise.scoring import Odds, Proposals, fit_odds


def proposals(count: int, seed: int = 0, base: float = 1.0) -> Proposals:
    """Candidates whose truth has the log-odds base + 0.8 · share 1 + 0.3 · share 2 − 2 · known answers."""
    rng = np.random.default_rng(seed)
    evidence = np.column_stack([-rng.exponential(2, (count, 2)), np.log1p(rng.integers(0, 3, (count, 2)))])
    odds = Odds(base, np.array([0.8, 0.3, -2.0, 0.0]), 0.5)
    return Proposals(evidence, (rng.random(count) < odds.probabilities(evidence)).astype(float), np.ones(count))


def test_the_odds_are_found_again() -> None:
    found = fit_odds(proposals(20_000))
    assert found.base == pytest.approx(1.0, abs=0.15)
    assert found.weights == pytest.approx([0.8, 0.3, -2.0, 0.0], abs=0.15)


def test_probabilities_are_calibrated_by_weight() -> None:
    sample = proposals(4_000)
    weighted = Proposals(sample.evidence, sample.targets, np.where(sample.targets > 0, 1.0, 3.0))
    p = fit_odds(weighted).probabilities(weighted.evidence)
    expected = float((weighted.weights * p).sum())
    assert expected == pytest.approx(float((weighted.weights * weighted.targets).sum()), rel=0.02)


def test_a_small_relation_stays_near_the_others_and_a_large_one_does_not() -> None:
    pooled = fit_odds(proposals(10_000))
    small, large = (fit_odds(proposals(count, 1, base=4.0), pooled) for count in (6, 5_000))
    assert abs(small.weights - pooled.weights).max() < 0.5
    assert large.base == pytest.approx(4.0, abs=0.5)


def test_more_share_never_means_less_probable() -> None:
    sample = proposals(500)
    against = Proposals(sample.evidence, 1 - sample.targets, sample.weights)
    assert (fit_odds(against).weights[:2] >= 0).all()


def test_without_a_hidden_fact_the_odds_are_those_of_all() -> None:
    pooled = fit_odds(proposals(1_000))
    nothing = Proposals(np.zeros((3, 4)), np.zeros(3), np.ones(3))
    assert fit_odds(nothing, pooled) is pooled
    assert 0 < fit_odds(nothing).probabilities(np.zeros((1, 4)))[0] < 0.01


def test_a_prior_shifts_the_odds() -> None:
    odds = Odds(0.0, np.zeros(4), 0.1)
    assert odds.with_prior(0.5).probabilities(np.zeros((1, 4)))[0] == pytest.approx(0.9)
    with pytest.raises(KnowledgeBaseError, match="prior"):
        odds.with_prior(0.0)


def test_arrays_give_the_odds_back_and_wrong_ones_are_refused() -> None:
    odds = fit_odds(proposals(100))
    again = Odds.from_arrays(odds.arrays(), 2)
    assert (again.base, again.prior, again.weights.tolist()) == (odds.base, odds.prior, odds.weights.tolist())
    with pytest.raises(InputError, match="shape"):
        Odds.from_arrays(odds.arrays(), 3)

"""Reliability: what was said beside what was so."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import brier_score_loss, log_loss

from gaifman.errors import KnowledgeBaseError
from gaifman.models.calibration import fit_calibration, reliability
from model_cases import synthetic


def test_the_numbers_of_a_table_by_hand() -> None:
    found = reliability([0.05, 0.05, 0.95, 0.95], [0, 1, 1, 1])
    assert found.counts.tolist() == [2] + [0] * 8 + [2]
    assert found.predicted[[0, 9]] == pytest.approx([0.05, 0.95])
    assert found.observed[[0, 9]].tolist() == [0.5, 1.0]
    assert np.isnan(found.observed[1:9]).all()
    assert found.ece == pytest.approx((0.45 + 0.05) / 2)
    assert found.brier == pytest.approx((0.05**2 * 3 + 0.95**2) / 4)
    assert found.log_loss == pytest.approx(-(3 * math.log(0.95) + math.log(0.05)) / 4)


def test_bins_of_equal_count_see_what_bins_of_equal_width_do_not() -> None:
    # In one bin of equal width the mean is right, and yet both halves are wrong.
    p = np.repeat([0.01, 0.09], 500)
    targets = np.concatenate([np.arange(500) % 20 == 0, np.arange(500) % 20 == 0]).astype(float)
    found = reliability(p, targets)
    assert found.ece == pytest.approx(0, abs=1e-12)
    assert found.ece_by_count == pytest.approx(0.04)


@given(st.integers(0, 10_000), st.integers(1, 30))
@settings(max_examples=30)
def test_scores_are_those_of_others(seed: int, count: int) -> None:
    _, said, targets = synthetic(seed, count, lambda x: 2 * x)
    weights = np.random.default_rng(seed).uniform(0.5, 2, count)
    found = reliability(said, targets, weights)
    assert found.brier == pytest.approx(brier_score_loss(targets, said, sample_weight=weights, pos_label=1))
    assert found.log_loss == pytest.approx(log_loss(targets, said, sample_weight=weights, labels=[0, 1]))
    assert 0 <= found.ece <= 1


@given(st.integers(0, 10_000))
@settings(max_examples=30)
def test_the_table_takes_weights_as_repeats(seed: int) -> None:
    _, said, targets = synthetic(seed, 100, lambda x: np.round(x, 1))
    weights = np.random.default_rng(seed).integers(0, 4, 100)
    one = reliability(said, targets, weights)
    other = reliability(np.repeat(said, weights), np.repeat(targets, weights))
    for name in ("counts", "predicted", "observed", "ece", "ece_by_count", "brier", "log_loss"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), atol=1e-12)


def test_certain_mistakes_cost_much_but_not_everything() -> None:
    assert reliability([0.0, 1.0], [1, 0]).log_loss == pytest.approx(-math.log(np.finfo(float).eps))


def test_a_table_is_printed_with_its_errors() -> None:
    lines = str(reliability(np.repeat([0.05, 0.5, 1.0], [1_000, 10, 10]), np.repeat([0, 1], [1_000, 20]))).splitlines()
    assert lines[1].split() == ["0.00", "–", "0.10", "1,000", "0.050", "0.000"]
    assert lines[3].split() == ["0.90", "–", "1.00", "10", "1.000", "1.000"]
    assert len(lines) == 6
    assert "expected calibration error 0.054" in lines[4]
    assert len({len(line) for line in lines[:4]}) == 1


@pytest.mark.parametrize(
    ("p", "targets", "weights", "words"),
    [
        ([1.5], [1], None, "probabilities must be from 0 to 1, got 1.5"),
        ([math.nan], [1], None, "probabilities must be from 0 to 1, got nan"),
        ([0.5], [2], None, "targets must be from 0 to 1, got 2"),
        ([0.5, 0.5], [1], None, "of one length"),
        ([[0.5]], [[1]], None, "of one length"),
        ([0.5], [1], [-1], "at least 0"),
        ([0.5], [1], [math.inf], "finite"),
    ],
)
def test_wrong_input_is_refused(p: list[float], targets: list[float], weights: list[float] | None, words: str) -> None:
    for function in (fit_calibration, reliability):
        with pytest.raises(KnowledgeBaseError, match=words):
            function(p, targets, weights)


@pytest.mark.parametrize(("p", "weights", "bins"), [([], None, 10), ([0.5], [0], 10), ([0.5], [1], 0)])
def test_a_table_of_nothing_is_refused(p: list[float], weights: list[float] | None, bins: int) -> None:
    with pytest.raises(KnowledgeBaseError, match="needs tuples and at least one bin"):
        reliability(p, p, weights, bins=bins)

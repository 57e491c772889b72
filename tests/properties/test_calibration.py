"""Calibration: what is said comes to be what is so, and the order stays."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.isotonic import isotonic_regression

from gaifman.errors import InputError, KnowledgeBaseError
from gaifman.models.calibration import (
    MAX_PROBABILITY,
    MIN_PROBABILITY,
    Calibration,
    correct_class_ratio,
    fit_calibration,
    fit_isotonic,
    log_odds,
    logistic,
    reliability,
)
from model_cases import Warp, synthetic


def repaired(seed: int, count: int, warp: Warp) -> float:
    """The calibration error on 50,000 other tuples of a map fitted to `count`."""
    _, said, targets = synthetic(seed, count + 50_000, warp)
    found = fit_calibration(said[:count], targets[:count])
    return reliability(found.apply(said[count:]), targets[count:]).ece


# The correction for how often training saw corruptions


def test_where_nothing_is_known_the_corrected_probability_is_one_half() -> None:
    for ratio in (0.5, 1, 4, 100):
        assert correct_class_ratio(1 / (1 + ratio), ratio) == pytest.approx(0.5)


@given(st.floats(0.001, 0.999), st.floats(0.01, 100), st.floats(0.01, 0.99))
def test_the_correction_multiplies_the_odds(p: float, ratio: float, prior: float) -> None:
    odds = p / (1 - p) * ratio * prior / (1 - prior)
    assert correct_class_ratio(p, ratio, prior) == pytest.approx(odds / (1 + odds))


def test_the_correction_is_bayes_rule_on_counts() -> None:
    # Of 100 tuples with a feature 20 are answers, with 4 corruptions for each answer; with one for each: 20 of 40.
    assert correct_class_ratio(20 / 100, 4) == pytest.approx(20 / (20 + 80 / 4))


def test_certain_ones_stay_certain() -> None:
    assert correct_class_ratio([0.0, 1.0], 7).tolist() == [0.0, 1.0]


@pytest.mark.parametrize("ratio", [0, -1, math.inf, math.nan])
def test_a_ratio_is_a_number_above_0(ratio: float) -> None:
    with pytest.raises(KnowledgeBaseError, match="ratio must be a number above 0"):
        correct_class_ratio(0.5, ratio)
    with pytest.raises(KnowledgeBaseError, match="ratio must be a number above 0"):
        fit_calibration([0.5], [1], ratio=ratio)


@pytest.mark.parametrize("prior", [0.0, 1.0, -0.1, math.nan])
def test_a_prior_is_between_0_and_1(prior: float) -> None:
    with pytest.raises(KnowledgeBaseError, match="prior must be a number, above 0 and below 1"):
        correct_class_ratio(0.5, 1, prior)


# The map


@pytest.mark.parametrize(
    ("warp", "name"),
    [
        (lambda x: x, "as it should be"),
        (lambda x: 2 * x, "too sure"),
        (lambda x: 4 * x, "much too sure"),
        (lambda x: x / 2, "too shy"),
        (lambda x: x / 100, "nearly silent"),
        (lambda x: x + 2, "too high"),
        (lambda x: 3 * x - 3, "too sure and too low"),
    ],
)
def test_a_thousand_tuples_repair_temperature_and_shift(warp: Warp, name: str) -> None:
    errors = [repaired(seed, 1_000, warp) for seed in range(20)]
    # The floor is chance: a straight line fitted to as many tuples, knowing that it is one, has 0.014 on average.
    assert np.mean(errors) <= 0.02, name
    assert np.sort(errors)[-2] <= 0.03, name


@given(st.integers(0, 10_000), st.floats(-1.4, 1.4), st.floats(-3, 3))
@settings(max_examples=30)
def test_any_temperature_and_shift_are_repaired(seed: int, temperature: float, shift: float) -> None:
    assert repaired(seed, 4_000, lambda x: math.exp(temperature) * x + shift) <= 0.03


@pytest.mark.parametrize("warp", [lambda x: x**3 / 4, np.tanh, lambda x: np.where(x > 0, 3 * x, x / 2)])
def test_bent_maps_are_repaired_too(warp: Warp) -> None:
    _, said, targets = synthetic(0, 50_000, warp)
    assert reliability(said, targets).ece > 0.04
    assert np.mean([repaired(seed, 10_000, warp) for seed in range(5)]) <= 0.02


@given(st.integers(0, 10_000))
@settings(max_examples=30)
def test_what_is_calibrated_stays_about_the_same(seed: int) -> None:
    truth, said, targets = synthetic(seed, 4_000, lambda x: x)
    found = fit_calibration(said, targets)
    assert np.abs(found.apply(truth) - truth).mean() <= 0.03


probabilities = st.lists(st.floats(0, 1), min_size=0, max_size=60)


@given(probabilities, st.integers(0, 1_000), st.floats(0.01, 100))
@settings(max_examples=200)
def test_any_input_gives_a_map_that_keeps_the_order_strictly(p: list[float], seed: int, ratio: float) -> None:
    rng = np.random.default_rng(seed)
    said = np.repeat(np.array(p, np.float64), 3)
    found = fit_calibration(said, rng.integers(0, 2, len(said)), ratio=ratio)
    assert (np.diff(found.knots) > 0).all()
    assert (np.diff(found.values) > 0).all()
    grid = np.linspace(0.001, 0.999, 500)
    after = found.apply(grid)
    assert (np.diff(after) > 0).all()
    ends = found.apply([0.0, 1.0])
    assert (ends > 0).all()
    assert (ends < 1).all()
    assert (found.slope(grid) > 0).all()


@given(st.integers(0, 10_000), st.integers(1, 5))
@settings(max_examples=30)
def test_weights_are_repeats(seed: int, most: int) -> None:
    rng = np.random.default_rng(seed)
    _, said, targets = synthetic(seed, 300, lambda x: np.round(2 * x, 1))
    weights = rng.integers(0, most + 1, 300)
    one = fit_calibration(said, targets, weights)
    other = fit_calibration(np.repeat(said, weights), np.repeat(targets, weights))
    assert (one.answer_weight, one.negative_weight, one.fitted) == pytest.approx(
        (other.answer_weight, other.negative_weight, other.fitted)
    )
    np.testing.assert_allclose(one.knots, other.knots, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(one.values, other.values, rtol=1e-6, atol=1e-6)


@given(st.integers(0, 10_000))
@settings(max_examples=20)
def test_the_order_of_tuples_does_not_matter(seed: int) -> None:
    _, said, targets = synthetic(seed, 400, lambda x: 3 * x)
    order = np.random.default_rng(seed).permutation(400)
    one, other = fit_calibration(said, targets), fit_calibration(said[order], targets[order])
    np.testing.assert_array_equal(one.knots, other.knots)
    np.testing.assert_array_equal(one.values, other.values)


def test_a_soft_target_is_a_weighted_pair() -> None:
    _, said, targets = synthetic(3, 500, lambda x: 2 * x)
    soft = 0.1 + 0.8 * targets
    one = fit_calibration(said, soft)
    other = fit_calibration(np.tile(said, 2), np.repeat([1, 0], 500), np.concatenate([soft, 1 - soft]))
    np.testing.assert_allclose(one.values, other.values, atol=1e-9)


@pytest.mark.parametrize(("answers", "others"), [(0, 0), (19, 1_000), (1_000, 19), (0, 50)])
def test_too_few_of_a_class_change_nothing_and_say_so(answers: int, others: int) -> None:
    targets = np.repeat([1, 0], [answers, others])
    found = fit_calibration(np.full(len(targets), 0.9), targets)
    assert not found.fitted
    assert (found.answer_weight, found.negative_weight) == (answers, others)
    np.testing.assert_allclose(found.apply([0.01, 0.5, 0.9]), [0.01, 0.5, 0.9])


def test_too_few_are_still_corrected_for_the_ratio() -> None:
    found = fit_calibration([0.2], [1], ratio=4)
    grid = np.linspace(0.01, 0.99, 50)
    np.testing.assert_allclose(found.apply(grid), correct_class_ratio(grid, 4))


def test_the_ratio_is_part_of_the_map() -> None:
    _, said, targets = synthetic(1, 2_000, lambda x: x - math.log(4))
    with_ratio = fit_calibration(said, targets, ratio=4)
    by_hand = fit_calibration(correct_class_ratio(said, 4), targets)
    np.testing.assert_allclose(with_ratio.apply(said), by_hand.apply(correct_class_ratio(said, 4)), rtol=1e-6)
    assert with_ratio.shift == pytest.approx(math.log(4))


def test_few_tuples_cannot_make_it_wild() -> None:
    # Forty tuples, perfectly parted: a free map would say 0 and 1.
    said = np.concatenate([np.linspace(0.1, 0.4, 20), np.linspace(0.6, 0.9, 20)])
    found = fit_calibration(said, np.repeat([0, 1], 20))
    low, high = found.apply([0.1, 0.9])
    assert 0.0005 < low < 0.1
    assert 0.9 < high < 0.9995


def test_one_outlier_does_not_turn_the_map() -> None:
    _, said, targets = synthetic(2, 1_000, lambda x: x)
    found = fit_calibration(said, targets)
    odd = fit_calibration(np.append(said, 0.0), np.append(targets, 1.0))
    grid = np.linspace(0.05, 0.95, 20)
    assert np.abs(found.apply(grid) - odd.apply(grid)).max() < 0.05


def test_a_shy_model_with_some_certain_answers_keeps_its_order() -> None:
    # The line is so steep here that the certain ones end where floats cannot tell probabilities from 0 and 1.
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(0, 0.3, 4_000), np.repeat([-16, -13, 13, 16], 400)])
    targets = rng.random(len(x)) < logistic(5 * x)
    found = fit_calibration(logistic(x), targets)
    assert (np.diff(found.values) > 0).all()
    assert (np.diff(found.apply(np.linspace(0.4, 0.6, 100))) > 0).all()


@pytest.mark.parametrize("ratio", [0.01, 1, 100])
def test_many_tuples_of_a_shy_model_are_fitted_without_overflow(ratio: float) -> None:
    # A million tuples whose log-odds are a hundredth of what they should be: the first step would be far too long.
    rng = np.random.default_rng(0)
    x = rng.normal(0.014, 0.02, 3_000)
    targets = rng.random(3_000) < logistic(100 * x)
    found = fit_calibration(logistic(x - math.log(ratio)), targets, np.full(3_000, 300.0), ratio=ratio)
    assert np.abs(found.apply(logistic(x - math.log(ratio))) - logistic(100 * x)).mean() < 0.03
    moved = fit_calibration(logistic(x), targets, np.full(3_000, 300.0), ratio=ratio)
    assert np.abs(moved.apply(logistic(x)) - logistic(100 * x)).mean() < 0.03


def test_a_model_that_has_it_backwards_gets_a_nearly_flat_map() -> None:
    _, said, targets = synthetic(5, 1_000, lambda x: -x)
    found = fit_calibration(said, targets)
    low, high = found.apply([0.05, 0.95])
    assert 0.3 < low < high < 0.7


def test_certain_mistakes_are_met_too() -> None:
    found = fit_calibration(np.repeat([0.0, 1.0], 100), np.tile([1, 1, 1, 0], 50))
    low, high = found.apply([0.0, 1.0])
    assert low < high
    assert low == pytest.approx(0.75, abs=0.15)
    assert high == pytest.approx(0.75, abs=0.15)


@given(st.integers(0, 1_000), st.floats(0.02, 0.98))
@settings(max_examples=60)
def test_the_slope_is_the_derivative(seed: int, p: float) -> None:
    _, said, targets = synthetic(seed, 600, lambda x: 2 * x - 1)
    found = fit_calibration(said, targets, ratio=2)
    step = 1e-7
    if (np.abs(log_odds(p) + found.shift - found.knots) < 1e-4).any():
        return  # at a knot it has two
    numeric = (found.apply(p + step) - found.apply(p - step)) / (2 * step)
    assert found.slope(p) == pytest.approx(float(numeric), rel=1e-4)


def test_the_standard_error_is_carried_over_by_the_slope() -> None:
    _, said, targets = synthetic(4, 5_000, lambda x: 2 * x)
    found = fit_calibration(said, targets)
    middle = float(logistic(found.knots[5:7].mean()))
    draws = middle + 0.002 * np.random.default_rng(0).standard_normal(20_000)
    assert found.apply(draws).std() == pytest.approx(float(found.slope(middle)) * 0.002, rel=0.05)


def test_another_prior_moves_the_odds() -> None:
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(1, 1, 3_000), rng.normal(-1, 1, 3_000)])
    found = fit_calibration(logistic(x), np.repeat([1, 0], 3_000))
    p = np.linspace(0.1, 0.9, 9)
    np.testing.assert_allclose(found.with_prior(0.5).apply(p), found.apply(p))
    np.testing.assert_allclose(found.with_prior(0.1).apply(p), correct_class_ratio(found.apply(p), 1, 0.1), rtol=1e-9)
    few = fit_calibration([0.2], [1], ratio=4)
    np.testing.assert_allclose(few.with_prior(0.01).apply(p), correct_class_ratio(p, 4, 0.01), rtol=1e-9)


def test_shapes_are_kept() -> None:
    found = Calibration.identity()
    assert found.apply(0.3).shape == ()
    assert found.apply(np.full((2, 3), 0.3)).shape == (2, 3)
    assert found.slope(np.zeros((0,))).shape == (0,)


@pytest.mark.parametrize("fitted", [True, False])
def test_arrays_hold_all_of_it(fitted: bool) -> None:
    _, said, targets = synthetic(0, 500 if fitted else 5, lambda x: 2 * x)
    found = fit_calibration(said, targets, ratio=3)
    arrays = found.arrays()
    assert {array.dtype for array in arrays.values()} == {np.dtype(np.float64)}
    again = Calibration.from_arrays(arrays)
    assert found.fitted is again.fitted is fitted
    assert (again.shift, again.answer_weight, again.negative_weight) == (
        found.shift,
        found.answer_weight,
        found.negative_weight,
    )
    np.testing.assert_array_equal(again.apply(said), found.apply(said))


@pytest.mark.parametrize(
    "arrays", [{}, {"knots": np.zeros(2)}, Calibration.identity().arrays() | {"rest": np.zeros(3)}]
)
def test_other_arrays_are_refused(arrays: dict[str, npt.NDArray[np.float64]]) -> None:
    with pytest.raises(InputError, match=r"the array .(knots|values|rest). "):
        Calibration.from_arrays(arrays)


@pytest.mark.parametrize("values", [[1.0, 0.0], [0.0, 0.0], [0.0], [0.0, math.nan], [0.0, 1.0, 2.0]])
def test_a_map_that_does_not_rise_is_refused(values: list[float]) -> None:
    with pytest.raises(KnowledgeBaseError, match="ascending numbers"):
        Calibration(np.array([0.0, 1.0]), np.array(values))


# Pieces


def test_log_odds_and_logistic_undo_each_other() -> None:
    x = np.linspace(-30, 30, 1_000)
    np.testing.assert_allclose(log_odds(logistic(x)), x, atol=1e-2)
    assert log_odds([MIN_PROBABILITY, MAX_PROBABILITY]).tolist() == log_odds([0, 1]).tolist()


@given(st.lists(st.tuples(st.floats(-5, 5), st.floats(0.1, 5)), min_size=1, max_size=30))
def test_pooling_is_isotonic_regression(pairs: list[tuple[float, float]]) -> None:
    values, weights = (np.array(column) for column in zip(*pairs, strict=True))
    found, block = fit_isotonic(values, weights)
    np.testing.assert_allclose(found, isotonic_regression(values, sample_weight=weights), atol=1e-9)
    means = found[np.flatnonzero(np.diff(block, prepend=-1))]
    assert (np.diff(means) > 0).all()

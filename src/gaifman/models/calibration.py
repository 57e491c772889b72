"""Calibrated probabilities: of the tuples with probability 0.7, 70 % are answers.

The first step corrects for the class ratio in training. With 4 negatives per answer, an uninformed base model predicts
0.2:

>>> correct_class_ratio(0.2, ratio=4).round(3).tolist()
0.5

The second step fits a monotone map to held-out tuples. This model is overconfident, its log-odds are twice too large:

>>> rng = np.random.default_rng(0)
>>> true = rng.uniform(0.02, 0.98, 2_000)
>>> targets = rng.random(2_000) < true
>>> overconfident = logistic(2 * log_odds(true))
>>> calibration = fit_calibration(overconfident, targets)
>>> calibration.apply([0.05, 0.5, 0.95]).round(2).tolist()  # the true values are 0.19, 0.5 and 0.81
[0.18, 0.51, 0.82]
>>> calibrated = calibration.apply(overconfident)
>>> print(f"{reliability(overconfident, targets).ece:.3f} {reliability(calibrated, targets).ece:.3f}")
0.105 0.022
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gaifman.config import check_fraction, check_positive
from gaifman.errors import InputError, KnowledgeBaseError
from gaifman.kb.tables import Floats

MIN_PROBABILITY, MAX_PROBABILITY = 2.0**-50, 1 - 2.0**-50
"""Probabilities are clipped to this range, so that log-odds are finite."""
MIN_PER_CLASS = 20
"""Minimum number of held-out tuples per class. With fewer, noise outweighs the correction and no map is fitted."""
MAX_BINS = 20
"""Maximum number of quantile bins."""
MIN_PER_BIN = 40
"""Minimum number of tuples per bin."""
MIN_KNOT_GAP = 0.05
"""Minimum distance of neighbouring knots in log-odds. Closer knots would fit noise with steep steps."""
IDENTITY_PRIOR_WEIGHT = 8.0
"""Number of pseudo-tuples that pull the linear map towards the identity."""
MAX_ABS_LOG_ODDS = 16.0
"""The fit clips log-odds to this range, so that one outlier does not bend the whole map."""


def logistic(x: npt.ArrayLike) -> Floats:
    """Return the probabilities of log-odds, without overflow and with full precision near 0.

    >>> logistic([-800.0, 0.0, 800.0]).tolist()
    [0.0, 0.5, 1.0]
    """
    logits = np.asarray(x, np.float64)
    small = np.exp(-np.abs(logits))
    return np.asarray(np.where(logits >= 0, 1.0, small) / (1.0 + small))


def log_odds(p: npt.ArrayLike) -> Floats:
    """Return the log-odds of probabilities, finite also for 0 and 1.

    >>> log_odds([0, 0.5, 1]).round(1).tolist()
    [-34.7, 0.0, 34.7]
    """
    inside = np.clip(np.asarray(p, np.float64), MIN_PROBABILITY, MAX_PROBABILITY)
    return np.asarray(np.log(inside) - np.log1p(-inside))


def correct_class_ratio(p: npt.ArrayLike, ratio: float, prior: float = 0.5) -> Floats:
    """Correct the probabilities of a model that was trained with `ratio` negatives per answer.

    The odds are multiplied by `ratio`. The `prior` is the fraction of tuples that are answers.
    """
    check_positive("ratio", ratio)
    odds, predicted = ratio * _odds(prior), _check_probabilities(p)
    return np.asarray(predicted * odds / (predicted * odds + (1 - predicted)))


def mean_over_draws(per_draw: Floats, ratio: float = 1.0) -> Floats:
    """Return the means of the base model's probabilities over draws, the last axis.

    Draws that see different worlds are corrected for the class ratio before they are averaged, and the mean is turned
    back. An unlikely world in which a tuple is certain then counts as much as it is likely, not `ratio` times as much:

    >>> worlds = np.array([1.0] + [0.0] * 9)
    >>> correct_class_ratio(mean_over_draws(worlds, ratio=5), ratio=5).round(3).tolist()
    0.1
    """
    if ratio == 1:
        return np.asarray(per_draw.mean(axis=-1))
    return correct_class_ratio(correct_class_ratio(per_draw, ratio).mean(axis=-1), 1 / ratio)


@dataclass(frozen=True, slots=True)
class Calibration:
    """A strictly increasing map of probabilities, piecewise linear in log-odds.

    The outermost pieces extend beyond the outermost knots. 0 and 1 are never reached.
    """

    knots: Floats
    """Shape (knots,), float64, ascending, at least 2: log-odds after `shift`."""
    values: Floats
    """Shape (knots,), float64, ascending: the calibrated log-odds."""
    shift: float = 0.0
    """Added to the log-odds first: the logarithm of the number of negatives per answer in training."""
    answer_weight: float = 0.0
    """Total weight of the held-out answers."""
    negative_weight: float = 0.0
    """Total weight of the held-out negatives."""
    fitted: bool = False
    """Whether the map was fitted. With too few held-out tuples only the shift is applied."""

    def __post_init__(self) -> None:
        for name, array in (("knots", self.knots), ("values", self.values)):
            rising = array.ndim == 1 and len(array) > 1 and np.isfinite(array).all() and (np.diff(array) > 0).all()
            if not rising or len(self.values) != len(self.knots):
                raise KnowledgeBaseError(f"{name} of a calibration must be at least two finite, ascending numbers")

    @classmethod
    def identity(cls, shift: float = 0.0, answer_weight: float = 0.0, negative_weight: float = 0.0) -> Calibration:
        """Return a calibration that only applies the shift."""
        return cls(np.array([-1.0, 1.0]), np.array([-1.0, 1.0]), shift, answer_weight, negative_weight)

    def apply(self, p: npt.ArrayLike) -> Floats:
        """Return calibrated probabilities of the same shape, above 0 and below 1."""
        x = log_odds(_check_probabilities(p)) + self.shift
        return np.clip(logistic(self._map(x, self._piece(x))), MIN_PROBABILITY, MAX_PROBABILITY)

    def slope(self, p: npt.ArrayLike) -> Floats:
        """Return the derivative of the calibrated probability: it scales a small standard error."""
        inside = np.clip(_check_probabilities(p), MIN_PROBABILITY, MAX_PROBABILITY)
        x = log_odds(inside) + self.shift
        piece = self._piece(x)
        mapped = logistic(self._map(x, piece))
        return np.asarray(self._slopes()[piece] * (mapped / inside) * ((1 - mapped) / (1 - inside)))

    def with_prior(self, prior: float) -> Calibration:
        """Return the calibration for tuples of which the fraction `prior` are answers."""
        move = float(np.log(_odds(prior))) - float(np.log(_odds(self._base_rate())))
        return Calibration(
            self.knots, self.values + move, self.shift, self.answer_weight, self.negative_weight, self.fitted
        )

    def _base_rate(self) -> float:
        """Return the fraction of answers that the probabilities refer to, 0.5 if nothing was fitted."""
        return self.answer_weight / (self.answer_weight + self.negative_weight) if self.fitted else 0.5

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return float64 arrays by name, for model files."""
        rest = np.array([self.shift, self.answer_weight, self.negative_weight, self.fitted], np.float64)
        return {"knots": self.knots, "values": self.values, "rest": rest}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> Calibration:
        """Load what `arrays` returned."""
        missing = {"knots", "values", "rest"} - set(arrays)
        if missing or np.shape(arrays["rest"]) != (4,):
            raise InputError(f"not the arrays of a calibration: {', '.join(sorted(arrays)) or 'none'}")
        knots, values = (np.array(arrays[name], np.float64) for name in ("knots", "values"))
        shift, answers, others, fitted = np.asarray(arrays["rest"], np.float64).tolist()
        return cls(knots, values, shift, answers, others, bool(fitted))

    def _piece(self, x: Floats) -> npt.NDArray[np.intp]:
        """Return the piece of the map that each value falls on."""
        return np.clip(np.searchsorted(self.knots, x, side="right") - 1, 0, len(self.knots) - 2)

    def _slopes(self) -> Floats:
        return np.asarray(np.diff(self.values) / np.diff(self.knots))

    def _map(self, x: Floats, piece: npt.NDArray[np.intp]) -> Floats:
        return np.asarray(self.values[piece] + self._slopes()[piece] * (x - self.knots[piece]))


def fit_calibration(
    p: npt.ArrayLike, targets: npt.ArrayLike, weights: npt.ArrayLike | None = None, *, ratio: float = 1.0
) -> Calibration:
    """Fit a calibration to the predicted probabilities and targets (0 to 1) of held-out tuples.

    A weight of 2 counts a tuple twice. `ratio` is the number of negatives per answer in training. The calibrated
    probabilities refer to the class ratio of the held-out tuples; `Calibration.with_prior` changes it.
    """
    check_positive("ratio", ratio)
    shift = float(np.log(ratio))
    predicted, labels, mass = _check_arrays(p, targets, weights)
    answers, others = float(mass @ labels), float(mass @ (1 - labels))
    if min(answers, others) < MIN_PER_CLASS:
        return Calibration.identity(shift, answers, others)
    clipped = np.clip(log_odds(predicted) + shift, -MAX_ABS_LOG_ODDS, MAX_ABS_LOG_ODDS)
    x, count, positive = _group_equal(clipped, labels, mass)
    slope, offset = _fit_platt(x, count, positive)
    z = slope * x + offset
    at = _bins(z, count)
    where, bins, hits, expected = (_bin_sums(at, c) for c in (z * count, count, positive, logistic(z) * count))
    # Observed against expected counts, with half a tuple added to each side: a bin that the line explains keeps its
    # value, and an empty side moves it only a little.
    moved = np.log((hits + 0.5) / (expected + 0.5)) - np.log((bins - hits + 0.5) / (bins - expected + 0.5))
    moved *= _shrinkage(hits - expected, _bin_sums(at, logistic(z) * logistic(-z) * count))
    rates, block = fit_isotonic(logistic(where / bins + moved), bins)
    centres = _bin_sums(block, where) / _bin_sums(block, bins)
    # Rates may rise by less than the precision of log-odds: the map rises by at least a thousandth of the line.
    values = np.maximum.accumulate(log_odds(np.unique(rates)) - centres / 1000) + centres / 1000
    knots, values = _extend(centres), _extend(values)
    return Calibration((knots - offset) / slope, values, shift, answers, others, fitted=True)


def fit_isotonic(values: Floats, weights: Floats) -> tuple[Floats, npt.NDArray[np.intp]]:
    """Return the least-squares non-decreasing values and the number of each value's block.

    >>> fitted, block = fit_isotonic(np.array([1.0, 3.0, 2.0, 4.0]), np.ones(4))
    >>> fitted.tolist(), block.tolist()
    ([1.0, 2.5, 2.5, 4.0], [0, 1, 1, 2])

    Pool adjacent violators: neighbouring blocks whose means do not rise are merged.
    """
    blocks: list[tuple[float, float, int]] = []
    for value, weight in zip(values.tolist(), weights.tolist(), strict=True):
        total, mass, size = value * weight, weight, 1
        while blocks and blocks[-1][0] / blocks[-1][1] >= total / mass:
            previous = blocks.pop()
            total, mass, size = total + previous[0], mass + previous[1], size + previous[2]
        blocks.append((total, mass, size))
    sizes = [size for _, _, size in blocks]
    return np.repeat([total / mass for total, mass, _ in blocks], sizes), np.repeat(np.arange(len(blocks)), sizes)


def _fit_platt(x: Floats, count: Floats, positive: Floats) -> tuple[float, float]:
    """Fit the slope, above 0, and the offset of Platt scaling, with a prior towards the identity.

    Gauss-Newton steps on the logarithm of the slope and the offset, halved until the loss falls.
    """
    pseudo = count * (IDENTITY_PRIOR_WEIGHT / count.sum())
    count, positive = count + pseudo, positive + pseudo * logistic(x)

    def loss(at: Floats) -> float:
        z = np.exp(at[0]) * x + at[1]
        return float(count @ np.logaddexp(0, z) - positive @ z + at[0] ** 2 / 2)

    at = np.array([0.0, 0.0])
    for _ in range(100):
        inputs = np.stack([np.exp(at[0]) * x, np.ones(len(x))])
        rate = logistic(inputs[0] + at[1])
        gradient = inputs @ (count * rate - positive) + [at[0], 0]
        curvature = (inputs * (count * rate * (1 - rate) + 1e-9)) @ inputs.T + np.diag([1.0, 0.0])
        step, now = np.linalg.solve(curvature, gradient), loss(at)
        step = step / max(1.0, abs(step[0]))  # the slope changes by a factor of e at most: no overflow
        while np.abs(step).max() > 1e-12 and not loss(at - step) < now:
            step = step / 2
        if np.abs(step).max() <= 1e-12:
            break
        at = at - step
    return float(np.exp(at[0])), float(at[1])


def _bin_sums(at: npt.NDArray[np.intp], numbers: Floats, bins: int = 0) -> Floats:
    """Return the sum of the numbers in each bin."""
    return np.bincount(at, numbers, bins).astype(np.float64)


def _group_equal(x: Floats, targets: Floats, weights: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the distinct values, ascending, the weight of each and the weight of its answers."""
    distinct, at = np.unique(x, return_inverse=True)
    return distinct, _bin_sums(at, weights, len(distinct)), _bin_sums(at, weights * targets, len(distinct))


def _quantile_bins(count: Floats, bins: int) -> npt.NDArray[np.intp]:
    """Return the quantile bin of each sorted value, by weight. Equal values share a bin."""
    middle = np.cumsum(count) - count / 2
    quantile = np.minimum(bins * middle / count.sum(), bins - 1).astype(np.intp)
    return np.unique(quantile, return_inverse=True)[1]


def _bins(z: Floats, count: Floats) -> npt.NDArray[np.intp]:
    """Return the bin of each sorted log-odds value: quantile bins, merged where they are too close."""
    at = _quantile_bins(count, int(np.clip(count.sum() // MIN_PER_BIN, 1, MAX_BINS)))
    sums, masses = _bin_sums(at, z * count), _bin_sums(at, count)
    joined, total, mass = [0], sums[0], masses[0]
    for more, weight in zip(sums[1:], masses[1:], strict=True):
        close = more / weight - total / mass < MIN_KNOT_GAP
        joined.append(joined[-1] + (not close))
        total, mass = (total + more, mass + weight) if close else (more, weight)
    return np.array(joined)[at]


def _shrinkage(differences: Floats, variances: Floats) -> float:
    """Return the James-Stein factor: 0 if the bins deviate from the line by chance only, towards 1 if by more.

    The line uses up two degrees of freedom.
    """
    scatter = float((differences**2 / (variances + 0.5)).sum())
    return max(0.0, 1 - max(len(differences) - 2, 1) / scatter) if scatter > 0 else 0.0


def _extend(inner: Floats) -> Floats:
    """Add a knot at each side, so that the linear map continues beyond."""
    return np.array([inner[0] - 1, *inner, inner[-1] + 1])


@dataclass(frozen=True, slots=True)
class Reliability:
    """Predicted probabilities against observed rates, in bins of equal width."""

    edges: Floats
    """Shape (bins + 1,), float64: the bin edges."""
    counts: Floats
    """Shape (bins,), float64: total weight of the tuples."""
    predicted: Floats
    """Shape (bins,), float64: mean predicted probability; NaN in an empty bin."""
    observed: Floats
    """Shape (bins,), float64: fraction of answers; NaN in an empty bin."""
    ece: float
    """Expected calibration error: the mean of |observed − predicted| over bins, weighted by their tuples."""
    ece_by_count: float
    """The same over quantile bins."""
    brier: float
    """Brier score: mean squared error of the probabilities."""
    log_loss: float
    """Mean cross-entropy in nats; probabilities are clipped to 2.2e-16 from 0 and 1."""

    def __str__(self) -> str:
        lines = ["predicted       tuples    mean   answers"]
        for i in np.flatnonzero(self.counts > 0):
            span = f"{self.edges[i]:.2f} – {self.edges[i + 1]:.2f}"
            lines.append(f"{span}  {self.counts[i]:>9,.10g}   {self.predicted[i]:.3f}     {self.observed[i]:.3f}")
        errors = f"{self.ece:.3f} (bins of equal width), {self.ece_by_count:.3f} (of equal count)"
        lines.append(f"expected calibration error {errors}")
        lines.append(f"Brier score {self.brier:.3f}, log loss {self.log_loss:.3f} nats")
        return "\n".join(lines)


def reliability(
    p: npt.ArrayLike, targets: npt.ArrayLike, weights: npt.ArrayLike | None = None, *, bins: int = 10
) -> Reliability:
    """Compare predicted probabilities with targets: 1 for answers, 0 for others, or between."""
    p, targets, mass = _check_arrays(p, targets, weights)
    if bins < 1 or not mass.sum() > 0:
        raise KnowledgeBaseError(f"reliability needs tuples and at least one bin, got {len(p)} and {bins}")
    edges = np.linspace(0, 1, bins + 1)
    by_width = np.clip(np.searchsorted(edges, p, side="right") - 1, 0, bins - 1)
    counts, predicted, observed = _bin_means(by_width, p, targets, mass, bins)
    distinct, at = np.unique(p, return_inverse=True)
    by_count = _quantile_bins(_bin_sums(at, mass, len(distinct)), bins)[at]
    clipped = np.clip(p, np.finfo(float).eps, 1 - np.finfo(float).eps)
    losses = -(targets * np.log(clipped) + (1 - targets) * np.log1p(-clipped))
    return Reliability(
        edges,
        counts,
        predicted,
        observed,
        _expected_calibration_error(counts, predicted, observed),
        _expected_calibration_error(*_bin_means(by_count, p, targets, mass, bins)),
        float(np.average((p - targets) ** 2, weights=mass)),
        float(np.average(losses, weights=mass)),
    )


def _bin_means(
    at: npt.NDArray[np.intp], p: Floats, targets: Floats, weights: Floats, bins: int
) -> tuple[Floats, Floats, Floats]:
    """Return the weight, mean probability and fraction of answers of each bin."""
    counts = _bin_sums(at, weights, bins)
    divisor = np.where(counts > 0, counts, np.nan)
    return counts, _bin_sums(at, weights * p, bins) / divisor, _bin_sums(at, weights * targets, bins) / divisor


def _expected_calibration_error(counts: Floats, predicted: Floats, observed: Floats) -> float:
    return float(np.nansum(counts * np.abs(observed - predicted)) / counts.sum())


def _check_arrays(
    p: npt.ArrayLike, targets: npt.ArrayLike, weights: npt.ArrayLike | None
) -> tuple[Floats, Floats, Floats]:
    """Return three float64 arrays of one length, without tuples of weight 0."""
    predicted, labels = _check_probabilities(p), _check_probabilities(targets, "targets")
    mass = np.ones(predicted.shape) if weights is None else np.asarray(weights, np.float64)
    if predicted.ndim != 1 or not predicted.shape == labels.shape == mass.shape:
        shapes = f"{predicted.shape}, {labels.shape} and {mass.shape}"
        raise KnowledgeBaseError(f"probabilities, targets and weights must be lists of one length, got shapes {shapes}")
    if not (np.isfinite(mass) & (mass >= 0)).all():
        raise KnowledgeBaseError("weights must be finite and at least 0")
    used = mass > 0
    return predicted[used], labels[used], mass[used]


def _check_probabilities(p: npt.ArrayLike, name: str = "probabilities") -> Floats:
    array = np.asarray(p, np.float64)
    wrong = array[~((array >= 0) & (array <= 1))]  # NaN is wrong too
    if wrong.size:
        raise KnowledgeBaseError(f"{name} must be from 0 to 1, got {wrong.flat[0]}")
    return array


def _odds(prior: float) -> float:
    check_fraction("prior", prior, zero=False, one=False)
    return prior / (1 - prior)


CALIBRATION_FOLDS = 5
"""Cross-validation folds for the reliability after calibration."""


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Predictions for held-out tuples."""

    means: Floats
    """Shape (tuples,), float64: the mean of the base model's probabilities over the draws."""
    targets: Floats
    """Shape (tuples,), float64: 1 for answers (less if they are uncertain), 0 for negatives."""


@dataclass(frozen=True, slots=True)
class HeldOutReport:
    """The quality of a model's probabilities on held-out tuples."""

    held_out: HeldOut
    uncalibrated: Reliability | None
    """None if nothing was held out."""
    calibrated: Reliability | None
    """Cross-validated: each fold is calibrated on the others."""

    @classmethod
    def from_held_out(cls, held_out: HeldOut, ratio: float) -> HeldOutReport:
        """Measure held-out tuples; `ratio` is the number of negatives per answer in training."""
        means, targets = held_out.means, held_out.targets
        if not len(means):
            return cls(held_out, None, None)
        fold, calibrated = np.arange(len(means)) % CALIBRATION_FOLDS, np.empty(len(means))
        for number in range(CALIBRATION_FOLDS):
            own = fold == number
            calibrated[own] = fit_calibration(means[~own], targets[~own], ratio=ratio).apply(means[own])
        return cls(held_out, reliability(means, targets), reliability(calibrated, targets))

    def metrics(self) -> dict[str, Any]:
        """Return the metrics for the model's metadata."""
        if self.uncalibrated is None or self.calibrated is None:
            return {"held_out": 0}
        metrics = {
            "ece_before": self.uncalibrated.ece,
            "ece_after": self.calibrated.ece,
            "brier": self.calibrated.brier,
            "loss": self.calibrated.log_loss,
            "auc": auc(self.held_out.means, self.held_out.targets),
        }
        rounded = {name: None if value is None else round(value, 6) for name, value in metrics.items()}
        prior = round(float(self.held_out.targets.mean()), 6)
        return {"held_out": len(self.held_out.means), "prior": prior, **rounded}

    def reliability_table(self) -> list[dict[str, float]]:
        """Return the reliability after calibration, for the model's metadata."""
        if self.calibrated is None:
            return []
        bins = zip(self.calibrated.predicted, self.calibrated.observed, self.calibrated.counts, strict=True)
        return [
            {"predicted": round(float(p), 6), "observed": round(float(s), 6), "count": float(n)}
            for p, s, n in bins
            if n
        ]


def auc(scores: Floats, targets: Floats) -> float | None:
    """Return the probability that an answer scores above a negative, ties count half; None if a class is missing.

    >>> auc(np.array([0.9, 0.5, 0.5, 0.1]), np.array([1.0, 1.0, 0.0, 0.0]))
    0.875
    """
    positive = scores[targets > 0]
    negative = np.sort(scores[targets == 0])
    if not len(positive) or not len(negative):
        return None
    ranks = np.searchsorted(negative, positive, side="left") + np.searchsorted(negative, positive, side="right")
    return float(ranks.mean() / (2 * len(negative)))

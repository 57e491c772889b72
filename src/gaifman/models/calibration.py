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

numpy's `exp` and `log` differ in the last bit between AVX-512 and others, BLAS sums in another order on each kind of
processor, and the C library has versions with and without fused multiply-add. `exp`, `log`, `log1p` and `add_up` use
only operations that are exact to the last bit everywhere (+, −, ×, ÷, rounding, powers of two), one by one and in a
fixed order:

>>> float(exp(-0.5)), float(log(10.0)), float(log1p(1e-20))
(0.6065306597126334, 2.302585092994046, 1e-20)
>>> add_up(np.array([0.1, 0.2, 0.3]))
0.6000000000000001
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from gaifman.config import check_fraction, check_positive
from gaifman.errors import InputError, KnowledgeBaseError, plural
from gaifman.io.model_file import require_array
from gaifman.kb.tables import Floats

_LN2_HIGH, _LN2_LOW = float.fromhex("0x1.62e42fee00000p-1"), float.fromhex("0x1.a39ef35793c76p-33")
"""log 2 in two parts: an exponent times the first one is exact."""
_PER_LN2 = 1.0 / (_LN2_HIGH + _LN2_LOW)
_EXP_SERIES = tuple(1.0 / math.factorial(n) for n in range(13, -1, -1))
"""Coefficients of exp for |x| ≤ ½ log 2, highest power first; the next term is below 1e-17."""
_LOG_SERIES = tuple(1.0 / (2 * n + 1) for n in range(11, 0, -1))
"""Coefficients of artanh(f) / f − 1 in f² for |f| ≤ 0.172, highest power first; the next term is below 1e-17."""
_SMALLEST, _LARGEST = -746.0, 709.0
"""exp is 0 below the first; the second is the largest argument."""


def exp(x: npt.ArrayLike) -> Floats:
    """Return e to the power of x, at most 709, in the shape of x; NaN stays NaN."""
    given = np.clip(np.asarray(x, np.float64), _SMALLEST, _LARGEST)
    power = np.rint(given * _PER_LN2)
    rest = (given - power * _LN2_HIGH) - power * _LN2_LOW
    series = np.zeros_like(rest)
    for coefficient in _EXP_SERIES:
        series *= rest
        series += coefficient
    with np.errstate(invalid="ignore"):  # NaN has no power
        return np.asarray(np.ldexp(series, power.astype(np.int32)))


def log(x: npt.ArrayLike) -> Floats:
    """Return the natural logarithm of finite numbers above 0, in their shape."""
    fraction, power = np.frexp(np.asarray(x, np.float64))
    low = fraction < np.sqrt(0.5)
    fraction, power = np.where(low, 2.0 * fraction, fraction), power - low
    rest = _log_series((fraction - 1.0) / (fraction + 1.0))
    return np.asarray(power * _LN2_HIGH + (rest + power * _LN2_LOW))


def log1p(x: npt.ArrayLike) -> Floats:
    """Return log(1 + x) of finite numbers above −1, precise near 0."""
    given = np.asarray(x, np.float64)
    near = np.abs(given) < 0.25
    small = np.where(near, given, 0.0)
    return np.where(near, _log_series(small / (2.0 + small)), log(np.where(near, 1.0, 1.0 + given)))


def add_up(numbers: Floats) -> float:
    """Return the sum of an array, added from first to last."""
    return float(np.cumsum(numbers)[-1]) if len(numbers) else 0.0


def _log_series(f: Floats) -> Floats:
    """Return log((1 + f) / (1 − f)) = 2 (f + f³/3 + f⁵/5 + …)."""
    square, series = f * f, np.zeros_like(f)
    for coefficient in _LOG_SERIES:
        series += coefficient
        series *= square
    return np.asarray(2.0 * (f + f * series))


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
MAX_STORED = 1e12
"""Largest number in the arrays of a calibration; one over it is the smallest distance of knots."""
MAX_ABS_LOG_ODDS = 16.0
"""The fit clips log-odds to this range, so that one outlier does not bend the whole map."""


def logistic(x: npt.ArrayLike) -> Floats:
    """Return the probabilities of log-odds, without overflow and with full precision near 0.

    >>> logistic([-800.0, 0.0, 800.0]).tolist()
    [0.0, 0.5, 1.0]
    """
    logits = np.asarray(x, np.float64)
    small = exp(-np.abs(logits))
    return np.asarray(np.where(logits >= 0, 1.0, small) / (1.0 + small))


def log_odds(p: npt.ArrayLike) -> Floats:
    """Return the log-odds of probabilities, finite also for 0 and 1.

    >>> log_odds([0, 0.5, 1]).round(1).tolist()
    [-34.7, 0.0, 34.7]
    """
    inside = np.clip(np.asarray(p, np.float64), MIN_PROBABILITY, MAX_PROBABILITY)
    return np.asarray(log(inside) - log1p(-inside))


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
        move = float(log(_odds(prior))) - float(log(_odds(self.prior)))
        return Calibration(
            self.knots, self.values + move, self.shift, self.answer_weight, self.negative_weight, self.fitted
        )

    @property
    def prior(self) -> float:
        """The fraction of answers that the probabilities refer to, 0.5 if nothing was fitted."""
        return self.answer_weight / (self.answer_weight + self.negative_weight) if self.fitted else 0.5

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return float64 arrays by name, for model files."""
        rest = np.array([self.shift, self.answer_weight, self.negative_weight, self.fitted], np.float64)
        return {"knots": self.knots, "values": self.values, "rest": rest}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> Calibration:
        """Load what `arrays` returned."""
        knots, values = (require_array(arrays, name, np.float64, (None,)) for name in ("knots", "values"))
        rest = require_array(arrays, "rest", np.float64, (4,))
        shift, answers, others, fitted = rest.tolist()
        largest = np.abs(np.concatenate([knots, values, rest])).max()
        if min(answers, others) < 0 or fitted not in (0, 1) or (fitted and not min(answers, others) > 0):
            raise InputError("the weights of a calibration must be at least 0, and above 0 if it was fitted")
        found = cls(knots, values, shift, answers, others, bool(fitted))
        if largest > MAX_STORED or np.diff(knots).min() < 1 / MAX_STORED:
            raise InputError(f"the numbers of a calibration must be below {MAX_STORED:g}, and its knots apart")
        return found

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
    shift = float(log(ratio))
    predicted, labels, mass = _check_arrays(p, targets, weights)
    answers, others = add_up(mass * labels), add_up(mass * (1 - labels))
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
    moved = log((hits + 0.5) / (expected + 0.5)) - log((bins - hits + 0.5) / (bins - expected + 0.5))
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


def fit_platt(x: Floats, targets: Floats, weights: Floats) -> tuple[float, float]:
    """Fit the slope and the offset of log-odds `slope * x + offset` to targets (0 to 1), with weights."""
    return _fit_platt(x, weights, weights * targets)


def fit_temperature(x: Floats, targets: Floats, weights: Floats) -> float:
    """Fit the slope, between e⁻⁵ and e⁵, of log-odds `slope * x` to targets (0 to 1), by golden sections.

    >>> x = np.array([2.0, 2.0, -2.0, -2.0])
    >>> slope = fit_temperature(x, np.array([0.75, 0.75, 0.25, 0.25]), np.ones(4))
    >>> round(slope * 2, 3) == round(float(np.log(3)), 3)
    True
    """

    def loss(at: float) -> float:
        z = float(np.exp(at)) * x
        return add_up(weights * (np.maximum(z, 0.0) + log1p(exp(-np.abs(z))) - targets * z))

    low, high, ratio = -5.0, 5.0, (5**0.5 - 1) / 2
    for _ in range(50):
        left, right = high - ratio * (high - low), low + ratio * (high - low)
        low, high = (low, right) if loss(left) < loss(right) else (left, high)
    return float(np.exp((low + high) / 2))


def _fit_platt(x: Floats, count: Floats, positive: Floats) -> tuple[float, float]:
    """Fit the slope, above 0, and the offset of Platt scaling, with a prior towards the identity.

    Gauss-Newton steps on the logarithm of the slope and the offset, halved until the loss falls.
    """
    pseudo = count * (IDENTITY_PRIOR_WEIGHT / add_up(count))
    count, positive = count + pseudo, positive + pseudo * logistic(x)

    def loss(at: Floats) -> float:
        z = exp(at[0]) * x + at[1]
        return add_up(count * (np.maximum(z, 0.0) + log1p(exp(-np.abs(z)))) - positive * z) + float(at[0]) ** 2 / 2

    at = np.array([0.0, 0.0])
    for _ in range(100):
        step, now = _platt_step(at, x, count, positive), loss(at)
        step = step / max(1.0, abs(step[0]))  # the slope changes by a factor of e at most: no overflow
        while np.abs(step).max() > 1e-12 and not loss(at - step) < now:
            step = step / 2
        if np.abs(step).max() <= 1e-12:
            break
        at = at - step
    return float(exp(at[0])), float(at[1])


def _platt_step(at: Floats, x: Floats, count: Floats, positive: Floats) -> Floats:
    """Return the Gauss-Newton step (2,) at the logarithm of the slope and the offset."""
    scaled = exp(at[0]) * x
    rate = logistic(scaled + at[1])
    difference, weight = count * rate - positive, count * rate * (1 - rate) + 1e-9
    first, second = add_up(scaled * difference) + float(at[0]), add_up(difference)
    a, b, c = add_up(scaled * scaled * weight) + 1.0, add_up(scaled * weight), add_up(weight)
    determinant = a * c - b * b
    return np.array([c * first - b * second, a * second - b * first]) / determinant


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
    quantile = np.minimum(bins * middle / add_up(count), bins - 1).astype(np.intp)
    return np.unique(quantile, return_inverse=True)[1]


def _bins(z: Floats, count: Floats) -> npt.NDArray[np.intp]:
    """Return the bin of each sorted log-odds value: quantile bins, merged where they are too close."""
    at = _quantile_bins(count, int(np.clip(add_up(count) // MIN_PER_BIN, 1, MAX_BINS)))
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
    scatter = add_up(differences * differences / (variances + 0.5))
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
    if bins < 1 or not add_up(mass) > 0:
        raise KnowledgeBaseError(f"reliability needs tuples and at least one bin, got {len(p)} and {bins}")
    edges = np.linspace(0, 1, bins + 1)
    by_width = np.clip(np.searchsorted(edges, p, side="right") - 1, 0, bins - 1)
    counts, predicted, observed = _bin_means(by_width, p, targets, mass, bins)
    distinct, at = np.unique(p, return_inverse=True)
    by_count = _quantile_bins(_bin_sums(at, mass, len(distinct)), bins)[at]
    clipped = np.clip(p, np.finfo(float).eps, 1 - np.finfo(float).eps)
    losses = -(targets * log(clipped) + (1 - targets) * log1p(-clipped))
    return Reliability(
        edges,
        counts,
        predicted,
        observed,
        _expected_calibration_error(counts, predicted, observed),
        _expected_calibration_error(*_bin_means(by_count, p, targets, mass, bins)),
        add_up(mass * (p - targets) * (p - targets)) / add_up(mass),
        add_up(mass * losses) / add_up(mass),
    )


def missing_reliability(p: Floats, facts: Floats, candidates: Floats, *, bins: int = 10) -> Reliability:
    """Compare the probabilities of candidates with the number of missing facts among them.

    `candidates` are the weights of candidates, 0 for missing facts, and `facts` those of missing facts, 0 for
    candidates. The missing facts are among the candidates; which ones they are is not known.

    >>> table = missing_reliability(np.array([0.5, 0.5, 0.4]), np.array([0.0, 0, 4]), np.array([5.0, 5, 0]))
    >>> float(table.observed[4]), float(table.observed[5])
    (nan, 0.0)
    """
    edges = np.linspace(0, 1, bins + 1)
    by_width = np.clip(np.searchsorted(edges, p, side="right") - 1, 0, bins - 1)
    distinct, at = np.unique(p, return_inverse=True)
    by_count = _quantile_bins(_bin_sums(at, candidates + facts, len(distinct)), bins)[at]
    tables = [_missing_bins(number, p, facts, candidates, bins) for number in (by_width, by_count)]
    total, inside = add_up(candidates), np.clip(p, np.finfo(float).eps, 1 - np.finfo(float).eps)
    squares = candidates * p * p + facts * (1 - 2 * p)  # (1 − p)² instead of p² for as many candidates as facts
    losses = -candidates * log1p(-inside) - facts * log_odds(inside)
    return Reliability(
        edges,
        *tables[0],
        _expected_calibration_error(*tables[0]),
        _expected_calibration_error(*tables[1]),
        max(0.0, add_up(squares) / total),
        max(0.0, add_up(losses) / total),
    )


def _missing_bins(
    at: npt.NDArray[np.intp], p: Floats, facts: Floats, candidates: Floats, bins: int
) -> tuple[Floats, Floats, Floats]:
    """Return the candidates of each bin, their mean probability, and the share of missing facts, which is at most 1."""
    counts = _bin_sums(at, candidates, bins)
    divisor = np.where(counts > 0, counts, np.nan)
    found = np.minimum(_bin_sums(at, facts, bins) / divisor, 1.0)
    return counts, _bin_sums(at, candidates * p, bins) / divisor, found


def _bin_means(
    at: npt.NDArray[np.intp], p: Floats, targets: Floats, weights: Floats, bins: int
) -> tuple[Floats, Floats, Floats]:
    """Return the weight, mean probability and fraction of answers of each bin."""
    counts = _bin_sums(at, weights, bins)
    divisor = np.where(counts > 0, counts, np.nan)
    return counts, _bin_sums(at, weights * p, bins) / divisor, _bin_sums(at, weights * targets, bins) / divisor


def _expected_calibration_error(counts: Floats, predicted: Floats, observed: Floats) -> float:
    used = counts > 0
    return add_up((counts * np.abs(observed - predicted))[used]) / add_up(counts)


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
MIN_ANSWERS_FOR_FIGURES = 10
"""With fewer held-out answers no figure is claimed: that of a guess would often be 0.2 away from its true value."""
MIN_SURPLUS = 3.0
"""Surplus of expected true negatives, beyond what the scores allow, that is reported; a smaller one may be chance."""
MAX_TRUE_SHARE = 0.95
"""Largest share of true tuples among negatives that is corrected for: beyond it there is nothing left to compare."""


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Predictions for held-out tuples."""

    means: Floats
    """Shape (tuples,), float64: the mean of the base model's probabilities over the draws."""
    targets: Floats
    """Shape (tuples,), float64: 1 for answers (less if they are uncertain), 0 for negatives."""
    true_shares: Floats | None = None
    """Shape (tuples,), float64: the probability that a negative is true, before it is scored; 0 for answers. None if
    all negatives are taken to be false."""
    facts: int | None = None
    """Number of different facts that are hidden from the answers; None if each answer has one of its own."""

    @property
    def expected_share(self) -> float:
        """The share of the negatives that are expected to be true."""
        negatives = self.targets == 0
        return 0.0 if self.true_shares is None or not negatives.any() else _mean(self.true_shares[negatives])

    @property
    def true_share(self) -> float:
        """The expected share, but no more than the scores allow: true negatives are scored as answers are.

        If a share e of the negatives were true, the AUC could be 1 - e / 2 at most.
        """
        area = auc(self.means, self.targets)
        return 0.0 if area is None else max(0.0, min(self.expected_share, 2 * (1 - area), MAX_TRUE_SHARE))

    def fit_calibration(self, ratio: float, rows: npt.NDArray[np.bool_] | None = None) -> Calibration:
        """Fit a calibration to all tuples or some; `ratio` is the number of negatives per answer in training.

        If some negatives are true, the calibrated probabilities are those of being true, among as many true as false
        tuples as there are answers and negatives.
        """
        rows = np.ones(len(self.means), bool) if rows is None else rows
        means, targets = self.means[rows], self.targets[rows]
        found = fit_calibration(means, targets, ratio=ratio)
        share = self.true_share
        if not share or self.true_shares is None or not found.fitted:
            return found
        truth = correct_targets(found.apply(means), targets, self.true_shares[rows] * (share / self.expected_share))
        true = fit_calibration(means, truth, ratio=ratio).with_prior(found.prior)
        return replace(true, answer_weight=found.answer_weight, negative_weight=found.negative_weight)


def correct_targets(p: Floats, targets: Floats, true_shares: Floats) -> Floats:
    """Return the probability that each tuple is true: of an answer its target, of a negative more than 0.

    The negatives are a mixture: a share e of them is true and scored as answers are, with density f1, the others have
    density f0. The calibrated probabilities p give the ratio l of f1 to the density of the mixture, and so
    f1 / f0 = (1 - e) l / (1 - e l). A negative that is true with probability e_i before it is scored is true with odds
    e_i / (1 - e_i) · f1 / f0 after.

    >>> correct_targets(np.array([0.9, 0.9, 0.5, 0.1]), np.array([1.0, 0, 1, 0]), np.array([0, 0.1, 0, 0.1])).round(2)
    array([1.  , 0.9 , 1.  , 0.01])
    """
    negatives = targets == 0
    share = min(_mean(true_shares[negatives]), MAX_TRUE_SHARE) if negatives.any() else 0.0
    prior = _mean(targets)
    mixture = p / (1 - p) * (1 - prior) / prior
    ratio = (1 - share) * mixture / np.maximum(1 - share * mixture, 1e-9)
    own = np.minimum(true_shares, MAX_TRUE_SHARE)
    return np.where(negatives, own * ratio / (1 - own + own * ratio), targets)


def _mean(values: Floats) -> float:
    """Return the mean, added up in order."""
    return add_up(values) / len(values)


def correct_auc(area: float, true_share: float) -> float:
    """Return the AUC against false tuples, if a share of the negatives are true and scored as the answers are.

    Against true tuples it would be ½: area = (1 - share) · corrected + share / 2.

    >>> round(correct_auc(0.85, 0.2), 4)
    0.9375
    """
    return min(1.0, max(0.0, (area - true_share / 2) / (1 - true_share)))


def correct_reliability(p: Floats, targets: Floats, true_share: float, *, bins: int = 10) -> Reliability:
    """Compare probabilities with the truth, if a share of the negatives are true and scored as the answers are.

    The distribution of false tuples is that of the negatives minus that of the answers, in this proportion:
    f0 = (g - share · f1) / (1 - share). A bin has at least 0 false tuples.
    """
    answers = targets > 0
    per_answer = float((~answers).sum()) / max(1, int(answers.sum()))
    weights = np.where(answers, -true_share * per_answer, 1.0) / (1 - true_share)  # of being a false tuple
    edges = np.linspace(0, 1, bins + 1)
    distinct, at = np.unique(p, return_inverse=True)
    by_width = np.clip(np.searchsorted(edges, p, side="right") - 1, 0, bins - 1)
    by_count = _quantile_bins(_bin_sums(at, np.ones(len(p)), len(distinct)), bins)[at]
    parts = [_true_and_false(number, p, targets, weights, bins) for number in (by_width, by_count)]
    true, false = np.where(answers, targets, 0.0), np.where(answers, 1 - targets, 0.0) + weights
    inside = np.clip(p, np.finfo(float).eps, 1 - np.finfo(float).eps)
    return Reliability(
        edges,
        *parts[0],
        _expected_calibration_error(*parts[0]),
        _expected_calibration_error(*parts[1]),
        max(0.0, add_up(true * (1 - p) ** 2 + false * p**2) / len(p)),
        max(0.0, -add_up(true * log(inside) + false * log1p(-inside)) / len(p)),
    )


def _true_and_false(
    at: npt.NDArray[np.intp], p: Floats, targets: Floats, weights: Floats, bins: int
) -> tuple[Floats, Floats, Floats]:
    """Return the expected number of tuples, the mean probability and the fraction of true ones of each bin."""
    true = _bin_sums(at, targets, bins)
    false = np.maximum(_bin_sums(at, np.where(targets > 0, 1 - targets, 0.0) + weights, bins), 0.0)
    tuples = _bin_sums(at, np.ones(len(p)), bins)
    counts = np.where(tuples > 0, true + false, 0.0)
    divisor = np.where(counts > 0, counts, np.nan)
    return counts, _bin_sums(at, p, bins) / np.where(tuples > 0, tuples, np.nan), true / divisor


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
            calibrated[own] = held_out.fit_calibration(ratio, ~own).apply(means[own])
        share = held_out.true_share
        measured = correct_reliability(calibrated, targets, share) if share else reliability(calibrated, targets)
        return cls(held_out, reliability(means, targets), measured)

    def metrics(self, answers: int) -> dict[str, Any]:
        """Return the metrics for the model's metadata, given the number of all answers; None if there is a reason."""
        found, names = auc_metrics(self.held_out, answers), ("ece_before", "ece_after", "brier", "loss")
        if "auc_reason" in found or self.uncalibrated is None or self.calibrated is None:
            return {"prior": None, **dict.fromkeys(names), **found}
        values = self.uncalibrated.ece, self.calibrated.ece, self.calibrated.brier, self.calibrated.log_loss
        rounded = {name: round(value, 6) for name, value in zip(names, values, strict=True)}
        prior = round(add_up(self.held_out.targets) / len(self.held_out.targets), 6)
        return {"prior": prior, **rounded, **found}

    def reliability_table(self) -> list[dict[str, float]]:
        """Return the reliability after calibration, for the model's metadata; nothing if no figure is claimed."""
        if self.calibrated is None or no_figure_reason(self.held_out, MIN_ANSWERS_FOR_FIGURES):
            return []
        bins = zip(self.calibrated.predicted, self.calibrated.observed, self.calibrated.counts, strict=True)
        return [
            {"predicted": round(float(p), 6), "observed": round(float(s), 6), "count": round(float(n), 6)}
            for p, s, n in bins
            if n
        ]


def auc_metrics(held_out: HeldOut, answers: int) -> dict[str, Any]:
    """Return the number of held-out tuples and the AUC, given the number of all answers; None with a reason."""
    reason, share = no_figure_reason(held_out, answers), held_out.true_share
    area = None if reason else auc(held_out.means, held_out.targets)
    found: dict[str, Any] = {"held_out": len(held_out.means), "auc": None if area is None else round(area, 6)}
    if held_out.true_shares is not None:
        corrected = None if area is None else round(correct_auc(area, share), 6)
        found |= {"true_negatives": round(held_out.expected_share, 6), "auc_corrected": corrected}
        surplus = (held_out.expected_share - share) * int((held_out.targets == 0).sum())
        if not reason and surplus >= MIN_SURPLUS:
            found["missing_reason"] = f"at most {share:.3g} of the negatives can be true, by their scores"
    return found | ({"auc_reason": reason} if reason else {})


def no_figure_reason(held_out: HeldOut, answers: int) -> str | None:
    """Return in words why nothing can be claimed about a model with this many answers, or None.

    >>> no_figure_reason(HeldOut(np.zeros(0), np.zeros(0)), answers=1)
    'a single answer: none can be held out'
    >>> no_figure_reason(HeldOut(np.zeros(6), np.repeat([1.0, 0.0], 3)), answers=30)
    '3 held-out answers: at least 10 are needed for a figure'
    >>> no_figure_reason(HeldOut(np.zeros(40), np.repeat([1.0, 0.0], 20), facts=2), answers=200)
    '20 held-out answers depend on 2 hidden facts: at least 10 are needed for a figure'
    """
    positive = int((held_out.targets > 0).sum())
    if answers == 1:
        return "a single answer: none can be held out"
    if not positive:
        return f"none of {answers:,} answers was held out"
    if positive < MIN_ANSWERS_FOR_FIGURES:
        return f"{plural(positive, 'held-out answer')}: at least {MIN_ANSWERS_FOR_FIGURES} are needed for a figure"
    if held_out.facts is not None and held_out.facts < MIN_ANSWERS_FOR_FIGURES:
        few = f"{positive:,} held-out answers depend on {plural(held_out.facts, 'hidden fact')}"
        return f"{few}: at least {MIN_ANSWERS_FOR_FIGURES} are needed for a figure"
    return None if positive < len(held_out.targets) else "no negatives: every tuple is known"


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

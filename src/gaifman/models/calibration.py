"""Probabilities that mean what they say: of the tuples that get 0.7, seven in ten are answers.

First what training saw is put right: with 4 corruptions for each answer a base model says 0.2 where it knows nothing.

>>> correct_class_ratio(0.2, ratio=4).round(3).tolist()
0.5

Then a monotone map is fitted to held-out tuples. Here a model is too sure of itself, its log-odds are twice what they
should be:

>>> rng = np.random.default_rng(0)
>>> honest = rng.uniform(0.02, 0.98, 2_000)
>>> targets = rng.random(2_000) < honest
>>> boasting = logistic(2 * log_odds(honest))
>>> found = fit_calibration(boasting, targets)
>>> found.apply([0.05, 0.5, 0.95]).round(2).tolist()  # should be 0.19, 0.5 and 0.81
[0.18, 0.51, 0.82]
>>> print(f"{reliability(boasting, targets).error:.3f} {reliability(found.apply(boasting), targets).error:.3f}")
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
"""What stands for 0 and 1, whose log-odds are infinite, and for what is nearer to them: no data can tell them apart."""
MIN_PER_CLASS = 20
"""Held-out tuples of a class below which no map is fitted: their noise would be larger than what it could mend."""
MAX_BINS = 20
"""Quantile bins at most."""
MIN_PER_BIN = 40
"""Tuples in a bin at least: fewer bins where there are fewer tuples."""
MIN_KNOT_GAP = 0.05
"""Log-odds between neighbouring knots at least: nearer ones would make cliffs out of noise."""
IDENTITY_PRIOR_WEIGHT = 8.0
"""Tuples of which the straight map is told, besides those held out, that the model is right."""
MAX_ABS_LOG_ODDS = 16.0
"""Log-odds beyond which the fit looks at a tuple as if it stood there: one outlier must not turn the whole map."""


def logistic(x: npt.ArrayLike) -> Floats:
    """Probabilities of log-odds, without overflow; small ones keep all their digits.

    >>> logistic([-800.0, 0.0, 800.0]).tolist()
    [0.0, 0.5, 1.0]
    """
    logits = np.asarray(x, np.float64)
    small = np.exp(-np.abs(logits))
    return np.asarray(np.where(logits >= 0, 1.0, small) / (1.0 + small))


def log_odds(p: npt.ArrayLike) -> Floats:
    """Log-odds of probabilities, finite also for 0 and 1.

    >>> log_odds([0, 0.5, 1]).round(1).tolist()
    [-34.7, 0.0, 34.7]
    """
    inside = np.clip(np.asarray(p, np.float64), MIN_PROBABILITY, MAX_PROBABILITY)
    return np.asarray(np.log(inside) - np.log1p(-inside))


def correct_class_ratio(p: npt.ArrayLike, ratio: float, prior: float = 0.5) -> Floats:
    """Probabilities among as many corruptions as answers, of a model that saw `ratio` corruptions for each answer.

    The odds are multiplied by `ratio`. Where one tuple in a hundred is an answer, `prior` is 0.01.
    """
    odds = _check_positive(ratio, "ratio") * _odds(prior)
    said = _check_probabilities(p)
    return np.asarray(said * odds / (said * odds + (1 - said)))


@dataclass(frozen=True, slots=True)
class Calibration:
    """A strictly increasing map of probabilities: linear between knots on the scale of log-odds.

    Beyond the outermost knots the outermost pieces go on; 0 and 1 are never reached.
    """

    knots: Floats
    """Shape (2 or more,), float64, ascending: log-odds, after `shift`."""
    values: Floats
    """Shape as knots, float64, ascending: the log-odds they are mapped to."""
    shift: float = 0.0
    """Added to the log-odds of a probability first: the logarithm of the corruptions that training saw per answer."""
    answer_weight: float = 0.0
    """Weight of the held-out answers it was fitted to."""
    negative_weight: float = 0.0
    """Weight of the held-out tuples that are no answers."""
    fitted: bool = False
    """Whether it was fitted. If not, there were too few held-out tuples of a class, and only the shift is applied."""

    def __post_init__(self) -> None:
        for name, array in (("knots", self.knots), ("values", self.values)):
            rising = array.ndim == 1 and len(array) > 1 and np.isfinite(array).all() and (np.diff(array) > 0).all()
            if not rising or len(self.values) != len(self.knots):
                raise KnowledgeBaseError(f"{name} of a calibration are two or more finite numbers that rise")

    @classmethod
    def identity(cls, shift: float = 0.0, answer_weight: float = 0.0, negative_weight: float = 0.0) -> Calibration:
        """The map that changes nothing but the shift."""
        return cls(np.array([-1.0, 1.0]), np.array([-1.0, 1.0]), shift, answer_weight, negative_weight)

    def apply(self, p: npt.ArrayLike) -> Floats:
        """Calibrated probabilities, of the shape of `p`: above 0 and below 1."""
        x = log_odds(_check_probabilities(p)) + self.shift
        return np.clip(logistic(self._mapped(x, self._piece(x))), MIN_PROBABILITY, MAX_PROBABILITY)

    def slope(self, p: npt.ArrayLike) -> Floats:
        """By how much the calibrated probability changes with `p`: a small standard error times this is its own."""
        inside = np.clip(_check_probabilities(p), MIN_PROBABILITY, MAX_PROBABILITY)
        x = log_odds(inside) + self.shift
        piece = self._piece(x)
        mapped = logistic(self._mapped(x, piece))
        return np.asarray(self._slopes()[piece] * (mapped / inside) * ((1 - mapped) / (1 - inside)))

    def with_prior(self, prior: float) -> Calibration:
        """The same where this share of the tuples are answers, and not the share held out."""
        move = float(np.log(_odds(prior))) - float(np.log(_odds(self._base_rate())))
        return Calibration(
            self.knots, self.values + move, self.shift, self.answer_weight, self.negative_weight, self.fitted
        )

    def _base_rate(self) -> float:
        """Of answers among the tuples the probabilities are of: one in two where it was not fitted."""
        return self.answer_weight / (self.answer_weight + self.negative_weight) if self.fitted else 0.5

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """All of it as float64 arrays by name, for files."""
        rest = np.array([self.shift, self.answer_weight, self.negative_weight, self.fitted], np.float64)
        return {"knots": self.knots, "values": self.values, "rest": rest}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> Calibration:
        """What `arrays` gave."""
        missing = {"knots", "values", "rest"} - set(arrays)
        if missing or np.shape(arrays["rest"]) != (4,):
            raise InputError(f"these are not the arrays of a calibration: {', '.join(sorted(arrays)) or 'none'}")
        knots, values = (np.array(arrays[name], np.float64) for name in ("knots", "values"))
        shift, answers, others, fitted = np.asarray(arrays["rest"], np.float64).tolist()
        return cls(knots, values, shift, answers, others, bool(fitted))

    def _piece(self, x: Floats) -> npt.NDArray[np.intp]:
        """Which piece each of some log-odds lies on."""
        return np.clip(np.searchsorted(self.knots, x, side="right") - 1, 0, len(self.knots) - 2)

    def _slopes(self) -> Floats:
        return np.asarray(np.diff(self.values) / np.diff(self.knots))

    def _mapped(self, x: Floats, piece: npt.NDArray[np.intp]) -> Floats:
        return np.asarray(self.values[piece] + self._slopes()[piece] * (x - self.knots[piece]))


def fit_calibration(
    p: npt.ArrayLike, targets: npt.ArrayLike, weights: npt.ArrayLike | None = None, *, ratio: float = 1.0
) -> Calibration:
    """A calibration from held-out tuples: what a model says of each, and whether it is an answer (0 to 1).

    A weight of 2 is the same as the tuple twice. `ratio` is that of `correct_class_ratio`, which is then part of the map. The
    calibrated probabilities are those among tuples as they were held out; `Calibration.at` moves them elsewhere.
    """
    shift = float(np.log(_check_positive(ratio, "ratio")))
    said, so, mass = _check_arrays(p, targets, weights)
    answers, others = float(mass @ so), float(mass @ (1 - so))
    if min(answers, others) < MIN_PER_CLASS:
        return Calibration.identity(shift, answers, others)
    x, count, positive = _group_equal(np.clip(log_odds(said) + shift, -MAX_ABS_LOG_ODDS, MAX_ABS_LOG_ODDS), so, mass)
    steep, offset = _fit_platt(x, count, positive)
    z = steep * x + offset
    at = _bins(z, count)
    where, bins, hits, expected = (_bin_sums(at, c) for c in (z * count, count, positive, logistic(z) * count))
    # What was found against what the line expected, half a tuple added to either side: a bin whose count the line
    # explains keeps the line's value, and an empty side of a bin moves it by little.
    moved = np.log((hits + 0.5) / (expected + 0.5)) - np.log((bins - hits + 0.5) / (bins - expected + 0.5))
    moved *= _shrinkage(hits - expected, _bin_sums(at, logistic(z) * logistic(-z) * count))
    shares, block = fit_isotonic(logistic(where / bins + moved), bins)
    centres = _bin_sums(block, where) / _bin_sums(block, bins)
    # Shares may rise by less than a float of log-odds can hold: the map rises by a thousandth of the line at least.
    values = np.maximum.accumulate(log_odds(np.unique(shares)) - centres / 1000) + centres / 1000
    knots, values = _extend(centres), _extend(values)
    return Calibration((knots - offset) / steep, values, shift, answers, others, fitted=True)


def fit_isotonic(values: Floats, weights: Floats) -> tuple[Floats, npt.NDArray[np.intp]]:
    """The nearest values, by weighted squares, that never fall; and the number of the block each belongs to.

    >>> fitted, block = fit_isotonic(np.array([1.0, 3.0, 2.0, 4.0]), np.ones(4))
    >>> fitted.tolist(), block.tolist()
    ([1.0, 2.5, 2.5, 4.0], [0, 1, 1, 2])

    Pool adjacent violators: blocks whose means do not rise become one.
    """
    blocks: list[tuple[float, float, int]] = []
    for value, weight in zip(values.tolist(), weights.tolist(), strict=True):
        total, mass, size = value * weight, weight, 1
        while blocks and blocks[-1][0] / blocks[-1][1] >= total / mass:
            before = blocks.pop()
            total, mass, size = total + before[0], mass + before[1], size + before[2]
        blocks.append((total, mass, size))
    sizes = [size for _, _, size in blocks]
    return np.repeat([total / mass for total, mass, _ in blocks], sizes), np.repeat(np.arange(len(blocks)), sizes)


def _fit_platt(x: Floats, count: Floats, positive: Floats) -> tuple[float, float]:
    """The slope, above 0, and the offset of the straight map that fits best: Platt's, with a prior for no change.

    Gauss and Newton's steps on the logarithm of the slope and the offset, halved until the loss falls.
    """
    imagined = count * (IDENTITY_PRIOR_WEIGHT / count.sum())
    count, positive = count + imagined, positive + imagined * logistic(x)

    def loss(at: Floats) -> float:
        z = np.exp(at[0]) * x + at[1]
        return float(count @ np.logaddexp(0, z) - positive @ z + at[0] ** 2 / 2)

    at = np.array([0.0, 0.0])
    for _ in range(100):
        inputs = np.stack([np.exp(at[0]) * x, np.ones(len(x))])
        share = logistic(inputs[0] + at[1])
        gradient = inputs @ (count * share - positive) + [at[0], 0]
        curvature = (inputs * (count * share * (1 - share) + 1e-9)) @ inputs.T + np.diag([1.0, 0.0])
        step, now = np.linalg.solve(curvature, gradient), loss(at)
        step = step / max(1.0, abs(step[0]))  # the slope changes at most by a factor of e, and does not overflow
        while np.abs(step).max() > 1e-12 and not loss(at - step) < now:
            step = step / 2
        if np.abs(step).max() <= 1e-12:
            break
        at = at - step
    return float(np.exp(at[0])), float(at[1])


def _bin_sums(at: npt.NDArray[np.intp], numbers: Floats, bins: int = 0) -> Floats:
    """The sum of the numbers in each bin."""
    return np.bincount(at, numbers, bins).astype(np.float64)


def _group_equal(x: Floats, targets: Floats, weights: Floats) -> tuple[Floats, Floats, Floats]:
    """The different values, ascending, the weight of each and that of its answers."""
    different, at = np.unique(x, return_inverse=True)
    return different, _bin_sums(at, weights, len(different)), _bin_sums(at, weights * targets, len(different))


def _quantile_bins(count: Floats, bins: int) -> npt.NDArray[np.intp]:
    """The number of the quantile bin of each of some sorted values: by weight, equal values never parted."""
    middle = np.cumsum(count) - count / 2
    wanted = np.minimum(bins * middle / count.sum(), bins - 1).astype(np.intp)
    return np.unique(wanted, return_inverse=True)[1]


def _bins(z: Floats, count: Floats) -> npt.NDArray[np.intp]:
    """The number of the bin of each of some sorted log-odds: quantiles, but such as are too near made one."""
    at = _quantile_bins(count, int(np.clip(count.sum() // MIN_PER_BIN, 1, MAX_BINS)))
    sums, masses = _bin_sums(at, z * count), _bin_sums(at, count)
    joined, total, mass = [0], sums[0], masses[0]
    for more, weight in zip(sums[1:], masses[1:], strict=True):
        near = more / weight - total / mass < MIN_KNOT_GAP
        joined.append(joined[-1] + (not near))
        total, mass = (total + more, mass + weight) if near else (more, weight)
    return np.array(joined)[at]


def _shrinkage(differences: Floats, variances: Floats) -> float:
    """0 where bins differ from the line as chance alone would have it, towards 1 the more they do: James and Stein's.

    The line has taken two of the bins' freedoms.
    """
    scatter = float((differences**2 / (variances + 0.5)).sum())
    return max(0.0, 1 - max(len(differences) - 2, 1) / scatter) if scatter > 0 else 0.0


def _extend(inner: Floats) -> Floats:
    """One more at each side, so far away that the straight map goes on beyond."""
    return np.array([inner[0] - 1, *inner, inner[-1] + 1])


@dataclass(frozen=True, slots=True)
class Reliability:
    """How far probabilities can be believed: what was said beside what was so, in bins of equal width."""

    edges: Floats
    """Shape (bins + 1,), float64: where the bins begin and end."""
    counts: Floats
    """Shape (bins,), float64: weight of the tuples in each."""
    predicted: Floats
    """Shape (bins,), float64: mean probability; NaN in a bin without tuples."""
    observed: Floats
    """Shape (bins,), float64: the share of answers; NaN in a bin without tuples."""
    ece: float
    """Expected calibration error: |share − mean probability| of each bin, weighted by its tuples."""
    ece_by_count: float
    """The same over as many bins of equally many tuples, in the order of their probabilities."""
    brier: float
    """Mean squared difference of probability and target."""
    log_loss: float
    """Mean cross-entropy in nats; a probability nearer to 0 or 1 than 2.2e-16 counts as that near."""

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
    """What a model says of tuples beside what is so: targets are 1 for answers, 0 for others, or between."""
    said, so, mass = _check_arrays(p, targets, weights)
    if bins < 1 or not mass.sum() > 0:
        raise KnowledgeBaseError(f"a reliability needs tuples and at least one bin, not {len(said)} and {bins}")
    edges = np.linspace(0, 1, bins + 1)
    wide = np.clip(np.searchsorted(edges, said, side="right") - 1, 0, bins - 1)
    counts, predicted, shares = _bin_means(wide, said, so, mass, bins)
    different, at = np.unique(said, return_inverse=True)
    even = _quantile_bins(_bin_sums(at, mass, len(different)), bins)[at]
    inside = np.clip(said, np.finfo(float).eps, 1 - np.finfo(float).eps)
    surprise = -(so * np.log(inside) + (1 - so) * np.log1p(-inside))
    return Reliability(
        edges,
        counts,
        predicted,
        shares,
        _expected_calibration_error(counts, predicted, shares),
        _expected_calibration_error(*_bin_means(even, said, so, mass, bins)),
        float(np.average((said - so) ** 2, weights=mass)),
        float(np.average(surprise, weights=mass)),
    )


def _bin_means(
    at: npt.NDArray[np.intp], p: Floats, targets: Floats, weights: Floats, bins: int
) -> tuple[Floats, Floats, Floats]:
    """Weight, mean probability and share of answers in each bin."""
    counts = _bin_sums(at, weights, bins)
    divisor = np.where(counts > 0, counts, np.nan)
    return counts, _bin_sums(at, weights * p, bins) / divisor, _bin_sums(at, weights * targets, bins) / divisor


def _expected_calibration_error(counts: Floats, predicted: Floats, shares: Floats) -> float:
    return float(np.nansum(counts * np.abs(shares - predicted)) / counts.sum())


def _check_arrays(
    p: npt.ArrayLike, targets: npt.ArrayLike, weights: npt.ArrayLike | None
) -> tuple[Floats, Floats, Floats]:
    """Three float64 arrays of one length, or what is wrong with them."""
    said, so = _check_probabilities(p), _check_probabilities(targets, "targets")
    mass = np.ones(said.shape) if weights is None else np.asarray(weights, np.float64)
    if said.ndim != 1 or not said.shape == so.shape == mass.shape:
        shapes = f"{said.shape}, {so.shape} and {mass.shape}"
        raise KnowledgeBaseError(f"probabilities, targets and weights are lists of one length, not of shape {shapes}")
    if not (np.isfinite(mass) & (mass >= 0)).all():
        raise KnowledgeBaseError("weights are finite and not below 0")
    kept = mass > 0
    return said[kept], so[kept], mass[kept]


def _check_probabilities(p: npt.ArrayLike, name: str = "probabilities") -> Floats:
    array = np.asarray(p, np.float64)
    wrong = array[~((array >= 0) & (array <= 1))]  # so that NaN is wrong too
    if wrong.size:
        raise KnowledgeBaseError(f"{name} are from 0 to 1, not {wrong.flat[0]}")
    return array


def _check_positive(number: float, name: str) -> float:
    check_positive(name, number)
    return float(number)


def _odds(prior: float) -> float:
    check_fraction("prior", prior, zero=False, one=False)
    return prior / (1 - prior)

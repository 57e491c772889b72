"""From shares to a probability: a small logistic model of each relation.

>>> evidence = np.log([[0.9, 0.8, 1.0, 1.0], [0.001, 0.002, 1.0, 2.0]])
>>> odds = Odds(0.0, np.ones(4) * [1, 1, -2, -2])
>>> odds.probabilities(evidence).round(3)
array([0.419, 0.   ])

The evidence of a tuple has two columns for each position: the logarithm of the share that its object has among all
candidates of that position, and log(1 + known answers besides the tuple). A relation with few facts has weights close
to those of all relations together.

The model is fitted to held-out facts, which show what a missing fact looks like, and to the candidates of the knowledge
base as it stands. Missing facts are among these candidates, so none of them is an example of a false fact. If at some
evidence there are n candidates, and h missing facts by what is held out, the probability is h / n. That is the minimum
of the loss Σ log(1 + exp(z)) over the candidates − Σ z over the missing facts, where z are log-odds.

The log-odds are linear in the evidence and then bent: a map with a slope between each two knots, none of them falling.
It is fitted by the same loss. Where most candidates are hopeless, and the few good ones are nearly all true, as by the
symmetry of a relation, a straight line is too low at the top and too high in the middle.

If the facts of a relation have confidences, a tuple is at most as probable as a fact is certain: the odds say how
probable it is that a tuple is a fact, and the mean confidence is a factor. With few held-out facts, nothing is certain
either: with 20 of them, no probability is above 21 / 22.

How many facts are missing is an assumption. Weights are fitted for several shares, and interpolated between them.

Held-out facts also give the answer set of a question: the candidates with so large a share that nine in ten held-out
facts have it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gaifman.config import check_fraction
from gaifman.errors import InputError
from gaifman.io.model_file import Arrays, require_array
from gaifman.kb.tables import Floats, Ints, Longs
from gaifman.models.calibration import MIN_PROBABILITY, exp
from gaifman.sampling.rng import fold_in_rows

MIN_LOG_SHARE = -20.0
"""Smaller shares tell nothing more."""
MAX_LOG_ODDS = 30.0
MISSING_SHARES = (0.01, 0.03, 0.1, 0.2, 0.4)
"""Shares of missing facts that weights are fitted for."""
NO_CUTOFF = 1.0
COVERAGE = 0.9
"""Of the answer sets."""
MIN_SET_FACTS, OTHERS_SET_FACTS = 30.0, 50.0
"""Held-out facts that cutoffs of answer sets need, and as how many those of similar relations count."""
NEWTON_STEPS, LIMIT_ROUNDS = 50, 4
MAX_LIMIT_BINS, MIN_LIMIT_FACTS, LIMIT_ERRORS, BEND_LIMIT_ERRORS = 20, 30, 2.0, 0.5
"""Bins of log-odds in which there can be no more missing facts than candidates, held-out facts in each, and by how many
standard errors there can be more by chance: for the weights, and for the bend."""
POOLED_PENALTY, OWN_PENALTY, OWN_BASE_PENALTY = 0.1, 60.0, 4.0
"""Of the squared distance to the prior weights: for all relations together, and for one relation; chosen on facts held
out of the demo and UMLS. With smaller ones, the probabilities of a relation fit the noise of its few held-out facts."""
KNOTS = np.array([-4.0, -2.0, -0.5, 1.0, 2.5])
"""Of linear log-odds, where the slope of the bend changes."""
STRAIGHT = np.array([0.0, *[1.0] * (len(KNOTS) + 1)])
"""The offset and the slopes of log-odds that stay as they are."""
MIN_SLOPE, MAX_SLOPE, MAX_TOP_SLOPE, MAX_OFFSET = 0.1, 3.0, 1.0, 6.0
"""Above the last knot log-odds rise by no more than they did: too few held-out facts are there to tell."""
POOLED_BEND_PENALTY, OWN_BEND_PENALTY = 5.0, 20.0
"""As those of the weights; chosen on facts held out of the demo, UMLS and WN18RR."""
MAX_BASE, MAX_SHARE_WEIGHT, MAX_KNOWN_WEIGHT = 4.0, 3.0, 6.0
"""More would say more than held-out facts can: if more facts are said to be missing than there are likely candidates,
the loss falls without end."""
SIZE_EXPONENT, UNIFORM_SHARE = 0.7, 0.2
"""Candidates are sampled by their share to this power, but for a share of the sample that is uniform."""
PRIOR_SHARE_WEIGHT = 0.5
"""The weight of a log share before anything is known."""


@dataclass(frozen=True, slots=True)
class Odds:
    """The weights of evidence in the log-odds of a tuple."""

    base: float
    weights: Floats
    """Shape (2 · arity,), float64: of the log shares, at least 0, then of the known answers."""

    bend: Floats = field(default_factory=STRAIGHT.copy)
    """Shape (knots + 2,), float64: the offset of the bent log-odds and their slopes, below, between and above knots."""
    certainty: float = 1.0
    """The largest probability: the mean confidence of the facts, and less if few facts were held out."""

    def linear(self, evidence: Floats) -> Floats:
        """Shape (tuples,), float64, for evidence (tuples, 2 · arity): log-odds before the bend."""
        found = np.full(len(evidence), self.base)
        for column, weight in zip(evidence.T, self.weights.tolist(), strict=True):
            found = found + weight * column
        return found

    def bent(self, linear: Floats) -> Floats:
        """The log-odds, of the same shape."""
        found = np.full(np.shape(linear), self.bend[0])
        for part, slope in zip(_segments(np.asarray(linear)), self.bend[1:].tolist(), strict=True):
            found = found + slope * part
        clipped: Floats = np.clip(found, -MAX_LOG_ODDS, MAX_LOG_ODDS)
        return clipped

    def linear_of(self, log_odds: float) -> float:
        """The linear log-odds of the log-odds of a probability."""
        if self.certainty < 1:
            p = float(1 / (1 + np.exp(-log_odds)))
            log_odds = float(np.log(p) - np.log(max(self.certainty - p, 1e-300)))
        left, below = log_odds - self.bend[0], float(KNOTS[0])
        if left <= self.bend[1] * below:
            return float(left / self.bend[1])
        left -= self.bend[1] * below
        for (start, end), slope in zip(pairwise(KNOTS), self.bend[2:-1], strict=True):
            if left <= slope * (end - start):
                return float(start + left / slope)
            left -= slope * (end - start)
        return float(KNOTS[-1] + left / self.bend[-1])

    def probabilities(self, evidence: Floats) -> Floats:
        """Shape (tuples,), float64: between 0 and 1, but neither."""
        return self.probabilities_of(self.linear(evidence))

    def probabilities_of(self, linear: Floats) -> Floats:
        """Shape (tuples,), float64: the probabilities of linear log-odds."""
        p = self.certainty / (1 + exp(-self.bent(linear)))
        return np.clip(p, MIN_PROBABILITY, 1 - MIN_PROBABILITY)

    def bound(self, shares: Floats, known: float, other_known: Floats, position: int) -> Floats:
        """Shape (tuples,), float64: no probability is larger, whatever the shares at the other positions are.

        `known` is log(1 + known answers) at the position, `other_known` (tuples,) the largest it can be at the others.
        """
        arity = len(self.weights) // 2
        odds = self.base + self.weights[position] * shares + self.weights[arity + position] * known
        for other in range(arity):
            if other != position:
                odds = odds + max(float(self.weights[arity + other]), 0.0) * other_known
        return self.probabilities_of(odds)

    def shifted(self, shift: float) -> Odds:
        """The same weights, with more or less log-odds for all tuples."""
        return replace(self, bend=np.append(self.bend[0] + shift, self.bend[1:]))

    @property
    def vector(self) -> Floats:
        """Shape (1 + 2 · arity,), float64: the base and the weights."""
        return np.array([self.base, *self.weights])


@dataclass(frozen=True, slots=True)
class OddsTable:
    """The odds for several shares of missing facts, and what is between them."""

    vectors: Floats
    """Shape (`MISSING_SHARES`, 1 + 2 · arity), float64: base and weights for each share."""
    bends: Floats
    """Shape (`MISSING_SHARES`, knots + 2), float64: see `Odds.bend`."""
    priors: Floats
    """Shape (`MISSING_SHARES`,), float64: the share of the candidates that is true."""
    cutoffs: Floats
    """Shape (arity,), float64: the smallest log share in an answer set, by position; above 0 if it is not known."""
    certainty: float = 1.0
    """See `Odds.certainty`."""
    limits: tuple[Limits, ...] = ()
    """For each share, how many of the facts can be missing; only while odds are fitted."""

    def at(self, missing: float, prior: float | None = None) -> Odds:
        """The odds if this share of the facts is missing; or if the share `prior` of the candidates is true."""
        check_fraction("missing", missing, zero=False, one=False)
        x, own = _logit(missing), np.array([_logit(share) for share in MISSING_SHARES])
        inside = float(np.clip(x, own[0], own[-1]))
        vector, bend = (
            np.array([np.interp(inside, own, column) for column in rows.T]) for rows in (self.vectors, self.bends)
        )
        odds = Odds(float(vector[0]), vector[1:], bend, self.certainty).shifted(x - inside)
        if prior is None:
            return odds
        check_fraction("prior", prior, zero=False, one=False)
        usual = np.interp(inside, own, [_logit(share) for share in self.priors]) + x - inside
        return odds.shifted(_logit(prior) - float(usual))

    def limited(self, held_out: int) -> OddsTable:
        """No surer than held-out facts can tell, by the rule of succession: of n + 2 facts, n + 1 may be true."""
        return replace(self, certainty=self.certainty * (held_out + 1) / (held_out + 2))

    def arrays(self) -> Arrays:
        """The arrays for a file."""
        return {
            "odds": np.column_stack([self.priors, self.vectors]),
            "bends": self.bends,
            "cutoffs": self.cutoffs,
            "certainty": np.array([self.certainty]),
        }

    @classmethod
    def from_arrays(cls, arrays: Arrays, arity: int) -> OddsTable:
        """The odds of a file."""
        found = require_array(arrays, "odds", np.float64, (len(MISSING_SHARES), 2 + 2 * arity))
        if not ((found[:, 0] > 0) & (found[:, 0] < 1)).all():
            raise InputError("the shares of true candidates must be above 0 and below 1")
        bends = require_array(arrays, "bends", np.float64, (len(MISSING_SHARES), len(STRAIGHT)))
        if not (bends[:, 1:] > 0).all():
            raise InputError("the slopes of log-odds must be above 0")
        cutoffs = require_array(arrays, "cutoffs", np.float64, (arity,))
        certainty = float(require_array(arrays, "certainty", np.float64, (1,))[0])
        if not 0 < certainty <= 1:
            raise InputError("the certainty of facts must be above 0 and at most 1")
        return cls(np.ascontiguousarray(found[:, 1:]), bends, found[:, 0].copy(), cutoffs, certainty)

    @classmethod
    def unfitted(cls, arity: int = 0) -> OddsTable:
        """Before the odds are fitted."""
        count = len(MISSING_SHARES)
        bends = np.tile(STRAIGHT, (count, 1))
        return cls(np.zeros((count, 1 + 2 * arity)), bends, np.full(count, 0.5), np.full(arity, NO_CUTOFF))


@dataclass(frozen=True, slots=True)
class Proposals:
    """Candidates of a knowledge base as it stands, and held-out facts, each of which was hidden."""

    evidence: Floats
    """Shape (tuples, 2 · arity), float64."""
    facts: Floats
    """Shape (tuples,), float64: how many facts of the relation a held-out fact stands for; 0 for candidates."""
    candidates: Floats
    """Shape (tuples,), float64: how many candidates each one stands for; 0 for held-out facts."""
    certainty: float = 1.0
    """The mean confidence of the relation's facts."""

    def __len__(self) -> int:
        return len(self.facts)

    @property
    def arity(self) -> int:
        """The number of positions."""
        return int(self.evidence.shape[1] // 2)

    @property
    def held_out(self) -> int:
        """The number of held-out facts."""
        return int((self.facts > 0).sum())

    def cutoffs(self, others: Proposals | None = None) -> Floats:
        """Shape (arity,), float64: the log share at each position that `COVERAGE` of the held-out facts have.

        `others` are proposals of similar relations: they count as `OTHERS_SET_FACTS` more facts.
        """
        own, weights = self._held_out_shares()
        if others is not None:
            more, of_others = others._held_out_shares()
            scale = min(1.0, OTHERS_SET_FACTS / max(len(more), 1))
            own, weights = np.concatenate([own, more]), np.concatenate([weights, scale * of_others])
        count = float(weights.sum())
        if count < MIN_SET_FACTS:
            return np.full(self.arity, NO_CUTOFF)
        allowed = (1 - COVERAGE) * (count + 1)
        order = np.argsort(own, axis=0, kind="stable")
        below = [int((np.cumsum(weights[column]) <= allowed).sum()) for column in order.T]
        return np.array(
            [own[column[max(count - 1, 0)], i] for i, (column, count) in enumerate(zip(order.T, below, strict=True))]
        )

    def _held_out_shares(self) -> tuple[Floats, Floats]:
        """The log shares of held-out facts, and their weights: 1 on average."""
        weights = self.facts[self.facts > 0]
        return self.evidence[self.facts > 0, : self.arity], weights * (len(weights) / max(float(weights.sum()), 1e-300))

    @property
    def kind(self) -> tuple[bool, ...]:
        """For each position, whether most questions have other known answers: similar relations are of one kind."""
        known = self.evidence[:, self.arity :] > 0
        return tuple((self.facts @ known > 0.5 * self.facts.sum()).tolist())

    def select(self, rows: npt.NDArray[np.bool_]) -> Proposals:
        """Some of them."""
        return Proposals(self.evidence[rows], self.facts[rows], self.candidates[rows], self.certainty)

    def halves(self) -> Iterator[tuple[Proposals, Proposals]]:
        """Each half, after the other half, which stands for all."""
        even = np.arange(len(self)) % 2 == 0
        for own in (even, ~even):
            rest = self.select(~own)
            yield replace(rest, facts=2 * rest.facts, candidates=2 * rest.candidates), self.select(own)

    @classmethod
    def concatenate(cls, parts: Sequence[Proposals], arity: int) -> Proposals:
        """All of them."""
        return cls(
            np.concatenate([np.zeros((0, 2 * arity)), *(part.evidence for part in parts)]),
            np.concatenate([np.zeros(0), *(part.facts for part in parts)]),
            np.concatenate([np.zeros(0), *(part.candidates for part in parts)]),
            min((part.certainty for part in parts), default=1.0),  # candidates have none
        )

    def prior(self, missing: float) -> float:
        """The share of true candidates, if this share of the facts is missing."""
        total = float(self.candidates.sum())
        share = missing / (1 - missing) * float(self.facts.sum()) / total if total else 0.5
        return min(max(share, 1e-9), 1 - 1e-9)


def fit_odds(proposals: Proposals, pooled: OddsTable | None = None, similar: Proposals | None = None) -> OddsTable:
    """Fit the odds of one relation, close to those of all; without `pooled`, fit those of all.

    The cutoffs of a relation with few facts are close to those of similar relations.
    """
    found = [_fit(proposals, share, row, pooled) for row, share in enumerate(MISSING_SHARES)]
    vectors, bends, limits = zip(*found, strict=True)
    priors = np.array([proposals.prior(share) for share in MISSING_SHARES])
    cutoffs = proposals.cutoffs(similar)
    return OddsTable(np.array(vectors), np.array(bends), priors, cutoffs, proposals.certainty, limits)


# Samples of questions and of candidates, which stand for all


def sample_by_score(
    scores: Floats, count: int, key: np.uint64, exponent: float = SIZE_EXPONENT
) -> tuple[Longs, Floats]:
    """About `count` rows, ascending, rather those with high scores; and how many rows each of them stands for.

    The exponential of a score, to a power, is the size by which a row is sampled.

    >>> rows, stand_for = sample_by_score(np.array([3.0, 2.0, 1.0, 0.0]), 4, np.uint64(0))
    >>> rows.tolist(), stand_for.tolist()
    ([0, 1, 2, 3], [1.0, 1.0, 1.0, 1.0])
    """
    if len(scores) <= count:
        return np.arange(len(scores)), np.ones(len(scores))
    sizes = np.exp(exponent * (scores - scores.max()))
    chances = np.minimum(1.0, count * ((1 - UNIFORM_SHARE) * sizes / sizes.sum() + UNIFORM_SHARE / len(sizes)))
    ends, start = np.cumsum(chances), float(key) * 2.0**-64
    points = start + np.arange(int(np.ceil(ends[-1])))
    rows = np.searchsorted(ends, points[points < ends[-1]], side="right")
    return rows, 1 / chances[rows]


def sample_questions(asked: Ints, facts: Ints, position: int, count: int, key: np.uint64) -> tuple[Longs, Floats]:
    """About `count` rows of questions to a relation, and how many questions each stands for.

    Half of them are about objects that are at the same position of a known fact, if there are as many: few others have
    likely answers, although most questions can be about others.
    """
    fixed = [i for i in range(asked.shape[1]) if i != position]
    seen = np.logical_and.reduce([np.isin(asked[:, i], facts[:, i]) for i in fixed], initial=True)
    groups = [np.flatnonzero(seen), np.flatnonzero(~seen)]
    sizes = [max(count // 2, count - len(other)) for other in reversed(groups)]
    parts = [choose_rows(rows, asked, size, key) for rows, size in zip(groups, sizes, strict=True)]
    stand_for = [np.full(len(own), len(rows) / max(len(own), 1)) for rows, own in zip(groups, parts, strict=True)]
    return np.concatenate(parts), np.concatenate(stand_for)


def choose_rows(rows: Longs, tuples: Ints, count: int, key: np.uint64) -> Longs:
    """Some of these rows at random, whatever their order."""
    keys = fold_in_rows(key, tuples[rows])
    return rows[np.argsort(keys, kind="stable")[:count]]


# How many facts can be missing, and the fit


class Limits(NamedTuple):
    """How many of the facts can be missing, by their log-odds: not more than there are candidates like them."""

    edges: Floats
    """Shape (bins − 1,), float64, ascending: log-odds between the bins."""
    shares: Floats
    """Shape (bins,), float64: from 0 to 1."""

    def of(self, log_odds: Floats) -> Floats:
        """Shape (tuples,), float64: the share of facts with these log-odds that can be missing."""
        return self.shares[np.searchsorted(self.edges, log_odds, side="right")]


NO_LIMITS = Limits(np.zeros(0), np.ones(1))


def _find_limits(log_odds: Floats, facts: Floats, candidates: Floats, errors: float = LIMIT_ERRORS) -> Limits:
    """The limits of facts, in bins with as many held-out facts each."""
    held_out = np.sort(log_odds[facts > 0])
    bins = min(MAX_LIMIT_BINS, len(held_out) // MIN_LIMIT_FACTS)
    if bins < 1:
        return NO_LIMITS
    edges = np.unique(held_out[(np.arange(1, bins) * len(held_out)) // bins])
    at = np.searchsorted(edges, log_odds, side="right")
    size = len(edges) + 1
    of_facts, of_candidates, squares = (np.bincount(at, mass, size) for mass in (facts, candidates, candidates**2))
    count, unit = np.bincount(at, facts > 0, size), float(np.quantile(candidates[candidates > 0], 0.1))
    most = of_candidates + errors * np.sqrt(squares + unit**2)  # fewer by chance do not count as fewer
    slack = 1 + errors / np.sqrt(np.maximum(count, 1))
    return Limits(edges, np.minimum(1.0, slack * most / np.maximum(of_facts, 1e-300)))


def _fit(proposals: Proposals, missing: float, row: int, pooled: OddsTable | None) -> tuple[Floats, Floats, Limits]:
    """Base and weights if this share of the facts is missing, shape (1 + 2 · arity,), float64; the bend; the limits.

    In a knowledge base that is complete, there are fewer candidates like its facts than facts are said to be missing.
    Only as many count: else the others would be looked for among candidates that are unlike them.
    """
    arity = proposals.arity
    if pooled is None:
        start = np.array([0.0, *[PRIOR_SHARE_WEIGHT] * arity, *[0.0] * arity])
        strengths = np.array([POOLED_PENALTY / 100, *[POOLED_PENALTY] * (2 * arity)])  # the base is free to move
    else:
        start, strengths = pooled.vectors[row], np.array([OWN_BASE_PENALTY, *[OWN_PENALTY] * (2 * arity)])
    bend = STRAIGHT if pooled is None else pooled.bends[row]
    if not proposals.facts.any():
        return (start if pooled is not None else np.array([_logit(1e-3), *start[1:]])), bend, NO_LIMITS
    design = np.concatenate([np.ones((len(proposals), 1)), proposals.evidence], axis=1)
    facts = missing / (1 - missing) * proposals.facts
    scale = (facts > 0).sum() / facts.sum()  # a held-out fact counts as one, whatever it stands for
    candidates = proposals.candidates * scale
    limits = NO_LIMITS if pooled is None or not pooled.limits else pooled.limits[row]
    allowed, bounds = limits.of(design @ start), _weight_bounds(arity)
    vector = start
    for _ in range(LIMIT_ROUNDS):
        vector = _newton(_Sample(design, facts * allowed * scale, candidates), start, strengths, bounds)
        limits = _find_limits(design @ vector, facts, proposals.candidates)
        allowed = limits.of(design @ vector) if pooled is None else np.minimum(allowed, limits.of(design @ vector))
    line = np.column_stack([np.ones(len(design)), *_segments(design @ vector)])
    penalty = POOLED_BEND_PENALTY if pooled is None else OWN_BEND_PENALTY
    strict = _find_limits(design @ vector, facts, proposals.candidates, BEND_LIMIT_ERRORS).of(design @ vector)
    sample = _Sample(line, facts * np.minimum(allowed, strict) * scale, candidates)
    return vector, _newton(sample, bend, np.full(len(bend), penalty), _BEND_BOUNDS), limits


def _segments(linear: Floats) -> list[Floats]:
    """How far log-odds reach below the first knot, between each two knots, and above the last: they add up to them."""
    between = [np.clip(linear, low, high) - low for low, high in pairwise(KNOTS)]
    return [np.minimum(linear, KNOTS[0]), *between, np.maximum(linear, KNOTS[-1]) - KNOTS[-1]]


class _Sample(NamedTuple):
    """What log-odds are fitted to, if they are linear in some columns."""

    design: Floats
    """Shape (tuples, columns), float64."""
    facts: Floats
    """Shape (tuples,), float64: how many missing facts each one stands for."""
    candidates: Floats
    """Shape (tuples,), float64: how many candidates."""


def _weight_bounds(arity: int) -> tuple[Floats, Floats]:
    """The least and the largest base and weights."""
    low = np.array([-MAX_LOG_ODDS, *[0.0] * arity, *[-MAX_KNOWN_WEIGHT] * arity])
    return low, np.array([MAX_BASE, *[MAX_SHARE_WEIGHT] * arity, *[MAX_KNOWN_WEIGHT] * arity])


_BEND_BOUNDS = (
    np.array([-MAX_OFFSET, *[MIN_SLOPE] * (len(STRAIGHT) - 1)]),
    np.array([MAX_OFFSET, *[MAX_SLOPE] * (len(STRAIGHT) - 2), MAX_TOP_SLOPE]),
)


def _newton(sample: _Sample, start: Floats, strengths: Floats, bounds: tuple[Floats, Floats]) -> Floats:
    """Minimise the loss and the penalty within the bounds, by Newton steps on the weights that are free to move."""
    low, high = bounds
    linear = (sample.facts[:, None] * sample.design).sum(axis=0)
    used = sample.candidates > 0
    design, candidates, weights = sample.design[used], sample.candidates[used], np.clip(start, low, high)

    def loss_of(weights: Floats) -> float:
        losses = np.logaddexp(0.0, np.clip(design @ weights, -MAX_LOG_ODDS, MAX_LOG_ODDS))
        penalty = 0.5 * (strengths * (weights - start) ** 2).sum()
        return float((candidates * losses).sum() - (linear * weights).sum() + penalty)

    loss = loss_of(weights)
    for _ in range(NEWTON_STEPS):
        p = 1 / (1 + exp(-np.clip(design @ weights, -MAX_LOG_ODDS, MAX_LOG_ODDS)))
        gradient = design.T @ (candidates * p) - linear + strengths * (weights - start)
        free = ~((weights <= low) & (gradient > 0) | (weights >= high) & (gradient < 0))
        curvature = (design * (candidates * p * (1 - p))[:, None]).T @ design + np.diag(strengths)
        step, size = np.zeros(len(weights)), 1.0
        step[free] = np.linalg.solve(curvature[np.ix_(free, free)], gradient[free])
        while size > 1e-6:
            tried = np.clip(weights - size * step, low, high)
            new = loss_of(tried)
            if new < loss:
                break
            size /= 2
        if size <= 1e-6 or loss - new < 1e-9 * abs(loss):
            break
        weights, loss = tried, new
    return weights


def _logit(p: float) -> float:
    return float(np.log(p) - np.log1p(-p))

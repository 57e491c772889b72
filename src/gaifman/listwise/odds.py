"""From shares to a probability: a small logistic model of each relation.

>>> evidence = np.log([[0.9, 0.8, 1.0, 1.0], [0.001, 0.002, 1.0, 2.0]])
>>> odds = Odds(0.0, np.ones(4) * [1, 1, -2, -2], 0.1)
>>> odds.probabilities(evidence).round(3)
array([0.419, 0.   ])

The evidence of a tuple has two columns for each position: the logarithm of the share that its object has among all
candidates of that position, and log(1 + known answers besides the tuple). A relation with few facts has weights close
to those of all relations together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from gaifman.config import check_fraction
from gaifman.io.model_file import Arrays, require_array
from gaifman.kb.tables import Floats
from gaifman.models.calibration import MIN_PROBABILITY
from gaifman.models.portable_math import exp

MIN_LOG_SHARE = -20.0
"""Smaller shares tell nothing more."""
MAX_LOG_ODDS = 30.0
NEWTON_STEPS = 50
POOLED_PENALTY, OWN_PENALTY = 0.1, 0.5
"""Of the squared distance to the prior weights: for all relations together, and for one relation."""
MAX_SHARE_WEIGHT = 3.0
"""A steeper slope would say more than held-out facts can."""
PRIOR_SHARE_WEIGHT = 0.5
"""The weight of a log share before anything is known."""


@dataclass(frozen=True, slots=True)
class Odds:
    """The weights of evidence in the log-odds of a tuple."""

    base: float
    weights: Floats
    """Shape (2 · arity,), float64: of the log shares, at least 0, then of the known answers."""
    prior: float
    """The share of true tuples among the candidates that it was fitted to."""

    def log_odds(self, evidence: Floats) -> Floats:
        """Shape (tuples,), float64, for evidence (tuples, 2 · arity)."""
        found = np.full(len(evidence), self.base)
        for column, weight in zip(evidence.T, self.weights.tolist(), strict=True):
            found = found + weight * column
        clipped: Floats = np.clip(found, -MAX_LOG_ODDS, MAX_LOG_ODDS)
        return clipped

    def probabilities(self, evidence: Floats) -> Floats:
        """Shape (tuples,), float64: between 0 and 1, but neither."""
        return np.clip(1 / (1 + exp(-self.log_odds(evidence))), MIN_PROBABILITY, 1 - MIN_PROBABILITY)

    def with_prior(self, prior: float) -> Odds:
        """The same weights for candidates of which another share is true."""
        check_fraction("prior", prior, zero=False, one=False)
        shift = float(np.log(prior / (1 - prior)) - np.log(self.prior / (1 - self.prior)))
        return replace(self, base=self.base + shift, prior=prior)

    def arrays(self) -> Arrays:
        """The arrays for a file."""
        return {"odds": np.array([self.base, self.prior, *self.weights])}

    @classmethod
    def from_arrays(cls, arrays: Arrays, arity: int) -> Odds:
        """The odds of a file."""
        base, prior, *weights = require_array(arrays, "odds", np.float64, (2 + 2 * arity,)).tolist()
        check_fraction("prior", prior, zero=False, one=False)
        return cls(base, np.array(weights), prior)


@dataclass(frozen=True, slots=True)
class Proposals:
    """Candidates of questions whose true answers are known: what a model would propose, and what is true."""

    evidence: Floats
    """Shape (tuples, 2 · arity), float64."""
    targets: Floats
    """Shape (tuples,), float64: 1 for the fact that is hidden (less if it is uncertain), 0 for others."""
    weights: Floats
    """Shape (tuples,), float64: how many candidates each one stands for."""

    def __len__(self) -> int:
        return len(self.targets)

    def select(self, rows: Floats) -> Proposals:
        """Some of them."""
        return Proposals(self.evidence[rows], self.targets[rows], self.weights[rows])

    @classmethod
    def concatenate(cls, parts: Sequence[Proposals], arity: int) -> Proposals:
        """All of them."""
        return cls(
            np.concatenate([np.zeros((0, 2 * arity)), *(part.evidence for part in parts)]),
            np.concatenate([np.zeros(0), *(part.targets for part in parts)]),
            np.concatenate([np.zeros(0), *(part.weights for part in parts)]),
        )

    @property
    def prior(self) -> float:
        """The share of true tuples."""
        total = float(self.weights.sum())
        share = float((self.weights * self.targets).sum()) / total if total else 0.5
        return min(max(share, 1e-9), 1 - 1e-9)


def fit_odds(proposals: Proposals, pooled: Odds | None = None) -> Odds:
    """Fit the odds of one relation, close to those of all; without `pooled`, fit those of all."""
    columns = proposals.evidence.shape[1]
    shares = columns // 2
    if pooled is None:
        start = np.array([0.0, *[PRIOR_SHARE_WEIGHT] * shares, *[0.0] * shares])
        penalty = POOLED_PENALTY
    else:
        start, penalty = np.array([pooled.base, *pooled.weights]), OWN_PENALTY
    if not proposals.targets.any():
        return pooled or Odds(float(np.log(1e-3)), start[1:], 1e-3)
    design = np.concatenate([np.ones((len(proposals), 1)), proposals.evidence], axis=1)
    # a positive counts as one, whatever share of the facts it stands for
    mass = proposals.weights * (proposals.targets > 0).sum() / (proposals.weights * proposals.targets).sum()
    found = _newton(design, proposals.targets, mass, start, penalty, shares)
    return Odds(float(found[0]), found[1:], proposals.prior)


def _newton(design: Floats, targets: Floats, mass: Floats, start: Floats, penalty: float, shares: int) -> Floats:
    """Minimise the weighted cross-entropy and the penalty; the weights of shares are at least 0."""
    strengths = np.full(len(start), penalty)
    strengths[0] = penalty / 100  # the base is free to move
    weights = start.copy()
    loss = _loss(design, targets, mass, start, strengths, weights)
    for _ in range(NEWTON_STEPS):
        p = 1 / (1 + exp(-np.clip(design @ weights, -MAX_LOG_ODDS, MAX_LOG_ODDS)))
        gradient = design.T @ (mass * (p - targets)) + strengths * (weights - start)
        curvature = (design * (mass * p * (1 - p))[:, None]).T @ design + np.diag(strengths)
        step, size = np.linalg.solve(curvature, gradient), 1.0
        while size > 1e-6:
            tried = weights - size * step
            tried[1 : 1 + shares] = np.clip(tried[1 : 1 + shares], 0.0, MAX_SHARE_WEIGHT)
            new = _loss(design, targets, mass, start, strengths, tried)
            if new < loss:
                break
            size /= 2
        if size <= 1e-6 or loss - new < 1e-9 * abs(loss):
            break
        weights, loss = tried, new
    return weights


def _loss(design: Floats, targets: Floats, mass: Floats, start: Floats, strengths: Floats, weights: Floats) -> float:
    odds = np.clip(design @ weights, -MAX_LOG_ODDS, MAX_LOG_ODDS)
    losses = np.logaddexp(0.0, odds) - targets * odds
    return float((mass * losses).sum() + 0.5 * (strengths * (weights - start) ** 2).sum())

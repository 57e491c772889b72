"""Probabilities of tuples by the ranked lists of their positions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from gaifman.config import Deadline
from gaifman.kb.tables import Floats, Ints
from gaifman.listwise.odds import Odds
from gaifman.listwise.relation import RelationScorer
from gaifman.models.portable_math import exp
from gaifman.predict import DrawBudget, Estimates, Predictor
from gaifman.sampling.hiding import HiddenFacts

SHORTLIST_PER_ANSWER, MIN_SHORTLIST = 10, 200
"""Candidates, per requested answer and at least, whose evidence at every position is collected."""


@dataclass(frozen=True, slots=True)
class ListwisePredictor(Predictor):
    """Predicts by the shares that the objects of a tuple have among all candidates of their positions."""

    scorer: RelationScorer
    odds: Odds

    def with_prior(self, prior: float | None) -> Self:
        """The same predictor for candidates of which another share is true."""
        return self if prior is None else replace(self, prior=prior, odds=self.odds.with_prior(prior))

    def model_estimates(self, tuples: Ints, hidden: HiddenFacts, budget: DrawBudget) -> Estimates:
        """The probabilities of tuples. Draws are averaged in the values of formulas: there is no sampling error."""
        values = self.odds.probabilities(self.scorer.evidence(tuples, hidden, budget.deadline))
        draws = 1 if self.config.size is None else self.config.draws
        return Estimates(values, np.full(len(values), np.nan), np.full(len(values), draws, np.int32))


@dataclass(frozen=True, slots=True)
class ListwiseFirstPass:
    """Finds the candidates that can be among the best answers, by the evidence of one position."""

    predictor: ListwisePredictor

    @property
    def draws(self) -> int:
        """All objects are walked once."""
        return 1

    def shortlist_size(self, candidates: int, draws: int, top: int | None) -> int | None:
        """How many candidates are scored at every position; None for all."""
        size = max(MIN_SHORTLIST, SHORTLIST_PER_ANSWER * (top or 0))
        return None if top is None or candidates <= size else size

    def scores(self, tuples: Ints, hidden: HiddenFacts, deadline: Deadline) -> Floats:
        """Shape (tuples,), float64: log-odds by the position that takes the fewest questions."""
        scorer, odds = self.predictor.scorer, self.predictor.odds
        counts = [len(np.unique(np.delete(tuples, i, axis=1), axis=0)) for i in range(scorer.arity)]
        position = int(np.argmin(counts))
        shares, known = scorer.position_evidence(tuples, hidden, position, deadline)
        weights, arity = odds.weights, scorer.arity
        found: Floats = odds.base + weights[:arity].sum() * shares + weights[arity + position] * known
        return found

    def probabilities(self, scores: Floats) -> Floats:
        """The probabilities of log-odds."""
        return 1 / (1 + exp(-np.clip(scores, -30, 30)))

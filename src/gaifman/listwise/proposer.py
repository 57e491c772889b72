"""The candidates of a relation that can be probable, without scoring all of them at all positions.

A tuple that is not known answers one question for each position: which object is there, given the others? The log share
that it has among the candidates of one question bounds its probability, because the log shares of the other questions
are at most 0. So the ranked lists of one position show which tuples can reach a threshold.

The objects at a position are those that `answers` would consider. For relations of more than two positions, the objects
at all other positions must stand together in a known fact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from gaifman.config import Deadline, no_deadline
from gaifman.kb.tables import Floats, Ints, rows_in
from gaifman.listwise.mining import NOTHING
from gaifman.listwise.scoring import ListwisePredictor
from gaifman.ranking.candidates import NO_TYPES, QueryPattern, select_candidates
from gaifman.sampling.constraints import hide_nothing

TOLERANCE = 1e-9
"""The bound and the probability are not computed in the same order."""
REPORTED_QUESTIONS = 64
"""Questions between two reports of progress."""
MAX_BLOCK = 200_000
"""Tuples whose probabilities are computed together."""


class Shares(NamedTuple):
    """The candidates of one question."""

    log_shares: Floats
    """Shape (objects,), float64: -inf for known answers."""
    known: int
    """The number of known answers."""


class Proposer(NamedTuple):
    """Proposes facts of one relation that are not known."""

    predictor: ListwisePredictor
    facts: Ints
    """Shape (facts, arity), int32: the known ones."""
    pools: tuple[Ints, ...]
    """The objects that can be at each position, ascending."""
    most_known: tuple[Floats, ...]
    """Object → log(1 + its facts), for each position: no question about it has more known answers."""
    rejected: Ints
    """Shape (rejected, arity), int32: known negatives, which are not proposed."""

    @classmethod
    def of(cls, predictor: ListwisePredictor) -> Proposer:
        """The proposer of a relation."""
        facts = predictor.kb.tuples(predictor.scorer.relation)
        pools = tuple(_pool(predictor, facts, position) for position in range(predictor.arity))
        counts = (np.bincount(column, minlength=len(predictor.kb.objects)) for column in facts.T)
        rejected = predictor.kb.rejected_tuples(predictor.scorer.relation)
        return cls(predictor, facts, pools, tuple(np.log1p(own) for own in counts), rejected)

    @property
    def candidates(self) -> int:
        """How many tuples can be proposed; for more than two positions, at most."""
        if self.predictor.arity <= 2:
            every = int(np.prod([len(pool) for pool in self.pools], dtype=np.int64))
            return every - self._candidates_in(self.facts) - self._candidates_in(self.rejected)
        return sum(len(self.questions(i)) * len(self.pools[i]) for i in range(self.predictor.arity))

    def _candidates_in(self, tuples: Ints) -> int:
        inside = [np.isin(column, pool) for column, pool in zip(tuples.T, self.pools, strict=True)]
        return int(np.logical_and.reduce(inside).sum())

    def positions(self) -> list[int]:
        """The positions whose questions together have all candidates: the one with fewest questions if it is enough."""
        arity = self.predictor.arity
        if arity > 2:
            return list(range(arity))
        return [min(range(arity), key=lambda position: (len(self.pools[arity - 1 - position]), position))]

    def questions(self, position: int, others: Ints | None = None) -> Ints:
        """Shape (questions, arity), int32: objects at the other positions, and 0 at this one.

        `others` are more facts, of relations of more than two positions, whose objects stand together.
        """
        fixed = [i for i in range(self.predictor.arity) if i != position]
        if len(fixed) != 1:
            tuples = self.facts if others is None else np.concatenate([self.facts, others])
            return np.unique(without(tuples, position), axis=0)
        asked = np.zeros((len(self.pools[fixed[0]]), 2), np.int32)
        asked[:, fixed[0]] = self.pools[fixed[0]]
        return asked

    def shares(self, question: Ints, position: int) -> Shares:
        """The log shares of all candidates of a question."""
        scorer = self.predictor.scorer
        found = scorer.scorers[position].scores(question.tolist())
        known = scorer.known_answers(question.tolist(), NOTHING, position)
        found[known] = -np.inf
        top = found.max(initial=-np.inf)
        found -= top + np.log(np.exp(found - top).sum())
        return Shares(found, len(known))

    def bounds(self, shares: Shares, objects: Ints, position: int) -> Floats:
        """Shape (objects,), float64: no probability of these candidates of a question is larger."""
        known, most = float(np.log1p(shares.known)), self.most_known[position][objects]
        return self.predictor.odds.bound(shares.log_shares[objects], known, most, position)

    def propose(
        self, above: float, deadline: Deadline | None = None, report: Callable[[int], None] | None = None
    ) -> tuple[Ints, Floats]:
        """The tuples (n, arity) that are not known with at least this probability, and their probabilities (n,).

        The most probable come first; ties go by object id. `report` is called with numbers of answered questions.
        """
        deadline = deadline or no_deadline()
        parts = [part for position in self.positions() for part in self._likely(position, above, deadline, report)]
        tuples = np.concatenate([self.facts[:0], *parts])
        if self.predictor.arity > 2:
            tuples = np.unique(tuples, axis=0)
        p = np.concatenate([np.zeros(0), *(self._probabilities(block, deadline) for block in _blocks(tuples))])
        kept = np.flatnonzero((p >= above) & ~self._excluded(tuples, deadline))
        order = kept[np.lexsort((*tuples[kept].T[::-1], -p[kept]))]
        return tuples[order], p[order]

    def _likely(
        self, position: int, above: float, deadline: Deadline, report: Callable[[int], None] | None
    ) -> Iterator[Ints]:
        """The candidates of each question that can reach a probability."""
        pool = self.pools[position]
        asked = self.questions(position)
        for number, question in enumerate(asked, start=1):
            deadline.check()
            if report and (number % REPORTED_QUESTIONS == 0 or number == len(asked)):
                report((number - 1) % REPORTED_QUESTIONS + 1)
            found = self.shares(question, position)
            objects = pool[np.isfinite(found.log_shares[pool])]
            objects = objects[self.bounds(found, objects, position) >= above - TOLERANCE]
            if len(objects):
                tuples = np.tile(question, (len(objects), 1))
                tuples[:, position] = objects
                yield tuples

    def _probabilities(self, tuples: Ints, deadline: Deadline) -> Floats:
        """The probabilities of tuples that are not known, as the model gives them one by one."""
        budget = self.predictor.budget(deadline=deadline)
        return self.predictor.estimate(tuples, hide_nothing(len(tuples)), budget).values

    def _excluded(self, tuples: Ints, deadline: Deadline) -> np.ndarray:
        """Shape (n,): which tuples no list of answers has: known negatives, and those excluded by constraints."""
        found, checker = rows_in(tuples, self.rejected), self.predictor.constraints
        for rule in () if checker is None else checker.rules(deadline):
            if rule.excludes:
                found |= rule.certainty(tuples, hide_nothing(len(tuples))) >= 1
        return found


def without(tuples: Ints, position: int) -> Ints:
    """The tuples with 0 at the position."""
    found = tuples.copy()
    found[:, position] = 0
    return found


def _blocks(tuples: Ints) -> Iterator[Ints]:
    """The tuples in blocks, in order."""
    return (tuples[start : start + MAX_BLOCK] for start in range(0, len(tuples), MAX_BLOCK))


def _pool(predictor: ListwisePredictor, facts: Ints, position: int) -> Ints:
    """The objects that `answers` considers at a position, ascending."""
    terms: list[int | str] = [0] * predictor.arity
    terms[position] = "candidate"
    pattern = QueryPattern(tuple(terms), ("candidate",), "")
    types = predictor.constraints.allowed_objects() if predictor.constraints else NO_TYPES
    return select_candidates(predictor.kb, predictor.query, pattern, facts, types=types).values[:, 0]

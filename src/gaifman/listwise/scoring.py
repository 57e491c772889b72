"""Scores of candidates by a fitted ranker, with facts hidden.

A question has an object at every position but one. The share of a candidate is its probability in the softmax over all
candidates of the question: all objects but the known answers, which are not asked for.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gaifman.kb.tables import Floats, Ints, Longs, freeze
from gaifman.kernels.listwise import own_scores
from gaifman.kernels.listwise_scores import SumScratch, add_entries, score_targets
from gaifman.listwise.mining import NOTHING, Reacher
from gaifman.listwise.ranker import (
    ListwiseConfig,
    Ranker,
    Reals,
    formula_values,
    reach_candidates,
    statistics,
)
from gaifman.listwise.steps import StepIndex


class Scorer:
    """Scores candidates by a ranker on a knowledge base. One thread uses it at a time."""

    def __init__(self, index: StepIndex, ranker: Ranker, config: ListwiseConfig) -> None:
        self.index, self.ranker = index, ranker
        objects = len(index.kb.objects)
        self._reacher = Reacher(index, config.mining.max_steps, config.mining.max_set)
        self._weights = freeze(ranker.formula_weights)
        facts = index.kb.tuples(ranker.relation)
        self._at_position = np.bincount(facts[:, ranker.position], minlength=objects).astype(np.float64)
        own = np.empty(objects)
        own_scores(
            index.marks.starts,
            index.marks.marks,
            freeze(ranker.mark_weights),
            freeze(statistics(self._at_position, index.degrees.astype(np.float64))),
            freeze(ranker.statistic_weights),
            own,
        )
        self._shift = float(own.max(initial=0.0))
        self._own = freeze(own - self._shift)  # a softmax does not change, and exponentials do not overflow
        self._everything = float(np.exp(self._own).sum())
        self._fixed = [i for i in range(facts.shape[1]) if i != ranker.position]
        self._scratch = SumScratch(
            np.zeros(objects, np.int64), np.zeros(objects), np.empty(objects, np.int32), np.zeros(1, np.int64)
        )

    def scores(self, objects: Sequence[int], hidden: Longs = NOTHING) -> Floats:
        """Shape (objects,), float64: the score of every candidate, given the objects of a tuple at other positions.

        Hidden facts lead nowhere; what candidates are by themselves is taken as known.
        """
        entries = self._reach(objects, hidden)
        found = self._own.copy()
        add_entries(0, len(entries[0]), *entries, self._weights, found)
        return found

    def log_shares(self, objects: Sequence[int], targets: Ints, hidden: Longs, known: Ints) -> Floats:
        """Shape (targets,), float64: the logarithm of the share of each target.

        The targets that a hidden fact has as an object are scored without it. `known` are the other answers.
        """
        found = np.empty(len(targets))
        total = score_targets(
            *self._reach(objects, hidden),
            self._weights,
            self._own,
            self._everything,
            freeze(known),
            freeze(targets),
            self._scratch,
            found,
        )
        if not len(hidden):
            return found - total
        changes = np.array([self.own_score(obj, hidden) - self._own[obj] for obj in targets.tolist()])
        # the share of a changed target is one of a sum that changes with it
        odds = found + changes
        before = np.minimum(np.exp(found - total), 1.0)
        found = odds - total
        found -= np.log(np.maximum(1 - before + np.exp(found), 1e-300))
        return found

    def _reach(self, objects: Sequence[int], hidden: Longs) -> tuple[Ints, Ints, Reals]:
        """What the formulas reach: objects, formulas and values."""
        self._reacher.clear()
        reach_candidates(self._reacher, [int(objects[at]) for at in self._fixed], hidden, self.ranker.mined)
        end = self._reacher.end
        values = formula_values(self._reacher.counts[:end], self._reacher.masses[:end])
        return freeze(self._reacher.objects[:end]), freeze(self._reacher.formulas[:end]), freeze(values)

    # One candidate

    def formula_counts(self, objects: Sequence[int], hidden: Longs) -> dict[int, float]:
        """Formula → its value, for the candidate of a whole tuple."""
        found, formulas, values = self._reach(objects, hidden)
        own = found == objects[self.ranker.position]
        return dict(zip(formulas[own].tolist(), values[own].tolist(), strict=True))

    def own_score(self, obj: int, hidden: Longs) -> float:
        """The score that a candidate has by itself, without the hidden facts."""
        marks, values = self.own_features(obj, hidden)
        weights = self.ranker.mark_weights
        total = sum(float(weights[mark]) for mark in marks)
        for value, weight in zip(values, self.ranker.statistic_weights.tolist(), strict=True):
            total += value * weight
        return total - self._shift

    def own_features(self, obj: int, hidden: Longs) -> tuple[list[int], list[float]]:
        """The marks of a candidate, and its statistics, without the hidden facts."""
        index, table = self.index, self.index.table
        begin, end = int(table.starts[obj]), int(table.starts[obj + 1])
        left = {
            int(table.labels[group]): int(table.group_starts[group + 1] - table.group_starts[group])
            for group in range(begin, end)
        }
        types = set(index.marks.marks[index.marks.starts[obj] : index.marks.starts[obj + 1]].tolist()) - set(left)
        at_position, steps = float(self._at_position[obj]), float(index.degrees[obj])
        for fact in hidden.tolist():
            relation, members = index.fact(fact)
            at_position -= relation == self.ranker.relation and members[self.ranker.position] == obj
            for source, member in enumerate(members):
                if member != obj:
                    continue
                types.discard(index.type_mark(relation))
                for target in range(len(members)):
                    if target != source:
                        left[index.label_id(relation, source, target)] -= 1
                        steps -= 1
        marks = [label for label, count in left.items() if count > 0]
        return sorted([*marks, *types]), statistics(np.array([at_position]), np.array([steps]))[0].tolist()

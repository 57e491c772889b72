"""Scores of candidates by a fitted ranker, with facts hidden.

A question has an object at every position but one. The share of a candidate is its probability in the softmax over all
candidates of the question: all objects but the known answers, which are not asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import numpy as np

from gaifman.config import current_deadline
from gaifman.kb.tables import Floats, Ints, Longs, freeze
from gaifman.kernels.listwise import own_scores
from gaifman.kernels.listwise_scores import SumScratch, add_entries, score_targets
from gaifman.listwise.added import NO_ENTRIES, Entries, Question
from gaifman.listwise.mining import NOTHING, Reacher
from gaifman.listwise.ranker import (
    ListwiseConfig,
    Ranker,
    count_at_position,
    reach_candidates,
    statistics,
)
from gaifman.listwise.steps import StepIndex
from gaifman.listwise.values import Reals
from gaifman.threads import ProcessLock


class Workspace:
    """Scratch memory to score one question at a time."""

    def __init__(self, index: StepIndex, config: ListwiseConfig, max_steps: int) -> None:
        objects = len(index.kb.objects)
        self.reacher = Reacher(index, max_steps, config.mining.max_set, config.bound)
        self.sums = SumScratch(
            np.zeros(objects, np.int64), np.zeros(objects), np.empty(objects, np.int32), np.zeros(1, np.int64)
        )


class Workspaces:
    """Workspaces for several threads, which are used again."""

    def __init__(self, index: StepIndex, config: ListwiseConfig, max_steps: int | None = None) -> None:
        self._make = partial(Workspace, index, config, max_steps or config.mining.max_steps)
        self._free: list[Workspace] = []
        self._lock = ProcessLock()

    @contextmanager
    def use(self) -> Iterator[Workspace]:
        """A workspace that no other thread uses meanwhile; the active deadline stops its walks."""
        with self._lock:
            space = self._free.pop() if self._free else self._make()
        space.reacher.deadline = current_deadline()
        try:
            yield space
        finally:
            with self._lock:
                self._free.append(space)


class Scorer:
    """Scores candidates by a ranker on a knowledge base. Several threads can use it."""

    def __init__(
        self, index: StepIndex, ranker: Ranker, config: ListwiseConfig, workspaces: Workspaces | None = None
    ) -> None:
        self.index, self.ranker = index, ranker
        objects = len(index.kb.objects)
        self._spaces = workspaces or Workspaces(index, config)
        self._weights = freeze(np.concatenate([ranker.formula_weights, ranker.added_weights]))
        ranker.added.prepare()
        facts = index.kb.tuples(ranker.relation)
        self._at_position = count_at_position(index.kb, ranker.relation, ranker.position)
        own = np.empty(objects)
        own_scores(
            ranker.added.marks(),
            freeze(ranker.own_weights),
            freeze(statistics(self._at_position, index.degrees)),
            freeze(ranker.statistic_weights),
            own,
        )
        self._shift = float(own.max(initial=0.0))
        self._own = freeze(own - self._shift)  # a softmax does not change, and exponentials do not overflow
        self._everything = float(np.exp(self._own).sum())
        self._fixed = [i for i in range(facts.shape[1]) if i != ranker.position]

    def added(self, questions: Iterable[Question]) -> Iterator[Entries]:
        """What added formulas contribute to questions, in order; some are computed together."""
        return self.ranker.added.answer(questions)

    def scores(self, objects: Sequence[int], hidden: Longs = NOTHING, added: Entries | None = None) -> Floats:
        """Shape (objects,), float64: the score of every candidate, given the objects of a tuple at other positions.

        Hidden facts lead nowhere; the marks and statistics of candidates are taken as known. `added` is what added
        formulas contribute; None if it is still to be computed.
        """
        found = self._own.copy()
        with self._spaces.use() as space:
            entries = self._reach(space, objects, hidden, added)
            add_entries(0, len(entries[0]), *entries, self._weights, found)
        return found

    def target_scores(
        self, objects: Sequence[int], targets: Ints, hidden: Longs, known: Ints, added: Entries | None = None
    ) -> tuple[Floats, float]:
        """The scores of targets, and for the question the logarithm of the sum over all candidates.

        The scores are those without the hidden facts; `known` are known answers, which are no candidates. `added` is
        what added formulas contribute; None if it is still to be computed.
        """
        found = np.empty(len(targets))
        with self._spaces.use() as space:
            total = score_targets(
                *self._reach(space, objects, hidden, added),
                self._weights,
                self._own,
                self._everything,
                freeze(known),
                freeze(targets),
                space.sums,
                found,
            )
        return found, total

    def _reach(
        self, space: Workspace, objects: Sequence[int], hidden: Longs, added: Entries | None
    ) -> tuple[Ints, Ints, Reals]:
        """What the formulas reach: objects, formulas and values."""
        reacher, first_added = space.reacher, self.ranker.first_added
        [entries] = self.added([(objects, hidden)]) if added is None else [added]
        reacher.clear()
        reach_candidates(reacher, [int(objects[at]) for at in self._fixed], hidden, self.ranker.mined)
        reacher.append(entries.objects, entries.formulas + first_added, entries.values)
        rows = slice(reacher.end)
        return freeze(reacher.objects[rows]), freeze(reacher.formulas[rows]), freeze(reacher.values[rows])

    # One candidate

    def formula_counts(self, objects: Sequence[int], hidden: Longs) -> dict[int, tuple[float, float]]:
        """Mined formula → its value and the number of its groundings, for the candidate of a whole tuple."""
        with self._spaces.use() as space:
            found, formulas, values = self._reach(space, objects, hidden, NO_ENTRIES)
            own = found == objects[self.ranker.position]
            counts = space.reacher.counts[: space.reacher.end][own].tolist()
            return dict(zip(formulas[own].tolist(), zip(values[own].tolist(), counts, strict=True), strict=True))

    def member_sets(self, objects: Sequence[int], hidden: Longs) -> list[Ints | None]:
        """The members that walks for a tuple keep to, one set for each draw; [None] without a bound."""
        with self._spaces.use() as space:
            steps = max((one.paths.shape[1] for one in self.ranker.mined), default=1)
            return [*space.reacher.drawer.draw([int(objects[at]) for at in self._fixed], hidden, steps)] or [None]

    @property
    def shift(self) -> float:
        """What all scores are lowered by; shares do not change with it."""
        return self._shift

    def own_change(self, obj: int, hidden: Longs) -> float:
        """By how much the score that a candidate has by itself changes without the hidden facts."""
        changes = self.index.mark_changes(obj, hidden)
        before, after = self._statistics(obj, hidden[:0]), self._statistics(obj, hidden)
        total = sum(float(self.ranker.mark_weights[mark]) * change for mark, change in changes.items())
        return total + float(((after - before) * self.ranker.statistic_weights).sum())

    def own_features(self, obj: int, hidden: Longs) -> tuple[dict[int, float], list[float]]:
        """The marks of a candidate with their values, and its statistics, without the hidden facts."""
        own, changes = self.index.marks, self.index.mark_changes(obj, hidden)
        rows = slice(int(own.starts[obj]), int(own.starts[obj + 1]))
        marks = dict(zip(own.marks[rows].tolist(), own.values[rows].tolist(), strict=True))
        marks = {mark: value + changes.get(mark, 0.0) for mark, value in marks.items()}
        return {mark: value for mark, value in marks.items() if value > 1e-6}, self._statistics(obj, hidden).tolist()

    def _statistics(self, obj: int, hidden: Longs) -> Floats:
        """Shape (3,), float64: the statistics of a candidate without the hidden facts."""
        index, position = self.index, self.ranker.position
        at_position, steps = float(self._at_position[obj]), float(index.degrees[obj])
        for fact in hidden.tolist():
            relation, members = index.fact(fact)
            confidence = float(index.confidences[fact])
            at_position -= confidence * (relation == self.ranker.relation and members[position] == obj)
            steps -= confidence * members.count(obj) * (len(members) - 1)
        found: Floats = statistics(np.array([at_position]), np.array([steps]))[0]
        return found

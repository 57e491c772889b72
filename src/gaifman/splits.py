"""Scores of all candidates for one place of a pair: what is around each object is computed once.

Draws are shared (see `docs/neighbourhoods.md`): what is drawn around an object is a prefix of one random order, whose
length hangs on how many neighbours the other object has. Where a candidate and the fixed object do not touch, every
feature speaks of one of the two alone, and the first layer of the network adds what each gives. A pair that touches is
scored by the plain path, with the same draws.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from gaifman.drawing import frozen
from gaifman.families import pattern
from gaifman.features import Evaluator, FeatureMatrix
from gaifman.graph import Graph, ranges
from gaifman.judging import Judge, averages
from gaifman.kb import KnowledgeBase
from gaifman.kernels.ranking import touching
from gaifman.learning import Learning, Scorer
from gaifman.neighbourhoods import Neighbourhoods, draw
from gaifman.network import Network, Reals
from gaifman.questions import Feature
from gaifman.tables import Floats, Ints, Longs, Names

APART = ("hop", "hops", "kind", "fixed", "pair", "linked", "path", "paths", "wide")
"""Families of features that speak of one object alone, or need the two to touch."""


def splittable(features: tuple[Feature, ...], learning: Learning, width: int) -> bool:
    """Whether scores of such a model can be split."""
    size = learning.size
    plain = width == 2 and learning.radius == 1 and size is not None and size % 2 == 0
    return plain and all((found := pattern(feature)) is not None and found[0] in APART for feature in features)


class Field:
    """What is around every object of a knowledge base, for one set of features and one way of drawing."""

    def __init__(self, judge: Judge, learning: Learning, draws: int, purpose: str = "answer 0") -> None:
        assert learning.size is not None, "the size is even"
        self.judge, self.draws, self.quota = judge, draws, learning.size // 2
        self.sampling = replace(learning.sampling(draws, purpose), shared=True)
        self.graph = _with_nobody(judge.graph)
        self._evaluator = Evaluator(self.graph, judge.evaluator.plan)
        self._matrices: dict[tuple[int, int], FeatureMatrix] = {}
        self._members: dict[tuple[int, int], Neighbourhoods] = {}

    @property
    def lengths(self) -> range:
        """How long a draw around one object can be."""
        return range(self.quota, 2 * self.quota + 1)

    @cached_property
    def everybody(self) -> Ints:
        """Shape (objects,), int32: how much longer than its share a draw is around the partner of each object."""
        degrees = self.judge.graph.degrees
        return np.where(degrees > self.quota, 0, self.quota - degrees).astype(np.int32)

    def beside(self, obj: int) -> int:
        """How long the draw around a partner of an object is."""
        return self.quota + int(self.everybody[obj])

    def matrix(self, position: int, length: int) -> FeatureMatrix:
        """The features of each object at a position, with nobody at the other: a row for each object and draw."""
        key = position, length
        if key not in self._matrices:
            sampling = replace(self.sampling, size=length)
            self._matrices[key] = self._evaluator.sampled(self._alone(position), sampling)
        return self._matrices[key]

    def members(self, position: int, length: int) -> Neighbourhoods:
        """Who is drawn around each object at a position."""
        key = position, length
        if key not in self._members:
            self._members[key] = draw(self.graph, self._alone(position), replace(self.sampling, size=length))
        return self._members[key]

    def _alone(self, position: int) -> Ints:
        count = len(self.judge.graph)
        tuples = np.full((count, 2), count, np.int32)  # nobody is the last object
        tuples[:, position] = np.arange(count)
        return tuples


def _with_nobody(graph: Graph) -> Graph:
    """The graph with one object more, of which nothing is known: the last by its name."""
    kb = graph.kb
    names = Names([*kb.objects, f"{kb.objects[-1]}'"])
    starts = frozen(np.append(graph.starts, graph.starts[-1]))
    return replace(graph, kb=KnowledgeBase(replace(kb.content, objects=names)), starts=starts)


class Split:
    """Scores of a model's candidates by way of a field; `scores` is what `Plain` has."""

    def __init__(self, field: Field, scorer: Scorer, counts: Sequence[int] | None = None) -> None:
        assert isinstance(scorer.base, Network), "only a network's first layer can be split"
        self.field, self.scorer, self.base = field, scorer, scorer.base
        self.counts = tuple(counts or (field.draws,))
        self._sums: dict[tuple[int, int], Reals] = {}

    def scores(self, tuples: Ints, position: int) -> Floats:
        """Shape (counts, b, objects), float64: means over draws for each tuple with every object at a position."""
        found = np.empty((len(self.counts), len(tuples), len(self.field.judge.graph)))
        for row, fixed in enumerate(tuples[:, 1 - position].tolist()):
            found[:, row] = self._scored(fixed, position)
        return found

    def _scored(self, fixed: int, position: int) -> Floats:
        """One object with every candidate; who touches it in some draw is scored plainly, with all draws."""
        field, numbers = self.field, range(self.field.draws)
        touched = np.maximum.reduce([self.touched(fixed, position, number) for number in numbers])
        each = np.stack([self._added(fixed, position, number, touched) for number in numbers], axis=1)
        near = np.flatnonzero(touched)
        pairs = np.full((len(near), 2), fixed, np.int32)
        pairs[:, position] = near
        matrix = field.judge.evaluator.sampled(pairs, field.sampling, threads=1)
        each[near] = self.scorer.raw(matrix).reshape(-1, field.draws)
        return averages(each, self.counts)

    def _added(self, fixed: int, position: int, number: int, touched: npt.NDArray[np.uint8]) -> Floats:
        """One object with those that do not touch it, by one draw: sums of both, added."""
        field = self.field
        own = np.concatenate([self._own(fixed, 1 - position, length, number) for length in field.lengths])
        others = self._others(position, field.beside(fixed), number)
        return self.base.ranked(own, field.everybody, others, touched)

    def _own(self, obj: int, position: int, length: int, number: int) -> Reals:
        """Sums of one object's draw."""
        row = np.array([obj * self.field.draws + number])
        return self.base.first_sums(self.scorer.inputs.rows(self.field.matrix(position, length), row))

    def _others(self, position: int, length: int, number: int) -> Reals:
        """Sums of every object's draw, kept: most fixed objects have many neighbours and ask for the same."""
        key = position * (2 * self.field.quota + 1) + length, number
        if key not in self._sums:
            count, draws = len(self.field.judge.graph), self.field.draws
            rows = np.arange(number, count * draws, draws)
            self._sums[key] = self.base.first_sums(self.scorer.inputs.rows(self.field.matrix(position, length), rows))
        return self._sums[key]

    def touched(self, fixed: int, position: int, number: int) -> npt.NDArray[np.uint8]:
        """Shape (objects,), uint8: 1 for those at the position that touch a fixed object, in one draw."""
        field, graph = self.field, self.field.judge.graph
        lists, before = [], np.zeros(0, np.int32)
        for length in field.lengths:
            drawn = np.setdiff1d(field.members(1 - position, length).of(fixed, number), [fixed, len(graph)])
            lists.append(np.setdiff1d(drawn, before))
            before = drawn
        starts = np.append(0, np.cumsum([len(own) for own in lists]))
        others = field.members(position, field.beside(fixed))
        touched = np.zeros(len(graph), np.uint8)
        touching(
            graph.starts,
            graph.neighbours,
            fixed,
            frozen(starts.astype(np.int64)),
            frozen(np.concatenate(lists).astype(np.int32)),
            *_of_draw(others, number),
            frozen(field.everybody),
            np.zeros(len(graph) + 1, np.uint8),
            touched,
        )
        return touched


def _of_draw(drawn: Neighbourhoods, number: int) -> tuple[Longs, Ints]:
    """Starts and members of one draw of each object."""
    if drawn.draws == 1:
        return drawn.starts, drawn.members
    rows = np.arange(number, len(drawn), drawn.draws)
    lengths = np.diff(drawn.starts)[rows]
    at = ranges(drawn.starts[rows], drawn.starts[rows + 1])
    return frozen(np.append(0, np.cumsum(lengths))), frozen(drawn.members[at])

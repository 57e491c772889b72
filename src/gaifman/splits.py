"""Scores of all candidates for one place of a pair: what is around each object is computed once.

Draws are shared (see `docs/neighbourhoods.md`): what is drawn around an object is a prefix of one random order, whose
length hangs on how many neighbours the other object has. Where a candidate and the fixed object do not touch, every
feature speaks of one of the two alone, and the first layer of the network adds what each gives. Where they touch, the
features that come of it are added. What that cannot say is scored by the plain path, with the same draws.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from gaifman.deadlines import Deadline, never
from gaifman.drawing import Tools, frozen
from gaifman.families import pattern
from gaifman.features import Evaluator, FeatureMatrix
from gaifman.graph import Graph, ranges
from gaifman.judging import Judge, averages
from gaifman.kb import KnowledgeBase
from gaifman.kernels.draws import measured
from gaifman.kernels.further import BOTH, More, Rows, Sides, find_more, known
from gaifman.kernels.pools import Members
from gaifman.kernels.ranking import tell_apart
from gaifman.kernels.rows import Met
from gaifman.kernels.touching import FAR, FILLED, PLAIN, Near, Order, Question, fill_up, forget, reach, sort_out
from gaifman.learning import Learning, Scorer
from gaifman.neighbourhoods import Neighbourhoods, draw, job_of
from gaifman.network import Network, Reals
from gaifman.questions import Feature
from gaifman.tables import Floats, Ints, Longs, Names

SIMPLE = ("hop", "hops", "kind", "fixed", "pair", "linked", "path", "paths")
"""Families of features that speak of one object alone, or need the two to touch; what comes of that is put together."""
APART = (*SIMPLE, "wide", "walk", "walks")
"""With those that need the two to touch, or their members, and are left to the plain path then."""
SUMS = 1 << 28
"""Bytes of sums that a model keeps while it ranks."""
ROOM = 16
"""Further features of a candidate that there is room for at first, on average: to find out that it is too little costs
as much as finding them."""

Kinds = npt.NDArray[np.uint8]


def splittable(features: tuple[Feature, ...], learning: Learning, width: int) -> bool:
    """Whether scores of such a model can be split."""
    shares = (width, learning.radius) == (2, 1) and learning.size != 1  # of one member neither has a share
    return shares and all((found := pattern(feature)) is not None and found[0] in APART for feature in features)


@dataclass(frozen=True, slots=True)
class Around:
    """What is around every object at one position, with nobody at the other."""

    matrix: FeatureMatrix
    """The features, of draws of all lengths."""
    rows: Longs
    """Shape (levels, objects), int64: the row of an object's first draw; those of its other draws follow."""
    orders: tuple[Order, ...]
    """Of each draw, who is drawn."""

    def of(self, rows: Longs) -> Rows:
        """Some rows, for the kernels."""
        return Rows(self.matrix.starts, self.matrix.ids, self.matrix.values, frozen(rows))


class Field:
    """What is around every object of a knowledge base, for one set of features and one way of drawing."""

    def __init__(self, judge: Judge, learning: Learning, draws: int, purpose: str = "answer 0") -> None:
        self.judge, self.draws, self.size = judge, draws, learning.size
        self.quota = 0 if learning.size is None else learning.size // 2
        self.sampling = replace(learning.sampling(draws, purpose), shared=True)
        self._graph = _with_nobody(judge.graph)
        self._evaluator = Evaluator(self._graph, judge.evaluator.plan)
        self._around: dict[int, Around] = {}
        self._looks: dict[tuple[int, int, int], tuple[Ints, Longs]] = {}
        self._guard = threading.Lock()
        self._latest = threading.local()

    @cached_property
    def patterns(self) -> list[tuple[object, ...]]:
        """What each feature asks for."""
        return [pattern(feature) or () for feature in self.judge.evaluator.plan.features]

    @cached_property
    def simple(self) -> bool:
        """Whether all that comes of touching is put together here."""
        evaluator, kinds = self.judge.evaluator, {found[0] for found in self.patterns}
        circles = evaluator.families is not None and np.diagonal(evaluator.families.joins).any()
        return kinds <= {*SIMPLE} and evaluator.world.links.pure and not len(evaluator.left) and not circles

    @cached_property
    def far(self) -> bool:
        """Whether features ask how members of one object are linked to members of the other."""
        return any(found[0] in ("walk", "walks") for found in self.patterns)

    @cached_property
    def sides(self) -> Kinds:
        """Shape (features,), uint8: the position of the object that a feature speaks of, or BOTH."""
        alone = ("hop", "hops", "kind", "fixed")
        return frozen(np.array([found[1] if found[0] in alone else BOTH for found in self.patterns], np.uint8))

    @cached_property
    def needed(self) -> Ints:
        """Shape (objects,), int32: how much longer than its share a draw is around the partner of each object."""
        return frozen(np.maximum(self.quota - self.judge.graph.degrees, 0).astype(np.int32))

    @property
    def cost(self) -> int:
        """Members that are drawn to find what is around every object: both time and memory grow with them."""
        degrees, quota = self.judge.graph.degrees, self.quota
        if self.size is None:
            return 4 * self.draws * int(degrees.sum())
        levels = ((level, int((degrees >= quota + level).sum())) for level in range(1, quota + 2))
        first = int(np.minimum(degrees, quota).sum())
        return 2 * self.draws * (first + sum(count * (quota + level) for level, count in levels))

    def around(self, position: int, deadline: Deadline | None = None) -> Around:
        """What is around every object at a position: found once, whichever thread asks first."""
        with self._guard:
            if position not in self._around:
                self._around[position] = self._found(position, deadline or never())
            return self._around[position]

    def _found(self, position: int, deadline: Deadline) -> Around:
        """Level by level: a draw around an object with few neighbours does not grow, and is not done again."""
        degrees, objects = self.judge.graph.degrees, np.arange(len(self.judge.graph))
        rows = np.zeros((self.quota + 1, len(objects)), np.int64)
        levels, matrices, drawn, count = [], [], [], 0
        for level in range(self.quota + 2):  # the last for who comes in place of a neighbour: see `touching.Reach`
            deadline.check()
            chosen = objects if level == 0 else objects[degrees >= self.quota + level]
            tuples = np.full((len(chosen), 2), len(objects), np.int32)  # nobody is the last object
            tuples[:, position] = chosen
            sampling = self.sampling if self.size is None else replace(self.sampling, size=self.quota + level)
            drawn.append(draw(self._graph, tuples, sampling))
            levels.append(chosen)
            if level <= self.quota:
                rows[level] = rows[level - 1]
                rows[level, chosen] = count + np.arange(len(chosen)) * self.draws
                count += len(chosen) * self.draws
                matrices.append(self._evaluator.sampled(tuples, sampling))
        bonds = self._evaluator.world.links.bonds
        orders = tuple(_order(len(objects), levels, drawn, number, bonds) for number in range(self.draws))
        return Around(_stacked(matrices), rows, orders)

    def looks(self, position: int, level: int, number: int) -> tuple[Ints, Longs]:
        """Which objects have the same features in a draw: shape (objects,), int32; and a row (looks,) for each look."""
        around, key = self.around(position), (position, level, number)
        with self._guard:
            if key not in self._looks:
                rows = around.of(around.rows[level] + number)
                looks, firsts = np.empty(len(rows.rows), np.int32), np.empty(len(rows.rows), np.int64)
                table = np.full(2 << len(looks).bit_length(), -1, np.int32)
                count = tell_apart(rows, table, looks, firsts)
                self._looks[key] = frozen(looks), frozen(firsts[:count])
            return self._looks[key]

    def split(self, scorer: Scorer, counts: Sequence[int]) -> Split:
        """A split for one model; the thread's last one where it is of the same model, with the sums it keeps."""
        latest: Split | None = getattr(self._latest, "split", None)
        if latest is None or latest.scorer is not scorer or latest.counts != tuple(counts):
            latest = self._latest.split = Split(self, scorer, counts)
        return latest


def _order(objects: int, levels: Sequence[Longs], drawn: Sequence[Neighbourhoods], number: int, bonds: Ints) -> Order:
    """Who is drawn in one of the draws: at each level those that were not there before, by object and level."""
    held, members, lists, level_of = [], [], [], []
    before = np.zeros(0, np.int64)
    for level, (chosen, found) in enumerate(zip(levels, drawn, strict=True)):
        at = np.arange(len(chosen)) * found.draws + number
        lengths = np.diff(found.starts)[at]
        places = ranges(found.starts[at], found.starts[at + 1])
        holders = np.repeat(chosen, lengths)
        new = (found.edges[places] >= 0) & ~np.isin(holders * (objects + 1) + found.members[places], before)
        held.append(holders[new])
        members.append(found.members[places[new]])
        lists.append(bonds[found.edges[places[new]]])
        level_of.append(np.full(int(new.sum()), level, np.int32))
        before = np.concatenate([before, held[-1] * (objects + 1) + members[-1]])
    holders = np.concatenate(held)
    order = np.argsort(holders, kind="stable")  # levels stay ascending
    starts = np.searchsorted(holders[order], np.arange(objects + 1)).astype(np.int64)
    return Order(frozen(starts), *(frozen(np.concatenate(parts)[order]) for parts in (members, lists, level_of)))


def _stacked(matrices: Sequence[FeatureMatrix]) -> FeatureMatrix:
    """The rows of matrices of the same features, one matrix after another."""
    lengths = np.concatenate([np.diff(matrix.starts) for matrix in matrices])
    return replace(
        matrices[-1],
        starts=frozen(np.append(0, np.cumsum(lengths))),
        ids=frozen(np.concatenate([matrix.ids for matrix in matrices])),
        values=frozen(np.concatenate([matrix.values for matrix in matrices])),
        sizes=frozen(np.concatenate([matrix.sizes for matrix in matrices])),
    )


def _with_nobody(graph: Graph) -> Graph:
    """The graph with one object more, of which nothing is known: the last by its name."""
    kb = graph.kb
    names = Names([*kb.objects, f"{kb.objects[-1]}'"])
    starts = frozen(np.append(graph.starts, graph.starts[-1]))
    return replace(graph, kb=KnowledgeBase(replace(kb.content, objects=names)), starts=starts)


class Split:
    """Scores of a model's candidates by way of a field, on one thread; `scores` is what `Plain` has."""

    def __init__(self, field: Field, scorer: Scorer, counts: Sequence[int] | None = None) -> None:
        assert isinstance(scorer.base, Network), "only a network's first layer can be split"
        self.field, self.scorer, self.base = field, scorer, scorer.base
        self.counts = tuple(counts or (field.draws,))
        self._sums: dict[tuple[int, int, int], Reals] = {}
        self._touch = _Touch(field, scorer.inputs.features())

    @property
    def kept(self) -> int:
        """Bytes that are kept for the next question: sums, and room to work in."""
        return sum(sums.nbytes for sums in self._sums.values()) + self._touch.nbytes

    def scores(self, tuples: Ints, position: int) -> Floats:
        """Shape (counts, b, objects), float64: means over draws for each tuple with every object at a position."""
        found = np.empty((len(self.counts), len(tuples), len(self.field.judge.graph)))
        left = [np.zeros((0, 2), np.int64)]
        for row, fixed in enumerate(tuples[:, 1 - position].tolist()):
            each, kinds = self._each(fixed, position)
            found[:, row] = averages(each, self.counts)
            near = np.flatnonzero(kinds == PLAIN)
            left.append(np.stack([np.full(len(near), row), near], axis=1))
        rows, near = np.concatenate(left).T
        found[:, rows, near] = self._plainly(tuples[rows], near, position)
        return found

    def _plainly(self, tuples: Ints, candidates: Longs, position: int) -> Floats:
        """Shape (counts, b): of the tuples (b, n) with candidates put at the position, each by itself."""
        pairs = tuples.copy()
        pairs[:, position] = candidates
        matrix = self.field.judge.evaluator.sampled(pairs, self.field.sampling, threads=1)
        return averages(self.scorer.raw(matrix).reshape(-1, self.field.draws), self.counts)

    def _each(self, fixed: int, position: int) -> tuple[Floats, Kinds]:
        """Shape (objects, draws): what each draw says of every candidate; and for which that means nothing."""
        each = np.empty((len(self.field.judge.graph), self.field.draws))
        left = np.zeros(len(each), np.uint8)
        for number in range(self.field.draws):
            kinds, more = self._touch.found(fixed, position, number)
            own = self._own(fixed, 1 - position, number)
            level, needed = int(self.field.needed[fixed]), self.field.needed
            others, looks = self._others(position, level, number), self.field.looks(position, level, number)[0]
            each[:, number] = self.base.ranked(own, needed, others, looks, kinds, self.scorer.inputs.changes(more))
            left = np.where(kinds == PLAIN, kinds, left)
        return each, left

    def _own(self, obj: int, position: int, number: int) -> Reals:
        """Sums of one object's draw, for each length that it can have."""
        around = self.field.around(position)
        return self.base.first_sums(self.scorer.inputs.rows(around.matrix, around.rows[:, obj] + number))

    def _others(self, position: int, level: int, number: int) -> Reals:
        """Sums of every look in a draw, kept: most fixed objects have many neighbours and ask for the same."""
        key = position, level, number
        if key not in self._sums:
            rows = self.field.looks(*key)[1]
            sums = self.base.first_sums(self.scorer.inputs.rows(self.field.around(position).matrix, rows))
            while self._sums and sums.nbytes * (len(self._sums) + 1) > SUMS:
                del self._sums[next(iter(self._sums))]
            self._sums[key] = sums
        return self._sums[key]


class _Touch:
    """Who touches an object, and which of the wanted features come of it. Of one thread."""

    def __init__(self, field: Field, wanted: Longs) -> None:
        self._field, evaluator = field, field.judge.evaluator
        self._links, self._facts, self._families = *evaluator.world[:2], evaluator.families
        count, features = len(field.judge.graph), len(evaluator.plan.features)
        self._near = Near(
            np.zeros(count, np.uint8),
            np.full(count, -1, np.int32),
            np.full(count, FAR, np.int32),
            np.zeros(count + 1, np.int64),
            np.empty((1 << 12, 2), np.int32),
            np.zeros(count, np.int64),
            np.zeros(1, np.int64),
        )
        words = (features + 63) >> 6
        bits = np.zeros(words << 6, bool)
        bits[wanted] = True
        self._wanted = frozen(np.packbits(bits, bitorder="little").view(np.uint64))
        self._sides = Sides(field.sides, np.empty((field.quota + 1, words), np.uint64))
        tops = np.zeros((words + 63) >> 6, np.uint64)
        self._met = Met(np.zeros(words, np.uint64), tops, evaluator.counts, np.zeros(features, np.float32))
        self._more = self._room(features + ROOM * count)
        self._tools = Tools()

    @property
    def nbytes(self) -> int:
        """Bytes of its own arrays."""
        arrays: list[npt.NDArray[Any]] = [*self._near, *self._more, *self._met, self._sides.known]
        return int(sum(array.nbytes for array in arrays))

    def _room(self, entries: int) -> More:
        starts = np.zeros(len(self._near.bonds) + 1, np.int64)
        reals = np.empty(entries, np.float32), np.empty(entries, np.float32)
        return More(starts, np.empty(entries, np.int32), *reals)

    def found(self, fixed: int, position: int, number: int) -> tuple[Kinds, More]:
        """Of which kind each candidate for a position is, and the further features of those that touch."""
        field, links = self._field, self._links
        own, others = field.around(1 - position), field.around(position)
        size = -1 if field.size is None else field.size
        orders = own.orders[number], others.orders[number]
        question = Question(fixed, 1 - position, *orders, field.needed, size)
        kinds = np.empty(len(field.judge.graph), np.uint8)
        while (room := reach(links, question, self._near)) > len(self._near.reached):
            self._near = self._near._replace(reached=np.empty((2 * room, 2), np.int32))
        filled = sort_out(links, question, self._near, field.simple, field.far, kinds)
        starts, members = self._filled(question, kinds, number) if filled else _NOBODY
        pairs = int(((kinds != 0) & (kinds != PLAIN)).sum())
        rows = own.of(own.rows[:, fixed] + number), others.of(others.rows[int(field.needed[fixed])] + number)
        if pairs:
            known(rows[0], self._wanted, self._sides.known)
            while self._put(question, kinds, starts, members, rows) < 0:
                self._more = self._room(2 * len(self._more.ids))
        forget(links, question, self._near)
        return kinds, self._more._replace(starts=self._more.starts[: pairs + 1])

    def _put(self, question: Question, kinds: Kinds, starts: Longs, members: Members, rows: tuple[Rows, Rows]) -> int:
        families = self._families
        assert families is not None, "pairs touch by features of families"
        tools = self._sides, *rows, self._met, self._more
        return find_more(families, self._links, self._facts, question, self._near, kinds, starts, members, *tools)

    def _filled(self, question: Question, kinds: Kinds, number: int) -> tuple[Longs, Members]:
        """Who else is drawn for pairs that share members."""
        near = np.flatnonzero(kinds == FILLED)
        pairs = np.full((len(near), 2), question.one, np.int32)
        pairs[:, 1 - question.place] = near
        job = job_of(self._field.judge.graph, pairs, self._field.sampling, None)
        (batch,) = job.rows(0, len(pairs))
        longest, union, most, room = map(int, measured(batch, job.plan))
        members, ends = Members(np.empty(room, np.int32), np.empty(room, np.int32)), np.empty(len(pairs), np.int64)
        scratch = self._tools.fitted(longest, union, most)
        fill_up(self._links, self._near, batch, job.plan, scratch, number, question, members, ends)
        return frozen(np.append(0, ends)), members


_NOBODY = frozen(np.zeros(1, np.int64)), Members(np.zeros(0, np.int32), np.zeros(0, np.int32))

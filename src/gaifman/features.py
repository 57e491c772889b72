r"""The features of neighbourhoods, as a sparse matrix.

>>> import gaifman
>>> from gaifman.graph import graph_of
>>> from gaifman.neighbourhoods import Sampling, draw
>>> from gaifman.phi import parse_phi
>>> from gaifman.plans import plan_of
>>> kb = gaifman.KnowledgeBase.from_facts([("likes", "ann", "bob"), ("likes", "bob", "cleo"), ("likes", "ann", "dan")])
>>> graph = graph_of(kb)
>>> plan = plan_of(parse_phi("likes(s1, x)\n∃x likes(s1, x) ∧ likes(x, s2)\n∀x, y likes(x, y) → likes(y, x)"), kb, 2)
>>> drawn = draw(graph, [[0, 2]], Sampling(size=None))  # ann and cleo
>>> Evaluator(graph, plan).features(drawn).dense()
array([[2., 1., 0.]], dtype=float32)
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gaifman.drawing import frozen
from gaifman.errors import KnowledgeError, LimitError
from gaifman.families import families_of, label_bases
from gaifman.graph import Graph
from gaifman.kernels.evaluation import (
    DONE,
    FACTS,
    LABELS,
    Index,
    Neighbours,
    Output,
    Tools,
    World,
    evaluate,
    set_defaults,
)
from gaifman.kernels.local import PLACES, Incidence, Links, Local
from gaifman.kernels.machine import RESULTS, SLOTS, VARIABLES, Room
from gaifman.kernels.machine import Values as Numbers
from gaifman.kernels.paths import Lists, Sums
from gaifman.neighbourhoods import Hidden, Neighbourhoods, Sampling
from gaifman.plans import Plan
from gaifman.tables import Ints, Longs

Reals = npt.NDArray[np.float32]

LARGEST = 1 << 26
"""Words that the tables of one program may take: half a gigabyte."""
BLOCK = 4096
"""Rows that a thread evaluates at once."""


@dataclass(frozen=True, slots=True)
class FeatureMatrix:
    """Rows are neighbourhoods, columns features; what is not stored is the column's default for the row's size."""

    starts: Longs
    """Shape (rows + 1,), int64: the entries of row `i` are `starts[i]` to `starts[i + 1]`."""
    ids: Ints
    """Shape (entries,), int32: features, ascending in each row."""
    values: Reals
    """Shape (entries,), float32."""
    sizes: Ints
    """Shape (rows,), int32: members of each neighbourhood."""
    shapes: Ints
    """Shape (features,), int32: a row of `defaults`, or −1 for 0."""
    defaults: Reals
    """Shape (shapes, largest size + 1), float32: the value of an absent feature by the number of members."""

    def __len__(self) -> int:
        return len(self.sizes)

    def dense(self) -> Reals:
        """Shape (rows, features): every value, defaults too. For small matrices."""
        whole = np.zeros((len(self), len(self.shapes)), np.float32)
        kept = self.shapes >= 0
        whole[:, kept] = self.defaults[self.shapes[kept]][:, self.sizes].T
        whole[np.repeat(np.arange(len(self)), np.diff(self.starts)), self.ids] = self.values
        return whole


class Evaluator:
    """A plan made ready for one graph: evaluates its features in any drawn neighbourhoods.

    `specialised=False` leaves every feature to the machine of bit tables, which is slower and gives the same.
    """

    def __init__(self, graph: Graph, plan: Plan, *, specialised: bool = True) -> None:
        self.graph, self.plan = graph, plan
        families, taken = families_of(graph, plan)
        self._families = families if specialised else families._replace(wanted=False)
        self._taken = frozenset(taken.tolist()) if specialised else frozenset()
        self._world = World(links_of(graph), incidence_of(graph), _values(graph))
        self._index = self._without_defaults()
        self._left = np.setdiff1d(np.arange(len(plan.features)), list(self._taken))

    def features(
        self,
        drawn: Neighbourhoods,
        hidden: Hidden | None = None,
        *,
        dropping: Sampling | None = None,
        threads: int | None = None,
    ) -> FeatureMatrix:
        """The matrix of all drawn neighbourhoods.

        Facts `hidden` from a tuple are not seen. With `dropping`, a fact of confidence c drops out of a neighbourhood
        with probability 1 − c, keyed by that sampling. The same for any number of threads.
        """
        if drawn.places.shape[1] != self.plan.width:
            wrong = drawn.places.shape[1]
            raise KnowledgeError(f"the features are for tuples of {self.plan.width} objects, these have {wrong}")
        sizes = np.diff(drawn.starts).astype(np.int32)
        most = int(sizes.max(initial=1))
        words = self._words(most)
        neighbours = _neighbours(drawn, hidden, dropping)
        tools = self._tools(most, words)
        index = self._index._replace(defaults=self._defaults(sizes, self._index.shapes, tools))
        begins = range(0, len(drawn), BLOCK)
        count = min(len(begins), len(os.sched_getaffinity(0)) if threads is None else threads)

        def work(first: int) -> list[Part]:
            own = tools if first == 0 else self._tools(most, words)
            return [self._block(index, neighbours, own, b, min(b + BLOCK, len(drawn))) for b in begins[first::count]]

        parts = _abreast(work, count)
        return _joined(parts, sizes, index)

    def _words(self, most: int) -> int:
        """Words for the largest tables, or an error where they would not fit."""
        words = self.plan.words(most)[self._left]
        if words.max(initial=0) > LARGEST:
            worst = self._left[int(words.argmax())]
            size = words.max() * 8 / 1e9
            raise LimitError(
                f"in a neighbourhood of {most:,} members the tables of {self.plan.features[worst]} would take "
                f"{size:,.1f} GB; the limit is {LARGEST * 8 / 1e9:,.1f} GB",
                hint="draw smaller neighbourhoods (k), or use fewer variables at once",
            )
        return int(words.max(initial=1))

    def _block(self, index: Index, neighbours: Neighbours, tools: Tools, begin: int, end: int) -> Part:
        """Some rows: ids, values and where each row ends."""
        room = 64 * (end - begin) + 2 * len(self.plan.features) + 1024
        ends, state = np.zeros(end - begin, np.int64), np.array([0, 0, begin], np.int64)
        output = Output(np.empty(room, np.int32), np.empty(room, np.float32), ends, state)
        tools.sums.marks[:] = 0
        while True:
            status = evaluate(self.plan.programs, index, self._families, self._world, neighbours, tools, output)
            if status == DONE:
                return output.ids[: state[1]], output.values[: state[1]], ends
            tools.sums.marks[:] = 0
            if status == FACTS:
                tools = tools._replace(local=_local(self.graph, 4 * len(tools.local.numbers)))
            elif status == LABELS:
                longer = np.empty(4 * len(tools.lists.labels), np.int32)
                tools = tools._replace(lists=tools.lists._replace(labels=longer))
            else:
                ids, values = np.resize(output.ids, 2 * len(output.ids)), np.resize(output.values, 2 * len(output.ids))
                output = Output(ids, values, ends, state)

    def _tools(self, most: int, words: int) -> Tools:
        features, width = max(1, len(self.plan.features)), self.plan.width
        return Tools(
            _local(self.graph, 1024),
            _room(self.plan, words),
            Lists(np.empty(4096, np.int32), np.empty((width, most + 1), np.int32)),
            Sums(np.zeros(features, np.int32), np.zeros(features, np.float32)),
            np.empty(features, np.int32),
        )

    def _without_defaults(self) -> Index:
        """Which programs to run for which relations; what the others are worth depends on the sizes."""
        plan = self.plan
        left = [p for p in range(len(plan.features)) if p not in self._taken]
        concerned = np.array(sorted((r, p) for p in left for r in plan.relations[p]), np.int64).reshape(-1, 2)
        rest = [p for p in left if not plan.relations[p]]
        shapes = plan.shapes.copy()
        shapes[list(self._taken)] = -1
        present = np.unique(
            shapes[shapes >= 0]
        )  # numbered anew: a shape that only families have has no default to find
        shapes = np.where(shapes >= 0, np.searchsorted(present, shapes), -1).astype(np.int32)
        starts = np.searchsorted(concerned[:, 0], np.arange(len(self.graph.kb.content.relations) + 1))
        return Index(
            frozen(starts.astype(np.int64)),
            frozen(concerned[:, 1].astype(np.int32)),
            frozen(np.array([p for p in rest if not plan.numeric(p)], np.int32)),
            frozen(np.array([p for p in rest if plan.numeric(p)], np.int32)),
            frozen(shapes),
            frozen(np.zeros((0, 0), np.float32)),
        )

    def _defaults(self, sizes: Ints, shapes: Ints, tools: Tools) -> Reals:
        count = int(shapes.max(initial=-1)) + 1
        chosen = np.array([int(np.argmax(shapes == shape)) for shape in range(count)], np.int32)
        most = int(sizes.max(initial=0))
        defaults = np.zeros((count, most + 1), np.float32)
        nobody, own = np.zeros(max(most, 1), np.int32), np.zeros(self.plan.width, np.int32)
        empty = frozen(chosen), frozen(np.unique(sizes)), frozen(nobody), frozen(own)
        set_defaults(self.plan.programs, *empty, self._world.values, tools, defaults)
        return frozen(defaults)


Part = tuple[Ints, Reals, Longs]
"""Some rows: ids, values, and where each row ends."""


def _abreast(work: Callable[[int], list[Part]], count: int) -> list[Part]:
    """The parts of `count` workers, each of which does every count-th block, in the order of the blocks."""
    if count <= 1:
        return work(0) if count else []
    with ThreadPoolExecutor(count) as pool:
        done = list(pool.map(work, range(count)))
    return [done[b % count][b // count] for b in range(sum(map(len, done)))]


def _joined(parts: list[Part], sizes: Ints, index: Index) -> FeatureMatrix:
    ids = np.concatenate([np.zeros(0, np.int32), *(part[0] for part in parts)])
    values = np.concatenate([np.zeros(0, np.float32), *(part[1] for part in parts)])
    lengths = np.concatenate([np.zeros(0, np.int64), *(np.diff(part[2], prepend=0) for part in parts)])
    starts = np.append(0, np.cumsum(lengths)).astype(np.int64)
    return FeatureMatrix(frozen(starts), frozen(ids), frozen(values), frozen(sizes), index.shapes, index.defaults)


def features_of(graph: Graph, drawn: Neighbourhoods, plan: Plan, hidden: Hidden | None = None) -> FeatureMatrix:
    """The features of a plan in every drawn neighbourhood; whoever asks often keeps an `Evaluator`."""
    return Evaluator(graph, plan).features(drawn, hidden)


def links_of(graph: Graph) -> Links:
    """The graph as the kernels see it."""
    arrays = (graph.starts, graph.neighbours, graph.label_starts, graph.labels, graph.facts, graph.label_table)
    arities = np.array(graph.kb.content.arities, np.int64)
    binary = (arities[graph.label_table[:, 0]] == 2).astype(np.uint8)
    return Links(*arrays, label_bases(graph), frozen(binary))


def incidence_of(graph: Graph) -> Incidence:
    """All facts by number, as the kernels see them."""
    tables = [graph.kb.tables[arity] for arity in graph.fact_offsets]
    none = np.zeros(0, np.int32)
    relations = np.concatenate([none, *(table.relation for table in tables)])
    arities = np.concatenate([none, *(np.full(len(t), t.objects.shape[1], np.int32) for t in tables)])
    objects = np.concatenate([none, *(table.objects.ravel() for table in tables)])
    starts = np.append(0, np.cumsum(arities, dtype=np.int64))
    alone = [
        np.flatnonzero((t.objects == t.objects[:, :1]).all(axis=1)) + graph.fact_offsets[a]
        for a, t in zip(graph.fact_offsets, tables, strict=True)
    ]
    own = np.concatenate([np.zeros(0, np.int64), *alone])
    holders = objects[starts[own]]
    order = np.lexsort([own, holders])
    own_starts = np.searchsorted(holders[order], np.arange(len(graph) + 1))
    certain = all(table.confidence is None for table in tables)
    confidence = [np.ones(len(t)) if t.confidence is None else t.confidence for t in tables]
    return Incidence(
        frozen(relations),
        frozen(starts),
        frozen(objects),
        frozen(own_starts.astype(np.int64)),
        frozen(own[order].astype(np.int32)),
        frozen(np.concatenate([np.zeros(0), *([] if certain else confidence)])),
    )


def _values(graph: Graph) -> Numbers:
    numbers = graph.kb.numbers
    return Numbers(numbers.starts, numbers.object, numbers.value)


def _local(graph: Graph, room: int) -> Local:
    relations = max(1, len(graph.kb.content.relations))
    return Local(
        np.full(len(graph), -1, np.int32),
        np.full(relations, -1, np.int32),
        np.zeros(relations, np.int32),
        np.zeros(room, np.int32),
        np.zeros((room, PLACES), np.int32),
        np.zeros(room, np.int32),
        np.zeros(2, np.int64),
    )


def _room(plan: Plan, words: int) -> Room:
    registers = int(np.diff(plan.programs.register_starts).max(initial=1))
    return Room(
        np.zeros(max(words, 1), np.uint64),
        np.zeros(registers, np.int64),
        np.zeros(VARIABLES, np.int32),
        np.zeros(SLOTS, np.int32),
        np.zeros(SLOTS, np.int32),
        np.zeros(RESULTS, np.float64),
    )


def _neighbours(drawn: Neighbourhoods, hidden: Hidden | None, dropping: Sampling | None) -> Neighbours:
    hidden = hidden or Hidden(np.zeros(len(drawn.places) + 1, np.int64), np.zeros(0, np.int64))
    keys = np.zeros(0, np.uint64) if dropping is None else dropping.keys()
    return Neighbours(
        drawn.starts,
        drawn.members,
        frozen(drawn.places),
        drawn.draws,
        frozen(np.asarray(hidden.starts, np.int64)),
        frozen(np.asarray(hidden.facts, np.int64)),
        frozen(keys),
    )

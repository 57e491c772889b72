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
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from gaifman.drawing import Part, fact_rows, frozen, in_blocks
from gaifman.errors import KnowledgeError, LimitError
from gaifman.families import along_bonds, families_of
from gaifman.graph import Graph
from gaifman.kernels.evaluation import DONE, FACTS, LABELS, Index, Neighbours, Tools, World, read_rows, run_rows
from gaifman.kernels.families import Families
from gaifman.kernels.lists import Lists
from gaifman.kernels.local import PLACES, Local
from gaifman.kernels.machine import RESULTS, SLOTS, VARIABLES, Room
from gaifman.kernels.rows import Met, Output, merge
from gaifman.kernels.walks import Memo
from gaifman.neighbourhoods import (
    Hidden,
    Neighbourhoods,
    Sampling,
    checked_hidden,
    checked_tuples,
    draw,
    job_of,
    neighbourhoods_of,
)
from gaifman.plans import Plan
from gaifman.tables import Ints, Longs
from gaifman.worlds import world_of

Reals = npt.NDArray[np.float32]
Bits = npt.NDArray[np.uint64]

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
        families, taken = families_of(graph, plan) if specialised else (None, np.zeros(0, np.int32))
        self.world = world_of(graph)
        self.families = None
        if families is not None and len(taken):
            self.families = along_bonds(families, self.world.links)
        self.left = np.setdiff1d(np.arange(len(plan.features)), taken)
        self._index = _index(graph, plan, self.left)
        self.counts = _bits(len(plan.features), [*self.left.tolist(), *_counting(self.families)])

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
        index = self._index._replace(defaults=self._defaults(np.unique(sizes), most))
        neighbours = _neighbours(self.graph, drawn, hidden, dropping)
        blocks = [(begin, min(begin + BLOCK, len(drawn))) for begin in range(0, len(drawn), BLOCK)]
        threads = len(os.sched_getaffinity(0)) if threads is None else threads
        done = in_blocks(blocks, threads, lambda: partial(self._worker(most).block, index, neighbours))
        return _joined(done, sizes, index)

    def sampled(
        self,
        tuples: npt.ArrayLike,
        sampling: Sampling,
        hidden: Hidden | None = None,
        *,
        dropping: bool = False,
        threads: int | None = None,
    ) -> FeatureMatrix:
        """Draw neighbourhoods of tuples and evaluate them block by block: the same matrix in less time and memory.

        With `dropping`, uncertain facts drop out, keyed by the sampling.
        """
        numbers = checked_tuples(self.graph, tuples)
        if sampling.size is None or numbers.shape[1] != self.plan.width:  # sizes are not known before the draw
            drawn = draw(self.graph, numbers, sampling, hidden, threads)
            return self.features(drawn, hidden, dropping=sampling if dropping else None, threads=threads)
        job = job_of(self.graph, numbers, sampling, hidden)
        most = min(sampling.size, len(self.graph)) + self.plan.width
        index = self._index._replace(defaults=self._defaults(np.arange(1, most + 1), most))

        def worker() -> Callable[[int, int, Part], tuple[Output, Ints]]:
            own = self._worker(most)

            def finish(begin: int, end: int, part: Part) -> tuple[Output, Ints]:
                first, last = job.hidden_starts[begin], job.hidden_starts[end]
                unseen = Hidden(job.hidden_starts[begin : end + 1] - first, job.hidden[first:last])
                drawn = neighbourhoods_of(job, numbers[begin:end], part)
                block = _neighbours(self.graph, drawn, unseen, sampling if dropping else None)
                return own.block(index, block, 0, len(drawn)), np.diff(drawn.starts).astype(np.int32)

            return finish

        done = job.abreast(len(os.sched_getaffinity(0)) if threads is None else threads, worker)
        sizes = np.concatenate([np.zeros(0, np.int32), *(part[1] for part in done)])
        return _joined([part[0] for part in done], sizes, index)

    def _worker(self, most: int) -> _Worker:
        """What one thread works with, for neighbourhoods of up to `most` members."""
        return _Worker(self.graph, self.plan, self.world, self.families, self.counts, self._words(most), most)

    def _words(self, most: int) -> int:
        """Words for the largest tables, or an error where they would not fit."""
        if not len(self.left):
            return 1
        words = self.plan.words(most)[self.left]
        if words.max(initial=0) > LARGEST:
            worst = self.left[int(words.argmax())]
            size = words.max() * 8 / 1e9
            raise LimitError(
                f"in a neighbourhood of {most:,} members the tables of {self.plan.features[worst]} would take "
                f"{size:,.1f} GB; the limit is {LARGEST * 8 / 1e9:,.1f} GB",
                hint="draw smaller neighbourhoods (k), or use fewer variables at once",
            )
        return int(words.max(initial=1))

    def _defaults(self, sizes: npt.NDArray[np.integer], most: int) -> Reals:
        """For each shape and size, the value in a neighbourhood without facts: by one program of the shape."""
        shapes = self._index.shapes
        count = int(shapes.max(initial=-1)) + 1
        defaults = np.zeros((count, most + 1), np.float32)
        if count and len(sizes):
            chosen = np.array([int(np.argmax(shapes == shape)) for shape in range(count)], np.int32)
            none, nowhere = np.full(len(shapes), -1, np.int32), np.zeros((0, most + 1), np.float32)
            bare = self._index._replace(always=frozen(chosen), shapes=frozen(none), defaults=frozen(nowhere), bare=True)
            nobody, nothing = np.zeros(int(sizes.sum()), np.int32), np.zeros(0, np.int32)
            places = np.zeros((len(sizes), self.plan.width), np.int32)
            starts = np.append(0, np.cumsum(sizes, dtype=np.int64))
            empty = Neighbourhoods(frozen(starts), frozen(nobody), nothing, 1, places, frozen(nothing))
            found = self._worker(most).run(bare, _neighbours(self.graph, empty, None, None), 0, len(sizes))
            defaults[:, sizes] = _joined([found], sizes.astype(np.int32), bare).dense()[:, chosen].T
        return frozen(defaults)


class _Worker:
    """What one thread works with, grown when it does not suffice."""

    def __init__(
        self, graph: Graph, plan: Plan, world: World, families: Families | None, counts: Bits, words: int, most: int
    ) -> None:
        self._graph, self._world, self._families, self._programs = graph, world, families, plan.programs
        count = len(plan.features)
        bits = (count + 63) >> 6
        self._met = Met(
            np.zeros(bits, np.uint64), np.zeros((bits + 63) >> 6, np.uint64), counts, np.zeros(count, np.float32)
        )
        self._memo = _memo()
        self._tools = Tools(_local(graph, 1024), _room(plan, words), np.zeros(count, np.int32))
        pairs = (plan.width, most)
        self._lists = Lists(
            np.empty(most, np.int64),
            np.empty(most, np.int32),
            np.empty(pairs, np.int32),
            np.empty(pairs, np.int32),
            np.empty(pairs, np.int32),
            np.empty(4096, np.int32),
            np.empty(most, np.int32),
            np.empty(most, np.int32),
            np.empty((2, most), np.uint64),
        )

    def block(self, index: Index, neighbours: Neighbours, begin: int, end: int) -> Output:
        """Some rows, of families and programs together."""
        if self._families is None:
            return self.run(index, neighbours, begin, end)
        read = self._read(self._families, neighbours, begin, end)
        if not len(index.always) and not len(index.programs):
            return read
        other = self.run(index, neighbours, begin, end)
        both = _output(int(read.state[1] + other.state[1]), begin, end)
        merge(read, other, both)
        both.state[1] = both.ends[-1]
        return both

    def _read(self, families: Families, neighbours: Neighbours, begin: int, end: int) -> Output:
        output = _output(64 * (end - begin) + 2 * len(self._met.values), begin, end)
        kept = self._lists, self._memo, self._met
        while (status := read_rows(families, self._world, neighbours, *kept, output)) != DONE:
            if status == LABELS:
                longer = np.empty(4 * len(self._lists.labels), np.int32)
                self._lists = self._lists._replace(labels=longer)
                kept = self._lists, self._memo, self._met
            else:
                output = _longer(output)
        return output

    def run(self, index: Index, neighbours: Neighbours, begin: int, end: int) -> Output:
        """Some rows of programs."""
        output = _output(64 * (end - begin) + 2 * len(self._met.values), begin, end)
        while True:
            self._tools.marks[:] = 0
            status = run_rows(self._programs, index, self._world, neighbours, self._tools, self._met, output)
            if status == DONE:
                return output
            if status == FACTS:
                self._tools = self._tools._replace(local=_local(self._graph, 4 * len(self._tools.local.following)))
            else:
                output = _longer(output)


def _counting(families: Families | None) -> list[int]:
    """The features of families whose values are other than 0 and 1."""
    if families is None:
        return []
    wide = families.wide[families.wide[:, 1] != 0, 0]
    hashed = (table[table[:, 0] >= 0, 1] & 0xFFFFFFFF for table in (families.path, families.walk))
    tables = families.hops, wide, *(table - 1 for table in hashed)
    counting = {feature for table in tables for feature in table.ravel().tolist() if feature >= 0}
    return [*counting, *(other for one, other in families.twins.tolist() if one in counting)]


def _bits(count: int, chosen: list[int]) -> Bits:
    """A bit for each of `count` features: set where it is one of the chosen."""
    flags = np.zeros(((count + 63) >> 6) << 6, np.uint8)
    flags[chosen] = 1
    return frozen(np.packbits(flags, bitorder="little").view(np.uint64))


def _memo() -> Memo:
    """Room to remember what paths over three bonds are asked for."""
    size = 1 << 15
    return Memo(
        np.full((size, 2), -1, np.int64),
        np.zeros(1 << 18, np.int32),
        np.zeros(2, np.int64),
    )


def _output(room: int, begin: int, end: int) -> Output:
    """Room for entries of rows `begin` to `end`."""
    ends, state = np.zeros(end - begin, np.int64), np.array([0, 0, begin], np.int64)
    return Output(np.empty(room, np.int32), np.empty(room, np.float32), ends, state)


def _longer(output: Output) -> Output:
    room = 2 * len(output.ids)
    return output._replace(ids=np.resize(output.ids, room), values=np.resize(output.values, room))


def _index(graph: Graph, plan: Plan, left: Longs) -> Index:
    """Which programs to run for which relations; what the others are worth depends on the sizes."""
    concerned = np.array(sorted((r, p) for p in left.tolist() for r in plan.relations[p]), np.int64).reshape(-1, 2)
    rest = [p for p in left.tolist() if not plan.relations[p]]
    shapes = np.full(len(plan.features), -1, np.int32)
    shapes[left] = plan.shapes[left]
    present = np.unique(shapes[shapes >= 0])  # numbered anew: a shape that only families have has no default to find
    shapes = np.where(shapes >= 0, np.searchsorted(present, shapes), -1).astype(np.int32)
    starts = np.searchsorted(concerned[:, 0], np.arange(len(graph.kb.content.relations) + 1))
    wanted = np.full(len(graph.kb.content.relations), len(rest) > 0, np.uint8)
    wanted[concerned[:, 0]] = 1
    return Index(
        frozen(starts.astype(np.int64)),
        frozen(concerned[:, 1].astype(np.int32)),
        frozen(np.array(rest, np.int32)),
        frozen(shapes),
        frozen(np.zeros((0, 0), np.float32)),
        frozen(wanted),
        not len(concerned) and all(plan.numeric(p) for p in rest),
    )


def _joined(parts: list[Output], sizes: Ints, index: Index) -> FeatureMatrix:
    ids = np.concatenate([np.zeros(0, np.int32), *(part.ids[: part.state[1]] for part in parts)])
    values = np.concatenate([np.zeros(0, np.float32), *(part.values[: part.state[1]] for part in parts)])
    lengths = np.concatenate([np.zeros(0, np.int64), *(np.diff(part.ends, prepend=0) for part in parts)])
    starts = np.append(0, np.cumsum(lengths)).astype(np.int64)
    return FeatureMatrix(frozen(starts), frozen(ids), frozen(values), frozen(sizes), index.shapes, index.defaults)


def features_of(graph: Graph, drawn: Neighbourhoods, plan: Plan, hidden: Hidden | None = None) -> FeatureMatrix:
    """The features of a plan in every drawn neighbourhood; whoever asks often keeps an `Evaluator`."""
    return Evaluator(graph, plan).features(drawn, hidden)


def _local(graph: Graph, room: int) -> Local:
    relations = max(1, len(graph.kb.content.relations))
    return Local(
        np.full(len(graph), -1, np.int32),
        np.full(relations, -1, np.int32),
        np.zeros(relations, np.int32),
        np.zeros(room, np.int32),
        np.zeros((room, PLACES), np.int32),
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


def _neighbours(graph: Graph, drawn: Neighbourhoods, hidden: Hidden | None, dropping: Sampling | None) -> Neighbours:
    starts, facts = checked_hidden(graph, hidden, len(drawn.places))
    return Neighbours(
        drawn.starts,
        drawn.members,
        drawn.edges,
        frozen(drawn.places),
        drawn.draws,
        frozen(starts),
        frozen(facts),
        fact_rows(graph, facts),
        frozen(np.zeros(0, np.uint64) if dropping is None else dropping.keys()),
    )

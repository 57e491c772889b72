"""Around the kernels: a batch of tuples in blocks, blocks on threads, scratch for each thread, results put together.

What stands here is about speed and memory alone. `gaifman.neighbourhoods` is what a reader wants.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from gaifman.kb.gaifman_graph import GaifmanGraph
from gaifman.kb.tables import Ints, Longs
from gaifman.kernels.graph import (
    Adjacency,
    BallRows,
    HiddenFactRows,
    SearchState,
    facts_outside_tuple,
    hidden_edges,
    look_up_facts,
    write_balls,
)
from gaifman.kernels.sampling import (
    UNBOUNDED,
    DrawnMembers,
    DrawPlan,
    Scratch,
    TupleBatch,
    draw_members,
    look_up_rows,
    measure_batch,
)

TRIAL_FACTOR = 1
"""How many times k a row is, at least, where filling tries places at random and does not write out all pools."""
MEMBERS_PER_BLOCK = 1 << 17
"""Members that one block of tuples may have: enough to hide the cost of a call, few enough for the cache."""
OBJECTS_PER_BLOCK = 1 << 22
"""Objects that the balls of one block may have, where a radius above 1 asks for balls."""

DrawnPart = tuple[Ints, Ints, Longs]
"""Members of some draws, one after another, where each was found, and where those of each draw end."""

_Kind = TypeVar("_Kind", bound=np.generic)
_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class DrawJob:
    """A batch to draw."""

    graph: GaifmanGraph
    tuples: Ints
    """Shape (b, n): objects."""
    radius: int
    plan: DrawPlan
    hidden_starts: Longs
    """Shape (b + 1,): the facts that tuple `t` does not see are `hidden[hidden_starts[t] : hidden_starts[t + 1]]`."""
    hidden: Longs
    """Shape (all hidden,): fact numbers, as in `GaifmanGraph.facts`."""

    def draw(self, threads: int) -> DrawnPart:
        """All draws, the same for any number of threads."""
        return concatenate_parts(self.map_blocks(threads, lambda: lambda _, __, part: part))

    def edge_indices(self, source_indices: Ints) -> Ints:
        """The edges that places are, none where they are not: balls are no rows of the graph."""
        known = self.radius < 2 and len(self.graph.neighbours) < 1 << 31
        return freeze(source_indices if known else source_indices[:0])

    def map_blocks(
        self, threads: int, make_worker: Callable[[], Callable[[int, int, DrawnPart], _Result]]
    ) -> list[_Result]:
        """Draw in blocks and do something with each, on the thread that has drawn it; the results in order.

        `worker` is called once on each thread, and what it gives for each block of tuples, from the first to the last.
        """

        def drawer() -> Callable[[int, int], _Result]:
            tools, finish = GrowingScratch(), make_worker()
            batches = self.row_batches if self.radius < 2 else self._ball_batches()

            def drawn(begin: int, end: int) -> _Result:
                parts = [self._draw_batch(batch, tools) for batch in batches(begin, end)]
                return finish(begin, end, parts[0] if len(parts) == 1 else concatenate_parts(parts))

            return drawn

        return map_threaded(self._blocks(), threads, drawer)

    def _blocks(self) -> list[tuple[int, int]]:
        """Ranges of tuples that make about `MEMBERS_PER_BLOCK` members each."""
        count, width = self.tuples.shape
        draws = len(self.plan.keys)
        if self.radius > 1:
            step = 64
        elif self.plan.size != UNBOUNDED:
            step = max(1, MEMBERS_PER_BLOCK // (draws * (width + min(self.plan.size, MEMBERS_PER_BLOCK))))
        else:
            lengths = (self.graph.starts[self.tuples + 1] - self.graph.starts[self.tuples]).sum(axis=1) + width
            number = np.cumsum(lengths * draws) // MEMBERS_PER_BLOCK
            ends = [*(np.flatnonzero(np.diff(number)) + 1).tolist(), count]
            return list(zip([0, *ends[:-1]], ends, strict=True)) if count else []
        return [(begin, min(begin + step, count)) for begin in range(0, count, step)]

    def row_batches(self, begin: int, end: int) -> Iterator[TupleBatch]:
        """Radius 1: the rows of the graph as they are; radius 0: rows of no length."""
        tuples = self.tuples[begin:end]
        starts, lengths = np.zeros(tuples.shape, np.int64), np.zeros(tuples.shape, np.int64)
        if self.radius:
            look_up_rows(self.graph.starts, tuples, starts, lengths)
        yield TupleBatch(tuples, self.graph.neighbours, freeze(starts), freeze(lengths), *self._cut_edges(begin, end))

    def _cut_edges(self, begin: int, end: int) -> tuple[Longs, Longs]:
        """What hidden facts take away from some of the tuples: see `find_cut_edges`."""
        starts = self.hidden_starts[begin : end + 1]
        starts, facts = starts - starts[0], self.hidden[starts[0] : starts[-1]]
        if self.radius < 2 and len(facts):
            # At radius 1 those between the tuple's own objects take nothing away, and they are nearly all: the fact
            # that is hidden is most often the tuple's own.
            kept_starts, kept = np.zeros(len(starts), np.int64), np.empty(len(facts), np.int64)
            rows = fact_rows(self.graph, facts)
            count = facts_outside_tuple(self.tuples[begin:end], freeze(starts), rows, kept_starts, kept)
            starts, facts = kept_starts, facts[kept[:count]]
        return find_cut_edges(self.graph, starts, facts)

    def _ball_batches(self) -> Callable[[int, int], Iterator[TupleBatch]]:
        """Radius 2 or more: all objects within it, walked to once for all draws of a tuple."""
        objects, width = len(self.graph), self.tuples.shape[1]
        search = SearchState(np.zeros(objects, np.int32), np.empty(objects, np.int32), np.zeros(1, np.int64))
        room = min(max(width * objects, OBJECTS_PER_BLOCK), 64 * width * objects)
        source, places = np.empty(room, np.int32), np.empty(room if len(self.hidden) else 0, np.int64)
        adjacency = _adjacency(self.graph)

        def batches(begin: int, end: int) -> Iterator[TupleBatch]:
            tuples, first = self.tuples[begin:end], 0
            edge_starts, edges = self._cut_edges(begin, end)
            while first < len(tuples):
                shape = (len(tuples) - first, width)
                starts, lengths = np.empty(shape, np.int64), np.empty(shape, np.int64)
                rows = BallRows(source, starts, lengths, np.empty(shape[0] + 1, np.int64), places)
                last = write_balls(adjacency, search, self.radius, tuples, first, edge_starts, edges, rows)
                count = last - first
                yield TupleBatch(
                    tuples[first:last],
                    freeze(source),
                    freeze(starts[:count]),
                    freeze(lengths[:count]),
                    freeze(rows.cut_starts[: count + 1]),
                    freeze(places),
                )
                first = last

        return batches

    def _draw_batch(self, batch: TupleBatch, scratch: GrowingScratch) -> DrawnPart:
        """The members of one batch."""
        longest, union, most, room = map(int, measure_batch(batch, self.plan))  # uncompiled, they are not plain
        members = DrawnMembers(np.empty(room, np.int32), np.empty(room, np.int32))
        ends = np.empty(len(batch.tuples) * len(self.plan.keys), np.int64)
        count = draw_members(batch, self.plan, scratch.ensure(longest, union, most), members, ends)
        return members.objects[:count], members.source_indices[:count], ends


class GrowingScratch:
    """The scratch of one thread, grown when a longer row comes."""

    def __init__(self) -> None:
        self._longest = self._union = self._count = -1
        self._scratch: Scratch

    def ensure(self, longest: int, union: int, count: int) -> Scratch:
        """Scratch for rows and unions up to this long and sets of up to `count` members."""
        if longest > self._longest or union > self._union or count > self._count:
            self._longest, self._union = max(longest, self._longest), max(union, self._union)
            self._count = max(count, self._count, 4)
            room = max(self._longest, self._union, self._count)
            self._scratch = Scratch(
                np.arange(room, dtype=np.int32),
                np.empty(room, np.int32),
                np.empty(room, np.int32),
                np.empty(2 << (self._count - 1).bit_length(), np.int32),
                np.empty(self._union, np.int32),
                np.empty(self._union, np.int32),
                np.empty(room, np.int32),
            )
        return self._scratch


def map_threaded(
    blocks: list[tuple[int, int]], threads: int, make_worker: Callable[[], Callable[[int, int], _Result]]
) -> list[_Result]:
    """The results of blocks, from the first to the last, whoever did them: `worker` is called once on each thread."""
    waiting, done = iter(blocks), dict[int, _Result]()

    def work() -> None:
        """Take blocks until none is left: what one thread does. A list's iterator is safe to share."""
        one = make_worker()
        for begin, end in waiting:
            done[begin] = one(begin, end)

    count = min(threads, len(blocks))
    if count < 2:
        work()
    else:
        with ThreadPoolExecutor(count) as pool:
            for future in [pool.submit(work) for _ in range(count)]:
                future.result()
    return [done[begin] for begin, _ in blocks]


def freeze(array: npt.NDArray[_Kind]) -> npt.NDArray[_Kind]:
    """The array, contiguous and read-only: kernels are compiled once, for arrays of this kind."""
    view = np.ascontiguousarray(array).view()
    view.setflags(write=False)
    return view


def find_cut_edges(graph: GaifmanGraph, starts: Longs, facts: Longs) -> tuple[Longs, Longs]:
    """The edges that only hidden facts give: starts (b + 1,) and places in `neighbours`, ascending for each tuple.

    The facts hidden from tuple `t` are `facts[starts[t] : starts[t + 1]]`.
    """
    edge_starts = np.zeros(len(starts), np.int64)
    if len(facts) == 0:
        return freeze(edge_starts), freeze(np.zeros(0, np.int64))
    if np.diff(starts).max() > 1:
        facts = facts[np.lexsort([facts, _holders(starts)])]
    rows = fact_rows(graph, freeze(facts))
    edges = np.empty(len(rows) * (rows.shape[1] - 1) * (rows.shape[1] - 2), np.int64)
    count = hidden_edges(_adjacency(graph), HiddenFactRows(freeze(starts), freeze(facts), rows), edge_starts, edges)
    return freeze(edge_starts), freeze(edges[:count])


def _holders(starts: Longs) -> Longs:
    """The tuple of each hidden fact."""
    return np.repeat(np.arange(len(starts) - 1), np.diff(starts))


def fact_rows(graph: GaifmanGraph, facts: Longs) -> Ints:
    """Shape (facts, 1 + widest, at least 3), int32: the relation and objects of each fact, then −1."""
    rows = np.full((len(facts), 1 + max([2, *graph.kb.fact_tables])), -1, np.int32)
    for arity, offset in graph.fact_offsets.items():
        table = graph.kb.fact_tables[arity]
        look_up_facts(freeze(facts), offset, table.relation, table.objects, rows)
    return freeze(rows)


def concatenate_parts(parts: list[DrawnPart]) -> DrawnPart:
    """Parts one after another, as one."""
    members, spots = (np.concatenate([np.zeros(0, np.int32), *(part[i] for part in parts)]) for i in range(2))
    lengths = [np.diff(part[2], prepend=0) for part in parts]
    return members, spots, np.cumsum(np.concatenate([np.zeros(0, np.int64), *lengths]))


def _adjacency(graph: GaifmanGraph) -> Adjacency:
    return Adjacency(graph.starts, graph.neighbours, graph.label_starts, graph.label_facts)

"""Around the kernels: a batch of tuples in blocks, blocks on threads, scratch for each thread, results put together.

What stands here is about speed and memory alone. `gaifman.sampling.neighbourhoods` is what a reader wants.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from gaifman.config import check_int, check_seed, cpu_count
from gaifman.errors import KnowledgeBaseError
from gaifman.kb.arrays import adjacency
from gaifman.kb.facts import Fact
from gaifman.kb.gaifman_graph import GaifmanGraph, build_graph, check_radius
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.kb.tables import Ints, Longs, concatenate_ranges, freeze
from gaifman.kernels.graph import (
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
from gaifman.sampling.rng import Keys, fold_in, make_key
from gaifman.threads import map_with_workers

TRIAL_FACTOR = 1
"""How many times k a row is, at least, where filling tries places at random and does not write out all pools."""
MEMBERS_PER_BLOCK = 1 << 17
"""Members that one block of tuples may have: enough to hide the cost of a call, few enough for the cache."""
OBJECTS_PER_BLOCK = 1 << 22
"""Objects that the balls of one block may have, where a radius above 1 asks for balls."""

DrawnPart = tuple[Ints, Ints, Longs]
"""Members of some draws, one after another, where each was found, and where those of each draw end."""

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

        def drawer() -> Callable[[tuple[int, int]], _Result]:
            tools, finish = GrowingScratch(), make_worker()
            batches = self.row_batches if self.radius < 2 else self._ball_batches()

            def drawn(block: tuple[int, int]) -> _Result:
                begin, end = block
                parts = [self._draw_batch(batch, tools) for batch in batches(begin, end)]
                return finish(begin, end, parts[0] if len(parts) == 1 else concatenate_parts(parts))

            return drawn

        return map_with_workers(drawer, self._blocks(), threads)

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
        rows_of_graph = adjacency(self.graph)

        def batches(begin: int, end: int) -> Iterator[TupleBatch]:
            tuples, first = self.tuples[begin:end], 0
            edge_starts, edges = self._cut_edges(begin, end)
            while first < len(tuples):
                shape = (len(tuples) - first, width)
                starts, lengths = np.empty(shape, np.int64), np.empty(shape, np.int64)
                rows = BallRows(source, starts, lengths, np.empty(shape[0] + 1, np.int64), places)
                last = write_balls(rows_of_graph, search, self.radius, tuples, first, edge_starts, edges, rows)
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
    count = hidden_edges(adjacency(graph), HiddenFactRows(freeze(starts), freeze(facts), rows), edge_starts, edges)
    return freeze(edge_starts), freeze(edges[:count])


def _holders(starts: Longs) -> Longs:
    """The tuple of each hidden fact."""
    return np.repeat(np.arange(len(starts) - 1), np.diff(starts))


def fact_rows(graph: GaifmanGraph, facts: Longs) -> Ints:
    """Shape (facts, 1 + widest, at least 3), int32: the relation and objects of each fact, then −1."""
    rows = np.full((len(facts), 1 + max([2, *graph.kb.fact_tables])), -1, np.int32)
    for arity, offset in graph.kb.fact_offsets.items():
        table = graph.kb.fact_tables[arity]
        look_up_facts(freeze(facts), offset, table.relation, table.objects, rows)
    return freeze(rows)


def concatenate_parts(parts: list[DrawnPart]) -> DrawnPart:
    """Parts one after another, as one."""
    members, spots = (np.concatenate([np.zeros(0, np.int32), *(part[i] for part in parts)]) for i in range(2))
    lengths = [np.diff(part[2], prepend=0) for part in parts]
    return members, spots, np.cumsum(np.concatenate([np.zeros(0, np.int64), *lengths]))


MAX_DRAWS = 1_000_000
"""Draws for one tuple at most: they are in memory together."""


@dataclass(frozen=True, slots=True)
class SamplingConfig:
    """How neighbourhoods are drawn; the words of the paper are r, k and w."""

    radius: int = 1
    """r: how far from an object of the tuple a member may be."""
    size: int | None = 20
    """k: how many members there may be besides the tuple's own objects; None for all."""
    draws: int = 1
    """w: how many neighbourhoods for each tuple."""
    seed: int = 0
    purpose: str = "draw"
    """What the draws are for: the same seed gives other draws for another purpose."""
    shared_order: bool = False
    """Whether all tuples that have an object at one position share the random order of what is around it.

    For each tuple the distribution is the same; over tuples the draws are then not independent, and work can be shared.
    """

    def __post_init__(self) -> None:
        check_radius(self.radius)
        if self.size is not None:
            hint = "the tuple's own objects are always members: r=0 takes them alone, k=None all objects within r"
            check_int("size", self.size, 1, hint=hint)
        check_int("draws", self.draws, 1, MAX_DRAWS)
        check_seed(self.seed)

    def keys(self) -> Keys:
        """Shape (w,), uint64: a key for each draw, of the seed, the purpose and the draw's number."""
        return fold_in(make_key(self.seed, self.purpose), np.arange(self.draws))


@dataclass(frozen=True, slots=True)
class HiddenFacts:
    """Facts that are not visible while the neighbourhoods of a tuple are drawn."""

    starts: Longs
    """Shape (b + 1,), int64: those of tuple `t` are `facts[starts[t] : starts[t + 1]]`."""
    facts: Longs
    """Shape (all hidden,), int64: fact numbers, as in `GaifmanGraph.facts`."""

    @classmethod
    def one_per_tuple(cls, numbers: Longs) -> HiddenFacts:
        """At most one for each tuple: `numbers` (b,), where −1 hides nothing, as `fact_numbers` gives them."""
        return cls(np.append(0, np.cumsum(numbers >= 0)), numbers[numbers >= 0])

    def select(self, tuples: Longs) -> HiddenFacts:
        """What is hidden from some of the tuples, by their places, in that order."""
        first, last = self.starts[tuples], self.starts[tuples + 1]
        return HiddenFacts(np.append(0, np.cumsum(last - first)), self.facts[concatenate_ranges(first, last)])


@dataclass(frozen=True, slots=True)
class NeighbourhoodBatch:
    """What was drawn: for each tuple and draw, the members by number."""

    starts: Longs
    """Shape (b · w + 1,), int64: the members of draw `j` of tuple `t` begin at `starts[t * w + j]`."""
    members: Ints
    """Shape (all members,), int32: first the tuple's different objects in their order, then those drawn, ascending."""
    distinct_counts: Ints
    """Shape (b,), int32: how many different objects the tuple has."""
    draws: int
    """w."""
    own_positions: Ints
    """Shape (b, n), int32: where among the members each object of the tuple stands."""
    edges: Ints
    """Shape as members, int32: an edge of the graph from one of the tuple's objects to the member, −1 for their own.

    Shape (0,) where it is not known: at a radius above 1. Whoever reads the facts between the two need not search.
    """

    def __len__(self) -> int:
        """The number of neighbourhoods."""
        return len(self.starts) - 1

    def members_of(self, t: int, draw: int = 0) -> Ints:
        """The members of one draw of one tuple."""
        at = t * self.draws + draw
        return self.members[self.starts[at] : self.starts[at + 1]]


def draw_neighbourhoods(
    graph: GaifmanGraph,
    tuples: npt.ArrayLike,
    sampling: SamplingConfig | None = None,
    hidden: HiddenFacts | None = None,
    threads: int | None = None,
) -> NeighbourhoodBatch:
    """Draw neighbourhoods of tuples (b, n) of object numbers, by Algorithm 1.

    The result depends on the graph, the tuple, what is hidden from it and the sampling: never on other tuples, their
    order, or the number of threads (by default one for each processor).
    """
    threads = cpu_count() if threads is None else threads
    check_int("threads", threads, 1)
    numbers = check_tuples(graph, tuples)
    job = make_draw_job(graph, numbers, sampling or SamplingConfig(), hidden)
    return collect_neighbourhoods(job, numbers, job.draw(int(threads)))


def make_draw_job(graph: GaifmanGraph, tuples: Ints, sampling: SamplingConfig, hidden: HiddenFacts | None) -> DrawJob:
    """What there is to draw, for those who do it in blocks."""
    from gaifman.kernels.sampling import UNBOUNDED, DrawPlan

    size = sampling.size
    if size is None or size >= max(1, tuples.shape[1] * len(graph)):  # the share of each pool is then all of it
        size = UNBOUNDED
    plan = DrawPlan(freeze(sampling.keys()), int(size), bool(sampling.shared_order), TRIAL_FACTOR)
    unseen = check_hidden(graph, hidden, len(tuples))
    return DrawJob(graph, freeze(tuples), int(sampling.radius), plan, *unseen)


def collect_neighbourhoods(job: DrawJob, tuples: Ints, part: DrawnPart) -> NeighbourhoodBatch:
    """What a job has drawn for its tuples, or some of them."""
    members, spots, ends = part
    count, places = _distinct_objects(tuples)
    starts = freeze(np.append(0, ends))
    return NeighbourhoodBatch(starts, freeze(members), count, len(job.plan.keys), places, job.edge_indices(spots))


@dataclass(frozen=True, slots=True)
class Neighbourhood:
    """One neighbourhood of one tuple, for people."""

    objects: tuple[str, ...]
    """The tuple."""
    members: tuple[tuple[str, int], ...]
    """Each member and its distance from the tuple's nearest object: the tuple's own first, then by distance, name."""
    facts: tuple[Fact, ...]
    """All that is known of the members alone: the substructure that formulas are evaluated on."""
    not_drawn: dict[int, int]
    """Distance → how many objects at that distance could have been drawn and were not; only where some were not."""

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "members": [{"name": name, "distance": distance} for name, distance in self.members],
            "facts": [{"relation": f.relation, "objects": f.objects, "confidence": f.confidence} for f in self.facts],
            "left_out": {str(distance): count for distance, count in self.not_drawn.items()},
        }


def named_neighbourhoods(
    source: KnowledgeBase | GaifmanGraph,
    objects: Sequence[str],
    *,
    radius: int = 1,
    size: int | None = 20,
    draws: int = 1,
    seed: int = 0,
) -> tuple[Neighbourhood, ...]:
    """Draw neighbourhoods of one tuple of names: `draws` of them.

    Of a knowledge base the graph is built first; whoever asks often builds it once, with `build_graph`, and gives that.
    """
    if isinstance(objects, str):
        raise KnowledgeBaseError(f"a tuple of names is meant: write ({objects!r},), not {objects!r}")
    graph = source if isinstance(source, GaifmanGraph) else build_graph(source)
    numbers = [graph.kb.object_id(name) for name in objects]
    found = draw_neighbourhoods(graph, np.array([numbers], np.int32), SamplingConfig(radius, size, draws, seed))
    distances = graph.distances(numbers, radius)
    return tuple(
        _name_members(graph, tuple(objects), found.members_of(0, number), distances) for number in range(draws)
    )


def _name_members(graph: GaifmanGraph, objects: tuple[str, ...], members: Ints, distances: Ints) -> Neighbourhood:
    left = distances.copy()
    left[members] = 0
    at, counts = np.unique_counts(left[left > 0])
    ordered = sorted(members.tolist(), key=lambda member: int(distances[member]))  # stable: own objects stay in front
    names = [graph.kb.objects[member] for member in ordered]
    return Neighbourhood(
        objects,
        tuple((name, int(distances[member])) for name, member in zip(names, ordered, strict=True)),
        tuple(graph.kb.induced(names).facts()),
        dict(zip(at.tolist(), counts.tolist(), strict=True)),
    )


def check_tuples(graph: GaifmanGraph, tuples: npt.ArrayLike) -> Ints:
    """The tuples as int32 (b, n), or what is wrong with them."""
    array = np.asarray(tuples)
    if array.ndim != 2 or array.shape[1] == 0 or not (np.issubdtype(array.dtype, np.integer) or array.size == 0):
        raise KnowledgeBaseError(
            f"tuples are whole numbers of shape (tuples, places), not {array.dtype} of shape {array.shape}",
            hint="one tuple of two objects is [[3, 5]]; a tuple has at least one place",
        )
    wrong = array[(array < 0) | (array >= len(graph))]
    if len(wrong):
        raise KnowledgeBaseError(f"objects are numbered from 0 to {len(graph) - 1}, not {wrong[0]}")
    return array.astype(np.int32)


def check_hidden(graph: GaifmanGraph, hidden: HiddenFacts | None, count: int) -> tuple[Longs, Longs]:
    """Starts and facts as int64, or what is wrong with them."""
    if hidden is None:
        return np.zeros(count + 1, np.int64), np.zeros(0, np.int64)
    starts, facts = np.asarray(hidden.starts, np.int64), np.asarray(hidden.facts, np.int64)
    ends = starts[:1].tolist() + starts[-1:].tolist()
    if starts.shape != (count + 1,) or ends != [0, len(facts)] or (np.diff(starts) < 0).any():
        raise KnowledgeBaseError(
            f"the starts of hidden facts must rise from 0 to {len(facts)}, one for each of {count} tuples and the end"
        )
    wrong = facts[(facts < 0) | (facts >= len(graph.kb))]
    if len(wrong):
        raise KnowledgeBaseError(
            f"facts are numbered from 0 to {len(graph.kb) - 1}, not {wrong[0]}",
            hint="fact_numbers() finds them; Hidden.one_each() leaves out the unknown ones, -1",
        )
    return starts, facts


def _distinct_objects(tuples: Ints) -> tuple[Ints, Ints]:
    """How many different objects each tuple has (b,), and where each object stands among them (b, n)."""
    places = np.zeros(tuples.shape, np.int32)
    count = np.ones(len(tuples), np.int32)
    for i in range(1, tuples.shape[1]):
        same = tuples[:, :i] == tuples[:, i : i + 1]
        fresh = ~same.any(axis=1)
        places[:, i] = np.where(fresh, count, places[np.arange(len(tuples)), same.argmax(axis=1)])
        count += fresh
    return freeze(count), freeze(places)

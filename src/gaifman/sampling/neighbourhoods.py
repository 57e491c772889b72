"""Algorithm 1 of the paper: draw bounded random neighbourhoods of tuples.

>>> import gaifman
>>> (drawn,) = named_neighbourhoods(gaifman.demo(), ("france", "paris"), size=4)
>>> drawn.members[:2]
(('france', 0), ('paris', 0))
>>> len(drawn.members), drawn.not_drawn
(6, {1: 106})
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from gaifman.config import SamplingConfig, check_threads
from gaifman.errors import KnowledgeBaseError
from gaifman.kb.gaifman_graph import GaifmanGraph, adjacency, build_graph
from gaifman.kb.knowledge_base import Fact, KnowledgeBase
from gaifman.kb.labels import Labels, chosen_labels
from gaifman.kb.tables import Ints, Longs, freeze
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
from gaifman.sampling.hiding import HiddenFacts
from gaifman.sampling.rng import draw_keys
from gaifman.threads import map_with_workers

TRIAL_FACTOR = 1
"""See `DrawPlan.trial_factor`."""
MEMBERS_PER_BLOCK = 1 << 17
"""Members of one block of tuples: enough to hide the cost of a call, few enough for the cache."""
OBJECTS_PER_BLOCK = 1 << 22
"""Objects in the balls of one block, for a radius above 1."""
DrawnPart = tuple[Ints, Ints, Longs]
"""Members of some draws, the index of each in the source, and the end of each draw."""
_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class NeighbourhoodBatch:
    """Drawn neighbourhoods: the members of each draw of each tuple, by number."""

    starts: Longs
    """Shape (b · w + 1,), int64: the members of draw `j` of tuple `t` begin at `starts[t * w + j]`."""
    members: Ints
    """Shape (all members,), int32: the tuple's distinct objects in order, then the drawn ones, ascending."""
    distinct_counts: Ints
    """Shape (b,), int32: the number of distinct objects of each tuple."""
    draws: int
    """w."""
    own_positions: Ints
    """Shape (b, n), int32: the index of each object of the tuple among the members."""
    edges: Ints
    """Shape of `members`, int32: an edge from an object of the tuple to the member, −1 for the tuple's own objects.

    Shape (0,) for a radius above 1, where it is not known.
    """

    def __len__(self) -> int:
        """Return the number of neighbourhoods."""
        return len(self.starts) - 1

    def members_of(self, t: int, draw: int = 0) -> Ints:
        """Return the members of one draw of one tuple."""
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

    The result depends on the graph, the tuple, its hidden facts and the sampling, never on other tuples, their order or
    the number of threads (default: one per processor).
    """
    threads = check_threads(threads)
    numbers = check_tuples(tuples, len(graph))
    job = make_draw_job(graph, numbers, sampling or SamplingConfig(), hidden)
    return collect_neighbourhoods(job, numbers, job.draw(threads))


@dataclass(frozen=True, slots=True)
class Neighbourhood:
    """One neighbourhood of one tuple, by name."""

    objects: tuple[str, ...]
    """The tuple."""
    members: tuple[tuple[str, int], ...]
    """Each member with its distance from the tuple: own objects first, then by distance and name."""
    facts: tuple[Fact, ...]
    """The facts whose objects are all members: the substructure that formulas are evaluated on."""
    not_drawn: dict[int, int]
    """Distance → number of objects at that distance that were not drawn, if any."""
    labels: Labels = field(default_factory=dict)
    """Object → how it is shown, for members that have a label."""

    def as_dict(self) -> dict[str, Any]:
        """Return JSON fields."""
        return {
            "members": [{"name": name, "distance": distance} for name, distance in self.members],
            "facts": [fact.as_dict() for fact in self.facts],
            "not_drawn": {str(distance): count for distance, count in self.not_drawn.items()},
            **({"labels": dict(self.labels)} if self.labels else {}),
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
    """Draw `draws` neighbourhoods of one tuple of names.

    Given a knowledge base, this builds its graph first. To call it often, build the graph once with `build_graph`.
    """
    if isinstance(objects, str):
        raise KnowledgeBaseError(f"objects must be a sequence of names: write ({objects!r},), not {objects!r}")
    graph = source if isinstance(source, GaifmanGraph) else build_graph(source)
    numbers = [graph.kb.object_id(name) for name in objects]
    drawn = draw_neighbourhoods(graph, np.array([numbers], np.int32), SamplingConfig(radius, size, draws, seed))
    distances = graph.distances(numbers, radius)
    return tuple(
        _name_members(graph, tuple(map(graph.kb.object_name, numbers)), drawn.members_of(0, number), distances)
        for number in range(draws)
    )


def _name_members(graph: GaifmanGraph, objects: tuple[str, ...], members: Ints, distances: Ints) -> Neighbourhood:
    not_drawn = distances.copy()
    not_drawn[members] = 0
    missing_distances, counts = np.unique_counts(not_drawn[not_drawn > 0])
    ordered = sorted(members.tolist(), key=lambda member: int(distances[member]))  # stable: own objects stay in front
    names = [graph.kb.objects[member] for member in ordered]
    return Neighbourhood(
        objects,
        tuple((name, int(distances[member])) for name, member in zip(names, ordered, strict=True)),
        tuple(graph.kb.induced(names).facts()),
        dict(zip(missing_distances.tolist(), counts.tolist(), strict=True)),
        chosen_labels(names, graph.kb.display),
    )


def check_tuples(tuples: npt.ArrayLike, objects: int) -> Ints:
    """Return tuples of numbers below that of objects as int32 (b, n), or raise an error."""
    array = np.asarray(tuples)
    if array.ndim != 2 or array.shape[1] == 0 or not (np.issubdtype(array.dtype, np.integer) or array.size == 0):
        raise KnowledgeBaseError(
            f"tuples must be integers of shape (tuples, arity), got {array.dtype} of shape {array.shape}",
            hint="one tuple of two objects is [[3, 5]]; a tuple has at least one object",
        )
    wrong = array[(array < 0) | (array >= objects)]
    if len(wrong):
        raise KnowledgeBaseError(f"objects are numbered from 0 to {objects - 1}, not {wrong[0]}")
    return array.astype(np.int32)


def check_hidden(graph: GaifmanGraph, hidden: HiddenFacts | None, count: int) -> tuple[Longs, Longs]:
    """Return starts and facts as int64, or raise an error."""
    if hidden is None:
        return np.zeros(count + 1, np.int64), np.zeros(0, np.int64)
    starts, facts = np.asarray(hidden.starts, np.int64), np.asarray(hidden.facts, np.int64)
    ends = starts[:1].tolist() + starts[-1:].tolist()
    if starts.shape != (count + 1,) or ends != [0, len(facts)] or (np.diff(starts) < 0).any():
        raise KnowledgeBaseError(
            f"HiddenFacts.starts must ascend from 0 to {len(facts)} and have {count + 1} items for {count} tuples"
        )
    known = len(graph.kb) + len(graph.kb.value_table)
    wrong = facts[(facts < 0) | (facts >= known)]
    if len(wrong):
        what = "facts and values" if len(graph.kb.value_table) else "facts"
        raise KnowledgeBaseError(
            f"{what} are numbered from 0 to {known - 1}, not {wrong[0]}",
            hint="fact_ids() returns them; HiddenFacts.one_per_tuple() skips unknown facts, -1",
        )
    return starts, facts


def make_draw_job(graph: GaifmanGraph, tuples: Ints, sampling: SamplingConfig, hidden: HiddenFacts | None) -> DrawJob:
    """Return the job that draws these neighbourhoods, for callers that draw in blocks."""
    size = sampling.size
    if size is None or size >= max(1, tuples.shape[1] * len(graph)):  # every row is drawn whole
        size = UNBOUNDED
    plan = DrawPlan(freeze(draw_keys(sampling)), int(size), bool(sampling.shared_order), TRIAL_FACTOR)
    return DrawJob(graph, freeze(tuples), int(sampling.radius), plan, *check_hidden(graph, hidden, len(tuples)))


def collect_neighbourhoods(job: DrawJob, tuples: Ints, part: DrawnPart) -> NeighbourhoodBatch:
    """Return the drawn part of a job as neighbourhoods of its tuples."""
    members, source_indices, ends = part
    count, positions = _distinct_objects(tuples)
    starts = freeze(np.append(0, ends))
    return NeighbourhoodBatch(
        starts, freeze(members), count, len(job.plan.keys), positions, job.edge_indices(source_indices)
    )


def _distinct_objects(tuples: Ints) -> tuple[Ints, Ints]:
    """Return the number of distinct objects of each tuple (b,), and the index of each object among them (b, n)."""
    positions = np.zeros(tuples.shape, np.int32)
    count = np.ones(len(tuples), np.int32)
    for i in range(1, tuples.shape[1]):
        same = tuples[:, :i] == tuples[:, i : i + 1]
        new = ~same.any(axis=1)
        positions[:, i] = np.where(new, count, positions[np.arange(len(tuples)), same.argmax(axis=1)])
        count += new
    return freeze(count), freeze(positions)


@dataclass(frozen=True, slots=True)
class DrawJob:
    """Tuples to draw neighbourhoods of."""

    graph: GaifmanGraph
    tuples: Ints
    """Shape (b, n): objects."""
    radius: int
    plan: DrawPlan
    hidden_starts: Longs
    """Shape (b + 1,): the facts hidden from tuple `t` are `hidden[hidden_starts[t] : hidden_starts[t + 1]]`."""
    hidden: Longs
    """Shape (all hidden,): fact numbers."""

    def draw(self, threads: int) -> DrawnPart:
        """Draw all neighbourhoods. The result does not depend on the number of threads."""
        return concatenate_parts(self.map_blocks(threads, lambda: lambda _, __, part: part))

    def edge_indices(self, source_indices: Ints) -> Ints:
        """Return the edges of the graph that the source indices are; empty if the source holds balls."""
        known = self.radius < 2 and len(self.graph.neighbours) < 1 << 31
        return freeze(source_indices if known else source_indices[:0])

    def map_blocks(
        self, threads: int, make_worker: Callable[[], Callable[[int, int, DrawnPart], _Result]]
    ) -> list[_Result]:
        """Draw in blocks and process each block on the thread that drew it. Return the results in order.

        `make_worker` is called once per thread; its worker gets the first and last tuple of a block and what was drawn.
        """

        def make_drawer() -> Callable[[tuple[int, int]], _Result]:
            scratch, finish = GrowingScratch(), make_worker()
            batches = self.row_batches if self.radius < 2 else self._ball_batches()

            def draw_block(block: tuple[int, int]) -> _Result:
                begin, end = block
                parts = [self._draw_batch(batch, scratch) for batch in batches(begin, end)]
                return finish(begin, end, parts[0] if len(parts) == 1 else concatenate_parts(parts))

            return draw_block

        return map_with_workers(make_drawer, self._blocks(), threads)

    def _blocks(self) -> list[tuple[int, int]]:
        """Return ranges of tuples with about `MEMBERS_PER_BLOCK` members each."""
        count, arity = self.tuples.shape
        draws = len(self.plan.keys)
        if self.radius > 1:
            step = 64
        elif self.plan.size != UNBOUNDED:
            step = max(1, MEMBERS_PER_BLOCK // (draws * (arity + min(self.plan.size, MEMBERS_PER_BLOCK))))
        else:
            lengths = (self.graph.starts[self.tuples + 1] - self.graph.starts[self.tuples]).sum(axis=1) + arity
            number = np.cumsum(lengths * draws) // MEMBERS_PER_BLOCK
            ends = [*(np.flatnonzero(np.diff(number)) + 1).tolist(), count]
            return list(zip([0, *ends[:-1]], ends, strict=True)) if count else []
        return [(begin, min(begin + step, count)) for begin in range(0, count, step)]

    def row_batches(self, begin: int, end: int) -> Iterator[TupleBatch]:
        """Yield the rows of the graph for radius 1, empty rows for radius 0."""
        tuples = self.tuples[begin:end]
        starts, lengths = np.zeros(tuples.shape, np.int64), np.zeros(tuples.shape, np.int64)
        if self.radius:
            look_up_rows(self.graph.starts, tuples, starts, lengths)
        yield TupleBatch(tuples, self.graph.neighbours, freeze(starts), freeze(lengths), *self._cut_edges(begin, end))

    def _cut_edges(self, begin: int, end: int) -> tuple[Longs, Longs]:
        """Return the edges that hidden facts remove for some tuples; see `find_cut_edges`."""
        starts = self.hidden_starts[begin : end + 1]
        starts, facts = starts - starts[0], self.hidden[starts[0] : starts[-1]]
        if self.radius < 2 and len(facts):
            # At radius 1 facts between the tuple's own objects remove nothing. They are nearly all: mostly the hidden
            # fact is that of the tuple itself.
            kept_starts, kept = np.zeros(len(starts), np.int64), np.empty(len(facts), np.int64)
            rows = fact_rows(self.graph, facts)
            count = facts_outside_tuple(self.tuples[begin:end], freeze(starts), rows, kept_starts, kept)
            starts, facts = kept_starts, facts[kept[:count]]
        return find_cut_edges(self.graph, starts, facts)

    def _ball_batches(self) -> Callable[[int, int], Iterator[TupleBatch]]:
        """Return an iterator of balls for radius 2 or more, searched once for all draws of a tuple."""
        objects, arity = len(self.graph), self.tuples.shape[1]
        search = SearchState(np.zeros(objects, np.int32), np.empty(objects, np.int32), np.zeros(1, np.int64))
        capacity = min(max(arity * objects, OBJECTS_PER_BLOCK), 64 * arity * objects)
        source, cuts = np.empty(capacity, np.int32), np.empty(capacity if len(self.hidden) else 0, np.int64)
        graph = adjacency(self.graph)

        def batches(begin: int, end: int) -> Iterator[TupleBatch]:
            tuples, first = self.tuples[begin:end], 0
            edge_starts, edges = self._cut_edges(begin, end)
            while first < len(tuples):
                shape = (len(tuples) - first, arity)
                starts, lengths = np.empty(shape, np.int64), np.empty(shape, np.int64)
                rows = BallRows(source, starts, lengths, np.empty(shape[0] + 1, np.int64), cuts)
                last = write_balls(graph, search, self.radius, tuples, first, edge_starts, edges, rows)
                count = last - first
                yield TupleBatch(
                    tuples[first:last],
                    freeze(source),
                    freeze(starts[:count]),
                    freeze(lengths[:count]),
                    freeze(rows.cut_starts[: count + 1]),
                    freeze(cuts),
                )
                first = last

        return batches

    def _draw_batch(self, batch: TupleBatch, scratch: GrowingScratch) -> DrawnPart:
        """Draw the members of one batch."""
        buffers, members = self.allocate(batch, scratch)
        ends = np.empty(len(batch.tuples) * len(self.plan.keys), np.int64)
        count = draw_members(batch, self.plan, buffers, members, ends)
        return members.objects[:count], members.source_indices[:count], ends

    def allocate(self, batch: TupleBatch, scratch: GrowingScratch) -> tuple[Scratch, DrawnMembers]:
        """Return scratch and output buffers for the draws of a batch."""
        longest, union, largest, capacity = map(int, measure_batch(batch, self.plan))  # not `int` if uncompiled
        members = DrawnMembers(np.empty(capacity, np.int32), np.empty(capacity, np.int32))
        return scratch.ensure(longest, union, largest), members


class GrowingScratch:
    """The scratch of one thread, which grows with longer rows."""

    def __init__(self) -> None:
        self._longest = self._union = self._count = -1
        self._scratch: Scratch

    def ensure(self, longest: int, union: int, count: int) -> Scratch:
        """Return scratch for rows and unions up to these lengths and sets of up to `count` members."""
        if longest > self._longest or union > self._union or count > self._count:
            self._longest, self._union = max(longest, self._longest), max(union, self._union)
            self._count = max(count, self._count, 4)
            capacity = max(self._longest, self._union, self._count)
            self._scratch = Scratch(
                np.arange(capacity, dtype=np.int32),
                np.empty(capacity, np.int32),
                np.empty(capacity, np.int32),
                np.empty(2 << (self._count - 1).bit_length(), np.int32),
                np.empty(self._union, np.int32),
                np.empty(self._union, np.int32),
                np.empty(capacity, np.int32),
            )
        return self._scratch


def find_cut_edges(graph: GaifmanGraph, starts: Longs, facts: Longs) -> tuple[Longs, Longs]:
    """Return the edges that only hidden facts support: starts (b + 1,), and edges, ascending for each tuple.

    The facts hidden from tuple `t` are `facts[starts[t] : starts[t + 1]]`.
    """
    edge_starts = np.zeros(len(starts), np.int64)
    if len(facts) == 0:
        return freeze(edge_starts), freeze(np.zeros(0, np.int64))
    if np.diff(starts).max() > 1:
        facts = facts[np.lexsort([facts, np.repeat(np.arange(len(starts) - 1), np.diff(starts))])]
    rows = fact_rows(graph, freeze(facts))
    edges = np.empty(len(rows) * (rows.shape[1] - 1) * (rows.shape[1] - 2), np.int64)
    count = hidden_edges(adjacency(graph), HiddenFactRows(freeze(starts), freeze(facts), rows), edge_starts, edges)
    return freeze(edge_starts), freeze(edges[:count])


def fact_rows(graph: GaifmanGraph, facts: Longs) -> Ints:
    """Return the relation and objects of each fact, padded with −1.

    Shape (facts, 1 + largest arity), int32, with at least three columns.
    """
    rows = np.full((len(facts), 1 + max([2, *graph.kb.fact_tables])), -1, np.int32)
    for arity, offset in graph.kb.fact_offsets.items():
        table = graph.kb.fact_tables[arity]
        look_up_facts(freeze(facts), offset, table.relation, table.objects, rows)
    return freeze(rows)


def concatenate_parts(parts: list[DrawnPart]) -> DrawnPart:
    """Concatenate drawn parts."""
    members, source_indices = (np.concatenate([np.zeros(0, np.int32), *(part[i] for part in parts)]) for i in range(2))
    lengths = [np.diff(part[2], prepend=0) for part in parts]
    return members, source_indices, np.cumsum(np.concatenate([np.zeros(0, np.int64), *lengths]))

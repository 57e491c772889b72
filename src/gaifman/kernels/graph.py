"""What hidden facts take away from a graph, and all objects within a distance."""

from __future__ import annotations

from typing import NamedTuple

from gaifman.kernels.collections import Ints, Longs, binary_search, sort
from gaifman.kernels.jit import inline_kernel, inner_kernel, kernel, zero


class Adjacency(NamedTuple):
    """A graph in compressed rows, with the facts behind each edge."""

    starts: Longs
    """Shape (objects + 1,)."""
    neighbours: Ints
    """Shape (edges,): ascending in each row."""
    fact_starts: Longs
    """Shape (edges + 1,)."""
    facts: Ints
    """Shape (any,): the facts that give edge e are `facts[fact_starts[e] : fact_starts[e + 1]]`."""


class HiddenFactRows(NamedTuple):
    """What each tuple does not see."""

    starts: Longs
    """Shape (b + 1,)."""
    facts: Longs
    """Shape (h,): fact numbers, ascending for each tuple."""
    rows: Ints
    """Shape (h, 1 + widest): the relation and objects of each fact, then −1."""


class SearchState(NamedTuple):
    """What one thread walks with."""

    marks: Ints
    """Shape (objects,): the walk that last met the object."""
    queue: Ints
    """Shape (objects,)."""
    searches: Longs
    """Shape (1,): walks begun so far; never reset, so no mark need be wiped."""


class BallRows(NamedTuple):
    """Balls written one after another, as `draws.Batch` wants them."""

    source: Ints
    """Shape (capacity,): objects."""
    row_starts: Longs
    """Shape (b, n)."""
    row_lengths: Longs
    """Shape (b, n)."""
    cut_starts: Longs
    """Shape (b + 1,)."""
    cuts: Longs
    """Shape (capacity, or 0 where nothing is hidden): places in `source`."""


@kernel
def look_up_facts(facts: Longs, offset: int, relations: Ints, objects: Ints, rows: Ints) -> None:
    """The relation and objects of those facts that stand in one table, whose first has the number `offset`."""
    for f in range(len(facts)):
        row = facts[f] - offset
        if row >= 0 and row < len(relations):
            rows[f, 0] = relations[row]
            for i in range(objects.shape[1]):
                rows[f, 1 + i] = objects[row, i]


@kernel
def facts_outside_tuple(tuples: Ints, starts: Longs, rows: Ints, kept_starts: Longs, kept: Longs) -> int:
    """The facts that have an object which is not their tuple's; how many, with starts for each tuple."""
    count = 0
    for t in range(len(tuples)):
        for f in range(starts[t], starts[t + 1]):
            within = True
            for i in range(1, rows.shape[1]):
                own = rows[f, i] < 0
                for j in range(tuples.shape[1]):
                    own = own or rows[f, i] == tuples[t, j]
                within = within and own
            kept[count] = f
            count += not within
        kept_starts[t + 1] = count
    return count


@kernel
def hidden_edges(graph: Adjacency, hidden: HiddenFactRows, cut_starts: Longs, cuts: Longs) -> int:
    """Write the edges that no visible fact gives, ascending for each tuple, each once; how many in all."""
    at = zero()
    for t in range(len(hidden.starts) - 1):
        begin = at
        for h in range(hidden.starts[t], hidden.starts[t + 1]):
            at = _edges_of_fact(graph, hidden, t, h, cuts, at)
        sort(cuts, begin, at)
        kept = begin
        for c in range(begin, at):
            if c == begin or cuts[c] != cuts[c - 1]:
                cuts[kept] = cuts[c]
                kept += 1
        at = kept
        cut_starts[t + 1] = at
    return at


@inner_kernel
def _edges_of_fact(graph: Adjacency, hidden: HiddenFactRows, t: int, h: int, cuts: Longs, at: int) -> int:
    """The edges of one hidden fact that no visible fact gives, from `cuts[at]` on."""
    width = hidden.rows.shape[1]
    for i in range(1, width):
        one = hidden.rows[h, i]
        for j in range(1, width):
            other = hidden.rows[h, j]
            if one < 0 or other < 0 or one == other:
                continue
            edge = binary_search(graph.neighbours, graph.starts[one], graph.starts[one + 1], other)
            if edge >= 0 and not _has_visible_fact(graph, hidden, t, edge):
                cuts[at] = edge
                at += 1
    return at


@inner_kernel
def _has_visible_fact(graph: Adjacency, hidden: HiddenFactRows, t: int, edge: int) -> bool:
    """Whether a fact that tuple t sees gives the edge."""
    begin, end = hidden.starts[t], hidden.starts[t + 1]
    for f in range(graph.fact_starts[edge], graph.fact_starts[edge + 1]):
        if binary_search(hidden.facts, begin, end, graph.facts[f]) < 0:
            return True
    return False


@inner_kernel
def _search(graph: Adjacency, search: SearchState, origin: int, radius: int, cuts: Longs, begin: int, end: int) -> int:
    """Queue all objects within the radius, the origin first, over edges not in `cuts[begin:end]`; how many."""
    search.searches[0] += 1
    walk, marks, queue = search.searches[0], search.marks, search.queue
    marks[origin] = walk
    queue[0] = origin
    head, count = 0, 1
    for _ in range(radius):
        level = count
        while head < level:
            for edge in range(graph.starts[queue[head]], graph.starts[queue[head] + 1]):
                other = graph.neighbours[edge]
                if marks[other] != walk and (begin == end or binary_search(cuts, begin, end, edge) < 0):
                    marks[other] = walk
                    queue[count] = other
                    count += 1
            head += 1
        if head == count:
            break
    return count


@inner_kernel
def _write_ball(search: SearchState, origin: int, count: int, out: Ints, at: int) -> int:
    """Write what the last walk met, without its origin, ascending; where it ends."""
    if count > len(search.marks) >> 4:  # reading all marks is then cheaper than sorting
        walk = search.searches[0]
        for other in range(len(search.marks)):
            if search.marks[other] == walk and other != origin:
                out[at] = other
                at += 1
        return at
    for q in range(1, count):
        out[at + q - 1] = search.queue[q]
    sort(out, at, at + count - 1)
    return at + count - 1


@kernel
def write_balls(
    graph: Adjacency,
    search: SearchState,
    radius: int,
    tuples: Ints,
    first: int,
    cut_starts: Longs,
    cuts: Longs,
    rows: BallRows,
) -> int:
    """Write the balls of tuples from `first` on until the next might not fit; the tuple to go on with.

    A ball is that of the whole graph: what the tuple does not see of it, for want of the edges `cuts`, becomes cuts.
    So the random order of an object's ball stays one order, whoever may see which part of it.
    """
    at, cut, width = zero(), 0, tuples.shape[1]
    rows.cut_starts[0] = 0
    for t in range(first, len(tuples)):
        if t > first and at + width * len(search.marks) > len(rows.source):
            return t
        begin, end = cut_starts[t], cut_starts[t + 1]
        for i in range(width):
            origin = tuples[t, i]
            count = _search(graph, search, origin, radius, cuts, zero(), zero())
            start = at
            at = _write_ball(search, origin, count, rows.source, at)
            rows.row_starts[t - first, i] = start
            rows.row_lengths[t - first, i] = at - start
            if begin < end:
                _search(graph, search, origin, radius, cuts, begin, end)
                for where in range(start, at):
                    if search.marks[rows.source[where]] != search.searches[0]:
                        rows.cuts[cut] = where
                        cut += 1
        rows.cut_starts[t - first + 1] = cut
    return len(tuples)


@inline_kernel
def _find_edge(graph: Adjacency, one: int, other: int) -> int:
    """The edge between two objects, −1 where there is none; the shorter row is searched."""
    if graph.starts[one + 1] - graph.starts[one] > graph.starts[other + 1] - graph.starts[other]:
        one, other = other, one
    return binary_search(graph.neighbours, graph.starts[one], graph.starts[one + 1], other)


@kernel
def count_tuple_facts(graph: Adjacency, tuples: Ints, first_starts: Longs, sources: Longs) -> int:
    """How many facts `find_tuple_facts` may write."""
    total = zero()
    for t in range(len(tuples)):
        total += first_starts[sources[t] + 1] - first_starts[sources[t]]
        for i in range(tuples.shape[1]):
            for j in range(i):
                edge = _find_edge(graph, tuples[t, i], tuples[t, j])
                if edge >= 0:
                    total += graph.fact_starts[edge + 1] - graph.fact_starts[edge]
    return total


@kernel
def find_tuple_facts(
    graph: Adjacency, tuples: Ints, first_starts: Longs, first: Longs, sources: Longs, starts: Longs, facts: Longs
) -> int:
    """For each tuple (b, n), the facts that have two different objects of it, and those its source begins with.

    Those are `first[begun[s] : begun[s + 1]]`, where s is `sources[t]`. Each fact once, ascending for each tuple; where
    they begin is written to `starts` (b + 1,). How many there are.
    """
    at = zero()
    starts[0] = 0
    for t in range(len(tuples)):
        begin = end = at
        for q in range(first_starts[sources[t]], first_starts[sources[t] + 1]):
            facts[end] = first[q]
            end += 1
        for i in range(tuples.shape[1]):
            for j in range(i):
                edge = _find_edge(graph, tuples[t, i], tuples[t, j])  # an object is no neighbour of itself
                if edge >= 0:
                    for q in range(graph.fact_starts[edge], graph.fact_starts[edge + 1]):
                        facts[end] = graph.facts[q]
                        end += 1
        sort(facts, begin, end)
        for q in range(begin, end):
            if q == begin or facts[q] != facts[at - 1]:
                facts[at] = facts[q]
                at += 1
        starts[t + 1] = at
    return at

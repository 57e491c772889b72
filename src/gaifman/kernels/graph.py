"""What hidden facts take away from a graph, and all objects within a distance."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gaifman.kernels.collections import Bytes, Ints, Longs, Words, binary_search, sort
from gaifman.kernels.jit import inline_kernel, inner_kernel, kernel, prefetch, zero

_A, _B = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9)
_1, _26, _32, _38, _63 = (np.uint64(n) for n in (1, 26, 32, 38, 63))


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
def _bisect_edge(graph: Adjacency, one: int, other: int) -> int:
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
                edge = _bisect_edge(graph, tuples[t, i], tuples[t, j])
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
                edge = _bisect_edge(graph, tuples[t, i], tuples[t, j])  # an object is no neighbour of itself
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


class LabelledGraph(NamedTuple):
    """The Gaifman graph, as `gaifman.kb.gaifman_graph.Graph` describes it."""

    starts: Longs
    neighbours: Ints
    label_starts: Longs
    labels: Ints
    facts: Ints
    label_table: Ints
    first_labels: Ints
    """Shape (relations,): the first label of each relation; of two places, the second is the other way round."""
    binary: Bytes
    """Shape (labels,): whether the label's relation has two places."""
    reversed_labels: Ints
    """Shape (labels,): the label seen from the other end."""
    all_binary: bool
    """Whether every label's has."""
    bloom_filter: Words
    """Shape (a power of two,): two bits are set for each edge; one that is not set says that there is no such edge."""
    label_sets: Ints
    """Shape (edges,): which list of labels each edge has. There are few different ones: they stay in the cache."""
    label_set_starts: Ints
    """Shape (bonds + 1,)."""
    label_set_labels: Ints
    """Shape (any,): the labels of bond `b` are `bond_labels[bond_starts[b] : bond_starts[b + 1]]`."""


@inline_kernel
def _bloom_bits(bloom_filter: Words, one: int, other: int) -> tuple[np.uint64, np.uint64]:
    """The word of the sieve, and two bits in it, for the edges between two objects."""
    mixed = (np.uint64(min(one, other)) * _A + np.uint64(max(one, other))) * _B
    bits = (_1 << (mixed >> _32 & _63)) | (_1 << (mixed >> _26 & _63))
    return (mixed >> _38) & np.uint64(len(bloom_filter) - 1), bits


@kernel
def fill_bloom_filter(starts: Longs, neighbours: Ints, bloom_filter: Words) -> None:
    """Enter every edge."""
    for one in range(len(starts) - 1):
        for edge in range(starts[one], starts[one + 1]):
            if one < neighbours[edge]:
                at, bits = _bloom_bits(bloom_filter, one, neighbours[edge])
                bloom_filter[at] |= bits


@kernel
def number_label_sets(label_starts: Longs, labels: Ints, table: Ints, label_sets: Ints, firsts: Longs) -> int:
    """Number the different lists of labels, each by its first edge; how many, −1 where the table is too small.

    The table is all −1, of a power of two; `firsts` is half as long.
    """
    count, last = 0, len(table) - 1
    for edge in range(len(label_sets)):
        begin, end = label_starts[edge], label_starts[edge + 1]
        mixed = np.uint64(end - begin)
        for q in range(begin, end):
            mixed = (mixed ^ np.uint64(labels[q])) * _A
            mixed ^= mixed >> _32
        slot = np.int64(mixed) & last
        while table[slot] >= 0 and not _same_labels(label_starts, labels, firsts[table[slot]], edge):
            slot = (slot + 1) & last
        if table[slot] < 0:
            if count == len(firsts):
                return -1
            table[slot], firsts[count] = count, edge
            count += 1
        label_sets[edge] = table[slot]
    return count


@inline_kernel
def _same_labels(label_starts: Longs, labels: Ints, one: int, other: int) -> bool:
    """Whether two edges have the same list of labels."""
    begin, count = label_starts[one], label_starts[one + 1] - label_starts[one]
    if label_starts[other + 1] - label_starts[other] != count:
        return False
    for q in range(count):  # noqa: SIM110 - a kernel has no generators
        if labels[begin + q] != labels[label_starts[other] + q]:
            return False
    return True


@inline_kernel
def find_edge(graph: LabelledGraph, one: int, other: int) -> int:
    """The edge from one object to another, −1 where there is none: most often one look says so."""
    if not may_be_adjacent(graph, one, other):
        return -1
    return find_edge_in_row(graph, graph.starts[one], graph.starts[one + 1], other)


@inline_kernel
def may_be_adjacent(graph: LabelledGraph, one: int, other: int) -> bool:
    """False where two objects have no edge; seldom True where they have none."""
    at, bits = _bloom_bits(graph.bloom_filter, one, other)
    return bool(graph.bloom_filter[at] & bits == bits)


@inline_kernel
def prefetch_adjacency(graph: LabelledGraph, one: int, other: int) -> None:
    """It will be asked soon whether two objects touch."""
    at, _ = _bloom_bits(graph.bloom_filter, one, other)
    prefetch(graph.bloom_filter, at)


@inline_kernel
def find_edge_in_row(graph: LabelledGraph, begin: int, end: int, other: int) -> int:
    """Where in the row from `begin` to `end` an object stands, −1 where it does not.

    Guessed as if the numbers were evenly spread, then closed in on: few looks where they nearly are, and never many
    more than bisection needs.
    """
    run, low, high = graph.neighbours, begin, end - 1
    while high - low > 8:
        first, last = run[low], run[high]
        if other <= first or other >= last:
            low, high = (low, low) if other <= first else (high, high)
            break
        guess = low + 1 + int((other - first) * float(high - low - 2) / (last - first))
        reach = (high - low) >> 3
        if run[guess] < other:
            low = guess
            if guess + reach < high and run[guess + reach] >= other:
                high = guess + reach
        else:
            high = guess
            if guess - reach > low and run[guess - reach] < other:
                low = guess - reach
    for edge in range(low, high + 1):
        if run[edge] == other:
            return edge
    return -1

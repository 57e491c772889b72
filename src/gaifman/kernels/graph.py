"""The Gaifman graph in kernels: edges that hidden facts remove, balls, facts between objects, fast edge look-up."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gaifman.kernels.collections import Bytes, Ints, Longs, Words, binary_search, sort
from gaifman.kernels.jit import inline_kernel, inner_kernel, kernel, prefetch, zero

_A, _B = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9)
_1, _26, _32, _38, _63 = (np.uint64(n) for n in (1, 26, 32, 38, 63))


class Adjacency(NamedTuple):
    """The graph in compressed rows, with the facts of each edge."""

    starts: Longs
    """Shape (objects + 1,)."""
    neighbours: Ints
    """Shape (edges,): ascending in each row."""
    fact_starts: Longs
    """Shape (edges + 1,)."""
    facts: Ints
    """Shape (any,): the facts of edge e are `facts[fact_starts[e] : fact_starts[e + 1]]`."""


class HiddenFactRows(NamedTuple):
    """The facts hidden from each tuple."""

    starts: Longs
    """Shape (b + 1,)."""
    facts: Longs
    """Shape (h,): fact numbers, ascending for each tuple."""
    rows: Ints
    """Shape (h, 1 + largest arity): the relation and objects of each fact, padded with −1."""


class SearchState(NamedTuple):
    """Buffers of one thread for breadth-first search."""

    marks: Ints
    """Shape (objects,): the last search that reached the object."""
    queue: Ints
    """Shape (objects,)."""
    searches: Longs
    """Shape (1,): the number of searches so far. It only grows, so marks are never cleared."""


class BallRows(NamedTuple):
    """Balls in the form of `sampling.TupleBatch`."""

    source: Ints
    """Shape (capacity,): objects."""
    row_starts: Longs
    """Shape (b, n)."""
    row_lengths: Longs
    """Shape (b, n)."""
    cut_starts: Longs
    """Shape (b + 1,)."""
    cuts: Longs
    """Shape (capacity, or 0 if nothing is hidden): indices of `source`."""


@kernel
def look_up_facts(facts: Longs, offset: int, relations: Ints, objects: Ints, rows: Ints) -> None:
    """Write the relation and objects of those facts that belong to one table, whose first fact has number `offset`."""
    for f in range(len(facts)):
        row = facts[f] - offset
        if row >= 0 and row < len(relations):
            rows[f, 0] = relations[row]
            for i in range(objects.shape[1]):
                rows[f, 1 + i] = objects[row, i]


@kernel
def facts_outside_tuple(tuples: Ints, starts: Longs, rows: Ints, kept_starts: Longs, kept: Longs) -> int:
    """Select the facts with an object that is not in their tuple. Return their number; write starts for each tuple."""
    count = 0
    for t in range(len(tuples)):
        for f in range(starts[t], starts[t + 1]):
            within = True
            for i in range(1, rows.shape[1]):
                inside = rows[f, i] < 0
                for j in range(tuples.shape[1]):
                    inside = inside or rows[f, i] == tuples[t, j]
                within = within and inside
            kept[count] = f
            count += not within
        kept_starts[t + 1] = count
    return count


@kernel
def hidden_edges(graph: Adjacency, hidden: HiddenFactRows, cut_starts: Longs, cuts: Longs) -> int:
    """Write the edges without a visible fact, distinct and ascending for each tuple. Return their number."""
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
    """Write the edges of one hidden fact that have no visible fact, from `cuts[at]` on. Return the end."""
    columns = hidden.rows.shape[1]
    for i in range(1, columns):
        one = hidden.rows[h, i]
        for j in range(1, columns):
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
    """Return whether tuple t sees a fact of the edge."""
    begin, end = hidden.starts[t], hidden.starts[t + 1]
    for f in range(graph.fact_starts[edge], graph.fact_starts[edge + 1]):
        if binary_search(hidden.facts, begin, end, graph.facts[f]) < 0:
            return True
    return False


@inner_kernel
def _search(graph: Adjacency, search: SearchState, origin: int, radius: int, cuts: Longs, begin: int, end: int) -> int:
    """Queue all objects within the radius, the origin first, without the edges `cuts[begin:end]`.

    Return their number.
    """
    search.searches[0] += 1
    search_id, marks, queue = search.searches[0], search.marks, search.queue
    marks[origin] = search_id
    queue[0] = origin
    head, count = 0, 1
    for _ in range(radius):
        level = count
        while head < level:
            for edge in range(graph.starts[queue[head]], graph.starts[queue[head] + 1]):
                other = graph.neighbours[edge]
                if marks[other] != search_id and (begin == end or binary_search(cuts, begin, end, edge) < 0):
                    marks[other] = search_id
                    queue[count] = other
                    count += 1
            head += 1
        if head == count:
            break
    return count


@inner_kernel
def _write_ball(search: SearchState, origin: int, count: int, out: Ints, at: int) -> int:
    """Write the objects of the last search without its origin, ascending. Return the end."""
    if count > len(search.marks) >> 4:  # scanning all marks is cheaper than sorting
        search_id = search.searches[0]
        for other in range(len(search.marks)):
            if search.marks[other] == search_id and other != origin:
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
    """Write the balls of tuples from `first` on until the next might not fit. Return the tuple to continue with.

    A ball is that of the whole graph. Objects that the tuple reaches only over the edges `cuts` become cuts of the
    tuple, so the random order of an object's ball does not depend on what is hidden.
    """
    at, cut, arity = zero(), 0, tuples.shape[1]
    rows.cut_starts[0] = 0
    for t in range(first, len(tuples)):
        if t > first and at + arity * len(search.marks) > len(rows.source):
            return t
        begin, end = cut_starts[t], cut_starts[t + 1]
        for i in range(arity):
            origin = tuples[t, i]
            count = _search(graph, search, origin, radius, cuts, zero(), zero())
            start = at
            at = _write_ball(search, origin, count, rows.source, at)
            rows.row_starts[t - first, i] = start
            rows.row_lengths[t - first, i] = at - start
            if begin < end:
                _search(graph, search, origin, radius, cuts, begin, end)
                for index in range(start, at):
                    if search.marks[rows.source[index]] != search.searches[0]:
                        rows.cuts[cut] = index
                        cut += 1
        rows.cut_starts[t - first + 1] = cut
    return len(tuples)


@inline_kernel
def _bisect_edge(graph: Adjacency, one: int, other: int) -> int:
    """Return the edge between two objects, or −1. Searches the shorter row."""
    if graph.starts[one + 1] - graph.starts[one] > graph.starts[other + 1] - graph.starts[other]:
        one, other = other, one
    return binary_search(graph.neighbours, graph.starts[one], graph.starts[one + 1], other)


@kernel
def count_tuple_facts(graph: Adjacency, tuples: Ints, first_starts: Longs, sources: Longs) -> int:
    """Return an upper bound of the facts that `find_tuple_facts` writes."""
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
    """Write for each tuple (b, n) the facts with two different objects of it, and the given facts of its source.

    The given facts of source s = `sources[t]` are `first[first_starts[s] : first_starts[s + 1]]`. Facts are distinct
    and ascending for each tuple; `starts` (b + 1,) gets their starts. Return their number.
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
                edge = _bisect_edge(graph, tuples[t, i], tuples[t, j])  # −1 for equal objects
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
    """The Gaifman graph with labels, as in `gaifman.kb.gaifman_graph.GaifmanGraph`, and look-up tables."""

    starts: Longs
    neighbours: Ints
    label_starts: Longs
    labels: Ints
    facts: Ints
    label_table: Ints
    first_labels: Ints
    """Shape (relations,): the first label of each relation. A binary relation has two labels; the second is the reverse
    of the first.
    """
    binary: Bytes
    """Shape (labels,): whether the label's relation is binary."""
    reversed_labels: Ints
    """Shape (labels,): the label seen from the other end of the edge."""
    all_binary: bool
    """Whether all relations with labels are binary."""
    bloom_filter: Words
    """Shape (a power of two,): a Bloom filter of the edges, with two bits per edge."""
    label_sets: Ints
    """Shape (edges,): the number of the edge's list of labels. There are few distinct lists, so they stay in the cache.
    """
    label_set_starts: Ints
    """Shape (label sets + 1,)."""
    label_set_labels: Ints
    """Shape (any,): the labels of set `b` are `label_set_labels[label_set_starts[b] : label_set_starts[b + 1]]`."""


@inline_kernel
def _bloom_bits(bloom_filter: Words, one: int, other: int) -> tuple[np.uint64, np.uint64]:
    """Return the index of the filter's word for a pair of objects, and two bits in it."""
    mixed = (np.uint64(min(one, other)) * _A + np.uint64(max(one, other))) * _B
    bits = (_1 << (mixed >> _32 & _63)) | (_1 << (mixed >> _26 & _63))
    return (mixed >> _38) & np.uint64(len(bloom_filter) - 1), bits


@kernel
def fill_bloom_filter(starts: Longs, neighbours: Ints, bloom_filter: Words) -> None:
    """Add every edge to the filter."""
    for one in range(len(starts) - 1):
        for edge in range(starts[one], starts[one + 1]):
            if one < neighbours[edge]:
                at, bits = _bloom_bits(bloom_filter, one, neighbours[edge])
                bloom_filter[at] |= bits


@kernel
def number_label_sets(label_starts: Longs, labels: Ints, table: Ints, label_sets: Ints, firsts: Longs) -> int:
    """Number the distinct lists of labels by first occurrence. Return their number, or −1 if the table is too small.

    The table holds −1 and its length is a power of two; `firsts` is half as long and gets the first edge of each list.
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
    """Return whether two edges have the same list of labels."""
    begin, count = label_starts[one], label_starts[one + 1] - label_starts[one]
    if label_starts[other + 1] - label_starts[other] != count:
        return False
    for q in range(count):  # noqa: SIM110 - a kernel has no generators
        if labels[begin + q] != labels[label_starts[other] + q]:
            return False
    return True


@inline_kernel
def find_edge(graph: LabelledGraph, one: int, other: int) -> int:
    """Return the edge from one object to another, or −1. Mostly one look at the filter decides."""
    if not may_be_adjacent(graph, one, other):
        return -1
    return find_edge_in_row(graph, graph.starts[one], graph.starts[one + 1], other)


@inline_kernel
def may_be_adjacent(graph: LabelledGraph, one: int, other: int) -> bool:
    """Return False if two objects have no edge. True is wrong for about 1 % of pairs without an edge."""
    at, bits = _bloom_bits(graph.bloom_filter, one, other)
    return bool(graph.bloom_filter[at] & bits == bits)


@inline_kernel
def prefetch_adjacency(graph: LabelledGraph, one: int, other: int) -> None:
    """Prefetch the filter's word for a pair of objects."""
    at, _ = _bloom_bits(graph.bloom_filter, one, other)
    prefetch(graph.bloom_filter, at)


@inline_kernel
def find_edge_in_row(graph: LabelledGraph, begin: int, end: int, other: int) -> int:
    """Return the edge to an object in the row from `begin` to `end`, or −1.

    Interpolation search with a bisection guard: few steps for evenly spread numbers, never many more than bisection.
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

"""The facts between the objects of a tuple."""

from __future__ import annotations

from gaifman.kernels.balls import Adjacency
from gaifman.kernels.compiling import inline_kernel, kernel, zero
from gaifman.kernels.sets import Ints, Longs, binary_search, sort


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

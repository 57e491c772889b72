"""The facts inside one neighbourhood, gathered once for all formulas.

A local fact names its objects by their indices among the members. Facts with an object outside, hidden facts and facts
that drop out because of their confidence are left out.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gaifman.kernels.collections import Bytes, Ints, Longs
from gaifman.kernels.graph import LabelledGraph, find_edge, find_edge_in_row, may_be_adjacent
from gaifman.kernels.jit import ZERO, inline_kernel, inner_kernel, kernel
from gaifman.kernels.rng import fold_in, random_word

MAX_ARITY = 8
"""Columns of `LocalFacts.arguments`: the largest arity of a relation."""
_11, NO_KEY, _UNIT = np.uint64(11), np.uint64(0), 1.0 / (1 << 53)


class FactArrays(NamedTuple):
    """All facts by number."""

    relations: Ints
    """Shape (f,): the relation of each fact."""
    starts: Longs
    """Shape (f + 1,): the objects of fact `i` are `objects[starts[i] : starts[i + 1]]`."""
    objects: Ints
    own_starts: Longs
    """Shape (objects + 1,): the facts with no other object than `d` are `own[own_starts[d] : own_starts[d + 1]]`."""
    own: Ints
    confidence: npt.NDArray[np.float64]
    """Shape (f,), or (0,) if every confidence is 1."""


class NeighbourhoodView(NamedTuple):
    """One neighbourhood."""

    members: Ints
    edges: Ints
    """Shape of `members`, or (0,) if unknown: an edge from an object of the tuple to the member."""
    own: Ints
    """Shape (n,): the index of each object of the tuple among the members."""
    hidden: Longs
    """Facts that are not visible, and values: their numbers follow those of facts."""
    hidden_rows: Ints
    """Shape (hidden, 3): relation and objects of each hidden binary fact; −1 for other facts and for values."""
    key: np.uint64
    """The key that decides which uncertain facts drop out."""


class LocalFacts(NamedTuple):
    """Buffers of one thread. Between two neighbourhoods `member_index` and `first_fact` hold −1."""

    member_index: Ints
    """Shape (objects,): the index of an object among the members."""
    first_fact: Ints
    """Shape (relations,): the first local fact of a relation."""
    present: Ints
    """Shape (relations,): the relations with local facts; `counts[1]` of them."""
    next_fact: Ints
    """Shape (capacity,): the next local fact of the same relation, or −1."""
    arguments: Ints
    """Shape (capacity, 8): the members at the positions of a local fact."""
    counts: Longs
    """Shape (2,): the number of local facts, and of relations that have some."""


@inner_kernel
def gather_facts(
    graph: LabelledGraph, facts: FactArrays, members: Ints, hidden: Longs, key: np.uint64, local: LocalFacts
) -> bool:
    """Gather the facts inside; return False if the buffer is full.

    Call `reset_local_facts` afterwards in both cases.
    """
    count = len(members)
    for i in range(count):
        local.member_index[members[i]] = i
    for i in range(count):
        one = members[i]
        for p in range(facts.own_starts[one], facts.own_starts[one + 1]):
            if not _add_fact(facts, facts.own[p], hidden, key, local):
                return False
        begin, end = graph.starts[one], graph.starts[one + 1]
        if end - begin <= 2 * (count - i):
            for edge in range(begin, end):
                if local.member_index[graph.neighbours[edge]] > i and not _add_edge_facts(
                    graph, facts, edge, i, hidden, key, local
                ):
                    return False
        else:
            for j in range(i + 1, count):
                edge = find_edge(graph, one, members[j])
                if edge >= 0 and not _add_edge_facts(graph, facts, edge, i, hidden, key, local):
                    return False
    return True


@inner_kernel
def gather_binary_facts(
    graph: LabelledGraph,
    facts: FactArrays,
    members: Ints,
    hidden: Longs,
    hidden_rows: Ints,
    needed: Bytes,
    local: LocalFacts,
) -> bool:
    """Gather the facts inside if no relation has more than two positions and no fact drops out.

    Reads the label sets of edges instead of the facts, and takes only the facts of needed relations.
    """
    count = len(members)
    for i in range(count):
        local.member_index[members[i]] = i
    for i in range(count):
        one = members[i]
        if len(facts.own) > 0:
            for p in range(facts.own_starts[one], facts.own_starts[one + 1]):
                if not _add_fact(facts, facts.own[p], hidden, NO_KEY, local):
                    return False
        begin, end = graph.starts[one], graph.starts[one + 1]
        if end - begin <= 2 * (count - i):
            for edge in range(begin, end):
                j = int(local.member_index[graph.neighbours[edge]])
                if j > i and not _add_binary_facts(graph, members, edge, i, j, hidden_rows, needed, local):
                    return False
        else:
            for j in range(i + 1, count):
                if may_be_adjacent(graph, one, members[j]):
                    edge = find_edge_in_row(graph, begin, end, members[j])
                    if edge >= 0 and not _add_binary_facts(graph, members, edge, i, j, hidden_rows, needed, local):
                        return False
    return True


@inline_kernel
def _add_binary_facts(
    graph: LabelledGraph, members: Ints, edge: int, i: int, j: int, hidden_rows: Ints, needed: Bytes, local: LocalFacts
) -> bool:
    """Add the visible facts of needed relations between members i and j. Return False if the buffer is full."""
    label_set = graph.label_sets[edge]
    first, last = graph.label_set_starts[label_set], graph.label_set_starts[label_set + 1]
    if local.counts[0] + last - first > len(local.next_fact):
        return False
    for q in range(first, last):
        label = graph.label_set_labels[q]
        relation = graph.label_table[label, 0]
        if not needed[relation]:
            continue
        one, other = (i, j) if graph.label_table[label, 1] == 0 else (j, i)
        visible = True
        for h in range(len(hidden_rows)):
            same = (
                hidden_rows[h, 0] == relation
                and hidden_rows[h, 1] == members[one]
                and hidden_rows[h, 2] == members[other]
            )
            visible = visible and not same
        if visible:
            at = local.counts[0]
            local.arguments[at, 0], local.arguments[at, 1] = one, other
            _link_fact(local, at, relation)
    return True


@inline_kernel
def _link_fact(local: LocalFacts, at: int, relation: int) -> None:
    """Prepend the fact at index `at`, whose arguments are written, to the list of its relation."""
    if local.first_fact[relation] < 0:
        local.present[local.counts[1]] = relation
        local.counts[1] += 1
    local.next_fact[at] = local.first_fact[relation]
    local.first_fact[relation] = at
    local.counts[0] += 1


@inner_kernel
def reset_local_facts(members: Ints, local: LocalFacts) -> None:
    """Clear the buffers for the next neighbourhood."""
    for member in members:
        local.member_index[member] = -1
    for r in range(local.counts[1]):
        local.first_fact[local.present[r]] = -1


@inner_kernel
def _add_edge_facts(
    graph: LabelledGraph, facts: FactArrays, edge: int, i: int, hidden: Longs, key: np.uint64, local: LocalFacts
) -> bool:
    """Add the facts that this edge from member `i` owns: each fact belongs to one edge.

    Return False if the buffer is full.
    """
    j = local.member_index[graph.neighbours[edge]]
    for q in range(graph.label_starts[edge], graph.label_starts[edge + 1]):
        fact, label = graph.facts[q], graph.labels[q]
        if _owns_fact(graph, facts, fact, label, i, j, local) and not _add_fact(facts, fact, hidden, key, local):
            return False
    return True


@inner_kernel
def _owns_fact(
    graph: LabelledGraph, facts: FactArrays, fact: int, label: int, i: int, j: int, local: LocalFacts
) -> bool:
    """Return whether the edge between members i and j owns the fact.

    All objects must be members, `i` and `j` the first two of them, and the label the first between these.
    """
    start = facts.starts[fact]
    for p in range(facts.starts[fact + 1] - start):
        at = local.member_index[facts.objects[start + p]]
        if at < 0 or (at < j and at != i):
            return False
        if at == i and p < graph.label_table[label, 1]:
            return False
        if at == j and p < graph.label_table[label, 2]:
            return False
    return True


@inline_kernel
def is_hidden(hidden: Longs, number: int) -> bool:
    """Return whether a fact, or a value of an attribute, is among the hidden ones."""
    for other in hidden:  # noqa: SIM110 - a kernel has no generators
        if other == number:
            return True
    return False


@inner_kernel
def is_visible(facts: FactArrays, fact: int, hidden: Longs, key: np.uint64) -> bool:
    """Return whether a fact is not hidden and does not drop out of this neighbourhood.

    With `NO_KEY` no fact drops out.
    """
    if is_hidden(hidden, fact):
        return False
    return len(facts.confidence) == 0 or key == NO_KEY or _is_present(facts.confidence, fact, key)


@inline_kernel
def _is_present(confidence: npt.NDArray[np.float64], fact: int, key: np.uint64) -> bool:
    """Return whether a fact is present in the world of a key: with a probability that is its confidence."""
    return bool((random_word(fold_in(key, fact), ZERO) >> _11) * _UNIT < confidence[fact])


@kernel
def find_present_facts(
    confidence: npt.NDArray[np.float64], numbers: Longs, key: np.uint64, present: npt.NDArray[np.bool_]
) -> None:
    """Write for each of some facts whether it is present in the world of a key."""
    for i in range(len(numbers)):
        present[i] = _is_present(confidence, numbers[i], key)


@inner_kernel
def _add_fact(facts: FactArrays, fact: int, hidden: Longs, key: np.uint64, local: LocalFacts) -> bool:
    """Add a fact if it is visible. Return False if the buffer is full."""
    if not is_visible(facts, fact, hidden, key):
        return True
    at, relation = local.counts[0], facts.relations[fact]
    if at == len(local.next_fact):
        return False
    start = facts.starts[fact]
    for p in range(facts.starts[fact + 1] - start):
        local.arguments[at, p] = local.member_index[facts.objects[start + p]]
    _link_fact(local, at, relation)
    return True

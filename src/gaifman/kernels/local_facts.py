"""The facts inside a neighbourhood: gathered once, for whatever is asked of them.

A *local* fact names its objects by their places among the members. Facts that are hidden, or that drop out because of
their confidence, are left out; so is every fact with an object outside.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gaifman.kernels.collections import Bytes, Ints, Longs, Words
from gaifman.kernels.jit import inline_kernel, inner_kernel, kernel, prefetch
from gaifman.kernels.rng import fold_in, random_word

MAX_ARITY = 8
"""Places of a local fact in `LocalFacts.places`: as many as a relation can have."""
_A, _B = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9)
_1, _26, _32, _38, _63 = (np.uint64(n) for n in (1, 26, 32, 38, 63))
_11, NO_KEY, _UNIT = np.uint64(11), np.uint64(0), 1.0 / (1 << 53)


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
    binary: npt.NDArray[np.uint8]
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


class FactArrays(NamedTuple):
    """All facts by number."""

    relations: Ints
    """Shape (f,): the relation of each fact."""
    starts: Longs
    """Shape (f + 1,): the objects of fact `i` are `objects[starts[i] : starts[i + 1]]`."""
    objects: Ints
    own_starts: Longs
    """Shape (objects + 1,): facts with no other object than `d` are `own[own_starts[d] : own_starts[d + 1]]`."""
    own: Ints
    confidence: npt.NDArray[np.float64]
    """Shape (f,), or (0,) where every confidence is 1."""


class LocalFacts(NamedTuple):
    """What one thread gathers into; between two neighbourhoods `where` and `first` are −1 throughout."""

    member_index: Ints
    """Shape (objects,): the place of an object among the members."""
    first_fact: Ints
    """Shape (relations,): the first local fact of a relation."""
    present: Ints
    """Shape (relations,): the relations that have local facts, `counts[1]` of them."""
    next_fact: Ints
    """Shape (room,): the next local fact of the same relation, or −1."""
    arguments: Ints
    """Shape (room, 8): the members at the places of a local fact."""
    counts: Longs
    """Shape (2,): local facts, and relations that have some."""


@inner_kernel
def gather_facts(
    graph: LabelledGraph, facts: FactArrays, members: Ints, hidden: Longs, key: np.uint64, local: LocalFacts
) -> bool:
    """Gather the facts inside; False where there is no room for all of them. `reset_local_facts` comes after, in any case."""
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
    wanted: Bytes,
    local: LocalFacts,
) -> bool:
    """The same where no fact has more than two places and none drops out: off the edges' lists of labels.

    Only facts of relations that are wanted, and no look at any fact itself.
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
                if j > i and not _add_binary_facts(graph, members, edge, i, j, hidden_rows, wanted, local):
                    return False
        else:
            for j in range(i + 1, count):
                if may_be_adjacent(graph, one, members[j]):
                    edge = find_edge_in_row(graph, begin, end, members[j])
                    if edge >= 0 and not _add_binary_facts(graph, members, edge, i, j, hidden_rows, wanted, local):
                        return False
    return True


@inline_kernel
def _add_binary_facts(
    graph: LabelledGraph, members: Ints, edge: int, i: int, j: int, hidden_rows: Ints, wanted: Bytes, local: LocalFacts
) -> bool:
    """Add the facts between members i and j that are visible and wanted; False where there is no room."""
    bond = graph.label_sets[edge]
    first, last = graph.label_set_starts[bond], graph.label_set_starts[bond + 1]
    if local.counts[0] + last - first > len(local.next_fact):
        return False
    for q in range(first, last):
        label = graph.label_set_labels[q]
        relation = graph.label_table[label, 0]
        if not wanted[relation]:
            continue
        one, other = (i, j) if graph.label_table[label, 1] == 0 else (j, i)
        seen = True
        for h in range(len(hidden_rows)):
            same = (
                hidden_rows[h, 0] == relation
                and hidden_rows[h, 1] == members[one]
                and hidden_rows[h, 2] == members[other]
            )
            seen = seen and not same
        if seen:
            at = local.counts[0]
            local.arguments[at, 0], local.arguments[at, 1] = one, other
            _link_fact(local, at, relation)
    return True


@inline_kernel
def _link_fact(local: LocalFacts, at: int, relation: int) -> None:
    """A fact whose places are written becomes the first of its relation."""
    if local.first_fact[relation] < 0:
        local.present[local.counts[1]] = relation
        local.counts[1] += 1
    local.next_fact[at] = local.first_fact[relation]
    local.first_fact[relation] = at
    local.counts[0] += 1


@inner_kernel
def reset_local_facts(members: Ints, local: LocalFacts) -> None:
    """Make the scratch ready for the next neighbourhood."""
    for member in members:
        local.member_index[member] = -1
    for r in range(local.counts[1]):
        local.first_fact[local.present[r]] = -1


@inner_kernel
def _add_edge_facts(
    graph: LabelledGraph, facts: FactArrays, edge: int, i: int, hidden: Longs, key: np.uint64, local: LocalFacts
) -> bool:
    """Add the facts of an edge from member `i` that are its own to add: each fact belongs to one edge."""
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
    """Whether all objects are members, `i` and `j` the first two of them, and the label the first that says so."""
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


@inner_kernel
def is_visible(facts: FactArrays, fact: int, hidden: Longs, key: np.uint64) -> bool:
    """Whether a fact is neither hidden nor, being uncertain, dropped from this neighbourhood; no key drops nothing."""
    for other in hidden:
        if other == fact:
            return False
    if len(facts.confidence) > 0 and key != NO_KEY:
        uniform = (random_word(fold_in(key, fact), 0) >> _11) * _UNIT
        return bool(uniform < facts.confidence[fact])
    return True


@inner_kernel
def _add_fact(facts: FactArrays, fact: int, hidden: Longs, key: np.uint64, local: LocalFacts) -> bool:
    """Add a fact, unless it is not visible; False where there is no room."""
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

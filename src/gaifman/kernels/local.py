"""The facts inside a neighbourhood: gathered once, for whatever is asked of them.

A *local* fact names its objects by their places among the members. Facts that are hidden, or that drop out because of
their confidence, are left out; so is every fact with an object outside.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gaifman.kernels.compiling import compiled
from gaifman.kernels.random import join, word
from gaifman.kernels.sets import Ints, Longs, place

PLACES = 8
"""Places of a local fact in `Local.places`: as many as a relation can have."""
_11, NO_KEY, _UNIT = np.uint64(11), np.uint64(0), 1.0 / (1 << 53)


class Links(NamedTuple):
    """The Gaifman graph, as `gaifman.graph.Graph` describes it."""

    starts: Longs
    neighbours: Ints
    label_starts: Longs
    labels: Ints
    facts: Ints
    label_table: Ints
    bases: Ints
    """Shape (relations,): the first label of each relation; of two places, the second is the other way round."""
    binary: npt.NDArray[np.uint8]
    """Shape (labels,): whether the label's relation has two places."""


class Incidence(NamedTuple):
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


class Local(NamedTuple):
    """What one thread gathers into; between two neighbourhoods `where` and `first` are −1 throughout."""

    where: Ints
    """Shape (objects,): the place of an object among the members."""
    first: Ints
    """Shape (relations,): the first local fact of a relation."""
    present: Ints
    """Shape (relations,): the relations that have local facts, `counts[1]` of them."""
    following: Ints
    """Shape (room,): the next local fact of the same relation, or −1."""
    places: Ints
    """Shape (room, 8): the members at the places of a local fact."""
    numbers: Ints
    """Shape (room,): the fact's number."""
    counts: Longs
    """Shape (2,): local facts, and relations that have some."""


@compiled
def gather(links: Links, facts: Incidence, members: Ints, hidden: Longs, key: np.uint64, local: Local) -> bool:
    """Gather the facts inside; False where there is no room for all of them. `forget` comes after, in any case."""
    count = len(members)
    local.counts[:] = 0
    for i in range(count):
        local.where[members[i]] = i
    for i in range(count):
        one = members[i]
        for p in range(facts.own_starts[one], facts.own_starts[one + 1]):
            if not _add(facts, facts.own[p], hidden, key, local):
                return False
        begin, end = links.starts[one], links.starts[one + 1]
        if end - begin <= 8 * (count - i):
            for edge in range(begin, end):
                if local.where[links.neighbours[edge]] > i and not _edge(links, facts, edge, i, hidden, key, local):
                    return False
        else:
            for j in range(i + 1, count):
                edge = place(links.neighbours, begin, end, members[j])
                if edge >= 0 and not _edge(links, facts, edge, i, hidden, key, local):
                    return False
    return True


@compiled
def forget(members: Ints, local: Local) -> None:
    """Make the scratch ready for the next neighbourhood."""
    for member in members:
        local.where[member] = -1
    for r in range(local.counts[1]):
        local.first[local.present[r]] = -1


@compiled
def _edge(links: Links, facts: Incidence, edge: int, i: int, hidden: Longs, key: np.uint64, local: Local) -> bool:
    """Add the facts of an edge from member `i` that are its own to add: each fact belongs to one edge."""
    j = local.where[links.neighbours[edge]]
    for q in range(links.label_starts[edge], links.label_starts[edge + 1]):
        fact, label = links.facts[q], links.labels[q]
        if _belongs(links, facts, fact, label, i, j, local) and not _add(facts, fact, hidden, key, local):
            return False
    return True


@compiled
def _belongs(links: Links, facts: Incidence, fact: int, label: int, i: int, j: int, local: Local) -> bool:
    """Whether all objects are members, `i` and `j` the first two of them, and the label the first that says so."""
    start = facts.starts[fact]
    for p in range(facts.starts[fact + 1] - start):
        at = local.where[facts.objects[start + p]]
        if at < 0 or (at < j and at != i):
            return False
        if at == i and p < links.label_table[label, 1]:
            return False
        if at == j and p < links.label_table[label, 2]:
            return False
    return True


@compiled
def visible(facts: Incidence, fact: int, hidden: Longs, key: np.uint64) -> bool:
    """Whether a fact is neither hidden nor, being uncertain, dropped from this neighbourhood; no key drops nothing."""
    for other in hidden:
        if other == fact:
            return False
    if len(facts.confidence) > 0 and key != NO_KEY:
        uniform = (word(join(key, fact), 0) >> _11) * _UNIT
        return bool(uniform < facts.confidence[fact])
    return True


@compiled
def _add(facts: Incidence, fact: int, hidden: Longs, key: np.uint64, local: Local) -> bool:
    """Add a fact, unless it is not visible; False where there is no room."""
    if not visible(facts, fact, hidden, key):
        return True
    at, relation = local.counts[0], facts.relations[fact]
    if at == len(local.numbers):
        return False
    start = facts.starts[fact]
    for p in range(facts.starts[fact + 1] - start):
        local.places[at, p] = local.where[facts.objects[start + p]]
    if local.first[relation] < 0:
        local.present[local.counts[1]] = relation
        local.counts[1] += 1
    local.following[at] = local.first[relation]
    local.first[relation] = at
    local.numbers[at] = fact
    local.counts[0] += 1
    return True

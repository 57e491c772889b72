"""The facts inside a neighbourhood: gathered once, for whatever is asked of them.

A *local* fact names its objects by their places among the members. Facts that are hidden, or that drop out because of
their confidence, are left out; so is every fact with an object outside.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gaifman.kernels.compiling import compiled, foresee, inlined, inner
from gaifman.kernels.random import join, word
from gaifman.kernels.sets import Bytes, Ints, Longs, Words

PLACES = 8
"""Places of a local fact in `Local.places`: as many as a relation can have."""
_A, _B = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9)
_1, _26, _32, _38, _63 = (np.uint64(n) for n in (1, 26, 32, 38, 63))
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
    turned: Ints
    """Shape (labels,): the label seen from the other end."""
    pure: bool
    """Whether every label's has."""
    sieve: Words
    """Shape (a power of two,): two bits are set for each edge; one that is not set says that there is no such edge."""
    bonds: Ints
    """Shape (edges,): which list of labels each edge has. There are few different ones: they stay in the cache."""
    bond_starts: Ints
    """Shape (bonds + 1,)."""
    bond_labels: Ints
    """Shape (any,): the labels of bond `b` are `bond_labels[bond_starts[b] : bond_starts[b + 1]]`."""


@inlined
def _sifted(sieve: Words, one: int, other: int) -> tuple[np.uint64, np.uint64]:
    """The word of the sieve, and two bits in it, for the edges between two objects."""
    mixed = (np.uint64(min(one, other)) * _A + np.uint64(max(one, other))) * _B
    bits = (_1 << (mixed >> _32 & _63)) | (_1 << (mixed >> _26 & _63))
    return (mixed >> _38) & np.uint64(len(sieve) - 1), bits


@compiled
def set_sieve(starts: Longs, neighbours: Ints, sieve: Words) -> None:
    """Enter every edge."""
    for one in range(len(starts) - 1):
        for edge in range(starts[one], starts[one + 1]):
            if one < neighbours[edge]:
                at, bits = _sifted(sieve, one, neighbours[edge])
                sieve[at] |= bits


@compiled
def set_bonds(label_starts: Longs, labels: Ints, table: Ints, bonds: Ints, firsts: Longs) -> int:
    """Number the different lists of labels, each by its first edge; how many, −1 where the table is too small.

    The table is all −1, of a power of two; `firsts` is half as long.
    """
    count, last = 0, len(table) - 1
    for edge in range(len(bonds)):
        begin, end = label_starts[edge], label_starts[edge + 1]
        mixed = np.uint64(end - begin)
        for q in range(begin, end):
            mixed = (mixed ^ np.uint64(labels[q])) * _A
            mixed ^= mixed >> _32
        slot = np.int64(mixed) & last
        while table[slot] >= 0 and not _same(label_starts, labels, firsts[table[slot]], edge):
            slot = (slot + 1) & last
        if table[slot] < 0:
            if count == len(firsts):
                return -1
            table[slot], firsts[count] = count, edge
            count += 1
        bonds[edge] = table[slot]
    return count


@inlined
def _same(label_starts: Longs, labels: Ints, one: int, other: int) -> bool:
    """Whether two edges have the same list of labels."""
    begin, count = label_starts[one], label_starts[one + 1] - label_starts[one]
    if label_starts[other + 1] - label_starts[other] != count:
        return False
    for q in range(count):  # noqa: SIM110 - a kernel has no generators
        if labels[begin + q] != labels[label_starts[other] + q]:
            return False
    return True


@inlined
def edge_of(links: Links, one: int, other: int) -> int:
    """The edge from one object to another, −1 where there is none: most often one look says so."""
    if not may_touch(links, one, other):
        return -1
    return edge_to(links, links.starts[one], links.starts[one + 1], other)


@inlined
def may_touch(links: Links, one: int, other: int) -> bool:
    """False where two objects have no edge; seldom True where they have none."""
    at, bits = _sifted(links.sieve, one, other)
    return bool(links.sieve[at] & bits == bits)


@inlined
def foresee_touch(links: Links, one: int, other: int) -> None:
    """It will be asked soon whether two objects touch."""
    at, _ = _sifted(links.sieve, one, other)
    foresee(links.sieve, at)


@inlined
def edge_to(links: Links, begin: int, end: int, other: int) -> int:
    """Where in the row from `begin` to `end` an object stands, −1 where it does not.

    Guessed as if the numbers were evenly spread, then closed in on: few looks where they nearly are, and never many
    more than bisection needs.
    """
    run, low, high = links.neighbours, begin, end - 1
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
    counts: Longs
    """Shape (2,): local facts, and relations that have some."""


@inner
def gather(links: Links, facts: Incidence, members: Ints, hidden: Longs, key: np.uint64, local: Local) -> bool:
    """Gather the facts inside; False where there is no room for all of them. `forget` comes after, in any case."""
    count = len(members)
    for i in range(count):
        local.where[members[i]] = i
    for i in range(count):
        one = members[i]
        for p in range(facts.own_starts[one], facts.own_starts[one + 1]):
            if not _add(facts, facts.own[p], hidden, key, local):
                return False
        begin, end = links.starts[one], links.starts[one + 1]
        if end - begin <= 2 * (count - i):
            for edge in range(begin, end):
                if local.where[links.neighbours[edge]] > i and not _edge(links, facts, edge, i, hidden, key, local):
                    return False
        else:
            for j in range(i + 1, count):
                edge = edge_of(links, one, members[j])
                if edge >= 0 and not _edge(links, facts, edge, i, hidden, key, local):
                    return False
    return True


@inner
def gather_bonds(
    links: Links, facts: Incidence, members: Ints, hidden: Longs, unseen: Ints, wanted: Bytes, local: Local
) -> bool:
    """The same where no fact has more than two places and none drops out: off the edges' lists of labels.

    Only facts of relations that are wanted, and no look at any fact itself.
    """
    count = len(members)
    for i in range(count):
        local.where[members[i]] = i
    for i in range(count):
        one = members[i]
        if len(facts.own) > 0:
            for p in range(facts.own_starts[one], facts.own_starts[one + 1]):
                if not _add(facts, facts.own[p], hidden, NO_KEY, local):
                    return False
        begin, end = links.starts[one], links.starts[one + 1]
        if end - begin <= 2 * (count - i):
            for edge in range(begin, end):
                j = int(local.where[links.neighbours[edge]])
                if j > i and not _add_bond(links, members, edge, i, j, unseen, wanted, local):
                    return False
        else:
            for j in range(i + 1, count):
                if may_touch(links, one, members[j]):
                    edge = edge_to(links, begin, end, members[j])
                    if edge >= 0 and not _add_bond(links, members, edge, i, j, unseen, wanted, local):
                        return False
    return True


@inlined
def _add_bond(
    links: Links, members: Ints, edge: int, i: int, j: int, unseen: Ints, wanted: Bytes, local: Local
) -> bool:
    """Add the facts between members i and j that are visible and wanted; False where there is no room."""
    bond = links.bonds[edge]
    first, last = links.bond_starts[bond], links.bond_starts[bond + 1]
    if local.counts[0] + last - first > len(local.following):
        return False
    for q in range(first, last):
        label = links.bond_labels[q]
        relation = links.label_table[label, 0]
        if not wanted[relation]:
            continue
        one, other = (i, j) if links.label_table[label, 1] == 0 else (j, i)
        seen = True
        for h in range(len(unseen)):
            same = unseen[h, 0] == relation and unseen[h, 1] == members[one] and unseen[h, 2] == members[other]
            seen = seen and not same
        if seen:
            at = local.counts[0]
            local.places[at, 0], local.places[at, 1] = one, other
            _chain(local, at, relation)
    return True


@inlined
def _chain(local: Local, at: int, relation: int) -> None:
    """A fact whose places are written becomes the first of its relation."""
    if local.first[relation] < 0:
        local.present[local.counts[1]] = relation
        local.counts[1] += 1
    local.following[at] = local.first[relation]
    local.first[relation] = at
    local.counts[0] += 1


@inner
def forget(members: Ints, local: Local) -> None:
    """Make the scratch ready for the next neighbourhood."""
    for member in members:
        local.where[member] = -1
    for r in range(local.counts[1]):
        local.first[local.present[r]] = -1


@inner
def _edge(links: Links, facts: Incidence, edge: int, i: int, hidden: Longs, key: np.uint64, local: Local) -> bool:
    """Add the facts of an edge from member `i` that are its own to add: each fact belongs to one edge."""
    j = local.where[links.neighbours[edge]]
    for q in range(links.label_starts[edge], links.label_starts[edge + 1]):
        fact, label = links.facts[q], links.labels[q]
        if _belongs(links, facts, fact, label, i, j, local) and not _add(facts, fact, hidden, key, local):
            return False
    return True


@inner
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


@inner
def visible(facts: Incidence, fact: int, hidden: Longs, key: np.uint64) -> bool:
    """Whether a fact is neither hidden nor, being uncertain, dropped from this neighbourhood; no key drops nothing."""
    for other in hidden:
        if other == fact:
            return False
    if len(facts.confidence) > 0 and key != NO_KEY:
        uniform = (word(join(key, fact), 0) >> _11) * _UNIT
        return bool(uniform < facts.confidence[fact])
    return True


@inner
def _add(facts: Incidence, fact: int, hidden: Longs, key: np.uint64, local: Local) -> bool:
    """Add a fact, unless it is not visible; False where there is no room."""
    if not visible(facts, fact, hidden, key):
        return True
    at, relation = local.counts[0], facts.relations[fact]
    if at == len(local.following):
        return False
    start = facts.starts[fact]
    for p in range(facts.starts[fact + 1] - start):
        local.places[at, p] = local.where[facts.objects[start + p]]
    _chain(local, at, relation)
    return True

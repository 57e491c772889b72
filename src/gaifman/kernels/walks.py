"""Paths of three steps from one object of the tuple over two members to another."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gaifman.kernels.compiling import inlined, inner
from gaifman.kernels.families import NONE, Families, Hashed, follows, many_of, packed, slot_of, some_of, walk_key
from gaifman.kernels.lists import LISTED, Lists, Place, meet_hashed, put_down
from gaifman.kernels.local import NO_KEY, Incidence, Links, edge_of, visible
from gaifman.kernels.rows import Met, meet, once_more
from gaifman.kernels.sets import Ints, Longs, Words

LOOP, LAST, FIRST = -2, -3, -4
"""In place of the edge in the middle: facts of one member alone; what is listed of the last step, or of the first."""
_0 = np.uint64(0)


class Memo(NamedTuple):
    """What paths over three bonds are asked for, once found: the same bonds come again and again."""

    table: Hashed
    """Shape (a power of two, 2): three bonds as one number, and where their features begin and end below, packed."""
    features: Ints
    """Shape (room,): twice the feature, and 1 more for one that counts."""
    counts: Longs
    """Shape (2,): features and keys so far."""


@inlined
def _ends(
    wanted: Words, along: Words, links: Links, lists: Lists, whose: int, side: int, found: Ints, at: int, size: int
) -> int:
    """The members to which an object of the tuple has a label that is wanted; how many, −1 for no room."""
    count = 0
    for x in range(size):
        bond, bits = lists.bonds[whose, x], _0
        if bond == LISTED:
            end = put_down(links, lists, whose, x, at)
            if end < 0:
                return -1
            for q in range(at, end):
                bits |= wanted[lists.labels[q]]
        elif bond != NONE:
            bits = along[bond]
        found[count], lists.bits[side, count] = x, bits
        count += bits != _0
    return count


@inner
def three_steps(
    families: Families,
    links: Links,
    facts: Incidence,
    spot: Place,
    i: int,
    j: int,
    lists: Lists,
    memo: Memo,
    at: int,
    met: Met,
) -> bool:
    """Paths from object i over two members to object j; False where there is no room for labels."""
    members, bonds = spot.members, lists.bonds
    near = _ends(families.leads[i, j], families.bond_leads[i, j], links, lists, i, 0, lists.near, at, len(members))
    far = _ends(families.arrives[i, j], families.bond_arrives[i, j], links, lists, j, 1, lists.far, at, len(members))
    if near < 0 or far < 0:
        return False
    memorable = links.pure and (len(facts.confidence) == 0 or spot.key == NO_KEY) and len(links.bond_starts) < 1 << 18
    for a in range(near):
        x = int(lists.near[a])
        for b in range(far):
            y = int(lists.far[b])
            if lists.bits[0, a] & lists.bits[1, b] == _0:
                continue
            if x == y:
                edge = LOOP if len(facts.own) > 0 else NONE
            elif x == spot.own[j]:  # already listed, whatever is between the two
                edge = LAST if bonds[j, y] != NONE else NONE
            elif y == spot.own[i]:
                edge = FIRST
            else:
                edge = edge_of(links, members[x], members[y])
            if edge == NONE:
                continue
            done = memorable and edge >= 0 and bonds[i, x] >= 0 and bonds[j, y] >= 0
            if done and not _secret(spot, members[x], members[y]):
                done = _remember(families, links, i, j, bonds[i, x], links.bonds[edge], bonds[j, y], memo, met)
            else:
                done = False
            if not done and not _walk(families, links, facts, spot, i, j, x, y, edge, lists, at, met):
                return False
    return True


@inlined
def _secret(spot: Place, one: int, other: int) -> bool:
    """Whether a hidden fact is between two members."""
    secret = False
    for h in range(len(spot.hidden)):
        here = spot.unseen[h, 1] == one or spot.unseen[h, 1] == other
        secret = secret or (here and (spot.unseen[h, 2] == one or spot.unseen[h, 2] == other))
    return secret


@inner
def _walk(
    families: Families,
    links: Links,
    facts: Incidence,
    spot: Place,
    i: int,
    j: int,
    x: int,
    y: int,
    edge: int,
    lists: Lists,
    at: int,
    met: Met,
) -> bool:
    """Meet the paths from object i over x and y to object j; False where there is no room for labels."""
    after = put_down(links, lists, i, x, at)
    if after < 0:
        return False
    if edge == LOOP:
        end = _loops(links, facts, spot, spot.members[x], lists, after)
    elif edge == LAST:
        end = put_down(links, lists, j, y, after)
    elif edge == FIRST:
        end = put_down(links, lists, i, x, after)
        for q in range(after, end):
            lists.labels[q] = links.turned[lists.labels[q]]
    else:
        end = _labels_of(links, facts, spot, edge, lists, after)
    last = put_down(links, lists, j, y, end) if end >= 0 else end
    if last < 0:
        return False
    width, labels = families.hop.shape
    for q in range(at, after):
        first = lists.labels[q]
        wanted, ending = families.sets_out[i, j, first], families.leads[i, j, first]
        for s in range(after, end):
            if wanted & follows(lists.labels[s]):
                for u in range(end, last):
                    if ending & follows(lists.labels[u]):
                        key = walk_key(i * width + j, first, lists.labels[s], lists.labels[u], labels)
                        meet_hashed(families.walk, key, met)
    return True


@inlined
def _remember(
    families: Families,
    links: Links,
    i: int,
    j: int,
    first: int,
    middle: int,
    last: int,
    memo: Memo,
    met: Met,
) -> bool:
    """Meet the paths over three bonds, found out or remembered; False where there is no room for them."""
    bonds, width = np.int64(len(links.bond_starts)), families.hop.shape[0]
    key = ((np.int64(first) * bonds + middle) * bonds + last) * (width * width) + i * width + j
    slot = slot_of(memo.table, key)
    if memo.table[slot, 0] != key:
        slot = _found_out(families, links, i, j, first, middle, last, key, slot, memo)
    if slot < 0:
        return False
    for f in range(some_of(memo.table[slot, 1]), many_of(memo.table[slot, 1])):
        feature = memo.features[f]
        if feature & 1:
            once_more(met, feature >> 1)
        else:
            meet(met, feature >> 1)
    return True


@inner
def _found_out(
    families: Families,
    links: Links,
    i: int,
    j: int,
    first: int,
    middle: int,
    last: int,
    key: int,
    slot: int,
    memo: Memo,
) -> int:
    """Write down what paths over three bonds are asked for; where is no room, all is forgotten. The slot, or −1."""
    starts, bond_labels = links.bond_starts, links.bond_labels
    most = 2 * (starts[first + 1] - starts[first]) * (starts[middle + 1] - starts[middle])
    most *= starts[last + 1] - starts[last]
    if most > len(memo.features):
        return -1
    if memo.counts[0] + most > len(memo.features) or 2 * memo.counts[1] > len(memo.table):
        memo.table[:, 0] = NONE
        memo.counts[:] = 0
        slot = slot_of(memo.table, key)
    width, labels = families.hop.shape
    at = begin = memo.counts[0]
    for q in range(starts[first], starts[first + 1]):
        wanted, ending = families.sets_out[i, j, bond_labels[q]], families.leads[i, j, bond_labels[q]]
        for s in range(starts[middle], starts[middle + 1]):
            if wanted & follows(bond_labels[s]):
                for u in range(starts[last], starts[last + 1]):
                    if not ending & follows(bond_labels[u]):
                        continue
                    path = walk_key(i * width + j, bond_labels[q], bond_labels[s], bond_labels[u], labels)
                    found = slot_of(families.walk, path)
                    if families.walk[found, 0] != NONE:
                        some, many = some_of(families.walk[found, 1]), many_of(families.walk[found, 1])
                        if some >= 0:
                            memo.features[at] = 2 * some
                            at += 1
                        if many >= 0:
                            memo.features[at] = 2 * many + 1
                            at += 1
    memo.table[slot, 0], memo.table[slot, 1] = key, packed(begin, at)
    memo.counts[0] = at
    memo.counts[1] += 1
    return slot


@inlined
def _labels_of(links: Links, facts: Incidence, spot: Place, edge: int, lists: Lists, at: int) -> int:
    """List the labels of an edge between two members; where they end, −1 where there is no room."""
    first, last = links.label_starts[edge], links.label_starts[edge + 1]
    if at + last - first > len(lists.labels):
        return -1
    for q in range(first, last):
        if links.binary[links.labels[q]] and visible(facts, links.facts[q], spot.hidden, spot.key):
            lists.labels[at] = links.labels[q]
            at += 1
    return at


@inner
def _loops(links: Links, facts: Incidence, spot: Place, one: int, lists: Lists, at: int) -> int:
    """The same for facts r(a, a)."""
    for p in range(facts.own_starts[one], facts.own_starts[one + 1]):
        fact = facts.own[p]
        if facts.starts[fact + 1] - facts.starts[fact] == 2 and visible(facts, fact, spot.hidden, spot.key):
            if at + 2 > len(lists.labels):
                return -1
            base = links.bases[facts.relations[fact]]
            lists.labels[at], lists.labels[at + 1] = base, base + 1
            at += 2
    return at

"""The common features, without tables: what links the tuple's objects to each other and to the members around them.

For each object of the tuple and each member, the labels of the facts between the two are listed once. Every feature of
the families is read off these lists: only facts that are there are visited, however many features there are.
"""

from __future__ import annotations

import numpy as np

from gaifman.kernels.compiling import inlined, inner
from gaifman.kernels.families import (
    COUNTS,
    FIXED,
    NONE,
    STEP,
    THREE,
    TWO,
    WIDE,
    Families,
    fixed_key,
    follows,
    path_key,
)
from gaifman.kernels.lists import LISTED, Lists, Place, different, first_of, meet_hashed, put_down
from gaifman.kernels.local import NO_KEY, Incidence, Links, edge_to, may_touch, visible
from gaifman.kernels.rows import Met, meet, once_more
from gaifman.kernels.sets import Ints
from gaifman.kernels.walks import Memo, three_steps
from gaifman.kernels.wide import meet_along, meet_fact

NOBODY, ANYBODY = -1, -2
"""No rival; several."""
_0, _1 = np.uint64(0), np.uint64(1)


@inlined
def _edges(links: Links, spot: Place, i: int, count: int, lists: Lists) -> int:
    """The edges from object i of the tuple to the first members; how many there are.

    Not those to earlier objects of the tuple: they have been seen from there. In turns over all members, each without a
    branch to guess wrong, so that their look-ups wait for memory together: those known from the draw; which of the
    others may have an edge; which have.
    """
    own, one = spot.own, spot.members[spot.own[i]]
    begin, end, found, others = links.starts[one], links.starts[one + 1], _0, _0
    in_front = different(own)
    for k in range(in_front):
        earlier = False
        for h in range(i + 1):
            earlier = earlier or own[h] == k
        lists.far[others] = k
        others += np.uint64(not earlier)
    if len(spot.edges) > 0:
        for k in range(in_front, count):
            edge = spot.edges[k]
            inside = edge >= begin and edge < end
            lists.edges[found], lists.places[found] = edge, k
            lists.far[others] = k
            found += np.uint64(inside)
            others += np.uint64(not inside)
    else:
        for k in range(in_front, count):
            lists.far[others] = k
            others += _1
    doubtful = _0
    for k in range(np.int64(others)):
        other = np.uint64(lists.far[k])
        lists.near[doubtful] = other
        doubtful += np.uint64(may_touch(links, one, spot.members[other]))
    for k in range(np.int64(doubtful)):
        other = np.uint64(lists.near[k])
        edge = edge_to(links, begin, end, spot.members[other])
        lists.edges[found], lists.places[found] = edge, other
        found += np.uint64(edge >= 0)
    return int(found)


@inlined
def _rival(links: Links, unseen: Ints, one: int) -> tuple[int, int]:
    """The object with which one has a hidden fact, and its label; NOBODY, or ANYBODY where there are several."""
    rival, label = NOBODY, NONE
    for h in range(len(unseen)):
        for place_ in range(2):
            if unseen[h, 1 + place_] == one:
                rival = unseen[h, 2 - place_] if rival == NOBODY else ANYBODY
                label = links.bases[unseen[h, 0]] + place_
    return rival, label


@inlined
def listed(
    families: Families, links: Links, facts: Incidence, spot: Place, i: int, lists: Lists, at: int, met: Met
) -> int:
    """Note what is between object i of the tuple and each member, and meet what one step is asked for.

    The next free place of the listed labels; −1 where there is no room.
    """
    members, own, bonds, in_front = spot.members, spot.own, lists.bonds, different(spot.own)
    rival, secret = _rival(links, spot.unseen, members[own[i]])
    sure = links.pure and rival != ANYBODY and (len(facts.confidence) == 0 or spot.key == NO_KEY)
    step, more = families.asks[STEP] != 0, families.asks[COUNTS] != 0 or families.asks[FIXED] != 0
    for j in range(len(members)):
        bonds[i, j] = NONE
    found = _edges(links, spot, i, len(members) if step else in_front, lists)
    for f in range(found):
        lists.near[f] = links.bonds[lists.edges[f]]
    for f in range(found):
        j, bond = lists.places[f], lists.near[f]
        if not sure:
            at = _carefully(families, links, facts, spot, i, j, lists.edges[f], lists, at, met)
        elif j < in_front or members[j] == rival:
            at = _without(families, links, bond, secret if members[j] == rival else NONE, spot, i, j, lists, at, met)
        else:
            bonds[i, j] = bond
            for q in range(links.bond_starts[bond], links.bond_starts[bond + 1]):
                feature = families.bond_hop[i, q]
                if feature >= 0:
                    meet(met, feature)
                if more:
                    _more(families, i, links.bond_labels[q], members[j], len(links.starts) - 1, met)
        if at < 0:
            return -1
    at = _turned(families, links, spot, i, lists, at, met)
    one = members[own[i]]
    if at >= 0 and len(facts.own) > 0 and facts.own_starts[one] < facts.own_starts[one + 1]:
        return _alone(families, links, facts, spot, i, lists, at, met)
    return at


@inlined
def _without(
    families: Families,
    links: Links,
    bond: int,
    secret: int,
    spot: Place,
    i: int,
    j: int,
    lists: Lists,
    at: int,
    met: Met,
) -> int:
    """List the labels of a bond but for a secret one, and meet what one step is asked for."""
    first, last = links.bond_starts[bond], links.bond_starts[bond + 1]
    if at + last - first > len(lists.labels):
        return -1
    lists.bonds[i, j], lists.begins[i, j] = LISTED, at
    for q in range(first, last):
        label = links.bond_labels[q]
        if label != secret:
            lists.labels[at] = label
            at += 1
            step(families, i, label, spot.members[j], len(links.starts) - 1, met)
    lists.ends[i, j] = at
    return at


@inner
def _carefully(
    families: Families,
    links: Links,
    facts: Incidence,
    spot: Place,
    i: int,
    j: int,
    edge: int,
    lists: Lists,
    at: int,
    met: Met,
) -> int:
    """The same where any fact of the edge may not be visible, or have more than two places."""
    first, last = links.label_starts[edge], links.label_starts[edge + 1]
    if at + last - first > len(lists.labels):
        return -1
    lists.bonds[i, j], lists.begins[i, j] = LISTED, at
    for q in range(first, last):
        label, fact = links.labels[q], links.facts[q]
        if visible(facts, fact, spot.hidden, spot.key):
            if links.binary[label]:
                lists.labels[at] = label
                at += 1
                step(families, i, label, spot.members[j], len(links.starts) - 1, met)
            elif families.asks[WIDE]:
                meet_along(families, links, facts, spot, i, fact, label, met)
    lists.ends[i, j] = at
    return at


@inlined
def _turned(families: Families, links: Links, spot: Place, i: int, lists: Lists, at: int, met: Met) -> int:
    """What object i of the tuple has with earlier ones: as listed there, seen from the other end."""
    own = spot.own
    for h in range(i):
        if own[h] != own[i] and lists.bonds[h, own[i]] == LISTED:
            first, last = lists.begins[h, own[i]], lists.ends[h, own[i]]
            if at + last - first > len(lists.labels):
                return -1
            lists.bonds[i, own[h]], lists.begins[i, own[h]] = LISTED, at
            for q in range(first, last):
                label = links.turned[lists.labels[q]]
                lists.labels[at] = label
                at += 1
                step(families, i, label, spot.members[own[h]], len(links.starts) - 1, met)
            lists.ends[i, own[h]] = at
    return at


@inlined
def step(families: Families, i: int, label: int, other: int, objects: int, met: Met) -> None:
    """Meet what one step is asked for."""
    if families.hop[i, label] >= 0:
        meet(met, families.hop[i, label])
    _more(families, i, label, other, objects, met)


@inlined
def _more(families: Families, i: int, label: int, other: int, objects: int, met: Met) -> None:
    """Meet what counts steps or names where they lead."""
    if families.hops[i, label] >= 0:
        once_more(met, families.hops[i, label])
    if families.known[i, other & (families.known.shape[1] - 1)] & follows(label):
        meet_hashed(families.fixed, fixed_key(i, label, families.hop.shape[1], other, objects), met)


@inner
def _alone(
    families: Families, links: Links, facts: Incidence, spot: Place, i: int, lists: Lists, at: int, met: Met
) -> int:
    """Facts with no other object than the tuple's i-th: r(a); r(a, a), which has both labels of r; r(a, a, a)."""
    own = spot.own[i]
    one = spot.members[own]
    lists.bonds[i, own], lists.begins[i, own] = LISTED, at
    for p in range(facts.own_starts[one], facts.own_starts[one + 1]):
        fact = facts.own[p]
        relation, places = facts.relations[fact], facts.starts[fact + 1] - facts.starts[fact]
        if not visible(facts, fact, spot.hidden, spot.key):
            continue
        if places == 1 and families.kind[i, relation] >= 0:
            meet(met, families.kind[i, relation])
        if places > 2 and families.asks[WIDE] and first_of(spot.own, i):
            meet_fact(families, facts, spot, fact, met)
        if places == 2:
            if at + 2 > len(lists.labels):
                return -1
            for place_ in range(2):
                lists.labels[at] = links.bases[relation] + place_
                label = lists.labels[at]
                at += 1
                step(families, i, label, one, len(links.starts) - 1, met)
    lists.ends[i, own] = at
    return at


@inlined
def _between(families: Families, links: Links, own: Ints, i: int, j: int, lists: Lists, met: Met) -> None:
    """Facts between two objects of the tuple: always listed."""
    if lists.bonds[i, own[j]] == LISTED:
        for q in range(lists.begins[i, own[j]], lists.ends[i, own[j]]):
            label = lists.labels[q]
            if families.pair[i, j, label] >= 0:
                meet(met, families.pair[i, j, label])
            if families.linked[i, j] >= 0 and links.label_table[label, 1] == 0:
                meet(met, families.linked[i, j])


@inlined
def _two_steps(families: Families, links: Links, size: int, i: int, j: int, lists: Lists, at: int, met: Met) -> bool:
    """Paths from object i over a member to object j; False where there is no room for labels."""
    width, labels = families.hop.shape
    both = 0
    for x in range(size):
        lists.near[both] = x
        both += lists.bonds[i, x] != NONE and lists.bonds[j, x] != NONE
    for k in range(both):
        x = int(lists.near[k])
        middle = put_down(links, lists, i, x, at)
        end = put_down(links, lists, j, x, middle) if middle >= 0 else middle
        if end < 0:
            return False
        for q in range(at, middle):
            first = lists.labels[q]
            wanted = families.begins[i, j, first]
            for s in range(middle, end):
                second = lists.labels[s]
                if wanted & follows(second):
                    meet_hashed(families.path, path_key(i * width + j, first, second, labels), met)
    return True


@inlined
def joined(
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
    """Meet what objects i and j of the tuple are asked for together; False where there is no room for labels."""
    _between(families, links, spot.own, i, j, lists, met)
    joins, room = families.joins[i, j], True
    if joins & TWO:
        room = _two_steps(families, links, len(spot.members), i, j, lists, at, met)
    if room and joins & THREE:
        room = three_steps(families, links, facts, spot, i, j, lists, memo, at, met)
    return room

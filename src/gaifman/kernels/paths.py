"""The common features, without tables: what links the tuple's objects to each other and to the members around them.

For each object of the tuple and each member, the labels of the facts between the two are listed once. Every feature of
the families is read off these lists: only facts that are there are visited, however many features there are.
"""

from __future__ import annotations

from typing import NamedTuple

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
    Hashed,
    fixed_key,
    follows,
    path_key,
    slot_of,
    walk_key,
)
from gaifman.kernels.local import NO_KEY, Incidence, Links, edge_of, edge_to, may_touch, visible
from gaifman.kernels.rows import Met, meet, once_more
from gaifman.kernels.sets import Ints, Longs, Words, place

NOBODY, ANYBODY = -1, -2
"""No rival; several."""
LISTED = -2
_0, _1 = np.uint64(0), np.uint64(1)


class Lists(NamedTuple):
    """What one thread lists."""

    edges: Longs
    """Shape (members,): edges of the graph from one object of the tuple to members."""
    places: Ints
    """Shape (members,): which member each leads to."""
    bonds: Ints
    """Shape (n, members): the list of labels between an object of the tuple and a member; NONE, or LISTED below."""
    begins: Ints
    """Shape (n, members): where the labels begin that are listed below, because not all of the bond's are visible."""
    ends: Ints
    """Shape (n, members): where they end."""
    labels: Ints
    """Shape (room,)."""
    near: Ints
    """Shape (members,): members that a path of three steps may go to first."""
    far: Ints
    """Shape (members,): members that it may come from last."""


class Place(NamedTuple):
    """One neighbourhood."""

    members: Ints
    edges: Ints
    """Shape as members, or (0,): an edge by which each was found."""
    own: Ints
    """Shape (n,): the places of the tuple's objects among the members."""
    hidden: Longs
    """Facts that are not visible."""
    unseen: Ints
    """Shape (hidden, 3): of each that has two places its relation and objects; elsewhere −1."""
    key: np.uint64
    """For the drop-out of uncertain facts."""


@inlined
def different(own: Ints) -> int:
    """How many different objects the tuple has: they stand in front."""
    most = 0
    for at in own:
        most = max(most, at + 1)
    return most


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
            _step(families, i, label, spot.members[j], len(links.starts) - 1, met)
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
                _step(families, i, label, spot.members[j], len(links.starts) - 1, met)
            elif families.asks[WIDE]:
                _wide(families, links, facts, spot, i, fact, label, met)
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
                _step(families, i, label, spot.members[own[h]], len(links.starts) - 1, met)
            lists.ends[i, own[h]] = at
    return at


@inlined
def _step(families: Families, i: int, label: int, other: int, objects: int, met: Met) -> None:
    """Meet what one step is asked for."""
    if families.hop[i, label] >= 0:
        meet(met, families.hop[i, label])
    _more(families, i, label, other, objects, met)


@inlined
def _more(families: Families, i: int, label: int, other: int, objects: int, met: Met) -> None:
    """Meet what counts steps or names where they lead."""
    if families.hops[i, label] >= 0:
        once_more(met, families.hops[i, label])
    if families.fixes[i, label]:
        _meet_hashed(families.fixed, fixed_key(i, label, families.hop.shape[1], other, objects), met)


@inlined
def _meet_hashed(table: Hashed, key: int, met: Met) -> None:
    """What stands for a number is true, once more."""
    slot = slot_of(table.keys, key)
    if table.keys[slot] != NONE:
        if table.some[slot] >= 0:
            meet(met, table.some[slot])
        if table.many[slot] >= 0:
            once_more(met, table.many[slot])


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
        if places > 2 and families.asks[WIDE] and _first(spot.own, i):
            _wide_fact(families, facts, spot, fact, met)
        if places == 2:
            if at + 2 > len(lists.labels):
                return -1
            for place_ in range(2):
                lists.labels[at] = links.bases[relation] + place_
                label = lists.labels[at]
                at += 1
                _step(families, i, label, one, len(links.starts) - 1, met)
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
def _put_down(links: Links, lists: Lists, i: int, x: int, at: int) -> int:
    """The labels between object i of the tuple and member x, from `at` on; where they end, −1 for no room."""
    bond = lists.bonds[i, x]
    if bond == LISTED:
        first, last = lists.begins[i, x], lists.ends[i, x]
    else:
        first, last = links.bond_starts[bond], links.bond_starts[bond + 1]
    if at + last - first > len(lists.labels):
        return -1
    for q in range(first, last):
        lists.labels[at] = lists.labels[q] if bond == LISTED else links.bond_labels[q]
        at += 1
    return at


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
        middle = _put_down(links, lists, i, x, at)
        end = _put_down(links, lists, j, x, middle) if middle >= 0 else middle
        if end < 0:
            return False
        for q in range(at, middle):
            first = lists.labels[q]
            wanted = families.begins[i, j, first]
            for s in range(middle, end):
                second = lists.labels[s]
                if wanted & follows(second):
                    _meet_hashed(families.path, path_key(i * width + j, first, second, labels), met)
    return True


@inlined
def _ends(wanted: Words, links: Links, lists: Lists, whose: int, found: Ints, at: int, size: int) -> int:
    """The members to which an object of the tuple has a label that is wanted; how many, −1 for no room."""
    count = 0
    for x in range(size):
        some = False
        if lists.bonds[whose, x] != NONE:
            end = _put_down(links, lists, whose, x, at)
            if end < 0:
                return -1
            for q in range(at, end):
                some = some or wanted[lists.labels[q]] != _0
        found[count] = x
        count += some
    return count


@inner
def _three_steps(
    families: Families,
    links: Links,
    facts: Incidence,
    spot: Place,
    i: int,
    j: int,
    lists: Lists,
    at: int,
    met: Met,
) -> bool:
    """Paths from object i over two members to object j; False where there is no room for labels."""
    members = spot.members
    near = _ends(families.sets_out[i, j], links, lists, i, lists.near, at, len(members))
    far = _ends(families.arrives[i, j], links, lists, j, lists.far, at, len(members))
    if near < 0 or far < 0:
        return False
    for a in range(near):
        x = int(lists.near[a])
        after = _put_down(links, lists, i, x, at)
        if after < 0:
            return False
        for b in range(far):
            y = int(lists.far[b])
            end = after
            if x == y:
                end = _loops(links, facts, spot, members[x], lists, after)
            else:
                edge = edge_of(links, members[x], members[y])
                if edge >= 0:
                    end = _labels_of(links, facts, spot, edge, members[x], members[y], lists, after)
            if end > after:
                last = _put_down(links, lists, j, y, end)
                if last < 0:
                    return False
                _triples(families, i, j, lists, at, after, end, last, met)
            elif end < 0:
                return False
    return True


@inlined
def _labels_of(
    links: Links, facts: Incidence, spot: Place, edge: int, one: int, other: int, lists: Lists, at: int
) -> int:
    """List the labels of an edge from one member to another; where they end, −1 where there is no room."""
    bond = links.bonds[edge]
    first, last = links.bond_starts[bond], links.bond_starts[bond + 1]
    if at + last - first > len(lists.labels):
        return -1
    sure = links.pure and (len(facts.confidence) == 0 or spot.key == NO_KEY)
    for h in range(len(spot.hidden)):
        here = spot.unseen[h, 1] == one or spot.unseen[h, 1] == other
        sure = sure and not (here and (spot.unseen[h, 2] == one or spot.unseen[h, 2] == other))
    if sure:
        for q in range(first, last):
            lists.labels[at] = links.bond_labels[q]
            at += 1
        return at
    for q in range(links.label_starts[edge], links.label_starts[edge + 1]):
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


@inlined
def _triples(
    families: Families, i: int, j: int, lists: Lists, begin: int, middle: int, end: int, stop: int, met: Met
) -> None:
    """Meet paths of three steps: the first from begin to middle, the next to end, the last, seen from j, to stop."""
    width, labels = families.hop.shape
    for q in range(begin, middle):
        first = lists.labels[q]
        wanted = families.sets_out[i, j, first]
        for s in range(middle, end):
            if wanted & follows(lists.labels[s]):
                for u in range(end, stop):
                    last = lists.labels[u]
                    if families.arrives[i, j, last] != _0:
                        key = walk_key(i * width + j, first, lists.labels[s], last, labels)
                        _meet_hashed(families.walk, key, met)


@inlined
def joined(
    families: Families, links: Links, facts: Incidence, spot: Place, i: int, j: int, lists: Lists, at: int, met: Met
) -> bool:
    """Meet what objects i and j of the tuple are asked for together; False where there is no room for labels."""
    _between(families, links, spot.own, i, j, lists, met)
    joins, room = families.joins[i, j], True
    if joins & TWO:
        room = _two_steps(families, links, len(spot.members), i, j, lists, at, met)
    if room and joins & THREE:
        room = _three_steps(families, links, facts, spot, i, j, lists, at, met)
    return room


# Facts of three places and more


@inlined
def _first(own: Ints, i: int) -> bool:
    """Whether no earlier object of the tuple is the same as the i-th."""
    for earlier in range(i):  # noqa: SIM110 - a kernel has no generators
        if own[earlier] == own[i]:
            return False
    return True


@inner
def _wide(
    families: Families, links: Links, facts: Incidence, spot: Place, i: int, fact: int, label: int, met: Met
) -> None:
    """A fact seen along an edge: once, by the first of the tuple's objects in it and the first label that says so."""
    begin, end = facts.starts[fact], facts.starts[fact + 1]
    one = spot.members[spot.own[i]]
    p = begin
    while facts.objects[p] != one:
        p += 1
    if p != begin + links.label_table[label, 1] or not _first(spot.own, i):
        return
    p = begin
    while facts.objects[p] == one:
        p += 1
    if p != begin + links.label_table[label, 2]:
        return
    for p in range(begin, end):
        for earlier in range(i):
            if spot.members[spot.own[earlier]] == facts.objects[p]:
                return
    _wide_fact(families, facts, spot, fact, met)


@inner
def _wide_fact(families: Families, facts: Incidence, spot: Place, fact: int, met: Met) -> None:
    """Meet the features of a fact all of whose objects are members."""
    begin, end, relation = facts.starts[fact], facts.starts[fact + 1], facts.relations[fact]
    members, count = spot.members, different(spot.own)
    for p in range(begin, end):
        inside = place(members, count, len(members), facts.objects[p]) >= 0
        for own in range(count):
            inside = inside or members[own] == facts.objects[p]
        if not inside:
            return
    for f in range(families.wide_starts[relation], families.wide_starts[relation + 1]):
        fits = True
        for p in range(end - begin):
            wanted = families.wide[f, 2 + p]
            fits = fits and (wanted < 0 or members[spot.own[wanted]] == facts.objects[begin + p])
        if fits:
            if families.wide[f, 1]:
                once_more(met, families.wide[f, 0])
            else:
                meet(met, families.wide[f, 0])

"""One object and all candidates for the other place: who touches it, and which features come of that.

A pair *touches* where a member drawn around one of the two is adjacent to the other. Its neighbourhood is then that of
each by itself put together, and its features are those of each by itself, and some more: these are found here.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gaifman.kernels.compiling import compiled, inlined, zero
from gaifman.kernels.families import Families, follows, path_key
from gaifman.kernels.lists import meet_hashed
from gaifman.kernels.local import Links, edge_of
from gaifman.kernels.paths import step
from gaifman.kernels.pools import Batch, Members, Plan, Scratch, fill
from gaifman.kernels.rows import Met, Reals, meet_twins
from gaifman.kernels.sets import Bytes, Ints, Longs, added, cleared, lowest

APART, TOUCHING, FILLED, PLAIN = range(4)
"""Kinds of pairs: that do not touch; that do; that do and share members, so that others are drawn in place of those
counted twice; and pairs that are adjacent, or of one object, or whose features are not put together here."""
BOTH = 2
"""The side of a feature that speaks of both objects."""
FAR = 1 << 30
ADJACENT, EARLY, LATE = np.uint8(1), np.uint8(2), np.uint8(4)
"""Marks of objects: adjacent to the object; a member of its draws of every length; only of longer ones."""
_0, _1, _6 = np.uint64(0), np.uint64(1), np.uint64(6)


class Order(NamedTuple):
    """Who is drawn around each object, by how long the draw must be for them."""

    starts: Longs
    """Shape (objects + 1,)."""
    members: Ints
    """Shape (any,): for each object by level."""
    bonds: Ints
    """Shape (any,): the list of labels between the object and the member: see `Links.bonds`."""
    levels: Ints
    """Shape (any,): how much longer than its share the draw must be."""


class Near(NamedTuple):
    """What one thread notes of one object."""

    marks: Bytes
    """Shape (objects,): what each is to it, all in so few bytes that they are near at hand; 0 between two objects."""
    bonds: Ints
    """Shape (objects,): the bond with each of its neighbours; −1 elsewhere, and everywhere between two objects."""
    levels: Ints
    """Shape (objects,): those of its members; FAR elsewhere, and everywhere between two objects."""
    starts: Longs
    """Shape (objects + 1,): the rows of `reached` for each candidate."""
    reached: Ints
    """Shape (any, 2): a place in the order, of a member that is adjacent to the candidate, and the bond from there."""
    seen: Longs
    """Shape (objects,): the number of the pair in which an object was last seen."""
    pairs: Longs
    """Shape (1,): how many pairs there were."""


class Rows(NamedTuple):
    """Features of objects by themselves."""

    starts: Longs
    ids: Ints
    values: Reals
    rows: Longs
    """Shape (any,): which rows are meant."""


class More(NamedTuple):
    """Features that pairs have besides those of their objects, pair after pair."""

    starts: Longs
    """Shape (pairs + 1,)."""
    ids: Ints
    before: Reals
    """What the value would be by one of the objects alone."""
    after: Reals


class Question(NamedTuple):
    """One object, whose place among the two it stands at, and how the draws of both sides go."""

    one: int
    place: int
    own: Order
    others: Order
    needed: Ints
    """Shape (objects,): how much longer than its share the draw around whoever stands beside an object is."""
    size: int
    """k; −1 for all."""


@compiled
def reach(links: Links, question: Question, near: Near) -> int:
    """Note the neighbours of the object, its members, and who is adjacent to them. How many rows `reached` needs."""
    one, own, starts = question.one, question.own, near.starts
    for edge in range(links.starts[one], links.starts[one + 1]):
        near.bonds[links.neighbours[edge]] = links.bonds[edge]
        near.marks[links.neighbours[edge]] = ADJACENT
    for c in range(len(starts)):
        starts[c] = 0
    for slot in range(own.starts[one], own.starts[one + 1]):
        x = own.members[slot]
        near.levels[x] = own.levels[slot]
        near.marks[x] |= EARLY if own.levels[slot] == 0 else LATE
        for edge in range(links.starts[x], links.starts[x + 1]):
            starts[links.neighbours[edge]] += 1
    total = zero()
    for c in range(len(starts)):
        total += starts[c]
        starts[c] = total
    if total > len(near.reached):
        return total
    for back in range(own.starts[one + 1] - own.starts[one]):  # from the last: each then begins with its lowest level
        slot = own.starts[one + 1] - 1 - back
        x = own.members[slot]
        for edge in range(links.starts[x], links.starts[x + 1]):
            c = links.neighbours[edge]
            starts[c] -= 1
            near.reached[starts[c], 0], near.reached[starts[c], 1] = slot, links.bonds[edge]
    return total


@compiled
def forget(links: Links, question: Question, near: Near) -> None:
    """Undo what `reach` has noted."""
    one, own = question.one, question.own
    for edge in range(links.starts[one], links.starts[one + 1]):
        near.bonds[links.neighbours[edge]] = -1
        near.marks[links.neighbours[edge]] = 0
    for slot in range(own.starts[one], own.starts[one + 1]):
        near.levels[own.members[slot]] = FAR
        near.marks[own.members[slot]] = 0


@inlined
def _level(question: Question, near: Near, c: int) -> int:
    """The level from which on a member of the object is adjacent to another one; FAR where none is."""
    if near.starts[c] == near.starts[c + 1]:
        return FAR
    return int(question.own.levels[near.reached[near.starts[c], 0]])


@inlined
def _shared(question: Question, near: Near, c: int) -> bool:
    """Whether a member of the object is one of another one's too."""
    others = question.others
    for slot in range(others.starts[c], others.starts[c + 1]):
        if others.levels[slot] > question.needed[question.one]:
            return False
        if near.levels[others.members[slot]] <= question.needed[c]:
            return True
    return False


@compiled
def sort_out(links: Links, question: Question, near: Near, simple: bool, far: bool, kinds: Bytes) -> int:
    """Which kind each candidate is of; how many are filled up.

    Unless features are simple, pairs that touch are left to the plain path. Where they reach far, over two members,
    so are pairs with members that are adjacent to each other.
    """
    others, mine, filled = question.others, question.needed[question.one], zero()
    degree = links.starts[question.one + 1] - links.starts[question.one]
    for c in range(len(kinds)):
        need, marks = question.needed[c], np.uint8(0)
        touches = _level(question, near, c) <= need
        for slot in range(others.starts[c], others.starts[c + 1]):
            if others.levels[slot] > mine:
                break
            marks |= near.marks[others.members[slot]]
            if far:
                touches |= _level(question, near, others.members[slot]) <= need
        touches |= marks & ADJACENT != 0
        shared = marks & EARLY != 0 or (marks & LATE != 0 and _shared(question, near, c))
        whole = question.size < 0 or degree + links.starts[c + 1] - links.starts[c] <= question.size
        if c == question.one or near.bonds[c] >= 0 or (touches and not simple):
            kinds[c] = PLAIN
        elif shared and not whole:
            kinds[c] = FILLED
            filled += 1
        else:
            kinds[c] = TOUCHING if touches else APART
    return filled


@compiled
def fill_up(
    batch: Batch, plan: Plan, scratch: Scratch, draw: int, question: Question, members: Members, ends: Longs
) -> int:
    """Who else is drawn for pairs (b, 2) of the object that share members: those alone, pair after pair; how many."""
    at = zero()
    own, others, one = question.own, question.others, question.one
    for t in range(len(batch.tuples)):
        c = batch.tuples[t, 1 - question.place]
        last, wanted = cleared(scratch.table, plan.size), plan.size
        for slot in range(own.starts[one], own.starts[one + 1]):
            if own.levels[slot] <= question.needed[c]:
                wanted -= added(scratch.table, last, own.members[slot])
        for slot in range(others.starts[c], others.starts[c + 1]):
            if others.levels[slot] <= question.needed[one]:
                wanted -= added(scratch.table, last, others.members[slot])
        total = batch.row_lengths[t, 0] + batch.row_lengths[t, 1]
        at, _ = fill(batch, plan, scratch, t, draw, wanted, total, last, zero() - 1, members, at)
        ends[t] = at
    return at


@inlined
def _label(links: Links, q: int, turned: bool) -> int:
    """A label of a bond, seen from where its edge ends if it is turned."""
    label = links.bond_labels[q]
    return int(links.turned[label]) if turned else int(label)


@inlined
def _steps(families: Families, links: Links, i: int, bond: int, turned: bool, other: int, met: Met) -> None:
    """Meet what is asked of one step from the i-th object."""
    for q in range(links.bond_starts[bond], links.bond_starts[bond + 1]):
        step(families, i, _label(links, q, turned), other, len(links.starts) - 1, met)


@inlined
def _paths(families: Families, links: Links, i: int, bond: int, other: int, turned: bool, met: Met) -> None:
    """Meet what is asked of two steps: along a bond of the i-th object, and one of the other, which may be turned."""
    labels = families.hop.shape[1]
    for q in range(links.bond_starts[bond], links.bond_starts[bond + 1]):
        for s in range(links.bond_starts[other], links.bond_starts[other + 1]):
            mine, theirs = int(links.bond_labels[q]), _label(links, s, turned)
            first, second = (mine, theirs) if i == 0 else (theirs, mine)
            if families.begins[0, 1, first] & follows(second):
                meet_hashed(families.path, path_key(1, first, second, labels), met)


@inlined
def _meet_touching(families: Families, links: Links, question: Question, near: Near, c: int, met: Met) -> None:
    """Meet what is there because members of one are adjacent to the other."""
    own, others, place = question.own, question.others, question.place
    need, mine = question.needed[c], question.needed[question.one]
    near.pairs[0] += 1
    number = near.pairs[0]
    for slot in range(others.starts[c], others.starts[c + 1]):
        if others.levels[slot] > mine:
            break
        y = others.members[slot]
        if near.marks[y] == 0:
            continue
        near.seen[y] = number
        bond = near.bonds[y]
        if bond >= 0 and near.levels[y] > need:
            _steps(families, links, place, bond, False, y, met)
            _paths(families, links, place, bond, others.bonds[slot], False, met)
    for at in range(near.starts[c], near.starts[c + 1]):
        slot, bond = near.reached[at, 0], near.reached[at, 1]
        if own.levels[slot] > need:
            break
        x = own.members[slot]
        if near.seen[x] != number:
            _steps(families, links, 1 - place, bond, True, x, met)
        _paths(families, links, place, own.bonds[slot], bond, True, met)


@inlined
def _meet_filled(
    families: Families, links: Links, question: Question, near: Near, c: int, members: Ints, edges: Ints, met: Met
) -> None:
    """Meet what is there because of members that are drawn in place of those counted twice."""
    place = question.place
    for at in range(len(members)):
        z = members[at]
        bond, edge = near.bonds[z], edges[at]
        if edge < links.starts[c] or edge >= links.starts[c + 1]:
            edge = edge_of(links, c, z)
        if bond >= 0:
            _steps(families, links, place, bond, False, z, met)
        if edge >= 0:
            _steps(families, links, 1 - place, links.bonds[edge], False, z, met)
        if bond >= 0 and edge >= 0:
            _paths(families, links, place, bond, links.bonds[edge], False, met)


@inlined
def _value(rows: Rows, i: int, feature: int) -> np.float32:
    """What a feature is in a row; 0 where it is not there."""
    row = rows.rows[i]
    for entry in range(rows.starts[row], rows.starts[row + 1]):
        if rows.ids[entry] >= feature:
            return rows.values[entry] if rows.ids[entry] == feature else np.float32(0.0)
    return np.float32(0.0)


@inlined
def _poured(question: Question, c: int, sides: Bytes, own: Rows, others: Rows, met: Met, more: More, at: int) -> int:
    """Put out what was met and is other than by one of the objects alone, and forget it; where the next entry is."""
    for top in range(len(met.tops)):
        words = met.tops[top]
        met.tops[top] = _0
        while words != _0:
            w = (np.uint64(top) << _6) + np.uint64(lowest(words))
            words &= words - _1
            bits, counts = met.bits[w], met.counts[w]
            met.bits[w] = _0
            while bits != _0:
                bit = np.uint64(lowest(bits))
                bits &= bits - _1
                feature = int((w << _6) + bit)
                before, after = np.float32(0.0), np.float32(1.0)
                if sides[feature] == question.place:
                    before = _value(own, question.needed[c], feature)
                elif sides[feature] != BOTH:
                    before = _value(others, c, feature)
                if counts >> bit & _1:
                    after = before + met.values[feature]
                    met.values[feature] = 0.0
                if after != before:
                    more.ids[at], more.before[at], more.after[at] = feature, before, after
                    at += 1
    return at


@compiled
def find_more(
    families: Families,
    links: Links,
    question: Question,
    near: Near,
    kinds: Bytes,
    filled_starts: Longs,
    filled: Members,
    sides: Bytes,
    own: Rows,
    others: Rows,
    met: Met,
    more: More,
) -> int:
    """The further features of all pairs that touch; −1 where there is no room for them.

    `filled` are those by whom pairs are filled up, one such pair after another. `sides` (features,) says which
    object a feature speaks of. Row i of `own` are the features by the object alone where the other needs i more than
    its share, row c of `others` those of the candidate alone.
    """
    at, pair, drawn = zero(), zero(), zero()
    more.starts[0] = 0
    for c in range(len(kinds)):
        if kinds[c] != TOUCHING and kinds[c] != FILLED:
            continue
        if at + len(met.values) > len(more.ids):
            return -1
        _meet_touching(families, links, question, near, c, met)
        if kinds[c] == FILLED:
            first, last = filled_starts[drawn], filled_starts[drawn + 1]
            _meet_filled(families, links, question, near, c, filled.objects[first:last], filled.spots[first:last], met)
            drawn += 1
        meet_twins(met, families.twins)
        at = _poured(question, c, sides, own, others, met, more, at)
        pair += 1
        more.starts[pair] = at
    return at

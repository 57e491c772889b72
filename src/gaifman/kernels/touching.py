"""One object and all candidates for the other place: who touches it, and who else is drawn besides both shares.

A pair *touches* where the two are adjacent, or a member drawn around one of them is adjacent to the other. Its
neighbourhood is then that of each by itself put together, and its features are those of each by itself, and some more:
see `further`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gaifman.kernels.compiling import compiled, inlined, zero
from gaifman.kernels.local import Links
from gaifman.kernels.pools import Batch, Members, Plan, Scratch, fill
from gaifman.kernels.sets import Bytes, Ints, Longs, added, cleared

APART, TOUCHING, FILLED, PLAIN = range(4)
"""Kinds of pairs: that do not touch; that do; for which others are drawn besides their shares, because members are
counted twice or the size is odd; and pairs of one object, or whose features are not put together here."""
FAR = 1 << 30
ADJACENT, EARLY, LATE = np.uint8(1), np.uint8(2), np.uint8(4)
"""Marks of objects: adjacent to the object; a member of its draws of every length; only of longer ones."""


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


class Reach(NamedTuple):
    """How long the draws of a pair are, in levels: by itself, as if the two were not adjacent, and in the pair.

    Of two that are adjacent neither is drawn for the other: each leaves one place more to the other's share, and where
    it stands in the other's order, the next one comes in its place.
    """

    alone: int
    """Of the object's draw."""
    own: int
    theirs_alone: int
    """Of the candidate's."""
    theirs: int


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
def reach_of(links: Links, question: Question, near: Near, c: int) -> Reach:
    """How long the draws of the object and a candidate are."""
    alone, theirs_alone = int(question.needed[c]), int(question.needed[question.one])
    own, theirs = alone, theirs_alone
    if near.bonds[c] >= 0:
        quota, others, place = max(question.size, 0) >> 1, question.others, zero() + FAR
        for slot in range(others.starts[c], others.starts[c + 1]):
            if others.members[slot] == question.one:
                place = int(others.levels[slot])
        own = max(quota + 1 - int(links.starts[c + 1] - links.starts[c]), 0)
        own += int(near.levels[c] <= own + 1)
        theirs = max(quota + 1 - int(links.starts[question.one + 1] - links.starts[question.one]), 0)
        theirs += int(place <= theirs + 1)
    return Reach(alone, own, theirs_alone, theirs)


@inlined
def _shared(question: Question, near: Near, c: int, lengths: Reach) -> bool:
    """Whether a member of the object is one of another one's too."""
    others = question.others
    for slot in range(others.starts[c], others.starts[c + 1]):
        if others.levels[slot] > lengths.theirs:
            return False
        if near.levels[others.members[slot]] <= lengths.own:
            return True
    return False


@compiled
def sort_out(links: Links, question: Question, near: Near, simple: bool, far: bool, kinds: Bytes) -> int:
    """Which kind each candidate is of; how many are filled up.

    Unless features are simple, pairs that touch are left to the plain path. Where they reach far, over two members,
    so are pairs with members that are adjacent to each other.
    """
    others, filled, odd = question.others, zero(), question.size > 0 and question.size & 1 == 1
    degree = links.starts[question.one + 1] - links.starts[question.one]
    for c in range(len(kinds)):
        lengths, marks = reach_of(links, question, near, c), np.uint8(0)
        touches = near.bonds[c] >= 0 or _level(question, near, c) <= lengths.own
        for slot in range(others.starts[c], others.starts[c + 1]):
            if others.levels[slot] > lengths.theirs:
                break
            marks |= near.marks[others.members[slot]]
            if far:
                touches |= _level(question, near, others.members[slot]) <= lengths.own
        touches |= marks & ADJACENT != 0
        shared = (marks & EARLY != 0 or marks & LATE != 0) and _shared(question, near, c, lengths)
        whole = question.size < 0 or degree + links.starts[c + 1] - links.starts[c] <= question.size
        more = odd or (shared and not whole)
        if c == question.one or ((touches or more) and not simple):
            kinds[c] = PLAIN
        elif more:
            kinds[c] = FILLED
            filled += 1
        else:
            kinds[c] = TOUCHING if touches else APART
    return filled


@compiled
def fill_up(
    links: Links,
    near: Near,
    batch: Batch,
    plan: Plan,
    scratch: Scratch,
    draw: int,
    question: Question,
    members: Members,
    ends: Longs,
) -> int:
    """Who else is drawn for pairs (b, 2) of the object besides their shares: those alone, pair after pair; how many."""
    at = zero()
    own, others, one = question.own, question.others, question.one
    for t in range(len(batch.tuples)):
        c = batch.tuples[t, 1 - question.place]
        lengths = reach_of(links, question, near, c)
        last, wanted = cleared(scratch.table, plan.size), plan.size
        for slot in range(own.starts[one], own.starts[one + 1]):
            if own.levels[slot] <= lengths.own and own.members[slot] != c:
                wanted -= added(scratch.table, last, own.members[slot])
        for slot in range(others.starts[c], others.starts[c + 1]):
            if others.levels[slot] <= lengths.theirs and others.members[slot] != one:
                wanted -= added(scratch.table, last, others.members[slot])
        total = batch.row_lengths[t, 0] + batch.row_lengths[t, 1]
        at, _ = fill(batch, plan, scratch, t, draw, wanted, total, last, zero() - 1, members, at)
        ends[t] = at
    return at

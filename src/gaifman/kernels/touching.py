"""One object and all candidates for the other place: who touches it, and who else is drawn besides both shares.

A pair *touches* where the two are adjacent, or a member drawn around one of them is adjacent to the other. Its
neighbourhood is then that of each by itself put together, and its features are those of each by itself, and some more:
see `further`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gaifman.kernels.compiling import inline_kernel, kernel, zero
from gaifman.kernels.local import LabelledGraph
from gaifman.kernels.pools import DrawnMembers, DrawPlan, Scratch, TupleBatch, fill_neighbourhood
from gaifman.kernels.sets import Bytes, Ints, Longs, add_to_set, clear_set

SEPARATE, TOUCHING, FILLED, FULL_PATH = range(4)
"""Kinds of pairs: that do not touch; that do; for which others are drawn besides their shares, because members are
counted twice or the size is odd; and pairs of one object, or whose features are not put together here."""
NO_LEVEL = 1 << 30
ADJACENT, EARLY, LATE = np.uint8(1), np.uint8(2), np.uint8(4)
"""Marks of objects: adjacent to the object; a member of its draws of every length; only of longer ones."""


class DrawOrder(NamedTuple):
    """Who is drawn around each object, by how long the draw must be for them."""

    starts: Longs
    """Shape (objects + 1,)."""
    members: Ints
    """Shape (any,): for each object by level."""
    label_sets: Ints
    """Shape (any,): the list of labels between the object and the member: see `LabelledGraph.bonds`."""
    levels: Ints
    """Shape (any,): how much longer than its share the draw must be."""


class TouchIndex(NamedTuple):
    """What one thread notes of one object."""

    marks: Bytes
    """Shape (objects,): what each is to it, all in so few bytes that they are near at hand; 0 between two objects."""
    label_sets: Ints
    """Shape (objects,): the bond with each of its neighbours; −1 elsewhere, and everywhere between two objects."""
    levels: Ints
    """Shape (objects,): those of its members; FAR elsewhere, and everywhere between two objects."""
    starts: Longs
    """Shape (objects + 1,): the rows of `reached` for each candidate."""
    reached: Ints
    """Shape (any, 2): a place in the order, of a member that is adjacent to the candidate, and the bond from there."""
    last_seen: Longs
    """Shape (objects,): the number of the pair in which an object was last seen."""
    pairs: Longs
    """Shape (1,): how many pairs there were."""


class CandidateQuery(NamedTuple):
    """One object, whose place among the two it stands at, and how the draws of both sides go."""

    fixed: int
    position: int
    own: DrawOrder
    others: DrawOrder
    extra_size: Ints
    """Shape (objects,): how much longer than its share the draw around whoever stands beside an object is."""
    size: int
    """k; −1 for all."""


class DrawLengths(NamedTuple):
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


@kernel
def mark_neighbourhood(graph: LabelledGraph, query: CandidateQuery, index: TouchIndex) -> int:
    """Note the neighbours of the object, its members, and who is adjacent to them. How many rows `reached` needs."""
    one, own, starts = query.fixed, query.own, index.starts
    for edge in range(graph.starts[one], graph.starts[one + 1]):
        index.label_sets[graph.neighbours[edge]] = graph.label_sets[edge]
        index.marks[graph.neighbours[edge]] = ADJACENT
    for c in range(len(starts)):
        starts[c] = 0
    for slot in range(own.starts[one], own.starts[one + 1]):
        x = own.members[slot]
        index.levels[x] = own.levels[slot]
        index.marks[x] |= EARLY if own.levels[slot] == 0 else LATE
        for edge in range(graph.starts[x], graph.starts[x + 1]):
            starts[graph.neighbours[edge]] += 1
    total = zero()
    for c in range(len(starts)):
        total += starts[c]
        starts[c] = total
    if total > len(index.reached):
        return total
    for back in range(own.starts[one + 1] - own.starts[one]):  # from the last: each then begins with its lowest level
        slot = own.starts[one + 1] - 1 - back
        x = own.members[slot]
        for edge in range(graph.starts[x], graph.starts[x + 1]):
            c = graph.neighbours[edge]
            starts[c] -= 1
            index.reached[starts[c], 0], index.reached[starts[c], 1] = slot, graph.label_sets[edge]
    return total


@kernel
def unmark_neighbourhood(graph: LabelledGraph, query: CandidateQuery, index: TouchIndex) -> None:
    """Undo what `mark_neighbourhood` has noted."""
    one, own = query.fixed, query.own
    for edge in range(graph.starts[one], graph.starts[one + 1]):
        index.label_sets[graph.neighbours[edge]] = -1
        index.marks[graph.neighbours[edge]] = 0
    for slot in range(own.starts[one], own.starts[one + 1]):
        index.levels[own.members[slot]] = NO_LEVEL
        index.marks[own.members[slot]] = 0


@inline_kernel
def _touch_level(query: CandidateQuery, index: TouchIndex, c: int) -> int:
    """The level from which on a member of the object is adjacent to another one; FAR where none is."""
    if index.starts[c] == index.starts[c + 1]:
        return NO_LEVEL
    return int(query.own.levels[index.reached[index.starts[c], 0]])


@inline_kernel
def draw_lengths(graph: LabelledGraph, query: CandidateQuery, index: TouchIndex, c: int) -> DrawLengths:
    """How long the draws of the object and a candidate are."""
    alone, theirs_alone = int(query.extra_size[c]), int(query.extra_size[query.fixed])
    own, theirs = alone, theirs_alone
    if index.label_sets[c] >= 0:
        quota, others, place = max(query.size, 0) >> 1, query.others, zero() + NO_LEVEL
        for slot in range(others.starts[c], others.starts[c + 1]):
            if others.members[slot] == query.fixed:
                place = int(others.levels[slot])
        own = max(quota + 1 - int(graph.starts[c + 1] - graph.starts[c]), 0)
        own += int(index.levels[c] <= own + 1)
        theirs = max(quota + 1 - int(graph.starts[query.fixed + 1] - graph.starts[query.fixed]), 0)
        theirs += int(place <= theirs + 1)
    return DrawLengths(alone, own, theirs_alone, theirs)


@inline_kernel
def _shares_member(query: CandidateQuery, index: TouchIndex, c: int, lengths: DrawLengths) -> bool:
    """Whether a member of the object is one of another one's too."""
    others = query.others
    for slot in range(others.starts[c], others.starts[c + 1]):
        if others.levels[slot] > lengths.theirs:
            return False
        if index.levels[others.members[slot]] <= lengths.own:
            return True
    return False


@kernel
def classify_candidates(
    graph: LabelledGraph, query: CandidateQuery, index: TouchIndex, decomposable: bool, uses_walks: bool, kinds: Bytes
) -> int:
    """Which kind each candidate is of; how many are filled up.

    Unless features are simple, pairs that touch are left to the plain path. Where they reach far, over two members,
    so are pairs with members that are adjacent to each other.
    """
    others, filled, odd = query.others, zero(), query.size > 0 and query.size & 1 == 1
    degree = graph.starts[query.fixed + 1] - graph.starts[query.fixed]
    for c in range(len(kinds)):
        lengths, marks = draw_lengths(graph, query, index, c), np.uint8(0)
        touches = index.label_sets[c] >= 0 or _touch_level(query, index, c) <= lengths.own
        for slot in range(others.starts[c], others.starts[c + 1]):
            if others.levels[slot] > lengths.theirs:
                break
            marks |= index.marks[others.members[slot]]
            if uses_walks:
                touches |= _touch_level(query, index, others.members[slot]) <= lengths.own
        touches |= marks & ADJACENT != 0
        shared = (marks & EARLY != 0 or marks & LATE != 0) and _shares_member(query, index, c, lengths)
        whole = query.size < 0 or degree + graph.starts[c + 1] - graph.starts[c] <= query.size
        more = odd or (shared and not whole)
        if c == query.fixed or ((touches or more) and not decomposable):
            kinds[c] = FULL_PATH
        elif more:
            kinds[c] = FILLED
            filled += 1
        else:
            kinds[c] = TOUCHING if touches else SEPARATE
    return filled


@kernel
def draw_fillers(
    graph: LabelledGraph,
    index: TouchIndex,
    batch: TupleBatch,
    plan: DrawPlan,
    scratch: Scratch,
    draw: int,
    query: CandidateQuery,
    members: DrawnMembers,
    ends: Longs,
) -> int:
    """Who else is drawn for pairs (b, 2) of the object besides their shares: those alone, pair after pair; how many."""
    at = zero()
    own, others, one = query.own, query.others, query.fixed
    for t in range(len(batch.tuples)):
        c = batch.tuples[t, 1 - query.position]
        lengths = draw_lengths(graph, query, index, c)
        last, wanted = clear_set(scratch.table, plan.size), plan.size
        for slot in range(own.starts[one], own.starts[one + 1]):
            if own.levels[slot] <= lengths.own and own.members[slot] != c:
                wanted -= add_to_set(scratch.table, last, own.members[slot])
        for slot in range(others.starts[c], others.starts[c + 1]):
            if others.levels[slot] <= lengths.theirs and others.members[slot] != one:
                wanted -= add_to_set(scratch.table, last, others.members[slot])
        total = batch.row_lengths[t, 0] + batch.row_lengths[t, 1]
        at, _ = fill_neighbourhood(batch, plan, scratch, t, draw, wanted, total, last, zero() - 1, members, at)
        ends[t] = at
    return at

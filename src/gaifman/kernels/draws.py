"""Algorithm 1: for each tuple, a bounded random part of the objects around it.

The kernel sees, for each position of a tuple, a row of objects (`pools`). At radius 1 the rows are those of the graph
itself; for others they have been gathered (`balls`).
"""

from __future__ import annotations

import numpy as np

from gaifman.kernels.compiling import compiled, inlined, zero
from gaifman.kernels.pools import (
    EVERYTHING,
    Batch,
    Members,
    Plan,
    Scratch,
    fill,
    is_long,
    merged,
    repeated,
    undo,
    visible,
)
from gaifman.kernels.random import below, join
from gaifman.kernels.sets import Ints, Longs, added, cleared, sort_different

SHORT = 128
"""Rows up to this long are shuffled on a copy."""


@compiled
def look_up(starts: Longs, tuples: Ints, row_starts: Longs, row_lengths: Longs) -> None:
    """Where the row of each object of the tuples begins in a graph's neighbours, and how long it is."""
    for t in range(len(tuples)):
        for i in range(tuples.shape[1]):
            row_starts[t, i] = starts[tuples[t, i]]
            row_lengths[t, i] = starts[tuples[t, i] + 1] - row_starts[t, i]


@compiled
def measured(batch: Batch, plan: Plan) -> tuple[int, int, int, int]:
    """The longest row; the longest union that is written out; the most members of one draw; members in all at most."""
    longest, union, most, room = 0, 0, 0, 0
    for t in range(len(batch.tuples)):
        total = zero()
        for i in range(batch.tuples.shape[1]):
            total += batch.row_lengths[t, i]
            longest = max(longest, batch.row_lengths[t, i])
        if plan.size == EVERYTHING or not is_long(batch, plan, t, total):
            union = max(union, total)
        drawn_ = total if plan.size == EVERYTHING else min(plan.size, total)
        most = max(most, drawn_)
        room += drawn_ + batch.tuples.shape[1]
    return longest, union, most, room * len(plan.keys)


@compiled
def drawn(batch: Batch, plan: Plan, scratch: Scratch, members: Members, ends: Longs) -> int:
    """Draw for all tuples: `members` one after another, `ends` (b · w,) where each stops; how many members in all."""
    at = zero()
    draws = len(plan.keys)
    for t in range(len(batch.tuples)):
        union = zero() - 1  # not written out yet
        for draw in range(draws):
            at, union = _draw(batch, plan, scratch, t, draw, union, members, at)
            ends[t * draws + draw] = at
    return at


@inlined
def _draw(
    batch: Batch, plan: Plan, scratch: Scratch, t: int, draw: int, union: int, members: Members, at: int
) -> tuple[int, int]:
    """One neighbourhood, from `members[at]` on; where it ends, and how long the union is if it is written out."""
    width = batch.tuples.shape[1]
    total = zero()
    for i in range(width):
        total += batch.row_lengths[t, i]
        if not repeated(batch, t, i):
            members.objects[at], members.spots[at] = batch.tuples[t, i], -1
            at += 1
    if plan.size == EVERYTHING or total <= plan.size:
        return merged(batch, scratch, t, zero(), members.objects, members.spots, at), union
    begin, quota = at, plan.size // width
    last = cleared(scratch.table, min(plan.size, total))
    whole = plan.keys[draw]
    for i in range(width):
        whole = join(whole, batch.tuples[t, i])
    for i in range(width):
        key = join(join(plan.keys[draw], batch.tuples[t, i]) if plan.shared else whole, i)
        at = _draw_row(batch, scratch, t, i, quota, key, last, members, at)
    if at - begin < plan.size:
        at, union = fill(batch, plan, scratch, t, draw, plan.size - (at - begin), total, last, union, members, at)
    sort_different(members.objects, members.spots, begin, at, scratch.found, scratch.copy)
    return at, union


@inlined
def _draw_row(
    batch: Batch, scratch: Scratch, t: int, i: int, quota: int, key: np.uint64, last: int, members: Members, at: int
) -> int:
    """The first `quota` of a random order of row i that the tuple may see; those not yet drawn become members.

    The order is Fisher and Yates's, carried only as far as needed, first all look-ups and then all decisions: the
    look-ups wait for memory together, not one after another.
    """
    start, length = batch.row_starts[t, i], batch.row_lengths[t, i]
    if length <= quota:
        for place_ in range(start, start + length):
            if visible(batch, t, place_) and added(scratch.table, last, batch.source[place_]):
                members.objects[at], members.spots[at] = batch.source[place_], place_
                at += 1
        return at
    if length <= SHORT and batch.cut_starts[t] == batch.cut_starts[t + 1]:
        return _draw_short(batch, scratch, t, i, quota, key, last, members, at)
    order, swapped, found = scratch.order, scratch.swapped, scratch.found
    taken, step = 0, zero()
    while taken < quota and step < length:
        stop = min(step + quota - taken, length)
        for s in range(step, stop):
            other = s + below(key, s, length - s)
            order[s], order[other] = order[other], order[s]
            swapped[s] = other
            found[s] = batch.source[start + order[s]]
        for s in range(step, stop):
            if visible(batch, t, start + order[s]):
                taken += 1
                if added(scratch.table, last, found[s]):
                    members.objects[at], members.spots[at] = found[s], start + order[s]
                    at += 1
        step = stop
    undo(order, swapped, step)
    return at


@inlined
def _draw_short(
    batch: Batch, scratch: Scratch, t: int, i: int, quota: int, key: np.uint64, last: int, members: Members, at: int
) -> int:
    """The same, bit for bit, on a copy of the row: the row itself is shuffled, and nothing need be undone."""
    start, length, row, spots = batch.row_starts[t, i], batch.row_lengths[t, i], scratch.found, scratch.copy
    for s in range(length):
        row[s] = batch.source[start + s]
        spots[s] = start + s
    taken, step = 0, zero()
    while taken < quota and step < length:
        other = step + below(key, step, length - step)
        member, spot = row[other], spots[other]
        row[other], spots[other] = row[step], spots[step]
        step += 1
        own = False
        for j in range(batch.tuples.shape[1]):
            own |= batch.tuples[t, j] == member
        if not own:
            taken += 1
            if added(scratch.table, last, member):
                members.objects[at], members.spots[at] = member, spot
                at += 1
    return at

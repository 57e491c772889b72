"""Algorithm 1: for each tuple, a bounded random part of the objects around it.

The kernel sees, for each position of a tuple, a row of objects (`pools`). At radius 1 the rows are those of the graph
itself; for others they have been gathered (`balls`).
"""

from __future__ import annotations

import numpy as np

from gaifman.kernels.compiling import inline_kernel, kernel, zero
from gaifman.kernels.pools import (
    UNBOUNDED,
    DrawnMembers,
    DrawPlan,
    Scratch,
    TupleBatch,
    fill_neighbourhood,
    is_drawable,
    is_long,
    is_repeated,
    merge_rows,
    restore_order,
)
from gaifman.kernels.random import fold_in, random_below
from gaifman.kernels.sets import Ints, Longs, add_to_set, clear_set, sort_distinct

MAX_COPIED_ROW = 128
"""Rows up to this long are shuffled on a copy."""


@kernel
def look_up_rows(starts: Longs, tuples: Ints, row_starts: Longs, row_lengths: Longs) -> None:
    """Where the row of each object of the tuples begins in a graph's neighbours, and how long it is."""
    for t in range(len(tuples)):
        for i in range(tuples.shape[1]):
            row_starts[t, i] = starts[tuples[t, i]]
            row_lengths[t, i] = starts[tuples[t, i] + 1] - row_starts[t, i]


@kernel
def measure_batch(batch: TupleBatch, plan: DrawPlan) -> tuple[int, int, int, int]:
    """The longest row; the longest union that is written out; the most members of one draw; members in all at most."""
    longest, union, most, room = 0, 0, 0, 0
    for t in range(len(batch.tuples)):
        total = zero()
        for i in range(batch.tuples.shape[1]):
            total += batch.row_lengths[t, i]
            longest = max(longest, batch.row_lengths[t, i])
        if plan.size == UNBOUNDED or not is_long(batch, plan, t, total):
            union = max(union, total)
        drawn_ = total if plan.size == UNBOUNDED else min(plan.size, total)
        most = max(most, drawn_)
        room += drawn_ + batch.tuples.shape[1]
    return longest, union, most, room * len(plan.keys)


@kernel
def draw_members(batch: TupleBatch, plan: DrawPlan, scratch: Scratch, members: DrawnMembers, ends: Longs) -> int:
    """Draw for all tuples: `members` one after another, `ends` (b · w,) where each stops; how many members in all."""
    at = zero()
    draws = len(plan.keys)
    for t in range(len(batch.tuples)):
        union = zero() - 1  # not written out yet
        for draw in range(draws):
            at, union = _draw(batch, plan, scratch, t, draw, union, members, at)
            ends[t * draws + draw] = at
    return at


@inline_kernel
def _draw(
    batch: TupleBatch, plan: DrawPlan, scratch: Scratch, t: int, draw: int, union: int, members: DrawnMembers, at: int
) -> tuple[int, int]:
    """One neighbourhood, from `members[at]` on; where it ends, and how long the union is if it is written out."""
    width = batch.tuples.shape[1]
    total = zero()
    for i in range(width):
        total += batch.row_lengths[t, i]
        if not is_repeated(batch, t, i):
            members.objects[at], members.source_indices[at] = batch.tuples[t, i], -1
            at += 1
    if plan.size == UNBOUNDED or total <= plan.size:
        return merge_rows(batch, scratch, t, zero(), members.objects, members.source_indices, at), union
    begin, quota = at, plan.size // width
    last = clear_set(scratch.table, min(plan.size, total))
    whole = plan.keys[draw]
    for i in range(width):
        whole = fold_in(whole, batch.tuples[t, i])
    for i in range(width):
        key = fold_in(fold_in(plan.keys[draw], batch.tuples[t, i]) if plan.shared_order else whole, i)
        at = _draw_row(batch, scratch, t, i, quota, key, last, members, at)
    if at - begin < plan.size:
        at, union = fill_neighbourhood(
            batch, plan, scratch, t, draw, plan.size - (at - begin), total, last, union, members, at
        )
    sort_distinct(members.objects, members.source_indices, begin, at, scratch.found, scratch.copy)
    return at, union


@inline_kernel
def _draw_row(
    batch: TupleBatch,
    scratch: Scratch,
    t: int,
    i: int,
    quota: int,
    key: np.uint64,
    last: int,
    members: DrawnMembers,
    at: int,
) -> int:
    """The first `quota` of a random order of row i that the tuple may see; those not yet drawn become members.

    The order is Fisher and Yates's, carried only as far as needed, first all look-ups and then all decisions: the
    look-ups wait for memory together, not one after another.
    """
    start, length = batch.row_starts[t, i], batch.row_lengths[t, i]
    if length <= quota:
        for place_ in range(start, start + length):
            if is_drawable(batch, t, place_) and add_to_set(scratch.table, last, batch.source[place_]):
                members.objects[at], members.source_indices[at] = batch.source[place_], place_
                at += 1
        return at
    if length <= MAX_COPIED_ROW and batch.cut_starts[t] == batch.cut_starts[t + 1]:
        return _draw_short(batch, scratch, t, i, quota, key, last, members, at)
    order, swapped, found = scratch.order, scratch.swapped, scratch.found
    taken, step = 0, zero()
    while taken < quota and step < length:
        stop = min(step + quota - taken, length)
        for s in range(step, stop):
            other = s + random_below(key, s, length - s)
            order[s], order[other] = order[other], order[s]
            swapped[s] = other
            found[s] = batch.source[start + order[s]]
        for s in range(step, stop):
            if is_drawable(batch, t, start + order[s]):
                taken += 1
                if add_to_set(scratch.table, last, found[s]):
                    members.objects[at], members.source_indices[at] = found[s], start + order[s]
                    at += 1
        step = stop
    restore_order(order, swapped, step)
    return at


@inline_kernel
def _draw_short(
    batch: TupleBatch,
    scratch: Scratch,
    t: int,
    i: int,
    quota: int,
    key: np.uint64,
    last: int,
    members: DrawnMembers,
    at: int,
) -> int:
    """The same, bit for bit, on a copy of the row: the row itself is shuffled, and nothing need be undone."""
    start, length, row, spots = batch.row_starts[t, i], batch.row_lengths[t, i], scratch.found, scratch.copy
    for s in range(length):
        row[s] = batch.source[start + s]
        spots[s] = start + s
    taken, step = 0, zero()
    while taken < quota and step < length:
        other = step + random_below(key, step, length - step)
        member, spot = row[other], spots[other]
        row[other], spots[other] = row[step], spots[step]
        step += 1
        own = False
        for j in range(batch.tuples.shape[1]):
            own |= batch.tuples[t, j] == member
        if not own:
            taken += 1
            if add_to_set(scratch.table, last, member):
                members.objects[at], members.source_indices[at] = member, spot
                at += 1
    return at

"""Algorithm 1: for each tuple, a bounded random part of the objects around it.

The kernel sees, for each position of a tuple, a row of objects (`pools`). At radius 1 the rows are those of the graph
itself; for others they have been gathered (`balls`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gaifman.kernels.collections import Ints, Longs, add_to_set, binary_search, clear_set, sort_distinct
from gaifman.kernels.jit import inline_kernel, inner_kernel, kernel, zero
from gaifman.kernels.rng import fold_in, random_below

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


UNBOUNDED = -1
"""The size that bounds nothing."""


class TupleBatch(NamedTuple):
    """Tuples and the rows of their objects."""

    tuples: Ints
    """Shape (b, n): objects."""
    source: Ints
    """Shape (any,): objects; holds every row, each ascending and without its own object."""
    row_starts: Longs
    """Shape (b, n): where in `source` the row of each position begins."""
    row_lengths: Longs
    """Shape (b, n): how long it is."""
    cut_starts: Longs
    """Shape (b + 1,): the cuts of tuple `t` are `cuts[cut_starts[t] : cut_starts[t + 1]]`."""
    cuts: Longs
    """Shape (any,): places in `source` that the tuple does not see, ascending for each tuple."""


class DrawPlan(NamedTuple):
    """What to draw."""

    keys: npt.NDArray[np.uint64]
    """Shape (w,): a key for each draw."""
    size: int
    """k, or `UNBOUNDED`."""
    shared_order: bool
    """Whether a row's random order is keyed by its object and position alone, not by the whole tuple."""
    trial_factor: int
    """A row this many times k (and what cannot be drawn) is long: the filling then tries places at random."""


class Scratch(NamedTuple):
    """What one thread works on."""

    order: Ints
    """Shape (longest row,): 0, 1, 2, … before and after each use: a permutation begun, then undone."""
    swapped: Ints
    """Shape (longest row,)."""
    found: Ints
    """Shape (longest row, or k if that is more,)."""
    table: Ints
    """Shape (a power of two ≥ 2k,): the set of what is drawn."""
    union: Ints
    """Shape (longest union that is written out,)."""
    union_indices: Ints
    """Shape as union: where in the source each of it stands."""
    copy: Ints
    """Shape as found."""


class DrawnMembers(NamedTuple):
    """What is drawn, one neighbourhood after another."""

    objects: Ints
    """Shape (room,)."""
    source_indices: Ints
    """Shape (room,): where in the source each was found; −1 for the tuple's own objects."""


@inline_kernel
def is_drawable(batch: TupleBatch, t: int, at: int) -> bool:
    """Whether what stands at this place of the source belongs to a pool of tuple t: not of the tuple, and not cut."""
    for i in range(batch.tuples.shape[1]):
        if batch.tuples[t, i] == batch.source[at]:
            return False
    begin, end = batch.cut_starts[t], batch.cut_starts[t + 1]
    return begin == end or binary_search(batch.cuts, begin, end, at) < 0


@inline_kernel
def is_repeated(batch: TupleBatch, t: int, i: int) -> bool:
    """Whether position i of the tuple holds the object of an earlier one."""
    for earlier in range(i):  # noqa: SIM110 - a kernel has no generators
        if batch.tuples[t, earlier] == batch.tuples[t, i]:
            return True
    return False


@inner_kernel
def _skips_row(batch: TupleBatch, t: int, i: int, quota: int) -> bool:
    """Whether row i gives nothing that other rows, or the draws by quota, have not given."""
    return batch.row_lengths[t, i] <= quota or is_repeated(batch, t, i)


@inner_kernel
def merge_rows(
    batch: TupleBatch, scratch: Scratch, t: int, quota: int, out: Ints, source_indices: Ints, at: int
) -> int:
    """Write the union of the pools, ascending, to `out[at:]`, without rows not longer than the quota; where it ends.

    Such rows have been drawn whole: nothing of them can be left to fill up with. With quota 0 none is passed over.
    """
    begin = at
    for i in range(batch.tuples.shape[1]):
        if _skips_row(batch, t, i, quota):
            continue
        have = at - begin  # what other rows gave: set aside, then merged with this row
        for h in range(have):
            scratch.found[h], scratch.copy[h] = out[begin + h], source_indices[begin + h]
        at = begin
        h, where = 0, batch.row_starts[t, i]
        stop = where + batch.row_lengths[t, i]
        while h < have or where < stop:
            if where == stop or (h < have and scratch.found[h] <= batch.source[where]):
                where += where < stop and scratch.found[h] == batch.source[where]
                out[at], source_indices[at] = scratch.found[h], scratch.copy[h]
                h += 1
                at += 1
            else:
                if is_drawable(batch, t, where):
                    out[at], source_indices[at] = batch.source[where], where
                    at += 1
                where += 1
    return at


@inline_kernel
def is_long(batch: TupleBatch, plan: DrawPlan, t: int, total: int) -> bool:
    """Whether trial fills fast: a row so long that what may be drawn of it is most of it. Hangs on the tuple alone."""
    longest = 0
    for i in range(batch.tuples.shape[1]):
        longest = max(longest, batch.row_lengths[t, i])
    barred = plan.size + batch.tuples.shape[1] + batch.cut_starts[t + 1] - batch.cut_starts[t]
    return longest >= plan.trial_factor * barred and total < 4294967296


@inner_kernel
def restore_order(order: Ints, swapped: Ints, steps: int) -> None:
    """Bring back 0, 1, 2, …: only the places that were swapped can differ."""
    for s in range(steps):
        order[s] = s
        order[swapped[s]] = swapped[s]


@inline_kernel
def fill_neighbourhood(
    batch: TupleBatch,
    plan: DrawPlan,
    scratch: Scratch,
    t: int,
    draw: int,
    wanted: int,
    total: int,
    last: int,
    union: int,
    members: DrawnMembers,
    at: int,
) -> tuple[int, int]:
    """Up to `wanted` more than those in the table; where they end, and how long the union is if it is written out."""
    width = batch.tuples.shape[1]
    quota, whole = plan.size // width, plan.keys[draw]
    alone = _only_long(batch, t, quota) if plan.shared_order else -1
    if alone >= 0:
        key = fold_in(fold_in(whole, batch.tuples[t, alone]), alone)
        return _fill_in_order(batch, scratch, t, alone, wanted, key, last, members, at), union
    for i in range(width):
        whole = fold_in(whole, batch.tuples[t, i])
    key = fold_in(whole, width)
    if is_long(batch, plan, t, total):
        return _fill_by_trial(batch, scratch, t, quota, wanted, key, last, members, at), union
    if union < 0:
        union = merge_rows(batch, scratch, t, quota, scratch.union, scratch.union_indices, zero())
    return _fill_from_union(scratch, union, wanted, key, last, members, at), union


@inner_kernel
def _only_long(batch: TupleBatch, t: int, quota: int) -> int:
    """The position whose row alone is longer than the quota; −1 where none or several are."""
    found = zero() - 1
    for i in range(batch.tuples.shape[1]):
        if batch.row_lengths[t, i] > quota:
            if found >= 0:
                return -1
            found = i
    return found


@inner_kernel
def _fill_in_order(
    batch: TupleBatch,
    scratch: Scratch,
    t: int,
    i: int,
    wanted: int,
    key: np.uint64,
    last: int,
    members: DrawnMembers,
    at: int,
) -> int:
    """Up to `wanted` more of one row, in the order in which its first ones were drawn: all is a prefix of it."""
    order, swapped = scratch.order, scratch.swapped
    start, length = batch.row_starts[t, i], batch.row_lengths[t, i]
    step = zero()
    while wanted > 0 and step < length:
        other = step + random_below(key, step, length - step)
        order[step], order[other] = order[other], order[step]
        swapped[step] = other
        spot = start + order[step]
        step += 1
        if is_drawable(batch, t, spot) and add_to_set(scratch.table, last, batch.source[spot]):
            members.objects[at], members.source_indices[at] = batch.source[spot], spot
            at += 1
            wanted -= 1
    restore_order(order, swapped, step)
    return at


@inner_kernel
def _fill_from_union(
    scratch: Scratch, union: int, wanted: int, key: np.uint64, last: int, members: DrawnMembers, at: int
) -> int:
    """Up to `wanted` more, in a random order of the union that is written out."""
    order, swapped = scratch.order, scratch.swapped
    step = zero()
    while wanted > 0 and step < union:
        other = step + random_below(key, step, union - step)
        order[step], order[other] = order[other], order[step]
        swapped[step] = other
        member, spot = scratch.union[order[step]], scratch.union_indices[order[step]]
        step += 1
        if add_to_set(scratch.table, last, member):
            members.objects[at], members.source_indices[at] = member, spot
            at += 1
            wanted -= 1
    restore_order(order, swapped, step)
    return at


@inner_kernel
def _fill_by_trial(
    batch: TupleBatch,
    scratch: Scratch,
    t: int,
    quota: int,
    wanted: int,
    key: np.uint64,
    last: int,
    members: DrawnMembers,
    at: int,
) -> int:
    """`wanted` more, by places drawn at random in all rows together until they fit.

    An object counts only through the first row whose pool holds it, so each of the union is equally likely.
    """
    width = batch.tuples.shape[1]
    total = zero()
    for i in range(width):
        total += 0 if _skips_row(batch, t, i, quota) else batch.row_lengths[t, i]
    trial = zero()
    while wanted > 0:
        offset = random_below(key, trial, total)
        trial += 1
        i = zero()
        while _skips_row(batch, t, i, quota) or offset >= batch.row_lengths[t, i]:
            offset -= 0 if _skips_row(batch, t, i, quota) else batch.row_lengths[t, i]
            i += 1
        at_row = batch.row_starts[t, i] + offset
        if not is_drawable(batch, t, at_row) or _in_earlier(batch, t, i, batch.source[at_row]):
            continue
        if add_to_set(scratch.table, last, batch.source[at_row]):
            members.objects[at], members.source_indices[at] = batch.source[at_row], at_row
            at += 1
            wanted -= 1
    return at


@inner_kernel
def _in_earlier(batch: TupleBatch, t: int, i: int, member: int) -> bool:
    """Whether the pool of a position before i holds the object."""
    for earlier in range(i):
        begin = batch.row_starts[t, earlier]
        at = binary_search(batch.source, begin, begin + batch.row_lengths[t, earlier], member)
        if at >= 0 and is_drawable(batch, t, at):
            return True
    return False

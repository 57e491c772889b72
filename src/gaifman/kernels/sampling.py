"""Algorithm 1 of the paper: draw a bounded random neighbourhood of each tuple.

Each position of a tuple has a row of objects from which its members are drawn. At radius 1 these are the rows of the
graph itself; at a larger radius they are balls that `kernels.graph.write_balls` has written.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gaifman.kernels.collections import Ints, Longs, add_to_set, binary_search, clear_set, sort_distinct
from gaifman.kernels.jit import inline_kernel, inner_kernel, kernel, zero
from gaifman.kernels.rng import fold_in, random_below

MAX_COPIED_ROW = 128
"""Rows up to this length are shuffled on a copy."""


@kernel
def look_up_rows(starts: Longs, tuples: Ints, row_starts: Longs, row_lengths: Longs) -> None:
    """Write the start and length of the row of neighbours of each object of the tuples (b, n)."""
    for t in range(len(tuples)):
        for i in range(tuples.shape[1]):
            row_starts[t, i] = starts[tuples[t, i]]
            row_lengths[t, i] = starts[tuples[t, i] + 1] - row_starts[t, i]


@kernel
def measure_batch(batch: TupleBatch, plan: DrawPlan) -> tuple[int, int, int, int]:
    """Return the longest row, the longest materialised union, the largest draw, and an upper bound of all members."""
    longest, union, largest, capacity = 0, 0, 0, 0
    for t in range(len(batch.tuples)):
        total = zero()
        for i in range(batch.tuples.shape[1]):
            total += batch.row_lengths[t, i]
            longest = max(longest, batch.row_lengths[t, i])
        if plan.size == UNBOUNDED or not is_long(batch, plan, t, total):
            union = max(union, total)
        count = total if plan.size == UNBOUNDED else min(plan.size, total)
        largest = max(largest, count)
        capacity += count + batch.tuples.shape[1]
    return longest, union, largest, capacity * len(plan.keys)


@kernel
def draw_members(batch: TupleBatch, plan: DrawPlan, scratch: Scratch, members: DrawnMembers, ends: Longs) -> int:
    """Draw all neighbourhoods into `members` and write their ends (b · w,). Return the number of members."""
    at = zero()
    draws = len(plan.keys)
    for t in range(len(batch.tuples)):
        union = zero() - 1  # not materialised yet
        for draw in range(draws):
            at, union = _draw(batch, plan, scratch, t, draw, union, members, at)
            ends[t * draws + draw] = at
    return at


@inline_kernel
def _draw(
    batch: TupleBatch, plan: DrawPlan, scratch: Scratch, t: int, draw: int, union: int, members: DrawnMembers, at: int
) -> tuple[int, int]:
    """Draw one neighbourhood, written from `members[at]` on.

    Return its end and the length of the union, −1 if not materialised.
    """
    arity = batch.tuples.shape[1]
    total = zero()
    for i in range(arity):
        total += batch.row_lengths[t, i]
        if not is_repeated(batch, t, i):
            members.objects[at], members.source_indices[at] = batch.tuples[t, i], -1
            at += 1
    if plan.size == UNBOUNDED or total <= plan.size:
        return merge_rows(batch, scratch, t, zero(), members.objects, members.source_indices, at), union
    begin, quota = at, plan.size // arity
    last = clear_set(scratch.table, min(plan.size, total))
    tuple_key = plan.keys[draw]
    for i in range(arity):
        tuple_key = fold_in(tuple_key, batch.tuples[t, i])
    for i in range(arity):
        key = fold_in(fold_in(plan.keys[draw], batch.tuples[t, i]) if plan.shared_order else tuple_key, i)
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
    """Add the first `quota` drawable objects of a random order of row i, without duplicates. Return the new end.

    A Fisher–Yates shuffle, run only as far as needed. It reads a chunk first and decides afterwards, so that the reads
    wait for memory together. The scratch order is restored at the end.
    """
    start, length = batch.row_starts[t, i], batch.row_lengths[t, i]
    if length <= quota:
        for index in range(start, start + length):
            if is_drawable(batch, t, index) and add_to_set(scratch.table, last, batch.source[index]):
                members.objects[at], members.source_indices[at] = batch.source[index], index
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
    """Same result as `_draw_row`, bit for bit: shuffle a copy of a short row, so that nothing has to be restored."""
    start, length, row, indices = batch.row_starts[t, i], batch.row_lengths[t, i], scratch.found, scratch.copy
    for s in range(length):
        row[s] = batch.source[start + s]
        indices[s] = start + s
    taken, step = 0, zero()
    while taken < quota and step < length:
        other = step + random_below(key, step, length - step)
        member, index = row[other], indices[other]
        row[other], indices[other] = row[step], indices[step]
        step += 1
        own = False
        for j in range(batch.tuples.shape[1]):
            own |= batch.tuples[t, j] == member
        if not own:
            taken += 1
            if add_to_set(scratch.table, last, member):
                members.objects[at], members.source_indices[at] = member, index
                at += 1
    return at


UNBOUNDED = -1
"""Value of `DrawPlan.size` for no bound."""


class TupleBatch(NamedTuple):
    """Tuples and the rows that their members are drawn from."""

    tuples: Ints
    """Shape (b, n): objects."""
    source: Ints
    """Shape (any,): objects. It holds every row; a row is ascending and does not hold its own object."""
    row_starts: Longs
    """Shape (b, n): the start of each position's row in `source`."""
    row_lengths: Longs
    """Shape (b, n): the length of each row."""
    cut_starts: Longs
    """Shape (b + 1,): the cuts of tuple `t` are `cuts[cut_starts[t] : cut_starts[t + 1]]`."""
    cuts: Longs
    """Shape (any,): indices of `source` that are hidden from the tuple, ascending for each tuple."""


class DrawPlan(NamedTuple):
    """Parameters of the draws."""

    keys: npt.NDArray[np.uint64]
    """Shape (w,): the key of each draw."""
    size: int
    """k, or `UNBOUNDED`."""
    shared_order: bool
    """Whether the random order of a row depends only on its object and position, not on the whole tuple."""
    trial_factor: int
    """A row is long if its length is at least this factor times k plus the objects that cannot be drawn. Then filling
    draws indices at random until they fit.
    """


class Scratch(NamedTuple):
    """Buffers of one thread."""

    order: Ints
    """Shape (longest row,): 0, 1, 2, … before and after each use."""
    swapped: Ints
    """Shape (longest row,): swaps to undo."""
    found: Ints
    """Shape (longest row or k,): objects."""
    table: Ints
    """Shape (a power of two ≥ 2k,): the set of drawn objects."""
    union: Ints
    """Shape (longest materialised union,): objects."""
    union_indices: Ints
    """Shape of `union`: the index of each object in the source."""
    copy: Ints
    """Shape of `found`."""


class DrawnMembers(NamedTuple):
    """Members of all draws, one neighbourhood after another."""

    objects: Ints
    """Shape (capacity,)."""
    source_indices: Ints
    """Shape (capacity,): the index of each member in the source; −1 for the tuple's own objects."""


@inline_kernel
def is_drawable(batch: TupleBatch, t: int, at: int) -> bool:
    """Return whether tuple t may draw the object at this index of the source: not its own object, and not cut."""
    for i in range(batch.tuples.shape[1]):
        if batch.tuples[t, i] == batch.source[at]:
            return False
    begin, end = batch.cut_starts[t], batch.cut_starts[t + 1]
    return begin == end or binary_search(batch.cuts, begin, end, at) < 0


@inline_kernel
def is_repeated(batch: TupleBatch, t: int, i: int) -> bool:
    """Return whether an earlier position of the tuple holds the same object as position i."""
    for earlier in range(i):  # noqa: SIM110 - a kernel has no generators
        if batch.tuples[t, earlier] == batch.tuples[t, i]:
            return True
    return False


@inner_kernel
def _skips_row(batch: TupleBatch, t: int, i: int, quota: int) -> bool:
    """Return whether row i adds nothing: it was drawn whole within its quota, or it repeats an earlier row."""
    return batch.row_lengths[t, i] <= quota or is_repeated(batch, t, i)


@inner_kernel
def merge_rows(
    batch: TupleBatch, scratch: Scratch, t: int, quota: int, out: Ints, source_indices: Ints, at: int
) -> int:
    """Write the union of the drawable objects of all rows longer than `quota`, ascending, to `out[at:]`.

    Return its end.

    Shorter rows have been drawn whole, so nothing of them is left. With quota 0 no row is skipped.
    """
    begin = at
    for i in range(batch.tuples.shape[1]):
        if _skips_row(batch, t, i, quota):
            continue
        count = at - begin  # objects of earlier rows: copied, then merged with this row
        for h in range(count):
            scratch.found[h], scratch.copy[h] = out[begin + h], source_indices[begin + h]
        at = begin
        h, index = 0, batch.row_starts[t, i]
        stop = index + batch.row_lengths[t, i]
        while h < count or index < stop:
            if index == stop or (h < count and scratch.found[h] <= batch.source[index]):
                index += index < stop and scratch.found[h] == batch.source[index]
                out[at], source_indices[at] = scratch.found[h], scratch.copy[h]
                h += 1
                at += 1
            else:
                if is_drawable(batch, t, index):
                    out[at], source_indices[at] = batch.source[index], index
                    at += 1
                index += 1
    return at


@inline_kernel
def is_long(batch: TupleBatch, plan: DrawPlan, t: int, total: int) -> bool:
    """Return whether filling by trial is fast: a row so long that most of it can be drawn.

    Depends on the tuple alone.
    """
    longest = 0
    for i in range(batch.tuples.shape[1]):
        longest = max(longest, batch.row_lengths[t, i])
    excluded = plan.size + batch.tuples.shape[1] + batch.cut_starts[t + 1] - batch.cut_starts[t]
    return longest >= plan.trial_factor * excluded and total < 4294967296


@inner_kernel
def restore_order(order: Ints, swapped: Ints, steps: int) -> None:
    """Restore 0, 1, 2, … in `order`: only swapped elements differ."""
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
    missing: int,
    total: int,
    last: int,
    union: int,
    members: DrawnMembers,
    at: int,
) -> tuple[int, int]:
    """Add up to `missing` members that are not in the table.

    Return the new end and the length of the union, −1 if not materialised.
    """
    arity = batch.tuples.shape[1]
    quota, tuple_key = plan.size // arity, plan.keys[draw]
    only_row = _only_long(batch, t, quota) if plan.shared_order else -1
    if only_row >= 0:
        key = fold_in(fold_in(tuple_key, batch.tuples[t, only_row]), only_row)
        return _fill_in_order(batch, scratch, t, only_row, missing, key, last, members, at), union
    for i in range(arity):
        tuple_key = fold_in(tuple_key, batch.tuples[t, i])
    key = fold_in(tuple_key, arity)
    if is_long(batch, plan, t, total):
        return _fill_by_trial(batch, scratch, t, quota, missing, key, last, members, at), union
    if union < 0:
        union = merge_rows(batch, scratch, t, quota, scratch.union, scratch.union_indices, zero())
    return _fill_from_union(scratch, union, missing, key, last, members, at), union


@inner_kernel
def _only_long(batch: TupleBatch, t: int, quota: int) -> int:
    """Return the only position whose row is longer than the quota, or −1."""
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
    missing: int,
    key: np.uint64,
    last: int,
    members: DrawnMembers,
    at: int,
) -> int:
    """Add up to `missing` members of row i by continuing the random order of its first draws."""
    order, swapped = scratch.order, scratch.swapped
    start, length = batch.row_starts[t, i], batch.row_lengths[t, i]
    step = zero()
    while missing > 0 and step < length:
        other = step + random_below(key, step, length - step)
        order[step], order[other] = order[other], order[step]
        swapped[step] = other
        index = start + order[step]
        step += 1
        if is_drawable(batch, t, index) and add_to_set(scratch.table, last, batch.source[index]):
            members.objects[at], members.source_indices[at] = batch.source[index], index
            at += 1
            missing -= 1
    restore_order(order, swapped, step)
    return at


@inner_kernel
def _fill_from_union(
    scratch: Scratch, union: int, missing: int, key: np.uint64, last: int, members: DrawnMembers, at: int
) -> int:
    """Add up to `missing` members in a random order of the materialised union."""
    order, swapped = scratch.order, scratch.swapped
    step = zero()
    while missing > 0 and step < union:
        other = step + random_below(key, step, union - step)
        order[step], order[other] = order[other], order[step]
        swapped[step] = other
        member, index = scratch.union[order[step]], scratch.union_indices[order[step]]
        step += 1
        if add_to_set(scratch.table, last, member):
            members.objects[at], members.source_indices[at] = member, index
            at += 1
            missing -= 1
    restore_order(order, swapped, step)
    return at


@inner_kernel
def _fill_by_trial(
    batch: TupleBatch,
    scratch: Scratch,
    t: int,
    quota: int,
    missing: int,
    key: np.uint64,
    last: int,
    members: DrawnMembers,
    at: int,
) -> int:
    """Add `missing` members by drawing indices of all rows together until they fit.

    An object counts only in the first row that holds it, so all objects of the union are equally likely.
    """
    arity = batch.tuples.shape[1]
    total = zero()
    for i in range(arity):
        total += 0 if _skips_row(batch, t, i, quota) else batch.row_lengths[t, i]
    trial = zero()
    while missing > 0:
        offset = random_below(key, trial, total)
        trial += 1
        i = zero()
        while _skips_row(batch, t, i, quota) or offset >= batch.row_lengths[t, i]:
            offset -= 0 if _skips_row(batch, t, i, quota) else batch.row_lengths[t, i]
            i += 1
        index = batch.row_starts[t, i] + offset
        if not is_drawable(batch, t, index) or _in_earlier(batch, t, i, batch.source[index]):
            continue
        if add_to_set(scratch.table, last, batch.source[index]):
            members.objects[at], members.source_indices[at] = batch.source[index], index
            at += 1
            missing -= 1
    return at


@inner_kernel
def _in_earlier(batch: TupleBatch, t: int, i: int, member: int) -> bool:
    """Return whether an earlier position than i can draw the object."""
    for earlier in range(i):
        begin = batch.row_starts[t, earlier]
        at = binary_search(batch.source, begin, begin + batch.row_lengths[t, earlier], member)
        if at >= 0 and is_drawable(batch, t, at):
            return True
    return False

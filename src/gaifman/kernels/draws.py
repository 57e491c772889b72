"""Algorithm 1: for each tuple, a bounded random part of the objects around it.

The kernel sees, for each position of a tuple, a *row*: the ascending objects within the radius, some places of which
are *cut* because hidden facts made them. At radius 1 the rows are those of the graph itself; for others they have been
gathered (`balls`). Nothing here costs more for a longer row, except where all of it is asked for.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gaifman.kernels.compiling import compiled, inlined, inner, zero
from gaifman.kernels.random import below, join
from gaifman.kernels.sets import Ints, Longs, added, cleared, place, sort_different

EVERYTHING = -1
"""The size that bounds nothing."""


SHORT = 128
"""Rows up to this long are shuffled on a copy."""


class Batch(NamedTuple):
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


class Plan(NamedTuple):
    """What to draw."""

    keys: npt.NDArray[np.uint64]
    """Shape (w,): a key for each draw."""
    size: int
    """k, or `EVERYTHING`."""
    shared: bool
    """Whether a row's random order is keyed by its object and position alone, not by the whole tuple."""
    patience: int
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
    spots: Ints
    """Shape as union: where in the source each of it stands."""
    copy: Ints
    """Shape as found."""


class Members(NamedTuple):
    """What is drawn, one neighbourhood after another."""

    objects: Ints
    """Shape (room,)."""
    spots: Ints
    """Shape (room,): where in the source each was found; −1 for the tuple's own objects."""


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
        if plan.size == EVERYTHING or not _is_long(batch, plan, t, total):
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
        if not _repeated(batch, t, i):
            members.objects[at], members.spots[at] = batch.tuples[t, i], -1
            at += 1
    if plan.size == EVERYTHING or total <= plan.size:
        return _merged(batch, scratch, t, zero(), members.objects, members.spots, at), union
    begin, quota = at, plan.size // width
    last = cleared(scratch.table, min(plan.size, total))
    whole = plan.keys[draw]
    for i in range(width):
        whole = join(whole, batch.tuples[t, i])
    for i in range(width):
        key = join(join(plan.keys[draw], batch.tuples[t, i]) if plan.shared else whole, i)
        at = _draw_row(batch, scratch, t, i, quota, key, last, members, at)
    if at - begin < plan.size:
        key, wanted = join(whole, width), plan.size - (at - begin)
        alone = _only_long(batch, t, quota) if plan.shared else -1
        if alone >= 0:
            key = join(join(plan.keys[draw], batch.tuples[t, alone]), alone)
            at = _fill_in_order(batch, scratch, t, alone, wanted, key, last, members, at)
        elif _is_long(batch, plan, t, total):
            at = _fill_by_trial(batch, scratch, t, quota, wanted, key, last, members, at)
        else:
            if union < 0:
                union = _merged(batch, scratch, t, quota, scratch.union, scratch.spots, zero())
            at = _fill_from_union(scratch, union, wanted, key, last, members, at)
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
            if _visible(batch, t, place_) and added(scratch.table, last, batch.source[place_]):
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
            if _visible(batch, t, start + order[s]):
                taken += 1
                if added(scratch.table, last, found[s]):
                    members.objects[at], members.spots[at] = found[s], start + order[s]
                    at += 1
        step = stop
    _undo(order, swapped, step)
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


@inner
def _undo(order: Ints, swapped: Ints, steps: int) -> None:
    """Bring back 0, 1, 2, …: only the places that were swapped can differ."""
    for s in range(steps):
        order[s] = s
        order[swapped[s]] = swapped[s]


@inlined
def _visible(batch: Batch, t: int, at: int) -> bool:
    """Whether what stands at this place of the source belongs to a pool of tuple t: not of the tuple, and not cut."""
    for i in range(batch.tuples.shape[1]):
        if batch.tuples[t, i] == batch.source[at]:
            return False
    begin, end = batch.cut_starts[t], batch.cut_starts[t + 1]
    return begin == end or place(batch.cuts, begin, end, at) < 0


@inlined
def _repeated(batch: Batch, t: int, i: int) -> bool:
    """Whether position i of the tuple holds the object of an earlier one."""
    for earlier in range(i):  # noqa: SIM110 - a kernel has no generators
        if batch.tuples[t, earlier] == batch.tuples[t, i]:
            return True
    return False


@inner
def _passed_over(batch: Batch, t: int, i: int, quota: int) -> bool:
    """Whether row i gives nothing that other rows, or the draws by quota, have not given."""
    return batch.row_lengths[t, i] <= quota or _repeated(batch, t, i)


@inner
def _merged(batch: Batch, scratch: Scratch, t: int, quota: int, out: Ints, spots: Ints, at: int) -> int:
    """Write the union of the pools, ascending, to `out[at:]`, without rows not longer than the quota; where it ends.

    Such rows have been drawn whole: nothing of them can be left to fill up with. With quota 0 none is passed over.
    """
    begin = at
    for i in range(batch.tuples.shape[1]):
        if _passed_over(batch, t, i, quota):
            continue
        have = at - begin  # what other rows gave: set aside, then merged with this row
        for h in range(have):
            scratch.found[h], scratch.copy[h] = out[begin + h], spots[begin + h]
        at = begin
        h, where = 0, batch.row_starts[t, i]
        stop = where + batch.row_lengths[t, i]
        while h < have or where < stop:
            if where == stop or (h < have and scratch.found[h] <= batch.source[where]):
                where += where < stop and scratch.found[h] == batch.source[where]
                out[at], spots[at] = scratch.found[h], scratch.copy[h]
                h += 1
                at += 1
            else:
                if _visible(batch, t, where):
                    out[at], spots[at] = batch.source[where], where
                    at += 1
                where += 1
    return at


@inlined
def _is_long(batch: Batch, plan: Plan, t: int, total: int) -> bool:
    """Whether trial fills fast: a row so long that what may be drawn of it is most of it. Hangs on the tuple alone."""
    longest = 0
    for i in range(batch.tuples.shape[1]):
        longest = max(longest, batch.row_lengths[t, i])
    barred = plan.size + batch.tuples.shape[1] + batch.cut_starts[t + 1] - batch.cut_starts[t]
    return longest >= plan.patience * barred and total < 4294967296


@inner
def _fill_from_union(
    scratch: Scratch, union: int, wanted: int, key: np.uint64, last: int, members: Members, at: int
) -> int:
    """Up to `wanted` more, in a random order of the union that is written out."""
    order, swapped = scratch.order, scratch.swapped
    step = zero()
    while wanted > 0 and step < union:
        other = step + below(key, step, union - step)
        order[step], order[other] = order[other], order[step]
        swapped[step] = other
        member, spot = scratch.union[order[step]], scratch.spots[order[step]]
        step += 1
        if added(scratch.table, last, member):
            members.objects[at], members.spots[at] = member, spot
            at += 1
            wanted -= 1
    _undo(order, swapped, step)
    return at


@inner
def _only_long(batch: Batch, t: int, quota: int) -> int:
    """The position whose row alone is longer than the quota; −1 where none or several are."""
    found = zero() - 1
    for i in range(batch.tuples.shape[1]):
        if batch.row_lengths[t, i] > quota:
            if found >= 0:
                return -1
            found = i
    return found


@inner
def _fill_in_order(
    batch: Batch, scratch: Scratch, t: int, i: int, wanted: int, key: np.uint64, last: int, members: Members, at: int
) -> int:
    """Up to `wanted` more of one row, in the order in which its first ones were drawn: all is a prefix of it."""
    order, swapped = scratch.order, scratch.swapped
    start, length = batch.row_starts[t, i], batch.row_lengths[t, i]
    step = zero()
    while wanted > 0 and step < length:
        other = step + below(key, step, length - step)
        order[step], order[other] = order[other], order[step]
        swapped[step] = other
        spot = start + order[step]
        step += 1
        if _visible(batch, t, spot) and added(scratch.table, last, batch.source[spot]):
            members.objects[at], members.spots[at] = batch.source[spot], spot
            at += 1
            wanted -= 1
    _undo(order, swapped, step)
    return at


@inner
def _fill_by_trial(
    batch: Batch,
    scratch: Scratch,
    t: int,
    quota: int,
    wanted: int,
    key: np.uint64,
    last: int,
    members: Members,
    at: int,
) -> int:
    """`wanted` more, by places drawn at random in all rows together until they fit.

    An object counts only through the first row whose pool holds it, so each of the union is equally likely.
    """
    width = batch.tuples.shape[1]
    total = zero()
    for i in range(width):
        total += 0 if _passed_over(batch, t, i, quota) else batch.row_lengths[t, i]
    trial = zero()
    while wanted > 0:
        offset = below(key, trial, total)
        trial += 1
        i = zero()
        while _passed_over(batch, t, i, quota) or offset >= batch.row_lengths[t, i]:
            offset -= 0 if _passed_over(batch, t, i, quota) else batch.row_lengths[t, i]
            i += 1
        at_row = batch.row_starts[t, i] + offset
        if not _visible(batch, t, at_row) or _in_earlier(batch, t, i, batch.source[at_row]):
            continue
        if added(scratch.table, last, batch.source[at_row]):
            members.objects[at], members.spots[at] = batch.source[at_row], at_row
            at += 1
            wanted -= 1
    return at


@inner
def _in_earlier(batch: Batch, t: int, i: int, member: int) -> bool:
    """Whether the pool of a position before i holds the object."""
    for earlier in range(i):
        begin = batch.row_starts[t, earlier]
        at = place(batch.source, begin, begin + batch.row_lengths[t, earlier], member)
        if at >= 0 and _visible(batch, t, at):
            return True
    return False

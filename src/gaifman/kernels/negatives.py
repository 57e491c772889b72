"""Answers with one object changed, which are no known answers: what is learnt as false.

Everything hangs on the key, the answer's objects and the number of the corruption: whoever computes it, in whatever
order and block, gets the same. The plain twin is `tests/plain_corruptions.py`.

What is true with other objects at one position is a *run* of numbers, so that one random number finds an object that is
not in it: nothing is tried in vain where nearly everything is true. Only what functional constraints allow at a
position of a tuple of three or more has to be tried.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gaifman.kernels.collections import Bytes, Ints, Longs, binary_search
from gaifman.kernels.jit import inline_kernel, inner_kernel, kernel, zero
from gaifman.kernels.rng import fold_in, mix, random_below, random_word

MAX_TRIES = 32
"""Objects that are drawn for a bound position before all that remain are listed."""
NO_ROW = np.int32(-1)
UNIFORM, TYPED, MIXED = 0, 1, 2
MAX_WALK_STEPS = 3
"""Steps of a stroll at most: as far apart as the two ends of a path of three steps are."""
WALK_KEY = 64
"""What a stroll's key is joined with: no position and pool has this number."""
_ONE, _11 = np.uint64(1), np.uint64(11)


class CandidatePools(NamedTuple):
    """Which objects may stand where."""

    kind: int
    """`UNIFORM`, `TYPED` or `MIXED`."""
    starts: Longs
    """Shape (n, 2): where the uniform and the typed pool of each position begin in `members`; −1 for all objects."""
    sizes: Longs
    """Shape (n, 2)."""
    members: Ints
    """Shape (any,): objects, ascending in each pool."""
    bound: Bytes
    """Shape (n,): 1 where an object must be looked up, because it must be known to determine something else."""


class KnownRuns(NamedTuple):
    """For each answer and position, which objects of a pool make it a known answer again."""

    groups: Ints
    """Shape (n, a): answers that differ at the position alone are a group."""
    offsets: Longs
    """Shape (n, 2): where in `starts` the groups of a position and a pool begin."""
    starts: Longs
    """Shape (any,): the run of group g is `ranks[starts[offset + g] : starts[offset + g + 1]]`."""
    ranks: Ints
    """Shape (any,): places in the pool, ascending in each run."""


class KnownTuples(NamedTuple):
    """Rows to look tuples up among, whole or at some positions only."""

    rows: Ints
    """Shape (k, n): known answers."""
    masks: Longs
    """Shape (1 + 2f,): the positions that each table looks at, as bits.

    The first looks at all. Then for each functional constraint two: at what determines, and at that and what is
    determined.
    """
    tables: Ints
    """Shape (1 + 2f, a power of two > k): open-addressed, rows by what they have at the mask's positions."""


class HardNegativeWalks(NamedTuple):
    """Where objects near those that stay are found."""

    threshold: np.uint64
    """The share of corruptions that are changed by a stroll, times 2⁵³."""
    starts: Longs
    """Shape (objects + 1,): the neighbours of object o are `neighbours[starts[o] : starts[o + 1]]`."""
    neighbours: Ints
    """Shape (any,): objects, ascending for each object."""
    bound: Bytes
    """Shape (n,): 1 where an object must be known to determine something else, whatever the width."""


@inline_kernel
def _slot(rows: Ints, row: int, mask: int, last: int) -> int:
    """Where the search for a row begins: by its objects at the mask's positions."""
    hashed = np.uint64(mask)
    for i in range(rows.shape[1]):
        if (mask >> i) & 1:
            hashed = mix(hashed ^ np.uint64(rows[row, i]))
    return int(np.int64(hashed & np.uint64(last)))


@inline_kernel
def _rows_equal(rows: Ints, row: int, others: Ints, other: int, mask: int) -> bool:
    """Whether two rows have the same objects at the mask's positions."""
    for i in range(rows.shape[1]):  # noqa: SIM110 - a kernel has no generators
        if (mask >> i) & 1 and rows[row, i] != others[other, i]:
            return False
    return True


@kernel
def fill_table(known: KnownTuples, number: int, count: int) -> None:
    """Put the first rows into a table, which is wiped before: one row for all that are alike."""
    mask, last = known.masks[number], known.tables.shape[1] - 1
    for slot in range(last + 1):
        known.tables[number, slot] = NO_ROW
    for row in range(count):
        slot = _slot(known.rows, row, mask, last)
        while known.tables[number, slot] != NO_ROW:
            if _rows_equal(known.rows, known.tables[number, slot], known.rows, row, mask):
                break
            slot = (slot + 1) & last
        if known.tables[number, slot] == NO_ROW:
            known.tables[number, slot] = row


@inline_kernel
def _contains(known: KnownTuples, number: int, tuples: Ints, t: int) -> bool:
    """Whether a known row has the tuple's objects at the positions that a table looks at."""
    mask, last = known.masks[number], known.tables.shape[1] - 1
    slot = _slot(tuples, t, mask, last)
    while known.tables[number, slot] != NO_ROW:
        if _rows_equal(known.rows, known.tables[number, slot], tuples, t, mask):
            return True
        slot = (slot + 1) & last
    return False


@inline_kernel
def _is_false(known: KnownTuples, tuples: Ints, t: int, position: int) -> bool:
    """Whether a tuple, changed at a bound position, is false: not known, and something else is determined."""
    if _contains(known, 0, tuples, t):
        return False
    for number in range(1, len(known.masks), 2):
        concerned = (known.masks[number] >> position) & 1
        if concerned and _contains(known, number, tuples, t) and not _contains(known, number + 1, tuples, t):
            return True
    return False


@inline_kernel
def _member(pools: CandidatePools, begin: int, i: int) -> int:
    return i if begin < 0 else pools.members[begin + i]


@inline_kernel
def _nth_missing(ranks: Ints, begin: int, end: int, number: int) -> int:
    """The number-th of 0, 1, 2 … that is not in an ascending run: by bisection for how many of the run are before."""
    low, high = begin, end
    while low < high:
        middle = (low + high) >> 1
        if ranks[middle] - (middle - begin) <= number:
            low = middle + 1
        else:
            high = middle
    return number + low - begin


@inner_kernel
def _replace_by_lookup(
    key: np.uint64, known: KnownTuples, pools: CandidatePools, position: int, pool: int, out: Ints, at: int
) -> bool:
    """Put a random object of a pool at a bound position; whether there is one that makes the tuple false.

    What a few tries give is uniform over those, and so is one of the list of all.
    """
    begin, size, free = pools.starts[position, pool], pools.sizes[position, pool], zero()
    for attempt in range(MAX_TRIES if size > 0 else 0):
        out[at, position] = _member(pools, begin, int(random_below(key, attempt, size)))
        if _is_false(known, out, at, position):
            return True
    for i in range(size):
        out[at, position] = _member(pools, begin, i)
        if _is_false(known, out, at, position):
            free += 1
    if free == 0:
        return False
    chosen = random_below(key, MAX_TRIES, free)
    for i in range(size):
        out[at, position] = _member(pools, begin, i)
        if _is_false(known, out, at, position):
            if chosen == 0:
                return True
            chosen -= 1
    return False


@inline_kernel
def _replace(
    key: np.uint64,
    known: KnownTuples,
    runs: KnownRuns,
    pools: CandidatePools,
    row: int,
    position: int,
    pool: int,
    out: Ints,
    at: int,
) -> bool:
    """Put a random object of a pool at a position of an answer; whether there is one that makes it false."""
    if pools.bound[position]:
        return _replace_by_lookup(key, known, pools, position, pool, out, at)
    group = runs.offsets[position, pool] + runs.groups[position, row]
    begin, end = runs.starts[group], runs.starts[group + 1]
    free = pools.sizes[position, pool] - (end - begin)
    if free == 0:
        return False
    rank = _nth_missing(runs.ranks, begin, end, int(random_below(key, 0, free)))
    out[at, position] = _member(pools, pools.starts[position, pool], rank)
    return True


@inline_kernel
def _replace_by_walk(
    key: np.uint64, known: KnownTuples, walks: HardNegativeWalks, position: int, out: Ints, at: int
) -> bool:
    """Put at a position what is two or three steps from an object that stays; whether that makes the tuple false.

    Never a neighbour of that object: a fact that is missing is often there in another form, so that what is beside it
    and not known would be taken for false where it is true. Of a tuple of one object nothing stays: the stroll begins
    at the object itself.
    """
    width, own = out.shape[1], out[at, position]
    begun = (position + 1 + random_below(key, 0, width - 1)) % width if width > 1 else position
    here = out[at, begun]
    first, last = walks.starts[here], walks.starts[here + 1]
    for step in range(2 + random_below(key, 1, MAX_WALK_STEPS - 1)):
        begin, end = walks.starts[here], walks.starts[here + 1]
        if begin < end:
            here = walks.neighbours[begin + random_below(key, 2 + step, end - begin)]
    fresh = here != own and binary_search(walks.neighbours, first, last, here) < 0
    for i in range(width):
        fresh = fresh and (i == position or here != out[at, i])
    out[at, position] = here
    if fresh and (_is_false(known, out, at, position) if walks.bound[position] else not _contains(known, 0, out, at)):
        return True
    out[at, position] = own
    return False


@inline_kernel
def _corrupt(
    key: np.uint64,
    first: int,
    known: KnownTuples,
    runs: KnownRuns,
    pools: CandidatePools,
    walks: HardNegativeWalks,
    row: int,
    out: Ints,
    at: int,
) -> bool:
    """Change one object of an answer: at the first position, or at the next where nothing there makes it false."""
    width = out.shape[1]
    if random_word(key, 1) >> _11 < walks.threshold and _replace_by_walk(
        fold_in(key, WALK_KEY), known, walks, first, out, at
    ):
        return True
    pool = int(np.int64(random_word(key, 0) & _ONE)) if pools.kind == MIXED else pools.kind
    again = pools.kind == MIXED and pool == TYPED
    for step in range(width):
        position = (first + step) % width
        own = out[at, position]
        if _replace(fold_in(key, 2 * position + pool), known, runs, pools, row, position, pool, out, at):
            return True
        # A typed pool is a part of the uniform one: where it is used up, there may be others, and not the other way.
        if again and _replace(fold_in(key, 2 * position), known, runs, pools, row, position, UNIFORM, out, at):
            return True
        out[at, position] = own
    return False


@kernel
def corrupt(
    answers: Ints, rows: Longs, key: np.uint64, count: int, known: KnownTuples, runs: KnownRuns, pools: CandidatePools, walks: HardNegativeWalks,
    out: Ints, sources: Longs,
) -> int:  # fmt: skip
    """So many corruptions of some rows (b,) of the answers (a, n), one after another; how many there are.

    `out` (b · count, n) are the corruptions, `sources` (b · count,) the places in `rows` of what they were made of.
    Fewer where no object at any position makes a false tuple.
    """
    at, width = zero(), answers.shape[1]
    for source in range(len(rows)):
        own = np.uint64(key)
        for i in range(width):
            own = fold_in(own, answers[rows[source], i])
        turn = np.int64(own % np.uint64(width))
        for j in range(count):
            for i in range(width):
                out[at, i] = answers[rows[source], i]
            if _corrupt(fold_in(own, j), (turn + j) % width, known, runs, pools, walks, rows[source], out, at):
                sources[at] = source
                at += 1
    return at

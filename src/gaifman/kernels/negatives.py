"""Negative sampling: answers with one object replaced, which are no known answers.

A negative depends only on the key, the objects of the answer and the number of the negative, not on blocks or order.
The reference implementation is `tests/support/reference_negatives.py`.

The known objects at one position of a tuple are a sorted run, so that one random number picks an object outside it,
without rejections even if nearly all objects are known. Only functional constraints on tuples of three or more objects
need trials.
"""

from __future__ import annotations

from typing import NamedTuple, cast

import numpy as np

from gaifman.kernels.collections import Bytes, Ints, Longs, binary_search
from gaifman.kernels.jit import ONE, ZERO, inline_kernel, inner_kernel, kernel, zero
from gaifman.kernels.rng import fold_in, mix, random_below, random_word

MAX_TRIES = 32
"""Objects drawn for a bound position before all remaining ones are listed."""
NO_ROW = np.int32(-1)
UNIFORM, TYPED, MIXED = 0, 1, 2
MAX_WALK_STEPS = 3
"""Largest number of steps of a random walk for a hard negative: the length of the longest path feature."""
WALK_KEY = 64
"""Folded into the key of a random walk; no position and pool has this number."""
_ONE, _11 = np.uint64(1), np.uint64(11)
_LAST_TRY, _WALK_KEY, _UNIFORM = (cast(int, np.int64(n)) for n in (MAX_TRIES, WALK_KEY, UNIFORM))  # typed as `ZERO`


class CandidatePools(NamedTuple):
    """The objects that may replace another, by position."""

    kind: int
    """`UNIFORM`, `TYPED` or `MIXED`."""
    starts: Longs
    """Shape (n, 2): the start of the uniform and the typed pool of each position in `members`; −1 for all objects."""
    sizes: Longs
    """Shape (n, 2)."""
    members: Ints
    """Shape (any,): objects, ascending in each pool."""
    bound: Bytes
    """Shape (n,): 1 if a replacement must be looked up, because it must determine another object."""


class KnownRuns(NamedTuple):
    """For each answer and position, the objects of a pool that give a known answer."""

    groups: Ints
    """Shape (n, a): answers that differ only at the position form a group."""
    offsets: Longs
    """Shape (n, 2): the index in `starts` of the first group of a position and a pool."""
    starts: Longs
    """Shape (any,): the run of group g is `ranks[starts[offset + g] : starts[offset + g + 1]]`."""
    ranks: Ints
    """Shape (any,): indices in the pool, ascending in each run."""


class KnownTuples(NamedTuple):
    """Hash tables of known answers, over all positions or some."""

    rows: Ints
    """Shape (k, n): known answers."""
    masks: Longs
    """Shape (1 + 2f,): the positions of each table, as bits. The first table has all positions. Each functional
    constraint has two: the determining positions, and these with the determined one.
    """
    tables: Ints
    """Shape (1 + 2f, a power of two > k): open addressing; rows by their objects at the positions of the mask."""


class HardNegativeWalks(NamedTuple):
    """Random walks that find hard negatives: objects close to one that stays."""

    threshold: np.uint64
    """The fraction of hard negatives, times 2⁵³."""
    starts: Longs
    """Shape (objects + 1,): the neighbours of object o are `neighbours[starts[o] : starts[o + 1]]`."""
    neighbours: Ints
    """Shape (any,): objects, ascending for each object."""
    bound: Bytes
    """Shape (n,): 1 if a replacement must determine another object, for any arity."""


@inline_kernel
def _slot(rows: Ints, row: int, mask: int, last: int) -> int:
    """Return the first slot for a row, by its objects at the positions of the mask."""
    hashed = np.uint64(mask)
    for i in range(rows.shape[1]):
        if (mask >> i) & 1:
            hashed = mix(hashed ^ np.uint64(rows[row, i]))
    return int(np.int64(hashed & np.uint64(last)))


@inline_kernel
def _rows_equal(rows: Ints, row: int, others: Ints, other: int, mask: int) -> bool:
    """Return whether two rows are equal at the positions of the mask."""
    for i in range(rows.shape[1]):  # noqa: SIM110 - a kernel has no generators
        if (mask >> i) & 1 and rows[row, i] != others[other, i]:
            return False
    return True


@kernel
def fill_table(known: KnownTuples, number: int, count: int) -> None:
    """Clear a table and insert the first `count` rows, one of each set of equal rows."""
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
    """Return whether a table has a row with the tuple's objects at the positions of its mask."""
    mask, last = known.masks[number], known.tables.shape[1] - 1
    slot = _slot(tuples, t, mask, last)
    while known.tables[number, slot] != NO_ROW:
        if _rows_equal(known.rows, known.tables[number, slot], tuples, t, mask):
            return True
        slot = (slot + 1) & last
    return False


@inline_kernel
def _is_false(known: KnownTuples, tuples: Ints, t: int, position: int) -> bool:
    """Return whether a tuple with a replacement at a bound position is false.

    It is false if it is unknown and its determining objects determine another object.
    """
    if _contains(known, ZERO, tuples, t):
        return False
    for number in range(1, len(known.masks), 2):
        applies = (known.masks[number] >> position) & 1
        if applies and _contains(known, number, tuples, t) and not _contains(known, number + 1, tuples, t):
            return True
    return False


@inline_kernel
def _member(pools: CandidatePools, begin: int, i: int) -> int:
    return i if begin < 0 else pools.members[begin + i]


@inline_kernel
def _nth_missing(ranks: Ints, begin: int, end: int, number: int) -> int:
    """Return the `number`-th non-negative integer that is not in an ascending run, by bisection."""
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
    """Replace the object at a bound position by a random one of a pool. Return whether a false tuple exists.

    Both a successful trial and a choice from the list of all are uniform over the false tuples.
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
    chosen = random_below(key, _LAST_TRY, free)
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
    """Replace the object at a position by a random one of a pool. Return whether a false tuple exists."""
    if pools.bound[position]:
        return _replace_by_lookup(key, known, pools, position, pool, out, at)
    group = runs.offsets[position, pool] + runs.groups[position, row]
    begin, end = runs.starts[group], runs.starts[group + 1]
    free = pools.sizes[position, pool] - (end - begin)
    if free == 0:
        return False
    rank = _nth_missing(runs.ranks, begin, end, int(random_below(key, ZERO, free)))
    out[at, position] = _member(pools, pools.starts[position, pool], rank)
    return True


@inline_kernel
def _replace_by_walk(
    key: np.uint64, known: KnownTuples, walks: HardNegativeWalks, position: int, out: Ints, at: int
) -> bool:
    """Replace the object at a position by one that is two or three steps from another.

    Return whether the tuple is false.

    Neighbours of the start are excluded: facts that are missing often exist in another form, so an unknown tuple with a
    neighbour may well be true. A tuple of one object has no other, and the walk starts at the object itself.
    """
    arity, own = out.shape[1], out[at, position]
    start_position = (position + 1 + random_below(key, ZERO, arity - 1)) % arity if arity > 1 else position
    here = out[at, start_position]
    first, last = walks.starts[here], walks.starts[here + 1]
    for step in range(2 + random_below(key, ONE, MAX_WALK_STEPS - 1)):
        begin, end = walks.starts[here], walks.starts[here + 1]
        if begin < end:
            here = walks.neighbours[begin + random_below(key, 2 + step, end - begin)]
    usable = here != own and binary_search(walks.neighbours, first, last, here) < 0
    for i in range(arity):
        usable = usable and (i == position or here != out[at, i])
    out[at, position] = here
    if usable and (
        _is_false(known, out, at, position) if walks.bound[position] else not _contains(known, ZERO, out, at)
    ):
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
    """Replace one object of an answer: at the first position, or at the next ones if no false tuple exists there."""
    arity = out.shape[1]
    hard = random_word(key, ONE) >> _11 < walks.threshold
    if hard and _replace_by_walk(fold_in(key, _WALK_KEY), known, walks, first, out, at):
        return True
    pool = int(np.int64(random_word(key, ZERO) & _ONE)) if pools.kind == MIXED else pools.kind
    fall_back = pools.kind == MIXED and pool == TYPED
    for step in range(arity):
        position = (first + step) % arity
        own = out[at, position]
        if _replace(fold_in(key, 2 * position + pool), known, runs, pools, row, position, pool, out, at):
            return True
        # The typed pool is part of the uniform one, so the uniform pool may have objects left when it has none.
        if fall_back and _replace(fold_in(key, 2 * position), known, runs, pools, row, position, _UNIFORM, out, at):
            return True
        out[at, position] = own
    return False


@kernel
def corrupt(
    answers: Ints,
    rows: Longs,
    key: np.uint64,
    count: int,
    known: KnownTuples,
    runs: KnownRuns,
    pools: CandidatePools,
    walks: HardNegativeWalks,
    out: Ints,
    sources: Longs,
) -> int:
    """Write `count` negatives for each of some rows (b,) of the answers (a, n). Return their number.

    `out` (b · count, n) gets the negatives, `sources` (b · count,) the index in `rows` of each one's answer. There are
    fewer if no replacement gives a false tuple.
    """
    at, arity = zero(), answers.shape[1]
    for source in range(len(rows)):
        answer_key = np.uint64(key)
        for i in range(arity):
            answer_key = fold_in(answer_key, answers[rows[source], i])
        first_position = np.int64(answer_key % np.uint64(arity))
        for j in range(count):
            for i in range(arity):
                out[at, i] = answers[rows[source], i]
            if _corrupt(
                fold_in(answer_key, j), (first_position + j) % arity, known, runs, pools, walks, rows[source], out, at
            ):
                sources[at] = source
                at += 1
    return at

"""Small sets of objects and sorted runs of numbers: what drawing asks of them.

A set is an open-addressed table of a power of two: for 20 members it fits in four cache lines, whatever the size of the
knowledge base, where an array with a mark per object would not.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gaifman.kernels.jit import inline_kernel, inner_kernel, kernel

Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
Bytes = npt.NDArray[np.uint8]

EMPTY = np.int32(-1)
_MAX_COUNTING_SORT = 400
"""Runs of different numbers up to this long are sorted by counting."""
_MAX_INSERTION_SORT = 24
"""Runs up to this long are sorted by insertion."""
_1, _2, _4, _56 = (np.uint64(n) for n in (1, 2, 4, 56))
_FIVES, _THREES = np.uint64(0x5555555555555555), np.uint64(0x3333333333333333)
_NIBBLES, _BYTES = np.uint64(0x0F0F0F0F0F0F0F0F), np.uint64(0x0101010101010101)


@inline_kernel
def popcount(word: np.uint64) -> int:
    """How many bits of a word are set: the processor has an instruction for it, which the compiler knows it by."""
    word = word - ((word >> _1) & _FIVES)
    word = (word & _THREES) + ((word >> _2) & _THREES)
    word = (word + (word >> _4)) & _NIBBLES
    return int((word * _BYTES) >> _56)


@inline_kernel
def lowest_bit(word: np.uint64) -> int:
    """The place of the lowest bit that is set; there is one."""
    return popcount((word & (~word + _1)) - _1)


@kernel
def clear_set(table: Ints, count: int) -> int:
    """Make the table's front an empty set with room for `count` members, at most half full; the last slot of it."""
    size = 8
    while size < 2 * count:
        size *= 2
    for slot in range(size):
        table[slot] = EMPTY
    return size - 1


@kernel
def add_to_set(table: Ints, last: int, member: int) -> bool:
    """Put a member into the set; whether it was new."""
    slot = (np.int64(member) * 0x9E3779B1 >> 15) & last  # Fibonacci hashing: near numbers fall into far slots
    while table[slot] != EMPTY:
        if table[slot] == member:
            return False
        slot = (slot + 1) & last
    table[slot] = member
    return True


@kernel
def binary_search(run: Ints | Longs, begin: int, end: int, wanted: int) -> int:
    """Where `wanted` stands in the ascending `run[begin:end]`, −1 where it does not."""
    low, high = begin, end
    while low < high:
        middle = (low + high) >> 1
        if run[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    if low < end and run[low] == wanted:
        return low
    return -1


@kernel
def find_rows(table: Ints, begins: Longs, ends: Longs, wanted: Ints, found: Longs) -> None:
    """For each row of `wanted` (b, n), its place in the ascending rows `table[begins[b]:ends[b]]`; −1 if none."""
    for b in range(len(wanted)):
        low, high = begins[b], ends[b]
        while low < high:
            middle = (low + high) >> 1
            if _compare_rows(table, middle, wanted, b) < 0:
                low = middle + 1
            else:
                high = middle
        found[b] = low if low < ends[b] and _compare_rows(table, low, wanted, b) == 0 else -1


@inner_kernel
def _compare_rows(table: Ints, row: int, wanted: Ints, other: int) -> int:
    """Below, equal to or above 0 as the one row stands before, equals or stands after the other."""
    for i in range(table.shape[1]):
        if table[row, i] != wanted[other, i]:
            return -1 if table[row, i] < wanted[other, i] else 1
    return 0


@kernel
def sort(run: Ints | Longs, begin: int, end: int) -> None:
    """Put `run[begin:end]` in ascending order, in place; ours, because numba's takes seconds to compile.

    Insertion for short runs; a comb narrowing to one (Ciura's gaps) for longer ones, so that little is left to insert.
    """
    gap = end - begin if end - begin > _MAX_INSERTION_SORT else 1
    while True:
        gap = 1 if gap <= 4 else 4 if gap <= 10 else 10 if gap <= 23 else int(gap * 4 / 9)
        for i in range(begin + gap, end):
            moved = run[i]
            j = i
            while j - gap >= begin and run[j - gap] > moved:
                run[j] = run[j - gap]
                j -= gap
            run[j] = moved
        if gap == 1:
            return


@inline_kernel
def sort_distinct(run: Ints, payload: Ints, begin: int, end: int, copy: Ints, payload_copy: Ints) -> None:
    """Sort numbers of which no two are equal, and what stands along them; `copy` and `copied` have room for them.

    The place of each is how many are less: without a branch to guess wrong, and eight at a time on most processors.
    """
    count = end - begin
    for i in range(count):
        copy[i], payload_copy[i] = run[begin + i], payload[begin + i]
    if count > _MAX_COUNTING_SORT:
        sort(run, begin, end)
        for i in range(count):
            payload[binary_search(run, begin, end, copy[i])] = payload_copy[i]
        return
    for i in range(count):
        less = begin
        for j in range(count):
            less += copy[j] < copy[i]
        run[less], payload[less] = copy[i], payload_copy[i]

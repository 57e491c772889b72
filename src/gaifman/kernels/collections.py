"""Small integer sets, bit counts, search and sorting on arrays.

A set is an open-addressed hash table whose size is a power of two. A set of 20 members fits in four cache lines for a
knowledge base of any size; an array with a mark per object would not.
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
"""Runs of distinct numbers up to this length are sorted by counting."""
_MAX_INSERTION_SORT = 24
"""Runs up to this length are sorted by insertion."""
_1, _2, _4, _56 = (np.uint64(n) for n in (1, 2, 4, 56))
_FIVES, _THREES = np.uint64(0x5555555555555555), np.uint64(0x3333333333333333)
_NIBBLES, _BYTES = np.uint64(0x0F0F0F0F0F0F0F0F), np.uint64(0x0101010101010101)


@inline_kernel
def popcount(word: np.uint64) -> int:
    """Count the set bits of a word. The compiler recognises this form and uses the processor's instruction."""
    word = word - ((word >> _1) & _FIVES)
    word = (word & _THREES) + ((word >> _2) & _THREES)
    word = (word + (word >> _4)) & _NIBBLES
    return int((word * _BYTES) >> _56)


@inline_kernel
def lowest_bit(word: np.uint64) -> int:
    """Return the index of the lowest set bit of a word that is not 0."""
    return popcount((word & (~word + _1)) - _1)


@kernel
def clear_set(table: Ints, count: int) -> int:
    """Make the front of the table an empty set with room for `count` members, at most half full.

    Return its last slot.
    """
    size = 8
    while size < 2 * count:
        size *= 2
    for slot in range(size):
        table[slot] = EMPTY
    return size - 1


@kernel
def add_to_set(table: Ints, last: int, member: int) -> bool:
    """Add a member to the set. Return whether it is new."""
    slot = (np.int64(member) * 0x9E3779B1 >> 15) & last  # Fibonacci hashing: close numbers get distant slots
    while table[slot] != EMPTY:
        if table[slot] == member:
            return False
        slot = (slot + 1) & last
    table[slot] = member
    return True


@kernel
def binary_search(run: Ints | Longs, begin: int, end: int, value: int) -> int:
    """Return the index of `value` in the ascending `run[begin:end]`, or −1."""
    low, high = begin, end
    while low < high:
        middle = (low + high) >> 1
        if run[middle] < value:
            low = middle + 1
        else:
            high = middle
    if low < end and run[low] == value:
        return low
    return -1


@kernel
def find_rows(table: Ints, begins: Longs, ends: Longs, rows: Ints, found: Longs) -> None:
    """Find each row of `rows` (b, n) in the ascending rows `table[begins[b]:ends[b]]`.

    Write its index or −1 to `found` (b,).
    """
    for b in range(len(rows)):
        low, high = begins[b], ends[b]
        while low < high:
            middle = (low + high) >> 1
            if _compare_rows(table, middle, rows, b) < 0:
                low = middle + 1
            else:
                high = middle
        found[b] = low if low < ends[b] and _compare_rows(table, low, rows, b) == 0 else -1


@inner_kernel
def _compare_rows(table: Ints, row: int, rows: Ints, other: int) -> int:
    """Compare row `row` of the table with row `other` of `rows`: negative, 0 or positive."""
    for i in range(table.shape[1]):
        if table[row, i] != rows[other, i]:
            return -1 if table[row, i] < rows[other, i] else 1
    return 0


@kernel
def sort(run: Ints | Longs, begin: int, end: int) -> None:
    """Sort `run[begin:end]` in place. numba's own sort takes seconds to compile.

    Insertion sort for short runs, Shell sort with Ciura's gaps for longer ones.
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
    """Sort distinct numbers together with their payload. `copy` and `payload_copy` are buffers of the same length.

    The position of a number is the count of smaller ones: no branch to mispredict, and vectorised on most processors.
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

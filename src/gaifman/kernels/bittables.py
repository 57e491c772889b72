"""Bit tables: which members, pairs, triples … of members satisfy a formula.

A table over d variables has m^(d−1) rows of ⌈m / 64⌉ words; the last variable runs along the bits of a row, and bits
beyond m are 0. A table over no variables is one word, all ones or all zeros. Variables are numbered, and a table's axes
stand in ascending order, so that two tables meet without being turned.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gaifman.kernels.compiling import inline_kernel
from gaifman.kernels.sets import Ints, Longs, Words, popcount

AND, OR, SAME = 0, 1, 2
ONES, NONE = np.uint64(0xFFFFFFFFFFFFFFFF), np.uint64(0)
_1, _63 = np.uint64(1), np.uint64(63)


class BitTables(NamedTuple):
    """All tables of one program in one neighbourhood."""

    words: Words
    """Shape (any,): the tables."""
    offsets: Longs
    """Shape (registers,): where each table begins."""
    axes: Ints
    """Shape (registers, AXES): its variables, ascending."""
    counts: Ints
    """Shape (registers,): how many variables it has."""
    at: Ints
    """Shape (VARIABLES,): the member that stands for each variable, while a table is gone through."""
    members: int
    """m."""
    row_words: int
    """Words of a row."""


@inline_kernel
def full_word(tables: BitTables, w: int) -> np.uint64:
    """Word `w` of a row in which every member is."""
    left = tables.members - 64 * w
    return ONES if left >= 64 else (_1 << np.uint64(left)) - _1


@inline_kernel
def row_count(tables: BitTables, register: int) -> int:
    """How many rows a table has."""
    count = 1
    for _ in range(tables.counts[register] - 1):
        count *= tables.members
    return count


@inline_kernel
def word_count(tables: BitTables, register: int) -> int:
    """How many words a table has."""
    return row_count(tables, register) * tables.row_words if tables.counts[register] > 0 else 1


@inline_kernel
def fill_table(tables: BitTables, register: int, truth: bool) -> None:
    """Make a table true or false throughout."""
    start = tables.offsets[register]
    if tables.counts[register] == 0:
        tables.words[start] = ONES if truth else NONE
        return
    if not truth:
        for at in range(start, start + word_count(tables, register)):
            tables.words[at] = NONE
        return
    for row in range(row_count(tables, register)):
        for w in range(tables.row_words):
            tables.words[start + row * tables.row_words + w] = full_word(tables, w)


@inline_kernel
def row_offset(tables: BitTables, register: int) -> int:
    """The word at which the row of the members in `at` begins; the last axis is not asked for."""
    row = 0
    for axis in range(tables.counts[register] - 1):
        row = row * tables.members + tables.at[tables.axes[register, axis]]
    return int(tables.offsets[register] + row * tables.row_words)


@inline_kernel
def set_tuple(tables: BitTables, register: int) -> None:
    """Make the table true for the members in `at`."""
    count = tables.counts[register]
    if count == 0:
        tables.words[tables.offsets[register]] = ONES
        return
    last = np.uint64(tables.at[tables.axes[register, count - 1]])
    tables.words[row_offset(tables, register) + np.int64(last >> np.uint64(6))] |= _1 << (last & _63)


@inline_kernel
def aligned_word(tables: BitTables, register: int, last: int, w: int) -> np.uint64:
    """Word `w` of a table along the variable `last`, at the members in `at`; one without it is the same all along."""
    count = tables.counts[register]
    if count == 0:
        return np.uint64(tables.words[tables.offsets[register]])
    own = tables.axes[register, count - 1]
    if own == last:
        return np.uint64(tables.words[row_offset(tables, register) + w])
    bit = np.uint64(tables.at[own])
    word = tables.words[row_offset(tables, register) + np.int64(bit >> np.uint64(6))]
    return ONES if (word >> (bit & _63)) & _1 else NONE


@inline_kernel
def next_row(tables: BitTables, register: int) -> bool:
    """Move `at` to the next row of a table, the first axes slowest; False after the last."""
    for axis in range(tables.counts[register] - 2, -1, -1):
        variable = tables.axes[register, axis]
        tables.at[variable] += 1
        if tables.at[variable] < tables.members:
            return True
        tables.at[variable] = 0
    return False


@inline_kernel
def first_row(tables: BitTables, register: int) -> None:
    """Move `at` to the first row of a table."""
    for axis in range(tables.counts[register]):
        tables.at[tables.axes[register, axis]] = 0


@inline_kernel
def combine_words(one: np.uint64, other: np.uint64, how: int) -> np.uint64:
    """Two words by ∧, ∨ or ↔."""
    if how == AND:
        return one & other
    if how == OR:
        return one | other
    return ~(one ^ other)


@inline_kernel
def combine_tables(tables: BitTables, target: int, one: int, other: int, how: int) -> None:
    """A table over the variables of two, by ∧, ∨ or ↔."""
    count = tables.counts[target]
    start = tables.offsets[target]
    if count == 0:
        tables.words[start] = combine_words(tables.words[tables.offsets[one]], tables.words[tables.offsets[other]], how)
        return
    if tables.counts[one] == count and tables.counts[other] == count:  # the same axes, then: no need to look them up
        a, b = tables.offsets[one], tables.offsets[other]
        count = word_count(tables, target)
        if how == AND:
            for at in range(count):
                tables.words[start + at] = tables.words[a + at] & tables.words[b + at]
        elif how == OR:
            for at in range(count):
                tables.words[start + at] = tables.words[a + at] | tables.words[b + at]
        else:
            for at in range(count):
                tables.words[start + at] = ~(tables.words[a + at] ^ tables.words[b + at]) & full_word(
                    tables, at % tables.row_words
                )
        return
    last = tables.axes[target, count - 1]
    first_row(tables, target)
    going = True
    while going:
        for w in range(tables.row_words):
            word = combine_words(aligned_word(tables, one, last, w), aligned_word(tables, other, last, w), how)
            tables.words[start + w] = word & full_word(tables, w)
        start += tables.row_words
        going = next_row(tables, target)


@inline_kernel
def negate_table(tables: BitTables, target: int, source: int) -> None:
    """A table that is true where another is not."""
    start, other = tables.offsets[target], tables.offsets[source]
    if tables.counts[target] == 0:
        tables.words[start] = ~tables.words[other]
        return
    if tables.row_words == 1:
        whole = full_word(tables, 0)
        for at in range(word_count(tables, target)):
            tables.words[start + at] = ~tables.words[other + at] & whole
        return
    for row in range(row_count(tables, target)):
        for w in range(tables.row_words):
            at = row * tables.row_words + w
            tables.words[start + at] = ~tables.words[other + at] & full_word(tables, w)


@inline_kernel
def quantify_table(tables: BitTables, target: int, source: int, variable: int, every: bool) -> None:
    """A table without one variable: true where the other is for some member put for it, or for every one."""
    fill_table(tables, target, every)
    count = tables.counts[source]
    if tables.axes[source, count - 1] == variable:
        _quantify_last(tables, target, source, every)
        return
    first_row(tables, source)
    start = tables.offsets[source]
    going = True
    while going:
        into = row_offset(tables, target)
        for w in range(tables.row_words):
            word = tables.words[start + w]
            tables.words[into + w] = tables.words[into + w] & word if every else tables.words[into + w] | word
        start += tables.row_words
        going = next_row(tables, source)


@inline_kernel
def _quantify_last(tables: BitTables, target: int, source: int, every: bool) -> None:
    """Each row into one bit: rows follow one another as the target's bits do."""
    into, at = tables.offsets[target], tables.offsets[source]
    scalar = tables.counts[target] == 0
    if tables.row_words == 1 and tables.counts[target] < 2:
        whole_row, word = full_word(tables, 0), NONE
        for row in range(row_count(tables, source)):
            true = tables.words[at + row] == whole_row if every else tables.words[at + row] != NONE
            word |= np.uint64(true) << np.uint64(row)
        tables.words[into] = (ONES if word else NONE) if scalar else word
        return
    row, bit = into, 0
    for _ in range(row_count(tables, source)):
        some, whole = False, True
        for w in range(tables.row_words):
            some = some or tables.words[at + w] != NONE
            whole = whole and tables.words[at + w] == full_word(tables, w)
        at += tables.row_words
        if scalar:
            tables.words[into] = ONES if (whole if every else some) else NONE
        elif every and not whole:
            tables.words[row + (bit >> 6)] &= ~(_1 << np.uint64(bit & 63))
        elif not every and some:
            tables.words[row + (bit >> 6)] |= _1 << np.uint64(bit & 63)
        bit += 1
        if bit == tables.members:
            row, bit = row + tables.row_words, 0


@inline_kernel
def count_tuples(tables: BitTables, register: int) -> int:
    """How many groundings a table holds."""
    start = tables.offsets[register]
    if tables.counts[register] == 0:
        return int(tables.words[start] & _1)
    count = 0
    for at in range(start, start + word_count(tables, register)):
        count += popcount(tables.words[at])
    return count

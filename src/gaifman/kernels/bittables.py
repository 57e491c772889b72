"""Bit tables: which members, pairs, triples … of members satisfy a formula.

A table over d variables has m^(d−1) rows of ⌈m / 64⌉ words; the last variable runs along the bits of a row, and bits
beyond m are 0. A table over no variables is one word, all ones or all zeros. Variables are numbered, and a table's axes
stand in ascending order, so that two tables meet without being turned.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gaifman.kernels.compiling import inlined
from gaifman.kernels.sets import Ints, Longs, Words, ones

AND, OR, SAME = 0, 1, 2
ONES, NONE = np.uint64(0xFFFFFFFFFFFFFFFF), np.uint64(0)
_1, _63 = np.uint64(1), np.uint64(63)


class Sheet(NamedTuple):
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
    width: int
    """Words of a row."""


@inlined
def full(sheet: Sheet, w: int) -> np.uint64:
    """Word `w` of a row in which every member is."""
    left = sheet.members - 64 * w
    return ONES if left >= 64 else (_1 << np.uint64(left)) - _1


@inlined
def rows(sheet: Sheet, register: int) -> int:
    """How many rows a table has."""
    count = 1
    for _ in range(sheet.counts[register] - 1):
        count *= sheet.members
    return count


@inlined
def size(sheet: Sheet, register: int) -> int:
    """How many words a table has."""
    return rows(sheet, register) * sheet.width if sheet.counts[register] > 0 else 1


@inlined
def fill(sheet: Sheet, register: int, truth: bool) -> None:
    """Make a table true or false throughout."""
    start = sheet.offsets[register]
    if sheet.counts[register] == 0:
        sheet.words[start] = ONES if truth else NONE
        return
    if not truth:
        for at in range(start, start + size(sheet, register)):
            sheet.words[at] = NONE
        return
    for row in range(rows(sheet, register)):
        for w in range(sheet.width):
            sheet.words[start + row * sheet.width + w] = full(sheet, w)


@inlined
def position(sheet: Sheet, register: int) -> int:
    """The word at which the row of the members in `at` begins; the last axis is not asked for."""
    row = 0
    for axis in range(sheet.counts[register] - 1):
        row = row * sheet.members + sheet.at[sheet.axes[register, axis]]
    return int(sheet.offsets[register] + row * sheet.width)


@inlined
def mark(sheet: Sheet, register: int) -> None:
    """Make the table true for the members in `at`."""
    count = sheet.counts[register]
    if count == 0:
        sheet.words[sheet.offsets[register]] = ONES
        return
    last = np.uint64(sheet.at[sheet.axes[register, count - 1]])
    sheet.words[position(sheet, register) + np.int64(last >> np.uint64(6))] |= _1 << (last & _63)


@inlined
def seen(sheet: Sheet, register: int, last: int, w: int) -> np.uint64:
    """Word `w` of a table along the variable `last`, at the members in `at`; one without it is the same all along."""
    count = sheet.counts[register]
    if count == 0:
        return np.uint64(sheet.words[sheet.offsets[register]])
    own = sheet.axes[register, count - 1]
    if own == last:
        return np.uint64(sheet.words[position(sheet, register) + w])
    bit = np.uint64(sheet.at[own])
    word = sheet.words[position(sheet, register) + np.int64(bit >> np.uint64(6))]
    return ONES if (word >> (bit & _63)) & _1 else NONE


@inlined
def step(sheet: Sheet, register: int) -> bool:
    """Move `at` to the next row of a table, the first axes slowest; False after the last."""
    for axis in range(sheet.counts[register] - 2, -1, -1):
        variable = sheet.axes[register, axis]
        sheet.at[variable] += 1
        if sheet.at[variable] < sheet.members:
            return True
        sheet.at[variable] = 0
    return False


@inlined
def begin(sheet: Sheet, register: int) -> None:
    """Move `at` to the first row of a table."""
    for axis in range(sheet.counts[register]):
        sheet.at[sheet.axes[register, axis]] = 0


@inlined
def joined(one: np.uint64, other: np.uint64, how: int) -> np.uint64:
    """Two words by ∧, ∨ or ↔."""
    if how == AND:
        return one & other
    if how == OR:
        return one | other
    return ~(one ^ other)


@inlined
def combine(sheet: Sheet, target: int, one: int, other: int, how: int) -> None:
    """A table over the variables of two, by ∧, ∨ or ↔."""
    count = sheet.counts[target]
    start = sheet.offsets[target]
    if count == 0:
        sheet.words[start] = joined(sheet.words[sheet.offsets[one]], sheet.words[sheet.offsets[other]], how)
        return
    if sheet.counts[one] == count and sheet.counts[other] == count:  # the same axes, then: no need to look them up
        a, b = sheet.offsets[one], sheet.offsets[other]
        count = size(sheet, target)
        if how == AND:
            for at in range(count):
                sheet.words[start + at] = sheet.words[a + at] & sheet.words[b + at]
        elif how == OR:
            for at in range(count):
                sheet.words[start + at] = sheet.words[a + at] | sheet.words[b + at]
        else:
            for at in range(count):
                sheet.words[start + at] = ~(sheet.words[a + at] ^ sheet.words[b + at]) & full(sheet, at % sheet.width)
        return
    last = sheet.axes[target, count - 1]
    begin(sheet, target)
    going = True
    while going:
        for w in range(sheet.width):
            word = joined(seen(sheet, one, last, w), seen(sheet, other, last, w), how)
            sheet.words[start + w] = word & full(sheet, w)
        start += sheet.width
        going = step(sheet, target)


@inlined
def negate(sheet: Sheet, target: int, source: int) -> None:
    """A table that is true where another is not."""
    start, other = sheet.offsets[target], sheet.offsets[source]
    if sheet.counts[target] == 0:
        sheet.words[start] = ~sheet.words[other]
        return
    if sheet.width == 1:
        whole = full(sheet, 0)
        for at in range(size(sheet, target)):
            sheet.words[start + at] = ~sheet.words[other + at] & whole
        return
    for row in range(rows(sheet, target)):
        for w in range(sheet.width):
            at = row * sheet.width + w
            sheet.words[start + at] = ~sheet.words[other + at] & full(sheet, w)


@inlined
def quantify(sheet: Sheet, target: int, source: int, variable: int, every: bool) -> None:
    """A table without one variable: true where the other is for some member put for it, or for every one."""
    fill(sheet, target, every)
    count = sheet.counts[source]
    if sheet.axes[source, count - 1] == variable:
        _quantify_last(sheet, target, source, every)
        return
    begin(sheet, source)
    start = sheet.offsets[source]
    going = True
    while going:
        into = position(sheet, target)
        for w in range(sheet.width):
            word = sheet.words[start + w]
            sheet.words[into + w] = sheet.words[into + w] & word if every else sheet.words[into + w] | word
        start += sheet.width
        going = step(sheet, source)


@inlined
def _quantify_last(sheet: Sheet, target: int, source: int, every: bool) -> None:
    """Each row into one bit: rows follow one another as the target's bits do."""
    into, at = sheet.offsets[target], sheet.offsets[source]
    scalar = sheet.counts[target] == 0
    if sheet.width == 1 and sheet.counts[target] < 2:
        whole_row, word = full(sheet, 0), NONE
        for row in range(rows(sheet, source)):
            true = sheet.words[at + row] == whole_row if every else sheet.words[at + row] != NONE
            word |= np.uint64(true) << np.uint64(row)
        sheet.words[into] = (ONES if word else NONE) if scalar else word
        return
    row, bit = into, 0
    for _ in range(rows(sheet, source)):
        some, whole = False, True
        for w in range(sheet.width):
            some = some or sheet.words[at + w] != NONE
            whole = whole and sheet.words[at + w] == full(sheet, w)
        at += sheet.width
        if scalar:
            sheet.words[into] = ONES if (whole if every else some) else NONE
        elif every and not whole:
            sheet.words[row + (bit >> 6)] &= ~(_1 << np.uint64(bit & 63))
        elif not every and some:
            sheet.words[row + (bit >> 6)] |= _1 << np.uint64(bit & 63)
        bit += 1
        if bit == sheet.members:
            row, bit = row + sheet.width, 0


@inlined
def total(sheet: Sheet, register: int) -> int:
    """How many groundings a table holds."""
    start = sheet.offsets[register]
    if sheet.counts[register] == 0:
        return int(sheet.words[start] & _1)
    count = 0
    for at in range(start, start + size(sheet, register)):
        count += ones(sheet.words[at])
    return count

"""Bit tables: which members, pairs, triples … of members satisfy a formula.

A table over d variables has m^(d−1) rows of ⌈m / 64⌉ words; the last variable runs along the bits of a row, and bits
beyond m are 0. A table over no variables is one word, all ones or all zeros. Variables are numbered, and a table's axes
stand in ascending order, so that two tables meet without being turned.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gaifman.kernels.collections import Ints, Longs, Words, binary_search, popcount
from gaifman.kernels.jit import inline_kernel, inner_kernel
from gaifman.kernels.local_facts import LocalFacts, NeighbourhoodView

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


MAX_AXES, MAX_VARIABLES, MAX_RELATION_VARIABLES, MAX_RESULTS, INSTRUCTION_WIDTH = 6, 64, 8, 4, 8
(
    TRUTH,
    ATOM,
    EQUAL,
    COMPARE,
    NOT,
    BOTH,
    EITHER,
    IFF,
    EXISTS,
    FORALL,
    LOOP,
    END_LOOP,
    COUNT,
    AGGREGATE,
    NUMBER,
    MINUS,
) = range(16)
"""Instructions; each is a row of `INSTRUCTION_WIDTH` numbers, the first of which is one of these."""
VARIABLE, TUPLE_OBJECT, CONSTANT = 0, 1, 2
"""Kinds of term: a variable, an object of the tuple, an object by its number (−1 where it is none of the KB's)."""
NO_FACTS = -1
"""A relation without facts here."""

Floats = npt.NDArray[np.float64]


class Programs(NamedTuple):
    """Programs, one after another."""

    code: Ints
    """Shape (instructions, WIDTH)."""
    starts: Longs
    """Shape (programs + 1,): the instructions of each."""
    register_starts: Longs
    """Shape (programs + 1,): the registers of each."""
    axes: Ints
    """Shape (registers, AXES)."""
    counts: Ints
    """Shape (registers,)."""
    terms: Ints
    """Shape (terms, 2): kind, and which."""
    quantities: Ints
    """Shape (quantities, 3): an attribute, or −1 for a number; then a term, or which number and 0."""
    numbers: Floats
    arities: Ints
    """Shape (relations,)."""
    relations_of_arity: Ints
    """Shape (9,): how many relations have so many places."""


class AttributeArrays(NamedTuple):
    """Numeric attributes, as `gaifman.kb.tables.Values` has them."""

    starts: Longs
    objects: Ints
    values: Floats


class VmState(NamedTuple):
    """What one thread runs on."""

    words: Words
    offsets: Longs
    at: Ints
    slots: Ints
    """Shape (SLOTS,): the relation put for each relation variable."""
    loop_positions: Ints
    """Shape (SLOTS,): how far each loop over relations is."""
    results: Floats
    """Shape (RESULTS,)."""


@inline_kernel
def run_program(
    programs: Programs, p: int, view: NeighbourhoodView, local: LocalFacts, values: AttributeArrays, state: VmState
) -> float:
    """The value of program `p` in a neighbourhood; NaN where a number it needs is missing."""
    first, end = programs.register_starts[p], programs.register_starts[p + 1]
    m = len(view.members)
    sheet = BitTables(
        state.words, state.offsets, programs.axes[first:end], programs.counts[first:end], state.at, m, (m + 63) >> 6
    )
    offset = 0
    for register in range(end - first):
        state.offsets[register] = offset
        offset += word_count(sheet, register)
    start, stop = programs.starts[p], programs.starts[p + 1]
    pc = start
    while pc < stop:
        code = programs.code[pc]
        op = code[0]
        if op == ATOM:
            _atom(sheet, programs, code, view, local, state)
        elif op == BOTH or op == EITHER or op == IFF:
            combine_tables(sheet, code[1], code[2], code[3], AND if op == BOTH else OR if op == EITHER else SAME)
        elif op == EXISTS or op == FORALL:
            quantify_table(sheet, code[1], code[2], code[3], op == FORALL)
        elif op == COUNT:
            state.results[code[1]] = count_tuples(sheet, code[2])
        elif op == NOT:
            negate_table(sheet, code[1], code[2])
        elif op == TRUTH:
            fill_table(sheet, code[1], code[2] == 1)
        elif op == EQUAL:
            _equal(sheet, programs, code, view, local)
        elif op == COMPARE:
            _compare(sheet, programs, code, view, local, values)
        elif op == LOOP:
            fill_table(sheet, code[1], code[5] == 1)
            state.loop_positions[code[2]] = -1
            if not _next_relation(programs, code, local, state):
                pc = start + code[4]
        elif op == END_LOOP:
            loop = programs.code[start + code[1]]
            combine_tables(sheet, loop[1], loop[1], code[2], AND if loop[5] == 1 else OR)
            if _next_relation(programs, loop, local, state):
                pc = start + code[1]
        else:
            _finish(sheet, programs, code, view, local, values, state)
        pc += 1
    return float(state.results[0])


@inline_kernel
def _next_relation(programs: Programs, loop: Ints, local: LocalFacts, state: VmState) -> bool:
    """Put the next relation of fitting arity for a relation variable: those present, then one that is empty here."""
    slot, arity = loop[2], loop[3]
    turn = state.loop_positions[slot] + 1
    while turn < local.counts[1]:
        relation = local.present[turn]
        if arity < 0 or programs.arities[relation] == arity:
            state.loop_positions[slot], state.slots[slot] = turn, relation
            return True
        turn += 1
    if turn > local.counts[1]:
        return False
    state.loop_positions[slot], state.slots[slot] = turn, NO_FACTS
    present = 0
    for r in range(local.counts[1]):
        present += arity < 0 or programs.arities[local.present[r]] == arity
    return present < (len(programs.arities) if arity < 0 else programs.relations_of_arity[arity])


@inline_kernel
def _member(kind: int, which: int, view: NeighbourhoodView, local: LocalFacts) -> int:
    """The member that an object of the tuple or a constant is, −1 where it is none."""
    if kind == TUPLE_OBJECT:
        return int(view.own[which])
    return int(local.member_index[which]) if which >= 0 else -1


@inline_kernel
def _atom(
    tables: BitTables, programs: Programs, code: Ints, view: NeighbourhoodView, local: LocalFacts, state: VmState
) -> None:
    """The table of an atom: code is (ATOM, target, relation or −1 − slot, first term, terms)."""
    target, relation, first, count = code[1], code[2], code[3], code[4]
    fill_table(tables, target, False)
    if relation < 0:
        relation = state.slots[-1 - relation]
    fact = local.first_fact[relation] if relation >= 0 else -1
    if count == 2 and fact >= 0:
        _pairs(tables, programs, target, first, fact, view, local)
        return
    while fact >= 0:
        for i in range(count):
            if programs.terms[first + i, 0] == VARIABLE:
                tables.at[programs.terms[first + i, 1]] = -1
        fits = True
        for i in range(count):
            kind, which, member = programs.terms[first + i, 0], programs.terms[first + i, 1], local.arguments[fact, i]
            if kind != VARIABLE:
                fits = fits and _member(kind, which, view, local) == member
            elif tables.at[which] < 0:
                tables.at[which] = member
            else:
                fits = fits and tables.at[which] == member
        if fits:
            set_tuple(tables, target)
        fact = local.next_fact[fact]


@inline_kernel
def _pairs(
    tables: BitTables,
    programs: Programs,
    target: int,
    first: int,
    fact: int,
    view: NeighbourhoodView,
    local: LocalFacts,
) -> None:
    """The table of an atom of two places, from its first fact on."""
    kind, which, kind2, which2 = (
        programs.terms[first, 0],
        programs.terms[first, 1],
        programs.terms[first + 1, 0],
        programs.terms[first + 1, 1],
    )
    start, words = tables.offsets[target], tables.words
    one = -1 if kind == VARIABLE else _member(kind, which, view, local)
    other = -1 if kind2 == VARIABLE else _member(kind2, which2, view, local)
    while fact >= 0:
        left, right = local.arguments[fact, 0], local.arguments[fact, 1]
        fact = local.next_fact[fact]
        if kind == VARIABLE and kind2 == VARIABLE:
            if which == which2:
                if left == right:
                    words[start + (left >> 6)] |= _1 << np.uint64(left & 63)
            elif which < which2:
                words[start + left * tables.row_words + (right >> 6)] |= _1 << np.uint64(right & 63)
            else:
                words[start + right * tables.row_words + (left >> 6)] |= _1 << np.uint64(left & 63)
        elif kind == VARIABLE:
            if right == other:
                words[start + (left >> 6)] |= _1 << np.uint64(left & 63)
        elif kind2 == VARIABLE:
            if left == one:
                words[start + (right >> 6)] |= _1 << np.uint64(right & 63)
        elif left == one and right == other:
            words[start] = ONES


@inner_kernel
def _equal(tables: BitTables, programs: Programs, code: Ints, view: NeighbourhoodView, local: LocalFacts) -> None:
    """The table of `left = right`: code is (EQUAL, target, first of two terms)."""
    target, first = code[1], code[2]
    kind, which = programs.terms[first, 0], programs.terms[first, 1]
    kind2, which2 = programs.terms[first + 1, 0], programs.terms[first + 1, 1]
    fill_table(tables, target, False)
    if kind == VARIABLE and kind2 == VARIABLE:
        for member in range(tables.members):
            tables.at[which] = tables.at[which2] = member
            set_tuple(tables, target)
    elif kind == VARIABLE or kind2 == VARIABLE:
        if kind == VARIABLE:
            variable, member = which, _member(kind2, which2, view, local)
        else:
            variable, member = which2, _member(kind, which, view, local)
        if member >= 0:
            tables.at[variable] = member
            set_tuple(tables, target)
    elif _object(kind, which, view) == _object(kind2, which2, view):
        set_tuple(tables, target)


@inner_kernel
def _object(kind: int, which: int, view: NeighbourhoodView) -> int:
    """The number of an object; unknown constants have negative ones of their own."""
    return int(view.members[view.own[which]]) if kind == TUPLE_OBJECT else which


@inner_kernel
def _quantity(
    programs: Programs, q: int, tables: BitTables, view: NeighbourhoodView, local: LocalFacts, values: AttributeArrays
) -> float:
    """A number, or the value of an attribute for the member in `at`; NaN where there is none."""
    attribute, kind, which = programs.quantities[q, 0], programs.quantities[q, 1], programs.quantities[q, 2]
    if attribute < 0:
        return float(programs.numbers[kind])
    member = tables.at[which] if kind == VARIABLE else _member(kind, which, view, local)
    if member < 0:
        return np.nan
    first, end = values.starts[attribute], values.starts[attribute + 1]
    at = binary_search(values.objects, first, end, view.members[member])
    return float(values.values[at]) if at >= 0 else np.nan


@inner_kernel
def _compare(
    tables: BitTables,
    programs: Programs,
    code: Ints,
    view: NeighbourhoodView,
    local: LocalFacts,
    values: AttributeArrays,
) -> None:
    """The table of a comparison: code is (COMPARE, target, sign, first of two quantities)."""
    target, sign, q = code[1], code[2], code[3]
    fill_table(tables, target, False)
    count = tables.counts[target]
    first_row(tables, target)
    going = True
    while going:
        for member in range(tables.members if count > 0 else 1):
            if count > 0:
                tables.at[tables.axes[target, count - 1]] = member
            one = _quantity(programs, int(q), tables, view, local, values)
            other = _quantity(programs, q + 1, tables, view, local, values)
            if _comparison_holds(one, other, sign):
                set_tuple(tables, target)
        going = next_row(tables, target)


@inner_kernel
def _comparison_holds(one: float, other: float, sign: int) -> bool:
    """= ≠ < ≤ > ≥, in the order of `gaifman.logic.ast.OPERATORS`; false where a number is missing."""
    if np.isnan(one) or np.isnan(other):
        return False
    if sign < 2:
        return (one == other) == (sign == 0)
    if sign < 4:
        return one < other or (sign == 3 and one == other)
    return one > other or (sign == 5 and one == other)


@inner_kernel
def _finish(
    tables: BitTables,
    programs: Programs,
    code: Ints,
    view: NeighbourhoodView,
    local: LocalFacts,
    values: AttributeArrays,
    state: VmState,
) -> None:
    """A table, or a number, into a result: code is (instruction, result, …)."""
    op, result = code[0], code[1]
    if op == NUMBER:
        state.results[result] = _quantity(programs, int(code[2]), tables, view, local, values)
    elif op == AGGREGATE:
        state.results[result] = _aggregate(tables, programs, code, view, local, values)
    else:
        state.results[result] = state.results[code[2]] - state.results[code[3]]


@inner_kernel
def _aggregate(
    tables: BitTables,
    programs: Programs,
    code: Ints,
    view: NeighbourhoodView,
    local: LocalFacts,
    values: AttributeArrays,
) -> float:
    """Over the groundings in a table: code is (AGGREGATE, result, table, kind as in `KINDS`, quantity)."""
    source, kind, q = code[2], code[3], code[4]
    count = tables.counts[source]
    known, added, least, greatest = 0, 0.0, np.inf, -np.inf
    first_row(tables, source)
    going = True
    while going:
        start = row_offset(tables, source)
        for member in range(tables.members if count > 0 else 1):
            bit = np.uint64(member)
            word = tables.words[start + np.int64(bit >> np.uint64(6))]
            if (word >> (bit & _63)) & _1:
                if count > 0:
                    tables.at[tables.axes[source, count - 1]] = member
                number = _quantity(programs, int(q), tables, view, local, values)
                if not np.isnan(number):
                    known, added = known + 1, added + number
                    least, greatest = min(least, number), max(greatest, number)
        going = next_row(tables, source)
    if kind == 0:
        return float(known)
    if kind == 1:
        return added
    if known == 0:
        return np.nan
    return added / known if kind == 2 else least if kind == 3 else greatest

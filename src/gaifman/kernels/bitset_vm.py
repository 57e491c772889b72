"""A virtual machine that evaluates formulas on bit tables: which members, pairs, triples … satisfy a formula.

A table over d variables has m^(d−1) rows of ⌈m / 64⌉ words. The last variable runs along the bits of a row, and bits
beyond m are 0. A table over no variables is one word, all ones or all zeros. Variables are numbered and the axes of a
table ascend, so that two tables combine without a transposition.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gaifman.kernels.collections import Ints, Longs, Words, popcount
from gaifman.kernels.jit import inline_kernel, inner_kernel
from gaifman.kernels.local_facts import LocalFacts, NeighbourhoodView
from gaifman.kernels.numbers import AttributeArrays, Floats, find_value

AND, OR, SAME = 0, 1, 2
ONES, NONE = np.uint64(0xFFFFFFFFFFFFFFFF), np.uint64(0)
_1, _63 = np.uint64(1), np.uint64(63)


class BitTables(NamedTuple):
    """All tables of one program in one neighbourhood."""

    words: Words
    """Shape (any,): the words of all tables."""
    offsets: Longs
    """Shape (registers,): the first word of each table."""
    axes: Ints
    """Shape (registers, MAX_AXES): the variables of each table, ascending."""
    counts: Ints
    """Shape (registers,): the number of variables."""
    at: Ints
    """Shape (MAX_VARIABLES,): the member assigned to each variable during a scan."""
    members: int
    """m."""
    row_words: int
    """Words of a row."""


@inline_kernel
def full_word(tables: BitTables, w: int) -> np.uint64:
    """Return word `w` of a row with all members."""
    left = tables.members - 64 * w
    return ONES if left >= 64 else (_1 << np.uint64(left)) - _1


@inline_kernel
def row_count(tables: BitTables, register: int) -> int:
    """Return the number of rows of a table."""
    count = 1
    for _ in range(tables.counts[register] - 1):
        count *= tables.members
    return count


@inline_kernel
def word_count(tables: BitTables, register: int) -> int:
    """Return the number of words of a table."""
    return row_count(tables, register) * tables.row_words if tables.counts[register] > 0 else 1


@inline_kernel
def fill_table(tables: BitTables, register: int, truth: bool) -> None:
    """Set all bits of a table to true or false."""
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
    """Return the first word of the row of the members in `at`. The last axis does not matter."""
    row = 0
    for axis in range(tables.counts[register] - 1):
        row = row * tables.members + tables.at[tables.axes[register, axis]]
    return int(tables.offsets[register] + row * tables.row_words)


@inline_kernel
def set_tuple(tables: BitTables, register: int) -> None:
    """Set the bit of the members in `at`."""
    count = tables.counts[register]
    if count == 0:
        tables.words[tables.offsets[register]] = ONES
        return
    last = np.uint64(tables.at[tables.axes[register, count - 1]])
    tables.words[row_offset(tables, register) + np.int64(last >> np.uint64(6))] |= _1 << (last & _63)


@inline_kernel
def aligned_word(tables: BitTables, register: int, last: int, w: int) -> np.uint64:
    """Return word `w` along the variable `last` at the members in `at`; constant if the table has no such variable."""
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
    """Move `at` to the next row of a table, first axes slowest. Return False after the last row."""
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
def combine_words(one: np.uint64, other: np.uint64, op: int) -> np.uint64:
    """Combine two words by ∧, ∨ or ↔."""
    if op == AND:
        return one & other
    if op == OR:
        return one | other
    return ~(one ^ other)


@inline_kernel
def combine_tables(tables: BitTables, target: int, one: int, other: int, op: int) -> None:
    """Combine two tables by ∧, ∨ or ↔ into a table over the variables of both."""
    count = tables.counts[target]
    start = tables.offsets[target]
    if count == 0:
        tables.words[start] = combine_words(tables.words[tables.offsets[one]], tables.words[tables.offsets[other]], op)
        return
    if tables.counts[one] == count and tables.counts[other] == count:  # equal axes: combine word by word
        a, b = tables.offsets[one], tables.offsets[other]
        count = word_count(tables, target)
        if op == AND:
            for at in range(count):
                tables.words[start + at] = tables.words[a + at] & tables.words[b + at]
        elif op == OR:
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
    more = True
    while more:
        for w in range(tables.row_words):
            word = combine_words(aligned_word(tables, one, last, w), aligned_word(tables, other, last, w), op)
            tables.words[start + w] = word & full_word(tables, w)
        start += tables.row_words
        more = next_row(tables, target)


@inline_kernel
def negate_table(tables: BitTables, target: int, source: int) -> None:
    """Negate a table."""
    start, other = tables.offsets[target], tables.offsets[source]
    if tables.counts[target] == 0:
        tables.words[start] = ~tables.words[other]
        return
    if tables.row_words == 1:
        full = full_word(tables, 0)
        for at in range(word_count(tables, target)):
            tables.words[start + at] = ~tables.words[other + at] & full
        return
    for row in range(row_count(tables, target)):
        for w in range(tables.row_words):
            at = row * tables.row_words + w
            tables.words[start + at] = ~tables.words[other + at] & full_word(tables, w)


@inline_kernel
def quantify_table(tables: BitTables, target: int, source: int, variable: int, every: bool) -> None:
    """Eliminate a variable: true if the source is true for some member, or for every member."""
    fill_table(tables, target, every)
    count = tables.counts[source]
    if tables.axes[source, count - 1] == variable:
        _quantify_last(tables, target, source, every)
        return
    first_row(tables, source)
    start = tables.offsets[source]
    more = True
    while more:
        out = row_offset(tables, target)
        for w in range(tables.row_words):
            word = tables.words[start + w]
            tables.words[out + w] = tables.words[out + w] & word if every else tables.words[out + w] | word
        start += tables.row_words
        more = next_row(tables, source)


@inline_kernel
def _quantify_last(tables: BitTables, target: int, source: int, every: bool) -> None:
    """Eliminate the last variable: each row becomes one bit, and rows come in the order of the target's bits."""
    out, at = tables.offsets[target], tables.offsets[source]
    scalar = tables.counts[target] == 0
    if tables.row_words == 1 and tables.counts[target] < 2:
        full, word = full_word(tables, 0), NONE
        for row in range(row_count(tables, source)):
            true = tables.words[at + row] == full if every else tables.words[at + row] != NONE
            word |= np.uint64(true) << np.uint64(row)
        tables.words[out] = (ONES if word else NONE) if scalar else word
        return
    row, bit = out, 0
    for _ in range(row_count(tables, source)):
        some, all_set = False, True
        for w in range(tables.row_words):
            some = some or tables.words[at + w] != NONE
            all_set = all_set and tables.words[at + w] == full_word(tables, w)
        at += tables.row_words
        if scalar:
            tables.words[out] = ONES if (all_set if every else some) else NONE
        elif every and not all_set:
            tables.words[row + (bit >> 6)] &= ~(_1 << np.uint64(bit & 63))
        elif not every and some:
            tables.words[row + (bit >> 6)] |= _1 << np.uint64(bit & 63)
        bit += 1
        if bit == tables.members:
            row, bit = row + tables.row_words, 0


@inline_kernel
def count_tuples(tables: BitTables, register: int) -> int:
    """Count the set bits of a table."""
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
"""Instructions. Each is a row of `INSTRUCTION_WIDTH` numbers that begins with one of these."""
VARIABLE, TUPLE_OBJECT, CONSTANT = 0, 1, 2
"""Kinds of term: a variable, an object of the tuple, an object by its number (negative if unknown to the KB)."""
NO_FACTS = -1
"""In place of a relation: one without facts here."""


class Programs(NamedTuple):
    """All programs, one after another."""

    code: Ints
    """Shape (instructions, INSTRUCTION_WIDTH)."""
    starts: Longs
    """Shape (programs + 1,): the instructions of each program."""
    register_starts: Longs
    """Shape (programs + 1,): the registers of each program."""
    axes: Ints
    """Shape (registers, MAX_AXES)."""
    counts: Ints
    """Shape (registers,)."""
    terms: Ints
    """Shape (terms, 2): kind, and the number of the variable, position or object."""
    quantities: Ints
    """Shape (quantities, 3): an attribute and a term; or −1, the index of a number, and 0."""
    numbers: Floats
    arities: Ints
    """Shape (relations,)."""
    relations_of_arity: Ints
    """Shape (9,): the number of relations of each arity."""


class VmState(NamedTuple):
    """Registers and loop state of one thread."""

    words: Words
    offsets: Longs
    at: Ints
    slots: Ints
    """Shape (MAX_RELATION_VARIABLES,): the relation assigned to each relation variable."""
    loop_positions: Ints
    """Shape (MAX_RELATION_VARIABLES,): the position of each loop over relations."""
    results: Floats
    """Shape (MAX_RESULTS,)."""


@inline_kernel
def run_program(
    programs: Programs, p: int, view: NeighbourhoodView, local: LocalFacts, values: AttributeArrays, state: VmState
) -> float:
    """Return the value of program `p` in a neighbourhood; NaN if a number that it needs is missing."""
    first, end = programs.register_starts[p], programs.register_starts[p + 1]
    m = len(view.members)
    tables = BitTables(
        state.words, state.offsets, programs.axes[first:end], programs.counts[first:end], state.at, m, (m + 63) >> 6
    )
    offset = 0
    for register in range(end - first):
        state.offsets[register] = offset
        offset += word_count(tables, register)
    start, stop = programs.starts[p], programs.starts[p + 1]
    pc = start
    while pc < stop:
        code = programs.code[pc]
        op = code[0]
        if op == ATOM:
            _atom(tables, programs, code, view, local, state)
        elif op == BOTH or op == EITHER or op == IFF:
            combine_tables(tables, code[1], code[2], code[3], AND if op == BOTH else OR if op == EITHER else SAME)
        elif op == EXISTS or op == FORALL:
            quantify_table(tables, code[1], code[2], code[3], op == FORALL)
        elif op == COUNT:
            state.results[code[1]] = count_tuples(tables, code[2])
        elif op == NOT:
            negate_table(tables, code[1], code[2])
        elif op == TRUTH:
            fill_table(tables, code[1], code[2] == 1)
        elif op == EQUAL:
            _equal(tables, programs, code, view, local)
        elif op == COMPARE:
            _compare(tables, programs, code, view, local, values)
        elif op == LOOP:
            fill_table(tables, code[1], code[5] == 1)
            state.loop_positions[code[2]] = -1
            if not _next_relation(programs, code, local, state):
                pc = start + code[4]
        elif op == END_LOOP:
            loop = programs.code[start + code[1]]
            combine_tables(tables, loop[1], loop[1], code[2], AND if loop[5] == 1 else OR)
            if _next_relation(programs, loop, local, state):
                pc = start + code[1]
        else:
            _finish(tables, programs, code, view, local, values, state)
        pc += 1
    return float(state.results[0])


@inline_kernel
def _next_relation(programs: Programs, loop: Ints, local: LocalFacts, state: VmState) -> bool:
    """Assign the next relation of the right arity to a relation variable: those with facts, then one without facts."""
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
    """Return the member that an object of the tuple or a constant is, or −1."""
    if kind == TUPLE_OBJECT:
        return int(view.own[which])
    return int(local.member_index[which]) if which >= 0 else -1


@inline_kernel
def _atom(
    tables: BitTables, programs: Programs, code: Ints, view: NeighbourhoodView, local: LocalFacts, state: VmState
) -> None:
    """Fill the table of an atom. The code is (ATOM, target, relation or −1 − slot, first term, number of terms)."""
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
    """Fill the table of a binary atom, from its first fact on."""
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
    """Fill the table of an equality. The code is (EQUAL, target, first of two terms)."""
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
    """Return the number of an object; unknown constants have negative numbers of their own."""
    return int(view.members[view.own[which]]) if kind == TUPLE_OBJECT else which


@inner_kernel
def _quantity(
    programs: Programs, q: int, tables: BitTables, view: NeighbourhoodView, local: LocalFacts, values: AttributeArrays
) -> float:
    """Return a number, or the value of an attribute for the member in `at`; NaN if there is none."""
    attribute, kind, which = programs.quantities[q, 0], programs.quantities[q, 1], programs.quantities[q, 2]
    if attribute < 0:
        return float(programs.numbers[kind])
    member = tables.at[which] if kind == VARIABLE else _member(kind, which, view, local)
    if member < 0:
        return np.nan
    return find_value(values, int(attribute), int(view.members[member]), view.hidden)


@inner_kernel
def _compare(
    tables: BitTables,
    programs: Programs,
    code: Ints,
    view: NeighbourhoodView,
    local: LocalFacts,
    values: AttributeArrays,
) -> None:
    """Fill the table of a comparison. The code is (COMPARE, target, operator, first of two quantities)."""
    target, operator, q = code[1], code[2], code[3]
    fill_table(tables, target, False)
    count = tables.counts[target]
    first_row(tables, target)
    more = True
    while more:
        for member in range(tables.members if count > 0 else 1):
            if count > 0:
                tables.at[tables.axes[target, count - 1]] = member
            one = _quantity(programs, int(q), tables, view, local, values)
            other = _quantity(programs, q + 1, tables, view, local, values)
            if _comparison_holds(one, other, operator):
                set_tuple(tables, target)
        more = next_row(tables, target)


@inner_kernel
def _comparison_holds(one: float, other: float, operator: int) -> bool:
    """Compare by = ≠ < ≤ > ≥, in the order of `gaifman.logic.ast.OPERATORS`; false for a missing number."""
    if np.isnan(one) or np.isnan(other):
        return False
    if operator < 2:
        return (one == other) == (operator == 0)
    if operator < 4:
        return one < other or (operator == 3 and one == other)
    return one > other or (operator == 5 and one == other)


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
    """Write a result: of a quantity, an aggregate or a difference. The code is (instruction, result, …)."""
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
    """Aggregate over a table. The code is (AGGREGATE, result, table, kind as in `logic.ast.AGGREGATES`, quantity)."""
    source, kind, q = code[2], code[3], code[4]
    count = tables.counts[source]
    count_known, total, minimum, maximum = 0, 0.0, np.inf, -np.inf
    first_row(tables, source)
    more = True
    while more:
        start = row_offset(tables, source)
        for member in range(tables.members if count > 0 else 1):
            bit = np.uint64(member)
            word = tables.words[start + np.int64(bit >> np.uint64(6))]
            if (word >> (bit & _63)) & _1:
                if count > 0:
                    tables.at[tables.axes[source, count - 1]] = member
                number = _quantity(programs, int(q), tables, view, local, values)
                if not np.isnan(number):
                    count_known, total = count_known + 1, total + number
                    minimum, maximum = min(minimum, number), max(maximum, number)
        more = next_row(tables, source)
    if kind == 0:
        return float(count_known)
    if kind == 1:
        return total
    if count_known == 0:
        return np.nan
    return total / count_known if kind == 2 else minimum if kind == 3 else maximum

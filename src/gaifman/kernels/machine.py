"""One machine for any formula: a program of a few instructions over bit tables, run in each neighbourhood.

No formula is compiled to machine code: programs are rows of numbers, which `gaifman.plans` writes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gaifman.kernels.bittables import (
    AND,
    ONES,
    OR,
    SAME,
    BitTables,
    _1,
    _63,
    combine_tables,
    count_tuples,
    fill_table,
    first_row,
    negate_table,
    next_row,
    quantify_table,
    row_offset,
    set_tuple,
    word_count,
)
from gaifman.kernels.compiling import inline_kernel, inner_kernel
from gaifman.kernels.local import LocalFacts
from gaifman.kernels.sets import Ints, Longs, Words, binary_search

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
    """Numeric attributes, as `gaifman.tables.Values` has them."""

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


class MemberView(NamedTuple):
    """One neighbourhood."""

    members: Ints
    own: Ints
    """Shape (n,): the places of the tuple's objects among the members."""


@inline_kernel
def run_program(
    programs: Programs, p: int, view: MemberView, local: LocalFacts, values: AttributeArrays, state: VmState
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
def _member(kind: int, which: int, view: MemberView, local: LocalFacts) -> int:
    """The member that an object of the tuple or a constant is, −1 where it is none."""
    if kind == TUPLE_OBJECT:
        return int(view.own[which])
    return int(local.member_index[which]) if which >= 0 else -1


@inline_kernel
def _atom(
    tables: BitTables, programs: Programs, code: Ints, view: MemberView, local: LocalFacts, state: VmState
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
    tables: BitTables, programs: Programs, target: int, first: int, fact: int, view: MemberView, local: LocalFacts
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
def _equal(tables: BitTables, programs: Programs, code: Ints, view: MemberView, local: LocalFacts) -> None:
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
def _object(kind: int, which: int, view: MemberView) -> int:
    """The number of an object; unknown constants have negative ones of their own."""
    return int(view.members[view.own[which]]) if kind == TUPLE_OBJECT else which


@inner_kernel
def _quantity(
    programs: Programs, q: int, tables: BitTables, view: MemberView, local: LocalFacts, values: AttributeArrays
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
    tables: BitTables, programs: Programs, code: Ints, view: MemberView, local: LocalFacts, values: AttributeArrays
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
    """= ≠ < ≤ > ≥, in the order of `gaifman.formulas.OPERATORS`; false where a number is missing."""
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
    view: MemberView,
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
    tables: BitTables, programs: Programs, code: Ints, view: MemberView, local: LocalFacts, values: AttributeArrays
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

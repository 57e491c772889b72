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
    Sheet,
    _1,
    _63,
    begin,
    combine,
    fill,
    mark,
    negate,
    position,
    quantify,
    size,
    step,
    total,
)
from gaifman.kernels.compiling import inlined, inner
from gaifman.kernels.local import Local
from gaifman.kernels.sets import Ints, Longs, Words, place

AXES, VARIABLES, SLOTS, RESULTS, WIDTH = 6, 64, 8, 4, 8
(TRUTH, ATOM, EQUAL, COMPARE, NOT, BOTH, EITHER, IFF, EXISTS, FORALL, LOOP, AGAIN, COUNT, AGGREGATE, NUMBER, MINUS) = (
    range(16)
)
"""Instructions; each is a row of `WIDTH` numbers, the first of which is one of these."""
VARIABLE, OWN, CONSTANT = 0, 1, 2
"""Kinds of term: a variable, an object of the tuple, an object by its number (−1 where it is none of the KB's)."""
EMPTY = -1
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
    of_arity: Ints
    """Shape (9,): how many relations have so many places."""


class Values(NamedTuple):
    """Numeric attributes, as `gaifman.tables.Values` has them."""

    starts: Longs
    objects: Ints
    values: Floats


class Room(NamedTuple):
    """What one thread runs on."""

    words: Words
    offsets: Longs
    at: Ints
    slots: Ints
    """Shape (SLOTS,): the relation put for each relation variable."""
    turns: Ints
    """Shape (SLOTS,): how far each loop over relations is."""
    results: Floats
    """Shape (RESULTS,)."""


class Scene(NamedTuple):
    """One neighbourhood."""

    members: Ints
    own: Ints
    """Shape (n,): the places of the tuple's objects among the members."""


@inlined
def run(programs: Programs, p: int, scene: Scene, local: Local, values: Values, room: Room) -> float:
    """The value of program `p` in a neighbourhood; NaN where a number it needs is missing."""
    first, end = programs.register_starts[p], programs.register_starts[p + 1]
    m = len(scene.members)
    sheet = Sheet(
        room.words, room.offsets, programs.axes[first:end], programs.counts[first:end], room.at, m, (m + 63) >> 6
    )
    offset = 0
    for register in range(end - first):
        room.offsets[register] = offset
        offset += size(sheet, register)
    start, stop = programs.starts[p], programs.starts[p + 1]
    pc = start
    while pc < stop:
        code = programs.code[pc]
        op = code[0]
        if op == ATOM:
            _atom(sheet, programs, code, scene, local, room)
        elif op == BOTH or op == EITHER or op == IFF:
            combine(sheet, code[1], code[2], code[3], AND if op == BOTH else OR if op == EITHER else SAME)
        elif op == EXISTS or op == FORALL:
            quantify(sheet, code[1], code[2], code[3], op == FORALL)
        elif op == COUNT:
            room.results[code[1]] = total(sheet, code[2])
        elif op == NOT:
            negate(sheet, code[1], code[2])
        elif op == TRUTH:
            fill(sheet, code[1], code[2] == 1)
        elif op == EQUAL:
            _equal(sheet, programs, code, scene, local)
        elif op == COMPARE:
            _compare(sheet, programs, code, scene, local, values)
        elif op == LOOP:
            fill(sheet, code[1], code[5] == 1)
            room.turns[code[2]] = -1
            if not _turn(programs, code, local, room):
                pc = start + code[4]
        elif op == AGAIN:
            loop = programs.code[start + code[1]]
            combine(sheet, loop[1], loop[1], code[2], AND if loop[5] == 1 else OR)
            if _turn(programs, loop, local, room):
                pc = start + code[1]
        else:
            _finish(sheet, programs, code, scene, local, values, room)
        pc += 1
    return float(room.results[0])


@inlined
def _turn(programs: Programs, loop: Ints, local: Local, room: Room) -> bool:
    """Put the next relation of fitting arity for a relation variable: those present, then one that is empty here."""
    slot, arity = loop[2], loop[3]
    turn = room.turns[slot] + 1
    while turn < local.counts[1]:
        relation = local.present[turn]
        if arity < 0 or programs.arities[relation] == arity:
            room.turns[slot], room.slots[slot] = turn, relation
            return True
        turn += 1
    if turn > local.counts[1]:
        return False
    room.turns[slot], room.slots[slot] = turn, EMPTY
    present = 0
    for r in range(local.counts[1]):
        present += arity < 0 or programs.arities[local.present[r]] == arity
    return present < (len(programs.arities) if arity < 0 else programs.of_arity[arity])


@inlined
def _member(kind: int, which: int, scene: Scene, local: Local) -> int:
    """The member that an object of the tuple or a constant is, −1 where it is none."""
    if kind == OWN:
        return int(scene.own[which])
    return int(local.where[which]) if which >= 0 else -1


@inlined
def _atom(sheet: Sheet, programs: Programs, code: Ints, scene: Scene, local: Local, room: Room) -> None:
    """The table of an atom: code is (ATOM, target, relation or −1 − slot, first term, terms)."""
    target, relation, first, count = code[1], code[2], code[3], code[4]
    fill(sheet, target, False)
    if relation < 0:
        relation = room.slots[-1 - relation]
    fact = local.first[relation] if relation >= 0 else -1
    if count == 2 and fact >= 0:
        _pairs(sheet, programs, target, first, fact, scene, local)
        return
    while fact >= 0:
        for i in range(count):
            if programs.terms[first + i, 0] == VARIABLE:
                sheet.at[programs.terms[first + i, 1]] = -1
        fits = True
        for i in range(count):
            kind, which, member = programs.terms[first + i, 0], programs.terms[first + i, 1], local.places[fact, i]
            if kind != VARIABLE:
                fits = fits and _member(kind, which, scene, local) == member
            elif sheet.at[which] < 0:
                sheet.at[which] = member
            else:
                fits = fits and sheet.at[which] == member
        if fits:
            mark(sheet, target)
        fact = local.following[fact]


@inlined
def _pairs(sheet: Sheet, programs: Programs, target: int, first: int, fact: int, scene: Scene, local: Local) -> None:
    """The table of an atom of two places, from its first fact on."""
    kind, which, kind2, which2 = (
        programs.terms[first, 0],
        programs.terms[first, 1],
        programs.terms[first + 1, 0],
        programs.terms[first + 1, 1],
    )
    start, words = sheet.offsets[target], sheet.words
    one = -1 if kind == VARIABLE else _member(kind, which, scene, local)
    other = -1 if kind2 == VARIABLE else _member(kind2, which2, scene, local)
    while fact >= 0:
        left, right = local.places[fact, 0], local.places[fact, 1]
        fact = local.following[fact]
        if kind == VARIABLE and kind2 == VARIABLE:
            if which == which2:
                if left == right:
                    words[start + (left >> 6)] |= _1 << np.uint64(left & 63)
            elif which < which2:
                words[start + left * sheet.width + (right >> 6)] |= _1 << np.uint64(right & 63)
            else:
                words[start + right * sheet.width + (left >> 6)] |= _1 << np.uint64(left & 63)
        elif kind == VARIABLE:
            if right == other:
                words[start + (left >> 6)] |= _1 << np.uint64(left & 63)
        elif kind2 == VARIABLE:
            if left == one:
                words[start + (right >> 6)] |= _1 << np.uint64(right & 63)
        elif left == one and right == other:
            words[start] = ONES


@inner
def _equal(sheet: Sheet, programs: Programs, code: Ints, scene: Scene, local: Local) -> None:
    """The table of `left = right`: code is (EQUAL, target, first of two terms)."""
    target, first = code[1], code[2]
    kind, which = programs.terms[first, 0], programs.terms[first, 1]
    kind2, which2 = programs.terms[first + 1, 0], programs.terms[first + 1, 1]
    fill(sheet, target, False)
    if kind == VARIABLE and kind2 == VARIABLE:
        for member in range(sheet.members):
            sheet.at[which] = sheet.at[which2] = member
            mark(sheet, target)
    elif kind == VARIABLE or kind2 == VARIABLE:
        if kind == VARIABLE:
            variable, member = which, _member(kind2, which2, scene, local)
        else:
            variable, member = which2, _member(kind, which, scene, local)
        if member >= 0:
            sheet.at[variable] = member
            mark(sheet, target)
    elif _object(kind, which, scene) == _object(kind2, which2, scene):
        mark(sheet, target)


@inner
def _object(kind: int, which: int, scene: Scene) -> int:
    """The number of an object; unknown constants have negative ones of their own."""
    return int(scene.members[scene.own[which]]) if kind == OWN else which


@inner
def _quantity(programs: Programs, q: int, sheet: Sheet, scene: Scene, local: Local, values: Values) -> float:
    """A number, or the value of an attribute for the member in `at`; NaN where there is none."""
    attribute, kind, which = programs.quantities[q, 0], programs.quantities[q, 1], programs.quantities[q, 2]
    if attribute < 0:
        return float(programs.numbers[kind])
    member = sheet.at[which] if kind == VARIABLE else _member(kind, which, scene, local)
    if member < 0:
        return np.nan
    first, end = values.starts[attribute], values.starts[attribute + 1]
    at = place(values.objects, first, end, scene.members[member])
    return float(values.values[at]) if at >= 0 else np.nan


@inner
def _compare(sheet: Sheet, programs: Programs, code: Ints, scene: Scene, local: Local, values: Values) -> None:
    """The table of a comparison: code is (COMPARE, target, sign, first of two quantities)."""
    target, sign, q = code[1], code[2], code[3]
    fill(sheet, target, False)
    count = sheet.counts[target]
    begin(sheet, target)
    going = True
    while going:
        for member in range(sheet.members if count > 0 else 1):
            if count > 0:
                sheet.at[sheet.axes[target, count - 1]] = member
            one = _quantity(programs, int(q), sheet, scene, local, values)
            other = _quantity(programs, q + 1, sheet, scene, local, values)
            if _compares(one, other, sign):
                mark(sheet, target)
        going = step(sheet, target)


@inner
def _compares(one: float, other: float, sign: int) -> bool:
    """= ≠ < ≤ > ≥, in the order of `gaifman.formulas.OPERATORS`; false where a number is missing."""
    if np.isnan(one) or np.isnan(other):
        return False
    if sign < 2:
        return (one == other) == (sign == 0)
    if sign < 4:
        return one < other or (sign == 3 and one == other)
    return one > other or (sign == 5 and one == other)


@inner
def _finish(
    sheet: Sheet, programs: Programs, code: Ints, scene: Scene, local: Local, values: Values, room: Room
) -> None:
    """A table, or a number, into a result: code is (instruction, result, …)."""
    op, result = code[0], code[1]
    if op == NUMBER:
        room.results[result] = _quantity(programs, int(code[2]), sheet, scene, local, values)
    elif op == AGGREGATE:
        room.results[result] = _aggregate(sheet, programs, code, scene, local, values)
    else:
        room.results[result] = room.results[code[2]] - room.results[code[3]]


@inner
def _aggregate(sheet: Sheet, programs: Programs, code: Ints, scene: Scene, local: Local, values: Values) -> float:
    """Over the groundings in a table: code is (AGGREGATE, result, table, kind as in `KINDS`, quantity)."""
    source, kind, q = code[2], code[3], code[4]
    count = sheet.counts[source]
    known, added, least, greatest = 0, 0.0, np.inf, -np.inf
    begin(sheet, source)
    going = True
    while going:
        start = position(sheet, source)
        for member in range(sheet.members if count > 0 else 1):
            bit = np.uint64(member)
            word = sheet.words[start + np.int64(bit >> np.uint64(6))]
            if (word >> (bit & _63)) & _1:
                if count > 0:
                    sheet.at[sheet.axes[source, count - 1]] = member
                number = _quantity(programs, int(q), sheet, scene, local, values)
                if not np.isnan(number):
                    known, added = known + 1, added + number
                    least, greatest = min(least, number), max(greatest, number)
        going = step(sheet, source)
    if kind == 0:
        return float(known)
    if kind == 1:
        return added
    if known == 0:
        return np.nan
    return added / known if kind == 2 else least if kind == 3 else greatest

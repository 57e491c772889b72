"""The features that a pair has besides those of its objects by themselves, because the two touch."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gaifman.kernels.compiling import compiled, inlined, zero
from gaifman.kernels.families import COUNTS, FIXED, TWO, Families, follows, path_key
from gaifman.kernels.lists import meet_hashed
from gaifman.kernels.local import Incidence, Links, edge_of
from gaifman.kernels.paths import step
from gaifman.kernels.pools import Members
from gaifman.kernels.rows import Met, Reals, meet, meet_twins
from gaifman.kernels.sets import Bytes, Ints, Longs, Words, lowest, place
from gaifman.kernels.touching import FILLED, TOUCHING, Near, Question, reach_of

BOTH = 2
"""The side of a feature that speaks of both objects."""
_0, _1, _6, _63 = (np.uint64(n) for n in (0, 1, 6, 63))


class Rows(NamedTuple):
    """Features of objects by themselves."""

    starts: Longs
    ids: Ints
    values: Reals
    rows: Longs
    """Shape (any,): which rows are meant."""


class Sides(NamedTuple):
    """What there is to know of features, whoever the candidate is."""

    sides: Bytes
    """Shape (features,): the position of the object that a feature speaks of, or BOTH."""
    known: Words
    """Shape (levels, ⌈features / 64⌉): those that the object alone makes true, and those that nobody wants: `known`."""


class More(NamedTuple):
    """Features that pairs have besides those of their objects, pair after pair."""

    starts: Longs
    """Shape (pairs + 1,)."""
    ids: Ints
    before: Reals
    """What the value would be by one of the objects alone."""
    after: Reals


@inlined
def _label(links: Links, q: int, turned: bool) -> int:
    """A label of a bond, seen from where its edge ends if it is turned."""
    label = links.bond_labels[q]
    return int(links.turned[label]) if turned else int(label)


@inlined
def _steps(families: Families, links: Links, i: int, bond: int, turned: bool, other: int, met: Met) -> None:
    """Meet what is asked of one step from the i-th object."""
    more = turned or families.asks[COUNTS] or families.asks[FIXED]
    for q in range(links.bond_starts[bond], links.bond_starts[bond + 1]):
        if more:
            step(families, i, _label(links, q, turned), other, len(links.starts) - 1, met)
        elif families.bond_hop[i, q] >= 0:
            meet(met, families.bond_hop[i, q])


@inlined
def _paths(families: Families, links: Links, i: int, bond: int, other: int, turned: bool, met: Met) -> None:
    """Meet what is asked of two steps: along a bond of the i-th object, and one of the other, which may be turned."""
    labels = families.hop.shape[1]
    begin, end = (bond, other) if i == 0 else (other, bond)
    for q in range(links.bond_starts[begin], links.bond_starts[begin + 1]):
        first = _label(links, q, turned and i != 0)
        wanted = families.begins[0, 1, first]
        if wanted == _0:
            continue
        for s in range(links.bond_starts[end], links.bond_starts[end + 1]):
            second = _label(links, s, turned and i == 0)
            if wanted & follows(second):
                meet_hashed(families.path, path_key(1, first, second, labels), met)


@inlined
def _meet_between(
    families: Families, links: Links, facts: Incidence, question: Question, c: int, bond: int, met: Met
) -> None:
    """Meet what is there because the two are adjacent: facts between them, and paths over a fact of one with itself."""
    i = question.place
    for q in range(links.bond_starts[bond], links.bond_starts[bond + 1]):
        _meet_pair(families, links, i, 1 - i, _label(links, q, False), met)
        _meet_pair(families, links, 1 - i, i, _label(links, q, True), met)
    if families.joins[0, 1] & TWO:
        _meet_round(families, links, facts, question.one, i, bond, True, met)
        _meet_round(families, links, facts, c, 1 - i, bond, False, met)


@inlined
def _meet_pair(families: Families, links: Links, i: int, j: int, label: int, met: Met) -> None:
    if families.pair[i, j, label] >= 0:
        meet(met, families.pair[i, j, label])
    if families.linked[i, j] >= 0 and links.label_table[label, 1] == 0:
        meet(met, families.linked[i, j])


@inlined
def _meet_round(
    families: Families, links: Links, facts: Incidence, obj: int, i: int, bond: int, turned: bool, met: Met
) -> None:
    """Meet paths of two steps, one from the i-th object to itself, the other to it along a bond that may be turned."""
    labels = families.hop.shape[1]
    for p in range(facts.own_starts[obj], facts.own_starts[obj + 1]):
        fact = facts.own[p]
        if facts.starts[fact + 1] - facts.starts[fact] != 2:
            continue
        for place_ in range(2):
            own = links.bases[facts.relations[fact]] + place_
            for q in range(links.bond_starts[bond], links.bond_starts[bond + 1]):
                other = _label(links, q, turned)
                first, second = (own, other) if i == 0 else (other, own)
                if families.begins[0, 1, first] & follows(second):
                    meet_hashed(families.path, path_key(1, first, second, labels), met)


@inlined
def _meet_touching(
    families: Families, links: Links, facts: Incidence, question: Question, near: Near, c: int, met: Met
) -> None:
    """Meet what is there because the two are adjacent, or members of one are adjacent to the other."""
    own, others, one, place = question.own, question.others, question.one, question.place
    lengths = reach_of(links, question, near, c)
    near.pairs[0] += 1
    number, apart, edge = near.pairs[0], True, near.bonds[c]
    for slot in range(others.starts[c], others.starts[c + 1]):
        if others.levels[slot] > lengths.theirs:
            break
        y = others.members[slot]
        if y == one:
            apart = apart and others.levels[slot] > lengths.theirs_alone
            continue
        if others.levels[slot] > lengths.theirs_alone:
            _steps(families, links, 1 - place, others.bonds[slot], False, y, met)
        if near.marks[y] == 0:
            continue
        near.seen[y] = number
        bond = near.bonds[y]
        if bond >= 0 and near.levels[y] > lengths.own:
            _steps(families, links, place, bond, False, y, met)
            _paths(families, links, place, bond, others.bonds[slot], False, met)
    for at in range(near.starts[c], near.starts[c + 1]):
        slot, bond = near.reached[at, 0], near.reached[at, 1]
        if own.levels[slot] > lengths.own:
            break
        x = own.members[slot]
        if near.seen[x] != number:
            _steps(families, links, 1 - place, bond, True, x, met)
        _paths(families, links, place, own.bonds[slot], bond, True, met)
    if edge < 0:
        return
    for slot in range(own.starts[one], own.starts[one + 1]):
        if lengths.alone < own.levels[slot] <= lengths.own and own.members[slot] != c:
            _steps(families, links, place, own.bonds[slot], False, own.members[slot], met)
    if near.levels[c] > lengths.alone:
        _steps(families, links, place, edge, False, c, met)
    if apart:
        _steps(families, links, 1 - place, edge, True, one, met)
    _meet_between(families, links, facts, question, c, edge, met)


@inlined
def _meet_filled(
    families: Families, links: Links, question: Question, near: Near, c: int, members: Ints, edges: Ints, met: Met
) -> None:
    """Meet what is there because of members that are drawn in place of those counted twice."""
    place = question.place
    for at in range(len(members)):
        z = members[at]
        bond, edge = near.bonds[z], edges[at]
        if edge < links.starts[c] or edge >= links.starts[c + 1]:
            edge = edge_of(links, c, z)
        if bond >= 0:
            _steps(families, links, place, bond, False, z, met)
        if edge >= 0:
            _steps(families, links, 1 - place, links.bonds[edge], False, z, met)
        if bond >= 0 and edge >= 0:
            _paths(families, links, place, bond, links.bonds[edge], False, met)


@inlined
def _value(rows: Rows, i: int, feature: int) -> np.float32:
    """What a feature is in a row; 0 where it is not there."""
    row = rows.rows[i]
    entry = place(rows.ids, rows.starts[row], rows.starts[row + 1], feature)
    return rows.values[entry] if entry >= 0 else np.float32(0.0)


@compiled
def known(rows: Rows, wanted: Words, words: Words) -> None:
    """Of each row of the object, the bits of features that can change no more, being true already, or not wanted.

    `words` has the shape (rows, words of features); features that count are changed by whatever is met.
    """
    for i in range(len(rows.rows)):
        for w in range(len(wanted)):
            words[i, w] = ~wanted[w]
        for entry in range(rows.starts[rows.rows[i]], rows.starts[rows.rows[i] + 1]):
            bit = np.uint64(rows.ids[entry])
            words[i, bit >> _6] |= _1 << (bit & _63)


@inlined
def _poured(question: Question, c: int, sides: Sides, own: Rows, others: Rows, met: Met, more: More, at: int) -> int:
    """Put out what was met and is other than by one of the objects alone, and forget it; where the next entry is."""
    level = question.needed[c]
    for top in range(len(met.tops)):
        words = met.tops[top]
        met.tops[top] = _0
        while words != _0:
            w = (np.uint64(top) << _6) + np.uint64(lowest(words))
            words &= words - _1
            counts = met.counts[w]
            bits = met.bits[w] & (~sides.known[level, w] | counts)
            met.bits[w] = _0
            while bits != _0:
                bit = np.uint64(lowest(bits))
                bits &= bits - _1
                feature = int((w << _6) + bit)
                counted = counts >> bit & _1
                before, after = np.float32(0.0), np.float32(1.0)
                if sides.sides[feature] == 1 - question.place:
                    before = _value(others, c, feature)
                elif counted and sides.sides[feature] != BOTH:
                    before = _value(own, level, feature)
                if counted:
                    after = before + met.values[feature]
                    met.values[feature] = 0.0
                if after != before:
                    more.ids[at], more.before[at], more.after[at] = feature, before, after
                    at += 1
    return at


@compiled
def find_more(
    families: Families,
    links: Links,
    facts: Incidence,
    question: Question,
    near: Near,
    kinds: Bytes,
    filled_starts: Longs,
    filled: Members,
    sides: Sides,
    own: Rows,
    others: Rows,
    met: Met,
    more: More,
) -> int:
    """The further features of all pairs that touch; −1 where there is no room for them.

    `filled` are those by whom pairs are filled up, one such pair after another. Row i of `own` are the features by the
    object alone where the other needs i more than its share, row c of `others` those of the candidate alone.
    """
    at, pair, drawn = zero(), zero(), zero()
    more.starts[0] = 0
    for c in range(len(kinds)):
        if kinds[c] != TOUCHING and kinds[c] != FILLED:
            continue
        if at + len(met.values) > len(more.ids):
            return -1
        _meet_touching(families, links, facts, question, near, c, met)
        if kinds[c] == FILLED:
            first, last = filled_starts[drawn], filled_starts[drawn + 1]
            _meet_filled(families, links, question, near, c, filled.objects[first:last], filled.spots[first:last], met)
            drawn += 1
        meet_twins(met, families.twins)
        at = _poured(question, c, sides, own, others, met, more, at)
        pair += 1
        more.starts[pair] = at
    return at

"""The features that a pair has besides those of its objects by themselves, because the two touch."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gaifman.kernels.compiling import inline_kernel, kernel, zero
from gaifman.kernels.families import CONSTANTS, COUNTS, TWO_STEPS, TemplateIndex, label_bit, path_key
from gaifman.kernels.lists import set_hashed_features
from gaifman.kernels.local import FactArrays, LabelledGraph, find_edge
from gaifman.kernels.paths import match_step
from gaifman.kernels.pools import DrawnMembers
from gaifman.kernels.rows import Reals, RowBuffer, copy_duplicates, set_feature
from gaifman.kernels.sets import Bytes, Ints, Longs, Words, binary_search, lowest_bit
from gaifman.kernels.touching import FILLED, TOUCHING, CandidateQuery, TouchIndex, draw_lengths

BOTH_SIDES = 2
"""The side of a feature that speaks of both objects."""
_0, _1, _6, _63 = (np.uint64(n) for n in (0, 1, 6, 63))


class ObjectRows(NamedTuple):
    """Features of objects by themselves."""

    starts: Longs
    ids: Ints
    values: Reals
    rows: Longs
    """Shape (any,): which rows are meant."""


class FeatureSides(NamedTuple):
    """What there is to know of features, whoever the candidate is."""

    sides: Bytes
    """Shape (features,): the position of the object that a feature speaks of, or BOTH."""
    settled: Words
    """Shape (levels, ⌈features / 64⌉): those that the object alone makes true, and those that nobody wants: `mark_settled_features`."""


class PairFeatures(NamedTuple):
    """Features that pairs have besides those of their objects, pair after pair."""

    starts: Longs
    """Shape (pairs + 1,)."""
    ids: Ints
    before: Reals
    """What the value would be by one of the objects alone."""
    after: Reals


@inline_kernel
def _label(graph: LabelledGraph, q: int, turned: bool) -> int:
    """A label of a bond, seen from where its edge ends if it is turned."""
    label = graph.label_set_labels[q]
    return int(graph.reversed_labels[label]) if turned else int(label)


@inline_kernel
def _set_steps(
    templates: TemplateIndex, graph: LabelledGraph, i: int, bond: int, turned: bool, other: int, buffer: RowBuffer
) -> None:
    """Meet what is asked of one step from the i-th object."""
    more = turned or templates.needs[COUNTS] or templates.needs[CONSTANTS]
    for q in range(graph.label_set_starts[bond], graph.label_set_starts[bond + 1]):
        if more:
            match_step(templates, i, _label(graph, q, turned), other, len(graph.starts) - 1, buffer)
        elif templates.label_set_hop[i, q] >= 0:
            set_feature(buffer, templates.label_set_hop[i, q])


@inline_kernel
def _set_paths(
    templates: TemplateIndex, graph: LabelledGraph, i: int, bond: int, other: int, turned: bool, buffer: RowBuffer
) -> None:
    """Meet what is asked of two steps: along a bond of the i-th object, and one of the other, which may be turned."""
    labels = templates.hop.shape[1]
    begin, end = (bond, other) if i == 0 else (other, bond)
    for q in range(graph.label_set_starts[begin], graph.label_set_starts[begin + 1]):
        first = _label(graph, q, turned and i != 0)
        wanted = templates.path_next[0, 1, first]
        if wanted == _0:
            continue
        for s in range(graph.label_set_starts[end], graph.label_set_starts[end + 1]):
            second = _label(graph, s, turned and i == 0)
            if wanted & label_bit(second):
                set_hashed_features(templates.path, path_key(1, first, second, labels), buffer)


@inline_kernel
def _set_adjacent(
    templates: TemplateIndex,
    graph: LabelledGraph,
    facts: FactArrays,
    query: CandidateQuery,
    c: int,
    bond: int,
    buffer: RowBuffer,
) -> None:
    """Meet what is there because the two are adjacent: facts between them, and paths over a fact of one with itself."""
    i = query.position
    for q in range(graph.label_set_starts[bond], graph.label_set_starts[bond + 1]):
        _set_pair(templates, graph, i, 1 - i, _label(graph, q, False), buffer)
        _set_pair(templates, graph, 1 - i, i, _label(graph, q, True), buffer)
    if templates.path_lengths[0, 1] & TWO_STEPS:
        _set_loops(templates, graph, facts, query.fixed, i, bond, True, buffer)
        _set_loops(templates, graph, facts, c, 1 - i, bond, False, buffer)


@inline_kernel
def _set_pair(templates: TemplateIndex, graph: LabelledGraph, i: int, j: int, label: int, buffer: RowBuffer) -> None:
    if templates.pair[i, j, label] >= 0:
        set_feature(buffer, templates.pair[i, j, label])
    if templates.linked[i, j] >= 0 and graph.label_table[label, 1] == 0:
        set_feature(buffer, templates.linked[i, j])


@inline_kernel
def _set_loops(
    templates: TemplateIndex,
    graph: LabelledGraph,
    facts: FactArrays,
    obj: int,
    i: int,
    bond: int,
    turned: bool,
    buffer: RowBuffer,
) -> None:
    """Meet paths of two steps, one from the i-th object to itself, the other to it along a bond that may be turned."""
    labels = templates.hop.shape[1]
    for p in range(facts.own_starts[obj], facts.own_starts[obj + 1]):
        fact = facts.own[p]
        if facts.starts[fact + 1] - facts.starts[fact] != 2:
            continue
        for place_ in range(2):
            own = graph.first_labels[facts.relations[fact]] + place_
            for q in range(graph.label_set_starts[bond], graph.label_set_starts[bond + 1]):
                other = _label(graph, q, turned)
                first, second = (own, other) if i == 0 else (other, own)
                if templates.path_next[0, 1, first] & label_bit(second):
                    set_hashed_features(templates.path, path_key(1, first, second, labels), buffer)


@inline_kernel
def _set_touching(
    templates: TemplateIndex,
    graph: LabelledGraph,
    facts: FactArrays,
    query: CandidateQuery,
    index: TouchIndex,
    c: int,
    buffer: RowBuffer,
) -> None:
    """Meet what is there because the two are adjacent, or members of one are adjacent to the other."""
    own, others, one, place = query.own, query.others, query.fixed, query.position
    lengths = draw_lengths(graph, query, index, c)
    index.pairs[0] += 1
    number, apart, edge = index.pairs[0], True, index.label_sets[c]
    for slot in range(others.starts[c], others.starts[c + 1]):
        if others.levels[slot] > lengths.theirs:
            break
        y = others.members[slot]
        if y == one:
            apart = apart and others.levels[slot] > lengths.theirs_alone
            continue
        if others.levels[slot] > lengths.theirs_alone:
            _set_steps(templates, graph, 1 - place, others.label_sets[slot], False, y, buffer)
        if index.marks[y] == 0:
            continue
        index.last_seen[y] = number
        bond = index.label_sets[y]
        if bond >= 0 and index.levels[y] > lengths.own:
            _set_steps(templates, graph, place, bond, False, y, buffer)
            _set_paths(templates, graph, place, bond, others.label_sets[slot], False, buffer)
    for at in range(index.starts[c], index.starts[c + 1]):
        slot, bond = index.reached[at, 0], index.reached[at, 1]
        if own.levels[slot] > lengths.own:
            break
        x = own.members[slot]
        if index.last_seen[x] != number:
            _set_steps(templates, graph, 1 - place, bond, True, x, buffer)
        _set_paths(templates, graph, place, own.label_sets[slot], bond, True, buffer)
    if edge < 0:
        return
    for slot in range(own.starts[one], own.starts[one + 1]):
        if lengths.alone < own.levels[slot] <= lengths.own and own.members[slot] != c:
            _set_steps(templates, graph, place, own.label_sets[slot], False, own.members[slot], buffer)
    if index.levels[c] > lengths.alone:
        _set_steps(templates, graph, place, edge, False, c, buffer)
    if apart:
        _set_steps(templates, graph, 1 - place, edge, True, one, buffer)
    _set_adjacent(templates, graph, facts, query, c, edge, buffer)


@inline_kernel
def _set_filled(
    templates: TemplateIndex,
    graph: LabelledGraph,
    query: CandidateQuery,
    index: TouchIndex,
    c: int,
    members: Ints,
    edges: Ints,
    buffer: RowBuffer,
) -> None:
    """Meet what is there because of members that are drawn in place of those counted twice."""
    place = query.position
    for at in range(len(members)):
        z = members[at]
        bond, edge = index.label_sets[z], edges[at]
        if edge < graph.starts[c] or edge >= graph.starts[c + 1]:
            edge = find_edge(graph, c, z)
        if bond >= 0:
            _set_steps(templates, graph, place, bond, False, z, buffer)
        if edge >= 0:
            _set_steps(templates, graph, 1 - place, graph.label_sets[edge], False, z, buffer)
        if bond >= 0 and edge >= 0:
            _set_paths(templates, graph, place, bond, graph.label_sets[edge], False, buffer)


@inline_kernel
def _value(rows: ObjectRows, i: int, feature: int) -> np.float32:
    """What a feature is in a row; 0 where it is not there."""
    row = rows.rows[i]
    entry = binary_search(rows.ids, rows.starts[row], rows.starts[row + 1], feature)
    return rows.values[entry] if entry >= 0 else np.float32(0.0)


@kernel
def mark_settled_features(rows: ObjectRows, wanted: Words, words: Words) -> None:
    """Of each row of the object, the bits of features that can change no more, being true already, or not wanted.

    `words` has the shape (rows, words of features); features that count are changed by whatever is met.
    """
    for i in range(len(rows.rows)):
        for w in range(len(wanted)):
            words[i, w] = ~wanted[w]
        for entry in range(rows.starts[rows.rows[i]], rows.starts[rows.rows[i] + 1]):
            bit = np.uint64(rows.ids[entry])
            words[i, bit >> _6] |= _1 << (bit & _63)


@inline_kernel
def _flush(
    query: CandidateQuery,
    c: int,
    sides: FeatureSides,
    own: ObjectRows,
    others: ObjectRows,
    buffer: RowBuffer,
    pair_features: PairFeatures,
    at: int,
) -> int:
    """Put out what was met and is other than by one of the objects alone, and forget it; where the next entry is."""
    level = query.extra_size[c]
    for top in range(len(buffer.tops)):
        words = buffer.tops[top]
        buffer.tops[top] = _0
        while words != _0:
            w = (np.uint64(top) << _6) + np.uint64(lowest_bit(words))
            words &= words - _1
            counts = buffer.counts[w]
            bits = buffer.bits[w] & (~sides.settled[level, w] | counts)
            buffer.bits[w] = _0
            while bits != _0:
                bit = np.uint64(lowest_bit(bits))
                bits &= bits - _1
                feature = int((w << _6) + bit)
                counted = counts >> bit & _1
                before, after = np.float32(0.0), np.float32(1.0)
                if sides.sides[feature] == 1 - query.position:
                    before = _value(others, c, feature)
                elif counted and sides.sides[feature] != BOTH_SIDES:
                    before = _value(own, level, feature)
                if counted:
                    after = before + buffer.values[feature]
                    buffer.values[feature] = 0.0
                if after != before:
                    pair_features.ids[at], pair_features.before[at], pair_features.after[at] = feature, before, after
                    at += 1
    return at


@kernel
def collect_pair_features(
    templates: TemplateIndex,
    graph: LabelledGraph,
    facts: FactArrays,
    query: CandidateQuery,
    index: TouchIndex,
    kinds: Bytes,
    filled_starts: Longs,
    filled: DrawnMembers,
    sides: FeatureSides,
    own: ObjectRows,
    others: ObjectRows,
    buffer: RowBuffer,
    pair_features: PairFeatures,
) -> int:
    """The further features of all pairs that touch; −1 where there is no room for them.

    `filled` are those by whom pairs are filled up, one such pair after another. Row i of `own` are the features by the
    object alone where the other needs i more than its share, row c of `others` those of the candidate alone.
    """
    at, pair, drawn = zero(), zero(), zero()
    pair_features.starts[0] = 0
    for c in range(len(kinds)):
        if kinds[c] != TOUCHING and kinds[c] != FILLED:
            continue
        if at + len(buffer.values) > len(pair_features.ids):
            return -1
        _set_touching(templates, graph, facts, query, index, c, buffer)
        if kinds[c] == FILLED:
            first, last = filled_starts[drawn], filled_starts[drawn + 1]
            _set_filled(
                templates, graph, query, index, c, filled.objects[first:last], filled.source_indices[first:last], buffer
            )
            drawn += 1
        copy_duplicates(buffer, templates.duplicates)
        at = _flush(query, c, sides, own, others, buffer, pair_features, at)
        pair += 1
        pair_features.starts[pair] = at
    return at

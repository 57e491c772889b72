"""All pairs of one fixed object with a candidate: which pairs touch, and which features that adds.

A pair touches if its objects are adjacent, or if a member drawn around one of them is adjacent to the other. The
neighbourhood of a pair is the union of the neighbourhoods of its objects; its features are those of each object alone,
and more if the pair touches.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gaifman.kernels.collections import Bytes, Ints, Longs, Words, add_to_set, binary_search, clear_set, lowest_bit
from gaifman.kernels.graph import LabelledGraph, find_edge
from gaifman.kernels.jit import inline_kernel, kernel, zero
from gaifman.kernels.local_facts import FactArrays
from gaifman.kernels.paths import match_step
from gaifman.kernels.rows import Reals, RowBuffer, copy_duplicates, set_feature
from gaifman.kernels.sampling import DrawnMembers, DrawPlan, Scratch, TupleBatch, fill_neighbourhood
from gaifman.kernels.templates import (
    CONSTANTS,
    COUNTS,
    TWO_STEPS,
    TemplateIndex,
    label_bit,
    path_key,
    set_hashed_features,
)

SEPARATE, TOUCHING, FILLED, FULL_PATH = range(4)
"""Kinds of pair: not touching; touching; with fillers, because members are shared or the size is odd; and pairs that
are evaluated in full: equal objects, or features that do not decompose.
"""
NO_LEVEL = 1 << 30
ADJACENT, EARLY, LATE = np.uint8(1), np.uint8(2), np.uint8(4)
"""Marks of objects: adjacent to the fixed object; a member of all its draws; a member of longer draws only."""


class DrawOrder(NamedTuple):
    """The members of each object, by the length of the draw that they need."""

    starts: Longs
    """Shape (objects + 1,)."""
    members: Ints
    """Shape (any,): members of each object, by level."""
    label_sets: Ints
    """Shape (any,): the label set between the object and the member; see `LabelledGraph.label_sets`."""
    levels: Ints
    """Shape (any,): how much longer than its quota the draw must be."""


class TouchIndex(NamedTuple):
    """Buffers of one thread for one fixed object."""

    marks: Bytes
    """Shape (objects,): marks of each object, small enough to stay in the cache; 0 between two fixed objects."""
    label_sets: Ints
    """Shape (objects,): the label set of each neighbour of the fixed object; −1 elsewhere."""
    levels: Ints
    """Shape (objects,): the level of each member; `NO_LEVEL` elsewhere."""
    starts: Longs
    """Shape (objects + 1,): rows of `reached` for each candidate."""
    reached: Ints
    """Shape (any, 2): the index in the draw order of a member that is adjacent to the candidate, and the label set."""
    last_seen: Longs
    """Shape (objects,): the number of the last pair in which an object was seen."""
    pairs: Longs
    """Shape (1,): the number of pairs so far."""


class CandidateQuery(NamedTuple):
    """The fixed object, its position, and the draws of both sides."""

    fixed: int
    position: int
    own: DrawOrder
    others: DrawOrder
    extra_size: Ints
    """Shape (objects,): how much longer than its quota the draw of an object's partner is."""
    size: int
    """k; −1 for all."""


class DrawLengths(NamedTuple):
    """The lengths of the draws of a pair, as levels: as if the objects were not adjacent, and in the pair.

    Adjacent objects are not drawn for each other. Each leaves one more member to the other's draw, and the next object
    takes its place in the other's order.
    """

    alone: int
    """Of the fixed object, as if not adjacent."""
    own: int
    theirs_alone: int
    """Of the candidate, as if not adjacent."""
    theirs: int


@kernel
def mark_neighbourhood(graph: LabelledGraph, query: CandidateQuery, index: TouchIndex) -> int:
    """Mark the neighbours and members of the fixed object, and the objects adjacent to them.

    Return the rows of `reached` needed.
    """
    one, own, starts = query.fixed, query.own, index.starts
    for edge in range(graph.starts[one], graph.starts[one + 1]):
        index.label_sets[graph.neighbours[edge]] = graph.label_sets[edge]
        index.marks[graph.neighbours[edge]] = ADJACENT
    for c in range(len(starts)):
        starts[c] = 0
    for slot in range(own.starts[one], own.starts[one + 1]):
        x = own.members[slot]
        index.levels[x] = own.levels[slot]
        index.marks[x] |= EARLY if own.levels[slot] == 0 else LATE
        for edge in range(graph.starts[x], graph.starts[x + 1]):
            starts[graph.neighbours[edge]] += 1
    total = zero()
    for c in range(len(starts)):
        total += starts[c]
        starts[c] = total
    if total > len(index.reached):
        return total
    # Backwards, so that each candidate begins with its lowest level.
    for back in range(own.starts[one + 1] - own.starts[one]):
        slot = own.starts[one + 1] - 1 - back
        x = own.members[slot]
        for edge in range(graph.starts[x], graph.starts[x + 1]):
            c = graph.neighbours[edge]
            starts[c] -= 1
            index.reached[starts[c], 0], index.reached[starts[c], 1] = slot, graph.label_sets[edge]
    return total


@kernel
def unmark_neighbourhood(graph: LabelledGraph, query: CandidateQuery, index: TouchIndex) -> None:
    """Undo `mark_neighbourhood`."""
    one, own = query.fixed, query.own
    for edge in range(graph.starts[one], graph.starts[one + 1]):
        index.label_sets[graph.neighbours[edge]] = -1
        index.marks[graph.neighbours[edge]] = 0
    for slot in range(own.starts[one], own.starts[one + 1]):
        index.levels[own.members[slot]] = NO_LEVEL
        index.marks[own.members[slot]] = 0


@inline_kernel
def _touch_level(query: CandidateQuery, index: TouchIndex, c: int) -> int:
    """Return the lowest level of a member that is adjacent to candidate c, or `NO_LEVEL`."""
    if index.starts[c] == index.starts[c + 1]:
        return NO_LEVEL
    return int(query.own.levels[index.reached[index.starts[c], 0]])


@inline_kernel
def draw_lengths(graph: LabelledGraph, query: CandidateQuery, index: TouchIndex, c: int) -> DrawLengths:
    """Return the lengths of the draws of the fixed object and candidate c."""
    alone, theirs_alone = int(query.extra_size[c]), int(query.extra_size[query.fixed])
    own, theirs = alone, theirs_alone
    if index.label_sets[c] >= 0:
        quota, others, fixed_level = max(query.size, 0) >> 1, query.others, zero() + NO_LEVEL
        for slot in range(others.starts[c], others.starts[c + 1]):
            if others.members[slot] == query.fixed:
                fixed_level = int(others.levels[slot])
        own = max(quota + 1 - int(graph.starts[c + 1] - graph.starts[c]), 0)
        own += int(index.levels[c] <= own + 1)
        theirs = max(quota + 1 - int(graph.starts[query.fixed + 1] - graph.starts[query.fixed]), 0)
        theirs += int(fixed_level <= theirs + 1)
    return DrawLengths(alone, own, theirs_alone, theirs)


@inline_kernel
def _shares_member(query: CandidateQuery, index: TouchIndex, c: int, lengths: DrawLengths) -> bool:
    """Return whether the two draws share a member."""
    others = query.others
    for slot in range(others.starts[c], others.starts[c + 1]):
        if others.levels[slot] > lengths.theirs:
            return False
        if index.levels[others.members[slot]] <= lengths.own:
            return True
    return False


@kernel
def classify_candidates(
    graph: LabelledGraph, query: CandidateQuery, index: TouchIndex, decomposable: bool, uses_walks: bool, kinds: Bytes
) -> int:
    """Write the kind of each candidate's pair. Return the number of pairs with fillers.

    Touching pairs are evaluated in full if the features do not decompose. If features use walks, so are pairs whose
    members are adjacent to each other.
    """
    others, filled, odd_size = query.others, zero(), query.size > 0 and query.size & 1 == 1
    degree = graph.starts[query.fixed + 1] - graph.starts[query.fixed]
    for c in range(len(kinds)):
        lengths, marks = draw_lengths(graph, query, index, c), np.uint8(0)
        touches = index.label_sets[c] >= 0 or _touch_level(query, index, c) <= lengths.own
        for slot in range(others.starts[c], others.starts[c + 1]):
            if others.levels[slot] > lengths.theirs:
                break
            marks |= index.marks[others.members[slot]]
            if uses_walks:
                touches |= _touch_level(query, index, others.members[slot]) <= lengths.own
        touches |= marks & ADJACENT != 0
        shared = (marks & EARLY != 0 or marks & LATE != 0) and _shares_member(query, index, c, lengths)
        unbounded = query.size < 0 or degree + graph.starts[c + 1] - graph.starts[c] <= query.size
        has_fillers = odd_size or (shared and not unbounded)
        if c == query.fixed or ((touches or has_fillers) and not decomposable):
            kinds[c] = FULL_PATH
        elif has_fillers:
            kinds[c] = FILLED
            filled += 1
        else:
            kinds[c] = TOUCHING if touches else SEPARATE
    return filled


@kernel
def draw_fillers(
    graph: LabelledGraph,
    index: TouchIndex,
    batch: TupleBatch,
    plan: DrawPlan,
    scratch: Scratch,
    draw: int,
    query: CandidateQuery,
    members: DrawnMembers,
    ends: Longs,
) -> int:
    """Draw the members of pairs (b, 2) beyond their quotas, pair by pair. Return their number."""
    at = zero()
    own, others, fixed = query.own, query.others, query.fixed
    for t in range(len(batch.tuples)):
        c = batch.tuples[t, 1 - query.position]
        lengths = draw_lengths(graph, query, index, c)
        last, missing = clear_set(scratch.table, plan.size), plan.size
        for slot in range(own.starts[fixed], own.starts[fixed + 1]):
            if own.levels[slot] <= lengths.own and own.members[slot] != c:
                missing -= add_to_set(scratch.table, last, own.members[slot])
        for slot in range(others.starts[c], others.starts[c + 1]):
            if others.levels[slot] <= lengths.theirs and others.members[slot] != fixed:
                missing -= add_to_set(scratch.table, last, others.members[slot])
        total = batch.row_lengths[t, 0] + batch.row_lengths[t, 1]
        at, _ = fill_neighbourhood(batch, plan, scratch, t, draw, missing, total, last, zero() - 1, members, at)
        ends[t] = at
    return at


BOTH_SIDES = 2
"""Side of a feature that concerns both objects."""
_0, _1, _6, _63 = (np.uint64(n) for n in (0, 1, 6, 63))


class ObjectRows(NamedTuple):
    """Features of objects alone."""

    starts: Longs
    ids: Ints
    values: Reals
    rows: Longs
    """Shape (any,): the selected rows."""


class FeatureSides(NamedTuple):
    """Properties of the features that do not depend on the candidate."""

    sides: Bytes
    """Shape (features,): the position of the object that a feature concerns, or `BOTH_SIDES`."""
    settled: Words
    """Shape (levels, ⌈features / 64⌉): features that the fixed object alone makes true, and unused ones."""


class PairFeatures(NamedTuple):
    """Features of pairs that change, pair by pair."""

    starts: Longs
    """Shape (pairs + 1,)."""
    ids: Ints
    before: Reals
    """The value from one of the objects alone."""
    after: Reals


@inline_kernel
def _label(graph: LabelledGraph, q: int, turned: bool) -> int:
    """Return a label of a label set, reversed if `turned`."""
    label = graph.label_set_labels[q]
    return int(graph.reversed_labels[label]) if turned else int(label)


@inline_kernel
def _set_steps(
    templates: TemplateIndex, graph: LabelledGraph, i: int, label_set: int, turned: bool, other: int, buffer: RowBuffer
) -> None:
    """Set the features of one step from the i-th object along a label set."""
    by_label = turned or templates.needs[COUNTS] or templates.needs[CONSTANTS]
    for q in range(graph.label_set_starts[label_set], graph.label_set_starts[label_set + 1]):
        if by_label:
            match_step(templates, i, _label(graph, q, turned), other, len(graph.starts) - 1, buffer)
        elif templates.label_set_hop[i, q] >= 0:
            set_feature(buffer, templates.label_set_hop[i, q])


@inline_kernel
def _set_paths(
    templates: TemplateIndex, graph: LabelledGraph, i: int, label_set: int, other: int, turned: bool, buffer: RowBuffer
) -> None:
    """Set the features of two steps: along a label set of the i-th object, and one of the other object."""
    labels = templates.hop.shape[1]
    begin, end = (label_set, other) if i == 0 else (other, label_set)
    for q in range(graph.label_set_starts[begin], graph.label_set_starts[begin + 1]):
        first = _label(graph, q, turned and i != 0)
        next_bits = templates.path_next[0, 1, first]
        if next_bits == _0:
            continue
        for s in range(graph.label_set_starts[end], graph.label_set_starts[end + 1]):
            second = _label(graph, s, turned and i == 0)
            if next_bits & label_bit(second):
                set_hashed_features(templates.path, path_key(1, first, second, labels), buffer)


@inline_kernel
def _set_adjacent(
    templates: TemplateIndex,
    graph: LabelledGraph,
    facts: FactArrays,
    query: CandidateQuery,
    c: int,
    label_set: int,
    buffer: RowBuffer,
) -> None:
    """Set the features of adjacent objects: facts between them, and paths over a fact r(a, a) of one of them."""
    i = query.position
    for q in range(graph.label_set_starts[label_set], graph.label_set_starts[label_set + 1]):
        _set_pair(templates, graph, i, 1 - i, _label(graph, q, False), buffer)
        _set_pair(templates, graph, 1 - i, i, _label(graph, q, True), buffer)
    if templates.path_lengths[0, 1] & TWO_STEPS:
        _set_loops(templates, graph, facts, query.fixed, i, label_set, True, buffer)
        _set_loops(templates, graph, facts, c, 1 - i, label_set, False, buffer)


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
    label_set: int,
    turned: bool,
    buffer: RowBuffer,
) -> None:
    """Set the features of paths over a fact r(a, a) of the i-th object and a label set to the other."""
    labels = templates.hop.shape[1]
    for p in range(facts.own_starts[obj], facts.own_starts[obj + 1]):
        fact = facts.own[p]
        if facts.starts[fact + 1] - facts.starts[fact] != 2:
            continue
        for position in range(2):
            own = graph.first_labels[facts.relations[fact]] + position
            for q in range(graph.label_set_starts[label_set], graph.label_set_starts[label_set + 1]):
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
    """Set the features of a touching pair: adjacent objects, or members of one adjacent to the other."""
    own, others, fixed, position = query.own, query.others, query.fixed, query.position
    lengths = draw_lengths(graph, query, index, c)
    index.pairs[0] += 1
    number, unseen, edge = index.pairs[0], True, index.label_sets[c]
    for slot in range(others.starts[c], others.starts[c + 1]):
        if others.levels[slot] > lengths.theirs:
            break
        y = others.members[slot]
        if y == fixed:
            unseen = unseen and others.levels[slot] > lengths.theirs_alone
            continue
        if others.levels[slot] > lengths.theirs_alone:
            _set_steps(templates, graph, 1 - position, others.label_sets[slot], False, y, buffer)
        if index.marks[y] == 0:
            continue
        index.last_seen[y] = number
        label_set = index.label_sets[y]
        if label_set >= 0 and index.levels[y] > lengths.own:
            _set_steps(templates, graph, position, label_set, False, y, buffer)
            _set_paths(templates, graph, position, label_set, others.label_sets[slot], False, buffer)
    for at in range(index.starts[c], index.starts[c + 1]):
        slot, label_set = index.reached[at, 0], index.reached[at, 1]
        if own.levels[slot] > lengths.own:
            break
        x = own.members[slot]
        if index.last_seen[x] != number:
            _set_steps(templates, graph, 1 - position, label_set, True, x, buffer)
        _set_paths(templates, graph, position, own.label_sets[slot], label_set, True, buffer)
    if edge < 0:
        return
    for slot in range(own.starts[fixed], own.starts[fixed + 1]):
        if lengths.alone < own.levels[slot] <= lengths.own and own.members[slot] != c:
            _set_steps(templates, graph, position, own.label_sets[slot], False, own.members[slot], buffer)
    if index.levels[c] > lengths.alone:
        _set_steps(templates, graph, position, edge, False, c, buffer)
    if unseen:
        _set_steps(templates, graph, 1 - position, edge, True, fixed, buffer)
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
    """Set the features of the members that fill up a pair."""
    position = query.position
    for at in range(len(members)):
        z = members[at]
        label_set, edge = index.label_sets[z], edges[at]
        if edge < graph.starts[c] or edge >= graph.starts[c + 1]:
            edge = find_edge(graph, c, z)
        if label_set >= 0:
            _set_steps(templates, graph, position, label_set, False, z, buffer)
        if edge >= 0:
            _set_steps(templates, graph, 1 - position, graph.label_sets[edge], False, z, buffer)
        if label_set >= 0 and edge >= 0:
            _set_paths(templates, graph, position, label_set, graph.label_sets[edge], False, buffer)


@inline_kernel
def _value(rows: ObjectRows, i: int, feature: int) -> np.float32:
    """Return the value of a feature in row i, 0 if absent."""
    row = rows.rows[i]
    entry = binary_search(rows.ids, rows.starts[row], rows.starts[row + 1], feature)
    return rows.values[entry] if entry >= 0 else np.float32(0.0)


@kernel
def mark_settled_features(rows: ObjectRows, used: Words, words: Words) -> None:
    """Write for each row of the fixed object the bits of features that are already true or not used.

    `words` has shape (rows, words of features). Counting features are never settled.
    """
    for i in range(len(rows.rows)):
        for w in range(len(used)):
            words[i, w] = ~used[w]
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
    """Write the features of the pair that differ from those of one object alone, and clear the buffer.

    Return the next entry.
    """
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
    """Write the changed features of all pairs that touch. Return the number of entries, −1 if full.

    `filled` holds the fillers, pair by pair. Row i of `own` has the features of the fixed object alone if its partner's
    draw is i longer; row c of `others` has those of candidate c alone.
    """
    at, pair, filled_pair = zero(), zero(), zero()
    pair_features.starts[0] = 0
    for c in range(len(kinds)):
        if kinds[c] != TOUCHING and kinds[c] != FILLED:
            continue
        if at + len(buffer.values) > len(pair_features.ids):
            return -1
        _set_touching(templates, graph, facts, query, index, c, buffer)
        if kinds[c] == FILLED:
            first, last = filled_starts[filled_pair], filled_starts[filled_pair + 1]
            _set_filled(
                templates, graph, query, index, c, filled.objects[first:last], filled.source_indices[first:last], buffer
            )
            filled_pair += 1
        copy_duplicates(buffer, templates.duplicates)
        at = _flush(query, c, sides, own, others, buffer, pair_features, at)
        pair += 1
        pair_features.starts[pair] = at
    return at

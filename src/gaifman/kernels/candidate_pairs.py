"""One object and all candidates for the other place: who touches it, and who else is drawn besides both shares.

A pair *touches* where the two are adjacent, or a member drawn around one of them is adjacent to the other. Its
neighbourhood is then that of each by itself put together, and its features are those of each by itself, and some more:
see `further`.
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
"""Kinds of pairs: that do not touch; that do; for which others are drawn besides their shares, because members are
counted twice or the size is odd; and pairs of one object, or whose features are not put together here."""
NO_LEVEL = 1 << 30
ADJACENT, EARLY, LATE = np.uint8(1), np.uint8(2), np.uint8(4)
"""Marks of objects: adjacent to the object; a member of its draws of every length; only of longer ones."""


class DrawOrder(NamedTuple):
    """Who is drawn around each object, by how long the draw must be for them."""

    starts: Longs
    """Shape (objects + 1,)."""
    members: Ints
    """Shape (any,): for each object by level."""
    label_sets: Ints
    """Shape (any,): the list of labels between the object and the member: see `LabelledGraph.bonds`."""
    levels: Ints
    """Shape (any,): how much longer than its share the draw must be."""


class TouchIndex(NamedTuple):
    """What one thread notes of one object."""

    marks: Bytes
    """Shape (objects,): what each is to it, all in so few bytes that they are near at hand; 0 between two objects."""
    label_sets: Ints
    """Shape (objects,): the bond with each of its neighbours; −1 elsewhere, and everywhere between two objects."""
    levels: Ints
    """Shape (objects,): those of its members; FAR elsewhere, and everywhere between two objects."""
    starts: Longs
    """Shape (objects + 1,): the rows of `reached` for each candidate."""
    reached: Ints
    """Shape (any, 2): a place in the order, of a member that is adjacent to the candidate, and the bond from there."""
    last_seen: Longs
    """Shape (objects,): the number of the pair in which an object was last seen."""
    pairs: Longs
    """Shape (1,): how many pairs there were."""


class CandidateQuery(NamedTuple):
    """One object, whose place among the two it stands at, and how the draws of both sides go."""

    fixed: int
    position: int
    own: DrawOrder
    others: DrawOrder
    extra_size: Ints
    """Shape (objects,): how much longer than its share the draw around whoever stands beside an object is."""
    size: int
    """k; −1 for all."""


class DrawLengths(NamedTuple):
    """How long the draws of a pair are, in levels: by itself, as if the two were not adjacent, and in the pair.

    Of two that are adjacent neither is drawn for the other: each leaves one place more to the other's share, and where
    it stands in the other's order, the next one comes in its place.
    """

    alone: int
    """Of the object's draw."""
    own: int
    theirs_alone: int
    """Of the candidate's."""
    theirs: int


@kernel
def mark_neighbourhood(graph: LabelledGraph, query: CandidateQuery, index: TouchIndex) -> int:
    """Note the neighbours of the object, its members, and who is adjacent to them. How many rows `reached` needs."""
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
    for back in range(own.starts[one + 1] - own.starts[one]):  # from the last: each then begins with its lowest level
        slot = own.starts[one + 1] - 1 - back
        x = own.members[slot]
        for edge in range(graph.starts[x], graph.starts[x + 1]):
            c = graph.neighbours[edge]
            starts[c] -= 1
            index.reached[starts[c], 0], index.reached[starts[c], 1] = slot, graph.label_sets[edge]
    return total


@kernel
def unmark_neighbourhood(graph: LabelledGraph, query: CandidateQuery, index: TouchIndex) -> None:
    """Undo what `mark_neighbourhood` has noted."""
    one, own = query.fixed, query.own
    for edge in range(graph.starts[one], graph.starts[one + 1]):
        index.label_sets[graph.neighbours[edge]] = -1
        index.marks[graph.neighbours[edge]] = 0
    for slot in range(own.starts[one], own.starts[one + 1]):
        index.levels[own.members[slot]] = NO_LEVEL
        index.marks[own.members[slot]] = 0


@inline_kernel
def _touch_level(query: CandidateQuery, index: TouchIndex, c: int) -> int:
    """The level from which on a member of the object is adjacent to another one; FAR where none is."""
    if index.starts[c] == index.starts[c + 1]:
        return NO_LEVEL
    return int(query.own.levels[index.reached[index.starts[c], 0]])


@inline_kernel
def draw_lengths(graph: LabelledGraph, query: CandidateQuery, index: TouchIndex, c: int) -> DrawLengths:
    """How long the draws of the object and a candidate are."""
    alone, theirs_alone = int(query.extra_size[c]), int(query.extra_size[query.fixed])
    own, theirs = alone, theirs_alone
    if index.label_sets[c] >= 0:
        quota, others, place = max(query.size, 0) >> 1, query.others, zero() + NO_LEVEL
        for slot in range(others.starts[c], others.starts[c + 1]):
            if others.members[slot] == query.fixed:
                place = int(others.levels[slot])
        own = max(quota + 1 - int(graph.starts[c + 1] - graph.starts[c]), 0)
        own += int(index.levels[c] <= own + 1)
        theirs = max(quota + 1 - int(graph.starts[query.fixed + 1] - graph.starts[query.fixed]), 0)
        theirs += int(place <= theirs + 1)
    return DrawLengths(alone, own, theirs_alone, theirs)


@inline_kernel
def _shares_member(query: CandidateQuery, index: TouchIndex, c: int, lengths: DrawLengths) -> bool:
    """Whether a member of the object is one of another one's too."""
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
    """Which kind each candidate is of; how many are filled up.

    Unless features are simple, pairs that touch are left to the plain path. Where they reach far, over two members,
    so are pairs with members that are adjacent to each other.
    """
    others, filled, odd = query.others, zero(), query.size > 0 and query.size & 1 == 1
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
        whole = query.size < 0 or degree + graph.starts[c + 1] - graph.starts[c] <= query.size
        more = odd or (shared and not whole)
        if c == query.fixed or ((touches or more) and not decomposable):
            kinds[c] = FULL_PATH
        elif more:
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
    """Who else is drawn for pairs (b, 2) of the object besides their shares: those alone, pair after pair; how many."""
    at = zero()
    own, others, one = query.own, query.others, query.fixed
    for t in range(len(batch.tuples)):
        c = batch.tuples[t, 1 - query.position]
        lengths = draw_lengths(graph, query, index, c)
        last, wanted = clear_set(scratch.table, plan.size), plan.size
        for slot in range(own.starts[one], own.starts[one + 1]):
            if own.levels[slot] <= lengths.own and own.members[slot] != c:
                wanted -= add_to_set(scratch.table, last, own.members[slot])
        for slot in range(others.starts[c], others.starts[c + 1]):
            if others.levels[slot] <= lengths.theirs and others.members[slot] != one:
                wanted -= add_to_set(scratch.table, last, others.members[slot])
        total = batch.row_lengths[t, 0] + batch.row_lengths[t, 1]
        at, _ = fill_neighbourhood(batch, plan, scratch, t, draw, wanted, total, last, zero() - 1, members, at)
        ends[t] = at
    return at


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

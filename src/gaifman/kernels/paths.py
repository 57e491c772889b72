"""Match the templates of one neighbourhood.

Atoms of three or more positions, walks of three steps, single steps, and paths of two steps.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gaifman.kernels.collections import Ints, Longs, Words, binary_search
from gaifman.kernels.graph import LabelledGraph, find_edge, find_edge_in_row, may_be_adjacent
from gaifman.kernels.jit import ONE, ZERO, inline_kernel, inner_kernel
from gaifman.kernels.local_facts import NO_KEY, FactArrays, NeighbourhoodView, is_visible
from gaifman.kernels.rows import RowBuffer, increment_feature, set_feature
from gaifman.kernels.templates import (
    CONSTANTS,
    COUNTS,
    LISTED,
    NARY,
    NONE,
    STEP,
    THREE_STEPS,
    TWO_STEPS,
    HashTable,
    LabelLists,
    TemplateIndex,
    append_labels,
    constant_key,
    count_distinct,
    count_feature,
    exists_feature,
    find_slot,
    is_first,
    label_bit,
    pack_features,
    path_key,
    set_hashed_features,
    walk_key,
)


@inner_kernel
def set_along_edge(
    templates: TemplateIndex,
    graph: LabelledGraph,
    facts: FactArrays,
    view: NeighbourhoodView,
    i: int,
    fact: int,
    label: int,
    buffer: RowBuffer,
) -> None:
    """Set the n-ary features of a fact that is seen along an edge.

    Once per fact: by the first object of the tuple in it, and by the first label of the edge.
    """
    begin, end = facts.starts[fact], facts.starts[fact + 1]
    obj = view.members[view.own[i]]
    p = begin
    while facts.objects[p] != obj:
        p += 1
    if p != begin + graph.label_table[label, 1] or not is_first(view.own, i):
        return
    p = begin
    while facts.objects[p] == obj:
        p += 1
    if p != begin + graph.label_table[label, 2]:
        return
    for p in range(begin, end):
        for earlier in range(i):
            if view.members[view.own[earlier]] == facts.objects[p]:
                return
    set_from_fact(templates, facts, view, fact, buffer)


@inner_kernel
def set_from_fact(
    templates: TemplateIndex, facts: FactArrays, view: NeighbourhoodView, fact: int, buffer: RowBuffer
) -> None:
    """Set the n-ary features of a fact if all its objects are members."""
    begin, end, relation = facts.starts[fact], facts.starts[fact + 1], facts.relations[fact]
    members, count = view.members, count_distinct(view.own)
    for p in range(begin, end):
        inside = binary_search(members, count, len(members), facts.objects[p]) >= 0
        for own in range(count):
            inside = inside or members[own] == facts.objects[p]
        if not inside:
            return
    for f in range(templates.nary_starts[relation], templates.nary_starts[relation + 1]):
        fits = True
        for p in range(end - begin):
            expected = templates.nary[f, 2 + p]
            fits = fits and (expected < 0 or members[view.own[expected]] == facts.objects[begin + p])
        if fits:
            if templates.nary[f, 1]:
                increment_feature(buffer, templates.nary[f, 0])
            else:
                set_feature(buffer, templates.nary[f, 0])


LOOP, LAST, FIRST = -2, -3, -4
"""In place of the middle edge of a walk: facts of one member alone, the listed labels of the last step, or of the
first.
"""
_0 = np.uint64(0)


class WalkCache(NamedTuple):
    """Features of walks over three label sets, kept because the same sets come again and again."""

    table: HashTable
    """Shape (a power of two, 2): the key of three label sets, and the packed begin and end of their features."""
    features: Ints
    """Shape (capacity,): twice the feature, plus 1 for a counting feature."""
    counts: Longs
    """Shape (2,): the number of features and keys."""


@inline_kernel
def _find_walk_ends(
    label_bits: Words,
    label_set_bits: Words,
    graph: LabelledGraph,
    lists: LabelLists,
    position: int,
    side: int,
    out: Ints,
    at: int,
    size: int,
) -> int:
    """Collect the members that object `position` reaches over a useful label. Return their number, −1 if full."""
    count = 0
    for x in range(size):
        label_set, bits = lists.label_sets[position, x], _0
        if label_set == LISTED:
            end = append_labels(graph, lists, position, x, at)
            if end < 0:
                return -1
            for q in range(at, end):
                bits |= label_bits[lists.labels[q]]
        elif label_set != NONE:
            bits = label_set_bits[label_set]
        out[count], lists.bits[side, count] = x, bits
        count += bits != _0
    return count


@inner_kernel
def match_walks(
    templates: TemplateIndex,
    graph: LabelledGraph,
    facts: FactArrays,
    view: NeighbourhoodView,
    i: int,
    j: int,
    lists: LabelLists,
    cache: WalkCache,
    at: int,
    buffer: RowBuffer,
) -> bool:
    """Set the features of walks from object i over two members to object j.

    Return False if the label buffer is full.
    """
    members, label_sets = view.members, lists.label_sets
    starting, ending = templates.label_set_walk_last[i, j], templates.label_set_walk_ends[i, j]
    first_count = _find_walk_ends(
        templates.walk_last[i, j], starting, graph, lists, i, ZERO, lists.first_steps, at, len(members)
    )
    last_count = _find_walk_ends(
        templates.walk_ends[i, j], ending, graph, lists, j, ONE, lists.last_steps, at, len(members)
    )
    if first_count < 0 or last_count < 0:
        return False
    cacheable = (
        graph.all_binary
        and (len(facts.confidence) == 0 or view.key == NO_KEY)
        and len(graph.label_set_starts) < 1 << 18
    )
    for a in range(first_count):
        x = int(lists.first_steps[a])
        for b in range(last_count):
            y = int(lists.last_steps[b])
            if lists.bits[0, a] & lists.bits[1, b] == _0:
                continue
            if x == y:
                edge = LOOP if len(facts.own) > 0 else NONE
            elif x == view.own[j]:  # the labels between the two are already listed
                edge = LAST if label_sets[j, y] != NONE else NONE
            elif y == view.own[i]:
                edge = FIRST
            else:
                edge = find_edge(graph, members[x], members[y])
            if edge == NONE:
                continue
            done = cacheable and edge >= 0 and label_sets[i, x] >= 0 and label_sets[j, y] >= 0
            if done and not _has_hidden_fact(view, members[x], members[y]):
                done = _match_cached(
                    templates, graph, i, j, label_sets[i, x], graph.label_sets[edge], label_sets[j, y], cache, buffer
                )
            else:
                done = False
            if not done and not _match_walk(templates, graph, facts, view, i, j, x, y, edge, lists, at, buffer):
                return False
    return True


@inline_kernel
def _has_hidden_fact(view: NeighbourhoodView, one: int, other: int) -> bool:
    """Return whether a hidden fact links two members."""
    found = False
    for h in range(len(view.hidden)):
        first = view.hidden_rows[h, 1] == one or view.hidden_rows[h, 1] == other
        found = found or (first and (view.hidden_rows[h, 2] == one or view.hidden_rows[h, 2] == other))
    return found


@inner_kernel
def _match_walk(
    templates: TemplateIndex,
    graph: LabelledGraph,
    facts: FactArrays,
    view: NeighbourhoodView,
    i: int,
    j: int,
    x: int,
    y: int,
    edge: int,
    lists: LabelLists,
    at: int,
    buffer: RowBuffer,
) -> bool:
    """Set the features of walks from object i over x and y to object j. Return False if the label buffer is full."""
    after = append_labels(graph, lists, i, x, at)
    if after < 0:
        return False
    if edge == LOOP:
        end = _append_loop_labels(graph, facts, view, view.members[x], lists, after)
    elif edge == LAST:
        end = append_labels(graph, lists, j, y, after)
    elif edge == FIRST:
        end = append_labels(graph, lists, i, x, after)
        for q in range(after, end):
            lists.labels[q] = graph.reversed_labels[lists.labels[q]]
    else:
        end = _append_edge_labels(graph, facts, view, edge, lists, after)
    last = append_labels(graph, lists, j, y, end) if end >= 0 else end
    if last < 0:
        return False
    arity, labels = templates.hop.shape
    for q in range(at, after):
        first = lists.labels[q]
        next_bits, last_bits = templates.walk_next[i, j, first], templates.walk_last[i, j, first]
        for s in range(after, end):
            if next_bits & label_bit(lists.labels[s]):
                for u in range(end, last):
                    if last_bits & label_bit(lists.labels[u]):
                        key = walk_key(i * arity + j, first, lists.labels[s], lists.labels[u], labels)
                        set_hashed_features(templates.walk, key, buffer)
    return True


@inline_kernel
def _match_cached(
    templates: TemplateIndex,
    graph: LabelledGraph,
    i: int,
    j: int,
    first: int,
    middle: int,
    last: int,
    cache: WalkCache,
    buffer: RowBuffer,
) -> bool:
    """Set the features of walks over three label sets, through the cache. Return False if they do not fit into it."""
    label_sets, arity = np.int64(len(graph.label_set_starts)), templates.hop.shape[0]
    key = ((np.int64(first) * label_sets + middle) * label_sets + last) * (arity * arity) + i * arity + j
    slot = find_slot(cache.table, key)
    if cache.table[slot, 0] != key:
        slot = _fill_cache(templates, graph, i, j, first, middle, last, key, slot, cache)
    if slot < 0:
        return False
    for f in range(exists_feature(cache.table[slot, 1]), count_feature(cache.table[slot, 1])):
        feature = cache.features[f]
        if feature & 1:
            increment_feature(buffer, feature >> 1)
        else:
            set_feature(buffer, feature >> 1)
    return True


@inner_kernel
def _fill_cache(
    templates: TemplateIndex,
    graph: LabelledGraph,
    i: int,
    j: int,
    first: int,
    middle: int,
    last: int,
    key: int,
    slot: int,
    cache: WalkCache,
) -> int:
    """Write the features of walks over three label sets to the cache, which is cleared when full.

    Return the slot, or −1.
    """
    starts, labels_of_sets = graph.label_set_starts, graph.label_set_labels
    bound = 2 * (starts[first + 1] - starts[first]) * (starts[middle + 1] - starts[middle])
    bound *= starts[last + 1] - starts[last]
    if bound > len(cache.features):
        return -1
    if cache.counts[0] + bound > len(cache.features) or 2 * cache.counts[1] > len(cache.table):
        cache.table[:, 0] = NONE
        cache.counts[:] = 0
        slot = find_slot(cache.table, key)
    arity, labels = templates.hop.shape
    at = begin = cache.counts[0]
    for q in range(starts[first], starts[first + 1]):
        next_bits, last_bits = (
            templates.walk_next[i, j, labels_of_sets[q]],
            templates.walk_last[i, j, labels_of_sets[q]],
        )
        for s in range(starts[middle], starts[middle + 1]):
            if next_bits & label_bit(labels_of_sets[s]):
                for u in range(starts[last], starts[last + 1]):
                    if not last_bits & label_bit(labels_of_sets[u]):
                        continue
                    path = walk_key(i * arity + j, labels_of_sets[q], labels_of_sets[s], labels_of_sets[u], labels)
                    found = find_slot(templates.walk, path)
                    if templates.walk[found, 0] != NONE:
                        exists, count = (
                            exists_feature(templates.walk[found, 1]),
                            count_feature(templates.walk[found, 1]),
                        )
                        if exists >= 0:
                            cache.features[at] = 2 * exists
                            at += 1
                        if count >= 0:
                            cache.features[at] = 2 * count + 1
                            at += 1
    cache.table[slot, 0], cache.table[slot, 1] = key, pack_features(begin, at)
    cache.counts[0] = at
    cache.counts[1] += 1
    return slot


@inline_kernel
def _append_edge_labels(
    graph: LabelledGraph, facts: FactArrays, view: NeighbourhoodView, edge: int, lists: LabelLists, at: int
) -> int:
    """Append the visible labels of an edge between two members. Return their end, −1 if full."""
    first, last = graph.label_starts[edge], graph.label_starts[edge + 1]
    if at + last - first > len(lists.labels):
        return -1
    for q in range(first, last):
        if graph.binary[graph.labels[q]] and is_visible(facts, graph.facts[q], view.hidden, view.key):
            lists.labels[at] = graph.labels[q]
            at += 1
    return at


@inner_kernel
def _append_loop_labels(
    graph: LabelledGraph, facts: FactArrays, view: NeighbourhoodView, obj: int, lists: LabelLists, at: int
) -> int:
    """Append both labels of each visible fact r(a, a) of a member. Return their end, −1 if full."""
    for p in range(facts.own_starts[obj], facts.own_starts[obj + 1]):
        fact = facts.own[p]
        if facts.starts[fact + 1] - facts.starts[fact] == 2 and is_visible(facts, fact, view.hidden, view.key):
            if at + 2 > len(lists.labels):
                return -1
            base = graph.first_labels[facts.relations[fact]]
            lists.labels[at], lists.labels[at + 1] = base, base + 1
            at += 2
    return at


NO_OBJECT, SEVERAL_OBJECTS = -1, -2
"""No partner in a hidden fact; several partners."""
_0, _1 = np.uint64(0), np.uint64(1)


@inline_kernel
def _find_edges(graph: LabelledGraph, view: NeighbourhoodView, i: int, count: int, lists: LabelLists) -> int:
    """Collect the edges from object i of the tuple to the first `count` members. Return their number.

    Edges to earlier objects of the tuple are left out: they were seen from there. Each loop runs over all members
    without an unpredictable branch, so that look-ups wait for memory together: edges known from the draw, then members
    that may be adjacent, then members that are.
    """
    own, obj = view.own, view.members[view.own[i]]
    begin, end, found, others = graph.starts[obj], graph.starts[obj + 1], _0, _0
    distinct = count_distinct(own)
    for k in range(distinct):
        earlier = False
        for h in range(i + 1):
            earlier = earlier or own[h] == k
        lists.last_steps[others] = k
        others += np.uint64(not earlier)
    if len(view.edges) > 0:
        for k in range(distinct, count):
            edge = view.edges[k]
            inside = edge >= begin and edge < end
            lists.edges[found], lists.member_indices[found] = edge, k
            lists.last_steps[others] = k
            found += np.uint64(inside)
            others += np.uint64(not inside)
    else:
        for k in range(distinct, count):
            lists.last_steps[others] = k
            others += _1
    possible = _0
    for k in range(np.int64(others)):
        other = np.uint64(lists.last_steps[k])
        lists.first_steps[possible] = other
        possible += np.uint64(may_be_adjacent(graph, obj, view.members[other]))
    for k in range(np.int64(possible)):
        other = np.uint64(lists.first_steps[k])
        edge = find_edge_in_row(graph, begin, end, view.members[other])
        lists.edges[found], lists.member_indices[found] = edge, other
        found += np.uint64(edge >= 0)
    return int(found)


@inline_kernel
def _hidden_partner(graph: LabelledGraph, hidden_rows: Ints, obj: int) -> tuple[int, int]:
    """Return the object that shares a hidden fact with `obj` and its label, or `NO_OBJECT`, or `SEVERAL_OBJECTS`."""
    partner, label = NO_OBJECT, NONE
    for h in range(len(hidden_rows)):
        for position in range(2):
            if hidden_rows[h, 1 + position] == obj:
                partner = hidden_rows[h, 2 - position] if partner == NO_OBJECT else SEVERAL_OBJECTS
                label = graph.first_labels[hidden_rows[h, 0]] + position
    return partner, label


@inline_kernel
def list_labels(
    templates: TemplateIndex,
    graph: LabelledGraph,
    facts: FactArrays,
    view: NeighbourhoodView,
    i: int,
    lists: LabelLists,
    at: int,
    buffer: RowBuffer,
) -> int:
    """List the labels between object i of the tuple and each member, and set the features of one step.

    Return the next free index of the listed labels, −1 if full.
    """
    members, own, label_sets, distinct = view.members, view.own, lists.label_sets, count_distinct(view.own)
    partner, hidden_label = _hidden_partner(graph, view.hidden_rows, members[own[i]])
    by_label_set = (
        graph.all_binary and partner != SEVERAL_OBJECTS and (len(facts.confidence) == 0 or view.key == NO_KEY)
    )
    counts_or_constants = templates.needs[COUNTS] != 0 or templates.needs[CONSTANTS] != 0
    for j in range(len(members)):
        label_sets[i, j] = NONE
    found = _find_edges(graph, view, i, len(members) if templates.needs[STEP] else distinct, lists)
    for f in range(found):
        lists.first_steps[f] = graph.label_sets[lists.edges[f]]
    for f in range(found):
        j, label_set = lists.member_indices[f], lists.first_steps[f]
        if not by_label_set:
            at = _list_labels_by_fact(templates, graph, facts, view, i, j, lists.edges[f], lists, at, buffer)
        elif j < distinct or members[j] == partner:
            hidden = hidden_label if members[j] == partner else NONE
            at = _list_visible_labels(templates, graph, label_set, hidden, view, i, j, lists, at, buffer)
        else:
            label_sets[i, j] = label_set
            for q in range(graph.label_set_starts[label_set], graph.label_set_starts[label_set + 1]):
                feature = templates.label_set_hop[i, q]
                if feature >= 0:
                    set_feature(buffer, feature)
                if counts_or_constants:
                    _match_counts_and_constants(
                        templates, i, graph.label_set_labels[q], members[j], len(graph.starts) - 1, buffer
                    )
        if at < 0:
            return -1
    at = _list_reversed_labels(templates, graph, view, i, lists, at, buffer)
    obj = members[own[i]]
    if at >= 0 and len(facts.own) > 0 and facts.own_starts[obj] < facts.own_starts[obj + 1]:
        return _match_own_facts(templates, graph, facts, view, i, lists, at, buffer)
    return at


@inline_kernel
def _list_visible_labels(
    templates: TemplateIndex,
    graph: LabelledGraph,
    label_set: int,
    hidden_label: int,
    view: NeighbourhoodView,
    i: int,
    j: int,
    lists: LabelLists,
    at: int,
    buffer: RowBuffer,
) -> int:
    """List the labels of a set except a hidden one, and set the features of one step. Return the end, −1 if full."""
    first, last = graph.label_set_starts[label_set], graph.label_set_starts[label_set + 1]
    if at + last - first > len(lists.labels):
        return -1
    lists.label_sets[i, j], lists.begins[i, j] = LISTED, at
    for q in range(first, last):
        label = graph.label_set_labels[q]
        if label != hidden_label:
            lists.labels[at] = label
            at += 1
            match_step(templates, i, label, view.members[j], len(graph.starts) - 1, buffer)
    lists.ends[i, j] = at
    return at


@inner_kernel
def _list_labels_by_fact(
    templates: TemplateIndex,
    graph: LabelledGraph,
    facts: FactArrays,
    view: NeighbourhoodView,
    i: int,
    j: int,
    edge: int,
    lists: LabelLists,
    at: int,
    buffer: RowBuffer,
) -> int:
    """List the labels of an edge fact by fact: some may be hidden, uncertain or n-ary. Return the end, −1 if full."""
    first, last = graph.label_starts[edge], graph.label_starts[edge + 1]
    if at + last - first > len(lists.labels):
        return -1
    lists.label_sets[i, j], lists.begins[i, j] = LISTED, at
    for q in range(first, last):
        label, fact = graph.labels[q], graph.facts[q]
        if is_visible(facts, fact, view.hidden, view.key):
            if graph.binary[label]:
                lists.labels[at] = label
                at += 1
                match_step(templates, i, label, view.members[j], len(graph.starts) - 1, buffer)
            elif templates.needs[NARY]:
                set_along_edge(templates, graph, facts, view, i, fact, label, buffer)
    lists.ends[i, j] = at
    return at


@inline_kernel
def _list_reversed_labels(
    templates: TemplateIndex,
    graph: LabelledGraph,
    view: NeighbourhoodView,
    i: int,
    lists: LabelLists,
    at: int,
    buffer: RowBuffer,
) -> int:
    """List the labels between object i of the tuple and earlier ones, reversed. Return the end, −1 if full.

    An earlier object that comes twice is one end of the same facts: they are listed from its first place only.
    """
    own = view.own
    for h in range(i):
        if own[h] != own[i] and is_first(own, h) and lists.label_sets[h, own[i]] == LISTED:
            first, last = lists.begins[h, own[i]], lists.ends[h, own[i]]
            if at + last - first > len(lists.labels):
                return -1
            lists.label_sets[i, own[h]], lists.begins[i, own[h]] = LISTED, at
            for q in range(first, last):
                label = graph.reversed_labels[lists.labels[q]]
                lists.labels[at] = label
                at += 1
                match_step(templates, i, label, view.members[own[h]], len(graph.starts) - 1, buffer)
            lists.ends[i, own[h]] = at
    return at


@inline_kernel
def match_step(templates: TemplateIndex, i: int, label: int, other: int, objects: int, buffer: RowBuffer) -> None:
    """Set the features of one step from object i along a label to `other`."""
    if templates.hop[i, label] >= 0:
        set_feature(buffer, templates.hop[i, label])
    _match_counts_and_constants(templates, i, label, other, objects, buffer)


@inline_kernel
def _match_counts_and_constants(
    templates: TemplateIndex, i: int, label: int, other: int, objects: int, buffer: RowBuffer
) -> None:
    """Set the features that count steps or name the object at their end."""
    if templates.hop_counts[i, label] >= 0:
        increment_feature(buffer, templates.hop_counts[i, label])
    if templates.constant_labels[i, other & (templates.constant_labels.shape[1] - 1)] & label_bit(label):
        set_hashed_features(templates.constants, constant_key(i, label, templates.hop.shape[1], other, objects), buffer)


@inner_kernel
def _match_own_facts(
    templates: TemplateIndex,
    graph: LabelledGraph,
    facts: FactArrays,
    view: NeighbourhoodView,
    i: int,
    lists: LabelLists,
    at: int,
    buffer: RowBuffer,
) -> int:
    """Set the features of facts with one object alone: r(a), r(a, a), r(a, a, a). Return the end, −1 if full."""
    own = view.own[i]
    obj = view.members[own]
    lists.label_sets[i, own], lists.begins[i, own] = LISTED, at
    for p in range(facts.own_starts[obj], facts.own_starts[obj + 1]):
        fact = facts.own[p]
        relation, arity = facts.relations[fact], facts.starts[fact + 1] - facts.starts[fact]
        if not is_visible(facts, fact, view.hidden, view.key):
            continue
        if arity == 1 and templates.unary[i, relation] >= 0:
            set_feature(buffer, templates.unary[i, relation])
        if arity > 2 and templates.needs[NARY] and is_first(view.own, i):
            set_from_fact(templates, facts, view, fact, buffer)
        if arity == 2:
            if at + 2 > len(lists.labels):
                return -1
            for position in range(2):
                lists.labels[at] = graph.first_labels[relation] + position
                label = lists.labels[at]
                at += 1
                match_step(templates, i, label, obj, len(graph.starts) - 1, buffer)
    lists.ends[i, own] = at
    return at


@inline_kernel
def _match_between(
    templates: TemplateIndex, graph: LabelledGraph, own: Ints, i: int, j: int, lists: LabelLists, buffer: RowBuffer
) -> None:
    """Set the features of facts between two objects of the tuple. Their labels are always listed."""
    if lists.label_sets[i, own[j]] == LISTED:
        for q in range(lists.begins[i, own[j]], lists.ends[i, own[j]]):
            label = lists.labels[q]
            if templates.pair[i, j, label] >= 0:
                set_feature(buffer, templates.pair[i, j, label])
            if templates.linked[i, j] >= 0 and graph.label_table[label, 1] == 0:
                set_feature(buffer, templates.linked[i, j])


@inline_kernel
def _match_paths(
    templates: TemplateIndex,
    graph: LabelledGraph,
    size: int,
    i: int,
    j: int,
    lists: LabelLists,
    at: int,
    buffer: RowBuffer,
) -> bool:
    """Set the features of paths from object i over a member to object j. Return False if the label buffer is full."""
    arity, labels = templates.hop.shape
    count = 0
    for x in range(size):
        lists.first_steps[count] = x
        count += lists.label_sets[i, x] != NONE and lists.label_sets[j, x] != NONE
    for k in range(count):
        x = int(lists.first_steps[k])
        middle = append_labels(graph, lists, i, x, at)
        end = append_labels(graph, lists, j, x, middle) if middle >= 0 else middle
        if end < 0:
            return False
        for q in range(at, middle):
            first = lists.labels[q]
            next_bits = templates.path_next[i, j, first]
            for s in range(middle, end):
                second = lists.labels[s]
                if next_bits & label_bit(second):
                    set_hashed_features(templates.path, path_key(i * arity + j, first, second, labels), buffer)
    return True


@inline_kernel
def match_pair(
    templates: TemplateIndex,
    graph: LabelledGraph,
    facts: FactArrays,
    view: NeighbourhoodView,
    i: int,
    j: int,
    lists: LabelLists,
    cache: WalkCache,
    at: int,
    buffer: RowBuffer,
) -> bool:
    """Set the features of objects i and j of the tuple together. Return False if the label buffer is full."""
    _match_between(templates, graph, view.own, i, j, lists, buffer)
    lengths, fits = templates.path_lengths[i, j], True
    if lengths & TWO_STEPS:
        fits = _match_paths(templates, graph, len(view.members), i, j, lists, at, buffer)
    if fits and lengths & THREE_STEPS:
        fits = match_walks(templates, graph, facts, view, i, j, lists, cache, at, buffer)
    return fits

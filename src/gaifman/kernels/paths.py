"""Features of one atom with three places or more, off the facts that the tuple's objects stand in."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gaifman.kernels.collections import Ints, Longs, Words, binary_search
from gaifman.kernels.graph import LabelledGraph, find_edge, find_edge_in_row, may_be_adjacent
from gaifman.kernels.jit import inline_kernel, inner_kernel
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
    """A fact seen along an edge: once, by the first of the tuple's objects in it and the first label that says so."""
    begin, end = facts.starts[fact], facts.starts[fact + 1]
    one = view.members[view.own[i]]
    p = begin
    while facts.objects[p] != one:
        p += 1
    if p != begin + graph.label_table[label, 1] or not is_first(view.own, i):
        return
    p = begin
    while facts.objects[p] == one:
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
    """Meet the features of a fact all of whose objects are members."""
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
            wanted = templates.nary[f, 2 + p]
            fits = fits and (wanted < 0 or members[view.own[wanted]] == facts.objects[begin + p])
        if fits:
            if templates.nary[f, 1]:
                increment_feature(buffer, templates.nary[f, 0])
            else:
                set_feature(buffer, templates.nary[f, 0])


LOOP, LAST, FIRST = -2, -3, -4
"""In place of the edge in the middle: facts of one member alone; what is listed of the last step, or of the first."""
_0 = np.uint64(0)


class WalkCache(NamedTuple):
    """What paths over three bonds are asked for, once found: the same bonds come again and again."""

    table: HashTable
    """Shape (a power of two, 2): three bonds as one number, and where their features begin and end below, packed."""
    features: Ints
    """Shape (room,): twice the feature, and 1 more for one that counts."""
    counts: Longs
    """Shape (2,): features and keys so far."""


@inline_kernel
def _find_walk_ends(
    wanted: Words,
    along: Words,
    graph: LabelledGraph,
    lists: LabelLists,
    whose: int,
    side: int,
    found: Ints,
    at: int,
    size: int,
) -> int:
    """The members to which an object of the tuple has a label that is wanted; how many, −1 for no room."""
    count = 0
    for x in range(size):
        bond, bits = lists.label_sets[whose, x], _0
        if bond == LISTED:
            end = append_labels(graph, lists, whose, x, at)
            if end < 0:
                return -1
            for q in range(at, end):
                bits |= wanted[lists.labels[q]]
        elif bond != NONE:
            bits = along[bond]
        found[count], lists.bits[side, count] = x, bits
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
    """Paths from object i over two members to object j; False where there is no room for labels."""
    members, bonds = view.members, lists.label_sets
    near = _find_walk_ends(
        templates.walk_last[i, j], templates.label_set_walk_last[i, j], graph, lists, i, 0, lists.near, at, len(members)
    )
    far = _find_walk_ends(
        templates.walk_ends[i, j], templates.label_set_walk_ends[i, j], graph, lists, j, 1, lists.far, at, len(members)
    )
    if near < 0 or far < 0:
        return False
    memorable = (
        graph.all_binary
        and (len(facts.confidence) == 0 or view.key == NO_KEY)
        and len(graph.label_set_starts) < 1 << 18
    )
    for a in range(near):
        x = int(lists.near[a])
        for b in range(far):
            y = int(lists.far[b])
            if lists.bits[0, a] & lists.bits[1, b] == _0:
                continue
            if x == y:
                edge = LOOP if len(facts.own) > 0 else NONE
            elif x == view.own[j]:  # already listed, whatever is between the two
                edge = LAST if bonds[j, y] != NONE else NONE
            elif y == view.own[i]:
                edge = FIRST
            else:
                edge = find_edge(graph, members[x], members[y])
            if edge == NONE:
                continue
            done = memorable and edge >= 0 and bonds[i, x] >= 0 and bonds[j, y] >= 0
            if done and not _has_hidden_fact(view, members[x], members[y]):
                done = _match_cached(
                    templates, graph, i, j, bonds[i, x], graph.label_sets[edge], bonds[j, y], cache, buffer
                )
            else:
                done = False
            if not done and not _match_walk(templates, graph, facts, view, i, j, x, y, edge, lists, at, buffer):
                return False
    return True


@inline_kernel
def _has_hidden_fact(view: NeighbourhoodView, one: int, other: int) -> bool:
    """Whether a hidden fact is between two members."""
    secret = False
    for h in range(len(view.hidden)):
        here = view.hidden_rows[h, 1] == one or view.hidden_rows[h, 1] == other
        secret = secret or (here and (view.hidden_rows[h, 2] == one or view.hidden_rows[h, 2] == other))
    return secret


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
    """Meet the paths from object i over x and y to object j; False where there is no room for labels."""
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
    width, labels = templates.hop.shape
    for q in range(at, after):
        first = lists.labels[q]
        wanted, ending = templates.walk_next[i, j, first], templates.walk_last[i, j, first]
        for s in range(after, end):
            if wanted & label_bit(lists.labels[s]):
                for u in range(end, last):
                    if ending & label_bit(lists.labels[u]):
                        key = walk_key(i * width + j, first, lists.labels[s], lists.labels[u], labels)
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
    """Meet the paths over three bonds, found out or remembered; False where there is no room for them."""
    bonds, width = np.int64(len(graph.label_set_starts)), templates.hop.shape[0]
    key = ((np.int64(first) * bonds + middle) * bonds + last) * (width * width) + i * width + j
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
    """Write down what paths over three bonds are asked for; where is no room, all is forgotten. The slot, or −1."""
    starts, bond_labels = graph.label_set_starts, graph.label_set_labels
    most = 2 * (starts[first + 1] - starts[first]) * (starts[middle + 1] - starts[middle])
    most *= starts[last + 1] - starts[last]
    if most > len(cache.features):
        return -1
    if cache.counts[0] + most > len(cache.features) or 2 * cache.counts[1] > len(cache.table):
        cache.table[:, 0] = NONE
        cache.counts[:] = 0
        slot = find_slot(cache.table, key)
    width, labels = templates.hop.shape
    at = begin = cache.counts[0]
    for q in range(starts[first], starts[first + 1]):
        wanted, ending = templates.walk_next[i, j, bond_labels[q]], templates.walk_last[i, j, bond_labels[q]]
        for s in range(starts[middle], starts[middle + 1]):
            if wanted & label_bit(bond_labels[s]):
                for u in range(starts[last], starts[last + 1]):
                    if not ending & label_bit(bond_labels[u]):
                        continue
                    path = walk_key(i * width + j, bond_labels[q], bond_labels[s], bond_labels[u], labels)
                    found = find_slot(templates.walk, path)
                    if templates.walk[found, 0] != NONE:
                        some, many = exists_feature(templates.walk[found, 1]), count_feature(templates.walk[found, 1])
                        if some >= 0:
                            cache.features[at] = 2 * some
                            at += 1
                        if many >= 0:
                            cache.features[at] = 2 * many + 1
                            at += 1
    cache.table[slot, 0], cache.table[slot, 1] = key, pack_features(begin, at)
    cache.counts[0] = at
    cache.counts[1] += 1
    return slot


@inline_kernel
def _append_edge_labels(
    graph: LabelledGraph, facts: FactArrays, view: NeighbourhoodView, edge: int, lists: LabelLists, at: int
) -> int:
    """List the labels of an edge between two members; where they end, −1 where there is no room."""
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
    graph: LabelledGraph, facts: FactArrays, view: NeighbourhoodView, one: int, lists: LabelLists, at: int
) -> int:
    """The same for facts r(a, a)."""
    for p in range(facts.own_starts[one], facts.own_starts[one + 1]):
        fact = facts.own[p]
        if facts.starts[fact + 1] - facts.starts[fact] == 2 and is_visible(facts, fact, view.hidden, view.key):
            if at + 2 > len(lists.labels):
                return -1
            base = graph.first_labels[facts.relations[fact]]
            lists.labels[at], lists.labels[at + 1] = base, base + 1
            at += 2
    return at


NO_OBJECT, SEVERAL_OBJECTS = -1, -2
"""No rival; several."""
_0, _1 = np.uint64(0), np.uint64(1)


@inline_kernel
def _find_edges(graph: LabelledGraph, view: NeighbourhoodView, i: int, count: int, lists: LabelLists) -> int:
    """The edges from object i of the tuple to the first members; how many there are.

    Not those to earlier objects of the tuple: they have been seen from there. In turns over all members, each without a
    branch to guess wrong, so that their look-ups wait for memory together: those known from the draw; which of the
    others may have an edge; which have.
    """
    own, one = view.own, view.members[view.own[i]]
    begin, end, found, others = graph.starts[one], graph.starts[one + 1], _0, _0
    in_front = count_distinct(own)
    for k in range(in_front):
        earlier = False
        for h in range(i + 1):
            earlier = earlier or own[h] == k
        lists.far[others] = k
        others += np.uint64(not earlier)
    if len(view.edges) > 0:
        for k in range(in_front, count):
            edge = view.edges[k]
            inside = edge >= begin and edge < end
            lists.edges[found], lists.places[found] = edge, k
            lists.far[others] = k
            found += np.uint64(inside)
            others += np.uint64(not inside)
    else:
        for k in range(in_front, count):
            lists.far[others] = k
            others += _1
    doubtful = _0
    for k in range(np.int64(others)):
        other = np.uint64(lists.far[k])
        lists.near[doubtful] = other
        doubtful += np.uint64(may_be_adjacent(graph, one, view.members[other]))
    for k in range(np.int64(doubtful)):
        other = np.uint64(lists.near[k])
        edge = find_edge_in_row(graph, begin, end, view.members[other])
        lists.edges[found], lists.places[found] = edge, other
        found += np.uint64(edge >= 0)
    return int(found)


@inline_kernel
def _hidden_partner(graph: LabelledGraph, unseen: Ints, one: int) -> tuple[int, int]:
    """The object with which one has a hidden fact, and its label; NOBODY, or ANYBODY where there are several."""
    rival, label = NO_OBJECT, NONE
    for h in range(len(unseen)):
        for place_ in range(2):
            if unseen[h, 1 + place_] == one:
                rival = unseen[h, 2 - place_] if rival == NO_OBJECT else SEVERAL_OBJECTS
                label = graph.first_labels[unseen[h, 0]] + place_
    return rival, label


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
    """Note what is between object i of the tuple and each member, and meet what one step is asked for.

    The next free place of the listed labels; −1 where there is no room.
    """
    members, own, bonds, in_front = view.members, view.own, lists.label_sets, count_distinct(view.own)
    rival, secret = _hidden_partner(graph, view.hidden_rows, members[own[i]])
    sure = graph.all_binary and rival != SEVERAL_OBJECTS and (len(facts.confidence) == 0 or view.key == NO_KEY)
    step, more = templates.needs[STEP] != 0, templates.needs[COUNTS] != 0 or templates.needs[CONSTANTS] != 0
    for j in range(len(members)):
        bonds[i, j] = NONE
    found = _find_edges(graph, view, i, len(members) if step else in_front, lists)
    for f in range(found):
        lists.near[f] = graph.label_sets[lists.edges[f]]
    for f in range(found):
        j, bond = lists.places[f], lists.near[f]
        if not sure:
            at = _list_labels_by_fact(templates, graph, facts, view, i, j, lists.edges[f], lists, at, buffer)
        elif j < in_front or members[j] == rival:
            at = _list_visible_labels(
                templates, graph, bond, secret if members[j] == rival else NONE, view, i, j, lists, at, buffer
            )
        else:
            bonds[i, j] = bond
            for q in range(graph.label_set_starts[bond], graph.label_set_starts[bond + 1]):
                feature = templates.label_set_hop[i, q]
                if feature >= 0:
                    set_feature(buffer, feature)
                if more:
                    _match_counts_and_constants(
                        templates, i, graph.label_set_labels[q], members[j], len(graph.starts) - 1, buffer
                    )
        if at < 0:
            return -1
    at = _list_reversed_labels(templates, graph, view, i, lists, at, buffer)
    one = members[own[i]]
    if at >= 0 and len(facts.own) > 0 and facts.own_starts[one] < facts.own_starts[one + 1]:
        return _match_own_facts(templates, graph, facts, view, i, lists, at, buffer)
    return at


@inline_kernel
def _list_visible_labels(
    templates: TemplateIndex,
    graph: LabelledGraph,
    bond: int,
    secret: int,
    view: NeighbourhoodView,
    i: int,
    j: int,
    lists: LabelLists,
    at: int,
    buffer: RowBuffer,
) -> int:
    """List the labels of a bond but for a secret one, and meet what one step is asked for."""
    first, last = graph.label_set_starts[bond], graph.label_set_starts[bond + 1]
    if at + last - first > len(lists.labels):
        return -1
    lists.label_sets[i, j], lists.begins[i, j] = LISTED, at
    for q in range(first, last):
        label = graph.label_set_labels[q]
        if label != secret:
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
    """The same where any fact of the edge may not be visible, or have more than two places."""
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
    """What object i of the tuple has with earlier ones: as listed there, seen from the other end."""
    own = view.own
    for h in range(i):
        if own[h] != own[i] and lists.label_sets[h, own[i]] == LISTED:
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
    """Meet what one step is asked for."""
    if templates.hop[i, label] >= 0:
        set_feature(buffer, templates.hop[i, label])
    _match_counts_and_constants(templates, i, label, other, objects, buffer)


@inline_kernel
def _match_counts_and_constants(
    templates: TemplateIndex, i: int, label: int, other: int, objects: int, buffer: RowBuffer
) -> None:
    """Meet what counts steps or names where they lead."""
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
    """Facts with no other object than the tuple's i-th: r(a); r(a, a), which has both labels of r; r(a, a, a)."""
    own = view.own[i]
    one = view.members[own]
    lists.label_sets[i, own], lists.begins[i, own] = LISTED, at
    for p in range(facts.own_starts[one], facts.own_starts[one + 1]):
        fact = facts.own[p]
        relation, places = facts.relations[fact], facts.starts[fact + 1] - facts.starts[fact]
        if not is_visible(facts, fact, view.hidden, view.key):
            continue
        if places == 1 and templates.unary[i, relation] >= 0:
            set_feature(buffer, templates.unary[i, relation])
        if places > 2 and templates.needs[NARY] and is_first(view.own, i):
            set_from_fact(templates, facts, view, fact, buffer)
        if places == 2:
            if at + 2 > len(lists.labels):
                return -1
            for place_ in range(2):
                lists.labels[at] = graph.first_labels[relation] + place_
                label = lists.labels[at]
                at += 1
                match_step(templates, i, label, one, len(graph.starts) - 1, buffer)
    lists.ends[i, own] = at
    return at


@inline_kernel
def _match_between(
    templates: TemplateIndex, graph: LabelledGraph, own: Ints, i: int, j: int, lists: LabelLists, buffer: RowBuffer
) -> None:
    """Facts between two objects of the tuple: always listed."""
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
    """Paths from object i over a member to object j; False where there is no room for labels."""
    width, labels = templates.hop.shape
    both = 0
    for x in range(size):
        lists.near[both] = x
        both += lists.label_sets[i, x] != NONE and lists.label_sets[j, x] != NONE
    for k in range(both):
        x = int(lists.near[k])
        middle = append_labels(graph, lists, i, x, at)
        end = append_labels(graph, lists, j, x, middle) if middle >= 0 else middle
        if end < 0:
            return False
        for q in range(at, middle):
            first = lists.labels[q]
            wanted = templates.path_next[i, j, first]
            for s in range(middle, end):
                second = lists.labels[s]
                if wanted & label_bit(second):
                    set_hashed_features(templates.path, path_key(i * width + j, first, second, labels), buffer)
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
    """Meet what objects i and j of the tuple are asked for together; False where there is no room for labels."""
    _match_between(templates, graph, view.own, i, j, lists, buffer)
    joins, room = templates.path_lengths[i, j], True
    if joins & TWO_STEPS:
        room = _match_paths(templates, graph, len(view.members), i, j, lists, at, buffer)
    if room and joins & THREE_STEPS:
        room = match_walks(templates, graph, facts, view, i, j, lists, cache, at, buffer)
    return room

"""Paths of three steps from one object of the tuple over two members to another."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gaifman.kernels.compiling import inline_kernel, inner_kernel
from gaifman.kernels.families import (
    NONE,
    HashTable,
    TemplateIndex,
    count_feature,
    exists_feature,
    find_slot,
    label_bit,
    pack_features,
    walk_key,
)
from gaifman.kernels.lists import LISTED, LabelLists, NeighbourhoodView, append_labels, set_hashed_features
from gaifman.kernels.local import NO_KEY, FactArrays, LabelledGraph, find_edge, is_visible
from gaifman.kernels.rows import RowBuffer, increment_feature, set_feature
from gaifman.kernels.sets import Ints, Longs, Words

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

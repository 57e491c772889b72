"""The common features, without tables: what links the tuple's objects to each other and to the members around them.

For each object of the tuple and each member, the labels of the facts between the two are listed once. Every feature of
the families is read off these lists: only facts that are there are visited, however many features there are.
"""

from __future__ import annotations

import numpy as np

from gaifman.kernels.compiling import inline_kernel, inner_kernel
from gaifman.kernels.families import (
    CONSTANTS,
    COUNTS,
    NARY,
    NONE,
    STEP,
    THREE_STEPS,
    TWO_STEPS,
    TemplateIndex,
    constant_key,
    label_bit,
    path_key,
)
from gaifman.kernels.lists import (
    LISTED,
    LabelLists,
    NeighbourhoodView,
    append_labels,
    count_distinct,
    is_first,
    set_hashed_features,
)
from gaifman.kernels.local import NO_KEY, FactArrays, LabelledGraph, find_edge_in_row, is_visible, may_be_adjacent
from gaifman.kernels.rows import RowBuffer, increment_feature, set_feature
from gaifman.kernels.sets import Ints
from gaifman.kernels.walks import WalkCache, match_walks
from gaifman.kernels.wide import set_along_edge, set_from_fact

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

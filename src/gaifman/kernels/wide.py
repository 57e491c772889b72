"""Features of one atom with three places or more, off the facts that the tuple's objects stand in."""

from __future__ import annotations

from gaifman.kernels.compiling import inner_kernel
from gaifman.kernels.families import TemplateIndex
from gaifman.kernels.lists import NeighbourhoodView, count_distinct, is_first
from gaifman.kernels.local import FactArrays, LabelledGraph
from gaifman.kernels.rows import RowBuffer, increment_feature, set_feature
from gaifman.kernels.sets import binary_search


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

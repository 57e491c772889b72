"""Features of one atom with three places or more, off the facts that the tuple's objects stand in."""

from __future__ import annotations

from gaifman.kernels.compiling import inner
from gaifman.kernels.families import Families
from gaifman.kernels.lists import Place, different, first_of
from gaifman.kernels.local import Incidence, Links
from gaifman.kernels.rows import Met, meet, once_more
from gaifman.kernels.sets import place


@inner
def meet_along(
    families: Families, links: Links, facts: Incidence, spot: Place, i: int, fact: int, label: int, met: Met
) -> None:
    """A fact seen along an edge: once, by the first of the tuple's objects in it and the first label that says so."""
    begin, end = facts.starts[fact], facts.starts[fact + 1]
    one = spot.members[spot.own[i]]
    p = begin
    while facts.objects[p] != one:
        p += 1
    if p != begin + links.label_table[label, 1] or not first_of(spot.own, i):
        return
    p = begin
    while facts.objects[p] == one:
        p += 1
    if p != begin + links.label_table[label, 2]:
        return
    for p in range(begin, end):
        for earlier in range(i):
            if spot.members[spot.own[earlier]] == facts.objects[p]:
                return
    meet_fact(families, facts, spot, fact, met)


@inner
def meet_fact(families: Families, facts: Incidence, spot: Place, fact: int, met: Met) -> None:
    """Meet the features of a fact all of whose objects are members."""
    begin, end, relation = facts.starts[fact], facts.starts[fact + 1], facts.relations[fact]
    members, count = spot.members, different(spot.own)
    for p in range(begin, end):
        inside = place(members, count, len(members), facts.objects[p]) >= 0
        for own in range(count):
            inside = inside or members[own] == facts.objects[p]
        if not inside:
            return
    for f in range(families.wide_starts[relation], families.wide_starts[relation + 1]):
        fits = True
        for p in range(end - begin):
            wanted = families.wide[f, 2 + p]
            fits = fits and (wanted < 0 or members[spot.own[wanted]] == facts.objects[begin + p])
        if fits:
            if families.wide[f, 1]:
                once_more(met, families.wide[f, 0])
            else:
                meet(met, families.wide[f, 0])

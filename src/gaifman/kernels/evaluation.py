"""Features of many neighbourhoods: families read off lists, programs run for the facts they concern."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gaifman.kernels.compiling import compiled, foresee, inlined, zero
from gaifman.kernels.families import Families
from gaifman.kernels.lists import Lists, Place
from gaifman.kernels.local import NO_KEY, Incidence, Links, Local, foresee_touch, forget, gather, gather_bonds
from gaifman.kernels.machine import Programs, Room, Scene, Values, run
from gaifman.kernels.paths import joined, listed
from gaifman.kernels.random import join
from gaifman.kernels.rows import Met, Output, meet, meet_twins, poured
from gaifman.kernels.sets import Bytes, Ints, Longs
from gaifman.kernels.walks import Memo

DONE, FACTS, ENTRIES, LABELS = 0, 1, 2, 3
"""How evaluation ends: done, or for want of room for facts, entries or labels."""


class Index(NamedTuple):
    """Which programs concern which relations."""

    starts: Longs
    """Shape (relations + 1,)."""
    programs: Ints
    """Programs that can differ from their default where the relation is present."""
    always: Ints
    """Programs without a default."""
    shapes: Ints
    """Shape (programs,): a row of `defaults`, or −1 for 0."""
    defaults: npt.NDArray[np.float32]
    """Shape (shapes, members + 1): the value where none of the relations is present."""
    wanted: Bytes
    """Shape (relations,): the relations whose facts are asked for."""
    bare: bool
    """Whether no fact is asked for: numbers of the tuple's objects, and defaults."""


class World(NamedTuple):
    """What is known, for all rows."""

    links: Links
    facts: Incidence
    values: Values


class Neighbours(NamedTuple):
    """The neighbourhoods, as `gaifman.neighbourhoods.Neighbourhoods` has them."""

    starts: Longs
    members: Ints
    edges: Ints
    own: Ints
    """Shape (b, n): the places of each tuple's objects among the members."""
    draws: int
    hidden_starts: Longs
    hidden: Longs
    unseen: Ints
    """Shape (hidden, 3): of each that has two places its relation and objects; elsewhere −1."""
    keys: npt.NDArray[np.uint64]
    """Shape (w,) or (0,): for the drop-out of uncertain facts; empty where none drops out."""


class Tools(NamedTuple):
    """What one thread runs programs with."""

    local: Local
    room: Room
    marks: Ints
    """Shape (programs,): the row, from 1, in which a program was last run."""


@inlined
def _place(neighbours: Neighbours, row: int) -> Place:
    begin, end, t = neighbours.starts[row], neighbours.starts[row + 1], row // neighbours.draws
    known = len(neighbours.edges) > 0
    members, own = neighbours.members[begin:end], neighbours.own[t]
    key = NO_KEY
    if len(neighbours.keys) > 0:  # what drops out is keyed by the draw and the tuple
        key = neighbours.keys[row % neighbours.draws]
        for at in own:
            key = join(key, members[at])
        key |= np.uint64(1)
    edges = neighbours.edges[begin:end] if known else neighbours.edges
    first, last = neighbours.hidden_starts[t], neighbours.hidden_starts[t + 1]
    return Place(members, edges, own, neighbours.hidden[first:last], neighbours.unseen[first:last], key)


@inlined
def _foresee(links: Links, neighbours: Neighbours, row: int) -> None:
    """What a row to come will ask of the large tables, asked for now: most of the time went in waiting for it."""
    if len(neighbours.edges) == 0:
        return
    begin, end = neighbours.starts[row], neighbours.starts[row + 1]
    own = neighbours.own[row // neighbours.draws]
    for at in range(begin, end):
        foresee(links.bonds, neighbours.edges[at])
    for i in range(len(own)):
        one = neighbours.members[begin + own[i]]
        first, last = links.starts[one], links.starts[one + 1]
        foresee(links.neighbours, first)
        foresee(links.neighbours, (first + last) >> 1)
        foresee(links.neighbours, last - 1)
        for at in range(begin, end):
            foresee_touch(links, one, neighbours.members[at])


@compiled
def read_rows(
    families: Families, world: World, neighbours: Neighbours, lists: Lists, memo: Memo, met: Met, output: Output
) -> int:
    """Read the features of families off rows, from `output.state` on; DONE, or what there is no room for."""
    for row in range(output.state[0], len(output.ends)):
        if output.state[1] + len(met.values) > len(output.ids):
            return ENTRIES
        spot = _place(neighbours, row + output.state[2])
        if row + 1 < len(output.ends):
            _foresee(world.links, neighbours, row + 1 + output.state[2])
        at = zero()
        for i in range(len(spot.own)):
            if at >= 0:
                at = listed(families, world.links, world.facts, spot, i, lists, at, met)
        for i in range(len(spot.own)):
            for j in range(len(spot.own)):
                if at >= 0 and not joined(families, world.links, world.facts, spot, i, j, lists, memo, at, met):
                    at = -1
        meet_twins(met, families.twins)
        end = poured(met, output)
        if at < 0:
            return LABELS
        output.ends[row] = output.state[1] = end
        output.state[0] = row + 1
    return DONE


@compiled
def run_rows(
    programs: Programs, index: Index, world: World, neighbours: Neighbours, tools: Tools, met: Met, output: Output
) -> int:
    """Run programs in rows, from `output.state` on; DONE, or what there is no room for.

    A program is run where a relation that it names is present: elsewhere its value is the default.
    """
    local, marks = tools.local, tools.marks
    for row in range(output.state[0], len(output.ends)):
        if output.state[1] + len(met.values) > len(output.ids):
            return ENTRIES
        spot = _place(neighbours, row + output.state[2])
        scene = Scene(spot.members, spot.own)
        local.counts[:] = 0
        if not index.bare and not _gathered(world, spot, index.wanted, local):
            forget(spot.members, local)
            return FACTS
        first, count = -1, len(index.always)
        at = 0
        while True:
            while at == count:  # to the next relation that is present
                first += 1
                if first == local.counts[1]:
                    break
                at, count = index.starts[local.present[first]], index.starts[local.present[first] + 1]
            if at == count:
                break
            p = index.always[at] if first < 0 else index.programs[at]
            at += 1
            if marks[p] != row + 1:
                marks[p] = row + 1
                _meet(met, index, p, len(spot.members), run(programs, p, scene, local, world.values, tools.room))
        if not index.bare:
            forget(spot.members, local)
        output.ends[row] = output.state[1] = poured(met, output)
        output.state[0] = row + 1
    return DONE


@inlined
def _gathered(world: World, spot: Place, wanted: Bytes, local: Local) -> bool:
    links, facts = world.links, world.facts
    if links.pure and (len(facts.confidence) == 0 or spot.key == NO_KEY):
        return gather_bonds(links, facts, spot.members, spot.hidden, spot.unseen, wanted, local)
    return gather(links, facts, spot.members, spot.hidden, spot.key, local)


@inlined
def _meet(met: Met, index: Index, p: int, size: int, value: float) -> None:
    """Keep a value that is not the default; a number that is missing counts as 0."""
    kept = np.float32(0.0 if np.isnan(value) else value)
    shape = index.shapes[p]
    default = index.defaults[shape, size] if shape >= 0 else np.float32(0.0)
    if kept != default:
        meet(met, p)
        met.values[p] = kept

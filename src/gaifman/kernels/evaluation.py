"""Features of many neighbourhoods: families read off lists, programs run for the facts they concern, rows put out."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gaifman.kernels.compiling import compiled
from gaifman.kernels.local import Incidence, Links, Local, forget, gather
from gaifman.kernels.machine import Programs, Room, Scene, Values, run
from gaifman.kernels.paths import Families, Lists, Sums, listed, met_features
from gaifman.kernels.random import join
from gaifman.kernels.sets import Ints, Longs

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
    numeric: Ints
    """Programs that need no facts: numbers of the tuple's objects."""
    shapes: Ints
    """Shape (programs,): a row of `defaults`, or −1 for 0."""
    defaults: npt.NDArray[np.float32]
    """Shape (shapes, members + 1): the value where none of the relations is present."""


class World(NamedTuple):
    """What is known, for all rows."""

    links: Links
    facts: Incidence
    values: Values


class Neighbours(NamedTuple):
    """The neighbourhoods, as `gaifman.neighbourhoods.Neighbourhoods` has them."""

    starts: Longs
    members: Ints
    own: Ints
    """Shape (b, n): the places of each tuple's objects among the members."""
    draws: int
    hidden_starts: Longs
    hidden: Longs
    keys: npt.NDArray[np.uint64]
    """Shape (w,) or (0,): for the drop-out of uncertain facts; empty where none drops out."""


class Tools(NamedTuple):
    """What one thread works with."""

    local: Local
    room: Room
    lists: Lists
    sums: Sums
    met: Ints
    """Shape (features,): the features met in a row."""


class Output(NamedTuple):
    """Rows of a sparse matrix."""

    ids: Ints
    values: npt.NDArray[np.float32]
    ends: Longs
    """Shape (rows,): where each row ends."""
    state: Longs
    """Shape (3,): the next row, counted from `state[2]`; the next entry."""


@compiled
def evaluate(
    programs: Programs,
    index: Index,
    families: Families,
    world: World,
    neighbours: Neighbours,
    tools: Tools,
    output: Output,
) -> int:
    """Evaluate rows from `output.state` on; DONE, or what there is no room for."""
    while output.state[0] < len(output.ends):
        row = output.state[0] + output.state[2]
        members = neighbours.members[neighbours.starts[row] : neighbours.starts[row + 1]]
        t = row // neighbours.draws
        scene = Scene(members, neighbours.own[t])
        hidden = neighbours.hidden[neighbours.hidden_starts[t] : neighbours.hidden_starts[t + 1]]
        status = _row(programs, index, families, world, scene, hidden, _key(neighbours, scene, row), tools, output)
        if status != DONE:
            return status
        output.state[0] += 1
    return DONE


@compiled
def _key(neighbours: Neighbours, scene: Scene, row: int) -> np.uint64:
    """What drops out is keyed by the draw and the tuple; 0 where nothing does."""
    if len(neighbours.keys) == 0:
        return np.uint64(0)
    key = neighbours.keys[row % neighbours.draws]
    for at in scene.own:
        key = join(key, scene.members[at])
    return np.uint64(key | np.uint64(1))


@compiled
def _row(
    programs: Programs,
    index: Index,
    families: Families,
    world: World,
    scene: Scene,
    hidden: Longs,
    key: np.uint64,
    tools: Tools,
    output: Output,
) -> int:
    """One row; what there is no room for."""
    row, begin = output.state[0], output.state[1]
    if begin + len(tools.met) > len(output.ids):
        return ENTRIES
    at = begin
    if families.wanted:
        if not listed(world.links, world.facts, scene.members, scene.own, hidden, key, tools.lists):
            return LABELS
        count = met_features(
            families,
            world.links,
            world.facts,
            scene.members,
            scene.own,
            hidden,
            key,
            tools.lists,
            tools.sums,
            row,
            tools.met,
        )
        for i in range(count):
            output.ids[at], output.values[at] = tools.met[i], tools.sums.values[tools.met[i]]
            at += 1
    for p in index.numeric:
        at = _entry(programs, index, p, world.values, scene, tools, output, at)
    if len(index.always) > 0 or len(index.programs) > 0:
        whole = gather(world.links, world.facts, scene.members, hidden, key, tools.local)
        if whole:
            at = _programs(programs, index, world.values, scene, tools, output, row, at)
        forget(scene.members, tools.local)
        if not whole:
            return FACTS
    _sort(output.ids, output.values, begin, at)
    output.ends[row] = output.state[1] = at
    return DONE


@compiled
def _programs(
    programs: Programs, index: Index, values: Values, scene: Scene, tools: Tools, output: Output, row: int, at: int
) -> int:
    """Run the programs that the facts inside concern."""
    for p in index.always:
        at = _entry(programs, index, p, values, scene, tools, output, at)
    local = tools.local
    for r in range(local.counts[1]):
        relation = local.present[r]
        for i in range(index.starts[relation], index.starts[relation + 1]):
            p = index.programs[i]
            if tools.sums.marks[p] != row + 1:
                tools.sums.marks[p] = row + 1
                at = _entry(programs, index, p, values, scene, tools, output, at)
    return at


@compiled
def _entry(
    programs: Programs, index: Index, p: int, values: Values, scene: Scene, tools: Tools, output: Output, at: int
) -> int:
    """Run a program and write its value where it is not the default; the next entry."""
    value = np.float32(run(programs, p, scene, tools.local, values, tools.room))
    if np.isnan(value):
        value = np.float32(0.0)
    shape = index.shapes[p]
    default = index.defaults[shape, len(scene.members)] if shape >= 0 else np.float32(0.0)
    if value == default:
        return at
    output.ids[at] = p
    output.values[at] = value
    return at + 1


@compiled
def _sort(ids: Ints, values: npt.NDArray[np.float32], begin: int, end: int) -> None:
    """Entries by feature: a few, so by insertion."""
    for i in range(begin + 1, end):
        number, value = ids[i], values[i]
        j = i
        while j > begin and ids[j - 1] > number:
            ids[j], values[j] = ids[j - 1], values[j - 1]
            j -= 1
        ids[j], values[j] = number, value


@compiled
def set_defaults(
    programs: Programs,
    chosen: Ints,
    sizes: Ints,
    members: Ints,
    own: Ints,
    values: Values,
    tools: Tools,
    defaults: npt.NDArray[np.float32],
) -> None:
    """For each shape, by its chosen program, and each size: the value in a neighbourhood without facts."""
    tools.local.counts[:] = 0
    for shape in range(len(chosen)):
        for size in sizes:
            scene = Scene(members[:size], own)
            defaults[shape, size] = run(programs, chosen[shape], scene, tools.local, values, tools.room)

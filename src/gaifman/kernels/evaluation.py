"""Features of many neighbourhoods: gather the facts inside, run the programs they concern, write what differs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gaifman.kernels.compiling import compiled
from gaifman.kernels.local import Incidence, Links, Local, forget, gather
from gaifman.kernels.machine import Programs, Room, Scene, Values, run
from gaifman.kernels.sets import Ints, Longs


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
    """Shape (rows,) or (0,): for the drop-out of uncertain facts; empty where none drops out."""


class Output(NamedTuple):
    """Rows of a sparse matrix."""

    ids: Ints
    values: npt.NDArray[np.float32]
    ends: Longs
    """Shape (rows,): where each row ends."""
    state: Longs
    """Shape (2,): the next row, and the next entry."""
    marks: Ints
    """Shape (programs,): the last row, from 1, that a program was run for."""


@compiled
def evaluate(
    programs: Programs,
    index: Index,
    links: Links,
    facts: Incidence,
    values: Values,
    neighbours: Neighbours,
    local: Local,
    room: Room,
    output: Output,
) -> int:
    """Evaluate rows from `output.state` on; 0 when done, 1 where facts need more room, 2 where entries do."""
    while output.state[0] < len(output.ends):
        row = output.state[0]
        members = neighbours.members[neighbours.starts[row] : neighbours.starts[row + 1]]
        t = row // neighbours.draws
        hidden = neighbours.hidden[neighbours.hidden_starts[t] : neighbours.hidden_starts[t + 1]]
        key = neighbours.keys[row] if len(neighbours.keys) > 0 else np.uint64(0)
        whole = gather(links, facts, members, hidden, key, local)
        status = 1
        if whole:
            scene = Scene(members, neighbours.own[t])
            status = 0 if _row(programs, index, values, scene, local, room, output, row) else 2
        forget(members, local)
        if status:
            return status
        output.state[0] += 1
    return 0


@compiled
def _row(
    programs: Programs, index: Index, values: Values, scene: Scene, local: Local, room: Room, output: Output, row: int
) -> bool:
    """One row; False where there is no room for it."""
    begin = output.state[1]
    at = begin
    for p in index.always:
        at = _entry(programs, index, p, values, scene, local, room, output, at)
        if at < 0:
            return False
    for r in range(local.counts[1]):
        relation = local.present[r]
        for i in range(index.starts[relation], index.starts[relation + 1]):
            p = index.programs[i]
            if output.marks[p] != row + 1:
                output.marks[p] = row + 1
                at = _entry(programs, index, p, values, scene, local, room, output, at)
                if at < 0:
                    return False
    _sort(output.ids, output.values, begin, at)
    output.ends[row] = output.state[1] = at
    return True


@compiled
def _entry(
    programs: Programs,
    index: Index,
    p: int,
    values: Values,
    scene: Scene,
    local: Local,
    room: Room,
    output: Output,
    at: int,
) -> int:
    """Run a program and write its value where it is not the default; the next entry, or −1 where there is no room."""
    value = np.float32(run(programs, p, scene, local, values, room))
    if np.isnan(value):
        value = np.float32(0.0)
    shape = index.shapes[p]
    default = index.defaults[shape, len(scene.members)] if shape >= 0 else np.float32(0.0)
    if value == default:
        return at
    if at == len(output.ids):
        return -1
    output.ids[at] = p
    output.values[at] = value
    return at + 1


@compiled
def _sort(ids: Ints, values: npt.NDArray[np.float32], begin: int, end: int) -> None:
    """Entries by feature: a few at a time, nearly sorted, so by insertion."""
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
    local: Local,
    room: Room,
    defaults: npt.NDArray[np.float32],
) -> None:
    """For each shape, by its chosen program, and each size: the value in a neighbourhood without facts."""
    local.counts[:] = 0
    for shape in range(len(chosen)):
        for size in sizes:
            scene = Scene(members[:size], own)
            defaults[shape, size] = run(programs, chosen[shape], scene, local, values, room)

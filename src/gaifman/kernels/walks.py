"""Walks along facts: the paths between two objects, and the objects that paths reach.

A label is a relation with two of its positions; a step with a label goes from the object at the first position of a
fact to the object at the second. A path is a row of labels, padded with −1. Walks never return to the object they start
from, and never use a hidden fact.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gaifman.kernels.collections import sort
from gaifman.kernels.jit import inline_kernel, inner_kernel, kernel

Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Reals = npt.NDArray[np.float32]
Bools = npt.NDArray[np.bool_]

FULL, PAUSED = -1, -2
"""Status: a buffer is full, and the budget of steps is spent. Call again to go on."""
PATH, DEPTH, VALID, SOURCE, SIZE, END, WORK = range(7)
"""Items of `WalkScratch.state`."""
UNREACHED = 127
FEW = 4
"""Up to this number, hidden facts can be in any order."""


class StepTable(NamedTuple):
    """The steps out of each object, grouped by label."""

    starts: Longs
    """Shape (objects + 1,): the groups of each object."""
    labels: Ints
    """Shape (groups,): the label of each group, ascending for each object."""
    group_starts: Longs
    """Shape (groups + 1,): the steps of each group."""
    targets: Ints
    """Shape (steps,): the object that a step leads to."""
    facts: Longs
    """Shape (steps,): the number of the fact that a step uses."""
    chances: Reals
    """Shape (steps,): the confidence of that fact; shape (0,) if all facts are certain."""


class WalkScratch(NamedTuple):
    """Scratch space of a thread."""

    seen: Longs
    """Shape (objects,): the stamp of the set that an object was last in."""
    slots: Ints
    """Shape (objects,): its place in that set."""
    objects: Ints
    """Shape (steps, max_first): the set of each depth."""
    counts: Floats
    """Shape (steps, max_first): the number of walks to each object of a set."""
    masses: Floats
    """Shape (steps, max_first): the probability that a random walk ends at each object of a set."""
    sizes: Longs
    """Shape (steps,): the size of the set of each depth."""
    stamp: Longs
    """Shape (1,): the last stamp."""
    state: Longs
    """Shape (7,): where the walks are: the path, the depth (−1 before the first), the depths that the next path can
    share, the next object to walk on from, the size of the set so far, the end of the entries, and the steps left."""


class Members(NamedTuple):
    """The members of a neighbourhood. Walks take facts among the members, and in their last step also to others."""

    marks: Longs
    """Shape (objects,): the number of the last neighbourhood that an object was a member of; (0,) without a bound."""
    number: Longs
    """Shape (1,): the number of the neighbourhood."""
    fact_starts: Longs
    """Shape (facts + 1,): the objects of each fact with more than two; (0,) if there are no such facts."""
    fact_objects: Ints
    """Shape (any,)."""


@inline_kernel
def _group(table: StepTable, obj: int, label: int) -> int:
    """Return the group of an object's steps with a label, or −1."""
    low, high = table.starts[obj], table.starts[obj + 1]
    while low < high:
        middle = (low + high) >> 1
        if table.labels[middle] < label:
            low = middle + 1
        else:
            high = middle
    return low if low < table.starts[obj + 1] and table.labels[low] == label else -1


@inline_kernel
def _is_hidden(hidden: Longs, fact: int) -> bool:
    """Return whether a fact is hidden; if there are more than `FEW`, they ascend."""
    found = False
    if len(hidden) <= FEW:
        for i in range(len(hidden)):
            found |= hidden[i] == fact
        return found
    low, high = 0, len(hidden)
    while low < high:
        middle = (low + high) >> 1
        if hidden[middle] < fact:
            low = middle + 1
        else:
            high = middle
    return low < len(hidden) and hidden[low] == fact


@inline_kernel
def _visible(table: StepTable, group: int, hidden: Longs) -> int:
    """Return the number of steps of a group that use no hidden fact."""
    count = table.group_starts[group + 1] - table.group_starts[group]
    if len(hidden):
        for step in range(table.group_starts[group], table.group_starts[group + 1]):
            count -= _is_hidden(hidden, table.facts[step])
    return int(count)


@inline_kernel
def _is_outside(members: Members, fact: int, target: int, is_last: bool) -> bool:
    """Return whether a step leaves the members; the target of a last step is one."""
    now = members.number[0]
    outside = not is_last and members.marks[target] != now
    if len(members.fact_starts):
        for i in range(members.fact_starts[fact], members.fact_starts[fact + 1]):
            obj = members.fact_objects[i]
            outside |= members.marks[obj] != now and not (is_last and obj == target)
    return outside


@inner_kernel
def _extend(
    table: StepTable,
    members: Members,
    start: int,
    hidden: Longs,
    label: int,
    depth: int,
    is_last: bool,
    max_set: int,
    scratch: WalkScratch,
) -> int:
    """Fill the set of one depth from the set before it; return its size, 0 if it is too large, or PAUSED."""
    state, bounded = scratch.state, len(members.marks) > 0
    if state[SOURCE] == 0:
        scratch.stamp[0] += 1
        state[SIZE] = 0
    stamp, size = scratch.stamp[0], state[SIZE]
    before = scratch.sizes[depth - 1] if depth else 1
    for i in range(state[SOURCE], before):
        if state[WORK] <= 0:
            state[SOURCE], state[SIZE] = i, size
            return PAUSED
        state[WORK] -= 1
        obj = scratch.objects[depth - 1, i] if depth else start
        ways = scratch.counts[depth - 1, i] if depth else 1.0
        group = _group(table, obj, label)
        if group < 0:
            continue
        state[WORK] -= table.group_starts[group + 1] - table.group_starts[group]
        mass = scratch.masses[depth - 1, i] if depth else 1.0
        mass /= max(1, _visible(table, group, hidden))
        for step in range(table.group_starts[group], table.group_starts[group + 1]):
            target = table.targets[step]
            if target == start or _is_hidden(hidden, table.facts[step]):
                continue
            if bounded and _is_outside(members, table.facts[step], target, is_last):
                continue
            chance = table.chances[step] if len(table.chances) else 1.0
            if scratch.seen[target] == stamp:
                scratch.counts[depth, scratch.slots[target]] += ways * chance
                scratch.masses[depth, scratch.slots[target]] += mass * chance
            else:
                if size == max_set:
                    state[SOURCE] = 0
                    return 0
                scratch.seen[target] = stamp
                scratch.slots[target] = size
                scratch.objects[depth, size] = target
                scratch.counts[depth, size] = ways * chance
                scratch.masses[depth, size] = mass * chance
                size += 1
    state[SOURCE] = 0
    return int(size)


@kernel
def reach(
    table: StepTable,
    members: Members,
    start: int,
    hidden: Longs,
    paths: Ints,
    first: int,
    max_set: int,
    max_first: int,
    budget: int,
    scratch: WalkScratch,
    objects: Ints,
    formulas: Ints,
    counts: Reals,
    masses: Reals,
) -> int:
    """Write the objects that each path reaches from `start`, with the number of walks.

    `paths` (p, steps) are sorted, so that a prefix that paths share is walked once. A path with a set of more than
    `max_set` objects reaches none; a path of one step may reach `max_first`. Formulas are numbered from `first`.
    Entries are written from `state[END]` on; the other items of the state are 0 at the beginning, and the depth −1.
    Returns the end of the entries, FULL, or PAUSED after about `budget` steps.
    """
    state, bounded = scratch.state, len(members.marks) > 0
    state[WORK] = budget
    while state[PATH] < len(paths):
        k, length = state[PATH], 0
        while length < paths.shape[1] and paths[k, length] >= 0:
            length += 1
        if state[DEPTH] < 0:
            depth = 0
            if k:
                while depth < length and depth < state[VALID] and paths[k, depth] == paths[k - 1, depth]:
                    depth += 1
            state[DEPTH] = depth
        depth = state[DEPTH]
        walking = depth == 0 or scratch.sizes[depth - 1] > 0
        while walking and depth < length:
            is_last = depth == length - 1
            most = max_first if length == 1 else max_set
            size = _extend(table, members, start, hidden, paths[k, depth], depth, is_last, most, scratch)
            if size == PAUSED:
                return PAUSED
            scratch.sizes[depth] = size
            walking = size > 0
            depth += 1
            state[DEPTH] = depth
        if walking:
            at, size = state[END], scratch.sizes[length - 1]
            if at + size > len(objects):
                return FULL
            for i in range(size):
                objects[at + i] = scratch.objects[length - 1, i]
                formulas[at + i] = first + k
                counts[at + i] = scratch.counts[length - 1, i]
                masses[at + i] = scratch.masses[length - 1, i]
            state[END] = at + size
            if length == 1 and size > max_set:
                scratch.sizes[0] = 0  # no path goes on from there
        # the last set has objects that are no members: no path goes on from it
        state[VALID] = min(depth, length - 1) if bounded else depth
        state[PATH], state[DEPTH] = k + 1, -1
    return int(state[END])


@kernel
def link(
    table: StepTable,
    members: Members,
    step_labels: Ints,
    kinds: Bools,
    start: int,
    hidden: Longs,
    walks: float,
    formula: int,
    begin: int,
    scratch: WalkScratch,
    absent: Floats,
    objects: Ints,
    formulas: Ints,
    counts: Reals,
    masses: Reals,
) -> int:
    """Write the objects that a step with a label of a kind links with `start`, ascending, from entry `begin` on.

    `kinds` (labels,) says which labels count. The value is that of `walks` walks, times the probability that such a
    fact is present; `absent` (objects,) is scratch space if facts are uncertain. Returns the end of the entries, or
    FULL.
    """
    at, bounded, uncertain = begin, len(members.marks) > 0, len(table.chances) > 0
    scratch.stamp[0] += 1
    stamp = scratch.stamp[0]
    for step in range(table.group_starts[table.starts[start]], table.group_starts[table.starts[start + 1]]):
        target = table.targets[step]
        if target == start or not kinds[step_labels[step]] or _is_hidden(hidden, table.facts[step]):
            continue
        if bounded and _is_outside(members, table.facts[step], target, True):
            continue
        if scratch.seen[target] != stamp:
            if at == len(objects):
                return FULL
            scratch.seen[target] = stamp
            objects[at] = target
            at += 1
            if uncertain:
                absent[target] = 0.0
        if uncertain:
            absent[target] += np.log1p(-min(np.float64(table.chances[step]), 1.0 - 1e-12))
    sort(objects, begin, at)
    for i in range(begin, at):
        share = np.float32(-np.expm1(absent[objects[i]])) if uncertain else np.float32(1.0)
        formulas[i] = formula
        counts[i] = np.float32(walks) * share
        masses[i] = share
    return at


@kernel
def match_constants(
    table: StepTable,
    members: Members,
    start: int,
    hidden: Longs,
    codes: Longs,
    candidates: Ints,
    num_objects: int,
    first: int,
    walks: float,
    begin: int,
    objects: Ints,
    formulas: Ints,
    counts: Reals,
    masses: Reals,
) -> int:
    """Write the candidates of the formulas whose fact with a constant `start` has, from entry `begin` on.

    `codes` (m,) ascend: label · num_objects + constant. The value of a formula is that of `walks` walks, times the
    probability that such a fact is present, among the members. `start` is no candidate. Returns the end of the entries,
    or FULL.
    """
    at, bounded = begin, len(members.marks) > 0
    for group in range(table.starts[start], table.starts[start + 1]):
        step, last = table.group_starts[group], table.group_starts[group + 1]
        while step < last:
            target, absent = table.targets[step], 1.0
            while step < last and table.targets[step] == target:
                outside = bounded and _is_outside(members, table.facts[step], target, False)
                if not outside and not _is_hidden(hidden, table.facts[step]):
                    absent *= 1.0 - table.chances[step] if len(table.chances) else 0.0
                step += 1
            if absent == 1.0:
                continue
            code = np.int64(table.labels[group]) * num_objects + target
            low, high = 0, len(codes)
            while low < high:
                middle = (low + high) >> 1
                if codes[middle] < code:
                    low = middle + 1
                else:
                    high = middle
            while low < len(codes) and codes[low] == code:
                if candidates[low] != start:
                    if at == len(objects):
                        return FULL
                    objects[at] = candidates[low]
                    formulas[at] = first + low
                    counts[at] = walks * (1.0 - absent)
                    masses[at] = 0.0
                    at += 1
                low += 1
    return at


class PathScratch(NamedTuple):
    """Scratch space for the search of paths."""

    on_path: npt.NDArray[np.uint8]
    """Shape (objects,), zeros."""
    distance: npt.NDArray[np.int8]
    """Shape (objects,): UNREACHED, or the distance to the end."""
    queue: Ints
    """Shape (objects,)."""
    steps: Longs
    """Shape (4, steps + 1): for each depth, the next step, its end, the object and the code."""


@kernel
def find_paths(
    table: StepTable,
    start: int,
    end: int,
    hidden: Longs,
    base: int,
    max_steps: int,
    max_degree: int,
    budget: int,
    group_labels: Ints,
    redundant: Bools,
    scratch: PathScratch,
    codes: Longs,
    begin: int,
) -> int:
    """Write the codes of the simple paths from `start` to `end`, from `begin` on; return the end of the codes.

    Paths of several steps have no redundant labels.

    The code of labels a, b, c is ((a + 1)·base + b + 1)·base + c + 1. Objects with more than `max_degree` steps are not
    passed. The search ends after `budget` steps, or when the codes are full. A path can be found several times.
    """
    reached = _distances(table, end, max_steps, max_degree, scratch)
    at, looked, depth = begin, 0, 0
    _enter(table, start, 0, 0, scratch)
    while depth >= 0 and looked < budget and at < len(codes):
        step = scratch.steps[0, depth]
        if step >= scratch.steps[1, depth]:
            scratch.on_path[scratch.steps[2, depth]] = 0
            depth -= 1
            continue
        scratch.steps[0, depth] += 1
        looked += 1
        target = table.targets[step]
        if scratch.on_path[target] or _is_hidden(hidden, table.facts[step]):
            continue
        label = group_labels[step]
        if redundant[label] and (depth > 0 or target != end):
            continue
        code = scratch.steps[3, depth] * base + label + 1
        if target == end:
            codes[at] = code
            at += 1
        elif scratch.distance[target] <= max_steps - depth - 1 and _degree(table, target) <= max_degree:
            depth += 1
            _enter(table, target, depth, code, scratch)
    while depth >= 0:
        scratch.on_path[scratch.steps[2, depth]] = 0
        depth -= 1
    for i in range(reached):
        scratch.distance[scratch.queue[i]] = UNREACHED
    return at


@inline_kernel
def _degree(table: StepTable, obj: int) -> int:
    return int(table.group_starts[table.starts[obj + 1]] - table.group_starts[table.starts[obj]])


@inline_kernel
def _enter(table: StepTable, obj: int, depth: int, code: int, scratch: PathScratch) -> None:
    """Put an object on the path."""
    scratch.steps[0, depth] = table.group_starts[table.starts[obj]]
    scratch.steps[1, depth] = table.group_starts[table.starts[obj + 1]]
    scratch.steps[2, depth] = obj
    scratch.steps[3, depth] = code
    scratch.on_path[obj] = 1


@inner_kernel
def _distances(table: StepTable, end: int, max_steps: int, max_degree: int, scratch: PathScratch) -> int:
    """Fill in the distances to `end` below `max_steps`; return the number of objects in the queue."""
    count, at = 1, 0
    scratch.queue[0] = end
    scratch.distance[end] = 0
    while at < count:
        obj = scratch.queue[at]
        at += 1
        far = scratch.distance[obj] >= max_steps - 1
        if far or (obj != end and _degree(table, obj) > max_degree):
            continue
        for step in range(table.group_starts[table.starts[obj]], table.group_starts[table.starts[obj + 1]]):
            target = table.targets[step]
            if scratch.distance[target] == UNREACHED:
                scratch.distance[target] = scratch.distance[obj] + 1
                scratch.queue[count] = target
                count += 1
    return count

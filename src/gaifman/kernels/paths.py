"""The common features, without tables: what links the tuple's objects to each other and to the members around them.

For each object of the tuple and each member, the labels of the facts between the two are listed once. Every feature of
the families below is read off these lists: only facts that are there are visited, however many features there are.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gaifman.kernels.compiling import compiled
from gaifman.kernels.local import NO_KEY, Incidence, Links, visible
from gaifman.kernels.sets import Ints, Longs

NONE = -1


class Families(NamedTuple):
    """Features by what they ask for; −1 where no feature asks. A label is a row of the graph's label table."""

    hop: Ints
    """Shape (n, labels): ∃x r(s_i, x), and the like with the places of the label."""
    hops: Ints
    """Shape (n, labels): the number of x."""
    pair: Ints
    """Shape (n, n, labels): r(s_i, s_j)."""
    linked: Ints
    """Shape (n, n): ∃r r(s_i, s_j)."""
    kind: Ints
    """Shape (n, relations): r(s_i)."""
    begins: npt.NDArray[np.uint8]
    """Shape (n, n, labels): whether a path from s_i to s_j begins with the label."""
    keys: Longs
    """Shape (a power of two,): paths of two steps, hashed; −1 where free."""
    path: Ints
    """Shape as keys: ∃x r(s_i, x) ∧ q(x, s_j)."""
    paths: Ints
    """Shape as keys: the number of x."""
    walked: npt.NDArray[np.uint8]
    """Shape (n, n): whether any path leads from s_i to s_j."""
    wanted: bool
    """Whether there is any feature here at all."""


class Lists(NamedTuple):
    """What one thread lists: labels between an object of the tuple and a member."""

    labels: Ints
    """Shape (room,)."""
    starts: Ints
    """Shape (n, members + 1): where the labels of each pair begin."""


class Sums(NamedTuple):
    """Values of the features met in one row."""

    marks: Ints
    """Shape (features,): the row, from 1, in which a feature was last met."""
    values: npt.NDArray[np.float32]
    """Shape (features,)."""


@compiled
def path_key(pair: int, first: int, second: int, labels: int) -> int:
    """One number for a path: which two objects, and the labels seen from either end."""
    return int((np.int64(pair) * labels + first) * labels + second)


@compiled
def slot_of(keys: Longs, key: int) -> int:
    """Where a path stands in the hashed table, or the free slot where it would."""
    last = len(keys) - 1
    slot = (np.int64(key) * 0x9E3779B1 >> 15) & last
    while keys[slot] != NONE and keys[slot] != key:
        slot = (slot + 1) & last
    return int(slot)


@compiled
def listed(
    links: Links, facts: Incidence, members: Ints, own: Ints, hidden: Longs, key: np.uint64, lists: Lists
) -> bool:
    """List the labels of facts with two places between each object of the tuple and each member; False for no room.

    The innermost loop stands here and not in a function: handing it a dozen arrays would take longer than its work.
    """
    neighbours, label_starts, labels, binary = links.neighbours, links.label_starts, links.labels, links.binary
    found, starts, room = lists.labels, lists.starts, len(lists.labels)
    at, numbers, sure = 0, links.facts, len(facts.confidence) == 0 or key == NO_KEY
    for i in range(len(own)):
        one = members[own[i]]
        begin, end = links.starts[one], links.starts[one + 1]
        low, before = begin, np.int32(-1)
        for j in range(len(members)):
            starts[i, j] = at
            other = members[j]
            if other == one:
                at = _loops(links, facts, one, hidden, key, lists, at)
                if at < 0:
                    return False
                continue
            if other < before:
                low = begin  # the tuple's own objects stand in front, in no order; the others ascend
            low, before = ahead(neighbours, low, end, other), other
            if low < end and neighbours[low] == other:
                last = label_starts[low + 1]
                if at + last - label_starts[low] > room:
                    return False
                for q in range(label_starts[low], last):
                    seen = binary[labels[q]] != 0
                    for h in range(len(hidden)):
                        seen = seen and numbers[q] != hidden[h]
                    if seen and (sure or visible(facts, numbers[q], hidden, key)):
                        found[at] = labels[q]
                        at += 1
        starts[i, len(members)] = at
    return True


@compiled
def ahead(run: Ints, low: int, end: int, wanted: int) -> int:
    """The first place of `run[low:end]`, ascending, that is not below `wanted`.

    Guessed as if the numbers were evenly spread, then closed in on from there: two or three looks where they nearly
    are, and never many more than bisection needs.
    """
    if low == end or run[low] >= wanted:
        return low
    high = end - 1
    if run[high] < wanted:
        return end
    guess = low + int((wanted - run[low]) * (high - low) / (run[high] - run[low]))
    step = 1
    if run[guess] < wanted:
        low = guess
        while low + step < high and run[low + step] < wanted:
            low += step
            step *= 2
        high = min(low + step, high)
    else:
        high = guess
        while high - step > low and run[high - step] >= wanted:
            high -= step
            step *= 2
        low = max(high - step, low)
    while low + 1 < high:  # run[low] < wanted <= run[high]
        middle = (low + high) >> 1
        if run[middle] < wanted:
            low = middle
        else:
            high = middle
    return high


@compiled
def _loops(links: Links, facts: Incidence, one: int, hidden: Longs, key: np.uint64, lists: Lists, at: int) -> int:
    """r(a, a) has both labels of r between a and a."""
    for p in range(facts.own_starts[one], facts.own_starts[one + 1]):
        fact = facts.own[p]
        if facts.starts[fact + 1] - facts.starts[fact] == 2 and visible(facts, fact, hidden, key):
            if at + 2 > len(lists.labels):
                return -1
            label = links.bases[facts.relations[fact]]
            lists.labels[at], lists.labels[at + 1] = label, label + 1
            at += 2
    return at


@compiled
def _meet(sums: Sums, feature: int, row: int, add: bool, met: Ints, count: int) -> int:
    """A feature is true once more: counted, or true at all; the number of features met in the row."""
    if feature < 0:
        return count
    if sums.marks[feature] != row + 1:
        sums.marks[feature] = row + 1
        sums.values[feature] = 1.0
        met[count] = feature
        return count + 1
    if add:
        sums.values[feature] += np.float32(1.0)
    return count


@compiled
def met_features(
    families: Families,
    links: Links,
    facts: Incidence,
    members: Ints,
    own: Ints,
    hidden: Longs,
    key: np.uint64,
    lists: Lists,
    sums: Sums,
    row: int,
    met: Ints,
) -> int:
    """The features of a row that are not 0, into `met` with their values in `sums`; how many."""
    count = 0
    for i in range(len(own)):
        count = _around(families, members, i, lists, sums, row, met, count)
        for j in range(len(own)):
            count = _between(families, links, own, i, j, lists, sums, row, met, count)
            if families.walked[i, j]:
                count = _two_steps(families, len(members), i, j, lists, sums, row, met, count)
        one = members[own[i]]
        for p in range(facts.own_starts[one], facts.own_starts[one + 1]):
            fact = facts.own[p]
            feature = families.kind[i, facts.relations[fact]]
            if feature >= 0 and facts.starts[fact + 1] - facts.starts[fact] == 1 and visible(facts, fact, hidden, key):
                count = _meet(sums, feature, row, False, met, count)
    return count


@compiled
def _around(
    families: Families, members: Ints, i: int, lists: Lists, sums: Sums, row: int, met: Ints, count: int
) -> int:
    for q in range(lists.starts[i, 0], lists.starts[i, len(members)]):
        label = lists.labels[q]
        count = _meet(sums, families.hop[i, label], row, False, met, count)
        count = _meet(sums, families.hops[i, label], row, True, met, count)
    return count


@compiled
def _between(
    families: Families,
    links: Links,
    own: Ints,
    i: int,
    j: int,
    lists: Lists,
    sums: Sums,
    row: int,
    met: Ints,
    count: int,
) -> int:
    for q in range(lists.starts[i, own[j]], lists.starts[i, own[j] + 1]):
        label = lists.labels[q]
        count = _meet(sums, families.pair[i, j, label], row, False, met, count)
        if links.label_table[label, 1] == 0:
            count = _meet(sums, families.linked[i, j], row, False, met, count)
    return count


@compiled
def _two_steps(
    families: Families, size: int, i: int, j: int, lists: Lists, sums: Sums, row: int, met: Ints, count: int
) -> int:
    width, labels = families.hop.shape
    for x in range(size):
        begin, end = lists.starts[j, x], lists.starts[j, x + 1]
        if begin == end:
            continue
        for q in range(lists.starts[i, x], lists.starts[i, x + 1]):
            first = lists.labels[q]
            if families.begins[i, j, first]:
                for s in range(begin, end):
                    slot = slot_of(families.keys, path_key(i * width + j, first, lists.labels[s], labels))
                    if families.keys[slot] != NONE:
                        count = _meet(sums, families.path[slot], row, False, met, count)
                        count = _meet(sums, families.paths[slot], row, True, met, count)
    return count

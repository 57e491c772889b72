"""What is between the objects of a tuple and the members around them, listed for one neighbourhood."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gaifman.kernels.collections import Bytes, Ints, Longs, Words
from gaifman.kernels.graph import LabelledGraph
from gaifman.kernels.jit import inline_kernel, kernel
from gaifman.kernels.rng import mix
from gaifman.kernels.rows import RowBuffer, increment_feature, set_feature

LISTED = -2
"""In place of a bond: not all of its labels are visible, and those that are stand in a list."""


class LabelLists(NamedTuple):
    """What one thread lists."""

    edges: Longs
    """Shape (members,): edges of the graph from one object of the tuple to members."""
    places: Ints
    """Shape (members,): which member each leads to."""
    label_sets: Ints
    """Shape (n, members): the list of labels between an object of the tuple and a member; NONE, or LISTED below."""
    begins: Ints
    """Shape (n, members): where the labels begin that are listed below, because not all of the bond's are visible."""
    ends: Ints
    """Shape (n, members): where they end."""
    labels: Ints
    """Shape (room,)."""
    near: Ints
    """Shape (members,): members that a path of three steps may go to first."""
    far: Ints
    """Shape (members,): members that it may come from last."""
    bits: Words
    """Shape (2, members): for each of these, the bits of labels by which the path may end."""


@inline_kernel
def count_distinct(own: Ints) -> int:
    """How many different objects the tuple has: they stand in front."""
    most = 0
    for at in own:
        most = max(most, at + 1)
    return most


@inline_kernel
def is_first(own: Ints, i: int) -> bool:
    """Whether no earlier object of the tuple is the same as the i-th."""
    for earlier in range(i):  # noqa: SIM110 - a kernel has no generators
        if own[earlier] == own[i]:
            return False
    return True


@inline_kernel
def append_labels(graph: LabelledGraph, lists: LabelLists, i: int, x: int, at: int) -> int:
    """The labels between object i of the tuple and member x, from `at` on; where they end, −1 for no room."""
    bond = lists.label_sets[i, x]
    if bond == LISTED:
        first, last = lists.begins[i, x], lists.ends[i, x]
    else:
        first, last = graph.label_set_starts[bond], graph.label_set_starts[bond + 1]
    if at + last - first > len(lists.labels):
        return -1
    for q in range(first, last):
        lists.labels[at] = lists.labels[q] if bond == LISTED else graph.label_set_labels[q]
        at += 1
    return at


@inline_kernel
def set_hashed_features(table: HashTable, key: int, buffer: RowBuffer) -> None:
    """What stands for a number is true, once more."""
    slot = find_slot(table, key)
    if table[slot, 0] != NONE:
        some, many = exists_feature(table[slot, 1]), count_feature(table[slot, 1])
        if some >= 0:
            set_feature(buffer, some)
        if many >= 0:
            increment_feature(buffer, many)


NONE = -1


HashTable = Longs
"""Features by a number made of several: shape (a power of two, 2), a number, −1 where free, and its features, side by
side so that one look finds both: the one that asks whether there is any, and the one that asks how many; `exists_feature`."""


class TemplateIndex(NamedTuple):
    """Features by what they ask for; −1 where no feature asks. A label is a row of the graph's label table."""

    hop: Ints
    """Shape (n, labels): ∃x r(s_i, x), and the like with the places of the label."""
    label_set_hop: Ints
    """Shape (n, labels of all bonds): the same along the lists of labels that edges have."""
    hop_counts: Ints
    """Shape (n, labels): the number of x."""
    pair: Ints
    """Shape (n, n, labels): r(s_i, s_j)."""
    linked: Ints
    """Shape (n, n): ∃r r(s_i, s_j)."""
    unary: Ints
    """Shape (n, relations): r(s_i)."""
    constant_labels: Words
    """Shape (n, a power of two): by the last digits of a constant c, the bits of labels in features r(s_i, c)."""
    constants: HashTable
    """r(s_i, c)."""
    path_next: Words
    """Shape (n, n, labels): what may follow the label on a path of two steps from s_i to s_j; see `label_bit`."""
    path_lengths: Bytes
    """Shape (n, n): how far features go from s_i to s_j: bit 0 for two steps, bit 1 for three."""
    path: HashTable
    """∃x r(s_i, x) ∧ q(x, s_j)."""
    walk_next: Words
    """Shape (n, n, labels): the same for paths of three steps."""
    walk_ends: Words
    """Shape (n, n, labels): other than 0 where one ends with the label, seen from s_j."""
    walk_last: Words
    """Shape (n, n, labels): the bits of what may end a path of three steps that begins with the label."""
    label_set_walk_last: Words
    """Shape (n, n, bonds): the same for all labels of a bond together."""
    label_set_walk_ends: Words
    """Shape (n, n, bonds): the bits of those labels of a bond that may end such a path."""
    walk: HashTable
    """∃x, y r(s_i, x) ∧ q(x, y) ∧ p(y, s_j)."""
    nary_starts: Longs
    """Shape (relations + 1,): rows of `wide`."""
    nary: Ints
    """Shape (features, 10): of an atom of three places or more the feature, whether it counts, and which of the tuple's
    objects stands at each place; −1 for a variable of its own."""
    duplicates: Ints
    """Shape (any, 2): a feature, and another that asks for the same."""
    needs: Bytes
    """Shape (4,): whether there are features at all that need a step, count steps, have a constant, or are wide: by the
    names below."""


STEP, COUNTS, CONSTANTS, NARY = range(4)
TWO_STEPS, THREE_STEPS = 1, 2


@kernel
def label_bit(label: int) -> np.uint64:
    """A bit for a label; different labels may have the same. The bits of all that may follow make a word."""
    return np.uint64(1) << np.uint64(label & 63)


@kernel
def constant_key(i: int, label: int, labels: int, obj: int, objects: int) -> int:
    """One number for a fact of an object of the tuple with a constant."""
    return int((np.int64(i) * labels + label) * objects + obj)


@kernel
def path_key(pair: int, first: int, second: int, labels: int) -> int:
    """One number for a path: which two objects, and the labels seen from either end."""
    return int((np.int64(pair) * labels + first) * labels + second)


@kernel
def walk_key(pair: int, first: int, middle: int, last: int, labels: int) -> int:
    """One number for a path of three steps: the labels of its ends seen from there, the middle one from the first."""
    return int(path_key(pair, first, middle, labels) * labels + last)


@kernel
def find_slot(table: HashTable, key: int) -> int:
    """Where a number stands in a hashed table, or the free slot where it would."""
    last = len(table) - 1
    slot = np.int64(mix(np.uint64(key))) & last
    while table[slot, 0] != NONE and table[slot, 0] != key:
        slot = (slot + 1) & last
    return int(slot)


@kernel
def pack_features(some: int, many: int) -> int:
    """Two features as one number, each −1 where there is none."""
    return int(np.int64(some + 1) << 32 | np.int64(many + 1))


@kernel
def exists_feature(features: int) -> int:
    """The feature that asks whether there is any; −1 for none."""
    return int((features >> 32) - 1)


@kernel
def count_feature(features: int) -> int:
    """The feature that asks how many there are; −1 for none."""
    return int((features & 0xFFFFFFFF) - 1)

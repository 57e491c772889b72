"""Index of the features that have a template, and the labels between the objects of a tuple and the members."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gaifman.kernels.collections import Bytes, Ints, Longs, Words
from gaifman.kernels.graph import LabelledGraph
from gaifman.kernels.jit import inline_kernel, kernel
from gaifman.kernels.rng import mix
from gaifman.kernels.rows import RowBuffer, increment_feature, set_feature

LISTED = -2
"""In `LabelLists.label_sets`: the visible labels stand in `LabelLists.labels`, because some of the edge's labels are
hidden.
"""


class LabelLists(NamedTuple):
    """Buffers of one thread: labels between the objects of the tuple and the members."""

    edges: Longs
    """Shape (members,): edges from one object of the tuple to members."""
    member_indices: Ints
    """Shape (members,): the member at the end of each edge."""
    label_sets: Ints
    """Shape (n, members): the label set between an object of the tuple and a member, or `NONE`, or `LISTED`."""
    begins: Ints
    """Shape (n, members): the start in `labels` for a `LISTED` pair."""
    ends: Ints
    """Shape (n, members): the end."""
    labels: Ints
    """Shape (capacity,)."""
    first_steps: Ints
    """Shape (members,): members that may be the first on a walk of three steps."""
    last_steps: Ints
    """Shape (members,): members that may be the last on it."""
    bits: Words
    """Shape (2, members): for these members, the bits of the labels that may end the walk."""


@inline_kernel
def count_distinct(own: Ints) -> int:
    """Return the number of different objects of the tuple. They are the first members."""
    count = 0
    for at in own:
        count = max(count, at + 1)
    return count


@inline_kernel
def is_first(own: Ints, i: int) -> bool:
    """Return whether no earlier object of the tuple equals the i-th."""
    for earlier in range(i):  # noqa: SIM110 - a kernel has no generators
        if own[earlier] == own[i]:
            return False
    return True


@inline_kernel
def append_labels(graph: LabelledGraph, lists: LabelLists, i: int, x: int, at: int) -> int:
    """Append the labels between object i of the tuple and member x from index `at` on. Return their end, −1 if full."""
    label_set = lists.label_sets[i, x]
    if label_set == LISTED:
        first, last = lists.begins[i, x], lists.ends[i, x]
    else:
        first, last = graph.label_set_starts[label_set], graph.label_set_starts[label_set + 1]
    if at + last - first > len(lists.labels):
        return -1
    for q in range(first, last):
        lists.labels[at] = lists.labels[q] if label_set == LISTED else graph.label_set_labels[q]
        at += 1
    return at


@inline_kernel
def set_hashed_features(table: HashTable, key: int, buffer: RowBuffer) -> None:
    """Set or increment the features of a key, if there are any."""
    slot = find_slot(table, key)
    if table[slot, 0] != NONE:
        exists, count = exists_feature(table[slot, 1]), count_feature(table[slot, 1])
        if exists >= 0:
            set_feature(buffer, exists)
        if count >= 0:
            increment_feature(buffer, count)


NONE = -1


HashTable = Longs
"""Features by key, shape (a power of two, 2): the key or −1, and the features packed by `pack_features`."""


class TemplateIndex(NamedTuple):
    """Features by template; −1 where there is none. A label is a row of the graph's label table."""

    hop: Ints
    """Shape (n, labels): ∃x r(s_i, x), with the positions of the label."""
    label_set_hop: Ints
    """Shape (n, labels of all label sets): the same along `LabelledGraph.label_set_labels`."""
    hop_counts: Ints
    """Shape (n, labels): the number of x."""
    pair: Ints
    """Shape (n, n, labels): r(s_i, s_j)."""
    linked: Ints
    """Shape (n, n): ∃r r(s_i, s_j)."""
    unary: Ints
    """Shape (n, relations): r(s_i)."""
    constant_labels: Words
    """Shape (n, a power of two): by the low bits of a constant c, the bits of the labels in features r(s_i, c)."""
    constants: HashTable
    """r(s_i, c)."""
    path_next: Words
    """Shape (n, n, labels): the bits of the labels that may follow on a path of two steps; see `label_bit`."""
    path_lengths: Bytes
    """Shape (n, n): the lengths of the paths from s_i to s_j, as bits `TWO_STEPS` and `THREE_STEPS`."""
    path: HashTable
    """∃x r(s_i, x) ∧ q(x, s_j)."""
    walk_next: Words
    """Shape (n, n, labels): the bits of the labels that may follow on a walk of three steps."""
    walk_ends: Words
    """Shape (n, n, labels): not 0 if a walk ends with the label, seen from s_j."""
    walk_last: Words
    """Shape (n, n, labels): the bits of the labels that may end a walk that begins with the label."""
    label_set_walk_last: Words
    """Shape (n, n, label sets): the union over the labels of a set."""
    label_set_walk_ends: Words
    """Shape (n, n, label sets): the bits of the labels of a set that may end a walk."""
    walk: HashTable
    """∃x, y r(s_i, x) ∧ q(x, y) ∧ p(y, s_j)."""
    nary_starts: Longs
    """Shape (relations + 1,): rows of `nary`."""
    nary: Ints
    """Shape (features, 10): for an atom of three or more positions the feature, whether it counts, and the object of
    the tuple at each position; −1 for a variable.
    """
    value: Ints
    """Shape (n, attributes): a(s_i)."""
    difference_starts: Longs
    """Shape (n · attributes + 1,): rows of `differences` by i · attributes + a."""
    differences: Ints
    """Shape (features, 3): for a(s_i) − b(s_j) the feature, j, and b."""
    duplicates: Ints
    """Shape (any, 2): a feature, and another with the same meaning."""
    needs: Bytes
    """Shape (5,): whether any feature needs a step, counts steps, has a constant, is n-ary, or is a number; by the
    names below.
    """


STEP, COUNTS, CONSTANTS, NARY, NUMBERS = range(5)
TWO_STEPS, THREE_STEPS = 1, 2


@kernel
def label_bit(label: int) -> np.uint64:
    """Return a bit for a label. Different labels may share one; a word holds the bits of a set of labels."""
    return np.uint64(1) << np.uint64(label & 63)


@kernel
def constant_key(i: int, label: int, labels: int, obj: int, objects: int) -> int:
    """Return the key of a fact between object i of the tuple and a constant."""
    return int((np.int64(i) * labels + label) * objects + obj)


@kernel
def path_key(pair: int, first: int, second: int, labels: int) -> int:
    """Return the key of a path of two steps: the pair of objects, and the labels seen from either end."""
    return int((np.int64(pair) * labels + first) * labels + second)


@kernel
def walk_key(pair: int, first: int, middle: int, last: int, labels: int) -> int:
    """Return the key of a walk of three steps: outer labels seen from the ends, the middle one from the first."""
    return int(path_key(pair, first, middle, labels) * labels + last)


@kernel
def find_slot(table: HashTable, key: int) -> int:
    """Return the slot of a key, or the free slot where it belongs."""
    last = len(table) - 1
    slot = np.int64(mix(np.uint64(key))) & last
    while table[slot, 0] != NONE and table[slot, 0] != key:
        slot = (slot + 1) & last
    return int(slot)


@kernel
def pack_features(exists: int, count: int) -> int:
    """Pack an existence feature and a counting feature into one number; −1 for none."""
    return int(np.int64(exists + 1) << 32 | np.int64(count + 1))


@kernel
def exists_feature(features: int) -> int:
    """Return the existence feature of a packed pair, or −1."""
    return int((features >> 32) - 1)


@kernel
def count_feature(features: int) -> int:
    """Return the counting feature of a packed pair, or −1."""
    return int((features & 0xFFFFFFFF) - 1)

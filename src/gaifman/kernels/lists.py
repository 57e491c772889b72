"""What is between the objects of a tuple and the members around them, listed for one neighbourhood."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gaifman.kernels.compiling import inline_kernel
from gaifman.kernels.families import NONE, HashTable, count_feature, exists_feature, find_slot
from gaifman.kernels.local import LabelledGraph
from gaifman.kernels.rows import RowBuffer, increment_feature, set_feature
from gaifman.kernels.sets import Ints, Longs, Words

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


class NeighbourhoodView(NamedTuple):
    """One neighbourhood."""

    members: Ints
    edges: Ints
    """Shape as members, or (0,): an edge by which each was found."""
    own: Ints
    """Shape (n,): the places of the tuple's objects among the members."""
    hidden: Longs
    """Facts that are not visible."""
    hidden_rows: Ints
    """Shape (hidden, 3): of each that has two places its relation and objects; elsewhere −1."""
    key: np.uint64
    """For the drop-out of uncertain facts."""


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

"""What is between the objects of a tuple and the members around them, listed for one neighbourhood."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gaifman.kernels.compiling import inlined
from gaifman.kernels.families import NONE, Hashed, many_of, slot_of, some_of
from gaifman.kernels.local import Links
from gaifman.kernels.rows import Met, meet, once_more
from gaifman.kernels.sets import Ints, Longs, Words

LISTED = -2
"""In place of a bond: not all of its labels are visible, and those that are stand in a list."""


class Lists(NamedTuple):
    """What one thread lists."""

    edges: Longs
    """Shape (members,): edges of the graph from one object of the tuple to members."""
    places: Ints
    """Shape (members,): which member each leads to."""
    bonds: Ints
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


class Place(NamedTuple):
    """One neighbourhood."""

    members: Ints
    edges: Ints
    """Shape as members, or (0,): an edge by which each was found."""
    own: Ints
    """Shape (n,): the places of the tuple's objects among the members."""
    hidden: Longs
    """Facts that are not visible."""
    unseen: Ints
    """Shape (hidden, 3): of each that has two places its relation and objects; elsewhere −1."""
    key: np.uint64
    """For the drop-out of uncertain facts."""


@inlined
def different(own: Ints) -> int:
    """How many different objects the tuple has: they stand in front."""
    most = 0
    for at in own:
        most = max(most, at + 1)
    return most


@inlined
def first_of(own: Ints, i: int) -> bool:
    """Whether no earlier object of the tuple is the same as the i-th."""
    for earlier in range(i):  # noqa: SIM110 - a kernel has no generators
        if own[earlier] == own[i]:
            return False
    return True


@inlined
def put_down(links: Links, lists: Lists, i: int, x: int, at: int) -> int:
    """The labels between object i of the tuple and member x, from `at` on; where they end, −1 for no room."""
    bond = lists.bonds[i, x]
    if bond == LISTED:
        first, last = lists.begins[i, x], lists.ends[i, x]
    else:
        first, last = links.bond_starts[bond], links.bond_starts[bond + 1]
    if at + last - first > len(lists.labels):
        return -1
    for q in range(first, last):
        lists.labels[at] = lists.labels[q] if bond == LISTED else links.bond_labels[q]
        at += 1
    return at


@inlined
def meet_hashed(table: Hashed, key: int, met: Met) -> None:
    """What stands for a number is true, once more."""
    slot = slot_of(table, key)
    if table[slot, 0] != NONE:
        some, many = some_of(table[slot, 1]), many_of(table[slot, 1])
        if some >= 0:
            meet(met, some)
        if many >= 0:
            once_more(met, many)

"""Which features the specialised kernels are asked for: by the labels of facts, by pairs and triples of labels."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gaifman.kernels.compiling import kernel
from gaifman.kernels.random import mix
from gaifman.kernels.sets import Bytes, Ints, Longs, Words

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

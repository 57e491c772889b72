"""Formulas with constants: what one known fact of a fixed object says about one candidate.

>>> import gaifman
>>> from gaifman.listwise.steps import build_steps
>>> index = build_steps(gaifman.demo())
>>> mined = mine_constants(index, "official_language", fixed=0, position=1, max_formulas=2)
>>> for label, constant, candidate in zip(mined.labels, mined.constants, mined.candidates):
...     print(index.describe(label), *map(index.kb.object_name, (constant, candidate)))
member_of 1→2 arab_league arabic
member_of 1→2 commonwealth_of_nations english

The first is `member_of(s1, 'arab_league') ∧ s2 = 'arabic'`. Its support is the number of fixed objects that make
it true together with an answer; its confidence is the share of these among all fixed objects with the fact. Formulas
that raise the share of the candidate most, over all their fixed objects, are kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from gaifman.errors import InputError
from gaifman.io.model_file import Arrays, require_array
from gaifman.kb.tables import Floats, Ints, Longs, concatenate_ranges, freeze
from gaifman.listwise.steps import StepIndex

MIN_SUPPORT = 3
"""Fixed objects that a formula must be true of; chosen on validation facts."""
CONFIDENCE_PRIOR = 5.0
"""Fixed objects without the answer that are added to those of each formula."""
MAX_JOINED = 20_000_000
"""Pairs of a known fact and an answer that are counted: the first ones by fixed object, if there are more."""


@dataclass(frozen=True, slots=True)
class MinedConstants:
    """Formulas with constants from one fixed position to the open one, sorted by label, constant and candidate."""

    codes: Longs
    """Shape (m,), int64, ascending: label · objects + constant, of the fact that the fixed object must have."""
    candidates: Ints
    """Shape (m,), int32: the object at the open position."""
    support: Longs
    """Shape (m,), int64: fixed objects with the fact and the answer."""
    confidence: Floats
    """Shape (m,), float64: their share of the fixed objects with the fact."""
    objects: int
    """Number of objects of the knowledge base."""

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def labels(self) -> Ints:
        """Shape (m,), int32: the label of the fact, from the fixed object to the constant."""
        return (self.codes // self.objects).astype(np.int32)

    @property
    def constants(self) -> Ints:
        """Shape (m,), int32: objects."""
        return (self.codes % self.objects).astype(np.int32)

    @classmethod
    def none(cls) -> Self:
        """No formulas."""
        none = freeze(np.zeros(0, np.int64))
        return cls(none, freeze(np.zeros(0, np.int32)), none, freeze(np.zeros(0)), 1)

    def arrays(self, index: StepIndex, number: int) -> Arrays:
        """The arrays for a file; `number` is that of the fixed position. Objects are stored by name."""
        used, places = np.unique(np.concatenate([self.constants, self.candidates]), return_inverse=True)
        names = [index.kb.object_name(obj).encode() for obj in used.tolist()]
        return {
            f"constants/{number}/labels": self.labels,
            f"constants/{number}/objects": places.reshape(2, -1).astype(np.int32),
            f"constants/{number}/support": self.support,
            f"constants/{number}/confidence": self.confidence,
            f"constants/{number}/names": np.frombuffer(b"".join(names), np.uint8),
            f"constants/{number}/name_ends": np.cumsum([len(name) for name in names]).astype(np.int64),
        }


def constants_from_arrays(arrays: Arrays, number: int, labels: Ints, index: StepIndex) -> tuple[MinedConstants, Longs]:
    """The formulas of arrays, and the rows they come from; those with objects that are not there are left out.

    `labels` has for each label of the arrays its number in the index, or −1.
    """
    key = f"constants/{number}"
    own = require_array(arrays, f"{key}/labels", np.int32, (None,))
    places = require_array(arrays, f"{key}/objects", np.int32, (2, len(own)))
    support = require_array(arrays, f"{key}/support", np.int64, (len(own),))
    confidence = require_array(arrays, f"{key}/confidence", np.float64, (len(own),))
    objects = _find_objects(arrays, key, index)
    for name, numbers, end in (("labels", own, len(labels)), ("objects", places, len(objects))):
        if numbers.size and (numbers.min() < 0 or numbers.max() >= end):
            raise InputError(f"the array '{key}/{name}' has numbers outside of 0 to {end - 1}")
    label, constant, candidate = labels[own], objects[places[0]], objects[places[1]]
    rows = np.flatnonzero((label >= 0) & (constant >= 0) & (candidate >= 0))
    order: Longs = rows[np.lexsort((candidate[rows], constant[rows], label[rows]))]
    codes = label[order] * np.int64(len(index.kb.objects)) + constant[order]
    columns = freeze(codes), freeze(candidate[order]), freeze(support[order]), freeze(confidence[order])
    return MinedConstants(*columns, len(index.kb.objects)), order


def _find_objects(arrays: Arrays, key: str, index: StepIndex) -> Ints:
    """The number of each named object; −1 for those that the knowledge base does not have."""
    text = require_array(arrays, f"{key}/names", np.uint8, (None,)).tobytes()
    ends = require_array(arrays, f"{key}/name_ends", np.int64, (None,))
    bounds = np.append(0, ends)
    if (np.diff(bounds) < 0).any() or bounds[-1] != len(text):
        raise InputError(f"the array '{key}/name_ends' does not fit the names")
    try:
        names = [text[begin:end].decode() for begin, end in zip(bounds[:-1].tolist(), ends.tolist(), strict=True)]
    except UnicodeDecodeError as error:
        raise InputError(f"the array '{key}/names' is not UTF-8") from error
    found = [index.kb.objects.find(name) for name in names]
    return np.array([-1 if number is None else number for number in found], np.int32)


def mine_constants(
    index: StepIndex, relation: str, fixed: int, position: int, max_formulas: int, left_out: Longs | None = None
) -> MinedConstants:
    """The formulas with constants from the object at the fixed position to the one at the open position.

    Rows of the relation's facts that are left out are not counted: they are held out.
    """
    pairs = index.kb.tuples(relation)[:, [fixed, position]].astype(np.int64)
    if left_out is not None:
        pairs = np.delete(pairs, left_out, axis=0)
    pairs = np.unique(pairs, axis=0)
    if not len(pairs) or not max_formulas:
        return MinedConstants.none()
    starts, codes = _known_facts(index, np.unique(pairs[:, 0]))
    objects = len(index.kb.objects)
    used, numbers, holders = np.unique(codes, return_inverse=True, return_counts=True)
    keep = holders[numbers] >= MIN_SUPPORT
    starts, numbers = starts[keep], numbers[keep]
    begins, ends = np.searchsorted(pairs[:, 0], starts), np.searchsorted(pairs[:, 0], starts, side="right")
    some = np.cumsum(ends - begins) <= MAX_JOINED
    begins, ends, numbers = begins[some], ends[some], numbers[some]
    answers = pairs[concatenate_ranges(begins, ends), 1]
    joined = np.repeat(numbers, ends - begins)
    other = used[joined] % objects != answers  # the fact itself says nothing
    found, support = np.unique(joined[other] * np.int64(objects) + answers[other], return_counts=True)
    found, support = found[support >= MIN_SUPPORT], support[support >= MIN_SUPPORT]
    number, candidate = np.divmod(found, objects)
    confidence = support / (holders[number] + CONFIDENCE_PRIOR)
    usual = np.bincount(pairs[:, 1], minlength=objects)[candidate] / len(np.unique(pairs[:, 0]))
    gain = support * np.log(confidence / usual)
    best = np.lexsort((found, -gain))[:max_formulas]
    best = np.sort(best[gain[best] > 0])
    return MinedConstants(
        freeze(used[number[best]].astype(np.int64)),
        freeze(candidate[best].astype(np.int32)),
        freeze(support[best].astype(np.int64)),
        freeze(confidence[best]),
        objects,
    )


def _known_facts(index: StepIndex, objects: Longs) -> tuple[Longs, Longs]:
    """What some objects are linked to: each of them with a label and a target, as label · objects + target, once."""
    table, count = index.table, len(index.kb.objects)
    bounds = table.group_starts[table.starts]
    steps = concatenate_ranges(bounds[objects], bounds[objects + 1])
    owners = np.repeat(np.arange(len(objects)), bounds[objects + 1] - bounds[objects])
    codes = index.step_labels[steps] * np.int64(count) + table.targets[steps]
    used, numbers = np.unique(codes, return_inverse=True)
    distinct = np.unique(owners * np.int64(len(used)) + numbers)
    owner, number = np.divmod(distinct, max(len(used), 1))
    return objects[owner], used[number]

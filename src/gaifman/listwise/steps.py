"""Steps along facts, for walks from object to object.

>>> from gaifman.kb.knowledge_base import KnowledgeBase
>>> kb = KnowledgeBase.from_facts([("born_in", "ada", "london"), ("city", "london"), ("plays", "ada", "oboe", "bach")])
>>> index = build_steps(kb)
>>> [index.describe(label) for label in range(len(index.labels))][:4]
['born_in 1→2', 'born_in 2→1', 'plays 1→2', 'plays 1→3']
>>> [kb.object_name(target) for target in index.targets(kb.object_id("ada"), index.label_id("born_in", 0, 1))]
['london']

A label is a relation with two of its positions. A step with that label goes from the object at the first position of a
fact to the object at the second, so a fact of arity n gives n·(n − 1) steps. The marks of an object are the labels of
its steps and its types.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gaifman.forks import cached_property
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.kb.tables import FactTable, Ints, Longs, freeze
from gaifman.kernels.walks import StepTable

Bools = npt.NDArray[np.bool_]


class Label(NamedTuple):
    """A relation and two of its positions, from 0."""

    relation: str
    source: int
    target: int


@dataclass(frozen=True)
class StepIndex:
    """The steps of a knowledge base, by object and label."""

    kb: KnowledgeBase
    labels: tuple[Label, ...]
    """All labels, by relation and positions."""
    table: StepTable
    step_labels: Ints
    """Shape (steps,), int32: the label of each step of the table."""

    @cached_property
    def _label_ids(self) -> dict[Label, int]:
        return {label: number for number, label in enumerate(self.labels)}

    def label_id(self, relation: str, source: int, target: int) -> int:
        """The number of a label; −1 if the knowledge base has no such relation."""
        return self._label_ids.get(Label(relation, source, target), -1)

    def describe(self, label: int) -> str:
        """A label as text, with positions from 1."""
        relation, source, target = self.labels[label]
        return f"{relation} {source + 1}→{target + 1}"

    def targets(self, obj: int, label: int) -> Ints:
        """Shape (targets,), int32: the objects that the steps of an object with a label lead to."""
        return self.steps(obj, label)[0]

    def steps(self, obj: int, label: int) -> tuple[Ints, Longs]:
        """The targets (steps,), int32, and the facts (steps,), int64, of the steps of an object with a label."""
        begin, end = (int(number) for number in self.table.starts[obj : obj + 2])
        group = begin + int(np.searchsorted(self.table.labels[begin:end], label))
        if group == end or self.table.labels[group] != label:
            return np.zeros(0, np.int32), np.zeros(0, np.int64)
        steps = slice(int(self.table.group_starts[group]), int(self.table.group_starts[group + 1]))
        return self.table.targets[steps], self.table.facts[steps]

    def fact(self, number: int) -> tuple[str, tuple[int, ...]]:
        """The relation and the objects of a fact."""
        arity, offset = next((n, first) for n, first in reversed([*self.kb.fact_offsets.items()]) if first <= number)
        table = self.kb.fact_tables[arity]
        relation = self.kb.content.relations[int(table.relation[number - offset])]
        return relation, tuple(table.objects[number - offset].tolist())

    def type_mark(self, relation: str) -> int:
        """The mark of a type; −1 if the relation is none."""
        return self._type_marks.get(relation, -1)

    @cached_property
    def _type_marks(self) -> dict[str, int]:
        return {name: len(self.labels) + number for number, name in enumerate(self.marks.types)}

    @cached_property
    def forwards(self) -> Bools:
        """Shape (labels,): whether a step leads to a later position of the fact."""
        return freeze(np.array([label.source < label.target for label in self.labels], bool))

    @cached_property
    def degrees(self) -> Longs:
        """Shape (objects,), int64: the number of steps out of each object."""
        return np.diff(self.table.group_starts[self.table.starts])

    @cached_property
    def marks(self) -> MarkTable:
        """The marks of each object."""
        return _build_marks(self)


class MarkTable(NamedTuple):
    """The marks of each object, ascending."""

    starts: Longs
    """Shape (objects + 1,), int64."""
    marks: Ints
    """Shape (marks of all objects,), int32: below the number of labels a label, from there on a type."""
    types: tuple[str, ...]
    """The types, in the order of their numbers."""


def labels_of(relations: Iterable[tuple[str, int]]) -> tuple[Label, ...]:
    """All labels of relations, which are given with their arities."""
    return tuple(
        Label(name, source, target)
        for name, arity in relations
        for source in range(arity)
        for target in range(arity)
        if source != target
    )


def build_steps(kb: KnowledgeBase) -> StepIndex:
    """The steps of a knowledge base; it owns them, so they are built once."""
    return kb.resources.get(StepIndex, lambda: _build(kb))


def _build(kb: KnowledgeBase) -> StepIndex:
    numbers = {name: number for number, name in enumerate(kb.content.relations)}
    labels = labels_of(zip(kb.content.relations, kb.content.arities, strict=True))
    first = np.zeros(len(numbers), np.int64)  # the first label of each relation
    for label_number in range(len(labels) - 1, -1, -1):
        first[numbers[labels[label_number].relation]] = label_number
    parts = [_table_steps(table, first, kb.fact_offsets[arity]) for arity, table in kb.fact_tables.items() if arity > 1]
    none = np.zeros((0, 4), np.int64)
    steps = np.concatenate([none, *parts])  # source, label, target, fact
    order = np.lexsort((steps[:, 3], steps[:, 2], steps[:, 1], steps[:, 0]))
    return StepIndex(kb, labels, *_group_steps(steps[order], len(kb.objects)))


def _table_steps(table: FactTable, first: Longs, offset: int) -> Longs:
    """Shape (steps, 4), int64: source, label, target and fact of all steps by the facts of one arity."""
    arity, facts = table.arity, np.arange(len(table)) + offset
    pairs = [(source, target) for source in range(arity) for target in range(arity) if source != target]
    columns = [
        np.stack([table.objects[:, source], first[table.relation] + number, table.objects[:, target], facts], axis=1)
        for number, (source, target) in enumerate(pairs)
    ]
    return np.concatenate(columns).astype(np.int64)


def _group_steps(steps: Longs, objects: int) -> tuple[StepTable, Ints]:
    """The sorted steps (steps, 4) as a table, and the label of each."""
    new = np.ones(len(steps), bool)
    new[1:] = (np.diff(steps[:, 0]) != 0) | (np.diff(steps[:, 1]) != 0)
    groups = np.flatnonzero(new)
    table = StepTable(
        freeze(np.searchsorted(steps[groups, 0], np.arange(objects + 1)).astype(np.int64)),
        freeze(steps[groups, 1].astype(np.int32)),
        freeze(np.append(groups, len(steps)).astype(np.int64)),
        freeze(steps[:, 2].astype(np.int32)),
        freeze(steps[:, 3].copy()),
    )
    return table, freeze(steps[:, 1].astype(np.int32))


def _build_marks(index: StepIndex) -> MarkTable:
    kb, objects = index.kb, len(index.kb.objects)
    unary = kb.fact_tables.get(1)
    types = tuple(name for name, arity in zip(kb.content.relations, kb.content.arities, strict=True) if arity == 1)
    owners, marks = np.repeat(np.arange(objects), np.diff(index.table.starts)), index.table.labels.astype(np.int64)
    if unary is not None:
        numbers = np.full(len(kb.content.relations), -1, np.int64)
        numbers[[name in types for name in kb.content.relations]] = len(index.labels) + np.arange(len(types))
        owners = np.concatenate([owners, unary.objects[:, 0]])
        marks = np.concatenate([marks, numbers[unary.relation]])
        order = np.lexsort((marks, owners))
        owners, marks = owners[order], marks[order]
    starts = np.searchsorted(owners, np.arange(objects + 1)).astype(np.int64)
    return MarkTable(freeze(starts), freeze(marks.astype(np.int32)), types)

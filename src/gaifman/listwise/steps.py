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
its steps, its types, and thresholds that its numbers reach.

Paths and other mined formulas in the language of formulas:

>>> path = (Label("born_in", 0, 1), Label("city_of", 0, 1))
>>> print(path_feature(path, {"born_in": 2, "city_of": 2}))
born_in(s1, x1) ∧ city_of(x1, s2) ∧ x1 ≠ s1 ∧ s2 ≠ s1
>>> print(path_feature((Label("plays", 2, 0),), {"plays": 3}, start=3, end=1))
plays(s1, z1, s3) ∧ s1 ≠ s3

>>> print(constant_feature(Label("lives_in", 0, 1), 2, "oslo", "norwegian", start=1, end=2))
lives_in(s1, 'oslo') ∧ s2 = 'norwegian'
>>> print(comparison_feature("age", "<", start=2, end=1))
age(s1) > age(s2)

A path counts its groundings: the ways to walk from one object of the tuple to another without a return to the first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.kb.links import RelationLink, find_links
from gaifman.kb.tables import FactTable, Floats, Ints, Longs, concatenate_ranges, freeze, row_ids
from gaifman.kernels.listwise import Marks
from gaifman.kernels.walks import StepTable
from gaifman.logic.ast import (
    And,
    Atom,
    Attribute,
    Comparison,
    Constant,
    Equal,
    Exists,
    Feature,
    Formula,
    Not,
    Variable,
    free_variables,
    query_position,
)
from gaifman.threads import cached_property

Bools = npt.NDArray[np.bool_]
Reals = npt.NDArray[np.float32]

MIN_VALUES, PARTS = 10, 8
"""Values that an attribute needs, and parts that its objects are divided into."""

REDUNDANT_SHARE = 0.9
"""Of the facts of a relation that another one repeats, so that longer paths need only one of the two."""
MIRRORED = {"<": ">", "≤": "≥", "=": "=", "≥": "≤", ">": "<"}
"""Comparison → that of the same numbers in the other order."""


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
    thresholds: tuple[tuple[str, float], ...] = ()
    """Attributes with a value: an object with at least this value has a mark."""

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

    def facts_among(self, objects: Ints, hidden: Longs) -> Longs:
        """The facts whose objects are all among some objects, ascending, without the hidden ones."""
        bounds = self.table.group_starts[self.table.starts]
        steps = concatenate_ranges(bounds[objects], bounds[objects + 1])
        near, found = np.unique(self.table.facts[steps]), [np.zeros(0, np.int64)]
        for arity, table in self.kb.fact_tables.items():
            rows = near - self.kb.fact_offsets[arity]
            rows = rows[(rows >= 0) & (rows < len(table))] if arity > 1 else np.arange(len(table))
            inside = np.isin(table.objects[rows], objects).all(axis=1)
            found.append(rows[inside] + self.kb.fact_offsets[arity])
        facts: Longs = np.setdiff1d(np.concatenate(found), hidden)
        return facts

    def type_mark(self, relation: str) -> int:
        """The mark of a type; −1 if the relation is none."""
        return self._type_marks.get(relation, -1)

    @cached_property
    def _type_marks(self) -> dict[str, int]:
        return {name: len(self.labels) + number for number, name in enumerate(self.types)}

    @cached_property
    def types(self) -> tuple[str, ...]:
        """The relations of arity 1."""
        pairs = zip(self.kb.content.relations, self.kb.content.arities, strict=True)
        return tuple(name for name, arity in pairs if arity == 1)

    @property
    def mark_count(self) -> int:
        """The number of marks: labels, then types, then thresholds."""
        return len(self.labels) + len(self.types) + len(self.thresholds)

    @cached_property
    def forwards(self) -> Bools:
        """Shape (labels,): whether a step leads to a later position of the fact."""
        return freeze(np.array([label.source < label.target for label in self.labels], bool))

    @cached_property
    def link_kinds(self) -> tuple[Bools, Bools, Bools]:
        """Which labels link two objects at all, to a later position of the fact, and to an earlier one: (labels,)."""
        return freeze(np.ones(len(self.labels), bool)), self.forwards, freeze(~self.forwards)

    @cached_property
    def unlinked(self) -> Bools:
        """Shape (facts,): whether no other fact with as many objects has the same ones, in any order."""
        found = np.ones(sum(map(len, self.kb.fact_tables.values())), bool)
        for arity, table in self.kb.fact_tables.items():
            offset, ids = self.kb.fact_offsets[arity], row_ids(np.sort(table.objects, axis=1))[0]
            found[offset : offset + len(table)] = np.bincount(ids)[ids] == 1 if len(table) else True
        return freeze(found)

    @cached_property
    def redundant(self) -> Bools:
        """Shape (labels,): whether most steps with a label are steps with an earlier one too.

        Of two relations that are inverses or duplicates, one is redundant, and of a symmetric one, its second label.
        """
        found = np.zeros(len(self.labels), bool)
        links = [link for link in find_links(self.kb.content) if len(link.order) == 2 and _is_close(link)]
        leaders = _leaders(links)
        for number, label in enumerate(self.labels):
            found[number] = leaders.get(label.relation, label.relation) != label.relation
        for link in links:
            if link.kind == "symmetric":
                found[self.label_id(link.relation, 1, 0)] = True
        return freeze(found)

    @cached_property
    def degrees(self) -> Floats:
        """Shape (objects,), float64: the number of steps out of each object, by uncertain facts the expected one."""
        bounds = self.table.group_starts[self.table.starts]
        if not len(self.table.chances):
            return np.diff(bounds).astype(np.float64)
        sums = np.append(0.0, np.cumsum(self.table.chances, dtype=np.float64))
        return np.diff(sums[bounds])

    @cached_property
    def long_facts(self) -> tuple[Longs, Ints]:
        """The objects of each fact with more than two: starts (facts + 1,), or (0,) without such facts, and objects."""
        tables = self.kb.fact_tables
        if max(tables, default=0) <= 2:
            return freeze(np.zeros(0, np.int64)), freeze(np.zeros(0, np.int32))
        order = sorted(self.kb.fact_offsets, key=lambda arity: self.kb.fact_offsets[arity])
        sizes = [np.full(len(tables[arity]), arity if arity > 2 else 0) for arity in order]
        objects = [tables[arity].objects.ravel() for arity in order if arity > 2]
        return freeze(np.append(0, np.cumsum(np.concatenate(sizes))).astype(np.int64)), freeze(np.concatenate(objects))

    @cached_property
    def confidences(self) -> Floats:
        """Shape (facts,), float64."""
        return self.kb.confidences

    @cached_property
    def marks(self) -> Marks:
        """The marks of each object, ascending."""
        return _build_marks(self)

    @cached_property
    def mark_sets(self) -> Longs:
        """Shape (objects,), int64: the number of each object's set of marks."""
        return number_mark_sets(self.marks)

    @cached_property
    def attributes(self) -> tuple[str, ...]:
        """The attributes of thresholds, which are those with enough values."""
        return tuple(dict.fromkeys(name for name, _ in self.thresholds))

    @cached_property
    def values(self) -> tuple[tuple[Ints, Floats], ...]:
        """For each of `attributes` the objects with a value, ascending, and the values: (n,), int32 and float64."""
        table, numbers = self.kb.value_table, map(self.kb.content.attributes.find, self.attributes)
        rows = [slice(0) if number is None else table.rows(number) for number in numbers]
        return tuple((table.objects[own], table.value[own]) for own in rows)

    def with_thresholds(self, thresholds: tuple[tuple[str, float], ...]) -> StepIndex:
        """The same steps with other marks for numbers."""
        return self if thresholds == self.thresholds else replace(self, thresholds=thresholds)

    def mark_changes(self, obj: int, hidden: Longs) -> dict[int, float]:
        """Mark → what is added to its value for an object if facts are hidden."""
        changes: dict[int, float] = {}
        for fact in hidden.tolist():
            relation, members = self.fact(fact)
            if len(members) == 1 and members[0] == obj:
                changes[self.type_mark(relation)] = -float(self.confidences[fact])
            for source, member in enumerate(members):
                if member == obj:
                    for target in range(len(members)):
                        if target != source:
                            label = self.label_id(relation, source, target)
                            changes[label] = self._label_change(obj, label, hidden)
        return {mark: change for mark, change in changes.items() if change}

    def hidden_steps(self, obj: int, hidden: Longs) -> float:
        """The expected number of an object's steps by some facts."""
        return sum(
            float(self.confidences[fact]) * members.count(obj) * (len(members) - 1)
            for fact, (_, members) in ((fact, self.fact(fact)) for fact in hidden.tolist())
        )

    def _label_change(self, obj: int, label: int, hidden: Longs) -> float:
        facts = self.steps(obj, label)[1]
        left = self.confidences[facts[~np.isin(facts, hidden)]]
        return _present(left) - _present(self.confidences[facts])


def _present(confidences: Floats) -> float:
    """The probability that at least one of some facts is present."""
    return float(1 - np.prod(1 - confidences))


def labels_of(relations: Iterable[tuple[str, int]]) -> tuple[Label, ...]:
    """All labels of relations, which are given with their arities."""
    return tuple(
        Label(name, source, target)
        for name, arity in relations
        for source in range(arity)
        for target in range(arity)
        if source != target
    )


def _is_close(link: RelationLink) -> bool:
    """Whether hardly any fact lacks its counterpart."""
    return link.is_mutual and link.shared >= REDUNDANT_SHARE * max(link.facts, link.other_facts)


def _leaders(links: Sequence[RelationLink]) -> dict[str, str]:
    """Relation → the one that stands for it, among all that are linked."""
    groups: dict[str, set[str]] = {}
    for link in links:
        both = groups.get(link.relation, {link.relation}) | groups.get(link.other, {link.other})
        groups |= dict.fromkeys(both, both)
    return {name: min(group) for name, group in groups.items()}


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
    steps = steps[np.lexsort((steps[:, 3], steps[:, 2], steps[:, 1], steps[:, 0]))]
    chances = kb.confidences[steps[:, 3]] if kb.has_confidences else np.zeros(0)
    grouped = _group_steps(steps, chances.astype(np.float32), len(kb.objects))
    return StepIndex(kb, labels, *grouped, find_thresholds(kb))


def _table_steps(table: FactTable, first: Longs, offset: int) -> Longs:
    """Shape (steps, 4), int64: source, label, target and fact of all steps by the facts of one arity."""
    arity, facts = table.arity, np.arange(len(table)) + offset
    pairs = [(source, target) for source in range(arity) for target in range(arity) if source != target]
    columns = [
        np.stack([table.objects[:, source], first[table.relation] + number, table.objects[:, target], facts], axis=1)
        for number, (source, target) in enumerate(pairs)
    ]
    return np.concatenate(columns).astype(np.int64)


def find_thresholds(kb: KnowledgeBase) -> tuple[tuple[str, float], ...]:
    """Values that divide the objects of each attribute into parts of equal size.

    >>> ages = {("age", f"o{i}"): i for i in range(80)}
    >>> [round(value) for _, value in find_thresholds(KnowledgeBase.from_facts([], ages))]
    [10, 20, 30, 40, 49, 59, 69]
    """
    found = []
    for number, name in enumerate(kb.content.attributes):
        values = kb.value_table.value[kb.value_table.rows(number)]
        if len(values) >= MIN_VALUES:
            cuts = np.unique(np.quantile(values, np.arange(1, PARTS) / PARTS))
            found += [(name, float(cut)) for cut in cuts[cuts > values.min()]]
    return tuple(found)


def _group_steps(steps: Longs, chances: Reals, objects: int) -> tuple[StepTable, Ints]:
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
        freeze(chances),
    )
    return table, freeze(steps[:, 1].astype(np.int32))


def number_mark_sets(marks: Marks) -> Longs:
    """Shape (objects,), int64: objects with the same marks, of the same values, have the same number."""
    numbers: dict[bytes, int] = {}
    found = np.empty(len(marks.starts) - 1, np.int64)
    for obj in range(len(found)):
        own = slice(marks.starts[obj], marks.starts[obj + 1])
        text = marks.marks[own].tobytes() + marks.values[own].tobytes()
        found[obj] = numbers.setdefault(text, len(numbers))
    return freeze(found)


def _build_marks(index: StepIndex) -> Marks:
    kb, table = index.kb, index.table
    owners: list[npt.NDArray[np.integer]] = [np.repeat(np.arange(len(kb.objects)), np.diff(table.starts))]
    marks, values = [table.labels.astype(np.int64)], [np.ones(len(table.labels))]
    if len(table.chances):
        absent = np.log1p(-np.minimum(table.chances.astype(np.float64), 1 - 1e-12))
        values = [-np.expm1(np.add.reduceat(absent, table.group_starts[:-1]))] if len(absent) else values
    unary = kb.fact_tables.get(1)
    if unary is not None:
        numbers = np.array([index.type_mark(name) for name in kb.content.relations], np.int64)
        owners.append(unary.objects[:, 0])
        marks.append(numbers[unary.relation])
        values.append(np.ones(len(unary)) if unary.confidence is None else unary.confidence)
    for number, (attribute, least) in enumerate(index.thresholds, start=len(index.labels) + len(index.types)):
        found = kb.content.attributes.find(attribute)
        if found is not None:
            rows = kb.value_table.rows(found)
            holders = kb.value_table.objects[rows][kb.value_table.value[rows] >= least]
            owners.append(holders)
            marks.append(np.full(len(holders), number))
            values.append(np.ones(len(holders)))
    owner, mark, value = (np.concatenate(parts) for parts in (owners, marks, values))
    order = np.lexsort((mark, owner))
    starts = np.searchsorted(owner[order], np.arange(len(kb.objects) + 1)).astype(np.int64)
    return Marks(freeze(starts), freeze(mark[order].astype(np.int32)), freeze(value[order].astype(np.float32)))


# Mined formulas in the language of formulas


def forward_path(path: Sequence[Label], start: int, end: int) -> tuple[int, int, tuple[Label, ...]]:
    """A path from a lower position to a higher one: the path itself, or the path back."""
    if start < end:
        return start, end, tuple(path)
    return end, start, tuple(Label(relation, target, source) for relation, source, target in reversed(path))


def as_path(formula: Formula) -> tuple[int, int, tuple[Label, ...]] | None:
    """The path that a formula counts, from a lower position to a higher one; None if it is no path.

    >>> from gaifman.logic.parser import parse
    >>> as_path(parse("city_of(x, s2) & born_in(s1, x)"))
    (0, 1, (Label(relation='born_in', source=0, target=1), Label(relation='city_of', source=0, target=1)))
    >>> as_path(parse("born_in(s1, x) & city_of(x, y)")) is None
    True
    """
    parts = formula.parts if isinstance(formula, And) else (formula,)
    atoms = [part for part in parts if isinstance(part, Atom)]
    ends = sorted({v for v in free_variables(formula) if query_position(v)}, key=query_position)
    if len(atoms) != len(parts) or len(ends) != 2:
        return None
    stop, path, left = ends[0], list[Label](), list(atoms)
    while left:
        near = [atom for atom in left if stop in atom.terms]
        if len(near) != 1 or not isinstance(near[0].relation, str) or len(set(near[0].terms)) != len(near[0].terms):
            return None
        left.remove(near[0])
        onward = [v for v in near[0].terms if v != stop and (v == ends[1] or any(v in atom.terms for atom in left))]
        if len(onward) != 1 or not isinstance(onward[0], Variable) or (onward[0] == ends[1]) != (not left):
            return None
        path.append(Label(near[0].relation, near[0].terms.index(stop), near[0].terms.index(onward[0])))
        stop = onward[0]
    if any(isinstance(term, Constant) for atom in atoms for term in atom.terms):
        return None
    return query_position(ends[0]) - 1, query_position(ends[1]) - 1, tuple(path)


def without_differences(feature: Feature) -> Feature:
    """The feature without `a ≠ b`, and without `'a' = 'a'`: its atoms, for people to read."""
    if not isinstance(feature.body, And):
        return feature
    kept = [part for part in feature.body.parts if not _is_plain(part)] or [*feature.body.parts]
    return Feature(kept[0] if len(kept) == 1 else And(tuple(kept)))


def _is_plain(part: Formula) -> bool:
    """Whether a part says that objects differ, or that an object is itself."""
    if isinstance(part, Equal):
        return part.left == part.right
    return isinstance(part, Not) and isinstance(part.body, Equal)


def path_feature(path: Sequence[Label], arities: Mapping[str, int], start: int = 1, end: int = 2) -> Feature:
    """The feature that counts the walks along a path from s_start to s_end."""
    stops = [Variable(f"s{start}"), *(Variable(f"x{i}") for i in range(1, len(path))), Variable(f"s{end}")]
    atoms: list[Formula] = []
    others = 0
    for number, (relation, source, target) in enumerate(path):
        terms = {source: stops[number], target: stops[number + 1]}
        for position in range(arities[relation]):
            if position not in terms:
                others += 1
                terms[position] = Variable(f"z{others}")
        atoms.append(Atom(relation, tuple(terms[position] for position in range(arities[relation]))))
    return Feature(And((*atoms, *(Not(Equal(stop, stops[0])) for stop in stops[1:]))))


def constant_feature(fact: Label, arity: int, constant: str, candidate: str, start: int, end: int) -> Feature:
    """The feature that s_start is in a fact with a constant, and s_end is the candidate."""
    others = tuple(Variable(f"x{i + 1}") for i in range(arity) if i not in (fact.source, fact.target))
    rest = iter(others)
    fixed: dict[int, Variable | Constant] = {fact.source: Variable(f"s{start}"), fact.target: Constant(constant)}
    atom = Atom(fact.relation, tuple(fixed[i] if i in fixed else next(rest) for i in range(arity)))
    body: Formula = Exists(others, atom) if others else atom
    return Feature(And((body, Equal(Variable(f"s{end}"), Constant(candidate)))))


def comparison_feature(attribute: str, operator: str, start: int, end: int) -> Feature:
    """The feature that a number of s_start compares with that of s_end; the lower position stands on the left."""
    low, high = (Attribute(attribute, Variable(f"s{position}")) for position in sorted((start, end)))
    return Feature(Comparison(low, operator if start < end else MIRRORED[operator], high))

"""Features with a template: recognised by their form, and looked up by the labels of the facts that are there.

>>> from gaifman.logic.parser import parse_feature
>>> texts = ["borders(s1, s2)", "∃x borders(s1, x)", "borders(x, s2)", "∃x borders(s1, x) ∧ capital(x, s2)", "∀x p(x)"]
>>> for text in [*texts, "city_in('bern', s1)", "∃x, y borders(s1, x) ∧ borders(x, y) ∧ capital(y, s2)"]:
...     print(match_template(parse_feature(text)))
Pair(first=0, second=1, label=('borders', 0))
Hop(position=0, label=('borders', 0), counts=False)
Hop(position=1, label=('borders', 1), counts=True)
Path(first=0, first_label=('borders', 0), last=1, last_label=('capital', 1), counts=False)
None
ConstantFact(position=0, label=('city_in', 1), constant='bern')
Walk(first=0, first_label=('borders', 0), middle=('borders', 0), last=1, last_label=('capital', 1), counts=False)
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gaifman.features.compiler import FeaturePlan
from gaifman.kb.gaifman_graph import GaifmanGraph
from gaifman.kb.tables import Ints
from gaifman.kernels.graph import LabelledGraph
from gaifman.kernels.templates import (
    CONSTANTS,
    COUNTS,
    NARY,
    NONE,
    NUMBERS,
    STEP,
    THREE_STEPS,
    TWO_STEPS,
    HashTable,
    TemplateIndex,
    constant_key,
    count_feature,
    exists_feature,
    find_slot,
    label_bit,
    pack_features,
    path_key,
    walk_key,
)
from gaifman.logic.ast import (
    Aggregate,
    And,
    Atom,
    Attribute,
    Constant,
    Difference,
    Exists,
    Feature,
    Node,
    RelationVariable,
    Term,
    Variable,
    free_variables,
    query_position,
)

Label = tuple[str, int]
"""A binary relation, and the position of the object from which it is seen: 0 or 1."""

MAX_CONSTANT_WORDS = 1 << 16
"""Largest table of the constants that have features; with more constants, some share a word."""
MAX_DUPLICATES = 256
"""Largest number of features with the meaning of another one. Each is copied in every row; programs evaluate the rest.
"""


@dataclass(frozen=True, slots=True)
class Unary:
    """r(s_i)."""

    position: int
    relation: str


@dataclass(frozen=True, slots=True)
class Pair:
    """r(s_i, s_j)."""

    first: int
    second: int
    label: Label


@dataclass(frozen=True, slots=True)
class Linked:
    """∃r r(s_i, s_j)."""

    first: int
    second: int


@dataclass(frozen=True, slots=True)
class ConstantFact:
    """r(s_i, c)."""

    position: int
    label: Label
    constant: str


@dataclass(frozen=True, slots=True)
class Hop:
    """∃x r(s_i, x), or the number of x."""

    position: int
    label: Label
    counts: bool


@dataclass(frozen=True, slots=True)
class Path:
    """∃x r(s_i, x) ∧ q(x, s_j), or the number of x. Labels are seen from s_i and s_j."""

    first: int
    first_label: Label
    last: int
    last_label: Label
    counts: bool


@dataclass(frozen=True, slots=True)
class Walk:
    """∃x, y r(s_i, x) ∧ q(x, y) ∧ p(y, s_j), or the number of x, y. The middle label is seen from x."""

    first: int
    first_label: Label
    middle: Label
    last: int
    last_label: Label
    counts: bool


@dataclass(frozen=True, slots=True)
class NaryAtom:
    """An atom of three or more arguments: ∃x, y r(x, s_i, y), or the number of x, y."""

    relation: str
    positions: tuple[int, ...]
    """The position in the tuple for each argument; −1 for a variable of its own."""
    counts: bool


@dataclass(frozen=True, slots=True)
class Value:
    """a(s_i)."""

    position: int
    attribute: str


@dataclass(frozen=True, slots=True)
class ValueDifference:
    """a(s_i) − b(s_j)."""

    left: Value
    right: Value


Template = Unary | Pair | Linked | ConstantFact | Hop | Path | Walk | NaryAtom | Value | ValueDifference


def match_template(feature: Feature) -> Template | None:
    """Return the template of a feature, or None if it needs a program."""
    body: Node = feature.body
    if isinstance(body, Aggregate) and body.quantity is None:
        body = body.formula
    match body:
        case Exists((RelationVariable() as quantified,), Atom(RelationVariable() as used, (one, other))):
            i, j = _tuple_position(one), _tuple_position(other)
            return Linked(i, j) if used == quantified and i >= 0 and j >= 0 else None
        case Attribute() | Difference():
            return _match_number(body)
    variables: list[Variable | RelationVariable] = []
    exists = isinstance(body, Exists)
    while isinstance(body, Exists):
        variables += body.variables
        body = body.body
    unbound = [
        variable for variable in free_variables(body) if not query_position(variable) and variable not in variables
    ]
    parts = body.parts if isinstance(body, And) else (body,)
    atoms = [part for part in parts if isinstance(part, Atom) and isinstance(part.relation, str)]
    if len(atoms) < len(parts) or (exists and (unbound or len(set(variables)) < len(variables))):
        return None
    return _match_atoms(atoms, [*variables, *unbound], counts=not exists)


def _match_number(body: Attribute | Difference) -> Value | ValueDifference | None:
    """Return the template of an attribute of the tuple's objects, or of a difference of two."""
    parts = (body.left, body.right) if isinstance(body, Difference) else (body,)
    values = [
        Value(_tuple_position(part.term), part.name)
        for part in parts
        if isinstance(part, Attribute) and _tuple_position(part.term) >= 0
    ]
    if len(values) < len(parts):
        return None
    return ValueDifference(*values) if isinstance(body, Difference) else values[0]


def _match_atoms(atoms: list[Atom], variables: list[Variable | RelationVariable], counts: bool) -> Template | None:
    """Return the template of a conjunction of atoms over variables that are quantified or counted."""
    if len(atoms) == 1:
        return _match_atom(atoms[0], variables, counts)
    steps = [_match_step(atom) for atom in atoms]
    if len(atoms) == 2 and len(variables) == 1:
        one, other = steps
        if one and other and one[2] == other[2] == variables[0]:
            return Path(one[0], one[1], other[0], other[1], counts)
    if len(atoms) == 3 and len(variables) == 2:
        return _match_walk(atoms, steps, counts)
    return None


def _match_atom(atom: Atom, variables: list[Variable | RelationVariable], counts: bool) -> Template | None:
    relation, positions = str(atom.relation), tuple(_tuple_position(term) for term in atom.terms)
    own_variables = [term for term in atom.terms if isinstance(term, Variable) and _tuple_position(term) < 0]
    if set(own_variables) != set(variables) or len(own_variables) > len(variables) or max(positions) < 0:
        return None
    constants = [term.name for term in atom.terms if isinstance(term, Constant)]
    if len(positions) == 1:
        return Unary(positions[0], relation)
    if len(positions) == 2:
        side = int(positions[0] < 0)
        if constants:
            return ConstantFact(positions[side], (relation, side), constants[0])
        return Hop(positions[side], (relation, side), counts) if own_variables else Pair(*positions, (relation, 0))
    return None if constants else NaryAtom(relation, positions, bool(own_variables) and counts)


def _match_step(atom: Atom) -> tuple[int, Label, Term] | None:
    """Match an atom between an object of the tuple and a variable: position, label, variable."""
    if len(atom.terms) == 2:
        for side in (0, 1):
            one, other = atom.terms[side], atom.terms[1 - side]
            if _tuple_position(one) >= 0 and isinstance(other, Variable) and _tuple_position(other) < 0:
                return _tuple_position(one), (str(atom.relation), side), other
    return None


def _match_walk(atoms: list[Atom], steps: list[tuple[int, Label, Term] | None], counts: bool) -> Walk | None:
    """Match three steps: two between the tuple and a variable, and one between the two variables."""
    ends = [step for step in steps if step]
    middle = [atom for atom, step in zip(atoms, steps, strict=True) if not step]
    if len(ends) != 2 or len(middle[0].terms) != 2 or ends[0][2] == ends[1][2]:
        return None
    (i, first, x), (j, last, y) = ends
    between, relation = middle[0].terms, str(middle[0].relation)
    if between not in ((x, y), (y, x)):
        return None
    return Walk(i, first, (relation, int(between == (y, x))), j, last, counts)


def _tuple_position(term: Node) -> int:
    """Return the position of a term in the tuple, from 0, or −1."""
    return query_position(term) - 1 if isinstance(term, Variable) else -1


def build_template_index(graph: GaifmanGraph, plan: FeaturePlan) -> tuple[TemplateIndex, Ints]:
    """Return the index of the features of a plan that have a template, and these features."""
    matched = {
        p: template for p, feature in enumerate(plan.features) if (template := match_template(feature)) is not None
    }
    builder = _TemplateIndexBuilder(graph, plan.arity, list(matched.values()))
    firsts = {p: builder.add(template, p) for p, template in matched.items()}
    duplicates = [(first, p) for p, first in firsts.items() if first not in (p, NONE)][:MAX_DUPLICATES]
    indexed = [p for p, first in firsts.items() if first == p] + [p for _, p in duplicates]
    index = builder.build()._replace(duplicates=np.array(duplicates, np.int32).reshape(-1, 2))
    return index, np.array(sorted(indexed), np.int32)


class _TemplateIndexBuilder:
    """Builds a `TemplateIndex`."""

    def __init__(self, graph: GaifmanGraph, arity: int, templates: list[Template]) -> None:
        self._kb, self._label_offsets, self._arity = graph.kb, graph.label_offsets, arity
        self._labels = labels = max(1, len(graph.label_table))
        self._objects = max(1, len(graph))
        self._nary: list[tuple[int, ...]] = []
        self._differences: list[tuple[int, int, int, int]] = []
        attributes = len(self._kb.content.attributes)
        counts = Counter(map(type, templates))
        words = _next_power_of_two(min(self._objects, MAX_CONSTANT_WORDS)) if counts[ConstantFact] else 1
        self._index = TemplateIndex(
            hop=np.full((arity, labels), -1, np.int32),
            label_set_hop=np.zeros((arity, 0), np.int32),
            hop_counts=np.full((arity, labels), -1, np.int32),
            pair=np.full((arity, arity, labels), -1, np.int32),
            linked=np.full((arity, arity), -1, np.int32),
            unary=np.full((arity, max(1, len(self._kb.content.relations))), -1, np.int32),
            constant_labels=np.zeros((arity, words), np.uint64),
            constants=_new_hash_table(counts[ConstantFact]),
            path_next=np.zeros((arity, arity, labels), np.uint64),
            path_lengths=np.zeros((arity, arity), np.uint8),
            path=_new_hash_table(counts[Path]),
            walk_next=np.zeros((arity, arity, labels), np.uint64),
            walk_ends=np.zeros((arity, arity, labels), np.uint64),
            walk_last=np.zeros((arity, arity, labels), np.uint64),
            label_set_walk_last=np.zeros((arity, arity, 0), np.uint64),
            label_set_walk_ends=np.zeros((arity, arity, 0), np.uint64),
            walk=_new_hash_table(counts[Walk]),
            nary_starts=np.zeros(1, np.int64),
            nary=np.zeros((0, 10), np.int32),
            value=np.full((arity, attributes), -1, np.int32),
            difference_starts=np.zeros(1, np.int64),
            differences=np.zeros((0, 3), np.int32),
            duplicates=np.zeros((0, 2), np.int32),
            needs=np.zeros(5, np.uint8),
        )

    def add(self, template: Template, feature: int) -> int:
        """Add a feature. Return it, or an earlier one with the same meaning, or `NONE` if it does not fit."""
        index = self._index
        match template:
            case Pair(i, j, label):
                return _insert(index.pair, (i, j, self._label(label)), feature)
            case Linked(i, j):
                return _insert(index.linked, (i, j), feature)
            case Unary(i, relation):
                return _insert(index.unary, (i, self._relation(relation)), feature)
            case Value() | ValueDifference():
                return self._add_number(template, feature)
        index.needs[STEP] = 1
        match template:
            case NaryAtom():
                return self._add_nary(template, feature)
            case ConstantFact():
                return self._add_constant(template, feature)
            case Path():
                return self._add_path(template, feature)
            case Walk():
                return self._add_walk(template, feature)
            case Hop(i, label, counts):
                index.needs[COUNTS] |= counts
                return _insert(index.hop_counts if counts else index.hop, (i, self._label(label)), feature)

    def build(self) -> TemplateIndex:
        """Return the index."""
        relations = len(self._kb.content.relations)
        nary = np.array(sorted(self._nary), np.int32).reshape(-1, 11)
        starts = np.searchsorted(nary[:, 0], np.arange(relations + 1)).astype(np.int64)
        differences = np.array(sorted(self._differences), np.int32).reshape(-1, 4)
        first = np.searchsorted(differences[:, 0], np.arange(self._index.value.size + 1)).astype(np.int64)
        return self._index._replace(
            nary_starts=starts,
            nary=np.ascontiguousarray(nary[:, 1:]),
            difference_starts=first,
            differences=np.ascontiguousarray(differences[:, 1:]),
        )

    def _label(self, label: Label) -> int:
        return int(self._label_offsets[self._relation(label[0])]) + label[1]

    def _relation(self, name: str) -> int:
        number = self._kb.content.relations.find(name)
        assert number is not None, "the compiler has checked the names"
        return number

    def _add_constant(self, template: ConstantFact, feature: int) -> int:
        i, label = template.position, self._label(template.label)
        number = self._kb.objects.find(template.constant)
        if number is None:
            return NONE
        words = self._index.constant_labels
        self._index.needs[CONSTANTS] = 1
        words[i, number & (words.shape[1] - 1)] |= np.uint64(label_bit(label))
        key = constant_key(i, label, self._labels, number, self._objects)
        return _insert_hashed(self._index.constants, key, False, feature)

    def _add_path(self, template: Path, feature: int) -> int:
        i, j = template.first, template.last
        first, last = self._label(template.first_label), self._label(template.last_label)
        if (i, first) > (j, last):  # the same path from its other end
            i, first, j, last = j, last, i, first
        self._index.path_lengths[i, j] |= TWO_STEPS
        self._index.path_next[i, j, first] |= np.uint64(label_bit(last))
        key = path_key(i * self._arity + j, first, last, self._labels)
        return _insert_hashed(self._index.path, key, template.counts, feature)

    def _add_walk(self, template: Walk, feature: int) -> int:
        if self._arity**2 * self._labels**3 >= 1 << 62:
            return NONE  # the key would overflow
        i, j = template.first, template.last
        first, middle, last = map(self._label, (template.first_label, template.middle, template.last_label))
        if (i, first) > (j, last):
            i, first, middle, j, last = j, last, self._reversed_label(middle), i, first
        self._index.path_lengths[i, j] |= THREE_STEPS
        self._index.walk_next[i, j, first] |= np.uint64(label_bit(middle))
        self._index.walk_ends[i, j, last] = label_bit(last)
        self._index.walk_last[i, j, first] |= np.uint64(label_bit(last))
        key = walk_key(i * self._arity + j, first, middle, last, self._labels)
        return _insert_hashed(self._index.walk, key, template.counts, feature)

    def _reversed_label(self, label: int) -> int:
        """Return the label of a binary relation seen from the other end."""
        offset = int(self._label_offsets[np.searchsorted(self._label_offsets, label, side="right") - 1])
        return 2 * offset + 1 - label

    def _add_number(self, template: Value | ValueDifference, feature: int) -> int:
        self._index.needs[NUMBERS] = 1
        if isinstance(template, Value):
            return _insert(self._index.value, (template.position, self._attribute(template.attribute)), feature)
        left, right = template.left, template.right
        first = left.position * self._index.value.shape[1] + self._attribute(left.attribute)
        self._differences.append((first, feature, right.position, self._attribute(right.attribute)))
        return feature

    def _attribute(self, name: str) -> int:
        number = self._kb.content.attributes.find(name)
        assert number is not None, "the compiler has checked the names"
        return number

    def _add_nary(self, template: NaryAtom, feature: int) -> int:
        self._index.needs[NARY] = 1
        padding = [-1] * (8 - len(template.positions))
        self._nary.append(
            (self._relation(template.relation), feature, int(template.counts), *template.positions, *padding)
        )
        return feature


def _next_power_of_two(minimum: int) -> int:
    """Return the smallest power of two that is at least `minimum`."""
    return 1 << max(0, minimum - 1).bit_length()


def _new_hash_table(count: int) -> HashTable:
    size = _next_power_of_two(max(8, 3 * count))
    table = np.zeros((size, 2), np.int64)
    table[:, 0] = NONE
    return table


def _insert(table: Ints, at: tuple[int, ...], feature: int) -> int:
    """Insert a feature into a free cell. Return the feature in the cell."""
    if table[at] < 0:
        table[at] = feature
    return int(table[at])


def _insert_hashed(table: HashTable, key: int, counts: bool, feature: int) -> int:
    """Insert a feature under a key unless there is one of the same kind. Return the feature under the key."""
    slot = find_slot(table, key)
    table[slot, 0] = key
    features = [exists_feature(int(table[slot, 1])), count_feature(int(table[slot, 1]))]
    if features[counts] < 0:
        features[counts] = feature
        table[slot, 1] = pack_features(*features)
    return features[counts]


def with_label_sets(templates: TemplateIndex, graph: LabelledGraph) -> TemplateIndex:
    """Return the index with the tables that are looked up by label set."""
    hop = np.ascontiguousarray(templates.hop[:, graph.label_set_labels])
    if not (templates.path_lengths & THREE_STEPS).any():
        return templates._replace(label_set_hop=hop)
    last, ends = (_join_sets(table, graph) for table in (templates.walk_last, templates.walk_ends))
    return templates._replace(label_set_hop=hop, label_set_walk_last=last, label_set_walk_ends=ends)


def _join_sets(table: npt.NDArray[np.uint64], graph: LabelledGraph) -> npt.NDArray[np.uint64]:
    """Return the union of the bits (arity, arity, labels) over the labels of each label set, none for an empty set."""
    starts, ends = graph.label_set_starts[:-1], graph.label_set_starts[1:]
    joined, filled = np.zeros((*table.shape[:2], len(starts)), np.uint64), starts < ends
    if filled.any():
        joined[:, :, filled] = np.bitwise_or.reduceat(table[:, :, graph.label_set_labels], starts[filled], axis=2)
    return joined

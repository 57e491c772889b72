"""Which features have a kernel of their own: recognised by shape, looked up by the labels of the facts that are there.

>>> import gaifman
>>> from gaifman.logic.parser import parse_feature
>>> texts = ["borders(s1, s2)", "∃x borders(s1, x)", "borders(x, s2)", "∃x borders(s1, x) ∧ capital(x, s2)", "∀x p(x)"]
>>> for text in [*texts, "city_in('bern', s1)", "∃x, y borders(s1, x) ∧ borders(x, y) ∧ capital(y, s2)"]:
...     print(match_template(parse_feature(text)))
('pair', 0, 1, ('borders', 0))
('hop', 0, ('borders', 0))
('hops', 1, ('borders', 1))
('path', 0, ('borders', 0), 1, ('capital', 1))
None
('fixed', 0, ('city_in', 1), 'bern')
('walk', 0, ('borders', 0), ('borders', 0), 1, ('capital', 1))
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gaifman.features.compiler import FeaturePlan
from gaifman.kb.gaifman_graph import GaifmanGraph
from gaifman.kb.tables import Ints
from gaifman.kernels.graph import LabelledGraph
from gaifman.kernels.templates import (
    CONSTANTS,
    COUNTS,
    NARY,
    NONE,
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
    Constant,
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
"""A relation with two places, and the place of the object from which it is seen: 0 or 1."""
Template = tuple[Any, ...]
"""A family, and what a feature of it asks for."""


def match_template(feature: Feature) -> Template | None:
    """The family of a feature with what it asks for, or None where it needs the machine."""
    body: Node = feature.body
    if isinstance(body, Aggregate) and body.quantity is None:
        body = body.formula
    match body:
        case Exists((RelationVariable() as any_relation,), Atom(RelationVariable() as used, (one, other))):
            i, j = _tuple_position(one), _tuple_position(other)
            return ("linked", i, j) if used == any_relation and i >= 0 and j >= 0 else None
    variables: list[Variable | RelationVariable] = []
    some = isinstance(body, Exists)
    while isinstance(body, Exists):
        variables += body.variables
        body = body.body
    unbound = [
        variable for variable in free_variables(body) if not query_position(variable) and variable not in variables
    ]
    atoms = [part for part in (body.parts if isinstance(body, And) else (body,)) if isinstance(part, Atom)]
    if some and (unbound or len(set(variables)) < len(variables)):
        return None
    if len(atoms) < (len(body.parts) if isinstance(body, And) else 1):
        return None
    if any(not isinstance(atom.relation, str) for atom in atoms):
        return None
    return _match_atoms(atoms, [*variables, *unbound], some)


def _match_atoms(atoms: list[Atom], variables: list[Variable | RelationVariable], some: bool) -> Template | None:
    """The family of atoms that hold together for some values of the variables, or for so and so many."""
    if len(atoms) == 1:
        return _match_atom(atoms[0], variables, some)
    steps = [_match_step(atom) for atom in atoms]
    if len(atoms) == 2 and len(variables) == 1:
        one, other = steps
        if one and other and one[2] == other[2] == variables[0]:
            return ("path" if some else "paths", one[0], one[1], other[0], other[1])
    if len(atoms) == 3 and len(variables) == 2:
        return _match_walk(atoms, steps, some)
    return None


def _match_atom(atom: Atom, variables: list[Variable | RelationVariable], some: bool) -> Template | None:
    name, own = str(atom.relation), [_tuple_position(term) for term in atom.terms]
    names = [term for term in atom.terms if isinstance(term, Variable) and _tuple_position(term) < 0]
    if set(names) != set(variables) or len(names) > len(variables) or max(own) < 0:
        return None
    constants = [term.name for term in atom.terms if isinstance(term, Constant)]
    if len(own) == 1:
        return ("kind", own[0], name)
    if len(own) == 2:
        place = int(own[0] < 0)
        if constants:
            return ("fixed", own[place], (name, place), constants[0])
        return ("hop" if some else "hops", own[place], (name, place)) if names else ("pair", *own, (name, 0))
    return None if constants else ("wide", bool(names) and not some, name, *own)


def _match_step(atom: Atom) -> tuple[int, Label, Term] | None:
    """An atom between an object of the tuple and a variable: which object, the label, and the variable."""
    if len(atom.terms) == 2:
        for place in (0, 1):
            one, other = atom.terms[place], atom.terms[1 - place]
            if _tuple_position(one) >= 0 and isinstance(other, Variable) and _tuple_position(other) < 0:
                return _tuple_position(one), (str(atom.relation), place), other
    return None


def _match_walk(atoms: list[Atom], steps: list[tuple[int, Label, Term] | None], some: bool) -> Template | None:
    """A path of three steps: two that join the tuple to a variable, and one between the two variables."""
    ends = [step for step in steps if step]
    middle = [atom for atom, step in zip(atoms, steps, strict=True) if not step]
    if len(ends) != 2 or len(middle[0].terms) != 2 or ends[0][2] == ends[1][2]:
        return None
    (i, first, x), (j, last, y) = ends
    between, name = middle[0].terms, str(middle[0].relation)
    if between not in ((x, y), (y, x)):
        return None
    return ("walk" if some else "walks", i, first, (name, int(between == (y, x))), j, last)


def _tuple_position(term: Node) -> int:
    """Which object of the tuple a term is, from 0; −1 where it is none."""
    return query_position(term) - 1 if isinstance(term, Variable) else -1


MAX_CONSTANT_WORDS = 1 << 16
"""Words at most that say which constants have features; beyond it some share a word."""
MAX_DUPLICATES = 256
"""Features at most that ask for the same as another: each is looked at in every row. The machine has the rest."""


def build_template_index(graph: GaifmanGraph, plan: FeaturePlan) -> tuple[TemplateIndex, Ints]:
    """The families of a plan, and the features in them."""
    asked = {p: found for p, feature in enumerate(plan.features) if (found := match_template(feature)) is not None}
    writer = _TemplateIndexBuilder(graph, plan.arity, list(asked.values()))
    firsts = {p: writer.add(found, p) for p, found in asked.items()}
    twins = [(first, p) for p, first in firsts.items() if first not in (p, NONE)][:MAX_DUPLICATES]
    taken = [p for p, first in firsts.items() if first == p] + [p for _, p in twins]
    families = writer.build()._replace(duplicates=np.array(twins, np.int32).reshape(-1, 2))
    return families, np.array(sorted(taken), np.int32)


class _TemplateIndexBuilder:
    """Families being written."""

    def __init__(self, graph: GaifmanGraph, arity: int, templates: list[Template]) -> None:
        self._kb, self._bases, self._width = graph.kb, graph.label_offsets, arity
        self._labels = labels = max(1, len(graph.label_table))
        self._objects = max(1, len(graph))
        kinds = [found[0] for found in templates]
        self._wide: list[tuple[int, ...]] = []
        self._written = TemplateIndex(
            np.full((arity, labels), -1, np.int32),
            np.zeros((arity, 0), np.int32),
            np.full((arity, labels), -1, np.int32),
            np.full((arity, arity, labels), -1, np.int32),
            np.full((arity, arity), -1, np.int32),
            np.full((arity, max(1, len(self._kb.content.relations))), -1, np.int32),
            np.zeros(
                (arity, _next_power_of_two(min(self._objects, MAX_CONSTANT_WORDS)) if "fixed" in kinds else 1),
                np.uint64,
            ),
            _new_hash_table(kinds.count("fixed")),
            np.zeros((arity, arity, labels), np.uint64),
            np.zeros((arity, arity), np.uint8),
            _new_hash_table(kinds.count("path") + kinds.count("paths")),
            np.zeros((arity, arity, labels), np.uint64),
            np.zeros((arity, arity, labels), np.uint64),
            np.zeros((arity, arity, labels), np.uint64),
            np.zeros((arity, arity, 0), np.uint64),
            np.zeros((arity, arity, 0), np.uint64),
            _new_hash_table(kinds.count("walk") + kinds.count("walks")),
            np.zeros(1, np.int64),
            np.zeros((0, 10), np.int32),
            np.zeros((0, 2), np.int32),
            np.zeros(4, np.uint8),
        )

    def add(self, found: Template, feature: int) -> int:
        """Enter a feature; itself, or another that asks for the same and came before; NONE where it cannot be."""
        written = self._written
        kind, i, *rest = found
        if kind == "wide":
            return self._add_nary(int(i), rest, feature)
        if kind == "pair":
            return _insert(written.pair, (i, rest[0], self._label(rest[1])), feature)
        if kind == "linked":
            return _insert(written.linked, (i, rest[0]), feature)
        if kind == "kind":
            return _insert(written.unary, (i, self._relation(rest[0])), feature)
        written.needs[STEP] = 1
        if kind == "fixed":
            return self._add_constant(i, self._label(rest[0]), rest[1], feature)
        if kind in ("path", "paths"):
            return self._add_path(i, self._label(rest[0]), rest[1], self._label(rest[2]), kind == "path", feature)
        if kind in ("walk", "walks"):
            first, middle, last = (self._label(rest[k]) for k in (0, 1, 3))
            return self._add_walk(i, first, middle, rest[2], last, kind == "walk", feature)
        if kind == "hops":
            written.needs[COUNTS] = 1
        return _insert(written.hop if kind == "hop" else written.hop_counts, (i, self._label(rest[0])), feature)

    def build(self) -> TemplateIndex:
        """What is written."""
        relations = len(self._kb.content.relations)
        wide = np.array(sorted(self._wide), np.int32).reshape(-1, 11)
        starts = np.searchsorted(wide[:, 0], np.arange(relations + 1)).astype(np.int64)
        return self._written._replace(nary_starts=starts, nary=np.ascontiguousarray(wide[:, 1:]))

    def _label(self, of: Label) -> int:
        return int(self._bases[self._relation(of[0])]) + of[1]

    def _relation(self, name: str) -> int:
        number = self._kb.content.relations.find(name)
        assert number is not None, "the plan has checked the names"
        return number

    def _add_constant(self, i: int, label: int, constant: str, feature: int) -> int:
        number = self._kb.objects.find(constant)
        if number is None:
            return NONE
        known = self._written.constant_labels
        self._written.needs[CONSTANTS] = 1
        known[i, number & (known.shape[1] - 1)] |= np.uint64(label_bit(label))
        key = constant_key(i, label, self._labels, number, self._objects)
        return _insert_hashed(self._written.constants, key, True, feature)

    def _add_path(self, i: int, first: int, j: int, last: int, some: bool, feature: int) -> int:
        if (i, first) > (j, last):  # the same path from its other end
            i, first, j, last = j, last, i, first
        self._written.path_lengths[i, j] |= TWO_STEPS
        self._written.path_next[i, j, first] |= np.uint64(label_bit(last))
        key = path_key(i * self._width + j, first, last, self._labels)
        return _insert_hashed(self._written.path, key, some, feature)

    def _add_walk(self, i: int, first: int, middle: int, j: int, last: int, some: bool, feature: int) -> int:
        if self._width**2 * self._labels**3 >= 1 << 62:
            return NONE  # no number for it
        if (i, first) > (j, last):
            i, first, middle, j, last = j, last, self._reversed_label(middle), i, first
        self._written.path_lengths[i, j] |= THREE_STEPS
        self._written.walk_next[i, j, first] |= np.uint64(label_bit(middle))
        self._written.walk_ends[i, j, last] = label_bit(last)
        self._written.walk_last[i, j, first] |= np.uint64(label_bit(last))
        key = walk_key(i * self._width + j, first, middle, last, self._labels)
        return _insert_hashed(self._written.walk, key, some, feature)

    def _reversed_label(self, label: int) -> int:
        """A label of two places seen from the other end."""
        base = int(self._bases[np.searchsorted(self._bases, label, side="right") - 1])
        return 2 * base + 1 - label

    def _add_nary(self, counts: int, rest: list[Any], feature: int) -> int:
        relation = self._relation(rest[0])
        own = (*rest[1:], *[-1] * (9 - len(rest)))
        self._written.needs[STEP] = self._written.needs[NARY] = 1
        self._wide.append((relation, feature, counts, *own))
        return feature


def _next_power_of_two(minimum: int) -> int:
    """The least power of two that is not below a number."""
    return 1 << max(0, minimum - 1).bit_length()


def _new_hash_table(count: int) -> HashTable:
    size = _next_power_of_two(max(8, 3 * count))
    table = np.zeros((size, 2), np.int64)
    table[:, 0] = NONE
    return table


def _insert(table: Ints, at: tuple[int, ...], feature: int) -> int:
    """Enter a feature where none stands; the one that stands there then."""
    if table[at] < 0:
        table[at] = feature
    return int(table[at])


def _insert_hashed(table: HashTable, key: int, some: bool, feature: int) -> int:
    slot = find_slot(table, key)
    table[slot, 0] = key
    found = [exists_feature(int(table[slot, 1])), count_feature(int(table[slot, 1]))]
    which = 0 if some else 1
    if found[which] < 0:
        found[which] = feature
        table[slot, 1] = pack_features(*found)
    return found[which]


def with_label_sets(templates: TemplateIndex, graph: LabelledGraph) -> TemplateIndex:
    """Families with what is asked of labels found beforehand for the lists of labels that edges have."""
    hop = np.ascontiguousarray(templates.hop[:, graph.label_set_labels])
    if not (templates.path_lengths & THREE_STEPS).any():
        return templates._replace(label_set_hop=hop)
    starts = graph.label_set_starts[:-1]
    leads, arrives = (
        np.bitwise_or.reduceat(table[:, :, graph.label_set_labels], starts, axis=2) if len(starts) else table[:, :, :0]
        for table in (templates.walk_last, templates.walk_ends)
    )
    return templates._replace(label_set_hop=hop, label_set_walk_last=leads, label_set_walk_ends=arrives)

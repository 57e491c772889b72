"""Which features have a kernel of their own: recognised by shape, looked up by the labels of the facts that are there.

>>> import gaifman
>>> from gaifman.parser import parse_feature
>>> texts = ["borders(s1, s2)", "∃x borders(s1, x)", "borders(x, s2)", "∃x borders(s1, x) ∧ capital(x, s2)", "∀x p(x)"]
>>> for text in [*texts, "city_in('bern', s1)", "∃x, y borders(s1, x) ∧ borders(x, y) ∧ capital(y, s2)"]:
...     print(pattern(parse_feature(text)))
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

from gaifman.formulas import And, Atom, Constant, Exists, Node, RelationVariable, Term, Variable, free
from gaifman.graph import Graph, label_bases
from gaifman.kernels.families import (
    COUNTS,
    FIXED,
    NONE,
    STEP,
    THREE,
    TWO,
    WIDE,
    Families,
    Hashed,
    fixed_key,
    follows,
    many_of,
    packed,
    path_key,
    slot_of,
    some_of,
    walk_key,
)
from gaifman.kernels.local import Links
from gaifman.plans import Plan
from gaifman.questions import Aggregate, Feature, query_position
from gaifman.tables import Ints

Label = tuple[str, int]
"""A relation with two places, and the place of the object from which it is seen: 0 or 1."""
Pattern = tuple[Any, ...]
"""A family, and what a feature of it asks for."""


def pattern(feature: Feature) -> Pattern | None:
    """The family of a feature with what it asks for, or None where it needs the machine."""
    body: Node = feature.body
    if isinstance(body, Aggregate) and body.quantity is None:
        body = body.formula
    match body:
        case Exists((RelationVariable() as any_relation,), Atom(RelationVariable() as used, (one, other))):
            i, j = _own(one), _own(other)
            return ("linked", i, j) if used == any_relation and i >= 0 and j >= 0 else None
    variables: list[Variable | RelationVariable] = []
    some = isinstance(body, Exists)
    while isinstance(body, Exists):
        variables += body.variables
        body = body.body
    unbound = [variable for variable in free(body) if not query_position(variable) and variable not in variables]
    atoms = [part for part in (body.parts if isinstance(body, And) else (body,)) if isinstance(part, Atom)]
    if some and (unbound or len(set(variables)) < len(variables)):
        return None
    if len(atoms) < (len(body.parts) if isinstance(body, And) else 1):
        return None
    if any(not isinstance(atom.relation, str) for atom in atoms):
        return None
    return _pattern(atoms, [*variables, *unbound], some)


def _pattern(atoms: list[Atom], variables: list[Variable | RelationVariable], some: bool) -> Pattern | None:
    """The family of atoms that hold together for some values of the variables, or for so and so many."""
    if len(atoms) == 1:
        return _one(atoms[0], variables, some)
    steps = [_step(atom) for atom in atoms]
    if len(atoms) == 2 and len(variables) == 1:
        one, other = steps
        if one and other and one[2] == other[2] == variables[0]:
            return ("path" if some else "paths", one[0], one[1], other[0], other[1])
    if len(atoms) == 3 and len(variables) == 2:
        return _three(atoms, steps, some)
    return None


def _one(atom: Atom, variables: list[Variable | RelationVariable], some: bool) -> Pattern | None:
    name, own = str(atom.relation), [_own(term) for term in atom.terms]
    names = [term for term in atom.terms if isinstance(term, Variable) and _own(term) < 0]
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


def _step(atom: Atom) -> tuple[int, Label, Term] | None:
    """An atom between an object of the tuple and a variable: which object, the label, and the variable."""
    if len(atom.terms) == 2:
        for place in (0, 1):
            one, other = atom.terms[place], atom.terms[1 - place]
            if _own(one) >= 0 and isinstance(other, Variable) and _own(other) < 0:
                return _own(one), (str(atom.relation), place), other
    return None


def _three(atoms: list[Atom], steps: list[tuple[int, Label, Term] | None], some: bool) -> Pattern | None:
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


def _own(term: Node) -> int:
    """Which object of the tuple a term is, from 0; −1 where it is none."""
    return query_position(term) - 1 if isinstance(term, Variable) else -1


MOST_KNOWN = 1 << 16
"""Words at most that say which constants have features; beyond it some share a word."""
TWINS = 256
"""Features at most that ask for the same as another: each is looked at in every row. The machine has the rest."""


def families_of(graph: Graph, plan: Plan) -> tuple[Families, Ints]:
    """The families of a plan, and the features in them."""
    asked = {p: found for p, feature in enumerate(plan.features) if (found := pattern(feature)) is not None}
    writer = _Writer(graph, plan.width, list(asked.values()))
    firsts = {p: writer.put(found, p) for p, found in asked.items()}
    twins = [(first, p) for p, first in firsts.items() if first not in (p, NONE)][:TWINS]
    taken = [p for p, first in firsts.items() if first == p] + [p for _, p in twins]
    families = writer.families()._replace(twins=np.array(twins, np.int32).reshape(-1, 2))
    return families, np.array(sorted(taken), np.int32)


class _Writer:
    """Families being written."""

    def __init__(self, graph: Graph, width: int, asked: list[Pattern]) -> None:
        self._kb, self._bases, self._width = graph.kb, label_bases(graph), width
        self._labels = labels = max(1, len(graph.label_table))
        self._objects = max(1, len(graph))
        kinds = [found[0] for found in asked]
        self._wide: list[tuple[int, ...]] = []
        self._written = Families(
            np.full((width, labels), -1, np.int32),
            np.zeros((width, 0), np.int32),
            np.full((width, labels), -1, np.int32),
            np.full((width, width, labels), -1, np.int32),
            np.full((width, width), -1, np.int32),
            np.full((width, max(1, len(self._kb.content.relations))), -1, np.int32),
            np.zeros((width, _power(min(self._objects, MOST_KNOWN)) if "fixed" in kinds else 1), np.uint64),
            _hashed(kinds.count("fixed")),
            np.zeros((width, width, labels), np.uint64),
            np.zeros((width, width), np.uint8),
            _hashed(kinds.count("path") + kinds.count("paths")),
            np.zeros((width, width, labels), np.uint64),
            np.zeros((width, width, labels), np.uint64),
            np.zeros((width, width, labels), np.uint64),
            np.zeros((width, width, 0), np.uint64),
            np.zeros((width, width, 0), np.uint64),
            _hashed(kinds.count("walk") + kinds.count("walks")),
            np.zeros(1, np.int64),
            np.zeros((0, 10), np.int32),
            np.zeros((0, 2), np.int32),
            np.zeros(4, np.uint8),
        )

    def put(self, found: Pattern, feature: int) -> int:
        """Enter a feature; itself, or another that asks for the same and came before; NONE where it cannot be."""
        written = self._written
        kind, i, *rest = found
        if kind == "wide":
            return self._put_wide(int(i), rest, feature)
        if kind == "pair":
            return _enter(written.pair, (i, rest[0], self._label(rest[1])), feature)
        if kind == "linked":
            return _enter(written.linked, (i, rest[0]), feature)
        if kind == "kind":
            return _enter(written.kind, (i, self._relation(rest[0])), feature)
        written.asks[STEP] = 1
        if kind == "fixed":
            return self._put_fixed(i, self._label(rest[0]), rest[1], feature)
        if kind in ("path", "paths"):
            return self._put_path(i, self._label(rest[0]), rest[1], self._label(rest[2]), kind == "path", feature)
        if kind in ("walk", "walks"):
            first, middle, last = (self._label(rest[k]) for k in (0, 1, 3))
            return self._put_walk(i, first, middle, rest[2], last, kind == "walk", feature)
        if kind == "hops":
            written.asks[COUNTS] = 1
        return _enter(written.hop if kind == "hop" else written.hops, (i, self._label(rest[0])), feature)

    def families(self) -> Families:
        """What is written."""
        relations = len(self._kb.content.relations)
        wide = np.array(sorted(self._wide), np.int32).reshape(-1, 11)
        starts = np.searchsorted(wide[:, 0], np.arange(relations + 1)).astype(np.int64)
        return self._written._replace(wide_starts=starts, wide=np.ascontiguousarray(wide[:, 1:]))

    def _label(self, of: Label) -> int:
        return int(self._bases[self._relation(of[0])]) + of[1]

    def _relation(self, name: str) -> int:
        number = self._kb.content.relations.number(name)
        assert number is not None, "the plan has checked the names"
        return number

    def _put_fixed(self, i: int, label: int, constant: str, feature: int) -> int:
        number = self._kb.objects.number(constant)
        if number is None:
            return NONE
        known = self._written.known
        self._written.asks[FIXED] = 1
        known[i, number & (known.shape[1] - 1)] |= np.uint64(follows(label))
        key = fixed_key(i, label, self._labels, number, self._objects)
        return _enter_hashed(self._written.fixed, key, True, feature)

    def _put_path(self, i: int, first: int, j: int, last: int, some: bool, feature: int) -> int:
        if (i, first) > (j, last):  # the same path from its other end
            i, first, j, last = j, last, i, first
        self._written.joins[i, j] |= TWO
        self._written.begins[i, j, first] |= np.uint64(follows(last))
        key = path_key(i * self._width + j, first, last, self._labels)
        return _enter_hashed(self._written.path, key, some, feature)

    def _put_walk(self, i: int, first: int, middle: int, j: int, last: int, some: bool, feature: int) -> int:
        if self._width**2 * self._labels**3 >= 1 << 62:
            return NONE  # no number for it
        if (i, first) > (j, last):
            i, first, middle, j, last = j, last, self._turned(middle), i, first
        self._written.joins[i, j] |= THREE
        self._written.sets_out[i, j, first] |= np.uint64(follows(middle))
        self._written.arrives[i, j, last] = follows(last)
        self._written.leads[i, j, first] |= np.uint64(follows(last))
        key = walk_key(i * self._width + j, first, middle, last, self._labels)
        return _enter_hashed(self._written.walk, key, some, feature)

    def _turned(self, label: int) -> int:
        """A label of two places seen from the other end."""
        base = int(self._bases[np.searchsorted(self._bases, label, side="right") - 1])
        return 2 * base + 1 - label

    def _put_wide(self, counts: int, rest: list[Any], feature: int) -> int:
        relation = self._relation(rest[0])
        own = (*rest[1:], *[-1] * (9 - len(rest)))
        self._written.asks[STEP] = self._written.asks[WIDE] = 1
        self._wide.append((relation, feature, counts, *own))
        return feature


def _power(least: int) -> int:
    """The least power of two that is not below a number."""
    return 1 << max(0, least - 1).bit_length()


def _hashed(count: int) -> Hashed:
    size = _power(max(8, 3 * count))
    table = np.zeros((size, 2), np.int64)
    table[:, 0] = NONE
    return table


def _enter(table: Ints, at: tuple[int, ...], feature: int) -> int:
    """Enter a feature where none stands; the one that stands there then."""
    if table[at] < 0:
        table[at] = feature
    return int(table[at])


def _enter_hashed(table: Hashed, key: int, some: bool, feature: int) -> int:
    slot = slot_of(table, key)
    table[slot, 0] = key
    found = [some_of(int(table[slot, 1])), many_of(int(table[slot, 1]))]
    which = 0 if some else 1
    if found[which] < 0:
        found[which] = feature
        table[slot, 1] = packed(*found)
    return found[which]


def along_bonds(families: Families, links: Links) -> Families:
    """Families with what is asked of labels found beforehand for the lists of labels that edges have."""
    hop = np.ascontiguousarray(families.hop[:, links.bond_labels])
    if not (families.joins & THREE).any():
        return families._replace(bond_hop=hop)
    starts = links.bond_starts[:-1]
    leads, arrives = (
        np.bitwise_or.reduceat(table[:, :, links.bond_labels], starts, axis=2) if len(starts) else table[:, :, :0]
        for table in (families.leads, families.arrives)
    )
    return families._replace(bond_hop=hop, bond_leads=leads, bond_arrives=arrives)

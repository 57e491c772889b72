"""Which features have a kernel of their own: recognised by shape, looked up by the labels of the facts that are there.

>>> import gaifman
>>> from gaifman.parser import parse_feature
>>> texts = ["borders(s1, s2)", "∃x borders(s1, x)", "borders(x, s2)", "∃x borders(s1, x) ∧ capital(x, s2)", "∀x p(x)"]
>>> for text in texts:
...     print(pattern(parse_feature(text)))
('pair', 0, 1, ('borders', 0))
('hop', 0, ('borders', 0))
('hops', 1, ('borders', 1))
('path', 0, ('borders', 0), 1, ('capital', 1))
None
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gaifman.drawing import frozen
from gaifman.formulas import And, Atom, Exists, Formula, Node, RelationVariable, Variable
from gaifman.graph import Graph
from gaifman.kernels.paths import Families, path_key, slot_of
from gaifman.plans import Plan
from gaifman.questions import Aggregate, Feature, query_position
from gaifman.tables import Ints

Label = tuple[str, int]
"""A relation with two places, and the place of the tuple's object: 0 or 1."""


def pattern(feature: Feature) -> tuple[Any, ...] | None:
    """The family of a feature with what it asks for, or None where it needs the machine."""
    body: Node = feature.body
    if isinstance(body, Aggregate) and body.quantity is None:
        body = body.formula
    match body:
        case Exists((RelationVariable() as any_relation,), Atom(RelationVariable() as used, (one, other))):
            i, j = _own(one), _own(other)
            return ("linked", i, j) if used == any_relation and i >= 0 and j >= 0 else None
        case Exists((Variable() as x,), inner):
            return _counted("hop", "path", inner, x)
        case Atom(str(name), (one,)) if _own(one) >= 0:
            return ("kind", _own(one), name)
        case Atom(str(name), (one, other)) if _own(one) >= 0 and _own(other) >= 0:
            return ("pair", _own(one), _own(other), (name, 0))
        case Atom() | And():
            return _counted("hops", "paths", body, None)
    return None


def _counted(hop: str, path: str, formula: Formula, x: Variable | None) -> tuple[Any, ...] | None:
    """One or two atoms that join x to the tuple; without x given, any variable that is free will do."""
    match formula:
        case Atom():
            found = _joint(formula, x)
            return (hop, found[0], found[1]) if found else None
        case And((Atom() as one, Atom() as other)):
            left = _joint(one, x)
            right = _joint(other, x or (left[2] if left else None))
            return (path, left[0], left[1], right[0], right[1]) if left and right else None
    return None


def _joint(atom: Atom, x: Variable | None) -> tuple[int, Label, Variable] | None:
    """An atom between an object of the tuple and x: which object, the label, and x."""
    if not isinstance(atom.relation, str) or len(atom.terms) != 2:
        return None
    for place in (0, 1):
        one, other = atom.terms[place], atom.terms[1 - place]
        free = isinstance(other, Variable) and query_position(other) == 0
        if _own(one) >= 0 and free and isinstance(other, Variable) and x in (None, other):
            return _own(one), (atom.relation, place), other
    return None


def _own(term: Node) -> int:
    """Which object of the tuple a term is, from 0; −1 where it is none."""
    return query_position(term) - 1 if isinstance(term, Variable) else -1


def families_of(graph: Graph, plan: Plan) -> tuple[Families, Ints]:
    """The families of a plan, and the features in them; what asks for the same as another stays with the machine."""
    relations = graph.kb.content.relations
    bases = label_bases(graph)
    labels, width = max(1, len(graph.label_table)), plan.width
    asked = {p: found for p, feature in enumerate(plan.features) if (found := pattern(feature)) is not None}
    two = sum(found[0] in ("path", "paths") for found in asked.values())
    families = _empty(width, labels, max(1, len(relations)), two)

    def label(of: Label) -> int:
        number = relations.number(of[0])
        assert number is not None, "the plan has checked the names"
        return int(bases[number]) + of[1]

    taken = [p for p, found in asked.items() if _put(families, found, p, label, relations.number)]
    return families._replace(wanted=bool(taken)), np.array(taken, np.int32)


def _empty(width: int, labels: int, relations: int, two: int) -> Families:
    size = 8
    while size < 3 * two:
        size *= 2
    return Families(
        np.full((width, labels), -1, np.int32),
        np.full((width, labels), -1, np.int32),
        np.full((width, width, labels), -1, np.int32),
        np.full((width, width), -1, np.int32),
        np.full((width, relations), -1, np.int32),
        np.zeros((width, width, labels), np.uint8),
        np.full(size, -1, np.int64),
        np.full(size, -1, np.int32),
        np.full(size, -1, np.int32),
        np.zeros((width, width), np.uint8),
        False,
    )


def _put(families: Families, found: tuple[Any, ...], feature: int, label: Any, relation: Any) -> bool:
    """Enter a feature; False where another asks for the same."""
    kind, i, *rest = found
    if kind in ("path", "paths"):
        first, j, second = label(rest[0]), rest[1], label(rest[2])
        key = path_key(i * len(families.hop) + j, first, second, families.hop.shape[1])
        slot = slot_of(families.keys, key)
        families.keys[slot] = key
        families.begins[i, j, first] = families.walked[i, j] = 1
        return _enter(families.path if kind == "path" else families.paths, (slot,), feature)
    if kind == "pair":
        return _enter(families.pair, (i, rest[0], label(rest[1])), feature)
    if kind == "linked":
        return _enter(families.linked, (i, rest[0]), feature)
    if kind == "kind":
        return _enter(families.kind, (i, relation(rest[0])), feature)
    return _enter(families.hop if kind == "hop" else families.hops, (i, label(rest[0])), feature)


def _enter(table: Ints, at: tuple[int, ...], feature: int) -> bool:
    if table[at] >= 0:
        return False
    table[at] = feature
    return True


def label_bases(graph: Graph) -> Ints:
    """Shape (relations,), int32: the first label of each relation."""
    counts = np.array([arity * (arity - 1) for arity in graph.kb.content.arities], np.int64)
    return frozen((np.cumsum(counts) - counts).astype(np.int32))

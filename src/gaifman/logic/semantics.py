"""The definition of truth and of feature values, for any formula and any structure.

Slow: the tests compare every fast implementation with it, and nothing else uses it.

>>> from gaifman.logic.parser import parse, parse_feature, parse_query
>>> family = Structure(
...     frozenset({"ann", "bob", "cleo"}),
...     {"parent": Extension(2, frozenset({("ann", "bob"), ("bob", "cleo")}))},
...     {"age": {"ann": 80.0, "bob": 50.0}},
... )
>>> holds(family, parse("∃x, y parent(x, y) ∧ age(x) > 60"))
True
>>> count(family, parse("parent(x, y)"))
2
>>> sorted(answers(family, parse_query("exists z. parent(x, z) & parent(z, y)")))
[('ann', 'cleo')]
>>> feature_value(family, parse_feature("sum age(x) for parent(x, s1)"), ("bob",))
80.0
>>> feature_value(family.induced({"bob", "cleo"}), parse_feature("sum age(x) for parent(x, s1)"), ("bob",))
0.0
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from gaifman.errors import FormulaError, plural
from gaifman.logic.ast import (
    Aggregate,
    And,
    Atom,
    Attribute,
    Comparison,
    Constant,
    Difference,
    Equal,
    Exists,
    Feature,
    FeatureBody,
    Forall,
    Formula,
    Iff,
    Implies,
    Node,
    Not,
    Number,
    Or,
    Quantity,
    Query,
    RelationVariable,
    Term,
    Truth,
    Variable,
    free_variables,
    query_position,
    relation_arities,
)

Element = Hashable
Assignment = Mapping[Variable, Element] | Mapping[str, Element]
"""Variable, or its name → object."""

COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "=": operator.eq,
    "≠": operator.ne,
    "<": operator.lt,
    "≤": operator.le,
    ">": operator.gt,
    "≥": operator.ge,
}


@dataclass(frozen=True, slots=True)
class Extension:
    """The tuples of a relation."""

    arity: int
    tuples: frozenset[tuple[Element, ...]]


@dataclass(frozen=True, slots=True)
class Structure:
    """A finite domain with relations, and attributes that have values for some of the objects."""

    domain: frozenset[Element]
    relations: Mapping[str, Extension]
    attributes: Mapping[str, Mapping[Element, float]] = field(default_factory=dict)

    def induced(self, objects: Iterable[Element]) -> Structure:
        """Return the induced substructure ⟨objects⟩: these objects and the facts among them."""
        members = frozenset(objects)
        return Structure(
            self.domain & members,
            {
                name: Extension(r.arity, frozenset(t for t in r.tuples if members >= set(t)))
                for name, r in self.relations.items()
            },
            {name: {o: v for o, v in a.items() if o in members} for name, a in self.attributes.items()},
        )


def holds(structure: Structure, formula: Formula, assignment: Assignment | None = None) -> bool:
    """Return whether D ⊨ φ under the assignment, which must cover the free variables."""
    return _holds(structure, formula, _normalise_assignment(assignment))


def count(structure: Structure, formula: Formula, assignment: Assignment | None = None) -> int:
    """Return the number of assignments to the remaining free variables for which the formula holds."""
    return sum(1 for _ in _groundings(structure, formula, _normalise_assignment(assignment)))


def _normalise_assignment(assignment: Assignment | None) -> dict[Node, Element]:
    return {Variable(v) if isinstance(v, str) else v: obj for v, obj in (assignment or {}).items()}


def answers(structure: Structure, query: Query) -> set[tuple[Element, ...]]:
    """Return the answers of a query; of a true sentence, the empty tuple."""
    candidates = itertools.product(structure.domain, repeat=len(query.variables))
    return {d for d in candidates if holds(structure, query.formula, dict(zip(query.variables, d, strict=True)))}


def feature_value(structure: Structure, feature: Feature, objects: Sequence[Element]) -> float:
    """Return a feature's value for a tuple of objects; NaN if a number that it needs is missing."""
    if isinstance(objects, str):
        raise FormulaError(f"objects must be a tuple: ({objects!r},), got {objects!r}")
    if feature.each:
        raise FormulaError(f"{feature} is a template", hint="expand it with instantiate()")
    assignment: dict[Node, Element] = {}
    for variable in free_variables(feature):
        position = query_position(variable)
        if position > len(objects):
            raise FormulaError(f"{variable} is out of range: the tuple has {plural(len(objects), 'object')}")
        if position:
            assignment[variable] = objects[position - 1]
    value = _value(structure, feature.body, assignment)
    return math.nan if value is None else float(value)


def _value(structure: Structure, body: FeatureBody, assignment: dict[Node, Element]) -> float | None:
    match body:
        case Attribute():
            return _number(structure, body, assignment)
        case Difference(left, right):
            one, other = _value(structure, left, assignment), _value(structure, right, assignment)
            return None if one is None or other is None else one - other
        case Aggregate(kind, quantity, formula):
            return _aggregate(structure, kind, quantity, formula, assignment)
    return sum(1 for _ in _groundings(structure, body, assignment))


def _aggregate(
    structure: Structure,
    kind: str,
    quantity: Attribute | None,
    formula: Formula,
    assignment: dict[Node, Element],
) -> float | None:
    """Aggregate over the satisfying groundings, without those whose number is missing."""
    if quantity is None:
        return sum(1 for _ in _groundings(structure, formula, assignment))
    groundings = _groundings(structure, formula, assignment, extra_variables=free_variables(quantity))
    numbers = [_number(structure, quantity, grounding) for grounding in groundings]
    known = [number for number in numbers if number is not None]
    match kind:
        case "count":
            return len(known)
        case "sum":
            return sum(known)
        case _ if not known:
            return None
        case "mean":
            return sum(known) / len(known)
    return min(known) if kind == "min" else max(known)


def _groundings(
    structure: Structure, formula: Formula, assignment: dict[Node, Element], extra_variables: tuple[Variable, ...] = ()
) -> Iterator[dict[Node, Element]]:
    """Yield the extensions of the assignment to all free variables (and the extra ones) that make the formula true."""
    variables = tuple(v for v in dict.fromkeys((*free_variables(formula), *extra_variables)) if v not in assignment)
    for objects in itertools.product(structure.domain, repeat=len(variables)):
        extended = assignment | dict(zip(variables, objects, strict=True))
        if _holds(structure, formula, extended):
            yield extended


def _holds(structure: Structure, formula: Formula, assignment: dict[Node, Element]) -> bool:
    match formula:
        case Truth(truth):
            return truth
        case Atom():
            return _atom(structure, formula, assignment)
        case Equal(left, right):
            return _object(left, assignment) == _object(right, assignment)
        case Comparison(left, symbol, right):
            one, other = _number(structure, left, assignment), _number(structure, right, assignment)
            return one is not None and other is not None and COMPARISONS[symbol](one, other)
        case Not(body):
            return not _holds(structure, body, assignment)
        case And(parts):
            return all(_holds(structure, part, assignment) for part in parts)
        case Or(parts):
            return any(_holds(structure, part, assignment) for part in parts)
        case Implies(left, right):
            return not _holds(structure, left, assignment) or _holds(structure, right, assignment)
        case Iff(left, right):
            return _holds(structure, left, assignment) == _holds(structure, right, assignment)
        case Exists(_, body):
            return any(_holds(structure, body, a) for a in _choices(structure, formula, assignment))
        case Forall(_, body):
            return all(_holds(structure, body, a) for a in _choices(structure, formula, assignment))


def _choices(
    structure: Structure, formula: Exists | Forall, assignment: dict[Node, Element]
) -> Iterator[dict[Node, Element]]:
    """Yield the extensions of the assignment to the bound variables: objects, or relations of the right arity."""
    arities = relation_arities(formula.body)
    ranges = [_range(structure, variable, arities) for variable in formula.variables]
    for choice in itertools.product(*ranges):
        yield assignment | dict(zip(formula.variables, choice, strict=True))


def _range(
    structure: Structure, variable: Variable | RelationVariable, arities: Mapping[RelationVariable, int]
) -> list[Element]:
    if isinstance(variable, Variable):
        return list(structure.domain)
    arity = arities.get(variable)  # None where the body does not use it
    return [name for name, r in structure.relations.items() if arity in (None, r.arity)]


def _atom(structure: Structure, atom: Atom, assignment: dict[Node, Element]) -> bool:
    name = atom.relation if isinstance(atom.relation, str) else assignment[atom.relation]
    if name not in structure.relations:
        raise FormulaError(f"there is no relation {name}")
    extension = structure.relations[str(name)]
    if extension.arity != len(atom.terms):
        raise FormulaError(f"{name} has {plural(extension.arity, 'argument')}, not {len(atom.terms)}")
    return tuple(_object(term, assignment) for term in atom.terms) in extension.tuples


def _object(term: Term, assignment: dict[Node, Element]) -> Element:
    if isinstance(term, Constant):
        return term.name
    if term not in assignment:
        raise FormulaError(f"the free variable {term} has no object assigned")
    return assignment[term]


def _number(structure: Structure, quantity: Quantity, assignment: dict[Node, Element]) -> float | None:
    if isinstance(quantity, Number):
        return quantity.value
    if quantity.name not in structure.attributes:
        raise FormulaError(f"there is no attribute {quantity.name}")
    return structure.attributes[quantity.name].get(_object(quantity.term, assignment))

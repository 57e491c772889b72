"""Transform formulas: substitution, normal form, relativisation, instances of templates.

>>> from gaifman.logic.ast import Atom, Exists, Implies, Forall, Variable
>>> x, y = Variable("x"), Variable("y")
>>> symmetric = Forall((x, y), Implies(Atom("r", (x, y)), Atom("r", (y, x))))
>>> print(negation_normal_form(symmetric))
∀x, y ¬r(x, y) ∨ r(y, x)
>>> print(relativise(symmetric, "near"))
∀x, y near(x) ∧ near(y) → r(x, y) → r(y, x)
>>> print(substitute(Exists((y,), Atom("r", (x, y))), {x: y}))
∃y1 r(y, y1)
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from gaifman.errors import LimitError
from gaifman.logic.ast import (
    And,
    Atom,
    Attribute,
    Exists,
    Feature,
    Forall,
    Formula,
    Iff,
    Implies,
    Node,
    Not,
    Or,
    Query,
    RelationVariable,
    Term,
    Truth,
    Variable,
    children,
    free_variables,
    walk,
)

N = TypeVar("N", bound=Node)
MAX_NORMAL_FORM_SIZE = 100_000
"""Largest number of nodes of a normal form."""
MAX_INSTANCES = 1_000_000
"""Largest number of features of one template."""
_BINDING_FIELDS = ("variables", "each")


def map_children(node: N, change: Callable[[Any], Any]) -> N:
    """Return the node with `change` applied to its children; variables that it binds stay."""
    changed: dict[str, Any] = {}
    for name in type(node).__match_args__:
        part = getattr(node, name)
        if isinstance(part, Node):
            changed[name] = change(part)
        elif isinstance(part, tuple) and name not in _BINDING_FIELDS:
            changed[name] = tuple(map(change, part))
    return replace(node, **changed) if changed else node  # type: ignore[type-var]  # every node is a dataclass


def substitute(node: N, terms: Mapping[Variable, Term]) -> N:
    """Return the formula with terms for free variables; a bound variable that would capture one is renamed."""
    changed: N = _substitute(node, dict(terms))
    return changed


def _substitute(node: Node, terms: dict[Variable, Term]) -> Any:
    match node:
        case Variable():
            return terms.get(node, node)
        case Exists(variables, body) | Forall(variables, body):
            return _substitute_below(node, variables, body, terms)
    return map_children(node, lambda part: _substitute(part, terms))


def _substitute_below(
    node: Exists | Forall,
    variables: tuple[Variable | RelationVariable, ...],
    body: Formula,
    terms: dict[Variable, Term],
) -> Exists | Forall:
    inner = {v: terms[v] for v in free_variables(node) if v in terms}
    captured = {term for term in inner.values() if isinstance(term, Variable)}
    taken = {v.name for v in captured} | {v.name for v in walk(body) if isinstance(v, Variable | RelationVariable)}
    renamed: list[Variable | RelationVariable] = []
    for variable in variables:
        if variable in captured and isinstance(variable, Variable):
            inner[variable] = fresh = Variable(next(fresh_names(variable.name, taken)))
            taken.add(fresh.name)
            renamed.append(fresh)
        else:
            renamed.append(variable)
    return replace(node, variables=tuple(renamed), body=_substitute(body, inner))


def fresh_names(stem: str, taken: Collection[str]) -> Iterator[str]:
    """Yield `stem` followed by 1, 2 …, without the names that are taken."""
    return (name for name in (f"{stem}{i}" for i in itertools.count(1)) if name not in taken)


def substitute_relations(node: N, relations: Mapping[RelationVariable, str]) -> N:
    """Return the formula with relation names for free relation variables."""
    changed: N = _substitute_relations(node, dict(relations))
    return changed


def _substitute_relations(node: Node, relations: dict[RelationVariable, str]) -> Any:
    match node:
        case Atom(RelationVariable() as variable):
            return replace(node, relation=relations.get(variable, variable))
        case Exists(variables) | Forall(variables):
            relations = {v: name for v, name in relations.items() if v not in variables}
    return map_children(node, lambda part: _substitute_relations(part, relations))


def relation_arities(node: Node) -> dict[RelationVariable, int]:
    """Return the arity of each free relation variable; the parser makes sure that there is only one."""
    if isinstance(node, Atom) and isinstance(node.relation, RelationVariable):
        return {node.relation: len(node.terms)}
    arities: dict[RelationVariable, int] = {}
    for part in children(node):
        arities |= relation_arities(part)
    return {variable: arity for variable, arity in arities.items() if variable not in node.bound_variables}


def used_symbols(features: Iterable[Feature], query: Query) -> tuple[dict[str, int], list[str]]:
    """Return the relations (name → arity) and attributes of some features and a query, sorted by name."""
    nodes = [node for body in (*(f.body for f in features), query.formula) for node in walk(body)]
    relations = {
        node.relation: len(node.terms) for node in nodes if isinstance(node, Atom) and isinstance(node.relation, str)
    }
    return dict(sorted(relations.items())), sorted({node.name for node in nodes if isinstance(node, Attribute)})


def instantiate(feature: Feature, relations: Mapping[str, int]) -> Iterator[Feature]:
    """Yield the features of a template: one for each choice of relations (name → arity) for its `each` variables.

    >>> from gaifman.logic.ast import Feature
    >>> r = RelationVariable("r")
    >>> template = Feature(Atom(r, (Variable("s1"), Variable("s2"))), (r,))
    >>> [str(feature) for feature in instantiate(template, {"borders": 2, "country": 1, "capital": 2})]
    ['borders(s1, s2)', 'capital(s1, s2)']
    """
    arities = relation_arities(feature.body)
    fitting = [[n for n, arity in relations.items() if arity == arities.get(v)] for v in feature.each]
    if (count := math.prod(map(len, fitting))) > MAX_INSTANCES:
        raise LimitError(
            f"{feature} stands for {count:,} features; the limit is {MAX_INSTANCES:,}",
            hint="name relations instead of an each variable, or let gaifman mine find the paths that matter",
        )
    for names in itertools.product(*fitting):
        yield Feature(substitute_relations(feature.body, dict(zip(feature.each, names, strict=True))))


def relativise(formula: Formula, relation: str) -> Formula:
    """Bound object quantifiers by a unary relation: ∃x φ becomes ∃x (relation(x) ∧ φ), ∀x φ ∀x (relation(x) → φ)."""
    inner = map_children(formula, lambda part: relativise(part, relation) if isinstance(part, Formula) else part)
    if not isinstance(inner, Exists | Forall):
        return inner
    guards: tuple[Formula, ...] = tuple(Atom(relation, (v,)) for v in inner.variables if isinstance(v, Variable))
    if not guards:
        return inner
    if isinstance(inner, Exists):
        return Exists(inner.variables, And((*guards, inner.body)))
    return Forall(inner.variables, Implies(guards[0] if len(guards) == 1 else And(guards), inner.body))


def negation_normal_form(formula: Formula) -> Formula:
    """Return an equivalent formula without → and ↔, with ¬ only before atoms, equalities and comparisons.

    A negated comparison stays negated: `¬(a < b)` is true if a number is missing, `a ≥ b` is not. Each ↔ doubles the
    formula below it; a result of more than `MAX_NORMAL_FORM_SIZE` nodes is refused before it is built.
    """
    size = _normal_sizes(formula)[0]
    if size > MAX_NORMAL_FORM_SIZE:
        raise LimitError(f"without ↔ the formula would have {size:,} parts; the limit is {MAX_NORMAL_FORM_SIZE:,}")
    return _normal(formula, positive=True)


def _normal_sizes(formula: Formula) -> tuple[int, int]:
    """Return the number of nodes of the normal form of a formula, and of its negation."""
    match formula:
        case Not(body):
            return _normal_sizes(body)[::-1]
        case Iff(left, right):
            both = sum(_normal_sizes(left)) + sum(_normal_sizes(right)) + 3
            return both, both
        case Implies(left, right):
            (left_true, left_false), (right_true, right_false) = _normal_sizes(left), _normal_sizes(right)
            return left_false + right_true + 1, left_true + right_false + 1
        case And(parts) | Or(parts):
            sizes = [_normal_sizes(part) for part in parts]
            return sum(size for size, _ in sizes) + 1, sum(size for _, size in sizes) + 1
        case Exists(_, body) | Forall(_, body):
            size, negated = _normal_sizes(body)
            return size + 1, negated + 1
    return 1, 2


def _normal(formula: Formula, *, positive: bool) -> Formula:
    match formula:
        case Not(body):
            return _normal(body, positive=not positive)
        case And(parts) | Or(parts):
            same = isinstance(formula, And) == positive
            return (And if same else Or)(tuple(_normal(part, positive=positive) for part in parts))
        case Implies(left, right):
            return _normal(Or((Not(left), right)), positive=positive)
        case Iff(left, right):
            both, neither = And((left, right)), And((Not(left), Not(right)))
            return _normal(Or((both, neither)), positive=positive)
        case Exists(variables, body) | Forall(variables, body):
            same = isinstance(formula, Exists) == positive
            return (Exists if same else Forall)(variables, _normal(body, positive=positive))
        case Truth(value):
            return Truth(value == positive)
    return formula if positive else Not(formula)

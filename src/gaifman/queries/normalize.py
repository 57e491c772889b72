"""Normal form of formulas, and safe-range analysis: which variables facts restrict.

>>> from gaifman.logic.ast import to_bracketed
>>> from gaifman.logic.parser import parse
>>> domain = Domain({"parent": 2, "female": 1})
>>> normal = normalize(parse("parent(x, y) & ~(forall z. parent(y, z) -> ~female(z))"), domain)
>>> print(to_bracketed(normal))
parent(x, y) ∧ (∃z (parent(y, z) ∧ female(z)))
>>> sorted(map(str, restricted_variables(normal)))
['x', 'y']
>>> restricted_variables(parse("~parent(x, y)"))
frozenset()

A normal formula consists of atoms, equalities, comparisons, ∃, ∧, ∨, ↔ and truth values, with ¬ only before atoms,
equalities, comparisons and ∃. Bound variables have different names, names that are not objects are resolved, and
every quantified variable is used.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from gaifman.errors import FormulaError
from gaifman.logic.ast import (
    And,
    AnyVariable,
    Atom,
    Comparison,
    Constant,
    Equal,
    Exists,
    Forall,
    Formula,
    Iff,
    Implies,
    Not,
    Number,
    Or,
    Quantity,
    RelationVariable,
    Term,
    Truth,
    Variable,
    all_free_variables,
    fresh_names,
    relation_arities,
    substitute,
    walk,
)
from gaifman.logic.semantics import COMPARISONS

Variables = frozenset[AnyVariable]
NO_VARIABLES: Variables = frozenset()
TRUE, FALSE = Truth(True), Truth(False)


@dataclass(frozen=True, slots=True)
class Domain:
    """The part of a knowledge base that the normal form depends on."""

    relations: Mapping[str, int]
    """Relation → arity."""
    objects: Collection[str] | None = None
    """Names of all objects; None if any name may be one."""
    arities: Collection[int] | None = None
    """Arities that have facts; None if any arity may."""

    def is_object(self, name: str) -> bool:
        """Return whether there is an object of this name."""
        return self.objects is None or name in self.objects

    def is_empty(self, variable: AnyVariable, arity: int | None) -> bool:
        """Return whether a variable has no possible value; `arity` is that of a relation variable, if it is used."""
        if isinstance(variable, Variable):
            return self.objects is not None and not len(self.objects)
        return not any(arity in (None, other) for other in self.relations.values())


def sort_by_name(variables: Iterable[AnyVariable]) -> tuple[AnyVariable, ...]:
    """Return variables in the order of their names."""
    return tuple(sorted(variables, key=lambda variable: variable.name))


# Normal form


def normalize(formula: Formula, domain: Domain) -> Formula:
    """Return an equivalent formula in normal form, also for names that are not objects and an empty domain."""
    names = [*all_free_variables(formula), *_bound_variables(formula)]
    if len(set(names)) < len(names):
        taken = {part.name for part in walk(formula) if isinstance(part, Variable | RelationVariable)}
        formula = _rename_apart(formula, set(all_free_variables(formula)), fresh_names("v", taken))
    return _normalize(formula, domain, positive=True)


def _bound_variables(formula: Formula) -> Iterator[AnyVariable]:
    """Yield the variables of all quantifiers."""
    match formula:
        case Exists(variables, body) | Forall(variables, body):
            yield from variables
            yield from _bound_variables(body)
        case And(parts) | Or(parts):
            for part in parts:
                yield from _bound_variables(part)
        case Not(body):
            yield from _bound_variables(body)
        case Iff(left, right) | Implies(left, right):
            yield from _bound_variables(left)
            yield from _bound_variables(right)


def _rename_apart(formula: Formula, seen: set[AnyVariable], fresh: Iterator[str]) -> Formula:
    """Rename bound variables that are free elsewhere or bound twice."""
    match formula:
        case Exists(variables, body) | Forall(variables, body):
            renamed: list[AnyVariable] = []
            for variable in dict.fromkeys(variables):
                own = replace(variable, name=next(fresh)) if variable in seen else variable
                body = body if own is variable else _rename(body, variable, own)
                seen.add(own)
                renamed.append(own)
            return replace(formula, variables=tuple(renamed), body=_rename_apart(body, seen, fresh))
        case And(parts) | Or(parts):
            return replace(formula, parts=tuple(_rename_apart(part, seen, fresh) for part in parts))
        case Not(body):
            return Not(_rename_apart(body, seen, fresh))
        case Iff(left, right) | Implies(left, right):
            return replace(formula, left=_rename_apart(left, seen, fresh), right=_rename_apart(right, seen, fresh))
    return formula


def _rename(body: Formula, old: AnyVariable, new: AnyVariable) -> Formula:
    if isinstance(old, Variable) and isinstance(new, Variable):
        return substitute(body, {old: new})
    return _rename_relation(body, old, new)


def _rename_relation(formula: Formula, old: AnyVariable, new: AnyVariable) -> Formula:
    match formula:
        case Atom(relation) if relation == old:
            assert isinstance(new, RelationVariable)
            return replace(formula, relation=new)
        case Exists(variables, body) | Forall(variables, body) if old not in variables:
            return replace(formula, body=_rename_relation(body, old, new))
        case And(parts) | Or(parts):
            return replace(formula, parts=tuple(_rename_relation(part, old, new) for part in parts))
        case Not(body):
            return Not(_rename_relation(body, old, new))
        case Iff(left, right) | Implies(left, right):
            changed = (_rename_relation(side, old, new) for side in (left, right))
            return type(formula)(*changed)
    return formula


def _normalize(formula: Formula, domain: Domain, *, positive: bool) -> Formula:
    """Return the normal form of the formula or of its negation."""
    match formula:
        case Truth(value):
            return TRUE if value == positive else FALSE
        case Not(body):
            return _normalize(body, domain, positive=not positive)
        case And(parts) | Or(parts):
            return _make_junction(
                (_normalize(part, domain, positive=positive) for part in parts), isinstance(formula, And) == positive
            )
        case Implies(left, right):
            sides = (_normalize(left, domain, positive=not positive), _normalize(right, domain, positive=positive))
            return _make_junction(sides, conjunction=not positive)
        case Iff(left, right):
            return _make_iff(_normalize(left, domain, positive=positive), _normalize(right, domain, positive=True))
        case Exists(variables, body):
            return _with_sign(_make_exists(variables, _normalize(body, domain, positive=True), domain), positive)
        case Forall(variables, body):
            return _with_sign(_make_exists(variables, _normalize(body, domain, positive=False), domain), not positive)
    return _with_sign(_simplify_literal(formula, domain), positive)


def negate(formula: Formula) -> Formula:
    """Return the normal form of the negation of a normal formula."""
    return _with_sign(formula, False)


def _with_sign(formula: Formula, positive: bool) -> Formula:
    """Return a normal formula or its negation."""
    if positive:
        return formula
    match formula:
        case Truth(value):
            return FALSE if value else TRUE
        case Not(body):
            return body
        case And(parts) | Or(parts):
            return _make_junction((_with_sign(part, False) for part in parts), isinstance(formula, Or))
        case Iff(left, right):
            return Iff(_with_sign(left, False), right)
    return Not(formula)


def _make_junction(parts: Iterable[Formula], conjunction: bool) -> Formula:
    """Return ∧ or ∨ of normal parts: flat, without repetition, without truth values."""
    neutral, deciding = (TRUE, FALSE) if conjunction else (FALSE, TRUE)
    kind = And if conjunction else Or
    kept: list[Formula] = []
    for part in parts:
        if part == deciding:
            return deciding
        if part != neutral:
            kept += [p for p in (part.parts if isinstance(part, kind) else (part,)) if p not in kept]
    return neutral if not kept else kept[0] if len(kept) == 1 else kind(tuple(kept))


def _make_iff(left: Formula, right: Formula) -> Formula:
    for one, other in ((left, right), (right, left)):
        if isinstance(one, Truth):
            return _with_sign(other, one.value)
    return TRUE if left == right else FALSE if left == _with_sign(right, False) else Iff(left, right)


def _make_exists(variables: tuple[AnyVariable, ...], body: Formula, domain: Domain) -> Formula:
    """Return ∃ over a normal body: pushed into ∨, merged with an inner ∃, without unused variables."""
    if any(domain.is_empty(v, _arity(v, body)) for v in variables):
        return FALSE
    if isinstance(body, Or):
        return _make_junction((_make_exists(variables, part, domain) for part in body.parts), conjunction=False)
    used = all_free_variables(body)
    kept = tuple(v for v in variables if v in used)
    if not kept:
        return body
    return Exists((*kept, *body.variables), body.body) if isinstance(body, Exists) else Exists(kept, body)


def _arity(variable: AnyVariable, body: Formula) -> int | None:
    return relation_arities(body).get(variable) if isinstance(variable, RelationVariable) else None


def _simplify_literal(formula: Formula, domain: Domain) -> Formula:
    """Return an atom, equality or comparison, or its truth value if that is known."""
    match formula:
        case Atom(relation, terms):
            _check_arity(relation, terms, domain)
            factless = domain.arities is not None and len(terms) not in domain.arities
            return formula if not factless and all(map(_may_denote(domain), terms)) else FALSE
        case Equal(Constant(one), Constant(other)):
            return Truth(one == other)
        case Equal(left, right):
            known = all(map(_may_denote(domain), (left, right)))
            return TRUE if left == right else formula if known else FALSE
        case Comparison(Number(one), sign, Number(other)):
            return Truth(COMPARISONS[sign](one, other))
        case Comparison(left, sign, right) if _is_nan(left) or _is_nan(right):
            measured = right if isinstance(left, Number) else left
            return _simplify_literal(Comparison(measured, "≠", Number(math.inf)), domain) if sign == "≠" else FALSE
        case Comparison(left, _, right):
            return formula if _has_number(left, domain) and _has_number(right, domain) else FALSE
    raise AssertionError(f"{type(formula).__name__} is not a literal")


def _may_denote(domain: Domain) -> Callable[[Term], bool]:
    return lambda term: isinstance(term, Variable) or domain.is_object(term.name)


def _has_number(quantity: Quantity, domain: Domain) -> bool:
    return isinstance(quantity, Number) or _may_denote(domain)(quantity.term)


def _check_arity(relation: str | RelationVariable, terms: tuple[Term, ...], domain: Domain) -> None:
    if isinstance(relation, str) and domain.relations.get(relation) != len(terms):
        raise FormulaError(f"there is no relation {relation} of arity {len(terms)}")


def _is_nan(quantity: Quantity) -> bool:
    return isinstance(quantity, Number) and math.isnan(quantity.value)


# Safe range


def conjuncts(formula: Formula) -> list[Formula]:
    """Return the parts of a normal formula that must all hold, also those below ∃."""
    match formula:
        case And(parts):
            return [found for part in parts for found in conjuncts(part)]
        case Exists(_, body):
            return conjuncts(body)
        case Truth(True):
            return []
    return [formula]


def restricted_variables(formula: Formula, bound: Variables = NO_VARIABLES) -> Variables:
    """Return the free variables of a normal formula that facts, numbers or names restrict, if `bound` are known.

    An atom restricts all its variables, a comparison those of its attributes, an equality one side by the other. ∧
    restricts what any part does, ∨ what every part does, ∃ what its body does. ¬ and ↔ restrict nothing.
    """
    match formula:
        case Atom() | Comparison():
            return all_free_variables(formula)
        case Equal(left, right):
            sides = all_free_variables(formula)
            known = sides & bound or isinstance(left, Constant) or isinstance(right, Constant)
            return sides if known else NO_VARIABLES
        case And(parts):
            return _restricted_by_conjunction(parts, bound)
        case Or(parts):
            return frozenset.intersection(*(restricted_variables(part, bound) for part in parts))
        case Exists(variables, body):
            return restricted_variables(body, bound).difference(variables)
    return NO_VARIABLES


def _restricted_by_conjunction(parts: tuple[Formula, ...], bound: Variables) -> Variables:
    found = NO_VARIABLES
    while True:
        more = found.union(*(restricted_variables(part, bound | found) for part in parts))
        if more == found:
            return found
        found = more

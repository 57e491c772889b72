"""Groundings: the facts of one neighbourhood that make a feature true or false, for explanations.

>>> from gaifman.kb.knowledge_base import KnowledgeBase
>>> from gaifman.logic.parser import parse_feature
>>> kb = KnowledgeBase.from_facts([("parent", "ann", "bob"), ("parent", "bob", "cleo"), ("old", "ann")])
>>> structure = LocalStructure(kb.structure())
>>> for facts in find_groundings(structure, parse_feature("∃x parent(s1, x) ∧ parent(x, s2)"), ("ann", "cleo")):
...     print(*facts)
parent(ann, bob). parent(bob, cleo).
>>> find_groundings(structure, parse_feature("¬old(s1)"), ("ann", "cleo"), above_default=False)  # what makes it false
[(Fact(relation='old', objects=('ann',), confidence=1.0),)]

A grounding has one fact for each atom of one way to make the formula true. Parts that are no atoms (=, ≠, numbers, and
everything under ¬ or ∀) must hold but contribute no facts.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import Any

import numpy as np

from gaifman.errors import FormulaError, LimitError
from gaifman.kb.gaifman_graph import GaifmanGraph, induced_facts
from gaifman.kb.knowledge_base import Fact
from gaifman.kb.labels import NOTHING, Labels, label_fact
from gaifman.kb.tables import Ints, Longs
from gaifman.logic.ast import (
    Aggregate,
    And,
    Atom,
    Comparison,
    Constant,
    Equal,
    Exists,
    Feature,
    Forall,
    Formula,
    Iff,
    Implies,
    Node,
    Not,
    Or,
    RelationVariable,
    Term,
    Truth,
    Variable,
    free_variables,
    negation_normal_form,
    query_position,
    relation_arities,
    walk,
)
from gaifman.logic.semantics import Extension, Structure, holds

SHOWN_GROUNDINGS = 3
"""Groundings of a counting feature whose facts `gaifman features` shows."""
MAX_GROUNDINGS = 200
"""Largest number of groundings of a feature."""

MAX_STEPS = 50_000
"""Largest number of facts and assignments tried for one feature; then the groundings so far are returned."""

Assignment = dict[Node, Any]
Grounding = tuple[Assignment, tuple[Fact, ...]]
GroundAtom = tuple[str, tuple[Any, ...]]
"""A relation and objects."""

_TESTS = Truth | Equal | Comparison | Not | Forall
"""Formulas that are tested and contribute no facts."""


class LocalStructure:
    """The structure of one neighbourhood, with an index of facts by object."""

    def __init__(self, structure: Structure, fact_numbers: Mapping[GroundAtom, int] | None = None) -> None:
        self.structure, self.fact_numbers = structure, fact_numbers or {}
        self.remaining_steps = MAX_STEPS
        """Steps left for the current search."""
        self._index: dict[tuple[str, int, Any], list[tuple[Any, ...]]] = {}
        self._sorted: dict[str, list[tuple[Any, ...]]] = {}

    def spend(self, steps: int = 1) -> None:
        """Count some steps. Stop the search if none are left."""
        self.remaining_steps -= steps
        if self.remaining_steps < 0:
            raise _StepLimitReached

    @property
    def facts(self) -> list[Fact]:
        """All facts, sorted."""
        return [
            Fact(name, tuple(objects)) for name in sorted(self.structure.relations) for objects in self.tuples(name)
        ]

    def relations_of_arity(self, arity: int) -> list[str]:
        """Return the names of the relations with this arity."""
        return sorted(name for name, relation in self.structure.relations.items() if relation.arity == arity)

    def tuples(self, relation: str) -> list[tuple[Any, ...]]:
        """Return the tuples of a relation, sorted."""
        if relation not in self._sorted:
            if relation not in self.structure.relations:
                raise FormulaError(f"there is no relation {relation}")
            tuples = sorted(self.structure.relations[relation].tuples, key=str)
            self._sorted[relation] = tuples
            for objects in tuples:
                for position, obj in enumerate(objects):
                    self._index.setdefault((relation, position, obj), []).append(objects)
        return self._sorted[relation]

    def candidate_tuples(self, relation: str, terms: tuple[Term, ...], env: Assignment) -> list[tuple[Any, ...]]:
        """Return tuples that may match: the shortest list that shares an object with a bound term."""
        candidates = self.tuples(relation)
        for position, term in enumerate(terms):
            bound = term.name if isinstance(term, Constant) else env.get(term)
            if bound is not None:
                candidates = min(candidates, self._index.get((relation, position, bound), []), key=len)
        return candidates


def local_structure(
    graph: GaifmanGraph, members: Ints, hidden: Longs, get_fact: Callable[[int], Fact] | None = None
) -> LocalStructure:
    """Return the structure that formulas see in a neighbourhood with these members, without what is hidden.

    Neighbourhoods of one tuple share facts; pass a cached `get_fact` for many of them.
    """
    kb, names = graph.kb, {int(member): graph.kb.object_name(int(member)) for member in members}
    tuples: dict[str, set[tuple[Hashable, ...]]] = {}
    fact_numbers = {}
    for number in induced_facts(graph, members, hidden).tolist():
        fact = (get_fact or graph.kb.fact_by_id)(number)
        tuples.setdefault(fact.relation, set()).add(fact.objects)
        fact_numbers[fact.relation, fact.objects] = number
    relations = {
        name: Extension(arity, frozenset(tuples.get(name, ())))
        for name, arity in zip(kb.content.relations, kb.content.arities, strict=True)
    }
    return LocalStructure(
        Structure(frozenset(names.values()), relations, _local_values(graph, names, hidden)), fact_numbers
    )


def _local_values(graph: GaifmanGraph, names: Mapping[int, str], hidden: Longs) -> dict[str, dict[Hashable, float]]:
    """Return the values of members by attribute and name, without the hidden ones."""
    arrays, attributes = graph.arrays.values, graph.kb.content.attributes
    values: dict[str, dict[Hashable, float]] = {name: {} for name in attributes}
    for member, name in names.items():
        rows = arrays.object_rows[arrays.object_starts[member] : arrays.object_starts[member + 1]]
        for row in rows[~np.isin(rows.astype(np.int64) + arrays.first, hidden)].tolist():
            values[attributes[int(arrays.attributes[row])]][name] = float(arrays.values[row])
    return values


def find_groundings(
    structure: LocalStructure,
    feature: Feature,
    objects: tuple[str, ...],
    *,
    above_default: bool = True,
    limit: int = MAX_GROUNDINGS,
) -> list[tuple[Fact, ...]]:
    """Return the facts of up to `limit` groundings of a feature, each set once.

    With `above_default=False` they are the facts that make the formula false; but an aggregate of numbers, which may be
    negative, has its value by what makes its formula true. The list is empty if the value does not depend on facts.
    """
    body: Node = feature.body
    if isinstance(body, Aggregate):
        above_default, body = above_default or body.quantity is not None, body.formula
    if not isinstance(body, Formula):
        return []
    try:
        formula = negation_normal_form(body if above_default else Not(body))
    except LimitError:
        return []
    env: Assignment = {Variable(f"s{i}"): name for i, name in enumerate(objects, start=1)}
    groundings = islice(_groundings_in_budget(structure, formula, env), limit)
    return [facts for facts in dict.fromkeys(tuple(dict.fromkeys(facts)) for _, facts in groundings) if facts]


def find_witness_facts(
    structure: Structure, feature: Feature, objects: tuple[str, ...], labels: Labels = NOTHING
) -> tuple[list[str], bool]:
    """Return the facts of the first groundings of a feature, with labels for objects, and whether there are more.

    There are none if facts alone do not make it true: for ¬, →, ↔, ∀, and attributes.
    """
    body = feature.body.formula if isinstance(feature.body, Aggregate) else feature.body
    if not isinstance(body, Formula) or not _is_positive(body):
        return [], False
    local = LocalStructure(structure)
    env: Assignment = {Variable(f"s{i}"): name for i, name in enumerate(objects, start=1)}
    counted = [variable for variable in free_variables(body) if not query_position(variable)]
    groundings: dict[tuple[Any, ...], tuple[Fact, ...]] = {}
    for grounding, facts in _groundings_in_budget(local, body, env):
        groundings.setdefault(tuple(grounding.get(variable) for variable in counted), facts)
        if not counted or len(groundings) > SHOWN_GROUNDINGS:
            break
    shown = dict.fromkeys(
        str(label_fact(fact, labels)) for facts in list(groundings.values())[:SHOWN_GROUNDINGS] for fact in facts
    )
    return list(shown), len(groundings) > SHOWN_GROUNDINGS


def _is_positive(formula: Formula) -> bool:
    """Return whether facts alone make the formula true; ≠ is allowed."""
    return all(
        not isinstance(part, Implies | Iff | Forall) and (not isinstance(part, Not) or isinstance(part.body, Equal))
        for part in walk(formula)
    )


class _StepLimitReached(Exception):
    """The search has used all its steps."""


def _groundings_in_budget(local: LocalStructure, formula: Formula, env: Assignment) -> Iterator[Grounding]:
    """Yield the groundings that are found within the step limit."""
    local.remaining_steps = MAX_STEPS
    with suppress(_StepLimitReached):
        yield from _groundings(local, formula, env)


def _groundings(local: LocalStructure, formula: Formula, env: Assignment) -> Iterator[Grounding]:
    """Yield every extension of the assignment that makes the formula true, with the facts it needs."""
    match formula:
        case Atom():
            yield from _atom_groundings(local, formula, env)
        case And(parts):
            yield from _conjunction_groundings(local, parts, env)
        case Or(parts):
            for part in parts:
                yield from _groundings(local, part, env)
        case Exists(variables, body):
            shadowed = {v: env[v] for v in variables if v in env}
            inner = {v: obj for v, obj in env.items() if v not in variables}
            for found, facts in _groundings(local, body, inner):
                yield {v: obj for v, obj in found.items() if v not in variables} | shadowed, facts
        case Truth() | Equal() | Comparison() | Not() | Forall():
            yield from _test_groundings(local, formula, env)
        case _:
            raise FormulaError(f"facts alone do not make {formula} true")


def _conjunction_groundings(local: LocalStructure, parts: tuple[Formula, ...], env: Assignment) -> Iterator[Grounding]:
    if not parts:
        yield env, ()
        return
    # Atoms with most bound terms first; tests last, when their variables are bound.
    first = max(parts, key=lambda part: -1 if isinstance(part, _TESTS) else _bound_terms(part, env))
    rest = tuple(part for part in parts if part is not first)
    for found, facts in _groundings(local, first, env):
        for extended, more in _conjunction_groundings(local, rest, found):
            yield extended, (*facts, *more)


def _bound_terms(part: Formula, env: Assignment) -> int:
    """Return the number of bound terms of an atom; 0 for other formulas."""
    if not isinstance(part, Atom):
        return 0
    return sum(isinstance(term, Constant) or term in env for term in part.terms)


def _atom_groundings(local: LocalStructure, atom: Atom, env: Assignment) -> Iterator[Grounding]:
    relation = atom.relation
    if isinstance(relation, RelationVariable) and relation not in env:
        for name in local.relations_of_arity(len(atom.terms)):
            yield from _atom_groundings(local, atom, env | {relation: name})
        return
    name = relation if isinstance(relation, str) else env[relation]
    for objects in local.candidate_tuples(name, atom.terms, env):
        local.spend()
        found = _unify(atom.terms, objects, env)
        if found is not None:
            yield found, (Fact(name, tuple(map(str, objects))),)


def _unify(terms: tuple[Term, ...], objects: tuple[Any, ...], env: Assignment) -> Assignment | None:
    extended = dict(env)
    for term, obj in zip(terms, objects, strict=True):
        expected = term.name if isinstance(term, Constant) else extended.setdefault(term, obj)
        if expected != obj:
            return None
    return extended


def _test_groundings(local: LocalStructure, formula: Formula, env: Assignment) -> Iterator[Grounding]:
    """Test a formula without facts; an unbound variable is tried for every member."""
    unbound = next((variable for variable in free_variables(formula) if variable not in env), None)
    unbound_relations = {v: arity for v, arity in relation_arities(formula).items() if v not in env}
    if unbound is not None:
        for member in sorted(local.structure.domain, key=str):
            yield from _test_groundings(local, formula, env | {unbound: member})
    elif unbound_relations:
        variable, arity = next(iter(unbound_relations.items()))
        for name in local.relations_of_arity(arity):
            yield from _test_groundings(local, formula, env | {variable: name})
    else:
        local.spend(_assignment_count(local, formula))
        if holds(local.structure, formula, env):  # type: ignore[arg-type]  # relation variables too
            yield env, ()


def _assignment_count(local: LocalStructure, formula: Formula) -> int:
    """Return an upper bound of the assignments tried to test a formula."""
    count = 1
    for part in walk(formula):
        for variable in part.bound_variables:
            choices = local.structure.domain if isinstance(variable, Variable) else local.structure.relations
            count = min(count * max(len(choices), 1), MAX_STEPS + 1)
    return count

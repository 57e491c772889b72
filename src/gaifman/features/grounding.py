"""The facts that make a feature what it is, found in the small structure of one neighbourhood, for people.

>>> from gaifman.kb.knowledge_base import KnowledgeBase
>>> from gaifman.logic.parser import parse_feature
>>> kb = KnowledgeBase.from_facts([("parent", "ann", "bob"), ("parent", "bob", "cleo"), ("old", "ann")])
>>> inside = LocalStructure(kb.structure())
>>> for facts in find_groundings(inside, parse_feature("∃x parent(s1, x) ∧ parent(x, s2)"), ("ann", "cleo")):
...     print(*facts)
parent(ann, bob). parent(bob, cleo).
>>> find_groundings(inside, parse_feature("¬old(s1)"), ("ann", "cleo"), above=False)  # what makes it false
[(Fact(relation='old', objects=('ann',), confidence=1.0),)]

A *ground* is a set of facts, one for each atom of one way to make the formula true. What is not an atom (=, ≠, numbers,
and whatever stands behind ¬ or ∀) must hold, and has no facts.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import Any

from gaifman.errors import FormulaError, LimitError
from gaifman.kb.facts import Fact
from gaifman.kb.gaifman_graph import GaifmanGraph, induced_facts
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
    query_position,
    walk,
)
from gaifman.logic.semantics import Extension, Structure, holds
from gaifman.logic.transforms import negation_normal_form, relation_arities

SHOWN_GROUNDINGS = 3
"""Ways to satisfy a counting feature whose facts `gaifman features` gives."""
MAX_GROUNDINGS = 200
"""Ways to satisfy a feature that are looked at."""

MAX_STEPS = 50_000
"""Facts and assignments that are tried for one feature at most: then what was found so far is given."""

Assignment = dict[Node, Any]
Grounding = tuple[Assignment, tuple[Fact, ...]]
GroundAtom = tuple[str, tuple[Any, ...]]
"""A relation and objects."""

_TESTS = Truth | Equal | Comparison | Not | Forall
"""Formulas of which no facts are given: they hold or do not."""


class LocalStructure:
    """The structure of one neighbourhood, in which facts are found by one of their objects."""

    def __init__(self, structure: Structure, fact_numbers: Mapping[GroundAtom, int] | None = None) -> None:
        self.structure, self.fact_numbers = structure, fact_numbers or {}
        self.remaining_steps = MAX_STEPS
        """What is left of the search that is going on."""
        self._index: dict[tuple[str, int, Any], list[tuple[Any, ...]]] = {}
        self._sorted: dict[str, list[tuple[Any, ...]]] = {}

    def spend(self, steps: int = 1) -> None:
        """Take some steps, or stop the search."""
        self.remaining_steps -= steps
        if self.remaining_steps < 0:
            raise _StepLimitReached

    @property
    def facts(self) -> list[Fact]:
        """All of them, sorted."""
        return [
            Fact(name, tuple(objects)) for name in sorted(self.structure.relations) for objects in self.tuples(name)
        ]

    def relations_of_arity(self, arity: int) -> list[str]:
        """Names of the relations with so many places."""
        return sorted(name for name, relation in self.structure.relations.items() if relation.arity == arity)

    def tuples(self, relation: str) -> list[tuple[Any, ...]]:
        """The tuples of a relation, sorted."""
        if relation not in self._sorted:
            if relation not in self.structure.relations:
                raise FormulaError(f"there is no relation {relation}")
            found = sorted(self.structure.relations[relation].tuples, key=str)
            self._sorted[relation] = found
            for objects in found:
                for place, obj in enumerate(objects):
                    self._index.setdefault((relation, place, obj), []).append(objects)
        return self._sorted[relation]

    def candidate_tuples(self, relation: str, terms: tuple[Term, ...], env: Assignment) -> list[tuple[Any, ...]]:
        """Tuples that may fit: the fewest that share an object with the terms that are known."""
        fewest = self.tuples(relation)
        for place, term in enumerate(terms):
            known = term.name if isinstance(term, Constant) else env.get(term)
            if known is not None:
                fewest = min(fewest, self._index.get((relation, place, known), []), key=len)
        return fewest


def local_structure(
    graph: GaifmanGraph, members: Ints, hidden: Longs, get_fact: Callable[[int], Fact] | None = None
) -> LocalStructure:
    """The structure that some members make, as formulas see it in a neighbourhood, without the hidden facts.

    Whoever looks at many neighbourhoods of a tuple, which share facts, gives a `fact_of` that remembers.
    """
    kb, names = graph.kb, {int(member): graph.kb.object_name(int(member)) for member in members}
    tuples: dict[str, set[tuple[Hashable, ...]]] = {}
    numbers = {}
    for number in induced_facts(graph, members, hidden).tolist():
        fact = (get_fact or graph.kb.fact_by_id)(number)
        tuples.setdefault(fact.relation, set()).add(fact.objects)
        numbers[fact.relation, fact.objects] = number
    relations = {
        name: Extension(arity, frozenset(tuples.get(name, ())))
        for name, arity in zip(kb.content.relations, kb.content.arities, strict=True)
    }
    values: dict[str, dict[Hashable, float]] = {}
    for attribute in kb.attributes:
        known = ((name, kb.value(attribute, name)) for name in names.values())
        values[attribute] = {name: value for name, value in known if value is not None}
    return LocalStructure(Structure(frozenset(names.values()), relations, values), numbers)


def find_groundings(
    structure: LocalStructure,
    feature: Feature,
    objects: tuple[str, ...],
    *,
    above_default: bool = True,
    limit: int = MAX_GROUNDINGS,
) -> list[tuple[Fact, ...]]:
    """The facts of the first ways in which a feature is what it is, each set once; none where facts do not say it.

    `above` says whether its value is above that without facts: else it is what makes the formula false that counts.
    """
    body = feature.body.formula if isinstance(feature.body, Aggregate) else feature.body
    if not isinstance(body, Formula):
        return []
    try:
        formula = negation_normal_form(body if above_default else Not(body))
    except LimitError:
        return []
    env: Assignment = {Variable(f"s{i}"): name for i, name in enumerate(objects, start=1)}
    ways = islice(_groundings_in_budget(structure, formula, env), limit)
    return [facts for facts in dict.fromkeys(tuple(dict.fromkeys(facts)) for _, facts in ways) if facts]


def find_witness_facts(structure: Structure, feature: Feature, objects: tuple[str, ...]) -> tuple[list[str], bool]:
    """Facts that satisfy a feature, in the first ways they do, and whether there are more ways that count.

    No facts where they are not what makes it true: with ¬, →, ↔ or ∀, or a number of an object.
    """
    body = feature.body.formula if isinstance(feature.body, Aggregate) else feature.body
    if not isinstance(body, Formula) or not _is_positive(body):
        return [], False
    inside = LocalStructure(structure)
    env: Assignment = {Variable(f"s{i}"): name for i, name in enumerate(objects, start=1)}
    counted = [variable for variable in free_variables(body) if not query_position(variable)]
    ways: dict[tuple[Any, ...], tuple[Fact, ...]] = {}
    for grounding, facts in _groundings_in_budget(inside, body, env):
        ways.setdefault(tuple(grounding.get(variable) for variable in counted), facts)
        if not counted or len(ways) > SHOWN_GROUNDINGS:
            break
    shown = dict.fromkeys(str(fact) for facts in list(ways.values())[:SHOWN_GROUNDINGS] for fact in facts)
    return list(shown), len(ways) > SHOWN_GROUNDINGS


def _is_positive(formula: Formula) -> bool:
    """Whether facts alone make it true; ≠ is no obstacle."""
    return all(
        not isinstance(part, Implies | Iff | Forall) and (not isinstance(part, Not) or isinstance(part.body, Equal))
        for part in walk(formula)
    )


class _StepLimitReached(Exception):
    """As many steps were taken as may be."""


def _groundings_in_budget(inside: LocalStructure, formula: Formula, env: Assignment) -> Iterator[Grounding]:
    """The ways that are found in so many steps."""
    inside.remaining_steps = MAX_STEPS
    with suppress(_StepLimitReached):
        yield from _groundings(inside, formula, env)


def _groundings(inside: LocalStructure, formula: Formula, env: Assignment) -> Iterator[Grounding]:
    """Every way to extend the assignment so that the formula holds, with the facts it takes."""
    match formula:
        case Atom():
            yield from _atom_groundings(inside, formula, env)
        case And(parts):
            yield from _conjunction_groundings(inside, parts, env)
        case Or(parts):
            for part in parts:
                yield from _groundings(inside, part, env)
        case Exists(variables, body):
            hidden = {v: env[v] for v in variables if v in env}
            inner = {v: obj for v, obj in env.items() if v not in variables}
            for found, facts in _groundings(inside, body, inner):
                yield {v: obj for v, obj in found.items() if v not in variables} | hidden, facts
        case Truth() | Equal() | Comparison() | Not() | Forall():
            yield from _test_groundings(inside, formula, env)
        case _:
            raise FormulaError(f"no facts alone make {formula} true")


def _conjunction_groundings(inside: LocalStructure, parts: tuple[Formula, ...], env: Assignment) -> Iterator[Grounding]:
    if not parts:
        yield env, ()
        return
    # What only tests comes last, when facts have said what its variables are; of the others what is known best first.
    first = max(parts, key=lambda part: -1 if isinstance(part, _TESTS) else _bound_terms(part, env))
    rest = tuple(part for part in parts if part is not first)
    for found, facts in _groundings(inside, first, env):
        for extended, more in _conjunction_groundings(inside, rest, found):
            yield extended, (*facts, *more)


def _bound_terms(part: Formula, env: Assignment) -> int:
    """Terms of an atom that are known; 0 for other formulas."""
    if not isinstance(part, Atom):
        return 0
    return sum(isinstance(term, Constant) or term in env for term in part.terms)


def _atom_groundings(inside: LocalStructure, atom: Atom, env: Assignment) -> Iterator[Grounding]:
    relation = atom.relation
    if isinstance(relation, RelationVariable) and relation not in env:
        for name in inside.relations_of_arity(len(atom.terms)):
            yield from _atom_groundings(inside, atom, env | {relation: name})
        return
    name = relation if isinstance(relation, str) else env[relation]
    for objects in inside.candidate_tuples(name, atom.terms, env):
        inside.spend()
        found = _unify(atom.terms, objects, env)
        if found is not None:
            yield found, (Fact(name, tuple(map(str, objects))),)


def _unify(terms: tuple[Term, ...], objects: tuple[Any, ...], env: Assignment) -> Assignment | None:
    found = dict(env)
    for term, obj in zip(terms, objects, strict=True):
        wanted = term.name if isinstance(term, Constant) else found.setdefault(term, obj)
        if wanted != obj:
            return None
    return found


def _test_groundings(inside: LocalStructure, formula: Formula, env: Assignment) -> Iterator[Grounding]:
    """What facts do not decide: tried for every member where a variable is not given yet."""
    missing = next((variable for variable in free_variables(formula) if variable not in env), None)
    nameless = {v: arity for v, arity in relation_arities(formula).items() if v not in env}
    if missing is not None:
        for member in sorted(inside.structure.domain, key=str):
            yield from _test_groundings(inside, formula, env | {missing: member})
    elif nameless:
        variable, arity = next(iter(nameless.items()))
        for name in inside.relations_of_arity(arity):
            yield from _test_groundings(inside, formula, env | {variable: name})
    else:
        inside.spend(_assignment_count(inside, formula))
        if holds(inside.structure, formula, env):  # type: ignore[arg-type]  # relation variables too
            yield env, ()


def _assignment_count(inside: LocalStructure, formula: Formula) -> int:
    """Assignments that are tried at most to see whether a formula holds."""
    trials = 1
    for part in walk(formula):
        for variable in part.bound_variables:
            every = inside.structure.domain if isinstance(variable, Variable) else inside.structure.relations
            trials = min(trials * max(len(every), 1), MAX_STEPS + 1)
    return trials

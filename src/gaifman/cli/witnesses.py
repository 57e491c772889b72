"""The facts that make a feature true, for people: found in the small structure of one neighbourhood, fact by fact."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from gaifman.errors import FormulaError
from gaifman.facts import Fact
from gaifman.formulas import (
    And,
    Atom,
    Comparison,
    Constant,
    Equal,
    Exists,
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
    free,
    walk,
)
from gaifman.questions import Aggregate, query_position
from gaifman.semantics import holds

if TYPE_CHECKING:
    from gaifman.questions import Feature
    from gaifman.semantics import Structure

WAYS = 3
"""Ways to satisfy a counting feature whose facts are given."""

Env = dict[Node, Any]
Way = tuple[Env, tuple[Fact, ...]]


def witnesses(inside: Structure, feature: Feature, objects: tuple[str, ...]) -> tuple[list[str], bool]:
    """Facts that satisfy a feature, in the first ways they do, and whether there are more ways that count.

    No facts where they are not what makes it true: with ¬, →, ↔ or ∀, or a number of an object.
    """
    body = feature.body.formula if isinstance(feature.body, Aggregate) else feature.body
    if not isinstance(body, Formula) or not _positive(body):
        return [], False
    env: Env = {Variable(f"s{i}"): name for i, name in enumerate(objects, start=1)}
    counted = [variable for variable in free(body) if not query_position(variable)]
    ways: dict[tuple[Any, ...], tuple[Fact, ...]] = {}
    for grounding, facts in _ways(inside, body, env):
        ways.setdefault(tuple(grounding.get(variable) for variable in counted), facts)
        if not counted or len(ways) > WAYS:
            break
    shown = dict.fromkeys(str(fact) for facts in list(ways.values())[:WAYS] for fact in facts)
    return list(shown), len(ways) > WAYS


def _positive(formula: Formula) -> bool:
    """Whether facts alone make it true; ≠ is no obstacle."""
    return all(
        not isinstance(part, Implies | Iff | Forall) and (not isinstance(part, Not) or isinstance(part.body, Equal))
        for part in walk(formula)
    )


def _ways(inside: Structure, formula: Formula, env: Env) -> Iterator[Way]:
    """Every way to extend the assignment so that the formula holds, with the facts it takes."""
    match formula:
        case Atom():
            yield from _atom(inside, formula, env)
        case And(parts):
            yield from _all(inside, parts, env)
        case Or(parts):
            for part in parts:
                yield from _ways(inside, part, env)
        case Exists(variables, body):
            hidden = {v: env[v] for v in variables if v in env}
            inner = {v: obj for v, obj in env.items() if v not in variables}
            for found, facts in _ways(inside, body, inner):
                yield {v: obj for v, obj in found.items() if v not in variables} | hidden, facts
        case Truth() | Equal() | Comparison() | Not():
            yield from _test(inside, formula, env)
        case _:
            raise FormulaError(f"no facts alone make {formula} true")


def _all(inside: Structure, parts: tuple[Formula, ...], env: Env) -> Iterator[Way]:
    if not parts:
        yield env, ()
        return
    # What only tests comes last, when facts have said what its variables are.
    first = next((part for part in parts if not isinstance(part, Equal | Comparison | Not)), parts[0])
    rest = tuple(part for part in parts if part is not first)
    for found, facts in _ways(inside, first, env):
        for extended, more in _all(inside, rest, found):
            yield extended, (*facts, *more)


def _atom(inside: Structure, atom: Atom, env: Env) -> Iterator[Way]:
    relation = atom.relation
    if isinstance(relation, RelationVariable) and relation not in env:
        for name in sorted(n for n, r in inside.relations.items() if r.arity == len(atom.terms)):
            yield from _atom(inside, atom, env | {relation: name})
        return
    name = relation if isinstance(relation, str) else env[relation]
    for objects in sorted(inside.relations[name].tuples, key=str):
        found = _matched(atom.terms, objects, env)
        if found is not None:
            yield found, (Fact(name, tuple(map(str, objects))),)


def _matched(terms: tuple[Term, ...], objects: tuple[Any, ...], env: Env) -> Env | None:
    found = dict(env)
    for term, obj in zip(terms, objects, strict=True):
        wanted = term.name if isinstance(term, Constant) else found.setdefault(term, obj)
        if wanted != obj:
            return None
    return found


def _test(inside: Structure, formula: Formula, env: Env) -> Iterator[Way]:
    """What facts do not decide: tried for every member where a variable is not given yet."""
    missing = next((variable for variable in free(formula) if variable not in env), None)
    if missing is not None:
        for member in sorted(inside.domain, key=str):
            yield from _test(inside, formula, env | {missing: member})
    elif holds(inside, formula, {v: obj for v, obj in env.items() if isinstance(v, Variable)}):
        yield env, ()

"""Formulas in plain words, for people who read no logic.

>>> from gaifman.parser import parse_feature
>>> phrase(parse_feature("exists x. borders('france', x) & borders('belgium', x)"))
'for some x, france borders x and belgium borders x'
>>> phrase(parse_feature("exists x. located_in('france', x)"))
'france located in something'
>>> phrase(parse_feature("member_of('france', x)"))
'how many x: france member of x'

Words lose what brackets say, so they stand beside the formula, never instead of it. A relation is put between its two
objects as it is called, which reads well where it is a verb and can be understood where it is not.
"""

from __future__ import annotations

from collections.abc import Mapping

from gaifman.formulas import (
    And,
    Atom,
    Attribute,
    Comparison,
    Constant,
    Equal,
    Exists,
    Forall,
    Iff,
    Implies,
    Node,
    Not,
    Or,
    RelationVariable,
    Variable,
    free,
    walk,
)
from gaifman.questions import Aggregate, Difference, Feature

Words = Mapping[Node, str]
"""What is said for a variable, instead of its name."""


def phrase(feature: Feature) -> str:
    """What a feature asks of a neighbourhood."""
    body, counted = feature.body, free(feature)
    if counted and not isinstance(body, Aggregate | Attribute | Difference):
        return f"how many {_names(counted)}: {_said(body, {})}"
    return _said(body, {})


def plain(name: str) -> str:
    """A name as people write it; of a path its last part.

    >>> plain("official_language"), plain("/people/person/place_of_birth"), plain("/m/0d05w3")
    ('official language', 'place of birth', '/m/0d05w3')
    """
    last = name.rpartition("/")[2]
    spoken = last if name.startswith("/") and name.count("/") > 2 and last else name  # two parts are an identifier
    return spoken.replace("_", " ").strip() or name


def _said(node: Node, words: Words) -> str:
    match node:
        case Atom():
            return _atom(node, words)
        case And(parts=parts) | Or(parts=parts):
            joint = " and " if isinstance(node, And) else " or "
            return joint.join(_said(part, words) for part in parts)
        case Exists():
            return _some(node, words)
        case Forall(variables=variables, body=body):
            return f"for every {_names(variables)}, {_said(body, words)}"
        case Not(body=body):
            return f"it is not so that {_said(body, words)}"
        case Implies(left, right):
            return f"if {_said(left, words)}, then {_said(right, words)}"
        case Iff(left, right):
            return f"{_said(left, words)} exactly if {_said(right, words)}"
        case Equal(left, right):
            return f"{_term(left, words)} is {_term(right, words)}"
        case _:
            return _number(node, words)


def _number(node: Node, words: Words) -> str:
    match node:
        case Comparison(left, operator, right):
            return f"{_said(left, words)} {operator} {_said(right, words)}"
        case Attribute(name, term):
            return f"the {plain(name)} of {_term(term, words)}"
        case Difference(left, right):
            return f"{_said(left, words)} minus {_said(right, words)}"
        case Aggregate():
            return _aggregate(node, words)
        case _:
            return str(node)


def _atom(atom: Atom, words: Words) -> str:
    terms = [_term(term, words) for term in atom.terms]
    if isinstance(atom.relation, RelationVariable):
        return f"{_listed(terms)} are linked" if len(terms) != 2 else f"{terms[0]} is linked to {terms[1]}"
    name = plain(atom.relation)
    if len(terms) == 1:
        return f"{terms[0]} counts as {name}"
    return f"{terms[0]} {name} {', '.join(terms[1:])}"


def _some(node: Exists, words: Words) -> str:
    """A variable that stands in one place only needs no name."""
    own = [variable for variable in node.variables if isinstance(variable, Variable)]
    used = [part for part in walk(node.body) if isinstance(part, Variable)]
    once = dict[Node, str]({variable: "something" for variable in own if used.count(variable) == 1})
    named = tuple(variable for variable in own if variable not in once)
    said = _said(node.body, {**words, **once})
    return f"for some {_names(named)}, {said}" if named else said


def _aggregate(node: Aggregate, words: Words) -> str:
    kind = {"count": "the number", "mean": "the mean", "sum": "the sum", "min": "the least", "max": "the largest"}
    if node.quantity is None:
        return f"how many: {_said(node.formula, words)}"
    quantity = _said(node.quantity, words).removeprefix("the ")
    return f"{kind[node.kind]} of {quantity} where {_said(node.formula, words)}"


def _term(term: Node, words: Words) -> str:
    return plain(term.name) if isinstance(term, Constant) else words.get(term, str(term))


def _names(variables: tuple[Node, ...]) -> str:
    return _listed([str(variable) for variable in variables])


def _listed(parts: list[str]) -> str:
    return f"{', '.join(parts[:-1])} and {parts[-1]}" if len(parts) > 1 else parts[0]

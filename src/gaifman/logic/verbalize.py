"""Formulas in English, for readers who do not know logic.

>>> from gaifman.logic.parser import parse_feature
>>> describe_feature(parse_feature("exists x. borders('france', x) & borders('belgium', x)"))
'for some x, france borders x and belgium borders x'
>>> describe_feature(parse_feature("exists x. located_in('france', x)"))
'france located in something'
>>> describe_feature(parse_feature("member_of('france', x)"))
'how many x: france member of x'

The text loses the brackets, so it is shown beside the formula, never instead of it. The name of a binary relation is
put between its objects, which reads well if it is a verb.
"""

from __future__ import annotations

from collections.abc import Mapping

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
    Forall,
    Iff,
    Implies,
    Node,
    Not,
    Or,
    RelationVariable,
    Variable,
    free_variables,
    walk,
)

VariableNames = Mapping[Node, str]
"""Variable → its text, if that is not its name."""


def describe_feature(feature: Feature) -> str:
    """Return a feature in English."""
    body, counted = feature.body, free_variables(feature)
    if counted and not isinstance(body, Aggregate | Attribute | Difference):
        return f"how many {_variable_list(counted)}: {_describe(body, {})}"
    return _describe(body, {})


def readable_name(name: str) -> str:
    """Return a name with spaces for underscores; of a path only the last part.

    >>> readable_name("official_language"), readable_name("/people/person/place_of_birth"), readable_name("/m/0d05w3")
    ('official language', 'place of birth', '/m/0d05w3')
    """
    last = name.rpartition("/")[2]
    chosen = last if name.startswith("/") and name.count("/") > 2 and last else name  # two parts are an identifier
    return chosen.replace("_", " ").strip() or name


def _describe(node: Node, names: VariableNames) -> str:
    match node:
        case Atom():
            return _describe_atom(node, names)
        case And(parts=parts) | Or(parts=parts):
            joint = " and " if isinstance(node, And) else " or "
            return joint.join(_describe(part, names) for part in parts)
        case Exists():
            return _describe_exists(node, names)
        case Forall(variables=variables, body=body):
            return f"for every {_variable_list(variables)}, {_describe(body, names)}"
        case Not(body=body):
            return f"it is not so that {_describe(body, names)}"
        case Implies(left, right):
            return f"if {_describe(left, names)}, then {_describe(right, names)}"
        case Iff(left, right):
            return f"{_describe(left, names)} exactly if {_describe(right, names)}"
        case Equal(left, right):
            return f"{_describe_term(left, names)} is {_describe_term(right, names)}"
        case _:
            return _describe_number(node, names)


def _describe_number(node: Node, names: VariableNames) -> str:
    match node:
        case Comparison(left, operator, right):
            return f"{_describe(left, names)} {operator} {_describe(right, names)}"
        case Attribute(name, term):
            return f"the {readable_name(name)} of {_describe_term(term, names)}"
        case Difference(left, right):
            return f"{_describe(left, names)} minus {_describe(right, names)}"
        case Aggregate():
            return _describe_aggregate(node, names)
        case _:
            return str(node)


def _describe_atom(atom: Atom, names: VariableNames) -> str:
    terms = [_describe_term(term, names) for term in atom.terms]
    if isinstance(atom.relation, RelationVariable):
        return f"{_join_words(terms)} are linked" if len(terms) != 2 else f"{terms[0]} is linked to {terms[1]}"
    name = readable_name(atom.relation)
    if len(terms) == 1:
        return f"{terms[0]} counts as {name}"
    return f"{terms[0]} {name} {', '.join(terms[1:])}"


def _describe_exists(node: Exists, names: VariableNames) -> str:
    """Return ∃ in English; a variable that occurs once is called "something"."""
    own = [variable for variable in node.variables if isinstance(variable, Variable)]
    used = [part for part in walk(node.body) if isinstance(part, Variable)]
    once = dict[Node, str]({variable: "something" for variable in own if used.count(variable) == 1})
    named = tuple(variable for variable in own if variable not in once)
    text = _describe(node.body, {**names, **once})
    return f"for some {_variable_list(named)}, {text}" if named else text


def _describe_aggregate(node: Aggregate, names: VariableNames) -> str:
    kind = {"count": "the number", "mean": "the mean", "sum": "the sum", "min": "the least", "max": "the largest"}
    if node.quantity is None:
        return f"how many: {_describe(node.formula, names)}"
    quantity = _describe(node.quantity, names).removeprefix("the ")
    return f"{kind[node.kind]} of {quantity} where {_describe(node.formula, names)}"


def _describe_term(term: Node, names: VariableNames) -> str:
    return readable_name(term.name) if isinstance(term, Constant) else names.get(term, str(term))


def _variable_list(variables: tuple[Node, ...]) -> str:
    return _join_words([str(variable) for variable in variables])


def _join_words(parts: list[str]) -> str:
    return f"{', '.join(parts[:-1])} and {parts[-1]}" if len(parts) > 1 else parts[0]

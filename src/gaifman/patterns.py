"""What a model is asked: objects and variables at the places of its query.

>>> from gaifman.kb.knowledge_base import KnowledgeBase
>>> kb = KnowledgeBase.from_facts([("parent", "ann", "bob"), ("parent", "bob", "cleo")])
>>> relation, pattern = atom_pattern("parent('ann', y)", kb, ["parent"])
>>> relation, pattern.places, pattern.variables
('parent', (0, 'y'), ('y',))
>>> from gaifman.logic.parser import parse_query
>>> learnt = parse_query("exists z. parent(x, z) & parent(z, y)", kb)
>>> print(model_pattern(learnt, kb, "exists w. parent(v, w) & parent(w, 'cleo')").reading)
∃w (parent(v, w) ∧ parent(w, 'cleo'))

A relation's model is asked by an atom. The model of a query is asked by that query with objects, or other variables,
put for its free variables: what it learnt says nothing of any other.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
import numpy.typing as npt

from gaifman.errors import FormulaError, KnowledgeBaseError, Location, shorten
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.kb.tables import Ints
from gaifman.logic.ast import Atom, Constant, Node, Query, Term, Variable, children, to_bracketed
from gaifman.logic.names import similar_names
from gaifman.logic.parser import parse_query
from gaifman.logic.transforms import substitute

MAX_LISTED = 5
"""Relations that a message lists."""

Bindings = Mapping[str, str]
"""Variable → name of the object that it stands for."""


@dataclass(frozen=True, slots=True)
class QueryPattern:
    """Tuples that are asked for: some objects are given, and a variable may stand at several places."""

    terms: tuple[int | str, ...]
    """For each place of the model's query the number of an object, or the name of a variable."""
    variables: tuple[str, ...]
    """The variables, each once, in the order of an answer's names."""
    bracketed: str
    """What is asked, with every bracket."""

    def tuples(self, values: Ints) -> Ints:
        """Shape (b, places), int32: the tuples in which the variables have these values (b, variables)."""
        found = np.empty((len(values), len(self.terms)), np.int32)
        for place, what in enumerate(self.terms):
            found[:, place] = values[:, self.variables.index(what)] if isinstance(what, str) else what
        return found

    def values(self, tuples: Ints) -> Ints:
        """Shape (b, variables), int32: what the variables stand for in tuples (b, places) that fit."""
        return np.ascontiguousarray(tuples[:, [self.terms.index(name) for name in self.variables]])

    def matches(self, tuples: Ints) -> npt.NDArray[np.bool_]:
        """Shape (b,): which of the tuples have the given objects, and one object for each variable."""
        found = np.ones(len(tuples), bool)
        for place, what in enumerate(self.terms):
            found &= tuples[:, place] == (tuples[:, self.terms.index(what)] if isinstance(what, str) else what)
        return found

    def positions_of(self, variable: str) -> list[int]:
        """The places of a variable."""
        return [place for place, what in enumerate(self.terms) if what == variable]


def atom_pattern(
    query: str | Query, kb: KnowledgeBase, relations: Collection[str], bindings: Bindings | None = None
) -> tuple[str, QueryPattern]:
    """The relation and the pattern of a question to a completion: one atom of one of its relations."""
    parsed = parse_query(query, kb) if isinstance(query, str) else _check_query(query, kb)
    atom = parsed.formula
    if not isinstance(atom, Atom) or not isinstance(atom.relation, str):
        raise FormulaError(
            f"a completion is asked for the facts of one relation, as in capital('france', y), not for {parsed}",
            hint="a model of this query answers it: gaifman.fit(kb, query), or gaifman train KB QUERY",
        )
    if atom.relation not in relations:
        start, end = atom.span
        listed = ", ".join([*islice(relations, MAX_LISTED), *(["…"] if len(relations) > MAX_LISTED else [])])
        place = (
            Location.from_offset("query", query, start, len(atom.relation)) if isinstance(query, str) and end else None
        )
        raise FormulaError(
            f"there is no model of {atom.relation}",
            location=place,
            suggestions=similar_names(atom.relation, relations),
            hint=f"there are models of {listed}",
        )
    return atom.relation, _pattern(parsed, atom.terms, kb, bindings or {})


def model_pattern(
    model_query: Query, kb: KnowledgeBase, query: str | Query | None = None, bindings: Bindings | None = None
) -> QueryPattern:
    """The pattern of a question to the model of a query: the query itself where nothing else is asked."""
    if query is None:
        return _pattern(model_query, model_query.variables, kb, bindings or {})
    asked = parse_query(query, kb) if isinstance(query, str) else _check_query(query, kb)
    found: dict[Variable, Term] = {}
    if not _match(model_query.formula, asked.formula, found, {}):
        raise FormulaError(
            f"the model has learnt {model_query}, and says nothing of {asked}",
            hint="ask for the same with objects for its variables, or leave the query out",
        )
    return _pattern(asked, tuple(found[variable] for variable in model_query.variables), kb, bindings or {})


def fill_pattern(pattern: QueryPattern, kb: KnowledgeBase, answer: Sequence[str]) -> tuple[str, ...]:
    """The names at the places of a pattern when the names of an answer stand for its variables, in their order.

    >>> from gaifman.kb.knowledge_base import KnowledgeBase
    >>> kb = KnowledgeBase.from_facts([("parent", "ann", "bob"), ("parent", "bob", "cleo")])
    >>> fill_pattern(atom_pattern("parent('ann', y)", kb, ["parent"])[1], kb, ["bob"])
    ('ann', 'bob')
    """
    if isinstance(answer, str) or len(answer) != len(pattern.variables):
        wanted = f"an object for each of {', '.join(pattern.variables)}" if pattern.variables else "no object"
        named = shorten(answer, 80) if isinstance(answer, str) else shorten(", ".join(answer), 80) or "none"
        raise KnowledgeBaseError(
            f"an answer to {pattern.bracketed} names {wanted}, not {named}",
            hint="on the command line: --answer NAME for each variable" if pattern.variables else "leave it out",
        )
    values = np.array([[kb.object_id(name) for name in answer]], np.int32).reshape(1, len(pattern.variables))
    return tuple(kb.object_name(number) for number in pattern.tuples(values)[0].tolist())


def _check_query(query: object, kb: KnowledgeBase) -> Query:
    if not isinstance(query, Query):
        written = "write it as a text, as in borders('france', y)"
        raise FormulaError(f"a question is a text or a query, not {shorten(repr(query))}", hint=written)
    kb.schema.check(query)
    return query


def _pattern(query: Query, terms: tuple[Term, ...], kb: KnowledgeBase, bindings: Bindings) -> QueryPattern:
    """From the terms at the places, and objects for some of the variables."""
    put = {_variable(name, query): Constant(obj) for name, obj in bindings.items()}
    whole = [put.get(term, term) if isinstance(term, Variable) else term for term in terms]
    places = tuple(kb.object_id(term.name) if isinstance(term, Constant) else term.name for term in whole)
    left = tuple(variable for variable in query.variables if variable not in put)
    reading = to_bracketed(Query(left, substitute(query.formula, put), query.head if left else ""))
    return QueryPattern(places, tuple(variable.name for variable in left), reading)


def _variable(name: str, query: Query) -> Variable:
    variable = Variable(name.removeprefix("?"))
    if variable not in query.variables:
        known = [each.name for each in query.variables]
        listed = f"its variables are {', '.join(known)}" if known else "it has no free variables"
        raise FormulaError(f"the query has no variable {name}", suggestions=similar_names(name, known), hint=listed)
    return variable


def _match(own: Node, other: Node, found: dict[Variable, Term], bound: Mapping[Node, Node]) -> bool:
    """Whether the other formula is the own one with terms put for free variables, which are gathered in `found`.

    Bound variables may have other names: `bound` has those of the own formula with their counterparts.
    """
    if own in bound or other in bound.values():
        return bound.get(own) == other
    if isinstance(own, Variable):
        return isinstance(other, Variable | Constant) and found.setdefault(own, other) == other
    if type(own) is not type(other) or _own_symbols(own) != _own_symbols(other):
        return False
    inside = {
        mine: theirs
        for mine, theirs in bound.items()
        if mine not in own.bound_variables and theirs not in other.bound_variables
    } | dict(zip(own.bound_variables, other.bound_variables, strict=False))
    below, there = children(own), children(other)
    return len(below) == len(there) and all(
        _match(one, two, found, inside) for one, two in zip(below, there, strict=True)
    )


def _own_symbols(node: Node) -> list[object]:
    """What a node says itself: the relation of an atom, the sign of a comparison, the name of an object."""
    parts = (getattr(node, name) for name in type(node).__match_args__)
    return [part for part in parts if not isinstance(part, Node | tuple)]

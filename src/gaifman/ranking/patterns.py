"""Query patterns: which positions of a model's query are fixed objects, and which are variables.

>>> from gaifman.kb.knowledge_base import KnowledgeBase
>>> kb = KnowledgeBase.from_facts([("parent", "ann", "bob"), ("parent", "bob", "cleo")])
>>> relation, pattern = atom_pattern("parent('ann', y)", kb, ["parent"])
>>> relation, pattern.terms, pattern.variables
('parent', (0, 'y'), ('y',))
>>> from gaifman.logic.parser import parse_query
>>> trained = parse_query("exists z. parent(x, z) & parent(z, y)", kb)
>>> print(model_pattern(trained, kb, "exists w. parent(v, w) & parent(w, 'cleo')").bracketed)
∃w (parent(v, w) ∧ parent(w, 'cleo'))

A completion answers a single atom of one of its relations. The model of a query answers that query, in which objects
or other variables can replace the free variables.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
import numpy.typing as npt

from gaifman.errors import FormulaError, KnowledgeBaseError, Location, shorten, similar_names
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.kb.tables import Ints
from gaifman.logic.ast import Atom, Bindings, Constant, Node, Query, Term, Variable, children, to_bracketed
from gaifman.logic.parser import parse_query
from gaifman.logic.transforms import substitute

MAX_LISTED = 5
"""Relations that an error message lists."""


@dataclass(frozen=True, slots=True)
class QueryPattern:
    """The tuples that a query asks for: some positions are fixed, and a variable can be at several positions."""

    terms: tuple[int | str, ...]
    """For each position of the model's query, an object id or the name of a variable."""
    variables: tuple[str, ...]
    """The variables, in the order of an answer's names."""
    bracketed: str
    """The query with all brackets."""

    def tuples(self, values: Ints) -> Ints:
        """Shape (b, arity), int32: the tuples in which the variables have these values (b, variables)."""
        tuples = np.empty((len(values), len(self.terms)), np.int32)
        for position, term in enumerate(self.terms):
            tuples[:, position] = values[:, self.variables.index(term)] if isinstance(term, str) else term
        return tuples

    def values(self, tuples: Ints) -> Ints:
        """Shape (b, variables), int32: the values of the variables in tuples (b, arity) that match."""
        return np.ascontiguousarray(tuples[:, [self.terms.index(name) for name in self.variables]])

    def matches(self, tuples: Ints) -> npt.NDArray[np.bool_]:
        """Shape (b,): which tuples have the fixed objects, and the same object wherever a variable is repeated."""
        matching = np.ones(len(tuples), bool)
        for position, term in enumerate(self.terms):
            wanted = tuples[:, self.terms.index(term)] if isinstance(term, str) else term
            matching &= tuples[:, position] == wanted
        return matching

    def positions_of(self, variable: str) -> list[int]:
        """The positions of a variable."""
        return [position for position, term in enumerate(self.terms) if term == variable]

    def fill(self, kb: KnowledgeBase, answer: Sequence[str]) -> Ints:
        """Shape (1, arity), int32: the tuple of an answer that names an object for each variable.

        >>> from gaifman.kb.knowledge_base import KnowledgeBase
        >>> kb = KnowledgeBase.from_facts([("parent", "ann", "bob"), ("parent", "bob", "cleo")])
        >>> atom_pattern("parent('ann', y)", kb, ["parent"])[1].fill(kb, ["bob"]).tolist()
        [[0, 1]]
        """
        if isinstance(answer, str) or len(answer) != len(self.variables):
            expected = f"an object for each of {', '.join(self.variables)}" if self.variables else "no object"
            given = shorten(answer, 80) if isinstance(answer, str) else shorten(", ".join(answer), 80) or "none"
            raise KnowledgeBaseError(
                f"an answer to {self.bracketed} names {expected}, not {given}",
                hint="on the command line: --answer NAME for each variable" if self.variables else "leave it out",
            )
        ids = np.array([[kb.object_id(name) for name in answer]], np.int32).reshape(1, len(self.variables))
        return self.tuples(ids)


def atom_pattern(
    query: str | Query, kb: KnowledgeBase, relations: Collection[str], bindings: Bindings | None = None
) -> tuple[str, QueryPattern]:
    """The relation and the pattern of a query to a completion, which is one atom of one of its relations."""
    parsed = _parse(query, kb)
    atom = parsed.formula
    if not isinstance(atom, Atom) or not isinstance(atom.relation, str):
        raise FormulaError(
            f"a completion answers queries of one relation, such as capital('france', y), not {parsed}",
            hint="train a model of this query: gaifman.fit(kb, query), or gaifman train KB QUERY",
        )
    if atom.relation not in relations:
        raise _unknown_relation(query, atom, relations)
    return atom.relation, _pattern(parsed, atom.terms, kb, bindings or {})


def _unknown_relation(query: str | Query, atom: Atom, relations: Collection[str]) -> FormulaError:
    name, (start, end) = str(atom.relation), atom.span
    location = Location.from_offset("query", query, start, len(name)) if isinstance(query, str) and end else None
    listed = ", ".join([*islice(relations, MAX_LISTED), *(["…"] if len(relations) > MAX_LISTED else [])])
    return FormulaError(
        f"there is no model of {name}",
        location=location,
        suggestions=similar_names(name, relations),
        hint=f"there are models of {listed}",
    )


def model_pattern(
    model_query: Query, kb: KnowledgeBase, query: str | Query | None = None, bindings: Bindings | None = None
) -> QueryPattern:
    """The pattern of a query to the model of `model_query`; None asks for the model's own query."""
    if query is None:
        return _pattern(model_query, model_query.variables, kb, bindings or {})
    parsed = _parse(query, kb)
    terms: dict[Variable, Term] = {}
    if not _match(model_query.formula, parsed.formula, terms, {}):
        raise FormulaError(
            f"the model was trained on {model_query} and cannot answer {parsed}",
            hint="write the same query with objects for its variables, or leave the query out",
        )
    return _pattern(parsed, tuple(terms[variable] for variable in model_query.variables), kb, bindings or {})


def _parse(query: object, kb: KnowledgeBase) -> Query:
    if isinstance(query, str):
        return parse_query(query, kb)
    if not isinstance(query, Query):
        hint = "write it as text, such as borders('france', y)"
        raise FormulaError(f"a query is a text or a Query, not {shorten(repr(query))}", hint=hint)
    kb.schema.check(query)
    return query


def _pattern(query: Query, terms: tuple[Term, ...], kb: KnowledgeBase, bindings: Bindings) -> QueryPattern:
    """The pattern of terms at the positions, with objects for the bound variables."""
    bound = {_variable(name, query): Constant(obj) for name, obj in bindings.items()}
    filled = [bound.get(term, term) if isinstance(term, Variable) else term for term in terms]
    positions = tuple(kb.object_id(term.name) if isinstance(term, Constant) else term.name for term in filled)
    free = tuple(variable for variable in query.variables if variable not in bound)
    bracketed = to_bracketed(Query(free, substitute(query.formula, bound), query.head if free else ""))
    return QueryPattern(positions, tuple(variable.name for variable in free), bracketed)


def _variable(name: str, query: Query) -> Variable:
    variable = Variable(name.removeprefix("?"))
    if variable not in query.variables:
        known = [each.name for each in query.variables]
        hint = f"its variables are {', '.join(known)}" if known else "it has no free variables"
        raise FormulaError(f"the query has no variable {name}", suggestions=similar_names(name, known), hint=hint)
    return variable


def _match(one: Node, other: Node, terms: dict[Variable, Term], bound: Mapping[Node, Node]) -> bool:
    """Whether `other` is `one` with terms for its free variables, which are collected in `terms`.

    Bound variables can have other names: `bound` maps those of `one` to those of `other`.
    """
    if one in bound or other in bound.values():
        return bound.get(one) == other
    if isinstance(one, Variable):
        return isinstance(other, Variable | Constant) and terms.setdefault(one, other) == other
    if type(one) is not type(other) or _symbols(one) != _symbols(other):
        return False
    inner = {
        mine: theirs
        for mine, theirs in bound.items()
        if mine not in one.bound_variables and theirs not in other.bound_variables
    } | dict(zip(one.bound_variables, other.bound_variables, strict=False))
    mine, theirs = children(one), children(other)
    return len(mine) == len(theirs) and all(_match(*pair, terms, inner) for pair in zip(mine, theirs, strict=True))


def _symbols(node: Node) -> list[object]:
    """The fields of a node that are not nodes: the relation of an atom, the sign of a comparison, an object's name."""
    parts = (getattr(node, name) for name in type(node).__match_args__)
    return [part for part in parts if not isinstance(part, Node | tuple)]

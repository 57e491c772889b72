"""What a model is asked: objects and variables at the places of its query.

>>> from gaifman.kb.knowledge_base import KnowledgeBase
>>> kb = KnowledgeBase.from_facts([("parent", "ann", "bob"), ("parent", "bob", "cleo")])
>>> relation, pattern = atom_pattern("parent('ann', y)", kb, ["parent"])
>>> relation, pattern.terms, pattern.variables
('parent', (0, 'y'), ('y',))
>>> from gaifman.logic.parser import parse_query
>>> learnt = parse_query("exists z. parent(x, z) & parent(z, y)", kb)
>>> print(model_pattern(learnt, kb, "exists w. parent(v, w) & parent(w, 'cleo')").bracketed)
∃w (parent(v, w) ∧ parent(w, 'cleo'))

A relation's model is asked by an atom. The model of a query is asked by that query with objects, or other variables,
put for its free variables: what it learnt says nothing of any other.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from gaifman.cancellation import Deadline, no_deadline
from gaifman.config import check_choice, check_int
from gaifman.errors import FormulaError, KnowledgeBaseError, LimitError, Location, plural, shorten, similar_names
from gaifman.kb.gaifman_graph import GaifmanGraph
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.kb.tables import Ints, concatenate_ranges
from gaifman.logic.ast import Atom, Bindings, Constant, Node, Query, Term, Variable, children, to_bracketed
from gaifman.logic.parser import parse_query
from gaifman.logic.transforms import substitute

MAX_LISTED = 5
"""Relations that a message lists."""


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


STRATEGIES = ("auto", "all", "typed", "seen", "near")
"""Where candidates for several variables come from."""
MAX_CANDIDATES = 100_000
"""Candidates for several variables at most, where nothing else is said: a second or two."""
TYPE_SAMPLE_SIZE = 8
"""Facts by which it is told what type the objects at a place have."""
MAX_DISTANCES = (2, 1)
"""How far apart near objects are at most: one step where two lead to too many."""

Restriction = Mapping[str, str | Sequence[str]]
"""Variable → the type of its objects, or their names."""
UNRESTRICTED: Restriction = MappingProxyType({})
"""No variable is limited."""


@dataclass(frozen=True, slots=True)
class CandidateStrategy:
    """Where candidates come from."""

    kind: str = "auto"
    """`all` combinations of objects; of those `typed` as objects at the variables' places in known answers are; of
    those `seen` there themselves; of those that are also `near` each other in the graph. `auto` is the first of them
    that stays below the limit."""
    limit: int = MAX_CANDIDATES
    """Candidates for several variables at most."""

    def __post_init__(self) -> None:
        check_choice("candidates", self.kind, STRATEGIES)
        check_int("limit", self.limit, 1)


DEFAULT_STRATEGY = CandidateStrategy()


def as_strategy(strategy: str | CandidateStrategy) -> CandidateStrategy:
    """A choice by the name of its way."""
    return CandidateStrategy(strategy) if isinstance(strategy, str) else strategy


@dataclass(frozen=True, slots=True)
class Candidates:
    """What is looked at."""

    values: Ints
    """Shape (candidates, variables), int32: numbers of objects; ascending by the first, then the second and so on."""
    description: str
    """Where they come from."""


def select_candidates(
    graph: GaifmanGraph,
    pattern: QueryPattern,
    known: Ints,
    restrict_to: Restriction = UNRESTRICTED,
    strategy: CandidateStrategy = DEFAULT_STRATEGY,
    deadline: Deadline | None = None,
) -> Candidates:
    """The candidates for a pattern's variables; `seen` (b, places) are the known answers of the query.

    `among` limits variables to a type or to names. For one variable they are all objects, unless something else is
    asked for.
    """
    pools = _allowed_objects(graph.kb, pattern, restrict_to)
    few = len(pattern.variables) < 2
    limit = None if few else strategy.limit
    for way in STRATEGIES[1:] if strategy.kind == "auto" else (strategy.kind,):
        own = _narrow(graph.kb, pattern, known, pools, way)
        if few or way != "near":
            if limit is None or math.prod(map(len, own)) <= limit:
                return Candidates(_product(own), _describe(pattern, restrict_to, way))
            continue
        for steps in MAX_DISTANCES:
            near = _nearby_tuples(graph, pattern, own, steps, strategy.limit, deadline or no_deadline())
            if near is not None:
                return Candidates(near, _describe(pattern, restrict_to, way, steps))
    raise LimitError(
        f"there are more than {strategy.limit:,} candidates for {', '.join(pattern.variables)}",
        hint=f"give {pattern.variables[0]} an object, limit it to a type or a list, or raise the limit",
    )


def select_known_candidates(
    kb: KnowledgeBase, pattern: QueryPattern, known: Ints, restrict_to: Restriction
) -> Candidates:
    """The known answers that fit the pattern, and no others."""
    values = np.unique(pattern.values(known[pattern.matches(known)]), axis=0)
    for column, pool in enumerate(_allowed_objects(kb, pattern, restrict_to)):
        values = values[np.isin(values[:, column], pool)]
    return Candidates(values.astype(np.int32), f"known answers{_describe_restriction(pattern, restrict_to)}")


def position_types(kb: KnowledgeBase, relation: str, arity: int) -> dict[int, str]:
    """Place → type of the objects there, where they have one in common, by the first facts.

    >>> kb = KnowledgeBase.from_facts([("parent", "ann", "bob"), ("person", "ann")])
    >>> position_types(kb, "parent", 2)
    {0: 'person'}
    """
    table, number = kb.fact_tables.get(arity), kb.content.relations.find(relation)
    if table is None or number is None:
        return {}
    rows = table.rows(number)[:TYPE_SAMPLE_SIZE]
    found = {}
    for place in range(arity):
        names = [kb.object_name(one) for one in table.objects[rows.start : rows.stop, place].tolist()]
        common = set.intersection(*(set(kb.types(name)) for name in names)) if names else set()
        if common:
            found[place] = min(common, key=lambda kind: (-kb.relations[kind].count, kind))
    return found


def variable_types(kb: KnowledgeBase, query: Query) -> dict[str, str]:
    """Variable → type of what stands at its place in facts, where the query asks for those of one relation."""
    atom = query.formula
    if not isinstance(atom, Atom) or not isinstance(atom.relation, str):
        return {}
    kinds = position_types(kb, atom.relation, len(atom.terms))
    named = {place: term.name for place, term in enumerate(atom.terms) if isinstance(term, Variable)}
    return {name: kinds[place] for place, name in named.items() if place in kinds}


def objects_of_type(kb: KnowledgeBase, name: str) -> Ints:
    """The objects of a type by number, ascending."""
    number = kb.content.relations.find(name)
    if number is None or kb.content.arities[number] != 1:
        raise KnowledgeBaseError(
            f"there is no type {name}",
            suggestions=similar_names(name, kb.types()),
            hint="a type is a relation with one place",
        )
    table = kb.fact_tables.get(1)
    return np.zeros(0, np.int32) if table is None else table.objects[table.rows(number), 0]


def _allowed_objects(kb: KnowledgeBase, pattern: QueryPattern, restrict_to: Restriction) -> list[Ints]:
    """For each variable the objects it may stand for, ascending."""
    for name in restrict_to:
        if name not in pattern.variables:
            listed = ", ".join(pattern.variables)
            raise FormulaError(
                f"there is no variable {name} to choose objects for",
                suggestions=similar_names(name, pattern.variables),
                hint=f"variables without an object: {listed}" if listed else "every variable has an object",
            )
    return [_allowed(kb, restrict_to.get(name)) for name in pattern.variables]


def _allowed(kb: KnowledgeBase, wanted: str | Sequence[str] | None) -> Ints:
    if wanted is None:
        return np.arange(len(kb.objects), dtype=np.int32)
    if isinstance(wanted, str):
        return objects_of_type(kb, wanted)
    return np.unique(np.array([kb.object_id(name) for name in wanted], np.int32))


def _narrow(kb: KnowledgeBase, pattern: QueryPattern, seen: Ints, pools: Sequence[Ints], kind: str) -> list[Ints]:
    """Those of the objects that fit all places of their variable as far as known answers tell."""
    found = []
    for name, pool in zip(pattern.variables, pools, strict=True):
        left = pool
        for place in pattern.positions_of(name) if kind != "all" else ():
            own = np.unique(seen[:, place])
            left = np.intersect1d(left, own if kind != "typed" else _objects_of_same_types(kb, own))
        found.append(left.astype(np.int32))
    return found


def _objects_of_same_types(kb: KnowledgeBase, objects: Ints) -> Ints:
    """The objects that have a type in common with one of some; all where none of these has a type."""
    table = kb.fact_tables.get(1)
    if table is None or not np.isin(table.objects[:, 0], objects).any():
        return np.arange(len(kb.objects), dtype=np.int32)
    types = np.unique(table.relation[np.isin(table.objects[:, 0], objects)])
    return np.unique(table.objects[np.isin(table.relation, types), 0])


def _product(pools: Sequence[Ints]) -> Ints:
    """All combinations, in the order of their numbers; one empty one of no pools."""
    if not pools:
        return np.zeros((1, 0), np.int32)
    grids = np.meshgrid(*pools, indexing="ij")
    return np.stack([grid.ravel() for grid in grids], axis=1).astype(np.int32)


def _nearby_tuples(
    graph: GaifmanGraph, pattern: QueryPattern, pools: Sequence[Ints], steps: int, limit: int, deadline: Deadline
) -> Ints | None:
    """Combinations in which each object is near a given one or one before it; None where there are too many."""
    given = np.array(sorted({what for what in pattern.terms if isinstance(what, int)}), np.int32)
    rows = np.zeros((1, 0), np.int32)
    for pool in pools:
        inside = np.zeros(len(graph), bool)
        inside[pool] = True
        parts, count = [np.zeros((0, rows.shape[1] + 1), np.int32)], 0
        for row in rows:
            deadline.check()
            anchors = np.concatenate([given, row])
            reached = _within_steps(graph, anchors, steps) if len(anchors) else pool
            kept = reached[inside[reached]]
            count += len(kept)
            if count > limit:
                return None
            parts.append(np.column_stack([np.repeat(row[None], len(kept), axis=0), kept]).astype(np.int32))
        rows = np.concatenate(parts)
    return rows


def _within_steps(graph: GaifmanGraph, objects: Ints, steps: int) -> Ints:
    """The objects within some steps, ascending, without looking at all others."""
    found = np.unique(objects)
    for _ in range(steps):
        far = graph.neighbours[concatenate_ranges(graph.starts[found], graph.starts[found + 1])]
        found = np.union1d(found, far)
    return found


# In words


def _describe(pattern: QueryPattern, restrict_to: Restriction, kind: str, steps: int = 0) -> str:
    count = len(pattern.variables)
    if not count:
        return "the tuple itself"
    what = {1: "objects", 2: "pairs of objects"}.get(count, f"combinations of {count} objects")
    places = "this place" if count == len(pattern.terms) == 1 else "these places"
    ways = {
        "all": f"all {what}",
        "typed": f"{what} of the types seen at {places}",
        "seen": f"{what} seen at {places}",
        "near": f"{what} seen at {places}" + (f", at most {plural(steps, 'step')} apart in the graph" if steps else ""),
    }
    return ways[kind] + _describe_restriction(pattern, restrict_to)


def _describe_restriction(pattern: QueryPattern, restrict_to: Restriction) -> str:
    said = ""
    for name in pattern.variables:
        wanted = restrict_to.get(name)
        if wanted is not None:
            limit = f"of type {wanted}" if isinstance(wanted, str) else f"one of {len(wanted):,}"
            said += f", {name} {limit}"
    return said

"""Candidates: the tuples that a ranking scores.

By default a variable ranges over the objects that were seen at its position, or that have a type of those objects:

>>> from gaifman.kb.knowledge_base import KnowledgeBase
>>> from gaifman.logic.ast import relation_query
>>> from gaifman.ranking.candidates import atom_pattern
>>> kb = KnowledgeBase.from_facts([("capital", "peru", "lima"), ("city", "lima"), ("city", "rome"), ("river", "nile")])
>>> query, (_, pattern) = relation_query("capital", 2), atom_pattern("capital('peru', y)", kb, ["capital"])
>>> candidates = select_candidates(kb, query, pattern, kb.tuples("capital"))
>>> candidates.description, [kb.object_name(number) for number in candidates.values[:, 0]]
('city', ['lima', 'rome'])

The positions of a variable are those in the atoms of the model's query.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from itertools import islice
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from gaifman.config import Deadline, check_choice, check_int, no_deadline
from gaifman.errors import FormulaError, KnowledgeBaseError, LimitError, Location, plural, shorten, similar_names
from gaifman.kb.gaifman_graph import GaifmanGraph, graph_of
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.kb.labels import label_formula
from gaifman.kb.tables import Ints, concatenate_ranges
from gaifman.logic.ast import (
    And,
    Atom,
    Bindings,
    Constant,
    Exists,
    Formula,
    Node,
    Or,
    Query,
    Term,
    Variable,
    children,
    substitute,
    to_bracketed,
)
from gaifman.logic.parser import parse_query

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
    labelled: str = ""
    """The same with labels for its objects; empty if the knowledge base has no labels."""

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
                f"an answer to {self.labelled or self.bracketed} names {expected}, not {given}",
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
    bound = {_variable(name, query): Constant(kb.object_name(kb.object_id(obj))) for name, obj in bindings.items()}
    filled = [bound.get(term, term) if isinstance(term, Variable) else term for term in terms]
    positions = tuple(kb.object_id(term.name) if isinstance(term, Constant) else term.name for term in filled)
    free = tuple(variable for variable in query.variables if variable not in bound)
    asked = Query(free, substitute(query.formula, bound), query.head if free else "")
    labelled = to_bracketed(label_formula(asked, kb.display)) if kb.labels else ""
    return QueryPattern(positions, tuple(variable.name for variable in free), to_bracketed(asked), labelled)


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


STRATEGIES = ("auto", "all", "typed", "seen", "near")
"""Where candidates come from."""
KNOWN_MODES = ("mark", "exclude", "only")
"""What happens to known answers."""
MAX_CANDIDATES = 100_000
"""Default limit on the candidates for several variables: a second or two of work."""
MIN_TYPE_SHARE = 0.9
"""The share of the objects at a position that must have a type for it to be the type of the position."""
MAX_TYPES = 5
"""Types that a position can have between them."""
MAX_DISTANCES = (2, 1)
"""Distances of near objects: 1 if 2 gives too many candidates."""

Restriction = Mapping[str, str | Sequence[str]]
"""Variable → the type of its objects, or their names."""
UNRESTRICTED: Restriction = MappingProxyType({})
PositionTypes = Mapping[int, tuple[str, Ints]]
"""Position of the model's query → its declared type, and the objects (objects,) that do not provably lack it."""
NO_TYPES: PositionTypes = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class RankingOptions:
    """What to rank, and how many answers to return."""

    top: int | None = 10
    """The number of answers; None for all candidates."""
    known: str = "mark"
    """`mark` known answers, `exclude` them, or rank `only` them."""
    restrict_to: Restriction = field(default_factory=dict)
    """Variable → the type of its objects, or their names; replaces the type that the strategy would choose."""
    candidates: str = "auto"
    """The strategy. `typed`: objects seen at the variable's position or of its type, all objects if it has no type.
    `seen`: objects seen at the position. `near`: also at most two steps apart in the Gaifman graph. `all`: all objects.
    `auto` is `typed` for one variable, and for several the first of `typed`, `seen` and `near` within the limit."""
    max_candidates: int = MAX_CANDIDATES
    """Limit on the candidates for several variables."""
    covered: bool = False
    """Whether to leave out answers about which the model has little to go on, unless they are known."""
    deadline: Deadline = field(default_factory=no_deadline)
    """Checked between blocks of candidates."""

    def __post_init__(self) -> None:
        check_choice("known", self.known, KNOWN_MODES)
        check_choice("candidates", self.candidates, STRATEGIES)
        check_int("max_candidates", self.max_candidates, 1)
        if self.top is not None:
            check_int("top", self.top, 1, hint="top=None returns all candidates")


DEFAULT_OPTIONS = RankingOptions()


@dataclass(frozen=True, slots=True)
class Candidates:
    """Values for the variables of a pattern."""

    values: Ints
    """Shape (candidates, variables), int32: object ids, in ascending order."""
    description: str
    """Where they come from."""


def select_candidates(
    kb: KnowledgeBase,
    query: Query,
    pattern: QueryPattern,
    known: Ints,
    options: RankingOptions = DEFAULT_OPTIONS,
    types: PositionTypes = NO_TYPES,
) -> Candidates:
    """The candidates for the variables of a pattern of `query`; `known` (b, arity) are known answers of the query.

    Declared types of positions leave out other objects, unless they are known answers, all objects are asked for, or
    the variable is restricted.
    """
    allowed = _allowed_objects(kb, pattern, options.restrict_to)
    if options.known == "only":
        return _known_candidates(pattern, known, allowed)
    several = len(pattern.variables) > 1
    strategies = ("typed", "seen", "near")[: 3 if several else 1]
    for strategy in strategies if options.candidates == "auto" else (options.candidates,):
        pools = _pools(kb, query, pattern, allowed, strategy)
        if strategy != "all":
            pools = [
                pool if restriction else _of_declared_types(pool, pattern.positions_of(name), known, types)
                for name, pool, restriction in zip(pattern.variables, pools, allowed, strict=True)
            ]
        if strategy == "near" and several:
            for steps in MAX_DISTANCES:
                near = _near_values(graph_of(kb), pattern, pools, steps, options)
                if near is not None:
                    return Candidates(near, _describe(pools, strategy, steps))
        elif not several or math.prod(len(pool.objects) for pool in pools) <= options.max_candidates:
            return Candidates(_product([pool.objects for pool in pools]), _describe(pools, strategy))
    raise LimitError(
        f"there are more than {options.max_candidates:,} candidates for {', '.join(pattern.variables)}",
        hint=f"bind {pattern.variables[0]} to an object, restrict it to a type or a list, or raise the limit",
    )


def _known_candidates(pattern: QueryPattern, known: Ints, allowed: Sequence[_Pool | None]) -> Candidates:
    """The known answers that match the pattern."""
    values = np.unique(pattern.values(known[pattern.matches(known)]), axis=0)
    description = "known answers"
    for column, pool in enumerate(allowed):
        if pool is not None:
            values = values[np.isin(values[:, column], pool.objects)]
            description += f", {pattern.variables[column]} {pool.label}"
    return Candidates(values.astype(np.int32), description)


# The objects of one variable


@dataclass(frozen=True, slots=True)
class _Pool:
    """The objects that a variable ranges over."""

    objects: Ints
    """Shape (objects,), int32, ascending."""
    label: str
    """The type, or another description; empty for all objects."""


_PoolFunction = Callable[[str, int], _Pool | None]
"""Relation, position → its objects; None for all objects."""


def _allowed_objects(kb: KnowledgeBase, pattern: QueryPattern, restrict_to: Restriction) -> list[_Pool | None]:
    """For each variable the objects that it is restricted to, or None."""
    for name in restrict_to:
        if name not in pattern.variables:
            listed = ", ".join(pattern.variables)
            raise FormulaError(
                f"there is no variable {name} to restrict",
                suggestions=similar_names(name, pattern.variables),
                hint=f"variables without an object: {listed}" if listed else "every variable has an object",
            )
    return [_restricted(kb, restrict_to[name]) if name in restrict_to else None for name in pattern.variables]


def _restricted(kb: KnowledgeBase, restriction: str | Sequence[str]) -> _Pool:
    if isinstance(restriction, str):
        return _Pool(objects_of_type(kb, restriction), restriction)
    objects = np.unique(np.array([kb.object_id(name) for name in restriction], np.int32))
    return _Pool(objects, "named objects")


def _pools(
    kb: KnowledgeBase, query: Query, pattern: QueryPattern, allowed: Sequence[_Pool | None], strategy: str
) -> list[_Pool]:
    """The objects of each variable by a strategy."""
    every = _Pool(np.arange(len(kb.objects), dtype=np.int32), "")
    functions: Mapping[str, _PoolFunction] = {"all": lambda *_: None, "typed": partial(_typed_at, kb)}
    pool_at = functions.get(strategy, partial(_seen_at, kb))
    found = []
    for name, restriction in zip(pattern.variables, allowed, strict=True):
        pools = [] if restriction is None else [restriction]
        if restriction is None or strategy in ("seen", "near"):
            variables = [query.variables[position] for position in pattern.positions_of(name)]
            pools += [pool for own in variables if (pool := _objects_of(query.formula, own, pool_at)) is not None]
        found.append(reduce(_intersect, pools) if pools else every)
    return found


def _of_declared_types(pool: _Pool, positions: Sequence[int], known: Ints, types: PositionTypes) -> _Pool:
    """The objects of a pool that can be at some positions by their declared types, or are there in known answers."""
    for position in positions:
        if position in types:
            name, objects = types[position]
            possible = np.union1d(objects, known[:, position])
            pool = _Pool(np.intersect1d(pool.objects, possible).astype(np.int32), name)
    return pool


def _objects_of(formula: Formula, variable: Variable, pool_at: _PoolFunction) -> _Pool | None:
    """The objects that a variable of a formula ranges over; None for all objects.

    An atom gives the objects of its position, a conjunction those of all its parts and a disjunction those of any part.
    Other formulas restrict nothing.
    """
    match formula:
        case Atom(relation=str() as relation, terms=terms):
            found = [pool_at(relation, position) for position, term in enumerate(terms) if term == variable]
        case And(parts=parts):
            found = [_objects_of(part, variable, pool_at) for part in parts]
        case Or(parts=parts):
            any_part = [_objects_of(part, variable, pool_at) for part in parts]
            pools = [pool for pool in any_part if pool is not None]
            return reduce(_unite, pools) if len(pools) == len(any_part) else None
        case Exists(body=body) if variable not in formula.bound_variables:
            return _objects_of(body, variable, pool_at)
        case _:
            return None
    pools = [pool for pool in found if pool is not None]
    return reduce(_intersect, pools) if pools else None


def _intersect(one: _Pool, other: _Pool) -> _Pool:
    return _Pool(np.intersect1d(one.objects, other.objects).astype(np.int32), _join(one.label, other.label, " and "))


def _unite(one: _Pool, other: _Pool) -> _Pool:
    return _Pool(np.union1d(one.objects, other.objects).astype(np.int32), _join(one.label, other.label, " or "))


def _join(one: str, other: str, word: str) -> str:
    return one if one == other or not other else other if not one else f"{one}{word}{other}"


def _seen_at(kb: KnowledgeBase, relation: str, position: int) -> _Pool:
    return _Pool(np.unique(kb.tuples(relation)[:, position]), "")


def _typed_at(kb: KnowledgeBase, relation: str, position: int) -> _Pool | None:
    kind = position_types(kb, relation).get(position)
    kinds = _covering_types(kb, relation, position) if kind is None else [kind]
    if not kinds:
        return None
    pools = [_Pool(objects_of_type(kb, name), name) for name in kinds]
    return reduce(_unite, [*pools, _seen_at(kb, relation, position)])


def _covering_types(kb: KnowledgeBase, relation: str, position: int) -> list[str]:
    """A few types that nearly all objects at a position have between them, such as lake, river and sea; or none.

    The next type is the one that most of the remaining objects have, the larger of two.
    """
    left = seen = np.unique(kb.tuples(relation)[:, position])
    found: list[str] = []
    while len(left) > (1 - MIN_TYPE_SHARE) * len(seen):
        shared = {name: int(np.isin(left, objects_of_type(kb, name)).sum()) for name in kb.types() if name != relation}
        best = min(shared, key=lambda name: (-shared[name], -kb.relations[name].count, name), default="")
        if not best or not shared[best] or len(found) == MAX_TYPES:
            return []
        found.append(best)
        left = np.setdiff1d(left, objects_of_type(kb, best))
    return sorted(found)


def position_types(kb: KnowledgeBase, relation: str) -> dict[int, str]:
    """Position → the largest type that nearly all objects there have, if there is one.

    A relation is not the type of its own objects: then the candidates of `city(x)` would be the known cities.

    >>> position_types(KnowledgeBase.from_facts([("parent", "ann", "bob"), ("person", "ann")]), "parent")
    {0: 'person'}
    """
    table = kb.fact_tables.get(1)
    if table is None:
        return {}
    found = {}
    for position, column in enumerate(kb.tuples(relation).T):
        objects = np.unique(column)
        types = table.relation[np.isin(table.objects[:, 0], objects)]
        numbers = np.flatnonzero(np.bincount(types) >= max(1, MIN_TYPE_SHARE * len(objects)))
        names = {kb.content.relations[number] for number in numbers.tolist()} - {relation}
        if names:
            found[position] = min(names, key=lambda name: (-kb.relations[name].count, name))
    return found


def objects_of_type(kb: KnowledgeBase, name: str) -> Ints:
    """Shape (objects,), int32, ascending: the objects of a type."""
    if name not in kb.relations or kb.relations[name].arity != 1:
        raise KnowledgeBaseError(
            f"there is no type {name}",
            suggestions=similar_names(name, kb.types()),
            hint="a type is a relation of one position",
        )
    return kb.tuples(name)[:, 0]


# Combinations of several variables


def _product(pools: Sequence[Ints]) -> Ints:
    """All combinations, in ascending order; one empty combination of no pools."""
    if not pools:
        return np.zeros((1, 0), np.int32)
    grids = np.meshgrid(*pools, indexing="ij")
    return np.stack([grid.ravel() for grid in grids], axis=1).astype(np.int32)


def _near_values(
    graph: GaifmanGraph, pattern: QueryPattern, pools: Sequence[_Pool], steps: int, options: RankingOptions
) -> Ints | None:
    """Combinations in which each object is near a fixed object or an earlier one; None if there are too many."""
    fixed = np.array(sorted({term for term in pattern.terms if isinstance(term, int)}), np.int32)
    rows = np.zeros((1, 0), np.int32)
    for pool in pools:
        inside = np.zeros(len(graph), bool)
        inside[pool.objects] = True
        parts, count = [np.zeros((0, rows.shape[1] + 1), np.int32)], 0
        for row in rows:
            options.deadline.check()
            anchors = np.concatenate([fixed, row])
            reached = _within_steps(graph, anchors, steps) if len(anchors) else pool.objects
            near = reached[inside[reached]]
            count += len(near)
            if count > options.max_candidates:
                return None
            parts.append(np.column_stack([np.repeat(row[None], len(near), axis=0), near]).astype(np.int32))
        rows = np.concatenate(parts)
    return rows


def _within_steps(graph: GaifmanGraph, objects: Ints, steps: int) -> Ints:
    """The objects within some steps, in ascending order."""
    found = np.unique(objects)
    for _ in range(steps):
        neighbours = graph.neighbours[concatenate_ranges(graph.starts[found], graph.starts[found + 1])]
        found = np.union1d(found, neighbours)
    return found


# Descriptions


def _describe(pools: Sequence[_Pool], strategy: str, steps: int = 0) -> str:
    """A phrase for the candidates: `city`, `pairs of country and city`, `all objects`."""
    if not pools:
        return "the tuple itself"
    count, labels = len(pools), [pool.label for pool in pools]
    objects = {1: "objects", 2: "pairs of objects"}.get(count, f"combinations of {count} objects")
    if strategy in ("seen", "near"):
        seen = f"{objects} seen at {'this position' if count == 1 else 'these positions'}"
        restricted = "".join(f", {label}" for label in labels if label)
        return seen + restricted + (f", at most {plural(steps, 'step')} apart in the graph" if steps else "")
    if not any(labels):
        return f"all {objects}"
    if count == 1:
        return labels[0]
    listed = [label or "any object" for label in labels]
    return f"{'pairs' if count == 2 else 'combinations'} of {', '.join(listed[:-1])} and {listed[-1]}"

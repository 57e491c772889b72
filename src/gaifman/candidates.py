"""Which tuples may answer a question: all objects for one variable, and for several what can be looked at in time.

>>> from gaifman.graph import graph_of
>>> from gaifman.kb import KnowledgeBase
>>> from gaifman.patterns import atom_pattern
>>> kb = KnowledgeBase.from_facts([("parent", "ann", "bob"), ("parent", "bob", "cleo"), ("person", "ann")])
>>> _, pattern = atom_pattern("parent(x, y)", kb, ["parent"])
>>> seen = kb.tables[2].objects
>>> found = candidates(graph_of(kb), pattern, seen)
>>> len(found.values), found.words
(9, 'all pairs of objects')
>>> found = candidates(graph_of(kb), pattern, seen, {"x": "person"})
>>> len(found.values), found.words
(3, 'all pairs of objects, x of type person')
>>> found = candidates(graph_of(kb), pattern, seen, choice=Choice("seen"))
>>> found.values.tolist(), found.words
([[0, 1], [0, 2], [1, 1], [1, 2]], 'pairs of objects seen at these places')
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from gaifman.deadlines import Deadline, never
from gaifman.errors import FormulaError, KnowledgeError, LimitError
from gaifman.facts import some
from gaifman.formulas import Atom, Variable
from gaifman.graph import Graph, ranges
from gaifman.kb import KnowledgeBase
from gaifman.names import nearest
from gaifman.patterns import Pattern
from gaifman.questions import Query
from gaifman.tables import Ints

WAYS = ("auto", "all", "typed", "seen", "near")
"""Where candidates for several variables come from."""
LIMIT = 100_000
"""Candidates for several variables at most, where nothing else is said: a second or two."""
ALIKE = 8
"""Facts by which it is told what type the objects at a place have."""
STEPS = (2, 1)
"""How far apart near objects are at most: one step where two lead to too many."""

Among = Mapping[str, str | Sequence[str]]
"""Variable → the type of its objects, or their names."""
EVERYTHING: Among = MappingProxyType({})
"""No variable is limited."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Where candidates come from."""

    way: str = "auto"
    """`all` combinations of objects; of those `typed` as objects at the variables' places in known answers are; of
    those `seen` there themselves; of those that are also `near` each other in the graph. `auto` is the first of them
    that stays below the limit."""
    limit: int = LIMIT
    """Candidates for several variables at most."""

    def __post_init__(self) -> None:
        if self.way not in WAYS:
            raise KnowledgeError(
                f"candidates are {', '.join(WAYS[:-1])} or {WAYS[-1]}, not {self.way!r}", near=nearest(self.way, WAYS)
            )
        if not isinstance(self.limit, int) or isinstance(self.limit, bool) or self.limit < 1:
            raise KnowledgeError(f"the limit of candidates is a whole number, 1 or more, not {self.limit!r}")


CHOICE = Choice()


def choice_of(wanted: str | Choice) -> Choice:
    """A choice by the name of its way."""
    return Choice(wanted) if isinstance(wanted, str) else wanted


@dataclass(frozen=True, slots=True)
class Candidates:
    """What is looked at."""

    values: Ints
    """Shape (candidates, variables), int32: numbers of objects; ascending by the first, then the second and so on."""
    words: str
    """Where they come from."""


def candidates(
    graph: Graph,
    pattern: Pattern,
    seen: Ints,
    among: Among = EVERYTHING,
    choice: Choice = CHOICE,
    deadline: Deadline | None = None,
) -> Candidates:
    """The candidates for a pattern's variables; `seen` (b, places) are the known answers of the query.

    `among` limits variables to a type or to names. For one variable they are all objects, unless something else is
    asked for.
    """
    pools = _pools(graph.kb, pattern, among)
    few = len(pattern.variables) < 2
    limit = None if few else choice.limit
    for way in WAYS[1:] if choice.way == "auto" else (choice.way,):
        own = _narrowed(graph.kb, pattern, seen, pools, way)
        if few or way != "near":
            if limit is None or math.prod(map(len, own)) <= limit:
                return Candidates(_product(own), _words(pattern, among, way))
            continue
        for steps in STEPS:
            near = _near(graph, pattern, own, steps, choice.limit, deadline or never())
            if near is not None:
                return Candidates(near, _words(pattern, among, way, steps))
    raise LimitError(
        f"there are more than {choice.limit:,} candidates for {', '.join(pattern.variables)}",
        hint=f"give {pattern.variables[0]} an object, limit it to a type or a list, or raise the limit",
    )


def known_candidates(kb: KnowledgeBase, pattern: Pattern, seen: Ints, among: Among) -> Candidates:
    """The known answers that fit the pattern, and no others."""
    values = np.unique(pattern.values(seen[pattern.fits(seen)]), axis=0)
    for column, pool in enumerate(_pools(kb, pattern, among)):
        values = values[np.isin(values[:, column], pool)]
    return Candidates(values.astype(np.int32), f"known answers{_limited(pattern, among)}")


def types_at(kb: KnowledgeBase, relation: str, arity: int) -> dict[int, str]:
    """Place → type of the objects there, where they have one in common, by the first facts.

    >>> kb = KnowledgeBase.from_facts([("parent", "ann", "bob"), ("person", "ann")])
    >>> types_at(kb, "parent", 2)
    {0: 'person'}
    """
    table, number = kb.tables.get(arity), kb.content.relations.number(relation)
    if table is None or number is None:
        return {}
    rows = table.rows(number)[:ALIKE]
    found = {}
    for place in range(arity):
        names = [kb.name(one) for one in table.objects[rows.start : rows.stop, place].tolist()]
        common = set.intersection(*(set(kb.types(name)) for name in names)) if names else set()
        if common:
            found[place] = min(common, key=lambda kind: (-kb.relations[kind].count, kind))
    return found


def fitting_types(kb: KnowledgeBase, query: Query) -> dict[str, str]:
    """Variable → type of what stands at its place in facts, where the query asks for those of one relation."""
    atom = query.formula
    if not isinstance(atom, Atom) or not isinstance(atom.relation, str):
        return {}
    kinds = types_at(kb, atom.relation, len(atom.terms))
    named = {place: term.name for place, term in enumerate(atom.terms) if isinstance(term, Variable)}
    return {name: kinds[place] for place, name in named.items() if place in kinds}


def objects_of_type(kb: KnowledgeBase, name: str) -> Ints:
    """The objects of a type by number, ascending."""
    number = kb.content.relations.number(name)
    if number is None or kb.content.arities[number] != 1:
        raise KnowledgeError(
            f"there is no type {name}", near=nearest(name, kb.types()), hint="a type is a relation with one place"
        )
    table = kb.tables.get(1)
    return np.zeros(0, np.int32) if table is None else table.objects[table.rows(number), 0]


def _pools(kb: KnowledgeBase, pattern: Pattern, among: Among) -> list[Ints]:
    """For each variable the objects it may stand for, ascending."""
    for name in among:
        if name not in pattern.variables:
            listed = ", ".join(pattern.variables)
            raise FormulaError(
                f"there is no variable {name} to choose objects for",
                near=nearest(name, pattern.variables),
                hint=f"variables without an object: {listed}" if listed else "every variable has an object",
            )
    return [_pool(kb, among.get(name)) for name in pattern.variables]


def _pool(kb: KnowledgeBase, wanted: str | Sequence[str] | None) -> Ints:
    if wanted is None:
        return np.arange(len(kb.objects), dtype=np.int32)
    if isinstance(wanted, str):
        return objects_of_type(kb, wanted)
    return np.unique(np.array([kb.id(name) for name in wanted], np.int32))


def _narrowed(kb: KnowledgeBase, pattern: Pattern, seen: Ints, pools: Sequence[Ints], way: str) -> list[Ints]:
    """Those of the objects that fit all places of their variable as far as known answers tell."""
    found = []
    for name, pool in zip(pattern.variables, pools, strict=True):
        left = pool
        for place in pattern.at(name) if way != "all" else ():
            own = np.unique(seen[:, place])
            left = np.intersect1d(left, own if way != "typed" else _alike(kb, own))
        found.append(left.astype(np.int32))
    return found


def _alike(kb: KnowledgeBase, objects: Ints) -> Ints:
    """The objects that have a type in common with one of some; all where none of these has a type."""
    table = kb.tables.get(1)
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


def _near(
    graph: Graph, pattern: Pattern, pools: Sequence[Ints], steps: int, limit: int, deadline: Deadline
) -> Ints | None:
    """Combinations in which each object is near a given one or one before it; None where there are too many."""
    given = np.array(sorted({what for what in pattern.places if isinstance(what, int)}), np.int32)
    rows = np.zeros((1, 0), np.int32)
    for pool in pools:
        inside = np.zeros(len(graph), bool)
        inside[pool] = True
        parts, count = [np.zeros((0, rows.shape[1] + 1), np.int32)], 0
        for row in rows:
            deadline.check()
            anchors = np.concatenate([given, row])
            reached = _ball(graph, anchors, steps) if len(anchors) else pool
            kept = reached[inside[reached]]
            count += len(kept)
            if count > limit:
                return None
            parts.append(np.column_stack([np.repeat(row[None], len(kept), axis=0), kept]).astype(np.int32))
        rows = np.concatenate(parts)
    return rows


def _ball(graph: Graph, objects: Ints, steps: int) -> Ints:
    """The objects within some steps, ascending, without looking at all others."""
    found = np.unique(objects)
    for _ in range(steps):
        far = graph.neighbours[ranges(graph.starts[found], graph.starts[found + 1])]
        found = np.union1d(found, far)
    return found


# In words


def _words(pattern: Pattern, among: Among, way: str, steps: int = 0) -> str:
    count = len(pattern.variables)
    if not count:
        return "the tuple itself"
    what = {1: "objects", 2: "pairs of objects"}.get(count, f"combinations of {count} objects")
    places = "this place" if count == len(pattern.places) == 1 else "these places"
    ways = {
        "all": f"all {what}",
        "typed": f"{what} of the types seen at {places}",
        "seen": f"{what} seen at {places}",
        "near": f"{what} seen at {places}" + (f", at most {some(steps, 'step')} apart in the graph" if steps else ""),
    }
    return ways[way] + _limited(pattern, among)


def _limited(pattern: Pattern, among: Among) -> str:
    said = ""
    for name in pattern.variables:
        wanted = among.get(name)
        if wanted is not None:
            limit = f"of type {wanted}" if isinstance(wanted, str) else f"one of {len(wanted):,}"
            said += f", {name} {limit}"
    return said

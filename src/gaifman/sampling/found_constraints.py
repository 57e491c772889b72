"""Constraints that nearly all facts of a relation keep, each with its evidence.

>>> names = ["athens", "baku", "cairo", "dakar", "oslo", "paris", "quito", "riga", "rome", "seoul", "sofia", "tunis"]
>>> facts = [("capital", f"country of {name}", name) for name in names]
>>> kb = KnowledgeBase.from_facts([*facts, *(("city", name) for name in names), *(("country", x) for _, x, _ in facts)])
>>> for found in find_constraints(kb):
...     print(found.constraint, found.evidence, sep=": ")
functional: capital 1→2: 12 of 12 countries have one capital
functional: capital 2→1: 12 of 12 cities y have one x
types: capital country, _: 12 of 12 x are countries
types: capital _, city: 12 of 12 y are cities

A constraint is found if it has few exceptions, also at the upper end of what so small a sample allows, and if chance
would give more of them. What counts as an instance depends on the kind:

| constraint | instances | exceptions | few enough |
| --- | --- | --- | --- |
| functional | the objects at all other positions of some fact | several objects at the position | also beside chance |
| symmetric | facts with two different objects | the exchanged fact is not known | at most a quarter |
| asymmetric | facts whose objects occur at each other's positions | the exchanged fact is known | |
| irreflexive, if not asymmetric | objects that occur at both positions | a fact has the object twice | none |
| types | typed objects at the position | they lack the type | |

Chance: the same number of facts, spread over all objects that are like those of the known facts. These are the objects
of the largest type, or else of the largest position of another relation, that nearly all of them share.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import combinations
from typing import Any

import numpy as np

from gaifman.config import checked
from gaifman.errors import KnowledgeBaseError, similar_names
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.kb.links import MAX_MISSING_INVERSES, MIN_INSTANCES, expected_repeats, is_below_chance, is_rare
from gaifman.kb.tables import Ints, Longs, row_ids
from gaifman.logic.verbalize import readable_name
from gaifman.sampling.constraints import (
    Constraints,
    FoundConstraint,
    FunctionalConstraint,
    PairConstraint,
    TypeConstraint,
)

MIN_SHARED = 0.9
"""Share of the objects at a position that have a type or another position in common."""
MAX_COMPARED = 1_000
"""Objects of a position that are compared with types and other positions."""

VARIABLES = "xyzuvwst"
"""The variables of evidence, by position."""


@checked
def find_constraints(kb: KnowledgeBase, relations: Iterable[str] | None = None) -> list[FoundConstraint]:
    """Find the constraints that nearly all facts keep, each with its evidence.

    Args:
        kb: The knowledge base.
        relations: The relations; None for all.
    """
    if isinstance(relations, str):
        raise KnowledgeBaseError(f"relations is a list: write [{relations!r}], not {relations!r}")
    names = list(kb.relations) if relations is None else list(relations)
    for name in names:
        if name not in kb.relations:
            raise KnowledgeBaseError(f"there is no relation {name}", suggestions=similar_names(name, kb.relations))
    finder = _Finder(kb)
    return [found for name in names for found in finder.find(name)]


def constraints_to_use(
    constraints: Constraints, kb: KnowledgeBase, relations: Iterable[str]
) -> list[FoundConstraint] | None:
    """The constraints of some relations; None if found constraints are not to act."""
    return find_constraints(kb, relations) if constraints.find else None


class _Finder:
    """Finds the constraints of relations of one knowledge base."""

    def __init__(self, kb: KnowledgeBase) -> None:
        self.kb = kb
        names = [name for name, info in kb.relations.items() if info.count]
        self._kinds = [(name, i) for name in names for i in range(kb.relations[name].arity)]
        """Types, and positions of relations."""
        members = [np.unique(kb.tuples(name)[:, i]) for name, i in self._kinds]
        self._sizes = np.array([len(objects) for objects in members], np.int64)
        kinds = np.repeat(np.arange(len(members)), self._sizes)
        objects = np.concatenate([np.zeros(0, np.int32), *members])
        self._kinds_of = kinds[np.argsort(objects, kind="stable")]
        self._starts = np.searchsorted(np.sort(objects), np.arange(len(kb.objects) + 1))
        self._typed = np.zeros(len(kb.objects), bool)
        """Shape (objects,): whether an object has a type."""
        for (name, _), own in zip(self._kinds, members, strict=True):
            if kb.relations[name].arity == 1:
                self._typed[own] = True

    def find(self, relation: str) -> Iterator[FoundConstraint]:
        """The constraints of one relation."""
        tuples = self.kb.tuples(relation)
        arity = tuples.shape[1]
        if arity == 1 or len(tuples) < MIN_INSTANCES:
            return
        typed = [self._type_at(relation, tuples, position) for position in range(arity)]
        names = [_type_of(found, i) for i, found in enumerate(typed)]
        for dependent in reversed(range(arity)):
            yield from self._functional(relation, tuples, dependent, names)
        for first, second in combinations(range(arity), 2):
            yield from self._pairs(relation, tuples, first, second)
        yield from (found for found in typed if found)

    # Functional

    def _functional(
        self, relation: str, tuples: Ints, dependent: int, types: list[str | None]
    ) -> Iterator[FoundConstraint]:
        """That the objects at all other positions determine the one at a position."""
        determinants = tuple(i for i in range(tuples.shape[1]) if i != dependent)
        sizes = np.bincount(row_ids(tuples[:, list(determinants)])[0])  # facts are distinct
        keys, broken = len(sizes), int((sizes > 1).sum())
        if not is_rare(broken, keys):
            return
        possible = math.prod(self._possible(relation, tuples, position) for position in determinants)
        if is_below_chance(broken, expected_repeats(len(tuples), possible)):
            constraint = FunctionalConstraint(relation, determinants, dependent)
            evidence = _functional_evidence(constraint, keys - broken, keys, types)
            yield FoundConstraint(constraint, keys - broken, keys, evidence)

    def _possible(self, relation: str, tuples: Ints, position: int) -> int:
        """How many objects could be at a position: those of the largest kind that nearly all objects there share."""
        objects = np.unique(tuples[:, position])
        kinds = {kind for kind in self._shared_kinds(objects) if kind[0] != relation}
        types = {kind for kind in kinds if self.kb.relations[kind[0]].arity == 1}
        sizes = [int(self._sizes[self._kinds.index(kind)]) for kind in types or kinds]
        return max([len(objects), *sizes]) if sizes else len(self.kb.objects)

    def _shared_kinds(self, objects: Ints, share: float = MIN_SHARED) -> set[tuple[str, int]]:
        """The types and positions that nearly all of some objects share."""
        compared = objects[:: max(1, len(objects) // MAX_COMPARED)]
        counts = np.bincount(self._kinds_among(compared), minlength=len(self._kinds))
        return {self._kinds[kind] for kind in np.flatnonzero(counts >= share * len(compared)).tolist()}

    def _kinds_among(self, objects: Ints) -> Longs:
        """The types and positions of some objects, by number, with repetitions."""
        parts = [self._kinds_of[self._starts[obj] : self._starts[obj + 1]] for obj in objects.tolist()]
        return np.concatenate([np.zeros(0, np.int64), *parts])

    # Two positions

    def _pairs(self, relation: str, tuples: Ints, first: int, second: int) -> Iterator[FoundConstraint]:
        """Whether two positions are symmetric, asymmetric or irreflexive."""
        differs = tuples[:, first] != tuples[:, second]
        exchanged = tuples.copy()
        exchanged[:, [first, second]] = tuples[:, [second, first]]
        inverse = _are_in(exchanged, tuples) & differs
        facts, reversed_facts = int(differs.sum()), int(inverse.sum())
        arity = tuples.shape[1]

        def found(kind: str, holds: int, instances: int, evidence: str) -> FoundConstraint:
            constraint = PairConstraint(relation, kind, (first, second), arity)
            return FoundConstraint(constraint, holds, instances, evidence)

        if is_rare(facts - reversed_facts, facts, MAX_MISSING_INVERSES):
            words = f"{reversed_facts:,} of {facts:,} facts are known both ways"
            yield found("symmetric", reversed_facts, facts, words)
        shared = np.intersect1d(tuples[:, first], tuples[:, second])
        could = differs & np.isin(tuples[:, first], shared) & np.isin(tuples[:, second], shared)
        possible = int(could.sum())
        if is_rare(reversed_facts, possible):
            known = "none is" if not reversed_facts else f"only {reversed_facts:,} are"
            words = f"of {possible:,} facts that could be reversed, {known} known both ways"
            yield found("asymmetric", possible - reversed_facts, possible, words)
        elif differs.all() and is_rare(0, len(shared)):
            words = f"none of {len(tuples):,} facts has {VARIABLES[first]} = {VARIABLES[second]}"
            yield found("irreflexive", len(tuples), len(tuples), words)

    # Types

    def _type_at(self, relation: str, tuples: Ints, position: int) -> FoundConstraint | None:
        """The largest type that nearly all objects at a position have, and not nearly all other objects."""
        objects = np.unique(tuples[:, position])
        objects = objects[self._typed[objects]]
        if len(objects) < MIN_INSTANCES:
            return None
        best: tuple[int, str, int] | None = None
        for name, _ in sorted(kind for kind in self._shared_kinds(objects) if kind[0] != relation):
            info = self.kb.relations[name]
            if info.arity > 1 or info.count >= MIN_SHARED * self._typed.sum():
                continue
            holds = int(np.isin(objects, self.kb.tuples(name)[:, 0]).sum())
            if is_rare(len(objects) - holds, len(objects)) and (best is None or info.count > best[0]):
                best = info.count, name, holds
        if best is None:
            return None
        _, name, holds = best
        types = tuple(name if i == position else None for i in range(tuples.shape[1]))
        words = f"{holds:,} of {len(objects):,} {VARIABLES[position]} are {_plural(readable_name(name))}"
        return FoundConstraint(TypeConstraint(relation, types), holds, len(objects), words)


def _type_of(found: FoundConstraint | None, position: int) -> str | None:
    """The type that was found for a position."""
    return found.constraint.types[position] if found and isinstance(found.constraint, TypeConstraint) else None


def _are_in(rows: Ints, table: Ints) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Shape (rows,): which rows are in a table of distinct rows."""
    numbers = row_ids(np.concatenate([table, rows]))[0]
    present = np.zeros(int(numbers.max(initial=-1)) + 1, bool)
    present[numbers[: len(table)]] = True
    return present[numbers[len(table) :]]


# Words


def _functional_evidence(constraint: FunctionalConstraint, holds: int, keys: int, types: list[str | None]) -> str:
    """Such as `195 of 196 countries have one capital`, or `195 of 196 cities y have one x`, of r(x, y)."""
    names = [VARIABLES[i] for i in constraint.determinants]
    only = constraint.determinants[0] if len(names) == 1 else None
    subject = names[0] if only is not None else f"({', '.join(names)})"
    noun = readable_name(constraint.relation)
    named = only == 0 and _is_noun(noun)
    if only is not None and (known_type := types[only]) is not None:
        kind = _plural(readable_name(known_type))
        subject = kind if named else f"{kind} {subject}"
    what = noun if named else VARIABLES[constraint.dependent]
    return f"{holds:,} of {keys:,} {subject} have one {what}"


def _is_noun(words: str) -> bool:
    """Whether words can follow `one`: a guess.

    >>> [_is_noun(words) for words in ("capital", "place of birth", "born in", "borders", "p12", "uses money")]
    [True, True, False, False, False, False]
    """
    first, last = words.split(maxsplit=1)[0], words.rsplit(maxsplit=1)[-1]
    prepositions = {"in", "of", "by", "to", "at", "on", "from", "with", "for", "as"}
    verbal = first.endswith("s") or last.endswith("s") or first in ("has", "is", "in")
    return words.replace(" ", "").isalpha() and last not in prepositions and not verbal


def _plural(noun: str) -> str:
    """The plural of a type.

    >>> [_plural(noun) for noun in ("city", "country", "film", "boy", "church")]
    ['cities', 'countries', 'films', 'boys', 'churches']
    """
    if noun.endswith("y") and noun[-2:-1] not in "aeiou":
        return noun[:-1] + "ies"
    if noun == "person":
        return "people"
    return noun + ("es" if noun.endswith(("s", "x", "ch", "sh")) else "s")

"""Conflicts by definition: one tuple, one constraint and one fact at a time."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from itertools import combinations

from gaifman.kb.knowledge_base import Fact, KnowledgeBase
from gaifman.sampling.constraints import Constraints

Objects = tuple[str, ...]


def reference_factor(
    kb: KnowledgeBase, relation: str, declared: Constraints, objects: Objects, hidden: Collection[Fact]
) -> float:
    """What the probability of `relation(objects)` is multiplied by, if it does not see the hidden facts."""
    others = [fact for fact in kb.facts(relation) if fact.objects != objects]
    visible = [fact for fact in kb.facts(relation) if fact not in hidden]
    factor = 1.0
    for rule in declared.functional:
        if rule.relation == relation:
            rivals = [fact for fact in visible if differs(fact.objects, objects, rule.determinants, rule.dependent)]
            broken = sum(
                any(differs(one.objects, other.objects, rule.determinants, rule.dependent) for other in others)
                for one in others
            )
            factor *= mixture(probability_of_any(rivals), broken, len(others))
    for typed in declared.types:
        if typed.relation == relation:
            for position, name in enumerate(typed.types):
                if name is not None and any(kb.facts(name)):
                    certainty = lacks_type(kb, objects[position], name, hidden)
                    broken = sum(lacks_type(kb, fact.objects[position], name, {fact}) > 0 for fact in others)
                    factor *= mixture(certainty, broken, len(others))
    for i, j in combinations(range(len(objects)), 2):
        repeats = any(fact.objects[i] == fact.objects[j] for fact in others)
        if objects[i] == objects[j] and others and not repeats:
            factor *= mixture(1.0, 0, len(others))
    return factor


def differs(one: Objects, other: Objects, determinants: Iterable[int], dependent: int) -> bool:
    """Whether the determining objects are the same and the determined ones are not."""
    return all(one[i] == other[i] for i in determinants) and one[dependent] != other[dependent]


def lacks_type(kb: KnowledgeBase, obj: str, name: str, hidden: Collection[Fact]) -> float:
    """The probability that an object has a visible type, if it does not have this one; else 0."""
    types = [fact for kind in kb.types() for fact in kb.facts(kind) if fact.objects == (obj,) and fact not in hidden]
    return 0.0 if any(fact.relation == name for fact in types) else probability_of_any(types)


def probability_of_any(facts: Iterable[Fact]) -> float:
    """The probability that one of the facts is present."""
    return 1 - math.prod(1 - fact.confidence for fact in facts)


def mixture(certainty: float, broken: int, known: int) -> float:
    """1 without a conflict, and the smoothed rate of broken constraints with a certain one."""
    return 1 - certainty + certainty * (broken + 0.5) / (known + 1)

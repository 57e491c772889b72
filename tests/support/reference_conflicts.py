"""Conflicts by definition: one tuple, one constraint and one fact at a time."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator
from itertools import combinations

from gaifman.kb.knowledge_base import Fact, KnowledgeBase
from gaifman.sampling.constraints import Constraint, Constraints, FunctionalConstraint, PairConstraint, TypeConstraint

Objects = tuple[str, ...]


def reference_probability(
    kb: KnowledgeBase,
    relation: str,
    declared: Constraints,
    found: Collection[Constraint],
    objects: Objects,
    hidden: Collection[Fact],
    probability: float,
) -> float:
    """The probability of `relation(objects)` in view of its conflicts, if it does not see the hidden facts."""
    mine = [rule for rule in dict.fromkeys(declared.declared) if rule.relation == relation]
    for rule in mine:
        for factor in conflict_factors(kb, rule, objects, hidden):
            probability *= factor
    if not declared.find:
        return probability
    others = [rule for rule in found if rule.relation == relation and not is_declared(rule, mine)]
    for rule in others:
        for factor in conflict_factors(kb, rule, objects, hidden, found=True):
            probability = odds_against_both(probability, factor)
    pairs = [rule for rule in [*mine, *others] if isinstance(rule, PairConstraint)]
    distinct = {rule.positions for rule in pairs if rule.kind == "irreflexive"}
    for pair in combinations(range(len(objects)), 2):
        if pair not in distinct:
            rule = PairConstraint(relation, "irreflexive", pair, len(objects))
            for factor in conflict_factors(kb, rule, objects, hidden, found=True):
                probability = odds_against_both(probability, factor)
    return probability


def is_declared(rule: Constraint, declared: Collection[Constraint]) -> bool:
    """Whether the same, or for a type one at the same position, is declared."""
    if isinstance(rule, TypeConstraint):
        [position] = [i for i, name in enumerate(rule.types) if name]
        return any(isinstance(other, TypeConstraint) and other.types[position] for other in declared)
    return rule in declared


def odds_against_both(probability: float, factor: float) -> float:
    """The probability whose odds against it are those against both."""
    return 1 / (1 + (1 / probability - 1) + (1 / factor - 1))


def conflict_factors(
    kb: KnowledgeBase, rule: Constraint, objects: Objects, hidden: Collection[Fact], found: bool = False
) -> Iterator[float]:
    """The factor of each conflict with one constraint; 1 without a conflict."""
    others = [fact for fact in kb.facts(rule.relation) if fact.objects != objects]
    visible = [fact for fact in kb.facts(rule.relation) if fact not in hidden]
    match rule:
        case FunctionalConstraint(_, determinants, dependent):
            rivals = [fact for fact in visible if differs(fact.objects, objects, determinants, dependent)]
            broken = sum(
                any(differs(one.objects, other.objects, determinants, dependent) for other in others) for one in others
            )
            yield mixture(probability_of_any(rivals), broken, len(others))
        case TypeConstraint(_, types):
            for position, name in enumerate(types):
                if name is not None and any(kb.facts(name)):
                    certainty = lacks_type(kb, objects[position], name, hidden)
                    broken = sum(lacks_type(kb, fact.objects[position], name, {fact}) > 0 for fact in others)
                    yield mixture(certainty, broken, len(others))
        case PairConstraint(_, "asymmetric", positions):
            rivals = [fact for fact in visible if reverses(fact.objects, objects, positions)]
            broken = sum(any(reverses(one.objects, other.objects, positions) for other in others) for one in others)
            yield mixture(probability_of_any(rivals), broken, len(others))
        case PairConstraint(_, "irreflexive", (i, j)):
            broken = sum(fact.objects[i] == fact.objects[j] for fact in others)
            if objects[i] == objects[j] and (not found or (others and not broken)):
                yield mixture(1.0, broken, len(others))


def reverses(one: Objects, other: Objects, positions: tuple[int, int]) -> bool:
    """Whether the objects differ at two positions, where one tuple has them the other way round, and nowhere else."""
    i, j = positions
    exchanged = [*other]
    exchanged[i], exchanged[j] = other[j], other[i]
    return other[i] != other[j] and one == tuple(exchanged)


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

"""Constraints of a knowledge base by definition: sets of facts, and exact sums of probabilities."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from itertools import accumulate

from gaifman.kb.knowledge_base import KnowledgeBase

Rows = list[tuple[str, ...]]
Found = tuple[str, int, int]
"""The constraint, how many instances keep it, and the instances."""


def reference_constraints(kb: KnowledgeBase) -> list[Found]:
    """The constraints of all relations."""
    return [found for name in kb.relations for found in constraints_of_relation(kb, name)]


def constraints_of_relation(kb: KnowledgeBase, relation: str) -> Iterator[Found]:
    rows = [fact.objects for fact in kb.facts(relation)]
    arity = kb.relations[relation].arity
    if arity == 1 or len(rows) < 10:
        return
    for dependent in range(arity):
        yield from functional(kb, relation, rows, dependent)
    for second in range(arity):
        for first in range(second):
            yield from pairs(relation, rows, first, second)
    for position in range(arity):
        yield from types(kb, relation, rows, position)


def functional(kb: KnowledgeBase, relation: str, rows: Rows, dependent: int) -> Iterator[Found]:
    rest = [i for i in range(len(rows[0])) if i != dependent]
    values: dict[tuple[str, ...], set[str]] = {}
    for row in rows:
        values.setdefault(tuple(row[i] for i in rest), set()).add(row[dependent])
    broken = sum(len(own) > 1 for own in values.values())
    keys = math.prod(possible_objects(kb, relation, {row[i] for row in rows}) for i in rest)
    mean = len(rows) / keys
    expected = keys * (1 - math.exp(-mean) - mean * math.exp(-mean))
    terms = accumulate(range(1, broken + 1), lambda term, k: term * expected / k, initial=math.exp(-expected))
    by_chance = sum(terms)
    if rare(broken, len(values)) and 3 * broken <= expected and by_chance <= 0.1:
        text = f"functional: {relation} {','.join(str(i + 1) for i in rest)}→{dependent + 1}"
        yield text, len(values) - broken, len(values)


def possible_objects(kb: KnowledgeBase, relation: str, objects: set[str]) -> int:
    """The size of the largest type, or else of the largest position, that nearly all objects share."""
    kinds: dict[bool, list[int]] = {True: [], False: []}
    for name, info in kb.relations.items():
        for position in range(info.arity):
            own = {fact.objects[position] for fact in kb.facts(name)}
            if name != relation and len(objects & own) >= 0.9 * len(objects):
                kinds[info.arity == 1].append(len(own))
    sizes = kinds[True] or kinds[False]
    return max(len(objects), *sizes) if sizes else len(kb.objects)


def pairs(relation: str, rows: Rows, first: int, second: int) -> Iterator[Found]:
    at = "" if len(rows[0]) == 2 else f" {first + 1},{second + 1}"
    different = [row for row in rows if row[first] != row[second]]
    both_ways = [row for row in different if exchanged(row, first, second) in rows]
    if rare(len(different) - len(both_ways), len(different), Fraction(1, 4)):
        yield f"symmetric: {relation}{at}", len(both_ways), len(different)
    shared = {row[first] for row in rows} & {row[second] for row in rows}
    could = [row for row in different if row[first] in shared and row[second] in shared]
    if rare(len(both_ways), len(could)):
        yield f"asymmetric: {relation}{at}", len(could) - len(both_ways), len(could)
    elif len(different) == len(rows) and rare(0, len(shared)):
        yield f"irreflexive: {relation}{at}", len(rows), len(rows)


def exchanged(row: tuple[str, ...], first: int, second: int) -> tuple[str, ...]:
    other = [*row]
    other[first], other[second] = row[second], row[first]
    return tuple(other)


def types(kb: KnowledgeBase, relation: str, rows: Rows, position: int) -> Iterator[Found]:
    members = {name: {fact.objects[0] for fact in kb.facts(name)} for name in kb.types()}
    typed = set().union(*members.values()) if members else set()
    objects = {row[position] for row in rows} & typed
    fitting = [
        (-len(own), name)
        for name, own in members.items()
        if len(objects & own) >= 0.9 * len(objects)
        and len(own) < 0.9 * len(typed)
        and rare(len(objects - own), len(objects))
    ]
    if fitting:
        name = min(fitting)[1]
        cells = ["_"] * len(rows[0])
        cells[position] = name
        yield f"types: {relation} {', '.join(cells)}", len(objects & members[name]), len(objects)


def rare(exceptions: int, instances: int, share: Fraction = Fraction(1, 20)) -> bool:
    """Whether at most this share are exceptions, and so few are improbable if four times as many are."""
    if instances < 10 or exceptions > share * instances:
        return False
    upper = min(4 * share, Fraction(1, 2))
    ways = (math.comb(instances, k) * upper**k * (1 - upper) ** (instances - k) for k in range(exceptions + 1))
    return sum(ways) <= Fraction(1, 10)


def kinds_found(found: list[Found]) -> Counter[str]:
    """How many constraints of each kind there are."""
    return Counter(text.partition(":")[0] for text, *_ in found)

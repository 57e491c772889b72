"""Knowledge bases with linked relations, and the definitions of links and leakage over names."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from itertools import combinations

from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.kb.links import MAX_MISSING_INVERSES, is_below_chance, is_rare

KINDS = ("random", "symmetric", "inverse", "copy", "part", "triple")

Tuple = tuple[str, ...]
Link = tuple[str, str, str, tuple[int, ...]]
"""Kind, relation, other relation, order."""


def linked_kb(kinds: list[str], size: int, noise: int, seed: int) -> KnowledgeBase:
    """A relation of random facts, others that follow from it in some way, types and values."""
    rng = random.Random(seed)
    objects = [f"o{i:02d}" for i in range(size)]
    base: list[Tuple] = [(rng.choice(objects), rng.choice(objects)) for _ in range(size)]
    facts: list[Tuple] = [("base", *row) for row in base] + [("thing", obj) for obj in objects[::2]]
    for number, kind in enumerate(kinds):
        rows: dict[str, list[Tuple]] = {
            "random": [(rng.choice(objects), rng.choice(objects)) for _ in base],
            "symmetric": [pair for row in base[: size // 2] for pair in (row, row[::-1])],
            "inverse": [row[::-1] for row in base],
            "copy": list(base),
            "part": base[: size // 2],
            "triple": [(*row, rng.choice(objects)) for row in base],
        }
        extra = [tuple(rng.choice(objects) for _ in rows[kind][0]) for _ in range(noise)]
        facts += [(f"r{number}", *row) for row in [*rows[kind], *extra] if rng.random() > 0.05]
    return KnowledgeBase.from_facts(facts, {("age", obj): 1 for obj in objects[:3]})


def reference_links(kb: KnowledgeBase) -> set[Link]:
    """The links of all relations, by definition, with those that follow from a symmetric relation."""
    tuples = {name: {fact.objects for fact in kb.facts(name)} for name in kb.relations}
    found: set[Link] = set()
    for arity in {info.arity for info in kb.relations.values()}:
        names = [name for name, info in kb.relations.items() if info.arity == arity and info.count]
        every = set().union(*(tuples[name] for name in names)) if names else set()
        plain = tuple(range(arity))
        orders = [plain, *(_exchanged(plain, i, j) for i, j in combinations(plain, 2))]
        for order in orders:
            implied = {
                (one, two)
                for one in names
                for two in names
                if (one != two or order != plain) and _implies(tuples[one], tuples[two], order, len(every))
            }
            for one, two in implied:
                exchange = "inverse" if order != plain else ""
                if one == two:
                    found.add(("symmetric", one, two, order))
                elif (two, one) in implied:
                    found.add((exchange or "duplicate", *sorted((one, two)), order))  # type: ignore[arg-type]
                else:
                    found.add((f"{exchange} subset".strip(), one, two, order))
    return found


def _exchanged(order: tuple[int, ...], i: int, j: int) -> tuple[int, ...]:
    swapped = list(order)
    swapped[i], swapped[j] = j, i
    return tuple(swapped)


def _implies(one: set[Tuple], two: set[Tuple], order: tuple[int, ...], every: int) -> bool:
    """Whether the facts of one relation imply those of another."""
    moved = order != tuple(range(len(order)))

    def counted(rows: set[Tuple]) -> set[Tuple]:
        return {row for row in rows if not moved or permuted(row, order) != row}

    asked, others = counted(one), counted(two)
    missing = sum(permuted(row, order) not in others for row in asked)
    rare = is_rare(missing, len(asked), MAX_MISSING_INVERSES)
    possible = max(every, math.prod(len(set(column)) for column in zip(*two, strict=True)))
    return rare and is_below_chance(missing, len(asked) * (1 - min(1.0, len(others) / possible)))


def permuted(row: Tuple, order: tuple[int, ...]) -> Tuple:
    """The objects in another order."""
    return tuple(row[i] for i in order)


def reference_leaks(
    source: KnowledgeBase, part: KnowledgeBase, links: set[Link]
) -> Mapping[str, set[tuple[str, Tuple]]]:
    """Kind → the facts of a part that a fact of the source implies by a link."""
    leaks: dict[str, set[tuple[str, Tuple]]] = {}
    for kind, one, two, order in links:
        directions = [(one, two)] if kind.endswith("subset") else [(one, two), (two, one)]
        for premise, conclusion in directions:
            for fact in source.facts(premise) if premise in source.relations else ():
                follows = permuted(fact.objects, order)
                known = conclusion in part.relations and (conclusion, *follows) in part
                if known and (premise, fact.objects) != (conclusion, follows):
                    leaks.setdefault(kind, set()).add((conclusion, follows))
    return leaks

"""Knowledge bases of random facts and numbers, in which nothing can be predicted."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from gaifman.kb.knowledge_base import KnowledgeBase

OBJECTS = 200
COUNTS = {
    "r": (2, 900),
    "s": (2, 900),
    "f": (2, 200),
    "t": (3, 600),
    "p": (1, 100),
    "u": (1, 100),
    "person": (1, OBJECTS),
}
"""Relation → arity, and number of facts."""
KNOWN_AGES = 0.8
"""The share of objects whose age is known."""


def random_ages(seed: int, objects: int = OBJECTS) -> dict[str, tuple[float, bool]]:
    """Object → its age, and whether it is known."""
    rng = np.random.default_rng([seed, 1])
    ages, known = rng.integers(0, 101, objects).tolist(), (rng.random(objects) < KNOWN_AGES).tolist()
    return {f"o{number}": (float(age), seen) for number, (age, seen) in enumerate(zip(ages, known, strict=True))}


def random_facts(seed: int, scale: int = 1, relations: Collection[str] = tuple(COUNTS)) -> KnowledgeBase:
    """Random facts of relations, and random ages; `scale` times as many objects and facts."""
    rng, objects = np.random.default_rng([seed, 0]), OBJECTS * scale
    facts: set[tuple[str, ...]] = set()
    for name, (arity, count) in COUNTS.items():
        rows = np.unique(rng.integers(0, objects, (2 * count * scale, arity)), axis=0)
        if arity == 1:
            rows = np.arange(objects)[:, None]
        for row in rng.permutation(rows)[: count * scale].tolist():
            facts.add((name, *(f"o{number}" for number in row)))
    values = {("age", obj): age for obj, (age, known) in random_ages(seed, objects).items() if known}
    kept = sorted(fact for fact in facts if fact[0] in relations)
    return KnowledgeBase.from_facts(kept, values, [f"o{number}" for number in range(objects)])

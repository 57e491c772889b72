"""A small family and random monotone queries."""

from __future__ import annotations

import random

from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.logic.ast import And, Exists, Formula, Or, Query, Variable, free_variables
from generators import Generator

FAMILY = KnowledgeBase.from_facts(
    [
        ("parent", "ann", "bob"),
        ("parent", "ann", "bea"),
        ("parent", "bob", "cleo"),
        ("parent", "bea", "cleo"),
        ("person", "ann"),
        ("gave", "ann", "ring", "bob"),
    ],
    {("age", "ann"): 80.0},
)


def positive(rng: random.Random) -> Query:
    """A random query of ∃, ∧, ∨ and atoms."""
    generator = Generator(rng, numbers=True, second_order=False)

    def build(depth: int, names: tuple[str, ...]) -> Formula:
        if depth <= 1:
            return generator.atom(names)
        kind = rng.randint(0, 3)
        parts = tuple(build(depth - 1, names) for _ in range(2))
        bound = Variable(rng.choice("zu"))
        return (And(parts), And(parts), Or(parts), Exists((bound,), build(depth - 1, (*names, bound.name))))[kind]

    formula = build(rng.randint(1, 4), ("x", "y"))
    return Query(free_variables(formula), formula)

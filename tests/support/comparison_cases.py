"""Comparisons as if they were mined, and a knowledge base in which they decide."""

from __future__ import annotations

import random
from collections.abc import Iterable

import numpy as np

from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.kb.tables import freeze
from gaifman.listwise.mining import MinedComparisons


def make_comparisons(formulas: Iterable[tuple[int, int]]) -> MinedComparisons:
    """Comparisons of attributes and operators by number, with figures that say nothing."""
    rows = np.array(sorted(formulas), np.int32).reshape(-1, 2)
    attributes, operators = rows[:, 0].copy(), rows[:, 1].copy()
    counts = freeze(np.ones(len(rows), np.int64))
    return MinedComparisons(freeze(attributes), freeze(operators), counts, counts, freeze(np.ones(len(rows))))


Pairs = set[tuple[str, str]]


def mentors(
    people: int = 120, teams: int = 6, share: float = 0.1, seed: int = 0, ages: bool = True
) -> tuple[KnowledgeBase, Pairs]:
    """Who mentors whom: everyone all younger people of the team. A share is known; the others are returned."""
    rng, names = random.Random(seed), [f"p{i:03}" for i in range(people)]
    team = {name: f"team{i % teams}" for i, name in enumerate(names)}
    age = {name: rng.randrange(20, 70) for name in names}
    true = [(one, other) for one in names for other in names if team[one] == team[other] and age[one] > age[other]]
    known = [pair for pair in true if rng.random() < share]
    facts = [*(("in_team", name, own) for name, own in team.items()), *(("mentors", *pair) for pair in known)]
    values = {("age", name): own for name, own in age.items()}
    return KnowledgeBase.from_facts(facts, values if ages else {}), set(true) - set(known)

"""Held-out figures: they agree with those of a test set that the model has never seen."""

from __future__ import annotations

import numpy as np

from gaifman.kb.knowledge_base import KnowledgeBase
from held_out_cases import TOLERANCE, claimed_and_tested


def random_split(seed: int, *, objects: int = 14, relations: int = 20) -> tuple[KnowledgeBase, KnowledgeBase]:
    """Random facts, of which a fifth are test facts."""
    random = np.random.default_rng(seed)
    chosen = np.argwhere(random.random((relations, objects, objects)) < 0.4)
    facts = [(f"r{name}", f"o{x}", f"o{y}") for name, x, y in random.permutation(chosen).tolist()]
    test = len(facts) // 5
    return KnowledgeBase.from_facts(facts[test:]), KnowledgeBase.from_facts(facts[:test])


def test_the_auc_of_random_facts_among_14_objects_is_not_inflated() -> None:
    quick = {"holdout": 0.2, "min_examples": 8_000, "draws": 3, "options": {"hidden": [50]}}
    pairs = [claimed_and_tested(*random_split(seed), seed=seed, **quick) for seed in range(4)]
    claimed, tested = np.mean(pairs, axis=0)
    assert abs(claimed - tested) < TOLERANCE
    assert abs(claimed - 0.5) < TOLERANCE

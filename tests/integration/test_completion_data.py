"""Completions on real data: trained on one knowledge base, evaluated on another with new objects."""

from __future__ import annotations

import numpy as np
import pytest

import gaifman
from benchmark_data import DATA, NEEDED
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.models.calibration import auc

pytestmark = NEEDED


def corrupted(kb: KnowledgeBase, facts: list[gaifman.Fact], seed: int) -> list[gaifman.Fact]:
    """One negative of each fact: another object at one position, and not a known fact."""
    rng, known, found = np.random.default_rng(seed), set(kb.facts()) | set(facts), []
    for fact in facts:
        while True:
            objects = list(fact.objects)
            objects[rng.integers(2)] = kb.objects[int(rng.integers(len(kb.objects)))]
            other = gaifman.Fact(fact.relation, tuple(objects))
            if other not in known:
                found.append(other)
                break
    return found


@pytest.mark.parametrize("name", ["WN18RR_v1"])
def test_facts_of_new_objects_are_separated_from_negatives(name: str) -> None:
    """The inductive benchmark: the two graphs share relations but no objects."""
    seen, unseen = (gaifman.read(DATA / "grail" / folder / "train.txt.gz") for folder in (name, f"{name}_ind"))
    assert not set(seen.objects) & set(unseen.objects)
    test = gaifman.read(DATA / "grail" / f"{name}_ind" / "test.txt.gz")
    facts = [f for f in test.facts() if f.relation in seen.relations and set(f.objects) <= set(unseen.objects)]
    assert len(facts) > 100
    options = {"hidden": [20], "epochs": 2}
    completion = gaifman.complete(seen, options=options, min_examples=5_000, negatives=10, threads=1).with_kb(unseen)
    scores, targets = [], []
    for target, rows in ((1.0, facts), (0.0, corrupted(unseen, facts, 0))):
        for relation in sorted({fact.relation for fact in rows}):
            own = [fact.objects for fact in rows if fact.relation == relation]
            scores.append(completion.probabilities(relation, own).values)
            targets.append(np.full(len(own), target))
    found = auc(np.concatenate(scores), np.concatenate(targets))
    assert found is not None
    assert found > 0.8

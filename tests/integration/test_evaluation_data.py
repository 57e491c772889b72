"""Evaluation on real data: both positions of pairs, every position of larger facts, new objects."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gaifman
from benchmark_data import DATA, NEEDED
from gaifman.kb.knowledge_base import KnowledgeBase

pytestmark = NEEDED
QUICK: dict[str, Any] = {"options": {"hidden": [20], "epochs": 2}, "min_examples": 5_000, "negatives": 10, "threads": 1}


def splits(name: str) -> list[KnowledgeBase]:
    return [gaifman.read(DATA / name / f"{part}.txt.gz") for part in ("train", "valid", "test")]


def test_most_missing_facts_are_among_the_first_ten() -> None:
    train, valid, test = splits("umls")
    found = gaifman.evaluate(gaifman.complete(train, **QUICK), train, test, [valid], count=150, draws=5)
    assert (found.ranked_facts, found.test_facts, found.objects) == (150, len(test), 135)
    assert found.metrics().hits[10].value > 0.7
    assert found.metrics(raw=True).mean_rank.value > found.metrics().mean_rank.value
    assert found.classification.metrics()["auc"] > 0.8


def test_every_position_of_facts_of_any_arity() -> None:
    train, valid, test = splits("FB-AUTO")
    found = gaifman.evaluate(gaifman.complete(train, **QUICK), train, test, [valid], count=20, draws=1)
    widths = {name: test.relations[name].arity for name in found.relations}
    assert max(widths.values()) > 2
    facts, first, counts = np.unique(found.fact, return_index=True, return_counts=True)
    assert len(facts) == 20
    assert counts.tolist() == [widths[found.relations[number]] for number in found.relation[first]]
    assert found.metrics().mean_rank.value < found.objects / 4


@pytest.mark.parametrize("name", ["WN18RR_v1"])
def test_facts_between_objects_never_seen_in_training(name: str) -> None:
    seen, unseen = (gaifman.read(DATA / "grail" / folder / "train.txt.gz") for folder in (name, f"{name}_ind"))
    test = gaifman.read(DATA / "grail" / f"{name}_ind" / "test.txt.gz")
    chosen = [relation for relation in test.relations if relation in seen.relations]
    found = gaifman.evaluate(gaifman.complete(seen, **QUICK), unseen, test, relations=chosen, draws=5)
    assert found.objects == len({*unseen.objects, *test.objects})
    assert found.test_facts == sum(test.relations[relation].count for relation in chosen) == found.ranked_facts
    assert found.metrics().mrr.value > 0.3

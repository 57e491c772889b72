"""Confidences on real data: NL27k has facts with confidences in all splits."""

from __future__ import annotations

import gaifman
from benchmark_data import DATA, NEEDED
from gaifman.evaluation.tasks import ConfidenceTest, EvaluationData, build_tasks

pytestmark = NEEDED
RELATIONS = 12
"""The relations with the most facts: a third of all facts."""


def test_probabilities_follow_the_confidences_of_facts_that_are_not_known() -> None:
    kb, valid = (gaifman.read(DATA / "NL27k" / f"{split}.txt.gz") for split in ("train", "valid"))
    names = sorted(kb.relations, key=lambda name: -kb.relations[name].count)[:RELATIONS]
    completion = gaifman.complete(kb, names, negative_sampling="uniform", negatives=5, draws=50, threads=2)
    facts = gaifman.KnowledgeBase.from_facts([fact for name in names for fact in valid.facts(name)])
    tasks = build_tasks(completion, EvaluationData(kb, facts))
    tests = [task.confidence_test(task.scorer.tuple_scores(task.tuples)[0]) for task in tasks]
    found = ConfidenceTest.concatenate([test for test in tests if test is not None]).metrics()
    assert found["facts"] == len(facts)
    assert found["model"]["correlation"] > 0.65
    assert found["model"]["correlation"] > found["relation_mean"]["correlation"] + 0.2
    assert found["model"]["mae"] < min(found["relation_mean"]["mae"], found["relation_median"]["mae"])

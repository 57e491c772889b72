"""Evaluation tasks: visible and known facts, unseen objects, categories, samples."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import gaifman
from gaifman.completion import Completion
from gaifman.errors import KnowledgeBaseError
from gaifman.evaluation.scorers import FallbackScorer, NetworkScorer
from gaifman.evaluation.tasks import (
    EvaluationData,
    EvaluationTask,
    build_tasks,
    sample_tasks,
)
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.kb.tables import Ints
from gaifman.predict import FallbackPredictor
from trained import FEW, towns, worker

LATE = [("likes", "p00", "p01"), ("likes", "p02", "p01")]


@cache
def completed() -> Completion:
    return gaifman.complete(towns().with_facts(LATE[:1]), **FEW)


def facts(*rows: tuple[str, ...]) -> KnowledgeBase:
    return KnowledgeBase.from_facts(rows)


def named(data: EvaluationData, rows: Ints) -> list[tuple[str, ...]]:
    return sorted(tuple(map(data.visible.object_name, row)) for row in rows.tolist())


TEST = facts(("works_in", "p00", "t3"), ("works_in", "newcomer", "t1"), ("moved", "p00", "t4", "newtown"))
KNOWN = facts(("works_in", "p00", "t4"), ("works_in", "another", "t4"), ("rules", "p00", "t1"))


# The data


def test_unseen_objects_are_candidates_without_facts() -> None:
    data = EvaluationData(towns(), TEST, [KNOWN])
    assert set(data.visible.objects) == {*towns().objects, "newcomer", "newtown", "another"}
    assert [*data.visible.facts()] == [*towns().facts()], "and nothing else is changed"
    assert [*data.visible.values()] == [*towns().values()]
    assert data.count_unseen(build_tasks(completed(), data)) == 2, "what only the known have is no test object"
    assert data.count_unseen(build_tasks(completed(), data, ["works_in"])) == 1


def test_without_unseen_objects_the_knowledge_base_is_unchanged() -> None:
    data = EvaluationData(towns(), facts(("works_in", "p00", "t3")))
    assert data.visible == towns()
    assert data.new_names == []
    assert data.hidden_count == 0


def test_a_test_fact_is_never_visible() -> None:
    known = ("works_in", "p01", "t1")
    data = EvaluationData(towns(), facts(known, ("works_in", "p00", "t3")))
    assert data.hidden_count == 1
    assert known not in data.visible
    assert data.visible == towns().without_facts([known])
    (task,) = build_tasks(completed(), data)
    assert ("p01", "t1") in named(data, task.known)
    assert ("p01", "t1") not in named(data, task.visible)


def test_facts_have_the_ids_of_visible_objects() -> None:
    data = EvaluationData(towns(), TEST, [KNOWN])
    assert named(data, data.facts_of(data.test, "works_in", 2)) == [("newcomer", "t1"), ("p00", "t3")]
    assert named(data, data.facts_of(KNOWN, "works_in", 2)) == [("another", "t4"), ("p00", "t4")]
    assert data.facts_of(KNOWN, "nobody", 3).shape == (0, 3)
    empty = facts(("a", "x", "y")).without_facts([("a", "x", "y")])
    assert EvaluationData(towns(), TEST, [empty]).facts_of(empty, "a", 2).shape == (0, 2)
    with pytest.raises(KnowledgeBaseError, match="works_in has 3 arguments in the model and 2 arguments in the facts"):
        data.facts_of(KNOWN, "works_in", 3)


# Tasks


def test_every_relation_with_test_facts_is_a_task() -> None:
    data = EvaluationData(towns().with_facts(LATE[:1]), TEST.with_facts(LATE[1:]), [KNOWN])
    found = {task.name: task for task in build_tasks(completed(), data)}
    assert [*found] == ["likes", "moved", "works_in"]
    assert {name: task.trained for name, task in found.items()} == {
        "likes": False,
        "moved": True,
        "works_in": True,
    }
    assert isinstance(found["likes"].scorer, FallbackScorer)
    assert isinstance(found["moved"].scorer, NetworkScorer)
    assert named(data, found["works_in"].tuples) == [("newcomer", "t1"), ("p00", "t3")]
    wanted = {fact.objects for fact in towns().facts("works_in")}
    assert set(named(data, found["works_in"].visible)) == wanted
    more = {("newcomer", "t1"), ("p00", "t3"), ("another", "t4"), ("p00", "t4")}
    assert named(data, found["works_in"].known) == sorted(wanted | more)


def test_a_query_task_has_the_answers_that_test_facts_add() -> None:
    """A fact of either relation adds answers, some of which are known."""
    model = gaifman.fit(towns(), "exists z. lives_in(x, z) & town_of(z, y)", **FEW)
    test = facts(("lives_in", "p00", "t1"), ("lives_in", "p01", "t3"), ("lives_in", "newcomer", "t2"))
    data = EvaluationData(towns(), test, [facts(("lives_in", "p05", "t1"))])
    (task,) = build_tasks(model, data)
    assert task.name == "∃z lives_in(x, z) ∧ town_of(z, y)"
    assert named(data, task.tuples) == [("newcomer", "c0"), ("p00", "c1")], "p01 lives in c1 already"
    assert ("p05", "c1") in named(data, task.known)
    assert ("p05", "c1") not in named(data, task.visible)
    assert len(task.visible) == 40


def test_an_atomic_query_task_has_the_test_facts() -> None:
    data = EvaluationData(towns(), TEST, [KNOWN])
    (task,) = build_tasks(worker(), data)
    (other,) = (each for each in build_tasks(completed(), data) if each.name == "works_in")
    for field in ("tuples", "visible", "known"):
        assert named(data, getattr(task, field)) == named(data, getattr(other, field))


def test_what_cannot_be_ranked_is_refused() -> None:
    data = EvaluationData(towns(), facts(("work_in", "p00", "t3"), ("lives_in", "p00", "t3")))
    with pytest.raises(KnowledgeBaseError, match="there is no model of work_in") as caught:
        build_tasks(completed(), data)
    assert "works_in" in caught.value.suggestions
    assert "list the relations" in caught.value.hint
    assert [task.name for task in build_tasks(completed(), data, ["lives_in"])] == ["lives_in"]
    with pytest.raises(KnowledgeBaseError, match="relations is a list"):
        build_tasks(completed(), data, "lives_in")
    with pytest.raises(KnowledgeBaseError, match="no test facts to rank"):
        build_tasks(completed(), data, ["works_in"])
    with pytest.raises(KnowledgeBaseError, match="no test facts to rank"):
        build_tasks(worker(), data)
    with pytest.raises(KnowledgeBaseError, match="this is the model of one query"):
        build_tasks(worker(), data, ["lives_in"])
    with pytest.raises(KnowledgeBaseError, match="draws must be an integer"):
        build_tasks(worker(), data, draws=[0])
    with pytest.raises(KnowledgeBaseError, match="lives_in has 2 arguments in the model and 1 argument in the facts"):
        build_tasks(completed(), EvaluationData(towns(), facts(("lives_in", "p00"))))


def test_the_fallback_ranks_every_candidate() -> None:
    data = EvaluationData(towns().with_facts(LATE[:1]), facts(LATE[1]))
    (task,) = build_tasks(completed(), data)
    objects = [*data.visible.objects]
    (scores,) = task.scorer.scores(task.tuples, 0)
    pairs = [(name, "p01") for name in objects]
    wanted = completed().with_kb(data.visible).probabilities("likes", pairs, constraints=False).values
    assert np.array_equal(scores, wanted[None])
    assert scores[0, objects.index("p00")] == 0.5 / 3, "its own fact does not count for it"
    assert np.array_equal(task.scorer.tuple_scores(task.tuples)[0], scores[:, objects.index("p02")])


def test_tuple_scores_equal_candidate_scores() -> None:
    data = EvaluationData(towns(), TEST, [KNOWN])
    for task in build_tasks(completed(), data):
        for place in range(task.tuples.shape[1]):
            among = task.scorer.scores(task.tuples, place)[:, np.arange(len(task)), task.tuples[:, place]]
            assert np.array_equal(among, task.scorer.tuple_scores(task.tuples))
        assert task.scorer.tuple_scores(task.tuples[:0]).shape == (1, 0)


# Categories


def fallback() -> FallbackScorer:
    predictor = completed().predictor("likes")
    assert isinstance(predictor, FallbackPredictor)
    return FallbackScorer(predictor, (1,))


def category(*pairs: tuple[int, ...], width: int = 2) -> str:
    rows = np.array(pairs, np.int32).reshape(-1, width)
    return EvaluationTask("r", fallback(), rows[:1], rows, rows).category


@pytest.mark.parametrize(
    ("pairs", "wanted"),
    [
        ([(0, 1), (2, 3), (4, 5)], "1-1"),
        ([(0, 1), (0, 2), (0, 3)], "1-n"),
        ([(1, 0), (2, 0), (3, 0)], "n-1"),
        ([(0, 0), (0, 1), (1, 0), (1, 1)], "n-n"),
        ([(0, 1), (0, 2), (3, 4)], "1-n"),
        ([(0, 1), (0, 2), (3, 4), (5, 6)], "1-1"),
    ],
)
def test_categories_by_the_usual_threshold(pairs: list[tuple[int, int]], wanted: str) -> None:
    """The last but one has exactly 1.5 per object, which is many; the last has 4/3."""
    assert category(*pairs) == wanted


def test_other_categories() -> None:
    assert category((0,), (1,), width=1) == category((0, 1, 2), width=3) == "other"
    rows = np.zeros((1, 2), np.int32)
    assert EvaluationTask("r", fallback(), rows, rows[:0], rows).category == "none"


# Samples


def test_a_sample_depends_on_the_facts_and_not_on_their_order() -> None:
    test = facts(
        *(("works_in", f"p{i:02d}", "t3") for i in range(20)), *(("citizen", f"p{i:02d}", "t3") for i in range(9))
    )
    data = EvaluationData(towns(), test)
    whole = build_tasks(completed(), data)
    ten = sample_tasks(whole, 10, 0)
    assert sum(map(len, ten)) == 10
    fewer = {(s.name, *row) for s in sample_tasks(whole, 6, 0) for row in named(data, s.tuples)}
    more = {(s.name, *row) for s in ten for row in named(data, s.tuples)}
    assert fewer < more
    assert {(s.name, *row) for s in sample_tasks(whole[::-1], 10, 0) for row in named(data, s.tuples)} == more
    assert {(s.name, *row) for s in sample_tasks(whole, 10, 1) for row in named(data, s.tuples)} != more
    for task, same in zip(whole, sample_tasks(whole, 999, 0), strict=True):
        assert np.array_equal(task.tuples, same.tuples)
    (one,) = sample_tasks(whole, 1, 0)
    assert len(one) == 1, "relations without a chosen fact are left out"
    assert len(one.known) >= 20, "but what is known stays known"

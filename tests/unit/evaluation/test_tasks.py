"""What an evaluation ranks: what is visible, what is known, unseen objects, categories and samples."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import gaifman
from gaifman.completion import Completion
from gaifman.errors import KnowledgeBaseError
from gaifman.evaluation.tasks import (
    EvaluationData,
    EvaluationTask,
    build_tasks,
    sample_tasks,
)
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.kb.tables import Ints
from gaifman.ranking.scorers import FallbackScorer, ModelScorer
from trained import FEW, towns, worker

LATE = [("likes", "p00", "p01"), ("likes", "p02", "p01")]


@cache
def completed() -> Completion:
    return gaifman.complete(towns().with_facts(LATE[:1]), **FEW)


def facts(*rows: tuple[str, ...]) -> KnowledgeBase:
    return KnowledgeBase.from_facts(rows)


def named(ground: EvaluationData, rows: Ints) -> list[tuple[str, ...]]:
    return sorted(tuple(map(ground.visible.object_name, row)) for row in rows.tolist())


TEST = facts(("works_in", "p00", "t3"), ("works_in", "newcomer", "t1"), ("moved", "p00", "t4", "newtown"))
KNOWN = facts(("works_in", "p00", "t4"), ("works_in", "another", "t4"), ("rules", "p00", "t1"))


# The ground


def test_unseen_objects_are_candidates_without_facts() -> None:
    ground = EvaluationData(towns(), TEST, [KNOWN])
    assert set(ground.visible.objects) == {*towns().objects, "newcomer", "newtown", "another"}
    assert [*ground.visible.facts()] == [*towns().facts()], "and nothing else is changed"
    assert [*ground.visible.values()] == [*towns().values()]
    assert ground.count_unseen(build_tasks(completed(), ground)) == 2, "what only the known have is no test object"
    assert ground.count_unseen(build_tasks(completed(), ground, ["works_in"])) == 1


def test_without_unseen_objects_the_knowledge_base_is_taken_as_it_is() -> None:
    ground = EvaluationData(towns(), facts(("works_in", "p00", "t3")))
    assert ground.visible == towns()
    assert ground.new_names == []
    assert ground.hidden_count == 0


def test_a_test_fact_is_never_visible() -> None:
    known = ("works_in", "p01", "t1")
    ground = EvaluationData(towns(), facts(known, ("works_in", "p00", "t3")))
    assert ground.hidden_count == 1
    assert known not in ground.visible
    assert ground.visible == towns().without_facts([known])
    (subject,) = build_tasks(completed(), ground)
    assert ("p01", "t1") in named(ground, subject.known)
    assert ("p01", "t1") not in named(ground, subject.visible)


def test_rows_are_numbered_as_visible_objects() -> None:
    ground = EvaluationData(towns(), TEST, [KNOWN])
    assert named(ground, ground.facts_of(ground.test, "works_in", 2)) == [("newcomer", "t1"), ("p00", "t3")]
    assert named(ground, ground.facts_of(KNOWN, "works_in", 2)) == [("another", "t4"), ("p00", "t4")]
    assert ground.facts_of(KNOWN, "nobody", 3).shape == (0, 3)
    empty = facts(("a", "x", "y")).without_facts([("a", "x", "y")])
    assert EvaluationData(towns(), TEST, [empty]).facts_of(empty, "a", 2).shape == (0, 2)
    with pytest.raises(KnowledgeBaseError, match="works_in has 3 arguments in the model and 2 arguments in the facts"):
        ground.facts_of(KNOWN, "works_in", 3)


# Subjects


def test_every_relation_with_test_facts_is_a_subject() -> None:
    ground = EvaluationData(towns().with_facts(LATE[:1]), TEST.with_facts(LATE[1:]), [KNOWN])
    found = {subject.name: subject for subject in build_tasks(completed(), ground)}
    assert [*found] == ["likes", "moved", "works_in"]
    assert {name: subject.trained for name, subject in found.items()} == {
        "likes": False,
        "moved": True,
        "works_in": True,
    }
    assert isinstance(found["likes"].scorer, FallbackScorer)
    assert isinstance(found["moved"].scorer, ModelScorer)
    assert named(ground, found["works_in"].tuples) == [("newcomer", "t1"), ("p00", "t3")]
    wanted = {fact.objects for fact in towns().facts("works_in")}
    assert set(named(ground, found["works_in"].visible)) == wanted
    more = {("newcomer", "t1"), ("p00", "t3"), ("another", "t4"), ("p00", "t4")}
    assert named(ground, found["works_in"].known) == sorted(wanted | more)


def test_the_answers_that_test_facts_make_are_judged_of_a_query() -> None:
    """Somebody lives in a town of the country: a fact of either relation makes answers, some of which are known."""
    model = gaifman.fit(towns(), "exists z. lives_in(x, z) & town_of(z, y)", **FEW)
    test = facts(("lives_in", "p00", "t1"), ("lives_in", "p01", "t3"), ("lives_in", "newcomer", "t2"))
    ground = EvaluationData(towns(), test, [facts(("lives_in", "p05", "t1"))])
    (subject,) = build_tasks(model, ground)
    assert subject.name == "∃z lives_in(x, z) ∧ town_of(z, y)"
    assert named(ground, subject.tuples) == [("newcomer", "c0"), ("p00", "c1")], "p01 lives in c1 already"
    assert ("p05", "c1") in named(ground, subject.known)
    assert ("p05", "c1") not in named(ground, subject.visible)
    assert len(subject.visible) == 40


def test_of_a_query_that_is_a_fact_the_facts_are_judged() -> None:
    ground = EvaluationData(towns(), TEST, [KNOWN])
    (subject,) = build_tasks(worker(), ground)
    (other,) = (each for each in build_tasks(completed(), ground) if each.name == "works_in")
    for field in ("tuples", "visible", "known"):
        assert named(ground, getattr(subject, field)) == named(ground, getattr(other, field))


def test_what_cannot_be_ranked_is_said() -> None:
    ground = EvaluationData(towns(), facts(("work_in", "p00", "t3"), ("lives_in", "p00", "t3")))
    with pytest.raises(KnowledgeBaseError, match="there is no model of work_in") as caught:
        build_tasks(completed(), ground)
    assert "works_in" in caught.value.suggestions
    assert "list the relations" in caught.value.hint
    assert [subject.name for subject in build_tasks(completed(), ground, ["lives_in"])] == ["lives_in"]
    with pytest.raises(KnowledgeBaseError, match="relations is a list"):
        build_tasks(completed(), ground, "lives_in")
    with pytest.raises(KnowledgeBaseError, match="no test facts to rank"):
        build_tasks(completed(), ground, ["works_in"])
    with pytest.raises(KnowledgeBaseError, match="no test facts to rank"):
        build_tasks(worker(), ground)
    with pytest.raises(KnowledgeBaseError, match="this is the model of one query"):
        build_tasks(worker(), ground, ["lives_in"])
    with pytest.raises(KnowledgeBaseError, match="draws must be an integer"):
        build_tasks(worker(), ground, draws=[0])
    with pytest.raises(KnowledgeBaseError, match="lives_in has 2 arguments in the model and 1 argument in the facts"):
        build_tasks(completed(), EvaluationData(towns(), facts(("lives_in", "p00"))))


def test_the_fallback_ranks_every_candidate() -> None:
    ground = EvaluationData(towns().with_facts(LATE[:1]), facts(LATE[1]))
    (subject,) = build_tasks(completed(), ground)
    objects = [*ground.visible.objects]
    (scores,) = subject.scorer.scores(subject.tuples, 0)
    wanted = completed().with_kb(ground.visible).probabilities("likes", [(name, "p01") for name in objects]).values
    assert np.array_equal(scores, wanted[None])
    assert scores[0, objects.index("p00")] == 0.5 / 3, "its own fact does not count for it"
    assert np.array_equal(subject.scorer.tuple_scores(subject.tuples)[0], scores[:, objects.index("p02")])


def test_a_tuple_is_judged_as_among_all_candidates() -> None:
    ground = EvaluationData(towns(), TEST, [KNOWN])
    for subject in build_tasks(completed(), ground):
        for place in range(subject.tuples.shape[1]):
            among = subject.scorer.scores(subject.tuples, place)[:, np.arange(len(subject)), subject.tuples[:, place]]
            assert np.array_equal(among, subject.scorer.tuple_scores(subject.tuples))
        assert subject.scorer.tuple_scores(subject.tuples[:0]).shape == (1, 0)


# Categories


def category(*pairs: tuple[int, ...], width: int = 2) -> str:
    rows = np.array(pairs, np.int32).reshape(-1, width)
    return EvaluationTask("r", FallbackScorer(completed().predictor("likes"), (1,)), rows[:1], rows, rows).category


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
    """The last but one has exactly 1.5 for each, which is many; the last 4/3."""
    assert category(*pairs) == wanted


def test_other_categories() -> None:
    assert category((0,), (1,), width=1) == category((0, 1, 2), width=3) == "other"
    rows = np.zeros((1, 2), np.int32)
    assert (
        EvaluationTask("r", FallbackScorer(completed().predictor("likes"), (1,)), rows, rows[:0], rows).category
        == "none"
    )


# Samples


def test_a_sample_hangs_on_the_facts_and_not_on_their_order() -> None:
    test = facts(
        *(("works_in", f"p{i:02d}", "t3") for i in range(20)), *(("citizen", f"p{i:02d}", "t3") for i in range(9))
    )
    ground = EvaluationData(towns(), test)
    whole = build_tasks(completed(), ground)
    ten = sample_tasks(whole, 10, 0)
    assert sum(map(len, ten)) == 10
    fewer = {(s.name, *row) for s in sample_tasks(whole, 6, 0) for row in named(ground, s.tuples)}
    more = {(s.name, *row) for s in ten for row in named(ground, s.tuples)}
    assert fewer < more
    assert {(s.name, *row) for s in sample_tasks(whole[::-1], 10, 0) for row in named(ground, s.tuples)} == more
    assert {(s.name, *row) for s in sample_tasks(whole, 10, 1) for row in named(ground, s.tuples)} != more
    for subject, same in zip(whole, sample_tasks(whole, 999, 0), strict=True):
        assert np.array_equal(subject.tuples, same.tuples)
    (one,) = sample_tasks(whole, 1, 0)
    assert len(one) == 1, "relations without a chosen fact are left out"
    assert len(one.known) >= 20, "but what is known stays known"

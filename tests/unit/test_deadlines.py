"""Deadlines."""

from __future__ import annotations

import pytest

import gaifman
from gaifman.config import MIN_SECONDS, Budget, Deadline, current_deadline, no_deadline
from gaifman.errors import GaifmanError, StoppedError
from gaifman.logic.ast import relation_query
from gaifman.ranking.candidates import RankingOptions, atom_pattern, select_candidates
from gaifman.sampling.hiding import hide
from http_client import ENDLESS
from processes import wait_until
from trained import demo, little, neighbour


def past() -> Deadline:
    """One that is over."""
    deadline = Deadline(1e-9)
    wait_until(lambda: not deadline.remaining)
    return deadline


def test_without_seconds_there_is_no_time_limit() -> None:
    assert no_deadline().remaining is None
    no_deadline().check()
    assert no_deadline().limit_budget() == Budget()


def test_the_remaining_time_shrinks_and_limits_a_query() -> None:
    deadline = Deadline(100)
    first, second = deadline.remaining or 0, deadline.remaining or 0
    assert 0 < second <= first <= 100
    inside = deadline.limit_budget(Budget(rows=3))
    assert inside.rows == 3
    assert inside.seconds is not None
    assert MIN_SECONDS <= inside.seconds <= 100


def test_check_raises_after_the_deadline() -> None:
    for asked in (Deadline.check, Deadline.limit_budget):
        with pytest.raises(StoppedError, match="stopped after 1e-09 seconds"):
            asked(past())


def test_a_deadline_can_be_cancelled() -> None:
    deadline = Deadline(100)
    deadline.cancel()
    with pytest.raises(StoppedError, match="was cancelled"):
        deadline.check()


def test_cancelling_twice_is_allowed() -> None:
    deadline = Deadline()
    for _ in range(2):
        deadline.cancel()
    assert deadline.cancelled.done()


def test_a_query_within_a_deadline_stops_with_it() -> None:
    outer, inner = Deadline(), Deadline()
    assert current_deadline() is None
    with outer.activate():
        with inner.activate():
            assert current_deadline() is inner
        assert current_deadline() is outer
        outer.cancel()
        with pytest.raises(StoppedError, match="the query was cancelled"):
            gaifman.count(demo(), str(ENDLESS["query"]))
    assert current_deadline() is None
    assert gaifman.count(demo(), "borders('portugal', y)") == 1


@pytest.mark.parametrize("seconds", [0, -1, float("nan")])
def test_invalid_time_limits_are_refused(seconds: float) -> None:
    with pytest.raises(GaifmanError, match="above 0"):
        Deadline(seconds)


class Counting(Deadline):
    """Counts how often it is asked, and ends the work when it has been asked so often."""

    def __init__(self, last: int) -> None:
        super().__init__()
        self.asked, self.last = 0, last

    def check(self) -> None:
        self.asked += 1
        if self.asked == self.last:
            self.cancel()
        super().check()


def test_a_ranking_checks_the_deadline_between_blocks() -> None:
    deadline = Counting(3)
    with pytest.raises(StoppedError):
        neighbour().rank(None, {}, RankingOptions(deadline=deadline))
    assert deadline.asked == 3


def test_an_explanation_checks_the_deadline_between_its_steps() -> None:
    model, whole = little(), Counting(-1)
    found = model.explain("p00", "p01", deadline=whole)
    assert found.as_dict() == model.explain("p00", "p01").as_dict()
    assert whole.asked > found.estimate.draws  # at least before each draw's structure is made
    for last in range(1, whole.asked + 1):
        deadline = Counting(last)
        with pytest.raises(StoppedError):
            model.explain("p00", "p01", deadline=deadline)
        assert deadline.asked == last


def test_a_deadline_that_is_not_reached_changes_nothing() -> None:
    model = little()
    one, other = (
        model.answers(x="p00", top=5),
        model.rank(None, {"x": "p00"}, RankingOptions(5, deadline=Deadline(100))),
    )
    assert one.as_dict() == other.as_dict()


def test_the_search_for_near_candidates_checks_the_deadline() -> None:
    deadline = Deadline(100)
    deadline.cancel()
    _, pattern = atom_pattern("borders(x, y)", demo(), ["borders"])
    with pytest.raises(StoppedError):
        select_candidates(
            demo(),
            relation_query("borders", 2),
            pattern,
            demo().tuples("borders"),
            RankingOptions(candidates="near", deadline=deadline),
        )


def test_the_search_for_hidden_facts_checks_the_deadline() -> None:
    query = "exists z, w. borders(x, z) & borders(z, w) & borders(w, y)"
    answers = gaifman.query(demo(), query, budget=Budget(rows=2_000)).tuples
    with pytest.raises(StoppedError):
        hide(demo(), query, answers, budget=Budget(seconds=0.05))

"""Ranks, ties, the filter and metrics, compared with slow independent definitions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from gaifman.errors import KnowledgeBaseError
from gaifman.kb.tables import Floats, Ints
from gaifman.models.calibration import auc
from gaifman.ranking import ranks as measures
from gaifman.ranking.ranks import (
    TIES,
    CandidateFilter,
    ExcludedCandidates,
    Ranks,
    average_precision,
    compute_metrics,
    compute_ranks,
)
from reference_ranks import slow_ranks

FEW = st.sampled_from([0.0, 0.25, 0.5, 0.5000000000000001, 1.0, math.nan])
"""Scores that are often tied, differ by one bit, or are NaN."""


@st.composite
def cases(draw: st.DrawFn) -> tuple[Floats, list[int], list[set[int]]]:
    rows, width = draw(st.integers(0, 5)), draw(st.integers(1, 8))
    scores = draw(arrays(np.float64, (rows, width), elements=FEW))
    right = [draw(st.integers(0, width - 1)) for _ in range(rows)]
    left_out = [draw(st.sets(st.integers(0, width - 1))) for _ in range(rows)]
    return scores, right, left_out


def as_filter(left_out: list[set[int]]) -> ExcludedCandidates:
    pairs = [(row, obj) for row, objects in enumerate(left_out) for obj in sorted(objects)]
    return ExcludedCandidates(*np.array(pairs, np.int64).reshape(-1, 2).T)


@given(cases())
def test_ranks_by_their_definition(case: tuple[Floats, list[int], list[set[int]]]) -> None:
    scores, right, left_out = case
    found = compute_ranks(scores, np.array(right, np.int64), as_filter(left_out))
    wanted = [slow_ranks(row, own, out) for row, own, out in zip(scores.tolist(), right, left_out, strict=True)]
    for number, ties in enumerate(TIES):
        assert found.with_ties(ties).tolist() == [row[number] for row in wanted]
        assert found.with_ties(ties).dtype == np.float64
    for row, own, out in zip(range(len(right)), right, left_out, strict=True):
        assert found.candidates[row] == scores.shape[1] - len(out - {own})


@given(cases())
def test_without_a_filter_nothing_is_left_out(case: tuple[Floats, list[int], list[set[int]]]) -> None:
    scores, right, _ = case
    plain, nothing = (
        compute_ranks(scores, np.array(right, np.int64)),
        compute_ranks(scores, np.array(right, np.int64), as_filter([])),
    )
    for ties in TIES:
        assert plain.with_ties(ties).tolist() == nothing.with_ties(ties).tolist()
    assert (plain.candidates == scores.shape[1]).all()


@given(cases())
def test_the_filter_never_makes_a_rank_worse(case: tuple[Floats, list[int], list[set[int]]]) -> None:
    scores, right, left_out = case
    own = np.array(right, np.int64)
    raw, filtered = compute_ranks(scores, own), compute_ranks(scores, own, as_filter(left_out))
    for ties in TIES:
        assert (filtered.with_ties(ties) <= raw.with_ties(ties)).all()
    assert (filtered.optimistic <= filtered.realistic).all()
    assert (filtered.realistic <= filtered.pessimistic).all()


def test_the_tie_rule() -> None:
    """A constant score is always first, as good as guessing, or always last."""
    found = compute_ranks(np.full((1, 9), 0.5), np.array([3]))
    assert (found.optimistic[0], found.realistic[0], found.pessimistic[0]) == (1, 5, 9)


def test_the_realistic_rank_is_the_mean_over_random_orders() -> None:
    rng = np.random.default_rng(0)
    scores = rng.integers(0, 4, 30) / 4
    drawn = []
    for _ in range(4_000):
        order = np.lexsort([rng.random(30), -scores])
        drawn.append(int(np.flatnonzero(order == 7)[0]) + 1)
    spread = np.std(drawn) / np.sqrt(len(drawn))
    assert abs(np.mean(drawn) - compute_ranks(scores[None], np.array([7])).realistic[0]) < 5 * spread


def test_scores_that_differ_by_one_bit_are_no_tie() -> None:
    low, high = 0.3, np.nextafter(0.3, 1)
    assert compute_ranks(np.array([[low, high]]), np.array([0])).optimistic[0] == 2
    assert compute_ranks(np.array([[low, high]]), np.array([1])).pessimistic[0] == 1


def test_nan_is_worst() -> None:
    scores = np.array([[np.nan, 0.0, -np.inf, np.nan]])
    assert compute_ranks(scores, np.array([0])).optimistic[0] == 3
    assert compute_ranks(scores, np.array([0])).pessimistic[0] == 4
    assert compute_ranks(scores, np.array([2])).pessimistic[0] == 2


def test_unknown_ties_are_refused_with_suggestions() -> None:
    with pytest.raises(KnowledgeBaseError, match="ties must be one of optimistic, realistic, pessimistic") as caught:
        compute_ranks(np.ones((1, 1)), np.array([0])).with_ties("realist")
    assert "realistic" in caught.value.suggestions


def test_ranks_of_several_blocks_are_concatenated() -> None:
    one, two = compute_ranks(np.eye(3), np.arange(3)), compute_ranks(1 - np.eye(2), np.arange(2))
    assert Ranks.concatenate([one, two]).realistic.tolist() == [1, 1, 1, 2, 2]
    assert len(Ranks.concatenate([])) == 0


# The filter


@given(
    st.integers(1, 3).flatmap(
        lambda width: st.tuples(
            st.integers(0, width - 1),
            arrays(np.int32, st.tuples(st.integers(0, 12), st.just(width)), elements=st.integers(0, 3)),
            arrays(np.int32, st.tuples(st.integers(0, 5), st.just(width)), elements=st.integers(0, 3)),
        )
    )
)
def test_the_filter_by_its_definition(case: tuple[int, Ints, Ints]) -> None:
    position, known, tuples = case
    found = CandidateFilter(known, tuples, position).excluded(np.arange(len(tuples)))
    rows = set(map(tuple, known.tolist()))
    wanted = []
    for number, row in enumerate(tuples.tolist()):
        for obj in range(4):
            other = (*row[:position], obj, *row[position + 1 :])
            if other in rows and obj != row[position]:
                wanted.append((number, obj))
    assert list(zip(found.rows.tolist(), found.objects.tolist(), strict=True)) == wanted
    turned = CandidateFilter(known, tuples, position).excluded(np.arange(len(tuples))[::-1])
    again = sorted((len(tuples) - 1 - row, obj) for row, obj in zip(turned.rows, turned.objects, strict=True))
    assert again == wanted, "of some of the rows, in any order"


def test_the_target_is_never_filtered() -> None:
    known = np.array([[0, 1], [0, 2]], np.int32)
    found = CandidateFilter(known, known, 1).excluded(np.arange(2))
    assert found.objects.tolist() == [2, 1]
    scores = np.array([[0.1, 0.2, 0.3]] * 2)
    assert compute_ranks(scores, known[:, 1], found).realistic.tolist() == [1, 1]
    itself = ExcludedCandidates(np.array([0]), np.array([1]))
    assert compute_ranks(scores[:1], np.array([1]), itself).candidates.tolist() == [3], "nor by a filter that names it"


# Metrics

some_ranks = st.lists(st.tuples(st.sampled_from([1.0, 1.5, 2.0, 3.0, 3.5, 10.0, 11.0]), st.integers(0, 4)), min_size=1)


@given(some_ranks)
def test_metrics_by_their_definition(case: list[tuple[float, int]]) -> None:
    values = [rank for rank, _ in case]
    found = compute_metrics(np.array(values), np.array([fact for _, fact in case]))
    assert (found.facts, found.ranks) == (len({fact for _, fact in case}), len(case))
    assert found.mean_rank.value == pytest.approx(sum(values) / len(values))
    assert found.mrr.value == pytest.approx(sum(1 / rank for rank in values) / len(values))
    for most in (1, 3, 10):
        assert found.hits[most].value == pytest.approx(sum(rank <= most for rank in values) / len(values))
    for figure in (found.mean_rank, found.mrr, *found.hits.values()):
        assert figure.low <= figure.high
    assert found.as_dict()["hits@3"]["value"] == round(found.hits[3].value, 6)
    assert list(found.as_dict()) == ["facts", "ranks", "mean_rank", "mrr", "hits@1", "hits@3", "hits@10"]


def test_intervals_cover_the_true_value_at_their_level(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measures, "BOOTSTRAP_RESAMPLES", 200)
    rng, held = np.random.default_rng(1), 0
    for seed in range(200):
        found = compute_metrics(np.where(rng.random(150) < 0.6, 1.0, 5.0), np.arange(150), seed)
        held += found.hits[1].low <= 0.6 <= found.hits[1].high
    assert 0.88 <= held / 200 <= 0.99


def test_ranks_of_one_fact_are_not_taken_for_independent() -> None:
    """Repeating the ranks of each fact ten times must not narrow the interval."""
    once = np.where(np.arange(50) % 3 == 0, 1.0, 7.0)
    one, ten = compute_metrics(once, np.arange(50)), compute_metrics(np.repeat(once, 10), np.repeat(np.arange(50), 10))
    assert ten.mean_rank == one.mean_rank
    naive = compute_metrics(np.repeat(once, 10), np.arange(500)).mean_rank
    assert naive.high - naive.low < 0.5 * (one.mean_rank.high - one.mean_rank.low)


def test_intervals_depend_on_the_seed_and_not_on_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(3).integers(1, 20, 60).astype(float)
    whole, other = compute_metrics(values, np.arange(60), 1), compute_metrics(values, np.arange(60), 2)
    assert whole.mrr.low != other.mrr.low
    monkeypatch.setattr(measures, "MAX_CELLS", 100)
    assert compute_metrics(values, np.arange(60), 1) == whole


def test_no_ranks_no_metrics() -> None:
    with pytest.raises(KnowledgeBaseError, match="no ranks"):
        compute_metrics(np.zeros(0), np.zeros(0, np.int64))


# Average precision


def slow_precision(scores: list[float], targets: list[float]) -> float:
    """For each positive: the share of positives among tuples that score at least as much."""
    at_answers = []
    for score, target in zip(scores, targets, strict=True):
        if target:
            above = [other for mark, other in zip(scores, targets, strict=True) if mark >= score]
            at_answers.append(sum(above) / len(above))
    return sum(at_answers) / len(at_answers)


@given(st.lists(st.tuples(st.sampled_from([0.0, 0.2, 0.4, 0.9, -math.inf]), st.sampled_from([0.0, 1.0])), min_size=1))
def test_average_precision_by_its_definition(case: list[tuple[float, float]]) -> None:
    scores, targets = (list(column) for column in zip(*case, strict=True))
    found = average_precision(np.array(scores), np.array(targets))
    if any(targets):
        assert found == pytest.approx(slow_precision(scores, targets))
    else:
        assert found is None


def test_the_extremes_of_average_precision() -> None:
    scores, targets = np.arange(10) / 10, (np.arange(10) >= 5).astype(float)
    assert average_precision(scores, targets) == auc(scores, targets) == 1.0
    assert average_precision(np.zeros(10), targets) == 0.5
    assert average_precision(np.zeros(0), np.zeros(0)) is None

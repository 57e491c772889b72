"""Odds: probabilities that hold for candidates, few parameters that share strength, shares of missing facts."""

from __future__ import annotations

import numpy as np
import pytest

from gaifman.errors import InputError, KnowledgeBaseError
from gaifman.kb.tables import Floats
from gaifman.listwise.odds import (
    MISSING_SHARES,
    STRAIGHT,
    Odds,
    OddsTable,
    Proposals,
    fit_odds,
    sample_by_score,
    sample_questions,
)
from gaifman.sampling.rng import make_key

TRUE = Odds(1.0, np.array([0.8, 0.3, -2.0, 0.0]))
MISSING = 0.1


def proposals(count: int, seed: int = 0, base: float = 1.0) -> tuple[Proposals, Floats]:
    """Candidates, of which those with the log-odds of `TRUE` are missing facts, and as many facts of the same kind.

    The facts stand for all facts, of which a tenth is missing. Beside the proposals are the true probabilities.
    """
    rng = np.random.default_rng(seed)
    evidence = np.column_stack([-rng.exponential(2, (count, 2)), np.log1p(rng.integers(0, 3, (count, 2)))])
    p = Odds(base, TRUE.weights).probabilities(evidence)
    hidden = evidence[rng.random(count) < p]
    facts = np.full(len(hidden), (1 - MISSING) / MISSING)
    both = np.concatenate([evidence, hidden])
    return Proposals(both, np.append(np.zeros(count), facts), np.append(np.ones(count), np.zeros(len(hidden)))), p


def test_the_odds_are_found_again() -> None:
    found = fit_odds(proposals(20_000)[0]).at(MISSING)
    assert found.base == pytest.approx(1.0, abs=0.15)
    assert found.weights == pytest.approx([0.8, 0.3, -2.0, 0.0], abs=0.15)


def test_as_many_candidates_are_true_as_facts_are_missing() -> None:
    sample, _ = proposals(4_000)
    table = fit_odds(sample)
    for share in MISSING_SHARES[:3]:  # more facts than candidates at some evidence: not all can be among them
        p = table.at(share).probabilities(sample.evidence)
        missing = share / (1 - share) * sample.facts.sum()
        assert float((sample.candidates * p).sum()) == pytest.approx(missing, rel=0.02)


def test_each_half_stands_for_all() -> None:
    sample, _ = proposals(3_000)
    for rest, own in sample.halves():
        assert len(rest) + len(own) == len(sample)
        assert rest.candidates.sum() == pytest.approx(3_000, rel=0.1)
        p = fit_odds(rest).at(MISSING).probabilities(own.evidence)
        assert float((own.candidates * p).sum()) == pytest.approx(float(own.facts.sum()) * MISSING / 0.9, rel=0.2)


def test_a_small_relation_stays_near_the_others_and_a_large_one_less_so() -> None:
    pooled = fit_odds(proposals(10_000)[0])
    usual = pooled.at(MISSING)
    small, large = (fit_odds(proposals(count, 1, base=4.0)[0], pooled).at(MISSING) for count in (6, 5_000))
    assert abs(small.weights - usual.weights).max() < 0.1
    assert usual.base < small.base < large.base


def test_more_share_never_means_less_probable() -> None:
    sample, _ = proposals(500)
    against = Proposals(-sample.evidence, sample.facts, sample.candidates)
    assert (fit_odds(against).at(MISSING).weights[:2] >= 0).all()


def test_without_a_held_out_fact_the_odds_are_those_of_all() -> None:
    pooled = fit_odds(proposals(1_000)[0])
    nothing = Proposals(np.zeros((3, 4)), np.zeros(3), np.ones(3))
    assert fit_odds(nothing, pooled).vectors.tolist() == pooled.vectors.tolist()
    assert 0 < fit_odds(nothing).at(MISSING).probabilities(np.zeros((1, 4)))[0] < 0.01


def test_the_more_is_missing_the_more_probable_is_a_candidate() -> None:
    table, evidence = fit_odds(proposals(2_000)[0]), np.full((1, 4), -0.5)
    shares = np.array([1e-4, 0.01, 0.02, 0.03, 0.05, 0.1, 0.15])
    found = np.concatenate([table.at(share).probabilities(evidence) for share in shares])
    assert (np.diff(found) > 0).all()
    assert table.at(0.1).vector.tolist() == pytest.approx(table.vectors[2].tolist())
    for wrong in (0.0, 1.0):
        with pytest.raises(KnowledgeBaseError, match="missing"):
            table.at(wrong)


def test_a_prior_shifts_the_odds() -> None:
    table = OddsTable(np.zeros((5, 5)), np.tile(STRAIGHT, (5, 1)), np.full(5, 0.1), np.zeros(2))
    assert table.at(0.1, 0.5).probabilities(np.zeros((1, 4)))[0] == pytest.approx(0.9)
    with pytest.raises(KnowledgeBaseError, match="prior"):
        table.at(0.1, 0.0)


def test_no_probability_is_above_its_bound() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        odds = Odds(float(rng.normal()), np.append(rng.exponential(size=3), rng.normal(size=3)))
        evidence = np.column_stack([-rng.exponential(2, (20, 3)), np.log1p(rng.integers(0, 4, (20, 3)))])
        evidence[:, 4] = evidence[0, 4]
        most = evidence[:, 3:].max(axis=1)
        bound = odds.bound(evidence[:, 1], float(evidence[0, 4]), most, 1)
        assert (odds.probabilities(evidence) <= bound + 1e-12).all()


def test_arrays_give_the_odds_back_and_wrong_ones_are_refused() -> None:
    table = fit_odds(proposals(2_000)[0])
    assert (table.cutoffs <= 0).all()
    again = OddsTable.from_arrays(table.arrays(), 2)
    assert again.vectors.tolist() == table.vectors.tolist()
    assert (again.priors.tolist(), again.cutoffs.tolist()) == (table.priors.tolist(), table.cutoffs.tolist())
    with pytest.raises(InputError, match="shape"):
        OddsTable.from_arrays(table.arrays(), 3)
    with pytest.raises(InputError, match="slopes"):
        OddsTable.from_arrays(table.arrays() | {"bends": table.bends * 0}, 2)
    with pytest.raises(InputError, match="below 1"):
        OddsTable.from_arrays(table.arrays() | {"odds": table.arrays()["odds"] * 0}, 2)


def test_nine_in_ten_held_out_facts_are_above_the_cutoffs() -> None:
    sample, _ = proposals(3_000)
    own, cutoffs = sample.evidence[sample.facts > 0, :2], fit_odds(sample).cutoffs
    assert ((own >= cutoffs).mean(axis=0) >= 0.9).all()
    assert ((own > cutoffs).mean(axis=0) <= 0.9 + 1 / len(own)).all()


def test_a_relation_with_few_held_out_facts_has_cutoffs_close_to_those_of_similar_ones() -> None:
    similar, few = proposals(3_000)[0], proposals(60, seed=2)[0]
    assert (few.cutoffs() > 0).all()
    alone = few.select(np.zeros(len(few), bool)).cutoffs(similar)
    np.testing.assert_allclose(alone, similar.cutoffs(), atol=0.2)
    low = Proposals(few.evidence - 3, few.facts, few.candidates)
    assert (low.cutoffs(similar) < alone).all()


def test_relations_with_several_answers_are_of_another_kind() -> None:
    evidence = np.array([[-1.0, -1.0, 0.0, 0.7], [-1.0, -2.0, 0.0, 1.1], [-1.0, -1.0, 0.7, 0.0]])
    assert Proposals(evidence, np.ones(3), np.zeros(3)).kind == (False, True)


def test_if_nothing_is_missing_unlikely_candidates_stay_improbable() -> None:
    """The facts that are said to be missing would be looked for among candidates that are unlike them."""
    sample, p = proposals(4_000, base=3.0)
    false = np.append(np.random.default_rng(1).random(len(p)) > p, np.zeros(len(sample) - len(p), bool))
    complete = sample.select(false | (sample.facts > 0))
    found = fit_odds(complete).at(MISSING).probabilities(complete.evidence)
    likely = Odds(3.0, TRUE.weights).probabilities(complete.evidence) > 0.5
    expected = float((complete.candidates * found)[~likely].sum())
    said = float((MISSING / (1 - MISSING) * complete.facts)[~likely].sum())
    assert expected < 1.5 * said
    assert float((complete.candidates * found).sum()) < 0.7 * MISSING / (1 - MISSING) * float(complete.facts.sum())


def test_a_sample_by_score_stands_for_all() -> None:
    rng = np.random.default_rng(0)
    scores = rng.normal(0, 3, 400)
    keys = rng.integers(0, 2**64, 2_000, dtype=np.uint64)
    totals = np.zeros(400)
    for key in keys:
        rows, stand_for = sample_by_score(scores, 5, key)
        assert len(set(rows.tolist())) == len(rows) <= 6
        totals[rows] += stand_for
    assert totals.sum() / len(keys) == pytest.approx(400, rel=0.05)
    for high in (scores > 1, scores > 4, scores < -1):
        assert totals[high].sum() / len(keys) == pytest.approx(high.sum(), rel=0.1)
    assert (totals > 0)[scores > 4].all()


def test_weights_stay_within_bounds_if_more_is_missing_than_there_are_likely_candidates() -> None:
    sample, _ = proposals(2_000)
    unlikely = Proposals(sample.evidence, sample.facts * 100, sample.candidates)
    for vector in fit_odds(unlikely).vectors:
        assert vector[0] <= 4
        assert (np.abs(vector[1:]) <= 6).all()


def test_a_bend_rises_and_can_be_undone() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        odds = Odds(0.0, np.ones(2), np.append(rng.normal(), rng.uniform(0.1, 3, 6)), rng.choice([0.7, 1.0]))
        linear = np.sort(rng.uniform(-9, 9, 50))
        bent = odds.bent(linear)
        assert (np.diff(bent) >= 0).all()
        inside = np.abs(bent) < 29
        p = odds.probabilities_of(linear[inside])
        undone = [odds.linear_of(value) for value in (np.log(p) - np.log1p(-p)).tolist()]
        usual = np.abs(bent[inside]) < 15
        np.testing.assert_allclose(np.array(undone)[usual], linear[inside][usual], atol=1e-4)
        assert (p <= odds.certainty).all()
    straight = Odds(0.0, np.ones(2), STRAIGHT)
    np.testing.assert_allclose(straight.bent(linear), linear)


def test_odds_bend_where_a_line_does_not_fit() -> None:
    """A symmetric relation: what is known the other way round is nearly always true, all else hardly ever."""
    rng = np.random.default_rng(0)
    shares = np.append(np.full(300, -0.05), -rng.uniform(2, 8, 40_000))
    true = rng.random(len(shares)) < np.append(np.full(300, 0.97), np.full(40_000, 0.002))
    evidence = np.column_stack([shares, shares, np.zeros((len(shares), 2))])
    facts = np.append(np.zeros(len(shares)), np.full(true.sum(), (1 - MISSING) / MISSING))
    sample = Proposals(
        np.concatenate([evidence, evidence[true]]), facts, np.append(np.ones(len(shares)), 0 * facts[len(shares) :])
    )
    odds = fit_odds(sample).at(MISSING)
    p = odds.probabilities(evidence)
    assert p[:300].mean() == pytest.approx(0.97, abs=0.05)
    assert p[300:].sum() == pytest.approx(true[300:].sum(), rel=0.5)
    straight = Odds(odds.base, odds.weights).probabilities(evidence)
    assert abs(straight[:300].mean() - 0.97) > abs(p[:300].mean() - 0.97)


def test_questions_about_seen_objects_are_half_of_the_sample() -> None:
    facts = np.array([[number, 0] for number in range(20)], np.int32)
    asked = np.array([[number, 0] for number in range(1_000)], np.int32)
    rows, stand_for = sample_questions(asked, facts, 1, 100, make_key(0, "test"))
    assert set(range(20)) <= set(rows.tolist())
    assert len(rows) == len(set(rows.tolist())) == 100
    assert stand_for.sum() == pytest.approx(1_000)
    assert stand_for[rows < 20].tolist() == [1.0] * 20
    few, weights = sample_questions(asked, facts, 1, 10, make_key(0, "test"))
    assert (few < 20).sum() == 5
    assert weights.sum() == pytest.approx(1_000)
    everything, weights = sample_questions(asked[:15], facts, 1, 100, make_key(0, "test"))
    assert sorted(everything.tolist()) == [*range(15)]
    assert set(weights.tolist()) == {1.0}

"""Scores split by object equal scores of whole pairs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gaifman.config import SamplingConfig
from gaifman.features.feature_sets import parse_phi
from gaifman.kb.gaifman_graph import GaifmanGraph
from gaifman.kb.tables import Floats, Ints
from gaifman.kernels.candidate_pairs import FILLED, FULL_PATH, SEPARATE, TOUCHING
from gaifman.models.calibration import mean_over_draws
from gaifman.models.mlp import MLP, Logistic
from gaifman.predict import NetworkPredictor
from gaifman.ranking import fast_scoring as splits
from gaifman.ranking.fast_scoring import ObjectFeatures, SplitScorer, _PairFeatureFinder, supports_fast_scoring
from gaifman.sampling.neighbourhoods import draw_neighbourhoods
from gaifman.training import Scorer, TrainingConfig
from split_cases import ready, town


def plainly(predictor: NetworkPredictor, scorer: Scorer, sampling: SamplingConfig, pair: Ints, position: int) -> Floats:
    count = len(predictor.graph)
    tuples = np.repeat(pair[None], count, axis=0)
    tuples[:, position] = np.arange(count)
    each = scorer.probabilities(predictor.evaluator.sample_and_evaluate(tuples, sampling)).reshape(count, -1)
    return mean_over_draws(each, predictor.draw_ratio)


WALKS = "∃x, y r0(s1, x) ∧ r1(x, y) ∧ r0(s2, y)\nr1(s1, 'o00')\nr0('o01', s2)\n∃x r0(x, s1) ∧ r2(x, s2)\nr2(s1, x)"
DUPLICATES = "each r. ∃x r(s1, x)\neach r. ∃y r(s1, y)\nr0(s1, x) ∧ r1(x, s2)\n∃x r1(x, s2) ∧ r0(s1, x)"
FIXED = "r1(s1, 'o00')\nr0('o01', s2)\neach r. r(s1, x)\neach r. r(x, s2)\neach r. ∃x r(x, s1) ∧ r2(x, s2)"


@settings(max_examples=60)
@given(
    seed=st.integers(0, 10_000),
    phi=st.sampled_from(["paper", "default", "universal-schema", WALKS, DUPLICATES, FIXED]),
    size=st.sampled_from([2, 3, 4, 5, 6, 20, None]),
    wide=st.booleans(),
    draws=st.integers(1, 3),
    kind=st.sampled_from(["sigmoid", "relu", "logistic"]),
    uncertain=st.booleans(),
)
def test_split_scores_equal_full_scores(
    seed: int, phi: str, size: int | None, wide: bool, draws: int, kind: str, uncertain: bool
) -> None:
    config = TrainingConfig(size=size, seed=seed)
    base = Logistic() if kind == "logistic" else MLP([9, 5], kind, batch_size=7)
    predictor, scorer = ready(town(seed, wide=wide, uncertain=uncertain), phi, config, base)
    object_features = ObjectFeatures(predictor.evaluator, config, draws)
    split = SplitScorer(object_features, scorer)
    for pair in (np.array([seed % 40, 3], np.int32), np.array([0, 41], np.int32)):
        for position in (0, 1):
            found = split.scores(pair[None], position)[0, 0]
            wanted = plainly(predictor, scorer, object_features.sampling, pair, position)
            assert np.abs(found - wanted).max() < 1e-5


def test_several_tuples_are_scored_as_each_alone() -> None:
    config = TrainingConfig(size=4)
    predictor, scorer = ready(town(2), "paper", config, MLP([6]))
    split = SplitScorer(ObjectFeatures(predictor.evaluator, config, 2), scorer)
    pairs = np.array([[0, 1], [5, 9], [5, 2]], np.int32)
    together = split.scores(pairs, 1)[0]
    for row, pair in enumerate(pairs):
        assert together[row].tolist() == split.scores(pair[None], 1)[0, 0].tolist()


@pytest.mark.parametrize("uncertain", [False, True])
@pytest.mark.parametrize("seed", range(2))
def test_scores_of_a_pair_are_distributed_as_by_algorithm_1(seed: int, uncertain: bool) -> None:
    """Candidates share draws and worlds; the scores of one pair are distributed as if it were sampled alone."""
    draws, config = 2_000, TrainingConfig(size=6, seed=seed)
    predictor, scorer = ready(town(seed, 60, 150, False, uncertain), "default", config, MLP([9, 5]))
    object_features = ObjectFeatures(predictor.evaluator, config, draws)
    many = np.flatnonzero(predictor.graph.degrees > 4)
    one = int(many[np.argmin(predictor.graph.degrees[many])])  # few are adjacent to it
    each, kinds = SplitScorer(object_features, scorer)._score_draws(one, 1)
    compared = 0
    for c in np.flatnonzero((kinds != FULL_PATH) & (predictor.graph.degrees > 3)).tolist():
        alone = replace(object_features.sampling, shared_order=False, purpose="by itself")
        scores = scorer.probabilities(predictor.evaluator.sample_and_evaluate([[one, c]], alone))
        values, which = np.unique(np.round(np.append(each[c], scores), 4), return_inverse=True)
        counts = np.stack([np.bincount(part, minlength=len(values)) for part in (which[:draws], which[draws:])])
        often = counts.sum(axis=0) >= 20
        counts = np.concatenate([counts[:, often], counts[:, ~often].sum(axis=1, keepdims=True)], axis=1)
        difference = ((counts[0] - counts[1]) ** 2 / np.maximum(counts.sum(axis=0), 1)).sum()
        degrees = max(1, int((counts.sum(axis=0) > 0).sum()) - 1)
        assert difference < degrees + 5 * np.sqrt(2 * degrees) + 10, "far out in the tail of chi-square"
        compared += degrees > 3
    assert compared >= 3


def adjacent(graph: GaifmanGraph, one: int) -> set[int]:
    return set(graph.neighbour_ids(one).tolist())


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("size", [4, 5, 10, None])
def test_kinds_of_pairs_equal_the_definition(seed: int, size: int | None) -> None:
    config = TrainingConfig(size=size, seed=seed)
    predictor, _ = ready(town(seed, 60, 150, wide=False), "paper", config, MLP([6]))
    graph, object_features = predictor.graph, ObjectFeatures(predictor.evaluator, config, 2)
    one, place, number = int(np.random.default_rng(seed).integers(60)), seed % 2, seed % 2
    kinds, _ = _PairFeatureFinder(object_features, np.arange(len(object_features.feature_sides))).find(
        one, 1 - place, number
    )
    expected = []
    for c in range(len(graph)):
        pair = np.array([[one, c]] if place == 0 else [[c, one]], np.int32)
        drawn = set(draw_neighbourhoods(graph, pair, object_features.sampling).members_of(0, number).tolist()) - {
            one,
            c,
        }
        if c == one:
            expected.append(FULL_PATH)
            continue
        share = [first(object_features, 1 - place, c, one, number), first(object_features, place, one, c, number)]
        assert share[0] | share[1] <= drawn, "what is filled up comes besides"
        near = c in adjacent(graph, one)
        touch = near or share[0] & adjacent(graph, one) or share[1] & adjacent(graph, c)
        odd = size is not None and size % 2
        whole = size is None or graph.degrees[one] + graph.degrees[c] <= size
        more = odd or (share[0] & share[1] and not whole)
        expected.append(FILLED if more else TOUCHING if touch else SEPARATE)
        assert expected[-1] == FILLED or drawn == share[0] | share[1]
    assert kinds.tolist() == expected


def first(object_features: ObjectFeatures, position: int, obj: int, partner: int, number: int) -> set[int]:
    """The members drawn around an object: its quota, and what the partner leaves of its own."""
    graph, order = object_features.graph, object_features.at_position(position).draw_orders[number]
    at = slice(order.starts[obj], order.starts[obj + 1])
    members = [member for member in order.members[at].tolist() if member != partner]
    left = object_features.quota - len(adjacent(graph, partner) - {obj})
    return set(members if object_features.size is None else members[: object_features.quota + max(0, left)])


def test_all_kinds_of_pairs_occur() -> None:
    """Otherwise the tests above could pass by direct scores alone."""
    config = TrainingConfig(size=4)
    predictor, _ = ready(town(1, people=300, facts=500, wide=False), "paper", config, MLP([6]))
    object_features = ObjectFeatures(predictor.evaluator, config, 1)
    assert object_features.decomposable
    assert not object_features.uses_walks
    touch, seen = _PairFeatureFinder(object_features, np.arange(len(object_features.feature_sides))), set[int]()
    for one in range(0, 300, 7):
        kinds, more = touch.find(one, 1, 0)
        seen |= {*kinds.tolist()}
        assert len(more.starts) - 1 == ((kinds == TOUCHING) | (kinds == FILLED)).sum()
    assert seen == {SEPARATE, TOUCHING, FILLED, FULL_PATH}


def test_objects_with_equal_features_form_a_group() -> None:
    config = TrainingConfig(size=4)
    predictor, _ = ready(town(5), "default", config, MLP([6]))
    object_features = ObjectFeatures(predictor.evaluator, config, 2)
    for position, level, number in ((0, 0, 0), (1, 0, 1), (1, 2, 0)):
        looks, firsts = object_features.equal_row_groups(position, level, number)
        around = object_features.at_position(position)
        dense = around.matrix.to_dense()
        rows = dense[around.rows[level] + number]
        assert np.array_equal(dense[firsts][looks], rows)
        assert len(firsts) == len(np.unique(rows, axis=0)) < len(rows)


def test_cached_sums_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    config = TrainingConfig(size=10)
    predictor, scorer = ready(town(2), "paper", config, MLP([6]))
    pairs = np.stack([np.arange(42), np.arange(42)], axis=1).astype(np.int32)
    whole = SplitScorer(ObjectFeatures(predictor.evaluator, config, 2), scorer).scores(pairs, 1)
    monkeypatch.setattr(splits, "MAX_CACHED_BYTES", 1)
    frugal = SplitScorer(ObjectFeatures(predictor.evaluator, config, 2), scorer)
    assert np.array_equal(frugal.scores(pairs, 1), whole)
    assert len(frugal._sums) == 1


@pytest.mark.parametrize(
    ("text", "config", "width", "can"),
    [
        ("r(s1, s2)\n∃x r(s1, x)\nr(x, s2)\n∃x r(s1, x) ∧ r(x, s2)\nexists r. r(s1, s2)", TrainingConfig(), 2, True),
        ("∃x, y r(s1, x) ∧ r(x, y) ∧ r(y, s2)", TrainingConfig(), 2, True),
        ("∀x r(s1, x)", TrainingConfig(), 2, False),
        ("r(s1, s2)", TrainingConfig(size=7), 2, True),
        ("r(s1, s2)", TrainingConfig(size=1), 2, False),
        ("r(s1, s2)", TrainingConfig(size=None), 2, True),
        ("r(s1, s2)", TrainingConfig(radius=2), 2, False),
        ("old(s1)", TrainingConfig(), 1, False),
    ],
)
def test_what_can_be_split(text: str, config: TrainingConfig, width: int, can: bool) -> None:
    assert supports_fast_scoring(parse_phi(text).features, config, width) is can


def test_object_features_are_of_one_object() -> None:
    config = TrainingConfig(size=4)
    predictor, _ = ready(town(3), "paper", config, MLP([6]))
    object_features = ObjectFeatures(predictor.evaluator, config, 1)
    texts = [str(feature) for feature in predictor.evaluator.plan.features]
    for position, other in ((0, "s2"), (1, "s1")):
        present = {texts[i] for i in object_features.at_position(position).matrix.ids.tolist()}
        assert present
        assert not any(other in text for text in present)


@pytest.mark.parametrize("draws", [1, 3])
def test_levels_are_draws_of_growing_length(draws: int) -> None:
    config = TrainingConfig(size=6, seed=4)
    predictor, _ = ready(town(4), "paper", config, MLP([6]))
    object_features = ObjectFeatures(predictor.evaluator, config, draws)
    for position in (0, 1):
        around = object_features.at_position(position)
        for order in around.draw_orders:
            for obj in range(len(predictor.graph)):
                levels = order.levels[order.starts[obj] : order.starts[obj + 1]].tolist()
                members = order.members[order.starts[obj] : order.starts[obj + 1]].tolist()
                assert levels == sorted(levels)
                assert len(members) == len(set(members)) == min(7, predictor.graph.degrees[obj])
                assert levels.count(0) == min(3, len(members))
                assert all(levels.count(level) <= 1 for level in (1, 2, 3, 4))
                assert {*members} <= adjacent(predictor.graph, obj)

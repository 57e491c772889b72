"""The cache of split scorers. That their scores are right is a property: see test_split_scorer.py."""

from __future__ import annotations

import numpy as np
import pytest

from gaifman.models.mlp import MLP
from gaifman.ranking.fast_scoring import ObjectFeatures, SplitScorerCache
from gaifman.training import Scorer, TrainingConfig
from split_cases import ready, town


def test_the_cache_keeps_the_latest_models_within_its_limit() -> None:
    config = TrainingConfig(size=6)
    predictor, first = ready(town(5), "default", config, MLP([9, 5]))
    field = ObjectFeatures(predictor.evaluator, config, 2)
    scorers = [first, Scorer(first.scaler, MLP([9])), Scorer(first.scaler, MLP([9]))]
    for scorer in scorers[1:]:
        scorer.base.reset(first.scaler.width, 1)
    pool, used = SplitScorerCache(field), []
    for scorer in (scorers[0], scorers[1], scorers[0]):
        with pool.borrow(scorer) as split:
            split.scores(np.zeros((1, 2), np.int32), 1)
            used.append(split)
    assert used[0] is used[2] is not used[1]
    assert len(pool) == 2
    assert used[0].nbytes > sum(sums.nbytes for sums in used[0]._sums.values()) + 1000, "room to work in counts too"
    small = SplitScorerCache(field, max_bytes=2 * max(split.nbytes for split in used))
    for scorer in scorers:
        with small.borrow(scorer) as split:
            split.scores(np.zeros((1, 2), np.int32), 1)
    assert len(small) == 2
    assert [split.scorer is scorer for split, scorer in zip(small._idle, scorers[1:], strict=True)] == [True, True]


def test_a_scorer_is_not_reused_after_an_exception() -> None:
    config = TrainingConfig(size=6)
    predictor, scorer = ready(town(5), "default", config, MLP([9, 5]))
    pool = SplitScorerCache(ObjectFeatures(predictor.evaluator, config, 2))
    with pytest.raises(KeyboardInterrupt), pool.borrow(scorer):
        raise KeyboardInterrupt
    assert len(pool) == 0

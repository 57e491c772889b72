"""Held-out figures of public data agree with those of their test sets."""

from __future__ import annotations

import numpy as np

import gaifman
from benchmark_data import DATA, NEEDED
from gaifman.sampling.negatives import NegativeSampler
from gaifman.sampling.rng import make_key
from held_out_cases import TOLERANCE, claimed_and_tested

pytestmark = NEEDED


def test_the_auc_of_nations_is_that_of_its_test_set() -> None:
    train, valid, test = (gaifman.read(DATA / "nations" / f"{name}.txt.gz") for name in ("train", "valid", "test"))
    claimed, tested = np.mean([claimed_and_tested(train, test, valid, seed=seed) for seed in range(4)], axis=0)
    assert abs(claimed - tested) < TOLERANCE


def test_the_share_of_true_negatives_of_umls_is_that_of_its_other_splits() -> None:
    """Unknown is not false: a fifth of the corruptions of its training facts are true."""
    train, *others = (gaifman.read(DATA / "umls" / f"{name}.txt.gz") for name in ("train", "valid", "test"))
    missing = sum(map(len, others)) / (len(train) + sum(map(len, others)))
    expected, real = list[float](), list[bool]()
    for name in train.relations:
        gone = {fact.objects for other in others if name in other.relations for fact in other.facts(name)}
        tuples = train.tuples(name)
        sampler, rows = NegativeSampler(train, tuples, negative_sampling="mixed"), np.arange(len(tuples))
        negatives = sampler.sample(rows, 1, make_key(0, "test"))
        expected += sampler.true_shares(rows, negatives, missing).tolist()
        pairs = [tuple(train.object_name(obj) for obj in row) for row in negatives.tuples.tolist()]
        real += [pair in gone for pair in pairs]
    assert 0.19 < np.mean(real) < 0.23
    assert abs(np.mean(expected) - np.mean(real)) < 0.02

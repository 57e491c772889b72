"""Held-out figures of public data agree with those of their test sets."""

from __future__ import annotations

import numpy as np

import gaifman
from benchmark_data import DATA, NEEDED
from held_out_cases import TOLERANCE, claimed_and_tested

pytestmark = NEEDED


def test_the_auc_of_nations_is_that_of_its_test_set() -> None:
    train, valid, test = (gaifman.read(DATA / "nations" / f"{name}.txt.gz") for name in ("train", "valid", "test"))
    claimed, tested = np.mean([claimed_and_tested(train, test, valid, seed=seed) for seed in range(4)], axis=0)
    assert abs(claimed - tested) < TOLERANCE

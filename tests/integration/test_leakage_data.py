"""Leakage in the public data sets, as the literature has it; needs the folder named by GAIFMAN_DATA."""

from __future__ import annotations

import pytest

import gaifman
from benchmark_data import DATA, NEEDED
from processes import cpu_limit

pytestmark = NEEDED


@pytest.mark.parametrize(
    ("name", "inverse", "likely"),
    [("WN18", 0.94, True), ("FB15k", 0.7, True), ("WN18RR", 0.34, False), ("FB15k-237", 0.0, False)],
)
def test_inverses_give_test_facts_away(name: str, inverse: float, likely: bool) -> None:
    """Of WN18, 94 % by inverses and symmetric relations (Dettmers et al. 2018); of FB15k, most."""
    train, test = (gaifman.read(DATA / name / f"{part}.txt.gz") for part in ("train", "test"))
    with cpu_limit(30):
        found = gaifman.describe(train, test=test).leakage[0]
    share = (found.by_kind["inverse"] + found.by_kind["symmetric"]) / found.facts
    assert share == pytest.approx(inverse, abs=0.02)
    assert found.is_likely is likely


def test_a_split_without_leakage_of_a_set_with_it() -> None:
    kb = gaifman.read(DATA / "WN18" / "train.txt.gz")
    with cpu_limit(30):
        split = kb.split(0.05, 0.05, inverses=False)
    assert len(split.test) > 0.99 * split.requested["test"]
    assert [one.following for one in gaifman.describe(split.train, valid=split.valid, test=split.test).leakage] == [
        0,
        0,
    ]

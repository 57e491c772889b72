"""Hard negatives: two or three steps from an object that stays, never its neighbour."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest

from chi_square import surprising
from gaifman.errors import KnowledgeBaseError
from gaifman.sampling.negatives import NegativeSampler
from generators import over_seeds
from negative_cases import KEY, counted, differing, knowledge, made, neighbours, random_plain, rows
from reference_negatives import Plain

LINE = [[j for j in (i - 1, i + 1) if 0 <= j < 40] for i in range(40)]
"""Forty objects in a line."""


def test_a_walk_ends_two_or_three_steps_from_what_stays() -> None:
    """Of walks of two steps in a line half come back, of those of three three quarters end beside the first."""
    answers = [(5, 30)]
    found = made(Plain(40, answers, "uniform", near=1, around=LINE), 4_000)
    ends = Counter(
        row[position] - row[1 - position]
        for row, position in zip(rows(found.tuples), differing(found, answers), strict=True)
    )
    walked = sum(ends[steps] for steps in (-3, -2, 2, 3))
    expected = 4_000 * (0.375 + 0.625 * 4 / 38)  # 38: neither what stands there nor, with a link, what is true
    assert abs(walked - expected) < 0.05 * 4_000
    assert ends[2] + ends[-2] > 1.5 * (ends[3] + ends[-3])
    assert ends[1] + ends[-1] < 200  # only the pool gives these


def test_a_walk_never_ends_at_a_neighbour_of_what_stays() -> None:
    star = [[*range(1, 30)], *([0] for _ in range(29))]
    found = made(Plain(200, [(0, 1), (0, 2)], "uniform", near=1, around=[*star, *([] for _ in range(170))]), 2_000)
    stayed = [row[1] for row in rows(found.tuples) if row[0] == 0]
    assert sum(obj < 30 for obj in stayed) < 0.25 * len(stayed)  # 27 of 197 by the pool, none by a walk


def test_the_fraction_of_hard_negatives_is_kept() -> None:
    ring = [sorted({(i - 1) % 2_000, (i + 1) % 2_000}) for i in range(2_000)]
    found = made(Plain(2_000, [(0, 1_000)], "uniform", near=0.3, around=ring), 4_000).tuples
    distance = np.abs(found[:, 0] - found[:, 1])
    near = int(np.isin(np.minimum(distance, 2_000 - distance), (2, 3)).sum())
    # Of walks 3 in 8 end two or three steps away; for the others the pool decides, of which 4 in 2,000 are there.
    expected = 4_000 * (0.3 * 0.375 + (1 - 0.3 * 0.375) * 4 / 1_999)
    assert not surprising(np.array([near, 4_000 - near]), np.array([expected, 4_000 - expected]))


def test_without_neighbours_or_with_none_that_are_false_the_pool_decides() -> None:
    alone = Plain(30, [(0, 1)], "uniform", near=1, around=[[] for _ in range(30)])
    assert len(set(rows(made(alone, 200).tuples))) > 40
    crowd = Plain(30, [(0, 1), (1, 0)], "uniform", near=1, around=[[1], [0], *([] for _ in range(28))])
    assert {row for row in rows(made(crowd, 200).tuples) if row[0] == row[1]}  # only the pool gives these
    assert len(made(crowd, 200)) == 400


def test_a_walk_of_one_variable_begins_at_the_answer() -> None:
    found = made(Plain(40, [(20,)], "uniform", near=1, around=LINE), 600)
    near = sum(abs(row[0] - 20) in (2, 3) for row in rows(found.tuples))
    assert near > 200  # by the pool alone 60


def test_a_fraction_of_zero_changes_nothing() -> None:
    answers = np.array([(i, (i * 7) % 40) for i in range(40)], np.int32)
    plain, other = (
        NegativeSampler(knowledge(40), answers),
        NegativeSampler(knowledge(40, around=LINE), answers, hard_negative_fraction=0),
    )
    assert rows(plain.sample(np.arange(40), 9, KEY).tuples) == rows(other.sample(np.arange(40), 9, KEY).tuples)


def test_what_determines_must_determine_something_else_wherever_a_walk_ends() -> None:
    answers = [(0, 10), (1, 11), (2, 12), (3, 10)]
    around = [[1, 4, 10], [0, 11], [], [10], [0, 10], *([] for _ in range(5)), [0, 3, 4], [1], *([] for _ in range(18))]
    counts = counted(Plain(30, answers, "mixed", (((0,), 1),), near=1, around=around), 0, 300)
    assert set(counts) == {1, 2}


@pytest.mark.parametrize("near", [-0.1, 1.1, "half", None, True, float("nan")])
def test_a_fraction_outside_0_to_1_is_refused(near: float) -> None:
    with pytest.raises(KnowledgeBaseError, match="hard_negative_fraction must be a number"):
        NegativeSampler(knowledge(3), np.array([[0, 1]], np.int32), hard_negative_fraction=near)


@over_seeds(200)
def test_with_strolls_the_kernel_equals_the_reference_bit_for_bit(seed: int) -> None:
    rng = random.Random(seed + 500)
    plain, types, typed = random_plain(rng)
    plain.near, plain.around = rng.choice([0.3, 0.5, 1, 1.0]), neighbours(rng, plain.objects)
    found = made(plain, 7, types, typed)
    expected = list(plain.corrupted(range(len(plain.answers)), 7, int(KEY)))
    assert list(zip(rows(found.tuples), found.sources.tolist(), strict=True)) == expected
    assert plain.true.isdisjoint(rows(found.tuples))

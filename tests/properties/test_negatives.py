"""Negatives: never known answers, one object replaced, uniform, and equal to a reference implementation."""

from __future__ import annotations

import itertools
import random
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from chi_square import surprising
from gaifman.config import NEGATIVE_SAMPLING
from gaifman.errors import KnowledgeBaseError
from gaifman.sampling.constraints import QueryConstraints
from gaifman.sampling.negatives import NegativeSampler
from gaifman.sampling.rng import make_key
from generators import over_seeds
from negative_cases import KEY, counted, differing, knowledge, made, random_plain, rows
from reference_negatives import Plain
from uncompiled import both


@over_seeds(200)
def test_the_kernel_equals_the_reference_bit_for_bit(seed: int) -> None:
    plain, types, typed = random_plain(random.Random(seed))
    found = made(plain, 7, types, typed)
    expected = list(plain.corrupted(range(len(plain.answers)), 7, int(KEY)))
    assert list(zip(rows(found.tuples), found.sources.tolist(), strict=True)) == expected


@over_seeds(60)
def test_known_answers_are_never_negatives_and_missing_negatives_do_not_exist(seed: int) -> None:
    plain, types, typed = random_plain(random.Random(seed + 1_000))
    found = made(plain, 5, types, typed)
    assert plain.true.isdisjoint(rows(found.tuples))
    differing(found, plain.answers)
    made_of = np.bincount(found.sources, minlength=len(plain.answers)).tolist()
    for answer, times in zip(plain.answers, made_of, strict=True):
        kinds = {"uniform": (False,), "typed": (True,), "mixed": (False, True)}[plain.pool]
        possible = any(plain.allowed(answer, i, typed) for i in range(len(answer)) for typed in kinds)
        assert times == (5 if possible else 0)


@pytest.mark.parametrize("width", [1, 2, 3, 8])
def test_negatives_of_an_answer_take_the_positions_in_turn(width: int) -> None:
    answers = [tuple(range(i, i + width)) for i in range(20)]
    found = made(Plain(200, answers, "uniform"), 2 * width)
    positions = np.array(differing(found, answers)).reshape(len(answers), 2 * width)
    assert ((positions[:, 1:] - positions[:, :-1]) % width == (1 % width)).all()
    assert len(set(positions[:, 0].tolist())) > width // 2  # the first is another for other answers


def test_negatives_do_not_depend_on_other_answers_or_their_number() -> None:
    answers = [(i, (i * 7) % 40) for i in range(40)]
    sampler = NegativeSampler(knowledge(60), np.array(answers, np.int32))
    whole = sampler.sample(np.arange(40), 6, KEY)
    for row in (0, 17, 39):
        alone = sampler.sample(np.array([row]), 3, KEY)
        assert rows(alone.tuples) == rows(whole.tuples[whole.sources == row])[:3]
    backward = sampler.sample(np.arange(40)[::-1], 6, KEY)
    assert rows(backward.tuples[backward.sources == 0]) == rows(whole.tuples[whole.sources == 39])
    other = sampler.sample(np.arange(40), 6, make_key(3, "corrupt", 2))
    assert rows(other.tuples) != rows(whole.tuples)


def test_threads_share_a_sampler() -> None:
    sampler = NegativeSampler(knowledge(60), np.array([(i, (i * 7) % 40) for i in range(40)], np.int32))
    alone = sampler.sample(np.arange(40), 200, KEY)
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(lambda _: sampler.sample(np.arange(40), 200, KEY), range(16)):
            assert rows(found.tuples) == rows(alone.tuples)


# Pools


@pytest.mark.parametrize("position", [0, 1])
def test_the_uniform_pool_is_uniform_over_all_that_is_no_known_answer(position: int) -> None:
    plain = Plain(30, [(0, 0), *((0, i) for i in range(2, 14)), (5, 0), (9, 9)], "uniform", known={(0, 20), (21, 0)})
    counts, allowed = counted(plain, position, 40_000), plain.allowed((0, 0), position, typed=False)
    assert sorted(counts) == allowed
    assert not surprising(np.array([counts[o] for o in allowed]), np.full(len(allowed), 20_000 / len(allowed)))


@pytest.mark.parametrize("position", [0, 1])
def test_the_typed_pool_is_uniform_over_objects_that_answers_have_there(position: int) -> None:
    answers = [(0, 0), *((0, i) for i in range(2, 9)), *((3, i) for i in range(9, 20)), (5, 0), (6, 6), (7, 6)]
    plain = Plain(60, answers, "typed")
    counts, allowed = counted(plain, position, 40_000), plain.allowed((0, 0), position, typed=True)
    assert sorted(counts) == allowed
    assert set(allowed) < {row[position] for row in answers}
    assert not surprising(np.array([counts[o] for o in allowed]), np.full(len(allowed), 20_000 / len(allowed)))


def test_a_coin_decides_between_the_pools_of_a_mixed_one() -> None:
    answers = [(i, 100 + i % 10) for i in range(20)]
    plain = Plain(1_000, answers, "mixed")
    counts = counted(plain, 1, 40_000)
    typed = sum(times for obj, times in counts.items() if 100 <= obj < 110)
    expected = 20_000 * (0.5 + 0.5 * 9 / 999)
    assert not surprising(np.array([typed, 20_000 - typed]), np.array([expected, 20_000 - expected]))


def test_a_type_takes_the_place_of_what_answers_have() -> None:
    plain = Plain(20, [(0, 1), (2, 3)], "typed", types=[None, {1, 5, 6, 7}])
    counts = counted(plain, 1, 400, types={"place": {1, 5, 6, 7}}, typed=(None, "place"))
    assert set(counts) == {5, 6, 7}


def test_a_type_nobody_has_leaves_the_other_positions() -> None:
    answers = [(0, 1), (2, 3)]
    kb = knowledge(20, {"place": {1}}).without_facts([("place", "o0001")])
    sampler = NegativeSampler(
        kb, np.array(answers, np.int32), negative_sampling="typed", constraints=QueryConstraints((), (None, "place"))
    )
    assert set(differing(sampler.sample(np.arange(2), 6, KEY), answers)) == {0}


# Nearly everything is true


def test_a_saturated_relation_gives_the_one_tuple_that_is_left() -> None:
    answers = [row for row in itertools.product(range(30), repeat=2) if row != (7, 11)]
    for pool in NEGATIVE_SAMPLING:
        found = made(Plain(30, answers, pool), 3)
        assert set(rows(found.tuples)) == {(7, 11)}
        assert len(found) == 3 * (29 + 29)


def test_a_full_relation_has_no_negatives() -> None:
    for width in (1, 2, 3):
        found = made(Plain(3, list(itertools.product(range(3), repeat=width))), 4)
        assert found.tuples.shape == (0, width)
        assert len(found) == 0


def test_there_are_no_negatives_if_there_is_no_other_object() -> None:
    assert len(made(Plain(1, [(0, 0)]), 4)) == 0
    assert len(made(Plain(2, [(0,)], known={(1,)}), 4)) == 0
    assert rows(made(Plain(2, [(0,)]), 2).tuples) == [(1,), (1,)]


def test_zero_negatives() -> None:
    assert len(made(Plain(5, [(0, 1), (1, 2)]), 0)) == 0


def test_of_one_variable_all_that_is_typed_is_true() -> None:
    assert len(made(Plain(9, [(0,), (4,)], "typed"), 3)) == 0
    assert {row[0] for row in rows(made(Plain(9, [(0,), (4,)], "mixed"), 30).tuples)} <= {1, 2, 3, 5, 6, 7, 8}


# Functional constraints


def test_what_is_determined_can_be_anything_else() -> None:
    answers = [(0, 10), (1, 11), (2, 12)]
    counts = counted(Plain(30, answers, "uniform", (((0,), 1),)), 1, 2_000)
    assert set(counts) == set(range(30)) - {10}


def test_what_determines_must_be_known_to_determine_something_else() -> None:
    answers = [(0, 10), (1, 11), (2, 12), (3, 10)]
    for pool in NEGATIVE_SAMPLING:
        counts = counted(Plain(30, answers, pool, (((0,), 1),)), 0, 300)
        assert set(counts) == {1, 2}


def test_where_nothing_else_is_determined_another_position_is_changed() -> None:
    answers = [(0, 10), (3, 10)]
    found = made(Plain(30, answers, "uniform", (((0,), 1),)), 8)
    assert set(differing(found, answers)) == {1}
    assert len(found) == 16


def test_one_to_one_makes_both_positions_certain() -> None:
    answers = [(0, 10), (1, 11)]
    plain = Plain(30, answers, "uniform", (((0,), 1), ((1,), 0)))
    assert set(counted(plain, 0, 2_000)) == set(range(30)) - {0}
    assert set(counted(plain, 1, 2_000)) == set(range(30)) - {10}


def test_in_a_triple_a_third_object_does_not_make_it_certain() -> None:
    """With r(5, 1, 9) known and 1→2, r(5, 1, 2) may be true: 5 determines 1 as well. Of 6, it is known to be 3."""
    answers = [(0, 1, 2), (5, 1, 9), (6, 3, 9)]
    counts = counted(Plain(12, answers, "uniform", (((0,), 1),)), 0, 300)
    assert set(counts) == {6}


def test_two_positions_determine_a_third() -> None:
    answers = [(0, 1, 2), (4, 1, 3), (5, 7, 3), (6, 1, 2), (8, 1, 9)]
    counts = counted(Plain(12, answers, "mixed", (((0, 1), 2),)), 0, 600)
    assert set(counts) == {4, 8}


def test_what_is_only_known_determines_nothing_but_stays_true() -> None:
    answers = [(0, 10), (1, 11)]
    counts = counted(Plain(30, answers, "uniform", (((0,), 1),), known={(2, 12), (1, 10)}), 0, 60)
    assert not counts


# Mistakes, and without the compiler


def test_an_unknown_pool_has_suggestions() -> None:
    with pytest.raises(KnowledgeBaseError, match="negative_sampling must be one of uniform, typed, mixed") as error:
        NegativeSampler(knowledge(3), np.array([[0, 1]], np.int32), negative_sampling="type")
    assert error.value.suggestions == ("typed",)


def test_an_unknown_type_has_suggestions() -> None:
    with pytest.raises(KnowledgeBaseError, match="there is no type plac") as error:
        NegativeSampler(
            knowledge(3, {"place": {0}}), np.array([[0, 1]], np.int32), constraints=QueryConstraints((), (None, "plac"))
        )
    assert error.value.suggestions == ("place",)


SCRIPT = """
import json, random, warnings
warnings.simplefilter("ignore")  # 64-bit overflow is intended
from negative_cases import made, neighbours, random_plain
out = []
for seed in range(12):
    plain, types, typed = random_plain(random.Random(seed))
    if seed % 2:
        plain.near, plain.around = 0.5, neighbours(random.Random(seed), plain.objects)
    found = made(plain, 4, types, typed)
    out.append([found.tuples.tolist(), found.sources.tolist()])
print(json.dumps(out))
"""


def test_the_kernel_runs_uncompiled_and_gives_the_same_bits() -> None:
    compiled, plain = both(SCRIPT)
    assert compiled == plain

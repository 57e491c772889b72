"""Small kernels against plain Python: random numbers, sets, sorting; and all of them uncompiled."""

from __future__ import annotations

import bisect
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chi_square import surprising
from gaifman.kernels.collections import add_to_set, binary_search, clear_set, sort
from gaifman.kernels.rng import GAMMA, fold_in, mix, random_below, random_word
from reference_rng import MASK, WORDS, plain_mix
from uncompiled import both

# Random numbers


def test_words_are_those_of_splitmix64() -> None:
    """The reference implementation's output for the seeds 0 and 1234567."""
    assert [int(random_word(np.uint64(0), i)) for i in range(4)] == [
        0xE220A8397B1DCDAF,
        0x6E789E6AA1B965F4,
        0x06C45D188009454F,
        0xF88BB8A8724C81EC,
    ]
    assert [int(random_word(np.uint64(1234567), i)) for i in range(5)] == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]


@given(WORDS, st.integers(0, 2**31))
def test_mix_and_fold_in_equal_plain_integers(key: int, value: int) -> None:
    assert int(mix(np.uint64(key))) == plain_mix(key)
    joined = plain_mix((key ^ plain_mix((value + int(GAMMA)) & MASK)) + int(GAMMA) & MASK)
    assert int(fold_in(np.uint64(key), value)) == joined


@pytest.mark.parametrize("bound", [1, 2, 3, 7, 20, 1000])
def test_bounded_numbers_are_uniform(bound: int) -> None:
    draws = 2000 * bound if bound < 100 else 200 * bound
    counts = np.bincount([random_below(np.uint64(5), i, bound) for i in range(draws)], minlength=bound)
    assert len(counts) == bound
    assert not surprising(counts, np.full(bound, draws / bound))


def test_bounded_numbers_are_uniform_if_a_third_of_the_words_is_rejected() -> None:
    bound = 3 << 30  # 2³² is no multiple: without rejection the first quarter would come up twice as often
    numbers = np.array([random_below(np.uint64(9), i, bound) for i in range(60_000)])
    counts = np.bincount(numbers // (1 << 28), minlength=12)
    assert not surprising(counts, np.full(12, 5000.0))


def test_keys_that_differ_in_one_part_have_unrelated_numbers() -> None:
    firsts = [np.uint64(fold_in(np.uint64(0), a)) for a in range(20)]
    keys = [np.uint64(fold_in(first, b)) for first in firsts for b in range(20)]
    assert len(set(map(int, keys))) == 400
    pairs = [(random_below(key, 0, 4), random_below(key, 1, 4)) for key in keys]
    pairs += [(random_below(keys[i], 2, 4), random_below(keys[i + 1], 2, 4)) for i in range(399)]
    counts = np.bincount([4 * a + b for a, b in pairs], minlength=16)
    assert not surprising(counts, np.full(16, len(pairs) / 16))


# Sets and runs


@given(st.lists(st.integers(0, 2**31 - 2), max_size=60))
def test_a_set_knows_what_is_new(members: list[int]) -> None:
    table = np.full(256, 7, np.int32)
    last = clear_set(table, len(members))
    known: set[int] = set()
    for member in members:
        assert add_to_set(table, last, member) == (member not in known)
        known.add(member)


@given(st.lists(st.integers(-(2**31), 2**31 - 1), max_size=200), st.integers(0, 5), st.integers(0, 5))
def test_runs_are_sorted_and_their_ends_left_alone(numbers: list[int], front: int, back: int) -> None:
    run = np.array([9] * front + numbers + [3] * back, np.int32)
    sort(run, front, front + len(numbers))
    assert run.tolist() == [9] * front + sorted(numbers) + [3] * back


def test_a_long_run_is_sorted() -> None:
    numbers = random.Random(0).choices(range(5000), k=10_000)
    run = np.array(numbers, np.int32)
    sort(run, 0, len(run))
    assert run.tolist() == sorted(numbers)


@given(st.lists(st.integers(0, 30), max_size=20, unique=True).map(sorted), st.integers(-1, 31))
def test_binary_search(numbers: list[int], wanted: int) -> None:
    run = np.array([wanted, *numbers, wanted], np.int32)  # what stands outside the run is not found
    at = bisect.bisect_left(numbers, wanted)
    found = at < len(numbers) and numbers[at] == wanted
    assert binary_search(run, 1, 1 + len(numbers), wanted) == (1 + at if found else -1)


# All of them as plain Python

SCRIPT = """
import json, warnings
import numpy as np
warnings.simplefilter("ignore")  # 64-bit overflow is intended
from gaifman.kb.gaifman_graph import build_graph
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.sampling.hiding import HiddenFacts
from gaifman.sampling.neighbourhoods import draw_neighbourhoods
from gaifman.config import SamplingConfig
rng = np.random.default_rng(1)
facts = [("r", f"o{a}", f"o{b}") for a, b in (rng.integers(0, 30, (60, 2)) ** 2 // 30)]
facts += [("s", *(f"o{i}" for i in row)) for row in rng.integers(0, 30, (10, 3))]
graph = build_graph(KnowledgeBase.from_facts(facts))
tuples = rng.integers(0, len(graph), (12, 2))
hidden = HiddenFacts(np.arange(13) * 3, rng.integers(0, len(graph.kb), 36))
out = []
for radius in (0, 1, 2, 3):
    for size in (1, 3, 8, None):
        for shared in (False, True):
            sampling = SamplingConfig(radius, size, 2, 5, shared_order=shared)
            found = draw_neighbourhoods(graph, tuples, sampling, hidden, threads=1)
            out.append([found.starts.tolist(), found.members.tolist()])
print(json.dumps(out))
"""


def test_every_kernel_runs_uncompiled_and_gives_the_same_bits() -> None:
    """So that a kernel can be debugged: NUMBA_DISABLE_JIT=1 makes it plain Python."""
    compiled, plain = both(SCRIPT)
    assert compiled == plain

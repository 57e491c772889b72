"""Neighbourhoods against Algorithm 1: valid, exactly distributed, keyed, without hidden facts."""

from __future__ import annotations

from collections import Counter
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chi_square import surprising
from gaifman.config import SamplingConfig
from gaifman.errors import KnowledgeBaseError
from gaifman.kb.gaifman_graph import GaifmanGraph, build_graph
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.sampling import neighbourhoods as drawing
from gaifman.sampling.hiding import HiddenFacts
from gaifman.sampling.neighbourhoods import NeighbourhoodBatch, draw_neighbourhoods, named_neighbourhoods
from kbs import knowledge_bases, plain_names
from reference_draws import distribution, plain_draw, plain_join, plain_key, plain_order, pools

small = knowledge_bases(
    attributes=False, isolated=True, names=st.one_of(plain_names, st.sampled_from("fghijk")), facts=20
)


def members(kb: KnowledgeBase, found: NeighbourhoodBatch, t: int, number: int) -> tuple[str, ...]:
    return tuple(kb.object_name(int(member)) for member in found.members_of(t, number))


def ids(kb: KnowledgeBase, *tuples: tuple[str, ...]) -> list[list[int]]:
    return [[kb.object_id(name) for name in names] for names in tuples]


def hide(graph: GaifmanGraph, *facts: tuple[str, ...]) -> HiddenFacts:
    """The facts hidden from one tuple."""
    kb = graph.kb
    numbers = [
        int(graph.kb.fact_ids(kb.content.relations.index(relation), np.array(ids(kb, tuple(objects))))[0])
        for relation, *objects in facts
    ]
    return HiddenFacts(np.array([0, len(numbers)]), np.array(numbers))


samplings = st.builds(
    SamplingConfig,
    radius=st.integers(0, 3),
    size=st.one_of(st.none(), st.integers(1, 12)),
    draws=st.integers(1, 3),
    seed=st.integers(0, 2**64 - 1),
    purpose=st.sampled_from(["train", "test"]),
    shared_order=st.booleans(),
)


@st.composite
def batches(draw: st.DrawFn) -> tuple[KnowledgeBase, list[list[int]], list[list[int]]]:
    """A knowledge base, tuples of it, and facts hidden from each."""
    kb = draw(small.filter(bool))
    width, count = draw(st.integers(1, 4)), draw(st.integers(1, 5))
    numbers = st.integers(0, len(kb.objects) - 1)
    tuples = [[draw(numbers) for _ in range(width)] for _ in range(count)]
    facts = st.lists(st.integers(0, len(kb) - 1), max_size=4) if len(kb) else st.just([])
    return kb, tuples, [draw(facts) for _ in range(count)]


def ragged(lists: list[list[int]]) -> HiddenFacts:
    return HiddenFacts(
        np.cumsum([0, *map(len, lists)]), np.array([fact for facts in lists for fact in facts], np.int64)
    )


@settings(max_examples=150)
@given(batches(), samplings)
def test_draws_are_legal_and_bit_for_bit_those_of_the_reference(
    batch: tuple[KnowledgeBase, list[list[int]], list[list[int]]], sampling: SamplingConfig
) -> None:
    """Any n, r, k and none, w, hidden facts, both keyings; repeated and isolated objects come up too.

    The reference fills up from the union; that trial has the same distribution is tested below.
    """
    kb, tuples, lists = batch
    graph = build_graph(kb)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(drawing, "TRIAL_FACTOR", 10**6)
        found = draw_neighbourhoods(graph, tuples, sampling, ragged(lists))
    assert len(found) == len(tuples) * sampling.draws
    for t, objects in enumerate(tuples):
        seen = kb.without_facts({graph.kb.fact_by_id(number) for number in lists[t]})
        own = list(dict.fromkeys(objects))
        assert found.distinct_counts[t] == len(own)
        around = set().union(*pools(seen, tuple(map(kb.object_name, objects)), sampling.radius))
        for number in range(sampling.draws):
            drawn = found.members_of(t, number).tolist()
            assert drawn[: len(own)] == own
            rest = drawn[len(own) :]
            assert rest == sorted(set(rest))
            assert {kb.object_name(member) for member in rest} <= around
            assert len(rest) == (len(around) if sampling.size is None else min(sampling.size, len(around)))
            assert set(rest) == plain_draw(kb, seen, objects, sampling, number)


# The distribution, where it can be enumerated

STAR = [("r", "a", x) for x in "cdefg"] + [("r", "b", x) for x in "fghi"] + [("s", "a", "b"), ("s", "a", "c")]
CHAIN = [("r", x, y) for x, y in ("ac", "ad", "be", "ce", "df", "eg", "bh")]
CASES = [
    (STAR, ("a", "b"), 1, 4, ()),
    (STAR, ("a", "b"), 1, 5, (("r", "a", "d"), ("r", "a", "c"))),  # a–c stays: s(a, c) gives it too
    (STAR, ("a", "b"), 1, 2, (("r", "a", "d"),)),
    (STAR, ("b",), 1, 2, ()),
    (STAR, ("a", "a"), 1, 4, ()),
    (STAR, ("a", "b", "f"), 1, 4, ()),
    (STAR, ("a", "b"), 1, 1, ()),
    (STAR, ("a", "b"), 0, 3, ()),
    (CHAIN, ("a", "b"), 2, 3, ()),
    (CHAIN, ("a", "b"), 2, 4, (("r", "b", "e"),)),
    (CHAIN, ("a",), 2, 3, (("r", "a", "c"),)),
]


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("patience", [1, 10**6], ids=["by trial", "from the union"])
@pytest.mark.parametrize("case", CASES)
def test_frequencies_match_the_exact_probabilities(
    case: tuple[list[tuple[str, ...]], tuple[str, ...], int, int, tuple[tuple[str, ...], ...]],
    patience: int,
    shared: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of every set that can be drawn, and so of every member; filling by trial and from the union alike."""
    facts, objects, radius, size, hidden = case
    monkeypatch.setattr(drawing, "TRIAL_FACTOR", patience)
    kb = KnowledgeBase.from_facts(facts)
    graph = build_graph(kb)
    draws = 20_000
    found = draw_neighbourhoods(
        graph, ids(kb, objects), SamplingConfig(radius, size, draws, 7, shared_order=shared), hide(graph, *hidden)
    )
    counts = Counter(frozenset(members(kb, found, 0, i)[found.distinct_counts[0] :]) for i in range(draws))
    exact = distribution(pools(kb.without_facts(hidden), objects, radius), size)
    assert set(counts) <= set(exact)
    sets = sorted(exact, key=sorted)
    expected = np.array([float(exact[members_]) * draws for members_ in sets])
    assert not surprising(np.array([counts[members_] for members_ in sets]), expected)
    for name in set().union(*exact):
        inclusion = float(sum(weight for drawn, weight in exact.items() if name in drawn))
        got = sum(count for drawn, count in counts.items() if name in drawn) / draws
        assert abs(got - inclusion) <= 5 * (inclusion * (1 - inclusion) / draws) ** 0.5


def spread(near: int, far: int) -> KnowledgeBase:
    """Object a with `near` neighbours, b with `far` others."""
    facts = [("r", "a", f"n{i}") for i in range(near)] + [("r", "b", f"f{i}") for i in range(far)]
    return KnowledgeBase.from_facts(facts)


@pytest.mark.parametrize("sizes", [(30, 200), (11, 11), (25, 4000)])
def test_the_same_number_for_each_object_of_the_tuple(sizes: tuple[int, int]) -> None:
    """However unequal the pools: k/n from each, where each has as many."""
    kb = spread(*sizes)
    found = draw_neighbourhoods(build_graph(kb), ids(kb, ("a", "b")), SamplingConfig(size=20, draws=200))
    for number in range(200):
        drawn = members(kb, found, 0, number)[2:]
        assert sum(name.startswith("n") for name in drawn) == sum(name.startswith("f") for name in drawn) == 10


def test_the_same_number_for_each_object_in_expectation_where_pools_overlap() -> None:
    both = [("r", x, f"s{i}") for i in range(12) for x in "ab"]
    kb = KnowledgeBase.from_facts([*both, *(("r", x, f"{x}{i}") for i in range(12) for x in "ab")])
    draws = 5000
    found = draw_neighbourhoods(build_graph(kb), ids(kb, ("a", "b")), SamplingConfig(size=8, draws=draws, seed=1))
    drawn = [name for number in range(draws) for name in members(kb, found, 0, number)[2:]]
    ours, theirs = (sum(name[0] in kind for name in drawn) / draws for kind in ("as", "bs"))
    assert abs(ours - theirs) < 0.1


def test_a_pool_too_small_is_taken_whole_and_the_rest_is_filled_up() -> None:
    kb = spread(3, 50)
    found = draw_neighbourhoods(build_graph(kb), ids(kb, ("a", "b")), SamplingConfig(size=20, draws=50))
    for number in range(50):
        drawn = members(kb, found, 0, number)[2:]
        assert len(drawn) == 20
        assert sum(name.startswith("n") for name in drawn) == 3


# Keys


@pytest.fixture(scope="module")
def crowd() -> GaifmanGraph:
    """A graph with short rows and long ones."""
    rng = np.random.default_rng(3)
    pairs = (rng.random((6000, 2)) ** 3 * 900).astype(int)
    return build_graph(KnowledgeBase.from_facts([("r", f"o{a:03}", f"o{b:03}") for a, b in pairs]))


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize(("radius", "size"), [(1, 10), (1, None), (2, 10)])
def test_the_same_bits_for_any_threads_blocks_and_order(
    crowd: GaifmanGraph, radius: int, size: int | None, shared: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    tuples = np.random.default_rng(4).integers(0, len(crowd), (300, 2))
    facts = np.random.default_rng(5).integers(0, len(crowd.kb), 300)
    hidden, sampling = HiddenFacts.one_per_tuple(facts), SamplingConfig(radius, size, 2, 11, shared_order=shared)
    one = draw_neighbourhoods(crowd, tuples, sampling, hidden, threads=1)
    for threads, block in ((2, 1 << 18), (4, 500), (1, 37)):
        monkeypatch.setattr(drawing, "MEMBERS_PER_BLOCK", block)
        monkeypatch.setattr(drawing, "OBJECTS_PER_BLOCK", block)
        other = draw_neighbourhoods(crowd, tuples, sampling, hidden, threads=threads)
        assert one.members.tobytes() == other.members.tobytes()
        assert one.starts.tobytes() == other.starts.tobytes()
    order = np.random.default_rng(6).permutation(300)
    moved = draw_neighbourhoods(crowd, tuples[order], sampling, HiddenFacts.one_per_tuple(facts[order]))
    for t, was in enumerate(order):
        for number in range(2):
            assert moved.members_of(t, number).tolist() == one.members_of(int(was), number).tolist()


def test_seed_purpose_and_draw_each_change_what_is_drawn(crowd: GaifmanGraph) -> None:
    tuples = np.random.default_rng(4).integers(0, 40, (100, 2))
    base = draw_neighbourhoods(crowd, tuples, SamplingConfig(size=6, draws=2))
    for other in (SamplingConfig(size=6, draws=2, seed=1), SamplingConfig(size=6, draws=2, purpose="test")):
        assert draw_neighbourhoods(crowd, tuples, other).members.tobytes() != base.members.tobytes()
    assert any(base.members_of(t, 0).tolist() != base.members_of(t, 1).tolist() for t in range(100))
    fewer = draw_neighbourhoods(crowd, tuples, SamplingConfig(size=6, draws=1))
    assert all(fewer.members_of(t).tolist() == base.members_of(t, 0).tolist() for t in range(100))


def test_a_shared_draw_is_a_prefix_of_one_random_order_of_the_object(crowd: GaifmanGraph) -> None:
    """For any k, partner and hidden fact, skipping only what the tuple may not see."""
    sampling = SamplingConfig(size=1, shared_order=True, seed=2)
    key = plain_key(sampling, 0)
    for obj in range(0, 60, 7):
        for position in (0, 1):
            order = list(plain_order(plain_join(plain_join(key, obj), position), crowd.neighbour_ids(obj).tolist()))
            for partner, size in ((obj + 1, 8), (order[0], 8), (800, 4)):
                tuples = [[obj, partner] if position == 0 else [partner, obj]]
                found = set(
                    draw_neighbourhoods(crowd, tuples, SamplingConfig(size=size, shared_order=True, seed=2))
                    .members_of(0)
                    .tolist()
                )
                prefix = [member for member in order if member != partner][: size // 2]
                assert set(prefix) <= found


# Hidden facts


@pytest.mark.parametrize("radius", [1, 2, 3])
def test_a_hidden_fact_is_no_edge_unless_another_fact_gives_it(radius: int) -> None:
    kb = KnowledgeBase.from_facts([("r", "a", "b"), ("r", "b", "c"), ("s", "a", "b"), ("t", "c", "d", "e")])
    graph = build_graph(kb)

    def around(*facts: tuple[str, ...]) -> set[str]:
        found = draw_neighbourhoods(graph, ids(kb, ("a",)), SamplingConfig(radius, None), hide(graph, *facts))
        return set(members(kb, found, 0, 0)[1:])

    whole = {1: {"b"}, 2: {"b", "c"}, 3: {"b", "c", "d", "e"}}[radius]
    assert around() == around(("r", "a", "b")) == around(("s", "a", "b")) == whole
    assert around(("s", "a", "b"), ("r", "a", "b")) == set()
    assert around(("r", "b", "c")) == {"b"}
    assert around(("t", "c", "d", "e")) == whole - {"d", "e"}


def test_one_per_tuple_skips_unknown_facts() -> None:
    hidden = HiddenFacts.one_per_tuple(np.array([3, -1, 0]))
    assert (hidden.starts.tolist(), hidden.facts.tolist()) == ([0, 1, 1, 2], [3, 0])


# In names, and what is wrong


def test_a_named_neighbourhood_has_members_distances_facts_and_the_rest() -> None:
    kb = KnowledgeBase.from_facts([("r", "a", "b"), ("r", "b", "c"), ("r", "c", "d"), ("old", "b"), ("old", "d")])
    first, second = named_neighbourhoods(kb, ("a",), radius=2, size=1, draws=2, seed=1)
    for found in (first, second):
        (own, drawn) = found.members
        assert own == ("a", 0)
        assert drawn in (("b", 1), ("c", 2))
        assert found.not_drawn == {3 - drawn[1]: 1}
        assert list(found.facts) == list(kb.induced([name for name, _ in found.members]).facts())
    (everything,) = named_neighbourhoods(build_graph(kb), ("c", "a"), radius=2, size=None)
    assert everything.members == (("c", 0), ("a", 0), ("b", 1), ("d", 1))
    assert everything.not_drawn == {}


def test_an_isolated_object_has_a_neighbourhood_of_its_own() -> None:
    kb = KnowledgeBase.from_facts([("r", "a", "b"), ("old", "c")], objects=["d"])
    for names in (("c",), ("d", "c"), ("d", "d")):
        (found,) = named_neighbourhoods(kb, names, radius=3)
        assert [name for name, _ in found.members] == list(dict.fromkeys(names))


def test_a_repeated_object_is_one_member_and_two_draws_from_equal_pools() -> None:
    kb = spread(40, 0)
    found = draw_neighbourhoods(build_graph(kb), ids(kb, ("a", "a")), SamplingConfig(size=10, draws=300))
    for number in range(300):
        drawn = members(kb, found, 0, number)
        assert len(drawn) == 11
        assert drawn.count("a") == 1


def test_no_tuples_give_no_neighbourhoods() -> None:
    graph = build_graph(spread(2, 2))
    for radius, size in product((0, 1, 2), (3, None)):
        found = draw_neighbourhoods(graph, np.zeros((0, 2), np.int32), SamplingConfig(radius, size))
        assert (len(found), found.starts.tolist(), found.members.tolist()) == (0, [0], [])


@pytest.mark.parametrize(
    ("settings_", "message"),
    [
        ({"size": 0}, "size must be an integer of at least 1, got 0\nhint: the tuple's own"),
        ({"size": 2.5}, "size must be an integer of at least 1, got 2.5"),
        ({"size": True}, "size .* got True"),
        ({"radius": -1}, "radius must be an integer of at least 0, got -1"),
        ({"radius": 1.0}, "radius must be an integer of at least 0, got 1.0"),
        ({"draws": 0}, "draws must be an integer from 1 to 1,000,000, got 0"),
        ({"seed": -1}, "seed must be an integer from 0"),
        ({"seed": 1 << 64}, "seed must be an integer from 0"),
    ],
)
def test_wrong_settings_are_refused(settings_: dict[str, object], message: str) -> None:
    with pytest.raises(KnowledgeBaseError, match=message):
        SamplingConfig(**settings_)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("tuples", "message"),
    [
        ([[0, 9]], "objects are numbered from 0 to 5, not 9"),
        ([[-1]], "objects are numbered from 0 to 5, not -1"),
        ([0, 1], r"shape \(tuples, arity\), got int64 of shape \(2,\)\nhint: one tuple"),
        ([[0.5]], "integers of shape .* got float64"),
        ([[], []], "a tuple has at least one object"),
    ],
)
def test_wrong_tuples_are_refused(tuples: object, message: str) -> None:
    with pytest.raises(KnowledgeBaseError, match=message):
        draw_neighbourhoods(build_graph(spread(2, 2)), tuples)  # type: ignore[arg-type]


def test_wrong_names_threads_and_hidden_facts_are_refused() -> None:
    graph = build_graph(KnowledgeBase.from_facts([("borders", "france", "spain")]))
    with pytest.raises(KnowledgeBaseError, match="there is no object frnce\ndid you mean: france"):
        named_neighbourhoods(graph, ("frnce",))
    with pytest.raises(KnowledgeBaseError, match=r"write \('france',\), not 'france'"):
        named_neighbourhoods(graph, "france")
    with pytest.raises(KnowledgeBaseError, match="threads must be an integer of at least 1, got 0"):
        draw_neighbourhoods(graph, [[0]], threads=0)
    with pytest.raises(KnowledgeBaseError, match="facts are numbered from 0 to 0, not 1\nhint: fact_ids"):
        draw_neighbourhoods(graph, [[0]], hidden=HiddenFacts(np.array([0, 1]), np.array([1])))
    with pytest.raises(KnowledgeBaseError, match="must ascend from 0 to 1 and have 2 items"):
        draw_neighbourhoods(graph, [[0]], hidden=HiddenFacts(np.array([0, 1, 1]), np.array([0])))

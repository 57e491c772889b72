"""Small kernels of feature evaluation against plain Python."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from numba import njit

from feature_cases import case
from gaifman.features.evaluator import _new_local_facts
from gaifman.kernels import bitset_vm as b
from gaifman.kernels.collections import lowest_bit, popcount, sort_distinct
from gaifman.kernels.graph import find_edge, may_be_adjacent, number_label_sets
from gaifman.kernels.jit import prefetch
from gaifman.kernels.local_facts import gather_binary_facts, gather_facts, reset_local_facts
from gaifman.kernels.rows import (
    RowBuffer,
    SparseOutput,
    copy_duplicates,
    flush_row,
    increment_feature,
    merge,
    set_feature,
)
from gaifman.kernels.templates import (
    constant_key,
    count_feature,
    exists_feature,
    find_slot,
    label_bit,
    pack_features,
    path_key,
    walk_key,
)
from generators import over_seeds

# Inner kernels have no way in from Python: each gets one here.


@njit
def _bits_of(words: Any) -> tuple[int, int]:
    count = place = 0
    for word in words:
        count += popcount(word)
        place += lowest_bit(word)
    return count, place


@njit
def _put_out(met: Any, features: Any, counted: Any, duplicates: Any, output: Any) -> int:
    for feature in features:
        set_feature(met, feature)
    for feature in counted:
        increment_feature(met, feature)
    copy_duplicates(met, duplicates)
    return flush_row(met, output)


@njit
def _edges(links: Any, pairs: Any, found: Any, touch: Any) -> None:
    for p in range(len(pairs)):
        prefetch(links.neighbours, pairs[p, 0])
        found[p] = find_edge(links, pairs[p, 0], pairs[p, 1])
        touch[p] = may_be_adjacent(links, pairs[p, 0], pairs[p, 1])


@njit
def _sorted(run: Any, along: Any, begin: int, end: int, copy: Any, copied: Any) -> None:
    sort_distinct(run, along, begin, end, copy, copied)


@njit
def _gathered(
    arrays: Any, members: Any, hidden: Any, hidden_rows: Any, wanted: Any, local: Any, label_sets: bool
) -> bool:
    if label_sets:
        whole = gather_binary_facts(arrays.graph, arrays.facts, members, hidden, hidden_rows, wanted, local)
    else:
        whole = gather_facts(arrays.graph, arrays.facts, members, hidden, np.uint64(0), local)
    return whole


@njit
def _forgotten(members: Any, local: Any) -> None:
    reset_local_facts(members, local)


@njit
def _tables(words: Any, offsets: Any, axes: Any, counts: Any, at: Any, members: int, width: int, every: bool) -> int:
    sheet = b.BitTables(words, offsets, axes, counts, at, members, width)
    b.negate_table(sheet, 1, 0)
    b.combine_tables(sheet, 2, 0, 1, b.OR)
    b.combine_tables(sheet, 3, 0, 4, b.AND)
    b.quantify_table(sheet, 5, 0, 1, every)
    b.quantify_table(sheet, 6, 0, 0, every)
    b.quantify_table(sheet, 7, 6, 1, every)
    return b.count_tuples(sheet, 0)


def test_bits_are_counted_and_the_lowest_found() -> None:
    rng = random.Random(1)
    numbers = [1, 1 << 63, (1 << 64) - 1, *(rng.getrandbits(64) | 1 << rng.randrange(64) for _ in range(500))]
    count, place = _bits_of(np.array(numbers, np.uint64))
    assert count == sum(number.bit_count() for number in numbers)
    assert place == sum((number & -number).bit_length() - 1 for number in numbers)


@pytest.mark.parametrize("features", [1, 64, 65, 5000, 20_000])
def test_features_are_flushed_in_order_once(features: int) -> None:
    rng = np.random.default_rng(features)
    words = (features + 63) >> 6
    chosen, counted = rng.integers(0, features, 40), rng.integers(0, features, 30)
    chosen = np.setdiff1d(chosen, counted)
    flags = np.zeros(words * 64, np.uint8)
    flags[counted] = 1
    counts = np.packbits(flags, bitorder="little").view(np.uint64)
    met = RowBuffer(
        np.zeros(words, np.uint64), np.zeros((words + 63) >> 6, np.uint64), counts, np.zeros(features, np.float32)
    )
    output = SparseOutput(
        np.zeros(100, np.int32), np.zeros(100, np.float32), np.zeros(1, np.int64), np.zeros(3, np.int64)
    )
    end = _put_out(met, np.repeat(chosen, 2), counted, np.zeros((0, 2), np.int32), output)
    expected = {int(feature): 1.0 for feature in chosen}
    for feature in counted.tolist():
        expected[feature] = expected.get(feature, 0.0) + 1.0
    assert dict(zip(output.ids[:end].tolist(), output.values[:end].tolist(), strict=True)) == expected
    assert output.ids[:end].tolist() == sorted(expected)
    assert not met.bits.any()
    assert not met.tops.any()
    assert not met.values.any()


def test_a_duplicate_has_the_value_of_the_first() -> None:
    met = RowBuffer(
        np.zeros(1, np.uint64), np.zeros(1, np.uint64), np.array([0b1100], np.uint64), np.zeros(9, np.float32)
    )
    output = SparseOutput(np.zeros(9, np.int32), np.zeros(9, np.float32), np.zeros(1, np.int64), np.zeros(3, np.int64))
    duplicates = np.array([[0, 1], [2, 3], [4, 5]], np.int32)
    end = _put_out(met, np.array([0]), np.array([2, 2, 2]), duplicates, output)
    assert output.ids[:end].tolist() == [0, 1, 2, 3]
    assert output.values[:end].tolist() == [1, 1, 3, 3]


@over_seeds(10)
def test_two_matrices_are_merged_row_by_row(seed: int) -> None:
    rng = np.random.default_rng(seed)
    dense = rng.integers(0, 3, (7, 12)).astype(np.float32)
    side = rng.integers(0, 2, 12).astype(bool)

    def rows(kept: npt.NDArray[np.bool_]) -> SparseOutput:
        where = (dense != 0) & kept
        ids = [np.flatnonzero(row).astype(np.int32) for row in where]
        values = np.concatenate([dense[i, found] for i, found in enumerate(ids)])
        return SparseOutput(np.concatenate(ids), values, np.cumsum(where.sum(axis=1)), np.zeros(3, np.int64))

    both, whole = rows(np.ones(12, bool)), rows(np.ones(12, bool))
    merge(rows(side), rows(~side), both._replace(ids=both.ids * 0, values=both.values * 0, ends=both.ends * 0))
    into = SparseOutput(np.zeros_like(whole.ids), np.zeros_like(whole.values), np.zeros_like(whole.ends), whole.state)
    merge(rows(side), rows(~side), into)
    assert into.ids.tolist() == whole.ids.tolist()
    assert into.values.tolist() == whole.values.tolist()
    assert into.ends.tolist() == whole.ends.tolist()


@over_seeds(10)
def test_edges_are_found_where_there_are_some(seed: int) -> None:
    _, graph, _ = case(seed)
    pairs = np.array([(a, c) for a in range(len(graph)) for c in range(len(graph))], np.int64)
    found, touch = np.zeros(len(pairs), np.int64), np.zeros(len(pairs), np.uint8)
    _edges(graph.arrays.graph, pairs, found, touch)
    for (a, c), edge, near in zip(pairs.tolist(), found.tolist(), touch.tolist(), strict=True):
        row = graph.neighbour_ids(a).tolist()
        assert edge == (int(graph.starts[a]) + row.index(c) if c in row else -1)
        assert near or c not in row


@pytest.mark.parametrize("count", [0, 1, 20, 399, 401, 900])
def test_payload_is_sorted_with_the_numbers(count: int) -> None:
    rng = np.random.default_rng(count)
    run, along = rng.permutation(5000)[: count + 4].astype(np.int32), np.arange(count + 4, dtype=np.int32)
    expected = run.copy()
    order = np.argsort(run[2 : 2 + count])
    expected[2 : 2 + count] = expected[2 : 2 + count][order]
    first = along[2 : 2 + count].copy()
    _sorted(run, along, 2, 2 + count, np.zeros(count + 4, np.int32), np.zeros(count + 4, np.int32))
    assert run.tolist() == expected.tolist()
    assert along[2 : 2 + count].tolist() == first[order].tolist()


@over_seeds(15)
def test_facts_gathered_by_label_set_equal_those_gathered_one_by_one(seed: int) -> None:
    from gaifman.kb.gaifman_graph import build_graph
    from gaifman.kb.knowledge_base import KnowledgeBase
    from gaifman.kb.tables import freeze
    from gaifman.sampling.neighbourhoods import fact_rows

    rng, wide, _ = case(seed)
    facts = [fact for fact in wide.kb.facts() if len(fact.objects) < 3]
    graph = build_graph(KnowledgeBase.from_facts(facts, objects=list(wide.kb.objects)))
    if not len(graph.kb):
        return
    members = freeze(np.array(rng.sample(range(len(graph)), rng.randint(1, len(graph))), np.int32))
    hidden = freeze(np.array(sorted(rng.sample(range(len(graph.kb)), min(3, len(graph.kb)))), np.int64))
    wanted = np.ones(len(graph.kb.content.relations), np.uint8)
    found = []
    for label_sets in (True, False):
        local = _new_local_facts(graph, 4000)
        assert _gathered(graph.arrays, members, hidden, fact_rows(graph, hidden), freeze(wanted), local, label_sets)
        inside = set()
        for relation in local.present[: local.counts[1]].tolist():
            arity, fact = graph.kb.content.arities[relation], int(local.first_fact[relation])
            while fact >= 0:
                inside.add((relation, *local.arguments[fact, :arity].tolist()))
                fact = int(local.next_fact[fact])
        assert len(inside) == local.counts[0]
        found.append(inside)
        _forgotten(members, local)
        assert local.member_index.max(initial=-1) == local.first_fact.max(initial=-1) == -1
    assert found[0] == found[1]


@pytest.mark.parametrize("members", [1, 5, 63, 64, 65, 130])
@pytest.mark.parametrize("every", [True, False])
def test_tables_of_bits_do_what_sets_do(members: int, every: bool) -> None:
    """Tables over (x0, x1), their negation and union, joined with one over x1, and quantified either way."""
    width, rng = (members + 63) >> 6, np.random.default_rng(members)
    size = members * width
    offsets = np.cumsum([0, size, size, size, size, width, width, width + 1]).astype(np.int64)
    words = np.zeros(int(offsets[-1]) + 1, np.uint64)
    axes = np.array([[0, 1], [0, 1], [0, 1], [0, 1], [1, -1], [0, -1], [1, -1], [-1, -1]], np.int32)
    counts = np.array([2, 2, 2, 2, 1, 1, 1, 0], np.int32)
    one = rng.random((members, members)) < (0.97 if every else 0.03)
    row = rng.random(members) < 0.5

    def packed(flags: npt.NDArray[np.bool_]) -> npt.NDArray[np.uint64]:
        padded = np.zeros((*flags.shape[:-1], width * 64), np.uint8)
        padded[..., :members] = flags
        return np.packbits(padded, axis=-1, bitorder="little").view(np.uint64).ravel()

    words[:size], words[offsets[4] : offsets[4] + width] = packed(one), packed(row)
    total = _tables(words, offsets, axes, counts, np.zeros(4, np.int32), members, width, every)
    whole = np.all if every else np.any
    assert total == one.sum()
    for register, expected in ((1, ~one), (2, one | ~one), (3, one & row), (5, whole(one, 1)), (6, whole(one, 0))):
        assert words[offsets[register] :][: expected.size // members * width].tolist() == packed(expected).tolist()
    assert bool(words[offsets[7]]) == bool(whole(one))


def test_label_sets_need_a_larger_table() -> None:
    starts, labels = np.arange(11, dtype=np.int64), np.arange(10, dtype=np.int32)
    label_sets = np.zeros(10, np.int32)
    assert number_label_sets(starts, labels, np.full(8, -1, np.int32), label_sets, np.zeros(4, np.int64)) == -1
    assert number_label_sets(starts, labels, np.full(32, -1, np.int32), label_sets, np.zeros(16, np.int64)) == 10
    assert label_sets.tolist() == list(range(10))
    assert number_label_sets(starts, labels % 3, np.full(32, -1, np.int32), label_sets, np.zeros(16, np.int64)) == 3
    assert label_sets.tolist() == [0, 1, 2] * 3 + [0]


def test_path_keys_are_distinct() -> None:
    numbers = [path_key(pair, a, c, 5) for pair in range(4) for a in range(5) for c in range(5)]
    assert len(set(numbers)) == 100
    walks = [walk_key(p, a, m, c, 3) for p in range(4) for a in range(3) for m in range(3) for c in range(3)]
    assert len(set(walks)) == 108
    fixes = [constant_key(i, label, 4, obj, 6) for i in range(2) for label in range(4) for obj in range(6)]
    assert len(set(fixes)) == 48
    table = np.full((256, 2), -1, np.int64)
    for number in numbers:
        table[find_slot(table, number), 0] = number
    assert sorted(table[table[:, 0] >= 0, 0].tolist()) == sorted(numbers)
    assert all(table[find_slot(table, number), 0] == number for number in numbers)
    for some, many in ((-1, -1), (0, -1), (-1, 7), (2_000_000_000, 5)):
        assert (exists_feature(pack_features(some, many)), count_feature(pack_features(some, many))) == (some, many)
    assert [label_bit(label) for label in (0, 1, 63, 64)] == [1, 2, 1 << 63, 1]

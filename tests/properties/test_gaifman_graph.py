"""The Gaifman graph equals its definition by sets, and the paper's worked example."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaifman.errors import KnowledgeBaseError
from gaifman.kb.gaifman_graph import GaifmanGraph, build_graph
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.kb.tables import concatenate_ranges
from kbs import knowledge_bases
from reference_graph import adjacent, reached

small = knowledge_bases(attributes=False, isolated=True)


# The paper


@pytest.fixture
def worked() -> GaifmanGraph:
    """Six objects, as in the paper's worked example; the edges it does not speak of are ours."""
    pairs = [("d1", "d2"), ("d1", "d3"), ("d1", "d4"), ("d2", "d4"), ("d2", "d6"), ("d4", "d5"), ("d1", "d5")]
    return build_graph(KnowledgeBase.from_facts([("r", one, other) for one, other in pairs]))


def test_the_worked_example_of_the_paper(worked: GaifmanGraph) -> None:
    assert len(worked) == 6
    assert set(worked.ball(["d4"], 1)) - {"d4"} == {"d1", "d2", "d5"}
    assert worked.ball(["d1", "d2"], 1) == ("d1", "d2", "d3", "d4", "d5", "d6")


def test_a_ball_of_radius_0_is_the_objects_themselves(worked: GaifmanGraph) -> None:
    assert worked.ball(["d6", "d1"], 0) == ("d1", "d6")
    assert worked.ball([], 3) == ()


# The definition


@given(small)
def test_neighbours_are_those_of_the_definition(kb: KnowledgeBase) -> None:
    graph, rows = build_graph(kb), adjacent(kb)
    assert {name: set(graph.neighbours_of(name)) for name in kb.objects} == rows
    assert graph.degrees.tolist() == [len(rows[name]) for name in kb.objects]
    for number in range(len(graph)):
        assert (np.diff(graph.neighbour_ids(number)) > 0).all()


@given(small)
def test_labels_and_facts_of_each_edge_are_those_of_the_definition(kb: KnowledgeBase) -> None:
    graph = build_graph(kb)
    expected: dict[tuple[str, str], list[tuple[object, ...]]] = {}
    for fact in kb.facts():
        for i, j in permutations(range(len(fact.objects)), 2):
            if fact.objects[i] != fact.objects[j]:
                pair = fact.objects[i], fact.objects[j]
                expected.setdefault(pair, []).append((fact, (fact.relation, i + 1, j + 1)))
    found: dict[tuple[str, str], list[tuple[object, ...]]] = {}
    for number, one in enumerate(kb.objects):
        for edge in range(graph.starts[number], graph.starts[number + 1]):
            other = kb.object_name(int(graph.neighbours[edge]))
            for at in range(graph.label_starts[edge], graph.label_starts[edge + 1]):
                relation, i, j = graph.label_table[graph.labels[at]].tolist()
                label = (kb.content.relations[relation], i + 1, j + 1)
                found.setdefault((one, other), []).append((graph.kb.fact_by_id(int(graph.label_facts[at])), label))
            assert set(graph.labels_of(one, other)) == {label for _, label in expected[one, other]}
    assert {pair: sorted(map(repr, entries)) for pair, entries in found.items()} == {
        pair: sorted(map(repr, entries)) for pair, entries in expected.items()
    }


@given(small, st.integers(0, 4), st.data())
def test_balls_and_distances_are_those_of_the_definition(kb: KnowledgeBase, radius: int, data: st.DataObject) -> None:
    graph, rows = build_graph(kb), adjacent(kb)
    origins = data.draw(st.sets(st.sampled_from(kb.objects), max_size=3)) if kb.objects else set()
    near, all_ = reached(rows, origins, radius), reached(rows, origins, len(kb.objects))
    assert graph.ball(origins, radius) == tuple(sorted(near))
    far = graph.distances([kb.object_id(name) for name in origins])
    assert {name: int(far[kb.object_id(name)]) for name in kb.objects if far[kb.object_id(name)] >= 0} == all_
    for one in origins:
        alone = reached(rows, {one}, len(kb.objects))
        for name in kb.objects:
            assert graph.distance(one, name) == alone.get(name)


@given(small)
def test_the_degree_distribution_counts_every_object_once(kb: KnowledgeBase) -> None:
    degrees, counts = build_graph(kb).degree_distribution()
    expected = [len(row) for row in adjacent(kb).values()]
    assert dict(zip(degrees.tolist(), counts.tolist(), strict=True)) == {d: expected.count(d) for d in set(expected)}


@given(small, st.data())
def test_fact_numbers_finds_each_fact_and_no_other(kb: KnowledgeBase, data: st.DataObject) -> None:
    graph = build_graph(kb)
    for arity, table in kb.fact_tables.items():
        numbers = graph.kb.fact_ids(table.relation, table.objects)
        assert numbers.tolist() == [graph.kb.fact_offsets[arity] + row for row in range(len(table))]
    arity, count = data.draw(st.integers(1, 4)), data.draw(st.integers(0, 6))
    if not len(kb.relations) or not kb:
        return
    numbers_ = st.integers(0, len(kb.objects) - 1)
    tuples = np.array([[data.draw(numbers_) for _ in range(arity)] for _ in range(count)], np.int32)
    relation = data.draw(st.integers(0, len(kb.relations) - 1))
    for row, number in zip(tuples, graph.kb.fact_ids(relation, tuples.reshape(count, arity)), strict=True):
        names = tuple(kb.object_name(int(obj)) for obj in row)
        assert (number >= 0) == ((kb.content.relations[relation], *names) in kb)
        if number >= 0:
            assert graph.kb.fact_by_id(int(number)).objects == names


# Corners


def test_unary_facts_and_an_object_with_itself_give_no_edge() -> None:
    graph = build_graph(
        KnowledgeBase.from_facts([("old", "ann"), ("likes", "bob", "bob"), ("gave", "cleo", "cleo", "dan")])
    )
    assert repr(graph) == "<GaifmanGraph: 4 objects, 1 edge, largest degree 1>"
    assert graph.neighbours_of("cleo") == ("dan",)
    assert graph.labels_of("cleo", "dan") == (("gave", 1, 3), ("gave", 2, 3))
    assert graph.labels_of("ann", "bob") == ()


def test_a_knowledge_base_without_facts_or_objects_has_a_graph() -> None:
    assert repr(build_graph(KnowledgeBase.from_facts([]))) == "<GaifmanGraph: 0 objects, 0 edges, largest degree 0>"
    alone = build_graph(KnowledgeBase.from_facts([], objects=["ann"]))
    assert alone.neighbours_of("ann") == ()
    assert alone.distance("ann", "ann") == 0


def test_arrays_cannot_be_written(worked: GaifmanGraph) -> None:
    for array in (worked.starts, worked.neighbours, worked.label_starts, worked.labels, worked.label_facts):
        assert not array.flags.writeable


def test_ranges_are_joined() -> None:
    assert concatenate_ranges(np.array([], np.int64), np.array([], np.int64)).tolist() == []
    assert concatenate_ranges(np.array([5, 2, 9]), np.array([5, 4, 10])).tolist() == [2, 3, 9]


def test_errors_of_the_graph(worked: GaifmanGraph) -> None:
    with pytest.raises(KnowledgeBaseError, match="there is no object frnce\ndid you mean: france"):
        build_graph(KnowledgeBase.from_facts([("borders", "france", "spain")])).neighbours_of("frnce")
    with pytest.raises(KnowledgeBaseError, match="radius must be an integer of at least 0, got -1\nhint: r=1"):
        worked.ball(["d1"], -1)
    with pytest.raises(KnowledgeBaseError, match=r"write \['d1'\], not 'd1'"):
        worked.ball("d1", 1)
    with pytest.raises(KnowledgeBaseError, match="facts are numbered from 0 to 6, got 7"):
        worked.kb.fact_by_id(7)

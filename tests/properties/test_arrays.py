"""Kernel arrays agree with the graph."""

from __future__ import annotations

import gc
import weakref

import numpy as np

import gaifman
from feature_cases import case
from gaifman.kb.gaifman_graph import build_graph, fact_arrays, labelled_graph
from gaifman.kb.knowledge_base import KnowledgeBase
from generators import over_seeds


@over_seeds(20)
def test_a_label_set_has_the_labels_of_its_edge(seed: int) -> None:
    _, graph, _ = case(seed)
    links = labelled_graph(graph)
    for edge in range(len(graph.neighbours)):
        label_set = links.label_sets[edge]
        listed = links.label_set_labels[links.label_set_starts[label_set] : links.label_set_starts[label_set + 1]]
        assert listed.tolist() == graph.labels[graph.label_starts[edge] : graph.label_starts[edge + 1]].tolist()
    lists = [
        links.label_set_labels[a:b].tobytes()
        for a, b in zip(links.label_set_starts, links.label_set_starts[1:], strict=False)
    ]
    assert len(set(lists)) == len(lists)


@over_seeds(20)
def test_a_reversed_label_exchanges_the_positions(seed: int) -> None:
    _, graph, _ = case(seed)
    links = labelled_graph(graph)
    assert graph.label_table[links.reversed_labels][:, [0, 2, 1]].tolist() == graph.label_table.tolist()
    assert links.all_binary == all(arity < 3 for arity in graph.kb.content.arities)


@over_seeds(20)
def test_facts_are_numbered_as_in_the_graph(seed: int) -> None:
    _, graph, _ = case(seed)
    facts = fact_arrays(graph)
    for number in range(len(graph.kb)):
        fact = graph.kb.fact_by_id(number)
        objects = facts.objects[facts.starts[number] : facts.starts[number + 1]]
        assert graph.kb.content.relations[int(facts.relations[number])] == fact.relation
        assert tuple(graph.kb.object_name(int(obj)) for obj in objects) == fact.objects
    alone = [n for n in range(len(graph.kb)) if len(set(graph.kb.fact_by_id(n).objects)) == 1]
    assert sorted(facts.own.tolist()) == alone


def test_the_bloom_filter_has_every_edge_and_few_others() -> None:
    from gaifman.kernels.graph import LabelledGraph

    graph = build_graph(gaifman.demo())
    links = labelled_graph(graph)

    def through(links: LabelledGraph, one: int, other: int) -> bool:
        low, high = np.uint64(min(one, other)), np.uint64(max(one, other))
        with np.errstate(over="ignore"):
            mixed = (low * np.uint64(0x9E3779B97F4A7C15) + high) * np.uint64(0xBF58476D1CE4E5B9)
        word = links.bloom_filter[int(mixed >> np.uint64(38)) & (len(links.bloom_filter) - 1)]
        return all(int(word) >> (int(mixed >> np.uint64(shift)) & 63) & 1 for shift in (32, 26))

    count, wrong, tried = len(graph), 0, 0
    for one in range(count):
        row = set(graph.neighbour_ids(one).tolist())
        assert all(through(links, one, other) for other in row)
        for other in range((7 * one) % 13, count, 13):
            if other not in row and other != one:
                tried += 1
                wrong += through(links, one, other)
    assert wrong < 0.05 * tried


def test_arrays_are_built_once_and_freed_with_the_graph() -> None:
    graph = build_graph(KnowledgeBase.from_facts([("r", "a", "b")]))
    arrays = weakref.ref(graph.arrays.graph.label_sets)
    assert graph.arrays is graph.arrays
    del graph
    gc.collect()
    assert arrays() is None

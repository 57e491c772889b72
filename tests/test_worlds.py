"""What the kernels know of a graph is what the graph says."""

from __future__ import annotations

import gc

import numpy as np

import gaifman
from gaifman.graph import graph_of
from gaifman.kb import KnowledgeBase
from gaifman.worlds import incidence_of, links_of, world_of
from generators import over_seeds
from test_features import case


@over_seeds(20)
def test_a_bond_has_the_labels_of_its_edge(seed: int) -> None:
    _, graph, _ = case(seed)
    links = links_of(graph)
    for edge in range(len(graph.neighbours)):
        bond = links.bonds[edge]
        listed = links.bond_labels[links.bond_starts[bond] : links.bond_starts[bond + 1]]
        assert listed.tolist() == graph.labels[graph.label_starts[edge] : graph.label_starts[edge + 1]].tolist()
    lists = [links.bond_labels[a:b].tobytes() for a, b in zip(links.bond_starts, links.bond_starts[1:], strict=False)]
    assert len(set(lists)) == len(lists)


@over_seeds(20)
def test_a_turned_label_exchanges_the_places(seed: int) -> None:
    _, graph, _ = case(seed)
    links = links_of(graph)
    assert graph.label_table[links.turned][:, [0, 2, 1]].tolist() == graph.label_table.tolist()
    assert links.pure == all(arity < 3 for arity in graph.kb.content.arities)


@over_seeds(20)
def test_facts_stand_where_the_graph_numbers_them(seed: int) -> None:
    _, graph, _ = case(seed)
    facts = incidence_of(graph)
    for number in range(len(graph.kb)):
        fact = graph.fact(number)
        objects = facts.objects[facts.starts[number] : facts.starts[number + 1]]
        assert graph.kb.content.relations[int(facts.relations[number])] == fact.relation
        assert tuple(graph.kb.name(int(obj)) for obj in objects) == fact.objects
    alone = [n for n in range(len(graph.kb)) if len(set(graph.fact(n).objects)) == 1]
    assert sorted(facts.own.tolist()) == alone


def test_the_sieve_lets_every_edge_through_and_stops_most_others() -> None:
    from gaifman.kernels.local import Links

    graph = graph_of(gaifman.demo())
    links = links_of(graph)

    def through(links: Links, one: int, other: int) -> bool:
        low, high = np.uint64(min(one, other)), np.uint64(max(one, other))
        with np.errstate(over="ignore"):
            mixed = (low * np.uint64(0x9E3779B97F4A7C15) + high) * np.uint64(0xBF58476D1CE4E5B9)
        word = links.sieve[int(mixed >> np.uint64(38)) & (len(links.sieve) - 1)]
        return all(int(word) >> (int(mixed >> np.uint64(shift)) & 63) & 1 for shift in (32, 26))

    count, wrong, tried = len(graph), 0, 0
    for one in range(count):
        row = set(graph.row(one).tolist())
        assert all(through(links, one, other) for other in row)
        for other in range((7 * one) % 13, count, 13):
            if other not in row and other != one:
                tried += 1
                wrong += through(links, one, other)
    assert wrong < 0.05 * tried


def test_a_graph_is_looked_at_once_and_forgotten_with_it() -> None:
    from gaifman.worlds import _WORLDS

    graph = graph_of(KnowledgeBase.from_facts([("r", "a", "b")]))
    assert world_of(graph) is world_of(graph)
    gc.collect()  # graphs that other tests have left behind go now, not below
    before = len(_WORLDS)
    del graph
    gc.collect()
    assert len(_WORLDS) == before - 1

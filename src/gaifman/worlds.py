"""What the kernels know of a graph: its arrays, and what is found once so that each neighbourhood costs less.

>>> import gaifman
>>> from gaifman.graph import graph_of
>>> world = world_of(graph_of(gaifman.demo()))
>>> len(world.links.bonds), len(world.links.bond_starts) - 1  # edges, and the different lists of labels they have
(7446, 89)
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

import numpy as np

from gaifman.drawing import frozen
from gaifman.graph import Graph, label_bases, ranges
from gaifman.kernels.evaluation import World
from gaifman.kernels.local import Incidence, Links, set_bonds, set_sieve
from gaifman.kernels.machine import Values
from gaifman.tables import Ints

SIEVE = 16
"""Bits for each edge in the sieve that says where there is none: about one look in a hundred says it wrongly."""

_WORLDS: WeakKeyDictionary[Graph, World] = WeakKeyDictionary()


def world_of(graph: Graph) -> World:
    """What the kernels know of a graph: found once, however many plans are made ready for it."""
    if graph not in _WORLDS:
        _WORLDS[graph] = World(links_of(graph), incidence_of(graph), _values(graph))
    return _WORLDS[graph]


def links_of(graph: Graph) -> Links:
    """The graph as the kernels see it."""
    arrays = (graph.starts, graph.neighbours, graph.label_starts, graph.labels, graph.facts, graph.label_table)
    arities = np.array(graph.kb.content.arities, np.int64)
    binary = (arities[graph.label_table[:, 0]] == 2).astype(np.uint8)
    words = 8
    while words * 64 < SIEVE * (len(graph.neighbours) // 2):
        words *= 2
    sieve = np.zeros(words, np.uint64)
    set_sieve(graph.starts, graph.neighbours, sieve)
    labels = label_bases(graph), frozen(binary), _turned(graph), bool(binary.all())
    return Links(*arrays, *labels, frozen(sieve), *_bonds(graph))


def _turned(graph: Graph) -> Ints:
    """Each label seen from the other end: of the labels of a relation, the one with its two places exchanged."""
    relation, one, other = graph.label_table.T.astype(np.int64)
    key, back = (relation << 8) + (one << 4) + other, (relation << 8) + (other << 4) + one
    order = np.argsort(key)
    return frozen(order[np.searchsorted(key, back, sorter=order)].astype(np.int32))


def _bonds(graph: Graph) -> tuple[Ints, Ints, Ints]:
    """The different lists of labels that edges have: see `Links`."""
    bonds, count, room = np.empty(len(graph.neighbours), np.int32), -1, 1 << 10
    while count < 0:
        room *= 4
        table, firsts = np.full(room, -1, np.int32), np.empty(room // 2, np.int64)
        count = set_bonds(graph.label_starts, graph.labels, table, bonds, firsts)
    begins, ends = graph.label_starts[firsts[:count]], graph.label_starts[firsts[:count] + 1]
    starts = np.append(0, np.cumsum(ends - begins)).astype(np.int32)
    return frozen(bonds), frozen(starts), frozen(graph.labels[ranges(begins, ends)])


def incidence_of(graph: Graph) -> Incidence:
    """All facts by number, as the kernels see them."""
    tables = [graph.kb.tables[arity] for arity in graph.fact_offsets]
    none = np.zeros(0, np.int32)
    relations = np.concatenate([none, *(table.relation for table in tables)])
    arities = np.concatenate([none, *(np.full(len(t), t.objects.shape[1], np.int32) for t in tables)])
    objects = np.concatenate([none, *(table.objects.ravel() for table in tables)])
    starts = np.append(0, np.cumsum(arities, dtype=np.int64))
    alone = [
        np.flatnonzero((t.objects == t.objects[:, :1]).all(axis=1)) + graph.fact_offsets[a]
        for a, t in zip(graph.fact_offsets, tables, strict=True)
    ]
    own = np.concatenate([np.zeros(0, np.int64), *alone])
    holders = objects[starts[own]]
    order = np.lexsort([own, holders])
    own_starts = np.searchsorted(holders[order], np.arange(len(graph) + 1))
    certain = all(table.confidence is None for table in tables)
    confidence = [np.ones(len(t)) if t.confidence is None else t.confidence for t in tables]
    return Incidence(
        frozen(relations),
        frozen(starts),
        frozen(objects),
        frozen(own_starts.astype(np.int64)),
        frozen(own[order].astype(np.int32)),
        frozen(np.concatenate([np.zeros(0), *([] if certain else confidence)])),
    )


def _values(graph: Graph) -> Values:
    numbers = graph.kb.numbers
    return Values(numbers.starts, numbers.object, numbers.value)

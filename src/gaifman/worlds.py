"""What the kernels know of a graph: its arrays, and what is found once so that each neighbourhood costs less.

>>> import gaifman
>>> from gaifman.kb.gaifman_graph import graph_of
>>> world = knowledge_base_arrays(graph_of(gaifman.demo()))
>>> len(world.links.bonds), len(world.links.bond_starts) - 1  # edges, and the different lists of labels they have
(7446, 89)
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

import numpy as np

from gaifman.drawing import freeze
from gaifman.kb.gaifman_graph import GaifmanGraph, concatenate_ranges, label_offsets
from gaifman.kb.tables import Ints
from gaifman.kernels.bitset_vm import AttributeArrays
from gaifman.kernels.evaluate import KnowledgeBaseArrays
from gaifman.kernels.local_facts import FactArrays, LabelledGraph, fill_bloom_filter, number_label_sets

BLOOM_BITS_PER_EDGE = 16
"""Bits for each edge in the sieve that says where there is none: about one look in a hundred says it wrongly."""

_WORLDS: WeakKeyDictionary[GaifmanGraph, KnowledgeBaseArrays] = WeakKeyDictionary()


def knowledge_base_arrays(graph: GaifmanGraph) -> KnowledgeBaseArrays:
    """What the kernels know of a graph: found once, however many plans are made ready for it."""
    if graph not in _WORLDS:
        _WORLDS[graph] = KnowledgeBaseArrays(labelled_graph(graph), fact_arrays(graph), _attribute_arrays(graph))
    return _WORLDS[graph]


def labelled_graph(graph: GaifmanGraph) -> LabelledGraph:
    """The graph as the kernels see it."""
    arrays = (graph.starts, graph.neighbours, graph.label_starts, graph.labels, graph.label_facts, graph.label_table)
    arities = np.array(graph.kb.content.arities, np.int64)
    binary = (arities[graph.label_table[:, 0]] == 2).astype(np.uint8)
    words = 8
    while words * 64 < BLOOM_BITS_PER_EDGE * (len(graph.neighbours) // 2):
        words *= 2
    sieve = np.zeros(words, np.uint64)
    fill_bloom_filter(graph.starts, graph.neighbours, sieve)
    labels = label_offsets(graph), freeze(binary), _reversed_labels(graph), bool(binary.all())
    return LabelledGraph(*arrays, *labels, freeze(sieve), *_label_sets(graph))


def _reversed_labels(graph: GaifmanGraph) -> Ints:
    """Each label seen from the other end: of the labels of a relation, the one with its two places exchanged."""
    relation, one, other = graph.label_table.T.astype(np.int64)
    key, back = (relation << 8) + (one << 4) + other, (relation << 8) + (other << 4) + one
    order = np.argsort(key)
    return freeze(order[np.searchsorted(key, back, sorter=order)].astype(np.int32))


def _label_sets(graph: GaifmanGraph) -> tuple[Ints, Ints, Ints]:
    """The different lists of labels that edges have: see `LabelledGraph`."""
    bonds, count, room = np.empty(len(graph.neighbours), np.int32), -1, 1 << 10
    while count < 0:
        room *= 4
        table, firsts = np.full(room, -1, np.int32), np.empty(room // 2, np.int64)
        count = number_label_sets(graph.label_starts, graph.labels, table, bonds, firsts)
    begins, ends = graph.label_starts[firsts[:count]], graph.label_starts[firsts[:count] + 1]
    starts = np.append(0, np.cumsum(ends - begins)).astype(np.int32)
    return freeze(bonds), freeze(starts), freeze(graph.labels[concatenate_ranges(begins, ends)])


def fact_arrays(graph: GaifmanGraph) -> FactArrays:
    """All facts by number, as the kernels see them."""
    tables = [graph.kb.fact_tables[arity] for arity in graph.fact_offsets]
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
    return FactArrays(
        freeze(relations),
        freeze(starts),
        freeze(objects),
        freeze(own_starts.astype(np.int64)),
        freeze(own[order].astype(np.int32)),
        freeze(np.concatenate([np.zeros(0), *([] if certain else confidence)])),
    )


def _attribute_arrays(graph: GaifmanGraph) -> AttributeArrays:
    numbers = graph.kb.value_table
    return AttributeArrays(numbers.starts, numbers.objects, numbers.value)

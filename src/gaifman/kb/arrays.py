"""A knowledge base as the kernels read it: arrays that are built once per graph (`GaifmanGraph.arrays`).

>>> import gaifman
>>> from gaifman.kb.gaifman_graph import build_graph
>>> graph = build_graph(gaifman.demo()).arrays.graph
>>> len(graph.label_sets), len(graph.label_set_starts) - 1  # edges, and distinct lists of labels
(7446, 89)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gaifman.kb.tables import Ints, concatenate_ranges, freeze
from gaifman.kernels.evaluate import KnowledgeBaseArrays
from gaifman.kernels.graph import Adjacency, LabelledGraph, fill_bloom_filter, number_label_sets
from gaifman.kernels.local_facts import FactArrays
from gaifman.kernels.numbers import AttributeArrays

if TYPE_CHECKING:
    from gaifman.kb.gaifman_graph import GaifmanGraph

BLOOM_BITS_PER_EDGE = 16
"""Bits per edge in the Bloom filter of edges: about 1 % false positives."""


def knowledge_base_arrays(graph: GaifmanGraph) -> KnowledgeBaseArrays:
    """Return the graph, facts and attribute values as arrays. Use `graph.arrays`, which keeps them."""
    return KnowledgeBaseArrays(labelled_graph(graph), fact_arrays(graph), attribute_arrays(graph))


def adjacency(graph: GaifmanGraph) -> Adjacency:
    """Return the graph's rows and the facts of each edge."""
    return Adjacency(graph.starts, graph.neighbours, graph.label_starts, graph.label_facts)


def labelled_graph(graph: GaifmanGraph) -> LabelledGraph:
    """Return the graph with a Bloom filter of its edges and numbered label sets."""
    arrays = (graph.starts, graph.neighbours, graph.label_starts, graph.labels, graph.label_facts, graph.label_table)
    arities = np.array(graph.kb.content.arities, np.int64)
    binary = (arities[graph.label_table[:, 0]] == 2).astype(np.uint8)
    words = 8
    while words * 64 < BLOOM_BITS_PER_EDGE * (len(graph.neighbours) // 2):
        words *= 2
    bloom_filter = np.zeros(words, np.uint64)
    fill_bloom_filter(graph.starts, graph.neighbours, bloom_filter)
    labels = graph.label_offsets, freeze(binary), _reversed_labels(graph), bool(binary.all())
    return LabelledGraph(*arrays, *labels, freeze(bloom_filter), *_label_sets(graph))


def _reversed_labels(graph: GaifmanGraph) -> Ints:
    """Return for each label the label of the same relation with its two positions exchanged."""
    relation, one, other = graph.label_table.T.astype(np.int64)
    key, reversed_key = (relation << 8) + (one << 4) + other, (relation << 8) + (other << 4) + one
    order = np.argsort(key)
    return freeze(order[np.searchsorted(key, reversed_key, sorter=order)].astype(np.int32))


def _label_sets(graph: GaifmanGraph) -> tuple[Ints, Ints, Ints]:
    """Return the label set of each edge, and the distinct label sets as compressed rows; see `LabelledGraph`."""
    label_sets, count, slots = np.empty(len(graph.neighbours), np.int32), -1, 1 << 10
    while count < 0:
        slots *= 4
        table, first_edges = np.full(slots, -1, np.int32), np.empty(slots // 2, np.int64)
        count = number_label_sets(graph.label_starts, graph.labels, table, label_sets, first_edges)
    begins, ends = graph.label_starts[first_edges[:count]], graph.label_starts[first_edges[:count] + 1]
    starts = np.append(0, np.cumsum(ends - begins)).astype(np.int32)
    return freeze(label_sets), freeze(starts), freeze(graph.labels[concatenate_ranges(begins, ends)])


def attribute_arrays(graph: GaifmanGraph) -> AttributeArrays:
    """Return the values of attributes by attribute, and by object."""
    values = graph.kb.value_table
    rows = np.argsort(values.objects, kind="stable").astype(np.int32)
    starts = np.searchsorted(values.objects[rows], np.arange(len(graph) + 1)).astype(np.int64)
    return AttributeArrays(
        values.starts, values.objects, values.value, values.attribute, freeze(starts), freeze(rows), len(graph.kb)
    )


def fact_arrays(graph: GaifmanGraph) -> FactArrays:
    """Return all facts by number: relation, objects, confidence, and the facts of each object alone."""
    tables = [graph.kb.fact_tables[arity] for arity in graph.kb.fact_offsets]
    none = np.zeros(0, np.int32)
    relations = np.concatenate([none, *(table.relation for table in tables)])
    arities = np.concatenate([none, *(np.full(len(t), t.objects.shape[1], np.int32) for t in tables)])
    objects = np.concatenate([none, *(table.objects.ravel() for table in tables)])
    starts = np.append(0, np.cumsum(arities, dtype=np.int64))
    one_object = [
        np.flatnonzero((t.objects == t.objects[:, :1]).all(axis=1)) + graph.kb.fact_offsets[a]
        for a, t in zip(graph.kb.fact_offsets, tables, strict=True)
    ]
    own = np.concatenate([np.zeros(0, np.int64), *one_object])
    owners = objects[starts[own]]
    order = np.lexsort([own, owners])
    own_starts = np.searchsorted(owners[order], np.arange(len(graph) + 1))
    return FactArrays(
        freeze(relations),
        freeze(starts),
        freeze(objects),
        freeze(own_starts.astype(np.int64)),
        freeze(own[order].astype(np.int32)),
        freeze(graph.kb.confidences if graph.kb.has_confidences else np.zeros(0)),
    )

"""The Gaifman graph of a knowledge base: two objects are adjacent if they occur in one fact.

>>> facts = [("gave", "ann", "book", "cleo"), ("likes", "cleo", "dan"), ("old", "book")]
>>> kb = KnowledgeBase.from_facts(facts, objects=["eve"])
>>> graph = build_graph(kb)
>>> graph
<GaifmanGraph: 5 objects, 4 edges, largest degree 3>
>>> graph.neighbours_of("cleo"), graph.labels_of("cleo", "dan")
(('ann', 'book', 'dan'), (('likes', 1, 2),))
>>> graph.distance("ann", "dan"), graph.distance("ann", "eve"), graph.ball(["ann"], 1)
(2, None, ('ann', 'book', 'cleo'))
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import permutations
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gaifman.config import check_radius
from gaifman.errors import KnowledgeBaseError, plural
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.kb.tables import FactTable, Ints, Longs, concatenate_ranges, freeze
from gaifman.threads import cached_property

if TYPE_CHECKING:  # numba takes a quarter of a second to import
    from gaifman.kernels.evaluate import KnowledgeBaseArrays
    from gaifman.kernels.graph import Adjacency, LabelledGraph
    from gaifman.kernels.local_facts import FactArrays
    from gaifman.kernels.numbers import AttributeArrays


@dataclass(frozen=True, eq=False, repr=False)
class GaifmanGraph:
    """The Gaifman graph in compressed rows, with the labels and facts of each edge. Immutable.

    An *edge* is directed: each pair of adjacent objects has two, one in the row of either.
    """

    kb: KnowledgeBase
    """The knowledge base of the graph."""
    starts: Longs
    """Shape (objects + 1,), int64: the edges of object `d` are `starts[d]` to `starts[d + 1]`."""
    neighbours: Ints
    """Shape (edges,), int32: the target of each edge; ascending in each row, never the row's own object."""
    label_starts: Longs
    """Shape (edges + 1,), int64: the labels of edge `e` are `label_starts[e]` to `label_starts[e + 1]`."""
    labels: Ints
    """Shape (all labels,), int32: a row of `label_table`; an edge has one for each fact and pair of its positions."""
    label_facts: Ints
    """Shape (all labels,), int32: id of the fact that gives the label."""
    label_table: Ints
    """Shape (kinds of label, 3), int32: relation, position of the row's object, position of the neighbour, from 0."""
    label_offsets: Ints
    """Shape (relations,), int32: the first row of each relation in `label_table`."""

    def __repr__(self) -> str:
        edges = plural(len(self.neighbours) // 2, "edge")
        return f"<GaifmanGraph: {plural(len(self), 'object')}, {edges}, largest degree {self.degrees.max(initial=0):,}>"

    def __len__(self) -> int:
        """Return the number of objects."""
        return len(self.starts) - 1

    @cached_property
    def arrays(self) -> KnowledgeBaseArrays:
        """The knowledge base as the kernels read it, built on first use."""
        return knowledge_base_arrays(self)

    # By number

    @property
    def degrees(self) -> Longs:
        """Shape (objects,), int64: number of adjacent objects."""
        return np.diff(self.starts)

    def degree_distribution(self) -> tuple[Longs, Longs]:
        """Return the degrees that occur, ascending, and the number of objects of each.

        >>> kb = KnowledgeBase.from_facts([("likes", "ann", "bob"), ("likes", "ann", "cleo")])
        >>> [column.tolist() for column in build_graph(kb).degree_distribution()]
        [[1, 2], [2, 1]]
        """
        return np.unique_counts(self.degrees)

    def summary(self) -> dict[str, Any]:
        """Return statistics of the graph, for JSON."""
        degrees = self.degrees
        distribution = [(int(d), int(n)) for d, n in zip(*self.degree_distribution(), strict=True)]
        top = int(degrees.argmax()) if len(degrees) else None
        name = "" if top is None else self.kb.object_name(top)
        return {
            "objects": len(self),
            "edges": len(self.neighbours) // 2,
            "isolated": sum(n for d, n in distribution if d == 0),
            "mean_degree": float(degrees.mean()) if len(degrees) else 0.0,
            "median_degree": weighted_median(distribution),
            "largest_degree": max((d for d, _ in distribution), default=0),
            "most_connected": None if top is None else name,
            **({} if top is None or not self.kb.labels else {"labels": {name: self.kb.display.show(name)}}),
            "degrees": distribution,
        }

    def neighbour_ids(self, number: int) -> Ints:
        """Return the numbers of an object's neighbours, ascending."""
        return self.neighbours[self.starts[number] : self.starts[number + 1]]

    def distances(self, numbers: Iterable[int], radius: int | None = None) -> Ints:
        """Return the distance from the nearest of some objects, shape (objects,), int32; −1 if beyond the radius."""
        distance = np.full(len(self), -1, np.int32)
        frontier: npt.NDArray[np.integer] = np.fromiter(numbers, np.int64)
        step = 0
        while len(frontier):
            distance[frontier] = step
            if step == radius:
                break
            reached = self.neighbours[concatenate_ranges(self.starts[frontier], self.starts[frontier + 1])]
            frontier = np.unique(reached[distance[reached] < 0])
            step += 1
        return distance

    # By name

    def neighbours_of(self, obj: str) -> tuple[str, ...]:
        """Return the objects adjacent to an object, sorted."""
        return self._names(self.neighbour_ids(self.kb.object_id(obj)))

    def labels_of(self, one: str, other: str) -> tuple[tuple[str, int, int], ...]:
        """Return the labels between two objects: relation, position of the first and of the second, from 1."""
        row, number = self.kb.object_id(one), self.kb.object_id(other)
        edge = int(self.starts[row] + np.searchsorted(self.neighbour_ids(row), number))
        if edge == self.starts[row + 1] or self.neighbours[edge] != number:
            return ()
        found = np.unique(self.labels[self.label_starts[edge] : self.label_starts[edge + 1]])
        return tuple((self.kb.content.relations[r], i + 1, j + 1) for r, i, j in self.label_table[found].tolist())

    def distance(self, one: str, other: str) -> int | None:
        """Return the length of the shortest path between two objects; None if there is no path."""
        distance = int(self.distances([self.kb.object_id(one)])[self.kb.object_id(other)])
        return None if distance < 0 else distance

    def ball(self, objects: Iterable[str], radius: int) -> tuple[str, ...]:
        """Return N_r of some objects: all within the radius of any of them, themselves included, sorted."""
        if isinstance(objects, str):
            raise KnowledgeBaseError(f"objects must be a list: write [{objects!r}], not {objects!r}")
        check_radius(radius)
        return self._names(np.flatnonzero(self.distances([self.kb.object_id(name) for name in objects], radius) >= 0))

    def _names(self, numbers: npt.NDArray[np.integer]) -> tuple[str, ...]:
        return tuple(map(self.kb.objects.__getitem__, numbers.tolist()))


def weighted_median(distribution: list[tuple[int, int]]) -> int:
    """Return the median of (degree, count) pairs.

    >>> weighted_median([(0, 1), (3, 2), (9, 1)])
    3
    """
    half, seen = sum(n for _, n in distribution) / 2, 0
    for degree, count in distribution:
        seen += count
        if seen >= half:
            return degree
    return 0


def graph_of(kb: KnowledgeBase) -> GaifmanGraph:
    """Return the Gaifman graph of a knowledge base, which owns it: it is built once, when it is first needed."""
    return kb.resources.get(GaifmanGraph, lambda: build_graph(kb))


def build_graph(kb: KnowledgeBase) -> GaifmanGraph:
    """Return the Gaifman graph of a knowledge base, in O(l log l) for l labels; a binary fact has 2 labels."""
    if len(kb) > np.iinfo(np.int32).max:
        raise KnowledgeBaseError(f"a graph of {len(kb):,} facts: at most {np.iinfo(np.int32).max:,} can be numbered")
    label_offsets, table = _label_table(kb.content.arities)
    parts = [_pairs(kb.fact_tables[arity], offset, label_offsets) for arity, offset in kb.fact_offsets.items()]
    key, label, fact = (np.concatenate([part[i] for part in parts] or [np.zeros(0, np.int64)]) for i in range(3))
    del parts
    order = np.argsort(key, kind="stable")  # stable: labels of a pair stay in the order of positions and facts
    key = key[order]
    first = np.ones(len(key), bool)
    np.not_equal(key[1:], key[:-1], out=first[1:])
    label_starts = np.append(np.flatnonzero(first), len(key))
    key = key[first]
    return GaifmanGraph(
        kb,
        freeze(np.searchsorted(key >> 32, np.arange(len(kb.objects) + 1))),
        freeze((key & 0xFFFFFFFF).astype(np.int32)),
        freeze(label_starts),
        freeze(label.astype(np.int32, copy=False)[order]),
        freeze(fact.astype(np.int32, copy=False)[order]),
        freeze(table),
        freeze(label_offsets),
    )


def _pairs(table: FactTable, offset: int, label_offsets: Ints) -> tuple[Longs, Ints, Ints]:
    """Return both objects (packed), label and fact id for each pair of positions with different objects."""
    keys, labels, facts = [np.zeros(0, np.int64)], [np.zeros(0, np.int32)], [np.zeros(0, np.int32)]
    numbers = np.arange(offset, offset + len(table), dtype=np.int32)
    base = label_offsets[table.relation]
    for kind, (i, j) in enumerate(permutations(range(table.arity), 2)):
        differ = table.objects[:, i] != table.objects[:, j]
        all_differ = bool(differ.all())
        key = table.objects[:, i].astype(np.int64)
        key <<= 32
        key |= table.objects[:, j]
        keys.append(key if all_differ else key[differ])
        labels.append((base if all_differ else base[differ]) + np.int32(kind))
        facts.append(numbers if all_differ else numbers[differ])
    return np.concatenate(keys), np.concatenate(labels), np.concatenate(facts)


def _label_table(arities: tuple[int, ...]) -> tuple[Ints, Ints]:
    """Return the first label of each relation, and all labels: (relation, position, other position)."""
    rows = [(relation, i, j) for relation, arity in enumerate(arities) for i, j in permutations(range(arity), 2)]
    counts = np.array([arity * (arity - 1) for arity in arities], np.int64)
    return (np.cumsum(counts) - counts).astype(np.int32), np.array(rows, np.int32).reshape(-1, 3)


def induced_facts(graph: GaifmanGraph, members: Ints, hidden: Longs) -> Longs:
    """Return the numbers of the facts whose objects are all members, ascending, without the hidden ones."""
    own = np.unique(members).astype(np.int64)
    edges = concatenate_ranges(graph.starts[own], graph.starts[own + 1])
    edges = edges[np.isin(graph.neighbours[edges], own)]
    linked = graph.label_facts[concatenate_ranges(graph.label_starts[edges], graph.label_starts[edges + 1])]
    facts = graph.arrays.facts
    alone = facts.own[concatenate_ranges(facts.own_starts[own], facts.own_starts[own + 1])]
    found: Longs = np.setdiff1d(np.concatenate([linked, alone]).astype(np.int64), hidden)
    lengths = facts.starts[found + 1] - facts.starts[found]
    objects = facts.objects[concatenate_ranges(facts.starts[found], facts.starts[found + 1])]
    outside = np.zeros(len(found), np.int64)
    np.add.at(outside, np.repeat(np.arange(len(found)), lengths), ~np.isin(objects, own))
    within: Longs = found[outside == 0]
    return within


# The arrays that kernels read

BLOOM_BITS_PER_EDGE = 16
"""Bits per edge in the Bloom filter of edges: about 1 % false positives."""


def knowledge_base_arrays(graph: GaifmanGraph) -> KnowledgeBaseArrays:
    """Return the graph, facts and attribute values as arrays. Use `graph.arrays`, which keeps them.

    >>> import gaifman
    >>> graph = build_graph(gaifman.demo()).arrays.graph
    >>> len(graph.label_sets), len(graph.label_set_starts) - 1  # edges, and distinct lists of labels
    (13162, 127)
    """
    from gaifman.kernels.evaluate import KnowledgeBaseArrays

    return KnowledgeBaseArrays(labelled_graph(graph), fact_arrays(graph), attribute_arrays(graph))


def adjacency(graph: GaifmanGraph) -> Adjacency:
    """Return the graph's rows and the facts of each edge."""
    from gaifman.kernels.graph import Adjacency

    return Adjacency(graph.starts, graph.neighbours, graph.label_starts, graph.label_facts)


def labelled_graph(graph: GaifmanGraph) -> LabelledGraph:
    """Return the graph with a Bloom filter of its edges and numbered label sets."""
    from gaifman.kernels.graph import LabelledGraph, fill_bloom_filter

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
    from gaifman.kernels.graph import number_label_sets

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
    from gaifman.kernels.numbers import AttributeArrays

    values = graph.kb.value_table
    rows = np.argsort(values.objects, kind="stable").astype(np.int32)
    starts = np.searchsorted(values.objects[rows], np.arange(len(graph) + 1)).astype(np.int64)
    return AttributeArrays(
        values.starts, values.objects, values.value, values.attribute, freeze(starts), freeze(rows), len(graph.kb)
    )


def fact_arrays(graph: GaifmanGraph) -> FactArrays:
    """Return all facts by number: relation, objects, confidence, and the facts of each object alone."""
    from gaifman.kernels.local_facts import FactArrays

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

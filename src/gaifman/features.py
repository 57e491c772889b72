r"""The features of neighbourhoods, as a sparse matrix.

>>> import gaifman
>>> from gaifman.graph import graph_of
>>> from gaifman.neighbourhoods import Sampling, draw
>>> from gaifman.phi import parse_phi
>>> from gaifman.plans import plan_of
>>> kb = gaifman.KnowledgeBase.from_facts([("likes", "ann", "bob"), ("likes", "bob", "cleo"), ("likes", "ann", "dan")])
>>> graph = graph_of(kb)
>>> plan = plan_of(parse_phi("likes(s1, x)\n∃x likes(s1, x) ∧ likes(x, s2)\n∀x, y likes(x, y) → likes(y, x)"), kb, 2)
>>> drawn = draw(graph, [[0, 2]], Sampling(size=None))  # ann and cleo
>>> features_of(graph, drawn, plan).dense()
array([[2., 1., 0.]], dtype=float32)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gaifman.drawing import frozen
from gaifman.errors import KnowledgeError, LimitError
from gaifman.graph import Graph
from gaifman.kernels.evaluation import Index, Neighbours, Output, evaluate, set_defaults
from gaifman.kernels.local import PLACES, Incidence, Links, Local
from gaifman.kernels.machine import RESULTS, SLOTS, VARIABLES, Room
from gaifman.kernels.machine import Values as Numbers
from gaifman.neighbourhoods import Hidden, Neighbourhoods
from gaifman.plans import Plan
from gaifman.tables import Ints, Longs

Reals = npt.NDArray[np.float32]

LARGEST = 1 << 26
"""Words that the tables of one program may take: half a gigabyte."""


@dataclass(frozen=True, slots=True)
class FeatureMatrix:
    """Rows are neighbourhoods, columns features; what is not stored is the column's default for the row's size."""

    starts: Longs
    """Shape (rows + 1,), int64: the entries of row `i` are `starts[i]` to `starts[i + 1]`."""
    ids: Ints
    """Shape (entries,), int32: features, ascending in each row."""
    values: Reals
    """Shape (entries,), float32."""
    sizes: Ints
    """Shape (rows,), int32: members of each neighbourhood."""
    shapes: Ints
    """Shape (features,), int32: a row of `defaults`, or −1 for 0."""
    defaults: Reals
    """Shape (shapes, largest size + 1), float32: the value of an absent feature by the number of members."""

    def __len__(self) -> int:
        return len(self.sizes)

    def dense(self) -> Reals:
        """Shape (rows, features): every value, defaults too. For small matrices."""
        whole = np.zeros((len(self), len(self.shapes)), np.float32)
        kept = self.shapes >= 0
        whole[:, kept] = self.defaults[self.shapes[kept]][:, self.sizes].T
        whole[np.repeat(np.arange(len(self)), np.diff(self.starts)), self.ids] = self.values
        return whole


def features_of(graph: Graph, drawn: Neighbourhoods, plan: Plan, hidden: Hidden | None = None) -> FeatureMatrix:
    """Evaluate the features of a plan in every drawn neighbourhood; facts `hidden` from a tuple are not seen."""
    sizes = np.diff(drawn.starts).astype(np.int32)
    most = int(sizes.max(initial=1))
    words = plan.words(most)
    if words.max(initial=0) > LARGEST:
        worst = int(words.argmax())
        raise LimitError(
            f"in a neighbourhood of {most:,} members the tables of {plan.features[worst]} would take "
            f"{words[worst] * 8 / 1e9:,.1f} GB; the limit is {LARGEST * 8 / 1e9:,.1f} GB",
            hint="draw smaller neighbourhoods (k), or use fewer variables at once",
        )
    room = _room(plan, int(words.max(initial=1)))
    index = _index(graph, plan, sizes, room)
    return _evaluated(graph, plan, index, room, _neighbours(drawn, plan, hidden), sizes)


def _evaluated(
    graph: Graph, plan: Plan, index: Index, room: Room, neighbours: Neighbours, sizes: Ints
) -> FeatureMatrix:
    links, facts, values = links_of(graph), incidence_of(graph), _values(graph)
    local = _local(graph, 1024)
    rows = len(sizes)
    ends, state = np.zeros(rows, np.int64), np.zeros(2, np.int64)
    marks = np.zeros(len(plan.features), np.int32)
    output = Output(np.empty(64 * rows + 1024, np.int32), np.empty(64 * rows + 1024, np.float32), ends, state, marks)
    while status := evaluate(plan.programs, index, links, facts, values, neighbours, local, room, output):
        marks[:] = 0
        if status == 1:
            local = _local(graph, 4 * len(local.numbers))
        else:
            ids, kept = np.resize(output.ids, 2 * len(output.ids)), np.resize(output.values, 2 * len(output.values))
            output = Output(ids, kept, ends, state, marks)
    entries = int(state[1])
    arrays = (np.append(0, ends), output.ids[:entries], output.values[:entries], sizes, index.shapes, index.defaults)
    for array in arrays:
        array.setflags(write=False)
    return FeatureMatrix(*arrays)


def links_of(graph: Graph) -> Links:
    """The graph as the kernels see it."""
    return Links(graph.starts, graph.neighbours, graph.label_starts, graph.labels, graph.facts, graph.label_table)


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


def _values(graph: Graph) -> Numbers:
    numbers = graph.kb.numbers
    return Numbers(numbers.starts, numbers.object, numbers.value)


def _local(graph: Graph, room: int) -> Local:
    relations = max(1, len(graph.kb.content.relations))
    return Local(
        np.full(len(graph), -1, np.int32),
        np.full(relations, -1, np.int32),
        np.zeros(relations, np.int32),
        np.zeros(room, np.int32),
        np.zeros((room, PLACES), np.int32),
        np.zeros(room, np.int32),
        np.zeros(2, np.int64),
    )


def _room(plan: Plan, words: int) -> Room:
    registers = int(np.diff(plan.programs.register_starts).max(initial=1))
    return Room(
        np.zeros(words, np.uint64),
        np.zeros(registers, np.int64),
        np.zeros(VARIABLES, np.int32),
        np.zeros(SLOTS, np.int32),
        np.zeros(SLOTS, np.int32),
        np.zeros(RESULTS, np.float64),
    )


def _neighbours(drawn: Neighbourhoods, plan: Plan, hidden: Hidden | None) -> Neighbours:
    own = drawn.places
    if own.shape[1] != plan.width:
        raise KnowledgeError(f"the features are for tuples of {plan.width} objects, these have {own.shape[1]}")
    none = Hidden(np.zeros(len(own) + 1, np.int64), np.zeros(0, np.int64))
    hidden = hidden or none
    return Neighbours(
        drawn.starts,
        drawn.members,
        frozen(own),
        drawn.draws,
        frozen(np.asarray(hidden.starts, np.int64)),
        frozen(np.asarray(hidden.facts, np.int64)),
        frozen(np.zeros(0, np.uint64)),
    )


def _index(graph: Graph, plan: Plan, sizes: Ints, room: Room) -> Index:
    """Which programs to run for which relations, and what the others are worth."""
    relations = len(graph.kb.content.relations)
    pairs = [(r, p) for p, needed in enumerate(plan.relations) for r in needed]
    concerned = np.array(sorted(pairs), np.int64).reshape(-1, 2)
    always = np.array([p for p, needed in enumerate(plan.relations) if not needed], np.int32)
    shapes = int(plan.shapes.max(initial=-1)) + 1
    chosen = np.array([int(np.argmax(plan.shapes == shape)) for shape in range(shapes)], np.int32)
    different = np.unique(sizes)
    most = int(sizes.max(initial=0))
    defaults = np.zeros((shapes, most + 1), np.float32)
    nobody, own = np.zeros(max(most, 1), np.int32), np.zeros(plan.width, np.int32)
    empty = frozen(chosen), frozen(different), frozen(nobody), frozen(own)
    set_defaults(plan.programs, *empty, _values(graph), _local(graph, 1), room, defaults)
    starts = np.searchsorted(concerned[:, 0], np.arange(relations + 1)).astype(np.int64)
    programs = concerned[:, 1].astype(np.int32)
    return Index(frozen(starts), frozen(programs), frozen(always), plan.shapes, frozen(defaults))

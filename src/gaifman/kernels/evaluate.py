"""Evaluate features in many neighbourhoods: templates by look-up, other features by programs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gaifman.kernels.bitset_vm import Programs, VmState, run_program
from gaifman.kernels.collections import Bytes, Ints, Longs
from gaifman.kernels.graph import LabelledGraph, prefetch_adjacency
from gaifman.kernels.jit import inline_kernel, kernel, prefetch, zero
from gaifman.kernels.local_facts import (
    NO_KEY,
    FactArrays,
    LocalFacts,
    NeighbourhoodView,
    gather_binary_facts,
    gather_facts,
    reset_local_facts,
)
from gaifman.kernels.numbers import AttributeArrays, Floats, set_numbers
from gaifman.kernels.paths import WalkCache, list_labels, match_pair
from gaifman.kernels.rng import fold_in
from gaifman.kernels.rows import RowBuffer, SparseOutput, copy_duplicates, flush_row, set_number
from gaifman.kernels.templates import NUMBERS, LabelLists, TemplateIndex

DONE, FACTS_FULL, ENTRIES_FULL, LABELS_FULL = 0, 1, 2, 3
"""Status of an evaluation: done, or a full buffer of facts, entries or labels."""
NO_DEFAULT, MISSING = -1, -2
"""In place of a default: 0 where there is no entry, or a number that is missing where there is no entry."""


class ProgramIndex(NamedTuple):
    """Which programs depend on which relations."""

    starts: Longs
    """Shape (relations + 1,)."""
    programs: Ints
    """Programs that can differ from their default if the relation has facts."""
    always: Ints
    """Programs without a default."""
    default_rows: Ints
    """Shape (programs,): a row of `defaults`, or `NO_DEFAULT`, or `MISSING`."""
    defaults: npt.NDArray[np.float32]
    """Shape (any, members + 1): the value if none of the relations has facts, by the number of members."""
    needed: Bytes
    """Shape (relations,): whether the facts of the relation are needed."""
    no_facts: bool
    """Whether no facts are gathered: for defaults."""


class KnowledgeBaseArrays(NamedTuple):
    """A knowledge base as arrays, the same for all rows."""

    graph: LabelledGraph
    facts: FactArrays
    values: AttributeArrays


class NeighbourhoodArrays(NamedTuple):
    """Neighbourhoods, as in `gaifman.sampling.neighbourhoods.NeighbourhoodBatch`, with hidden facts."""

    starts: Longs
    members: Ints
    edges: Ints
    own: Ints
    """Shape (b, n): the index of each tuple's objects among the members."""
    draws: int
    hidden_starts: Longs
    hidden: Longs
    hidden_rows: Ints
    """Shape (hidden, 3): relation and objects of each hidden binary fact; −1 for other facts."""
    keys: npt.NDArray[np.uint64]
    """Shape (w,): the key of the world of each draw, or (0,) if no uncertain fact drops out."""
    shared_worlds: bool
    """Whether all tuples see the same world in a draw; otherwise each tuple sees its own."""


class ProgramWorkspace(NamedTuple):
    """Buffers of one thread for programs."""

    local: LocalFacts
    state: VmState
    last_run: Ints
    """Shape (programs,): the last row, from 1, in which a program ran."""


@inline_kernel
def _view_row(neighbours: NeighbourhoodArrays, row: int) -> NeighbourhoodView:
    begin, end, t = neighbours.starts[row], neighbours.starts[row + 1], row // neighbours.draws
    has_edges = len(neighbours.edges) > 0
    members, own = neighbours.members[begin:end], neighbours.own[t]
    key = NO_KEY
    if len(neighbours.keys) > 0:
        key = neighbours.keys[row % neighbours.draws]
        if not neighbours.shared_worlds:
            for at in own:
                key = fold_in(key, members[at])
        key |= np.uint64(1)  # never `NO_KEY`
    edges = neighbours.edges[begin:end] if has_edges else neighbours.edges
    first, last = neighbours.hidden_starts[t], neighbours.hidden_starts[t + 1]
    return NeighbourhoodView(
        members, edges, own, neighbours.hidden[first:last], neighbours.hidden_rows[first:last], key
    )


@inline_kernel
def _prefetch_row(graph: LabelledGraph, neighbours: NeighbourhoodArrays, row: int) -> None:
    """Prefetch what a later row reads from the large tables: waiting for it took most of the time."""
    if len(neighbours.edges) == 0:
        return
    begin, end = neighbours.starts[row], neighbours.starts[row + 1]
    own = neighbours.own[row // neighbours.draws]
    for at in range(begin, end):
        prefetch(graph.label_sets, neighbours.edges[at])
    for i in range(len(own)):
        obj = neighbours.members[begin + own[i]]
        first, last = graph.starts[obj], graph.starts[obj + 1]
        prefetch(graph.neighbours, first)
        prefetch(graph.neighbours, (first + last) >> 1)
        prefetch(graph.neighbours, last - 1)
        for at in range(begin, end):
            prefetch_adjacency(graph, obj, neighbours.members[at])


@kernel
def evaluate_templates(
    templates: TemplateIndex,
    arrays: KnowledgeBaseArrays,
    neighbours: NeighbourhoodArrays,
    lists: LabelLists,
    cache: WalkCache,
    numbers: Floats,
    buffer: RowBuffer,
    output: SparseOutput,
) -> int:
    """Match the templates of rows, from `output.state` on. Return `DONE` or the buffer that is full."""
    for row in range(output.state[0], len(output.ends)):
        if output.state[1] + len(buffer.values) > len(output.ids):
            return ENTRIES_FULL
        view = _view_row(neighbours, row + output.state[2])
        if row + 1 < len(output.ends):
            _prefetch_row(arrays.graph, neighbours, row + 1 + output.state[2])
        at = zero()
        for i in range(len(view.own)):
            if at >= 0:
                at = list_labels(templates, arrays.graph, arrays.facts, view, i, lists, at, buffer)
        for i in range(len(view.own)):
            for j in range(len(view.own)):
                if at >= 0 and not match_pair(
                    templates, arrays.graph, arrays.facts, view, i, j, lists, cache, at, buffer
                ):
                    at = -1
        if templates.needs[NUMBERS]:
            set_numbers(templates, arrays.values, view, numbers, buffer)
        copy_duplicates(buffer, templates.duplicates)
        end = flush_row(buffer, output)
        if at < 0:
            return LABELS_FULL
        output.ends[row] = output.state[1] = end
        output.state[0] = row + 1
    return DONE


@kernel
def run_programs(
    programs: Programs,
    index: ProgramIndex,
    arrays: KnowledgeBaseArrays,
    neighbours: NeighbourhoodArrays,
    tools: ProgramWorkspace,
    buffer: RowBuffer,
    output: SparseOutput,
) -> int:
    """Run programs in rows, from `output.state` on. Return `DONE` or the buffer that is full.

    A program runs only if a relation that it names has facts in the neighbourhood; otherwise its value is the default.
    """
    local, last_run = tools.local, tools.last_run
    for row in range(output.state[0], len(output.ends)):
        if output.state[1] + len(buffer.values) > len(output.ids):
            return ENTRIES_FULL
        view = _view_row(neighbours, row + output.state[2])
        local.counts[:] = 0
        if not index.no_facts and not _gather(arrays, view, index.needed, local):
            reset_local_facts(view.members, local)
            return FACTS_FULL
        relation, count = -1, len(index.always)
        at = 0
        while True:
            while at == count:  # the next relation with facts
                relation += 1
                if relation == local.counts[1]:
                    break
                at, count = index.starts[local.present[relation]], index.starts[local.present[relation] + 1]
            if at == count:
                break
            p = index.always[at] if relation < 0 else index.programs[at]
            at += 1
            if last_run[p] != row + 1:
                last_run[p] = row + 1
                _set_value(
                    buffer,
                    index,
                    p,
                    len(view.members),
                    run_program(programs, p, view, local, arrays.values, tools.state),
                )
        if not index.no_facts:
            reset_local_facts(view.members, local)
        output.ends[row] = output.state[1] = flush_row(buffer, output)
        output.state[0] = row + 1
    return DONE


@inline_kernel
def _gather(arrays: KnowledgeBaseArrays, view: NeighbourhoodView, needed: Bytes, local: LocalFacts) -> bool:
    graph, facts = arrays.graph, arrays.facts
    if graph.all_binary and (len(facts.confidence) == 0 or view.key == NO_KEY):
        return gather_binary_facts(graph, facts, view.members, view.hidden, view.hidden_rows, needed, local)
    return gather_facts(graph, facts, view.members, view.hidden, view.key, local)


@inline_kernel
def _set_value(buffer: RowBuffer, index: ProgramIndex, p: int, size: int, value: float) -> None:
    """Set the value of a program if it differs from the default, or if a number that can be missing is known."""
    row = index.default_rows[p]
    default = index.defaults[row, size] if row >= 0 else np.float32(0.0)
    if not np.isnan(value) and (row == MISSING or np.float32(value) != default):
        set_number(buffer, p, value)

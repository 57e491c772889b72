"""Features of many neighbourhoods: families read off lists, programs run for the facts they concern."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gaifman.kernels.bitset_vm import AttributeArrays, Programs, VmState, run_program
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
from gaifman.kernels.paths import WalkCache, list_labels, match_pair
from gaifman.kernels.rng import fold_in
from gaifman.kernels.rows import RowBuffer, SparseOutput, copy_duplicates, flush_row, set_feature
from gaifman.kernels.templates import LabelLists, TemplateIndex

DONE, FACTS_FULL, ENTRIES_FULL, LABELS_FULL = 0, 1, 2, 3
"""How evaluation ends: done, or for want of room for facts, entries or labels."""


class ProgramIndex(NamedTuple):
    """Which programs concern which relations."""

    starts: Longs
    """Shape (relations + 1,)."""
    programs: Ints
    """Programs that can differ from their default where the relation is present."""
    always: Ints
    """Programs without a default."""
    default_rows: Ints
    """Shape (programs,): a row of `defaults`, or −1 for 0."""
    defaults: npt.NDArray[np.float32]
    """Shape (shapes, members + 1): the value where none of the relations is present."""
    wanted: Bytes
    """Shape (relations,): the relations whose facts are asked for."""
    no_facts: bool
    """Whether no fact is asked for: numbers of the tuple's objects, and defaults."""


class KnowledgeBaseArrays(NamedTuple):
    """What is known, for all rows."""

    graph: LabelledGraph
    facts: FactArrays
    values: AttributeArrays


class NeighbourhoodArrays(NamedTuple):
    """The neighbourhoods, as `gaifman.sampling.neighbourhoods.Neighbourhoods` has them."""

    starts: Longs
    members: Ints
    edges: Ints
    own: Ints
    """Shape (b, n): the places of each tuple's objects among the members."""
    draws: int
    hidden_starts: Longs
    hidden: Longs
    hidden_rows: Ints
    """Shape (hidden, 3): of each that has two places its relation and objects; elsewhere −1."""
    keys: npt.NDArray[np.uint64]
    """Shape (w,) or (0,): for the drop-out of uncertain facts; empty where none drops out."""


class ProgramWorkspace(NamedTuple):
    """What one thread runs programs with."""

    local: LocalFacts
    state: VmState
    last_run: Ints
    """Shape (programs,): the row, from 1, in which a program was last run."""


@inline_kernel
def _view_row(neighbours: NeighbourhoodArrays, row: int) -> NeighbourhoodView:
    begin, end, t = neighbours.starts[row], neighbours.starts[row + 1], row // neighbours.draws
    known = len(neighbours.edges) > 0
    members, own = neighbours.members[begin:end], neighbours.own[t]
    key = NO_KEY
    if len(neighbours.keys) > 0:  # what drops out is keyed by the draw and the tuple
        key = neighbours.keys[row % neighbours.draws]
        for at in own:
            key = fold_in(key, members[at])
        key |= np.uint64(1)
    edges = neighbours.edges[begin:end] if known else neighbours.edges
    first, last = neighbours.hidden_starts[t], neighbours.hidden_starts[t + 1]
    return NeighbourhoodView(
        members, edges, own, neighbours.hidden[first:last], neighbours.hidden_rows[first:last], key
    )


@inline_kernel
def _prefetch_row(graph: LabelledGraph, neighbours: NeighbourhoodArrays, row: int) -> None:
    """What a row to come will ask of the large tables, asked for now: most of the time went in waiting for it."""
    if len(neighbours.edges) == 0:
        return
    begin, end = neighbours.starts[row], neighbours.starts[row + 1]
    own = neighbours.own[row // neighbours.draws]
    for at in range(begin, end):
        prefetch(graph.label_sets, neighbours.edges[at])
    for i in range(len(own)):
        one = neighbours.members[begin + own[i]]
        first, last = graph.starts[one], graph.starts[one + 1]
        prefetch(graph.neighbours, first)
        prefetch(graph.neighbours, (first + last) >> 1)
        prefetch(graph.neighbours, last - 1)
        for at in range(begin, end):
            prefetch_adjacency(graph, one, neighbours.members[at])


@kernel
def evaluate_templates(
    templates: TemplateIndex,
    arrays: KnowledgeBaseArrays,
    neighbours: NeighbourhoodArrays,
    lists: LabelLists,
    cache: WalkCache,
    buffer: RowBuffer,
    output: SparseOutput,
) -> int:
    """Read the features of families off rows, from `output.state` on; DONE, or what there is no room for."""
    for row in range(output.state[0], len(output.ends)):
        if output.state[1] + len(buffer.values) > len(output.ids):
            return ENTRIES_FULL
        spot = _view_row(neighbours, row + output.state[2])
        if row + 1 < len(output.ends):
            _prefetch_row(arrays.graph, neighbours, row + 1 + output.state[2])
        at = zero()
        for i in range(len(spot.own)):
            if at >= 0:
                at = list_labels(templates, arrays.graph, arrays.facts, spot, i, lists, at, buffer)
        for i in range(len(spot.own)):
            for j in range(len(spot.own)):
                if at >= 0 and not match_pair(
                    templates, arrays.graph, arrays.facts, spot, i, j, lists, cache, at, buffer
                ):
                    at = -1
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
    """Run programs in rows, from `output.state` on; DONE, or what there is no room for.

    A program is run where a relation that it names is present: elsewhere its value is the default.
    """
    local, marks = tools.local, tools.last_run
    for row in range(output.state[0], len(output.ends)):
        if output.state[1] + len(buffer.values) > len(output.ids):
            return ENTRIES_FULL
        spot = _view_row(neighbours, row + output.state[2])
        local.counts[:] = 0
        if not index.no_facts and not _gather(arrays, spot, index.wanted, local):
            reset_local_facts(spot.members, local)
            return FACTS_FULL
        first, count = -1, len(index.always)
        at = 0
        while True:
            while at == count:  # to the next relation that is present
                first += 1
                if first == local.counts[1]:
                    break
                at, count = index.starts[local.present[first]], index.starts[local.present[first] + 1]
            if at == count:
                break
            p = index.always[at] if first < 0 else index.programs[at]
            at += 1
            if marks[p] != row + 1:
                marks[p] = row + 1
                _set_value(
                    buffer,
                    index,
                    p,
                    len(spot.members),
                    run_program(programs, p, spot, local, arrays.values, tools.state),
                )
        if not index.no_facts:
            reset_local_facts(spot.members, local)
        output.ends[row] = output.state[1] = flush_row(buffer, output)
        output.state[0] = row + 1
    return DONE


@inline_kernel
def _gather(arrays: KnowledgeBaseArrays, view: NeighbourhoodView, wanted: Bytes, local: LocalFacts) -> bool:
    links, facts = arrays.graph, arrays.facts
    if links.all_binary and (len(facts.confidence) == 0 or view.key == NO_KEY):
        return gather_binary_facts(links, facts, view.members, view.hidden, view.hidden_rows, wanted, local)
    return gather_facts(links, facts, view.members, view.hidden, view.key, local)


@inline_kernel
def _set_value(buffer: RowBuffer, index: ProgramIndex, p: int, size: int, value: float) -> None:
    """Keep a value that is not the default; a number that is missing counts as 0."""
    kept = np.float32(0.0 if np.isnan(value) else value)
    shape = index.default_rows[p]
    default = index.defaults[shape, size] if shape >= 0 else np.float32(0.0)
    if kept != default:
        set_feature(buffer, p)
        buffer.values[p] = kept

r"""Evaluate the features of a plan in drawn neighbourhoods.

>>> import gaifman
>>> from gaifman.features.compiler import compile_features
>>> from gaifman.features.feature_sets import parse_phi
>>> from gaifman.kb.gaifman_graph import build_graph
>>> kb = gaifman.demo()
>>> plan = compile_features(parse_phi("borders(s1, s2)\nborders(s1, x)"), kb, 2)
>>> pair = [[kb.object_id("france"), kb.object_id("spain")]]
>>> FeatureEvaluator(build_graph(kb), plan).sample_and_evaluate(pair, SamplingConfig(size=None)).to_dense().tolist()
[[1.0, 8.0]]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gaifman.config import SamplingConfig, check_threads
from gaifman.errors import KnowledgeBaseError, LimitError
from gaifman.features.compiler import FeaturePlan
from gaifman.features.templates import build_template_index, with_label_sets
from gaifman.kb.gaifman_graph import GaifmanGraph
from gaifman.kb.tables import Ints, Longs, freeze
from gaifman.kernels.bitset_vm import MAX_RELATION_VARIABLES, MAX_RESULTS, MAX_VARIABLES, VmState
from gaifman.kernels.evaluate import (
    DONE,
    FACTS_FULL,
    LABELS_FULL,
    MISSING,
    NO_DEFAULT,
    KnowledgeBaseArrays,
    NeighbourhoodArrays,
    ProgramIndex,
    ProgramWorkspace,
    evaluate_templates,
    run_programs,
)
from gaifman.kernels.local_facts import MAX_ARITY, LocalFacts
from gaifman.kernels.paths import WalkCache
from gaifman.kernels.rows import RowBuffer, SparseOutput, merge
from gaifman.kernels.templates import LabelLists, TemplateIndex
from gaifman.sampling.hiding import HiddenFacts
from gaifman.sampling.neighbourhoods import (
    DrawnPart,
    NeighbourhoodBatch,
    check_hidden,
    check_tuples,
    collect_neighbourhoods,
    draw_neighbourhoods,
    fact_rows,
    make_draw_job,
)
from gaifman.sampling.worlds import world_keys
from gaifman.threads import map_with_workers

Reals = npt.NDArray[np.float32]
Bits = npt.NDArray[np.uint64]
"""A set of features, 64 per word."""
SparseArrays = tuple[Longs, Ints, Reals]
"""Rows of a sparse matrix: starts (rows + 1,), then ids and values of the entries."""


@dataclass(frozen=True, slots=True)
class FeatureMatrix:
    """Feature values in compressed rows.

    Without an entry, a number that can be missing is missing, and another feature has its default for the size of the
    neighbourhood.
    """

    starts: Longs
    """Shape (rows + 1,), int64: the entries of row `i` are `starts[i]` to `starts[i + 1]`."""
    ids: Ints
    """Shape (entries,), int32: features, ascending in each row."""
    values: Reals
    """Shape (entries,), float32."""
    sizes: Ints
    """Shape (rows,), int32: the number of members of each neighbourhood."""
    default_rows: Ints
    """Shape (features,), int32: the row of `defaults` for each feature; `NO_DEFAULT` for a default of 0, `MISSING` for
    a number that can be missing.
    """
    defaults: Reals
    """Shape (any, largest size + 1), float32: the default by the number of members."""

    def __len__(self) -> int:
        return len(self.sizes)

    def to_dense(self) -> Reals:
        """Return all values with shape (rows, features): defaults too, NaN if missing. Meant for small matrices."""
        dense = np.zeros((len(self), len(self.default_rows)), np.float32)
        dense[:, self.default_rows == MISSING] = np.nan
        with_default = self.default_rows >= 0
        dense[:, with_default] = self.defaults[self.default_rows[with_default]][:, self.sizes].T
        dense[np.repeat(np.arange(len(self)), np.diff(self.starts)), self.ids] = self.values
        return dense

    @classmethod
    def concatenate(cls, matrices: Sequence[FeatureMatrix]) -> FeatureMatrix:
        """Stack the rows of one or more matrices of the same features."""
        defaults = np.zeros((len(matrices[0].defaults), max(m.defaults.shape[1] for m in matrices)), np.float32)
        for matrix in matrices:  # a matrix may know the defaults of its own sizes only
            sizes = np.unique(matrix.sizes)
            defaults[:, sizes] = matrix.defaults[:, sizes]
        arrays = concatenate_rows([(matrix.starts, matrix.ids, matrix.values) for matrix in matrices])
        sizes = np.concatenate([matrix.sizes for matrix in matrices])
        return cls(*arrays, freeze(sizes), matrices[0].default_rows, freeze(defaults))


def concatenate_rows(parts: Sequence[SparseArrays]) -> SparseArrays:
    """Stack the rows of sparse matrices. The starts of a part may begin above 0.

    >>> one = np.array([0, 2]), np.array([3, 5], np.int32), np.array([1, 1], np.float32)
    >>> [array.tolist() for array in concatenate_rows([one, one])]
    [[0, 2, 4], [3, 5, 3, 5], [1.0, 1.0, 1.0, 1.0]]
    """
    spans = [slice(int(starts[0]), int(starts[-1])) for starts, _, _ in parts]
    lengths = [np.zeros(0, np.int64), *(np.diff(starts) for starts, _, _ in parts)]
    ids = [np.zeros(0, np.int32), *(part[1][span] for part, span in zip(parts, spans, strict=True))]
    values = [np.zeros(0, np.float32), *(part[2][span] for part, span in zip(parts, spans, strict=True))]
    starts = np.append(0, np.cumsum(np.concatenate(lengths))).astype(np.int64)
    return freeze(starts), freeze(np.concatenate(ids)), freeze(np.concatenate(values))


def feature_bits(count: int, chosen: npt.ArrayLike) -> Bits:
    """Return the set of the chosen ones of `count` features.

    >>> feature_bits(70, [0, 2, 65]).tolist()
    [5, 2]
    """
    flags = np.zeros(((count + 63) >> 6) << 6, np.uint8)
    flags[np.asarray(chosen, np.int64)] = 1
    return freeze(np.packbits(flags, bitorder="little").view(np.uint64))


def new_row_buffer(count: int, counting: Bits) -> RowBuffer:
    """Return an empty row of `count` features, of which some have counts."""
    words = (count + 63) >> 6
    tops = np.zeros((words + 63) >> 6, np.uint64)
    return RowBuffer(np.zeros(words, np.uint64), tops, counting, np.zeros(count, np.float32))


MAX_TABLE_WORDS = 1 << 26
"""Largest size of the tables of one program, in words: half a gigabyte."""
ROWS_PER_BLOCK = 4096
"""Rows that a thread evaluates at once."""


class FeatureEvaluator:
    """A feature plan prepared for one graph.

    With `use_templates=False` programs evaluate all features, which is slower and gives the same values.
    """

    def __init__(self, graph: GaifmanGraph, plan: FeaturePlan, *, use_templates: bool = True) -> None:
        self.graph, self.plan = graph, plan
        index, indexed = build_template_index(graph, plan) if use_templates else (None, np.zeros(0, np.int32))
        self.arrays = graph.arrays
        self.templates = None
        if index is not None and len(indexed):
            self.templates = with_label_sets(index, self.arrays.graph)
        self.program_features = np.setdiff1d(np.arange(len(plan.features)), indexed)
        self._index = _program_index(graph, plan, self.program_features)
        counting = [*self.program_features.tolist(), *_counting_features(self.templates)]
        self.counting_bits = feature_bits(len(plan.features), counting)

    def evaluate(
        self,
        drawn: NeighbourhoodBatch,
        hidden: HiddenFacts | None = None,
        *,
        drop_uncertain: SamplingConfig | None = None,
        threads: int | None = None,
    ) -> FeatureMatrix:
        """Return the features of all drawn neighbourhoods.

        Facts `hidden` from a tuple are not seen. With `drop_uncertain`, each neighbourhood sees a possible world, keyed
        by that sampling: a fact of confidence c is present with probability c (see `gaifman.sampling.worlds`). Without
        it, all facts are present. The result does not depend on the number of threads.
        """
        if drawn.own_positions.shape[1] != self.plan.arity:
            arity = drawn.own_positions.shape[1]
            raise KnowledgeBaseError(f"the features are for tuples of {self.plan.arity} objects, these have {arity}")
        sizes = np.diff(drawn.starts).astype(np.int32)
        largest = int(sizes.max(initial=1))
        index = self._index._replace(defaults=self._defaults(np.unique(sizes), largest))
        neighbours = _neighbourhood_arrays(self.graph, drawn, hidden, drop_uncertain)
        blocks = [(begin, min(begin + ROWS_PER_BLOCK, len(drawn))) for begin in range(0, len(drawn), ROWS_PER_BLOCK)]
        threads = check_threads(threads)

        def make_worker() -> Callable[[tuple[int, int]], SparseOutput]:
            worker = self._worker(largest)
            return lambda block: worker.evaluate(index, neighbours, *block)

        outputs = map_with_workers(make_worker, blocks, threads)
        return _collect_matrix(outputs, sizes, index)

    def sample_and_evaluate(
        self,
        tuples: npt.ArrayLike,
        sampling: SamplingConfig,
        hidden: HiddenFacts | None = None,
        *,
        drop_uncertain: bool = True,
        threads: int | None = None,
    ) -> FeatureMatrix:
        """Draw neighbourhoods of tuples and evaluate them block by block.

        The result equals that of `draw_neighbourhoods` and `evaluate`, in less time and memory. Uncertain facts drop
        out, keyed by the sampling, unless `drop_uncertain` is False.
        """
        numbers = check_tuples(tuples, len(self.graph))
        if sampling.size is None or numbers.shape[1] != self.plan.arity:  # sizes are unknown before the draw
            drawn = draw_neighbourhoods(self.graph, numbers, sampling, hidden, threads)
            return self.evaluate(drawn, hidden, drop_uncertain=sampling if drop_uncertain else None, threads=threads)
        job = make_draw_job(self.graph, numbers, sampling, hidden)
        largest = min(sampling.size, len(self.graph)) + self.plan.arity
        index = self._index._replace(defaults=self._defaults(np.arange(1, largest + 1), largest))

        def make_worker() -> Callable[[int, int, DrawnPart], tuple[SparseOutput, Ints]]:
            evaluator = self._worker(largest)

            def finish(begin: int, end: int, part: DrawnPart) -> tuple[SparseOutput, Ints]:
                first, last = job.hidden_starts[begin], job.hidden_starts[end]
                block_hidden = HiddenFacts(job.hidden_starts[begin : end + 1] - first, job.hidden[first:last])
                drawn = collect_neighbourhoods(job, numbers[begin:end], part)
                block = _neighbourhood_arrays(self.graph, drawn, block_hidden, sampling if drop_uncertain else None)
                return evaluator.evaluate(index, block, 0, len(drawn)), np.diff(drawn.starts).astype(np.int32)

            return finish

        outputs = job.map_blocks(check_threads(threads), make_worker)
        sizes = np.concatenate([np.zeros(0, np.int32), *(part[1] for part in outputs)])
        return _collect_matrix([part[0] for part in outputs], sizes, index)

    def _worker(self, max_members: int) -> _BlockEvaluator:
        """Return the evaluator of one thread, for neighbourhoods of up to `max_members` members."""
        return _BlockEvaluator(
            self.graph,
            self.plan,
            self.arrays,
            self.templates,
            self.counting_bits,
            self._table_words(max_members),
            max_members,
        )

    def _table_words(self, max_members: int) -> int:
        """Return the words of the largest tables, or raise an error if they are too large."""
        if not len(self.program_features):
            return 1
        words = self.plan.table_words(max_members)[self.program_features]
        if words.max(initial=0) > MAX_TABLE_WORDS:
            worst = self.program_features[int(words.argmax())]
            size = words.max() * 8 / 1e9
            raise LimitError(
                f"{self.plan.features[worst]} needs {size:,.1f} GB for a neighbourhood of {max_members:,} members; "
                f"the limit is {MAX_TABLE_WORDS * 8 / 1e9:,.1f} GB",
                hint="draw smaller neighbourhoods (size), or use fewer free variables in a part",
            )
        return int(words.max(initial=1))

    def _defaults(self, sizes: npt.NDArray[np.integer], max_members: int) -> Reals:
        """Return the value of each default group without facts, by size, from one program of the group."""
        groups = self._index.default_rows
        count = int(groups.max(initial=-1)) + 1
        defaults = np.zeros((count, max_members + 1), np.float32)
        if count and len(sizes):
            chosen = np.array([int(np.argmax(groups == group)) for group in range(count)], np.int32)
            none, no_defaults = np.full(len(groups), NO_DEFAULT, np.int32), np.zeros((0, max_members + 1), np.float32)
            index = self._index._replace(
                always=freeze(chosen), default_rows=freeze(none), defaults=freeze(no_defaults), no_facts=True
            )
            members, no_edges = np.zeros(int(sizes.sum()), np.int32), np.zeros(0, np.int32)
            positions = np.zeros((len(sizes), self.plan.arity), np.int32)
            starts = np.append(0, np.cumsum(sizes, dtype=np.int64))
            batch = NeighbourhoodBatch(freeze(starts), freeze(members), no_edges, 1, positions, freeze(no_edges))
            output = self._worker(max_members).run_programs(
                index, _neighbourhood_arrays(self.graph, batch, None, None), 0, len(sizes)
            )
            defaults[:, sizes] = _collect_matrix([output], sizes.astype(np.int32), index).to_dense()[:, chosen].T
        return freeze(defaults)


class _BlockEvaluator:
    """The evaluator of one thread, with buffers that grow."""

    def __init__(
        self,
        graph: GaifmanGraph,
        plan: FeaturePlan,
        arrays: KnowledgeBaseArrays,
        templates: TemplateIndex | None,
        counting_bits: Bits,
        table_words: int,
        max_members: int,
    ) -> None:
        self._graph, self._arrays, self._templates, self._programs = graph, arrays, templates, plan.programs
        count = len(plan.features)
        self._row = new_row_buffer(count, counting_bits)
        self._walk_cache = _new_walk_cache()
        self._workspace = ProgramWorkspace(
            _new_local_facts(graph, 1024), _new_vm_state(plan, table_words), np.zeros(count, np.int32)
        )
        self._numbers = np.full((plan.arity, len(graph.kb.content.attributes)), np.nan)
        shape = (plan.arity, max_members)
        self._lists = LabelLists(
            np.empty(max_members, np.int64),
            np.empty(max_members, np.int32),
            np.empty(shape, np.int32),
            np.empty(shape, np.int32),
            np.empty(shape, np.int32),
            np.empty(4096, np.int32),
            np.empty(max_members, np.int32),
            np.empty(max_members, np.int32),
            np.empty((2, max_members), np.uint64),
        )

    def evaluate(self, index: ProgramIndex, neighbours: NeighbourhoodArrays, begin: int, end: int) -> SparseOutput:
        """Evaluate rows `begin` to `end` by templates and programs."""
        if not len(index.always) and not len(index.programs):
            if self._templates is None:
                return _new_output(0, begin, end)
            return self._match_templates(self._templates, neighbours, begin, end)
        computed = self.run_programs(index, neighbours, begin, end)
        if self._templates is None:
            return computed
        matched = self._match_templates(self._templates, neighbours, begin, end)
        merged = _new_output(int(matched.state[1] + computed.state[1]), begin, end)
        merge(matched, computed, merged)
        merged.state[1] = merged.ends[-1]
        return merged

    def _match_templates(
        self, templates: TemplateIndex, neighbours: NeighbourhoodArrays, begin: int, end: int
    ) -> SparseOutput:
        output = _new_output(64 * (end - begin) + 2 * len(self._row.values), begin, end)
        buffers = self._lists, self._walk_cache, self._numbers, self._row
        while (status := evaluate_templates(templates, self._arrays, neighbours, *buffers, output)) != DONE:
            if status == LABELS_FULL:
                longer = np.empty(4 * len(self._lists.labels), np.int32)
                self._lists = self._lists._replace(labels=longer)
                buffers = self._lists, self._walk_cache, self._numbers, self._row
            else:
                output = _grow_output(output)
        return output

    def run_programs(self, index: ProgramIndex, neighbours: NeighbourhoodArrays, begin: int, end: int) -> SparseOutput:
        """Evaluate rows `begin` to `end` by programs."""
        output = _new_output(64 * (end - begin) + 2 * len(self._row.values), begin, end)
        while True:
            self._workspace.last_run[:] = 0
            status = run_programs(self._programs, index, self._arrays, neighbours, self._workspace, self._row, output)
            if status == DONE:
                return output
            if status == FACTS_FULL:
                self._workspace = self._workspace._replace(
                    local=_new_local_facts(self._graph, 4 * len(self._workspace.local.next_fact))
                )
            else:
                output = _grow_output(output)


def _counting_features(templates: TemplateIndex | None) -> list[int]:
    """Return the features with a template whose values can be other than 0 and 1."""
    if templates is None:
        return []
    nary = templates.nary[templates.nary[:, 1] != 0, 0]
    hashed = (table[table[:, 0] >= 0, 1] & 0xFFFFFFFF for table in (templates.path, templates.walk))
    numbers = templates.value, templates.differences[:, 0]
    tables = templates.hop_counts, nary, *numbers, *(table - 1 for table in hashed)
    counting = {feature for table in tables for feature in table.ravel().tolist() if feature >= 0}
    return [*counting, *(other for one, other in templates.duplicates.tolist() if one in counting)]


def _new_walk_cache() -> WalkCache:
    size = 1 << 15
    return WalkCache(
        np.full((size, 2), -1, np.int64),
        np.zeros(1 << 18, np.int32),
        np.zeros(2, np.int64),
    )


def _new_output(capacity: int, begin: int, end: int) -> SparseOutput:
    """Return a buffer of `capacity` entries for rows `begin` to `end`."""
    ends, state = np.zeros(end - begin, np.int64), np.array([0, 0, begin], np.int64)
    return SparseOutput(np.empty(capacity, np.int32), np.empty(capacity, np.float32), ends, state)


def _grow_output(output: SparseOutput) -> SparseOutput:
    capacity = 2 * len(output.ids)
    return output._replace(ids=np.resize(output.ids, capacity), values=np.resize(output.values, capacity))


def _program_index(graph: GaifmanGraph, plan: FeaturePlan, program_features: Longs) -> ProgramIndex:
    """Return which programs depend on which relations. Defaults are added when sizes are known."""
    dependencies = np.array(
        sorted((r, p) for p in program_features.tolist() for r in plan.relations[p]), np.int64
    ).reshape(-1, 2)
    always = [p for p in program_features.tolist() if not plan.relations[p]]
    groups = np.minimum(plan.default_groups, NO_DEFAULT)
    groups[program_features] = plan.default_groups[program_features]
    present = np.unique(groups[groups >= 0])  # renumbered: groups of templates only need no default
    groups = np.where(groups >= 0, np.searchsorted(present, groups), groups).astype(np.int32)
    starts = np.searchsorted(dependencies[:, 0], np.arange(len(graph.kb.content.relations) + 1))
    needed = np.full(len(graph.kb.content.relations), len(always) > 0, np.uint8)
    needed[dependencies[:, 0]] = 1
    return ProgramIndex(
        freeze(starts.astype(np.int64)),
        freeze(dependencies[:, 1].astype(np.int32)),
        freeze(np.array(always, np.int32)),
        freeze(groups),
        freeze(np.zeros((0, 0), np.float32)),
        freeze(needed),
        False,
    )


def _collect_matrix(parts: list[SparseOutput], sizes: Ints, index: ProgramIndex) -> FeatureMatrix:
    """Collect the output of blocks in one matrix."""
    arrays = [(np.append(0, part.ends), part.ids, part.values) for part in parts]
    return FeatureMatrix(*concatenate_rows(arrays), freeze(sizes), index.default_rows, index.defaults)


def _new_local_facts(graph: GaifmanGraph, capacity: int) -> LocalFacts:
    relations = max(1, len(graph.kb.content.relations))
    return LocalFacts(
        np.full(len(graph), -1, np.int32),
        np.full(relations, -1, np.int32),
        np.zeros(relations, np.int32),
        np.zeros(capacity, np.int32),
        np.zeros((capacity, MAX_ARITY), np.int32),
        np.zeros(2, np.int64),
    )


def _new_vm_state(plan: FeaturePlan, words: int) -> VmState:
    registers = int(np.diff(plan.programs.register_starts).max(initial=1))
    return VmState(
        np.zeros(max(words, 1), np.uint64),
        np.zeros(registers, np.int64),
        np.zeros(MAX_VARIABLES, np.int32),
        np.zeros(MAX_RELATION_VARIABLES, np.int32),
        np.zeros(MAX_RELATION_VARIABLES, np.int32),
        np.zeros(MAX_RESULTS, np.float64),
    )


def _neighbourhood_arrays(
    graph: GaifmanGraph, drawn: NeighbourhoodBatch, hidden: HiddenFacts | None, drop_uncertain: SamplingConfig | None
) -> NeighbourhoodArrays:
    starts, facts = check_hidden(graph, hidden, len(drawn.own_positions))
    return NeighbourhoodArrays(
        drawn.starts,
        drawn.members,
        drawn.edges,
        freeze(drawn.own_positions),
        drawn.draws,
        freeze(starts),
        freeze(facts),
        fact_rows(graph, facts),
        freeze(world_keys(drop_uncertain) if drop_uncertain and graph.kb.has_confidences else np.zeros(0, np.uint64)),
        drop_uncertain is not None and drop_uncertain.shared_order,
    )

"""Evaluate the features of a plan in drawn neighbourhoods."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from gaifman.config import cpu_count
from gaifman.errors import KnowledgeBaseError, LimitError
from gaifman.features.compiler import FeaturePlan
from gaifman.features.matrix import FeatureMatrix, Reals, concatenate_rows
from gaifman.features.templates import build_template_index, with_label_sets
from gaifman.kb.gaifman_graph import GaifmanGraph
from gaifman.kb.tables import Ints, Longs, freeze
from gaifman.kernels.bitset_vm import MAX_RELATION_VARIABLES, MAX_RESULTS, MAX_VARIABLES, VmState
from gaifman.kernels.evaluate import (
    DONE,
    FACTS_FULL,
    LABELS_FULL,
    KnowledgeBaseArrays,
    NeighbourhoodArrays,
    ProgramIndex,
    ProgramWorkspace,
    evaluate_numbers,
    evaluate_templates,
    run_programs,
)
from gaifman.kernels.local_facts import MAX_ARITY, LocalFacts
from gaifman.kernels.paths import WalkCache
from gaifman.kernels.rows import RowBuffer, SparseOutput, merge
from gaifman.kernels.templates import LabelLists, TemplateIndex
from gaifman.sampling.neighbourhoods import (
    DrawnPart,
    HiddenFacts,
    NeighbourhoodBatch,
    SamplingConfig,
    check_hidden,
    check_tuples,
    collect_neighbourhoods,
    draw_neighbourhoods,
    fact_rows,
    make_draw_job,
)
from gaifman.threads import map_with_workers

Bits = npt.NDArray[np.uint64]

MAX_TABLE_WORDS = 1 << 26
"""Words that the tables of one program may take: half a gigabyte."""
ROWS_PER_BLOCK = 4096
"""Rows that a thread evaluates at once."""


class FeatureEvaluator:
    """A plan made ready for one graph: evaluates its features in any drawn neighbourhoods.

    `specialised=False` leaves every feature to the machine of bit tables, which is slower and gives the same.
    """

    def __init__(self, graph: GaifmanGraph, plan: FeaturePlan, *, use_templates: bool = True) -> None:
        self.graph, self.plan = graph, plan
        families, taken = build_template_index(graph, plan) if use_templates else (None, np.zeros(0, np.int32))
        self.arrays = graph.arrays
        self.templates = None
        if families is not None and len(taken):
            self.templates = with_label_sets(families, self.arrays.graph)
        self.program_features = np.setdiff1d(np.arange(len(plan.features)), taken)
        self._index = _program_index(graph, plan, self.program_features)
        self.counting_bits = _bits(len(plan.features), [*self.program_features.tolist(), *_counting(self.templates)])

    def evaluate(
        self,
        drawn: NeighbourhoodBatch,
        hidden: HiddenFacts | None = None,
        *,
        drop_uncertain: SamplingConfig | None = None,
        threads: int | None = None,
    ) -> FeatureMatrix:
        """The matrix of all drawn neighbourhoods.

        Facts `hidden` from a tuple are not seen. With `dropping`, a fact of confidence c drops out of a neighbourhood
        with probability 1 − c, keyed by that sampling. The same for any number of threads.
        """
        if drawn.own_positions.shape[1] != self.plan.arity:
            wrong = drawn.own_positions.shape[1]
            raise KnowledgeBaseError(f"the features are for tuples of {self.plan.arity} objects, these have {wrong}")
        sizes = np.diff(drawn.starts).astype(np.int32)
        most = int(sizes.max(initial=1))
        index = self._index._replace(defaults=self._defaults(np.unique(sizes), most))
        neighbours = _neighbourhood_arrays(self.graph, drawn, hidden, drop_uncertain)
        blocks = [(begin, min(begin + ROWS_PER_BLOCK, len(drawn))) for begin in range(0, len(drawn), ROWS_PER_BLOCK)]
        threads = cpu_count() if threads is None else threads

        def make_worker() -> Callable[[tuple[int, int]], SparseOutput]:
            worker = self._worker(most)
            return lambda block: worker.evaluate(index, neighbours, *block)

        done = map_with_workers(make_worker, blocks, threads)
        return _collect_matrix(done, sizes, index)

    def sample_and_evaluate(
        self,
        tuples: npt.ArrayLike,
        sampling: SamplingConfig,
        hidden: HiddenFacts | None = None,
        *,
        drop_uncertain: bool = False,
        threads: int | None = None,
    ) -> FeatureMatrix:
        """Draw neighbourhoods of tuples and evaluate them block by block: the same matrix in less time and memory.

        With `dropping`, uncertain facts drop out, keyed by the sampling.
        """
        numbers = check_tuples(self.graph, tuples)
        if sampling.size is None or numbers.shape[1] != self.plan.arity:  # sizes are not known before the draw
            drawn = draw_neighbourhoods(self.graph, numbers, sampling, hidden, threads)
            return self.evaluate(drawn, hidden, drop_uncertain=sampling if drop_uncertain else None, threads=threads)
        job = make_draw_job(self.graph, numbers, sampling, hidden)
        most = min(sampling.size, len(self.graph)) + self.plan.arity
        index = self._index._replace(defaults=self._defaults(np.arange(1, most + 1), most))

        def worker() -> Callable[[int, int, DrawnPart], tuple[SparseOutput, Ints]]:
            own = self._worker(most)

            def finish(begin: int, end: int, part: DrawnPart) -> tuple[SparseOutput, Ints]:
                first, last = job.hidden_starts[begin], job.hidden_starts[end]
                unseen = HiddenFacts(job.hidden_starts[begin : end + 1] - first, job.hidden[first:last])
                drawn = collect_neighbourhoods(job, numbers[begin:end], part)
                block = _neighbourhood_arrays(self.graph, drawn, unseen, sampling if drop_uncertain else None)
                return own.evaluate(index, block, 0, len(drawn)), np.diff(drawn.starts).astype(np.int32)

            return finish

        done = job.map_blocks(cpu_count() if threads is None else threads, worker)
        sizes = np.concatenate([np.zeros(0, np.int32), *(part[1] for part in done)])
        return _collect_matrix([part[0] for part in done], sizes, index)

    def _worker(self, max_members: int) -> _BlockEvaluator:
        """What one thread works with, for neighbourhoods of up to `most` members."""
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
        """Words for the largest tables, or an error where they would not fit."""
        if not len(self.program_features):
            return 1
        words = self.plan.table_words(max_members)[self.program_features]
        if words.max(initial=0) > MAX_TABLE_WORDS:
            worst = self.program_features[int(words.argmax())]
            size = words.max() * 8 / 1e9
            raise LimitError(
                f"in a neighbourhood of {max_members:,} members the tables of {self.plan.features[worst]} would take "
                f"{size:,.1f} GB; the limit is {MAX_TABLE_WORDS * 8 / 1e9:,.1f} GB",
                hint="draw smaller neighbourhoods (k), or use fewer variables at once",
            )
        return int(words.max(initial=1))

    def _defaults(self, sizes: npt.NDArray[np.integer], max_members: int) -> Reals:
        """For each shape and size, the value in a neighbourhood without facts: by one program of the shape."""
        shapes = self._index.default_rows
        count = int(shapes.max(initial=-1)) + 1
        defaults = np.zeros((count, max_members + 1), np.float32)
        if count and len(sizes):
            chosen = np.array([int(np.argmax(shapes == shape)) for shape in range(count)], np.int32)
            none, nowhere = np.full(len(shapes), -1, np.int32), np.zeros((0, max_members + 1), np.float32)
            bare = self._index._replace(
                always=freeze(chosen), default_rows=freeze(none), defaults=freeze(nowhere), no_facts=True
            )
            nobody, nothing = np.zeros(int(sizes.sum()), np.int32), np.zeros(0, np.int32)
            places = np.zeros((len(sizes), self.plan.arity), np.int32)
            starts = np.append(0, np.cumsum(sizes, dtype=np.int64))
            empty = NeighbourhoodBatch(freeze(starts), freeze(nobody), nothing, 1, places, freeze(nothing))
            found = self._worker(max_members).run_programs(
                bare, _neighbourhood_arrays(self.graph, empty, None, None), 0, len(sizes)
            )
            defaults[:, sizes] = _collect_matrix([found], sizes.astype(np.int32), bare).to_dense()[:, chosen].T
        return freeze(defaults)


class _BlockEvaluator:
    """What one thread works with, grown when it does not suffice."""

    def __init__(
        self,
        graph: GaifmanGraph,
        plan: FeaturePlan,
        world: KnowledgeBaseArrays,
        families: TemplateIndex | None,
        counts: Bits,
        words: int,
        most: int,
    ) -> None:
        self._graph, self._world, self._families, self._programs = graph, world, families, plan.programs
        count = len(plan.features)
        bits = (count + 63) >> 6
        self._met = RowBuffer(
            np.zeros(bits, np.uint64), np.zeros((bits + 63) >> 6, np.uint64), counts, np.zeros(count, np.float32)
        )
        self._memo = _new_walk_cache()
        self._tools = ProgramWorkspace(
            _new_local_facts(graph, 1024), _new_vm_state(plan, words), np.zeros(count, np.int32)
        )
        pairs = (plan.arity, most)
        self._lists = LabelLists(
            np.empty(most, np.int64),
            np.empty(most, np.int32),
            np.empty(pairs, np.int32),
            np.empty(pairs, np.int32),
            np.empty(pairs, np.int32),
            np.empty(4096, np.int32),
            np.empty(most, np.int32),
            np.empty(most, np.int32),
            np.empty((2, most), np.uint64),
        )

    def evaluate(self, index: ProgramIndex, neighbours: NeighbourhoodArrays, begin: int, end: int) -> SparseOutput:
        """Some rows, of families and programs together."""
        run = self._evaluate_numbers if index.no_facts else self.run_programs
        if self._families is None:
            return run(index, neighbours, begin, end)
        read = self._match_templates(self._families, neighbours, begin, end)
        if not len(index.always) and not len(index.programs):
            return read
        other = run(index, neighbours, begin, end)
        both = _new_output(int(read.state[1] + other.state[1]), begin, end)
        merge(read, other, both)
        both.state[1] = both.ends[-1]
        return both

    def _match_templates(
        self, families: TemplateIndex, neighbours: NeighbourhoodArrays, begin: int, end: int
    ) -> SparseOutput:
        output = _new_output(64 * (end - begin) + 2 * len(self._met.values), begin, end)
        kept = self._lists, self._memo, self._met
        while (status := evaluate_templates(families, self._world, neighbours, *kept, output)) != DONE:
            if status == LABELS_FULL:
                longer = np.empty(4 * len(self._lists.labels), np.int32)
                self._lists = self._lists._replace(labels=longer)
                kept = self._lists, self._memo, self._met
            else:
                output = _grow_output(output)
        return output

    def _evaluate_numbers(
        self, index: ProgramIndex, neighbours: NeighbourhoodArrays, begin: int, end: int
    ) -> SparseOutput:
        output = _new_output(len(index.always) * (end - begin), begin, end)
        results = self._tools.state.results
        evaluate_numbers(self._programs, index.always, self._world.values, neighbours, results, output)
        return output

    def run_programs(self, index: ProgramIndex, neighbours: NeighbourhoodArrays, begin: int, end: int) -> SparseOutput:
        """Some rows of programs."""
        output = _new_output(64 * (end - begin) + 2 * len(self._met.values), begin, end)
        while True:
            self._tools.last_run[:] = 0
            status = run_programs(self._programs, index, self._world, neighbours, self._tools, self._met, output)
            if status == DONE:
                return output
            if status == FACTS_FULL:
                self._tools = self._tools._replace(
                    local=_new_local_facts(self._graph, 4 * len(self._tools.local.next_fact))
                )
            else:
                output = _grow_output(output)


def _counting(families: TemplateIndex | None) -> list[int]:
    """The features of families whose values are other than 0 and 1."""
    if families is None:
        return []
    wide = families.nary[families.nary[:, 1] != 0, 0]
    hashed = (table[table[:, 0] >= 0, 1] & 0xFFFFFFFF for table in (families.path, families.walk))
    tables = families.hop_counts, wide, *(table - 1 for table in hashed)
    counting = {feature for table in tables for feature in table.ravel().tolist() if feature >= 0}
    return [*counting, *(other for one, other in families.duplicates.tolist() if one in counting)]


def _bits(count: int, chosen: list[int]) -> Bits:
    """A bit for each of `count` features: set where it is one of the chosen."""
    flags = np.zeros(((count + 63) >> 6) << 6, np.uint8)
    flags[chosen] = 1
    return freeze(np.packbits(flags, bitorder="little").view(np.uint64))


def _new_walk_cache() -> WalkCache:
    """Room to remember what paths over three bonds are asked for."""
    size = 1 << 15
    return WalkCache(
        np.full((size, 2), -1, np.int64),
        np.zeros(1 << 18, np.int32),
        np.zeros(2, np.int64),
    )


def _new_output(room: int, begin: int, end: int) -> SparseOutput:
    """Room for entries of rows `begin` to `end`."""
    ends, state = np.zeros(end - begin, np.int64), np.array([0, 0, begin], np.int64)
    return SparseOutput(np.empty(room, np.int32), np.empty(room, np.float32), ends, state)


def _grow_output(output: SparseOutput) -> SparseOutput:
    room = 2 * len(output.ids)
    return output._replace(ids=np.resize(output.ids, room), values=np.resize(output.values, room))


def _program_index(graph: GaifmanGraph, plan: FeaturePlan, program_features: Longs) -> ProgramIndex:
    """Which programs to run for which relations; what the others are worth depends on the sizes."""
    concerned = np.array(
        sorted((r, p) for p in program_features.tolist() for r in plan.relations[p]), np.int64
    ).reshape(-1, 2)
    rest = [p for p in program_features.tolist() if not plan.relations[p]]
    shapes = np.full(len(plan.features), -1, np.int32)
    shapes[program_features] = plan.default_groups[program_features]
    present = np.unique(shapes[shapes >= 0])  # numbered anew: a shape that only families have has no default to find
    shapes = np.where(shapes >= 0, np.searchsorted(present, shapes), -1).astype(np.int32)
    starts = np.searchsorted(concerned[:, 0], np.arange(len(graph.kb.content.relations) + 1))
    wanted = np.full(len(graph.kb.content.relations), len(rest) > 0, np.uint8)
    wanted[concerned[:, 0]] = 1
    return ProgramIndex(
        freeze(starts.astype(np.int64)),
        freeze(concerned[:, 1].astype(np.int32)),
        freeze(np.array(rest, np.int32)),
        freeze(shapes),
        freeze(np.zeros((0, 0), np.float32)),
        freeze(wanted),
        not len(concerned) and all(plan.is_numeric(p) for p in rest),
    )


def _collect_matrix(parts: list[SparseOutput], sizes: Ints, index: ProgramIndex) -> FeatureMatrix:
    """Put the output of blocks into one matrix."""
    arrays = [(np.append(0, part.ends), part.ids, part.values) for part in parts]
    return FeatureMatrix(*concatenate_rows(arrays), freeze(sizes), index.default_rows, index.defaults)


def _new_local_facts(graph: GaifmanGraph, room: int) -> LocalFacts:
    relations = max(1, len(graph.kb.content.relations))
    return LocalFacts(
        np.full(len(graph), -1, np.int32),
        np.full(relations, -1, np.int32),
        np.zeros(relations, np.int32),
        np.zeros(room, np.int32),
        np.zeros((room, MAX_ARITY), np.int32),
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
        freeze(np.zeros(0, np.uint64) if drop_uncertain is None else drop_uncertain.keys()),
    )

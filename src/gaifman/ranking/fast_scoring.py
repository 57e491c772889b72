"""Fast scores of all candidates for one position of a pair, by a network: for evaluation.

The features around each object are computed once. Draws are shared: the members drawn around an object are a prefix of
one random order, and the other object decides only how long the prefix is. If a candidate and the fixed object share no
member or edge, every feature depends on one of the two, and the first layer of the network is the sum of two parts. If
they do, the features of the pair are added. Candidates with other features are scored directly, with the same draws.

All pairs see the same possible world in a draw (`gaifman.sampling.worlds`), so that the scores are those of the plain
path also if facts are uncertain.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from gaifman.features.evaluator import FeatureEvaluator, FeatureMatrix, Reals, feature_bits, new_row_buffer
from gaifman.features.templates import (
    ConstantFact,
    Hop,
    Linked,
    NaryAtom,
    Pair,
    Path,
    Template,
    Unary,
    Walk,
    match_template,
    with_label_sets,
)
from gaifman.kb.gaifman_graph import GaifmanGraph
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.kb.tables import Floats, Ints, Longs, SortedNames, concatenate_ranges, freeze
from gaifman.kernels.candidate_pairs import (
    BOTH_SIDES,
    FILLED,
    FULL_PATH,
    NO_LEVEL,
    CandidateQuery,
    DrawOrder,
    FeatureSides,
    ObjectRows,
    PairFeatures,
    TouchIndex,
    classify_candidates,
    collect_pair_features,
    draw_fillers,
    mark_neighbourhood,
    mark_settled_features,
    unmark_neighbourhood,
)
from gaifman.kernels.evaluate import KnowledgeBaseArrays
from gaifman.kernels.graph import LabelledGraph
from gaifman.kernels.ranking import group_equal_rows
from gaifman.kernels.sampling import DrawnMembers
from gaifman.kernels.templates import TemplateIndex
from gaifman.logic.ast import Feature
from gaifman.models.mlp import MLP
from gaifman.predict import prefix_means
from gaifman.sampling.neighbourhoods import GrowingScratch, NeighbourhoodBatch, draw_neighbourhoods, make_draw_job
from gaifman.sampling.worlds import World, world_keys
from gaifman.threads import ProcessLock, cached_property
from gaifman.training import Scorer, TrainingConfig

ONE_SIDED = (Hop, Unary, ConstantFact)
"""Templates of features of one object."""
DECOMPOSABLE = (*ONE_SIDED, Pair, Linked, Path)
"""These, and templates of features that change only if the pair touches: shares an edge or a member. Computed here."""
SPLITTABLE = (*DECOMPOSABLE, NaryAtom, Walk)
"""These, and templates whose features also change if members of the pair touch; such pairs are scored directly."""
MAX_CACHED_BYTES = 1 << 28
"""Limit on the cached first-layer sums of a model."""
PAIR_FEATURES_PER_CANDIDATE = 16
"""Initial room for pair features, per candidate: running out of it costs as much as collecting the features."""

Kinds = npt.NDArray[np.uint8]


def supports_fast_scoring(features: tuple[Feature, ...], config: TrainingConfig, arity: int) -> bool:
    """Whether the scores of a model with these features can be split."""
    sampling = config.sampling(1, "answer 0")
    splits = (arity, sampling.radius) == (2, 1) and sampling.size != 1  # a size of 1 leaves neither object a quota
    return splits and all(isinstance(match_template(feature), SPLITTABLE) for feature in features)


@dataclass(frozen=True, slots=True)
class PositionFeatures:
    """The features around every object at one position, with a dummy object at the other."""

    matrix: FeatureMatrix
    """The features of draws of all lengths."""
    rows: Longs
    """Shape (levels, objects), int64: the row of an object's first draw; its other draws follow."""
    draw_orders: tuple[DrawOrder, ...]
    """For each draw, the members in the order in which they are drawn."""

    def select_rows(self, rows: Longs) -> ObjectRows:
        """Some rows, in the form that the kernels take."""
        return ObjectRows(self.matrix.starts, self.matrix.ids, self.matrix.values, freeze(rows))


class ObjectFeatures:
    """The features around every object of a knowledge base, for one set of features and one sampling."""

    def __init__(self, evaluator: FeatureEvaluator, config: TrainingConfig, draws: int) -> None:
        self.evaluator, self.graph, self.draws = evaluator, evaluator.graph, draws
        self.size = config.sampling(1, "check").size
        self.quota = 0 if self.size is None else self.size // 2
        self.draw_ratio = config.draw_ratio(self.graph.kb)
        self.sampling = replace(config.sampling(draws, "answer 0"), shared_order=True)
        self._padded_graph = _with_dummy_object(self.graph)
        self._padded_evaluator = FeatureEvaluator(self._padded_graph, evaluator.plan)
        self._worlds = [World(self.graph, key) for key in world_keys(self.sampling)]
        self._by_position: dict[int, PositionFeatures] = {}
        self._row_groups: dict[tuple[int, int, int], tuple[Ints, Longs]] = {}
        self._lock = ProcessLock()

    @cached_property
    def templates(self) -> list[Template | None]:
        """The template of each feature."""
        return [match_template(feature) for feature in self.evaluator.plan.features]

    def world(self, number: int) -> KnowledgeBaseArrays:
        """The knowledge base in the world of a draw."""
        return self._worlds[number].arrays

    @cached_property
    def template_indices(self) -> list[TemplateIndex | None]:
        """The template index of each draw: it has tables by label set, which depend on the world."""
        templates = self.evaluator.templates
        if templates is None or not self.graph.kb.has_confidences:
            return [templates] * self.draws
        return [with_label_sets(templates, self.world(number).graph) for number in range(self.draws)]

    @cached_property
    def decomposable(self) -> bool:
        """Whether all features of pairs that touch are computed here, so that no candidate is scored directly."""
        evaluator = self.evaluator
        cyclic_paths = evaluator.templates is not None and np.diagonal(evaluator.templates.path_lengths).any()
        return (
            all(isinstance(template, DECOMPOSABLE) for template in self.templates)
            and evaluator.arrays.graph.all_binary
            and not len(evaluator.program_features)
            and not cyclic_paths
        )

    @cached_property
    def uses_walks(self) -> bool:
        """Whether some features depend on edges between the members of the two objects."""
        return any(isinstance(template, Walk) for template in self.templates)

    @cached_property
    def feature_sides(self) -> Kinds:
        """Shape (features,), uint8: the position of the object that a feature depends on, or BOTH_SIDES."""
        sides = [template.position if isinstance(template, ONE_SIDED) else BOTH_SIDES for template in self.templates]
        return freeze(np.array(sides, np.uint8))

    @cached_property
    def extra_size(self) -> Ints:
        """Shape (objects,), int32: by how much the partner of each object exceeds its quota of members."""
        return freeze(np.maximum(self.quota - self.graph.degrees, 0).astype(np.int32))

    def at_position(self, position: int) -> PositionFeatures:
        """The features around every object at a position, computed on first use."""
        with self._lock:
            if position not in self._by_position:
                self._by_position[position] = self._compute(position)
            return self._by_position[position]

    def _compute(self, position: int) -> PositionFeatures:
        """Draw level by level; objects with few neighbours are complete after the first levels."""
        degrees, objects = self.graph.degrees, np.arange(len(self.graph))
        rows = np.zeros((self.quota + 1, len(objects)), np.int64)
        levels, matrices, drawn, count = [], [], [], 0
        for level in range(self.quota + 2):  # the last level replaces a neighbour that is the partner itself
            chosen = objects if level == 0 else objects[degrees >= self.quota + level]
            tuples = np.full((len(chosen), 2), len(objects), np.int32)  # the dummy is the last object
            tuples[:, position] = chosen
            sampling = self.sampling if self.size is None else replace(self.sampling, size=self.quota + level)
            drawn.append(draw_neighbourhoods(self._padded_graph, tuples, sampling))
            levels.append(chosen)
            if level <= self.quota:
                rows[level] = rows[level - 1]
                rows[level, chosen] = count + np.arange(len(chosen)) * self.draws
                count += len(chosen) * self.draws
                matrices.append(self._padded_evaluator.sample_and_evaluate(tuples, sampling))
        label_sets = [self.world(number).graph.label_sets for number in range(self.draws)]
        orders = tuple(_draw_order(len(objects), levels, drawn, *each) for each in enumerate(label_sets))
        return PositionFeatures(FeatureMatrix.concatenate(matrices), rows, orders)

    def equal_row_groups(self, position: int, level: int, number: int) -> tuple[Ints, Longs]:
        """Group the objects by their features in a draw: the group of each object, (objects,), and a row per group."""
        around, key = self.at_position(position), (position, level, number)
        with self._lock:
            if key not in self._row_groups:
                rows = around.select_rows(around.rows[level] + number)
                groups, representatives = np.empty(len(rows.rows), np.int32), np.empty(len(rows.rows), np.int64)
                table = np.full(2 << len(groups).bit_length(), -1, np.int32)
                count = group_equal_rows(rows, table, groups, representatives)
                self._row_groups[key] = freeze(groups), freeze(representatives[:count])
            return self._row_groups[key]


def _draw_order(
    objects: int, levels: Sequence[Longs], drawn: Sequence[NeighbourhoodBatch], number: int, label_sets: Ints
) -> DrawOrder:
    """The members of one draw, by object and level: at each level those that were not drawn before."""
    owner_parts, members, lists, level_of = [], [], [], []
    before = np.zeros(0, np.int64)
    for level, (chosen, found) in enumerate(zip(levels, drawn, strict=True)):
        at = np.arange(len(chosen)) * found.draws + number
        lengths = np.diff(found.starts)[at]
        indices = concatenate_ranges(found.starts[at], found.starts[at + 1])
        owners = np.repeat(chosen, lengths)
        new = (found.edges[indices] >= 0) & ~np.isin(owners * (objects + 1) + found.members[indices], before)
        owner_parts.append(owners[new])
        members.append(found.members[indices[new]])
        lists.append(label_sets[found.edges[indices[new]]])
        level_of.append(np.full(int(new.sum()), level, np.int32))
        before = np.concatenate([before, owner_parts[-1] * (objects + 1) + members[-1]])
    owners = np.concatenate(owner_parts)
    order = np.argsort(owners, kind="stable")  # levels stay ascending
    starts = np.searchsorted(owners[order], np.arange(objects + 1)).astype(np.int64)
    return DrawOrder(freeze(starts), *(freeze(np.concatenate(parts)[order]) for parts in (members, lists, level_of)))


def _with_dummy_object(graph: GaifmanGraph) -> GaifmanGraph:
    """The graph with one more object, the last by name, which has no facts."""
    kb = graph.kb
    names = SortedNames([*kb.objects, f"{kb.objects[-1]}'"])
    starts = freeze(np.append(graph.starts, graph.starts[-1]))
    return replace(graph, kb=KnowledgeBase(replace(kb.content, objects=names)), starts=starts)


class SplitScorer:
    """Scores the candidates of one model from the features around each object. Not thread-safe."""

    def __init__(self, object_features: ObjectFeatures, scorer: Scorer, counts: Sequence[int] | None = None) -> None:
        assert isinstance(scorer.base, MLP), "only a network's first layer can be split"
        self.object_features, self.scorer, self.base = object_features, scorer, scorer.base
        self.counts = tuple(counts or (object_features.draws,))
        self._sums: dict[tuple[int, int, int], Reals] = {}
        self._pair_finder = _PairFeatureFinder(object_features, scorer.scaler.features())

    @property
    def nbytes(self) -> int:
        """Bytes of the cached sums and of the work arrays."""
        return sum(sums.nbytes for sums in self._sums.values()) + self._pair_finder.nbytes

    def scores(self, tuples: Ints, position: int) -> Floats:
        """Shape (counts, b, objects), float64: means over draws of each tuple, with every object at a position."""
        found = np.empty((len(self.counts), len(tuples), len(self.object_features.graph)))
        left = [np.zeros((0, 2), np.int64)]
        for row, fixed in enumerate(tuples[:, 1 - position].tolist()):
            per_draw, kinds = self._score_draws(fixed, position)
            found[:, row] = prefix_means(per_draw, self.counts, self.object_features.draw_ratio)
            direct = np.flatnonzero(kinds == FULL_PATH)
            left.append(np.stack([np.full(len(direct), row), direct], axis=1))
        rows, direct = np.concatenate(left).T
        found[:, rows, direct] = self._score_directly(tuples[rows], direct, position)
        return found

    def _score_directly(self, tuples: Ints, candidates: Longs, position: int) -> Floats:
        """Shape (counts, b), float64: the scores of tuples (b, 2), each with its own candidate at the position."""
        pairs = tuples.copy()
        pairs[:, position] = candidates
        matrix = self.object_features.evaluator.sample_and_evaluate(pairs, self.object_features.sampling, threads=1)
        per_draw = self.scorer.probabilities(matrix).reshape(-1, self.object_features.draws)
        return prefix_means(per_draw, self.counts, self.object_features.draw_ratio)

    def _score_draws(self, fixed: int, position: int) -> tuple[Floats, Kinds]:
        """The score of every candidate in each draw, (objects, draws), and FULL_PATH for those to score directly."""
        each = np.empty((len(self.object_features.graph), self.object_features.draws))
        left = np.zeros(len(each), np.uint8)
        for number in range(self.object_features.draws):
            kinds, pair_features = self._pair_finder.find(fixed, position, number)
            extra_size = self.object_features.extra_size
            key = position, int(extra_size[fixed]), number
            each[:, number] = self.base.score_candidates(
                self._fixed_sums(fixed, 1 - position, number),
                extra_size,
                self._candidate_sums(*key),
                self.object_features.equal_row_groups(*key)[0],
                kinds,
                self.scorer.scaler.transform_changes(pair_features),
            )
            left = np.where(kinds == FULL_PATH, kinds, left)
        return each, left

    def _fixed_sums(self, obj: int, position: int, number: int) -> Reals:
        """First-layer sums of the fixed object's draw, for each length of the draw."""
        around = self.object_features.at_position(position)
        return self.base.first_layer_sums(self.scorer.scaler.transform(around.matrix, around.rows[:, obj] + number))

    def _candidate_sums(self, position: int, level: int, number: int) -> Reals:
        """First-layer sums of every group of equal rows; cached, because most fixed objects need the same level."""
        key = position, level, number
        if key not in self._sums:
            rows = self.object_features.equal_row_groups(*key)[1]
            sums = self.base.first_layer_sums(
                self.scorer.scaler.transform(self.object_features.at_position(position).matrix, rows)
            )
            while self._sums and sums.nbytes * (len(self._sums) + 1) > MAX_CACHED_BYTES:
                del self._sums[next(iter(self._sums))]
            self._sums[key] = sums
        return self._sums[key]


class _PairFeatureFinder:
    """Finds the candidates that touch an object, and the features of these pairs. Not thread-safe."""

    def __init__(self, object_features: ObjectFeatures, used_features: Longs) -> None:
        self._features, evaluator = object_features, object_features.evaluator
        count, features = len(object_features.graph), len(evaluator.plan.features)
        self._touching = TouchIndex(
            np.zeros(count, np.uint8),
            np.full(count, -1, np.int32),
            np.full(count, NO_LEVEL, np.int32),
            np.zeros(count + 1, np.int64),
            np.empty((1 << 12, 2), np.int32),
            np.zeros(count, np.int64),
            np.zeros(1, np.int64),
        )
        self._used = feature_bits(features, used_features)
        self._sides = FeatureSides(
            object_features.feature_sides, np.empty((object_features.quota + 1, len(self._used)), np.uint64)
        )
        self._row_buffer = new_row_buffer(features, evaluator.counting_bits)
        self._pair_features = self._allocate(features + PAIR_FEATURES_PER_CANDIDATE * count)
        self._scratch = GrowingScratch()

    @property
    def nbytes(self) -> int:
        """Bytes of the work arrays."""
        arrays: list[npt.NDArray[Any]] = [*self._touching, *self._pair_features, *self._row_buffer, self._sides.settled]
        return int(sum(array.nbytes for array in arrays))

    def _allocate(self, entries: int) -> PairFeatures:
        starts = np.zeros(len(self._touching.label_sets) + 1, np.int64)
        reals = np.empty(entries, np.float32), np.empty(entries, np.float32)
        return PairFeatures(starts, np.empty(entries, np.int32), *reals)

    def find(self, fixed: int, position: int, number: int) -> tuple[Kinds, PairFeatures]:
        """The kind of each candidate for a position, and the pair features of the candidates that touch."""
        features, adjacency = self._features, self._features.world(number).graph
        own, others = features.at_position(1 - position), features.at_position(position)
        size = -1 if features.size is None else features.size
        orders = own.draw_orders[number], others.draw_orders[number]
        query = CandidateQuery(fixed, 1 - position, *orders, features.extra_size, size)
        kinds = np.empty(len(features.graph), np.uint8)
        while (room := mark_neighbourhood(adjacency, query, self._touching)) > len(self._touching.reached):
            self._touching = self._touching._replace(reached=np.empty((2 * room, 2), np.int32))
        filled = classify_candidates(
            adjacency, query, self._touching, features.decomposable, features.uses_walks, kinds
        )
        starts, members = self._draw_fillers(adjacency, query, kinds, number) if filled else _NO_MEMBERS
        pairs = int(((kinds != 0) & (kinds != FULL_PATH)).sum())
        rows = (
            own.select_rows(own.rows[:, fixed] + number),
            others.select_rows(others.rows[int(features.extra_size[fixed])] + number),
        )
        if pairs:
            mark_settled_features(rows[0], self._used, self._sides.settled)
            while self._collect(number, query, kinds, starts, members, rows) < 0:
                self._pair_features = self._allocate(2 * len(self._pair_features.ids))
        unmark_neighbourhood(adjacency, query, self._touching)
        return kinds, self._pair_features._replace(starts=self._pair_features.starts[: pairs + 1])

    def _collect(
        self,
        number: int,
        query: CandidateQuery,
        kinds: Kinds,
        starts: Longs,
        members: DrawnMembers,
        rows: tuple[ObjectRows, ObjectRows],
    ) -> int:
        templates, world = self._features.template_indices[number], self._features.world(number)
        assert templates is not None, "pair features come from templates"
        tools = self._sides, *rows, self._row_buffer, self._pair_features
        return collect_pair_features(
            templates, world.graph, world.facts, query, self._touching, kinds, starts, members, *tools
        )

    def _draw_fillers(
        self, adjacency: LabelledGraph, query: CandidateQuery, kinds: Kinds, number: int
    ) -> tuple[Longs, DrawnMembers]:
        """The further members of pairs that share members."""
        candidates = np.flatnonzero(kinds == FILLED)
        pairs = np.full((len(candidates), 2), query.fixed, np.int32)
        pairs[:, 1 - query.position] = candidates
        job = make_draw_job(self._features.graph, pairs, self._features.sampling, None)
        (batch,) = job.row_batches(0, len(pairs))
        scratch, members = job.allocate(batch, self._scratch)
        ends = np.empty(len(pairs), np.int64)
        draw_fillers(adjacency, self._touching, batch, job.plan, scratch, number, query, members, ends)
        return freeze(np.append(0, ends)), members


_NO_MEMBERS = freeze(np.zeros(1, np.int64)), DrawnMembers(np.zeros(0, np.int32), np.zeros(0, np.int32))


class SplitScorerCache:
    """Idle split scorers with their cached sums. A thread borrows one for as long as it scores."""

    def __init__(
        self, object_features: ObjectFeatures, counts: Sequence[int] | None = None, max_bytes: int = MAX_CACHED_BYTES
    ) -> None:
        self.object_features, self._counts, self._max_bytes = object_features, counts, max_bytes
        self._idle: list[SplitScorer] = []
        self._lock = ProcessLock()

    @contextmanager
    def borrow(self, scorer: Scorer) -> Iterator[SplitScorer]:
        """The split scorer of a model, the one used last if it is idle."""
        with self._lock:
            split = next((idle for idle in reversed(self._idle) if idle.scorer is scorer), None)
            if split is not None:
                self._idle.remove(split)
        split = split or SplitScorer(self.object_features, scorer, self._counts)
        yield split  # after an exception it is not returned: its arrays can be half written
        with self._lock:
            self._idle.append(split)
            while self._idle and sum(idle.nbytes for idle in self._idle) > self._max_bytes:
                del self._idle[0]

    def __len__(self) -> int:
        return len(self._idle)

"""Scores of all candidates for one place of a pair: what is around each object is computed once.

Draws are shared (see `docs/neighbourhoods.md`): what is drawn around an object is a prefix of one random order, whose
length hangs on how many neighbours the other object has. Where a candidate and the fixed object do not touch, every
feature speaks of one of the two alone, and the first layer of the network adds what each gives. Where they touch, the
features that come of it are added. What that cannot say is scored by the plain path, with the same draws.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from gaifman.cancellation import Deadline, no_deadline
from gaifman.errors import KnowledgeBaseError
from gaifman.features.evaluator import FeatureEvaluator
from gaifman.features.matrix import FeatureMatrix, Reals, feature_bits, new_row_buffer
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
from gaifman.kernels.ranking import group_equal_rows
from gaifman.kernels.sampling import DrawnMembers
from gaifman.logic.ast import Feature
from gaifman.models.mlp import MLP
from gaifman.predict import Predictor, prefix_means
from gaifman.sampling.neighbourhoods import (
    GrowingScratch,
    HiddenFacts,
    NeighbourhoodBatch,
    SamplingConfig,
    check_tuples,
    draw_neighbourhoods,
    make_draw_job,
)
from gaifman.training import Scorer, TrainingConfig

ONE_SIDED = (Hop, Unary, ConstantFact)
"""Templates of features that concern one object."""
DECOMPOSABLE = (*ONE_SIDED, Pair, Linked, Path)
"""These, and templates whose features change only if the two objects touch, which is computed here."""
SPLITTABLE = (*DECOMPOSABLE, NaryAtom, Walk)
"""These, and templates whose features are evaluated in full if the two objects or their members touch."""
MAX_CACHED_BYTES = 1 << 28
"""Bytes of sums that a model keeps while it ranks."""
PAIR_FEATURES_PER_CANDIDATE = 16
"""Further features of a candidate that there is room for at first, on average: to find out that it is too little costs
as much as finding them."""

Kinds = npt.NDArray[np.uint8]


def supports_fast_scoring(features: tuple[Feature, ...], config: TrainingConfig, arity: int) -> bool:
    """Whether scores of such a model can be split."""
    shares = (arity, config.radius) == (2, 1) and config.size != 1  # of one member neither has a share
    return shares and all(isinstance(match_template(feature), SPLITTABLE) for feature in features)


@dataclass(frozen=True, slots=True)
class PositionFeatures:
    """What is around every object at one position, with nobody at the other."""

    matrix: FeatureMatrix
    """The features, of draws of all lengths."""
    rows: Longs
    """Shape (levels, objects), int64: the row of an object's first draw; those of its other draws follow."""
    draw_orders: tuple[DrawOrder, ...]
    """Of each draw, who is drawn."""

    def select_rows(self, rows: Longs) -> ObjectRows:
        """Some rows, for the kernels."""
        return ObjectRows(self.matrix.starts, self.matrix.ids, self.matrix.values, freeze(rows))


class ObjectFeatures:
    """What is around every object of a knowledge base, for one set of features and one way of drawing."""

    def __init__(self, predictor: Predictor, config: TrainingConfig, draws: int, purpose: str = "answer 0") -> None:
        self.predictor, self.draws, self.size = predictor, draws, config.size
        self.quota = 0 if config.size is None else config.size // 2
        self.sampling = replace(config.sampling(draws, purpose), shared_order=True)
        self._graph = _with_dummy_object(predictor.graph)
        self._evaluator = FeatureEvaluator(self._graph, predictor.evaluator.plan)
        self._by_position: dict[int, PositionFeatures] = {}
        self._row_groups: dict[tuple[int, int, int], tuple[Ints, Longs]] = {}
        self._lock = threading.Lock()
        self._latest = threading.local()

    @cached_property
    def templates(self) -> list[Template | None]:
        """What each feature asks for."""
        return [match_template(feature) for feature in self.predictor.evaluator.plan.features]

    @cached_property
    def decomposable(self) -> bool:
        """Whether all that comes of touching is put together here."""
        evaluator = self.predictor.evaluator
        circles = evaluator.templates is not None and np.diagonal(evaluator.templates.path_lengths).any()
        return (
            all(isinstance(template, DECOMPOSABLE) for template in self.templates)
            and evaluator.arrays.graph.all_binary
            and not len(evaluator.program_features)
            and not circles
        )

    @cached_property
    def uses_walks(self) -> bool:
        """Whether features ask how members of one object are linked to members of the other."""
        return any(isinstance(template, Walk) for template in self.templates)

    @cached_property
    def feature_sides(self) -> Kinds:
        """Shape (features,), uint8: the position of the object that a feature speaks of, or BOTH."""
        sides = [template.position if isinstance(template, ONE_SIDED) else BOTH_SIDES for template in self.templates]
        return freeze(np.array(sides, np.uint8))

    @cached_property
    def extra_size(self) -> Ints:
        """Shape (objects,), int32: how much longer than its share a draw is around the partner of each object."""
        return freeze(np.maximum(self.quota - self.predictor.graph.degrees, 0).astype(np.int32))

    @property
    def cost(self) -> int:
        """Members that are drawn to find what is around every object: both time and memory grow with them."""
        degrees, quota = self.predictor.graph.degrees, self.quota
        if self.size is None:
            return 4 * self.draws * int(degrees.sum())
        levels = ((level, int((degrees >= quota + level).sum())) for level in range(1, quota + 2))
        first = int(np.minimum(degrees, quota).sum())
        return 2 * self.draws * (first + sum(count * (quota + level) for level, count in levels))

    def at_position(self, position: int, deadline: Deadline | None = None) -> PositionFeatures:
        """What is around every object at a position: found once, whichever thread asks first."""
        with self._lock:
            if position not in self._by_position:
                self._by_position[position] = self._compute(position, deadline or no_deadline())
            return self._by_position[position]

    def _compute(self, position: int, deadline: Deadline) -> PositionFeatures:
        """Level by level: a draw around an object with few neighbours does not grow, and is not done again."""
        degrees, objects = self.predictor.graph.degrees, np.arange(len(self.predictor.graph))
        rows = np.zeros((self.quota + 1, len(objects)), np.int64)
        levels, matrices, drawn, count = [], [], [], 0
        for level in range(self.quota + 2):  # the last for who comes in place of a neighbour: see `touching.Reach`
            deadline.check()
            chosen = objects if level == 0 else objects[degrees >= self.quota + level]
            tuples = np.full((len(chosen), 2), len(objects), np.int32)  # nobody is the last object
            tuples[:, position] = chosen
            sampling = self.sampling if self.size is None else replace(self.sampling, size=self.quota + level)
            drawn.append(draw_neighbourhoods(self._graph, tuples, sampling))
            levels.append(chosen)
            if level <= self.quota:
                rows[level] = rows[level - 1]
                rows[level, chosen] = count + np.arange(len(chosen)) * self.draws
                count += len(chosen) * self.draws
                matrices.append(self._evaluator.sample_and_evaluate(tuples, sampling))
        bonds = self._evaluator.arrays.graph.label_sets
        orders = tuple(_draw_order(len(objects), levels, drawn, number, bonds) for number in range(self.draws))
        return PositionFeatures(FeatureMatrix.concatenate(matrices), rows, orders)

    def equal_row_groups(self, position: int, level: int, number: int) -> tuple[Ints, Longs]:
        """Which objects have the same features in a draw: shape (objects,), int32; and a row (looks,) for each look."""
        around, key = self.at_position(position), (position, level, number)
        with self._lock:
            if key not in self._row_groups:
                rows = around.select_rows(around.rows[level] + number)
                looks, firsts = np.empty(len(rows.rows), np.int32), np.empty(len(rows.rows), np.int64)
                table = np.full(2 << len(looks).bit_length(), -1, np.int32)
                count = group_equal_rows(rows, table, looks, firsts)
                self._row_groups[key] = freeze(looks), freeze(firsts[:count])
            return self._row_groups[key]

    def scorer_for(self, scorer: Scorer, counts: Sequence[int]) -> SplitScorer:
        """A split for one model; the thread's last one where it is of the same model, with the sums it keeps."""
        latest: SplitScorer | None = getattr(self._latest, "split", None)
        if latest is None or latest.scorer is not scorer or latest.counts != tuple(counts):
            latest = self._latest.split = SplitScorer(self, scorer, counts)
        return latest


def _draw_order(
    objects: int, levels: Sequence[Longs], drawn: Sequence[NeighbourhoodBatch], number: int, bonds: Ints
) -> DrawOrder:
    """Who is drawn in one of the draws: at each level those that were not there before, by object and level."""
    held, members, lists, level_of = [], [], [], []
    before = np.zeros(0, np.int64)
    for level, (chosen, found) in enumerate(zip(levels, drawn, strict=True)):
        at = np.arange(len(chosen)) * found.draws + number
        lengths = np.diff(found.starts)[at]
        places = concatenate_ranges(found.starts[at], found.starts[at + 1])
        holders = np.repeat(chosen, lengths)
        new = (found.edges[places] >= 0) & ~np.isin(holders * (objects + 1) + found.members[places], before)
        held.append(holders[new])
        members.append(found.members[places[new]])
        lists.append(bonds[found.edges[places[new]]])
        level_of.append(np.full(int(new.sum()), level, np.int32))
        before = np.concatenate([before, held[-1] * (objects + 1) + members[-1]])
    holders = np.concatenate(held)
    order = np.argsort(holders, kind="stable")  # levels stay ascending
    starts = np.searchsorted(holders[order], np.arange(objects + 1)).astype(np.int64)
    return DrawOrder(freeze(starts), *(freeze(np.concatenate(parts)[order]) for parts in (members, lists, level_of)))


def _with_dummy_object(graph: GaifmanGraph) -> GaifmanGraph:
    """The graph with one object more, of which nothing is known: the last by its name."""
    kb = graph.kb
    names = SortedNames([*kb.objects, f"{kb.objects[-1]}'"])
    starts = freeze(np.append(graph.starts, graph.starts[-1]))
    return replace(graph, kb=KnowledgeBase(replace(kb.content, objects=names)), starts=starts)


class SplitScorer:
    """Scores of a model's candidates by way of a field, on one thread; `scores` is what `Plain` has."""

    def __init__(self, object_features: ObjectFeatures, scorer: Scorer, counts: Sequence[int] | None = None) -> None:
        assert isinstance(scorer.base, MLP), "only a network's first layer can be split"
        self.object_features, self.scorer, self.base = object_features, scorer, scorer.base
        self.counts = tuple(counts or (object_features.draws,))
        self._sums: dict[tuple[int, int, int], Reals] = {}
        self._pair_finder = _PairFeatureFinder(object_features, scorer.scaler.features())

    @property
    def nbytes(self) -> int:
        """Bytes that are kept for the next question: sums, and room to work in."""
        return sum(sums.nbytes for sums in self._sums.values()) + self._pair_finder.nbytes

    def scores(self, tuples: Ints, position: int) -> Floats:
        """Shape (counts, b, objects), float64: means over draws for each tuple with every object at a position."""
        found = np.empty((len(self.counts), len(tuples), len(self.object_features.predictor.graph)))
        left = [np.zeros((0, 2), np.int64)]
        for row, fixed in enumerate(tuples[:, 1 - position].tolist()):
            each, kinds = self._score_draws(fixed, position)
            found[:, row] = prefix_means(each, self.counts)
            near = np.flatnonzero(kinds == FULL_PATH)
            left.append(np.stack([np.full(len(near), row), near], axis=1))
        rows, near = np.concatenate(left).T
        found[:, rows, near] = self._score_fully(tuples[rows], near, position)
        return found

    def _score_fully(self, tuples: Ints, candidates: Longs, position: int) -> Floats:
        """Shape (counts, b): of the tuples (b, n) with candidates put at the position, each by itself."""
        pairs = tuples.copy()
        pairs[:, position] = candidates
        matrix = self.object_features.predictor.evaluator.sample_and_evaluate(
            pairs, self.object_features.sampling, threads=1
        )
        return prefix_means(self.scorer.probabilities(matrix).reshape(-1, self.object_features.draws), self.counts)

    def _score_draws(self, fixed: int, position: int) -> tuple[Floats, Kinds]:
        """Shape (objects, draws): what each draw says of every candidate; and for which that means nothing."""
        each = np.empty((len(self.object_features.predictor.graph), self.object_features.draws))
        left = np.zeros(len(each), np.uint8)
        for number in range(self.object_features.draws):
            kinds, more = self._pair_finder.find(fixed, position, number)
            own = self._fixed_sums(fixed, 1 - position, number)
            level, needed = int(self.object_features.extra_size[fixed]), self.object_features.extra_size
            others, looks = (
                self._candidate_sums(position, level, number),
                self.object_features.equal_row_groups(position, level, number)[0],
            )
            each[:, number] = self.base.score_candidates(
                own, needed, others, looks, kinds, self.scorer.scaler.transform_changes(more)
            )
            left = np.where(kinds == FULL_PATH, kinds, left)
        return each, left

    def _fixed_sums(self, obj: int, position: int, number: int) -> Reals:
        """Sums of one object's draw, for each length that it can have."""
        around = self.object_features.at_position(position)
        return self.base.first_layer_sums(self.scorer.scaler.transform(around.matrix, around.rows[:, obj] + number))

    def _candidate_sums(self, position: int, level: int, number: int) -> Reals:
        """Sums of every look in a draw, kept: most fixed objects have many neighbours and ask for the same."""
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
    """Who touches an object, and which of the wanted features come of it. Of one thread."""

    def __init__(self, object_features: ObjectFeatures, wanted: Longs) -> None:
        self._field, evaluator = object_features, object_features.predictor.evaluator
        self._links, self._facts, self._families = *evaluator.arrays[:2], evaluator.templates
        count, features = len(object_features.predictor.graph), len(evaluator.plan.features)
        self._near = TouchIndex(
            np.zeros(count, np.uint8),
            np.full(count, -1, np.int32),
            np.full(count, NO_LEVEL, np.int32),
            np.zeros(count + 1, np.int64),
            np.empty((1 << 12, 2), np.int32),
            np.zeros(count, np.int64),
            np.zeros(1, np.int64),
        )
        self._wanted = feature_bits(features, wanted)
        self._sides = FeatureSides(
            object_features.feature_sides, np.empty((object_features.quota + 1, len(self._wanted)), np.uint64)
        )
        self._met = new_row_buffer(features, evaluator.counting_bits)
        self._more = self._room(features + PAIR_FEATURES_PER_CANDIDATE * count)
        self._tools = GrowingScratch()

    @property
    def nbytes(self) -> int:
        """Bytes of its own arrays."""
        arrays: list[npt.NDArray[Any]] = [*self._near, *self._more, *self._met, self._sides.settled]
        return int(sum(array.nbytes for array in arrays))

    def _room(self, entries: int) -> PairFeatures:
        starts = np.zeros(len(self._near.label_sets) + 1, np.int64)
        reals = np.empty(entries, np.float32), np.empty(entries, np.float32)
        return PairFeatures(starts, np.empty(entries, np.int32), *reals)

    def find(self, fixed: int, position: int, number: int) -> tuple[Kinds, PairFeatures]:
        """Of which kind each candidate for a position is, and the further features of those that touch."""
        field, links = self._field, self._links
        own, others = field.at_position(1 - position), field.at_position(position)
        size = -1 if field.size is None else field.size
        orders = own.draw_orders[number], others.draw_orders[number]
        question = CandidateQuery(fixed, 1 - position, *orders, field.extra_size, size)
        kinds = np.empty(len(field.predictor.graph), np.uint8)
        while (room := mark_neighbourhood(links, question, self._near)) > len(self._near.reached):
            self._near = self._near._replace(reached=np.empty((2 * room, 2), np.int32))
        filled = classify_candidates(links, question, self._near, field.decomposable, field.uses_walks, kinds)
        starts, members = self._draw_fillers(question, kinds, number) if filled else _NO_MEMBERS
        pairs = int(((kinds != 0) & (kinds != FULL_PATH)).sum())
        rows = (
            own.select_rows(own.rows[:, fixed] + number),
            others.select_rows(others.rows[int(field.extra_size[fixed])] + number),
        )
        if pairs:
            mark_settled_features(rows[0], self._wanted, self._sides.settled)
            while self._collect(question, kinds, starts, members, rows) < 0:
                self._more = self._room(2 * len(self._more.ids))
        unmark_neighbourhood(links, question, self._near)
        return kinds, self._more._replace(starts=self._more.starts[: pairs + 1])

    def _collect(
        self,
        question: CandidateQuery,
        kinds: Kinds,
        starts: Longs,
        members: DrawnMembers,
        rows: tuple[ObjectRows, ObjectRows],
    ) -> int:
        families = self._families
        assert families is not None, "pairs touch by features of families"
        tools = self._sides, *rows, self._met, self._more
        return collect_pair_features(
            families, self._links, self._facts, question, self._near, kinds, starts, members, *tools
        )

    def _draw_fillers(self, question: CandidateQuery, kinds: Kinds, number: int) -> tuple[Longs, DrawnMembers]:
        """Who else is drawn for pairs that share members."""
        near = np.flatnonzero(kinds == FILLED)
        pairs = np.full((len(near), 2), question.fixed, np.int32)
        pairs[:, 1 - question.position] = near
        job = make_draw_job(self._field.predictor.graph, pairs, self._field.sampling, None)
        (batch,) = job.row_batches(0, len(pairs))
        scratch, members = job.allocate(batch, self._tools)
        ends = np.empty(len(pairs), np.int64)
        draw_fillers(self._links, self._near, batch, job.plan, scratch, number, question, members, ends)
        return freeze(np.append(0, ends)), members


_NO_MEMBERS = freeze(np.zeros(1, np.int64)), DrawnMembers(np.zeros(0, np.int32), np.zeros(0, np.int32))


BLOCK_SIZE = 32_768
"""Neighbourhoods that are in memory at once."""


class DirectScorer:
    """Scores of all candidates by the plain path: each tuple is drawn and judged by itself."""

    def __init__(
        self,
        predictor: Predictor,
        scorer: Scorer,
        config: TrainingConfig,
        counts: Sequence[int],
        *,
        threads: int | None = 1,
    ) -> None:
        self.predictor, self.scorer, self.counts, self.threads = predictor, scorer, tuple(counts), threads
        self.sampling = SamplingConfig(
            config.radius, config.size, max(counts), config.seed, "answer 0", shared_order=True
        )

    def scores(self, tuples: Ints, position: int) -> Floats:
        """Shape (counts, b, objects), float64: the base model's means for the tuples (b, n), each object at `position`.

        A mean is of the first draws, as many as a count says. What stands there in the tuples themselves does not
        matter. Nothing is hidden: what is to be ranked as if it were not known must not be in the knowledge base.
        """
        numbers, objects = check_candidate_tuples(self.predictor, tuples, position), len(self.predictor.graph)
        found = np.empty((len(self.counts), len(numbers) * objects))
        step = max(1, BLOCK_SIZE // self.sampling.draws)
        for begin in range(0, found.shape[1], step):
            places = np.arange(begin, min(begin + step, found.shape[1]))
            block = numbers[places // objects]
            block[:, position] = places % objects
            matrix = self.predictor.evaluator.sample_and_evaluate(block, self.sampling, threads=self.threads)
            found[:, places] = prefix_means(self.scorer.probabilities(matrix).reshape(len(places), -1), self.counts)
        return found.reshape(len(self.counts), len(numbers), objects)


def check_candidate_tuples(predictor: Predictor, tuples: Ints, position: int) -> Ints:
    """The tuples as int32 (b, n), or what is wrong with them or the place."""
    numbers = check_tuples(predictor.graph, tuples)
    if numbers.shape[1] != predictor.width:
        raise KnowledgeBaseError(f"tuples have shape (tuples, {predictor.width}), not {numbers.shape}")
    if not 0 <= position < predictor.width:
        raise KnowledgeBaseError(f"places are numbered from 0 to {predictor.width - 1}, not {position}")
    return numbers


FIRST_PASS_DRAWS = 2
"""Draws of a first look."""
FIRST_PASS_PURPOSE = "look"
MAX_OBJECTS = 1 << 18
"""With more objects a field takes too much memory, and one step of its work too long between two deadlines."""
MAX_DRAWN_MEMBERS = 16_000_000
"""With more members to be drawn a field takes some ten seconds, or half a gigabyte: FB15k at k = 20 has 7 million."""
MIN_CANDIDATE_SHARE = 0.5
"""Candidates, as a share of all objects, from which on scoring all objects at once is quicker than those alone."""


class SplitScorerCache:
    """Splits that nobody uses at the moment, with the sums they keep; each is of one thread while it is used."""

    def __init__(self, object_features: ObjectFeatures, max_bytes: int = MAX_CACHED_BYTES) -> None:
        """`most` bytes of sums are kept, those of the models asked last."""
        self.object_features, self._max_bytes = object_features, max_bytes
        self._idle: list[SplitScorer] = []
        self._lock = threading.Lock()

    @contextmanager
    def borrow(self, scorer: Scorer) -> Iterator[SplitScorer]:
        """A split of a model, from those asked last where there is one."""
        with self._lock:
            own = next((split for split in reversed(self._idle) if split.scorer is scorer), None)
            if own is not None:
                self._idle.remove(own)
        own = own or SplitScorer(self.object_features, scorer)
        yield own  # one whose work was broken off is not given back
        with self._lock:
            self._idle.append(own)
            while self._idle and sum(split.nbytes for split in self._idle) > self._max_bytes:
                del self._idle[0]

    def __len__(self) -> int:
        return len(self._idle)


class FastScorer:
    """First looks at candidates, of one knowledge base made ready and one way of drawing."""

    def __init__(self, predictor: Predictor, config: TrainingConfig) -> None:
        self._predictor, self._config = predictor, config
        self._sampling = replace(config.sampling(FIRST_PASS_DRAWS, FIRST_PASS_PURPOSE), shared_order=True)
        self._cache: SplitScorerCache | None = None
        self._lock = threading.Lock()

    @property
    def prepared(self) -> bool:
        """Whether what questions share is there."""
        return self._cache is not None

    def prepare(self, deadline: Deadline | None = None) -> None:
        """Make what all questions share, where scores can be split: seconds for a large knowledge base, once.

        Nothing is made where it would take too much; a deadline is asked between its parts.
        """
        judge = self._predictor
        fits = supports_fast_scoring(judge.evaluator.plan.features, self._config, judge.width)
        with self._lock:
            if self._cache is not None or not fits or not 0 < len(judge.graph) <= MAX_OBJECTS:
                return
            field = ObjectFeatures(judge, self._config, FIRST_PASS_DRAWS, FIRST_PASS_PURPOSE)
            if field.cost > MAX_DRAWN_MEMBERS:
                return
            for position in range(judge.width):
                field.at_position(position, deadline)
            self._cache = SplitScorerCache(field)

    def scores(self, scorer: Scorer, tuples: Ints, hidden: HiddenFacts, deadline: Deadline) -> Floats:
        """Shape (b,), float64: the base model's mean over the draws of a look, from which facts are hidden."""
        pool, position = self._cache, _varying_position(tuples, len(self._predictor.graph))
        if pool is None or position is None or not isinstance(scorer.base, MLP):
            return self._scores_by_sampling(scorer, tuples, hidden, deadline)
        deadline.check()
        with pool.borrow(scorer) as split:
            found: Floats = split.scores(tuples[:1], position)[0, 0, tuples[:, position]]
        own = np.flatnonzero(np.diff(hidden.starts))  # a split sees every fact
        found[own] = self._scores_by_sampling(scorer, tuples[own], hidden.select(own), deadline)
        return found

    def _scores_by_sampling(self, scorer: Scorer, tuples: Ints, hidden: HiddenFacts, deadline: Deadline) -> Floats:
        return np.asarray(
            self._predictor.probabilities_per_draw(scorer, tuples, self._sampling, hidden, deadline).mean(axis=1)
        )


def _varying_position(tuples: Ints, objects: int) -> int | None:
    """The place at which pairs differ, where it is one alone and they are many of what can stand there.

    >>> pairs = np.array([[7, 0], [7, 1], [7, 2]], np.int32)
    >>> _varying_position(pairs, 4), _varying_position(pairs[:, ::-1], 4), _varying_position(pairs, 100), _varying_position(np.eye(2, dtype=np.int32), 2)
    (1, 0, None, None)
    """
    if tuples.shape[1] != 2 or len(tuples) < max(1, MIN_CANDIDATE_SHARE * objects):
        return None
    same = (tuples == tuples[0]).all(axis=0)
    return 1 - int(np.argmax(same)) if same.any() else None

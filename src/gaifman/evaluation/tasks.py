"""What an evaluation ranks: test facts by relation, what is visible of the knowledge base, and what is known besides.

>>> from gaifman.kb.knowledge_base import KnowledgeBase
>>> kb = KnowledgeBase.from_facts([("likes", "ann", "bob"), ("likes", "bob", "cleo")])
>>> test = KnowledgeBase.from_facts([("likes", "bob", "cleo"), ("likes", "dan", "ann")])
>>> ground = EvaluationData(kb, test)
>>> print(*ground.visible.facts(), ground.hidden_count)              # a test fact is never visible
likes(ann, bob). 1
>>> list(ground.visible.objects)                               # an object that only the test has is a candidate too
['ann', 'bob', 'cleo', 'dan']
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from gaifman.completion import Completion, fallback_probabilities
from gaifman.config import ProgressCallback
from gaifman.errors import InputError, KnowledgeBaseError, plural, similar_names
from gaifman.evaluation.ranks import CandidateFilter, Ranks, compute_ranks
from gaifman.io.files import display_path
from gaifman.io.model_file import canonical_json
from gaifman.jobs.run import RECORD, Run
from gaifman.kb.gaifman_graph import GaifmanGraph
from gaifman.kb.knowledge_base import KnowledgeBase, union
from gaifman.kb.tables import Floats, Ints, Longs
from gaifman.logic.transforms import used_symbols
from gaifman.model import GaifmanModel
from gaifman.models.mlp import MLP
from gaifman.predict import DrawBudget, Predictor, prefix_means
from gaifman.queries.answers import answers
from gaifman.ranking.fast_scoring import BLOCK_SIZE, DirectScorer, ObjectFeatures, supports_fast_scoring
from gaifman.sampling.negatives import NegativeSampler
from gaifman.sampling.neighbourhoods import HiddenFacts
from gaifman.sampling.rng import fold_in_rows, make_key
from gaifman.threads import map_threaded
from gaifman.training import Scorer, TrainingConfig

Model = GaifmanModel | Completion
MAX_CELLS = 1 << 18
"""Scores that a thread has in memory at once, for each number of draws."""
MANY_THRESHOLD = 1.5
"""Objects for one on the other side, on average, from which on there are said to be many."""


class CandidateScorer(Protocol):
    """Scores tuples of one relation; the higher, the likelier."""

    @property
    def block_size(self) -> int:
        """Scores to ask for at once: a second's work or so, because only between blocks can it be stopped."""

    def scores(self, tuples: Ints, position: int) -> Floats:
        """Shape (counts, b, objects), float64: of the tuples (b, n) with every object put at `position`.

        There is one mean for each number of draws that was asked for.
        """

    def tuple_scores(self, tuples: Ints) -> Floats:
        """Shape (counts, b), float64: of the tuples as they are."""


class ModelScorer:
    """What a trained model says."""

    def __init__(
        self,
        predictor: Predictor,
        scorer: Scorer,
        config: TrainingConfig,
        counts: Sequence[int],
        threads: int | None,
        object_features: ObjectFeatures | None = None,
    ) -> None:
        self._direct, self._object_features = (
            DirectScorer(predictor, scorer, config, counts, threads=threads),
            object_features,
        )

    @property
    def block_size(self) -> int:
        """Fewer where every tuple is drawn by itself."""
        return BLOCK_SIZE // self._direct.sampling.draws if self._object_features is None else MAX_CELLS

    def scores(self, tuples: Ints, position: int) -> Floats:
        """Of every candidate; split where there is a field."""
        if self._object_features is None:
            return self._direct.scores(tuples, position)
        return self._object_features.scorer_for(self._direct.scorer, self._direct.counts).scores(tuples, position)

    def tuple_scores(self, tuples: Ints) -> Floats:
        """With the same draws as among all candidates."""
        plan, nothing = self._direct, HiddenFacts.one_per_tuple(np.full(len(tuples), -1, np.int64))
        each: Floats = plan.predictor.probabilities_per_draw(plan.scorer, tuples, plan.sampling, nothing)
        return prefix_means(each, plan.counts)


class FallbackScorer:
    """What a completion says of a relation that it could not learn."""

    def __init__(self, graph: GaifmanGraph, relation: str, counts: Sequence[int]) -> None:
        self._graph, self._relation, self._counts = graph, relation, counts

    @property
    def block_size(self) -> int:
        """As many as are kept in memory: nothing is drawn."""
        return MAX_CELLS

    def scores(self, tuples: Ints, position: int) -> Floats:
        """Of every candidate, row by row."""
        found, objects = [], np.arange(len(self._graph), dtype=np.int32)
        for row in tuples:
            candidates = np.repeat(row[None].astype(np.int32), len(objects), axis=0)
            candidates[:, position] = objects
            found.append(self.tuple_scores(candidates))
        return np.array(found).reshape(len(tuples), len(self._counts), len(objects)).swapaxes(0, 1)

    def tuple_scores(self, tuples: Ints) -> Floats:
        """By the share of places whose object stands there in another fact."""
        return np.tile(fallback_probabilities(self._graph, self._relation, tuples), (len(self._counts), 1))


@dataclass(frozen=True, slots=True)
class EvaluationTask:
    """One relation, or query, and its test facts."""

    name: str
    scorer: CandidateScorer
    tuples: Ints
    """Shape (facts, n), int32, each once: the test facts, as objects of the visible knowledge base."""
    visible: Ints
    """Shape (v, n), int32: the facts, or answers, that are visible."""
    known: Ints
    """Shape (k, n), int32, each once, sorted: all that is known to be true, the test facts included."""

    def __len__(self) -> int:
        return len(self.tuples)

    @property
    def trained(self) -> bool:
        """Whether a model was learnt."""
        return isinstance(self.scorer, ModelScorer)

    @property
    def category(self) -> str:
        """`1-1`, `1-n`, `n-1` or `n-n`, by what is visible; `none` without facts, `other` but for two places.

        In a relation that is `1-n` one object at the first place has many at the second: at least 1.5 on average.
        """
        if self.tuples.shape[1] != 2:
            return "other"
        if not len(self.visible):
            return "none"
        # Facts for each object at one place are the objects that it has at the other.
        few = [len(self.visible) / len(np.unique(column)) < MANY_THRESHOLD for column in self.visible.T]
        return f"{'1' if few[1] else 'n'}-{'1' if few[0] else 'n'}"


class EvaluationData:
    """A knowledge base to judge from, the facts to be judged, and others that are known to be true.

    A test fact that is in the knowledge base is taken out: it must not be seen while it is judged. Objects that only
    the test facts or the others have stand in the visible knowledge base without facts: they are never forgotten.
    """

    def __init__(self, kb: KnowledgeBase, test: KnowledgeBase, known: Sequence[KnowledgeBase] = ()) -> None:
        self.test, self.known = test, tuple(known)
        shown = [fact for fact in test.facts() if fact in kb]
        self.hidden_count = len(shown)
        self.new_names = sorted({name for other in (test, *known) for name in other.objects}.difference(kb.objects))
        visible = kb.without_facts(shown) if shown else kb
        # As a union, because that takes arrays as they are.
        more = [KnowledgeBase.from_facts([], objects=self.new_names)] if self.new_names else []
        self.visible = union([visible, *more]) if more else visible
        places = {name: number for number, name in enumerate(self.visible.objects)}
        self._object_ids = {
            id(other): np.fromiter((places[name] for name in other.objects), np.int32, len(other.objects))
            for other in (self.visible, test, *known)
        }

    def facts_of(self, kb: KnowledgeBase, relation: str, arity: int) -> Ints:
        """Shape (facts, width), int32: facts of a relation in one of the knowledge bases, as visible objects."""
        if relation not in kb.relations:
            return np.zeros((0, arity), np.int32)
        if kb.relations[relation].arity != arity:
            found = plural(kb.relations[relation].arity, "argument")
            raise KnowledgeBaseError(
                f"{relation} has {plural(arity, 'argument')} in the model and {found} in the facts"
            )
        table, number = kb.fact_tables.get(arity), kb.content.relations.find(relation)
        if table is None or number is None:
            return np.zeros((0, arity), np.int32)
        return np.ascontiguousarray(self._object_ids[id(kb)][table.objects[table.rows(number)]])

    def count_unseen(self, tasks: Sequence[EvaluationTask]) -> int:
        """How many objects of the test facts the knowledge base does not have."""
        found = np.unique(np.concatenate([np.zeros(0, np.int32), *(subject.tuples.ravel() for subject in tasks)]))
        fresh = np.array([self.visible.object_id(name) for name in self.new_names], np.int32)
        return len(np.intersect1d(found, fresh))


def build_tasks(
    model: Model,
    data: EvaluationData,
    relations: Sequence[str] | None = None,
    draws: Sequence[int] | None = None,
    threads: int = 1,
) -> list[EvaluationTask]:
    """What there is to rank, by name; `draws` are one or several numbers of draws to average over.

    `threads` are those of a subject that is alone.
    """
    counts = [DrawBudget(count).draws for count in draws or (model.config.draws,)]
    if isinstance(model, Completion):
        names = _relations_to_rank(model, data.test, relations)
        found = _completion_tasks(model.with_kb(data.visible), data, names, counts, threads if len(names) == 1 else 1)
    elif relations is not None:
        raise KnowledgeBaseError("relations are chosen of a completion; this is the model of one query")
    else:
        found = [_query_task(model.with_kb(data.visible), data, counts, threads)]
    found = [subject for subject in found if len(subject)]
    if not found:
        raise KnowledgeBaseError("there are no test facts to rank: none is of a relation that the model is asked for")
    return found


def _relations_to_rank(model: Completion, test: KnowledgeBase, relations: Sequence[str] | None) -> list[str]:
    """The relations to rank: all that have test facts, or those that were chosen."""
    if isinstance(relations, str):
        raise KnowledgeBaseError(f"several relations are meant: write [{relations!r}], not {relations!r}")
    held = [name for name, relation in test.relations.items() if relation.count]
    for name in held if relations is None else relations:
        if name not in model.relations:
            others = [other for other in held if other in model.relations]
            hint = (
                "to leave it out, name the relations to evaluate: relations=[…], or --relation NAME"
                if relations is None and others
                else ""
            )
            raise KnowledgeBaseError(
                f"there is no model of {name}", suggestions=similar_names(name, model.relations), hint=hint
            )
    return sorted(held if relations is None else set(relations))


def _completion_tasks(
    model: Completion, data: EvaluationData, names: Sequence[str], counts: Sequence[int], threads: int
) -> list[EvaluationTask]:
    found, fields = [], dict[int, ObjectFeatures | None]()
    for name in names:
        judge, scorer, width = model.predictor(name), model.scorers.get(name), model.arity(name)
        tuples, visible = data.facts_of(data.test, name, width), data.facts_of(data.visible, name, width)
        known = np.concatenate([tuples, visible, *(data.facts_of(other, name, width) for other in data.known)])
        ranker: CandidateScorer = FallbackScorer(judge.graph, name, counts)
        if scorer is not None:
            if width not in fields:
                fields[width] = _shared_object_features(judge, scorer, model.config, max(counts))
            ranker = ModelScorer(judge, scorer, model.config, counts, threads, fields[width])
        found.append(EvaluationTask(name, ranker, tuples, visible, np.unique(known, axis=0)))
    return found


def _shared_object_features(
    predictor: Predictor, scorer: Scorer, config: TrainingConfig, draws: int
) -> ObjectFeatures | None:
    """What is around every object, where scores can be split; all relations of an arity share it."""
    split = supports_fast_scoring(predictor.evaluator.plan.features, config, predictor.width) and isinstance(
        scorer.base, MLP
    )
    return ObjectFeatures(predictor, config, draws) if split else None


def _query_task(model: GaifmanModel, data: EvaluationData, counts: Sequence[int], threads: int) -> EvaluationTask:
    """What the test facts make an answer is judged, as far as it is none without them."""
    query, scorer, judge = model.query, model.trained_scorer(), model.predictor
    assert not isinstance(query, str), "a trained model has read its query"
    words = used_symbols((), query)
    first = data.visible.extend_schema(*words)
    second = first.with_facts(data.test.facts())
    third = second.with_facts(fact for other in data.known for fact in other.facts())
    visible, tested, whole = (answers(kb, query).tuples.astype(np.int32) for kb in (first, second, third))
    known = np.unique(np.concatenate([visible, tested, whole]), axis=0)
    ranker = ModelScorer(judge, scorer, model.config, counts, threads)
    return EvaluationTask(str(query), ranker, _rows_not_in(np.unique(tested, axis=0), visible), visible, known)


def _rows_not_in(rows: Ints, others: Ints) -> Ints:
    """The rows (b, n), each different, that are none of the others."""
    which = np.unique(np.concatenate([others, rows]), axis=0, return_inverse=True)[1].ravel()
    return rows[~np.isin(which[len(others) :], which[: len(others)])]


def sample_tasks(tasks: Sequence[EvaluationTask], count: int, seed: int) -> list[EvaluationTask]:
    """So many test facts of all, whichever relations they are of; keyed by the fact, so their order does not matter."""
    keys = [fold_in_rows(make_key(seed, "evaluation", subject.name), subject.tuples) for subject in tasks]
    order = np.argsort(np.concatenate(keys), kind="stable")[:count]
    ends = np.cumsum([len(subject) for subject in tasks])
    found = []
    for subject, end in zip(tasks, ends.tolist(), strict=True):
        rows: Longs = np.sort(order[(order >= end - len(subject)) & (order < end)]) - (end - len(subject))
        if len(rows):
            found.append(replace(subject, tuples=subject.tuples[rows]))
    return found


@dataclass(frozen=True, slots=True)
class TaskResult:
    """What was found of one subject, for each number of draws that was asked for."""

    ranks: Longs
    """Shape (counts, 2, 3, ranks), int64: filtered and raw; the columns of `Ranks`; place after place, fact after
    fact."""
    scores: Floats
    """Shape (counts, tuples), float64: of the test facts, then of their corruptions."""
    targets: Floats
    """Shape (tuples,), float64: 1 for test facts, 0 for corruptions."""

    def ranks_for(self, count: int, raw: bool) -> Ranks:
        """The ranks with one of the numbers of draws, by its place among them."""
        return Ranks(*self.ranks[count, int(raw)])


class _StopTask(Exception):
    """Another thread has failed, or the whole was stopped."""


class RankProgress:
    """Counts ranks of all threads, tells whoever wants to know, and says when to stop."""

    def __init__(self, total: int, progress: ProgressCallback | None, done: int = 0) -> None:
        self._done, self._total, self._progress = done, total, progress
        self._lock, self._stopped = threading.Lock(), False
        if done:
            self.add(0)

    def add(self, count: int) -> None:
        """So many more ranks."""
        with self._lock:
            if self._stopped:
                raise _StopTask
            self._done += count
            if self._progress:
                self._progress("ranking", self._done, self._total)

    def stop(self) -> None:
        """Whoever adds to it from now on is stopped."""
        self._stopped = True


def open_checkpoint(folder: Path | str, key: Mapping[str, Any]) -> Run:
    """The run that keeps what is found; where the folder has been used for something else, an error says so.

    `about` is what the ranks follow from, under names that a person understands.
    """
    folder, wanted = Path(folder), json.loads(canonical_json(key))
    if not (folder / RECORD).exists():
        return Run.create(folder, wanted)
    again = f"name another folder, or remove {display_path(folder)} and rank again"
    try:
        run = Run.open(folder)
    except InputError as error:
        raise InputError(error.message, hint=again) from None
    other = [name for name in wanted if run.settings.get(name) != wanted[name]]
    if other or run.settings.keys() != wanted.keys():
        run.close()
        why = ", ".join(other) or "what was asked"
        raise InputError(
            f"{display_path(folder)} keeps the ranks of another evaluation; what differs: {why}", hint=again
        )
    return run


class TaskRunner:
    """Asks all that is asked of subjects, each by one thread, and keeps it where there is a shelf."""

    def __init__(self, kb: KnowledgeBase, negative_sampling: str, seed: int, run: Run | None = None) -> None:
        self._kb, self._negative_sampling, self._seed, self._run = kb, negative_sampling, seed, run

    def run(self, tasks: Sequence[EvaluationTask], threads: int, progress: ProgressCallback | None) -> list[TaskResult]:
        """What comes of each subject, in their order."""
        done = self._run.finished_tasks() if self._run else set()
        sizes = [(subject.tuples.size, subject.name in done) for subject in tasks]
        tally = RankProgress(sum(size for size, _ in sizes), progress, sum(size for size, kept in sizes if kept))
        self._log("start", kept=len(done), relations=len(tasks), threads=threads)
        found = map_threaded(
            lambda task: self._part(task, task.name in done, tally),
            tasks,
            threads,
            cost=lambda task: task.tuples.size,
            on_error=tally.stop,
        )
        self._log("end")
        return found

    def _part(self, task: EvaluationTask, kept: bool, progress: RankProgress) -> TaskResult:
        if self._run is None:
            return self._evaluate(task, progress)
        if kept:
            arrays = self._run.load_task(task.name)[0]
            return TaskResult(arrays["ranks"], arrays["scores"], arrays["targets"])
        part = self._evaluate(task, progress)
        self._run.save_task(task.name, {"ranks": part.ranks, "scores": part.scores, "targets": part.targets}, {})
        self._log("relation", relation=task.name, ranks=task.tuples.size)
        return part

    def _log(self, event: str, **fields: Any) -> None:
        if self._run:
            self._run.log(event, **fields)

    def _evaluate(self, task: EvaluationTask, progress: RankProgress) -> TaskResult:
        found = rank_test_facts(task, len(self._kb.objects), progress)
        corrupted = self._negatives(task)
        scores = np.concatenate([task.scorer.tuple_scores(tuples) for tuples in (task.tuples, corrupted)], axis=1)
        targets = np.repeat([1.0, 0.0], [len(task), len(corrupted)])
        return TaskResult(found, np.where(np.isnan(scores), -np.inf, scores), targets)

    def _negatives(self, task: EvaluationTask) -> Ints:
        """One corruption of each test fact, where there is one that is not known to be true."""
        both = np.concatenate([task.known, task.tuples])
        rows = np.unique(both, axis=0, return_inverse=True)[1].ravel()[len(task.known) :]
        corruptor = NegativeSampler(self._kb, task.known, negative_sampling=self._negative_sampling)
        return corruptor.sample(rows.astype(np.int64), 1, make_key(self._seed, "classification", task.name)).tuples


def rank_test_facts(task: EvaluationTask, objects: int, progress: RankProgress) -> Longs:
    """Shape (counts, 2, 3, ranks), int64: as `TaskResult.ranks`; facts that differ at the place alone share their scores."""
    width = task.tuples.shape[1]
    found, step = list[Longs](), max(1, task.scorer.block_size // objects)
    for position in range(width):
        filters, rest = CandidateFilter(task.known, task.tuples, position), task.tuples.copy()
        rest[:, position] = 0
        asked, which = np.unique(rest, axis=0, return_inverse=True)
        which = which.ravel()
        order = np.argsort(which, kind="stable")
        blocks = []
        for begin in range(0, len(asked), step):
            scores = task.scorer.scores(asked[begin : begin + step], position)
            first, last = np.searchsorted(which[order], [begin, begin + step])
            for at in range(first, last, step):
                rows = order[at : min(at + step, last)]
                blocks.append(_rank_columns(scores[:, which[rows] - begin], filters, rows, task.tuples[rows, position]))
            progress.add(int(last - first))
        found.append(np.concatenate(blocks, axis=3)[..., np.argsort(order)])
    return np.ascontiguousarray(np.concatenate(found, axis=3))


def _rank_columns(scores: Floats, filters: CandidateFilter, rows: Longs, right: Ints) -> Longs:
    """Shape (counts, 2, 3, rows), int64: of some facts, whose scores are (counts, rows, objects)."""
    found = []
    for own in scores:
        raw = compute_ranks(own, right)
        both = raw.without(filters.excluded(rows), own, right), raw
        found.append([(each.better, each.tied, each.candidates) for each in both])
    return np.array(found, np.int64)

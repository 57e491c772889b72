"""Evaluation tasks: the test facts of one relation, what the model can see, how they are ranked, their confidences.

>>> from gaifman.kb.knowledge_base import KnowledgeBase
>>> kb = KnowledgeBase.from_facts([("likes", "ann", "bob"), ("likes", "bob", "cleo")])
>>> test = KnowledgeBase.from_facts([("likes", "bob", "cleo"), ("likes", "dan", "ann")])
>>> data = EvaluationData(kb, test)
>>> print(*data.visible.facts(), data.hidden_count)  # a test fact is never visible
likes(ann, bob). 1
>>> list(data.visible.objects)  # objects of test facts are candidates
['ann', 'bob', 'cleo', 'dan']
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from gaifman.completion import Completion
from gaifman.config import ProgressCallback
from gaifman.errors import InputError, KnowledgeBaseError, plural, similar_names
from gaifman.evaluation.scorers import CandidateScorer, FallbackScorer, candidate_scorer
from gaifman.io.files import display_path
from gaifman.io.model_file import canonical_json
from gaifman.jobs.run import RECORD, ProgressCounter, Run, check_same_settings
from gaifman.kb.knowledge_base import KnowledgeBase, union
from gaifman.kb.tables import Floats, Ints, Longs, row_ids, rows_in
from gaifman.logic.ast import used_symbols
from gaifman.model import GaifmanModel
from gaifman.models.mlp import MLP
from gaifman.predict import DrawBudget, NetworkPredictor
from gaifman.queries.answers import answers
from gaifman.ranking.fast_scoring import ObjectFeatures, SplitScorerCache, supports_fast_scoring
from gaifman.ranking.ranks import CandidateFilter, Ranks, compute_ranks
from gaifman.sampling.negatives import NegativeSampler
from gaifman.sampling.rng import fold_in_rows, make_key
from gaifman.threads import map_threaded


@dataclass(frozen=True, slots=True)
class ConfidenceTest:
    """Predictions for test facts with confidences.

    Beside the model are two constants: the mean and the median confidence of the relation's visible facts. The mean has
    the smallest squared error of all constants, the median the smallest absolute error.

    >>> test = ConfidenceTest(np.array([0.9, 0.5, 0.8]), np.array([1.0, 0.5, 0.7]), *np.full((2, 3), 0.8))
    >>> test.metrics()["model"], test.metrics()["relation_mean"]
    ({'mae': 0.066667, 'correlation': 0.922613}, {'mae': 0.2, 'correlation': None})
    """

    probabilities: Floats
    """Shape (facts,), float64: the calibrated probabilities."""
    confidences: Floats
    """Shape (facts,), float64: the confidences of the facts."""
    relation_means: Floats
    """Shape (facts,), float64: the mean confidence of the relation's visible facts."""
    relation_medians: Floats
    """Shape (facts,), float64: their median confidence."""

    def __len__(self) -> int:
        return len(self.confidences)

    @classmethod
    def concatenate(cls, parts: Sequence[ConfidenceTest]) -> ConfidenceTest:
        """Join the facts of several relations."""
        return cls(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(cls)))

    def metrics(self) -> dict[str, Any]:
        """Mean absolute error and Pearson's correlation of the model and of the two constants, as JSON types."""
        predictions = {
            "model": self.probabilities,
            "relation_mean": self.relation_means,
            "relation_median": self.relation_medians,
        }
        found = {name: _compare(values, self.confidences) for name, values in predictions.items()}
        return {"facts": len(self), **found}


def _compare(predicted: Floats, true: Floats) -> dict[str, float | None]:
    """The mean absolute error and the correlation, which is None if one of them is constant."""
    error = round(float(np.abs(predicted - true).mean()), 6)
    if not (np.ptp(predicted) > 0 and np.ptp(true) > 0):
        return {"mae": error, "correlation": None}
    return {"mae": error, "correlation": round(float(np.corrcoef(predicted, true)[0, 1]), 6)}


MANY_THRESHOLD = 1.5
"""A relation is `n` at a position if an object at the other position has at least this many objects on average."""


@dataclass(frozen=True, slots=True)
class EvaluationTask:
    """The test facts of one relation, or the test answers of one query."""

    name: str
    """The relation, or the query."""
    scorer: CandidateScorer
    tuples: Ints
    """Shape (facts, arity), int32, distinct: the test facts, as objects of the visible knowledge base."""
    visible: Ints
    """Shape (v, arity), int32: the visible facts or answers."""
    known: Ints
    """Shape (k, arity), int32, distinct, sorted: all tuples known to be true, test facts included."""
    confidences: Floats | None = None
    """Shape (facts,), float64: the confidences of the test facts; None if all test facts are certain."""
    visible_confidences: Floats | None = None
    """Shape (v,), float64: the confidences of the visible facts, or of all relations if this one has none."""

    def __len__(self) -> int:
        return len(self.tuples)

    def select(self, rows: Longs) -> EvaluationTask:
        """The task with some of its test facts, given by row."""
        confidences = None if self.confidences is None else self.confidences[rows]
        return replace(self, tuples=self.tuples[rows], confidences=confidences)

    def confidence_test(self, scores: Floats) -> ConfidenceTest | None:
        """Compare the probabilities of the test facts, given by their scores (facts,), with their confidences."""
        if self.confidences is None or self.visible_confidences is None:
            return None
        constants = (np.full(len(self), each(self.visible_confidences)) for each in (np.mean, np.median))
        return ConfidenceTest(self.scorer.probabilities(scores), self.confidences, *constants)

    @property
    def trained(self) -> bool:
        """Whether there is a trained model, not only the fallback."""
        return not isinstance(self.scorer, FallbackScorer)

    @property
    def category(self) -> str:
        """The category of the relation; see `category_of`."""
        return category_of(self.visible)


def category_of(visible: Ints) -> str:
    """`1-1`, `1-n`, `n-1` or `n-n` by the visible facts; `none` without facts, `other` unless the arity is 2.

    In a relation that is `1-n`, an object at the first position has at least 1.5 objects at the second on average.
    """
    if visible.shape[1] != 2:
        return "other"
    if not len(visible):
        return "none"
    # The facts of an object at one position are as many as its objects at the other.
    one = [len(visible) / len(np.unique(column)) < MANY_THRESHOLD for column in visible.T]
    return f"{'1' if one[1] else 'n'}-{'1' if one[0] else 'n'}"


class EvaluationData:
    """The visible knowledge base, the test facts, and other facts known to be true.

    Test facts are removed from the knowledge base. Objects that only test facts or known facts have are added to it
    without facts, so that they are candidates.
    """

    def __init__(self, kb: KnowledgeBase, test: KnowledgeBase, known: Sequence[KnowledgeBase] = ()) -> None:
        self.test, self.known = test, tuple(known)
        leaked = [fact for fact in test.facts() if fact in kb]
        self.hidden_count = len(leaked)
        """Test facts that were removed from the knowledge base."""
        self.new_names = sorted({name for other in (test, *known) for name in other.objects}.difference(kb.objects))
        """Objects that the knowledge base does not have."""
        visible = kb.without_facts(leaked) if leaked else kb
        # A union, because it takes arrays as they are.
        added = [KnowledgeBase.from_facts([], objects=self.new_names)] if self.new_names else []
        self.visible = union([visible, *added]) if added else visible
        """What a model sees."""
        ids = {name: number for number, name in enumerate(self.visible.objects)}
        self._object_ids = {
            id(other): np.fromiter((ids[name] for name in other.objects), np.int32, len(other.objects))
            for other in (self.visible, test, *known)
        }

    def facts_of(self, kb: KnowledgeBase, relation: str, arity: int) -> Ints:
        """Shape (facts, arity), int32: the facts of a relation in one of the knowledge bases, as visible objects."""
        if relation not in kb.relations:
            return np.zeros((0, arity), np.int32)
        if kb.relations[relation].arity != arity:
            found = plural(kb.relations[relation].arity, "argument")
            raise KnowledgeBaseError(
                f"{relation} has {plural(arity, 'argument')} in the model and {found} in the facts"
            )
        return np.ascontiguousarray(self._object_ids[id(kb)][kb.tuples(relation)])

    def confidences_of(self, relation: str, tuples: Ints) -> tuple[Floats, Floats] | tuple[None, None]:
        """The confidences of test facts, given as visible objects, and of the visible facts of their relation.

        None if all test facts are certain, of any relation.
        """
        if not self.test.has_confidences:
            return None, None
        if not len(tuples):
            return np.zeros(0), np.zeros(0)
        facts, confidences = self.facts_of(self.test, relation, tuples.shape[1]), self.test.confidences_of(relation)
        ids, wanted = row_ids(facts, tuples)
        order = np.argsort(ids)
        visible = self.visible.confidences_of(relation) if relation in self.visible.relations else np.zeros(0)
        found = confidences[order[np.searchsorted(ids, wanted, sorter=order)]]
        return found, visible if len(visible) else np.append(self.visible.confidences, [] if len(self.visible) else 1.0)

    def count_unseen(self, tasks: Sequence[EvaluationTask]) -> int:
        """The number of objects in test facts that the knowledge base does not have."""
        ranked = np.unique(np.concatenate([np.zeros(0, np.int32), *(task.tuples.ravel() for task in tasks)]))
        new = np.array([self.visible.object_id(name) for name in self.new_names], np.int32)
        return len(np.intersect1d(ranked, new))


def build_tasks(
    model: GaifmanModel | Completion,
    data: EvaluationData,
    relations: Sequence[str] | None = None,
    draws: Sequence[int] | None = None,
    threads: int = 1,
) -> list[EvaluationTask]:
    """The tasks that have test facts, by name; `draws` are the numbers of draws to average over.

    A task that is alone uses `threads` itself.
    """
    counts = [DrawBudget(count).draws for count in draws or (model.config.draws,)]
    if isinstance(model, Completion):
        names = _relations_to_rank(model, data.test, relations)
        tasks = _completion_tasks(model.with_kb(data.visible), data, names, counts, threads if len(names) == 1 else 1)
    elif relations is not None:
        raise KnowledgeBaseError("relations can be chosen of a completion only; this is the model of one query")
    else:
        tasks = [_query_task(model.with_kb(data.visible), data, counts, threads)]
    tasks = [task for task in tasks if len(task)]
    if not tasks:
        raise KnowledgeBaseError("there are no test facts to rank: no test fact has a relation of the model")
    return tasks


def _relations_to_rank(model: Completion, test: KnowledgeBase, relations: Sequence[str] | None) -> list[str]:
    """The given relations, or all that have test facts."""
    if isinstance(relations, str):
        raise KnowledgeBaseError(f"relations is a list: write [{relations!r}], not {relations!r}")
    tested = [name for name, relation in test.relations.items() if relation.count]
    for name in tested if relations is None else relations:
        if name not in model.relations:
            skippable = relations is None and any(other in model.relations for other in tested)
            hint = "to skip it, list the relations to evaluate: relations=[…], or --relation NAME" if skippable else ""
            raise KnowledgeBaseError(
                f"there is no model of {name}", suggestions=similar_names(name, model.relations), hint=hint
            )
    return sorted(tested if relations is None else set(relations))


def _completion_tasks(
    model: Completion, data: EvaluationData, names: Sequence[str], counts: Sequence[int], threads: int
) -> list[EvaluationTask]:
    tasks, caches = [], dict[int, SplitScorerCache | None]()
    for name in names:
        predictor, arity = model.predictor(name), model.arity(name)
        tuples, visible = data.facts_of(data.test, name, arity), data.facts_of(data.visible, name, arity)
        known = np.concatenate([tuples, visible, *(data.facts_of(other, name, arity) for other in data.known)])
        if isinstance(predictor, NetworkPredictor) and arity not in caches:
            caches[arity] = _split_scorer_cache(predictor, counts)
        scorer = candidate_scorer(predictor, counts, threads=threads, cache=caches.get(arity))
        confidences = data.confidences_of(name, tuples)
        tasks.append(EvaluationTask(name, scorer, tuples, visible, np.unique(known, axis=0), *confidences))
    return tasks


def _split_scorer_cache(predictor: NetworkPredictor, counts: Sequence[int]) -> SplitScorerCache | None:
    """A cache for all relations of an arity, if their scores can be split."""
    evaluator, config = predictor.evaluator, predictor.config
    supported = supports_fast_scoring(evaluator.plan.features, config, predictor.arity)
    if not supported or not isinstance(predictor.scorer.base, MLP):
        return None
    return SplitScorerCache(ObjectFeatures(evaluator, config, max(counts)), counts)


def _query_task(model: GaifmanModel, data: EvaluationData, counts: Sequence[int], threads: int) -> EvaluationTask:
    """The answers that exist with the test facts and not without them."""
    query = model.query
    first = data.visible.extend_schema(*used_symbols((), query))
    second = first.with_facts(data.test.facts())
    third = second.with_facts(fact for other in data.known for fact in other.facts())
    visible, tested, true = (answers(kb, query).tuples.astype(np.int32) for kb in (first, second, third))
    known = np.unique(np.concatenate([visible, tested, true]), axis=0)
    new = np.unique(tested[~rows_in(tested, visible)], axis=0)
    scorer = candidate_scorer(model.predictor, counts, threads=threads)
    confidences = (None, None) if query.atomic_relation is None else data.confidences_of(query.atomic_relation, new)
    return EvaluationTask(str(query), scorer, new, visible, known, *confidences)


def sample_tasks(tasks: Sequence[EvaluationTask], count: int, seed: int) -> list[EvaluationTask]:
    """A sample of `count` test facts of all tasks, keyed by the fact, so that their order does not matter."""
    keys = [fold_in_rows(make_key(seed, "evaluation", task.name), task.tuples) for task in tasks]
    order = np.argsort(np.concatenate(keys), kind="stable")[:count]
    ends = np.cumsum([len(task) for task in tasks])
    sampled = []
    for task, end in zip(tasks, ends.tolist(), strict=True):
        rows: Longs = np.sort(order[(order >= end - len(task)) & (order < end)]) - (end - len(task))
        if len(rows):
            sampled.append(task.select(rows))
    return sampled


# Running tasks


@dataclass(frozen=True, slots=True)
class TaskResult:
    """The ranks and scores of one task, for each number of draws."""

    ranks: Longs
    """Shape (counts, 2, 3, ranks), int64: filtered and raw; the columns of `Ranks`; by position, then by fact."""
    scores: Floats
    """Shape (counts, tuples), float64: of the test facts, then of their negatives."""
    targets: Floats
    """Shape (tuples,), float64: 1 for test facts, 0 for negatives."""

    def ranks_for(self, count: int, raw: bool) -> Ranks:
        """The ranks for one of the numbers of draws, by its index."""
        return Ranks(*self.ranks[count, int(raw)])


def open_checkpoint(folder: Path | str, key: Mapping[str, Any]) -> Run:
    """The run in a checkpoint folder; raise if the folder is for another evaluation.

    `key` has everything that the ranks depend on, under names for error messages.
    """
    folder, wanted = Path(folder), json.loads(canonical_json(key))
    if not (folder / RECORD).exists():
        return Run.create(folder, wanted)
    hint = f"choose another folder, or remove {display_path(folder)} and rank again"
    try:
        run = Run.open(folder)
    except InputError as error:
        raise InputError(error.message, hint=hint) from None
    try:
        check_same_settings(folder, run.settings, wanted, "the ranks of another evaluation", hint)
    except InputError:
        run.close()
        raise
    return run


class TaskRunner:
    """Runs tasks, each on one thread, and stores their results in a run if there is one."""

    def __init__(self, kb: KnowledgeBase, negative_sampling: str, seed: int, run: Run | None = None) -> None:
        self._kb, self._negative_sampling, self._seed, self._run = kb, negative_sampling, seed, run

    def run(self, tasks: Sequence[EvaluationTask], threads: int, progress: ProgressCallback | None) -> list[TaskResult]:
        """The result of each task, in order."""
        done = self._run.finished_tasks() if self._run else set()
        counter = ProgressCounter("ranking", progress)
        counter.plan({task.name: task.tuples.size for task in tasks}, done)
        self._log("start", resumed=len(done), relations=len(tasks), threads=threads)
        large, small = split_tasks(tasks, threads)
        results = {task.name: self._result(task, counter, done, threads) for task in large}
        found = map_threaded(
            lambda task: self._result(task, counter, done, 1),
            small,
            threads,
            cost=lambda task: task.tuples.size,
            on_error=counter.stop,
        )
        results |= dict(zip((task.name for task in small), found, strict=True))
        self._log("end")
        return [results[task.name] for task in tasks]

    def _result(
        self, task: EvaluationTask, progress: ProgressCounter, done: Collection[str], threads: int
    ) -> TaskResult:
        return self._load(task) if task.name in done else self._run_task(task, progress, threads)

    def _load(self, task: EvaluationTask) -> TaskResult:
        assert self._run is not None, "only a run has finished tasks"
        arrays = self._run.load_task(task.name)[0]
        return TaskResult(arrays["ranks"], arrays["scores"], arrays["targets"])

    def _run_task(self, task: EvaluationTask, progress: ProgressCounter, threads: int) -> TaskResult:
        ranks = rank_test_facts(task, len(self._kb.objects), progress, threads)
        negatives = self._negatives(task)
        scores = np.concatenate([task.scorer.tuple_scores(tuples) for tuples in (task.tuples, negatives)], axis=1)
        targets = np.repeat([1.0, 0.0], [len(task), len(negatives)])
        result = TaskResult(ranks, np.where(np.isnan(scores), -np.inf, scores), targets)
        if self._run is not None:
            arrays = {"ranks": result.ranks, "scores": result.scores, "targets": result.targets}
            self._run.save_task(task.name, arrays, {})
            self._log("relation", relation=task.name, ranks=task.tuples.size)
        return result

    def _log(self, event: str, **fields: Any) -> None:
        if self._run:
            self._run.log(event, **fields)

    def _negatives(self, task: EvaluationTask) -> Ints:
        """One negative of each test fact, if there is one that is not known to be true."""
        rows = row_ids(task.known, task.tuples)[1]  # known tuples are distinct and sorted, so these are their rows
        sampler = NegativeSampler(self._kb, task.known, negative_sampling=self._negative_sampling)
        return sampler.sample(rows, 1, make_key(self._seed, "classification", task.name)).tuples


def split_tasks(tasks: Sequence[EvaluationTask], threads: int) -> tuple[list[EvaluationTask], list[EvaluationTask]]:
    """The tasks that are more than one thread's share of the work, and all others."""
    share = sum(task.tuples.size for task in tasks) / threads
    large = [task for task in tasks if threads > 1 and task.tuples.size > share]
    return large, [task for task in tasks if task not in large]


def rank_test_facts(task: EvaluationTask, objects: int, progress: ProgressCounter, threads: int = 1) -> Longs:
    """Shape (counts, 2, 3, ranks), int64, as `TaskResult.ranks`. Facts that differ only at a position share scores."""
    found, step = list[Longs](), max(1, task.scorer.block_size // objects)
    for position in range(task.tuples.shape[1]):
        questions = _Questions.of(task, position, step, threads)
        blocks = map_threaded(partial(questions.rank, progress), questions.begins, threads, on_error=progress.stop)
        found.append(np.concatenate(blocks, axis=3)[..., np.argsort(questions.order)])
    return np.ascontiguousarray(np.concatenate(found, axis=3))


@dataclass(frozen=True, slots=True)
class _Questions:
    """The different questions for the objects at one position of test facts."""

    task: EvaluationTask
    position: int
    candidate_filter: CandidateFilter
    tuples: Ints
    """Shape (questions, arity), int32: 0 at the position."""
    question_of: Longs
    """Shape (facts,), int64: the question of each test fact."""
    order: Longs
    """Shape (facts,), int64: the test facts, sorted by question."""
    step: int
    """Questions of a block."""

    @classmethod
    def of(cls, task: EvaluationTask, position: int, step: int, threads: int) -> _Questions:
        """The questions of a task in blocks of `step`, or smaller ones, so that each thread has a block."""
        rest = task.tuples.copy()
        rest[:, position] = 0
        tuples, question_of = np.unique(rest, axis=0, return_inverse=True)
        question_of, step = question_of.ravel(), max(1, min(step, -(-len(tuples) // threads)))
        order = np.argsort(question_of, kind="stable")
        candidate_filter = CandidateFilter(task.known, task.tuples, position)
        return cls(task, position, candidate_filter, tuples, question_of, order, step)

    @property
    def begins(self) -> range:
        """The first question of each block."""
        return range(0, len(self.tuples), self.step)

    def rank(self, progress: ProgressCounter, begin: int) -> Longs:
        """Shape (counts, 2, 3, facts), int64: the ranks of the facts of one block, sorted by question."""
        end, blocks = begin + self.step, []
        scores = self.task.scorer.scores(self.tuples[begin:end], self.position)
        first, last = np.searchsorted(self.question_of[self.order], [begin, end])
        for start in range(first, last, self.step):
            rows = self.order[start : min(start + self.step, last)]
            own, targets = scores[:, self.question_of[rows] - begin], self.task.tuples[rows, self.position]
            blocks.append(_rank_columns(own, self.candidate_filter, rows, targets))
        progress.add(self.task.name, int(last - first))
        return np.concatenate(blocks, axis=3)


def _rank_columns(scores: Floats, candidate_filter: CandidateFilter, rows: Longs, targets: Ints) -> Longs:
    """Shape (counts, 2, 3, rows), int64: the ranks of facts whose scores are (counts, rows, objects)."""
    found = []
    for own in scores:
        raw = compute_ranks(own, targets)
        both = raw.without(candidate_filter.excluded(rows), own, targets), raw
        found.append([(ranks.better, ranks.tied, ranks.candidates) for ranks in both])
    return np.array(found, np.int64)

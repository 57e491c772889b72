"""One relation after another: the ranks of its test facts, what tells them from corruptions, and how both are kept.

What was found of a relation can be kept in the folder of a [run](runs.md), at once when it is done: an evaluation that
was stopped goes on with the relations that are left.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gaifman.errors import InputError
from gaifman.io.model_file import canonical_json
from gaifman.jobs.run import RECORD, Run, display_path
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.kb.tables import Floats, Ints, Longs
from gaifman.measures import CandidateFilter, Ranks, compute_ranks
from gaifman.sampling.negatives import NegativeSampler
from gaifman.sampling.rng import make_key
from gaifman.subjects import EvaluationTask

ProgressCallback = Callable[[str, int, int | None], None]


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
        found = run_in_threads(tasks, threads, tally, lambda subject: self._part(subject, subject.name in done, tally))
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


def run_in_threads(
    tasks: Sequence[EvaluationTask], threads: int, progress: RankProgress, work: Callable[[EvaluationTask], TaskResult]
) -> list[TaskResult]:
    """What comes of each subject, in their order; the largest are begun first, so that none is left for the end."""
    if threads < 2 or len(tasks) < 2:
        return [work(subject) for subject in tasks]
    order = sorted(range(len(tasks)), key=lambda number: (-tasks[number].tuples.size, number))
    with ThreadPoolExecutor(threads) as pool:
        futures = {number: pool.submit(work, tasks[number]) for number in order}
        try:
            for future in as_completed(futures.values()):
                future.result()
        except BaseException:
            progress.stop()  # what one thread cannot do, the others need not go on for
            pool.shutdown(cancel_futures=True)
            raise
    return [futures[number].result() for number in range(len(tasks))]


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

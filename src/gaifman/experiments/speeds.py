"""How many answers a second a model gives, against the size k of its neighbourhoods.

An answer is one candidate: its neighbourhood drawn, its features evaluated, the network asked. `pairs` are candidates
that are drawn and judged each by itself; `ranking` puts every object at one place of a fact, as an evaluation does,
where scores can be [split](splits.md). Each is the mean over relations of what was measured for one of them.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from gaifman.completion import Completion
from gaifman.config import ProgressCallback, cpu_count
from gaifman.errors import KnowledgeBaseError
from gaifman.evaluation.tasks import EvaluationData, EvaluationTask, build_tasks
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.kb.tables import Ints
from gaifman.models.mlp import MLP
from gaifman.ranking.fast_scoring import supports_fast_scoring
from gaifman.sampling.neighbourhoods import HiddenFacts

SIZES = (5, 10, 20, 50, 100, None)
"""k of the paper's figure; None for all that is there."""
MAX_RELATIONS = 20
"""Those with most test facts are measured."""
MAX_PAIRS = 20_000
"""Candidates of each relation that are judged by themselves, at most."""
TARGET_SECONDS = 0.5
"""That this may take for a relation, about: whole neighbourhoods can be large."""
REPEATS = 3
"""It is done so often, and the middle one counts: it takes a moment, in which a machine may do something else."""
TRIAL_PAIRS = 128
"""Candidates that tell how many can be judged in that time."""
PAPER_ANSWERS_PER_SECOND = 5_000
"""Answers a second that the paper reports."""


@dataclass(frozen=True, slots=True)
class Throughput:
    """What was measured with one size."""

    size: int | None
    """k; None for ∞."""
    relations: int
    """How many were measured."""
    pairs_per_second: float
    """Independent candidates a second, the mean over relations."""
    ranking_per_second: float | None
    """Candidates a second where all are ranked; None where scores cannot be split."""
    precompute_seconds: float | None
    """Seconds of the first question, which makes what is around every object; it serves all relations, and is not
    counted above."""

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {name: round(v, 3) if isinstance(v, float) else v for name, v in asdict(self).items()}


def measure_throughput(
    model: Completion,
    kb: KnowledgeBase,
    test: KnowledgeBase,
    *,
    sizes: Sequence[int | None] = SIZES,
    relations: int = MAX_RELATIONS,
    pairs: int = MAX_PAIRS,
    threads: int | None = None,
    progress: ProgressCallback | None = None,
) -> list[Throughput]:
    """Measure a trained model with neighbourhoods of other sizes; its weights do not matter for how fast it is."""
    names = largest_relations(model, test, relations)
    ground, workers, found = EvaluationData(kb, test), threads or cpu_count(), list[Throughput]()
    for number, size in enumerate(sizes):
        told = partial(_report_progress, progress, number * len(names), len(sizes) * len(names))
        found.append(_measure_size(with_size(model, size), ground, names, pairs, workers, told))
    return found


def _report_progress(progress: ProgressCallback | None, before: int, total: int, done: int) -> None:
    """How many relations are measured, over all sizes."""
    if progress:
        progress("measuring speed", before + done, total)


def largest_relations(model: Completion, test: KnowledgeBase, count: int) -> list[str]:
    """The relations of two places with a trained model that have most test facts."""
    counts = {name: test.relations[name].count for name in model.scorers if name in test.relations}
    names = [name for name in counts if counts[name] and model.arity(name) == 2]
    if not names:
        raise KnowledgeBaseError(
            "no relation of two places with test facts has a trained model: there is no speed to measure"
        )
    return sorted(names, key=lambda name: (-counts[name], name))[:count]


def with_size(model: Completion, size: int | None) -> Completion:
    """The model with neighbourhoods of another size."""
    learning = replace(model.config, size=size)
    return Completion(learning, model.relations, model.features, model.scorers, model.calibration, {**model.meta})


def _measure_size(
    model: Completion,
    data: EvaluationData,
    names: Sequence[str],
    pairs: int,
    threads: int,
    report_done: Callable[[int], None],
) -> Throughput:
    subjects, plan = build_tasks(model, data, names, [1]), model.with_kb(data.visible)
    judge, size = plan.predictor(names[0]), model.config.size
    split = supports_fast_scoring(judge.evaluator.plan.features, model.config, 2)
    split = split and all(isinstance(model.scorers[name].base, MLP) for name in names)
    rates, ranks, ready = list[float](), list[float](), None
    with ThreadPoolExecutor(threads) as pool:
        for number, subject in enumerate(subjects):
            report_done(number)
            rates.append(_measure_pairs(plan, subject, pairs, pool, threads))
            if split and ready is None:
                ready = _seconds(pool, [partial(_warm_up, subject)])
            if split:
                ranks.append(_measure_ranking(subject, len(judge.graph), pool, threads))
    return Throughput(size, len(subjects), float(np.mean(rates)), float(np.mean(ranks)) if ranks else None, ready)


def _measure_pairs(
    model: Completion, task: EvaluationTask, count: int, pool: ThreadPoolExecutor, threads: int
) -> float:
    """Candidates a second, each by itself: test facts with a random object at one place."""
    judge, scorer = model.predictor(task.name), model.scorers[task.name]
    sampling, random = model.config.sampling(1, "answer 0"), np.random.default_rng(0)
    tuples = task.tuples[random.integers(0, len(task), count)]
    tuples[np.arange(count), np.arange(count) % 2] = random.integers(0, len(judge.graph), count)

    def judged(part: Ints) -> object:
        nothing = HiddenFacts.one_per_tuple(np.full(len(part), -1, np.int64))
        return scorer.probabilities(
            judge.evaluator.sample_and_evaluate(np.ascontiguousarray(part), sampling, nothing, threads=1)
        )

    judged(tuples[:TRIAL_PAIRS])  # what is made once is made here
    begin = time.perf_counter()
    judged(tuples[:TRIAL_PAIRS])
    tried = min(TRIAL_PAIRS, count) / (time.perf_counter() - begin)
    tuples = tuples[: max(TRIAL_PAIRS * threads, int(tried * threads * TARGET_SECONDS))]
    parts = np.array_split(tuples, threads * max(1, len(tuples) // (threads * 8192)))
    jobs = [partial(judged, part) for part in parts]
    return len(tuples) / statistics.median(_seconds(pool, jobs) for _ in range(REPEATS))


def _warm_up(task: EvaluationTask) -> None:
    """Rank one question at both places: that makes what is around every object, for all others too."""
    for place in (0, 1):
        task.scorer.scores(task.tuples[:1], place)


def _measure_ranking(task: EvaluationTask, objects: int, pool: ThreadPoolExecutor, threads: int) -> float:
    """Candidates a second, every object at both places of a block of test facts, as large as an evaluation's."""
    asked = task.tuples[: max(1, task.scorer.block_size // objects)]
    jobs = [partial(task.scorer.scores, asked, place) for place in (0, 1) for _ in range(-(-threads // 2))]
    return len(jobs) * len(asked) * objects / _seconds(pool, jobs)


def _seconds(pool: ThreadPoolExecutor, jobs: Sequence[Callable[[], object]]) -> float:
    begin = time.perf_counter()
    for future in [pool.submit(job) for job in jobs]:
        future.result()
    return max(time.perf_counter() - begin, 1e-9)

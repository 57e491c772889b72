"""How many answers a second a model gives, against the size k of its neighbourhoods.

An answer is one candidate: its neighbourhood drawn, its features evaluated, the network asked. `pairs` are candidates
that are drawn and judged each by itself; `ranking` puts every object at one place of a fact, as an evaluation does,
where scores can be [split](splits.md). Each is the mean over relations of what was measured for one of them.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from gaifman.completion import Completion
from gaifman.errors import KnowledgeError
from gaifman.examining import Report
from gaifman.kb import KnowledgeBase
from gaifman.neighbourhoods import Hidden
from gaifman.network import Network
from gaifman.splits import splittable
from gaifman.subjects import Ground, Subject, subjects_of
from gaifman.tables import Ints

SIZES = (5, 10, 20, 50, 100, None)
"""k of the paper's figure; None for all that is there."""
RELATIONS = 20
"""Those with most test facts are measured."""
PAIRS = 20_000
"""Candidates of each relation that are judged by themselves, at most."""
SECONDS = 0.5
"""That this may take for a relation, about: whole neighbourhoods can be large."""
TIMES = 3
"""It is done so often, and the middle one counts: it takes a moment, in which a machine may do something else."""
TRIAL = 128
"""Candidates that tell how many can be judged in that time."""
PAPER = 5_000
"""Answers a second that the paper reports."""


@dataclass(frozen=True, slots=True)
class Speed:
    """What was measured with one size."""

    size: int | None
    """k; None for ∞."""
    relations: int
    """How many were measured."""
    pairs_per_s: float
    """Independent candidates a second, the mean over relations."""
    ranking_per_s: float | None
    """Candidates a second where all are ranked; None where scores cannot be split."""
    field_s: float | None
    """Seconds of the first question, which makes what is around every object; it serves all relations, and is not
    counted above."""

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {name: round(v, 3) if isinstance(v, float) else v for name, v in asdict(self).items()}


def speeds(
    model: Completion,
    kb: KnowledgeBase,
    test: KnowledgeBase,
    *,
    sizes: Sequence[int | None] = SIZES,
    relations: int = RELATIONS,
    pairs: int = PAIRS,
    threads: int | None = None,
    report: Report | None = None,
) -> list[Speed]:
    """Measure a trained model with neighbourhoods of other sizes; its weights do not matter for how fast it is."""
    names = measured(model, test, relations)
    ground, workers, found = Ground(kb, test), threads or len(os.sched_getaffinity(0)), list[Speed]()
    for number, size in enumerate(sizes):
        told = partial(_tell, report, number * len(names), len(sizes) * len(names))
        found.append(_speed(sized(model, size), ground, names, pairs, workers, told))
    return found


def _tell(report: Report | None, before: int, total: int, done: int) -> None:
    """How many relations are measured, over all sizes."""
    if report:
        report("measuring speed", before + done, total)


def measured(model: Completion, test: KnowledgeBase, count: int) -> list[str]:
    """The relations of two places with a trained model that have most test facts."""
    counts = {name: test.relations[name].count for name in model.scorers if name in test.relations}
    names = [name for name in counts if counts[name] and model.arity(name) == 2]
    if not names:
        raise KnowledgeError(
            "no relation of two places with test facts has a trained model: there is no speed to measure"
        )
    return sorted(names, key=lambda name: (-counts[name], name))[:count]


def sized(model: Completion, size: int | None) -> Completion:
    """The model with neighbourhoods of another size."""
    learning = replace(model.learning, size=size)
    return Completion(learning, model.relations, model.features, model.scorers, model.calibration, {**model.meta})


def _speed(
    model: Completion, ground: Ground, names: Sequence[str], pairs: int, threads: int, told: Callable[[int], None]
) -> Speed:
    subjects, plan = subjects_of(model, ground, names, [1]), model.on(ground.visible)
    judge, size = plan.judge(names[0]), model.learning.size
    split = splittable(judge.evaluator.plan.features, model.learning, 2)
    split = split and all(isinstance(model.scorers[name].base, Network) for name in names)
    rates, ranks, ready = list[float](), list[float](), None
    with ThreadPoolExecutor(threads) as pool:
        for number, subject in enumerate(subjects):
            told(number)
            rates.append(_pairs(plan, subject, pairs, pool, threads))
            if split and ready is None:
                ready = _seconds(pool, [partial(_first, subject)])
            if split:
                ranks.append(_ranking(subject, len(judge.graph), pool, threads))
    return Speed(size, len(subjects), float(np.mean(rates)), float(np.mean(ranks)) if ranks else None, ready)


def _pairs(model: Completion, subject: Subject, count: int, pool: ThreadPoolExecutor, threads: int) -> float:
    """Candidates a second, each by itself: test facts with a random object at one place."""
    judge, scorer = model.judge(subject.name), model.scorers[subject.name]
    sampling, random = model.learning.sampling(1, "answer 0"), np.random.default_rng(0)
    tuples = subject.tuples[random.integers(0, len(subject), count)]
    tuples[np.arange(count), np.arange(count) % 2] = random.integers(0, len(judge.graph), count)

    def judged(part: Ints) -> object:
        nothing = Hidden.one_each(np.full(len(part), -1, np.int64))
        return scorer.raw(judge.evaluator.sampled(np.ascontiguousarray(part), sampling, nothing, threads=1))

    judged(tuples[:TRIAL])  # what is made once is made here
    begin = time.perf_counter()
    judged(tuples[:TRIAL])
    tried = min(TRIAL, count) / (time.perf_counter() - begin)
    tuples = tuples[: max(TRIAL * threads, int(tried * threads * SECONDS))]
    parts = np.array_split(tuples, threads * max(1, len(tuples) // (threads * 8192)))
    jobs = [partial(judged, part) for part in parts]
    return len(tuples) / statistics.median(_seconds(pool, jobs) for _ in range(TIMES))


def _first(subject: Subject) -> None:
    """Rank one question at both places: that makes what is around every object, for all others too."""
    for place in (0, 1):
        subject.ranker.scores(subject.tuples[:1], place)


def _ranking(subject: Subject, objects: int, pool: ThreadPoolExecutor, threads: int) -> float:
    """Candidates a second, every object at both places of a block of test facts, as large as an evaluation's."""
    asked = subject.tuples[: max(1, subject.ranker.cells // objects)]
    jobs = [partial(subject.ranker.scores, asked, place) for place in (0, 1) for _ in range(-(-threads // 2))]
    return len(jobs) * len(asked) * objects / _seconds(pool, jobs)


def _seconds(pool: ThreadPoolExecutor, jobs: Sequence[Callable[[], object]]) -> float:
    begin = time.perf_counter()
    for future in [pool.submit(job) for job in jobs]:
        future.result()
    return max(time.perf_counter() - begin, 1e-9)

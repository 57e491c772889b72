"""How many answers a second a model gives, against the size k of its neighbourhoods.

An answer is one candidate: its neighbourhood drawn, its features evaluated, the network asked. `pairs` are candidates
that are drawn and judged each by itself; `ranking` puts every object at one place of a fact, as an evaluation does,
where scores can be [split](splits.md). Each is the mean over relations of what was measured for one of them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from gaifman.completion import Completion
from gaifman.errors import KnowledgeError
from gaifman.examining import CELLS, Report
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
"""Candidates of each relation that are judged by themselves."""
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
    """Seconds for what is around every object; done once for all relations, and not counted above."""

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
        if report:
            report("measuring speed", number, len(sizes))
        found.append(_speed(_sized(model, size), ground, names, pairs, workers))
    return found


def measured(model: Completion, test: KnowledgeBase, count: int) -> list[str]:
    """The relations of two places with a trained model that have most test facts."""
    counts = {name: test.relations[name].count for name in model.scorers if name in test.relations}
    names = [name for name in counts if counts[name] and model.arity(name) == 2]
    if not names:
        raise KnowledgeError(
            "no relation of two places with test facts has a trained model: there is no speed to measure"
        )
    return sorted(names, key=lambda name: (-counts[name], name))[:count]


def _sized(model: Completion, size: int | None) -> Completion:
    learning = replace(model.learning, size=size)
    return Completion(learning, model.relations, model.features, model.scorers, model.calibration, {**model.meta})


def _speed(model: Completion, ground: Ground, names: Sequence[str], pairs: int, threads: int) -> Speed:
    subjects = subjects_of(model, ground, names, [1])
    plan, scorers = model.on(ground.visible), [model.scorers[name] for name in names]
    judge = plan.judge(names[0])
    split = splittable(judge.evaluator.plan.features, model.learning, 2)
    split = split and all(isinstance(scorer.base, Network) for scorer in scorers)
    with ThreadPoolExecutor(threads) as pool:
        rates = [_pairs(plan, subject, pairs, pool, threads) for subject in subjects]
        if not split:
            return Speed(model.learning.size, len(subjects), float(np.mean(rates)), None, None)
        begin = time.perf_counter()
        _ranking(subjects[0], len(judge.graph), pool, threads)
        ready = time.perf_counter() - begin
        ranks = [_ranking(subject, len(judge.graph), pool, threads) for subject in subjects]
    return Speed(model.learning.size, len(subjects), float(np.mean(rates)), float(np.mean(ranks)), ready)


def _pairs(model: Completion, subject: Subject, count: int, pool: ThreadPoolExecutor, threads: int) -> float:
    """Candidates a second, each by itself: test facts with a random object at one place."""
    judge, scorer = model.judge(subject.name), model.scorers[subject.name]
    sampling, random = model.learning.sampling(1, "answer 0"), np.random.default_rng(0)
    tuples = subject.tuples[random.integers(0, len(subject), count)]
    tuples[np.arange(count), np.arange(count) % 2] = random.integers(0, len(judge.graph), count)

    def judged(part: Ints) -> object:
        nothing = Hidden.one_each(np.full(len(part), -1, np.int64))
        return scorer.raw(judge.evaluator.sampled(part, sampling, nothing, threads=1))

    judged(tuples[:64])  # what is made once is made here
    parts = np.array_split(tuples, max(threads, threads * (count // (threads * 8192))))
    return count / _seconds(pool, [lambda part=part: judged(np.ascontiguousarray(part)) for part in parts])  # type: ignore[misc]


def _ranking(subject: Subject, objects: int, pool: ThreadPoolExecutor, threads: int) -> float:
    """Candidates a second, every object at both places of a block of test facts, as large as an evaluation's."""
    asked = subject.tuples[: max(1, CELLS // objects)]
    jobs: list[Callable[[], object]] = [
        lambda place=place: subject.ranker.scores(asked, place)  # type: ignore[misc]
        for place in (0, 1)
        for _ in range(-(-threads // 2))
    ]
    for job in jobs[:: -(-threads // 2)]:
        job()  # what is around the objects of both places is made here
    return len(jobs) * len(asked) * objects / _seconds(pool, jobs)


def _seconds(pool: ThreadPoolExecutor, jobs: Sequence[Callable[[], object]]) -> float:
    begin = time.perf_counter()
    for future in [pool.submit(job) for job in jobs]:
        future.result()
    return max(time.perf_counter() - begin, 1e-9)

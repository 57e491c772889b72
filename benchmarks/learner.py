"""Mined formulas and ranked lists on public data sets: quality beside popularity, and speed.

python benchmarks/learner.py [--quick]

Every relation and position of FB15k-237 and WN18RR is mined, fitted and ranked, as by `gaifman reproduce` but for the
fit of probabilities: filtered, realistic ties, only training facts visible. What is hidden in training was chosen on
validation facts. `ratio_to_popularity_mrr` compares with the most frequent object first. `rate_1e7_over_1e5` compares
questions per second on a generated knowledge base with those on 100 copies of it, with the same local structure (10⁶
over 10⁴ with `--quick`). Without GAIFMAN_DATA, only this rate is measured. `--quick` ranks a sample of relations and
facts.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from common import arguments, data, report
from gaifman.io import read
from gaifman.kb.knowledge_base import KnowledgeBase, union
from gaifman.kb.tables import Floats, Ints, Longs
from gaifman.listwise.ranker import ListwiseConfig, fit_ranker, listwise_config
from gaifman.listwise.scoring import RelationScorer
from gaifman.listwise.steps import StepIndex, build_steps
from gaifman.ranking.ranks import CandidateFilter, Ranks, compute_ranks
from gaifman.threads import map_threaded
from gaifman.training import TrainingConfig
from neighbourhoods import covered, generated

CHOSEN = {"FB15k-237": "links", "WN18RR": "facts"}
"""What training hides, chosen on validation facts."""


@dataclass(frozen=True)
class Split:
    """The visible facts of a data set, the facts to rank, and all known facts."""

    kb: KnowledgeBase
    test: KnowledgeBase
    known: tuple[KnowledgeBase, ...]

    @classmethod
    def read(cls, folder: Path) -> Split:
        """Objects of test facts are candidates, also those without visible facts."""
        train, valid, test = (read(folder / f"{part}.txt.gz") for part in ("train", "valid", "test"))
        new = sorted({*valid.objects, *test.objects} - {*train.objects})
        kb = union([train, KnowledgeBase.from_facts([], objects=new)]) if new else train
        return cls(kb, test, (kb, valid, test))

    def facts(self, kb: KnowledgeBase, relation: str) -> Ints:
        """The facts of a relation, as objects of the visible knowledge base."""
        if relation not in kb.relations:
            return np.zeros((0, 2), np.int32)
        numbers = np.array([self.kb.object_id(name) for name in kb.objects], np.int32)
        return numbers[kb.tuples(relation)]


@dataclass(frozen=True)
class Result:
    """The ranks of one relation by its rankers and by popularity, and the seconds it took."""

    total: int
    """Test facts, ranked or not."""
    ranks: Floats
    """At both positions."""
    popularity: Floats
    fit_seconds: float
    rank_seconds: float


def rank(split: Split, index: StepIndex, relation: str, config: ListwiseConfig, count: int) -> Result:
    """Fit the rankers of a relation and rank at most `count` test facts."""
    test = split.facts(split.test, relation)
    known = np.unique(np.concatenate([split.facts(kb, relation) for kb in split.known]), axis=0)
    chosen = np.random.default_rng(0).permutation(len(test))[:count]
    begun = time.perf_counter()
    scorer = RelationScorer(index, [fit_ranker(index, relation, position, config) for position in range(2)], config)
    fitted = time.perf_counter()
    found: list[list[Ranks]] = [[], []]
    for position in range(2):
        filters = CandidateFilter(known, test, position)
        often = np.bincount(split.kb.tuples(relation)[:, position], minlength=len(split.kb.objects)).astype(np.float64)
        for row in chosen.tolist():
            rows: Longs = np.array([row])
            for ranks, scores in zip(found, (scorer.candidate_scores(test[rows], position), often[None]), strict=True):
                ranks.append(compute_ranks(scores, test[rows, position], filters.excluded(rows)))
    ours, popular = (Ranks.concatenate(ranks).with_ties("realistic") for ranks in found)
    return Result(len(test), ours, popular, fitted - begun, time.perf_counter() - fitted)


def mean(results: Sequence[Result], values: Sequence[Floats]) -> float:
    """The mean over all test facts, from samples of each relation and position."""
    weights = np.array([result.total for result in results], np.float64)
    means = np.array([each.mean() for each in values])
    return float((weights * means).sum() / weights.sum())


def measure(split: Split, hide: str, quick: bool) -> tuple[list[Result], float]:
    """The results of all relations, or of a sample, and the seconds."""
    begun, index = time.perf_counter(), build_steps(split.kb)
    config = listwise_config(TrainingConfig(hide=hide), index)
    names = sorted(
        (name for name in split.test.relations if name in split.kb.relations),
        key=lambda name: (-split.kb.relations[name].count, name),
    )
    jobs, count = (names[len(names) * 3 // 4 :: 60], 50) if quick else (names, 10**9)
    results = map_threaded(lambda name: rank(split, index, name, config, count), jobs, 2)
    return results, time.perf_counter() - begun


def question_rate(kb: KnowledgeBase, index: StepIndex, count: int) -> float:
    """Questions per second on one thread, for one relation whose ranker was fitted on `kb`."""
    relation = max(kb.relations.values(), key=lambda each: each.count).name
    config = replace(listwise_config(TrainingConfig(), index), questions=200)
    scorer = RelationScorer(index, [fit_ranker(index, relation, position, config) for position in range(2)], config)
    asked = kb.tuples(relation)[:: max(1, len(kb.tuples(relation)) // count)][:count]
    begun = time.perf_counter()
    for fact in asked.tolist():
        scorer.scorers[1].scores(fact)
    return len(asked) / (time.perf_counter() - begun)


def main() -> None:
    quick = arguments(__doc__).quick
    figures: dict[str, float | int] = {}
    for short, name in (("fb237", "FB15k-237"), ("wn18rr", "WN18RR")):
        folder = data(name)
        if folder is None:
            continue
        results, seconds = measure(Split.read(folder), CHOSEN[name], quick)
        mrr = mean(results, [1 / result.ranks for result in results])
        popularity = mean(results, [1 / result.popularity for result in results])
        questions = sum(len(result.ranks) for result in results)
        figures |= {
            f"{short}_mrr": mrr,
            f"{short}_hits_at_10": mean(results, [(result.ranks <= 10).astype(np.float64) for result in results]),
            f"{short}_seconds": seconds,
            f"{short}_train_s": sum(result.fit_seconds for result in results) / 2,
            f"{short}_rank_s": sum(result.rank_seconds for result in results) / 2,
            f"{short}_popularity_mrr": popularity,
        }
        if short == "fb237":
            figures["ratio_to_popularity_mrr"] = mrr / popularity
            figures["questions_per_s"] = questions / figures["fb237_rank_s"]
    small = generated(1_000, 10_000, 20) if quick else generated(10_000, 100_000, 20)
    large = covered(small, 100)
    rates = [question_rate(kb, build_steps(kb), 200) for kb in (small, large)]
    figures["rate_1e7_over_1e5"] = rates[1] / rates[0]
    figures["peak_memory_gb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    report("learner", figures)


if __name__ == "__main__":
    main()

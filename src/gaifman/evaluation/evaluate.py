"""Evaluate a model on test facts: entity prediction as in the paper, and classification against negatives.

>>> import gaifman
>>> kb = gaifman.demo()
>>> test = gaifman.KnowledgeBase.from_facts([fact for fact in kb.facts("capital")][:3])
>>> few = dict(size=10, options={"epochs": 1}, seed=1)
>>> completion = gaifman.complete(kb.without_facts(test.facts()), ["capital"], **few)
>>> evaluation = evaluate(completion, kb, test, draws=2)
>>> evaluation
<Evaluation: 6 ranks of 3 facts among 1,833 objects>
>>> evaluation.metrics().mean_rank.value < 30
True

For each position of a test fact, its object is ranked among all objects (raw), and among the objects that make no other
true fact (filtered). The result does not depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gaifman._html import muted, paragraph, stack, table
from gaifman._tables import Columns, TableResult, columns_from
from gaifman.completion import Completion
from gaifman.config import (
    NEGATIVE_SAMPLING,
    ProgressCallback,
    check_choice,
    check_fraction,
    check_int,
    check_seed,
    check_threads,
    checked,
    checked_methods,
)
from gaifman.errors import KnowledgeBaseError, plural
from gaifman.evaluation.scorers import PopularityScorer
from gaifman.evaluation.tasks import (
    ConfidenceTest,
    EvaluationData,
    EvaluationTask,
    TaskResult,
    TaskRunner,
    build_tasks,
    open_checkpoint,
    sample_tasks,
)
from gaifman.io.model_file import checksum
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.kb.tables import Floats, Ints, Longs
from gaifman.model import GaifmanModel
from gaifman.models.calibration import auc
from gaifman.ranking.ranks import (
    BOOTSTRAP_RESAMPLES,
    CONFIDENCE_LEVEL,
    HITS_AT,
    RankMetrics,
    Ranks,
    average_precision,
    compute_metrics,
)

INTERVALS = f"{CONFIDENCE_LEVEL:.0%}, bootstrap over facts, {BOOTSTRAP_RESAMPLES:,} resamples"
GROUPINGS = ("position", "category", "relation")
"""What metrics can be grouped by."""
COLUMNS = ("", "ranks", "mean rank", "MRR", *(f"hits@{most}" for most in HITS_AT))
"""The columns of the table of metrics."""


@dataclass(frozen=True, slots=True)
class EvaluationConfig:
    """Which test facts are ranked, and how negatives are sampled."""

    relations: Sequence[str] | None = None
    """The relations of a completion to evaluate; None for all that have test facts."""
    fraction: float | None = None
    """The share of the test facts to rank; None for all."""
    count: int | None = None
    """Or the number of test facts to rank."""
    negative_sampling: str = "typed"
    """Where the objects of negatives come from: `uniform`, `typed` or `mixed`."""
    seed: int = 0
    """The seed of the sample, the negatives and the intervals; neighbourhoods have the model's seed."""

    def __post_init__(self) -> None:
        check_choice("negative_sampling", self.negative_sampling, NEGATIVE_SAMPLING)
        check_seed(self.seed)
        if self.fraction is not None and self.count is not None:
            raise KnowledgeBaseError("give a fraction of the test facts or a count, not both")
        if self.fraction is not None:
            check_fraction("fraction", self.fraction, zero=False)
        if self.count is not None:
            check_int("count", self.count, 1)

    def sample_size(self, facts: int) -> int:
        """The number of facts to rank, out of `facts`."""
        if self.count is not None:
            return min(self.count, facts)
        return facts if self.fraction is None else ceil(self.fraction * facts)


DEFAULT_CONFIG = EvaluationConfig()


@dataclass(frozen=True, slots=True)
class Classification:
    """Scores of test facts and of one negative for each."""

    scores: Floats
    """Shape (tuples,), float64: the mean of the base model's probabilities, or the fallback probability."""
    targets: Floats
    """Shape (tuples,), float64: 1 for test facts, 0 for negatives."""
    relation: Ints
    """Shape (tuples,), int32: the index of the relation."""

    def metrics(self, relation: int | None = None) -> dict[str, Any]:
        """AUC and average precision of all tuples, or of one relation; None if there are no negatives."""
        own = np.ones(len(self.scores), bool) if relation is None else self.relation == relation
        scores, targets = self.scores[own], self.targets[own]
        both = {"facts": int((targets > 0).sum()), "negatives": int((targets == 0).sum())}
        if not all(both.values()):
            return both | {"auc": None, "average_precision": None}
        area, precision = auc(scores, targets) or 0.0, average_precision(scores, targets) or 0.0
        return both | {"auc": round(area, 6), "average_precision": round(precision, 6)}


@checked_methods
@dataclass(frozen=True, slots=True, repr=False)
class Evaluation(TableResult):
    """The ranks of test facts, and metrics. Prints as a table."""

    relations: tuple[str, ...]
    """The relations, sorted; for the model of a query, the query."""
    categories: tuple[str, ...]
    """The category of each relation: `1-1`, `1-n`, `n-1`, `n-n`, `other` or `none`."""
    trained: tuple[bool, ...]
    """For each relation, whether it has a trained model; the others have the fallback's scores."""
    fact: Longs
    """Shape (ranks,), int64: the index of the test fact, over all relations."""
    relation: Ints
    """Shape (ranks,), int32: the index of its relation."""
    position: Ints
    """Shape (ranks,), int32: the position whose object was ranked, from 0."""
    filtered: Ranks
    """Ranks among the objects that make no other true fact."""
    raw: Ranks
    """Ranks among all objects."""
    classification: Classification
    """Scores of test facts and negatives."""
    test_facts: int
    """The number of test facts, ranked or not."""
    objects: int
    """The number of candidates."""
    unseen_objects: int
    """Objects of the ranked facts that the knowledge base does not have; they are candidates too."""
    hidden_test_facts: int
    """Test facts that were removed from the knowledge base."""
    draws: int
    """Neighbourhoods per score."""
    seed: int
    """The seed of the sample, the negatives and the intervals."""
    confidences: ConfidenceTest | None = None
    """The probabilities and confidences of the test facts; None if all test facts are certain."""

    def __repr__(self) -> str:
        ranks, facts, objects = (
            plural(len(self), "rank"),
            plural(self.ranked_facts, "fact"),
            plural(self.objects, "object"),
        )
        sample = f", a sample of {self.test_facts:,}" if self.sampled else ""
        return f"<Evaluation: {ranks} of {facts} among {objects}{sample}>"

    def __len__(self) -> int:
        """The number of ranks."""
        return len(self.fact)

    @property
    def ranked_facts(self) -> int:
        """The number of facts that were ranked."""
        return len(np.unique(self.fact))

    @property
    def sampled(self) -> bool:
        """Whether only some of the test facts were ranked."""
        return self.ranked_facts < self.test_facts

    def metrics(
        self, rows: npt.NDArray[np.bool_] | None = None, *, raw: bool = False, ties: str = "realistic"
    ) -> RankMetrics:
        """Mean rank, MRR and hits@k with confidence intervals, of all ranks or of the selected `rows`.

        Args:
            rows: Shape (ranks,), bool; None for all.
            raw: Rank among all objects, not only those that make no other true fact.
            ties: `realistic`, `optimistic` or `pessimistic`.
        """
        selected = np.ones(len(self), bool) if rows is None else rows
        if selected.shape != (len(self),) or selected.dtype != bool:
            raise KnowledgeBaseError(f"rows is a mask of {len(self):,} booleans, got {selected.dtype}{selected.shape}")
        ranks = (self.raw if raw else self.filtered).with_ties(ties)
        return compute_metrics(ranks[selected], self.fact[selected], self.seed)

    def metrics_by(self, grouping: str, *, raw: bool = False, ties: str = "realistic") -> dict[str, RankMetrics]:
        """The metrics of each `position`, `category` or `relation`."""
        check_choice("grouping", grouping, GROUPINGS)
        names, numbers = self._groups(grouping)
        present = np.unique(numbers).tolist()
        return {names[number]: self.metrics(numbers == number, raw=raw, ties=ties) for number in present}

    def _groups(self, kind: str) -> tuple[list[str], Ints]:
        if kind == "position":
            return [f"position {number + 1}" for number in range(int(self.position.max()) + 1)], self.position
        if kind == "relation":
            return [*self.relations], self.relation
        names = sorted(set(self.categories))
        return names, np.array([names.index(name) for name in self.categories], np.int32)[self.relation]

    def as_dict(self) -> dict[str, Any]:
        """All metrics as JSON types, with realistic ties; those of all ranks with the other ties too."""
        found: dict[str, Any] = {
            "facts": self.ranked_facts,
            "test_facts": self.test_facts,
            "sampled": self.sampled,
            "ranks": len(self),
        }
        found |= {
            "objects": self.objects,
            "unseen_objects": self.unseen_objects,
            "hidden_test_facts": self.hidden_test_facts,
            "draws": self.draws,
        }
        found |= {"seed": self.seed, "ties": "realistic", "intervals": INTERVALS}
        for name, raw in (("filtered", False), ("raw", True)):
            whole = {"all": self.metrics(raw=raw).as_dict()}
            whole |= {ties: self.metrics(raw=raw, ties=ties).as_dict() for ties in ("optimistic", "pessimistic")}
            for grouping in GROUPINGS:
                groups = self.metrics_by(grouping, raw=raw)
                whole[grouping] = {group: metrics.as_dict() for group, metrics in groups.items()}
            found[name] = whole
        by_relation = {name: self.classification.metrics(number) for number, name in enumerate(self.relations)}
        found["classification"] = self.classification.metrics() | {"relation": by_relation}
        rows = zip(self.relations, self.categories, self.trained, strict=True)
        found["relations"] = [{"name": name, "category": kind, "trained": trained} for name, kind, trained in rows]
        return found if self.confidences is None else found | {"confidences": self.confidences.metrics()}

    def columns(self) -> Columns:
        """The metrics with their intervals, filtered and raw: of all ranks, by position, category and relation."""
        rows = [
            {"candidates": name, "ties": ties, "grouping": grouping, "group": group} | metrics.as_columns()
            for name, raw in (("filtered", False), ("raw", True))
            for ties, grouping, group, metrics in self._all_metrics(raw)
        ]
        return columns_from(rows)

    def _all_metrics(self, raw: bool) -> Iterator[tuple[str, str, str, RankMetrics]]:
        """Ties, grouping, group and metrics."""
        for ties in ("realistic", "optimistic", "pessimistic"):
            yield ties, "all", "all", self.metrics(raw=raw, ties=ties)
        for grouping in GROUPINGS:
            for group, metrics in self.metrics_by(grouping, raw=raw).items():
                yield "realistic", grouping, group, metrics

    def table_rows(self, *, raw: bool = False) -> list[tuple[str, RankMetrics]]:
        """The rows of the printed table: all ranks with each kind of ties, then by position and category."""
        found = [("all", self.metrics(raw=raw))]
        found += [(f"all, {ties}", self.metrics(raw=raw, ties=ties)) for ties in ("optimistic", "pessimistic")]
        return [*found, *self.metrics_by("position", raw=raw).items(), *self.metrics_by("category", raw=raw).items()]

    def __str__(self) -> str:
        """The table of metrics."""
        lines = [[*COLUMNS]]
        lines += [[name, *format_metrics(each)] for name, each in self.table_rows()]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        texts = [[line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])] for line in lines]
        return "\n".join(["  ".join(text).rstrip() for text in texts])

    def _repr_html_(self) -> str:
        """The same table for a notebook."""
        rows = [(name, *format_metrics(each)) for name, each in self.table_rows()]
        return stack(paragraph(muted(repr(self)[1:-1])), table(COLUMNS, rows, numeric_columns=range(1, len(COLUMNS))))


def format_metrics(metrics: RankMetrics) -> list[str]:
    """The metrics as texts, in the order of the columns."""
    shares = [metrics.mrr, *metrics.hits.values()]
    return [f"{metrics.ranks:,}", f"{metrics.mean_rank.value:,.1f}", *(f"{share.value:.3f}" for share in shares)]


@checked
def evaluate(
    model: GaifmanModel | Completion,
    kb: KnowledgeBase,
    test: KnowledgeBase,
    known: KnowledgeBase | Iterable[KnowledgeBase] = (),
    *,
    relations: Sequence[str] | None = None,
    draws: int | None = None,
    fraction: float | None = None,
    count: int | None = None,
    negative_sampling: str = DEFAULT_CONFIG.negative_sampling,
    seed: int = DEFAULT_CONFIG.seed,
    threads: int | None = None,
    progress: ProgressCallback | None = None,
    checkpoint_dir: Path | str | None = None,
) -> Evaluation:
    """Rank the objects of test facts by a model that sees the facts of `kb`.

    Args:
        model: The trained model; `kb` can be another knowledge base than the one it was trained on.
        kb: The visible facts. Test facts in it are removed.
        test: The test facts.
        known: Facts that are also true, such as validation facts: they are filtered out, but not visible.
        relations: The relations of a completion to evaluate; None for all that have test facts.
        draws: Neighbourhoods per score; None for the model's setting.
        fraction: The share of the test facts to rank; None for all.
        count: Or the number of test facts to rank.
        negative_sampling: Where the objects of negatives come from, for AUC and average precision.
        seed: The seed of the sample, the negatives and the intervals.
        threads: The number of threads; None for all processors. The result does not depend on it.
        progress: Called with the phase, the ranks done and their total.
        checkpoint_dir: A folder for finished relations: an evaluation that was stopped continues from there.
    """
    config = EvaluationConfig(relations, fraction, count, negative_sampling, seed)
    counts = [model.config.draws if draws is None else draws]
    return _evaluate(model, kb, test, known, counts, config, threads, progress, checkpoint_dir)[0]


def evaluate_popularity(
    model: GaifmanModel | Completion,
    kb: KnowledgeBase,
    test: KnowledgeBase,
    known: KnowledgeBase | Iterable[KnowledgeBase] = (),
    *,
    seed: int = DEFAULT_CONFIG.seed,
) -> Evaluation:
    """Evaluate the baseline of a model, on the same test facts: the most frequent object first."""
    data = EvaluationData(kb, test, (known,) if isinstance(known, KnowledgeBase) else tuple(known))
    objects = len(data.visible.objects)
    tasks = [
        replace(task, scorer=PopularityScorer(task.visible, objects)) for task in build_tasks(model, data, None, [1])
    ]
    results = TaskRunner(data.visible, DEFAULT_CONFIG.negative_sampling, seed).run(tasks, check_threads(None), None)
    return _combine_results(tasks, results, 0, 0, sum(map(len, tasks)), data, seed)


@checked
def evaluate_draw_counts(
    model: GaifmanModel | Completion,
    kb: KnowledgeBase,
    test: KnowledgeBase,
    known: KnowledgeBase | Iterable[KnowledgeBase] = (),
    *,
    draws: Sequence[int],
    relations: Sequence[str] | None = None,
    fraction: float | None = None,
    count: int | None = None,
    negative_sampling: str = DEFAULT_CONFIG.negative_sampling,
    seed: int = DEFAULT_CONFIG.seed,
    threads: int | None = None,
    progress: ProgressCallback | None = None,
    checkpoint_dir: Path | str | None = None,
) -> list[Evaluation]:
    """Evaluate with several numbers of draws in one pass over the candidates: one evaluation for each number.

    `draws` lists the numbers; the other arguments are those of `evaluate`.
    """
    if not len(draws):
        raise KnowledgeBaseError("draws is a list of numbers of draws, at least one")
    config = EvaluationConfig(relations, fraction, count, negative_sampling, seed)
    return _evaluate(model, kb, test, known, draws, config, threads, progress, checkpoint_dir)


def _evaluate(
    model: GaifmanModel | Completion,
    kb: KnowledgeBase,
    test: KnowledgeBase,
    known: KnowledgeBase | Iterable[KnowledgeBase],
    counts: Sequence[int],
    config: EvaluationConfig,
    threads: int | None,
    progress: ProgressCallback | None,
    checkpoint_dir: Path | str | None,
) -> list[Evaluation]:
    workers = check_threads(threads)
    if progress:
        progress("preparing", 0, None)
    others = (known,) if isinstance(known, KnowledgeBase) else tuple(known)
    data = EvaluationData(kb, test, others)
    every = build_tasks(model, data, config.relations, counts, workers)
    facts = sum(map(len, every))
    tasks = sample_tasks(every, config.sample_size(facts), config.seed)
    key = None if checkpoint_dir is None else _checkpoint_key(model, kb, test, others, counts, config)
    with nullcontext() if checkpoint_dir is None or key is None else open_checkpoint(checkpoint_dir, key) as run:
        results = TaskRunner(data.visible, config.negative_sampling, config.seed, run).run(tasks, workers, progress)
    return [
        _combine_results(tasks, results, number, draws, facts, data, config.seed) for number, draws in enumerate(counts)
    ]


def _checkpoint_key(
    model: GaifmanModel | Completion,
    kb: KnowledgeBase,
    test: KnowledgeBase,
    known: Sequence[KnowledgeBase],
    counts: Sequence[int],
    config: EvaluationConfig,
) -> dict[str, Any]:
    """Everything that the ranks depend on."""
    relations = None if config.relations is None else sorted(set(config.relations))
    return {
        "model": checksum(*model.state()),
        "knowledge base": kb.fingerprint,
        "test facts": test.fingerprint,
        "known facts": [other.fingerprint for other in known],
        "numbers of draws": [*counts],
        "sample of facts": asdict(config) | {"relations": relations},
    }


def _combine_results(
    tasks: Sequence[EvaluationTask],
    results: Sequence[TaskResult],
    number: int,
    draws: int,
    facts: int,
    data: EvaluationData,
    seed: int,
) -> Evaluation:
    """Join the results of all tasks for one of the numbers of draws."""
    shapes = [task.tuples.shape for task in tasks]
    indices, ends = np.arange(len(tasks), dtype=np.int32), np.cumsum([count for count, _ in shapes])
    fact_ranges = zip(ends, shapes, strict=True)
    tests = (
        task.confidence_test(result.scores[number, : len(task)]) for task, result in zip(tasks, results, strict=True)
    )
    compared = [test for test in tests if test is not None]
    return Evaluation(
        tuple(task.name for task in tasks),
        tuple(task.category for task in tasks),
        tuple(task.trained for task in tasks),
        np.concatenate([np.tile(np.arange(end - count, end), arity) for end, (count, arity) in fact_ranges]),
        np.repeat(indices, [count * arity for count, arity in shapes]),
        np.concatenate([np.repeat(np.arange(arity, dtype=np.int32), count) for count, arity in shapes]),
        Ranks.concatenate([result.ranks_for(number, raw=False) for result in results]),
        Ranks.concatenate([result.ranks_for(number, raw=True) for result in results]),
        Classification(
            np.concatenate([result.scores[number] for result in results]),
            np.concatenate([result.targets for result in results]),
            np.repeat(indices, [len(result.targets) for result in results]),
        ),
        facts,
        len(data.visible.objects),
        data.count_unseen(tasks),
        data.hidden_count,
        draws,
        seed,
        ConfidenceTest.concatenate(compared) if compared else None,
    )

"""How good a model is: entity prediction as the paper has it, and telling test facts from corruptions.

>>> import gaifman
>>> kb = gaifman.demo()
>>> test = gaifman.KnowledgeBase.from_facts([fact for fact in kb.facts("capital")][:3])
>>> few = dict(size=10, options={"epochs": 1}, seed=1)
>>> completion = gaifman.complete(kb.without_facts(test.facts()), ["capital"], **few)
>>> found = evaluate(completion, kb, test, draws=2)
>>> found
<Evaluation: 6 ranks of 3 facts among 1,155 objects>
>>> found.metrics().mean_rank.value < 30
True

Of each test fact every place in turn is given every object; the rank of the right one is counted among those that are
not known to be right too (filtered), and among all (raw). The result is the same for any number of threads.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, fields
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gaifman._html import muted, paragraph, stack, table
from gaifman.config import ProgressCallback, check_choice, check_fraction, check_int, cpu_count
from gaifman.errors import KnowledgeBaseError, plural, similar_names
from gaifman.evaluation.ranks import (
    BOOTSTRAP_RESAMPLES,
    CONFIDENCE_LEVEL,
    HITS_AT,
    RankMetrics,
    Ranks,
    average_precision,
    compute_metrics,
)
from gaifman.evaluation.tasks import (
    EvaluationData,
    EvaluationTask,
    Model,
    TaskResult,
    TaskRunner,
    build_tasks,
    open_checkpoint,
    sample_tasks,
)
from gaifman.io.model_file import checksum
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.kb.tables import Floats, Ints, Longs
from gaifman.models.calibration import auc
from gaifman.sampling.negatives import NEGATIVE_SAMPLING

INTERVALS = f"{CONFIDENCE_LEVEL:.0%}, bootstrap over facts, {BOOTSTRAP_RESAMPLES:,} resamples"
GROUPINGS = ("position", "category", "relation")
"""What ranks are grouped by."""
COLUMNS = ("", "ranks", "mean rank", "MRR", *(f"hits@{most}" for most in HITS_AT))
"""Of the table of figures."""


@dataclass(frozen=True, slots=True)
class EvaluationConfig:
    """How a model is evaluated."""

    relations: Sequence[str] | None = None
    """Of a completion: those to evaluate; None for all that have test facts."""
    draws: int | None = None
    """N: neighbourhoods that a score is the mean of; None for as many as the model says."""
    fraction: float | None = None
    """The share of the test facts that is ranked; None for all."""
    count: int | None = None
    """Or how many of them at most."""
    negative_sampling: str = "typed"
    """Where corruptions to tell test facts from come from: `typed`, so that nonsense is not what they are told from."""
    seed: int = 0
    """Of the facts that are chosen, of the corruptions and of the intervals; neighbourhoods have the model's."""

    def __post_init__(self) -> None:
        check_choice("negative_sampling", self.negative_sampling, NEGATIVE_SAMPLING)
        if self.fraction is not None and self.count is not None:
            raise KnowledgeBaseError("a fraction of the test facts is given and a count too: one of them decides")
        if self.fraction is not None:
            check_fraction("fraction", self.fraction, zero=False)
        if self.count is not None:
            check_int("count", self.count, 1)

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> EvaluationConfig:
        """From settings by name, or what is wrong with them."""
        known = [each.name for each in fields(cls)]
        for name in settings:
            if name not in known:
                raise KnowledgeBaseError(
                    f"there is no setting {name}", suggestions=similar_names(name, known), hint=", ".join(known)
                )
        return cls(**settings)

    def sample_size(self, facts: int) -> int:
        """How many of so many facts are ranked."""
        if self.count is not None:
            return min(self.count, facts)
        return facts if self.fraction is None else ceil(self.fraction * facts)


@dataclass(frozen=True, slots=True)
class Classification:
    """How well test facts are told from one corruption each."""

    scores: Floats
    """Shape (tuples,), float64: the mean of the base model's probability, or the fallback's."""
    targets: Floats
    """Shape (tuples,), float64: 1 for test facts, 0 for corruptions."""
    relation: Ints
    """Shape (tuples,), int32: number of the relation."""

    def metrics(self, relation: int | None = None) -> dict[str, Any]:
        """AUC and average precision, of all or of one relation; None where there is no corruption."""
        own = np.ones(len(self.scores), bool) if relation is None else self.relation == relation
        scores, targets = self.scores[own], self.targets[own]
        both = {"facts": int((targets > 0).sum()), "negatives": int((targets == 0).sum())}
        if not all(both.values()):
            return both | {"auc": None, "average_precision": None}
        area, precision = auc(scores, targets) or 0.0, average_precision(scores, targets) or 0.0
        return both | {"auc": round(area, 6), "average_precision": round(precision, 6)}


@dataclass(frozen=True, slots=True, repr=False)
class Evaluation:
    """Ranks of test facts, and what follows from them."""

    relations: tuple[str, ...]
    """Names, sorted; of the model of a query, the query."""
    categories: tuple[str, ...]
    """Of each relation: `1-1`, `1-n`, `n-1`, `n-n`, `other` or `none`."""
    trained: tuple[bool, ...]
    """Of each relation: whether a model was learnt; others have the fallback's scores."""
    fact: Longs
    """Shape (ranks,), int64: number of the test fact, over all relations."""
    relation: Ints
    """Shape (ranks,), int32: number of its relation."""
    position: Ints
    """Shape (ranks,), int32: the place that was given every object, from 0."""
    filtered: Ranks
    """Among those that are not known to be right."""
    raw: Ranks
    """Among all."""
    classification: Classification
    test_facts: int
    """How many test facts there are, ranked or not."""
    objects: int
    """How many candidates each place has."""
    unseen_objects: int
    """Objects of the ranked facts that the knowledge base does not have. They are candidates too."""
    hidden_test_facts: int
    """Test facts that the knowledge base has, and that were taken out of it."""
    draws: int
    seed: int

    def __repr__(self) -> str:
        said = (
            f"{plural(len(self), 'rank')} of {plural(self.ranked_facts, 'fact')} among {plural(self.objects, 'object')}"
        )
        return f"<Evaluation: {said}{f', a sample of {self.test_facts:,}' if self.sampled else ''}>"

    def __len__(self) -> int:
        """How many ranks there are."""
        return len(self.fact)

    @property
    def ranked_facts(self) -> int:
        """How many facts were ranked."""
        return len(np.unique(self.fact))

    @property
    def sampled(self) -> bool:
        """Whether only some of the test facts were ranked."""
        return self.ranked_facts < self.test_facts

    def metrics(
        self, rows: npt.NDArray[np.bool_] | None = None, *, raw: bool = False, ties: str = "realistic"
    ) -> RankMetrics:
        """The figures of all ranks, or of some (ranks,)."""
        every = np.ones(len(self), bool) if rows is None else rows
        return compute_metrics((self.raw if raw else self.filtered).with_ties(ties)[every], self.fact[every], self.seed)

    def metrics_by(self, grouping: str, *, raw: bool = False, ties: str = "realistic") -> dict[str, RankMetrics]:
        """The figures by `side` (the place that was filled), `category` or `relation`."""
        check_choice("grouping", grouping, GROUPINGS)
        names, numbers = self._groups(grouping)
        present = np.unique(numbers).tolist()
        return {names[number]: self.metrics(numbers == number, raw=raw, ties=ties) for number in present}

    def _groups(self, kind: str) -> tuple[list[str], Ints]:
        if kind == "position":
            return [f"position {place + 1}" for place in range(int(self.position.max()) + 1)], self.position
        if kind == "relation":
            return [*self.relations], self.relation
        names = sorted(set(self.categories))
        return names, np.array([names.index(name) for name in self.categories], np.int32)[self.relation]

    def as_dict(self) -> dict[str, Any]:
        """For JSON: all figures by realistic ties, and those of all ranks by the others too."""
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
            for kind in GROUPINGS:
                whole[kind] = {group: each.as_dict() for group, each in self.metrics_by(kind, raw=raw).items()}
            found[name] = whole
        judged = {name: self.classification.metrics(number) for number, name in enumerate(self.relations)}
        found["classification"] = self.classification.metrics() | {"relation": judged}
        about = zip(self.relations, self.categories, self.trained, strict=True)
        found["relations"] = [{"name": name, "category": kind, "trained": known} for name, kind, known in about]
        return found

    def table_rows(self, *, raw: bool = False) -> list[tuple[str, RankMetrics]]:
        """All ranks by each way of ties, then by side and category: what is worth a table."""
        found = [("all", self.metrics(raw=raw))]
        found += [(f"all, {ties}", self.metrics(raw=raw, ties=ties)) for ties in ("optimistic", "pessimistic")]
        return [*found, *self.metrics_by("position", raw=raw).items(), *self.metrics_by("category", raw=raw).items()]

    def __str__(self) -> str:
        """A table, for people."""
        lines = [[*COLUMNS]]
        lines += [[name, *format_metrics(each)] for name, each in self.table_rows()]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        texts = [[line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])] for line in lines]
        return "\n".join(["  ".join(text).rstrip() for text in texts])

    def _repr_html_(self) -> str:
        """In a notebook: the same table."""
        rows = [(name, *format_metrics(each)) for name, each in self.table_rows()]
        return stack(paragraph(muted(repr(self)[1:-1])), table(COLUMNS, rows, numeric_columns=range(1, len(COLUMNS))))


def format_metrics(metrics: RankMetrics) -> list[str]:
    """The figures as texts."""
    shares = [metrics.mrr, *metrics.hits.values()]
    return [f"{metrics.ranks:,}", f"{metrics.mean_rank.value:,.1f}", *(f"{share.value:.3f}" for share in shares)]


def evaluate(
    model: Model,
    kb: KnowledgeBase,
    test: KnowledgeBase,
    known: KnowledgeBase | Iterable[KnowledgeBase] = (),
    *,
    threads: int | None = None,
    progress: ProgressCallback | None = None,
    checkpoint_dir: Path | str | None = None,
    **settings: Any,
) -> Evaluation:
    """Rank the test facts, judging from the facts of `kb`; those of `known` are true too, and only filtered out.

    Further settings are those of `EvaluationConfig`. What the model has learnt of is `kb` or another knowledge base. `kept` is a
    folder in which every relation is kept when it is done: an evaluation that was stopped goes on there.
    """
    draws = EvaluationConfig.from_settings(settings).draws
    rest: dict[str, Any] = {name: value for name, value in settings.items() if name != "draws"}
    counts = None if draws is None else [draws]
    return evaluate_draw_counts(
        model, kb, test, known, draws=counts, threads=threads, progress=progress, checkpoint_dir=checkpoint_dir, **rest
    )[0]


def evaluate_draw_counts(
    model: Model,
    kb: KnowledgeBase,
    test: KnowledgeBase,
    known: KnowledgeBase | Iterable[KnowledgeBase] = (),
    *,
    draws: Sequence[int] | None = None,
    threads: int | None = None,
    progress: ProgressCallback | None = None,
    checkpoint_dir: Path | str | None = None,
    **settings: Any,
) -> list[Evaluation]:
    """As `evaluate`, with several numbers of draws: one result for each, of one pass over the candidates."""
    if "draws" in settings or (draws is not None and not len(draws)):
        raise KnowledgeBaseError("draws is a list of numbers of draws, at least one")
    given, workers = EvaluationConfig.from_settings(settings), threads or cpu_count()
    if progress:
        progress("preparing", 0, None)
    others = (known,) if isinstance(known, KnowledgeBase) else tuple(known)
    ground = EvaluationData(kb, test, others)
    counts = [model.config.draws] if draws is None else [*draws]
    whole = build_tasks(model, ground, given.relations, counts, workers)
    subjects = sample_tasks(whole, given.sample_size(sum(map(len, whole))), given.seed)
    about = None if checkpoint_dir is None else _checkpoint_key(model, kb, test, others, counts, given)
    with nullcontext() if checkpoint_dir is None or about is None else open_checkpoint(checkpoint_dir, about) as run:
        examiner = TaskRunner(ground.visible, given.negative_sampling, given.seed, run)
        parts = examiner.run(subjects, workers, progress)
    facts = sum(map(len, whole))
    return [
        _combine_results(subjects, parts, number, count, facts, ground, given.seed)
        for number, count in enumerate(counts)
    ]


def _checkpoint_key(
    model: Model,
    kb: KnowledgeBase,
    test: KnowledgeBase,
    known: Sequence[KnowledgeBase],
    counts: Sequence[int],
    config: EvaluationConfig,
) -> dict[str, Any]:
    """What ranks follow from: two evaluations with the same have the same ranks."""
    wanted = {name: value for name, value in asdict(config).items() if name != "draws"}
    return {
        "model": checksum(*model.state()),
        "knowledge base": kb.fingerprint,
        "test facts": test.fingerprint,
        "known facts": [other.fingerprint for other in known],
        "numbers of draws": [*counts],
        "choice of facts": wanted | {"relations": wanted["relations"] and sorted(set(wanted["relations"]))},
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
    """The parts of all subjects as one, with one of the numbers of draws."""
    sizes = [subject.tuples.shape for subject in tasks]
    numbers, ends = np.arange(len(tasks), dtype=np.int32), np.cumsum([count for count, _ in sizes])
    own = zip(ends, sizes, strict=True)
    return Evaluation(
        tuple(subject.name for subject in tasks),
        tuple(subject.category for subject in tasks),
        tuple(subject.trained for subject in tasks),
        np.concatenate([np.tile(np.arange(end - count, end), width) for end, (count, width) in own]),
        np.repeat(numbers, [count * width for count, width in sizes]),
        np.concatenate([np.repeat(np.arange(width, dtype=np.int32), count) for count, width in sizes]),
        Ranks.concatenate([part.ranks_for(number, raw=False) for part in results]),
        Ranks.concatenate([part.ranks_for(number, raw=True) for part in results]),
        Classification(
            np.concatenate([part.scores[number] for part in results]),
            np.concatenate([part.targets for part in results]),
            np.repeat(numbers, [len(part.targets) for part in results]),
        ),
        facts,
        len(data.visible.objects),
        data.count_unseen(tasks),
        data.hidden_count,
        draws,
        seed,
    )

"""What a trained model says of tuples of a knowledge base: probabilities with their errors, and representations.

The knowledge base need not be the one it was trained on. Relations that the model speaks of and the knowledge base
lacks count as having no facts; one that shares none of them is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from gaifman._html import bar, stack
from gaifman.cancellation import Deadline, no_deadline
from gaifman.config import DEFAULT_BUDGET, Budget, check_int, check_positive
from gaifman.errors import KnowledgeBaseError
from gaifman.features.compiler import compile_features
from gaifman.features.evaluator import FeatureEvaluator
from gaifman.features.feature_sets import FeatureSet
from gaifman.features.matrix import FeatureMatrix, Reals
from gaifman.kb.gaifman_graph import GaifmanGraph, build_graph
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.kb.tables import Floats, Ints
from gaifman.logic.ast import Feature, Query
from gaifman.models.calibration import Calibration
from gaifman.sampling.hiding import hide
from gaifman.sampling.neighbourhoods import MAX_DRAWS, HiddenFacts, SamplingConfig
from gaifman.training import Scorer, TrainingConfig

DEFAULT_MAX_DRAWS = 1_000
"""Draws for one tuple at most, where they go on until the error is small."""
MIN_DRAWS = 10
"""Draws before its error is believed."""
BLOCK_SIZE = 4_096
"""Neighbourhoods that are in memory at once."""


def format_probability(probability: float) -> str:
    """A probability for people: no model is certain, however its numbers are rounded.

    >>> [format_probability(value) for value in (0.25, 0.0004, 0.99999)]
    ['0.250', '<0.001', '>0.999']
    """
    if probability < 0.0005:
        return "<0.001"
    return ">0.999" if probability >= 0.9995 else f"{probability:.3f}"


@dataclass(frozen=True, slots=True)
class Estimate:
    """A probability with its standard error.

    >>> print(Estimate(0.9312, 0.004, 10), Estimate(3e-7, 1e-7, 10), sep=", ")
    0.931 ± 0.004, <0.001 ± 0.000
    >>> round(float(Estimate(0.9312, 0.004, 10)), 2)
    0.93
    """

    value: float
    error: float
    """The standard error over the draws; NaN for a single one."""
    draws: int

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        return format_probability(self.value) + ("" if np.isnan(self.error) else f" ± {self.error:.3f}")

    def _repr_html_(self) -> str:
        return stack(bar(self.value, self))


@dataclass(frozen=True, slots=True)
class Estimates:
    """Probabilities of tuples, in their order."""

    values: Floats
    """Shape (tuples,), float64."""
    errors: Floats
    """Shape (tuples,), float64: standard errors; NaN where there was one draw."""
    draws: Ints
    """Shape (tuples,), int32: neighbourhoods that were drawn."""

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, row: int) -> Estimate:
        return Estimate(float(self.values[row]), float(self.errors[row]), int(self.draws[row]))


@dataclass(frozen=True, slots=True)
class DrawBudget:
    """How sure an estimate must be."""

    draws: int
    """N, or how many at first where there is a bound."""
    max_error: float | None = None
    """A bound: drawing goes on until the standard error is below it, or `most` are drawn."""
    max_draws: int = DEFAULT_MAX_DRAWS
    deadline: Deadline = field(default_factory=no_deadline)
    """When drawing is stopped; asked between blocks."""

    @property
    def limit(self) -> int:
        """Draws for one tuple at most."""
        return self.draws if self.max_error is None else self.max_draws

    def __post_init__(self) -> None:
        for name in ("draws", "max_draws"):
            check_int(name, getattr(self, name), 1, MAX_DRAWS)
        if self.max_error is not None:
            check_positive("max_error", self.max_error)


class Predictor:
    """A knowledge base made ready for the features of a model."""

    def __init__(
        self, kb: KnowledgeBase, features: Sequence[Feature], arity: int, graph: GaifmanGraph | None = None
    ) -> None:
        self.graph = build_graph(kb) if graph is None else graph
        self.kb, self.width = self.graph.kb, arity
        self.evaluator = FeatureEvaluator(self.graph, compile_features(FeatureSet(tuple(features)), self.kb, arity))

    def tuple_ids(self, names: Sequence[Sequence[str]]) -> Ints:
        """Tuples of names as numbers (b, n)."""
        for row in names:
            if isinstance(row, str) or len(row) != self.width:
                raise KnowledgeBaseError(f"the query has {self.width} variables: name as many objects, not {row!r}")
        return np.array([[self.kb.object_id(name) for name in row] for row in names], np.int32).reshape(-1, self.width)

    def hidden_facts(self, query: Query, tuples: Ints, seed: int, budget: Budget = DEFAULT_BUDGET) -> HiddenFacts:
        """What is hidden from tuples that are known answers, so that they are judged as if they were not known."""
        relation = query.atomic_relation
        if relation is None:
            return hide(self.kb, query, tuples, seed=seed, budget=budget)
        number = self.kb.content.relations.find(relation)
        assert number is not None, "the model's relations are known"
        return HiddenFacts.one_per_tuple(self.graph.kb.fact_ids(number, tuples))

    def estimate(
        self,
        scorer: Scorer,
        calibration: Calibration,
        config: TrainingConfig,
        tuples: Ints,
        hidden: HiddenFacts,
        draw_budget: DrawBudget,
    ) -> Estimates:
        """Calibrated means over draws, with errors; more draws for those whose error is above the bound."""
        sums, squares, counts = (np.zeros(len(tuples)) for _ in range(3))
        left, drawn = np.arange(len(tuples)), 0
        while len(left) and drawn < draw_budget.limit:
            draws = min(drawn or draw_budget.draws, draw_budget.limit - drawn)
            sampling = SamplingConfig(config.radius, config.size, draws, config.seed, f"answer {drawn}")
            each = self.probabilities_per_draw(
                scorer, tuples[left], sampling, hidden.select(left), draw_budget.deadline
            )
            sums[left] += each.sum(axis=1)
            squares[left] += (each**2).sum(axis=1)
            counts[left] += draws
            drawn += draws
            if draw_budget.max_error is not None:
                errors = estimate_from_sums(calibration, sums[left], squares[left], counts[left]).errors
                small = (errors <= draw_budget.max_error) & (drawn >= MIN_DRAWS)
                left = left[~small]
        return estimate_from_sums(calibration, sums, squares, counts)

    def probabilities_per_draw(
        self,
        scorer: Scorer,
        tuples: Ints,
        sampling: SamplingConfig,
        hidden: HiddenFacts,
        deadline: Deadline | None = None,
    ) -> Floats:
        """Shape (tuples, draws): the base model's probability of each neighbourhood, block by block."""
        matrices = self._feature_blocks(tuples, sampling, hidden, deadline or no_deadline())
        parts = [scorer.probabilities(matrix).reshape(-1, sampling.draws) for matrix in matrices]
        return np.concatenate([np.zeros((0, sampling.draws)), *parts])

    def _feature_blocks(
        self, tuples: Ints, sampling: SamplingConfig, hidden: HiddenFacts, deadline: Deadline
    ) -> Iterator[FeatureMatrix]:
        """Features of all draws of the tuples, some tuples at a time; one matrix without rows where there are none."""
        step = max(1, BLOCK_SIZE // sampling.draws)
        for begin in range(0, max(len(tuples), 1), step):
            deadline.check()
            rows = np.arange(begin, min(begin + step, len(tuples)))
            yield self.evaluator.sample_and_evaluate(tuples[rows], sampling, hidden.select(rows))

    def embed(self, scorer: Scorer, tuples: Ints, sampling: SamplingConfig, hidden: HiddenFacts) -> Reals:
        """Shape (tuples, size): the mean over draws of the base model's representation."""
        parts = []
        for matrix in self._feature_blocks(tuples, sampling, hidden, no_deadline()):
            found = scorer.base.embed(scorer.scaler.transform(matrix))
            shape = (len(found) // sampling.draws, sampling.draws, found.shape[1])
            parts.append(found.reshape(shape).mean(axis=1, dtype=np.float64).astype(np.float32))
        return np.concatenate(parts)


def prefix_means(per_draw: Floats, counts: Sequence[int]) -> Floats:
    """Shape (counts, tuples), float64: of what each draw says (tuples, draws), means over the first so many draws.

    >>> prefix_means(np.array([[1.0, 0.0, 0.5]]), (1, 2)).tolist()
    [[1.0], [0.5]]
    """
    return np.stack([per_draw[:, :count].mean(axis=1) for count in counts])


def estimate_from_sums(calibration: Calibration, sums: Floats, squares: Floats, counts: Floats) -> Estimates:
    """From the sums over draws: the calibrated mean, and its error by the slope of the calibration there."""
    mean = sums / np.maximum(counts, 1)
    variance = np.maximum(squares - counts * mean**2, 0.0) / np.maximum(counts - 1, 1)
    spread = np.where(counts > 1, np.sqrt(variance / np.maximum(counts, 1)), np.nan)
    mean = np.clip(mean, 0.0, 1.0)
    return Estimates(calibration.apply(mean), spread * calibration.slope(mean), counts.astype(np.int32))

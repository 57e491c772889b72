"""Probabilities of tuples: the mean of a trained base model over sampled neighbourhoods, calibrated, with its error.

Constraints lower the probability of a tuple that conflicts with known facts (see `sampling.conflicts`).

The knowledge base can be another than the one the model was trained on. Relations of the model that the knowledge base
lacks count as relations without facts.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from gaifman._html import bar, stack
from gaifman._tables import Columns, TableResult
from gaifman.config import (
    DEFAULT_BUDGET,
    MAX_DRAWS,
    Budget,
    Deadline,
    SamplingConfig,
    check_int,
    check_positive,
    checked_methods,
    no_deadline,
)
from gaifman.errors import KnowledgeBaseError, escape_unprintable, shorten
from gaifman.features.evaluator import FeatureEvaluator, FeatureMatrix, Reals
from gaifman.kb.gaifman_graph import GaifmanGraph, graph_of
from gaifman.kb.knowledge_base import KnowledgeBase, format_name
from gaifman.kb.tables import Floats, Ints, Longs
from gaifman.logic.ast import Query
from gaifman.models.calibration import MIN_PROBABILITY, Calibration, correct_class_ratio, mean_over_draws
from gaifman.sampling.constraints import Conflict, ConstraintChecker
from gaifman.sampling.hiding import HiddenFacts, hide
from gaifman.sampling.neighbourhoods import check_tuples
from gaifman.training import Scorer, TrainingConfig

DEFAULT_MAX_DRAWS = 1_000
"""Limit on the draws of one tuple if `max_error` is set."""
MIN_DRAWS = 10
"""Draws before an error estimate is trusted."""
BLOCK_SIZE = 4_096
"""Neighbourhoods in memory at once."""

LITTLE_TO_GO_ON = "little to go on"
"""The reason for a tuple that no formula reaches, with an object that was never seen at its position."""

Bools = npt.NDArray[np.bool_]
Tuples = Sequence[Sequence[str]] | npt.NDArray[np.integer]
"""Tuples as names of objects, or as object ids of shape (tuples, arity)."""


def format_probability(probability: float) -> str:
    """Three digits, but never 0 or 1.

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
    """The probability."""
    error: float
    """The standard error over the draws; NaN for a single draw."""
    draws: int
    """Neighbourhoods that were sampled; 0 if the relation has no trained model."""
    conflicts: tuple[Conflict, ...] = field(default=(), compare=False)
    """The constraints that make the tuple improbable, of what `probability` returns; answers have their own."""
    uncovered_reason: str = field(default="", compare=False)
    """Why the model has little to go on, or empty; likewise."""

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        text = format_probability(self.value) + ("" if np.isnan(self.error) else f" ± {self.error:.3f}")
        notes = [conflict.message for conflict in self.conflicts]
        notes += [f"{LITTLE_TO_GO_ON}: {self.uncovered_reason}"] if self.uncovered_reason else []
        return f"{text} ({'; '.join(map(escape_unprintable, notes))})" if notes else text

    def __repr__(self) -> str:
        notes = [f", conflicts={self.conflicts}"] * bool(self.conflicts)
        notes += [f", uncovered_reason={self.uncovered_reason!r}"] * bool(self.uncovered_reason)
        return f"Estimate(value={self.value}, error={self.error}, draws={self.draws}{''.join(notes)})"

    @property
    def covered(self) -> bool:
        """Whether the model has more to go on than that an object exists."""
        return not self.uncovered_reason

    def _repr_html_(self) -> str:
        return stack(bar(self.value, self))

    def as_dict(self) -> dict[str, Any]:
        """The estimate as JSON types; the standard error of a single draw is None."""
        error = None if np.isnan(self.error) else self.error
        return {"probability": self.value, "standard_error": error, "draws": self.draws}


@checked_methods
@dataclass(frozen=True, slots=True)
class Estimates(TableResult):
    """Probabilities of several tuples, in order; `estimates[0]` is an `Estimate`."""

    values: Floats
    """Shape (tuples,), float64."""
    errors: Floats
    """Shape (tuples,), float64: standard errors; NaN for a single draw."""
    draws: Ints
    """Shape (tuples,), int32: neighbourhoods that were sampled."""

    def __len__(self) -> int:
        return len(self.values)

    def columns(self) -> Columns:
        """Probability, standard error and draws; the standard error of a single draw is None."""
        errors = [None if np.isnan(error) else error for error in self.errors.tolist()]
        return {"probability": self.values.tolist(), "standard_error": errors, "draws": self.draws.tolist()}

    def __getitem__(self, row: int) -> Estimate:
        error = float(self.errors[row])
        # the one np.nan, so that equal estimates are equal
        return Estimate(float(self.values[row]), np.nan if np.isnan(error) else error, int(self.draws[row]))

    def select(self, rows: npt.NDArray[np.integer]) -> Estimates:
        """The estimates of some rows, in that order."""
        if not np.issubdtype(rows.dtype, np.integer) or ((rows < 0) | (rows >= len(self))).any():
            raise KnowledgeBaseError(f"rows are integers from 0 to {len(self) - 1}")
        return Estimates(self.values[rows], self.errors[rows], self.draws[rows])

    def scale(self, factors: Floats) -> Estimates:
        """The estimates with their probabilities multiplied by factors (tuples,) from 0 to 1."""
        return Estimates(np.maximum(self.values * factors, MIN_PROBABILITY), self.errors * factors, self.draws)


@dataclass(frozen=True, slots=True)
class DrawBudget:
    """How many neighbourhoods to sample per tuple."""

    draws: int
    """N; the first batch of draws if `max_error` is set."""
    max_error: float | None = None
    """Sample until the standard error is at most this, or `max_draws` are sampled."""
    max_draws: int = DEFAULT_MAX_DRAWS
    deadline: Deadline = field(default_factory=no_deadline)
    """Checked between blocks."""

    @property
    def limit(self) -> int:
        """The largest number of draws of one tuple."""
        return self.draws if self.max_error is None else self.max_draws

    def __post_init__(self) -> None:
        for name in ("draws", "max_draws"):
            check_int(name, getattr(self, name), 1, MAX_DRAWS)
        if self.max_error is not None:
            check_positive("max_error", self.max_error)


@dataclass(frozen=True, slots=True)
class Predictor(ABC):
    """Estimates the probability that tuples are answers of one query in one knowledge base."""

    query: Query
    kb: KnowledgeBase
    """The knowledge base, which has every relation of the model in its schema."""
    config: TrainingConfig
    prior: float | None = field(default=None, kw_only=True)
    """The share of answers among the tuples; None for the share that the model was measured with."""
    constraints: ConstraintChecker | None = field(default=None, kw_only=True)
    """Lowers the probabilities of tuples in conflict with known facts; None for no constraints."""

    @abstractmethod
    def model_estimates(self, tuples: Ints, hidden: HiddenFacts, budget: DrawBudget) -> Estimates:
        """The probabilities of tuples by the model alone, without constraints."""

    @abstractmethod
    def reached(self, tuples: Ints, hidden: HiddenFacts, deadline: Deadline | None = None) -> Bools:
        """Shape (b,): whether a formula of the model is about each tuple, besides what is true of any."""

    @property
    def trained(self) -> bool:
        """Whether there is a trained model, not only the fallback."""
        return True

    @property
    def graph(self) -> GaifmanGraph:
        """The Gaifman graph of the knowledge base."""
        return graph_of(self.kb)

    @property
    def arity(self) -> int:
        """The length of a tuple."""
        return len(self.query.variables)

    def with_prior(self, prior: float | None) -> Self:
        """The same predictor with another prior."""
        return self if prior is None else replace(self, prior=prior)

    def with_constraints(self, active: bool) -> Self:
        """The same predictor, without constraints if they are not active."""
        return self if active else replace(self, constraints=None)

    def budget(self, draws: int | None = None, deadline: Deadline | None = None) -> DrawBudget:
        """A fixed number of draws; None for the model's own."""
        return DrawBudget(self.config.draws if draws is None else draws, deadline=deadline or no_deadline())

    def tuple_ids(self, tuples: Tuples) -> Ints:
        """Shape (tuples, arity), int32: the object ids of tuples that are given as names or ids."""
        if isinstance(tuples, np.ndarray) and np.issubdtype(tuples.dtype, np.integer):
            if tuples.ndim != 2 or tuples.shape[1] != self.arity:
                raise KnowledgeBaseError(f"tuples have shape (tuples, {self.arity}), not {tuples.shape}")
            return check_tuples(tuples, len(self.kb.objects))
        for names in tuples:
            if isinstance(names, str) or not isinstance(names, Sequence) or len(names) != self.arity:
                raise KnowledgeBaseError(
                    f"the query has {self.arity} variables: name as many objects, not {shorten(repr(names))}"
                )
        ids = [[self.kb.object_id(name) for name in names] for names in tuples]
        return np.array(ids, np.int32).reshape(-1, self.arity)

    def hidden_facts(self, tuples: Ints, budget: Budget = DEFAULT_BUDGET) -> HiddenFacts:
        """The facts to hide from known answers, which are scored as if they were not known."""
        relation = self.query.atomic_relation
        if relation is None:
            return hide(self.kb, self.query, tuples, seed=self.config.seed, budget=budget)
        return HiddenFacts.one_per_tuple(self.kb.fact_ids(self.relation_id(relation), tuples))

    def relation_id(self, relation: str) -> int:
        """The number of a relation of the model."""
        number = self.kb.content.relations.find(relation)
        assert number is not None, "every relation of the model is in the schema"
        return number

    def probabilities(self, tuples: Tuples, budget: DrawBudget) -> Estimates:
        """The probabilities of tuples, by name or id."""
        ids = self.tuple_ids(tuples)
        return self.estimate(ids, self.hidden_facts(ids, budget.deadline.limit_budget()), budget)

    def probability(self, objects: Sequence[str], budget: DrawBudget) -> Estimate:
        """The probability of one tuple, with its conflicts, and whether the model has little to go on."""
        ids = self.tuple_ids([objects])
        hidden = self.hidden_facts(ids, budget.deadline.limit_budget())
        found = self.estimate(ids, hidden, budget)[0]
        [reason] = self.uncovered_reasons(ids, hidden, budget.deadline)
        return replace(found, conflicts=self.conflicts(ids, hidden), uncovered_reason=reason)

    def conflicts(self, tuples: Ints, hidden: HiddenFacts) -> tuple[Conflict, ...]:
        """The conflicts of one tuple (1, arity)."""
        return () if self.constraints is None else self.constraints.conflicts(tuples, hidden)

    # Coverage

    def seen(self, tuples: Ints, hidden: HiddenFacts) -> Bools:
        """Shape (b, arity): whether an object is at its position in a visible fact of the relation.

        It is not known of another query than a relation, and means nothing for a relation of one position.
        """
        relation = self.query.atomic_relation
        if relation is None or self.arity == 1:
            return np.zeros(tuples.shape, bool)
        facts = self.kb.tuples(relation)
        first = self.kb.fact_ids(self.relation_id(relation), facts[:1])
        rows, owners = hidden.facts - (first[0] if len(first) else 0), hidden.owners()
        own = (rows >= 0) & (rows < len(facts))
        rows, owners = rows[own], owners[own]
        counts = np.empty(tuples.shape, np.int64)
        for position, objects in enumerate(tuples.T):
            counts[:, position] = np.bincount(facts[:, position], minlength=len(self.kb.objects))[objects]
            same = facts[rows, position] == objects[owners]
            np.subtract.at(counts[:, position], owners[same], 1)
        return counts > 0

    def uncovered(self, tuples: Ints, hidden: HiddenFacts, deadline: Deadline | None = None) -> Bools:
        """Shape (b,): whether no formula reaches a tuple, and one of its objects was never seen at its position."""
        found: Bools = np.asarray(~self.seen(tuples, hidden).all(axis=1))
        rows = np.flatnonzero(found)
        found[rows] = ~self.reached(tuples[rows], hidden.select(rows), deadline)
        return found

    def uncovered_reasons(self, tuples: Ints, hidden: HiddenFacts, deadline: Deadline | None = None) -> list[str]:
        """Why the model has little to go on, for each tuple; empty for others."""
        uncovered, seen = self.uncovered(tuples, hidden, deadline), self.seen(tuples, hidden)
        return [self._reason(*row) if left else "" for left, *row in zip(uncovered, tuples, seen, strict=True)]

    def _reason(self, objects: Ints, seen: Bools) -> str:
        """Why the model has little to go on for one tuple."""
        reasons = ["no formula reaches it" if self.arity > 1 else "no formula is true of it"]
        if self.query.atomic_relation is not None and self.arity > 1:
            named = ((position, self.kb.object_name(objects[position])) for position in np.flatnonzero(~seen).tolist())
            show = self.kb.display.show
            reasons += [f"{format_name(show(name))} was never seen at position {i + 1}" for i, name in named]
        return ", and ".join(reasons)

    # Estimates

    def estimate(self, tuples: Ints, hidden: HiddenFacts, budget: DrawBudget) -> Estimates:
        """The probabilities of tuples, with standard errors, by the model and the constraints."""
        return self.constrain(self.model_estimates(tuples, hidden, budget), tuples, hidden, budget.deadline)

    def answer_set(self, tuples: Ints, position: int, deadline: Deadline | None = None) -> Longs | None:
        """The rows of tuples that differ at a position, the likeliest first, among which a missing answer is.

        That holds for nine in ten questions with a missing answer. None if the model does not know them.
        """
        return None

    def constrain(
        self, estimates: Estimates, tuples: Ints, hidden: HiddenFacts, deadline: Deadline | None = None
    ) -> Estimates:
        """The model's estimates, lower for tuples in conflict with facts that are not hidden from them."""
        if self.constraints is None:
            return estimates
        return estimates.scale(self.constraints.factors(tuples, hidden, estimates.values, deadline))


@dataclass(frozen=True, slots=True)
class FallbackPredictor(Predictor):
    """Predicts the facts of a relation without a trained model."""

    @property
    def trained(self) -> bool:
        """There is none."""
        return False

    def model_estimates(self, tuples: Ints, hidden: HiddenFacts, budget: DrawBudget) -> Estimates:
        """The fallback probabilities, without draws."""
        values = self.fallback_probabilities(tuples)
        if self.prior is not None:
            values = Calibration.identity().with_prior(self.prior).apply(values)
        return Estimates(values, np.zeros(len(values)), np.zeros(len(values), np.int32))

    def reached(self, tuples: Ints, hidden: HiddenFacts, deadline: Deadline | None = None) -> Bools:
        """There are no formulas."""
        return np.zeros(len(tuples), bool)

    def fallback_probabilities(self, tuples: Ints) -> Floats:
        """Shape (tuples,), float64: (m + ½) / (arity + 1), where m objects are at the same position of another fact.

        If facts are uncertain, m is its expected value.
        """
        relation = self.query.atomic_relation
        assert relation is not None, "only relations have a fallback"
        facts, confidences = self.kb.tuples(relation), self.kb.confidences_of(relation)
        first, ids = (self.kb.fact_ids(self.relation_id(relation), rows) for rows in (facts[:1], tuples))
        own, seen = np.zeros(len(tuples)), np.zeros(len(tuples))
        own[ids >= 0] = confidences[ids[ids >= 0] - first]  # its own fact is not another fact
        for position in range(self.arity):
            seen += _present_at_least_one(facts[:, position], confidences, tuples[:, position], own)
        values: Floats = (seen + 0.5) / (self.arity + 1)
        return values


@dataclass(frozen=True, slots=True)
class NetworkPredictor(Predictor):
    """Predicts by a base model: the mean over sampled neighbourhoods, calibrated."""

    evaluator: FeatureEvaluator
    """The features of the model, compiled for the knowledge base."""
    scorer: Scorer
    """The trained base model."""
    calibration: Calibration

    def with_prior(self, prior: float | None) -> Self:
        """The same predictor with another prior."""
        if prior is None:
            return self
        return replace(self, calibration=self.calibration.with_prior(prior), prior=prior)

    def model_estimates(self, tuples: Ints, hidden: HiddenFacts, budget: DrawBudget) -> Estimates:
        """The calibrated means over draws, with standard errors; more draws for tuples whose error is too large."""
        sums, squares, counts = (np.zeros(len(tuples)) for _ in range(3))
        left, drawn = np.arange(len(tuples)), 0
        while len(left) and drawn < budget.limit:
            draws = min(drawn or budget.draws, budget.limit - drawn)
            sampling = self.config.sampling(draws, f"answer {drawn}")
            per_draw = self.probabilities_per_draw(tuples[left], sampling, hidden.select(left), budget.deadline)
            per_draw = self.correct_draws(per_draw)
            sums[left] += per_draw.sum(axis=1)
            squares[left] += (per_draw**2).sum(axis=1)
            counts[left] += draws
            drawn += draws
            if budget.max_error is not None:
                errors = estimate_from_sums(self.mean_calibration, sums[left], squares[left], counts[left]).errors
                left = left[~((errors <= budget.max_error) & (drawn >= MIN_DRAWS))]
        return estimate_from_sums(self.mean_calibration, sums, squares, counts)

    def reached(self, tuples: Ints, hidden: HiddenFacts, deadline: Deadline | None = None) -> Bools:
        """Shape (b,): whether a feature differs from its default in one of the neighbourhoods."""
        sampling = self.config.sampling(self.budget().draws, "answer 0")
        matrices = self._feature_blocks(tuples, sampling, hidden, deadline or no_deadline())
        counts = np.concatenate([np.zeros(0, np.int64), *(np.diff(matrix.starts) for matrix in matrices)])
        return np.asarray(counts.reshape(-1, sampling.draws).any(axis=1))

    @property
    def draw_ratio(self) -> float:
        """Negatives per answer that each draw is corrected for; see `TrainingConfig.draw_ratio`."""
        return self.config.draw_ratio(self.kb)

    def correct_draws(self, per_draw: Floats) -> Floats:
        """The probabilities of draws as they are averaged, of the same shape."""
        return per_draw if self.draw_ratio == 1 else correct_class_ratio(per_draw, self.draw_ratio)

    @property
    def mean_calibration(self) -> Calibration:
        """The calibration of the mean of corrected draws."""
        return replace(self.calibration, shift=self.calibration.shift - float(np.log(self.draw_ratio)))

    def probabilities_per_draw(
        self, tuples: Ints, sampling: SamplingConfig, hidden: HiddenFacts, deadline: Deadline | None = None
    ) -> Floats:
        """Shape (tuples, draws), float64: the base model's probability of each neighbourhood, not calibrated."""
        matrices = self._feature_blocks(tuples, sampling, hidden, deadline or no_deadline())
        parts = [self.scorer.probabilities(matrix).reshape(-1, sampling.draws) for matrix in matrices]
        return np.concatenate([np.zeros((0, sampling.draws)), *parts])

    def _feature_blocks(
        self, tuples: Ints, sampling: SamplingConfig, hidden: HiddenFacts, deadline: Deadline
    ) -> Iterator[FeatureMatrix]:
        """The features of all draws, some tuples at a time; one matrix without rows if there are no tuples."""
        step = max(1, BLOCK_SIZE // sampling.draws)
        for begin in range(0, max(len(tuples), 1), step):
            deadline.check()
            rows = np.arange(begin, min(begin + step, len(tuples)))
            yield self.evaluator.sample_and_evaluate(tuples[rows], sampling, hidden.select(rows))

    def embed(self, tuples: Tuples, draws: int | None = None) -> Reals:
        """Shape (tuples, units), float32: the mean over draws of the base model's last hidden layer."""
        ids, scorer = self.tuple_ids(tuples), self.scorer
        sampling = self.config.sampling(self.budget(draws).draws, "answer 0")
        parts = []
        for matrix in self._feature_blocks(ids, sampling, self.hidden_facts(ids), no_deadline()):
            units = scorer.base.embed(scorer.scaler.transform(matrix))
            shape = (len(units) // sampling.draws, sampling.draws, units.shape[1])
            parts.append(units.reshape(shape).mean(axis=1, dtype=np.float64).astype(np.float32))
        return np.concatenate(parts)


def _present_at_least_one(holders: Ints, confidences: Floats, objects: Ints, own: Floats) -> Floats:
    """Shape (objects,), float64: the probability that a fact of each object is present, besides its own one.

    `holders` and `confidences` (facts,) are the object and the confidence of each fact; `own` (objects,) is the
    confidence of the fact that is left out, 0 for none.

    >>> holders, confidences = np.array([0, 0, 1]), np.array([0.5, 0.5, 1.0])
    >>> _present_at_least_one(holders, confidences, np.array([0, 0, 1, 1]), np.array([0, 0.5, 0, 1])).tolist()
    [0.75, 0.5, 1.0, 0.0]
    """
    size = int(max(holders.max(initial=-1), objects.max(initial=-1))) + 1
    certain, own_certain = confidences == 1, own == 1
    logs, own_logs = (np.log1p(-np.where(c < 1, c, 0.0)) for c in (confidences, own))
    sure = np.bincount(holders[certain], minlength=size)[objects] > own_certain
    absent = np.exp(np.minimum(np.bincount(holders, logs, size)[objects] - own_logs, 0.0))
    return np.where(sure, 1.0, 1.0 - absent)


def prefix_means(per_draw: Floats, counts: Sequence[int], ratio: float = 1.0) -> Floats:
    """Shape (counts, tuples), float64: for each count, the means over the first draws of `per_draw` (tuples, draws).

    `ratio` is as for `mean_over_draws`.

    >>> prefix_means(np.array([[1.0, 0.0, 0.5]]), (1, 2)).tolist()
    [[1.0], [0.5]]
    """
    return np.stack([mean_over_draws(per_draw[:, :count], ratio) for count in counts])


def estimate_from_sums(calibration: Calibration, sums: Floats, squares: Floats, counts: Floats) -> Estimates:
    """Calibrated means from sums over draws; the error is that of the mean, times the slope of the calibration."""
    mean = sums / np.maximum(counts, 1)
    variance = np.maximum(squares - counts * mean**2, 0.0) / np.maximum(counts - 1, 1)
    error = np.where(counts > 1, np.sqrt(variance / np.maximum(counts, 1)), np.nan)
    mean = np.clip(mean, 0.0, 1.0)
    return Estimates(calibration.apply(mean), error * calibration.slope(mean), counts.astype(np.int32))

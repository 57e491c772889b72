"""What a trained model says of tuples of a knowledge base: probabilities with their errors, and representations.

The knowledge base need not be the one it was trained on. Relations that the model speaks of and the knowledge base
lacks count as having no facts; one that shares none of them is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from gaifman.calibration import Calibration
from gaifman.config import BUDGET, Budget
from gaifman.deadlines import Deadline, never
from gaifman.errors import KnowledgeError
from gaifman.features import Evaluator, FeatureMatrix
from gaifman.formulas import Atom, Variable
from gaifman.graph import Graph, fact_numbers, graph_of
from gaifman.hiding import hide
from gaifman.kb import KnowledgeBase, union
from gaifman.learning import Learning, Scorer
from gaifman.markup import bar, together
from gaifman.names import nearest
from gaifman.neighbourhoods import Hidden, Sampling, check_draws
from gaifman.network import Reals
from gaifman.phi import FeatureSet
from gaifman.plans import plan_of
from gaifman.questions import Feature, Query
from gaifman.tables import Floats, Heap, Ints, assemble

MOST = 1_000
"""Draws for one tuple at most, where they go on until the error is small."""
LEAST = 10
"""Draws before its error is believed."""
BLOCK = 4_096
"""Neighbourhoods that are in memory at once."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A probability with its standard error.

    >>> print(Estimate(0.9312, 0.004, 10))
    0.931 ± 0.004
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
        return f"{self.value:.3f}" + ("" if np.isnan(self.error) else f" ± {self.error:.3f}")

    def _repr_html_(self) -> str:
        return together(bar(self.value, self))


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
class Wanted:
    """How sure an estimate must be."""

    draws: int
    """N, or how many at first where there is a bound."""
    error: float | None = None
    """A bound: drawing goes on until the standard error is below it, or `most` are drawn."""
    most: int = MOST
    deadline: Deadline = field(default_factory=never)
    """When drawing is stopped; asked between blocks."""

    @property
    def limit(self) -> int:
        """Draws for one tuple at most."""
        return self.draws if self.error is None else self.most

    def __post_init__(self) -> None:
        for name in ("draws", "most"):
            check_draws(getattr(self, name), name)
        if self.error is not None and not self.error > 0:
            raise KnowledgeError(f"the bound of the standard error is a number above 0, not {self.error!r}")


def knowing(kb: KnowledgeBase, relations: Mapping[str, int], attributes: Sequence[str] = ()) -> KnowledgeBase:
    """The same knowledge base, which also knows these relations (name → arity) and attributes."""
    known = {name: relation.arity for name, relation in kb.relations.items()}
    for name, arity in relations.items():
        if known.get(name, arity) != arity:
            raise KnowledgeError(f"{name} has {known[name]} places in the knowledge base and {arity} in the model")
    missing = {name: arity for name, arity in relations.items() if name not in known}
    without = [name for name in attributes if name not in kb.attributes]
    if relations and len(missing) == len(relations):
        raise KnowledgeError(
            f"the knowledge base has none of the {len(relations):,} relations that the model speaks of",
            near=nearest(next(iter(relations)), known),
            hint=f"they are {', '.join(sorted(relations)[:5])}{', …' if len(relations) > 5 else ''}",
        )
    if not missing and not without:
        return kb
    bare, _ = assemble(Heap([], list(missing), list(missing.values()), without))
    return union([kb, KnowledgeBase(bare)])


def own_fact(query: Query) -> str | None:
    """The relation of a query that is one atom of its variables in their order; None for others.

    >>> from gaifman.parser import parse_query
    >>> own_fact(parse_query("borders(x, y)")), own_fact(parse_query("borders(x, x)"))
    ('borders', None)
    """
    formula = query.formula
    plain = isinstance(formula, Atom) and isinstance(formula.relation, str) and formula.terms == query.free
    return str(formula.relation) if plain and isinstance(formula, Atom) else None


class Judge:
    """A knowledge base made ready for the features of a model."""

    def __init__(self, kb: KnowledgeBase, features: Sequence[Feature], width: int, graph: Graph | None = None) -> None:
        self.graph = graph_of(kb) if graph is None else graph
        self.kb, self.width = self.graph.kb, width
        self.evaluator = Evaluator(self.graph, plan_of(FeatureSet(tuple(features)), self.kb, width))

    def numbers(self, names: Sequence[Sequence[str]]) -> Ints:
        """Tuples of names as numbers (b, n)."""
        for row in names:
            if isinstance(row, str) or len(row) != self.width:
                raise KnowledgeError(f"the query has {self.width} variables: name as many objects, not {row!r}")
        return np.array([[self.kb.id(name) for name in row] for row in names], np.int32).reshape(-1, self.width)

    def secret(self, query: Query, tuples: Ints, seed: int, budget: Budget = BUDGET) -> Hidden:
        """What is hidden from tuples that are known answers, so that they are judged as if they were not known."""
        relation = own_fact(query)
        if relation is None:
            return hide(self.kb, query, tuples, seed=seed, budget=budget)
        number = self.kb.content.relations.number(relation)
        assert number is not None, "the model's relations are known"
        return Hidden.one_each(fact_numbers(self.graph, number, tuples))

    def estimates(
        self,
        scorer: Scorer,
        calibration: Calibration,
        learning: Learning,
        tuples: Ints,
        hidden: Hidden,
        wanted: Wanted,
    ) -> Estimates:
        """Calibrated means over draws, with errors; more draws for those whose error is above the bound."""
        sums, squares, counts = (np.zeros(len(tuples)) for _ in range(3))
        left, drawn = np.arange(len(tuples)), 0
        while len(left) and drawn < wanted.limit:
            draws = min(drawn or wanted.draws, wanted.limit - drawn)
            sampling = Sampling(learning.radius, learning.size, draws, learning.seed, f"answer {drawn}")
            each = self.each(scorer, tuples[left], sampling, hidden.of(left), wanted.deadline)
            sums[left] += each.sum(axis=1)
            squares[left] += (each**2).sum(axis=1)
            counts[left] += draws
            drawn += draws
            if wanted.error is not None:
                errors = calibrated(calibration, sums[left], squares[left], counts[left]).errors
                small = (errors <= wanted.error) & (drawn >= LEAST)
                left = left[~small]
        return calibrated(calibration, sums, squares, counts)

    def each(
        self, scorer: Scorer, tuples: Ints, sampling: Sampling, hidden: Hidden, deadline: Deadline | None = None
    ) -> Floats:
        """Shape (tuples, draws): the base model's probability of each neighbourhood, block by block."""
        matrices = self._matrices(tuples, sampling, hidden, deadline or never())
        parts = [scorer.raw(matrix).reshape(-1, sampling.draws) for matrix in matrices]
        return np.concatenate([np.zeros((0, sampling.draws)), *parts])

    def _matrices(
        self, tuples: Ints, sampling: Sampling, hidden: Hidden, deadline: Deadline
    ) -> Iterator[FeatureMatrix]:
        """Features of all draws of the tuples, some tuples at a time; one matrix without rows where there are none."""
        step = max(1, BLOCK // sampling.draws)
        for begin in range(0, max(len(tuples), 1), step):
            deadline.check()
            rows = np.arange(begin, min(begin + step, len(tuples)))
            yield self.evaluator.sampled(tuples[rows], sampling, hidden.of(rows))

    def embed(self, scorer: Scorer, tuples: Ints, sampling: Sampling, hidden: Hidden) -> Reals:
        """Shape (tuples, size): the mean over draws of the base model's representation."""
        parts = []
        for matrix in self._matrices(tuples, sampling, hidden, never()):
            found = scorer.base.embed(scorer.inputs.rows(matrix))
            shape = (len(found) // sampling.draws, sampling.draws, found.shape[1])
            parts.append(found.reshape(shape).mean(axis=1, dtype=np.float64).astype(np.float32))
        return np.concatenate(parts)


def averages(each: Floats, counts: Sequence[int]) -> Floats:
    """Shape (counts, tuples), float64: of what each draw says (tuples, draws), means over the first so many draws.

    >>> averages(np.array([[1.0, 0.0, 0.5]]), (1, 2)).tolist()
    [[1.0], [0.5]]
    """
    return np.stack([each[:, :count].mean(axis=1) for count in counts])


def calibrated(calibration: Calibration, sums: Floats, squares: Floats, counts: Floats) -> Estimates:
    """From the sums over draws: the calibrated mean, and its error by the slope of the calibration there."""
    mean = sums / np.maximum(counts, 1)
    variance = np.maximum(squares - counts * mean**2, 0.0) / np.maximum(counts - 1, 1)
    spread = np.where(counts > 1, np.sqrt(variance / np.maximum(counts, 1)), np.nan)
    mean = np.clip(mean, 0.0, 1.0)
    return Estimates(calibration.apply(mean), spread * calibration.slope(mean), counts.astype(np.int32))


def variables(width: int) -> tuple[Variable, ...]:
    """Variables of a query over so many places: x, y, z …, then x1, x2 …

    >>> [v.name for v in variables(2)], [v.name for v in variables(4)]
    (['x', 'y'], ['x1', 'x2', 'x3', 'x4'])
    """
    letters = "xyz"
    return tuple(Variable(letters[i] if width <= len(letters) else f"x{i + 1}") for i in range(width))

"""Attribution: which formulas and facts a prediction depends on.

The effect of a feature is the exact change of the log-odds if its inputs are switched off, that is, set to their values
in a neighbourhood of the same size without facts and numbers:

>>> import numpy as np
>>> from gaifman.models.base import Batch, SparseRows
>>> from gaifman.models.mlp import Logistic
>>> rows = SparseRows(np.array([0, 2, 3]), np.array([0, 1, 1], np.int32), np.ones(3, np.float32), 2)
>>> base = Logistic(epochs=1, learning_rate=0.5)
>>> base.reset(2, seed=0)
>>> for _ in range(50):
...     _ = base.fit_batch(Batch(rows, np.array([1, 0], np.float32)))
>>> found = compute_effects(base, rows)
>>> found.features.tolist(), found.draws.tolist(), bool(found.effects[0] > 0 > found.effects[1])
([0, 1], [1, 2], True)
>>> abs(found.interactions) < 1e-6  # a linear model has no interactions
True

The rows are the draws of one tuple. The effects, the base value and the interactions add up to the log-odds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from gaifman.config import Deadline, no_deadline
from gaifman.explain.explanation import (
    MAX_COUNTERFACTUAL_FORMULAS,
    Counterfactual,
    Decomposition,
    ExplainedTuple,
    Explanation,
    OtherFormulas,
    Reason,
    conflict_reasons,
    draw_diagram,
    find_counterfactual,
    highlighted_facts,
    is_known,
    query_text,
    with_labels,
    without_conflicting_facts,
)
from gaifman.explain.svg import Diagram
from gaifman.features.evaluator import FeatureMatrix
from gaifman.features.grounding import LocalStructure, find_groundings, local_structure
from gaifman.kb.gaifman_graph import induced_facts
from gaifman.kb.knowledge_base import Fact
from gaifman.kb.labels import label_formula
from gaifman.kb.tables import Floats, Ints, Longs, concatenate_ranges
from gaifman.kernels.evaluate import MISSING
from gaifman.logic.ast import Constant, Feature, Variable, substitute
from gaifman.logic.verbalize import describe_feature
from gaifman.models.base import BaseModel, SparseRows
from gaifman.models.calibration import log_odds
from gaifman.predict import DrawBudget, NetworkPredictor, estimate_from_sums
from gaifman.sampling.hiding import HiddenFacts
from gaifman.sampling.neighbourhoods import NeighbourhoodBatch, draw_neighbourhoods
from gaifman.sampling.worlds import World, worlds_of_tuple

MAX_ENTRIES = 1 << 20
"""Approximate limit on the entries of changed rows in memory at once."""


@dataclass(frozen=True, slots=True)
class Effects:
    """Effects of features on the log-odds, as means over draws: `base + effects.sum() + interactions` is `total`."""

    base: float
    """The log-odds of a row in which every input is off."""
    features: Longs
    """Shape (shown,), int64, ascending: the features with an input that is on in some draw."""
    effects: Floats
    """Shape (shown,), float64: by how much the mean falls if the inputs of the feature are switched off."""
    draws: Longs
    """Shape (shown,), int64: the number of draws in which an input of the feature is on."""
    total: float
    """The log-odds of the rows themselves."""

    @property
    def interactions(self) -> float:
        """The part of the log-odds that is not the effect of a single feature."""
        return self.total - self.base - float(self.effects.sum())


def compute_effects(
    base: BaseModel, rows: SparseRows, features: Longs | None = None, deadline: Deadline | None = None
) -> Effects:
    """The effect of each feature over all rows; the deadline is checked between blocks of changed rows.

    `features` (columns,), int64, ascending, has the feature of each column. By default each column is one.
    """
    whole = base.scores(rows)
    features = np.arange(rows.width) if features is None else features
    owner, feature = np.repeat(np.arange(len(rows)), np.diff(rows.starts)), features[rows.columns]
    # The entries of one feature in a row stand together.
    first = np.flatnonzero((np.diff(owner, prepend=-1) != 0) | (np.diff(feature, prepend=-1) != 0))
    owner, feature = owner[first], feature[first]
    parts = _rows_without_entries(rows, owner, first, np.append(first, len(rows.columns))[1:], deadline)
    changed = np.concatenate([np.zeros(0), *(base.scores(part) for part in parts)])
    shown, at, draws = np.unique(feature, return_inverse=True, return_counts=True)
    sums = np.bincount(at, whole[owner] - changed, len(shown)).astype(np.float64)
    empty = SparseRows(np.zeros(2, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32), rows.width)
    count = max(len(rows), 1)
    return Effects(float(base.scores(empty)[0]), shown, sums / count, draws, float(whole.sum() / count))


def _rows_without_entries(
    rows: SparseRows, owner: Longs, first: Longs, last: Longs, deadline: Deadline | None
) -> Iterator[SparseRows]:
    """For each range of entries, from `first` to `last`, the row that owns them without them; block by block."""
    begins, ends, deadline = rows.starts[owner], rows.starts[owner + 1], deadline or no_deadline()
    blocks = np.cumsum(ends - begins) // MAX_ENTRIES
    for part in np.split(np.arange(len(owner)), np.flatnonzero(np.diff(blocks)) + 1):
        deadline.check()
        before_and_after = (np.stack(pair, axis=1)[part].ravel() for pair in ((begins, last), (first, ends)))
        kept = concatenate_ranges(*before_and_after)
        starts = np.append(0, np.cumsum((ends - begins - last + first)[part])).astype(np.int64)
        yield SparseRows(starts, rows.columns[kept], rows.values[kept], rows.width)


MAX_WITNESS_DRAWS = 50
"""Draws that are searched for witnesses."""
WitnessCounts = dict[int, Counter[int]]
"""Feature → fact id → number of draws in which the fact is a witness of the feature."""


def explain_network(
    predictor: NetworkPredictor, tuples: Ints, hidden: HiddenFacts, top: int, budget: DrawBudget
) -> Explanation:
    """Explain the mean over draws of a base model."""
    sample = _draw_sample(predictor, tuples, hidden, budget)
    features = sample.effects.features
    order = np.lexsort((features, -np.abs(sample.effects.effects)))
    effects = sample.effects.effects[order]
    supporting, opposing = np.flatnonzero(effects > 0), np.flatnonzero(effects < 0)
    shown = order[np.sort(np.concatenate([supporting[:top], opposing[:top]]))]
    helping = order[supporting[:MAX_COUNTERFACTUAL_FORMULAS]]
    witnesses = _count_witnesses(sample, {*features[shown].tolist(), *features[helping].tolist()})
    supported = [frozenset(witnesses[f]) for f in features[helping].tolist()]
    counterfactual = without_conflicting_facts(sample) or find_counterfactual(sample, supported)
    reasons = (*conflict_reasons(sample), *(_reason(sample, index, witnesses) for index in shown.tolist()))
    explanation = Explanation(
        query_text(predictor.query, sample.names),
        tuple(variable.name for variable in predictor.query.variables),
        sample.names,
        is_known(sample),
        sample.estimate,
        reasons,
        _decompose(sample, np.setdiff1d(np.arange(len(order)), shown)),
        counterfactual,
        _diagram(sample, reasons, counterfactual),
        len(hidden.facts) > 0,
        sample.conflicts,
        predictor.uncovered_reasons(tuples, hidden, budget.deadline)[0],
    )
    return with_labels(explanation, sample)


# The draws


@dataclass(frozen=True, slots=True)
class _Sample(ExplainedTuple):
    """One tuple and its draws, the same draws that its probability is the mean of."""

    predictor: NetworkPredictor
    neighbourhoods: NeighbourhoodBatch
    matrix: FeatureMatrix
    per_draw: Floats
    """Shape (1, draws), float64: the base model's probabilities, as they are averaged."""
    effects: Effects
    structures: Sequence[LocalStructure]
    """The facts among the members that are present, for the first draws; draws with the same facts share one."""

    def feature(self, number: int) -> Feature:
        return self.predictor.evaluator.plan.features[number]


def _draw_sample(predictor: NetworkPredictor, tuples: Ints, hidden: HiddenFacts, budget: DrawBudget) -> _Sample:
    budget.deadline.check()
    scorer, fact = predictor.scorer, cache(predictor.kb.fact_by_id)
    sampling = predictor.config.sampling(budget.draws, "answer 0")
    neighbourhoods = draw_neighbourhoods(predictor.graph, tuples, sampling, hidden)
    matrix = predictor.evaluator.evaluate(neighbourhoods, hidden, drop_uncertain=sampling)
    rows = scorer.scaler.transform(matrix)
    per_draw = predictor.correct_draws(scorer.base.probabilities(rows).reshape(1, -1))
    effects = compute_effects(scorer.base, rows, scorer.scaler.features(), budget.deadline)
    # From the same numbers in the same order as `Predictor.estimate`, so that both agree to the last bit.
    sums, squares = per_draw.sum(axis=1), (per_draw**2).sum(axis=1)
    estimates = estimate_from_sums(predictor.mean_calibration, sums, squares, np.full(1, float(budget.draws)))
    worlds = worlds_of_tuple(predictor.graph, sampling, tuples[0])
    return _Sample(
        predictor,
        tuples,
        tuple(predictor.kb.object_name(number) for number in tuples[0].tolist()),
        hidden,
        budget,
        estimates[0],
        predictor.constrain(estimates, tuples, hidden, budget.deadline)[0],
        predictor.conflicts(tuples, hidden),
        fact,
        neighbourhoods,
        matrix,
        per_draw,
        effects,
        _local_structures(worlds, neighbourhoods, hidden, budget, fact),
    )


def _local_structures(
    worlds: Sequence[World],
    neighbourhoods: NeighbourhoodBatch,
    hidden: HiddenFacts,
    budget: DrawBudget,
    fact: Callable[[int], Fact],
) -> list[LocalStructure]:
    found: dict[tuple[bytes, bytes], LocalStructure] = {}
    structures = []
    for draw, world in enumerate(worlds[:MAX_WITNESS_DRAWS]):
        budget.deadline.check()
        members = neighbourhoods.members_of(0, draw)
        absent = world.absent(induced_facts(world.graph, members, hidden.facts))
        key = members.tobytes(), absent.tobytes()
        if key not in found:
            found[key] = local_structure(world.graph, members, np.union1d(hidden.facts, absent), fact)
        structures.append(found[key])
    return structures


# Reasons


def _reason(sample: _Sample, index: int, witnesses: WitnessCounts) -> Reason:
    """The reason for one feature of `sample.effects`."""
    number = int(sample.effects.features[index])
    feature = sample.feature(number)
    names = {Variable(f"s{i}"): Constant(name) for i, name in enumerate(sample.names, start=1)}
    grounded = substitute(feature, names)
    counts, labels = witnesses[number], sample.display
    facts = tuple(sample.fact(fact) for fact in sorted(counts, key=lambda fact: (-counts[fact], fact)))
    shown = label_formula(grounded, labels)
    return Reason(
        str(grounded),
        str(feature),
        float(sample.effects.effects[index]),
        int(sample.effects.draws[index]),
        float(sample.matrix.values[sample.matrix.ids == number].mean()),
        facts,
        describe_feature(shown),
        labelled=str(shown) if labels else "",
        labels=sample.labels_of(facts),
    )


def _count_witnesses(sample: _Sample, features: set[int]) -> WitnessCounts:
    """The facts that give features their values, over the first draws."""
    counts: WitnessCounts = {feature: Counter() for feature in features}
    found: dict[tuple[int, int], set[int]] = {}
    for draw, inside in enumerate(sample.structures):
        for feature, above in _active_features(sample.matrix, draw):
            if feature not in features:
                continue
            key = id(inside), feature
            if key not in found:
                sample.budget.deadline.check()
                groundings = find_groundings(inside, sample.feature(feature), sample.names, above_default=above)
                found[key] = {
                    inside.fact_numbers[fact.relation, fact.objects] for facts in groundings for fact in facts
                }
            counts[feature].update(found[key])
    return counts


def _active_features(matrix: FeatureMatrix, draw: int) -> Iterator[tuple[int, bool]]:
    """The features that differ from their default in a draw, or are known, and whether they are above it."""
    for entry in range(int(matrix.starts[draw]), int(matrix.starts[draw + 1])):
        row = int(matrix.default_rows[matrix.ids[entry]])
        default = matrix.defaults[row, matrix.sizes[draw]] if row >= 0 else 0.0
        if matrix.values[entry] != default or row == MISSING:
            yield int(matrix.ids[entry]), bool(matrix.values[entry] > default)


def _decompose(sample: _Sample, others: Longs) -> Decomposition:
    """The parts that add up with the shown effects to the log-odds of the estimate; `others` are not shown."""
    mean = float(log_odds(np.clip(sample.per_draw.sum(axis=1) / sample.budget.draws, 0.0, 1.0))[0])
    mean -= float(np.log(sample.predictor.draw_ratio))  # the correction for the class ratio is part of the calibration
    rest = OtherFormulas(len(others), float(sample.effects.effects[others].sum()))
    calibrated = float(log_odds(sample.model_estimate.value))
    averaging, calibration = mean - sample.effects.total, calibrated - mean
    return Decomposition(sample.effects.base, rest, sample.effects.interactions, averaging, calibration)


# Counterfactual and diagram


def _diagram(sample: _Sample, reasons: Sequence[Reason], counterfactual: Counterfactual | None) -> Diagram:
    """The neighbourhood of the draw that has most of the facts in the explanation."""
    decisive = frozenset(counterfactual.facts if counterfactual else ())
    signs = highlighted_facts(reasons, counterfactual)
    facts_of = [
        [sample.fact(number) for number in sorted(inside.fact_numbers.values())] for inside in sample.structures
    ]

    def mentioned(draw: int) -> tuple[int, int]:
        return sum(fact in decisive for fact in facts_of[draw]), sum(fact in signs for fact in facts_of[draw])

    best = max(range(len(facts_of)), key=mentioned)
    members = map(sample.predictor.kb.object_name, sample.neighbourhoods.members_of(0, best).tolist())
    return draw_diagram(sample, tuple(members), facts_of[best], signs, counterfactual)

"""What each input of a base model does to its log-odds: the exact effect of switching it off.

>>> import numpy as np
>>> from gaifman.models.base import Batch, SparseRows
>>> from gaifman.models.mlp import Logistic
>>> rows = SparseRows(np.array([0, 2, 3]), np.array([0, 1, 1], np.int32), np.ones(3, np.float32), 2)
>>> base = Logistic(epochs=1, learning_rate=0.5)
>>> base.reset(2, seed=0)
>>> for _ in range(50):
...     _ = base.fit_batch(Batch(rows, np.array([1, 0], np.float32)))
>>> found = compute_effects(base, rows)
>>> found.columns.tolist(), found.draws.tolist(), bool(found.effects[0] > 0 > found.effects[1])
([0, 1], [1, 2], True)
>>> abs(found.interactions) < 1e-6  # in a sum, every input does the same whatever the others are
True

The rows are the draws of one tuple. An input that is switched off is 0: its feature then has the value that it has in a
neighbourhood of the same size without facts. Of a sum, what is left when all effects are taken away is the base; else
there are interactions, of inputs that do more together than alone, or less.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate

import numpy as np

from gaifman.cancellation import Deadline, no_deadline
from gaifman.config import check_int
from gaifman.explain.explanation import Counterfactual, Decomposition, Explanation, OtherFormulas, Reason
from gaifman.explain.svg import Diagram
from gaifman.features.grounding import LocalStructure, find_groundings, local_structure
from gaifman.features.matrix import FeatureMatrix
from gaifman.kb.facts import Fact
from gaifman.kb.tables import Floats, Ints, Longs, concatenate_ranges
from gaifman.logic.ast import Constant, Feature, Query, Variable, to_bracketed
from gaifman.logic.transforms import substitute
from gaifman.logic.verbalize import describe_feature
from gaifman.models.base import BaseModel, SparseRows
from gaifman.models.calibration import Calibration, log_odds
from gaifman.predict import DrawBudget, Estimate, Predictor, estimate_from_sums
from gaifman.queries.witnesses import are_answers
from gaifman.sampling.neighbourhoods import HiddenFacts, NeighbourhoodBatch, draw_neighbourhoods
from gaifman.training import Scorer, TrainingConfig

MAX_ENTRIES = 1 << 20
"""Entries of changed rows that are in memory at once, about."""


@dataclass(frozen=True, slots=True)
class Effects:
    """Means over draws, in log-odds: `base + effects.sum() + interactions` is `total`."""

    base: float
    """Of a row in which every input is off."""
    columns: Ints
    """Shape (inputs,), int32, ascending: the inputs that are on in some draw."""
    effects: Floats
    """Shape (inputs,), float64: by how much the mean falls if the input is switched off wherever it is on."""
    draws: Longs
    """Shape (inputs,), int64: in how many draws it is on."""
    total: float
    """Of the rows as they are."""

    @property
    def interactions(self) -> float:
        """What the effects leave over."""
        return self.total - self.base - float(self.effects.sum())


def compute_effects(base: BaseModel, rows: SparseRows, deadline: Deadline | None = None) -> Effects:
    """The effect of each input, over all rows; changed rows are scored many at a time, and a deadline asked between."""
    whole = base.scores(rows)
    owner = np.repeat(np.arange(len(rows)), np.diff(rows.starts))
    parts = _rows_without_entry(rows, owner, deadline or no_deadline())
    changed = np.concatenate([np.zeros(0), *(base.scores(part) for part in parts)])
    columns, at, draws = np.unique(rows.columns, return_inverse=True, return_counts=True)
    sums = np.bincount(at, whole[owner] - changed, len(columns)).astype(np.float64)
    nothing = SparseRows(np.zeros(2, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32), rows.width)
    count = max(len(rows), 1)
    return Effects(float(base.scores(nothing)[0]), columns, sums / count, draws, float(whole.sum() / count))


def _rows_without_entry(rows: SparseRows, owner: Longs, deadline: Deadline) -> Iterator[SparseRows]:
    """For each entry, in their order, its row without it; some at a time."""
    begins, ends = rows.starts[owner], rows.starts[owner + 1]
    blocks = np.cumsum(ends - begins) // MAX_ENTRIES
    for entries in np.split(np.arange(len(owner)), np.flatnonzero(np.diff(blocks)) + 1):
        deadline.check()
        lengths = (ends - begins)[entries]
        kept = concatenate_ranges(begins[entries], ends[entries])
        kept = kept[kept != np.repeat(entries, lengths)]
        starts = np.append(0, np.cumsum(lengths - 1)).astype(np.int64)
        yield SparseRows(starts, rows.columns[kept], rows.values[kept], rows.width)


DEFAULT_TOP = 10
"""Formulas that are told, of those for and of those against."""
MAX_WITNESS_DRAWS = 50
"""Draws in which witnesses are looked for, at most."""
MAX_COUNTERFACTUAL_FORMULAS = 12
"""Formulas that speak for the answer whose facts are tried, at most: what if they were not known?"""
MAX_DRAWS = 10_000
"""Draws that are taken apart at most: a second or so."""
MAX_COUNTERFACTUAL_FACTS = 20
"""Facts that are named as what the answer hangs on, at most."""
MIN_DROP_SHARE = 0.5
"""Fewer facts are named where the probability falls by this share of what it falls at most."""

WitnessCounts = dict[int, Counter[int]]
"""Feature → number of a fact → draws in which it witnesses the feature."""


@dataclass(frozen=True, slots=True)
class Explainer:
    """What an answer is judged by."""

    predictor: Predictor
    scorer: Scorer
    calibration: Calibration
    config: TrainingConfig
    query: Query

    def explain(
        self, tuples: Ints, draws: int | None = None, top: int = DEFAULT_TOP, deadline: Deadline | None = None
    ) -> Explanation:
        """Explain what is said of one tuple (1, places) over so many draws; the deadline is asked between parts."""
        check_int("top", top, 1)
        count = self.config.draws if draws is None else draws
        check_int("draws", count, 1, MAX_DRAWS)
        wanted = DrawBudget(count, deadline=deadline or no_deadline())
        hidden = self.predictor.hidden_facts(self.query, tuples, self.config.seed, wanted.deadline.limit_budget())
        return _Prediction(self, tuples, hidden, wanted).explain(top)

    def estimate_hiding(self, tuples: Ints, hidden: Sequence[Longs], draw_budget: DrawBudget) -> list[Estimate]:
        """What is said of one tuple where other facts are hidden, for each choice of these."""
        starts = np.append(0, np.cumsum([len(facts) for facts in hidden])).astype(np.int64)
        unseen = HiddenFacts(starts, np.concatenate([np.zeros(0, np.int64), *hidden]))
        many = np.repeat(tuples, len(hidden), axis=0)
        found = self.predictor.estimate(self.scorer, self.calibration, self.config, many, unseen, draw_budget)
        return [found[row] for row in range(len(hidden))]


class _Prediction:
    """One answer and its draws, the same that its probability is the mean over."""

    def __init__(self, explainer: Explainer, tuples: Ints, hidden: HiddenFacts, draw_budget: DrawBudget) -> None:
        self.explainer, self.tuples, self.hidden, self.draw_budget = explainer, tuples, hidden, draw_budget
        judge, graph, self.deadline = explainer.predictor, explainer.predictor.graph, draw_budget.deadline
        self.fact = cache(graph.kb.fact_by_id)
        self.names = tuple(judge.kb.object_name(number) for number in tuples[0].tolist())
        self.deadline.check()
        self.drawn: NeighbourhoodBatch = draw_neighbourhoods(
            graph, tuples, explainer.config.sampling(draw_budget.draws, "answer 0"), hidden
        )
        self.matrix: FeatureMatrix = judge.evaluator.evaluate(self.drawn, hidden)
        rows = explainer.scorer.scaler.transform(self.matrix)
        self.per_draw: Floats = explainer.scorer.base.probabilities(rows).reshape(1, -1)
        self.effects: Effects = compute_effects(explainer.scorer.base, rows, self.deadline)
        self.ids: Longs = explainer.scorer.scaler.features()[self.effects.columns]
        made: dict[bytes, LocalStructure] = {}
        self.structures: list[LocalStructure] = []
        """Of the first draws; draws with the same members share one."""
        for at in range(min(draw_budget.draws, MAX_WITNESS_DRAWS)):
            self.deadline.check()
            members = self.drawn.members_of(0, at)
            if members.tobytes() not in made:
                made[members.tobytes()] = local_structure(graph, members, hidden.facts, self.fact)
            self.structures.append(made[members.tobytes()])

    def explain(self, top: int) -> Explanation:
        order = np.lexsort((self.ids, -np.abs(self.effects.effects)))
        effects = self.effects.effects[order]
        chosen = np.concatenate([np.flatnonzero(effects > 0)[:top], np.flatnonzero(effects < 0)[:top]])
        told = order[np.sort(chosen)]
        helping = order[np.flatnonzero(effects > 0)[:MAX_COUNTERFACTUAL_FORMULAS]]
        witnessed = self.count_witnesses({*self.ids[told].tolist(), *self.ids[helping].tolist()})
        other = self.counterfactual([witnessed[feature] for feature in self.ids[helping].tolist()])
        reasons = tuple(self.reason(at, witnessed) for at in told.tolist())
        estimate = self.estimate()
        return Explanation(
            self.query_text(),
            tuple(variable.name for variable in self.explainer.query.variables),
            self.names,
            self.is_known(),
            estimate,
            reasons,
            self.decompose(estimate, np.setdiff1d(np.arange(len(order)), told)),
            other,
            self.diagram(reasons, other),
            len(self.hidden.facts) > 0,
        )

    def is_known(self) -> bool:
        """Whether the tuple is an answer by what is known."""
        query = self.explainer.query
        if query.atomic_relation is not None:
            return len(self.hidden.facts) > 0
        return bool(
            are_answers(self.explainer.predictor.kb, query, self.tuples, budget=self.deadline.limit_budget())[0]
        )

    def estimate(self) -> Estimate:
        """What `Predictor.estimates` says, to the bit: from the same numbers in the same order."""
        sums, squares = self.per_draw.sum(axis=1), (self.per_draw**2).sum(axis=1)
        return estimate_from_sums(self.explainer.calibration, sums, squares, np.full(1, float(self.draw_budget.draws)))[
            0
        ]

    def decompose(self, estimate: Estimate, others: Longs) -> Decomposition:
        """What adds up with the told effects to the log-odds of the estimate."""
        mean = float(log_odds(np.clip(self.per_draw.sum(axis=1) / self.draw_budget.draws, 0.0, 1.0))[0])
        rest = OtherFormulas(len(others), float(self.effects.effects[others].sum()))
        said = float(log_odds(estimate.value))
        return Decomposition(self.effects.base, rest, self.effects.interactions, mean - self.effects.total, said - mean)

    def reason(self, at: int, witnesses: WitnessCounts) -> Reason:
        number = int(self.ids[at])
        feature = self.feature(number)
        values = self.matrix.values[self.matrix.ids == number]
        facts = tuple(self.fact(fact) for fact in _most_frequent(witnesses[number]))
        effect, draws = float(self.effects.effects[at]), int(self.effects.draws[at])
        put = self.substitute_names(feature)
        return Reason(str(put), str(feature), effect, draws, float(values.mean()), facts, describe_feature(put))

    def feature(self, number: int) -> Feature:
        return self.explainer.predictor.evaluator.plan.features[number]

    def substitute_names(self, feature: Feature) -> Feature:
        """The names put for s1, s2 …"""
        return substitute(feature, {Variable(f"s{i}"): Constant(name) for i, name in enumerate(self.names, start=1)})

    def query_text(self) -> str:
        """The query of the model with the names put for its variables."""
        query = self.explainer.query
        put = {variable: Constant(name) for variable, name in zip(query.variables, self.names, strict=True)}
        return to_bracketed(Query((), substitute(query.formula, put)))

    def count_witnesses(self, features: set[int]) -> WitnessCounts:
        """The facts that make features what they are, over the draws that are looked at."""
        found: WitnessCounts = {feature: Counter() for feature in features}
        seen: dict[tuple[int, int], set[int]] = {}
        for at, inside in enumerate(self.structures):
            for feature, above in self.active_features(at):
                if feature in features:
                    key = (id(inside), feature)
                    if key not in seen:
                        self.deadline.check()
                        ways = find_groundings(inside, self.feature(feature), self.names, above_default=above)
                        seen[key] = {
                            inside.fact_numbers[fact.relation, fact.objects] for facts in ways for fact in facts
                        }
                    found[feature].update(seen[key])
        return found

    def active_features(self, at: int) -> Iterator[tuple[int, bool]]:
        """The features that a draw says something of, and whether they are above their default."""
        matrix = self.matrix
        for entry in range(int(matrix.starts[at]), int(matrix.starts[at + 1])):
            shape = int(matrix.default_rows[matrix.ids[entry]])
            default = matrix.defaults[shape, matrix.sizes[at]] if shape >= 0 else 0.0
            if matrix.values[entry] != default:
                yield int(matrix.ids[entry]), bool(matrix.values[entry] > default)

    def counterfactual(self, helping: list[Counter[int]]) -> Counterfactual | None:
        """The facts of formulas that speak for the answer without which it is least probable, or fewer that do much."""
        tried = _fact_sets_to_hide([frozenset(own) for own in helping])
        if not tried:
            return None
        choices = [np.union1d(self.hidden.facts, sorted(facts)).astype(np.int64) for facts in tried]
        estimates = self.explainer.estimate_hiding(self.tuples, choices, self.draw_budget)
        falls = self.estimate().value - np.array([estimate.value for estimate in estimates])
        if falls.max() <= 0:
            return None
        much = [at for at in range(len(tried)) if falls[at] >= MIN_DROP_SHARE * falls.max()]
        best = min(much, key=lambda at: (len(tried[at]), -falls[at]))
        return Counterfactual(tuple(self.fact(fact) for fact in sorted(tried[best])), estimates[best])

    def diagram(self, reasons: tuple[Reason, ...], counterfactual: Counterfactual | None) -> Diagram:
        """The draw with most of the facts that were told."""
        signs: dict[Fact, int] = dict.fromkeys(counterfactual.facts if counterfactual else (), 1)
        for reason in reasons:  # the largest effects come first
            for fact in reason.facts:
                signs.setdefault(fact, 1 if reason.effect > 0 else -1)
        chief = frozenset(counterfactual.facts if counterfactual else ())

        def told_in(at: int) -> tuple[int, int]:
            facts = [self.fact(number) for number in self.structures[at].fact_numbers.values()]
            return sum(fact in chief for fact in facts), sum(fact in signs for fact in facts)

        best = max(range(len(self.structures)), key=told_in)
        facts = tuple(self.fact(number) for number in sorted(self.structures[best].fact_numbers.values()))
        members = tuple(
            self.explainer.predictor.kb.object_name(number) for number in self.drawn.members_of(0, best).tolist()
        )
        lit = {fact: sign for fact, sign in signs.items() if fact in facts}
        said = f"probability {self.estimate()}" + (
            f"; without the facts it hangs on {counterfactual.estimate}" if counterfactual else ""
        )
        return Diagram(self.query_text(), said, self.names, members, facts, lit, chief)


def _most_frequent(facts: Counter[int]) -> list[int]:
    """Those of most draws first."""
    return sorted(facts, key=lambda fact: (-facts[fact], fact))


def _fact_sets_to_hide(helping: list[frozenset[int]]) -> list[frozenset[int]]:
    """The facts of each formula alone, and of the first ones together; none that would be too many to name."""
    few = [facts for facts in helping if 0 < len(facts) <= MAX_COUNTERFACTUAL_FACTS]
    together = accumulate(few, lambda one, other: one | other)
    return list(dict.fromkeys([*few, *(facts for facts in together if len(facts) <= MAX_COUNTERFACTUAL_FACTS)]))

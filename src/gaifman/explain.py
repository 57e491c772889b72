"""Why an answer is as probable as a model says: exactly that prediction, taken apart.

>>> import gaifman
>>> model = gaifman.fit(gaifman.demo(), "borders(x, y)", size=10, options={"epochs": 1}, seed=1)
>>> found = model.explain("portugal", "spain")
>>> found.estimate == model.probability("portugal", "spain")
True
>>> found.reasons[0].formula, *map(str, found.reasons[0].facts)
("borders('spain', 'portugal')", 'borders(spain, portugal).')
>>> found.counterfactual.estimate.value < found.probability
True

For each draw the base model has log-odds. The effect of a formula is the mean over draws of what they lose when its
input alone is switched off; what effects leave over is told as interactions, so that the parts add up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate

import numpy as np

from gaifman.calibration import Calibration, log_odds
from gaifman.deadlines import Deadline, never
from gaifman.effects import Effects, effects_of
from gaifman.errors import KnowledgeError
from gaifman.explanations import Counterfactual, Explanation, Others, Parts, Reason
from gaifman.facts import Fact
from gaifman.features import FeatureMatrix
from gaifman.formulas import Constant, Variable, bracketed
from gaifman.grounds import Inside, grounds, inside_of
from gaifman.judging import Estimate, Judge, Wanted, calibrated, own_fact
from gaifman.learning import Learning, Scorer
from gaifman.neighbourhoods import Hidden, Neighbourhoods, check_draws, draw
from gaifman.phrases import phrase
from gaifman.questions import Feature, Query
from gaifman.rewriting import substitute
from gaifman.scenes import Scene
from gaifman.tables import Floats, Ints, Longs
from gaifman.witnesses import true_of

TOP = 10
"""Formulas that are told, of those for and of those against."""
LOOKED = 50
"""Draws in which witnesses are looked for, at most."""
TRIED = 12
"""Formulas that speak for the answer whose facts are tried, at most: what if they were not known?"""
DRAWS = 10_000
"""Draws that are taken apart at most: a second or so."""
NAMED = 20
"""Facts that are named as what the answer hangs on, at most."""
ENOUGH = 0.5
"""Fewer facts are named where the probability falls by this share of what it falls at most."""

Grounds = dict[int, Counter[int]]
"""Feature → number of a fact → draws in which it witnesses the feature."""


@dataclass(frozen=True, slots=True)
class Case:
    """What an answer is judged by."""

    judge: Judge
    scorer: Scorer
    calibration: Calibration
    learning: Learning
    query: Query

    def explain(
        self, tuples: Ints, draws: int | None = None, top: int = TOP, deadline: Deadline | None = None
    ) -> Explanation:
        """Explain what is said of one tuple (1, places) over so many draws; the deadline is asked between parts."""
        if not isinstance(top, int) or isinstance(top, bool) or top < 1:
            raise KnowledgeError(f"top is a whole number, 1 or more, not {top!r}")
        count = self.learning.draws if draws is None else draws
        check_draws(count, most=DRAWS)
        wanted = Wanted(count, deadline=deadline or never())
        hidden = self.judge.secret(self.query, tuples, self.learning.seed, wanted.deadline.budget())
        return _Told(self, tuples, hidden, wanted).explanation(top)

    def estimate(self, tuples: Ints, hidden: Sequence[Longs], wanted: Wanted) -> list[Estimate]:
        """What is said of one tuple where other facts are hidden, for each choice of these."""
        starts = np.append(0, np.cumsum([len(facts) for facts in hidden])).astype(np.int64)
        unseen = Hidden(starts, np.concatenate([np.zeros(0, np.int64), *hidden]))
        many = np.repeat(tuples, len(hidden), axis=0)
        found = self.judge.estimates(self.scorer, self.calibration, self.learning, many, unseen, wanted)
        return [found[row] for row in range(len(hidden))]


class _Told:
    """One answer and its draws, the same that its probability is the mean over."""

    def __init__(self, case: Case, tuples: Ints, hidden: Hidden, wanted: Wanted) -> None:
        self.case, self.tuples, self.hidden, self.wanted = case, tuples, hidden, wanted
        judge, graph, self.deadline = case.judge, case.judge.graph, wanted.deadline
        self.fact = cache(graph.fact)
        self.names = tuple(judge.kb.name(number) for number in tuples[0].tolist())
        self.deadline.check()
        self.drawn: Neighbourhoods = draw(graph, tuples, case.learning.sampling(wanted.draws, "answer 0"), hidden)
        self.matrix: FeatureMatrix = judge.evaluator.features(self.drawn, hidden)
        rows = case.scorer.inputs.rows(self.matrix)
        self.each: Floats = case.scorer.base.probabilities(rows).reshape(1, -1)
        self.effects: Effects = effects_of(case.scorer.base, rows, self.deadline)
        self.ids: Longs = case.scorer.inputs.features()[self.effects.columns]
        made: dict[bytes, Inside] = {}
        self.insides: list[Inside] = []
        """Of the first draws; draws with the same members share one."""
        for at in range(min(wanted.draws, LOOKED)):
            self.deadline.check()
            members = self.drawn.of(0, at)
            if members.tobytes() not in made:
                made[members.tobytes()] = inside_of(graph, members, hidden.facts, self.fact)
            self.insides.append(made[members.tobytes()])

    def explanation(self, top: int) -> Explanation:
        order = np.lexsort((self.ids, -np.abs(self.effects.effects)))
        effects = self.effects.effects[order]
        chosen = np.concatenate([np.flatnonzero(effects > 0)[:top], np.flatnonzero(effects < 0)[:top]])
        told = order[np.sort(chosen)]
        helping = order[np.flatnonzero(effects > 0)[:TRIED]]
        witnessed = self.witnessed({*self.ids[told].tolist(), *self.ids[helping].tolist()})
        other = self.counterfactual([witnessed[feature] for feature in self.ids[helping].tolist()])
        reasons = tuple(self.reason(at, witnessed) for at in told.tolist())
        estimate = self.estimate()
        return Explanation(
            self.asked(),
            tuple(variable.name for variable in self.case.query.free),
            self.names,
            self.known(),
            estimate,
            reasons,
            self.parts(estimate, np.setdiff1d(np.arange(len(order)), told)),
            other,
            self.scene(reasons, other),
            len(self.hidden.facts) > 0,
        )

    def known(self) -> bool:
        """Whether the tuple is an answer by what is known."""
        query = self.case.query
        if own_fact(query) is not None:
            return len(self.hidden.facts) > 0
        return bool(true_of(self.case.judge.kb, query, self.tuples, budget=self.deadline.budget())[0])

    def estimate(self) -> Estimate:
        """What `Judge.estimates` says, to the bit: from the same numbers in the same order."""
        sums, squares = self.each.sum(axis=1), (self.each**2).sum(axis=1)
        return calibrated(self.case.calibration, sums, squares, np.full(1, float(self.wanted.draws)))[0]

    def parts(self, estimate: Estimate, others: Longs) -> Parts:
        """What adds up with the told effects to the log-odds of the estimate."""
        mean = float(log_odds(np.clip(self.each.sum(axis=1) / self.wanted.draws, 0.0, 1.0))[0])
        rest = Others(len(others), float(self.effects.effects[others].sum()))
        said = float(log_odds(estimate.value))
        return Parts(self.effects.base, rest, self.effects.interactions, mean - self.effects.total, said - mean)

    def reason(self, at: int, witnessed: Grounds) -> Reason:
        number = int(self.ids[at])
        feature = self.feature(number)
        values = self.matrix.values[self.matrix.ids == number]
        facts = tuple(self.fact(fact) for fact in _by_draws(witnessed[number]))
        effect, draws = float(self.effects.effects[at]), int(self.effects.draws[at])
        put = self.put(feature)
        return Reason(str(put), str(feature), effect, draws, float(values.mean()), facts, phrase(put))

    def feature(self, number: int) -> Feature:
        return self.case.judge.evaluator.plan.features[number]

    def put(self, feature: Feature) -> Feature:
        """The names put for s1, s2 …"""
        return substitute(feature, {Variable(f"s{i}"): Constant(name) for i, name in enumerate(self.names, start=1)})

    def asked(self) -> str:
        """The query of the model with the names put for its variables."""
        query = self.case.query
        put = {variable: Constant(name) for variable, name in zip(query.free, self.names, strict=True)}
        return bracketed(Query((), substitute(query.formula, put)))

    def witnessed(self, features: set[int]) -> Grounds:
        """The facts that make features what they are, over the draws that are looked at."""
        found: Grounds = {feature: Counter() for feature in features}
        seen: dict[tuple[int, int], set[int]] = {}
        for at, inside in enumerate(self.insides):
            for feature, above in self.present(at):
                if feature in features:
                    key = (id(inside), feature)
                    if key not in seen:
                        self.deadline.check()
                        ways = grounds(inside, self.feature(feature), self.names, above=above)
                        seen[key] = {inside.numbers[fact.relation, fact.objects] for facts in ways for fact in facts}
                    found[feature].update(seen[key])
        return found

    def present(self, at: int) -> Iterator[tuple[int, bool]]:
        """The features that a draw says something of, and whether they are above their default."""
        matrix = self.matrix
        for entry in range(int(matrix.starts[at]), int(matrix.starts[at + 1])):
            shape = int(matrix.shapes[matrix.ids[entry]])
            default = matrix.defaults[shape, matrix.sizes[at]] if shape >= 0 else 0.0
            if matrix.values[entry] != default:
                yield int(matrix.ids[entry]), bool(matrix.values[entry] > default)

    def counterfactual(self, helping: list[Counter[int]]) -> Counterfactual | None:
        """The facts of formulas that speak for the answer without which it is least probable, or fewer that do much."""
        tried = _tried([frozenset(own) for own in helping])
        if not tried:
            return None
        choices = [np.union1d(self.hidden.facts, sorted(facts)).astype(np.int64) for facts in tried]
        estimates = self.case.estimate(self.tuples, choices, self.wanted)
        falls = self.estimate().value - np.array([estimate.value for estimate in estimates])
        if falls.max() <= 0:
            return None
        much = [at for at in range(len(tried)) if falls[at] >= ENOUGH * falls.max()]
        best = min(much, key=lambda at: (len(tried[at]), -falls[at]))
        return Counterfactual(tuple(self.fact(fact) for fact in sorted(tried[best])), estimates[best])

    def scene(self, told: tuple[Reason, ...], named: Counterfactual | None) -> Scene:
        """The draw with most of the facts that were told."""
        signs: dict[Fact, int] = dict.fromkeys(named.facts if named else (), 1)
        for reason in told:  # the largest effects come first
            for fact in reason.facts:
                signs.setdefault(fact, 1 if reason.effect > 0 else -1)
        chief = frozenset(named.facts if named else ())

        def told_in(at: int) -> tuple[int, int]:
            facts = [self.fact(number) for number in self.insides[at].numbers.values()]
            return sum(fact in chief for fact in facts), sum(fact in signs for fact in facts)

        best = max(range(len(self.insides)), key=told_in)
        facts = tuple(self.fact(number) for number in sorted(self.insides[best].numbers.values()))
        members = tuple(self.case.judge.kb.name(number) for number in self.drawn.of(0, best).tolist())
        lit = {fact: sign for fact, sign in signs.items() if fact in facts}
        said = f"probability {self.estimate()}" + (f"; without the facts it hangs on {named.estimate}" if named else "")
        return Scene(self.asked(), said, self.names, members, facts, lit, chief)


def _by_draws(facts: Counter[int]) -> list[int]:
    """Those of most draws first."""
    return sorted(facts, key=lambda fact: (-facts[fact], fact))


def _tried(helping: list[frozenset[int]]) -> list[frozenset[int]]:
    """The facts of each formula alone, and of the first ones together; none that would be too many to name."""
    few = [facts for facts in helping if 0 < len(facts) <= NAMED]
    together = accumulate(few, lambda one, other: one | other)
    return list(dict.fromkeys([*few, *(facts for facts in together if len(facts) <= NAMED)]))

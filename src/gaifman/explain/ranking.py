"""Explanations of ranked lists: weights times values, which add up to the log-odds.

Each position of a tuple has a ranker, and each ranker has formulas that lead to the object at that position and
formulas about this object alone. A formula that several rankers have is told once, with the sum of its effects.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np

from gaifman.explain.explanation import (
    MAX_COUNTERFACTUAL_FACTS,
    MAX_COUNTERFACTUAL_FORMULAS,
    Counterfactual,
    Decomposition,
    ExplainedTuple,
    Explanation,
    OtherFormulas,
    Reason,
    conflict_reasons,
    draw_diagram,
    estimate_hiding,
    find_counterfactual,
    highlighted_facts,
    query_text,
    without_conflicting_facts,
)
from gaifman.explain.svg import Diagram
from gaifman.kb.tables import Ints
from gaifman.listwise.evidence import Evidence, collect_evidence
from gaifman.listwise.rules import without_differences
from gaifman.listwise.scoring import ListwisePredictor
from gaifman.listwise.steps import StepIndex
from gaifman.logic.ast import Constant, Feature, Variable, substitute
from gaifman.logic.verbalize import describe_feature
from gaifman.models.calibration import log_odds
from gaifman.predict import DrawBudget
from gaifman.sampling.hiding import HiddenFacts

MAX_DRAWN = 24
"""Objects of a diagram."""
MIN_RISE = 0.05
"""By how much a probability rises without the known answers that are named as decisive."""


@dataclass(slots=True)
class _Merged:
    """What several rankers say about one formula."""

    first: Evidence
    effect: float = 0.0
    facts: list[int] = field(default_factory=list)

    def add(self, evidence: Evidence) -> None:
        self.effect += evidence.effect
        self.facts += [fact for fact in evidence.facts if fact not in self.facts]


def explain_ranking(
    predictor: ListwisePredictor, tuples: Ints, hidden: HiddenFacts, top: int, budget: DrawBudget
) -> Explanation:
    """Explain the probability of one tuple (1, arity)."""
    explained = _estimate(predictor, tuples, hidden, budget)
    with budget.deadline.activate():
        formulas = _merge(
            collect_evidence(predictor.scorer, predictor.odds, tuples[0].tolist(), hidden.of(0)), explained
        )
    budget.deadline.check()
    order = sorted(formulas, key=lambda one: -abs(one.effect))
    supporting = [one for one in order if one.effect > 0]
    always = [one for one in order if one.first.key == ("expert",)]
    chosen = {id(one) for one in (*supporting[:top], *[one for one in order if one.effect < 0][:top], *always)}
    shown, others = [one for one in order if id(one) in chosen], [one for one in order if id(one) not in chosen]
    helping = [frozenset(one.facts) for one in supporting if one.first.joins] or [
        frozenset(one.facts) for one in supporting
    ]
    counterfactual = (
        without_conflicting_facts(explained)
        or _without_known_answers(explained, order)
        or find_counterfactual(explained, helping[:MAX_COUNTERFACTUAL_FORMULAS])
    )
    reasons = (*conflict_reasons(explained), *(_reason(explained, one) for one in shown))
    return Explanation(
        query_text(predictor.query, explained.names),
        tuple(variable.name for variable in predictor.query.variables),
        explained.names,
        len(hidden.facts) > 0,
        explained.estimate,
        reasons,
        _decompose(explained, predictor.odds.base, formulas, others),
        counterfactual,
        _diagram(predictor.scorer.index, explained, reasons, counterfactual),
        len(hidden.facts) > 0,
    )


def _estimate(predictor: ListwisePredictor, tuples: Ints, hidden: HiddenFacts, budget: DrawBudget) -> ExplainedTuple:
    estimates = predictor.model_estimates(tuples, hidden, budget)
    return ExplainedTuple(
        predictor,
        tuples,
        tuple(predictor.kb.object_name(number) for number in tuples[0].tolist()),
        hidden,
        budget,
        estimates[0],
        predictor.constrain(estimates, tuples, hidden, budget.deadline)[0],
        () if predictor.constraints is None else predictor.constraints.conflicts(tuples, hidden),
        cache(predictor.kb.fact_by_id),
    )


def _merge(found: Iterator[Evidence], explained: ExplainedTuple) -> list[_Merged]:
    """The evidence by formula; what has no effect is left out.

    That two objects are linked, by the facts of a formula that is there too, is part of that formula. A formula with a
    constant is part of another one if both say the same of the tuple, or if the same facts make it true.
    """
    merged: dict[tuple[object, ...], _Merged] = {}
    for evidence in found:
        merged.setdefault(evidence.key, _Merged(evidence)).add(evidence)
    steps = {frozenset(one.facts): one for one in reversed(merged.values()) if one.first.is_step}
    for key, link in list(merged.items()):
        same = steps.get(frozenset(link.facts))
        if key[0] in ("linked", "ordered") and same is not None:
            same.effect += merged.pop(key).effect
    told = dict[object, _Merged]()
    for key, one in sorted(merged.items(), key=lambda item: _telling_order(*item)):
        text = None if isinstance(one.first.formula, str) else str(_ground(one.first.formula, explained))
        has_constant = key[0] == "constant"
        facts = frozenset(one.facts) if has_constant or one.first.is_step else None
        earlier = (told.get(text) or told.get(facts)) if has_constant else None
        if earlier is not None:
            earlier.add(replace(one.first, effect=one.effect, facts=tuple(one.facts)))
            del merged[key]
            continue
        told |= {sign: one for sign in (text, facts) if sign and sign not in told}
    return [one for one in merged.values() if one.effect]


def _telling_order(key: tuple[object, ...], one: _Merged) -> tuple[bool, bool, float]:
    """Formulas with constants come last, and among the others paths of one step first."""
    return key[0] == "constant", not one.first.is_step, -abs(one.effect)


def _without_known_answers(explained: ExplainedTuple, order: Sequence[_Merged]) -> Counterfactual | None:
    """The probability without the known answers, if these are what makes the tuple improbable."""
    strongest = next((one for one in order if one.effect < 0), None)
    if strongest is None or strongest.first.key[0] not in ("known", "count"):
        return None
    facts = sorted(strongest.facts)
    if not 0 < len(facts) <= MAX_COUNTERFACTUAL_FACTS:
        return None
    hidden = np.union1d(explained.hidden.facts, facts).astype(np.int64)
    [estimate] = estimate_hiding(explained.predictor, explained.tuples, [hidden], explained.budget)
    if estimate.value < explained.estimate.value + MIN_RISE:
        return None
    return Counterfactual(tuple(explained.fact(fact) for fact in facts), estimate)


def _reason(explained: ExplainedTuple, merged: _Merged) -> Reason:
    evidence = merged.first
    facts = tuple(explained.fact(fact) for fact in merged.facts)
    if isinstance(evidence.formula, str):
        text = evidence.formula.format(*explained.names)
        return Reason(
            text, evidence.formula.format(*_variables(explained)), merged.effect, 1, evidence.value, facts, text
        )
    grounded = _ground(evidence.formula, explained)
    words = describe_feature(grounded)
    return Reason(str(grounded), str(evidence.formula), merged.effect, 1, evidence.value, facts, words)


def _ground(formula: Feature, explained: ExplainedTuple) -> Feature:
    """The formula with the names of the objects, without what is trivially true."""
    names = {Variable(f"s{i}"): Constant(name) for i, name in enumerate(explained.names, start=1)}
    return without_differences(substitute(formula, names))


def _variables(explained: ExplainedTuple) -> list[str]:
    return [f"s{i}" for i in range(1, len(explained.names) + 1)]


def _decompose(
    explained: ExplainedTuple, base: float, formulas: Sequence[_Merged], others: Sequence[_Merged]
) -> Decomposition:
    """The parts that add up with the effects of the reasons to the log-odds of the estimate."""
    rest = OtherFormulas(len(others), sum(one.effect for one in others))
    total = float(log_odds(explained.model_estimate.value))
    return Decomposition(base, rest, competition=total - base - sum(one.effect for one in formulas))


def _diagram(
    index: StepIndex, explained: ExplainedTuple, reasons: Sequence[Reason], counterfactual: Counterfactual | None
) -> Diagram:
    """The objects of the facts in the explanation, and the facts among them."""
    signs, members = highlighted_facts(reasons, counterfactual), dict.fromkeys(explained.names)
    for fact in signs:
        if len({*members, *fact.objects}) <= MAX_DRAWN:
            members |= dict.fromkeys(fact.objects)
    numbers = np.array(sorted(explained.predictor.kb.object_id(name) for name in members), np.int32)
    inside = index.facts_among(numbers, explained.hidden.facts)
    return draw_diagram(explained, tuple(members), [*map(explained.fact, inside.tolist())], signs, counterfactual)

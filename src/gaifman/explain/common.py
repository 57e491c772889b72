"""What every explanation has: the tuple, its conflicts with constraints, and a counterfactual."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from gaifman.explain.explanation import Counterfactual, Reason
from gaifman.explain.svg import Diagram
from gaifman.kb.knowledge_base import Fact
from gaifman.kb.tables import Ints, Longs
from gaifman.logic.ast import Constant, Query, to_bracketed
from gaifman.logic.transforms import substitute
from gaifman.models.calibration import MIN_PROBABILITY, log_odds
from gaifman.predict import DrawBudget, Estimate, Predictor
from gaifman.queries.witnesses import are_answers
from gaifman.sampling.constraints import Conflict
from gaifman.sampling.neighbourhoods import HiddenFacts

DEFAULT_TOP = 10
"""Formulas in an explanation, of those for the prediction and of those against it."""
MAX_COUNTERFACTUAL_FORMULAS = 12
"""Supporting formulas whose witnesses are tried as counterfactuals."""
MAX_COUNTERFACTUAL_FACTS = 20
"""Limit on the facts of a counterfactual."""
MIN_DROP_SHARE = 0.5
"""A smaller set of facts is preferred if the probability drops by at least this share of the largest drop."""


@dataclass(frozen=True, slots=True)
class ExplainedTuple:
    """One tuple and its probability."""

    predictor: Predictor
    tuples: Ints
    """Shape (1, arity), int32."""
    names: tuple[str, ...]
    hidden: HiddenFacts
    budget: DrawBudget
    model_estimate: Estimate
    """The probability without constraints."""
    estimate: Estimate
    conflicts: tuple[Conflict, ...]
    """The constraints that lower the probability."""
    fact: Callable[[int], Fact]
    """Fact id → fact, cached."""


def highlighted_facts(reasons: Sequence[Reason], counterfactual: Counterfactual | None) -> dict[Fact, int]:
    """The facts of an explanation, the decisive ones first: 1 if they support the prediction, −1 if they oppose it."""
    signs = {fact: -1 for reason in reasons if reason.kind == "constraint" for fact in reason.facts}
    signs = dict.fromkeys(counterfactual.facts if counterfactual else (), 1) | signs
    for reason in reasons:  # the largest effects come first
        for fact in reason.facts:
            signs.setdefault(fact, 1 if reason.effect > 0 else -1)
    return signs


def draw_diagram(
    explained: ExplainedTuple,
    members: Sequence[str],
    facts: Sequence[Fact],
    signs: Mapping[Fact, int],
    counterfactual: Counterfactual | None,
) -> Diagram:
    """The diagram of some objects and the facts among them."""
    subtitle = f"probability {explained.estimate}"
    if counterfactual:
        subtitle += f"; without the decisive facts {counterfactual.estimate}"
    return Diagram(
        query_text(explained.predictor.query, explained.names),
        subtitle,
        explained.names,
        tuple(members),
        tuple(facts),
        {fact: sign for fact, sign in signs.items() if fact in facts},
        frozenset(counterfactual.facts if counterfactual else ()),
    )


def is_known(explained: ExplainedTuple) -> bool:
    """Whether the tuple is an answer in the knowledge base."""
    query = explained.predictor.query
    if query.atomic_relation is not None:
        return len(explained.hidden.facts) > 0
    budget = explained.budget.deadline.limit_budget()
    return bool(are_answers(explained.predictor.kb, query, explained.tuples, budget=budget)[0])


def query_text(query: Query, names: tuple[str, ...]) -> str:
    """The query with the names in place of its variables."""
    constants = {variable: Constant(name) for variable, name in zip(query.variables, names, strict=True)}
    return to_bracketed(Query((), substitute(query.formula, constants)))


def conflict_reasons(explained: ExplainedTuple) -> Iterator[Reason]:
    """The reason for each conflict: by how much it lowers the log-odds, after those before it."""
    before, factor = float(log_odds(explained.model_estimate.value)), 1.0
    for number, conflict in enumerate(explained.conflicts, start=1):
        factor *= conflict.factor
        last = number == len(explained.conflicts)  # exactly what is left, so that the effects add up
        value = explained.estimate.value if last else max(explained.model_estimate.value * factor, MIN_PROBABILITY)
        after = float(log_odds(value))
        words = f"{conflict.message}; the constraint {conflict.evidence}"
        draws = explained.budget.draws
        yield Reason(conflict.constraint, "", after - before, draws, 1.0, conflict.facts, words, "constraint")
        before = after


def without_conflicting_facts(explained: ExplainedTuple) -> Counterfactual | None:
    """The probability without the facts that the tuple conflicts with; None if there are none, or too many."""
    if explained.predictor.constraints is None:
        return None
    facts = explained.predictor.constraints.conflicting_facts(explained.tuples, explained.hidden)
    if not 0 < len(facts) <= MAX_COUNTERFACTUAL_FACTS:
        return None
    hidden = np.union1d(explained.hidden.facts, facts).astype(np.int64)
    [estimate] = estimate_hiding(explained.predictor, explained.tuples, [hidden], explained.budget)
    return Counterfactual(tuple(explained.fact(fact) for fact in facts.tolist()), estimate)


def find_counterfactual(explained: ExplainedTuple, supporting: Sequence[Set[int]]) -> Counterfactual | None:
    """The witnesses of supporting formulas without which the probability is lowest, or fewer with half the drop."""
    tried = _fact_sets_to_hide([frozenset(facts) for facts in supporting])
    if not tried:
        return None
    hidden = [np.union1d(explained.hidden.facts, sorted(facts)).astype(np.int64) for facts in tried]
    estimates = estimate_hiding(explained.predictor, explained.tuples, hidden, explained.budget)
    drops = explained.estimate.value - np.array([estimate.value for estimate in estimates])
    if drops.max() <= 0:
        return None
    large = [index for index in range(len(tried)) if drops[index] >= MIN_DROP_SHARE * drops.max()]
    best = min(large, key=lambda index: (len(tried[index]), -drops[index]))
    return Counterfactual(tuple(explained.fact(fact) for fact in sorted(tried[best])), estimates[best])


def estimate_hiding(predictor: Predictor, tuples: Ints, hidden: Sequence[Longs], budget: DrawBudget) -> list[Estimate]:
    """The probability of one tuple (1, arity) for each set of hidden facts."""
    starts = np.append(0, np.cumsum([len(facts) for facts in hidden])).astype(np.int64)
    facts = HiddenFacts(starts, np.concatenate([np.zeros(0, np.int64), *hidden]))
    estimates = predictor.estimate(np.repeat(tuples, len(hidden), axis=0), facts, budget)
    return [estimates[row] for row in range(len(hidden))]


def _fact_sets_to_hide(supporting: Sequence[frozenset[int]]) -> list[frozenset[int]]:
    """The witnesses of each formula, and of the first formulas together, unless they are too many."""
    small = [facts for facts in supporting if 0 < len(facts) <= MAX_COUNTERFACTUAL_FACTS]
    together = accumulate(small, lambda one, other: one | other)
    return list(dict.fromkeys([*small, *(facts for facts in together if len(facts) <= MAX_COUNTERFACTUAL_FACTS)]))

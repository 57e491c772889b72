"""Explanations: the formulas for and against a prediction, their facts, and a counterfactual.

>>> from gaifman.kb.knowledge_base import Fact
>>> spain = Fact("borders", ("spain", "portugal"), 0.9)
>>> reason = Reason("borders('spain', 'portugal')", "borders(s2, s1)", 2.4, 10, 1.0, (spain,))
>>> parts = Decomposition(-2.0, OtherFormulas(3, 0.1), 0.5, -0.25, 0.25)
>>> found = Explanation(
...     "borders('portugal', 'spain')", ("x", "y"), ("portugal", "spain"), True, Estimate(0.73, 0.01, 10), (reason,),
...     parts, Counterfactual((spain,), Estimate(0.31, 0.02, 10)))
>>> print(found)
borders('portugal', 'spain'): 0.730 ± 0.010, scored as if it were not known
  +2.400  borders('spain', 'portugal')
          0.9::borders(spain, portugal).
  -2.000  base: no formula is active
  +0.100  3 other formulas
  +0.500  interactions
  -0.250  averaging over 10 draws
  +0.250  calibration
  +1.000  log-odds of 0.731
without these facts: 0.310 ± 0.020
  0.9::borders(spain, portugal).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import asdict, dataclass, field, replace
from itertools import accumulate
from typing import Any

import numpy as np

from gaifman._html import Html, bold, bullet_list, code, element, muted, paragraph, signed_number, stack, table
from gaifman._tables import Columns, TableResult
from gaifman.errors import escape_unprintable, plural
from gaifman.explain.svg import Diagram, render_svg
from gaifman.kb.knowledge_base import Fact
from gaifman.kb.labels import NOTHING, Display, Labels, chosen_labels, constants_of, label_fact, label_formula
from gaifman.kb.tables import Ints, Longs
from gaifman.logic.ast import Constant, Query, substitute, to_bracketed
from gaifman.models.calibration import MIN_PROBABILITY, log_odds, logistic
from gaifman.predict import LITTLE_TO_GO_ON, DrawBudget, Estimate, Predictor, format_probability
from gaifman.queries.witnesses import are_answers
from gaifman.sampling.constraints import Conflict, lower
from gaifman.sampling.hiding import HiddenFacts

MAX_REASON_FACTS = 3
"""Witnesses of a formula that is preferred as the best reason."""
MAX_PRINTED_FACTS = 4
"""Witnesses that are printed per formula; `as_dict` has all."""


@dataclass(frozen=True, slots=True)
class Reason:
    """A formula of the model that supports a prediction, or opposes it; or a constraint that it conflicts with."""

    formula: str
    """The formula with the names of the objects, or the constraint."""
    feature: str
    """The feature of the model, with s1, s2 … for the objects; empty for a constraint."""
    effect: float
    """In log-odds. Of ranked lists: weight times value. Of a network: by how much the log-odds fall if the formula is
    switched off, as a mean over all draws. Of a constraint: by how much it changes the log-odds."""
    draws: int
    """Draws in which its value differs from the default."""
    value: float
    """Its mean value in these draws."""
    facts: tuple[Fact, ...] = ()
    """Its witnesses, ordered by the number of draws; empty for formulas that no single facts make true."""
    description: str = ""
    """The formula in words; for a constraint, the conflict and for how many known facts the constraint holds."""
    kind: str = "formula"
    """`formula` or `constraint`."""
    labelled: str = ""
    """The formula with labels for the objects; empty if the knowledge base has no labels."""
    labels: Labels = field(default_factory=dict, repr=False)
    """Object → how it is shown, for the objects of its facts that have a label."""

    @property
    def shown(self) -> str:
        """The formula as it is shown: with labels for the objects that have one."""
        return self.labelled or self.formula

    @property
    def evidence(self) -> str:
        """The first witnesses, or the value if there are none; the description of a constraint."""
        if self.kind == "constraint":
            return escape_unprintable(self.description)
        value = f"{self.value:,.0f}" if self.value.is_integer() else f"{self.value:,.4g}"
        return format_facts(self.facts, self.labels) if self.facts else f"no single fact; its value is {value}"

    def as_dict(self) -> dict[str, Any]:
        """The reason as JSON types."""
        found = asdict(self) | {"facts": [fact.as_dict() for fact in self.facts]}
        del found["labels"]
        return found if found["labelled"] else {name: value for name, value in found.items() if name != "labelled"}


@dataclass(frozen=True, slots=True)
class OtherFormulas:
    """The formulas that are not among the reasons."""

    count: int
    """How many there are."""
    effect: float
    """The sum of their effects."""


@dataclass(frozen=True, slots=True)
class Decomposition:
    """The parts that add up with the effects of the reasons to the log-odds of the probability."""

    base: float
    """The log-odds if no formula is active."""
    others: OtherFormulas
    interactions: float | None = None
    """Of a network: effects of several formulas together. Each effect is measured by switching off one formula."""
    averaging: float | None = None
    """Of a network: the log-odds of the mean probability minus the mean of the log-odds over draws."""
    calibration: float | None = None
    """What calibration changes: for a network, mainly for the ratio of negatives to positives in training."""
    competition: float | None = None
    """Of ranked lists: the other candidates. The better they are, the lower it is."""

    def labelled(self, draws: int) -> Iterator[tuple[str, float]]:
        """The parts with labels."""
        yield "base: no formula is active", self.base
        if self.others.count:
            yield plural(self.others.count, "other formula"), self.others.effect
        more = {
            "interactions": self.interactions,
            f"averaging over {plural(draws, 'draw')}": self.averaging,
            "calibration": self.calibration,
            "competition: the other candidates": self.competition,
        }
        yield from ((label, effect) for label, effect in more.items() if effect is not None)

    @property
    def total(self) -> float:
        """The sum of the parts."""
        more = (self.interactions, self.averaging, self.calibration, self.competition)
        return self.base + self.others.effect + sum(effect for effect in more if effect is not None)

    def as_dict(self) -> dict[str, Any]:
        """The parts as JSON types."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Counterfactual:
    """The probability without the decisive facts."""

    facts: tuple[Fact, ...]
    """The decisive facts."""
    estimate: Estimate
    """The probability without them, with the same seed."""

    def as_dict(self) -> dict[str, Any]:
        """The counterfactual as JSON types."""
        return {"facts": [fact.as_dict() for fact in self.facts], **self.estimate.as_dict()}


@dataclass(frozen=True, slots=True)
class Explanation(TableResult):
    """Why a model gives a tuple its probability. Prints as a table; a notebook also shows a diagram."""

    query: str
    """The query with the names of the objects."""
    variables: tuple[str, ...]
    """The variables of the model's query."""
    objects: tuple[str, ...]
    """The objects of these variables."""
    known: bool
    """Whether the tuple is an answer in the knowledge base."""
    estimate: Estimate
    """The probability that `model.probability` returns."""
    reasons: tuple[Reason, ...]
    """The constraints that it conflicts with, then the formulas with the largest effects, for and against, by size."""
    parts: Decomposition
    """The other parts of the log-odds."""
    counterfactual: Counterfactual | None = None
    """The decisive facts: those that it conflicts with, or facts without which the probability is lower; None if there
    are none."""
    diagram: Diagram | None = field(default=None, repr=False)
    """One of the sampled neighbourhoods."""
    hidden: bool = True
    """For a known answer, whether facts or values were hidden. The lack of a fact cannot be hidden."""
    conflicts: tuple[Conflict, ...] = ()
    """The constraints that make it improbable."""
    uncovered_reason: str = ""
    """Why the model has little to go on, or empty."""
    labelled: str = ""
    """The query with labels for the objects; empty if the knowledge base has no labels."""
    labels: Labels = field(default_factory=dict, repr=False)
    """Object → how it is shown, for all objects here that have a label."""

    @property
    def shown_query(self) -> str:
        """The query as it is shown: with labels for the objects that have one."""
        return self.labelled or self.query

    @property
    def covered(self) -> bool:
        """Whether a formula reaches it, or all its objects were seen at their positions."""
        return not self.uncovered_reason

    @property
    def known_note(self) -> str:
        """How a known answer was scored; empty for other tuples."""
        if not self.known:
            return ""
        return "scored as if it were not known" if self.hidden else "known by evidence that cannot be hidden"

    @property
    def probability(self) -> float:
        """The value of the estimate."""
        return self.estimate.value

    @property
    def coverage_note(self) -> str:
        """That the model has little to go on, and why; or empty."""
        return "" if self.covered else escape_unprintable(f"{LITTLE_TO_GO_ON}: {self.uncovered_reason}")

    @property
    def log_odds(self) -> float:
        """The log-odds of the probability: the sum of all effects and parts."""
        return self.parts.total + sum(reason.effect for reason in self.reasons)

    @property
    def counterfactual_text(self) -> str:
        """The probability without the decisive facts, with log-odds if both probabilities print the same."""
        other = self.counterfactual
        if other is None:
            return NO_COUNTERFACTUAL
        if str(other.estimate) != str(self.estimate):
            return str(other.estimate)
        return (
            f"{other.estimate} (log-odds {float(log_odds(other.estimate.value)):+.2f} instead of {self.log_odds:+.2f})"
        )

    @property
    def shown_label(self) -> str:
        """What the reasons are, as a term of the sum."""
        constrained = any(reason.kind == "constraint" for reason in self.reasons)
        return "constraints and formulas above" if constrained else "formulas above"

    @property
    def supporting(self) -> tuple[Reason, ...]:
        """Reasons that raise the probability."""
        return tuple(reason for reason in self.reasons if reason.effect > 0)

    @property
    def best_reason(self) -> Reason | None:
        """The formula that speaks most for it; see `best_of`."""
        return best_of(self.supporting, self.objects)

    @property
    def opposing(self) -> tuple[Reason, ...]:
        """Reasons that lower it."""
        return tuple(reason for reason in self.reasons if reason.effect < 0)

    def __str__(self) -> str:
        lines = [
            f"{escape_unprintable(self.shown_query)}: {self.estimate}{f', {self.known_note}' if self.known else ''}"
        ]
        lines += [] if self.covered else [f"  {self.coverage_note}"]
        for reason in self.reasons:
            lines.append(f"  {reason.effect:+.3f}  {escape_unprintable(reason.shown)}")
            lines.append(f"{'':10}{reason.evidence}")
        lines += [f"  {effect:+.3f}  {words}" for words, effect in self.parts.labelled(self.estimate.draws)]
        lines.append(f"  {self.log_odds:+.3f}  log-odds of {format_probability(float(logistic(self.log_odds)))}")
        if self.counterfactual is None:
            return "\n".join([*lines, NO_COUNTERFACTUAL])
        lines.append(f"without these facts: {self.counterfactual_text}")
        return "\n".join([*lines, *(f"  {fact}" for fact in self.decisive_facts)])

    @property
    def decisive_facts(self) -> list[str]:
        """The facts of the counterfactual as texts, with labels."""
        facts = self.counterfactual.facts if self.counterfactual else ()
        return [escape_unprintable(str(label_fact(fact, self.labels))) for fact in facts]

    def columns(self) -> Columns:
        """The reasons as rows: their effects in log-odds, formulas and facts; with labels too, if there are some."""
        found: dict[str, list[Any]] = {
            "effect": [reason.effect for reason in self.reasons],
            "kind": [reason.kind for reason in self.reasons],
            "formula": [reason.formula for reason in self.reasons],
            "feature": [reason.feature for reason in self.reasons],
            "value": [reason.value for reason in self.reasons],
            "draws": [reason.draws for reason in self.reasons],
            "facts": [" ".join(map(str, reason.facts)) for reason in self.reasons],
            "description": [reason.description for reason in self.reasons],
        }
        if not self.labelled:
            return found
        shown = [" ".join(str(label_fact(fact, reason.labels)) for fact in reason.facts) for reason in self.reasons]
        return {**found, "formula_labels": [reason.shown for reason in self.reasons], "facts_labels": shown}

    def as_dict(self) -> dict[str, Any]:
        """The explanation as JSON types, without the diagram."""
        return {
            "query": self.query,
            "variables": dict(zip(self.variables, self.objects, strict=True)),
            "known": self.known,
            "hidden": self.known and self.hidden,
            **self.estimate.as_dict(),
            "log_odds": self.log_odds,
            "conflicts": [conflict.as_dict() for conflict in self.conflicts],
            "covered": self.covered,
            "uncovered_reason": self.uncovered_reason,
            "reasons": [reason.as_dict() for reason in self.reasons],
            "parts": self.parts.as_dict(),
            "counterfactual": self.counterfactual.as_dict() if self.counterfactual else None,
            **({"labels": dict(self.labels), "query_labels": self.labelled} if self.labelled else {}),
        }

    def svg(self) -> str:
        """A diagram of one of the sampled neighbourhoods as SVG, with the witnesses highlighted."""
        return render_svg(self.diagram) if self.diagram else ""

    def _repr_html_(self) -> str:
        return render_html(self)


NO_COUNTERFACTUAL = "no decisive facts found"


def format_facts(facts: tuple[Fact, ...], labels: Labels = NOTHING) -> str:
    """The first facts, in one line, with labels."""
    shown = " ".join(escape_unprintable(str(label_fact(fact, labels))) for fact in facts[:MAX_PRINTED_FACTS])
    rest = f" … and {len(facts) - MAX_PRINTED_FACTS:,} more" if len(facts) > MAX_PRINTED_FACTS else ""
    return shown + rest


def render_html(explanation: Explanation) -> str:
    """The explanation as HTML with a diagram; every name is escaped."""
    rows = [(signed_number(reason.effect), code(reason.shown), reason.evidence) for reason in explanation.reasons]
    parts = explanation.parts.labelled(explanation.estimate.draws)
    rows += [(signed_number(effect), element("i", words), "") for words, effect in parts]
    rows.append(
        (signed_number(explanation.log_odds), bold(f"log-odds of {format_probability(explanation.probability)}"), "")
    )
    known = f", {explanation.known_note}" if explanation.known else ""
    other = explanation.counterfactual
    last = paragraph(NO_COUNTERFACTUAL)
    if other:
        facts = bullet_list(code(fact) for fact in explanation.decisive_facts)
        last = element("div", "without these facts: ", bold(explanation.counterfactual_text), facts)
    coverage = [] if explanation.covered else [paragraph(muted(explanation.coverage_note))]
    return stack(
        paragraph(code(explanation.shown_query), ": ", bold(explanation.estimate), known),
        *coverage,
        table(("log-odds", "formula", "facts"), rows),
        last,
        Html(explanation.svg()),
    )


# What every explanation has: the tuple, its conflicts with constraints, and a counterfactual

DEFAULT_TOP = 10
"""Formulas in an explanation, of those for the prediction and of those against it."""
MAX_DRAWS = 10_000
"""Limit on the draws of an explanation: a second of work."""
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

    @property
    def display(self) -> Display:
        """How objects are shown."""
        return self.predictor.kb.display

    def labels_of(self, facts: Iterable[Fact], names: Iterable[str] = ()) -> dict[str, str]:
        """Object → how it is shown, for the objects of facts and others that have a label."""
        return chosen_labels([*names, *(name for fact in facts for name in fact.objects)], self.display)


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
        query_text(explained.predictor.query, explained.names, explained.display),
        subtitle,
        explained.names,
        tuple(members),
        tuple(facts),
        {fact: sign for fact, sign in signs.items() if fact in facts},
        frozenset(counterfactual.facts if counterfactual else ()),
        explained.labels_of(facts, members),
    )


def is_known(explained: ExplainedTuple) -> bool:
    """Whether the tuple is an answer in the knowledge base."""
    query = explained.predictor.query
    if query.atomic_relation is not None:
        return len(explained.hidden.facts) > 0
    budget = explained.budget.deadline.limit_budget()
    return bool(are_answers(explained.predictor.kb, query, explained.tuples, budget=budget)[0])


def best_of(supporting: Sequence[Reason], objects: Sequence[str]) -> Reason | None:
    """The reason with the largest effect, of those whose facts are few and name all objects.

    If there is none, of those whose facts name all objects; if there is none either, of all with facts.
    """
    with_facts = [reason for reason in supporting if reason.facts]
    linking = [reason for reason in with_facts if set(objects) <= _objects_in(reason.facts)]
    short = [reason for reason in linking if len(reason.facts) <= MAX_REASON_FACTS]
    return next(iter([*short, *linking, *with_facts]), None)


def linking_facts(facts: Sequence[Fact], objects: Sequence[str]) -> list[Fact]:
    """The shortest chain of facts from the first object to the last, each sharing an object with the next.

    Of those with the fewest facts it is the one with the shortest text; empty if there is none.
    """
    chains, reached = [[fact] for fact in facts if objects[0] in fact.objects], {objects[0]}
    while chains:
        complete = [chain for chain in chains if objects[-1] in chain[-1].objects]
        if complete:
            return min(complete, key=lambda chain: sum(len(str(fact)) for fact in chain))
        new = {name for chain in chains for name in chain[-1].objects} - reached
        reached |= new
        chains = [
            [*chain, fact]
            for chain in chains
            for fact in facts
            if new & {*chain[-1].objects} & {*fact.objects} and not {*fact.objects} <= reached
        ]
    return []


def _objects_in(facts: Sequence[Fact]) -> set[str]:
    return {name for fact in facts for name in fact.objects}


def query_text(query: Query, names: tuple[str, ...], labels: Labels = NOTHING) -> str:
    """The query with the names in place of its variables, or their labels."""
    constants = {variable: Constant(name) for variable, name in zip(query.variables, names, strict=True)}
    return to_bracketed(label_formula(Query((), substitute(query.formula, constants)), labels))


def with_labels(explanation: Explanation, explained: ExplainedTuple) -> Explanation:
    """The explanation with labels for its objects, if the knowledge base has some."""
    if not explained.predictor.kb.labels:
        return explanation
    decisive = explanation.counterfactual.facts if explanation.counterfactual else ()
    facts = [*decisive, *(fact for reason in explanation.reasons for fact in reason.facts)]
    facts += [fact for conflict in explanation.conflicts for fact in conflict.facts]
    facts += explanation.diagram.facts if explanation.diagram else ()
    members = explanation.diagram.members if explanation.diagram else ()
    shown = query_text(explained.predictor.query, explained.names, explained.display)
    asked = constants_of(explained.predictor.query)
    return replace(explanation, labelled=shown, labels=explained.labels_of(facts, [*explained.names, *members, *asked]))


def conflict_reasons(explained: ExplainedTuple) -> Iterator[Reason]:
    """The reason for each conflict: by how much it lowers the log-odds, after those before it."""
    before, value = float(log_odds(explained.model_estimate.value)), explained.model_estimate.value
    for number, conflict in enumerate(explained.conflicts, start=1):
        last = number == len(explained.conflicts)  # exactly what is left, so that the effects add up
        value = explained.estimate.value if last else max(lower(value, conflict), MIN_PROBABILITY)
        after = float(log_odds(value))
        words = f"{conflict.message}; the constraint {conflict.evidence}"
        draws = explained.budget.draws
        labels = explained.labels_of(conflict.facts)
        yield Reason(
            conflict.constraint, "", after - before, draws, 1.0, conflict.facts, words, "constraint", "", labels
        )
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

"""An explanation of one answer: what spoke for and against it, by which facts, and what it would be without them.

>>> from gaifman.kb.facts import Fact
>>> spain = Fact("borders", ("spain", "portugal"), 0.9)
>>> reason = Reason("borders('spain', 'portugal')", "borders(s2, s1)", 2.4, 10, 1.0, (spain,))
>>> parts = Decomposition(-2.0, OtherFormulas(3, 0.1), 0.5, -0.25, 0.25)
>>> found = Explanation(
...     "borders('portugal', 'spain')", ("x", "y"), ("portugal", "spain"), True, Estimate(0.73, 0.01, 10), (reason,),
...     parts, Counterfactual((spain,), Estimate(0.31, 0.02, 10)))
>>> print(found)
borders('portugal', 'spain'): 0.730 ± 0.010, judged as if it were not known
  +2.400  borders('spain', 'portugal')
          0.9::borders(spain, portugal).
  -2.000  base: nothing is known
  +0.100  3 other formulas
  +0.500  interactions
  -0.250  averaging over 10 draws
  +0.250  calibration
  +1.000  log-odds of 0.731
without these facts: 0.310 ± 0.020
  0.9::borders(spain, portugal).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gaifman._html import Html, bold, bullet_list, code, element, paragraph, signed_number, stack, table
from gaifman.errors import escape_unprintable, plural
from gaifman.explain.svg import Diagram, render_svg
from gaifman.kb.facts import Fact
from gaifman.models.calibration import log_odds, logistic
from gaifman.predict import Estimate, format_probability

MAX_PRINTED_FACTS = 4
"""Facts of a formula that are printed; all of them are in `as_dict`."""


@dataclass(frozen=True, slots=True)
class Reason:
    """A formula of the model that spoke for an answer, or against it."""

    formula: str
    """With the names of the objects."""
    feature: str
    """As the model has it: s1, s2 … stand for the objects."""
    effect: float
    """In log-odds: by how much they would be lower if the formula were switched off, the mean over all draws."""
    draws: int
    """Draws in which it has another value than without facts."""
    value: float
    """Its mean value in these."""
    facts: tuple[Fact, ...] = ()
    """Its witnesses in the draws, those of most draws first; none where no facts say it."""
    description: str = ""
    """The formula in [words](phrases.md), for people who read no logic."""

    @property
    def evidence(self) -> str:
        """The facts, the first of them; or its value, where no facts say it."""
        value = f"{self.value:,.0f}" if self.value.is_integer() else f"{self.value:,.4g}"
        return format_facts(self.facts) if self.facts else f"no single fact; its value is {value}"

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        own = {name: getattr(self, name) for name in ("formula", "description", "feature", "effect", "draws", "value")}
        return own | {"facts": facts_as_dicts(self.facts)}


@dataclass(frozen=True, slots=True)
class OtherFormulas:
    """Formulas that are not shown."""

    count: int
    effect: float
    """The sum of their effects."""


@dataclass(frozen=True, slots=True)
class Decomposition:
    """What adds up with the effects of formulas to the log-odds of the probability."""

    base: float
    """Of a neighbourhood in which no formula says anything."""
    others: OtherFormulas
    interactions: float
    """What formulas do together beyond what each does alone: their effects are found by switching off one at a time."""
    averaging: float
    """The mean of probabilities over draws has other log-odds than the mean of their log-odds."""
    calibration: float
    """What [calibration](calibration.md) adds, for the corruptions that training saw above all."""

    def labelled(self, draws: int) -> Iterator[tuple[str, float]]:
        """Each with words for it."""
        yield "base: nothing is known", self.base
        if self.others.count:
            yield plural(self.others.count, "other formula"), self.others.effect
        yield "interactions", self.interactions
        yield f"averaging over {plural(draws, 'draw')}", self.averaging
        yield "calibration", self.calibration

    @property
    def total(self) -> float:
        """Their sum."""
        return self.base + self.others.effect + self.interactions + self.averaging + self.calibration

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        own = {name: getattr(self, name) for name in ("base", "interactions", "averaging", "calibration")}
        return own | {"others": {"count": self.others.count, "effect": self.others.effect}}


@dataclass(frozen=True, slots=True)
class Counterfactual:
    """What would be said if some facts were not known."""

    facts: tuple[Fact, ...]
    estimate: Estimate
    """By the same seed."""

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"facts": facts_as_dicts(self.facts), **estimate_as_dict(self.estimate)}


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why an answer is as probable as a model says. In a notebook it shows itself, with a picture."""

    query: str
    """What is said to be so, with the names of the objects."""
    variables: tuple[str, ...]
    objects: tuple[str, ...]
    """What the variables of the model's query stand for."""
    known: bool
    """Whether it is an answer by what is known."""
    estimate: Estimate
    """What `model.probability` says."""
    reasons: tuple[Reason, ...]
    """The formulas of the largest effects, largest first, for and against."""
    parts: Decomposition
    counterfactual: Counterfactual | None = None
    """None where no facts were found that the probability hangs on."""
    diagram: Diagram | None = field(default=None, repr=False)
    """One of the drawn neighbourhoods, to be drawn as a picture."""
    hidden: bool = True
    """Of a known answer: whether facts that make it so were hidden. Numbers, and what is not so, cannot be."""

    @property
    def known_note(self) -> str:
        """How a known answer was judged, in words; nothing for others."""
        if not self.known:
            return ""
        return (
            "judged as if it were not known" if self.hidden else "known by what cannot be hidden, and judged with that"
        )

    @property
    def probability(self) -> float:
        """How probable the answer is."""
        return self.estimate.value

    @property
    def log_odds(self) -> float:
        """The sum of all effects and parts: the log-odds of the probability."""
        return self.parts.total + sum(reason.effect for reason in self.reasons)

    @property
    def counterfactual_text(self) -> str:
        """The probability without the facts it hangs on; in log-odds too where it is written alike."""
        other = self.counterfactual
        if other is None:
            return NO_COUNTERFACTUAL
        if str(other.estimate) != str(self.estimate):
            return str(other.estimate)
        return (
            f"{other.estimate} (log-odds {float(log_odds(other.estimate.value)):+.2f} instead of {self.log_odds:+.2f})"
        )

    @property
    def supporting(self) -> tuple[Reason, ...]:
        """Reasons that raise the probability."""
        return tuple(reason for reason in self.reasons if reason.effect > 0)

    @property
    def opposing(self) -> tuple[Reason, ...]:
        """Reasons that lower it."""
        return tuple(reason for reason in self.reasons if reason.effect < 0)

    def __str__(self) -> str:
        lines = [f"{escape_unprintable(self.query)}: {self.estimate}{f', {self.known_note}' if self.known else ''}"]
        for reason in self.reasons:
            lines.append(f"  {reason.effect:+.3f}  {escape_unprintable(reason.formula)}")
            lines.append(f"{'':10}{reason.evidence}")
        lines += [f"  {effect:+.3f}  {words}" for words, effect in self.parts.labelled(self.estimate.draws)]
        lines.append(f"  {self.log_odds:+.3f}  log-odds of {format_probability(float(logistic(self.log_odds)))}")
        if self.counterfactual is None:
            return "\n".join([*lines, NO_COUNTERFACTUAL])
        lines.append(f"without these facts: {self.counterfactual_text}")
        return "\n".join([*lines, *(f"  {escape_unprintable(str(fact))}" for fact in self.counterfactual.facts)])

    def as_dict(self) -> dict[str, Any]:
        """For JSON: all of it but the picture."""
        return {
            "query": self.query,
            "variables": dict(zip(self.variables, self.objects, strict=True)),
            "known": self.known,
            "hidden": self.known and self.hidden,
            **estimate_as_dict(self.estimate),
            "log_odds": self.log_odds,
            "reasons": [reason.as_dict() for reason in self.reasons],
            "parts": self.parts.as_dict(),
            "counterfactual": self.counterfactual.as_dict() if self.counterfactual else None,
        }

    def svg(self) -> str:
        """A picture of one of the drawn neighbourhoods, in which the witnesses stand out."""
        return render_svg(self.diagram) if self.diagram else ""

    def _repr_html_(self) -> str:
        return render_html(self)


NO_COUNTERFACTUAL = "no facts were found that it hangs on"


def format_facts(facts: tuple[Fact, ...], limit: int = MAX_PRINTED_FACTS) -> str:
    """Facts in a line, the first of them."""
    shown = " ".join(escape_unprintable(str(fact)) for fact in facts[:limit])
    rest = f" … and {len(facts) - limit:,} more" if len(facts) > limit else ""
    return shown + rest


def facts_as_dicts(facts: Iterable[Fact]) -> list[dict[str, Any]]:
    """Facts for JSON."""
    return [{"relation": f.relation, "objects": list(f.objects), "confidence": f.confidence} for f in facts]


def estimate_as_dict(estimate: Estimate) -> dict[str, Any]:
    """A probability for JSON: an error that is not known, of a single draw, is null."""
    error = None if np.isnan(estimate.error) else estimate.error
    return {"probability": estimate.value, "standard_error": error, "draws": estimate.draws}


# In a notebook


def render_html(explanation: Explanation) -> str:
    """What there is to say, a table and the picture; every name is escaped."""
    rows = [(signed_number(reason.effect), code(reason.formula), reason.evidence) for reason in explanation.reasons]
    parts = explanation.parts.labelled(explanation.estimate.draws)
    rows += [(signed_number(effect), element("i", words), "") for words, effect in parts]
    rows.append(
        (signed_number(explanation.log_odds), bold(f"log-odds of {format_probability(explanation.probability)}"), "")
    )
    known = f", {explanation.known_note}" if explanation.known else ""
    other = explanation.counterfactual
    last = paragraph(NO_COUNTERFACTUAL)
    if other:
        facts = bullet_list(code(fact) for fact in other.facts)
        last = element("div", "without these facts: ", bold(explanation.counterfactual_text), facts)
    return stack(
        paragraph(code(explanation.query), ": ", bold(explanation.estimate), known),
        table(("log-odds", "formula", "facts"), rows),
        last,
        Html(explanation.svg()),
    )

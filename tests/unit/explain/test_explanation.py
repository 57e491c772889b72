"""Explanations as text, JSON and HTML; every name is escaped."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest

from gaifman.explain.explanation import (
    NO_COUNTERFACTUAL,
    Counterfactual,
    Decomposition,
    Explanation,
    OtherFormulas,
    Reason,
    format_facts,
)
from gaifman.explain.svg import Diagram
from gaifman.kb.knowledge_base import Fact
from gaifman.models.calibration import log_odds
from gaifman.predict import Estimate

BORDERS = Fact("borders", ("spain", "portugal"), 0.9)
FOR = Reason("borders('spain', 'portugal')", "borders(s2, s1)", 2.5, 10, 1.0, (BORDERS,))
AGAINST = Reason("area('spain')", "area(s2)", -0.5, 8, 505_990.0)
PARTS = Decomposition(-2.0, OtherFormulas(3, 0.25), 0.5, -0.25, 1.5)
EXPLANATION = Explanation(
    "borders('portugal', 'spain')",
    ("x", "y"),
    ("portugal", "spain"),
    True,
    Estimate(0.8808, 0.01, 10),
    (FOR, AGAINST),
    PARTS,
    Counterfactual((BORDERS,), Estimate(0.31, 0.02, 10)),
    Diagram("borders('portugal', 'spain')", "", ("portugal", "spain"), ("portugal", "spain"), (BORDERS,), {BORDERS: 1}),
)


def test_the_parts_add_up() -> None:
    assert EXPLANATION.log_odds == 2.0 == FOR.effect + AGAINST.effect + sum(effect for _, effect in PARTS.labelled(10))
    assert (EXPLANATION.supporting, EXPLANATION.opposing) == ((FOR,), (AGAINST,))
    assert EXPLANATION.probability == 0.8808


def test_as_text() -> None:
    lines = str(EXPLANATION).splitlines()
    assert lines[0] == "borders('portugal', 'spain'): 0.881 ± 0.010, scored as if it were not known"
    assert lines[1:3] == ["  +2.500  borders('spain', 'portugal')", "          0.9::borders(spain, portugal)."]
    assert lines[4] == "          no single fact; its value is 505,990"
    assert "  +0.250  3 other formulas" in lines
    assert "  +2.000  log-odds of 0.881" in lines
    assert lines[-2:] == ["without these facts: 0.310 ± 0.020", "  0.9::borders(spain, portugal)."]


def test_without_other_formulas_and_decisive_facts() -> None:
    explanation = replace(
        EXPLANATION, parts=replace(PARTS, others=OtherFormulas(0, 0.0)), counterfactual=None, known=False, diagram=None
    )
    assert "other" not in str(explanation)
    assert "scored as if" not in str(explanation)
    assert str(explanation).splitlines()[-1] == NO_COUNTERFACTUAL
    assert explanation.as_dict()["counterfactual"] is None
    assert explanation.svg() == ""
    assert NO_COUNTERFACTUAL in explanation._repr_html_()


def test_as_json() -> None:
    body = json.loads(json.dumps(EXPLANATION.as_dict()))
    assert set(body) == {
        *("query", "variables", "known", "hidden", "probability", "standard_error", "draws", "log_odds"),
        *("conflicts", "covered", "uncovered_reason", "reasons", "parts", "counterfactual"),
    }
    assert body["variables"] == {"x": "portugal", "y": "spain"}
    fact = {"relation": "borders", "objects": ["spain", "portugal"], "confidence": 0.9}
    assert body["reasons"][0] == {
        "kind": "formula",
        "formula": "borders('spain', 'portugal')",
        "description": "",
        "feature": "borders(s2, s1)",
        "effect": 2.5,
        "draws": 10,
        "value": 1.0,
        "facts": [fact],
    }
    assert body["parts"] == {
        "base": -2.0,
        "interactions": 0.5,
        "averaging": -0.25,
        "calibration": 1.5,
        "competition": None,
        "others": {"count": 3, "effect": 0.25},
    }
    assert body["counterfactual"] == {"facts": [fact], "probability": 0.31, "standard_error": 0.02, "draws": 10}
    assert Estimate(0.5, float("nan"), 1).as_dict()["standard_error"] is None


def test_many_facts_are_counted() -> None:
    facts = tuple(Fact("r", (f"o{i}",)) for i in range(7))
    assert format_facts(facts) == "r(o0). r(o1). r(o2). r(o3). … and 3 more"


def test_in_a_notebook() -> None:
    page = EXPLANATION._repr_html_()
    ET.fromstring(page)  # well-formed
    assert page.count("<svg") == 1
    assert "without these facts: <b>0.310 ± 0.020</b>" in page
    assert "0.9::borders(spain, portugal)." in page
    assert "+2.500" in page


@pytest.mark.parametrize("bad", ["<b>bold</b>", "<img src=x onerror=alert(1)>", "a&b", "\x07bell", "\u202eleft", "\"'"])
def test_every_name_is_escaped(bad: str) -> None:
    fact = Fact(bad, (bad, bad))
    reason = Reason(bad, bad, 1.0, 1, 1.0, (fact,))
    scene = Diagram(bad, bad, (bad,), (bad,), (fact,), {fact: 1})
    other = Counterfactual((fact,), Estimate(0.1, 0.0, 2))
    explanation = Explanation(bad, ("x",), (bad,), False, Estimate(0.5, 0.0, 2), (reason,), PARTS, other, scene)
    page = explanation._repr_html_()
    ET.fromstring(page)
    for text in (page, explanation.svg()):
        assert not re.search(r"<(b>bold|img)", text)
        assert "\x07" not in text
        assert "\u202e" not in text
    assert "\x07" not in str(explanation)


def test_a_small_change_is_shown_in_log_odds() -> None:
    low, lower = 0.0001, 0.00001
    parts = Decomposition(float(log_odds(low)), OtherFormulas(0, 0.0), 0.0, 0.0, 0.0)
    other = Counterfactual((Fact("r", ("a", "b")),), Estimate(lower, 0.0, 10))
    found = Explanation("r('a', 'b')", ("x", "y"), ("a", "b"), False, Estimate(low, 0.0, 10), (), parts, other)
    assert found.counterfactual_text == "<0.001 ± 0.000 (log-odds -11.51 instead of -9.21)"
    assert "without these facts: <0.001 ± 0.000 (log-odds" in str(found)

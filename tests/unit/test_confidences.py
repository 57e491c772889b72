"""Confidences when answering: uncertain evidence counts as much as it is certain, on every path."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import gaifman
from gaifman.kb.knowledge_base import Fact, KnowledgeBase
from gaifman.logic.ast import relation_query
from gaifman.model import GaifmanModel
from trained import FEW, GOOD, untrained_predictor

TOWNS = 6


@cache
def guests(*, doubt: float = 1.0) -> KnowledgeBase:
    """Who stays in a town likes it, and nobody else does: one rule decides.

    The stay of the last guest has the confidence `doubt`, and whether they like it is not known.
    """
    facts = []
    for i in range(60):
        person, town = f"p{i:02d}", f"t{i % TOWNS}"
        facts += [Fact("person", (person,)), Fact("stays", (person, town), 1.0 if i < 59 else doubt)]
        if i < 59:
            facts.append(Fact("likes", (person, town)))
    return KnowledgeBase.from_facts(facts)


@cache
def model() -> GaifmanModel:
    return gaifman.fit(guests(), "likes(x, y)", **{**GOOD, "draws": 200})


GUEST, TOWN, OTHER = "p59", f"t{59 % TOWNS}", "t0"


def likes(doubt: float, town: str = TOWN) -> float:
    return model().with_kb(guests(doubt=doubt)).probability(GUEST, town).value


def test_evidence_of_confidence_0_1_moves_a_probability_far_less_than_certain_evidence() -> None:
    none, all_ = likes(1.0, OTHER), likes(1.0)
    assert none < 0.1
    assert all_ > 0.9
    found = [likes(doubt) for doubt in (0.1, 0.5, 0.9, 1.0)]
    assert found == sorted(found)
    assert found[0] - none < 0.2 * (all_ - none)


def test_every_path_to_an_answer_sees_the_same_worlds() -> None:
    """The ranking, with and without a first pass, the explanation and the probability of one tuple agree to the bit."""
    own = model().with_kb(guests(doubt=0.3))
    expected = own.probability(GUEST, TOWN)
    ranked = {answer.names: answer.estimate for answer in own.answers(x=GUEST, top=None)}
    assert ranked[TOWN,] == expected
    assert own.explain(GUEST, TOWN).estimate == expected
    both = own.probabilities([(GUEST, OTHER), (GUEST, TOWN)])
    assert both[1] == expected


def test_an_explanation_shows_uncertain_facts_of_draws_in_which_they_are_present() -> None:
    own = model().with_kb(guests(doubt=0.3))
    reason = next(r for r in own.explain(GUEST, TOWN).reasons if r.feature == "stays(s1, s2)")
    assert 0.15 < reason.draws / 200 < 0.45, "present in three of ten draws"
    assert reason.facts == (Fact("stays", (GUEST, TOWN), 0.3),)


def test_a_known_fact_that_is_asked_about_is_hidden_whatever_its_confidence() -> None:
    known = [*guests(doubt=1.0).facts(), Fact("stays", ("zoe", OTHER), 0.5)]
    values = []
    for confidence in (0.2, 1.0):
        kb = KnowledgeBase.from_facts([*known, Fact("likes", (GUEST, TOWN), confidence)])
        values.append(model().with_kb(kb).probability(GUEST, TOWN))
    assert values[0] == values[1]


def test_confidences_of_1_give_the_model_and_the_answers_of_no_confidences() -> None:
    kb = guests()
    again = KnowledgeBase.from_facts([Fact(f.relation, f.objects, 1.0) for f in kb.facts()])
    bare = KnowledgeBase.from_facts([(f.relation, *f.objects) for f in kb.facts()])
    one, other = (gaifman.fit(each, "likes(x, y)", **FEW) for each in (again, bare))
    assert str(one.answers(x=GUEST, top=None)) == str(other.answers(x=GUEST, top=None))
    assert one.meta == other.meta


def test_threads_do_not_change_a_model_of_uncertain_facts() -> None:
    one, two = (gaifman.fit(guests(doubt=0.5), "likes(x, y)", threads=n, **FEW) for n in (1, 2))
    assert one.probability(GUEST, TOWN) == two.probability(GUEST, TOWN)
    assert one.meta == two.meta


@pytest.mark.parametrize("doubt", [0.25, 1.0])
def test_the_fallback_expects_uncertain_facts(doubt: float) -> None:
    """(m + ½) / (arity + 1), where m is the expected number of objects that another fact has at their position."""
    facts = [Fact("r", ("a", "b"), doubt), Fact("r", ("a", "c"), 0.5), Fact("r", ("d", "b"))]
    predictor = untrained_predictor(KnowledgeBase.from_facts(facts), relation_query("r", 2))
    rows = [("a", "b"), ("a", "d"), ("b", "c"), ("d", "b"), ("d", "a")]
    found = predictor.probabilities(rows, predictor.budget(1)).values
    seen = [0.5 + 1, 1 - (1 - doubt) * 0.5, 0.5, 0 + doubt, 1 + 0]
    assert np.allclose(found, [(m + 0.5) / 3 for m in seen], atol=1e-12)


def test_few_facts_without_a_fitted_calibration_keep_the_weight_of_worlds() -> None:
    """The correction for the class ratio acts on each world: after the mean it would treble 0.1."""
    kb = KnowledgeBase.from_facts([f for f in guests().facts() if f.objects[0] < "p30"])
    few = gaifman.fit(kb, "likes(x, y)", **{**GOOD, "draws": 400})
    assert not few.calibration.fitted
    none, some, all_ = (
        few.with_kb(kb.with_facts([Fact("stays", ("zoe", "t1"), c), Fact("person", ("zoe",))]))
        .probability("zoe", town)
        .value
        for c, town in ((1.0, "t2"), (0.1, "t1"), (1.0, "t1"))
    )
    assert some - none < 0.2 * (all_ - none)

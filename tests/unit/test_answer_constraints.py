"""Constraints act on answers: on probabilities, rankings, explanations and saved models, and can be switched off."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

import gaifman
from constrained import COUNTRIES, DECLARED, completed, countries, model
from gaifman.errors import ArgumentError, InputError
from gaifman.io.model_file import write_model
from gaifman.kb.knowledge_base import Fact, KnowledgeBase
from gaifman.models.calibration import log_odds
from gaifman.ranking import ranked_answers as ranking
from gaifman.sampling.constraints import lower, parse_constraints
from trained import FEW, demo, same


def messages(answer: gaifman.Answer) -> list[str]:
    return [str(conflict) for conflict in answer.conflicts]


# Functional relations


@pytest.mark.parametrize(
    ("base", "without", "country", "capital", "second"),
    [("mlp", 0.5, "turkey", "ankara", "istanbul"), ("listwise", 0.0, "france", "paris", "strasbourg")],
)
def test_a_second_capital_is_improbable_because_the_first_is_known(
    base: str, without: float, country: str, capital: str, second: str
) -> None:
    """Ranked lists learn by themselves that a second capital is rare."""
    kb, options = demo(), {"epochs": 2} if base == "mlp" else {}
    rules = parse_constraints("functional: capital 1->2", kb)
    found = gaifman.complete(kb, ["capital"], constraints=rules, base=base, options=options)
    alone = found.probability("capital", country, second, constraints=False).value
    assert alone > without
    assert found.probability("capital", country, second).value < 0.02 * alone
    ranked = found.answers(f"capital('{country}', y)", top=2)
    assert [answer.names for answer in ranked] == [(capital,), (second,)]
    assert ranked[0].probability > 0.5
    conflict = f"conflicts with capital({country}, {capital})"
    assert messages(ranked[1]) == [conflict]
    reason = found.explain("capital", country, second).reasons[0]
    assert (reason.kind, reason.formula) == ("constraint", "functional: capital 1→2")
    assert reason.evidence == f"{conflict}; the constraint holds for 197 of 197 known facts"


def test_a_known_answer_does_not_conflict_with_itself() -> None:
    assert completed().probability("capital", "country03", "first03").value > 0.5
    assert model().answers(x="country03", top=1)[0].conflicts == ()


def test_the_first_capital_stays_probable() -> None:
    last = f"{COUNTRIES - 1}"
    plain = completed().probability("capital", f"country{last}", f"first{last}", constraints=False)
    assert completed().probability("capital", f"country{last}", f"first{last}") == plain
    assert plain.value > 0.5


def test_the_rate_of_known_exceptions_is_the_limit() -> None:
    """A country with two capitals makes other second capitals less improbable, but not its own."""
    kb = countries(("capital", "country00", "second00"))
    found = completed().with_kb(kb)
    limit = (2 + 0.5) / (COUNTRIES + 1)
    plain = found.probability("capital", "country05", "second05", constraints=False)
    value = found.probability("capital", "country05", "second05")
    assert value.value == pytest.approx(plain.value * limit, rel=1e-12)
    assert value.error == pytest.approx(plain.error * limit, rel=1e-12)
    own = found.probability("capital", "country00", "second00").value
    unknown = found.probability("capital", "country00", "second00", constraints=False).value
    assert own == pytest.approx(unknown * 0.5 / COUNTRIES, rel=1e-12)  # scored as if it were not known


def test_an_uncertain_fact_is_an_uncertain_conflict() -> None:
    last = COUNTRIES - 1
    kb = countries(Fact("capital", (f"country{last}", f"second{last}"), 0.1))
    found = completed().with_kb(kb)
    plain = found.probability("capital", f"country{last}", f"first{last}", constraints=False).value
    value = found.probability("capital", f"country{last}", f"first{last}").value
    assert value == pytest.approx(plain * (0.9 + 0.1 * 0.5 / (COUNTRIES + 1)), rel=1e-12)


# Types of positions


def test_objects_without_the_type_of_a_position_are_not_proposed() -> None:
    names = {answer.names[0] for answer in completed().answers("capital('country39', y)", top=None)}
    assert "second39" in names
    assert not names & {"nile", "country00", "country39"}
    every = completed().answers("capital('country39', y)", top=None, candidates="all")
    assert len(every) == len(countries().objects)
    river = next(answer for answer in every if answer.names == ("nile",))
    assert messages(river) == ["nile is not of type city"]
    assert not next(answer for answer in every if answer.names == ("atlantis",)).conflicts  # it has no type at all


def test_a_known_answer_of_another_type_is_shown() -> None:
    found = completed().with_kb(countries(("capital", "country39", "nile")))
    answers = {answer.names[0]: answer for answer in found.answers("capital('country39', y)", top=None)}
    assert answers["nile"].known
    assert messages(answers["nile"]) == ["nile is not of type city"]
    assert "nile" not in {answer.names[0] for answer in found.answers("capital('country38', y)", top=None)}


def test_named_objects_are_ranked_with_their_conflicts() -> None:
    chosen = {"y": ["nile", "second03", "country03"]}
    found = completed().answers("capital('country03', y)", restrict_to=chosen)
    assert len(found) == 3
    assert all(answer.conflicts for answer in found)
    assert len(completed().answers("capital('country39', y)", restrict_to={"y": "river"})) == 1


def test_a_type_that_the_knowledge_base_does_not_use_excludes_nothing() -> None:
    kb = countries().without_facts(list(countries().facts("city")))
    other = completed().with_kb(kb)
    assert other.probability("capital", "country39", "nile") == other.probability(
        "capital", "country39", "nile", constraints=False
    )


# The same object twice


def test_a_loop_is_never_proposed_where_no_fact_has_one() -> None:
    found = completed().answers("near(x, y)", top=None)
    assert all(len(set(answer.names)) == 2 for answer in found)
    assert (found.considered.count, found.considered.left_out) == (COUNTRIES * (COUNTRIES - 1), COUNTRIES)
    assert "40 left out by constraints" in str(found)
    one = completed().answers("near('country03', y)", top=None)
    assert (one.considered.count, one.considered.left_out) == (COUNTRIES - 1, 1)
    every = completed().answers("near('country03', y)", top=None, candidates="all")
    assert (len(every), every.considered.left_out) == (len(countries().objects), 0)


def test_a_loop_is_improbable_if_asked_for() -> None:
    for answers in (completed().answers("near('country03', 'country03')"), completed().answers("near(x, x)")):
        assert "no known fact has the form near(x, x)" in messages(answers[0])
        assert answers[0].probability < 0.5 / COUNTRIES


def test_loops_are_proposed_where_a_fact_has_one() -> None:
    found = completed().with_kb(countries(("near", "country05", "country05")))
    assert ("country03",) in {answer.names for answer in found.answers("near('country03', y)", top=None)}
    loop = "no known fact has the form near(x, x)"
    assert loop not in messages(found.answers("near('country03', 'country03')")[0])
    assert loop in messages(found.answers("near('country05', 'country05')")[0])  # as if it were not known
    assert ("country05",) in {answer.names for answer in found.answers("near('country05', y)", top=None)}


def test_positions_of_a_triple_whose_objects_never_coincide() -> None:
    facts = [("gave", f"p{i}", f"p{i + 1}", f"p{i}") for i in range(20)]
    found = gaifman.complete(KnowledgeBase.from_facts(facts), ["gave"], **FEW)
    names = [answer.names for answer in found.answers("gave(x, y, z)", top=None)]
    assert all(x != y != z for x, y, z in names)
    assert any(x == z for x, _, z in names)
    conflicts = found.answers("gave('p1', 'p1', 'p2')")[0].conflicts
    assert str(conflicts[-1]) == "no known fact has the form gave(x, x, _)"
    assert conflicts[-1].constraint == "irreflexive: gave 1,2"


# One number everywhere


def test_rankings_probabilities_and_explanations_agree() -> None:
    found = completed().answers("capital('country03', y)", top=None, candidates="all")
    assert same(found.estimates, completed().probabilities("capital", found.tuples))
    for name in ("first03", "second03", "nile", "country03"):
        explained = completed().explain("capital", "country03", name)
        assert explained.estimate == completed().probability("capital", "country03", name)
        assert explained.log_odds == pytest.approx(float(log_odds(explained.probability)), abs=1e-9)


def test_the_first_pass_respects_constraints(monkeypatch: pytest.MonkeyPatch) -> None:
    """The shortlist would be full of second capitals."""
    every = completed().answers("capital(x, y)", top=None, known="exclude")
    whole = completed().answers("capital(x, 'first03')", top=None, known="exclude", candidates="all")
    for name, value in (("MAX_FULL_DRAWS", 0), ("MIN_SHORTLIST", 3), ("SHORTLIST_PER_ANSWER", 3)):
        monkeypatch.setattr(ranking, name, value)
    some = completed().answers("capital(x, y)", top=1, known="exclude")
    assert some.considered.first_pass_draws
    assert some[0] == every[0]
    assert some[0].names == ("country39", "first39")
    one = completed().answers("capital(x, 'first03')", top=1, known="exclude", candidates="all")
    assert "functional: capital 1→2" not in {conflict.constraint for conflict in one[0].conflicts}
    assert one[0].probability > np.median(whole.probabilities)


def test_constraints_can_be_switched_off() -> None:
    plain = model().answers(x="country03", top=None, candidates="all", constraints=False)
    assert not any(answer.conflicts for answer in plain)
    assert same(plain.estimates, model().probabilities(plain.tuples, constraints=False))
    explained = model().explain("country03", "second03", constraints=False)
    assert {reason.kind for reason in explained.reasons} == {"formula"}
    assert explained.probability == model().probability("country03", "second03", constraints=False).value
    everyone = completed().answers("near(x, y)", top=None, constraints=False)
    assert any(len(set(answer.names)) == 1 for answer in everyone)


# Explanations


def test_an_explanation_names_the_conflict_and_adds_up() -> None:
    found = model().explain("country03", "second03")
    reason = found.reasons[0]
    assert reason.kind == "constraint"
    assert found.opposing[0] == reason
    assert [str(fact) for fact in reason.facts] == ["capital(country03, first03)."]
    plain = model().probability("country03", "second03", constraints=False).value
    assert reason.effect == pytest.approx(float(log_odds(found.probability) - log_odds(plain)), abs=1e-9)
    assert "conflicts with capital(country03, first03); the constraint holds for 39 of 39 known facts" in str(found)


def test_without_the_first_capital_the_second_is_as_probable_as_the_model_finds_it() -> None:
    found = model().explain("country03", "second03")
    assert found.counterfactual is not None
    assert [str(fact) for fact in found.counterfactual.facts] == ["capital(country03, first03)."]
    other = model().with_kb(countries().without_facts([("capital", "country03", "first03")]))
    assert found.counterfactual.estimate == other.probability("country03", "second03")
    assert found.diagram is not None
    assert found.diagram.highlighted.get(Fact("capital", ("country03", "first03")), -1) == -1


# Heads, files, edges


def test_the_head_of_a_query_can_be_functional() -> None:
    kb = countries()
    query = "home(x, y) :- exists z. capital(y, z) & in(x, y)"
    constraints = parse_constraints("functional: home 1→2", kb, query=gaifman.parse_query(query))
    found = gaifman.fit(kb, query, constraints=constraints, **FEW)
    [conflict] = found.answers(x="second03", restrict_to={"y": ["country05"]})[0].conflicts
    assert str(conflict) == "conflicts with home(second03, country03)"
    explained = found.explain("second03", "country05")
    assert explained.reasons[0].kind == "constraint"
    assert explained.log_odds == pytest.approx(float(log_odds(explained.probability)), abs=1e-9)


@pytest.mark.parametrize("kind", ["model", "completion"])
def test_a_saved_model_keeps_its_constraints(kind: str, tmp_path: Path) -> None:
    made = model() if kind == "model" else completed()
    made.save(tmp_path / "m.gaifman")
    loaded = gaifman.load(tmp_path / "m.gaifman", countries())
    assert loaded.constraints == made.constraints == parse_constraints(DECLARED)
    query = "capital('country03', y)"
    assert str(loaded.answers(query, top=3)) == str(made.answers(query, top=3))
    assert "conflicts with capital(country03, first03)" in str(loaded.answers(query, top=3))


def test_the_model_of_one_relation_keeps_the_constraints() -> None:
    alone = completed().model("capital")
    assert alone.probability("country03", "second03") == completed().probability("capital", "country03", "second03")


def test_a_model_without_constraints_says_nothing_of_them() -> None:
    found = gaifman.fit(countries(), "capital(x, y)", **FEW)
    assert "constraints" not in found.meta
    assert found.constraints == parse_constraints("")


@pytest.mark.parametrize("text", ["functional: capital 1", ["x"]])
def test_damaged_constraints_of_a_file_are_found_when_it_is_loaded(text: object, tmp_path: Path) -> None:
    arrays, meta = model().state()
    write_model(tmp_path / "m.gaifman", arrays, meta | {"constraints": text})
    with pytest.raises(InputError):
        gaifman.load(tmp_path / "m.gaifman")


def test_a_relation_without_a_trained_model_has_constraints_too() -> None:
    kb = countries(("mayor", "first00", "ann"))
    found = gaifman.complete(kb, ["mayor"], constraints=parse_constraints("functional: mayor 1→2", kb), **FEW)
    plain = found.probability("mayor", "first00", "nile", constraints=False).value
    assert found.probability("mayor", "first00", "nile").value == plain * 0.25


def test_a_relation_without_facts_has_no_found_constraints() -> None:
    kb = countries().without_facts(list(countries().facts("near")))
    checker = completed().with_kb(kb).predictor("near").constraints
    assert checker is not None
    assert checker.conflicts(np.zeros((1, 2), np.int32)) == ()


# Constraints that are found in the data


@pytest.mark.parametrize("found", [5, ["x"], [{"constraint": ""}], [{"constraint": "symmetric: r", "holds": 1}]])
def test_damaged_found_constraints_of_a_file_are_found_when_it_is_loaded(found: object, tmp_path: Path) -> None:
    arrays, meta = model().state()
    write_model(tmp_path / "m.gaifman", arrays, meta | {"found_constraints": found})
    with pytest.raises(InputError):
        gaifman.load(tmp_path / "m.gaifman")


@cache
def found_only() -> gaifman.Completion:
    """A completion without declared constraints."""
    return gaifman.complete(countries(), ["capital", "near"])


def test_found_constraints_act_on_answers() -> None:
    found = {str(one.constraint): one.evidence for one in found_only().found_constraints}
    assert found["functional: capital 1→2"] == "39 of 39 countries have one capital"
    [second] = found_only().answers("capital('country03', y)", restrict_to={"y": ["second03"]})
    assert messages(second) == ["conflicts with capital(country03, first03)"]
    assert second.conflicts[0].found
    assert second.conflicts[0].evidence == "holds for 39 of 39 known facts"
    assert second.conflicts[0].facts == (Fact("capital", ("country03", "first03")),)
    assert second.probability <= 0.5 / 40


def test_found_constraints_limit_what_the_model_finds_probable_and_keep_the_order() -> None:
    """The odds against both: what is improbable already is hardly changed."""
    plain = found_only().answers("capital('country03', y)", top=None, constraints=False, known="exclude")
    ranked = found_only().answers("capital('country03', y)", top=None, known="exclude")
    before = {answer.names: answer.probability for answer in plain}
    for answer in ranked:
        p = before[answer.names]
        for conflict in answer.conflicts:
            assert lower(p, conflict) == pytest.approx(1 / (1 / p + 1 / conflict.factor - 1))
            p = lower(p, conflict)
        assert answer.probability == pytest.approx(p, rel=1e-9)
    alike = [answer for answer in ranked if len(answer.conflicts) == 1]
    assert [before[answer.names] for answer in alike] == sorted((before[one.names] for one in alike), reverse=True)


def test_found_constraints_can_be_switched_off(tmp_path: Path) -> None:
    model = gaifman.complete(countries(), ["near"], constraints="none")
    assert model.found_constraints == ()
    model.save(tmp_path / "near.gaifman")
    for one in (model, gaifman.load(tmp_path / "near.gaifman", countries())):
        found = one.answers("near('country03', y)", top=None)
        assert found.considered.left_out == 0
        assert not any(answer.conflicts for answer in found)


def test_a_saved_model_keeps_what_was_found(tmp_path: Path) -> None:
    found_only().save(tmp_path / "found.gaifman")
    loaded = gaifman.load(tmp_path / "found.gaifman", countries())
    assert loaded.found_constraints == found_only().found_constraints
    assert loaded.answers("near('country03', y)").as_dict() == found_only().answers("near('country03', y)").as_dict()


def test_a_file_declares_more_and_replaces_what_is_found(tmp_path: Path) -> None:
    path = tmp_path / "mine.constraints"
    path.write_text("functional: capital 1→2\ninverse-functional: near\n")
    both = gaifman.complete(countries(), ["capital"], constraints=path)
    conflicts = both.answers("capital('country03', y)", restrict_to={"y": ["first05"]})[0].conflicts
    assert [(conflict.constraint, conflict.found) for conflict in conflicts] == [
        ("functional: capital 1→2", False),
        ("functional: capital 2→1", True),
    ]
    assert both.constraints.to_text() == "functional: capital 1→2\nfunctional: near 2→1\n"


def test_what_is_given_for_constraints_must_exist() -> None:
    with pytest.raises(InputError, match="cannot read lost"):
        gaifman.complete(countries(), ["near"], constraints="lost.constraints")
    with pytest.raises(ArgumentError):
        gaifman.fit(countries(), "near(x, y)", constraints=5)  # type: ignore[arg-type]


def test_a_single_probability_and_an_explanation_name_the_conflict() -> None:
    estimate = found_only().probability("capital", "country03", "second03")
    assert [str(conflict) for conflict in estimate.conflicts] == ["conflicts with capital(country03, first03)"]
    assert str(estimate).endswith("(conflicts with capital(country03, first03))")
    assert "conflicts with" not in str(found_only().probability("capital", "country03", "second03", constraints=False))
    explained = found_only().explain("capital", "country03", "second03")
    assert explained.conflicts == estimate.conflicts
    assert explained.as_dict()["conflicts"][0]["facts"][0]["objects"] == ["country03", "first03"]
    assert explained.log_odds == pytest.approx(float(log_odds(explained.probability)), abs=1e-9)


# What the model has to go on


def test_answers_that_nothing_speaks_for_say_so() -> None:
    """No formula leads to atlantis, which no fact names."""
    found = found_only().answers("capital('country39', y)", top=None, candidates="all")
    atlantis = next(answer for answer in found if answer.names == ("atlantis",))
    assert atlantis.uncovered_reason == (
        "no formula reaches it, and country39 was never seen at position 1, and atlantis was never seen at position 2"
    )
    assert not atlantis.covered
    assert atlantis.as_dict()["covered"] is False
    assert "little to go on: no formula reaches it" in str(found)
    first = next(answer for answer in found if answer.names == ("first39",))
    assert first.covered
    assert found_only().explain("capital", "country39", "atlantis").uncovered_reason == atlantis.uncovered_reason
    assert found_only().probability("capital", "country39", "atlantis").uncovered_reason == atlantis.uncovered_reason


def test_answers_that_nothing_speaks_for_can_be_left_out() -> None:
    every = found_only().answers("capital('country39', y)", top=None, candidates="all")
    kept = found_only().answers("capital('country39', y)", top=None, candidates="all", covered=True)
    assert [answer.names for answer in kept] == [answer.names for answer in every if answer.covered]
    assert len(kept) + kept.considered.uncovered == len(every)
    assert kept.considered.uncovered > 0
    best = found_only().answers("capital('country39', y)", top=1, candidates="all", covered=True)
    assert [answer.names for answer in best] == [answer.names for answer in kept][:1]

"""Explanations of trained models: the prediction itself, parts that add up, witnesses, counterfactuals."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

import gaifman
from gaifman.errors import KnowledgeBaseError
from gaifman.explain.explanation import MAX_COUNTERFACTUAL_FACTS, Explanation, _fact_sets_to_hide, estimate_hiding
from gaifman.features.feature_sets import parse_phi
from gaifman.kb.knowledge_base import Fact, KnowledgeBase
from gaifman.logic.parser import parse_feature
from gaifman.logic.semantics import Extension, Structure, feature_value, holds
from gaifman.model import GaifmanModel
from gaifman.models import SklearnModel
from gaifman.models.calibration import log_odds
from gaifman.models.mlp import MLP
from gaifman.sampling.neighbourhoods import draw_neighbourhoods
from gaifman.sampling.worlds import worlds_of_tuple
from reference_model import Plain
from trained import FEW, GOOD, demo, neighbour, network, towns, worker
from trained import completion_with_mayor as completed

PAIRS = (("p03", "t3"), ("p03", "t1"), ("p08", "t4"), ("t1", "p02"), ("p05", "p05"))


NEAR = "exists z. lives_in(x, z) & works_in(y, z) & x != y"
PHI = """
lives_in(s1, s2)
¬lives_in(s1, s2)
∀x works_in(x, s2) → lives_in(x, s2)
age(s1)
works_in(x, s2)
"""


def works(kb: KnowledgeBase | None = None, **given: Any) -> GaifmanModel:
    """A model whose reasons are formulas: everybody works in one town, but that is no constraint."""
    return gaifman.fit(kb or towns(), "works_in(x, y)", constraints="none", **given)


@cache
def model_of(kind: str) -> tuple[GaifmanModel, tuple[tuple[str, ...], ...]]:
    """A model of some kind, with tuples."""
    makers: dict[str, tuple[Callable[[], GaifmanModel], tuple[tuple[str, ...], ...]]] = {
        "mlp": (lambda: works(**GOOD), PAIRS),
        "demo": (neighbour, (("portugal", "spain"), ("portugal", "japan"), ("chad", "niger"))),
        "logistic": (lambda: works(base="logistic", **_no_options()), PAIRS),
        "plain": (lambda: works(base=Plain(), **_no_options()), PAIRS),
        "classifier": (lambda: works(base=SklearnModel(LogisticRegression()), **_no_options()), PAIRS),
        "type": (lambda: gaifman.fit(towns(), "person(x)", **GOOD), (("p03",), ("t1",))),
        "query": (lambda: gaifman.fit(towns(), NEAR, **FEW), (("p03", "p08"), ("p01", "p06"), ("p01", "p02"))),
        "phi": (lambda: works(phi=parse_phi(PHI, towns()), **GOOD), PAIRS),
        "whole": (lambda: works(**{**GOOD, "size": None}), PAIRS[:2]),
        "far": (lambda: works(radius=2, **FEW), PAIRS[:2]),
        "three": (lambda: gaifman.fit(towns(), "moved(x, y, z)", **FEW), (("p03", "t0", "t3"), ("p06", "t3", "t1"))),
        "unsure": (lambda: works(towns(sure=False), **FEW), PAIRS[:2]),
    }
    make, tuples = makers[kind]
    return make(), tuples


def _no_options() -> dict[str, Any]:
    return {name: setting for name, setting in GOOD.items() if name != "options"}


KINDS = (
    *("mlp", "demo", "logistic", "plain", "classifier", "type"),
    *("query", "phi", "whole", "far", "three", "unsure"),
)


def explained(kind: str) -> list[tuple[GaifmanModel, tuple[str, ...], Explanation]]:
    model, tuples = model_of(kind)
    return [(model, names, model.explain(*names)) for names in tuples]


# The prediction


@pytest.mark.parametrize("kind", KINDS)
def test_an_explanation_has_the_probability_of_the_model(kind: str) -> None:
    for model, names, found in explained(kind):
        assert found.estimate == model.probability(*names)
        assert found.objects == names


@pytest.mark.parametrize("kind", KINDS)
def test_the_parts_add_up_to_the_probability(kind: str) -> None:
    for _, _, found in explained(kind):
        assert found.log_odds == pytest.approx(float(log_odds(found.probability)), abs=1e-9)


@settings(max_examples=25)
@given(
    st.integers(0, 39),
    st.integers(0, 4),
    st.integers(1, 15),
    st.sampled_from([None, 0.001, 0.3]),
    st.integers(1, 20),
)
def test_for_any_answer_draws_prior_and_top(person: int, town: int, draws: int, prior: float | None, top: int) -> None:
    names = (f"p{person:02d}", f"t{town}")
    found = worker().explain(*names, draws=draws, prior=prior, top=top, constraints=False)
    wanted = worker().probability(*names, draws=draws, prior=prior, constraints=False)
    assert (found.estimate.value, found.estimate.draws) == (wanted.value, draws)
    assert found.log_odds == pytest.approx(float(log_odds(found.probability)), abs=1e-9)
    assert len(found.supporting) <= top
    assert len(found.opposing) <= top


def test_more_reasons_leave_fewer_other_formulas() -> None:
    few, many = worker().explain("p03", "t3", top=1), worker().explain("p03", "t3", top=1_000)
    assert many.parts.others.count == 0
    assert many.parts.others.effect == 0
    assert few.parts.others.count == len(many.reasons) - len(few.reasons)
    assert many.parts.interactions == few.parts.interactions
    assert [reason.effect for reason in many.reasons] == sorted(
        (reason.effect for reason in many.reasons), key=lambda effect: -abs(effect)
    )


@pytest.mark.parametrize("kind", ["mlp", "logistic", "plain", "demo", "unsure", "three", "phi"])
def test_effects_of_a_prediction_equal_brute_force(kind: str) -> None:
    model, names, found = explained(kind)[0]
    predictor = network(model.predictor)
    scorer = predictor.scorer
    tuples = predictor.tuple_ids([names])
    hidden = predictor.hidden_facts(tuples)
    sampling = model.config.sampling(model.config.draws, "answer 0")
    matrix = predictor.evaluator.sample_and_evaluate(tuples, sampling, hidden)
    rows = scorer.scaler.transform(matrix)
    features = [str(predictor.evaluator.plan.features[number]) for number in scorer.scaler.features()]
    whole = scorer.base.scores(rows)
    for reason in found.reasons:
        own = [column for column, feature in enumerate(features) if feature == reason.feature]
        kept = ~np.isin(rows.columns, own)
        counts = np.add.reduceat(np.append(kept, 0), rows.starts[:-1]) * (np.diff(rows.starts) > 0)
        less = type(rows)(
            np.append(0, np.cumsum(counts)).astype(np.int64), rows.columns[kept], rows.values[kept], rows.width
        )
        assert reason.effect == pytest.approx(float(np.mean(whole - scorer.base.scores(less))), abs=1e-9)
        assert reason.draws == int((counts < np.diff(rows.starts)).sum())


def test_a_linear_base_model_has_no_interactions() -> None:
    for kind in ("logistic", "plain", "classifier"):
        for _, _, found in explained(kind):
            assert found.parts.interactions == pytest.approx(0, abs=1e-4)


def test_explanations_are_reproducible(tmp_path: Any) -> None:
    first = worker().explain("p03", "t3")
    assert worker().explain("p03", "t3") == first
    worker().save(tmp_path / "m")
    assert gaifman.load(tmp_path / "m", towns()).explain("p03", "t3") == first


# Witnesses


def seen(model: GaifmanModel, names: tuple[str, ...]) -> list[Structure]:
    """The sampled neighbourhoods by definition: members, and the facts among them that are present and not hidden."""
    predictor = model.predictor
    kb, tuples = predictor.kb, predictor.tuple_ids([names])
    hidden, sampling = predictor.hidden_facts(tuples), model.config.sampling(model.config.draws, "answer 0")
    drawn = draw_neighbourhoods(predictor.graph, tuples, sampling, hidden)
    found = []
    for at, world in enumerate(worlds_of_tuple(predictor.graph, sampling, tuples[0])):
        unseen = [*hidden.facts.tolist(), *world.absent(np.arange(len(kb))).tolist()]
        known = kb.without_facts([kb.fact_by_id(number) for number in sorted(set(unseen))]).structure()
        found.append(known.induced([kb.object_name(int(m)) for m in drawn.members_of(0, at)]))
    return found


def only(structure: Structure, facts: tuple[Fact, ...]) -> Structure:
    """The same members with only these facts."""
    kept = {(fact.relation, fact.objects) for fact in facts}
    relations = {
        name: Extension(r.arity, frozenset(t for t in r.tuples if (name, t) in kept))
        for name, r in structure.relations.items()
    }
    return Structure(structure.domain, relations, structure.attributes)


@pytest.mark.parametrize("kind", KINDS)
def test_witnesses_give_a_formula_its_value(kind: str) -> None:
    for model, names, found in explained(kind):
        structures = seen(model, names)
        for reason in found.reasons:
            if reason.kind == "constraint":
                continue
            feature = parse_feature(reason.feature, model.predictor.kb)
            for inside in structures:
                value = feature_value(inside, feature, names)
                assert feature_value(only(inside, reason.facts), feature, names) == value or not reason.facts


@pytest.mark.parametrize("kind", KINDS)
def test_witnesses_are_facts_of_a_neighbourhood_with_confidence(kind: str) -> None:
    for model, names, found in explained(kind):
        structures = seen(model, names)
        confidence = {(fact.relation, fact.objects): fact.confidence for fact in model.predictor.kb.facts()}
        for fact in {fact for reason in found.reasons for fact in reason.facts}:
            assert any(fact.objects in inside.relations[fact.relation].tuples for inside in structures)
            assert fact.confidence == confidence[fact.relation, fact.objects]


def test_witnesses_have_confidences() -> None:
    facts = [fact for _, _, found in explained("unsure") for reason in found.reasons for fact in reason.facts]
    assert {0.5, 1.0} == {fact.confidence for fact in facts}


def test_witnesses_of_a_formula_that_facts_make_false() -> None:
    reasons = {reason.feature: reason for _, _, found in explained("phi")[:1] for reason in found.reasons}
    assert [str(fact) for fact in reasons["¬lives_in(s1, s2)"].facts] == ["lives_in(p03, t3)."]
    assert reasons["¬lives_in(s1, s2)"].value == 0
    assert not reasons["age(s1)"].facts
    assert reasons["age(s1)"].value == 23


@pytest.mark.parametrize("kind", KINDS)
def test_a_known_answer_is_never_its_own_reason(kind: str) -> None:
    for model, names, found in explained(kind):
        predictor = model.predictor
        hidden = predictor.hidden_facts(predictor.tuple_ids([names])).facts
        secret = {predictor.graph.kb.fact_by_id(number) for number in hidden.tolist()}
        assert found.known == bool(secret)
        mentioned = {fact for reason in found.reasons for fact in reason.facts}
        mentioned |= set(found.counterfactual.facts if found.counterfactual else ())
        assert found.diagram is not None
        assert secret.isdisjoint(mentioned | set(found.diagram.facts))


def test_formulas_have_the_names_of_objects() -> None:
    found = worker().explain("p03", "t3")
    assert found.query == "works_in('p03', 't3')"
    assert found.reasons[0].formula == "lives_in('p03', 't3')"
    assert found.reasons[0].feature == "lives_in(s1, s2)"
    assert [str(fact) for fact in found.reasons[0].facts] == ["lives_in(p03, t3)."]


# Counterfactuals


def test_without_the_decisive_facts_the_probability_is_lower() -> None:
    found = worker().explain("p03", "t3")
    assert found.counterfactual is not None
    assert [str(fact) for fact in found.counterfactual.facts] == ["lives_in(p03, t3)."]
    assert found.counterfactual.estimate.value < found.probability - 0.3
    without = worker().with_kb(towns().without_facts(found.counterfactual.facts))
    assert without.probability("p03", "t3").value == pytest.approx(found.counterfactual.estimate.value, abs=0.1)


@pytest.mark.parametrize("kind", KINDS)
def test_the_counterfactual_is_the_prediction_with_hidden_facts(kind: str) -> None:
    for model, names, found in explained(kind):
        if found.counterfactual is None:
            continue
        predictor, graph = model.predictor, model.predictor.graph
        assert 0 < len(found.counterfactual.facts) <= MAX_COUNTERFACTUAL_FACTS
        assert found.counterfactual.estimate.value < found.probability
        hidden = [predictor.hidden_facts(predictor.tuple_ids([names])).facts]
        for fact in found.counterfactual.facts:
            number = predictor.kb.content.relations.find(fact.relation)
            assert number is not None
            hidden.append(
                graph.kb.fact_ids(number, np.array([[predictor.kb.object_id(name) for name in fact.objects]], np.int32))
            )
        facts = np.unique(np.concatenate(hidden))
        (value,) = estimate_hiding(predictor, predictor.tuple_ids([names]), [facts], predictor.budget())
        assert value == found.counterfactual.estimate


def test_most_predictions_have_decisive_facts() -> None:
    kb, fell, count = demo(), 0, 0
    completion = gaifman.complete(kb, ["borders", "capital", "continent", "official_language"], **FEW)
    for relation in completion.scorers:
        for fact in list(kb.facts(relation))[::40]:
            found = completion.explain(relation, *fact.objects)
            fell += found.counterfactual is not None
            count += 1
    assert count > 20
    assert fell >= 0.9 * count


def test_witnesses_are_tried_alone_and_together() -> None:
    a, b, many = frozenset({1, 2}), frozenset({2, 3}), frozenset(range(10, 11 + MAX_COUNTERFACTUAL_FACTS))
    assert _fact_sets_to_hide([a, frozenset(), many, b, a]) == [a, b, a | b]
    rest = frozenset(range(100, 99 + MAX_COUNTERFACTUAL_FACTS))
    assert _fact_sets_to_hide([a, rest]) == [a, rest]
    assert _fact_sets_to_hide([]) == []


def test_an_object_without_facts_has_no_reasons() -> None:
    kb = towns().with_facts([("person", "hermit")]).without_facts([("person", "hermit")])
    model = worker().with_kb(kb)
    found = model.explain("hermit", "hermit", constraints=False)
    assert (found.reasons, found.counterfactual, found.known) == ((), None, False)
    assert found.log_odds == pytest.approx(float(log_odds(found.probability)))
    assert found.diagram is not None
    assert found.diagram.members == ("hermit",)
    assert found._repr_html_()


def test_a_saturated_base_model() -> None:
    base = MLP((4,), epochs=1)
    model = gaifman.fit(towns(), "works_in(x, y)", base=base, **_no_options())
    trained = network(model.predictor).scorer.base
    state = dict(trained.state())
    state["biases 2"] = np.array([500.0], np.float32)
    trained.restore(state)
    found = model.explain("p03", "t3")
    assert found.estimate == model.probability("p03", "t3")
    assert np.isfinite(found.log_odds)
    assert found.log_odds == pytest.approx(float(log_odds(found.probability)), abs=1e-9)


# Completions and errors


def test_a_completion_explains_facts_of_its_relations() -> None:
    for names in (("works_in", "p03", "t3"), ("person", "p03"), ("moved", "p03", "t0", "t3")):
        found = completed().explain(*names)
        assert found.estimate == completed().probability(*names)
        assert found.log_odds == pytest.approx(float(log_odds(found.probability)), abs=1e-9)
        assert found == completed().model(names[0]).explain(*names[1:])


def test_other_knowledge_bases() -> None:
    kb = towns(20, "new_")
    found = worker().with_kb(kb).explain("new_p03", "new_t3")
    assert found.reasons[0].formula == "lives_in('new_p03', 'new_t3')"
    bare = KnowledgeBase.from_facts([("lives_in", "ann", "rome")])
    assert worker().with_kb(bare).explain("ann", "rome").reasons[0].formula == "lives_in('ann', 'rome')"


def test_errors() -> None:
    with pytest.raises(KnowledgeBaseError, match="there is no object p3") as caught:
        worker().explain("p3", "t3")
    assert "p03" in caught.value.suggestions
    with pytest.raises(KnowledgeBaseError, match="name as many objects"):
        worker().explain("p03")
    with pytest.raises(KnowledgeBaseError, match="top must be an integer"):
        worker().explain("p03", "t3", top=0)
    with pytest.raises(KnowledgeBaseError, match="draws must be an integer"):
        worker().explain("p03", "t3", draws=0)
    for prior in (1.0, "a"):
        with pytest.raises(KnowledgeBaseError, match="prior must be a number, above 0"):
            worker().explain("p03", "t3", prior=prior)  # type: ignore[arg-type]
    with pytest.raises(KnowledgeBaseError, match="only the fallback"):
        completed().explain("mayor", "p01", "t1")
    with pytest.raises(KnowledgeBaseError, match="there is no model of work_in"):
        completed().explain("work_in", "p01", "t1")
    with pytest.raises(KnowledgeBaseError, match="not trained yet"):
        GaifmanModel("works_in(x, y)").explain("p03", "t3")


def test_explain_an_answer_to_a_query() -> None:
    assert worker().explain_answer(None, {"x": "p03"}, ["t3"]) == worker().explain("p03", "t3")
    assert worker().explain_answer("works_in(b, b)", {}, ["t3"]).objects == ("t3", "t3")
    one = completed().explain_answer("works_in('p03', y)", {}, ["t3"], draws=2, prior=0.1, top=3)
    assert one == completed().explain("works_in", "p03", "t3", draws=2, prior=0.1, top=3)
    with pytest.raises(KnowledgeBaseError, match="names an object for each of x, y, not t3"):
        worker().explain_answer(None, {}, ["t3"])
    with pytest.raises(KnowledgeBaseError, match="names no object, not t3"):
        worker().explain_answer("works_in('p03', 't3')", {}, ["t3"])


def test_the_query_of_an_explanation_holds_iff_known() -> None:
    for _, names, found in explained("mlp"):
        assert holds(towns().structure(), gaifman.parse(found.query, towns())) == found.known
        assert found.variables == ("x", "y")
        assert len(names) == 2

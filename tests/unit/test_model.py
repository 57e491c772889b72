"""Predictions of models: probabilities, standard errors, embeddings, settings and errors."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gaifman
from gaifman.config import SamplingConfig
from gaifman.errors import FormulaError, InputError, KnowledgeBaseError
from gaifman.features.compiler import compile_features
from gaifman.features.evaluator import FeatureEvaluator
from gaifman.features.feature_sets import FeatureSet, parse_phi
from gaifman.kb.gaifman_graph import build_graph
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.kb.tables import Floats, Ints
from gaifman.model import GaifmanModel
from gaifman.models.base import BaseModel
from gaifman.models.calibration import correct_class_ratio
from gaifman.models.mlp import MLP, Logistic
from gaifman.sampling.hiding import HiddenFacts, hide
from gaifman.training import TrainingConfig
from trained import FEW, demo, little, neighbour, network, same, towns, worker

PAIRS = [("p00", "t0"), ("p01", "t1"), ("p01", "t2"), ("p39", "t0"), ("t0", "p01")]


def drawn(model: GaifmanModel, tuples: Ints, hidden: HiddenFacts | None, draws: int) -> tuple[Floats, Any]:
    """The base model's probability of each neighbourhood, and its inputs, step by step."""
    evaluator = FeatureEvaluator(
        build_graph(model.kb), compile_features(FeatureSet(model.features), model.kb, tuples.shape[1])
    )
    config = model.config
    assert not isinstance(config.size, str)
    sampling = SamplingConfig(int(config.radius), config.size, draws, config.seed, "answer 0")
    scorer = network(model.predictor).scorer
    rows = scorer.scaler.transform(evaluator.sample_and_evaluate(tuples, sampling, hidden))
    return scorer.base.probabilities(rows).reshape(-1, draws), rows


# Probabilities


def test_it_learns_the_rule() -> None:
    model = worker()
    at_home = model.probabilities([(f"p{i:02d}", f"t{i % 5}") for i in range(40)]).values
    elsewhere = model.probabilities([(f"p{i:02d}", f"t{(i + 2) % 5}") for i in range(40)]).values
    assert np.median(at_home) > 0.8
    assert np.median(elsewhere) < 0.2
    assert (at_home > elsewhere.max()).mean() > 0.8


@pytest.mark.parametrize("draws", [2, 4, 30])
def test_a_probability_is_the_calibrated_mean_over_draws(draws: int) -> None:
    model = neighbour()
    assert model.calibration.fitted
    kb, graph = model.kb, build_graph(model.kb)
    pairs = [("france", "spain"), ("france", "portugal"), ("chad", "niger"), ("japan", "china")]
    tuples = np.array([[kb.object_id(x), kb.object_id(y)] for x, y in pairs], np.int32)
    number = kb.content.relations.find("borders")
    assert number is not None
    hidden = HiddenFacts.one_per_tuple(graph.kb.fact_ids(number, tuples))
    assert np.diff(hidden.starts).tolist() == [1, 0, 1, 0]
    each, _ = drawn(model, tuples, hidden, draws)
    found = model.probabilities(pairs, draws=draws)
    mean = each.mean(axis=1)
    np.testing.assert_allclose(found.values, model.calibration.apply(mean), rtol=1e-12)
    spread = each.std(axis=1, ddof=1) / np.sqrt(draws)
    np.testing.assert_allclose(found.errors, spread * model.calibration.slope(mean), rtol=1e-7, atol=1e-12)
    assert found.draws.tolist() == [draws] * 4


def test_without_held_out_tuples_only_the_class_ratio_is_corrected() -> None:
    kb = towns()
    model = gaifman.fit(kb, "works_in(x, y)", **{**FEW, "holdout": 0.0})
    assert not model.calibration.fitted
    assert model.held_out_report is not None
    assert model.held_out_report.metrics(40)["auc_reason"] == "none of 40 answers was held out"
    assert model.meta["calibration"] == []
    tuples = np.array([[kb.object_id("p01"), kb.object_id("t2")]], np.int32)
    each, _ = drawn(model, tuples, None, 4)
    assert model.probability("p01", "t2", constraints=False).value == pytest.approx(
        float(correct_class_ratio(each.mean(), ratio=2)), rel=1e-9
    )


def test_one_draw_has_no_error() -> None:
    found = little().probability("p00", "t0", draws=1)
    assert np.isnan(found.error)
    assert found.draws == 1
    assert "±" not in str(found)
    assert "±" in str(little().probability("p00", "t0"))


def test_the_error_shrinks_as_one_over_the_root_of_the_draws() -> None:
    few, many = (neighbour().probability("france", "portugal", draws=draws) for draws in (200, 3_200))
    assert 0 < many.error < few.error
    assert 2.8 < few.error / many.error < 5.6  # 4, but for chance
    assert abs(few.value - many.value) < 4 * few.error


def test_the_error_is_that_of_the_mean() -> None:
    """The means of ten draws of forty seeds scatter by the standard error of one of them."""
    model = neighbour().with_kb(demo())
    found = []
    for seed in range(40):
        model.config = TrainingConfig(**{**neighbour().config.as_dict(), "seed": seed})
        found.append(model.probability("france", "portugal", draws=10))
    scatter = np.std([each.value for each in found], ddof=1)
    error = np.sqrt(np.mean([each.error**2 for each in found]))
    assert 0.6 < scatter / error < 1.6


def test_draws_go_on_until_the_error_is_small() -> None:
    pairs = [("france", "portugal"), ("france", "spain"), ("tuvalu", "chad")]
    bound = float(neighbour().probabilities(pairs, draws=40).errors.max()) / 4
    found = neighbour().probabilities(pairs, max_error=bound, max_draws=5_000)
    assert (found.errors <= bound).all()
    assert found.draws.min() >= 10
    assert found.draws.max() > 40
    assert len(set(found.draws.tolist())) > 1  # each as many as it needs


def test_draws_of_a_tuple_do_not_depend_on_other_tuples() -> None:
    pairs = [("france", "portugal"), ("france", "spain"), ("tuvalu", "chad")]
    together = neighbour().probabilities(pairs, max_error=0.01)
    for row, pair in enumerate(pairs):
        assert neighbour().probability(*pair, max_error=0.01) == together[row]


@pytest.mark.parametrize("most", [1, 3, 4, 7, 100])
def test_max_draws_is_the_limit(most: int) -> None:
    assert neighbour().probability("france", "portugal", max_error=1e-9, max_draws=most).draws == most


def test_a_prior_moves_the_odds() -> None:
    model = neighbour()
    even, rare = (model.probabilities([("france", "portugal"), ("france", "spain")], prior=p) for p in (0.5, 0.01))
    odds = even.values / (1 - even.values) / 99
    np.testing.assert_allclose(rare.values, odds / (1 + odds), rtol=1e-9)
    with pytest.raises(KnowledgeBaseError, match="prior must be a number, above 0"):
        model.probability("france", "spain", prior=0)


def test_the_default_prior_is_one_half() -> None:
    answers, others = neighbour().calibration.answer_weight, neighbour().calibration.negative_weight
    assert answers == others > 0
    plain = neighbour().probability("france", "portugal").value
    assert neighbour().probability("france", "portugal", prior=0.5).value == pytest.approx(plain)


# Hidden facts


def test_a_known_fact_is_scored_as_if_it_were_not_known() -> None:
    for fact in (("borders", "france", "spain"), ("borders", "chad", "niger")):
        without = neighbour().with_kb(demo().without_facts([fact]))
        assert same(neighbour().probabilities([fact[1:]]), without.probabilities([fact[1:]]))


def test_a_known_answer_of_a_general_query_is_scored_so_too() -> None:
    kb = towns()
    model = gaifman.fit(kb, "exists z. works_in(x, z) & town_of(z, y)", **FEW)
    numbers = np.array([[kb.object_id("p03"), kb.object_id("c1")]], np.int32)
    hidden = hide(kb, model.query, numbers, seed=0)
    assert len(hidden.facts)
    without = model.with_kb(kb.without_facts([kb.fact_by_id(number) for number in hidden.facts.tolist()]))
    assert not len(hide(without.kb, model.query, numbers).facts)
    assert same(model.probabilities([("p03", "c1")]), without.probabilities([("p03", "c1")]))


def test_a_new_fact_changes_the_answer_without_training() -> None:
    kb = towns().with_facts([("person", "new")])
    extended = kb.with_facts([("lives_in", "new", "t3")])
    before, after = (worker().with_kb(each).probability("new", "t3") for each in (kb, extended))
    assert after.value > before.value + 0.1
    assert (
        worker().with_kb(extended).probability("new", "t3").value
        > worker().with_kb(extended).probability("new", "t2").value
    )


# Embeddings


@pytest.mark.parametrize("draws", [1, 5])
def test_embed_is_the_mean_of_the_last_hidden_layer(draws: int) -> None:
    model, kb = little(), little().kb
    pairs = [("p01", "t2"), ("t0", "t0")]  # not known, so that nothing is hidden
    tuples = np.array([[kb.object_id(x), kb.object_id(y)] for x, y in pairs], np.int32)
    _, rows = drawn(model, tuples, None, draws)
    expected = network(model.predictor).scorer.base.embed(rows).reshape(2, draws, 8).mean(axis=1)
    found = model.embed(pairs, draws=draws)
    assert found.shape == (2, 8)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_embed_hides_known_answers_too() -> None:
    fact = ("works_in", "p01", "t1")
    without = little().with_kb(little().kb.without_facts([fact]))
    assert np.array_equal(little().embed([fact[1:]]), without.embed([fact[1:]]))
    assert little().embed([]).shape == (0, 8)


def test_without_hidden_layers_it_is_the_log_odds() -> None:
    model = gaifman.fit(towns(), "works_in(x, y)", **{**FEW, "options": {"epochs": 1}}, base="logistic")
    assert model.embed([("p01", "t1")]).shape == (1, 1)


# Names and ids


def test_tuples_are_named_or_numbered() -> None:
    kb, model = little().kb, little()
    numbers = np.array([[kb.object_id(x), kb.object_id(y)] for x, y in PAIRS])
    assert same(model.probabilities(PAIRS), model.probabilities(numbers))
    assert same(model.probabilities([list(pair) for pair in PAIRS]), model.probabilities(numbers.astype(np.uint8)))
    assert len(model.probabilities([])) == 0
    assert len(model.probabilities(np.zeros((0, 2), np.int64))) == 0


def test_an_unknown_object_is_refused_with_suggestions() -> None:
    with pytest.raises(KnowledgeBaseError, match="there is no object frnce") as caught:
        neighbour().probability("frnce", "spain")
    assert "france" in caught.value.suggestions


@pytest.mark.parametrize("names", [(), ("france",), ("france", "spain", "italy")])
def test_a_wrong_number_of_objects_is_refused(names: tuple[str, ...]) -> None:
    with pytest.raises(KnowledgeBaseError, match="the query has 2 variables"):
        neighbour().probability(*names)


def test_a_text_is_no_tuple() -> None:
    """`probabilities(["ab"])` was once taken as the tuple (a, b)."""
    kb = KnowledgeBase.from_facts([("r", "a", "b"), ("r", "b", "c"), ("r", "c", "a")])
    model = gaifman.fit(kb, "r(x, y)", **FEW)
    for wrong in (["ab"], "ab", ["ab", ("a", "b")]):
        with pytest.raises(KnowledgeBaseError, match=r"the query has 2 variables|must be a sequence"):
            model.probabilities(wrong)


@pytest.mark.parametrize("numbers", [[[0, 10_000]], [[-1, 0]]])
def test_ids_of_no_object_are_refused(numbers: list[list[int]]) -> None:
    with pytest.raises(KnowledgeBaseError, match="objects are numbered from 0"):
        neighbour().probabilities(np.array(numbers))
    with pytest.raises(KnowledgeBaseError, match="tuples have shape"):
        neighbour().probabilities(np.array([0, 1]))


# Errors


def test_an_untrained_model_raises() -> None:
    model = GaifmanModel("works_in(x, y)", size=None)
    assert repr(model) == "<GaifmanModel: works_in(x, y), radius 1, size all, not trained>"
    for ask in (lambda: model.probability("p00", "t0"), lambda: model.embed([("p00", "t0")]), model.state):
        with pytest.raises(KnowledgeBaseError, match="not trained yet"):
            ask()


def test_repr_of_a_trained_model() -> None:
    assert repr(little()).startswith("<GaifmanModel: works_in(x, y), radius 1, size 4, ")
    assert repr(little()).endswith("features, trained on 36 answers>")


@pytest.mark.parametrize(
    ("query", "kind", "message"),
    [
        ("exists x, y. works_in(x, y)", FormulaError, "no free variables"),
        ("works_inn(x, y)", FormulaError, "no relation works_inn"),
        ("works_in(x, y) & works_in(y, x)", KnowledgeBaseError, "has no answers"),
        ("works_in(x", FormulaError, "ends too early"),
    ],
)
def test_queries_that_cannot_be_trained(query: str, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        gaifman.fit(towns(), query, **FEW)


def test_no_knowledge_base() -> None:
    with pytest.raises(KnowledgeBaseError, match="no knowledge base to train on"):
        gaifman.fit([], "works_in(x, y)")
    with pytest.raises(KnowledgeBaseError, match="has no answers"):
        gaifman.fit(towns().without_facts(towns().facts("works_in")), "works_in(x, y)", **FEW)


def test_unknown_settings_are_refused() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'negativs'"):
        gaifman.fit(towns(), "works_in(x, y)", negativs=3)  # type: ignore[call-arg]
    with pytest.raises(KnowledgeBaseError, match=r"base must be one of mlp, logistic, got .mpl.") as caught:
        gaifman.fit(towns(), "works_in(x, y)", base="mpl")
    assert "mlp" in caught.value.suggestions
    with pytest.raises(KnowledgeBaseError, match="has no option hiden"):
        gaifman.fit(towns(), "works_in(x, y)", options={"hiden": [3]})
    with pytest.raises(InputError, match="no feature set or file paperr"):
        gaifman.fit(towns(), "works_in(x, y)", phi="paperr")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"draws": 0}, "draws must be an integer"),
        ({"draws": 1.5}, "draws must be an integer"),
        ({"max_draws": 0}, "max_draws must be an integer"),
        ({"max_error": 0.0}, "above 0"),
        ({"max_error": float("nan")}, "above 0"),
    ],
)
def test_invalid_arguments_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(KnowledgeBaseError, match=message):
        little().probability("p00", "t0", **arguments)


def test_features_can_be_given() -> None:
    phi = parse_phi("lives_in(s1, s2)\nexists x. lives_in(s1, x)", towns())
    model = gaifman.fit(towns(), "works_in(x, y)", phi=phi, **FEW)
    assert [str(feature) for feature in model.features] == ["lives_in(s1, s2)", "∃x lives_in(s1, x)"]
    assert model.config.phi == "custom"


def test_models_do_not_share_parameters() -> None:
    """Two models from one base model: training the second must not change the first."""
    base = MLP(hidden=(8,), epochs=1)
    settings = {name: value for name, value in FEW.items() if name != "options"}
    one = gaifman.fit(towns(), "works_in(x, y)", base=base, **settings)
    before = one.probabilities(PAIRS)
    other = gaifman.fit(towns(), "lives_in(x, y)", base=base, **settings)
    assert same(one.probabilities(PAIRS), before)
    placed = one.with_kb(towns())
    one.fit(towns(20))
    assert same(placed.probabilities(PAIRS), before)
    assert not same(other.probabilities(PAIRS), before)


def test_options_are_refused_beside_a_base_model() -> None:
    with pytest.raises(KnowledgeBaseError, match="epochs is an option of a named base model"):
        gaifman.GaifmanModel("borders(x, y)", base=Logistic(), options={"epochs": 7})


def parameters(function: Callable[..., object]) -> dict[str, object]:
    return {name: each.default for name, each in inspect.signature(function).parameters.items()}


@pytest.mark.parametrize("function", [gaifman.fit, gaifman.complete, GaifmanModel])
def test_every_setting_is_a_keyword_argument_with_its_default(function: Callable[..., object]) -> None:
    """Settings were hidden behind **settings, where no editor could complete them."""
    for setting in fields(TrainingConfig):
        default = setting.default if setting.default is not MISSING else None
        assert parameters(function)[setting.name] == default, setting.name


@pytest.mark.parametrize("function", [gaifman.fit, gaifman.complete, gaifman.evaluate, GaifmanModel.answers])
def test_every_argument_is_documented(function: Callable[..., object]) -> None:
    documented = inspect.getdoc(function) or ""
    for name in parameters(function):
        assert name == "self" or f"{name}: " in documented, name


def test_settings_make_the_config() -> None:
    settings: dict[str, Any] = {
        **FEW,
        "base": "mlp",
        "radius": 1,
        "size": None,
        "hide": "links",
        "holdout": 0.2,
        "patience": 2,
        "seed": 7,
    }
    model = GaifmanModel("borders(x, y)", **settings)
    assert model.config == TrainingConfig(**settings)
    assert GaifmanModel.from_config("borders(x, y)", model.config).config == model.config


@pytest.mark.parametrize(
    ("query", "base", "wanted"),
    [
        ("borders(x, y)", "auto", ("listwise", None)),
        ("borders(x, y)", "mlp", ("mlp", 20)),
        ("borders(x, y)", Logistic(), ("logistic", 20)),
        ("exists z. borders(x, z) & borders(z, y)", "auto", ("mlp", 20)),
    ],
    ids=["relation", "network", "given base model", "query"],
)
def test_the_config_has_the_base_model_and_the_size_that_auto_stands_for(
    query: str, base: str | BaseModel, wanted: tuple[str, int | None]
) -> None:
    config = GaifmanModel(query, base=base).config
    assert (config.base, config.size) == wanted


def test_a_given_base_model_survives_a_file_without_a_given_size(tmp_path: Path) -> None:
    """The size stayed "auto", and the file was refused."""
    model = gaifman.fit(towns(), "works_in(x, y)", base=Logistic(), min_examples=0)
    model.save(tmp_path / "model.gaifman")
    loaded = gaifman.load(tmp_path / "model.gaifman", towns())
    assert loaded.config.size == 20
    assert loaded._repr_html_() == model._repr_html_()


@pytest.mark.parametrize("query", ["person(x)", "works_in(x, 't1')", "lives_in(x, y) & ~works_in(x, y)"])
def test_kernels_are_compiled_without_a_knowledge_base(query: str, tmp_path: Path) -> None:
    gaifman.fit(towns(), query, **FEW).save(tmp_path / "model.gaifman")
    gaifman.load(tmp_path / "model.gaifman").compile_kernels()

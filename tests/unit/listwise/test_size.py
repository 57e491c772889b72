"""Ranked lists with a size: settings, predictions, explanations, files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gaifman
from gaifman.errors import KnowledgeBaseError
from gaifman.io.model_file import Arrays
from gaifman.listwise.scoring import ListwisePredictor
from gaifman.model_card import model_card

FEW: dict[str, Any] = {"base": "listwise", "options": {"max_steps": 2}, "seed": 1}


@pytest.fixture(scope="module")
def model() -> gaifman.GaifmanModel:
    return gaifman.fit(gaifman.demo(), "borders(x, y)", size=5, draws=3, **FEW)


def same_arrays(one: Arrays, other: Arrays) -> bool:
    return one.keys() == other.keys() and all(array.tobytes() == other[name].tobytes() for name, array in one.items())


def test_the_settings_are_those_of_the_model(model: gaifman.GaifmanModel) -> None:
    assert (model.config.base, model.config.size, model.config.draws, model.config.radius) == ("listwise", 5, 3, "auto")
    assert repr(model).startswith("<GaifmanModel: borders(x, y), ranked lists, size 5, ")
    card = model_card(model.meta)
    rows = {"radius of a neighbourhood": "auto", "size of a neighbourhood": "5 objects", "draws per prediction": "3"}
    for row in (f"| {name} | {value} |" for name, value in rows.items()):
        assert row in card


def test_a_size_alone_asks_for_the_network() -> None:
    network = gaifman.GaifmanModel("borders(x, y)", size=5)
    assert (network.config.base, network.config.radius) == ("mlp", 1)
    lists = gaifman.GaifmanModel("borders(x, y)")
    assert (lists.config.base, lists.config.size, lists.config.radius) == ("listwise", None, 1)


@pytest.mark.parametrize("settings", [{"size": 0}, {"radius": -1}, {"radius": "far"}, {"draws": 0}])
def test_wrong_bounds_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(KnowledgeBaseError, match=next(iter(settings))):
        gaifman.GaifmanModel("borders(x, y)", base="listwise", **{"size": 5, **settings})


def test_predictions_say_how_much_was_drawn(model: gaifman.GaifmanModel) -> None:
    found = model.probability("portugal", "spain")
    assert found.draws == 3
    assert np.isnan(found.error)
    assert (
        model.answers(x="portugal", top=3)[0].probability
        == model.probability("portugal", *model.answers(x="portugal", top=1)[0].names).value
    )


def test_an_explanation_adds_up(model: gaifman.GaifmanModel) -> None:
    for pair in (("portugal", "spain"), ("france", "germany"), ("japan", "france")):
        found = model.explain(*pair, top=100)
        assert found.log_odds is not None
        total = found.parts.total
        assert total + sum(reason.effect for reason in found.reasons) == pytest.approx(found.log_odds, abs=1e-9)


def test_a_file_predicts_alike(model: gaifman.GaifmanModel, tmp_path: Path) -> None:
    model.save(tmp_path / "m")
    loaded = gaifman.load(tmp_path / "m", gaifman.demo())
    assert isinstance(loaded, gaifman.GaifmanModel)
    assert loaded.probability("portugal", "spain").value == model.probability("portugal", "spain").value
    assert loaded.config == model.config


def test_a_size_of_everything_is_no_size() -> None:
    kb = gaifman.demo()
    bounded, whole = (gaifman.fit(kb, "borders(x, y)", size=size, draws=2, **FEW) for size in (len(kb.objects), None))
    assert same_arrays(bounded.state()[0], whole.state()[0])
    tuples = [("portugal", "spain"), ("japan", "france")]
    assert bounded.probabilities(tuples).values.tolist() == whole.probabilities(tuples).values.tolist()


def test_members_do_not_depend_on_threads_or_on_other_questions() -> None:
    kb = gaifman.demo()
    one, two = (
        gaifman.complete(kb, ["borders", "capital"], size=4, draws=2, threads=threads, **FEW) for threads in (1, 2)
    )
    assert same_arrays(one.state()[0], two.state()[0])
    pairs = [("france", name) for name in ("spain", "italy", "japan")]
    together = one.probabilities("borders", pairs).values.tolist()
    assert together == [two.probability("borders", *pair).value for pair in pairs]


def test_another_seed_draws_other_members(model: gaifman.GaifmanModel) -> None:
    predictor = model.predictor
    assert isinstance(predictor, ListwisePredictor)
    scorer, nothing = predictor.scorer.scorers[1], np.zeros(0, np.int64)
    france = [model.kb.object_id("france")] * 2
    drawn = scorer.member_sets(france, nothing)
    assert len(drawn) == 3
    other = gaifman.fit(model.kb, "borders(x, y)", size=5, draws=3, **{**FEW, "seed": 2}).predictor
    assert isinstance(other, ListwisePredictor)
    redrawn = other.scorer.scorers[1].member_sets(france, nothing)
    assert [one.tolist() for one in drawn if one is not None] != [one.tolist() for one in redrawn if one is not None]

"""Crafted model files: the checksum is right, and the content is not what gaifman writes.

One clear InputError, or a model that works: never another exception, a crash of a kernel, or memory that the file does
not have.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gaifman
from crafted_models import State, crafted
from gaifman.completion import Completion
from gaifman.errors import GaifmanError, InputError, KnowledgeBaseError, OutputError
from gaifman.io.model_file import write_model
from gaifman.model import GaifmanModel
from gaifman.model_card import model_card
from gaifman.models.mlp import MLP
from trained import FEW, completion_with_mayor, little, towns


@cache
def states() -> list[State]:
    """A model, one of a query with a logistic base model, and a completion."""
    query = "exists z. works_in(x, z) & town_of(z, y)"
    logistic = gaifman.fit(towns(), query, base="logistic", **{**FEW, "options": {"epochs": 1}})
    return [little().state(), logistic.state(), completion_with_mayor().state()]


def use(model: GaifmanModel | Completion) -> None:
    """Predict, rank, explain and show."""
    assert repr(model)
    assert model._repr_html_()
    if isinstance(model, GaifmanModel):
        objects = model.kb.objects[: len(model.query.variables)]
        assert 0 < model.probability(*objects).value < 1
        model.answers(top=2)
        model.explain(*objects)
        return
    for relation, arity in model.relations.items():
        assert 0 < model.probability(relation, *model.kb.objects[:arity]).value < 1
    for relation in model.trained_relations[:1]:
        model.explain(relation, *model.kb.objects[: model.relations[relation]])


@pytest.mark.parametrize("block", range(12))
def test_a_crafted_file_is_refused_or_works(block: int, tmp_path: Path) -> None:
    """Feature numbers and shapes were once not checked: kernels read past the end of arrays."""
    kb, refusals = towns(), 0
    for seed in range(block * 50, block * 50 + 50):
        try:
            write_model(tmp_path / "m.gaifman", *crafted(states()[seed % 3], seed))
        except OutputError:
            continue
        try:
            model = gaifman.load(tmp_path / "m.gaifman", kb)
        except InputError:
            refusals += 1
            continue
        with suppress(GaifmanError):  # such as a relation that the knowledge base has with another arity
            use(model)
    assert refusals > 25


def changed_array(name: str, change: Callable[[Any], Any]) -> Callable[[State], State]:
    return lambda state: (state[0] | {name: change(state[0][name])}, state[1])


def changed_meta(**changes: Any) -> Callable[[State], State]:
    return lambda state: (state[0], state[1] | changes)


def with_hidden(*hidden: int) -> Callable[[State], State]:
    def change(state: State) -> State:
        base = state[1]["base"]
        return state[0], state[1] | {"base": base | {"settings": base["settings"] | {"hidden": list(hidden)}}}

    return change


def one(value: float) -> Callable[[Any], Any]:
    """A change of the first number."""

    def change(array: Any) -> Any:
        found = array.copy()
        found.flat[0] = value
        return found

    return change


CRAFTED: dict[str, tuple[Callable[[State], State], str]] = {
    "feature above the last": (
        changed_array("scaler/features", lambda a: a + 1),
        r"features must be ascending numbers below",
    ),
    "feature below 0": (changed_array("scaler/features", one(-1)), "features must be ascending"),
    "features twice": (changed_array("scaler/features", np.zeros_like), "only a number has a second column"),
    "features as float": (changed_array("scaler/features", np.float32), "'features' must be int32"),
    "scale of 0": (changed_array("scaler/scales", one(0)), "their scales above 0"),
    "centre of NaN": (changed_array("scaler/centres", one(np.nan)), "'centres' has numbers that are not finite"),
    "fewer centres": (changed_array("scaler/centres", lambda a: a[1:]), "'centres' must be float32 of shape"),
    "more inputs": (changed_array("base/weights/1", lambda a: np.vstack([a, a])), "the network takes rows of"),
    "weights without shape": (changed_array("base/weights/1", lambda a: a[0, 0].reshape(())), "'weights/1' must be"),
    "weight of infinity": (changed_array("base/weights/2", one(np.inf)), "'weights/2' has numbers"),
    "float64": (changed_array("base/biases/1", np.float64), "'biases/1' must be float32"),
    "falling knots": (changed_array("calibration/knots", lambda a: a[::-1]), "ascending numbers"),
    "huge knots": (changed_array("calibration/knots", lambda a: a * 1e300), "must be below 1e"),
    "no weights of answers": (changed_array("calibration/rest", lambda a: a * [1, -1, 1, 1]), "must be at least 0"),
    "a feature for many": (changed_meta(feature_texts=["each r. r(s1, s2)"] * 3), "comes twice, or stands for several"),
    "one feature for all": (changed_meta(feature_texts=["works_in(s1, s2)"] * 3), "comes twice"),
    "a third variable": (changed_meta(feature_texts=["works_in(s1, s3)"]), "uses s3, but the query has 2 variables"),
    "no query": (changed_meta(query="true"), "number of variables of the query must be"),
    "no formula": (changed_meta(query="works_in(x"), "not a valid model"),
    "an arity of a billion": (changed_meta(relations_used={"works_in": 10**9}), "from 1 to 8"),
    "texts for metrics": (changed_meta(metrics={"answers": "many"}), "not a valid model"),
    "a list for metrics": (changed_meta(metrics=[]), "not a valid model"),
    "a number for constraints": (changed_meta(constraints=5), "not a valid model"),
    "a million million rows at once": (
        lambda state: (
            state[0],
            state[1] | {"base": {"kind": "mlp", "settings": {"hidden": [8], "batch_size": 10**12}}},
        ),
        "batch_size must be an integer from 1 to 1,000,000",
    ),
    "a billion units": (with_hidden(10**9), "1,000,000,000 weights, more than"),
    "a hundred million units": (with_hidden(10**8), "'weights/1' must be float32 of shape"),
    "two large layers": (with_hidden(20_000, 20_000), "'weights/1' must be float32 of shape"),
}


@pytest.mark.parametrize("name", CRAFTED)
def test_what_is_wrong_is_named_and_takes_no_memory(name: str, tmp_path: Path) -> None:
    change, message = CRAFTED[name]
    path = tmp_path / "m.gaifman"
    write_model(path, *change(little().state()))
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match=message) as caught:
            gaifman.load(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert caught.value.message.startswith(str(path))
    assert peak < 20e6, f"{peak / 1e6:.0f} MB"


def test_metadata_that_cannot_be_shown_are_refused_when_they_are(tmp_path: Path) -> None:
    write_model(tmp_path / "m.gaifman", *changed_meta(metrics={"answers": 5, "losses": 5})(little().state()))
    model = gaifman.load(tmp_path / "m.gaifman")
    for show in (model._repr_html_, lambda: model_card(model.meta)):
        with pytest.raises(InputError, match="not a valid model"):
            show()


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"name": "works_in", "arity": 9}], "arity of a relation must be an integer from 1 to 8"),
        ([{"name": "works_in", "arity": 2}, {"name": "works_in", "arity": 2}], "must be different texts"),
        ([{"name": ["works_in"], "arity": 2}], "must be different texts"),
        ([{"name": "works_in", "arity": 2}], "there are arrays of relation"),
        ([{}], "not a valid completion: KeyError"),
    ],
)
def test_relations_of_a_completion_are_checked(rows: list[Any], message: str, tmp_path: Path) -> None:
    arrays, meta = completion_with_mayor().state()
    write_model(tmp_path / "m.gaifman", arrays, meta | {"relations": rows})
    with pytest.raises(InputError, match=message):
        gaifman.load(tmp_path / "m.gaifman")


def test_weights_that_overflow_give_an_error_and_no_probability(tmp_path: Path) -> None:
    arrays, meta = little().state()
    large = {name: np.full_like(array, 3e38) for name, array in arrays.items() if name.startswith("base/")}
    large["base/weights/2"][::2] *= -1
    write_model(tmp_path / "m.gaifman", arrays | large, meta)
    model = gaifman.load(tmp_path / "m.gaifman", towns())
    assert isinstance(model, GaifmanModel)
    with pytest.raises(GaifmanError, match="overflows: its probabilities are not numbers"):
        model.probability("p01", "t1")


def test_a_network_that_is_too_large_is_refused_before_memory_is_asked_for() -> None:
    with pytest.raises(KnowledgeBaseError, match="has 1,000,000,000 weights, more than 500,000,000"):
        MLP([10**9])
    with pytest.raises(KnowledgeBaseError, match="has 600,030,000 weights, more than"):
        gaifman.fit(towns(), "works_in(x, y)", base=MLP([20_000, 30_000]))
    with pytest.raises(KnowledgeBaseError, match="a network of 10,000,000 inputs"):
        MLP([100]).reset(10_000_000, 0)

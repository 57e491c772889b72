"""Models with scikit-learn's manners: parameters, clones, pickles that hold the bytes of the model file."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import ParameterGrid

import gaifman
from gaifman.errors import InputError, KnowledgeBaseError
from gaifman.io.model_file import model_bytes
from gaifman.models import SklearnModel
from trained import FEW, towns, worker

TUPLES = [("p01", "t1"), ("p02", "t2"), ("p03", "t1")]


def test_parameters_are_the_arguments_of_the_constructor() -> None:
    options = {"epochs": 1}
    model = gaifman.GaifmanModel("works_in(x, y)", radius=2, options=options, seed=3)
    params = model.get_params()
    assert (params["query"], params["radius"], params["seed"]) == ("works_in(x, y)", 2, 3)
    assert params["options"] is options
    assert (params["base"], params["size"]) == ("auto", "auto"), "as given, not what they stand for"
    assert gaifman.GaifmanModel(**params).get_params() == params


def test_a_clone_is_an_untrained_copy_of_any_model() -> None:
    trained = gaifman.fit(towns(), "works_in(x, y)", **FEW)
    loaded = worker()
    other = gaifman.GaifmanModel("works_in(x, y)", base=SklearnModel(LogisticRegression()), draws=2)
    for model in (trained, loaded, other):
        copied = clone(model)
        assert "not trained" in repr(copied)
        assert copied.config == gaifman.GaifmanModel(**model.get_params()).config
    again = clone(trained).fit(towns())
    assert model_bytes(*again.state()) == model_bytes(*trained.state())


def test_set_parameters_in_a_grid() -> None:
    model = gaifman.GaifmanModel("works_in(x, y)", **FEW)
    for params in ParameterGrid({"seed": [1, 2], "negatives": [2]}):
        model.set_params(**params).fit(towns())
        assert (model.config.seed, model.config.negatives) == (params["seed"], 2)
    assert "not trained" in repr(model.set_params(seed=5))
    with pytest.raises(KnowledgeBaseError, match="there is no setting sed") as caught:
        model.set_params(sed=5)
    assert "seed" in caught.value.suggestions
    assert model.get_params()["seed"] == 5


def test_probabilities_as_of_a_classifier() -> None:
    model = worker()
    found = model.predict_proba(TUPLES)
    assert found.shape == (3, 2)
    assert np.allclose(found.sum(axis=1), 1)
    assert found[:, 1].tolist() == model.probabilities(TUPLES).values.tolist()


def test_a_pickle_holds_the_bytes_of_the_file_and_is_checked_like_it() -> None:
    models: list[Any] = [worker(), gaifman.complete(towns(), ["works_in"])]
    for model in models:
        data, held = pickle.dumps(model), model_bytes(*model.state())
        assert held in data
        assert pickle.loads(data).state()[1] == model.state()[1]
        at = data.index(held) + len(held) - 1
        with pytest.raises(InputError, match="the pickled model"):
            pickle.loads(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
    with_params = pickle.loads(pickle.dumps(gaifman.fit(towns(), "works_in(x, y)", **FEW)))
    assert with_params.get_params()["size"] == FEW.get("size", "auto")

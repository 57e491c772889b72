"""The network as a base model: the rules that all keep, states, settings and what is wrong with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gaifman.errors import InputError, KnowledgeBaseError
from gaifman.models.base import BaseModel, Batch, SparseRows
from gaifman.models.mlp import INITIAL_SQUARES, MLP, Logistic, make_base_model
from gaifman.models.testing import check_base_model
from model_cases import begun, drawn, same_bits, sparse

# The problems have one column that decides. Where it drops out, an answer looks like none: so dropout is small. And
# they have few examples, so passes are many.
MAKERS: dict[str, Callable[[], BaseModel]] = {
    "two layers": lambda: MLP([40, 20], epochs=40, learning_rate=0.2, dropout=0.02),
    "one layer": lambda: MLP([20], epochs=20, learning_rate=0.1, dropout=0),
    "relu": lambda: MLP([30, 10], "relu", epochs=6, dropout=0.05),
    "small batches": lambda: MLP([16], dropout=0, batch_size=13, epochs=8),
    "three layers": lambda: MLP([12, 12, 12], "relu", dropout=0.05, epochs=8, batch_size=50),
    "logistic": lambda: Logistic(learning_rate=0.3, epochs=20),
    "logistic with dropout": lambda: Logistic(learning_rate=0.2, epochs=12, dropout=0.05, batch_size=32),
}


@pytest.mark.parametrize("name", MAKERS)
def test_it_keeps_the_rules_of_base_models(name: str) -> None:
    check_base_model(MAKERS[name])


# States


def trained(network: MLP, width: int = 9, seed: int = 3) -> MLP:
    dense, targets = drawn(seed, 70, width)
    network.reset(width, seed)
    network.fit_batch(Batch(sparse(dense), targets))
    return network


def test_a_state_has_the_weights_as_matrices() -> None:
    state = trained(MLP([5, 4])).state()
    shapes = {name: array.shape for name, array in state.items()}
    assert shapes == {
        "weights/1": (9, 5),
        "weights/2": (5, 4),
        "weights/3": (4, 1),
        "biases/1": (5,),
        "biases/2": (4,),
        "biases/3": (1,),
    }
    assert {array.dtype for array in state.values()} == {np.dtype(np.float32)}
    whole = trained(MLP([5, 4])).state(resumable=True)
    assert {name for name in whole if name not in state} == {"progress", *(f"squares/{name}" for name in state)}


def test_a_state_does_not_change_while_the_network_learns_on() -> None:
    network = trained(MLP([5]))
    state = network.state(resumable=True)
    kept = {name: array.copy() for name, array in state.items()}
    dense, targets = drawn(9, 70, 9)
    network.fit_batch(Batch(sparse(dense), targets))
    assert same_bits(state, kept)
    assert not same_bits(state, network.state(resumable=True))


@pytest.mark.parametrize("hidden", [(), (5,), (5, 4)])
def test_a_whole_state_goes_on_as_if_nothing_had_happened(hidden: tuple[int, ...]) -> None:
    network = trained(MLP(hidden, batch_size=16))
    other = MLP(hidden, batch_size=16)
    other.restore(network.state(resumable=True))
    dense, targets = drawn(9, 70, 9)
    for each in (network, other):
        each.fit_batch(Batch(sparse(dense), targets))
    assert same_bits(network.state(resumable=True), other.state(resumable=True))


def test_a_state_that_is_not_whole_gives_the_same_probabilities_and_learns_on_with_small_steps() -> None:
    network, other = trained(MLP([5])), MLP([5])
    other.restore(network.state())
    dense, targets = drawn(9, 70, 9)
    rows = sparse(dense)
    assert other.probabilities(rows).tobytes() == network.probabilities(rows).tobytes()
    assert (other.state(resumable=True)["squares/weights/1"] == np.float32(INITIAL_SQUARES)).all()
    before = other.state()["weights/1"]
    other.fit_batch(Batch(rows, targets))
    assert 0 < np.abs(other.state()["weights/1"] - before).max() < 0.05


def test_a_state_of_another_network_is_refused_by_what_is_wrong() -> None:
    state = trained(MLP([5])).state(resumable=True)
    with pytest.raises(InputError, match=r"'weights/3'"):
        MLP([5, 1]).restore(state)
    with pytest.raises(
        InputError, match=r"'weights/1' must be float32 of shape \(9, 6\), got float32 of shape \(9, 5\)"
    ):
        MLP([6]).restore(state)
    with pytest.raises(InputError, match=r"'weights/1'"):
        MLP([5]).restore({})
    with pytest.raises(InputError, match=r"'squares/biases/2'"):
        MLP([5]).restore({name: array for name, array in state.items() if name != "squares/biases/2"})
    with pytest.raises(InputError, match=r"'biases/1' .* of shape \(4,\)"):
        MLP([5]).restore(state | {"biases/1": np.zeros(4, np.float32)})
    with pytest.raises(InputError, match=r"'biases/1' must be float32 .*, got float64"):
        MLP([5]).restore(state | {"biases/1": np.zeros(5)})
    with pytest.raises(InputError, match=r"'biases/1' has numbers that are not finite"):
        MLP([5]).restore(state | {"biases/1": np.full(5, np.nan, np.float32)})


def test_a_refused_state_changes_nothing() -> None:
    network = trained(MLP([5]))
    before = network.state(resumable=True)
    with pytest.raises(InputError):
        network.restore(trained(MLP([6])).state())
    assert same_bits(before, network.state(resumable=True))


def test_begin_forgets_and_takes_another_width() -> None:
    network = trained(MLP([5]))
    network.reset(4, 1)
    fresh = MLP([5])
    fresh.reset(4, 1)
    assert same_bits(network.state(resumable=True), fresh.state(resumable=True))
    assert begun(network, 30, 1).probabilities(sparse(np.ones((2, 30)))).shape == (2,)


def test_room_grows_with_the_rows_and_gives_the_same() -> None:
    """First a block of short rows, then one of long rows: the scratch of the first would not do."""
    short, few = drawn(1, 40, 50, share=0.02)
    long, many = drawn(2, 40, 50, share=0.9)
    network, other = begun(MLP([6], batch_size=8), 50, 0), begun(MLP([6], batch_size=8), 50, 0)
    for dense, targets in ((short, few), (long, many)):
        network.fit_batch(Batch(sparse(dense), targets))
    both = sparse(np.concatenate([short, long]))
    other.fit_batch(Batch(both, np.concatenate([few, many])))
    assert same_bits(network.state(resumable=True), other.state(resumable=True))


def test_read_only_and_strided_arrays_are_taken() -> None:
    dense, targets = drawn(1, 40, 9)
    rows = sparse(dense)
    twice = SparseRows(rows.starts, np.repeat(rows.columns, 2)[::2], np.repeat(rows.values, 2)[::2], rows.width)
    for array in (rows.starts, rows.columns, rows.values, targets):
        array.setflags(write=False)
    one, other = begun(MLP([6]), 9, 0), begun(MLP([6]), 9, 0)
    one.fit_batch(Batch(rows, targets))
    other.fit_batch(Batch(twice, np.repeat(targets, 2)[::2]))
    assert same_bits(one.state(resumable=True), other.state(resumable=True))


def test_rows_that_kernels_would_read_past_are_refused() -> None:
    network = begun(MLP([3]), 4, 0)
    ones, starts = np.ones(2, np.float32), np.array([0, 2])
    for columns in ([0, 4], [-1, 2]):
        with pytest.raises(KnowledgeBaseError, match="rows of 4 columns have an entry outside them"):
            network.probabilities(SparseRows(starts, np.array(columns, np.int32), ones, 4))
    with pytest.raises(KnowledgeBaseError, match="an entry outside them"):
        network.embed(SparseRows(np.array([0, 3]), np.array([0, 3], np.int32), ones, 4))
    right = SparseRows(starts, np.array([0, 3], np.int32), ones, 4)
    assert network.probabilities(right).shape == (1,)
    with pytest.raises(KnowledgeBaseError, match="a batch has 1 rows but 2 targets"):
        network.fit_batch(Batch(right, np.zeros(2, np.float32)))


# Settings

WRONG: list[tuple[dict[str, Any], str]] = [
    ({"hidden": [0]}, "width of a hidden layer must be an integer of at least 1, got 0"),
    ({"hidden": [10, 2.5]}, "got 2.5"),
    ({"hidden": [True]}, "got True"),
    ({"hidden": 100}, "hidden must be a list of layer widths, got 100"),
    ({"hidden": "100"}, "hidden must be a list of layer widths, got '100'"),
    ({"activation": "sigmoyd"}, "activation must be one of sigmoid, relu, got 'sigmoyd'"),
    ({"activation": None}, "activation must be one of sigmoid, relu, got None"),
    ({"learning_rate": 0}, "learning_rate must be a number above 0, got 0"),
    ({"learning_rate": -1.0}, "got -1.0"),
    ({"learning_rate": float("nan")}, "got nan"),
    ({"learning_rate": float("inf")}, "got inf"),
    ({"learning_rate": "fast"}, "got 'fast'"),
    ({"epochs": 0}, "epochs must be an integer of at least 1, got 0"),
    ({"epochs": 2.0}, "got 2.0"),
    ({"batch_size": 0}, "batch_size must be an integer from 1 to 1,000,000, got 0"),
    ({"dropout": 1}, "dropout must be a number, at least 0 and below 1, got 1"),
    ({"dropout": -0.1}, "got -0.1"),
    ({"dropout": "0.2"}, "got '0.2'"),
]


@pytest.mark.parametrize(("given", "message"), WRONG, ids=[str(given) for given, _ in WRONG])
def test_a_wrong_setting_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(KnowledgeBaseError) as caught:
        make_base_model("mlp", given)
    assert message in caught.value.message


def test_similar_names_are_suggested() -> None:
    with pytest.raises(KnowledgeBaseError) as caught:
        make_base_model("mlp", {"activation": "sigmoyd"})
    assert caught.value.suggestions == ("sigmoid",)
    with pytest.raises(KnowledgeBaseError, match=r"base must be one of mlp, logistic, got .logistik.") as caught:
        make_base_model("logistik")
    assert caught.value.suggestions == ("logistic",)
    with pytest.raises(KnowledgeBaseError, match="mlp has no option hiden") as caught:
        make_base_model("mlp", {"hiden": [3]})
    assert caught.value.suggestions == ("hidden",)
    assert "hidden, activation, learning_rate, epochs, dropout, batch_size" in caught.value.hint
    with pytest.raises(KnowledgeBaseError, match="logistic has no option hidden"):
        make_base_model("logistic", {"hidden": [3]})


def test_settings_make_it_anew() -> None:
    network = MLP([7, 3], "relu", 0.1, 4, 0.25, 32)
    expected = {
        "hidden": [7, 3],
        "activation": "relu",
        "learning_rate": 0.1,
        "epochs": 4,
        "dropout": 0.25,
        "batch_size": 32,
    }
    assert network.settings() == expected
    assert make_base_model("mlp", network.settings()).settings() == expected
    assert network.epochs == 4
    flat = Logistic(0.1, 4, 0.25, 32)
    assert flat.settings() == {"learning_rate": 0.1, "epochs": 4, "dropout": 0.25, "batch_size": 32}
    assert type(make_base_model("logistic", flat.settings())) is Logistic
    assert (MLP.kind, Logistic.kind) == ("mlp", "logistic")

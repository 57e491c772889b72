"""The network as a base model: the rules that all keep, states, settings and what is wrong with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gaifman.errors import KnowledgeError
from gaifman.network import ACTIVATIONS, START, BaseModel, Batch, Logistic, Network, Rows, base_model
from gaifman.testing import check_base_model
from test_network import begun, drawn, same_bits, sparse

# The problems have one column that decides. Where it drops out, an answer looks like none: so dropout is small. And
# they have few examples, so passes are many.
MAKERS: dict[str, Callable[[], BaseModel]] = {
    "two layers": lambda: Network([40, 20], epochs=40, rate=0.2, dropout=0.02),
    "one layer": lambda: Network([20], epochs=20, rate=0.1, dropout=0),
    "relu": lambda: Network([30, 10], "relu", epochs=6, dropout=0.05),
    "small batches": lambda: Network([16], dropout=0, batch=13, epochs=8),
    "three layers": lambda: Network([12, 12, 12], "relu", dropout=0.05, epochs=8, batch=50),
    "logistic": lambda: Logistic(rate=0.3, epochs=20),
    "logistic with dropout": lambda: Logistic(rate=0.2, epochs=12, dropout=0.05, batch=32),
}


@pytest.mark.parametrize("name", MAKERS)
def test_it_keeps_the_rules_of_base_models(name: str) -> None:
    check_base_model(MAKERS[name])


# States


def trained(network: Network, width: int = 9, seed: int = 3) -> Network:
    dense, targets = drawn(seed, 70, width)
    network.begin(width, seed)
    network.learn(Batch(sparse(dense), targets))
    return network


def test_a_state_has_the_weights_as_matrices() -> None:
    state = trained(Network([5, 4])).state()
    shapes = {name: array.shape for name, array in state.items()}
    assert shapes == {
        "weights 1": (9, 5),
        "weights 2": (5, 4),
        "weights 3": (4, 1),
        "biases 1": (5,),
        "biases 2": (4,),
        "biases 3": (1,),
    }
    assert {array.dtype for array in state.values()} == {np.dtype(np.float32)}
    whole = trained(Network([5, 4])).state(whole=True)
    assert {name for name in whole if name not in state} == {"progress", *(f"squares {name}" for name in state)}


def test_a_state_does_not_change_while_the_network_learns_on() -> None:
    network = trained(Network([5]))
    state = network.state(whole=True)
    kept = {name: array.copy() for name, array in state.items()}
    dense, targets = drawn(9, 70, 9)
    network.learn(Batch(sparse(dense), targets))
    assert same_bits(state, kept)
    assert not same_bits(state, network.state(whole=True))


@pytest.mark.parametrize("hidden", [(), (5,), (5, 4)])
def test_a_whole_state_goes_on_as_if_nothing_had_happened(hidden: tuple[int, ...]) -> None:
    network = trained(Network(hidden, batch=16))
    other = Network(hidden, batch=16)
    other.restore(network.state(whole=True))
    dense, targets = drawn(9, 70, 9)
    for each in (network, other):
        each.learn(Batch(sparse(dense), targets))
    assert same_bits(network.state(whole=True), other.state(whole=True))


def test_a_state_that_is_not_whole_gives_the_same_probabilities_and_learns_on_with_small_steps() -> None:
    network, other = trained(Network([5])), Network([5])
    other.restore(network.state())
    dense, targets = drawn(9, 70, 9)
    rows = sparse(dense)
    assert other.probabilities(rows).tobytes() == network.probabilities(rows).tobytes()
    assert (other.state(whole=True)["squares weights 1"] == np.float32(START)).all()
    before = other.state()["weights 1"]
    other.learn(Batch(rows, targets))
    assert 0 < np.abs(other.state()["weights 1"] - before).max() < 0.05


def test_a_state_of_another_network_is_refused_by_what_is_wrong() -> None:
    state = trained(Network([5])).state(whole=True)
    with pytest.raises(KnowledgeError, match=r"'weights 3'"):
        Network([5, 1]).restore(state)
    with pytest.raises(KnowledgeError, match=r"'weights 1' of this network have shape \(9, 6\), those given \(9, 5\)"):
        Network([6]).restore(state)
    with pytest.raises(KnowledgeError, match=r"'weights 1'"):
        Network([5]).restore({})
    with pytest.raises(KnowledgeError, match=r"'squares biases 2'"):
        Network([5]).restore({name: array for name, array in state.items() if name != "squares biases 2"})
    with pytest.raises(KnowledgeError, match=r"'biases 1' .* those given \(4,\)"):
        Network([5]).restore(state | {"biases 1": np.zeros(4, np.float32)})


def test_a_refused_state_changes_nothing() -> None:
    network = trained(Network([5]))
    before = network.state(whole=True)
    with pytest.raises(KnowledgeError):
        network.restore(trained(Network([6])).state())
    assert same_bits(before, network.state(whole=True))


def test_begin_forgets_and_takes_another_width() -> None:
    network = trained(Network([5]))
    network.begin(4, 1)
    fresh = Network([5])
    fresh.begin(4, 1)
    assert same_bits(network.state(whole=True), fresh.state(whole=True))
    assert begun(network, 30, 1).probabilities(sparse(np.ones((2, 30)))).shape == (2,)


def test_room_grows_with_the_rows_and_gives_the_same() -> None:
    """First a block of short rows, then one of long rows: the scratch of the first would not do."""
    short, few = drawn(1, 40, 50, share=0.02)
    long, many = drawn(2, 40, 50, share=0.9)
    network, other = begun(Network([6], batch=8), 50, 0), begun(Network([6], batch=8), 50, 0)
    for dense, targets in ((short, few), (long, many)):
        network.learn(Batch(sparse(dense), targets))
    both = sparse(np.concatenate([short, long]))
    other.learn(Batch(both, np.concatenate([few, many])))
    assert same_bits(network.state(whole=True), other.state(whole=True))


def test_read_only_and_strided_arrays_are_taken() -> None:
    dense, targets = drawn(1, 40, 9)
    rows = sparse(dense)
    twice = Rows(rows.starts, np.repeat(rows.columns, 2)[::2], np.repeat(rows.values, 2)[::2], rows.width)
    for array in (rows.starts, rows.columns, rows.values, targets):
        array.setflags(write=False)
    one, other = begun(Network([6]), 9, 0), begun(Network([6]), 9, 0)
    one.learn(Batch(rows, targets))
    other.learn(Batch(twice, np.repeat(targets, 2)[::2]))
    assert same_bits(one.state(whole=True), other.state(whole=True))


def test_rows_that_kernels_would_read_past_are_refused() -> None:
    network = begun(Network([3]), 4, 0)
    ones, starts = np.ones(2, np.float32), np.array([0, 2])
    for columns in ([0, 4], [-1, 2]):
        with pytest.raises(KnowledgeError, match="columns from 0 to 3; these have others"):
            network.probabilities(Rows(starts, np.array(columns, np.int32), ones, 4))
    with pytest.raises(KnowledgeError, match="these have others"):
        network.embed(Rows(np.array([0, 3]), np.array([0, 3], np.int32), ones, 4))
    right = Rows(starts, np.array([0, 3], np.int32), ones, 4)
    assert network.probabilities(right).shape == (1,)
    with pytest.raises(KnowledgeError, match="1 rows have 2 targets"):
        network.learn(Batch(right, np.zeros(2, np.float32)))


# Settings

WRONG: list[tuple[dict[str, Any], str]] = [
    ({"hidden": [0]}, "width of a hidden layer is a whole number, 1 or more, not 0"),
    ({"hidden": [10, 2.5]}, "not 2.5"),
    ({"hidden": [True]}, "not True"),
    ({"hidden": 100}, "hidden layers are a list of widths, not 100"),
    ({"hidden": "100"}, "hidden layers are a list of widths, not '100'"),
    ({"activation": "sigmoyd"}, "there is no activation 'sigmoyd'"),
    ({"activation": None}, "there is no activation None"),
    ({"rate": 0}, "the learning rate is a number above 0, not 0"),
    ({"rate": -1.0}, "not -1.0"),
    ({"rate": float("nan")}, "not nan"),
    ({"rate": float("inf")}, "not inf"),
    ({"rate": "fast"}, "not 'fast'"),
    ({"epochs": 0}, "epochs is a whole number, 1 or more, not 0"),
    ({"epochs": 2.0}, "not 2.0"),
    ({"batch": 0}, "batch is a whole number, 1 or more, not 0"),
    ({"dropout": 1}, "dropout is a share from 0 to below 1, not 1"),
    ({"dropout": -0.1}, "not -0.1"),
    ({"dropout": "0.2"}, "not '0.2'"),
]


@pytest.mark.parametrize(("given", "message"), WRONG, ids=[str(given) for given, _ in WRONG])
def test_what_is_wrong_with_a_setting_is_said(given: dict[str, Any], message: str) -> None:
    with pytest.raises(KnowledgeError) as caught:
        base_model("mlp", **given)
    assert message in caught.value.message


def test_near_names_are_told() -> None:
    with pytest.raises(KnowledgeError) as caught:
        base_model("mlp", activation="sigmoyd")
    assert caught.value.near == ("sigmoid",)
    assert all(name in caught.value.hint for name in ACTIVATIONS)
    with pytest.raises(KnowledgeError, match="there is no base model 'logistik'") as caught:
        base_model("logistik")
    assert (caught.value.near, caught.value.hint) == (("logistic",), "one of mlp, logistic")
    with pytest.raises(KnowledgeError, match="mlp has no setting hiden") as caught:
        base_model("mlp", hiden=[3])
    assert caught.value.near == ("hidden",)
    assert "hidden, activation, rate, epochs, dropout, batch" in caught.value.hint
    with pytest.raises(KnowledgeError, match="logistic has no setting hidden"):
        base_model("logistic", hidden=[3])


def test_settings_make_it_anew() -> None:
    network = Network([7, 3], "relu", 0.1, 4, 0.25, 32)
    wanted = {"hidden": [7, 3], "activation": "relu", "rate": 0.1, "epochs": 4, "dropout": 0.25, "batch": 32}
    assert network.settings() == wanted
    assert base_model("mlp", **network.settings()).settings() == wanted
    assert network.passes == 4
    flat = Logistic(0.1, 4, 0.25, 32)
    assert flat.settings() == {"rate": 0.1, "epochs": 4, "dropout": 0.25, "batch": 32}
    assert type(base_model("logistic", **flat.settings())) is Logistic
    assert (Network.kind, Logistic.kind) == ("mlp", "logistic")

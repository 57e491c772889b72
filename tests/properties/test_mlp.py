"""The network: its gradients are PyTorch's, its steps Adagrad's, its rules those of every base model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gaifman.errors import KnowledgeBaseError
from gaifman.models.base import BaseModel, Batch, SparseRows, State
from gaifman.models.calibration import log_odds, logistic
from gaifman.models.mlp import INITIAL_SQUARES, MLP, Logistic
from model_cases import Dense, begun, drawn, same_bits, sparse


def parameters(state: State) -> dict[str, torch.Tensor]:
    kept = {name: array for name, array in state.items() if name.startswith(("weights", "biases"))}
    return {name: torch.tensor(array, dtype=torch.float64, requires_grad=True) for name, array in kept.items()}


def torch_loss(
    weights: dict[str, torch.Tensor], activation: str, dense: Dense, targets: npt.NDArray[np.float32]
) -> torch.Tensor:
    """The same network, by the framework, in float64."""
    units, last = torch.tensor(dense), len(weights) // 2
    for number in range(1, last + 1):
        units = units @ weights[f"weights/{number}"] + weights[f"biases/{number}"]
        if number < last:
            units = torch.sigmoid(units) if activation == "sigmoid" else torch.relu(units)
    expected = torch.tensor(targets.astype(np.float64))
    return torch.nn.functional.binary_cross_entropy_with_logits(units[:, 0], expected)


def torch_gradients(network: MLP, dense: Dense, targets: npt.NDArray[np.float32]) -> dict[str, Dense]:
    weights = parameters(network.state())
    torch_loss(weights, network.activation, dense, targets).backward()
    return {
        name: np.zeros(tensor.shape) if tensor.grad is None else tensor.grad.numpy() for name, tensor in weights.items()
    }


def assert_near(found: State, expected: dict[str, Dense]) -> None:
    assert sorted(found) == sorted(expected)
    for name, array in expected.items():
        assert found[name].shape == array.shape, name
        assert np.abs(found[name] - array).max(initial=0) <= 1e-5, name


def masks(seed: int, dropout: float, dense: Dense) -> Dense:
    """Which inputs are kept, found from outside: with no hidden layer, a dropped input's weight has no gradient."""
    one = Logistic(dropout=dropout, batch_size=1)
    one.reset(dense.shape[1], seed)
    kept = np.zeros(dense.shape)
    for i in range(len(dense)):
        batch = Batch(sparse(dense[i : i + 1]), np.array([0.25], np.float32))
        kept[i] = one.gradients(batch)["weights/1"][:, 0] != 0
        one.fit_batch(batch)
    return kept


# Gradients

HIDDEN = st.lists(st.one_of(st.integers(1, 9), st.sampled_from([16, 33, 100])), max_size=3)


@settings(max_examples=60)
@given(st.integers(0, 10**6), st.integers(1, 40), st.integers(1, 30), HIDDEN, st.sampled_from(["sigmoid", "relu"]))
def test_gradients_are_those_of_autograd(
    seed: int, rows: int, width: int, hidden: Sequence[int], activation: str
) -> None:
    network = begun(MLP(hidden, activation, dropout=0, batch_size=7), width, seed)
    dense, targets = drawn(seed, rows, width)
    before = network.state(resumable=True)
    found = network.gradients(Batch(sparse(dense), targets))
    assert_near(found, torch_gradients(network, dense, targets))
    assert all((array == before[name]).all() for name, array in network.state(resumable=True).items()), (
        "nothing is learnt"
    )


@settings(max_examples=25)
@given(st.integers(0, 10**6), st.floats(0.05, 0.9), HIDDEN, st.sampled_from(["sigmoid", "relu"]))
def test_with_dropout_gradients_are_those_of_the_inputs_that_are_left(
    seed: int, dropout: float, hidden: Sequence[int], activation: str
) -> None:
    network = begun(MLP(hidden, activation, dropout=dropout, batch_size=5), 12, seed)
    dense, targets = drawn(seed, 11, 12)
    share = round(dropout * 65536) / 65536
    left = dense * masks(seed, dropout, dense) / (1 - share)
    found = network.gradients(Batch(sparse(dense), targets))
    assert_near(found, torch_gradients(network, left, targets))
    gone = ~(left != 0).any(axis=0)
    assert (found["weights/1"][gone] == 0).all()


def test_the_gradients_of_no_rows_are_nothing() -> None:
    network = begun(MLP([3], dropout=0), 4, 0)
    found = network.gradients(Batch(sparse(np.zeros((0, 4))), np.zeros(0, np.float32)))
    assert all((array == 0).all() for array in found.values())


# Dropout


@pytest.mark.parametrize("dropout", [0.2, 0.5, 0.03])
def test_inputs_drop_out_as_often_as_they_should(dropout: float) -> None:
    kept = masks(5, dropout, np.ones((400, 50)))
    count = kept.size
    assert abs(kept.mean() - (1 - dropout)) < 5 * math.sqrt(dropout * (1 - dropout) / count)
    by_place = kept.reshape(-1, 50).mean(axis=0)
    assert np.abs(by_place - (1 - dropout)).max() < 5.5 * math.sqrt(dropout * (1 - dropout) / 400)
    pairs = (kept[:, 1:] * kept[:, :-1]).mean()
    assert abs(pairs - (1 - dropout) ** 2) < 0.02, "one input says nothing of the next"


def test_what_is_expected_of_an_input_stays_as_it_is() -> None:
    """With weights of 0 every delta is p − t = ½ − t: the gradient is −½ times the mean of what was let through."""
    network = Logistic(dropout=0.3, batch_size=1)
    network.reset(1, 3)
    network.restore(network.state(resumable=True) | {"weights/1": np.zeros((1, 1), np.float32)})
    rows = 20_000
    found = network.gradients(Batch(sparse(np.full((rows, 1), 1.5)), np.ones(rows, np.float32)))
    assert abs(found["weights/1"][0, 0] / -0.5 - 1.5) < 5 * 1.5 * math.sqrt(0.3 / 0.7 / rows)


def test_dropout_is_anew_for_every_example_and_the_same_in_any_split_into_mini_batches() -> None:
    dense = np.ones((60, 30))
    first = masks(1, 0.5, dense)
    assert len({row.tobytes() for row in first}) == 60
    assert (first != masks(2, 0.5, dense)).any()
    second = Logistic(dropout=0.5, batch_size=60)
    second.reset(30, 1)
    second.fit_batch(Batch(sparse(dense[:20]), np.full(20, 0.25, np.float32)))
    found = second.gradients(Batch(sparse(dense[20:21]), np.array([0.25], np.float32)))
    assert ((found["weights/1"][:, 0] != 0) == first[20]).all()


def test_a_dropout_as_near_to_1_as_can_be_leaves_something() -> None:
    network = MLP([4], dropout=1 - 1e-9)
    network.reset(3, 0)
    loss = network.fit_batch(Batch(sparse(np.ones((50, 3))), np.ones(50, np.float32)))
    assert math.isfinite(loss)
    assert np.isfinite(network.probabilities(sparse(np.ones((2, 3))))).all()


# Training

TRAININGS = [
    ((), "sigmoid", 10),
    ((8,), "sigmoid", 16),
    ((8,), "relu", 7),
    ((20, 5), "sigmoid", 64),
    ((100, 100), "sigmoid", 32),
    ((6, 5, 4), "relu", 100),
]


def plain_forward(weights: dict[str, Dense], activation: str, dense: Dense) -> list[Dense]:
    """What goes into each layer, and the log-odds."""
    found, last = [dense], len(weights) // 2
    for number in range(1, last + 1):
        z = found[-1] @ weights[f"weights/{number}"] + weights[f"biases/{number}"]
        if number < last:
            z = 1 / (1 + np.exp(-z)) if activation == "sigmoid" else np.maximum(z, 0)
        found.append(z)
    return found


def plain_training(network: MLP, dense: Dense, targets: npt.NDArray[np.float32], epochs: int) -> dict[str, Dense]:
    """Mini-batches of Adagrad in plain numpy, by the textbook."""
    state = network.state()
    weights = {name: array.astype(np.float64) for name, array in state.items()}
    squares = {name: np.full(array.shape, INITIAL_SQUARES) for name, array in state.items()}
    cuts = [*range(0, len(dense), network.batch_size), len(dense)]
    for begin, end in [*pairwise(cuts)] * epochs:
        layers = plain_forward(weights, network.activation, dense[begin:end])
        delta = (logistic(layers[-1]) - targets[begin:end, None]) / (end - begin)
        gradients = {}
        for number in range(len(weights) // 2, 0, -1):
            below = layers[number - 1]
            gradients[f"weights/{number}"] = below.T @ delta
            gradients[f"biases/{number}"] = delta.sum(axis=0)
            slope = below * (1 - below) if network.activation == "sigmoid" else below > 0
            delta = delta @ weights[f"weights/{number}"].T * slope
        for name, gradient in gradients.items():
            squares[name] += gradient**2
            weights[name] = weights[name] - network.learning_rate * gradient / (np.sqrt(squares[name]) + 1e-10)
    return weights


@pytest.mark.parametrize(("hidden", "activation", "batch"), TRAININGS)
def test_training_equals_a_plain_twin_and_pytorchs_adagrad(
    hidden: tuple[int, ...], activation: str, batch: int
) -> None:
    dense, targets = drawn(8, 150, 25)
    network = begun(MLP(hidden, activation, learning_rate=0.05, dropout=0, batch_size=batch), 25, 4)
    expected = plain_training(network, dense, targets, epochs=3)
    weights = parameters(network.state())
    steps = torch.optim.Adagrad(weights.values(), lr=0.05, initial_accumulator_value=INITIAL_SQUARES, eps=1e-10)
    for _ in range(3):
        for begin in range(0, 150, batch):
            steps.zero_grad()
            torch_loss(weights, activation, dense[begin : begin + batch], targets[begin : begin + batch]).backward()
            steps.step()
        network.fit_batch(Batch(sparse(dense), targets))
    assert_near(network.state(), expected)
    assert_near(network.state(), {name: tensor.detach().numpy() for name, tensor in weights.items()})
    p = logistic(plain_forward(expected, activation, dense)[-1][:, 0])
    assert np.abs(network.probabilities(sparse(dense)) - p).max() <= 1e-5


def test_the_loss_that_learning_gives_is_the_mean_before_each_step() -> None:
    dense, targets = drawn(3, 30, 9)
    network = begun(MLP([5], dropout=0, batch_size=30), 9, 1)
    expected = torch_loss(parameters(network.state()), "sigmoid", dense, targets).item()
    assert network.fit_batch(Batch(sparse(dense), targets)) == pytest.approx(expected, abs=1e-6)
    assert network.fit_batch(Batch(sparse(dense), targets)) < expected


def test_blocks_whose_ends_are_those_of_mini_batches_are_one_block() -> None:
    dense, targets = drawn(4, 40, 9)
    whole, parts = MLP([5], batch_size=8), MLP([5], batch_size=8)
    for network, cuts in ((whole, [0, 40]), (parts, [0, 8, 32, 40])):
        network.reset(9, 2)
        for begin, end in pairwise(cuts):
            network.fit_batch(Batch(sparse(dense[begin:end]), targets[begin:end]))
    assert same_bits(whole.state(resumable=True), parts.state(resumable=True))


def test_a_column_that_never_occurs_keeps_its_weights() -> None:
    dense, targets = drawn(5, 64, 9)
    dense[:, 3] = 0
    network = begun(MLP([5], batch_size=8), 9, 2)
    before = network.state()["weights/1"]
    network.fit_batch(Batch(sparse(dense), targets))
    moved = (network.state()["weights/1"] != before).any(axis=1)
    assert moved.tolist() == [column != 3 for column in range(9)]


def test_first_weights_are_small_and_of_the_seed() -> None:
    networks = [MLP([50, 20]) for _ in range(3)]
    for network, seed in zip(networks, (1, 1, 2), strict=True):
        network.reset(200, seed)
    one, again, other = (network.state() for network in networks)
    assert same_bits(one, again)
    assert not same_bits(one, other)
    for name, inner, units in (("weights/1", 64, 50), ("weights/2", 50, 20), ("weights/3", 20, 1)):
        bound = math.sqrt(6 / (inner + units))
        assert np.abs(one[name]).max() <= bound * (1 + 1e-6)
        if one[name].size > 500:
            assert abs(one[name].mean()) < bound / 10
            assert one[name].std() == pytest.approx(bound / math.sqrt(3), rel=0.1)
    assert not any(array.any() for name, array in one.items() if name.startswith("biases"))


# What it says


@pytest.mark.parametrize("hidden", [(), (7,), (100, 33)])
def test_probabilities_do_not_hang_on_how_rows_are_split(hidden: tuple[int, ...]) -> None:
    dense, targets = drawn(6, 90, 20)
    network = begun(MLP(hidden, batch_size=16), 20, 3)
    network.fit_batch(Batch(sparse(dense), targets))
    whole, units = network.probabilities(sparse(dense)), network.embed(sparse(dense))
    for cuts in ([0, 1, 2, 90], [0, 40, 90], [*range(91)]):
        parts = [sparse(dense[begin:end]) for begin, end in pairwise(cuts)]
        assert np.concatenate([network.probabilities(part) for part in parts]).tobytes() == whole.tobytes()
        assert np.concatenate([network.embed(part) for part in parts]).tobytes() == units.tobytes()
    other = MLP(hidden, batch_size=7)
    other.restore(network.state())
    assert other.probabilities(sparse(dense)).tobytes() == whole.tobytes()


def test_embeddings_are_the_last_hidden_layer_and_probabilities_come_from_them() -> None:
    dense, _ = drawn(7, 12, 6)
    deep = begun(MLP([9, 4]), 6, 1)
    units = deep.embed(sparse(dense))
    assert units.shape == (12, 4)
    assert units.dtype == np.float32
    state = deep.state()
    logits = units.astype(np.float64) @ state["weights/3"] + state["biases/3"]
    assert np.abs(logistic(logits[:, 0]) - deep.probabilities(sparse(dense))).max() < 1e-6
    flat = begun(Logistic(), 6, 1)
    assert flat.embed(sparse(dense)).shape == (12, 1)
    assert (
        np.abs(logistic(flat.embed(sparse(dense))[:, 0].astype(np.float64)) - flat.probabilities(sparse(dense))).max()
        == 0
    )
    assert deep.embed(sparse(np.zeros((0, 6)))).shape == (0, 4)


def test_a_network_of_no_columns_learns_the_share_of_answers() -> None:
    network = MLP([4], learning_rate=0.5)
    network.reset(0, 0)
    rows = sparse(np.zeros((400, 0)))
    for _ in range(50):
        network.fit_batch(Batch(rows, np.full(400, 0.25, np.float32)))
    assert network.probabilities(rows)[0] == pytest.approx(0.25, abs=0.01)


def test_the_logistic_function_never_overflows() -> None:
    z = np.array([-np.inf, -1e308, -800.0, -30.0, 0.0, 30.0, 800.0, np.inf])
    p = logistic(z)
    assert p.tolist()[:3] == [0, 0, 0]
    assert p.tolist()[-2:] == [1, 1]
    assert (np.diff(p) >= 0).all()
    assert p[3] == pytest.approx(math.exp(-30) / (1 + math.exp(-30)), rel=1e-14)


def test_rows_of_another_width_are_refused() -> None:
    network = begun(MLP([3]), 5, 0)
    for call in (
        network.probabilities,
        network.embed,
        lambda rows: network.fit_batch(Batch(rows, np.zeros(2, np.float32))),
    ):
        with pytest.raises(KnowledgeBaseError, match="rows of 5 columns, got 4"):
            call(sparse(np.zeros((2, 4))))


def test_scores_are_the_log_odds_of_the_probabilities() -> None:
    rows = SparseRows(np.array([0, 1, 2]), np.array([0, 1], np.int32), np.ones(2, np.float32), 2)
    network = MLP(hidden=(4,))
    network.reset(2, seed=3)
    assert network.scores(rows).dtype == np.float64
    assert np.allclose(log_odds(network.probabilities(rows)), network.scores(rows))
    assert np.allclose(BaseModel.scores(network, rows), network.scores(rows))  # what others have

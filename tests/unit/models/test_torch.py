"""Modules of PyTorch as base models."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from gaifman.errors import InputError, KnowledgeBaseError, OutputError
from gaifman.models import TorchModel
from gaifman.models.base import Batch
from gaifman.models.calibration import logistic
from gaifman.models.testing import check_base_model
from model_cases import batch_of, examples, rows_of
from processes import run

LAYERS = [["Linear", 8], ["Sigmoid"], ["Linear", 1]]


def two_layers(width: int) -> nn.Module:
    """A module whose size is known only when the columns are."""
    return nn.Sequential(nn.Linear(width, 8), nn.ReLU(), nn.Dropout(0.1), nn.Linear(8, 1), nn.Flatten(0))


class Attention(nn.Module):  # type: ignore[misc]
    """A module that is no chain of layers, for dense input: columns weighed against each other."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weigh, self.judge = nn.Linear(width, width), nn.Linear(width, 1)

    def forward(self, inputs: Any) -> Any:
        return self.judge(inputs * torch.sigmoid(self.weigh(inputs)))


MODELS: dict[str, Callable[[], TorchModel]] = {
    "layers": lambda: TorchModel(LAYERS, learning_rate=0.05, epochs=4),
    "dropout": lambda: TorchModel(LAYERS, learning_rate=0.05, epochs=4, dropout=0.2),
    "function": lambda: TorchModel(two_layers, learning_rate=0.03, epochs=4),
    "dense": lambda: TorchModel(Attention, learning_rate=0.05, epochs=4, sparse=False),
    "adagrad": lambda: TorchModel(LAYERS, learning_rate=0.2, epochs=3, batch_size=50, optimiser="adagrad"),
    "normed": lambda: TorchModel([["BatchNorm1d"], ["Linear", 1]], learning_rate=0.05, epochs=3, sparse=False),
}


@pytest.mark.parametrize("name", list(MODELS))
def test_modules_keep_the_rules(name: str) -> None:
    check_base_model(MODELS[name])


def trained(model: TorchModel, batch: Batch, seed: int = 0) -> TorchModel:
    """A trained model."""
    model.reset(batch.rows.width, seed)
    for _ in range(model.epochs):
        model.fit_batch(batch)
        model.end_epoch()
    return model


def test_the_steps_are_those_of_a_plain_loop() -> None:
    batch = examples(1, 300)
    model = TorchModel(lambda width: nn.Linear(width, 1), learning_rate=0.05, epochs=2, batch_size=64)
    model.reset(6, 3)
    losses = [model.fit_batch(batch) for _ in range(model.epochs)]
    dense = np.zeros((300, 6), np.float32)
    at = np.repeat(np.arange(300), np.diff(batch.rows.starts))
    dense[at, batch.rows.columns] = batch.rows.values
    with torch.random.fork_rng():
        torch.manual_seed(3)
        plain = nn.Linear(6, 1)
    optimiser = torch.optim.Adam(plain.parameters(), lr=0.05)
    expected = []
    for _ in range(2):
        total = 0.0
        for begin in range(0, 300, 64):
            targets = torch.tensor(batch.targets[begin : begin + 64])
            logits = plain(torch.tensor(dense[begin : begin + 64])).reshape(-1)
            loss = nn.functional.binary_cross_entropy_with_logits(logits, targets)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            total += loss.item() * len(targets)
        expected.append(total / 300)
    np.testing.assert_allclose(losses, expected, rtol=1e-4)
    with torch.no_grad():
        p = logistic(plain(torch.tensor(dense)).reshape(-1).numpy())
    np.testing.assert_allclose(model.probabilities(batch.rows), p, atol=1e-5)


def test_sparse_and_dense_input_come_to_the_same() -> None:
    batch = examples(2)
    sparse, dense = (trained(TorchModel(LAYERS, sparse=sparse), batch) for sparse in (True, False))
    np.testing.assert_allclose(sparse.probabilities(batch.rows), dense.probabilities(batch.rows), atol=1e-4)


def test_input_dropout_is_for_learning_alone() -> None:
    batch = examples(3)
    model = trained(TorchModel(LAYERS, dropout=0.5), batch)
    np.testing.assert_array_equal(model.probabilities(batch.rows), model.probabilities(batch.rows))
    without = trained(TorchModel(LAYERS), batch)
    assert model.probabilities(batch.rows).tolist() != without.probabilities(batch.rows).tolist()


def test_soft_targets_are_fitted() -> None:
    batch = batch_of([[1, 0], [0, 1]] * 50, [0.8, 0.3] * 50)
    p = trained(TorchModel([["Linear", 1]], learning_rate=0.1, epochs=100), batch).probabilities(
        rows_of([[1, 0], [0, 1]])
    )
    np.testing.assert_allclose(p, [0.8, 0.3], atol=0.02)


def test_a_module_of_ones_own_is_copied_and_begun_anew() -> None:
    given = two_layers(6)
    before = {name: tensor.clone() for name, tensor in given.state_dict().items()}
    batch = examples(4)
    one = trained(TorchModel(given), batch, seed=1)
    assert all(torch.equal(tensor, before[name]) for name, tensor in given.state_dict().items())
    same, other = trained(TorchModel(two_layers(6)), batch, seed=1), trained(TorchModel(given), batch, seed=2)
    assert one.probabilities(batch.rows).tolist() == same.probabilities(batch.rows).tolist()
    assert one.probabilities(batch.rows).tolist() != other.probabilities(batch.rows).tolist()


def test_the_embedding_comes_into_the_last_linear_layer() -> None:
    batch = examples(5)
    model = trained(TorchModel(LAYERS), batch)
    embedding = model.embed(batch.rows)
    assert embedding.shape == (400, 8)
    state = model.state()
    scores = embedding @ state["module.2.weight"][0] + state["module.2.bias"][0]
    np.testing.assert_allclose(logistic(scores), model.probabilities(batch.rows), atol=1e-5)


def test_the_embedding_of_one_layer_is_its_input() -> None:
    table = [[0.0, 2, 0], [1.0, 0, 3]]
    model = TorchModel([["Linear", 1]])
    model.reset(3, 0)
    np.testing.assert_array_equal(model.embed(rows_of(table)), table)


def test_without_a_linear_layer_the_embedding_is_the_logit() -> None:
    class Sum(nn.Module):  # type: ignore[misc]
        """Adds up."""

        def __init__(self, width: int) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.ones(width))

        def forward(self, inputs: Any) -> Any:
            return (inputs * self.scale).sum(dim=1)

    model = TorchModel(Sum, sparse=False)
    model.reset(3, 0)
    assert model.embed(rows_of([[0, 2, 0], [1, 0, 3]])).tolist() == [[2.0], [4.0]]


# The process is left as it was


def test_the_random_numbers_and_threads_of_torch_are_put_back() -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        torch.manual_seed(11)
        before = torch.get_rng_state()
        model = trained(TorchModel(LAYERS, dropout=0.3), examples(6))
        model.embed(examples(6).rows)
        assert torch.equal(torch.get_rng_state(), before)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)


def test_learning_does_not_care_for_gradients_switched_off() -> None:
    batch = examples(7)
    with torch.no_grad():
        quiet = trained(TorchModel(LAYERS), batch)
    np.testing.assert_array_equal(
        quiet.probabilities(batch.rows), trained(TorchModel(LAYERS), batch).probabilities(batch.rows)
    )


def test_models_on_many_threads_are_those_of_one() -> None:
    batches = [examples(seed) for seed in range(6)]
    found: dict[int, list[float]] = {}

    def work(number: int) -> None:
        model = trained(TorchModel(LAYERS, dropout=0.3, epochs=3), batches[number], seed=number)
        found[number] = model.probabilities(batches[number].rows).tolist()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    together = dict(found)
    for number in range(6):
        work(number)
        assert found[number] == together[number]


# Files


def test_layers_by_name_are_made_anew_from_json() -> None:
    batch = examples(8)
    model = trained(
        TorchModel([["Linear", 4, False], ["LeakyReLU", 0.2], ["LayerNorm"], ["Linear", 1]], epochs=2), batch
    )
    again = TorchModel(**json.loads(json.dumps(dict(model.settings()))))
    again.restore(model.state())
    np.testing.assert_array_equal(again.probabilities(batch.rows), model.probabilities(batch.rows))


def test_a_module_of_ones_own_keeps_its_state_but_not_its_making() -> None:
    batch = examples(9)
    model = trained(TorchModel(two_layers, epochs=2), batch)
    with pytest.raises(OutputError, match="cannot be saved") as caught:
        model.settings()
    assert "Linear" in caught.value.hint
    again = TorchModel(two_layers)
    again.restore(model.state())
    np.testing.assert_array_equal(again.probabilities(batch.rows), model.probabilities(batch.rows))


def test_the_whole_state_has_the_optimiser_and_the_random_numbers() -> None:
    model = trained(TorchModel(LAYERS, epochs=1), examples(10))
    plain, whole = model.state(), model.state(resumable=True)
    assert set(plain) == {"width", "module.0.weight", "module.0.bias", "module.2.weight", "module.2.bias"}
    more = set(whole) - set(plain)
    assert "random" in more
    assert {name.split(".")[2] for name in more if name.startswith("optimiser.")} == {"step", "exp_avg", "exp_avg_sq"}


def test_another_state_is_refused() -> None:
    with pytest.raises(InputError, match="not the state of a module: no arrays"):
        TorchModel(LAYERS).restore({})
    model = trained(TorchModel(LAYERS, epochs=1), examples(11))
    with pytest.raises(InputError, match="the state of another module"):
        TorchModel([["Linear", 3], ["Linear", 1]]).restore(model.state())


# Mistakes


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"optimiser": "adem"}, "optimiser must be one of .*, got 'adem'"),
        ({"learning_rate": 0}, "learning_rate must be a number above 0"),
        ({"learning_rate": float("nan")}, "learning_rate must be a number above 0"),
        ({"epochs": 0}, "epochs must be an integer of at least 1, got 0"),
        ({"batch_size": 0}, "batch_size must be an integer of at least 1, got 0"),
        ({"dropout": 1.0}, "dropout must be a number, at least 0 and below 1"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(KnowledgeBaseError, match=words):
        TorchModel(LAYERS, **options)


def test_an_unknown_layer_names_the_near_ones() -> None:
    with pytest.raises(KnowledgeBaseError, match=r"a layer must be one of .*, got 'Sigmoyd'") as caught:
        TorchModel([["Linear", 3], ["Sigmoyd"], ["Linear", 1]]).reset(2, 0)
    assert "Sigmoid" in caught.value.suggestions


def test_a_file_cannot_name_any_class() -> None:
    with pytest.raises(KnowledgeBaseError, match=r"a layer must be one of .*, got 'ParameterList'"):
        TorchModel([["ParameterList", [1]]]).reset(2, 0)


def test_too_many_logits_are_refused() -> None:
    model = TorchModel([["Linear", 2]])
    model.reset(6, 0)
    with pytest.raises(KnowledgeBaseError, match=r"of shape \(128,\) or \(128, 1\), got \(128, 2\)"):
        model.probabilities(examples(12).rows)


def test_the_error_of_a_module_for_dense_input_has_a_hint() -> None:
    model = TorchModel(Attention)
    model.reset(6, 0)
    with pytest.raises(KnowledgeBaseError, match="the module fails") as caught:
        model.fit_batch(examples(13))
    assert "sparse=False" in caught.value.hint


def test_a_module_of_another_width_is_refused() -> None:
    model = TorchModel(nn.Linear(3, 1), sparse=False)
    model.reset(6, 0)
    with pytest.raises(KnowledgeBaseError, match="the module fails: mat1 and mat2 shapes") as caught:
        model.probabilities(examples(13).rows)
    assert not caught.value.hint


def test_a_module_that_runs_away_says_so() -> None:
    model = TorchModel(LAYERS)
    model.reset(6, 0)
    state = model.state()
    with pytest.raises(InputError, match="has numbers that are not finite"):
        model.restore(state | {"module.2.bias": np.array([np.nan], np.float32)})
    large = {name: np.full_like(array, 3e38) for name, array in state.items() if name.startswith("module.")}
    model.restore(state | large)
    with pytest.raises(KnowledgeBaseError, match="not finite") as caught:
        model.probabilities(examples(14).rows)
    assert "lower the learning_rate" in caught.value.hint


def test_calls_out_of_turn_say_what_is_missing() -> None:
    model, batch = TorchModel(LAYERS), examples(15)
    calls: list[Callable[[], Any]] = [
        lambda: model.fit_batch(batch),
        lambda: model.probabilities(batch.rows),
        lambda: model.embed(batch.rows),
        model.state,
    ]
    for call in calls:
        with pytest.raises(KnowledgeBaseError, match="is not initialised"):
            call()
    model.reset(5, 0)
    with pytest.raises(KnowledgeBaseError, match="rows of 5 columns, got 6"):
        model.fit_batch(batch)


def test_without_torch_the_message_says_what_to_install() -> None:
    code = "import sys; sys.modules['torch'] = None; from gaifman.models import TorchModel; TorchModel([]).reset(2, 0)"
    done = run([sys.executable, "-c", code])
    assert "pip install 'gaifman[torch]'" in done.stderr


def test_nothing_heavy_is_loaded_before_it_is_used() -> None:
    heavy = "torch sklearn lightgbm"  # numba loads scipy by itself where it is there
    code = f"import sys, gaifman.models; print(*[m for m in '{heavy}'.split() if m in sys.modules])"
    done = run([sys.executable, "-c", code], check=True)
    assert done.stdout.split() == []

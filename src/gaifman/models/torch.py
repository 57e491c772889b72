"""Any module of PyTorch as a base model."""

from __future__ import annotations

import copy
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gaifman.config import check_choice, check_fraction, check_int, check_positive
from gaifman.errors import InputError, KnowledgeBaseError, OutputError, similar_names
from gaifman.kb.tables import Floats
from gaifman.models.calibration import logistic
from gaifman.models.mlp import BaseModel, Batch, Reals, SparseRows, State

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module

PREDICT_BATCH = 128
"""Rows that probabilities are computed for at once, always as many: products of other sizes differ in the last bits."""
OPTIMISERS = {"adam": "Adam", "adagrad": "Adagrad"}
LAYERS_WITH_WIDTH = ("Linear", "LayerNorm", "BatchNorm1d")
"""Layers whose first argument is the width of what comes in, which is left out."""
LAYERS = (*LAYERS_WITH_WIDTH, "Dropout", "ELU", "GELU", "LeakyReLU", "ReLU", "SiLU", "Sigmoid", "Softplus", "Tanh")
"""Layers that can be given by name, and so be kept in a file."""

_LOCK = threading.RLock()
# Torch has one source of random numbers and one number of threads for the whole process.


class TorchModel(BaseModel):
    """A module that gives a logit for each row: shape (rows,) or (rows, 1).

    It is a module, a function from the number of columns to a module, or a list of layers by name, such as
    `[["Linear", 100], ["Sigmoid"], ["Linear", 1]]`: only the last can be made anew from a file.
    """

    kind = "torch"

    def __init__(
        self,
        module: Module | Callable[[int], Module] | Sequence[Sequence[Any]],
        learning_rate: float = 0.01,
        epochs: int = 10,
        batch_size: int = 128,
        dropout: float = 0.0,
        optimiser: str = "adam",
        sparse: bool = True,
    ) -> None:
        """`dropout` is that of the inputs. `sparse` is for modules whose first layer is linear; others want dense."""
        check_choice("optimiser", optimiser, OPTIMISERS)
        check_positive("learning_rate", learning_rate)
        check_int("epochs", epochs, 1)
        check_int("batch_size", batch_size, 1)
        check_fraction("dropout", dropout, one=False)
        self.epochs = epochs
        self._given: Any = module
        self._options: dict[str, Any] = {
            "learning_rate": learning_rate,
            "epochs": epochs,
            "batch_size": batch_size,
            "dropout": dropout,
        }
        self._options |= {"optimiser": optimiser, "sparse": sparse}
        self._learning_rate, self._batch_size, self._dropout = learning_rate, batch_size, dropout
        self._optimiser_name, self._sparse = OPTIMISERS[optimiser], sparse
        self._width = -1
        self._module: Module
        self._optimiser: Any
        self._random: Tensor

    def reset(self, width: int, seed: int) -> None:
        with _exclusive_torch() as torch:
            torch.manual_seed(seed % (1 << 63))
            self._width = width
            self._module = self._new_module(torch, max(width, 1)).float()  # torch warns of layers without inputs
            self._optimiser = getattr(torch.optim, self._optimiser_name)(
                self._module.parameters(), lr=self._learning_rate
            )
            self._random = torch.get_rng_state()

    def fit_batch(self, batch: Batch) -> float:
        """One step for each mini-batch, in the order given."""
        self._check_width(batch.rows)
        total, count = 0.0, len(batch.rows)
        with _exclusive_torch() as torch, torch.enable_grad():
            torch.set_rng_state(self._random)
            self._module.train()
            for begin in range(0, count, self._batch_size):
                end = min(begin + self._batch_size, count)
                inputs = self._inputs(torch, batch.rows, begin, end, end - begin)
                targets = torch.from_numpy(np.array(batch.targets[begin:end], np.float32))
                with self._translate_errors():
                    loss = torch.nn.functional.binary_cross_entropy_with_logits(self._logits(inputs), targets)
                    self._optimiser.zero_grad()
                    loss.backward()
                self._optimiser.step()
                total += loss.item() * (end - begin)
            self._random = torch.get_rng_state()
        return total / count if count else float("nan")

    def probabilities(self, rows: SparseRows) -> Floats:
        return logistic(self._apply(rows, self._logits)[:, 0])

    def embed(self, rows: SparseRows) -> Reals:
        """What comes into the module's last linear layer; without one, the logits."""
        with _exclusive_torch() as torch:
            self._check_width(rows)
            linear = [layer for layer in self._module.modules() if isinstance(layer, torch.nn.Linear)]
            if not linear:
                return self._apply(rows, self._logits)
            seen: list[Tensor] = []
            hook = linear[-1].register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))

            def before(inputs: Tensor) -> Tensor:
                seen.clear()
                self._module(inputs)
                return seen[-1].to_dense() if seen[-1].is_sparse_csr else seen[-1]

            try:
                return self._apply(rows, before)
            finally:
                hook.remove()

    def settings(self) -> Mapping[str, Any]:
        if not isinstance(self._given, Sequence):
            raise OutputError(
                "a module of your own cannot be made anew from a file: that would need code to be run from it",
                hint='give the layers by name, as in Torch([["Linear", 100], ["Sigmoid"], ["Linear", 1]]), or keep '
                "state() yourself and restore() it into the same module",
            )
        return {"module": [list(layer) for layer in self._given], **self._options}

    def state(self, *, resumable: bool = False) -> State:
        self._check_width(None)
        found: State = {"width": np.array([self._width])}
        found |= {f"module.{name}": _to_array(tensor) for name, tensor in self._module.state_dict().items()}
        if resumable:
            found["random"] = _to_array(self._random)
            for number, values in self._optimiser.state_dict()["state"].items():
                found |= {f"optimiser.{number}.{name}": _to_array(tensor) for name, tensor in values.items()}
        return found

    def restore(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        if "width" not in state:
            raise InputError(f"this is not the state of a module: it holds {', '.join(sorted(state)) or 'nothing'}")
        self.reset(int(state["width"][0]), 0)
        with _exclusive_torch() as torch:
            tensors = {name: torch.from_numpy(np.array(array)) for name, array in state.items()}
            learnt = {name.removeprefix("module."): t for name, t in tensors.items() if name.startswith("module.")}
            try:
                self._module.load_state_dict(learnt)
            except RuntimeError as error:
                raise InputError(f"the state is that of another module: {error}") from None
            self._random = tensors.get("random", self._random)
            steps: dict[int, dict[str, Tensor]] = {}
            for name, tensor in tensors.items():
                if name.startswith("optimiser."):
                    _, number, key = name.split(".")
                    steps.setdefault(int(number), {})[key] = tensor
            if steps:
                self._optimiser.load_state_dict(self._optimiser.state_dict() | {"state": steps})

    def _new_module(self, torch: Any, width: int) -> Module:
        """A module with first weights by the random numbers as they stand."""
        if isinstance(self._given, Sequence):
            return _build_layers(torch, self._given, width)
        if not isinstance(self._given, torch.nn.Module):
            return self._given(width)
        module = copy.deepcopy(self._given)
        for layer in module.modules():
            if hasattr(layer, "reset_parameters"):
                layer.reset_parameters()
        return module

    def _inputs(self, torch: Any, rows: SparseRows, begin: int, end: int, count: int) -> Tensor:
        """Some rows as a tensor of `count` rows: empty ones are added."""
        starts = rows.starts[begin : end + 1] - rows.starts[begin]
        entries = slice(int(rows.starts[begin]), int(rows.starts[end]))
        columns, values = rows.columns[entries], torch.from_numpy(np.array(rows.values[entries]))
        if self._module.training and self._dropout:
            values = torch.nn.functional.dropout(values, self._dropout)
        if not self._sparse:
            dense = torch.zeros(count, max(rows.width, 1))
            at = np.repeat(np.arange(end - begin), np.diff(starts))
            dense[torch.from_numpy(at), torch.from_numpy(columns.astype(np.int64))] = values
            return dense
        pointers = np.append(starts, np.full(count - (end - begin), starts[-1]))
        parts = torch.from_numpy(pointers), torch.from_numpy(columns.astype(np.int64)), values
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch says that such tensors are in beta state
            return torch.sparse_csr_tensor(*parts, size=(count, max(rows.width, 1)), check_invariants=True)

    def _logits(self, inputs: Tensor) -> Tensor:
        found = self._module(inputs)
        count = inputs.shape[0]
        if tuple(found.shape) not in {(count,), (count, 1)}:
            wanted = f"({count},) or ({count}, 1)"
            raise KnowledgeBaseError(
                f"a module gives a logit for each row, of shape {wanted}, not {tuple(found.shape)}"
            )
        return found.reshape(-1)

    def _apply(self, rows: SparseRows, function: Callable[[Tensor], Tensor]) -> Reals:
        """Shape (rows, some size): a function of the inputs, in blocks of one size."""
        self._check_width(rows)
        with _exclusive_torch() as torch, torch.no_grad():
            self._module.eval()
            parts = []
            for begin in range(0, max(len(rows), 1), PREDICT_BATCH):
                end = min(begin + PREDICT_BATCH, len(rows))
                inputs = self._inputs(torch, rows, begin, end, PREDICT_BATCH)
                with self._translate_errors():
                    parts.append(function(inputs).reshape(PREDICT_BATCH, -1)[: end - begin].float().numpy())
        whole: Reals = np.concatenate(parts)
        if not np.isfinite(whole).all():
            raise KnowledgeBaseError("the module gives numbers that are not finite", hint="learn at a smaller rate")
        return whole

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """What torch finds wrong with the module, as an error of ours that says what may help."""
        try:
            yield
        except RuntimeError as error:
            hint = "does its first layer take sparse input? If not, write Torch(…, sparse=False)"
            raise KnowledgeBaseError(f"the module fails: {error}", hint=hint if self._sparse else "") from error

    def _check_width(self, rows: SparseRows | None) -> None:
        if self._width < 0:
            raise KnowledgeBaseError("the module was not begun", hint="call begin(width, seed) first")
        if rows is not None and rows.width != self._width:
            raise KnowledgeBaseError(f"the module is for rows of {self._width} columns, these have {rows.width}")


def _build_layers(torch: Any, layers: Sequence[Sequence[Any]], width: int) -> Module:
    """Layers by name, one after another."""
    made = []
    for name, *arguments in layers:
        if name not in LAYERS:
            raise KnowledgeBaseError(
                f"there is no layer {name} to be given by name", suggestions=similar_names(str(name), LAYERS)
            )
        made.append(getattr(torch.nn, name)(*((width,) if name in LAYERS_WITH_WIDTH else ()), *arguments))
        width = arguments[0] if name == "Linear" else width
    return torch.nn.Sequential(*made)


def _to_array(tensor: Tensor) -> npt.NDArray[Any]:
    """A copy: what goes on learning must not change it."""
    return np.array(tensor.detach().cpu().numpy())


@contextmanager
def _exclusive_torch() -> Iterator[Any]:
    """Torch for ourselves: on one thread, and with its random numbers and number of threads put back afterwards."""
    try:
        import torch
    except ImportError:
        raise KnowledgeBaseError("PyTorch is not installed", hint="pip install 'gaifman[torch]'") from None
    with _LOCK, torch.random.fork_rng(devices=[]):
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            yield torch
        finally:
            torch.set_num_threads(threads)

"""PyTorch modules as base models."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gaifman.config import check_choice, check_fraction, check_int, check_positive
from gaifman.errors import InputError, KnowledgeBaseError, OutputError, shorten
from gaifman.features.evaluator import Reals
from gaifman.io.model_file import require_array
from gaifman.kb.tables import Floats
from gaifman.models.base import BaseModel, Batch, SparseRows, State, import_extra
from gaifman.models.calibration import logistic
from gaifman.threads import ProcessLock

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module

PREDICT_BATCH = 128
"""Rows per forward pass at prediction. The size is fixed: products of other sizes differ in the last bits."""
OPTIMISERS = {"adam": "Adam", "adagrad": "Adagrad"}
LAYERS_WITH_WIDTH = ("Linear", "LayerNorm", "BatchNorm1d")
"""Layers whose first argument, the input width, is filled in."""
LAYERS = (*LAYERS_WITH_WIDTH, "Dropout", "ELU", "GELU", "LeakyReLU", "ReLU", "SiLU", "Sigmoid", "Softplus", "Tanh")
"""Layers that can be given by name and saved."""

_LOCK = ProcessLock()
# PyTorch has one random state and one number of threads per process.


class TorchModel(BaseModel):
    """A module that returns a logit for each row, of shape (rows,) or (rows, 1).

    `module` is a module, a function from the number of columns to a module, or a list of layers by name such as
    `[["Linear", 100], ["Sigmoid"], ["Linear", 1]]`. Only a list can be saved.
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
        """Create an untrained model.

        `dropout` is the fraction of inputs dropped in training, `optimiser` is `adam` or `adagrad`. With `sparse` the
        module gets sparse CSR tensors, which its first layer must accept, as `Linear` does.
        """
        check_choice("optimiser", optimiser, OPTIMISERS)
        check_positive("learning_rate", learning_rate)
        check_int("epochs", epochs, 1)
        check_int("batch_size", batch_size, 1)
        check_fraction("dropout", dropout, one=False)
        self.epochs = epochs
        self._source: Any = module
        self._options: dict[str, Any] = {
            "learning_rate": learning_rate,
            "epochs": epochs,
            "batch_size": batch_size,
            "dropout": dropout,
            "optimiser": optimiser,
            "sparse": sparse,
        }
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
            self._module = self._new_module(torch, max(width, 1)).float()  # PyTorch warns about layers without inputs
            self._optimiser = getattr(torch.optim, self._optimiser_name)(
                self._module.parameters(), lr=self._learning_rate
            )
            self._random = torch.get_rng_state()

    def fit_batch(self, batch: Batch) -> float:
        """Make one step per mini-batch, in order."""
        self._check_width(batch.rows)
        total, count = 0.0, len(batch.rows)
        with _exclusive_torch() as torch, torch.enable_grad():
            torch.set_rng_state(self._random)
            self._module.train()
            for begin in range(0, count, self._batch_size):
                end = min(begin + self._batch_size, count)
                inputs = self._inputs(torch, batch.rows.slice(begin, end), end - begin)
                targets = torch.from_numpy(np.array(batch.targets[begin:end], np.float32))
                with self._translate_errors():
                    loss = torch.nn.functional.binary_cross_entropy_with_logits(self._logits(inputs), targets)
                    self._optimiser.zero_grad()
                    loss.backward()
                self._optimiser.step()
                total += loss.item() * (end - begin)
            self._random = torch.get_rng_state()
        if not count:
            return float("nan")
        return total / count if np.isfinite(total) else float("inf")

    def probabilities(self, rows: SparseRows) -> Floats:
        return logistic(self._apply(rows, self._logits)[:, 0])

    def embed(self, rows: SparseRows) -> Reals:
        """Return the inputs of the last linear layer, or the logits if there is none."""
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
        if not isinstance(self._source, Sequence):
            raise OutputError(
                "a custom module cannot be saved: loading it would run code from the file",
                hint='give the layers by name, as in TorchModel([["Linear", 100], ["Sigmoid"], ["Linear", 1]]), or '
                "save state() yourself and restore() it into the same module",
            )
        return {"module": [list(layer) for layer in self._source], **self._options}

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
            raise InputError(f"not the state of a module: {', '.join(sorted(state)) or 'no arrays'}")
        self.reset(int(require_array(state, "width", np.int64, (1,))[0]), 0)
        for name, array in state.items():
            if not name.startswith("optimiser."):  # its bounds may be infinite
                require_array(state, name, array.dtype, array.shape)
        with _exclusive_torch() as torch:
            tensors = {name: torch.from_numpy(np.array(array)) for name, array in state.items()}
            parameters = {name.removeprefix("module."): t for name, t in tensors.items() if name.startswith("module.")}
            try:
                self._module.load_state_dict(parameters)
            except RuntimeError as error:
                raise InputError(f"the state of another module: {shorten(str(error), 200)}") from None
            self._random = tensors.get("random", self._random)
            steps: dict[int, dict[str, Tensor]] = {}
            for name, tensor in tensors.items():
                if name.startswith("optimiser."):
                    _, number, key = name.split(".")
                    steps.setdefault(int(number), {})[key] = tensor
            if steps:
                self._optimiser.load_state_dict(self._optimiser.state_dict() | {"state": steps})

    def _new_module(self, torch: Any, width: int) -> Module:
        """Return a module with initial weights from PyTorch's current random state."""
        if isinstance(self._source, Sequence):
            return _build_layers(torch, self._source, width)
        if not isinstance(self._source, torch.nn.Module):
            return self._source(width)
        module = copy.deepcopy(self._source)
        for layer in module.modules():
            if hasattr(layer, "reset_parameters"):
                layer.reset_parameters()
        return module

    def _inputs(self, torch: Any, rows: SparseRows, count: int) -> Tensor:
        """Return rows as a tensor of `count` rows, padded with empty ones."""
        columns = torch.from_numpy(rows.columns.astype(np.int64))
        values = torch.from_numpy(np.array(rows.values))
        if self._module.training and self._dropout:
            values = torch.nn.functional.dropout(values, self._dropout)
        if not self._sparse:
            dense = torch.zeros(count, max(rows.width, 1))
            dense[torch.from_numpy(rows.entry_rows()), columns] = values
            return dense
        pointers = torch.from_numpy(np.append(rows.starts, np.full(count - len(rows), rows.starts[-1])))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PyTorch warns that CSR tensors are in beta
            size = (count, max(rows.width, 1))
            return torch.sparse_csr_tensor(pointers, columns, values, size=size, check_invariants=True)

    def _logits(self, inputs: Tensor) -> Tensor:
        found = self._module(inputs)
        count = inputs.shape[0]
        if tuple(found.shape) not in {(count,), (count, 1)}:
            raise KnowledgeBaseError(
                f"the module must return logits of shape ({count},) or ({count}, 1), got {tuple(found.shape)}"
            )
        return found.reshape(-1)

    def _apply(self, rows: SparseRows, function: Callable[[Tensor], Tensor]) -> Reals:
        """Return shape (rows, any): a function of the inputs, computed in blocks of one size."""
        self._check_width(rows)
        with _exclusive_torch() as torch, torch.no_grad():
            self._module.eval()
            parts = []
            for begin in range(0, max(len(rows), 1), PREDICT_BATCH):
                end = min(begin + PREDICT_BATCH, len(rows))
                inputs = self._inputs(torch, rows.slice(begin, end), PREDICT_BATCH)
                with self._translate_errors():
                    parts.append(function(inputs).reshape(PREDICT_BATCH, -1)[: end - begin].float().numpy())
        whole: Reals = np.concatenate(parts)
        if not np.isfinite(whole).all():
            raise KnowledgeBaseError("the module returns values that are not finite", hint="lower the learning_rate")
        return whole

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Turn PyTorch's errors into ours, with a hint."""
        try:
            yield
        except RuntimeError as error:
            hint = "if its first layer takes no sparse input, pass TorchModel(…, sparse=False)"
            raise KnowledgeBaseError(f"the module fails: {error}", hint=hint if self._sparse else "") from error

    def _check_width(self, rows: SparseRows | None) -> None:
        if self._width < 0:
            raise KnowledgeBaseError("the module is not initialised", hint="call reset(width, seed) first")
        if rows is not None and rows.width != self._width:
            raise KnowledgeBaseError(f"the module takes rows of {self._width:,} columns, got {rows.width:,}")


def _build_layers(torch: Any, layers: Sequence[Sequence[Any]], width: int) -> Module:
    """Build a sequence of layers from their names."""
    built = []
    for name, *arguments in layers:
        check_choice("a layer", name, LAYERS)
        built.append(getattr(torch.nn, name)(*((width,) if name in LAYERS_WITH_WIDTH else ()), *arguments))
        width = arguments[0] if name == "Linear" else width
    return torch.nn.Sequential(*built)


def _to_array(tensor: Tensor) -> npt.NDArray[Any]:
    """Return a copy: further training must not change it."""
    return np.array(tensor.detach().cpu().numpy())


@contextmanager
def _exclusive_torch() -> Iterator[Any]:
    """Yield torch on one thread, and restore its random state and number of threads afterwards."""
    torch = import_extra("torch", "torch")
    with _LOCK, torch.random.fork_rng(devices=[]):
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            yield torch
        finally:
            torch.set_num_threads(threads)

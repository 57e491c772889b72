"""The paper's base models: a multilayer perceptron on sparse rows, and logistic regression.

>>> rows = SparseRows(np.array([0, 1, 2]), np.array([0, 1], np.int32), np.ones(2, np.float32), 2)
>>> model = MLP(hidden=(8,), epochs=1, learning_rate=0.5)
>>> model.reset(rows.width, seed=0)
>>> for _ in range(200):
...     loss = model.fit_batch(Batch(rows, np.array([1, 0], np.float32)))
>>> model.probabilities(rows).round(1).tolist()
[1.0, 0.0]
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from gaifman.config import check_choice, check_fraction, check_int, check_positive
from gaifman.errors import InputError, KnowledgeBaseError, shorten, similar_names
from gaifman.features.evaluator import Reals
from gaifman.io.model_file import require_array
from gaifman.kb.tables import Floats, Ints, Longs, freeze
from gaifman.kernels.mlp import (
    ADAGRAD,
    GRADIENTS,
    RELU,
    SIGMOID,
    Architecture,
    Entries,
    UpdateSettings,
    Weights,
    Workspace,
    fill_uniform,
    infer,
    train_block,
)
from gaifman.kernels.ranking import first_layer_sums, score_candidates
from gaifman.kernels.rng import fold_in
from gaifman.models.base import BaseModel, Batch, SparseRows, State
from gaifman.models.calibration import logistic

MAX_WEIGHTS = 500_000_000
"""Largest number of weights of a network: 2 GB; training needs three times as much."""
MAX_BATCH_SIZE = 1_000_000
"""Largest number of rows per step."""
ACTIVATIONS = {"sigmoid": SIGMOID, "relu": RELU}
INITIAL_SQUARES = 1e-3
"""Initial value of Adagrad's sums of squares: it keeps the first steps small."""
TYPICAL_ROW_ENTRIES = 64
"""Typical number of entries of a row: the fan-in that the first weights are scaled for."""
PROBED_ROWS = 64
"""Rows of a batch that are evaluated after its last step, to find out whether the network has diverged."""
PURPOSE = 0x6E6574
"""Purpose of the random numbers."""


class MLP(BaseModel):
    """The paper's network: hidden layers on sparse inputs, input dropout, cross-entropy loss, Adagrad."""

    kind = "mlp"

    def __init__(
        self,
        hidden: Sequence[int] = (100, 100),
        activation: str = "sigmoid",
        learning_rate: float = 0.05,
        epochs: int = 3,
        dropout: float = 0.2,
        batch_size: int = 128,
    ) -> None:
        """Create an untrained network.

        `hidden` lists the widths of the hidden layers, `activation` is `sigmoid` or `relu`. `dropout` is the fraction
        of inputs dropped in training, `batch_size` the number of rows per Adagrad step.
        """
        if not isinstance(hidden, list | tuple):
            raise KnowledgeBaseError(f"hidden must be a list of layer widths, got {hidden!r}", hint="hidden=[100, 100]")
        for size in hidden:
            check_int("the width of a hidden layer", size, 1)
        check_choice("activation", activation, ACTIVATIONS)
        check_positive("learning_rate", learning_rate)
        check_int("epochs", epochs, 1)
        check_fraction("dropout", dropout, one=False)
        check_int("batch_size", batch_size, 1, MAX_BATCH_SIZE)
        self.hidden, self.activation, self.learning_rate = tuple(hidden), activation, learning_rate
        self.epochs, self.dropout, self.batch_size = epochs, dropout, batch_size
        sizes = np.array([*self.hidden, 1], np.int64)
        self._shape = Architecture(freeze(sizes), ACTIVATIONS[activation])
        self._width, self._seen, self._key = 0, 0, np.uint64(0)
        self._workspace: Workspace | None = None
        self._trained: tuple[Weights, Weights] | None = None
        self._check_size(0)

    def reset(self, width: int, seed: int) -> None:
        """Draw small random weights from the seed."""
        self._check_size(width)
        self._width, self._seen, self._workspace = width, 0, None
        self._key = np.uint64(fold_in(np.uint64(seed), np.uint64(PURPOSE)))
        self._trained = self._zeros(), self._initial_squares()
        sizes = [min(width, TYPICAL_ROW_ENTRIES), *self.hidden, 1]
        bounds = [float(np.sqrt(6 / (inner + units))) for inner, units in pairwise(sizes)]  # Glorot and Bengio's
        fill_uniform(np.uint64(fold_in(self._key, 0)), bounds[0], self._weights.first)
        for number, (inner, units, at) in enumerate(self._matrices(), start=1):
            fill_uniform(
                np.uint64(fold_in(self._key, number)), bounds[number], self._weights.dense[at : at + inner * units]
            )

    # Weights are made at the first use: before a file is loaded, only its metadata say how many there are.

    @property
    def _weights(self) -> Weights:
        return self._parameters()[0]

    @property
    def _squares(self) -> Weights:
        """Adagrad's sums of squares, of the shape of the weights."""
        return self._parameters()[1]

    def _parameters(self) -> tuple[Weights, Weights]:
        if self._trained is None:
            self.reset(0, 0)
        assert self._trained is not None, "reset makes them"
        return self._trained

    def _check_size(self, width: int) -> None:
        """Refuse a network that is too large, before memory is asked for."""
        weights = sum(inner * units for inner, units in pairwise([width, *self.hidden, 1]))
        if weights > MAX_WEIGHTS:
            raise KnowledgeBaseError(
                f"a network of {width:,} inputs and hidden layers of {shorten(str(list(self.hidden)))} units has "
                f"{weights:,} weights, more than {MAX_WEIGHTS:,}",
                hint="choose smaller hidden layers or fewer features",
            )

    def fit_batch(self, batch: Batch) -> float:
        """Make one Adagrad step per mini-batch."""
        loss = self._run_steps(batch, ADAGRAD, self._squares)
        self._seen += len(batch.targets)
        # The loss is that before the last step: some rows show what the step has done.
        finite = np.isfinite(loss) and np.isfinite(self.scores(batch.rows.slice(0, PROBED_ROWS))).all()
        return loss / max(len(batch.targets), 1) if finite else np.inf

    def gradients(self, batch: Batch) -> State:
        """Return the gradient of the mean cross-entropy, with dropout, under the names of `state`."""
        found, whole = self._zeros(), copy.copy(self)
        whole.batch_size, whole._workspace = max(len(batch.rows), 1), None
        whole._run_steps(batch, GRADIENTS, found)
        return self._as_matrices(found)

    def _run_steps(self, batch: Batch, kind: int, squares: Weights) -> float:
        entries = self._entries(batch.rows)
        if len(batch.targets) != len(batch.rows):
            raise KnowledgeBaseError(f"a batch has {len(batch.rows):,} rows but {len(batch.targets):,} targets")
        threshold = min(round(self.dropout * 65536), 65535)  # of 16 bits: never all inputs
        gain = 65536 / (65536 - threshold)
        steps = UpdateSettings(self.batch_size, float(self.learning_rate), kind, threshold, gain, self._key, self._seen)
        workspace = self._workspace_for(entries.starts)
        targets = freeze(np.asarray(batch.targets, np.float32))
        return float(train_block(self._weights, squares, self._shape, entries, targets, steps, workspace))

    def probabilities(self, rows: SparseRows) -> Floats:
        """Return probabilities, computed in float64 so that different log-odds stay different."""
        return logistic(self.scores(rows))

    def scores(self, rows: SparseRows) -> Floats:
        return self._infer(rows, 0)[0].astype(np.float64)

    def embed(self, rows: SparseRows) -> Reals:
        """Return the units of the last hidden layer, or the log-odds if there is none."""
        size = self.hidden[-1] if self.hidden else 1
        logits, hidden = self._infer(rows, size if self.hidden else 0)
        return hidden.reshape(len(rows), size) if self.hidden else logits[:, None]

    def first_layer_sums(self, rows: SparseRows) -> Reals:
        """Return shape (rows · units,), float32: the inputs of the first layer's units, without biases."""
        units = int(self._shape.sizes[0])
        sums = np.zeros(len(rows) * units, np.float32)
        first_layer_sums(self._weights, units, self._entries(rows), sums)
        return sums

    def score_candidates(
        self,
        own: Reals,
        needed: Ints,
        others: Reals,
        looks: Ints,
        kinds: npt.NDArray[np.uint8],
        further_inputs: SparseRows,
    ) -> Floats:
        """Return shape (candidates,), float64: probabilities from first-layer sums, see `kernels.ranking`.

        The probability of a candidate that needs the full evaluation is undefined.
        """
        logits = np.zeros(len(needed), np.float32)
        active = np.empty(self.batch_size * int(self._shape.sizes.sum()), np.float32)
        units = int(self._shape.sizes[0])
        leaders = np.full(len(own) // units * len(others) // units, -1, np.int32)
        scratch = self._entries(further_inputs), self.batch_size, np.empty(self.batch_size, np.int32), active, logits
        score_candidates(self._weights, self._shape, own, freeze(needed), others, looks, leaders, kinds, *scratch)
        return logistic(logits.astype(np.float64))

    def _infer(self, rows: SparseRows, size: int) -> tuple[Reals, Reals]:
        logits, hidden = np.zeros(len(rows), np.float32), np.zeros(len(rows) * size, np.float32)
        batch_size = min(self.batch_size, max(len(rows), 1))
        active = np.empty(batch_size * int(self._shape.sizes.sum()), np.float32)
        infer(self._weights, self._shape, self._entries(rows), batch_size, active, logits, hidden)
        return logits, hidden

    def settings(self) -> Mapping[str, Any]:
        names = ("activation", "learning_rate", "epochs", "dropout", "batch_size")
        return {"hidden": list(self.hidden), **{name: getattr(self, name) for name in names}}

    def state(self, *, resumable: bool = False) -> State:
        """Return the weights by layer. With `resumable`, also Adagrad's sums and the number of examples seen."""
        found = self._as_matrices(self._weights)
        if resumable:
            found |= {f"squares/{name}": array for name, array in self._as_matrices(self._squares).items()}
            found["progress"] = np.array([self._key, np.uint64(self._seen)], np.uint64)
        return found

    def restore(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        """Load what `state` returned. If it was not resumable, further training starts with small steps again."""
        resumable = "squares/weights/1" in state
        width = len(state["weights/1"]) if "weights/1" in state and state["weights/1"].ndim else 0
        self._check_state(state, width, ("", "squares/") if resumable else ("",))
        self._width, self._workspace, self._seen = width, None, 0
        weights = self._from_matrices(state, "")
        self._trained = weights, self._from_matrices(state, "squares/") if resumable else self._initial_squares()
        if "progress" in state:
            key, seen = require_array(state, "progress", np.uint64, (2,))
            self._key, self._seen = np.uint64(key), int(seen)

    def check_width(self, width: int) -> None:
        if width != self._width:
            raise InputError(f"the network takes rows of {self._width:,} columns, and there are {width:,} features")

    # The kernels use flat arrays, `state` uses matrices.

    def _matrices(self) -> Iterator[tuple[int, int, int]]:
        """Yield (inputs, units, offset) of each matrix after the first."""
        at = 0
        for inner, units in pairwise([*self.hidden, 1]):
            yield inner, units, at
            at += inner * units

    def _zeros(self) -> Weights:
        sizes = self._shape.sizes
        dense = sum(inner * units for inner, units, _ in self._matrices())
        counts = (self._width * int(sizes[0]), dense, int(sizes.sum()))
        return Weights(*(np.zeros(count, np.float32) for count in counts))

    def _initial_squares(self) -> Weights:
        """Return the initial sums of squares."""
        squares = self._zeros()
        for array in squares:
            array[:] = INITIAL_SQUARES
        return squares

    def _check_state(self, state: Mapping[str, npt.NDArray[Any]], width: int, prefixes: tuple[str, ...]) -> None:
        """Refuse weights of another shape: the kernels would read past their end."""
        for number, (inner, units) in enumerate(pairwise([width, *self.hidden, 1]), start=1):
            for prefix in prefixes:
                require_array(state, f"{prefix}weights/{number}", np.float32, (inner, units))
                require_array(state, f"{prefix}biases/{number}", np.float32, (units,))

    def _as_matrices(self, weights: Weights) -> State:
        """Return copies: further training does not change them."""
        sizes = [*self.hidden, 1]
        found: State = {"weights/1": weights.first.reshape(self._width, sizes[0]).copy()}
        for number, (inner, units, at) in enumerate(self._matrices(), start=2):
            found[f"weights/{number}"] = weights.dense[at : at + inner * units].reshape(inner, units).copy()
        ends = np.cumsum(sizes)
        for number, (units, end) in enumerate(zip(sizes, ends, strict=True), start=1):
            found[f"biases/{number}"] = weights.biases[end - units : end].copy()
        return found

    def _from_matrices(self, state: Mapping[str, npt.NDArray[Any]], prefix: str) -> Weights:
        layers = range(1, len(self.hidden) + 2)
        weights = [np.asarray(state[f"{prefix}weights/{number}"], np.float32).ravel() for number in layers]
        biases = [np.asarray(state[f"{prefix}biases/{number}"], np.float32).ravel() for number in layers]
        none = np.zeros(0, np.float32)
        return Weights(weights[0].copy(), np.concatenate([none, *weights[1:]]), np.concatenate(biases))

    def _entries(self, rows: SparseRows) -> Entries:
        if rows.width != self._width:
            raise KnowledgeBaseError(f"the network takes rows of {self._width:,} columns, got {rows.width:,}")
        columns = freeze(np.asarray(rows.columns, np.int32))
        # The kernels do not check bounds. As unsigned, a negative column is a large one.
        if columns.view(np.uint32).max(initial=0) >= max(self._width, 1) or rows.starts[-1] > len(columns):
            raise KnowledgeBaseError(f"rows of {self._width:,} columns have an entry outside them")
        return Entries(freeze(rows.starts), columns, freeze(rows.values))

    def _workspace_for(self, starts: Longs) -> Workspace:
        """Return a workspace for the mini-batches of these rows; it grows when larger ones come."""
        marks = np.append(starts[:: self.batch_size], starts[-1:])
        entries = max(int(np.diff(marks).max(initial=0)), 1)
        if self._workspace is None or len(self._workspace.entry_rows) < entries:
            self._workspace = self._new_workspace(2 * entries)
        return self._workspace

    def _new_workspace(self, entries: int) -> Workspace:
        units = self.batch_size * int(self._shape.sizes.sum())
        dense = [inner * units for inner, units, _ in self._matrices()]
        reals = partial(np.zeros, dtype=np.float32)
        gradient = Weights(reals(int(self._shape.sizes[0])), reals(sum(dense)), reals(int(self._shape.sizes.sum())))
        ints = partial(np.zeros, dtype=np.int32)
        slots = np.full(self._width, -1, np.int32)
        return Workspace(
            reals(units),
            reals(units),
            reals(max(dense, default=0)),
            gradient,
            slots,
            ints(entries),
            ints(entries + 1),
            ints(entries),
            np.ones(1, np.float32),
            reals(2 * entries),
        )


class Logistic(MLP):
    """Logistic regression: an MLP without hidden layers."""

    kind = "logistic"

    def __init__(
        self, learning_rate: float = 0.05, epochs: int = 3, dropout: float = 0.0, batch_size: int = 128
    ) -> None:
        """Create an untrained model; the arguments are those of `MLP`."""
        super().__init__((), "sigmoid", learning_rate, epochs, dropout, batch_size)

    def settings(self) -> Mapping[str, Any]:
        return {name: getattr(self, name) for name in ("learning_rate", "epochs", "dropout", "batch_size")}


# By name

BASE_MODELS: Mapping[str, type[MLP]] = {"mlp": MLP, "logistic": Logistic}


def make_base_model(name: str, options: Mapping[str, Any] | None = None) -> BaseModel:
    """Create an untrained base model, `mlp` or `logistic`.

    >>> make_base_model("mlp", {"hidden": [50], "activation": "relu"}).settings()["hidden"]
    [50]
    """
    check_choice("base", name, BASE_MODELS)
    known = option_names(name)
    for option in options or {}:
        if option not in known:
            raise KnowledgeBaseError(
                f"{name} has no option {option}",
                suggestions=similar_names(option, known),
                hint=f"options of {name}: {', '.join(known)}",
            )
    return BASE_MODELS[name](**options or {})


def option_names(name: str) -> list[str]:
    """Return the options of a base model.

    >>> option_names("logistic")
    ['learning_rate', 'epochs', 'dropout', 'batch_size']
    """
    return list(inspect.signature(BASE_MODELS[name]).parameters)

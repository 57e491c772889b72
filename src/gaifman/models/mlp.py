"""Base models M: sparse rows in, probabilities out.

>>> rows = SparseRows(np.array([0, 1, 2]), np.array([0, 1], np.int32), np.ones(2, np.float32), 2)
>>> network = MLP(hidden=(8,), epochs=1, rate=0.5)
>>> network.begin(rows.width, seed=0)
>>> for _ in range(200):
...     loss = network.learn(Batch(rows, np.array([1, 0], np.float32)))
>>> network.probabilities(rows).round(1).tolist()
[1.0, 0.0]

Whoever writes one of their own subclasses `BaseModel` and runs `gaifman.models.testing.check_base_model` on it.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from gaifman.config import check_choice, check_fraction, check_int, check_positive
from gaifman.errors import KnowledgeBaseError, similar_names
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
from gaifman.models.calibration import log_odds, logistic

Reals = npt.NDArray[np.float32]
ACTIVATIONS = {"sigmoid": SIGMOID, "relu": RELU}
INITIAL_SQUARES = 1e-3
"""What Adagrad's sums of squares begin with: the first steps stay small."""
TYPICAL_ROW_ENTRIES = 64
"""Inputs that are there at once, about: what the first weights are scaled for."""
PURPOSE = 0x6E6574
"""What the random numbers are for."""

State = dict[str, npt.NDArray[Any]]
"""What a base model has learnt: arrays by name."""


@dataclass(frozen=True, slots=True)
class SparseRows:
    """Sparse rows of inputs; what is not stored is 0."""

    starts: Longs
    """Shape (rows + 1,), int64: the entries of row `i` are `starts[i]` to `starts[i + 1]`."""
    columns: Ints
    """Shape (entries,), int32: ascending in each row."""
    values: Reals
    """Shape (entries,), float32: finite, of the order of 1."""
    width: int
    """Columns there are."""

    def __len__(self) -> int:
        return len(self.starts) - 1


@dataclass(frozen=True, slots=True)
class Batch:
    """Examples to learn from, in the order in which they are to be learnt."""

    rows: SparseRows
    targets: Reals
    """Shape (rows,), float32, 0 to 1: how sure it is that the row's tuple is an answer. Corruptions have 0."""


class BaseModel(ABC):
    """Learns from examples that come in blocks, then gives probabilities.

    `begin`, then `passes` times all blocks to `train_block`, each time followed by `pass_done`. The same calls with the same
    seed give the same model, bit for bit.
    """

    kind: str
    """Its name in model files."""
    epochs: int
    """How often it wants to see all examples."""

    @abstractmethod
    def reset(self, width: int, seed: int) -> None:
        """Forget everything; be ready for rows of `width` columns."""

    @abstractmethod
    def fit_batch(self, batch: Batch) -> float:
        """Learn from some examples; the mean cross-entropy of these in nats, NaN where it is not known yet."""

    def end_epoch(self) -> None:  # noqa: B027 - most have nothing to do here
        """All examples have been given once (more)."""

    @abstractmethod
    def probabilities(self, rows: SparseRows) -> Floats:
        """Shape (rows,), float64, 0 to 1. A row's does not depend on the other rows."""

    def scores(self, rows: SparseRows) -> Floats:
        """Shape (rows,), float64: the log-odds of the probabilities, finite."""
        return log_odds(self.probabilities(rows))

    @abstractmethod
    def embed(self, rows: SparseRows) -> Reals:
        """Shape (rows, some size), float32: the representation the probability is computed from."""

    @abstractmethod
    def settings(self) -> Mapping[str, Any]:
        """What it was made with, as JSON can hold it: `kind(**settings)` makes it anew."""

    @abstractmethod
    def state(self, *, resumable: bool = False) -> State:
        """What was learnt; with `whole` also what is needed to go on learning as if it had never stopped."""

    @abstractmethod
    def restore(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        """Take over what `state` gave."""


class MLP(BaseModel):
    """The paper's network: hidden layers over sparse inputs, dropout of inputs, cross-entropy, steps of Adagrad."""

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
        if not isinstance(hidden, list | tuple):
            raise KnowledgeBaseError(f"hidden layers are a list of widths, not {hidden!r}", hint="hidden=[100, 100]")
        self.hidden, self.activation, self.learning_rate = tuple(hidden), activation, learning_rate
        self.epochs, self.dropout, self.batch_size = epochs, dropout, batch_size
        self.epochs = epochs
        _check_settings(self)
        sizes = np.array([*self.hidden, 1], np.int64)
        self._shape = Architecture(freeze(sizes), ACTIVATIONS[activation])
        self._width, self._seen, self._key = 0, 0, np.uint64(0)
        self._space: Workspace | None = None
        self.reset(0, 0)

    def reset(self, width: int, seed: int) -> None:
        """Small random weights, keyed by the seed."""
        self._width, self._seen, self._space = width, 0, None
        self._key = np.uint64(fold_in(np.uint64(seed), np.uint64(PURPOSE)))
        self._net, self._squares = self._zeros(), self._initial_squares()
        sizes = [min(width, TYPICAL_ROW_ENTRIES), *self.hidden, 1]
        bounds = [float(np.sqrt(6 / (inner + units))) for inner, units in pairwise(sizes)]  # Glorot and Bengio's
        fill_uniform(np.uint64(fold_in(self._key, 0)), bounds[0], self._net.first)
        for number, (inner, units, at) in enumerate(self._matrices(), start=1):
            fill_uniform(
                np.uint64(fold_in(self._key, number)), bounds[number], self._net.dense[at : at + inner * units]
            )

    def fit_batch(self, batch: Batch) -> float:
        """A step for each mini-batch."""
        loss = self._run_steps(batch, ADAGRAD, self._squares)
        self._seen += len(batch.targets)
        return loss / max(len(batch.targets), 1)

    def gradients(self, batch: Batch) -> State:
        """The gradient of the mean cross-entropy, dropout included, as `state` names the weights; nothing is learnt."""
        found = self._zeros()
        whole = MLP(
            self.hidden, self.activation, self.learning_rate, self.epochs, self.dropout, max(len(batch.rows), 1)
        )
        whole._width, whole._key, whole._seen, whole._net = self._width, self._key, self._seen, self._net
        whole._run_steps(batch, GRADIENTS, found)
        return self._as_matrices(found)

    def _run_steps(self, batch: Batch, kind: int, squares: Weights) -> float:
        entries = self._entries(batch.rows)
        if len(batch.targets) != len(batch.rows):
            raise KnowledgeBaseError(f"{len(batch.rows):,} rows have {len(batch.targets):,} targets")
        threshold = min(round(self.dropout * 65536), 65535)  # of 16 bits: something is kept however near 1 it is
        gain = 65536 / (65536 - threshold)
        steps = UpdateSettings(self.batch_size, float(self.learning_rate), kind, threshold, gain, self._key, self._seen)
        room = self._scratch_for(entries.starts)
        targets = freeze(np.asarray(batch.targets, np.float32))
        return float(train_block(self._net, squares, self._shape, entries, targets, steps, room))

    def probabilities(self, rows: SparseRows) -> Floats:
        """By the logistic function in float64: two rows of different log-odds have different probabilities."""
        return logistic(self.scores(rows))

    def scores(self, rows: SparseRows) -> Floats:
        return self._infer(rows, 0)[0].astype(np.float64)

    def embed(self, rows: SparseRows) -> Reals:
        """The units of the last hidden layer; without one, the log-odds."""
        size = self.hidden[-1] if self.hidden else 1
        logits, hidden = self._infer(rows, size if self.hidden else 0)
        return hidden.reshape(len(rows), size) if self.hidden else logits[:, None]

    def first_layer_sums(self, rows: SparseRows) -> Reals:
        """Shape (rows · units,), float32: what the rows give to the units of the first layer, without the biases."""
        units = int(self._shape.sizes[0])
        sums = np.zeros(len(rows) * units, np.float32)
        first_layer_sums(self._net, units, self._entries(rows), sums)
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
        """Shape (candidates,), float64: probabilities from sums of the first layer, see `kernels.ranking.rank`.

        That of a candidate for the plain path means nothing.
        """
        logits = np.zeros(len(needed), np.float32)
        active = np.empty(self.batch_size * int(self._shape.sizes.sum()), np.float32)
        units = int(self._shape.sizes[0])
        leaders = np.full(len(own) // units * len(others) // units, -1, np.int32)
        room = self._entries(further_inputs), self.batch_size, np.empty(self.batch_size, np.int32), active, logits
        score_candidates(self._net, self._shape, own, freeze(needed), others, looks, leaders, kinds, *room)
        return logistic(logits.astype(np.float64))

    def _infer(self, rows: SparseRows, size: int) -> tuple[Reals, Reals]:
        logits, hidden = np.zeros(len(rows), np.float32), np.zeros(len(rows) * size, np.float32)
        active = np.empty(self.batch_size * int(self._shape.sizes.sum()), np.float32)
        infer(self._net, self._shape, self._entries(rows), self.batch_size, active, logits, hidden)
        return logits, hidden

    def settings(self) -> Mapping[str, Any]:
        names = ("activation", "learning_rate", "epochs", "dropout", "batch_size")
        return {"hidden": list(self.hidden), **{name: getattr(self, name) for name in names}}

    def state(self, *, resumable: bool = False) -> State:
        """Weights by layer; the whole state has Adagrad's sums and how many examples were seen."""
        found = self._as_matrices(self._net)
        if resumable:
            found |= {f"squares {name}": array for name, array in self._as_matrices(self._squares).items()}
            found["progress"] = np.array([self._key, np.uint64(self._seen)], np.uint64)
        return found

    def restore(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        """Take over what `state` gave; without what `whole` adds, learning on begins with small steps again."""
        whole = "squares weights 1" in state
        width = len(state["weights 1"]) if "weights 1" in state else 0
        self._check_state(state, width, ("", "squares ") if whole else ("",))
        self._width, self._space, self._seen = width, None, 0
        self._net = self._as_net(state, "")
        self._squares = self._as_net(state, "squares ") if whole else self._initial_squares()
        if "progress" in state:
            self._key, self._seen = np.uint64(state["progress"][0]), int(state["progress"][1])

    # Flat arrays for the kernels, matrices for people.

    def _matrices(self) -> Iterator[tuple[int, int, int]]:
        """Of each matrix between layers: units before, units, where it begins."""
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
        """What Adagrad's sums of squares begin with."""
        squares = self._zeros()
        for array in squares:
            array[:] = INITIAL_SQUARES
        return squares

    def _check_state(self, state: Mapping[str, npt.NDArray[Any]], width: int, prefixes: tuple[str, ...]) -> None:
        """Weights of another shape would be read past their end."""
        for number, (inner, units) in enumerate(pairwise([width, *self.hidden, 1]), start=1):
            for name, shape in ((f"weights {number}", (inner, units)), (f"biases {number}", (units,))):
                for known in (prefix + name for prefix in prefixes):
                    if known not in state:
                        raise KnowledgeBaseError(f"there are no {known!r} to restore a network from")
                    if state[known].shape != shape:
                        found = state[known].shape
                        raise KnowledgeBaseError(f"{known!r} of this network have shape {shape}, those given {found}")

    def _as_matrices(self, net: Weights) -> State:
        """Copies, as matrices: whoever holds them does not see the network learn on."""
        sizes = [*self.hidden, 1]
        found: State = {"weights 1": net.first.reshape(self._width, sizes[0]).copy()}
        for number, (inner, units, at) in enumerate(self._matrices(), start=2):
            found[f"weights {number}"] = net.dense[at : at + inner * units].reshape(inner, units).copy()
        ends = np.cumsum(sizes)
        for number, (units, end) in enumerate(zip(sizes, ends, strict=True), start=1):
            found[f"biases {number}"] = net.biases[end - units : end].copy()
        return found

    def _as_net(self, state: Mapping[str, npt.NDArray[Any]], prefix: str) -> Weights:
        layers = range(1, len(self.hidden) + 2)
        weights = [np.asarray(state[f"{prefix}weights {number}"], np.float32).ravel() for number in layers]
        biases = [np.asarray(state[f"{prefix}biases {number}"], np.float32).ravel() for number in layers]
        none = np.zeros(0, np.float32)
        return Weights(weights[0].copy(), np.concatenate([none, *weights[1:]]), np.concatenate(biases))

    def _entries(self, rows: SparseRows) -> Entries:
        if rows.width != self._width:
            raise KnowledgeBaseError(f"the network is for rows of {self._width:,} columns, these have {rows.width:,}")
        columns = freeze(np.asarray(rows.columns, np.int32))
        # A kernel would read and write past its arrays. Seen as unsigned, a negative number is a large one.
        if columns.view(np.uint32).max(initial=0) >= max(self._width, 1) or rows.starts[-1] > len(columns):
            raise KnowledgeBaseError(
                f"the entries of rows have columns from 0 to {self._width - 1:,}; these have others"
            )
        return Entries(freeze(rows.starts), columns, freeze(rows.values))

    def _scratch_for(self, starts: Longs) -> Workspace:
        """Scratch for mini-batches of these rows: kept, and grown when larger ones come."""
        marks = np.append(starts[:: self.batch_size], starts[-1:])
        entries = max(int(np.diff(marks).max(initial=0)), 1)
        if self._space is None or len(self._space.entry_rows) < entries:
            self._space = self._make_scratch(2 * entries)
        return self._space

    def _make_scratch(self, entries: int) -> Workspace:
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
    """Logistic regression: the network without hidden layers."""

    kind = "logistic"

    def __init__(
        self, learning_rate: float = 0.05, epochs: int = 3, dropout: float = 0.0, batch_size: int = 128
    ) -> None:
        super().__init__((), "sigmoid", learning_rate, epochs, dropout, batch_size)

    def settings(self) -> Mapping[str, Any]:
        return {name: getattr(self, name) for name in ("learning_rate", "epochs", "dropout", "batch_size")}


def make_base_model(kind: str, **settings: Any) -> BaseModel:
    """A base model by its name: `mlp` or `logistic`.

    >>> make_base_model("mlp", hidden=[50], activation="relu").settings()["hidden"]
    [50]
    """
    kinds: dict[str, type[MLP]] = {"mlp": MLP, "logistic": Logistic}
    if kind not in kinds:
        raise KnowledgeBaseError(
            f"there is no base model {kind!r}",
            suggestions=similar_names(kind, kinds),
            hint=f"one of {', '.join(kinds)}",
        )
    known = setting_names(kinds[kind])
    for name in settings:
        if name not in known:
            hint = f"settings of {kind}: {', '.join(known)}"
            raise KnowledgeBaseError(f"{kind} has no setting {name}", suggestions=similar_names(name, known), hint=hint)
    return kinds[kind](**settings)


def setting_names(kind: type[MLP]) -> list[str]:
    """Names of the settings that a network is made with.

    >>> setting_names(Logistic)
    ['rate', 'epochs', 'dropout', 'batch']
    """
    return list(inspect.signature(kind).parameters)


def _check_settings(network: MLP) -> None:
    """Refuse settings that are out of range."""
    for size in network.hidden:
        check_int("the width of a hidden layer", size, 1)
    check_choice("activation", network.activation, ACTIVATIONS)
    check_int("epochs", network.epochs, 1)
    check_int("batch_size", network.batch_size, 1)
    check_positive("learning_rate", network.learning_rate)
    check_fraction("dropout", network.dropout, one=False)

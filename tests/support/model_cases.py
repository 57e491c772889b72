"""Rows, targets and networks for tests of base models."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from gaifman.kb.tables import Floats
from gaifman.models.base import Batch, SparseRows, State
from gaifman.models.calibration import logistic
from gaifman.models.mlp import MLP

Dense = npt.NDArray[np.float64]
Warp = Callable[[Floats], Floats]


def rows_of(dense: list[list[float]]) -> SparseRows:
    """Rows from a small table."""
    return sparse(np.array(dense, np.float32).reshape(len(dense), -1))


def batch_of(dense: list[list[float]], targets: list[float]) -> Batch:
    """Examples from a small table."""
    return Batch(rows_of(dense), np.array(targets, np.float32))


def examples(seed: int, count: int = 400, width: int = 6) -> Batch:
    """Random examples of a linear problem."""
    rng = np.random.default_rng(seed)
    table = rng.random((count, width)) * (rng.random((count, width)) < 0.5)
    truth = 1 / (1 + np.exp(-(table @ np.linspace(-4, 5, width))))
    return batch_of(table.tolist(), (rng.random(count) < truth).tolist())


def sparse(dense: npt.NDArray[Any]) -> SparseRows:
    """The rows of a dense matrix."""
    at, columns = np.nonzero(dense)
    starts = np.searchsorted(at, np.arange(len(dense) + 1))
    values = dense[at, columns].astype(np.float32)
    return SparseRows(starts.astype(np.int64), columns.astype(np.int32), values, dense.shape[1])


def drawn(seed: int, rows: int, width: int, share: float = 0.4) -> tuple[Dense, npt.NDArray[np.float32]]:
    """A dense matrix of float32 values with many zeros and a few empty rows, and soft targets."""
    rng = np.random.default_rng(seed)
    dense = rng.uniform(-2, 2, (rows, width)) * (rng.random((rows, width)) < share)
    dense[rng.random(rows) < 0.2] = 0
    targets = np.where(rng.random(rows) < 0.5, rng.random(rows), rng.integers(0, 2, rows))
    return dense.astype(np.float32).astype(np.float64), targets.astype(np.float32)


def begun(network: MLP, width: int, seed: int) -> MLP:
    """A network with random biases: a bias of 0 would hide mistakes."""
    network.reset(width, seed)
    state, rng = network.state(resumable=True), np.random.default_rng(seed)
    for name in [name for name in state if name.startswith("biases")]:
        state[name] = rng.uniform(-0.5, 0.5, state[name].shape).astype(np.float32)
    network.restore(state)
    return network


def same_bits(one: State, other: State) -> bool:
    return sorted(one) == sorted(other) and all(one[name].tobytes() == other[name].tobytes() for name in one)


def synthetic(seed: int, count: int, warp: Warp) -> tuple[Floats, Floats, Floats]:
    """True probabilities, those of a model with warped log-odds, and targets drawn from the true ones."""
    rng = np.random.default_rng(seed)
    x = rng.normal(0, 2, count)
    truth = logistic(x)
    return truth, logistic(warp(x)), (rng.random(count) < truth).astype(np.float64)

"""The plainest base model: logistic regression by Adagrad, in a few lines of numpy. Not a test itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from gaifman.kb.tables import Floats
from gaifman.models.calibration import logistic
from gaifman.models.mlp import BaseModel, Batch, Reals, SparseRows, State


class Plain(BaseModel):
    """One weight for each column, and one more."""

    kind = "plain"

    def __init__(self, rate: float = 0.3, passes: int = 4) -> None:
        self.rate, self.epochs = rate, passes

    def reset(self, width: int, seed: int) -> None:
        self.weights = np.random.default_rng(seed).normal(0, 0.01, width + 1)
        self.squares = np.full(width + 1, 1e-6)

    def fit_batch(self, batch: Batch) -> float:
        losses = []
        for begin in range(0, len(batch.rows), 20):
            at, columns, values = entries(batch.rows, begin, min(begin + 20, len(batch.rows)))
            targets = batch.targets[begin : begin + 20]
            p = logistic(self.scores(batch.rows)[begin : begin + 20])
            losses.append(-np.mean(targets * np.log(p + 1e-12) + (1 - targets) * np.log(1 - p + 1e-12)))
            wrong = (p - targets) / len(p)
            gradient = np.bincount(columns, wrong[at] * values, len(self.weights))
            gradient[-1] += wrong.sum()
            self.squares += gradient**2
            self.weights -= self.rate * gradient / np.sqrt(self.squares)
        return float(np.mean(losses)) if losses else float("nan")

    def scores(self, rows: SparseRows) -> Floats:
        """Log-odds."""
        at, columns, values = entries(rows, 0, len(rows))
        found: Floats = np.bincount(at, self.weights[columns] * values, len(rows)) + self.weights[-1]
        return found

    def probabilities(self, rows: SparseRows) -> Floats:
        return logistic(self.scores(rows))

    def embed(self, rows: SparseRows) -> Reals:
        return self.scores(rows).astype(np.float32)[:, None]

    def settings(self) -> Mapping[str, Any]:
        return {"rate": self.rate, "passes": self.epochs}

    def state(self, *, resumable: bool = False) -> State:
        found: State = {"weights": self.weights.copy()}
        return found | {"squares": self.squares.copy()} if resumable else found

    def restore(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        self.weights = np.array(state["weights"])
        self.squares = np.array(state.get("squares", np.full(len(self.weights), 1e-6)))


def entries(rows: SparseRows, begin: int, end: int) -> tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]]:
    """Row, column and value of what is stored in some rows."""
    at = np.repeat(np.arange(end - begin), np.diff(rows.starts[begin : end + 1]))
    part = slice(rows.starts[begin], rows.starts[end])
    return at, rows.columns[part], rows.values[part]

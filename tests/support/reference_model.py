"""The simplest base model: logistic regression by Adagrad in a few lines of numpy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from gaifman.features.evaluator import Reals
from gaifman.kb.tables import Floats
from gaifman.models import BaseModel, Batch, SparseRows
from gaifman.models.base import State
from gaifman.models.calibration import logistic


class Plain(BaseModel):
    """One weight for each column, and a bias."""

    kind = "plain"

    def __init__(self, learning_rate: float = 0.3, epochs: int = 4) -> None:
        self.learning_rate, self.epochs = learning_rate, epochs

    def reset(self, width: int, seed: int) -> None:
        self.weights = np.random.default_rng(seed).normal(0, 0.01, width + 1)
        self.squares = np.full(width + 1, 1e-6)

    def fit_batch(self, batch: Batch) -> float:
        losses = []
        for begin in range(0, len(batch.rows), 20):
            rows = batch.rows.slice(begin, min(begin + 20, len(batch.rows)))
            targets = batch.targets[begin : begin + 20]
            p = logistic(self.scores(rows))
            losses.append(-np.mean(targets * np.log(p + 1e-12) + (1 - targets) * np.log(1 - p + 1e-12)))
            wrong = (p - targets) / len(p)
            gradient = np.bincount(rows.columns, wrong[rows.entry_rows()] * rows.values, len(self.weights))
            gradient[-1] += wrong.sum()
            self.squares += gradient**2
            self.weights -= self.learning_rate * gradient / np.sqrt(self.squares)
        return float(np.mean(losses)) if losses else float("nan")

    def scores(self, rows: SparseRows) -> Floats:
        rows = rows.slice()
        sums = np.bincount(rows.entry_rows(), self.weights[rows.columns] * rows.values, len(rows))
        return np.asarray(sums + self.weights[-1], np.float64)

    def probabilities(self, rows: SparseRows) -> Floats:
        return logistic(self.scores(rows))

    def embed(self, rows: SparseRows) -> Reals:
        return self.scores(rows).astype(np.float32)[:, None]

    def settings(self) -> Mapping[str, Any]:
        return {"learning_rate": self.learning_rate, "epochs": self.epochs}

    def state(self, *, resumable: bool = False) -> State:
        found: State = {"weights": self.weights.copy()}
        return found | {"squares": self.squares.copy()} if resumable else found

    def restore(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        self.weights = np.array(state["weights"])
        self.squares = np.array(state.get("squares", np.full(len(self.weights), 1e-6)))

"""Base models that are wrong, each in one way, and what the suite says of them. Not a test itself."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from gaifman.kb.tables import Floats
from gaifman.models.mlp import BaseModel, Batch, Reals, SparseRows, State
from reference_model import Plain


class Nameless(Plain):
    """A model without a name."""

    kind = ""


class PassesByHalves(Plain):
    """Passes are counted, and not measured."""

    def __init__(self, rate: float = 0.3, passes: Any = 2.5) -> None:
        super().__init__(rate, passes)


class ForeignLoss(Plain):
    """The loss is a plain float, which JSON can hold."""

    def fit_batch(self, batch: Batch) -> float:
        return np.float32(super().fit_batch(batch))  # type: ignore[return-value]


class NegativeLoss(Plain):
    """A cross-entropy is not below 0."""

    def fit_batch(self, batch: Batch) -> float:
        return -super().fit_batch(batch)


class Single(Plain):
    """float32 is not what ranking wants."""

    def probabilities(self, rows: SparseRows) -> Floats:
        return np.asarray(super().probabilities(rows), np.float32)


class Column(Plain):
    """A column is not a list."""

    def probabilities(self, rows: SparseRows) -> Floats:
        return super().probabilities(rows)[:, None]


class Logits(Plain):
    """Log-odds are no probabilities."""

    def probabilities(self, rows: SparseRows) -> Floats:
        return self.scores(rows)


class Nothing(Plain):
    """NaN is no probability."""

    def probabilities(self, rows: SparseRows) -> Floats:
        return super().probabilities(rows) * np.nan


class Flat(Plain):
    """An embedding has rows and columns."""

    def embed(self, rows: SparseRows) -> Reals:
        return super().embed(rows)[:, 0]


class Ragged(Plain):
    """An embedding has as many columns for any rows."""

    def embed(self, rows: SparseRows) -> Reals:
        return np.zeros((len(rows), 1 + len(rows) % 2), np.float32)


class Endless(Plain):
    """An embedding is finite."""

    def embed(self, rows: SparseRows) -> Reals:
        return super().embed(rows) + np.float32(np.inf)


class Comparing(Plain):
    """Probabilities among the rows that happen to be asked for."""

    def probabilities(self, rows: SparseRows) -> Floats:
        p = super().probabilities(rows)
        found: Floats = p if len(p) < 2 else np.clip(p - (p.mean() - 0.5) / 100, 0, 1)
        return found


class Ordered(Plain):
    """The first row is treated better."""

    def probabilities(self, rows: SparseRows) -> Floats:
        p = super().probabilities(rows)
        return np.asarray(np.clip(p + (np.arange(len(p)) == 0) * 1e-9, 0, 1))


class Fickle(Plain):
    """Each question changes the answers."""

    def probabilities(self, rows: SparseRows) -> Floats:
        self.weights[-1] += 1e-9 * (len(rows) == 300)
        return super().probabilities(rows)


class Deaf(Plain):
    """Learns nothing."""

    def fit_batch(self, batch: Batch) -> float:
        return 0.7


class DeafTwin(Plain):
    """Learns only how many answers there are: good enough where there is only one class."""

    def fit_batch(self, batch: Batch) -> float:
        loss = super().fit_batch(batch)
        self.weights[:-1] = 0
        return loss


class Shy(Plain):
    """Learns what is so, and never says it."""

    def probabilities(self, rows: SparseRows) -> Floats:
        return 0.5 + (super().probabilities(rows) - 0.5) / 100


class Boasting(Plain):
    """Rounds its probabilities."""

    def probabilities(self, rows: SparseRows) -> Floats:
        p = super().probabilities(rows)
        return np.where(np.abs(p - 0.5) < 1e-9, p, np.clip(0.5 + 10 * (p - 0.5), 0.01, 0.99))


class Hard(Plain):
    """Rounds soft targets."""

    def fit_batch(self, batch: Batch) -> float:
        return super().fit_batch(Batch(batch.rows, np.round(batch.targets)))


class Lucky(Plain):
    """Draws from the random numbers of the process."""

    def reset(self, width: int, seed: int) -> None:
        super().reset(width, seed)
        self.weights[-1] += random.random() / 1000


class LuckyArrays(Plain):
    """Draws from those of numpy."""

    def reset(self, width: int, seed: int) -> None:
        super().reset(width, seed)
        self.weights[-1] += np.random.random() / 1000


class Counting(Plain):
    """Every model is a little different."""

    made = 0

    def reset(self, width: int, seed: int) -> None:
        super().reset(width, seed)
        Counting.made += 1
        self.weights[-1] += Counting.made / 1e6


class Narrow(Plain):
    """Cannot take a seed of 64 bits."""

    def reset(self, width: int, seed: int) -> None:
        super().reset(int(np.int32(width)), int(np.int64(seed)))


class Remembering(Plain):
    """Keeps what it learnt."""

    def reset(self, width: int, seed: int) -> None:
        known = getattr(self, "weights", np.zeros(0))
        super().reset(width, seed)
        if len(known) == len(self.weights):
            self.weights[:] = known


class Disturbed(Plain):
    """Learns otherwise after it was asked."""

    asked = False

    def probabilities(self, rows: SparseRows) -> Floats:
        self.asked = True
        return super().probabilities(rows)

    def fit_batch(self, batch: Batch) -> float:
        loss = super().fit_batch(batch)
        self.weights[-1] += 1e-6 * self.asked
        return loss

    def reset(self, width: int, seed: int) -> None:
        super().reset(width, seed)
        self.asked = False


class Writing(Plain):
    """Scales its inputs in place."""

    def fit_batch(self, batch: Batch) -> float:
        batch.rows.values[...] = batch.rows.values / 2
        return super().fit_batch(batch)


class Forgetful(Plain):
    """Loses a little on the way to the file."""

    def state(self, *, resumable: bool = False) -> State:
        found = super().state(resumable=resumable)
        return found | {"weights": found["weights"].astype(np.float32)}


class Live(Plain):
    """Gives its own arrays, which change later."""

    def reset(self, width: int, seed: int) -> None:
        if not hasattr(self, "weights") or len(self.weights) != width + 1:
            super().reset(width, seed)
        self.weights[:] = np.random.default_rng(seed).normal(0, 0.01, width + 1)
        self.squares[:] = 1e-6

    def state(self, *, resumable: bool = False) -> State:
        return super().state(resumable=resumable) | {"weights": self.weights}


class Growing(Plain):
    """Has another state once restored."""

    def restore(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        super().restore(state)
        self.restored = np.ones(1)

    def state(self, *, resumable: bool = False) -> State:
        found = super().state(resumable=resumable)
        return found | {"restored": self.restored} if hasattr(self, "restored") else found


class Objects(Plain):
    """A state of objects would need pickle."""

    def state(self, *, resumable: bool = False) -> State:
        return super().state(resumable=resumable) | {"model": np.array([self], object)}


class Halting(Plain):
    """Cannot go on where it stopped: the squares are not kept."""

    def state(self, *, resumable: bool = False) -> State:
        return super().state(resumable=False)


class Unwritable(Plain):
    """JSON holds no sets."""

    def settings(self) -> Mapping[str, Any]:
        return {"rate": {0.1}}


class Strange(Plain):
    """Does not know its own settings."""

    def settings(self) -> Mapping[str, Any]:
        return {"speed": 0.1}


class Silent(Plain):
    """Does not tell how it was made."""

    def settings(self) -> Mapping[str, Any]:
        return {"rate": self.rate + 0.1, "passes": self.epochs}


BROKEN: list[tuple[type[BaseModel], str]] = [
    (Nameless, "kind is a name"),
    (PassesByHalves, "passes must be an integer"),
    (ForeignLoss, "gives the mean cross-entropy as a float"),
    (NegativeLoss, "gives the mean cross-entropy as a float"),
    (Single, "gives float64 of shape"),
    (Column, "gives float64 of shape"),
    (Logits, "are from 0 to 1"),
    (Nothing, "are from 0 to 1"),
    (Flat, "embed\\(\\) gives float32 of shape"),
    (Ragged, "depends on the rows"),
    (Endless, "not finite"),
    (Comparing, "changes with the rows beside it"),
    (Ordered, "equal rows get different probabilities"),
    (Fickle, "another result the second time"),
    (Deaf, "where every target is"),
    (DeafTwin, "does not learn what one column decides"),
    (Shy, "but not to say so"),
    (Boasting, "targets of 0 and 1, rows of which 75% are answers get"),
    (Hard, "with soft targets, rows of which"),
    (Lucky, "random numbers of the whole process"),
    (LuckyArrays, "random numbers of the whole process"),
    (Counting, "same seed and examples give different models"),
    (Remembering, "does not forget"),
    (Disturbed, "changes what is learnt afterwards"),
    (Writing, "writes into the arrays"),
    (Forgetful, "restored from its state, it gives other results"),
    (Live, "changes when the model learns on"),
    (Growing, "it has another state"),
    (Objects, "arrays of numbers by name"),
    (Halting, "restored from its whole state, it ends elsewhere"),
    (Unwritable, "cannot be written as JSON"),
    (Strange, "do not make it anew"),
    (Silent, "it has other settings"),
]

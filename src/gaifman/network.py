"""Base models M: sparse rows in, probabilities out.

Whoever writes one of their own subclasses `BaseModel` and runs `gaifman.testing.check_base_model` on it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gaifman.tables import Floats, Ints, Longs

Reals = npt.NDArray[np.float32]
State = dict[str, npt.NDArray[Any]]
"""What a base model has learnt: arrays by name."""


@dataclass(frozen=True, slots=True)
class Rows:
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

    rows: Rows
    targets: Reals
    """Shape (rows,), float32, 0 to 1: how sure it is that the row's tuple is an answer. Corruptions have 0."""


class BaseModel(ABC):
    """Learns from examples that come in blocks, then gives probabilities.

    `begin`, then `passes` times all blocks to `learn`, each time followed by `pass_done`. The same calls with the same
    seed give the same model, bit for bit.
    """

    kind: str
    """Its name in model files."""
    passes: int
    """How often it wants to see all examples."""

    @abstractmethod
    def begin(self, width: int, seed: int) -> None:
        """Forget everything; be ready for rows of `width` columns."""

    @abstractmethod
    def learn(self, batch: Batch) -> float:
        """Learn from some examples; the mean cross-entropy of these in nats, NaN where it is not known yet."""

    def pass_done(self) -> None:  # noqa: B027 - most have nothing to do here
        """All examples have been given once (more)."""

    @abstractmethod
    def probabilities(self, rows: Rows) -> Floats:
        """Shape (rows,), float64, 0 to 1. A row's does not depend on the other rows."""

    @abstractmethod
    def embed(self, rows: Rows) -> Reals:
        """Shape (rows, some size), float32: the representation the probability is computed from."""

    @abstractmethod
    def settings(self) -> Mapping[str, Any]:
        """What it was made with, as JSON can hold it: `kind(**settings)` makes it anew."""

    @abstractmethod
    def state(self, *, whole: bool = False) -> State:
        """What was learnt; with `whole` also what is needed to go on learning as if it had never stopped."""

    @abstractmethod
    def restore(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        """Take over what `state` gave."""

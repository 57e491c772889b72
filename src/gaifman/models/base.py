"""The interface of a base model: sparse rows in, probabilities out.

>>> rows = SparseRows(np.array([0, 1, 3]), np.array([0, 0, 1], np.int32), np.array([1, 2, 3], np.float32), width=2)
>>> rows.slice(1, 2).values.tolist(), rows.take([1, 0]).values.tolist()
([2.0, 3.0], [2.0, 3.0, 1.0])

To write a base model, subclass `BaseModel` and test it with `gaifman.models.testing.check_base_model`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt

from gaifman.errors import GaifmanError, InputError, KnowledgeBaseError, OutputError
from gaifman.features.evaluator import Reals, concatenate_rows
from gaifman.kb.tables import Floats, Ints, Longs, concatenate_ranges, freeze
from gaifman.models.calibration import log_odds

State = dict[str, npt.NDArray[Any]]
"""The parameters of a trained base model: arrays by name."""


@dataclass(frozen=True, slots=True)
class SparseRows:
    """Model inputs in compressed rows. A missing entry is 0."""

    starts: Longs
    """Shape (rows + 1,), int64: the entries of row `i` are `starts[i]` to `starts[i + 1]`."""
    columns: Ints
    """Shape (entries,), int32: ascending in each row."""
    values: Reals
    """Shape (entries,), float32: finite, of the order of 1."""
    width: int
    """Number of columns."""

    def __len__(self) -> int:
        return len(self.starts) - 1

    @classmethod
    def empty(cls, rows: int, width: int) -> SparseRows:
        """Return rows without entries."""
        none = np.zeros(0, np.int32), np.zeros(0, np.float32)
        return cls(freeze(np.zeros(rows + 1, np.int64)), *none, width)

    @classmethod
    def concatenate(cls, parts: Sequence[SparseRows], width: int) -> SparseRows:
        """Stack rows of the same width."""
        return cls(*concatenate_rows([(part.starts, part.columns, part.values) for part in parts]), width)

    def slice(self, begin: int = 0, end: int | None = None) -> SparseRows:
        """Return the rows from `begin` to `end`; their starts begin at 0."""
        starts = self.starts[begin : len(self) + 1 if end is None else end + 1]
        entries = slice(int(starts[0]), int(starts[-1]))
        return SparseRows(freeze(starts - starts[0]), self.columns[entries], self.values[entries], self.width)

    def take(self, order: npt.ArrayLike) -> SparseRows:
        """Return some rows in the given order; a row may come more than once."""
        chosen = np.asarray(order, np.int64)
        begins, ends = self.starts[chosen], self.starts[chosen + 1]
        entries = concatenate_ranges(begins, ends)
        starts = np.append(0, np.cumsum(ends - begins)).astype(np.int64)
        return SparseRows(freeze(starts), freeze(self.columns[entries]), freeze(self.values[entries]), self.width)

    def entry_rows(self) -> Longs:
        """Return the row number of each entry."""
        return np.repeat(np.arange(len(self)), np.diff(self.starts))

    def to_csr(self) -> Any:
        """Return a scipy CSR matrix of float64: some solvers do not converge in float32."""
        own = self.slice()
        parts = own.values.astype(np.float64), own.columns, own.starts
        return import_extra("scipy.sparse", "sklearn").csr_matrix(parts, shape=(len(self), self.width))


@dataclass(frozen=True, slots=True)
class Batch:
    """Training examples, in training order."""

    rows: SparseRows
    targets: Reals
    """Shape (rows,), float32, 0 to 1: the certainty that the tuple is an answer. Negatives have 0."""


class BaseModel(ABC):
    """A binary classifier that is trained on batches.

    Training calls `reset`, then in each of `epochs` epochs `fit_batch` for every batch, followed by `end_epoch`. The
    same calls with the same seed must give the same model, bit for bit.
    """

    kind: str
    """The name of the class in model files."""
    epochs: int
    """Number of training epochs."""

    @abstractmethod
    def reset(self, width: int, seed: int) -> None:
        """Drop all parameters and prepare for rows of `width` columns."""

    @abstractmethod
    def fit_batch(self, batch: Batch) -> float:
        """Train on a batch. Return its mean cross-entropy in nats; NaN if it is not known yet; infinity if the model
        has diverged, so that its outputs are not finite.
        """

    def end_epoch(self) -> None:  # noqa: B027 - optional
        """End an epoch: every batch has been seen once more."""

    @abstractmethod
    def probabilities(self, rows: SparseRows) -> Floats:
        """Return shape (rows,), float64, 0 to 1. A row's probability must not depend on the other rows."""

    def scores(self, rows: SparseRows) -> Floats:
        """Return shape (rows,), float64: the log-odds of the probabilities, finite."""
        return log_odds(self.probabilities(rows))

    @abstractmethod
    def embed(self, rows: SparseRows) -> Reals:
        """Return shape (rows, any), float32: the representation that the probability is computed from."""

    @abstractmethod
    def settings(self) -> Mapping[str, Any]:
        """Return the constructor arguments as JSON values: `type(model)(**settings)` makes an untrained copy."""

    @abstractmethod
    def state(self, *, resumable: bool = False) -> State:
        """Return the parameters. With `resumable`, also what is needed to continue training."""

    @abstractmethod
    def restore(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        """Load what `state` returned. Raise InputError for any other arrays: they may come from a crafted file."""

    def check_width(self, width: int) -> None:
        """Raise InputError unless a restored model takes rows of `width` columns."""
        try:
            p = self.probabilities(SparseRows.empty(1, width))
        except (GaifmanError, ArithmeticError, ValueError, IndexError) as error:
            raise InputError(f"the base model does not take rows of {width:,} columns: {error}") from error
        if not (p.shape == (1,) and 0 <= p[0] <= 1):
            raise InputError("the base model gives no probability for a row without entries")


def import_extra(module: str, extra: str) -> Any:
    """Import a module of an optional dependency, or say how to install it."""
    try:
        return import_module(module)
    except ImportError:
        package = module.partition(".")[0]
        raise KnowledgeBaseError(f"{package} is not installed", hint=f"pip install 'gaifman[{extra}]'") from None


def saved_settings(base: BaseModel) -> dict[str, Any] | None:
    """The settings of a base model; None if they cannot be saved."""
    try:
        return dict(base.settings())
    except OutputError:
        return None

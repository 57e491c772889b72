"""Compare predicted probabilities with the confidences of test facts.

>>> test = ConfidenceTest(np.array([0.9, 0.5, 0.8]), np.array([1.0, 0.5, 0.7]), *np.full((2, 3), 0.8))
>>> test.metrics()["model"], test.metrics()["relation_mean"]
({'mae': 0.066667, 'correlation': 0.922613}, {'mae': 0.2, 'correlation': None})

Beside the model are two constants: the mean and the median confidence of the relation's visible facts. The mean has the
smallest squared error of all constants, the median the smallest absolute error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from gaifman.kb.tables import Floats


@dataclass(frozen=True, slots=True)
class ConfidenceTest:
    """Predictions for test facts with confidences."""

    probabilities: Floats
    """Shape (facts,), float64: the calibrated probabilities."""
    confidences: Floats
    """Shape (facts,), float64: the confidences of the facts."""
    relation_means: Floats
    """Shape (facts,), float64: the mean confidence of the relation's visible facts."""
    relation_medians: Floats
    """Shape (facts,), float64: their median confidence."""

    def __len__(self) -> int:
        return len(self.confidences)

    @classmethod
    def concatenate(cls, parts: Sequence[ConfidenceTest]) -> ConfidenceTest:
        """Join the facts of several relations."""
        return cls(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(cls)))

    def metrics(self) -> dict[str, Any]:
        """Mean absolute error and Pearson's correlation of the model and of the two constants, as JSON types."""
        predictions = {
            "model": self.probabilities,
            "relation_mean": self.relation_means,
            "relation_median": self.relation_medians,
        }
        found = {name: _compare(values, self.confidences) for name, values in predictions.items()}
        return {"facts": len(self), **found}


def _compare(predicted: Floats, true: Floats) -> dict[str, float | None]:
    """The mean absolute error and the correlation, which is None if one of them is constant."""
    error = round(float(np.abs(predicted - true).mean()), 6)
    if not (np.ptp(predicted) > 0 and np.ptp(true) > 0):
        return {"mae": error, "correlation": None}
    return {"mae": error, "correlation": round(float(np.corrcoef(predicted, true)[0, 1]), 6)}

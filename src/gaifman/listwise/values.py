"""From the number of groundings of a formula to its value in a score."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gaifman.kb.tables import Floats

Reals = npt.NDArray[np.float32]

VALUE_PARTS = (0.3, 0.5, 1.0)
"""The value of a formula: for holding, times log(count), and times √share; chosen on validation facts."""


def formula_values(counts: Reals | Floats, shares: Reals | Floats) -> Reals:
    """The values of formulas by the number of their groundings, and by the share of random walks that end there.

    The count alone favours what is reached through hubs, the share alone what has few rivals.
    """
    at_all, by_count, by_share = VALUE_PARTS
    found = at_all * np.minimum(counts, 1) + by_count * np.log(np.maximum(counts, 1)) + by_share * np.sqrt(shares)
    values: Reals = found.astype(np.float32)
    return values


def own_values(counts: Floats) -> Reals:
    """The values of formulas about the candidate alone: 1 for holding, and more for a count."""
    found = np.minimum(counts, 1) + VALUE_PARTS[1] * np.log(np.maximum(counts, 1))
    values: Reals = found.astype(np.float32)
    return values

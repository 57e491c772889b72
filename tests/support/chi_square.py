"""A chi-square test for counts of random draws."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64] | npt.NDArray[np.float64]


def surprising(counts: Numbers, expected: Numbers) -> bool:
    """Whether counts differ from what is expected by more than six deviations of chi-square."""
    chi, freedom = float(((counts - expected) ** 2 / expected).sum()), max(1, len(counts) - 1)
    return bool(chi > freedom + 6 * (2 * freedom) ** 0.5 + 12)

"""Ranks by their definition, slow and sharing nothing with the library's."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

Names = tuple[str, ...]


def slow_ranks(scores: Sequence[float], right: int, left_out: set[int]) -> tuple[float, float, float]:
    """The optimistic, realistic and pessimistic rank of the true candidate; NaN comes last."""

    def key(score: float) -> tuple[int, float]:
        return (0, 0.0) if math.isnan(score) else (1, score)

    others = [key(score) for i, score in enumerate(scores) if i != right and i not in left_out]
    own = key(scores[right])
    best = sorted([*others, own], reverse=True).index(own) + 1
    worst = len(others) + 1 - sorted([*others, own]).index(own)
    return float(best), (best + worst) / 2, float(worst)


def rank_of(
    fact: Names, place: int, objects: Sequence[str], known: set[Names], score: Callable[[Names], float]
) -> tuple[float, float, float]:
    """The filtered rank of one fact's object at a position among all objects."""
    tuples = [(*fact[:place], name, *fact[place + 1 :]) for name in objects]
    left_out = {i for i, other in enumerate(tuples) if other in known and other != fact}
    return slow_ranks([score(other) for other in tuples], tuples.index(fact), left_out)

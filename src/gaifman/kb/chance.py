"""Few exceptions: whether what nearly all facts keep could be chance."""

from __future__ import annotations

import math

MIN_INSTANCES = 10
MAX_EXCEPTIONS = 0.05
"""Largest share of exceptions among the instances."""
MAX_MISSING_INVERSES = 0.25
"""The same for a symmetric relation: a knowledge base misses facts."""
UNCERTAINTY = 4
"""The share of exceptions could be this many times larger, at the upper end of what the sample allows."""
SIGNIFICANCE = 0.1
"""Probability of so few exceptions at that share, or by chance, up to which they count as few."""
CHANCE_SHARE = 1 / 3
"""Exceptions are also at most this share of those that chance gives."""


def is_rare(exceptions: int, instances: int, share: float = MAX_EXCEPTIONS) -> bool:
    """Whether exceptions are few, also at the upper end of what the sample allows.

    >>> [is_rare(0, 5), is_rare(0, 12), is_rare(1, 12), is_rare(1, 25), is_rare(9, 196)]
    [False, True, False, True, True]
    """
    if instances < MIN_INSTANCES or exceptions > share * instances:
        return False
    return binomial_tail(exceptions, instances, min(UNCERTAINTY * share, 0.5)) <= SIGNIFICANCE


def is_below_chance(exceptions: int, expected: float) -> bool:
    """Whether exceptions are fewer than chance gives.

    >>> [is_below_chance(0, 0.5), is_below_chance(0, 3.0), is_below_chance(5, 30.0), is_below_chance(15, 30.0)]
    [False, True, True, False]
    """
    return exceptions <= CHANCE_SHARE * expected and poisson_tail(exceptions, expected) <= SIGNIFICANCE


def expected_repeats(facts: int, keys: int) -> float:
    """How many of some keys have several facts if each fact has a random key.

    >>> round(expected_repeats(100, 100)), round(expected_repeats(100, 10_000), 2)
    (26, 0.5)
    """
    mean = facts / keys
    return -keys * (math.expm1(-mean) + mean * math.exp(-mean)) if mean > 1e-4 else 0.5 * mean * facts


def binomial_tail(most: int, count: int, share: float) -> float:
    """The probability of at most this many successes."""
    return min(1.0, math.fsum(math.exp(_log_binomial(k, count, share)) for k in range(most + 1)))


def _log_binomial(k: int, count: int, share: float) -> float:
    ways = math.lgamma(count + 1) - math.lgamma(k + 1) - math.lgamma(count - k + 1)
    return ways + k * math.log(share) + (count - k) * math.log1p(-share)


def poisson_tail(most: int, mean: float) -> float:
    """The probability of at most this many events."""
    if mean <= 0:
        return 1.0
    return min(1.0, math.fsum(math.exp(k * math.log(mean) - mean - math.lgamma(k + 1)) for k in range(most + 1)))

"""Ranks with ties, the filter of known answers, and metrics with confidence intervals.

The target is candidate 1, which is tied with candidate 2:

>>> scores, target = np.array([[0.9, 0.5, 0.5, 0.1]]), np.array([1])
>>> ranks = compute_ranks(scores, target)
>>> ranks.optimistic.tolist(), ranks.realistic.tolist(), ranks.pessimistic.tolist()
([2.0], [2.5], [3.0])
>>> compute_ranks(scores, target, ExcludedCandidates(np.array([0]), np.array([0]))).realistic.tolist()
[1.5]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gaifman.config import check_choice
from gaifman.errors import KnowledgeBaseError
from gaifman.kb.tables import Floats, Ints, Longs, concatenate_ranges, row_ids
from gaifman.sampling.rng import make_key

TIES = ("optimistic", "realistic", "pessimistic")
"""How candidates with equal scores are ranked."""
HITS_AT = (1, 3, 10)
BOOTSTRAP_RESAMPLES = 1_000
CONFIDENCE_LEVEL = 0.95
MAX_CELLS = 1 << 18
"""Facts of resamples in memory at once."""


@dataclass(frozen=True, slots=True)
class Ranks:
    """Ranks of targets among candidates."""

    better: Longs
    """Shape (rows,), int64: the number of candidates that score above the target."""
    tied: Longs
    """Shape (rows,), int64: the number of other candidates that score the same."""
    candidates: Longs
    """Shape (rows,), int64: the number of candidates, the target included."""

    def __len__(self) -> int:
        return len(self.better)

    @property
    def optimistic(self) -> Floats:
        """Shape (rows,), float64: the target comes before the candidates it is tied with.

        A model that gives all candidates one score would always have rank 1.
        """
        found: Floats = self.better.astype(np.float64) + 1
        return found

    @property
    def realistic(self) -> Floats:
        """Shape (rows,), float64: the mean of the optimistic and the pessimistic rank.

        It is the expected rank in a random order of the tied candidates. A model that gives all candidates one score
        gets the rank of guessing.
        """
        return self.optimistic + self.tied / 2

    @property
    def pessimistic(self) -> Floats:
        """Shape (rows,), float64: the target comes after the candidates it is tied with.

        If it is far from the optimistic rank, the scores do not separate the candidates.
        """
        found: Floats = self.optimistic + self.tied
        return found

    @property
    def auc(self) -> Floats:
        """Shape (rows,), float64: the share of other candidates below the target, ties count half; NaN without others.

        >>> Ranks(*np.array([[1], [1], [5]])).auc.tolist()
        [0.625]
        """
        others = np.where(self.candidates > 1, self.candidates - 1, np.nan)
        return np.asarray(1 - (self.realistic - 1) / others)

    def without(self, excluded: ExcludedCandidates, scores: Floats, target: npt.NDArray[np.integer]) -> Ranks:
        """The ranks without some candidates, which are subtracted from the counts."""
        others = excluded.objects != target[excluded.rows]
        rows, objects = excluded.rows[others], excluded.objects[others]
        above, same = _compare(scores[rows, objects], scores[rows, target[rows]])
        counts = (np.bincount(each, minlength=len(self)) for each in (rows[above], rows[same], rows))
        return Ranks(*(whole - count for whole, count in zip(self._columns, counts, strict=True)))

    @property
    def _columns(self) -> tuple[Longs, Longs, Longs]:
        return self.better, self.tied, self.candidates

    def with_ties(self, ties: str) -> Floats:
        """The ranks with one kind of ties: `optimistic`, `realistic` or `pessimistic`."""
        check_choice("ties", ties, TIES)
        found: Floats = getattr(self, ties)
        return found

    @classmethod
    def concatenate(cls, parts: list[Ranks]) -> Ranks:
        """The rows of all parts."""
        none = Ranks(*(np.zeros(0, np.int64) for _ in range(3)))
        return cls(*map(np.concatenate, zip(*(part._columns for part in (none, *parts)), strict=True)))


@dataclass(frozen=True, slots=True)
class ExcludedCandidates:
    """Candidates that are not ranked, because they make another true fact. Pairs are distinct."""

    rows: Longs
    """Shape (pairs,), int64: a row of scores."""
    objects: Longs
    """Shape (pairs,), int64: a candidate that is excluded from this row."""


class CandidateFilter:
    """The filtered setting: candidates at `position` that make another known tuple (k, arity) are excluded.

    >>> known = np.array([[0, 5], [0, 6], [0, 7], [1, 5]])
    >>> found = CandidateFilter(known, np.array([[0, 6], [2, 6]]), 1).excluded(np.array([0, 1]))
    >>> found.rows.tolist(), found.objects.tolist()
    ([0, 0], [5, 7])
    """

    def __init__(self, known: Ints, tuples: Ints, position: int) -> None:
        groups, own = row_ids(np.delete(known, position, axis=1), np.delete(tuples, position, axis=1))
        pairs = np.unique(np.stack([groups, known[:, position].astype(np.int64)], axis=1), axis=0)
        self._first, self._last = (np.searchsorted(pairs[:, 0], own, side) for side in ("left", "right"))
        self._others, self._own = pairs[:, 1], tuples[:, position]

    def excluded(self, rows: Longs) -> ExcludedCandidates:
        """The excluded candidates of some tuples, by their indices; no more is in memory than is ranked at once."""
        first, last = self._first[rows], self._last[rows]
        row, other = np.repeat(np.arange(len(rows)), last - first), self._others[concatenate_ranges(first, last)]
        kept = other != self._own[rows][row]
        return ExcludedCandidates(row[kept], other[kept])


def compute_ranks(scores: Floats, target: npt.NDArray[np.integer], excluded: ExcludedCandidates | None = None) -> Ranks:
    """Ranks of the target (b,) in each row of scores (b, candidates), without excluded candidates.

    NaN is worse than any number and tied with other NaN: a candidate without a score must not win.
    """
    own = scores[np.arange(len(scores)), target][:, None]
    better, tied = (np.asarray(found.sum(axis=1), np.int64) for found in _compare(scores, own))
    found = Ranks(better, tied - 1, np.full(len(scores), scores.shape[1], np.int64))
    return found if excluded is None else found.without(excluded, scores, target)


def _compare(scores: Floats, own: Floats) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Which scores are above the target's, and which are the same."""
    above, same, nan = scores > own, scores == own, np.isnan(own)
    if nan.any():  # otherwise NaN of other candidates is above nothing, as it should be
        unknown = np.isnan(scores)
        above, same = above | (nan & ~unknown), same | (nan & unknown)
    return above, same


@dataclass(frozen=True, slots=True)
class MetricValue:
    """A metric with its confidence interval."""

    value: float
    low: float
    high: float

    def as_dict(self) -> dict[str, float]:
        """The metric as JSON types, rounded."""
        return {"value": round(self.value, 6), "low": round(self.low, 6), "high": round(self.high, 6)}


@dataclass(frozen=True, slots=True)
class RankMetrics:
    """Mean rank, mean reciprocal rank and hits@k."""

    facts: int
    """The number of facts."""
    ranks: int
    """The number of ranks, one for each position of a fact."""
    mean_rank: MetricValue
    mrr: MetricValue
    """The mean of 1 / rank."""
    hits: Mapping[int, MetricValue]
    """k → the share of ranks of at most k."""

    def as_dict(self) -> dict[str, Any]:
        """The metrics as JSON types."""
        found: dict[str, Any] = {"facts": self.facts, "ranks": self.ranks}
        found |= {"mean_rank": self.mean_rank.as_dict(), "mrr": self.mrr.as_dict()}
        return found | {f"hits@{most}": figure.as_dict() for most, figure in self.hits.items()}


def compute_metrics(ranks: Floats, fact_ids: npt.NDArray[np.integer], seed: int = 0) -> RankMetrics:
    """The metrics of ranks (at least one); `fact_ids` are the facts that they belong to.

    Intervals are bootstrapped: facts are resampled 1,000 times with all their ranks, because the ranks of one fact are
    not independent.

    >>> result = compute_metrics(np.array([1.0, 2.0, 1.0, 4.0]), np.array([0, 0, 1, 1]))
    >>> result.mean_rank.value, result.mrr.value, result.hits[1].value
    (2.0, 0.6875, 0.5)
    """
    if not len(ranks):
        raise KnowledgeBaseError("there are no ranks")
    columns = np.stack([ranks, 1 / ranks, *((ranks <= most).astype(np.float64) for most in HITS_AT)])
    facts, numbers = np.unique(fact_ids, return_inverse=True)
    sums = np.array([np.bincount(numbers, column, len(facts)) for column in columns], np.float64)
    counts = np.bincount(numbers, minlength=len(facts)).astype(np.float64)
    low, high = _bootstrap_intervals(sums, counts, seed)
    made = [MetricValue(*map(float, parts)) for parts in zip(columns.mean(axis=1), low, high, strict=True)]
    return RankMetrics(len(facts), len(ranks), made[0], made[1], dict(zip(HITS_AT, made[2:], strict=True)))


def _bootstrap_intervals(sums: Floats, counts: Floats, seed: int) -> tuple[Floats, Floats]:
    """The intervals of the means of columns; sums (columns, facts) and counts (facts,) are those of each fact."""
    size, means = len(counts), np.empty((len(sums), BOOTSTRAP_RESAMPLES))
    # Raw numbers of Philox are the same in every version of numpy, and six times as fast as our own keys.
    random = np.random.Philox(key=int(make_key(seed, "bootstrap")))
    step = max(1, MAX_CELLS // size)
    for begin in range(0, BOOTSTRAP_RESAMPLES, step):
        numbers = np.arange(begin, min(begin + step, BOOTSTRAP_RESAMPLES))
        raw = np.array([random.random_raw((size + 1) // 2).view(np.uint32)[:size] for _ in numbers], np.uint64)
        picked = ((raw * np.uint64(size)) >> np.uint64(32)).astype(np.int64)
        total = counts[picked].sum(axis=1)
        for column, resampled in zip(sums, means, strict=True):
            resampled[numbers] = column[picked].sum(axis=1) / total
    low, high = np.quantile(means, [(1 - CONFIDENCE_LEVEL) / 2, (1 + CONFIDENCE_LEVEL) / 2], axis=1)
    return low, high


def average_precision(scores: Floats, targets: Floats) -> float | None:
    """The mean of the precision at each positive, by descending score; equal scores count at once. None without one.

    >>> average_precision(np.array([0.9, 0.8, 0.8, 0.1]), np.array([1.0, 0.0, 1.0, 0.0]))
    0.8333333333333333
    """
    order = np.argsort(-scores, kind="stable")
    right = targets[order] > 0
    if not right.any():
        return None
    falling = scores[order]
    ends = np.append(np.flatnonzero(falling[1:] != falling[:-1]), len(scores) - 1)  # the last of each score
    found = np.cumsum(right)[ends]
    precision = found / (ends + 1)
    return float((np.diff(found, prepend=0) * precision).sum() / found[-1])

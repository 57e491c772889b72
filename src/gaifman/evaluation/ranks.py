"""How good a ranking is: ranks with their ties, the filter, the usual figures with intervals, and average precision.

>>> scores = np.array([[0.9, 0.5, 0.5, 0.1]])
>>> found = compute_ranks(scores, np.array([1]))                       # the right answer is candidate 1, tied with candidate 2
>>> found.optimistic.tolist(), found.realistic.tolist(), found.pessimistic.tolist()
([2.0], [2.5], [3.0])
>>> compute_ranks(scores, np.array([1]), ExcludedCandidates(np.array([0]), np.array([0]))).realistic.tolist()      # without candidate 0
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
from gaifman.kb.tables import Floats, Ints, Longs, concatenate_ranges
from gaifman.sampling.rng import make_key

TIES = ("optimistic", "realistic", "pessimistic")
"""Ways to count candidates with the same score."""
HITS_AT = (1, 3, 10)
BOOTSTRAP_RESAMPLES = 1_000
"""Of a bootstrap."""
CONFIDENCE_LEVEL = 0.95
"""How often an interval holds the figure, about."""
MAX_CELLS = 1 << 18
"""Facts drawn for resamples that are in memory at once."""


@dataclass(frozen=True, slots=True)
class Ranks:
    """Ranks of right answers among candidates: here, and nowhere else, is it said what a tie counts."""

    better: Longs
    """Shape (rows,), int64: candidates that score above the right one."""
    tied: Longs
    """Shape (rows,), int64: candidates that score the same, the right one not counted."""
    candidates: Longs
    """Shape (rows,), int64: how many were ranked, the right one included."""

    def __len__(self) -> int:
        return len(self.better)

    @property
    def optimistic(self) -> Floats:
        """Shape (rows,), float64: the right one stands before those it is tied with.

        The best that any order of them could give: a model that scores all the same would always be right.
        """
        found: Floats = self.better.astype(np.float64) + 1
        return found

    @property
    def realistic(self) -> Floats:
        """Shape (rows,), float64: the mean of the best and the worst.

        In a random order of the tied ones each rank from the best to the worst is as likely as another; this is what is
        to be expected. A model that scores all the same gets what guessing gets.
        """
        return self.optimistic + self.tied / 2

    @property
    def pessimistic(self) -> Floats:
        """Shape (rows,), float64: the right one stands behind those it is tied with.

        What can be had whatever the order. Far from the optimistic one, it says that the scores tell little apart.
        """
        found: Floats = self.optimistic + self.tied
        return found

    def without(self, excluded: ExcludedCandidates, scores: Floats, target: npt.NDArray[np.integer]) -> Ranks:
        """The same where some candidates are left out: they are subtracted, being few beside all that were counted."""
        others = excluded.objects != target[excluded.rows]
        rows, objects = excluded.rows[others], excluded.objects[others]
        above, same = _compare(scores[rows, objects], scores[rows, target[rows]])
        counts = (np.bincount(each, minlength=len(self)) for each in (rows[above], rows[same], rows))
        return Ranks(*(whole - count for whole, count in zip(self._columns, counts, strict=True)))

    @property
    def _columns(self) -> tuple[Longs, Longs, Longs]:
        return self.better, self.tied, self.candidates

    def with_ties(self, ties: str) -> Floats:
        """The ranks by one of `TIES`."""
        check_choice("ties", ties, TIES)
        found: Floats = getattr(self, ties)
        return found

    @classmethod
    def concatenate(cls, parts: list[Ranks]) -> Ranks:
        """The rows of several, one after another."""
        none = Ranks(*(np.zeros(0, np.int64) for _ in range(3)))
        return cls(*map(np.concatenate, zip(*(part._columns for part in (none, *parts)), strict=True)))


@dataclass(frozen=True, slots=True)
class ExcludedCandidates:
    """Candidates that are not ranked, because it is known that they are right too. No pair stands twice."""

    rows: Longs
    """Shape (pairs,), int64: a row of scores."""
    objects: Longs
    """Shape (pairs,), int64: a candidate that is left out there."""


class CandidateFilter:
    """What is left out of the ranking of tuples: here, and nowhere else, is it said what is filtered.

    That is every object which makes one of the `known` tuples (k, n) when it is put at `position`, but for the object
    that stands there already: it is the one to be ranked.

    >>> known = np.array([[0, 5], [0, 6], [0, 7], [1, 5]])
    >>> found = CandidateFilter(known, np.array([[0, 6], [2, 6]]), 1).excluded(np.array([0, 1]))
    >>> found.rows.tolist(), found.objects.tolist()
    ([0, 0], [5, 7])
    """

    def __init__(self, known: Ints, tuples: Ints, position: int) -> None:
        rest = np.delete(np.concatenate([known, tuples]), position, axis=1)
        # Of tuples with one place nothing is left: all of them go together.
        groups = np.unique(rest, axis=0, return_inverse=True)[1].ravel() if rest.size else np.zeros(len(rest), np.int64)
        pairs = np.stack([groups[: len(known)], known[:, position].astype(np.int64)], axis=1)
        pairs = np.unique(pairs, axis=0)
        wanted = groups[len(known) :]
        self._first, self._last = (np.searchsorted(pairs[:, 0], wanted, side) for side in ("left", "right"))
        self._others, self._own = pairs[:, 1], tuples[:, position]

    def excluded(self, rows: Longs) -> ExcludedCandidates:
        """The filter of some of the tuples, by their places: no more is in memory at once than is ranked at once."""
        first, last = self._first[rows], self._last[rows]
        row, other = np.repeat(np.arange(len(rows)), last - first), self._others[concatenate_ranges(first, last)]
        kept = other != self._own[rows][row]
        return ExcludedCandidates(row[kept], other[kept])


def compute_ranks(scores: Floats, target: npt.NDArray[np.integer], excluded: ExcludedCandidates | None = None) -> Ranks:
    """Ranks of the `right` candidate (b,) in each row of scores (b, candidates), without those that are filtered.

    A score that is no number is worse than any number, and the same as another one: what a model cannot judge must not
    win.
    """
    own = scores[np.arange(len(scores)), target][:, None]
    better, tied = (np.asarray(found.sum(axis=1), np.int64) for found in _compare(scores, own))
    found = Ranks(better, tied - 1, np.full(len(scores), scores.shape[1], np.int64))
    return found if excluded is None else found.without(excluded, scores, target)


def _compare(scores: Floats, own: Floats) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Which scores are above the right one's, and which are the same."""
    above, same, lost = scores > own, scores == own, np.isnan(own)
    if lost.any():  # only then does it matter which of the others are no numbers: what is none is above nothing
        unknown = np.isnan(scores)
        above, same = above | (lost & ~unknown), same | (lost & unknown)
    return above, same


@dataclass(frozen=True, slots=True)
class MetricValue:
    """A number and the interval in which it lies, as far as the facts that were ranked can tell."""

    value: float
    low: float
    high: float

    def as_dict(self) -> dict[str, float]:
        """For JSON."""
        return {"value": round(self.value, 6), "low": round(self.low, 6), "high": round(self.high, 6)}


@dataclass(frozen=True, slots=True)
class RankMetrics:
    """What is usually said of ranks."""

    facts: int
    """How many facts were ranked."""
    ranks: int
    """How many ranks they have: one for each place."""
    mean_rank: MetricValue
    mrr: MetricValue
    """The mean of 1 / rank."""
    hits: Mapping[int, MetricValue]
    """h → the share of ranks that are h or better."""

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        found: dict[str, Any] = {"facts": self.facts, "ranks": self.ranks}
        found |= {"mean_rank": self.mean_rank.as_dict(), "mrr": self.mrr.as_dict()}
        return found | {f"hits@{most}": figure.as_dict() for most, figure in self.hits.items()}


def compute_metrics(ranks: Floats, fact_ids: npt.NDArray[np.integer], seed: int = 0) -> RankMetrics:
    """The figures of some ranks, at least one; `fact` says for each rank which fact it is of.

    Intervals are by bootstrap: facts are drawn anew, with all their ranks, because the ranks of one fact are not
    independent. 1,000 times, and of the results the middle 95 % are taken.

    >>> result = compute_metrics(np.array([1.0, 2.0, 1.0, 4.0]), np.array([0, 0, 1, 1]))
    >>> result.mean_rank.value, result.mrr.value, result.hits[1].value
    (2.0, 0.6875, 0.5)
    """
    if not len(ranks):
        raise KnowledgeBaseError("there are no ranks to say anything of")
    columns = np.stack([ranks, 1 / ranks, *((ranks <= most).astype(np.float64) for most in HITS_AT)])
    facts, numbers = np.unique(fact_ids, return_inverse=True)
    sums = np.array([np.bincount(numbers, column, len(facts)) for column in columns], np.float64)
    counts = np.bincount(numbers, minlength=len(facts)).astype(np.float64)
    low, high = _bootstrap_intervals(sums, counts, seed)
    made = [MetricValue(*map(float, parts)) for parts in zip(columns.mean(axis=1), low, high, strict=True)]
    return RankMetrics(len(facts), len(ranks), made[0], made[1], dict(zip(HITS_AT, made[2:], strict=True)))


def _bootstrap_intervals(sums: Floats, counts: Floats, seed: int) -> tuple[Floats, Floats]:
    """Of the means of columns, whose sums (columns, facts) and counts (facts,) are those of each fact."""
    size, means = len(counts), np.empty((len(sums), BOOTSTRAP_RESAMPLES))
    # The raw numbers of Philox are the same in every version of numpy; keys for each would take six times as long.
    random = np.random.Philox(key=int(make_key(seed, "bootstrap")))
    step = max(1, MAX_CELLS // size)
    for begin in range(0, BOOTSTRAP_RESAMPLES, step):
        numbers = np.arange(begin, min(begin + step, BOOTSTRAP_RESAMPLES))
        raw = np.array([random.random_raw((size + 1) // 2).view(np.uint32)[:size] for _ in numbers], np.uint64)
        picked = ((raw * np.uint64(size)) >> np.uint64(32)).astype(np.int64)
        total = counts[picked].sum(axis=1)
        for column, means_of_it in zip(sums, means, strict=True):
            means_of_it[numbers] = column[picked].sum(axis=1) / total
    low, high = np.quantile(means, [(1 - CONFIDENCE_LEVEL) / 2, (1 + CONFIDENCE_LEVEL) / 2], axis=1)
    return low, high


def average_precision(scores: Floats, targets: Floats) -> float | None:
    """The mean precision at the answers, as they come by score; equal scores come at once. None without any answer.

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

"""Ranks with ties, the filter of known answers, metrics with confidence intervals; the ranks of held-out answers.

The target is candidate 1, which is tied with candidate 2:

>>> scores, target = np.array([[0.9, 0.5, 0.5, 0.1]]), np.array([1])
>>> ranks = compute_ranks(scores, target)
>>> ranks.optimistic.tolist(), ranks.realistic.tolist(), ranks.pessimistic.tolist()
([2.0], [2.5], [3.0])
>>> compute_ranks(scores, target, ExcludedCandidates(np.array([0]), np.array([0]))).realistic.tolist()
[1.5]

For each position of a held-out answer, its object is ranked among the objects that `answers` would propose there,
without those that give another known answer. All of them see what the held-out answer sees. The model alone ranks them:
constraints leave out candidates, but lower no score. The baseline, popularity, puts the object first that training
answers have most often at the position.

The work is bounded: some answers are sampled, and if an answer has very many candidates, some objects of the right
type. These are the objects of the position's type; if it has none, the objects seen there. All samples are keyed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gaifman.config import check_choice
from gaifman.errors import KnowledgeBaseError, plural
from gaifman.kb.tables import Floats, Ints, Longs, concatenate_ranges, row_ids
from gaifman.ranking.candidates import QueryPattern, RankingOptions, select_candidates
from gaifman.sampling.constraints import ConstraintChecker, hide_nothing
from gaifman.sampling.examples import TrainingExamples
from gaifman.sampling.hiding import HiddenFacts
from gaifman.sampling.negatives import Negatives
from gaifman.sampling.rng import fold_in, fold_in_rows, make_key
from gaifman.training import Scorer, Trainer, TrainingSource

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

    def as_columns(self) -> dict[str, float]:
        """The metrics as one row: `mrr`, `mrr_low`, `mrr_high` and so on."""
        named = {"mean_rank": self.mean_rank, "mrr": self.mrr} | {f"hits@{k}": hits for k, hits in self.hits.items()}
        found: dict[str, float] = {"facts": self.facts, "ranks": self.ranks}
        for name, figure in named.items():
            found |= {name: figure.value, f"{name}_low": figure.low, f"{name}_high": figure.high}
        return found


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


# Held-out answers

MAX_MODEL_DRAWS = 80_000
"""Neighbourhoods that the ranks of one model may cost: 130 ms."""
MAX_TOTAL_DRAWS = 1_500_000
"""Neighbourhoods that the ranks of all models of a completion may cost: 3 s, of 90 s to train FB15k-237."""
MIN_RANKED_FACTS = 10
"""Facts to rank before candidates are sampled to save work. Fewer facts give no figure."""
MIN_CANDIDATES = 20
"""Candidates per rank, at least."""

RANK_FIGURES = ("mrr", "mrr_popularity", "typed_auc", "typed_auc_popularity")
"""Names of the figures: of the model and of popularity."""
RANKING_NOTE = (
    "Each object of a held-out fact is ranked among the objects that would be proposed in its place, without those of "
    "other known facts; if these are too many, among a sample, first of the right type."
)

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class HeldOutRanks:
    """Ranks of held-out answers by the model and by popularity."""

    counts: Longs
    """Shape (2, 2, 3, ranks), int64: model and popularity; all candidates and those of the right type; the columns of
    `Ranks`."""
    facts: int
    """The number of answers that were ranked."""
    available: Longs
    """Shape (ranks,), int64: the number of candidates before sampling."""

    def ranks(self, *, popularity: bool = False, typed: bool = False) -> Ranks:
        """Return the ranks by the model or by popularity, among all candidates or those of the right type."""
        return Ranks(*self.counts[int(popularity), int(typed)])

    @classmethod
    def concatenate(cls, parts: Sequence[HeldOutRanks]) -> HeldOutRanks:
        """Return the ranks of several models together."""
        counts = np.concatenate([np.zeros((2, 2, 3, 0), np.int64), *(part.counts for part in parts)], axis=3)
        available = np.concatenate([np.zeros(0, np.int64), *(part.available for part in parts)])
        return cls(counts, sum(part.facts for part in parts), available)

    def metrics(self) -> dict[str, Any]:
        """Return the figures for the metadata: None, with a reason, if too few answers were ranked."""
        found: dict[str, Any] = dict.fromkeys(RANK_FIGURES)
        if self.facts < MIN_RANKED_FACTS:
            found["mrr_reason"] = f"{plural(self.facts, 'ranked answer')}: at least {MIN_RANKED_FACTS} are needed"
        else:
            by = False, True
            mrr = (_mrr(self.ranks(popularity=popularity)) for popularity in by)
            area = (_mean_auc(self.ranks(popularity=popularity, typed=True)) for popularity in by)
            found = dict(zip(RANK_FIGURES, (*mrr, *area), strict=True))
            if found["typed_auc"] is None:
                found["typed_auc_reason"] = "no object of the right type is unknown"
        means = [
            round(float(each.mean()), 1) if len(each) else 0.0 for each in (self.ranks().candidates, self.available)
        ]
        return {**found, "ranked_facts": self.facts, "ranked_among": means[0], "candidates": means[1]}


def describe_sample(metrics: Mapping[str, Any]) -> str:
    """Return in words what was ranked.

    >>> describe_sample({"ranked_facts": 11, "ranked_among": 135.0, "candidates": 250.2})
    '11 held-out facts, each among 135 of 250 candidates on average'
    """
    among, every = (f"{metrics[name]:,.0f}" for name in ("ranked_among", "candidates"))
    sample = among if among == every else f"{among} of {every}"
    return f"{plural(metrics['ranked_facts'], 'held-out fact')}, each among {sample} candidates on average"


def _mrr(ranks: Ranks) -> float:
    return round(float((1 / ranks.realistic).mean()), 6)


def _mean_auc(ranks: Ranks) -> float | None:
    """Return the chance that the held-out object is above another of the right type; None if there are none."""
    alone = ranks.candidates < 2
    return None if alone.all() else round(float(ranks.auc[~alone].mean()), 6)


PositionScores = Callable[[Ints, HiddenFacts, int], Floats]
"""Tuples, what is hidden from each, and a position → scores to rank the objects at that position by."""


def rank_held_out(trainer: Trainer, scorer: Scorer, models: int = 1) -> HeldOutRanks:
    """Rank the measured held-out answers of a trainer. The work is shared by `models` models."""
    budget = min(MAX_MODEL_DRAWS, MAX_TOTAL_DRAWS // max(models, 1)) // trainer.config.draws
    rows = [trainer.measured_rows(source) for source in trainer.sources]
    total = sum(map(len, rows))

    def ranking(source: TrainingSource, own: Longs) -> HeldOutRanking:
        def scores(tuples: Ints, hidden: HiddenFacts, _: int) -> Floats:
            return trainer.held_out_scores(scorer, source, tuples, hidden)

        return HeldOutRanking(source.examples, scores, own)

    parts = [
        ranking(source, own).rank(budget * len(own) // total)
        for source, own in zip(trainer.sources, rows, strict=True)
        if len(own)
    ]
    return HeldOutRanks.concatenate(parts)


class HeldOutRanking:
    """The held-out answers of one knowledge base, and their candidates."""

    def __init__(
        self, examples: TrainingExamples, scores: PositionScores, rows: Longs, *, as_answers_see: bool = False
    ) -> None:
        """With `as_answers_see` only what is hidden from an answer is hidden from its rivals, not their own links."""
        self._examples, self._score, self._as_answers_see = examples, scores, as_answers_see
        self._answers, self._training = examples.answers, examples.training_rows
        keys = fold_in_rows(make_key(examples.config.seed, "rank"), self._answers[rows])
        self._rows = rows[np.argsort(keys, kind="stable")]
        self._checker = ConstraintChecker(examples.kb, examples.query, examples.constraints)
        self._pools = [self._pool(position) for position in range(self._answers.shape[1])]

    @property
    def pools(self) -> list[Ints]:
        """The objects that are proposed at each position."""
        return [pool for pool, _ in self._pools]

    def rank(self, budget: int) -> HeldOutRanks:
        """Rank as many answers as `budget` tuples allow."""
        most, facts = _plan([len(pool) for pool, _ in self._pools], len(self._rows), budget)
        rows = self._rows[:facts]
        parts = [self._rank_position(position, rows, most) for position in range(len(self._pools))]
        counts, available = zip(*parts, strict=True)
        return HeldOutRanks(np.concatenate(counts, axis=3), facts, np.concatenate(available))

    def _pool(self, position: int) -> tuple[Ints, Bools]:
        """Return the objects that `answers` proposes at a position, ascending, and which are of the right type."""
        kb, query = self._examples.kb, self._examples.query
        terms = [*self._answers[0].tolist()]
        terms[position] = "candidate"
        pattern = QueryPattern(tuple(terms), ("candidate",), "")
        types = self._checker.allowed_objects()
        pool = select_candidates(kb, query, pattern, self._answers, types=types).values[:, 0]
        if len(pool) < len(kb.objects):
            return pool, np.ones(len(pool), bool)
        seen = select_candidates(kb, query, pattern, self._answers, RankingOptions(candidates="seen"))
        return pool, np.isin(pool, seen.values[:, 0])

    def _rank_position(self, position: int, rows: Longs, most: int) -> tuple[Longs, Longs]:
        """Return the ranks of answers at a position: `counts` and `available` of `HeldOutRanks`."""
        own = self._scores(self._answers[rows], rows, np.arange(len(rows)), position)
        lists = list(self._candidates(position, rows, most))
        lengths = [len(objects) for objects, _, _ in lists]
        sources, splits = np.repeat(np.arange(len(rows)), lengths), np.cumsum(lengths)[:-1]
        tuples = self._answers[rows][sources]
        tuples[:, position] = np.concatenate([objects for objects, _, _ in lists])
        popularity = np.bincount(self._answers[self._training, position], minlength=len(self._examples.kb.objects))
        found = np.empty((2, 2, 3, len(rows)), np.int64)
        for row, scores in enumerate(np.split(self._scores(tuples, rows, sources, position), splits)):
            objects, typed, _ = lists[row]
            target = self._answers[rows[row], position]
            frequency = popularity[np.append(target, objects)].astype(np.float64)
            for by, values in enumerate((np.append(own[row], scores), frequency)):
                for kind, kept in enumerate((np.ones(len(values), bool), np.append(True, typed))):
                    ranks = compute_ranks(values[None, kept], np.zeros(1, np.int64))
                    found[by, kind, :, row] = ranks.better[0], ranks.tied[0], ranks.candidates[0]
        return found, np.array([available for _, _, available in lists], np.int64)

    def _candidates(self, position: int, rows: Longs, most: int) -> Iterator[tuple[Ints, Bools, int]]:
        """Yield for each answer at most this many other objects, which are of the right type, and the number of all.

        If there are more, objects of the right type are sampled first.
        """
        pool, typed = self._pools[position]
        tuples = self._answers[rows]
        known = CandidateFilter(self._answers, tuples, position).excluded(np.arange(len(rows)))
        keys = fold_in_rows(make_key(self._examples.config.seed, "candidates", position), tuples)
        for row, target in enumerate(tuples[:, position]):
            possible = np.ones(len(self._examples.kb.objects), bool)
            possible[known.objects[known.rows == row]] = possible[target] = False
            left = possible[pool]
            objects, right = pool[left], typed[left]
            chosen = _sample(objects, right, most, keys[row])
            kept = chosen[~self._left_out(tuples[row], position, objects[chosen])]
            yield objects[kept], right[kept], 1 + len(objects) - (len(chosen) - len(kept))

    def _left_out(self, answer: Ints, position: int, objects: Ints) -> Bools:
        """Shape (b,): which objects (b,) `answers` does not propose in place of an answer's, because of constraints."""
        tuples = np.tile(answer, (len(objects), 1))
        tuples[:, position] = objects
        excluded = np.zeros(len(objects), bool)
        for rule in self._checker.rules():
            if rule.excludes:
                excluded |= rule.certainty(tuples, hide_nothing(len(tuples))) >= 1
        return excluded

    def _scores(self, tuples: Ints, rows: Longs, sources: Longs, position: int) -> Floats:
        """Shape (b,), float64: scores of tuples (b, n), each of which sees what its answer sees."""
        if self._as_answers_see:
            none = Negatives(tuples[:0], sources[:0])
            return self._score(tuples, self._examples.make_block(rows, none).hidden.select(sources), position)
        block = self._examples.make_block(rows, Negatives(tuples, sources))
        return self._score(tuples, block.negatives_hidden, position)


def _sample(objects: Ints, right: Bools, most: int, key: np.uint64) -> Longs:
    """Return the indices, ascending, of at most this many objects, by key: first those of the right type."""
    first, rest = np.flatnonzero(right), np.flatnonzero(~right)
    return np.sort(
        np.concatenate([_smallest(first, objects, most, key), _smallest(rest, objects, most - len(first), key)])
    )


def _smallest(indices: Longs, objects: Ints, count: int, key: np.uint64) -> Longs:
    """Return the indices of the objects with the smallest keys."""
    if count >= len(indices):
        return indices
    return indices[np.argpartition(fold_in(key, objects[indices]), max(count, 1) - 1)[: max(count, 0)]]


def _plan(pools: Sequence[int], facts: int, budget: int) -> tuple[int, int]:
    """Return the most candidates of a rank, and the number of facts to rank, for a budget of tuples.

    >>> _plan([250, 60], facts=40, budget=5_000), _plan([14_541, 14_541], facts=40, budget=1_000)
    ((250, 16), (50, 10))
    """
    wanted = min(facts, MIN_RANKED_FACTS)
    most = next((most for most in sorted(pools, reverse=True) if wanted * _cost(pools, most) <= budget), 0)
    most = max(most, MIN_CANDIDATES, budget // (wanted * len(pools)))
    return most, max(1, min(facts, budget // _cost(pools, most)))


def _cost(pools: Sequence[int], most: int) -> int:
    """Return the number of candidates of one fact, if a rank has at most `most`."""
    return max(1, sum(min(pool, most) for pool in pools))

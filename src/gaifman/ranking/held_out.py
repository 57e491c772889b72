"""Ranks of held-out answers: MRR and the AUC among objects of the right type, beside those of popularity.

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

from gaifman.errors import plural
from gaifman.kb.tables import Floats, Ints, Longs
from gaifman.ranking.candidates import QueryPattern, RankingOptions, select_candidates
from gaifman.ranking.ranks import CandidateFilter, Ranks, compute_ranks
from gaifman.sampling.conflicts import ConstraintChecker, hide_nothing
from gaifman.sampling.examples import TrainingExamples
from gaifman.sampling.negatives import Negatives
from gaifman.sampling.neighbourhoods import HiddenFacts
from gaifman.sampling.rng import fold_in, fold_in_rows, make_key
from gaifman.training import Scorer, Trainer, TrainingSource

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
        self._checker = ConstraintChecker(examples.graph.kb, examples.query, examples.constraints)
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
        graph, query = self._examples.graph, self._examples.query
        terms = [*self._answers[0].tolist()]
        terms[position] = "candidate"
        pattern = QueryPattern(tuple(terms), ("candidate",), "")
        types = self._checker.allowed_objects()
        pool = select_candidates(graph, query, pattern, self._answers, types=types).values[:, 0]
        if len(pool) < len(graph):
            return pool, np.ones(len(pool), bool)
        seen = select_candidates(graph, query, pattern, self._answers, RankingOptions(candidates="seen"))
        return pool, np.isin(pool, seen.values[:, 0])

    def _rank_position(self, position: int, rows: Longs, most: int) -> tuple[Longs, Longs]:
        """Return the ranks of answers at a position: `counts` and `available` of `HeldOutRanks`."""
        own = self._scores(self._answers[rows], rows, np.arange(len(rows)), position)
        lists = list(self._candidates(position, rows, most))
        lengths = [len(objects) for objects, _, _ in lists]
        sources, splits = np.repeat(np.arange(len(rows)), lengths), np.cumsum(lengths)[:-1]
        tuples = self._answers[rows][sources]
        tuples[:, position] = np.concatenate([objects for objects, _, _ in lists])
        popularity = np.bincount(self._answers[self._training, position], minlength=len(self._examples.graph))
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
            possible = np.ones(len(self._examples.graph), bool)
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

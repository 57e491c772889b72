"""Scores of every candidate for a position of test tuples, for evaluation.

`ListwiseScorer` is for ranked lists. `NetworkScorer` samples neighbourhoods of each tuple, or splits the scores (see
`fast_scoring`). `FallbackScorer` is for relations without a trained model, `PopularityScorer` is a baseline.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np

from gaifman.errors import KnowledgeBaseError
from gaifman.kb.tables import Floats, Ints
from gaifman.listwise.scoring import ListwisePredictor
from gaifman.models.calibration import log_odds, logistic
from gaifman.predict import FallbackPredictor, NetworkPredictor, Predictor, prefix_means
from gaifman.ranking.fast_scoring import SplitScorerCache
from gaifman.sampling.hiding import HiddenFacts

BLOCK_SIZE = 32_768
"""Neighbourhoods in memory at once."""
MAX_CELLS = 1 << 18
"""Scores that a thread has in memory at once, for each number of draws."""
MAX_LISTED_CELLS = 1 << 22
"""The same for ranked lists."""


class CandidateScorer(Protocol):
    """Scores tuples of one relation; a higher score means a likelier fact."""

    @property
    def block_size(self) -> int:
        """Scores to request at once: about a second of work, because work can be stopped only between blocks."""

    def scores(self, tuples: Ints, position: int) -> Floats:
        """Shape (counts, b, objects), float64: the tuples (b, arity) with every object at `position`.

        There is one score for each number of draws.
        """

    def tuple_scores(self, tuples: Ints) -> Floats:
        """Shape (counts, b), float64: the tuples themselves."""

    def probabilities(self, scores: Floats) -> Floats:
        """The probabilities of tuples with these scores, of the same shape."""


class NetworkScorer:
    """Scores by drawn neighbourhoods, from which nothing is hidden; split if a cache of split scorers is given."""

    def __init__(
        self,
        predictor: NetworkPredictor,
        counts: Sequence[int],
        *,
        threads: int | None = 1,
        cache: SplitScorerCache | None = None,
    ) -> None:
        self.predictor, self.scorer, self._cache = predictor, predictor.scorer, cache
        self.counts, self.threads = tuple(counts), threads
        self.sampling = replace(predictor.config.sampling(max(counts), "answer 0"), shared_order=True)

    @property
    def block_size(self) -> int:
        """As many as have their neighbourhoods in memory at once; more if scores are split."""
        return BLOCK_SIZE // self.sampling.draws if self._cache is None else MAX_CELLS

    def scores(self, tuples: Ints, position: int) -> Floats:
        """Means of the base model's probabilities over the first draws; the objects at `position` are ignored.

        Split scores are the same, up to rounding.
        """
        if self._cache is None:
            return self._draw(tuples, position)
        with self._cache.borrow(self.scorer) as split:
            return split.scores(tuples, position)

    def _draw(self, tuples: Ints, position: int) -> Floats:
        ids, objects = self.predictor.tuple_ids(tuples), len(self.predictor.kb.objects)
        if not 0 <= position < self.predictor.arity:
            raise KnowledgeBaseError(f"positions are numbered from 0 to {self.predictor.arity - 1}, not {position}")
        found = np.empty((len(self.counts), len(ids) * objects))
        step = max(1, BLOCK_SIZE // self.sampling.draws)
        for begin in range(0, found.shape[1], step):
            cells = np.arange(begin, min(begin + step, found.shape[1]))
            block = ids[cells // objects]
            block[:, position] = cells % objects
            matrix = self.predictor.evaluator.sample_and_evaluate(block, self.sampling, threads=self.threads)
            found[:, cells] = self._means(self.scorer.probabilities(matrix).reshape(len(cells), -1))
        return found.reshape(len(self.counts), len(ids), objects)

    def tuple_scores(self, tuples: Ints) -> Floats:
        """Scores with the same draws as among all candidates."""
        nothing = HiddenFacts.one_per_tuple(np.full(len(tuples), -1, np.int64))
        return self._means(self.predictor.probabilities_per_draw(tuples, self.sampling, nothing))

    def _means(self, per_draw: Floats) -> Floats:
        return prefix_means(per_draw, self.counts, self.predictor.draw_ratio)

    def probabilities(self, scores: Floats) -> Floats:
        """The calibrated scores."""
        return self.predictor.calibration.apply(np.clip(scores, 0.0, 1.0))


class ListwiseScorer:
    """Scores by ranked lists: the best candidates of a position, and tuples, by the evidence of all positions."""

    def __init__(self, predictor: ListwisePredictor, counts: Sequence[int]) -> None:
        self._predictor, self._counts = predictor, len(counts)

    @property
    def block_size(self) -> int:
        """Many: questions that share candidates share work."""
        return MAX_LISTED_CELLS

    def scores(self, tuples: Ints, position: int) -> Floats:
        """The score of every candidate, for each number of draws: nothing is drawn."""
        return np.tile(self._predictor.scorer.candidate_scores(tuples, position), (self._counts, 1, 1))

    def tuple_scores(self, tuples: Ints) -> Floats:
        """The log-odds of the tuples, from which nothing is hidden."""
        nothing = HiddenFacts.one_per_tuple(np.full(len(tuples), -1, np.int64))
        found = log_odds(self._predictor.odds.probabilities(self._predictor.scorer.evidence(tuples, nothing)))
        return np.tile(found, (self._counts, 1))

    def probabilities(self, scores: Floats) -> Floats:
        """The probabilities of log-odds."""
        return logistic(scores)


def candidate_scorer(
    predictor: Predictor, counts: Sequence[int], *, threads: int | None = 1, cache: SplitScorerCache | None = None
) -> CandidateScorer:
    """The scorer of a predictor's candidates; a cache of split scorers is for networks."""
    match predictor:
        case FallbackPredictor():
            return FallbackScorer(predictor, counts)
        case ListwisePredictor():
            return ListwiseScorer(predictor, counts)
        case NetworkPredictor():
            return NetworkScorer(predictor, counts, threads=threads, cache=cache)
    raise TypeError(f"no scorer for {type(predictor).__name__}")


class FallbackScorer:
    """Scores of a relation without a trained model: the fallback probability."""

    def __init__(self, predictor: FallbackPredictor, counts: Sequence[int]) -> None:
        self._predictor, self._counts = predictor, counts

    @property
    def block_size(self) -> int:
        """As many as fit into memory: nothing is sampled."""
        return MAX_CELLS

    def scores(self, tuples: Ints, position: int) -> Floats:
        """The fallback probability of every candidate, for each number of draws."""
        found, objects = [], np.arange(len(self._predictor.kb.objects), dtype=np.int32)
        for row in tuples:
            candidates = np.repeat(row[None].astype(np.int32), len(objects), axis=0)
            candidates[:, position] = objects
            found.append(self.tuple_scores(candidates))
        return np.array(found).reshape(len(tuples), len(self._counts), len(objects)).swapaxes(0, 1)

    def tuple_scores(self, tuples: Ints) -> Floats:
        """The fallback probability of the tuples, for each number of draws."""
        return np.tile(self._predictor.fallback_probabilities(tuples), (len(self._counts), 1))

    def probabilities(self, scores: Floats) -> Floats:
        """The scores are probabilities already."""
        return scores


class PopularityScorer:
    """Scores by frequency, the baseline of a ranking: the object first that known tuples have most often.

    >>> scorer = PopularityScorer(np.array([[0, 3], [1, 3], [1, 2]]), 4)
    >>> scorer.scores(np.array([[0, 0]]), 1).tolist()
    [[[0.0, 0.0, 1.0, 2.0]]]
    """

    def __init__(self, known: Ints, objects: int) -> None:
        """`known` (k, arity) are the tuples to count."""
        self._frequency = [np.bincount(column, minlength=objects).astype(np.float64) for column in known.T]

    @property
    def block_size(self) -> int:
        """As many as fit into memory: nothing is sampled."""
        return MAX_CELLS

    def scores(self, tuples: Ints, position: int) -> Floats:
        """The frequency of every object at the position."""
        return np.tile(self._frequency[position], (1, len(tuples), 1))

    def tuple_scores(self, tuples: Ints) -> Floats:
        """The logarithm of the product of the frequencies of a tuple's objects, each plus one."""
        found = sum(np.log1p(own[tuples[:, position]]) for position, own in enumerate(self._frequency))
        return np.tile(found, (1, 1))

    def probabilities(self, scores: Floats) -> Floats:
        """Frequencies have no probabilities: NaN."""
        return np.full(scores.shape, np.nan)

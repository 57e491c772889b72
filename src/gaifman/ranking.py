"""Scores of all candidates for one place of a tuple, to rank them by.

Every object of the knowledge base is a candidate. All of them share their draws: the random order of what is around an
object is the same in every tuple that has it at that place, so that two candidates differ by what they are and not by
luck. For each tuple by itself the distribution is that of any answer.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gaifman.errors import KnowledgeBaseError
from gaifman.judging import Predictor, prefix_means
from gaifman.kb.tables import Floats, Ints
from gaifman.learning import Scorer, TrainingConfig
from gaifman.sampling.neighbourhoods import SamplingConfig, check_tuples

BLOCK_SIZE = 32_768
"""Neighbourhoods that are in memory at once."""


class DirectScorer:
    """Scores of all candidates by the plain path: each tuple is drawn and judged by itself."""

    def __init__(
        self,
        predictor: Predictor,
        scorer: Scorer,
        config: TrainingConfig,
        counts: Sequence[int],
        *,
        threads: int | None = 1,
    ) -> None:
        self.predictor, self.scorer, self.counts, self.threads = predictor, scorer, tuple(counts), threads
        self.sampling = SamplingConfig(
            config.radius, config.size, max(counts), config.seed, "answer 0", shared_order=True
        )

    def scores(self, tuples: Ints, position: int) -> Floats:
        """Shape (counts, b, objects), float64: the base model's means for the tuples (b, n), each object at `position`.

        A mean is of the first draws, as many as a count says. What stands there in the tuples themselves does not
        matter. Nothing is hidden: what is to be ranked as if it were not known must not be in the knowledge base.
        """
        numbers, objects = check_candidate_tuples(self.predictor, tuples, position), len(self.predictor.graph)
        found = np.empty((len(self.counts), len(numbers) * objects))
        step = max(1, BLOCK_SIZE // self.sampling.draws)
        for begin in range(0, found.shape[1], step):
            places = np.arange(begin, min(begin + step, found.shape[1]))
            block = numbers[places // objects]
            block[:, position] = places % objects
            matrix = self.predictor.evaluator.sample_and_evaluate(block, self.sampling, threads=self.threads)
            found[:, places] = prefix_means(self.scorer.probabilities(matrix).reshape(len(places), -1), self.counts)
        return found.reshape(len(self.counts), len(numbers), objects)


def check_candidate_tuples(predictor: Predictor, tuples: Ints, position: int) -> Ints:
    """The tuples as int32 (b, n), or what is wrong with them or the place."""
    numbers = check_tuples(predictor.graph, tuples)
    if numbers.shape[1] != predictor.width:
        raise KnowledgeBaseError(f"tuples have shape (tuples, {predictor.width}), not {numbers.shape}")
    if not 0 <= position < predictor.width:
        raise KnowledgeBaseError(f"places are numbered from 0 to {predictor.width - 1}, not {position}")
    return numbers

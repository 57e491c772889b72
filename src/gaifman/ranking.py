"""Scores of all candidates for one place of a tuple, to rank them by.

Every object of the knowledge base is a candidate. All of them share their draws: the random order of what is around an
object is the same in every tuple that has it at that place, so that two candidates differ by what they are and not by
luck. For each tuple by itself the distribution is that of any answer.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gaifman.errors import KnowledgeError
from gaifman.judging import Judge, averages
from gaifman.learning import Learning, Scorer
from gaifman.neighbourhoods import Sampling, checked_tuples
from gaifman.tables import Floats, Ints

BLOCK = 32_768
"""Neighbourhoods that are in memory at once."""


class Plain:
    """Scores of all candidates by the plain path: each tuple is drawn and judged by itself."""

    def __init__(
        self, judge: Judge, scorer: Scorer, learning: Learning, counts: Sequence[int], *, threads: int | None = 1
    ) -> None:
        self.judge, self.scorer, self.counts, self.threads = judge, scorer, tuple(counts), threads
        self.sampling = Sampling(learning.radius, learning.size, max(counts), learning.seed, "answer 0", shared=True)

    def scores(self, tuples: Ints, position: int) -> Floats:
        """Shape (counts, b, objects), float64: the base model's means for the tuples (b, n), each object at `position`.

        A mean is of the first draws, as many as a count says. What stands there in the tuples themselves does not
        matter. Nothing is hidden: what is to be ranked as if it were not known must not be in the knowledge base.
        """
        numbers, objects = checked_candidates(self.judge, tuples, position), len(self.judge.graph)
        found = np.empty((len(self.counts), len(numbers) * objects))
        step = max(1, BLOCK // self.sampling.draws)
        for begin in range(0, found.shape[1], step):
            places = np.arange(begin, min(begin + step, found.shape[1]))
            block = numbers[places // objects]
            block[:, position] = places % objects
            matrix = self.judge.evaluator.sampled(block, self.sampling, threads=self.threads)
            found[:, places] = averages(self.scorer.raw(matrix).reshape(len(places), -1), self.counts)
        return found.reshape(len(self.counts), len(numbers), objects)


def checked_candidates(judge: Judge, tuples: Ints, position: int) -> Ints:
    """The tuples as int32 (b, n), or what is wrong with them or the place."""
    numbers = checked_tuples(judge.graph, tuples)
    if numbers.shape[1] != judge.width:
        raise KnowledgeError(f"tuples have shape (tuples, {judge.width}), not {numbers.shape}")
    if not 0 <= position < judge.width:
        raise KnowledgeError(f"places are numbered from 0 to {judge.width - 1}, not {position}")
    return numbers

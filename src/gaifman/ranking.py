"""Scores of all candidates for one place of a tuple, to rank them by.

Every object of the knowledge base is a candidate. All of them share their draws: the random order of what is around an
object is the same in every tuple that has it at that place, so that two candidates differ by what they are and not by
luck. For each tuple by itself the distribution is that of any answer.
"""

from __future__ import annotations

import numpy as np

from gaifman.errors import KnowledgeError
from gaifman.judging import Judge
from gaifman.learning import Learning, Scorer
from gaifman.neighbourhoods import Sampling, checked_tuples
from gaifman.tables import Floats, Ints

BLOCK = 32_768
"""Neighbourhoods that are in memory at once."""


class Plain:
    """Scores of all candidates by the plain path: each tuple is drawn and judged by itself."""

    def __init__(
        self, judge: Judge, scorer: Scorer, learning: Learning, draws: int, *, threads: int | None = 1
    ) -> None:
        self.judge, self.scorer, self.threads = judge, scorer, threads
        self.sampling = Sampling(learning.radius, learning.size, draws, learning.seed, "answer 0", shared=True)

    def scores(self, tuples: Ints, position: int) -> Floats:
        """Shape (b, objects), float64: the base model's mean for each of the tuples (b, n), each object at `position`.

        What stands there in the tuples themselves does not matter. Nothing is hidden: what is to be ranked as if it
        were not known must not be in the knowledge base.
        """
        numbers, objects = checked_candidates(self.judge, tuples, position), len(self.judge.graph)
        found = np.empty(len(numbers) * objects)
        step = max(1, BLOCK // self.sampling.draws)
        for begin in range(0, len(found), step):
            places = np.arange(begin, min(begin + step, len(found)))
            block = numbers[places // objects]
            block[:, position] = places % objects
            matrix = self.judge.evaluator.sampled(block, self.sampling, threads=self.threads)
            found[places] = self.scorer.raw(matrix).reshape(len(places), -1).mean(axis=1)
        return found.reshape(len(numbers), objects)


def checked_candidates(judge: Judge, tuples: Ints, position: int) -> Ints:
    """The tuples as int32 (b, n), or what is wrong with them or the place."""
    numbers = checked_tuples(judge.graph, tuples)
    if numbers.shape[1] != judge.width:
        raise KnowledgeError(f"tuples have shape (tuples, {judge.width}), not {numbers.shape}")
    if not 0 <= position < judge.width:
        raise KnowledgeError(f"places are numbered from 0 to {judge.width - 1}, not {position}")
    return numbers

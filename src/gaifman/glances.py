"""A first look at many candidates: which of them are worth all their draws?

>>> import numpy as np
>>> import gaifman
>>> from gaifman.cancellation import never
>>> from gaifman.sampling.neighbourhoods import HiddenFacts
>>> kb = gaifman.demo()
>>> completion = gaifman.complete(kb, ["capital"], size=10, options={"epochs": 1}, seed=1)
>>> glances = FastScorer(completion.judge("capital"), completion.learning)
>>> pairs = np.array([[kb.id("france"), number] for number in range(len(kb.objects))], np.int32)
>>> nothing = HiddenFacts.one_each(np.full(len(pairs), -1))
>>> drawn = glances.values(completion.scorers["capital"], pairs, nothing, never())
>>> glances.prepare()                               # what is around each object, once for all questions
>>> looked_up = glances.values(completion.scorers["capital"], pairs, nothing, never())
>>> bool(np.abs(looked_up - drawn).max() < 1e-5)
True

Candidates share the draws of a look, so that two of them differ by what they are and not by luck.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from gaifman.cancellation import Deadline
from gaifman.judging import Predictor
from gaifman.kb.tables import Floats, Ints
from gaifman.learning import Scorer, TrainingConfig
from gaifman.models.mlp import MLP
from gaifman.sampling.neighbourhoods import HiddenFacts
from gaifman.splits import MAX_CACHED_BYTES, ObjectFeatures, SplitScorer, supports_fast_scoring

FIRST_PASS_DRAWS = 2
"""Draws of a first look."""
FIRST_PASS_PURPOSE = "look"
MAX_OBJECTS = 1 << 18
"""With more objects a field takes too much memory, and one step of its work too long between two deadlines."""
MAX_DRAWN_MEMBERS = 16_000_000
"""With more members to be drawn a field takes some ten seconds, or half a gigabyte: FB15k at k = 20 has 7 million."""
MIN_CANDIDATE_SHARE = 0.5
"""Candidates, as a share of all objects, from which on scoring all objects at once is quicker than those alone."""


class SplitScorerCache:
    """Splits that nobody uses at the moment, with the sums they keep; each is of one thread while it is used."""

    def __init__(self, object_features: ObjectFeatures, max_bytes: int = MAX_CACHED_BYTES) -> None:
        """`most` bytes of sums are kept, those of the models asked last."""
        self.object_features, self._max_bytes = object_features, max_bytes
        self._idle: list[SplitScorer] = []
        self._lock = threading.Lock()

    @contextmanager
    def borrow(self, scorer: Scorer) -> Iterator[SplitScorer]:
        """A split of a model, from those asked last where there is one."""
        with self._lock:
            own = next((split for split in reversed(self._idle) if split.scorer is scorer), None)
            if own is not None:
                self._idle.remove(own)
        own = own or SplitScorer(self.object_features, scorer)
        yield own  # one whose work was broken off is not given back
        with self._lock:
            self._idle.append(own)
            while self._idle and sum(split.nbytes for split in self._idle) > self._max_bytes:
                del self._idle[0]

    def __len__(self) -> int:
        return len(self._idle)


class FastScorer:
    """First looks at candidates, of one knowledge base made ready and one way of drawing."""

    def __init__(self, predictor: Predictor, config: TrainingConfig) -> None:
        self._predictor, self._config = predictor, config
        self._sampling = replace(config.sampling(FIRST_PASS_DRAWS, FIRST_PASS_PURPOSE), shared_order=True)
        self._cache: SplitScorerCache | None = None
        self._lock = threading.Lock()

    @property
    def prepared(self) -> bool:
        """Whether what questions share is there."""
        return self._cache is not None

    def prepare(self, deadline: Deadline | None = None) -> None:
        """Make what all questions share, where scores can be split: seconds for a large knowledge base, once.

        Nothing is made where it would take too much; a deadline is asked between its parts.
        """
        judge = self._predictor
        fits = supports_fast_scoring(judge.evaluator.plan.features, self._config, judge.width)
        with self._lock:
            if self._cache is not None or not fits or not 0 < len(judge.graph) <= MAX_OBJECTS:
                return
            field = ObjectFeatures(judge, self._config, FIRST_PASS_DRAWS, FIRST_PASS_PURPOSE)
            if field.cost > MAX_DRAWN_MEMBERS:
                return
            for position in range(judge.width):
                field.at_position(position, deadline)
            self._cache = SplitScorerCache(field)

    def scores(self, scorer: Scorer, tuples: Ints, hidden: HiddenFacts, deadline: Deadline) -> Floats:
        """Shape (b,), float64: the base model's mean over the draws of a look, from which facts are hidden."""
        pool, position = self._cache, _varying_position(tuples, len(self._predictor.graph))
        if pool is None or position is None or not isinstance(scorer.base, MLP):
            return self._scores_by_sampling(scorer, tuples, hidden, deadline)
        deadline.check()
        with pool.borrow(scorer) as split:
            found: Floats = split.scores(tuples[:1], position)[0, 0, tuples[:, position]]
        own = np.flatnonzero(np.diff(hidden.starts))  # a split sees every fact
        found[own] = self._scores_by_sampling(scorer, tuples[own], hidden.select(own), deadline)
        return found

    def _scores_by_sampling(self, scorer: Scorer, tuples: Ints, hidden: HiddenFacts, deadline: Deadline) -> Floats:
        return np.asarray(
            self._predictor.probabilities_per_draw(scorer, tuples, self._sampling, hidden, deadline).mean(axis=1)
        )


def _varying_position(tuples: Ints, objects: int) -> int | None:
    """The place at which pairs differ, where it is one alone and they are many of what can stand there.

    >>> pairs = np.array([[7, 0], [7, 1], [7, 2]], np.int32)
    >>> _varying_position(pairs, 4), _varying_position(pairs[:, ::-1], 4), _varying_position(pairs, 100), _varying_position(np.eye(2, dtype=np.int32), 2)
    (1, 0, None, None)
    """
    if tuples.shape[1] != 2 or len(tuples) < max(1, MIN_CANDIDATE_SHARE * objects):
        return None
    same = (tuples == tuples[0]).all(axis=0)
    return 1 - int(np.argmax(same)) if same.any() else None

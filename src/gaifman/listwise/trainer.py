"""Train the rankers of a relation, and hold out facts to learn what their scores are worth."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gaifman.io.model_file import strip_prefix
from gaifman.kb.tables import Floats, Ints, Longs, freeze
from gaifman.listwise.odds import Proposals
from gaifman.listwise.ranker import ListwiseConfig, Ranker, fit_with_trial
from gaifman.listwise.scoring import RelationScorer
from gaifman.listwise.serialization import Vocabulary, ranker_arrays, ranker_from_arrays
from gaifman.listwise.settings import listwise_config
from gaifman.listwise.steps import StepIndex, build_steps
from gaifman.logic.ast import Feature
from gaifman.sampling.examples import TrainingExamples
from gaifman.sampling.hiding import HiddenFacts
from gaifman.sampling.rng import fold_in, fold_in_rows, make_key
from gaifman.training import Callback, TrainingConfig

MAX_PROPOSALS = 3_000
"""Candidates that the odds of one relation are fitted to."""
MAX_TOTAL_PROPOSALS = 100_000
"""Candidates of all relations together: 100 s on FB15k-237, of 600 s to train it."""
MIN_PROPOSALS = 200
BEST, OTHERS = 6, 4
"""Candidates of one question: those with the highest scores, and others by key."""
MAX_MEASURED = 1_000
"""Held-out facts that the AUC is measured on."""


@dataclass(frozen=True, slots=True)
class TrainedRankers:
    """What training gives."""

    rankers: tuple[Ranker, ...]
    """Fitted to all facts."""
    trials: tuple[Ranker, ...]
    """Fitted without the held-out facts: these are measured."""


class ListwiseTrainer:
    """Trains the rankers of one relation."""

    def __init__(self, examples: TrainingExamples, config: TrainingConfig, formulas: Sequence[Feature] = ()) -> None:
        """`formulas` are added to the mined ones."""
        relation = examples.query.atomic_relation
        assert relation is not None, "ranked lists are for relations"
        self.examples, self.config, self.relation = examples, config, relation
        self.index: StepIndex = build_steps(examples.graph.kb)
        self.vocabulary = Vocabulary.of(self.index, formulas)
        self.settings: ListwiseConfig = listwise_config(config, self.index)

    @property
    def arity(self) -> int:
        """The number of positions."""
        return int(self.examples.answers.shape[1])

    def train(self, callback: Callback | None = None) -> TrainedRankers:
        """Mine and fit one position after the other, from the callback's checkpoint if it has one."""
        callback = callback or Callback()
        done = self._restore(callback.load_checkpoint())
        questions = min(self.settings.questions, len(self.examples.answers))
        callback.on_train_begin(questions * self.arity, questions * len(done))
        for position in range(len(done), self.arity):
            held_out, formulas = self.examples.held_out_rows, self.vocabulary.formulas
            done.append(fit_with_trial(self.index, self.relation, position, self.settings, held_out, formulas))
            callback.on_block(questions, lambda: self._state(done))
            callback.on_epoch_end(position + 1, done[-1][0].held_out_loss or 0.0, done[-1][0].held_out_loss)
        return TrainedRankers(tuple(final for final, _ in done), tuple(trial for _, trial in done))

    def _state(self, done: Sequence[tuple[Ranker, Ranker]]) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
        """The finished positions, for a checkpoint."""
        arrays = {
            f"{position}/{kind}/{name}": array
            for position, pair in enumerate(done)
            for kind, ranker in zip(("final", "trial"), pair, strict=True)
            for name, array in ranker_arrays(ranker, self.index).items()
        }
        return arrays, {"position": [len(done), 0]}

    def _restore(self, saved: Any) -> list[tuple[Ranker, Ranker]]:
        if not saved:
            return []
        arrays, meta = saved
        found = []
        for position in range(meta["position"][0]):
            parts = []
            for kind in ("final", "trial"):
                prefix = f"{position}/{kind}/"
                parts.append(
                    ranker_from_arrays(
                        strip_prefix(arrays, prefix), self.relation, position, self.arity, self.index, self.vocabulary
                    )
                )
            found.append((parts[0], parts[1]))
        return found

    # What the trials say about held-out facts

    def scorer(self, rankers: Sequence[Ranker]) -> RelationScorer:
        """The scorer of some rankers on the training facts."""
        return RelationScorer(self.index, rankers, self.settings)

    def held_out(self, trials: RelationScorer) -> tuple[Floats, Floats, Floats]:
        """The evidence of held-out facts and as many negatives, their targets, and how often a negative is true."""
        block = self.examples.held_out_block(rows=self.examples.held_out_rows[:MAX_MEASURED])
        pairs = ((block.answers, block.hidden), (block.negatives, block.negatives_hidden))
        evidence = np.concatenate([trials.evidence(tuples, hidden) for tuples, hidden in pairs])
        targets = np.concatenate([block.targets.astype(np.float64), np.zeros(len(block.negatives))])
        shares = np.zeros(len(targets))
        if self.config.missing and len(block.answers):
            shares[len(block.answers) :] = self.examples.true_shares(block, self.config.missing)
        return evidence, targets, shares

    def proposals(self, trials: RelationScorer, models: int, pools: Sequence[Ints]) -> Proposals:
        """Candidates of questions with a held-out fact hidden, and of questions as they stand, for all positions.

        `pools` has the objects that can be proposed at each position.
        """
        count = max(MIN_PROPOSALS, min(MAX_PROPOSALS, MAX_TOTAL_PROPOSALS // max(models, 1)))
        questions = max(1, count // (2 * self.arity * (BEST + OTHERS)))
        parts = []
        for position in range(self.arity):
            parts += [*self._hidden_questions(trials, position, pools[position], questions)]
            parts += [*self._standing_questions(trials, position, pools, questions)]
        return Proposals.concatenate(parts, self.arity)

    def _hidden_questions(self, trials: RelationScorer, position: int, pool: Ints, count: int) -> Iterator[Proposals]:
        """Questions from which a held-out fact is hidden, as if the knowledge base missed it."""
        rows = self._some(self.examples.held_out_rows, self.examples.answers, count, "propose hidden", position)
        missing = self.config.assumed_missing
        each = missing / (1 - missing) * len(self.examples.answers) / max(len(rows), 1) / self.arity
        for row in rows.tolist():
            block = self.examples.held_out_block(negatives=0, rows=np.array([row]))
            answer, hidden = block.answers[0], block.hidden.of(0)
            yield self._propose(trials, answer, hidden, position, pool, each, float(block.targets[0]))

    def _standing_questions(
        self, trials: RelationScorer, position: int, pools: Sequence[Ints], count: int
    ) -> Iterator[Proposals]:
        """Questions from which nothing is hidden: what they propose is not known, and counts as false."""
        fixed = [i for i in range(self.arity) if i != position]
        if len(fixed) == 1:
            asked = np.zeros((len(pools[fixed[0]]), 2), np.int32)
            asked[:, fixed[0]] = pools[fixed[0]]
        else:
            asked = np.unique(np.delete(self.examples.answers, position, axis=1), axis=0)
            asked = np.insert(asked, position, 0, axis=1)
        rows = self._some(np.arange(len(asked)), asked, count, "propose", position)
        each = len(asked) / max(len(rows), 1) / self.arity
        nothing = np.zeros(0, np.int64)
        for row in rows.tolist():
            yield self._propose(trials, asked[row], nothing, position, pools[position], each, None)

    def _propose(
        self,
        trials: RelationScorer,
        question: Ints,
        hidden: Longs,
        position: int,
        pool: Ints,
        weight: float,
        target: float | None,
    ) -> Proposals:
        """The best candidates of a question and some others; the object of the question itself is true by `target`."""
        scores = trials.scorers[position].scores(question.tolist(), freeze(hidden))
        known = trials.known_answers(question.tolist(), freeze(hidden), position)
        possible = pool[~np.isin(pool, known)]
        if target is not None:
            possible = possible[possible != question[position]]
        order = possible[np.lexsort((possible, -scores[possible]))]
        best, rest = order[:BEST], order[BEST:]
        keys = fold_in(make_key(self.config.seed, "propose others", position), rest)
        others = rest[np.argsort(keys, kind="stable")[:OTHERS]]
        first = [] if target is None else [question[position]]
        objects = np.concatenate([np.array(first, np.int32), best, others]).astype(np.int32)
        tuples = np.tile(question, (len(objects), 1)).astype(np.int32)
        tuples[:, position] = objects
        unseen = HiddenFacts(np.arange(len(tuples) + 1) * len(hidden), np.tile(hidden, len(tuples)))
        weights = np.full(len(tuples), weight)
        if len(others):
            weights[len(tuples) - len(others) :] *= len(rest) / len(others)
        targets = np.zeros(len(tuples))
        if target is not None:
            targets[0] = target
        return Proposals(trials.evidence(tuples, unseen), targets, weights)

    def _some(self, rows: Longs, tuples: Ints, count: int, purpose: str, position: int) -> Longs:
        keys = fold_in_rows(make_key(self.config.seed, purpose, position), tuples[rows])
        return rows[np.argsort(keys, kind="stable")[:count]]


def mean_shares(evidence: Floats) -> Floats:
    """Shape (tuples,), float64: the geometric mean of the shares over the positions."""
    shares: Floats = np.exp(evidence[:, : evidence.shape[1] // 2].mean(axis=1))
    return shares

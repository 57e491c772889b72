"""How the expert's scores are mixed with those of a ranker, at each position of each relation.

The score of a candidate is scale · (the ranker's score) + weight · (the expert's score). Both numbers are fitted on
held-out facts, which neither the trial of the expert nor that of the ranker has seen: those that make their loss
smallest. A position with few held-out facts has numbers close to those of all positions together.

Both explain much the same, so that a sum of the two would be too sure: with the expert the scale is below 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from gaifman.kb.tables import Floats, Longs, freeze
from gaifman.kernels.complex import weight_losses
from gaifman.listwise.expert import PositionExpert
from gaifman.listwise.scoring import RelationScorer
from gaifman.sampling.examples import TrainingExamples
from gaifman.sampling.rng import fold_in_rows, make_key

SCALES = (0.4, 0.5, 0.6, 0.7, 0.85, 1.0)
WEIGHTS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0)
MIXTURES = freeze(np.array([(scale, weight) for scale in SCALES for weight in WEIGHTS]))
"""Shape (mixtures, 2): scales and weights to choose from."""
ALONE = (1.0, 0.0)
"""Without the expert."""
MAX_QUESTIONS = 200
"""Held-out facts of a relation that its mixtures are fitted on."""
POOLED_QUESTIONS = 20.0
"""The mean loss of the questions of all positions counts as much as this many own questions."""


def held_out_losses(
    trials: RelationScorer, experts: Sequence[PositionExpert | None], examples: TrainingExamples
) -> Floats:
    """Shape (arity, 1 + mixtures), float64: the number of questions, and the sum of their losses for each mixture.

    A question that the expert cannot answer does not count. `trials` are without the expert.
    """
    rows, found = _some_rows(examples), np.zeros((trials.arity, 1 + len(MIXTURES)))
    if not len(rows):
        return found
    block, out = examples.held_out_block(negatives=0, rows=rows), np.empty(len(MIXTURES))
    scratch = np.empty(len(examples.kb.objects))
    asked = [(tuple_, freeze(block.hidden.of(row))) for row, tuple_ in enumerate(block.answers.tolist())]
    for position, expert in enumerate(experts):
        own = trials.scorers[position]
        if expert is None:
            continue
        for (objects, hidden), added in zip(asked, own.added(asked), strict=True):
            similar = expert.scores(objects[1 - position])
            if similar is None:
                continue
            scores, answer = own.scores(objects, hidden, added), objects[position]
            scores[answer] += own.own_change(answer, hidden)
            known = trials.known_answers(objects, hidden, position)
            weight_losses(scores, similar, known, answer, MIXTURES, scratch, out)
            found[position, 0] += 1
            found[position, 1:] += out
    return found


def _some_rows(examples: TrainingExamples) -> Longs:
    """Rows of held-out facts, by key."""
    rows = examples.held_out_rows
    keys = fold_in_rows(make_key(examples.config.seed, "expert weights"), examples.answers[rows])
    return np.sort(rows[np.argsort(keys, kind="stable")[:MAX_QUESTIONS]])


def choose_mixtures(losses: Mapping[str, Floats]) -> dict[str, Floats]:
    """Relation → the scale and the weight at each position, from what `held_out_losses` returned.

    >>> losses = np.zeros((2, 1 + len(MIXTURES)))
    >>> losses[0] = 100, *(100 * ((MIXTURES - [0.7, 0.4]) ** 2).sum(axis=1))
    >>> choose_mixtures({"capital": losses})["capital"].tolist()
    [[0.7, 0.4], [0.7, 0.4]]
    """
    total = np.concatenate([np.zeros((1, 1 + len(MIXTURES))), *losses.values()]).sum(axis=0)
    if not total[0]:
        return {relation: np.tile(ALONE, (len(own), 1)) for relation, own in losses.items()}
    pooled = total[1:] * (POOLED_QUESTIONS / total[0])
    chosen = {relation: MIXTURES[np.argmin(own[:, 1:] + pooled, axis=1)] for relation, own in losses.items()}
    return {relation: own if len(own) == 2 else np.tile(ALONE, (len(own), 1)) for relation, own in chosen.items()}

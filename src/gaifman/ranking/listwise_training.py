"""Train the ranked lists of a relation, and measure them on its held-out facts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gaifman.io.model_file import Arrays
from gaifman.kb.gaifman_graph import GaifmanGraph
from gaifman.kb.tables import Floats, Ints
from gaifman.listwise.odds import Odds, Proposals, fit_odds
from gaifman.listwise.scoring import RelationRankers
from gaifman.listwise.serialization import Vocabulary, ranker_arrays
from gaifman.listwise.settings import listwise_config
from gaifman.listwise.steps import build_steps
from gaifman.listwise.trainer import ListwiseTrainer, mean_shares
from gaifman.logic.ast import Feature, Query
from gaifman.models.calibration import HeldOut, HeldOutReport, Reliability, reliability
from gaifman.ranking.hide_choice import CHOICES, MAX_QUESTIONS, reciprocal_ranks
from gaifman.ranking.ranks import HeldOutRanking, HeldOutRanks
from gaifman.sampling.constraints import Constraints
from gaifman.sampling.examples import TrainingExamples
from gaifman.sampling.hiding import HiddenFacts
from gaifman.training import Callback, TrainingConfig

MAX_RANKED_TUPLES, MAX_TOTAL_TUPLES = 600_000, 40_000_000
"""Candidates that are ranked for the figures of one relation, and of all."""
MIN_PROPOSED = 0.05
"""The reliability is that of tuples that are proposed with at least this probability."""
UNFITTED = Odds(0.0, np.zeros(0), 0.5)
"""Before the odds are fitted."""


@dataclass(frozen=True, slots=True)
class TrainedRelation:
    """The ranked lists of a relation, with what is known about them."""

    rankers: RelationRankers
    """Without odds: these are fitted to the proposals, for one relation or for all together."""
    evidence: Floats
    """Shape (tuples, 2 · arity), float64: of held-out facts and their negatives."""
    targets: Floats
    """Shape (tuples,), float64: 1 for held-out facts."""
    true_shares: Floats
    """Shape (tuples,), float64: the probability that a negative is true, if some facts are missing."""
    proposals: Proposals
    ranks: HeldOutRanks

    def held_out(self, odds: Odds, corrected: bool) -> HeldOut:
        """The held-out tuples with their probabilities."""
        return HeldOut(odds.probabilities(self.evidence), self.targets, self.true_shares if corrected else None)

    def arrays(self) -> Arrays:
        """Everything as arrays, for a run."""
        arrays = {f"listwise/{name}": array for name, array in self.rankers.arrays.items()}
        return arrays | {
            "held/evidence": self.evidence,
            "held/targets": self.targets,
            "held/shares": self.true_shares,
            "held/ranks": self.ranks.counts,
            "held/ranked": np.array(self.ranks.facts, np.int64),
            "held/available": self.ranks.available,
            "proposed/evidence": self.proposals.evidence,
            "proposed/targets": self.proposals.targets,
            "proposed/weights": self.proposals.weights,
        }

    @classmethod
    def from_arrays(cls, arrays: Arrays, relation: str, arity: int, vocabulary: Vocabulary) -> TrainedRelation:
        """The relation of a run."""
        own = {name.removeprefix("listwise/"): a for name, a in arrays.items() if name.startswith("listwise/")}
        return cls(
            RelationRankers(relation, arity, own, vocabulary, UNFITTED),
            arrays["held/evidence"],
            arrays["held/targets"],
            arrays["held/shares"],
            Proposals(arrays["proposed/evidence"], arrays["proposed/targets"], arrays["proposed/weights"]),
            HeldOutRanks(arrays["held/ranks"], int(arrays["held/ranked"]), arrays["held/available"]),
        )


def is_listwise(arrays: Arrays) -> bool:
    """Whether the arrays of a relation's model are those of ranked lists."""
    return any(name.startswith("listwise/") for name in arrays)


def train_relation(
    examples: TrainingExamples,
    config: TrainingConfig,
    callback: Callback | None = None,
    models: int = 1,
    formulas: Sequence[Feature] = (),
) -> TrainedRelation:
    """Train the ranked lists of a relation, with `formulas` added to the mined ones.

    The work of measuring them is shared by `models` models.
    """
    trainer = ListwiseTrainer(examples, config, formulas)
    trained = trainer.train(callback)
    trials = trainer.scorer(trained.trials)

    def scores(tuples: Ints, hidden: HiddenFacts, position: int) -> Floats:
        return trials.position_evidence(tuples, hidden, position)[0]

    ranking = HeldOutRanking(examples, scores, examples.held_out_rows, as_answers_see=True)
    ranks = HeldOutRanks.concatenate([])
    if len(examples.held_out_rows):
        ranks = ranking.rank(min(MAX_RANKED_TUPLES, MAX_TOTAL_TUPLES // max(models, 1)))
    evidence, targets, shares = trainer.held_out(trials)
    arrays = {
        f"{position}/{name}": array
        for position, ranker in enumerate(trained.rankers)
        for name, array in ranker_arrays(ranker, trainer.index).items()
    }
    rankers = RelationRankers(trainer.relation, trainer.arity, arrays, trainer.vocabulary, UNFITTED)
    proposals = trainer.proposals(trials, models, ranking.pools)
    return TrainedRelation(rankers, evidence, targets, shares, proposals, ranks)


def rank_validation_facts(
    graph: GaifmanGraph,
    query: Query,
    config: TrainingConfig,
    constraints: Constraints | None,
    tuples: Ints,
    known: Ints,
) -> dict[str, Floats]:
    """What can be hidden → the reciprocal ranks of validation facts (b, arity) if that is hidden in training.

    The known facts (k, arity), which include these, are no rivals, and neither are those of the knowledge base.
    """
    found = {}
    questions = min(MAX_QUESTIONS, listwise_config(config, build_steps(graph.kb)).questions)
    for choice in CHOICES:
        own = replace(config, hide=choice, options={**config.options, "questions": questions})
        trainer = ListwiseTrainer(TrainingExamples(graph, query, own, constraints), own)
        true = np.unique(np.concatenate([graph.kb.tuples(trainer.relation), known]), axis=0)
        found[choice] = reciprocal_ranks(trainer.scorer(trainer.train().rankers), tuples, true)
    return found


def fit_all_odds(trained: Iterable[TrainedRelation]) -> dict[str, Odds]:
    """Relation → its odds. Those with few facts share strength with all others of their arity."""
    relations = list(trained)
    found: dict[str, Odds] = {}
    for arity in sorted({one.rankers.arity for one in relations}):
        own = [one for one in relations if one.rankers.arity == arity]
        pooled = fit_odds(Proposals.concatenate([one.proposals for one in own], arity))
        found |= {one.rankers.relation: fit_odds(one.proposals, pooled) if len(own) > 1 else pooled for one in own}
    return found


def listwise_report(trained: Iterable[tuple[TrainedRelation, Odds]], corrected: bool) -> HeldOutReport:
    """The quality of probabilities on held-out facts, and of what is proposed."""
    pairs = list(trained)
    parts = [one.held_out(odds, corrected) for one, odds in pairs]
    shares = np.concatenate([np.zeros(0), *(np.zeros(0) if p.true_shares is None else p.true_shares for p in parts)])
    held_out = HeldOut(
        np.concatenate([np.zeros(0), *(part.means for part in parts)]),
        np.concatenate([np.zeros(0), *(part.targets for part in parts)]),
        shares if corrected else None,
    )
    proposed = [(np.zeros(0),) * 4]  # without a trained relation, nothing is proposed
    for one, odds in pairs:
        evidence, own = one.proposals.evidence, one.proposals
        proposed.append((odds.probabilities(evidence), mean_shares(evidence), own.targets, own.weights))
    p, raw, targets, weights = map(np.concatenate, zip(*proposed, strict=True))
    return HeldOutReport(held_out, _reliability(raw, targets, weights, raw), _reliability(p, targets, weights, p))


def _reliability(p: Floats, targets: Floats, weights: Floats, proposed: Floats) -> Reliability | None:
    rows = (proposed >= MIN_PROPOSED) & (weights > 0)
    return reliability(p[rows], targets[rows], weights[rows]) if rows.any() else None

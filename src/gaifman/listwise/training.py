"""Train the ranked lists of a relation, and measure them on its held-out facts.

>>> from gaifman.logic.ast import relation_query
>>> choose_base(TrainingConfig(), relation_query("capital", 2))
'listwise'
>>> choose_base(TrainingConfig(size=20), relation_query("capital", 2))
'mlp'
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from gaifman.errors import FormulaError, KnowledgeBaseError
from gaifman.io.model_file import Arrays, strip_prefix
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.kb.tables import Floats, Ints
from gaifman.listwise.expert import (
    BoundExpert,
    ExpertConfig,
    ExpertTrainer,
    PositionExpert,
    TrainedExpert,
    expert_relations,
)
from gaifman.listwise.expert_weights import choose_mixtures, held_out_losses
from gaifman.listwise.hide_choice import CHOICES, MAX_QUESTIONS, reciprocal_ranks
from gaifman.listwise.mining import NOTHING
from gaifman.listwise.odds import (
    MIN_SET_FACTS,
    Odds,
    OddsTable,
    Proposals,
    choose_rows,
    fit_odds,
    sample_by_score,
    sample_questions,
)
from gaifman.listwise.ranker import (
    ListwiseConfig,
    Ranker,
    Vocabulary,
    check_options,
    fit_with_trial,
    listwise_config,
    listwise_options,
    ranker_arrays,
    ranker_from_arrays,
)
from gaifman.listwise.scoring import RelationRankers, RelationScorer
from gaifman.listwise.steps import StepIndex, build_steps
from gaifman.logic.ast import Feature, Query
from gaifman.models.calibration import HeldOut, HeldOutReport, Reliability, missing_reliability
from gaifman.ranking.ranks import HeldOutRanking, HeldOutRanks
from gaifman.sampling.constraints import Constraints
from gaifman.sampling.examples import TrainingExamples, held_out_facts
from gaifman.sampling.hiding import HiddenFacts
from gaifman.sampling.rng import make_key
from gaifman.training import AUTO, LISTWISE, NETWORK_RADIUS, NETWORK_SIZE, Callback, TrainingConfig

NETWORK_SETS = ("paper", "universal-schema")
"""Feature sets that ask for the network if nothing else is given."""
MAX_PROPOSALS = 6_000
"""Candidates that the odds of one relation are fitted to."""
MAX_TOTAL_PROPOSALS = 200_000
"""Candidates of all relations together: half of them by the number of facts, since large relations propose more."""
MIN_PROPOSALS = 200
MAX_ASKED, MAX_TOTAL_ASKED = 6_000, 120_000
"""Questions whose candidates are proposed, of one relation and of all. Few of them have likely answers: with half as
many of each, one row of NL27k stood for 91 likely candidates, and the calibration error was .075."""
LIKELY_EXPONENT = 1.5
"""Of them, those are scored at all positions whose share to this power is large: what is probable matters most."""
BEST, OTHERS = 100, 8
"""Candidates of one question: those with the highest scores, and a sample of the others. With 20 and 4, a third of the
likely candidates of NL27k were not seen."""
MAX_MEASURED = 1_000
"""Held-out facts that the AUC is measured on."""
MAX_RANKED_TUPLES, MAX_TOTAL_TUPLES = 600_000, 40_000_000
"""Candidates that are ranked for the figures of one relation, and of all."""
MIN_PROPOSED = 0.05
"""The reliability is that of tuples that are proposed with at least this probability."""
UNFITTED = OddsTable.unfitted()
"""Before the odds are fitted."""


def choose_base(config: TrainingConfig, query: Query) -> str:
    """The base model for a query: ranked lists for a relation, the network for other queries.

    A named feature set by itself, a size of neighbourhoods or an option of the network ask for the network, unless
    ranked lists are named. Other feature sets are added to what ranked lists mine.
    """
    if config.base == LISTWISE:
        if query.atomic_relation is None:
            raise FormulaError(
                f"{query} is not one relation with its variables in order, which ranked lists need",
                hint='for other queries: base="mlp", or --base mlp',
            )
        check_options(config.options)
        return LISTWISE
    if config.base != AUTO:
        return config.base
    own = set(config.options) <= set(listwise_options())
    of_network = config.phi in NETWORK_SETS or config.size != AUTO or not own
    return "mlp" if of_network or query.atomic_relation is None else LISTWISE


def resolve_config(config: TrainingConfig, query: Query) -> TrainingConfig:
    """The settings with the base model, the size, the radius and what is hidden that `auto` stands for.

    The radius of ranked lists with a size stays `auto`: it depends on the length of paths.
    """
    base = choose_base(config, query)
    if config.expert != "none" and base != LISTWISE:
        raise KnowledgeBaseError(
            f"expert={config.expert} is given, and the base model is {base}: only ranked lists can have an expert",
            hint='base="listwise" (--base listwise), or leave out the expert',
        )
    size, radius = config.size, config.radius
    if size == AUTO:
        size = None if base == LISTWISE else NETWORK_SIZE
    if radius == AUTO and (base != LISTWISE or size is None):
        radius = NETWORK_RADIUS
    return replace(config, base=base, size=size, radius=radius, hide="facts" if config.hide == AUTO else config.hide)


def check_validation(config: TrainingConfig, query: Query) -> None:
    """Raise an error if validation facts have nothing to choose with these settings."""
    if choose_base(config, query) != LISTWISE:
        raise KnowledgeBaseError(
            "validation facts choose what ranked lists hide, and the model is a network",
            hint='leave out the validation facts, or choose ranked lists: base="listwise", or --base listwise',
        )
    if config.hide != AUTO:
        raise KnowledgeBaseError(
            f"hide={config.hide} is given: validation facts have nothing to choose",
            hint="leave out one of the two",
        )


def check_base(config: TrainingConfig, query: Query) -> None:
    """Raise an error for a base model that does not exist, or options that it does not have."""
    resolved = resolve_config(config, query)
    if resolved.base == LISTWISE:
        listwise_config(resolved)
    else:
        resolved.make_base_model()


def expert_config(config: TrainingConfig) -> ExpertConfig:
    """The settings of the expert, from those of training."""
    names = {each.name for each in fields(ExpertConfig)}
    own = {name: value for name, value in config.options.items() if name in names}
    return ExpertConfig(**own, seed=config.seed)


def settings_for(config: TrainingConfig, kbs: int) -> TrainingConfig:
    """The settings for a number of knowledge bases: in several, no formula names an object.

    >>> settings_for(TrainingConfig(base="listwise"), 2).options
    {'max_constants': 0}
    """
    if kbs == 1 or config.base != LISTWISE:
        return config
    return replace(config, options={**config.options, "max_constants": 0})


@dataclass(frozen=True, slots=True)
class TrainedRankers:
    """What training gives."""

    rankers: tuple[Ranker, ...]
    """Fitted to all facts."""
    trials: tuple[Ranker, ...]
    """Fitted without the held-out facts: these are measured."""

    def scaled(self, scales: Sequence[float]) -> TrainedRankers:
        """The rankers whose scores are multiplied by the scale of their position."""
        parts = (
            [one.scaled(scale) for one, scale in zip(own, scales, strict=True)] for own in (self.rankers, self.trials)
        )
        return TrainedRankers(*map(tuple, parts))

    def arrays(self, index: StepIndex) -> Arrays:
        """All rankers as arrays, for a run."""
        return {
            f"{position}/{kind}/{name}": array
            for position, pair in enumerate(zip(self.rankers, self.trials, strict=True))
            for kind, ranker in zip(("final", "trial"), pair, strict=True)
            for name, array in ranker_arrays(ranker, index).items()
        }


class ListwiseTrainer:
    """Trains the rankers of one relation."""

    def __init__(self, examples: TrainingExamples, config: TrainingConfig, formulas: Sequence[Feature] = ()) -> None:
        """`formulas` are added to the mined ones."""
        relation = examples.query.atomic_relation
        assert relation is not None, "ranked lists are for relations"
        self.examples, self.config, self.relation = examples, config, relation
        self.index: StepIndex = build_steps(examples.kb)
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
        finals, trials = ([pair[kind] for pair in done] for kind in range(2))
        return TrainedRankers(tuple(finals), tuple(trials)).arrays(self.index), {"position": [len(done), 0]}

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> TrainedRankers:
        """The rankers of all positions from `TrainedRankers.arrays`."""
        finals, trials = zip(*self._restore((arrays, {"position": [self.arity, 0]})), strict=True)
        return TrainedRankers(finals, trials)

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

    def scorer(
        self, rankers: Sequence[Ranker], experts: Sequence[PositionExpert | None] | None = None
    ) -> RelationScorer:
        """The scorer of some rankers, and experts of their positions, on the training facts."""
        return RelationScorer(self.index, rankers, self.settings, experts=experts)

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

    def proposals(
        self, trials: RelationScorer, rankers: RelationScorer, models: int, pools: Sequence[Ints]
    ) -> Proposals:
        """Held-out facts, each hidden as if the knowledge base missed it, and candidates of questions as they stand.

        Trials tell what a missing fact looks like; the rankers, which have seen all facts, what is proposed.
        `pools` has the objects that can be proposed at each position.
        """
        count = max(MIN_PROPOSALS, min(MAX_PROPOSALS, self._part_of(MAX_TOTAL_PROPOSALS, models)))
        questions = max(1, min(MAX_ASKED, self._part_of(MAX_TOTAL_ASKED, models)) // self.arity)
        each = -(-count // self.arity)
        found = [self._candidates(rankers, position, pools, questions, each) for position in range(self.arity)]
        return Proposals.concatenate([self._hidden_facts(trials, count), *found, *self._rejected(rankers)], self.arity)

    def _rejected(self, rankers: RelationScorer) -> Iterator[Proposals]:
        """Candidates that a person rejected: each is a false fact that was looked at, as a held-out fact is a true one.

        They are also among the candidates of questions, whose truth is not known.
        """
        tuples = self.examples.rejected
        if len(tuples):
            nothing = HiddenFacts.one_per_tuple(np.full(len(tuples), -1, np.int64))
            yield Proposals(rankers.evidence(tuples, nothing), np.zeros(len(tuples)), np.ones(len(tuples)))

    def _part_of(self, total: int, models: int) -> int:
        """The part of this relation: half of the total in equal parts, the other half by the number of facts."""
        share = len(self.examples.answers) / max(len(self.examples.kb), 1)
        return round(total * (1 / max(models, 1) + share) / 2)

    def _hidden_facts(self, trials: RelationScorer, count: int) -> Proposals:
        """Held-out facts; together they stand for all facts of the relation.

        If links are hidden, the knowledge base is taken to miss only facts between objects without another link.
        """
        answers, held_out, total = self.examples.answers, self.examples.held_out_rows, 1.0
        if self.config.hide == "links":
            unlinked = self.index.unlinked
            own = unlinked[self.index.kb.fact_ids(self.index.kb.content.relations.find(self.relation) or 0, answers)]
            held_out, total = held_out[own[held_out]], float(own.mean() / max(unlinked.mean(), 1e-9))
        key = make_key(self.config.seed, "propose hidden")
        rows = choose_rows(held_out, answers, count, key)
        block = self.examples.held_out_block(negatives=0, rows=rows)
        facts = np.full(len(rows), total * len(answers) / max(len(rows), 1))
        certainty = float(self.index.kb.confidences_of(self.relation).mean()) if len(answers) else 1.0
        return Proposals(trials.evidence(block.answers, block.hidden), facts, np.zeros(len(rows)), certainty)

    def _candidates(
        self, rankers: RelationScorer, position: int, pools: Sequence[Ints], questions: int, count: int
    ) -> Proposals:
        """About `count` candidates of some questions, rather those with large shares. No known answer is one."""
        fixed = [i for i in range(self.arity) if i != position]
        if len(fixed) == 1:
            asked = np.zeros((len(pools[fixed[0]]), 2), np.int32)
            asked[:, fixed[0]] = pools[fixed[0]]
        else:
            asked = np.unique(np.delete(self.examples.answers, position, axis=1), axis=0).astype(np.int32)
            asked = np.insert(asked, position, 0, axis=1)
        key = make_key(self.config.seed, "propose", position)
        rows, of_questions = sample_questions(asked, self.examples.answers, position, questions, key)
        listed = [self._propose(rankers, asked[row], position, pools[position]) for row in rows.tolist()]
        tuples, shares, weights = (np.concatenate(parts) for parts in zip(*listed, strict=True))
        weights = weights * np.repeat(of_questions, [len(shares) for _, shares, _ in listed])
        key = make_key(self.config.seed, "propose candidates", position)
        chosen, stand_for = sample_by_score(shares + np.log(weights) / LIKELY_EXPONENT, count, key, LIKELY_EXPONENT)
        masses = weights[chosen] * stand_for / self.arity
        nothing = HiddenFacts.one_per_tuple(np.full(len(chosen), -1, np.int64))
        return Proposals(rankers.evidence(tuples[chosen], nothing), np.zeros(len(chosen)), masses)

    def _propose(
        self, rankers: RelationScorer, question: Ints, position: int, pool: Ints
    ) -> tuple[Ints, Floats, Floats]:
        """The best candidates of a question and some others, their log shares, and how many each stands for."""
        scores = rankers.scorers[position].scores(question.tolist())
        scores[rankers.known_answers(question.tolist(), NOTHING, position)] = -np.inf
        possible = pool[np.isfinite(scores[pool])]
        top = float(scores.max(initial=-np.inf))
        own = scores[possible] - top - float(np.log(np.exp(scores - top).sum()))
        best = np.argpartition(-own, BEST)[:BEST] if len(own) > BEST else np.arange(len(own))
        best = best[np.lexsort((possible[best], -own[best]))]
        rest = np.setdiff1d(np.arange(len(own)), best, assume_unique=True)
        key = make_key(self.config.seed, "propose others", position, *question.tolist())
        others, stand_for = sample_by_score(own[rest], OTHERS, key)
        chosen = np.append(best, rest[others])
        tuples = np.tile(question, (len(chosen), 1)).astype(np.int32)
        tuples[:, position] = possible[chosen]
        return tuples, own[chosen], np.append(np.ones(len(best)), stand_for)


def mean_shares(evidence: Floats) -> Floats:
    """Shape (tuples,), float64: the geometric mean of the shares over the positions."""
    shares: Floats = np.exp(evidence[:, : evidence.shape[1] // 2].mean(axis=1))
    return shares


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
            "proposed/facts": self.proposals.facts,
            "proposed/candidates": self.proposals.candidates,
            "proposed/certainty": np.array(self.proposals.certainty),
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
            Proposals(
                arrays["proposed/evidence"],
                arrays["proposed/facts"],
                arrays["proposed/candidates"],
                float(arrays["proposed/certainty"]),
            ),
            HeldOutRanks(arrays["held/ranks"], int(arrays["held/ranked"]), arrays["held/available"]),
        )


@dataclass(frozen=True, slots=True)
class WeightedExpert:
    """The expert, its trial, and how they are mixed with the rankers of one relation."""

    trial: BoundExpert
    final: BoundExpert
    mixtures: Floats
    """Shape (positions, 2), float64: the scale of the ranker's scores, and the weight of the expert's."""


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
    return measure_relation(trainer, trainer.train(callback), models)


def measure_relation(
    trainer: ListwiseTrainer, trained: TrainedRankers, models: int = 1, weighted: WeightedExpert | None = None
) -> TrainedRelation:
    """Measure rankers, and the expert with its weights, by their trials on held-out facts."""
    examples = trainer.examples
    experts, trial_experts = None, None
    if weighted is not None:
        scales, weights = weighted.mixtures.T.tolist()
        experts = weighted.final.of_relation(trainer.relation, weights)
        trial_experts = weighted.trial.of_relation(trainer.relation, weights)
        trained = trained.scaled(scales)
    trials = trainer.scorer(trained.trials, trial_experts)

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
    if weighted is not None:
        arrays["expert_weights"] = weighted.mixtures[:, 1].copy()
    rankers = RelationRankers(trainer.relation, trainer.arity, arrays, trainer.vocabulary, UNFITTED)
    proposals = trainer.proposals(trials, trainer.scorer(trained.rankers, experts), models, ranking.pools)
    return TrainedRelation(rankers, evidence, targets, shares, proposals, ranks)


def train_expert(
    kb: KnowledgeBase, config: TrainingConfig, callback: Callback | None = None, threads: int = 1
) -> TrainedExpert | None:
    """Train the expert of a knowledge base; None if there is nothing that it can learn."""
    relations = expert_relations(kb)
    if not relations:
        return None
    held_out = {name: held_out_facts(kb.tuples(name), config) for name in relations}
    return ExpertTrainer(kb, held_out, expert_config(config)).train(callback, threads)


def check_expert_kbs(config: TrainingConfig, kbs: int) -> None:
    """Refuse an expert for several knowledge bases: their objects are different, even if they have the same name."""
    if config.expert != "none" and kbs > 1:
        raise KnowledgeBaseError(
            f"an expert remembers the objects of one knowledge base, and {kbs:,} are given",
            hint='leave out the expert: expert="none", or --expert none',
        )


def fit_beside_expert(trainer: ListwiseTrainer, trial: BoundExpert, callback: Callback | None = None) -> Arrays:
    """The rankers of a relation as arrays, and as `losses` what `choose_mixtures` needs of them."""
    trained = trainer.train(callback)
    experts = trial.of_relation(trainer.relation, [1.0] * trainer.arity)
    losses = held_out_losses(trainer.scorer(trained.trials), experts, trainer.examples)
    return trained.arrays(trainer.index) | {"losses": losses}


def train_beside_expert(
    trainer: ListwiseTrainer, expert: TrainedExpert, callback: Callback | None = None
) -> TrainedRelation:
    """Train the ranked lists of one relation beside an expert."""
    trial = expert.trial.bind(trainer.examples.kb)
    fitted = fit_beside_expert(trainer, trial, callback)
    mixtures = choose_mixtures({trainer.relation: fitted["losses"]})[trainer.relation]
    return measure_relation(
        trainer,
        trainer.restore(fitted),
        weighted=WeightedExpert(trial, expert.final.bind(trainer.examples.kb), mixtures),
    )


def rank_validation_facts(
    kb: KnowledgeBase,
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
    questions = min(MAX_QUESTIONS, listwise_config(config, build_steps(kb)).questions)
    for choice in CHOICES:
        own = replace(config, hide=choice, options={**config.options, "questions": questions})
        trainer = ListwiseTrainer(TrainingExamples(kb, query, own, constraints), own)
        true = np.unique(np.concatenate([kb.tuples(trainer.relation), known]), axis=0)
        found[choice] = reciprocal_ranks(trainer.scorer(trainer.train().rankers), tuples, true)
    return found


def fit_all_odds(proposals: Mapping[str, Proposals]) -> dict[str, OddsTable]:
    """Relation → its odds. Those with few facts share strength with all others of their arity."""
    found: dict[str, OddsTable] = {}
    for arity in sorted({own.arity for own in proposals.values()}):
        relations = {name: own for name, own in proposals.items() if own.arity == arity}
        together = Proposals.concatenate([*relations.values()], arity)
        pooled, similar = fit_odds(together), _by_kind([*relations.values()], together)
        for name, own in relations.items():
            table = fit_odds(own, pooled, similar[own.kind]) if len(relations) > 1 else pooled
            found[name] = table.limited(together.held_out)
    return found


def _by_kind(parts: Sequence[Proposals], together: Proposals) -> dict[tuple[bool, ...], Proposals]:
    """Kind of relation → the proposals of that kind, or of all relations if these are too few."""
    kinds = {kind: [own for own in parts if own.kind == kind] for kind in {own.kind for own in parts}}
    found = {kind: Proposals.concatenate(own, together.arity) for kind, own in kinds.items()}
    return {kind: own if own.held_out >= MIN_SET_FACTS else together for kind, own in found.items()}


def listwise_report(trained: Sequence[TrainedRelation], config: TrainingConfig) -> HeldOutReport:
    """The quality of probabilities on held-out facts, and of what is proposed."""
    missing = config.assumed_missing
    parts = [one.held_out(one.rankers.odds.at(missing), bool(config.missing)) for one in trained]
    shares = np.concatenate([np.zeros(0), *(np.zeros(0) if p.true_shares is None else p.true_shares for p in parts)])
    held_out = HeldOut(
        np.concatenate([np.zeros(0), *(part.means for part in parts)]),
        np.concatenate([np.zeros(0), *(part.targets for part in parts)]),
        shares if config.missing else None,
    )
    raw, p, facts, candidates = _cross_fit({one.rankers.relation: one.proposals for one in trained}, missing)
    return HeldOutReport(held_out, _reliability(raw, raw, facts, candidates), _reliability(p, p, facts, candidates))


def _cross_fit(proposals: Mapping[str, Proposals], missing: float) -> tuple[Floats, Floats, Floats, Floats]:
    """What is proposed: raw scores, probabilities by odds that are fitted to the other half, facts, and candidates."""
    halves = {name: [*own.halves()] for name, own in proposals.items()}
    found = [(np.zeros(0),) * 4]
    for number in range(2):
        odds = fit_all_odds({name: own[number][0] for name, own in halves.items()})
        for name, own in halves.items():
            half = own[number][1]
            p = odds[name].at(missing).probabilities(half.evidence)
            facts = missing / (1 - missing) * half.certainty * half.facts
            found.append((mean_shares(half.evidence), p, facts, half.candidates))
    raw, p, facts, candidates = map(np.concatenate, zip(*found, strict=True))
    return raw, p, facts, candidates


def _reliability(p: Floats, proposed: Floats, facts: Floats, candidates: Floats) -> Reliability | None:
    rows = proposed >= MIN_PROPOSED
    return missing_reliability(p[rows], facts[rows], candidates[rows]) if candidates[rows].any() else None

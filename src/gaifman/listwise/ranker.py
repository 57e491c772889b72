"""A ranker scores every object at one position of a relation's facts, given the objects at the others.

The score of a candidate is a sum of weights times values: of the formulas that lead from the fixed objects to it, of
its marks (its types, and the positions at which it occurs), and of statistics (how often it is at this position).
Weights can be negative. They are fitted so that the softmax over all candidates is high for known answers, each scored
as if its fact were not known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, fields, replace
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gaifman.config import HIDE_MODES, MAX_ARITY, check_choice, check_fraction, check_int, check_positive
from gaifman.errors import InputError, KnowledgeBaseError, shorten, similar_names
from gaifman.io.model_file import Arrays, require_array
from gaifman.kb.gaifman_graph import graph_of
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.kb.tables import Floats, Ints, Longs, concatenate_ranges, freeze, row_ids
from gaifman.kernels.listwise import (
    Marks,
    Profiles,
    Questions,
    adagrad,
    answer_scores,
    batch_gradient,
    own_gradient,
    own_scores,
)
from gaifman.kernels.walks import FEW
from gaifman.listwise.added import NO_ENTRIES, AddedFormulas, Entries, check_formulas
from gaifman.listwise.expert import ExpertConfig
from gaifman.listwise.mining import (
    LINKS,
    SPARSE_MINING,
    MinedFormulas,
    MiningConfig,
    Reacher,
    WalkBound,
    choose_mining,
    comparisons_from_arrays,
    constants_from_arrays,
    formula_values,
    mine_formulas,
)
from gaifman.listwise.steps import Label, StepIndex, labels_of, number_mark_sets
from gaifman.logic.ast import Atom, Attribute, Feature, free_relation_variables, walk
from gaifman.logic.parser import parse_feature
from gaifman.sampling.examples import hide_links
from gaifman.sampling.hiding import HiddenFacts
from gaifman.sampling.rng import fold_in, fold_in_rows, make_key
from gaifman.training import TrainingConfig

STATISTICS = ("log(1 + facts at this position)", "seen at this position", "log(1 + steps)")
INITIAL_STATISTICS = (1.0, 2.0, 0.0)
"""Weights to begin with: the most frequent object first."""
PRIOR_STRENGTH, DIRECT_PRIOR_STRENGTH = 0.3, 1.5
"""The prior weight of a path with confidence c is −log(1 − c) times this, of one step times the second number: an
inverse or a duplicate must not wait for its weight. Chosen on validation facts of FB15k and WN18."""
PENALTIES = (0.01, 0.001, 0.1)
"""Penalties to choose from on held-out questions. Formulas are chosen with the first."""
DEFAULT_PENALTY, DEFAULT_UPDATES = 0.001, 100
"""Without enough questions to hold some out: the penalty, and the number of updates that epochs add up to."""
PATIENCE = 3
"""Epochs without a smaller loss before no more are tried."""
MIN_BATCHES, MANY_BATCHES, SMALL_BATCH = 8, 64, 16
"""Batches of an epoch, at least; and at least, if they have more than `SMALL_BATCH` questions."""

MIN_LINKED = 0.2
"""There are blind questions if another fact links at least this share of all answers with the fixed object."""
DIRECT_SCALES = (1.0, 1.25, 1.5, 2.0, 3.0)
"""Blind questions make all other formulas heavier. What an inverse says must still outweigh them."""
SHORT_STEPS = 2
"""Longer paths are used where they make the loss on held-out questions smaller. With too few of these to tell, they
are used if there are no others."""

Bools = npt.NDArray[np.bool_]
NO_OBJECTS = freeze(np.zeros(0, np.int32))


@dataclass(frozen=True, slots=True)
class ListwiseConfig:
    """How rankers are mined and fitted."""

    mining: MiningConfig = field(default_factory=MiningConfig)
    bound: WalkBound | None = None
    """The members that walks pass through; None for all objects."""
    hide: str = "facts"
    """What a question does not see: the fact that it asks for, or also all other `links` between its objects."""
    questions: int = 2_000
    """Questions per relation and position."""
    answers_per_question: int = 5
    """Answers of one question that are asked for."""
    max_entries: int = 30_000_000
    """Values of formulas in memory: with more, there are fewer questions."""
    epochs: int = 10
    """Largest number of epochs; the best number is chosen on held-out questions."""
    batch_size: int = 32
    rate: float = 0.1
    fact_dropout: float = 0.2
    """Share of the facts of the fixed objects with others than the answer that a question does not see in training: a
    knowledge base that misses facts misses several. Otherwise what is missing is found by elimination. Chosen on
    validation facts."""
    blind_share: float = 0.0
    """Share of the questions that are asked a second time among the objects that no fact links with the fixed one, if
    most facts have an inverse or a duplicate: otherwise few questions need other formulas, whose weights stay small."""
    holdout: float = 0.15
    """Share of the facts that penalty, epochs and lengths of paths are chosen on."""
    max_held_out: int = 300
    """Largest number of these facts."""
    min_held_out: int = 10
    """Held-out facts of a small relation, at most a third of them; with fewer questions, nothing is chosen."""
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("questions", "answers_per_question", "max_entries", "epochs", "batch_size", "min_held_out"):
            check_int(name, getattr(self, name), 1)
        check_int("max_held_out", self.max_held_out, 0)
        check_positive("rate", self.rate)
        check_fraction("fact_dropout", self.fact_dropout, one=False)
        check_fraction("blind_share", self.blind_share)
        check_choice("hide", self.hide, HIDE_MODES)


_SHARED = ("seed", "hide", "holdout", "max_held_out", "mining", "bound")
"""Settings of training, not options of the base model."""
SPARSE_CONFIG = ListwiseConfig(SPARSE_MINING, questions=4_000, answers_per_question=1_000, blind_share=0.3)
"""For sparse knowledge bases: there are few other answers to a question, and more questions help. On validation facts
of WN18 blind questions help; on those of FB15k they do not."""


def listwise_options() -> list[str]:
    """The options of ranked lists."""
    kinds = MiningConfig, ListwiseConfig, ExpertConfig
    return [each.name for kind in kinds for each in fields(kind) if each.name not in _SHARED]


def listwise_config(config: TrainingConfig, index: StepIndex | None = None) -> ListwiseConfig:
    """The settings of ranked lists, from those of training. Defaults depend on the knowledge base."""
    check_options(config.options)
    sparse = index is not None and choose_mining(index) is SPARSE_MINING
    default = SPARSE_CONFIG if sparse else ListwiseConfig()
    mining = {each.name for each in fields(MiningConfig)}
    expert = {each.name for each in fields(ExpertConfig)}
    own = {name: value for name, value in config.options.items() if name not in mining | expert}
    of_mining = {name: value for name, value in config.options.items() if name in mining}
    mining_config = replace(default.mining, seed=config.seed, **of_mining)
    return replace(default, mining=mining_config, bound=walk_bound(config), hide=config.hide, seed=config.seed, **own)


def walk_bound(config: TrainingConfig) -> WalkBound | None:
    """The members that walks pass through; None without a size."""
    if not isinstance(config.size, int):
        return None
    radius = None if isinstance(config.radius, str) else config.radius
    return WalkBound(config.size, config.draws, radius, config.seed)


def check_options(options: Mapping[str, Any]) -> None:
    """Raise an error for an option that ranked lists do not have."""
    known = listwise_options()
    for option in options:
        if option not in known:
            raise KnowledgeBaseError(
                f"ranked lists have no option {option}",
                suggestions=similar_names(option, known),
                hint=f'options: {", ".join(known)}; those of the network need base="mlp", or --base mlp',
            )


@dataclass(frozen=True, slots=True)
class Ranker:
    """A fitted ranker of one relation and position."""

    relation: str
    position: int
    mined: tuple[MinedFormulas, ...]
    """The formulas from each of the other positions, in their order."""
    formula_weights: Floats
    """Shape (formulas,), float64: for each fixed position of the paths, of `LINKS`, of formulas with constants, and of
    comparisons."""
    mark_weights: Floats
    """Shape (marks,), float64."""
    statistic_weights: Floats
    """Shape (3,), float64: of `STATISTICS`."""
    penalty: float
    epochs: int
    held_out_loss: float | None
    """Mean loss in nats on held-out questions; None if there were too few."""
    added: AddedFormulas | None
    """None if the model has none."""
    added_weights: Floats
    """Shape (added formulas,), float64."""

    def scaled(self, scale: float) -> Ranker:
        """The ranker whose scores are multiplied by a scale."""
        return replace(
            self,
            formula_weights=self.formula_weights * scale,
            mark_weights=self.mark_weights * scale,
            statistic_weights=self.statistic_weights * scale,
            added_weights=self.added_weights * scale,
        )

    @property
    def first_added(self) -> int:
        """The number of the first added formula: after the mined ones."""
        return len(self.formula_weights)

    @property
    def own_weights(self) -> Floats:
        """Shape (marks + added formulas about the candidate alone,), float64."""
        if self.added is None:
            return self.mark_weights
        return np.concatenate([self.mark_weights, self.added_weights[self.added.own]])


def fit_ranker(
    index: StepIndex,
    relation: str,
    position: int,
    config: ListwiseConfig | None = None,
    formulas: Sequence[Feature] = (),
) -> Ranker:
    """Mine formulas, add others, and fit their weights."""
    return fit_with_trial(index, relation, position, config, formulas=formulas)[0]


def fit_with_trial(
    index: StepIndex,
    relation: str,
    position: int,
    config: ListwiseConfig | None = None,
    held_out: Longs | None = None,
    formulas: Sequence[Feature] = (),
) -> tuple[Ranker, Ranker]:
    """Mine formulas and fit their weights to all questions, and to those that do not ask for held-out facts.

    `held_out` are rows of the relation's facts; None for some of them, by key. `formulas` are added to the mined ones.
    """
    config = config or ListwiseConfig()
    held_out = held_out_rows(index.kb, relation, config) if held_out is None else held_out
    added = AddedFormulas(index, index.kb.relations[relation].arity, position, formulas) if formulas else None
    problem, (loss, penalty, epochs, trial) = _choose_problem(index, relation, position, config, held_out, added)
    mined = problem.mined
    final, trial = problem.fit(penalty, epochs), trial or problem.fit_trial(penalty, epochs)
    if loss is not None and problem.has_blind:
        scale = problem.choose_scale(trial)
        final, trial = problem.scale_direct(final, scale), problem.scale_direct(trial, scale)

    def ranker(weights: Weights) -> Ranker:
        of_mined, of_added = np.split(weights[0], [sum(map(len, mined))])
        marks = weights[1][: index.mark_count]
        return Ranker(relation, position, mined, of_mined, marks, weights[2], penalty, epochs, loss, added, of_added)

    return ranker(final), ranker(trial)


def _choose_problem(
    index: StepIndex, relation: str, position: int, config: ListwiseConfig, held_out: Longs, added: AddedFormulas | None
) -> tuple[_Problem, Choice]:
    """The formulas with the smallest loss on held-out questions: with or without long paths, constants, comparisons."""
    fixed = [i for i in range(index.kb.relations[relation].arity) if i != position]

    def pose(mining: MiningConfig) -> tuple[_Problem, Choice]:
        mined = tuple(mine_formulas(index, relation, i, position, mining, held_out) for i in fixed)
        problem = _Problem(index, relation, position, mined, config, held_out, added)
        return problem, problem.without(MinedFormulas.without_comparisons).choose(PENALTIES[:1])

    problem, choice = _choose_constants(*_choose_steps(config.mining, pose))
    problem, choice = _choose_comparisons(problem, choice)
    if choice.loss is not None:
        choice = min(choice, problem.choose(PENALTIES[1:]), key=_loss_of)
    return problem, choice


def _choose_steps(
    config: MiningConfig, pose: Callable[[MiningConfig], tuple[_Problem, Choice]]
) -> tuple[_Problem, Choice]:
    """The problem with long paths, if these make the loss on held-out questions smaller, or else with short ones."""
    if config.max_steps <= SHORT_STEPS:
        return pose(config)
    short = pose(replace(config, max_steps=SHORT_STEPS))
    if short[1].loss is None and any(len(one.paths) for one in short[0].mined):
        return short
    found = pose(config)
    return found if _loss_of(found[1]) <= _loss_of(short[1]) else short


def _choose_constants(problem: _Problem, choice: Choice) -> tuple[_Problem, Choice]:
    """The problem with its formulas with constants, if these make the loss on held-out questions smaller.

    All losses but the last are those without comparisons, which have many values.
    """
    without = problem.without(MinedFormulas.without_constants)
    if without is problem:
        return problem, choice
    if choice.loss is None:
        return without, choice
    own = without.without(MinedFormulas.without_comparisons).choose(PENALTIES[:1])
    return (problem, choice) if _loss_of(choice) < _loss_of(own) else (without, own)


def _choose_comparisons(problem: _Problem, choice: Choice) -> tuple[_Problem, Choice]:
    """The problem with its comparisons, if these make the loss on held-out questions smaller."""
    without = problem.without(MinedFormulas.without_comparisons)
    if without is problem or choice.loss is None:
        return without, choice
    own = problem.choose(PENALTIES[:1])
    return (problem, own) if _loss_of(own) < _loss_of(choice) else (without, choice)


def _loss_of(choice: Choice) -> float:
    return np.inf if choice.loss is None else choice.loss


def held_out_rows(kb: KnowledgeBase, relation: str, config: ListwiseConfig) -> Longs:
    """The rows of the facts that are held out of trials, ascending: the same for every position."""
    facts = kb.tuples(relation)
    least = min(config.min_held_out, len(facts) // 3)
    count = min(max(round(config.holdout * len(facts)), least), config.max_held_out)
    keys = fold_in_rows(make_key(config.seed, "hold out", relation), facts)
    rows: Longs = np.sort(np.argsort(keys, kind="stable")[:count])
    return rows


def statistics(facts: Floats, steps: Floats) -> Floats:
    """Shape (objects, 3), float64: see `STATISTICS`. Numbers below 1 are expected numbers of uncertain facts."""
    facts = np.maximum(facts, 0.0)
    return np.stack([np.log1p(facts), np.minimum(facts, 1.0), np.log1p(np.maximum(steps, 0))], axis=1)


def prior_weights(mined: MinedFormulas) -> Floats:
    """Shape (formulas,), float64: the weights before training: of paths from confidences, of all others 0."""
    found, paths = np.zeros(len(mined)), slice(len(mined.paths))
    strength = np.where(mined.direct[paths], DIRECT_PRIOR_STRENGTH, PRIOR_STRENGTH)
    found[paths] = strength * -np.log1p(-np.minimum(mined.confidence, 0.99))
    return found


LeaveOut = Callable[[MinedFormulas], tuple[MinedFormulas, Bools]]
"""The formulas without those of one kind, and which ones are left: (formulas,), bool."""
Weights = tuple[Floats, Floats, Floats]
"""Of formulas, marks and statistics."""


class Choice(NamedTuple):
    """How a problem is fitted."""

    loss: float | None
    """On held-out questions; None if there were too few."""
    penalty: float
    epochs: int
    weights: Weights | None
    """Fitted to the other questions."""


class _Problem:
    """The questions of one relation and position, and what formulas reach from them."""

    def __init__(
        self,
        index: StepIndex,
        relation: str,
        position: int,
        mined: tuple[MinedFormulas, ...],
        config: ListwiseConfig,
        held_out: Longs,
        added: AddedFormulas | None,
    ) -> None:
        self.mined, self._config = mined, config
        marks, mark_sets, added_count, own_added = index.marks, index.mark_sets, 0, np.zeros(0, np.int64)
        if added is not None:
            marks, added_count, own_added = added.marks(), len(added), added.own
            mark_sets = number_mark_sets(marks)
        self._mark_count = index.mark_count + len(own_added)
        facts = index.kb.tuples(relation)
        number = index.kb.content.relations.find(relation) or 0
        ids = index.kb.fact_ids(number, facts)
        asked = _ask(index, position, facts, ids, mined, config, held_out, added)
        self._questions, self._trial_questions, self._blind, chosen = asked[:-1]
        self._held_out = np.isin(chosen, held_out)
        answers, confidences = facts[chosen, position], index.kb.confidences_of(relation)
        at_position = count_at_position(index.kb, relation, position)
        self._profiles = group_profiles(marks, mark_sets, at_position, index.degrees)
        self._answer_kinds = freeze(self._profiles.of[answers])
        hidden_steps = np.array(
            [index.hidden_steps(*each) for each in zip(answers.tolist(), asked.unseen, strict=True)]
        )
        left = at_position[answers] - confidences[chosen], index.degrees[answers] - hidden_steps
        self._answer_stats = freeze(statistics(*left))
        self._changes = _mark_changes(index, answers, asked.unseen)
        of_mined = np.concatenate([np.zeros(0), *(prior_weights(one) for one in mined)])
        self.prior = np.append(of_mined, np.zeros(added_count))
        """Shape (formulas,), float64: the weights before training, of mined and added formulas."""
        self._tied = np.arange(index.mark_count, self._mark_count), len(of_mined) + own_added
        own_keys, blind_keys = (
            fold_in_rows(make_key(config.seed, purpose, relation, position), facts[chosen])
            for purpose in ("listwise", "listwise blind")
        )
        self._keys = np.where(self._blind, blind_keys, own_keys)

    def __len__(self) -> int:
        return len(self._questions.answers)

    @property
    def _batch_size(self) -> int:
        few, many = min(SMALL_BATCH, len(self) // MIN_BATCHES), len(self) // MANY_BATCHES
        return min(self._config.batch_size, max(1, few, many))

    @property
    def training_rows(self) -> Longs:
        """The questions that do not ask for a held-out fact."""
        return np.flatnonzero(~self._held_out)

    def without(self, leave_out: LeaveOut) -> _Problem:
        """The same questions without the mined formulas of one kind."""
        other, questions = copy(self), self._questions
        left = [leave_out(one) for one in self.mined]
        other.mined = tuple(one for one, _ in left)
        added = np.ones(len(self.prior) - sum(map(len, self.mined)), bool)
        used = np.concatenate([*(own for _, own in left), added])
        if used.all():
            return self
        kept, numbers = used[questions.formulas], np.cumsum(used) - 1
        starts = np.append(0, np.cumsum(kept))[questions.starts]
        other._questions = questions._replace(
            starts=freeze(starts.astype(np.int64)),
            objects=freeze(questions.objects[kept]),
            formulas=freeze(numbers[questions.formulas[kept]].astype(np.int32)),
            values=freeze(questions.values[kept]),
        )
        trial = self._trial_questions
        other._trial_questions = other._questions._replace(known_starts=trial.known_starts, known=trial.known)
        other.prior, other._tied = self.prior[used], (self._tied[0], numbers[self._tied[1]])
        return other

    def choose(self, penalties: Sequence[float]) -> Choice:
        """The penalty and the number of epochs with the smallest loss on held-out questions."""
        held_out, rest = np.flatnonzero(self._held_out & ~self._blind), self.training_rows
        blind, count = np.flatnonzero(self._held_out & self._blind), len(held_out)
        if count < self._config.min_held_out or not len(rest):
            return Choice(None, DEFAULT_PENALTY, -(-DEFAULT_UPDATES // -(-len(self) // self._batch_size)), None)
        best = Choice(np.inf, penalties[0], 1, None)
        for penalty in penalties:
            least, epochs = np.inf, 0
            epochs_of_trial = self._epochs(rest, penalty, self._config.epochs, self._trial_questions)
            for epoch, weights in enumerate(epochs_of_trial, start=1):
                loss = self._loss(held_out, weights) / count
                if len(blind):
                    loss = (loss + self._loss(blind, weights) / len(blind)) / 2
                if loss < least:
                    least, epochs = loss, epoch
                    if loss < _loss_of(best):
                        best = Choice(loss, penalty, epoch, _copy(weights))
                if epoch - epochs >= PATIENCE:
                    break
        return best

    @property
    def has_blind(self) -> bool:
        """Whether some questions are blind."""
        return bool(self._blind.any())

    @property
    def _direct(self) -> Bools:
        """Shape (formulas,): which formulas say that a fact has both objects."""
        rest = np.zeros(len(self.prior) - sum(map(len, self.mined)), bool)
        return np.concatenate([*(one.direct for one in self.mined), rest])

    def scale_direct(self, weights: Weights, scale: float) -> Weights:
        """The weights, those of formulas that say that a fact has both objects multiplied by a scale."""
        return np.where(self._direct, scale, 1.0) * weights[0], *weights[1:]

    def choose_scale(self, weights: Weights) -> float:
        """The scale of direct formulas with the smallest loss on held-out questions that are not blind."""
        rows = np.flatnonzero(self._held_out & ~self._blind)
        return min(DIRECT_SCALES, key=lambda scale: self._loss(rows, self.scale_direct(weights, scale)))

    def fit(self, penalty: float, epochs: int) -> Weights:
        """The weights after some epochs over all questions."""
        *_, weights = self._epochs(np.arange(len(self)), penalty, epochs, self._questions)
        return _copy(weights)

    def fit_trial(self, penalty: float, epochs: int) -> Weights:
        """The weights after some epochs over the questions that do not ask for held-out facts, if there are any."""
        if not len(self.training_rows):
            return self.fit(penalty, epochs)
        *_, weights = self._epochs(self.training_rows, penalty, epochs, self._trial_questions)
        return _copy(weights)

    def _epochs(self, rows: Longs, penalty: float, epochs: int, questions: Questions) -> Iterator[Weights]:
        """Yield the weights after each epoch of Adagrad; the arrays are reused."""
        state = _State(self.prior, self._mark_count, self._profiles, len(self._blind), self._tied)
        for epoch in range(epochs):
            keys = fold_in_rows(make_key(self._config.seed, "listwise epoch", epoch), self._keys[rows][:, None])
            order = rows[np.argsort(keys, kind="stable")]
            for begin in range(0, len(order), self._batch_size):
                batch = freeze(order[begin : begin + self._batch_size])
                self._gradient(batch, state, questions)
                self._own_gradient(batch, state)
                state.step(penalty * len(batch), self._config.rate)
            yield state.weights

    def _gradient(self, batch: Longs, state: _State, questions: Questions) -> float:
        """Add up loss and gradient of a batch."""
        formulas, marks, stats = state.weights
        profiles = self._profiles
        own_scores(profiles.marks, marks, profiles.stats, stats, state.own)
        answer_scores(
            profiles.marks,
            marks,
            batch,
            self._answer_kinds,
            self._answer_stats,
            self._changes,
            stats,
            state.answer_own,
        )
        top = max(float(state.own.max()), float(state.answer_own[batch].max()))
        np.exp(state.own - top, out=state.own)
        state.answer_own[batch] = np.exp(state.answer_own[batch] - top)
        return batch_gradient(
            batch,
            questions,
            formulas,
            profiles.of,
            profiles.sizes,
            state.own,
            state.answer_own,
            state.sums,
            state.seen,
            state.reached,
            state.stamp,
            state.gradients[0],
            state.kind_gradient,
            state.answer_gradient,
        )

    def _own_gradient(self, batch: Longs, state: _State) -> None:
        own_gradient(
            self._profiles.marks,
            self._profiles.stats,
            state.kind_gradient,
            batch,
            self._answer_kinds,
            state.answer_gradient,
            self._answer_stats,
            self._changes,
            state.gradients[1],
            state.gradients[2],
        )

    def _loss(self, rows: Longs, weights: Weights) -> float:
        """The sum of the losses of some questions."""
        state = _State(self.prior, self._mark_count, self._profiles, len(self._blind), self._tied)
        state.weights = weights
        return self._gradient(freeze(rows), state, self._questions)


def group_profiles(marks: Marks, mark_sets: Longs, at_position: Floats, degrees: Floats) -> Profiles:
    """The kinds of objects, by their sets of marks (objects,) and the numbers behind their statistics."""
    keys = mark_sets
    for numbers in (at_position, degrees):
        values, places = np.unique(numbers, return_inverse=True)
        keys = np.unique(keys * len(values) + places, return_inverse=True)[1]
    _, first, kinds, sizes = np.unique(keys, return_index=True, return_inverse=True, return_counts=True)
    starts, ends = marks.starts[first], marks.starts[first + 1]
    rows = concatenate_ranges(starts, ends)
    own_starts = np.append(0, np.cumsum(ends - starts)).astype(np.int64)
    of_kinds = Marks(freeze(own_starts), freeze(marks.marks[rows]), freeze(marks.values[rows]))
    stats = statistics(at_position[first], degrees[first])
    return Profiles(freeze(kinds.astype(np.int32)), freeze(sizes.astype(np.float64)), of_kinds, freeze(stats))


def _copy(weights: Weights) -> Weights:
    formulas, marks, statistics = weights
    return formulas.copy(), marks.copy(), statistics.copy()


class _State:
    """Weights, their sums of squared gradients, and scratch space."""

    def __init__(
        self, prior: Floats, marks: int, profiles: Profiles, questions: int, tied: tuple[Longs, Longs]
    ) -> None:
        """`tied` are the marks, and the formulas, of added formulas about the candidate alone: both have one weight."""
        self._tied = tied
        self._priors = (prior, np.zeros(marks), np.array(INITIAL_STATISTICS))
        self.weights: Weights = tuple(prior.copy() for prior in self._priors)  # type: ignore[assignment]
        self.gradients: Weights = tuple(np.zeros(len(prior)) for prior in self._priors)  # type: ignore[assignment]
        self._squares = tuple(np.full(len(prior), 0.01) for prior in self._priors)
        objects, kinds = len(profiles.of), len(profiles.sizes)
        self.own, self.kind_gradient, self.sums = np.empty(kinds), np.zeros(kinds), np.zeros(objects)
        self.seen, self.reached, self.stamp = (
            np.zeros(objects, np.int64),
            np.empty(objects, np.int32),
            np.zeros(1, np.int64),
        )
        self.answer_own, self.answer_gradient = np.zeros(questions), np.zeros(questions)

    def step(self, penalty: float, rate: float) -> None:
        """Take one step of Adagrad; statistics are not penalised."""
        marks, formulas = self._tied
        if len(marks):
            both = self.gradients[0][formulas] + self.gradients[1][marks]
            self.gradients[0][formulas] = self.gradients[1][marks] = both
        for group in range(3):
            adagrad(
                self.weights[group],
                self.gradients[group],
                self._squares[group],
                self._priors[group],
                penalty if group < 2 else 0.0,  # statistics are not penalised
                rate,
            )


class _Asked(NamedTuple):
    """Questions, each about a fact."""

    questions: Questions
    of_trial: Questions
    blind: Bools
    """Shape (q,)."""
    rows: Longs
    """Shape (q,): the fact of each, among those of its relation."""
    unseen: list[Longs]
    """The facts that each does not see."""


def _ask(
    index: StepIndex,
    position: int,
    facts: Ints,
    ids: Longs,
    mined: Sequence[MinedFormulas],
    config: ListwiseConfig,
    held_out: Longs,
    added: AddedFormulas | None,
) -> _Asked:
    """The questions of held-out facts and of others, with what formulas reach.

    To a trial, held-out facts are not known, and their objects are rivals like others. Blind questions see no fact
    between their objects, and none of their candidates is linked with the fixed object.
    """
    fixed = [i for i in range(facts.shape[1]) if i != position]
    groups = row_ids(facts[:, fixed])[0] if fixed else np.zeros(len(facts), np.int64)
    others = _choose_questions(facts, groups, config)
    own = others[~np.isin(others, held_out)]
    share = _blind_share(index, facts, ids, np.concatenate([held_out, own]), config)
    chosen, blind = _mix(held_out, own, share)
    reacher = Reacher(index, config.mining.max_steps, config.mining.max_set, config.bound)
    hidden = HiddenFacts.one_per_tuple(ids[chosen])
    confidences = index.kb.confidences[ids]
    if config.hide == "links":
        hidden = hide_links(graph_of(index.kb), facts[chosen], hidden, np.arange(len(chosen)))
    unseen = [freeze(hidden.of(row)) for row in range(len(chosen))]
    if blind.any():
        links = hide_links(graph_of(index.kb), facts[chosen], hidden, np.arange(len(chosen)))
        unseen = [freeze(links.of(row)) if blind[row] else own for row, own in enumerate(unseen)]
    first_added = sum(map(len, mined))
    of_added: Iterator[Entries] = repeat(NO_ENTRIES)
    if added is not None:
        of_added = added.answer(zip(facts[chosen].tolist(), unseen, strict=True))
    starts, known, linked, order = [0], list[Longs](), list[Ints](), np.argsort(groups, kind="stable")
    for row, own_hidden, entries, is_blind in zip(chosen.tolist(), unseen, of_added, blind.tolist(), strict=False):
        all_hidden = own_hidden
        if config.fact_dropout:  # from mined formulas: added ones see what any question sees
            all_hidden = _drop_facts(index, facts[row], fixed, own_hidden, config)
        reach_candidates(reacher, facts[row, fixed].tolist(), all_hidden, mined)
        reacher.append(entries.objects, entries.formulas + first_added, entries.values)
        starts.append(reacher.end)
        begin, end = np.searchsorted(groups[order], [groups[row], groups[row] + 1])
        answers = order[begin:end]
        known.append(answers[facts[answers, position] != facts[row, position]])
        linked.append(_linked_objects(index, facts[row, fixed[0]], facts[row, position]) if is_blind else NO_OBJECTS)
        if reacher.end >= config.max_entries:
            break
    chosen, blind = chosen[: len(known)], blind[: len(known)]
    of_trial = [one[~np.isin(one, held_out)] for one in known]
    questions = Questions(
        freeze(facts[chosen, position]),
        freeze(confidences[chosen]),
        *_known_answers(known, linked, facts, position),
        freeze(np.array(starts, np.int64)),
        freeze(reacher.objects[: reacher.end]),
        freeze(reacher.formulas[: reacher.end]),
        freeze(reacher.values[: reacher.end]),
    )
    starts_of_trial, answers_of_trial = _known_answers(of_trial, linked, facts, position)
    of_trial_questions = questions._replace(known_starts=starts_of_trial, known=answers_of_trial)
    return _Asked(questions, of_trial_questions, blind, chosen, unseen[: len(chosen)])


def _blind_share(index: StepIndex, facts: Ints, ids: Longs, rows: Longs, config: ListwiseConfig) -> float:
    """How many blind questions there are for each other one."""
    possible = config.blind_share and config.hide != "links" and facts.shape[1] == 2
    if not possible or _linked_share(index, facts[rows], ids[rows]) < MIN_LINKED:
        return 0.0
    return config.blind_share


def _mix(held_out: Longs, others: Longs, share: float) -> tuple[Longs, Bools]:
    """All rows and a share of them a second time, mixed evenly, and which ones are blind: the second ones.

    Whatever fits into memory then has some of each.
    """
    parts = [(rows, False) for rows in (held_out, others)]
    parts += [(rows[: round(share * len(rows))], True) for rows in (held_out, others)]
    places = np.concatenate([np.arange(len(rows)) / max(len(rows), 1) for rows, _ in parts])
    order = np.argsort(places, kind="stable")
    blind = np.repeat([flag for _, flag in parts], [len(rows) for rows, _ in parts])
    return np.concatenate([rows for rows, _ in parts])[order], blind[order]


def _linked_share(index: StepIndex, facts: Ints, ids: Longs) -> float:
    """The share of some facts whose objects another fact links."""
    if not len(facts):
        return 0.0
    links = hide_links(graph_of(index.kb), facts, HiddenFacts.one_per_tuple(ids), np.arange(len(facts)))
    return float((np.diff(links.starts) > 1).mean())


def _known_answers(rows: Sequence[Longs], linked: Sequence[Ints], facts: Ints, position: int) -> tuple[Longs, Ints]:
    """The first object of each question that is no candidate, and these objects.

    They are other known answers, given by the rows of their facts, and the linked objects of blind questions.
    """
    parts = [np.append(facts[own, position], other) for own, other in zip(rows, linked, strict=True)]
    starts = np.append(0, np.cumsum([len(one) for one in parts])).astype(np.int64)
    return freeze(starts), freeze(np.concatenate([NO_OBJECTS, *parts]))


def _linked_objects(index: StepIndex, fixed: int, answer: int) -> Ints:
    """The objects that a fact links with the fixed object, without the answer."""
    table = index.table
    steps = slice(*table.group_starts[table.starts[[fixed, fixed + 1]]].tolist())
    found: Ints = np.unique(table.targets[steps])
    linked: Ints = found[(found != answer) & (found != fixed)]
    return linked


def _drop_facts(index: StepIndex, fact: Ints, fixed: Sequence[int], hidden: Longs, config: ListwiseConfig) -> Longs:
    """The hidden facts, and others of the fixed objects that the question of a fact does not see, by key.

    Facts with the answer are kept, so that what is true of answers does not look less certain than it is.
    """
    table = index.table
    bounds, [answer] = table.group_starts[table.starts], np.delete(fact, fixed)
    steps = np.concatenate([np.arange(*bounds[obj : obj + 2]) for obj in fact[list(fixed)].tolist()] or [hidden])
    own = np.setdiff1d(table.facts[steps], table.facts[steps[table.targets[steps] == answer]])
    key = fold_in_rows(make_key(config.seed, "fact dropout"), fact[None])[0]
    dropped = own[fold_in(key, own) < np.uint64(config.fact_dropout * 2.0**64)]
    return freeze(np.union1d(hidden, dropped))


def reach_candidates(reacher: Reacher, fixed: Sequence[int], hidden: Longs, mined: Sequence[MinedFormulas]) -> None:
    """Append what the formulas reach from the fixed objects.

    With a size, walks keep to the members of each draw, and the values are means over the draws.
    """
    begin = reacher.end
    if len(hidden) > FEW:
        hidden = freeze(np.sort(hidden))
    draws = reacher.drawer.draw(fixed, hidden, max((one.paths.shape[1] for one in mined), default=1))
    for draw in range(max(1, len(draws))):
        reacher.drawer.mark(draws, draw)
        first = 0
        for start, one in zip(fixed, mined, strict=True):
            reacher.walk(start, hidden, one.paths, first)
            reacher.link(start, hidden, first + len(one.paths))
            reacher.match(start, hidden, one.constants, first + one.first_constant)
            reacher.compare(start, one.comparisons, first + one.first_comparison)
            first += len(one)
    entries = slice(begin, reacher.end)
    reacher.store_values(begin, formula_values(reacher.counts[entries], reacher.masses[entries]), max(1, len(draws)))


def _choose_questions(facts: Ints, groups: Longs, config: ListwiseConfig) -> Longs:
    """The rows of the facts that are asked for, in random order: some answers of each question."""
    keys = fold_in_rows(make_key(config.seed, "listwise questions"), facts)
    order = np.lexsort((keys, groups))
    sizes = np.bincount(groups)
    rank = np.arange(len(facts)) - np.repeat(np.cumsum(sizes) - sizes, sizes)  # among the answers of its question
    allowed = order[rank < config.answers_per_question]
    chosen: Longs = allowed[np.argsort(keys[allowed], kind="stable")][: config.questions]
    return chosen


def _mark_changes(index: StepIndex, answers: Ints, hidden: Sequence[Longs]) -> Marks:
    """How the marks of each answer change without the facts that its question does not see."""
    changes = [index.mark_changes(obj, own) for obj, own in zip(answers.tolist(), hidden, strict=True)]
    starts = np.append(0, np.cumsum([len(one) for one in changes])).astype(np.int64)
    marks = np.array([mark for one in changes for mark in one], np.int32)
    values = np.array([value for one in changes for value in one.values()], np.float32)
    return Marks(freeze(starts), freeze(marks), freeze(values))


def count_at_position(kb: KnowledgeBase, relation: str, position: int) -> Floats:
    """Shape (objects,), float64: how many facts have each object at the position, each with its confidence."""
    objects = kb.tuples(relation)[:, position]
    counts: Floats = np.bincount(objects, kb.confidences_of(relation), len(kb.objects)).astype(np.float64)
    return counts


# Rankers as arrays, and back


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The relations that labels and types are numbered by. It is stored with rankers."""

    relations: tuple[tuple[str, int], ...]
    """Relations with their arities."""
    thresholds: tuple[tuple[str, float], ...] = ()
    """Attributes with values."""
    formulas: tuple[Feature, ...] = ()
    """Formulas that were added to the mined ones."""

    @classmethod
    def of(cls, index: StepIndex, formulas: Sequence[Feature] = ()) -> Vocabulary:
        """All relations and thresholds of a knowledge base, and added formulas."""
        content = index.kb.content
        return cls(tuple(zip(content.relations, content.arities, strict=True)), index.thresholds, tuple(formulas))

    @property
    def labels(self) -> tuple[Label, ...]:
        """The labels, by number."""
        return labels_of(self.relations)

    @property
    def types(self) -> tuple[str, ...]:
        """The types, by number."""
        return tuple(name for name, arity in self.relations if arity == 1)

    @property
    def attributes(self) -> list[str]:
        """The attributes of thresholds and formulas."""
        compared = {part.name for formula in self.formulas for part in walk(formula) if isinstance(part, Attribute)}
        return sorted({name for name, _ in self.thresholds} | compared)

    def as_json(self) -> dict[str, Any]:
        """The vocabulary for the metadata of a file, without its formulas."""
        return {
            "relations": [[name, int(arity)] for name, arity in self.relations],
            "thresholds": [[name, value] for name, value in self.thresholds],
        }

    @classmethod
    def from_json(cls, meta: Any, formulas: Any = ()) -> Vocabulary:
        """The vocabulary of a file, and the texts of its added formulas."""
        for name, arity in meta["relations"]:
            check_int(f"the arity of {name}", arity, 1, MAX_ARITY)
        thresholds = tuple((name, float(value)) for name, value in meta["thresholds"])
        if not all(isinstance(name, str) for name, _ in (*meta["relations"], *thresholds)):
            raise InputError("the names of relations and attributes must be texts")
        relations = tuple((name, arity) for name, arity in meta["relations"])
        return cls(relations, thresholds, tuple(_formula_from_text(text, dict(relations)) for text in formulas))

    def numbers_in(self, index: StepIndex) -> tuple[Ints, Ints]:
        """The number of each label, and of each mark, in a knowledge base; −1 for those that it does not have."""
        labels = np.array([index.label_id(*label) for label in self.labels], np.int32).reshape(-1)
        types = np.array([index.type_mark(name) for name in self.types], np.int32).reshape(-1)
        first = len(index.labels) + len(index.types)
        thresholds = np.arange(first, first + len(self.thresholds), dtype=np.int32)
        return labels, np.concatenate([labels, types, thresholds])


def _formula_from_text(text: str, relations: Mapping[str, int]) -> Feature:
    """An added formula of a file, which must use the relations of the vocabulary."""
    formula = parse_feature(text)
    check_formulas([formula])
    for part in walk(formula):
        if (
            isinstance(part, Atom)
            and isinstance(part.relation, str)
            and relations.get(part.relation) != len(part.terms)
        ):
            raise InputError(f"the vocabulary has no relation {shorten(part.relation)} of {len(part.terms)} places")
    if formula.each or free_relation_variables(formula):
        raise InputError(f"{shorten(text)} stands for several formulas")
    return formula


def ranker_arrays(ranker: Ranker, index: StepIndex) -> Arrays:
    """The arrays of a ranker, with labels and marks of the knowledge base that it is bound to."""
    added = np.flatnonzero(ranker.added_weights)
    marks = np.flatnonzero(ranker.mark_weights).astype(np.int32)
    loss = np.nan if ranker.held_out_loss is None else ranker.held_out_loss
    arrays: Arrays = {
        "formula_weights": ranker.formula_weights,
        "marks": marks,
        "mark_weights": ranker.mark_weights[marks],
        "statistic_weights": ranker.statistic_weights,
        "added": added.astype(np.int32) if ranker.added is None else ranker.added.numbers[added],
        "added_weights": ranker.added_weights[added],
        "fit": np.array([ranker.penalty, ranker.epochs, -1.0 if np.isnan(loss) else loss]),
    }
    for number, mined in enumerate(ranker.mined):
        own: Arrays = {
            f"paths/{number}": mined.paths,
            f"support/{number}": mined.support,
            f"confidence/{number}": mined.confidence,
        }
        arrays |= own | mined.constants.arrays(index, number) | mined.comparisons.arrays(number)
    return arrays


def ranker_from_arrays(
    arrays: Arrays, relation: str, position: int, arity: int, index: StepIndex, vocabulary: Vocabulary | None = None
) -> Ranker:
    """The ranker of arrays, bound to a knowledge base; paths with labels that it does not have are left out.

    The index has the thresholds of the vocabulary.
    """
    own = vocabulary or Vocabulary.of(index)
    labels, marks = own.numbers_in(index)
    weights = require_array(arrays, "formula_weights", np.float64, (None,))
    mined, kept, first = list[MinedFormulas](), list[Floats](), 0
    for number in range(arity - 1):
        found = _paths_from_arrays(arrays, number, len(own.labels), index)
        constants, others = constants_from_arrays(arrays, number, labels, index)
        comparisons = comparisons_from_arrays(arrays, number, len(index.attributes))
        counts = [len(found.paths), len(LINKS), len(arrays[f"constants/{number}/labels"]), len(comparisons)]
        part = weights[first : first + sum(counts)]
        if len(part) != sum(counts):
            raise InputError(f"there are {len(weights):,} weights of formulas, and more formulas")
        first += len(part)
        bound, order = _bind_paths(found, labels)
        mined.append(replace(bound, constants=constants, comparisons=comparisons))
        of_paths, of_links, of_constants, of_comparisons = np.split(part, np.cumsum(counts)[:-1])
        kept += [of_paths[order], of_links, of_constants[others], of_comparisons]
    if first != len(weights):
        raise InputError(f"there are {len(weights):,} weights of formulas, and {first:,} formulas")
    mark_weights = np.zeros(index.mark_count)
    used = require_array(arrays, "marks", np.int32, (None,))
    values = require_array(arrays, "mark_weights", np.float64, (len(used),))
    _check_range("marks", used, len(marks))
    present = marks[used] >= 0
    mark_weights[marks[used][present]] = values[present]
    numbers = require_array(arrays, "added", np.int32, (None,))
    _check_range("added", numbers, len(own.formulas))
    if len(np.unique(numbers)) != len(numbers):
        raise InputError("the array 'added' has a formula twice")
    added = AddedFormulas(index, arity, position, own.formulas, numbers.tolist()) if own.formulas else None
    if added is not None and len(added) != len(numbers):
        raise InputError(f"a formula of {relation} does not fit its position {position + 1}")
    penalty, epochs, loss = require_array(arrays, "fit", np.float64, (3,)).tolist()
    return Ranker(
        relation,
        position,
        tuple(mined),
        np.concatenate([np.zeros(0), *kept]),
        mark_weights,
        require_array(arrays, "statistic_weights", np.float64, (len(STATISTICS),)),
        penalty,
        int(epochs),
        None if loss < 0 else loss,
        added,
        require_array(arrays, "added_weights", np.float64, (len(numbers),)),
    )


def _paths_from_arrays(arrays: Arrays, number: int, labels: int, index: StepIndex) -> MinedFormulas:
    paths = require_array(arrays, f"paths/{number}", np.int32, (None, None))
    if paths.size and (paths.min() < -1 or paths.max() >= labels or (paths[:, 0] < 0).any()):
        raise InputError(f"the array 'paths/{number}' has labels outside of 0 to {labels - 1}")
    if paths.shape[1] < 1 or (np.diff((paths < 0).astype(np.int8), axis=1) < 0).any():
        raise InputError(f"the array 'paths/{number}' has a path with a gap")
    support = require_array(arrays, f"support/{number}", np.int64, (len(paths),))
    confidence = require_array(arrays, f"confidence/{number}", np.float64, (len(paths),))
    return MinedFormulas(index.labels, paths, support, confidence)


def _bind_paths(mined: MinedFormulas, labels: Ints) -> tuple[MinedFormulas, Longs]:
    """The paths with labels of another numbering, sorted again, and the rows they come from."""
    renumbered = np.where(mined.paths < 0, -1, np.append(labels, -1)[mined.paths])
    possible = ((renumbered >= 0) == (mined.paths >= 0)).all(axis=1)
    rows: Longs = np.flatnonzero(possible)
    order: Longs = rows[np.lexsort(renumbered[rows].T[::-1])] if len(rows) else rows
    return (
        replace(
            mined,
            paths=freeze(renumbered[order].astype(np.int32)),
            support=freeze(mined.support[order]),
            confidence=freeze(mined.confidence[order]),
        ),
        order,
    )


def _check_range(name: str, numbers: Ints, end: int) -> None:
    if numbers.size and (numbers.min() < 0 or numbers.max() >= end):
        raise InputError(f"the array {name!r} has numbers outside of 0 to {end - 1}")

"""Training: from examples to a trained base model.

The trained model depends only on the knowledge bases, the settings and the seed, not on threads, interruptions or the
order of the facts. Neighbourhoods are drawn anew in every epoch, one block of examples at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from gaifman.config import ExampleConfig, SamplingConfig, check_choice, check_fraction, check_int, checked_methods
from gaifman.errors import FormulaError, GaifmanError, KnowledgeBaseError, TrainingError, similar_names
from gaifman.features.compiler import compile_features
from gaifman.features.evaluator import FeatureEvaluator, FeatureMatrix
from gaifman.features.feature_sets import FeatureSet, Phi, resolve_feature_set
from gaifman.io.model_file import Arrays, strip_prefix
from gaifman.kb.gaifman_graph import graph_of
from gaifman.kb.knowledge_base import KnowledgeBase, unify_schemas
from gaifman.kb.tables import Floats, Ints, Longs
from gaifman.logic.ast import Feature, Query
from gaifman.logic.parser import parse_query
from gaifman.models.base import BaseModel, Batch
from gaifman.models.calibration import HeldOut, add_up, log, mean_over_draws
from gaifman.models.mlp import make_base_model, option_names
from gaifman.models.scaling import FeatureScaler, FeatureStatistics, feature_kinds
from gaifman.sampling.constraints import Constraints
from gaifman.sampling.examples import ExampleBlock, ExampleCollection, TrainingExamples
from gaifman.sampling.hiding import HiddenFacts
from gaifman.sampling.rng import fold_in, make_key

EXPERTS = ("none", "complex")
"""What is added to ranked lists: nothing, or an expert with memory."""
AUTO, LISTWISE = "auto", "listwise"
"""A setting that depends on the query, and the base model of ranked lists."""
DEFAULT_MISSING, MIN_MISSING = 0.1, 0.001
"""The share of facts that ranked lists assume to be missing by default, and at least."""
NETWORK_RADIUS, NETWORK_SIZE = 1, 20
"""Radius and size of neighbourhoods of the network by default."""

MAX_SCANNED_ANSWERS = 20_000
"""Maximum number of answers that the scaler is fitted to."""
SCANNED_NEGATIVES = 2
"""Number of negatives per scanned answer."""

BLOCK_SIZE = 16_384
"""Neighbourhoods of held-out tuples in memory at once."""

MAX_EPOCHS = 50
"""Maximum number of epochs if there are few examples."""

MAX_BLOCK_LOSS = 1e6
"""Training has diverged if the mean loss of a block of examples, in nats, is larger."""
MAX_EPOCH_LOSS = 20.0
"""Training has diverged if the mean loss of the last epoch is larger. Earlier it may be: the network recovers if the
rate is only a little too high."""

DEFAULT_BASE_OPTIONS: Mapping[str, Mapping[str, Any]] = {"mlp": {"activation": "relu", "batch_size": 32}}
"""Default options of base models. With a few hundred answers the paper's sigmoids hardly learn: `gaifman train demo`
reports an AUC of 0.974, with `--option activation=sigmoid --option batch_size=128` 0.956."""


@checked_methods
@dataclass(frozen=True, slots=True)
class TrainingConfig(ExampleConfig):
    """All training settings: those of the examples, and these.

    >>> TrainingConfig(positives=1, size=None).sampling(3, "train 0")
    SamplingConfig(radius=1, size=None, draws=3, seed=0, purpose='train 0', shared_order=False)
    """

    radius: int | str = AUTO
    """r: the radius of a neighbourhood. `auto` is 1 for the network; for ranked lists with a size it holds all paths,
    which depends on their length."""
    size: int | str | None = AUTO
    """k: the number of objects of a neighbourhood besides the tuple's; None for all. `auto` is 20 for the network, and
    all for ranked lists."""
    phi: str = "default"
    """Φ: the name of the feature set, or the names of several joined by ` + `."""
    base: str = AUTO
    """M: the base model, `listwise`, `mlp` or `logistic`, or the kind of another one. `auto` is `listwise` for a
    relation and `mlp` for other queries."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options of the base model: `{"hidden": [50], "epochs": 5}`. The paper's network is
    `{"activation": "sigmoid", "batch_size": 128}`."""
    expert: str = "none"
    """`complex` adds an expert to ranked lists: ComplEx, which knows which objects are similar. It applies to relations
    of two objects."""
    min_examples: int = 20_000
    """Minimum number of training examples: if an epoch has fewer, there are more epochs."""
    min_feature_count: int = 2
    """Features that occur less often are dropped."""
    patience: int = 0
    """Early stopping: epochs without a better held-out loss before training stops; 0 for never."""
    draws: int = 10
    """N: the number of neighbourhoods that a probability is averaged over; of ranked lists with a size, the values of
    formulas are."""
    missing: float | None = None
    """The share of true answers that the knowledge base is assumed to miss. Probabilities of ranked lists are those of
    facts that are missing at this share; None is 0.1. For a network, some negatives are then true, and probabilities
    and held-out figures are corrected for it; None is 0: every negative counts as false."""

    def __post_init__(self) -> None:
        ExampleConfig.__post_init__(self)
        for name in ("size", "radius"):
            if isinstance(value := getattr(self, name), str):
                check_choice(name, value, (AUTO,))
        check_choice("expert", self.expert, EXPERTS)
        self.sampling(self.draws, "check")
        for name in ("min_examples", "min_feature_count", "patience"):
            check_int(name, getattr(self, name), 0)
        if self.missing is not None:
            check_fraction("missing", self.missing, one=False)

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> TrainingConfig:
        """Create a configuration from settings, which may include options of the `mlp`.

        >>> TrainingConfig.from_settings({"seed": 1, "epochs": 5}).options
        {'epochs': 5}
        """
        known = [each.name for each in fields(cls)]
        options = [] if set(settings) <= set(known) else option_names("mlp")
        for name in settings:
            if name not in (*known, *options):
                raise KnowledgeBaseError(
                    f"unknown setting {name}",
                    suggestions=similar_names(name, [*known, *options]),
                    hint=f"settings: {', '.join(known)}; options of the mlp: {', '.join(options)}",
                )
        own = {name: value for name, value in settings.items() if name in known}
        more = {name: value for name, value in settings.items() if name in options}
        return cls(**own | {"options": {**own.get("options", {}), **more}})

    def sampling(self, draws: int, purpose: str) -> SamplingConfig:
        """Return the settings for drawing neighbourhoods."""
        size = NETWORK_SIZE if isinstance(self.size, str) else self.size
        radius = NETWORK_RADIUS if isinstance(self.radius, str) else self.radius
        return SamplingConfig(radius, size, draws, self.seed, purpose)

    @property
    def assumed_missing(self) -> float:
        """The share of facts that the probabilities of ranked lists assume to be missing."""
        return DEFAULT_MISSING if self.missing is None else max(self.missing, MIN_MISSING)

    @property
    def negative_ratio(self) -> float:
        """Number of negatives per neighbourhood of an answer; 1 if there are no negatives."""
        return self.negatives / self.positives if self.negatives else 1.0

    def draw_ratio(self, kb: KnowledgeBase) -> float:
        """Number of negatives per answer that each draw is corrected for before draws are averaged.

        1 if all facts are certain: then all draws see the same world, and their mean is corrected.
        """
        return self.negative_ratio if kb.has_confidences else 1.0

    def num_epochs(self, examples: int, base_epochs: int) -> int:
        """Return the number of epochs: that of the base model, or more if there are few examples.

        >>> config = TrainingConfig(min_examples=1000)
        >>> config.num_epochs(90, base_epochs=3), config.num_epochs(90, base_epochs=1)
        (12, 1)
        """
        check_int("base_epochs", base_epochs, 1)
        check_int("examples", examples, 0)
        if base_epochs == 1:
            return 1  # it collects the examples and has no use for more epochs
        return max(base_epochs, min(MAX_EPOCHS, -(-self.min_examples // max(examples, 1))))

    def make_base_model(self) -> BaseModel:
        """Return an untrained base model: the network unless another one is named."""
        name = "mlp" if self.base in (AUTO, LISTWISE) else self.base
        return make_base_model(name, {**DEFAULT_BASE_OPTIONS.get(name, {}), **self.options})

    def as_dict(self) -> dict[str, Any]:
        """Return the settings as JSON values."""
        return asdict(self) | {"options": dict(self.options)}


@dataclass(frozen=True, slots=True)
class TrainingSource:
    """The training examples of one knowledge base, and the evaluator of their features."""

    evaluator: FeatureEvaluator
    examples: TrainingExamples
    kinds: Ints
    """Shape (features,), int32: the kind of each feature of the evaluator."""

    def feature_matrix(
        self, tuples: Ints, sampling: SamplingConfig, hidden: HiddenFacts | None, threads: int | None
    ) -> FeatureMatrix:
        """Draw training neighbourhoods and evaluate their features."""
        return self.evaluator.sample_and_evaluate(tuples, sampling, hidden, threads=threads)


def prepare_training(
    kbs: Sequence[KnowledgeBase], query: str | Query, phi: Phi
) -> tuple[list[KnowledgeBase], Query, tuple[Feature, ...]]:
    """Return the knowledge bases with one schema, the parsed query, and the features over all relations."""
    kbs = unify_schemas(kbs)
    relations, attributes = {name: each.arity for name, each in kbs[0].relations.items()}, sorted(kbs[0].attributes)
    parsed, *_ = [
        parse_query(query, kb) if isinstance(query, str) else query for kb in kbs
    ]  # every one has its objects
    if not parsed.variables:
        raise FormulaError(f"{parsed} has no free variables: it is true or false, and has no answers to learn")
    arity = len(parsed.variables)
    return kbs, parsed, resolve_feature_set(phi, arity, relations, attributes, kbs[0]).expand(relations, arity)


def training_sources(
    kbs: Sequence[KnowledgeBase],
    query: Query,
    features: Sequence[Feature],
    config: TrainingConfig,
    constraints: Constraints | None,
) -> list[TrainingSource]:
    """Return the examples of each knowledge base; one without answers is left out if others have some."""
    sources, errors, kinds = [], list[GaifmanError](), feature_kinds(features)
    for kb in kbs:
        try:
            examples = TrainingExamples(kb, query, config, constraints)
        except KnowledgeBaseError as error:
            errors.append(error)
            continue
        plan = compile_features(FeatureSet(tuple(features)), kb, len(query.variables))
        sources.append(TrainingSource(FeatureEvaluator(graph_of(kb), plan), examples, kinds))
    if not sources:
        raise errors[0]
    return sources


class Callback:
    """Training callback. Raise from `on_block` to stop."""

    def load_checkpoint(self) -> tuple[Mapping[str, npt.NDArray[Any]], Mapping[str, Any]] | None:
        """Return the state of an interrupted training, or None to start from the beginning."""
        return None

    def on_train_begin(self, total_examples: int, done_examples: int) -> None:
        """Training begins or is resumed; the total is approximate."""

    def on_block(self, examples: int, state: Callable[[], tuple[Arrays, dict[str, Any]]]) -> None:
        """A block of examples is done; `state()` returns a checkpoint."""

    def on_epoch_end(self, epoch: int, loss: float, held_out_loss: float | None) -> None:
        """An epoch is done. The held-out loss is known with early stopping only."""

    def on_part_end(self, state: Callable[[], tuple[Arrays, dict[str, Any]]]) -> None:
        """A part is done that other parts need; `state()` returns a checkpoint of it."""

    def for_expert(self) -> Callback:
        """The callback for the training of the expert, which comes first."""
        return Callback()


@dataclass(frozen=True, slots=True)
class Scorer:
    """A trained base model with its scaler."""

    scaler: FeatureScaler
    base: BaseModel
    losses: tuple[float, ...] = ()
    """The mean cross-entropy of each epoch."""

    def probabilities(self, matrix: FeatureMatrix) -> Floats:
        """Return the base model's probability for each neighbourhood."""
        p = self.base.probabilities(self.scaler.transform(matrix))
        if np.isnan(p).any():
            raise TrainingError(
                "the base model overflows: its probabilities are not numbers", hint=_rate_hint(self.base)
            )
        return p

    def prune(self, features: Sequence[Feature]) -> tuple[tuple[Feature, ...], Scorer]:
        """Return the features that the base model uses, and the scorer for these alone."""
        used = np.unique(self.scaler.features())
        return tuple(features[number] for number in used.tolist()), replace(self, scaler=self.scaler.select(used))

    def mean_probabilities(self, matrix: FeatureMatrix, draws: int, ratio: float = 1.0) -> tuple[Floats, Floats]:
        """Return the mean over each tuple's draws and its standard error, which is NaN for a single draw."""
        each = self.probabilities(matrix).reshape(-1, draws)
        spread = each.std(axis=1, ddof=1) / np.sqrt(draws) if draws > 1 else np.full(len(each), np.nan)
        return mean_over_draws(each, ratio), spread


class Trainer:
    """Trains a base model for one query on one or more knowledge bases with the same features."""

    def __init__(
        self, sources: Sequence[TrainingSource], config: TrainingConfig, base: BaseModel, threads: int | None = 1
    ) -> None:
        self.sources, self.config, self.base, self.threads = sources, config, base, threads
        self._collection = ExampleCollection([source.examples for source in sources])
        features = [source.evaluator.plan.features for source in sources]
        if any(other != features[0] for other in features):
            raise KnowledgeBaseError("the features of all knowledge bases must be the same, in the same order")

    @property
    def examples_per_epoch(self) -> int:
        """Approximate number of neighbourhoods per epoch: an answer may have fewer negatives."""
        count = sum(len(source.examples.training_rows) for source in self.sources)
        return count * (self.config.positives + self.config.negatives)

    @property
    def num_epochs(self) -> int:
        """Number of epochs, more than the base model's if there are few examples."""
        return self.config.num_epochs(self.examples_per_epoch, self.base.epochs)

    def fit_scaler(self) -> FeatureScaler:
        """Fit the scaler to the features of some answers and negatives."""
        statistics, seen = FeatureStatistics(self.sources[0].kinds), 0
        for number, block in self._collection.blocks(epoch=0):
            first = _first_negatives(block, SCANNED_NEGATIVES)
            negatives = block.negatives[first], block.negatives_hidden.select(first)
            for tuples, hidden in ((block.answers, block.hidden), negatives):
                sampling = self.config.sampling(1, "survey")
                statistics.update(self.sources[number].feature_matrix(tuples, sampling, hidden, self.threads))
            seen += len(block.answers)
            if seen >= MAX_SCANNED_ANSWERS:
                break
        return statistics.make_scaler(self.config.min_feature_count)

    def train(self, callback: Callback | None = None) -> Scorer:
        """Train the base model, from the callback's checkpoint if it has one."""
        callback = callback or Callback()
        scaler = self.fit_scaler()
        progress = _Progress(self.base, scaler.width, self.config.seed, callback.load_checkpoint())
        callback.on_train_begin(
            self.examples_per_epoch * self.num_epochs, self.examples_per_epoch * progress.epoch + progress.seen
        )
        while progress.epoch < self.num_epochs and not progress.should_stop(self.config.patience):
            for batch in self.batches(scaler, progress.epoch, progress.block):
                count = len(batch.rows)
                loss = progress.fit_batch(batch)
                del batch  # free its memory before the next one is made
                self._check_loss(loss, MAX_BLOCK_LOSS, progress.epoch)
                callback.on_block(count, progress.state)
            self.base.end_epoch()
            held_out_loss = self._held_out_loss(scaler) if self.config.patience else None
            progress.end_epoch(held_out_loss)
            callback.on_epoch_end(progress.epoch, progress.losses[-1], held_out_loss)
        progress.restore_best()
        self._check_loss(progress.losses[-1], MAX_EPOCH_LOSS, progress.epoch - 1)
        return Scorer(scaler, self.base, tuple(progress.losses))

    def _check_loss(self, loss: float, limit: float, epoch: int) -> None:
        """Raise TrainingError for a loss above the limit; NaN is not known."""
        if loss > limit:
            size = f"{loss:.3g} nats" if np.isfinite(loss) else "not finite"
            query = self.sources[0].examples.query
            raise TrainingError(
                f"the training of {query} diverged in epoch {epoch + 1}: its loss is {size}",
                hint=_rate_hint(self.base),
            )

    def batches(self, scaler: FeatureScaler, epoch: int, first: int = 0) -> Iterator[Batch]:
        """Yield the blocks of an epoch as shuffled rows, from block `first` on."""
        for at, (number, block) in enumerate(self._collection.blocks(epoch, first), start=first):
            yield self._batch(scaler, self.sources[number], block, epoch, at)

    def _batch(self, scaler: FeatureScaler, source: TrainingSource, block: ExampleBlock, epoch: int, at: int) -> Batch:
        many = self.config.sampling(self.config.positives, f"train {epoch}")
        one = self.config.sampling(1, f"train {epoch}")
        answers = source.feature_matrix(block.answers, many, block.hidden, self.threads)
        negatives = source.feature_matrix(block.negatives, one, block.negatives_hidden, self.threads)
        targets = np.concatenate(
            [np.repeat(block.targets, self.config.positives), np.zeros(len(negatives), np.float32)]
        )
        keys = fold_in(make_key(self.config.seed, "shuffle", epoch, at), np.arange(len(targets)))
        order = np.argsort(keys, kind="stable")
        return Batch(scaler.transform(FeatureMatrix.concatenate([answers, negatives]), order), targets[order])

    def held_out(self, scorer: Scorer) -> HeldOut:
        """Predict held-out answers and as many negatives, averaged over the draws of a prediction."""
        means, targets, shares, facts = [np.zeros(0)], [np.zeros(0)], [np.zeros(0)], 0
        for source in self.sources:
            block = source.examples.held_out_block(rows=self.measured_rows(source))
            facts += source.examples.count_hidden(block.rows)
            for tuples, hidden, labels in _labelled_tuples(block):
                means.append(self.held_out_scores(scorer, source, tuples, hidden))
                targets.append(labels)
            shares += [np.zeros(len(block.answers)), source.examples.true_shares(block, self.config.missing or 0.0)]
        true_shares = np.concatenate(shares) if self.config.missing else None
        return HeldOut(np.concatenate(means), np.concatenate(targets), true_shares, facts)

    def measured_rows(self, source: TrainingSource) -> Longs:
        """Return the held-out answers for calibration and figures, by row: none that early stopping has used."""
        return source.examples.split_held_out()[1] if self.config.patience else source.examples.held_out_rows

    def held_out_scores(self, scorer: Scorer, source: TrainingSource, tuples: Ints, hidden: HiddenFacts) -> Floats:
        """Return the mean score of each tuple over the draws of a prediction, as a user would see it."""
        sampling = self.config.sampling(self.config.draws, "held out")
        step, parts = max(1, BLOCK_SIZE // self.config.draws), [np.zeros(0)]
        ratio = self.config.draw_ratio(source.evaluator.graph.kb)
        for begin in range(0, len(tuples), step):
            rows = np.arange(begin, min(begin + step, len(tuples)))
            matrix = source.evaluator.sample_and_evaluate(
                tuples[rows], sampling, hidden.select(rows), threads=self.threads
            )
            parts.append(scorer.mean_probabilities(matrix, self.config.draws, ratio)[0])
        return np.concatenate(parts)

    def hiding_metrics(self, held_out: HeldOut) -> dict[str, Any]:
        """Return how many answers cannot be hidden, and why no answer was held out, for the model's metadata."""
        examples = [source.examples for source in self.sources]
        visible, total = sum(one.visible_count for one in examples), sum(len(one.answers) for one in examples)
        metrics: dict[str, Any] = {"not_hidden": visible} if visible else {}
        if 2 * visible > total:
            metrics["auc_reason"] = f"not held out: {visible:,} of {total:,} answers are true whatever is hidden"
        elif not len(held_out.means) and any(len(one.held_out_rows) for one in examples):
            metrics["auc_reason"] = "not held out: no negative fulfils as much of the query as an answer"
        return metrics

    def _held_out_loss(self, scaler: FeatureScaler) -> float:
        """Return the mean cross-entropy of tuples held out for it, one draw each, with the class weights of training.

        Calibration and figures use others: a model that was chosen by some tuples seems better on them than it is.
        """
        losses, weights = [np.zeros(0)], [np.zeros(0)]
        for source in self.sources:
            stopping = source.examples.held_out_block(rows=source.examples.split_held_out()[0])
            for tuples, hidden, labels in _labelled_tuples(stopping):
                matrix = source.evaluator.sample_and_evaluate(
                    tuples, self.config.sampling(1, "stop"), hidden, threads=self.threads
                )
                p = np.clip(self.base.probabilities(scaler.transform(matrix)), 1e-12, 1 - 1e-12)
                losses.append(-(labels * log(p) + (1 - labels) * log(1 - p)))
                weights.append(np.full(len(p), self.config.positives if labels.any() else self.config.negatives))
        each, mass = np.concatenate(losses), np.concatenate(weights)
        return add_up(each * mass) / add_up(mass) if mass.any() else float("nan")


def _first_negatives(block: ExampleBlock, count: int) -> Longs:
    """Return the rows of the first negatives of each answer."""
    starts = np.searchsorted(block.sources, np.arange(len(block.answers)))
    rank = np.arange(len(block.sources)) - starts[block.sources]
    return np.flatnonzero(rank < count)


def _labelled_tuples(block: ExampleBlock) -> Iterator[tuple[Ints, HiddenFacts, Floats]]:
    yield block.answers, block.hidden, block.targets.astype(np.float64)
    yield block.negatives, block.negatives_hidden, np.zeros(len(block.negatives))


class _Progress:
    """The position of training, which can be saved and restored."""

    def __init__(
        self,
        base: BaseModel,
        width: int,
        seed: int,
        saved: tuple[Mapping[str, npt.NDArray[Any]], Mapping[str, Any]] | None,
    ) -> None:
        self._base = base
        self.epoch = self.block = self._count = self._epochs_without_gain = 0
        self._sum, self.losses, self._best = 0.0, list[float](), float("inf")
        self._best_state: Arrays = {}
        base.reset(width, seed)
        if saved:
            arrays, meta = saved
            self.epoch, self.block, self._count, self._epochs_without_gain = meta["position"]
            self._sum, self._best = _value_or(meta["sums"][0], np.nan), _value_or(meta["sums"][1], np.inf)
            self.losses = [_value_or(loss, np.nan) for loss in meta["losses"]]
            base.restore(strip_prefix(arrays, "model/"))
            self._best_state = strip_prefix(arrays, "best/")

    @property
    def seen(self) -> int:
        """Examples of the current epoch so far."""
        return self._count

    def fit_batch(self, batch: Batch) -> float:
        loss = self._base.fit_batch(batch)
        self._sum += loss * len(batch.rows)
        self._count += len(batch.rows)
        self.block += 1
        return loss

    def state(self) -> tuple[Arrays, dict[str, Any]]:
        arrays = {f"model/{name}": array for name, array in self._base.state(resumable=True).items()}
        arrays |= {f"best/{name}": array for name, array in self._best_state.items()}
        return arrays, {
            "position": [self.epoch, self.block, self._count, self._epochs_without_gain],
            "sums": _nan_to_none([self._sum, self._best]),
            "losses": _nan_to_none(self.losses),
        }

    def end_epoch(self, held_out_loss: float | None) -> None:
        self.losses.append(self._sum / max(self._count, 1))
        self.epoch, self.block, self._sum, self._count = self.epoch + 1, 0, 0.0, 0
        if held_out_loss is None or np.isnan(held_out_loss):
            return
        if held_out_loss < self._best:
            self._best, self._epochs_without_gain, self._best_state = held_out_loss, 0, self._base.state()
        else:
            self._epochs_without_gain += 1

    def should_stop(self, patience: int) -> bool:
        return patience > 0 and self._epochs_without_gain >= patience

    def restore_best(self) -> None:
        if self._best_state:
            self._base.restore(self._best_state)


def _rate_hint(base: BaseModel) -> str:
    """Return how to lower the learning rate of a base model that has diverged."""
    rate = getattr(base, "learning_rate", None)
    if not isinstance(rate, float | int):
        return "train again with a lower learning rate of the base model"
    lower = f"{min(rate / 10, 0.05):.2g}"
    how = f'--option learning_rate={lower}, or options={{"learning_rate": {lower}}} in Python'
    return f"train again with a lower learning_rate than {rate:g}, such as {lower}: {how}"


def _nan_to_none(numbers: Sequence[float]) -> list[float | None]:
    """Return JSON values: a loss that is not known is None."""
    return [number if np.isfinite(number) else None for number in numbers]


def _value_or(number: float | None, default: float) -> float:
    return default if number is None else number

"""From examples to a trained base model: look at the features, learn from blocks of neighbourhoods, stop and go on.

What is learnt hangs on the knowledge bases, the settings and the seed, never on threads, interruptions or the order of
the input. Neighbourhoods are drawn anew in every pass, a block at a time; no more than a block is ever in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from gaifman.config import check_int
from gaifman.errors import KnowledgeBaseError, similar_names
from gaifman.features.evaluator import FeatureEvaluator
from gaifman.features.matrix import FeatureMatrix
from gaifman.kb.tables import Floats, Ints
from gaifman.models.mlp import MLP, BaseModel, Batch, make_base_model, setting_names
from gaifman.models.scaling import FeatureScaler, FeatureStatistics
from gaifman.sampling.examples import ExampleBlock, ExampleCollection, ExampleConfig, TrainingExamples
from gaifman.sampling.neighbourhoods import HiddenFacts, SamplingConfig
from gaifman.sampling.rng import fold_in, make_key

MAX_SCANNED_ANSWERS = 20_000
"""Answers that are looked at before training, at most: enough to see every feature that matters."""
SCANNED_NEGATIVES = 2
"""Corruptions of each of them."""

MAX_EPOCHS = 50
"""Passes where examples are few, at most."""

DEFAULT_BASE_OPTIONS: Mapping[str, Mapping[str, Any]] = {"mlp": {"activation": "relu", "batch_size": 32}}
"""Settings of base models where nothing else is said. The paper's network has sigmoids; with a few hundred answers it
hardly begins to learn: `gaifman train demo` says an AUC of 0.976, with `--option activation=sigmoid --option batch=128`
0.955."""

Arrays = dict[str, npt.NDArray[Any]]


@dataclass(frozen=True, slots=True)
class TrainingConfig:
    """How a model learns: every setting, with what most want.

    >>> TrainingConfig(positives=1, size=None).sampling(3, "train 0")
    Sampling(radius=1, size=None, draws=3, seed=0, purpose='train 0', shared=False)
    """

    radius: int = 1
    """r: how far from the tuple's objects a neighbourhood reaches."""
    size: int | None = 20
    """k: how many objects it has besides the tuple's; None for all there are."""
    phi: str = "default"
    """Φ: a named set of features, or the name of one that was given."""
    base: str = "mlp"
    """M: the base model, `mlp` or `logistic`, or the kind of one that was given."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the base model: `{"hidden": [50], "epochs": 5}`. The paper's network is
    `{"activation": "sigmoid", "batch_size": 128}`."""
    positives: int = 5
    """w: neighbourhoods drawn of each answer in a pass."""
    negatives: int = 25
    """w̃: corrupted tuples for each answer in a pass, each with one neighbourhood."""
    negative_sampling: str = "mixed"
    """Where the objects of corruptions come from: `uniform`, `typed` or `mixed`."""
    hard_negative_fraction: float = 0.0
    """The share of corruptions whose object is a few steps from one that stays: what is easily taken for an answer."""
    hide: str = "facts"
    """What is hidden from an example: the `facts` that make it true, or all `links` between its objects too."""
    holdout: float = 0.1
    """The share of the answers that is kept from training, for calibration and early stopping."""
    min_examples: int = 20_000
    """Examples that are learnt from at least: where a pass has few, there are more passes."""
    min_feature_count: int = 2
    """Features seen less often than this are left out."""
    patience: int = 0
    """Passes without a better loss on held-out tuples until training stops; 0 for never."""
    draws: int = 10
    """N: neighbourhoods that an answer's probability is averaged over."""
    seed: int = 0

    def __post_init__(self) -> None:
        self.example_config()
        self.sampling(self.draws, "check")
        for name in ("min_examples", "min_feature_count", "patience"):
            check_int(name, getattr(self, name), 0)

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> TrainingConfig:
        """From settings by name, or what is wrong with them; those of a network may stand among them.

        >>> TrainingConfig.of({"seed": 1, "epochs": 5}).options
        {'epochs': 5}
        """
        known, networks = [each.name for each in fields(cls)], setting_names(MLP)
        for name in settings:
            if name not in (*known, *networks):
                hint = f"settings: {', '.join(known)}; of the network: {', '.join(networks)}"
                raise KnowledgeBaseError(
                    f"there is no setting {name}", suggestions=similar_names(name, [*known, *networks]), hint=hint
                )
        options = {name: value for name, value in settings.items() if name in networks}
        own = {name: value for name, value in settings.items() if name in known}
        return cls(**own | {"options": {**own.get("options", {}), **options}})

    def example_config(self) -> ExampleConfig:
        """How examples are made."""
        own = {
            name: getattr(self, name)
            for name in ("positives", "negatives", "negative_sampling", "hard_negative_fraction", "hide", "holdout")
        }
        return ExampleConfig(**own, seed=self.seed)

    def sampling(self, draws: int, purpose: str) -> SamplingConfig:
        """How neighbourhoods are drawn."""
        return SamplingConfig(self.radius, self.size, draws, self.seed, purpose)

    @property
    def negative_ratio(self) -> float:
        """Corruptions for each neighbourhood of an answer in training; 1 where there are none."""
        return self.negatives / self.positives if self.negatives else 1.0

    def num_epochs(self, examples: int, base_epochs: int) -> int:
        """How often so many examples are gone through where the base model wants it `wanted` times.

        >>> TrainingConfig(least=1000).passes(90, wanted=3), TrainingConfig(least=1000).passes(90, wanted=1)
        (12, 1)
        """
        if base_epochs == 1:
            return 1  # it gathers the examples, and has no use for more of the same
        return max(base_epochs, min(MAX_EPOCHS, -(-self.min_examples // max(examples, 1))))

    def make_base_model(self) -> BaseModel:
        """An untrained base model."""
        return make_base_model(self.base, **{**DEFAULT_BASE_OPTIONS.get(self.base, {}), **self.options})

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self) | {"options": dict(self.options)}


@dataclass(frozen=True, slots=True)
class TrainingSource:
    """One knowledge base to learn from."""

    evaluator: FeatureEvaluator
    examples: TrainingExamples
    kinds: Ints
    """Shape (features,), int32: the kind of each feature of the evaluator."""

    @property
    def has_confidences(self) -> bool:
        """Whether facts have confidences, so that they drop out."""
        return any(table.confidence is not None for table in self.evaluator.graph.kb.fact_tables.values())

    def feature_matrix(
        self, tuples: Ints, sampling: SamplingConfig, hidden: HiddenFacts | None, threads: int | None
    ) -> FeatureMatrix:
        """Features of training neighbourhoods."""
        return self.evaluator.sample_and_evaluate(
            tuples, sampling, hidden, drop_uncertain=self.has_confidences, threads=threads
        )


class Callback:
    """What looks on while something is learnt: this one does nothing. Whoever raises from `block` stops the work."""

    def load_checkpoint(self) -> tuple[Mapping[str, npt.NDArray[Any]], Mapping[str, Any]] | None:
        """Where an earlier run of the same work stood."""
        return None

    def on_train_begin(self, total_examples: int, done_examples: int) -> None:
        """So many examples will be learnt from, about, of which some are done."""

    def on_block(self, examples: int, state: Callable[[], tuple[Arrays, dict[str, Any]]]) -> None:
        """So many more examples were learnt from; `state` is where the work stands."""

    def on_epoch_end(self, epoch: int, loss: float, held_out_loss: float | None) -> None:
        """A pass is done: its mean loss, and that on held-out tuples where it is known."""


@dataclass(frozen=True, slots=True)
class Scorer:
    """What was learnt for one query."""

    scaler: FeatureScaler
    base: BaseModel
    losses: tuple[float, ...] = ()
    """The mean cross-entropy of each pass."""

    def probabilities(self, matrix: FeatureMatrix) -> Floats:
        """The base model's probability for each neighbourhood."""
        return self.base.probabilities(self.scaler.transform(matrix))

    def mean_probabilities(self, matrix: FeatureMatrix, draws: int) -> tuple[Floats, Floats]:
        """For each tuple: the mean over its draws, and the standard error of that; NaN for a single draw."""
        each = self.probabilities(matrix).reshape(-1, draws)
        spread = each.std(axis=1, ddof=1) / np.sqrt(draws) if draws > 1 else np.full(len(each), np.nan)
        return each.mean(axis=1), spread


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Tuples that were not learnt from, and what the model says of them."""

    means: Floats
    """Shape (tuples,), float64: the mean of the base model's probabilities over its draws."""
    targets: Floats
    """Shape (tuples,), float64: 1 for answers (less where they are not sure), 0 for corruptions."""


class Trainer:
    """Learns one query from one or several knowledge bases whose features are the same."""

    def __init__(
        self, sources: Sequence[TrainingSource], config: TrainingConfig, base: BaseModel, threads: int | None = 1
    ) -> None:
        self.sources, self.config, self.base, self.threads = sources, config, base, threads
        self._collection = ExampleCollection([source.examples for source in sources])
        features = [source.evaluator.plan.features for source in sources]
        if any(other != features[0] for other in features):
            raise KnowledgeBaseError(
                "knowledge bases that are learnt from together have the same features, in one order"
            )

    @property
    def examples_per_epoch(self) -> int:
        """Neighbourhoods in one pass, about: corruptions that cannot be found are fewer."""
        count = sum(len(source.examples.training_rows) for source in self.sources)
        return count * (self.config.positives + self.config.negatives)

    @property
    def num_epochs(self) -> int:
        """How often all examples are gone through: more often than the base model wants where they are few."""
        return self.config.num_epochs(self.examples_per_epoch, self.base.epochs)

    def fit_scaler(self) -> FeatureScaler:
        """Which features occur around answers and corruptions, and how large they are."""
        surveyor, seen = FeatureStatistics(self.sources[0].kinds), 0
        for number, block in self._collection.blocks(epoch=0):
            few = (
                block.negatives[_first_negatives(block, SCANNED_NEGATIVES)],
                block.negatives_hidden.select(_first_negatives(block, SCANNED_NEGATIVES)),
            )
            for tuples, hidden in ((block.answers, block.hidden), few):
                sampling = self.config.sampling(1, "survey")
                surveyor.update(self.sources[number].feature_matrix(tuples, sampling, hidden, self.threads))
            seen += len(block.answers)
            if seen >= MAX_SCANNED_ANSWERS:
                break
        return surveyor.make_scaler(self.config.min_feature_count)

    def train(self, callback: Callback | None = None) -> Scorer:
        """Learn, or go on where the watch says that it was stopped."""
        callback = callback or Callback()
        inputs = self.fit_scaler()
        progress = _Progress(self.base, inputs.width, self.config.seed, callback.load_checkpoint())
        callback.on_train_begin(
            self.examples_per_epoch * self.num_epochs, self.examples_per_epoch * progress.epoch + progress.seen
        )
        while progress.epoch < self.num_epochs and not progress.should_stop(self.config.patience):
            for batch in self.batches(inputs, progress.epoch, progress.block):
                count = len(batch.rows)
                progress.fit_batch(batch)
                del batch  # before the next is made
                callback.on_block(count, progress.state)
            self.base.end_epoch()  # some can say nothing before
            held = self._held_out_loss(inputs) if self.config.patience else None
            progress.end_epoch(held)
            callback.on_epoch_end(progress.epoch, progress.losses[-1], held)
        progress.restore_best()
        return Scorer(inputs, self.base, tuple(progress.losses))

    def batches(self, scaler: FeatureScaler, epoch: int, first: int = 0) -> Iterator[Batch]:
        """The blocks of a pass as shuffled rows, from one on."""
        for at, (number, block) in enumerate(self._collection.blocks(epoch, first), start=first):
            yield self._batch(scaler, self.sources[number], block, epoch, at)

    def _batch(self, scaler: FeatureScaler, source: TrainingSource, block: ExampleBlock, epoch: int, at: int) -> Batch:
        many = self.config.sampling(self.config.positives, f"train {epoch}")
        one = self.config.sampling(1, f"train {epoch}")
        answers = source.feature_matrix(block.answers, many, block.hidden, self.threads)
        others = source.feature_matrix(block.negatives, one, block.negatives_hidden, self.threads)
        targets = np.concatenate([np.repeat(block.targets, self.config.positives), np.zeros(len(others), np.float32)])
        keys = fold_in(make_key(self.config.seed, "shuffle", epoch, at), np.arange(len(targets)))
        order = np.argsort(keys, kind="stable")
        return Batch(scaler.transform(FeatureMatrix.concatenate([answers, others]), order), targets[order])

    def held_out(self, scorer: Scorer) -> HeldOut:
        """What the model says of the held-out tuples and as many corruptions, each with the draws of an answer."""
        means, targets = [np.zeros(0)], [np.zeros(0)]
        for source in self.sources:
            block = source.examples.held_out_block()
            for tuples, hidden, wanted in _labelled_tuples(block):
                sampling = self.config.sampling(self.config.draws, "held out")
                matrix = source.evaluator.sample_and_evaluate(tuples, sampling, hidden, threads=self.threads)
                means.append(scorer.mean_probabilities(matrix, self.config.draws)[0])
                targets.append(wanted)
        return HeldOut(np.concatenate(means), np.concatenate(targets))

    def _held_out_loss(self, scaler: FeatureScaler) -> float:
        """The mean cross-entropy of held-out tuples by one draw each, as they are weighted in training."""
        losses, weights = [np.zeros(0)], [np.zeros(0)]
        for source in self.sources:
            for tuples, hidden, wanted in _labelled_tuples(source.examples.held_out_block()):
                matrix = source.evaluator.sample_and_evaluate(
                    tuples, self.config.sampling(1, "stop"), hidden, threads=self.threads
                )
                p = np.clip(self.base.probabilities(scaler.transform(matrix)), 1e-12, 1 - 1e-12)
                losses.append(-(wanted * np.log(p) + (1 - wanted) * np.log(1 - p)))
                weights.append(np.full(len(p), self.config.positives if wanted.any() else self.config.negatives))
        total = np.concatenate(weights)
        return float(np.average(np.concatenate(losses), weights=total)) if total.sum() else float("nan")


def _first_negatives(block: ExampleBlock, count: int) -> npt.NDArray[np.int64]:
    """Rows of the first corruptions of each answer."""
    starts = np.searchsorted(block.sources, np.arange(len(block.answers)))
    rank = np.arange(len(block.sources)) - starts[block.sources]
    return np.flatnonzero(rank < count)


def _labelled_tuples(block: ExampleBlock) -> Iterator[tuple[Ints, HiddenFacts, Floats]]:
    yield block.answers, block.hidden, block.targets.astype(np.float64)
    yield block.negatives, block.negatives_hidden, np.zeros(len(block.negatives))


class _Progress:
    """Where training stands: can be kept and taken up again."""

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
            base.restore({name[2:]: array for name, array in arrays.items() if name.startswith("m ")})
            self._best_state = {name[2:]: array for name, array in arrays.items() if name.startswith("b ")}

    @property
    def seen(self) -> int:
        """Examples of the pass that is going on."""
        return self._count

    def fit_batch(self, batch: Batch) -> None:
        self._sum += self._base.fit_batch(batch) * len(batch.rows)
        self._count += len(batch.rows)
        self.block += 1

    def state(self) -> tuple[Arrays, dict[str, Any]]:
        arrays = {f"m {name}": array for name, array in self._base.state(resumable=True).items()}
        arrays |= {f"b {name}": array for name, array in self._best_state.items()}
        at = [self.epoch, self.block, self._count, self._epochs_without_gain]
        return arrays, {
            "position": at,
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


def _nan_to_none(numbers: Sequence[float]) -> list[float | None]:
    """As JSON can hold them: a loss that is not known yet is None."""
    return [number if np.isfinite(number) else None for number in numbers]


def _value_or(number: float | None, otherwise: float) -> float:
    return otherwise if number is None else number

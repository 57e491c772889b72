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

from gaifman.errors import KnowledgeError
from gaifman.examples import Block, Collection, Examples, Recipe
from gaifman.features import Evaluator, FeatureMatrix
from gaifman.inputs import Inputs, Surveyor
from gaifman.keys import joined, start
from gaifman.names import nearest
from gaifman.neighbourhoods import Hidden, Sampling
from gaifman.network import BaseModel, Batch, Network, base_model, settings_of
from gaifman.tables import Floats, Ints

SURVEYED = 20_000
"""Answers that are looked at before training, at most: enough to see every feature that matters."""
LOOKS = 2
"""Corruptions of each of them."""

MOST_PASSES = 50
"""Passes where examples are few, at most."""

BETTER: Mapping[str, Mapping[str, Any]] = {"mlp": {"activation": "relu", "batch": 32}}
"""Settings of base models where nothing else is said. The paper's network has sigmoids; with a few hundred answers it
hardly begins to learn: `gaifman train demo` says an AUC of 0.976, with `--option activation=sigmoid --option batch=128`
0.955."""

Arrays = dict[str, npt.NDArray[Any]]


@dataclass(frozen=True, slots=True)
class Learning:
    """How a model learns: every setting, with what most want.

    >>> Learning(positives=1, size=None).sampling(3, "train 0")
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
    `{"activation": "sigmoid", "batch": 128}`."""
    positives: int = 5
    """w: neighbourhoods drawn of each answer in a pass."""
    negatives: int = 25
    """w̃: corrupted tuples for each answer in a pass, each with one neighbourhood."""
    pool: str = "mixed"
    """Where the objects of corruptions come from: `uniform`, `typed` or `mixed`."""
    near: float = 0.0
    """The share of corruptions whose object is a few steps from one that stays: what is easily taken for an answer."""
    hide: str = "facts"
    """What is hidden from an example: the `facts` that make it true, or all `links` between its objects too."""
    holdout: float = 0.1
    """The share of the answers that is kept from training, for calibration and early stopping."""
    least: int = 20_000
    """Examples that are learnt from at least: where a pass has few, there are more passes."""
    rare: int = 2
    """Features seen less often than this are left out."""
    patience: int = 0
    """Passes without a better loss on held-out tuples until training stops; 0 for never."""
    draws: int = 10
    """N: neighbourhoods that an answer's probability is averaged over."""
    seed: int = 0

    def __post_init__(self) -> None:
        self.recipe()
        self.sampling(self.draws, "check")
        for name in ("least", "rare", "patience"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 0:
                raise KnowledgeError(f"{name} is a whole number, 0 or more, not {value!r}")

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Learning:
        """From settings by name, or what is wrong with them; those of a network may stand among them.

        >>> Learning.of({"seed": 1, "epochs": 5}).options
        {'epochs': 5}
        """
        known, networks = [each.name for each in fields(cls)], settings_of(Network)
        for name in settings:
            if name not in (*known, *networks):
                hint = f"settings: {', '.join(known)}; of the network: {', '.join(networks)}"
                raise KnowledgeError(f"there is no setting {name}", near=nearest(name, [*known, *networks]), hint=hint)
        options = {name: value for name, value in settings.items() if name in networks}
        own = {name: value for name, value in settings.items() if name in known}
        return cls(**own | {"options": {**own.get("options", {}), **options}})

    def recipe(self) -> Recipe:
        """How examples are made."""
        own = {name: getattr(self, name) for name in ("positives", "negatives", "pool", "near", "hide", "holdout")}
        return Recipe(**own, seed=self.seed)

    def sampling(self, draws: int, purpose: str) -> Sampling:
        """How neighbourhoods are drawn."""
        return Sampling(self.radius, self.size, draws, self.seed, purpose)

    @property
    def ratio(self) -> float:
        """Corruptions for each neighbourhood of an answer in training; 1 where there are none."""
        return self.negatives / self.positives if self.negatives else 1.0

    def passes(self, examples: int, wanted: int) -> int:
        """How often so many examples are gone through where the base model wants it `wanted` times.

        >>> Learning(least=1000).passes(90, wanted=3), Learning(least=1000).passes(90, wanted=1)
        (12, 1)
        """
        if wanted == 1:
            return 1  # it gathers the examples, and has no use for more of the same
        return max(wanted, min(MOST_PASSES, -(-self.least // max(examples, 1))))

    def new_base(self) -> BaseModel:
        """An untrained base model."""
        return base_model(self.base, **{**BETTER.get(self.base, {}), **self.options})

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self) | {"options": dict(self.options)}


@dataclass(frozen=True, slots=True)
class Source:
    """One knowledge base to learn from."""

    evaluator: Evaluator
    examples: Examples
    kinds: Ints
    """Shape (features,), int32: the kind of each feature of the evaluator."""

    @property
    def uncertain(self) -> bool:
        """Whether facts have confidences, so that they drop out."""
        return any(table.confidence is not None for table in self.evaluator.graph.kb.tables.values())

    def matrix(self, tuples: Ints, sampling: Sampling, hidden: Hidden | None, threads: int | None) -> FeatureMatrix:
        """Features of training neighbourhoods."""
        return self.evaluator.sampled(tuples, sampling, hidden, dropping=self.uncertain, threads=threads)


class Watch:
    """What looks on while something is learnt: this one does nothing. Whoever raises from `block` stops the work."""

    def saved(self) -> tuple[Mapping[str, npt.NDArray[Any]], Mapping[str, Any]] | None:
        """Where an earlier run of the same work stood."""
        return None

    def begins(self, total: int, done: int) -> None:
        """So many examples will be learnt from, about, of which some are done."""

    def block(self, examples: int, state: Callable[[], tuple[Arrays, dict[str, Any]]]) -> None:
        """So many more examples were learnt from; `state` is where the work stands."""

    def passed(self, number: int, loss: float, held: float | None) -> None:
        """A pass is done: its mean loss, and that on held-out tuples where it is known."""


@dataclass(frozen=True, slots=True)
class Scorer:
    """What was learnt for one query."""

    inputs: Inputs
    base: BaseModel
    losses: tuple[float, ...] = ()
    """The mean cross-entropy of each pass."""

    def raw(self, matrix: FeatureMatrix) -> Floats:
        """The base model's probability for each neighbourhood."""
        return self.base.probabilities(self.inputs.rows(matrix))

    def means(self, matrix: FeatureMatrix, draws: int) -> tuple[Floats, Floats]:
        """For each tuple: the mean over its draws, and the standard error of that; NaN for a single draw."""
        each = self.raw(matrix).reshape(-1, draws)
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

    def __init__(self, sources: Sequence[Source], learning: Learning, base: BaseModel, threads: int | None = 1) -> None:
        self.sources, self.learning, self.base, self.threads = sources, learning, base, threads
        self._collection = Collection([source.examples for source in sources])
        features = [source.evaluator.plan.features for source in sources]
        if any(other != features[0] for other in features):
            raise KnowledgeError("knowledge bases that are learnt from together have the same features, in one order")

    @property
    def examples(self) -> int:
        """Neighbourhoods in one pass, about: corruptions that cannot be found are fewer."""
        count = sum(len(source.examples.training) for source in self.sources)
        return count * (self.learning.positives + self.learning.negatives)

    @property
    def passes(self) -> int:
        """How often all examples are gone through: more often than the base model wants where they are few."""
        return self.learning.passes(self.examples, self.base.passes)

    def survey(self) -> Inputs:
        """Which features occur around answers and corruptions, and how large they are."""
        surveyor, seen = Surveyor(self.sources[0].kinds), 0
        for number, block in self._collection.blocks(epoch=0):
            few = block.corrupted[_first(block, LOOKS)], block.unseen.of(_first(block, LOOKS))
            for tuples, hidden in ((block.answers, block.hidden), few):
                sampling = self.learning.sampling(1, "survey")
                surveyor.see(self.sources[number].matrix(tuples, sampling, hidden, self.threads))
            seen += len(block.answers)
            if seen >= SURVEYED:
                break
        return surveyor.inputs(self.learning.rare)

    def train(self, watch: Watch | None = None) -> Scorer:
        """Learn, or go on where the watch says that it was stopped."""
        watch = watch or Watch()
        inputs = self.survey()
        progress = _Progress(self.base, inputs.width, self.learning.seed, watch.saved())
        watch.begins(self.examples * self.passes, self.examples * progress.passed + progress.seen)
        while progress.passed < self.passes and not progress.enough(self.learning.patience):
            for batch in self.batches(inputs, progress.passed, progress.block):
                count = len(batch.rows)
                progress.learn(batch)
                del batch  # before the next is made
                watch.block(count, progress.state)
            self.base.pass_done()  # some can say nothing before
            held = self._held_loss(inputs) if self.learning.patience else None
            progress.pass_done(held)
            watch.passed(progress.passed, progress.losses[-1], held)
        progress.best_again()
        return Scorer(inputs, self.base, tuple(progress.losses))

    def batches(self, inputs: Inputs, epoch: int, first: int = 0) -> Iterator[Batch]:
        """The blocks of a pass as shuffled rows, from one on."""
        for at, (number, block) in enumerate(self._collection.blocks(epoch, first), start=first):
            yield self._batch(inputs, self.sources[number], block, epoch, at)

    def _batch(self, inputs: Inputs, source: Source, block: Block, epoch: int, at: int) -> Batch:
        many = self.learning.sampling(self.learning.positives, f"train {epoch}")
        one = self.learning.sampling(1, f"train {epoch}")
        answers = source.matrix(block.answers, many, block.hidden, self.threads)
        others = source.matrix(block.corrupted, one, block.unseen, self.threads)
        targets = np.concatenate([np.repeat(block.targets, self.learning.positives), np.zeros(len(others), np.float32)])
        keys = joined(start(self.learning.seed, "shuffle", epoch, at), np.arange(len(targets)))
        order = np.argsort(keys, kind="stable")
        return Batch(inputs.rows(stacked(answers, others), order), targets[order])

    def held_out(self, scorer: Scorer) -> HeldOut:
        """What the model says of the held-out tuples and as many corruptions, each with the draws of an answer."""
        means, targets = [np.zeros(0)], [np.zeros(0)]
        for source in self.sources:
            block = source.examples.held_out()
            for tuples, hidden, wanted in _both(block):
                sampling = self.learning.sampling(self.learning.draws, "held out")
                matrix = source.evaluator.sampled(tuples, sampling, hidden, threads=self.threads)
                means.append(scorer.means(matrix, self.learning.draws)[0])
                targets.append(wanted)
        return HeldOut(np.concatenate(means), np.concatenate(targets))

    def _held_loss(self, inputs: Inputs) -> float:
        """The mean cross-entropy of held-out tuples by one draw each, as they are weighted in training."""
        losses, weights = [np.zeros(0)], [np.zeros(0)]
        for source in self.sources:
            for tuples, hidden, wanted in _both(source.examples.held_out()):
                matrix = source.evaluator.sampled(
                    tuples, self.learning.sampling(1, "stop"), hidden, threads=self.threads
                )
                p = np.clip(self.base.probabilities(inputs.rows(matrix)), 1e-12, 1 - 1e-12)
                losses.append(-(wanted * np.log(p) + (1 - wanted) * np.log(1 - p)))
                weights.append(np.full(len(p), self.learning.positives if wanted.any() else self.learning.negatives))
        total = np.concatenate(weights)
        return float(np.average(np.concatenate(losses), weights=total)) if total.sum() else float("nan")


def _first(block: Block, count: int) -> npt.NDArray[np.int64]:
    """Rows of the first corruptions of each answer."""
    starts = np.searchsorted(block.sources, np.arange(len(block.answers)))
    rank = np.arange(len(block.sources)) - starts[block.sources]
    return np.flatnonzero(rank < count)


def _both(block: Block) -> Iterator[tuple[Ints, Hidden, Floats]]:
    yield block.answers, block.hidden, block.targets.astype(np.float64)
    yield block.corrupted, block.unseen, np.zeros(len(block.corrupted))


def stacked(one: FeatureMatrix, other: FeatureMatrix) -> FeatureMatrix:
    """The rows of two matrices of the same features, one after another."""
    widest = max(one.defaults.shape[1], other.defaults.shape[1])
    defaults = np.zeros((len(one.defaults), widest), np.float32)
    for matrix in (one, other):  # each knows the defaults of its own sizes, and perhaps of no others
        sizes = np.unique(matrix.sizes)
        defaults[:, sizes] = matrix.defaults[:, sizes]
    return FeatureMatrix(
        np.append(one.starts, other.starts[1:] + one.starts[-1]),
        np.concatenate([one.ids, other.ids]),
        np.concatenate([one.values, other.values]),
        np.concatenate([one.sizes, other.sizes]),
        one.shapes,
        defaults,
    )


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
        self.passed = self.block = self._count = self._worse = 0
        self._sum, self.losses, self._best = 0.0, list[float](), float("inf")
        self._kept: Arrays = {}
        base.begin(width, seed)
        if saved:
            arrays, meta = saved
            self.passed, self.block, self._count, self._worse = meta["at"]
            self._sum, self._best = _known(meta["sums"][0], np.nan), _known(meta["sums"][1], np.inf)
            self.losses = [_known(loss, np.nan) for loss in meta["losses"]]
            base.restore({name[2:]: array for name, array in arrays.items() if name.startswith("m ")})
            self._kept = {name[2:]: array for name, array in arrays.items() if name.startswith("b ")}

    @property
    def seen(self) -> int:
        """Examples of the pass that is going on."""
        return self._count

    def learn(self, batch: Batch) -> None:
        self._sum += self._base.learn(batch) * len(batch.rows)
        self._count += len(batch.rows)
        self.block += 1

    def state(self) -> tuple[Arrays, dict[str, Any]]:
        arrays = {f"m {name}": array for name, array in self._base.state(whole=True).items()}
        arrays |= {f"b {name}": array for name, array in self._kept.items()}
        at = [self.passed, self.block, self._count, self._worse]
        return arrays, {"at": at, "sums": _sayable([self._sum, self._best]), "losses": _sayable(self.losses)}

    def pass_done(self, held: float | None) -> None:
        self.losses.append(self._sum / max(self._count, 1))
        self.passed, self.block, self._sum, self._count = self.passed + 1, 0, 0.0, 0
        if held is None or np.isnan(held):
            return
        if held < self._best:
            self._best, self._worse, self._kept = held, 0, self._base.state()
        else:
            self._worse += 1

    def enough(self, patience: int) -> bool:
        return patience > 0 and self._worse >= patience

    def best_again(self) -> None:
        if self._kept:
            self._base.restore(self._kept)


def _sayable(numbers: Sequence[float]) -> list[float | None]:
    """As JSON can hold them: a loss that is not known yet is None."""
    return [number if np.isfinite(number) else None for number in numbers]


def _known(number: float | None, otherwise: float) -> float:
    return otherwise if number is None else number

"""Knowledge bases, evaluators and base models for tests of training."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from gaifman.config import SamplingConfig
from gaifman.features.compiler import compile_features
from gaifman.features.evaluator import FeatureEvaluator, FeatureMatrix, Reals
from gaifman.features.feature_sets import named_feature_set, parse_phi
from gaifman.io.model_file import Arrays
from gaifman.kb.gaifman_graph import build_graph
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.kb.tables import Floats
from gaifman.logic.parser import parse_query
from gaifman.models.base import BaseModel, Batch, SparseRows, State
from gaifman.models.mlp import MLP
from gaifman.models.scaling import feature_kinds
from gaifman.sampling.examples import TrainingExamples
from gaifman.sampling.hiding import HiddenFacts
from gaifman.training import Callback, Trainer, TrainingConfig, TrainingSource

Saved = tuple[Arrays, dict[str, Any]]
SMALL = TrainingConfig(positives=2, negatives=3, min_examples=0, min_feature_count=1, size=6)


def people(count: int = 60, towns: int = 6, prefix: str = "") -> KnowledgeBase:
    """People who live, work and know each other: most live where they work."""
    facts = []
    for i in range(count):
        facts.append(("lives_in", f"{prefix}p{i:03d}", f"{prefix}t{i % towns}"))
        facts.append(("works_in", f"{prefix}p{i:03d}", f"{prefix}t{(i if i % 7 else i + 1) % towns}"))
        facts.append(("knows", f"{prefix}p{i:03d}", f"{prefix}p{(i * 5 + 3) % count:03d}"))
    return KnowledgeBase.from_facts([*facts, *(("town", f"{prefix}t{i}") for i in range(towns))])


@dataclass(frozen=True)
class Seen:
    """The arguments and the result of an evaluator."""

    purpose: str
    tuples: npt.NDArray[np.int32]
    draws: int
    matrix: FeatureMatrix
    dropping: bool


class Recorder(FeatureEvaluator):
    """An evaluator that records its calls."""

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self.seen: list[Seen] = []

    def sample_and_evaluate(
        self,
        tuples: npt.ArrayLike,
        sampling: SamplingConfig,
        hidden: HiddenFacts | None = None,
        *,
        drop_uncertain: bool = True,
        threads: int | None = None,
    ) -> FeatureMatrix:
        found = super().sample_and_evaluate(tuples, sampling, hidden, drop_uncertain=drop_uncertain, threads=threads)
        self.seen.append(Seen(sampling.purpose, np.asarray(tuples), sampling.draws, found, drop_uncertain))
        return found

    def values(self, feature: str, purpose: str) -> list[tuple[tuple[int, ...], float]]:
        """The tuple and the feature's value of every neighbourhood drawn for a purpose."""
        column = [str(one) for one in self.plan.features].index(feature)
        found: list[tuple[tuple[int, ...], float]] = []
        for seen in self.seen:
            if seen.purpose.startswith(purpose):
                tuples = np.repeat(seen.tuples, seen.draws, axis=0).tolist()
                found += zip(map(tuple, tuples), seen.matrix.to_dense()[:, column].tolist(), strict=True)
        return found


def source(
    kb: KnowledgeBase,
    config: TrainingConfig = SMALL,
    query: str = "lives_in(x, y)",
    phi: str = "paper",
    block: int = 16,
    features: Callable[..., FeatureEvaluator] = FeatureEvaluator,
) -> TrainingSource:
    """A knowledge base ready for training; `phi` is a name or the features themselves."""
    graph, question = build_graph(kb), parse_query(query, kb)
    arities = {name: relation.arity for name, relation in kb.relations.items()}
    width = len(question.variables)
    expected = named_feature_set(phi, width, arities) if phi in ("paper", "default") else parse_phi(phi, kb)
    recipe = replace(config, block_size=block)
    plan = compile_features(expected, kb, width)
    return TrainingSource(
        features(graph, plan), TrainingExamples(graph.kb, question, recipe), feature_kinds(plan.features)
    )


def trainer(
    given: TrainingSource | Sequence[TrainingSource],
    config: TrainingConfig = SMALL,
    base: BaseModel | None = None,
    threads: int = 1,
) -> Trainer:
    sources = [given] if isinstance(given, TrainingSource) else given
    return Trainer(sources, config, base or MLP([8], epochs=3, batch_size=16), threads)


class Stopped(Exception):
    """Raised by a callback."""


@dataclass
class Notes(Callback):
    """A callback that records everything, stops after some blocks, and resumes from an earlier one.

    Its checkpoints pass through JSON and copies, as through a file.
    """

    stop_after: int = -1
    start: Saved | None = None
    kept: Saved | None = None
    begun: list[tuple[int, int]] = field(default_factory=list)
    blocks: list[int] = field(default_factory=list)
    epochs: list[tuple[int, float, float | None]] = field(default_factory=list)

    def load_checkpoint(self) -> tuple[Mapping[str, npt.NDArray[Any]], Mapping[str, Any]] | None:
        return self.start

    def on_train_begin(self, total: int, done: int) -> None:
        self.begun.append((total, done))

    def on_block(self, examples: int, state: Callable[[], Saved]) -> None:
        self.blocks.append(examples)
        if len(self.blocks) == self.stop_after:
            arrays, meta = state()
            copies = {name: np.array(array) for name, array in arrays.items()}
            self.kept = copies, json.loads(json.dumps(meta, allow_nan=False))
            raise Stopped

    def on_epoch_end(self, number: int, loss: float, held: float | None) -> None:
        self.epochs.append((number, loss, held))


class Scripted(BaseModel):
    """Predicts the value that is given for the last epoch."""

    kind = "scripted"

    def __init__(self, said: Sequence[float], epochs: int | None = None) -> None:
        self.said = list(said)
        self.epochs = epochs or len(said)
        self.reset(0, 0)

    def reset(self, width: int, seed: int) -> None:
        self.done, self.learnt = 0, 0

    def fit_batch(self, batch: Batch) -> float:
        self.learnt += len(batch.rows)
        return 0.5

    def end_epoch(self) -> None:
        self.done += 1

    def probabilities(self, rows: SparseRows) -> Floats:
        return np.full(len(rows), self.said[self.done - 1])

    def embed(self, rows: SparseRows) -> Reals:
        return np.zeros((len(rows), 1), np.float32)

    def settings(self) -> Mapping[str, Any]:
        return {"said": self.said, "epochs": self.epochs}

    def state(self, *, resumable: bool = False) -> State:
        return {"done": np.array([self.done])} | ({"learnt": np.array([self.learnt])} if resumable else {})

    def restore(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        self.done = int(state["done"][0])
        self.learnt = int(state["learnt"][0]) if "learnt" in state else self.learnt

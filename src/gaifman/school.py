"""Learning many relations of one knowledge base abreast.

Each relation is learnt by one thread, so the result does not hang on how many threads there are.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt

from gaifman.completion import Completion, RelationModel, relation_query
from gaifman.errors import KnowledgeBaseError
from gaifman.features.compiler import compile_features
from gaifman.features.evaluator import FeatureEvaluator
from gaifman.features.feature_sets import FeatureSet, resolve_feature_set
from gaifman.kb.gaifman_graph import GaifmanGraph, build_graph
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.kb.tables import Ints
from gaifman.learning import Arrays, Callback, HeldOut, Scorer, Trainer, TrainingConfig, TrainingSource
from gaifman.logic.ast import Feature, free_variables, query_position
from gaifman.logic.names import similar_names
from gaifman.models.calibration import fit_calibration
from gaifman.models.mlp import BaseModel
from gaifman.models.scaling import feature_kinds
from gaifman.parts import HeldOutReport, auc, losses_as_json, scorer_arrays, scorer_from_arrays, training_metadata
from gaifman.sampling.constraints import Constraints
from gaifman.sampling.examples import TrainingExamples

MIN_FACTS = 2
"""Answers a relation must have to be learnt."""


class PartStore:
    """Where the work on relations is written down: this one keeps all in memory and watches nothing."""

    def load(self, relation: str) -> RelationModel | None:
        """What was learnt of a relation before."""
        return None

    def save(self, relation: str, part: RelationModel) -> None:
        """A relation is learnt."""

    def callback(self, relation: str) -> Callback:
        """What looks on while a relation is learnt."""
        return Callback()


def complete(
    kb: KnowledgeBase,
    relations: Iterable[str] | None = None,
    *,
    phi: str | FeatureSet = "default",
    constraints: Constraints | None = None,
    threads: int | None = None,
    store: PartStore | None = None,
    **settings: Any,
) -> Completion:
    """Learn every relation of a knowledge base, or some. The settings are those of `TrainingConfig`."""
    named = phi if isinstance(phi, str) else phi.name or "given"
    learning = TrainingConfig.from_settings({"phi": named, **settings})
    names = _check_relations(kb, relations)
    school = RelationTrainer(build_graph(kb), phi, learning, constraints)
    parts = school.train_all(names, threads or len(os.sched_getaffinity(0)), store or PartStore())
    return school.build_completion(names, parts)


def _check_relations(kb: KnowledgeBase, relations: Iterable[str] | None) -> list[str]:
    if isinstance(relations, str):
        raise KnowledgeBaseError(f"several relations are meant: write [{relations!r}], not {relations!r}")
    names = sorted(kb.relations) if relations is None else sorted(set(relations))
    for name in names:
        if name not in kb.relations:
            raise KnowledgeBaseError(f"there is no relation {name}", suggestions=similar_names(name, kb.relations))
    if not names:
        raise KnowledgeBaseError("the knowledge base has no relations to learn")
    return names


class RelationTrainer:
    """Learns relations of one knowledge base; what they share is made once."""

    def __init__(
        self, graph: GaifmanGraph, phi: str | FeatureSet, config: TrainingConfig, constraints: Constraints | None
    ) -> None:
        self.graph, self.phi, self.config, self.constraints = graph, phi, config, constraints
        self._prepared: dict[int, tuple[FeatureEvaluator, Ints]] = {}
        self._lock = threading.Lock()

    def evaluator_and_kinds(self, arity: int) -> tuple[FeatureEvaluator, Ints]:
        """The features of tuples of so many objects, made ready once, and their kinds."""
        with self._lock:
            if arity not in self._prepared:
                kb = self.graph.kb
                arities = {name: relation.arity for name, relation in kb.relations.items()}
                plan = compile_features(
                    _features_of_arity(resolve_feature_set(self.phi, arity, arities, kb.attributes, kb), arity),
                    kb,
                    arity,
                )
                self._prepared[arity] = FeatureEvaluator(self.graph, plan), feature_kinds(plan.features)
            return self._prepared[arity]

    def train_all(self, names: Sequence[str], threads: int, store: PartStore) -> dict[str, RelationModel]:
        """What is learnt of each relation: the largest first, so that no thread is left with one at the end."""
        kb = self.graph.kb
        waiting = iter(sorted(names, key=lambda name: (-kb.relations[name].count, name)))
        found: dict[str, RelationModel] = {}
        failed = threading.Event()

        def work() -> None:
            try:
                for name in waiting:
                    if failed.is_set():
                        return
                    part = store.load(name)
                    if part is None:
                        part = self.train(name, store.callback(name))
                        store.save(name, part)
                    found[name] = part
            except BaseException:
                failed.set()  # what one thread cannot do, the others need not go on for
                raise

        if threads < 2:
            work()
        else:
            with ThreadPoolExecutor(threads) as pool:
                for future in [pool.submit(work) for _ in range(threads)]:
                    future.result()
        return found

    def train(self, name: str, callback: Callback) -> RelationModel:
        """Learn one relation; where that cannot be, only say so."""
        relation = self.graph.kb.relations[name]
        about: dict[str, Any] = {"name": name, "arity": relation.arity, "answers": relation.count, "trained": False}
        if relation.count < MIN_FACTS:
            return {}, about | {"why": "fewer than two facts"}
        examples = TrainingExamples(
            self.graph, relation_query(name, relation.arity), self.config.example_config(), self.constraints
        )
        if self.config.negatives and not len(next(examples.blocks(0)).negatives):
            return {}, about | {"why": "every tuple is known"}
        evaluator, kinds = self.evaluator_and_kinds(relation.arity)
        if not len(kinds):
            return {}, about | {"why": "no feature fits"}
        trainer = Trainer([TrainingSource(evaluator, examples, kinds)], self.config, self.config.make_base_model())
        scorer = trainer.train(callback)
        held = trainer.held_out(scorer)
        arrays = scorer_arrays(scorer) | {"held/means": held.means, "held/targets": held.targets}
        area = auc(held.means, held.targets)
        measured = {"held_out": len(held.means), "auc": None if area is None else round(area, 6)}
        return arrays, about | {"trained": True, "losses": losses_as_json(scorer), **measured}

    def build_completion(self, names: Sequence[str], parts: Mapping[str, RelationModel]) -> Completion:
        """All parts as one, with one calibration for all: a small relation has too few held-out tuples for its own."""
        trained = {name: arrays for name in names if (arrays := parts[name][0])}
        held = HeldOut(
            *(_concatenate(trained.values(), f"held/{field}", np.zeros(0)) for field in ("means", "targets"))
        )
        trust = HeldOutReport.of(held, self.config.negative_ratio)
        calibration = fit_calibration(held.means, held.targets, ratio=self.config.negative_ratio)
        kb = self.graph.kb
        arities = {name: kb.relations[name].arity for name in names}
        scorers: dict[str, Scorer] = {}
        features: dict[int, tuple[Feature, ...]] = {}
        for width in sorted({arities[name] for name in trained}):
            own = {name: arrays for name, arrays in trained.items() if arities[name] == width}
            used = np.unique(_concatenate(own.values(), "inputs/features", np.zeros(0, np.int32)))
            evaluator, kinds = self.evaluator_and_kinds(width)
            features[width] = tuple(evaluator.plan.features[number] for number in used.tolist())
            scorers |= {
                name: _renumber_features(arrays, used, kinds[used], self.config.make_base_model())
                for name, arrays in own.items()
            }
        meta: dict[str, Any] = {"kind": "completion", "relations": [parts[name][1] for name in names]}
        meta |= training_metadata(self.config, self.config.make_base_model(), [kb])
        meta["features"] = sum(map(len, features.values()))
        meta["metrics"] = {"answers": sum(kb.relations[name].count for name in names), **trust.metrics()}
        meta["calibration"] = trust.reliability_table()
        return Completion(self.config, arities, features, scorers, calibration, meta, kb, trust)


def _features_of_arity(features: FeatureSet, arity: int) -> FeatureSet:
    """Without the features that speak of more objects: one set serves relations of all arities."""
    own = tuple(f for f in features if all(query_position(variable) <= arity for variable in free_variables(f)))
    return FeatureSet(own, features.name)


def _concatenate(parts: Iterable[Arrays], name: str, none: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """One array of all parts, one after another."""
    return np.concatenate([none, *(arrays[name] for arrays in parts)])


def _renumber_features(arrays: Arrays, used: Ints, kinds: Ints, base: BaseModel) -> Scorer:
    """A scorer whose features are numbered among those that are used."""
    numbered = np.searchsorted(used, arrays["inputs/features"]).astype(np.int32)
    return scorer_from_arrays(arrays | {"inputs/features": numbered}, kinds, base)

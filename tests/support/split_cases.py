"""Random knowledge bases and models for fast scoring."""

from __future__ import annotations

import numpy as np

from gaifman.features.compiler import compile_features
from gaifman.features.evaluator import FeatureEvaluator
from gaifman.features.feature_sets import FEATURE_SET_NAMES, FeatureSet, named_feature_set, parse_phi
from gaifman.kb.gaifman_graph import build_graph
from gaifman.kb.knowledge_base import Fact, KnowledgeBase
from gaifman.logic.ast import relation_query
from gaifman.models.calibration import Calibration
from gaifman.models.mlp import MLP
from gaifman.models.scaling import FeatureStatistics, feature_kinds
from gaifman.predict import NetworkPredictor
from gaifman.training import Scorer, TrainingConfig


def town(seed: int, people: int = 40, facts: int = 160, wide: bool = True, uncertain: bool = False) -> KnowledgeBase:
    """Random facts with hubs, types, loops and objects without facts; `wide` adds relations of arity 3."""
    rng = np.random.default_rng(seed)
    names = [f"o{i:02}" for i in range(people)]
    skewed = np.minimum((rng.pareto(0.8, (facts, 2)) * 3).astype(int), people - 1)
    found: set[tuple[str, ...]] = {(f"r{rng.integers(3)}", names[a], names[b]) for a, b in skewed.tolist()}
    found |= {("old", name) for name in names[::3]}
    if wide:
        found |= {("gave", names[a], names[b], names[a * 7 % people]) for a, b in skewed[:30].tolist()}
    confidences = rng.choice([0.1, 0.5, 0.9, 1.0], len(found)) if uncertain else np.ones(len(found))
    known = [Fact(row[0], row[1:], float(c)) for row, c in zip(sorted(found), confidences, strict=True)]
    return KnowledgeBase.from_facts(known, objects=[*names, "zoe", "nil"])


def ready(kb: KnowledgeBase, phi: str, config: TrainingConfig, base: MLP) -> tuple[NetworkPredictor, Scorer]:
    """A predictor with random weights over all features that occur, and its scorer."""
    relations = {name: relation.arity for name, relation in kb.relations.items()}
    chosen = named_feature_set(phi, 2, relations) if phi in FEATURE_SET_NAMES else parse_phi(phi, unknown_objects=True)
    features = chosen.expand(relations, 2)
    evaluator = FeatureEvaluator(build_graph(kb), compile_features(FeatureSet(features), kb, 2))
    statistics = FeatureStatistics(feature_kinds(features))
    count = len(evaluator.graph)
    pairs = np.stack(np.meshgrid(np.arange(count), np.arange(count)), axis=2).reshape(-1, 2).astype(np.int32)
    statistics.update(evaluator.sample_and_evaluate(pairs, config.sampling(1, "survey")))
    scaler = statistics.make_scaler(min_feature_count=1)
    base.reset(scaler.width, 3)
    scorer = Scorer(scaler, base)
    query, calibration = relation_query("r0", 2), Calibration.identity()
    return NetworkPredictor(query, evaluator.graph.kb, config, evaluator, scorer, calibration), scorer

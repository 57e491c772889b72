"""Models of numeric attributes: 0, the mean and a missing number are three things."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gaifman
from gaifman.config import SamplingConfig
from gaifman.features.compiler import compile_features
from gaifman.features.evaluator import FeatureEvaluator
from gaifman.features.feature_sets import parse_phi
from gaifman.kb.gaifman_graph import build_graph
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.model import GaifmanModel
from gaifman.sampling.hiding import HiddenFacts

OBJECTS = [f"o{i:03}" for i in range(240)]
GOOD = OBJECTS[::2]
LEFT_OUT = GOOD[::4]


def knowledge(values: dict[str, float]) -> KnowledgeBase:
    """Half of the objects are good, of which a quarter is left out. Each has a random link, and perhaps a value."""
    rng = random.Random(0)
    links = [("link", name, rng.choice(OBJECTS)) for name in OBJECTS]
    facts = [*links, *(("good", name) for name in GOOD if name not in LEFT_OUT)]
    return KnowledgeBase.from_facts(facts, {("flag", name): value for name, value in values.items()}, OBJECTS)


def fitted(values: dict[str, float], **settings: Any) -> GaifmanModel:
    return gaifman.fit(knowledge(values), "good(x)", min_examples=6_000, seed=1, **{"base": "mlp"} | settings)


def auc(model: GaifmanModel) -> float:
    """The share of pairs of a left-out good object and one that is not good that are in the right order."""
    good, other = (
        np.array([float(model.probability(name)) for name in names])
        for names in (LEFT_OUT, [name for name in OBJECTS if name not in GOOD])
    )
    return float((good[:, None] > other).mean() + (good[:, None] == other).mean() / 2)


@pytest.mark.parametrize("base", ["mlp", "logistic"])
def test_a_perfect_attribute_of_0_and_1_is_learned(base: str) -> None:
    """0 counted as missing, and missing as the mean of the others, which was 1: the AUC was 0.5."""
    assert auc(fitted({name: float(name in GOOD) for name in OBJECTS}, base=base)) > 0.9
    assert auc(fitted({name: float(name not in GOOD) for name in OBJECTS}, base=base)) > 0.9


def test_a_missing_number_is_neither_0_nor_1() -> None:
    rng = random.Random(3)
    known = {name: float(name in GOOD) for name in OBJECTS if rng.random() < 0.7}
    model = fitted(known)
    assert auc(model) > 0.75
    found = {name: float(model.probability(name)) for name in OBJECTS}
    groups = [[found[name] for name in OBJECTS if known.get(name) == value] for value in (0.0, None, 1.0)]
    low, missing, high = (float(np.mean(group)) for group in groups)
    assert low + 0.15 < missing < high - 0.15


def test_whether_a_number_is_known_is_learned() -> None:
    rng = random.Random(4)
    model = fitted({name: rng.choice([-1.0, 0.0, 1.0]) for name in GOOD})
    assert auc(model) > 0.95
    reasons = {reason.feature: reason for reason in model.explain(GOOD[0]).reasons}
    assert reasons["flag(s1)"].effect > 1, "the value and whether it is known have one effect"
    assert [*reasons].count("flag(s1)") == 1


def test_a_model_of_numbers_survives_its_file(tmp_path: Path) -> None:
    rng = random.Random(5)
    model = fitted({name: float(name in GOOD) for name in OBJECTS if rng.random() < 0.5})
    model.save(tmp_path / "good.gaifman")
    again = gaifman.load(tmp_path / "good.gaifman", knowledge(dict.fromkeys(OBJECTS[:9], 0.0) | {"o239": 1.0}))
    same = gaifman.load(tmp_path / "good.gaifman", model.kb)
    for name in OBJECTS[::17]:
        assert same.probability(name) == model.probability(name)
    assert float(again.probability("o239")) > float(again.probability("o200")) > float(again.probability("o001"))


def test_hidden_values_are_missing() -> None:
    kb = knowledge({"o000": 0.0, "o001": 1.0, "o002": 5.0})
    texts = "flag(s1)\nflag(s2)\nflag(s1) - flag(s2)\nsum flag(x) for x = s1\nflag(s1) < 3\nmax flag(x) for x = x"
    plan, graph = compile_features(parse_phi(texts, kb), kb, 2), build_graph(kb)
    pair = [[0, 1]]
    for specialised in (True, False):
        evaluator = FeatureEvaluator(graph, plan, use_templates=specialised)
        found = [
            evaluator.sample_and_evaluate(pair, SamplingConfig(radius=0), hidden).to_dense()[0].tolist()
            for hidden in (None, HiddenFacts.one_per_tuple(np.array([kb.value_id("flag", 0)])))
        ]
        assert found[0] == [0, 1, -1, 0, 1, 1]
        assert found[1] == pytest.approx([np.nan, 1, np.nan, 0, 0, 1], nan_ok=True)

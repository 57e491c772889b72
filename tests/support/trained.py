"""Small knowledge bases that can be learned, and settings that train quickly."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

import gaifman
from gaifman.completion import Completion
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.logic.ast import Query
from gaifman.model import GaifmanModel
from gaifman.predict import Estimates, FallbackPredictor, NetworkPredictor, Predictor
from gaifman.training import TrainingConfig

FEW: dict[str, Any] = {
    "options": {"epochs": 1, "hidden": [8]},
    "min_examples": 0,
    "size": 4,
    "positives": 2,
    "negatives": 4,
    "draws": 4,
}
"""As little work as possible."""
GOOD: dict[str, Any] = {**FEW, "options": {"epochs": 20, "hidden": [8], "learning_rate": 0.2, "dropout": 0.0}}
"""Enough to learn the rules of `towns`."""


def towns(count: int = 40, prefix: str = "", *, sure: bool = True) -> KnowledgeBase:
    """People work where they live, except every eighth; they are citizens of the town's country."""
    facts: list[tuple[Any, ...]] = []
    values = {}
    for i in range(count):
        person, town = f"{prefix}p{i:02d}", f"{prefix}t{i % 5}"
        facts += [("person", person), ("lives_in", person, town), ("citizen", person, f"{prefix}c{i % 5 % 2}")]
        facts.append(("works_in", person, town if i % 8 else f"{prefix}t{(i + 1) % 5}"))
        if i % 3 == 0:
            facts.append(("moved", person, f"{prefix}t{(i + 2) % 5}", town))
        values["age", person] = float(20 + i)
    facts += [("town_of", f"{prefix}t{i}", f"{prefix}c{i % 2}") for i in range(5)]
    if not sure:
        known = [gaifman.Fact(name, tuple(objects), 0.5 if name == "works_in" else 1.0) for name, *objects in facts]
        return KnowledgeBase.from_facts(known, values)
    return KnowledgeBase.from_facts(facts, values)


def untrained_predictor(kb: KnowledgeBase, query: Query) -> FallbackPredictor:
    """A predictor without a trained model."""
    return FallbackPredictor(query, kb, TrainingConfig())


def network(predictor: Predictor) -> NetworkPredictor:
    """The predictor, which is that of a network."""
    assert isinstance(predictor, NetworkPredictor)
    return predictor


def same(one: Estimates, other: Estimates) -> bool:
    """Bit for bit."""
    fields = ("values", "errors", "draws")
    return all(np.array_equal(getattr(one, f), getattr(other, f), equal_nan=True) for f in fields)


@cache
def worker() -> GaifmanModel:
    """A model that predicts where people work."""
    return gaifman.fit(towns(), "works_in(x, y)", **GOOD)


@cache
def little() -> GaifmanModel:
    """The same with as little training as possible."""
    return gaifman.fit(towns(), "works_in(x, y)", **FEW)


@cache
def demo() -> KnowledgeBase:
    """The bundled knowledge base."""
    return gaifman.demo()


@cache
def neighbour() -> GaifmanModel:
    """A model of the demo's borders, with a fitted calibration."""
    return gaifman.fit(demo(), "borders(x, y)", **FEW)


@cache
def completion_with_likes() -> Completion:
    """A completion of five relations; `likes` has one fact."""
    kb = towns().with_facts([("likes", "p00", "p01")])
    return gaifman.complete(kb, ["works_in", "citizen", "person", "moved", "likes"], **GOOD)


@cache
def completion_with_mayor() -> Completion:
    """A completion of relations of arity 1, 2 and 3; `mayor` has one fact."""
    kb = towns().with_facts([("mayor", "p01", "t1")])
    return gaifman.complete(kb, ["works_in", "person", "moved", "mayor"], **GOOD)

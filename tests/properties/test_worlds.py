"""Possible worlds: which facts are present, and that means over draws approach expectations over all worlds."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gaifman.config import SamplingConfig
from gaifman.features.compiler import compile_features
from gaifman.features.evaluator import FeatureEvaluator
from gaifman.features.feature_sets import FeatureSet
from gaifman.kb.gaifman_graph import build_graph
from gaifman.kb.knowledge_base import Fact, KnowledgeBase
from gaifman.kb.tables import freeze
from gaifman.models.mlp import MLP
from gaifman.sampling.hiding import HiddenFacts
from gaifman.sampling.rng import draw_keys, fold_in, mix
from gaifman.sampling.worlds import WORLD_PURPOSE, World, world_keys, worlds_of_tuple
from gaifman.training import TrainingConfig
from kbs import confidences, knowledge_bases, plain_names
from split_cases import ready, town

OBJECTS = ("a", "b", "c")
GAMMA = np.uint64(0x9E3779B97F4A7C15)


def is_present(kb: KnowledgeBase, key: np.uint64, fact: int) -> bool:
    """By definition: 53 random bits of the key and the fact, below the confidence."""
    word = mix(fold_in(key | np.uint64(1), np.array([fact])) + GAMMA)[0]
    return float(word >> np.uint64(11)) / 2**53 < kb.fact_by_id(fact).confidence


@given(kb=knowledge_bases(names=plain_names), seed=st.integers(0, 1000), shared=st.booleans())
def test_presence_equals_the_definition(kb: KnowledgeBase, seed: int, shared: bool) -> None:
    if not len(kb.objects):
        return
    sampling = SamplingConfig(draws=3, seed=seed, shared_order=shared)
    objects = np.array([0, len(kb.objects) - 1], np.int32)
    for draw, world in enumerate(worlds_of_tuple(build_graph(kb), sampling, objects)):
        key = fold_in(draw_keys(sampling)[draw], np.array([WORLD_PURPOSE]))
        for obj in () if shared else objects:
            key = fold_in(key, np.array([obj]))
        facts = np.arange(len(kb))
        assert world.present(facts).tolist() == [is_present(kb, key[0], fact) for fact in range(len(kb))]
        assert world.absent(facts).tolist() == facts[~world.present(facts)].tolist()


@given(kb=knowledge_bases(names=plain_names, isolated=True), seed=st.integers(0, 1000))
def test_the_arrays_of_a_world_have_its_facts_alone(kb: KnowledgeBase, seed: int) -> None:
    graph = build_graph(kb)
    world = World(graph, world_keys(SamplingConfig(seed=seed))[0])
    found, whole = world.arrays, graph.arrays
    present = set(np.flatnonzero(world.present(np.arange(len(kb)))).tolist())
    assert found.graph.neighbours.tolist() == whole.graph.neighbours.tolist(), "edges keep their numbers"
    assert not len(found.facts.confidence)
    for edge in range(len(graph.neighbours)):
        parts = [slice(g.label_starts[edge], g.label_starts[edge + 1]) for g in (found.graph, whole.graph)]
        kept = [fact in present for fact in whole.graph.facts[parts[1]].tolist()]
        assert found.graph.facts[parts[0]].tolist() == whole.graph.facts[parts[1]][kept].tolist()
        assert found.graph.labels[parts[0]].tolist() == whole.graph.labels[parts[1]][kept].tolist()
    for obj in range(len(graph)):
        own = [a.facts.own[a.facts.own_starts[obj] : a.facts.own_starts[obj + 1]].tolist() for a in (found, whole)]
        assert own[0] == [fact for fact in own[1] if fact in present]


facts = st.builds(
    Fact,
    st.sampled_from(["r0", "r1"]),
    st.tuples(st.sampled_from(OBJECTS), st.sampled_from(OBJECTS)),
    st.one_of(st.just(1.0), confidences.filter(lambda c: 0.05 < c < 0.95)),
)


def certain(kb: KnowledgeBase) -> KnowledgeBase:
    """The same facts without confidences."""
    tables = {arity: replace(table, confidence=None) for arity, table in kb.fact_tables.items()}
    return KnowledgeBase(replace(kb.content, facts=tables))


@settings(max_examples=8)
@given(known=st.lists(facts, min_size=1, max_size=3, unique_by=lambda fact: fact[:2]), seed=st.integers(0, 100))
def test_the_mean_over_draws_approaches_the_expectation_over_all_worlds(known: list[Fact], seed: int) -> None:
    kb = KnowledgeBase.from_facts([*known, Fact("r0", ("a", "b"), 0.5), Fact("r1", ("b", "c"), 0.5)], objects=OBJECTS)
    config = TrainingConfig(size=None, seed=seed)
    predictor, scorer = ready(kb, "default", config, MLP([6], "relu"))
    pairs = np.array([[0, 1], [2, 0], [1, 1]], np.int32)
    expected = np.zeros(len(pairs))
    for chosen in product([True, False], repeat=len(kb)):
        weights = [f.confidence if kept else 1 - f.confidence for f, kept in zip(kb.facts(), chosen, strict=True)]
        if weight := float(np.prod(weights)):
            world = certain(kb.without_facts([f for f, kept in zip(kb.facts(), chosen, strict=True) if not kept]))
            plan = compile_features(FeatureSet(predictor.evaluator.plan.features), world, 2)
            matrix = FeatureEvaluator(build_graph(world), plan).sample_and_evaluate(pairs, SamplingConfig(size=None))
            expected += weight * scorer.probabilities(matrix)
    draws = 2_000
    nothing = HiddenFacts.one_per_tuple(np.full(len(pairs), -1, np.int64))
    for shared in (False, True):
        sampling = replace(config.sampling(draws, "answer 0"), shared_order=shared)
        found = predictor.probabilities_per_draw(pairs, sampling, nothing)
        assert (np.abs(found.mean(axis=1) - expected) <= 6 * found.std(axis=1) / draws**0.5 + 1e-6).all()


@pytest.mark.parametrize("size", [4, None])
@pytest.mark.parametrize("seed", range(3))
def test_confidences_of_1_change_nothing_to_the_bit(seed: int, size: int | None) -> None:
    """Also if the table of confidences is there, so that every fact is looked up in it."""
    kb, config = town(seed), TrainingConfig(size=size, seed=seed)
    tables = {arity: replace(t, confidence=freeze(np.ones(len(t)))) for arity, t in kb.fact_tables.items()}
    doubted = KnowledgeBase(replace(kb.content, facts=tables))
    assert doubted.has_confidences
    assert not kb.has_confidences
    pairs = np.random.default_rng(seed).integers(0, len(kb.objects), (60, 2)).astype(np.int32)
    values = []
    for each in (kb, doubted):
        predictor, _ = ready(each, "default", config, MLP([6]))
        sampling = config.sampling(5, "answer 0")
        values.append(predictor.probabilities_per_draw(pairs, sampling, predictor.hidden_facts(pairs)).tobytes())
    assert values[0] == values[1]


def test_neither_threads_nor_other_tuples_change_a_world() -> None:
    kb = town(3, uncertain=True)
    predictor, _ = ready(kb, "default", TrainingConfig(size=6), MLP([6]))
    pairs, sampling = np.array([[0, 1], [5, 9], [5, 2], [7, 7]], np.int32), SamplingConfig(size=6, draws=5)
    whole = predictor.evaluator.sample_and_evaluate(pairs, sampling, threads=1).to_dense().reshape(4, 5, -1)
    turned = predictor.evaluator.sample_and_evaluate(pairs[::-1], sampling, threads=3).to_dense().reshape(4, 5, -1)
    assert np.array_equal(whole, turned[::-1])
    assert not np.array_equal(whole[0, 0], whole[0, 1])

"""Drawing and evaluating block by block equals drawing first and evaluating then, to the bit."""

from __future__ import annotations

import random

import numpy as np
import pytest

from feature_cases import EVERY, case, knowledge
from gaifman.config import SamplingConfig
from gaifman.errors import KnowledgeBaseError
from gaifman.features.compiler import compile_features
from gaifman.features.evaluator import FeatureEvaluator, FeatureMatrix
from gaifman.features.feature_sets import named_feature_set, parse_phi
from gaifman.kb.gaifman_graph import GaifmanGraph, build_graph
from gaifman.kb.knowledge_base import Fact, KnowledgeBase
from gaifman.sampling import neighbourhoods as drawing
from gaifman.sampling.hiding import HiddenFacts
from gaifman.sampling.neighbourhoods import draw_neighbourhoods
from generators import over_seeds

GENERAL = "∀x, y r(x, y) → r(y, x)\n¬r(s1, x)\n∃x ∀y r(x, y) ∨ p(y)\nage(s1) - age(s2)\ncount r(x, y)"


def assert_equal(one: FeatureMatrix, other: FeatureMatrix) -> None:
    for name in ("starts", "ids", "values", "sizes", "default_rows"):
        assert getattr(one, name).tobytes() == getattr(other, name).tobytes(), name
    assert one.to_dense().tobytes() == other.to_dense().tobytes()


def some_hidden(rng: random.Random, graph: GaifmanGraph, count: int) -> HiddenFacts:
    lengths = [rng.randint(0, 3) for _ in range(count)]
    facts = [n for length in lengths for n in sorted(rng.sample(range(len(graph.kb)), min(length, len(graph.kb))))]
    kept = [min(length, len(graph.kb)) for length in lengths]
    return HiddenFacts(np.append(0, np.cumsum(kept)).astype(np.int64), np.array(facts, np.int64))


@over_seeds(40)
def test_sampled_is_draw_and_then_features(seed: int) -> None:
    rng, graph, _ = case(seed)
    tuples = np.array([[rng.randrange(len(graph)) for _ in range(2)] for _ in range(50)], np.int32)
    hidden = some_hidden(rng, graph, len(tuples))
    sampling = SamplingConfig(rng.randint(0, 2), rng.choice([1, 4, 9, None]), rng.randint(1, 3), seed)
    evaluator = FeatureEvaluator(graph, compile_features(parse_phi(EVERY + GENERAL), graph.kb, 2))
    expected = evaluator.evaluate(draw_neighbourhoods(graph, tuples, sampling, hidden), hidden)
    assert_equal(evaluator.sample_and_evaluate(tuples, sampling, hidden, threads=1 + seed % 2), expected)


@pytest.mark.parametrize("block", [40, 300, 1 << 17])
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_neither_blocks_nor_threads_matter(block: int, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = build_graph(knowledge(random.Random(9), 17))
    tuples = np.random.default_rng(1).integers(0, len(graph), (400, 2)).astype(np.int32)
    evaluator = FeatureEvaluator(graph, compile_features(parse_phi(EVERY + GENERAL), graph.kb, 2))
    sampling = SamplingConfig(size=5, draws=2)
    expected = evaluator.evaluate(draw_neighbourhoods(graph, tuples, sampling))
    monkeypatch.setattr(drawing, "MEMBERS_PER_BLOCK", block)
    assert_equal(evaluator.sample_and_evaluate(tuples, sampling, threads=threads), expected)


def test_uncertain_facts_drop_out_alike() -> None:
    rng = random.Random(4)
    names = [f"o{i}" for i in range(12)]
    facts = {Fact("r", (rng.choice(names), rng.choice(names)), rng.choice([0.2, 0.6, 1.0])) for _ in range(40)}
    kb = KnowledgeBase.from_facts(sorted({(f.relation, f.objects): f for f in facts}.values()))
    graph, sampling = build_graph(kb), SamplingConfig(size=6, draws=20, seed=8)
    evaluator = FeatureEvaluator(graph, compile_features(named_feature_set("default", 2, {"r": 2}), kb, 2))
    tuples = [[0, 1], [2, 2], [3, 7]]
    expected = evaluator.evaluate(draw_neighbourhoods(graph, tuples, sampling), drop_uncertain=sampling)
    assert_equal(evaluator.sample_and_evaluate(tuples, sampling), expected)
    assert len(evaluator.sample_and_evaluate(tuples, sampling, drop_uncertain=False).ids) > len(expected.ids)


def test_no_tuples_and_no_features_give_empty_matrices() -> None:
    _, graph, _ = case(3)
    every = FeatureEvaluator(graph, compile_features(parse_phi(EVERY), graph.kb, 2))
    assert every.sample_and_evaluate(np.zeros((0, 2), np.int32), SamplingConfig()).to_dense().shape == (
        0,
        len(every.plan.features),
    )
    none = FeatureEvaluator(graph, compile_features(parse_phi(""), graph.kb, 2))
    assert none.sample_and_evaluate([[0, 1], [1, 0]], SamplingConfig()).to_dense().shape == (2, 0)


def test_wrong_tuples_are_refused() -> None:
    _, graph, _ = case(3)
    every = FeatureEvaluator(graph, compile_features(parse_phi(EVERY), graph.kb, 2))
    with pytest.raises(KnowledgeBaseError, match="objects are numbered"):
        every.sample_and_evaluate([[0, len(graph)]], SamplingConfig())
    with pytest.raises(KnowledgeBaseError, match="for tuples of 2 objects, these have 3"):
        every.sample_and_evaluate([[0, 1, 1]], SamplingConfig())
    with pytest.raises(KnowledgeBaseError, match="starts must ascend"):
        every.sample_and_evaluate([[0, 1]], SamplingConfig(), HiddenFacts(np.array([0, 0, 0]), np.zeros(0, np.int64)))


@over_seeds(20)
def test_the_edge_of_a_member_leads_to_it_from_the_tuple(seed: int) -> None:
    rng, graph, _ = case(seed)
    tuples = np.array([[rng.randrange(len(graph)) for _ in range(3)] for _ in range(30)], np.int32)
    drawn = draw_neighbourhoods(graph, tuples, SamplingConfig(1, rng.choice([2, 5, None]), 2, seed))
    sources = np.repeat(np.arange(len(graph)), graph.degrees)
    for row in range(len(drawn)):
        own = set(tuples[row // 2].tolist())
        span = slice(drawn.starts[row], drawn.starts[row + 1])
        for member, edge in zip(drawn.members[span].tolist(), drawn.edges[span].tolist(), strict=True):
            if member in own:
                assert edge == -1
            else:
                assert graph.neighbours[edge] == member
                assert int(sources[edge]) in own
    assert len(draw_neighbourhoods(graph, tuples, SamplingConfig(2, 3)).edges) == 0


@over_seeds(10)
def test_relations_and_objects_of_facts_by_number(seed: int) -> None:
    rng, graph, _ = case(seed)
    if not len(graph.kb):
        return
    numbers = np.array([rng.randrange(len(graph.kb)) for _ in range(20)], np.int64)
    for number, row in zip(numbers.tolist(), drawing.fact_rows(graph, numbers).tolist(), strict=True):
        fact = graph.kb.fact_by_id(number)
        assert graph.kb.content.relations[row[0]] == fact.relation
        assert tuple(graph.kb.object_name(obj) for obj in row[1 : 1 + len(fact.objects)]) == fact.objects
        assert set(row[1 + len(fact.objects) :]) <= {-1}


def test_the_label_buffer_grows() -> None:
    """Between two objects may be more facts than there is room for at first: 9,000 relations."""
    facts = [(f"r{i}", "ann", "bob") for i in range(9_000)] + [("r0", "bob", "cleo"), ("r1", "cleo", "ann")]
    kb = KnowledgeBase.from_facts(facts)
    graph = build_graph(kb)
    texts = "each r. r(s1, s2)\n∃x, y r0(s1, x) ∧ r0(x, y) ∧ r1(y, s1)\n∃x r0(s1, x) ∧ r0(x, s2)\n∀x ¬r7(x, x)"
    plan = compile_features(parse_phi(texts), kb, 2)
    drawn = draw_neighbourhoods(graph, [[0, 1], [0, 2]], SamplingConfig(size=None))
    fast, slow = (FeatureEvaluator(graph, plan, use_templates=one).evaluate(drawn) for one in (True, False))
    assert_equal(fast, fast)
    assert fast.to_dense().tolist() == slow.to_dense().tolist()
    assert fast.to_dense()[0, :9_000].all()

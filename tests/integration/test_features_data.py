"""Features on real data: specialised kernels and the machine agree on FB15k, and everything around a synset fits."""

from __future__ import annotations

import numpy as np
import pytest

import gaifman
from benchmark_data import DATA, NEEDED
from gaifman.config import SamplingConfig
from gaifman.errors import LimitError
from gaifman.features.compiler import compile_features
from gaifman.features.evaluator import FeatureEvaluator
from gaifman.features.feature_sets import FeatureSet, named_feature_set, parse_phi
from gaifman.features.mining import frequent_patterns
from gaifman.kb.gaifman_graph import GaifmanGraph, build_graph
from gaifman.kb.tables import Ints
from gaifman.sampling.hiding import HiddenFacts
from gaifman.sampling.neighbourhoods import draw_neighbourhoods

pytestmark = NEEDED


def pairs(graph: GaifmanGraph, count: int, seed: int) -> tuple[Ints, HiddenFacts]:
    """Random training pairs, the fact of each to hide; every third is corrupted, and the fact hidden all the same."""
    table, rng = graph.kb.fact_tables[2], np.random.default_rng(seed)
    rows = rng.integers(0, len(table), count)
    own = graph.kb.fact_ids(table.relation[rows], table.objects[rows])
    tuples = table.objects[rows].copy()
    tuples[::3, 1] = rng.integers(0, len(graph), len(tuples[::3]))
    return tuples, HiddenFacts.one_per_tuple(own)


@pytest.mark.parametrize("size", [5, 20, 60])
def test_every_specialised_kernel_equals_the_machine_on_fb15k(size: int) -> None:
    """Pairs, hops, two and three steps, constants and counts, mined and named; the machine runs what concerns a row."""
    graph = build_graph(gaifman.read(DATA / "FB15k" / "train.txt.gz"))
    tuples, hidden = pairs(graph, 120, size)
    sampling = SamplingConfig(size=size, seed=size)
    drawn = draw_neighbourhoods(graph, tuples, sampling, hidden)
    mined = frequent_patterns(graph, drawn, hidden, 2 / len(drawn), 3_000)
    relations = graph.kb.schema.relations
    counts = parse_phi("each r. r(s1, x)\neach r. r(x, s2)\neach r. r(s1, x) ∧ r(x, s2)\n∃r r(s1, s2)")
    plan = compile_features(FeatureSet((*named_feature_set("paper", 2, relations), *mined, *counts)), graph.kb, 2)
    fast, slow = FeatureEvaluator(graph, plan), FeatureEvaluator(graph, plan, use_templates=False)
    one, other = fast.evaluate(drawn, hidden), slow.evaluate(drawn, hidden)
    assert one.starts.tolist() == other.starts.tolist()
    assert one.ids.tolist() == other.ids.tolist()
    assert one.values.tolist() == other.values.tolist()
    assert len(one.ids) > 20 * len(drawn)
    together = fast.sample_and_evaluate(tuples, sampling, hidden)
    assert together.ids.tolist() == one.ids.tolist()
    assert together.values.tolist() == one.values.tolist()


def test_everything_around_a_synset_is_evaluated_and_too_large_tables_are_refused() -> None:
    graph = build_graph(gaifman.read(DATA / "WN18" / "train.txt.gz"))
    widest = int(graph.degrees.argmax())
    tuples = np.array([[widest, int(graph.neighbour_ids(widest)[0])]], np.int32)
    drawn = draw_neighbourhoods(graph, tuples, SamplingConfig(radius=3, size=None))
    assert len(drawn.members) > 1024
    texts = ["∀x, y _hyponym(x, y) → _hypernym(y, x)", "_hyponym(s1, x)", "∃x, y _hyponym(s1, x) ∧ _hyponym(x, y)"]
    found = [
        FeatureEvaluator(
            graph, compile_features(parse_phi("\n".join(texts)), graph.kb, 2), use_templates=fast
        ).evaluate(drawn)
        for fast in (True, False)
    ]
    assert found[0].to_dense().tolist() == found[1].to_dense().tolist()
    assert found[0].to_dense()[0, 1] == len([x for x in graph.neighbour_ids(widest) if _has(graph, widest, int(x))])
    three = compile_features(
        parse_phi("∀x, y, z, u _hyponym(x, y) ∧ _hyponym(y, z) ∧ _hyponym(z, u) → x = u"), graph.kb, 2
    )
    with pytest.raises(LimitError, match=r"needs [\d,.]+ GB for .*; the limit is"):
        FeatureEvaluator(graph, three).evaluate(drawn)


def _has(graph: GaifmanGraph, one: int, other: int) -> bool:
    names = graph.labels_of(graph.kb.object_name(one), graph.kb.object_name(other))
    return ("_hyponym", 1, 2) in names

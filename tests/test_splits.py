"""Scores that are split into what is around each object: the same as by the plain path."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gaifman.drawing import frozen
from gaifman.features import Evaluator
from gaifman.graph import Graph, graph_of
from gaifman.inputs import Surveyor, kinds_of
from gaifman.judging import Judge
from gaifman.kb import KnowledgeBase
from gaifman.kernels.ranking import touching
from gaifman.learning import Learning, Scorer
from gaifman.neighbourhoods import Sampling
from gaifman.network import Logistic, Network
from gaifman.phi import named, parse_phi
from gaifman.plans import plan_of
from gaifman.splits import Field, Split, splittable
from gaifman.tables import Floats, Ints


def town(seed: int, people: int = 40, facts: int = 160) -> KnowledgeBase:
    """Random facts with a few hubs, types, loops, and objects of which nothing is known."""
    rng = np.random.default_rng(seed)
    names = [f"o{i:02}" for i in range(people)]
    skewed = np.minimum((rng.pareto(0.8, (facts, 2)) * 3).astype(int), people - 1)
    found: set[tuple[str, ...]] = {(f"r{rng.integers(3)}", names[a], names[b]) for a, b in skewed.tolist()}
    found |= {("old", name) for name in names[::3]}
    found |= {("gave", names[a], names[b], names[a * 7 % people]) for a, b in skewed[:30].tolist()}
    return KnowledgeBase.from_facts(sorted(found), objects=[*names, "zoe", "nil"])


def ready(kb: KnowledgeBase, phi: str, learning: Learning, base: Network) -> tuple[Judge, Scorer]:
    """A judge, and a scorer with random weights over all features that occur."""
    relations = {name: relation.arity for name, relation in kb.relations.items()}
    features = named(phi, 2, relations).expanded(relations, 2)
    judge = Judge(kb, features, 2)
    surveyor = Surveyor(kinds_of(features))
    count = len(judge.graph)
    pairs = np.stack(np.meshgrid(np.arange(count), np.arange(count)), axis=2).reshape(-1, 2).astype(np.int32)
    surveyor.see(judge.evaluator.sampled(pairs, learning.sampling(1, "survey")))
    inputs = surveyor.inputs(rare=1)
    base.begin(inputs.width, 3)
    return judge, Scorer(inputs, base)


def plainly(judge: Judge, scorer: Scorer, sampling: Sampling, pair: Ints, position: int) -> Floats:
    count = len(judge.graph)
    tuples = np.repeat(pair[None], count, axis=0)
    tuples[:, position] = np.arange(count)
    return np.asarray(scorer.raw(judge.evaluator.sampled(tuples, sampling)).reshape(count, -1).mean(axis=1))


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    phi=st.sampled_from(["paper", "default", "universal-schema"]),
    size=st.sampled_from([2, 4, 6, 20]),
    draws=st.integers(1, 3),
    kind=st.sampled_from(["sigmoid", "relu", "logistic"]),
)
def test_split_scores_are_those_of_the_plain_path(seed: int, phi: str, size: int, draws: int, kind: str) -> None:
    learning = Learning(size=size, seed=seed)
    base = Logistic() if kind == "logistic" else Network([9, 5], kind, batch=7)
    judge, scorer = ready(town(seed), phi, learning, base)
    field = Field(judge, learning, draws)
    split = Split(field, scorer)
    for pair in (np.array([seed % 40, 3], np.int32), np.array([0, 41], np.int32)):
        for position in (0, 1):
            found = split.scores(pair[None], position)[0, 0]
            wanted = plainly(judge, scorer, field.sampling, pair, position)
            assert np.abs(found - wanted).max() < 1e-5


def test_most_pairs_of_a_large_knowledge_base_do_not_touch() -> None:
    """Otherwise nothing is gained: the test above could pass by the plain path alone."""
    kb = town(1, people=300, facts=500)
    learning = Learning(size=4)
    judge, scorer = ready(kb, "paper", learning, Network([6]))
    split = Split(Field(judge, learning, 1), scorer)
    touched = split.touched(200, 1, 0)
    assert 0 < touched.sum() < 0.5 * len(touched)
    assert touched[200] == 1


def test_several_tuples_at_once_are_each_by_itself() -> None:
    learning = Learning(size=4)
    judge, scorer = ready(town(2), "paper", learning, Network([6]))
    split = Split(Field(judge, learning, 2), scorer)
    pairs = np.array([[0, 1], [5, 9], [5, 2]], np.int32)
    together = split.scores(pairs, 1)[0]
    for row, pair in enumerate(pairs):
        assert together[row].tolist() == split.scores(pair[None], 1)[0, 0].tolist()


def adjacent(graph: Graph, one: int) -> set[int]:
    return set(graph.row(one).tolist())


@pytest.mark.parametrize("seed", range(5))
def test_who_touches_whom_by_definition(seed: int) -> None:
    rng = np.random.default_rng(seed)
    graph = graph_of(town(seed))
    count, one = len(graph), int(rng.integers(40))
    lists = [rng.permutation(sorted(adjacent(graph, one)))[:n].astype(np.int32) for n in (2, 1)]
    others = [rng.permutation(sorted(adjacent(graph, c)))[:3].astype(np.int32) for c in range(count)]
    needed = rng.integers(0, 2, count).astype(np.int32)
    touched = np.zeros(count, np.uint8)
    near = np.zeros(count + 1, np.uint8)
    total = touching(
        graph.starts, graph.neighbours, one, *packed(lists), *packed(others), frozen(needed), near, touched
    )
    for c in range(count):
        drawn = {int(x) for length in range(needed[c] + 1) for x in lists[length]}
        meet = drawn & adjacent(graph, c) or adjacent(graph, one) & {int(x) for x in others[c]}
        assert touched[c] == (c == one or c in adjacent(graph, one) or bool(meet))
    assert total == touched.sum()
    assert not near.any()


def packed(lists: list[Ints]) -> tuple[npt.NDArray[np.int64], Ints]:
    starts = np.append(0, np.cumsum([len(one) for one in lists])).astype(np.int64)
    return frozen(starts), frozen(np.concatenate([np.zeros(0, np.int32), *lists]).astype(np.int32))


@pytest.mark.parametrize(
    ("text", "learning", "width", "can"),
    [
        ("r(s1, s2)\n∃x r(s1, x)\nr(x, s2)\n∃x r(s1, x) ∧ r(x, s2)\nexists r. r(s1, s2)", Learning(), 2, True),
        ("∃x, y r(s1, x) ∧ r(x, y) ∧ r(y, s2)", Learning(), 2, False),
        ("∀x r(s1, x)", Learning(), 2, False),
        ("r(s1, s2)", Learning(size=7), 2, False),
        ("r(s1, s2)", Learning(size=None), 2, False),
        ("r(s1, s2)", Learning(radius=2), 2, False),
        ("old(s1)", Learning(), 1, False),
    ],
)
def test_what_can_be_split(text: str, learning: Learning, width: int, can: bool) -> None:
    assert splittable(parse_phi(text).features, learning, width) is can


def test_what_is_around_an_object_alone_has_features_of_it_alone() -> None:
    learning = Learning(size=4)
    judge, _ = ready(town(3), "paper", learning, Network([6]))
    field = Field(judge, learning, 1)
    texts = [str(feature) for feature in judge.evaluator.plan.features]
    for position, other in ((0, "s2"), (1, "s1")):
        present = {texts[i] for i in field.matrix(position, 4).ids.tolist()}
        assert present
        assert not any(other in text for text in present)
    again = Evaluator(judge.graph, plan_of(parse_phi("r0(s1, s2)"), judge.kb, 2))
    assert len(again.sampled([[0, 1]], replace(field.sampling, size=2))) == 1

"""First-pass scores: the same sampled or split, with hidden facts, on several threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gaifman
from gaifman.config import Deadline, no_deadline
from gaifman.errors import StoppedError
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.kb.tables import Floats, Ints
from gaifman.model import GaifmanModel, Model
from gaifman.models.mlp import MLP
from gaifman.predict import NetworkPredictor, Predictor
from gaifman.ranking import fast_scoring as module
from gaifman.ranking import ranked_answers as answering
from gaifman.ranking.fast_scoring import (
    FIRST_PASS_DRAWS,
    FIRST_PASS_PURPOSE,
    FastScorer,
    ObjectFeatures,
    SplitScorerCache,
)
from gaifman.sampling.hiding import HiddenFacts
from gaifman.training import Scorer, TrainingConfig
from split_cases import ready, town
from trained import FEW, GOOD, network, towns


@cache
def splitting() -> GaifmanModel:
    """A model whose scores can be split: its features use no attributes."""
    return gaifman.fit(towns(), "works_in(x, y)", phi="paper", **GOOD)


def is_warm(model: Model, arity: int = 2) -> bool:
    """Whether rankings of all objects are prepared."""
    return model._compile().fast_scorer(arity).prepared


def pairs(predictor: Predictor, fixed: int, position: int) -> Ints:
    """One object with every object at a position."""
    found = np.full((len(predictor.graph), 2), fixed, np.int32)
    found[:, position] = np.arange(len(found))
    return found


def secret(predictor: Predictor, tuples: Ints) -> HiddenFacts:
    """The tuples' own facts of one relation."""
    number = predictor.kb.content.relations.find("r0")
    assert number is not None
    return HiddenFacts.one_per_tuple(predictor.graph.kb.fact_ids(number, tuples))


def plainly(predictor: NetworkPredictor, config: TrainingConfig, tuples: Ints, hidden: HiddenFacts) -> Floats:
    """The definition: shared draws of the first pass, each tuple with its hidden facts."""
    sampling = replace(config.sampling(FIRST_PASS_DRAWS, FIRST_PASS_PURPOSE), shared_order=True)
    return np.asarray(predictor.probabilities_per_draw(tuples, sampling, hidden).mean(axis=1))


@settings(max_examples=40)
@given(
    seed=st.integers(0, 10_000),
    phi=st.sampled_from(["paper", "default"]),
    size=st.sampled_from([3, 6, 20, None]),
    fixed=st.integers(0, 41),
    position=st.integers(0, 1),
)
def test_first_pass_scores_equal_sampled_scores(
    seed: int, phi: str, size: int | None, fixed: int, position: int
) -> None:
    config = TrainingConfig(size=size, seed=seed)
    predictor, _ = ready(town(seed), phi, config, MLP([9, 5]))
    fast_scorer, tuples = FastScorer(predictor.evaluator, config), pairs(predictor, fixed, position)
    hidden = secret(predictor, tuples)
    wanted = plainly(predictor, config, tuples, hidden)
    assert np.array_equal(fast_scorer.scores(predictor, tuples, hidden, no_deadline()), wanted)
    fast_scorer.prepare()
    assert fast_scorer.prepared
    found = fast_scorer.scores(predictor, tuples, hidden, no_deadline())
    assert np.abs(found - wanted).max() < 1e-5
    own = np.flatnonzero(np.diff(hidden.starts))
    assert np.array_equal(found[own], wanted[own]), "what is hidden from is drawn"


def test_hidden_facts_change_scores() -> None:
    """Otherwise the test above could not fail."""
    config = TrainingConfig(size=None)
    predictor, _ = ready(town(1), "paper", config, MLP([9, 5]))
    tuples = pairs(predictor, 0, 1)
    hidden = secret(predictor, tuples)
    seen = HiddenFacts.one_per_tuple(np.full(len(tuples), -1))
    different = plainly(predictor, config, tuples, hidden) != plainly(predictor, config, tuples, seen)
    assert different[np.flatnonzero(np.diff(hidden.starts))].all()


def test_scores_of_some_candidates_equal_those_of_all() -> None:
    config = TrainingConfig(size=6)
    predictor, _ = ready(town(3), "default", config, MLP([9, 5]))
    fast_scorer, tuples = FastScorer(predictor.evaluator, config), pairs(predictor, 2, 1)
    fast_scorer.prepare()
    nothing = HiddenFacts.one_per_tuple(np.full(len(tuples), -1))
    every = fast_scorer.scores(predictor, tuples, nothing, no_deadline())
    for rows in (np.arange(30)[::-1].copy(), np.array([7, 7]), np.zeros(0, np.int64)):
        few = fast_scorer.scores(predictor, tuples[rows], nothing.select(rows), no_deadline())
        assert np.abs(few - every[rows]).max(initial=0) < 1e-5


def test_scores_that_cannot_be_split_are_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    wide = TrainingConfig(size=6, radius=2)
    predictor, _ = ready(town(3), "paper", wide, MLP([9, 5]))
    fast_scorer, tuples = FastScorer(predictor.evaluator, wide), pairs(predictor, 2, 1)
    fast_scorer.prepare()
    assert not fast_scorer.prepared
    assert len(fast_scorer.scores(predictor, tuples, secret(predictor, tuples), no_deadline())) == len(tuples)
    monkeypatch.setattr(module, "MAX_OBJECTS", 41)
    fast_scorer = FastScorer(predictor.evaluator, replace(wide, radius=1))
    fast_scorer.prepare()
    assert not fast_scorer.prepared, "too many objects"


def test_answers_do_not_depend_on_warm_up(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("MAX_FULL_DRAWS", 0), ("MIN_SHORTLIST", 20), ("SHORTLIST_PER_ANSWER", 3)):
        monkeypatch.setattr(answering, name, value)
    model = splitting().with_kb(towns())
    questions = [{"x": "p03"}, {"x": "t1"}, {"y": "t2"}, {"y": "p09"}]
    before = [model.answers(None, asked, top=5).as_dict() for asked in questions]
    model.warm_up()
    assert is_warm(model)
    assert [model.answers(None, asked, top=5).as_dict() for asked in questions] == before
    assert all(found["considered"]["first_pass_draws"] == FIRST_PASS_DRAWS for found in before)


def test_a_completion_warms_up_for_pairs_only(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("MAX_FULL_DRAWS", 0), ("MIN_SHORTLIST", 5), ("SHORTLIST_PER_ANSWER", 1)):
        monkeypatch.setattr(answering, name, value)
    kb = towns().with_facts([("likes", "p00", "p01")])
    completion = gaifman.complete(kb, ["works_in", "person", "moved", "likes"], phi="paper", **GOOD)
    questions = ["works_in('p03', y)", "works_in(x, 't1')", "works_in(x, x)", "person(x)", "likes('p00', y)"]
    before = [completion.answers(asked, top=3).as_dict() for asked in questions]
    completion.warm_up()
    assert {arity: is_warm(completion, arity) for arity in (1, 2, 3)} == {1: False, 2: True, 3: False}
    assert [completion.answers(asked, top=3).as_dict() for asked in questions] == before


def test_another_knowledge_base_is_not_warmed_up() -> None:
    model = splitting().with_kb(towns())
    model.warm_up()
    assert not is_warm(model.with_kb(towns(60)))


def test_threads_get_the_same_scores() -> None:
    config = TrainingConfig(size=6)
    predictor, first = ready(town(5), "default", config, MLP([9, 5]))
    scorers = [first, Scorer(first.scaler, MLP([4]))]
    scorers[1].base.reset(first.scaler.width, 8)
    fast_scorer = FastScorer(predictor.evaluator, config)
    fast_scorer.prepare()
    models = [replace(predictor, scorer=scorer) for scorer in scorers]
    asked = [(models[number % 2], pairs(predictor, number % 42, number // 2 % 2)) for number in range(60)]

    def work(row: tuple[NetworkPredictor, Ints]) -> bytes:
        return fast_scorer.scores(*row, HiddenFacts.one_per_tuple(np.full(len(row[1]), -1)), no_deadline()).tobytes()

    with ThreadPoolExecutor(4) as pool:
        assert [*pool.map(work, asked)] == [*map(work, asked)]


def test_the_cache_keeps_the_latest_models_within_its_limit() -> None:
    config = TrainingConfig(size=6)
    predictor, first = ready(town(5), "default", config, MLP([9, 5]))
    field = ObjectFeatures(predictor.evaluator, config, FIRST_PASS_DRAWS, FIRST_PASS_PURPOSE)
    scorers = [first, Scorer(first.scaler, MLP([9])), Scorer(first.scaler, MLP([9]))]
    for scorer in scorers[1:]:
        scorer.base.reset(first.scaler.width, 1)
    pool, used = SplitScorerCache(field), []
    for scorer in (scorers[0], scorers[1], scorers[0]):
        with pool.borrow(scorer) as split:
            split.scores(np.zeros((1, 2), np.int32), 1)
            used.append(split)
    assert used[0] is used[2] is not used[1]
    assert len(pool) == 2
    assert used[0].nbytes > sum(sums.nbytes for sums in used[0]._sums.values()) + 1000, "room to work in counts too"
    small = SplitScorerCache(field, max_bytes=2 * max(split.nbytes for split in used))
    for scorer in scorers:
        with small.borrow(scorer) as split:
            split.scores(np.zeros((1, 2), np.int32), 1)
    assert len(small) == 2
    assert [split.scorer is scorer for split, scorer in zip(small._idle, scorers[1:], strict=True)] == [True, True]


def test_a_scorer_is_not_reused_after_an_exception() -> None:
    config = TrainingConfig(size=6)
    predictor, scorer = ready(town(5), "default", config, MLP([9, 5]))
    pool = SplitScorerCache(ObjectFeatures(predictor.evaluator, config, FIRST_PASS_DRAWS, FIRST_PASS_PURPOSE))
    with pytest.raises(KeyboardInterrupt), pool.borrow(scorer):
        raise KeyboardInterrupt
    assert len(pool) == 0


def test_the_first_pass_checks_the_deadline() -> None:
    model = splitting().with_kb(towns())
    model.warm_up()
    deadline = Deadline(10)
    deadline.cancel()
    tuples = pairs(model.predictor, 0, 1)
    nothing = HiddenFacts.one_per_tuple(np.full(len(tuples), -1))
    with pytest.raises(StoppedError):
        model._compile().fast_scorer(2).scores(network(model.predictor), tuples, nothing, deadline)


def test_ties_go_by_id_sampled_or_split(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last bits of split scores once broke ties, and other candidates were kept."""
    for name, value in (("MAX_FULL_DRAWS", 0), ("MIN_SHORTLIST", 6), ("SHORTLIST_PER_ANSWER", 1)):
        monkeypatch.setattr(answering, name, value)
    likes = [("likes", f"{kind}{i:04}", f"h{i % 3}") for kind in "bz" for i in range(0, 60, 2)]
    others = [("near", f"{kind}{i:04}", f"g{i % 7}") for kind in "bz" for i in range(60)]
    kb = KnowledgeBase.from_facts([*likes, *others])
    for seed in range(6):
        model = gaifman.fit(kb, "likes(x, y)", phi="paper", **{**FEW, "seed": seed})
        before = [model.answers(y=f"h{i}", top=3).as_dict() for i in range(3)]
        model.warm_up()
        assert is_warm(model)
        assert [model.answers(y=f"h{i}", top=3).as_dict() for i in range(3)] == before


def test_warm_up_respects_the_limit_on_members(monkeypatch: pytest.MonkeyPatch) -> None:
    model = splitting().with_kb(towns())
    cost = ObjectFeatures(network(model.predictor).evaluator, model.config, FIRST_PASS_DRAWS, FIRST_PASS_PURPOSE).cost
    monkeypatch.setattr(module, "MAX_DRAWN_MEMBERS", cost - 1)
    model.warm_up()
    assert not is_warm(model)
    monkeypatch.setattr(module, "MAX_DRAWN_MEMBERS", cost)
    model.warm_up()
    assert is_warm(model)


@pytest.mark.parametrize("size", [2, 5, 20, None])
def test_the_cost_bounds_the_drawn_members(size: int | None) -> None:
    config = TrainingConfig(size=size)
    predictor, _ = ready(town(4), "paper", config, MLP([3]))
    field = ObjectFeatures(predictor.evaluator, config, FIRST_PASS_DRAWS, FIRST_PASS_PURPOSE)
    drawn = sum(len(order.members) for position in (0, 1) for order in field.at_position(position).draw_orders)
    assert 0 < drawn <= field.cost


def test_warm_up_checks_the_deadline() -> None:
    model, deadline = splitting().with_kb(towns()), Deadline()
    deadline.cancel()
    with pytest.raises(StoppedError):
        model.warm_up(deadline)
    assert not is_warm(model)

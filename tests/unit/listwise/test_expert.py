"""The expert: training, resumption, unknown objects, weights, files, explanations and refusals."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gaifman
from gaifman.completion import Completion
from gaifman.errors import GaifmanError, InputError, KnowledgeBaseError
from gaifman.explain.ranking import collect_evidence
from gaifman.io.model_file import model_bytes, read_model
from gaifman.jobs.run import Run
from gaifman.jobs.train import TrainingInterrupted, TrainingSpec, run_training
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.kb.tables import freeze
from gaifman.listwise.expert import (
    BoundExpert,
    Expert,
    ExpertConfig,
    ExpertTrainer,
    TrainedExpert,
    expert_relations,
)
from gaifman.listwise.expert_weights import MIXTURES, choose_mixtures
from gaifman.listwise.scoring import RelationRankers
from gaifman.listwise.training import train_expert
from gaifman.logic.ast import relation_query
from gaifman.model_card import model_card
from gaifman.sampling.examples import TrainingExamples, held_out_facts
from gaifman.training import Callback, TrainingConfig
from training_runs import small

CONFIG = ExpertConfig(expert_rank=6, expert_epochs=3, expert_final_epochs=2, expert_batch=32)
QUICK: dict[str, Any] = {
    "expert": "complex",
    "options": {"expert_rank": 6, "expert_epochs": 4, "expert_final_epochs": 2, "questions": 60, "epochs": 2},
}


@pytest.fixture(scope="module")
def kb(tmp_path_factory: pytest.TempPathFactory) -> KnowledgeBase:
    return gaifman.read(small(tmp_path_factory.mktemp("kb") / "small.facts", 40))


@pytest.fixture(scope="module")
def completion(kb: KnowledgeBase) -> Completion:
    return gaifman.complete(kb, ["likes", "gives", "person"], **QUICK)


def held_out(kb: KnowledgeBase) -> dict[str, Any]:
    return {name: held_out_facts(kb.tuples(name), TrainingConfig()) for name in expert_relations(kb)}


def parts(trained: TrainedExpert) -> list[bytes]:
    return [array.tobytes() for each in trained for array in each.arrays().values()]


# Training


def test_the_expert_is_the_same_for_any_number_of_threads() -> None:
    kb = gaifman.demo()
    found = [parts(ExpertTrainer(kb, held_out(kb), CONFIG).train(threads=threads)) for threads in (1, 2, 3)]
    assert found[0] == found[1] == found[2]


class Stopped(Exception):
    pass


class Recorder(Callback):
    """Goes on from a state, and stops after some blocks."""

    def __init__(self, saved: Any, blocks: int) -> None:
        self.saved, self.left, self.epochs = saved, blocks, list[int]()

    def load_checkpoint(self) -> Any:
        return self.saved

    def on_block(self, examples: int, state: Callable[[], tuple[dict[str, Any], dict[str, Any]]]) -> None:
        self.left -= 1
        if not self.left:
            self._keep(state)
            raise Stopped

    def on_epoch_end(self, epoch: int, loss: float, held_out_loss: float | None) -> None:
        self.epochs.append(epoch)

    def on_part_end(self, state: Callable[[], tuple[dict[str, Any], dict[str, Any]]]) -> None:
        self._keep(state)

    def _keep(self, state: Callable[[], tuple[dict[str, Any], dict[str, Any]]]) -> None:
        arrays, meta = state()
        self.saved = {name: array.copy() for name, array in arrays.items()}, json.loads(json.dumps(meta))


def test_stopped_anywhere_and_resumed_it_is_the_same(kb: KnowledgeBase) -> None:
    whole = Recorder(None, -1)
    expected = parts(ExpertTrainer(kb, held_out(kb), CONFIG).train(whole))
    assert whole.epochs == [1, 2, 3, 4, 5]
    saved, stops, found = None, 0, list[bytes]()
    while not found:
        callback = Recorder(saved, 5)
        try:
            found = parts(ExpertTrainer(kb, held_out(kb), CONFIG).train(callback, threads=2))
        except Stopped:
            stops += 1
        saved = callback.saved
    assert stops > 3
    assert found == expected
    again = Recorder(saved, 1)  # the last checkpoint is of the finished expert: nothing is left to do
    assert parts(ExpertTrainer(kb, held_out(kb), CONFIG).train(again)) == expected


def test_the_trial_does_not_see_what_training_examples_hold_out(kb: KnowledgeBase) -> None:
    config = TrainingConfig(seed=3, holdout=0.2, max_held_out=30)
    for name, info in kb.relations.items():
        examples = TrainingExamples(kb, relation_query(name, info.arity), config)
        assert held_out_facts(kb.tuples(name), config).tolist() == examples.held_out_rows.tolist()
    few = KnowledgeBase.from_facts([("r", f"a{i}", f"b{i}") for i in range(9)])
    assert not len(held_out_facts(few.tuples("r"), config))


def test_it_learns_which_objects_are_similar() -> None:
    """Two groups: who is in one likes the others in it."""
    facts = [("likes", f"{g}{i}", f"{g}{j}") for g in "ab" for i in range(8) for j in range(8) if (i + j) % 3]
    kb = KnowledgeBase.from_facts(facts)
    [held] = held_out(kb).values()
    trial = ExpertTrainer(kb, {"likes": held}, ExpertConfig(expert_rank=8, expert_epochs=30)).train().trial.bind(kb)
    better = 0
    for fixed, answer in kb.tuples("likes")[held].tolist():
        [_, expert] = trial.of_relation("likes", [1.0, 1.0])
        assert expert is not None
        scores = expert.scores(fixed)
        assert scores is not None
        same = [kb.object_name(obj)[0] == kb.object_name(fixed)[0] for obj in range(len(kb.objects))]
        assert scores[same].mean() > scores[np.logical_not(same)].mean()
        better += scores[answer] > scores[np.logical_not(same)].max()
    assert better > 0.8 * len(held)


def test_without_relations_of_two_objects_there_is_no_expert() -> None:
    kb = KnowledgeBase.from_facts([("gives", f"a{i}", f"b{i}", f"c{i}") for i in range(12)])
    assert train_expert(kb, TrainingConfig()) is None
    completion = gaifman.complete(kb, expert="complex")
    assert "expert" not in completion.meta


# Scores


@pytest.fixture(scope="module")
def expert(kb: KnowledgeBase) -> Expert:
    return ExpertTrainer(kb, {}, CONFIG).train().final


def bound_scores(bound: BoundExpert, kb: KnowledgeBase, fixed: str) -> dict[str, float] | None:
    [_, own] = bound.of_relation("likes", [1.0, 1.0])
    assert own is not None
    scores = own.scores(kb.object_id(fixed))
    return None if scores is None else dict(zip(kb.objects, scores.tolist(), strict=True))


def test_scores_are_those_of_complex_relative_to_their_mean(kb: KnowledgeBase, expert: Expert) -> None:
    scores = bound_scores(expert.bind(kb), kb, "p3")
    assert scores is not None
    whole = (expert.object_vectors + expert.center).astype(np.float64)
    e = whole[:, :6] + 1j * whole[:, 6:]
    code = 2 * expert.relations.index("likes") + 1
    r = expert.relation_vectors[code, :6].astype(np.float64) + 1j * expert.relation_vectors[code, 6:]
    expected = np.real((e[expert.objects.index("p3")] * r) @ e.conj().T)
    found = np.array([scores[name] for name in expert.objects])
    np.testing.assert_allclose(found, expected - expected.mean(), atol=1e-5)


def test_objects_are_found_by_name_and_unknown_ones_switch_it_off(kb: KnowledgeBase, expert: Expert) -> None:
    other = kb.with_facts([("likes", "a new one", "p3"), ("likes", "p3", "zoe")])
    before, after = bound_scores(expert.bind(kb), kb, "p3"), bound_scores(expert.bind(other), other, "p3")
    assert before is not None
    assert after is not None
    assert after == {"a new one": 0.0, "zoe": 0.0} | before
    assert bound_scores(expert.bind(other), other, "zoe") is None
    assert expert.bind(kb).of_relation("unheard", [1.0, 1.0]) == (None, None)
    assert expert.bind(kb).of_relation("likes", [0.0, 0.0]) == (None, None)


def test_similar_facts_are_those_of_the_largest_cosines(kb: KnowledgeBase, expert: Expert) -> None:
    facts, objects = kb.tuples("likes"), kb.tuples("likes")[5].tolist()
    unit = expert.object_vectors / np.linalg.norm(expert.object_vectors, axis=1, keepdims=True)
    rows = {name: row for row, name in enumerate(expert.objects)}
    vectors = np.array([unit[rows[name]] for name in kb.objects if name in rows])
    cosines = ((vectors[facts] * vectors[objects]).sum(axis=2)).mean(axis=1)
    cosines[5] = -2  # itself
    found = expert.bind(kb).similar_facts(kb, "likes", objects, np.zeros(0, np.int64))
    ids = kb.fact_ids(kb.content.relations.find("likes") or 0, facts)
    best = ids[np.argsort(-cosines, kind="stable")[:2]].tolist()
    assert found == [fact for fact in best if cosines[ids.tolist().index(fact)] >= 0.3]
    hidden = freeze(np.array(best[:1], np.int64))
    assert best[0] not in expert.bind(kb).similar_facts(kb, "likes", objects, hidden)


# Weights


def losses(scale: float, weight: float, questions: float) -> Any:
    """Losses of two positions, smallest at a scale and a weight."""
    own = np.zeros((2, 1 + len(MIXTURES)))
    own[:] = questions, *(questions * ((MIXTURES - [scale, weight]) ** 2).sum(axis=1))
    return own


def test_few_questions_have_a_mixture_close_to_that_of_all() -> None:
    none = np.zeros((2, 1 + len(MIXTURES)))
    many = {"many": losses(0.7, 0.6, 1000.0), "two": losses(0.7, 0.0, 2.0), "none": none}
    found = choose_mixtures({**many, "unary": none[:1]})
    assert {name: mixtures.tolist() for name, mixtures in found.items()} == {
        "many": [[0.7, 0.6]] * 2,
        "two": [[0.7, 0.5]] * 2,
        "none": [[0.7, 0.6]] * 2,
        "unary": [[1.0, 0.0]],
    }
    assert choose_mixtures({"none": none})["none"].tolist() == [[1.0, 0.0]] * 2


# Models


def test_the_file_has_the_expert_once_and_gives_the_same_answers(
    completion: Completion, kb: KnowledgeBase, tmp_path: Path
) -> None:
    completion.save(tmp_path / "m")
    names = [name for name in read_model(tmp_path / "m")[0] if "expert/" in name]
    assert sorted(names) == [f"expert/{name}" for name in sorted(name.split("/")[1] for name in names)]
    loaded = gaifman.load(tmp_path / "m", kb)
    assert isinstance(loaded, Completion)
    assert model_bytes(*loaded.state()) == (tmp_path / "m").read_bytes()
    pairs = [("p1", "p2"), ("p3", "p4")]
    assert (
        loaded.probabilities("likes", pairs).values.tolist() == completion.probabilities("likes", pairs).values.tolist()
    )
    single = completion.model("likes")
    single.save(tmp_path / "one")
    one = gaifman.load(tmp_path / "one", kb)
    assert isinstance(one, gaifman.GaifmanModel)
    assert one.probability("p1", "p2").value == completion.probability("likes", "p1", "p2").value


def test_a_damaged_expert_is_refused(completion: Completion) -> None:
    arrays, meta = completion.state()
    wrong: dict[str, Any] = {
        "expert/objects": np.frombuffer(b'["p1", "p1"]', np.uint8),
        "expert/center": np.zeros(7, np.float32),
        "expert/object_vectors": arrays["expert/object_vectors"][1:],
        "1/listwise/expert_weights": np.array([-1.0, 0.5]),
    }
    for name, array in wrong.items():
        assert name in arrays
        with pytest.raises(InputError):
            Completion.from_state({**arrays, name: array}, meta)


def test_new_objects_are_answered_without_the_expert(completion: Completion) -> None:
    renamed = KnowledgeBase.from_facts(
        [("likes", "ann", "bob"), ("knows", "ann", "bob"), ("likes", "bob", "cleo"), ("gives", "ann", "bob", "cleo")]
    )
    found = completion.with_kb(renamed).answers("likes('ann', y)", candidates="all", top=None)
    assert {answer.names[0] for answer in found} >= {"bob", "cleo"}
    reasons = completion.with_kb(renamed).explain("likes", "ann", "cleo").reasons
    assert not any(reason.formula.startswith("similar objects") for reason in reasons)


def test_an_explanation_has_its_share_and_adds_up(completion: Completion, kb: KnowledgeBase) -> None:
    likes = completion.scorers["likes"]
    assert isinstance(likes, RelationRankers)
    weights = np.array([0.5, 0.25])
    model = copy(completion.with_kb(kb))
    model.scorers = {"likes": replace(likes, arrays={**likes.arrays, "expert_weights": weights})}
    predictor: Any = model.predictor("likes")
    scorer, odds = predictor.scorer, predictor.odds
    ids = kb.fact_ids(kb.content.relations.find("likes") or 0, kb.tuples("likes"))
    for row, fact in zip(kb.tuples("likes")[:5].tolist(), ids[:5], strict=True):
        hidden = freeze(np.array([fact]))
        own = [each.expert.scores(row[1 - p])[row[p]] for p, each in enumerate(scorer.scorers)]
        expected = float((odds.weights[:2] * weights * own).sum())
        explanation = model.explain("likes", *(kb.object_name(obj) for obj in row), top=1000)
        [reason] = [each for each in explanation.reasons if each.formula.startswith("similar objects")]
        assert reason.effect == pytest.approx(expected, rel=1e-9)
        short = model.explain("likes", *explanation.objects, top=1).reasons
        assert reason.formula in [each.formula for each in short]
        shares = [scorer.share(row, hidden, p) for p in range(2)]
        scores = sum(odds.weights[p] * (shares[p].score + scorer.scorers[p].shift) for p in range(2))
        known = sum(odds.weights[2 + p] * np.log1p(len(scorer.known_answers(row, hidden, p))) for p in range(2))
        found = sum(each.effect for each in collect_evidence(scorer, odds, row, hidden))
        assert found == pytest.approx(scores + known, abs=1e-5)
        log_odds = np.log(explanation.estimate.value) - np.log1p(-explanation.estimate.value)
        told = sum(each.effect for each in explanation.reasons) + explanation.parts.total
        assert told == pytest.approx(log_odds, abs=1e-6)
        evidence = scorer.evidence(np.array([row], np.int32), predictor.hidden_facts(np.array([row], np.int32)))
        assert evidence[0, :2] == pytest.approx([each.score - each.competition for each in shares], abs=1e-9)


def test_the_card_tells_of_the_expert(completion: Completion) -> None:
    assert completion.meta["expert"]["rank"] == 6
    assert "ComplEx of rank 6, knows 40 objects" in model_card(completion.meta)


# Runs


def after(blocks: int) -> Callable[[], bool]:
    asked: Iterator[int] = iter(range(blocks))
    return lambda: next(asked, None) is None


@pytest.mark.parametrize("query", [None, "likes(x, y)"])
def test_a_run_stopped_and_resumed_gives_the_same_bytes(query: str | None, kb: KnowledgeBase, tmp_path: Path) -> None:
    spec = TrainingSpec(TrainingConfig(**QUICK).as_dict(), query, None if query else ("likes", "gives"))
    plain = gaifman.fit(kb, query, **QUICK) if query else gaifman.complete(kb, spec.relations, **QUICK, threads=1)
    plain.save(tmp_path / "plain")
    Run.create(tmp_path / "m.run", {"spec": spec.as_dict()}, checkpoint_seconds=1e9).close()
    stops = 0
    while not (tmp_path / "m").exists():
        with Run.open(tmp_path / "m.run") as run:
            try:
                run_training(run, kb, tmp_path / "m", threads=1 + stops % 2, should_stop=after(5 + 7 * (stops % 2)))
            except TrainingInterrupted:
                stops += 1
    assert stops > 3
    assert (tmp_path / "m").read_bytes() == (tmp_path / "plain").read_bytes()


# Refusals


@pytest.mark.parametrize("settings", [{"base": "mlp"}, {"size": 5}, {"phi": "paper"}, {"options": {"hidden": [5]}}])
def test_the_network_refuses_it(settings: dict[str, Any], kb: KnowledgeBase) -> None:
    for train in (
        lambda: gaifman.complete(kb, expert="complex", **settings),
        lambda: gaifman.fit(kb, "likes(x, y)", expert="complex", **settings),
        lambda: TrainingSpec({"expert": "complex", **settings}).check(),
    ):
        with pytest.raises(KnowledgeBaseError, match=r"base model is mlp: only ranked lists can have an expert"):
            train()


def test_several_knowledge_bases_refuse_it(kb: KnowledgeBase) -> None:
    for train in (
        lambda: gaifman.complete([kb, kb], ["likes"], expert="complex"),
        lambda: gaifman.fit([kb, kb], "likes(x, y)", expert="complex"),
    ):
        with pytest.raises(KnowledgeBaseError, match="remembers the objects of one knowledge base, and 2 are given"):
            train()


@pytest.mark.parametrize("wrong", [{"expert": "rotate"}, {"options": {"expert_rank": 0}, "expert": "complex"}])
def test_wrong_settings_are_refused(wrong: dict[str, Any], kb: KnowledgeBase) -> None:
    with pytest.raises(GaifmanError):
        gaifman.complete(kb, ["likes"], **wrong)

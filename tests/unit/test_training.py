"""Training: what examples see, the held-out tuples, settings, epochs, early stopping."""

from __future__ import annotations

import gc
import tracemalloc
import weakref
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import numpy as np
import pytest

import gaifman
from gaifman import training as module
from gaifman.config import SamplingConfig
from gaifman.errors import KnowledgeBaseError, TrainingError
from gaifman.features.compiler import compile_features
from gaifman.features.evaluator import FeatureEvaluator, FeatureMatrix
from gaifman.features.feature_sets import parse_phi
from gaifman.kb.gaifman_graph import build_graph
from gaifman.kb.knowledge_base import Fact, KnowledgeBase
from gaifman.models.base import Batch
from gaifman.models.mlp import MLP, Logistic
from gaifman.training import MAX_EPOCHS, Callback, Scorer, TrainingConfig, TrainingSource
from trained import towns
from training_cases import SMALL, Notes, Recorder, Scripted, people, source, trainer

# What training neighbourhoods show


def recorded(kb: KnowledgeBase, config: TrainingConfig, phi: str, query: str = "lives_in(x, y)") -> Recorder:
    """What was drawn while a model was trained and judged."""
    given = source(kb, config, query, phi, features=Recorder)
    one = trainer(given, config, MLP([4], epochs=2))
    one.held_out(one.train())
    assert isinstance(given.evaluator, Recorder)
    return given.evaluator


def facts_of(kb: KnowledgeBase, relation: str) -> set[tuple[int, ...]]:
    return {tuple(kb.object_id(name) for name in fact.objects) for fact in kb.facts() if fact.relation == relation}


@pytest.mark.parametrize("purpose", ["train", "survey", "held out"])
def test_leakage_an_answers_own_fact_is_never_visible(purpose: str) -> None:
    kb = people()
    seen = recorded(kb, SMALL, "lives_in(s1, s2)\nworks_in(s1, s2)\nlives_in(s2, s1)")
    true = facts_of(kb, "lives_in")
    own = [(row, value) for row, value in seen.values("lives_in(s1, s2)", purpose) if row in true]
    assert len(own) >= 6
    assert {value for _, value in own} == {0.0}
    other = {value for row, value in seen.values("works_in(s1, s2)", purpose) if row in true}
    assert 1.0 in other, "other facts are visible"


@pytest.mark.parametrize("purpose", ["train", "survey", "held out"])
def test_leakage_negatives_do_not_see_the_fact_of_their_answer_either(purpose: str) -> None:
    """Each person lives in one town: s1 of a negative has no other such fact, and must see none."""
    kb = people()
    seen = recorded(kb, SMALL, "exists x. lives_in(s1, x)\nexists x. lives_in(x, s2)\nexists x. works_in(s1, x)")
    true = facts_of(kb, "lives_in")
    residents = {row[0] for row in true}
    towns = {row[1] for row in true}
    found = seen.values("∃x lives_in(s1, x)", purpose)
    stayed = [value for row, value in found if row not in true and row[0] in residents and row[1] in towns]
    works = dict(seen.values("∃x works_in(s1, x)", purpose))
    assert len(stayed) >= 3
    assert any(works[row] for row, _ in found if row not in true)
    # Where s1 was replaced by another resident, their own fact is known and seen; else it is the answer's, and hidden.
    answers = {value for row, value in found if row in true}
    assert answers == {0.0}
    assert 0.0 in stayed


def test_leakage_of_each_negative_by_its_source() -> None:
    kb = people()
    given = source(kb, SMALL, phi="exists x. lives_in(s1, x)")
    block = next(given.examples.blocks(0))
    matrix = given.feature_matrix(block.negatives, SMALL.sampling(1, "train 0"), block.negatives_hidden, 1)
    same = block.negatives[:, 0] == block.answers[block.sources][:, 0]
    resident = np.isin(block.negatives[:, 0], block.answers[:, 0])
    values = matrix.to_dense()[:, 0]
    assert same.any()
    assert (values[same] == 0).all(), "s1 stays, its one fact is hidden"
    assert (values[~same & resident] == 1).mean() > 0.3, "another s1 keeps its own fact, where its town was drawn"


def test_uncertain_facts_drop_out_of_training_and_held_out_neighbourhoods_alike() -> None:
    facts = [Fact("lives_in", (f"p{i}", f"t{i % 9}")) for i in range(200)]
    facts += [Fact("near", (f"p{i}", f"t{i % 9}"), 0.3) for i in range(200)]
    facts += [Fact("sure", (f"p{i}", f"t{i % 9}")) for i in range(200)]
    kb = KnowledgeBase.from_facts(facts)
    seen = recorded(kb, TrainingConfig(positives=5, negatives=1, min_examples=0), "near(s1, s2)\nsure(s1, s2)")
    true = facts_of(kb, "lives_in")
    drawn = [value for row, value in seen.values("near(s1, s2)", "train") if row in true]
    assert 2 * 180 * 5 <= len(drawn) < 2 * 180 * 5 + 20, "held-out answers can be negatives"
    assert abs(np.mean(drawn) - 0.3) < 5 * (0.3 * 0.7 / len(drawn)) ** 0.5
    assert {value for row, value in seen.values("sure(s1, s2)", "train") if row in true} == {1.0}
    judged = [value for row, value in seen.values("near(s1, s2)", "held out") if row in true]
    assert len(judged) == 20 * 10
    assert abs(np.mean(judged) - 0.3) < 5 * (0.3 * 0.7 / len(judged)) ** 0.5, "as when answering"
    assert {(one.purpose, one.dropping) for one in seen.seen} == {
        ("survey", True),
        ("train 0", True),
        ("train 1", True),
        ("held out", True),
    }


def test_the_confidence_of_an_answer_is_its_target() -> None:
    facts = [Fact("r", (f"a{i}", f"b{i}"), 0.25 if i % 2 else 1.0) for i in range(40)]
    taught = Taught()
    config = TrainingConfig(positives=2, negatives=1, min_examples=0, holdout=0)
    trainer(source(KnowledgeBase.from_facts(facts), config, "r(x, y)"), config, taught).train()
    targets = np.concatenate([batch.targets for batch in taught.batches])
    values, counts = np.unique(targets, return_counts=True)
    assert dict(zip(values.tolist(), counts.tolist(), strict=True)) == {0.0: 40, 0.25: 40, 1.0: 40}


class Taught(Logistic):
    """Keeps what it is taught."""

    def __init__(self) -> None:
        super().__init__(epochs=1)
        self.batches: list[Batch] = []

    def fit_batch(self, batch: Batch) -> float:
        self.batches.append(batch)
        return super().fit_batch(batch)


def test_neighbourhoods_are_drawn_anew_in_every_pass() -> None:
    kb = people()
    seen = recorded(
        kb, TrainingConfig(positives=1, negatives=1, size=2, min_examples=0, holdout=0), "count knows(x, y)"
    )
    first, second = (sorted(seen.values("count knows(x, y)", f"train {epoch}")) for epoch in (0, 1))
    assert len(first) == len(second)
    assert first != second


def test_examples_are_shuffled_in_a_block_and_keep_their_targets() -> None:
    kb, taught = people(), Taught()
    given = source(kb, SMALL, phi="works_in(s1, s2)\nlives_in(x, s2)", block=64)
    one = trainer(given, SMALL, taught)
    one.train()
    (batch,) = taught.batches
    assert len(batch.rows) == len(batch.targets) == 54 * 5
    assert batch.targets.sum() == 54 * 2
    assert (np.diff(batch.targets) != 0).sum() > 20, "answers and corruptions are mixed"
    assert batch.rows.values.flags.writeable is False
    shown = np.diff(batch.rows.starts) > 0
    assert shown[batch.targets == 1].mean() > 0.8


# The survey and what is held out


def test_the_survey_keeps_only_features_that_are_seen_and_not_rarely() -> None:
    kb = people().with_facts([("odd", "p000", "p001")])
    phi = "works_in(s1, s2)\nodd(s1, s2)\nodd(s1, x)\ntown(s2)\nknows(s2, s1)\nlives_in(s1, s2)"
    few = trainer(source(kb, SMALL, phi=phi)).fit_scaler()
    assert few.columns[0] == 0
    assert few.columns[1] == -1, "seen around no example"
    assert few.columns[3] > 0
    assert few.columns[5] == -1, "hidden from answers, and corruptions are no answers"
    rare = TrainingConfig(**{**SMALL.as_dict(), "min_feature_count": 10**6})
    assert trainer(source(kb, rare, phi=phi), rare).fit_scaler().width == 0


def test_the_scaler_is_fitted_to_some_answers_and_two_negatives_of_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_SCANNED_ANSWERS", 30)
    given = source(people(), SMALL, block=16, features=Recorder)
    trainer(given).fit_scaler()
    assert isinstance(given.evaluator, Recorder)
    assert [len(one.tuples) for one in given.evaluator.seen] == [16, 32, 16, 32]


def test_held_out_tuples_have_both_classes_and_are_not_used_in_training() -> None:
    kb = people(120)
    given = source(kb, SMALL, features=Recorder)
    one = trainer(given)
    scorer = one.train()
    assert isinstance(given.evaluator, Recorder)
    taught = {
        tuple(row) for epoch in range(9) for block in given.examples.blocks(epoch) for row in block.answers.tolist()
    }
    given.evaluator.seen.clear()
    held = one.held_out(scorer)
    answers, others = given.evaluator.seen
    assert len(answers.tuples) == len(others.tuples) == 12
    true = facts_of(kb, "lives_in")
    assert {tuple(row) for row in answers.tuples.tolist()} <= true
    assert true.isdisjoint(tuple(row) for row in others.tuples.tolist())
    assert taught.isdisjoint(tuple(row) for row in answers.tuples.tolist())
    assert held.targets.tolist() == [1.0] * 12 + [0.0] * 12
    assert held.means.shape == (24,)
    assert (answers.draws, answers.purpose) == (SMALL.draws, "held out")
    assert held.means[:12].mean() > held.means[12:].mean()


def test_of_few_answers_none_is_held_out() -> None:
    one = trainer(source(people(8), SMALL))
    held = one.held_out(one.train())
    assert (len(held.means), len(held.targets)) == (0, 0)


def test_means_are_over_the_draws_of_a_tuple() -> None:
    given = source(people(), SMALL)
    one = trainer(given)
    scorer = one.train()
    tuples = given.examples.answers[:7]
    matrix = given.evaluator.sample_and_evaluate(tuples, SamplingConfig(size=2, draws=4))
    raw = scorer.probabilities(matrix).reshape(7, 4)
    means, errors = scorer.mean_probabilities(matrix, 4)
    assert means == pytest.approx(raw.mean(axis=1), abs=1e-12)
    assert errors == pytest.approx(raw.std(axis=1, ddof=1) / 2, abs=1e-12)
    assert np.isnan(
        scorer.mean_probabilities(given.evaluator.sample_and_evaluate(tuples, SamplingConfig(size=2)), 1)[1]
    ).all()


# Stacking


def test_stacked_matrices_keep_the_defaults_of_their_own_sizes() -> None:
    """With size=None a matrix knows the defaults of the sizes it has; those of the other were once taken for all."""
    facts = [("r", "hub", f"n{i}") for i in range(6)] + [("r", "a", "b"), ("q", "b", "a"), ("r", "c", "d")]
    kb = KnowledgeBase.from_facts(facts)
    plan = compile_features(parse_phi("forall x, y. r(x, y) -> q(y, x)\ncount not r(x, s1)\nnot q(s2, s1)"), kb, 2)
    evaluator = FeatureEvaluator(build_graph(kb), plan)
    pairs = [
        [[kb.object_id(x), kb.object_id(y)] for x, y in part] for part in ([("a", "b"), ("c", "d")], [("hub", "n1")])
    ]
    for first, second in (pairs, pairs[::-1]):
        one, other = (evaluator.sample_and_evaluate(tuples, SamplingConfig(size=None)) for tuples in (first, second))
        whole = evaluator.sample_and_evaluate(first + second, SamplingConfig(size=None))
        both = FeatureMatrix.concatenate([one, other])
        assert both.to_dense().tolist() == whole.to_dense().tolist()
        assert both.starts.tolist() == whole.starts.tolist()
        used = np.unique(both.sizes)
        assert both.defaults[:, used].tolist() == whole.defaults[:, used].tolist()


# Passes and patience


def test_few_examples_are_gone_through_more_often() -> None:
    given = source(people(), SMALL)
    count = 54 * 5
    assert trainer(given).examples_per_epoch == count
    for least, expected in ((0, 3), (3 * count, 3), (3 * count + 1, 4), (7 * count, 7), (10**9, MAX_EPOCHS)):
        config = TrainingConfig(**{**SMALL.as_dict(), "min_examples": least})
        assert trainer(given, config).num_epochs == expected
        assert trainer(given, config, Scripted([0.5])).num_epochs == 1, "one that gathers wants no more of the same"
    many = TrainingConfig(**{**SMALL.as_dict(), "min_examples": 5 * count})
    notes = Notes()
    scorer = trainer(given, many).train(notes)
    assert len(scorer.losses) == 5
    assert [number for number, _, _ in notes.epochs] == [1, 2, 3, 4, 5]
    assert sum(notes.blocks) == 5 * count
    assert notes.begun == [(5 * count, 0)]
    assert scorer.losses[-1] < scorer.losses[0]


def patient(patience: int, said: list[float]) -> tuple[Scorer, Scripted, Notes]:
    config = TrainingConfig(**{**SMALL.as_dict(), "patience": patience})
    base, notes = Scripted(said), Notes()
    return trainer(source(people(), config), config, base).train(notes), base, notes


SAID = [0.2, 0.3, 0.4, 0.45, 0.5, 0.41, 0.6, 0.7]
"""Of 2 answers and 3 negatives 0.4 are answers: a constant 0.4 has the smallest loss."""


@pytest.mark.parametrize(("patience", "epochs"), [(1, 4), (2, 5), (3, 6), (5, 8), (20, 8)])
def test_early_stopping_restores_the_best_epoch(patience: int, epochs: int) -> None:
    scorer, base, notes = patient(patience, SAID)
    assert len(scorer.losses) == len(notes.epochs) == epochs
    assert base.done == 3, "the state after the third pass"
    held = [loss for _, _, loss in notes.epochs]
    assert None not in held
    assert np.argmin(np.array(held, float)) == 2
    assert held[2] == pytest.approx(-0.4 * np.log(0.4) - 0.6 * np.log(0.6))


def test_without_patience_the_last_epoch_is_taken_and_nothing_is_predicted() -> None:
    scorer, base, notes = patient(0, SAID)
    assert (len(scorer.losses), base.done) == (8, 8)
    assert {held for _, _, held in notes.epochs} == {None}


def test_where_nothing_is_held_out_patience_waits_for_ever() -> None:
    config = TrainingConfig(**{**SMALL.as_dict(), "patience": 1, "holdout": 0.0})
    base = Scripted(SAID)
    assert len(trainer(source(people(), config), config, base).train().losses) == 8
    assert base.done == 8


# Memory


def generated(answers: int) -> KnowledgeBase:
    rng = np.random.default_rng(0)
    facts = [("r", f"a{a}", f"b{b}") for a, b in rng.integers(0, 900, (answers, 2)).tolist()]
    return KnowledgeBase.from_facts(facts + [("s", f"b{a}", f"a{b}") for a, b in rng.integers(0, 900, (answers, 2))])


class Weighing(Logistic):
    """Weighs what it is taught, and can say how much of it is still there."""

    def __init__(self) -> None:
        super().__init__(epochs=1)
        self.bytes, self.taught = list[int](), list[weakref.ref[Any]]()

    def fit_batch(self, batch: Batch) -> float:
        self.taught.append(weakref.ref(batch.rows.values))
        self.bytes.append(batch.rows.values.nbytes + batch.rows.columns.nbytes + batch.rows.starts.nbytes)
        return super().fit_batch(batch)


def test_never_more_than_one_block_is_in_memory() -> None:
    config = TrainingConfig(min_examples=0, holdout=0)
    base, alive = Weighing(), list[int]()

    class Looking(FeatureEvaluator):
        """Looks, before it evaluates anything, which earlier batches there are."""

        def sample_and_evaluate(self, *given: Any, **more: Any) -> FeatureMatrix:
            alive.append(sum(one() is not None for one in base.taught))
            return super().sample_and_evaluate(*given, **more)

    one = trainer(source(generated(6_000), config, "r(x, y)", block=64, features=Looking), config, base)
    one.fit_scaler()  # what is made once, is made
    gc.collect()
    tracemalloc.start()
    try:
        one.train()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(base.bytes) > 80
    assert set(alive) == {0}, "a batch is gone before the next is made"
    assert peak < sum(base.bytes) / 2, "all of them at once would be more"


# Settings


def test_every_setting_has_a_default_and_can_be_set_by_name() -> None:
    settings = TrainingConfig().as_dict()
    assert list(settings) == [each.name for each in fields(TrainingConfig)]
    assert TrainingConfig.from_settings(settings) == TrainingConfig()
    assert TrainingConfig.from_settings({"size": None, "options": {"hidden": [3]}}).make_base_model().settings()[
        "hidden"
    ] == [3]
    assert TrainingConfig(base="logistic").make_base_model().kind == "logistic"


def test_settings_of_neighbourhoods_and_negatives() -> None:
    config = TrainingConfig(radius=2, size=7, positives=3, negatives=4, seed=9)
    assert config.sampling(5, "why") == SamplingConfig(2, 7, 5, 9, "why")
    assert config.negative_ratio == pytest.approx(4 / 3)
    assert TrainingConfig(negatives=0).negative_ratio == 1


WRONG: list[tuple[dict[str, Any], str, str]] = [
    ({"negativs": 3}, "unknown setting negativs", "negatives"),
    ({"Seed": 3}, "unknown setting Seed", "seed"),
    ({"k": 3}, "unknown setting k", ""),
    ({"negative_sampling": "type"}, "type", "typed"),
    ({"hide": "link"}, "link", "links"),
    ({"positives": 0}, "positives must be an integer of at least 1, got 0", ""),
    ({"negatives": -1}, "negatives must be an integer of at least 0, got -1", ""),
    ({"holdout": 1.0}, "holdout", ""),
    ({"min_examples": -1}, "min_examples must be an integer of at least 0, got -1", ""),
    ({"min_feature_count": 1.5}, "min_feature_count must be an integer of at least 0, got 1.5", ""),
    ({"patience": True}, "patience must be an integer of at least 0, got True", ""),
    ({"draws": 0}, "draws must be an integer from 1 to 1,000,000, got 0", ""),
    ({"size": 0}, "size must be an integer", ""),
    ({"radius": -1}, "radius", ""),
    ({"seed": -1}, "seed", ""),
    ({"seed": 1 << 64}, "seed", ""),
]


@pytest.mark.parametrize(("given", "message", "near"), WRONG, ids=[str(given) for given, _, _ in WRONG])
def test_a_wrong_setting_is_refused(given: dict[str, Any], message: str, near: str) -> None:
    with pytest.raises(KnowledgeBaseError) as caught:
        TrainingConfig.from_settings(given)
    assert message in caught.value.message
    assert near in (caught.value.suggestions or ("",))


def test_an_unknown_option_of_the_base_model_is_refused() -> None:
    with pytest.raises(KnowledgeBaseError, match="mlp has no option hiden") as caught:
        TrainingConfig(options={"hiden": [3]}).make_base_model()
    assert caught.value.suggestions == ("hidden",)
    with pytest.raises(KnowledgeBaseError, match=r"base must be one of mlp, logistic, got .mpl."):
        TrainingConfig(base="mpl").make_base_model()


def test_a_source_is_uncertain_where_a_fact_is() -> None:
    sure = KnowledgeBase.from_facts([("r", f"a{i}", f"b{i}") for i in range(3)])
    unsure = sure.with_facts([Fact("r", ("a0", "b1"), 0.5)])
    assert isinstance(source(sure, SMALL, "r(x, y)"), TrainingSource)
    assert not source(sure, SMALL, "r(x, y)").evaluator.graph.kb.has_confidences
    assert source(unsure, SMALL, "r(x, y)").evaluator.graph.kb.has_confidences


# Divergence

DIVERGING = [
    ({"learning_rate": 1e30}, "epoch 1: its loss is not finite"),
    ({"learning_rate": 1e6}, r"epoch 1: its loss is .* nats"),
    ({"learning_rate": 1e4, "activation": "sigmoid", "epochs": 4}, r"epoch 4: its loss is .* nats"),
    ({"learning_rate": 1e38, "hidden": []}, r"epoch 1: its loss is"),
]


@pytest.mark.parametrize(("options", "message"), DIVERGING)
def test_training_that_diverges_says_so_and_how_to_lower_the_rate(options: dict[str, Any], message: str) -> None:
    """A rate of 1e30 once ended in `probabilities are from 0 to 1, not nan`."""
    settings: dict[str, Any] = {"options": {"epochs": 2, "hidden": [8], **options}, "min_examples": 0}
    with pytest.raises(TrainingError, match=rf"training of works_in\(x, y\) diverged in {message}") as caught:
        gaifman.fit(towns(), "works_in(x, y)", **settings)
    assert f"lower learning_rate than {options['learning_rate']:g}, such as 0.05" in caught.value.hint
    with pytest.raises(TrainingError, match=r"training of \w+\(.*\) diverged in epoch"):
        gaifman.complete(towns(), **settings)


def test_divergence_is_found_before_a_checkpoint_is_written() -> None:
    """A checkpoint of such a network could not be resumed."""
    written = []

    class Note(Callback):
        def on_block(self, examples: int, state: Callable[[], tuple[Any, Any]]) -> None:
            written.append(examples)

    with pytest.raises(TrainingError):
        gaifman.fit(towns(), "works_in(x, y)", options={"learning_rate": 1e30}, callback=Note())
    assert not written


def test_a_rate_that_is_a_little_too_high_is_no_divergence() -> None:
    model = gaifman.fit(towns(), "works_in(x, y)", options={"learning_rate": 2.0, "epochs": 5}, min_examples=0)
    assert max(model.meta["metrics"]["losses"]) > model.meta["metrics"]["losses"][-1]


def test_a_base_model_whose_loss_is_not_known_does_not_diverge() -> None:
    class Silent(MLP):
        kind = "silent"

        def fit_batch(self, batch: Batch) -> float:
            super().fit_batch(batch)
            return float("nan")

    assert gaifman.fit(towns(), "works_in(x, y)", base=Silent([4]), min_examples=0).features


def test_the_rate_of_other_base_models_is_named_in_general() -> None:
    class Infinite(MLP):
        kind = "infinite"

        def fit_batch(self, batch: Batch) -> float:
            del self.learning_rate
            return float("inf")

    with pytest.raises(TrainingError) as caught:
        gaifman.fit(towns(), "works_in(x, y)", base=Infinite([4]))
    assert caught.value.hint == "train again with a lower learning rate of the base model"

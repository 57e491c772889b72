"""Held-out figures: they agree with those of a test set that the model has never seen."""

from __future__ import annotations

from typing import Any

import numpy as np

import gaifman
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.model_card import model_card
from gaifman.ranking.ranks import RANK_FIGURES
from gaifman.training import TrainingConfig
from held_out_cases import TOLERANCE, claimed_and_tested
from trained import towns
from training_cases import SMALL, Recorder, people, source, trainer

FIGURES = ("auc", "ece_before", "ece_after", "brier", "loss", *RANK_FIGURES)


def random_split(seed: int, *, objects: int = 14, relations: int = 20) -> tuple[KnowledgeBase, KnowledgeBase]:
    """Random facts, of which a fifth are test facts."""
    random = np.random.default_rng(seed)
    chosen = np.argwhere(random.random((relations, objects, objects)) < 0.4)
    facts = [(f"r{name}", f"o{x}", f"o{y}") for name, x, y in random.permutation(chosen).tolist()]
    test = len(facts) // 5
    return KnowledgeBase.from_facts(facts[test:]), KnowledgeBase.from_facts(facts[:test])


def test_the_auc_of_random_facts_among_14_objects_is_not_inflated() -> None:
    quick: dict[str, Any] = {"holdout": 0.2, "min_examples": 8_000, "draws": 3, "options": {"hidden": [50]}}
    pairs = [claimed_and_tested(*random_split(seed), seed=seed, **quick) for seed in range(4)]
    claimed, tested = np.mean(pairs, axis=0)
    assert abs(claimed - tested) < TOLERANCE
    assert abs(claimed - 0.5) < TOLERANCE


def test_a_query_with_a_single_answer_claims_no_figure() -> None:
    model = gaifman.fit(gaifman.demo(), "capital('france', y)", min_examples=0)
    metrics = model.meta["metrics"]
    assert [metrics[name] for name in FIGURES] == [None] * len(FIGURES)
    assert metrics["auc_reason"] == "a single answer: none can be held out"
    assert "none is claimed: a single answer" in model_card(model.meta)


def test_a_relation_with_too_few_facts_claims_no_figure() -> None:
    completion = gaifman.complete(towns(30), ["works_in"], min_examples=0)
    (row,) = completion.meta["relations"]
    assert row["trained"]
    assert row["held_out"] == 6
    assert [row[name] for name in ("auc", *RANK_FIGURES)] == [None] * 5
    assert row["auc_reason"] == "3 held-out answers: at least 10 are needed for a figure"
    assert row["auc_reason"] in model_card(completion.meta)
    assert completion.meta["calibration"] == []


def test_early_stopping_and_calibration_share_no_held_out_tuple() -> None:
    """A model that was chosen by some tuples seems better on them than it is."""
    config = TrainingConfig(**{**SMALL.as_dict(), "patience": 1, "holdout": 0.3})
    given = source(people(120), config, features=Recorder)
    one = trainer(given, config=config)
    scorer = one.train()
    assert isinstance(given.evaluator, Recorder)
    one.held_out(scorer)
    answers = {tuple(row) for row in given.examples.answers.tolist()}
    used = {
        purpose: {
            tuple(row) for seen in given.evaluator.seen if seen.purpose == purpose for row in seen.tuples.tolist()
        }
        & answers
        for purpose in ("stop", "held out")
    }
    assert [len(used[purpose]) for purpose in ("stop", "held out")] == [18, 18]
    assert used["stop"].isdisjoint(used["held out"])


def test_the_card_states_the_assumption_and_the_baseline() -> None:
    completion = gaifman.complete(towns(120), ["works_in"], base="mlp", min_examples=0, missing=0.1)
    text = model_card(completion.meta)
    for piece in (
        "Unknown is not false",
        "fraction of 0.1 of the true answers is assumed",
        "most frequent object first",
    ):
        assert piece in text
    assert "typed AUC" in text
    assert "corrects figures" in model_card(
        {**completion.meta, "config": completion.meta["config"] | {"missing": None}}
    )

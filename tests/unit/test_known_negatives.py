"""Known negatives are never proposed, never answers, and false examples in training."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import gaifman
from gaifman.config import ExampleConfig
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.kb.reviews import FactKey, Provenance
from gaifman.kb.tables import rows_in
from gaifman.logic.parser import parse_query
from gaifman.sampling.examples import TrainingExamples

RELATION = "borders"


@cache
def incomplete() -> KnowledgeBase:
    """The demo without every sixth border."""
    kb = gaifman.demo()
    return kb.without_facts([*kb.facts(RELATION)][::6])


@cache
def completion() -> gaifman.Completion:
    return gaifman.complete(incomplete(), [RELATION], seed=1)


@cache
def proposed() -> list[FactKey]:
    return [(one.relation, *one.objects) for one in completion().missing(0.05)]


def reviewed(rejected: list[FactKey]) -> KnowledgeBase:
    return incomplete().with_reviews({}, dict.fromkeys(rejected, Provenance()))


def test_a_rejected_fact_is_not_proposed_again_and_others_are() -> None:
    rejected = proposed()[:10]
    found = completion().with_kb(reviewed(rejected)).missing(0.05)
    assert [(one.relation, *one.objects) for one in found] == proposed()[10:]
    assert found.summary.rejected == 10
    assert found.summary.candidates == completion().missing(0.05).summary.candidates - 10
    assert "Left out: 10 facts that a review rejected." in str(found)


def test_all_tuples_are_accounted_for() -> None:
    summary = completion().missing(0.5).summary
    known = len(incomplete().tuples(RELATION))
    assert summary.candidates + summary.of_other_objects + known == len(incomplete().objects) ** 2


@pytest.mark.parametrize("candidates", ["auto", "all", "typed", "seen", "near"])
def test_a_rejected_fact_is_never_an_answer(candidates: str) -> None:
    _, head, tail = proposed()[0]
    model = completion().with_kb(reviewed(proposed()[:1]))
    answers = model.answers(f"{RELATION}('{head}', y)", top=None, candidates=candidates)
    assert tail not in {answer.names[0] for answer in answers}
    assert "without 1 known negative" in answers.considered.description
    before = completion().answers(f"{RELATION}('{head}', y)", top=None, candidates=candidates)
    assert len(answers) == len(before) - 1
    assert not len(model.answers(f"{RELATION}('{head}', '{tail}')", candidates=candidates))


def test_ranked_lists_learn_from_rejected_facts() -> None:
    """Rejecting half of the best proposals makes those like them less probable."""
    rejected = proposed()[:12]
    after = gaifman.complete(reviewed(rejected), [RELATION], seed=1)
    others = proposed()[12:30]
    before_mean, after_mean = (
        np.mean([model.probability(*key).value for key in others]) for model in (completion(), after)
    )
    assert after_mean < before_mean
    assert all(after.probability(*key).value < completion().probability(*key).value for key in rejected)


def test_without_decisions_nothing_changes() -> None:
    same = gaifman.complete(reviewed([]), [RELATION], seed=1)
    assert same.missing(0.05).as_dict() == completion().missing(0.05).as_dict()


def test_networks_get_rejected_facts_as_negatives() -> None:
    rejected = proposed()[:20]
    config = ExampleConfig(negatives=2)
    kb = reviewed(rejected)
    query = parse_query(f"{RELATION}(x, y)")
    examples, plain = TrainingExamples(kb, query, config), TrainingExamples(incomplete(), query, config)
    tuples, seen = kb.rejected_tuples(RELATION), np.zeros(20, bool)
    for epoch in range(20):
        blocks, others = list(examples.blocks(epoch)), list(plain.blocks(epoch))
        for block, other in zip(blocks, others, strict=True):
            assert (block.sources == other.sources).all(), "as many negatives of each answer as without"
            assert not rows_in(block.answers, tuples).any()
            changed = (block.negatives != other.negatives).any(axis=1)
            assert rows_in(block.negatives[changed], tuples).all()
            seen |= rows_in(tuples, block.negatives)
    assert seen.all()


def test_a_rejected_negative_is_certainly_false() -> None:
    kb = reviewed(proposed()[:20])
    examples = TrainingExamples(kb, parse_query(f"{RELATION}(x, y)"), ExampleConfig(negatives=2))
    block = examples.held_out_block(negatives=50)
    false = rows_in(block.negatives, kb.rejected_tuples(RELATION))
    shares = examples.true_shares(block, 0.1)
    assert (shares[false] == 0).all()
    assert shares[~false].max() > 0


def test_a_network_trains_with_known_negatives() -> None:
    model = gaifman.complete(reviewed(proposed()[:5]), [RELATION], base="mlp", options={"epochs": 1}, size=5, seed=1)
    assert model.probability(*proposed()[0]).value > 0


def test_decisions_reach_a_model_of_several_knowledge_bases() -> None:
    kb, other = (
        reviewed(proposed()[:12]),
        KnowledgeBase.from_facts([("borders", f"a{i}", f"a{i + 1}") for i in range(20)]),
    )
    plain = gaifman.complete([incomplete(), other], [RELATION], seed=1)
    taught = gaifman.complete([kb, other], [RELATION], seed=1)
    key = proposed()[0]
    before, after = (model.with_kb(incomplete()).probability(*key).value for model in (plain, taught))
    assert after < before

"""Ranks of held-out answers: by their definition, sampled within a budget, beside popularity, and only of enough."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import gaifman
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.kb.tables import Floats, Ints
from gaifman.ranking import ranks as module
from gaifman.ranking.candidates import atom_pattern, select_candidates
from gaifman.ranking.ranks import MIN_RANKED_FACTS, RANK_FIGURES, HeldOutRanks, rank_held_out
from gaifman.sampling.constraints import parse_constraints
from gaifman.sampling.examples import TrainingExamples
from gaifman.sampling.hiding import HiddenFacts
from gaifman.sampling.negatives import Negatives
from gaifman.training import Scorer, Trainer, TrainingConfig
from reference_ranks import slow_ranks
from trained import FEW, towns
from training_cases import SMALL, people, source, trainer

CONFIG = TrainingConfig(**{**SMALL.as_dict(), "holdout": 0.3})


def trained(kb: KnowledgeBase | None = None, config: TrainingConfig = CONFIG) -> tuple[Trainer, Scorer]:
    one = trainer(source(kb or people(120), config), config=config)
    return one, one.train()


def score(one: Trainer, scorer: Scorer, row: int, tuples: list[tuple[int, ...]]) -> list[float]:
    """The scores of tuples that see what the answer of a row sees."""
    (given,) = one.sources
    negatives = Negatives(np.array(tuples, np.int32), np.zeros(len(tuples), np.int64))
    block = given.examples.make_block(np.array([row]), negatives)
    return [*map(float, one.held_out_scores(scorer, given, block.negatives, block.negatives_hidden))]


def test_ranks_equal_their_definition() -> None:
    one, scorer = trained()
    found, (given,) = rank_held_out(one, scorer), one.sources
    answers, known = given.examples.answers, {tuple(row) for row in given.examples.answers.tolist()}
    rows, objects = given.examples.held_out_rows, len(given.evaluator.graph)
    counts = [np.bincount(column, minlength=objects) for column in answers[given.examples.training_rows].T]
    wanted = []
    for row in rows.tolist():
        for position in range(2):
            others = [tuple(np.where(np.arange(2) == position, obj, answers[row])) for obj in range(objects)]
            left_out = {obj for obj, other in enumerate(others) if other in known or other[0] == other[1]}
            if position == 1:  # a town: its type is known
                left_out |= {obj for obj in range(objects) if obj not in set(answers[:, 1].tolist())}
            target = int(answers[row, position])
            scores = score(one, scorer, row, others)
            popularity = counts[position].tolist()
            wanted.append([slow_ranks(each, target, left_out - {target})[1] for each in (scores, popularity)])
    assert found.facts == len(rows) == 36
    for by in (False, True):
        own = sorted(rank[by] for rank in wanted)
        assert sorted(found.ranks(popularity=by).realistic.tolist()) == own
        name = RANK_FIGURES[int(by)]
        assert found.metrics()[name] == pytest.approx(np.mean([1 / rank for rank in own]), abs=1e-6)


def test_the_right_type_is_that_of_the_position_or_what_was_seen_there() -> None:
    one, scorer = trained()
    typed = rank_held_out(one, scorer).ranks(typed=True)
    rows = one.sources[0].examples.held_out_rows
    heads, tails = typed.candidates[: len(rows)], typed.candidates[len(rows) :]
    assert (tails == 6).all(), "the towns, none of which is a known answer"
    assert heads.max() <= 101, "of 120 persons, 20 live in each town"


def test_the_work_is_bounded_and_the_sample_is_keyed(monkeypatch: pytest.MonkeyPatch) -> None:
    one, scorer = trained()
    monkeypatch.setattr(module, "MAX_MODEL_DRAWS", 10 * 500)
    found, again = rank_held_out(one, scorer), rank_held_out(one, scorer)
    assert np.array_equal(found.counts, again.counts)
    assert MIN_RANKED_FACTS <= found.facts < 36
    assert (found.ranks().candidates - 1).sum() <= 500
    metrics = found.metrics()
    assert metrics["ranked_among"] < metrics["candidates"]
    assert rank_held_out(one, scorer, models=10**6).facts == 1
    assert metrics["mrr"] is not None


def test_a_sample_of_candidates_takes_the_right_type_first() -> None:
    objects, right = np.arange(50, dtype=np.int32), np.arange(50) % 10 == 0
    for seed in range(20):
        few, many = (module._sample(objects, right, most, np.uint64(seed)) for most in (3, 12))
        assert len(few) == 3
        assert right[few].all()
        assert len(many) == 12
        assert right[many].sum() == 5
    assert module._sample(objects, right, 50, np.uint64(0)).tolist() == list(range(50))


def test_too_few_ranked_answers_give_no_figure() -> None:
    counts = np.ones((2, 2, 3, 18), np.int64)
    metrics = HeldOutRanks(counts, 9, np.ones(18, np.int64)).metrics()
    assert [metrics[name] for name in RANK_FIGURES] == [None] * 4
    assert metrics["mrr_reason"] == "9 ranked answers: at least 10 are needed"


@pytest.mark.parametrize("query", ["works_in(x, y)", "exists z. lives_in(x, z) & town_of(z, y)", "person(x)"])
def test_every_kind_of_query_is_ranked(query: str) -> None:
    model = gaifman.fit(towns(300), query, **FEW)
    metrics = model.meta["metrics"]
    assert metrics["ranked_facts"] >= 10
    assert 0 < metrics["mrr"] <= 1
    assert (metrics["typed_auc"] is None) == ("typed_auc_reason" in metrics)


def test_a_collection_is_ranked_as_a_whole() -> None:
    settings: dict[str, Any] = {**FEW, "holdout": 0.3}
    model = gaifman.fit([towns(40), towns(40, "b")], "works_in(x, y)", **settings)
    assert model.meta["metrics"]["ranked_facts"] == 24
    assert model.meta["metrics"]["mrr"] > 0


def no_scores(tuples: Ints, hidden: HiddenFacts, position: int) -> Floats:
    """For rankings whose candidates alone are looked at."""
    raise NotImplementedError


def test_what_answers_leaves_out_is_no_candidate() -> None:
    """No one knows themself, and a declared type leaves out the dogs, which have another."""
    config, kb = replace(CONFIG, draws=2), people(60).with_facts([("dog", f"d{i}") for i in range(5)])
    given = source(kb, config, "knows(x, y)")
    dogs = {kb.object_id(f"d{i}") for i in range(5)}
    for text, proposed in (("", dogs), ("types: knows town, _", set())):
        graph, query = given.evaluator.graph, given.examples.query
        examples = TrainingExamples(graph.kb, query, config, parse_constraints(text, kb))
        ranking = module.HeldOutRanking(examples, no_scores, examples.held_out_rows)
        rows = examples.held_out_rows
        lists = list(ranking._candidates(0, rows, 1_000))
        for row, (objects, _, available) in zip(rows.tolist(), lists, strict=True):
            assert examples.answers[row, 1] not in objects
            assert available == len(objects) + 1
            assert dogs & set(objects.tolist()) == proposed


def test_candidates_are_those_of_answers() -> None:
    one, _ = trained()
    (given,) = one.sources
    ranking = module.HeldOutRanking(given.examples, no_scores, given.examples.held_out_rows)
    kb = given.evaluator.graph.kb
    for position, text in enumerate(("lives_in(x, 't1')", "lives_in('p001', y)")):
        _, pattern = atom_pattern(text, kb, ["lives_in"])
        wanted = select_candidates(given.evaluator.graph.kb, given.examples.query, pattern, given.examples.answers)
        assert ranking.pools[position].tolist() == wanted.values[:, 0].tolist()

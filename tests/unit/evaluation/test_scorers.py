"""Scores of all candidates equal those of the predictor, for any blocks and threads."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import gaifman
from gaifman.completion import Completion
from gaifman.config import SamplingConfig
from gaifman.errors import KnowledgeBaseError
from gaifman.evaluation import scorers as ranking
from gaifman.evaluation.scorers import NetworkScorer
from gaifman.kb.tables import Floats, Ints
from gaifman.sampling.hiding import HiddenFacts
from trained import FEW, GOOD, network, towns


@cache
def completed() -> Completion:
    return gaifman.complete(towns(), ["person", "works_in", "moved"], **FEW)


def plain(relation: str, draws: int = 3, threads: int | None = 1) -> NetworkScorer:
    found = completed()
    return NetworkScorer(network(found.predictor(relation)), (draws,), threads=threads)


def tuples_of(relation: str, count: int = 4) -> Ints:
    kb, number = towns(), towns().content.relations.find(relation)
    assert number is not None
    table = kb.fact_tables[kb.relations[relation].arity]
    return table.objects[table.rows(number)][:count]


def one_by_one(relation: str, tuples: Ints, position: int, draws: int) -> Floats:
    """By `NetworkPredictor.probabilities_per_draw`, one tuple after another."""
    config, predictor = completed().config, network(completed().predictor(relation))
    assert not isinstance(config.size, str)
    sampling = SamplingConfig(int(config.radius), config.size, draws, config.seed, "answer 0", shared_order=True)
    rows = []
    for row in tuples:
        all_of_it = np.repeat(row[None], len(predictor.graph), axis=0)
        all_of_it[:, position] = np.arange(len(predictor.graph))
        nothing = HiddenFacts.one_per_tuple(np.full(len(all_of_it), -1))
        rows.append(predictor.probabilities_per_draw(all_of_it, sampling, nothing).mean(axis=1))
    return np.array(rows)[None]


@pytest.mark.parametrize(
    ("relation", "position"),
    [("person", 0), ("works_in", 0), ("works_in", 1), ("moved", 0), ("moved", 1), ("moved", 2)],
)
def test_direct_scores_equal_those_of_the_predictor(relation: str, position: int) -> None:
    tuples = tuples_of(relation)
    found = plain(relation).scores(tuples, position)
    assert found.dtype == np.float64
    assert found.shape == (1, len(tuples), len(towns().objects))
    assert np.array_equal(found, one_by_one(relation, tuples, position, 3))


def test_blocks_and_threads_do_not_change_the_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    tuples = tuples_of("works_in", 7)
    whole = plain("works_in").scores(tuples, 1)
    assert np.array_equal(plain("works_in", threads=2).scores(tuples, 1), whole)
    assert np.array_equal(plain("works_in", threads=None).scores(tuples, 1), whole)
    for block in (1, 7, 100):
        monkeypatch.setattr(ranking, "BLOCK_SIZE", block)
        assert np.array_equal(plain("works_in").scores(tuples[:2], 1), whole[:, :2])


def test_several_means_are_those_of_the_first_draws() -> None:
    found, tuples = completed(), tuples_of("works_in", 3)
    together = NetworkScorer(network(found.predictor("works_in")), (1, 2, 3)).scores(tuples, 1)
    for row, draws in zip(together, (1, 2, 3), strict=True):
        assert np.array_equal(row, plain("works_in", draws).scores(tuples, 1)[0])


def test_the_object_at_the_position_is_ignored() -> None:
    tuples = tuples_of("works_in", 3)
    others = tuples.copy()
    others[:, 1] = 0
    assert np.array_equal(plain("works_in").scores(tuples, 1), plain("works_in").scores(others, 1))


def test_candidates_share_their_draws() -> None:
    """Two objects with the same facts get the same score, although draws are random."""
    crowd = [("likes", "ann", f"friend{i}") for i in range(30)] + [("likes", f"friend{i}", "eve") for i in range(9)]
    kb = gaifman.KnowledgeBase.from_facts(crowd, objects=["twin 1", "twin 2"])
    found = gaifman.complete(kb, **GOOD)
    asked = np.array([[kb.object_id("ann"), 0]], np.int32)
    scores = NetworkScorer(network(found.predictor("likes")), (2,)).scores(asked, 1)
    assert scores[0, 0, kb.object_id("twin 1")] == scores[0, 0, kb.object_id("twin 2")]
    assert len(np.unique(scores)) > 1


def test_no_tuples_no_scores() -> None:
    assert plain("works_in").scores(np.zeros((0, 2), np.int32), 0).shape == (1, 0, len(towns().objects))


def test_wrong_tuples_and_positions_are_refused() -> None:
    with pytest.raises(KnowledgeBaseError, match=r"tuples have shape \(tuples, 2\), not \(1, 3\)"):
        plain("works_in").scores(np.zeros((1, 3), np.int32), 0)
    for position in (-1, 2):
        with pytest.raises(KnowledgeBaseError, match="positions are numbered from 0 to 1"):
            plain("works_in").scores(np.zeros((1, 2), np.int32), position)
    with pytest.raises(KnowledgeBaseError, match="objects are numbered from 0"):
        plain("works_in").scores(np.full((1, 2), 999, np.int32), 0)
    with pytest.raises(KnowledgeBaseError, match="draws must be an integer"):
        plain("works_in", draws=0)

"""Answers a second: what is measured, of which relations, and where scores cannot be split."""

from __future__ import annotations

from functools import cache

import pytest

import gaifman
from gaifman.completion import Completion
from gaifman.errors import KnowledgeBaseError
from gaifman.experiments import speeds as home
from gaifman.experiments.speeds import SIZES, Throughput, largest_relations, measure_throughput
from gaifman.kb.knowledge_base import KnowledgeBase
from trained import FEW, towns

TEST = KnowledgeBase.from_facts(
    [("works_in", "p03", "t3"), ("works_in", "p04", "t4"), ("citizen", "p05", "c1"), ("moved", "p03", "t0", "t3")]
)


@cache
def completed() -> Completion:
    return gaifman.complete(towns(), phi="paper", **FEW)


def test_each_size_is_measured() -> None:
    found = measure_throughput(completed(), towns(), TEST, sizes=(4, 5, None), pairs=300, threads=2)
    assert [each.size for each in found] == [4, 5, None]
    assert all(each.relations == 2 for each in found)
    assert all(each.pairs_per_second > 0 for each in found)


def test_ranking_is_measured_where_scores_can_be_split() -> None:
    *measured, one = measure_throughput(completed(), towns(), TEST, sizes=(4, 5, None, 1), pairs=50, threads=1)
    for each in measured:
        assert each.ranking_per_second is not None
        assert each.ranking_per_second > 0
        assert each.precompute_seconds is not None
    assert (one.ranking_per_second, one.precompute_seconds) == (None, None), "of one member neither object has a share"


def test_another_base_model_is_not_split() -> None:
    few = {**FEW, "options": {}}
    model = gaifman.complete(towns(), ["works_in"], phi="paper", base="logistic", **few)
    (found,) = measure_throughput(model, towns(), TEST, sizes=(4,), pairs=50)
    assert found.pairs_per_second > 0


def test_the_model_itself_keeps_its_size() -> None:
    measure_throughput(completed(), towns(), TEST, sizes=(7,), pairs=10)
    assert completed().config.size == FEW["size"]


def test_relations_with_most_test_facts_are_measured() -> None:
    assert largest_relations(completed(), TEST, 5) == ["works_in", "citizen"], "moved has three places"
    assert largest_relations(completed(), TEST, 1) == ["works_in"]


def test_where_nothing_can_be_measured_it_is_said() -> None:
    with pytest.raises(KnowledgeBaseError, match="no speed to measure"):
        measure_throughput(completed(), towns(), KnowledgeBase.from_facts([("moved", "p03", "t0", "t3")]))


def test_progress_is_told_for_each_size_and_relation() -> None:
    told: list[tuple[str, int, int | None]] = []
    measure_throughput(completed(), towns(), TEST, sizes=(4, 6), pairs=10, progress=lambda *words: told.append(words))
    assert told == [("measuring speed", number, 4) for number in range(4)]


def test_a_dictionary_for_json() -> None:
    assert Throughput(None, 2, 1234.56789, None, 0.12345).as_dict() == {
        "size": None,
        "relations": 2,
        "pairs_per_s": 1234.568,
        "ranking_per_s": None,
        "field_s": 0.123,
    }


def test_sizes_are_those_of_the_figure() -> None:
    assert SIZES == (5, 10, 20, 50, 100, None)
    assert home.PAPER_ANSWERS_PER_SECOND == 5_000

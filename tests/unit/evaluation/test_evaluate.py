"""Evaluation: ranks by their definition, filtered and raw, unseen objects, samples, classification, threads."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import numpy as np
import pytest

import gaifman
from gaifman.completion import Completion
from gaifman.config import SamplingConfig
from gaifman.errors import KnowledgeBaseError
from gaifman.evaluation import scorers
from gaifman.evaluation import tasks as subjects
from gaifman.evaluation.evaluate import Classification, Evaluation, EvaluationConfig, evaluate
from gaifman.evaluation.scorers import NetworkScorer
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.kb.tables import Floats, Ints
from gaifman.ranking.ranks import TIES
from gaifman.sampling.hiding import HiddenFacts
from gaifman.training import TrainingConfig
from reference_ranks import Names, rank_of
from trained import FEW, GOOD, network, towns, worker

LATE = [("likes", "p00", "p01"), ("likes", "p02", "p01")]
HELD: list[tuple[str, ...]] = [
    *(("works_in", f"p{i:02d}", f"t{i % 5}") for i in (3, 4, 7, 9, 19)),
    ("moved", "p03", "t0", "t3"),
    ("moved", "p06", "t3", "t1"),
    ("person", "p05"),
    ("citizen", "newcomer", "c1"),
    LATE[1],
]
"""Facts of arity 1 to 3, of a relation that cannot be trained, and of a new object."""
TEST = KnowledgeBase.from_facts(HELD)
VALID = KnowledgeBase.from_facts([("works_in", "p03", "t1"), ("works_in", "guest", "t3"), ("likes", "p05", "p01")])


@cache
def train() -> KnowledgeBase:
    kb = towns().with_facts(LATE[:1])
    return kb.without_facts([fact for fact in HELD if fact in kb])


@cache
def completed() -> Completion:
    return gaifman.complete(train(), **FEW)


@cache
def found() -> Evaluation:
    return evaluate(completed(), train(), TEST, [VALID], threads=1)


def same(one: Evaluation, other: Evaluation) -> bool:
    """Bit for bit."""
    ranks = [
        np.array_equal(getattr(a, f), getattr(b, f)) for a, b in zip(*parts(one, other), strict=True) for f in FIELDS
    ]
    scored = [np.array_equal(getattr(one.classification, f), getattr(other.classification, f)) for f in CLASSIFIED]
    return all(ranks) and all(scored) and one.as_dict() == other.as_dict() and np.array_equal(one.fact, other.fact)


FIELDS, CLASSIFIED = ("better", "tied", "candidates"), ("scores", "targets", "relation")


def parts(*both: Evaluation) -> list[list[Any]]:
    return [[each.filtered, each.raw] for each in both]


# By definition


def slow_score(completion: Completion, relation: str, objects: Names) -> float:
    """The score of one tuple, with the draws of a prediction."""
    if relation not in completion.scorers:
        return completion.probability(relation, *objects, constraints=False).value
    config, predictor = completion.config, network(completion.predictor(relation))
    assert not isinstance(config.size, str)
    sampling = SamplingConfig(int(config.radius), config.size, config.draws, config.seed, "answer 0", shared_order=True)
    nothing = HiddenFacts(np.zeros(2, np.int64), np.zeros(0, np.int64))
    return float(predictor.probabilities_per_draw(predictor.tuple_ids([objects]), sampling, nothing).mean())


@pytest.mark.parametrize("raw", [False, True])
def test_ranks_by_their_definition(raw: bool) -> None:
    """Each fact, position and object: by name, one tuple at a time."""
    objects = sorted({*train().objects, *TEST.objects, *VALID.objects})
    completion = completed().with_kb(KnowledgeBase.from_facts(train().facts(), dict(values(train())), objects))
    everything = {(f.relation, *f.objects) for kb in (train(), TEST, VALID) for f in kb.facts()}
    result, at = found(), 0
    for relation in result.relations:
        facts = [fact.objects for fact in TEST.facts(relation)]
        known = set() if raw else {tuple(row[1:]) for row in everything if row[0] == relation}
        for place in range(len(facts[0])):
            for fact in facts:
                wanted = rank_of(fact, place, objects, known, lambda t, r=relation: slow_score(completion, r, t))  # type: ignore[misc]
                ranks = result.raw if raw else result.filtered
                assert tuple(ranks.with_ties(ties)[at] for ties in TIES) == wanted, (relation, fact, place)
                assert result.relations[result.relation[at]] == relation
                assert result.position[at] == place
                at += 1
    assert at == len(result) == sum(len(fact) - 1 for fact in HELD)


def values(kb: KnowledgeBase) -> list[tuple[tuple[str, str], float]]:
    return [((attribute, obj), value) for attribute, obj, value in kb.values()]


def test_unseen_test_objects_are_ranked() -> None:
    result = found()
    assert result.unseen_objects == 1
    assert result.objects == len({*train().objects, "newcomer", "guest"})
    citizen = result.relations.index("citizen")
    assert (result.relation == citizen).sum() == 2, "both places of citizen(newcomer, c1) are ranked"
    assert (result.raw.candidates == result.objects).all()


def test_an_object_without_facts_is_ranked_as_any_other_without_facts() -> None:
    """The newcomer and the guest are tied, which counts half."""
    citizen = found().relations.index("citizen")
    head = (found().relation == citizen) & (found().position == 0)
    assert found().filtered.tied[head][0] >= 1


def test_known_facts_of_all_splits_are_filtered() -> None:
    """works_in(p03, t1) is not a training fact: if it is known, t1 is filtered."""
    with_it, without = found(), evaluate(completed(), train(), TEST, threads=1)
    row = (with_it.relation == with_it.relations.index("works_in")) & (with_it.position == 1)
    assert (with_it.filtered.candidates[row][0], without.filtered.candidates[row][0]) == (
        with_it.objects - 1,
        without.objects,
    )
    for ties in TIES:
        assert (with_it.filtered.with_ties(ties) <= with_it.raw.with_ties(ties)).all()


def test_one_knowledge_base_of_known_facts_needs_no_list() -> None:
    assert same(evaluate(completed(), train(), TEST, VALID, threads=1), found())


def test_test_facts_are_removed_from_the_knowledge_base() -> None:
    seen = evaluate(completed(), train().with_facts(HELD[:3]), TEST, [VALID], threads=1)
    assert seen.hidden_test_facts == 3
    assert seen.as_dict() | {"hidden_test_facts": 0} == found().as_dict()
    assert np.array_equal(seen.filtered.realistic, found().filtered.realistic)


def test_a_trained_model_ranks_better_than_chance() -> None:
    good = evaluate(gaifman.complete(train(), ["works_in"], **GOOD), train(), TEST, relations=["works_in"])
    assert good.metrics().mean_rank.value < 12
    assert good.metrics_by("position")["position 2"].hits[3].value == 1.0, "of all objects"
    assert good.classification.metrics()["auc"] > 0.8


# Threads and blocks


@pytest.mark.parametrize("threads", [2, 5, None])
def test_any_number_of_threads_gives_the_same(threads: int | None) -> None:
    assert same(evaluate(completed(), train(), TEST, [VALID], threads=threads), found())


def test_blocks_do_not_change_the_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    for cells in (1, 100, 150):
        monkeypatch.setattr(scorers, "MAX_CELLS", cells)
        monkeypatch.setattr(scorers, "BLOCK_SIZE", 4 * cells)
        assert same(evaluate(completed(), train(), TEST, [VALID], threads=2), found())


def test_a_query_model_with_threads_gives_the_same() -> None:
    one, two = (evaluate(worker(), towns(), TEST, threads=threads) for threads in (1, 2))
    assert same(one, two)
    assert one.relations == ("works_in(x, y)",)
    assert one.ranked_facts == 5


def test_facts_that_differ_at_one_position_share_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []
    scores = NetworkScorer.scores

    def counted(self: NetworkScorer, tuples: Ints, position: int) -> Floats:
        asked.append((len(tuples), position))
        return scores(self, tuples, position)

    monkeypatch.setattr(NetworkScorer, "scores", counted)
    test = KnowledgeBase.from_facts([("works_in", f"p{i:02d}", "t1") for i in (2, 3, 4)])
    evaluate(completed(), train(), test, threads=1)
    assert asked == [(1, 0), (3, 1)]


# Metrics


def test_groups_are_parts_of_the_whole() -> None:
    whole = found().metrics()
    for kind in ("position", "category", "relation"):
        groups = found().metrics_by(kind)
        assert sum(each.ranks for each in groups.values()) == whole.ranks
        mean = sum(each.mean_rank.value * each.ranks for each in groups.values()) / whole.ranks
        assert mean == pytest.approx(whole.mean_rank.value)
    assert [*found().metrics_by("position")] == ["position 1", "position 2", "position 3"]
    assert [*found().metrics_by("relation")] == ["citizen", "likes", "moved", "person", "works_in"]
    assert [*found().metrics_by("category")] == ["1-1", "n-1", "other"]
    assert dict(zip(found().relations, found().trained, strict=True))["likes"] is False
    with pytest.raises(KnowledgeBaseError, match="one of position, category, relation") as caught:
        found().metrics_by("positions")
    assert "position" in caught.value.suggestions


def test_a_dictionary_for_json() -> None:
    body = json.loads(json.dumps(found().as_dict(), allow_nan=False))
    assert body["facts"] == body["test_facts"] == 10
    assert body["ranks"] == 21
    assert body["sampled"] is False
    assert body["intervals"] == "95%, bootstrap over facts, 1,000 resamples"
    for kind in ("filtered", "raw"):
        assert set(body[kind]) == {"all", "optimistic", "pessimistic", "position", "category", "relation"}
        means = [body[kind][ties]["mean_rank"]["value"] for ties in ("optimistic", "all", "pessimistic")]
        assert means == sorted(means)
    assert body["filtered"]["relation"]["works_in"]["facts"] == 5
    assert {row["name"]: row["category"] for row in body["relations"]}["works_in"] == "n-1"
    assert body["classification"]["facts"] == 10


def test_a_table_for_people() -> None:
    lines = str(found()).splitlines()
    assert lines[0].split() == ["ranks", "mean", "rank", "MRR", "hits@1", "hits@3", "hits@10"]
    assert [line.split("  ")[0] for line in lines[1:4]] == ["all", "all, optimistic", "all, pessimistic"]
    assert len({len(line) for line in lines}) == 1
    assert lines[1].split()[1] == "21"
    assert repr(found()) == f"<Evaluation: 21 ranks of 10 facts among {found().objects} objects>"


# Samples


def test_a_sample_has_the_ranks_of_the_whole() -> None:
    some = evaluate(completed(), train(), TEST, [VALID], fraction=0.4, threads=1)
    assert (some.ranked_facts, some.test_facts, some.sampled) == (4, 10, True)
    assert repr(some).endswith(", a sample of 10>")
    assert (some.as_dict()["facts"], some.as_dict()["test_facts"], some.as_dict()["sampled"]) == (4, 10, True)
    whole = list(zip(found().relation, found().position, found().filtered.realistic, strict=True))
    names = [found().relations.index(name) for name in some.relations]
    for relation, position, rank in zip(some.relation, some.position, some.filtered.realistic, strict=True):
        assert (names[relation], position, rank) in whole
    assert same(some, evaluate(completed(), train(), TEST, [VALID], count=4, threads=2))
    assert not evaluate(completed(), train(), TEST, [VALID], count=99).sampled


@pytest.mark.parametrize(
    ("terms", "wanted"),
    [
        ({"fraction": 0}, "above 0 and at most 1"),
        ({"fraction": 1.5}, "above 0 and at most 1"),
        ({"count": 0}, "integer of at least 1"),
        ({"count": 2.5}, "integer of at least 1"),
        ({"count": 2, "fraction": 0.5}, "not both"),
        ({"negative_sampling": "type"}, "negative_sampling must be one of"),
        ({"draws": 0}, "draws must be an integer"),
    ],
)
def test_invalid_settings_are_refused(terms: dict[str, Any], wanted: str) -> None:
    with pytest.raises(KnowledgeBaseError, match=wanted):
        evaluate(completed(), train(), TEST, **terms)


def test_the_size_of_a_sample() -> None:
    assert EvaluationConfig(fraction=0.01).sample_size(10) == 1
    assert EvaluationConfig(fraction=0.25).sample_size(10) == 3
    assert (
        EvaluationConfig(fraction=1.0).sample_size(10)
        == EvaluationConfig().sample_size(10)
        == EvaluationConfig(count=20).sample_size(10)
        == 10
    )


def test_the_default_draws_are_the_models() -> None:
    assert found().draws == completed().config.draws == FEW["draws"]
    other = evaluate(completed(), train(), TEST, [VALID], draws=1, threads=1)
    assert other.draws == 1
    assert not np.array_equal(other.classification.scores, found().classification.scores)


# Classification


def test_negatives_are_never_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """All pairs but four are known facts: the negatives must be among the four."""
    pairs = [(f"a{i}", f"b{j}") for i in range(6) for j in range(6)]
    missing = {("a0", "b1"), ("a2", "b3"), ("a4", "b4"), ("a5", "b0")}
    known = [("owns", *pair) for pair in pairs if pair not in missing]
    kb, test, valid = (KnowledgeBase.from_facts(known[i::3]) for i in range(3))
    model, scored = gaifman.complete(kb, **FEW), []
    scores = NetworkScorer.tuple_scores

    def kept(self: NetworkScorer, tuples: Ints) -> Floats:
        scored.append(tuples)
        return scores(self, tuples)

    monkeypatch.setattr(NetworkScorer, "tuple_scores", kept)
    result = evaluate(model, kb, test, [valid], threads=1)
    objects = sorted({name for pair in pairs for name in pair})
    corrupted = {(objects[a], objects[b]) for a, b in scored[1].tolist()}
    assert corrupted <= missing
    assert corrupted
    assert result.classification.metrics()["negatives"] == len(scored[1]) <= len(known[1::3])


def test_measures_of_a_classification() -> None:
    scores, targets = np.array([0.9, 0.6, 0.4, 0.7]), np.array([1.0, 1.0, 0.0, 0.0])
    result = Classification(scores, targets, np.array([0, 0, 0, 1], np.int32))
    assert result.metrics() == {"facts": 2, "negatives": 2, "auc": 0.75, "average_precision": 0.833333}
    assert result.metrics(0) == {"facts": 2, "negatives": 1, "auc": 1.0, "average_precision": 1.0}
    assert result.metrics(1) == {"facts": 0, "negatives": 1, "auc": None, "average_precision": None}


def test_nan_scores_are_worst(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = found().objects
    monkeypatch.setattr(NetworkScorer, "tuple_scores", lambda _, tuples: np.full((1, len(tuples)), np.nan))
    monkeypatch.setattr(NetworkScorer, "scores", lambda _, tuples, __: np.full((1, len(tuples), whole), np.nan))
    result = evaluate(completed(), train(), TEST, [VALID], relations=["works_in"])
    assert result.classification.metrics()["auc"] == 0.5
    assert result.filtered.optimistic.tolist() == [1.0] * 10
    assert (result.raw.pessimistic == whole).all()


# Progress and errors


def test_progress_is_reported_to_its_end() -> None:
    reports: list[tuple[str, int, int | None]] = []
    evaluate(completed(), train(), TEST, [VALID], threads=2, progress=lambda *words: reports.append(words))
    assert reports[0] == ("preparing", 0, None)
    assert reports[-1] == ("ranking", 21, 21)
    done = [done for phase, done, _ in reports if phase == "ranking"]
    assert done == sorted(done)


@pytest.mark.parametrize("threads", [1, 3])
def test_an_error_in_a_thread_stops_the_evaluation(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scorers, "MAX_CELLS", 1)
    monkeypatch.setattr(scorers, "BLOCK_SIZE", 1)
    calls = []

    def stop(phase: str, done: int, total: int | None) -> None:
        calls.append((phase, done, total))
        if done > 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        evaluate(completed(), train(), TEST, [VALID], threads=threads, progress=stop)
    assert len(calls) < 10


def test_blocks_of_direct_scores_are_smaller() -> None:
    """Otherwise a stop is noticed only after a minute."""
    data = subjects.EvaluationData(train(), TEST)
    cells = {
        (s.name, n): s.scorer.block_size for n in (1, 8) for s in subjects.build_tasks(completed(), data, None, [n])
    }
    plain = {name for (name, _), most in cells.items() if most < scorers.MAX_CELLS}
    assert plain
    assert all(cells[name, 8] == cells[name, 1] // 8 == scorers.BLOCK_SIZE // 8 for name in plain)


def test_a_relation_of_an_arity_without_a_trained_model() -> None:
    kb = KnowledgeBase.from_facts([("gave", "ann", "book", "bob"), ("old", "ann"), ("old", "eve")], objects=["x", "y"])
    completion = gaifman.complete(kb, **FEW)
    result = evaluate(completion, kb, KnowledgeBase.from_facts([("gave", "ann", "pen", "bob")]))
    assert result.trained == (False,)
    assert result.filtered.better.tolist() == [0, 0, 0], "ann and bob are seen there, and the book is filtered"
    assert result.classification.metrics()["facts"] == 1


def test_the_seed_of_the_model_draws_the_neighbourhoods() -> None:
    assert TrainingConfig().seed == 0
    one, two = (evaluate(completed(), train(), TEST, [VALID], seed=seed, threads=1) for seed in (0, 1))
    assert np.array_equal(one.filtered.realistic, two.filtered.realistic)
    assert one.metrics().mrr.value == two.metrics().mrr.value
    assert one.metrics().mrr.low != two.metrics().mrr.low

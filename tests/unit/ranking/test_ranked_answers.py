"""Ranked answers: order, known answers, queries, first pass, other knowledge bases."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import gaifman
from gaifman.completion import Completion
from gaifman.errors import KnowledgeBaseError
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.model import GaifmanModel
from gaifman.predict import Estimates
from gaifman.ranking import ranked_answers as module
from gaifman.ranking.ranked_answers import RankedAnswers
from trained import FEW, demo, neighbour, network, same, towns, worker
from trained import completion_with_likes as completed

APART = "exists z. borders(x, z) & borders(z, y) & x != y & ~borders(x, y)"
TOGETHER = "exists z. lives_in(x, z) & lives_in(y, z) & x != y"


@cache
def together() -> GaifmanModel:
    return gaifman.fit(towns(), TOGETHER, **FEW)


@cache
def apart() -> GaifmanModel:
    return gaifman.fit(demo(), APART, **FEW)


def names(found: RankedAnswers) -> list[tuple[str, ...]]:
    return [answer.names for answer in found]


def by_hand(found: RankedAnswers, estimates: Estimates, kb: KnowledgeBase) -> list[tuple[str, ...]]:
    """All tuples of a ranking, by probability and then by id."""
    order = sorted(range(len(estimates)), key=lambda row: (-estimates.values[row], found.tuples[row].tolist()))
    return [tuple(kb.object_name(number) for number in found.values[row].tolist()) for row in order]


# The order


def test_what_there_is_to_learn_comes_first() -> None:
    assert worker().answers(x="p03", top=1)[0].names == ("t3",)
    assert completed().answers("works_in('p03', y)", top=1)[0].names == ("t3",)
    assert completed().answers("citizen('p03', y)", top=1)[0].names == ("c1",)
    people = [name for (name,) in names(completed().answers("person(x)", top=20))]
    assert sum(name.startswith("p") for name in people) >= 18


def test_every_candidate_has_the_probability_that_the_model_gives_it() -> None:
    for model in (worker(), together()):
        found = model.answers(x="p03", top=None, candidates="all")
        assert len(found) == found.considered.count == len(model.kb.objects)
        wanted = model.probabilities(found.tuples)
        assert same(found.estimates, wanted)
        assert names(found) == by_hand(found, wanted, model.kb)
        assert (np.diff(found.probabilities) <= 0).all()


def test_also_where_facts_are_hidden_from_what_is_no_answer() -> None:
    """For a query with ¬ the tuple's own atoms are hidden, answer or not."""
    found = apart().answers(x="portugal", top=None)
    assert same(found.estimates, apart().probabilities(found.tuples))


def test_a_completion_says_what_its_probabilities_say() -> None:
    for text, relation in (
        ("works_in(x, 't3')", "works_in"),
        ("moved('p03', y, y)", "moved"),
        ("likes(x, y)", "likes"),
    ):
        found = completed().answers(text, top=None)
        assert same(found.estimates, completed().probabilities(relation, found.tuples))


def test_top_is_the_beginning_of_all() -> None:
    every = worker().answers(x="p07", top=None)
    for top in (1, 3, 10_000):
        some = worker().answers(x="p07", top=top)
        assert names(some) == names(every)[:top]
        assert some.considered == every.considered


def test_equal_probabilities_are_ordered_by_number() -> None:
    """The fallback has few distinct probabilities."""
    found = completed().answers("likes('p02', y)", top=None)
    assert found.probabilities[0] > found.probabilities[1]
    assert names(found)[0] == ("p01",)
    assert found.values[1:, 0].tolist() == sorted(found.values[1:, 0].tolist())
    assert found.considered.draws == 0
    pairs = completed().answers("likes(x, y)", top=None)
    rows = [(-p, *t) for p, t in zip(pairs.probabilities.tolist(), pairs.values.tolist(), strict=True)]
    assert rows == sorted(rows)


def test_it_is_the_same_each_time() -> None:
    one, other = (neighbour().answers(known="exclude") for _ in range(2))
    assert str(one) == str(other)
    assert same(one.estimates, other.estimates)


def test_the_order_of_answers_names() -> None:
    turned = completed().answers("q(y, x) :- works_in(x, y)", top=5)
    plain = completed().answers("works_in(x, y)", top=None)
    assert turned.variables == ("y", "x")
    assert {(x, y) for y, x in names(turned)} <= set(names(plain)[:8])


# Known answers


def test_known_answers_are_marked() -> None:
    found = worker().answers(x="p03", top=None)
    assert {answer.names for answer in found if answer.known} == {("t3",)}
    wanted = {tuple(row) for row in gaifman.query(towns(), TOGETHER, x="p03")}
    assert {("p03", *answer.names) for answer in together().answers(x="p03", top=None) if answer.known} == wanted


def test_known_answers_are_left_out() -> None:
    every, left = (worker().answers(x="p03", top=None, known=known) for known in ("mark", "exclude"))
    assert names(left) == [answer.names for answer in every if not answer.known]
    assert left.considered.count == every.considered.count - 1
    assert str(left.considered).endswith("all objects, without known answers, 1 left out by constraints")
    assert not left.known.any()


def test_only_known_answers() -> None:
    found = worker().answers(known="only", top=None)
    assert len(found) == 40
    assert found.known.all()
    assert found.considered.description == "known answers"
    assert names(worker().answers(x="p03", known="only")) == [("t3",)]
    assert len(together().answers(x="p03", known="only", top=None)) == 7
    assert len(worker().answers(x="t3", known="only")) == 0


def test_only_known_answers_in_their_order() -> None:
    every = together().answers(top=None)
    assert names(together().answers(known="only", top=None)) == [answer.names for answer in every if answer.known]


def test_a_known_answer_is_scored_as_if_it_were_not() -> None:
    without = worker().with_kb(towns().without_facts([("works_in", "p03", "t3")]))
    one, other = worker().answers(x="p03", y="t3")[0], without.answers(x="p03", y="t3")[0]
    assert one.estimate == other.estimate
    assert (one.known, other.known) == (True, False)


# Queries


def test_objects_by_keyword_by_mapping_or_in_the_query() -> None:
    ways = (
        worker().answers(x="p03"),
        worker().answers(bindings={"x": "p03"}),
        worker().answers("works_in('p03', y)"),
        worker().answers("works_in(a, y)", a="p03"),
        completed().model("works_in").with_kb(towns()).answers(x="p03"),
    )
    assert len({str(found) for found in ways[:4]}) == 1
    assert {found.bracketed for found in ways} == {"works_in('p03', y)"}
    assert str(completed().answers("works_in(x, y)", x="p03")) == str(completed().answers("works_in('p03', y)"))


def test_repeated_variables() -> None:
    found = worker().answers("works_in(v, v)", top=None)
    assert found.variables == ("v",)
    assert (found.tuples[:, 0] == found.tuples[:, 1]).all()
    assert found.considered.description == "person"
    assert same(found.estimates, worker().probabilities(found.tuples))


def test_no_variable_is_left() -> None:
    found = worker().answers(x="p03", y="t3")
    assert names(found) == [()]
    assert found[0].estimate == worker().probability("p03", "t3")
    assert str(found).splitlines()[1:] == [
        "probability",
        f"{found[0].estimate}  known",
        "1 candidate: the tuple itself",
    ]
    assert len(worker().answers(x="p03", y="t3", known="exclude")) == 0


def test_types_and_lists() -> None:
    found = completed().answers("works_in('p03', y)", restrict_to={"y": ["t0", "t3"]}, top=None)
    assert {name for (name,) in names(found)} == {"t0", "t3"}
    people = completed().answers("works_in(x, 't3')", restrict_to={"x": "person"}, top=None)
    assert len(people) == people.considered.count == 40
    assert str(people.considered) == "40 candidates: person"


def test_pairs() -> None:
    every = worker().answers(top=None)
    assert every.considered.description == "pairs of person and any object"
    assert len(every) == 40 * (len(towns().objects) - 1)  # nobody works in themselves
    seen = worker().answers(top=None, candidates="seen")
    assert len(seen) == 40 * 5
    near = worker().answers(top=None, candidates="near", max_candidates=150)
    assert near.considered.description.endswith("at most 1 step apart in the graph")
    kept = set(names(near))
    assert [pair for pair in names(seen) if pair in kept] == names(near)


def test_three_variables() -> None:
    found = completed().answers("moved(x, y, z)", top=5, candidates="near")
    assert found.variables == ("x", "y", "z")
    assert len(found) == 5
    assert found.considered.description.startswith("combinations of 3 objects seen")


# The first pass


def test_many_candidates_have_a_first_pass() -> None:
    found = neighbour().answers(top=10, draws=10)
    looked = found.considered
    assert (looked.shortlisted, looked.first_pass_draws, looked.draws) == (1_000, 2, 10)
    assert str(looked).endswith("the best 1,000 by 2 draws got 10 draws")
    assert found.estimates.draws.tolist() == [10] * 10
    assert same(found.estimates, neighbour().probabilities(found.tuples, draws=10))


def test_the_first_pass_misses_few_of_the_best() -> None:
    """A shortlist of 200 missed up to three of the ten best. Two draws of four members would tell too little."""
    model = gaifman.fit(demo(), "borders(x, y)", **{**FEW, "size": 20})
    for known in ("mark", "exclude"):
        found = model.answers(top=10, known=known, draws=10)
        assert found.considered.first_pass_draws
        best = names(model.answers(top=None, known=known, draws=10))[:10]
        assert len({*names(found)} & {*best}) >= 8


def test_the_first_pass_keeps_the_best(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("MAX_FULL_DRAWS", 0), ("MIN_SHORTLIST", 6), ("SHORTLIST_PER_ANSWER", 3)):
        monkeypatch.setattr(module, name, value)
    objects = np.arange(len(towns().objects), dtype=np.int32)
    tuples = np.stack([np.full_like(objects, towns().object_id("p03")), objects], axis=1)
    predictor, config = network(worker().predictor), worker().config
    sampling = replace(config.sampling(2, "look"), shared_order=True)
    hidden = predictor.hidden_facts(tuples)
    looked = predictor.probabilities_per_draw(tuples, sampling, hidden).mean(axis=1)
    best = np.lexsort((objects, -looked))[:9]
    final = worker().probabilities(tuples[best], draws=4).values
    wanted = best[np.lexsort((objects[best], -final))][:3]
    found = worker().answers(x="p03", top=3)
    assert found.values[:, 0].tolist() == objects[wanted].tolist()
    assert (found.considered.shortlisted, found.considered.first_pass_draws) == (9, 2)
    assert worker().answers(x="p03", top=1).considered.shortlisted == 6


def test_no_first_pass_if_it_saves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_FULL_DRAWS", 0)
    assert worker().answers(x="p03", top=5).considered.first_pass_draws == 0, "fewer than a look keeps"
    assert neighbour().answers(top=5, draws=2).considered.first_pass_draws == 0, "no more draws than a look has"
    assert worker().answers(top=None).considered.first_pass_draws == 0, "all are wanted"


def test_the_fallback_has_no_first_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("MAX_FULL_DRAWS", 0), ("MIN_SHORTLIST", 6), ("SHORTLIST_PER_ANSWER", 3)):
        monkeypatch.setattr(module, name, value)
    found = completed().answers("likes(x, y)", top=3)
    assert found.considered.first_pass_draws == found.considered.draws == 0
    assert names(found) == names(completed().answers("likes(x, y)", top=None))[:3]


def test_one_draw_has_no_error() -> None:
    found = worker().answers(x="p03", draws=1, top=2)
    assert np.isnan(found.estimates.errors).all()
    assert "±" not in str(found)
    assert found.as_dict()["answers"][0]["standard_error"] is None


def test_a_prior_moves_the_odds_and_not_the_order() -> None:
    even, rare = (worker().answers(x="p03", prior=prior, constraints=False) for prior in (0.5, 0.1))
    assert names(even) == names(rare)
    odds = even.probabilities / (1 - even.probabilities) / 9
    np.testing.assert_allclose(rare.probabilities, odds / (1 + odds), rtol=1e-9)


# Other knowledge bases


def test_new_objects_are_ranked() -> None:
    other = worker().with_kb(towns(30, "new "))
    assert other.answers(x="new p03", top=1)[0].names == ("new t3",)
    assert completed().with_kb(towns(30, "new ")).answers("works_in('new p03', y)", top=1)[0].names == ("new t3",)
    extended = towns().with_facts([("person", "eve"), ("lives_in", "eve", "t2")])
    assert worker().with_kb(extended).answers(x="eve", top=1)[0].names == ("t2",)


def test_a_missing_relation_has_no_known_answers() -> None:
    kb = towns()
    fewer = KnowledgeBase.from_facts([f for f in kb.facts() if f.relation not in ("works_in", "moved")])
    for found in (
        worker().with_kb(fewer).answers(x="p03"),
        completed().with_kb(fewer).answers("works_in('p03', y)"),
    ):
        assert len(found) == 10
        assert not found.known.any()
    assert len(completed().with_kb(fewer).answers("moved('p03', y, z)", top=3, restrict_to={"z": ["t3"]})) == 3
    assert len(worker().with_kb(fewer).answers(known="only")) == 0


def test_a_file_answers_the_same(tmp_path: Path) -> None:
    together().save(tmp_path / "0.gaifman")
    completed().save(tmp_path / "1.gaifman")
    model, completion = (gaifman.load(tmp_path / f"{n}.gaifman") for n in range(2))
    assert isinstance(model, GaifmanModel)
    assert isinstance(completion, Completion)
    assert str(model.with_kb(towns()).answers(x="p03")) == str(together().answers(x="p03"))
    asked = "citizen(x, 'c1')"
    assert str(completion.with_kb(completed().kb).answers(asked)) == str(completed().answers(asked))
    with pytest.raises(KnowledgeBaseError, match="no knowledge base"):
        completion.answers(asked)

"""`gaifman demo`: facts are held out and found again, and its output fits a screen."""

from __future__ import annotations

import json
import shlex
import sys
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest

import gaifman
from cli_runner import output
from gaifman.cli.demo import (
    HOLD_OUT_EVERY,
    NEXT_COMMANDS,
    SENTENCES,
    Trial,
    activation_hint,
    demo_lines,
    display_name,
    find_facts,
    hold_out_facts,
    ranked_facts,
    recurring_objects,
    relation_scores,
    run_trial,
)
from gaifman.completion import Completion, train_completion
from gaifman.evaluation.evaluate import Evaluation, evaluate, evaluate_popularity
from gaifman.explain.explanation import linking_facts
from gaifman.training import TrainingConfig
from trained import GOOD, demo, towns

command = import_module("gaifman.cli.demo")  # the package has a command of the same name


@cache
def demo_trial() -> Trial:
    """The trial of `gaifman demo`."""
    return run_trial(demo())


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two relations are trained, and few facts are held out."""
    monkeypatch.setattr(command, "MIN_FACTS", 700)
    monkeypatch.setattr(command, "HOLD_OUT_EVERY", 40)


# What comes back


def test_seven_in_ten_stand_first_or_second() -> None:
    """For five choices of held-out facts see benchmarks/demo.py."""
    trial = demo_trial()
    assert trial.recurring > 300
    assert trial.recurring_top_2 >= 0.7


def test_three_times_as_many_stand_first_as_by_popularity() -> None:
    total = demo_trial().total
    assert total.first > 3 * total.popularity_first
    assert total.first <= total.top_3
    assert total.questions == sum(score.questions for score in demo_trial().relations)


def test_five_finds_of_different_relations() -> None:
    found = [find.fact for find in demo_trial().finds]
    assert len({fact.relation for fact in found}) == len(found) == 5
    held_out = hold_out_facts(demo())
    rest = demo().without_facts((name, *pair) for name, own in held_out.items() for pair in own)
    for find in demo_trial().finds:
        assert find.fact.objects in held_out[find.fact.relation]
        assert not [fact for fact in rest.facts() if set(find.fact.objects) <= set(fact.objects)]
        assert find.popularity_rank >= command.POOR_RANK
        assert find.reason
        assert set(find.reason.facts) <= set(rest.facts())
    shown = [find.probability for find in demo_trial().finds]
    assert shown == sorted(shown, reverse=True)


# What it shows


def test_the_output_fits_a_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "activation_hint", lambda: [". .venv/bin/activate"])
    lines = [click.unstyle(line) for line in demo_lines(demo(), demo_trial())]
    assert len(lines) <= 46
    assert max(map(len, lines)) <= 100
    text = "\n".join(lines)
    for piece in (f"{len(demo()):,} facts", "popular", "because ", "Why ", *NEXT_COMMANDS):
        assert piece in text
    for score in demo_trial().relations:
        assert f"{score.relation:18}{score.questions:>9}" in text


def test_without_finds_nothing_is_explained() -> None:
    text = "\n".join(demo_lines(demo(), replace(demo_trial(), finds=())))
    assert "Why" not in text


@pytest.mark.usefixtures("short")
def test_demo_prints_a_trial() -> None:
    text = output("demo")
    assert [line.split()[0] for line in text.split("─\n")[1].splitlines()[:1]] == ["city_in"]
    assert "member_of" in text


@pytest.mark.usefixtures("short")
def test_demo_as_json() -> None:
    body = json.loads(output("demo", "--json"))
    assert [row["relation"] for row in body["relations"]] == ["city_in", "member_of"]
    assert body["all"]["questions"] == sum(row["questions"] for row in body["relations"])
    assert body["both_positions"]["questions"] == 2 * body["all"]["questions"]
    assert body["kb"]["facts"] == len(demo())
    assert body["next"] == [*NEXT_COMMANDS]
    for find in body["finds"]:
        assert 0 < find["probability"] < 1
        assert find["reason"]["facts"]
    first, explained = body["finds"][0], body["explanation"]
    assert explained["query"].replace("'", "") == first["fact"]
    assert explained["probability"] == pytest.approx(first["probability"])


def test_the_next_commands_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    train, answer, explain, serve = (arguments(line) for line in NEXT_COMMANDS)
    output(*train, "--relation", "capital")
    assert output(*answer).split("─\n")[1].startswith("paris")
    assert "city_in(paris, france)" in output(*explain)
    assert serve == ["serve", "demo", "countries.gaifman", "--open"]


def arguments(line: str) -> list[str]:
    """The arguments of a command as a shell splits them."""
    program, *rest = shlex.split(line)
    assert program == "gaifman"
    return rest


def test_every_relation_of_the_trial_has_a_sentence() -> None:
    assert set(SENTENCES) == set(hold_out_facts(demo()))
    for name in SENTENCES:
        fact = next(iter(demo().facts(name)))
        text = command.fact_sentence(name, fact.objects)
        assert display_name(fact.objects[0]) in text
        assert display_name(fact.objects[1]).removeprefix("the ") in text


# The trial


@pytest.mark.parametrize("offset", range(5))
def test_one_fact_in_twenty_is_held_out_and_a_border_both_ways(offset: int) -> None:
    held = hold_out_facts(demo(), offset)
    assert len(held) == 19
    for name, facts in held.items():
        relation = demo().relations[name]
        assert relation.arity == 2
        assert len(set(facts)) == len(facts) >= relation.count // HOLD_OUT_EVERY
        assert all((name, *pair) in demo() for pair in facts)
    borders = held["borders"]
    assert {(y, x) for x, y in borders} == set(borders)
    assert len(borders) <= 2 * 630 // HOLD_OUT_EVERY + 2


def test_other_offsets_hold_out_other_facts() -> None:
    one, other = (hold_out_facts(demo(), offset)["capital"] for offset in (0, 1))
    assert not set(one) & set(other)


def test_held_out_facts_are_not_trained_on(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def train(kb: gaifman.KnowledgeBase, config: TrainingConfig, *args: Any, **more: Any) -> Completion:
        seen.append(kb)
        return train_completion(kb, config, *args, **more)

    monkeypatch.setattr("gaifman.completion.train_completion", train)
    monkeypatch.setattr(command, "MIN_FACTS", 700)
    told: list[tuple[str, int, int | None]] = []
    found = run_trial(demo(), progress=lambda *said: told.append(said))
    (kb,) = seen
    assert len(kb) == len(demo()) - found.total.questions
    phases = list(dict.fromkeys(phase for phase, _, _ in told))
    assert phases[0] == "training relations"
    assert phases[-1] == "explaining finds"


HELD_OUT = [("works_in", "p03", "t3"), ("works_in", "p04", "t4"), ("citizen", "p05", "c0")]


@dataclass(frozen=True)
class Evaluated:
    """Visible and test facts, a completion, its evaluation and that of popularity."""

    rest: gaifman.KnowledgeBase
    test: gaifman.KnowledgeBase
    completion: Completion
    evaluation: Evaluation
    popularity: Evaluation

    @property
    def facts(self) -> list[gaifman.Fact]:
        return ranked_facts(self.evaluation, self.test)


@pytest.fixture(scope="module")
def small() -> Evaluated:
    rest, test = towns().without_facts(HELD_OUT), gaifman.KnowledgeBase.from_facts(HELD_OUT)
    completion = gaifman.complete(rest, ["works_in", "citizen"], **GOOD)
    baseline = evaluate_popularity(completion, rest, test)
    return Evaluated(rest, test, completion, evaluate(completion, rest, test), baseline)


def test_scores_are_those_of_an_evaluation(small: Evaluated) -> None:
    evaluation, popularity = small.evaluation, small.popularity
    scores = {score.relation: score for score in relation_scores(evaluation, popularity)}
    assert {name: score.questions for name, score in scores.items()} == {"works_in": 2, "citizen": 1}
    rows = (evaluation.position == 1) & (evaluation.relation == evaluation.relations.index("works_in"))
    ranks, others = evaluation.filtered.realistic[rows], popularity.filtered.realistic[rows]
    own = scores["works_in"]
    assert own.first == pytest.approx((ranks <= 1).mean())
    assert own.top_3 == pytest.approx((ranks <= 3).mean())
    assert own.popularity_first == pytest.approx((others <= 1).mean())
    assert own.popularity_top_3 == pytest.approx((others <= 3).mean())


def test_facts_are_in_the_order_of_the_evaluation(small: Evaluated) -> None:
    """The rank by popularity follows from the definition: objects that are more frequent, or as frequent."""
    rest, popularity, facts = small.rest, small.popularity, small.facts
    for row, at, place in zip(range(len(popularity)), popularity.fact, popularity.position, strict=True):
        fact = facts[at]
        names = [other.objects[place] for other in rest.facts(fact.relation)]
        true = {
            other.objects[place]
            for kb in (rest, small.test)
            for other in kb.facts(fact.relation)
            if other.objects[1 - place] == fact.objects[1 - place]
        }
        others = [names.count(name) for name in rest.objects if name not in true]
        mine = names.count(fact.objects[place])
        better, tied = sum(each > mine for each in others), sum(each == mine for each in others)
        assert popularity.filtered.realistic[row] == 1 + better + tied / 2


def test_objects_that_recur(small: Evaluated) -> None:
    rest, evaluation, facts = small.rest, small.evaluation, small.facts
    found = recurring_objects(evaluation, facts, rest)
    for row, at, place in zip(range(len(evaluation)), evaluation.fact, evaluation.position, strict=True):
        fact = facts[at]
        assert found[row] == (fact.objects[place] in {other.objects[place] for other in rest.facts(fact.relation)})
    assert found.any()
    assert not found.all()


def test_finds_are_ordered_and_unlinked(small: Evaluated, monkeypatch: pytest.MonkeyPatch) -> None:
    rest, completion, popularity, facts = small.rest, small.completion, small.popularity, small.facts
    linked = {frozenset(fact.objects) for fact in rest.facts()}
    monkeypatch.setattr(command, "POOR_RANK", 1)
    found = list(find_facts(completion, rest, popularity, facts))
    expected = {fact.relation for fact in facts if frozenset(fact.objects) not in linked}
    assert {find.fact.relation for find in found} == expected
    for find in found:
        assert find.probability == completion.probability(find.fact.relation, *find.fact.objects).value
    monkeypatch.setattr(command, "POOR_RANK", np.inf)
    assert list(find_facts(completion, rest, popularity, facts)) == []


def test_facts_that_connect_two_objects() -> None:
    facts = [
        gaifman.Fact(*each) for each in (("r", ("a", "b")), ("r", ("b", "c")), ("r", ("c", "d")), ("r", ("a", "d")))
    ]
    assert linking_facts(facts, ("a", "c")) == facts[:2]
    assert linking_facts(facts, ("a", "d")) == facts[3:]
    assert linking_facts(facts[:3], ("a", "d")) == facts[:3]
    assert linking_facts(facts, ("a", "e")) == []


def test_how_the_command_is_found_where_it_would_not_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After `make demo` the commands that it names were not found."""
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    for name in ("python", "activate"):
        (tmp_path / ".venv" / "bin" / name).touch(0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / ".venv" / "bin" / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert activation_hint() == [". .venv/bin/activate"]
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir("elsewhere")
    assert activation_hint() == [f". {tmp_path}/.venv/bin/activate"]
    (tmp_path / "gaifman").touch(0o755)
    assert activation_hint() == []
    (tmp_path / "gaifman").unlink()
    (tmp_path / ".venv" / "bin" / "activate").unlink()
    assert activation_hint() == []

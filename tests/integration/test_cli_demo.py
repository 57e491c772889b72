"""`gaifman demo`: what it shows, and the trial behind it: held out, learnt, ranked."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gaifman
from cli_runner import output
from gaifman.cli.demo import (
    NEXT_COMMANDS,
    activation_hint,
    best_missing,
    hold_out_facts,
    learn_query,
    print_trial,
    rank_held_out,
    run_trial,
)
from gaifman.completion import Completion, train_completion
from gaifman.training import TrainingConfig
from trained import FEW, GOOD, demo, towns

trial = import_module("gaifman.cli.demo")  # the package has a command of the same name


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two relations are learnt, and few facts are held out."""
    monkeypatch.setattr(trial, "MIN_FACTS", 600)
    monkeypatch.setattr(trial, "HOLD_OUT_EVERY", 150)


def pairs(found: Completion, relation: str) -> list[tuple[str, ...]]:
    return [fact.objects for fact in found.kb.facts(relation)]


# What it shows


@pytest.mark.usefixtures("short")
def test_demo_shows_facts_a_formula_a_neighbourhood_and_what_is_learnt() -> None:
    text = output("demo")
    for piece in (
        "1,155",
        "borders(france, spain).",
        "∃z (",
        "true",
        "the tuple     france, spain",
        "did you mean: borders",
        "Held-out facts",
        "Missing facts",
        "Missing answers",
        "AUC",
        *NEXT_COMMANDS,
    ):
        assert piece in text
    assert [line.split()[0] for line in text.split("─\n")[1].splitlines()[:2]] == ["borders", "member_of"]
    assert max(map(len, text.splitlines())) <= 120


@pytest.mark.usefixtures("short")
def test_demo_as_json() -> None:
    body = json.loads(output("demo", "--json"))
    assert body["formula"]["truth"] is True
    assert body["formula"]["count"] == 8
    found = body["trial"]
    assert [row["relation"] for row in found["relations"]] == ["borders", "member_of"]
    assert found["held_out"] == sum(row["held_out"] for row in found["relations"])
    assert {row["fact"].partition("(")[0] for row in found["missing"]} == {"borders", "member_of"}
    assert all(0 < row["probability"] < 1 for row in found["missing"])
    assert found["query"]["auc"] > 0.9


def test_what_to_type_next_can_be_typed() -> None:
    known = demo()
    for line in NEXT_COMMANDS:
        for text in line.split('"')[1::2]:
            assert gaifman.parse_query(text, known)


# The trial


def test_one_fact_in_twenty_is_held_out_and_a_border_both_ways() -> None:
    held = hold_out_facts(demo())
    assert all(demo().relations[name].arity == 2 and demo().relations[name].count >= 100 for name in held)
    assert len(held) == 12
    for name, facts in held.items():
        count = demo().relations[name].count
        assert len(set(facts)) == len(facts) >= count // 20
        assert all((name, *pair) in demo() for pair in facts)
    borders = held["borders"]
    assert {(y, x) for x, y in borders} == set(borders)
    assert len(borders) <= 2 * 630 // 20 + 2


def test_held_out_facts_are_not_learnt_from(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def train(kb: gaifman.KnowledgeBase, config: TrainingConfig, *args: Any, **more: Any) -> Completion:
        seen.append(kb)
        return train_completion(kb, replace(config, **FEW), *args, **more)

    monkeypatch.setattr("gaifman.completion.train_completion", train)
    monkeypatch.setattr(trial, "MIN_FACTS", 800)
    monkeypatch.setattr(trial, "QUERY", "borders(x, y)")
    told: list[tuple[str, int, int | None]] = []
    found = run_trial(demo(), lambda *said: told.append(said))
    (kb,) = seen
    assert len(kb) == len(demo()) - found["held_out"]
    assert [said[0] for said in told] == [
        "learning relations",
        "ranking held-out facts",
        "ranking missing facts",
        "learning a query",
    ]
    assert told[1] == ("ranking held-out facts", found["held_out"], found["held_out"]), "done, so that its bar goes"


def test_figures_by_their_definition() -> None:
    """The rank of a held-out fact among all objects, without known facts and the other held-out ones."""
    facts = [("p03", "t3"), ("p03", "t1"), ("p04", "t4"), ("t0", "p00")]
    kb = towns().with_facts([("works_in", "p03", "t1"), ("works_in", "t0", "p00")])
    found = gaifman.complete(kb.without_facts(("works_in", *pair) for pair in facts), ["works_in"], **GOOD)
    areas, hits = [], 0
    for x, y in facts:
        rows = {o: found.probability("works_in", x, o, draws=trial.DRAWS).value for o in found.kb.objects}
        known = {o for a, o in pairs(found, "works_in") + facts if a == x} - {y}
        others = [value for o, value in rows.items() if o not in known and o != y]
        rank = 1 + sum(value > rows[y] for value in others) + sum(value == rows[y] for value in others) / 2
        areas.append(1 - (rank - 1) / len(others))
        hits += rank <= 10
    assert rank_held_out(found, "works_in", facts) == {"auc": round(float(np.mean(areas)), 3), "hits_at_10": hits}
    assert 0 < hits < 4, "works_in(t0, p00) is none that anyone would find"


def test_the_most_probable_missing_fact() -> None:
    held = [("p03", "t3"), ("p04", "t4")]
    found = gaifman.complete(towns().without_facts(("works_in", *pair) for pair in held), ["works_in"], **GOOD)
    wanted = found.answers("works_in(x, y)", known="exclude", prior=trial.PRIOR)
    row = best_missing(found, "works_in", held)
    assert row["fact"] == f"works_in({', '.join(wanted[0].names)})"
    assert row["probability"] == wanted[0].probability
    assert row["held_out"] == (wanted[0].names in held)
    assert row["held_out_in_top_10"] == sum(answer.names in held for answer in wanted) >= 1


def test_the_query_and_whether_its_answers_are_true(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "QUERY", "exists z. lives_in(x, z) & lives_in(y, z) & x != y")
    rest = towns().without_facts([("lives_in", f"p{i:02d}", f"t{i % 5}") for i in (3, 14)])
    found = learn_query(towns(), rest)
    assert found["bracketed"] == "∃z (lives_in(x, z) ∧ lives_in(y, z) ∧ x ≠ y)"
    names = [frozenset(row["names"]) for row in found["missing"]]
    assert len(set(names)) == len(names) == trial.MAX_ANSWERS, "not both ways"
    true = set(gaifman.query(towns(), trial.QUERY))
    assert [row["true"] for row in found["missing"]] == [tuple(row["names"]) in true for row in found["missing"]]


def test_what_is_shown_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    query = {"bracketed": "r(x, y)", "auc": 0.75, "missing": []}
    missing = {
        "fact": "r(a, b)",
        "probability": 0.25,
        "standard_error": 0.125,
        "held_out": False,
        "held_out_in_top_10": 3,
    }
    relations = [{"relation": "r", "held_out": 2, "auc": 0.5, "hits_at_10": 1}]
    print_trial({"held_out": 2, "relations": relations, "missing": [missing], "prior": 0.001, "query": query})
    text = capsys.readouterr().out
    assert "one fact in 20 is held out, 2 in all" in text
    assert "if one pair in 1,000 were a fact" in text
    lines = [line.split() for line in text.splitlines()]
    assert ["r", "2", "0.500", "1"] in lines
    assert ["r(a,", "b)", "0.250", "±", "0.125", "–", "3"] in lines
    assert "not learn from is 0.750" in text


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

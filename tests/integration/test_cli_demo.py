"""`gaifman demo`: what it prints, and its trial with held-out facts."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import gaifman
from cli_runner import output
from gaifman.cli.demo import (
    NEXT_COMMANDS,
    activation_hint,
    best_missing,
    hold_out_facts,
    print_trial,
    relation_rows,
    run_trial,
    train_query,
)
from gaifman.completion import Completion, train_completion
from gaifman.evaluation.evaluate import evaluate_popularity
from gaifman.ranking.ranks import RANK_FIGURES
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
def test_demo_shows_facts_a_formula_a_neighbourhood_and_a_trial() -> None:
    text = output("demo")
    for piece in (
        "1,155",
        "borders(france, spain).",
        "∃z (",
        "true",
        "tuple       france, spain",
        "did you mean: borders",
        "Ranks of held-out facts",
        "Probably missing",
        "Probably missing answers",
        "assuming that 10% of the facts are missing",
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
    assert found["query"]["metrics"]["auc"] > 0.9
    for row in (*found["relations"], found["query"]["metrics"]):
        assert all(0 <= row[name] <= 1 for name in RANK_FIGURES)


def test_the_next_commands_parse() -> None:
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


def test_held_out_facts_are_not_trained_on(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def train(kb: gaifman.KnowledgeBase, config: TrainingConfig, *args: Any, **more: Any) -> Completion:
        seen.append(kb)
        return train_completion(kb, replace(config, **FEW), *args, **more)

    monkeypatch.setattr("gaifman.completion.train_completion", train)
    monkeypatch.setattr(trial, "MIN_FACTS", 800)
    monkeypatch.setattr(trial, "TRAINED_QUERY", "borders(x, y)")
    told: list[tuple[str, int, int | None]] = []
    found = run_trial(demo(), lambda *said: told.append(said))
    (kb,) = seen
    assert len(kb) == len(demo()) - found["held_out"]
    phases = list(dict.fromkeys(phase for phase, _, _ in told))
    assert phases[0] == "training relations"
    assert phases[-2:] == ["ranking missing facts", "training a query"]


def test_ranks_are_those_of_an_evaluation() -> None:
    held_out = [("works_in", "p03", "t3"), ("works_in", "p04", "t4"), ("citizen", "p05", "c0")]
    rest, test = towns().without_facts(held_out), gaifman.KnowledgeBase.from_facts(held_out)
    completion = gaifman.complete(rest, ["works_in", "citizen"], **GOOD)
    evaluation = gaifman.evaluate(completion, rest, test, draws=trial.DRAWS)
    popularity = evaluate_popularity(completion, rest, test)
    rows = relation_rows(evaluation, popularity)
    assert {row["relation"]: row["held_out"] for row in rows} == {"works_in": 2, "citizen": 1}
    metrics = evaluation.metrics_by("relation")["works_in"]
    (own,) = [row for row in rows if row["relation"] == "works_in"]
    assert own["mrr"] == pytest.approx(metrics.mrr.value, abs=5e-4)
    assert own["hits_at_10"] == pytest.approx(metrics.hits[10].value, abs=5e-4)
    baseline = popularity.metrics_by("relation")["works_in"]
    assert own["mrr_popularity"] == pytest.approx(baseline.mrr.value, abs=5e-4)
    counts = {name: [objects[1] for _, *objects in held_out].count(name) for name in ("t3", "t4")}
    assert counts == {"t3": 1, "t4": 1}
    assert baseline.ranks == 4


def test_the_most_probable_missing_fact() -> None:
    held = [("p03", "t3"), ("p04", "t4")]
    found = gaifman.complete(towns().without_facts(("works_in", *pair) for pair in held), ["works_in"], **GOOD)
    wanted = found.answers("works_in(x, y)", known="exclude")
    row = best_missing(found, "works_in", held)
    assert row["fact"] == f"works_in({', '.join(wanted[0].names)})"
    assert row["probability"] == wanted[0].probability
    assert row["held_out"] == (wanted[0].names in held)
    assert row["held_out_in_top_10"] == sum(answer.names in held for answer in wanted) >= 1


def test_the_query_and_whether_its_answers_are_true(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "TRAINED_QUERY", "exists z. lives_in(x, z) & lives_in(y, z) & x != y")
    rest = towns().without_facts([("lives_in", f"p{i:02d}", f"t{i % 5}") for i in (3, 14)])
    found = train_query(towns(), rest)
    assert found["bracketed"] == "∃z (lives_in(x, z) ∧ lives_in(y, z) ∧ x ≠ y)"
    names = [frozenset(row["names"]) for row in found["missing"]]
    assert len(set(names)) == len(names) == trial.MAX_ANSWERS, "not both ways"
    true = set(gaifman.query(towns(), trial.TRAINED_QUERY))
    assert [row["true"] for row in found["missing"]] == [tuple(row["names"]) in true for row in found["missing"]]


def test_a_trial_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    figures = {
        "auc": 0.75,
        "ece_before": 0.2,
        "ece_after": 0.1,
        "ranked_facts": 12,
        "ranked_among": 5.0,
        "candidates": 5,
    }
    own = {"mrr": 0.5, "mrr_popularity": 0.25, "typed_auc": 0.625, "typed_auc_popularity": 0.375}
    query = {"bracketed": "r(x, y)", "metrics": figures | own, "missing": []}
    estimate = {"probability": 0.25, "standard_error": 0.125}
    missing = {"fact": "r(a, b)", **estimate, "held_out": False, "held_out_in_top_10": 3}
    relations = [{"relation": "r", "held_out": 2, "mean_rank": 4.5, "hits_at_10": 1.0, **own}]
    print_trial({"held_out": 2, "relations": relations, "missing": [missing], "missing_share": 0.1, "query": query})
    text = capsys.readouterr().out
    assert "Training: 2 facts of 1 relations are held out" in text
    assert "assuming that 10% of the facts are missing" in text
    lines = [line.split() for line in text.splitlines()]
    assert ["r", "2", "4.5", "0.625", "(0.375)", "0.500", "(0.250)", "1.000"] in lines
    assert ["r(a,", "b)", "0.250", "±", "0.125", "–", "3"] in lines
    assert ["AUC", "0.750"] in lines
    assert "MRR                0.500 (0.250 by popularity: most frequent object first)" in text


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

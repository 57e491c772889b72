"""`--format`: every command that prints a table can print its rows."""

from __future__ import annotations

import csv
import io
import json
from functools import partial
from pathlib import Path

import pytest

import cli_runner
import gaifman
from cli_runner import one_message, run
from gaifman.cli import cli

here = partial(cli_runner.here, columns=120)
TABLES = ("answer", "evaluate", "explain", "features", "graph", "info", "mine", "neighbourhood", "predict", "query")
COMMANDS = {
    "info": ("info", "kb.facts"),
    "graph": ("graph", "kb.facts"),
    "neighbourhood": ("neighbourhood", "kb.facts", "france", "spain", "--draws", "2", "--size", "5"),
    "features": ("features", "kb.facts", "x,y", "france", "spain"),
    "mine": ("mine", "kb.facts", "capital(x, y)"),
    "mine of a query": ("mine", "kb.facts", "capital(x, y)", "--neighbourhoods", "--sample", "20"),
    "query": ("query", "kb.facts", "borders('france', y)", "--why"),
    "count": ("query", "kb.facts", "borders('france', y)", "--count"),
    "answer": ("answer", "m.gaifman", "kb.facts", "capital('france', y)", "--top", "3"),
    "explain": ("explain", "m.gaifman", "kb.facts", "capital('france', y)", "--answer", "paris"),
    "predict": ("predict", "m.gaifman", "kb.facts", "--above", "0.2"),
    "evaluate": ("evaluate", "m.gaifman", "kb.facts", "test.facts", "--threads", "1"),
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a knowledge base, its completion, and test facts."""
    folder = tmp_path_factory.mktemp("formats")
    kb = gaifman.demo()
    test = gaifman.KnowledgeBase.from_facts([*kb.facts("capital")][::9])
    gaifman.write(test, folder / "test.facts")
    kb = kb.without_facts(test.facts())
    gaifman.write(kb, folder / "kb.facts", lossy=True)
    gaifman.complete(kb, ["capital"], seed=1).save(folder / "m.gaifman")
    return folder


@pytest.fixture(autouse=True)
def folder(trained: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(trained)
    return trained


@pytest.mark.parametrize("name", COMMANDS)
def test_rows_are_data_and_nothing_else(name: str) -> None:
    text = here(*COMMANDS[name], "--format", "csv").stdout
    header, *rows = csv.reader(io.StringIO(text))
    assert rows
    assert all(len(row) == len(header) for row in rows)
    lines = [json.loads(line) for line in here(*COMMANDS[name], "--format", "jsonl").stdout.splitlines()]
    assert [[*line] for line in lines] == [header] * len(rows)
    assert [["" if cell is None else str(cell) for cell in line.values()] for line in lines] == rows


@pytest.mark.parametrize("name", COMMANDS)
def test_json_is_the_same_by_both_options(name: str) -> None:
    assert here(*COMMANDS[name], "--format", "json").stdout == here(*COMMANDS[name], "--json").stdout
    assert here(*COMMANDS[name], "--format", "table").stdout == here(*COMMANDS[name]).stdout


def test_a_training_prints_its_relations() -> None:
    done = here("train", "kb.facts", "-o", "new.gaifman", "--relation", "capital", "--format", "csv")
    assert done.stdout.startswith("name,arity,answers,trained")
    assert len(done.stdout.splitlines()) == 2
    assert "wrote new.gaifman" in done.stderr


def test_a_summary_goes_to_standard_error() -> None:
    done = here(*COMMANDS["predict"], "--format", "csv")
    assert "are expected to be true" in done.stderr
    assert done.stdout.startswith("head,relation,tail,probability,rank,conflicts\n")
    few = here("query", "kb.facts", "borders(x, y)", "--rows", "2", "--format", "csv")
    assert few.stdout.splitlines() == ["x,y", "afghanistan,china", "afghanistan,iran"]
    assert "more answers exist" in few.stderr


def test_every_command_with_a_table_has_the_option() -> None:
    for name in (*TABLES, "train", "resume", "reproduce"):
        assert "--format" in [option for parameter in cli.commands[name].params for option in parameter.opts], name


def test_wrong_formats() -> None:
    done = run("info", "kb.facts", "--format", "nary")
    assert (done.returncode, done.stdout) == (2, "")
    assert "--input-format nary" in done.stderr
    assert "exclude each other" in run("info", "kb.facts", "--format", "csv", "--json").stderr
    assert json.loads(run("info", "none.facts", "--format", "json").stderr)["error"] == "InputError"
    one_message(run("info", "none.facts", "--format", "jsonl"), "there is no file none.facts")

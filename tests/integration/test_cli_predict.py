"""`gaifman predict`: what it prints and writes, and what it says to bad input."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

import cli_runner
import gaifman
from cli_runner import refused
from gaifman.errors import InputError, KnowledgeBaseError, OutputError

here = partial(cli_runner.here, columns=120)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a knowledge base and its completion."""
    folder = tmp_path_factory.mktemp("predicted")
    kb = gaifman.demo()
    kb = kb.without_facts([*kb.facts()][::8])
    gaifman.write(kb, folder / "kb.facts", lossy=True)
    gaifman.complete(kb, ["borders", "located_in"], seed=1).save(folder / "m.gaifman")
    gaifman.fit(kb, "exists z. borders(x, z) & borders(z, y)", size=5, options={"epochs": 1}).save(
        folder / "two.gaifman"
    )
    return folder


@pytest.fixture(autouse=True)
def folder(trained: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(trained)
    return trained


ALL = ("predict", "m.gaifman", "kb.facts")


def test_a_table_for_people() -> None:
    text = here(*ALL, "--above", "0.3", "--why").stdout
    assert "Missing facts, the most probable first" in text
    assert "because" in text
    assert "borders(" in text
    assert "are expected to be true." in text
    assert "more facts (-o FILE writes all)" in text


def test_a_file_and_its_summary(folder: Path) -> None:
    text = here(*ALL, "--above", "0.3", "-o", "missing.csv").stdout
    lines = (folder / "missing.csv").read_text().splitlines()
    assert lines[0] == "head,relation,tail,probability,rank,conflicts,model"
    assert lines[1].endswith(",m.gaifman")
    assert f"Of {len(lines) - 1} proposed facts" in text
    assert "written: missing.csv" in text
    assert isinstance(refused(*ALL, "-o", "missing.csv"), OutputError)
    here(*ALL, "--above", "0.4", "-o", "missing.csv", "--force")
    assert len((folder / "missing.csv").read_text().splitlines()) < len(lines)


def test_json_has_the_same_facts(folder: Path) -> None:
    body = json.loads(here(*ALL, "--relation", "borders", "--top", "3", "--json").stdout)
    assert body["found"] == len(body["facts"]) == 3
    assert {fact["relation"] for fact in body["facts"]} == {"borders"}
    written = json.loads(here(*ALL, "--top", "2", "-o", "two.jsonl", "--json").stdout)
    assert (written["file"], written["found"]) == ("two.jsonl", 2)
    assert len((folder / "two.jsonl").read_text().splitlines()) == 2


def test_bad_input() -> None:
    assert "completion" in str(refused("predict", "two.gaifman", "kb.facts"))
    error = refused(*ALL, "-o", "missing.xlsx")
    assert isinstance(error, OutputError)
    assert ".parquet" in (error.hint or "")
    assert isinstance(refused(*ALL, "--relation", "border"), KnowledgeBaseError)
    assert isinstance(refused(*ALL, "--above", "2"), KnowledgeBaseError | InputError)
    assert not Path("missing.xlsx").exists()

"""Commands show labels, take them, and keep names in JSON."""

from __future__ import annotations

import io
from functools import partial
from pathlib import Path

import pytest

import cli_runner
import gaifman
from cli_runner import json_output, refused
from gaifman.kb.knowledge_base import KnowledgeBase

here = partial(cli_runner.here, columns=120)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with facts, labels and a model."""
    folder = tmp_path_factory.mktemp("labels")
    facts = [(name, f"p{i}", f"t{i % 3}") for i in range(18) for name in (("lives", "works") if i else ("lives",))]
    kb = KnowledgeBase.from_facts(facts)
    gaifman.write(kb, folder / "kb.tsv")
    (folder / "names.tsv").write_text("object\tlabel\np0\tAnn\np1\tBen\nt0\tUlm\nt1\tUlm\nt2\tBonn\n")
    gaifman.complete(kb, ["works"], seed=1).save(folder / "m.gaifman")
    return folder


@pytest.fixture(autouse=True)
def folder(files: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(files)
    return files


NAMED = ("--labels", "names.tsv")


def test_query() -> None:
    text = here("query", "kb.tsv", "lives('Ann', y)", "--why", *NAMED).stdout
    assert "read as  lives('Ann', y)" in text
    assert "Ulm (t0)   lives(Ann, 'Ulm (t0)')." in text
    body = json_output("query", "kb.tsv", "lives('Ann', y)", "--why", *NAMED)
    assert (body["answers"], body["witnesses"]) == ([["t0"]], [[["lives(p0, t0)."]]])
    assert (body["labels"], body["query_labels"]) == ({"p0": "Ann", "t0": "Ulm (t0)"}, "lives('Ann', y)")
    assert "labels" not in json_output("query", "kb.tsv", "lives('p0', y)", "--why")
    assert here("query", "kb.tsv", "lives('Ann', y)", "--tsv", *NAMED).stdout == "t0\n"


def test_answer_explain_and_predict(tmp_path: Path) -> None:
    text = here("answer", "m.gaifman", "kb.tsv", "works('Ann', y)", "--top", "3", *NAMED).stdout
    assert "read as  works('Ann', y)" in text
    assert "Bonn" in text
    words = ("explain", "m.gaifman", "kb.tsv", "works('Ann', y)", "--answer", "Ulm (t0)")
    text = here(*words, "--picture", str(tmp_path / "x.svg"), *NAMED).stdout
    assert "works('Ann', 'Ulm (t0)')" in text
    assert "lives(Ann, 'Ulm (t0)')" in text
    assert "Ulm (t0)" in (tmp_path / "x.svg").read_text()
    assert "works(Ann, 'Ulm (t0)')" in here("predict", "m.gaifman", "kb.tsv", *NAMED).stdout
    here("predict", "m.gaifman", "kb.tsv", "-o", str(tmp_path / "x.tsv"), "--why", *NAMED)
    head, row = (tmp_path / "x.tsv").read_text().splitlines()
    assert head.startswith("head\thead_label\trelation\ttail\ttail_label\t")
    assert row.startswith("p0\tAnn\tworks\tt0\tUlm (t0)\t")


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_predictions_with_labels_are_reviewed_and_added(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    missing, new = str(tmp_path / f"missing.{suffix}"), str(tmp_path / "new.duckdb")
    here("predict", "m.gaifman", "kb.tsv", "-o", missing, "--why", *NAMED)
    monkeypatch.setattr("sys.stdin", io.StringIO("a\nr\n"))
    done = here("review", missing)
    assert "works(Ann, 'Ulm (t0)')" in done.stderr
    assert "head_label" not in done.stderr
    here("add", "kb.tsv", str(tmp_path / "missing.reviewed.csv"), "-o", new, *NAMED)
    kb = gaifman.read(new)
    assert ("works", "p0", "t0") in kb.provenance
    assert kb.labels["p0"] == "Ann"
    if suffix == "jsonl":
        facts = gaifman.read(missing)
        assert ("works", "p0", "t0") in facts
        assert facts.labels["p0"] == "Ann"


def test_rows_have_labels_beside_names() -> None:
    rows = here("query", "kb.tsv", "lives('Ann', y)", "--why", "--format", "csv", *NAMED).stdout
    assert rows == 'y,y_label,facts,facts_labels\nt0,Ulm (t0),"lives(p0, t0).","lives(Ann, \'Ulm (t0)\')."\n'
    assert here("query", "kb.tsv", "lives('p0', y)", "--format", "csv").stdout == "y\nt0\n"
    words = ("m.gaifman", "kb.tsv", "works('Ann', y)")
    assert here("answer", *words, "--format", "csv", *NAMED).stdout.startswith("y,y_label,probability,")
    bare = here("answer", "m.gaifman", "kb.tsv", "works('p0', y)", "--format", "csv").stdout
    assert bare.startswith("y,probability,")
    rows = here("explain", *words, "--answer", "t0", "--format", "csv", *NAMED).stdout
    assert rows.splitlines()[0].endswith(",formula_labels,facts_labels")
    assert here("predict", *words[:2], "--format", "csv", *NAMED).stdout.startswith("head,head_label,relation,")
    rows = here("neighbourhood", "kb.tsv", "Ann", "--format", "csv", *NAMED).stdout
    assert rows.startswith("draw,object,distance,object_label\n1,p0,0,Ann\n")


def test_commands_about_a_knowledge_base(tmp_path: Path) -> None:
    assert "labels       5" in here("info", "kb.tsv", *NAMED).stdout
    assert json_output("info", "kb.tsv", *NAMED)["labels"] == 5
    assert "tuple       Ann" in here("neighbourhood", "kb.tsv", "Ann", *NAMED).stdout
    assert json_output("neighbourhood", "kb.tsv", "Ann", *NAMED)["objects"] == ["p0"]
    assert "(Bonn)" in here("graph", "kb.tsv", *NAMED).stdout.replace("(Ulm (t0))", "(Bonn)")
    text = here("features", "kb.tsv", "x,y", "Ann", "Ulm (t0)", *NAMED).stdout
    assert "lives(Ann, 'Ulm (t0)')." in text
    body = json_output("features", "kb.tsv", "x,y", "Ann", "Ulm (t0)", *NAMED)
    assert body["variables"] == {"x": "p0", "y": "t0"}
    assert body["labels"]["p0"] == "Ann"
    here("convert", "kb.tsv", str(tmp_path / "kb.duckdb"), *NAMED)
    assert json_output("info", str(tmp_path / "kb.duckdb"))["labels"] == 5
    here("convert", "kb.tsv", str(tmp_path / "kb.ttl"), *NAMED)
    assert gaifman.read(tmp_path / "kb.ttl").labels["p0"] == "Ann"


def test_prefixes(tmp_path: Path) -> None:
    (tmp_path / "x.ttl").write_text("@prefix ex: <http://e/> .\nex:a ex:r ex:b .\n")
    path = str(tmp_path / "x.ttl")
    assert "prefixes     ex\n" in here("info", path).stdout
    assert json_output("info", path)["prefixes"] == {"ex": "http://e/"}
    assert "ex:b" in here("query", path, "'ex:r'('http://e/a', y)").stdout
    here("convert", path, str(tmp_path / "y.nt"))
    assert (tmp_path / "y.nt").read_text() == "<http://e/a> <http://e/r> <http://e/b> .\n"


def test_mistakes() -> None:
    ambiguous = ("query", "kb.tsv", "lives(x, 'Ulm')", *NAMED)
    assert "'Ulm' is the label of 2 objects" in str(refused(*ambiguous))
    assert "there is no file none.tsv" in str(refused("query", "kb.tsv", "lives(x, y)", "--labels", "none.tsv"))
    assert "is not the tag of a language" in str(refused("info", "kb.tsv", "--language", "?"))


def test_training_suggests_a_command_with_labels(tmp_path: Path) -> None:
    words = ("train", "kb.tsv", "--relation", "works", "-o", str(tmp_path / "m.gaifman"), *NAMED)
    text = here(*words).stderr
    assert "--labels names.tsv" in text
    assert 'labels="names.tsv"' in text

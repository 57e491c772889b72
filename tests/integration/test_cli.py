"""The command: what it prints, and what it says to bad input."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

import pytest

import gaifman
from cli_runner import one_message, output, run
from gaifman.cli import cli, main
from gaifman.cli.console import FORMATS, InputOptions, python_snippet
from gaifman.cli.kb import OUTPUT_FORMATS
from gaifman.io import READ_FORMATS as READABLE
from gaifman.io import WRITE_FORMATS as WRITABLE
from processes import python
from processes import run as run_process


@pytest.fixture
def family(tmp_path: Path) -> Path:
    """A small file."""
    path = tmp_path / "family.tsv"
    path.write_text("ann\tparent\tbob\nbob\tparent\tcleo\nann\tparent\tbob\n")
    return path


def test_help_lists_the_commands_and_shows_examples_first() -> None:
    text = output("--help")
    for name in cli.commands:
        assert f"\n  {name} " in text
    assert "gaifman info demo" in text


def test_the_version() -> None:
    assert gaifman.__version__ in output("--version")


def test_info_counts_relations_attributes_and_notes(family: Path) -> None:
    body = json.loads(output("info", str(family), "--json"))
    assert (body["objects"], body["facts"], body["relations"]) == (3, 2, 1)
    assert body["by_relation"] == {"parent": {"arity": 2, "facts": 2}}
    assert body["fingerprint"] == gaifman.read(family).fingerprint
    assert {"text": "repeated facts, kept once", "count": 1, "example": "parent(ann, bob)."} in body["notes"]


def test_info_shows_how_confidences_are_spread(family: Path, tmp_path: Path) -> None:
    assert "confidences" not in json.loads(output("info", str(family), "--json")), "all facts are certain"
    path = tmp_path / "doubts.facts"
    path.write_text("0.1::r(a, b).\n0.3::r(a, c).\n0.35::r(b, c).\n0.999::r(c, a).\nr(b, a).\n")
    body = json.loads(output("info", str(path), "--json"))["confidences"]
    assert (body["certain"], body["uncertain"]) == (1, 4)
    assert body["mean"] == pytest.approx(0.5498)
    assert body["quartiles"] == [0.3, 0.35, 0.999]
    assert body["uncertain_by_tenth"] == [0, 1, 0, 2, 0, 0, 0, 0, 0, 1]
    text = output("info", str(path))
    assert "mean 0.550; quartiles 0.300, 0.350, 0.999" in text
    for row in ("0.1 – 0.2 +1 +20.0%", "0.3 – 0.4 +2 +40.0%", "0.9 – 1.0 +1 +20.0%", r"1 \(certain\) +1 +20.0%"):
        assert re.search(rf"^{row}$", text, flags=re.MULTILINE), row


def test_info_lists_the_largest_relations_and_counts_the_others() -> None:
    assert "more relations (--all lists them)" in output("info", "demo")
    assert "--all" not in output("info", "demo", "--all")


def test_info_shows_constraints_with_their_evidence() -> None:
    shown = output("info", "demo")
    assert re.search(r"^functional: capital 1→2 +197 of 197 countries have one capital$", shown, flags=re.MULTILINE)
    assert "more constraints (--all lists them)" in shown
    assert "irreflexive: borders" in output("info", "demo", "--all")
    found = json.loads(output("info", "demo", "--json"))["constraints"]
    evidence = "630 of 630 facts are known both ways"
    assert {"constraint": "symmetric: borders", "holds": 630, "instances": 630, "evidence": evidence} in found
    assert len(found) == len(gaifman.find_constraints(gaifman.demo()))


def test_info_of_several_files(family: Path, tmp_path: Path) -> None:
    ages = tmp_path / "ages.tsv"
    ages.write_text("ann\tage\t80\nbob\tage\t50.5\n")
    body = json.loads(output("info", str(family), str(ages), "--json"))
    assert body["by_attribute"] == {"age": {"values": 2}}


def test_a_header_is_reported_and_can_be_refused(tmp_path: Path) -> None:
    """`h,r,t` was read as a fact."""
    (tmp_path / "family.csv").write_text("h,r,t\nann,parent,bob\n")
    body = json.loads(output("info", str(tmp_path / "family.csv"), "--json"))
    assert body["by_relation"] == {"parent": {"arity": 2, "facts": 1}}
    notes = {note["text"]: note["example"].rpartition("/")[2] for note in body["notes"]}
    assert notes["first lines read as headers"] == "family.csv: h, r, t"
    body = json.loads(output("info", str(tmp_path / "family.csv"), "--no-header", "--json"))
    assert sorted(body["by_relation"]) == ["parent", "r"]


def test_the_python_of_a_reading_has_its_header() -> None:
    options = InputOptions("triples", header=False)
    assert python_snippet(["a.tsv"], options)[1] == 'kb = gaifman.read("a.tsv", format="triples", header=False)'
    assert options.flags() == ["--input-format", "triples", "--no-header"]
    assert InputOptions(header=True).flags() == ["--header"]


def test_parse_shows_the_reading() -> None:
    text = output("parse", "h(x) :- borders(x, y), capital(y, z)", "--kb", "demo")
    assert "h(x) :- ∃y, z (borders(x, y) ∧ capital(y, z))" in text
    assert "borders/2, capital/2" in text


@pytest.mark.parametrize("kind", ["query", "formula", "feature"])
def test_parse_as_json(kind: str) -> None:
    body = json.loads(output("parse", "borders(s1, 'france') & population(s1) > 5", "--as", kind, "--json"))
    assert body["kind"] == kind
    assert body["relations"] == ["borders/2"]
    assert body["attributes"] == ["population"]
    assert body["objects"] == ["'france'"]
    assert body["free_variables"] == ["s1"]


@pytest.mark.parametrize("end", ["facts", "tsv", "csv", "parquet", "duckdb", "facts.gz"])
def test_convert_keeps_the_fingerprint(family: Path, tmp_path: Path, end: str) -> None:
    target = tmp_path / f"out.{end}"
    body = json.loads(output("convert", str(family), str(target), "--json"))
    assert body["fingerprint"] == gaifman.read(target).fingerprint == gaifman.read(family).fingerprint


def test_convert_replaces_a_file_only_with_force(family: Path, tmp_path: Path) -> None:
    target = tmp_path / "out.facts"
    target.write_text("precious")
    refused = run("convert", str(family), str(target))
    assert refused.returncode == 1
    assert "already exists" in refused.stderr
    assert target.read_text() == "precious"
    assert run("convert", str(family), str(target), "--force").returncode == 0
    assert "parent(ann, bob)." in target.read_text()


def test_convert_that_would_lose_something_writes_nothing(tmp_path: Path) -> None:
    target = tmp_path / "demo.tsv"
    refused = run("convert", "demo", str(target))
    assert refused.returncode == 1
    assert "cannot hold" in refused.stderr
    assert list(tmp_path.iterdir()) == []
    assert run("convert", "demo", str(target), "--lossy").returncode == 0


BAD = [
    (["info", "nope.tsv"], 1, "there is no file"),
    (["parse", "p(x) && q(x)"], 1, "&& is not used here"),
    (["parse", "bordrs(x, y)", "--kb", "demo"], 1, "did you mean: borders"),
    (["parse", "(" * 5000], 1, "nested deeper than 64"),
    (["parse", "x" * 10_000], 1, "the limit is 8,192"),
    (["convert", "demo", "out.unknown"], 1, "does not determine a format"),
    (["bogus"], 2, "No such command"),
    (["info"], 2, "Missing argument"),
    (["info", "demo", "--input-format", "xml"], 2, "'xml' is not one of"),
]


@pytest.mark.parametrize(("words", "code", "message"), BAD, ids=lambda value: str(value)[:30])
def test_bad_input_is_one_message_and_an_exit_code_never_a_traceback(
    words: list[str], code: int, message: str, tmp_path: Path
) -> None:
    done = run(*words, folder=tmp_path)
    assert done.returncode == code
    assert message in done.stderr
    assert done.stdout == ""
    assert list(tmp_path.iterdir()) == []


def test_bad_input_of_the_whole_command() -> None:
    one_message(run_process(python("-m", "gaifman", "parse", "p(x) && q(x)")), "&& is not used here")


def test_an_error_is_json_where_json_was_asked_for() -> None:
    done = run("parse", "p(x) && q(x)", "--json")
    assert done.returncode == 1
    body = json.loads(done.stderr)
    assert body["location"]["column"] == 6


def test_too_little_memory_is_one_message(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def hungry(**_: object) -> None:
        raise MemoryError("7.28 TiB")

    monkeypatch.setattr(cli, "main", hungry)
    with pytest.raises(SystemExit, match="1"):
        main()
    said = capsys.readouterr().err
    assert said == "error: not enough memory: 7.28 TiB\nhint: ask for less at a time\n"


def test_a_reader_that_stops_early_is_no_error() -> None:
    command = f"{sys.executable} -m gaifman info demo --all --json | head -n 1"
    done = run_process(["bash", "-c", command])
    assert done.stdout == "{\n"
    assert done.stderr == ""


def test_a_terminal_without_the_signs_of_logic_gets_escapes_and_no_traceback() -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    done = run_process(python("-m", "gaifman", "parse", "exists x. p(x)"), env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    assert r"\u2203x p(x)" in done.stdout


def test_the_bundled_knowledge_base_can_be_read_with_other_files(tmp_path: Path) -> None:
    path = tmp_path / "more.facts"
    path.write_text("borders(atlantis, france).")
    body = json.loads(output("info", "demo", str(path), "--json"))
    assert body["by_relation"]["borders"]["facts"] == 631


def test_names_are_shown_as_text_whatever_they_hold(tmp_path: Path) -> None:
    path = tmp_path / "hostile.facts"
    path.write_text(r"'[bold]\u001b[31m\u202e'(a, b)." + "\n")
    text = output("info", str(path))
    assert r"[bold]\x1b[31m\u202e" in text
    assert "\x1b" not in text


def test_a_file_named_demo_is_read(tmp_path: Path) -> None:
    (tmp_path / "demo").write_text("a\tr\tb\n")
    assert json.loads(run("info", "demo", "--json", folder=tmp_path).stdout)["facts"] == 1


def test_the_formats_the_help_lists_are_those_that_can_be_read_and_written() -> None:
    assert FORMATS == READABLE
    assert OUTPUT_FORMATS == WRITABLE

"""`gaifman split`, and what `gaifman info` says of splits and models."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import gaifman
from cli_runner import here, json_output, one_message, run
from gaifman.io import write
from linked_kbs import linked_kb
from trained import FEW, towns


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def graph(size: int = 60) -> gaifman.KnowledgeBase:
    """Binary relations only, two of them inverses, in a file of triples."""
    kb = linked_kb(["inverse", "random"], size, 2, 1)
    kb = gaifman.KnowledgeBase.from_facts(fact for fact in kb.facts() if len(fact.objects) == 2)
    write(kb, "kb.tsv")
    return kb


def test_the_parts_are_files_of_the_same_kind() -> None:
    kb = graph()
    done = here("split", "kb.tsv", "-o", "parts", "--valid", "0.2", "--seed", "3")
    assert "wrote parts/train.tsv, parts/valid.tsv, parts/test.tsv" in done.stderr
    assert "Facts of each part" in done.stdout
    files = [gaifman.read(f"parts/{name}.tsv") for name in ("train", "valid", "test")]
    assert [len(part) for part in files] == [len(part) for part in kb.split(0.2, 0.1, seed=3)]
    assert {fact for part in files for fact in part.facts()} == set(kb.facts())
    assert not list(Path("parts").glob(".split*"))


@pytest.mark.parametrize(
    ("options", "names"),
    [
        (("--to", "parquet"), {"train.parquet", "valid.parquet", "test.parquet"}),
        (("--valid", "0"), {"train.tsv.gz", "test.tsv.gz"}),
        (("--valid", "5", "--test", "7", "--to", "duckdb"), {"train.duckdb", "valid.duckdb", "test.duckdb"}),
    ],
)
def test_formats_and_parts(options: tuple[str, ...], names: set[str]) -> None:
    kb = graph()
    write(kb, "kb.tsv.gz")
    body = json_output("split", "kb.tsv.gz", "-o", "a/b", *options)
    assert {Path(name).name for name in body["files"]} == {path.name for path in Path("a/b").iterdir()} == names
    assert sum(body["facts"].values()) == len(kb)


def test_what_the_format_cannot_hold_goes_to_another_one() -> None:
    done = here("split", "demo", "-o", "parts")
    assert "parts/train.facts" in done.stderr
    assert len(list(gaifman.read("parts/train.facts").values())) == len(list(gaifman.demo().values()))


def test_no_leakage_when_asked() -> None:
    graph(200)
    here("split", "kb.tsv", "-o", "torn")
    assert (
        "note: facts of 1 link between relations stay together"
        in here("split", "kb.tsv", "-o", "whole", "--no-inverse-leakage").stderr
    )
    torn = json_output("info", "torn/train.tsv", "--test", "torn/test.tsv", "--valid", "torn/valid.tsv")
    assert [one["likely"] for one in torn["leakage"]] == [True, True]
    whole = json_output("info", "whole/train.tsv", "whole/valid.tsv", "whole/test.tsv", "--splits")
    assert [(one["part"], one["following"]) for one in whole["leakage"]] == [("valid", 0), ("test", 0)]
    text = here("info", "torn/train.tsv", "--test", "torn/test.tsv", columns=120).stdout
    assert "What train gives away of test" in text
    assert "likely leakage" in text
    assert "base(x, y) ↔ r0(y, x)" in text


def test_nothing_is_replaced_or_left_half_written() -> None:
    graph()
    here("split", "kb.tsv", "-o", "parts")
    before = Path("parts/train.tsv").read_bytes()
    one_message(run("split", "kb.tsv", "-o", "parts", "--seed", "1"), "parts/train.tsv already exists")
    assert Path("parts/train.tsv").read_bytes() == before
    here("split", "kb.tsv", "-o", "parts", "--seed", "1", "--force")
    one_message(run("split", "demo", "-o", "other", "--to", "triples"), "cannot hold")
    assert not list(Path("other").iterdir())
    Path("file").write_text("")
    one_message(run("split", "kb.tsv", "-o", "file/parts"), "cannot be written")
    one_message(run("split", "kb.tsv", "-o", "p", "--valid", "0.6", "--test", "0.5"), "and train none")
    one_message(run("split", "kb.tsv", "-o", "p", "--relation", "bas"), "there is no relation bas")
    assert run("split", "kb.tsv", "-o", "p", "--test", "half").returncode == 2


def test_links_are_shown_with_their_counts() -> None:
    body = json_output("info", "demo")
    assert {link["kind"] for link in body["links"]} == {"symmetric", "subset", "inverse subset"}
    assert "leakage" not in body
    text = here("info", "demo", columns=120).stdout
    assert "capital(x, y) → city_in(y, x)" in text
    assert "197 of 197 facts" in text
    wrong = ("demo --splits", "a b --splits --test c", "a x/b b --splits")
    for words in wrong:
        assert run("info", *words.split()).returncode == 2


def test_info_of_a_completion_and_of_the_model_of_a_query() -> None:
    gaifman.complete(towns(), ["works_in", "citizen"], **FEW).save("m.gaifman")
    text = here("info", "m.gaifman").stdout
    version = f"gaifman {gaifman.__version__}"
    for words in ("Completion of 2 relations", version, "works_in", "citizen", "Held-out figures"):
        assert words in text
    assert f"{Path('m.gaifman').stat().st_size:,} bytes" in text
    body = json_output("info", "m.gaifman")
    assert body["bytes"] == Path("m.gaifman").stat().st_size
    assert [row["name"] for row in body["relations"]] == ["citizen", "works_in"]
    assert body["config"]["size"] == gaifman.load("m.gaifman").config.size
    gaifman.fit(towns(), "exists z. works_in(x, z) & works_in(y, z)", **FEW).save("named.otherwise")
    text = here("info", "named.otherwise").stdout
    assert "Model of ∃z works_in(x, z) ∧ works_in(y, z)" in text
    assert json.loads(here("info", "named.otherwise", "--json").stdout)["kind"] == "model"


def test_a_damaged_model_is_one_error() -> None:
    gaifman.complete(towns(), ["works_in"]).save("m.gaifman")
    Path("m.gaifman").write_bytes(Path("m.gaifman").read_bytes()[:200])
    one_message(run("info", "m.gaifman"), "is cut off")
    Path("x.gaifman").write_text("ann\tlikes\tbob\n")
    one_message(run("info", "x.gaifman"), "x.gaifman")

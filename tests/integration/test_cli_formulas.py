"""Formulas added by `--phi`: train, resume, explain, the model card, and what is refused."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

import gaifman as library
from cli_runner import json_output, output, refused, run
from gaifman.cli.train import feature_sources
from gaifman.features.feature_sets import FeatureSet
from gaifman.jobs.run import Run
from gaifman.jobs.train import SourceText, TrainingInterrupted, TrainingSpec, run_training
from gaifman.ranking.candidates import RankingOptions
from gaifman.training import TrainingConfig

RULE = "near(s1, s2) & ~(exists x. near(s1, x) & size(x) > size(s2))\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a knowledge base of largest neighbours, and a file with the rule."""
    rng, names = random.Random(0), [f"o{i}" for i in range(30)]
    size = {name: rng.randrange(1_000) for name in names}
    near = {name: sorted(rng.sample([other for other in names if other != name], 4)) for name in names}
    lines = [f"near({one}, {other}).\n" for one in names for other in near[one]]
    lines += [f"largest({one}, {max(near[one], key=size.__getitem__)}).\n" for one in names[::2]]
    lines += [f"size({name}) = {value}.\n" for name, value in size.items()]
    (tmp_path / "kb.facts").write_text("".join(lines))
    (tmp_path / "rule.phi").write_text(RULE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_file_is_added_and_explained(folder: Path) -> None:
    output("train", "kb.facts", "largest(x, y)", "-o", "m.gaifman", "--phi", "default", "--phi", "rule.phi")
    card = (folder / "m.gaifman.md").read_text()
    assert "default + rule" in card
    assert "near(s1, s2) ∧ (¬∃x near(s1, x)" in card
    kb = library.read("kb.facts")
    near = [fact.objects[1] for fact in kb.facts("near") if fact.objects[0] == "o1"]
    best = max(near, key=lambda name: kb.value("size", name) or 0)
    assert library.load("m.gaifman", kb).rank(None, {"x": "o1"}, RankingOptions(top=1))[0].names == (best,)
    words = "explain", "m.gaifman", "kb.facts", "--bind", "x=o1", "--bind", f"y={best}"
    assert "∧ (¬∃x" in output(*words)
    texts = [reason["feature"] for reason in json_output(*words, "--json")["reasons"]]
    assert any("size(x) > size(s2)" in text for text in texts)


def test_a_stopped_run_is_resumed_to_the_same_bytes(folder: Path) -> None:
    text = SourceText("rule.phi", RULE)
    config = {**TrainingConfig().as_dict(), "phi": "paper + rule", "base": "listwise"}
    spec = TrainingSpec(config, None, ("largest", "near"), ("paper", text))
    spec.check()
    assert TrainingSpec.from_dict(json.loads(json.dumps(spec.as_dict()))) == spec
    kb, asked = library.read(folder / "kb.facts"), iter(range(3))
    record = {"spec": spec.as_dict()}
    with Run.create(folder / "m.run", record, checkpoint_seconds=0) as started, pytest.raises(TrainingInterrupted):
        run_training(started, kb, folder / "m", threads=1, should_stop=lambda: next(asked, None) is None)
    with Run.open(folder / "m.run") as resumed:
        run_training(resumed, kb, folder / "m", threads=2)
    rule = FeatureSet(library.parse_phi(RULE, kb).features, "rule")
    whole = library.complete(kb, ["largest", "near"], phi=["paper", rule], base="listwise")
    whole.save(folder / "whole")
    assert (folder / "m").read_bytes() == (folder / "whole").read_bytes()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--phi", "rule.phi", "--phi", "papers"], "there is no feature set or file papers"),
        (["--phi", "number.phi"], "is a number, and ranked lists take formulas"),
        (["--phi", "wrong.phi"], "wrong.phi, line 2"),
        (["--phi", "long.phi"], "uses s3"),
    ],
)
def test_what_cannot_be_added_is_an_error(folder: Path, words: list[str], message: str) -> None:
    (folder / "number.phi").write_text("size(s2)\n")
    (folder / "wrong.phi").write_text("near(s1, s2)\nnaer(s1, s2)\n")
    (folder / "long.phi").write_text("near(s1, s3)\n")
    assert message in str(refused("train", "kb.facts", "-o", "m.gaifman", *words))
    assert not (folder / "m.gaifman").exists()


@pytest.mark.usefixtures("folder")
def test_the_network_joins_several_sets() -> None:
    words = ["--base", "mlp", "--min-examples", "0", "--option", "epochs=1"]
    output("train", "kb.facts", "largest(x, y)", "-o", "m.gaifman", "--phi", "paper", "--phi", "rule.phi", *words)
    model = library.load("m.gaifman")
    texts = [str(feature) for feature in model.features] if isinstance(model, library.GaifmanModel) else []
    assert any("size(x)" in text for text in texts)
    assert "near(s1, s2)" in texts


def test_a_row_of_the_table_has_one_feature_set() -> None:
    error = refused("reproduce", "wn18", "--phi", "paper", "--phi", "default")
    assert "one feature set" in str(error)


def test_the_name_of_a_file_is_not_that_of_another_set(folder: Path) -> None:
    (folder / "paper.phi").write_text(RULE)
    assert feature_sources(("paper.phi",))[0] == "paper.phi"
    assert feature_sources(("paper",)) == ("paper", ())
    assert run("train", "kb.facts", "largest(x, y)", "-o", "m.gaifman", "--phi", "paper.phi").returncode == 0
    assert library.load("m.gaifman").config.base == "listwise"

"""`gaifman evaluate`: what it prints, as text and JSON, and what it says to bad input."""

from __future__ import annotations

import json
import re
import sys
from functools import partial
from pathlib import Path

import pytest

import cli_runner
import gaifman
from cli_runner import refused
from gaifman.cli import main
from gaifman.errors import InputError, KnowledgeBaseError
from training_runs import QUICK, small

TEST = "knows(p0, p9).\nknows(stranger, p1).\nlikes(p3, p4).\ngives(p1, p2, p3).\nrare(p5, p6).\n"

here = partial(cli_runner.here, columns=120)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a knowledge base, its model, test facts and others."""
    folder = tmp_path_factory.mktemp("evaluated")
    kb = small(folder / "small.facts")
    kb.write_text(kb.read_text() + "rare(p1, p2).\n")
    (folder / "test.facts").write_text(TEST)
    (folder / "valid.facts").write_text("knows(p0, p8).\nknows(p0, p7).\n")
    here("train", str(kb), "-o", str(folder / "m.gaifman"), *QUICK)
    return folder


@pytest.fixture
def folder(trained: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(trained)
    return trained


ALL = ("evaluate", "m.gaifman", "small.facts", "test.facts")


@pytest.mark.usefixtures("folder")
def test_tables_for_people() -> None:
    text = here(*ALL, "--draws", "2").stdout
    fields = dict(re.findall(r"^(\S.*?)  +(\S.*)$", text, flags=re.MULTILINE))
    assert fields["test facts"] == "5"
    assert fields["draws"] == "2"
    assert fields["candidates"].startswith("25 objects; 1 of the test objects")
    assert re.fullmatch(r"0\.\d{3} \[0\.\d{3}, [01]\.\d{3}\]", fields["MRR"])
    assert "\nFiltered ranks\n" in text
    for row in ("all", "all, pessimistic", "all, optimistic", "position 3", "n-n", "other", "knows +n-n"):
        assert re.search(rf"^{row} +\d+ +[\d.]+( +[01]\.\d{{3}}){{4}}$", text, flags=re.MULTILINE), row
    assert "ranked by the fallback, because they have no model: rare\n" in text
    assert re.search(r"^AUC +[01]\.\d{3}$", text, flags=re.MULTILINE)
    assert "(intervals: 95%, bootstrap over facts, 1,000 resamples)\n" in text


@pytest.mark.usefixtures("folder")
def test_json_equals_the_result_of_the_library() -> None:
    body = json.loads(here(*ALL, "--filter", "valid.facts", "--json", "--threads", "1").stdout)
    model = gaifman.load("m.gaifman")
    kb, test, valid = (gaifman.read(f"{name}.facts") for name in ("small", "test", "valid"))
    assert body == gaifman.evaluate(model, kb, test, [valid]).as_dict()
    assert body["ranks"] == 11


def test_confidences_of_test_facts_are_compared(folder: Path) -> None:
    assert "Confidences" not in here(*ALL).stdout, "all test facts are certain"
    (folder / "unsure.facts").write_text("0.4::knows(p0, p9).\n0.8::knows(p1, p7).\nlikes(p3, p4).\n")
    unsure = (*ALL[:3], "unsure.facts")
    text = here(*unsure).stdout
    assert "\nConfidences of 3 test facts\n" in text
    body = json.loads(here(*unsure, "--json").stdout)["confidences"]
    assert body["facts"] == 3
    assert re.search(rf"^model +{body['model']['mae']:.3f} +-?[01]\.\d{{3}}$", text, flags=re.MULTILINE)
    assert body["relation_mean"] == {"mae": 0.266667, "correlation": None}, "every visible fact is certain"
    for name in ("mean", "median"):
        assert re.search(rf"^{name} of the relation +0\.267$", text, flags=re.MULTILINE)


@pytest.mark.usefixtures("folder")
def test_raw_ranks_and_known_facts() -> None:
    assert "\nRaw ranks\n" in here(*ALL, "--raw").stdout
    plain, known = (json.loads(here(*ALL, *more, "--json").stdout) for more in ((), ("--filter", "valid.facts")))
    assert plain["raw"]["all"] == known["raw"]["all"]
    assert plain["filtered"]["position"]["position 1"] == known["filtered"]["position"]["position 1"]


@pytest.mark.usefixtures("folder")
def test_visible_facts_of_another_file() -> None:
    body = json.loads(here(*ALL, "--with", "test.facts", "--json").stdout)
    assert body["hidden_test_facts"] == 5, "what is to be judged is not visible, wherever it stands"
    assert body["unseen_objects"] == 0, "but its objects are known"


@pytest.mark.usefixtures("folder")
def test_a_sample_is_reported() -> None:
    assert "2 (a sample of 5)" in here(*ALL, "--fraction", "0.4").stdout
    body = json.loads(here(*ALL, "--count", "2", "--json").stdout)
    assert (body["facts"], body["test_facts"], body["sampled"]) == (2, 5, True)


@pytest.mark.usefixtures("folder")
def test_relations_are_chosen() -> None:
    body = json.loads(here(*ALL, "--relation", "likes", "--json").stdout)
    assert [row["name"] for row in body["relations"]] == ["likes"]


def test_the_model_of_a_query(folder: Path) -> None:
    here("train", "small.facts", "knows(x, y)", "-o", "one.gaifman", *QUICK, "--force")
    text = here("evaluate", "one.gaifman", "small.facts", "test.facts").stdout
    assert re.search(r"^knows\(x, y\) +n-n +4 ", text, flags=re.MULTILINE)
    assert (folder / "one.gaifman").is_file()


def test_many_relations_are_cut_short(folder: Path) -> None:
    names = [f"r{i}" for i in range(12)]
    (folder / "many.facts").write_text("".join(f"{name}(a{i}, b{i}).\n" for name in names for i in range(2)))
    (folder / "more.facts").write_text("".join(f"{name}(a0, b1).\n" for name in names))
    here("train", "many.facts", "-o", "many.gaifman", "--min-examples", "0", "--option", "epochs=1", "--force")
    assert "… 2 more relations (--json has them)" in here("evaluate", "many.gaifman", "many.facts", "more.facts").stdout


def test_without_negatives_there_is_no_classification(folder: Path) -> None:
    (folder / "all.facts").write_text("p(a).\np(b).\nq(a).\n")
    (folder / "one.facts").write_text("p(b).\n")
    here("train", "all.facts", "-o", "all.gaifman", "--min-examples", "0", "--option", "epochs=1", "--force")
    text = here("evaluate", "all.gaifman", "all.facts", "one.facts").stdout
    assert "No classification: there are no negatives." in text
    assert "1 test fact in KB was hidden" in text


@pytest.mark.usefixtures("folder")
def test_bad_input_is_one_error() -> None:
    assert isinstance(refused("evaluate", "none.gaifman", "small.facts", "test.facts"), InputError)
    assert "there is no file none.facts" in str(refused("evaluate", "m.gaifman", "small.facts", "none.facts"))
    assert "above 0 and at most 1" in str(refused(*ALL, "--fraction", "0"))
    assert "draws must be an integer" in str(refused(*ALL, "--draws", "0"))
    wrong = refused(*ALL, "--relation", "like")
    assert isinstance(wrong, KnowledgeBaseError)
    assert wrong.suggestions == ("likes",)


def test_ranks_are_kept_and_a_stale_folder_is_refused(folder: Path) -> None:
    first, again, plain = (here(*ALL, "--json", *more).stdout for more in (KEEP, KEEP, ()))
    assert first == again == plain
    assert (folder / "kept.ranks" / "run.json").is_file()
    error = refused(*ALL, *KEEP, "--draws", "2")
    assert "kept.ranks has the ranks of another evaluation; different: numbers of draws" in str(error)


KEEP = ("--checkpoint-dir", "kept.ranks")


@pytest.mark.parametrize("as_json", [False, True])
def test_a_stopped_evaluation_prints_how_to_resume(
    as_json: bool, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With a folder there is something to go on with; without, it is only said that it was stopped."""

    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("gaifman.evaluation.evaluate.evaluate", interrupt)
    for words, wanted in ((KEEP, "to resume: gaifman evaluate m.gaifman small.facts"), ((), "stopped")):
        given = [*ALL, *words, *(["--json"] if as_json else [])]
        monkeypatch.setattr(sys, "argv", ["gaifman", *given])
        with pytest.raises(SystemExit) as caught:
            main()
        assert caught.value.code == 130
        assert wanted in capsys.readouterr().err
    assert folder.is_dir()

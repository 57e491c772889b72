"""`gaifman train` and `gaifman resume`: what they print, what they write, and what they say to bad input."""

from __future__ import annotations

import json
import re
import signal
import sys
from contextlib import AbstractContextManager
from dataclasses import fields
from pathlib import Path
from subprocess import Popen
from typing import Any

import pytest
from click.testing import CliRunner

import gaifman as library
from cli_runner import here, on_terminal, one_message, refused, run, stop, training_process
from gaifman.cli import cli, main
from gaifman.cli.train import held_out_fields
from gaifman.errors import GaifmanError
from gaifman.jobs.run import Run, read_log
from gaifman.training import Trainer
from training_runs import QUERY, QUICK, command, gaifman, small

LONG = ("--min-examples", "0", "--option", "epochs=100000", "--checkpoint-interval", "0.2")
"""Options of a training that does not end while a test looks on."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that the command is run in, with a knowledge base."""
    small(tmp_path / "small.facts")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def python_lines(text: str) -> str:
    """What the command says to type next."""
    return "\n".join(line.strip() for line in text.partition("in Python:\n")[2].splitlines())


def test_a_completion_its_summary_and_next_steps(folder: Path) -> None:
    done = gaifman("train", "small.facts", "-o", "m.gaifman", *QUICK, folder=folder)
    assert names(folder) == ["m.gaifman", "m.gaifman.log.jsonl", "m.gaifman.md", "small.facts"]
    fields = dict(re.findall(r"^(\S.*?)  +(\S.*)$", done.stdout, flags=re.MULTILINE))
    assert fields["answers"] == "264"
    assert 0 <= float(fields["AUC"]) <= 1
    assert re.fullmatch(r"\d\.\d{3} \(\d\.\d{3} uncalibrated\)", fields["calibration error"])
    assert re.search(
        r"^knows +96 +\d+ +\d\.\d{3} +\d\.\d{3} \(\d\.\d{3}\) +\d\.\d{3} \(\d\.\d{3}\)$",
        done.stdout,
        flags=re.MULTILINE,
    )
    assert re.search(r"^person +24 +– +– +– +–$", done.stdout, flags=re.MULTILINE)
    assert "no model of person: every tuple is known\n" in done.stdout
    assert "count what is unknown as false" in done.stdout
    assert "wrote m.gaifman, m.gaifman.md (model card), m.gaifman.log.jsonl (training log)\n" in done.stderr
    found: dict[str, Any] = {}
    lines = python_lines(done.stderr).splitlines()
    exec("\n".join([*lines[:-1], f"answer = {lines[-1]}"]), found)
    assert 0 <= found["answer"].value <= 1
    assert lines[-1].startswith("model.probability('knows', 'p")


@pytest.mark.usefixtures("folder")
def test_a_query_as_json() -> None:
    result = here("train", "small.facts", QUERY, "-o", "m.gaifman", *QUICK, "--json", "--threads", "1")
    body = json.loads(result.stdout)
    assert body["written"] == "m.gaifman"
    assert body["query"] == "∃z knows(x, z) ∧ likes(z, y)"
    assert body["metrics"]["held_out"] > 0
    assert result.stderr == ""
    model = library.load("m.gaifman", library.read("small.facts"))
    assert model.meta["config"]["size"] == 5
    assert "# Model of" in Path("m.gaifman.md").read_text()


def test_answers_that_cannot_be_hidden_are_not_held_out(folder: Path) -> None:
    """A query whose answers are true for the lack of a fact once had an AUC of 1."""
    done = gaifman("train", "small.facts", "~knows(x, y)", "-o", "m.gaifman", *QUICK, folder=folder)
    reason = r"^figures +none: not held out: (\S+) of \1 answers are true whatever is hidden$"
    assert re.search(reason, done.stdout, flags=re.MULTILINE)
    assert "not held out: " in (folder / "m.gaifman.md").read_text(encoding="utf-8")


def test_files_of_features_and_constraints_and_other_options(folder: Path) -> None:
    (folder / "mine.phi").write_text("each r. r(s1, s2)\neach r. ∃x r(s1, x)\n")
    (folder / "rules.txt").write_text("types: knows person, person\n")
    (folder / "more.facts").write_text("knows(p0, stranger).\n")
    files = ("--phi", "mine.phi", "--constraints", "rules.txt", "--with", "more.facts", "--relation", "knows")
    more = (
        "--base",
        "logistic",
        "--hide",
        "links",
        "--negative-sampling",
        "typed",
        "--hard-negative-fraction",
        "0.25",
        "--holdout",
        "0.2",
        "--draws",
        "3",
        "--seed",
        "7",
    )
    result = here("train", "small.facts", *files, *more, "-o", "m.gaifman", "--json", "--size", "all", "-r", "1")
    body = json.loads(result.stdout)
    assert [row["name"] for row in body["relations"]] == ["knows"]
    wanted = {
        "phi": "mine",
        "base": "logistic",
        "hide": "links",
        "negative_sampling": "typed",
        "hard_negative_fraction": 0.25,
        "holdout": 0.2,
        "size": None,
    }
    assert wanted.items() <= body["config"].items()
    assert body["kb"]["objects"] == 25


@pytest.mark.usefixtures("folder")
def test_a_picture_is_drawn() -> None:
    result = here("train", "small.facts", QUERY, "-o", "m.gaifman", *QUICK, "--plot", "m.svg")
    assert "held-out tuples" in Path("m.svg").read_text()
    assert ", m.svg (calibration)" in result.stderr


def test_force_replaces_a_model_and_nothing_else_does(folder: Path) -> None:
    here("train", "small.facts", QUERY, "-o", "m.gaifman", *QUICK)
    before = Path("m.gaifman").read_bytes()
    assert "already exists" in str(refused("train", "small.facts", QUERY, "-o", "m.gaifman", *QUICK))
    here("train", "small.facts", QUERY, "-o", "m.gaifman", *QUICK, "--seed", "1", "--force")
    after = Path("m.gaifman").read_bytes()
    assert after != before
    error = refused("train", "small.facts", "know(x, y)", "-o", "m.gaifman", "--force")
    assert error.suggestions == ("knows",)
    assert Path("m.gaifman").read_bytes() == after
    assert names(folder) == ["m.gaifman", "m.gaifman.log.jsonl", "m.gaifman.md", "small.facts"]


def test_an_existing_card_or_picture_is_not_overwritten(folder: Path) -> None:
    Path("m.md").write_text("mine")
    assert "m.md already exists" in str(refused("train", "small.facts", QUERY, "-o", "m"))
    Path("m.svg").write_text("mine")
    assert "m.svg already exists" in str(refused("train", "small.facts", QUERY, "-o", "n", "--plot", "m.svg"))
    assert names(folder) == ["m.md", "m.svg", "small.facts"]


BAD = {
    "know(x, y)": (["small.facts", "know(x, y)"], "  know(x, y)\n  ^^^^\ndid you mean: knows"),
    "knows(x": (["small.facts", "knows(x"], "query, line 1, column 8"),
    "no kb": (["no.tsv"], "there is no file no.tsv"),
    "bad kb": (["bad.facts"], "bad.facts, line 1"),
    "stdin": (["-"], "training cannot read standard input"),
    "stdin too": (["small.facts", "--with", "-"], "training cannot read standard input"),
    "no option": (["small.facts", "--option", "epochs"], "--option needs NAME=VALUE, got 'epochs'"),
    "strange option": (["small.facts", "--option", "epoch=1"], "did you mean: epochs"),
    "bad option": (["small.facts", "--option", "epochs=many"], "epochs must be an integer"),
    "bad hidden": (["small.facts", "--option", "hidden=5"], "hidden must be"),
    "base": (["small.facts", "--base", "mlpp"], "did you mean: mlp"),
    "holdout": (["small.facts", "--holdout", "nan"], "holdout must be"),
    "positives": (["small.facts", "--positives", "0"], "positives must be an integer of at least 1"),
    "draws": (["small.facts", "--draws", "0"], "from 1 to 1,000,000"),
    "min_examples": (["small.facts", "--min-examples", "-1"], "min_examples must be an integer"),
    "no phi": (["small.facts", "--phi", "no.phi"], "cannot read no.phi: No such file"),
    "no set": (["small.facts", "--phi", "papers"], "did you mean: paper"),
    "bad phi": (["small.facts", "knows(x, y)", "--phi", "bad.phi"], "bad.phi, line 2, column 9"),
    "strange phi": (
        ["small.facts", "knows(x, y)", "--phi", "other.phi"],
        "  know(s1, s2)\n  ^^^^\ndid you mean: knows",
    ),
    "wide phi": (["small.facts", "--phi", "wide.phi", "--base", "mlp"], "uses s2, but the query has 1 variable"),
    "constraints": (["small.facts", "--constraints", "bad.rules"], "bad.rules, line 1, column 1"),
    "strange constraints": (["small.facts", "--constraints", "other.rules"], "^^^^\ndid you mean: knows"),
    "relation": (["small.facts", "--relation", "know"], "did you mean: knows"),
    "both": (["small.facts", "knows(x, y)", "--relation", "knows"], "give a query or relations, not both"),
    "sentence": (["small.facts", "exists x. person(x)"], "no free variables"),
    "plot": (["small.facts", "--plot", "m.jpeg"], "end the name with .svg"),
    "plot's folder": (["small.facts", "--plot", "no/m.svg"], "there is no folder no"),
    "output's folder": (["small.facts", "-o", "no/m.gaifman"], "there is no folder no"),
    "output's name": (["small.facts", "-o", "m.run"], "m.run is not a name for a model"),
    "folder as output": (["small.facts", "-o", "sub", "--force"], "sub is a folder"),
    "table": (["small.facts", "--table", "t"], "no table t"),
}


@pytest.fixture
def bad(folder: Path) -> Path:
    """The folder with files that cannot be used."""
    (folder / "bad.facts").write_text("knows(\n")
    (folder / "bad.phi").write_text("# mine\nknows(s1\n")
    (folder / "other.phi").write_text("know(s1, s2)\n")
    (folder / "wide.phi").write_text("knows(s1, s2)\n")
    (folder / "bad.rules").write_text("unique: knows\n")
    (folder / "other.rules").write_text("functional: know 1→2\n")
    (folder / "sub").mkdir()
    return folder


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_an_error_and_leaves_nothing_behind(name: str, bad: Path) -> None:
    words, message = BAD[name]
    before = names(bad)
    output = () if "-o" in words else ("-o", "m.gaifman")
    error = refused("train", *words, *output)
    assert message in str(error)
    assert names(bad) == before


@pytest.mark.parametrize(
    "words",
    [
        ["--threads", "0"],
        ["--threads", "x"],
        ["--checkpoint-interval", "-1"],
        ["--negative-sampling", "x"],
        ["--nope"],
        ["--size", "x"],
    ],
)
def test_bad_usage_is_exit_code_2(words: list[str], folder: Path) -> None:
    result = CliRunner().invoke(cli, ["train", "small.facts", "-o", "m.gaifman", *words])
    assert result.exit_code == 2
    assert "Usage" in result.output
    assert names(folder) == ["small.facts"]


def test_errors_of_the_whole_command_are_text_or_json_and_exit_code_1(folder: Path) -> None:
    done = gaifman("train", "small.facts", "know(x, y)", "-o", "m", folder=folder, code=1)
    assert done.stderr.startswith("error: query, line 1, column 1: there is no relation know\n  know(x, y)\n  ^^^^\n")
    done = gaifman("train", "small.facts", "know(x, y)", "-o", "m", "--json", folder=folder, code=1)
    assert json.loads(done.stderr)["suggestions"] == ["knows"]
    done = gaifman("resume", "m", "--json", folder=folder, code=1)
    assert json.loads(done.stderr)["message"] == "there is no run in m.run"
    assert names(folder) == ["small.facts"]


def test_an_empty_knowledge_base_is_an_error(folder: Path) -> None:
    Path("empty.facts").touch()
    assert str(refused("train", "empty.facts", "-o", "m"))
    assert names(folder) == ["empty.facts", "small.facts"]


@pytest.mark.usefixtures("folder")
def test_a_finished_model_needs_no_resumption() -> None:
    here("train", "small.facts", QUERY, "-o", "m.gaifman", *QUICK)
    Path("m.gaifman.run").mkdir()  # a kill between the last two removals
    assert str(refused("resume", "m.gaifman")) == "nothing to resume: m.gaifman is finished"
    assert not Path("m.gaifman.run").exists()


def training(folder: Path, *words: str) -> AbstractContextManager[Popen[str]]:
    """A training in a process that works until it is stopped."""
    given = command("train", "small.facts", QUERY, "-o", "m.gaifman", *LONG, *words)
    return training_process(given, folder, folder / "m.gaifman.run" / "log.jsonl")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_it_and_it_prints_how_to_resume(number: int, folder: Path) -> None:
    with training(folder) as process:
        code, stderr = stop(process, number)
    assert code == 128 + number
    assert stderr.endswith("stopping after the next checkpoint …\nstopped; to resume: gaifman resume m.gaifman\n")
    events = read_log("m.gaifman.run/log.jsonl")
    assert events[-1]["event"] == "stop"
    with Run.open("m.gaifman.run") as run:
        assert run.load_checkpoint("model")
    assert "already has a run" in str(refused("train", "small.facts", QUERY, "-o", "m.gaifman"))


def interrupt(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("where", "message", "left"),
    [("_check_output", "stopped\n", []), ("_reopen_kbs", "to resume: gaifman resume m.gaifman\n", ["m.gaifman.run"])],
)
def test_a_stop_before_training_prints_what_there_is(
    where: str,
    message: str,
    left: list[str],
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys.modules["gaifman.cli.train"], where, interrupt)
    monkeypatch.setattr(sys, "argv", ["gaifman", "train", "small.facts", QUERY, "-o", "m.gaifman", *QUICK])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 130
    assert capsys.readouterr().err.endswith(message)
    assert names(folder) == [*left, "small.facts"]
    monkeypatch.undo()
    monkeypatch.chdir(folder)
    if left:
        assert "wrote m.gaifman" in here("resume", "m.gaifman").stderr


@pytest.mark.usefixtures("folder")
def test_the_next_steps_read_the_files_with_the_same_options() -> None:
    Path("more.txt").write_text("knows(p0, stranger).\n")
    words = ("--with", "more.txt", "--input-format", "facts", "--iris", "local")
    result = here("train", "small.facts", QUERY, "-o", "m.gaifman", *QUICK, *words)
    assert 'gaifman.read("small.facts", "more.txt", format="facts", iris="local")' in result.stderr
    found: dict[str, Any] = {}
    exec(python_lines(result.stderr), found)
    assert len(found["model"].kb.objects) == 25


@pytest.mark.usefixtures("folder")
def test_the_next_steps_read_a_table_by_the_same_mapping() -> None:
    rows = [f"{number},dept {number % 3},{20 + number}" for number in range(24)]
    Path("staff.csv").write_text("\n".join(["staff_id,dept,age", *rows, ""]))
    words = ("--wide", "--id", "staff_id", "--map", "staff_id works_in dept")
    result = here("train", "staff.csv", "works_in(x, y)", "-o", "m.gaifman", *QUICK, *words)
    flags = "--map 'staff_id works_in dept' --id staff_id --wide"
    assert flags in result.stderr
    assert 'gaifman.read("staff.csv", map=["staff_id works_in dept"], id="staff_id", wide=True)' in result.stderr
    found: dict[str, Any] = {}
    exec(python_lines(result.stderr), found)
    assert found["model"].kb.value("age", "staff/7") == 27
    assert str(refused("info", "staff.csv", "--map", "staff_id dept")).startswith("staff.csv, line 2, column 3: not a")


def test_a_stop_is_reported_as_json_and_force_starts_again(folder: Path) -> None:
    with training(folder, "--json") as process:
        code, stderr = stop(process, signal.SIGINT)
    assert code == 130
    assert json.loads(stderr)["hint"] == "to resume: gaifman resume m.gaifman"
    here("train", "small.facts", "likes(x, y)", "-o", "m.gaifman", *QUICK, "--force")
    assert names(folder) == ["m.gaifman", "m.gaifman.log.jsonl", "m.gaifman.md", "small.facts"]


def test_two_processes_do_not_work_on_one_run_and_a_changed_knowledge_base_is_refused(folder: Path) -> None:
    with training(folder) as process:
        for words in (["resume", "m.gaifman"], ["train", "small.facts", "-o", "m.gaifman", "--force"]):
            assert f"process {process.pid} works on the run" in str(refused(*words))
        stop(process, signal.SIGINT)
    with Path("small.facts").open("a") as file:
        file.write("knows(p0, stranger).\n")
    assert "has changed since the run was started" in str(refused("resume", "m.gaifman"))
    Path("small.facts").unlink()
    assert "small.facts" in str(refused("resume", "m.gaifman"))
    assert (folder / "m.gaifman.run" / "run.json").exists()


def test_where_nothing_is_proposed_there_is_no_calibration_error() -> None:
    """The command trained to the end and then failed to print a number that was not there."""
    metrics = {"auc": 0.5, "ece_before": None, "ece_after": None, "ranked_facts": 0}
    reason = "none: no missing fact is proposed with a probability of at least 0.05"
    assert held_out_fields(metrics) == [("AUC", "0.500"), ("calibration error", reason)]


def test_on_a_terminal_a_bar_shows_phase_share_rate_and_time_left(folder: Path) -> None:
    code = "from gaifman.cli import console, main; console.PROGRESS_DELAY = 0; main()"
    words = ["train", "small.facts", "-o", "m.gaifman", "--option", "epochs=20", "--min-examples", "0"]
    text = on_terminal([sys.executable, "-c", code, *words], folder, output=folder / "out.txt")
    assert (folder / "out.txt").read_text().startswith("answers")
    assert re.search(r"training .* +\d+%  [\d,]+/[\d,]+", text)
    assert "in Python:" in text
    assert sys.executable not in text


def test_trained_relations_are_kept_when_the_end_fails(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise GaifmanError("the disk is full")

    monkeypatch.setattr("gaifman.completion.Completion.save", full)
    result = CliRunner().invoke(cli, ["train", "small.facts", "-o", "m.gaifman", *QUICK])
    assert "the disk is full" in str(result.exception)
    assert "the trained relations are saved; after the error is fixed: gaifman resume m.gaifman" in result.stderr
    monkeypatch.undo()
    monkeypatch.chdir(folder)
    done = here("resume", "m.gaifman", "--checkpoint-interval", "5", "--threads", "1")
    assert "wrote m.gaifman" in done.stderr
    assert names(folder) == ["m.gaifman", "m.gaifman.log.jsonl", "m.gaifman.md", "small.facts"]


def test_a_file_named_demo_stays_what_it_was(folder: Path) -> None:
    """Begun with a file of that name, resumed where there is none; and the other way round."""
    Path("demo").write_text(Path("small.facts").read_text())
    words = ("train", "demo", QUERY, "-o", str(folder / "m"), *QUICK, "--input-format", "facts")
    assert gaifman(*words, folder=folder, kill=20, code=None).returncode == -9
    (folder / "sub").mkdir()
    body = json.loads(gaifman("resume", "../m", "--json", folder=folder / "sub").stdout)
    assert body["kb"]["facts"] == 264


def test_the_options_are_the_settings_of_training() -> None:
    options = {option.name: option.default for option in cli.commands["train"].params}
    for field in fields(library.TrainingConfig):
        assert field.name in options, field.name
        if field.name != "options":
            wanted = getattr(library.TrainingConfig(), field.name)
            wanted = (wanted,) if field.name == "phi" else wanted  # repeatable
            assert options[field.name] == wanted or (wanted is None and field.name == "missing"), field.name


# Collections


def test_a_collection_is_trained_and_resumed_to_the_same_bytes(folder: Path) -> None:
    small(folder / "two.facts", people=15, seed=2)
    words = ("train", "small.facts", "--also", "two.facts", *QUICK, "--threads", "1")
    whole = gaifman(*words, "-o", "whole.gaifman", folder=folder)
    assert "note: objects of several knowledge bases have the same name: 15 names, such as p0." in whole.stderr
    assert "They are different objects; --with FILE reads a file into KB instead" in whole.stderr
    assert "gaifman answer whole.gaifman small.facts" in whole.stderr
    killed = gaifman(*words, "-o", "m.gaifman", "--checkpoint-interval", "0", folder=folder, kill=30, code=None)
    assert killed.returncode == -9
    (folder / "sub").mkdir()
    gaifman("resume", "../m.gaifman", folder=folder / "sub")
    assert (folder / "m.gaifman").read_bytes() == (folder / "whole.gaifman").read_bytes()
    model = library.load("m.gaifman", library.read("two.facts"))
    assert model.meta["kb"]["shared_names"] == 15
    assert [kb["objects"] for kb in model.meta["kb"]["collection"]].count(24) == 1
    card = Path("m.gaifman.md").read_text()
    assert "these are different objects | 15 |" in card
    other = here("train", "two.facts", QUERY, "--also", "small.facts", "-o", "q.gaifman", *QUICK, "--json")
    assert len(json.loads(other.stdout)["kb"]["collection"]) == 2
    assert other.stderr == ""


def test_a_changed_or_missing_knowledge_base_of_a_collection_is_refused(folder: Path) -> None:
    assert "there is no file two.facts" in str(refused("train", "small.facts", "--also", "two.facts", "-o", "m"))
    assert "cannot read standard input" in str(refused("train", "small.facts", "--also", "-", "-o", "m"))
    small(folder / "two.facts", people=15, seed=2)
    words = ("train", "small.facts", "--also", "two.facts", *QUICK, "-o", "m.gaifman", "--checkpoint-interval", "0")
    assert gaifman(*words, folder=folder, kill=30, code=None).returncode == -9
    small(folder / "two.facts", people=15, seed=3)
    assert "has changed since the run was started" in str(refused("resume", "m.gaifman"))


@pytest.mark.usefixtures("folder")
def test_a_relation_that_only_another_knowledge_base_has() -> None:
    Path("two.facts").write_text("\n".join(f"sells(q{i}, q{i * 5 % 30})." for i in range(30)) + "\nknows(q1, q2).\n")
    done = here("train", "two.facts", "--also", "small.facts", "--relation", "likes", "-o", "m.gaifman", *QUICK)
    assert "wrote m.gaifman" in done.stderr


# Divergence


def test_a_run_that_diverges_leaves_nothing_and_says_how_to_lower_the_rate(folder: Path) -> None:
    """It once left a run that could not be resumed."""
    words = ("train", "small.facts", "-o", "m.gaifman", *QUICK, "--checkpoint-interval", "0")
    done = gaifman(*words, "--option", "learning_rate=1e30", folder=folder, code=1)
    one_message(done, "diverged in epoch 1: its loss is not finite")
    assert "--option learning_rate=0.05" in done.stderr
    assert names(folder) == ["small.facts"]
    gaifman(*words, "--option", "learning_rate=0.05", folder=folder)


def test_trained_relations_of_a_run_that_diverges_are_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check = Trainer._check_loss

    def likes_diverges(trainer: Trainer, loss: float, limit: float, epoch: int) -> None:
        check(trainer, float("inf") if "likes" in str(trainer.sources[0].examples.query) else loss, limit, epoch)

    monkeypatch.setattr(Trainer, "_check_loss", likes_diverges)
    for words in (["train", "small.facts", "-o", "m.gaifman", *QUICK], ["resume", "m.gaifman"]):
        result = CliRunner().invoke(cli, [*words, "--threads", "1"])
        assert "the training of likes(x, y) diverged" in str(result.exception)
        assert "of this run cannot be used with another learning rate" in result.stderr
        assert "to start again: the same command with a lower rate and --force" in result.stderr
    assert (folder / "m.gaifman.run" / "run.json").exists()
    monkeypatch.undo()
    monkeypatch.chdir(folder)
    here("train", "small.facts", "-o", "m.gaifman", *QUICK, "--option", "learning_rate=0.01", "--force")


def split_likes(folder: Path) -> int:
    """Move some facts of `small.facts` to `valid.facts`; return their number."""
    lines = (folder / "small.facts").read_text().splitlines()
    held_out = [line for line in lines if line.startswith("likes(")][::9]
    (folder / "valid.facts").write_text("\n".join(held_out) + "\n")
    (folder / "small.facts").write_text("\n".join(line for line in lines if line not in held_out) + "\n")
    return len(held_out)


SHORT = ("--relation", "likes", "--relation", "knows", "--option", "max_steps=1")


def test_validation_facts_choose_what_is_hidden_and_every_output_says_so(folder: Path) -> None:
    count = split_likes(folder)
    done = here("train", "small.facts", "-o", "m", *SHORT, "--valid", "valid.facts", columns=200)
    choice = library.load("m").meta["hide_choice"]
    assert (choice["facts"], choice["relations"]) == (count, 1)
    words = f"{choice['chosen']}: MRR of {count} validation facts of 1 relation {choice['mrr'][choice['chosen']]:.3f}"
    assert words in done.stdout
    assert words in (folder / "m.md").read_text()
    assert choice["chosen"] in [event.get("chosen") for event in read_log(folder / "m.log.jsonl")]
    again = here("train", "small.facts", "-o", "n", *SHORT, "--valid", "valid.facts", "--json")
    assert json.loads(again.stdout)["hide_choice"] == choice
    assert (folder / "m").read_bytes() == (folder / "n").read_bytes()


def test_a_run_reads_its_validation_facts_again(folder: Path) -> None:
    split_likes(folder)
    words = ("train", "small.facts", "likes(x, y)", "-o", "m", "--option", "max_steps=2", "--valid", "valid.facts")
    here(*words)
    whole = (folder / "m").read_bytes()
    for file in ("m", "m.md", "m.log.jsonl"):
        (folder / file).unlink()
    gaifman(*words, kill=8, folder=folder, code=-signal.SIGKILL)
    here("resume", "m")
    assert (folder / "m").read_bytes() == whole


@pytest.mark.parametrize(
    ("valid", "more", "message"),
    [
        ("like(p0, p1).", (), "the validation facts have a relation that the knowledge base does not have: like"),
        ("likes(p0, p1, p2).", (), "likes has 3 arguments in the validation facts"),
        ("likes(p0, nobody).", (), "every validation fact has an object that the knowledge base does not have"),
        ("", (), "there are no validation facts of the relations to train: likes"),
        ("likes(p0, p1).", ("--base", "mlp"), "the model is a network"),
        ("likes(p0, p1).", ("--hide", "facts"), "hide=facts is given"),
    ],
)
def test_wrong_validation_facts_leave_nothing_behind(
    folder: Path, valid: str, more: tuple[str, ...], message: str
) -> None:
    (folder / "valid.facts").write_text(valid + "\n")
    before = names(folder)
    one_message(run("train", "small.facts", "likes(x, y)", "-o", "m", "--valid", "valid.facts", *more), message)
    assert names(folder) == before


@pytest.mark.usefixtures("folder")
def test_validation_facts_that_are_trained_on_or_missing_are_refused() -> None:
    error = refused("train", "small.facts", "-o", "m", "--valid", "small.facts")
    assert "validation facts are training facts, such as" in str(error)
    assert "there is no file none.facts" in str(refused("train", "small.facts", "-o", "m", "--valid", "none.facts"))


@pytest.mark.usefixtures("folder")
def test_ranked_lists_with_a_size() -> None:
    words = ("train", "small.facts", "likes(x, y)", "-o", "m", "--base", "listwise", "--option", "max_steps=2")
    here(*words, "--size", "5", "--draws", "2", "--radius", "1")
    config = library.load("m").config
    assert (config.base, config.size, config.draws, config.radius) == ("listwise", 5, 2, 1)
    found = json.loads(here("answer", "m", "small.facts", "likes('p0', y)", "--top", "2", "--json").stdout)
    assert len(found["answers"]) == 2
    assert "nor auto" in run(*words, "--radius", "far", "--force").stderr

"""`gaifman reproduce`: the whole command on a tiny data set, stopped, killed and resumed, and bad input."""

from __future__ import annotations

import json
import re
import signal
import sys
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from subprocess import Popen
from typing import Any

import pytest
from click.testing import CliRunner

from cli_runner import here, refused, stop, training_process
from dataset_server import archive, giving, served, tiny
from gaifman.cli import cli
from gaifman.experiments import datasets as downloads
from small_experiments import QUICK, benchmark_sets, data_set, lines
from training_runs import command, gaifman

ROW = ("reproduce", "wn18", "--rows", "3", "--no-figures", *QUICK)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that the command is run in, with data where GAIFMAN_DATA says."""
    data_set(tmp_path / "data")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GAIFMAN_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def results(folder: Path) -> dict[str, Any]:
    """What a reproduction came to, but for times and how it was called."""
    body: dict[str, Any] = json.loads((folder / "results.json").read_text())
    for row in body.get("rows", ()):
        del row["seconds"], row["answers_per_second"]
    return {name: value for name, value in body.items() if name not in ("command", "seconds")}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What row 3 comes to where nobody disturbs it."""
    there = tmp_path_factory.mktemp("whole")
    here(*ROW, "--data-dir", str(data_set(there / "data")), "-o", str(there / "out"), "--fraction", "1")
    return results(there / "out")


def test_from_data_to_a_table_and_figures(folder: Path) -> None:
    result = here("reproduce", "wn18", "--rows", "3,4", "--fraction", "1", *QUICK)
    assert re.search(r"^\[1, 20, 5, 25\] +[\d.]+ +392( +[\d.]+){5}$", result.stdout, flags=re.MULTILINE)
    assert re.search(r"^\[2, 20, 5, 25\] +[\d.]+ +378 ", result.stdout, flags=re.MULTILINE)
    assert max(map(len, result.stdout.partition("\n\n")[0].splitlines())) <= 80
    assert "These are not the published facts of WN18" in result.stdout
    assert "A sample" not in result.stdout
    assert result.stderr == "wrote results.md, results.json, degrees.svg in reproduce-wn18\n"
    assert names(folder / "reproduce-wn18") == [
        "degrees.svg",
        "experiment.json",
        "k20-w5-25.gaifman",
        "k20-w5-25.gaifman.log.jsonl",
        "k20-w5-25.gaifman.md",
        "ranks-k20-w5-25-n1-2-fraction1",
        "results.json",
        "results.md",
    ]
    again = here("reproduce", "wn18", "--rows", "3,4", "--fraction", "1", *QUICK)
    assert again.stdout == result.stdout, "nothing is done again, and times stay what they were"


def test_json_equals_the_written_file(folder: Path, whole: dict[str, Any]) -> None:
    result = here(*ROW, "--fraction", "1", "--json", "-o", "out")
    assert result.stderr == ""
    assert json.loads(result.stdout) == json.loads((folder / "out" / "results.json").read_text())
    assert results(folder / "out") == whole


def test_all_rows_share_what_they_can(folder: Path) -> None:
    body = json.loads(here("reproduce", "wn18", "--no-figures", *QUICK, "--json").stdout)
    assert [row["row"] for row in body["rows"]] == [1, 2, 3, 4, 5]
    assert [row["size"] for row in body["rows"]] == [None, 20, 20, 20, 20]
    assert len([name for name in names(folder / "reproduce-wn18") if name.endswith(".gaifman")]) == 3
    assert len([name for name in names(folder / "reproduce-wn18") if name.startswith("ranks")]) == 3


def test_a_quick_look_and_then_the_whole_share_the_training(folder: Path) -> None:
    there = folder / "reproduce-wn18"
    quick = here(*ROW, "--fraction", "0.5")
    assert "A sample: 4 of 8 test facts." in quick.stdout
    assert quick.stderr == "wrote results-fraction0.5.md, results-fraction0.5.json in reproduce-wn18\n"
    model = there / "k20-w5-25.gaifman"
    before = model.stat().st_mtime_ns
    assert "A sample" not in here(*ROW).stdout
    assert model.stat().st_mtime_ns == before
    whole = (there / "results.md").read_bytes()
    here(*ROW, "--fraction", "0.5", "--visible", "train+valid")
    assert (there / "results.md").read_bytes() == whole, "a quick look does not replace what took hours"
    assert (there / "results-valid-fraction0.5.md").exists()


@pytest.mark.usefixtures("folder")
def test_visible_facts_features_and_options_are_chosen() -> None:
    Path("mine.phi").write_text("each r. r(s1, s2)\neach r. r(s2, s1)\n")
    words = (
        "--visible",
        "train+valid",
        "--phi",
        "mine.phi",
        "--option",
        "activation=sigmoid",
        "--seed",
        "3",
        "-o",
        "ours",
    )
    body = json.loads(here(*ROW, *words, "--json").stdout)
    assert (body["visible"], body["phi"], body["seed"]) == ("train+valid", "mine", 3)
    assert body["options"]["activation"] == "sigmoid"
    assert "different: options, phi, seed, text of phi" in str(refused(*ROW, "-o", "ours"))


# Stopped and killed


def reproduction(folder: Path, *words: str) -> AbstractContextManager[Popen[str]]:
    """A reproduction in a process that works until it is stopped."""
    given = command("reproduce", "wn18", "--rows", "3", "--no-figures", "--threads", "1", *words)
    return training_process(given, folder, folder / "reproduce-wn18" / "k20-w5-25.gaifman.run" / "log.jsonl")


LONG = ("--option", "epochs=100000", "--option", "min_examples=0")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_it_and_it_prints_how_to_resume(number: int, folder: Path) -> None:
    with reproduction(folder, *LONG) as process:
        code, stderr = stop(process, number)
    assert code == 128 + number
    assert "stopping after the next checkpoint …" in stderr
    assert "stopped; to resume: gaifman reproduce wn18 --rows 3 --no-figures --threads 1 --option" in stderr
    assert (folder / "reproduce-wn18" / "k20-w5-25.gaifman.run" / "run.json").is_file()


def test_a_stop_is_reported_as_json(folder: Path) -> None:
    with reproduction(folder, *LONG, "--json") as process:
        code, stderr = stop(process, signal.SIGINT)
    assert code == 130
    assert json.loads(stderr)["hint"].startswith("to resume: gaifman reproduce wn18")


@pytest.mark.parametrize("change", ["12", "1:result", "7:run.json", "4:ranks", "9:ranks", "1:results.json"])
def test_killed_anywhere_it_resumes_to_the_same_results(change: str, folder: Path, whole: dict[str, Any]) -> None:
    words = (*ROW, "--fraction", "1", "-o", "out")
    assert gaifman(*words, folder=folder, kill=change, code=None).returncode == -9
    gaifman(*words, folder=folder)
    assert results(folder / "out") == whole


def test_gaifman_resume_continues_a_killed_training(folder: Path, whole: dict[str, Any]) -> None:
    words = (*ROW, "--fraction", "1", "-o", "out")
    gaifman(*words, folder=folder, kill="1:result", code=None)
    gaifman("resume", "out/k20-w5-25.gaifman", folder=folder)
    gaifman(*words, folder=folder)
    assert results(folder / "out") == whole


# Bad input


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--rows", "6"], "the table has no row '6'"),
        (["--rows", "1-3"], "the table has no row '1-3'"),
        (["--fraction", "2"], "above 0 and at most 1"),
        (["--phi", "papers"], "did you mean: paper"),
        (["--phi", "no.phi"], "cannot read no.phi"),
        (["--option", "epochs"], "--option needs NAME=VALUE"),
        (["--option", "size=5"], "size is set by the row"),
        (["--data-dir", "nowhere"], "there is no file nowhere/WN18/train.txt.gz"),
        (["-o", "data"], "data is not empty"),
    ],
)
def test_bad_input_is_one_message_and_leaves_nothing(words: list[str], message: str, folder: Path) -> None:
    before = names(folder)
    assert message in str(refused("reproduce", "wn18", "--no-figures", *words))
    assert names(folder) == before


def test_wrong_data_is_an_error(folder: Path) -> None:
    (folder / "data" / "WN18" / "test.txt.gz").write_bytes(b"a\tr\n")
    assert "test.txt.gz, line 1" in str(refused(*ROW))
    (folder / "data" / "WN18" / "test.txt.gz").unlink()
    assert "there is no file" in str(refused(*ROW))
    assert names(folder) == ["data"]


def test_test_facts_of_an_untrained_relation_are_an_error(folder: Path) -> None:
    (folder / "data" / "WN18" / "test.txt.gz").write_bytes(b"00000001\t_hypernim\t00000002\n")
    error = refused(*ROW)
    assert "there is no model of _hypernim" in str(error)
    assert "_hypernym" in error.suggestions


@pytest.mark.parametrize("words", [["wn11"], ["wn18", "--visible", "test"], ["wn18", "--threads", "0"], []])
def test_bad_usage_is_exit_code_2(words: list[str], folder: Path) -> None:
    assert CliRunner().invoke(cli, ["reproduce", *words]).exit_code == 2
    assert names(folder) == ["data"]


def test_missing_matplotlib_is_reported_at_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    error = refused("reproduce", "wn18", *QUICK)
    assert "pip install 'gaifman[plots]', or --no-figures" in str(error)
    assert names(folder) == ["data"]


# Benchmarks

NETWORK = ("--option", "base=mlp", "--option", "draws=1", "--no-figures", *QUICK)
"""Options of a benchmark that takes a moment."""
BENCHMARK = ("reproduce", "umls", *NETWORK)


@pytest.fixture
def benchmarks(folder: Path) -> Path:
    """The folder that the command is run in, with more data sets."""
    benchmark_sets(folder / "data")
    return folder


def test_the_default_learner_on_a_benchmark(benchmarks: Path) -> None:
    result = here("reproduce", "umls", "--threads", "1")
    assert re.search(r"^gaifman( +[\d.]+){4}$", result.stdout, flags=re.MULTILINE)
    assert re.search(r"^most frequent object first( +[\d.]+){4}$", result.stdout, flags=re.MULTILINE)
    assert "Wall time: training " in result.stdout
    assert "all are the defaults, none was chosen on the validation facts; seed 0." in result.stdout
    assert result.stderr == "wrote results.md, results.json, degrees.svg in reproduce-umls\n"
    assert names(benchmarks / "reproduce-umls") == [
        "degrees.svg",
        "experiment.json",
        "model.gaifman",
        "model.gaifman.log.jsonl",
        "model.gaifman.md",
        "ranks",
        "results.json",
        "results.md",
    ]
    again = here("reproduce", "umls", "--threads", "1")
    assert again.stdout == result.stdout, "nothing is done again, and times stay what they were"


@pytest.mark.parametrize(
    ("name", "title", "method"),
    [("grail-fb237-v1", "FB15k-237 v1 (inductive)", "RED-GNN"), ("jf17k", "JF17K", "ReAlE")],
)
def test_other_kinds_of_benchmarks(name: str, title: str, method: str, benchmarks: Path) -> None:
    result = here("reproduce", name, *NETWORK, "--fraction", "0.5", "--seed", "2", "-o", "out")
    assert f"{title} with the default learner" in result.stdout
    assert re.search(rf"^{method} +0\.\d+ .* 20\d\d$", result.stdout, flags=re.MULTILINE)
    assert "A sample: 4 of 8 test facts." in result.stdout
    assert f"These are not the published facts of {title}: the published figures do not apply." in result.stdout
    assert result.stderr == "wrote results-fraction0.5.md, results-fraction0.5.json in out\n"
    assert json.loads((benchmarks / "out" / "results-fraction0.5.json").read_text())["seed"] == 2


def test_a_data_set_of_the_paper_with_the_default_learner(folder: Path) -> None:
    body = json.loads(here("reproduce", "wn18", "--protocol", "default", *NETWORK, "--json").stdout)
    assert body == json.loads((folder / "reproduce-wn18-default" / "results.json").read_text())
    assert (body["protocol"], body["data"], body["published"]) == ("default", "wn18", [])
    assert set(body["ours"]) == {"mrr", "hits@1", "hits@10", "mean_rank"}


@pytest.mark.parametrize("change", ["12", "1:result", "4:ranks", "1:results.json"])
def test_a_benchmark_killed_anywhere_resumes_to_the_same_results(change: str, benchmarks: Path) -> None:
    here(*BENCHMARK, "-o", "whole")
    assert gaifman(*BENCHMARK, "-o", "out", folder=benchmarks, kill=change, code=None).returncode == -9
    gaifman(*BENCHMARK, "-o", "out", folder=benchmarks)
    assert results(benchmarks / "out") == results(benchmarks / "whole")


def test_gaifman_resume_continues_a_killed_benchmark(benchmarks: Path) -> None:
    words = ("reproduce", "jf17k", *NETWORK)
    here(*words, "-o", "whole")
    gaifman(*words, "-o", "out", folder=benchmarks, kill="1:result", code=None)
    gaifman("resume", "out/model.gaifman", folder=benchmarks)
    gaifman(*words, "-o", "out", folder=benchmarks)
    assert results(benchmarks / "out") == results(benchmarks / "whole")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["umls", "--rows", "1"], "the default learner has one\nhint: leave it out"),
        (["wn18", "--protocol", "default", "--rows", "1"], "leave it out, or use --protocol ours"),
        (["umls", "--protocol", "paper"], "--protocol paper is for the data sets of the paper's table"),
        (["umls", "--fraction", "2"], "above 0 and at most 1"),
        (["umls", "--option", "seed=1"], "seed is set by its own option"),
        (["umls", "--option", "epoch=1"], "unknown setting epoch"),
        (["umls", "--data-dir", "nowhere"], "there is no file nowhere/umls/train.txt.gz"),
        (["family"], "FOLDER/family (tab-separated triples); use --data-dir FOLDER or GAIFMAN_DATA=FOLDER"),
        (["umls", "-o", "data"], "data is not empty"),
    ],
)
def test_bad_input_of_a_benchmark_is_one_message(words: list[str], message: str, benchmarks: Path) -> None:
    before = names(benchmarks)
    assert message in str(refused("reproduce", *words, "--no-figures"))
    assert names(benchmarks) == before


def test_a_benchmark_without_a_data_folder_is_an_error(benchmarks: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GAIFMAN_DATA")
    error = refused(*BENCHMARK)
    assert "UMLS cannot be downloaded: name a folder that has it" in str(error)
    assert "put train.txt.gz, valid.txt.gz and test.txt.gz into FOLDER/umls" in error.hint
    assert names(benchmarks) == ["data"]


# Fetched


def test_missing_data_is_downloaded(folder: Path, monkeypatch: pytest.MonkeyPatch, whole: dict[str, Any]) -> None:
    monkeypatch.delenv("GAIFMAN_DATA")
    with served(giving(archive())) as home:
        monkeypatch.setitem(downloads.DATASETS, "wn18", replace(tiny(home), folder="WN18"))
        text = here(*ROW, "--fraction", "1", "-o", "out").stdout
    assert "not the published" not in text, "its checksums are what they should be"
    assert names(folder / "cache" / "gaifman") == ["WN18"]
    assert results(folder / "out") == whole | {"is_published": True}
    assert len(lines()["test"]) == whole["facts"]


def test_a_failed_download_is_one_message(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GAIFMAN_DATA")
    with served(lambda handler: handler.send_error(503)) as home:
        monkeypatch.setitem(downloads.DATASETS, "wn18", replace(tiny(home), folder="WN18"))
        error = refused(*ROW)
    assert "cannot download" in str(error)
    assert "--data-dir FOLDER" in error.hint
    assert not (folder / "reproduce-wn18").exists()

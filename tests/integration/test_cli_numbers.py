"""Absurd numbers: every numeric option of every command gives one clear message, or a result."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from unittest.mock import patch

import click
import pytest

from cli_runner import one_message, run
from gaifman.cli import cli
from gaifman.cli.console import CountOrAll
from gaifman.cli.split import ShareOrCount
from gaifman.io import write
from processes import PATIENCE, child, python
from trained import towns, worker

ABSURD = (
    "1" + "0" * 20,
    "1" + "0" * 23,
    "-1" + "0" * 25,
    "9" * 5_000,
    "1e400",
    "-1e400",
    "nan",
    "inf",
    "1.5",
    "-1",
    "x",
)
"""Too large, too small, and no number at all."""
ARGUMENTS = {
    "neighbourhood": ["kb.tsv", "p01", "t1"],
    "features": ["kb.tsv", "x,y", "p01", "t1"],
    "mine": ["kb.tsv", "works_in(x, y)", "-o", "mined.phi", "--force"],
    "query": ["kb.tsv", "works_in(x, y)"],
    "train": ["kb.tsv", "works_in(x, y)", "-o", "new.gaifman", "--force", "--option", "epochs=1"],
    "resume": ["m.gaifman"],
    "predict": ["m.gaifman", "kb.tsv"],
    "review": ["missing.csv"],
    "split": ["kb.tsv", "-o", "parts", "--force"],
    "answer": ["m.gaifman", "kb.tsv", "--bind", "x=p01"],
    "explain": ["m.gaifman", "kb.tsv", "--bind", "x=p01", "--answer", "t1"],
    "evaluate": ["m.gaifman", "kb.tsv", "test.tsv"],
    "reproduce": ["wn18", "--data-dir", "nowhere"],
    "serve": ["kb.tsv", "--port", "0"],
}
"""Command → arguments that work, apart from the option that is tried."""


def is_numeric(option: click.Parameter) -> bool:
    """Whether an option takes a number."""
    kinds = (click.types.IntParamType, click.types.FloatParamType, CountOrAll, ShareOrCount)
    return isinstance(option, click.Option) and not option.is_flag and isinstance(option.type, kinds)


def numeric_options() -> list[tuple[str, str]]:
    """Every command with each of its numeric options."""
    found = []
    for name, command in cli.commands.items():
        found += [(name, option.opts[-1]) for option in command.params if is_numeric(option)]
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a small knowledge base and a model."""
    path = tmp_path_factory.mktemp("numbers")
    write(towns(12), path / "kb.tsv", lossy=True)
    (path / "test.tsv").write_text("p01\tworks_in\tt2\n")
    (path / "missing.csv").write_text("head,relation,tail,probability\np01,works_in,t2,0.5\n")
    worker().save(path / "m.gaifman")
    return path


def test_every_command_with_a_number_is_tried() -> None:
    assert {name for name, _ in numeric_options()} == set(ARGUMENTS)
    assert len(numeric_options()) > 40


@pytest.mark.parametrize(("command", "option"), numeric_options(), ids=str)
def test_absurd_numbers_are_one_message_or_a_result(folder: Path, command: str, option: str) -> None:
    """`query --skip 10^21`, `--rows 10^23`, `--memory 10^20` and `neighbourhood -r 10^20` were tracebacks."""
    with patch("gaifman.server.run.run_server"), patch.object(sys, "stdin", io.StringIO()):
        for value in ABSURD:
            done = run(command, *ARGUMENTS[command], option, value, folder=folder)
            assert done.returncode in (0, 1, 2), f"{option} {value:.30}: {done.stderr}"
            assert "Traceback" not in done.stderr
            assert len(done.stderr) < 2_000, f"{option} {value:.30}: {done.stderr:.300}"
            if done.returncode == 1:
                one_message(done, "error: ")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["query", "kb.tsv", "works_in(x, y)", "--skip", str(10**21)], "skip must be an integer of at most"),
        (["query", "kb.tsv", "works_in(x, y)", "--rows", str(10**23)], "rows must be an integer of at most"),
        (["query", "kb.tsv", "works_in(x, y)", "--memory", str(10**20)], "memory_mb must be an integer of at most"),
        (["neighbourhood", "kb.tsv", "p01", "-r", str(10**20)], "radius must be an integer of at most"),
    ],
)
def test_a_number_that_is_too_large_is_named(folder: Path, words: list[str], message: str) -> None:
    one_message(run(*words, folder=folder), message)


@pytest.mark.parametrize(
    "option",
    [
        "hidden=[1e20]",
        f"hidden=[{10**20}]",
        f"epochs={10**30}",
        f"batch_size={10**30}",
        "learning_rate=1e400",
        "dropout=NaN",
        "hidden=5",
        "hidden={}",
        "epochs=null",
    ],
)
def test_absurd_options_of_the_network_are_one_message(folder: Path, option: str) -> None:
    one_message(run("train", *ARGUMENTS["train"][:-2], "--option", option, folder=folder), "error: ")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a device that is always full")
@pytest.mark.parametrize("words", [["query", "demo", "borders(x, y)", "--tsv"], ["info", "demo"], ["--help"]], ids=str)
def test_output_to_a_full_device_is_one_message(words: list[str]) -> None:
    with Path("/dev/full").open("w") as full, child(python("-m", "gaifman", *words), stdout=full) as process:
        _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1
    assert errors == "error: the output cannot be written: No space left on device\n"

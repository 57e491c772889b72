"""Trainings killed at any moment and resumed: the same model, byte for byte, whatever the number of threads."""

from __future__ import annotations

import random
import shutil
from itertools import count
from pathlib import Path

import pytest

from gaifman.jobs.run import read_log
from training_runs import QUERY, QUICK, Victim, gaifman, small

WHAT = {
    "completion": (24, ()),
    "query": (50, (QUERY,)),
    "demo": (0, ("--relation", "capital", "--relation", "shore_on")),
}
"""People of the generated knowledge base, 0 for the bundled one; words after it."""


def victim(folder: Path, what: str) -> Victim:
    people, words = WHAT[what]
    folder.mkdir(exist_ok=True)
    kb = str(small(folder / "small.facts", people)) if people else "demo"
    return Victim(folder, kb, *words)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What comes out when nobody disturbs, on one thread."""
    return {what: victim(tmp_path_factory.mktemp(what), what).finish() for what in WHAT}


@pytest.mark.parametrize(("what", "seed"), [("completion", 1), ("query", 2), ("query", 3), ("demo", 4)])
def test_killed_at_any_time_it_gives_the_same_bytes(
    what: str, seed: int, tmp_path: Path, whole: dict[str, bytes]
) -> None:
    """Six times each: before its run is there, and at random moments of all that it takes; resumptions too."""
    draw, kills, number = random.Random(seed), 0, count()
    job = victim(tmp_path / str(next(number)), what)
    job.kill_after(-draw.uniform(0.05, 0.5), threads=1)
    while (kills := kills + job.kills) < 6:
        if job.done():
            assert job.finish() == whole[what]
            job = victim(tmp_path / str(next(number)), what)  # not by kills: one may end before it is killed
        job.kills = 0
        job.kill_after(draw.uniform(0, 0.6), threads=draw.choice([1, 2]))
    assert job.finish(draw.choice([1, 2])) == whole[what]


@pytest.mark.parametrize(("what", "seed"), [("completion", 5), ("query", 6), ("demo", 7)])
def test_killed_before_any_change_of_files_it_gives_the_same_bytes(
    what: str, seed: int, tmp_path: Path, whole: dict[str, bytes]
) -> None:
    draw, job = random.Random(seed), victim(tmp_path, what)
    for most in (3, 20, 40, 60):
        if not job.done():
            job.kill_by_change(draw.randint(1, most), threads=draw.choice([1, 2]))
    assert job.kills >= 3
    assert job.finish(draw.choice([1, 2])) == whole[what]


@pytest.fixture(scope="module")
def trained_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with all training done, killed before the first byte of its card."""
    job = victim(tmp_path_factory.mktemp("learnt"), "query")
    job.kill_by_change("1:.md", threads=1)
    assert job.kills == 1
    return job.folder


@pytest.mark.parametrize("change", ["2:.md", "1:/result", "1:/.m.gaifman.", "1:/run.json", "1:/.run.json", "4:/lock"])
def test_killed_while_it_ends_it_is_ended_when_resumed(
    change: str, trained_run: Path, tmp_path: Path, whole: dict[str, bytes]
) -> None:
    """While the card, the result, the record is written, and while the folder is removed."""
    shutil.copytree(trained_run, tmp_path, dirs_exist_ok=True)
    job = Victim(tmp_path, str(tmp_path / "small.facts"), QUERY)
    job.kill_by_change(change, threads=1)
    assert job.kills == 1
    assert job.finish() == whole["query"]


def test_checkpoints_inside_one_relation_are_used(tmp_path: Path, whole: dict[str, bytes]) -> None:
    """Killed again and again in one task, it never begins at its beginning again."""
    job = victim(tmp_path, "query")
    at = []
    for _ in range(3):
        job.kill_by_change(30, threads=1)
        assert not job.done()
        log = read_log(job.running / "log.jsonl")
        at = [(event["epoch"], event["block"]) for event in log if event["event"] == "resume"]
    assert len(at) == 2
    assert at == sorted(set(at))
    assert any(block > 0 for _, block in at)
    assert job.finish() == whole["query"]


def test_a_run_goes_on_from_another_folder(tmp_path: Path, whole: dict[str, bytes]) -> None:
    """The knowledge base was named from where the run was begun, the model is named from here."""
    job = victim(tmp_path / "there", "query")
    job.kill_by_change("2:/checkpoints", threads=1)
    assert (job.running / "run.json").exists()
    gaifman("resume", "there/m.gaifman.run/", folder=tmp_path)
    assert job.finish() == whole["query"]


def test_relative_names_give_the_same_model(tmp_path: Path, whole: dict[str, bytes]) -> None:
    job = victim(tmp_path, "query")
    gaifman("train", "small.facts", QUERY, "-o", "m.gaifman", *QUICK, "--threads", "2", folder=tmp_path)
    assert job.finish() == whole["query"]
    data = whole["query"]
    assert b"small.facts" not in data
    assert b"gaifman train" not in data
    assert str(tmp_path.parent).encode() not in data

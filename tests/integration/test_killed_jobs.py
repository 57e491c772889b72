"""Runs that are killed anywhere and resumed give the same bytes."""

from __future__ import annotations

import random
import shutil
import signal
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import background_job as job
import processes
from gaifman.io.model_file import read_model
from gaifman.jobs.run import Run, read_log
from processes import PATIENCE, child, wait_until

JOB = [sys.executable, str(Path(job.__file__))]
ONE = {"x": np.arange(3)}


def command(folder: Path, *options: str) -> list[str]:
    """The job in a folder of its own."""
    return [*JOB, str(folder / "run"), str(folder / "model"), *options]


def until_done(folder: Path, *options: str) -> int:
    """Resume until the result is there; how often that was."""
    for count in range(1, 50):
        done = processes.run(command(folder, *options))
        if done.returncode == 0:
            return count
        assert done.returncode == -9, done.stderr
    raise AssertionError("it does not end")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The result of a job that nobody disturbs, on one thread."""
    folder = tmp_path_factory.mktemp("whole")
    assert until_done(folder, "--threads", "1") == 1
    return (folder / "model").read_bytes()


def check(folder: Path, whole: bytes) -> None:
    """The result is right, and nothing but it and the log is left."""
    assert (folder / "model").read_bytes() == whole
    assert sorted(entry.name for entry in folder.iterdir()) == ["model", "model.log.jsonl"]
    events = read_log(folder / "model.log.jsonl")
    assert {event["task"] for event in events if event["event"] == "done"} <= set(job.TASKS)


def test_the_job_does_what_it_should(tmp_path: Path, whole: bytes) -> None:
    (tmp_path / "model").write_bytes(whole)
    arrays, meta = read_model(tmp_path / "model")
    assert set(meta) == set(job.TASKS)
    assert [a.tobytes() for a in arrays.values()] == [job.links(name, 300) for name in job.TASKS]


@pytest.mark.parametrize("seed", range(8))
def test_killed_at_random_moments_and_resumed_it_gives_the_same_bytes(tmp_path: Path, whole: bytes, seed: int) -> None:
    """Three kills each, by the clock: 24 in all."""
    draw = random.Random(seed)
    for _ in range(3):
        with child(command(tmp_path, "--pause", "0.004")) as process:
            assert process.stdout
            if process.stdout.readline() != "ready\n":
                assert process.wait() == 0, "on a busy machine the job may be done before it is killed"
                break
            time.sleep(draw.uniform(0, 0.1))  # any moment will do
        assert not (tmp_path / "model").exists() or (tmp_path / "model").read_bytes() == whole
    until_done(tmp_path)
    check(tmp_path, whole)


@pytest.mark.parametrize("seed", range(12))
def test_killed_before_any_change_of_files_and_resumed_it_gives_the_same_bytes(
    tmp_path: Path, whole: bytes, seed: int
) -> None:
    """Killed again and again, each time at another of the first 500 changes."""
    draw = random.Random(seed)
    for _ in range(4):
        kill = str(draw.choice([draw.randint(1, 30), draw.randint(1, 500)]))
        done = processes.run(command(tmp_path, "--kill-at", kill))
        assert done.returncode in (0, -9), done.stderr
    until_done(tmp_path)
    check(tmp_path, whole)


def ready_to_finish(folder: Path) -> None:
    """A run with all tasks done."""
    folder.mkdir()
    with Run.create(folder / "run", job.SETTINGS) as run:
        for name in job.TASKS:
            run.save_task(name, {"state": np.frombuffer(job.links(name, 300), np.uint8)}, {"steps": 300})
        run.checkpoint("parent", ONE, {}, force=True)
        run.log("begun")


def test_killed_before_each_change_of_the_end_it_ends_when_resumed(tmp_path: Path, whole: bytes) -> None:
    """From the result's first byte to the last removal: nothing is computed twice, and the log is whole."""
    ready_to_finish(tmp_path / "ready")
    kill, code = 0, -9
    while code == -9:
        kill += 1
        folder = shutil.copytree(tmp_path / "ready", tmp_path / str(kill))
        killed = processes.run(command(folder, "--kill-at", str(kill)))
        code = killed.returncode
        assert code in (0, -9), killed.stderr
        assert job.job(folder / "run", folder / "model", 1, 1) == 0
        left = {entry.name for entry in folder.iterdir()} - {"run"}
        assert left == {"model", "model.log.jsonl"}
        assert (folder / "model").read_bytes() == whole
        assert [event["event"] for event in read_log(folder / "model.log.jsonl")] == ["begun"]
        assert not (folder / "run" / "run.json").exists()
    assert kill > 20


@pytest.mark.parametrize("which", ["INT", "TERM"])
def test_a_signal_ends_the_job_after_its_block_and_it_can_be_resumed(tmp_path: Path, whole: bytes, which: str) -> None:
    with child(command(tmp_path, "--hold")) as process:
        wait_until(lambda: [*(tmp_path / "run" / "checkpoints").glob("*")])
        process.send_signal(signal.Signals[f"SIG{which}"])
        assert process.wait(PATIENCE) == 3
    events = read_log(tmp_path / "run" / "log.jsonl")
    assert events[-1]["event"] == "interrupted"
    assert events[-1]["signal"] == signal.Signals[f"SIG{which}"]
    assert list((tmp_path / "run" / "checkpoints").iterdir())
    until_done(tmp_path)
    check(tmp_path, whole)
    assert any(event["event"] == "resumed" and event["at"] for event in read_log(tmp_path / "model.log.jsonl"))

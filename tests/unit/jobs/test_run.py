"""Runs: tasks, checkpoints, logs and the end; damaged files are done again. Kills are in test_killed_jobs.py."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from gaifman.errors import InputError, OutputError
from gaifman.io.model_file import write_model
from gaifman.jobs.run import Run, read_log
from kbs import HOSTILE

ONE = {"x": np.arange(3)}


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    with Run.create(tmp_path / "run", {"seed": 1}, checkpoint_seconds=0) as created:
        yield created


def reopened(run: Run) -> Run:
    """The run as another process would find it."""
    run.close()
    return Run.open(run.folder)


def test_what_is_kept_comes_back_under_any_name(run: Run) -> None:
    names = [*HOSTILE, "", "\ud800", "\0", ".."]
    for number, name in enumerate(names):
        run.save_task(name, {"x": np.array([number])}, {"number": number})
    assert run.finished_tasks() == set(names)
    with reopened(run) as again:
        assert again.finished_tasks() == set(names)
        for number, name in enumerate(names):
            arrays, meta = again.load_task(name)
            assert (arrays["x"][0], meta) == (number, {"number": number})


def test_what_is_not_done_cannot_be_taken(run: Run) -> None:
    run.save_task("parent", ONE, {})
    with pytest.raises(InputError, match="the task parnt is not done") as caught:
        run.load_task("parnt")
    assert caught.value.suggestions == ("parent",)


def test_settings_come_back_as_json_has_them(tmp_path: Path) -> None:
    settings = {"sizes": (1, 2), "rate": np.float64(0.5), "none": None, "é": {"b": [True]}}
    with Run.create(tmp_path / "run", settings) as run:
        first = run.settings
    with Run.open(tmp_path / "run") as run:
        assert run.settings == first == {"sizes": [1, 2], "rate": 0.5, "none": None, "é": {"b": [True]}}


def test_a_flipped_bit_anywhere_in_a_part_makes_it_not_done(run: Run) -> None:
    run.save_task("a", ONE, {})
    run.save_task("b", ONE, {})
    run.close()
    path = next(path for path in (run.folder / "done").iterdir() if b'\\"name\\":\\"a\\"' in path.read_bytes())
    data = path.read_bytes()
    for place in range(0, len(data), 7):
        path.write_bytes(data[:place] + bytes([data[place] ^ 4]) + data[place + 1 :])
        with Run.open(run.folder) as again:
            assert again.finished_tasks() == {"b"}
            with pytest.raises(InputError):
                again.load_task("a")
    events = read_log(run.folder / "log.jsonl")
    assert {event["event"] for event in events} == {"damaged"}
    assert events[0]["file"] == f"done/{path.name}"
    with Run.open(run.folder) as again:
        again.save_task("a", ONE, {})
        assert again.finished_tasks() == {"a", "b"}


def test_a_part_under_anothers_name_is_not_done(run: Run) -> None:
    run.save_task("a", ONE, {})
    run.save_task("b", ONE, {})
    one, other = sorted((run.folder / "done").iterdir())
    one.write_bytes(other.read_bytes())
    with reopened(run) as again:
        assert len(again.finished_tasks()) == 1
        again.log("still here")
    write_model(one, {}, {"other": 1})
    with Run.open(run.folder) as again:
        assert len(again.finished_tasks()) == 1


def test_a_checkpoint_lasts_until_the_task_is_done(run: Run) -> None:
    assert run.load_checkpoint("a") is None
    for at in (1, 2):
        assert run.checkpoint("a", {"x": np.array([at])}, {"at": at})
    with reopened(run) as again:
        found = again.load_checkpoint("a")
        assert found
        assert (found[0]["x"].tolist(), found[1]) == ([2], {"at": 2})
        assert again.finished_tasks() == set()
        again.save_task("a", ONE, {})
        assert again.load_checkpoint("a") is None
        assert list((run.folder / "checkpoints").iterdir()) == []


def test_a_damaged_checkpoint_is_as_none(run: Run) -> None:
    run.checkpoint("a", ONE, {})
    path = next((run.folder / "checkpoints").iterdir())
    path.write_bytes(path.read_bytes()[:-1])
    assert run.load_checkpoint("a") is None
    event = read_log(run.folder / "log.jsonl")[-1]
    assert (event["event"], event["task"]) == ("damaged", "a")
    assert "cut off" in event["reason"]


def test_checkpoints_wait_until_they_are_due(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("gaifman.jobs.run.time.monotonic", lambda: now[0])
    with Run.create(tmp_path / "run", {}) as run:
        assert not run.checkpoint_due("a")
        assert not run.checkpoint("a", ONE, {})
        now[0] += 29.9
        assert not run.checkpoint_due("a")
        assert not run.checkpoint_due("b")
        now[0] += 0.1
        assert run.checkpoint_due("a")
        assert not run.checkpoint_due("b"), "each task has its own clock"
        assert run.checkpoint("a", ONE, {})
        assert not run.checkpoint("a", ONE, {})
        assert run.checkpoint("a", ONE, {}, force=True)
        now[0] += 30
        assert run.checkpoint_due("b")
        run.save_task("a", ONE, {})
        assert not run.checkpoint_due("a"), "a task that is begun again begins its clock again"


def test_threads_may_keep_and_log_at_once(run: Run) -> None:
    def some(thread: int) -> None:
        for number in range(20):
            run.checkpoint(f"{thread} {number}", ONE, {})
            run.save_task(f"{thread} {number}", ONE, {})
            run.log("kept", thread=thread, number=number, text="x" * 2000)

    threads = [threading.Thread(target=some, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(run.finished_tasks()) == 80
    assert len(read_log(run.folder / "log.jsonl")) == 80
    with reopened(run) as again:
        assert len(again.finished_tasks()) == 80


def test_a_torn_line_is_left_out_and_the_next_is_whole(run: Run) -> None:
    run.log("one", loss=float("nan"), names={"b"}, array=np.array([1, 2]), path=Path("x"), big=10**30)
    run.log("two", name="\ud800é\n", **{"with space": np.float32(0.5)})
    path = run.folder / "log.jsonl"
    data = path.read_bytes()
    for length in range(len(data) + 1):
        path.write_bytes(data[:length])
        reopened(run).close()
        with Run.open(run.folder) as again:
            again.log("three")
        events = read_log(path)
        ends = [data.index(b"\n") + 1, len(data)]
        assert [e["event"] for e in events] == [
            *(name for name, end in zip(("one", "two"), ends, strict=True) if end <= length + 1),
            "three",
        ]
    assert events[0]["loss"] == "nan"
    assert events[0]["array"] == [1, 2]
    assert events[1]["name"] == "\ud800é\n"
    assert events[1]["time"] >= events[0]["time"]


def test_a_log_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot read"):
        read_log(tmp_path / "none")
    (tmp_path / "log").write_bytes(b'[1]\n\xff\xfe\n{"event": "x"}\n\n{"ev')
    assert read_log(tmp_path / "log") == [{"event": "x"}]


def result(path: Path) -> None:
    path.write_text("result")


def finished(run: Run, target: Path) -> None:
    run.finish(target, result)


def test_the_end_replaces_the_result_and_the_log_of_an_earlier_run(run: Run, tmp_path: Path) -> None:
    target = tmp_path / "model"
    target.write_text("old")
    target.chmod(0o640)
    (tmp_path / "model.log.jsonl").write_text('{"event": "old"}\n')
    run.log("new")
    finished(run, target)
    assert target.read_text() == "result"
    assert target.stat().st_mode & 0o777 == 0o640
    assert [event["event"] for event in read_log(tmp_path / "model.log.jsonl")] == ["new"]
    assert not run.folder.exists()
    with pytest.raises(InputError, match="there is no run"):
        Run.open(run.folder)


def test_a_failed_end_can_be_tried_again(run: Run, tmp_path: Path) -> None:
    run.save_task("a", ONE, {})

    def fail(path: Path) -> None:
        path.write_text("half")
        raise OutputError("the disk is full")

    with pytest.raises(OutputError, match="full"):
        run.finish(tmp_path / "model", fail)
    with pytest.raises(OutputError, match="no folder"):
        finished(run, tmp_path / "nowhere" / "model")
    assert not (tmp_path / "model").exists()
    with reopened(run) as again:
        assert again.finished_tasks() == {"a"}
        finished(again, tmp_path / "model")
    assert (tmp_path / "model").read_text() == "result"
    assert not run.folder.exists()


def test_a_run_tells_whether_there_is_a_checkpoint_and_whether_it_was_begun_before(tmp_path: Path) -> None:
    with Run.create(tmp_path / "run", {}) as run:
        assert not run.was_resumed
        assert not run.has_checkpoints()
        run.checkpoint("parent", ONE, {}, force=True)
        assert run.has_checkpoints()
        run.save_task("parent", ONE, {})
        assert not run.has_checkpoints()
    with Run.open(tmp_path / "run") as run:
        assert run.was_resumed
    with Run.create(tmp_path / "run", {}, force=True) as run:
        assert run.was_resumed, "the process before it may have been killed"

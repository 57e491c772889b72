"""The folder of a run: its record, its lock, what may be removed; and signals."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO, Any

import numpy as np
import pytest

from gaifman.errors import InputError, OutputError
from gaifman.io.files import atomic_write, leftover_files
from gaifman.jobs import run as runfolder
from gaifman.jobs.run import InterruptHandler, Run, read_log
from processes import child

ONE = {"x": np.arange(3)}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run that nobody works on, with one task done."""
    with Run.create(tmp_path / "run", {"seed": 1}) as run:
        run.save_task("a", ONE, {})
    return tmp_path / "run"


def result(path: Path) -> None:
    path.write_text("result")


def test_a_run_is_not_begun_over_another(folder: Path) -> None:
    with pytest.raises(OutputError, match="already has a run") as caught:
        Run.create(folder, {"seed": 2})
    assert "gaifman resume" in caught.value.hint
    assert "--force" in caught.value.hint
    with Run.open(folder) as run:
        assert (run.settings, run.finished_tasks()) == ({"seed": 1}, {"a"})
    with Run.create(folder, {"seed": 2}, force=True) as run:
        assert (run.settings, run.finished_tasks()) == ({"seed": 2}, set())


def test_a_folder_with_other_things_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("precious")
    for force in (False, True):
        with pytest.raises(OutputError, match=r"files that are not a run's, such as thesis\.tex"):
            Run.create(tmp_path, {}, force=force)
    assert [entry.name for entry in tmp_path.iterdir()] == ["thesis.tex"]


def test_what_was_put_into_the_folder_later_survives_the_end(folder: Path, tmp_path: Path) -> None:
    (folder / "mine.txt").write_text("precious")
    with Run.open(folder) as run:
        run.finish(tmp_path / "model", result)
    assert [entry.name for entry in folder.iterdir()] == ["mine.txt"]


def test_folders_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for wrong in ("file", "no/where", "file/below", "a\0b"):
        with pytest.raises(OutputError, match="as a run folder"):
            Run.create(tmp_path / wrong, {})
    for wrong in ("file", "nowhere", "file/below"):
        with pytest.raises(InputError, match="there is no run"):
            Run.open(tmp_path / wrong)
    with pytest.raises(OutputError):
        Run.create(tmp_path / "run", {"bad": float("nan")})
    assert not (tmp_path / "run").exists()


def test_every_changed_byte_of_the_record_is_refused_or_means_the_same(folder: Path) -> None:
    """Spaces may change; nothing else may."""
    path = folder / "run.json"
    data = path.read_bytes()
    before = runfolder.read_record(folder)
    refused = 0
    for place, original in enumerate(data):
        for value in {original ^ 1, original ^ 32, 0, 48, 57, 32, 255} - {original}:
            path.write_bytes(data[:place] + bytes([value]) + data[place + 1 :])
            try:
                assert runfolder.read_record(folder) == before
            except InputError:
                refused += 1
    assert refused > 4 * len(data)
    for length in range(len(data) - 1):
        path.write_bytes(data[:length])
        with pytest.raises(InputError, match="damaged"):
            Run.open(folder)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"version": 4}, "written by a newer version"),
        ({"format": "x"}, "not the record of a run"),
        ({"settings": {"seed": 2}}, "checksum"),
        ({"settings": float("nan")}, "checksum"),
        ({"checksum": None}, "checksum"),
        ({"more": 1}, "checksum"),
    ],
)
def test_records_of_others(folder: Path, changes: dict[str, Any], message: str) -> None:
    path = folder / "run.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    with pytest.raises(InputError, match=message):
        Run.open(folder)
    with Run.create(folder, {}, force=True) as run:
        assert run.finished_tasks() == set()


def test_another_version_does_not_go_on(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gaifman.jobs.run.__version__", "99.0")
    with pytest.raises(InputError, match=r"was started with gaifman 0\.1\.0, this is 99\.0"):
        Run.open(folder)
    monkeypatch.undo()
    Run.open(folder).close()


def test_two_processes_do_not_work_on_one_run(folder: Path) -> None:
    code = f"""
import sys
from gaifman.jobs.run import Run
with Run.open({str(folder)!r}):
    print("ready", flush=True)
    sys.stdin.read()
"""
    with child([sys.executable, "-c", code], stdin=subprocess.PIPE) as other:
        assert other.stdout
        assert other.stdout.readline() == "ready\n"
        with pytest.raises(OutputError, match=f"process {other.pid} works on the run") as caught:
            Run.open(folder)
        assert "resume" in caught.value.hint
        with pytest.raises(OutputError, match=f"process {other.pid} works on the run"):
            Run.create(folder, {}, force=True)
    with Run.open(folder) as run:
        assert run.finished_tasks() == {"a"}
        with pytest.raises(OutputError, match=f"process {os.getpid()} works"):
            Run.open(folder)


def test_a_failed_beginning_does_not_hold_the_lock(folder: Path) -> None:
    with pytest.raises(OutputError, match="already"):
        Run.create(folder, {})
    record = (folder / "run.json").read_bytes()
    (folder / "run.json").write_bytes(b"{}")
    with pytest.raises(InputError):
        Run.open(folder)
    (folder / "run.json").write_bytes(record)
    Run.open(folder).close()


@pytest.mark.parametrize("recreated", [False, True])
def test_a_lock_removed_meanwhile_is_not_taken_for_the_new_one(
    folder: Path, monkeypatch: pytest.MonkeyPatch, recreated: bool
) -> None:
    """Between our opening and our locking, the other run ended, and perhaps a third process started one."""
    real, others = fcntl.flock, list[IO[str]]()

    def late(lock: int, how: int) -> None:
        monkeypatch.undo()
        (folder / "lock").unlink()
        if recreated:
            others.append((folder / "lock").open("w"))
            real(others[0].fileno(), fcntl.LOCK_EX)
        real(lock, how)

    monkeypatch.setattr("fcntl.flock", late)
    if recreated:
        with pytest.raises(OutputError, match="another process works on the run"):
            Run.open(folder)
        others[0].close()
    with Run.open(folder) as run, pytest.raises(OutputError, match=f"process {os.getpid()} works on the run"):
        Run.open(run.folder)


def test_what_a_kill_left_half_written_is_swept_away(folder: Path) -> None:
    for name in (".run.json.0123abcd.part", "done/.x.part.0123abcd.part"):
        (folder / name).write_bytes(b"half")
    with Run.open(folder) as run:
        assert run.finished_tasks() == {"a"}
    assert list(folder.rglob(".*")) == []
    assert not (folder / "log.jsonl").exists(), "nothing was damaged"


def test_files_left_beside_the_result_are_found_and_no_others(folder: Path, tmp_path: Path) -> None:
    target = tmp_path / "model [1].gaifman"
    with atomic_write(target) as temporary:
        left = temporary.with_name(temporary.name)
        assert leftover_files(target) == [left]
    others = [".model 1.gaifman.01234567.part", ".model [1].gaifman.part", "model [1].gaifman.01234567.part"]
    for name in (*others, ".model [1].gaifman.01234567.part"):
        (tmp_path / name).write_text("")
    with Run.open(folder) as run:
        run.finish(target, result)
    assert {entry.name for entry in tmp_path.iterdir()} == {*others, target.name}


def almost_ended(folder: Path, target: Path) -> None:
    """As if killed when the result was written and its parts were being removed."""
    target.write_text("result")
    record = {"target": str(target), "done": ["a", "b"]}
    runfolder.write_record(folder, {"seed": 1}, record)
    runfolder.remove_entries(folder, ("done",))


def never(path: Path) -> None:
    raise AssertionError(f"{path} is written once more")


def test_a_run_killed_after_its_result_has_all_tasks_done_and_only_cleans_up(folder: Path, tmp_path: Path) -> None:
    target = tmp_path / "model"
    almost_ended(folder, target)
    (tmp_path / "model.log.jsonl").write_text('{"event": "before"}\n')
    with Run.open(folder) as run:
        assert run.result_path == target
        assert run.finished_tasks() == {"a", "b"}
        run.log("after")
        run.finish(target, never)
    assert [event["event"] for event in read_log(tmp_path / "model.log.jsonl")] == ["before", "after"]
    assert (target.read_text(), folder.exists()) == ("result", False)


def test_it_can_then_still_be_given_another_place(folder: Path, tmp_path: Path) -> None:
    almost_ended(folder, tmp_path / "model")
    with Run.open(folder) as run:
        run.finish(tmp_path / "elsewhere", never)
    assert (tmp_path / "elsewhere").read_text() == "result"


def test_where_the_result_is_gone_the_tasks_are_as_they_are(folder: Path, tmp_path: Path) -> None:
    almost_ended(folder, tmp_path / "model")
    (tmp_path / "model").unlink()
    with Run.open(folder) as run:
        assert run.result_path is None
        assert run.finished_tasks() == set()
        run.log("again")
    assert [event["event"] for event in read_log(folder / "log.jsonl")] == ["again"]


def test_the_first_signal_asks_and_the_second_stops() -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with InterruptHandler() as interrupt:
        assert not interrupt.stop_requested()
        os.kill(os.getpid(), signal.SIGTERM)
        assert interrupt.stop_requested()
        assert interrupt.received == signal.SIGTERM
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


def test_handlers_are_restored_also_after_an_error_and_what_is_ignored_stays_so() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with InterruptHandler() as interrupt:
            os.kill(os.getpid(), signal.SIGINT)
            assert not interrupt.stop_requested()
        with pytest.raises(ZeroDivisionError), InterruptHandler():
            _ = 1 / 0
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_the_note_is_printed_at_once(capfd: pytest.CaptureFixture[str]) -> None:
    with InterruptHandler("stopping after this block") as interrupt:
        os.kill(os.getpid(), signal.SIGINT)
        assert interrupt.stop_requested()
    assert capfd.readouterr().err == "\nstopping after this block\n"


def test_in_another_thread_nothing_is_handled() -> None:
    seen: list[object] = []

    def work() -> None:
        with InterruptHandler() as interrupt:
            seen.extend([interrupt.stop_requested(), signal.getsignal(signal.SIGINT)])

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [False, signal.getsignal(signal.SIGINT)]

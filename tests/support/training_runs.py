"""Trainings in their own process, killed at a given point.

    python tests/support/training_runs.py KILL_AT FOLDER train small.facts -o FOLDER/m.gaifman

is `gaifman train …`, killed before its KILL_AT-th change of a file below FOLDER; 0 for never, 2:log for the second
change of a file that has `log` in its path.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

from background_job import kill_at
from gaifman.jobs.run import LOG, RECORD, read_log
from processes import child, cpu_seconds, run, wait_until

QUICK = ("--min-examples", "1500", "--option", "epochs=2", "--size", "5", "--option", "hidden=[20]")
"""Options of a short training."""
QUERY = "exists z. knows(x, z) & likes(z, y)"


def small(path: Path, people: int = 24, seed: int = 1) -> Path:
    """A knowledge base of relations of arity 1, 2 and 3; of one of them every tuple is known."""
    draw, names = random.Random(seed), [f"p{i}" for i in range(people)]
    lines = {f"person({name})." for name in names}
    for name in names:
        for relation, count in (("knows", 4), ("likes", 3), ("parent", 2)):
            lines |= {f"{relation}({name}, {other})." for other in draw.sample(names, count)}
        lines.add(f"gives({name}, {', '.join(draw.sample(names, 2))}).")
    path.write_text("\n".join(sorted(lines)) + "\n")
    return path


def command(*words: str, kill: int | str = 0, folder: Path | None = None) -> list[str]:
    return [sys.executable, __file__, str(kill), str(folder or "/nowhere"), *words]


def gaifman(
    *words: str, folder: Path | None = None, kill: int | str = 0, code: int | None = 0
) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder to its end; it never prints a traceback."""
    words_given = command(*words, kill=kill, folder=folder)
    environment = {**os.environ, "COLUMNS": "100"}
    done = run(words_given, cwd=folder, env=environment)
    assert "Traceback" not in done.stderr, done.stderr
    assert code is None or done.returncode == code, (done.returncode, done.stdout, done.stderr)
    return done


class Victim:
    """A training in a folder that is started, killed and resumed until its model is written."""

    def __init__(self, folder: Path, kb: str, *words: str) -> None:
        self.folder, self.model, self.kills = folder, folder / "m.gaifman", 0
        self._train = ("train", kb, *words, "-o", str(self.model), *QUICK, "--checkpoint-interval", "0")

    @property
    def running(self) -> Path:
        """The folder of the run."""
        return self.folder / "m.gaifman.run"

    def next(self, threads: int) -> tuple[str, ...]:
        """The command that starts or resumes it."""
        begun = (self.running / RECORD).exists()
        return (*(("resume", str(self.model)) if begun else self._train), "--threads", str(threads))

    def done(self) -> bool:
        return self.model.exists() and not (self.running / RECORD).exists()

    def kill_after(self, seconds: float, threads: int) -> None:
        """Kill it when it has used `seconds` of processor time since its first log entry; below 0, since its start."""
        before = self._log_size()
        with child(command(*self.next(threads)), cwd=self.folder, stdout=subprocess.DEVNULL) as process:
            wait_until(lambda: seconds < 0 or process.poll() is not None or self._log_size() != before)
            limit = abs(seconds) + (cpu_seconds(process.pid) if seconds >= 0 else 0)
            wait_until(lambda: process.poll() is not None or cpu_seconds(process.pid) > limit)
            process.kill()
            said = process.communicate()[1]
        self._ended(said, process.returncode)

    def _log_size(self) -> int:
        try:
            return (self.running / LOG).stat().st_size
        except FileNotFoundError:
            return 0

    def kill_by_change(self, count: int | str, threads: int) -> None:
        """Kill it before its `count`-th change of a file, or of those that are named: `1:.md`."""
        killed = gaifman(*self.next(threads), folder=self.folder, kill=count, code=None)
        self._ended(killed.stderr, killed.returncode)

    def _ended(self, said: str, code: int) -> None:
        assert code in (0, -9), said
        assert "Traceback" not in said
        self.kills += code == -9

    def finish(self, threads: int = 1) -> bytes:
        """Run it to the end and return the model's bytes; only the model, its card and its log are left."""
        if not self.done():
            gaifman(*self.next(threads), folder=self.folder)
        left = sorted(entry.name for entry in self.folder.iterdir() if entry.suffix != ".facts")
        if self.running.is_dir():  # killed between its last two removals
            assert not any(self.running.iterdir())
            left.remove(self.running.name)
        assert left == ["m.gaifman", "m.gaifman.log.jsonl", "m.gaifman.md"]
        events = [event["event"] for event in read_log(self.folder / "m.gaifman.log.jsonl")]
        assert events[0] == "start"
        assert events[-1] == "end"
        return self.model.read_bytes()


if __name__ == "__main__":
    from gaifman.cli import main

    (count, _, named), inside = sys.argv[1].partition(":"), sys.argv[2]
    sys.argv[1:3] = []
    if int(count):
        kill_at(int(count), inside, named)
    main()

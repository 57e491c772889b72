"""A long job for the tests of runs: tasks on threads, each a chain of hashes.

    python background_job.py FOLDER TARGET [--threads 2] [--kill-at 17] [--steps 300] [--pause 0.0] [--hold]

It resumes an earlier run, prints `ready` when it starts to work, and exits with 0 when the result is written, or with 3
when it was interrupted. `--kill-at` kills it before its 17th change of the file system. With `--hold` it
waits after its first blocks until it is interrupted.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from gaifman.io.model_file import write_model
from gaifman.jobs.run import InterruptHandler, Run

TASKS = ("parent", "a/b", "../up", "tab\there", "漢字 ∃", "n" * 300, 'it\'s "quoted"')
SETTINGS = {"seed": 7, "tasks": list(TASKS)}
BLOCK = 25


def links(name: str, steps: int) -> bytes:
    """The result of a task, by definition."""
    state = f"{SETTINGS['seed']} {name}".encode()
    for _ in range(steps):
        state = hashlib.blake2b(state, digest_size=32).digest()
    return state


def work(run: Run, name: str, steps: int, pause: float, hold: bool, interrupt: InterruptHandler) -> None:
    """Run one task in blocks, from its checkpoint or from the start."""
    at, state = 0, f"{SETTINGS['seed']} {name}".encode()
    if found := run.load_checkpoint(name):
        at, state = found[1]["at"], found[0]["state"].tobytes()
        run.log("resumed", task=name, at=at)
    while at < steps:
        for _ in range(min(BLOCK, steps - at)):
            state, at = hashlib.blake2b(state, digest_size=32).digest(), at + 1
        stop = interrupt.stop_requested()
        run.checkpoint(name, {"state": np.frombuffer(state, np.uint8)}, {"at": at}, force=stop)
        if stop:
            return
        while hold and not interrupt.stop_requested():
            time.sleep(0.01)
        time.sleep(pause)
    run.save_task(name, {"state": np.frombuffer(state, np.uint8)}, {"steps": steps})
    run.log("done", task=name)


def job(folder: Path, target: Path, threads: int, steps: int, pause: float = 0, hold: bool = False) -> int:
    """Start or resume, and run to the end."""
    begun = (folder / "run.json").exists()
    if target.exists() and not begun:
        return 0
    with (
        Run.open(folder, checkpoint_seconds=0) if begun else Run.create(folder, SETTINGS, checkpoint_seconds=0) as run,
        InterruptHandler() as stop,
    ):
        print("ready", flush=True)
        names = [name for name in run.settings["tasks"] if name not in run.finished_tasks()]
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(lambda name: work(run, name, steps, pause, hold, stop), names))
        if stop.stop_requested():
            run.log("interrupted", signal=stop.received)
            return 3
        run.finish(target, lambda path: assemble(run, path))
        return 0


def assemble(run: Run, path: Path) -> None:
    """Write the results of all tasks."""
    parts = {name: run.load_task(name) for name in run.settings["tasks"]}
    arrays = {f"state {number}": parts[name][0]["state"] for number, name in enumerate(parts)}
    write_model(path, arrays, {name: meta for name, (_, meta) in parts.items()})


def kill_at(count: int, inside: str, named: str = "") -> None:
    """Kill this process before its `count`-th change of the file system below a folder, by an audit hook.

    With `named`, only files whose path below the folder contains this text count.
    """
    changes = {"open", "os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.truncate", "shutil.move", "os.chmod"}
    seen, guard = [0], threading.Lock()

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        reads = event == "open" and not arguments[2] & (os.O_WRONLY | os.O_RDWR)
        path = str(arguments[0]) if event in changes and not reads else ""
        if path.startswith(inside) and named in path[len(inside) :]:
            with guard:
                seen[0] += 1
                if seen[0] == count:
                    os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--pause", type=float, default=0.0)
    parser.add_argument("--hold", action="store_true")
    parser.add_argument("--kill-at", type=int, default=0)
    options = parser.parse_args()
    kill_at(options.kill_at, str(options.target.parent))
    return job(options.folder, options.target, options.threads, options.steps, options.pause, options.hold)


if __name__ == "__main__":
    sys.exit(main())

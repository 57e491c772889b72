"""No child process survives a test, whatever happens to it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import processes
from processes import child, children, describe, run, wait_until

PARENT = """
import sys
sys.path.insert(0, {support!r})
from processes import child
with child(["sleep", "1000"]) as process:
    print(process.pid, flush=True)
    process.wait()
"""


def first_pid(process: subprocess.Popen[str]) -> int:
    """The id that a child prints."""
    assert process.stdout
    return int(process.stdout.readline())


def test_a_failed_test_leaves_no_child_and_no_grandchild() -> None:
    def fail() -> None:
        with child(["bash", "-c", "sleep 1000 & echo $!; wait"]) as process:
            started.append(first_pid(process))
            raise RuntimeError

    started: list[int] = []
    before = children()
    with pytest.raises(RuntimeError):
        fail()
    wait_until(lambda: not describe(started[0]))
    assert children() <= before


def test_a_child_dies_when_the_test_process_is_killed() -> None:
    code = PARENT.format(support=str(Path(processes.__file__).parent))
    with child([sys.executable, "-c", code]) as parent:
        started = first_pid(parent)
        wait_until(lambda: describe(started).startswith("sleep"))
        parent.kill()
        wait_until(lambda: not describe(started))


def test_a_child_that_takes_too_long_is_killed() -> None:
    before = children()
    with pytest.raises(subprocess.TimeoutExpired):
        run(["sleep", "1000"], timeout=0.2)
    assert children() <= before


def test_what_a_child_prints_and_how_it_ends() -> None:
    done = run([sys.executable, "-c", "import sys; print(input()); sys.exit('wrong')"], input="text\n")
    assert (done.returncode, done.stdout, done.stderr) == (1, "text\n", "wrong\n")
    with pytest.raises(AssertionError, match="exit code 1"):
        run(["false"], check=True)

"""Child processes of the tests, and waiting without a clock.

Tests wait for a condition, never for a time. A child gets its own process group, which is killed when the test leaves
the `with` block, also after a failure or a timeout. On Linux a child also dies when the test process is killed.
"""

from __future__ import annotations

import ctypes
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

PATIENCE = 240.0
"""Seconds: far longer than anything takes on a busy machine. Only a test that fails waits this long."""

PR_SET_PDEATHSIG = 1
"""Linux: the signal that a process gets when its parent ends."""
_Result = TypeVar("_Result")


def wait_until(condition: Callable[[], _Result], timeout: float = PATIENCE, message: str = "") -> _Result:
    """Call `condition` until it returns something true, and return that."""
    end = time.monotonic() + timeout
    while not (result := condition()):
        assert time.monotonic() < end, message or f"still false after {timeout:g} s: {condition}"
        time.sleep(0.01)
    return result


def python(*words: str) -> list[str]:
    """The words that start the tests' Python: `python("-m", "gaifman", "check", "demo")`."""
    return [sys.executable, *words]


@contextmanager
def child(
    words: Sequence[str | os.PathLike[str]],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: Any = subprocess.DEVNULL,
    stdout: Any = subprocess.PIPE,
    stderr: Any = subprocess.PIPE,
) -> Iterator[subprocess.Popen[str]]:
    """Start a process with text pipes; kill it and all that it started on leaving.

    Call it from the test's own thread: Linux takes the end of the thread for the end of the parent.
    """
    process = subprocess.Popen(
        _dying_with_us(words), cwd=cwd, env=env, stdin=stdin, stdout=stdout, stderr=stderr, text=True, process_group=0
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()


def run(
    words: Sequence[str | os.PathLike[str]],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    input: str | None = None,  # noqa: A002 - the name that subprocess.run has for it
    timeout: float = PATIENCE,
    check: bool = False,
) -> subprocess.CompletedProcess[str]:
    """Run a process to its end and return what it printed: `subprocess.run` for tests."""
    given = subprocess.DEVNULL if input is None else subprocess.PIPE
    with child(words, cwd=cwd, env=env, stdin=given) as process:
        stdout, stderr = process.communicate(input, timeout=timeout)
    done = subprocess.CompletedProcess(words, process.returncode, stdout, stderr)
    assert not check or done.returncode == 0, f"exit code {done.returncode}\n{stdout}\n{stderr}"
    return done


def cpu_seconds(pid: int) -> float:
    """The processor time that a process has used; infinity if it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return math.inf
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def cpu_limit(seconds: float) -> Iterator[None]:
    """Fail if the block uses more processor time, which a busy machine does not change much."""
    begin = time.process_time()
    yield
    used = time.process_time() - begin
    assert used < seconds, f"{used:.1f} s of processor time, limit {seconds:g} s"


def children() -> set[int]:
    """The children of this process, as Linux lists them; none on other systems."""
    found: set[int] = set()
    for path in Path("/proc/self/task").glob("*/children"):
        with suppress(OSError):
            found.update(map(int, path.read_text().split()))
    return found


def describe(pid: int) -> str:
    """The command line of a process; "" if it has ended."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ").strip()
    return ""


def _dying_with_us(words: Sequence[str | os.PathLike[str]]) -> list[str]:
    """The same command, started through this file, which asks Linux to kill it with its parent."""
    given = [os.fspath(word) for word in words]
    return [sys.executable, "-S", "-E", __file__, str(os.getpid()), *given] if sys.platform == "linux" else given


def _main(parent: str, *words: str) -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() == int(parent):
        os.execvp(words[0], words)


if __name__ == "__main__":
    _main(*sys.argv[1:])

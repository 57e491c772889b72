"""The command `gaifman`, in the process of the tests; and in a process of its own, for signals and terminals."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from subprocess import CompletedProcess, Popen
from typing import Any
from unittest.mock import patch

import pytest
from click.testing import CliRunner

from gaifman.cli import cli, main
from gaifman.errors import GaifmanError
from processes import PATIENCE, child, wait_until


def run(*words: str, folder: Path | None = None, columns: int = 100) -> CompletedProcess[str]:
    """Run the command as a shell does, but without a process: exit code, standard output and standard error."""
    stdout, stderr = io.StringIO(), io.StringIO()
    with (
        patch.object(sys, "argv", ["gaifman", *words]),
        patch.dict(os.environ, {"COLUMNS": str(columns)}),
        chdir(folder or Path.cwd()),
        redirect_stdout(stdout),
        redirect_stderr(stderr),
        pytest.raises(SystemExit) as caught,
    ):
        main()
    code = caught.value.code
    return CompletedProcess(
        words, code if isinstance(code, int) else int(bool(code)), stdout.getvalue(), stderr.getvalue()
    )


def here(*words: str, columns: int = 80) -> CompletedProcess[str]:
    """Run a command that succeeds."""
    done = run(*words, columns=columns)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def output(*words: str) -> str:
    """The standard output of a command that succeeds."""
    return here(*words).stdout


def json_output(*words: str) -> Any:
    """The JSON object that a command prints."""
    return json.loads(output(*words, "--json"))


def refused(*words: str) -> GaifmanError:
    """The error of a command with bad input."""
    with pytest.raises(GaifmanError) as caught:
        CliRunner().invoke(cli, words, catch_exceptions=False)
    return caught.value


def one_message(done: CompletedProcess[str], words: str) -> None:
    """Check that a command refused its input with one message and printed nothing else."""
    assert done.returncode == 1, done.stderr
    assert words in done.stderr
    assert done.stderr.startswith("error: ")
    assert done.stdout == ""


@contextmanager
def training_process(words: Sequence[str], folder: Path, log: Path) -> Iterator[Popen[str]]:
    """Start a command in a process and wait until its log has an epoch; the process is killed at the end."""
    with child(words, cwd=folder) as process:
        wait_until(lambda: process.poll() is not None or (log.exists() and '"epoch"' in log.read_text()))
        assert process.poll() is None, process.communicate()
        yield process


def stop(process: Popen[str], number: int) -> tuple[int, str]:
    """Send a signal, and return the exit code and standard error."""
    process.send_signal(number)
    _, stderr = process.communicate(timeout=PATIENCE)
    assert "Traceback" not in stderr
    return process.returncode, stderr


def on_terminal(words: Sequence[str], folder: Path, *, output: Path | None = None, columns: int = 100) -> str:
    """Run a process with a terminal as standard error, and return what it shows, without escape sequences."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": str(columns)}
    shown = b""
    with (
        (output or folder / "stdout.txt").open("w") as file,
        child(words, cwd=folder, env=environment, stdout=file, stderr=theirs) as process,
    ):
        os.close(theirs)
        with suppress(OSError):  # Linux raises it when the other side is closed
            while chunk := os.read(ours, 65536):
                shown += chunk
        code = process.wait(PATIENCE)
    os.close(ours)
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.decode(errors="replace"))
    assert code == 0, text
    return text

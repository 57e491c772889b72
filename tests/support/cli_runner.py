"""The command `gaifman`, run in the process of the tests."""

from __future__ import annotations

import io
import json
import os
import sys
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any
from unittest.mock import patch

import pytest
from click.testing import CliRunner

from gaifman.cli import cli, main
from gaifman.errors import GaifmanError


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

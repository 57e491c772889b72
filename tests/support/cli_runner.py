"""The command, run in the process of the tests, and what it says to bad input in one of its own."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest
from click.testing import CliRunner

from gaifman.cli import cli
from gaifman.errors import GaifmanError


def here(*words: str, columns: int = 80) -> Any:
    """What the command prints where all is well."""
    result = CliRunner().invoke(cli, words, catch_exceptions=False, env={"COLUMNS": str(columns)})
    assert result.exit_code == 0, result.output
    return result


def refused(*words: str) -> GaifmanError:
    """What the command says to bad input."""
    with pytest.raises(GaifmanError) as caught:
        CliRunner().invoke(cli, words, catch_exceptions=False)
    return caught.value


def one_message(done: subprocess.CompletedProcess[str], words: str) -> None:
    """That a command that was run refused its input as it should: one message, nothing printed, no traceback."""
    assert done.returncode == 1
    assert words in done.stderr
    assert done.stderr.startswith("error: ")
    assert "Traceback" not in done.stderr
    assert not done.stdout

"""The command, run in the process of the tests."""

from __future__ import annotations

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

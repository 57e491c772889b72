"""What a shell completes: files, and names of relations."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

FILE_WORDS = ("FILE", "FOLDER", "MODEL", "KB", "IN", "OUT", "DATA")
"""Words for what is a file."""
FILE_ARGUMENTS = ("kb", "model", "test", "train", "data", "source", "target", "reviewed")
MAX_KB_BYTES = 3_000_000
"""Size of a file that is read for the names of its relations: a user waits for them."""


class FileName(click.types.StringParamType):
    """A text that a shell completes as a file; several in an environment variable are separated as in `PATH`."""

    envvar_list_splitter: ClassVar[str] = os.path.pathsep

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Leave it to the shell."""
        from click.shell_completion import CompletionItem

        return [CompletionItem(incomplete, type="file")]


class RelationName(click.types.StringParamType):
    """The name of a relation of the model, or else of the knowledge base, that the command line names."""

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """The names that begin like that; none if they would take long to find."""
        from click.shell_completion import CompletionItem

        return [CompletionItem(name) for name in _relations(ctx) if name.startswith(incomplete)]


def complete_names(command: click.Command) -> None:
    """Let the shell complete the files and relations of a command."""
    for parameter in command.params:
        if type(parameter.type) is not click.types.StringParamType:
            continue
        words = set((parameter.metavar or "").replace("...", "").split("|"))
        if words.intersection(FILE_WORDS) or (isinstance(parameter, click.Argument) and _is_file(parameter)):
            parameter.type = FileName()
        elif "--relation" in parameter.opts:
            parameter.type = RelationName()


def _is_file(argument: click.Argument) -> bool:
    return argument.metavar is None and argument.name in FILE_ARGUMENTS


def _relations(ctx: click.Context) -> list[str]:
    """The relations of the first file that says what it has."""
    from gaifman.errors import GaifmanError

    given = [ctx.params.get("model"), ctx.params.get("kb"), *ctx.args]  # words before an unfinished option are in args
    for value in given:
        with suppress(GaifmanError, OSError):
            if found := _relations_of([value] if isinstance(value, str) else list(value or ())):
                return found
    return []


def _relations_of(names: Iterable[str]) -> list[str]:
    from gaifman import io
    from gaifman.io.model_file import is_model_file, read_model_state

    found: set[str] = set()
    for name in names:
        if name == "demo" and not Path(name).exists():
            found.update(io.demo().relations)
        elif is_model_file(name):
            found.update(row["name"] for row in read_model_state(name)[1].get("relations", ()))
        elif Path(name).is_file() and Path(name).stat().st_size <= MAX_KB_BYTES:
            found.update(io.read(name).relations)
    return sorted(found)

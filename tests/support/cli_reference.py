"""The command-line reference, made from `--help`. Run this file to write docs/reference/cli.md."""

from __future__ import annotations

from pathlib import Path

import click

from gaifman.cli import cli

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "cli.md"
HEAD = """# Command line

Made from `--help` by `make docs`.

Data goes to standard output, messages and progress to standard error. `--json` prints one JSON object instead of text;
errors too, with the fields of [Errors](errors.md), which also has the exit codes. `demo` is the bundled knowledge base,
unless a file has that name.
"""


def text() -> str:
    """The whole page."""
    settings = {**cli.context_settings, "terminal_width": 100}
    root = click.Context(cli, info_name="gaifman", **settings)
    parts = [HEAD, _section("gaifman", cli.get_help(root))]
    for name in sorted(cli.commands):
        command = cli.commands[name]
        context = click.Context(command, info_name=name, parent=root, **settings)
        parts.append(_section(f"gaifman {name}", command.get_help(context)))
    return "\n".join(parts)


def _section(title: str, help_text: str) -> str:
    return f"## {title}\n\n```text\n{help_text}\n```\n"


if __name__ == "__main__":
    PAGE.write_text(text())

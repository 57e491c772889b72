"""The command-line reference, made from the commands' own help: `python tests/support/cli_reference.py > docs/cli.md`."""

from __future__ import annotations

import click

from gaifman.cli import cli

HEAD = """# The command line

Made from `--help` by `make docs`; a test holds the two together.

Data goes to standard output, messages and progress to standard error. The exit code is 0, or 1 where the input is wrong
(one message, nothing written), or 2 where the command is, or 130 where it was stopped by Ctrl-C. With `--json`
every command prints one JSON object, and an error of the input is one too, with the fields `error`, `message`, `place`,
`expected`, `near` and `hint`. Wherever a file is named, `demo` stands for the bundled knowledge base, unless there is a
file of that name. Shells complete commands and options after `eval "$(_GAIFMAN_COMPLETE=bash_source gaifman)"` (or
`zsh_source`).
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
    print(text(), end="")

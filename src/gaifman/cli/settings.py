"""Settings of all commands: the file, environment variables, `--quiet` and `--verbose`; the commands init, completion.

Every command gets these options when it is added to the group, so that no command has to care.
"""

from __future__ import annotations

import functools
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import click
from click.core import ParameterSource

from gaifman.cli.console import (
    InputOptions,
    check_overwrite,
    command_text,
    input_options,
    json_option,
    print_json,
    verbosity,
)
from gaifman.cli.names import complete_names
from gaifman.cli.settings_file import FILE_NAME, SettingsFile, file_options, option_name
from gaifman.cli.settings_template import settings_text
from gaifman.errors import escape_unprintable, similar_names

PREFIX = "GAIFMAN"
RESERVED = ("GAIFMAN_DATA", "GAIFMAN_TOKEN")
"""Environment variables that are not options."""
FILE_KEY = "gaifman.settings"
"""Where the context keeps the path of the settings file that is used."""
WITHOUT_FILE = ("init", "completion")
"""Commands that work beside a settings file with a mistake."""
SHELLS = ("bash", "zsh", "fish")
SOURCES = {
    ParameterSource.COMMANDLINE: "command line",
    ParameterSource.DEFAULT: "default",
    ParameterSource.PROMPT: "prompt",
}


def add_command(group: click.Group, command: click.Command) -> None:
    """Add a command with the options that all commands have, and environment variables for all its options."""
    command.params += _common_options()
    for option in file_options(command).values():
        option.envvar = environment_variables(str(command.name), option)
    complete_names(command)
    if command.callback is not None:
        command.callback = _with_settings(command.callback)
    group.add_command(command)


def environment_variables(command: str, option: click.Option) -> list[str]:
    """The variables of an option: that of the command counts more.

    >>> environment_variables("train", click.Option(["--max-held-out"]))
    ['GAIFMAN_TRAIN_MAX_HELD_OUT', 'GAIFMAN_MAX_HELD_OUT']
    """
    name = option_name(option).replace("-", "_").upper()
    return [f"{PREFIX}_{command.upper()}_{name}", f"{PREFIX}_{name}"]


def _common_options() -> list[click.Parameter]:
    def remember(name: str) -> Callable[[click.Context, click.Parameter, bool], None]:
        def callback(ctx: click.Context, _: click.Parameter, value: bool) -> None:
            if not ctx.resilient_parsing:
                setattr(verbosity(), name, value)

        return callback

    return [
        click.Option(
            ["--config"],
            metavar="FILE",
            is_eager=True,
            expose_value=False,
            callback=_read_settings,
            envvar=f"{PREFIX}_CONFIG",
            help=f"Settings file.  [default: {FILE_NAME}, if it exists]",
        ),
        click.Option(
            ["--quiet", "-q"],
            is_flag=True,
            expose_value=False,
            callback=remember("quiet"),
            help="Print data and errors only: no progress, no notes.",
        ),
        click.Option(
            ["--verbose", "-v"],
            is_flag=True,
            expose_value=False,
            callback=remember("verbose"),
            help="Print the settings in force and the times of phases too.",
        ),
    ]


def _read_settings(ctx: click.Context, _: click.Parameter, value: str | None) -> None:
    """Take the defaults of options from the settings file."""
    if ctx.resilient_parsing or ctx.command.name in WITHOUT_FILE:
        return
    path = Path(value) if value else Path(FILE_NAME)
    if not value and not path.is_file():
        return
    group = cast(click.Group, ctx.find_root().command)
    options = SettingsFile.read(path).options(group.commands)[str(ctx.command.name)]
    ctx.default_map = options
    if options:
        ctx.meta[FILE_KEY] = str(path)


def _with_settings(callback: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(callback)
    def run(*arguments: Any, **options: Any) -> Any:
        with _settings_in_force(click.get_current_context()):
            return callback(*arguments, **options)

    return run


@contextmanager
def _settings_in_force(ctx: click.Context) -> Iterator[None]:
    """Print what a command uses, as verbose as asked for, or nothing."""
    current = verbosity()
    if current.quiet and current.verbose:
        raise click.UsageError("--quiet and --verbose cannot be given together")
    if current.quiet:
        with current.silence():
            yield
        return
    if "--json" not in sys.argv:  # a program may read the error from standard error
        _print_notes(ctx)
    if current.verbose:
        _print_settings(ctx)
    start = time.monotonic()
    try:
        yield
    finally:
        if current.verbose:
            _print_times(current.phase_seconds() | {"total": time.monotonic() - start})


def _print_notes(ctx: click.Context) -> None:
    if path := ctx.meta.get(FILE_KEY):
        click.echo(f"settings: {escape_unprintable(path)}", err=True)
    group = cast(click.Group, ctx.find_root().command)
    known = {
        name
        for command in group.commands.values()
        for parameter in command.params
        for name in ([parameter.envvar] if isinstance(parameter.envvar, str) else parameter.envvar or ())
    } | set(RESERVED)
    for name in sorted(os.environ):
        if name.startswith(f"{PREFIX}_") and name not in known and (near := similar_names(name, known, 1)):
            click.echo(f"note: {name} is not a setting; did you mean {near[0]}?", err=True)


def _print_settings(ctx: click.Context) -> None:
    """Print each option with its value and where this comes from."""
    options = [one for one in ctx.command.params if isinstance(one, click.Option) and one.name in ctx.params]
    rows = [(option_name(one), _text(ctx.params[str(one.name)]), value_source(ctx, one)) for one in options]
    widths = [max((len(row[i]) for row in rows), default=0) for i in range(2)]
    for name, value, source in rows:
        click.echo(f"{name.ljust(widths[0])}  {value.ljust(widths[1])}  {source}".rstrip(), err=True)


def _text(value: Any) -> str:
    if isinstance(value, tuple | list):
        return " ".join(map(_text, value)) or "–"
    return "–" if value is None else escape_unprintable(str(value))


def value_source(ctx: click.Context, option: click.Parameter) -> str:
    """Where the value of an option comes from."""
    source = ctx.get_parameter_source(str(option.name))
    if source is ParameterSource.ENVIRONMENT:
        return _used_variable(option)
    if source is ParameterSource.DEFAULT_MAP:
        return str(ctx.meta.get(FILE_KEY, FILE_NAME))
    return SOURCES.get(source, "default") if source else "default"


def _used_variable(option: click.Parameter) -> str:
    names = [option.envvar] if isinstance(option.envvar, str) else option.envvar or ()
    return next((name for name in names if os.environ.get(name)), "environment")


def name_source(error: click.ClickException) -> str:
    """Return the message of an error about a value, with the variable that the value comes from."""
    if not isinstance(error, click.BadParameter) or error.ctx is None or error.param is None:
        return error.message
    if error.ctx.get_parameter_source(str(error.param.name)) is not ParameterSource.ENVIRONMENT:
        return error.message
    return f"{error.message} The value is that of {_used_variable(error.param)}."


def _print_times(seconds: dict[str, float]) -> None:
    width = max(map(len, seconds))
    for phase, taken in seconds.items():
        click.echo(f"{escape_unprintable(phase).ljust(width)}  {taken:8.2f} s", err=True)


def command_line() -> str:
    """The command that runs, with the options that the settings file and the environment add.

    Without a context it is the command of the process.
    """
    words, ctx = sys.argv[1:], click.get_current_context(silent=True)
    for option in ctx.command.params if ctx else ():
        added = ctx and ctx.get_parameter_source(str(option.name)) in (
            ParameterSource.ENVIRONMENT,
            ParameterSource.DEFAULT_MAP,
        )
        if ctx and added and isinstance(option, click.Option) and option.expose_value:
            words = [*words, *_words(option, ctx.params.get(str(option.name)))]
    return command_text(words)


def _words(option: click.Option, value: Any) -> list[str]:
    """An option and its value as words of a command."""
    if option.is_flag:
        names = option.opts if value else option.secondary_opts
        return [max(names, key=len)] if names else []
    values = value if option.multiple else [value]
    texts = ["all" if each is None else str(each) for each in values or ()]
    return [word for text in texts for word in (f"--{option_name(option)}", text)]


@click.command(short_help="Write a settings file.")
@click.argument("data", nargs=-1)
@click.option("--output", "-o", default=FILE_NAME, show_default=True, metavar="FILE", help="The file to write.")
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
@input_options
@json_option
@click.pass_context
def init(
    ctx: click.Context, data: tuple[str, ...], output: str, force: bool, reading: InputOptions, as_json: bool
) -> None:
    """Write a settings file, gaifman.toml: every setting with its default, as a comment, and how DATA is read.

    \b
    Examples:
      gaifman init
      gaifman init train.tsv
      gaifman init graph.ttl --iris local

    Commands in the same folder use the file. Options on the command line and environment variables count more.
    """
    from gaifman.io.files import atomic_write

    check_overwrite(output, force=force)
    kb = reading.read(*data) if data else None
    group = cast(click.Group, ctx.find_root().command)
    text = settings_text(group.commands, data, kb)
    with atomic_write(Path(output)) as temporary:
        temporary.write_text(text, encoding="utf-8")
    if as_json:
        print_json({"written": output, "data": list(data), "notes": [str(note) for note in kb.notes] if kb else []})
    else:
        click.echo(f"wrote {output}", err=True)


@click.command(short_help="Print a script that completes commands in a shell.")
@click.argument("shell", type=click.Choice(SHELLS))
@json_option
@click.pass_context
def completion(ctx: click.Context, shell: str, as_json: bool) -> None:
    """Print a script for SHELL: bash, zsh or fish. It completes commands, options, files, and names of relations.

    \b
    Examples:
      gaifman completion bash >> ~/.bashrc
      gaifman completion zsh >> ~/.zshrc
      gaifman completion fish > ~/.config/fish/completions/gaifman.fish
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None, "click knows these shells"
    maker = kind(ctx.find_root().command, {}, "gaifman", "_GAIFMAN_COMPLETE")
    script = maker.source_template % maker.source_vars()
    if as_json:
        print_json({"shell": shell, "script": script})
    else:
        click.echo(script.strip())

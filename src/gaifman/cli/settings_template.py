"""The text of a new settings file: every setting with its help and default, as a comment."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from gaifman.cli.settings_file import GROUPS, READING, file_options, reading_options
from gaifman.errors import escape_unprintable, shorten

if TYPE_CHECKING:
    from gaifman.kb.knowledge_base import KnowledgeBase

WIDTH = 100
MAPPING = ("map", "id", "wide", "separator", "ignore")
"""Options that belong to the section `mapping`, if there are any."""
PER_COMMAND = ("json", "output", "query", "plot", "resume", "all")
"""Options that a command line gives each time."""
HEADS = {
    "data": "How the files of a knowledge base are read, by all commands.",
    "mapping": "What the columns of tables mean, for all commands that read them.",
    "training": "gaifman train and gaifman resume.",
    "serving": "gaifman serve.",
}


def settings_text(commands: Mapping[str, click.Command], data: Sequence[str], kb: KnowledgeBase | None) -> str:
    """The text of a settings file for a knowledge base."""
    options = {name: file_options(command) for name, command in commands.items()}
    shared = {name: option for own in options.values() for name, option in own.items()}
    read = {name: shared[name] for name in sorted(reading_options())}
    common = set.intersection(*map(set, options.values()))
    general = {name: option for name, option in shared.items() if name in ("seed", "threads") or name in common}
    given = _given(read)
    lines = [*_head(data, kb), "", *_options({n: o for n, o in general.items() if n not in PER_COMMAND}, {})]
    for section in READING:
        own = {name: option for name, option in read.items() if (name in MAPPING) == (section == "mapping")}
        lines += ["", *_section(section, own, given)] if own else []
    for section, names in GROUPS.items():
        merged = {name: option for command in names for name, option in options.get(command, {}).items()}
        own = {name: option for name, option in merged.items() if name not in (*read, *common, *PER_COMMAND)}
        lines += ["", *_section(section, own, {})]
    lines += ["", "# A section with the name of a command sets its other options:", "# [answer]", "# top = 20"]
    return "\n".join(lines) + "\n"


def _head(data: Sequence[str], kb: KnowledgeBase | None) -> Iterator[str]:
    yield "# Settings of gaifman for the commands in this folder. Options on the command line count more, then"
    yield "# environment variables such as GAIFMAN_SEED, then this file. Remove a # to change a default."
    if kb is None:
        return
    yield "#"
    yield f"# {escape_unprintable(' '.join(data))}: {repr(kb).removeprefix('<KnowledgeBase: ').removesuffix('>')}"
    for note in kb.notes:
        yield f"# {escape_unprintable(shorten(str(note), WIDTH))}"


def _section(section: str, options: Mapping[str, click.Option], given: Mapping[str, Any]) -> list[str]:
    return [f"# {HEADS[section]}", f"[{section}]", *_options(options, given)]


def _options(options: Mapping[str, click.Option], given: Mapping[str, Any]) -> Iterator[str]:
    for name, option in options.items():
        yield from textwrap.wrap(option.help or "", WIDTH, initial_indent="# ", subsequent_indent="# ")
        if name in given:
            yield f"{name} = {_toml(given[name])}"
        else:
            yield f"# {name} = {_toml(_default(option))}"


def _given(options: Mapping[str, click.Option]) -> dict[str, Any]:
    """The options of reading that were given to `gaifman init`, by their names."""
    context = click.get_current_context()
    values = {name: context.params.get(str(option.name)) for name, option in options.items()}
    source = {name: context.get_parameter_source(str(option.name)) for name, option in options.items()}
    return {
        name: value
        for name, value in values.items()
        if value is not None and source[name] is not ParameterSource.DEFAULT
    }


def _default(option: click.Option) -> Any:
    """The default of an option, or an example of a value if it has none."""
    default = option.to_info_dict()["default"]
    if option.multiple:
        return list(default) if isinstance(default, tuple | list) and default else []
    if option.is_flag:
        return bool(default)
    return _example(option) if default is None else default


def _example(option: click.Option) -> Any:
    """A value of the right kind."""
    if isinstance(option.type, click.types.IntParamType):
        return 1
    if isinstance(option.type, click.types.FloatParamType):
        return 0.1
    choices: Sequence[str] = getattr(option.type, "choices", ())
    return choices[0] if choices else option.metavar or ""


def _toml(value: Any) -> str:
    """A value in TOML, which is as in JSON for texts, numbers, truth values and lists.

    >>> _toml(("a", 1)), _toml(True)
    ('["a", 1]', 'true')
    """
    return json.dumps(list(value) if isinstance(value, tuple) else value, ensure_ascii=False)

"""The settings file `gaifman.toml`: its sections, the options that they set, and what is wrong with them.

    threads = 2                     # for every command that has the option

    [data]                          # how the files of a knowledge base are read
    format = "triples"

    [training]                      # gaifman train and resume
    seed = 7
    option = {epochs = 5}

    [answer]                        # one command
    top = 20

A key is the name of an option without its dashes. A section that is about less counts more: that of a command before
`training` and `serving`, these before `data` and `mapping`, and all before keys without a section.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import click

from gaifman.cli.console import kb_options
from gaifman.errors import InputError, Location, shorten, similar_names

FILE_NAME = "gaifman.toml"
GROUPS: Mapping[str, tuple[str, ...]] = {"training": ("train", "resume"), "serving": ("serve",)}
"""Section → the commands whose options it sets."""
READING = ("data", "mapping")
"""Sections of the options that all commands have which read the files of a knowledge base."""
NOT_IN_FILE = ("config", "help", "version", "force")
"""Options that are given on the command line only."""

Commands = Mapping[str, click.Command]


@dataclass(frozen=True, slots=True)
class SettingsFile:
    """The text and the tables of a settings file."""

    path: Path
    text: str
    tables: Mapping[str, Any]

    @classmethod
    def read(cls, path: Path) -> SettingsFile:
        """Read a file; a mistake of its notation is an error with its place."""
        from gaifman.io.files import check_exists, read_text

        check_exists(path)
        text = read_text(path)
        try:
            return cls(path, text, tomllib.loads(text))
        except tomllib.TOMLDecodeError as error:
            message, _, place = str(error).partition(" (at ")
            numbers = [int(number) for number in re.findall(r"\d+", place)] or [len(text.splitlines()) or 1, 1]
            line = (text.splitlines() or [""])[min(numbers[0], text.count("\n") + 1) - 1 :][:1]
            location = Location(str(path), numbers[0], numbers[-1], line[0] if line else "")
            raise InputError(
                f"not TOML: {message[:1].lower()}{message[1:]}",
                location=location,
                hint='write name = value, texts in quotes: base = "mlp"',
            ) from None

    def options(self, commands: Commands) -> dict[str, dict[str, Any]]:
        """Command → the values of its options, by the names of parameters; all of the file is checked."""
        found: dict[str, dict[str, Any]] = {name: {} for name in commands}
        for section, keys in self._sections(commands):
            targets = _targets(section, commands)
            names = {key for command in targets for key in targets[command]}
            for key, value in keys.items():
                if (own := key.replace("_", "-")) not in names:
                    self._refuse_key(section, key, names, commands)
                for command, options in targets.items():
                    if own in options:
                        found[command][str(options[own].name)] = self._value(section, key, value, options[own])
        return found

    def _sections(self, commands: Commands) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Yield the sections with their keys: those that count more come later; '' for keys without a section."""
        order = [*READING, *GROUPS, *commands]
        yield "", {name: value for name, value in self.tables.items() if not self._is_section(name, value, order)}
        for name in order:
            if isinstance(keys := self.tables.get(name), dict):
                yield name, keys

    def _is_section(self, name: str, value: Any, sections: list[str]) -> bool:
        if not isinstance(value, dict):
            return False
        if name not in sections:
            self._fail("", name, f"there is no section [{shorten(name)}]", sections, _list("sections", sections))
        return True

    def _refuse_key(self, section: str, key: str, names: set[str], commands: Commands) -> NoReturn:
        """Raise the error about a key that is no option; say where it belongs if it is one elsewhere."""
        where = f" in [{section}]" if section else ""
        own = key.replace("_", "-")
        homes = [name for name in [*READING, *GROUPS, *commands] if _knows(name, own, commands)]
        if own in NOT_IN_FILE:
            hint, near = f"give --{own} on the command line", list[str]()
        elif homes and section:
            hint, near = f"it is a setting of [{'], ['.join(homes[:3])}]", list[str]()
        else:
            hint, near = _list("settings", sorted(names)), sorted(names)
        self._fail(section, key, f"there is no setting {shorten(key)}{where}", near, hint)

    def _value(self, section: str, key: str, value: Any, option: click.Option) -> Any:
        """Return a checked value: a list for an option that can be repeated."""
        values = _as_list(value) if option.multiple else [value]
        try:
            for each in values:
                _check_kind(each, option)
                if not option.is_flag:
                    option.type.convert(each if isinstance(each, int | float) else str(each), option, None)
        except click.BadParameter as error:
            message = error.message.rstrip(".")
            self._fail(section, key, f"{shorten(key)} cannot be {_toml(value)}: {message}")
        return values if option.multiple else value

    def _fail(self, section: str, key: str, message: str, names: Iterable[str] = (), hint: str = "") -> NoReturn:
        location = self.locate(section, key)
        raise InputError(message, location=location, suggestions=similar_names(key, names), hint=hint)

    def locate(self, section: str, key: str) -> Location:
        """Return the place of a key, or of a section."""
        current, name = "", re.escape(key)
        for number, line in enumerate(self.text.splitlines(), start=1):
            if head := re.match(r"\s*\[\[?\s*([^\]]*?)\s*\]", line):
                parts = [part.strip().strip("\"'") for part in head[1].split(".")]
                if parts in ([section, key], [key]) or parts[:2] == [section, key]:
                    return Location(str(self.path), number, head.start(1) + 1, line, len(head[1]))
                current = parts[0]
            elif current == section and (found := re.match(rf"(\s*)[\"']?({name})[\"']?\s*[=.]", line)):
                return Location(str(self.path), number, found.start(2) + 1, line, len(key))
        return Location(str(self.path), 1, 1, (self.text.splitlines() or [""])[0])


def file_options(command: click.Command) -> dict[str, click.Option]:
    """Name → option, for what a settings file can set of a command."""
    options = [parameter for parameter in command.params if isinstance(parameter, click.Option)]
    named = {option_name(option): option for option in options}
    return {name: option for name, option in named.items() if name not in NOT_IN_FILE}


def option_name(option: click.Option) -> str:
    """The long name of an option, without dashes.

    >>> option_name(click.Option(["--size", "-k"])), option_name(click.Option(["--header/--no-header"]))
    ('size', 'header')
    """
    return max(option.opts, key=len).lstrip("-")


def reading_options() -> set[str]:
    """The options by which files of a knowledge base are read: those that `kb_options` adds to a command."""
    probe = click.Command("probe", params=getattr(kb_options(lambda: None), "__click_params__", []))
    return set(file_options(probe))


def _targets(section: str, commands: Commands) -> dict[str, dict[str, click.Option]]:
    """Command → the options that a section sets."""
    if section in READING:
        reading = reading_options()
        return {
            name: {key: option for key, option in file_options(command).items() if key in reading}
            for name, command in commands.items()
        }
    names = GROUPS.get(section, (section,)) if section else tuple(commands)
    return {name: file_options(commands[name]) for name in names if name in commands}


def _knows(section: str, key: str, commands: Commands) -> bool:
    return any(key in options for options in _targets(section, commands).values())


def _list(what: str, names: Iterable[str]) -> str:
    return f"{what}: {', '.join(names)}"


def _as_list(value: Any) -> list[Any]:
    """The values of an option that can be repeated: a table gives NAME=VALUE.

    >>> _as_list("a"), _as_list(["a", "b"]), _as_list({"epochs": 5, "hidden": [50, 50]})
    (['a'], ['a', 'b'], ['epochs=5', 'hidden=[50, 50]'])
    """
    if isinstance(value, dict):
        return [f"{name}={inner if isinstance(inner, str) else json.dumps(inner)}" for name, inner in value.items()]
    return value if isinstance(value, list) else [value]


def _check_kind(value: Any, option: click.Option) -> None:
    """Refuse a value of a kind that the option's type would turn into another one."""
    if isinstance(value, list | dict) or not isinstance(value, str | int | float | bool):
        raise click.BadParameter("it takes one value")
    if option.is_flag:
        if not isinstance(value, bool):
            raise click.BadParameter("it takes true or false")
    elif isinstance(value, bool):
        raise click.BadParameter("it takes a text or a number, not true or false")
    elif isinstance(value, float) and isinstance(option.type, click.types.IntParamType):
        raise click.BadParameter("it takes an integer")


def _toml(value: Any) -> str:
    """A value as in the file, shortened."""
    return shorten(json.dumps(value, ensure_ascii=False, default=str))

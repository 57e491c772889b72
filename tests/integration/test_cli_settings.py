"""Settings of all commands: the file, environment variables, quiet and verbose, init and completion."""

from __future__ import annotations

import json
import os
import tomllib
from pathlib import Path

import click
import pytest
from click.shell_completion import BashComplete, ShellComplete

import gaifman
from cli_runner import here, one_message, refused, run
from gaifman.cli import cli
from gaifman.cli.settings import RESERVED, environment_variables
from gaifman.cli.settings_file import NOT_IN_FILE, SettingsFile, file_options, reading_options
from gaifman.errors import GaifmanError, InputError

MODEL_WORDS = ("train", "demo", "-o", "m.gaifman", "--relation", "capital", "--option", "epochs=1", "--force")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder, without variables of the user."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("GAIFMAN_") and name not in RESERVED]:
        monkeypatch.delenv(name)
    return tmp_path


def settings(text: str, name: str = "gaifman.toml") -> None:
    Path(name).write_text(text)


def seed_used(*words: str) -> int:
    """The seed of a command that prints it."""
    body: dict[str, int] = json.loads(here("neighbourhood", "demo", "france", "--json", *words).stdout)
    return body["seed"]


def test_command_line_before_environment_before_file_before_default(monkeypatch: pytest.MonkeyPatch) -> None:
    assert seed_used() == 0
    settings("seed = 1\n")
    assert seed_used() == 1
    settings("seed = 1\n[neighbourhood]\nseed = 2\n")
    assert seed_used() == 2
    monkeypatch.setenv("GAIFMAN_SEED", "3")
    assert seed_used() == 3
    monkeypatch.setenv("GAIFMAN_NEIGHBOURHOOD_SEED", "4")
    assert seed_used() == 4
    assert seed_used("--seed", "5") == 5


def test_another_file_and_that_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    settings("seed = 1\n")
    settings("seed = 8\n", "other.toml")
    assert seed_used("--config", "other.toml") == 8
    monkeypatch.setenv("GAIFMAN_CONFIG", "other.toml")
    assert seed_used() == 8
    assert "settings: other.toml" in here("neighbourhood", "demo", "france").stderr
    assert "settings" not in here("neighbourhood", "demo", "france", "--json").stderr, "a program reads errors there"
    assert "settings" not in here("parse", "p(x)").stderr, "the file sets nothing of this command"
    one_message(run("info", "demo", "--config", "othr.toml"), "there is no file othr.toml")
    assert refused("info", "demo", "--config", "othr.toml").suggestions == ("other.toml",)


def test_sections_for_reading_training_and_serving() -> None:
    Path("kb.txt").write_text("ann likes bob\n".replace(" ", "\t"))
    settings('[data]\ninput-format = "triples"\nlimit = {facts = 1}\nwith = ["more.tsv"]\n[training]\nseed = 7\n')
    Path("more.tsv").write_text("bob\tlikes\tcleo\n")
    error = refused("neighbourhood", "kb.txt", "ann")
    assert "more than 1 " in str(error)
    assert here("info", "kb.txt").returncode == 0, "info has no --with"
    read = SettingsFile.read(Path("gaifman.toml")).options(cli.commands)
    assert read["train"]["seed"] == 7
    assert read["train"]["limits"] == ["facts=1"]
    assert "seed" not in read["features"]
    assert read["info"]["file_format"] == "triples"


def test_a_training_records_what_the_file_and_the_environment_set(monkeypatch: pytest.MonkeyPatch) -> None:
    settings('[training]\nseed = 7\nsize = "all"\noption = {epochs = 1}\n')
    monkeypatch.setenv("GAIFMAN_HOLDOUT", "0.2")
    here(*MODEL_WORDS[:6])
    meta = gaifman.load("m.gaifman").meta
    assert meta["config"]["seed"] == 7
    assert meta["config"]["holdout"] == 0.2
    card = Path("m.gaifman.md").read_text()
    command = next(line for line in card.splitlines() if line.startswith("$ gaifman train"))
    assert "--seed 7" in command
    Path("gaifman.toml").unlink()
    monkeypatch.delenv("GAIFMAN_HOLDOUT")
    first = Path("m.gaifman").read_bytes()
    here(*command.split()[2:], "--force")
    assert Path("m.gaifman").read_bytes() == first


BAD = [
    ("[trainning]\nseed = 1\n", "there is no section [trainning]", (1, 2), ("training",)),
    ("[training]\nsed = 1\n", "there is no setting sed in [training]", (2, 1), ("seed",)),
    ("treads = 1\n", "there is no setting treads", (1, 1), ("threads",)),
    ("[data]\n\n  seed = 1\n", "there is no setting seed in [data]", (3, 3), ()),
    ('[training]\nseed = "x"\n', "seed cannot be \"x\": 'x' is not a valid integer", (2, 1), ()),
    ("[training]\nseed = 1.5\n", "seed cannot be 1.5: it takes an integer", (2, 1), ()),
    ("[training]\nseed = [1, 2]\n", "seed cannot be [1, 2]: it takes one value", (2, 1), ()),
    ("[serving]\nopen = 1\n", "open cannot be 1: it takes true or false", (2, 1), ()),
    ("[serving]\nport = true\n", "port cannot be true: it takes a text or a number", (2, 1), ()),
    ("[serving]\nport = 70000\n", "port cannot be 70000: 70000 is not in the range", (2, 1), ()),
    ('[training]\nhide = "fact"\n', "hide cannot be \"fact\": 'fact' is not one of", (2, 1), ()),
    ("force = true\n", "there is no setting force", (1, 1), ()),
    ("[training.opton]\nepochs = 1\n", "there is no setting opton in [training]", (1, 2), ("option",)),
    ("seed = \n", "not TOML: invalid value", (1, 8), ()),
    ("seed = 1\nseed = 2\n", "not TOML: cannot overwrite a value", (2, 9), ()),
]


@pytest.mark.parametrize(("text", "message", "place", "near"), BAD)
def test_a_mistake_is_one_error_with_its_place(
    text: str, message: str, place: tuple[int, int], near: tuple[str, ...]
) -> None:
    settings(text)
    error = refused("info", "demo")
    assert isinstance(error, InputError)
    assert message in error.message
    assert error.location
    assert (error.location.source, error.location.line, error.location.column) == ("gaifman.toml", *place)
    assert set(near) <= set(error.suggestions)
    one_message(run("info", "demo"), message)


def test_where_a_setting_belongs_is_said() -> None:
    settings("[data]\nport = 1\n")
    assert refused("info", "demo").hint == "it is a setting of [serving], [serve]"
    settings("force = true\n")
    assert refused("info", "demo").hint == "give --force on the command line"


def test_environment_variables_name_themselves_in_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GAIFMAN_SEED", "x")
    done = run("neighbourhood", "demo", "france")
    assert done.returncode == 2
    assert "'x' is not a valid integer. The value is that of GAIFMAN_SEED." in done.stderr
    monkeypatch.delenv("GAIFMAN_SEED")
    monkeypatch.setenv("GAIFMAN_SED", "1")
    assert "note: GAIFMAN_SED is not a setting; did you mean GAIFMAN_SEED?" in here("info", "demo").stderr


def test_no_option_takes_the_variables_of_something_else() -> None:
    for name, command in cli.commands.items():
        for option in file_options(command).values():
            assert not set(environment_variables(name, option)) & set(RESERVED), option.opts
            assert option.envvar == environment_variables(name, option)


def test_every_command_has_the_common_options() -> None:
    for command in cli.commands.values():
        names = {option for parameter in command.params for option in parameter.opts}
        assert {"--config", "--quiet", "--verbose"} <= names, command.name
    assert {"with", "limit", "table", "iris", "header"} <= reading_options()


def test_a_quiet_command_prints_data_and_errors_only() -> None:
    settings("seed = 1\n")
    loud, quiet = here(*MODEL_WORDS), here(*MODEL_WORDS, "--quiet")
    assert "wrote m.gaifman" in loud.stderr
    assert quiet.stderr == ""
    assert quiet.stdout == loud.stdout
    one_message(run("answer", "m.gaifman", "demo", "capitl('france', y)", "-q"), "there is no")
    settings("quiet = true\n")
    assert here("convert", "demo", "a.facts").stderr == ""
    assert run("info", "demo", "-q", "-v").returncode == 2


def test_a_verbose_command_prints_settings_and_times(monkeypatch: pytest.MonkeyPatch) -> None:
    settings("[training]\nnegatives = 3\n")
    monkeypatch.setenv("GAIFMAN_THREADS", "2")
    done = here(*MODEL_WORDS, "--verbose", columns=120)
    rows = {line.split()[0]: line.split()[1:] for line in done.stderr.splitlines() if line.split()}
    assert rows["negatives"] == ["3", "gaifman.toml"]
    assert rows["threads"] == ["2", "GAIFMAN_THREADS"]
    assert rows["relation"] == ["capital", "command", "line"]
    assert rows["seed"] == ["0", "default"]
    assert rows["training"][-1] == rows["total"][-1] == "s"
    assert float(rows["total"][0]) >= 0


def test_init_writes_a_file_that_changes_nothing() -> None:
    Path("kb.tsv").write_text("ann\tlikes\tbob\n")
    assert "wrote gaifman.toml" in here("init", "kb.tsv").stderr
    text = Path("gaifman.toml").read_text()
    assert "# kb.tsv: 2 objects, 1 relation, 1 fact" in text
    assert "file read as triples" in text
    assert tomllib.loads(text) == {"data": {}, "training": {}, "serving": {}} | (
        {"mapping": {}} if "[mapping]" in text else {}
    )
    for name in ("seed", "max-held-out", "port", "iris", "threads"):
        assert f"\n# {name} = " in text, name
    one_message(run("init"), "gaifman.toml already exists")
    here("init", "kb.tsv", "--force", "--no-header", "--limit", "facts=5")
    assert tomllib.loads(Path("gaifman.toml").read_text())["data"] == {"header": False, "limit": ["facts=5"]}
    settings("broken")
    here("init", "--force")


def test_every_default_of_the_written_file_is_valid() -> None:
    """A line without its # is a setting."""
    here("init")
    text = Path("gaifman.toml").read_text()
    lines = [
        line.removeprefix("# ") if " = " in line and not line.startswith("#  ") else line for line in text.splitlines()
    ]
    wanted = {"iris", "seed", "size", "port", "phi", "radius", "negatives", "header", "hide", "host"}
    seen = set()
    for line in lines:
        name = line.partition(" = ")[0]
        if name in wanted and name.replace("-", "").isalpha():
            seen.add(name)
            tomllib.loads(line)
    assert seen == wanted


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script(shell: str) -> None:
    script = here("completion", shell).stdout
    assert f"_GAIFMAN_COMPLETE={shell}_complete" in script
    assert json.loads(here("completion", shell, "--json").stdout)["script"].strip() == script.strip()
    assert run("completion", "tcsh").returncode == 2


def completions(*words: str) -> list[tuple[str, str]]:
    """What a shell offers for the last word, and its kind."""
    complete: ShellComplete = BashComplete(cli, {}, "gaifman", "_GAIFMAN_COMPLETE")
    return [(str(item.value), item.type) for item in complete.get_completions(list(words[:-1]), words[-1])]


def test_completion_offers_commands_options_files_and_relations() -> None:
    assert ("train", "plain") in completions("tr")
    assert ("--negatives", "plain") in completions("train", "demo", "--neg")
    assert ("listwise", "plain") not in completions("train", "")
    assert completions("info", "kb") == [("kb", "file")]
    assert completions("train", "demo", "--valid", "x") == [("x", "file")]
    assert completions("train", "demo", "--relation", "cap") == [("capital", "plain")]
    here(*MODEL_WORDS)
    assert completions("predict", "m.gaifman", "demo", "--relation", "") == [("capital", "plain")]
    Path("bad.tsv").write_text("\0")
    assert completions("train", "bad.tsv", "--relation", "") == []


def test_a_broken_file_does_not_break_completion_and_help() -> None:
    settings("broken")
    assert ("train", "plain") in completions("tr")
    assert here("train", "--help").stdout
    with pytest.raises(GaifmanError):
        click.testing.CliRunner().invoke(cli, ["info", "demo"], catch_exceptions=False)


def test_options_that_are_no_settings_exist() -> None:
    names = {option.lstrip("-") for command in cli.commands.values() for p in command.params for option in p.opts}
    assert set(NOT_IN_FILE) - {"help", "version"} <= names

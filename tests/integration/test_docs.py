"""What the documentation says is what happens."""

from __future__ import annotations

import doctest
import os
import re
import shlex
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

import cli_reference as reference
import gaifman
from gaifman import errors
from gaifman.cli import cli
from gaifman.config import Limits

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE | doctest.IGNORE_EXCEPTION_DETAIL


def blocks(page: Path, *languages: str) -> list[str]:
    """The code blocks of a page in these languages."""
    return [body for language, body in FENCE.findall(page.read_text()) if language in languages]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_python_example_gives_what_the_page_shows(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    source = "\n".join(blocks(page, "python"))
    test = doctest.DocTestParser().get_doctest(source, {"__name__": "__main__"}, page.name, str(page), 0)
    report: list[str] = []
    failed, _ = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=report.append)
    assert not failed, "".join(report)


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "console")], ids=lambda page: page.name)
def test_every_command_prints_what_the_page_shows(page: Path, tmp_path: Path) -> None:
    for block in blocks(page, "console"):
        for command, shown in sessions(block):
            printed = run(command, tmp_path)
            assert matches(shown, printed), f"$ {command}\n{printed}\n--- shown:\n{shown}"


def sessions(block: str) -> list[tuple[str, str]]:
    """The commands of a block, each with the output below it."""
    parts = re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]
    return [(command, shown) for command, _, shown in (part.partition("\n") for part in parts)]


def run(command: str, folder: Path) -> str:
    """Run `gaifman …` or `cat file`, or write a file with `echo … > file`."""
    words = shlex.split(command)
    if words[0] == "gaifman":
        words[:1] = [sys.executable, "-m", "gaifman"]
    assert words[0] in (sys.executable, "cat", "head", "printf"), f"a page runs {words[0]}"
    if ">" in words:
        target, words = folder / words[-1], words[: words.index(">")]
        target.write_bytes(subprocess.run(words, cwd=folder, check=True, capture_output=True).stdout)
        return ""
    environment = {**os.environ, "COLUMNS": "100", "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
    return done.stdout + done.stderr


def matches(shown: str, printed: str) -> bool:
    """Whether the lines are the same, where a line `...` stands for any lines."""
    pattern = "".join("(?:.*\n)*" if line == "..." else re.escape(line + "\n") for line in shown.splitlines())
    return re.fullmatch(pattern, printed) is not None


def test_the_command_reference_is_made_from_the_help() -> None:
    assert (ROOT / "docs" / "cli.md").read_text() == reference.text(), "run: make docs"


def test_every_command_and_option_has_help_and_an_example() -> None:
    for command in cli.commands.values():
        assert "Example" in (command.help or "") + (command.epilog or ""), command.name
        for parameter in command.params:
            if parameter.param_type_name == "option":
                assert getattr(parameter, "help", None), f"{command.name} {parameter.name}"


def test_every_command_takes_json() -> None:
    for command in cli.commands.values():
        assert "--json" in [option for parameter in command.params for option in parameter.opts], command.name


def test_every_public_name_is_documented() -> None:
    text = "".join(page.read_text() for page in PAGES)
    for name in set(gaifman.__all__) - {"__version__"}:
        assert re.search(rf"\b{name}\b", text), name
        assert hasattr(gaifman, name)


def test_every_error_is_documented() -> None:
    text = (ROOT / "docs" / "errors.md").read_text()
    for name, value in vars(errors).items():
        if isinstance(value, type) and issubclass(value, Exception):
            assert f"`{name}`" in text, name


def test_every_limit_is_documented() -> None:
    text = (ROOT / "docs" / "config.md").read_text()
    for field in fields(Limits):
        assert f"`{field.name}`" in text, field.name


def test_every_setting_of_learning_is_documented() -> None:
    from gaifman.training import TrainingConfig

    text = (ROOT / "docs" / "learning.md").read_text()
    for field in fields(TrainingConfig):
        assert f"| `{field.name}` |" in text, field.name


def test_every_route_setting_and_metric_of_the_server_is_documented() -> None:
    from gaifman.config import ServerLimits
    from gaifman.server.app import create_app
    from gaifman.server.metrics import COUNTERS, GAUGES
    from gaifman.server.service import Service
    from gaifman.server.state import ServerState

    text, metrics = ((ROOT / "docs" / f"{name}.md").read_text() for name in ("server", "meters"))
    document = create_app(ServerState(Service(gaifman.KnowledgeBase.from_facts([])))).openapi()
    bodies = document["components"]["schemas"]
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            row = next((line for line in text.splitlines() if line.startswith(f"| `{method.upper()} {path}` |")), "")
            assert row, f"{method} {path}"
            names = [parameter["name"] for parameter in operation.get("parameters", [])]
            if "requestBody" in operation:
                reference = operation["requestBody"]["content"]["application/json"]["schema"]["$ref"]
                names += bodies[reference.rpartition("/")[2]]["properties"]
            for name in names:
                assert f"`{name}`" in row, f"{path}: {name}"
    for field in fields(ServerLimits):
        assert f"| `{field.name}` |" in text, field.name
    for metric in (*COUNTERS, *GAUGES):
        assert f"`{metric}`" in metrics, metric
    for option in ("allow-edit", "allow-host", "host", "port", "open", *("at-once", "waiting", "seconds", "rows")):
        assert f"--{option}" in text, option


def test_every_kernel_is_documented() -> None:
    text = (ROOT / "docs" / "kernels.md").read_text()
    for path in (ROOT / "src" / "gaifman" / "kernels").glob("[!_]*.py"):
        assert f"| `{path.name}` |" in text, path.name


def test_every_dependency_has_its_reason() -> None:
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *(n for names in project["optional-dependencies"].values() for n in names)]
    text = (ROOT / "docs" / "dependencies.md").read_text()
    for requirement in wanted:
        name = re.split(r"[<>= ]", requirement)[0]
        assert f"| {name} |" in text, name


def test_links_between_pages_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"

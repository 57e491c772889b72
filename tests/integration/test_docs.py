"""What the documentation says is what happens."""

from __future__ import annotations

import doctest
import os
import re
import runpy
import shlex
import sys
from dataclasses import fields
from pathlib import Path

import pytest

import cli_reference
import gaifman
from gaifman import errors
from gaifman.cli import cli
from gaifman.config import Limits
from notebook import NOTEBOOKS
from processes import run

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SERVER_OPTIONS = ("seconds", "write_seconds", "memory", "disk", "max_rows", "max_concurrency", "max_queued")
ENVIRONMENT = {**os.environ, "COLUMNS": "100", "PYTHONPATH": str(ROOT / "src")}


def name_of(path: Path) -> str:
    """A page's name in test reports."""
    return str(path.relative_to(ROOT))


def blocks(page: Path, *languages: str) -> list[str]:
    """The code blocks of a page in these languages."""
    return [body for language, body in FENCE.findall(page.read_text()) if language in languages]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_python_example_gives_what_the_page_shows(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    source = "\n".join(blocks(page, "python"))
    test = doctest.DocTestParser().get_doctest(source, {"__name__": "__main__"}, page.name, str(page), 0)
    report: list[str] = []
    failed, _ = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=report.append)
    assert not failed, "".join(report)


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "console")], ids=name_of)
def test_every_command_prints_what_the_page_shows(page: Path, tmp_path: Path) -> None:
    for block in blocks(page, "console"):
        for command, shown in sessions(block):
            printed = output_of(command, tmp_path)
            assert matches(shown, printed), f"$ {command}\n{printed}\n--- shown:\n{shown}"


def sessions(block: str) -> list[tuple[str, str]]:
    """The commands of a block, each with the output below it."""
    parts = re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]
    return [(command, shown) for command, _, shown in (part.partition("\n") for part in parts)]


def output_of(command: str, folder: Path) -> str:
    """What a command prints: `gaifman …`, `cat`, `head` or `printf`, which `> file` writes to a file."""
    program, *rest = shlex.split(command)
    assert program in ("gaifman", "cat", "head", "printf"), f"a page runs {program}"
    start = [sys.executable, "-m", "gaifman"] if program == "gaifman" else [program]
    target = rest.index(">") if ">" in rest else len(rest)
    done = run([*start, *rest[:target]], cwd=folder, env=ENVIRONMENT)
    assert "Traceback" not in done.stderr
    for name in rest[target + 1 :]:
        (folder / name).write_text(done.stdout)
    return done.stderr if ">" in rest else done.stdout + done.stderr


def matches(shown: str, printed: str) -> bool:
    """Whether the lines are the same, where a line `...` stands for any lines."""
    pattern = "".join("(?:.*\n)*" if line == "..." else re.escape(line + "\n") for line in shown.splitlines())
    return re.fullmatch(pattern, printed) is not None


def test_the_command_reference_is_made_from_the_help() -> None:
    assert (DOCS / "reference" / "cli.md").read_text() == cli_reference.text(), "run: make docs"


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
    documented = re.findall(r"^::: gaifman\.(\w+)$", (DOCS / "reference" / "python.md").read_text(), re.MULTILINE)
    assert sorted([*documented, "__version__"]) == sorted(gaifman.__all__)
    for name in gaifman.__all__:
        assert hasattr(gaifman, name), name


def test_every_error_is_documented() -> None:
    text = (DOCS / "reference" / "errors.md").read_text()
    for name, value in vars(errors).items():
        if isinstance(value, type) and issubclass(value, Exception):
            assert f"`{name}`" in text, name


def test_every_limit_is_documented() -> None:
    text = (DOCS / "reference" / "settings.md").read_text()
    for field in fields(Limits):
        assert f"`{field.name}`" in text, field.name


def test_every_training_setting_is_documented() -> None:
    text = (DOCS / "reference" / "settings.md").read_text()
    for field in fields(gaifman.TrainingConfig):
        assert f"| `{field.name}` |" in text, field.name


def test_every_route_setting_and_metric_of_the_server_is_documented() -> None:
    from gaifman.server.app import create_app
    from gaifman.server.middleware import Metrics, ServerLimits
    from gaifman.server.service import Service
    from gaifman.server.state import ServerState

    text, settings = ((DOCS / "reference" / f"{name}.md").read_text() for name in ("http", "settings"))
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
        assert f"| `{field.name}` |" in settings, field.name
    for metric in Metrics().names():
        assert f"`{metric}`" in text, metric
    for parameter in cli.commands["serve"].params:
        if parameter.name in ("allow_edit", "allowed_hosts", "host", "port", "open_browser", "edits", *SERVER_OPTIONS):
            assert f"`{parameter.opts[0]}`" in text, parameter.opts


def test_every_kernel_is_documented() -> None:
    text = (DOCS / "contributing.md").read_text()
    for path in (ROOT / "src" / "gaifman" / "kernels").glob("[!_]*.py"):
        assert f"`{path.stem}`" in text, path.name


def test_every_dependency_has_its_reason() -> None:
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *(n for names in project["optional-dependencies"].values() for n in names)]
    text = (DOCS / "dependencies.md").read_text()
    for requirement in wanted:
        name = re.split(r"[<>= ]", requirement)[0]
        assert f"| {name} |" in text, name


def test_links_between_pages_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=name_of)
def test_the_page_of_a_notebook_is_made_from_it(path: Path) -> None:
    made = runpy.run_path(str(DOCS / "_build" / "notebooks.py"))["page_of"]
    assert path.with_suffix(".md").read_text() == made(path), "run: make docs"


def test_every_page_is_in_the_navigation() -> None:
    text = (ROOT / "mkdocs.yml").read_text()
    for page in DOCS.rglob("*.md"):
        assert str(page.relative_to(DOCS)) in text, page


def test_the_site_asks_nothing_of_other_hosts() -> None:
    text = (ROOT / "mkdocs.yml").read_text()
    assert "font: false" in text
    assert not re.findall(r"https?://", text)


@pytest.mark.parametrize("script", EXAMPLES, ids=name_of)
def test_every_example_script_runs(script: Path, tmp_path: Path) -> None:
    text = script.read_text()
    assert len(text.splitlines()) < 40
    assert text.startswith('"""')
    assert run([sys.executable, script], cwd=tmp_path, env=ENVIRONMENT, check=True).stdout


def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    built = run(words, cwd=ROOT, env={**ENVIRONMENT, "NO_MKDOCS_2_WARNING": "1"}, check=True)
    assert "WARNING" not in built.stderr
    for page in DOCS.rglob("*.md"):
        assert (tmp_path / page.relative_to(DOCS).with_suffix(".html")).exists()

"""What the project keeps to. import-linter checks which package may import which: see pyproject.toml."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

from processes import run

TESTS = Path(__file__).parents[1]
MODULES = sorted(TESTS.rglob("test_*.py"))
HEAVY = "numpy numba duckdb rich pyoxigraph rapidfuzz safetensors fastapi pydantic uvicorn prometheus_client"


def imports(path: Path) -> Iterator[str]:
    """The names of the modules that a file imports."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def test_the_command_line_starts_without_the_heavy_modules() -> None:
    code = f"import sys, gaifman.cli; print(*[m for m in '{HEAVY}'.split() if m in sys.modules])"
    assert run([sys.executable, "-c", code], check=True).stdout.split() == []


def test_no_test_module_imports_another() -> None:
    """What several need is in tests/support."""
    found = [(path.name, name) for path in MODULES for name in imports(path)]
    assert [pair for pair in found if pair[1].rpartition(".")[2].startswith("test_")] == []


def test_children_are_started_by_the_helper_that_ends_them() -> None:
    """See processes.py: a child of `subprocess` alone survives a test that is killed."""
    direct = ("subprocess.run(", "subprocess.Popen(", "subprocess.check_", "os.system(")
    assert [path.name for path in MODULES if any(call in path.read_text() for call in direct)] == [Path(__file__).name]

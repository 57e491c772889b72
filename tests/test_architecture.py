"""The shape of the project: what may import what, and how large things may grow."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "gaifman"

_ORDER = (
    "errors markup config deadlines names printing formulas questions phrases rewriting vocabulary tokens syntax "
    "parser semantics tables interning facts kb draft io datasets kernels keys graph drawing neighbourhoods "
    "phi plans families worlds features grounds safety frames semijoins sql engine queries witnesses hiding mining "
    "constraints corruptions examples calibration network inputs adapters testing modelfile cards runfolder runs "
    "learning judging splits parts patterns candidates glances answers effects scenes pictures explanations explain "
    "model completion school training "
    "ranking measures subjects examining evaluation speeds plots downloads studies "
    "reproduction finder edits service messages insights replies desk gates meters guards server hosting cli"
)
ORDER = _ORDER.split()
"""The way of the data: each module imports only from those before it."""

LEAVES = ("__init__", "__main__")
FILES = sorted(PACKAGE.rglob("*.py"))
ALL = [*FILES, *sorted(ROOT.glob("tests/*.py")), *sorted(ROOT.glob("benchmarks/*.py"))]


def module(path: Path) -> str:
    """The first part of a module's name below the package: `io` for `io/rdf.py`."""
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def imports(path: Path) -> Iterator[str]:
    """The gaifman modules that a file imports, at its top or inside a function; not for type checking alone."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(_without_type_checking(tree)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "gaifman":
            below = (node.module or "").split(".")[1:]
            yield from [".".join(below)] if below else [alias.name for alias in node.names]
        elif isinstance(node, ast.Import):
            yield from (a.name.partition(".")[2] for a in node.names if a.name.startswith("gaifman."))


def _without_type_checking(tree: ast.Module) -> ast.Module:
    tree.body = [n for n in tree.body if not (isinstance(n, ast.If) and ast.unparse(n.test) == "TYPE_CHECKING")]
    return tree


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_module_imports_only_from_those_before_it(path: Path) -> None:
    own = module(path)
    if own in LEAVES:
        return
    allowed = ORDER[: ORDER.index(own)]
    for name in imports(path):
        first = name.split(".")[0]
        assert first in (*allowed, own, "__version__"), f"{own} imports {name}, which comes after it"


def test_every_module_has_its_place_in_the_order() -> None:
    assert {module(path) for path in FILES} == {*ORDER, *LEAVES}


def test_no_package_has_a_cycle_inside() -> None:
    for package in ("io", "cli", "kernels", "adapters"):
        graph: dict[str, set[str]] = {}
        for path in (PACKAGE / package).glob("*.py"):
            name = package if path.stem == "__init__" else f"{package}.{path.stem}"
            graph[name] = {i for i in imports(path) if i.split(".")[0] == package}
        TopologicalSorter(graph).prepare()


@pytest.mark.parametrize("name", ORDER)
def test_one_name_three_places(name: str) -> None:
    assert (ROOT / "docs" / f"{name}.md").is_file(), "a module has a page"
    assert list((ROOT / "tests").glob(f"test_{name}*.py")), "a module has a test"


@pytest.mark.parametrize(
    "path", [*FILES, *ROOT.glob("tests/*.py"), *ROOT.glob("benchmarks/*.py")], ids=lambda p: p.name
)
def test_files_and_functions_stay_small(path: Path) -> None:
    text = path.read_text()
    assert text.count("\n") <= 400
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            lines = (node.end_lineno or 0) - node.lineno + 1
            assert lines <= 60, f"{node.name} has {lines} lines"


def test_no_pickle_in_the_package() -> None:
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not {"pickle", "dill", "cloudpickle", "joblib", "marshal", "shelve"}.intersection(names), path


def code_lines(path: Path) -> int:
    """Lines of code; of a fixture, all lines. Blank lines, comments and docstrings do not count."""
    text = path.read_text()
    if path.suffix != ".py":
        return text.count("\n")
    prose: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            prose.update(range(node.lineno, (node.end_lineno or 0) + 1))
    lines = enumerate(text.splitlines(), start=1)
    return sum(1 for number, line in lines if line.strip() and line.strip()[0] != "#" and number not in prose)


def test_about_one_line_of_test_for_each_line_of_source() -> None:
    source = sum(map(code_lines, FILES))
    tests = sum(code_lines(path) for path in (ROOT / "tests").rglob("*") if path.suffix in (".py", ".txt", ".lark"))
    assert tests >= 0.9 * source


def test_the_command_line_starts_without_the_heavy_modules() -> None:
    import subprocess
    import sys

    heavy = "numpy numba duckdb rich pyoxigraph rapidfuzz safetensors fastapi pydantic uvicorn prometheus_client"
    code = f"import sys, gaifman.cli; print(*[m for m in '{heavy}'.split() if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == []

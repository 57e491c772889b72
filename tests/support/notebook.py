"""Run a notebook's code in one namespace, as a kernel does, and store its outputs.

Run this file, or `make notebooks`, to do that with all notebooks in docs.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import tempfile
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[2] / "docs"
NOTEBOOKS = sorted(DOCS.rglob("*.ipynb"))

Output = dict[str, Any]
"""As the format of notebooks has it."""


def read(path: Path) -> dict[str, Any]:
    """The notebook in a file."""
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def code_cells(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    """The cells with code, in their order."""
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def run(notebook: dict[str, Any]) -> list[list[Output]]:
    """Run all code cells in order in the current folder and return their outputs. Errors of a cell are raised."""
    space: dict[str, Any] = {"__name__": "__main__"}
    cells = enumerate(code_cells(notebook), start=1)
    return [_outputs("".join(cell["source"]), number, space) for number, cell in cells]


def _outputs(source: str, number: int, space: dict[str, Any]) -> list[Output]:
    """What a cell prints, and the value of its last expression."""
    body, last = ast.parse(source).body, None
    if body and isinstance(body[-1], ast.Expr):
        last = ast.Expression(body.pop().value)  # type: ignore[attr-defined]
    printed, value = io.StringIO(), None
    with contextlib.redirect_stdout(printed):
        exec(compile(ast.Module(body, []), f"cell {number}", "exec"), space)
        if last:
            value = eval(compile(last, f"cell {number}", "eval"), space)
    found: list[Output] = []
    if printed.getvalue():
        found.append({"name": "stdout", "output_type": "stream", "text": _lines(printed.getvalue())})
    if value is not None:
        found.append({"data": _data(value), "execution_count": number, "metadata": {}, "output_type": "execute_result"})
    return found


def _data(value: object) -> dict[str, list[str]]:
    """A value as HTML, if it has `_repr_html_`, and as text."""
    pages = {"text/html": _lines(value._repr_html_())} if hasattr(value, "_repr_html_") else {}
    return pages | {"text/plain": _lines(repr(value))}


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def store(path: Path) -> None:
    """Run the notebook in a temporary folder and store its outputs."""
    notebook = read(path)
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        outputs = run(notebook)
    for number, (cell, found) in enumerate(zip(code_cells(notebook), outputs, strict=True), start=1):
        cell["outputs"], cell["execution_count"] = found, number
    path.write_text(json.dumps(notebook, ensure_ascii=False, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    for path in NOTEBOOKS:
        store(path)

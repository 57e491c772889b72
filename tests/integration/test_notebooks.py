"""The notebooks of the documentation run and give the outputs that are stored in them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import nbformat
import pytest

from notebook import DOCS, NOTEBOOKS, Output, code_cells, read, run

NUMBER = re.compile(r"-?\d+\.\d+")
TRAINED = "trained"
"""The tag of cells that depend on training: another processor may give other last digits."""
each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def exact(output: Output) -> list[Any]:
    """What must be the same each time."""
    return [output["output_type"], output.get("text"), output.get("data"), output.get("execution_count")]


def roughly(output: Output) -> list[Any]:
    """What must be the same on every processor: kinds of output, and text without fractions."""
    data = output.get("data", {})
    text = "".join([*output.get("text", []), *data.get("text/plain", [])])
    return [output["output_type"], NUMBER.sub("#", text), sorted(data)]


@each_notebook
def test_every_cell_runs_and_shows_what_is_stored(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    notebook = read(path)
    for cell, found in zip(code_cells(notebook), run(notebook), strict=True):
        same = roughly if TRAINED in cell["metadata"].get("tags", []) else exact
        assert [*map(same, found)] == [*map(same, cell["outputs"])], "run: make notebooks"


def test_a_cell_that_fails_is_an_error() -> None:
    with pytest.raises(ZeroDivisionError):
        run({"cells": [{"cell_type": "code", "source": ["x = 1\n", "x / 0"]}]})


def test_what_a_cell_shows() -> None:
    cells = [
        {"cell_type": "code", "source": source} for source in (["x = 2\n", "print(x)\n", "x + 1"], ["x"], ["y = x"])
    ]
    first, second, third = run({"cells": cells})
    assert [each["output_type"] for each in first] == ["stream", "execute_result"]
    assert first[0]["text"] == ["2\n"]
    assert first[1]["data"] == {"text/plain": ["3"]}
    assert second[0]["data"] == {"text/plain": ["2"]}
    assert third == []


@each_notebook
def test_it_is_a_valid_notebook_and_small(path: Path) -> None:
    nbformat.validate(nbformat.reads(path.read_text(), as_version=4))
    assert path.stat().st_size <= 300_000


@each_notebook
def test_nothing_comes_from_other_hosts_and_links_lead_somewhere(path: Path) -> None:
    text = path.read_text()
    assert set(re.findall(r"https?://[^\"\\ ]+", text)) <= {"http://www.w3.org/2000/svg"}
    assert "<script" not in text
    for target in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (path.parent / target).exists(), target


def test_the_tutorial_shows_answers_models_and_explanations_as_html() -> None:
    pages = [
        "".join(output["data"].get("text/html", []))
        for cell in code_cells(read(DOCS / "tutorial.ipynb"))
        for output in cell["outputs"]
        if "data" in output
    ]
    for words in (
        "KnowledgeBase",
        "GaifmanModel",
        "Completion",
        "Evaluation",
        "without these facts",
        "<svg",
        "probability",
    ):
        assert any(words in page for page in pages), words

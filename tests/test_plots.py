"""Pictures."""

from __future__ import annotations

import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest

from gaifman.errors import OutputError
from gaifman.plots import degree_plot

DEGREES, COUNTS = np.array([0, 1, 2, 10, 300]), np.array([7, 500, 20, 3, 1])


def test_a_degree_plot_has_a_point_for_each_degree_and_says_who_is_alone(tmp_path: Path) -> None:
    path = tmp_path / "degrees.svg"
    degree_plot(DEGREES, COUNTS, path, "five hundred and more")
    text = path.read_text()
    ET.fromstring(text)
    assert "five hundred and more" in text
    assert "7 without neighbours" in text
    assert text.count("<use ") >= 4


@pytest.mark.parametrize(("end", "magic"), [("png", b"\x89PNG"), ("pdf", b"%PDF"), ("svg", b"<?xml")])
def test_the_end_of_the_name_says_what_is_written(end: str, magic: bytes, tmp_path: Path) -> None:
    path = tmp_path / f"degrees.{end}"
    degree_plot(DEGREES, COUNTS, path)
    assert path.read_bytes().startswith(magic)


def test_another_end_is_refused_and_nothing_written(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="cannot be told from its name"):
        degree_plot(DEGREES, COUNTS, tmp_path / "degrees.txt")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there_is_an_error_of_ours(tmp_path: Path) -> None:
    with pytest.raises(OutputError):
        degree_plot(DEGREES, COUNTS, tmp_path / "no" / "degrees.svg")


def test_without_matplotlib_the_message_says_what_to_install(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['matplotlib'] = None; sys.modules['matplotlib.figure'] = None\n"
        "import numpy as np; from gaifman.plots import degree_plot\n"
        f"degree_plot(np.array([1]), np.array([1]), {str(tmp_path / 'a.svg')!r})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "pip install 'gaifman[plots]'" in done.stderr
    assert list(tmp_path.iterdir()) == []

"""Plots."""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest

from gaifman.errors import OutputError
from gaifman.models.calibration import Reliability, fit_calibration, logistic, reliability
from gaifman.plots import check_plot, plot_degrees, plot_reliability

DEGREES, COUNTS = np.array([0, 1, 2, 10, 300]), np.array([7, 500, 20, 3, 1])


def test_a_degree_plot_has_a_point_for_each_degree_and_counts_isolated_objects(tmp_path: Path) -> None:
    path = tmp_path / "degrees.svg"
    plot_degrees(DEGREES, COUNTS, path, "five hundred and more")
    text = path.read_text()
    ET.fromstring(text)
    assert "five hundred and more" in text
    assert "7 without neighbours" in text
    assert text.count("<use ") >= 4


@pytest.mark.parametrize(("end", "magic"), [("png", b"\x89PNG"), ("pdf", b"%PDF"), ("svg", b"<?xml")])
def test_the_suffix_chooses_the_format(end: str, magic: bytes, tmp_path: Path) -> None:
    path = tmp_path / f"degrees.{end}"
    plot_degrees(DEGREES, COUNTS, path)
    assert path.read_bytes().startswith(magic)


def test_another_end_is_refused_and_nothing_written(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="cannot tell the format"):
        plot_degrees(DEGREES, COUNTS, tmp_path / "degrees.txt")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there_is_an_error_of_ours(tmp_path: Path) -> None:
    with pytest.raises(OutputError):
        plot_degrees(DEGREES, COUNTS, tmp_path / "no" / "degrees.svg")


def test_without_matplotlib_the_message_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(OutputError, match=r"pip install 'gaifman\[plots\]'"):
        plot_degrees(DEGREES, COUNTS, tmp_path / "a.svg")
    assert list(tmp_path.iterdir()) == []


def tables() -> tuple[Reliability, Reliability]:
    """A model that is too sure, before and after calibration."""
    rng = np.random.default_rng(0)
    x = rng.normal(0, 2, 4_000)
    targets = rng.random(4_000) < logistic(x)
    said = logistic(3 * x)
    found = fit_calibration(said[:2_000], targets[:2_000])
    return reliability(said[2_000:], targets[2_000:]), reliability(found.apply(said[2_000:]), targets[2_000:])


def test_a_reliability_plot_tells_both_errors(tmp_path: Path) -> None:
    before, after = tables()
    path = tmp_path / "reliability.svg"
    plot_reliability(before, after, path, "too sure")
    text = path.read_text()
    ET.fromstring(text)
    assert "too sure" in text
    for name, table in (("before", before), ("after", after)):
        assert f"{name} calibration: ECE {table.ece:.3f}" in text
    assert text.count("<use ") >= 20


def test_a_reliability_plot_is_the_same_file_each_time(tmp_path: Path) -> None:
    before, after = tables()
    for name in ("one.png", "two.png"):
        plot_reliability(before, after, tmp_path / name)
    assert (tmp_path / "one.png").read_bytes() == (tmp_path / "two.png").read_bytes()


def test_bins_without_tuples_are_left_out(tmp_path: Path) -> None:
    one = reliability([0.05, 0.95], [0, 1])
    plot_reliability(one, one, tmp_path / "two-bins.svg")
    assert "nan" not in (tmp_path / "two-bins.svg").read_text().lower()


def test_a_reliability_plot_needs_a_name_it_knows(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="cannot tell the format"):
        plot_reliability(*tables(), tmp_path / "reliability.jpeg2000")
    assert list(tmp_path.iterdir()) == []


def test_a_plot_can_be_checked_before(tmp_path: Path) -> None:
    check_plot(tmp_path / "a.svg")
    assert list(tmp_path.iterdir()) == []
    for name in ("a.gif", "no/a.svg"):
        with pytest.raises(OutputError):
            check_plot(tmp_path / name)

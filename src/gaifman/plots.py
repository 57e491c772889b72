"""Plots as SVG, PNG or PDF files, drawn by matplotlib (`pip install 'gaifman[plots]'`)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from gaifman.errors import OutputError
from gaifman.io.files import atomic_write, check_writable
from gaifman.kb.tables import Longs
from gaifman.models.calibration import Reliability

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from gaifman.evaluation.proposals import ProposalTest

SUFFIXES = (".svg", ".png", ".pdf")
TEXT_COLOUR, MARKER_COLOUR, SECOND_COLOUR = "#333333", "#1f6fb4", "#d98324"


def plot_degrees(degrees: Longs, counts: Longs, path: str | Path, title: str = "") -> None:
    """Plot how many objects have each degree, with logarithmic axes; objects without neighbours are in a note."""
    path = Path(path)
    check_suffix(path)
    shown = degrees > 0
    figure = new_figure()
    axes = figure.add_subplot()
    axes.loglog(degrees[shown], counts[shown], "o", markersize=3.5, color=MARKER_COLOUR, alpha=0.7, markeredgewidth=0)
    axes.set_xlabel("degree")
    axes.set_ylabel("objects")
    axes.set_xlim(left=0.8)
    axes.set_ylim(bottom=0.7)
    axes.set_title(title, loc="left", color=TEXT_COLOUR, fontsize=11)
    style_axes(axes)
    alone = int(counts[~shown].sum())
    if alone:
        axes.text(
            0.98,
            0.96,
            f"{alone:,} without neighbours",
            transform=axes.transAxes,
            ha="right",
            va="top",
            color=TEXT_COLOUR,
        )
    save_figure(figure, path)


def plot_reliability(uncalibrated: Reliability, calibrated: Reliability, path: str | Path, title: str = "") -> None:
    """Plot predicted against observed frequencies, before and after calibration, above a histogram of the bins.

    Error bars are the standard error of the observed frequency of a bin.
    """
    path = Path(path)
    check_suffix(path)
    figure = new_figure((6, 6))
    axes, below = figure.subplots(2, 1, sharex=True, height_ratios=(4, 1))
    axes.plot([0, 1], [0, 1], color="#888888", linewidth=1, linestyle=(0, (4, 3)), label="perfect calibration")
    for table, colour, marker, name in (
        (uncalibrated, SECOND_COLOUR, "s", "before"),
        (calibrated, MARKER_COLOUR, "o", "after"),
    ):
        shown = table.counts > 0
        share, count = table.observed[shown], table.counts[shown]
        label = f"{name} calibration: ECE {table.ece:.3f}"
        noise = np.sqrt(share * (1 - share) / count)
        style = {"color": colour, "marker": marker, "markersize": 5, "linewidth": 1.6, "elinewidth": 0.8}
        axes.errorbar(table.predicted[shown], share, noise, label=label, **style)
        below.stairs(table.counts, table.edges, color=colour, linewidth=1.6, baseline=None)
    axes.set_ylabel("observed frequency of answers")
    axes.set_title(title, loc="left", color=TEXT_COLOUR, fontsize=11)
    axes.legend(loc="best", frameon=False)
    below.set_ylabel("tuples")
    below.set_xlabel("predicted probability")
    _finish_reliability(axes, below)
    save_figure(figure, path)


def plot_proposals(proposals: ProposalTest, path: str | Path) -> None:
    """Plot the probabilities of proposed facts against the share that was held out, above the number of proposals.

    Error bars are the standard error of the share of a bin.
    """
    path, table = Path(path), proposals.reliability
    check_suffix(path)
    figure = new_figure((6, 6))
    axes, below = figure.subplots(2, 1, sharex=True, height_ratios=(4, 1))
    axes.plot([0, 1], [0, 1], color="#888888", linewidth=1, linestyle=(0, (4, 3)), label="perfect calibration")
    if table is not None:
        shown = table.counts > 0
        share, count = table.observed[shown], table.counts[shown]
        noise = np.sqrt(share * (1 - share) / count)
        style = {"color": MARKER_COLOUR, "marker": "o", "markersize": 5, "linewidth": 1.6, "elinewidth": 0.8}
        label = f"proposed facts: calibration error {table.ece:.3f}"
        axes.errorbar(table.predicted[shown], share, noise, label=label, **style)
        below.bar(table.edges[:-1], table.counts, np.diff(table.edges), align="edge", color=MARKER_COLOUR, alpha=0.6)
    axes.set_ylabel("share that was held out")
    title = f"{proposals.held_out:,} facts held out, {proposals.expected:,.0f} expected"
    axes.set_title(title, loc="left", color=TEXT_COLOUR, fontsize=11)
    axes.legend(loc="upper left", frameon=False)
    below.set_ylabel("proposals")
    below.set_xlabel("probability")
    _finish_reliability(axes, below)
    save_figure(figure, path)


def _finish_reliability(axes: Axes, below: Axes) -> None:
    """Set the limits and the style of a reliability plot and the histogram below it."""
    axes.set_xlim(0, 1)
    axes.set_ylim(-0.02, 1.02)
    below.set_ylim(bottom=0)
    style_axes(axes)
    style_axes(below)


def style_axes(axes: Axes) -> None:
    """Draw a light grid and no box."""
    axes.grid(visible=True, which="major", color="#e0e0e0", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def check_suffix(path: Path) -> None:
    """Raise an error unless the name ends with a supported suffix."""
    if path.suffix.lower() not in SUFFIXES:
        raise OutputError(
            f"cannot tell the format of {path} from its name", hint=f"end the name with {', '.join(SUFFIXES)}"
        )


def check_plot(path: Path) -> None:
    """Raise an error if the plot could not be written, before long work that ends with it."""
    check_suffix(path)
    check_writable(path)
    new_figure()


def save_figure(figure: Figure, path: Path) -> None:
    """Write the figure atomically; equal figures give equal files."""
    import matplotlib as mpl

    file_format = path.suffix.lower()[1:]
    undated = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {"Software": None}}[file_format]
    with atomic_write(path) as temporary, mpl.rc_context({"svg.hashsalt": "gaifman", "svg.fonttype": "none"}):
        figure.savefig(temporary, format=file_format, dpi=160, metadata=undated)


def new_figure(size: tuple[float, float] = (6, 4)) -> Figure:
    """Return a figure without a window and without pyplot's global state."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise OutputError(
            "plots need matplotlib, which is not installed", hint="pip install 'gaifman[plots]'"
        ) from None
    return Figure(figsize=size, layout="constrained")

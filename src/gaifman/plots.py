"""Pictures in files, SVG, PNG or PDF by the end of the name; drawn by matplotlib, which comes with `gaifman[plots]`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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

SUFFIXES = (".svg", ".png", ".pdf")
TEXT_COLOUR, MARKER_COLOUR, SECOND_COLOUR = "#333333", "#1f6fb4", "#d98324"


def plot_degrees(degrees: Longs, counts: Longs, path: str | Path, title: str = "") -> None:
    """How many objects have each degree, both axes logarithmic; objects without neighbours are told in words."""
    path = Path(path)
    check_suffix(path)
    shown = degrees > 0
    figure = _figure()
    axes = figure.add_subplot()
    axes.loglog(degrees[shown], counts[shown], "o", markersize=3.5, color=MARKER_COLOUR, alpha=0.7, markeredgewidth=0)
    axes.set_xlabel("degree: objects that share a fact with it")
    axes.set_ylabel("objects with this degree")
    axes.set_xlim(left=0.8)
    axes.set_ylim(bottom=0.7)
    axes.set_title(title, loc="left", color=TEXT_COLOUR, fontsize=11)
    _style_axes(axes)
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
    """What was said beside what was so, before and after calibration; below, how many tuples say so.

    Bars are the standard error of a share, from the number of tuples in its bin.
    """
    path = Path(path)
    check_suffix(path)
    figure = _figure((6, 6))
    axes, below = figure.subplots(2, 1, sharex=True, height_ratios=(4, 1))
    axes.plot([0, 1], [0, 1], color="#888888", linewidth=1, linestyle=(0, (4, 3)), label="as it should be")
    for table, colour, marker, name in (
        (uncalibrated, SECOND_COLOUR, "s", "before"),
        (calibrated, MARKER_COLOUR, "o", "after"),
    ):
        shown = table.counts > 0
        share, count = table.observed[shown], table.counts[shown]
        label = f"{name} calibration: expected error {table.ece:.3f}"
        noise = np.sqrt(share * (1 - share) / count)
        style = {"color": colour, "marker": marker, "markersize": 5, "linewidth": 1.6, "elinewidth": 0.8}
        axes.errorbar(table.predicted[shown], share, noise, label=label, **style)
        below.stairs(table.counts, table.edges, color=colour, linewidth=1.6, baseline=None)
    axes.set_ylabel("share of answers among them")
    axes.set_xlim(0, 1)
    axes.set_ylim(-0.02, 1.02)
    axes.set_title(title, loc="left", color=TEXT_COLOUR, fontsize=11)
    axes.legend(loc="best", frameon=False)
    below.set_ylim(bottom=0)
    below.set_ylabel("tuples")
    below.set_xlabel("probability they were given")
    _style_axes(axes)
    _style_axes(below)
    save_figure(figure, path)


def plot_throughput(
    sizes: Sequence[int | None],
    lines: Mapping[str, Sequence[float | None]],
    path: str | Path,
    title: str = "",
    reference: tuple[str, float] | None = None,
) -> None:
    """Answers a second, on a logarithmic axis, against the size of neighbourhoods; None as a size is ∞.

    A line has a gap where nothing was measured. The reference is a figure to compare with.
    """
    path = Path(path)
    check_suffix(path)
    figure = _figure()
    axes, places = figure.add_subplot(), np.arange(len(sizes))
    for (name, values), colour, marker in zip(
        lines.items(), (MARKER_COLOUR, SECOND_COLOUR, TEXT_COLOUR), "os^", strict=False
    ):
        heights = np.array([np.nan if value is None else value for value in values])
        axes.plot(places, heights, color=colour, marker=marker, markersize=5, linewidth=1.6, label=name)
    if reference:
        axes.axhline(reference[1], color="#888888", linewidth=1, linestyle=(0, (4, 3)))
        place = axes.get_yaxis_transform()  # at the right end of the line, above it, where no legend is
        axes.text(1, reference[1] * 1.1, reference[0], transform=place, ha="right", va="bottom", color="#555555")
    axes.set_yscale("log")
    axes.set_xticks(places, ["∞" if size is None else f"{size:,}" for size in sizes])
    axes.set_xlabel("k: objects in a neighbourhood besides the pair's own")
    axes.set_ylabel("answers a second")
    axes.set_title(title, loc="left", color=TEXT_COLOUR, fontsize=11)
    axes.legend(loc="lower left", bbox_to_anchor=(0, 0.12), frameon=False)
    _style_axes(axes)
    save_figure(figure, path)


def _style_axes(axes: Axes) -> None:
    """A light grid behind, no box around."""
    axes.grid(visible=True, which="major", color="#e0e0e0", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def check_suffix(path: Path) -> None:
    """Raise unless a picture can be written under this name."""
    if path.suffix.lower() not in SUFFIXES:
        raise OutputError(
            f"what kind of picture {path} is cannot be told from its name",
            hint=f"end the name with {', '.join(SUFFIXES)}",
        )


def check_plot(path: Path) -> None:
    """Raise where a picture could not be drawn later: for work that takes long and draws at its end."""
    check_suffix(path)
    check_writable(path)
    _figure()


def save_figure(figure: Figure, path: Path) -> None:
    """Write the picture, whole or not at all; the same picture is the same file."""
    import matplotlib as mpl

    form = path.suffix.lower()[1:]
    undated = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {"Software": None}}[form]
    with atomic_write(path) as temporary, mpl.rc_context({"svg.hashsalt": "gaifman", "svg.fonttype": "none"}):
        figure.savefig(temporary, format=form, dpi=160, metadata=undated)


def _figure(size: tuple[float, float] = (6, 4)) -> Figure:
    """A figure without a window: nothing global is touched."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise OutputError(
            "pictures need matplotlib, which is not installed", hint="pip install 'gaifman[plots]'"
        ) from None
    return Figure(figsize=size, layout="constrained")

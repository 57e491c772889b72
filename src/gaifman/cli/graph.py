"""`gaifman graph`: how the objects hang together."""

from __future__ import annotations

from typing import Any

import click

from gaifman.cli.terminal import (
    check_overwrite,
    input_options,
    json_option,
    open_kb,
    print_fields,
    print_json,
    print_table,
)

BAR_WIDTH = 40
"""Characters of the longest bar."""


@click.command(short_help="Show the Gaifman graph: who has how many neighbours.")
@click.argument("kb", nargs=-1, required=True)
@click.option("--plot", metavar="FILE", help="Draw the degree distribution, both axes logarithmic: .svg, .png or .pdf.")
@click.option("--force", is_flag=True, help="Replace FILE if it is there.")
@click.option("--all", "everything", is_flag=True, help="List every degree, not ranges of degrees.")
@input_options
@json_option
def graph(
    kb: tuple[str, ...],
    plot: str | None,
    force: bool,
    show_all: bool,
    file_format: str | None,
    table: str | None,
    iris: str,
    as_json: bool,
) -> None:
    """Show the Gaifman graph of the files KB: two objects are adjacent when they stand in one fact.

    \b
    Examples:
      gaifman graph demo
      gaifman graph train.tsv.gz --plot degrees.svg
      gaifman graph demo --json
    """
    from gaifman.kb.gaifman_graph import build_graph

    if plot:
        check_overwrite(plot, force=force)
    found = build_graph(open_kb(kb, file_format, table, iris))
    body = found.summary()
    if plot:
        from gaifman.plots import plot_degrees

        plot_degrees(*found.degree_distribution(), plot, f"{body['objects']:,} objects, {body['edges']:,} edges")
    if as_json:
        print_json(body)
        return
    print_fields(summary_fields(body))
    rows = [(str(d), n) for d, n in body["degrees"]] if show_all else degree_ranges(body["degrees"])
    print_distribution(rows, body["objects"])
    if plot:
        click.echo(f"wrote {plot}", err=True)


def summary_fields(body: dict[str, Any]) -> list[tuple[str, object]]:
    """The summary, for people."""
    return [
        ("objects", body["objects"]),
        ("edges", body["edges"]),
        ("without neighbours", body["isolated"]),
        ("mean degree", f"{body['mean_degree']:.1f}"),
        ("median degree", body["median_degree"]),
        ("largest degree", f"{body['largest_degree']:,} ({body['most_connected']})"),
    ]


def degree_ranges(distribution: list[tuple[int, int]]) -> list[tuple[str, int]]:
    """Degrees from one power of two to the next: 0, 1, 2–3, 4–7 …, and how many objects have one of them.

    >>> degree_ranges([(0, 1), (1, 5), (2, 2), (3, 1), (9, 1)])
    [('0', 1), ('1', 5), ('2–3', 3), ('8–15', 1)]
    """
    counts: dict[int, int] = {}
    for degree, count in distribution:
        counts[degree.bit_length()] = counts.get(degree.bit_length(), 0) + count
    return [(str(b) if b < 2 else f"{1 << (b - 1):,}–{(1 << b) - 1:,}", count) for b, count in counts.items()]


def print_distribution(rows: list[tuple[str, int]], objects: int) -> None:
    """The table of degrees, with bars."""
    longest = max((count for _, count in rows), default=1)
    shown = [(d, n, f"{n / objects:.1%}", "█" * round(BAR_WIDTH * n / longest) or "▏") for d, n in rows]
    print_table("Degrees", ["degree", "objects", "share", ""], shown, right=[0, 1, 2])

"""`gaifman mine`: features that are frequent around a query's answers, as a file."""

from __future__ import annotations

from typing import Any

import click

from gaifman.cli.neighbourhood import sampling_options
from gaifman.cli.terminal import check_overwrite, input_options, json_option, open_kb, print_json, print_table

MAX_FEATURES = 10
"""Features listed on the terminal; the file has all."""


@click.command(short_help="Find features that tell a query's answers from other tuples.")
@click.argument("kb")
@click.argument("query")
@click.option("--output", "-o", required=True, metavar="FILE", help="Where to write the features: a .phi file.")
@click.option("--limit", type=int, default=200, show_default=True, help="Features to keep at most.")
@click.option("--support", type=float, default=0.02, show_default=True, help="Least share of the answers, 0 to 1.")
@sampling_options
@click.option("--draws", "-w", type=int, default=1, show_default=True, help="Neighbourhoods for each answer.")
@click.option("--sample", type=int, default=2000, show_default=True, help="Answers to look at, at most.")
@click.option("--steps", type=int, default=3, show_default=True, help="Facts of a path at most, 1 to 3.")
@click.option("--with", "others", multiple=True, metavar="FILE", help="Read this file too.")
@click.option("--force", is_flag=True, help="Replace FILE if it is there.")
@input_options
@json_option
def mine(
    kb: str,
    query: str,
    output: str,
    max_features: int,
    min_support: float,
    radius: int,
    size: int | None,
    draws: int,
    sample: int,
    max_path_length: int,
    seed: int,
    extra_files: tuple[str, ...],
    force: bool,
    file_format: str | None,
    table: str | None,
    iris: str,
    as_json: bool,
) -> None:
    """Find paths, constants and types that are frequent around the answers of QUERY and rare around other tuples.

    \b
    Examples:
      gaifman mine demo "borders(x, y)" -o borders.phi
      gaifman mine train.tsv "born_in(x, y)" -o born_in.phi --limit 50 --support 0.1 --steps 2
    """
    from pathlib import Path

    from gaifman.features.mining import MiningConfig, known_answers
    from gaifman.features.mining import mine as mined
    from gaifman.io.files import atomic_write
    from gaifman.kb.gaifman_graph import build_graph
    from gaifman.logic.parser import parse_query

    check_overwrite(output, force=force)
    settings = MiningConfig(max_features, min_support, radius, size, draws, sample, seed, max_path_length)
    known = open_kb((kb, *extra_files), file_format, table, iris)
    asked = parse_query(query, known)
    graph = build_graph(known)
    found = mined(graph, *known_answers(graph, asked), settings)
    drawn = f"radius {radius}, size {'all' if size is None else size}, {draws} draw{'s' if draws > 1 else ''}"
    title = (
        f"mined for {asked}: {drawn}, support {min_support:g}, sample {sample}, steps {max_path_length}, seed {seed}"
    )
    with atomic_write(Path(output)) as temporary:
        temporary.write_text(found.to_text(title), encoding="utf-8")
    rows: list[dict[str, Any]] = [
        {"feature": str(p.feature), "support": p.support, "corrupted": p.negative_support, "gain": p.gain}
        for p in found.mined_features
    ]
    if as_json:
        counts = {"found": found.frequent_count, "answers": found.answer_count, "corruptions": found.negative_count}
        print_json({"written": output, "query": str(asked), **counts, "features": rows})
        return
    shown = [
        (row["feature"], f"{row['support']:.1%}", f"{row['corrupted']:.1%}", f"{row['gain']:.3f}")
        for row in rows[:MAX_FEATURES]
    ]
    if shown:
        print_table("The best features", ["feature", "answers", "others", "bits"], shown, right=[1, 2, 3])
    click.echo(f"wrote {output}: {len(rows):,} of {found.frequent_count:,} frequent patterns", err=True)

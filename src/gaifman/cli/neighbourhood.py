"""`gaifman neighbourhood`: what is drawn around some objects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from gaifman.cli.terminal import Command, input_options, json_option, open_kb, print_fields, print_json
from gaifman.errors import shorten

if TYPE_CHECKING:
    from gaifman.sampling.neighbourhoods import Neighbourhood

MAX_FACTS = 30
"""Facts listed unless all are asked for."""


class CountOrAll(click.ParamType[int | None]):
    """A whole number, or `all`."""

    name = "N|all"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | None:
        """None for `all`."""
        if value == "all" or value is None:
            return None
        try:
            return int(value)
        except ValueError:
            self.fail(f"{shorten(str(value))!r} is neither a whole number nor all.", param, ctx)


def sampling_options(command: Command) -> Command:
    """How neighbourhoods are drawn, for every command that draws some."""
    for option in (
        click.option("--seed", type=int, default=0, show_default=True, help="The same seed draws the same."),
        click.option(
            "--size", "-k", type=CountOrAll(), default=20, show_default=True, help="Members besides the tuple at most."
        ),
        click.option(
            "--radius", "-r", type=int, default=1, show_default=True, help="How many steps away members may be."
        ),
    ):
        command = option(command)
    return command


@click.command(short_help="Draw neighbourhoods of objects and show what is in them.")
@click.argument("kb")
@click.argument("objects", nargs=-1, required=True, metavar="OBJECT...")
@sampling_options
@click.option("--draws", "-w", type=int, default=1, show_default=True, help="How many neighbourhoods to draw.")
@click.option("--with", "others", multiple=True, metavar="FILE", help="Read this file too.")
@click.option("--all", "everything", is_flag=True, help="List every fact.")
@input_options
@json_option
def neighbourhood(
    kb: str,
    objects: tuple[str, ...],
    radius: int,
    size: int | None,
    draws: int,
    seed: int,
    extra_files: tuple[str, ...],
    show_all: bool,
    file_format: str | None,
    table: str | None,
    iris: str,
    as_json: bool,
) -> None:
    """Draw neighbourhoods of the tuple OBJECT... in KB, by Algorithm 1 of the paper, and show what is inside.

    \b
    Examples:
      gaifman neighbourhood demo france spain --size 5
      gaifman neighbourhood demo france --radius 2 --size all
      gaifman neighbourhood train.tsv ann bob --draws 3 --seed 7 --json
    """
    from gaifman.sampling.neighbourhoods import named_neighbourhoods

    known = open_kb((kb, *extra_files), file_format, table, iris)
    drawn = named_neighbourhoods(known, objects, radius=radius, size=size, draws=draws, seed=seed)
    if as_json:
        found = [one.as_dict() for one in drawn]
        print_json({"objects": objects, "radius": radius, "size": size, "seed": seed, "draws": found})
        return
    for remark in neighbourhood_notes(objects, drawn[0], radius):
        click.echo(remark + "\n")
    for number, one in enumerate(drawn):
        if draws > 1:
            click.echo(f"{'' if number == 0 else chr(10)}Draw {number + 1} of {draws}")
        print_neighbourhood(one, None if show_all else MAX_FACTS)


def neighbourhood_notes(objects: tuple[str, ...], neighbourhood: Neighbourhood, radius: int) -> list[str]:
    """What may surprise about a tuple."""
    found = [
        f"{name} stands {objects.count(name)} times in the tuple: it is one member, and each of its places draws a "
        "share of its neighbours."
        for name in dict.fromkeys(objects)
        if objects.count(name) > 1
    ]
    if radius > 0 and len(neighbourhood.members) == len(set(objects)) and not neighbourhood.not_drawn:
        found.append("No fact links the tuple to another object: its neighbourhood is the tuple itself.")
    return found


def print_neighbourhood(neighbourhood: Neighbourhood, max_facts: int | None, more_hint: str = "--all") -> None:
    """A neighbourhood, for people: members by distance, what was left out, the facts inside."""
    distances = sorted({distance for _, distance in neighbourhood.members} | set(neighbourhood.not_drawn))
    rows = []
    for distance in distances:
        names = ", ".join(name for name, far in neighbourhood.members if far == distance)
        left = neighbourhood.not_drawn.get(distance, 0)
        label = "the tuple" if distance == 0 else f"{distance} step{'s' if distance > 1 else ''} away"
        rows.append((label, " ".join(filter(None, [names, f"({left:,} not drawn)" if left else ""]))))
    print_fields([*rows, ("facts inside", len(neighbourhood.facts))])
    for fact in neighbourhood.facts[:max_facts]:
        click.echo(f"  {fact}")
    rest = len(neighbourhood.facts) - (max_facts or len(neighbourhood.facts))
    if rest > 0:
        click.echo(f"  … and {rest:,} more: {more_hint} lists them")

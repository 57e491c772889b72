"""`gaifman features`: what a model would see of some objects, and which facts say so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from gaifman.cli.neighbourhood import drawing_options
from gaifman.cli.terminal import json_option, open_kb, print_fields, print_json, reading_options

if TYPE_CHECKING:
    from gaifman.kb import KnowledgeBase
    from gaifman.phi import FeatureSet

SHOWN = 40
"""Features listed unless all are asked for."""
NO_FACT = "no single fact"


@click.command(short_help="Show the features of objects that are not 0, with the facts that say so.")
@click.argument("kb")
@click.argument("variables", metavar="VARIABLES")
@click.argument("objects", nargs=-1, required=True, metavar="OBJECT...")
@click.option("--phi", default="paper", show_default=True, help="A .phi file, or paper, universal-schema or default.")
@drawing_options
@click.option("--with", "others", multiple=True, metavar="FILE", help="Read this file too.")
@click.option("--all", "everything", is_flag=True, help="List every feature that is not 0.")
@reading_options
@json_option
def features(
    kb: str,
    variables: str,
    objects: tuple[str, ...],
    phi: str,
    radius: int,
    size: int | None,
    seed: int,
    others: tuple[str, ...],
    everything: bool,
    form: str | None,
    table: str | None,
    iris: str,
    as_json: bool,
) -> None:
    """Draw a neighbourhood of the tuple OBJECT..., which stand for the query's VARIABLES, and show its features.

    \b
    Examples:
      gaifman features demo x,y france spain
      gaifman features demo x,y france spain --phi universal-schema --size all
      gaifman features train.tsv x,y ann bob --phi mined.phi --json
    """
    names = named_variables(variables, len(objects))
    known = open_kb((kb, *others), form, table, iris)
    body = evaluated(known, feature_set(phi, len(objects), known), objects, radius, size, seed)
    if as_json:
        print_json({"variables": dict(zip(names, objects, strict=True)), "radius": radius, "size": size, **body})
        return
    rows: list[tuple[str, object]] = [
        (f"{name} (s{i})", obj) for i, (name, obj) in enumerate(zip(names, objects, strict=True), start=1)
    ]
    found = body["features"]
    print_fields([*rows, ("members", len(body["members"])), ("features", f"{len(found):,} of {body['of']:,} not 0")])
    for one in found if everything else found[:SHOWN]:
        click.echo(f"{number(one['value']):>11}  {one['feature']}")
        click.echo(f"{'':13}  {' '.join(one['facts']) or NO_FACT}{' …' if one['more'] else ''}")
    if len(found) > SHOWN and not everything:
        click.echo(f"… and {len(found) - SHOWN:,} more: --all lists them")


def number(value: float) -> str:
    """A value as a person reads it.

    >>> number(1.0), number(66439000.0), number(0.25)
    ('1', '66,439,000', '0.25')
    """
    return f"{value:,.0f}" if value.is_integer() else f"{value:g}"


def named_variables(text: str, objects: int) -> list[str]:
    """The query's variables, as many as there are objects."""
    from gaifman.errors import FormulaError, shorten

    names = [name.strip().removeprefix("?") for name in text.split(",")]
    for name in names:
        if not name.isidentifier():
            raise FormulaError(f"{shorten(name)!r} is no variable", hint="write the query's variables so: x,y")
    if len(set(names)) < len(names):
        raise FormulaError(f"the variables {text} are not all different")
    if len(names) != objects:
        raise FormulaError(
            f"{len(names)} variable{'s' if len(names) > 1 else ''} ({', '.join(names)}), but {objects} "
            f"object{'s' if objects > 1 else ''}",
            hint="name one variable for each object: x,y for two",
        )
    return names


def feature_set(name: str, width: int, known: KnowledgeBase) -> FeatureSet:
    """A named set, or that of a file."""
    from gaifman.phi import chosen

    return chosen(name, width, {r.name: r.arity for r in known.relations.values()}, known.attributes, known)


def evaluated(
    known: KnowledgeBase, phi: FeatureSet, objects: tuple[str, ...], radius: int, size: int | None, seed: int
) -> dict[str, Any]:
    """The features that are not 0, with facts, for JSON."""
    from gaifman.features import features_of
    from gaifman.graph import graph_of
    from gaifman.grounds import witnesses
    from gaifman.neighbourhoods import Sampling, draw
    from gaifman.plans import plan_of

    tuples = [[known.id(name) for name in objects]]
    plan = plan_of(phi, known, len(objects))
    graph = graph_of(known)
    drawn = draw(graph, tuples, Sampling(radius, size, 1, seed))
    values = features_of(graph, drawn, plan).dense()[0]
    members = [known.name(int(member)) for member in drawn.of(0)]
    inside = known.induced(members).structure()
    found = []
    for column in values.nonzero()[0].tolist():
        feature = plan.features[column]
        facts, more = witnesses(inside, feature, objects)
        found.append({"feature": str(feature), "value": float(values[column]), "facts": facts, "more": more})
    return {"seed": seed, "members": members, "of": len(plan.features), "features": found}

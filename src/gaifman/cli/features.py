"""`gaifman features`: what a model would see of some objects, and which facts say so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from gaifman.cli.neighbourhood import sampling_options
from gaifman.cli.terminal import input_options, json_option, open_kb, print_fields, print_json

if TYPE_CHECKING:
    from gaifman.features.feature_sets import FeatureSet
    from gaifman.kb.knowledge_base import KnowledgeBase

MAX_FEATURES = 40
"""Features listed unless all are asked for."""
NO_FACT = "no single fact"


@click.command(short_help="Show the features of objects that are not 0, with the facts that say so.")
@click.argument("kb")
@click.argument("variables", metavar="VARIABLES")
@click.argument("objects", nargs=-1, required=True, metavar="OBJECT...")
@click.option("--phi", default="paper", show_default=True, help="A .phi file, or paper, universal-schema or default.")
@sampling_options
@click.option("--with", "others", multiple=True, metavar="FILE", help="Read this file too.")
@click.option("--all", "everything", is_flag=True, help="List every feature that is not 0.")
@input_options
@json_option
def features(
    kb: str,
    variables: str,
    objects: tuple[str, ...],
    phi: str,
    radius: int,
    size: int | None,
    seed: int,
    extra_files: tuple[str, ...],
    show_all: bool,
    file_format: str | None,
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
    names = parse_variables(variables, len(objects))
    known = open_kb((kb, *extra_files), file_format, table, iris)
    body = evaluate_features(known, load_feature_set(phi, len(objects), known), objects, radius, size, seed)
    if as_json:
        print_json({"variables": dict(zip(names, objects, strict=True)), "radius": radius, "size": size, **body})
        return
    rows: list[tuple[str, object]] = [
        (f"{name} (s{i})", obj) for i, (name, obj) in enumerate(zip(names, objects, strict=True), start=1)
    ]
    found = body["features"]
    print_fields([*rows, ("members", len(body["members"])), ("features", f"{len(found):,} of {body['of']:,} not 0")])
    for one in found if show_all else found[:MAX_FEATURES]:
        click.echo(f"{format_value(one['value']):>11}  {one['feature']}")
        click.echo(f"{'':13}  {' '.join(one['facts']) or NO_FACT}{' …' if one['more'] else ''}")
    if len(found) > MAX_FEATURES and not show_all:
        click.echo(f"… and {len(found) - MAX_FEATURES:,} more: --all lists them")


def format_value(value: float) -> str:
    """A value as a person reads it.

    >>> format_value(1.0), format_value(66439000.0), format_value(0.25)
    ('1', '66,439,000', '0.25')
    """
    return f"{value:,.0f}" if value.is_integer() else f"{value:g}"


def parse_variables(text: str, objects: int) -> list[str]:
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


def load_feature_set(name: str, arity: int, known: KnowledgeBase) -> FeatureSet:
    """A named set, or that of a file."""
    from gaifman.features.feature_sets import resolve_feature_set

    return resolve_feature_set(
        name, arity, {r.name: r.arity for r in known.relations.values()}, known.attributes, known
    )


def evaluate_features(
    known: KnowledgeBase, phi: FeatureSet, objects: tuple[str, ...], radius: int, size: int | None, seed: int
) -> dict[str, Any]:
    """The features that are not 0, with facts, for JSON."""
    from gaifman.features.compiler import compile_features
    from gaifman.features.evaluator import compute_features
    from gaifman.features.grounding import find_witness_facts
    from gaifman.kb.gaifman_graph import build_graph
    from gaifman.sampling.neighbourhoods import SamplingConfig, draw_neighbourhoods

    tuples = [[known.object_id(name) for name in objects]]
    plan = compile_features(phi, known, len(objects))
    graph = build_graph(known)
    drawn = draw_neighbourhoods(graph, tuples, SamplingConfig(radius, size, 1, seed))
    values = compute_features(graph, drawn, plan).to_dense()[0]
    members = [known.object_name(int(member)) for member in drawn.members_of(0)]
    inside = known.induced(members).structure()
    found = []
    for column in values.nonzero()[0].tolist():
        feature = plan.features[column]
        facts, more = find_witness_facts(inside, feature, objects)
        found.append({"feature": str(feature), "value": float(values[column]), "facts": facts, "more": more})
    return {"seed": seed, "members": members, "of": len(plan.features), "features": found}

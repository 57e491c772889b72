"""`gaifman info`: what a knowledge base holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from gaifman.cli.console import (
    Command,
    check_overwrite,
    input_options,
    json_option,
    open_kb,
    print_fields,
    print_json,
    print_table,
)
from gaifman.errors import shorten

if TYPE_CHECKING:
    from gaifman.features.feature_sets import FeatureSet
    from gaifman.kb.knowledge_base import KnowledgeBase
    from gaifman.sampling.neighbourhoods import Neighbourhood


@click.command(short_help="Show what a knowledge base holds.")
@click.argument("kb", nargs=-1, required=True)
@input_options
@click.option("--all", "show_all", is_flag=True, help="List every relation and attribute, not only the largest.")
@json_option
def info(
    kb: tuple[str, ...], file_format: str | None, table: str | None, iris: str, show_all: bool, as_json: bool
) -> None:
    """Show what the files KB hold together; `demo` is the bundled knowledge base.

    \b
    Examples:
      gaifman info demo
      gaifman info train.tsv.gz types.tsv ages.tsv
      gaifman info facts.txt --format nary --json
    """
    known = open_kb(kb, file_format, table, iris)
    body = summary(known)
    if as_json:
        print_json(body)
        return
    print_fields((name, body[name]) for name in ("objects", "facts", "relations", "attributes", "fingerprint"))
    shown = None if show_all else 20
    _print_relations(known, shown)
    _print_attributes(known, shown)
    if known.notes:
        print_table(
            "Notes", ["what", "count", "example"], [(n.text, n.count, n.example) for n in known.notes], right=[1]
        )


def summary(known: KnowledgeBase) -> dict[str, Any]:
    """What there is, as fields for JSON."""
    return {
        "objects": len(known.objects),
        "facts": len(known),
        "relations": len(known.relations),
        "attributes": len(known.attributes),
        "fingerprint": known.fingerprint,
        "by_relation": {r.name: {"arity": r.arity, "facts": r.count} for r in known.relations.values()},
        "by_attribute": {a.name: {"values": a.count} for a in known.attributes.values()},
        "notes": [{"what": n.text, "count": n.count, "example": n.example} for n in known.notes],
    }


def _print_relations(known: KnowledgeBase, shown: int | None) -> None:
    relations = sorted(known.relations.values(), key=lambda relation: -relation.count)
    rows = [(relation.name, relation.arity, relation.count) for relation in relations[:shown]]
    print_table("Relations", ["name", "arity", "facts"], rows, right=[1, 2])
    _print_rest(len(relations) - len(rows), "relations")


def _print_attributes(known: KnowledgeBase, shown: int | None) -> None:
    if not known.attributes:
        return
    ranges = _ranges(known)
    rows = [(name, a.count, *ranges[name]) for name, a in list(known.attributes.items())[:shown]]
    print_table("Attributes", ["name", "values", "min", "max"], rows, right=[1, 2, 3])
    _print_rest(len(known.attributes) - len(rows), "attributes")


def _ranges(known: KnowledgeBase) -> Mapping[str, tuple[str, str]]:
    values: dict[str, list[float]] = {}
    for attribute, _, value in known.values():
        values.setdefault(attribute, []).append(value)
    return {name: (f"{min(found):,.12g}", f"{max(found):,.12g}") for name, found in values.items()}


def _print_rest(count: int, what: str) -> None:
    if count > 0:
        click.echo(f"… and {count:,} more {what}: --all lists them")


OUTPUT_FORMATS = ("facts", "triples", "nary", "parquet", "duckdb")


@click.command(short_help="Write a knowledge base in another format.")
@click.argument("source", nargs=-1, required=True, metavar="IN...")
@click.argument("target", metavar="OUT")
@input_options
@click.option(
    "--to",
    "output_format",
    type=click.Choice(OUTPUT_FORMATS),
    metavar="FORMAT",
    help=f"How to write, instead of by the end of the name: {', '.join(OUTPUT_FORMATS)}.",
)
@click.option("--lossy", is_flag=True, help="Leave out what the format cannot hold.")
@click.option("--force", is_flag=True, help="Replace OUT if it is there.")
@json_option
def convert(
    source: tuple[str, ...],
    target: str,
    file_format: str | None,
    table: str | None,
    iris: str,
    output_format: str | None,
    lossy: bool,
    force: bool,
    as_json: bool,
) -> None:
    """Read the files IN and write what they hold together to OUT, whole or not at all.

    \b
    Examples:
      gaifman convert train.tsv.gz types.tsv family.duckdb
      gaifman convert demo countries.parquet
      gaifman convert graph.ttl graph.facts.gz --iris local
    """
    from gaifman.io import write

    check_overwrite(target, force=force)
    known = open_kb(source, file_format, table, iris)
    write(known, target, format=output_format, lossy=lossy)
    if as_json:
        print_json({"written": target, "facts": len(known), "fingerprint": known.fingerprint})
    else:
        click.echo(f"wrote {target}: {len(known):,} facts, fingerprint {known.fingerprint}", err=True)


INPUT_KINDS = ("query", "formula", "feature")


@click.command(short_help="Show how a formula, a query or a feature is read.")
@click.argument("text")
@click.option(
    "--as", "kind", type=click.Choice(INPUT_KINDS), default="query", show_default=True, help="What the text is."
)
@click.option("--kb", multiple=True, metavar="FILE", help="Check the names against this knowledge base (or `demo`).")
@input_options
@json_option
def parse(
    text: str, kind: str, kb: tuple[str, ...], file_format: str | None, table: str | None, iris: str, as_json: bool
) -> None:
    """Show how TEXT is read: its canonical print, every bracket, and the names it uses.

    \b
    Examples:
      gaifman parse "exists z. borders(x, z) & borders(z, y)"
      gaifman parse "two_steps(x, y) :- borders(x, z), borders(z, y)" --kb demo
      gaifman parse "sum population(x) for borders(s1, x)" --as feature --json
    """
    from gaifman.logic.parser import parse as parse_formula
    from gaifman.logic.parser import parse_feature, parse_query

    vocabulary = open_kb(kb, file_format, table, iris).schema if kb else None
    read = {"query": parse_query, "formula": parse_formula, "feature": parse_feature}[kind]
    body = parse_fields(read(text, vocabulary), kind)  # type: ignore[operator]
    if as_json:
        print_json(body)
        return
    fields = [(kind, body["canonical"]), ("ASCII", body["ascii"]), ("read as", body["bracketed"])]
    fields += [(name, ", ".join(body[name]) or "none") for name in ("free", "relations", "attributes", "objects")]
    print_fields((name, value) for name, value in fields if value != "none" or name == "free")


def parse_fields(node: Any, kind: str) -> dict[str, Any]:
    """What was read, as fields for JSON."""
    from gaifman.logic.ast import Atom, Attribute, Constant, free_variables, to_ascii, to_bracketed, walk
    from gaifman.logic.printer import format_relation

    parts = list(walk(node))
    atoms = (part for part in parts if isinstance(part, Atom) and isinstance(part.relation, str))
    return {
        "kind": kind,
        "canonical": str(node),
        "ascii": to_ascii(node),
        "bracketed": to_bracketed(node),
        "free": [str(variable) for variable in free_variables(node)],
        "relations": sorted({f"{format_relation(atom.relation_name)}/{len(atom.terms)}" for atom in atoms}),
        "attributes": sorted({format_relation(part.name) for part in parts if isinstance(part, Attribute)}),
        "objects": sorted({str(part) for part in parts if isinstance(part, Constant)}),
    }


BAR_WIDTH = 40
"""Characters of the longest bar."""


@click.command(short_help="Show the Gaifman graph: who has how many neighbours.")
@click.argument("kb", nargs=-1, required=True)
@click.option("--plot", metavar="FILE", help="Draw the degree distribution, both axes logarithmic: .svg, .png or .pdf.")
@click.option("--force", is_flag=True, help="Replace FILE if it is there.")
@click.option("--all", "show_all", is_flag=True, help="List every degree, not ranges of degrees.")
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


MAX_FACTS = 30
"""Facts listed unless all are asked for."""


class CountOrAll(click.ParamType[int | None]):
    """An integer, or `all`."""

    name = "N|all"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | None:
        """None for `all`."""
        if value == "all" or value is None:
            return None
        try:
            return int(value)
        except ValueError:
            self.fail(f"{shorten(str(value))!r} is neither an integer nor all.", param, ctx)


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
@click.option("--with", "extra_files", multiple=True, metavar="FILE", help="Read this file too.")
@click.option("--all", "show_all", is_flag=True, help="List every fact.")
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


MAX_FEATURES = 40
"""Features listed unless all are asked for."""
NO_FACT = "no single fact"


@click.command(short_help="Show the features of objects that are not 0, with the facts that say so.")
@click.argument("kb")
@click.argument("variables", metavar="VARIABLES")
@click.argument("objects", nargs=-1, required=True, metavar="OBJECT...")
@click.option("--phi", default="paper", show_default=True, help="A .phi file, or paper, universal-schema or default.")
@sampling_options
@click.option("--with", "extra_files", multiple=True, metavar="FILE", help="Read this file too.")
@click.option("--all", "show_all", is_flag=True, help="List every feature that is not 0.")
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
    from gaifman.features.evaluator import FeatureEvaluator
    from gaifman.features.grounding import find_witness_facts
    from gaifman.kb.gaifman_graph import build_graph
    from gaifman.sampling.neighbourhoods import SamplingConfig, draw_neighbourhoods

    tuples = [[known.object_id(name) for name in objects]]
    plan = compile_features(phi, known, len(objects))
    graph = build_graph(known)
    drawn = draw_neighbourhoods(graph, tuples, SamplingConfig(radius, size, 1, seed))
    values = FeatureEvaluator(graph, plan).evaluate(drawn).to_dense()[0]
    members = [known.object_name(int(member)) for member in drawn.members_of(0)]
    inside = known.induced(members).structure()
    found = []
    for column in values.nonzero()[0].tolist():
        feature = plan.features[column]
        facts, more = find_witness_facts(inside, feature, objects)
        found.append({"feature": str(feature), "value": float(values[column]), "facts": facts, "more": more})
    return {"seed": seed, "members": members, "of": len(plan.features), "features": found}


MAX_SHOWN = 10
"""Features listed on the terminal; the file has all."""


@click.command(short_help="Find features that tell a query's answers from other tuples.")
@click.argument("kb")
@click.argument("query")
@click.option("--output", "-o", required=True, metavar="FILE", help="Where to write the features: a .phi file.")
@click.option("--max-features", type=int, default=200, show_default=True, help="Features to keep at most.")
@click.option("--min-support", type=float, default=0.02, show_default=True, help="Least share of the answers, 0 to 1.")
@sampling_options
@click.option("--draws", "-w", type=int, default=1, show_default=True, help="Neighbourhoods for each answer.")
@click.option("--sample", type=int, default=2000, show_default=True, help="Answers to look at, at most.")
@click.option("--max-path-length", type=int, default=3, show_default=True, help="Facts of a path at most, 1 to 3.")
@click.option("--with", "extra_files", multiple=True, metavar="FILE", help="Read this file too.")
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
      gaifman mine train.tsv "born_in(x, y)" -o born_in.phi --max-features 50 --min-support 0.1 --max-path-length 2
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
        {"feature": str(p.feature), "support": p.support, "negative_support": p.negative_support, "gain": p.gain}
        for p in found.mined_features
    ]
    if as_json:
        counts = {"frequent": found.frequent_count, "answers": found.answer_count, "negatives": found.negative_count}
        print_json({"written": output, "query": str(asked), **counts, "features": rows})
        return
    shown = [
        (row["feature"], f"{row['support']:.1%}", f"{row['negative_support']:.1%}", f"{row['gain']:.3f}")
        for row in rows[:MAX_SHOWN]
    ]
    if shown:
        print_table("The best features", ["feature", "answers", "others", "bits"], shown, right=[1, 2, 3])
    click.echo(f"wrote {output}: {len(rows):,} of {found.frequent_count:,} frequent patterns", err=True)

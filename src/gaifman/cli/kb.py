"""Commands about a knowledge base: info, convert, parse, graph, neighbourhood, features and mine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gaifman._tables import columns_from, flat_row
from gaifman.cli.console import (
    MAX_LISTED,
    InputOptions,
    check_overwrite,
    input_options,
    json_option,
    kb_options,
    kernel_progress,
    output_options,
    print_fields,
    print_json,
    print_more,
    print_rows,
    print_table,
    sampling_options,
)
from gaifman.cli.model_info import is_model, print_model

if TYPE_CHECKING:
    from gaifman.description import Description
    from gaifman.features.feature_sets import FeatureSet
    from gaifman.kb.knowledge_base import KnowledgeBase
    from gaifman.kb.leakage import Leakage
    from gaifman.kb.links import RelationLink
    from gaifman.logic.ast import Query
    from gaifman.sampling.constraints import FoundConstraint
    from gaifman.sampling.neighbourhoods import Neighbourhood

MAX_RELATIONS = 20
MAX_FACTS = 30
MAX_FEATURES = 40
BAR_WIDTH = 40
CONFIDENCE_BINS = 10
OUTPUT_FORMATS = ("facts", "triples", "nary", "parquet", "ntriples", "turtle", "duckdb")
MAX_PATH_LENGTH = 5
MAX_SEARCHED_FACTS = 5_000_000
"""Facts up to which constraints are looked for without `--all`: some seconds of work."""
KIND_ORDER = ("functional", "symmetric", "asymmetric", "types", "irreflexive")
INPUT_KINDS = ("query", "formula", "feature")


@click.command(short_help="Show the contents of a knowledge base, or of a model.")
@click.argument("kb", nargs=-1, required=True, metavar="KB...|MODEL")
@click.option("--valid", metavar="FILE", help="Validation facts: what KB, the training facts, gives away of them.")
@click.option("--test", metavar="FILE", help="Test facts: what KB, the training facts, gives away of them.")
@click.option("--splits", is_flag=True, help="The first file is for training, and the others are further parts.")
@click.option("--all", "show_all", is_flag=True, help="List every relation, attribute, constraint and link.")
@input_options
@output_options
def info(
    kb: tuple[str, ...],
    valid: str | None,
    test: str | None,
    splits: bool,
    show_all: bool,
    reading: InputOptions,
    as_json: bool,
) -> None:
    """Show the contents of a knowledge base: its size, relations, attributes, confidences, the constraints that
    nearly all facts keep, and relations that are inverses, duplicates or parts of others.

    \b
    Examples:
      gaifman info demo
      gaifman info train.tsv.gz types.tsv ages.tsv
      gaifman info facts.txt --input-format nary --json
      gaifman info postgresql://ann@localhost/company --table hr.employee
      gaifman info train.tsv --test test.tsv
      gaifman info train.tsv valid.tsv test.tsv --splits
      gaifman info countries.gaifman

    KB is one file or several that are read together, or the URL of a database. `demo` is the bundled knowledge base of
    countries. With the parts of a split, likely leakage is shown: facts that follow from a training fact, such as its
    inverse. MODEL is a file that `gaifman train` wrote: its relations, settings and held-out figures are shown.
    """
    if len(kb) == 1 and is_model(kb[0]):
        print_model(kb[0], show_all, as_json)
        return
    files = split_files(kb, valid, test, splits)
    known = reading.read(*(kb[:1] if splits else kb))
    if print_rows(lambda: schema_columns(known)):
        return
    body = kb_summary(known)
    parts = {name: reading.read(file) for name, file in files.items()}
    searched = show_all or len(known) + sum(map(len, parts.values())) <= MAX_SEARCHED_FACTS
    found = _describe(known, parts) if searched else None
    if as_json:
        print_json(body | _description_fields(found))
        return
    named = ("labels", "prefixes")
    shown = [(name, body[name]) for name in ("objects", "facts", "relations", "attributes")]
    shown += [(name, body[name] if name == "labels" else ", ".join(body[name])) for name in named if name in body]
    print_fields([*shown, ("fingerprint", body["fingerprint"])])
    reviewed = {"accepted predictions": len(known.provenance), "known negatives": len(known.rejected)}
    if any(reviewed.values()):
        print_fields(reviewed.items())
    _print_confidences(body.get("confidences"))
    _print_relations(known, None if show_all else MAX_RELATIONS)
    _print_attributes(known, None if show_all else MAX_RELATIONS)
    if found:
        _print_constraints(found.constraints, None if show_all else MAX_RELATIONS)
        _print_links(found.links, None if show_all else MAX_LISTED)
        _print_leakage(found.leakage)
    else:
        click.echo(f"\nmore than {MAX_SEARCHED_FACTS:,} facts: constraints and links are looked for with --all")
    if known.notes:
        notes = [(note.text, note.count, note.example) for note in known.notes]
        print_table("Notes on reading", ["note", "count", "example"], notes, right=[1])


def schema_columns(kb: KnowledgeBase) -> dict[str, list[Any]]:
    """Return the relations and attributes as rows."""
    rows = [("relation", one.name, one.arity, one.count) for one in kb.relations.values()]
    rows += [("attribute", one.name, 1, one.count) for one in kb.attributes.values()]
    return {name: [row[i] for row in rows] for i, name in enumerate(("kind", "name", "arity", "count"))}


def split_files(kb: tuple[str, ...], valid: str | None, test: str | None, splits: bool) -> dict[str, str]:
    """Return the files of the parts beside the one to train on, by their names.

    >>> split_files(("a/train.tsv", "a/valid.tsv.gz", "a/test.tsv"), None, None, splits=True)
    {'valid': 'a/valid.tsv.gz', 'test': 'a/test.tsv'}
    """
    from gaifman.io.files import file_stem

    if not splits:
        return {name: file for name, file in (("valid", valid), ("test", test)) if file}
    if valid or test:
        raise click.UsageError("--splits names the parts by their files; leave out --valid and --test")
    if len(kb) < 2:
        raise click.UsageError("--splits needs the file of the training facts, and at least one more")
    files = {file_stem(name): name for name in kb[1:]}
    if len(files) < len(kb) - 1:
        raise click.UsageError("two parts of --splits have the same name")
    return files


def kb_summary(kb: KnowledgeBase) -> dict[str, Any]:
    """Return sizes, relations, attributes, notes and, if facts are uncertain, confidences as fields for JSON."""
    summary = {
        "objects": len(kb.objects),
        "facts": len(kb),
        "relations": len(kb.relations),
        "attributes": len(kb.attributes),
        "fingerprint": kb.fingerprint,
        "by_relation": {r.name: {"arity": r.arity, "facts": r.count} for r in kb.relations.values()},
        "by_attribute": {a.name: {"values": a.count} for a in kb.attributes.values()},
        "notes": [{"text": n.text, "count": n.count, "example": n.example} for n in kb.notes],
    }
    summary |= {"labels": len(kb.labels)} if kb.labels else {}
    summary |= {"prefixes": dict(kb.prefixes)} if kb.prefixes else {}
    if kb.provenance or kb.rejected:
        summary |= {"accepted_predictions": len(kb.provenance), "known_negatives": len(kb.rejected)}
    return summary | {"confidences": _confidence_summary(kb)} if kb.has_confidences else summary


def _confidence_summary(kb: KnowledgeBase) -> dict[str, Any]:
    """Return how confidences are spread: certain facts, mean, quartiles, and uncertain facts in ten bins."""
    import numpy as np

    values = kb.confidences
    certain = values == 1
    bins = np.bincount(
        np.minimum(values[~certain] * CONFIDENCE_BINS, CONFIDENCE_BINS - 1).astype(int), minlength=CONFIDENCE_BINS
    )
    return {
        "certain": int(certain.sum()),
        "uncertain": int((~certain).sum()),
        "mean": float(values.mean()),
        "quartiles": np.quantile(values, [0.25, 0.5, 0.75]).tolist(),
        "uncertain_by_tenth": bins.tolist(),
    }


def _print_confidences(summary: dict[str, Any] | None) -> None:
    if summary is None:
        return
    total = summary["certain"] + summary["uncertain"]
    ends = [f"{i / CONFIDENCE_BINS:.1f} – {(i + 1) / CONFIDENCE_BINS:.1f}" for i in range(CONFIDENCE_BINS)]
    counts = [*zip(ends, summary["uncertain_by_tenth"], strict=True), ("1 (certain)", summary["certain"])]
    rows = [(name, count, f"{count / total:.1%}") for name, count in counts]
    quartiles = ", ".join(f"{value:.3f}" for value in summary["quartiles"])
    print_table("Confidences", ["confidence", "facts", "share"], rows, right=[1, 2])
    click.echo(f"mean {summary['mean']:.3f}; quartiles {quartiles}")


def _print_relations(kb: KnowledgeBase, limit: int | None) -> None:
    relations = sorted(kb.relations.values(), key=lambda relation: -relation.count)
    rows = [(relation.name, relation.arity, relation.count) for relation in relations[:limit]]
    print_table("Relations", ["name", "arity", "facts"], rows, right=[1, 2])
    print_more(len(relations) - len(rows), "relations", "--all lists them")


def _print_attributes(kb: KnowledgeBase, limit: int | None) -> None:
    if not kb.attributes:
        return
    values: dict[str, list[float]] = {}
    for attribute, _, value in kb.values():
        values.setdefault(attribute, []).append(value)
    rows = [
        (name, attribute.count, f"{min(values[name]):,.12g}", f"{max(values[name]):,.12g}")
        for name, attribute in list(kb.attributes.items())[:limit]
    ]
    print_table("Attributes", ["name", "values", "min", "max"], rows, right=[1, 2, 3])
    print_more(len(kb.attributes) - len(rows), "attributes", "--all lists them")


def _describe(kb: KnowledgeBase, parts: dict[str, KnowledgeBase]) -> Description:
    """Describe the knowledge base; constraints that say most come first, and those of large relations."""
    from gaifman.description import describe_parts

    def order(found: FoundConstraint) -> tuple[int, int, str]:
        kind = KIND_ORDER.index(str(found.constraint).partition(":")[0])
        return kind, -found.instances, str(found.constraint)

    found = describe_parts(kb, parts)
    return replace(found, constraints=tuple(sorted(found.constraints, key=order)))


def _description_fields(found: Description | None) -> dict[str, Any]:
    """Return constraints, links and leakage as fields for JSON; None if they were not looked for."""
    if found is None:
        return {"constraints": None, "links": None}
    fields = found.as_dict()
    return {name: fields[name] for name in ("constraints", "links", *(["leakage"] if found.leakage else []))}


def _print_constraints(constraints: Sequence[FoundConstraint], limit: int | None) -> None:
    if constraints:
        rows = [(str(found.constraint), found.evidence) for found in constraints[:limit]]
        print_table("Constraints found in the data", ["constraint", "evidence"], rows)
        print_more(len(constraints) - len(rows), "constraints", "--all lists them")


def _print_links(links: Sequence[RelationLink], limit: int | None) -> None:
    """Print how relations are linked, but for symmetric ones, which are among the constraints."""
    others = [link for link in links if link.kind != "symmetric"]
    if others:
        rows = [(link.kind, str(link), link.evidence) for link in others[:limit]]
        print_table("Links between relations", ["kind", "link", "known"], rows)
        print_more(len(others) - len(rows), "links", "--all lists them")


def _print_leakage(leakage: Sequence[Leakage]) -> None:
    for one in leakage:
        click.echo("\n" + click.style(f"What {one.source} gives away of {one.part}", bold=True))
        for line in one.lines():
            click.echo(line)


@click.command(short_help="Convert a knowledge base to another format.")
@click.argument("source", nargs=-1, required=True, metavar="IN...")
@click.argument("target", metavar="OUT")
@click.option(
    "--to",
    "output_format",
    type=click.Choice(OUTPUT_FORMATS),
    metavar="FORMAT",
    help=f"Output format, one of {', '.join(OUTPUT_FORMATS)}.  [default: by the suffix of OUT]",
)
@click.option("--lossy", is_flag=True, help="Drop content that the output format cannot hold.")
@click.option("--force", is_flag=True, help="Replace OUT if it exists.")
@input_options
@json_option
def convert(
    source: tuple[str, ...],
    target: str,
    output_format: str | None,
    lossy: bool,
    force: bool,
    reading: InputOptions,
    as_json: bool,
) -> None:
    """Read the files IN together and write them to OUT. On an error OUT is not written.

    \b
    Examples:
      gaifman convert train.tsv.gz types.tsv family.duckdb
      gaifman convert demo countries.parquet
      gaifman convert graph.ttl graph.facts.gz --iris local
    """
    from gaifman.io import write

    check_overwrite(target, force=force)
    known = reading.read(*source)
    write(known, target, format=output_format, lossy=lossy)
    if as_json:
        print_json({"written": target, "facts": len(known), "fingerprint": known.fingerprint})
    else:
        click.echo(f"wrote {target}: {len(known):,} facts, fingerprint {known.fingerprint}", err=True)


@click.command(short_help="Show how a formula is parsed.")
@click.argument("text")
@click.option("--as", "kind", type=click.Choice(INPUT_KINDS), default="query", show_default=True, help="What TEXT is.")
@click.option("--kb", multiple=True, metavar="FILE", help="Check names against this knowledge base (or `demo`).")
@input_options
@json_option
def parse(text: str, kind: str, kb: tuple[str, ...], reading: InputOptions, as_json: bool) -> None:
    """Parse TEXT; show its canonical form, the form with all brackets, and the names in it.

    \b
    Examples:
      gaifman parse "exists z. borders(x, z) & borders(z, y)"
      gaifman parse "two_steps(x, y) :- borders(x, z), borders(z, y)" --kb demo
      gaifman parse "sum population(x) for borders(s1, x)" --as feature --json
    """
    from gaifman.logic.parser import parse as parse_formula
    from gaifman.logic.parser import parse_feature, parse_query

    schema = reading.read(*kb).schema if kb else None
    read: Any = {"query": parse_query, "formula": parse_formula, "feature": parse_feature}[kind]
    body = parse_fields(read(text, schema), kind)
    if as_json:
        print_json(body)
        return
    names = {"free variables": "free_variables", "relations": "relations", "attributes": "attributes"}
    fields = [(kind, body["canonical"]), ("ASCII", body["ascii"]), ("read as", body["bracketed"])]
    fields += [(label, ", ".join(body[key]) or "none") for label, key in (names | {"objects": "objects"}).items()]
    print_fields((label, value) for label, value in fields if value != "none" or label == "free variables")


def parse_fields(node: Any, kind: str) -> dict[str, Any]:
    """Return the forms of a formula and the names in it, as fields for JSON."""
    from gaifman.logic.ast import (
        Atom,
        Attribute,
        Constant,
        format_relation,
        free_variables,
        to_ascii,
        to_bracketed,
        walk,
    )

    parts = list(walk(node))
    atoms = (part for part in parts if isinstance(part, Atom) and isinstance(part.relation, str))
    return {
        "kind": kind,
        "canonical": str(node),
        "ascii": to_ascii(node),
        "bracketed": to_bracketed(node),
        "free_variables": [str(variable) for variable in free_variables(node)],
        "relations": sorted({f"{format_relation(atom.relation_name)}/{len(atom.terms)}" for atom in atoms}),
        "attributes": sorted({format_relation(part.name) for part in parts if isinstance(part, Attribute)}),
        "objects": sorted({str(part) for part in parts if isinstance(part, Constant)}),
    }


@click.command(short_help="Show the degrees of the Gaifman graph.")
@click.argument("kb", nargs=-1, required=True)
@click.option("--plot", metavar="FILE", help="Plot the degree distribution: .svg, .png or .pdf.")
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
@click.option("--all", "show_all", is_flag=True, help="List every degree instead of ranges.")
@input_options
@output_options
def graph(
    kb: tuple[str, ...], plot: str | None, force: bool, show_all: bool, reading: InputOptions, as_json: bool
) -> None:
    """Show the degrees of the Gaifman graph of KB, in which objects are adjacent if they share a fact.

    \b
    Examples:
      gaifman graph demo
      gaifman graph train.tsv.gz --plot degrees.svg
      gaifman graph demo --json
    """
    from gaifman.kb.gaifman_graph import build_graph

    if plot:
        check_overwrite(plot, force=force)
    found = build_graph(reading.read(*kb))
    body = found.summary()
    if plot:
        from gaifman.plots import plot_degrees

        plot_degrees(*found.degree_distribution(), plot, f"{body['objects']:,} objects, {body['edges']:,} edges")
    if as_json:
        print_json(body)
    elif not print_rows(
        lambda: {"degree": [d for d, _ in body["degrees"]], "objects": [n for _, n in body["degrees"]]}
    ):
        _print_graph(body, show_all)
    if plot and not as_json:
        click.echo(f"wrote {plot}", err=True)


def _print_graph(body: dict[str, Any], show_all: bool) -> None:
    most_connected = body.get("labels", {}).get(body["most_connected"], body["most_connected"])
    print_fields(
        [
            ("objects", body["objects"]),
            ("edges", body["edges"]),
            ("isolated objects", body["isolated"]),
            ("mean degree", f"{body['mean_degree']:.1f}"),
            ("median degree", body["median_degree"]),
            ("largest degree", f"{body['largest_degree']:,} ({most_connected})"),
        ]
    )
    counts = [(str(d), n) for d, n in body["degrees"]] if show_all else degree_ranges(body["degrees"])
    longest = max((count for _, count in counts), default=1)
    rows = [
        (degree, count, f"{count / body['objects']:.1%}", "█" * round(BAR_WIDTH * count / longest) or "▏")
        for degree, count in counts
    ]
    print_table("Degrees", ["degree", "objects", "share", ""], rows, right=[0, 1, 2])


def degree_ranges(distribution: list[tuple[int, int]]) -> list[tuple[str, int]]:
    """Count objects by ranges of degrees, from one power of two to the next: 0, 1, 2–3, 4–7 …

    >>> degree_ranges([(0, 1), (1, 5), (2, 2), (3, 1), (9, 1)])
    [('0', 1), ('1', 5), ('2–3', 3), ('8–15', 1)]
    """
    counts: dict[int, int] = {}
    for degree, count in distribution:
        counts[degree.bit_length()] = counts.get(degree.bit_length(), 0) + count
    return [(str(b) if b < 2 else f"{1 << (b - 1):,}–{(1 << b) - 1:,}", count) for b, count in counts.items()]


@click.command(short_help="Sample neighbourhoods of a tuple.")
@click.argument("kb")
@click.argument("objects", nargs=-1, required=True, metavar="OBJECT...")
@sampling_options
@click.option("--draws", "-w", type=int, default=1, show_default=True, help="Neighbourhoods to sample.")
@click.option("--all", "show_all", is_flag=True, help="List every fact.")
@kb_options
@output_options
def neighbourhood(
    kb: str,
    objects: tuple[str, ...],
    radius: int,
    size: int | None,
    draws: int,
    seed: int,
    show_all: bool,
    reading: InputOptions,
    as_json: bool,
) -> None:
    """Sample neighbourhoods of the tuple OBJECT... by Algorithm 1 of the paper; show their members and facts.

    \b
    Examples:
      gaifman neighbourhood demo france spain --size 5
      gaifman neighbourhood demo france --radius 2 --size all
      gaifman neighbourhood train.tsv ann bob --draws 3 --seed 7 --json
    """
    from gaifman.sampling.neighbourhoods import named_neighbourhoods

    known = reading.read(kb)
    with kernel_progress():
        drawn = named_neighbourhoods(known, objects, radius=radius, size=size, draws=draws, seed=seed)
    if as_json:
        rows = [one.as_dict() for one in drawn]
        print_json({"objects": drawn[0].objects, "radius": radius, "size": size, "seed": seed, "draws": rows})
        return
    if print_rows(lambda: _member_columns(drawn)):
        return
    for note in neighbourhood_notes(drawn[0], radius):
        click.echo(f"note: {note}\n", err=True)
    for number, one in enumerate(drawn):
        if draws > 1:
            click.echo(f"{'' if number == 0 else chr(10)}Draw {number + 1} of {draws}")
        print_neighbourhood(one, None if show_all else MAX_FACTS, "--all lists them")


def _member_columns(drawn: Sequence[Neighbourhood]) -> dict[str, list[Any]]:
    """Return the members of neighbourhoods as rows."""
    rows = [(draw, *member) for draw, one in enumerate(drawn, start=1) for member in one.members]
    found = {name: [row[i] for row in rows] for i, name in enumerate(("draw", "object", "distance"))}
    labels = {name: label for one in drawn for name, label in one.labels.items()}
    return found | ({"object_label": [labels.get(row[1], row[1]) for row in rows]} if labels else {})


def neighbourhood_notes(neighbourhood: Neighbourhood, radius: int) -> list[str]:
    """Return remarks on tuples whose neighbourhoods may surprise."""
    objects, labels = neighbourhood.objects, neighbourhood.labels
    notes = [
        f"{labels.get(name, name)} is {objects.count(name)} times in the tuple: "
        "one member, but each position draws its own neighbours"
        for name in dict.fromkeys(objects)
        if objects.count(name) > 1
    ]
    if radius > 0 and len(neighbourhood.members) == len(set(objects)) and not neighbourhood.not_drawn:
        notes.append("no fact links the tuple to another object: the neighbourhood is the tuple itself")
    return notes


def print_neighbourhood(neighbourhood: Neighbourhood, max_facts: int | None, where: str) -> None:
    """Print the members of a neighbourhood by distance, how many were not drawn, and its facts."""
    from gaifman.kb.labels import label_fact

    labels = neighbourhood.labels
    distances = sorted({distance for _, distance in neighbourhood.members} | set(neighbourhood.not_drawn))
    rows = []
    for distance in distances:
        names = ", ".join(labels.get(name, name) for name, own in neighbourhood.members if own == distance)
        rest = neighbourhood.not_drawn.get(distance, 0)
        label = "tuple" if distance == 0 else f"distance {distance}"
        rows.append((label, " ".join(filter(None, [names, f"({rest:,} not drawn)" if rest else ""]))))
    print_fields([*rows, ("facts", len(neighbourhood.facts))])
    for fact in neighbourhood.facts[:max_facts]:
        click.echo(f"  {label_fact(fact, labels)}")
    print_more(len(neighbourhood.facts) - (max_facts or len(neighbourhood.facts)), "facts", where)


@click.command(short_help="Show the non-zero features of a tuple.")
@click.argument("kb")
@click.argument("variables", metavar="VARIABLES")
@click.argument("objects", nargs=-1, required=True, metavar="OBJECT...")
@click.option(
    "--phi", default="paper", show_default=True, help="Feature set: paper, universal-schema, default, or a .phi file."
)
@sampling_options
@click.option("--all", "show_all", is_flag=True, help="List every non-zero feature.")
@kb_options
@output_options
def features(
    kb: str,
    variables: str,
    objects: tuple[str, ...],
    phi: str,
    radius: int,
    size: int | None,
    seed: int,
    show_all: bool,
    reading: InputOptions,
    as_json: bool,
) -> None:
    """Sample a neighbourhood of the tuple OBJECT...; show its non-zero features with facts that make them true.

    \b
    Examples:
      gaifman features demo x,y france spain
      gaifman features demo x,y france spain --phi universal-schema --size all
      gaifman features train.tsv x,y ann bob --phi mined.phi --json

    VARIABLES are the query's variables, one for each object.
    """
    names = parse_variables(variables, len(objects))
    known = reading.read(kb)
    objects = tuple(known.object_name(known.object_id(name)) for name in objects)
    feature_set = _feature_set(phi, len(objects), known)
    with kernel_progress():
        body = evaluate_features(known, feature_set, objects, radius, size, seed)
    if as_json:
        print_json({"variables": dict(zip(names, objects, strict=True)), "radius": radius, "size": size, **body})
        return
    if print_rows(lambda: columns_from([one | {"facts": " ".join(one["facts"])} for one in body["features"]])):
        return
    rows: list[tuple[str, object]] = [
        (f"{name} (s{i})", known.display.show(obj))
        for i, (name, obj) in enumerate(zip(names, objects, strict=True), start=1)
    ]
    found = body["features"]
    count = f"{len(found):,} of {body['total_features']:,} are not 0"
    print_fields([*rows, ("members", len(body["members"])), ("features", count)])
    shown = found if show_all else found[:MAX_FEATURES]
    for one in shown:
        facts = one.get("facts_labels", one["facts"])
        click.echo(f"{format_value(one['value']):>11}  {one.get('feature_labels', one['feature'])}")
        click.echo(f"{'':13}  {' '.join(facts) or 'no single fact'}{' …' if one['more'] else ''}")
    print_more(len(found) - len(shown), "features", "--all lists them")


def format_value(value: float) -> str:
    """Return a number as text.

    >>> format_value(1.0), format_value(66439000.0), format_value(0.25)
    ('1', '66,439,000', '0.25')
    """
    return f"{value:,.0f}" if value.is_integer() else f"{value:g}"


def parse_variables(text: str, count: int) -> list[str]:
    """Return the variables of `x,y`; there must be `count` of them."""
    from gaifman.errors import FormulaError, shorten

    names = [name.strip().removeprefix("?") for name in text.split(",")]
    for name in names:
        if not name.isidentifier():
            raise FormulaError(
                f"{shorten(name)!r} is not a variable", hint="write the query's variables like this: x,y"
            )
    if len(set(names)) < len(names):
        raise FormulaError(f"the variables {text} are not all different")
    if len(names) != count:
        raise FormulaError(
            f"{len(names)} variable{'s' if len(names) > 1 else ''} ({', '.join(names)}), but {count} "
            f"object{'s' if count > 1 else ''}",
            hint="name one variable for each object, for example x,y for two",
        )
    return names


def _feature_set(name: str, arity: int, kb: KnowledgeBase) -> FeatureSet:
    from gaifman.features.feature_sets import resolve_feature_set

    return resolve_feature_set(name, arity, {r.name: r.arity for r in kb.relations.values()}, kb.attributes, kb)


def evaluate_features(
    kb: KnowledgeBase, phi: FeatureSet, objects: tuple[str, ...], radius: int, size: int | None, seed: int
) -> dict[str, Any]:
    """Return the non-zero features of a sampled neighbourhood with their facts, as fields for JSON."""
    import numpy as np

    from gaifman.config import SamplingConfig
    from gaifman.features.compiler import compile_features
    from gaifman.features.evaluator import FeatureEvaluator
    from gaifman.features.grounding import find_witness_facts
    from gaifman.kb.gaifman_graph import build_graph
    from gaifman.kb.labels import chosen_labels, label_formula
    from gaifman.sampling.neighbourhoods import draw_neighbourhoods

    tuples = [[kb.object_id(name) for name in objects]]
    plan = compile_features(phi, kb, len(objects))
    graph = build_graph(kb)
    drawn = draw_neighbourhoods(graph, tuples, SamplingConfig(radius, size, 1, seed))
    values = FeatureEvaluator(graph, plan).evaluate(drawn).to_dense()[0]
    members = [kb.object_name(int(member)) for member in drawn.members_of(0)]
    inside = kb.induced(members).structure()
    rows = []
    for column in np.nan_to_num(values).nonzero()[0].tolist():  # a missing number is NaN
        feature = plan.features[column]
        facts, more = find_witness_facts(inside, feature, objects)
        row = {"feature": str(feature), "value": float(values[column]), "facts": facts, "more": more}
        if kb.labels:
            row["feature_labels"] = str(label_formula(feature, kb.display))
            row["facts_labels"], _ = find_witness_facts(inside, feature, objects, kb.display)
        rows.append(row)
    labels = {"labels": chosen_labels(members, kb.display)} if kb.labels else {}
    return {"seed": seed, "members": members, **labels, "total_features": len(plan.features), "features": rows}


@click.command(short_help="Mine formulas for a relation or a query.")
@click.argument("kb")
@click.argument("query")
@click.option("--output", "-o", metavar="FILE", help="The .phi file to write.")
@click.option("--max-features", type=int, default=200, show_default=True, help="Formulas to keep.")
@click.option("--max-path-length", type=int, default=3, show_default=True, help="Facts in a path.")
@click.option("--sample", type=int, default=2000, show_default=True, help="Answers to use.")
@click.option(
    "--neighbourhoods", is_flag=True, help="Count patterns in drawn neighbourhoods, as for a query of several parts."
)
@click.option(
    "--min-support",
    type=float,
    default=0.02,
    show_default=True,
    help="With --neighbourhoods: fraction of answers that must have a feature.",
)
@sampling_options
@click.option(
    "--draws", "-w", type=int, default=1, show_default=True, help="With --neighbourhoods: how many for each answer."
)
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
@kb_options
@output_options
def mine(
    kb: str,
    query: str,
    output: str | None,
    neighbourhoods: bool,
    force: bool,
    reading: InputOptions,
    as_json: bool,
    **settings: Any,
) -> None:
    """Find the formulas that lead from one object of an answer to another, with their support and confidence.

    \b
    Examples:
      gaifman mine demo "capital(x, y)"
      gaifman mine demo "borders(x, y)" -o borders.phi
      gaifman mine train.tsv "born_in(x, y)" -o born_in.phi --max-features 50 --neighbourhoods

    For a relation these are the formulas that its ranked lists start from: paths, and facts with a constant that speak
    for one candidate, at most half of them if there are enough paths; and comparisons of numbers that are true of more
    answers than of independent objects. For other queries, and with --neighbourhoods,
    they are paths, constants and types that are frequent around answers and rare around other tuples. FILE is a feature
    set for `gaifman train --phi FILE`.
    """
    from gaifman.logic.parser import parse_query

    if output is not None:
        check_overwrite(output, force=force)
    known = reading.read(kb)
    parsed = parse_query(query, known)
    relation = None if neighbourhoods else parsed.atomic_relation
    if relation is None:
        _mine_neighbourhoods(known, parsed, settings, output, as_json)
    else:
        _mine_relation(known, relation, settings, output, as_json)


def _mine_relation(
    kb: KnowledgeBase, relation: str, settings: dict[str, Any], output: str | None, as_json: bool
) -> None:
    from gaifman.config import check_int
    from gaifman.features.mining import MiningConfig as NeighbourhoodMining
    from gaifman.listwise.mining import MiningConfig
    from gaifman.listwise.rules import choose_rules, mine_comparison_rules, mine_rules

    check_int("max_path_length", settings["max_path_length"], 1, MAX_PATH_LENGTH)
    NeighbourhoodMining(**settings | {"max_path_length": 3})  # checks the other settings
    config = MiningConfig(
        max_steps=settings["max_path_length"],
        answers=settings["sample"],
        max_formulas=settings["max_features"],
        seed=settings["seed"],
    )
    with kernel_progress():
        rules = choose_rules(mine_rules(kb, relation, config), config.max_formulas)
    comparisons = mine_comparison_rules(kb, relation, config)
    if output is not None:
        _write_phi(output, f"mined for {relation}: rules by confidence", [*rules, *comparisons])
    rows = [
        {
            "feature": str(rule.feature),
            "formula": rule.formula,
            "support": rule.support,
            "confidence": {f"s{position}": value for position, value in sorted(rule.confidence.items())},
        }
        for rule in rules
    ]
    if print_rows(lambda: columns_from([*map(flat_row, rows)])):
        return
    if as_json:
        answers = rules[0].answers if rules else 0
        body = {"written": output, "relation": relation, "answers": answers, "features": rows}
        print_json(body | {"comparisons": [asdict(one) | {"feature": one.formula} for one in comparisons]})
        return
    positions = range(1, kb.relations[relation].arity + 1)
    columns, hint = ["formula", "answers", *(f"for s{i}" for i in positions)], f"in {output}" if output else None
    titles = {False: "Best formulas, and their confidence", True: "Best formulas with constants, and their confidence"}
    for has_constant, title in titles.items():
        own = [rule for rule in rules if rule.has_constant == has_constant]
        shown = [
            (rule.formula, rule.support, *(_figure(rule.confidence.get(position)) for position in positions))
            for rule in own[:MAX_LISTED]
        ]
        if shown:
            print_table(title, columns, shown, right=range(1, len(columns)))
            print_more(len(own) - MAX_LISTED, "formulas", hint or "-o FILE writes them")
    if comparisons:
        compared = [(one.formula, one.support, one.answers, f"{one.expected:.2f}") for one in comparisons]
        print_table("Comparisons", ["formula", "answers", "of", "expected"], compared, right=range(1, 4))
    if not rules:
        click.echo(f"no formula leads from one object of {relation} to another")
    if output is not None:
        click.echo(f"wrote {output}: {len(rules) + len(comparisons):,} formulas", err=True)


def _figure(confidence: float | None) -> str:
    return "–" if confidence is None else f"{confidence:.2f}"


def _write_phi(output: str, title: str, lines: Iterable[object]) -> None:
    from gaifman.io.files import atomic_write

    with atomic_write(Path(output)) as temporary:
        temporary.write_text("\n".join([f"# {title}", *map(str, lines), ""]), encoding="utf-8")


def _mine_neighbourhoods(
    kb: KnowledgeBase, query: Query, settings: dict[str, Any], output: str | None, as_json: bool
) -> None:
    from gaifman.features.mining import MiningConfig, known_answers
    from gaifman.features.mining import mine as mine_features
    from gaifman.io.files import atomic_write
    from gaifman.kb.gaifman_graph import build_graph

    config, graph = MiningConfig(**settings), build_graph(kb)
    with kernel_progress():
        found = mine_features(graph, *known_answers(graph, query), config)
    options = ", ".join(f"{name} {'all' if value is None else value}" for name, value in asdict(config).items())
    if output is not None:
        with atomic_write(Path(output)) as temporary:
            temporary.write_text(found.to_text(f"mined for {query}: {options}"), encoding="utf-8")
    rows: list[dict[str, Any]] = [
        {"feature": str(p.feature), "support": p.support, "negative_support": p.negative_support, "gain": p.gain}
        for p in found.mined_features
    ]
    if as_json:
        counts = {"frequent": found.frequent_count, "answers": found.answer_count, "negatives": found.negative_count}
        print_json({"written": output, "query": str(query), **counts, "features": rows})
        return
    if print_rows(lambda: columns_from(rows)):
        return
    shown = [
        (row["feature"], f"{row['support']:.1%}", f"{row['negative_support']:.1%}", f"{row['gain']:.3f}")
        for row in rows[:MAX_LISTED]
    ]
    if shown:
        print_table("Best features", ["feature", "answers", "negatives", "gain (bits)"], shown, right=[1, 2, 3])
    if output is not None:
        click.echo(f"wrote {output}: {len(rows):,} of {found.frequent_count:,} frequent features", err=True)

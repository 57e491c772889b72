"""`gaifman parse`: how a formula is read."""

from __future__ import annotations

from typing import Any

import click

from gaifman.cli.terminal import input_options, json_option, open_kb, print_fields, print_json

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

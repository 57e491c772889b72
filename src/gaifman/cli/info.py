"""`gaifman info`: what a knowledge base holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from gaifman.cli.terminal import input_options, json_option, open_kb, print_fields, print_json, print_table

if TYPE_CHECKING:
    from gaifman.kb.knowledge_base import KnowledgeBase


@click.command(short_help="Show what a knowledge base holds.")
@click.argument("kb", nargs=-1, required=True)
@input_options
@click.option("--all", "everything", is_flag=True, help="List every relation and attribute, not only the largest.")
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
    print_table("Relations", ["name", "places", "facts"], rows, right=[1, 2])
    _print_rest(len(relations) - len(rows), "relations")


def _print_attributes(known: KnowledgeBase, shown: int | None) -> None:
    if not known.attributes:
        return
    ranges = _ranges(known)
    rows = [(name, a.count, *ranges[name]) for name, a in list(known.attributes.items())[:shown]]
    print_table("Attributes", ["name", "values", "least", "greatest"], rows, right=[1, 2, 3])
    _print_rest(len(known.attributes) - len(rows), "attributes")


def _ranges(known: KnowledgeBase) -> Mapping[str, tuple[str, str]]:
    values: dict[str, list[float]] = {}
    for attribute, _, value in known.values():
        values.setdefault(attribute, []).append(value)
    return {name: (f"{min(found):,.12g}", f"{max(found):,.12g}") for name, found in values.items()}


def _print_rest(count: int, what: str) -> None:
    if count > 0:
        click.echo(f"… and {count:,} more {what}: --all lists them")

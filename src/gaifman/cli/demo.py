"""`gaifman demo`: the bundled knowledge base, a formula, its truth and its count."""

from __future__ import annotations

from typing import Any

import click

from gaifman.cli.terminal import json_option, print_fields, print_json

FACTS = (("borders", "france", "spain"), ("capital", "spain", "madrid"), ("separates", "pyrenees", "france", "spain"))
QUERY = "exists z. borders(x, z) & borders(z, y) & x != y & ~borders(x, y)"
PAIR = ("portugal", "france")
COUNTED = "borders('france', y)"
MISTAKE = "bordrs(x, y)"


@click.command(short_help="A first look, on the bundled knowledge base of countries.")
@json_option
def demo(as_json: bool) -> None:
    """A first look at gaifman on the bundled knowledge base of the world's countries.

    \b
    Example:
      gaifman demo
    """
    body = tour()
    if as_json:
        print_json(body)
        return
    click.echo("The countries of the world, bundled with gaifman:\n")
    print_fields((name, body["kb"][name]) for name in ("objects", "facts", "relations", "attributes"))
    click.echo("\nSome facts:\n")
    click.echo("\n".join(f"  {fact}" for fact in body["some_facts"]))
    click.echo("\nA formula: which countries are two borders apart?\n")
    formula = body["formula"]
    print_fields(
        [
            ("written", formula["text"]),
            ("read as", formula["bracketed"]),
            (f"truth for {' and '.join(PAIR)}", "true" if formula["truth"] else "false"),
            (f"count of {COUNTED}", formula["count"]),
        ]
    )
    click.echo("\nA slip is pointed at:\n")
    click.echo("\n".join(f"  {line}" for line in body["mistake"].splitlines()))
    click.echo('\nNext: gaifman info demo; gaifman parse "capital(x, y) & member_of(x, z)" --kb demo')


def tour() -> dict[str, Any]:
    """What the demonstration shows, as fields for JSON."""
    from gaifman.cli.info import summary
    from gaifman.datasets import demo as load
    from gaifman.errors import FormulaError
    from gaifman.facts import Fact
    from gaifman.formulas import bracketed
    from gaifman.parser import parse, parse_query
    from gaifman.semantics import count, holds

    kb = load()
    structure = kb.structure()
    query = parse_query(QUERY, kb.vocabulary)
    try:
        mistake = str(parse(MISTAKE, kb.vocabulary))
    except FormulaError as error:
        mistake = str(error)
    return {
        "kb": summary(kb),
        "some_facts": [str(Fact(name, tuple(objects))) for name, *objects in FACTS if (name, *objects) in kb],
        "formula": {
            "text": QUERY,
            "canonical": str(query),
            "bracketed": bracketed(query),
            "truth": holds(structure, query.formula, dict(zip(query.free, PAIR, strict=True))),
            "count": count(structure, parse(COUNTED, kb.vocabulary)),
        },
        "mistake": mistake,
    }

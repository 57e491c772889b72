"""`gaifman demo`: the bundled knowledge base, a formula with its truth and count, the graph, a neighbourhood."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from gaifman.cli.graph import fields, print_distribution, ranges
from gaifman.cli.graph import summary as graph_summary
from gaifman.cli.info import summary
from gaifman.cli.neighbourhood import as_fields, show
from gaifman.cli.terminal import json_option, print_fields, print_json

if TYPE_CHECKING:
    from gaifman.kb import KnowledgeBase

FACTS = (("borders", "france", "spain"), ("capital", "spain", "madrid"), ("separates", "pyrenees", "france", "spain"))
QUERY = "exists z. borders(x, z) & borders(z, y) & x != y & ~borders(x, y)"
PAIR = ("portugal", "france")
COUNTED = "borders('france', y)"
MISTAKE = "bordrs(x, y)"
TUPLE = ("france", "spain")
SIZE = 5


@click.command(short_help="A first look, on the bundled knowledge base of countries.")
@json_option
def demo(as_json: bool) -> None:
    """A first look at gaifman on the bundled knowledge base of the world's countries.

    \b
    Example:
      gaifman demo
    """
    from gaifman.datasets import demo as load
    from gaifman.graph import graph_of
    from gaifman.neighbourhoods import neighbourhoods

    kb = load()
    graph = graph_of(kb)
    drawn = neighbourhoods(graph, TUPLE, size=SIZE)[0]
    facts, formula, degrees = some_facts(kb), formula_fields(kb), graph_summary(graph)
    if as_json:
        inside = as_fields(drawn)
        body = {"kb": summary(kb), "some_facts": facts, "formula": formula, "graph": degrees, "neighbourhood": inside}
        print_json(body)
        return
    click.echo("The countries of the world, bundled with gaifman:\n")
    print_fields((name, summary(kb)[name]) for name in ("objects", "facts", "relations", "attributes"))
    click.echo("\n".join(["\nSome facts:\n", *(f"  {fact}" for fact in facts)]))
    show_formula(formula)
    click.echo("\nThe Gaifman graph links objects that share a fact:\n")
    print_fields(fields(degrees))
    print_distribution(ranges(degrees["degrees"]), degrees["objects"])
    click.echo(f"\nA neighbourhood of ({', '.join(TUPLE)}), {SIZE} members drawn at random:\n")
    show(drawn, 6, f"gaifman neighbourhood demo {' '.join(TUPLE)} --size {SIZE}")
    click.echo('\nNext: gaifman info demo; gaifman parse "capital(x, y) & member_of(x, z)" --kb demo')


def some_facts(kb: KnowledgeBase) -> list[str]:
    """A few facts as they are written."""
    from gaifman.facts import Fact

    return [str(Fact(name, tuple(objects))) for name, *objects in FACTS if (name, *objects) in kb]


def formula_fields(kb: KnowledgeBase) -> dict[str, Any]:
    """A formula read back, its truth for a pair, a count, and what a slip looks like."""
    from gaifman.errors import FormulaError
    from gaifman.formulas import bracketed
    from gaifman.parser import parse, parse_query
    from gaifman.semantics import count, holds

    structure = kb.structure()
    query = parse_query(QUERY, kb.vocabulary)
    try:
        mistake = str(parse(MISTAKE, kb.vocabulary))
    except FormulaError as error:
        mistake = str(error)
    return {
        "text": QUERY,
        "canonical": str(query),
        "bracketed": bracketed(query),
        "truth": holds(structure, query.formula, dict(zip(query.free, PAIR, strict=True))),
        "count": count(structure, parse(COUNTED, kb.vocabulary)),
        "mistake": mistake,
    }


def show_formula(formula: dict[str, Any]) -> None:
    """The same, for people."""
    click.echo("\nA formula: which countries are two borders apart?\n")
    truth = "true" if formula["truth"] else "false"
    print_fields(
        [
            ("written", formula["text"]),
            ("read as", formula["bracketed"]),
            (f"truth for {' and '.join(PAIR)}", truth),
            (f"count of {COUNTED}", formula["count"]),
        ]
    )
    click.echo("\nA slip is pointed at:\n")
    click.echo("\n".join(f"  {line}" for line in formula["mistake"].splitlines()))

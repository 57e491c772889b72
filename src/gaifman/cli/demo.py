"""`gaifman demo`: the bundled knowledge base, a formula, a neighbourhood, and what is learnt from it."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gaifman.cli.info import summary
from gaifman.cli.neighbourhood import print_neighbourhood
from gaifman.cli.terminal import json_option, print_fields, print_json, work_progress
from gaifman.cli.trial import print_trial, run_trial

if TYPE_CHECKING:
    from gaifman.kb.knowledge_base import KnowledgeBase

FACTS = (("borders", "france", "spain"), ("capital", "spain", "madrid"), ("separates", "pyrenees", "france", "spain"))
QUERY = "exists z. borders(x, z) & borders(z, y) & x != y & ~borders(x, y)"
PAIR = ("portugal", "france")
COUNT_QUERY = "borders('france', y)"
MISSPELLED = "bordrs(x, y)"
TUPLE = ("france", "spain")
SIZE = 5
NEXT_COMMANDS = (
    "gaifman train demo -o countries.gaifman",
    "gaifman answer countries.gaifman demo \"official_language('malta', y)\"",
    'gaifman answer countries.gaifman demo "borders(x, y)" --known leave-out --prior 0.01',
    "gaifman info your_facts.tsv",
)


@click.command(short_help="A first look, on the bundled knowledge base of countries.")
@json_option
def demo(as_json: bool) -> None:
    """A first look at gaifman on the bundled knowledge base of the world's countries.

    It shows facts, a formula and a neighbourhood; then it holds out facts, learns from the rest, and shows what it
    finds to be missing. That takes ten or twenty seconds.

    \b
    Example:
      gaifman demo
    """
    from gaifman.io.demo import demo as load
    from gaifman.kb.gaifman_graph import build_graph
    from gaifman.sampling.neighbourhoods import named_neighbourhoods

    kb = load()
    graph = build_graph(kb)
    drawn = named_neighbourhoods(graph, TUPLE, size=SIZE)[0]
    facts, formula, degrees = example_facts(kb), formula_fields(kb), graph.summary()
    if as_json:
        body = {"kb": summary(kb), "some_facts": facts, "formula": formula, "graph": degrees}
        print_json({**body, "neighbourhood": drawn.as_dict(), "trial": run_trial(kb)})
        return
    click.echo("The countries of the world, bundled with gaifman:\n")
    print_fields((name, summary(kb)[name]) for name in ("objects", "facts", "relations", "attributes"))
    click.echo("\n".join(["\nSome facts:\n", *(f"  {fact}" for fact in facts)]))
    print_formula(formula)
    click.echo(f"\nA neighbourhood of ({', '.join(TUPLE)}): {SIZE} objects drawn from those they share facts with:\n")
    print_neighbourhood(drawn, 3, f"gaifman neighbourhood demo {' '.join(TUPLE)} --size {SIZE}")
    with work_progress("items") as report:
        found = run_trial(kb, report)
    print_trial(found)
    click.echo("\n".join(["\nNext:", *(f"  {line}" for line in (*activation_hint(), *NEXT_COMMANDS))]))


def activation_hint() -> list[str]:
    """How the command is found, where it would not be: `make` puts it into a folder of its own."""
    activate = Path(sys.executable).with_name("activate")
    if shutil.which("gaifman") or not activate.exists():
        return []
    here = Path.cwd()
    return [f". {activate.relative_to(here) if activate.is_relative_to(here) else activate}"]


def example_facts(kb: KnowledgeBase) -> list[str]:
    """A few facts as they are written."""
    from gaifman.kb.facts import Fact

    return [str(Fact(name, tuple(objects))) for name, *objects in FACTS if (name, *objects) in kb]


def formula_fields(kb: KnowledgeBase) -> dict[str, Any]:
    """A formula read back, its truth for a pair, a count, and what a slip looks like."""
    from gaifman.errors import FormulaError
    from gaifman.logic.ast import to_bracketed
    from gaifman.logic.parser import parse, parse_query
    from gaifman.logic.semantics import count, holds

    structure = kb.structure()
    query = parse_query(QUERY, kb.schema)
    try:
        mistake = str(parse(MISSPELLED, kb.schema))
    except FormulaError as error:
        mistake = str(error)
    return {
        "text": QUERY,
        "canonical": str(query),
        "bracketed": to_bracketed(query),
        "truth": holds(structure, query.formula, dict(zip(query.variables, PAIR, strict=True))),
        "count": count(structure, parse(COUNT_QUERY, kb.schema)),
        "mistake": mistake,
    }


def print_formula(formula: dict[str, Any]) -> None:
    """The same, for people."""
    click.echo("\nA formula: which countries are two borders apart?\n")
    truth = "true" if formula["truth"] else "false"
    print_fields(
        [
            ("written", formula["text"]),
            ("read as", formula["bracketed"]),
            (f"truth for {' and '.join(PAIR)}", truth),
            (f"count of {COUNT_QUERY}", formula["count"]),
        ]
    )
    click.echo("\nA slip is pointed at:\n")
    click.echo("\n".join(f"  {line}" for line in formula["mistake"].splitlines()))

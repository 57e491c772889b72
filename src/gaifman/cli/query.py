"""`gaifman query`: exact answers over the whole knowledge base."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from gaifman.cli.neighbourhood import CountOrAll
from gaifman.cli.terminal import input_options, json_option, open_kb, print_fields, print_json, print_table

if TYPE_CHECKING:
    from gaifman.config import Budget
    from gaifman.queries.answers import Answers, PreparedQuery
    from gaifman.queries.engine import Engine

MAX_ROWS = 100
"""Answers in a table; the others are there with --tsv or --json."""


@click.command(short_help="Answer a query exactly, over the whole knowledge base.")
@click.argument("kb")
@click.argument("query")
@click.option("--set", "given", multiple=True, metavar="VARIABLE=OBJECT", help="Give a variable an object, by name.")
@click.option("--rows", type=CountOrAll(), default=1000, show_default=True, help="Answers to give at most, or `all`.")
@click.option("--skip", type=int, default=0, show_default=True, help="Answers to leave out before the first.")
@click.option("--count", "only_count", is_flag=True, help="Say how many answers there are, and nothing else.")
@click.option("--why", is_flag=True, help="Show the facts that make each answer true.")
@click.option("--sql", "only_sql", is_flag=True, help="Show the SQL, which runs on a saved .duckdb file.")
@click.option("--tsv", is_flag=True, help="Print names between tabs, one answer a line, as they are found.")
@click.option("--seconds", type=float, default=10.0, show_default=True, help="Stop the query after so long.")
@click.option("--memory", type=int, metavar="MB", help="Megabytes to use before the disk.")
@click.option(
    "--combinations",
    type=int,
    default=1_000_000_000,
    show_default=True,
    help="Combinations of objects that variables tied to no facts may imply.",
)
@click.option("--with", "others", multiple=True, metavar="FILE", help="Read this file too.")
@input_options
@json_option
def query(
    kb: str,
    query: str,
    bindings: tuple[str, ...],
    rows: int | None,
    skip: int,
    only_count: bool,
    why: bool,
    only_sql: bool,
    tsv: bool,
    seconds: float,
    memory: int | None,
    max_combinations: int,
    extra_files: tuple[str, ...],
    file_format: str | None,
    table: str | None,
    iris: str,
    as_json: bool,
) -> None:
    """Evaluate QUERY, any first-order formula, and show its answers in a stable order, with how it was read.

    \b
    Examples:
      gaifman query family.tsv "grandparent(x, y) :- parent(x, z), parent(z, y)" --set x=ann
      gaifman query demo "population(x) > 100000000 & ~(exists y. borders(x, y))"
      gaifman query demo "borders('france', y)" --why
      gaifman query demo "borders(x, y)" --rows all --tsv
      gaifman query demo "borders(x, y)" --sql
    """
    from gaifman.config import Budget
    from gaifman.queries.answers import prepare
    from gaifman.queries.engine import Engine

    budget = Budget(seconds, rows, max_combinations)
    known = open_kb((kb, *extra_files), file_format, table, iris)
    prepared = prepare(known, query, parse_bindings(bindings), budget)
    if only_sql:
        print_sql(prepared, rows, skip, as_json=as_json)
        return
    if prepared.note:
        click.echo(f"note: {prepared.note}", err=True)
    with Engine(known, memory_mb=memory) as engine:
        if only_count:
            print_count(engine, prepared, budget, as_json=as_json)
        elif tsv and not as_json:
            print_tsv(engine, prepared, skip, budget)
        else:
            print_answers(engine, prepared, skip, budget, why=why, as_json=as_json)


def parse_bindings(texts: tuple[str, ...], option: str = "--set", kind: str = "object") -> dict[str, str]:
    """Variables with their objects, or what else an option gives them.

    >>> parse_bindings(("x=ann", "?y=a=b"))
    {'x': 'ann', 'y': 'a=b'}
    """
    from gaifman.errors import FormulaError, shorten

    found: dict[str, str] = {}
    for text in texts:
        name, sign, obj = text.partition("=")
        name = name.strip().removeprefix("?")
        if not sign or not name or not obj:
            article, example = ("an", "ann") if kind == "object" else ("a", kind)
            raise FormulaError(
                f"{option} {shorten(text)} gives no variable {article} {kind}", hint=f"write: {option} x={example}"
            )
        if name in found:
            raise FormulaError(f"{option} gives {name} two {kind}s: {shorten(found[name])} and {shorten(obj)}")
        found[name] = obj
    return found


def print_sql(prepared: PreparedQuery, rows: int | None, skip: int, *, as_json: bool) -> None:
    """The statement that would be run."""
    sql = prepared.statement.ordered_sql(rows, skip)
    if as_json:
        print_json({**prepared.as_dict(), "sql": sql})
        return
    click.echo(f"-- {prepared.as_dict()['reading']}\n-- The numbers are those of the table objects(id, name).\n{sql};")


def print_count(engine: Engine, prepared: PreparedQuery, budget: Budget, *, as_json: bool) -> None:
    """How many answers there are."""
    from gaifman.queries.answers import count_answers

    number = count_answers(engine, prepared, budget)
    if as_json:
        print_json({**prepared.as_dict(), "count": number})
        return
    print_fields([("read as", prepared.as_dict()["reading"]), ("answers", number)])


def print_tsv(engine: Engine, prepared: PreparedQuery, skip: int, budget: Budget) -> None:
    """The answers as lines, without ever holding all of them."""
    from gaifman.errors import escape_unprintable
    from gaifman.queries.answers import stream_answers

    name = engine.kb.objects.__getitem__
    for part in stream_answers(engine, prepared, budget, skip=skip):
        click.echo("\n".join("\t".join(escape_unprintable(name(number)) for number in row) for row in part.tolist()))


def print_answers(
    engine: Engine, prepared: PreparedQuery, skip: int, budget: Budget, *, why: bool, as_json: bool
) -> None:
    """The answers as a table or JSON, with the facts behind them if they are asked for."""
    from gaifman.queries.answers import fetch_answers

    found = fetch_answers(engine, prepared, budget, skip=skip)
    facts = witness_texts(engine, found, budget) if why else []
    if as_json:
        body: dict[str, Any] = {**prepared.as_dict(), "answers": [list(names) for names in found]}
        body |= {"facts": facts} if why else {}
        print_json({**body, "skipped": skip, "truncated": found.truncated})
        return
    more = " and more" if found.truncated else ""
    sentence = not found.variables
    total = ("true" if len(found) else "false") if sentence else f"{len(found):,}{more}"
    print_fields([("read as", found.reading), ("answer" if sentence else "answers", total)])
    rows = list(found)[:MAX_ROWS]
    if sentence or not rows:
        return
    columns = [*found.variables, *(["facts"] if why else [])]
    print_table(
        "Answers", columns, [(*names, *(_first_witness(facts[i]) if why else ())) for i, names in enumerate(rows)]
    )
    if len(found) > MAX_ROWS:
        click.echo(f"… and {len(found) - MAX_ROWS:,} more: --tsv and --json list them")
    if found.truncated:
        click.echo(f"there are more: --skip {skip + len(found)} goes on, --rows all gives all", err=True)


def witness_texts(engine: Engine, found: Answers, budget: Budget) -> list[list[list[str]]]:
    """For each answer its witnesses, the first few, as texts of facts."""
    from gaifman.queries.witnesses import witness_facts

    return [
        [[str(fact) for fact in facts] for facts in ways]
        for ways in witness_facts(engine, found.prepared.query, found.tuples, max_witnesses=3, budget=budget)
    ]


def _first_witness(witnesses: list[list[str]]) -> tuple[str]:
    if not witnesses or not witnesses[0]:
        return ("no single fact",)
    return (" ".join(witnesses[0]) + (" …" if len(witnesses) > 1 else ""),)

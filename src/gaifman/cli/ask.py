"""`gaifman query`: exact answers over the whole knowledge base."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gaifman.cli.console import (
    check_overwrite,
    input_options,
    json_option,
    open_kb,
    print_fields,
    print_json,
    print_table,
)
from gaifman.cli.kb import CountOrAll

if TYPE_CHECKING:
    from gaifman.config import Budget
    from gaifman.explain.explanation import Explanation, Reason
    from gaifman.queries.answers import Answers, PreparedQuery
    from gaifman.queries.engine import Engine
    from gaifman.ranking.ranked_answers import RankedAnswers


MAX_ROWS = 100
"""Answers in a table; the others are there with --tsv or --json."""


@click.command(short_help="Answer a query exactly, over the whole knowledge base.")
@click.argument("kb")
@click.argument("query")
@click.option(
    "--bind", "bindings", multiple=True, metavar="VARIABLE=OBJECT", help="Give a variable an object, by name."
)
@click.option("--rows", type=CountOrAll(), default=1000, show_default=True, help="Answers to give at most, or `all`.")
@click.option("--skip", type=int, default=0, show_default=True, help="Answers to leave out before the first.")
@click.option("--count", "only_count", is_flag=True, help="Say how many answers there are, and nothing else.")
@click.option("--why", is_flag=True, help="Show the facts that make each answer true.")
@click.option("--sql", "only_sql", is_flag=True, help="Show the SQL, which runs on a saved .duckdb file.")
@click.option("--tsv", is_flag=True, help="Print names between tabs, one answer a line, as they are found.")
@click.option("--seconds", type=float, default=10.0, show_default=True, help="Stop the query after so long.")
@click.option("--memory", type=int, metavar="MB", help="Megabytes to use before the disk.")
@click.option(
    "--max-combinations",
    type=int,
    default=1_000_000_000,
    show_default=True,
    help="Combinations of objects that variables tied to no facts may imply.",
)
@click.option("--with", "extra_files", multiple=True, metavar="FILE", help="Read this file too.")
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
      gaifman query family.tsv "grandparent(x, y) :- parent(x, z), parent(z, y)" --bind x=ann
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


def parse_bindings(texts: tuple[str, ...], option: str = "--bind", kind: str = "object") -> dict[str, str]:
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
    from gaifman.logic.ast import to_bracketed

    sql = prepared.statement.ordered_sql(rows, skip)
    if as_json:
        print_json({**prepared.as_dict(), "sql": sql})
        return
    click.echo(f"-- {to_bracketed(prepared.query)}\n-- The numbers are those of the table objects(id, name).\n{sql};")


def print_count(engine: Engine, prepared: PreparedQuery, budget: Budget, *, as_json: bool) -> None:
    """How many answers there are."""
    from gaifman.logic.ast import to_bracketed
    from gaifman.queries.answers import count_answers

    number = count_answers(engine, prepared, budget)
    if as_json:
        print_json({**prepared.as_dict(), "count": number})
        return
    print_fields([("read as", to_bracketed(prepared.query)), ("answers", number)])


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
    from gaifman.logic.ast import to_bracketed
    from gaifman.queries.answers import fetch_answers

    found = fetch_answers(engine, prepared, budget, skip=skip)
    facts = witness_texts(engine, found, budget) if why else []
    if as_json:
        body: dict[str, Any] = {**prepared.as_dict(), "answers": [list(names) for names in found]}
        body |= {"witnesses": facts} if why else {}
        print_json({**body, "skipped": skip, "truncated": found.truncated})
        return
    more = " and more" if found.truncated else ""
    sentence = not found.variables
    total = ("true" if len(found) else "false") if sentence else f"{len(found):,}{more}"
    print_fields([("read as", to_bracketed(found.prepared.query)), ("answer" if sentence else "answers", total)])
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


KNOWN_CHOICES = ("mark", "exclude", "only")
"""As options have it: `gaifman.ranking.ranked_answers.KNOWN` without spaces."""


@click.command(short_help="Rank the answers of a trained model by probability.")
@click.argument("model")
@click.argument("kb")
@click.argument("query", required=False)
@click.option("--top", type=CountOrAll(), default=10, show_default=True, help="Answers to give at most, or `all`.")
@click.option("--draws", type=int, help="Neighbourhoods to average over, instead of the model's own number.")
@click.option(
    "--known",
    type=click.Choice(KNOWN_CHOICES),
    default="mark",
    show_default=True,
    help="Mark known answers, leave them out, or rank only them.",
)
@click.option(
    "--bind", "bindings", multiple=True, metavar="VARIABLE=OBJECT", help="Give a variable an object, by name."
)
@click.option("--restrict-to", multiple=True, metavar="VARIABLE=TYPE", help="Look only at the objects of a type.")
@click.option(
    "--candidates",
    type=click.Choice(["auto", "all", "typed", "seen", "near"]),
    default="auto",
    show_default=True,
    help="All objects, those of the types seen at their places, those seen there, or also near; auto: of the type that "
    "facts have there, and for several variables the first of these ways that stays below the limit.",
)
@click.option("--max-candidates", type=int, default=100_000, show_default=True, help="Such combinations at most.")
@click.option("--prior", type=float, help="The share of candidates that are answers, beforehand: 0.5 if not said.")
@click.option("--with", "extra_files", multiple=True, metavar="FILE", help="Read this file too.")
@input_options
@json_option
def answer(
    model: str,
    kb: str,
    query: str | None,
    top: int | None,
    draws: int | None,
    known: str,
    bindings: tuple[str, ...],
    restrict_to: tuple[str, ...],
    candidates: str,
    max_candidates: int,
    prior: float | None,
    extra_files: tuple[str, ...],
    file_format: str | None,
    table: str | None,
    iris: str,
    as_json: bool,
) -> None:
    """Rank the answers that MODEL, a file of `gaifman train`, finds in KB, with probabilities and standard errors.

    A completion is asked QUERY, one relation with objects and variables. The model of a query is asked that query,
    which may be left out, or stand here with objects for its variables. A known answer is judged as if it were not
    known.

    \b
    Examples:
      gaifman answer countries.gaifman demo "capital('france', y)"
      gaifman answer countries.gaifman demo "borders(x, y)" --known exclude --top 20
      gaifman answer near.gaifman demo --bind x=portugal --restrict-to y=country
    """
    from gaifman.completion import load

    objects, types, found = parse_bindings(bindings), parse_bindings(restrict_to, "--restrict-to", "type"), load(model)
    ranked = found.with_kb(open_kb((kb, *extra_files), file_format, table, iris)).answers(
        query,
        objects,
        top=top,
        known=known,
        restrict_to=types,
        candidates=candidates,
        max_candidates=max_candidates,
        draws=draws,
        prior=prior,
    )
    if as_json:
        print_json(ranked.as_dict())
    else:
        typed = (
            candidates == "auto" and not restrict_to and not ranked.considered.description.startswith(("all", "known"))
        )
        print_ranked_answers(ranked, prior, "--candidates all ranks all objects" if typed else "")


def print_ranked_answers(answers: RankedAnswers, prior: float | None, hint: str) -> None:
    """The answers as a table, with how the question was read, what was looked at, and what is presupposed."""
    considered = f"{answers.considered} ({hint})" if hint else str(answers.considered)
    print_fields([("read as", answers.bracketed), ("considered", considered), ("beforehand", prior_text(prior))])
    if len(answers):
        print_answer_table(answers, "Answers")
    else:
        click.echo("there is no answer among them", err=True)


def prior_text(prior: float | None) -> str:
    """What a probability is of: it hangs on how many answers there are at all."""
    if prior is None:
        return "one in two is an answer (--prior 0.01: one in a hundred)"
    return f"the share {prior:g} are answers"


def print_answer_table(answers: RankedAnswers, title: str) -> None:
    """The rows alone."""
    marks = any(row.known for row in answers)
    columns = [*answers.variables, "probability", *(["known"] if marks else [])]
    rows = [(*row.names, str(row.estimate), *(["yes" if row.known else "–"] if marks else [])) for row in answers]
    print_table(title, columns, rows)


@click.command(short_help="Say why an answer is as probable as a trained model finds it.")
@click.argument("model")
@click.argument("kb")
@click.argument("query", required=False)
@click.option(
    "--answer", "-a", multiple=True, metavar="NAME", help="An object for each variable of the query, in their order."
)
@click.option(
    "--bind", "bindings", multiple=True, metavar="VARIABLE=OBJECT", help="Give a variable an object, by name."
)
@click.option(
    "--top", type=int, default=10, show_default=True, help="Formulas to show, of those for it and of those against it."
)
@click.option("--draws", type=int, help="Neighbourhoods to average over, instead of the model's own number.")
@click.option("--prior", type=float, help="The share of candidates that are answers, beforehand: 0.5 if not said.")
@click.option("--picture", metavar="FILE", help="Draw a neighbourhood with the facts that speak: .svg.")
@click.option("--force", is_flag=True, help="Replace the picture if it is there.")
@click.option("--with", "extra_files", multiple=True, metavar="FILE", help="Read this file too.")
@input_options
@json_option
def explain(
    model: str,
    kb: str,
    query: str | None,
    answer: tuple[str, ...],
    bindings: tuple[str, ...],
    top: int,
    draws: int | None,
    prior: float | None,
    picture: str | None,
    force: bool,
    extra_files: tuple[str, ...],
    file_format: str | None,
    table: str | None,
    iris: str,
    as_json: bool,
) -> None:
    """Take apart what MODEL, a file of `gaifman train`, says of one answer in KB. QUERY is as for `gaifman answer`.

    Shown are the formulas that spoke for the answer and against it, with their weights in log-odds and the facts that
    witness them, then what else adds up to the probability, and what would be said without the facts it hangs on. A
    known answer is judged as if it were not known.

    \b
    Examples:
      gaifman explain countries.gaifman demo "capital('france', y)" --answer paris
      gaifman explain countries.gaifman demo "borders('portugal', 'spain')" --picture spain.svg
      gaifman explain near.gaifman demo --bind x=portugal --answer france --json
    """
    from gaifman.completion import load
    from gaifman.explain.svg import check_svg_path, write_svg

    if picture:
        check_svg_path(picture)
        check_overwrite(picture, force=force)
    objects, found = parse_bindings(bindings), load(model)
    bound = found.with_kb(open_kb((kb, *extra_files), file_format, table, iris))
    explanation = bound.explain_answer(query, objects, answer, top=top, draws=draws, prior=prior)
    if picture:
        write_svg(explanation.svg(), Path(picture))
    if as_json:
        print_json(explanation.as_dict())
    else:
        print_explanation(explanation, prior)
    if picture:
        click.echo(f"wrote {picture}", err=True)


def print_explanation(explanation: Explanation, prior: float | None) -> None:
    """Tables of what spoke, sums, and the counterfactual."""
    from gaifman.explain.explanation import NO_COUNTERFACTUAL

    known = f" ({explanation.known_note})" if explanation.known else ""
    fields = [("read as", explanation.query + known), ("probability", str(explanation.estimate))]
    print_fields([*fields, ("beforehand", prior_text(prior))])
    for title, reasons in (("For it", explanation.supporting), ("Against it", explanation.opposing)):
        if reasons:
            print_table(title, ["log-odds", "formula", "facts"], map(_reason_row, reasons), right=[0])
    parts = [("formulas above", sum(reason.effect for reason in explanation.reasons))]
    parts += [
        *explanation.parts.labelled(explanation.estimate.draws),
        ("probability, in log-odds", explanation.log_odds),
    ]
    print_table("Together", ["log-odds", ""], [(f"{effect:+.3f}", words) for words, effect in parts], right=[0])
    other = explanation.counterfactual
    if other is None:
        click.echo(f"\n{NO_COUNTERFACTUAL}")
        return
    click.echo("\n" + click.style(f"Without these facts: {explanation.counterfactual_text}", bold=True))
    for fact in other.facts:
        click.echo(f"  {_visible(str(fact))}")


def _reason_row(reason: Reason) -> tuple[str, str, str]:
    return f"{reason.effect:+.3f}", reason.formula, reason.evidence


def _visible(text: str) -> str:
    from gaifman.errors import escape_unprintable

    return escape_unprintable(text)

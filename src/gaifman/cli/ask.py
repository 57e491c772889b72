"""Commands that answer queries: query (exact), answer (ranked by a model) and explain."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gaifman.cli.console import (
    CountOrAll,
    InputOptions,
    bind_option,
    check_overwrite,
    kb_options,
    kernel_progress,
    output_options,
    parse_bindings,
    print_fields,
    print_json,
    print_more,
    print_rows,
    print_table,
)
from gaifman.errors import escape_unprintable

if TYPE_CHECKING:
    from gaifman._tables import Columns
    from gaifman.config import Budget
    from gaifman.explain.explanation import Explanation
    from gaifman.kb.knowledge_base import Fact
    from gaifman.kb.labels import Labels
    from gaifman.model import Model
    from gaifman.queries.answers import Answers, PreparedQuery
    from gaifman.queries.engine import Engine
    from gaifman.ranking.ranked_answers import RankedAnswers

    Witnesses = list[list[list[Fact]]]
    """For each answer, some sets of facts that make it true."""

MAX_ROWS = 100
"""Exact answers in a table; --tsv and --json print all."""
KNOWN_CHOICES = ("mark", "exclude", "only")
CANDIDATE_CHOICES = ("auto", "all", "typed", "seen", "near")
PRIOR_HELP = "Fraction of candidates that are answers.  [default: that of the model]"
DRAWS_HELP = "Neighbourhoods per candidate.  [default: the model's]"
no_constraints_option = click.option(
    "--no-constraints", is_flag=True, help="Ignore conflicts with known facts: no constraint lowers a probability."
)


@click.command(short_help="Answer a query exactly.")
@click.argument("kb")
@click.argument("query")
@bind_option
@click.option("--rows", type=CountOrAll(), default=1000, show_default=True, help="Answers to return, or `all`.")
@click.option("--skip", type=int, default=0, show_default=True, help="Answers to skip.")
@click.option("--count", "only_count", is_flag=True, help="Print only the number of answers.")
@click.option("--why", is_flag=True, help="Show the facts that make each answer true.")
@click.option("--sql", "only_sql", is_flag=True, help="Print the SQL, which runs on a saved .duckdb file.")
@click.option("--tsv", is_flag=True, help="Print tab-separated names, one answer per line, as they are found.")
@click.option("--seconds", type=float, default=10.0, show_default=True, help="Time limit.")
@click.option("--memory", type=int, metavar="MB", help="Memory limit; beyond it the disk is used.")
@click.option("--disk", type=int, metavar="MB", help="Disk limit.  [default: 20,000]")
@click.option(
    "--max-combinations",
    type=int,
    default=1_000_000_000,
    show_default=True,
    help="Limit for combinations of objects, for variables that no fact restricts.",
)
@kb_options
@output_options
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
    disk: int | None,
    max_combinations: int,
    reading: InputOptions,
    as_json: bool,
) -> None:
    """Answer QUERY, a first-order formula, exactly: its answers in the facts of KB. No model is needed.

    \b
    Examples:
      gaifman query demo "borders('france', y)" --why
      gaifman query demo "population(x) > 100000000 & ~(exists y. borders(x, y))"
      gaifman query family.tsv "grandparent(x, y) :- parent(x, z), parent(z, y)" --bind x=ann
      gaifman query demo "borders(x, y)" --rows all --tsv
      gaifman query demo "borders(x, y)" --sql
    """
    from gaifman.config import Budget
    from gaifman.queries.answers import prepare
    from gaifman.queries.engine import Engine

    budget = Budget(seconds, rows, max_combinations)
    known = reading.read(kb)
    prepared = prepare(known, query, parse_bindings(bindings), budget)
    if only_sql:
        _print_sql(prepared, rows, skip, as_json=as_json)
        return
    if prepared.note:
        click.echo(f"note: {prepared.note}", err=True)
    with Engine(known, memory_mb=memory, disk_mb=disk) as engine:
        if only_count:
            _print_count(engine, prepared, budget, as_json=as_json)
        elif tsv and not as_json:
            _print_tsv(engine, prepared, skip, budget)
        else:
            _print_answers(engine, prepared, skip, budget, why=why, as_json=as_json)


def _print_sql(prepared: PreparedQuery, rows: int | None, skip: int, *, as_json: bool) -> None:
    from gaifman.logic.ast import to_bracketed

    sql = prepared.statement.ordered_sql(rows, skip)
    if as_json:
        print_json({**prepared.as_dict(), "sql": sql})
    else:
        click.echo(f"-- {to_bracketed(prepared.query)}\n-- Numbers are ids of the table objects(id, name).\n{sql};")


def _print_count(engine: Engine, prepared: PreparedQuery, budget: Budget, *, as_json: bool) -> None:
    from gaifman.queries.answers import count_answers

    number = count_answers(engine, prepared, budget)
    if as_json:
        print_json({**prepared.as_dict(), "count": number})
    elif not print_rows(lambda: {"count": [number]}):
        print_fields([("read as", prepared.shown(engine.kb.display)), ("answers", number)])


def _print_tsv(engine: Engine, prepared: PreparedQuery, skip: int, budget: Budget) -> None:
    """Print the answers as lines, in blocks, so that they are never all in memory."""
    from gaifman.queries.answers import stream_answers

    name = engine.kb.objects.__getitem__
    for block in stream_answers(engine, prepared, budget, skip=skip):
        click.echo("\n".join("\t".join(escape_unprintable(name(number)) for number in row) for row in block.tolist()))


def _print_answers(
    engine: Engine, prepared: PreparedQuery, skip: int, budget: Budget, *, why: bool, as_json: bool
) -> None:
    from gaifman.queries.answers import fetch_answers

    found = fetch_answers(engine, prepared, budget, skip=skip)
    witnesses = _find_witnesses(engine, found, budget) if why else []
    if as_json:
        body: dict[str, Any] = {**prepared.as_dict(), "answers": [list(names) for names in found]}
        body |= {"witnesses": [[list(map(str, facts)) for facts in each] for each in witnesses]} if why else {}
        body |= _label_fields(found, witnesses)
        print_json({**body, "skipped": skip, "truncated": found.truncated})
        return
    if print_rows(lambda: _answer_columns(found, witnesses)):
        _note_truncated(found, skip)
        return
    fields = [("read as", found.shown_query)]
    if not found.variables:
        print_fields([*fields, ("answer", "true" if len(found) else "false")])
        return
    print_fields([*fields, ("answers", f"{len(found):,}{' (more exist)' if found.truncated else ''}")])
    display = found.kb.display
    shown = islice(found.shown(), MAX_ROWS)
    rows = [(*names, *(_first_witness(witnesses[i], display) if why else ())) for i, names in enumerate(shown)]
    if rows:
        print_table("Answers", [*found.variables, *(["facts"] if why else [])], rows)
    print_more(len(found) - MAX_ROWS, "answers", "--tsv and --json print them")
    _note_truncated(found, skip)


def _answer_columns(found: Answers, witnesses: Witnesses) -> Columns:
    """The answers, with the first facts that make each true if they were asked for."""
    from gaifman.kb.labels import label_fact

    if not witnesses:
        return found.columns()
    first = [own[0] if own else [] for own in witnesses]
    columns = {**found.columns(), "facts": [" ".join(map(str, facts)) for facts in first]}
    if found.kb.labels:
        display = found.kb.display
        columns["facts_labels"] = [" ".join(str(label_fact(fact, display)) for fact in facts) for facts in first]
    return columns


def _note_truncated(found: Answers, skip: int) -> None:
    if found.truncated:
        click.echo(f"more answers exist: --skip {skip + len(found)} for the next, --rows all for all", err=True)


def _find_witnesses(engine: Engine, answers: Answers, budget: Budget) -> Witnesses:
    """Return the first witnesses of each answer."""
    from gaifman.queries.witnesses import witness_facts

    found = witness_facts(engine, answers.prepared.query, answers.tuples, max_witnesses=3, budget=budget)
    return [[list(facts) for facts in witnesses] for witnesses in found]


def _label_fields(answers: Answers, witnesses: Witnesses) -> dict[str, Any]:
    """Return how the objects are shown, as a field for JSON; none if the knowledge base has no labels."""
    from gaifman.kb.labels import chosen_labels

    if not answers.kb.labels:
        return {}
    named = (name for each in witnesses for facts in each for fact in facts for name in fact.objects)
    labels = answers.labels | chosen_labels(named, answers.kb.display)
    return {"labels": labels, "query_labels": answers.shown_query}


def _first_witness(witnesses: list[list[Fact]], labels: Labels) -> tuple[str]:
    from gaifman.kb.labels import label_fact

    if not witnesses or not witnesses[0]:
        return ("no single fact",)
    first = " ".join(str(label_fact(fact, labels)) for fact in witnesses[0])
    return (first + (" …" if len(witnesses) > 1 else ""),)


@click.command(short_help="Rank the answers of a query with a model.")
@click.argument("model")
@click.argument("kb")
@click.argument("query", required=False)
@bind_option
@click.option("--top", type=CountOrAll(), default=10, show_default=True, help="Answers to print, or `all`.")
@click.option(
    "--known",
    type=click.Choice(KNOWN_CHOICES),
    default="mark",
    show_default=True,
    help="Known answers: mark them, exclude them, or rank only them.",
)
@click.option("--prior", type=float, help=PRIOR_HELP)
@click.option("--draws", type=int, help=DRAWS_HELP)
@click.option("--restrict-to", multiple=True, metavar="VARIABLE=TYPE", help="Only objects of this type. Repeatable.")
@click.option(
    "--candidates",
    type=click.Choice(CANDIDATE_CHOICES),
    default="auto",
    show_default=True,
    help="Which objects to rank: all; typed: of the types seen at the position; seen: seen at the position; near: also "
    "near each other; auto: of the position's type, and for several variables the first of these within the limit.",
)
@click.option(
    "--max-candidates", type=int, default=100_000, show_default=True, help="Limit for tuples of several variables."
)
@no_constraints_option
@click.option(
    "--covered",
    is_flag=True,
    help="Leave out answers about which the model has little to go on: no formula reaches them, and an object was "
    "never seen at its position. Known answers stay.",
)
@kb_options
@output_options
def answer(
    model: str,
    kb: str,
    query: str | None,
    bindings: tuple[str, ...],
    top: int | None,
    known: str,
    prior: float | None,
    draws: int | None,
    restrict_to: tuple[str, ...],
    candidates: str,
    max_candidates: int,
    no_constraints: bool,
    covered: bool,
    reading: InputOptions,
    as_json: bool,
) -> None:
    """Rank the answers of QUERY in KB by the probabilities of MODEL, a file that `gaifman train` wrote.

    \b
    Examples:
      gaifman answer countries.gaifman demo "capital('france', y)"
      gaifman answer countries.gaifman demo "borders(x, y)" --known exclude
      gaifman answer near.gaifman demo --bind x=portugal --restrict-to y=country

    A completion takes one relation with objects and variables. The model of a query takes that query, which can be
    left out, or repeated with objects for variables. The probability of a known answer is computed without the facts
    that make it true. The constraints of the model make answers improbable that conflict with known facts.
    """
    from gaifman.completion import load

    types, objects = parse_bindings(restrict_to, "--restrict-to", "type"), parse_bindings(bindings)
    loaded = load(model).with_kb(reading.read(kb))
    with kernel_progress():
        ranked = loaded.answers(
            query,
            objects,
            top=top,
            known=known,
            restrict_to=types,
            candidates=candidates,
            max_candidates=max_candidates,
            draws=draws,
            prior=prior,
            constraints=not no_constraints,
            covered=covered,
        )
    if as_json:
        print_json(ranked.as_dict())
    elif not print_rows(ranked.columns):
        considered = ranked.considered.description
        typed = candidates == "auto" and not restrict_to and not considered.startswith(("all", "known"))
        hint = " (--candidates all ranks all objects)" if typed else ""
        _print_ranked(ranked, _assumption(loaded, prior), hint)


def _print_ranked(answers: RankedAnswers, assumption: tuple[str, str], hint: str) -> None:
    print_fields([("read as", answers.shown_query), ("ranked", f"{answers.considered}{hint}"), assumption])
    if not len(answers):
        click.echo("no candidate is left to rank", err=True)
        return
    listed = list(answers)
    marked, conflicting = (any(flags) for flags in zip(*((row.known, row.conflicts) for row in listed), strict=True))
    columns = [*answers.variables, "probability", *["known"] * marked, *["conflicts"] * conflicting]
    rows = [
        (
            *row.shown,
            str(row.estimate) + ("" if row.covered else " *"),
            *(["yes" if row.known else "–"] if marked else []),
            *(["; ".join(map(str, row.conflicts)) or "–"] if conflicting else []),
        )
        for row in listed
    ]
    print_table("Answers", columns, rows)
    for footnote in answers.footnotes:
        click.echo(f"* {footnote} (--covered leaves these out)")
    if answers.answer_set is not None:
        click.echo(f"\n{answers.answer_set}")


def _assumption(model: Model, prior: float | None) -> tuple[str, str]:
    """Return what probabilities assume, as a field."""
    if prior is not None:
        return "prior", f"{prior:g}"
    if model.assumed_missing is not None:
        return "assumed", f"{model.assumed_missing:g} of the facts are missing (set with train --missing)"
    return "prior", "0.5 (set with --prior)"


@click.command(short_help="Explain a prediction.")
@click.argument("model")
@click.argument("kb")
@click.argument("query", required=False)
@click.option(
    "--answer", "-a", multiple=True, metavar="OBJECT", help="The answer: an object for each free variable, in order."
)
@bind_option
@click.option("--top", type=int, default=10, show_default=True, help="Formulas to show, for and against.")
@click.option("--prior", type=float, help=PRIOR_HELP)
@click.option("--draws", type=int, help=DRAWS_HELP)
@no_constraints_option
@click.option("--picture", metavar="FILE", help="Draw a neighbourhood with the decisive facts: .svg.")
@click.option("--force", is_flag=True, help="Replace the picture if it exists.")
@kb_options
@output_options
def explain(
    model: str,
    kb: str,
    query: str | None,
    answer: tuple[str, ...],
    bindings: tuple[str, ...],
    top: int,
    prior: float | None,
    draws: int | None,
    no_constraints: bool,
    picture: str | None,
    force: bool,
    reading: InputOptions,
    as_json: bool,
) -> None:
    """Explain the probability that MODEL gives to one answer of QUERY in KB. QUERY is as in `gaifman answer`.

    \b
    Examples:
      gaifman explain countries.gaifman demo "capital('france', y)" --answer paris
      gaifman explain countries.gaifman demo "borders('portugal', 'spain')" --picture spain.svg
      gaifman explain near.gaifman demo --bind x=portugal --answer france --json

    The output has the formulas for and against the answer with their weights in log-odds and the facts that make them
    true, the constraints that it conflicts with, the other terms of the sum, and the probability without the decisive
    facts.
    """
    from gaifman.completion import load
    from gaifman.explain.svg import check_svg_path, write_svg

    if picture:
        check_svg_path(picture)
        check_overwrite(picture, force=force)
    objects = parse_bindings(bindings)
    loaded = load(model).with_kb(reading.read(kb))
    with kernel_progress():
        explanation = loaded.explain_answer(
            query, objects, answer, top=top, draws=draws, prior=prior, constraints=not no_constraints
        )
    if picture:
        write_svg(explanation.svg(), Path(picture))
    if as_json:
        print_json(explanation.as_dict())
        return
    if not print_rows(explanation.columns):
        _print_explanation(explanation, _assumption(loaded, prior))
    if picture:
        click.echo(f"wrote {picture}", err=True)


def _print_explanation(explanation: Explanation, assumption: tuple[str, str]) -> None:
    from gaifman.explain.explanation import NO_COUNTERFACTUAL

    known = f" ({explanation.known_note})" if explanation.known else ""
    fields = [("prediction", explanation.shown_query + known), ("probability", str(explanation.estimate))]
    coverage = [] if explanation.covered else [("note", explanation.coverage_note)]
    print_fields([*fields, assumption, *coverage])
    for title, reasons in (("For", explanation.supporting), ("Against", explanation.opposing)):
        if reasons:
            rows = [(f"{reason.effect:+.3f}", reason.shown, reason.evidence) for reason in reasons]
            print_table(title, ["log-odds", "formula", "facts"], rows, right=[0])
    terms = [
        (explanation.shown_label, sum(reason.effect for reason in explanation.reasons)),
        *explanation.parts.labelled(explanation.estimate.draws),
        ("total: log-odds of the probability", explanation.log_odds),
    ]
    print_table("Sum", ["log-odds", "term"], [(f"{effect:+.3f}", words) for words, effect in terms], right=[0])
    if explanation.counterfactual is None:
        click.echo(f"\n{NO_COUNTERFACTUAL}")
        return
    click.echo("\n" + click.style(f"Without these facts: {explanation.counterfactual_text}", bold=True))
    for fact in explanation.decisive_facts:
        click.echo(f"  {fact}")

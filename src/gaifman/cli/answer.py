"""`gaifman answer`: the most probable answers of a trained model, from any knowledge base with its relations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from gaifman.cli.neighbourhood import CountOrAll
from gaifman.cli.query import parse_bindings as given_to
from gaifman.cli.terminal import input_options, json_option, open_kb, print_fields, print_json, print_table

if TYPE_CHECKING:
    from gaifman.ranking.ranked_answers import RankedAnswers

KNOWN_CHOICES = ("mark", "leave-out", "only")
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
@click.option("--set", "given", multiple=True, metavar="VARIABLE=OBJECT", help="Give a variable an object, by name.")
@click.option("--among", multiple=True, metavar="VARIABLE=TYPE", help="Look only at the objects of a type.")
@click.option(
    "--candidates",
    type=click.Choice(["auto", "all", "typed", "seen", "near"]),
    default="auto",
    show_default=True,
    help="All objects, those of the types seen at their places, those seen there, or also near; auto: of the type that "
    "facts have there, and for several variables the first of these ways that stays below the limit.",
)
@click.option("--limit", type=int, default=100_000, show_default=True, help="Such combinations at most.")
@click.option("--prior", type=float, help="The share of candidates that are answers, beforehand: 0.5 if not said.")
@click.option("--with", "others", multiple=True, metavar="FILE", help="Read this file too.")
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
      gaifman answer countries.gaifman demo "borders(x, y)" --known leave-out --top 20
      gaifman answer near.gaifman demo --set x=portugal --among y=country
    """
    from gaifman.completion import load
    from gaifman.ranking.candidates import CandidateStrategy

    settings: dict[str, Any] = {"top": top, "known": known.replace("-", " "), "draws": draws, "prior": prior}
    settings |= {
        "among": given_to(restrict_to, "--among", "type"),
        "candidates": CandidateStrategy(candidates, max_candidates),
    }
    objects, found = given_to(bindings), load(model)
    asked: Any = found.with_kb(open_kb((kb, *extra_files), file_format, table, iris))
    usual = candidates == "auto" and not restrict_to and known != "only"
    types = infer_types(asked, query, objects) if usual else {}
    ranked = asked.answers(query, objects, **settings | ({"among": types} if types else {}))
    if as_json:
        print_json(ranked.as_dict())
    else:
        print_ranked_answers(ranked, prior, "--candidates all looks at any object" if types else "")


def infer_types(model: Any, query_text: str | None, bindings: dict[str, str]) -> dict[str, str]:
    """Variable → the type that facts have at its place, where nothing else was asked for: as the page does it."""
    from gaifman.errors import GaifmanError
    from gaifman.logic.parser import parse_query
    from gaifman.model import GaifmanModel
    from gaifman.ranking.candidates import variable_types

    text = str(model.query) if query_text is None and isinstance(model, GaifmanModel) else query_text or ""
    try:
        query = parse_query(text, model.kb.schema)
    except GaifmanError:
        return {}  # whoever answers says what is wrong
    return {name: kind for name, kind in variable_types(model.kb, query).items() if name not in bindings}


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

"""`gaifman explain`: why a trained model finds an answer as probable as it does."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gaifman.cli.answer import prior_text
from gaifman.cli.query import parse_bindings as given_to
from gaifman.cli.terminal import (
    check_overwrite,
    input_options,
    json_option,
    open_kb,
    print_fields,
    print_json,
    print_table,
)

if TYPE_CHECKING:
    from gaifman.explain.explanation import Explanation, Reason


@click.command(short_help="Say why an answer is as probable as a trained model finds it.")
@click.argument("model")
@click.argument("kb")
@click.argument("query", required=False)
@click.option(
    "--answer", "-a", multiple=True, metavar="NAME", help="An object for each variable of the query, in their order."
)
@click.option("--set", "given", multiple=True, metavar="VARIABLE=OBJECT", help="Give a variable an object, by name.")
@click.option(
    "--top", type=int, default=10, show_default=True, help="Formulas to show, of those for it and of those against it."
)
@click.option("--draws", type=int, help="Neighbourhoods to average over, instead of the model's own number.")
@click.option("--prior", type=float, help="The share of candidates that are answers, beforehand: 0.5 if not said.")
@click.option("--picture", metavar="FILE", help="Draw a neighbourhood with the facts that speak: .svg.")
@click.option("--force", is_flag=True, help="Replace the picture if it is there.")
@click.option("--with", "others", multiple=True, metavar="FILE", help="Read this file too.")
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
      gaifman explain near.gaifman demo --set x=portugal --answer france --json
    """
    from gaifman.completion import load
    from gaifman.explain.svg import check_svg_path, write_svg

    if picture:
        check_svg_path(picture)
        check_overwrite(picture, force=force)
    objects, found = given_to(bindings), load(model)
    asked: Any = found.with_kb(open_kb((kb, *extra_files), file_format, table, iris))
    explanation = asked.explain(*asked.tuple_of(query, objects, answer), top=top, draws=draws, prior=prior)
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

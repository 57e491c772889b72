"""`gaifman convert`: one knowledge base, another file."""

from __future__ import annotations

import click

from gaifman.cli.terminal import check_overwrite, input_options, json_option, open_kb, print_json

OUTPUT_FORMATS = ("facts", "triples", "nary", "parquet", "duckdb")


@click.command(short_help="Write a knowledge base in another format.")
@click.argument("source", nargs=-1, required=True, metavar="IN...")
@click.argument("target", metavar="OUT")
@input_options
@click.option(
    "--to",
    type=click.Choice(OUTPUT_FORMATS),
    metavar="FORMAT",
    help=f"How to write, instead of by the end of the name: {', '.join(OUTPUT_FORMATS)}.",
)
@click.option("--lossy", is_flag=True, help="Leave out what the format cannot hold.")
@click.option("--force", is_flag=True, help="Replace OUT if it is there.")
@json_option
def convert(
    source: tuple[str, ...],
    target: str,
    file_format: str | None,
    table: str | None,
    iris: str,
    output_format: str | None,
    lossy: bool,
    force: bool,
    as_json: bool,
) -> None:
    """Read the files IN and write what they hold together to OUT, whole or not at all.

    \b
    Examples:
      gaifman convert train.tsv.gz types.tsv family.duckdb
      gaifman convert demo countries.parquet
      gaifman convert graph.ttl graph.facts.gz --iris local
    """
    from gaifman.io import write

    check_overwrite(target, force=force)
    known = open_kb(source, file_format, table, iris)
    write(known, target, format=output_format, lossy=lossy)
    if as_json:
        print_json({"written": target, "facts": len(known), "fingerprint": known.fingerprint})
    else:
        click.echo(f"wrote {target}: {len(known):,} facts, fingerprint {known.fingerprint}", err=True)

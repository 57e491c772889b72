"""The command that splits a knowledge base: split."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gaifman.cli.console import (
    MAX_LISTED,
    InputOptions,
    check_overwrite,
    input_options,
    json_option,
    print_json,
    print_more,
    print_table,
)
from gaifman.errors import shorten

if TYPE_CHECKING:
    from gaifman.kb.knowledge_base import KnowledgeBase
    from gaifman.kb.split import Split

SUFFIXES = {
    "facts": ".facts",
    "triples": ".tsv",
    "nary": ".tsv",
    "parquet": ".parquet",
    "duckdb": ".duckdb",
    "ntriples": ".nt",
    "turtle": ".ttl",
}
"""Format → the suffix of the files."""


class ShareOrCount(click.ParamType[float | int]):
    """A share of the facts, such as 0.1, or their number."""

    name = "SHARE|N"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float | int:
        """Return an integer for a number of facts, else a share."""
        text = str(value)
        try:
            return int(text) if text.isdecimal() else float(text)
        except ValueError:
            self.fail(f"{shorten(text)!r} is neither a share, such as 0.1, nor a number of facts.", param, ctx)


@click.command(short_help="Split a knowledge base into train, valid and test.")
@click.argument("kb", nargs=-1, required=True)
@click.option("--output", "-o", required=True, metavar="FOLDER", help="The folder of the files; it is made if needed.")
@click.option(
    "--valid", type=ShareOrCount(), default=0.1, show_default=True, help="Share or number of validation facts."
)
@click.option("--test", type=ShareOrCount(), default=0.1, show_default=True, help="Share or number of test facts.")
@click.option(
    "--relation", "relations", multiple=True, metavar="NAME", help="Take facts of this relation only. Repeatable."
)
@click.option("--seed", type=int, default=0, show_default=True, help="Random seed.")
@click.option(
    "--no-inverse-leakage",
    is_flag=True,
    help="Keep facts together that follow from each other: inverses, duplicates, both ways of symmetric relations.",
)
@click.option("--new-objects", is_flag=True, help="Allow objects that are in valid or test alone.")
@click.option(
    "--to",
    "output_format",
    type=click.Choice(list(SUFFIXES)),
    metavar="FORMAT",
    help=f"Format of the files, one of {', '.join(SUFFIXES)}.  [default: that of KB, if it holds everything]",
)
@click.option("--force", is_flag=True, help="Replace the files if they exist.")
@input_options
@json_option
def split(
    kb: tuple[str, ...],
    output: str,
    valid: float,
    test: float,
    relations: tuple[str, ...],
    seed: int,
    no_inverse_leakage: bool,
    new_objects: bool,
    output_format: str | None,
    force: bool,
    reading: InputOptions,
    as_json: bool,
) -> None:
    """Split KB at random into train, valid and test, a file each in FOLDER.

    \b
    Examples:
      gaifman split demo -o parts
      gaifman split facts.tsv -o parts --valid 0 --test 500 --seed 7
      gaifman split facts.tsv -o parts --no-inverse-leakage

    Each relation gives its share. Every object and relation keeps a fact in train, and train keeps all types and
    values of attributes that are not drawn. The same facts and seed give the same split, in whatever order they come.
    """
    known = reading.read(*kb)
    parts = known.split(
        valid,
        test,
        relations=relations or None,
        seed=seed,
        inverses=not no_inverse_leakage,
        new_objects=new_objects,
    )
    by_name = {name: part for name, part in _named(parts).items() if len(part) or name == "train"}
    suffix = SUFFIXES[output_format] if output_format else _suffix(known, kb[0])
    folder = Path(output)
    files = {folder / f"{name}{suffix}": part for name, part in by_name.items()}
    for file in files:
        check_overwrite(str(file), force=force)
    _write(folder, files, output_format)
    _print(parts, [str(file) for file in files], as_json)


def _named(parts: Split) -> dict[str, KnowledgeBase]:
    return {"train": parts.train, "valid": parts.valid, "test": parts.test}


def _suffix(kb: KnowledgeBase, source: str) -> str:
    """The suffix of the knowledge base's own file, if such a file can be written and holds everything."""
    from gaifman.io import can_hold
    from gaifman.io.files import file_suffix, is_rdf

    compressed = ".gz" if source.lower().endswith(".gz") else ""
    choices = [file_suffix(source) + compressed, ".facts" + compressed]
    if is_rdf(choices[0]) and any(name.startswith("_:") for name in kb.objects):
        del choices[0]  # blank nodes of different files are different objects
    return next((suffix for suffix in choices if can_hold(kb, f"kb{suffix}")), ".duckdb")


def _write(folder: Path, files: Mapping[Path, KnowledgeBase], output_format: str | None) -> None:
    """Write all files, or none."""
    from gaifman.errors import OutputError
    from gaifman.io import write

    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix=".split.") as scratch:
            for file, part in files.items():
                write(part, Path(scratch) / file.name, format=output_format)
            for file in files:
                (Path(scratch) / file.name).replace(file)
    except OSError as error:
        raise OutputError(f"{folder} cannot be written: {error.strerror or error}") from None


def _print(parts: Split, files: list[str], as_json: bool) -> None:
    if as_json:
        print_json({"files": files} | parts.as_dict())
        return
    columns = parts.columns()
    rows = sorted(zip(*columns.values(), strict=True), key=lambda row: -int(row[1]))
    total = ("all", *(sum(column) for name, column in columns.items() if name != "relation"))
    print_table("Facts of each part", list(columns), [total, *rows[:MAX_LISTED]], right=range(1, len(columns)))
    print_more(len(rows) - MAX_LISTED, "relations", "--json lists them")
    objects = ", ".join(f"{len(part.objects):,} in {name}" for name, part in _named(parts).items())
    click.echo(f"\nobjects: {objects}")
    for note in parts.notes:
        click.echo(f"note: {note}", err=True)
    click.echo(f"wrote {', '.join(files)}", err=True)

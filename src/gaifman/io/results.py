"""Write the rows of a result as CSV, tab-separated text, JSON lines, Parquet, facts or RDF."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from gaifman._tables import Columns, csv_lines, json_lines
from gaifman.errors import InputError, OutputError, similar_names
from gaifman.io.databases import quote_identifier, quote_literal
from gaifman.io.rdf_writer import fact_triple
from gaifman.io.writers import open_text
from gaifman.kb.knowledge_base import Fact

RESULT_FORMATS = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".parquet": "parquet",
    ".facts": "facts",
    ".nt": "nt",
}
"""End of the file name → format."""
FACT_FORMATS = ("facts", "nt")
"""Formats of facts, not of any rows."""


def result_format(name: str | Path) -> str:
    """The format of a file of results, by the end of its name, before `.gz`.

    >>> result_format("missing.csv.gz")
    'csv'
    """
    suffixes = Path(name).suffixes
    suffix = suffixes[-2] if suffixes[-1:] == [".gz"] and len(suffixes) > 1 else "".join(suffixes[-1:])
    if suffix.lower() not in RESULT_FORMATS:
        raise OutputError(
            f"the name of {name} does not say its format",
            suggestions=similar_names(suffix, RESULT_FORMATS),
            hint=f"a name that ends with {', '.join(RESULT_FORMATS)}",
        )
    found = RESULT_FORMATS[suffix.lower()]
    if found == "parquet" and suffixes[-1] == ".gz":
        raise OutputError(f"{name}: Parquet is compressed already", hint="leave out .gz")
    return found


def write_blocks(path: Path, file_format: str, blocks: Iterable[Columns], *, compressed: bool = False) -> None:
    """Write rows, given in blocks with the same columns."""
    if file_format == "parquet":
        _write_parquet(path, blocks)
        return
    with open_text(path, compressed) as file:
        file.writelines(_lines(file_format, blocks))


def _lines(file_format: str, blocks: Iterable[Columns]) -> Iterator[str]:
    for number, columns in enumerate(blocks):
        if file_format == "jsonl":
            yield from json_lines(columns)
        else:
            lines = csv_lines(columns, "\t" if file_format == "tsv" else ",")
            if number:
                next(lines)  # the header
            yield from lines


def _write_parquet(path: Path, blocks: Iterable[Columns]) -> None:
    import duckdb

    with duckdb.connect(":memory:") as connection:
        for number, columns in enumerate(blocks):
            if not number:
                kinds = ", ".join(f"{quote_identifier(name)} {_kind(values)}" for name, values in columns.items())
                connection.execute(f"CREATE TABLE out ({kinds})")
            if any(len(values) for values in columns.values()):
                connection.register("part", {name: np.array(values, object) for name, values in columns.items()})
                connection.execute("INSERT INTO out SELECT * FROM part")
                connection.unregister("part")
        connection.execute(f"COPY out TO {quote_literal(str(path))} (FORMAT parquet)")


def _kind(values: Iterable[Any]) -> str:
    """The SQL type of a column by its first value."""
    first = next((value for value in values if value is not None), "")
    return {bool: "BOOLEAN", int: "BIGINT", float: "DOUBLE"}.get(type(first), "VARCHAR")


def write_facts(path: Path, file_format: str, facts: Iterable[Fact], *, compressed: bool = False) -> None:
    """Write facts with their probabilities: `0.93::capital(peru, lima).`, or as triples with a comment."""
    lines = (f"{fact}\n" for fact in facts) if file_format == "facts" else map(_triple, facts)
    with open_text(path, compressed) as file:
        file.writelines(lines)


def _triple(fact: Fact) -> str:
    """A fact as a line of N-Triples; its probability is a comment."""
    if len(fact.objects) > 2:
        raise InputError(
            f"{fact} has {len(fact.objects)} objects, and a triple two",
            hint="write .csv, .jsonl, .parquet or .facts, or only relations of two positions: --relation NAME",
        )
    return f"{fact_triple(fact)} # {fact.confidence:.6g}\n"

"""How the columns of a table in a database become facts or values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol

import numpy as np

from gaifman.config import MAX_ARITY
from gaifman.draft import KnowledgeBaseBuilder
from gaifman.errors import InputError, shorten
from gaifman.io.files import ReadProgress
from gaifman.io.interpret import add_rows
from gaifman.io.layouts import DEFAULT_LAYOUTS, TableLayout, find_header_problem, parse_header
from gaifman.io.rows import RowBatch

ColumnKind = Literal["text", "integer", "float", "other"]
Cell = str | int | float | None


class SourceTable(Protocol):
    """A table whose rows can be fetched."""

    source: str
    """File and table, for errors."""
    name: str
    columns: Mapping[str, ColumnKind]

    def fetch(
        self, columns: Sequence[str], not_null: str | None, is_null: str | None
    ) -> Iterator[Sequence[Sequence[Cell]]]:
        """Batches of rows of some columns; only those where one column is not null, and one is."""


@dataclass(frozen=True, slots=True)
class TablePass:
    """One pass over a table."""

    columns: tuple[str, ...]
    """Columns to fetch, in the order of the layout."""
    layout: TableLayout
    constant: tuple[int, str] | None = None
    """A field that is the same in each row, and where it stands."""
    not_null: str | None = None
    is_null: str | None = None


def plan_passes(table: SourceTable) -> list[TablePass]:
    """The passes that read a table, or an error that says what its columns are."""
    words = {name.strip().lower(): name for name in table.columns}
    named = _passes_by_column_names(words, table.source)
    if named:
        return named
    confidence = next((words[word] for word in ("confidence",) if word in words), None)
    names = [name for name, kind in table.columns.items() if kind in ("text", "integer") and name != confidence]
    floats = [name for name, kind in table.columns.items() if kind == "float" and name != confidence]
    others = [name for name, kind in table.columns.items() if kind == "other" and name != confidence]
    if not others and not floats and 1 <= len(names) <= MAX_ARITY:
        layout = replace(DEFAULT_LAYOUTS["nary"], number_column=1 if confidence else None)
        return [TablePass((*([confidence] if confidence else []), *names), layout, (0, table.name))]
    if not others and floats and len(names) == 1 and not confidence:
        return [TablePass((names[0], name), DEFAULT_LAYOUTS["attributes"], (1, name), not_null=name) for name in floats]
    described = ", ".join(f"{shorten(name)} ({kind})" for name, kind in list(table.columns.items())[:10])
    raise InputError(
        f"{table.source}: the columns are neither a relation nor attributes: {described}",
        hint="columns named head, relation, tail are triples; 1 to 8 columns of text are a relation; "
        "one of text and others of floating numbers are attributes",
    )


def _passes_by_column_names(words: Mapping[str, str], source: str) -> list[TablePass]:
    """The passes over a table whose columns have names that say what they hold."""
    value = words.get("value")
    layout = parse_header(list(words))
    if layout is None and value:  # as we write Parquet
        layout = parse_header([word for word in words if word != "value"])
        layout = layout if layout and layout.format == "nary" else None
    if layout is None:
        _check_column_names(words, source)
        return []
    if layout.format != "nary":
        return [TablePass(tuple(words.values()), layout)]
    # In one order, whatever the table's: relation, confidence, places. Then the places that are null can be left out.
    names = [name for name in words.values() if name != value]
    numbers = [] if layout.number_column is None else [layout.number_column]
    places = layout.objects or tuple(c for c in range(len(names)) if c not in (layout.relation, *numbers))
    plain = replace(DEFAULT_LAYOUTS["nary"], number_column=1 if numbers else None)
    found = [TablePass(tuple(names[column] for column in (layout.relation, *numbers, *places)), plain, is_null=value)]
    if value:
        columns = (names[places[0]], names[layout.relation], value)
        found.append(TablePass(columns, DEFAULT_LAYOUTS["attributes"], not_null=value))
    return found


def _check_column_names(words: Mapping[str, str], source: str) -> None:
    """Raise where some columns say that they hold relations of facts, and others cannot be told."""
    doubt = find_header_problem(list(words))
    if doubt and not {"relation", "predicate"}.isdisjoint(words):
        message = doubt.message.replace("this looks like a header", "the columns look like those of facts")
        raise InputError(f"{source}: {message}", hint="leave such columns out, by a view: table=…")


def read_tables(tables: Iterable[SourceTable], builder: KnowledgeBaseBuilder, progress: ReadProgress | None) -> None:
    """Put tables into a draft."""
    for table in tables:
        if progress:
            progress(f"reading {table.name}", 0, None)
        for plan in plan_passes(table):
            first = 1
            for batch in table.fetch(plan.columns, plan.not_null, plan.is_null):
                rows = _rows(table.source, plan, batch, first)
                if len(rows) < len(batch):
                    builder.add_note(
                        len(batch) - len(rows), "rows with NULL left out", table.source, "row with NULL left out"
                    )
                add_rows(rows, plan.layout, builder)
                first += len(batch)


def _rows(source: str, plan: TablePass, batch: Sequence[Sequence[Cell]], first: int) -> RowBatch:
    """A batch as rows: NULL ends the places of a relation that the row names; in a table of one relation it ends none.

    A row of such a table in which a NULL stands for an object is no fact, and left out; so is one without a value. A
    fact without a confidence is certain.
    """
    number = plan.layout.number_column
    fields: list[str] = []
    widths, lines = [], []
    for line, row in enumerate(batch, start=first):
        cells = list(row)
        if plan.constant:
            cells.insert(*plan.constant)
        if number is not None and cells[number] is None:
            if plan.layout.format == "attributes":
                continue
            cells[number] = 1.0
        if plan.layout.objects is None and plan.constant and None in cells:
            continue
        while plan.layout.objects is None and len(cells) > 1 and cells[-1] is None:
            cells.pop()
        fields += ["" if cell is None else cell if isinstance(cell, str) else repr(cell) for cell in cells]
        widths.append(len(cells))
        lines.append(line)
    return RowBatch(source, fields, np.array(widths, np.int64), np.array(lines, np.int64), "\t")

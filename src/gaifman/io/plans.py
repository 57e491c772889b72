"""How the columns of a table in a database become facts or values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol

import numpy as np

from gaifman.draft import Draft
from gaifman.errors import InputError, shorten
from gaifman.io.layouts import PLAIN, Layout, header, interpret
from gaifman.io.rows import Rows
from gaifman.tables import LARGEST_ARITY

Kind = Literal["text", "integer", "float", "other"]
Cell = str | int | float | None


class Table(Protocol):
    """A table whose rows can be fetched."""

    source: str
    """File and table, for errors."""
    name: str
    columns: Mapping[str, Kind]

    def fetch(
        self, columns: Sequence[str], present: str | None, absent: str | None
    ) -> Iterator[Sequence[Sequence[Cell]]]:
        """Batches of rows of some columns; only those where one column is not null, and one is."""


@dataclass(frozen=True, slots=True)
class Plan:
    """One pass over a table."""

    columns: tuple[str, ...]
    """Columns to fetch, in the order of the layout."""
    layout: Layout
    constant: tuple[int, str] | None = None
    """A field that is the same in each row, and where it stands."""
    present: str | None = None
    absent: str | None = None


def plans(table: Table) -> list[Plan]:
    """The passes that read a table, or an error that says what its columns are."""
    words = {name.strip().lower(): name for name in table.columns}
    named = _named(words)
    if named:
        return named
    confidence = next((words[word] for word in ("confidence",) if word in words), None)
    names = [name for name, kind in table.columns.items() if kind in ("text", "integer") and name != confidence]
    floats = [name for name, kind in table.columns.items() if kind == "float" and name != confidence]
    others = [name for name, kind in table.columns.items() if kind == "other" and name != confidence]
    if not others and not floats and 1 <= len(names) <= LARGEST_ARITY:
        layout = replace(PLAIN["nary"], number=1 if confidence else None)
        return [Plan((*([confidence] if confidence else []), *names), layout, (0, table.name))]
    if not others and floats and len(names) == 1 and not confidence:
        return [Plan((names[0], name), PLAIN["attributes"], (1, name), present=name) for name in floats]
    described = ", ".join(f"{shorten(name)} ({kind})" for name, kind in list(table.columns.items())[:10])
    raise InputError(
        f"{table.source}: the columns are neither a relation nor attributes: {described}",
        hint="columns named head, relation, tail are triples; 1 to 8 columns of text are a relation; "
        "one of text and others of floating numbers are attributes",
    )


def _named(words: Mapping[str, str]) -> list[Plan]:
    """The passes over a table whose columns have names that say what they hold."""
    layout = header(list(words))
    if layout and layout.format != "nary":
        return [Plan(tuple(words.values()), layout)]
    places = [word for word in words if word[:1] == "a" and word[1:].isdigit()]
    order = ["relation", *(["confidence"] if "confidence" in words else []), *places]
    if set(words) - {"value"} == set(order) and places:
        layout = replace(PLAIN["nary"], number=1 if "confidence" in words else None)
        value = words.get("value")
        found = [Plan(tuple(words[word] for word in order), layout, absent=value)]
        if value:
            columns = (words["a1"], words["relation"], value)
            found.append(Plan(columns, PLAIN["attributes"], present=value))
        return found
    return [Plan(tuple(words.values()), layout)] if layout else []


def read_tables(tables: Iterable[Table], draft: Draft) -> None:
    """Put tables into a draft."""
    for table in tables:
        for plan in plans(table):
            first = 1
            for batch in table.fetch(plan.columns, plan.present, plan.absent):
                interpret(_rows(table.source, plan, batch, first), plan.layout, draft)
                first += len(batch)


def _rows(source: str, plan: Plan, batch: Sequence[Sequence[Cell]], first: int) -> Rows:
    ragged = plan.layout.objects is None
    number = plan.layout.number
    fields: list[str] = []
    widths = []
    for row in batch:
        cells = list(row)
        if plan.constant:
            cells.insert(*plan.constant)
        if number is not None and cells[number] is None:
            cells[number] = 1.0
        while ragged and len(cells) > 1 and cells[-1] is None:
            cells.pop()
        fields += ["" if cell is None else cell if isinstance(cell, str) else repr(cell) for cell in cells]
        widths.append(len(cells))
    lines = np.arange(first, first + len(batch))
    return Rows(source, fields, np.array(widths, np.int64), lines, "\t")

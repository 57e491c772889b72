"""Which column holds what: said by a header, guessed from the rows, or asked for by name.

>>> guess([["ann", "parent", "bob"], ["bob", "parent", "cleo"]])
Layout(format='triples', relation=1, objects=(0, 2), number=None, header=False)
>>> guess([["head", "relation", "tail", "confidence"], ["ann", "parent", "bob", "0.9"]]).number
3
>>> guess([["ann", "age", "80"], ["bob", "age", "55.5"]]).format
'attributes'
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from gaifman.draft import NUMBER, Draft
from gaifman.errors import InputError, Place, shorten
from gaifman.facts import some
from gaifman.io.rows import Rows
from gaifman.tables import LARGEST_ARITY, Floats, Ints, Longs

DECIMAL: Final = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
"""A number as files write it."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns of a table of facts or values."""

    format: str
    """`triples`, `nary`, `types` or `attributes`."""
    relation: int
    """Column of the relation, type or attribute."""
    objects: tuple[int, ...] | None
    """Columns of the objects; None: all that are left, as many as the row has."""
    number: int | None = None
    """Column of the confidence, or of an attribute's value."""
    header: bool = False
    """Whether the first row is none of data."""

    @property
    def width(self) -> int | None:
        """Columns that each row has; None: any number."""
        if self.objects is None:
            return None
        return 1 + len(self.objects) + (self.number is not None)

    def says(self) -> str:
        """The columns in words, in their order."""
        names = {self.relation: {"types": "type", "attributes": "attribute"}.get(self.format, "relation")}
        if self.format == "triples" and self.objects:
            names |= dict(zip(self.objects, ("head", "tail"), strict=True))
        elif self.objects:
            names[self.objects[0]] = "object"
        if self.number is not None:
            names[self.number] = "value" if self.format == "attributes" else "confidence"
        return ", ".join(names[column] for column in sorted(names)) + (", objects" * (self.objects is None))


PLAIN: Final = {
    "triples": Layout("triples", 1, (0, 2)),
    "nary": Layout("nary", 0, None),
    "types": Layout("types", 1, (0,)),
    "attributes": Layout("attributes", 1, (0,), 2),
}
"""The columns of each format where no header says otherwise."""

_WORDS: Final = {
    "triples": (
        {"head", "subject", "source", "from"},
        {"relation", "predicate", "property", "edge"},
        {"tail", "object", "target", "to"},
    ),
    "types": ({"object", "subject", "entity", "head", "name"}, {"type", "class"}),
    "attributes": (
        {"object", "subject", "entity", "head", "name"},
        {"attribute", "property", "relation"},
        {"value", "number"},
    ),
}
_CONFIDENCE: Final = {"confidence", "weight", "probability", "score"}
_PLACE: Final = re.compile(r"(?:arg|argument|a|object|obj|entity)_?(\d)")


def header(row: Sequence[str]) -> Layout | None:
    """The layout that a first row names, if it is a header.

    >>> header(["relation", "arg1", "arg2"])
    Layout(format='nary', relation=0, objects=None, number=None, header=True)
    """
    words = [word.strip().lower() for word in row]
    if len(set(words)) != len(words):
        return None
    number = next((column for column, word in enumerate(words) if word in _CONFIDENCE), None)
    for form, roles in _WORDS.items():
        columns = [next((c for c, word in enumerate(words) if word in names), -1) for names in roles]
        extra = [] if number is None else [number]
        if sorted(columns + extra) != list(range(len(words))):
            continue
        if form == "triples":
            return Layout(form, columns[1], (columns[0], columns[2]), number, True)
        if number is None:
            return Layout(form, columns[1], (columns[0],), columns[2] if columns[2:] else None, True)
    places = [int(found[1]) for found in map(_PLACE.fullmatch, words) if found]
    first = words[:1] in (["relation"], ["predicate"])
    if first and number in (None, 1) and places == list(range(1, len(words) - (number is not None))):
        return Layout("nary", 0, None, number, True)
    return None


def guess(rows: Sequence[Sequence[str]]) -> Layout | None:
    """The layout of a table by its first rows; None where it cannot be one."""
    if not rows:
        return None
    named = header(rows[0])
    if named:
        return named
    width = _width(rows)
    if width is None or width > 4:
        return PLAIN["nary"]
    rows = [row for row in rows if len(row) == width]
    columns = [all(map(is_number, column)) for column in zip(*rows, strict=True)]
    match columns:
        case [_, _]:
            return PLAIN["types"]
        case [False, _, True]:
            return PLAIN["attributes"]
        case [_, _, _]:
            return PLAIN["triples"]
        case [_, _, _, True] if _like_confidence([float(row[3]) for row in rows]):
            return replace(PLAIN["triples"], number=3)
        case [_, _, _, _]:
            return PLAIN["nary"]
    return None


def _width(rows: Sequence[Sequence[str]]) -> int | None:
    """The width of all rows; None where each relation has its own. Of rows that fit neither, some are wrong."""
    widths = Counter(map(len, rows))
    common = max(widths, key=lambda width: (widths[width], width))
    own: dict[str, int] = {}
    if len(widths) == 1 or any(own.setdefault(row[0], len(row)) != len(row) for row in rows):
        return common
    # Triples with a wrong row among them: most have one width, and it is the second column that repeats itself.
    firsts, seconds = len(own), len({row[1] for row in rows if len(row) > 1})
    return common if 2 * widths[common] >= len(rows) and common > 2 and seconds < firsts else None


def _like_confidence(numbers: Sequence[float]) -> bool:
    """Whether numbers are meant as confidences, even if some of them cannot be: those are errors then."""
    good = sum(0 < number <= 1 for number in numbers)
    return 2 * good >= len(numbers) or not any(number < 0 or number > 100 for number in numbers)


def is_number(text: str) -> bool:
    """Whether the text is a decimal number, or one of the texts that programs write for no number."""
    text = text.strip()
    return DECIMAL.fullmatch(text) is not None or text.lower().lstrip("+-") in ("nan", "inf", "infinity")


def asked(form: str, first: Sequence[str]) -> Layout:
    """The layout of a format asked for by name; a header may still name its columns."""
    named = header(first)
    if named and named.format == form:
        return named
    plain = PLAIN[form]
    return replace(plain, number=3) if form == "triples" and len(first) == 4 else plain


def interpret(rows: Rows, layout: Layout, draft: Draft) -> None:
    """Put rows into a draft, as their layout says."""
    if not len(rows):
        return
    _check_widths(rows, layout)
    numbers, skipped = None, np.zeros(0, np.int64)
    if layout.number is not None:
        column, skipped = layout.number, rows.starts + layout.number
        numbers = decimals(rows.texts(skipped), lambda row: rows.place(row, column))
    ids = rows.numbers(draft, skipped, skipped - (layout.number or 0) + layout.relation)
    if layout.objects is None:
        where = _Where(rows, np.arange(len(rows)), (layout.relation,), None)
        draft.check_arities(ids[rows.starts + layout.relation], rows.widths - _least(layout) + 1, where)
    for width in np.unique(rows.widths).tolist():
        chosen = np.flatnonzero(rows.widths == width)
        table = ids.reshape(-1, width) if len(chosen) == len(rows) else _gather(ids, rows.starts[chosen], width)
        columns = layout.objects or tuple(
            column for column in range(width) if column not in (layout.relation, layout.number)
        )
        part = None if numbers is None else numbers[chosen]
        where = _Where(rows, chosen, (layout.relation, *columns), layout.number)
        if layout.format == "attributes":
            assert part is not None
            draft.values(table[:, layout.relation], table[:, columns[0]], part, where)
        else:
            draft.facts(table[:, layout.relation], table[:, columns], part, where)


def _gather(ids: Ints, starts: Longs, width: int) -> Ints:
    """Rows of one width, shape (starts, width)."""
    found: Ints = ids[starts[:, None] + np.arange(width)]
    return found


@dataclass(frozen=True, slots=True)
class _Where:
    """From a draft's row and field to the place in the file."""

    rows: Rows
    chosen: Longs
    columns: tuple[int, ...]
    number: int | None

    def __call__(self, row: int, field: int) -> Place:
        column = self.columns[field] if field != NUMBER else self.number
        return self.rows.place(int(self.chosen[row]), column or 0)


def _check_widths(rows: Rows, layout: Layout) -> None:
    fixed = layout.width
    if fixed is not None:
        wrong = rows.widths != fixed
        wanted = f"{fixed} columns ({layout.says()})"
    else:
        least = _least(layout)
        wrong = (rows.widths < least) | (rows.widths >= least + LARGEST_ARITY)
        wanted = f"{least} to {least + LARGEST_ARITY - 1} columns ({layout.says()})"
    if not wrong.any():
        return
    row = int(np.argmax(wrong))
    found = int(rows.widths[row])
    field = fixed if fixed is not None and found > fixed else found - 1 if found < 2 else min(found - 1, 9)
    raise InputError(
        f"{some(found, 'column')}, where {wanted} were expected",
        place=rows.place(row, field),
        hint="" if found > 1 else "columns are separated by a tab, in .csv files by a comma",
    )


def _least(layout: Layout) -> int:
    """Columns of a fact with one object."""
    return 2 + (layout.number is not None)


def decimals(texts: Sequence[str], where: Callable[[int], Place]) -> Floats:
    """The texts as numbers, shape (texts,)."""
    try:
        numbers = np.fromiter(map(float, texts), np.float64, len(texts))
        if np.isfinite(numbers).all() and not any("_" in text for text in texts):
            return numbers
    except ValueError:
        pass
    for row, text in enumerate(texts):
        if not DECIMAL.fullmatch(text.strip()) or not np.isfinite(float(text)):
            raise InputError(f"not a finite number: {shorten(repr(text))}", place=where(row))
    return numbers

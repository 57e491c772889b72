"""Which column holds what: said by a header, guessed from the rows, or asked for by name.

>>> detect_layout([["ann", "parent", "bob"], ["bob", "parent", "cleo"]])
Layout(format='triples', relation=1, objects=(0, 2), number=None, header=False)
>>> detect_layout([["head", "relation", "tail", "confidence"], ["ann", "parent", "bob", "0.9"]]).number
3
>>> detect_layout([["ann", "age", "80"], ["bob", "age", "55.5"]]).format
'attributes'
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from gaifman.config import MAX_ARITY
from gaifman.errors import shorten

DECIMAL: Final = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
"""A number as files write it."""


@dataclass(frozen=True, slots=True)
class TableLayout:
    """The columns of a table of facts or values."""

    format: str
    """`triples`, `nary`, `types` or `attributes`."""
    relation: int
    """Column of the relation, type or attribute."""
    objects: tuple[int, ...] | None
    """Columns of the objects; None: all that are left, as many as the row has."""
    number_column: int | None = None
    """Column of the confidence, or of an attribute's value."""
    header: bool = False
    """Whether the first row is none of data."""

    @property
    def column_count(self) -> int | None:
        """Columns that each row has; None: any number."""
        if self.objects is None:
            return None
        return 1 + len(self.objects) + (self.number_column is not None)

    def describe(self) -> str:
        """The columns in words, in their order."""
        names = {self.relation: {"types": "type", "attributes": "attribute"}.get(self.format, "relation")}
        if self.format == "triples" and self.objects:
            names |= dict(zip(self.objects, ("head", "tail"), strict=True))
        elif self.format == "nary" and self.objects:
            names |= {column: f"arg{place + 1}" for place, column in enumerate(self.objects)}
        elif self.objects:
            names[self.objects[0]] = "object"
        if self.number_column is not None:
            names[self.number_column] = "value" if self.format == "attributes" else "confidence"
        return ", ".join(names[column] for column in sorted(names)) + (", objects" * (self.objects is None))


DEFAULT_LAYOUTS: Final = {
    "triples": TableLayout("triples", 1, (0, 2)),
    "nary": TableLayout("nary", 0, None),
    "types": TableLayout("types", 1, (0,)),
    "attributes": TableLayout("attributes", 1, (0,), 2),
}
"""The columns of each format where no header says otherwise."""

_RELATION: Final = frozenset({"relation", "predicate", "property", "edge"})
_HOLDER: Final = frozenset({"object", "subject", "entity", "head", "name"})
_WORDS: Final = {
    "triples": (
        frozenset({"head", "subject", "source", "from"}),
        _RELATION,
        frozenset({"tail", "object", "target", "to"}),
    ),
    "types": (_HOLDER, frozenset({"type", "class"})),
    "attributes": (_HOLDER, frozenset({"attribute", "property", "relation"}), frozenset({"value", "number"})),
}
_CONFIDENCE: Final = frozenset({"confidence", "weight", "probability", "score"})
_ROLES: Final[frozenset[str]] = _CONFIDENCE.union(*(words for roles in _WORDS.values() for words in roles))
_NUMBERED: Final = frozenset({"relation", "predicate"})
"""Words for the relation beside numbered places; `a1 edge a2` may well be a fact."""
_POSITION: Final = re.compile(r"(?:arg|argument|a|object|obj|entity)_?([1-9])")


def parse_header(row: Sequence[str]) -> TableLayout | None:
    """The layout that a first row names, if it is a header.

    >>> parse_header(["relation", "arg1", "arg2"])
    Layout(format='nary', relation=0, objects=None, number=None, header=True)
    >>> parse_header(["arg2", "relation", "arg1"]).objects
    (2, 0)
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
            return TableLayout(form, columns[1], (columns[0], columns[2]), number, True)
        if number is None:
            return TableLayout(form, columns[1], (columns[0],), columns[2] if columns[2:] else None, True)
    return _numbered(words, number)


def _numbered(words: Sequence[str], number: int | None) -> TableLayout | None:
    """The layout of a header with a relation and numbered places, in whatever order."""
    relation = next((column for column, word in enumerate(words) if word in _NUMBERED), None)
    places = {int(found[1]): column for column, word in enumerate(words) if (found := _POSITION.fullmatch(word))}
    whole = len(places) + 1 + (number is not None) == len(words)
    if relation is None or not places or not whole or sorted(places) != list(range(1, len(places) + 1)):
        return None
    if len(places) > MAX_ARITY:
        return None
    order = tuple(places[place] for place in sorted(places))
    first = 1 + (number is not None)
    if relation == 0 and number in (None, 1) and order == tuple(range(first, len(words))):
        return TableLayout(
            "nary", 0, None, number, True
        )  # a row may then be shorter: the places that are left are its own
    return TableLayout("nary", relation, order, number, True)


@dataclass(frozen=True, slots=True)
class LayoutProblem:
    """Why the columns of a table cannot be told."""

    message: str
    hint: str
    column: int = 0
    """Where in the first row."""


def find_header_problem(row: Sequence[str]) -> LayoutProblem | None:
    """Why a first row that is no header looks like one: two of its words say what a column holds.

    >>> find_header_problem(["subject", "predicate", "object", "date"]).message
    'this looks like a header; the column date is unknown'
    """
    words = [word.strip().lower() for word in row]
    said = [word in _ROLES or _POSITION.fullmatch(word) is not None for word in words]
    placed = sum(said) > 1 and not _NUMBERED.isdisjoint(words)
    if len(_ROLES.intersection(words)) < 2 and not placed:
        return None
    hint = "leave such columns out; where the row is one of data, say so by --format (in Python format=…)"
    if not all(said):
        column = said.index(False)
        return LayoutProblem(f"this looks like a header; the column {shorten(row[column])} is unknown", hint, column)
    return LayoutProblem("this looks like a header, but its words together name no facts", f"{_KNOWN}; {hint}")


_KNOWN: Final = "known are head, relation, tail; relation, arg1, arg2 …; object, type; object, attribute, value"


def detect_layout(rows: Sequence[Sequence[str]]) -> TableLayout | LayoutProblem:
    """The layout of a table by its first rows, or why there is none."""
    if not rows:
        return LayoutProblem("there are no rows", "")
    named = parse_header(rows[0]) or find_header_problem(rows[0])
    if named:
        return named
    width = _width(rows)
    if width is None or width > 4:
        return DEFAULT_LAYOUTS["nary"]
    rows = [row for row in rows if len(row) == width]
    columns = [all(map(is_number, column)) for column in zip(*rows, strict=True)]
    match columns:
        case [_, True]:
            return LayoutProblem(
                "two columns, and the second holds numbers: values need the name of their attribute",
                "write object, attribute, value; where the numbers are types, say --format types",
                1,
            )
        case [_, _]:
            return DEFAULT_LAYOUTS["types"]
        case [False, _, True]:
            return DEFAULT_LAYOUTS["attributes"]
        case [_, _, _]:
            return DEFAULT_LAYOUTS["triples"]
        case [_, _, _, True] if _looks_like_confidence([float(row[3]) for row in rows]):
            return replace(DEFAULT_LAYOUTS["triples"], number_column=3)
        case [_, _, _, _] if len({row[1] for row in rows}) < len({row[0] for row in rows}):
            return LayoutProblem(
                "four columns, of which the second repeats itself and the fourth is no confidence: "
                "which one holds the relation cannot be told",
                "say --format nary where it is the first; where it is the second, leave the fourth column out, "
                "or say --format triples where that is a confidence",
                3,
            )
        case [_, _, _, _]:
            return DEFAULT_LAYOUTS["nary"]
    return LayoutProblem(
        "one column, where facts need at least two",
        "columns are separated by a tab, in .csv files by a comma; the file may be no table at all",
    )


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


def _looks_like_confidence(numbers: Sequence[float]) -> bool:
    """Whether numbers are meant as confidences, even if some of them cannot be: those are errors then."""
    good = sum(0 < number <= 1 for number in numbers)
    return 2 * good >= len(numbers) or not any(number < 0 or number > 100 for number in numbers)


def is_number(text: str) -> bool:
    """Whether the text is a decimal number, or one of the texts that programs write for no number."""
    text = text.strip()
    return DECIMAL.fullmatch(text) is not None or text.lower().lstrip("+-") in ("nan", "inf", "infinity")


def layout_for_format(form: str, first: Sequence[str]) -> TableLayout:
    """The layout of a format asked for by name; a header may still name its columns."""
    named = parse_header(first)
    if named and named.format == form:
        return named
    plain = DEFAULT_LAYOUTS[form]
    return replace(plain, number_column=3) if form == "triples" and len(first) == 4 else plain

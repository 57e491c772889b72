"""Detect which column of a table holds what, by its header or its first rows.

>>> detect_layout([["ann", "parent", "bob"]]).format
'triples'
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
"""A decimal number."""


@dataclass(frozen=True, slots=True)
class TableLayout:
    """The columns of a table of facts or values."""

    format: str
    """`triples`, `nary`, `types` or `attributes`."""
    relation: int
    """Column of the relation, type or attribute."""
    objects: tuple[int, ...] | None
    """Columns of the objects; None: all remaining columns of the row."""
    number_column: int | None = None
    """Column of the confidence or value."""
    header: bool = False
    """Whether the first row is a header."""

    @property
    def column_count(self) -> int | None:
        """Number of columns of each row; None if rows may differ."""
        if self.objects is None:
            return None
        return 1 + len(self.objects) + (self.number_column is not None)

    def describe(self) -> str:
        """Return the names of the columns, in order."""
        names = {self.relation: {"types": "type", "attributes": "attribute"}.get(self.format, "relation")}
        if self.format == "triples" and self.objects:
            names |= dict(zip(self.objects, ("head", "tail"), strict=True))
        elif self.format == "nary" and self.objects:
            names |= {column: f"arg{i + 1}" for i, column in enumerate(self.objects)}
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
"""Format → its layout without a header."""

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
_SHORT: Final = (("h", "r", "t"), ("s", "p", "o"), ("subj", "pred", "obj"), ("src", "rel", "dst"))
"""Short names of head, relation and tail, which are used together."""
_NUMBERED: Final = frozenset({"relation", "predicate"})
"""Names of the relation's column beside numbered arguments; `a1 edge a2` may be a fact."""
_POSITION: Final = re.compile(r"(?:arg|argument|a|object|obj|entity)_?([1-9])")


def parse_header(row: Sequence[str]) -> TableLayout | None:
    """Return the layout of a header row; None if the row is not a header.

    >>> parse_header(["relation", "arg1", "arg2"])
    TableLayout(format='nary', relation=0, objects=None, number_column=None, header=True)
    >>> parse_header(["arg2", "relation", "arg1"]).objects, parse_header(["H", "R", "T"]).objects
    ((2, 0), (0, 2))
    """
    words = _spell_out([word.strip().lower() for word in row])
    if len(set(words)) != len(words):
        return None
    number = next((column for column, word in enumerate(words) if word in _CONFIDENCE), None)
    for file_format, roles in _WORDS.items():
        columns = [next((c for c, word in enumerate(words) if word in names), -1) for names in roles]
        extra = [] if number is None else [number]
        if sorted(columns + extra) != list(range(len(words))):
            continue
        if file_format == "triples":
            return TableLayout(file_format, columns[1], (columns[0], columns[2]), number, True)
        if number is None:
            return TableLayout(file_format, columns[1], (columns[0],), columns[2] if columns[2:] else None, True)
    return _numbered(words, number)


def _spell_out(words: list[str]) -> list[str]:
    """Return the words with the short names of head, relation and tail written out."""
    for names in _SHORT:
        if set(names) == set(words) - _CONFIDENCE:
            long = dict(zip(names, ("head", "relation", "tail"), strict=True))
            return [long.get(word, word) for word in words]
    return words


def _is_fact(first: Sequence[str], layout: TableLayout, rows: Sequence[Sequence[str]]) -> bool:
    """Return whether a row of single letters is a fact, not a header: it is alone, or others have its relation."""
    name, column = first[layout.relation], layout.relation
    return len(name.strip()) == 1 and (not rows or any(row[column] == name for row in rows if len(row) > column))


def _numbered(words: Sequence[str], number: int | None) -> TableLayout | None:
    """Return the layout of a header with a relation and numbered arguments, in any order."""
    relation = next((column for column, word in enumerate(words) if word in _NUMBERED), None)
    arguments = {int(match[1]): column for column, word in enumerate(words) if (match := _POSITION.fullmatch(word))}
    complete = len(arguments) + 1 + (number is not None) == len(words)
    if relation is None or not complete or sorted(arguments) != list(range(1, len(arguments) + 1)):
        return None
    if not 1 <= len(arguments) <= MAX_ARITY:
        return None
    order = tuple(arguments[position] for position in sorted(arguments))
    first = 1 + (number is not None)
    if relation == 0 and number in (None, 1) and order == tuple(range(first, len(words))):
        return TableLayout("nary", 0, None, number, True)  # rows may be shorter
    return TableLayout("nary", relation, order, number, True)


@dataclass(frozen=True, slots=True)
class LayoutProblem:
    """Why the layout of a table cannot be detected."""

    message: str
    hint: str
    column: int = 0
    """Column of the first row that the message is about."""


def find_header_problem(row: Sequence[str]) -> LayoutProblem | None:
    """Return what is wrong with a first row that looks like a header: at least two of its words name columns.

    >>> find_header_problem(["subject", "predicate", "object", "date"]).message
    'this looks like a header; the column date is unknown'
    """
    words = [word.strip().lower() for word in row]
    known = [word in _ROLES or _POSITION.fullmatch(word) is not None for word in words]
    numbered = sum(known) > 1 and not _NUMBERED.isdisjoint(words)
    if len(_ROLES.intersection(words)) < 2 and not numbered:
        return None
    hint = f"remove such columns; {_DATA}"
    if not all(known):
        column = known.index(False)
        return LayoutProblem(f"this looks like a header; the column {shorten(row[column])} is unknown", hint, column)
    if _KINDS.isdisjoint(words):
        return LayoutProblem("this looks like a header, but it has no column for the relation", f"add one; {_DATA}")
    return LayoutProblem("this looks like a header, but its columns are not those of facts", f"{_HEADERS}; {hint}")


_KINDS: Final = _RELATION | {"type", "class", "attribute"}
_DATA: Final = "if the row is data, set --no-header (in Python header=False)"
_HEADERS: Final = "headers are head, relation, tail; relation, arg1, arg2 …; object, type; object, attribute, value"


def find_header(rows: Sequence[Sequence[str]], header: bool | None) -> TableLayout | None:
    """Return the layout that the first row names; None if it is not a header, or with `header=False`."""
    named = None if header is False else parse_header(rows[0])
    return None if named and header is None and _is_fact(rows[0], named, rows[1:]) else named


def detect_layout(rows: Sequence[Sequence[str]], header: bool | None = None) -> TableLayout | LayoutProblem:
    """Return the layout of a table by its first rows, or why it cannot be detected.

    `header` says whether the first row is a header; None to detect it.
    """
    if not rows:
        return LayoutProblem("there are no rows", "")
    named = find_header(rows, header) or (None if header is False else find_header_problem(rows[0]))
    if named:
        return named
    if header:
        rest = detect_layout(rows[1:], header=False)
        return replace(rest, header=True) if isinstance(rest, TableLayout) else rest
    width = _width(rows)
    if width is None or width > 4:
        return DEFAULT_LAYOUTS["nary"]
    rows = [row for row in rows if len(row) == width]
    columns = [all(map(is_number, column)) for column in zip(*rows, strict=True)]
    match columns:
        case [_, True]:
            return LayoutProblem(
                "two columns, of which the second is numeric: the name of the attribute is missing",
                "write object, attribute, value; if the numbers are types, set --format types",
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
                "four columns: the second has repeated names and the fourth is not a confidence, "
                "so the column of the relation cannot be detected",
                "set --format nary if it is the first; if it is the second, remove the fourth column, "
                "or set --format triples if that is a confidence",
                3,
            )
        case [_, _, _, _]:
            return DEFAULT_LAYOUTS["nary"]
    return LayoutProblem(
        "one column, but facts need at least two",
        "columns are separated by a tab, in .csv files by a comma; perhaps the file is not a table",
    )


def _width(rows: Sequence[Sequence[str]]) -> int | None:
    """Return the number of columns of most rows; None if each relation has its own number."""
    widths = Counter(map(len, rows))
    common = max(widths, key=lambda width: (widths[width], width))
    own: dict[str, int] = {}
    if len(widths) == 1 or any(own.setdefault(row[0], len(row)) != len(row) for row in rows):
        return common
    # Triples with a wrong row: most rows have one width, and the second column has repeated names.
    firsts, seconds = len(own), len({row[1] for row in rows if len(row) > 1})
    return common if 2 * widths[common] >= len(rows) and common > 2 and seconds < firsts else None


def _looks_like_confidence(numbers: Sequence[float]) -> bool:
    """Return whether most numbers are confidences; the others will be errors."""
    good = sum(0 < number <= 1 for number in numbers)
    return 2 * good >= len(numbers) or not any(number < 0 or number > 100 for number in numbers)


def is_number(text: str) -> bool:
    """Return whether the text is a decimal number, infinite or NaN."""
    text = text.strip()
    return DECIMAL.fullmatch(text) is not None or text.lower().lstrip("+-") in ("nan", "inf", "infinity")


def layout_for_format(file_format: str, rows: Sequence[Sequence[str]], header: bool | None = None) -> TableLayout:
    """Return the layout of a format; a header may name the columns."""
    named = find_header(rows, header)
    if named and named.format == file_format:
        return named
    plain = replace(DEFAULT_LAYOUTS[file_format], header=bool(header))
    return replace(plain, number_column=3) if file_format == "triples" and len(rows[0]) == 4 else plain

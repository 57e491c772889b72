"""The errors that gaifman raises.

    GaifmanError            base class: something that a user can correct
    ├─ FormulaError         a text is not a formula, or does not fit the knowledge base
    │  └─ LimitError        a formula or request exceeds a limit
    ├─ InputError           a file, table, model or run cannot be read
    ├─ OutputError          a file cannot be written, or its format cannot hold the data
    ├─ KnowledgeBaseError   an unknown object, relation or attribute, or an invalid setting
    │  └─ ArgumentError     an argument has the wrong type
    ├─ TrainingError        training diverged, or a model overflows
    ├─ StoppedError         the work took too much time, memory or disk, or was cancelled
    └─ BusyError            the server is overloaded; try again later

Each error has a `message`, a `location` in a text, the tokens `expected` there, a `hint` and `suggestions` of similar
names. `as_dict` returns them for JSON, `str` prints them with a caret below the location.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

EXCERPT_LENGTH = 72
"""Characters of the line that an error shows."""


@dataclass(frozen=True, slots=True)
class Location:
    r"""A location in a text. Lines and columns (in characters) count from 1.

    >>> print(Location("family.tsv", 3, 5, "ann\tlikes", width=5).excerpt())
    ann\tlikes
         ^^^^^
    """

    source: str
    line: int
    column: int
    text: str
    width: int = 1

    @classmethod
    def from_offset(cls, source: str, text: str, offset: int, width: int = 1) -> Location:
        """Return the location of `text[offset]`."""
        start = text.rfind("\n", 0, offset) + 1
        end = text.find("\n", offset)
        line = text[start : end if end >= 0 else len(text)]
        return cls(source, text.count("\n", 0, offset) + 1, offset - start + 1, line, max(width, 1))

    def __str__(self) -> str:
        return f"{self.source}, line {self.line}, column {self.column}"

    def excerpt(self) -> str:
        """Return the line, shortened around the column, with carets below the location."""
        at = self.column - 1
        begin = max(0, min(at - EXCERPT_LENGTH // 2, len(self.text) - EXCERPT_LENGTH))
        end = begin + EXCERPT_LENGTH
        before = ("…" if begin else "") + escape_unprintable(self.text[begin:at])
        marked = escape_unprintable(self.text[at : min(at + self.width, end)])
        after = escape_unprintable(self.text[at + self.width : end]) + ("…" if end < len(self.text) else "")
        return f"{before}{marked}{after}\n{' ' * _display_width(before)}{'^' * max(1, _display_width(marked))}"


def escape_unprintable(text: str) -> str:
    r"""Return `text` with control, bidirectional and other unprintable characters escaped.

    >>> print(escape_unprintable("a\tb\u202e"))
    a\tb\u202e
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def shorten(text: str, length: int = 40) -> str:
    """Return `text` with unprintable characters escaped, cut in the middle to at most `length` characters."""
    if len(text) <= length:
        return escape_unprintable(text)
    return f"{escape_unprintable(text[: length // 2])}…{escape_unprintable(text[-length // 2 + 1 :])}"


def plural(count: int, noun: str) -> str:
    """Return the count with its noun.

    >>> plural(1, "fact"), plural(2000, "fact")
    ('1 fact', '2,000 facts')
    """
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def similar_names(name: str, names: Iterable[str], limit: int = 3) -> tuple[str, ...]:
    """Return the names most similar to `name`, best first: suggestions for a misspelt one.

    >>> similar_names("bordrs", ["borders", "capital", "located_in"])
    ('borders',)
    """
    from rapidfuzz import fuzz, process, utils

    matches = process.extract(  # a list: of a mapping it would compare the values
        name, [*names], scorer=fuzz.ratio, processor=utils.default_process, limit=limit, score_cutoff=65
    )
    return tuple(match[0] for match in matches)


class GaifmanError(Exception):
    """Base class of all errors that a user can correct."""

    def __init__(
        self,
        message: str,
        *,
        location: Location | None = None,
        expected: tuple[str, ...] = (),
        hint: str = "",
        suggestions: tuple[str, ...] = (),
    ) -> None:
        super().__init__(message)
        self.message = message
        self.location = location
        self.expected = expected
        self.hint = hint
        self.suggestions = suggestions

    def __str__(self) -> str:
        lines = [self.message]
        if self.location:
            lines[0] = f"{self.location}: {self.message}"
            lines += [f"  {line}" for line in self.location.excerpt().split("\n")]
        if self.expected:
            lines.append(f"expected: {' or '.join(self.expected)}")
        if self.suggestions:
            lines.append(f"did you mean: {', '.join(escape_unprintable(name) for name in self.suggestions)}")
        if self.hint:
            lines.append(f"hint: {self.hint}")
        return "\n".join(lines)

    def as_dict(self) -> dict[str, Any]:
        """Return the fields, for JSON."""
        location = asdict(self.location) | {"text": shorten(self.location.text, 200)} if self.location else None
        return {
            "error": type(self).__name__,
            "message": self.message,
            "location": location,
            "expected": list(self.expected),
            "suggestions": list(self.suggestions),
            "hint": self.hint,
        }


class FormulaError(GaifmanError):
    """A text is not a formula, or does not fit the knowledge base."""


class LimitError(FormulaError):
    """A formula or request exceeds a limit."""


class InputError(GaifmanError):
    """A file, table, model or run cannot be read."""


class OutputError(GaifmanError):
    """A file cannot be written, or its format cannot hold the data."""


class KnowledgeBaseError(GaifmanError):
    """An object, relation or attribute is unknown, a knowledge base cannot be built, or a setting is invalid."""


class ArgumentError(KnowledgeBaseError):
    """An argument of a function has the wrong type."""


class TrainingError(GaifmanError):
    """Training diverged: the loss or the probabilities of a base model are not finite, or far too large."""


class StoppedError(GaifmanError):
    """The work took too much time, memory or disk, or was cancelled."""


class BusyError(GaifmanError):
    """The server is overloaded; try again later."""


def _display_width(text: str) -> int:
    """Return the terminal columns of `text`: two for a wide character, none for a combining one."""
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)

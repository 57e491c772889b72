r"""`.facts` files: Datalog facts, with confidences and values.

    parent(ann, bob).           0.9::parent(ann, 'Bob Hope').          % a comment, also with #
    person(ann).                age(ann) = 80.5.

    statement = [ number "::" ] name "(" name { "," name } ")" [ "=" number ] "."

A name is bare (a word of any case, or what begins with a digit or `/`) or in single or double quotes, with the escapes
`\n \t \r \' \" \\ \uXXXX \UXXXXXXXX`.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gaifman.config import Limits
from gaifman.draft import NUMBER, Draft, Where
from gaifman.errors import InputError, Place
from gaifman.io.files import Block
from gaifman.names import PATH, WORD, unquote
from gaifman.tables import LARGEST_ARITY

_NUMBER = r"[+-]?(?:\d+(?:\.\d+)?|\.\d+)(?:[eE][+-]?\d+)?"
_QUOTED = r"""'(?:[^'\\\n]|\\.)*+'|"(?:[^"\\\n]|\\.)*+\""""
_NAME = rf"(?>{WORD}|{PATH}|{_QUOTED})"
_GAP = r"(?:\s|[%#][^\n]*+)*+"
_STATEMENT = re.compile(
    rf"{_GAP}(?:({_NUMBER}){_GAP}::{_GAP})?({_NAME}){_GAP}\({_GAP}({_NAME}{_GAP}(?:,{_GAP}{_NAME}{_GAP})*+)\)"
    rf"{_GAP}(?:={_GAP}({_NUMBER}){_GAP})?\."
)
_CONFIDENCE, _RELATION, _OBJECTS, _VALUE = 1, 2, 3, 4
_NAMES = re.compile(rf"[%#][^\n]*+|({_NAME})")
_BLANK = re.compile(_GAP)


Pile = list[tuple[re.Match[str], list[str]]]
"""Statements of one arity, each with its objects as written."""
Piles = dict[tuple[int, bool], Pile]
"""By arity, and whether they are values."""


@dataclass(frozen=True)
class _Text:
    """What is left to read, and where it stands."""

    source: str
    line: int
    text: str

    @cached_property
    def _ends(self) -> list[int]:
        """Where lines end: each new relation is given its place, and to count lines for each anew is slow."""
        return [end.start() for end in re.finditer("\n", self.text)]

    def place(self, offset: int, width: int = 1) -> Place:
        """The place of a character; the line is counted from that of the text."""
        row = bisect_left(self._ends, offset)
        start = self._ends[row - 1] + 1 if row else 0
        end = self._ends[row] if row < len(self._ends) else len(self.text)
        return Place(self.source, self.line + row, offset - start + 1, self.text[start:end], max(width, 1))

    def field(self, found: re.Match[str], field: int) -> Place:
        """The place of a statement's field, as a draft counts fields."""
        if field == NUMBER:
            start, end = found.span(_VALUE if found[_VALUE] else _CONFIDENCE)
        elif field == 0:
            start, end = found.span(_RELATION)
        else:
            names = _NAMES.finditer(self.text, *found.span(_OBJECTS))
            start, end = [name.span() for name in names if name[1]][field - 1]
        return self.place(start, end - start)


def read_facts(blocks: Iterator[Block], limits: Limits, draft: Draft) -> None:
    """Put a `.facts` file into a draft."""
    text, done = _Text("", 1, ""), 0
    for block in blocks:
        # What is kept begins with a line, so that columns are right; `done` is what was read of it.
        kept = text.text.rfind("\n", 0, done) + 1
        line = block.line - text.text.count("\n", kept)
        text = _Text(block.source, line, text.text[kept:] + block.plain().text())
        done = _read(text, done - kept, draft)
        if len(text.text) - done > limits.line:
            raise explained(text.source, text.line, text.text, done)
    if _BLANK.fullmatch(text.text, done) is None:
        # A whole last statement was read already, so something is wrong with this one.
        raise explained(text.source, text.line, text.text, done)


def _read(text: _Text, at: int, draft: Draft) -> int:
    """Read the statements that are complete; where they end, and perhaps a comment goes on."""
    piles: Piles = {}
    arities: dict[str, int] = {}
    while found := _STATEMENT.match(text.text, at):
        inside = found[_OBJECTS]
        objects = [inside] if inside.isalnum() else _names(inside)
        valued = found[_VALUE] is not None
        if valued and (len(objects) > 1 or found[_CONFIDENCE]):
            raise InputError(
                "only one object has a value, and values have no confidence",
                place=text.field(found, 0),
                hint="write: age(ann) = 80.",
            )
        if not valued and arities.setdefault(found[_RELATION], len(objects)) != len(objects):
            _add_all(text, piles, draft)  # the draft will refuse this one, and must know what came before it
        piles.setdefault((len(objects), valued), []).append((found, objects))
        at = found.end()
    _add_all(text, piles, draft)
    blank = _BLANK.match(text.text, at)
    assert blank is not None  # it matches nothing, too
    return max(at, text.text.rfind("\n", at, blank.end()) + 1)


def _names(inside: str) -> list[str]:
    """The names between brackets, as written."""
    if "'" in inside or '"' in inside or "%" in inside or "#" in inside:
        return [name for name in _NAMES.findall(inside) if name]
    return [name.strip() for name in inside.split(",")]


def _add_all(text: _Text, piles: Piles, draft: Draft) -> None:
    for (arity, valued), pile in piles.items():
        _add(text, arity, valued, pile, draft)
    piles.clear()


def _add(text: _Text, arity: int, valued: bool, pile: Pile, draft: Draft) -> None:
    """Put statements of one arity into a draft."""

    def where(row: int, field: int) -> Place:
        return text.field(pile[row][0], field)

    if arity > LARGEST_ARITY:
        raise InputError(f"a relation has 1 to {LARGEST_ARITY} places, not {arity}", place=where(0, LARGEST_ARITY + 1))
    names = [name for found, objects in pile for name in (found[_RELATION], *objects)]
    for position, name in enumerate(names):
        if name[0] in "'\"" or name == "_":
            names[position] = _plain(name, where, *divmod(position, arity + 1))
    table = draft.numbers(names, lambda position: where(*divmod(position, arity + 1))).reshape(-1, arity + 1)
    if valued:
        draft.values(table[:, 0], table[:, 1], np.array([float(found[_VALUE]) for found, _ in pile]), where)
    else:
        certain = all(found[_CONFIDENCE] is None for found, _ in pile)
        confidence = None if certain else np.array([float(found[_CONFIDENCE] or 1) for found, _ in pile])
        draft.facts(table[:, 0], table[:, 1:], confidence, where)


def _plain(name: str, where: Where, row: int, field: int) -> str:
    """The name that a quoted one stands for."""
    if name == "_":
        raise InputError(
            "_ is a variable, and a fact has none", place=where(row, field), hint="an object so named is '_'"
        )
    try:
        return unquote(name)
    except ValueError as error:
        raise InputError(str(error), place=where(row, field)) from None


def explained(source: str, line: int, text: str, start: int = 0) -> InputError:
    r"""What is wrong with the first statement of a text that is no fact.

    >>> print(explained("family.facts", 1, "parent(ann, bob)\nparent(bob, cleo)."))
    family.facts, line 1, column 17: a dot is missing at the end of the fact
      parent(ann, bob)
                      ^
    """
    scan = _Scan(text, start)
    message, hint = scan.statement()
    place = _Text(source, line, text).place(min(scan.at, len(text.rstrip())))
    return InputError(message, place=place, hint=hint)


class _Scan:
    """Walks along a statement until something is wrong; `at` is then where."""

    def __init__(self, text: str, at: int) -> None:
        self.text = text
        self.at = at

    def statement(self) -> tuple[str, str]:
        """What is wrong, and a hint."""
        self.take(rf"{_GAP}(?:{_NUMBER}{_GAP}::)?{_GAP}")
        if self.sees(":-") or self.sees("?-"):
            return "this is a directive; a file of facts can hold only facts", "leave it out, and ask rules as queries"
        if not self.take(_NAME):
            return self.no_name("a relation")
        if not self.take(rf"{_GAP}\({_GAP}"):
            self.take(_GAP)
            if self.sees(":-") or self.sees("."):
                return self.rule() or ("a fact needs at least one object", "write: relation(object).")
            return "( was expected after the relation", "a name with spaces or signs stands in quotes: 'has part'"
        while True:
            if not self.take(_NAME):
                return self.no_name("an object")
            self.take(_GAP)
            if self.sees("("):
                return "objects are names, not terms", ""
            if not self.take(rf",{_GAP}"):
                break
        if not self.take(r"\)"):
            return ") or , was expected", "a name with spaces or signs stands in quotes: 'Ann Lee'"
        return self.end()

    def end(self) -> tuple[str, str]:
        after = self.at
        self.take(_GAP)
        rule = self.rule()
        if rule:
            return rule
        if self.take(rf"={_GAP}"):
            if not self.take(_NUMBER):
                return "a number was expected after =", "write: age(ann) = 80.5."
        else:
            self.at = after
        return "a dot is missing at the end of the fact", ""

    def rule(self) -> tuple[str, str] | None:
        if self.sees(":-") or self.sees("<-"):
            return "this is a rule; a file of facts can hold only facts", "ask rules as queries"
        return None

    def no_name(self, what: str) -> tuple[str, str]:
        if self.at >= len(self.text):
            return f"the text ends where {what} was expected", ""
        sign = self.text[self.at]
        if sign in "'\"":
            return "the quotation mark is not closed on this line", "write \\n for a newline in a name"
        if sign == "?":
            return "a fact has no variables", "an object whose name begins with ? stands in quotes"
        return f"{what} was expected", "a name with spaces or signs stands in quotes: 'Ann Lee'"

    def sees(self, text: str) -> bool:
        return self.text.startswith(text, self.at)

    def take(self, pattern: str) -> bool:
        found = re.compile(pattern).match(self.text, self.at)
        self.at = found.end() if found else self.at
        return found is not None

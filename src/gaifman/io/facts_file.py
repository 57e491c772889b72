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

from gaifman.config import MAX_ARITY, Limits
from gaifman.errors import InputError, Location
from gaifman.io.files import TextBlock
from gaifman.kb.builder import NUMBER_FIELD, KnowledgeBaseBuilder, Locator
from gaifman.logic.names import PATH, WORD, unquote

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


Statements = list[tuple[re.Match[str], list[str]]]
"""Statements of one arity, each with its objects as written."""
StatementGroups = dict[tuple[int, bool], Statements]
"""By arity, and whether they are values."""


@dataclass(frozen=True)
class _TextWindow:
    """What is left to read, and where it stands."""

    source: str
    line: int
    text: str

    @cached_property
    def _ends(self) -> list[int]:
        """Where lines end: each new relation is given its place, and to count lines for each anew is slow."""
        return [end.start() for end in re.finditer("\n", self.text)]

    def location(self, offset: int, width: int = 1) -> Location:
        """The place of a character; the line is counted from that of the text."""
        row = bisect_left(self._ends, offset)
        start = self._ends[row - 1] + 1 if row else 0
        end = self._ends[row] if row < len(self._ends) else len(self.text)
        return Location(self.source, self.line + row, offset - start + 1, self.text[start:end], max(width, 1))

    def field_location(self, found: re.Match[str], field: int) -> Location:
        """The place of a statement's field, as a draft counts fields."""
        if field == NUMBER_FIELD:
            start, end = found.span(_VALUE if found[_VALUE] else _CONFIDENCE)
        elif field == 0:
            start, end = found.span(_RELATION)
        else:
            names = _NAMES.finditer(self.text, *found.span(_OBJECTS))
            start, end = [name.span() for name in names if name[1]][field - 1]
        return self.location(start, end - start)


def read_facts_file(blocks: Iterator[TextBlock], limits: Limits, builder: KnowledgeBaseBuilder) -> None:
    """Put a `.facts` file into a draft."""
    text, done = _TextWindow("", 1, ""), 0
    for block in blocks:
        # What is kept begins with a line, so that columns are right; `done` is what was read of it.
        kept = text.text.rfind("\n", 0, done) + 1
        line = block.line - text.text.count("\n", kept)
        text = _TextWindow(block.source, line, text.text[kept:] + block.normalise_newlines().decode())
        done = _read_statements(text, done - kept, builder)
        if len(text.text) - done > limits.line:
            raise syntax_error(text.source, text.line, text.text, done)
    if _BLANK.fullmatch(text.text, done) is None:
        # A whole last statement was read already, so something is wrong with this one.
        raise syntax_error(text.source, text.line, text.text, done)


def _read_statements(text: _TextWindow, at: int, draft: KnowledgeBaseBuilder) -> int:
    """Read the statements that are complete; where they end, and perhaps a comment goes on."""
    piles: StatementGroups = {}
    arities: dict[str, int] = {}
    while found := _STATEMENT.match(text.text, at):
        inside = found[_OBJECTS]
        objects = [inside] if inside.isalnum() else _names(inside)
        valued = found[_VALUE] is not None
        if valued and (len(objects) > 1 or found[_CONFIDENCE]):
            raise InputError(
                "only one object has a value, and values have no confidence",
                location=text.field_location(found, 0),
                hint="write: age(ann) = 80.",
            )
        if not valued and arities.setdefault(found[_RELATION], len(objects)) != len(objects):
            _flush(text, piles, draft)  # the draft will refuse this one, and must know what came before it
        piles.setdefault((len(objects), valued), []).append((found, objects))
        at = found.end()
    _flush(text, piles, draft)
    blank = _BLANK.match(text.text, at)
    assert blank is not None  # it matches nothing, too
    return max(at, text.text.rfind("\n", at, blank.end()) + 1)


def _names(inside: str) -> list[str]:
    """The names between brackets, as written."""
    if "'" in inside or '"' in inside or "%" in inside or "#" in inside:
        return [name for name in _NAMES.findall(inside) if name]
    return [name.strip() for name in inside.split(",")]


def _flush(text: _TextWindow, piles: StatementGroups, draft: KnowledgeBaseBuilder) -> None:
    for (arity, valued), pile in piles.items():
        _add_statements(text, arity, valued, pile, draft)
    piles.clear()


def _add_statements(
    text: _TextWindow, arity: int, is_value: bool, pile: Statements, draft: KnowledgeBaseBuilder
) -> None:
    """Put statements of one arity into a draft."""

    def where(row: int, field: int) -> Location:
        return text.field_location(pile[row][0], field)

    if arity > MAX_ARITY:
        raise InputError(f"a relation has 1 to {MAX_ARITY} arguments, not {arity}", location=where(0, MAX_ARITY + 1))
    names = [name for found, objects in pile for name in (found[_RELATION], *objects)]
    for position, name in enumerate(names):
        if name[0] in "'\"" or name == "_":
            names[position] = _unquote_name(name, where, *divmod(position, arity + 1))
    table = draft.encode_names(names, lambda position: where(*divmod(position, arity + 1))).reshape(-1, arity + 1)
    if is_value:
        draft.add_values(table[:, 0], table[:, 1], np.array([float(found[_VALUE]) for found, _ in pile]), where)
    else:
        certain = all(found[_CONFIDENCE] is None for found, _ in pile)
        confidence = None if certain else np.array([float(found[_CONFIDENCE] or 1) for found, _ in pile])
        draft.add_facts(table[:, 0], table[:, 1:], confidence, where)


def _unquote_name(name: str, where: Locator, row: int, field: int) -> str:
    """The name that a quoted one stands for."""
    if name == "_":
        raise InputError(
            "_ is a variable, and a fact has none", location=where(row, field), hint="an object so named is '_'"
        )
    try:
        return unquote(name)
    except ValueError as error:
        raise InputError(str(error), location=where(row, field)) from None


def syntax_error(source: str, line: int, text: str, start: int = 0) -> InputError:
    r"""What is wrong with the first statement of a text that is no fact.

    >>> print(syntax_error("family.facts", 1, "parent(ann, bob)\nparent(bob, cleo)."))
    family.facts, line 1, column 17: a dot is missing at the end of the fact
      parent(ann, bob)
                      ^
    """
    scan = _StatementScanner(text, start)
    message, hint = scan.statement()
    place = _TextWindow(source, line, text).location(min(scan.at, len(text.rstrip())))
    return InputError(message, location=place, hint=hint)


class _StatementScanner:
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
            return self.missing_name("a relation")
        if not self.take(rf"{_GAP}\({_GAP}"):
            self.take(_GAP)
            if self.sees(":-") or self.sees("."):
                return self.rule() or ("a fact needs at least one object", "write: relation(object).")
            return "( was expected after the relation", "a name with spaces or signs stands in quotes: 'has part'"
        while True:
            if not self.take(_NAME):
                return self.missing_name("an object")
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

    def missing_name(self, what: str) -> tuple[str, str]:
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

r"""`.facts` files: Datalog facts, with confidences and values.

    parent(ann, bob).           0.9::parent(ann, 'Bob Hope').          % a comment, also with #
    person(ann).                age(ann) = 80.5.

    statement = [ number "::" ] name "(" name { "," name } ")" [ "=" number ] "."

A name that is a word, or begins with a digit or `/`, needs no quotes. Other names are in single or double quotes, with
the escapes `\n \t \r \' \" \\ \uXXXX \UXXXXXXXX`.

A line that begins with `%@` says that a fact was predicted and accepted, or that a proposal was rejected, with the name
of the model, the day and the probability. For other programs it is a comment.

    %@ predicted ["m.gaifman", "2026-05-01", 0.93] capital(peru, lima).
    %@ rejected ["m.gaifman", "2026-05-01", 0.4] capital(peru, cusco).
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from gaifman.config import MAX_ARITY, Limits
from gaifman.errors import InputError, Location
from gaifman.io.files import TextBlock
from gaifman.kb.builder import NUMBER_FIELD, KnowledgeBaseBuilder, Locator
from gaifman.kb.reviews import PREDICTED, REJECTED, FactKey, Provenance
from gaifman.logic.ast import PATH, WORD, unquote
from gaifman.threads import cached_property

_NUMBER = r"[+-]?(?:\d+(?:\.\d+)?|\.\d+)(?:[eE][+-]?\d+)?"
_QUOTED = r"""'(?:[^'\\\n]|\\.)*+'|"(?:[^"\\\n]|\\.)*+\""""
_NAME = rf"(?>{WORD}|{PATH}|{_QUOTED})"
_GAP = r"(?:\s|[%#][^\r\n]*+)*+"
_STATEMENT = re.compile(
    rf"{_GAP}(?:({_NUMBER}){_GAP}::{_GAP})?({_NAME}){_GAP}\({_GAP}({_NAME}{_GAP}(?:,{_GAP}{_NAME}{_GAP})*+)\)"
    rf"{_GAP}(?:={_GAP}({_NUMBER}){_GAP})?\."
)
_CONFIDENCE, _RELATION, _OBJECTS, _VALUE = 1, 2, 3, 4
REVIEW_MARK = "%@"
_REVIEW = re.compile(rf"^{REVIEW_MARK} ({PREDICTED}|{REJECTED})\b([^\n]*)$", re.MULTILINE)
_NAMES = re.compile(rf"[%#][^\r\n]*+|({_NAME})")
_BLANK = re.compile(_GAP)


Statements = list[tuple[re.Match[str], list[str]]]
"""Statements of one arity, each with its objects as in the text."""
StatementGroups = dict[tuple[int, bool], Statements]
"""Arity, and whether they are values → statements."""


@dataclass(frozen=True)
class _TextWindow:
    """The text that is not read yet, with its first line number."""

    source: str
    line: int
    text: str

    @cached_property
    def _ends(self) -> list[int]:
        """Offsets of the newlines, because every new relation needs its location."""
        return [end.start() for end in re.finditer("\n", self.text)]

    def location(self, offset: int, width: int = 1) -> Location:
        """Return the location of a character."""
        row = bisect_left(self._ends, offset)
        start = self._ends[row - 1] + 1 if row else 0
        end = self._ends[row] if row < len(self._ends) else len(self.text)
        return Location(self.source, self.line + row, offset - start + 1, self.text[start:end], max(width, 1))

    def field_location(self, found: re.Match[str], field: int) -> Location:
        """Return the location of a statement's field, as the builder counts fields."""
        if field == NUMBER_FIELD:
            start, end = found.span(_VALUE if found[_VALUE] else _CONFIDENCE)
        elif field == 0:
            start, end = found.span(_RELATION)
        else:
            names = _NAMES.finditer(self.text, *found.span(_OBJECTS))
            start, end = [name.span() for name in names if name[1]][field - 1]
        return self.location(start, end - start)


def read_facts_file(blocks: Iterator[TextBlock], limits: Limits, builder: KnowledgeBaseBuilder) -> None:
    """Read a `.facts` file into the builder."""
    text, done = _TextWindow("", 1, ""), 0
    for block in blocks:
        # The rest starts at the start of a line, so that columns are right; its first `done` characters are read.
        if REVIEW_MARK.encode() in block.data:
            _read_reviews(block, builder)
        rest = text.text.rfind("\n", 0, done) + 1
        line = block.line - text.text.count("\n", rest)
        text = _TextWindow(block.source, line, text.text[rest:] + block.normalise_newlines().decode())
        done = _read_statements(text, done - rest, builder)
        if len(text.text) - done > limits.line:
            raise syntax_error(text.source, text.line, text.text, done)
    if _BLANK.fullmatch(text.text, done) is None:
        # A complete statement would have been read, so this one is invalid.
        raise syntax_error(text.source, text.line, text.text, done)


def _read_reviews(block: TextBlock, builder: KnowledgeBaseBuilder) -> None:
    """Read the decisions about proposed facts in whole lines."""
    window = _TextWindow(block.source, block.line, block.normalise_newlines().decode())
    for found in _REVIEW.finditer(window.text):
        location = window.location(found.start(), found.end() - found.start())
        decision = _decision(found[2].strip())
        if decision is None:
            raise InputError(
                f"a line that begins with {REVIEW_MARK} {found[1]} must be a decision about a proposed fact",
                location=location,
                hint=f'such as {REVIEW_MARK} {found[1]} ["m.gaifman", "2026-05-01", 0.4] capital(peru, cusco).',
            )
        builder.add_review(*decision, found[1] == PREDICTED, partial(_same, location))


def _decision(text: str) -> tuple[FactKey, Provenance] | None:
    """The fact and the provenance of a decision; None if the text is none."""
    try:
        (model, date, p), end = json.JSONDecoder().raw_decode(text)
        fact = _STATEMENT.fullmatch(text, end)
        if not (isinstance(model, str) and isinstance(date, str) and (p is None or 0 <= p <= 1)) or fact is None:
            return None
        names = [fact[_RELATION], *_names(fact[_OBJECTS])]
        return tuple(unquote(name) if name[0] in "'\"" else name for name in names), Provenance(model, date, p)
    except (ValueError, TypeError):
        return None


def _same(location: Location) -> Location:
    return location


def _read_statements(text: _TextWindow, at: int, builder: KnowledgeBaseBuilder) -> int:
    """Read the complete statements and return the offset of their end."""
    groups: StatementGroups = {}
    arities: dict[str, int] = {}
    while found := _STATEMENT.match(text.text, at):
        inside = found[_OBJECTS]
        objects = [inside] if inside.isalnum() else _names(inside)
        valued = found[_VALUE] is not None
        if valued and (len(objects) > 1 or found[_CONFIDENCE]):
            raise InputError(
                "a value belongs to one object and has no confidence",
                location=text.field_location(found, 0),
                hint="write: age(ann) = 80.",
            )
        if not valued and arities.setdefault(found[_RELATION], len(objects)) != len(objects):
            _flush(text, groups, builder)  # the builder will refuse this one, and must know those before it
        groups.setdefault((len(objects), valued), []).append((found, objects))
        at = found.end()
    _flush(text, groups, builder)
    blank = _BLANK.match(text.text, at)
    assert blank is not None  # it matches the empty text too
    return max(at, text.text.rfind("\n", at, blank.end()) + 1)


def _names(inside: str) -> list[str]:
    """Return the names between brackets, with their quotes."""
    if "'" in inside or '"' in inside or "%" in inside or "#" in inside:
        return [name for name in _NAMES.findall(inside) if name]
    return [name.strip() for name in inside.split(",")]


def _flush(text: _TextWindow, groups: StatementGroups, builder: KnowledgeBaseBuilder) -> None:
    for (arity, valued), statements in groups.items():
        _add_statements(text, arity, valued, statements, builder)
    groups.clear()


def _add_statements(
    text: _TextWindow, arity: int, is_value: bool, statements: Statements, builder: KnowledgeBaseBuilder
) -> None:
    """Add statements of one arity to the builder."""

    def locate(row: int, field: int) -> Location:
        return text.field_location(statements[row][0], field)

    if arity > MAX_ARITY:
        raise InputError(f"a relation has 1 to {MAX_ARITY} arguments, not {arity}", location=locate(0, MAX_ARITY + 1))
    names = [name for found, objects in statements for name in (found[_RELATION], *objects)]
    for index, name in enumerate(names):
        if name[0] in "'\"" or name == "_":
            names[index] = _unquote_name(name, locate, *divmod(index, arity + 1))
    table = builder.encode_names(names, lambda index: locate(*divmod(index, arity + 1))).reshape(-1, arity + 1)
    if is_value:
        values = np.array([float(found[_VALUE]) for found, _ in statements])
        builder.add_values(table[:, 0], table[:, 1], values, locate)
    else:
        certain = all(found[_CONFIDENCE] is None for found, _ in statements)
        confidence = None if certain else np.array([float(found[_CONFIDENCE] or 1) for found, _ in statements])
        builder.add_facts(table[:, 0], table[:, 1:], confidence, locate)


def _unquote_name(name: str, locate: Locator, row: int, field: int) -> str:
    """Return the name without its quotes."""
    if name == "_":
        raise InputError(
            "_ is a variable, and a fact has no variables",
            location=locate(row, field),
            hint="quote it to use it as a name: '_'",
        )
    try:
        return unquote(name)
    except ValueError as error:
        raise InputError(str(error), location=locate(row, field)) from None


def syntax_error(source: str, line: int, text: str, start: int = 0) -> InputError:
    r"""Return the error of the first statement of a text, which is not a fact.

    >>> print(syntax_error("family.facts", 1, "parent(ann, bob)\nparent(bob, cleo)."))
    family.facts, line 1, column 17: expected . at the end of the fact
      parent(ann, bob)
                      ^
    """
    scan = _StatementScanner(text, start)
    message, hint = scan.statement()
    location = _TextWindow(source, line, text).location(min(scan.at, len(text.rstrip())))
    return InputError(message, location=location, hint=hint)


class _StatementScanner:
    """Scans an invalid statement up to its first mistake, which is then at `at`."""

    def __init__(self, text: str, at: int) -> None:
        self.text = text
        self.at = at

    def statement(self) -> tuple[str, str]:
        """Return the mistake and a hint."""
        self.take(rf"{_GAP}(?:{_NUMBER}{_GAP}::)?{_GAP}")
        if self.sees(":-") or self.sees("?-"):
            return (
                "directives are not allowed in a file of facts",
                "remove it; rules are queries: gaifman query KB RULE",
            )
        if not self.take(_NAME):
            return self.missing_name("a relation")
        if not self.take(rf"{_GAP}\({_GAP}"):
            self.take(_GAP)
            if self.sees(":-") or self.sees("."):
                return self.rule() or ("a fact needs at least one object", "write: relation(object).")
            return "expected ( after the relation", "quote names with spaces or symbols: 'has part'"
        while True:
            if not self.take(_NAME):
                return self.missing_name("an object")
            self.take(_GAP)
            if self.sees("("):
                return "an object must be a name, not a term", ""
            if not self.take(rf",{_GAP}"):
                break
        if not self.take(r"\)"):
            return "expected ) or ,", "quote names with spaces or symbols: 'Ann Lee'"
        return self.end()

    def end(self) -> tuple[str, str]:
        after = self.at
        self.take(_GAP)
        rule = self.rule()
        if rule:
            return rule
        if self.take(rf"={_GAP}"):
            if not self.take(_NUMBER):
                return "expected a number after =", "write: age(ann) = 80.5."
        else:
            self.at = after
        return "expected . at the end of the fact", ""

    def rule(self) -> tuple[str, str] | None:
        if self.sees(":-") or self.sees("<-"):
            return "rules are not allowed in a file of facts", "rules are queries: gaifman query KB RULE"
        return None

    def missing_name(self, what: str) -> tuple[str, str]:
        if self.at >= len(self.text):
            return f"expected {what}, but the text ends", ""
        symbol = self.text[self.at]
        if symbol in "'\"":
            return "the quotation mark is not closed on this line", "write \\n for a newline in a name"
        if symbol == "?":
            return "a fact has no variables", "quote an object whose name begins with ?"
        return f"expected {what}", "quote names with spaces or symbols: 'Ann Lee'"

    def sees(self, text: str) -> bool:
        return self.text.startswith(text, self.at)

    def take(self, pattern: str) -> bool:
        found = re.compile(pattern).match(self.text, self.at)
        self.at = found.end() if found else self.at
        return found is not None

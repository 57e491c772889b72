"""Mappings: what the columns of a table mean.

    employee works_in dept            facts works_in(employee, dept), a row each
    employee is person                the type person of every employee
    employee age                      the attribute age, from the column of that name
    employee age = years              the attribute age, from the column years
    gave(giver, gift, receiver)       facts of any arity; also works_in(employee, dept), age(employee) = years
    head [link] tail                  the relation is named by the column link; so are types and attributes
    trust :: buyer rates seller       the column trust holds confidences
    employee:person boss boss:person  both columns hold persons: 7 is person/7 in both

Names with spaces or symbols are in quotes. `Clause` is one such line, `TableMapping` all lines about the tables;
`gaifman.io.mapped_tables` reads tables by them.

>>> clause = parse_clause('"Full Name" works_in dept:team')
>>> print(clause)
works_in("Full Name", dept:team)
>>> clause.objects[1].name, clause.objects[1].kind
('dept', 'team')
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from gaifman.config import MAX_ARITY
from gaifman.errors import InputError, Location, shorten
from gaifman.logic.ast import name_problem

SOURCE: Final = "mapping"
"""Name of a mapping in the location of its errors."""
NO_KIND: Final = "-"
"""Kind of a column whose numbers are names as they are."""
FORMS: Final = (
    'for example "employee works_in dept", "employee is person", "employee age", "gave(giver, gift, receiver)"'
)

_TOKEN = re.compile(r"""\s*(?:("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(::|[:(),=\[\]])|([^\s:(),=\[\]"']+)|(\S))""")
_PLAIN = re.compile(r"""[^\s:(),=\[\]"'\\]+""")


@dataclass(frozen=True, slots=True)
class Column:
    """A column that a mapping names."""

    name: str
    kind: str | None = None
    """What its objects are: 7 is named `kind/7`. Empty: 7. None: decided by the table."""
    location: Location | None = field(default=None, compare=False)
    """Where the mapping names it."""

    def __str__(self) -> str:
        """Return the column as a mapping writes it."""
        kind = "" if self.kind is None else f":{quote_name(self.kind) if self.kind else NO_KIND}"
        return quote_name(self.name) + kind


@dataclass(frozen=True, slots=True)
class Clause:
    """Facts, or values of an attribute, that each row of a table gives."""

    relation: str | Column
    """The relation, type or attribute, or the column of its name."""
    objects: tuple[Column, ...]
    value: Column | None = None
    """Column of the attribute's value; None for facts."""
    confidence: Column | None = None

    @property
    def columns(self) -> tuple[Column, ...]:
        """All columns."""
        named = [self.relation] if isinstance(self.relation, Column) else []
        return (*named, *self.objects, *(one for one in (self.value, self.confidence) if one))

    def __str__(self) -> str:
        """Return the clause as a mapping writes it."""
        relation = f"[{self.relation}]" if isinstance(self.relation, Column) else quote_name(self.relation)
        confidence = f"{self.confidence} :: " if self.confidence else ""
        value = f" = {self.value}" if self.value else ""
        return f"{confidence}{relation}({', '.join(map(str, self.objects))}){value}"


@dataclass(frozen=True, slots=True)
class TableMapping:
    """How tables are read; see `gaifman.read`."""

    clauses: tuple[Clause, ...] = ()
    id: Column | None = None
    """Column of the object that a row describes; None: the first."""
    wide: bool = False
    """Whether the other columns are relations and attributes of that object."""
    separator: str | None = None
    """What separates several objects in one cell."""
    ignore: tuple[Column, ...] = ()
    """Columns that are not read."""

    def __bool__(self) -> bool:
        """Whether there is a mapping."""
        return bool(self.clauses or self.wide)

    @property
    def columns(self) -> tuple[Column, ...]:
        """All columns that are named."""
        named = [self.id] if self.id else []
        return (*named, *self.ignore, *(column for clause in self.clauses for column in clause.columns))


def make_mapping(
    clauses: str | Sequence[str] = (),
    id: str | None = None,  # noqa: A002
    wide: bool = False,
    separator: str | None = None,
    ignore: str | Sequence[str] = (),
) -> TableMapping:
    """Return a mapping, by the arguments of `gaifman.read`."""
    clauses, ignore = ([one] if isinstance(one, str) else one for one in (clauses, ignore))
    mapping = TableMapping(
        tuple(map(parse_clause, clauses)),
        None if id is None else _parse_column(id),
        wide,
        separator,
        tuple(Column(name, location=Location("ignore", 1, 1, name, max(len(name), 1))) for name in ignore),
    )
    if separator is not None and not separator.strip():
        raise InputError("the separator is empty", hint='it separates several objects in a cell, for example ";"')
    extra = {"id": id, "separator": separator, "ignore": ignore or None}
    given = [name for name, value in extra.items() if value is not None]
    if not mapping and given:
        raise InputError(
            f"{given[0]} says nothing without a mapping",
            hint="add --wide (in Python wide=True) to read one object per row, or --map (map=…)",
        )
    return mapping


def _parse_column(text: str) -> Column:
    parser = _Parser(text, "id")
    column = parser.column()
    parser.end()
    return column


def parse_clause(text: str) -> Clause:
    """Return the clause that a text writes.

    >>> print(parse_clause("employee age = years"))
    age(employee) = years
    >>> print(parse_clause("trust :: buyer [verb] seller:shop"))
    trust :: [verb](buyer, seller:shop)
    """
    return _Parser(text, SOURCE).clause()


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    """A word without its quotes, or a sign; empty at the end."""
    is_name: bool
    start: int
    end: int
    quoted: bool = False


class _Parser:
    """A parser of one clause."""

    def __init__(self, text: str, source: str) -> None:
        self._text, self._source, self._at = text, source, 0
        self._tokens = list(self._split())

    def _split(self) -> list[_Token]:
        tokens, at, text = [], 0, self._text.rstrip()
        while at < len(text):
            match = _TOKEN.match(text, at)
            assert match is not None
            group, at = match.lastindex or 0, match.end()
            start = match.start(group)
            if group == 4:
                raise self._error("the quotation mark is not closed", start, len(text))
            word = match[group]
            if group == 1:
                word = re.sub(r"\\(.)", r"\1", word[1:-1])
            if group != 2 and (problem := name_problem(word)):
                raise self._error(problem, start, at)
            tokens.append(_Token(word, group != 2, start, at, group == 1))
        return [*tokens, _Token("", False, len(self._text), len(self._text) + 1)]

    def _location(self, start: int, end: int) -> Location:
        return Location.from_offset(self._source, self._text, start, end - start)

    def _error(self, message: str, start: int, end: int, hint: str = FORMS) -> InputError:
        return InputError(message, location=self._location(start, end), hint=hint)

    def _expected(self, what: str) -> InputError:
        token = self._tokens[self._at]
        found = f"got {shorten(token.text)}" if token.text else "the mapping ends"
        return self._error(f"expected {what}, {found}", token.start, token.end)

    def _next_is(self, *texts: str, ahead: int = 0) -> bool:
        token = self._tokens[min(self._at + ahead, len(self._tokens) - 1)]
        return not token.is_name and token.text in texts

    def _take(self, sign: str) -> bool:
        if not self._next_is(sign):
            return False
        self._at += 1
        return True

    def _name(self, what: str) -> _Token:
        token = self._tokens[self._at]
        if not token.is_name:
            raise self._expected(what)
        self._at += 1
        return token

    def _column_name(self) -> Column:
        token = self._name("the name of a column")
        return Column(token.text, location=self._location(token.start, token.end))

    def column(self) -> Column:
        """Read `COLUMN` or `COLUMN:KIND`."""
        column = self._column_name()
        if not self._take(":"):
            return column
        token = self._name("the kind of the objects")
        kind = "" if token.text == NO_KIND and not token.quoted else token.text
        return Column(column.name, kind, column.location)

    def _relation(self) -> str | Column:
        """Read a name, or `[COLUMN]`."""
        if not self._take("["):
            return self._name("the name of a relation").text
        column = self._column_name()
        if not self._take("]"):
            raise self._expected("]")
        return column

    def clause(self) -> Clause:
        """Read a whole clause."""
        confidence = None
        if self._next_is("::", ahead=1):
            confidence = self._column_name()
            self._at += 1
        in_brackets = self._next_is("(", ahead=3) if self._next_is("[") else self._next_is("(", ahead=1)
        relation, objects, value = self._call() if in_brackets else self._sentence()
        if value and confidence:
            assert confidence.location is not None
            message = "an attribute has no confidence"
            raise InputError(message, location=confidence.location, hint="write the values alone")
        self.end()
        return Clause(relation, objects, value, confidence)

    def _call(self) -> tuple[str | Column, tuple[Column, ...], Column | None]:
        """Read `relation(column, …)` or `attribute(column) = column`."""
        relation = self._relation()
        self._at += 1
        start = self._tokens[self._at].start
        objects = [self.column()]
        while self._take(","):
            objects.append(self.column())
        if not self._take(")"):
            raise self._expected(", or )")
        if len(objects) > MAX_ARITY:
            message = f"a relation has at most {MAX_ARITY} arguments, not {len(objects)}"
            raise self._error(message, start, self._tokens[self._at - 1].start)
        return relation, tuple(objects), self._value(len(objects), start)

    def _sentence(self) -> tuple[str | Column, tuple[Column, ...], Column | None]:
        """Read `column relation column`, `column is type`, `column attribute` or `column attribute = column`."""
        first = self.column()
        word = self._tokens[self._at]
        if word.is_name and word.text == "is" and not word.quoted and not self._ends(1):
            self._at += 1
            return self._relation(), (first,), None
        relation = self._relation()
        if self._next_is("="):
            return relation, (first,), self._value(1, word.start)
        if self._ends():
            if isinstance(relation, Column):
                raise self._expected("= and the column of the values, or a column of objects")
            return relation, (first,), Column(relation, location=self._location(word.start, word.end))
        return relation, (first, self.column()), None

    def _ends(self, ahead: int = 0) -> bool:
        return self._at + ahead >= len(self._tokens) - 1

    def _value(self, arity: int, start: int) -> Column | None:
        if not self._take("="):
            return None
        if arity != 1:
            raise self._error("an attribute has one object", start, self._tokens[self._at - 1].start)
        return self._column_name()

    def end(self) -> None:
        """Check that nothing follows."""
        if not self._ends():
            raise self._expected("the end of the mapping")


def quote_name(name: str) -> str:
    """Return a name as a mapping writes it: in quotes where necessary.

    >>> print(quote_name("dept"), quote_name("Full Name"))
    dept "Full Name"
    """
    if _PLAIN.fullmatch(name) and name not in ("is", NO_KIND):
        return name
    return '"' + re.sub(r'(["\\])', r"\\\1", name) + '"'

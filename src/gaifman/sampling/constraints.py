"""What is certain of a relation beyond its facts: that it is functional, and which types its places have.

>>> text = '''
... functional: born_in 1→2        # whoever is born, is born in one place
... types: born_in person, place
... '''
>>> found = parse_constraints(text, Schema({"born_in": 2, "person": 1, "place": 1}))
>>> from gaifman.logic.parser import parse_query
>>> found.of(parse_query("q(where, who) :- born_in(who, where)"))
Own(functional=(((1,), 0),), types=('place', 'person'))

One constraint a line; what follows `#` is a comment. `→` can be written `->`; several places can determine one
together: `1,2→3`. A type is a relation with one place, or `_` where nothing is said.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from gaifman.config import DEFAULT_LIMITS, MAX_ARITY, Limits
from gaifman.errors import FormulaError, Location, plural, similar_names
from gaifman.io.files import open_input, read_blocks
from gaifman.logic.ast import Atom, Query, Variable
from gaifman.logic.names import PATH, WORD, unquote
from gaifman.logic.printer import format_relation
from gaifman.logic.schema import SchemaLike, as_schema
from gaifman.logic.tokens import strip_comment

CONSTRAINT_KINDS = ("functional", "types")
"""What a line can begin with."""

_NAME = re.compile(rf"'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"|{PATH}|{WORD}")
_POSITION = re.compile(r"\d+", re.ASCII)
_SPACE = re.compile(r"\s*")


@dataclass(frozen=True, slots=True)
class FunctionalConstraint:
    """What stands at some places of a relation determines what stands at another."""

    relation: str
    determinants: tuple[int, ...]
    """Places, from 0, ascending."""
    dependent: int

    def __str__(self) -> str:
        places = ",".join(str(place + 1) for place in self.determinants)
        return f"functional: {format_relation(self.relation)} {places}→{self.dependent + 1}"


@dataclass(frozen=True, slots=True)
class TypeConstraint:
    """The types that the places of a relation have."""

    relation: str
    types: tuple[str | None, ...]
    """For each place a relation with one place, or None where nothing is said."""

    def __str__(self) -> str:
        types = ", ".join("_" if name is None else format_relation(name) for name in self.types)
        return f"types: {format_relation(self.relation)} {types}"


@dataclass(frozen=True, slots=True)
class QueryConstraints:
    """What holds of the answers of one query, by the positions of its variables, from 0."""

    functional: tuple[tuple[tuple[int, ...], int], ...]
    """The positions that determine, and the position that they determine."""
    types: tuple[str | None, ...]
    """The type at each position, None where nothing is said."""


@dataclass(frozen=True, slots=True)
class Constraints:
    """Constraints in the order in which they were written."""

    functional: tuple[FunctionalConstraint, ...] = ()
    types: tuple[TypeConstraint, ...] = ()

    def to_text(self) -> str:
        """As a file: reading it gives the same."""
        return "".join(f"{line}\n" for line in (*self.functional, *self.types))

    def for_query(self, query: Query) -> QueryConstraints:
        """What holds of a query's answers: the constraints of its relation where it is one atom, and of its head.

        An atom with a constant, or with one variable at two places, has answers of its own: nothing is known of them.
        """
        functional: dict[tuple[tuple[int, ...], int], None] = {}
        types: list[str | None] = [None] * len(query.variables)
        for name, positions in _constraint_names(query):
            for rule in (rule for rule in self.functional if rule.relation == name):
                _check_arity(rule, 1 + max(*rule.determinants, rule.dependent), len(positions))
                functional[tuple(sorted(positions[i] for i in rule.determinants)), positions[rule.dependent]] = None
            for typed in (typed for typed in self.types if typed.relation == name):
                _check_arity(typed, len(typed.types), len(positions))
                for position, own in zip(positions, typed.types, strict=False):
                    types[position] = own or types[position]
        return QueryConstraints(tuple(functional), tuple(types))


def _constraint_names(query: Query) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Names under which a query's constraints stand, and for each place of them the query's position."""
    match query.formula:
        case Atom(str(relation), terms) if len(set(terms)) == len(terms) == len(query.variables):
            yield relation, tuple(query.variables.index(term) for term in terms if isinstance(term, Variable))
        case _:
            relation = ""
    if query.head and query.head != relation:
        yield query.head, tuple(range(len(query.variables)))


def _check_arity(rule: FunctionalConstraint | TypeConstraint, positions: int, arity: int) -> None:
    """A head has as many places as variables; whether that fits was not known where its constraint was read."""
    if positions > arity:
        raise FormulaError(
            f"“{rule}” speaks of {plural(positions, 'place')}, and the query has {plural(arity, 'variable')}",
            hint=f"is {format_relation(rule.relation)} the name of something else, too? Give the head another",
        )


def read_constraints(
    path: str | Path, schema: SchemaLike = None, *, query: Query | None = None, limits: Limits = DEFAULT_LIMITS
) -> Constraints:
    """The constraints of a file; see `parse_constraints`."""
    with open_input(path) as source:
        text = "".join(block.normalise_newlines().decode() for block in read_blocks(source, limits))
        return parse_constraints(text, schema, query=query, source=Path(source.name).name)


def parse_constraints(
    text: str, schema: SchemaLike = None, *, query: Query | None = None, source: str = "constraints"
) -> Constraints:
    """The constraints of a text, one a line; with a vocabulary, or a knowledge base, its names must be known.

    The head of `query` can be named as well.
    """
    found = as_schema(schema)
    known = None if found is None else dict(found.relations)
    if known is not None and query is not None and query.head:
        known.setdefault(query.head, len(query.variables))
    functional: dict[FunctionalConstraint, None] = {}
    types: dict[str, TypeConstraint] = {}
    for number, line in enumerate(text.split("\n"), start=1):
        reader = _LineParser(source, number, strip_comment(line), known)
        if not reader.at_end():
            rule = reader.constraint()
            if isinstance(rule, FunctionalConstraint):
                functional[rule] = None
            elif types.setdefault(rule.relation, rule) != rule:
                reader.fail(f"{format_relation(rule.relation)} has other types above: {types[rule.relation]}", 0)
    return Constraints(tuple(functional), tuple(types.values()))


@dataclass(slots=True)
class _LineParser:
    """One line, read from its begin to its end."""

    source: str
    number: int
    text: str
    arities: Mapping[str, int] | None
    """Relation → places; None where any name will do."""
    offset: int = 0

    def fail(
        self,
        message: str,
        start: int,
        end: int | None = None,
        *,
        suggestions: tuple[str, ...] = (),
        expected: tuple[str, ...] = (),
        hint: str = "",
    ) -> NoReturn:
        width = max(1, (len(self.text.rstrip()) if end is None else end) - start)
        place = Location(self.source, self.number, start + 1, self.text, width)
        raise FormulaError(message, location=place, suggestions=suggestions, expected=expected, hint=hint)

    def at_end(self) -> bool:
        """Whether nothing is left; what is, begins here."""
        match = _SPACE.match(self.text, self.offset)
        self.offset = match.end() if match else self.offset
        return self.offset == len(self.text)

    def accept(self, *signs: str) -> bool:
        """Go over one of some signs, if it stands here."""
        self.at_end()
        for sign in signs:
            if self.text.startswith(sign, self.offset):
                self.offset += len(sign)
                return True
        return False

    def constraint(self) -> FunctionalConstraint | TypeConstraint:
        start = self.offset
        kind = re.compile(r"\w*").match(self.text, start)
        word = kind[0] if kind else ""
        self.offset += len(word)
        if word not in CONSTRAINT_KINDS:
            near = similar_names(word, CONSTRAINT_KINDS) if word else ()
            self.fail(f"a constraint begins with {' or '.join(CONSTRAINT_KINDS)}", start, self.offset, suggestions=near)
        if not self.accept(":"):
            self.fail(f"a colon follows {word}", self.offset, self.offset + 1, expected=(":",))
        relation, span = self.name("a relation")
        if self.arities is not None and relation not in self.arities:
            near = similar_names(relation, [*self.arities])
            self.fail(f"there is no relation {format_relation(relation)}", *span, suggestions=near)
        found = self.functional(relation) if word == "functional" else self.type_names(relation, span)
        if not self.at_end():
            self.fail("the constraint has ended before", self.offset, hint="write one constraint a line")
        return found

    def name(self, what: str) -> tuple[str, tuple[int, int]]:
        self.at_end()
        match = _NAME.match(self.text, self.offset)
        if not match:
            self.fail(
                f"here should be {what}",
                self.offset,
                self.offset + 1,
                hint="a name with odd signs is quoted: 'has part'",
            )
        self.offset = match.end()
        try:
            return unquote(match[0]) if match[0][0] in "'\"" else match[0], match.span()
        except ValueError as error:
            self.fail(str(error), *match.span())

    def functional(self, relation: str) -> FunctionalConstraint:
        self.at_end()
        start = self.offset
        determining = [self.position(relation)]
        while self.accept(","):
            determining.append(self.position(relation))
        if not self.accept("→", "->"):
            self.fail(
                "no arrow stands after the places that determine", self.offset, self.offset + 1, expected=("→", "->")
            )
        determined = self.position(relation)
        if self.accept(","):
            self.fail("one place is determined", self.offset - 1, hint="write a line for each place that is determined")
        places = [*determining, determined]
        twice = next((place for place in places if places.count(place) > 1), None)
        if twice is not None:
            self.fail(f"place {twice + 1} stands twice", start, self.offset)
        return FunctionalConstraint(relation, tuple(sorted(determining)), determined)

    def position(self, relation: str) -> int:
        """The number of a place, from 0."""
        self.at_end()
        match = _POSITION.match(self.text, self.offset)
        if not match:
            self.fail(
                "here should be the number of a place", self.offset, self.offset + 1, hint="write: functional: r 1→2"
            )
        self.offset = match.end()
        most = MAX_ARITY if self.arities is None else self.arities[relation]
        if len(match[0]) > 2 or not 1 <= int(match[0]) <= most:  # a number of thousands of digits is not even read
            whose = "a relation has at most" if self.arities is None else f"{format_relation(relation)} has"
            self.fail(f"{whose} {plural(most, 'place')}", *match.span(), hint="places are counted from 1")
        return int(match[0]) - 1

    def type_names(self, relation: str, span: tuple[int, int]) -> TypeConstraint:
        types = [self.type_name()]
        while self.accept(","):
            types.append(self.type_name())
        if not self.at_end():
            self.fail("a comma stands between two types", self.offset, expected=(",",))
        if self.arities is not None and self.arities[relation] != len(types):
            wanted = ", ".join("_" * self.arities[relation])
            self.fail(
                f"{format_relation(relation)} has {plural(self.arities[relation], 'argument')}, not {len(types)}",
                *span,
                hint=f"write a type or _ for each place: types: {format_relation(relation)} {wanted}",
            )
        return TypeConstraint(relation, tuple(types))

    def type_name(self) -> str | None:
        name, span = self.name("a type, or _")
        if name == "_" and self.text[slice(*span)] == "_":
            return None
        if self.arities is not None and self.arities.get(name) != 1:
            shown, near = (
                format_relation(name),
                similar_names(name, [n for n, places in self.arities.items() if places == 1]),
            )
            if name in self.arities:
                self.fail(f"{shown} has {self.arities[name]} places: a type has one", *span, suggestions=near)
            self.fail(f"there is no type {shown}", *span, suggestions=near)
        return name

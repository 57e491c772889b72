"""Constraints on relations: functional dependencies, and the types of positions.

>>> from gaifman.logic.parser import parse_query
>>> from gaifman.logic.schema import Schema
>>> text = '''
... functional: born_in 1→2        # everyone is born in one place
... types: born_in person, place
... '''
>>> constraints = parse_constraints(text, Schema({"born_in": 2, "person": 1, "place": 1}))
>>> constraints.for_query(parse_query("q(where, who) :- born_in(who, where)"))
QueryConstraints(functional=(((1,), 0),), types=('place', 'person'))

One constraint per line; `#` starts a comment. `→` can be written `->`, and several positions can determine one
together: `1,2→3`. A type is a unary relation, or `_` for any.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from gaifman.config import DEFAULT_LIMITS, MAX_ARITY, Limits, checked, checked_methods
from gaifman.errors import FormulaError, Location, plural, similar_names
from gaifman.io.files import open_input, read_blocks
from gaifman.logic.ast import Atom, Query, Variable
from gaifman.logic.notation import PATH, WORD, format_relation, unquote
from gaifman.logic.parser import strip_comment
from gaifman.logic.schema import SchemaLike, as_schema

CONSTRAINT_KINDS = ("functional", "types")
"""Words that begin a constraint."""

_NAME = re.compile(rf"'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"|{PATH}|{WORD}")
_POSITION = re.compile(r"\d+", re.ASCII)
_SPACE = re.compile(r"\s*")


@dataclass(frozen=True, slots=True)
class FunctionalConstraint:
    """The objects at some positions of a relation determine the object at another."""

    relation: str
    determinants: tuple[int, ...]
    """Positions, from 0, ascending."""
    dependent: int

    def __str__(self) -> str:
        positions = ",".join(str(position + 1) for position in self.determinants)
        return f"functional: {format_relation(self.relation)} {positions}→{self.dependent + 1}"


@dataclass(frozen=True, slots=True)
class TypeConstraint:
    """The types of the positions of a relation."""

    relation: str
    types: tuple[str | None, ...]
    """A unary relation for each position, or None for any."""

    def __str__(self) -> str:
        types = ", ".join("_" if name is None else format_relation(name) for name in self.types)
        return f"types: {format_relation(self.relation)} {types}"


@dataclass(frozen=True, slots=True)
class QueryConstraints:
    """Constraints on the answers of one query, by the positions of its variables, from 0."""

    functional: tuple[tuple[tuple[int, ...], int], ...]
    """Determining positions, and the determined position."""
    types: tuple[str | None, ...]
    """The type of each position, or None."""


@checked_methods
@dataclass(frozen=True, slots=True)
class Constraints:
    """Constraints in the order in which they were written."""

    functional: tuple[FunctionalConstraint, ...] = ()
    types: tuple[TypeConstraint, ...] = ()

    def to_text(self) -> str:
        """Return the constraints as a file that `parse_constraints` reads."""
        return "".join(f"{line}\n" for line in (*self.functional, *self.types))

    def for_query(self, query: Query) -> QueryConstraints:
        """Return the constraints on a query's answers.

        These are the constraints of its relation, if the query is one atom, and those of its head. Nothing is known of
        an atom with a constant or a repeated variable.
        """
        functional: dict[tuple[tuple[int, ...], int], None] = {}
        types: list[str | None] = [None] * len(query.variables)
        for rule, positions in self.of_query(query):
            if isinstance(rule, FunctionalConstraint):
                functional[tuple(sorted(positions[i] for i in rule.determinants)), positions[rule.dependent]] = None
            else:
                for position, own in zip(positions, rule.types, strict=False):
                    types[position] = own or types[position]
        return QueryConstraints(tuple(functional), tuple(types))

    def of_query(self, query: Query) -> Iterator[tuple[FunctionalConstraint | TypeConstraint, tuple[int, ...]]]:
        """Yield the constraints on a query's answers, each with the query's position for each of its own positions."""
        for name, positions in _constraint_names(query):
            for rule in (rule for rule in self.functional if rule.relation == name):
                _check_arity(rule, 1 + max(*rule.determinants, rule.dependent), len(positions))
                yield rule, positions
            for typed in (typed for typed in self.types if typed.relation == name):
                _check_arity(typed, len(typed.types), len(positions))
                yield typed, positions


def _constraint_names(query: Query) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield the names of a query that can have constraints, with the query's position for each of theirs."""
    atom = atom_positions(query)
    if atom:
        yield atom
    if query.head and (atom is None or query.head != atom[0]):
        yield query.head, tuple(range(len(query.variables)))


def atom_positions(query: Query) -> tuple[str, tuple[int, ...]] | None:
    """The relation of a query that is one atom of distinct variables, with the query's position for each of its own."""
    match query.formula:
        case Atom(str(relation), terms) if len(set(terms)) == len(terms) == len(query.variables):
            return relation, tuple(query.variables.index(term) for term in terms if isinstance(term, Variable))
    return None


def _check_arity(rule: FunctionalConstraint | TypeConstraint, positions: int, arity: int) -> None:
    """Check the arity of a head, which was not known when its constraint was read."""
    if positions > arity:
        raise FormulaError(
            f"“{rule}” names {plural(positions, 'position')}, but the query has {plural(arity, 'variable')}",
            hint=f"if {format_relation(rule.relation)} is also a relation, give the query another head",
        )


def read_constraints(
    path: str | Path, schema: SchemaLike = None, *, query: Query | None = None, limits: Limits = DEFAULT_LIMITS
) -> Constraints:
    """Read the constraints of a file; see `parse_constraints`."""
    with open_input(path) as source:
        text = "".join(block.normalise_newlines().decode() for block in read_blocks(source, limits))
        return parse_constraints(text, schema, query=query, source=Path(source.name).name)


@checked
def parse_constraints(
    text: str, schema: SchemaLike = None, *, query: Query | None = None, source: str = "constraints"
) -> Constraints:
    """Parse constraints, one per line. With a schema or a knowledge base, names must be known.

    The head of `query` can be named too.
    """
    schema_of_kb = as_schema(schema)
    known = None if schema_of_kb is None else dict(schema_of_kb.relations)
    if known is not None and query is not None and query.head:
        known.setdefault(query.head, len(query.variables))
    functional: dict[FunctionalConstraint, None] = {}
    types: dict[str, TypeConstraint] = {}
    for number, line in enumerate(text.split("\n"), start=1):
        line_parser = _LineParser(source, number, strip_comment(line), known)
        if not line_parser.at_end():
            rule = line_parser.constraint()
            if isinstance(rule, FunctionalConstraint):
                functional[rule] = None
            elif types.setdefault(rule.relation, rule) != rule:
                line_parser.fail(f"{format_relation(rule.relation)} already has types: {types[rule.relation]}", 0)
    return Constraints(tuple(functional), tuple(types.values()))


@dataclass(slots=True)
class _LineParser:
    """Parser of one line."""

    source: str
    number: int
    text: str
    arities: Mapping[str, int] | None
    """Relation → arity; None to accept any name."""
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
        location = Location(self.source, self.number, start + 1, self.text, width)
        raise FormulaError(message, location=location, suggestions=suggestions, expected=expected, hint=hint)

    def at_end(self) -> bool:
        """Skip white space and return whether the line ends here."""
        match = _SPACE.match(self.text, self.offset)
        self.offset = match.end() if match else self.offset
        return self.offset == len(self.text)

    def accept(self, *signs: str) -> bool:
        """Skip one of some signs if it comes next. Return whether it does."""
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
            suggestions = similar_names(word, CONSTRAINT_KINDS) if word else ()
            self.fail(
                f"a constraint must begin with {' or '.join(CONSTRAINT_KINDS)}",
                start,
                self.offset,
                suggestions=suggestions,
            )
        if not self.accept(":"):
            self.fail(f"expected a colon after {word}", self.offset, self.offset + 1, expected=(":",))
        relation, span = self.name("a relation")
        if self.arities is not None and relation not in self.arities:
            suggestions = similar_names(relation, [*self.arities])
            self.fail(f"there is no relation {format_relation(relation)}", *span, suggestions=suggestions)
        rule = self.functional(relation) if word == "functional" else self.type_names(relation, span)
        if not self.at_end():
            self.fail("unexpected text after the constraint", self.offset, hint="write one constraint per line")
        return rule

    def name(self, what: str) -> tuple[str, tuple[int, int]]:
        self.at_end()
        match = _NAME.match(self.text, self.offset)
        if not match:
            self.fail(
                f"expected {what}",
                self.offset,
                self.offset + 1,
                hint="quote a name with other characters: 'has part'",
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
                "expected an arrow after the determining positions", self.offset, self.offset + 1, expected=("→", "->")
            )
        determined = self.position(relation)
        if self.accept(","):
            self.fail(
                "only one position can be determined", self.offset - 1, hint="write one line per determined position"
            )
        positions = [*determining, determined]
        repeated = next((position for position in positions if positions.count(position) > 1), None)
        if repeated is not None:
            self.fail(f"position {repeated + 1} is repeated", start, self.offset)
        return FunctionalConstraint(relation, tuple(sorted(determining)), determined)

    def position(self, relation: str) -> int:
        """Parse the number of a position; returned from 0."""
        self.at_end()
        match = _POSITION.match(self.text, self.offset)
        if not match:
            self.fail(
                "expected the number of a position", self.offset, self.offset + 1, hint="write: functional: r 1→2"
            )
        self.offset = match.end()
        arity = MAX_ARITY if self.arities is None else self.arities[relation]
        if len(match[0]) > 2 or not 1 <= int(match[0]) <= arity:  # never convert thousands of digits
            owner = "a relation has at most" if self.arities is None else f"{format_relation(relation)} has only"
            self.fail(f"{owner} {plural(arity, 'argument')}", *match.span(), hint="positions are numbered from 1")
        return int(match[0]) - 1

    def type_names(self, relation: str, span: tuple[int, int]) -> TypeConstraint:
        types = [self.type_name()]
        while self.accept(","):
            types.append(self.type_name())
        if not self.at_end():
            self.fail("expected a comma between two types", self.offset, expected=(",",))
        if self.arities is not None and self.arities[relation] != len(types):
            any_types = ", ".join("_" * self.arities[relation])
            self.fail(
                f"{format_relation(relation)} has {plural(self.arities[relation], 'argument')}, not {len(types)}",
                *span,
                hint=f"write a type or _ for each position: types: {format_relation(relation)} {any_types}",
            )
        return TypeConstraint(relation, tuple(types))

    def type_name(self) -> str | None:
        name, span = self.name("a type, or _")
        if name == "_" and self.text[slice(*span)] == "_":
            return None
        if self.arities is not None and self.arities.get(name) != 1:
            suggestions = similar_names(name, [other for other, arity in self.arities.items() if arity == 1])
            if name in self.arities:
                message = f"{format_relation(name)} has {self.arities[name]} arguments; a type is a unary relation"
            else:
                message = f"there is no type {format_relation(name)}"
            self.fail(message, *span, suggestions=suggestions)
        return name

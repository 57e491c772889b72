"""What is certain of a relation beyond its facts: that it is functional, and which types its places have.

>>> text = '''
... functional: born_in 1→2        # whoever is born, is born in one place
... types: born_in person, place
... '''
>>> found = parse_constraints(text, Vocabulary({"born_in": 2, "person": 1, "place": 1}))
>>> from gaifman.parser import parse_query
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

from gaifman.config import LIMITS, PLACES, Limits
from gaifman.errors import FormulaError, Place
from gaifman.facts import some
from gaifman.formulas import Atom, Variable
from gaifman.io.files import blocks, located
from gaifman.names import PATH, WORD, nearest, unquote
from gaifman.parser import Words
from gaifman.phi import uncommented
from gaifman.printing import relation_text
from gaifman.questions import Query
from gaifman.vocabulary import Vocabulary

KINDS = ("functional", "types")
"""What a line can begin with."""

_NAME = re.compile(rf"'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"|{PATH}|{WORD}")
_PLACE = re.compile(r"\d+", re.ASCII)
_SPACE = re.compile(r"\s*")


@dataclass(frozen=True, slots=True)
class Functional:
    """What stands at some places of a relation determines what stands at another."""

    relation: str
    determining: tuple[int, ...]
    """Places, from 0, ascending."""
    determined: int

    def __str__(self) -> str:
        places = ",".join(str(place + 1) for place in self.determining)
        return f"functional: {relation_text(self.relation)} {places}→{self.determined + 1}"


@dataclass(frozen=True, slots=True)
class Typed:
    """The types that the places of a relation have."""

    relation: str
    types: tuple[str | None, ...]
    """For each place a relation with one place, or None where nothing is said."""

    def __str__(self) -> str:
        types = ", ".join("_" if name is None else relation_text(name) for name in self.types)
        return f"types: {relation_text(self.relation)} {types}"


@dataclass(frozen=True, slots=True)
class Own:
    """What holds of the answers of one query, by the positions of its variables, from 0."""

    functional: tuple[tuple[tuple[int, ...], int], ...]
    """The positions that determine, and the position that they determine."""
    types: tuple[str | None, ...]
    """The type at each position, None where nothing is said."""


@dataclass(frozen=True, slots=True)
class Constraints:
    """Constraints in the order in which they were written."""

    functional: tuple[Functional, ...] = ()
    types: tuple[Typed, ...] = ()

    def text(self) -> str:
        """As a file: reading it gives the same."""
        return "".join(f"{line}\n" for line in (*self.functional, *self.types))

    def of(self, query: Query) -> Own:
        """What holds of a query's answers: the constraints of its relation where it is one atom, and of its head.

        An atom with a constant, or with one variable at two places, has answers of its own: nothing is known of them.
        """
        functional: dict[tuple[tuple[int, ...], int], None] = {}
        types: list[str | None] = [None] * len(query.free)
        for name, positions in _names(query):
            for rule in (rule for rule in self.functional if rule.relation == name):
                _check_width(rule, 1 + max(*rule.determining, rule.determined), len(positions))
                functional[tuple(sorted(positions[i] for i in rule.determining)), positions[rule.determined]] = None
            for typed in (typed for typed in self.types if typed.relation == name):
                _check_width(typed, len(typed.types), len(positions))
                for position, own in zip(positions, typed.types, strict=False):
                    types[position] = own or types[position]
        return Own(tuple(functional), tuple(types))


def _names(query: Query) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Names under which a query's constraints stand, and for each place of them the query's position."""
    match query.formula:
        case Atom(str(relation), terms) if len(set(terms)) == len(terms) == len(query.free):
            yield relation, tuple(query.free.index(term) for term in terms if isinstance(term, Variable))
        case _:
            relation = ""
    if query.head and query.head != relation:
        yield query.head, tuple(range(len(query.free)))


def _check_width(rule: Functional | Typed, places: int, width: int) -> None:
    """A head has as many places as variables; whether that fits was not known where its constraint was read."""
    if places > width:
        raise FormulaError(
            f"“{rule}” speaks of {some(places, 'place')}, and the query has {some(width, 'variable')}",
            hint=f"is {relation_text(rule.relation)} the name of something else, too? Give the head another",
        )


def read_constraints(
    path: str | Path, vocabulary: Words = None, *, query: Query | None = None, limits: Limits = LIMITS
) -> Constraints:
    """The constraints of a file; see `parse_constraints`."""
    with located(path) as source:
        text = "".join(block.plain().text() for block in blocks(source, limits))
        return parse_constraints(text, vocabulary, query=query, source=Path(source.name).name)


def parse_constraints(
    text: str, vocabulary: Words = None, *, query: Query | None = None, source: str = "constraints"
) -> Constraints:
    """The constraints of a text, one a line; with a vocabulary, or a knowledge base, its names must be known.

    The head of `query` can be named as well.
    """
    words = vocabulary if vocabulary is None or isinstance(vocabulary, Vocabulary) else vocabulary.vocabulary
    known = None if words is None else dict(words.relations)
    if known is not None and query is not None and query.head:
        known.setdefault(query.head, len(query.free))
    functional: dict[Functional, None] = {}
    types: dict[str, Typed] = {}
    for number, line in enumerate(text.split("\n"), start=1):
        reader = _Line(source, number, uncommented(line), known)
        if not reader.ended():
            rule = reader.constraint()
            if isinstance(rule, Functional):
                functional[rule] = None
            elif types.setdefault(rule.relation, rule) != rule:
                reader.fail(f"{relation_text(rule.relation)} has other types above: {types[rule.relation]}", 0)
    return Constraints(tuple(functional), tuple(types.values()))


@dataclass(slots=True)
class _Line:
    """One line, read from its begin to its end."""

    source: str
    number: int
    text: str
    known: Mapping[str, int] | None
    """Relation → places; None where any name will do."""
    at: int = 0

    def fail(
        self,
        message: str,
        start: int,
        end: int | None = None,
        *,
        near: tuple[str, ...] = (),
        expected: tuple[str, ...] = (),
        hint: str = "",
    ) -> NoReturn:
        width = max(1, (len(self.text.rstrip()) if end is None else end) - start)
        place = Place(self.source, self.number, start + 1, self.text, width)
        raise FormulaError(message, place=place, near=near, expected=expected, hint=hint)

    def ended(self) -> bool:
        """Whether nothing is left; what is, begins here."""
        match = _SPACE.match(self.text, self.at)
        self.at = match.end() if match else self.at
        return self.at == len(self.text)

    def accept(self, *signs: str) -> bool:
        """Go over one of some signs, if it stands here."""
        self.ended()
        for sign in signs:
            if self.text.startswith(sign, self.at):
                self.at += len(sign)
                return True
        return False

    def constraint(self) -> Functional | Typed:
        start = self.at
        kind = re.compile(r"\w*").match(self.text, start)
        word = kind[0] if kind else ""
        self.at += len(word)
        if word not in KINDS:
            near = nearest(word, KINDS) if word else ()
            self.fail(f"a constraint begins with {' or '.join(KINDS)}", start, self.at, near=near)
        if not self.accept(":"):
            self.fail(f"a colon follows {word}", self.at, self.at + 1, expected=(":",))
        relation, span = self.name("a relation")
        if self.known is not None and relation not in self.known:
            near = nearest(relation, [*self.known])
            self.fail(f"there is no relation {relation_text(relation)}", *span, near=near)
        found = self.functional(relation) if word == "functional" else self.types(relation, span)
        if not self.ended():
            self.fail("the constraint has ended before", self.at, hint="write one constraint a line")
        return found

    def name(self, what: str) -> tuple[str, tuple[int, int]]:
        self.ended()
        match = _NAME.match(self.text, self.at)
        if not match:
            self.fail(
                f"here should be {what}", self.at, self.at + 1, hint="a name with odd signs is quoted: 'has part'"
            )
        self.at = match.end()
        try:
            return unquote(match[0]) if match[0][0] in "'\"" else match[0], match.span()
        except ValueError as error:
            self.fail(str(error), *match.span())

    def functional(self, relation: str) -> Functional:
        self.ended()
        start = self.at
        determining = [self.place(relation)]
        while self.accept(","):
            determining.append(self.place(relation))
        if not self.accept("→", "->"):
            self.fail("no arrow stands after the places that determine", self.at, self.at + 1, expected=("→", "->"))
        determined = self.place(relation)
        if self.accept(","):
            self.fail("one place is determined", self.at - 1, hint="write a line for each place that is determined")
        places = [*determining, determined]
        twice = next((place for place in places if places.count(place) > 1), None)
        if twice is not None:
            self.fail(f"place {twice + 1} stands twice", start, self.at)
        return Functional(relation, tuple(sorted(determining)), determined)

    def place(self, relation: str) -> int:
        """The number of a place, from 0."""
        self.ended()
        match = _PLACE.match(self.text, self.at)
        if not match:
            self.fail("here should be the number of a place", self.at, self.at + 1, hint="write: functional: r 1→2")
        self.at = match.end()
        most = PLACES if self.known is None else self.known[relation]
        if len(match[0]) > 2 or not 1 <= int(match[0]) <= most:  # a number of thousands of digits is not even read
            whose = "a relation has at most" if self.known is None else f"{relation_text(relation)} has"
            self.fail(f"{whose} {some(most, 'place')}", *match.span(), hint="places are counted from 1")
        return int(match[0]) - 1

    def types(self, relation: str, span: tuple[int, int]) -> Typed:
        types = [self.type()]
        while self.accept(","):
            types.append(self.type())
        if not self.ended():
            self.fail("a comma stands between two types", self.at, expected=(",",))
        if self.known is not None and self.known[relation] != len(types):
            wanted = ", ".join("_" * self.known[relation])
            self.fail(
                f"{relation_text(relation)} has {some(self.known[relation], 'place')}, not {len(types)}",
                *span,
                hint=f"write a type or _ for each place: types: {relation_text(relation)} {wanted}",
            )
        return Typed(relation, tuple(types))

    def type(self) -> str | None:
        name, span = self.name("a type, or _")
        if name == "_" and self.text[slice(*span)] == "_":
            return None
        if self.known is not None and self.known.get(name) != 1:
            shown, near = relation_text(name), nearest(name, [n for n, places in self.known.items() if places == 1])
            if name in self.known:
                self.fail(f"{shown} has {self.known[name]} places: a type has one", *span, near=near)
            self.fail(f"there is no type {shown}", *span, near=near)
        return name

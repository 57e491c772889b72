"""Constraints on relations, and the conflicts of tuples with them.

They are declared, or found in the data (see `found_constraints`). Declared ones are text:

>>> from gaifman.logic.parser import parse_query
>>> from gaifman.logic.parser import Schema
>>> text = '''
... functional: born_in 1→2        # everyone is born in one place
... types: born_in person, place
... '''
>>> constraints = parse_constraints(text, Schema({"born_in": 2, "person": 1, "place": 1}))
>>> constraints.for_query(parse_query("q(where, who) :- born_in(who, where)"))
QueryConstraints(functional=(((1,), 0),), types=('place', 'person'))

One constraint per line; `#` starts a comment. `→` can be written `->`, and several positions can determine one
together: `1,2→3`. `inverse-functional: r` is `functional: r 2→1`. A type is a unary relation, or `_` for any.
`symmetric: r`, `asymmetric: r` and `irreflexive: r` are about both positions of a binary relation; of others, they name
two: `irreflexive: gave 1,2`.

>>> kb = KnowledgeBase.from_facts(
...     [("capital", "turkey", "ankara"), ("capital", "peru", "lima"), ("capital", "iran", "tehran")], objects=["izmir"]
... )
>>> declared = parse_constraints("functional: capital 1→2", kb)
>>> checker = ConstraintChecker(kb, parse_query("capital(x, y)"), declared)
>>> tuples = np.array([[kb.object_id("turkey"), kb.object_id("izmir")]], np.int32)
>>> [conflict] = checker.conflicts(tuples)
>>> print(conflict, conflict.evidence, conflict.factor, sep="; ")
conflicts with capital(turkey, ankara); holds for 3 of 3 known facts; 0.125

A tuple in conflict with a constraint is false wherever the constraint holds. The rate ρ = (broken + ½) / (known + 1) is
that of the known facts that break the constraint. If the conflicting fact is there only with a probability c, its
confidence, the factor is f = 1 − c + c · ρ.

- A declared constraint is news to the model: the probability p becomes f · p.
- A found constraint the model may have learned from the same facts. It says only that the answer is an exception, and
  its factor is that of a certain answer: the odds against the answer, 1/p − 1, grow by those against an exception,
  1/f − 1. What the model finds improbable already is hardly changed.

A tuple is scored as if it were not known: its own fact is neither its conflict nor among the known facts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any, NoReturn, Protocol

import numpy as np
import numpy.typing as npt

from gaifman.config import MAX_ARITY, Deadline, checked, checked_methods, no_deadline
from gaifman.errors import FormulaError, Location, plural, shorten, similar_names
from gaifman.io.files import read_text
from gaifman.kb.knowledge_base import Fact, KnowledgeBase, format_name
from gaifman.kb.labels import label_fact, label_names
from gaifman.kb.tables import Floats, Ints, Longs, freeze
from gaifman.logic.ast import PATH, WORD, Atom, Query, Variable, format_relation, unquote
from gaifman.logic.parser import SchemaLike, as_schema, strip_comment
from gaifman.queries.answers import answers as exact_answers
from gaifman.sampling.hiding import HiddenFacts
from gaifman.threads import ProcessLock, cached_property

PAIR_KINDS = ("symmetric", "asymmetric", "irreflexive")
"""Kinds of constraints on two positions."""
CONSTRAINT_KINDS = ("functional", "inverse-functional", "types", *PAIR_KINDS)
"""Words that begin a constraint."""

FOUND, NONE = "found", "none"
"""Instead of declared constraints: those found in the data, or none at all."""

_NAME = re.compile(rf"'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"|{PATH}|{WORD}")
_POSITION = re.compile(r"\d+", re.ASCII)
_SPACE = re.compile(r"\s*")
_KIND = re.compile(r"[\w-]*")


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
class PairConstraint:
    """A constraint on two positions of a relation."""

    relation: str
    kind: str
    """`symmetric`: with each fact, the one with both objects exchanged is true. `asymmetric`: it is false.
    `irreflexive`: both objects differ."""
    positions: tuple[int, int] = (0, 1)
    """Two positions, from 0, ascending."""
    arity: int = field(default=2, compare=False)
    """Positions of the relation; 3 if there may be more than two."""

    def __str__(self) -> str:
        first, second = self.positions
        at = "" if self.arity == 2 else f" {first + 1},{second + 1}"
        return f"{self.kind}: {format_relation(self.relation)}{at}"


Constraint = FunctionalConstraint | TypeConstraint | PairConstraint


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
    """Declared constraints, each kind in the order in which it was written."""

    functional: tuple[FunctionalConstraint, ...] = ()
    types: tuple[TypeConstraint, ...] = ()
    pairs: tuple[PairConstraint, ...] = ()
    find: bool = True
    """Whether constraints that are found in the data act, too."""

    @property
    def declared(self) -> tuple[Constraint, ...]:
        """All of them."""
        return (*self.functional, *self.types, *self.pairs)

    def to_text(self) -> str:
        """Return the constraints as a file that `parse_constraints` reads."""
        return "".join(f"{line}\n" for line in self.declared)

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
            elif isinstance(rule, TypeConstraint):
                for position, own in zip(positions, rule.types, strict=False):
                    types[position] = own or types[position]
        return QueryConstraints(tuple(functional), tuple(types))

    def of_query(self, query: Query) -> Iterator[tuple[Constraint, tuple[int, ...]]]:
        """Yield the constraints on a query's answers, each with the query's position for each of its own positions."""
        yield from constraints_of(query, self.declared)


def constraints_of(query: Query, constraints: Iterable[Constraint]) -> Iterator[tuple[Constraint, tuple[int, ...]]]:
    """Yield those on a query's answers, each with the query's position for each of its own positions."""
    constraints = tuple(constraints)
    for name, positions in _constraint_names(query):
        for rule in constraints:
            if rule.relation == name:
                _check_arity(rule, len(positions))
                yield rule, positions


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


def _check_arity(rule: Constraint, arity: int) -> None:
    """Check the arity of a head, which was not known when its constraint was read."""
    match rule:
        case FunctionalConstraint():
            positions = 1 + max(*rule.determinants, rule.dependent)
        case TypeConstraint():
            positions = len(rule.types)
        case PairConstraint():
            positions = 1 + rule.positions[1]
    if positions > arity:
        raise FormulaError(
            f"“{rule}” names {plural(positions, 'position')}, but the query has {plural(arity, 'variable')}",
            hint=f"if {format_relation(rule.relation)} is also a relation, give the query another head",
        )


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
    pairs: dict[PairConstraint, None] = {}
    for number, line in enumerate(text.split("\n"), start=1):
        line_parser = _LineParser(source, number, strip_comment(line), known)
        if not line_parser.at_end():
            rule = line_parser.constraint()
            if isinstance(rule, FunctionalConstraint):
                functional[rule] = None
            elif isinstance(rule, PairConstraint):
                pairs[rule] = None
            elif types.setdefault(rule.relation, rule) != rule:
                line_parser.fail(f"{format_relation(rule.relation)} already has types: {types[rule.relation]}", 0)
    return Constraints(tuple(functional), tuple(types.values()), tuple(pairs))


def as_constraints(
    given: Constraints | str | Path | None, schema: SchemaLike = None, query: Query | None = None
) -> Constraints:
    """What a user gives: constraints, a file of them, `found` (or None) for none but those found, or `none`."""
    if isinstance(given, Constraints):
        return given
    if given is None or given == FOUND:
        return Constraints()
    if given == NONE:
        return Constraints(find=False)
    if not isinstance(given, str | Path):
        raise FormulaError(
            f"constraints are a Constraints, a file, {FOUND!r} or {NONE!r}, not {shorten(repr(given))}",
            hint="gaifman.parse_constraints(text, kb) reads them from text",
        )
    return parse_constraints(read_text(given), schema, query=query, source=str(given))


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

    def constraint(self) -> Constraint:
        start = self.offset
        kind = _KIND.match(self.text, start)
        word = kind[0] if kind else ""
        self.offset += len(word)
        if word not in CONSTRAINT_KINDS:
            suggestions = similar_names(word, CONSTRAINT_KINDS) if word else ()
            self.fail(
                f"a constraint must begin with {', '.join(CONSTRAINT_KINDS[:-1])} or {CONSTRAINT_KINDS[-1]}",
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
        rule: Constraint
        match word:
            case "functional" if not self.at_end():
                rule = self.functional(relation)
            case "types":
                rule = self.type_names(relation, span)
            case "functional" | "inverse-functional":
                self.check_binary(relation, span, "functional: r 1,2→3")
                first, second = (0, 1) if word == "functional" else (1, 0)
                rule = FunctionalConstraint(relation, (first,), second)
            case _:
                rule = self.pair(relation, span, word)
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

    def check_binary(self, relation: str, span: tuple[int, int], instead: str) -> None:
        """Without named positions, a relation has two."""
        if self.arities is not None and self.arities[relation] != 2:
            message = f"{format_relation(relation)} has {plural(self.arities[relation], 'argument')}: name positions"
            self.fail(message, *span, hint=f"write: {instead}")

    def pair(self, relation: str, span: tuple[int, int], kind: str) -> PairConstraint:
        if self.at_end():
            self.check_binary(relation, span, f"{kind}: r 1,2")
            return PairConstraint(relation, kind)
        start = self.offset
        first = self.position(relation)
        if not self.accept(","):
            self.fail("expected a comma between two positions", self.offset, self.offset + 1, expected=(",",))
        second = self.position(relation)
        if first == second:
            self.fail(f"position {first + 1} is repeated", start, self.offset)
        arity = 3 if self.arities is None else self.arities[relation]
        return PairConstraint(relation, kind, (min(first, second), max(first, second)), arity)

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


# Conflicts

Bools = npt.NDArray[np.bool_]
MAX_CONFLICT_FACTS = 10
"""Facts that a conflict lists."""


@dataclass(frozen=True, slots=True)
class Conflict:
    """A constraint that makes a tuple improbable. Prints as its message."""

    constraint: str
    """The constraint, such as `functional: capital 1→2`."""
    message: str
    """What the tuple conflicts with, such as `conflicts with capital(turkey, ankara)`."""
    evidence: str
    """For how many known facts the constraint holds."""
    factor: float
    """The probability of a certain answer is multiplied by it."""
    facts: tuple[Fact, ...] = ()
    """The first known facts that the tuple conflicts with; none for types and repeated objects."""
    found: bool = False
    """Whether the constraint was found in the data, not declared."""

    def __str__(self) -> str:
        return self.message

    def as_dict(self) -> dict[str, Any]:
        """The conflict as JSON types."""
        return {
            "constraint": self.constraint,
            "message": self.message,
            "evidence": self.evidence,
            "found": self.found,
            "factor": self.factor,
            "facts": [fact.as_dict() for fact in self.facts],
        }


def lower(probability: float, conflict: Conflict) -> float:
    """The probability in view of a conflict.

    >>> declared, found = Conflict("", "", "", factor=0.01), Conflict("", "", "", factor=0.01, found=True)
    >>> [(round(lower(p, declared), 5), round(lower(p, found), 5)) for p in (0.9, 0.001)]
    [(0.009, 0.00999), (1e-05, 0.00091)]
    """
    return float(probability * _scale(np.array(probability), np.array(conflict.factor), conflict.found))


class Rule(Protocol):
    """A constraint on the tuples of one query in one knowledge base."""

    @property
    def text(self) -> str:
        """The constraint."""

    @property
    def positions(self) -> tuple[int, ...]:
        """The positions of the query that it is about."""

    @property
    def found(self) -> bool:
        """Whether it was found in the data, not declared."""

    @property
    def excludes(self) -> bool:
        """Whether tuples in conflict are not even proposed."""

    def certainty(self, tuples: Ints, hidden: HiddenFacts) -> Floats:
        """Shape (b,), float64: the probability that visible facts conflict with a tuple (b, arity); 0 for none."""

    def counts(self, tuples: Ints) -> tuple[Longs, Longs]:
        """Shapes (b,), int64: known tuples that break the constraint, and known tuples, without the tuple itself."""

    def rivals(self, tuples: Ints, hidden: HiddenFacts) -> Longs:
        """Shape (rivals,), int64: the rows of the known tuples that one tuple (1, arity) conflicts with."""

    def message(self, names: tuple[str, ...], rivals: tuple[Fact, ...]) -> str:
        """What a tuple of these objects conflicts with."""


# Known tuples


class KnownTuples:
    """The known answers of a query, sorted, with the facts that they are."""

    def __init__(self, kb: KnowledgeBase, query: Query, deadline: Deadline | None = None) -> None:
        self.kb, atom = kb, atom_positions(query)
        self._first_fact: int | None = None
        if atom:
            self.name, self._positions = atom
            tuples, self._first_fact = _relation_tuples(kb, *atom)
        else:
            self.name, self._positions = query.head or "q", tuple(range(len(query.variables)))
            tuples = exact_answers(kb, query, budget=(deadline or no_deadline()).limit_budget()).tuples
        ordered = atom is not None and atom[1] == tuple(range(len(atom[1])))  # facts are sorted
        self._order: Longs = np.arange(len(tuples)) if ordered else np.lexsort(tuples.T[::-1])
        """Shape (known,), int64: the fact, counted from the first of its relation, of each row."""
        self.tuples = freeze((tuples if ordered else tuples[self._order]).astype(np.int32, copy=False))
        """Shape (known, arity), int32, ascending."""

    def __len__(self) -> int:
        return len(self.tuples)

    @cached_property
    def presence(self) -> Floats:
        """Shape (known, 3), float64: see `_presence`."""
        confidence = np.ones(len(self)) if self._first_fact is None else self.kb.confidences_of(self.name)
        return _presence(confidence[self._order])

    def find(self, tuples: Ints) -> Longs:
        """Shape (b,), int64: the row of each tuple (b, arity), or −1."""
        return _find_rows(self.tuples, tuples)

    def rows_of_facts(self, facts: Longs) -> Longs:
        """Shape of `facts`, int64: the row of each fact by its id; −1 for facts of other relations."""
        rows = np.full(len(facts), -1, np.int64)
        if self._first_fact is not None:
            inside = (facts >= self._first_fact) & (facts < self._first_fact + len(self))
            rows[inside] = self._rows[facts[inside] - self._first_fact]
        return rows

    def fact_ids(self, rows: Longs) -> Longs:
        """Shape (facts,), int64: the ids of the facts of some rows; none if the rows are not single facts."""
        return np.zeros(0, np.int64) if self._first_fact is None else self._order[rows] + self._first_fact

    @cached_property
    def _rows(self) -> Longs:
        """The inverse of `_order`."""
        return np.argsort(self._order)

    def fact(self, row: int) -> Fact:
        """The fact of a row, or the answer in the form of one."""
        if self._first_fact is not None:
            return self.kb.fact_by_id(int(self._order[row]) + self._first_fact)
        return Fact(self.name, tuple(self.kb.object_name(number) for number in self.tuples[row].tolist()))

    def form(self, terms: tuple[str, ...]) -> str:
        """Terms at the positions of the query, as a fact of the relation."""
        return f"{format_relation(self.name)}({', '.join(terms[position] for position in self._positions)})"


def _relation_tuples(kb: KnowledgeBase, relation: str, positions: tuple[int, ...]) -> tuple[Ints, int]:
    """The facts of a relation with its positions in another order, and the id of the first."""
    own = kb.tuples(relation)
    tuples = own if positions == tuple(range(len(positions))) else own[:, np.argsort(positions)]
    number = kb.content.relations.find(relation)
    assert number is not None, "every relation of a query is in the schema"
    table = kb.fact_tables.get(own.shape[1])
    return tuples, 0 if table is None else kb.fact_offsets[own.shape[1]] + table.rows(number).start


def _presence(confidence: Floats) -> Floats:
    """Shape (facts, 3), float64: 1, whether a fact is certain, and the logarithm of its absence if it is not.

    Sums of rows give the probability that one of the facts is present.
    """
    certain = confidence >= 1
    absent = np.log1p(-np.where(certain, 0.0, confidence))
    return np.stack([np.ones(len(certain)), certain, absent], axis=1)


def _probability_of_any(sums: Floats) -> Floats:
    """Shape (b,), float64: the probability that one of the facts is present, from sums (b, 3) of `_presence`."""
    any_present = np.where(sums[:, 1] > 0.5, 1.0, -np.expm1(np.minimum(sums[:, 2], 0.0)))
    return np.asarray(np.where(sums[:, 0] > 0.5, any_present, 0.0))


def _find_rows(table: Ints, rows: Ints) -> Longs:
    """Shape (b,), int64: the index of each row (b, n) in a table of ascending rows, or −1."""
    from gaifman.kernels.collections import find_rows  # here: numba takes a quarter of a second to import

    found = np.full(len(rows), -1, np.int64)
    wanted = freeze(rows.astype(np.int32, copy=False))
    find_rows(freeze(table), np.zeros(len(rows), np.int64), np.full(len(rows), len(table)), wanted, found)
    return found


def _group_rows(rows: Ints) -> tuple[Ints, Longs]:
    """The distinct rows, ascending, and for each row the index of its equal."""
    order = np.lexsort(rows.T[::-1])
    ordered, first = rows[order], np.ones(len(rows), bool)
    first[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    numbers = np.empty(len(rows), np.int64)
    numbers[order] = np.cumsum(first) - 1
    return ordered[first], numbers


def _sum_by(numbers: Longs, values: Floats, groups: int) -> Floats:
    """Shape (groups + 1, columns), float64: sums of rows (n, columns); the last row is 0, for index −1."""
    columns = [np.bincount(numbers, column, groups + 1) for column in values.T]
    return np.stack(columns, axis=1).astype(np.float64)


def hide_nothing(count: int) -> HiddenFacts:
    """Hide no fact from any of some tuples."""
    return HiddenFacts(np.zeros(count + 1, np.int64), np.zeros(0, np.int64))


# Rules


class FunctionalRule:
    """The objects at some positions determine the object at another: no visible fact has another one there."""

    excludes = False

    def __init__(
        self, text: str, known: KnownTuples, determinants: tuple[int, ...], dependent: int, found: bool = False
    ) -> None:
        self.text, self._known, self.found = text, known, found
        self.positions = (*determinants, dependent)
        self._determinants = list(determinants)
        self._groups, self._group_of = _group_rows(known.tuples[:, self._determinants])
        self._pairs, self._pair_of = _group_rows(known.tuples[:, list(self.positions)])
        self._group_presence = _sum_by(self._group_of, known.presence, len(self._groups))
        self._pair_presence = _sum_by(self._pair_of, known.presence, len(self._pairs))
        self._by_group = np.argsort(self._group_of, kind="stable")
        self._starts = np.searchsorted(self._group_of[self._by_group], np.arange(len(self._groups) + 1))

    def _locate(self, tuples: Ints) -> tuple[Longs, Longs]:
        """For each tuple, its group of determining objects, and its pair of these and the determined one; −1 if new."""
        groups = _find_rows(self._groups, tuples[:, self._determinants])
        return groups, _find_rows(self._pairs, tuples[:, list(self.positions)])

    def certainty(self, tuples: Ints, hidden: HiddenFacts) -> Floats:
        """The probability that a visible fact has the determining objects and another determined one."""
        groups, pairs = self._locate(tuples)
        sums = self._group_presence[groups] - self._pair_presence[pairs]
        rows = self._known.rows_of_facts(hidden.facts)
        owners, rows = hidden.owners()[rows >= 0], rows[rows >= 0]
        rival = (self._group_of[rows] == groups[owners]) & (self._pair_of[rows] != pairs[owners])
        np.subtract.at(sums, owners[rival], self._known.presence[rows[rival]])
        return _probability_of_any(sums)

    def counts(self, tuples: Ints) -> tuple[Longs, Longs]:
        """A known tuple breaks the constraint if its group has several determined objects."""
        sizes, distinct, broken = self._group_sizes
        groups, pairs = self._locate(tuples)
        own = self._known.find(tuples) >= 0
        left = distinct[groups] - (self._pair_presence[pairs, 0] < 1.5)
        without_own = np.where(left > 1, sizes[groups] - 1, 0)
        changed = np.where(own, without_own - broken[groups], 0)
        return (broken.sum() + changed).astype(np.int64), len(self._known) - own.astype(np.int64)

    @cached_property
    def _group_sizes(self) -> tuple[Longs, Longs, Longs]:
        """For each group its tuples, its determined objects, and its tuples that break the constraint; a last 0."""
        sizes = self._group_presence[:, 0].astype(np.int64)
        first = np.unique(self._pair_of, return_index=True)[1]
        distinct = np.bincount(self._group_of[first], minlength=len(sizes))
        return sizes, distinct, np.where(distinct > 1, sizes, 0)

    def rivals(self, tuples: Ints, hidden: HiddenFacts) -> Longs:
        """The visible known tuples with another determined object."""
        groups, pairs = self._locate(tuples)
        group = int(groups[0])
        if group < 0:
            return np.zeros(0, np.int64)
        rows = self._by_group[self._starts[group] : self._starts[group + 1]]
        rows = rows[self._pair_of[rows] != pairs[0]]
        return np.asarray(rows[~np.isin(rows, self._known.rows_of_facts(hidden.facts))])

    def message(self, names: tuple[str, ...], rivals: tuple[Fact, ...]) -> str:
        """The first facts that it conflicts with."""
        return _conflicts_with(rivals[0])


def _conflicts_with(fact: Fact) -> str:
    return f"conflicts with {str(fact._replace(confidence=1.0)).removesuffix('.')}"


class AsymmetricRule:
    """With a visible fact, the one with the objects at two positions exchanged is false."""

    excludes = False

    def __init__(self, text: str, known: KnownTuples, first: int, second: int, found: bool = False) -> None:
        self.text, self._known, self.positions, self.found = text, known, (first, second), found

    def _exchange(self, tuples: Ints) -> tuple[Longs, Bools]:
        """For each tuple the row of the exchanged one, or −1, and whether that is another tuple."""
        first, second = self.positions
        exchanged = tuples.copy()
        exchanged[:, [first, second]] = tuples[:, [second, first]]
        return self._known.find(exchanged), np.asarray(tuples[:, first] != tuples[:, second])

    def certainty(self, tuples: Ints, hidden: HiddenFacts) -> Floats:
        """The probability that the exchanged tuple is a visible fact."""
        rows, differs = self._exchange(tuples)
        rows = np.where(differs, rows, -1)
        unseen, owners = self._known.rows_of_facts(hidden.facts), hidden.owners()
        rows[owners[(unseen >= 0) & (unseen == rows[owners])]] = -1
        found = np.zeros(len(tuples))
        found[rows >= 0] = _probability_of_any(self._known.presence[rows[rows >= 0]])
        return found

    def counts(self, tuples: Ints) -> tuple[Longs, Longs]:
        """A known tuple breaks the constraint if the exchanged one is known."""
        own = self._known.find(tuples) >= 0
        rows, differs = self._exchange(tuples)
        pairs = np.where(own & differs & (rows >= 0), 2, 0)
        return (self._broken - pairs).astype(np.int64), len(self._known) - own.astype(np.int64)

    @cached_property
    def _broken(self) -> int:
        rows, differs = self._exchange(self._known.tuples)
        return int((differs & (rows >= 0)).sum())

    def rivals(self, tuples: Ints, hidden: HiddenFacts) -> Longs:
        """The exchanged tuple, if it is a visible fact."""
        rows, differs = self._exchange(tuples)
        rows = rows[differs & (rows >= 0)]
        return np.asarray(rows[~np.isin(rows, self._known.rows_of_facts(hidden.facts))])

    def message(self, names: tuple[str, ...], rivals: tuple[Fact, ...]) -> str:
        """The fact that it conflicts with."""
        return _conflicts_with(rivals[0])


class TypeRule:
    """The type of a position: an object conflicts if it has types, but not this one."""

    def __init__(self, text: str, known: KnownTuples, position: int, type_name: str, found: bool = False) -> None:
        self.text, self.positions, self.type, self.found = text, (position,), type_name, found
        self.excludes = not found
        kb = known.kb
        table, number = kb.fact_tables[1], kb.content.relations.find(type_name)
        confidence = np.ones(len(table)) if table.confidence is None else table.confidence
        self._known, self._first_fact = known, kb.fact_offsets[1]
        self._objects, self._is_type = table.objects[:, 0], table.relation == number
        self._presence = _presence(confidence)
        self._has_type = np.zeros(len(kb.objects), bool)
        self._has_type[self._objects[self._is_type]] = True
        others = np.flatnonzero(~self._is_type)
        self._others = _sum_by(self._objects[others].astype(np.int64), self._presence[others], len(kb.objects))

    def certainty(self, tuples: Ints, hidden: HiddenFacts) -> Floats:
        """The probability that an object without the type has another type."""
        objects = tuples[:, self.positions[0]]
        typed, sums = self._has_type[objects], self._others[objects]
        rows, owners = hidden.facts - self._first_fact, hidden.owners()
        unary = (rows >= 0) & (rows < len(self._objects))
        rows, owners = rows[unary], owners[unary]
        own = self._objects[rows] == objects[owners]
        typed[owners[own & self._is_type[rows]]] = False
        other = own & ~self._is_type[rows]
        np.subtract.at(sums, owners[other], self._presence[rows[other]])
        return np.where(typed, 0.0, _probability_of_any(sums))

    def counts(self, tuples: Ints) -> tuple[Longs, Longs]:
        """A known tuple breaks the constraint if its object conflicts."""
        own = self._known.find(tuples)
        broken = np.append(self._broken, False)  # for index −1
        return self._broken.sum() - broken[own].astype(np.int64), len(self._known) - (own >= 0).astype(np.int64)

    @cached_property
    def _broken(self) -> Bools:
        """Shape (known,): the known tuples that conflict, each without its own fact."""
        facts = self._known.fact_ids(np.arange(len(self._known)))
        hidden = HiddenFacts.one_per_tuple(facts) if len(facts) else hide_nothing(len(self._known))
        return self.certainty(self._known.tuples, hidden) > 0

    def rivals(self, tuples: Ints, hidden: HiddenFacts) -> Longs:
        """No known tuple: the object itself conflicts."""
        return np.zeros(0, np.int64)

    def message(self, names: tuple[str, ...], rivals: tuple[Fact, ...]) -> str:
        """The object and the type."""
        return f"{format_name(names[self.positions[0]])} is not of type {format_relation(self.type)}"

    def allowed(self) -> Ints:
        """Shape (objects,), int32, ascending: the objects with the type or without any type."""
        return np.flatnonzero(self._has_type | (self._others[:-1, 0] < 0.5)).astype(np.int32)


class DistinctRule:
    """Two positions with different objects: as declared, or because no known tuple has the same object there."""

    excludes = True

    def __init__(self, text: str, known: KnownTuples, first: int, second: int, found: bool = False) -> None:
        self.text, self._known, self.positions, self.found = text, known, (first, second), found

    def certainty(self, tuples: Ints, hidden: HiddenFacts) -> Floats:
        """1 for a tuple with the same object twice; if that is not declared, only if no other known tuple has it."""
        same = self._repeated(tuples)
        if not same.any():
            return np.zeros(len(tuples))
        if not self.found:
            return same.astype(np.float64)
        broken, known = self.counts(tuples)
        return np.asarray(same & (broken == 0) & (known > 0), np.float64)

    def counts(self, tuples: Ints) -> tuple[Longs, Longs]:
        """A known tuple breaks the constraint if it has the same object twice."""
        own = self._known.find(tuples) >= 0
        return self._broken - (own & self._repeated(tuples)), len(self._known) - own.astype(np.int64)

    @cached_property
    def _broken(self) -> int:
        return int(self._repeated(self._known.tuples).sum())

    def _repeated(self, tuples: Ints) -> Bools:
        first, second = self.positions
        return np.asarray(tuples[:, first] == tuples[:, second])

    def rivals(self, tuples: Ints, hidden: HiddenFacts) -> Longs:
        """No known tuple: it conflicts with none of them."""
        return np.zeros(0, np.int64)

    def message(self, names: tuple[str, ...], rivals: tuple[Fact, ...]) -> str:
        """The form that no known fact has; if the constraint is declared, some may."""
        terms = tuple("x" if position in self.positions else "_" for position in range(len(names)))
        form = self._known.form(terms)
        return f"no known fact has the form {form}" if self.found else f"has the form {form}"


# All constraints of a query


@dataclass(frozen=True, slots=True)
class FoundConstraint:
    """A constraint with its evidence. Prints as both."""

    constraint: Constraint
    holds: int
    """Instances that keep it."""
    instances: int
    evidence: str
    """A phrase, such as `195 of 196 countries have one capital`."""

    def __str__(self) -> str:
        return f"{self.constraint} ({self.evidence})"

    def as_dict(self) -> dict[str, Any]:
        """The constraint as JSON types."""
        text = str(self.constraint)
        return {"constraint": text, "holds": self.holds, "instances": self.instances, "evidence": self.evidence}


def found_from_dict(fields: Mapping[str, Any]) -> FoundConstraint:
    """What `FoundConstraint.as_dict` returned."""
    [constraint] = parse_constraints(fields["constraint"]).declared
    return FoundConstraint(constraint, int(fields["holds"]), int(fields["instances"]), str(fields["evidence"]))


class ConstraintChecker:
    """Finds the conflicts of a query's tuples in one knowledge base. Threads can share it.

    The known tuples are read when the first tuples are checked.
    """

    def __init__(
        self, kb: KnowledgeBase, query: Query, declared: Constraints, found: Sequence[Constraint] = ()
    ) -> None:
        """`found` are constraints that were found in training facts; declared ones replace them."""
        self.kb, self.query, self._declared, self._found = kb, query, declared, tuple(found)
        self._known: KnownTuples | None = None
        self._rules: tuple[Rule, ...] | None = None
        self._lock = ProcessLock()

    def rules(self, deadline: Deadline | None = None) -> tuple[Rule, ...]:
        """The rules: declared ones first, then those found in the data."""
        with self._lock:
            if self._rules is None:
                self._rules = tuple(self._make_rules(deadline))
            return self._rules

    def _make_rules(self, deadline: Deadline | None) -> Iterator[Rule]:
        """Without a declared constraint only relations have rules: all answers of another query can take long."""
        declared = [*self._declared.of_query(self.query)]
        is_relation = atom_positions(self.query) is not None
        if not declared and not (is_relation and self._declared.find):
            return
        self._known = known = KnownTuples(self.kb, self.query, deadline)
        seen = set[object]()
        for rule, positions in declared:
            yield from self._rules_of(rule, positions, known, seen, found=False)
        if is_relation and self._declared.find:
            for rule, positions in constraints_of(self.query, self._found):
                yield from self._rules_of(rule, positions, known, seen, found=True)
            yield from self._distinct_rules(known, seen)

    def _rules_of(
        self, rule: Constraint, positions: tuple[int, ...], known: KnownTuples, seen: set[object], found: bool
    ) -> Iterator[Rule]:
        """The rules of one constraint that are not yet `seen`; a symmetric relation has no conflicts."""
        text = str(rule)
        match rule:
            case FunctionalConstraint():
                dependency = tuple(sorted(positions[i] for i in rule.determinants)), positions[rule.dependent]
                if _is_new(dependency, seen):
                    yield FunctionalRule(text, known, *dependency, found)
            case TypeConstraint():
                for position, name in zip(positions, rule.types, strict=False):
                    if name is None or (found and ("type", position) in seen):
                        continue
                    seen.add(("type", position))
                    if _is_new(("type", position, name), seen) and self._has_objects(name):
                        yield TypeRule(text, known, position, name, found)
            case PairConstraint(kind="asymmetric" | "irreflexive"):
                first, second = sorted(positions[i] for i in rule.positions)
                if _is_new((rule.kind, first, second), seen):
                    kind = AsymmetricRule if rule.kind == "asymmetric" else DistinctRule
                    yield kind(text, known, first, second, found)

    def _distinct_rules(self, known: KnownTuples, seen: set[object]) -> Iterator[Rule]:
        """That the objects at two positions differ, if no known fact repeats one there."""
        arity = len(self.query.variables)
        for first, second in combinations(range(arity), 2):
            if _is_new(("irreflexive", first, second), seen):
                text = str(PairConstraint(known.name, "irreflexive", (first, second), arity))
                yield DistinctRule(text, known, first, second, found=True)

    def _has_objects(self, type_name: str) -> bool:
        """Whether a type has objects. If the knowledge base does not use a type, no object provably lacks it."""
        relation = self.kb.relations.get(type_name)
        return relation is not None and relation.arity == 1 and relation.count > 0

    def factors(
        self, tuples: Ints, hidden: HiddenFacts, probabilities: Floats, deadline: Deadline | None = None
    ) -> Floats:
        """Shape (b,), float64: what probabilities (b,) of tuples (b, arity) are multiplied by; 1 without conflict."""
        factors = np.ones(len(tuples))
        for rule in self.rules(deadline):
            certainty = rule.certainty(tuples, hidden)
            at = np.flatnonzero(certainty)
            if len(at):
                own = _factors(certainty[at], *rule.counts(tuples[at]))
                factors[at] *= _scale(factors[at] * probabilities[at], own, rule.found)
        return factors

    def conflicts(self, tuples: Ints, hidden: HiddenFacts | None = None) -> tuple[Conflict, ...]:
        """The conflicts of one tuple (1, arity). One after the other lowers its probability as `factors` do."""
        hidden = hide_nothing(1) if hidden is None else hidden
        found = ((rule, rule.certainty(tuples, hidden)) for rule in self.rules())
        return tuple(self._conflict(rule, tuples, hidden, certainty) for rule, certainty in found if certainty[0] > 0)

    def _conflict(self, rule: Rule, tuples: Ints, hidden: HiddenFacts, certainty: Floats) -> Conflict:
        assert self._known is not None, "rules have known tuples"
        broken, known = rule.counts(tuples)
        rivals = rule.rivals(tuples, hidden)
        facts = tuple(self._known.fact(row) for row in rivals[:MAX_CONFLICT_FACTS].tolist())
        shown = tuple(label_fact(fact, self.kb.display) for fact in facts)
        names = label_names(map(self.kb.object_name, tuples[0].tolist()), self.kb.display)
        more = f" and {plural(len(rivals) - 1, 'more fact')}" if len(rivals) > 1 else ""
        return Conflict(
            rule.text,
            rule.message(names, shown) + more,
            f"holds for {int(known[0] - broken[0]):,} of {plural(int(known[0]), 'known fact')}",
            float(_factors(certainty, broken, known)[0]),
            facts,
            rule.found,
        )

    def conflicting_facts(self, tuples: Ints, hidden: HiddenFacts) -> Longs:
        """Shape (facts,), int64, ascending: the ids of all facts that one tuple (1, arity) conflicts with."""
        rows = [rule.rivals(tuples, hidden) for rule in self.rules()]
        if self._known is None:
            return np.zeros(0, np.int64)
        return np.unique(self._known.fact_ids(np.concatenate([np.zeros(0, np.int64), *rows])))

    def allowed_objects(self, deadline: Deadline | None = None) -> dict[int, tuple[str, Ints]]:
        """Position → its declared type, and the objects with that type or without any type (objects,), ascending."""
        typed = (rule for rule in self.rules(deadline) if isinstance(rule, TypeRule) and rule.excludes)
        return {rule.positions[0]: (rule.type, rule.allowed()) for rule in typed}


def _factors(certainty: Floats, broken: Longs, known: Longs) -> Floats:
    """Shape (b,), float64: 1 − c + c · ρ, where ρ is the smoothed rate of known tuples that break the constraint."""
    rate = (broken + 0.5) / (known + 1)
    return np.asarray(1 - certainty + certainty * rate)


def _scale(probabilities: Floats, factors: Floats, found: bool) -> Floats:
    """What probabilities are multiplied by, from the factors of conflicts: see the module."""
    return 1 / (1 + probabilities * (1 / factors - 1)) if found else factors


def _is_new(key: object, seen: set[object]) -> bool:
    """Whether a key is not in a set, to which it is added."""
    size = len(seen)
    seen.add(key)
    return len(seen) > size

"""Seeded random structures, formulas and texts, for tests that compare two ways to the same value."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from gaifman.logic.ast import (
    AGGREGATES,
    OPERATORS,
    Aggregate,
    And,
    Atom,
    Attribute,
    Comparison,
    Constant,
    Difference,
    Equal,
    Exists,
    Feature,
    Forall,
    Formula,
    Iff,
    Implies,
    Node,
    Not,
    Number,
    Or,
    Quantity,
    Query,
    RelationVariable,
    Term,
    Truth,
    Variable,
    free_variables,
    query_position,
    to_ascii,
    to_bracketed,
)
from gaifman.logic.parser import SPELLINGS, Schema, tokenise
from gaifman.logic.semantics import Element, Extension, Structure

RELATIONS = {"p": 1, "q": 1, "r": 2, "has part": 2, "/film/cast": 2, "t": 3, "f": 4}
ATTRIBUTES = ("age", "net worth")
OBJECTS = ("ann", "it's", "/m/01", "7", "naïve\n")
VOCABULARY = Schema(RELATIONS, ATTRIBUTES, OBJECTS)


@dataclass
class Generator:
    """Random trees over the names above; some kinds can be disabled."""

    rng: random.Random
    constants: bool = True
    numbers: bool = True
    second_order: bool = True
    relations: dict[str, int] = field(default_factory=lambda: dict(RELATIONS))

    def structure(self, size: int | None = None, density: float = 0.3) -> Structure:
        """A random structure over the first objects."""
        objects = OBJECTS[: self.rng.randint(1, 4) if size is None else size]
        return Structure(
            frozenset(objects),
            {name: Extension(arity, self.tuples(objects, arity, density)) for name, arity in self.relations.items()},
            {name: self.numbers_of(objects) for name in ATTRIBUTES},
        )

    def numbers_of(self, objects: tuple[str, ...]) -> dict[Element, float]:
        """Numbers for some of the objects."""
        return {name: float(self.rng.randint(-2, 3)) for name in objects if self.rng.random() < 0.7}

    def tuples(self, objects: tuple[str, ...], arity: int, density: float) -> frozenset[tuple[Element, ...]]:
        """About `density` times as many random tuples as there are objects, squared."""
        count = round(density * len(objects) ** 2 * self.rng.random() * 2)
        return frozenset(tuple(self.rng.choices(objects, k=arity)) for _ in range(count))

    def term(self, variables: tuple[str, ...]) -> Term:
        """A variable or a constant."""
        if self.constants and self.rng.random() < 0.15:
            return Constant(self.rng.choice(OBJECTS))
        return Variable(self.rng.choice(variables))

    def atom(self, variables: tuple[str, ...]) -> Formula:
        """An atom, an equality, a comparison or a truth value."""
        kind = self.rng.random()
        if kind < 0.05:
            return Truth(self.rng.random() < 0.5)
        if kind < 0.15:
            return Equal(self.term(variables), self.term(variables))
        if kind < 0.25 and self.numbers:
            attribute = self.attribute(variables)
            other: Quantity = self.attribute(variables) if self.rng.random() < 0.3 else self.number()
            sides = (attribute, other) if self.rng.random() < 0.7 else (other, attribute)
            return Comparison(sides[0], self.rng.choice(OPERATORS), sides[1])
        name, arity = self.rng.choice(sorted(self.relations.items()))
        return Atom(name, tuple(self.term(variables) for _ in range(arity)))

    def number(self) -> Number:
        """A small number, or an odd one."""
        return Number(self.rng.choice([-1.5, 0.0, 1.0, 2.0, 1e-7, 1e300, -3.0]))

    def attribute(self, variables: tuple[str, ...]) -> Attribute:
        """A number of an object."""
        return Attribute(self.rng.choice(ATTRIBUTES), self.term(variables))

    def formula(self, variables: tuple[str, ...] = ("x", "y"), depth: int = 3) -> Formula:
        """A formula whose free variables are among these."""
        if depth <= 1 or self.rng.random() < 0.15:
            return self.atom(variables)
        match self.rng.randint(0, 8):
            case 0:
                return Not(self.formula(variables, depth - 1))
            case 1 | 2:
                return And(self.parts(variables, depth))
            case 3:
                return Or(self.parts(variables, depth))
            case 4:
                return Implies(self.formula(variables, depth - 1), self.formula(variables, depth - 1))
            case 5:
                return Iff(self.formula(variables, depth - 1), self.formula(variables, depth - 1))
            case 6 if self.second_order:
                return self.over_relations(variables, depth)
        make = self.quantifier()
        bound = tuple(self.rng.sample(["x", "y", "z", "u"], self.rng.randint(1, 2)))
        return make(tuple(map(Variable, bound)), self.formula((*variables, *bound), depth - 1))

    def quantifier(self) -> type[Exists] | type[Forall]:
        """∃ or ∀."""
        return Exists if self.rng.random() < 0.5 else Forall

    def parts(self, variables: tuple[str, ...], depth: int) -> tuple[Formula, ...]:
        """Two or three formulas."""
        return tuple(self.formula(variables, depth - 1) for _ in range(self.rng.randint(2, 3)))

    def over_relations(self, variables: tuple[str, ...], depth: int) -> Formula:
        """A quantifier over relations of two places."""
        make, relation = self.quantifier(), RelationVariable("rel")
        atom = Atom(relation, (self.term(variables), self.term(variables)))
        body = And((atom, self.formula(variables, depth - 1))) if depth > 2 else atom
        return make((relation,), body)

    def query(self, depth: int = 3) -> Query:
        """A query with or without a head."""
        formula = self.formula(("x", "y"), depth)
        variables = free_variables(formula)
        if not variables or self.rng.random() < 0.5:
            return Query(variables, formula)
        return Query(tuple(self.rng.sample(variables, len(variables))), formula, self.rng.choice(["h", "has part"]))

    def feature(self, depth: int = 3) -> Feature:
        """A feature of any kind for two query variables."""
        variables = ("s1", "s2", "x")
        kind = self.rng.random()
        if kind < 0.4:
            return Feature(self.formula(variables, depth))
        if kind < 0.5:
            return Feature(self.measure())
        if kind < 0.6:
            return Feature(Difference(self.measure(), self.measure()))
        if kind < 0.8:
            return Feature(self.aggregate(variables, depth))
        relation = RelationVariable("rel")
        atom = Atom(relation, tuple(self.term(variables) for _ in range(2)))
        return Feature(And((atom, self.formula(variables, depth - 1))), (relation,))

    def measure(self) -> Attribute | Aggregate:
        """A number of a query variable, or an aggregate."""
        if self.rng.random() < 0.5:
            return Attribute(self.rng.choice(ATTRIBUTES), Variable(self.rng.choice(["s1", "s2"])))
        return self.aggregate(("s1", "x"), 2)

    def aggregate(self, variables: tuple[str, ...], depth: int) -> Aggregate:
        """A count, or another aggregate of a number."""
        kind = self.rng.choice(AGGREGATES)
        bare = kind == "count" and self.rng.random() < 0.5
        return Aggregate(kind, None if bare else self.attribute(variables), self.formula(variables, depth))


def over_seeds(count: int, blocks: int = 4) -> Callable[[Callable[[int], None]], Callable[[int], None]]:
    """Run a test for `count` seeds, in a few blocks that can run in parallel."""

    def wrap(test: Callable[[int], None]) -> Callable[[int], None]:
        def run(block: int) -> None:
            for seed in range(block, count, blocks):
                test(seed)

        run.__doc__ = test.__doc__
        marked: Callable[[int], None] = pytest.mark.parametrize("block", range(blocks))(run)
        return marked

    return wrap


def assignment(rng: random.Random, structure: Structure, node: Node) -> dict[Variable, Element]:
    """Random objects for the free variables of a query."""
    objects = sorted(map(str, structure.domain))
    return {v: rng.choice(objects) for v in free_variables(node) if not query_position(v)}


def respell(rng: random.Random, text: str) -> str:
    """The same tokens with other spellings of the signs and other white space."""
    written: list[str] = []
    for token in tokenise(text):
        spelling = rng.choice(SPELLINGS.get(token.kind, (token.text,)))
        if token.kind in ("∃", "∀") and written and written[-1][-1:].isalnum():
            written.append(" ")
        written.append(spelling + rng.choice([" ", " ", "  ", "\n", "\t"]))
    return "".join(written)


def texts(seed: int, count: int) -> list[str]:
    """Grammatical texts, and mutated ones, half and half."""
    rng = random.Random(seed)
    generator = Generator(rng)
    return [_mutate(rng, text) if i % 2 else text for i in range(count) for text in [_text(rng, generator)]]


def _text(rng: random.Random, generator: Generator) -> str:
    depth = rng.randint(1, 5)
    makers: list[Callable[[], Node]] = [
        lambda: generator.formula(depth=depth),
        lambda: generator.query(depth),
        lambda: generator.feature(depth),
    ]
    writers: list[Callable[[Node], str]] = [str, to_ascii, to_bracketed]
    text = rng.choice(writers)(rng.choice(makers)())
    return respell(rng, text) if rng.random() < 0.5 else text


STRAYS = [*SPELLINGS, *"()[]{}.,:;?'\"\\/_-+*@#\0\u202e\ud800é∄", "each ", "for ", "s1", ":-", "&&", "0", "\n", " "]
STRAYS += ["½", "⒈", "ﷺ", "²", "₁", "ｎｏｔ", "x₂", "∃₁ ₁(x)", "\\q"]


def _mutate(rng: random.Random, text: str) -> str:
    """One to four small changes anywhere: cut, double, swap or put in."""
    for _ in range(rng.randint(1, 4)):
        start = rng.randint(0, len(text))
        end = min(len(text), start + rng.randint(0, 6))
        match rng.randint(0, 3):
            case 0:
                text = text[:start] + text[end:]
            case 1:
                text = text[:end] + text[start:]
            case 2:
                text = text[:start] + rng.choice(STRAYS) + text[start:]
            case _:
                text = text[:start] + text[start:end][::-1] + text[end:]
    return text

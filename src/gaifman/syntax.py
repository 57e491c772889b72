"""The grammar of formulas, by precedence climbing.

Our own and not a generated parser: `exists r. r(s1, s2)` becomes second order by how `r` is used later, `population(x)`
an attribute by the sign after it, each usual mistake has its own message, and the limits hold while reading. An
independent grammar in the tests accepts exactly the same texts.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from gaifman.config import MAX_ARITY
from gaifman.errors import LimitError, Location
from gaifman.formulas import (
    OPERATORS,
    And,
    Atom,
    Attribute,
    Comparison,
    Constant,
    Equal,
    Exists,
    Forall,
    Formula,
    Iff,
    Implies,
    Not,
    Number,
    Or,
    Quantity,
    RelationVariable,
    Span,
    Term,
    Truth,
    Variable,
)
from gaifman.names import KEYWORDS, fold_subscripts
from gaifman.questions import query_position
from gaifman.tokens import Token, TokenStream

NAME_KINDS = ("word", "path", "quoted")
PRECEDENCE = {"↔": 1, "→": 2, "∨": 3, "∧": 4}


@dataclass(slots=True)
class BoundVariable:
    """A variable that a quantifier binds: whether it stands for objects or relations shows in its first use."""

    span: Span
    arity: int | None = None
    """None: not used yet; 0: an object; else a relation of so many places."""


@dataclass(slots=True)
class FormulaParser(TokenStream):
    """A cursor that reads formulas."""

    depth: int = 0
    variables: set[str] = field(default_factory=set)
    scopes: list[dict[str, BoundVariable]] = field(default_factory=list)
    in_rule: bool = False
    """In the body of a rule a comma is ∧."""
    in_feature: bool = False
    """In a feature s1, s2 … are given."""

    @contextmanager
    def nested(self) -> Iterator[None]:
        self.depth += 1
        if self.depth > self.limits.depth:
            place = Location.from_offset(self.source, self.text, self.token.start)
            raise LimitError(
                f"the {self.source} is nested deeper than {self.limits.depth}, which is the limit",
                location=place,
            )
        yield
        self.depth -= 1

    # Formulas, by precedence climbing: ↔ and → group to the right, ∨ and ∧ take any number of parts

    def formula(self, min_precedence: int = 1) -> Formula:
        with self.nested():
            left = self.unary()
            while (sign := self.connective()) and PRECEDENCE[sign] >= min_precedence:
                left = self.connected(left, sign)
        return left

    def connective(self) -> str:
        if self.token.kind == "," and self.in_rule:
            return "∧"
        return self.token.kind if self.token.kind in PRECEDENCE else ""

    def connected(self, left: Formula, connective_symbol: str) -> Formula:
        self.advance()
        if connective_symbol == "↔":
            return Iff(left, self.formula(1))
        if connective_symbol == "→":
            return Implies(left, self.formula(2))
        parts = [left, self.formula(PRECEDENCE[connective_symbol] + 1)]
        while self.connective() == connective_symbol:
            self.advance()
            parts.append(self.formula(PRECEDENCE[connective_symbol] + 1))
        return And(tuple(parts)) if connective_symbol == "∧" else Or(tuple(parts))

    def unary(self) -> Formula:
        if self.accept("¬"):
            with self.nested():
                return Not(self.unary())
        if self.token.kind in ("∃", "∀"):
            return self.quantified()
        if self.accept("("):
            inside = self.formula()
            self.expect(")", *PRECEDENCE)
            return inside
        if truth := self.accept("true", "false"):
            return Truth(truth.kind == "true")
        return self.atomic()

    def quantified(self) -> Formula:
        make = Exists if self.advance().kind == "∃" else Forall
        scope = self.bind()
        self.scopes.append(scope)
        body = self.formula()
        self.scopes.pop()
        return make(tuple(_make_variable(name, bound) for name, bound in scope.items()), body)

    def bind(self) -> dict[str, BoundVariable]:
        """The variables after a quantifier or `each`, up to the dot if there is one."""
        scope: dict[str, BoundVariable] = {}
        while True:
            token = self.expect("word", "variable", description="a variable")
            name = self.variable_name(token)
            if name in scope:
                raise self.error(f"{name} is bound twice by one quantifier", token)
            if self.in_feature and query_position(Variable(name)):
                raise self.error(
                    f"{name} is given by the query and cannot be bound here",
                    token,
                    hint="name the variable otherwise",
                )
            scope[name] = BoundVariable(token.span)
            if not self.accept(","):
                break
        if self.token.kind == "word" and self.next_token.kind in (".", ":", ",", "word"):
            raise self.error("a comma is missing between two variables", self.token, hint="write: exists x, y. …")
        self.accept(".", ":")
        return scope

    # Atoms, equalities, comparisons

    def atomic(self) -> Formula:
        first = self.token
        written = self.operand()
        if isinstance(written, Atom) and self.token.kind not in OPERATORS:
            return self.relation_atom(written, first)
        left = self.attribute(written, first) if isinstance(written, Atom) else written
        operator = self.comparison_sign(first)
        second = self.token
        written = self.operand()
        right = self.attribute(written, second) if isinstance(written, Atom) else written
        if isinstance(left, Variable | Constant) and isinstance(right, Variable | Constant) and operator in ("=", "≠"):
            return Equal(left, right) if operator == "=" else Not(Equal(left, right))
        return Comparison(self.quantity(left, first), operator, self.quantity(right, second))

    def operand(self) -> Atom | Term | Number:
        """A term, a number, or a name with terms in brackets: a relation or, before a sign, an attribute."""
        if self.token.kind in NAME_KINDS and self.next_token.kind == "(":
            token = self.advance()
            terms = self.terms()
            return Atom(token.name, terms, span=token.span)
        if minus := self.accept("-"):
            return self.number(self.expect("path", description="a number"), minus)
        return self.term("a relation", "a term", "(", "¬", "∃", "∀")

    def terms(self) -> tuple[Term, ...]:
        self.expect("(")
        terms = [self.term("a variable", "an object")]
        while self.expect(",", ")").kind == ",":
            terms.append(self.term("a variable", "an object"))
        if len(terms) > MAX_ARITY:
            raise self.error(
                f"a relation has at most {MAX_ARITY} places, not {len(terms)}", self.tokens[self.position - 1]
            )
        return tuple(terms)

    def term(self, *expected: str) -> Term:
        token = self.token
        if token.kind not in ("word", "variable", "quoted", "path"):
            raise self.unexpected(*expected)
        self.advance()
        if token.kind in ("quoted", "path"):
            return Constant(token.name, span=token.span)
        name = self.variable_name(token)
        if bound := self.find_bound(name):
            if bound.arity:
                raise self.error(f"{name} stands for a relation, and for an object here", token)
            bound.arity = 0
        return Variable(name, span=token.span)

    def variable_name(self, token: Token) -> str:
        """Folded, so that s₁ is s1."""
        name = fold_subscripts(token.name)
        self.variables.add(name)
        if len(self.variables) > self.limits.variables:
            place = Location.from_offset(self.source, self.text, token.start, len(token.text))
            raise LimitError(f"the {self.source} has more than {self.limits.variables} variables", location=place)
        return name

    def find_bound(self, name: str) -> BoundVariable | None:
        return next((scope[name] for scope in reversed(self.scopes) if name in scope), None)

    def relation_atom(self, atom: Atom, token: Token) -> Atom:
        """The atom itself, or one with a relation variable where a quantifier binds the name."""
        name = atom.relation_name
        bound = self.find_bound(fold_subscripts(name)) if token.kind == "word" else None
        if bound is None:
            return atom
        if bound.arity == 0:
            raise self.error(f"{name} stands for an object, and for a relation here", token)
        if bound.arity not in (None, len(atom.terms)):
            raise self.error(f"{name} has another number of places here than above", token)
        bound.arity = len(atom.terms)
        variable = RelationVariable(fold_subscripts(name), span=token.span)
        return Atom(variable, atom.terms, span=token.span)

    def comparison_sign(self, first: Token) -> str:
        if self.token.kind in OPERATORS:
            return self.advance().kind
        if first.kind == "word" and first.text.lower() in KEYWORDS:
            raise self.error(
                f"unexpected {first.display}",
                first,
                hint=f"words of the language are lower case: {first.text.lower()}",
            )
        raise self.error(
            f"{first.display} alone is no formula",
            first,
            hint="write a relation with its objects, borders(x, y), or compare: x = y",
        )

    def attribute(self, atom: Atom, token: Token) -> Attribute:
        if len(atom.terms) != 1:
            raise self.error(
                f"{token.display} is a number here, so it takes one object, not {len(atom.terms)}",
                token,
            )
        return Attribute(token.name, atom.terms[0], span=token.span)

    def quantity(self, side: Quantity | Term, token: Token) -> Quantity:
        if isinstance(side, Number | Attribute):
            return side
        if token.kind == "path":
            return self.number(token)
        raise self.error(
            f"{token.display} is no number",
            token,
            hint="compare attributes and numbers: population(x) > 1000000",
        )

    def number(self, token: Token, minus: Token | None = None) -> Number:
        try:
            value = float(token.text)
        except ValueError:
            value = float("inf")
        if value == float("inf"):
            raise self.error(f"{token.display} is no number", token)
        return Number(-value if minus else value, span=(minus or token).span)


def _make_variable(name: str, bound: BoundVariable) -> Variable | RelationVariable:
    return RelationVariable(name, span=bound.span) if bound.arity else Variable(name, span=bound.span)

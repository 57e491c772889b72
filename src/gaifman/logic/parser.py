"""The grammar of formulas, by precedence climbing.

Our own and not a generated parser: `exists r. r(s1, s2)` becomes second order by how `r` is used later, `population(x)`
an attribute by the sign after it, each usual mistake has its own message, and the limits hold while reading. An
independent grammar in the tests accepts exactly the same texts.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from gaifman.config import DEFAULT_LIMITS, MAX_ARITY, Limits
from gaifman.errors import LimitError, Location, similar_names
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
    FeatureBody,
    Forall,
    Formula,
    Iff,
    Implies,
    Not,
    Number,
    Or,
    Quantity,
    Query,
    RelationVariable,
    Span,
    Term,
    Truth,
    Variable,
    free_variables,
    query_position,
)
from gaifman.logic.names import KEYWORDS, fold_subscripts
from gaifman.logic.schema import Schema
from gaifman.logic.tokens import Token, TokenStream

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


class HasSchema(Protocol):
    """What has a vocabulary: a knowledge base."""

    @property
    def schema(self) -> Schema:
        """What formulas may speak of."""


SchemaLike = Schema | HasSchema | None
"""Where names are looked up: a vocabulary, a knowledge base, or nowhere."""


def parse(text: str, schema: SchemaLike = None, *, limits: Limits = DEFAULT_LIMITS, source: str = "formula") -> Formula:
    """The formula that `text` writes; with a vocabulary, its names must be known."""
    parser = _Parser(text, limits, source)
    formula = parser.formula()
    parser.finish()
    if words := _schema_of(schema):
        words.check(formula, text, source=source, undeclared=free_variables(formula))
    return formula


def parse_query(
    text: str, schema: SchemaLike = None, *, limits: Limits = DEFAULT_LIMITS, source: str = "query"
) -> Query:
    """The query that `text` writes, with or without a head."""
    parser = _Parser(text, limits, source)
    query = parser.query()
    if words := _schema_of(schema):
        words.check(query, text, source=source, undeclared=parser.undeclared)
    return query


def parse_feature(
    text: str,
    schema: SchemaLike = None,
    *,
    limits: Limits = DEFAULT_LIMITS,
    source: str = "feature",
    allow_unknown_objects: bool = False,
) -> Feature:
    """The feature that `text` writes; `unknown_objects` allows constants that the vocabulary does not have."""
    parser = _Parser(text, limits, source)
    feature = parser.feature()
    if words := _schema_of(schema):
        feature = words.resolve_attribute(feature)
        undeclared = tuple(variable for variable in free_variables(feature) if not query_position(variable))
        words.check(feature, text, source=source, undeclared=undeclared, allow_unknown_objects=allow_unknown_objects)
    parser.check_attribute_terms(feature.body)
    return feature


def _schema_of(schema: SchemaLike) -> Schema | None:
    return schema if schema is None or isinstance(schema, Schema) else schema.schema


@dataclass(slots=True)
class _Parser(FormulaParser):
    undeclared: tuple[Variable, ...] = ()
    """Variables of a query that its head does not name."""

    def finish(self) -> None:
        self.accept(".")
        if self.token.kind != "end":
            raise self.unexpected(*PRECEDENCE, "the end")

    def query(self) -> Query:
        head, variables = self.head() if any(t.kind == ":-" for t in self.tokens) else ("", ())
        body = self.formula()
        self.finish()
        if not head:
            self.undeclared = free_variables(body)
            return Query(free_variables(body), body)
        inside = free_variables(body)
        for variable in variables:
            if variable not in inside:
                near = similar_names(variable.name, [v.name for v in inside])
                raise self.error(
                    f"the variable {variable} of the head is not in the body", variable.span, suggestions=near
                )
        self.undeclared = others = tuple(v for v in inside if v not in variables)
        return Query(variables, Exists(others, body) if others else body, head)

    def head(self) -> tuple[str, tuple[Variable, ...]]:
        name = self.expect(*NAME_KINDS, description="a relation")
        terms = self.terms()
        self.expect(":-")
        variables: list[Variable] = []
        for term in terms:
            if not isinstance(term, Variable):
                raise self.error("the head takes variables only", term.span, hint="put objects in the body: x = 'ada'")
            if term in variables:
                raise self.error(f"the variable {term} is twice in the head", term.span)
            variables.append(term)
        self.in_rule = True
        return name.name, tuple(variables)

    def feature(self) -> Feature:
        self.in_feature = True
        each: dict[str, BoundVariable] = {}
        if self.accept("each"):
            each = self.bind()
            self.scopes.append(each)
        body: Formula | Aggregate | Attribute | Difference = self.aggregate_or_formula()
        if isinstance(body, Aggregate | Attribute) and self.accept("-"):
            body = Difference(body, self.subtrahend())
        self.finish()
        for name, bound in each.items():
            if not bound.arity:
                raise self.error(
                    f"{name} is no relation in this feature", bound.span, hint=f"use it as one: {name}(s1, x)"
                )
        return Feature(body, tuple(RelationVariable(name, span=b.span) for name, b in each.items()))

    def aggregate_or_formula(self) -> Formula | Aggregate | Attribute:
        if self.token.kind in AGGREGATES:
            return self.aggregate()
        if self.at_attribute("-"):
            return self.attribute_term()
        return self.formula()

    def subtrahend(self) -> Aggregate | Attribute:
        return self.aggregate() if self.token.kind in AGGREGATES else self.attribute_term()

    def aggregate(self) -> Aggregate:
        kind = self.advance()
        quantity = None
        if self.at_attribute("for"):
            quantity = self.attribute_term()
            self.advance()
        elif kind.kind != "count":
            raise self.error(
                f"{kind.kind} needs an attribute",
                kind,
                hint=f"write: {kind.kind} population(x) for borders(s1, x)",
            )
        return Aggregate(kind.kind, quantity, self.formula())

    def at_attribute(self, after: str) -> bool:
        """Whether a name with terms in brackets stands here, and `after` behind it."""
        if self.token.kind not in NAME_KINDS or self.next_token.kind != "(":
            return False
        closing = next(
            (i for i in range(self.position, len(self.tokens)) if self.tokens[i].kind in (")", "end")), self.position
        )
        return self.tokens[min(closing + 1, len(self.tokens) - 1)].kind == after

    def check_attribute_terms(self, body: FeatureBody) -> None:
        """A number alone is one of s1, s2 … or of an object: another variable would have nothing to stand for."""
        for side in (body.left, body.right) if isinstance(body, Difference) else (body,):
            if isinstance(side, Attribute) and isinstance(side.term, Variable) and not query_position(side.term):
                hint = (
                    f"write {side.name}(s1), or an aggregate: sum {side.name}({side.term}) for borders(s1, {side.term})"
                )
                raise self.error(f"{side.term} stands for no object here", side.term.span, hint=hint)

    def attribute_term(self) -> Attribute:
        if self.token.kind not in NAME_KINDS or self.next_token.kind != "(":
            raise self.unexpected("an attribute", *AGGREGATES)
        token = self.advance()
        return self.attribute(Atom(token.name, self.terms()), token)

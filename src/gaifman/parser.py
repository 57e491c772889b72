"""Text into formulas, queries and features.

>>> print(parse("exists x. r(s1, x) & r(x, s2)"))
∃x r(s1, x) ∧ r(x, s2)
>>> query = parse_query("grandparent(x, y) :- parent(x, z), parent(z, y).")
>>> print(query)
grandparent(x, y) :- ∃z parent(x, z) ∧ parent(z, y)
>>> parse("parent(x, y")
Traceback (most recent call last):
gaifman.errors.FormulaError: formula, line 1, column 12: the formula ends too early
  parent(x, y
             ^
expected: , or )
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from gaifman.config import DEFAULT_LIMITS, Limits
from gaifman.formulas import Atom, Attribute, Exists, Formula, RelationVariable, Variable, free_variables
from gaifman.names import similar_names
from gaifman.questions import AGGREGATES, Aggregate, Difference, Feature, FeatureBody, Query, query_position
from gaifman.syntax import NAME_KINDS, PRECEDENCE, BoundVariable, FormulaParser
from gaifman.vocabulary import Schema


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

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

from gaifman.config import LIMITS, Limits
from gaifman.formulas import Atom, Attribute, Exists, Formula, RelationVariable, Variable, free
from gaifman.names import nearest
from gaifman.questions import KINDS, Aggregate, Body, Difference, Feature, Query, query_position
from gaifman.syntax import LEVELS, NAMES, Bound, Grammar
from gaifman.vocabulary import Vocabulary


class Speaks(Protocol):
    """What has a vocabulary: a knowledge base."""

    @property
    def vocabulary(self) -> Vocabulary:
        """What formulas may speak of."""


Words = Vocabulary | Speaks | None
"""Where names are looked up: a vocabulary, a knowledge base, or nowhere."""


def parse(text: str, vocabulary: Words = None, *, limits: Limits = LIMITS, source: str = "formula") -> Formula:
    """The formula that `text` writes; with a vocabulary, its names must be known."""
    parser = _Parser(text, limits, source)
    formula = parser.formula()
    parser.finish()
    if words := _vocabulary(vocabulary):
        words.check(formula, text, source=source, undeclared=free(formula))
    return formula


def parse_query(text: str, vocabulary: Words = None, *, limits: Limits = LIMITS, source: str = "query") -> Query:
    """The query that `text` writes, with or without a head."""
    parser = _Parser(text, limits, source)
    query = parser.query()
    if words := _vocabulary(vocabulary):
        words.check(query, text, source=source, undeclared=parser.undeclared)
    return query


def parse_feature(
    text: str,
    vocabulary: Words = None,
    *,
    limits: Limits = LIMITS,
    source: str = "feature",
    unknown_objects: bool = False,
) -> Feature:
    """The feature that `text` writes; `unknown_objects` allows constants that the vocabulary does not have."""
    parser = _Parser(text, limits, source)
    feature = parser.feature()
    if words := _vocabulary(vocabulary):
        feature = words.resolve(feature)
        undeclared = tuple(variable for variable in free(feature) if not query_position(variable))
        words.check(feature, text, source=source, undeclared=undeclared, unknown_objects=unknown_objects)
    parser.check_measures(feature.body)
    return feature


def _vocabulary(words: Words) -> Vocabulary | None:
    return words if words is None or isinstance(words, Vocabulary) else words.vocabulary


@dataclass(slots=True)
class _Parser(Grammar):
    undeclared: tuple[Variable, ...] = ()
    """Variables of a query that its head does not name."""

    def finish(self) -> None:
        self.accept(".")
        if self.token.kind != "end":
            raise self.unexpected(*LEVELS, "the end")

    def query(self) -> Query:
        head, variables = self.head() if any(t.kind == ":-" for t in self.tokens) else ("", ())
        body = self.formula()
        self.finish()
        if not head:
            self.undeclared = free(body)
            return Query(free(body), body)
        inside = free(body)
        for variable in variables:
            if variable not in inside:
                near = nearest(variable.name, [v.name for v in inside])
                raise self.error(f"the variable {variable} of the head is not in the body", variable.span, near=near)
        self.undeclared = others = tuple(v for v in inside if v not in variables)
        return Query(variables, Exists(others, body) if others else body, head)

    def head(self) -> tuple[str, tuple[Variable, ...]]:
        name = self.expect(*NAMES, what="a relation")
        terms = self.terms()
        self.expect(":-")
        variables: list[Variable] = []
        for term in terms:
            if not isinstance(term, Variable):
                raise self.error("the head takes variables only", term.span, hint="put objects in the body: x = 'ada'")
            if term in variables:
                raise self.error(f"the variable {term} is twice in the head", term.span)
            variables.append(term)
        self.rule = True
        return name.name, tuple(variables)

    def feature(self) -> Feature:
        self.featured = True
        each: dict[str, Bound] = {}
        if self.accept("each"):
            each = self.bind()
            self.scopes.append(each)
        body: Formula | Aggregate | Attribute | Difference = self.aggregate_or_formula()
        if isinstance(body, Aggregate | Attribute) and self.accept("-"):
            body = Difference(body, self.subtrahend())
        self.finish()
        for name, bound in each.items():
            if not bound.places:
                raise self.error(
                    f"{name} is no relation in this feature", bound.span, hint=f"use it as one: {name}(s1, x)"
                )
        return Feature(body, tuple(RelationVariable(name, span=b.span) for name, b in each.items()))

    def aggregate_or_formula(self) -> Formula | Aggregate | Attribute:
        if self.token.kind in KINDS:
            return self.aggregate()
        if self.sees_attribute("-"):
            return self.measured()
        return self.formula()

    def subtrahend(self) -> Aggregate | Attribute:
        return self.aggregate() if self.token.kind in KINDS else self.measured()

    def aggregate(self) -> Aggregate:
        kind = self.take()
        quantity = None
        if self.sees_attribute("for"):
            quantity = self.measured()
            self.take()
        elif kind.kind != "count":
            raise self.error(
                f"{kind.kind} needs an attribute",
                kind,
                hint=f"write: {kind.kind} population(x) for borders(s1, x)",
            )
        return Aggregate(kind.kind, quantity, self.formula())

    def sees_attribute(self, after: str) -> bool:
        """Whether a name with terms in brackets stands here, and `after` behind it."""
        if self.token.kind not in NAMES or self.following.kind != "(":
            return False
        closing = next((i for i in range(self.at, len(self.tokens)) if self.tokens[i].kind in (")", "end")), self.at)
        return self.tokens[min(closing + 1, len(self.tokens) - 1)].kind == after

    def check_measures(self, body: Body) -> None:
        """A number alone is one of s1, s2 … or of an object: another variable would have nothing to stand for."""
        for side in (body.left, body.right) if isinstance(body, Difference) else (body,):
            if isinstance(side, Attribute) and isinstance(side.term, Variable) and not query_position(side.term):
                hint = (
                    f"write {side.name}(s1), or an aggregate: sum {side.name}({side.term}) for borders(s1, {side.term})"
                )
                raise self.error(f"{side.term} stands for no object here", side.term.span, hint=hint)

    def measured(self) -> Attribute:
        if self.token.kind not in NAMES or self.following.kind != "(":
            raise self.unexpected("an attribute", *KINDS)
        token = self.take()
        return self.attribute(Atom(token.name, self.terms()), token)

"""What is asked: a query of a knowledge base, a feature of a neighbourhood.

>>> from gaifman.formulas import Atom, Variable
>>> x, y, s1 = Variable("x"), Variable("y"), Variable("s1")
>>> print(Query((y, x), Atom("capital", (x, y)), head="seat"))
seat(y, x) :- capital(x, y)
>>> print(Feature(Aggregate("sum", Attribute("population", x), Atom("borders", (s1, x)))))
sum population(x) for borders(s1, x)
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from gaifman.errors import FormulaError
from gaifman.formulas import Attribute, Formula, Node, RelationVariable, Variable, free_variables
from gaifman.printing import PrintStyle, format_relation

AGGREGATES = ("count", "sum", "mean", "min", "max")


@dataclass(frozen=True, slots=True)
class Query(Node):
    """A formula whose free variables, in this order, make an answer.

    `head` is the name written before `:-`, or empty.
    """

    variables: tuple[Variable, ...]
    formula: Formula
    head: str = ""

    def show(self, style: PrintStyle) -> str:
        text = self.formula.show(style)
        if not self.head and self.variables == free_variables(self.formula):
            return text
        return f"{format_relation(self.head or 'q')}({style.render_list(self.variables)}) :- {text}"


@dataclass(frozen=True, slots=True)
class Aggregate(Node):
    """`sum population(x) for borders(s1, x)`; `count borders(s1, x)` has no quantity."""

    kind: str
    quantity: Attribute | None
    formula: Formula

    def __post_init__(self) -> None:
        if self.kind not in AGGREGATES:
            raise FormulaError(f"an aggregate is one of {', '.join(AGGREGATES)}, not {self.kind!r}")
        if self.quantity is None and self.kind != "count":
            raise FormulaError(
                f"{self.kind} needs an attribute", hint=f"write: {self.kind} population(x) for borders(s1, x)"
            )

    def show(self, style: PrintStyle) -> str:
        quantity = f"{self.quantity.show(style)} for " if self.quantity else ""
        return f"{self.kind} {quantity}{self.formula.show(style)}"


@dataclass(frozen=True, slots=True)
class Difference(Node):
    """`population(s1) - population(s2)`."""

    left: Aggregate | Attribute
    right: Aggregate | Attribute

    def show(self, style: PrintStyle) -> str:
        return f"{self.left.show(style)} - {self.right.show(style)}"


FeatureBody = Formula | Aggregate | Attribute | Difference


@dataclass(frozen=True, slots=True)
class Feature(Node):
    """What is evaluated in a neighbourhood; `each` relation put for its relation variables is a feature of its own."""

    body: FeatureBody
    each: tuple[RelationVariable, ...] = ()

    @property
    def binds(self) -> tuple[Node, ...]:
        """The relation variables that stand for each relation."""
        return self.each

    def show(self, style: PrintStyle) -> str:
        each = f"each {style.render_list(self.each)}. " if self.each else ""
        return each + self.body.show(style.with_bound(self.each))


_QUERY_VARIABLE = re.compile(r"s([1-9]\d*)")


def query_position(variable: Variable) -> int:
    """In a feature `s1`, `s2` … stand for the query's free variables: 1, 2 …; 0 for every other variable."""
    match = _QUERY_VARIABLE.fullmatch(variable.name)
    return int(match[1]) if match else 0

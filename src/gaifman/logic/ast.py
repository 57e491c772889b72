"""Formulas as frozen trees, and how they print.

>>> x, y = Variable("x"), Variable("y")
>>> formula = Exists((y,), And((Atom("parent", (x, y)), Not(Equal(x, y)))))
>>> print(formula)
∃y parent(x, y) ∧ x ≠ y
>>> print(to_ascii(formula))
exists y. parent(x, y) & x != y
>>> print(to_bracketed(formula))
∃y (parent(x, y) ∧ x ≠ y)
>>> [variable.name for variable in free_variables(formula)]
['x']

A tree is as deep as it is written: `(a ∧ b) ∧ c` and `a ∧ b ∧ c` are two trees, and each prints as itself. Positions in
the source text (`span`) are carried along for error messages and never compared.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from gaifman.errors import FormulaError
from gaifman.logic.names import is_path, is_word, quote
from gaifman.logic.printer import ASCII, BRACKETED, UNICODE, PrintStyle, format_relation

Span = tuple[int, int]
"""First character and the one after the last, in the text that was parsed."""
NO_SPAN: Span = (0, 0)
Bindings = Mapping[str, str]
"""Variable name → name of the object that it stands for."""
OPERATORS = ("=", "≠", "<", "≤", ">", "≥")


class Node:
    """What all parts of a formula, a query or a feature share: they print as they are written."""

    __slots__ = ()
    __match_args__: ClassVar[tuple[str, ...]] = ()
    precedence: ClassVar[int] = 5

    @property
    def extends_right(self) -> bool:
        """Whether a connective written to its right would be read as part of it."""
        return False

    @property
    def bound_variables(self) -> tuple[AnyVariable, ...]:
        """The variables that are not free below."""
        return ()

    def render(self, style: PrintStyle) -> str:
        """The node written out."""
        raise AssertionError(f"{type(self).__name__} does not say how it is shown")

    def __str__(self) -> str:
        return self.render(UNICODE)


# Terms and quantities


@dataclass(frozen=True, slots=True)
class Variable(Node):
    """Stands for any object."""

    name: str
    span: Span = field(default=NO_SPAN, compare=False, repr=False, kw_only=True)

    def render(self, style: PrintStyle) -> str:
        return self.name if is_word(self.name) else f"?{self.name}"


@dataclass(frozen=True, slots=True)
class Constant(Node):
    """An object, by its name."""

    name: str
    span: Span = field(default=NO_SPAN, compare=False, repr=False, kw_only=True)

    def render(self, style: PrintStyle) -> str:
        return self.name if is_path(self.name) else quote(self.name)


@dataclass(frozen=True, slots=True)
class RelationVariable(Node):
    """Stands for any relation: second order."""

    name: str
    span: Span = field(default=NO_SPAN, compare=False, repr=False, kw_only=True)

    def render(self, style: PrintStyle) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Number(Node):
    """A number to compare with."""

    value: float
    span: Span = field(default=NO_SPAN, compare=False, repr=False, kw_only=True)

    def render(self, style: PrintStyle) -> str:
        whole = self.value.is_integer() and abs(self.value) < 1e15
        return f"{self.value:.0f}" if whole else repr(self.value)


@dataclass(frozen=True, slots=True)
class Attribute(Node):
    """The number that an attribute gives to an object: `population(x)`. It may be missing."""

    name: str
    term: Term
    span: Span = field(default=NO_SPAN, compare=False, repr=False, kw_only=True)

    def render(self, style: PrintStyle) -> str:
        return f"{format_relation(self.name)}({self.term.render(style)})"


AnyVariable = Variable | RelationVariable
Term = Variable | Constant
Quantity = Number | Attribute


# Formulas


@dataclass(frozen=True, slots=True)
class Truth(Node):
    """`true` or `false`."""

    value: bool

    def render(self, style: PrintStyle) -> str:
        return "true" if self.value else "false"


@dataclass(frozen=True, slots=True)
class Atom(Node):
    """A relation holds of objects: `borders(x, 'france')`."""

    relation: str | RelationVariable
    terms: tuple[Term, ...]
    span: Span = field(default=NO_SPAN, compare=False, repr=False, kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "terms", tuple(self.terms))

    @property
    def relation_name(self) -> str:
        """The relation's or the relation variable's name."""
        return self.relation if isinstance(self.relation, str) else self.relation.name

    def render(self, style: PrintStyle) -> str:
        name = style.render_relation(self.relation) if isinstance(self.relation, str) else self.relation.name
        return f"{name}({style.render_list(self.terms)})"


@dataclass(frozen=True, slots=True)
class Equal(Node):
    """Two terms are the same object."""

    left: Term
    right: Term

    def render(self, style: PrintStyle) -> str:
        return f"{self.left.render(style)} = {self.right.render(style)}"


@dataclass(frozen=True, slots=True)
class Comparison(Node):
    """Two numbers compare; false wherever one of them is missing."""

    left: Quantity
    operator: str
    right: Quantity

    def __post_init__(self) -> None:
        if self.operator not in OPERATORS:
            raise FormulaError(f"a comparison is one of {' '.join(OPERATORS)}, not {self.operator!r}")

    def render(self, style: PrintStyle) -> str:
        return f"{self.left.render(style)} {style.symbol(self.operator)} {self.right.render(style)}"


@dataclass(frozen=True, slots=True)
class Not(Node):
    """The body is false."""

    body: Formula

    @property
    def extends_right(self) -> bool:
        """As its body does."""
        return self.body.extends_right

    @staticmethod
    def _needs_no_brackets(body: Formula) -> bool:
        """Whether ¬ before the body, without brackets, speaks of all of it."""
        unequal = isinstance(body, Not) and isinstance(body.body, Equal)
        return isinstance(body, Not | Exists | Forall | Truth | Atom) and not unequal

    def render(self, style: PrintStyle) -> str:
        if isinstance(self.body, Equal):
            return f"{self.body.left.render(style)} {style.symbol('≠')} {self.body.right.render(style)}"
        text = self.body.render(style)
        return style.symbol("¬") + (text if self._needs_no_brackets(self.body) else f"({text})")


@dataclass(frozen=True, slots=True)
class _Junction(Node):
    parts: tuple[Formula, ...]
    symbol: ClassVar[str]

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", tuple(self.parts))
        if len(self.parts) < 2:
            raise FormulaError(f"{self.symbol} takes two or more parts, not {len(self.parts)}")

    def render(self, style: PrintStyle) -> str:
        return style.render_operands(self.symbol, self.parts, self.precedence + 1)


@dataclass(frozen=True, slots=True)
class And(_Junction):
    """All parts are true; two or more of them."""

    precedence: ClassVar[int] = 4
    symbol: ClassVar[str] = "∧"


@dataclass(frozen=True, slots=True)
class Or(_Junction):
    """Some part is true; two or more of them."""

    precedence: ClassVar[int] = 3
    symbol: ClassVar[str] = "∨"


@dataclass(frozen=True, slots=True)
class _Conditional(Node):
    left: Formula
    right: Formula
    symbol: ClassVar[str]

    def render(self, style: PrintStyle) -> str:
        left = style.render_operand(self.left, self.precedence + 1)
        return f"{left} {style.symbol(self.symbol)} {style.render_operand(self.right, self.precedence)}"


@dataclass(frozen=True, slots=True)
class Implies(_Conditional):
    """The left is false or the right is true."""

    precedence: ClassVar[int] = 2
    symbol: ClassVar[str] = "→"


@dataclass(frozen=True, slots=True)
class Iff(_Conditional):
    """Left and right are both true or both false."""

    precedence: ClassVar[int] = 1
    symbol: ClassVar[str] = "↔"


@dataclass(frozen=True, slots=True)
class _Quantified(Node):
    variables: tuple[Variable | RelationVariable, ...]
    body: Formula
    symbol: ClassVar[str]

    def __post_init__(self) -> None:
        object.__setattr__(self, "variables", tuple(self.variables))

    @property
    def extends_right(self) -> bool:
        """The body reaches as far right as it can."""
        return True

    @property
    def bound_variables(self) -> tuple[AnyVariable, ...]:
        """Its variables."""
        return self.variables

    def render(self, style: PrintStyle) -> str:
        return style.render_quantifier(self.symbol, self.variables, self.body)


@dataclass(frozen=True, slots=True)
class Exists(_Quantified):
    """The body is true for some objects (or relations) put for the variables."""

    symbol: ClassVar[str] = "∃"


@dataclass(frozen=True, slots=True)
class Forall(_Quantified):
    """The body is true for all objects (or relations) put for the variables."""

    symbol: ClassVar[str] = "∀"


Formula = Truth | Atom | Equal | Comparison | Not | And | Or | Implies | Iff | Exists | Forall


# Walking


def children(node: Node) -> tuple[Node, ...]:
    """The parts directly below, in the order of the fields."""
    found: list[Node] = []
    for name in type(node).__match_args__:
        part = getattr(node, name)
        found.extend([part] if isinstance(part, Node) else part if isinstance(part, tuple) else [])
    return tuple(found)


def walk(node: Node) -> Iterator[Node]:
    """The node and everything below, in the order it is written; no recursion."""
    stack = [node]
    while stack:
        top = stack.pop()
        yield top
        stack.extend(reversed(children(top)))


def free_variables(node: Node) -> tuple[Variable, ...]:
    """The variables that no quantifier binds, in order of first use."""
    return tuple(v for v in _unbound(node) if isinstance(v, Variable))


def free_relation_variables(node: Node) -> tuple[RelationVariable, ...]:
    """The relation variables that no quantifier binds, in order of first use."""
    return tuple(v for v in _unbound(node) if isinstance(v, RelationVariable))


def all_free_variables(node: Node) -> frozenset[AnyVariable]:
    """Return the variables, of objects and of relations, that no quantifier binds."""
    return frozenset(_unbound(node))


def _unbound(node: Node) -> dict[AnyVariable, None]:
    """Return the free variables as the keys of a dictionary, in order of first use."""
    if isinstance(node, Variable | RelationVariable):
        return {node: None}
    found: dict[AnyVariable, None] = {}
    for child in children(node):
        found |= _unbound(child)
    for variable in node.bound_variables:
        found.pop(variable, None)
    return found


# Printing


def to_ascii(node: Node) -> str:
    """The formula in ASCII signs and words; names keep their own letters."""
    return node.render(ASCII)


def to_bracketed(node: Node) -> str:
    """The formula with every bracket written: how it was read."""
    return node.render(BRACKETED)


AGGREGATES = ("count", "sum", "mean", "min", "max")


@dataclass(frozen=True, slots=True)
class Query(Node):
    """A formula whose free variables, in this order, make an answer.

    `head` is the name written before `:-`, or empty.
    """

    variables: tuple[Variable, ...]
    formula: Formula
    head: str = ""

    @property
    def atomic_relation(self) -> str | None:
        """The relation of a query that is one atom of its variables, in order; None for other queries.

        >>> relation_query("borders", 2).atomic_relation
        'borders'
        """
        atom = self.formula
        if isinstance(atom, Atom) and isinstance(atom.relation, str) and atom.terms == self.variables:
            return atom.relation
        return None

    def render(self, style: PrintStyle) -> str:
        text = self.formula.render(style)
        if not self.head and self.variables == free_variables(self.formula):
            return text
        return f"{format_relation(self.head or 'q')}({style.render_list(self.variables)}) :- {text}"


def query_variables(arity: int) -> tuple[Variable, ...]:
    """Variables for a query of this arity: x, y, z for up to three, x1, x2 … for more.

    >>> [v.name for v in query_variables(2)], [v.name for v in query_variables(4)]
    (['x', 'y'], ['x1', 'x2', 'x3', 'x4'])
    """
    letters = "xyz"
    return tuple(Variable(letters[i] if arity <= len(letters) else f"x{i + 1}") for i in range(arity))


def relation_query(relation: str, arity: int) -> Query:
    """The query for all facts of a relation."""
    variables = query_variables(arity)
    return Query(variables, Atom(relation, variables))


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

    def render(self, style: PrintStyle) -> str:
        quantity = f"{self.quantity.render(style)} for " if self.quantity else ""
        return f"{self.kind} {quantity}{self.formula.render(style)}"


@dataclass(frozen=True, slots=True)
class Difference(Node):
    """`population(s1) - population(s2)`."""

    left: Aggregate | Attribute
    right: Aggregate | Attribute

    def render(self, style: PrintStyle) -> str:
        return f"{self.left.render(style)} - {self.right.render(style)}"


FeatureBody = Formula | Aggregate | Attribute | Difference


@dataclass(frozen=True, slots=True)
class Feature(Node):
    """What is evaluated in a neighbourhood; `each` relation put for its relation variables is a feature of its own."""

    body: FeatureBody
    each: tuple[RelationVariable, ...] = ()

    @property
    def bound_variables(self) -> tuple[AnyVariable, ...]:
        """The relation variables that stand for each relation."""
        return self.each

    def render(self, style: PrintStyle) -> str:
        each = f"each {style.render_list(self.each)}. " if self.each else ""
        return each + self.body.render(style.with_bound(self.each))


_QUERY_VARIABLE = re.compile(r"s([1-9]\d*)")


def query_position(variable: Variable) -> int:
    """In a feature `s1`, `s2` … stand for the query's free variables: 1, 2 …; 0 for every other variable."""
    match = _QUERY_VARIABLE.fullmatch(variable.name)
    return int(match[1]) if match else 0

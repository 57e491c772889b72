"""Formulas, queries and features as frozen trees.

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

The tree keeps the brackets of the text: `(a ∧ b) ∧ c` and `a ∧ b ∧ c` are different trees, and each prints as it was
written. Each name keeps its position in the text (`span`) for error messages; comparisons ignore it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from gaifman.errors import FormulaError
from gaifman.logic.notation import ASCII, BRACKETED, UNICODE, PrintStyle, format_relation, is_path, is_word, quote

Span = tuple[int, int]
"""Start and end offset in the parsed text."""
NO_SPAN: Span = (0, 0)
Bindings = Mapping[str, str]
"""Variable name → name of the object that it stands for."""
OPERATORS = ("=", "≠", "<", "≤", ">", "≥")


class Node:
    """Base class of all parts of formulas, queries and features."""

    __slots__ = ()
    __match_args__: ClassVar[tuple[str, ...]] = ()
    precedence: ClassVar[int] = 5

    @property
    def extends_right(self) -> bool:
        """Whether a connective to its right would become part of it."""
        return False

    @property
    def bound_variables(self) -> tuple[AnyVariable, ...]:
        """The variables that this node binds."""
        return ()

    def render(self, style: PrintStyle) -> str:
        """Return the node as text."""
        raise NotImplementedError(type(self).__name__)

    def __str__(self) -> str:
        return self.render(UNICODE)


# Terms and quantities


@dataclass(frozen=True, slots=True)
class Variable(Node):
    """A variable for objects."""

    name: str
    span: Span = field(default=NO_SPAN, compare=False, repr=False, kw_only=True)

    def render(self, style: PrintStyle) -> str:
        return self.name if is_word(self.name) else f"?{self.name}"


@dataclass(frozen=True, slots=True)
class Constant(Node):
    """An object, by name."""

    name: str
    span: Span = field(default=NO_SPAN, compare=False, repr=False, kw_only=True)

    def render(self, style: PrintStyle) -> str:
        return self.name if is_path(self.name) else quote(self.name)


@dataclass(frozen=True, slots=True)
class RelationVariable(Node):
    """A variable for relations (second order)."""

    name: str
    span: Span = field(default=NO_SPAN, compare=False, repr=False, kw_only=True)

    def render(self, style: PrintStyle) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Number(Node):
    """A number in a comparison."""

    value: float
    span: Span = field(default=NO_SPAN, compare=False, repr=False, kw_only=True)

    def render(self, style: PrintStyle) -> str:
        whole = self.value.is_integer() and abs(self.value) < 1e15
        return f"{self.value:.0f}" if whole else repr(self.value)


@dataclass(frozen=True, slots=True)
class Attribute(Node):
    """The value of an object's attribute: `population(x)`. It may be missing."""

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
        """Name of the relation or relation variable."""
        return self.relation if isinstance(self.relation, str) else self.relation.name

    def render(self, style: PrintStyle) -> str:
        name = style.render_relation(self.relation) if isinstance(self.relation, str) else self.relation.name
        return f"{name}({style.render_list(self.terms)})"


@dataclass(frozen=True, slots=True)
class Equal(Node):
    """Two terms denote the same object."""

    left: Term
    right: Term

    def render(self, style: PrintStyle) -> str:
        return f"{self.left.render(style)} = {self.right.render(style)}"


@dataclass(frozen=True, slots=True)
class Comparison(Node):
    """A comparison of two numbers; false if one of them is missing."""

    left: Quantity
    operator: str
    right: Quantity

    def __post_init__(self) -> None:
        if self.operator not in OPERATORS:
            raise FormulaError(f"operator must be one of {' '.join(OPERATORS)}, got {self.operator!r}")

    def render(self, style: PrintStyle) -> str:
        return f"{self.left.render(style)} {style.symbol(self.operator)} {self.right.render(style)}"


@dataclass(frozen=True, slots=True)
class Not(Node):
    """The body is false."""

    body: Formula

    @property
    def extends_right(self) -> bool:
        """Same as for its body."""
        return self.body.extends_right

    @staticmethod
    def _needs_no_brackets(body: Formula) -> bool:
        """Return whether ¬ without brackets applies to the whole body."""
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
            raise FormulaError(f"{self.symbol} needs at least two parts, got {len(self.parts)}")

    def render(self, style: PrintStyle) -> str:
        return style.render_operands(self.symbol, self.parts, self.precedence + 1)


@dataclass(frozen=True, slots=True)
class And(_Junction):
    """All parts are true; there are at least two."""

    precedence: ClassVar[int] = 4
    symbol: ClassVar[str] = "∧"


@dataclass(frozen=True, slots=True)
class Or(_Junction):
    """Some part is true; there are at least two."""

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
        """A quantifier's body extends as far right as possible."""
        return True

    @property
    def bound_variables(self) -> tuple[AnyVariable, ...]:
        """The quantified variables."""
        return self.variables

    def render(self, style: PrintStyle) -> str:
        return style.render_quantifier(self.symbol, self.variables, self.body)


@dataclass(frozen=True, slots=True)
class Exists(_Quantified):
    """The body is true for some values of the variables (objects or relations)."""

    symbol: ClassVar[str] = "∃"


@dataclass(frozen=True, slots=True)
class Forall(_Quantified):
    """The body is true for all values of the variables (objects or relations)."""

    symbol: ClassVar[str] = "∀"


Formula = Truth | Atom | Equal | Comparison | Not | And | Or | Implies | Iff | Exists | Forall


# Walking


def children(node: Node) -> tuple[Node, ...]:
    """Return the direct children of a node, in the order of its fields."""
    parts: list[Node] = []
    for name in type(node).__match_args__:
        part = getattr(node, name)
        parts.extend([part] if isinstance(part, Node) else part if isinstance(part, tuple) else [])
    return tuple(parts)


def walk(node: Node) -> Iterator[Node]:
    """Yield the node and all its descendants, in the order of the text."""
    stack = [node]
    while stack:
        top = stack.pop()
        yield top
        stack.extend(reversed(children(top)))


def free_variables(node: Node) -> tuple[Variable, ...]:
    """Return the free variables, in order of first use."""
    return tuple(v for v in _unbound(node) if isinstance(v, Variable))


def free_relation_variables(node: Node) -> tuple[RelationVariable, ...]:
    """Return the free relation variables, in order of first use."""
    return tuple(v for v in _unbound(node) if isinstance(v, RelationVariable))


def all_free_variables(node: Node) -> frozenset[AnyVariable]:
    """Return the free variables, of objects and of relations."""
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
    """Return the formula in ASCII symbols and words; names are printed as they are."""
    return node.render(ASCII)


def to_bracketed(node: Node) -> str:
    """Return the formula with all brackets, as it was parsed."""
    return node.render(BRACKETED)


AGGREGATES = ("count", "sum", "mean", "min", "max")


@dataclass(frozen=True, slots=True)
class Query(Node):
    """A formula with its answer variables in order. `head` is the name before `:-`, or empty."""

    variables: tuple[Variable, ...]
    formula: Formula
    head: str = ""

    @property
    def atomic_relation(self) -> str | None:
        """The relation, if the query is one atom over its variables in order; None for other queries.

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
    """Return the variables of a query of this arity: x, y, z for up to three, x1, x2 … for more.

    >>> [v.name for v in query_variables(2)], [v.name for v in query_variables(4)]
    (['x', 'y'], ['x1', 'x2', 'x3', 'x4'])
    """
    letters = "xyz"
    return tuple(Variable(letters[i] if arity <= len(letters) else f"x{i + 1}") for i in range(arity))


def relation_query(relation: str, arity: int) -> Query:
    """Return the query for all facts of a relation."""
    variables = query_variables(arity)
    return Query(variables, Atom(relation, variables))


@dataclass(frozen=True, slots=True)
class Aggregate(Node):
    """An aggregate: `sum population(x) for borders(s1, x)`. `count borders(s1, x)` has no quantity."""

    kind: str
    quantity: Attribute | None
    formula: Formula

    def __post_init__(self) -> None:
        if self.kind not in AGGREGATES:
            raise FormulaError(f"aggregate must be one of {', '.join(AGGREGATES)}, got {self.kind!r}")
        if self.quantity is None and self.kind != "count":
            raise FormulaError(
                f"{self.kind} needs an attribute", hint=f"write: {self.kind} population(x) for borders(s1, x)"
            )

    def render(self, style: PrintStyle) -> str:
        quantity = f"{self.quantity.render(style)} for " if self.quantity else ""
        return f"{self.kind} {quantity}{self.formula.render(style)}"


@dataclass(frozen=True, slots=True)
class Difference(Node):
    """A difference: `population(s1) - population(s2)`."""

    left: Aggregate | Attribute
    right: Aggregate | Attribute

    def render(self, style: PrintStyle) -> str:
        return f"{self.left.render(style)} - {self.right.render(style)}"


FeatureBody = Formula | Aggregate | Attribute | Difference


def can_be_missing(body: FeatureBody) -> bool:
    """Return whether a feature has no value where numbers are missing; a count or sum of nothing is 0.

    >>> can_be_missing(Attribute("age", Variable("s1"))), can_be_missing(Atom("old", (Variable("s1"),)))
    (True, False)
    """
    match body:
        case Difference(left, right):
            return can_be_missing(left) or can_be_missing(right)
        case Aggregate(kind, _, _):
            return kind not in ("count", "sum")
    return isinstance(body, Attribute)


@dataclass(frozen=True, slots=True)
class Feature(Node):
    """A formula or number that is evaluated in a neighbourhood.

    A feature with relation variables in `each` is a template: `instantiate` makes one feature for each relation.
    """

    body: FeatureBody
    each: tuple[RelationVariable, ...] = ()

    @property
    def bound_variables(self) -> tuple[AnyVariable, ...]:
        """The relation variables of `each`."""
        return self.each

    def render(self, style: PrintStyle) -> str:
        each = f"each {style.render_list(self.each)}. " if self.each else ""
        return each + self.body.render(style.with_bound(self.each))


_QUERY_VARIABLE = re.compile(r"s([1-9]\d*)")


def query_position(variable: Variable) -> int:
    """Return the position that `s1`, `s2` … name in the query's tuple: 1, 2 …; 0 for every other variable."""
    match = _QUERY_VARIABLE.fullmatch(variable.name)
    return int(match[1]) if match else 0

r"""Formulas, queries and features as frozen trees, how they are written, and their transformations.

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
>>> symmetric = Forall((x, y), Implies(Atom("r", (x, y)), Atom("r", (y, x))))
>>> print(negation_normal_form(symmetric))
∀x, y ¬r(x, y) ∨ r(y, x)
>>> print(substitute(Exists((y,), Atom("r", (x, y))), {x: y}))
∃y1 r(y, y1)

The tree keeps the brackets of the text: `(a ∧ b) ∧ c` and `a ∧ b ∧ c` are different trees, and each prints as it was
written. Each name keeps its position in the text (`span`) for error messages; comparisons ignore it.

A name of an object, relation or attribute is any non-empty text. Formulas and `.facts` files quote it only where they
must. Each node renders itself (`Node.render`); a style decides the symbols and the brackets: Unicode, ASCII, or with
all brackets.

>>> quote("has part"), quote("it's\n")
("'has part'", "'it\\'s\\n'")
>>> unquote(r"'it\'s\n'")
"it's\n"
"""

from __future__ import annotations

import itertools
import math
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, TypeVar

from gaifman.errors import FormulaError, LimitError

_SUBSCRIPTS = str.maketrans("₀₁₂₃₄₅₆₇₈₉", "0123456789")
_KEYWORDS = "exists forall not and or implies iff true false each count sum mean min max for"
KEYWORDS = frozenset(_KEYWORDS.split())
"""Words of the formula language. A relation or object with such a name is quoted."""

WORD = r"[^\W\d]\w*"
"""An unquoted word: a relation before `(`, else a variable."""

PATH = r"(?:\d|/[\w/])(?:[\w/:.#@%$+-]*[\w/])?"
"""An unquoted name that begins with a digit or `/`: a relation before `(`, else an object."""

_WORD = re.compile(WORD)
_PATH = re.compile(PATH)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", "'": "'", '"': '"'}
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)", re.DOTALL)


def is_word(name: str) -> bool:
    """Return whether the name is a word that needs no quotes."""
    return _WORD.fullmatch(name) is not None and name not in KEYWORDS and name != "_"


def fold_subscripts(name: str) -> str:
    """Return a variable's name with plain digits for subscripts: s₁ is s1.

    >>> fold_subscripts("s₁₂"), fold_subscripts("x²")
    ('s12', 'x²')
    """
    plain = name.translate(_SUBSCRIPTS)
    return plain if is_word(plain) else name


def is_path(name: str) -> bool:
    """Return whether the name begins with a digit or `/` and needs no quotes."""
    return _PATH.fullmatch(name) is not None


def quote(name: str) -> str:
    """Return the name in single quotes, with unprintable characters escaped."""
    return "'" + "".join(_escape(c) for c in name) + "'"


def unquote(quoted: str) -> str:
    """Return the name inside quotes; raise ValueError if it is not a valid name."""
    name = _ESCAPE.sub(_unescape, quoted[1:-1])
    if problem := name_problem(name):
        raise ValueError(problem)
    return name


def name_problem(name: str) -> str:
    """Return why the text is not a valid name; empty if it is one.

    >>> name_problem("ada"), name_problem("")
    ('', 'a name cannot be empty')
    """
    if not name:
        return "a name cannot be empty"
    if "\0" in name:
        return "a name cannot contain the character NUL"
    if any("\ud800" <= character <= "\udfff" for character in name):
        return "a name cannot contain half of a surrogate pair"
    return ""


def _escape(character: str) -> str:
    if character in "'\\":
        return "\\" + character
    if character.isprintable():
        return character
    short = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}.get(character)
    code = ord(character)
    return short or (f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}")


def _unescape(match: re.Match[str]) -> str:
    text = match[1]
    if len(text) > 1:
        code = int(text[1:], 16)
        if code > sys.maxunicode:
            raise ValueError(f"{match[0]} is not a character")
        return chr(code)
    if text not in _ESCAPES:
        raise ValueError(f"\\{text} is not an escape sequence; write \\\\ for a backslash")
    return _ESCAPES[text]


def format_relation(name: str) -> str:
    """Return a relation's or attribute's name, quoted where necessary.

    >>> format_relation("borders"), format_relation("has part"), format_relation("/people/born")
    ('borders', "'has part'", '/people/born')
    """
    return name if is_word(name) or is_path(name) else quote(name)


Span = tuple[int, int]
"""Start and end offset in the parsed text."""
NO_SPAN: Span = (0, 0)
Bindings = Mapping[str, str]
"""Variable name → name of the object that it stands for."""
OPERATORS = ("=", "≠", "<", "≤", ">", "≥")


@dataclass(frozen=True, slots=True)
class PrintStyle:
    """Symbols and brackets of printed formulas."""

    symbols: Mapping[str, str] = field(default_factory=dict)
    """Symbol → its spelling; symbols that are missing here are printed as they are."""
    quantifier_separator: str = " "
    """Between a quantifier's variables and its body."""
    all_brackets: bool = False
    """Whether to print brackets that precedence makes unnecessary."""
    bound_names: frozenset[str] = frozenset()
    """Names bound by an enclosing quantifier. A relation with such a name is quoted, else it would be read as bound."""

    def symbol(self, canonical: str) -> str:
        """Return the spelling of a symbol."""
        return self.symbols.get(canonical, canonical)

    def render_list(self, nodes: Iterable[Node]) -> str:
        """Return the nodes, separated by commas."""
        return ", ".join(node.render(self) for node in nodes)

    def render_operand(self, node: Node, precedence: int) -> str:
        """Return an operand of a connective, in brackets unless it binds at least as strongly as `precedence`."""
        brackets = node.precedence < precedence or node.extends_right or (self.all_brackets and node.precedence < 5)
        return f"({node.render(self)})" if brackets else node.render(self)

    def render_operands(self, symbol: str, nodes: Iterable[Node], precedence: int) -> str:
        """Return the operands of a connective with its symbol between them."""
        return f" {self.symbol(symbol)} ".join(self.render_operand(node, precedence) for node in nodes)

    def render_relation(self, name: str) -> str:
        """Return a relation's name, quoted where necessary."""
        return quote(name) if name in self.bound_names else format_relation(name)

    def with_bound(self, variables: Iterable[AnyVariable]) -> PrintStyle:
        """Return the style inside a quantifier that binds the variables."""
        return replace(self, bound_names=self.bound_names.union(variable.name for variable in variables))

    def render_quantifier(self, symbol: str, variables: Sequence[AnyVariable], body: Node) -> str:
        """Return a quantifier, its variables and its body."""
        text = body.render(self.with_bound(variables))
        if self.all_brackets and body.precedence < 5:
            text = f"({text})"
        return f"{self.symbol(symbol)}{self.render_list(variables)}{self.quantifier_separator}{text}"


UNICODE = PrintStyle()
BRACKETED = PrintStyle(all_brackets=True)
ASCII = PrintStyle(
    {
        "¬": "~",
        "∧": "&",
        "∨": "|",
        "→": "->",
        "↔": "<->",
        "∃": "exists ",
        "∀": "forall ",
        "≠": "!=",
        "≤": "<=",
        "≥": ">=",
    },
    quantifier_separator=". ",
)


class Node:
    """Base class of all parts of formulas, queries and features."""

    __slots__ = ()
    __match_args__: ClassVar[tuple[str, ...]] = ()
    precedence: ClassVar[int] = 5
    """Binding strength: ↔ 1, → 2, ∨ 3, ∧ 4, everything else 5."""

    @property
    def extends_right(self) -> bool:
        """Whether a connective to its right would become part of it, as after a quantifier."""
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


# Transformations

N = TypeVar("N", bound=Node)
MAX_NORMAL_FORM_SIZE = 100_000
"""Largest number of nodes of a normal form."""
MAX_INSTANCES = 1_000_000
"""Largest number of features of one template."""
_BINDING_FIELDS = ("variables", "each")


def map_children(node: N, change: Callable[[Any], Any]) -> N:
    """Return the node with `change` applied to its children; variables that it binds stay."""
    changed: dict[str, Any] = {}
    for name in type(node).__match_args__:
        part = getattr(node, name)
        if isinstance(part, Node):
            changed[name] = change(part)
        elif isinstance(part, tuple) and name not in _BINDING_FIELDS:
            changed[name] = tuple(map(change, part))
    return replace(node, **changed) if changed else node  # type: ignore[type-var]  # every node is a dataclass


def substitute(node: N, terms: Mapping[Variable, Term]) -> N:
    """Return the formula with terms for free variables; a bound variable that would capture one is renamed."""
    changed: N = _substitute(node, dict(terms))
    return changed


def _substitute(node: Node, terms: dict[Variable, Term]) -> Any:
    match node:
        case Variable():
            return terms.get(node, node)
        case Exists(variables, body) | Forall(variables, body):
            return _substitute_below(node, variables, body, terms)
    return map_children(node, lambda part: _substitute(part, terms))


def _substitute_below(
    node: Exists | Forall,
    variables: tuple[Variable | RelationVariable, ...],
    body: Formula,
    terms: dict[Variable, Term],
) -> Exists | Forall:
    inner = {v: terms[v] for v in free_variables(node) if v in terms}
    captured = {term for term in inner.values() if isinstance(term, Variable)}
    taken = {v.name for v in captured} | {v.name for v in walk(body) if isinstance(v, Variable | RelationVariable)}
    renamed: list[Variable | RelationVariable] = []
    for variable in variables:
        if variable in captured and isinstance(variable, Variable):
            inner[variable] = fresh = Variable(next(fresh_names(variable.name, taken)))
            taken.add(fresh.name)
            renamed.append(fresh)
        else:
            renamed.append(variable)
    return replace(node, variables=tuple(renamed), body=_substitute(body, inner))


def fresh_names(stem: str, taken: Collection[str]) -> Iterator[str]:
    """Yield `stem` followed by 1, 2 …, without the names that are taken."""
    return (name for name in (f"{stem}{i}" for i in itertools.count(1)) if name not in taken)


def substitute_relations(node: N, relations: Mapping[RelationVariable, str]) -> N:
    """Return the formula with relation names for free relation variables."""
    changed: N = _substitute_relations(node, dict(relations))
    return changed


def _substitute_relations(node: Node, relations: dict[RelationVariable, str]) -> Any:
    match node:
        case Atom(RelationVariable() as variable):
            return replace(node, relation=relations.get(variable, variable))
        case Exists(variables) | Forall(variables):
            relations = {v: name for v, name in relations.items() if v not in variables}
    return map_children(node, lambda part: _substitute_relations(part, relations))


def relation_arities(node: Node) -> dict[RelationVariable, int]:
    """Return the arity of each free relation variable; the parser makes sure that there is only one."""
    if isinstance(node, Atom) and isinstance(node.relation, RelationVariable):
        return {node.relation: len(node.terms)}
    arities: dict[RelationVariable, int] = {}
    for part in children(node):
        arities |= relation_arities(part)
    return {variable: arity for variable, arity in arities.items() if variable not in node.bound_variables}


def used_symbols(features: Iterable[Feature], query: Query) -> tuple[dict[str, int], list[str]]:
    """Return the relations (name → arity) and attributes of some features and a query, sorted by name."""
    nodes = [node for body in (*(f.body for f in features), query.formula) for node in walk(body)]
    relations = {
        node.relation: len(node.terms) for node in nodes if isinstance(node, Atom) and isinstance(node.relation, str)
    }
    return dict(sorted(relations.items())), sorted({node.name for node in nodes if isinstance(node, Attribute)})


def instantiate(feature: Feature, relations: Mapping[str, int]) -> Iterator[Feature]:
    """Yield the features of a template: one for each choice of relations (name → arity) for its `each` variables.

    >>> from gaifman.logic.ast import Feature
    >>> r = RelationVariable("r")
    >>> template = Feature(Atom(r, (Variable("s1"), Variable("s2"))), (r,))
    >>> [str(feature) for feature in instantiate(template, {"borders": 2, "country": 1, "capital": 2})]
    ['borders(s1, s2)', 'capital(s1, s2)']
    """
    arities = relation_arities(feature.body)
    fitting = [[n for n, arity in relations.items() if arity == arities.get(v)] for v in feature.each]
    if (count := math.prod(map(len, fitting))) > MAX_INSTANCES:
        raise LimitError(
            f"{feature} stands for {count:,} features; the limit is {MAX_INSTANCES:,}",
            hint="name relations instead of an each variable, or let gaifman mine find the paths that matter",
        )
    for names in itertools.product(*fitting):
        yield Feature(substitute_relations(feature.body, dict(zip(feature.each, names, strict=True))))


def relativise(formula: Formula, relation: str) -> Formula:
    """Bound object quantifiers by a unary relation: ∃x φ becomes ∃x (relation(x) ∧ φ), ∀x φ ∀x (relation(x) → φ)."""
    inner = map_children(formula, lambda part: relativise(part, relation) if isinstance(part, Formula) else part)
    if not isinstance(inner, Exists | Forall):
        return inner
    guards: tuple[Formula, ...] = tuple(Atom(relation, (v,)) for v in inner.variables if isinstance(v, Variable))
    if not guards:
        return inner
    if isinstance(inner, Exists):
        return Exists(inner.variables, And((*guards, inner.body)))
    return Forall(inner.variables, Implies(guards[0] if len(guards) == 1 else And(guards), inner.body))


def negation_normal_form(formula: Formula) -> Formula:
    """Return an equivalent formula without → and ↔, with ¬ only before atoms, equalities and comparisons.

    A negated comparison stays negated: `¬(a < b)` is true if a number is missing, `a ≥ b` is not. Each ↔ doubles the
    formula below it; a result of more than `MAX_NORMAL_FORM_SIZE` nodes is refused before it is built.
    """
    size = _normal_sizes(formula)[0]
    if size > MAX_NORMAL_FORM_SIZE:
        raise LimitError(f"without ↔ the formula would have {size:,} parts; the limit is {MAX_NORMAL_FORM_SIZE:,}")
    return _normal(formula, positive=True)


def _normal_sizes(formula: Formula) -> tuple[int, int]:
    """Return the number of nodes of the normal form of a formula, and of its negation."""
    match formula:
        case Not(body):
            return _normal_sizes(body)[::-1]
        case Iff(left, right):
            both = sum(_normal_sizes(left)) + sum(_normal_sizes(right)) + 3
            return both, both
        case Implies(left, right):
            (left_true, left_false), (right_true, right_false) = _normal_sizes(left), _normal_sizes(right)
            return left_false + right_true + 1, left_true + right_false + 1
        case And(parts) | Or(parts):
            sizes = [_normal_sizes(part) for part in parts]
            return sum(size for size, _ in sizes) + 1, sum(size for _, size in sizes) + 1
        case Exists(_, body) | Forall(_, body):
            size, negated = _normal_sizes(body)
            return size + 1, negated + 1
    return 1, 2


def _normal(formula: Formula, *, positive: bool) -> Formula:
    match formula:
        case Not(body):
            return _normal(body, positive=not positive)
        case And(parts) | Or(parts):
            same = isinstance(formula, And) == positive
            return (And if same else Or)(tuple(_normal(part, positive=positive) for part in parts))
        case Implies(left, right):
            return _normal(Or((Not(left), right)), positive=positive)
        case Iff(left, right):
            both, neither = And((left, right)), And((Not(left), Not(right)))
            return _normal(Or((both, neither)), positive=positive)
        case Exists(variables, body) | Forall(variables, body):
            same = isinstance(formula, Exists) == positive
            return (Exists if same else Forall)(variables, _normal(body, positive=positive))
        case Truth(value):
            return Truth(value == positive)
    return formula if positive else Not(formula)

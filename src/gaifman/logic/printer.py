"""Styles in which formulas print: Unicode, ASCII, and with all brackets.

Each node of a formula renders itself (`Node.render`); the style decides the symbols and the brackets.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from gaifman.logic.names import is_path, is_word, quote


class Printable(Protocol):
    """A node, as a style sees it."""

    @property
    def precedence(self) -> int:
        """Binding strength: ↔ 1, → 2, ∨ 3, ∧ 4, everything else 5."""

    @property
    def extends_right(self) -> bool:
        """Whether a connective to its right would become part of it, as after a quantifier."""

    def render(self, style: PrintStyle, /) -> str:
        """Return the node as text."""


class PrintableVariable(Printable, Protocol):
    """A variable, as a style sees it."""

    @property
    def name(self) -> str:
        """Name of the variable."""


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

    def render_list(self, nodes: Iterable[Printable]) -> str:
        """Return the nodes, separated by commas."""
        return ", ".join(node.render(self) for node in nodes)

    def render_operand(self, node: Printable, precedence: int) -> str:
        """Return an operand of a connective, in brackets unless it binds at least as strongly as `precedence`."""
        brackets = node.precedence < precedence or node.extends_right or (self.all_brackets and node.precedence < 5)
        return f"({node.render(self)})" if brackets else node.render(self)

    def render_operands(self, symbol: str, nodes: Iterable[Printable], precedence: int) -> str:
        """Return the operands of a connective with its symbol between them."""
        return f" {self.symbol(symbol)} ".join(self.render_operand(node, precedence) for node in nodes)

    def render_relation(self, name: str) -> str:
        """Return a relation's name, quoted where necessary."""
        return quote(name) if name in self.bound_names else format_relation(name)

    def with_bound(self, variables: Iterable[PrintableVariable]) -> PrintStyle:
        """Return the style inside a quantifier that binds the variables."""
        return replace(self, bound_names=self.bound_names.union(variable.name for variable in variables))

    def render_quantifier(self, symbol: str, variables: Sequence[PrintableVariable], body: Printable) -> str:
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


def format_relation(name: str) -> str:
    """Return a relation's or attribute's name, quoted where necessary.

    >>> format_relation("borders"), format_relation("has part"), format_relation("/people/born")
    ('borders', "'has part'", '/people/born')
    """
    return name if is_word(name) or is_path(name) else quote(name)

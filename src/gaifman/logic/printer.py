"""How formulas are written out: in Unicode, in ASCII, and with every bracket.

The trees of `formulas` each say how they are shown in a `PrintStyle`; what a style decides is the signs and the brackets.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from gaifman.logic.names import is_path, is_word, quote


class Printable(Protocol):
    """What a style needs to know of a tree."""

    @property
    def precedence(self) -> int:
        """How strongly it binds: ↔ 1, → 2, ∨ 3, ∧ 4, everything else 5."""

    @property
    def extends_right(self) -> bool:
        """Whether a connective written to its right would be read as part of it, as after a quantifier."""

    def render(self, style: PrintStyle, /) -> str:
        """The tree written out."""


class PrintableVariable(Printable, Protocol):
    """A variable."""

    @property
    def name(self) -> str:
        """Its name."""


@dataclass(frozen=True, slots=True)
class PrintStyle:
    """Signs and brackets."""

    symbols: Mapping[str, str] = field(default_factory=dict)
    """Canonical sign → how it is written; itself where it is missing."""
    quantifier_separator: str = " "
    """Between a quantifier's variables and its body."""
    all_brackets: bool = False
    """Whether every bracket is written."""
    bound_names: frozenset[str] = frozenset()
    """Names that a quantifier around has bound: a relation of such a name is quoted, or it would be read as bound."""

    def symbol(self, canonical: str) -> str:
        """A sign as this style writes it."""
        return self.symbols.get(canonical, canonical)

    def render_list(self, trees: Iterable[Printable]) -> str:
        """Trees with commas between."""
        return ", ".join(tree.render(self) for tree in trees)

    def render_operand(self, tree: Printable, precedence: int) -> str:
        """A part of a connective, bracketed where it would be read otherwise."""
        brackets = tree.precedence < precedence or tree.extends_right or (self.all_brackets and tree.precedence < 5)
        return f"({tree.render(self)})" if brackets else tree.render(self)

    def render_operands(self, symbol: str, trees: Iterable[Printable], precedence: int) -> str:
        """The parts of a connective, which bind at least as strongly as `level` or are bracketed."""
        return f" {self.symbol(symbol)} ".join(self.render_operand(tree, precedence) for tree in trees)

    def render_relation(self, name: str) -> str:
        """A relation's name as it stands before `(`."""
        return quote(name) if name in self.bound_names else format_relation(name)

    def with_bound(self, variables: Iterable[PrintableVariable]) -> PrintStyle:
        """The style below a quantifier."""
        return replace(self, bound_names=self.bound_names.union(variable.name for variable in variables))

    def render_quantifier(self, symbol: str, variables: Sequence[PrintableVariable], body: Printable) -> str:
        """A quantifier, its variables and its body, which reaches as far right as it can."""
        brackets = self.all_brackets and body.precedence < 5
        text = body.render(self.with_bound(variables))
        return f"{self.symbol(symbol)}{self.render_list(variables)}{self.quantifier_separator}{f'({text})' if brackets else text}"


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
    """A relation's or attribute's name as it stands before `(`.

    >>> format_relation("borders"), format_relation("has part"), format_relation("/people/born")
    ('borders', "'has part'", '/people/born')
    """
    return name if is_word(name) or is_path(name) else quote(name)

"""How formulas are written out: in Unicode, in ASCII, and with every bracket.

The trees of `formulas` each say how they are shown in a `Style`; what a style decides is the signs and the brackets.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from gaifman.names import is_path, is_word, quote


class Shown(Protocol):
    """What a style needs to know of a tree."""

    @property
    def level(self) -> int:
        """How strongly it binds: ↔ 1, → 2, ∨ 3, ∧ 4, everything else 5."""

    @property
    def swallows(self) -> bool:
        """Whether a connective written to its right would be read as part of it, as after a quantifier."""

    def show(self, style: Style, /) -> str:
        """The tree written out."""


class Named(Shown, Protocol):
    """A variable."""

    @property
    def name(self) -> str:
        """Its name."""


@dataclass(frozen=True, slots=True)
class Style:
    """Signs and brackets."""

    signs: Mapping[str, str] = field(default_factory=dict)
    """Canonical sign → how it is written; itself where it is missing."""
    dot: str = " "
    """Between a quantifier's variables and its body."""
    every: bool = False
    """Whether every bracket is written."""
    bound: frozenset[str] = frozenset()
    """Names that a quantifier around has bound: a relation of such a name is quoted, or it would be read as bound."""

    def sign(self, canonical: str) -> str:
        """A sign as this style writes it."""
        return self.signs.get(canonical, canonical)

    def list(self, trees: Iterable[Shown]) -> str:
        """Trees with commas between."""
        return ", ".join(tree.show(self) for tree in trees)

    def operand(self, tree: Shown, level: int) -> str:
        """A part of a connective, bracketed where it would be read otherwise."""
        brackets = tree.level < level or tree.swallows or (self.every and tree.level < 5)
        return f"({tree.show(self)})" if brackets else tree.show(self)

    def join(self, sign: str, trees: Iterable[Shown], level: int) -> str:
        """The parts of a connective, which bind at least as strongly as `level` or are bracketed."""
        return f" {self.sign(sign)} ".join(self.operand(tree, level) for tree in trees)

    def relation(self, name: str) -> str:
        """A relation's name as it stands before `(`."""
        return quote(name) if name in self.bound else relation_text(name)

    def within(self, variables: Iterable[Named]) -> Style:
        """The style below a quantifier."""
        return replace(self, bound=self.bound.union(variable.name for variable in variables))

    def quantified(self, sign: str, variables: Sequence[Named], body: Shown) -> str:
        """A quantifier, its variables and its body, which reaches as far right as it can."""
        brackets = self.every and body.level < 5
        text = body.show(self.within(variables))
        return f"{self.sign(sign)}{self.list(variables)}{self.dot}{f'({text})' if brackets else text}"


UNICODE = Style()
BRACKETED = Style(every=True)
ASCII = Style(
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
    dot=". ",
)


def relation_text(name: str) -> str:
    """A relation's or attribute's name as it stands before `(`.

    >>> relation_text("borders"), relation_text("has part"), relation_text("/people/born")
    ('borders', "'has part'", '/people/born')
    """
    return name if is_word(name) or is_path(name) else quote(name)

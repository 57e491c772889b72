r"""How names and formulas are written: words and quotes, symbols and brackets.

A name of an object, relation or attribute is any non-empty text. Formulas and `.facts` files quote it only where they
must. Each node of a formula renders itself (`Node.render`); a style decides the symbols and the brackets: Unicode,
ASCII, or with all brackets.

>>> quote("has part"), quote("it's\n")
("'has part'", "'it\\'s\\n'")
>>> unquote(r"'it\'s\n'")
"it's\n"
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

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

r"""The text of a formula, cut into tokens.

>>> [token.kind for token in tokenise("exists x. p(x) && q")]
Traceback (most recent call last):
gaifman.errors.FormulaError: formula, line 1, column 16: && is not used here
  exists x. p(x) && q
                 ^^
hint: and is written ∧, & or the word and
>>> [token.kind for token in tokenise("∃x p(x, 'a b')")]
['∃', 'word', 'word', '(', 'word', ',', 'quoted', ')', 'end']
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, field

from gaifman.config import LIMITS, Limits
from gaifman.errors import FormulaError, LimitError, Place, shorten
from gaifman.formulas import Span
from gaifman.names import KEYWORDS, PATH, WORD, unquote

SPELLINGS = {
    "∧": ("∧", "&", "and"),
    "∨": ("∨", "|", "or"),
    "¬": ("¬", "~", "!", "not"),
    "→": ("→", "⇒", "->", "=>", "implies"),
    "↔": ("↔", "<->", "⇔", "<=>", "iff"),
    "∃": ("∃", "exists"),
    "∀": ("∀", "forall"),
    "≠": ("≠", "!="),
    "≤": ("≤", "<="),
    "≥": ("≥", ">="),
    "-": ("-", "−"),
}
"""Every way to write a sign, the canonical one first."""

MISTAKES = {
    "&&": "and is written ∧, & or the word and",
    "/\\": "and is written ∧, & or the word and",
    "^": "and is written ∧, & or the word and",
    "||": "or is written ∨, | or the word or",
    "\\/": "or is written ∨, | or the word or",
    ";": "or is written ∨, | or the word or",
    "\\+": "not is written ¬, ~, ! or the word not",
    "==": "equality is written =",
    "<>": "inequality is written ≠ or !=",
    "=<": "at most is written ≤ or <=",
    "<-": "a rule is written head(x) :- body",
    "<--": "a rule is written head(x) :- body",
    "∄": "there is none is written ¬∃",
    "∃!": "there is exactly one is written ∃x (p(x) ∧ ∀y (p(y) → x = y))",
}
"""Signs of other languages, and what they are here."""

_CANONICAL = {spelling: kind for kind, spellings in SPELLINGS.items() for spelling in spellings}
_PLAIN = ("(", ")", ",", ".", ":", ":-", "=", "<", ">")
_PUNCTUATION = frozenset("(),.:")
_SIGNS = sorted({*_CANONICAL, *MISTAKES, *_PLAIN} - KEYWORDS, key=len, reverse=True)
_TOKEN = re.compile(
    rf"(?P<space>\s+)|(?P<word>{WORD})|(?P<path>{PATH})|(?P<variable>\?\w+)"
    rf"|(?P<quoted>'(?:[^'\\\n]|\\[^\n])*'|\"(?:[^\"\\\n]|\\[^\n])*\")"
    rf"|(?P<sign><(?=-\d)|{'|'.join(map(re.escape, _SIGNS))})|(?P<other>.)",
    re.DOTALL,
)
_SQL = re.compile(r"\s*(select)\b(?!\s*\()", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Token:
    """`kind` is word, path, variable, quoted or end; a sign or keyword is its own kind, in its canonical spelling."""

    kind: str
    text: str
    start: int

    @property
    def span(self) -> Span:
        """Where it stands in the text."""
        return (self.start, self.start + len(self.text))

    @property
    def name(self) -> str:
        """The name it stands for."""
        if self.kind == "quoted":
            return unquote(self.text)
        return self.text.removeprefix("?") if self.kind == "variable" else self.text

    @property
    def shown(self) -> str:
        """How an error message speaks of it."""
        return shorten(self.text)


def tokenise(text: str, limits: Limits = LIMITS, source: str = "formula") -> list[Token]:
    """All tokens, the last of kind `end`; refuses what is too long before reading it."""
    if len(text) > limits.characters:
        raise LimitError(
            f"the {source} has {len(text):,} characters; the limit is {limits.characters:,}",
            place=Place(source, 1, 1, text[:100]),
        )
    tokens: list[Token] = []
    nodes = 0
    for match in _TOKEN.finditer(text):
        if match.lastgroup == "space":
            continue
        token = _token(match, text, source)
        nodes += token.kind not in _PUNCTUATION
        if nodes > limits.nodes:
            raise LimitError(
                f"the {source} has more than {limits.nodes:,} names and signs, which is the limit",
                place=Place.at(source, text, match.start()),
            )
        tokens.append(token)
    return [*tokens, Token("end", "", len(text.rstrip()))]


def _token(match: re.Match[str], text: str, source: str) -> Token:
    kind, found = str(match.lastgroup), match[0]
    if kind == "other" or found in MISTAKES or found == "_":
        raise _stray(found, Place.at(source, text, match.start(), len(found)))
    if kind == "quoted":
        try:
            unquote(found)
        except ValueError as error:
            place = Place.at(source, text, match.start(), len(found))
            raise FormulaError(str(error), place=place) from None
    if kind == "sign" or found in KEYWORDS:
        kind = _CANONICAL.get(found, found)
    return Token(kind, found, match.start())


def _stray(found: str, place: Place) -> FormulaError:
    if found in MISTAKES:
        return FormulaError(f"{found} is not used here", place=place, hint=MISTAKES[found])
    if found == "_":
        return FormulaError("_ is no variable here", place=place, hint="give each variable a name of its own")
    if found in "'\"":
        return FormulaError(
            f"the quote {found} that opens here is never closed", place=place, hint=f"close it with {found}"
        )
    if found == "?":
        return FormulaError("? begins a variable, and no name follows", place=place, hint="write ?x")
    name = unicodedata.name(found, f"U+{ord(found):04X}").lower()
    return FormulaError(
        f"the character {shorten(found)} ({name}) has no meaning here",
        place=place,
        hint="names with other characters than letters, digits and _ are quoted: 'like this'",
    )


@dataclass(slots=True)
class Cursor:
    """A text's tokens, read from left to right."""

    text: str
    limits: Limits
    source: str
    tokens: list[Token] = field(init=False)
    at: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):
            raise FormulaError(f"a {self.source} is text, not {type(self.text).__name__}")
        if sql := _SQL.match(self.text[:100]):
            place = Place.at(self.source, self.text[:100], sql.start(1), len(sql[1]))
            hint = "write for example: capital(x, y) & borders(x, 'france')"
            raise FormulaError("this looks like SQL", place=place, hint=hint)
        self.tokens = tokenise(self.text, self.limits, self.source)
        if self.token.kind == "end":
            raise FormulaError(f"the {self.source} is empty", hint="write for example: capital(x, y)")

    @property
    def token(self) -> Token:
        return self.tokens[self.at]

    @property
    def following(self) -> Token:
        return self.tokens[min(self.at + 1, len(self.tokens) - 1)]

    def take(self) -> Token:
        token = self.token
        self.at += token.kind != "end"
        return token

    def accept(self, *kinds: str) -> Token | None:
        return self.take() if self.token.kind in kinds else None

    def expect(self, *kinds: str, what: str = "") -> Token:
        """The next token, of one of these kinds; `what` says it in words."""
        if self.token.kind not in kinds:
            raise self.unexpected(*([what] if what else kinds))
        return self.take()

    def error(self, message: str, token: Token | Span, hint: str = "", near: tuple[str, ...] = ()) -> FormulaError:
        start, end = token.span if isinstance(token, Token) else token
        place = Place.at(self.source, self.text, start, end - start)
        return FormulaError(message, place=place, hint=hint, near=near)

    def unexpected(self, *expected: str) -> FormulaError:
        ended = self.token.kind == "end"
        message = f"the {self.source} ends too early" if ended else f"unexpected {self.token.shown}"
        error = self.error(message, self.token, hint=self.advice())
        error.expected = expected
        return error

    def advice(self) -> str:
        """What was most likely meant where something unexpected stands."""
        token = self.token
        lower = token.text.lower()
        if token.kind == "word" and lower in KEYWORDS:
            return f"words of the language are lower case: {lower}"
        if token.kind in KEYWORDS and token.text == token.kind:
            return f"{token.text} is a word of the language; a name is quoted: '{token.text}'"
        if token.kind == ",":
            return "a comma means ∧ only in a rule, after head(x) :-; write & here"
        if token.kind == ":-":
            return "a rule has one head, at its beginning: head(x, y) :- body"
        return ""

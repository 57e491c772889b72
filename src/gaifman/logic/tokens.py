r"""The tokens of a formula, and a stream that reads them.

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

from gaifman.config import DEFAULT_LIMITS, Limits
from gaifman.errors import FormulaError, LimitError, Location, shorten
from gaifman.logic.ast import Span
from gaifman.logic.names import KEYWORDS, PATH, WORD, unquote

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
"""Symbol → its spellings, the canonical one first."""

FOREIGN_SYMBOLS = {
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
"""Symbols of other languages, with a hint what to write instead."""

_CANONICAL = {spelling: kind for kind, spellings in SPELLINGS.items() for spelling in spellings}
_PUNCTUATION_SYMBOLS = ("(", ")", ",", ".", ":", ":-", "=", "<", ">")
_PUNCTUATION = frozenset("(),.:")
_SYMBOLS = sorted({*_CANONICAL, *FOREIGN_SYMBOLS, *_PUNCTUATION_SYMBOLS} - KEYWORDS, key=len, reverse=True)
_TOKEN = re.compile(
    rf"(?P<space>\s+)|(?P<word>{WORD})|(?P<path>{PATH})|(?P<variable>\?\w+)"
    rf"|(?P<quoted>'(?:[^'\\\n]|\\[^\n])*'|\"(?:[^\"\\\n]|\\[^\n])*\")"
    rf"|(?P<symbol><(?=-\d)|{'|'.join(map(re.escape, _SYMBOLS))})|(?P<other>.)",
    re.DOTALL,
)
_SQL = re.compile(r"\s*(select)\b(?!\s*\()", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Token:
    """A token of a formula.

    `kind` is word, path, variable, quoted or end; the kind of a symbol or keyword is its canonical spelling.
    """

    kind: str
    text: str
    start: int

    @property
    def span(self) -> Span:
        """Start and end offset in the text."""
        return (self.start, self.start + len(self.text))

    @property
    def name(self) -> str:
        """The name, without quotes or `?`."""
        if self.kind == "quoted":
            return unquote(self.text)
        return self.text.removeprefix("?") if self.kind == "variable" else self.text

    @property
    def display(self) -> str:
        """The text, shortened for error messages."""
        return shorten(self.text)


def tokenise(text: str, limits: Limits = DEFAULT_LIMITS, source: str = "formula") -> list[Token]:
    """Return all tokens, the last of kind `end`. A text that exceeds the limits is refused."""
    if len(text) > limits.characters:
        raise LimitError(
            f"the {source} has {len(text):,} characters; the limit is {limits.characters:,}",
            location=Location(source, 1, 1, text[:100]),
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
                f"the {source} has more than {limits.nodes:,} names and symbols, which is the limit",
                location=Location.from_offset(source, text, match.start()),
            )
        tokens.append(token)
    return [*tokens, Token("end", "", len(text.rstrip()))]


def _token(match: re.Match[str], text: str, source: str) -> Token:
    kind, written = str(match.lastgroup), match[0]
    if kind == "other" or written in FOREIGN_SYMBOLS or written == "_":
        raise _unexpected_character(written, Location.from_offset(source, text, match.start(), len(written)))
    if kind == "quoted":
        try:
            unquote(written)
        except ValueError as error:
            raise formula_error(source, text, match.span(), str(error)) from None
    if kind == "symbol" or written in KEYWORDS:
        kind = _CANONICAL.get(written, written)
    return Token(kind, written, match.start())


def formula_error(
    source: str, text: str, span: Span, message: str, *, hint: str = "", suggestions: tuple[str, ...] = ()
) -> FormulaError:
    """Return an error at a span of a text; without a location if the text or span is empty."""
    start, end = span
    location = Location.from_offset(source, text, start, end - start) if text and end else None
    return FormulaError(message, location=location, hint=hint, suggestions=suggestions)


def _unexpected_character(symbol: str, location: Location) -> FormulaError:
    if symbol in FOREIGN_SYMBOLS:
        return FormulaError(f"{symbol} is not used here", location=location, hint=FOREIGN_SYMBOLS[symbol])
    if symbol == "_":
        return FormulaError("_ is not a variable", location=location, hint="give each variable its own name")
    if symbol in "'\"":
        return FormulaError(f"the quote {symbol} is not closed", location=location, hint=f"close it with {symbol}")
    if symbol == "?":
        return FormulaError("a variable name is missing after ?", location=location, hint="write ?x")
    name = unicodedata.name(symbol, f"U+{ord(symbol):04X}").lower()
    return FormulaError(
        f"unexpected character {shorten(symbol)} ({name})",
        location=location,
        hint="names with other characters than letters, digits and _ are quoted: 'like this'",
    )


@dataclass(slots=True)
class TokenStream:
    """The tokens of a text, read from left to right."""

    text: str
    limits: Limits
    source: str
    tokens: list[Token] = field(init=False)
    position: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):
            raise FormulaError(f"a {self.source} is text, not {type(self.text).__name__}")
        if sql := _SQL.match(self.text[:100]):
            hint = "write for example: capital(x, y) & borders(x, 'france')"
            raise formula_error(self.source, self.text[:100], sql.span(1), "this looks like SQL", hint=hint)
        self.tokens = tokenise(self.text, self.limits, self.source)
        if self.token.kind == "end":
            raise FormulaError(f"the {self.source} is empty", hint="write for example: capital(x, y)")

    @property
    def token(self) -> Token:
        return self.tokens[self.position]

    @property
    def next_token(self) -> Token:
        return self.tokens[min(self.position + 1, len(self.tokens) - 1)]

    def advance(self) -> Token:
        token = self.token
        self.position += token.kind != "end"
        return token

    def accept(self, *kinds: str) -> Token | None:
        return self.advance() if self.token.kind in kinds else None

    def expect(self, *kinds: str, description: str = "") -> Token:
        """Consume a token of one of these kinds; an error names the kinds, or the `description`."""
        if self.token.kind not in kinds:
            raise self.unexpected(*([description] if description else kinds))
        return self.advance()

    def error(
        self, message: str, token: Token | Span, hint: str = "", suggestions: tuple[str, ...] = ()
    ) -> FormulaError:
        """Return an error at a token or span."""
        span = token.span if isinstance(token, Token) else token
        return formula_error(self.source, self.text, span, message, hint=hint, suggestions=suggestions)

    def unexpected(self, *expected: str) -> FormulaError:
        ended = self.token.kind == "end"
        message = f"the {self.source} ends too early" if ended else f"unexpected {self.token.display}"
        error = self.error(message, self.token, hint=self.hint())
        error.expected = expected
        return error

    def hint(self) -> str:
        """Return what was probably meant at an unexpected token."""
        token = self.token
        lower = token.text.lower()
        if token.kind == "word" and lower in KEYWORDS:
            return f"keywords are lower case: {lower}"
        if token.kind in KEYWORDS and token.text == token.kind:
            return f"{token.text} is a keyword; quote it to use it as a name: '{token.text}'"
        if token.kind == ",":
            return "a comma means ∧ only in a rule, after head(x) :-; write & here"
        if token.kind == ":-":
            return "a rule has one head, at its start: head(x, y) :- body"
        return ""


def strip_comment(line: str) -> str:
    """Return the line up to the first `#` outside quotes."""
    quoted, escaped = "", False
    for at, character in enumerate(line):
        if quoted:
            quoted = "" if character == quoted and not escaped else quoted
            escaped = character == "\\" and not escaped
        elif character in "'\"":
            quoted = character
        elif character == "#" and (at == 0 or line[at - 1].isspace()):
            return line[:at]
    return line

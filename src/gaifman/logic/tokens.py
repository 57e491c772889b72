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
"""Every way to write a sign, the canonical one first."""

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
"""Signs of other languages, and what they are here."""

_CANONICAL = {spelling: kind for kind, spellings in SPELLINGS.items() for spelling in spellings}
_PUNCTUATION_SYMBOLS = ("(", ")", ",", ".", ":", ":-", "=", "<", ">")
_PUNCTUATION = frozenset("(),.:")
_SYMBOLS = sorted({*_CANONICAL, *FOREIGN_SYMBOLS, *_PUNCTUATION_SYMBOLS} - KEYWORDS, key=len, reverse=True)
_TOKEN = re.compile(
    rf"(?P<space>\s+)|(?P<word>{WORD})|(?P<path>{PATH})|(?P<variable>\?\w+)"
    rf"|(?P<quoted>'(?:[^'\\\n]|\\[^\n])*'|\"(?:[^\"\\\n]|\\[^\n])*\")"
    rf"|(?P<sign><(?=-\d)|{'|'.join(map(re.escape, _SYMBOLS))})|(?P<other>.)",
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
    def display(self) -> str:
        """How an error message speaks of it."""
        return shorten(self.text)


def tokenise(text: str, limits: Limits = DEFAULT_LIMITS, source: str = "formula") -> list[Token]:
    """All tokens, the last of kind `end`; refuses what is too long before reading it."""
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
                f"the {source} has more than {limits.nodes:,} names and signs, which is the limit",
                location=Location.from_offset(source, text, match.start()),
            )
        tokens.append(token)
    return [*tokens, Token("end", "", len(text.rstrip()))]


def _token(match: re.Match[str], text: str, source: str) -> Token:
    kind, found = str(match.lastgroup), match[0]
    if kind == "other" or found in FOREIGN_SYMBOLS or found == "_":
        raise _unexpected_character(found, Location.from_offset(source, text, match.start(), len(found)))
    if kind == "quoted":
        try:
            unquote(found)
        except ValueError as error:
            place = Location.from_offset(source, text, match.start(), len(found))
            raise FormulaError(str(error), location=place) from None
    if kind == "sign" or found in KEYWORDS:
        kind = _CANONICAL.get(found, found)
    return Token(kind, found, match.start())


def _unexpected_character(found: str, place: Location) -> FormulaError:
    if found in FOREIGN_SYMBOLS:
        return FormulaError(f"{found} is not used here", location=place, hint=FOREIGN_SYMBOLS[found])
    if found == "_":
        return FormulaError("_ is no variable here", location=place, hint="give each variable a name of its own")
    if found in "'\"":
        return FormulaError(
            f"the quote {found} that opens here is never closed", location=place, hint=f"close it with {found}"
        )
    if found == "?":
        return FormulaError("? begins a variable, and no name follows", location=place, hint="write ?x")
    name = unicodedata.name(found, f"U+{ord(found):04X}").lower()
    return FormulaError(
        f"the character {shorten(found)} ({name}) has no meaning here",
        location=place,
        hint="names with other characters than letters, digits and _ are quoted: 'like this'",
    )


@dataclass(slots=True)
class TokenStream:
    """A text's tokens, read from left to right."""

    text: str
    limits: Limits
    source: str
    tokens: list[Token] = field(init=False)
    position: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):
            raise FormulaError(f"a {self.source} is text, not {type(self.text).__name__}")
        if sql := _SQL.match(self.text[:100]):
            place = Location.from_offset(self.source, self.text[:100], sql.start(1), len(sql[1]))
            hint = "write for example: capital(x, y) & borders(x, 'france')"
            raise FormulaError("this looks like SQL", location=place, hint=hint)
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
        """The next token, of one of these kinds; `what` says it in words."""
        if self.token.kind not in kinds:
            raise self.unexpected(*([description] if description else kinds))
        return self.advance()

    def error(
        self, message: str, token: Token | Span, hint: str = "", suggestions: tuple[str, ...] = ()
    ) -> FormulaError:
        start, end = token.span if isinstance(token, Token) else token
        place = Location.from_offset(self.source, self.text, start, end - start)
        return FormulaError(message, location=place, hint=hint, suggestions=suggestions)

    def unexpected(self, *expected: str) -> FormulaError:
        ended = self.token.kind == "end"
        message = f"the {self.source} ends too early" if ended else f"unexpected {self.token.display}"
        error = self.error(message, self.token, hint=self.hint())
        error.expected = expected
        return error

    def hint(self) -> str:
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


def strip_comment(line: str) -> str:
    """The line up to a `#` that stands in no quotes."""
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

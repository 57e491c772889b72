r"""Names of objects, relations and attributes, and how they are quoted.

A name is any non-empty text. In formulas and `.facts` files it stands bare where it can and quoted where it must.

>>> quote("has part"), quote("it's\n")
("'has part'", "'it\\'s\\n'")
>>> unquote(r"'it\'s\n'")
"it's\n"
"""

from __future__ import annotations

import re
import sys

_SUBSCRIPTS = str.maketrans("₀₁₂₃₄₅₆₇₈₉", "0123456789")
_KEYWORDS = "exists forall not and or implies iff true false each count sum mean min max for"
KEYWORDS = frozenset(_KEYWORDS.split())
"""Words of the formula language: a relation or object so named is quoted."""

WORD = r"[^\W\d]\w*"
"""A bare word: a variable, or a relation where `(` follows."""

PATH = r"(?:\d|/[\w/])(?:[\w/:.#@%$+-]*[\w/])?"
"""A bare name that begins with a digit or `/`: an object, or a relation before `(`. It ends in no punctuation."""

_WORD = re.compile(WORD)
_PATH = re.compile(PATH)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", "'": "'", '"': '"'}
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)", re.DOTALL)


def is_word(name: str) -> bool:
    """Whether a relation of this name can stand bare as a word."""
    return _WORD.fullmatch(name) is not None and name not in KEYWORDS and name != "_"


def fold_subscripts(name: str) -> str:
    """A variable's name with plain digits for subscripts, as in the paper: s₁ is s1.

    >>> fold_subscripts("s₁₂"), fold_subscripts("x²")
    ('s12', 'x²')
    """
    plain = name.translate(_SUBSCRIPTS)
    return plain if is_word(plain) else name


def is_path(name: str) -> bool:
    """Whether the name can stand bare because it begins with a digit or `/`."""
    return _PATH.fullmatch(name) is not None


def quote(name: str) -> str:
    """The name in single quotes, with whatever does not print escaped."""
    return "'" + "".join(_escape(c) for c in name) + "'"


def unquote(quoted: str) -> str:
    """The name that a quoted text stands for; ValueError, with words, where it can be no name."""
    name = _ESCAPE.sub(_unescape, quoted[1:-1])
    if problem := name_problem(name):
        raise ValueError(problem)
    return name


def name_problem(name: str) -> str:
    """Why this text can be no name, or nothing.

    >>> name_problem("ada"), name_problem("")
    ('', 'a name cannot be empty')
    """
    if not name:
        return "a name cannot be empty"
    if "\0" in name:
        return "a name cannot hold the character NUL"
    if any("\ud800" <= character <= "\udfff" for character in name):
        return "a name cannot hold half of a surrogate pair"
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
            raise ValueError(f"there is no character {match[0]}")
        return chr(code)
    if text not in _ESCAPES:
        raise ValueError(f"\\{text} stands for no character; a backslash itself is written \\\\")
    return _ESCAPES[text]

r"""Names of objects, relations and attributes, and how they are quoted.

A name is any non-empty text. Formulas and `.facts` files quote a name only where they must.

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

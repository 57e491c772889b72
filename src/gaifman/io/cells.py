"""The cells of tables: which texts are numbers, and their values."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import numpy as np

from gaifman.errors import InputError, Location, shorten
from gaifman.kb.tables import Floats

DECIMAL: Final = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
"""A decimal number."""
WHOLE: Final = re.compile(r"[+-]?\d+(?:\.0*)?", re.ASCII)
"""A whole number. Programs that mark missing numbers by NaN write 7 as 7.0."""
COMMA_NUMBER: Final = re.compile(r"[+-]?(?:\d[\d.' ]*)?\d,\d[\d,.]*", re.ASCII)
"""A number with a decimal comma, or with commas between thousands."""

COMMA_HINT: Final = "write 80.5 for 80,5 and 1234 for 1,234"


def is_number(text: str) -> bool:
    """Return whether the text is a decimal number, infinite or NaN.

    >>> is_number("80.5"), is_number("nan"), is_number("80,5")
    (True, True, False)
    """
    text = text.strip()
    return DECIMAL.fullmatch(text) is not None or text.lower().lstrip("+-") in ("nan", "inf", "infinity")


def are_whole(cells: Iterable[str]) -> bool:
    """Return whether the cells are whole numbers, at least one, but for empty ones.

    >>> are_whole(["7", "", "8.0"]), are_whole(["7", "x"]), are_whole(["", ""])
    (True, False, False)
    """
    found = [cell for cell in cells if cell]
    return bool(found) and all(map(WHOLE.fullmatch, found))


def parse_numbers(texts: Sequence[str], locate: Callable[[int], Location]) -> Floats:
    """Return the texts as numbers, shape (texts,)."""
    try:
        numbers = np.fromiter(map(float, texts), np.float64, len(texts))
        if np.isfinite(numbers).all() and not any("_" in text for text in texts):
            return numbers
    except ValueError:
        pass
    for row, text in enumerate(texts):
        if not DECIMAL.fullmatch(text.strip()) or not np.isfinite(float(text)):
            hint = COMMA_HINT if COMMA_NUMBER.fullmatch(text.strip()) else ""
            raise InputError(f"not a finite number: {shorten(repr(text))}", location=locate(row), hint=hint)
    return numbers

"""Every setting, explained once."""

from __future__ import annotations

from dataclasses import dataclass

from gaifman.errors import GaifmanError

PLACES = 8
"""Places a relation can have."""

DEEPEST = 128
"""No setting allows deeper formulas: the functions on trees are recursive, and Python's stack is finite."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What is refused because of its size.

    >>> Limits(depth=100).depth
    100
    """

    characters: int = 8_192
    """Length of a formula's text."""
    depth: int = 64
    """Nesting of a formula: `¬¬p(x)` has depth 3. At most 128."""
    nodes: int = 1_000
    """Atoms, connectives, quantifiers and terms of a formula."""
    variables: int = 16
    """Different variable names of a formula."""
    line: int = 1_048_576
    """Bytes of one line of a file."""

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if getattr(self, name) < 1:
                raise GaifmanError(f"the limit {name} must be at least 1, not {getattr(self, name)}")
        if self.depth > DEEPEST:
            raise GaifmanError(f"the limit depth can be at most {DEEPEST}, not {self.depth}")


LIMITS = Limits()
"""The limits used where none are given."""

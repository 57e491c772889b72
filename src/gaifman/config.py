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


@dataclass(frozen=True, slots=True)
class Budget:
    """What a query may take.

    >>> Budget(seconds=0.5).seconds
    0.5
    """

    seconds: float | None = None
    """Time until it is stopped; None for as long as it takes."""
    rows: int | None = None
    """Answers that are given at most; None for all."""
    combinations: int = 1_000_000_000
    """Combinations of objects that variables not tied to facts may imply."""

    def __post_init__(self) -> None:
        for name in self.__slots__:
            value = getattr(self, name)
            right = isinstance(value, int | (float if name == "seconds" else int)) and value > 0
            if value is not None and (not right or isinstance(value, bool)):
                raise GaifmanError(f"the limit {name} of a query is a number above 0, not {value!r}")


BUDGET = Budget()
"""What a query may take where nothing is said: time and rows without end, a billion combinations."""

LIMITS = Limits()
"""The limits used where none are given."""

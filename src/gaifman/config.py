"""Every setting, explained once."""

from __future__ import annotations

from dataclasses import dataclass

from gaifman.errors import GaifmanError

MAX_ARITY = 8
"""Places a relation can have."""

MAX_QUERY_SECONDS = 31_536_000
"""Seconds of a query at most, a year: no clock of the system waits for infinity."""

MAX_FORMULA_DEPTH = 128
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
        if self.depth > MAX_FORMULA_DEPTH:
            raise GaifmanError(f"the limit depth can be at most {MAX_FORMULA_DEPTH}, not {self.depth}")


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
        if self.seconds is not None and self.seconds > MAX_QUERY_SECONDS:
            hint = "None is for as long as it takes"
            raise GaifmanError(f"a query takes at most {MAX_QUERY_SECONDS:,} seconds, not {self.seconds!r}", hint=hint)


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """What a server gives to one request, and to all of them.

    >>> ServerLimits(seconds=2.5).seconds
    2.5
    """

    seconds: float = 10.0
    """Time for a request, waiting included; then its work is stopped."""
    max_rows: int = 1_000
    """Rows of a page, answers of a ranking and members of a neighbourhood at most."""
    max_body_bytes: int = 2_000_000
    """Bytes of a request's body."""
    max_concurrency: int = 16
    """Requests of one kind that are worked on at a time; additions go one by one."""
    max_queued: int = 64
    """Requests of one kind that wait for that; a further one is refused."""
    max_open_requests: int = 512
    """Requests that are there at all, also those that are still being read; a further one is refused."""
    max_draws: int = 100
    """Neighbourhoods that one answer is averaged over, or that are drawn around one tuple, at most."""
    max_members: int = 10_000
    """Members of all neighbourhoods that are drawn for one request, and facts inside them all."""
    max_candidates: int = 100_000
    """Candidates for several variables at most."""
    max_radius: int = 3
    """How far a neighbourhood reaches at most."""
    max_new_facts: int = 1_000
    """Facts that are added at once."""
    max_name_length: int = 1_000
    """Characters of a name that is added, or looked for."""

    def __post_init__(self) -> None:
        for name in self.__slots__:
            value = getattr(self, name)
            right = isinstance(value, int | (float if name == "seconds" else int)) and value > 0
            if not right or isinstance(value, bool):
                raise GaifmanError(f"the limit {name} of a server is a number above 0, not {value!r}")
            if value > SERVER_MAXIMA[name]:
                raise GaifmanError(f"the limit {name} of a server is at most {SERVER_MAXIMA[name]:,}, not {value!r}")


SERVER_MAXIMA = {
    "seconds": 86_400,
    "max_rows": 1_000_000,
    "max_body_bytes": 1_000_000_000,
    "max_concurrency": 1_000,
    "max_queued": 100_000,
    "max_open_requests": 100_000,
    "max_draws": 10_000,
    "max_members": 10_000_000,
    "max_candidates": 1_000_000_000,
    "max_radius": 100,
    "max_new_facts": 1_000_000,
    "max_name_length": 1_000_000,
}
"""What each limit of a server can be at most: above it no machine does what was asked for."""

DEFAULT_SERVER_LIMITS = ServerLimits()
"""The limits of a server where nothing else is said."""

DEFAULT_BUDGET = Budget()
"""What a query may take where nothing is said: time and rows without end, a billion combinations."""

DEFAULT_LIMITS = Limits()
"""The limits used where none are given."""

"""Limits and budgets, and the checks that every setting goes through."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Collection
from dataclasses import dataclass
from numbers import Integral, Real

from gaifman.errors import KnowledgeBaseError, shorten, similar_names

MAX_ARITY = 8
"""Largest arity of a relation."""

MAX_SEED = 2**64 - 1
"""Largest seed: random keys have 64 bits."""

MAX_INT = 2**62
"""Largest value of an integer setting that has no other limit: it fits into 64 bits, also with one added."""

MAX_THREADS = 1_024
"""Largest number of threads."""

MAX_QUERY_SECONDS = 31_536_000
"""Longest time limit of a query, one year: the system's timers do not accept infinity."""

MAX_FORMULA_DEPTH = 128
"""Upper bound of `Limits.depth`: the functions on formulas are recursive, and Python's stack is finite."""

ProgressCallback = Callable[[str, int, int | None], None]
"""Called with the phase, the amount done and the total, or None if the total is not known."""


def check_int(
    name: str, value: object, minimum: int, maximum: int | None = None, *, limit: int = MAX_INT, hint: str = ""
) -> None:
    """Refuse a setting that is not an integer of at least `minimum` and at most `maximum`.

    `limit` bounds a setting without a maximum: what computers can do, which only too large a value mentions.

    >>> check_int("min_examples", -1, 0)
    Traceback (most recent call last):
    ...
    gaifman.errors.KnowledgeBaseError: min_examples must be an integer of at least 0, got -1
    """
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not whole or not minimum <= value <= (limit if maximum is None else maximum):  # type: ignore[operator]
        allowed = f"of at least {minimum:,}" if maximum is None else f"from {minimum:,} to {maximum:,}"
        if whole and maximum is None and value > minimum:  # type: ignore[operator]
            allowed = f"of at most {limit:,}"
        raise KnowledgeBaseError(f"{name} must be an integer {allowed}, got {shorten(repr(value))}", hint=hint)


def check_seed(seed: object) -> None:
    """Refuse a seed that is not an unsigned 64-bit integer."""
    check_int("seed", seed, 0, MAX_SEED)


def check_fraction(name: str, value: object, *, zero: bool = True, one: bool = True) -> None:
    """Refuse a setting that is not a number from 0 to 1; `zero` and `one` say whether the ends are allowed.

    >>> check_fraction("holdout", 1, one=False)
    Traceback (most recent call last):
    ...
    gaifman.errors.KnowledgeBaseError: holdout must be a number, at least 0 and below 1, got 1
    """
    number = isinstance(value, Real) and not isinstance(value, bool)
    if not number or not 0 <= value <= 1 or (value == 0 and not zero) or (value == 1 and not one):  # type: ignore[operator]
        lower, upper = "at least 0" if zero else "above 0", "at most 1" if one else "below 1"
        raise KnowledgeBaseError(f"{name} must be a number, {lower} and {upper}, got {shorten(repr(value))}")


def check_positive(name: str, value: object, maximum: float | None = None, *, hint: str = "") -> None:
    """Refuse a setting that is not a finite number above 0 and at most `maximum`.

    >>> check_positive("learning_rate", 0.0)
    Traceback (most recent call last):
    ...
    gaifman.errors.KnowledgeBaseError: learning_rate must be a number above 0, got 0.0
    """
    number = isinstance(value, Real) and not isinstance(value, bool)
    if not number or not 0 < value < math.inf or (maximum is not None and value > maximum):  # type: ignore[operator]
        allowed = "above 0" if maximum is None else f"above 0 and at most {maximum:,}"
        raise KnowledgeBaseError(f"{name} must be a number {allowed}, got {shorten(repr(value))}", hint=hint)


def check_choice(name: str, value: object, choices: Collection[str]) -> None:
    """Refuse a setting that is not one of the choices, with suggestions.

    >>> check_choice("hide", "link", ["facts", "links"])
    Traceback (most recent call last):
    ...
    gaifman.errors.KnowledgeBaseError: hide must be one of facts, links, got 'link'
    did you mean: links
    """
    if not isinstance(value, str) or value not in choices:
        suggestions = similar_names(value, choices) if isinstance(value, str) else ()
        message = f"{name} must be one of {', '.join(choices)}, got {shorten(repr(value))}"
        raise KnowledgeBaseError(message, suggestions=suggestions)


def check_threads(threads: int | None) -> int:
    """Return the number of threads: all processors for None. Refuse what is not an integer from 1 to 1,024."""
    if threads is None:
        return cpu_count()
    check_int("threads", threads, 1, limit=MAX_THREADS)
    return int(threads)


def cpu_count() -> int:
    """Return the number of processors this process may use: the default number of threads."""
    return len(os.sched_getaffinity(0))


@dataclass(frozen=True, slots=True)
class Limits:
    """Largest sizes of a formula and of what is read from files and databases.

    >>> Limits(depth=100).depth
    100
    """

    characters: int = 8_192
    """Length of a formula's text, in characters."""
    depth: int = 64
    """Nesting of a formula: `¬¬p(x)` has depth 3. At most 128."""
    nodes: int = 1_000
    """Number of atoms, connectives, quantifiers and terms of a formula."""
    variables: int = 16
    """Number of distinct variables of a formula."""
    line: int = 1_048_576
    """Length of a line of a file, in bytes."""
    bytes: int = 10_000_000_000
    """Size of a file after decompression, and of what is read from a pipe or standard input."""
    expansion: int = 250
    """How many times larger decompression may make a file of more than 100 MB; usual is 3 to 30."""
    facts: int = 200_000_000
    """Number of facts and values in all files that are read together, repeated ones included."""
    database_seconds: int = 600
    """Time until a table or view of a database gives its next rows."""

    def __post_init__(self) -> None:
        for name in self.__slots__:
            check_int(f"Limits.{name}", getattr(self, name), 1, MAX_FORMULA_DEPTH if name == "depth" else None)


@dataclass(frozen=True, slots=True)
class Budget:
    """Time, rows and combinations that a query may use.

    >>> Budget(seconds=0.5).seconds
    0.5
    """

    seconds: float | None = None
    """Time limit; None for none."""
    rows: int | None = None
    """Largest number of answers; None for all."""
    combinations: int = 1_000_000_000
    """Largest number of combinations of objects for variables that no positive atom restricts."""

    def __post_init__(self) -> None:
        if self.seconds is not None:
            check_positive("Budget.seconds", self.seconds, MAX_QUERY_SECONDS, hint="None for no time limit")
        if self.rows is not None:
            check_int("Budget.rows", self.rows, 1)
        check_int("Budget.combinations", self.combinations, 1, limit=10**100)


DEFAULT_BUDGET = Budget()
"""No limit on time or rows, a billion combinations."""

DEFAULT_LIMITS = Limits()

FILE_LIMITS = ("line", "bytes", "expansion", "facts", "database_seconds")
"""The limits of what is read from files and databases."""


def raise_limit_hint(name: str) -> str:
    """Return how to raise one of the file limits.

    >>> raise_limit_hint("facts")
    'to allow more: --limit facts=NUMBER, in Python limits=gaifman.Limits(facts=NUMBER)'
    """
    return f"to allow more: --limit {name}=NUMBER, in Python limits=gaifman.Limits({name}=NUMBER)"

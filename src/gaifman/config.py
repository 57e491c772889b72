"""What callers give: settings, limits, budgets and deadlines, and the checks of settings and of all public arguments.

`checked` compares arguments with the annotations of a function, `checked_methods` does so for a class. A wrong type is
one clear error, not a traceback from within:

>>> @checked
... def greet(name: str) -> str:
...     return f"hello {name}"
>>> greet(5)
Traceback (most recent call last):
...
gaifman.errors.ArgumentError: name must be a string, got 5

The ranges of numbers are checked by `check_int`, `check_fraction` and `check_positive`.
"""

from __future__ import annotations

import functools
import inspect
import math
import os
import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from numbers import Integral, Real
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, ParamSpec, TypeVar, Union, get_args, get_origin

from gaifman.errors import ArgumentError, KnowledgeBaseError, StoppedError, shorten, similar_names
from gaifman.threads import cached_property

MAX_ARITY = 8
"""Largest arity of a relation."""

MAX_SEED = 2**64 - 1
"""Largest seed: random keys have 64 bits."""

MAX_INT = 2**62
"""Largest value of an integer setting that has no other limit: it fits into 64 bits, also with one added."""

MAX_THREADS = 1_024
"""Largest number of threads."""

MAX_RADIUS = 1_000_000
"""Largest radius of a neighbourhood: further than any two objects of a knowledge base are apart."""

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


def check_radius(radius: int) -> None:
    """Refuse a radius that is not an integer from 0 to `MAX_RADIUS`."""
    hint = "r=1 takes the objects that share a fact with one of the tuple; r=0 takes the tuple's own objects only"
    check_int("radius", radius, 0, limit=MAX_RADIUS, hint=hint)


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


MIN_SECONDS = 0.001
"""Shortest time limit of a query inside a computation."""


class Deadline:
    """A time limit that can also be cancelled, shared by all steps of a computation.

    Long computations check it between their steps. A database statement inside gets the time that remains.

    >>> deadline = Deadline(seconds=10)
    >>> deadline.check()
    >>> deadline.cancel()
    >>> deadline.check()
    Traceback (most recent call last):
    ...
    gaifman.errors.StoppedError: the work was cancelled
    """

    def __init__(self, seconds: float | None = None) -> None:
        """The deadline is `seconds` from now; None for no time limit."""
        if seconds is not None:
            check_positive("seconds", seconds)
        self.seconds = seconds
        self._end = None if seconds is None else time.monotonic() + seconds
        self.cancelled: Future[None] = Future()
        """Done when the deadline was cancelled; a thread that waits for a statement waits for this too."""

    @property
    def remaining(self) -> float | None:
        """Seconds until the deadline, 0 if it has passed; None without a time limit."""
        return None if self._end is None else max(0.0, self._end - time.monotonic())

    def cancel(self) -> None:
        """Make every later `check` raise, and stop the statements that run inside `activate`."""
        with suppress(InvalidStateError):  # it was cancelled before
            self.cancelled.set_result(None)

    @contextmanager
    def activate(self) -> Iterator[None]:
        """Apply the deadline to all database statements that this thread runs inside the `with` block."""
        token = _CURRENT.set(self)
        try:
            yield
        finally:
            _CURRENT.reset(token)

    def check(self) -> None:
        """Raise `StoppedError` if the deadline has passed or was cancelled."""
        if self.cancelled.done():
            raise StoppedError("the work was cancelled")
        if self.remaining == 0:
            raise StoppedError(
                f"the query was stopped after {self.seconds:g} seconds",
                hint="ask for less, bind some variables, or allow more time",
            )

    def limit_budget(self, budget: Budget = DEFAULT_BUDGET) -> Budget:
        """Return the budget with no more time than remains."""
        Deadline.check(self)
        remaining = self.remaining
        return budget if remaining is None else replace(budget, seconds=max(MIN_SECONDS, round(remaining, 3)))


_CURRENT: ContextVar[Deadline | None] = ContextVar("deadline", default=None)
"""A context variable, because the functions between a request and the database know only a budget."""


def current_deadline() -> Deadline | None:
    """Return the deadline of the database statements of this thread."""
    return _CURRENT.get()


def no_deadline() -> Deadline:
    """Return a deadline without a time limit."""
    return Deadline()


# Public arguments

P = ParamSpec("P")
R = TypeVar("R")
Class = TypeVar("Class")
Check = Callable[[object], bool]
"""Returns whether a value fits an annotation."""

_WORDS = {
    str: "a string",
    bool: "true or false",
    int: "an integer",
    float: "a number",
    Path: "a path",
    NoneType: "None",
    tuple: "a tuple",
    Any: "anything",
    object: "anything",
}


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """Return the function with a check of its arguments: those of a wrong type raise `ArgumentError`."""
    rules = _Rules(function)

    @functools.wraps(function)
    def call(*arguments: P.args, **named: P.kwargs) -> R:
        for check, value in zip(rules.positional, arguments, strict=False):
            if not check(value):
                raise rules.error(arguments, named)
        if named or len(arguments) > len(rules.positional):
            rules.check_rest(arguments, named)
        return function(*arguments, **named)

    return call


def unchecked(function: Callable[P, R]) -> Callable[P, R]:
    """Mark a method that checks its arguments itself, because it is called for every name of a long list."""
    function.unchecked = True  # type: ignore[attr-defined]
    return function


def checked_methods(cls: type[Class]) -> type[Class]:
    """Check the arguments of the constructor and of all public methods that the class defines."""
    for name, member in list(vars(cls).items()):
        if (name.startswith("_") and name != "__init__") or getattr(member, "unchecked", False):
            continue
        if isinstance(member, classmethod | staticmethod):
            setattr(cls, name, type(member)(checked(member.__func__)))
        elif inspect.isfunction(member):
            setattr(cls, name, checked(member))
    return cls


class _Rules:
    """The checks of a function's parameters, made at its first call: an annotation may name what is defined later."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function, self._parameters = function, inspect.signature(function).parameters
        parameters = self._parameters.values()
        self._names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        self._rest = next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), "")
        self._keywords = next((p.name for p in parameters if p.kind is p.VAR_KEYWORD), "")
        self._checks: dict[str, Check] = {}

    @cached_property
    def positional(self) -> list[Check]:
        """The checks of the parameters that have a position."""
        return [self._check(name) for name in self._names]

    def check_rest(self, arguments: Sequence[object], named: Mapping[str, object]) -> None:
        """Check the arguments of `*rest`, and those given by name."""
        rest = arguments[len(self._names) :] if self._rest else ()
        if not all(self._check(self._rest)(value) for value in rest):
            raise self.error(arguments, named)
        if not all(self._check(name)(value) for name, value in named.items()):
            raise self.error(arguments, named)

    def error(self, arguments: Sequence[object], named: Mapping[str, object]) -> ArgumentError:
        """Return the error of the first argument that does not fit."""
        names = [*self._names, *[self._rest] * (len(arguments) - len(self._names))]
        given = [*zip(names, arguments, strict=False), *named.items()]
        name, value = next((name, value) for name, value in given if not self._check(name)(value))
        annotation = self._annotation(name)
        message = f"{name} must be {describe_type(annotation)}, got {describe_value(value)}"
        if name == self._rest and isinstance(value, tuple | list):
            hint = f"give them one by one: {self._function.__name__}({shorten(', '.join(map(repr, value)))})"
        else:
            hint = self._order_hint(name, value, dict(given)) or _hint(annotation, value)
        return ArgumentError(message, hint=hint)

    def _check(self, name: str) -> Check:
        if name not in self._checks:
            self._checks[name] = _make_check(self._annotation(name))
        return self._checks[name]

    def _annotation(self, name: str) -> Any:
        """Return the annotation of a parameter; an unknown keyword has that of `**keywords`."""
        own = name if name in self._parameters else self._keywords
        annotation = self._function.__annotations__.get(own, Any)
        if not isinstance(annotation, str):
            return annotation
        scope = inspect.unwrap(self._function).__globals__
        return eval(annotation, scope)  # noqa: S307 - our own source text

    def _order_hint(self, name: str, value: object, given: Mapping[str, object]) -> str:
        """Return a hint if two arguments were exchanged."""
        for other, found in given.items():
            if other in ("self", "cls", name, self._rest) or isinstance(found, int | float) or found is None:
                continue
            if self._check(name)(found) and self._check(other)(value):
                return f"the order is {', '.join(n for n in self._names if n not in ('self', 'cls'))}"
        return ""


def _make_check(annotation: Any) -> Check:
    """Return the check of an annotation; what cannot be checked fits."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin in (Union, UnionType):
        checks = tuple(map(_make_check, inner))
        return lambda value: any(check(value) for check in checks)
    kind = NoneType if annotation is None else origin or annotation
    if kind is Callable:
        return callable
    if kind is bool:
        return lambda value: isinstance(value, int) or type(value).__name__ == "bool"  # numpy's
    if not isinstance(kind, type) or kind in (Any, object, int, float):
        return _fits
    if kind is Path:
        return lambda value: isinstance(value, os.PathLike)
    if kind is not tuple and kind is not str and issubclass(kind, Iterable) and inspect.isabstract(kind):
        return _make_container_check(kind, inner)
    return lambda value: isinstance(value, kind) and not isinstance(value, type)


def _make_container_check(kind: type, inner: tuple[Any, ...]) -> Check:
    """Return the check of an iterable: a string is not one.

    The keys and values of a mapping are checked, and the elements of a collection if all have one class. Others, such
    as facts, are checked where they are used.
    """
    if issubclass(kind, Mapping) and inner:
        key, item = map(_make_check, inner)
        return lambda value: isinstance(value, kind) and all(key(k) and item(v) for k, v in value.items())
    element = _make_check(inner[0]) if inner and isinstance(inner[0], type) and not get_origin(inner[0]) else _fits

    def check(value: object) -> bool:
        if not isinstance(value, kind) or isinstance(value, str | bytes):
            return False
        return element is _fits or not isinstance(value, Collection) or all(map(element, value))

    return check


def _fits(_: object) -> bool:
    return True


def describe_type(annotation: Any) -> str:
    """Return an annotation in words.

    >>> describe_type(str | Path | None), describe_type(Sequence[str])
    ('a string, a path or None', 'a sequence of strings')
    """
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin in (Union, UnionType):
        words = list(dict.fromkeys(map(describe_type, inner)))
        return " or ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else words[0]
    kind = NoneType if annotation is None else origin or annotation
    if kind is Callable:
        return "a function"
    if kind in _WORDS:
        return _WORDS[kind]
    if isinstance(kind, type) and issubclass(kind, Iterable) and inspect.isabstract(kind):
        noun = "a sequence" if issubclass(kind, Sequence) else "an iterable"
        noun = "a mapping" if issubclass(kind, Mapping) else noun
        return f"{noun} of {' to '.join(_plural(describe_type(each)) for each in inner)}" if inner else noun
    name = getattr(kind, "__name__", str(kind)).removeprefix("Has")
    return f"{'an' if name[:1] in 'AEIOU' else 'a'} {name}"


def _plural(words: str) -> str:
    """Return the nouns of a description in the plural.

    >>> _plural("a string, a Fact or None"), _plural("a sequence of strings")
    ('strings, Facts or None', 'sequences of strings')
    """
    one = re.compile(r"\b(?:a|an) (\w+)")
    return one.sub(lambda match: match[1] + ("es" if match[1].endswith("s") else "s"), words)


def describe_value(value: object) -> str:
    """Return a value for a message: a short text of a plain one, the type of another.

    >>> describe_value("demo"), describe_value(Path("kb.tsv"))
    ("'demo'", 'a PosixPath')
    """
    if value is None or isinstance(value, str | bytes | int | float | tuple | list | dict | set):
        return shorten(repr(value))
    name = value.__name__ if isinstance(value, type) else type(value).__name__
    return f"the class {name}" if isinstance(value, type) else f"{'an' if name[:1] in 'AEIOU' else 'a'} {name}"


def _hint(annotation: Any, value: object) -> str:
    """Return what to write instead."""
    expected = describe_type(annotation)
    if "KnowledgeBase" in expected:
        if isinstance(value, str | os.PathLike):
            source = os.fspath(value)
            reader = "gaifman.demo()" if source == "demo" else f"gaifman.read({source!r})"
            return f"read it first: {reader}"
        if hasattr(value, "kb"):
            return "take its knowledge base, .kb"
        return "gaifman.read(file) reads one, KnowledgeBase.from_facts(facts) makes one"
    if "BaseModel" in expected and hasattr(value, "predict_proba"):
        return f"wrap it: gaifman.models.SklearnModel({type(value).__name__}(…))"
    if "BaseModel" in expected and hasattr(value, "parameters"):
        return "wrap it: gaifman.models.TorchModel(module)"
    if isinstance(value, str) and expected.startswith(("a sequence of strings", "an iterable of strings")):
        return f"write [{shorten(value)!r}]"
    if "Query" in expected:
        return 'write a formula, as in "borders(x, y)"'
    return ""


# Training examples and drawn neighbourhoods

HIDE_MODES = ("auto", "facts", "links")
"""What to hide: the facts that make an answer true, or also all facts between its objects. `auto` is `facts` where
nothing is chosen by validation facts."""
NEGATIVE_SAMPLING = ("uniform", "typed", "mixed")
"""Where replacements are drawn from: all objects; objects that answers have at the position; one of the two at random.
"""
MAX_PER_ANSWER = 100_000
"""Largest number of neighbourhoods or negatives of one answer."""
MAX_DRAWS = 1_000_000
"""Largest number of draws for one tuple: they are in memory together."""


@dataclass(frozen=True, slots=True)
class ExampleConfig:
    """How many examples to make, and how."""

    positives: int = 5
    """w: neighbourhoods drawn for each answer."""
    negatives: int = 25
    """w̃: negatives of each answer, with one neighbourhood each."""
    negative_sampling: str = "mixed"
    """Where replacements come from: `uniform`, `typed` or `mixed`; see `gaifman.sampling.negatives`."""
    hide: str = "auto"
    """`facts`, or `links` to also hide every fact between two objects of the tuple or of its answer. `auto` is `facts`,
    or what validation facts choose."""
    holdout: float = 0.1
    """The fraction of answers that is held out; none of fewer than 10 answers."""
    max_held_out: int = 1_000
    """Largest number of held-out answers."""
    seed: int = 0
    block_size: int = 256
    """Answers per block."""
    hard_negative_fraction: float = 0.0
    """The fraction of hard negatives: the new object is a few steps from one that stays."""

    def __post_init__(self) -> None:
        for name, minimum in (("positives", 1), ("negatives", 0)):
            check_int(name, getattr(self, name), minimum, limit=MAX_PER_ANSWER)
        for name, minimum in (("max_held_out", 0), ("block_size", 1)):
            check_int(name, getattr(self, name), minimum)
        check_seed(self.seed)
        check_choice("negative_sampling", self.negative_sampling, NEGATIVE_SAMPLING)
        check_fraction("hard_negative_fraction", self.hard_negative_fraction)
        check_choice("hide", self.hide, HIDE_MODES)
        check_fraction("holdout", self.holdout, one=False)


@dataclass(frozen=True, slots=True)
class SamplingConfig:
    """How to draw neighbourhoods. The paper calls the settings r, k and w."""

    radius: int = 1
    """r: the largest distance of a member from an object of the tuple."""
    size: int | None = 20
    """k: the largest number of members besides the tuple's own objects; None for all."""
    draws: int = 1
    """w: the number of neighbourhoods of each tuple."""
    seed: int = 0
    purpose: str = "draw"
    """What the draws are for. Another purpose gives other draws for the same seed."""
    shared_order: bool = False
    """Whether all tuples with the same object at the same position share its random order.

    Each tuple has the same distribution. Draws of different tuples are not independent, and work can be shared.
    """

    def __post_init__(self) -> None:
        check_radius(self.radius)
        if self.size is not None:
            hint = "the tuple's own objects are always members: r=0 takes them alone, k=None all objects within r"
            check_int("size", self.size, 1, hint=hint)
        check_int("draws", self.draws, 1, MAX_DRAWS)
        check_seed(self.seed)

"""The check of arguments at the public door: a wrong type is one clear error, not a traceback from within.

>>> @checked
... def greet(name: str) -> str:
...     return f"hello {name}"
>>> greet(5)
Traceback (most recent call last):
...
gaifman.errors.ArgumentError: name must be a string, got 5

`checked` compares arguments with the annotations of a function; `checked_methods` does so for a class. Numbers are
left to `gaifman.config`, which checks their range too.
"""

from __future__ import annotations

import functools
import inspect
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, ParamSpec, TypeVar, Union, get_args, get_origin

from gaifman.errors import ArgumentError, shorten
from gaifman.forks import cached_property

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

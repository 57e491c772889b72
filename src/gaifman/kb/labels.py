"""Labels and prefixes: how objects are shown, and how they are found by what a person types.

>>> from gaifman.kb.tables import SortedNames
>>> labels = {"Q142": "France", "Q230": "Georgia", "Q1428": "Georgia"}
>>> display = Display(SortedNames(["Q142", "Q230", "Q1428", "Q90"]), labels, {"ex": "http://example.org/"})
>>> [display.show(name) for name in ("Q142", "Q230", "Q90")]
['France', 'Georgia (Q230)', 'Q90']
>>> display.find("France"), display.find("Georgia (Q230)"), display.find("Georgia")
(('Q142',), ('Q230',), ('Q1428', 'Q230'))

An object is shown by its label. Where another object has the same label, or that name, the name follows in brackets. No
two objects are shown alike, and what is shown finds the object again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Protocol, TypeVar, cast

from gaifman.errors import similar_names
from gaifman.logic.ast import Constant, Node, map_children, walk
from gaifman.threads import cached_property

Labels = Mapping[str, str]
"""Object → its label."""
Prefixes = Mapping[str, str]
"""Prefix → the start of an IRI that it stands for."""
NOTHING: Mapping[str, str] = MappingProxyType({})
"""No labels, or no prefixes."""

_LOCAL = re.compile(r"\w(?:[\w.-]*[\w-])?")
"""The part of an IRI after a prefix; others are not shortened."""
_PREFIX = re.compile(r"(?:[^\W_][\w.-]*)?")

N = TypeVar("N", bound=Node)


class _Fact(Protocol):
    """A fact, which is defined above this module."""

    @property
    def objects(self) -> tuple[str, ...]:
        """Its objects."""

    def _replace(self, *, objects: tuple[str, ...]) -> _Fact: ...


F = TypeVar("F", bound=_Fact)


def label_fact(fact: F, labels: Labels) -> F:
    """Return a fact with labels for its objects, to be shown."""
    return cast(F, fact._replace(objects=label_names(fact.objects, labels))) if labels else fact


def label_names(names: Iterable[str], labels: Labels) -> tuple[str, ...]:
    """Return names as they are shown: labels for objects that have one.

    >>> label_names(["Q142", "Q90"], {"Q142": "France"})
    ('France', 'Q90')
    """
    return tuple(labels.get(name, name) for name in names)


def label_formula(node: N, labels: Labels) -> N:
    """Return a formula with labels for its objects, to be shown."""
    if not labels:
        return node
    if isinstance(node, Constant):
        return Constant(labels.get(node.name, node.name), span=node.span)  # type: ignore[return-value]
    return map_children(node, lambda part: label_formula(part, labels))


def constants_of(node: Node) -> Iterator[str]:
    """Yield the objects that a formula names."""
    return (part.name for part in walk(node) if isinstance(part, Constant))


def chosen_labels(names: Iterable[str], labels: Labels) -> dict[str, str]:
    """Return the labels of some objects, those that have one."""
    return {name: labels[name] for name in dict.fromkeys(names) if name in labels} if labels else {}


class Display(Mapping[str, str]):
    """How each object with a label is shown: a mapping of objects, and what finds an object by such a text."""

    def __init__(self, objects: Collection[str], labels: Labels, prefixes: Prefixes) -> None:
        self._objects, self._labels, self._prefixes = objects, labels, prefixes

    def __getitem__(self, name: str) -> str:
        return self._shown(name, self._labels[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._labels)

    def __len__(self) -> int:
        return len(self._labels)

    def show(self, name: str) -> str:
        """Return how an object is shown: its label, its label and name, or its name."""
        return self[name] if name in self._labels else name

    def find(self, text: str) -> tuple[str, ...]:
        """Return the objects that a text can mean: one by name, IRI or what is shown, or all with this label."""
        if text in self._objects:
            return (text,)
        short = compact(text, self._prefixes)
        if short != text and short in self._objects:
            return (short,)
        return self._by_label.get(text) or self._qualified(text)

    def find_relation(self, name: str) -> str:
        """Return the name of a relation or attribute, with a prefix for the start of its IRI."""
        return compact(name, self._prefixes)

    def similar(self, text: str) -> tuple[str, ...]:
        """Return what is shown of objects with similar names or labels."""
        found = similar_names(text, [*self._objects, *self._by_label])
        shown = [self.show(name) for near in found for name in self.find(near)]
        return tuple(dict.fromkeys(shown))[: max(3, len(found))]

    @cached_property
    def _by_label(self) -> dict[str, tuple[str, ...]]:
        found: dict[str, tuple[str, ...]] = {}
        for name, label in self._labels.items():
            found[label] = (*found.get(label, ()), name)
        return {label: tuple(sorted(names)) if len(names) > 1 else names for label, names in found.items()}

    def _qualified(self, text: str) -> tuple[str, ...]:
        """Return the objects of `label (name)`."""
        splits = [match.start() for match in re.finditer(r" \(", text)] if text.endswith(")") else []
        pairs = [(text[:at], text[at + 2 : -1]) for at in splits]
        return tuple(name for label, name in pairs if self._labels.get(name) == label)

    def _shown(self, name: str, label: str) -> str:
        if label == name or (len(self._by_label[label]) == 1 and label not in self._objects):
            return label
        qualified = f"{label} ({name})"
        taken = qualified in self._objects or qualified in self._by_label or self._qualified(qualified) != (name,)
        return name if taken else qualified


def compact(iri: str, prefixes: Prefixes) -> str:
    """Return an IRI with the prefix that stands for most of it, or the IRI itself.

    >>> compact("http://example.org/berlin", {"ex": "http://example.org/"})
    'ex:berlin'
    >>> compact("http://example.org/a/b", {"ex": "http://example.org/"})
    'http://example.org/a/b'
    """
    return compactor(prefixes)(iri) if prefixes else iri


def compactor(prefixes: Prefixes) -> Callable[[str], str]:
    """Return the function that shortens IRIs by prefixes."""
    longest_first = sorted(prefixes.items(), key=lambda item: (-len(item[1]), len(item[0]), item[0]))
    starts = tuple(prefixes.values())

    def shorten_iri(iri: str) -> str:
        if iri.startswith(starts):
            for prefix, start in longest_first:
                if iri.startswith(start) and _LOCAL.fullmatch(iri, len(start)):
                    return f"{prefix}:{iri[len(start) :]}"
        return iri

    return shorten_iri


def expand(name: str, prefixes: Prefixes) -> str:
    """Return the IRI of a name with a prefix, or the name itself.

    >>> expand("ex:berlin", {"ex": "http://example.org/"}), expand("ex:", {})
    ('http://example.org/berlin', 'ex:')
    """
    prefix, colon, local = name.partition(":")
    return prefixes[prefix] + local if colon and prefix in prefixes and _LOCAL.fullmatch(local) else name


def usable_prefixes(declared: Iterable[tuple[str, str]], names: Iterable[str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the prefixes that can shorten names so that `expand` undoes it, and why others cannot.

    Of two prefixes with one name the first is kept. A prefix is not used if a name begins with it already.

    >>> usable_prefixes([("ex", "http://a/"), ("ex", "http://b/"), ("urn", "http://c/")], ["urn:x", "http://a/y"])
    ({'ex': 'http://a/'}, {'urn': 'urn:x'})
    """
    kept = dict[str, str]()
    for prefix, start in declared:
        if start and _PREFIX.fullmatch(prefix):
            kept.setdefault(prefix, start)
    taken = dict[str, str]()
    for name in names if kept else ():
        prefix = name.partition(":")[0]
        if prefix in kept and prefix not in taken and expand(name, kept) != name:
            taken[prefix] = name
    return {prefix: start for prefix, start in kept.items() if prefix not in taken}, taken

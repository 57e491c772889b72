"""Facts and values as names: how they are written, what is checked, how they become numbers on a heap.

>>> heap = Heap([], [], [])
>>> pile(heap, [("parent", "ann", "bob"), Fact("person", ("ann",), 0.9)], {("age", "ann"): 80})
>>> heap.objects, heap.relations, heap.arities, heap.attributes
(['ann', 'bob'], ['parent', 'person'], [2, 1], ['age'])
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from numbers import Real
from typing import NamedTuple, cast

import numpy as np

from gaifman.errors import KnowledgeError, shorten
from gaifman.markup import code, line, quiet, table, together
from gaifman.names import is_path, is_word, quote
from gaifman.tables import LARGEST_ARITY, Dropped, Floats, Heap, Index, Ints, Tables, bad_name

First = Callable[[str], str]
"""The first fact of a relation, written; empty where it has none."""


class Fact(NamedTuple):
    """Something known: a relation holds between objects.

    >>> str(Fact("parent", ("ann", "Bob Hope"), 0.9))
    "0.9::parent(ann, 'Bob Hope')."
    """

    relation: str
    objects: tuple[str, ...]
    confidence: float = 1.0

    def __str__(self) -> str:
        """As in a `.facts` file."""
        prefix = "" if self.confidence == 1 else f"{self.confidence!r}::"
        return f"{prefix}{written(self.relation)}({', '.join(map(written, self.objects))})."


FactLike = Fact | tuple[str, ...]
"""A `Fact`, or its relation and objects in one tuple: `("parent", "ann", "bob")`."""


@dataclass(frozen=True, slots=True)
class Relation:
    """A relation of a knowledge base."""

    name: str
    arity: int
    count: int
    """Facts it has."""


@dataclass(frozen=True, slots=True)
class Attribute:
    """A numeric attribute of a knowledge base."""

    name: str
    count: int
    """Objects that have a value."""


@dataclass(frozen=True, slots=True)
class Note:
    """Something that was met, and how often, while a knowledge base was made."""

    count: int
    what: str
    example: str = ""
    one: str = field(default="", compare=False)
    """What is said of a single one, where that differs."""

    def __str__(self) -> str:
        """The count with its words.

        >>> print(Note(1, "repeated facts", "p(a).", "repeated fact"))
        1 repeated fact, such as p(a).
        """
        what = self.one if self.count == 1 and self.one else self.what
        return f"{self.count:,} {what}" + (f", such as {self.example}" if self.example else "")


def written(name: str) -> str:
    """The name as it stands in a `.facts` file: bare where it can be.

    >>> written("ann"), written("/m/06rf7"), written("Ann Lee"), written("0.9::x")
    ('ann', '/m/06rf7', "'Ann Lee'", "'0.9::x'")
    """
    return name if is_word(name) or (is_path(name) and "::" not in name) else quote(name)


def dropped_notes(tables: Tables, dropped: Dropped) -> tuple[Note, ...]:
    """What is said about facts and values that stood more than once."""
    notes = []
    if dropped.fact:
        relation, *objects = dropped.fact
        fact = Fact(tables.relations[relation], tuple(tables.objects[number] for number in objects))
        notes.append(Note(dropped.facts, "repeated facts, kept once", str(fact), "repeated fact, kept once"))
    if dropped.value:
        attribute, holder = dropped.value
        text = f"{written(tables.attributes[attribute])}({written(tables.objects[holder])})"
        what = "of an attribute, the largest kept"
        notes.append(Note(dropped.values, f"further values {what}", text, f"further value {what}"))
    return tuple(notes)


def pile(
    heap: Heap,
    facts: Iterable[FactLike],
    values: Mapping[tuple[str, str], float],
    objects: Iterable[str] = (),
) -> None:
    """Put facts and values given as names on a heap, or say what is wrong with them."""
    names, relations, attributes = Index(), Index(), Index()
    for index, known in ((names, heap.objects), (relations, heap.relations), (attributes, heap.attributes)):
        index.numbers(known)
        index.fresh()
    arities = heap.arities
    piles: dict[int, list[Fact]] = {}
    for fact in map(fact_of, facts):
        arity, number = len(fact.objects), relations[fact.relation]
        if number == len(arities):
            arities.append(arity)
        elif arities[number] != arity:
            raise KnowledgeError(
                f"{shorten(str(fact), 80)}: the relation has {some(arities[number], 'place')} elsewhere"
            )
        piles.setdefault(arity, []).append(fact)
    for arity, pile in piles.items():
        relation = relations.numbers([fact.relation for fact in pile])
        members = names.numbers([name for fact in pile for name in fact.objects]).reshape(-1, arity)
        heap.add(relation, members, np.array([fact.confidence for fact in pile]))
    heap.values.append(_numbered_values(values, attributes, names))
    names.numbers(_texts(objects))
    wrong = next(filter(None, (bad_name(index.fresh()) for index in (names, relations, attributes))), None)
    if wrong:
        raise KnowledgeError(f"{wrong[1]}: {quote(shorten(wrong[0]))}")
    heap.objects, heap.relations, heap.attributes = [*names], [*relations], [*attributes]
    check_kinds(heap)


def _texts(objects: Iterable[str]) -> list[str]:
    """Names of objects; a text is not several of one letter."""
    found = [objects] if isinstance(objects, str) else list(objects)
    wrong = [name for name in found if not isinstance(name, str)]
    if isinstance(objects, str) or wrong:
        raise KnowledgeError(f"objects are several texts, not {shorten(repr(objects if not wrong else wrong[0]))}")
    return found


def _numbered_values(
    values: Mapping[tuple[str, str], float], attributes: Index, names: Index
) -> tuple[Ints, Ints, Floats]:
    if not isinstance(values, Mapping):
        raise KnowledgeError(f"values are a mapping of (attribute, object) to numbers, not {shorten(repr(values))}")
    for key, value in values.items():
        if not (isinstance(key, tuple) and len(key) == 2 and all(isinstance(name, str) for name in key)):
            raise KnowledgeError(f"a value belongs to an attribute and an object, not to {shorten(repr(key))}")
        attribute, name = key
        if not math.isfinite(_float(value)):
            raise KnowledgeError(
                f"{shorten(written(attribute))}({shorten(written(name))}) must be a finite number, "
                f"not {shorten(repr(value))}"
            )
    return (
        attributes.numbers([attribute for attribute, _ in values]),
        names.numbers([name for _, name in values]),
        np.array([_float(value) for value in values.values()], np.float64),
    )


def _float(value: object) -> float:
    """The number as one that tables hold; what is none, or too large, is no number there."""
    try:
        return float(value) if isinstance(value, Real) else math.nan
    except OverflowError:
        return math.inf


def fact_of(fact: FactLike) -> Fact:
    """A fact, checked, of whatever a user may write for one."""
    if not isinstance(fact, Fact):
        if not isinstance(fact, tuple) or not fact:
            raise KnowledgeError(f"a fact is a tuple of a relation and its objects, not {fact!r}")
        fact = Fact(fact[0], cast(tuple[str, ...], fact[1:]))
    objects: object = fact.objects
    if not isinstance(objects, tuple | list):
        raise KnowledgeError(f"the objects of a fact are several texts, not {shorten(repr(objects))}")
    if isinstance(objects, list):
        fact = fact._replace(objects=tuple(objects))
    if not all(isinstance(name, str) for name in (fact.relation, *fact.objects)):
        raise KnowledgeError(f"relations and objects are texts, not as in {(fact.relation, *fact.objects)!r}")
    if not 1 <= len(fact.objects) <= LARGEST_ARITY:
        raise KnowledgeError(
            f"{shorten(str(fact), 80)}: a relation has 1 to {LARGEST_ARITY} places, not {len(fact.objects)}"
        )
    if not 0 < _float(fact.confidence) <= 1:
        raise KnowledgeError(
            f"{shorten(str(fact), 80)}: a confidence is above 0 and at most 1, not {shorten(repr(fact.confidence))}"
        )
    return fact if type(fact.confidence) is float else fact._replace(confidence=float(fact.confidence))


def check_kinds(heap: Heap) -> None:
    """`age(x)` cannot be a number and also true or false."""
    types = {name for name, arity in zip(heap.relations, heap.arities, strict=True) if arity == 1}
    for name in sorted(types.intersection(heap.attributes)):
        raise KnowledgeError(
            f"{shorten(written(name))} cannot be both a type and an attribute",
            hint="give one of them another name",
        )


SHOWN = 50
"""Relations that a notebook shows: those with the most facts."""


def pictured(said: str, relations: Iterable[Relation], attributes: Iterable[Attribute], first: First) -> str:
    """A knowledge base as a notebook shows it: what is said of it, relations with their first facts, attributes."""
    most = sorted(relations, key=lambda relation: (-relation.count, relation.name))
    rows = [(r.name, r.arity, f"{r.count:,}", code(shorten(first(r.name), 80))) for r in most[:SHOWN]]
    parts = [line(said), table(("relation", "places", "facts", "such as"), rows, right=(1, 2))]
    if len(most) > SHOWN:
        parts.append(line(quiet(f"… and {some(len(most) - SHOWN, 'more relation')}")))
    if values := [(attribute.name, f"{attribute.count:,}") for attribute in attributes]:
        parts.append(table(("attribute", "values"), values[:SHOWN], right=(1,)))
    return together(*parts)


def some(count: int, noun: str) -> str:
    """The count with its noun.

    >>> some(1, "place"), some(2000, "place")
    ('1 place', '2,000 places')
    """
    return f"{count:,} {noun}" + ("" if count == 1 else "s")

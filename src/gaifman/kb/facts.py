"""Facts and values as names: how they are written, what is checked, how they become numbers on a heap.

>>> heap = RawFacts([], [], [])
>>> append_facts(heap, [("parent", "ann", "bob"), Fact("person", ("ann",), 0.9)], {("age", "ann"): 80})
>>> heap.objects, heap.relations, heap.arities, heap.attributes
(['ann', 'bob'], ['parent', 'person'], [2, 1], ['age'])
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, NamedTuple, cast

import numpy as np

from gaifman._html import code, muted, paragraph, stack, table
from gaifman.config import MAX_ARITY
from gaifman.errors import KnowledgeBaseError, plural, shorten
from gaifman.kb.tables import Duplicates, Floats, Ints, NameEncoder, RawFacts, Tables, find_invalid_name
from gaifman.logic.names import is_path, is_word, quote

ExampleFact = Callable[[str], str]
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
        return f"{prefix}{format_name(self.relation)}({', '.join(map(format_name, self.objects))})."

    def as_dict(self) -> dict[str, Any]:
        """The fact as JSON types."""
        return {"relation": self.relation, "objects": list(self.objects), "confidence": self.confidence}


FactLike = Fact | tuple[str, ...]
"""A `Fact`, or its relation and objects in one tuple: `("parent", "ann", "bob")`."""


@dataclass(frozen=True, slots=True)
class RelationInfo:
    """A relation of a knowledge base."""

    name: str
    arity: int
    count: int
    """Facts it has."""


@dataclass(frozen=True, slots=True)
class AttributeInfo:
    """A numeric attribute of a knowledge base."""

    name: str
    count: int
    """Objects that have a value."""


@dataclass(frozen=True, slots=True)
class Note:
    """Something that was met, and how often, while a knowledge base was made."""

    count: int
    text: str
    example: str = ""
    singular: str = field(default="", compare=False)
    """What is said of a single one, where that differs."""

    def __str__(self) -> str:
        """The count with its words.

        >>> print(Note(1, "repeated facts", "p(a).", "repeated fact"))
        1 repeated fact, such as p(a).
        """
        what = self.singular if self.count == 1 and self.singular else self.text
        return f"{self.count:,} {what}" + (f", such as {self.example}" if self.example else "")


def format_name(name: str) -> str:
    """The name as it stands in a `.facts` file: bare where it can be.

    >>> format_name("ann"), format_name("/m/06rf7"), format_name("Ann Lee"), format_name("0.9::x")
    ('ann', '/m/06rf7', "'Ann Lee'", "'0.9::x'")
    """
    return name if is_word(name) or (is_path(name) and "::" not in name) else quote(name)


def duplicate_notes(tables: Tables, duplicates: Duplicates) -> tuple[Note, ...]:
    """What is said about facts and values that stood more than once."""
    notes = []
    if duplicates.example_fact:
        relation, *objects = duplicates.example_fact
        fact = Fact(tables.relations[relation], tuple(tables.objects[number] for number in objects))
        notes.append(Note(duplicates.fact_count, "repeated facts, kept once", str(fact), "repeated fact, kept once"))
    if duplicates.example_value:
        attribute, holder = duplicates.example_value
        text = f"{format_name(tables.attributes[attribute])}({format_name(tables.objects[holder])})"
        what = "of an attribute, the largest kept"
        notes.append(Note(duplicates.value_count, f"further values {what}", text, f"further value {what}"))
    return tuple(notes)


def append_facts(
    raw: RawFacts,
    facts: Iterable[FactLike],
    values: Mapping[tuple[str, str], float],
    objects: Iterable[str] = (),
) -> None:
    """Put facts and values given as names on a heap, or say what is wrong with them."""
    names, relations, attributes = NameEncoder(), NameEncoder(), NameEncoder()
    for index, known in ((names, raw.objects), (relations, raw.relations), (attributes, raw.attributes)):
        index.encode(known)
        index.take_new()
    arities = raw.arities
    piles: dict[int, list[Fact]] = {}
    for fact in map(as_fact, facts):
        arity, number = len(fact.objects), relations[fact.relation]
        if number == len(arities):
            arities.append(arity)
        elif arities[number] != arity:
            raise KnowledgeBaseError(
                f"{shorten(str(fact), 80)}: the relation has {plural(arities[number], 'argument')} elsewhere"
            )
        piles.setdefault(arity, []).append(fact)
    for arity, pile in piles.items():
        relation = relations.encode([fact.relation for fact in pile])
        members = names.encode([name for fact in pile for name in fact.objects]).reshape(-1, arity)
        raw.add_facts(relation, members, np.array([fact.confidence for fact in pile]))
    raw.values.append(_encode_values(values, attributes, names))
    names.encode(_check_objects(objects))
    wrong = next(filter(None, (find_invalid_name(index.take_new()) for index in (names, relations, attributes))), None)
    if wrong:
        raise KnowledgeBaseError(f"{wrong[1]}: {quote(shorten(wrong[0]))}")
    raw.objects, raw.relations, raw.attributes = [*names], [*relations], [*attributes]
    check_types_and_attributes(raw)


def _check_objects(objects: Iterable[str]) -> list[str]:
    """Names of objects; a text is not several of one letter."""
    found = [objects] if isinstance(objects, str) else list(objects)
    wrong = [name for name in found if not isinstance(name, str)]
    if isinstance(objects, str) or wrong:
        raise KnowledgeBaseError(f"objects are several texts, not {shorten(repr(objects if not wrong else wrong[0]))}")
    return found


def _encode_values(
    values: Mapping[tuple[str, str], float], attributes: NameEncoder, names: NameEncoder
) -> tuple[Ints, Ints, Floats]:
    if not isinstance(values, Mapping):
        raise KnowledgeBaseError(f"values are a mapping of (attribute, object) to numbers, not {shorten(repr(values))}")
    for key, value in values.items():
        if not (isinstance(key, tuple) and len(key) == 2 and all(isinstance(name, str) for name in key)):
            raise KnowledgeBaseError(f"a value belongs to an attribute and an object, not to {shorten(repr(key))}")
        attribute, name = key
        if not math.isfinite(_to_float(value)):
            raise KnowledgeBaseError(
                f"{shorten(format_name(attribute))}({shorten(format_name(name))}) must be a finite number, "
                f"not {shorten(repr(value))}"
            )
    return (
        attributes.encode([attribute for attribute, _ in values]),
        names.encode([name for _, name in values]),
        np.array([_to_float(value) for value in values.values()], np.float64),
    )


def _to_float(value: object) -> float:
    """The number as one that tables hold; what is none, or too large, is no number there."""
    try:
        return float(value) if isinstance(value, Real) else math.nan
    except OverflowError:
        return math.inf


def as_fact(fact: FactLike) -> Fact:
    """A fact, checked, of whatever a user may write for one."""
    if not isinstance(fact, Fact):
        if not isinstance(fact, tuple) or not fact:
            raise KnowledgeBaseError(f"a fact is a tuple of a relation and its objects, not {fact!r}")
        fact = Fact(fact[0], cast(tuple[str, ...], fact[1:]))
    objects: object = fact.objects
    if not isinstance(objects, tuple | list):
        raise KnowledgeBaseError(f"the objects of a fact are several texts, not {shorten(repr(objects))}")
    if isinstance(objects, list):
        fact = fact._replace(objects=tuple(objects))
    if not all(isinstance(name, str) for name in (fact.relation, *fact.objects)):
        raise KnowledgeBaseError(f"relations and objects are texts, not as in {(fact.relation, *fact.objects)!r}")
    if not 1 <= len(fact.objects) <= MAX_ARITY:
        raise KnowledgeBaseError(
            f"{shorten(str(fact), 80)}: a relation has 1 to {MAX_ARITY} arguments, not {len(fact.objects)}"
        )
    if not 0 < _to_float(fact.confidence) <= 1:
        raise KnowledgeBaseError(
            f"{shorten(str(fact), 80)}: a confidence is above 0 and at most 1, not {shorten(repr(fact.confidence))}"
        )
    return fact if type(fact.confidence) is float else fact._replace(confidence=float(fact.confidence))


def check_types_and_attributes(raw: RawFacts) -> None:
    """`age(x)` cannot be a number and also true or false."""
    types = {name for name, arity in zip(raw.relations, raw.arities, strict=True) if arity == 1}
    for name in sorted(types.intersection(raw.attributes)):
        raise KnowledgeBaseError(
            f"{shorten(format_name(name))} cannot be both a type and an attribute",
            hint="give one of them another name",
        )


MAX_LISTED = 50
"""Relations that a notebook shows: those with the most facts."""


def knowledge_base_html(
    summary: str, relations: Iterable[RelationInfo], attributes: Iterable[AttributeInfo], example_fact: ExampleFact
) -> str:
    """A knowledge base as a notebook shows it: what is said of it, relations with their first facts, attributes."""
    most = sorted(relations, key=lambda relation: (-relation.count, relation.name))
    rows = [(r.name, r.arity, f"{r.count:,}", code(shorten(example_fact(r.name), 80))) for r in most[:MAX_LISTED]]
    parts = [paragraph(summary), table(("relation", "places", "facts", "such as"), rows, numeric_columns=(1, 2))]
    if len(most) > MAX_LISTED:
        parts.append(paragraph(muted(f"… and {plural(len(most) - MAX_LISTED, 'more relation')}")))
    if values := [(attribute.name, f"{attribute.count:,}") for attribute in attributes]:
        parts.append(table(("attribute", "values"), values[:MAX_LISTED], numeric_columns=(1,)))
    return stack(*parts)

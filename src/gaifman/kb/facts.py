"""Facts and values as names: their text, checks and encoding.

>>> raw = RawFacts([], [], [])
>>> append_facts(raw, [("parent", "ann", "bob"), Fact("person", ("ann",), 0.9)], {("age", "ann"): 80})
>>> raw.objects, raw.relations, raw.arities, raw.attributes
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
"""Relation → its first fact as text, or an empty text."""


class Fact(NamedTuple):
    """A fact: a relation holds between objects, with a confidence in (0, 1].

    >>> str(Fact("parent", ("ann", "Bob Hope"), 0.9))
    "0.9::parent(ann, 'Bob Hope')."
    """

    relation: str
    objects: tuple[str, ...]
    confidence: float = 1.0

    def __str__(self) -> str:
        """Return the fact as in a `.facts` file."""
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
    """Number of facts."""


@dataclass(frozen=True, slots=True)
class AttributeInfo:
    """A numeric attribute of a knowledge base."""

    name: str
    count: int
    """Number of objects with a value."""


@dataclass(frozen=True, slots=True)
class Note:
    """A remark on how a knowledge base was made, with a count."""

    count: int
    text: str
    example: str = ""
    singular: str = field(default="", compare=False)
    """Text for a count of one, if it differs."""

    def __str__(self) -> str:
        """Return the count, the text and the example.

        >>> print(Note(1, "repeated facts", "p(a).", "repeated fact"))
        1 repeated fact, such as p(a).
        """
        text = self.singular if self.count == 1 and self.singular else self.text
        return f"{self.count:,} {text}" + (f", such as {self.example}" if self.example else "")


def format_name(name: str) -> str:
    """Return the name as in a `.facts` file, quoted where necessary.

    >>> format_name("ann"), format_name("/m/06rf7"), format_name("Ann Lee"), format_name("0.9::x")
    ('ann', '/m/06rf7', "'Ann Lee'", "'0.9::x'")
    """
    return name if is_word(name) or (is_path(name) and "::" not in name) else quote(name)


def duplicate_notes(tables: Tables, duplicates: Duplicates) -> tuple[Note, ...]:
    """Return notes about repeated facts and values."""
    notes = []
    if duplicates.example_fact:
        relation, *objects = duplicates.example_fact
        fact = Fact(tables.relations[relation], tuple(tables.objects[number] for number in objects))
        notes.append(Note(duplicates.fact_count, "repeated facts, kept once", str(fact), "repeated fact, kept once"))
    if duplicates.example_value:
        attribute, holder = duplicates.example_value
        text = f"{format_name(tables.attributes[attribute])}({format_name(tables.objects[holder])})"
        notes.append(
            Note(
                duplicates.value_count,
                "repeated values of an attribute, the largest kept",
                text,
                "repeated value of an attribute, the largest kept",
            )
        )
    return tuple(notes)


def append_facts(
    raw: RawFacts,
    facts: Iterable[FactLike],
    values: Mapping[tuple[str, str], float],
    objects: Iterable[str] = (),
) -> None:
    """Check and encode facts and values, and add them to `raw`."""
    names, relations, attributes = NameEncoder(), NameEncoder(), NameEncoder()
    for encoder, known in ((names, raw.objects), (relations, raw.relations), (attributes, raw.attributes)):
        encoder.encode(known)
        encoder.take_new()
    arities = raw.arities
    by_arity: dict[int, list[Fact]] = {}
    for fact in map(as_fact, facts):
        arity, number = len(fact.objects), relations[fact.relation]
        if number == len(arities):
            arities.append(arity)
        elif arities[number] != arity:
            raise KnowledgeBaseError(
                f"{shorten(str(fact), 80)}: the relation has {plural(arities[number], 'argument')} elsewhere"
            )
        by_arity.setdefault(arity, []).append(fact)
    for arity, group in by_arity.items():
        relation = relations.encode([fact.relation for fact in group])
        members = names.encode([name for fact in group for name in fact.objects]).reshape(-1, arity)
        raw.add_facts(relation, members, np.array([fact.confidence for fact in group]))
    raw.values.append(_encode_values(values, attributes, names))
    names.encode(_check_objects(objects))
    new_names = [*names.take_new(), *relations.take_new(), *attributes.take_new()]
    if invalid := find_invalid_name(new_names):
        raise KnowledgeBaseError(f"{invalid[1]}: {quote(shorten(invalid[0]))}")
    raw.objects, raw.relations, raw.attributes = [*names], [*relations], [*attributes]
    check_types_and_attributes(raw)


def _check_objects(objects: Iterable[str]) -> list[str]:
    """Return the names as a list; a single string is refused."""
    names = [objects] if isinstance(objects, str) else list(objects)
    wrong = [name for name in names if not isinstance(name, str)]
    if isinstance(objects, str) or wrong:
        raise KnowledgeBaseError(f"objects must be strings, got {shorten(repr(wrong[0] if wrong else objects))}")
    return names


def _encode_values(
    values: Mapping[tuple[str, str], float], attributes: NameEncoder, names: NameEncoder
) -> tuple[Ints, Ints, Floats]:
    if not isinstance(values, Mapping):
        raise KnowledgeBaseError(
            f"values must map (attribute, object) to a number, got {shorten(repr(values))}",
        )
    for key, value in values.items():
        if not (isinstance(key, tuple) and len(key) == 2 and all(isinstance(name, str) for name in key)):
            raise KnowledgeBaseError(f"the key of a value must be (attribute, object), got {shorten(repr(key))}")
        attribute, name = key
        if not math.isfinite(_to_float(value)):
            raise KnowledgeBaseError(
                f"{shorten(format_name(attribute))}({shorten(format_name(name))}) must be a finite number, "
                f"got {shorten(repr(value))}"
            )
    return (
        attributes.encode([attribute for attribute, _ in values]),
        names.encode([name for _, name in values]),
        np.array([_to_float(value) for value in values.values()], np.float64),
    )


def _to_float(value: object) -> float:
    """Return the number as float; NaN if it is not a number, infinity if it is too large."""
    try:
        return float(value) if isinstance(value, Real) else math.nan
    except OverflowError:
        return math.inf


def as_fact(fact: FactLike) -> Fact:
    """Return a checked fact of a `Fact` or a tuple."""
    if not isinstance(fact, Fact):
        if not isinstance(fact, tuple) or not fact:
            raise KnowledgeBaseError(f"a fact must be a tuple of a relation and its objects, got {fact!r}")
        fact = Fact(fact[0], cast(tuple[str, ...], fact[1:]))
    objects: object = fact.objects
    if not isinstance(objects, tuple | list):
        raise KnowledgeBaseError(f"the objects of a fact must be a tuple of strings, got {shorten(repr(objects))}")
    if isinstance(objects, list):
        fact = fact._replace(objects=tuple(objects))
    if not all(isinstance(name, str) for name in (fact.relation, *fact.objects)):
        raise KnowledgeBaseError(f"relations and objects must be strings, got {(fact.relation, *fact.objects)!r}")
    if not 1 <= len(fact.objects) <= MAX_ARITY:
        raise KnowledgeBaseError(
            f"{shorten(str(fact), 80)}: a relation has 1 to {MAX_ARITY} arguments, not {len(fact.objects)}"
        )
    if not 0 < _to_float(fact.confidence) <= 1:
        raise KnowledgeBaseError(
            f"{shorten(str(fact), 80)}: a confidence must be above 0 and at most 1, "
            f"got {shorten(repr(fact.confidence))}"
        )
    return fact if type(fact.confidence) is float else fact._replace(confidence=float(fact.confidence))


def check_types_and_attributes(raw: RawFacts) -> None:
    """Refuse a name that is both a unary relation and an attribute."""
    types = {name for name, arity in zip(raw.relations, raw.arities, strict=True) if arity == 1}
    for name in sorted(types.intersection(raw.attributes)):
        raise KnowledgeBaseError(
            f"{shorten(format_name(name))} cannot be both a type and an attribute",
            hint="rename one of them",
        )


MAX_LISTED = 50
"""Largest number of relations that a notebook shows; those with the most facts come first."""


def knowledge_base_html(
    summary: str, relations: Iterable[RelationInfo], attributes: Iterable[AttributeInfo], example_fact: ExampleFact
) -> str:
    """Return a knowledge base as HTML: its summary, relations with an example, and attributes."""
    largest = sorted(relations, key=lambda relation: (-relation.count, relation.name))
    rows = [(r.name, r.arity, f"{r.count:,}", code(shorten(example_fact(r.name), 80))) for r in largest[:MAX_LISTED]]
    parts = [paragraph(summary), table(("relation", "arity", "facts", "example"), rows, numeric_columns=(1, 2))]
    if len(largest) > MAX_LISTED:
        parts.append(paragraph(muted(f"… and {plural(len(largest) - MAX_LISTED, 'more relation')}")))
    if values := [(attribute.name, f"{attribute.count:,}") for attribute in attributes]:
        parts.append(table(("attribute", "values"), values[:MAX_LISTED], numeric_columns=(1,)))
    return stack(*parts)

"""Knowledge bases: facts about objects, read and queried by name, stored as integers.

>>> kb = KnowledgeBase.from_facts(
...     [("parent", "ann", "bob"), ("parent", "bob", "cleo"), ("person", "ann")], {("age", "ann"): 80}
... )
>>> kb
<KnowledgeBase: 3 objects, 2 relations, 3 facts, 1 attribute with 1 value>
>>> ("parent", "ann", "bob") in kb, kb.types("ann"), kb.value("age", "ann")
(True, ('person',), 80.0)
>>> print(*kb.facts(obj="bob"))
parent(ann, bob). parent(bob, cleo).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, islice
from numbers import Real
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np

from gaifman._html import code, muted, paragraph, stack, table
from gaifman.config import MAX_ARITY, check_int, checked, checked_methods, unchecked
from gaifman.errors import KnowledgeBaseError, plural, shorten, similar_names
from gaifman.kb.labels import NOTHING, Display, Labels, Prefixes, compact, compactor, expand, label_fact
from gaifman.kb.reviews import FactKey, Provenance, Reviews, fingerprint_with
from gaifman.kb.split import TEST, VALID, FactParts, Split, SplitOptions, choose_parts
from gaifman.kb.tables import (
    Duplicates,
    FactTable,
    Floats,
    Ints,
    Longs,
    NameEncoder,
    RawFacts,
    SortedNames,
    Tables,
    ValueTable,
    build_tables,
    find_invalid_name,
    fingerprint,
    freeze,
    make_fact_table,
    make_value_table,
)
from gaifman.logic.ast import is_path, is_word, name_problem, quote
from gaifman.logic.parser import Schema, ambiguous_label
from gaifman.logic.semantics import Extension, Structure
from gaifman.threads import PerProcess, ProcessLock, cached_property

T = TypeVar("T")


class ResourceCache:
    """One object of each class, created on first use. Threads can share it; a forked child has its own objects.

    >>> cache = ResourceCache()
    >>> cache.get(list, lambda: [1]) is cache.get(list, lambda: [2])
    True
    """

    def __init__(self) -> None:
        self._lock = ProcessLock()
        self._resources: PerProcess[dict[type, Any]] = PerProcess(dict)

    def get(self, kind: type[T], create: Callable[[], T]) -> T:
        """Return the resource of a class; the first call creates it, and others wait for it."""
        with self._lock:
            resources = self._resources.get()
            if kind not in resources:
                resources[kind] = create()
            resource: T = resources[kind]
            return resource

    def pop(self, kind: type[T]) -> T | None:
        """Remove the resource of a class, and return it if it was created in this process."""
        with self._lock:
            resource: T | None = self._resources.get().pop(kind, None)
            return resource


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


@checked_methods
@dataclass(frozen=True, eq=False, repr=False)
class KnowledgeBase:
    """Objects, facts of relations between them, and numeric attributes. Immutable.

    Made by `KnowledgeBase.from_facts`, `gaifman.read` or from another one. Two are equal if their contents are.
    """

    content: Tables
    """Names and arrays in canonical form."""
    notes: tuple[Note, ...] = ()
    """Remarks of the reader: the detected format, repeated facts, skipped literals."""
    labels: Labels = field(default_factory=lambda: NOTHING)
    """Object → its label, for objects that have one; they are shown by it. Not compared: labels are no facts."""
    prefixes: Prefixes = field(default_factory=lambda: NOTHING)
    """Prefix → the start of the IRIs that it stands for: `ex:berlin` is `http://example.org/berlin`."""

    reviews: Reviews = field(default_factory=Reviews)
    """All decisions about proposed facts; see `provenance` and `rejected`."""

    resources: ResourceCache = field(default_factory=ResourceCache, init=False)
    """What other packages make from it once, such as the database of its queries. Not compared, copied or pickled."""

    @classmethod
    def from_facts(
        cls,
        facts: Iterable[FactLike],
        values: Mapping[tuple[str, str], float] | None = None,
        objects: Iterable[str] = (),
        labels: Mapping[str, str] | None = None,
    ) -> KnowledgeBase:
        """Return a knowledge base of facts, values by (attribute, object), and objects that need no fact.

        `labels` are shown in place of the names of objects.
        """
        raw = RawFacts([], [], [])
        append_facts(raw, facts, {} if values is None else values, objects)
        tables, duplicates = build_tables(raw)
        return cls(tables, duplicate_notes(tables, duplicates)).with_labels({} if labels is None else labels)

    def __repr__(self) -> str:
        text = f"{plural(len(self.objects), 'object')}, {plural(len(self.relations), 'relation')}"
        text += f", {plural(len(self), 'fact')}"
        if self.attributes:
            text += f", {plural(len(self.attributes), 'attribute')} with {plural(len(self.value_table), 'value')}"
        if self.rejected:
            text += f", {plural(len(self.rejected), 'known negative')}"
        return f"<KnowledgeBase: {text}>"

    def _repr_html_(self) -> str:
        def first(relation: str) -> str:
            return next((str(label_fact(fact, self.display)) for fact in self.facts(relation)), "")

        return knowledge_base_html(repr(self)[1:-1], self.relations.values(), self.attributes.values(), first)

    def __len__(self) -> int:
        """Return the number of facts, without values of attributes."""
        return sum(map(len, self.fact_tables.values()))

    def __bool__(self) -> bool:
        """Return whether there is an object, also for a knowledge base with values but no facts."""
        return len(self.objects) > 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KnowledgeBase) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the content without what was computed from it."""
        return KnowledgeBase, (self.content, self.notes, dict(self.labels), dict(self.prefixes), self.reviews)

    def __contains__(self, fact: FactLike) -> bool:
        """Return whether the fact is known, with any confidence."""
        return self._find_row(as_fact(fact)) is not None

    # By name

    @property
    def objects(self) -> SortedNames:
        """Names of all objects, sorted, including those without facts."""
        return self.content.objects

    @cached_property
    def relations(self) -> Mapping[str, RelationInfo]:
        """Relation by name, including declared relations without facts."""
        counts = sum(np.diff(table.starts) for table in self.fact_tables.values())
        counted = np.broadcast_to(counts, len(self.content.relations)).tolist()
        return MappingProxyType(
            {
                name: RelationInfo(name, arity, count)
                for name, arity, count in zip(self.content.relations, self.content.arities, counted, strict=True)
            }
        )

    @cached_property
    def attributes(self) -> Mapping[str, AttributeInfo]:
        """Numeric attribute by name."""
        counts = np.diff(self.value_table.starts).tolist()
        named = zip(self.content.attributes, counts, strict=True)
        return MappingProxyType({name: AttributeInfo(name, count) for name, count in named})

    def types(self, obj: str | None = None) -> tuple[str, ...]:
        """Return the types (unary relations): all of them, or those of an object."""
        names = [relation.name for relation in self.relations.values() if relation.arity == 1]
        if obj is None:
            return tuple(names)
        obj = self.object_name(self.object_id(obj))
        return tuple(name for name in names if (name, obj) in self)

    def facts(self, relation: str | None = None, obj: str | None = None) -> Iterator[Fact]:
        """Yield the facts, sorted by relation and objects: all, or those of a relation, or with an object."""
        numbers = range(len(self.content.relations)) if relation is None else [self._relation_id(relation)]
        number = None if obj is None else self.object_id(obj)
        tables = dict(self.fact_tables)
        if number is not None:
            tables = {arity: _take_rows(table, table.rows_with_object(number)) for arity, table in tables.items()}
        return self._facts(numbers, tables)

    def _facts(self, numbers: Iterable[int], tables: Mapping[int, FactTable]) -> Iterator[Fact]:
        for number in numbers:
            table = tables.get(self.content.arities[number])
            for row in table.rows(number) if table else ():
                assert table is not None
                yield self._fact_at(table, row)

    def tuples(self, relation: str) -> Ints:
        """Shape (facts, arity), int32: the object ids of a relation's facts; no rows if it has no facts."""
        number = self._relation_id(relation)
        arity = self.content.arities[number]
        table = self.fact_tables.get(arity)
        return np.zeros((0, arity), np.int32) if table is None else table.objects[table.rows(number)]

    def confidences_of(self, relation: str) -> Floats:
        """Shape (facts,), float64: the confidences of a relation's facts, in the order of `tuples`."""
        number = self._relation_id(relation)
        table = self.fact_tables.get(self.content.arities[number])
        rows = range(0) if table is None else table.rows(number)
        return np.ones(len(rows)) if table is None or table.confidence is None else table.confidence[rows]

    def value(self, attribute: str, obj: str) -> float | None:
        """Return an object's value of an attribute, or None."""
        number = self.value_id(attribute, self.object_id(obj))
        return float(self.value_table.value[number - len(self)]) if number >= 0 else None

    def values(self) -> Iterator[tuple[str, str, float]]:
        """Yield attribute, object and value, sorted by attribute and object."""
        for number, holder, value in zip(
            self.value_table.attribute, self.value_table.objects, self.value_table.value, strict=True
        ):
            yield self.content.attributes[number], self.objects[holder], float(value)

    # As shown

    @cached_property
    def display(self) -> Display:
        """How objects are shown, and what finds them: names, labels and IRIs."""
        return Display(self.objects, self.labels, self.prefixes)

    def show(self, obj: str) -> str:
        """Return how an object is shown: by its label, or by its name.

        >>> facts, labels = [("capital", "Q142", "Q90")], {"Q142": "France", "Q90": "Paris"}
        >>> KnowledgeBase.from_facts(facts, labels=labels).show("Q142")
        'France'
        """
        self.object_id(obj)
        return self.display.show(obj) if self.labels else obj

    def iri(self, name: str) -> str:
        """Return a name with its prefix replaced by the start of its IRI, or the name itself."""
        return expand(name, self.prefixes)

    def with_labels(self, labels: Mapping[str, str]) -> KnowledgeBase:
        """Return a knowledge base with labels for some objects, in addition to those that it has."""
        _check_labels(labels)
        if not labels:
            return self
        known = {name: label for name, label in labels.items() if name in self.objects}
        if unknown := next((name for name in labels if name not in known), None):
            raise self._unknown("object", unknown, self.objects)
        return replace(self, labels=MappingProxyType(dict(sorted({**self.labels, **known}.items()))))

    # What people decided about proposed facts

    @cached_property
    def provenance(self) -> Mapping[FactKey, Provenance]:
        """Facts that a model proposed and a person accepted, as (relation, object, …) → where they come from."""
        return MappingProxyType({key: own for key, own in self.reviews.accepted.items() if key in self})

    @cached_property
    def rejected(self) -> Mapping[FactKey, Provenance]:
        """Known negatives, as (relation, object, …): facts that a person rejected. No model proposes them again.

        A rejected fact that becomes known is none of them.
        """
        left = {key: own for key, own in self.reviews.rejected.items() if key not in self and self._has_names(key)}
        return MappingProxyType(left)

    def rejected_tuples(self, relation: str) -> Ints:
        """Shape (rejected, arity), int32, sorted: the object ids of a relation's known negatives."""
        arity = self.content.arities[self._relation_id(relation)]
        found = sorted([self.object_id(name) for name in key[1:]] for key in self.rejected if key[0] == relation)
        return np.array(found, np.int32).reshape(-1, arity)

    def _has_names(self, key: FactKey) -> bool:
        number = self.content.relations.find(key[0])
        known = number is not None and self.content.arities[number] == len(key) - 1
        return known and all(self.objects.find(name) is not None for name in key[1:])

    # By number

    @unchecked
    def object_id(self, name: str) -> int:
        """Return the number of an object: its position among the sorted names. A label or an IRI finds it, too."""
        number = self.objects.find(name)
        return self._find_alias(name) if number is None else number

    def _find_alias(self, text: str) -> int:
        """Return the number of the object with a label or an IRI."""
        found = self.display.find(text) if self.labels or self.prefixes else ()
        if len(found) == 1:
            return _position(self.objects, found[0])
        if found:
            raise KnowledgeBaseError(**ambiguous_label(text, found, self.display))
        error = self._unknown("object", text, self.objects)
        error.suggestions = self.display.similar(text) if self.labels else error.suggestions
        raise error

    def object_name(self, number: int) -> str:
        """Return the name of an object."""
        if not isinstance(number, int | np.integer) or not 0 <= number < len(self.objects):
            last = len(self.objects) - 1
            known = f"objects are numbered from 0 to {last}" if self.objects else "there are no objects"
            raise KnowledgeBaseError(f"{known}, got {shorten(repr(number))}")
        return self.objects[int(number)]

    @property
    def fact_tables(self) -> Mapping[int, FactTable]:
        """Arity → all facts of that arity, as numbers; arities without facts are missing."""
        return self.content.facts

    @cached_property
    def fact_offsets(self) -> Mapping[int, int]:
        """Arity → id of its first fact: row `i` of a table is fact `fact_offsets[arity] + i`. Arities ascend."""
        arities = sorted(self.fact_tables)
        counts = (len(self.fact_tables[arity]) for arity in arities)
        return MappingProxyType(dict(zip(arities, accumulate(counts, initial=0), strict=False)))

    @property
    def has_confidences(self) -> bool:
        """Whether some fact is uncertain: its confidence is below 1."""
        return any(table.confidence is not None for table in self.fact_tables.values())

    @property
    def confidences(self) -> Floats:
        """Shape (facts,), float64: the confidence of each fact, by id."""
        tables = [self.fact_tables[arity] for arity in self.fact_offsets]
        return np.concatenate(
            [np.zeros(0), *(np.ones(len(t)) if t.confidence is None else t.confidence for t in tables)]
        )

    def fact_at(self, table: FactTable, row: int) -> Fact:
        """Return the fact in a row of a table."""
        check_int("row", row, 0, len(table) - 1)
        return self._fact_at(table, row)

    def _fact_at(self, table: FactTable, row: int) -> Fact:
        confidence = 1.0 if table.confidence is None else float(table.confidence[row])
        names = tuple(map(self.objects.__getitem__, table.objects[row].tolist()))
        return Fact(self.content.relations[int(table.relation[row])], names, confidence)

    def fact_by_id(self, fact_id: int) -> Fact:
        """Return the fact of an id.

        >>> kb = KnowledgeBase.from_facts([("likes", "ann", "bob"), ("old", "ann")])
        >>> str(kb.fact_by_id(0)), str(kb.fact_by_id(1))
        ('old(ann).', 'likes(ann, bob).')
        """
        whole = isinstance(fact_id, int | np.integer)
        for arity, offset in self.fact_offsets.items():
            table = self.fact_tables[arity]
            if whole and 0 <= fact_id - offset < len(table):
                return self.fact_at(table, fact_id - offset)
        raise KnowledgeBaseError(f"facts are numbered from 0 to {len(self) - 1}, got {shorten(repr(fact_id))}")

    def fact_ids(self, relation: Ints | int, tuples: Ints) -> Longs:
        """Return the ids of the facts `relation(tuple)`, shape (b,), int64; −1 for a fact that is not known.

        `tuples` has shape (b, arity). `relation` is the number of one relation, or of one for each tuple.

        >>> kb = KnowledgeBase.from_facts([("likes", "ann", "bob"), ("likes", "bob", "ann"), ("old", "ann")])
        >>> kb.fact_ids(0, np.array([[1, 0], [1, 1]])).tolist()
        [2, -1]
        """
        for name, array in (("relation", np.asarray(relation)), ("tuples", tuples)):
            if not np.issubdtype(array.dtype, np.integer):
                raise KnowledgeBaseError(f"{name} must be integers, got {array.dtype}")
        if tuples.ndim != 2:
            raise KnowledgeBaseError(f"tuples must have the shape (tuples, arity), got {tuples.shape}")
        count, arity = tuples.shape
        table = self.fact_tables.get(arity)
        found = np.full(count, -1, np.int64)
        if table is None:
            return found
        from gaifman.kernels.collections import find_rows  # here: numba takes a quarter of a second to import

        relations = np.broadcast_to(np.asarray(relation, np.int64), (count,))
        rows = freeze(tuples.astype(np.int32, copy=False))
        find_rows(table.objects, table.starts[relations], table.starts[relations + 1], rows, found)
        found[found >= 0] += self.fact_offsets[arity]
        return found

    @property
    def value_table(self) -> ValueTable:
        """All values of attributes, with numbers for names."""
        return self.content.values

    @cached_property
    def value_offsets(self) -> Mapping[str, int]:
        """Attribute → id of its first value: row `i` of the value table is value `len(kb) + i`, after all facts."""
        starts = (len(self) + self.value_table.starts[:-1]).tolist()
        return MappingProxyType(dict(zip(self.content.attributes, starts, strict=True)))

    def value_id(self, attribute: str, object_id: int) -> int:
        """Return the id of an object's value of an attribute, or −1. Ids of values follow those of facts.

        >>> values = {("age", "ann"): 80, ("size", "ann"): 2, ("size", "bob"): 0}
        >>> kb = KnowledgeBase.from_facts([("old", "ann")], values)
        >>> kb.value_id("age", 0), kb.value_id("age", 1), kb.value_id("size", 1), dict(kb.value_offsets)
        (1, -1, 3, {'age': 1, 'size': 2})
        """
        check_int("object_id", object_id, 0, len(self.objects) - 1)
        number = self.content.attributes.find(compact(attribute, self.prefixes))
        if number is None:
            raise self._unknown("attribute", attribute, self.content.attributes)
        rows = self.value_table.rows(number)
        at = rows.start + int(np.searchsorted(self.value_table.objects[rows], object_id))
        found = at < rows.stop and self.value_table.objects[at] == object_id
        return len(self) + at if found else -1

    # As a whole

    @cached_property
    def fingerprint(self) -> str:
        """Hash of facts and known negatives, 32 hexadecimal digits; independent of the order of reading and notes."""
        content = fingerprint(self.content)
        return fingerprint_with(content, self.rejected) if self.rejected else content

    @cached_property
    def schema(self) -> Schema:
        """The names that formulas may use."""
        arities = {name: relation.arity for name, relation in self.relations.items()}
        aliases = self.display if self.labels or self.prefixes else None
        return Schema(MappingProxyType(arities), self.content.attributes, self.objects, aliases)

    def structure(self) -> Structure:
        """Return the facts as sets of names, for `gaifman.logic.semantics`; confidences are ignored."""
        relations = {
            relation.name: Extension(relation.arity, frozenset(fact.objects for fact in self.facts(relation.name)))
            for relation in self.relations.values()
        }
        attributes: dict[str, dict[Hashable, float]] = {name: {} for name in self.attributes}
        for attribute, obj, value in self.values():
            attributes[attribute][obj] = value
        return Structure(frozenset(self.objects), relations, attributes)

    # New knowledge bases

    def with_facts(
        self, facts: Iterable[FactLike], values: Mapping[tuple[str, str], float] | None = None
    ) -> KnowledgeBase:
        """Return a knowledge base with more facts and values; a repeated fact gets its highest confidence."""
        raw = self._to_raw()
        append_facts(raw, map(self._compact, facts), {} if values is None else values, ())
        tables, duplicates = build_tables(raw)
        notes = (*self.notes, *duplicate_notes(tables, duplicates))
        return replace(self, content=tables, notes=notes)

    def _compact(self, fact: FactLike) -> FactLike:
        """Return a fact with prefixes in place of the start of IRIs."""
        if not self.prefixes:
            return fact
        relation, objects, confidence = as_fact(fact)
        return Fact(compact(relation, self.prefixes), tuple(compact(o, self.prefixes) for o in objects), confidence)

    def with_reviews(
        self, accepted: Mapping[FactKey, Provenance], rejected: Mapping[FactKey, Provenance]
    ) -> KnowledgeBase:
        """Return a knowledge base with accepted facts, and with rejected ones as known negatives.

        A later decision replaces an earlier one.
        """
        decided = Reviews(dict(accepted), dict(rejected)).renamed(compactor(self.prefixes))
        accepted, rejected = decided.accepted, decided.rejected
        for key in rejected:
            if key in self and key not in accepted:
                raise KnowledgeBaseError(f"{_statement(key)} is rejected, and it is a fact of the knowledge base")
            if not self._has_names(key):
                raise self._unknown_fact(as_fact(key))
        both = next((key for key in rejected if key in accepted), None)
        if both:
            raise KnowledgeBaseError(f"{_statement(both)} is both accepted and rejected")
        extended = self.with_facts(key for key in accepted if key not in self)
        return replace(extended, reviews=self.reviews.merge(decided))

    def without_facts(self, facts: Iterable[FactLike]) -> KnowledgeBase:
        """Return a knowledge base without some facts, but with all objects and relations."""
        hidden: dict[int, list[int]] = {}
        for fact in map(as_fact, facts):
            row = self._find_row(fact)
            if row is None:
                raise self._unknown_fact(fact)
            hidden.setdefault(len(fact.objects), []).append(row)
        tables = dict(self.fact_tables)
        for arity, rows in hidden.items():
            kept = np.ones(len(tables[arity]), bool)
            kept[rows] = False
            tables[arity] = _take_rows(tables[arity], np.flatnonzero(kept))
        return replace(self, content=replace(self.content, facts=_drop_empty(tables)))

    def extend_schema(self, relations: Mapping[str, int], attributes: Sequence[str] = ()) -> KnowledgeBase:
        """Return a knowledge base whose schema has these relations (name → arity) and attributes too.

        Relations that both have must have the same arity, and there must be at least one.
        """
        known = {name: relation.arity for name, relation in self.relations.items()}
        for name, arity in relations.items():
            if known.get(name, arity) != arity:
                found = plural(known[name], "argument")
                raise KnowledgeBaseError(f"{name} has {found} in the knowledge base and {arity} in the model")
        missing = {name: arity for name, arity in relations.items() if name not in known}
        new_attributes = [name for name in attributes if name not in self.attributes]
        if relations and len(missing) == len(relations):
            raise KnowledgeBaseError(
                f"the knowledge base has none of the {len(relations):,} relations of the model",
                suggestions=similar_names(next(iter(relations)), known),
                hint=f"they are {', '.join(sorted(relations)[:5])}{', …' if len(relations) > 5 else ''}",
            )
        if not missing and not new_attributes:
            return self
        empty, _ = build_tables(RawFacts([], list(missing), list(missing.values()), new_attributes))
        return union([self, KnowledgeBase(empty, prefixes=self.prefixes)])

    def split(
        self,
        valid: float = 0.1,
        test: float = 0.1,
        *,
        relations: Sequence[str] | None = None,
        seed: int = 0,
        inverses: bool = True,
        new_objects: bool = False,
    ) -> Split:
        """Split the facts at random: `train, valid, test = kb.split(valid=0.1, test=0.1)`.

        Each relation gives its share. The choice depends on the seed and the names of a fact, not on the order of the
        input. Train keeps all values of attributes, and a fact of each relation.

        Args:
            valid: The share of the facts to validate with, or their number.
            test: The same for the test.
            relations: The relations whose facts are taken; None for all.
            seed: Another seed gives another split.
            inverses: With False, a fact goes with those that it implies or follows from by the links that
                `gaifman.describe` finds: its inverse, a duplicate in another relation, the other way round of a
                symmetric relation.
            new_objects: Whether objects can be in valid or test alone. By default each keeps a fact in train.

        >>> facts = [("likes", f"p{i}", f"p{j}") for i in range(5) for j in range(5)]
        >>> KnowledgeBase.from_facts(facts).split(valid=5, test=0.2)
        <Split: 15 train, 5 valid, 5 test facts>
        """
        options = SplitOptions(valid, test, relations, seed, inverses, new_objects)
        parts, requested, links = choose_parts(self.content, options)
        train, held_out = self._train_part(parts), [self._part(parts, part) for part in (VALID, TEST)]
        return Split(train, held_out[0], held_out[1], requested, links)

    def _train_part(self, parts: FactParts) -> KnowledgeBase:
        """All but the facts of other parts, and the objects that only these have."""
        rows = {arity: np.flatnonzero(own == 0) for arity, own in parts.items()}
        left = [table.objects[parts[arity] != 0].ravel() for arity, table in self.fact_tables.items()]
        kept = [table.objects[rows[arity]].ravel() for arity, table in self.fact_tables.items()]
        new = np.zeros(len(self.objects), bool)
        for objects, is_new in ((left, True), (kept, False), ([self.value_table.objects], False)):
            for numbers in objects:
                new[numbers] = is_new
        tables = {arity: _take_rows(table, rows[arity]) for arity, table in self.fact_tables.items()}
        train = replace(self, content=replace(self.content, facts=_drop_empty(tables)))
        return train.induced(self.objects[i] for i in np.flatnonzero(~new).tolist()) if new.any() else train

    def _part(self, parts: FactParts, part: int) -> KnowledgeBase:
        """The facts of a part, with the objects and relations that they have."""
        raw = RawFacts([*self.objects], [*self.content.relations], [*self.content.arities])
        for arity, facts in self.fact_tables.items():
            chosen = _take_rows(facts, np.flatnonzero(parts[arity] == part))
            raw.add_facts(chosen.relation, chosen.objects, chosen.confidence)
        tables = build_tables(_drop_unused(raw))[0]
        labels, reviews = _labels_among(tables.objects, self.labels), Reviews(self.reviews.accepted)
        return KnowledgeBase(tables, (), labels, self.prefixes, reviews)

    def induced(self, objects: Iterable[str]) -> KnowledgeBase:
        """Return the induced substructure of some objects: the facts among them, over the same schema."""
        members = np.array(sorted({self.object_id(name) for name in objects}), np.int64)
        inside = np.zeros(len(self.objects), bool)
        inside[members] = True
        renumber = np.cumsum(inside, dtype=np.int32) - 1
        tables = {}
        for arity, facts in self.fact_tables.items():
            taken = _take_rows(facts, np.flatnonzero(inside[facts.objects].all(axis=1)))
            tables[arity] = replace(taken, objects=freeze(renumber[taken.objects]))
        rows = np.flatnonzero(inside[self.value_table.objects])
        numbers = make_value_table(
            self.value_table.attribute[rows],
            renumber[self.value_table.objects[rows]].astype(np.int32),
            self.value_table.value[rows],
            len(self.attributes),
        )
        names = SortedNames(self.objects[number] for number in members.tolist())
        content = replace(self.content, objects=names, facts=_drop_empty(tables), values=numbers)
        return replace(self, content=content, labels=_labels_among(names, self.labels))

    def _to_raw(self, prefix: str = "") -> RawFacts:
        content = self.content
        return RawFacts(
            [prefix + name for name in self.objects],
            [*content.relations],
            [*content.arities],
            [*content.attributes],
            {arity: [(table.relation, table.objects, table.confidence)] for arity, table in self.fact_tables.items()},
            [(self.value_table.attribute, self.value_table.objects, self.value_table.value)],
        )

    def _relation_id(self, name: str) -> int:
        number = self.content.relations.find(compact(name, self.prefixes) if self.prefixes else name)
        if number is None:
            raise self._unknown("relation", name, self.content.relations)
        return number

    def _find_row(self, fact: Fact) -> int | None:
        """Return the row of a fact in the table of its arity, or None."""
        relation, *names = (compact(name, self.prefixes) for name in (fact.relation, *fact.objects))
        number = self.content.relations.find(relation)
        if number is None or self.content.arities[number] != len(fact.objects):
            return None
        objects = [self.objects.find(name) for name in names]
        table = self.fact_tables.get(len(fact.objects))
        if table is None or None in objects:
            return None
        return table.find(number, [number for number in objects if number is not None])

    def _unknown(self, kind: str, name: str, names: Collection[str]) -> KnowledgeBaseError:
        return KnowledgeBaseError(
            f"there is no {kind} {shorten(format_name(name))}", suggestions=similar_names(name, names)
        )

    def _unknown_fact(self, fact: Fact) -> KnowledgeBaseError:
        """Return why a fact is not known: an unknown name, another arity, or neither."""
        relation = self.content.relations[self._relation_id(fact.relation)]
        arity = self.relations[relation].arity
        if arity != len(fact.objects):
            return KnowledgeBaseError(
                f"{format_name(relation)} has {plural(arity, 'argument')}, not {len(fact.objects)}"
            )
        for name in fact.objects:
            self.object_id(name)
        others = tuple(str(other) for other in islice(self.facts(relation, fact.objects[0]), 3))
        return KnowledgeBaseError(f"the fact {shorten(str(fact), 80)} is not known", suggestions=others)


@checked
def union(kbs: Iterable[KnowledgeBase], prefixes: Sequence[str] | None = None) -> KnowledgeBase:
    """Return one knowledge base of several that share relations but no objects.

    >>> one, two = (KnowledgeBase.from_facts([("parent", "ann", child)]) for child in ("bob", "cleo"))
    >>> list(union([one, two], prefixes=["1/", "2/"]).objects)
    ['1/ann', '1/bob', '2/ann', '2/cleo']
    """
    kbs = list(kbs)
    prefixes = [""] * len(kbs) if prefixes is None else prefixes
    _check_union(kbs, prefixes)
    seen = set[str]()
    for kb, prefix in zip(kbs, prefixes, strict=True):
        _check_disjoint(seen, [prefix + name for name in kb.objects])
    return _join(kbs, prefixes)


def merge(kbs: Sequence[KnowledgeBase]) -> KnowledgeBase:
    """Return one knowledge base of several: objects of the same name are the same.

    >>> one, two = (KnowledgeBase.from_facts([("parent", "ann", child)]) for child in ("bob", "cleo"))
    >>> merge([one, two])
    <KnowledgeBase: 3 objects, 1 relation, 2 facts>
    """
    return _join(kbs, [""] * len(kbs))


def _join(kbs: Sequence[KnowledgeBase], prefixes: Sequence[str]) -> KnowledgeBase:
    whole = RawFacts([], [], [])
    relations, attributes = NameEncoder(), NameEncoder()
    for kb, prefix in zip(kbs, prefixes, strict=True):
        part = kb._to_raw(prefix)
        _check_arities(whole, part)
        relation, attribute = relations.encode(part.relations), attributes.encode(part.attributes)
        shift = np.int32(len(whole.objects))
        whole.objects += part.objects
        arities = dict(zip(part.relations, part.arities, strict=True))
        whole.arities += [arities[name] for name in relations.take_new()]
        whole.relations, whole.attributes = [*relations], [*attributes]
        for rows, objects, confidence in (chunk for chunks in part.facts.values() for chunk in chunks):
            whole.add_facts(relation[rows], objects + shift, confidence)
        whole.values += [(attribute[a], o + shift, v) for a, o, v in part.values]
    check_types_and_attributes(whole)
    labels = {
        prefix + name: label for kb, prefix in zip(kbs, prefixes, strict=True) for name, label in kb.labels.items()
    }
    notes = tuple(note for kb in kbs for note in kb.notes)
    reviews = Reviews.union(kb.reviews.with_prefix(prefix) for kb, prefix in zip(kbs, prefixes, strict=True))
    return KnowledgeBase(build_tables(whole)[0], notes, MappingProxyType(labels), _shared_prefixes(kbs), reviews)


def _shared_prefixes(kbs: Sequence[KnowledgeBase]) -> Prefixes:
    """Return the prefixes that stand for the same in all knowledge bases that have them."""
    starts: dict[str, set[str]] = {}
    for kb in kbs:
        for prefix, start in kb.prefixes.items():
            starts.setdefault(prefix, set()).add(start)
    return MappingProxyType({prefix: next(iter(own)) for prefix, own in starts.items() if len(own) == 1})


def _labels_among(names: Collection[str], labels: Labels) -> Labels:
    """Return the labels of some objects."""
    return MappingProxyType({name: labels[name] for name in names if name in labels}) if labels else NOTHING


def _position(names: SortedNames, name: str) -> int:
    number = names.find(name)
    assert number is not None
    return number


def _check_labels(labels: Mapping[str, str]) -> None:
    """Refuse labels that are not valid names."""
    for name, label in labels.items():
        if problem := name_problem(label):
            raise KnowledgeBaseError(f"the label of {shorten(repr(name))}: {problem}, got {shorten(repr(label))}")


def _statement(key: FactKey) -> str:
    return shorten(str(Fact(key[0], key[1:])).removesuffix("."), 80)


def _take_rows(table: FactTable, rows: Longs) -> FactTable:
    """Return some rows of a table, in their order."""
    confidence = None if table.confidence is None else table.confidence[rows]
    return make_fact_table(table.relation[rows], table.objects[rows], confidence, len(table.starts) - 1)


def _drop_empty(tables: Mapping[int, FactTable]) -> Mapping[int, FactTable]:
    return MappingProxyType({arity: table for arity, table in tables.items() if len(table)})


def _drop_unused(raw: RawFacts) -> RawFacts:
    """Return the facts without objects and relations that have none."""
    chunks = [chunk for own in raw.facts.values() for chunk in own]
    none = np.zeros(0, np.int32)
    objects = np.unique(np.concatenate([none, *(chunk[1].ravel() for chunk in chunks)]))
    relations = np.unique(np.concatenate([none, *(chunk[0] for chunk in chunks)]))
    used = RawFacts(
        [raw.objects[i] for i in objects.tolist()],
        [raw.relations[i] for i in relations.tolist()],
        [raw.arities[i] for i in relations.tolist()],
    )
    for relation, members, confidence in chunks:
        used.add_facts(
            np.searchsorted(relations, relation).astype(np.int32),
            np.searchsorted(objects, members).astype(np.int32),
            confidence,
        )
    return used


def _check_union(kbs: Sequence[object], prefixes: Sequence[object]) -> None:
    for kb in kbs:
        if not isinstance(kb, KnowledgeBase):
            raise KnowledgeBaseError(f"union takes knowledge bases, got {shorten(repr(kb))}")
    if isinstance(prefixes, str) or len(prefixes) != len(kbs):
        raise KnowledgeBaseError(f"there are {len(kbs)} knowledge bases but {len(prefixes)} prefixes")
    for prefix in prefixes:
        problem = name_problem(prefix) if isinstance(prefix, str) else "a prefix must be a string"
        if prefix != "" and problem:
            raise KnowledgeBaseError(f"{problem}: {shorten(repr(prefix))}")


def _check_disjoint(seen: set[str], objects: Collection[str]) -> None:
    shared = sorted(seen.intersection(objects))
    if shared:
        raise KnowledgeBaseError(
            f"{plural(len(shared), 'object')} in more than one knowledge base: "
            + ", ".join(shorten(format_name(name)) for name in shared[:3])
            + (", …" if len(shared) > 3 else ""),
            hint="rename them: union(kbs, prefixes=['1/', '2/'])",
        )
    seen.update(objects)


def _check_arities(whole: RawFacts, part: RawFacts) -> None:
    known = dict(zip(whole.relations, whole.arities, strict=True))
    for name, arity in zip(part.relations, part.arities, strict=True):
        if known.get(name, arity) != arity:
            found = plural(known[name], "argument")
            raise KnowledgeBaseError(
                f"{shorten(format_name(name))} has {found} in one knowledge base, {arity} in another"
            )


# Collections: knowledge bases that share relations but no objects, to train one model on

KnowledgeBases = KnowledgeBase | Sequence[KnowledgeBase]
"""One knowledge base, or a collection."""


def as_collection(kb: KnowledgeBases) -> list[KnowledgeBase]:
    """Return the knowledge bases of a collection, ordered by fingerprint: results do not depend on their order."""
    kbs = [kb] if isinstance(kb, KnowledgeBase) else list(kb)
    for other in kbs:
        if not isinstance(other, KnowledgeBase):
            raise KnowledgeBaseError(
                f"a collection has knowledge bases only, got {type(other).__name__}",
                hint="gaifman.read(FILE) reads one",
            )
    if not kbs:
        raise KnowledgeBaseError("there is no knowledge base to train on")
    return sorted(kbs, key=lambda each: each.fingerprint) if len(kbs) > 1 else kbs


def unify_schemas(kbs: Sequence[KnowledgeBase]) -> list[KnowledgeBase]:
    """Return the knowledge bases, each with the relations and attributes of all.

    >>> one = KnowledgeBase.from_facts([("likes", "ann", "bob")])
    >>> two = KnowledgeBase.from_facts([("likes", "bob", "eve"), ("old", "eve")])
    >>> [sorted(kb.relations) for kb in unify_schemas([one, two])]
    [['likes', 'old'], ['likes', 'old']]
    """
    if len(kbs) == 1:
        return [*kbs]
    relations: dict[str, int] = {}
    for kb in kbs:
        if not kb.relations:
            raise KnowledgeBaseError("a knowledge base of the collection has no facts")
        for name, relation in kb.relations.items():
            arity = relations.setdefault(name, relation.arity)
            if arity != relation.arity:
                raise KnowledgeBaseError(
                    f"{name} has {plural(arity, 'argument')} in one knowledge base and {relation.arity} in another",
                    hint="rename one of the two relations",
                )
    attributes = sorted({name for kb in kbs for name in kb.attributes})
    return [kb.extend_schema(relations, attributes) for kb in kbs]


def join_collection(kbs: Sequence[KnowledgeBase]) -> KnowledgeBase:
    """Return one knowledge base with the facts of all, in which objects of different ones have different names."""
    return kbs[0] if len(kbs) == 1 else union(kbs, [f"{number}/" for number in range(1, len(kbs) + 1)])


def shared_names(kbs: Sequence[KnowledgeBase]) -> list[str]:
    """Return the names, sorted, that objects of more than one knowledge base have.

    They are different objects: an object belongs to one knowledge base of the collection.
    """
    seen, shared = set[str](), set[str]()
    for kb in kbs if len(kbs) > 1 else ():
        names = set(kb.objects)
        shared |= seen & names
        seen |= names
    return sorted(shared)

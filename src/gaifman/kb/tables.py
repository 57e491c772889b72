"""Facts as integer arrays, in one canonical form.

Objects, relations and attributes are numbered in the order of their names. Facts are sorted by relation and objects,
without duplicates. So the arrays do not depend on the order in which facts were read.

>>> raw = RawFacts(["bob", "ann"], ["parent"], [2])
>>> raw.add_facts(np.array([0, 0]), np.array([[1, 0], [1, 0]]))
>>> tables, duplicates = build_tables(raw)
>>> list(tables.objects), tables.facts[2].objects.tolist(), duplicates.fact_count
(['ann', 'bob'], [[0, 1]], 1)
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from types import MappingProxyType
from typing import Any, TypeVar, overload

import numpy as np
import numpy.typing as npt

from gaifman.errors import KnowledgeBaseError, shorten
from gaifman.logic.ast import name_problem

Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
_Kind = TypeVar("_Kind", bound=np.generic)


def freeze(array: npt.NDArray[_Kind]) -> npt.NDArray[_Kind]:
    """Return the array, contiguous and read-only. Kernels are compiled for this one kind of array."""
    view = np.ascontiguousarray(array).view()
    view.setflags(write=False)
    return view


def concatenate_ranges(starts: Longs, stops: Longs) -> Longs:
    """Return all integers of some ranges, one range after another.

    >>> concatenate_ranges(np.array([3, 7]), np.array([5, 10])).tolist()
    [3, 4, 7, 8, 9]
    """
    lengths = stops - starts
    ends: Longs = np.cumsum(lengths)
    numbers: Longs = np.arange(int(lengths.sum())) + np.repeat(starts - ends + lengths, lengths)
    return numbers


class SortedNames(Sequence[str]):
    """Distinct names in order; the number of a name is its position.

    >>> names = SortedNames(["bob", "ann", "bob"])
    >>> names[1], names.find("bob"), names.find("cleo"), "ann" in names
    ('bob', 1, None, True)
    """

    __slots__ = ("_names",)

    def __init__(self, names: Iterable[str]) -> None:
        self._names = tuple(sorted(set(names)))

    def __len__(self) -> int:
        return len(self._names)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[str, ...]: ...
    def __getitem__(self, index: int | slice) -> str | tuple[str, ...]:
        return self._names[index]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.find(name) is not None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SortedNames) and self._names == other._names

    def __hash__(self) -> int:
        return hash(self._names)

    def __repr__(self) -> str:
        shown = ", ".join(map(repr, self._names[:3]))
        return f"SortedNames({shown}, … {len(self):,})" if len(self) > 3 else f"SortedNames({shown})"

    def find(self, name: str) -> int | None:
        """Return the number of a name, or None. Found by bisection: a dictionary would double the memory."""
        if not isinstance(name, str):
            raise KnowledgeBaseError(f"a name must be a string, got {shorten(repr(name))}")
        at = bisect_left(self._names, name)
        return at if at < len(self._names) and self._names[at] == name else None


class NameEncoder(defaultdict[str, int]):
    """Numbers names in the order in which they come.

    >>> NameEncoder().encode(["bob", "ann", "bob"]).tolist()
    [0, 1, 0]
    """

    def __init__(self) -> None:
        super().__init__()
        self.default_factory = self.__len__
        self._seen = 0

    def encode(self, names: Sequence[str]) -> Ints:
        """Return the numbers of the names, shape (names,), int32; new names get the next numbers."""
        return np.fromiter(map(self.__getitem__, names), np.int32, len(names))

    def take_new(self) -> list[str]:
        """Return the names that are new since the last call."""
        names = list(islice(reversed(self), len(self) - self._seen))  # from the end, to touch only the new ones
        self._seen = len(self)
        return names[::-1]


def find_invalid_name(names: Iterable[str]) -> tuple[str, str] | None:
    r"""Return the first invalid name and the reason, or None.

    >>> find_invalid_name(["ann", "b\0b"])
    ('b\x00b', 'a name cannot contain the character NUL')
    """
    for name in names:
        plain = name and name.isascii() and "\0" not in name  # a fast check for most names
        if not plain and (problem := name_problem(name)):
            return name, problem
    return None


@dataclass(frozen=True, slots=True)
class FactTable:
    """All facts of one arity, sorted by relation, then by objects."""

    relation: Ints
    """Shape (facts,), int32: number of the fact's relation."""
    objects: Ints
    """Shape (facts, arity), int32: numbers of the fact's objects."""
    confidence: Floats | None
    """Shape (facts,), float64 in (0, 1]; None if all facts are certain."""
    starts: Longs
    """Shape (relations + 1,), int64: the facts of relation `r` are the rows `starts[r]` to `starts[r + 1]`."""

    def __len__(self) -> int:
        return len(self.relation)

    @property
    def arity(self) -> int:
        """Arity of the relations."""
        return int(self.objects.shape[1])

    def rows(self, relation: int) -> range:
        """Return the rows of a relation."""
        return range(int(self.starts[relation]), int(self.starts[relation + 1]))

    def find(self, relation: int, objects: Sequence[int]) -> int | None:
        """Return the row of a fact, or None."""
        rows, key = self.rows(relation), list(objects)
        at = bisect_left(rows, key, key=lambda row: self.objects[row].tolist())
        return rows[at] if at < len(rows) and self.objects[rows[at]].tolist() == key else None

    def rows_with_object(self, number: int) -> Longs:
        """Return the rows in which an object occurs."""
        return np.flatnonzero((self.objects == number).any(axis=1))


@dataclass(frozen=True, slots=True)
class ValueTable:
    """All values of numeric attributes, sorted by attribute, then by object."""

    attribute: Ints
    """Shape (values,), int32: number of the attribute."""
    objects: Ints
    """Shape (values,), int32: number of the object."""
    value: Floats
    """Shape (values,), float64, finite."""
    starts: Longs
    """Shape (attributes + 1,), int64: the values of attribute `a` are the rows `starts[a]` to `starts[a + 1]`."""

    def __len__(self) -> int:
        return len(self.attribute)

    def rows(self, attribute: int) -> slice:
        """Return the rows of an attribute."""
        return slice(int(self.starts[attribute]), int(self.starts[attribute + 1]))


@dataclass(frozen=True, slots=True)
class Tables:
    """The names and arrays of a knowledge base, in canonical form."""

    objects: SortedNames
    relations: SortedNames
    arities: tuple[int, ...]
    """Arity of each relation, by its number."""
    attributes: SortedNames
    facts: Mapping[int, FactTable]
    """Arity → facts; arities without facts are missing."""
    values: ValueTable

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as plain data: a read-only mapping cannot be pickled."""
        facts = {arity: (facts.relation, facts.objects, facts.confidence) for arity, facts in self.facts.items()}
        return _unpickle_tables, ((self.objects, self.relations, self.attributes), self.arities, facts, self.values)


FactChunk = tuple[Ints, Ints, Floats | None]
"""Relation (facts,), objects (facts, arity) and confidence (facts,) or None."""


@dataclass(slots=True)
class RawFacts:
    """Facts with names in any order, perhaps repeated; `build_tables` makes tables of them."""

    objects: list[str]
    relations: list[str]
    arities: list[int]
    attributes: list[str] = field(default_factory=list)
    facts: dict[int, list[FactChunk]] = field(default_factory=dict)
    values: list[tuple[Ints, Ints, Floats]] = field(default_factory=list)
    """Attribute, object and value, each (values,)."""

    def add_facts(self, relation: Ints, objects: Ints, confidence: Floats | None = None) -> None:
        """Add facts of one arity."""
        self.facts.setdefault(objects.shape[1], []).append((relation, objects, confidence))


@dataclass(frozen=True, slots=True)
class Duplicates:
    """Repeated facts and values."""

    fact_count: int
    example_fact: tuple[int, ...] | None
    """Relation and objects of a repeated fact, as numbers in the tables."""
    value_count: int
    example_value: tuple[int, ...] | None
    """Attribute and object of a repeated value."""


def build_tables(raw: RawFacts) -> tuple[Tables, Duplicates]:
    """Return the facts in canonical form; `raw` cannot be used again.

    A repeated fact gets its highest confidence, a repeated value its largest number.
    """
    objects, object_rank = _sort_names(raw.objects)
    relations, relation_rank = _sort_names(raw.relations)
    attributes, attribute_rank = _sort_names(raw.attributes)
    arities = dict(zip(raw.relations, raw.arities, strict=True))
    facts, duplicates, example = {}, 0, None
    for arity in sorted(raw.facts):
        columns, confidence = stack_chunks(raw.facts.pop(arity))
        for number, column in enumerate(columns):
            columns[number] = (object_rank if number else relation_rank)[column]
        rows = unique_rows(columns, [len(relations)] + [len(objects)] * arity, confidence)
        duplicates, example = duplicates + rows.duplicates, example or rows.example
        if len(rows.columns[0]):
            members = np.stack(rows.columns[1:], axis=1)
            facts[arity] = make_fact_table(rows.columns[0], members, rows.weight, len(relations))
    values = raw.values or [(np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(0))]
    attribute, holder, value = (np.concatenate(column) for column in zip(*values, strict=True))
    known = unique_rows([attribute_rank[attribute], object_rank[holder]], [len(attributes), len(objects)], value)
    assert known.weight is not None
    return (
        Tables(
            objects,
            relations,
            tuple(arities[name] for name in relations),
            attributes,
            MappingProxyType(facts),
            make_value_table(known.columns[0], known.columns[1], known.weight, len(attributes)),
        ),
        Duplicates(duplicates, example, known.duplicates, known.example),
    )


def make_fact_table(relation: Ints, objects: Ints, confidence: Floats | None, relation_count: int) -> FactTable:
    """Return a table of sorted rows, read-only; without confidences if all are 1."""
    if confidence is not None and (confidence == 1).all():
        confidence = None
    starts = np.searchsorted(relation, np.arange(relation_count + 1)).astype(np.int64)
    confidence = None if confidence is None else freeze(confidence)
    return FactTable(freeze(relation), freeze(objects), confidence, freeze(starts))


def make_value_table(attribute: Ints, holder: Ints, value: Floats, attribute_count: int) -> ValueTable:
    """Return a table of sorted values, read-only."""
    starts = np.searchsorted(attribute, np.arange(attribute_count + 1)).astype(np.int64)
    value = value + 0.0  # makes -0.0 equal to 0.0, which has another fingerprint
    return ValueTable(freeze(attribute), freeze(holder), freeze(value), freeze(starts))


def _unpickle_tables(
    names: Sequence[SortedNames], arities: tuple[int, ...], facts: dict[int, FactChunk], values: ValueTable
) -> Tables:
    objects, relations, attributes = names
    tables = {arity: make_fact_table(*columns, len(relations)) for arity, columns in facts.items()}
    known = make_value_table(values.attribute, values.objects, values.value, len(attributes))
    return Tables(objects, relations, arities, attributes, MappingProxyType(tables), known)


def _sort_names(names: Sequence[str]) -> tuple[SortedNames, Ints]:
    """Return the sorted names, and the rank of each name."""
    ranked = SortedNames(names)
    ranks = dict(zip(ranked, range(len(ranked)), strict=True))
    return ranked, np.fromiter(map(ranks.__getitem__, names), np.int32, len(names))


def stack_chunks(chunks: list[FactChunk]) -> tuple[list[Ints], Floats | None]:
    """Return relation and objects of all chunks as columns, shape (facts,) each, and their confidence or None."""
    columns = [np.concatenate([chunk[0] for chunk in chunks])]
    columns += [np.concatenate([chunk[1][:, i] for chunk in chunks]) for i in range(chunks[0][1].shape[1])]
    confidence = None
    if any(chunk[2] is not None for chunk in chunks):
        confidence = np.concatenate([np.ones(len(c[0])) if c[2] is None else c[2] for c in chunks])
    return columns, confidence


@dataclass(frozen=True, slots=True)
class UniqueRows:
    """Sorted rows without duplicates."""

    columns: list[Ints]
    weight: Floats | None
    """Largest weight of the equal rows."""
    duplicates: int
    example: tuple[int, ...] | None
    """A repeated row."""


def row_ids(*matrices: Ints) -> list[Longs]:
    """Number the distinct rows of matrices with equally many columns, in ascending order; one id for each row.

    >>> [ids.tolist() for ids in row_ids(np.array([[1, 5], [0, 7]]), np.array([[1, 5], [1, 4]]))]
    [[2, 0], [2, 1]]
    """
    rows = np.concatenate(matrices)
    ids = np.zeros(len(rows), np.int64)
    for column in rows.T:  # ids are made small after each column, so that no product overflows
        ids = np.unique(ids * (int(column.max(initial=0)) + 1) + column, return_inverse=True)[1]
    return np.split(ids, np.cumsum([len(matrix) for matrix in matrices[:-1]]))


def rows_in(rows: Ints, others: Ints) -> npt.NDArray[np.bool_]:
    """Shape (rows,): which rows are among the others."""
    ids, other_ids = row_ids(rows, others)
    return np.isin(ids, other_ids)


def unique_rows(columns: list[Ints], sizes: Sequence[int], weight: Floats | None = None) -> UniqueRows:
    """Return the distinct rows of some columns, sorted; entries of column i are below `sizes[i]`.

    A row that fits is packed into one 64-bit integer: sorting those is many times as fast as sorting columns.

    >>> rows = unique_rows([np.array([1, 0, 1]), np.array([5, 5, 5])], [2, 6], np.array([0.5, 1.0, 0.7]))
    >>> [column.tolist() for column in rows.columns], rows.weight.tolist(), rows.duplicates, rows.example
    ([[0, 1], [5, 5]], [1.0, 0.7], 1, (1, 5))
    """
    bits = [max(1, int(size - 1).bit_length()) for size in sizes]
    fits = sum(bits) <= 63
    packed: list[npt.NDArray[np.integer]] = [_pack(columns, bits)] if fits else [*columns]
    if len(packed) == 1 and weight is None:
        packed[0].sort()
    else:
        order = np.argsort(packed[0], kind="stable") if fits else np.lexsort(packed[::-1])
        packed = [column[order] for column in packed]
        weight = None if weight is None else weight[order]
    first = _row_changes(packed)
    example = None
    if not first.all():
        row = int(np.argmin(first))
        example = tuple(int(c[0]) for c in _unpack([c[row : row + 1] for c in packed], bits, fits))
    if weight is not None and len(weight):
        weight = np.maximum.reduceat(weight, np.flatnonzero(first))
    kept = packed if example is None else [column[first] for column in packed]
    return UniqueRows(_unpack(kept, bits, fits), weight, len(first) - len(kept[0]), example)


def _row_changes(columns: Sequence[npt.NDArray[np.integer]]) -> npt.NDArray[np.bool_]:
    """Return for each row whether it differs from the one before."""
    first = np.ones(len(columns[0]), bool)
    first[1:] = False
    for column in columns:
        first[1:] |= column[1:] != column[:-1]
    return first


def _pack(columns: Sequence[Ints], bits: Sequence[int]) -> Longs:
    key = columns[0].astype(np.int64)
    for column, width in zip(columns[1:], bits[1:], strict=True):
        key <<= width
        key |= column
    return key


def _unpack(packed: Sequence[npt.NDArray[np.integer]], bits: Sequence[int], fits: bool) -> list[Ints]:
    if not fits:
        return [column.astype(np.int32) for column in packed]
    shifts = [sum(bits[i + 1 :]) for i in range(len(bits))]
    return [
        ((packed[0] >> shift) & ((1 << width) - 1)).astype(np.int32) for shift, width in zip(shifts, bits, strict=True)
    ]


def fingerprint(tables: Tables) -> str:
    """Return a hash of the content, 32 hexadecimal digits; the same on every machine."""
    digest = hashlib.blake2b(b"gaifman knowledge base 1", digest_size=16)
    for names in (tables.objects, tables.relations, tables.attributes):
        digest.update(len(names).to_bytes(8, "little"))
        digest.update("\0".join(names).encode() + b"\0")  # names contain no NUL, so different lists differ
    digest.update(bytes(tables.arities))
    for arity, facts in sorted(tables.facts.items()):
        digest.update(bytes([arity, facts.confidence is not None]) + len(facts).to_bytes(8, "little"))
        digest.update(_bytes(facts.relation, "<i4"))
        digest.update(_bytes(facts.objects, "<i4"))
        if facts.confidence is not None:
            digest.update(_bytes(facts.confidence, "<f8"))
    for array, kind in ((tables.values.attribute, "<i4"), (tables.values.objects, "<i4"), (tables.values.value, "<f8")):
        digest.update(_bytes(array, kind))
    return digest.hexdigest()


def _bytes(array: npt.NDArray[np.generic], kind: str) -> bytes:
    return array.astype(kind, copy=False).tobytes()

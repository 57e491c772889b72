"""Build a knowledge base from encoded rows, with the location of every mistake."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from gaifman.config import DEFAULT_LIMITS, raise_limit_hint
from gaifman.errors import InputError, Location, plural, shorten
from gaifman.kb.knowledge_base import KnowledgeBase, Note, duplicate_notes, format_name
from gaifman.kb.labels import NOTHING, Labels, Prefixes, compactor, usable_prefixes
from gaifman.kb.reviews import FactKey, Provenance, Reviews
from gaifman.kb.tables import (
    Duplicates,
    FactChunk,
    Floats,
    Ints,
    Longs,
    NameEncoder,
    RawFacts,
    SortedNames,
    Tables,
    build_tables,
    find_invalid_name,
    stack_chunks,
    unique_rows,
)

UInt64Array = npt.NDArray[np.uint64]
WordColumn = tuple[Longs | None, UInt64Array]
"""Eight bytes of some names (None: of all) as one integer each, padded with zeros."""

_MASKS = np.array([(1 << 8 * size) - 1 for size in range(9)], np.uint64)


class Interner:
    """A hash table of the names so far. Its arrays are indexed by entry; entries are numbered as they come."""

    def __init__(self) -> None:
        # Random, so that no file can be made whose names all collide. The result does not depend on it.
        self._factor = np.uint64(secrets.randbits(64) | 1)
        self._slots = np.full(1 << 12, -1, np.int32)
        """Shape (a power of two,): the entry whose hash belongs here, or -1."""
        self._hash = np.zeros(0, np.uint64)
        self._number = np.zeros(0, np.int32)
        """Shape (entries,): number in the encoder."""
        self._length = np.zeros(0, np.int64)
        self._first = np.zeros(0, np.int64)
        """Shape (entries,): start of the entry's bytes in `_words`."""
        self._words = np.zeros(0, np.uint64)

    def encode(self, data: bytes, starts: Longs, ends: Longs, encoder: NameEncoder) -> Ints:
        """Return the numbers of the names `data[start:end]`; new names are added to the encoder in order."""
        lengths = ends - starts
        parts = _split_into_words(data, starts, lengths)
        hashes = self._hashes(parts, lengths)
        entries = self._find(hashes)
        new = np.flatnonzero(entries < 0)
        if len(new):
            _, first, which = np.unique(hashes[new], return_index=True, return_inverse=True)
            order = np.argsort(first)
            rank = np.argsort(order)
            entries[new] = len(self._hash) + rank[which]
            self._add(data, starts, ends, hashes, new[first[order]], encoder)
        if not self._matches(entries, lengths, parts):
            names = [data[a:b].decode() for a, b in zip(starts.tolist(), ends.tolist(), strict=True)]
            return encoder.encode(names)
        numbers: Ints = self._number[entries]
        return numbers

    def _hashes(self, parts: list[WordColumn], lengths: Longs) -> UInt64Array:
        hashes = lengths.astype(np.uint64)
        for chosen, words in parts:
            mixed = words ^ (hashes if chosen is None else hashes[chosen])
            mixed *= self._factor
            mixed ^= mixed >> np.uint64(32)
            if chosen is None:
                hashes = mixed
            else:
                hashes[chosen] = mixed
        hashes *= self._factor
        return hashes

    def _slot(self, hashes: UInt64Array) -> Longs:
        bits = len(self._slots).bit_length() - 1
        return (hashes >> np.uint64(64 - bits)).astype(np.int64)

    def _find(self, hashes: UInt64Array) -> Longs:
        """Return the entry of each hash, or -1."""
        if not len(self._hash):
            return np.full(len(hashes), -1, np.int64)
        slots = self._slot(hashes)
        entries = self._slots[slots].astype(np.int64)
        wrong = np.flatnonzero((entries >= 0) & (self._hash[entries] != hashes))
        while len(wrong):
            slots[wrong] = (slots[wrong] + 1) & (len(self._slots) - 1)
            entries[wrong] = self._slots[slots[wrong]]
            tried = entries[wrong]
            wrong = wrong[(tried >= 0) & (self._hash[tried] != hashes[wrong])]
        return entries

    def _add(
        self, data: bytes, starts: Longs, ends: Longs, hashes: UInt64Array, new: Longs, encoder: NameEncoder
    ) -> None:
        """Add entries for the names at the positions `new`."""
        spans = list(zip(starts[new].tolist(), ends[new].tolist(), strict=True))
        names = [data[start:end] for start, end in spans]
        numbers = encoder.encode([name.decode() for name in names])
        sizes = (ends[new] - starts[new] + 7) // 8
        filled = b"".join(name.ljust(size * 8, b"\0") for name, size in zip(names, sizes.tolist(), strict=True))
        first = len(self._hash)
        self._first = np.concatenate([self._first, len(self._words) + np.cumsum(sizes) - sizes])
        self._words = np.concatenate([self._words, np.frombuffer(filled, "<u8").astype(np.uint64)])
        self._length = np.concatenate([self._length, ends[new] - starts[new]])
        self._number = np.concatenate([self._number, numbers])
        self._hash = np.concatenate([self._hash, hashes[new]])
        if 4 * len(self._hash) > len(self._slots):
            self._slots = np.full(1 << (8 * len(self._hash)).bit_length(), -1, np.int32)
            first = 0
        self._insert(np.arange(first, len(self._hash)))

    def _insert(self, entries: Longs) -> None:
        """Give each entry the next free slot, starting with that of its hash."""
        slots = self._slot(self._hash[entries])
        while len(entries):
            free = self._slots[slots] < 0
            self._slots[slots[free]] = entries[free]
            left = self._slots[slots] != entries
            entries, slots = entries[left], (slots[left] + 1) & (len(self._slots) - 1)

    def _matches(self, entries: Longs, lengths: Longs, parts: list[WordColumn]) -> bool:
        """Return whether all names are those of their entries."""
        if (self._length[entries] != lengths).any():
            return False
        first = self._first[entries]
        for number, (chosen, words) in enumerate(parts):
            at = first if chosen is None else first[chosen]
            if number == 0 and not lengths.all():
                continue  # an empty name has no words; the builder refuses it
            if (self._words[at + number] != words).any():
                return False
        return True


def _split_into_words(data: bytes, starts: Longs, lengths: Longs) -> list[WordColumn]:
    """Return the first eight bytes of all names, the next eight of the longer names, and so on."""
    view: UInt64Array = np.ndarray((len(data) + 1,), "<u8", data + bytes(8), 0, (1,))
    parts: list[WordColumn] = []
    chosen: Longs | None = None
    while True:
        words = view[starts]
        short = np.flatnonzero(lengths < 8)
        words[short] &= _MASKS[lengths[short]]
        parts.append((chosen, words))
        longer = np.flatnonzero(lengths > 8)
        if not len(longer):
            return parts
        chosen = longer if chosen is None else chosen[longer]
        starts, lengths = starts[longer] + 8, lengths[longer] - 8


LabelRank = tuple[int, int, int, int, str]
"""Which label is shown: its source, its place among the languages, whether it is regional, its property, its tag."""

Locator = Callable[[int, int], Location]
"""Row and field → location. Field 0 is the relation or attribute, 1 … are the objects; or `NUMBER_FIELD`."""

NUMBER_FIELD = -1
"""Field of the confidence or value."""


FOLD_ROWS = 1 << 21
"""Rows that a store holds before it looks for repeated ones."""
_SAMPLE_BITS = 6
"""One row in 2^6 is looked at to find out whether rows repeat."""
_MIN_REPEATED = 0.25
"""Share of repeated rows that makes folding worth its time."""


class RowStore:
    """Facts of one arity, or values: chunks of names' numbers and weights.

    If many rows repeat, they are folded as they come: memory holds a few times the distinct rows, however many come.
    """

    def __init__(self) -> None:
        self.chunks: list[FactChunk] = []
        """Relation or attribute, objects, and confidence or value."""
        self.repeated_count = 0
        """Number of repeated rows that were folded."""
        self.repeated: tuple[int, ...] | None = None
        """One of them: relation or attribute, and objects."""
        self._rows, self._next_fold = 0, FOLD_ROWS

    def add(self, chunk: FactChunk) -> None:
        """Add rows."""
        self.chunks.append(chunk)
        self._rows += len(chunk[0])
        if self._rows >= self._next_fold:
            if self._repeats():
                self._fold()
            self._next_fold = max(FOLD_ROWS, 2 * self._rows)

    def _repeats(self) -> bool:
        """Whether many rows are repeated, by the rows whose hash is small: of equal rows all or none are among them."""
        seen = [_row_hashes(relation, objects) for relation, objects, _ in self.chunks]
        small = np.concatenate([hashes[hashes >> np.uint64(64 - _SAMPLE_BITS) == 0] for hashes in seen])
        return len(np.unique(small)) < (1 - _MIN_REPEATED) * self._rows / (1 << _SAMPLE_BITS)

    def _fold(self) -> None:
        """Keep each row once, with its largest weight."""
        rows, weight = stack_chunks(self.chunks)
        self.chunks = []
        folded = unique_rows(rows, [int(column.max()) + 1 for column in rows], weight)
        self.chunks = [(folded.columns[0], np.stack(folded.columns[1:], axis=1), folded.weight)]
        self.repeated_count += folded.duplicates
        self.repeated = self.repeated or folded.example
        self._rows = len(folded.columns[0])


def _row_hashes(relation: Ints, objects: Ints) -> UInt64Array:
    """Return a hash of each row, shape (rows,)."""
    hashes = relation.astype(np.uint64)
    for column in objects.T:
        hashes ^= hashes >> np.uint64(29)
        hashes *= np.uint64(0x9E3779B97F4A7C15)
        hashes += column.astype(np.uint64)
    hashes ^= hashes >> np.uint64(29)
    hashes *= np.uint64(0xBF58476D1CE4E5B9)
    return hashes ^ (hashes << np.uint64(32))


class KnowledgeBaseBuilder:
    """Collects facts and values whose names are encoded by one numbering.

    Relations, objects and attributes share the numbering, so a reader looks each word of a text up only once.
    """

    def __init__(self, max_rows: int = DEFAULT_LIMITS.facts) -> None:
        """`max_rows` bounds the facts and values, repeated ones included."""
        self._max_rows, self._row_count = max_rows, 0
        self._names = NameEncoder()
        self._interner = Interner()
        self._arity = np.zeros(0, np.int8)
        """By name: arity of the relation, 0 if the name is not one."""
        self._attribute = np.zeros(0, bool)
        """By name: whether it is an attribute."""
        self._first: dict[tuple[str, int], str] = {}
        """Kind and name → location of the first use."""
        self._object = np.zeros(0, bool)
        """By name: whether it is an object without a fact, or of facts that were folded."""
        self._facts: dict[int, RowStore] = {}
        """Arity → relation, objects and confidence."""
        self._values = RowStore()
        """Attribute, object and value."""
        self._notes: dict[str, Note] = {}
        self._labels: dict[str, tuple[LabelRank, str]] = {}
        """Name → its best label so far."""
        self._prefixes: list[tuple[str, str]] = []
        """Prefixes that files declare, and the starts of IRIs that they stand for."""
        self._reviews: dict[bool, dict[FactKey, Provenance]] = {True: {}, False: {}}

    def add_note(self, count: int, text: str, example: str = "", singular: str = "") -> None:
        """Add to the count of a note; the first example is kept. `singular` is the text for a count of one."""
        known = self._notes.get(text, Note(0, text, example, singular))
        self._notes[text] = replace(known, count=known.count + count, example=known.example or example)

    def add_label(self, name: str, label: str, rank: LabelRank) -> None:
        """Add a label of a name, which need not be an object yet; the one of the lowest rank is kept."""
        known = self._labels.get(name)
        if known is None or (rank, label) < known:
            self._labels[name] = rank, label

    def add_prefixes(self, prefixes: Mapping[str, str]) -> None:
        """Add prefixes: names that begin with the IRI of one are shortened at the end, whatever file they are from."""
        self._prefixes += [item for item in prefixes.items() if item not in self._prefixes]

    def add_review(self, key: FactKey, provenance: Provenance, accepted: bool, locate: Callable[[], Location]) -> None:
        """Add the decision about a proposed fact; `key` has its relation and objects."""
        if not accepted:
            self.count_rows(1, locate)  # an accepted one is a fact, which is counted
        self._reviews[accepted][key] = provenance
        self._reviews[not accepted].pop(key, None)

    def encode_names(self, names: Sequence[str], locate: Callable[[int], Location]) -> Ints:
        """Encode names, shape (names,); `locate` gives the location of a position."""
        numbers = self._names.encode(names)
        self._check_new_names(lambda name: locate(names.index(name)))
        return numbers

    def encode_bytes(self, data: bytes, starts: Longs, ends: Longs, locate: Callable[[str], Location]) -> Ints:
        """Encode the names `data[start:end]`, shape (starts,); `locate` gives the location of a name."""
        numbers = self._interner.encode(data, starts, ends, self._names)
        self._check_new_names(locate)
        return numbers

    def _check_new_names(self, locate: Callable[[str], Location]) -> None:
        """Refuse invalid names, and note names with surrounding spaces."""
        new_names = self._names.take_new()
        invalid = find_invalid_name(new_names)
        if invalid:
            raise InputError(invalid[1], location=locate(invalid[0]))
        spaced = [name for name in new_names if name[0].isspace() or name[-1].isspace()]
        if spaced:
            example, singular = shorten(repr(spaced[0])), "name that begins or ends with a space"
            self.add_note(len(spaced), "names that begin or end with a space", example, singular)

    def add_facts(self, relation: Ints, objects: Ints, confidence: Floats | None, locate: Locator) -> None:
        """Add encoded facts: relation (facts,), objects (facts, arity), confidence (facts,) or None."""
        self._register_relations(relation, objects.shape[1], locate)
        if confidence is not None:
            wrong = ~((confidence > 0) & (confidence <= 1))
            if wrong.any():
                location = locate(int(np.argmax(wrong)), NUMBER_FIELD)
                raise InputError("a confidence must be above 0 and at most 1", location=location)
        self.count_rows(len(relation), lambda: locate(0, 0))
        self._facts.setdefault(objects.shape[1], RowStore()).add((relation, objects, confidence))

    def add_values(self, attribute: Ints, holder: Ints, value: Floats, locate: Locator) -> None:
        """Add encoded values of attributes, all of shape (values,)."""
        self._register_attributes(attribute, locate)
        wrong = ~np.isfinite(value)
        if wrong.any():
            raise InputError("a value must be a finite number", location=locate(int(np.argmax(wrong)), NUMBER_FIELD))
        self.count_rows(len(attribute), lambda: locate(0, 0))
        self._values.add((attribute, holder[:, None], value))

    def count_rows(self, number: int, locate: Callable[[], Location]) -> None:
        """Count rows that are read, and refuse more than the limit; `locate` gives their location."""
        self._row_count += number
        self.check_row_count(0, locate)

    def check_row_count(self, more: int, locate: Callable[[], Location]) -> None:
        """Refuse to read this number of rows more if they exceed the limit."""
        if self._row_count + more > self._max_rows:
            message = f"there are more than {self._max_rows:,} facts and values, repeated ones included"
            raise InputError(message, location=locate(), hint=raise_limit_hint("facts"))

    def declare(self, objects: Ints, relations: Ints, arities: Ints, attributes: Ints, locate: Locator) -> None:
        """Add objects, relations with arities, and attributes, which need no facts or values."""
        self._grow()
        self._object[objects] = True
        for arity in np.unique(arities).tolist():
            chosen = np.flatnonzero(arities == arity).tolist()
            self._register_relations(relations[chosen], arity, lambda row, field, at=chosen: locate(at[row], field))  # type: ignore[misc]
        self._register_attributes(attributes, locate)

    def check_arities(self, relation: Ints, arity: Longs, locate: Locator) -> None:
        """Refuse the first row whose relation has another arity than before; all of shape (rows,)."""
        self._grow()
        names, first, which = np.unique(relation, return_index=True, return_inverse=True)
        known = self._arity[names]
        wrong = np.where(known == 0, arity[first], known)[which] != arity
        if wrong.any():
            row = int(np.argmax(wrong))
            for number, at in zip(names[known == 0].tolist(), first[known == 0].tolist(), strict=True):
                self._first["relation", number] = str(locate(at, 0))
                self._arity[number] = arity[at]
            self._check_arity(wrong, relation, int(arity[row]), locate)

    def _register_relations(self, relation: Ints, arity: int, locate: Locator) -> None:
        """Check the arity of the relations, and record those that are new."""
        self._grow()
        known = self._arity[relation]
        self._check_arity((known != 0) & (known != arity), relation, arity, locate)
        if arity == 1:
            self._check_kind(self._attribute[relation], relation, "an attribute", locate)
        new = np.flatnonzero(known == 0)
        self._record_first("relation", relation[new], new, locate)
        self._arity[relation] = arity

    def _register_attributes(self, attribute: Ints, locate: Locator) -> None:
        """Check that the names can be attributes, and record those that are new."""
        self._grow()
        self._check_kind(self._arity[attribute] == 1, attribute, "a type", locate)
        new = np.flatnonzero(~self._attribute[attribute])
        self._record_first("attribute", attribute[new], new, locate)
        self._attribute[attribute] = True

    def build(self) -> KnowledgeBase:
        """Return the knowledge base; the builder cannot be used again."""
        self._grow()
        names, prefixes = self._final_names()
        used = self._object
        for store in (*self._facts.values(), self._values):
            for _, objects, _ in store.chunks:
                used[objects] = True
        relation, holder, attribute = map(_renumber, (self._arity > 0, used, self._attribute))
        raw = RawFacts(
            names[used].tolist(),
            names[self._arity > 0].tolist(),
            self._arity[self._arity > 0].tolist(),
            names[self._attribute].tolist(),
        )
        for store in self._facts.values():
            while store.chunks:  # frees each chunk, so that memory never holds two copies of all facts
                rows, objects, confidence = store.chunks.pop()
                raw.add_facts(relation[rows], holder[objects], confidence)
        raw.values = [
            (attribute[a], holder[o[:, 0]], value) for a, o, value in self._values.chunks if value is not None
        ]
        tables, duplicates = build_tables(raw)
        duplicates = self._with_folded(duplicates, tables, names)
        labels = self._object_labels(tables.objects, prefixes)
        notes = (*self._notes.values(), *duplicate_notes(tables, duplicates))
        reviews = Reviews(self._reviews[True], self._reviews[False])
        if not prefixes:
            return KnowledgeBase(tables, notes, labels, NOTHING, reviews)
        return KnowledgeBase(tables, notes, labels, MappingProxyType(prefixes), reviews.renamed(compactor(prefixes)))

    def _final_names(self) -> tuple[npt.NDArray[np.object_], dict[str, str]]:
        """Return the names by number, shortened by prefixes, and the prefixes that shorten some."""
        names = [*self._names]
        prefixes, taken = usable_prefixes(self._prefixes, names) if self._prefixes else ({}, {})
        for prefix, name in taken.items():
            self.add_note(1, "prefixes not used, because names begin with them", f"{prefix} of {shorten(name)}")
        for prefix, start in self._prefixes:
            if prefixes.get(prefix, start) != start:
                self.add_note(1, "prefixes with two meanings, the first kept", prefix)
        if prefixes:
            short = list(map(compactor(prefixes), names))
            used = {new.partition(":")[0] for new, name in zip(short, names, strict=True) if new != name}
            names, prefixes = short, {prefix: start for prefix, start in prefixes.items() if prefix in used}
        return np.array([*names, *[""] * (len(self._arity) - len(names))], object), prefixes

    def _object_labels(self, objects: SortedNames, prefixes: Prefixes) -> Labels:
        """Return the labels of objects; those of other names are counted."""
        if not self._labels:
            return NOTHING
        shorten_iri, found = compactor(prefixes) if prefixes else str, dict[str, str]()
        for name, (_, label) in self._labels.items():
            known = name if name in objects else shorten_iri(name)
            if known in objects:
                found[known] = label
            else:
                self.add_note(1, "labels of names that are no objects, left out", shorten(name))
        return MappingProxyType(dict(sorted(found.items())))

    def _with_folded(self, found: Duplicates, tables: Tables, names: npt.NDArray[np.object_]) -> Duplicates:
        """Add the rows that were folded before the tables were built."""

        def final(kinds: SortedNames, rows: Iterable[tuple[int, ...] | None]) -> tuple[int, ...] | None:
            row = next((row for row in rows if row is not None), None)
            return row and (_rank(kinds, names[row[0]]), *(_rank(tables.objects, names[one]) for one in row[1:]))

        stores = [self._facts[arity] for arity in sorted(self._facts)]
        return Duplicates(
            found.fact_count + sum(store.repeated_count for store in stores),
            found.example_fact or final(tables.relations, (store.repeated for store in stores)),
            found.value_count + self._values.repeated_count,
            found.example_value or final(tables.attributes, [self._values.repeated]),
        )

    def _grow(self) -> None:
        """Make room for the names so far, and as many again."""
        if len(self._names) > len(self._arity):
            more = 2 * len(self._names) - len(self._arity)
            self._arity = np.concatenate([self._arity, np.zeros(more, np.int8)])
            self._attribute = np.concatenate([self._attribute, np.zeros(more, bool)])
            self._object = np.concatenate([self._object, np.zeros(more, bool)])

    def _name(self, number: int) -> str:
        return next(name for name, known in self._names.items() if known == number)

    def _record_first(self, kind: str, numbers: Ints, rows: npt.NDArray[np.int64], locate: Locator) -> None:
        """Record the location of each new relation or attribute."""
        for number, at in zip(*np.unique(numbers, return_index=True), strict=True):
            self._first[kind, int(number)] = str(locate(int(rows[at]), 0))

    def _check_arity(self, wrong: npt.NDArray[np.bool_], relation: Ints, arity: int, locate: Locator) -> None:
        if not wrong.any():
            return
        row = int(np.argmax(wrong))
        number = int(relation[row])
        name, expected = shorten(format_name(self._name(number))), int(self._arity[number])
        raise InputError(
            f"{name} has {plural(expected, 'argument')}, not {arity}",
            location=locate(row, 0),
            hint=f"its first fact is in {self._first['relation', number]}",
        )

    def _check_kind(self, wrong: npt.NDArray[np.bool_], numbers: Ints, kind: str, locate: Locator) -> None:
        if not wrong.any():
            return
        row = int(np.argmax(wrong))
        number = int(numbers[row])
        first = self._first["attribute" if kind == "an attribute" else "relation", number]
        raise InputError(
            f"{shorten(format_name(self._name(number)))} cannot be both a type and an attribute",
            location=locate(row, 0),
            hint=f"it is {kind} in {first}",
        )


def _rank(names: SortedNames, name: str) -> int:
    rank = names.find(name)
    assert rank is not None
    return rank


def _renumber(used: npt.NDArray[np.bool_]) -> Ints:
    """Return the new number of each used number: its rank among the used ones."""
    return np.cumsum(used, dtype=np.int32) - np.int32(1)

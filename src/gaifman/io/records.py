"""Facts, values and labels that come one by one, such as those of JSON lines and GraphML, added in batches."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from gaifman.config import MAX_ARITY
from gaifman.errors import InputError, Location, plural, shorten
from gaifman.io.files import BATCH_SIZE
from gaifman.io.labels import STORED_RANK, clean_label
from gaifman.kb.builder import KnowledgeBaseBuilder
from gaifman.kb.tables import Ints

MAX_KEPT_TEXT = 300
"""Characters of a line that are kept for error messages."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a record is."""

    line: int
    text: str = ""
    column: int = 1

    def location(self, source: str) -> Location:
        """Return the location in a file."""
        return Location(source, self.line, self.column, self.text[:MAX_KEPT_TEXT])


@dataclass
class _Rows:
    """Names and numbers of some records of one kind and width."""

    names: list[str] = field(default_factory=list)
    numbers: list[float] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)


class RecordBuffer:
    """Collects records and adds them to a builder."""

    def __init__(self, source: str, builder: KnowledgeBaseBuilder) -> None:
        self._source, self._builder = source, builder
        self._facts: dict[int, _Rows] = {}
        self._values, self._objects = _Rows(), _Rows()
        self._count = 0
        self._arities: dict[str, tuple[int, Place]] = {}
        """Relation → its arity, and where its first fact is."""

    def error(self, message: str, place: Place, hint: str = "") -> InputError:
        """Return an error at a place of the file."""
        return InputError(message, location=place.location(self._source), hint=hint)

    def add_fact(self, relation: str, objects: list[str], confidence: float, place: Place) -> None:
        """Add a fact."""
        if not 1 <= len(objects) <= MAX_ARITY:
            raise self.error(f"a fact has 1 to {MAX_ARITY} objects, not {len(objects)}", place)
        arity, first = self._arities.setdefault(relation, (len(objects), place))
        if arity != len(objects):
            hint = f"its first fact is in {first.location(self._source)}"
            raise self.error(f"{shorten(relation)} has {plural(arity, 'argument')}, not {len(objects)}", place, hint)
        self._add(self._facts.setdefault(len(objects), _Rows()), [relation, *objects], confidence, place)

    def add_value(self, attribute: str, obj: str, value: float, place: Place) -> None:
        """Add a value of an attribute."""
        self._add(self._values, [attribute, obj], value, place)

    def add_object(self, obj: str, place: Place) -> None:
        """Add an object, which needs no fact."""
        self._add(self._objects, [obj], 0.0, place)

    def add_label(self, obj: str, label: str) -> None:
        """Add a label of an object; one without a text is left out."""
        if label := clean_label(label):
            self._builder.add_label(obj, label, STORED_RANK)

    def note(self, text: str, example: str, singular: str) -> None:
        """Count something that is worth a note."""
        self._builder.add_note(1, text, example, singular)

    def _add(self, rows: _Rows, names: list[str], number: float, place: Place) -> None:
        rows.names += names
        rows.numbers.append(number)
        rows.places.append(place)
        self._count += 1
        if self._count >= BATCH_SIZE:
            self.flush()

    def flush(self) -> None:
        """Add what was collected to the builder."""
        for arity in sorted(self._facts):
            rows = self._facts[arity]
            ids = self._encode(rows, 1 + arity)
            self._builder.add_facts(ids[:, 0], ids[:, 1:], np.array(rows.numbers), self._locator(rows))
        if self._values.places:
            ids = self._encode(self._values, 2)
            values = np.array(self._values.numbers)
            self._builder.add_values(ids[:, 0], ids[:, 1], values, self._locator(self._values))
        if self._objects.places:
            ids, none = self._encode(self._objects, 1)[:, 0], np.zeros(0, np.int32)
            self._builder.declare(ids, none, none, none, self._locator(self._objects))
        self._facts, self._values, self._objects, self._count = {}, _Rows(), _Rows(), 0

    def _encode(self, rows: _Rows, width: int) -> Ints:
        locate = self._locator(rows)
        return self._builder.encode_names(rows.names, lambda at: locate(at // width, 0)).reshape(-1, width)

    def _locator(self, rows: _Rows) -> _PlaceLocator:
        return _PlaceLocator(self._source, rows)


@dataclass(frozen=True, slots=True)
class _PlaceLocator:
    """Row and field of the builder → location in the file."""

    source: str
    rows: _Rows

    def __call__(self, row: int, field_number: int) -> Location:
        place, width = self.rows.places[row], len(self.rows.names) // len(self.rows.places)
        names = " ".join(self.rows.names[row * width : (row + 1) * width])
        return Place(place.line, place.text or names, place.column).location(self.source)

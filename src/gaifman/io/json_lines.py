"""Read JSON lines: one object per line, a fact, a value or a label.

    {"head": "ann", "relation": "parent", "tail": "bob", "confidence": 0.9}
    {"relation": "gave", "objects": ["ann", "book", "bob"]}
    {"object": "ann", "type": "person"}
    {"object": "ann", "attribute": "age", "value": 80}
    {"object": "ann", "label": "Ann Lee"}

The lines that `gaifman predict -o missing.jsonl` writes are facts, too; their probabilities are confidences.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

from gaifman.errors import shorten
from gaifman.io.files import TextBlock
from gaifman.io.records import Place, RecordBuffer
from gaifman.kb.builder import KnowledgeBaseBuilder

KEYS = (
    '{"head": …, "relation": …, "tail": …}, {"relation": …, "objects": […]}, {"object": …, "type": …}, '
    '{"object": …, "attribute": …, "value": …} or {"object": …, "label": …}'
)
"""What the object of a line can be."""
NUMBER_KEYS = ("confidence", "probability")
EXTRA_KEYS = frozenset({"rank", "conflicts", "model", "reason", "facts", "reason_labels", "facts_labels"})
"""Keys of missing facts that are no part of the fact."""

_ARGUMENT = re.compile(r"arg([1-8])")


def read_json_lines(blocks: Iterator[TextBlock], source: str, builder: KnowledgeBaseBuilder) -> None:
    """Read a file of JSON lines into the builder."""
    buffer = RecordBuffer(source, builder)
    for block in blocks:
        for offset, text in enumerate(block.normalise_newlines().decode().split("\n")[:-1]):
            if text.strip():
                place = Place(block.line + offset, text)
                _LineReader(_parse(text, place, buffer), place, buffer).read()
    buffer.flush()


def _parse(text: str, place: Place, buffer: RecordBuffer) -> dict[str, Any]:
    """Return the object of a line."""

    def refuse(word: str) -> NoReturn:
        raise ValueError(f"{word} is not a number")

    try:
        found = json.loads(text, parse_constant=refuse)
    except json.JSONDecodeError as error:
        at = Place(place.line, text, error.colno)
        raise buffer.error(f"not JSON: {error.msg}", at, "each line is one JSON object") from None
    except (RecursionError, ValueError) as error:
        what = "it is nested too deep" if isinstance(error, RecursionError) else str(error).split(";", 1)[0]
        raise buffer.error(f"the JSON of this line cannot be read: {what}", place) from None
    if not isinstance(found, dict):
        raise buffer.error(f"expected a JSON object, got {shorten(text.strip())}", place, f"each line is one of {KEYS}")
    return found


class _LineReader:
    """Reads the object of one line."""

    def __init__(self, fields: Mapping[str, Any], place: Place, buffer: RecordBuffer) -> None:
        self._fields, self._place, self._buffer = fields, place, buffer
        self._used: set[str] = set()

    def read(self) -> None:
        """Add what the object says to the buffer."""
        keys = self._fields.keys()
        if {"head", "relation", "tail"} <= keys:
            self._add_fact(["head", "tail"])
        elif {"relation", "objects"} <= keys:
            self._add_objects()
        elif {"relation", "arg1"} <= keys:
            self._add_fact(sorted(key for key in keys if _ARGUMENT.fullmatch(key) and self._fields[key] is not None))
        elif {"object", "type"} <= keys:
            self._buffer.add_fact(self._name("type"), [self._name("object")], self._confidence(), self._place)
        elif {"object", "attribute", "value"} <= keys:
            self._add_value()
        elif {"object", "label"} <= keys:
            self._buffer.add_label(self._name("object"), self._name("label"))
        else:
            shown = ", ".join(shorten(key) for key in list(keys)[:5]) or "none"
            raise self._buffer.error(f"these keys make no fact: {shown}", self._place, f"write {KEYS}")
        self._note_unused()

    def _add_fact(self, keys: list[str]) -> None:
        """Add a fact with an object for each key, and the labels beside them."""
        objects = [self._name(key) for key in keys]
        self._buffer.add_fact(self._name("relation"), objects, self._confidence(), self._place)
        for key, name in zip(keys, objects, strict=True):
            label = self._fields.get(f"{key}_label")
            self._used.add(f"{key}_label")
            if isinstance(label, str) and label != name and not label.endswith(f" ({name})"):
                self._buffer.add_label(name, label)

    def _add_objects(self) -> None:
        listed = self._fields["objects"]
        self._used.add("objects")
        if not isinstance(listed, list):
            raise self._wrong("objects", "a list of names", listed)
        objects = [self._as_name("objects", one) for one in listed]
        self._buffer.add_fact(self._name("relation"), objects, self._confidence(), self._place)

    def _add_value(self) -> None:
        value = self._number("value")
        self._buffer.add_value(self._name("attribute"), self._name("object"), value, self._place)

    def _confidence(self) -> float:
        key = next((key for key in NUMBER_KEYS if key in self._fields), None)
        return 1.0 if key is None else self._number(key)

    def _number(self, key: str) -> float:
        value = self._fields[key]
        self._used.add(key)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self._wrong(key, "a number", value)
        try:
            return float(value)
        except OverflowError:
            raise self._wrong(key, "a finite number", value) from None

    def _name(self, key: str) -> str:
        self._used.add(key)
        return self._as_name(key, self._fields[key])

    def _as_name(self, key: str, value: object) -> str:
        if isinstance(value, str):
            return value
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        raise self._wrong(key, "a text or an integer", value)

    def _wrong(self, key: str, expected: str, value: object) -> Exception:
        shown = shorten(json.dumps(value, ensure_ascii=False))
        return self._buffer.error(f"{key} must be {expected}, got {shown}", self._place)

    def _note_unused(self) -> None:
        for key in self._fields.keys() - self._used - EXTRA_KEYS:
            if self._fields[key] is None:  # as for the objects of a fact with fewer than others
                continue
            self._buffer.note("keys of JSON lines that are not read", key, "key of JSON lines that is not read")

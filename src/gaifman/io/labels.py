"""Labels of objects: which of several is shown, and files of labels.

>>> ranks = LabelLanguages("de")
>>> sorted(["en", "de-AT", "fr", "de", ""], key=lambda tag: ranks.rank(tag, 0))
['de', 'de-AT', '', 'en', 'fr']
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gaifman.errors import InputError, Location, shorten
from gaifman.io.files import TextBlock
from gaifman.kb.builder import KnowledgeBaseBuilder, LabelRank
from gaifman.logic.ast import name_problem

RDFS_LABEL = "http://www.w3.org/2000/01/rdf-schema#label"
SKOS_LABEL = "http://www.w3.org/2004/02/skos/core#prefLabel"
LABEL_PROPERTIES = (SKOS_LABEL, RDFS_LABEL)
"""Properties whose texts are labels; of two in the same language, the first is shown."""
GIVEN_RANK: LabelRank = (0, 0, 0, 0, "")
"""Of labels that a label file has: before all labels of RDF."""
STORED_RANK: LabelRank = (0, 1, 0, 0, "")
"""Of labels that were stored with the facts."""
OBJECT_WORDS = frozenset({"object", "id", "entity", "name", "node", "iri", "uri"})
LABEL_WORDS = frozenset({"label", "name", "title", "text", "labels"})
"""Words of a header."""

_TAG = re.compile(r"[a-zA-Z]{1,8}(?:-[a-zA-Z0-9]{1,8})*")


@dataclass(frozen=True)
class LabelLanguages:
    """The order of languages: those that are asked for, then texts without a language, English, and any other."""

    wanted: str = ""
    """Language tags with commas between them: `de` or `de,fr`."""

    def __post_init__(self) -> None:
        for tag in self.tags:
            if not _TAG.fullmatch(tag):
                raise InputError(f"{shorten(tag)!r} is not the tag of a language", hint="for example: de, or de,fr")

    @property
    def tags(self) -> list[str]:
        """The tags that are asked for."""
        return [tag.strip().lower() for tag in self.wanted.split(",")] if self.wanted else []

    def rank(self, tag: str, label_property: int) -> LabelRank:
        """Return the rank of a label by its language and property; the lowest is shown."""
        own, order = tag.lower(), [*self.tags, "", "en"]
        for place, wanted in enumerate(order):
            if own == wanted:
                return 1, place, 0, label_property, own
            if wanted and own.startswith(f"{wanted}-"):
                return 1, place, 1, label_property, own
        return 1, len(order), 0, label_property, own


DEFAULT_LANGUAGES = LabelLanguages()
"""None is asked for."""


def clean_label(text: str) -> str:
    r"""Return a label on one line, or an empty text if it is none.

    >>> clean_label(" New\n York ")
    'New York'
    """
    label = " ".join(text.split())
    return "" if name_problem(label) else label


def read_label_file(blocks: Iterator[TextBlock], source: str, suffix: str, builder: KnowledgeBaseBuilder) -> None:
    """Read a file whose lines are an object and its label, with a tab between them; or a comma in a `.csv` file."""
    first: dict[str, int] = {}
    for number, (line, text, cells) in enumerate(_rows(blocks, suffix)):
        location = Location(source, line, 1, text, max(1, len(text)))
        if len(cells) < 2:
            between = "a comma" if suffix == ".csv" else "a tab"
            raise InputError(f"expected an object and its label, with {between} between them", location=location)
        if number == 0 and cells[0].lower() in OBJECT_WORDS and cells[1].lower() in LABEL_WORDS:
            continue
        name, label = cells[0], clean_label(cells[1])
        if not name or not label:
            raise InputError("the label is empty" if name else "the object is empty", location=location)
        if name in first:
            raise InputError(
                f"{shorten(name)} has a second label", location=location, hint=f"the first is in line {first[name]}"
            )
        first[name] = line
        builder.count_rows(1, lambda location=location: location)  # type: ignore[misc]
        builder.add_label(name, label, GIVEN_RANK)


def add_labels(labels: Mapping[str, str], builder: KnowledgeBaseBuilder) -> None:
    """Add labels that a program gives."""
    for name, label in labels.items():
        if not isinstance(name, str) or not isinstance(label, str) or not clean_label(label):
            raise InputError(f"labels must map an object to a text, got {shorten(repr((name, label)))}")
        builder.add_label(name, clean_label(label), GIVEN_RANK)


def _rows(blocks: Iterator[TextBlock], suffix: str) -> Iterator[tuple[int, str, list[str]]]:
    """Yield the number, the text and the cells of each line that is not blank; columns after the second are ignored."""
    for block in blocks:
        for offset, text in enumerate(block.normalise_newlines().decode().split("\n")[:-1]):
            if text.strip():
                yield block.line + offset, text, _cells(text, suffix)


def _cells(text: str, suffix: str) -> list[str]:
    if suffix != ".csv":
        return text.split("\t")
    try:
        return next(csv.reader([text]))
    except csv.Error:
        return []

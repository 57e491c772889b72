"""Knowledge bases written as text: `.facts`, and tables of tab- or comma-separated names."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import TextIO

from gaifman.config import LIMITS
from gaifman.errors import shorten
from gaifman.facts import Fact, some, written
from gaifman.io.delimited import layout_of
from gaifman.io.formats import told
from gaifman.io.layouts import PLAIN
from gaifman.kb import KnowledgeBase

_SIGNS = re.compile(r'[",;\t\r\n]')
"""What stands in quotes in a CSV file: also the marks that could be taken for its delimiter."""

LONGEST_FIELD = 131_072
"""Characters of a quoted field that the standard reader of CSV takes."""

SAMPLE = 2_000
"""Lines on which the writer tries whether the reader would guess right."""


def losses(kb: KnowledgeBase, form: str, end: str) -> list[str]:
    """What a text form cannot hold of a knowledge base; `end` is that of the file's name."""
    lost = []
    used = _occurring(kb)
    if len(used) < len(kb.objects):
        alone = next(name for name in kb.objects if name not in used)
        count = len(kb.objects) - len(used)
        lost.append(f"{some(count, 'object')} of no fact, such as {shorten(written(alone))}")
    empty = [relation.name for relation in kb.relations.values() if not relation.count]
    empty += [attribute.name for attribute in kb.attributes.values() if not attribute.count]
    if empty:
        lost.append(f"{some(len(empty), 'relation')} or attributes without facts, such as {shorten(empty[0])}")
    if form == "parquet":
        return lost
    lost += _too_long(kb, form, end)
    if form == "facts":
        return lost
    if len(kb.numbers):
        lost.append(f"{some(len(kb.numbers), 'value')} of attributes")
    if form == "triples":
        others = sum(relation.count for relation in kb.relations.values() if relation.arity != 2)
        lost += [f"{some(others, 'fact')} of relations without two places"] if others else []
    if end != ".csv":
        bad = [name for name in chain(kb.objects, kb.relations) if _breaks(name)]
        lost += [f"{some(len(bad), 'name')} with a tab or newline, such as {shorten(bad[0])}"] if bad else []
    return lost


def _too_long(kb: KnowledgeBase, form: str, end: str) -> list[str]:
    """Facts whose line, or names whose field, no reader would take."""
    longest = max(map(len, chain([""], kb.objects, kb.relations, kb.attributes)))
    if 10 * 10 * longest < LONGEST_FIELD:  # nine names, each letter written as at most ten
        return []
    if form == "facts":
        count = sum(map(_long, _fact_lines(kb)))
    else:
        count = sum(
            _long(_row(end)(_cells(fact, "nary", True))) or (end == ".csv" and not _fits(fact, "nary", end))
            for fact in kb.facts()
        )
    return [f"{some(count, 'fact')} with names so long that the line could not be read"] if count else []


def _long(line: str) -> bool:
    """Whether the reader refuses a line for its length."""
    return 4 * len(line) > LIMITS.line and len(line.encode()) > LIMITS.line + 1


def _breaks(name: str) -> bool:
    return "\t" in name or "\n" in name or name.endswith("\r")


def _occurring(kb: KnowledgeBase) -> set[str]:
    numbers = set(kb.numbers.object.tolist())
    for table in kb.tables.values():
        numbers.update(table.objects.ravel().tolist())
    return {kb.objects[number] for number in numbers}


def fact_lines(kb: KnowledgeBase) -> Iterator[str]:
    """The lines of a `.facts` file that can be read again."""
    return (line for line in _fact_lines(kb) if not _long(line))


def _fact_lines(kb: KnowledgeBase) -> Iterator[str]:
    for fact in kb.facts():
        yield f"{fact}\n"
    for attribute, name, value in kb.values():
        yield f"{written(attribute)}({written(name)}) = {value!r}.\n"


def table_lines(kb: KnowledgeBase, form: str, end: str) -> Iterator[str]:
    """The lines of a table, with a header where the reader would take it for something else without one."""
    line = _row(end)
    confidence = any(table.confidence is not None for table in kb.tables.values())
    facts = (fact for fact in kb.facts() if _fits(fact, form, end))
    lines = (text for text in (line(_cells(fact, form, confidence)) for fact in facts) if not _long(text))
    first = list(islice(lines, SAMPLE))
    if form == "nary" or not first or _misread("".join(first).encode(), confidence, end):
        yield line(_title(kb, form, confidence))
    yield from chain(first, lines)


def _misread(data: bytes, confidence: bool, end: str) -> bool:
    """Whether the reader would take triples without a header for something else."""
    if data.startswith(b"\xef\xbb\xbf") or told(data[: 1 << 16], end) != "table":
        return True  # the first three bytes would be taken for a byte order mark
    found = layout_of(data, end)
    wanted = replace(PLAIN["triples"], number=3 if confidence else None)
    return found != ("," if end == ".csv" else "\t", wanted)


def _row(end: str) -> Callable[[Iterable[str]], str]:
    """How cells become a line, by the end of the file's name."""
    return _comma if end == ".csv" else _tabbed


def _title(kb: KnowledgeBase, form: str, confidence: bool) -> list[str]:
    if form == "triples":
        return ["head", "relation", "tail", *(["confidence"] if confidence else [])]
    places = [f"arg{place + 1}" for place in range(max([1, *kb.tables]))]
    return ["relation", *(["confidence"] if confidence else []), *places]


def _cells(fact: Fact, form: str, confidence: bool) -> list[str]:
    number = [repr(fact.confidence)] if confidence else []
    if form == "triples":
        return [fact.objects[0], fact.relation, fact.objects[1], *number]
    return [fact.relation, *number, *fact.objects]


def _fits(fact: Fact, form: str, end: str) -> bool:
    """Whether a table can hold the fact: a lossy writer leaves others out."""
    if form == "triples" and len(fact.objects) != 2:
        return False
    names = (fact.relation, *fact.objects)
    return max(map(len, names)) <= LONGEST_FIELD if end == ".csv" else not any(map(_breaks, names))


def _tabbed(cells: Iterable[str]) -> str:
    return "\t".join(cells) + "\n"


def _comma(cells: Iterable[str]) -> str:
    """A line of CSV. The standard writer would leave a carriage return unquoted, and its reader refuse it."""
    return ",".join(_enclosed(cell) if _SIGNS.search(cell) else cell for cell in cells) + "\n"


def _enclosed(cell: str) -> str:
    return '"' + cell.replace('"', '""') + '"'


@contextmanager
def text_file(path: Path, packed: bool) -> Iterator[TextIO]:
    """A text file to write, packed where asked; the same bytes for the same text, whenever it is written."""
    if not packed:
        with path.open("w", encoding="utf-8", newline="") as file:
            yield file
        return
    import gzip
    from io import TextIOWrapper

    with (
        path.open("wb") as raw,
        gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as packing,
        TextIOWrapper(packing, encoding="utf-8", newline="") as file,
    ):
        yield file

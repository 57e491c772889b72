"""Knowledge bases written as text: `.facts`, and tables of tab- or comma-separated names."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import TextIO

from gaifman.config import DEFAULT_LIMITS
from gaifman.errors import plural, shorten
from gaifman.io.formats import detect_format_of
from gaifman.io.tabular import DEFAULT_LAYOUTS, detect_table_layout
from gaifman.kb.facts import Fact, format_name
from gaifman.kb.knowledge_base import KnowledgeBase

_NEEDS_QUOTES = re.compile(r'[",;\t\r\n]')
"""What stands in quotes in a CSV file: also the marks that could be taken for its delimiter."""

MAX_FIELD_LENGTH = 131_072
"""Characters of a quoted field that the standard reader of CSV takes."""

SAMPLE_LINES = 2_000
"""Lines on which the writer tries whether the reader would guess right."""


def find_losses(kb: KnowledgeBase, form: str, suffix: str) -> list[str]:
    """What a text form cannot hold of a knowledge base; `end` is that of the file's name."""
    lost = []
    used = _occurring(kb)
    if len(used) < len(kb.objects):
        alone = next(name for name in kb.objects if name not in used)
        count = len(kb.objects) - len(used)
        lost.append(f"{plural(count, 'object')} of no fact, such as {shorten(format_name(alone))}")
    empty = [relation.name for relation in kb.relations.values() if not relation.count]
    empty += [attribute.name for attribute in kb.attributes.values() if not attribute.count]
    if empty:
        lost.append(f"{plural(len(empty), 'relation')} or attributes without facts, such as {shorten(empty[0])}")
    if form == "parquet":
        return lost
    lost += _too_long_facts(kb, form, suffix)
    if form == "facts":
        return lost
    if len(kb.value_table):
        lost.append(f"{plural(len(kb.value_table), 'value')} of attributes")
    if form == "triples":
        others = sum(relation.count for relation in kb.relations.values() if relation.arity != 2)
        lost += [f"{plural(others, 'fact')} of relations that are not binary"] if others else []
    if suffix != ".csv":
        bad = [name for name in chain(kb.objects, kb.relations) if _breaks(name)]
        lost += [f"{plural(len(bad), 'name')} with a tab or newline, such as {shorten(bad[0])}"] if bad else []
    return lost


def _too_long_facts(kb: KnowledgeBase, form: str, end: str) -> list[str]:
    """Facts whose line, or names whose field, no reader would take."""
    longest = max(map(len, chain([""], kb.objects, kb.relations, kb.attributes)))
    if 10 * 10 * longest < MAX_FIELD_LENGTH:  # nine names, each letter written as at most ten
        return []
    if form == "facts":
        count = sum(map(_long, _fact_lines(kb)))
    else:
        count = sum(
            _long(_row_writer(end)(_cells(fact, "nary", True))) or (end == ".csv" and not _fits(fact, "nary", end))
            for fact in kb.facts()
        )
    return [f"{plural(count, 'fact')} with names so long that the line could not be read"] if count else []


def _long(line: str) -> bool:
    """Whether the reader refuses a line for its length."""
    return 4 * len(line) > DEFAULT_LIMITS.line and len(line.encode()) > DEFAULT_LIMITS.line + 1


def _breaks(name: str) -> bool:
    return "\t" in name or "\n" in name or name.endswith("\r")


def _occurring(kb: KnowledgeBase) -> set[str]:
    numbers = set(kb.value_table.objects.tolist())
    for table in kb.fact_tables.values():
        numbers.update(table.objects.ravel().tolist())
    return {kb.objects[number] for number in numbers}


def fact_lines(kb: KnowledgeBase) -> Iterator[str]:
    """The lines of a `.facts` file that can be read again."""
    return (line for line in _fact_lines(kb) if not _long(line))


def _fact_lines(kb: KnowledgeBase) -> Iterator[str]:
    for fact in kb.facts():
        yield f"{fact}\n"
    for attribute, name, value in kb.values():
        yield f"{format_name(attribute)}({format_name(name)}) = {value!r}.\n"


def table_lines(kb: KnowledgeBase, form: str, suffix: str) -> Iterator[str]:
    """The lines of a table, with a header where the reader would take it for something else without one."""
    line = _row_writer(suffix)
    confidence = any(table.confidence is not None for table in kb.fact_tables.values())
    facts = (fact for fact in kb.facts() if _fits(fact, form, suffix))
    lines = (text for text in (line(_cells(fact, form, confidence)) for fact in facts) if not _long(text))
    first = list(islice(lines, SAMPLE_LINES))
    if form == "nary" or not first or _misread("".join(first).encode(), confidence, suffix):
        yield line(_header_row(kb, form, confidence))
    yield from chain(first, lines)


def _misread(data: bytes, confidence: bool, end: str) -> bool:
    """Whether the reader would take triples without a header for something else."""
    if data.startswith(b"\xef\xbb\xbf") or detect_format_of(data[: 1 << 16], end) != "table":
        return True  # the first three bytes would be taken for a byte order mark
    found = detect_table_layout(data, end)
    wanted = replace(DEFAULT_LAYOUTS["triples"], number_column=3 if confidence else None)
    return found != ("," if end == ".csv" else "\t", wanted)


def _row_writer(end: str) -> Callable[[Iterable[str]], str]:
    """How cells become a line, by the end of the file's name."""
    return _csv_line if end == ".csv" else _tsv_line


def _header_row(kb: KnowledgeBase, form: str, confidence: bool) -> list[str]:
    if form == "triples":
        return ["head", "relation", "tail", *(["confidence"] if confidence else [])]
    places = [f"arg{place + 1}" for place in range(max([1, *kb.fact_tables]))]
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
    return max(map(len, names)) <= MAX_FIELD_LENGTH if end == ".csv" else not any(map(_breaks, names))


def _tsv_line(cells: Iterable[str]) -> str:
    return "\t".join(cells) + "\n"


def _csv_line(cells: Iterable[str]) -> str:
    """A line of CSV. The standard writer would leave a carriage return unquoted, and its reader refuse it."""
    return ",".join(_quote_cell(cell) if _NEEDS_QUOTES.search(cell) else cell for cell in cells) + "\n"


def _quote_cell(cell: str) -> str:
    return '"' + cell.replace('"', '""') + '"'


@contextmanager
def open_text(path: Path, packed: bool) -> Iterator[TextIO]:
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

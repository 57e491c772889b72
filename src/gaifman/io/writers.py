"""Write knowledge bases as text: `.facts` files, and tab-separated or comma-separated tables."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import TextIO

from gaifman.config import DEFAULT_LIMITS
from gaifman.errors import plural, shorten
from gaifman.io.facts_file import REVIEW_MARK
from gaifman.io.files import detect_format_of
from gaifman.io.rdf_writer import RDF_WRITE_FORMATS, find_rdf_losses
from gaifman.io.reviewed_tables import REVIEW_COLUMNS, review_cells
from gaifman.io.tabular import DEFAULT_LAYOUTS, detect_table_layout
from gaifman.kb.knowledge_base import Fact, KnowledgeBase, format_name
from gaifman.kb.reviews import PREDICTED, REJECTED, FactKey, Provenance

_NEEDS_QUOTES = re.compile(r'[",;\t\r\n]')
"""Characters that need quotes in a CSV file, including all delimiters that the reader detects."""

MAX_FIELD_LENGTH = 131_072
"""Longest field that Python's CSV reader accepts, in characters."""

SAMPLE_LINES = 2_000
"""Lines used to check that the reader would detect the right layout."""


def find_losses(kb: KnowledgeBase, file_format: str, suffix: str) -> list[str]:
    """Return what the format cannot hold of a knowledge base."""
    lost = []
    used = _occurring(kb)
    if len(used) < len(kb.objects):
        alone = next(name for name in kb.objects if name not in used)
        count = len(kb.objects) - len(used)
        lost.append(f"{plural(count, 'object')} without facts, such as {shorten(format_name(alone))}")
    empty = [relation.name for relation in kb.relations.values() if not relation.count]
    empty += [attribute.name for attribute in kb.attributes.values() if not attribute.count]
    if empty:
        lost.append(f"{plural(len(empty), 'relation')} or attributes without facts, such as {shorten(empty[0])}")
    if file_format == "parquet":
        return lost + [f"{plural(len(kb.provenance), 'provenance')} of facts"] * bool(kb.provenance) + _negatives(kb)
    if file_format in RDF_WRITE_FORMATS:
        return lost + find_rdf_losses(kb)
    lost += _too_long_facts(kb, file_format, suffix)
    if file_format == "facts":
        return lost
    if len(kb.value_table):
        lost.append(f"{plural(len(kb.value_table), 'value')} of attributes")
    if file_format == "triples":
        wide = sum(len(key) != 3 for key in kb.rejected)
        lost += [f"{plural(wide, 'known negative')} of relations that are not binary"] if wide else []
        others = sum(relation.count for relation in kb.relations.values() if relation.arity != 2)
        lost += [f"{plural(others, 'fact')} of relations that are not binary"] if others else []
    if suffix != ".csv":
        bad = [name for name in chain(kb.objects, kb.relations) if _breaks(name)]
        lost += [f"{plural(len(bad), 'name')} with a tab or newline, such as {shorten(bad[0])}"] if bad else []
    return lost


def _negatives(kb: KnowledgeBase) -> list[str]:
    return [plural(len(kb.rejected), "known negative")] if kb.rejected else []


def _too_long_facts(kb: KnowledgeBase, file_format: str, suffix: str) -> list[str]:
    """Return a loss if some lines or fields are too long to be read."""
    longest = max(map(len, chain([""], kb.objects, kb.relations, kb.attributes)))
    if 10 * 10 * longest < MAX_FIELD_LENGTH:  # nine names, with at most ten characters for each of their letters
        return []
    if file_format == "facts":
        count = sum(map(_is_too_long, _fact_lines(kb)))
    else:
        write = _row_writer(suffix)
        count = sum(
            _is_too_long(write(_cells(fact, "nary", True))) or (suffix == ".csv" and not _fits(fact, "nary", suffix))
            for fact in kb.facts()
        )
    return [f"{plural(count, 'fact')} with names that are too long to be read"] if count else []


def _is_too_long(line: str) -> bool:
    """Return whether the reader refuses a line for its length."""
    return 4 * len(line) > DEFAULT_LIMITS.line and len(line.encode()) > DEFAULT_LIMITS.line + 1


def _breaks(name: str) -> bool:
    return "\t" in name or "\n" in name or name.endswith("\r")


def _occurring(kb: KnowledgeBase) -> set[str]:
    numbers = set(kb.value_table.objects.tolist())
    for table in kb.fact_tables.values():
        numbers.update(table.objects.ravel().tolist())
    return {kb.objects[number] for number in numbers}


def fact_lines(kb: KnowledgeBase) -> Iterator[str]:
    """Yield the lines of a `.facts` file, without those that are too long to be read."""
    return (line for line in _fact_lines(kb) if not _is_too_long(line))


def _fact_lines(kb: KnowledgeBase) -> Iterator[str]:
    for fact in kb.facts():
        yield f"{fact}\n"
    for attribute, name, value in kb.values():
        yield f"{format_name(attribute)}({format_name(name)}) = {value!r}.\n"
    yield from review_lines(kb.provenance, kb.rejected)


def review_lines(accepted: Mapping[FactKey, Provenance], rejected: Mapping[FactKey, Provenance]) -> Iterator[str]:
    """Yield the lines of a `.facts` file that say which facts were accepted, and which proposals rejected.

    >>> print(*review_lines({}, {("capital", "peru", "cusco"): Provenance("m.gaifman", "2026-05-01", 0.4)}))
    %@ rejected ["m.gaifman", "2026-05-01", 0.4] capital(peru, cusco).
    <BLANKLINE>
    """
    for kind, decided in ((PREDICTED, accepted), (REJECTED, rejected)):
        for key, provenance in sorted(decided.items()):
            yield f"{REVIEW_MARK} {kind} {json.dumps(provenance, ensure_ascii=False)} {Fact(key[0], key[1:])}\n"


def table_lines(kb: KnowledgeBase, file_format: str, suffix: str) -> Iterator[str]:
    """Yield the lines of a table, with a header if the reader would detect another layout without one."""
    if kb.provenance or kb.rejected:
        yield from _reviewed_lines(kb, file_format, suffix)
        return
    write = _row_writer(suffix)
    confidence = any(table.confidence is not None for table in kb.fact_tables.values())
    facts = (fact for fact in kb.facts() if _fits(fact, file_format, suffix))
    rows = (write(_cells(fact, file_format, confidence)) for fact in facts)
    lines = (line for line in rows if not _is_too_long(line))
    first = list(islice(lines, SAMPLE_LINES))
    if file_format == "nary" or not first or _needs_header("".join(first).encode(), confidence, suffix):
        yield write(_header_row(kb, file_format, confidence))
    yield from chain(first, lines)


def _reviewed_lines(kb: KnowledgeBase, file_format: str, suffix: str) -> Iterator[str]:
    """Yield the lines of a table with the columns of a review; those come before the objects if rows differ in length.

    A rejected fact has the confidence 0.
    """
    write, at = _row_writer(suffix), 1 if file_format == "nary" else 4
    header = _header_row(kb, file_format, True)
    widest = max([1, *kb.fact_tables, *(len(key) - 1 for key in kb.rejected)])
    header = [*header[:2], *(f"arg{i + 1}" for i in range(widest))] if file_format == "nary" else header
    yield write([*header[:at], *REVIEW_COLUMNS, *header[at:]])
    rows = ((fact, kb.provenance.get((fact.relation, *fact.objects))) for fact in kb.facts())
    known = ((fact, review_cells(PREDICTED, own) if own else [""] * 4) for fact, own in rows)
    negatives = ((Fact(key[0], key[1:], 0.0), review_cells(REJECTED, own)) for key, own in sorted(kb.rejected.items()))
    for fact, review in chain(known, negatives):
        cells = _cells(fact, file_format, True) if _fits(fact, file_format, suffix) else []
        line = write([*cells[:at], *review, *cells[at:]])
        if cells and not _is_too_long(line):
            yield line


def _needs_header(data: bytes, confidence: bool, suffix: str) -> bool:
    """Return whether the reader would detect another layout for triples without a header."""
    if data.startswith(b"\xef\xbb\xbf") or detect_format_of(data[: 1 << 16], suffix) != "table":
        return True  # these three bytes would be removed as a byte order mark
    expected = replace(DEFAULT_LAYOUTS["triples"], number_column=3 if confidence else None)
    return detect_table_layout(data, suffix) != ("," if suffix == ".csv" else "\t", expected)


def _row_writer(suffix: str) -> Callable[[Iterable[str]], str]:
    return _csv_line if suffix == ".csv" else _tsv_line


def _header_row(kb: KnowledgeBase, file_format: str, confidence: bool) -> list[str]:
    if file_format == "triples":
        return ["head", "relation", "tail", *(["confidence"] if confidence else [])]
    arguments = [f"arg{i + 1}" for i in range(max([1, *kb.fact_tables]))]
    return ["relation", *(["confidence"] if confidence else []), *arguments]


def _cells(fact: Fact, file_format: str, confidence: bool) -> list[str]:
    number = [repr(fact.confidence)] if confidence else []
    if file_format == "triples":
        return [fact.objects[0], fact.relation, fact.objects[1], *number]
    return [fact.relation, *number, *fact.objects]


def _fits(fact: Fact, file_format: str, suffix: str) -> bool:
    """Return whether a table can hold the fact; with `lossy` others are skipped."""
    if file_format == "triples" and len(fact.objects) != 2:
        return False
    names = (fact.relation, *fact.objects)
    return max(map(len, names)) <= MAX_FIELD_LENGTH if suffix == ".csv" else not any(map(_breaks, names))


def _tsv_line(cells: Iterable[str]) -> str:
    return "\t".join(cells) + "\n"


def _csv_line(cells: Iterable[str]) -> str:
    """Return a line of CSV. Python's CSV writer does not quote a carriage return, which its reader refuses."""
    return ",".join(_quote_cell(cell) if _NEEDS_QUOTES.search(cell) else cell for cell in cells) + "\n"


def _quote_cell(cell: str) -> str:
    return '"' + cell.replace('"', '""') + '"'


@contextmanager
def open_text(path: Path, compressed: bool) -> Iterator[TextIO]:
    """Open a text file for writing, compressed by gzip if asked; the bytes do not depend on the time."""
    if not compressed:
        with path.open("w", encoding="utf-8", newline="") as file:
            yield file
        return
    import gzip
    from io import TextIOWrapper

    with (
        path.open("wb") as raw,
        gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as stream,
        TextIOWrapper(stream, encoding="utf-8", newline="") as file,
    ):
        yield file

"""The Query2box queries in our syntax, with the number of answers of each.

Queries are chains of relations from named objects, combined by ∧ or ∨, and perhaps one relation
more; relations are numbered, odd numbers are those of even ones backwards. See the README beside the data.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from gaifman.io import read
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.logic.ast import format_relation, quote

SHAPES = ("1c", "2c", "3c", "2i", "3i", "ic", "ci", "2u", "uc")
FOLDER = Path("queries_q2b") / "FB15k-237"


@dataclass(frozen=True)
class Shaped:
    """One query."""

    text: str
    easy: int
    """Answers on the training graph."""


def graph(data: Path) -> KnowledgeBase:
    """The training graph over all the objects that queries name."""
    names = (line.split("\t")[1] for line in _lines(data / FOLDER / "entities.tsv.gz"))
    facts = read(data / "FB15k-237" / "train.txt.gz")
    return KnowledgeBase.from_facts(facts.facts(), objects=names)


def queries(data: Path, shape: str, count: int) -> Iterator[Shaped]:
    """The first queries of a shape."""
    objects, relations = _numbered(data, "entities"), _numbered(data, "relations")
    for line in islice(_lines(data / FOLDER / f"valid.{shape}.tsv.gz"), count):
        branches, last, _, easy = line.split("\t")
        yield Shaped(_text(branches, last, objects, relations, either="u" in shape), int(easy))


def _text(branches: str, last: str, objects: list[str], relations: list[str], *, either: bool) -> str:
    """The query over x; the branches meet in x, or in m where one more relation leads from there to x."""
    meeting = "x" if last == "-" else "m"
    parts = [
        _chain(branch, meeting, f"v{place}_", objects, relations) for place, branch in enumerate(branches.split(" "))
    ]
    body = (" | " if either else " & ").join(f"({part})" for part in parts)
    if last == "-":
        return body
    return f"exists m. ({body}) & {_step(int(last), 'm', 'x', relations)}"


def _chain(branch: str, end: str, stem: str, objects: list[str], relations: list[str]) -> str:
    anchor, _, steps = branch.partition(":")
    numbers = [int(step) for step in steps.split(",")]
    places = [quote(objects[int(anchor)]), *(f"{stem}{i}" for i in range(1, len(numbers))), end]
    atoms = [_step(r, a, b, relations) for r, a, b in zip(numbers, places, places[1:], strict=False)]
    inner = ", ".join(places[1:-1])
    return f"exists {inner}. {' & '.join(atoms)}" if inner else " & ".join(atoms)


def _step(number: int, start: str, end: str, relations: list[str]) -> str:
    name = format_relation(relations[number - number % 2])
    return f"{name}({end}, {start})" if number % 2 else f"{name}({start}, {end})"


def _numbered(data: Path, what: str) -> list[str]:
    rows = (line.split("\t") for line in _lines(data / FOLDER / f"{what}.tsv.gz"))
    names = {int(number): name for number, name in rows}
    return [names[number] for number in range(len(names))]


def _lines(path: Path) -> Iterator[str]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        yield from (line.rstrip("\n") for line in lines)

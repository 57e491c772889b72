"""Write a knowledge base with reviewed facts beside its old file.

A `.facts`, N-Triples or Turtle file is copied as it is, and the new lines come after it: comments, literals and the
order of its lines stay. Other files are written anew.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path

from gaifman.errors import OutputError, shorten
from gaifman.io import write
from gaifman.io.files import InputFile, atomic_write, detect_format, file_suffix, has_returns, open_binary, read_head
from gaifman.io.rdf import NAME_URN, IriStyle
from gaifman.io.rdf_writer import fact_triple, rdf_node, review_triples
from gaifman.io.writers import open_text, review_lines
from gaifman.kb.knowledge_base import Fact, KnowledgeBase
from gaifman.kb.reviews import PREDICTED, REJECTED, FactKey, Provenance

Decided = Mapping[FactKey, Provenance]
_COPIED = {"facts": (".facts", ".pl", ".dl"), "ntriples": (".nt", ".ttl"), "turtle": (".ttl",)}
"""Format of a file that is copied → suffixes of copies that keep it."""
_COPY_SIZE = 1 << 20
_BLANK = re.compile(r"_:\w[\w.-]*")
"""A blank node whose label the file has."""


def reviewed_path(path: Path) -> Path:
    """The path beside a knowledge base for the same with reviewed facts.

    >>> reviewed_path(Path("data/family.tsv.gz"))
    PosixPath('data/family.reviewed.tsv.gz')
    """
    name, packed = path.name.removesuffix(".gz"), ".gz" if path.name.endswith(".gz") else ""
    stem, dot, suffix = name.rpartition(".")
    return path.with_name(f"{stem or name}.reviewed{dot}{suffix if stem else ''}{packed}")


def write_additions(
    source: Path,
    target: Path,
    kb: KnowledgeBase,
    accepted: Decided,
    rejected: Decided,
    file_format: str | None = None,
    iris: IriStyle = "prefixed",
) -> None:
    """Write `kb`, which has the accepted and rejected facts, to `target`.

    `source` is the file without them, and `iris` the names with which it was read.
    """
    own = InputFile.from_path(source)
    found = file_format or detect_format(own)
    if file_suffix(target.name) not in _COPIED.get(found, ()) or has_returns(read_head(own, _COPY_SIZE)):
        write(kb, target)
        return
    if found == "facts":
        written = [*_fact_lines(accepted, rejected)]
    else:
        written = [f"{line}\n" for line in _triples(kb, accepted, rejected, iris)]
    with (
        atomic_write(target) as temporary,
        open_text(temporary, target.name.endswith(".gz")) as file,
        open_binary(own) as old,
    ):
        last = b"\n"
        while data := old.read(_COPY_SIZE):
            file.buffer.write(data)
            last = data[-1:]
        file.buffer.write(b"" if last == b"\n" else b"\n")
        file.writelines(written)


def _fact_lines(accepted: Decided, rejected: Decided) -> Iterator[str]:
    facts = (f"{Fact(key[0], key[1:])}\n" for key in sorted(accepted))
    return chain(facts, review_lines(accepted, rejected))


def _triples(kb: KnowledgeBase, accepted: Decided, rejected: Decided, iris: IriStyle) -> Iterator[str]:
    def node(name: str) -> str:
        text = name if _BLANK.fullmatch(name) else rdf_node(kb.iri(name))
        if text.startswith(f"<{NAME_URN}") and iris != "local":
            return text  # a name that is no IRI has such a URN in the file
        if text not in (name, f"<{kb.iri(name)}>"):
            raise OutputError(
                f"{shorten(name)} is no IRI, so that the file cannot have facts about it",
                hint="read the file with full IRIs, or write a .duckdb file: -o NEW.duckdb",
            )
        return text

    yield from (fact_triple(Fact(key[0], key[1:]), node) for key in sorted(accepted))
    for kind, decided in ((PREDICTED, accepted), (REJECTED, rejected)):
        for key, provenance in sorted(decided.items()):
            yield from review_triples(kind, key, provenance, node)

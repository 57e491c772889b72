"""Write a knowledge base with reviewed facts beside its old file.

A `.facts`, N-Triples or Turtle file is copied as it is, and the new lines come after it: comments, literals and the
order of its lines stay. Other files are written anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path

from gaifman.errors import OutputError, shorten
from gaifman.io import write
from gaifman.io.files import InputFile, atomic_write, detect_format, file_suffix, has_returns, open_binary, read_head
from gaifman.io.results import fact_triples, names_a_node, review_triples
from gaifman.io.writers import open_text, review_lines
from gaifman.kb.knowledge_base import Fact, KnowledgeBase
from gaifman.kb.reviews import PREDICTED, REJECTED, FactKey, Provenance

Decided = Mapping[FactKey, Provenance]
_COPIED = {"facts": (".facts", ".pl", ".dl"), "ntriples": (".nt", ".ttl"), "turtle": (".ttl",)}
"""Format of a file that is copied → suffixes of copies that keep it."""
_COPY_SIZE = 1 << 20


def reviewed_path(path: Path) -> Path:
    """The path beside a knowledge base for the same with reviewed facts.

    >>> reviewed_path(Path("data/family.tsv.gz"))
    PosixPath('data/family.reviewed.tsv.gz')
    """
    name, packed = path.name.removesuffix(".gz"), ".gz" if path.name.endswith(".gz") else ""
    stem, dot, suffix = name.rpartition(".")
    return path.with_name(f"{stem or name}.reviewed{dot}{suffix if stem else ''}{packed}")


def write_additions(
    source: Path, target: Path, kb: KnowledgeBase, accepted: Decided, rejected: Decided, file_format: str | None = None
) -> None:
    """Write `kb`, which has the accepted and rejected facts, to `target`; `source` is the file without them."""
    own = InputFile.from_path(source)
    found = file_format or detect_format(own)
    if file_suffix(target.name) not in _COPIED.get(found, ()) or has_returns(read_head(own, _COPY_SIZE)):
        write(kb, target)
        return
    lines = _fact_lines(accepted, rejected) if found == "facts" else _triples(accepted, rejected)
    written = [*lines]
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


def _triples(accepted: Decided, rejected: Decided) -> Iterator[str]:
    for key in chain(accepted, rejected):
        for name in key:
            if not names_a_node(name):
                raise OutputError(
                    f"{shorten(name)} is no IRI, so that the file cannot have facts about it",
                    hint="read the file with full IRIs, or write a .duckdb file: -o NEW.duckdb",
                )
    for key in sorted(accepted):
        yield from fact_triples(Fact(key[0], key[1:]))
    for kind, decided in ((PREDICTED, accepted), (REJECTED, rejected)):
        for key, provenance in sorted(decided.items()):
            yield from review_triples(kind, key, provenance)

"""Facts that were added to a knowledge base while it was served, kept in a file of their own.

>>> kb = KnowledgeBase.from_facts([("parent", "ann", "bob"), ("person", "ann")])
>>> checked(kb, [Fact("parent", ("bob", "ann"))])
[Fact(relation='parent', objects=('bob', 'ann'), confidence=1.0)]
>>> checked(kb, [Fact("parnt", ("bob", "ann"))])
Traceback (most recent call last):
...
gaifman.errors.KnowledgeError: fact 1: there is no relation parnt
near: parent

The file is a `.facts` file, which every command reads beside the others; it is written anew for each addition, whole or
not at all. The files of the knowledge base itself are never touched.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from gaifman import io
from gaifman.errors import KnowledgeError, OutputError, shorten
from gaifman.facts import Fact, fact_of, some, written
from gaifman.io.files import abandoned
from gaifman.kb import KnowledgeBase
from gaifman.names import fault, nearest

SUFFIX = ".edits.facts"
"""What is put behind the name of a knowledge base's file."""


class Edits:
    """The facts of one such file; while it is held, no other process writes it."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self._lock = -1
        self.facts = self._read()

    def _read(self) -> KnowledgeBase:
        return io.read(self.path, format="facts") if self.path.exists() else KnowledgeBase.from_facts([])

    def __len__(self) -> int:
        return len(self.facts)

    def __bool__(self) -> bool:
        """It is there, also while it holds nothing."""
        return True

    def hold(self) -> None:
        """Keep others from writing the file, for as long as this process lives or until `close`.

        It is read again: whoever held it until now may have added facts since it was read. What a process left beside
        it that was killed while writing is removed.
        """
        import fcntl

        if self._lock >= 0:
            return
        try:
            target = self.path.resolve()  # two links to one file are one file
            beside = target.with_name(f".{target.name}.lock")
            self._lock = os.open(beside, os.O_RDWR | os.O_CREAT, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.close()
            raise OutputError(
                f"another server adds facts to {self.path}", hint="stop it, or name another file with --edits"
            ) from None
        except OSError as error:
            self.close()
            raise OutputError(f"{self.path} cannot be written: {error.strerror}") from None
        try:
            self.facts = self._read()
            for left in abandoned(self.path):
                left.unlink(missing_ok=True)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let others write it."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def put(self, kb: KnowledgeBase) -> KnowledgeBase:
        """The knowledge base with these facts."""
        return kb.with_facts(self.facts.facts()) if len(self) else kb

    def add(self, facts: Sequence[Fact]) -> None:
        """Put facts into the file: when this returns they are on the disk, and when it raises none is."""
        whole = self.facts.with_facts(facts)
        io.write(whole, self.path, "facts")
        self.facts = whole


def checked(kb: KnowledgeBase, facts: Sequence[Fact], *, fresh: bool = False, longest: int = 1_000) -> list[Fact]:
    """The facts, where each is of a known relation with as many places, between known objects, or `fresh` ones."""
    found = []
    for number, fact in enumerate(facts, start=1):
        try:
            found.append(_checked(kb, fact, fresh, longest))
        except KnowledgeError as error:
            raise KnowledgeError(f"fact {number}: {error.message}", near=error.near, hint=error.hint) from None
    return found


def _checked(kb: KnowledgeBase, fact: Fact, fresh: bool, longest: int) -> Fact:
    fact = fact_of(fact)
    if fact.relation not in kb.relations:
        near = nearest(fact.relation, kb.relations)
        hint = "" if near else "GET /api/relations lists those there are; a new one cannot be added"
        raise KnowledgeError(f"there is no relation {shorten(written(fact.relation))}", near=near, hint=hint)
    arity = kb.relations[fact.relation].arity
    if arity != len(fact.objects):
        raise KnowledgeError(f"{shorten(written(fact.relation))} has {some(arity, 'place')}, not {len(fact.objects)}")
    for name in fact.objects:
        if name in kb.objects:
            continue
        if not fresh:
            hint = "to add a new object, say so: new_objects"
            raise KnowledgeError(
                f"there is no object {shorten(written(name))}", near=nearest(name, kb.objects), hint=hint
            )
        if problem := fault(name):
            raise KnowledgeError(f"{problem}: {shorten(repr(name))}")
        if len(name) > longest:
            raise KnowledgeError(f"a new name has at most {longest:,} characters, not {len(name):,}")
    return fact

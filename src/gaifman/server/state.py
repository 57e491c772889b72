"""Facts that were added to a knowledge base while it was served, kept in a file of their own.

>>> kb = KnowledgeBase.from_facts([("parent", "ann", "bob"), ("person", "ann")])
>>> validate_facts(kb, [Fact("parent", ("bob", "ann"))])
[Fact(relation='parent', objects=('bob', 'ann'), confidence=1.0)]
>>> validate_facts(kb, [Fact("parnt", ("bob", "ann"))])
Traceback (most recent call last):
...
gaifman.errors.KnowledgeBaseError: fact 1: there is no relation parnt
did you mean: parent

The file is a `.facts` file, which every command reads beside the others; it is written anew for each addition, whole or
not at all. The files of the knowledge base itself are never touched.
"""

from __future__ import annotations

import gc
import hmac
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gaifman import io
from gaifman.cancellation import Deadline, no_deadline
from gaifman.errors import KnowledgeBaseError, OutputError, plural, shorten, similar_names
from gaifman.io.files import leftover_files
from gaifman.kb.facts import Fact, as_fact, format_name
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.logic.names import name_problem
from gaifman.server.service import Service

EDITS_SUFFIX = ".edits.facts"
"""What is put behind the name of a knowledge base's file."""


class EditsFile:
    """The facts of one such file; while it is held, no other process writes it."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self._lock_fd = -1
        self.kb = self._read()

    def _read(self) -> KnowledgeBase:
        return io.read(self.path, format="facts") if self.path.exists() else KnowledgeBase.from_facts([])

    def __len__(self) -> int:
        return len(self.kb)

    def __bool__(self) -> bool:
        """It is there, also while it holds nothing."""
        return True

    def lock(self) -> None:
        """Keep others from writing the file, for as long as this process lives or until `close`.

        It is read again: whoever held it until now may have added facts since it was read. What a process left beside
        it that was killed while writing is removed.
        """
        import fcntl

        if self._lock_fd >= 0:
            return
        try:
            target = self.path.resolve()  # two links to one file are one file
            beside = target.with_name(f".{target.name}.lock")
            self._lock_fd = os.open(beside, os.O_RDWR | os.O_CREAT, 0o600)
            fcntl.flock(self._lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.close()
            raise OutputError(
                f"another server adds facts to {self.path}", hint="stop it, or name another file with --edits"
            ) from None
        except OSError as error:
            self.close()
            raise OutputError(f"{self.path} cannot be written: {error.strerror}") from None
        try:
            self.kb = self._read()
            for left in leftover_files(self.path):
                left.unlink(missing_ok=True)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let others write it."""
        if self._lock_fd >= 0:
            os.close(self._lock_fd)
            self._lock_fd = -1

    def apply_to(self, kb: KnowledgeBase) -> KnowledgeBase:
        """The knowledge base with these facts."""
        return kb.with_facts(self.kb.facts()) if len(self) else kb

    def add(self, facts: Sequence[Fact]) -> None:
        """Put facts into the file: when this returns they are on the disk, and when it raises none is."""
        whole = self.kb.with_facts(facts)
        io.write(whole, self.path, "facts")
        self.kb = whole


def validate_facts(
    kb: KnowledgeBase, facts: Sequence[Fact], *, allow_new_objects: bool = False, max_name_length: int = 1_000
) -> list[Fact]:
    """The facts, where each is of a known relation with as many places, between known objects, or `fresh` ones."""
    found = []
    for number, fact in enumerate(facts, start=1):
        try:
            found.append(_validate_fact(kb, fact, allow_new_objects, max_name_length))
        except KnowledgeBaseError as error:
            raise KnowledgeBaseError(
                f"fact {number}: {error.message}", suggestions=error.suggestions, hint=error.hint
            ) from None
    return found


def _validate_fact(kb: KnowledgeBase, fact: Fact, allow_new_objects: bool, max_name_length: int) -> Fact:
    fact = as_fact(fact)
    if fact.relation not in kb.relations:
        near = similar_names(fact.relation, kb.relations)
        hint = "" if near else "GET /api/relations lists those there are; a new one cannot be added"
        raise KnowledgeBaseError(
            f"there is no relation {shorten(format_name(fact.relation))}", suggestions=near, hint=hint
        )
    arity = kb.relations[fact.relation].arity
    if arity != len(fact.objects):
        raise KnowledgeBaseError(
            f"{shorten(format_name(fact.relation))} has {plural(arity, 'argument')}, not {len(fact.objects)}"
        )
    for name in fact.objects:
        if name in kb.objects:
            continue
        if not allow_new_objects:
            hint = "to add a new object, say so: new_objects"
            raise KnowledgeBaseError(
                f"there is no object {shorten(format_name(name))}",
                suggestions=similar_names(name, kb.objects),
                hint=hint,
            )
        if problem := name_problem(name):
            raise KnowledgeBaseError(f"{problem}: {shorten(repr(name))}")
        if len(name) > max_name_length:
            raise KnowledgeBaseError(f"a new name has at most {max_name_length:,} characters, not {len(name):,}")
    return fact


CLOSE_TIMEOUT = 2.0
"""Seconds that an addition has to be written when the server ends."""


class ServerState:
    """A service that is replaced by another one with each addition; who began with the old one ends with it."""

    def __init__(
        self, service: Service, edits: EditsFile | None = None, token: str | None = None, python: Sequence[str] = ()
    ) -> None:
        """`edits` keep what is added; without a `token` nothing can be. `python` are lines that read what is served."""
        if token is not None and edits is None:
            raise KnowledgeBaseError("facts can be added only where there is a file to keep them")
        self.service, self.edits, self.python = service, edits, list(python)
        self.added = 0
        """Facts that were added since the start."""
        self._token = token
        self._lock = threading.Lock()
        if token is not None and edits is not None:
            edits.lock()
            self._load_edits(edits)

    def _load_edits(self, edits: EditsFile) -> None:
        """Know what another server has added since the edits were put into the service."""
        missing = [fact for fact in edits.kb.facts() if fact not in self.service.kb]
        if missing:
            self.service = self.service.with_facts(missing)

    @property
    def editable(self) -> bool:
        """Whether facts can be added at all."""
        return self._token is not None

    def check_token(self, token: str) -> bool:
        """Whether this is the token; the time it takes does not tell how much of it is right."""
        return self._token is not None and hmac.compare_digest(self._token.encode(), token.encode(errors="replace"))

    def add_facts(
        self, facts: Sequence[Fact], *, allow_new_objects: bool = False, deadline: Deadline | None = None
    ) -> dict[str, Any]:
        """Add facts, all of them or none: on the disk first, then for the next question.

        Where the deadline comes before they are being written, nothing is added.
        """
        if self.edits is None or not self.editable:
            raise KnowledgeBaseError("this server adds no facts")
        with self._lock:
            serving = self.service.limits
            if len(facts) > serving.max_new_facts:
                raise KnowledgeBaseError(
                    f"at most {serving.max_new_facts:,} facts are added at once, not {len(facts):,}"
                )
            wanted = validate_facts(
                self.service.kb, facts, allow_new_objects=allow_new_objects, max_name_length=serving.max_name_length
            )
            new = [fact for fact in _deduplicate(wanted) if fact not in self.service.kb]
            if new:
                self._replace_service(new, self.edits, deadline or no_deadline())
            return {"added": len(new), "already_known": len(wanted) - len(new), "total_facts": len(self.service.kb)}

    def _replace_service(self, new: Sequence[Fact], edits: EditsFile, deadline: Deadline) -> None:
        """Put a service with more facts in the place of the present one; where it comes to nothing, it is gone too."""
        deadline.limit_budget()
        following, before = self.service.with_facts(new), self.service
        try:
            deadline.limit_budget()
            following.preload()
            deadline.limit_budget()
            edits.add(new)
            self.service = following
            self.added += len(new)
            before.retire()
        finally:
            if self.service is not following:
                following.engine.close()
            del following, before
            gc.collect()  # a knowledge base and its engine hold each other, and are large

    def close(self) -> None:
        """Let others add, when what is being added is written."""
        self.service.retire()
        if self.edits is not None:
            written = self._lock.acquire(timeout=CLOSE_TIMEOUT)
            self.edits.close()
            if written:
                self._lock.release()


def _deduplicate(facts: Sequence[Fact]) -> list[Fact]:
    """Each fact once: of one that is repeated the highest confidence counts, as in a file.

    >>> [str(fact) for fact in _deduplicate([Fact("p", ("a",), 0.5), Fact("p", ("b",)), Fact("p", ("a",), 0.9)])]
    ['0.9::p(a).', 'p(b).']
    """
    found: dict[tuple[str, tuple[str, ...]], Fact] = {}
    for fact in facts:
        key = fact.relation, fact.objects
        if key not in found or found[key].confidence < fact.confidence:
            found[key] = fact
    return list(found.values())

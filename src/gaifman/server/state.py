"""What a server holds: the service, which is replaced when facts are added, and the file of added facts (`edits`).

>>> kb = KnowledgeBase.from_facts([("parent", "ann", "bob"), ("person", "ann")])
>>> validate_facts(kb, [Fact("parent", ("bob", "ann"))])
[Fact(relation='parent', objects=('bob', 'ann'), confidence=1.0)]
>>> validate_facts(kb, [Fact("parnt", ("bob", "ann"))])
Traceback (most recent call last):
...
gaifman.errors.KnowledgeBaseError: fact 1: there is no relation parnt
did you mean: parent

The files of the knowledge base itself are never changed.
"""

from __future__ import annotations

import hmac
import threading
from collections.abc import Sequence

from gaifman.config import Deadline, no_deadline
from gaifman.errors import KnowledgeBaseError, plural, shorten, similar_names
from gaifman.kb.knowledge_base import Fact, KnowledgeBase, as_fact, format_name
from gaifman.logic.ast import name_problem
from gaifman.logic.parser import ambiguous_label
from gaifman.server.edits import EditsFile
from gaifman.server.schemas import AddFactsResponse
from gaifman.server.service import Service

CLOSE_TIMEOUT = 2.0
"""Seconds to finish writing when the server stops."""


def validate_facts(
    kb: KnowledgeBase, facts: Sequence[Fact], *, allow_new_objects: bool = False, max_name_length: int = 1_000
) -> list[Fact]:
    """Return the facts if each has a known relation, its arity, and known objects or valid new ones."""
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
        similar = similar_names(fact.relation, kb.relations)
        hint = "" if similar else "GET /api/relations lists the relations; new ones cannot be added"
        raise KnowledgeBaseError(
            f"there is no relation {shorten(format_name(fact.relation))}", suggestions=similar, hint=hint
        )
    arity = kb.relations[fact.relation].arity
    if arity != len(fact.objects):
        raise KnowledgeBaseError(
            f"{shorten(format_name(fact.relation))} has {plural(arity, 'argument')}, not {len(fact.objects)}"
        )
    fact = fact._replace(objects=tuple(_find_name(kb, name) for name in fact.objects))
    for name in fact.objects:
        if name in kb.objects:
            continue
        if not allow_new_objects:
            hint = 'send "new_objects": true to add new objects'
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


def _find_name(kb: KnowledgeBase, text: str) -> str:
    """Return the name of the object that a text means by its name, IRI or label; a new name stays."""
    found = kb.display.find(text) if kb.labels or kb.prefixes else ()
    if len(found) > 1:
        raise KnowledgeBaseError(**ambiguous_label(text, found, kb.display))
    return found[0] if found else text


class ServerState:
    """The present service. Adding facts replaces it; running requests finish with the one they started with."""

    def __init__(
        self, service: Service, edits: EditsFile | None = None, token: str | None = None, python: Sequence[str] = ()
    ) -> None:
        """Without a `token` no facts can be added. `python` are lines that read the same data, for the page."""
        if token is not None and edits is None:
            raise KnowledgeBaseError("adding facts requires a file for them")
        self.service, self.edits, self.python = service, edits, list(python)
        self.added = 0
        """Number of facts added since the start."""
        self._token = token
        self._lock = threading.Lock()
        if token is not None and edits is not None:
            edits.lock()
            self._load_edits(edits)

    def _load_edits(self, edits: EditsFile) -> None:
        """Add the facts that another server wrote after the file was read."""
        missing = [fact for fact in edits.kb.facts() if fact not in self.service.kb]
        if missing:
            self.service = self.service.with_facts(missing)

    @property
    def editable(self) -> bool:
        """Whether facts can be added."""
        return self._token is not None

    def check_token(self, token: str) -> bool:
        """Whether this is the token; compared in constant time."""
        return self._token is not None and hmac.compare_digest(self._token.encode(), token.encode(errors="replace"))

    def add_facts(
        self, facts: Sequence[Fact], *, allow_new_objects: bool = False, deadline: Deadline | None = None
    ) -> AddFactsResponse:
        """Add facts, all or none: first on disk, then for the next request. After the deadline none is added."""
        if self.edits is None or not self.editable:
            raise KnowledgeBaseError("this server is read-only")
        with self._lock:
            limits = self.service.limits
            if len(facts) > limits.max_new_facts:
                raise KnowledgeBaseError(f"a request adds at most {limits.max_new_facts:,} facts, not {len(facts):,}")
            valid = validate_facts(
                self.service.kb, facts, allow_new_objects=allow_new_objects, max_name_length=limits.max_name_length
            )
            new = [fact for fact in _deduplicate(valid) if fact not in self.service.kb]
            if new:
                self._replace_service(new, self.edits, deadline or no_deadline())
            return AddFactsResponse(
                added=len(new), already_known=len(valid) - len(new), total_facts=len(self.service.kb)
            )

    def _replace_service(self, new: Sequence[Fact], edits: EditsFile, deadline: Deadline) -> None:
        """Replace the service by one with more facts; after an error the new one is closed."""
        deadline.limit_budget()
        replacement = self.service.with_facts(new)
        try:
            deadline.limit_budget()
            replacement.preload()
            deadline.limit_budget()
            edits.add(new)
            self.service = replacement
            self.added += len(new)
        finally:
            if self.service is not replacement:
                replacement.engine.close()

    def close(self) -> None:
        """Finish writing, and release the file."""
        if self.edits is not None:
            written = self._lock.acquire(timeout=CLOSE_TIMEOUT)
            self.edits.close()
            if written:
                self._lock.release()


def _deduplicate(facts: Sequence[Fact]) -> list[Fact]:
    """Return each fact once, with its highest confidence.

    >>> [str(fact) for fact in _deduplicate([Fact("p", ("a",), 0.5), Fact("p", ("b",)), Fact("p", ("a",), 0.9)])]
    ['0.9::p(a).', 'p(b).']
    """
    found: dict[tuple[str, tuple[str, ...]], Fact] = {}
    for fact in facts:
        key = fact.relation, fact.objects
        if key not in found or found[key].confidence < fact.confidence:
            found[key] = fact
    return list(found.values())

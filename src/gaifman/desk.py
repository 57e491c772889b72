"""What is served at the moment, and how it changes: facts are added, kept, and seen by the next question.

>>> import gaifman, tempfile
>>> from pathlib import Path
>>> folder = tempfile.TemporaryDirectory()
>>> desk = ServerState(Service(gaifman.demo()), EditsFile(Path(folder.name) / "new.facts"), token="secret")
>>> desk.may_edit, desk.trusts("secret"), desk.trusts("guess")
(True, True, False)
>>> desk.add([Fact("borders", ("portugal", "morocco"))])["added"]
1
>>> print((Path(folder.name) / "new.facts").read_text(), end="")
borders(portugal, morocco).
>>> desk.close(); folder.cleanup()
"""

from __future__ import annotations

import gc
import hmac
import threading
from collections.abc import Sequence
from typing import Any

from gaifman.cancellation import Deadline, no_deadline
from gaifman.edits import EditsFile, validate_facts
from gaifman.errors import KnowledgeBaseError
from gaifman.kb.facts import Fact
from gaifman.service import Service

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
            return {"added": len(new), "known": len(wanted) - len(new), "facts": len(self.service.kb)}

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

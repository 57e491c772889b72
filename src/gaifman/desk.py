"""What is served at the moment, and how it changes: facts are added, kept, and seen by the next question.

>>> import gaifman, tempfile
>>> from pathlib import Path
>>> folder = tempfile.TemporaryDirectory()
>>> desk = Desk(Service(gaifman.demo()), Edits(Path(folder.name) / "new.facts"), token="secret")
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

from gaifman.deadlines import Deadline, never
from gaifman.edits import Edits, checked
from gaifman.errors import KnowledgeError
from gaifman.facts import Fact
from gaifman.service import Service

ENDING = 2.0
"""Seconds that an addition has to be written when the server ends."""


class Desk:
    """A service that is replaced by another one with each addition; who began with the old one ends with it."""

    def __init__(
        self, service: Service, edits: Edits | None = None, token: str | None = None, python: Sequence[str] = ()
    ) -> None:
        """`edits` keep what is added; without a `token` nothing can be. `python` are lines that read what is served."""
        if token is not None and edits is None:
            raise KnowledgeError("facts can be added only where there is a file to keep them")
        self.service, self.edits, self.python = service, edits, list(python)
        self.added = 0
        """Facts that were added since the start."""
        self._token = token
        self._guard = threading.Lock()
        if token is not None and edits is not None:
            edits.hold()
            self._take_up(edits)

    def _take_up(self, edits: Edits) -> None:
        """Know what another server has added since the edits were put into the service."""
        missing = [fact for fact in edits.facts.facts() if fact not in self.service.kb]
        if missing:
            self.service = self.service.with_facts(missing)

    @property
    def may_edit(self) -> bool:
        """Whether facts can be added at all."""
        return self._token is not None

    def trusts(self, token: str) -> bool:
        """Whether this is the token; the time it takes does not tell how much of it is right."""
        return self._token is not None and hmac.compare_digest(self._token.encode(), token.encode(errors="replace"))

    def add(self, facts: Sequence[Fact], *, fresh: bool = False, deadline: Deadline | None = None) -> dict[str, Any]:
        """Add facts, all of them or none: on the disk first, then for the next question.

        Where the deadline comes before they are being written, nothing is added.
        """
        if self.edits is None or not self.may_edit:
            raise KnowledgeError("this server adds no facts")
        with self._guard:
            serving = self.service.serving
            if len(facts) > serving.facts:
                raise KnowledgeError(f"at most {serving.facts:,} facts are added at once, not {len(facts):,}")
            wanted = checked(self.service.kb, facts, fresh=fresh, longest=serving.name)
            new = [fact for fact in _once(wanted) if fact not in self.service.kb]
            if new:
                self._follow(new, self.edits, deadline or never())
            return {"added": len(new), "known": len(wanted) - len(new), "facts": len(self.service.kb)}

    def _follow(self, new: Sequence[Fact], edits: Edits, deadline: Deadline) -> None:
        """Put a service with more facts in the place of the present one; where it comes to nothing, it is gone too."""
        deadline.budget()
        following, before = self.service.with_facts(new), self.service
        try:
            deadline.budget()
            following.ready()
            deadline.budget()
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
            written = self._guard.acquire(timeout=ENDING)
            self.edits.close()
            if written:
                self._guard.release()


def _once(facts: Sequence[Fact]) -> list[Fact]:
    """Each fact once: of one that is repeated the highest confidence counts, as in a file.

    >>> [str(fact) for fact in _once([Fact("p", ("a",), 0.5), Fact("p", ("b",)), Fact("p", ("a",), 0.9)])]
    ['0.9::p(a).', 'p(b).']
    """
    found: dict[tuple[str, tuple[str, ...]], Fact] = {}
    for fact in facts:
        key = fact.relation, fact.objects
        if key not in found or found[key].confidence < fact.confidence:
            found[key] = fact
    return list(found.values())

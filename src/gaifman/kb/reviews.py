"""What people decided about proposed facts: where an accepted fact comes from, and which proposals are false.

>>> reviews = Reviews(rejected={("capital", "peru", "cusco"): Provenance("m.gaifman", "2026-05-01", 0.4)})
>>> reviews.merge(Reviews(accepted={("capital", "peru", "cusco"): Provenance()})).rejected
{}
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

FactKey = tuple[str, ...]
"""A relation and its objects."""
PREDICTED, REJECTED = "predicted", "rejected"
"""How files call the two decisions: a fact that a model predicted, and a proposal that was rejected."""


class Provenance(NamedTuple):
    """Which model proposed a fact that a person accepted or rejected."""

    model: str = ""
    """The name of the model's file; empty if it is not known."""
    date: str = ""
    """The day on which the fact was added, as in `2026-05-01`."""
    probability: float | None = None
    """What the model said."""

    def as_dict(self) -> dict[str, Any]:
        """The provenance as JSON types."""
        return self._asdict()


@dataclass(frozen=True, slots=True)
class Reviews:
    """Decisions about proposed facts, by name: they survive when objects get other numbers."""

    accepted: Mapping[FactKey, Provenance] = field(default_factory=dict)
    """Facts that were proposed and accepted."""
    rejected: Mapping[FactKey, Provenance] = field(default_factory=dict)
    """Facts that were proposed and rejected: they are false."""

    def __bool__(self) -> bool:
        return bool(self.accepted or self.rejected)

    def merge(self, later: Reviews) -> Reviews:
        """Both; a later decision about the same fact replaces an earlier one."""
        accepted = {key: own for key, own in self.accepted.items() if key not in later.rejected} | dict(later.accepted)
        rejected = {key: own for key, own in self.rejected.items() if key not in later.accepted} | dict(later.rejected)
        return Reviews(accepted, rejected)

    def with_prefix(self, prefix: str) -> Reviews:
        """The same decisions about objects whose names have a prefix."""
        if not prefix:
            return self
        return Reviews(*(_with_prefix(own, prefix) for own in (self.accepted, self.rejected)))

    def renamed(self, rename: Callable[[str], str]) -> Reviews:
        """The same decisions about relations and objects with other names."""
        if not self:
            return self
        return Reviews(
            *(
                {tuple(map(rename, key)): own for key, own in decided.items()}
                for decided in (self.accepted, self.rejected)
            )
        )

    @classmethod
    def union(cls, parts: Iterable[Reviews]) -> Reviews:
        """All decisions."""
        found = cls()
        for part in parts:
            found = found.merge(part) if part else found
        return found


def _with_prefix(decided: Mapping[FactKey, Provenance], prefix: str) -> dict[FactKey, Provenance]:
    return {(relation, *(prefix + name for name in names)): own for (relation, *names), own in decided.items()}


def fingerprint_with(content: str, rejected: Iterable[FactKey]) -> str:
    """The hash of a knowledge base's facts and of what was rejected."""
    digest = hashlib.blake2b(content.encode(), digest_size=16)
    for key in sorted(rejected):
        digest.update("\0".join(key).encode() + b"\0\0")  # names contain no NUL
    return digest.hexdigest()

"""What a knowledge base is like: its relations, the constraints they keep, how they are linked, and leakage of splits.

>>> from gaifman.io import demo
>>> found = describe(demo())
>>> found
<Description: 52 relations, 71 constraints, 2 symmetric relations, 3 subsets, 2 inverse subsets>
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gaifman._tables import Columns, TableResult, rows_of
from gaifman.config import checked
from gaifman.errors import plural
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.kb.leakage import Leakage, find_leakage
from gaifman.kb.links import RelationLink, describe_links, find_links
from gaifman.sampling.constraints import FoundConstraint
from gaifman.sampling.found_constraints import find_constraints


@dataclass(frozen=True, slots=True)
class Description(TableResult):
    """What `describe` found. Its table has a row for each relation."""

    kb: KnowledgeBase
    """The knowledge base, or the training part of splits."""
    constraints: tuple[FoundConstraint, ...]
    """The constraints that nearly all facts keep."""
    links: tuple[RelationLink, ...]
    """How relations are linked: inverses, duplicates, symmetric ones, subsets; in all parts together."""
    leakage: tuple[Leakage, ...] = ()
    """What the training part gives away of each other part."""

    def __repr__(self) -> str:
        counts = f"{plural(len(self.kb.relations), 'relation')}, {plural(len(self.constraints), 'constraint')}"
        return f"<Description: {counts}, {describe_links(self.links)}>"

    def columns(self) -> Columns:
        """Relation, arity, facts, objects at each position, mean confidence, constraints and links."""
        infos = list(self.kb.relations.values())
        constraints = _by_relation([(_relation_of(one), str(one.constraint)) for one in self.constraints])
        links = _by_relation([(name, str(one)) for one in self.links for name in {one.relation, one.other}])
        return {
            "relation": [info.name for info in infos],
            "arity": [info.arity for info in infos],
            "facts": [info.count for info in infos],
            "objects": [self._objects(info.name) for info in infos],
            "confidence": [self._confidence(info.name) for info in infos],
            "constraints": ["; ".join(constraints.get(info.name, ())) for info in infos],
            "links": ["; ".join(links.get(info.name, ())) for info in infos],
        }

    def as_dict(self) -> dict[str, Any]:
        """The description as JSON types."""
        columns = self.columns()
        return {
            "relations": [dict(zip(columns, row, strict=True)) for row in rows_of(columns)],
            "constraints": [one.as_dict() for one in self.constraints],
            "links": [link.as_dict() for link in self.links],
            "leakage": [one.as_dict() for one in self.leakage],
        }

    def _objects(self, relation: str) -> str:
        """The number of different objects at each position: `197 × 250`."""
        return " × ".join(f"{len(np.unique(column)):,}" for column in self.kb.tuples(relation).T)

    def _confidence(self, relation: str) -> float | None:
        values = self.kb.confidences_of(relation)
        return float(values.mean()) if len(values) else None


def _by_relation(texts: Sequence[tuple[str, str]]) -> Mapping[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, text in texts:
        found.setdefault(name, []).append(text)
    return found


def _relation_of(found: FoundConstraint) -> str:
    return found.constraint.relation


@checked
def describe(
    kb: KnowledgeBase, *, valid: KnowledgeBase | None = None, test: KnowledgeBase | None = None
) -> Description:
    """Find the constraints and links of relations and, given further parts of a split, what leaks into them.

    Args:
        kb: The knowledge base; with other parts, the one to train on.
        valid: Facts to validate with.
        test: Facts to test.
    """
    return describe_parts(kb, {name: part for name, part in (("valid", valid), ("test", test)) if part is not None})


def describe_parts(kb: KnowledgeBase, parts: Mapping[str, KnowledgeBase]) -> Description:
    """Describe a knowledge base and what it gives away of other parts, by their names."""
    constraints = tuple(find_constraints(kb))
    if not parts:
        return Description(kb, constraints, tuple(find_links(kb.content)))
    links, leakage = find_leakage({"train": kb, **parts})
    return Description(kb, constraints, tuple(links), tuple(leakage))

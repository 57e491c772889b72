"""The Gaifman graph by its definition."""

from __future__ import annotations

from gaifman.kb.knowledge_base import KnowledgeBase


def adjacent(kb: KnowledgeBase) -> dict[str, set[str]]:
    """The definition: different objects of one fact."""
    rows: dict[str, set[str]] = {name: set() for name in kb.objects}
    for fact in kb.facts():
        for one in fact.objects:
            rows[one].update(set(fact.objects) - {one})
    return rows


def reached(rows: dict[str, set[str]], origins: set[str], radius: int) -> dict[str, int]:
    """Each object within the radius and its distance from the nearest origin, by definition."""
    distance = dict.fromkeys(origins, 0)
    for step in range(1, radius + 1):
        ring = {other for one in distance for other in rows[one]} - set(distance)
        distance.update(dict.fromkeys(ring, step))
    return distance

"""Collections: knowledge bases that share relations but no objects, to train one model on.

>>> one = KnowledgeBase.from_facts([("likes", "ann", "bob")])
>>> two = KnowledgeBase.from_facts([("likes", "bob", "eve"), ("old", "eve")])
>>> [sorted(kb.relations) for kb in unify_schemas([one, two])]
[['likes', 'old'], ['likes', 'old']]
>>> shared_names([one, two])
['bob']

An object belongs to one knowledge base: `bob` of the one and `bob` of the other are different objects.
"""

from __future__ import annotations

from collections.abc import Sequence

from gaifman.errors import KnowledgeBaseError, plural
from gaifman.kb.knowledge_base import KnowledgeBase, union

KnowledgeBases = KnowledgeBase | Sequence[KnowledgeBase]
"""One knowledge base, or a collection."""


def as_collection(kb: KnowledgeBases) -> list[KnowledgeBase]:
    """Return the knowledge bases of a collection, ordered by fingerprint: results do not depend on their order."""
    kbs = [kb] if isinstance(kb, KnowledgeBase) else list(kb)
    for other in kbs:
        if not isinstance(other, KnowledgeBase):
            raise KnowledgeBaseError(
                f"a collection has knowledge bases only, got {type(other).__name__}",
                hint="gaifman.read(FILE) reads one",
            )
    if not kbs:
        raise KnowledgeBaseError("there is no knowledge base to train on")
    return sorted(kbs, key=lambda each: each.fingerprint) if len(kbs) > 1 else kbs


def unify_schemas(kbs: Sequence[KnowledgeBase]) -> list[KnowledgeBase]:
    """Return the knowledge bases, each with the relations and attributes of all."""
    if len(kbs) == 1:
        return [*kbs]
    relations: dict[str, int] = {}
    for kb in kbs:
        if not kb.relations:
            raise KnowledgeBaseError("a knowledge base of the collection has no facts")
        for name, relation in kb.relations.items():
            arity = relations.setdefault(name, relation.arity)
            if arity != relation.arity:
                raise KnowledgeBaseError(
                    f"{name} has {plural(arity, 'argument')} in one knowledge base and {relation.arity} in another",
                    hint="rename one of the two relations",
                )
    attributes = sorted({name for kb in kbs for name in kb.attributes})
    return [kb.extend_schema(relations, attributes) for kb in kbs]


def join_collection(kbs: Sequence[KnowledgeBase]) -> KnowledgeBase:
    """Return one knowledge base with the facts of all, in which objects of different ones have different names."""
    return kbs[0] if len(kbs) == 1 else union(kbs, [f"{number}/" for number in range(1, len(kbs) + 1)])


def shared_names(kbs: Sequence[KnowledgeBase]) -> list[str]:
    """Return the names, sorted, that objects of more than one knowledge base have."""
    seen, shared = set[str](), set[str]()
    for kb in kbs if len(kbs) > 1 else ():
        names = set(kb.objects)
        shared |= seen & names
        seen |= names
    return sorted(shared)

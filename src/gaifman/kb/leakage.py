"""Leakage between splits: facts to test that follow from a fact of the training by a link of relations.

>>> from gaifman.kb.knowledge_base import KnowledgeBase
>>> def facts(pairs):
...     return [(name, *(pair if name == "parent" else pair[::-1])) for pair in pairs for name in ("parent", "child")]
>>> train = facts((f"p{i}", f"c{i}") for i in range(20)) + [("parent", "ann", "bob")]
>>> test = [("child", "bob", "ann")]
>>> parts = {"train": KnowledgeBase.from_facts(train), "test": KnowledgeBase.from_facts(test)}
>>> for found in find_leakage(parts)[1]:
...     print(found)
100 % of test facts follow from one fact of train: 100 % from an inverse
likely leakage: figures on test show little but that a model finds inverses and copies

Links are looked for in all parts together: random splits tear inverses apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gaifman.config import checked
from gaifman.errors import KnowledgeBaseError, plural
from gaifman.kb.knowledge_base import KnowledgeBase, merge
from gaifman.kb.links import KINDS, RelationLink, find_links, linked_facts
from gaifman.kb.tables import Ints, Longs, SortedNames, row_ids

LIKELY = 0.1
"""Share of facts that inverses and duplicates give away, from which figures say little about prediction."""

WORDS = {
    "inverse": "from an inverse",
    "duplicate": "from a duplicate",
    "symmetric": "from the other way round",
    "subset": "from a narrower relation",
    "inverse subset": "from the inverse of a narrower relation",
}


@dataclass(frozen=True, slots=True)
class Leakage:
    """What one part of a data set gives away of another."""

    part: str
    """The part whose facts are to be predicted, such as `test`."""
    source: str
    """The part that a model is trained on, such as `train`."""
    facts: int
    """Facts of the part."""
    by_kind: Mapping[str, int]
    """Kind of link → facts that follow from a fact of the source by such a link; a fact may follow in several ways."""
    following: int
    """Facts that follow in some way."""
    inverse_or_duplicate: int
    """Facts that follow by an inverse or a duplicate."""
    repeated: int
    """Facts that are in the source themselves."""
    new_objects: int
    """Objects of the part that have no fact in the source."""
    facts_of_new_objects: int
    """Facts with such an object."""

    @property
    def is_likely(self) -> bool:
        """Whether inverses, duplicates or repeated facts give away more than a tenth of the facts."""
        return self.inverse_or_duplicate + self.repeated > LIKELY * self.facts

    def lines(self) -> list[str]:
        """What was found, as sentences."""
        found = []
        if self.following:
            kinds = [f"{share_of(n, self.facts)} {WORDS[kind]}" for kind, n in self.by_kind.items() if n]
            found.append(f"{self._share(self.following)} follow from one fact of {self.source}: {', '.join(kinds)}")
        if self.repeated:
            found.append(f"{self._share(self.repeated)} are facts of {self.source}")
        if self.new_objects:
            objects, share = plural(self.new_objects, "object"), self._share(self.facts_of_new_objects)
            found.append(f"{share} have one of {objects} without a fact in {self.source}")
        if self.is_likely:
            found.append(
                f"likely leakage: figures on {self.part} show little but that a model finds inverses and copies"
            )
        return found or [f"no {self.part} fact follows from one fact of {self.source}"]

    def _share(self, count: int) -> str:
        """Such as `94 % of test facts`."""
        return f"{share_of(count, self.facts)} of {self.part} facts"

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def as_dict(self) -> dict[str, Any]:
        """The figures as JSON types."""
        return {
            "part": self.part,
            "source": self.source,
            "facts": self.facts,
            "by_kind": dict(self.by_kind),
            "following": self.following,
            "inverse_or_duplicate": self.inverse_or_duplicate,
            "repeated": self.repeated,
            "new_objects": self.new_objects,
            "facts_of_new_objects": self.facts_of_new_objects,
            "likely": self.is_likely,
        }


def share_of(count: int, total: int) -> str:
    """A share for people.

    >>> share_of(94, 100), share_of(1, 1000)
    ('94 %', 'less than 1 %')
    """
    return "less than 1 %" if 100 * count < total else f"{100 * count / total:.0f} %"


@checked
def find_leakage(parts: Mapping[str, KnowledgeBase]) -> tuple[list[RelationLink], list[Leakage]]:
    """Find the links of relations in all parts, and what the first part gives away of each other one by these."""
    if len(parts) < 2:
        raise KnowledgeBaseError("leakage is between two parts, such as train and test", hint='{"train": …, "test": …}')
    whole = merge(list(parts.values()))
    links = find_links(whole.content)
    rows = {name: _rows_in(whole, kb) for name, kb in parts.items()}
    source, *others = parts
    found = [_leakage(whole, links, (source, rows[source]), (name, rows[name])) for name in others if len(parts[name])]
    return links, found


Rows = Mapping[int, Longs]
"""Arity → the rows of a part's facts in the tables of all."""


def _rows_in(whole: KnowledgeBase, kb: KnowledgeBase) -> Rows:
    """The rows of a part's facts in the whole."""
    objects = _numbers(kb.objects, whole.objects)
    relations = _numbers(kb.content.relations, whole.content.relations)
    rows = {}
    for arity, table in kb.fact_tables.items():
        known = whole.fact_tables[arity]
        all_ids, ids = row_ids(
            np.concatenate([known.relation[:, None], known.objects], axis=1),
            np.concatenate([relations[table.relation][:, None], objects[table.objects]], axis=1),
        )
        places = np.zeros(len(all_ids), np.int64)
        places[all_ids] = np.arange(len(all_ids))  # facts are distinct
        rows[arity] = places[ids]
    return rows


def _numbers(names: Iterable[str], among: SortedNames) -> Ints:
    return np.array([among.find(name) for name in names], np.int32)


def _leakage(
    whole: KnowledgeBase, links: list[RelationLink], source: tuple[str, Rows], part: tuple[str, Rows]
) -> Leakage:
    """What the source gives away of a part."""
    masks = {
        arity: (_mask(len(table), source[1].get(arity)), _mask(len(table), part[1].get(arity)))
        for arity, table in whole.fact_tables.items()
    }
    follows = {(kind, arity): np.zeros(len(own), bool) for kind in KINDS for arity, (_, own) in masks.items()}
    for link, arity, rows, others in linked_facts(whole.content, links):
        trained, asked = masks[arity]
        follows[link.kind, arity][others[trained[rows] & asked[others]]] = True

    def count(*kinds: str) -> int:
        by_arity = (np.logical_or.reduce([follows[kind, arity] for kind in kinds]) for arity in masks)
        return sum(int(found.sum()) for found in by_arity)

    new, with_new = _new_objects(whole, masks)
    return Leakage(
        part=part[0],
        source=source[0],
        facts=sum(map(len, part[1].values())),
        by_kind={kind: count(kind) for kind in KINDS},
        following=count(*KINDS),
        inverse_or_duplicate=count("inverse", "duplicate"),
        repeated=sum(int((trained & asked).sum()) for trained, asked in masks.values()),
        new_objects=new,
        facts_of_new_objects=with_new,
    )


Mask = npt.NDArray[np.bool_]


def _mask(count: int, rows: Longs | None) -> Mask:
    mask = np.zeros(count, bool)
    mask[rows if rows is not None else []] = True
    return mask


def _new_objects(whole: KnowledgeBase, masks: Mapping[int, tuple[Mask, Mask]]) -> tuple[int, int]:
    """The number of objects that only the part has, and of its facts with one."""
    seen, asked = np.zeros(len(whole.objects), bool), np.zeros(len(whole.objects), bool)
    for arity, (trained, own) in masks.items():
        objects = whole.fact_tables[arity].objects
        seen[objects[trained].ravel()] = True
        asked[objects[own].ravel()] = True
    new = asked & ~seen
    facts = (new[whole.fact_tables[arity].objects[own]].any(axis=1) for arity, (_, own) in masks.items())
    return int(new.sum()), sum(int(found.sum()) for found in facts)

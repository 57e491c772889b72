"""Splits of a knowledge base into facts to train on, to validate and to test.

The choice of a fact depends on a hash of the seed and its names, so the order of the input does not matter, and a
change elsewhere changes few choices. Facts are taken in the order of their hashes, first for the test, until each
relation has given its share.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gaifman._tables import Columns, TableResult
from gaifman.config import check_fraction, check_int
from gaifman.errors import KnowledgeBaseError, plural, similar_names
from gaifman.kb.links import RelationLink, find_links, linked_facts
from gaifman.kb.tables import Longs, Tables

if TYPE_CHECKING:
    from gaifman.kb.knowledge_base import KnowledgeBase

TRAIN, VALID, TEST = 0, 1, 2
PARTS = ("train", "valid", "test")

FactParts = Mapping[int, npt.NDArray[np.int8]]
"""Arity → the part of each fact, shape (facts,): `TRAIN`, `VALID` or `TEST`."""


@dataclass(frozen=True, slots=True)
class SplitOptions:
    """How a knowledge base is split."""

    valid: float = 0.1
    """Share of the facts to validate with, or their number if it is an integer."""
    test: float = 0.1
    """The same for the test."""
    relations: Sequence[str] | None = None
    """The relations whose facts are taken; None for all."""
    seed: int = 0
    inverses: bool = True
    """Whether linked facts, such as inverses, can be in different parts."""
    new_objects: bool = False
    """Whether objects can be in valid or test alone."""

    def __post_init__(self) -> None:
        check_int("seed", self.seed, 0)
        for name in ("valid", "test"):
            value = getattr(self, name)
            if _is_number_of_facts(value):
                check_int(name, value, 0)
            else:
                check_fraction(name, value, one=False)


@dataclass(frozen=True, slots=True)
class Split(TableResult):
    """A knowledge base in three parts: `train, valid, test = kb.split()`. Its table has a row for each relation."""

    train: KnowledgeBase
    """All that is not in the other parts, with all values of attributes."""
    valid: KnowledgeBase
    test: KnowledgeBase
    requested: Mapping[str, int]
    """Part → how many facts were asked for; `valid` and `test` have fewer if objects or links kept them in train."""
    links: tuple[RelationLink, ...] = ()
    """Links of relations whose facts stay together, with `inverses=False`."""

    def __iter__(self) -> Iterator[KnowledgeBase]:
        return iter((self.train, self.valid, self.test))

    def __repr__(self) -> str:
        return f"<Split: {', '.join(f'{len(kb):,} {name}' for name, kb in zip(PARTS, self, strict=True))} facts>"

    def columns(self) -> Columns:
        """Relation, facts, and how many of them are in each part."""
        names = [name for name, info in self.train.relations.items() if info.count]
        counts = {part: [_count(kb, name) for name in names] for part, kb in zip(PARTS, self, strict=True)}
        return {"relation": names, "facts": [sum(row) for row in zip(*counts.values(), strict=True)], **counts}

    @property
    def notes(self) -> list[str]:
        """What one would not expect: parts that are smaller than asked for, and what was kept together."""
        found = []
        for name, kb in (("valid", self.valid), ("test", self.test)):
            if len(kb) < self.requested[name]:
                found.append(
                    f"{name} has {len(kb):,} of {plural(self.requested[name], 'fact')} asked for: "
                    "others are the last of an object or relation, or linked to too many"
                )
        if self.links:
            found.append(f"facts of {plural(len(self.links), 'link')} between relations stay together")
        return found

    def as_dict(self) -> dict[str, Any]:
        """The sizes as JSON types."""
        sizes = {name: len(kb) for name, kb in zip(PARTS, self, strict=True)}
        objects = {name: len(kb.objects) for name, kb in zip(PARTS, self, strict=True)}
        columns = self.columns()
        rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        return {
            "facts": sizes,
            "objects": objects,
            "requested": dict(self.requested),
            "relations": rows,
            "links": [link.as_dict() for link in self.links],
            "notes": self.notes,
        }


def _count(kb: KnowledgeBase, relation: str) -> int:
    return kb.relations[relation].count if relation in kb.relations else 0


def choose_parts(tables: Tables, options: SplitOptions) -> tuple[FactParts, dict[str, int], tuple[RelationLink, ...]]:
    """Choose the part of each fact. Return also how many facts were asked for, and what stays together."""
    facts = _Facts(tables)
    links = () if options.inverses else tuple(find_links(tables))
    groups, strata = facts.groups(links), facts.strata(links)
    selected = facts.select(options.relations)
    wanted = _wanted(options, int(selected.sum()))
    sizes = np.bincount(strata[selected], minlength=len(facts.names)).tolist()
    chooser = _Chooser(facts, groups, strata, protect_objects=not options.new_objects)
    order = np.argsort(facts.keys(options.seed), kind="stable")
    order = order[selected[order]]
    for part, name in ((TEST, "test"), (VALID, "valid")):
        chooser.take(order.tolist(), _apportion(wanted[name], sizes), part)
    return facts.by_arity(np.array(chooser.parts, np.int8)), wanted, links


def _wanted(options: SplitOptions, facts: int) -> dict[str, int]:
    """Part → how many facts are asked for."""
    shares = {"valid": options.valid, "test": options.test}
    wanted = {
        name: int(value) if _is_number_of_facts(value) else round(value * facts) for name, value in shares.items()
    }
    if sum(wanted.values()) >= facts and any(wanted.values()):
        raise KnowledgeBaseError(
            f"valid and test would have {sum(wanted.values()):,} of {plural(facts, 'fact')}, and train none",
            hint="for example: valid=0.1, test=0.1",
        )
    return wanted


def _is_number_of_facts(value: object) -> bool:
    """Whether a size is a number of facts, not a share."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def _apportion(total: int, sizes: Sequence[int]) -> list[int]:
    """Divide a number among relations by their sizes; the largest remainders get what is left.

    >>> _apportion(5, [30, 15, 5])
    [3, 2, 0]
    """
    whole = sum(sizes)
    shares = [total * size // whole if whole else 0 for size in sizes]
    by_remainder = sorted(range(len(sizes)), key=lambda i: (-(total * sizes[i] % whole) if whole else 0, i))
    for i in by_remainder[: total - sum(shares)]:
        shares[i] += 1
    return shares


class _Facts:
    """All facts in one numbering: arity by arity, in the order of the tables."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self.names = tables.relations
        arities = sorted(tables.facts)
        counts = [len(tables.facts[arity]) for arity in arities]
        self.offsets = dict(zip(arities, accumulate(counts, initial=0), strict=False))
        self.count = sum(counts)
        none = np.zeros(0, np.int32)
        self.relation = np.concatenate([none, *(tables.facts[arity].relation for arity in arities)])

    def objects(self) -> list[tuple[int, ...]]:
        """The different objects of each fact."""
        rows = (row for arity in self.offsets for row in self.tables.facts[arity].objects.tolist())
        return [tuple(set(row)) for row in rows]

    def keys(self, seed: int) -> npt.NDArray[np.uint64]:
        """Shape (facts,): a hash of the seed and the names of each fact."""
        names, digest = list(self.tables.objects), bytearray()
        for arity in self.offsets:
            table = self.tables.facts[arity]
            for relation, row in zip(table.relation.tolist(), table.objects.tolist(), strict=True):
                text = "\0".join([str(seed), self.names[relation], *(names[i] for i in row)])
                digest += hashlib.blake2b(text.encode(), digest_size=8).digest()
        return np.frombuffer(bytes(digest), "<u8").astype(np.uint64)

    def select(self, relations: Sequence[str] | None) -> npt.NDArray[np.bool_]:
        """Shape (facts,): whether a fact is of one of some relations."""
        chosen = np.zeros(len(self.names), bool)
        for name in self.names if relations is None else relations:
            number = self.names.find(name)
            if number is None:
                raise KnowledgeBaseError(f"there is no relation {name}", suggestions=similar_names(name, self.names))
            chosen[number] = True
        selected: npt.NDArray[np.bool_] = chosen[self.relation]
        return selected

    def groups(self, links: Sequence[RelationLink]) -> list[list[int]] | None:
        """The linked facts of each fact, itself included; None if no fact is linked."""
        pairs = [
            np.stack([rows, others], axis=1) + self.offsets[arity]
            for _, arity, rows, others in linked_facts(self.tables, links)
        ]
        if not pairs:
            return None
        labels = connected(self.count, np.concatenate(pairs))
        members: dict[int, list[int]] = {}
        for fact, label in enumerate(labels.tolist()):
            members.setdefault(label, []).append(fact)
        return [members[label] for label in labels.tolist()]

    def strata(self, links: Sequence[RelationLink]) -> Longs:
        """Shape (facts,): the relation of each fact; linked relations, whose facts go together, count as one."""
        ends = [(self.names.find(link.relation), self.names.find(link.other)) for link in links]
        labels = connected(len(self.names), np.array(ends, np.int64).reshape(-1, 2))
        strata: Longs = labels[self.relation]
        return strata

    def by_arity(self, parts: npt.NDArray[np.int8]) -> FactParts:
        """Arity → the parts of its facts."""
        return {arity: parts[start : start + len(self.tables.facts[arity])] for arity, start in self.offsets.items()}


def connected(count: int, pairs: Longs) -> Longs:
    """Shape (count,): the least number that each number is connected to by pairs (p, 2).

    >>> connected(5, np.array([[3, 1], [4, 3]])).tolist()
    [0, 1, 2, 1, 1]
    """
    labels = np.arange(count)
    while True:
        before = labels.copy()
        np.minimum.at(labels, pairs[:, 0], labels[pairs[:, 1]])
        np.minimum.at(labels, pairs[:, 1], labels[pairs[:, 0]])
        labels = labels[labels]
        if (labels == before).all():
            return labels


class _Chooser:
    """Takes facts out of train, as long as each relation and object keeps one there."""

    def __init__(self, facts: _Facts, groups: list[list[int]] | None, strata: Longs, *, protect_objects: bool) -> None:
        self.parts = [TRAIN] * facts.count
        self._groups, self._strata = groups, strata.tolist()
        self._relation = facts.relation.tolist()
        self._left_of_relation = np.bincount(facts.relation, minlength=len(facts.names)).tolist()
        self._objects = facts.objects() if protect_objects else None
        self._left_of_object = [0] * len(facts.tables.objects)
        for row in self._objects or ():
            for obj in row:
                self._left_of_object[obj] += 1

    def take(self, order: Sequence[int], quotas: list[int], part: int) -> None:
        """Take facts in this order until each stratum has given its quota."""
        open_strata = sum(quota > 0 for quota in quotas)
        for fact in order:
            if not open_strata:
                return
            stratum = self._strata[fact]
            if self.parts[fact] != TRAIN or not quotas[stratum]:
                continue
            group = self._groups[fact] if self._groups else [fact]
            if len(group) <= quotas[stratum] and self._remove(group):
                quotas[stratum] -= len(group)
                open_strata -= not quotas[stratum]
                for member in group:
                    self.parts[member] = part

    def _remove(self, group: Sequence[int]) -> bool:
        """Remove facts from train if each relation and object keeps another fact there."""
        used = [(self._left_of_relation, self._relation[fact]) for fact in group]
        if self._objects is not None:
            used += [(self._left_of_object, obj) for fact in group for obj in self._objects[fact]]
        for left, number in used:
            left[number] -= 1
        if all(left[number] > 0 for left, number in used):
            return True
        for left, number in used:
            left[number] += 1
        return False

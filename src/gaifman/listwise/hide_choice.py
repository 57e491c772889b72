"""Choose what a question may not see by the ranks of validation facts.

Facts that a knowledge base misses at random are ranked best if each training fact alone is hidden while it is asked
for. Where test pairs were chosen to be without any link, they are ranked better if all links are hidden.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gaifman.errors import KnowledgeBaseError, plural, similar_names
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.kb.tables import Floats, Ints, freeze
from gaifman.listwise.scoring import RelationScorer
from gaifman.ranking.ranks import CandidateFilter, compute_ranks
from gaifman.sampling.rng import fold_in_rows, make_key

CHOICES = ("facts", "links")
"""What can be chosen; the first is the default, unless the other one is clearly better."""
MAX_RELATIONS, MAX_RELATION_FACTS = 10, 200
"""Relations that are trained to choose, and validation facts of each that are ranked."""
MAX_QUESTIONS = 500
"""Questions of a position that these are trained on."""
MAX_CELLS = 1 << 22
"""Scores in memory at once."""


@dataclass(frozen=True, slots=True)
class ValidationFacts:
    """Validation facts of the relations to train, as objects of the knowledge base."""

    tuples: Mapping[str, Ints]
    """Relation → its facts (b, arity), int32, without those that have unknown objects."""
    left_out: int = 0
    """Facts with objects that the knowledge base does not have."""

    @classmethod
    def of(cls, kb: KnowledgeBase, valid: KnowledgeBase, relations: Collection[str]) -> ValidationFacts:
        """The validation facts of some relations, checked.

        Raises KnowledgeBaseError for relations that the knowledge base does not have, for another arity, for facts that
        it has, and if none is left.
        """
        _check_relations(kb, valid)
        overlap = [fact for fact in valid.facts() if fact in kb]
        if overlap:
            raise KnowledgeBaseError(
                f"{len(overlap):,} of {len(valid):,} validation facts are training facts, such as {overlap[0]}",
                hint="take them out of one of the two: the model would be chosen by facts that it has seen",
            )
        numbers = np.array([kb.objects.find(name) if name in kb.objects else -1 for name in valid.objects], np.int32)
        found = {name: numbers[valid.tuples(name)] for name in relations if name in valid.relations}
        known = {name: freeze(rows[(rows >= 0).all(axis=1)]) for name, rows in found.items()}
        left_out = sum(map(len, found.values())) - sum(map(len, known.values()))
        facts = cls({name: rows for name, rows in known.items() if len(rows)}, left_out)
        if not facts.tuples:
            raise _nothing_left(kb, valid, relations, left_out)
        return facts

    def sample(self, seed: int) -> ValidationFacts:
        """The facts that are ranked: relations with many facts are likelier to be among them."""
        keys = {name: fold_in_rows(make_key(seed, "validation", name), rows) for name, rows in self.tuples.items()}
        names = sorted(keys, key=lambda name: (int(keys[name].min()), name))[:MAX_RELATIONS]
        rows = {name: np.sort(np.argsort(keys[name], kind="stable")[:MAX_RELATION_FACTS]) for name in names}
        return ValidationFacts({name: freeze(self.tuples[name][rows[name]]) for name in sorted(names)}, self.left_out)


def _check_relations(kb: KnowledgeBase, valid: KnowledgeBase) -> None:
    for name, info in valid.relations.items():
        if not info.count:
            continue
        if name not in kb.relations:
            raise KnowledgeBaseError(
                f"the validation facts have a relation that the knowledge base does not have: {name}",
                suggestions=similar_names(name, kb.relations),
            )
        if kb.relations[name].arity != info.arity:
            raise KnowledgeBaseError(
                f"{name} has {plural(info.arity, 'argument')} in the validation facts "
                f"and {plural(kb.relations[name].arity, 'argument')} in the knowledge base"
            )


def _nothing_left(
    kb: KnowledgeBase, valid: KnowledgeBase, relations: Collection[str], left_out: int
) -> KnowledgeBaseError:
    if not left_out:
        names = ", ".join(sorted(relations)[:3]) + (" …" if len(relations) > 3 else "")
        return KnowledgeBaseError(f"there are no validation facts of the relations to train: {names}")
    name = next(name for name in valid.objects if name not in kb.objects)
    return KnowledgeBaseError(
        f"every validation fact has an object that the knowledge base does not have, such as {name}",
        suggestions=similar_names(name, kb.objects),
    )


@dataclass(frozen=True, slots=True)
class HideChoice:
    """What was chosen, and on what."""

    chosen: str
    facts: int
    """Validation facts that were ranked."""
    relations: int
    """Relations of these facts."""
    mrr: Mapping[str, float] = field(default_factory=dict)
    """Choice → mean reciprocal rank of the facts."""
    left_out: int = 0
    """Validation facts with objects that the knowledge base does not have."""

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> HideChoice:
        """What `as_dict` returned."""
        return cls(**fields)

    @classmethod
    def of(cls, found: Mapping[str, Sequence[Floats]], left_out: int = 0) -> HideChoice:
        """The choice by reciprocal ranks: choice → those of each relation.

        Links are hidden if they gain more than the standard error of the gain.

        >>> half, all_first = [np.array([0.5, 0.5])], [np.array([1.0, 1.0])]
        >>> HideChoice.of({"facts": half, "links": all_first}).chosen
        'links'
        >>> HideChoice.of({"facts": half, "links": half}).chosen
        'facts'
        """
        ranks = {choice: np.concatenate(parts) for choice, parts in found.items()}
        default, other = CHOICES
        count, gains = len(ranks[default]), ranks[other] - ranks[default]
        error = gains.std(ddof=1) / np.sqrt(count) if count > 1 else np.inf
        mrr = {choice: float(own.mean()) for choice, own in ranks.items()}
        return cls(other if gains.mean() > error else default, count, len(found[default]), mrr, left_out)

    def as_dict(self) -> dict[str, Any]:
        """Return JSON fields."""
        mrr = {choice: round(value, 6) for choice, value in self.mrr.items()}
        return {
            "chosen": self.chosen,
            "facts": self.facts,
            "relations": self.relations,
            "left_out": self.left_out,
            "mrr": mrr,
        }


def describe_choice(choice: Mapping[str, Any]) -> str:
    """What `HideChoice.as_dict` returned, in words.

    >>> describe_choice(HideChoice("links", 1200, 1, {"facts": 0.25, "links": 0.3}, 1).as_dict())
    'links: MRR of 1,200 validation facts of 1 relation 0.300, with facts 0.250; 1 with unknown objects left out'
    """
    chosen, mrr = choice["chosen"], choice["mrr"]
    others = ", ".join(f"with {name} {mrr[name]:.3f}" for name in CHOICES if name != chosen)
    what = f"{choice['facts']:,} validation facts of {plural(choice['relations'], 'relation')}"
    left_out = f"; {choice['left_out']:,} with unknown objects left out" if choice["left_out"] else ""
    return f"{chosen}: MRR of {what} {mrr[chosen]:.3f}, {others}{left_out}"


def reciprocal_ranks(scorer: RelationScorer, tuples: Ints, known: Ints) -> Floats:
    """Shape (facts,), float64: of each fact (b, arity), the mean reciprocal rank over its positions.

    Ranks are filtered: candidates that make one of the `known` facts (k, arity), which include these, are left out.
    """
    found, step = np.zeros(len(tuples)), max(1, MAX_CELLS // len(scorer.index.kb.objects))
    for position in range(scorer.arity):
        candidate_filter = CandidateFilter(known, tuples, position)
        for begin in range(0, len(tuples), step):
            rows = np.arange(begin, min(begin + step, len(tuples)))
            scores = scorer.candidate_scores(tuples[rows], position)
            ranks = compute_ranks(scores, tuples[rows, position], candidate_filter.excluded(rows))
            found[rows] += 1 / ranks.realistic
    return found / scorer.arity

"""Training examples: a query's answers, negatives of them, and the facts hidden from both.

>>> from gaifman.kb.knowledge_base import KnowledgeBase
>>> from gaifman.logic.parser import parse_query
>>> kb = KnowledgeBase.from_facts([("born_in", f"p{i}", f"t{i % 3}") for i in range(20)])
>>> config = ExampleConfig(negatives=2, block_size=8)
>>> examples = TrainingExamples(kb, parse_query("born_in(x, y)"), config)
>>> examples
<TrainingExamples: 18 answers to born_in(x, y) in 3 blocks, 2 held out>
>>> [(len(block.answers), len(block.negatives)) for block in examples.blocks(epoch=0)]
[(8, 16), (8, 16), (2, 4)]

Facts hidden from an answer are hidden from its negatives too. If negatives saw them, these facts alone would tell
answers from negatives, and be useless for tuples that are not known yet. A held-out answer is treated as a missing
one: in training it can be a negative, from which the facts that make it true are hidden. All random choices are keyed
by the seed, the epoch and the answer's objects, so they do not depend on the block size or on where an epoch is
resumed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gaifman.config import ExampleConfig, check_int
from gaifman.errors import KnowledgeBaseError, plural
from gaifman.kb.gaifman_graph import GaifmanGraph, graph_of
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.kb.tables import Floats, Ints, Longs, freeze, rows_in
from gaifman.logic.ast import Atom, Query
from gaifman.queries.answers import answers
from gaifman.queries.witnesses import is_monotone, witnesses
from gaifman.sampling.constraints import Constraints
from gaifman.sampling.hiding import HiddenFacts, Hiding, find_hiding
from gaifman.sampling.negatives import Negatives, NegativeSampler
from gaifman.sampling.neighbourhoods import check_tuples
from gaifman.sampling.rng import Keys, fold_in, fold_in_rows, make_key
from gaifman.sampling.twins import TwinSampler

NEGATIVES_PURPOSE = "corrupt"
"""Purpose of the keys of negatives."""
MIN_ANSWERS_FOR_HOLDOUT = 10
"""With fewer answers none is held out."""

Targets = npt.NDArray[np.float32]
BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class ExampleBlock:
    """Some answers and their negatives."""

    rows: Longs
    """Shape (a,), int64: the row of each answer among all answers of the query."""
    answers: Ints
    """Shape (a, n), int32: objects."""
    targets: Targets
    """Shape (a,), float32, above 0 and at most 1: the confidence of each answer."""
    hidden: HiddenFacts
    """The facts hidden from each of the a answers."""
    negatives: Ints
    """Shape (c, n), int32: objects; the negatives of one answer are adjacent."""
    sources: Longs
    """Shape (c,), int64, ascending: the row of `answers` that each negative was made from."""
    negatives_hidden: HiddenFacts
    """The facts hidden from each of the c negatives, including those of its answer."""

    def __len__(self) -> int:
        """Return the number of answers and negatives."""
        return len(self.answers) + len(self.negatives)


class TrainingExamples:
    """The examples of one query over one knowledge base. They are immutable, so threads can share them."""

    def __init__(
        self,
        kb: KnowledgeBase,
        query: Query,
        config: ExampleConfig | None = None,
        constraints: Constraints | None = None,
        known: npt.ArrayLike | None = None,
    ) -> None:
        """`known` (k, n) are more true tuples, which are never negatives."""
        self.kb, self.query, self.config = kb, query, config or ExampleConfig()
        self.answers, hiding, self.targets = _find_answers(kb, query, self.config.seed)
        """Shape (a, n), int32: all answers, by object number."""
        self._hidden, self._can_hide = hiding.hidden, hiding.complete
        self._twins = None if _is_atom(query) else TwinSampler(self.graph, query, self.answers, self._hidden)
        self.constraints = constraints or Constraints()
        """The declared constraints."""
        self.rejected = _known_negatives(kb, query)
        """Shape (r, n), int32: facts of a relation that a person rejected. They are negatives."""
        self._known = None if known is None else _check_known(kb, known, len(query.variables))
        chosen, unused = self._choose_held_out()
        unused |= self._can_hide.any() & ~self._can_hide
        self.held_out_rows: Longs = np.flatnonzero(chosen)
        """Shape (held out,), int64: rows of the held-out answers."""
        self.training_rows: Longs = np.flatnonzero(~unused & ~chosen)
        """Shape (training,), int64: rows of the other answers, without those from which a fact of a held-out answer is
        hidden, and without those whose truth cannot be hidden if others' can."""
        self._rejected_of = _negatives_by_answer(self.rejected, self.answers, self.training_rows)
        # A held-out answer can be a negative in training, as a missing fact can, unless every tuple is known. The
        # negatives of held-out answers exclude all answers, as those of test facts do.
        self._held_out_sampler = self._sampler(self.answers)
        self._protected = not chosen.any() or not self._has_negatives()
        self._negative_sampler = (
            self._held_out_sampler if self._protected else self._sampler(self.answers[self.training_rows], unused)
        )

    @property
    def graph(self) -> GaifmanGraph:
        """The Gaifman graph of the knowledge base."""
        return graph_of(self.kb)

    def __repr__(self) -> str:
        training = f"{plural(len(self.training_rows), 'answer')} to {self.query} in {plural(len(self), 'block')}"
        return f"<TrainingExamples: {training}, {len(self.held_out_rows):,} held out>"

    def __len__(self) -> int:
        """Return the number of blocks of an epoch."""
        return (len(self.training_rows) + self.config.block_size - 1) // self.config.block_size

    @property
    def visible_count(self) -> int:
        """Number of answers that are true whatever is hidden: they cannot be held out."""
        return int((~self._can_hide).sum())

    def count(self) -> int:
        """Return the number of examples of an epoch, w + w̃ per answer; fewer if an answer has fewer negatives."""
        return len(self.training_rows) * (self.config.positives + self.config.negatives)

    def blocks(self, epoch: int, first: int = 0) -> Iterator[ExampleBlock]:
        """Yield the training answers in the order of the epoch, from block `first` on.

        Blocks are made on demand: only one is in memory.
        """
        check_int("epoch", epoch, 0)
        check_int("first", first, 0)
        return self._iter_blocks(epoch, first)

    def _iter_blocks(self, epoch: int, first: int) -> Iterator[ExampleBlock]:
        keys = fold_in_rows(make_key(self.config.seed, "order", epoch), self.answers[self.training_rows])
        order, size = self.training_rows[np.argsort(keys, kind="stable")], self.config.block_size
        key = make_key(self.config.seed, NEGATIVES_PURPOSE, epoch)
        for begin in range(first * size, len(order), size):
            rows = order[begin : begin + size]
            found = self._negative_sampler.sample(self._training_numbers(rows), self.config.negatives, key)
            yield self.make_block(rows, self._with_rejected(rows, found, epoch))

    def _with_rejected(self, rows: Longs, found: Negatives, epoch: int) -> Negatives:
        """Return negatives of some answers in which known ones replace drawn ones, others in the next epoch."""
        if not len(self.rejected):
            return found
        tuples = found.tuples.copy()
        for source, row in enumerate(rows.tolist()):
            if row in self._rejected_of:
                own, at = self._rejected_of[row], np.flatnonzero(found.sources == source)
                turns = (epoch * len(at) + np.arange(min(len(at), len(own)))) % len(own)
                tuples[at[: len(turns)]] = own[turns]
        return Negatives(freeze(tuples), found.sources)

    def sample_negatives(self, rows: Longs, negatives: int = 1, epoch: int = 0) -> Ints:
        """Return negatives (c, n) of some training answers, given by row."""
        key = make_key(self.config.seed, NEGATIVES_PURPOSE, epoch)
        return self._negative_sampler.sample(self._training_numbers(rows), negatives, key).tuples

    def split_held_out(self) -> tuple[Longs, Longs]:
        """Return the held-out rows in two parts, by key: for early stopping, and for calibration and figures."""
        keys = fold_in_rows(make_key(self.config.seed, "stop"), self.answers[self.held_out_rows])
        order, half = self.held_out_rows[np.argsort(keys, kind="stable")], len(keys) // 2
        return np.sort(order[:half]), np.sort(order[half:])

    def held_out_block(self, epoch: int = 0, negatives: int | None = None, rows: Longs | None = None) -> ExampleBlock:
        """Return the held-out answers, or some of them by row, with `negatives` negatives each (default 1).

        For a query that is no single atom the negatives are twins, and answers without a twin are left out.
        """
        check_int("epoch", epoch, 0)
        count = 1 if negatives is None else negatives
        check_int("negatives", count, 0)
        key = make_key(self.config.seed, NEGATIVES_PURPOSE, epoch)
        chosen = self.held_out_rows if rows is None else rows
        if self._twins is None or not count or not len(chosen):
            return self.make_block(chosen, self._held_out_sampler.sample(chosen, count, key))
        known = self.answers if self._known is None else np.concatenate([self.answers, self._known])
        found = self._twins.sample(chosen, count, key, self._held_out_sampler, known)
        paired, sources = np.unique(found.sources, return_inverse=True)
        return self.make_block(chosen[paired], Negatives(found.tuples, freeze(sources)))

    def count_hidden(self, rows: Longs) -> int:
        """Return the number of different facts and values of which one is hidden from each answer, by row."""
        return len(np.unique(self._hidden.first()[rows]))

    def true_shares(self, block: ExampleBlock, missing: float) -> Floats:
        """Shape (c,), float64: the probability that each negative of a block of held-out answers is true.

        A share `missing` of all answers is assumed to be missing from the knowledge base.
        """
        negatives = Negatives(block.negatives, block.sources)
        shares = self._held_out_sampler.true_shares(block.rows, negatives, missing)
        return np.where(rows_in(block.negatives, self.rejected), 0.0, shares) if len(self.rejected) else shares

    def _sampler(self, answers: Ints, others: BoolArray | None = None) -> NegativeSampler:
        """Return a sampler whose negatives are none of these answers, nor of others, a mask of all answers."""
        known = [] if self._known is None else [self._known]
        known += [] if others is None else [self.answers[others]]
        return NegativeSampler(
            self.kb,
            answers,
            negative_sampling=self.config.negative_sampling,
            constraints=self.constraints.for_query(self.query),
            known=np.concatenate(known) if known else None,
            hard_negative_fraction=self.config.hard_negative_fraction,
        )

    def _has_negatives(self) -> bool:
        """Return whether a tuple that differs from an answer at one position is unknown."""
        key, size = make_key(self.config.seed, NEGATIVES_PURPOSE), 1_024
        blocks = (np.arange(begin, min(begin + size, len(self.answers))) for begin in range(0, len(self.answers), size))
        return any(len(self._held_out_sampler.sample(rows, 1, key)) for rows in blocks)

    def _training_numbers(self, rows: Longs) -> Longs:
        """Return the number of each row among the answers of the sampler for training."""
        return rows if self._protected else np.searchsorted(self.training_rows, rows)

    def make_block(self, rows: Longs, found: Negatives) -> ExampleBlock:
        """Return answers, by row, with these negatives."""
        tuples, hidden = self.answers[rows], self._hidden.select(rows)
        if self.config.hide == "links":
            hidden = hide_links(self.graph, tuples, hidden, np.arange(len(rows)))
        unseen = self._hidden_from_negatives(found.tuples, found.sources, hidden)
        if self._twins is not None:
            unseen = self._twins.hide_from_negatives(unseen, rows[found.sources], found.tuples)
        return ExampleBlock(rows, tuples, self.targets[rows], hidden, found.tuples, found.sources, unseen)

    def _hidden_from_negatives(self, tuples: Ints, sources: Longs, hidden: HiddenFacts) -> HiddenFacts:
        """Return what is hidden from negatives (c, n): the facts of their sources, and those that make them true."""
        if self.config.hide == "links":
            unseen = hide_links(self.graph, tuples, hidden, sources)
        else:
            unseen = hidden.select(sources)
        negatives, rows = self._find_held_out(tuples)
        return unseen.with_facts(negatives, self._hidden.select(rows)) if len(rows) else unseen

    def _find_held_out(self, tuples: Ints) -> tuple[Longs, Longs]:
        """Return which tuples (c, n) are held-out answers, by index, and the row of each."""
        key = make_key(self.config.seed, "hold")
        keys = fold_in_rows(key, self.answers[self.held_out_rows])
        order = np.argsort(keys)
        at = np.searchsorted(keys[order], fold_in_rows(key, tuples))
        rows = self.held_out_rows[order[np.minimum(at, len(order) - 1)]] if len(order) else np.zeros(0, np.int64)
        same = np.flatnonzero((self.answers[rows] == tuples).all(axis=1)) if len(order) else rows
        return same, rows[same]

    def _choose_held_out(self) -> tuple[BoolArray, BoolArray]:
        """Return which answers are held out, by key, and which others are not used: shapes (a,).

        A model that has learned from an answer that its hidden fact is true would know the others from which the same
        fact is hidden. So these are held out too, or not used. None are held out if less than half of all answers can
        be hidden: figures of the rest would be of another kind of answers.
        """
        total = int(self._can_hide.sum())
        enough = total >= MIN_ANSWERS_FOR_HOLDOUT and 2 * total >= len(self.answers)
        count = min(round(self.config.holdout * total), self.config.max_held_out, total - 1) if enough else 0
        held_out, touched = np.zeros(len(self.answers), bool), np.zeros(len(self.answers), bool)
        if count:
            key = make_key(self.config.seed, "hold")
            keys = groups = fold_in_rows(key, self.answers)
            if self._twins is not None:  # of one atom each answer has a fact of its own
                groups = fold_in(key, self._hidden.first())
            order = np.lexsort([keys, groups])
            order = order[self._can_hide[order]]
            chosen, end = _cut_groups(groups[order], count)
            held_out[order[:chosen]] = touched[order[:end]] = True
        return held_out, touched & ~held_out


def _cut_groups(groups: Keys, count: int) -> tuple[int, int]:
    """Return how many of the sorted rows to hold out, at most `count`, and the end of the last group that they touch.

    >>> _cut_groups(np.array([3, 3, 5, 5, 5, 7, 8, 9, 9, 9], np.uint64), 3)
    (3, 5)

    The groups contain at most half of the rows: otherwise the last one is left whole.

    >>> _cut_groups(np.array([3, 3, 5, 5, 5, 5, 5, 5, 5, 9], np.uint64), 3)
    (2, 2)
    """
    end = int(np.searchsorted(groups, groups[count - 1], side="right"))
    if end == count or 2 * end <= len(groups):
        return count, end
    begin = int(np.searchsorted(groups, groups[count - 1]))
    return begin, begin


def _known_negatives(kb: KnowledgeBase, query: Query) -> Ints:
    """Return the known negatives of a relation; none of other queries."""
    relation = query.atomic_relation
    known = relation is not None and relation in kb.relations
    return kb.rejected_tuples(relation) if relation and known else np.zeros((0, len(query.variables)), np.int32)


def _negatives_by_answer(rejected: Ints, answers: Ints, rows: Longs) -> dict[int, Ints]:
    """Return row → the known negatives that share an object with this answer, one of some rows.

    Each negative is with the first such answer, or with the first of all.
    """
    if not len(rejected) or not len(rows):
        return {}
    first: dict[tuple[int, int], int] = {}
    for position, column in enumerate(answers[rows].T.tolist()):
        for row, obj in zip(rows.tolist(), column, strict=True):
            first.setdefault((position, obj), row)
    found: dict[int, list[list[int]]] = {}
    for objects in rejected.tolist():
        shared = (first[place] for place in enumerate(objects) if place in first)
        found.setdefault(next(shared, int(rows[0])), []).append(objects)
    return {row: np.array(own, np.int32) for row, own in found.items()}


def held_out_facts(facts: Ints, config: ExampleConfig) -> Longs:
    """The rows of a relation's facts that `TrainingExamples` hold out, ascending."""
    count = min(round(config.holdout * len(facts)), config.max_held_out, len(facts) - 1)
    keys = fold_in_rows(make_key(config.seed, "hold"), facts)
    rows: Longs = np.sort(np.argsort(keys, kind="stable")[: count if len(facts) >= MIN_ANSWERS_FOR_HOLDOUT else 0])
    return rows


class ExampleCollection:
    """The examples of one query over several knowledge bases, which share relations but no objects."""

    def __init__(self, examples: Sequence[TrainingExamples]) -> None:
        if not examples:
            raise KnowledgeBaseError("a collection needs at least one knowledge base")
        first = examples[0]
        for other in examples:
            if other.query != first.query or other.config.seed != first.config.seed:
                raise KnowledgeBaseError(
                    f"a collection needs one query and one seed, got {first.query} with seed {first.config.seed} "
                    f"and {other.query} with seed {other.config.seed}"
                )
        self.examples = tuple(examples)

    def __len__(self) -> int:
        """Return the number of blocks of an epoch."""
        return sum(map(len, self.examples))

    def count(self) -> int:
        """Return the number of examples of an epoch."""
        return sum(examples.count() for examples in self.examples)

    def blocks(self, epoch: int, first: int = 0) -> Iterator[tuple[int, ExampleBlock]]:
        """Yield all blocks, each with the number of its knowledge base, from block `first` on.

        Knowledge bases alternate in a random order, keyed by epoch; the blocks of each keep their own order.
        """
        check_int("epoch", epoch, 0)
        check_int("first", first, 0)
        return self._iter_blocks(epoch, first)

    def _iter_blocks(self, epoch: int, first: int) -> Iterator[tuple[int, ExampleBlock]]:
        lengths = [len(examples) for examples in self.examples]
        owners = np.repeat(np.arange(len(lengths)), lengths)
        numbers = np.concatenate([np.arange(length) for length in lengths])
        key = make_key(self.examples[0].config.seed, "collection", epoch)
        order = owners[np.argsort(fold_in(fold_in(key, owners), numbers), kind="stable")]
        skipped = np.bincount(order[:first], minlength=len(lengths)).tolist()
        streams = [examples.blocks(epoch, n) for examples, n in zip(self.examples, skipped, strict=True)]
        for owner in order[first:].tolist():
            yield owner, next(streams[owner])


# The answers of a query


def _find_answers(kb: KnowledgeBase, query: Query, seed: int) -> tuple[Ints, Hiding, Targets]:
    """Return all answers, what is hidden from each, and the confidence of each."""
    if not query.variables:
        raise KnowledgeBaseError(f"{query} has no free variables, so there are no tuples to train on")
    found = _answers_of_atom(kb, query) or _answers_of_formula(kb, query, seed)
    if not len(found[0]):
        raise KnowledgeBaseError(f"{query} has no answers to train on")
    return found


def _is_atom(query: Query) -> bool:
    """Return whether the query is one atom, with each variable once."""
    formula = query.formula
    if not isinstance(formula, Atom) or not isinstance(formula.relation, str):
        return False
    return len(formula.terms) == len(query.variables) and set(formula.terms) == set(query.variables)


def _answers_of_atom(kb: KnowledgeBase, query: Query) -> tuple[Ints, Hiding, Targets] | None:
    """Return the facts themselves if the query is an atom with distinct variables, else None."""
    formula = query.formula
    if not isinstance(formula, Atom) or not isinstance(formula.relation, str):
        return None
    number, table = kb.content.relations.find(formula.relation), kb.fact_tables.get(len(formula.terms))
    if not _is_atom(query) or number is None or table is None or kb.content.arities[number] != len(formula.terms):
        return None  # the engine reports an unknown relation
    rows = np.arange(table.starts[number], table.starts[number + 1])
    tuples = table.objects[rows][:, [formula.terms.index(variable) for variable in query.variables]]
    if formula.terms != query.variables:  # permuted: sort them as the engine does
        order = np.lexsort(tuples.T[::-1])
        rows, tuples = rows[order], tuples[order]
    confidence = np.ones(len(rows)) if table.confidence is None else table.confidence[rows]
    hidden = HiddenFacts(np.arange(len(rows) + 1), rows + kb.fact_offsets[table.arity])
    return freeze(tuples), Hiding(hidden, np.ones(len(rows), bool)), freeze(confidence.astype(np.float32))


def _answers_of_formula(kb: KnowledgeBase, query: Query, seed: int) -> tuple[Ints, Hiding, Targets]:
    """Return the answers by the engine, a smallest set of facts to hide, and the confidence of the best witness."""
    tuples = answers(kb, query).tuples
    confidence = np.ones(len(tuples))
    if kb.has_confidences and len(tuples) and is_monotone(query, kb):
        found = witnesses(kb, query, tuples)
        fact_confidences = np.append(kb.confidences, 1.0)  # the last one is for −1, no fact
        confidence[:] = 0
        np.maximum.at(confidence, found.answer, fact_confidences[found.facts].prod(axis=1))
    return freeze(tuples), find_hiding(kb, query, tuples, seed=seed), freeze(confidence.astype(np.float32))


def hide_links(graph: GaifmanGraph, tuples: Ints, hidden: HiddenFacts, sources: Longs) -> HiddenFacts:
    """Return what is hidden from the source of each tuple, and every fact with two different objects of the tuple."""
    from gaifman.kb.gaifman_graph import adjacency
    from gaifman.kb.tables import freeze  # here: numba takes a quarter of a second to import
    from gaifman.kernels.graph import count_tuple_facts, find_tuple_facts

    rows, frozen, first_starts, frozen_sources = (
        adjacency(graph),
        freeze(tuples),
        freeze(hidden.starts),
        freeze(sources),
    )
    starts = np.zeros(len(tuples) + 1, np.int64)
    facts = np.empty(count_tuple_facts(rows, frozen, first_starts, frozen_sources), np.int64)
    count = find_tuple_facts(rows, frozen, first_starts, freeze(hidden.facts), frozen_sources, starts, facts)
    return HiddenFacts(starts, facts[:count])


def _check_known(kb: KnowledgeBase, known: npt.ArrayLike, arity: int) -> Ints:
    tuples = check_tuples(known, len(kb.objects))
    if tuples.shape[1] != arity:
        raise KnowledgeBaseError(f"known tuples must have {plural(arity, 'object')}, got {tuples.shape[1]}")
    return tuples

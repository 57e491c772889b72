"""What is learnt from: a query's answers, corruptions of them, and what is hidden from both.

>>> from gaifman.kb.gaifman_graph import graph_of
>>> from gaifman.kb.knowledge_base import KnowledgeBase
>>> from gaifman.logic.parser import parse_query
>>> kb = KnowledgeBase.from_facts([("born_in", f"p{i}", f"t{i % 3}") for i in range(20)])
>>> examples = TrainingExamples(graph_of(kb), parse_query("born_in(x, y)"), ExampleConfig(negatives=2, block=8))
>>> examples
<Examples: 18 answers to born_in(x, y) in 3 blocks, 2 held out>
>>> [(len(block.answers), len(block.corrupted)) for block in examples.blocks(epoch=0)]
[(8, 16), (8, 16), (2, 4)]

What is hidden from an answer is hidden from its corruptions too: if they saw it, it alone would tell them from answers,
and mean nothing where the answer is not known yet. Everything is drawn by keys of the seed, the epoch and the answer's
objects: the same for any block size, and whether an epoch is begun at its first block or in the middle.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gaifman.config import check_choice, check_fraction, check_int, check_seed
from gaifman.errors import KnowledgeBaseError, plural
from gaifman.kb.gaifman_graph import GaifmanGraph
from gaifman.kb.tables import Ints, Longs, freeze
from gaifman.logic.ast import Atom, Query
from gaifman.queries.answers import answers
from gaifman.queries.witnesses import is_monotone, witnesses
from gaifman.sampling.constraints import Constraints
from gaifman.sampling.hiding import hide
from gaifman.sampling.negatives import NegativeSampler, check_hard_negative_fraction, check_negative_sampling
from gaifman.sampling.neighbourhoods import HiddenFacts, check_tuples
from gaifman.sampling.rng import fold_in, fold_in_rows, make_key

HIDE_MODES = ("facts", "links")
"""What is hidden: the facts that make an answer true, or all that are between its objects as well."""
NEGATIVES_PURPOSE = "corrupt"
"""The purpose of the keys of corruptions."""
MIN_ANSWERS_FOR_HOLDOUT = 10
"""Answers there are at least where some are held out."""

Targets = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class ExampleConfig:
    """How many examples are made, and of what."""

    positives: int = 5
    """w: neighbourhoods drawn for each answer, by whoever draws them."""
    negatives: int = 25
    """w̃: corruptions of each answer, of which one neighbourhood each is drawn."""
    negative_sampling: str = "mixed"
    """Where other objects come from: `uniform`, `typed` or `mixed`, see `gaifman.sampling.negatives`."""
    hide: str = "facts"
    """`facts`, or `links`: every fact between two objects of the tuple, or of the answer it was made of, as well."""
    holdout: float = 0.1
    """The share of the answers that is not learnt from; of fewer than 10 answers none is."""
    max_held_out: int = 1_000
    """Answers held out at most."""
    seed: int = 0
    block_size: int = 256
    """Answers in one block."""
    hard_negative_fraction: float = 0.0
    """The share of corruptions whose new object is a few steps from one that stays, see `gaifman.sampling.negatives`."""

    def __post_init__(self) -> None:
        for name, minimum in (("positives", 1), ("negatives", 0), ("max_held_out", 0), ("block_size", 1)):
            check_int(name, getattr(self, name), minimum)
        check_seed(self.seed)
        check_negative_sampling(self.negative_sampling)
        check_hard_negative_fraction(self.hard_negative_fraction)
        check_choice("hide", self.hide, HIDE_MODES)
        check_fraction("holdout", self.holdout, one=False)


@dataclass(frozen=True, slots=True)
class ExampleBlock:
    """Some answers, and corruptions of them."""

    answers: Ints
    """Shape (a, n), int32: objects."""
    targets: Targets
    """Shape (a,), float32, above 0 and at most 1: how sure each answer is."""
    hidden: HiddenFacts
    """Of a tuples: the facts that each answer does not see."""
    negatives: Ints
    """Shape (c, n), int32: objects; corruptions of one answer stand together."""
    sources: Longs
    """Shape (c,), int64, ascending: the row of `answers` that each corruption was made of."""
    negatives_hidden: HiddenFacts
    """Of c tuples: the facts that each corruption does not see; those of its answer are among them."""

    def __len__(self) -> int:
        """Answers and corruptions."""
        return len(self.answers) + len(self.negatives)


class TrainingExamples:
    """The examples of one query over one knowledge base. They never change: threads can share them."""

    def __init__(
        self,
        graph: GaifmanGraph,
        query: Query,
        config: ExampleConfig | None = None,
        constraints: Constraints | None = None,
        known: npt.ArrayLike | None = None,
    ) -> None:
        """`known` (k, n) are tuples that are true as well, and so are never negatives."""
        self.graph, self.query, self.config = graph, query, config or ExampleConfig()
        self.answers, self._hidden, self.targets = _find_answers(graph, query, self.config.seed)
        """Shape (a, n), int32: all answers, by the numbers of their objects."""
        own = (constraints or Constraints()).for_query(query)
        others = None if known is None else _check_known(graph, known, len(query.variables))
        pool, near = self.config.negative_sampling, self.config.hard_negative_fraction
        self._negative_sampler = NegativeSampler(
            graph.kb,
            self.answers,
            negative_sampling=pool,
            constraints=own,
            known=others,
            hard_negative_fraction=near,
            graph=graph,
        )
        chosen = self._choose_held_out()
        self.held_out_rows: Longs = np.flatnonzero(chosen)
        """Shape (held,), int64: rows of the answers that are not learnt from."""
        self.training_rows: Longs = np.flatnonzero(~chosen)
        """Shape (training,), int64: rows of the others."""

    def __repr__(self) -> str:
        training = f"{plural(len(self.training_rows), 'answer')} to {self.query} in {plural(len(self), 'block')}"
        return f"<Examples: {training}, {len(self.held_out_rows):,} held out>"

    def __len__(self) -> int:
        """The number of blocks of an epoch."""
        return (len(self.training_rows) + self.config.block_size - 1) // self.config.block_size

    def count(self) -> int:
        """Examples in an epoch: w + w̃ for each answer; fewer only where an answer cannot be corrupted so often."""
        return len(self.training_rows) * (self.config.positives + self.config.negatives)

    def blocks(self, epoch: int, first: int = 0) -> Iterator[ExampleBlock]:
        """The training answers in the epoch's order, one block after another, from block `first` on.

        A block is made when it is asked for: there is never more than one in memory.
        """
        check_int("epoch", epoch, 0)
        check_int("first", first, 0)
        return self._iter_blocks(epoch, first)

    def _iter_blocks(self, epoch: int, first: int) -> Iterator[ExampleBlock]:
        keys = fold_in_rows(make_key(self.config.seed, "order", epoch), self.answers[self.training_rows])
        order, size = self.training_rows[np.argsort(keys, kind="stable")], self.config.block_size
        key = make_key(self.config.seed, NEGATIVES_PURPOSE, epoch)
        for begin in range(first * size, len(order), size):
            yield self._block(order[begin : begin + size], key, self.config.negatives)

    def sample_negatives(self, rows: Longs, negatives: int = 1, epoch: int = 0) -> Ints:
        """Corruptions (c, n) of some of the answers, by their rows."""
        return self._negative_sampler.sample(rows, negatives, make_key(self.config.seed, "corrupt", epoch)).tuples

    def held_out_block(self, epoch: int = 0, negatives: int | None = None) -> ExampleBlock:
        """The answers that are held out, with so many corruptions of each, 1 where nothing is said."""
        check_int("epoch", epoch, 0)
        count = 1 if negatives is None else negatives
        check_int("negatives", count, 0)
        return self._block(self.held_out_rows, make_key(self.config.seed, NEGATIVES_PURPOSE, epoch), count)

    def _block(self, rows: Longs, key: np.uint64, negatives: int) -> ExampleBlock:
        found = self._negative_sampler.sample(rows, negatives, key)
        tuples, hidden = self.answers[rows], self._hidden.select(rows)
        if self.config.hide == "links":
            hidden = _hide_links(self.graph, tuples, hidden, np.arange(len(rows)))
            unseen = _hide_links(self.graph, found.tuples, hidden, found.sources)
        else:
            unseen = hidden.select(found.sources)
        return ExampleBlock(tuples, self.targets[rows], hidden, found.tuples, found.sources, unseen)

    def _choose_held_out(self) -> npt.NDArray[np.bool_]:
        """Which answers are held out: those with the smallest keys."""
        total = len(self.answers)
        count = (
            min(round(self.config.holdout * total), self.config.max_held_out, total - 1)
            if total >= MIN_ANSWERS_FOR_HOLDOUT
            else 0
        )
        held = np.zeros(total, bool)
        if count:
            held[np.argsort(fold_in_rows(make_key(self.config.seed, "hold"), self.answers), kind="stable")[:count]] = (
                True
            )
        return held


class ExampleCollection:
    """The examples of one query over several knowledge bases, which share relations but no objects."""

    def __init__(self, examples: Sequence[TrainingExamples]) -> None:
        if not examples:
            raise KnowledgeBaseError("a collection has at least one knowledge base")
        first = examples[0]
        for other in examples:
            if other.query != first.query or other.config.seed != first.config.seed:
                raise KnowledgeBaseError(
                    f"a collection has one query and one seed, not {first.query} with seed {first.config.seed} "
                    f"and {other.query} with seed {other.config.seed}"
                )
        self.examples = tuple(examples)

    def __len__(self) -> int:
        """The number of blocks of an epoch."""
        return sum(map(len, self.examples))

    def count(self) -> int:
        """Examples in an epoch."""
        return sum(examples.count() for examples in self.examples)

    def blocks(self, epoch: int, first: int = 0) -> Iterator[tuple[int, ExampleBlock]]:
        """All blocks, each with the number of its knowledge base, from block `first` on.

        Whose block comes next is shuffled by keys; those of one knowledge base come in their own order.
        """
        check_int("epoch", epoch, 0)
        check_int("first", first, 0)
        return self._iter_blocks(epoch, first)

    def _iter_blocks(self, epoch: int, first: int) -> Iterator[tuple[int, ExampleBlock]]:
        lengths = [len(examples) for examples in self.examples]
        owners = np.repeat(np.arange(len(lengths)), lengths)
        numbers = np.concatenate([np.arange(length) for length in lengths])
        key = make_key(self.examples[0].config.seed, "collection", epoch)
        turns = owners[np.argsort(fold_in(fold_in(key, owners), numbers), kind="stable")]
        gone = np.bincount(turns[:first], minlength=len(lengths)).tolist()
        streams = [examples.blocks(epoch, n) for examples, n in zip(self.examples, gone, strict=True)]
        for owner in turns[first:].tolist():
            yield owner, next(streams[owner])


# The answers of a query


def _find_answers(graph: GaifmanGraph, query: Query, seed: int) -> tuple[Ints, HiddenFacts, Targets]:
    """All answers, the facts that are hidden from each, and how sure each is."""
    if not query.variables:
        raise KnowledgeBaseError(f"{query} has no free variables: it is true or false, and has nothing to learn from")
    found = _answers_of_atom(graph, query) or _answers_of_formula(graph, query, seed)
    if not len(found[0]):
        raise KnowledgeBaseError(f"{query} has no answers: there is nothing to learn from")
    return found


def _answers_of_atom(graph: GaifmanGraph, query: Query) -> tuple[Ints, HiddenFacts, Targets] | None:
    """The facts themselves, where the query is a relation and its places are different variables."""
    formula, kb = query.formula, graph.kb
    if not isinstance(formula, Atom) or not isinstance(formula.relation, str):
        return None
    number, table = kb.content.relations.find(formula.relation), kb.fact_tables.get(len(formula.terms))
    different = len(set(formula.terms)) == len(formula.terms) == len(query.variables)
    different = different and set(formula.terms) == set(query.variables)
    if not different or number is None or table is None or kb.content.arities[number] != len(formula.terms):
        return None  # a relation that is not there is an error of the engine's
    rows = np.arange(table.starts[number], table.starts[number + 1])
    tuples = table.objects[rows][:, [formula.terms.index(variable) for variable in query.variables]]
    if formula.terms != query.variables:  # turned round, they are put in the order in which the engine gives them
        order = np.lexsort(tuples.T[::-1])
        rows, tuples = rows[order], tuples[order]
    sure = np.ones(len(rows)) if table.confidence is None else table.confidence[rows]
    hidden = HiddenFacts(np.arange(len(rows) + 1), rows + graph.kb.fact_offsets[table.arity])
    return freeze(tuples), hidden, freeze(sure.astype(np.float32))


def _answers_of_formula(graph: GaifmanGraph, query: Query, seed: int) -> tuple[Ints, HiddenFacts, Targets]:
    """By the engine: the answers, a smallest set of facts to hide from each, the surest witness of each."""
    tuples = answers(graph.kb, query).tuples
    sure = np.ones(len(tuples))
    uncertain = any(table.confidence is not None for table in graph.kb.fact_tables.values())
    if uncertain and len(tuples) and is_monotone(query, graph.kb):
        found = witnesses(graph.kb, query, tuples)
        one = np.append(_fact_confidences(graph), 1.0)  # the last, number −1, is no fact
        sure[:] = 0
        np.maximum.at(sure, found.answer, one[found.facts].prod(axis=1))
    return freeze(tuples), hide(graph.kb, query, tuples, seed=seed), freeze(sure.astype(np.float32))


def _fact_confidences(graph: GaifmanGraph) -> npt.NDArray[np.float64]:
    """The confidence of every fact, by number."""
    tables = [graph.kb.fact_tables[arity] for arity in graph.kb.fact_offsets]
    return np.concatenate([np.ones(len(t)) if t.confidence is None else t.confidence for t in tables])


def _hide_links(graph: GaifmanGraph, tuples: Ints, hidden: HiddenFacts, sources: Longs) -> HiddenFacts:
    """What is hidden from the source of each tuple, and every fact that has two different objects of the tuple."""
    from gaifman.kb.arrays import adjacency
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


def _check_known(graph: GaifmanGraph, known: npt.ArrayLike, arity: int) -> Ints:
    tuples = check_tuples(graph, known)
    if tuples.shape[1] != arity:
        raise KnowledgeBaseError(f"known tuples have {plural(arity, 'place')} here, not {tuples.shape[1]}")
    return tuples

"""Training examples: a query's answers, negatives of them, and the facts hidden from both.

>>> from gaifman.kb.gaifman_graph import build_graph
>>> from gaifman.kb.knowledge_base import KnowledgeBase
>>> from gaifman.logic.parser import parse_query
>>> kb = KnowledgeBase.from_facts([("born_in", f"p{i}", f"t{i % 3}") for i in range(20)])
>>> config = ExampleConfig(negatives=2, block_size=8)
>>> examples = TrainingExamples(build_graph(kb), parse_query("born_in(x, y)"), config)
>>> examples
<TrainingExamples: 18 answers to born_in(x, y) in 3 blocks, 2 held out>
>>> [(len(block.answers), len(block.negatives)) for block in examples.blocks(epoch=0)]
[(8, 16), (8, 16), (2, 4)]

Facts hidden from an answer are hidden from its negatives too. If negatives saw them, these facts alone would tell
answers from negatives, and be useless for tuples that are not known yet. All random choices are keyed by the seed, the
epoch and the answer's objects, so they do not depend on the block size or on where an epoch is resumed.
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
from gaifman.sampling.negatives import NEGATIVE_SAMPLING, NegativeSampler
from gaifman.sampling.neighbourhoods import HiddenFacts, check_tuples
from gaifman.sampling.rng import fold_in, fold_in_rows, make_key

HIDE_MODES = ("facts", "links")
"""What to hide: the facts that make an answer true, or also all facts between its objects."""
NEGATIVES_PURPOSE = "corrupt"
"""Purpose of the keys of negatives."""
MIN_ANSWERS_FOR_HOLDOUT = 10
"""With fewer answers none is held out."""

Targets = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class ExampleConfig:
    """How many examples to make, and how."""

    positives: int = 5
    """w: neighbourhoods drawn for each answer."""
    negatives: int = 25
    """w̃: negatives of each answer, with one neighbourhood each."""
    negative_sampling: str = "mixed"
    """Where replacements come from: `uniform`, `typed` or `mixed`; see `gaifman.sampling.negatives`."""
    hide: str = "facts"
    """`facts`, or `links` to also hide every fact between two objects of the tuple or of its answer."""
    holdout: float = 0.1
    """The fraction of answers that is held out; none of fewer than 10 answers."""
    max_held_out: int = 1_000
    """Largest number of held-out answers."""
    seed: int = 0
    block_size: int = 256
    """Answers per block."""
    hard_negative_fraction: float = 0.0
    """The fraction of hard negatives: the new object is a few steps from one that stays."""

    def __post_init__(self) -> None:
        for name, minimum in (("positives", 1), ("negatives", 0), ("max_held_out", 0), ("block_size", 1)):
            check_int(name, getattr(self, name), minimum)
        check_seed(self.seed)
        check_choice("negative_sampling", self.negative_sampling, NEGATIVE_SAMPLING)
        check_fraction("hard_negative_fraction", self.hard_negative_fraction)
        check_choice("hide", self.hide, HIDE_MODES)
        check_fraction("holdout", self.holdout, one=False)


@dataclass(frozen=True, slots=True)
class ExampleBlock:
    """Some answers and their negatives."""

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
        graph: GaifmanGraph,
        query: Query,
        config: ExampleConfig | None = None,
        constraints: Constraints | None = None,
        known: npt.ArrayLike | None = None,
    ) -> None:
        """`known` (k, n) are more true tuples, which are never negatives."""
        self.graph, self.query, self.config = graph, query, config or ExampleConfig()
        self.answers, self._hidden, self.targets = _find_answers(graph, query, self.config.seed)
        """Shape (a, n), int32: all answers, by object number."""
        self._negative_sampler = NegativeSampler(
            graph.kb,
            self.answers,
            negative_sampling=self.config.negative_sampling,
            constraints=(constraints or Constraints()).for_query(query),
            known=None if known is None else _check_known(graph, known, len(query.variables)),
            hard_negative_fraction=self.config.hard_negative_fraction,
            graph=graph,
        )
        chosen = self._choose_held_out()
        self.held_out_rows: Longs = np.flatnonzero(chosen)
        """Shape (held out,), int64: rows of the held-out answers."""
        self.training_rows: Longs = np.flatnonzero(~chosen)
        """Shape (training,), int64: rows of the other answers."""

    def __repr__(self) -> str:
        training = f"{plural(len(self.training_rows), 'answer')} to {self.query} in {plural(len(self), 'block')}"
        return f"<TrainingExamples: {training}, {len(self.held_out_rows):,} held out>"

    def __len__(self) -> int:
        """Return the number of blocks of an epoch."""
        return (len(self.training_rows) + self.config.block_size - 1) // self.config.block_size

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
            yield self._block(order[begin : begin + size], key, self.config.negatives)

    def sample_negatives(self, rows: Longs, negatives: int = 1, epoch: int = 0) -> Ints:
        """Return negatives (c, n) of some answers, given by row."""
        return self._negative_sampler.sample(rows, negatives, make_key(self.config.seed, "corrupt", epoch)).tuples

    def held_out_block(self, epoch: int = 0, negatives: int | None = None) -> ExampleBlock:
        """Return the held-out answers with `negatives` negatives each (default 1)."""
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
        """Choose the held-out answers: those with the smallest keys."""
        total = len(self.answers)
        count = (
            min(round(self.config.holdout * total), self.config.max_held_out, total - 1)
            if total >= MIN_ANSWERS_FOR_HOLDOUT
            else 0
        )
        held_out = np.zeros(total, bool)
        if count:
            keys = fold_in_rows(make_key(self.config.seed, "hold"), self.answers)
            held_out[np.argsort(keys, kind="stable")[:count]] = True
        return held_out


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


def _find_answers(graph: GaifmanGraph, query: Query, seed: int) -> tuple[Ints, HiddenFacts, Targets]:
    """Return all answers, the facts hidden from each, and the confidence of each."""
    if not query.variables:
        raise KnowledgeBaseError(f"{query} has no free variables, so there are no tuples to train on")
    found = _answers_of_atom(graph, query) or _answers_of_formula(graph, query, seed)
    if not len(found[0]):
        raise KnowledgeBaseError(f"{query} has no answers to train on")
    return found


def _answers_of_atom(graph: GaifmanGraph, query: Query) -> tuple[Ints, HiddenFacts, Targets] | None:
    """Return the facts themselves if the query is an atom with distinct variables, else None."""
    formula, kb = query.formula, graph.kb
    if not isinstance(formula, Atom) or not isinstance(formula.relation, str):
        return None
    number, table = kb.content.relations.find(formula.relation), kb.fact_tables.get(len(formula.terms))
    different = len(set(formula.terms)) == len(formula.terms) == len(query.variables)
    different = different and set(formula.terms) == set(query.variables)
    if not different or number is None or table is None or kb.content.arities[number] != len(formula.terms):
        return None  # the engine reports an unknown relation
    rows = np.arange(table.starts[number], table.starts[number + 1])
    tuples = table.objects[rows][:, [formula.terms.index(variable) for variable in query.variables]]
    if formula.terms != query.variables:  # permuted: sort them as the engine does
        order = np.lexsort(tuples.T[::-1])
        rows, tuples = rows[order], tuples[order]
    confidence = np.ones(len(rows)) if table.confidence is None else table.confidence[rows]
    hidden = HiddenFacts(np.arange(len(rows) + 1), rows + graph.kb.fact_offsets[table.arity])
    return freeze(tuples), hidden, freeze(confidence.astype(np.float32))


def _answers_of_formula(graph: GaifmanGraph, query: Query, seed: int) -> tuple[Ints, HiddenFacts, Targets]:
    """Return the answers by the engine, a smallest set of facts to hide, and the confidence of the best witness."""
    tuples = answers(graph.kb, query).tuples
    confidence = np.ones(len(tuples))
    if graph.kb.has_confidences and len(tuples) and is_monotone(query, graph.kb):
        found = witnesses(graph.kb, query, tuples)
        fact_confidences = np.append(graph.kb.confidences, 1.0)  # the last one is for −1, no fact
        confidence[:] = 0
        np.maximum.at(confidence, found.answer, fact_confidences[found.facts].prod(axis=1))
    return freeze(tuples), hide(graph.kb, query, tuples, seed=seed), freeze(confidence.astype(np.float32))


def _hide_links(graph: GaifmanGraph, tuples: Ints, hidden: HiddenFacts, sources: Longs) -> HiddenFacts:
    """Return what is hidden from the source of each tuple, and every fact with two different objects of the tuple."""
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
        raise KnowledgeBaseError(f"known tuples must have {plural(arity, 'object')}, got {tuples.shape[1]}")
    return tuples

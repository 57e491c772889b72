"""What is learnt from: a query's answers, corruptions of them, and what is hidden from both.

>>> from gaifman.graph import graph_of
>>> from gaifman.kb import KnowledgeBase
>>> from gaifman.parser import parse_query
>>> kb = KnowledgeBase.from_facts([("born_in", f"p{i}", f"t{i % 3}") for i in range(20)])
>>> examples = Examples(graph_of(kb), parse_query("born_in(x, y)"), Recipe(negatives=2, block=8))
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
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from gaifman.constraints import Constraints
from gaifman.corruptions import Corruptor, check_near, check_pool
from gaifman.errors import KnowledgeError
from gaifman.facts import some
from gaifman.formulas import Atom
from gaifman.graph import Graph
from gaifman.hiding import hide
from gaifman.keys import joined, of_rows, start
from gaifman.names import nearest
from gaifman.neighbourhoods import Hidden, checked_tuples
from gaifman.queries import answers
from gaifman.questions import Query
from gaifman.tables import Ints, Longs
from gaifman.witnesses import facts_decide, witnesses

HIDES = ("facts", "links")
"""What is hidden: the facts that make an answer true, or all that are between its objects as well."""
CORRUPT = "corrupt"
"""The purpose of the keys of corruptions."""
FEWEST = 10
"""Answers there are at least where some are held out."""

Targets = npt.NDArray[np.float32]
_Kind = TypeVar("_Kind", bound=np.generic)


@dataclass(frozen=True, slots=True)
class Recipe:
    """How many examples are made, and of what."""

    positives: int = 5
    """w: neighbourhoods drawn for each answer, by whoever draws them."""
    negatives: int = 25
    """w̃: corruptions of each answer, of which one neighbourhood each is drawn."""
    pool: str = "mixed"
    """Where other objects come from: `uniform`, `typed` or `mixed`, see `gaifman.corruptions`."""
    hide: str = "facts"
    """`facts`, or `links`: every fact between two objects of the tuple, or of the answer it was made of, as well."""
    holdout: float = 0.1
    """The share of the answers that is not learnt from; of fewer than 10 answers none is."""
    most_held: int = 1_000
    """Answers held out at most."""
    seed: int = 0
    block: int = 256
    """Answers in one block."""
    near: float = 0.0
    """The share of corruptions whose new object is a few steps from one that stays, see `gaifman.corruptions`."""

    def __post_init__(self) -> None:
        least = {"positives": 1, "negatives": 0, "most_held": 0, "seed": 0, "block": 1}
        for name, bound in least.items():
            _check_whole(name, getattr(self, name), bound)
        if self.seed >= 1 << 64:
            raise KnowledgeError(f"a seed is a whole number from 0 to 2**64 - 1, not {self.seed}")
        check_pool(self.pool)
        check_near(self.near)
        if self.hide not in HIDES:
            near = nearest(self.hide, HIDES) if isinstance(self.hide, str) else ()
            raise KnowledgeError(f"what is hidden is one of {', '.join(HIDES)}, not {self.hide!r}", near=near)
        if not isinstance(self.holdout, int | float) or not 0 <= self.holdout < 1:
            raise KnowledgeError(f"what is held out is a share, 0 or more and below 1, not {self.holdout!r}")


@dataclass(frozen=True, slots=True)
class Block:
    """Some answers, and corruptions of them."""

    answers: Ints
    """Shape (a, n), int32: objects."""
    targets: Targets
    """Shape (a,), float32, above 0 and at most 1: how sure each answer is."""
    hidden: Hidden
    """Of a tuples: the facts that each answer does not see."""
    corrupted: Ints
    """Shape (c, n), int32: objects; corruptions of one answer stand together."""
    sources: Longs
    """Shape (c,), int64, ascending: the row of `answers` that each corruption was made of."""
    unseen: Hidden
    """Of c tuples: the facts that each corruption does not see; those of its answer are among them."""

    def __len__(self) -> int:
        """Answers and corruptions."""
        return len(self.answers) + len(self.corrupted)


class Examples:
    """The examples of one query over one knowledge base. They never change: threads can share them."""

    def __init__(
        self,
        graph: Graph,
        query: Query,
        recipe: Recipe | None = None,
        constraints: Constraints | None = None,
        known: npt.ArrayLike | None = None,
    ) -> None:
        """`known` (k, n) are tuples that are true as well, and so are never negatives."""
        self.graph, self.query, self.recipe = graph, query, recipe or Recipe()
        self.answers, self._hidden, self.targets = _evaluated(graph, query, self.recipe.seed)
        """Shape (a, n), int32: all answers, by the numbers of their objects."""
        own = (constraints or Constraints()).of(query)
        others = None if known is None else _checked_known(graph, known, len(query.free))
        pool, near = self.recipe.pool, self.recipe.near
        self._corruptor = Corruptor(graph.kb, self.answers, pool=pool, own=own, known=others, near=near, graph=graph)
        chosen = self._held_rows()
        self.held: Longs = np.flatnonzero(chosen)
        """Shape (held,), int64: rows of the answers that are not learnt from."""
        self.training: Longs = np.flatnonzero(~chosen)
        """Shape (training,), int64: rows of the others."""

    def __repr__(self) -> str:
        training = f"{some(len(self.training), 'answer')} to {self.query} in {some(len(self), 'block')}"
        return f"<Examples: {training}, {len(self.held):,} held out>"

    def __len__(self) -> int:
        """The number of blocks of an epoch."""
        return (len(self.training) + self.recipe.block - 1) // self.recipe.block

    def count(self) -> int:
        """Examples in an epoch: w + w̃ for each answer; fewer only where an answer cannot be corrupted so often."""
        return len(self.training) * (self.recipe.positives + self.recipe.negatives)

    def blocks(self, epoch: int, first: int = 0) -> Iterator[Block]:
        """The training answers in the epoch's order, one block after another, from block `first` on.

        A block is made when it is asked for: there is never more than one in memory.
        """
        _check_whole("epoch", epoch, 0)
        _check_whole("first", first, 0)
        return self._made(epoch, first)

    def _made(self, epoch: int, first: int) -> Iterator[Block]:
        keys = of_rows(start(self.recipe.seed, "order", epoch), self.answers[self.training])
        order, size = self.training[np.argsort(keys, kind="stable")], self.recipe.block
        key = start(self.recipe.seed, CORRUPT, epoch)
        for begin in range(first * size, len(order), size):
            yield self._block(order[begin : begin + size], key, self.recipe.negatives)

    def corrupted(self, rows: Longs, negatives: int = 1, epoch: int = 0) -> Ints:
        """Corruptions (c, n) of some of the answers, by their rows."""
        return self._corruptor.corrupted(rows, negatives, start(self.recipe.seed, "corrupt", epoch)).tuples

    def held_out(self, epoch: int = 0, negatives: int | None = None) -> Block:
        """The answers that are held out, with so many corruptions of each, 1 where nothing is said."""
        _check_whole("epoch", epoch, 0)
        count = 1 if negatives is None else negatives
        _check_whole("negatives", count, 0)
        return self._block(self.held, start(self.recipe.seed, CORRUPT, epoch), count)

    def _block(self, rows: Longs, key: np.uint64, negatives: int) -> Block:
        found = self._corruptor.corrupted(rows, negatives, key)
        tuples, hidden = self.answers[rows], self._hidden.of(rows)
        if self.recipe.hide == "links":
            hidden = _with_links(self.graph, tuples, hidden, np.arange(len(rows)))
            unseen = _with_links(self.graph, found.tuples, hidden, found.sources)
        else:
            unseen = hidden.of(found.sources)
        return Block(tuples, self.targets[rows], hidden, found.tuples, found.sources, unseen)

    def _held_rows(self) -> npt.NDArray[np.bool_]:
        """Which answers are held out: those with the smallest keys."""
        total = len(self.answers)
        count = min(round(self.recipe.holdout * total), self.recipe.most_held, total - 1) if total >= FEWEST else 0
        held = np.zeros(total, bool)
        if count:
            held[np.argsort(of_rows(start(self.recipe.seed, "hold"), self.answers), kind="stable")[:count]] = True
        return held


class Collection:
    """The examples of one query over several knowledge bases, which share relations but no objects."""

    def __init__(self, examples: Sequence[Examples]) -> None:
        if not examples:
            raise KnowledgeError("a collection has at least one knowledge base")
        first = examples[0]
        for other in examples:
            if other.query != first.query or other.recipe.seed != first.recipe.seed:
                raise KnowledgeError(
                    f"a collection has one query and one seed, not {first.query} with seed {first.recipe.seed} "
                    f"and {other.query} with seed {other.recipe.seed}"
                )
        self.examples = tuple(examples)

    def __len__(self) -> int:
        """The number of blocks of an epoch."""
        return sum(map(len, self.examples))

    def count(self) -> int:
        """Examples in an epoch."""
        return sum(examples.count() for examples in self.examples)

    def blocks(self, epoch: int, first: int = 0) -> Iterator[tuple[int, Block]]:
        """All blocks, each with the number of its knowledge base, from block `first` on.

        Whose block comes next is shuffled by keys; those of one knowledge base come in their own order.
        """
        _check_whole("epoch", epoch, 0)
        _check_whole("first", first, 0)
        return self._made(epoch, first)

    def _made(self, epoch: int, first: int) -> Iterator[tuple[int, Block]]:
        lengths = [len(examples) for examples in self.examples]
        owners = np.repeat(np.arange(len(lengths)), lengths)
        numbers = np.concatenate([np.arange(length) for length in lengths])
        key = start(self.examples[0].recipe.seed, "collection", epoch)
        turns = owners[np.argsort(joined(joined(key, owners), numbers), kind="stable")]
        gone = np.bincount(turns[:first], minlength=len(lengths)).tolist()
        streams = [examples.blocks(epoch, n) for examples, n in zip(self.examples, gone, strict=True)]
        for owner in turns[first:].tolist():
            yield owner, next(streams[owner])


# The answers of a query


def _evaluated(graph: Graph, query: Query, seed: int) -> tuple[Ints, Hidden, Targets]:
    """All answers, the facts that are hidden from each, and how sure each is."""
    if not query.free:
        raise KnowledgeError(f"{query} has no free variables: it is true or false, and has nothing to learn from")
    found = _of_atom(graph, query) or _of_formula(graph, query, seed)
    if not len(found[0]):
        raise KnowledgeError(f"{query} has no answers: there is nothing to learn from")
    return found


def _of_atom(graph: Graph, query: Query) -> tuple[Ints, Hidden, Targets] | None:
    """The facts themselves, where the query is a relation and its places are different variables."""
    formula, kb = query.formula, graph.kb
    if not isinstance(formula, Atom) or not isinstance(formula.relation, str):
        return None
    number, table = kb.content.relations.number(formula.relation), kb.tables.get(len(formula.terms))
    different = len(set(formula.terms)) == len(formula.terms) == len(query.free)
    different = different and set(formula.terms) == set(query.free)
    if not different or number is None or table is None or kb.content.arities[number] != len(formula.terms):
        return None  # a relation that is not there is an error of the engine's
    rows = np.arange(table.starts[number], table.starts[number + 1])
    tuples = table.objects[rows][:, [formula.terms.index(variable) for variable in query.free]]
    if formula.terms != query.free:  # turned round, they are put in the order in which the engine gives them
        order = np.lexsort(tuples.T[::-1])
        rows, tuples = rows[order], tuples[order]
    sure = np.ones(len(rows)) if table.confidence is None else table.confidence[rows]
    hidden = Hidden(np.arange(len(rows) + 1), rows + graph.fact_offsets[table.arity])
    return _frozen(np.ascontiguousarray(tuples)), hidden, _frozen(sure.astype(np.float32))


def _of_formula(graph: Graph, query: Query, seed: int) -> tuple[Ints, Hidden, Targets]:
    """By the engine: the answers, a smallest set of facts to hide from each, the surest witness of each."""
    tuples = answers(graph.kb, query).tuples
    sure = np.ones(len(tuples))
    uncertain = any(table.confidence is not None for table in graph.kb.tables.values())
    if uncertain and len(tuples) and facts_decide(query, graph.kb):
        found = witnesses(graph.kb, query, tuples)
        one = np.append(_confidences(graph), 1.0)  # the last, number −1, is no fact
        sure[:] = 0
        np.maximum.at(sure, found.answer, one[found.facts].prod(axis=1))
    return _frozen(tuples), hide(graph.kb, query, tuples, seed=seed), _frozen(sure.astype(np.float32))


def _confidences(graph: Graph) -> npt.NDArray[np.float64]:
    """The confidence of every fact, by number."""
    tables = [graph.kb.tables[arity] for arity in graph.fact_offsets]
    return np.concatenate([np.ones(len(t)) if t.confidence is None else t.confidence for t in tables])


def _with_links(graph: Graph, tuples: Ints, hidden: Hidden, sources: Longs) -> Hidden:
    """What is hidden from the source of each tuple, and every fact that has two different objects of the tuple."""
    from gaifman.drawing import frozen  # here: numba takes a quarter of a second to import
    from gaifman.kernels.balls import Adjacency
    from gaifman.kernels.links import linked, room

    adjacency = Adjacency(graph.starts, graph.neighbours, graph.label_starts, graph.facts)
    given = frozen(tuples), frozen(hidden.starts), frozen(sources)
    starts = np.zeros(len(tuples) + 1, np.int64)
    facts = np.empty(room(adjacency, *given), np.int64)
    count = linked(adjacency, given[0], given[1], frozen(hidden.facts), given[2], starts, facts)
    return Hidden(starts, facts[:count])


def _checked_known(graph: Graph, known: npt.ArrayLike, width: int) -> Ints:
    tuples = checked_tuples(graph, known)
    if tuples.shape[1] != width:
        raise KnowledgeError(f"known tuples have {some(width, 'place')} here, not {tuples.shape[1]}")
    return tuples


def _frozen(array: npt.NDArray[_Kind]) -> npt.NDArray[_Kind]:
    array.setflags(write=False)
    return array


def _check_whole(name: str, value: object, least: int) -> None:
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least:
        raise KnowledgeError(f"{name} is a whole number, {least} or more, not {value!r}")

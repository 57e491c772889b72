"""Mine the formulas that lead from a fixed object to the answers at an open position.

>>> import gaifman
>>> from gaifman.listwise.steps import build_steps
>>> mined = mine_formulas(build_steps(gaifman.demo()), "capital", fixed=0, position=1)
>>> best = int(mined.confidence.argmax())
>>> mined.path(best), round(float(mined.confidence[best]), 2)
((Label(relation='largest_city', source=0, target=1),), 0.8)

Answers are sampled, and all simple paths between their objects are found, without the fact itself and without passing
through hubs. Paths that several answers share are kept. Their confidence is the share of reached objects that are
answers, on sampled objects; the most confident paths become formulas. Formulas with constants tell what one known fact
of a fixed object says about one candidate.

A `Reacher` collects what formulas reach from the objects of a question. With a size k, a question has members: its
fixed objects, and at most k others from their neighbourhoods, drawn by Algorithm 1. A walk takes facts whose objects
are all members. Its last step may end at any object, because the candidate is a member of its own neighbourhood. Values
are averaged over the draws.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
import numpy.typing as npt

from gaifman.config import Deadline, SamplingConfig, check_int
from gaifman.errors import InputError
from gaifman.io.model_file import Arrays, require_array
from gaifman.kb.gaifman_graph import graph_of
from gaifman.kb.tables import Floats, Ints, Longs, concatenate_ranges, freeze
from gaifman.kernels.walks import (
    DEPTH,
    END,
    FULL,
    PAUSED,
    UNREACHED,
    WORK,
    Members,
    PathScratch,
    WalkScratch,
    find_paths,
    link,
    match_constants,
    reach,
)
from gaifman.listwise.steps import Label, StepIndex
from gaifman.sampling.hiding import HiddenFacts
from gaifman.sampling.neighbourhoods import draw_neighbourhoods
from gaifman.sampling.rng import fold_in_rows, make_key

Bools = npt.NDArray[np.bool_]
Reals = npt.NDArray[np.float32]

CONFIDENCE_PRIOR = 5.0
"""Objects without an answer that are added to those of each formula: it needs evidence."""
NOTHING = freeze(np.zeros(0, np.int64))
"""No hidden facts."""
LINKS = ("any fact", "a fact with the fixed object first", "a fact with the candidate first")
"""What can link two objects."""
LINK_WALKS = 30
"""A link has the value of this many walks to one object, so that few updates make it count."""
CONSTANT_WALKS = 10
"""A formula with constants has the value of this many walks to its candidate; chosen on validation facts."""
STEPS_PER_CHECK = 1 << 20
"""Steps of walks between two checks of a deadline: some milliseconds."""
MAX_CODE = 2**62
"""Codes of paths are below this number."""
FIRST_SETS = 5
"""A path of one step may reach this many times `max_set` objects: an inverse or duplicate leads from a hub to them."""
MIN_SUPPORT = 3
"""Fixed objects that a formula with constants must be true of; chosen on validation facts."""
COMPARISONS = ("<", "≤", "=", "≥", ">")
"""How a number of the fixed object, on the left, can compare with that of the candidate."""
COMPARE = (np.less, np.less_equal, np.equal, np.greater_equal, np.greater)
COMPARISON_WALKS = 10
"""A comparison has the value of this many walks."""
MIN_COMPARED = 10
"""Answers of which both objects have a number, for a comparison."""
MIN_DEVIATION = 3.0
"""Standard errors by which a comparison must be true of more answers than it would be of independent objects."""
MAX_COMPARED = 2_000
"""Objects with a number: one that more objects have is not compared, since half of them are entries of a question."""
MAX_JOINED = 20_000_000
"""Pairs of a known fact and an answer that are counted: the first ones by fixed object, if there are more."""
VALUE_PARTS = (0.3, 0.5, 1.0)
"""The value of a formula: for holding, times log(count), and times √share; chosen on validation facts."""


@dataclass(frozen=True, slots=True)
class WalkBound:
    """Which neighbourhoods walks keep to."""

    size: int
    """k: the members of a neighbourhood besides the fixed objects."""
    draws: int = 1
    """N: the neighbourhoods of a question."""
    radius: int | None = None
    """r; None for the smallest radius that holds every walk but for its end."""
    seed: int = 0

    def sampling(self, steps: int, max_arity: int) -> SamplingConfig:
        """How the members for paths of this length are drawn.

        All objects of a walk but the last are at most steps − 1 from its start; another object of the last fact, if it
        has more than two, is one further.

        >>> [WalkBound(20).sampling(steps, 2).radius for steps in (1, 2, 3, 5)]
        [1, 1, 2, 4]
        """
        radius = self.radius
        if radius is None:
            radius = max(1, steps - 1 if max_arity <= 2 else steps)
        return SamplingConfig(radius, self.size, self.draws, self.seed, "walk", shared_order=True)


class MemberDrawer:
    """Draws the members of questions, and marks those that walks keep to. One thread uses it at a time.

    >>> import gaifman
    >>> from gaifman.listwise.steps import build_steps
    >>> index = build_steps(gaifman.demo())
    >>> drawer = MemberDrawer(index, WalkBound(size=4, draws=2))
    >>> [len(members) for members in drawer.draw([index.kb.object_id("france")], np.zeros(0, np.int64), steps=2)]
    [5, 5]
    """

    def __init__(self, index: StepIndex, bound: WalkBound | None) -> None:
        self.index, self.bound = index, bound
        long_facts = index.long_facts if bound else (freeze(np.zeros(0, np.int64)), freeze(np.zeros(0, np.int32)))
        count = len(index.kb.objects) if bound else 0
        self.members = Members(np.zeros(count, np.int64), np.zeros(1, np.int64), *long_facts)
        """The members of the last neighbourhood that was marked, for kernels."""

    def draw(self, fixed: Sequence[int], hidden: Longs, steps: int) -> list[Ints]:
        """The members of each draw, ascending; a single one if all are the same. None are drawn without a bound."""
        if self.bound is None or not fixed:
            return []
        sampling = self.bound.sampling(steps, max(self.index.kb.fact_tables, default=2))
        unseen = HiddenFacts(np.array([0, len(hidden)]), np.sort(hidden))
        drawn = draw_neighbourhoods(graph_of(self.index.kb), [list(fixed)], sampling, unseen, threads=1)
        found = [np.sort(drawn.members_of(0, draw)) for draw in range(sampling.draws)]
        return found[:1] if all(np.array_equal(one, found[0]) for one in found) else found

    def mark(self, draws: Sequence[Ints], draw: int) -> None:
        """Let walks keep to the members of one of some draws; without a bound there are none."""
        self.members.number[0] += 1
        if draws:
            self.members.marks[draws[draw]] = self.members.number[0]


@dataclass(frozen=True, slots=True)
class MiningConfig:
    """How paths are mined."""

    max_steps: int = 3
    """Steps of a path."""
    max_degree: int = 2_000
    """Objects with more steps are hubs: paths do not pass through them while they are searched."""
    answers: int = 200
    """Answers whose paths are searched."""
    starts: int = 50
    """Fixed objects on which the confidence is measured."""
    max_formulas: int = 300
    """Paths that are kept."""
    max_constants: int = 1_000
    """Formulas with constants that are kept."""
    max_comparisons: int = 3
    """Comparisons of numbers that are kept."""
    min_support: int = 2
    """Answers that must share a path."""
    budget: int = 100_000
    """Steps looked at for one answer."""
    max_set: int = 4_000
    """A path that reaches more objects at some step is dropped; of one step alone, one that reaches 5 times as many."""
    seed: int = 0

    def __post_init__(self) -> None:
        for name in (
            "max_steps",
            "max_degree",
            "answers",
            "starts",
            "max_formulas",
            "min_support",
            "budget",
            "max_set",
        ):
            check_int(name, getattr(self, name), 1)
        for name in ("max_constants", "max_comparisons"):
            check_int(name, getattr(self, name), 0)


SPARSE_MINING = MiningConfig(max_steps=5, max_degree=200, answers=1_000, max_formulas=1_000)
"""For sparse knowledge bases: WordNet, with 2 facts for each object."""
SPARSE_DEGREE, SPARSE_LABELS = 5, 100
"""Sparse is a knowledge base with at most this mean number of steps out of an object, and this number of labels."""


def choose_mining(index: StepIndex) -> MiningConfig:
    """Long paths where objects have few steps and labels are few; short ones elsewhere, where long ones over-fit.

    >>> import gaifman
    >>> from gaifman.listwise.steps import build_steps
    >>> choose_mining(build_steps(gaifman.demo())).max_steps
    3
    """
    steps = (~index.redundant[index.step_labels]).sum()
    sparse = steps <= SPARSE_DEGREE * (index.degrees > 0).sum() and len(index.labels) <= SPARSE_LABELS
    return SPARSE_MINING if sparse else MiningConfig()


@dataclass(frozen=True, slots=True)
class MinedConstants:
    """Formulas with constants from one fixed position to the open one, sorted by label, constant and candidate."""

    codes: Longs
    """Shape (m,), int64, ascending: label · objects + constant, of the fact that the fixed object must have."""
    candidates: Ints
    """Shape (m,), int32: the object at the open position."""
    support: Longs
    """Shape (m,), int64: fixed objects with the fact and the answer."""
    confidence: Floats
    """Shape (m,), float64: their share of the fixed objects with the fact."""
    objects: int
    """Number of objects of the knowledge base."""

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def labels(self) -> Ints:
        """Shape (m,), int32: the label of the fact, from the fixed object to the constant."""
        return (self.codes // self.objects).astype(np.int32)

    @property
    def constants(self) -> Ints:
        """Shape (m,), int32: objects."""
        return (self.codes % self.objects).astype(np.int32)

    @classmethod
    def none(cls) -> Self:
        """No formulas."""
        none = freeze(np.zeros(0, np.int64))
        return cls(none, freeze(np.zeros(0, np.int32)), none, freeze(np.zeros(0)), 1)

    def arrays(self, index: StepIndex, number: int) -> Arrays:
        """The arrays for a file; `number` is that of the fixed position. Objects are stored by name."""
        used, places = np.unique(np.concatenate([self.constants, self.candidates]), return_inverse=True)
        names = [index.kb.object_name(obj).encode() for obj in used.tolist()]
        return {
            f"constants/{number}/labels": self.labels,
            f"constants/{number}/objects": places.reshape(2, -1).astype(np.int32),
            f"constants/{number}/support": self.support,
            f"constants/{number}/confidence": self.confidence,
            f"constants/{number}/names": np.frombuffer(b"".join(names), np.uint8),
            f"constants/{number}/name_ends": np.cumsum([len(name) for name in names]).astype(np.int64),
        }


@dataclass(frozen=True, slots=True)
class MinedComparisons:
    """Comparisons of a number of the object at the fixed position with that of the candidate, by attribute."""

    attributes: Ints
    """Shape (c,), int32: of `StepIndex.attributes`."""
    operators: Ints
    """Shape (c,), int32: of `COMPARISONS`."""
    support: Longs
    """Shape (c,), int64: answers that it is true of."""
    answers: Longs
    """Shape (c,), int64: answers of which both objects have the number."""
    expected: Floats
    """Shape (c,), float64: the share of these that it would be true of if their objects were independent."""

    def __len__(self) -> int:
        return len(self.attributes)

    @classmethod
    def none(cls) -> Self:
        """No comparisons."""
        none, counts = freeze(np.zeros(0, np.int32)), freeze(np.zeros(0, np.int64))
        return cls(none, none, counts, counts, freeze(np.zeros(0)))

    def arrays(self, number: int) -> Arrays:
        """The arrays for a file, if there are comparisons; `number` is that of the fixed position."""
        key = f"comparisons/{number}"
        found: Arrays = {
            f"{key}/formulas": np.stack([self.attributes, self.operators], axis=1),
            f"{key}/support": np.stack([self.support, self.answers], axis=1),
            f"{key}/expected": self.expected,
        }
        return found if len(self) else {}


def comparisons_from_arrays(arrays: Arrays, number: int, attributes: int) -> MinedComparisons:
    """The comparisons of arrays, in which there is a number of attributes."""
    key = f"comparisons/{number}"
    if f"{key}/formulas" not in arrays:
        return MinedComparisons.none()
    formulas = require_array(arrays, f"{key}/formulas", np.int32, (None, 2))
    support = require_array(arrays, f"{key}/support", np.int64, (len(formulas), 2))
    expected = require_array(arrays, f"{key}/expected", np.float64, (len(formulas),))
    if (formulas < 0).any() or (formulas >= [attributes, len(COMPARISONS)]).any():
        raise InputError(f"the array '{key}/formulas' has an attribute or comparison that there is not")
    columns = (*formulas.T.copy(), *support.T.copy(), expected)
    return MinedComparisons(*map(freeze, columns))


@dataclass(frozen=True, slots=True)
class MinedFormulas:
    """The formulas that lead from one fixed position to the open one.

    They are numbered: the paths, sorted as a trie; then `LINKS`; then the formulas with constants, and comparisons.
    """

    labels: tuple[Label, ...]
    """The labels of the knowledge base."""
    paths: Ints
    """Shape (p, steps), int32: labels, padded with −1; rows ascend, so that common prefixes are adjacent."""
    support: Longs
    """Shape (p,), int64: sampled answers that a path leads to."""
    confidence: Floats
    """Shape (p,), float64: share of reached objects that are answers."""
    constants: MinedConstants = field(default_factory=MinedConstants.none)
    comparisons: MinedComparisons = field(default_factory=MinedComparisons.none)

    def __len__(self) -> int:
        return self.first_comparison + len(self.comparisons)

    @property
    def first_constant(self) -> int:
        """The number of the first formula with constants."""
        return len(self.paths) + len(LINKS)

    @property
    def first_comparison(self) -> int:
        """The number of the first comparison."""
        return self.first_constant + len(self.constants)

    @property
    def direct(self) -> Bools:
        """Shape (formulas,): which formulas say that a fact has both objects."""
        found = np.zeros(len(self), bool)
        found[: len(self.paths)] = (self.paths >= 0).sum(axis=1) == 1
        found[len(self.paths) : self.first_constant] = True
        found[self.first_constant : self.first_comparison] = self.constants.constants == self.constants.candidates
        return found

    def without_constants(self) -> tuple[Self, Bools]:
        """The other formulas, and which ones these are: (formulas,), bool."""
        numbers = np.arange(len(self))
        kept = (numbers < self.first_constant) | (numbers >= self.first_comparison)
        return replace(self, constants=MinedConstants.none()), kept

    def without_comparisons(self) -> tuple[Self, Bools]:
        """The other formulas, and which ones these are: (formulas,), bool."""
        return replace(self, comparisons=MinedComparisons.none()), np.arange(len(self)) < self.first_comparison

    def path(self, row: int) -> tuple[Label, ...]:
        """The labels of a path."""
        return tuple(self.labels[label] for label in self.paths[row].tolist() if label >= 0)


class Reacher:
    """Collects what paths reach. One thread uses it at a time."""

    def __init__(self, index: StepIndex, max_steps: int, max_set: int, bound: WalkBound | None = None) -> None:
        self.index, self.drawer = index, MemberDrawer(index, bound)
        self.max_set, self.max_first = max_set, FIRST_SETS * max_set
        self._scratch = self._make_scratch(max_steps)
        self._absent = np.empty(len(index.kb.objects) if len(index.table.chances) else 0)
        self.objects, self.formulas = np.empty(1 << 16, np.int32), np.empty(1 << 16, np.int32)
        self.counts, self.masses = np.empty(1 << 16, np.float32), np.empty(1 << 16, np.float32)
        self.values = np.empty(1 << 16, np.float32)
        """The values of formulas, which `store_values` sets."""
        self.end, self.steps = 0, 0
        """The number of entries, and of steps that were looked at."""
        self.deadline: Deadline | None = None
        """Stops walks; it is checked after `STEPS_PER_CHECK` steps."""

    def _make_scratch(self, max_steps: int) -> WalkScratch:
        objects = len(self.index.kb.objects)
        shape = max_steps, min(max(self.max_set, self.max_first), objects)
        return WalkScratch(
            np.zeros(objects, np.int64),
            np.zeros(objects, np.int32),
            np.empty(shape, np.int32),
            np.empty(shape),
            np.empty(shape),
            np.zeros(max_steps, np.int64),
            np.zeros(1, np.int64),
            np.zeros(7, np.int64),
        )

    def clear(self) -> None:
        """Forget all entries."""
        self.end = 0

    def walk(self, start: int, hidden: Longs, paths: Ints, first: int = 0) -> int:
        """Append the objects that paths reach from an object; return the number of all entries.

        Steps by the hidden facts (h,) are not taken. The formula of the first path has the number `first`.
        """
        if paths.shape[1] > len(self._scratch.sizes):
            self._scratch = self._make_scratch(paths.shape[1])
        state = self._scratch.state
        state[:] = 0
        state[DEPTH], state[END] = -1, self.end
        status = PAUSED
        while status in (PAUSED, FULL):
            self._check_deadline()
            status = reach(
                self.index.table,
                self.drawer.members,
                start,
                hidden,
                paths,
                first,
                self.max_set,
                self.max_first,
                STEPS_PER_CHECK,
                self._scratch,
                self.objects,
                self.formulas,
                self.counts,
                self.masses,
            )
            self.steps += STEPS_PER_CHECK - int(state[WORK])
            self.end = int(state[END])
            if status == FULL:
                self._grow()
        return self.end

    def _check_deadline(self) -> None:
        if self.deadline is not None:
            self.deadline.check()

    def link(self, start: int, hidden: Longs, first: int) -> int:
        """Append the objects that share a visible fact with an object: of any kind, and by the order of the two.

        The formulas are numbered from `first`, in the order of `LINKS`.
        """
        for number, kinds in enumerate(self.index.link_kinds):
            self._link(start, hidden, kinds, first + number)
        return self.end

    def _link(self, start: int, hidden: Longs, kinds: Bools, formula: int) -> None:
        end = FULL
        while end == FULL:
            self._check_deadline()
            end = link(
                self.index.table,
                self.drawer.members,
                self.index.step_labels,
                kinds,
                start,
                hidden,
                LINK_WALKS,
                formula,
                self.end,
                self._scratch,
                self._absent,
                self.objects,
                self.formulas,
                self.counts,
                self.masses,
            )
            if end == FULL:
                self._grow()
        self.end = int(end)

    def compare(self, start: int, comparisons: MinedComparisons, first: int) -> int:
        """Append the candidates whose numbers compare with those of an object; formulas are numbered from `first`."""
        pairs = zip(comparisons.attributes.tolist(), comparisons.operators.tolist(), strict=True)
        for number, (attribute, operator) in enumerate(pairs):
            self._check_deadline()
            objects, values = self.index.values[attribute]
            row = int(np.searchsorted(objects, start))
            if row < len(objects) and objects[row] == start:
                self._add(objects[COMPARE[operator](values[row], values)], COMPARISON_WALKS, 0.0, first + number)
        return self.end

    def match(self, start: int, hidden: Longs, constants: MinedConstants, first: int) -> int:
        """Append the candidates of the formulas with constants that are true of an object."""
        while True:
            self._check_deadline()
            end = match_constants(
                self.index.table,
                self.drawer.members,
                start,
                hidden,
                constants.codes,
                constants.candidates,
                len(self.index.kb.objects),
                first,
                CONSTANT_WALKS,
                self.end,
                self.objects,
                self.formulas,
                self.counts,
                self.masses,
            )
            if end != FULL:
                self.end = int(end)
                return self.end
            self._grow()

    def _add(self, objects: Ints, counts: Reals | float, masses: Reals | float, formula: int) -> None:
        """Append objects that a formula reaches by these numbers and shares of walks."""
        while self.end + len(objects) > len(self.objects):
            self._grow()
        added = slice(self.end, self.end + len(objects))
        self.objects[added], self.formulas[added] = objects, formula
        self.counts[added], self.masses[added] = counts, masses
        self.end = added.stop

    def store_values(self, begin: int, values: Reals, draws: int = 1) -> None:
        """Set the values of the entries from `begin` on, or their means over draws, and those of their counts.

        Means are sorted by formula and object.
        """
        entries = slice(begin, self.end)
        if draws == 1:
            self.values[entries] = values
            return
        width = len(self.index.kb.objects)
        keys = self.formulas[entries].astype(np.int64) * width + self.objects[entries]
        found, owners = np.unique(keys, return_inverse=True)
        self.end = begin + len(found)
        for array, numbers in ((self.values, values), (self.counts, self.counts[entries])):
            array[begin : self.end] = np.bincount(owners, numbers, len(found)) / draws
        self.formulas[begin : self.end], self.objects[begin : self.end] = found // width, found % width

    def append(self, objects: Ints, formulas: Ints, values: Reals) -> None:
        """Append entries of other formulas, whose values are known."""
        while self.end + len(objects) > len(self.objects):
            self._grow()
        added = slice(self.end, self.end + len(objects))
        self.objects[added], self.formulas[added], self.values[added] = objects, formulas, values
        self.end = added.stop

    def _grow(self) -> None:
        for name in ("objects", "formulas", "counts", "masses", "values"):
            array = getattr(self, name)
            larger = np.empty(2 * len(array), array.dtype)
            larger[: self.end] = array[: self.end]
            setattr(self, name, larger)


def mine_formulas(
    index: StepIndex,
    relation: str,
    fixed: int,
    position: int,
    config: MiningConfig | None = None,
    held_out: Longs | None = None,
) -> MinedFormulas:
    """The formulas that lead from the object at the fixed position of a relation's facts to that at the open position.

    Held-out facts do not count for formulas with constants and comparisons, of which some fit by chance.
    """
    config = config or MiningConfig()
    facts = index.kb.tuples(relation)
    ids = index.kb.fact_ids(index.kb.content.relations.find(relation) or 0, facts)
    sampled = _smallest_keys(facts, config.answers, config.seed, "mine paths")
    steps = _steps_that_fit(len(index.labels) + 1, config.max_steps)
    pairs = facts[sampled][:, [fixed, position]]
    codes, support = _shared_codes(index, pairs, freeze(ids[sampled]), steps, config)
    order = np.lexsort((codes, -support, codes >= len(index.labels) + 1))[: 5 * config.max_formulas]
    paths = _decode(codes[order], len(index.labels) + 1, config.max_steps)
    sort = np.lexsort(paths.T[::-1])
    paths, support = freeze(paths[sort]), support[order][sort]
    confidence = _confidences(index, paths, facts[:, [fixed, position]], config)
    is_long = (paths >= 0).sum(axis=1) > 1  # what links the objects is kept: nothing else makes up for it
    best = np.sort(np.lexsort((np.arange(len(paths)), -confidence, is_long))[: config.max_formulas])
    constants = mine_constants(index, relation, fixed, position, config.max_constants, held_out)
    comparisons = mine_comparisons(index, relation, fixed, position, config.max_comparisons, held_out)
    mined = freeze(paths[best]), freeze(support[best]), freeze(confidence[best])
    return MinedFormulas(index.labels, *mined, constants, comparisons)


def _smallest_keys(rows: Ints, count: int, seed: int, purpose: str) -> Longs:
    """A random choice of rows, ascending; it depends on their objects alone."""
    if len(rows) <= count:
        return np.arange(len(rows))
    chosen: Longs = np.sort(np.argsort(fold_in_rows(make_key(seed, purpose), rows), kind="stable")[:count])
    return chosen


def _steps_that_fit(base: int, max_steps: int) -> int:
    """The largest number of steps whose codes fit into 62 bits."""
    steps = max_steps
    while steps > 1 and base**steps >= MAX_CODE:
        steps -= 1
    return steps


def _shared_codes(
    index: StepIndex, pairs: Ints, hidden: Longs, steps: int, config: MiningConfig
) -> tuple[Longs, Longs]:
    """The codes of paths that enough pairs share, ascending, and the number of these pairs."""
    objects = len(index.kb.objects)
    scratch = PathScratch(
        np.zeros(objects, np.uint8),
        np.full(objects, UNREACHED, np.int8),
        np.empty(objects, np.int32),
        np.zeros((4, steps + 1), np.int64),
    )
    buffer, found = np.empty(config.budget, np.int64), [np.zeros(0, np.int64)]
    base = len(index.labels) + 1
    for row, (start, end) in enumerate(pairs.tolist()):
        count = find_paths(
            index.table,
            start,
            end,
            hidden[row : row + 1],
            base,
            steps,
            config.max_degree,
            config.budget,
            index.step_labels,
            index.redundant,
            scratch,
            buffer,
            0,
        )
        found.append(np.unique(buffer[:count]))
    codes, support = np.unique(np.concatenate(found), return_counts=True)
    shared = support >= config.min_support
    return codes[shared], support[shared].astype(np.int64)


def _decode(codes: Longs, base: int, steps: int) -> Ints:
    """Shape (codes, steps), int32: the labels of each code, padded with −1."""
    paths = np.full((len(codes), steps), -1, np.int32)
    for row, code in enumerate(codes.tolist()):
        labels, rest = [], code
        while rest:
            rest, last = divmod(rest, base)
            labels.append(last - 1)
        paths[row, : len(labels)] = labels[::-1]
    return paths


def _confidences(index: StepIndex, paths: Ints, pairs: Ints, config: MiningConfig) -> Floats:
    """For each path the share of reached objects that are answers, on a sample of fixed objects."""
    reacher, starts = Reacher(index, paths.shape[1], config.max_set), np.unique(pairs[:, 0])
    reached, hits = np.zeros(len(paths)), np.zeros(len(paths))
    for start in starts[_smallest_keys(starts[:, None], config.starts, config.seed, "mine starts")].tolist():
        reacher.clear()
        end = reacher.walk(start, NOTHING, paths)
        answers = pairs[pairs[:, 0] == start, 1]
        formulas = reacher.formulas[:end]
        reached += np.bincount(formulas, minlength=len(paths))
        hits += np.bincount(formulas[np.isin(reacher.objects[:end], answers)], minlength=len(paths))
    return hits / (reached + CONFIDENCE_PRIOR)


def formula_values(counts: Reals | Floats, shares: Reals | Floats) -> Reals:
    """The values of formulas by the number of their groundings, and by the share of random walks that end there.

    The count alone favours what is reached through hubs, the share alone what has few rivals.
    """
    at_all, by_count, by_share = VALUE_PARTS
    found = at_all * np.minimum(counts, 1) + by_count * np.log(np.maximum(counts, 1)) + by_share * np.sqrt(shares)
    values: Reals = found.astype(np.float32)
    return values


def own_values(counts: Floats) -> Reals:
    """The values of formulas about the candidate alone: 1 for holding, and more for a count."""
    found = np.minimum(counts, 1) + VALUE_PARTS[1] * np.log(np.maximum(counts, 1))
    values: Reals = found.astype(np.float32)
    return values


def constants_from_arrays(arrays: Arrays, number: int, labels: Ints, index: StepIndex) -> tuple[MinedConstants, Longs]:
    """The formulas of arrays, and the rows they come from; those with objects that are not there are left out.

    `labels` has for each label of the arrays its number in the index, or −1.
    """
    key = f"constants/{number}"
    own = require_array(arrays, f"{key}/labels", np.int32, (None,))
    places = require_array(arrays, f"{key}/objects", np.int32, (2, len(own)))
    support = require_array(arrays, f"{key}/support", np.int64, (len(own),))
    confidence = require_array(arrays, f"{key}/confidence", np.float64, (len(own),))
    objects = _find_objects(arrays, key, index)
    for name, numbers, end in (("labels", own, len(labels)), ("objects", places, len(objects))):
        if numbers.size and (numbers.min() < 0 or numbers.max() >= end):
            raise InputError(f"the array '{key}/{name}' has numbers outside of 0 to {end - 1}")
    label, constant, candidate = labels[own], objects[places[0]], objects[places[1]]
    rows = np.flatnonzero((label >= 0) & (constant >= 0) & (candidate >= 0))
    order: Longs = rows[np.lexsort((candidate[rows], constant[rows], label[rows]))]
    codes = label[order] * np.int64(len(index.kb.objects)) + constant[order]
    columns = freeze(codes), freeze(candidate[order]), freeze(support[order]), freeze(confidence[order])
    return MinedConstants(*columns, len(index.kb.objects)), order


def _find_objects(arrays: Arrays, key: str, index: StepIndex) -> Ints:
    """The number of each named object; −1 for those that the knowledge base does not have."""
    text = require_array(arrays, f"{key}/names", np.uint8, (None,)).tobytes()
    ends = require_array(arrays, f"{key}/name_ends", np.int64, (None,))
    bounds = np.append(0, ends)
    if (np.diff(bounds) < 0).any() or bounds[-1] != len(text):
        raise InputError(f"the array '{key}/name_ends' does not fit the names")
    try:
        names = [text[begin:end].decode() for begin, end in zip(bounds[:-1].tolist(), ends.tolist(), strict=True)]
    except UnicodeDecodeError as error:
        raise InputError(f"the array '{key}/names' is not UTF-8") from error
    found = [index.kb.objects.find(name) for name in names]
    return np.array([-1 if number is None else number for number in found], np.int32)


def mine_constants(
    index: StepIndex, relation: str, fixed: int, position: int, max_formulas: int, left_out: Longs | None = None
) -> MinedConstants:
    """The formulas with constants from the object at the fixed position to the one at the open position.

    >>> import gaifman
    >>> from gaifman.listwise.steps import build_steps
    >>> index = build_steps(gaifman.demo())
    >>> mined = mine_constants(index, "official_language", fixed=0, position=1, max_formulas=2)
    >>> for label, constant, candidate in zip(mined.labels, mined.constants, mined.candidates):
    ...     print(index.describe(label), *map(index.kb.object_name, (constant, candidate)))
    member_of 1→2 arab_league arabic
    member_of 1→2 commonwealth_of_nations english

    The first is `member_of(s1, 'arab_league') ∧ s2 = 'arabic'`. Its support is the number of fixed objects that make
    it true together with an answer; its confidence is the share of these among all fixed objects with the fact.
    Formulas that raise the share of the candidate most, over all their fixed objects, are kept. Rows of the relation's
    facts that are left out are not counted: they are held out.
    """
    pairs = _distinct_pairs(index, relation, fixed, position, left_out)
    if not len(pairs) or not max_formulas:
        return MinedConstants.none()
    starts, codes = _known_facts(index, np.unique(pairs[:, 0]))
    objects = len(index.kb.objects)
    used, numbers, holders = np.unique(codes, return_inverse=True, return_counts=True)
    keep = holders[numbers] >= MIN_SUPPORT
    starts, numbers = starts[keep], numbers[keep]
    begins, ends = np.searchsorted(pairs[:, 0], starts), np.searchsorted(pairs[:, 0], starts, side="right")
    some = np.cumsum(ends - begins) <= MAX_JOINED
    begins, ends, numbers = begins[some], ends[some], numbers[some]
    answers = pairs[concatenate_ranges(begins, ends), 1]
    joined = np.repeat(numbers, ends - begins)
    other = used[joined] % objects != answers  # the fact itself says nothing
    found, support = np.unique(joined[other] * np.int64(objects) + answers[other], return_counts=True)
    found, support = found[support >= MIN_SUPPORT], support[support >= MIN_SUPPORT]
    number, candidate = np.divmod(found, objects)
    confidence = support / (holders[number] + CONFIDENCE_PRIOR)
    usual = np.bincount(pairs[:, 1], minlength=objects)[candidate] / len(np.unique(pairs[:, 0]))
    gain = support * np.log(confidence / usual)
    best = np.lexsort((found, -gain))[:max_formulas]
    best = np.sort(best[gain[best] > 0])
    return MinedConstants(
        freeze(used[number[best]].astype(np.int64)),
        freeze(candidate[best].astype(np.int32)),
        freeze(support[best].astype(np.int64)),
        freeze(confidence[best]),
        objects,
    )


def _known_facts(index: StepIndex, objects: Longs) -> tuple[Longs, Longs]:
    """What some objects are linked to: each of them with a label and a target, as label · objects + target, once."""
    table, count = index.table, len(index.kb.objects)
    bounds = table.group_starts[table.starts]
    steps = concatenate_ranges(bounds[objects], bounds[objects + 1])
    owners = np.repeat(np.arange(len(objects)), bounds[objects + 1] - bounds[objects])
    codes = index.step_labels[steps] * np.int64(count) + table.targets[steps]
    used, numbers = np.unique(codes, return_inverse=True)
    distinct = np.unique(owners * np.int64(len(used)) + numbers)
    owner, number = np.divmod(distinct, max(len(used), 1))
    return objects[owner], used[number]


def _distinct_pairs(index: StepIndex, relation: str, fixed: int, position: int, left_out: Longs | None) -> Longs:
    """Shape (pairs, 2), int64: the objects at two positions of a relation's facts, without rows that are left out."""
    pairs = index.kb.tuples(relation)[:, [fixed, position]].astype(np.int64)
    if left_out is not None:
        pairs = np.delete(pairs, left_out, axis=0)
    found: Longs = np.unique(pairs, axis=0)
    return found


def mine_comparisons(
    index: StepIndex, relation: str, fixed: int, position: int, max_formulas: int, left_out: Longs | None = None
) -> MinedComparisons:
    """The comparisons of a number of the fixed object with that of the candidate that are true of many answers.

    >>> from gaifman.kb.knowledge_base import KnowledgeBase
    >>> from gaifman.listwise.steps import build_steps
    >>> years = {("year", f"edition{i}"): 1900 + i for i in range(21)}
    >>> facts = [("replaced", f"edition{i + 1}", f"edition{i}") for i in range(20)]
    >>> index = build_steps(KnowledgeBase.from_facts(facts, years))
    >>> mined = mine_comparisons(index, "replaced", fixed=0, position=1, max_formulas=3)
    >>> [COMPARISONS[operator] for operator in mined.operators], mined.support, mined.expected.round(2)
    (['>'], array([20]), array([0.55]))

    A comparison is kept if it is true of more answers than would be expected, by `MIN_DEVIATION` standard errors, if
    the objects at the open position were the same but independent of the fixed object. Answers of one fixed object are
    not independent: the error is at least that of their sums. At most one of < and ≤, and of > and ≥, is kept. Rows of
    the relation's facts that are left out are not counted: they are held out.
    """
    if not index.attributes or not max_formulas:
        return MinedComparisons.none()
    pairs = _distinct_pairs(index, relation, fixed, position, left_out)
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    found = [
        (-deviation, attribute, operator, *figures)
        for attribute, (objects, values) in enumerate(index.values)
        if len(objects) <= MAX_COMPARED
        for operator, deviation, *figures in _compare_answers(pairs, objects, values)
    ]
    best = sorted(row[1:] for row in sorted(found)[:max_formulas])
    if not best:
        return MinedComparisons.none()
    attributes, operators, support, answers, expected = (np.array(column) for column in zip(*best, strict=True))
    return MinedComparisons(
        freeze(attributes.astype(np.int32)),
        freeze(operators.astype(np.int32)),
        freeze(support.astype(np.int64)),
        freeze(answers.astype(np.int64)),
        freeze(expected),
    )


def _compare_answers(pairs: Longs, objects: Ints, values: Floats) -> list[tuple[int, float, int, int, float]]:
    """The comparisons of one attribute that are kept: operator, deviation, support, answers and expected share."""
    rows = np.searchsorted(objects, pairs)
    known = (np.append(objects, -1)[rows] == pairs).all(axis=1)
    pairs, numbers = pairs[known], np.append(values, np.nan)[rows[known]]
    count = len(pairs)
    if count < MIN_COMPARED:
        return []
    ordered, groups = np.sort(numbers[:, 1]), np.unique(pairs[:, 0], return_inverse=True)[1]
    below, up_to = (np.searchsorted(ordered, numbers[:, 0], side=side) for side in ("left", "right"))
    own = np.searchsorted(np.sort(pairs[:, 1]), pairs[:, 0], side="right")
    own -= np.searchsorted(np.sort(pairs[:, 1]), pairs[:, 0])  # answers with the fixed object as candidate
    found = []
    for operator, at_all in enumerate((count - up_to, count - below - own, up_to - below - own, up_to - own, below)):
        true = COMPARE[operator](numbers[:, 0], numbers[:, 1])
        expected = at_all / np.maximum(count - own, 1)
        surplus = true - expected
        variance = max((expected * (1 - expected)).sum(), (np.bincount(groups, surplus) ** 2).sum())
        deviation = float(surplus.sum() / np.sqrt(variance)) if variance > 0 else 0.0
        found.append((operator, deviation, int(true.sum()), count, float(expected.mean())))
    strict_first = (found[0], found[1]), (found[4], found[3]), (found[2],)
    best = [max(some, key=lambda one: one[1]) for some in strict_first]
    return [one for one in best if one[1] >= MIN_DEVIATION]

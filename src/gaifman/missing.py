"""Missing facts: what a model finds probable and its knowledge base does not have.

>>> import gaifman
>>> kb = gaifman.demo()
>>> visible = kb.without_facts([*kb.facts("located_in")][::10])
>>> found = gaifman.complete(visible, ["located_in"], seed=1).missing(above=0.9)
>>> found[0].relation, found[0].probability > 0.9
('located_in', True)

Every tuple of a relation that is not known is a candidate, if its objects can be at their positions (see
`listwise.proposer`). All candidates that can reach the threshold are scored, and no others: an object's share among the
candidates of one question bounds the probability.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, overload

import numpy as np

from gaifman._html import bar, muted, paragraph, stack, table
from gaifman._tables import Columns, TableResult
from gaifman.config import (
    Deadline,
    ProgressCallback,
    check_fraction,
    check_int,
    check_threads,
    checked_methods,
    no_deadline,
)
from gaifman.errors import KnowledgeBaseError, escape_unprintable, plural
from gaifman.explain.explanation import MAX_REASON_FACTS, linking_facts
from gaifman.explain.ranking import best_reason
from gaifman.io.files import atomic_write
from gaifman.io.model_file import Arrays
from gaifman.io.results import FACT_FORMATS, result_format, write_blocks, write_facts
from gaifman.kb.knowledge_base import Fact, format_name
from gaifman.kb.labels import NOTHING, Labels, chosen_labels, label_fact, label_names
from gaifman.kb.tables import Floats, Ints
from gaifman.listwise.proposer import Proposer
from gaifman.listwise.scoring import ListwisePredictor
from gaifman.predict import Predictor, format_probability
from gaifman.sampling.constraints import Conflict, hide_nothing
from gaifman.threads import map_threaded

DEFAULT_THRESHOLD = 0.5
PROBABILITY_DIGITS = 6
"""Of facts that are as uncertain as their probabilities."""
BLOCK_SIZE = 10_000
"""Facts that are written together."""
MAX_PRINTED = 20
"""Facts that are printed."""


class BestReason(NamedTuple):
    """The formula that speaks most for a fact."""

    formula: str
    """The formula with the names of the objects; empty if no formula with facts raises the probability."""
    facts: tuple[Fact, ...]
    """The facts that make it true; if they are many, those that link the objects."""
    labelled: str = ""
    """The formula with labels for the objects; empty if the knowledge base has no labels."""

    @property
    def shown(self) -> str:
        """The formula as it is shown: with labels for the objects that have one."""
        return self.labelled or self.formula


@dataclass(frozen=True, slots=True)
class MissingFact:
    """A fact that is probable and not known.

    >>> print(MissingFact("capital", ("peru", "lima"), 0.93, 1))
    0.930  capital(peru, lima)
    """

    relation: str
    """Its relation."""
    objects: tuple[str, ...]
    """Its objects."""
    probability: float
    """What `probability` returns for it."""
    rank: int
    """Its place among the missing facts of its relation, from 1."""
    conflicts: tuple[Conflict, ...] = ()
    """The constraints that make it less probable."""
    reason: BestReason | None = None
    """What speaks most for it; None if it was not asked for."""
    labels: Labels = field(default_factory=dict, repr=False)
    """Object → how it is shown, for the objects here that have a label."""

    @property
    def fact(self) -> Fact:
        """The fact, as uncertain as its probability."""
        return Fact(self.relation, self.objects, round(self.probability, PROBABILITY_DIGITS))

    @property
    def statement(self) -> str:
        """The fact without its probability, with labels: `capital(peru, lima)`."""
        return _texts([Fact(self.relation, self.objects)], self.labels)

    @property
    def note(self) -> str:
        """The facts behind it, and its conflicts."""
        because = [_texts(self.reason.facts, self.labels)] if self.reason and self.reason.facts else []
        return "; ".join([*because, *(escape_unprintable(conflict.message) for conflict in self.conflicts)])

    def __str__(self) -> str:
        return "  ".join(part for part in (format_probability(self.probability), self.statement, self.note) if part)

    def as_dict(self) -> dict[str, Any]:
        """The fact as JSON types."""
        found: dict[str, Any] = {
            "relation": self.relation,
            "objects": list(self.objects),
            "probability": self.probability,
            "rank": self.rank,
            "conflicts": [conflict.as_dict() for conflict in self.conflicts],
        }
        if self.reason is not None:
            found["reason"] = self.reason.formula
            found["facts"] = [str(fact) for fact in self.reason.facts]
            if self.reason.labelled:
                found["reason_labels"] = self.reason.labelled
        return found | ({"labels": dict(self.labels)} if self.labels else {})


@dataclass(frozen=True, slots=True)
class MissingSummary:
    """What was looked at, and what to expect of it."""

    above: float
    """The threshold."""
    relations: int
    """The relations whose facts were proposed."""
    candidates: int
    """Tuples that are not known, of objects that can be at their positions."""
    found: int
    """Those that reach the threshold."""
    expected: float
    """The sum of their probabilities: how many of them are expected to be true."""
    of_other_objects: int = 0
    """Tuples that are not known and were not considered: an object was never seen at its position, nor has a type of
    such objects."""
    rejected: int = 0
    """Known negatives, which are never proposed."""
    skipped: tuple[str, ...] = ()
    """Relations that were not considered: they have no ranked lists."""
    of_known_pairs: bool = False
    """Whether there are relations of more than two positions: only objects that stand together in a known fact are
    combined."""
    held_out_true: float | None = None
    """The share of what was proposed in training with such a probability that was true, by held-out facts."""

    def lines(self) -> Iterator[str]:
        """The summary in words."""
        yield f"Of {plural(self.found, 'proposed fact')}, about {round(self.expected):,} are expected to be true."
        if self.held_out_true is not None:
            share = f"{100 * self.held_out_true:.0f} %"
            yield f"Of held-out facts and other tuples with probabilities as high, {share} were true."
        yield (
            f"Considered: {self.candidates:,} tuples of {plural(self.relations, 'relation')}, of objects seen at each "
            f"position or of its type; all with a probability of {self.above:g} or more are listed."
        )
        if self.of_other_objects:
            yield f"Not considered: {self.of_other_objects:,} tuples with other objects."
        if self.rejected:
            yield f"Left out: {plural(self.rejected, 'fact')} that a review rejected."
        if self.of_known_pairs:
            yield "Of relations with more positions than two, only known combinations with one other object."
        if self.skipped:
            names = ", ".join(format_name(name) for name in self.skipped[:5])
            more = f" and {len(self.skipped) - 5:,} more" if len(self.skipped) > 5 else ""
            yield f"Not considered, because they have no trained ranked list: {names}{more}."

    def as_dict(self) -> dict[str, Any]:
        """The summary as JSON types."""
        return {
            "above": self.above,
            "relations": self.relations,
            "candidates": self.candidates,
            "found": self.found,
            "expected_true": round(self.expected, 3),
            "held_out_true": self.held_out_true,
            "of_other_objects": self.of_other_objects,
            "rejected": self.rejected,
            "not_considered": list(self.skipped),
            "known_combinations_only": self.of_known_pairs,
        }


class Proposals(NamedTuple):
    """What is proposed of one relation, the most probable first."""

    tuples: Ints
    """Shape (n, arity), int32."""
    probabilities: Floats
    """Shape (n,), float64."""
    candidates: int
    """How many tuples were considered."""

    def arrays(self) -> Arrays:
        """The arrays for a file."""
        return {
            "tuples": self.tuples,
            "probabilities": self.probabilities,
            "candidates": np.array([self.candidates], np.int64),
        }

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Proposals:
        """What `arrays` returned."""
        return cls(arrays["tuples"], arrays["probabilities"], int(arrays["candidates"][0]))


class ProposalStore:
    """Keeps what was proposed of each relation; this one keeps nothing."""

    def load(self, relation: str) -> Proposals | None:
        """What was proposed before, or None."""
        return None

    def save(self, relation: str, found: Proposals) -> None:
        """Keep what is proposed."""


@checked_methods
@dataclass(frozen=True, slots=True, eq=False)
class MissingFacts(TableResult):
    """Missing facts, the most probable first. Iterate over them, index them, or print them."""

    predictors: Mapping[str, Predictor] = field(repr=False)
    """Relation → its predictor."""
    proposals: Mapping[str, Proposals] = field(repr=False)
    """Relation → what is proposed."""
    order: tuple[tuple[str, int], ...] = field(repr=False)
    """The relation and the row of each fact."""
    summary: MissingSummary
    """What was looked at."""
    reasons: Mapping[tuple[str, int], BestReason] = field(default_factory=dict, repr=False)
    """The reason for each fact, if reasons were asked for."""
    model_name: str = ""
    """The name of the model's file, for a column of the table; empty if it is not known."""

    def __len__(self) -> int:
        return len(self.order)

    @overload
    def __getitem__(self, row: int) -> MissingFact: ...

    @overload
    def __getitem__(self, row: slice) -> list[MissingFact]: ...

    def __getitem__(self, row: int | slice) -> MissingFact | list[MissingFact]:
        if isinstance(row, slice):
            return [self._fact(*each) for each in self.order[row]]
        if not -len(self) <= row < len(self):
            raise IndexError(f"there are {plural(len(self), 'missing fact')}")
        return self._fact(*self.order[row])

    def __iter__(self) -> Iterator[MissingFact]:
        return (self._fact(*each) for each in self.order)

    def _fact(self, relation: str, row: int) -> MissingFact:
        predictor, (tuples, probabilities, _) = self.predictors[relation], self.proposals[relation]
        own = tuples[row : row + 1]
        names = tuple(predictor.kb.object_name(number) for number in own[0].tolist())
        conflicts = predictor.conflicts(own, hide_nothing(1))
        reason = self.reasons.get((relation, row))
        named = [fact for conflict in conflicts for fact in conflict.facts] + list(reason.facts if reason else ())
        labels = chosen_labels([*names, *(name for fact in named for name in fact.objects)], predictor.kb.display)
        return MissingFact(relation, names, float(probabilities[row]), row + 1, conflicts, reason, labels)

    @property
    def expected(self) -> float:
        """How many of them are expected to be true."""
        return sum(float(self.proposals[relation].probabilities[row]) for relation, row in self.order)

    def columns(self) -> Columns:
        """Relation and objects as in a table of facts, then probability, rank and conflicts, and the best reason."""
        return self._columns(list(self))

    def _columns(self, facts: Sequence[MissingFact]) -> Columns:
        arities = {self.proposals[relation].tuples.shape[1] for relation, _ in self.order}
        found = columns_of(facts, arities or {2}, bool(self.reasons), labels=self._has_labels)
        return found | ({"model": [self.model_name] * len(facts)} if self.model_name else {})

    @property
    def _has_labels(self) -> bool:
        return any(predictor.kb.labels for predictor in self.predictors.values())

    def blocks(self) -> Iterator[Columns]:
        """The columns of some facts after the other; at least once."""
        for start in range(0, max(len(self), 1), BLOCK_SIZE):
            yield self._columns(self[start : start + BLOCK_SIZE])

    def save(self, path: str | Path) -> None:
        """Write all to a file: .csv, .tsv, .jsonl, .parquet, .facts or .nt; text also with .gz."""
        file_format = result_format(path)
        with atomic_write(Path(path)) as temporary:
            write_missing(self, temporary, file_format, compressed=str(path).endswith(".gz"))

    def _named_facts(self, file_format: str) -> Iterator[Fact]:
        """The facts; for RDF with whole IRIs in place of prefixes."""
        for one in self:
            iri = self.predictors[one.relation].kb.iri if file_format == "nt" else str
            yield Fact(iri(one.relation), tuple(map(iri, one.objects)), one.fact.confidence)

    def __repr__(self) -> str:
        return f"<MissingFacts: {len(self):,} with a probability of {self.summary.above:g} or more>"

    def __str__(self) -> str:
        rest = len(self) - MAX_PRINTED
        more = [f"… and {rest:,} more"] if rest > 0 else []
        return "\n".join([*map(str, islice(self, MAX_PRINTED)), *more, *self.summary.lines()])

    def _repr_html_(self) -> str:
        rows = [
            (f"{one.statement}.", bar(one.probability, format_probability(one.probability)))
            for one in islice(self, MAX_PRINTED)
        ]
        notes = [paragraph(muted(line)) for line in self.summary.lines()]
        return stack(table(("fact", "probability"), rows), *notes)

    def as_dict(self) -> dict[str, Any]:
        """The facts and the summary as JSON types."""
        return {**self.summary.as_dict(), "facts": [one.as_dict() for one in self]}


def write_missing(found: MissingFacts, path: Path, file_format: str, *, compressed: bool = False) -> None:
    """Write missing facts to a file of a format, whatever its name."""
    if file_format in FACT_FORMATS:
        write_facts(path, file_format, found._named_facts(file_format), compressed=compressed)
    else:
        write_blocks(path, file_format, found.blocks(), compressed=compressed)


def columns_of(
    facts: Sequence[MissingFact], arities: Collection[int], why: bool, *, labels: bool = False
) -> dict[str, list[Any]]:
    """Facts as columns: those of a table of triples, or of one with more or fewer objects.

    With `labels`, a column of labels stands beside each column of objects.
    """
    triples = set(arities) == {2}
    found: dict[str, list[Any]] = {} if triples else {"relation": [one.relation for one in facts]}
    for i in range(max(arities)):
        name = ("head", "tail")[i] if triples else f"arg{i + 1}"
        if triples and i == 1:
            found["relation"] = [one.relation for one in facts]
        found[name] = [one.objects[i] if i < len(one.objects) else None for one in facts]
        if labels:
            shown = [label_names(one.objects, one.labels) for one in facts]
            found[f"{name}_label"] = [objects[i] if i < len(objects) else None for objects in shown]
    found["probability"] = [one.probability for one in facts]
    found["rank"] = [one.rank for one in facts]
    found["conflicts"] = ["; ".join(conflict.message for conflict in one.conflicts) for one in facts]
    if why:
        found["reason"] = [one.reason.formula if one.reason else "" for one in facts]
        found["facts"] = [_texts(one.reason.facts) if one.reason else "" for one in facts]
        if labels:
            found["reason_labels"] = [one.reason.shown if one.reason else "" for one in facts]
            found["facts_labels"] = [_texts(one.reason.facts, one.labels) if one.reason else "" for one in facts]
    return found


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """Which missing facts to list, and how."""

    above: float = DEFAULT_THRESHOLD
    """The smallest probability."""
    top: int | None = None
    """The largest number of facts."""
    per_relation: int | None = None
    """The largest number of facts of each relation."""
    why: bool = False
    """Whether to find the best reason for each fact."""
    covered: bool = False
    """Whether to leave out facts about which the model has little to go on."""
    deadline: Deadline = field(default_factory=no_deadline)
    """Checked after each question."""

    def __post_init__(self) -> None:
        check_fraction("above", self.above, zero=False, one=False)
        for name in ("top", "per_relation"):
            if getattr(self, name) is not None:
                check_int(name, getattr(self, name), 1)


def find_missing(
    predictors: Mapping[str, Predictor],
    options: SearchOptions,
    *,
    threads: int | None = None,
    progress: ProgressCallback | None = None,
    store: ProposalStore | None = None,
    reliability: Sequence[Mapping[str, float]] = (),
) -> MissingFacts:
    """Find the missing facts of relations; see `Completion.missing`.

    `reliability` is that of held-out proposals in training, in bins of the probability.
    """
    own = {name: Proposer.of(one) for name, one in predictors.items() if isinstance(one, ListwisePredictor)}
    if not own:
        raise KnowledgeBaseError("facts are proposed by ranked lists, and the model has none")
    proposals = _propose_all(own, options, check_threads(threads), progress, store or ProposalStore())
    if options.covered:
        proposals = {name: _covered(own[name], found) for name, found in proposals.items()}
    order = [
        (-float(p), name, row)
        for name, found in proposals.items()
        for row, p in enumerate(found.probabilities[: options.per_relation].tolist())
    ]
    chosen = tuple((name, row) for _, name, row in sorted(order)[: options.top])
    reasons = _find_reasons(own, proposals, chosen, check_threads(threads), progress) if options.why else {}
    listed = np.array([proposals[name].probabilities[row] for name, row in chosen])
    summary = MissingSummary(
        options.above,
        len(own),
        sum(found.candidates for found in proposals.values()),
        len(chosen),
        float(listed.sum()),
        sum(_other_tuples(one) for one in own.values()),
        sum(len(one.rejected) for one in own.values()),
        tuple(name for name in predictors if name not in own),
        any(one.predictor.arity > 2 for one in own.values()),
        _held_out_true(reliability, options.above),
    )
    return MissingFacts(predictors, proposals, chosen, summary, reasons)


def _propose_all(
    proposers: Mapping[str, Proposer],
    options: SearchOptions,
    threads: int,
    progress: ProgressCallback | None,
    store: ProposalStore,
) -> dict[str, Proposals]:
    """What is proposed of each relation: what the store has, and the rest by threads, large relations first."""
    found = {name: kept for name in proposers if (kept := store.load(name)) is not None}
    left = [name for name in proposers if name not in found]
    counter = _Counter("asking questions", sum(map(_question_count, proposers.values())), progress)
    counter.add(sum(_question_count(proposers[name]) for name in found))

    def propose(name: str) -> Proposals:
        own = proposers[name]
        proposed = Proposals(*own.propose(options.above, options.deadline, counter.add), own.candidates)
        store.save(name, proposed)
        return proposed

    parts = map_threaded(propose, left, threads, cost=lambda name: _question_count(proposers[name]))
    found |= dict(zip(left, parts, strict=True))
    return {name: found[name] for name in proposers}


def _other_tuples(proposer: Proposer) -> int:
    """How many tuples are neither known nor candidates; of more than two positions they are not counted."""
    arity, objects = proposer.predictor.arity, len(proposer.predictor.kb.objects)
    decided = len(proposer.facts) + len(proposer.rejected)
    return max(objects**arity - decided - proposer.candidates, 0) if arity <= 2 else 0


def _question_count(proposer: Proposer) -> int:
    return sum(len(proposer.questions(position)) for position in proposer.positions())


class _Counter:
    """Reports how much of a phase is done; threads can share it."""

    def __init__(self, phase: str, total: int, report: ProgressCallback | None) -> None:
        self._phase, self._total, self._report, self._done = phase, total, report, 0

    def add(self, count: int) -> None:
        """Count what is done."""
        self._done += count
        if self._report and count:
            self._report(self._phase, min(self._done, self._total), self._total)


def _covered(proposer: Proposer, found: Proposals) -> Proposals:
    """Those about which the model has something to go on."""
    keep = ~proposer.predictor.uncovered(found.tuples, hide_nothing(len(found.tuples)))
    return Proposals(found.tuples[keep], found.probabilities[keep], found.candidates)


def _find_reasons(
    proposers: Mapping[str, Proposer],
    proposals: Mapping[str, Proposals],
    chosen: Sequence[tuple[str, int]],
    threads: int,
    progress: ProgressCallback | None,
) -> dict[tuple[str, int], BestReason]:
    """The best reason for each of some facts."""
    counter = _Counter("finding reasons", len(chosen), progress)

    def find(each: tuple[str, int]) -> BestReason:
        name, row = each
        found = _reason_of(proposers[name].predictor, proposals[name].tuples[row : row + 1])
        counter.add(1)
        return found

    return dict(zip(chosen, map_threaded(find, chosen, threads), strict=True))


def _reason_of(predictor: ListwisePredictor, tuples: Ints) -> BestReason:
    """The best reason for one tuple (1, arity)."""
    reason = best_reason(predictor, tuples)
    if reason is None:
        return BestReason("", ())
    linking = linking_facts(reason.facts, [predictor.kb.object_name(number) for number in tuples[0].tolist()])
    return BestReason(reason.formula, tuple(linking or reason.facts[:MAX_REASON_FACTS]), reason.labelled)


def _held_out_true(bins: Sequence[Mapping[str, float]], above: float) -> float | None:
    """The share of held-out proposals with such probabilities that were true; None if there are hardly any."""
    own = [one for one in bins if one["predicted"] >= above]
    count = sum(one["count"] for one in own)
    return sum(one["observed"] * one["count"] for one in own) / count if count >= 10 else None


def _texts(facts: Sequence[Fact], labels: Labels = NOTHING) -> str:
    return ", ".join(str(label_fact(fact, labels)).removesuffix(".") for fact in facts)

"""Reviewed proposals: from a table of decisions to a knowledge base with the accepted facts and known negatives.

>>> import gaifman
>>> kb = gaifman.KnowledgeBase.from_facts([("capital", "france", "paris"), ("city", "lima"), ("country", "peru")])
>>> table = {"head": ["peru", "peru"], "relation": ["capital"] * 2, "tail": ["lima", "paris"], "accept": ["yes", "no"]}
>>> new = add_reviewed(kb, table, model="m.gaifman", date="2026-05-01")
>>> ("capital", "peru", "lima") in new, list(new.rejected)
(True, [('capital', 'peru', 'paris')])
>>> new.provenance["capital", "peru", "lima"]
Provenance(model='m.gaifman', date='2026-05-01', probability=None)
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from gaifman._tables import Columns, TableResult
from gaifman.config import checked
from gaifman.errors import InputError, escape_unprintable, plural, shorten
from gaifman.io.proposals import ACCEPT, ProposalTable, read_proposals, unknown_name
from gaifman.kb.knowledge_base import Fact, KnowledgeBase
from gaifman.kb.labels import compact
from gaifman.kb.reviews import FactKey, Provenance
from gaifman.logic.ast import relation_query
from gaifman.sampling.constraints import Conflict, ConstraintChecker, Constraints
from gaifman.sampling.found_constraints import find_constraints


@dataclass(frozen=True, slots=True)
class Additions(TableResult):
    """What a reviewed table changes in a knowledge base."""

    accepted: Mapping[FactKey, Provenance]
    """Accepted facts that the knowledge base does not have."""
    known: Sequence[FactKey]
    """Accepted facts that it has."""
    rejected: Mapping[FactKey, Provenance]
    """Rejected facts that were not known to be false."""
    known_negatives: Sequence[FactKey]
    """Rejected facts that were."""
    reconsidered: Sequence[FactKey]
    """Accepted facts that were rejected before; they are among `accepted`, too."""
    undecided: int
    """Rows without a decision."""
    conflicts: Mapping[FactKey, tuple[Conflict, ...]] = field(default_factory=dict)
    """Accepted facts → the constraints that they break: with known facts, or with each other."""

    def apply(self, kb: KnowledgeBase) -> KnowledgeBase:
        """The knowledge base with the changes."""
        return kb.with_reviews(self.accepted, self.rejected)

    def columns(self) -> Columns:
        """One row for each fact that was decided about."""
        rows = [*self._rows()]
        texts = ["; ".join(each.message for each in self.conflicts.get(key, ())) for _, key, _ in rows]
        return {
            "change": [change for change, _, _ in rows],
            "fact": [statement(key) for _, key, _ in rows],
            "probability": [own.probability if own else None for *_, own in rows],
            "model": [own.model if own else None for *_, own in rows],
            "conflicts": texts,
        }

    def _rows(self) -> Iterator[tuple[str, FactKey, Provenance | None]]:
        yield from (("new fact", *one) for one in self.accepted.items())
        yield from (("already known", key, None) for key in self.known)
        yield from (("known negative", *one) for one in self.rejected.items())
        yield from (("already rejected", key, None) for key in self.known_negatives)

    def as_dict(self) -> dict[str, Any]:
        """The numbers and the facts as JSON types."""
        columns = self.columns()
        return {
            "new_facts": len(self.accepted),
            "already_known": len(self.known),
            "rejected": len(self.rejected),
            "already_rejected": len(self.known_negatives),
            "reconsidered": len(self.reconsidered),
            "undecided": self.undecided,
            "conflicts": len(self.conflicts),
            "changes": [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)],
        }


def statement(key: FactKey) -> str:
    """A fact as text: `capital(peru, lima)`."""
    return str(Fact(key[0], key[1:])).removesuffix(".")


def plan_additions(kb: KnowledgeBase, table: ProposalTable, model: str = "", date: str | None = None) -> Additions:
    """What a reviewed table changes; the columns `model` and `probability` of a row are its provenance."""
    if table.column(ACCEPT) is None:
        location = table.lines[0].location(0, 0) if table.lines else None
        raise InputError(
            f"{table.source} has no column {ACCEPT}",
            location=location,
            hint="gaifman review asks for each fact and adds it; or fill it in by hand with yes or no",
        )
    day = check_date(date)
    decisions = _decisions(kb, table)
    decided = {
        key: Provenance(escape_unprintable(table.cell(row, "model") or model), day, table.probability(row))
        for key, row in decisions
    }
    chosen = {key: bool(table.decision(row)) for key, row in decisions}
    accepted = {key: own for key, own in decided.items() if chosen[key] and key not in kb}
    rejected = {key: own for key, own in decided.items() if not chosen[key] and key not in kb.rejected}
    return Additions(
        accepted,
        [key for key in decided if chosen[key] and key in kb],
        rejected,
        [key for key in decided if not chosen[key] and key in kb.rejected],
        [key for key in accepted if key in kb.rejected],
        sum(table.decision(row) is None for row in range(len(table))),
        _find_conflicts(kb, accepted),
    )


def _decisions(kb: KnowledgeBase, table: ProposalTable) -> list[tuple[FactKey, int]]:
    """Each fact that was decided about, and the first row with its decision; facts are checked."""
    found: dict[FactKey, int] = {}
    for row in range(len(table)):
        decision = table.decision(row)
        if decision is None:
            continue
        key = tuple(compact(name, kb.prefixes) for name in table.key(row))
        _check_names(kb, table, row, key)
        if found.setdefault(key, row) != row and table.decision(found[key]) != decision:
            message = f"{shorten(statement(key), 80)} is accepted and rejected"
            raise table.error(row, table.column(ACCEPT) or 0, message, f"row {found[key] + 1} decides otherwise")
        if not decision and key in kb:
            raise table.error(
                row,
                table.column(ACCEPT) or 0,
                f"{shorten(statement(key), 80)} is rejected, and the knowledge base has it",
                "remove it from the knowledge base, or leave the cell empty",
            )
    return [*found.items()]


def _check_names(kb: KnowledgeBase, table: ProposalTable, row: int, key: FactKey) -> None:
    """Raise for a relation or an object that the knowledge base does not have."""
    if key[0] not in kb.relations:
        raise unknown_name(table, row, table.facts.relation, "relation", [*kb.relations])
    arity = kb.relations[key[0]].arity
    if arity != len(key) - 1:
        message = f"{shorten(key[0])} has {plural(arity, 'argument')}, not {len(key) - 1}"
        raise table.error(row, table.facts.relation, message)
    for name, column in zip(key[1:], table.facts.objects, strict=False):
        if kb.objects.find(name) is None:
            raise unknown_name(table, row, column, "object", kb.objects)


def _find_conflicts(kb: KnowledgeBase, accepted: Mapping[FactKey, Provenance]) -> dict[FactKey, tuple[Conflict, ...]]:
    """The constraints that accepted facts break: those that the facts before them keep."""
    found: dict[FactKey, tuple[Conflict, ...]] = {}
    extended = kb.with_facts(accepted)
    for relation in dict.fromkeys(key[0] for key in accepted):
        constraints = [each.constraint for each in find_constraints(kb, [relation])]
        query = relation_query(relation, kb.relations[relation].arity)
        checker = ConstraintChecker(extended, query, Constraints(), constraints)
        for key in (key for key in accepted if key[0] == relation):
            tuples = np.array([[extended.object_id(name) for name in key[1:]]], np.int32)
            if conflicts := checker.conflicts(tuples):
                found[key] = conflicts
    return found


def check_date(date: str | None) -> str:
    """The day as text; today if there is none."""
    if date is None:
        return datetime.date.today().isoformat()
    try:
        return datetime.date.fromisoformat(date).isoformat()
    except ValueError:
        raise InputError(f"a date is written like 2026-05-01, not {shorten(repr(date))}") from None


@checked
def add_reviewed(kb: KnowledgeBase, table: Any, *, model: str = "", date: str | None = None) -> KnowledgeBase:
    """Return a knowledge base with the accepted facts of a reviewed table, and its rejected ones as known negatives.

    Args:
        kb: The knowledge base that the facts were proposed for.
        table: A file that `gaifman review` wrote or that has a column `accept`, or the same as a pandas or polars
            DataFrame, an Arrow table, or a mapping from names to columns.
        model: The name of the model, for the provenance of facts; a column `model` comes first.
        date: The day, such as `2026-05-01`; None for today.
    """
    return plan_additions(kb, as_proposals(table), model, date).apply(kb)


def as_proposals(table: Any) -> ProposalTable:
    """A table of proposed facts from a file or from columns."""
    if isinstance(table, ProposalTable):
        return table
    if isinstance(table, str | os.PathLike):
        return read_proposals(Path(table))
    if isinstance(table, TableResult):
        return ProposalTable.from_columns(table.columns())
    return ProposalTable.from_columns(_columns_of(table))


def _columns_of(table: Any) -> Columns:
    """The columns of a mapping, a DataFrame or an Arrow table."""
    if isinstance(table, Mapping):
        return {name: [*values] for name, values in table.items()}
    if hasattr(table, "to_pydict"):  # Arrow
        return dict(table.to_pydict())
    if hasattr(table, "to_dict") and hasattr(table, "columns"):  # pandas and polars
        return {name: table[name].to_list() for name in table.columns}
    kind = type(table).__name__
    raise InputError(f"a table of proposed facts is a file, a DataFrame or columns by name, not {kind}")

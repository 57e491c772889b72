"""What can be asked of a knowledge base and a model, as plain fields: what the server says, without the web.

>>> import gaifman
>>> service = Service(gaifman.demo())
>>> found = service.objects("franc", Page(rows=2))
>>> [row["name"] for row in found["objects"]], found["truncated"]
(['france', 'burundian_franc'], True)
>>> from gaifman.deadlines import never
>>> service.query(Exact("borders('portugal', y)"), never())["answers"]
[['spain']]

A service never changes: one with further facts is another one, and who asks the old one is not disturbed.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count, islice
from typing import Any, TypeVar

import numpy as np

from gaifman.answers import Ranking
from gaifman.candidates import Choice
from gaifman.cards import card
from gaifman.completion import Completion
from gaifman.config import SERVING, Budget, Serving
from gaifman.deadlines import Deadline
from gaifman.engine import Engine, engine_of
from gaifman.errors import GaifmanError, KnowledgeError
from gaifman.facts import Fact
from gaifman.finder import Finder
from gaifman.graph import Graph, graph_of
from gaifman.judging import knowing
from gaifman.kb import KnowledgeBase
from gaifman.model import GaifmanModel
from gaifman.names import nearest
from gaifman.neighbourhoods import neighbourhoods
from gaifman.parts import spoken
from gaifman.printing import relation_text
from gaifman.queries import answered, counted, prepare
from gaifman.tables import Facts, Longs
from gaifman.witnesses import explanations

Model = GaifmanModel | Completion
T = TypeVar("T")
OFTEN = 5
"""Rankings after which what they share is made, beside further ones: whoever asks once need not pay for it."""


@dataclass(frozen=True, slots=True)
class Page:
    """Some rows of many."""

    skip: int = 0
    """Rows before the first."""
    rows: int = 100
    """How many at most."""


@dataclass(frozen=True, slots=True)
class Exact:
    """A query over the whole knowledge base."""

    query: str
    given: Mapping[str, str] = field(default_factory=dict)
    """Variable → name of the object that it stands for."""
    page: Page = field(default_factory=Page)
    count: bool = False
    """Whether the number of all answers is wanted too."""
    why: bool = False
    """Whether the facts behind each answer are wanted too."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A question to the model."""

    query: str | None = None
    """None for the query of the model itself, with objects for some of its variables."""
    given: Mapping[str, str] = field(default_factory=dict)
    top: int = 10
    known: str = "mark"
    among: Mapping[str, str | Sequence[str]] = field(default_factory=dict)
    candidates: str = "auto"
    draws: int | None = None
    prior: float | None = None


@dataclass(frozen=True, slots=True)
class Around:
    """What is to be drawn around some objects."""

    objects: Sequence[str]
    radius: int = 1
    size: int = 20
    draws: int = 1
    seed: int = 0


class Service:
    """One knowledge base, perhaps a model that answers from it, and the limits of what is given."""

    def __init__(
        self,
        kb: KnowledgeBase,
        model: Model | None = None,
        serving: Serving = SERVING,
        hastening: threading.Lock | None = None,
    ) -> None:
        """`hastening` is held by whoever makes what rankings share: one at a time, of all that follow each other."""
        self.kb, self.serving = kb, serving
        self.model: Model | None = None if model is None else model.on(kb)
        self.engine: Engine = engine_of(kb)
        self._rankings, self._hastened = count(1), False
        self._hastening, self._retired = hastening or threading.Lock(), Deadline()

    @cached_property
    def graph(self) -> Graph:
        """The Gaifman graph, made when it is first needed."""
        return graph_of(self.kb)

    @cached_property
    def _objects(self) -> Finder:
        return Finder(self.kb.objects)

    @cached_property
    def _relations(self) -> Finder:
        return Finder(tuple(self.kb.relations))

    def check(self) -> None:
        """Raise where the knowledge base has nothing that the model speaks of: it could answer no question."""
        if isinstance(self.model, Completion):
            _ = self.model._known
        elif self.model is not None:
            knowing(self.kb, *spoken(self.model.features, self.model._asked))

    def ready(self) -> None:
        """Make what the first questions would have to wait for."""
        _ = self.graph, self._objects
        if isinstance(self.model, Completion):
            for relation in {self.model.arity(name): name for name in self.model.scorers}.values():
                self.model.judge(relation)
        elif self.model is not None:
            _ = self.model._judge

    def with_facts(self, facts: Iterable[Fact]) -> Service:
        """One that knows more; what was learnt stays as it is."""
        return Service(self.kb.with_facts(facts), self.model, self.serving, self._hastening)

    def retire(self) -> None:
        """Stop what is made for further rankings: there will be none."""
        self._retired.stop()

    def _hasten(self) -> None:
        """Make what rankings share; it is a matter of speed alone, so what goes wrong is not told."""
        if self.model is None or not self._hastening.acquire(blocking=False):
            return
        try:
            self.model.hasten(self._retired)
        except (GaifmanError, MemoryError):
            return
        finally:
            self._hastened = True
            self._hastening.release()

    # What is known

    def about(self) -> dict[str, Any]:
        """The knowledge base and the model in a few numbers."""
        kb, model = self.kb, self.model
        return {
            "objects": len(kb.objects),
            "facts": len(kb),
            "relations": len(kb.relations),
            "attributes": len(kb.attributes),
            "fingerprint": kb.fingerprint,
            "notes": [str(note) for note in kb.notes],
            "model": None if model is None else _model(model),
        }

    def objects(self, text: str, page: Page) -> dict[str, Any]:
        """Objects whose name has a text in it: those that begin with it first."""
        if len(text) > self.serving.name:
            raise GaifmanError(f"a text to look for has at most {self.serving.name:,} characters, not {len(text):,}")
        found, truncated = self._page(self._objects.find(text), page)
        near = nearest(text, self.kb.objects, 5) if text and not found and not page.skip else ()
        rows = [{"name": self.kb.name(number), "degree": int(self.graph.degrees[number])} for number in found]
        return {"objects": rows, "near": list(near), "skipped": page.skip, "truncated": truncated}

    def object(self, name: str) -> dict[str, Any]:
        """What one object is: its types and numbers, and how many facts it stands in."""
        number = self.kb.id(name)
        values = {each: self.kb.value(each, name) for each in self.kb.attributes}
        held = [table.relation[table.with_object(number)] for table in self.kb.tables.values()]
        kinds, counts = np.unique(np.concatenate([np.zeros(0, np.int32), *held]), return_counts=True)
        names = [self.kb.content.relations[kind] for kind in kinds.tolist()]
        return {
            "name": name,
            "types": list(self.kb.types(name)),
            "values": {attribute: value for attribute, value in values.items() if value is not None},
            "facts": int(counts.sum()),
            "relations": dict(zip(names, counts.tolist(), strict=True)),
            "degree": int(self.graph.degrees[number]),
        }

    def relations(self, text: str, page: Page) -> dict[str, Any]:
        """Relations whose name has a text in it, with their places and facts, and whether a model was learnt."""
        found, truncated = self._page(self._relations.find(text), page)
        known = list(self.kb.relations.values())
        rows = [self._relation(known[number].name) for number in found]
        return {"relations": rows, "skipped": page.skip, "truncated": truncated}

    def _relation(self, name: str) -> dict[str, Any]:
        relation = self.kb.relations[name]
        trained = name in self.model.scorers if isinstance(self.model, Completion) else None
        written = f"{relation_text(name)}({', '.join(_variables(relation.arity))})"
        return {
            "name": name,
            "arity": relation.arity,
            "facts": relation.count,
            "trained": trained,
            "query": written,
        }

    def facts(self, page: Page, relation: str | None = None, obj: str | None = None) -> dict[str, Any]:
        """Facts in their order: all, or those of a relation, or with an object, or both."""
        number = None if obj is None else self.kb.id(obj)
        wanted = None if relation is None else self._number(relation)
        parts = [(table, _rows(table, wanted, number)) for table in self.kb.tables.values()]
        relations = np.concatenate([np.zeros(0, np.int32), *(table.relation[rows] for table, rows in parts)])
        self._check(page)
        chosen = np.argsort(relations, kind="stable")[page.skip : page.skip + page.rows].tolist()
        flat = [(table, int(row)) for table, row in _picked(parts, chosen)]
        return {
            "facts": [self._fact(table, row) for table, row in flat],
            "count": len(relations),
            "skipped": page.skip,
            "truncated": page.skip + len(flat) < len(relations),
        }

    def _number(self, relation: str) -> int:
        number = self.kb.content.relations.number(relation)
        if number is None:
            near = nearest(relation, self.kb.relations)
            hint = "" if near else "GET /api/relations lists those there are"
            raise KnowledgeError(f"there is no relation {relation}", near=near, hint=hint)
        return number

    def _fact(self, table: Facts, row: int) -> dict[str, Any]:
        confidence = 1.0 if table.confidence is None else float(table.confidence[row])
        names = [self.kb.name(number) for number in table.objects[row].tolist()]
        return {
            "relation": self.kb.content.relations[int(table.relation[row])],
            "objects": names,
            "confidence": confidence,
        }

    # Questions

    def query(self, asked: Exact, deadline: Deadline) -> dict[str, Any]:
        """Exact answers, in a stable order."""
        self._check(asked.page)
        budget = Budget(rows=asked.page.rows)
        prepared = prepare(self.engine, asked.query, asked.given, budget)
        found = answered(self.engine, prepared, deadline.budget(budget), skip=asked.page.skip)
        body = {**prepared.as_dict(), "note": prepared.note, "answers": [list(names) for names in found]}
        body |= {"count": counted(self.engine, prepared, deadline.budget()) if asked.count else None}
        ways = None
        if asked.why:
            witnessed = explanations(self.engine, prepared.query, found.tuples, most=3, budget=deadline.budget())
            ways = [[[str(fact) for fact in facts] for facts in each] for each in witnessed]
        return {**body, "facts": ways, "skipped": asked.page.skip, "truncated": found.truncated}

    def answers(self, asked: Asked, deadline: Deadline) -> dict[str, Any]:
        """The most probable answers."""
        self._most("top", asked.top, self.serving.rows)
        self._most("draws", asked.draws or 1, self.serving.draws)
        choice = Choice(asked.candidates, self.serving.candidates)
        ranking = Ranking(asked.top, asked.known, asked.among, choice, deadline)
        model = self._learnt()
        settings: dict[str, Any] = {"draws": asked.draws, "prior": asked.prior}
        found = model.ranked(asked.query, asked.given, ranking, **settings)
        if next(self._rankings) % OFTEN == 0 and not self._hastened:
            threading.Thread(target=self._hasten, name="gaifman-hasten", daemon=True).start()
        return {**found.as_dict(), "truncated": found.considered.count > len(found)}

    def neighbourhood(self, around: Around, deadline: Deadline) -> dict[str, Any]:
        """What is drawn around some objects."""
        self._most("radius", around.radius, self.serving.radius)
        self._most("size", around.size, self.serving.rows)
        self._most("draws", around.draws, self.serving.draws)
        self._most("size × draws", around.size * around.draws, self.serving.members)
        shown = min(self.serving.rows, self.serving.members // around.draws)
        deadline.check()
        settings = {"radius": around.radius, "size": around.size, "seed": around.seed}
        found = neighbourhoods(self.graph, list(around.objects), draws=around.draws, **settings)
        drawn = []
        for one in found:
            deadline.check()
            fields = one.as_dict()
            facts = fields["facts"]
            drawn.append({**fields, "facts": facts[:shown], "truncated": len(facts) > shown})
        return {"objects": list(around.objects), **settings, "draws": drawn}

    def degrees(self) -> dict[str, Any]:
        """How many objects have how many neighbours."""
        return self.graph.summary()

    def card(self) -> dict[str, Any]:
        """What the model is: all that its file says, and the same as a text for people."""
        meta = self._learnt().meta
        return {"meta": meta, "card": card(meta)}

    def _learnt(self) -> Model:
        if self.model is None:
            raise KnowledgeError(
                "there is no model here: exact queries alone are answered",
                hint="train one and serve it: gaifman train KB -o MODEL, then gaifman serve KB MODEL",
            )
        return self.model

    # Limits

    def _most(self, name: str, value: int, most: int) -> None:
        if value > most:
            raise GaifmanError(f"{name} is at most {most:,} here, not {value:,}")

    def _check(self, page: Page) -> None:
        self._most("rows", page.rows, self.serving.rows)

    def _page(self, found: Iterable[T], page: Page) -> tuple[list[T], bool]:
        """The rows of a page, and whether there are more."""
        self._check(page)
        rows = list(islice(found, page.skip, page.skip + page.rows + 1))
        return rows[: page.rows], len(rows) > page.rows


def _model(model: Model) -> dict[str, Any]:
    if isinstance(model, Completion):
        return {"kind": "completion", "query": None, "variables": [], "relations": len(model.relations)}
    query = model._asked
    names = [variable.name for variable in query.free]
    return {"kind": "model", "query": str(query), "variables": names, "relations": None}


def _variables(arity: int) -> list[str]:
    return [f"x{place + 1}" for place in range(arity)] if arity > 3 else list("xyz"[:arity])


def _rows(table: Facts, relation: int | None, number: int | None) -> Longs:
    rows = np.arange(len(table)) if relation is None else np.array(table.rows(relation), np.int64)
    return rows if number is None else rows[(table.objects[rows] == number).any(axis=1)]


def _picked(parts: Sequence[tuple[Facts, Longs]], chosen: Sequence[int]) -> Iterable[tuple[Facts, int]]:
    """Rows by their places in all parts, one after another."""
    ends = np.cumsum([len(rows) for _, rows in parts])
    for place in chosen:
        part = int(np.searchsorted(ends, place, side="right"))
        table, rows = parts[part]
        yield table, rows[place - (ends[part - 1] if part else 0)]

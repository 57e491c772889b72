"""Queries against the definition: `python tests/support/long_queries.py --count 20000`.

Each case is a random knowledge base (at most 7 objects, relations of one to four places, numbers, some relations empty)
and a random query of any kind: its answers, their order and number, whether there is one, a page, and the answers with
a variable given. Progress on standard error, JSON at the end.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections import Counter
from dataclasses import dataclass, field

from gaifman.config import Budget
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.logic.ast import And, Atom, Comparison, Equal, Exists, Forall, Formula, Iff, Node, Not, Or, Query, walk
from gaifman.logic.semantics import Element
from gaifman.logic.semantics import answers as defined
from gaifman.queries.answers import answers, count, exists
from gaifman.queries.engine import Engine
from generators import ATTRIBUTES, OBJECTS, RELATIONS, Generator

SEVEN = (*OBJECTS, "Zoë", "zoë")
EACH = 12
"""Queries for each knowledge base."""


@dataclass
class Tally:
    """Counts of comparisons."""

    pairs: int = 0
    answers: int = 0
    with_answers: int = 0
    ranging: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    """What differs, in words."""


def knowledge(rng: random.Random) -> KnowledgeBase:
    """A random knowledge base with every relation of the generator; some are empty, sometimes all."""
    objects = SEVEN[: rng.choice([1, 2, 3, 4, 4, 5, 7])]
    dummies = {(name, *[objects[0]] * arity) for name, arity in RELATIONS.items()}
    filled = 0.0 if rng.random() < 0.03 else 0.85
    facts = {
        (name, *rng.choices(objects, k=arity))
        for name, arity in RELATIONS.items()
        for _ in range(rng.randint(0, 3 * len(objects)) if rng.random() < filled else 0)
    }
    values = {(a, o): float(rng.randint(-3, 3)) for a in ATTRIBUTES for o in objects if rng.random() < 0.6}
    values |= {(name, objects[0]): 1.0 for name in ATTRIBUTES}
    return KnowledgeBase.from_facts([*facts, *dummies], values, objects).without_facts(sorted(dummies - facts))


def conjunctive(rng: random.Random, generator: Generator) -> Query:
    """A conjunction of a few atoms, perhaps with ∃, ∨ and ¬, as in practice."""
    names = ("x", "y", "z", "u")
    parts: list[Formula] = [generator.atom(names) for _ in range(rng.randint(2, 5))]
    parts += [Not(generator.atom(names))] if rng.random() < 0.3 else []
    parts += [Or((generator.atom(names), generator.atom(names)))] if rng.random() < 0.3 else []
    rng.shuffle(parts)
    body: Formula = And(tuple(parts))
    variables = sorted({v for v in walk(body) if type(v).__name__ == "Variable"}, key=str)
    bound = tuple(v for v in variables if rng.random() < 0.5 or str(v) == "u")
    free = tuple(v for v in variables if v not in bound)
    return Query(free, Exists(bound, body) if bound else body)  # type: ignore[arg-type]


def question(rng: random.Random) -> Query:
    """A query of any kind."""
    generator = Generator(rng)
    return conjunctive(rng, generator) if rng.random() < 0.4 else generator.query(depth=rng.randint(1, 5))


def kinds(query: Query) -> set[str]:
    """The connectives and quantifiers of a query."""
    named: dict[type[Node], str] = {
        Atom: "atoms",
        Equal: "equality",
        Comparison: "numbers",
        Not: "negation",
        Or: "disjunction",
        Exists: "∃",
        Forall: "∀",
        Iff: "↔",
    }
    return {named[type(part)] for part in walk(query.formula) if type(part) in named}


def compare(engine: Engine, query: Query, wanted: list[tuple[Element, ...]], rng: random.Random, tally: Tally) -> None:
    """Compare every way to ask with the sorted answers of the definition."""
    budget = Budget(combinations=10**12)
    found = answers(engine, query, budget=budget)
    tally.pairs += 1
    tally.answers += len(wanted)
    tally.with_answers += bool(wanted)
    tally.ranging += bool(found.prepared.statement.unrestricted)
    tally.kinds.update(kinds(query))
    seen: list[tuple[str, object, object]] = [
        ("answers", list(found), wanted),
        ("count", count(engine, query, budget=budget), len(wanted)),
        ("exists", exists(engine, query, budget=budget), bool(wanted)),
    ]
    skip, rows = rng.randint(0, len(wanted)), rng.randint(1, 5)
    page = answers(engine, query, skip=skip, budget=Budget(rows=rows, combinations=10**12))
    seen.append(("page", (list(page), page.truncated), (wanted[skip : skip + rows], len(wanted) > skip + rows)))
    if query.variables:
        place, obj = rng.randrange(len(query.variables)), rng.choice(list(engine.kb.objects))
        given = answers(engine, query, {query.variables[place].name: obj}, budget=budget)
        seen.append((f"given {obj!r}", list(given), [row for row in wanted if row[place] == obj]))
    for what, one, other in seen:
        if one != other:
            tally.wrong.append(f"{what} of {query}: {one}, not {other}")


def case(seed: int, tally: Tally) -> None:
    """One knowledge base and a few queries."""
    rng = random.Random(seed)
    kb = knowledge(rng)
    structure = kb.structure()
    with Engine(kb, threads=1) as engine:
        for _ in range(EACH):
            query = question(rng)
            compare(engine, query, sorted(defined(structure, query), key=lambda row: [*map(str, row)]), rng, tally)


def main() -> int:
    """Compare until there are enough."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--count", type=int, default=20_000, help="pairs of knowledge base and query to compare")
    arguments.add_argument("--seed", type=int, default=0, help="the first seed")
    options = arguments.parse_args()
    tally, began, said, seed = Tally(), time.monotonic(), 0.0, options.seed
    while tally.pairs < options.count and not tally.wrong:
        case(seed, tally)
        seed += 1
        if time.monotonic() - said > 10:
            said = time.monotonic()
            print(f"{tally.pairs:,} of {options.count:,} pairs, seed {seed:,}", file=sys.stderr, flush=True)
    body = {
        "pairs": tally.pairs,
        "with_answers": tally.with_answers,
        "answers": tally.answers,
        "ranging_over_the_domain": tally.ranging,
        "seeds": [options.seed, seed],
        "queries_with": dict(sorted(tally.kinds.items())),
        "differences": tally.wrong,
        "seconds": round(time.monotonic() - began, 1),
    }
    print(json.dumps(body, ensure_ascii=False, indent=2))
    return 1 if tally.wrong else 0


if __name__ == "__main__":
    sys.exit(main())

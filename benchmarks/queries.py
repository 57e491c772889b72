"""Time of queries of one to four atoms, compared with hand-written SQL on the same DuckDB, SQLite and SPARQL.

    GAIFMAN_DATA=… python benchmarks/queries.py [--quick]

Random queries of eleven shapes on FB15k, each made from facts that make it true, so that it has answers. Ours goes from
the text to an array in a stable order; `anew` has a new text each time, which is parsed, checked and translated first.
The hand-written SQL uses the same tables of the same database, with the ids of relations and objects looked up before:
plain joins, DISTINCT where variables are projected out, the same order. SQLite has the same statements with an index
for each direction; pyoxigraph has SPARQL without an order. All give the same answers. `worst_ratio_to_sql` is the
highest median ratio of a query. Without the data, a generated knowledge base is queried.
"""

from __future__ import annotations

import contextlib
import itertools
import random
import sqlite3
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyoxigraph

import common
from features import loaded
from gaifman.config import Budget
from gaifman.errors import StoppedError
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.logic.ast import format_relation, quote
from gaifman.queries.answers import answers, count
from gaifman.queries.engine import Engine

SHAPES = {
    # atoms as pairs of variables; those in capitals are objects, x and y are asked for, z and u are not
    "1 all": "xy",
    "1 from an object": "Ay",
    "2 chain": "xz zy",
    "2 chain from an object": "Az zy",
    "2 intersection": "Ax xB",
    "2 both": "xy xy",
    "3 chain from an object": "Az zu uy",
    "3 star": "xA xB xC",
    "3 triangle": "xy yz zx",
    "4 chain from an object": "Az zu uv vy",
    "4 star": "xA xB xz xu",
}
Peers = tuple[sqlite3.Connection, pyoxigraph.Store]
LARGEST = 200_000
"""Answers at most: beyond, all that is measured is how fast numbers are handed over."""


@dataclass(frozen=True)
class Asked:
    """One query: atoms of a relation and two terms, which are variables or object ids."""

    atoms: tuple[tuple[int, str | int, str | int], ...]

    @property
    def out(self) -> list[str]:
        """The variables of the answer."""
        used = {term for _, *terms in self.atoms for term in terms}
        return [name for name in "xy" if name in used]

    def text(self, kb: KnowledgeBase) -> str:
        """The query in our syntax."""
        terms = [[t if isinstance(t, str) else quote(kb.object_name(t)) for t in terms] for _, *terms in self.atoms]
        names = [format_relation(kb.content.relations[r]) for r, *_ in self.atoms]
        atoms = [f"{name}({', '.join(pair)})" for name, pair in zip(names, terms, strict=True)]
        return f"q({', '.join(self.out)}) :- {', '.join(atoms)}"

    def sql(self) -> str:
        """The query as hand-written SQL."""
        columns: dict[str | int, str] = {}
        tables, where = [], []
        for number, (relation, *terms) in enumerate(self.atoms, start=1):
            on = [f"f{number}.relation = {relation}"]
            for position, term in enumerate(terms, start=1):
                column = f"f{number}.a{position}"
                on += [f"{column} = {columns.get(term, term)}"] if isinstance(term, int) or term in columns else []
                columns.setdefault(term, column) if isinstance(term, str) else None
            tables.append(f"FROM facts2 f{number}" if number == 1 else f"JOIN facts2 f{number} ON {' AND '.join(on)}")
            where += on if number == 1 else []
        hidden = {term for term in columns if term not in self.out}
        chosen = ", ".join(f"{columns[name]} AS {name}" for name in self.out)
        order = ", ".join(str(position) for position in range(1, len(self.out) + 1))
        distinct = "DISTINCT " if hidden else ""
        return f"SELECT {distinct}{chosen} {' '.join(tables)} WHERE {' AND '.join(where)} ORDER BY {order}"

    def sparql(self) -> str:
        """The query as SPARQL."""
        terms = [[f"?{t}" if isinstance(t, str) else f"<o:{t}>" for t in terms] for _, *terms in self.atoms]
        patterns = [f"{one} <r:{r}> {other}" for (r, *_), (one, other) in zip(self.atoms, terms, strict=True)]
        return f"SELECT DISTINCT {' '.join(f'?{name}' for name in self.out)} WHERE {{ {' . '.join(patterns)} }}"


def drawn(kb: KnowledgeBase, shape: str, rng: random.Random) -> Asked | None:
    """A query of a shape, from facts that make it true; None if the drawn facts lead nowhere."""
    table = kb.fact_tables[2]
    bound: dict[str, int] = {}
    atoms: list[tuple[int, str | int, str | int]] = []
    for names in shape.split():
        one, other = names[0], names[1]
        fits = np.ones(len(table), bool)
        for position, name in enumerate((one, other)):
            if name in bound:
                fits &= table.objects[:, position] == bound[name]
        rows = np.flatnonzero(fits)
        used = {atom[0] for atom in atoms} if shape.count(names) > 1 else set()
        rows = rows[~np.isin(table.relation[rows], list(used))] if used else rows
        if not len(rows):
            return None
        row = int(rows[rng.randrange(len(rows))])
        bound |= {one: int(table.objects[row, 0]), other: int(table.objects[row, 1])}
        pair: list[str | int] = [bound[name] if name.isupper() else name for name in (one, other)]
        atoms.append((int(table.relation[row]), pair[0], pair[1]))
    return Asked(tuple(atoms))


def chosen(engine: Engine, each: int) -> list[tuple[str, Asked]]:
    """Queries of every shape, none too large."""
    rng = random.Random(0)
    found: list[tuple[str, Asked]] = []
    for name, shape in SHAPES.items():
        taken = 0
        while taken < each:
            asked = drawn(engine.kb, shape, rng)
            if asked is None:
                continue
            with contextlib.suppress(StoppedError):
                if 0 < count(engine, asked.text(engine.kb), budget=Budget(seconds=2)) <= LARGEST:
                    found.append((name, asked))
                    taken += 1
    return found


def in_sqlite(kb: KnowledgeBase) -> sqlite3.Connection:
    """The facts in SQLite, with an index for each direction."""
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE facts2 (relation INTEGER, a1 INTEGER, a2 INTEGER)")
    table = kb.fact_tables[2]
    rows = np.column_stack([table.relation, table.objects]).tolist()
    connection.executemany("INSERT INTO facts2 VALUES (?, ?, ?)", rows)
    connection.execute("CREATE INDEX forward ON facts2 (relation, a1, a2)")
    connection.execute("CREATE INDEX backward ON facts2 (relation, a2, a1)")
    connection.execute("ANALYZE")
    return connection


def in_oxigraph(kb: KnowledgeBase) -> pyoxigraph.Store:
    """The facts in an RDF store."""
    table = kb.fact_tables[2]
    rows = zip(table.relation.tolist(), table.objects.tolist(), strict=True)
    text = "".join(f"<o:{one}> <r:{r}> <o:{other}> .\n" for r, (one, other) in rows)
    store = pyoxigraph.Store()
    store.bulk_load(text.encode(), pyoxigraph.RdfFormat.N_TRIPLES)
    return store


def jobs(engine: Engine, peers: Peers, asked: Asked) -> dict[str, Callable[[], Any]]:
    """The same query for each system."""
    text, sql, sparql = asked.text(engine.kb), asked.sql(), asked.sparql()
    cursor, spaces = engine.database.cursor(), itertools.count(1)
    return {
        "ours": lambda: answers(engine, text).tuples,
        "anew": lambda: answers(engine, text + " " * next(spaces)).tuples,
        "sql": lambda: np.stack(list(cursor.execute(sql).fetchnumpy().values()), axis=1),
        "sqlite": lambda: peers[0].execute(sql).fetchall(),
        "sparql": lambda: [*peers[1].query(sparql)],  # type: ignore[misc, unused-ignore]
    }


def measured(ways: dict[str, Callable[[], Any]], runs: int) -> dict[str, float]:
    """Seconds of each system and ratios to ours; answers are compared first."""
    found = {name: job() for name, job in ways.items()}
    assert found["ours"].tolist() == found["anew"].tolist() == found["sql"].tolist()
    assert found["ours"].tolist() == [list(row) for row in found["sqlite"]]
    assert len(found["sparql"]) == len(found["ours"])
    close = common.interleaved(runs, **{name: ways[name] for name in ("ours", "sql", "anew")})
    result = {"ours": statistics.median(close["ours"]), "sql": common.median_ratio(close["ours"], close["sql"])}
    result["anew"] = common.median_ratio(close["anew"], close["sql"])
    for name in ("sqlite", "sparql"):
        begin = time.perf_counter()
        ways[name]()
        result[name] = result["ours"] / (time.perf_counter() - begin)
    return result


def main() -> None:
    """Measure and print."""
    quick = common.arguments(__doc__).quick
    kb, made = loaded("FB15k", 14_951, 483_142, 1_345)
    with Engine(kb) as engine:
        peers = in_sqlite(kb), in_oxigraph(kb)
        asked = chosen(engine, 2 if quick else 10)
        rows = [(name, measured(jobs(engine, peers, one), 15 if quick else 41)) for name, one in asked]
    figures: dict[str, float] = {"fb15k_generated": made, "queries": len(rows)}
    for name in ("sql", "anew"):
        ratios = [row[name] for _, row in rows]
        word = "sql" if name == "sql" else "sql_anew"
        figures |= {f"worst_ratio_to_{word}": max(ratios), f"median_ratio_to_{word}": statistics.median(ratios)}
    for name in ("sqlite", "sparql"):
        figures[f"median_ratio_to_{name}"] = statistics.median(row[name] for _, row in rows)
    figures["median_ms"] = 1e3 * statistics.median(row["ours"] for _, row in rows)
    for shape in SHAPES:
        figures[f"ratio_{shape.replace(' ', '_')}"] = max(row["sql"] for name, row in rows if name == shape)
    common.report("queries", figures)


if __name__ == "__main__":
    main()

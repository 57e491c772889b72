"""Databases written for tests of reading."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import duckdb

from gaifman.io import write
from gaifman.kb.knowledge_base import KnowledgeBase


def contents(kb: KnowledgeBase) -> list[str]:
    return [str(fact) for fact in kb.facts()] + [f"{a}({o}) = {v}" for a, o, v in kb.values()]


def make_duckdb(path: Path, *statements: str) -> Path:
    with duckdb.connect(str(path)) as connection:
        for statement in statements:
            connection.execute(statement)
    return path


def make_sqlite(path: Path, *statements: str) -> Path:
    with closing(sqlite3.connect(path)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()
    return path


def changed(tmp_path: Path, statement: str) -> Path:
    kb = KnowledgeBase.from_facts([("p", "a"), ("r", "a", "b")], {("v", "a"): 1})
    write(kb, tmp_path / "x.duckdb")
    with duckdb.connect(str(tmp_path / "x.duckdb")) as connection:
        connection.execute(statement)
    return tmp_path / "x.duckdb"

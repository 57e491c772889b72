"""Queries that no engine can finish, or only just: products, chains, cycles, nested negation, untied variables.

`WORST` has fifty of them, over the relations of `crowded()`. Run this file to ask each for its answers and to see how
long after its limit it stopped, and what the processor did then.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import threading
import time
from collections.abc import Callable

from gaifman.config import Budget
from gaifman.errors import StoppedError
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.queries.answers import answers, count, exists
from gaifman.queries.engine import Engine

EVERYTHING = 10**60
"""Combinations: what is refused for its size is not stopped for its time."""


def crowded(objects: int = 3_000, facts: int = 60_000) -> KnowledgeBase:
    """Three dense relations and a type over some objects, with numbers."""
    rng = random.Random(1)
    names = [f"o{i}" for i in range(objects)]
    drawn = [(relation, rng.choice(names), rng.choice(names)) for relation in "rst" for _ in range(facts)]
    typed = [("p", name) for name in names if rng.random() < 0.9]
    return KnowledgeBase.from_facts([*drawn, *typed], {("age", name): float(rng.randint(0, 99)) for name in names})


def product(width: int) -> str:
    """All combinations of facts."""
    return " & ".join(f"{'rst'[i % 3]}(x{i}, y{i})" for i in range(width))


def chain(length: int) -> str:
    """A chain of facts."""
    return " & ".join(f"{'rst'[i % 3]}(x{i}, x{i + 1})" for i in range(length))


def ends(length: int) -> str:
    """The two ends of a chain."""
    inner = ", ".join(f"x{i}" for i in range(1, length))
    return f"exists {inner}. {chain(length)}"


def cycle(length: int) -> str:
    """A cycle of facts."""
    return " & ".join(f"r(x{i}, x{(i + 1) % length})" for i in range(length))


def clique(size: int) -> str:
    """Facts between any two variables."""
    return " & ".join(f"r(x{i}, x{j})" for i in range(size) for j in range(i))


def alternating(depth: int) -> str:
    """∀ ∃ ∀ ∃ …, each about the variable before."""
    text = f"r(x{depth - 1}, x{depth})"
    for i in range(depth, 0, -1):
        text = f"(forall x{i}. r(x{i - 1}, x{i}) -> {text})" if i % 2 else f"(exists x{i}. s(x{i - 1}, x{i}) & ~{text})"
    return text


def negations(depth: int) -> str:
    """¬∃¬∃ …, in which every level uses all variables before."""
    text = "false"
    for i in range(depth, 0, -1):
        before = " & ".join(f"{'rst'[j % 3]}(x{j}, x{i})" for j in range(max(0, i - 3), i))
        text = f"~(exists x{i}. {before} & {text})" if text != "false" else f"~(exists x{i}. {before})"
    return f"p(x0) & {text}"


def untied(width: int) -> str:
    """Nothing but ¬."""
    return " & ".join(f"~r(x{i}, x{(i + 1) % width})" for i in range(width))


def equivalent(depth: int) -> str:
    """A tower of ↔."""
    text = "r(x, y)"
    for i in range(depth):
        text = f"({text} <-> {'rst'[i % 3]}({'xy'[i % 2]}, {'yx'[i % 2]}))"
    return text


def either(width: int) -> str:
    """A chain of ∨."""
    return " & ".join(f"(r(x{i}, x{i + 1}) | s(x{i + 1}, x{i}) | ~t(x{i}, x{i + 1}))" for i in range(width))


def older(width: int) -> str:
    """Only comparisons of numbers."""
    return " & ".join(f"age(x{i}) <= age(x{i + 1})" for i in range(width))


WORST = (
    *(product(width) for width in (2, 3, 4, 5, 6, 8)),
    *(chain(length) for length in (3, 4, 5, 6, 8, 10, 12, 15)),
    *(ends(length) for length in (3, 4, 5, 6, 8, 10, 15)),
    *(cycle(length) for length in (4, 5, 6, 8, 10)),
    *(clique(size) for size in (4, 5, 6, 7)),
    *(alternating(depth) for depth in (3, 5, 8, 12, 15)),
    *(negations(depth) for depth in (3, 5, 8, 12)),
    *(untied(width) for width in (2, 3, 4, 6)),
    *(equivalent(depth) for depth in (1, 10, 30)),
    *(either(width) for width in (2, 4)),
    *(older(width) for width in (2, 3)),
)


ASKED: tuple[Callable[..., object], ...] = (answers, count, exists)


def main() -> int:
    """Ask them all; 1 if one took half a second longer than its limit."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--seconds", type=float, default=1.0, help="the limit of each")
    arguments.add_argument("--memory", type=int, default=2_000, help="megabytes")
    options = arguments.parse_args()
    budget = Budget(seconds=options.seconds, rows=1_000, combinations=EVERYTHING)
    late, rows = 0, []
    with Engine(crowded(), memory_mb=options.memory) as engine:
        for text in WORST:
            for ask in ASKED:
                over, late_cpu, how = measured(engine, ask, text, budget)
                rows.append({"query": text, "asked": ask.__name__, "over": over, "late_cpu": late_cpu, "ended": how})
                late += over > 0.5
                line = f"{over:7.3f} {late_cpu:6.3f} {how:>8} {ask.__name__:>8} {text[:90]}"
                print(line, file=sys.stderr, flush=True)
    worst = max(rows, key=lambda row: float(str(row["over"])))
    print(json.dumps({"queries": len(WORST), "asked": len(rows), "late": late, "worst": worst}, ensure_ascii=False))
    return 1 if late else 0


def measured(engine: Engine, ask: Callable[..., object], text: str, budget: Budget) -> tuple[float, float, str]:
    """Seconds beyond the limit (below 0: it ended), processor time used beyond the limit, and how it ended."""
    at_limit: list[float] = []
    timer = threading.Timer(budget.seconds or 0, lambda: at_limit.append(time.process_time()))
    begin, how = time.monotonic(), "ended"
    timer.start()
    try:
        ask(engine, text, budget=budget)
    except StoppedError as error:
        how = "stopped" if "seconds" in error.message else "memory"
    timer.cancel()
    over, now = time.monotonic() - begin - (budget.seconds or 0), time.process_time()
    return round(over, 3), round(now - at_limit[0] if at_limit else 0.0, 3), how


def idle() -> bool:
    """Whether this process leaves the processor alone."""
    begin = time.process_time()
    time.sleep(0.1)
    return time.process_time() - begin < 0.02


if __name__ == "__main__":
    sys.exit(main())

"""The server under load, on the loopback: errors, latency, and throughput under overload.

    GAIFMAN_DATA=… python benchmarks/server.py [--quick]

`gaifman serve` runs in its own process. 64 clients ask for ranked answers over FB15k, each the next query as soon as it
has an answer: `errors` counts replies other than 200, `p99_over_p50` is of the latency. Then queries arrive at twice
that rate, whether earlier ones are answered or not: `overload_goodput` is the share of the earlier throughput,
`overload_others` counts queries neither answered (200) nor rejected (503). `ready_seconds` is the time from start to
the first answer for 100,000 facts without a model, best of three. `memory_growth` is the memory of the process after
100,000 requests (quick: 1,000) of all kinds, one in twenty a ranking and one in a hundred an explanation, over that
after the first tenth; `memory_errors` counts those without an answer. `speed_up` is the gain of a ranking from what
rankings share, which the server computes after the first few. Without the data, a knowledge base is generated.
"""

from __future__ import annotations

import http.client
import json
import queue
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np

import common
import gaifman
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.logic.printer import format_relation

CLIENTS = 64
SETTINGS: dict[str, Any] = {"phi": "paper", "positives": 1, "negatives": 2, "epochs": 1, "batch_size": 128}
IDLE = 2.0
"""Seconds after which a connection is not used again: the server may be closing it."""
HURRIED = 256
"""Threads that send questions whatever becomes of those before: more than the server lets in."""
Result = tuple[int, float, float]
"""Status, seconds, and when it came."""


class Asker:
    """One kept-alive connection."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self._last = 0.0

    def ask(self, method: str, path: str, body: object = None) -> tuple[int, bytes]:
        """Status and body; 0 if the connection broke."""
        if time.perf_counter() - self._last > IDLE:
            self._connection.close()
        try:
            sent = None if body is None else json.dumps(body).encode()
            self._connection.request(method, path, sent, {"content-type": "application/json"})
            reply = self._connection.getresponse()
            found = reply.status, reply.read()
            self._last = time.perf_counter()
            return found
        except (OSError, http.client.HTTPException):
            self._connection.close()
            return 0, b""

    def timed(self, question: object) -> Result:
        """Time one ranking."""
        begin = time.perf_counter()
        status, _ = self.ask("POST", "/api/answers", question)
        end = time.perf_counter()
        return status, end - begin, end


@contextmanager
def server(*words: str) -> Iterator[tuple[int, float]]:
    """The port of a server, and the seconds until its first answer."""
    begin = time.perf_counter()
    command = [sys.executable, "-m", "gaifman", "serve", *words, "--port", "0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout
        try:
            said = json.loads(running.stdout.readline())
            port = int(re.findall(r":(\d+)/", said["url"])[0])
            status, _ = Asker(port).ask("GET", "/api/health")
            assert status == 200
            yield port, time.perf_counter() - begin
        finally:
            running.terminate()


def knowledge() -> tuple[KnowledgeBase, str]:
    """FB15k, or a generated knowledge base of its shape; and its name."""
    path = common.data("FB15k/train.txt.gz")
    if path:
        return gaifman.read(path), "FB15k"
    return made(15_000, 500_000), "generated"


def made(objects: int, facts: int) -> KnowledgeBase:
    """A generated knowledge base with a few objects in many facts."""
    draws = np.random.default_rng(0)
    heads, tails = (np.minimum(draws.zipf(1.5, facts), objects) - 1 for _ in range(2))
    spread = draws.permutation(objects)
    names = [f"o{number}" for number in range(objects)]
    rows = zip(draws.integers(0, 100, facts), spread[heads], draws.integers(0, objects, facts), tails, strict=True)
    return KnowledgeBase.from_facts([(f"r{r}", names[a], names[b if b % 3 else c]) for r, a, b, c in rows])


def questions(kb: KnowledgeBase, relations: Sequence[str], count: int) -> list[dict[str, Any]]:
    """Rankings for the second position of facts of some relations."""
    found, draws = [], np.random.default_rng(1)
    for relation in relations:
        facts = list(kb.facts(relation))
        for row in draws.integers(0, len(facts), count // len(relations)).tolist():
            query = f"{format_relation(relation)}(x, y)"
            found.append({"query": query, "bindings": {"x": facts[row].objects[0]}, "top": 10})
    order = draws.permutation(len(found)).tolist()
    return [found[place] for place in order]


def patient(port: int, asked: Sequence[object], seconds: float) -> list[Result]:
    """Each client asks when it has an answer."""
    found, end = list[Result](), time.perf_counter() + seconds

    def client(number: int) -> None:
        asker = Asker(port)
        while time.perf_counter() < end:
            found.append(asker.timed(asked[number % len(asked)]))
            number += CLIENTS

    _all([threading.Thread(target=client, args=(number,)) for number in range(CLIENTS)])
    return found


def hurried(port: int, asked: Sequence[object], rate: float, seconds: float) -> list[Result]:
    """Queries at a steady rate, whether earlier ones are answered or not."""
    found, waiting = list[Result](), queue.SimpleQueue[object]()

    def client() -> None:
        asker = Asker(port)
        while (question := waiting.get()) is not None:
            found.append(asker.timed(question))

    threads = [threading.Thread(target=client) for _ in range(HURRIED)]
    for thread in threads:
        thread.start()
    begin = time.perf_counter()
    for number in range(int(rate * seconds)):
        time.sleep(max(0.0, begin + number / rate - time.perf_counter()))
        waiting.put(asked[number % len(asked)])
    for _ in threads:
        waiting.put(None)
    for thread in threads:
        thread.join()
    return found


def _all(threads: Sequence[threading.Thread]) -> None:
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def per_second(found: Sequence[Result], begin: float, end: float) -> float:
    """Answers per second between two moments."""
    return sum(status == 200 and begin <= at < end for status, _, at in found) / (end - begin)


def _request(number: int, name: str, asked: Sequence[dict[str, Any]]) -> tuple[str, str, object]:
    """A random kind of request."""
    kind, question = number % 100, asked[number % len(asked)]
    if kind < 5:
        return "POST", "/api/answers", question
    if kind == 5:
        return (
            "POST",
            "/api/explanations",
            {"query": question["query"], "bindings": question["bindings"], "answer": [name]},
        )
    if kind < 30:
        return "GET", f"/api/facts?{urlencode({'object': name, 'rows': 20})}", None
    if kind < 50:
        return "GET", f"/api/objects?text=o{number % 1000}&rows=10", None
    return "POST", "/api/query", {"query": "x = y", "bindings": {"x": name}}


def growth(port: int, kb: KnowledgeBase, asked: Sequence[dict[str, Any]], count: int) -> tuple[float, int]:
    """Memory at the end over that after the first tenth; and the number of requests without an answer."""
    names, draws = kb.objects, np.random.default_rng(2)
    sizes, place, wrong = [0.0, 0.0], [0], [0]
    guard = threading.Lock()

    def client() -> None:
        asker = Asker(port)
        while True:
            with guard:
                place[0] += 1
                number, name = place[0], names[int(draws.integers(len(names)))]
            if number > count:
                return
            if number == count // 10:
                sizes[0] = memory(asker)
            status, _ = asker.ask(*_request(number, name, asked))
            wrong[0] += status != 200

    _all([threading.Thread(target=client) for _ in range(8)])
    sizes[1] = memory(Asker(port))
    return sizes[1] / sizes[0], wrong[0]


def memory(asker: Asker) -> float:
    """Resident memory of the server in bytes."""
    _, body = asker.ask("GET", "/metrics")
    return float(re.findall(rb"^process_resident_memory_bytes (\S+)", body, re.MULTILINE)[0])


def loaded(kb: KnowledgeBase, name: str, folder: Path, quick: bool) -> dict[str, float | int]:
    """All measurements of a server with a model."""
    file, model = folder / "kb.duckdb", folder / "model.gaifman"
    sizes = sorted((r.count, r.name) for r in kb.relations.values() if r.arity == 2 and r.count >= 50)
    relations = [relation for _, relation in sizes[:: max(1, len(sizes) // 4)][:4]]
    sys.stderr.write(f"training on {name} …\n")
    gaifman.complete(kb, relations, min_examples=0, **SETTINGS).save(model)
    gaifman.write(kb, file)
    asked, seconds = questions(kb, relations, 1000), 6.0 if quick else 30.0
    with server(str(file), str(model)) as (port, _):
        asker = Asker(port)
        slow = min(_seconds(asker, asked[:1], 4))
        _seconds(asker, asked[:1], 4)
        time.sleep(10.0)  # what rankings share is made meanwhile
        quicker = min(_seconds(asker, asked[:1], 4))
        sys.stderr.write(f"{CLIENTS} clients …\n")
        begin = time.perf_counter()
        found = patient(port, asked, seconds)
        times = [taken for status, taken, _ in found if status == 200]
        middle, late = np.quantile(times, [0.5, 0.99]).tolist()
        peak = per_second(found, begin, begin + seconds)
        sys.stderr.write(f"{2 * peak:.1f} questions a second …\n")
        begin = time.perf_counter()
        over = hurried(port, asked, 2 * peak, seconds)
        goodput = per_second(over, begin, begin + seconds) / peak
        sys.stderr.write("memory …\n")
        more, lost = growth(port, kb, asked, 1_000 if quick else 100_000)
    return {
        "errors": sum(status != 200 for status, _, _ in found),
        "p99_over_p50": late / middle,
        "overload_goodput": goodput,
        "overload_others": sum(status not in (200, 503) for status, _, _ in over),
        "overload_refused": sum(status == 503 for status, _, _ in over),
        "answers_per_s": peak,
        "p50_seconds": middle,
        "memory_growth": more,
        "memory_errors": lost,
        "speed_up": slow / quicker,
    }


def _seconds(asker: Asker, asked: Sequence[object], times: int) -> list[float]:
    """Seconds of queries, one after another."""
    found = [asker.timed(question) for _ in range(times) for question in asked]
    assert all(status == 200 for status, _, _ in found)
    return [taken for _, taken, _ in found]


def start(folder: Path) -> float:
    """Seconds until 100,000 facts are served."""
    file = folder / "small.tsv"
    gaifman.write(made(20_000, 110_000), file)
    times = []
    for _ in range(3):
        with server(str(file)) as (_, seconds):
            times.append(seconds)
    return min(times)


def main() -> None:
    """Measure and print."""
    quick = common.arguments(__doc__).quick
    kb, name = knowledge()
    with tempfile.TemporaryDirectory() as folder:
        figures = {**loaded(kb, name, Path(folder), quick), "ready_seconds": start(Path(folder))}
    common.report("server", figures)


if __name__ == "__main__":
    main()

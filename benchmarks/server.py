"""Load test of the server on the loopback.

    GAIFMAN_DATA=… python benchmarks/server.py [--quick]

`gaifman serve` runs in its own process. 64 clients rank answers over FB15k, all objects for each query, one request
after another: `errors` are replies other than 200, `p99_over_p50` is of the response times. Then requests arrive at
twice that rate, without waiting for replies: `overload_goodput` is the rate of replies with status 200 relative to the
first phase, `overload_others` counts replies other than 200 and 503. `ready_seconds` is the time from the start of the
process to the first reply, for 100,000 facts without a model, the best of three. `memory_growth` is the memory after
100,000 requests (quick: 1,000) of all kinds relative to that after the first tenth; one in twenty is a ranking, one in
a hundred an explanation. `memory_errors` are those without a reply. Without the data set the knowledge base is
generated.
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
from gaifman.logic.ast import format_relation

CLIENTS = 64
SETTINGS: dict[str, Any] = {
    "base": "mlp",
    "phi": "paper",
    "positives": 1,
    "negatives": 2,
    "options": {"epochs": 1, "batch_size": 128},
}
IDLE = 2.0
"""Seconds after which a connection is not reused: the server may be closing it."""
SENDERS = 256
"""Threads of the overload: more than the server admits."""
Result = tuple[int, float, float]
"""Status, response time in seconds, and when it arrived."""


class Connection:
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

    def timed(self, request: object) -> Result:
        """Time one ranking."""
        begin = time.perf_counter()
        status, _ = self.ask("POST", "/api/answers", request)
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
            status_line = json.loads(running.stdout.readline())
            port = int(re.findall(r":(\d+)/", status_line["url"])[0])
            status, _ = Connection(port).ask("GET", "/api/health")
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


def ranking_requests(kb: KnowledgeBase, relations: Sequence[str], count: int) -> list[dict[str, Any]]:
    """Rankings for the second position of facts of some relations."""
    found, draws = [], np.random.default_rng(1)
    for relation in relations:
        facts = list(kb.facts(relation))
        for row in draws.integers(0, len(facts), count // len(relations)).tolist():
            query = f"{format_relation(relation)}(x, y)"
            bindings = {"x": facts[row].objects[0]}
            found.append({"query": query, "bindings": bindings, "top": 10, "candidates": "all"})
    order = draws.permutation(len(found)).tolist()
    return [found[place] for place in order]


def closed_loop(port: int, requests: Sequence[object], seconds: float) -> list[Result]:
    """Run clients that each send the next request after a reply."""
    found, end = list[Result](), time.perf_counter() + seconds

    def client(number: int) -> None:
        connection = Connection(port)
        while time.perf_counter() < end:
            found.append(connection.timed(requests[number % len(requests)]))
            number += CLIENTS

    _all([threading.Thread(target=client, args=(number,)) for number in range(CLIENTS)])
    return found


def open_loop(port: int, requests: Sequence[object], rate: float, seconds: float) -> list[Result]:
    """Queries at a steady rate, whether earlier ones are answered or not."""
    found, waiting = list[Result](), queue.SimpleQueue[object]()

    def client() -> None:
        connection = Connection(port)
        while (request := waiting.get()) is not None:
            found.append(connection.timed(request))

    threads = [threading.Thread(target=client) for _ in range(SENDERS)]
    for thread in threads:
        thread.start()
    begin = time.perf_counter()
    for number in range(int(rate * seconds)):
        time.sleep(max(0.0, begin + number / rate - time.perf_counter()))
        waiting.put(requests[number % len(requests)])
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


def _request(number: int, name: str, requests: Sequence[dict[str, Any]]) -> tuple[str, str, object]:
    """A random kind of request."""
    kind, request = number % 100, requests[number % len(requests)]
    if kind < 5:
        return "POST", "/api/answers", request
    if kind == 5:
        return (
            "POST",
            "/api/explanations",
            {"query": request["query"], "bindings": request["bindings"], "answer": [name]},
        )
    if kind < 30:
        return "GET", f"/api/facts?{urlencode({'object': name, 'rows': 20})}", None
    if kind < 50:
        return "GET", f"/api/objects?text=o{number % 1000}&rows=10", None
    return "POST", "/api/query", {"query": "x = y", "bindings": {"x": name}}


def growth(port: int, kb: KnowledgeBase, requests: Sequence[dict[str, Any]], count: int) -> tuple[float, int]:
    """Memory at the end over that after the first tenth; and the number of requests without an answer."""
    names, draws = kb.objects, np.random.default_rng(2)
    sizes, place, wrong = [0.0, 0.0], [0], [0]
    guard = threading.Lock()

    def client() -> None:
        connection = Connection(port)
        while True:
            with guard:
                place[0] += 1
                number, name = place[0], names[int(draws.integers(len(names)))]
            if number > count:
                return
            if number == count // 10:
                sizes[0] = memory(connection)
            status, _ = connection.ask(*_request(number, name, requests))
            wrong[0] += status != 200

    _all([threading.Thread(target=client) for _ in range(8)])
    sizes[1] = memory(Connection(port))
    return sizes[1] / sizes[0], wrong[0]


def memory(connection: Connection) -> float:
    """Resident memory of the server in bytes."""
    _, body = connection.ask("GET", "/metrics")
    return float(re.findall(rb"^process_resident_memory_bytes (\S+)", body, re.MULTILINE)[0])


def loaded(kb: KnowledgeBase, name: str, folder: Path, quick: bool) -> dict[str, float | int]:
    """All measurements of a server with a model."""
    file, model = folder / "kb.duckdb", folder / "model.gaifman"
    sizes = sorted((r.count, r.name) for r in kb.relations.values() if r.arity == 2 and r.count >= 50)
    relations = [relation for _, relation in sizes[:: max(1, len(sizes) // 4)][:4]]
    sys.stderr.write(f"training on {name} …\n")
    gaifman.complete(kb, relations, min_examples=0, **SETTINGS).save(model)
    gaifman.write(kb, file)
    requests, seconds = ranking_requests(kb, relations, 1000), 6.0 if quick else 30.0
    with server(str(file), str(model)) as (port, _):
        connection = Connection(port)
        _seconds(connection, requests[:1], 8)
        sys.stderr.write(f"{CLIENTS} clients …\n")
        begin = time.perf_counter()
        found = closed_loop(port, requests, seconds)
        times = [taken for status, taken, _ in found if status == 200]
        middle, late = np.quantile(times, [0.5, 0.99]).tolist()
        peak = per_second(found, begin, begin + seconds)
        sys.stderr.write(f"{2 * peak:.1f} requests per second …\n")
        begin = time.perf_counter()
        over = open_loop(port, requests, 2 * peak, seconds)
        goodput = per_second(over, begin, begin + seconds) / peak
        sys.stderr.write("memory …\n")
        more, lost = growth(port, kb, requests, 1_000 if quick else 100_000)
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
    }


def _seconds(connection: Connection, requests: Sequence[object], times: int) -> list[float]:
    """Seconds of queries, one after another."""
    found = [connection.timed(request) for _ in range(times) for request in requests]
    assert all(status == 200 for status, _, _ in found)
    return [taken for _, taken, _ in found]


def start(folder: Path) -> float:
    """Return the seconds until 100,000 facts are served."""
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

"""What a server counts about itself, in the text format of Prometheus.

>>> meters = Metrics()
>>> meters.observe_request("/api/health", 200, 0.001)
>>> print([line for line in meters.render().decode().splitlines() if line.startswith("gaifman_requests_total")][0])
gaifman_requests_total{path="/api/health",status="200"} 1.0
"""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4 as CONTENT_TYPE

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Seconds."""

GAUGES = {
    "gaifman_open_requests": "Requests that are there, whatever they ask.",
    "gaifman_running_requests": "Requests that are worked on.",
    "gaifman_queued_requests": "Requests that wait for being worked on.",
    "gaifman_objects": "Objects of the knowledge base.",
    "gaifman_facts": "Facts of the knowledge base.",
}
COUNTERS = {
    "gaifman_requests_total": "Requests answered, by path and status.",
    "gaifman_request_seconds": "Time until a request was answered, by path.",
    "gaifman_overloaded_total": "Requests that found the server too busy.",
    "gaifman_timeouts_total": "Requests whose work was stopped at the end of their time.",
    "gaifman_added_facts_total": "Facts that were added.",
}

__all__ = ["CONTENT_TYPE", "COUNTERS", "GAUGES", "Metrics"]


class Metrics:
    """The counts of one server: none are shared between two."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        words = COUNTERS
        self._requests = Counter(
            "gaifman_requests_total", words["gaifman_requests_total"], ["path", "status"], registry=self._registry
        )
        self._seconds = Histogram(
            "gaifman_request_seconds",
            words["gaifman_request_seconds"],
            ["path"],
            buckets=BUCKETS,
            registry=self._registry,
        )
        self.refused, self.timed_out, self.added = (
            Counter(name, words[name], registry=self._registry)
            for name in ("gaifman_overloaded_total", "gaifman_timeouts_total", "gaifman_added_facts_total")
        )
        ProcessCollector(registry=self._registry)

    def add_gauge(self, name: str, value: Callable[[], float]) -> None:
        """A gauge that is asked for its value whenever somebody looks."""
        Gauge(name, GAUGES[name], registry=self._registry).set_function(value)

    def observe_request(self, path: str, status: int, seconds: float) -> None:
        """One more request; `path` is one of few."""
        self._requests.labels(path, str(status)).inc()
        self._seconds.labels(path).observe(seconds)

    def render(self) -> bytes:
        """All of it, as Prometheus reads it."""
        return generate_latest(self._registry)

"""Metrics of a server, in the text format of Prometheus.

>>> metrics = Metrics()
>>> metrics.observe_request("/api/health", 200, 0.001)
>>> print([line for line in metrics.render().decode().splitlines() if line.startswith("gaifman_requests_total")][0])
gaifman_requests_total{path="/api/health",status="200"} 1.0
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4 as CONTENT_TYPE

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds of the histogram of response times, in seconds."""

__all__ = ["CONTENT_TYPE", "Metrics"]


class Metrics:
    """The metrics of one server, each defined here."""

    def __init__(self) -> None:
        registry = self._registry = CollectorRegistry()
        self.requests = Counter(
            "gaifman_requests_total", "Requests, by path and status.", ["path", "status"], registry=registry
        )
        self.seconds = Histogram(
            "gaifman_request_seconds",
            "Response times, by path.",
            ["path"],
            buckets=BUCKETS,
            registry=registry,
        )
        self.overloaded = Counter("gaifman_overloaded_total", "Requests refused by overload.", registry=registry)
        self.timeouts = Counter("gaifman_timeouts_total", "Requests stopped at their time limit.", registry=registry)
        self.stalled = Counter(
            "gaifman_stalled_total", "Connections closed because the client did not read.", registry=registry
        )
        self.added_facts = Counter("gaifman_added_facts_total", "Facts added.", registry=registry)
        self.open_requests = Gauge("gaifman_open_requests", "Open requests.", registry=registry)
        self.running_requests = Gauge("gaifman_running_requests", "Requests that run.", registry=registry)
        self.queued_requests = Gauge("gaifman_queued_requests", "Requests that wait.", registry=registry)
        self.objects = Gauge("gaifman_objects", "Objects of the knowledge base.", registry=registry)
        self.facts = Gauge("gaifman_facts", "Facts of the knowledge base.", registry=registry)
        ProcessCollector(registry=registry)

    def observe_request(self, path: str, status: int, seconds: float) -> None:
        """Count a request. `path` must be one of few: each makes time series of its own."""
        self.requests.labels(path, str(status)).inc()
        self.seconds.labels(path).observe(seconds)

    def names(self) -> list[str]:
        """Return the names of gaifman's metrics."""
        families = [family for family in self._registry.collect() if family.name.startswith("gaifman_")]
        return [f"{family.name}_total" if family.type == "counter" else family.name for family in families]

    def render(self) -> bytes:
        """Return all metrics as text."""
        return generate_latest(self._registry)

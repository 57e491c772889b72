"""Metrics."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from gaifman.server.middleware import Metrics


def samples(metrics: Metrics) -> dict[str, float]:
    """Name with labels → value."""
    return {
        f"{sample.name}{sorted(sample.labels.items()) or ''}": sample.value
        for family in text_string_to_metric_families(metrics.render().decode())
        for sample in family.samples
    }


def test_requests_are_counted_by_path_and_status() -> None:
    metrics = Metrics()
    for status, seconds in ((200, 0.02), (200, 0.2), (503, 0.001)):
        metrics.observe_request("/api/query", status, seconds)
    found = samples(metrics)
    assert found["gaifman_requests_total[('path', '/api/query'), ('status', '200')]"] == 2
    assert found["gaifman_requests_total[('path', '/api/query'), ('status', '503')]"] == 1
    assert found["gaifman_request_seconds_bucket[('le', '0.025'), ('path', '/api/query')]"] == 2
    assert found["gaifman_request_seconds_sum[('path', '/api/query')]"] == pytest.approx(0.221)


def test_gauges_are_read_when_rendered() -> None:
    metrics, value = Metrics(), [1.0]
    metrics.facts.set_function(lambda: value[0])
    assert samples(metrics)["gaifman_facts"] == 1
    value[0] = 5
    assert samples(metrics)["gaifman_facts"] == 5


def test_two_servers_have_separate_metrics() -> None:
    one, two = Metrics(), Metrics()
    one.overloaded.inc()
    assert samples(one)["gaifman_overloaded_total"] == 1
    assert samples(two)["gaifman_overloaded_total"] == 0


def test_every_metric_is_described() -> None:
    metrics = Metrics()
    families = {family.name: family for family in text_string_to_metric_families(metrics.render().decode())}
    own = {name.removesuffix("_total").removesuffix("_created") for name in families if name.startswith("gaifman_")}
    assert own == {name.removesuffix("_total") for name in metrics.names()}
    assert len(own) == 11
    assert all(family.documentation for family in families.values())
    assert families["process_resident_memory_bytes"].samples[0].value > 0

"""Metrics."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from gaifman.server.metrics import Metrics


def samples(meters: Metrics) -> dict[str, float]:
    """Name with labels → value."""
    return {
        f"{sample.name}{sorted(sample.labels.items()) or ''}": sample.value
        for family in text_string_to_metric_families(meters.render().decode())
        for sample in family.samples
    }


def test_requests_are_counted_by_path_and_status() -> None:
    meters = Metrics()
    for status, seconds in ((200, 0.02), (200, 0.2), (503, 0.001)):
        meters.observe_request("/api/query", status, seconds)
    found = samples(meters)
    assert found["gaifman_requests_total[('path', '/api/query'), ('status', '200')]"] == 2
    assert found["gaifman_requests_total[('path', '/api/query'), ('status', '503')]"] == 1
    assert found["gaifman_request_seconds_bucket[('le', '0.025'), ('path', '/api/query')]"] == 2
    assert found["gaifman_request_seconds_sum[('path', '/api/query')]"] == pytest.approx(0.221)


def test_gauges_are_asked_when_somebody_looks() -> None:
    meters, value = Metrics(), [1.0]
    meters.facts.set_function(lambda: value[0])
    assert samples(meters)["gaifman_facts"] == 1
    value[0] = 5
    assert samples(meters)["gaifman_facts"] == 5


def test_two_servers_count_apart() -> None:
    one, two = Metrics(), Metrics()
    one.overloaded.inc()
    assert samples(one)["gaifman_overloaded_total"] == 1
    assert samples(two)["gaifman_overloaded_total"] == 0


def test_everything_has_a_name_of_ours_and_words() -> None:
    meters = Metrics()
    families = {family.name: family for family in text_string_to_metric_families(meters.render().decode())}
    own = {name.removesuffix("_total").removesuffix("_created") for name in families if name.startswith("gaifman_")}
    assert own == {name.removesuffix("_total") for name in meters.names()}
    assert len(own) == 10
    assert all(family.documentation for family in families.values())
    assert families["process_resident_memory_bytes"].samples[0].value > 0

"""What every benchmark shares: the machine, the data, and the line of figures."""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from gaifman.completion import Completion
from gaifman.predict import NetworkPredictor


def machine() -> dict[str, str | int]:
    """The parts of the machine that matter for speed."""
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        lines = [line for line in info.read_text().splitlines() if line.startswith("model name")]
        model = lines[0].split(":", 1)[1].strip() if lines else model
    return {"processor": model, "cores": os.cpu_count() or 1, "python": platform.python_version()}


def arguments(description: str | None) -> argparse.Namespace:
    """The options of a benchmark."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="end within 50 seconds")
    return parser.parse_args()


def data(name: str) -> Path | None:
    """A file of the benchmark data, if the folder `GAIFMAN_DATA` has it."""
    folder = os.environ.get("GAIFMAN_DATA")
    path = Path(folder, name) if folder else None
    return path if path and path.exists() else None


def network(completion: Completion, relation: str) -> NetworkPredictor:
    """The predictor of a relation, which is that of a network."""
    predictor = completion.predictor(relation)
    assert isinstance(predictor, NetworkPredictor)
    return predictor


def interleaved(runs: int, **jobs: Callable[[], object]) -> dict[str, list[float]]:
    """Seconds of each job in each run; jobs alternate, so that a slow moment of the machine affects all."""
    seconds: dict[str, list[float]] = {name: [] for name in jobs}
    for _ in range(runs):
        for name, job in jobs.items():
            start = time.perf_counter()
            job()
            seconds[name].append(time.perf_counter() - start)
    return seconds


def median_ratio(ours: list[float], theirs: list[float]) -> float:
    """The median ratio of paired runs."""
    return statistics.median(a / b for a, b in zip(ours, theirs, strict=True))


def report(benchmark: str, figures: Mapping[str, float | int]) -> None:
    """Print the figures as JSON in the last line."""
    rounded = {name: round(figure, 3) if isinstance(figure, float) else figure for name, figure in figures.items()}
    print(json.dumps({"benchmark": benchmark, "machine": machine(), "figures": rounded}))

"""The trial of `gaifman demo`, for five choices of held-out facts: what comes back, beside popularity, and how fast.

python benchmarks/demo.py [--quick]

Each choice holds out another twentieth of each larger binary relation of the bundled knowledge base. The figures of
one choice are those of `gaifman demo`. `recurring_top_2` is the share of questions, from both sides, whose right object
stands first or second, where other facts of the relation have the object at the same position. `--quick` takes one.
"""

from __future__ import annotations

import sys
import time

import numpy as np

import gaifman
from common import arguments, report
from gaifman.cli.demo import Trial, run_trial

CHOICES = 5


def main() -> None:
    """Measure and report."""
    kb, trials, seconds = gaifman.demo(), list[Trial](), list[float]()
    for offset in range(1 if arguments(__doc__).quick else CHOICES):
        sys.stderr.write(f"choice {offset} …\n")
        start = time.process_time()
        trials.append(run_trial(kb, offset))
        seconds.append(time.process_time() - start)
    report(
        "demo",
        {
            "questions": float(np.mean([trial.total.questions for trial in trials])),
            "first": float(np.mean([trial.total.first for trial in trials])),
            "top_3": float(np.mean([trial.total.top_3 for trial in trials])),
            "popularity_first": float(np.mean([trial.total.popularity_first for trial in trials])),
            "popularity_top_3": float(np.mean([trial.total.popularity_top_3 for trial in trials])),
            "recurring_top_2": float(np.mean([trial.recurring_top_2 for trial in trials])),
            "recurring_top_2_least": min(trial.recurring_top_2 for trial in trials),
            "finds_least": min(len(trial.finds) for trial in trials),
            "cpu_s": float(np.median(seconds)),
        },
    )


if __name__ == "__main__":
    main()

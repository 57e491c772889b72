"""Run the default learner on a benchmark in a folder, beside a baseline and published figures.

The model is a run of `gaifman train`, and the ranking saves its relations one by one: an interrupted run is resumed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gaifman import __version__
from gaifman.completion import Completion
from gaifman.config import ProgressCallback
from gaifman.evaluation.evaluate import Evaluation, evaluate, evaluate_popularity
from gaifman.evaluation.tasks import EvaluationData, build_tasks, sample_tasks
from gaifman.experiments.benchmarks import BENCHMARKS, BenchmarkExperiment, BenchmarkSplits
from gaifman.experiments.runner import (
    check_record,
    draw_degrees,
    markdown_table,
    output_name,
    progress_or_stop,
    results_name,
    run_settings,
    train_or_resume,
    work_seconds,
    write_results,
)
from gaifman.jobs.run import LOG, read_log
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.kb.tables import rows_in
from gaifman.ranking.ranks import RankMetrics
from gaifman.threads import cached_property

OURS, BASELINE = "gaifman", "most frequent object first"
"""Names of rows."""
COLUMNS = ("", "MRR", "hits@1", "hits@10", "mean rank", "source")
NUMBER_COLUMNS = range(1, 5)


@dataclass(frozen=True, slots=True)
class BenchmarkResult:
    """The ranks of the test facts, and those of the baseline."""

    evaluation: Evaluation
    baseline: RankMetrics
    """Of the same facts."""
    training_seconds: float
    ranking_seconds: float
    """Of the model; the baseline is not in it."""


class BenchmarkRunner:
    """Trains and ranks a benchmark in a folder."""

    def __init__(
        self, experiment: BenchmarkExperiment, splits: BenchmarkSplits, folder: Path | str, command: str = ""
    ) -> None:
        experiment.check()
        self.experiment, self.splits, self.folder, self.command = experiment, splits, Path(folder), command
        self._check_record()

    def _check_record(self) -> None:
        """Record the settings that the model and its ranks depend on, or refuse a folder with other settings."""
        experiment, facts = self.experiment, ("train", "visible", "valid", "test")
        settings = {
            "data set": experiment.data,
            "protocol": "default",
            "settings": experiment.training_job().config,
            "parts of phi": [part if isinstance(part, str) else part.text for part in experiment.phi_parts],
            "facts": {name: getattr(self.splits, name).fingerprint for name in facts},
            "version of gaifman": __version__,
        }
        check_record(self.folder, settings)

    @property
    def model_file(self) -> Path:
        """The file of the model."""
        return self.folder / "model.gaifman"

    @property
    def ranks_folder(self) -> Path:
        """The folder of the ranks; other visible facts or fractions have other folders."""
        return self.folder / output_name("ranks", self.experiment.visible_facts, self.experiment.fraction)

    @property
    def results_name(self) -> str:
        """The stem of the result files."""
        return results_name(self.experiment.visible_facts, self.experiment.fraction)

    @cached_property
    def visible(self) -> KnowledgeBase:
        """The facts that are visible while test facts are ranked."""
        visible, valid = self.splits.visible, self.splits.valid
        return visible if self.experiment.visible_facts == "train" else visible.with_facts(valid.facts())

    @property
    def known(self) -> list[KnowledgeBase]:
        """The facts that are true too, but not visible."""
        return [self.splits.valid] if self.experiment.visible_facts == "train" else []

    def train(
        self,
        *,
        threads: int | None = None,
        progress: ProgressCallback | None = None,
        stop: Callable[[], bool] = lambda: False,
    ) -> Completion:
        """Return the model: load it, or train it, or resume its training."""
        splits, file_format = self.splits, self.experiment.benchmark.file_format
        spec = self.experiment.training_job()
        settings = run_settings(splits.source, spec, self.command, file_format=file_format, header=False)
        return train_or_resume(self.model_file, splits.train, settings, threads=threads, progress=progress, stop=stop)

    def rank(
        self,
        model: Completion,
        *,
        threads: int | None = None,
        progress: ProgressCallback | None = None,
        stop: Callable[[], bool] = lambda: False,
    ) -> BenchmarkResult:
        """Rank the test facts with the model and with the baseline; saved ranks of the model are reused."""
        evaluation = evaluate(
            model,
            self.visible,
            self.splits.test,
            self.known,
            threads=threads,
            progress=progress_or_stop(progress, stop),
            checkpoint_dir=self.ranks_folder,
            fraction=self.experiment.fraction,
            seed=self.experiment.seed,
        )
        training = work_seconds(read_log(f"{self.model_file}.{LOG}"))
        ranking = work_seconds(read_log(self.ranks_folder / LOG))
        return BenchmarkResult(evaluation, self._rank_baseline(model, evaluation), training, ranking)

    def _rank_baseline(self, model: Completion, evaluation: Evaluation) -> RankMetrics:
        """Return the metrics of the baseline on the facts that the model ranked."""
        seed = self.experiment.seed
        found = evaluate_popularity(model, self.visible, self.splits.test, self.known, seed=seed)
        if not evaluation.sampled:
            return found.metrics()
        ranked = self._ranked_rows(model, evaluation.ranked_facts)
        return found.metrics(ranked[found.fact])

    def _ranked_rows(self, model: Completion, count: int) -> npt.NDArray[np.bool_]:
        """Shape (test facts,), bool: whether a test fact is in the sample of `count` facts."""
        tasks = build_tasks(model, EvaluationData(self.visible, self.splits.test, self.known))
        sampled = {task.name: task.tuples for task in sample_tasks(tasks, count, self.experiment.seed)}
        none = {task.name: task.tuples[:0] for task in tasks}
        return np.concatenate([rows_in(task.tuples, (none | sampled)[task.name]) for task in tasks])

    def plot_degrees(self) -> None:
        """Draw the degree distribution of the training facts."""
        draw_degrees(self.splits.train, self.experiment.benchmark.title, self.folder)

    def results(self, result: BenchmarkResult) -> dict[str, Any]:
        """Return all results as fields for JSON."""
        experiment, evaluation = self.experiment, result.evaluation
        return {
            "data": experiment.data,
            "protocol": "default",
            "is_published": self.splits.is_published,
            "command": self.command,
            "sampled": evaluation.sampled,
            "facts": evaluation.ranked_facts,
            "test_facts": evaluation.test_facts,
            "objects": evaluation.objects,
            "visible": experiment.visible_facts,
            "chosen_settings": experiment.chosen_settings,
            "given_settings": experiment.given_settings,
            "settings": dict(experiment.training_job().config),
            "seed": experiment.seed,
            "ranks": "filtered, realistic ties",
            "ours": _metric_fields(evaluation.metrics()),
            "most_frequent": _metric_fields(result.baseline),
            "published": [figures.as_dict() for figures in experiment.benchmark.published],
            "seconds": {"training": round(result.training_seconds, 1), "ranking": round(result.ranking_seconds, 1)},
            "evaluation": evaluation.as_dict(),
        }

    def write(self, results: Mapping[str, Any]) -> None:
        """Write the results as JSON and as Markdown."""
        write_results(self.folder, self.results_name, results, markdown(results))


def _metric_fields(metrics: RankMetrics) -> dict[str, float]:
    found = {"mrr": metrics.mrr.value, "hits@1": metrics.hits[1].value, "hits@10": metrics.hits[10].value}
    return {name: round(value, 6) for name, value in (found | {"mean_rank": metrics.mean_rank.value}).items()}


def table_rows(results: Mapping[str, Any]) -> list[list[str]]:
    """The rows of the table: ours, the baseline, and what others published."""
    rows = [[name, *_metric_cells(results[key]), ""] for name, key in ((OURS, "ours"), (BASELINE, "most_frequent"))]
    for figures in results["published"]:
        cells = [figures.get(name, "") for name in ("mrr", "hits@1", "hits@10")]
        rows.append([figures["method"], *cells, "", figures["source"]])
    return rows


def _metric_cells(metrics: Mapping[str, float]) -> list[str]:
    return [*(f"{metrics[name]:.3f}" for name in ("mrr", "hits@1", "hits@10")), f"{metrics['mean_rank']:,.1f}"]


def notes(results: Mapping[str, Any]) -> list[str]:
    """Remarks to print below the table."""
    benchmark, seconds = BENCHMARKS[results["data"]], results["seconds"]
    found = [f"Wall time: training {seconds['training']:,.1f} s, ranking {seconds['ranking']:,.1f} s."]
    if results["sampled"]:
        found.append(f"A sample: {results['facts']:,} of {results['test_facts']:,} test facts.")
    if not results["is_published"]:
        applies = ": the published figures do not apply" if results["published"] else ""
        found.append(f"These are not the published facts of {benchmark.title}{applies}.")
    if benchmark.is_inductive:
        found.append(f"Trained on the facts of {benchmark.train_folder}; answers from those of {benchmark.folder}.")
    found.append(_settings_note(results))
    found.append(
        f"Ranks are filtered, at all positions, among {results['objects']:,} objects, with realistic ties; "
        f"visible facts: {results['visible']}."
    )
    if results["published"]:
        found.append("Published figures are quoted, not measured here.")
    return found


def _settings_note(results: Mapping[str, Any]) -> str:
    """Tell which settings are not the defaults, and who chose them."""
    chosen, given = results["chosen_settings"], results["given_settings"]
    reason = "because all objects are new" if BENCHMARKS[results["data"]].is_inductive else "on the validation facts"
    parts = [f"{_settings_text(chosen)}, chosen {reason}"] if chosen else []
    parts += [f"{_settings_text(given)}, given"] if given else []
    if not parts:
        parts = ["all are the defaults, none was chosen on the validation facts"]
    return f"Settings of the default learner: {'; '.join(parts)}; seed {results['seed']}."


def _settings_text(settings: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in sorted(settings.items()))


def markdown(results: Mapping[str, Any]) -> str:
    """Return the results as a page."""
    table = markdown_table(COLUMNS, table_rows(results), left=(0, len(COLUMNS) - 1))
    return "\n\n".join([f"# {table_title(results)}", f"`{results['command']}`", *notes(results), table]) + "\n"


def table_title(results: Mapping[str, Any]) -> str:
    """The title of the table and of the page."""
    return f"{BENCHMARKS[results['data']].title} with the default learner"

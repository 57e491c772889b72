"""Run the paper's experiments in a folder: finished parts are kept, and an interrupted run is resumed.

Rows that differ only in the number of draws share a training and a ranking. Each model is a run of `gaifman train`;
each ranking saves its relations one by one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from gaifman import __version__
from gaifman.completion import Completion, load
from gaifman.config import ProgressCallback
from gaifman.errors import GaifmanError, InputError, OutputError
from gaifman.evaluation.evaluate import Evaluation, evaluate_draw_counts
from gaifman.experiments.paper import DATASET_NAMES, PAPER_NETWORK, Experiment, TableRow, TrainingSetting, paper_result
from gaifman.io.files import atomic_write, display_path
from gaifman.io.model_file import canonical_json
from gaifman.jobs.run import LOG, RECORD, Run, check_same_settings, read_log
from gaifman.jobs.train import TrainingInterrupted, TrainingSpec, finish_cleanup, has_progress, run_training
from gaifman.kb.gaifman_graph import build_graph
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.plots import plot_degrees
from gaifman.threads import cached_property

RECORD_FILE, DEGREES_FILE = "experiment.json", "degrees.svg"
CHECKPOINT_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class DatasetSplits:
    """The facts of a data set."""

    train: KnowledgeBase
    valid: KnowledgeBase
    test: KnowledgeBase
    source: Path
    """The file of the training facts."""
    is_published: bool
    """Whether they are the published facts."""


@dataclass(frozen=True, slots=True)
class RowResult:
    """The result of a row."""

    row: TableRow
    evaluation: Evaluation
    training_seconds: float
    """Rows of a setting share a training."""
    ranking_seconds: float
    """Rows of a setting share a ranking."""

    @property
    def answers_per_second(self) -> float:
        """Scored candidates per second: every object at every position of every ranked fact."""
        return len(self.evaluation) * self.evaluation.objects / max(self.ranking_seconds, 1e-9)

    def as_dict(self, data: str) -> dict[str, Any]:
        """Return fields for JSON: our metrics, the paper's, times, and the whole evaluation."""
        paper, metrics = paper_result(data, self.row), self.evaluation.metrics()
        ours = {"mean_rank": metrics.mean_rank.value, "mrr": metrics.mrr.value}
        ours |= {f"hits@{k}": 100 * hits.value for k, hits in metrics.hits.items()}
        return {
            "row": self.row.number,
            "label": self.row.label,
            "N": self.row.draws,
            **asdict(self.row.setting),
            "ours": {name: round(value, 4) for name, value in ours.items()},
            "paper": {"mean_rank": paper.mean_rank, "hits@1": paper.hits_1, "hits@10": paper.hits_10},
            "seconds": {"training": round(self.training_seconds, 1), "ranking": round(self.ranking_seconds, 1)},
            "answers_per_second": round(self.answers_per_second, 1),
            "evaluation": self.evaluation.as_dict(),
        }


class ExperimentRunner:
    """Trains and ranks the rows of an experiment in a folder."""

    def __init__(self, experiment: Experiment, splits: DatasetSplits, folder: Path | str, command: str = "") -> None:
        experiment.check()
        self.experiment, self.splits, self.folder, self.command = experiment, splits, Path(folder), command
        self._check_record()

    def _check_record(self) -> None:
        """Record the settings that models and ranks depend on, or refuse a folder with other settings."""
        experiment, splits = self.experiment, self.splits
        settings = {
            "data set": experiment.data,
            "phi": experiment.phi,
            "text of phi": experiment.file.text if experiment.file else None,
            "options": experiment.options,
            "seed": experiment.seed,
            "facts": {name: getattr(splits, name).fingerprint for name in ("train", "valid", "test")},
            "version of gaifman": __version__,
        }
        check_record(self.folder, settings)

    @cached_property
    def visible(self) -> KnowledgeBase:
        """The facts that are visible while test facts are ranked."""
        train, valid = self.splits.train, self.splits.valid
        return train if self.experiment.visible_facts == "train" else train.with_facts(valid.facts())

    def model_file(self, setting: TrainingSetting) -> Path:
        """The file of a setting's model."""
        return self.folder / f"{setting.name}.gaifman"

    def ranks_folder(self, setting: TrainingSetting) -> Path:
        """The folder of a setting's ranks; other rows, visible facts or fractions have other folders."""
        experiment = self.experiment
        stem = f"ranks-{setting.name}-n{'-'.join(map(str, experiment.draws(setting)))}"
        return self.folder / output_name(stem, experiment.visible_facts, experiment.fraction)

    @property
    def results_name(self) -> str:
        """The stem of the result files; a fraction has its own, so that a quick look never replaces full results."""
        return results_name(self.experiment.visible_facts, self.experiment.fraction)

    def train(
        self,
        setting: TrainingSetting,
        *,
        threads: int | None = None,
        progress: ProgressCallback | None = None,
        stop: Callable[[], bool] = lambda: False,
    ) -> Completion:
        """Return the model of a setting: load it, or train it, or resume its training."""
        settings = run_settings(self.splits.source, self.experiment.training_job(setting), self.command)
        return train_or_resume(
            self.model_file(setting), self.splits.train, settings, threads=threads, progress=progress, stop=stop
        )

    def rank(
        self,
        setting: TrainingSetting,
        model: Completion,
        *,
        threads: int | None = None,
        progress: ProgressCallback | None = None,
        stop: Callable[[], bool] = lambda: False,
    ) -> list[RowResult]:
        """Rank the test facts for the rows of a setting; saved ranks are reused."""
        experiment, splits, folder = self.experiment, self.splits, self.ranks_folder(setting)
        evaluations = evaluate_draw_counts(
            model,
            self.visible,
            splits.test,
            [splits.valid] if experiment.visible_facts == "train" else [],
            draws=experiment.draws(setting),
            threads=threads,
            progress=progress_or_stop(progress, stop),
            checkpoint_dir=folder,
            fraction=experiment.fraction,
            seed=experiment.seed,
        )
        training = work_seconds(read_log(f"{self.model_file(setting)}.{LOG}"))
        ranking = work_seconds(read_log(folder / LOG))
        rows = [row for row in experiment.rows if row.setting == setting]
        return [RowResult(row, result, training, ranking) for row, result in zip(rows, evaluations, strict=True)]

    def plot_degrees(self) -> None:
        """Draw the degree distribution of the training facts."""
        draw_degrees(self.splits.train, DATASET_NAMES[self.experiment.data], self.folder)

    def results(self, rows: Sequence[RowResult]) -> dict[str, Any]:
        """Return all results as fields for JSON."""
        experiment, first = self.experiment, rows[0].evaluation
        return {
            "data": experiment.data,
            "is_published": self.splits.is_published,
            "command": self.command,
            "sampled": first.sampled,
            "facts": first.ranked_facts,
            "test_facts": first.test_facts,
            "visible": experiment.visible_facts,
            "phi": experiment.phi,
            "options": {**PAPER_NETWORK, **experiment.options},
            "seed": experiment.seed,
            "ranks": "filtered, realistic ties",
            "rows": [row.as_dict(experiment.data) for row in rows],
        }

    def write(self, results: Mapping[str, Any]) -> None:
        """Write the results as JSON and as Markdown."""
        write_results(self.folder, self.results_name, results, markdown(results))


METRIC_COLUMNS = ("[N, k, w, w̃]", "mean rank", "paper", "hits@10", "paper", "hits@1", "paper", "MRR")
TIME_COLUMNS = ("[N, k, w, w̃]", "training s", "ranking s", "answers/s")
"""Two tables: one would be too wide for a terminal."""


def metric_cells(row: Mapping[str, Any]) -> list[str]:
    """Our metrics beside the paper's; hits in percent."""
    ours, paper = row["ours"], row["paper"]
    cells = [f"{ours['mean_rank']:,.1f}", f"{paper['mean_rank']}"]
    for name in ("hits@10", "hits@1"):
        cells += [f"{ours[name]:.1f}", f"{paper[name]:.1f}"]
    return [row["label"], *cells, f"{ours['mrr']:.3f}"]


def time_cells(row: Mapping[str, Any]) -> list[str]:
    """Times of a row."""
    seconds = row["seconds"]
    return [
        row["label"],
        f"{seconds['training']:,.0f}",
        f"{seconds['ranking']:,.0f}",
        f"{row['answers_per_second']:,.0f}",
    ]


def notes(results: Mapping[str, Any]) -> list[str]:
    """Remarks to print below the tables."""
    found = []
    if results["sampled"]:
        found.append(f"A sample: {results['facts']:,} of {results['test_facts']:,} test facts.")
    if not results["is_published"]:
        found.append(
            f"These are not the published facts of {DATASET_NAMES[results['data']]}: the paper's figures do not apply."
        )
    options = ", ".join(f"{name}={json.dumps(value)}" for name, value in sorted(results["options"].items()))
    found.append(f"Φ {results['phi']}; {options}; seed {results['seed']}; visible facts: {results['visible']}.")
    found.append("Ranks are filtered, with realistic ties. Rows with the same k, w, w̃ share training and ranking.")
    return found


def markdown(results: Mapping[str, Any]) -> str:
    """Return the results as a page."""
    rows = results["rows"]
    parts = [
        f"# {DATASET_NAMES[results['data']]} beside the paper's Table 2",
        f"`{results['command']}`",
        *notes(results),
    ]
    parts += [
        markdown_table(METRIC_COLUMNS, [metric_cells(row) for row in rows]),
        markdown_table(TIME_COLUMNS, [time_cells(row) for row in rows]),
    ]
    return "\n\n".join(parts) + "\n"


# The folder of any experiment


def check_record(folder: Path, settings: Mapping[str, Any]) -> None:
    """Record the settings of an experiment in its folder, or refuse a folder with other settings or files."""
    path, wanted = folder / RECORD_FILE, json.loads(canonical_json(settings))
    make_folder(folder)
    if path.exists():
        check_same_settings(folder, read_json(path), wanted, "another reproduction", "name another folder with -o")
        return
    if any(not entry.name.startswith(".") for entry in folder.iterdir()):
        raise OutputError(f"{display_path(folder)} is not empty", hint="name a new folder with -o")
    write_json(path, wanted)


def run_settings(
    source: Path, spec: TrainingSpec, command: str, *, file_format: str | None = None, header: bool | None = None
) -> dict[str, Any]:
    """Return the settings of a training run on a file; with them `gaifman resume` can continue it too."""
    reading: dict[str, Any] = {"format": file_format, "table": None, "iris": "full", "header": header}
    reading |= {"limits": [], "mapping": {}}
    return {
        "kb": {"sources": [str(source)], "also": [], **reading, "working_dir": str(Path.cwd())},
        "spec": spec.as_dict(),
        "command": command,
        "plot": None,
        "checkpoint_interval": CHECKPOINT_SECONDS,
    }


def train_or_resume(
    target: Path,
    kb: KnowledgeBase,
    settings: Mapping[str, Any],
    *,
    threads: int | None = None,
    progress: ProgressCallback | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> Completion:
    """Return the completion in the file `target`: load it, or train it, or resume its training."""
    folder = Path(f"{target}.run")
    started = (folder / RECORD).exists()
    if target.is_file() and not started:
        return _require_completion(load(target))
    with Run.open(folder) if started else Run.create(folder, dict(settings)) as run:
        try:
            model = finish_cleanup(run, target)
            if model is None:
                model = run_training(run, kb, target, threads=threads, report=progress, should_stop=stop)
        except GaifmanError:
            if not has_progress(run):
                run.discard()
            raise
    return _require_completion(model)


def output_name(stem: str, visible_facts: str, fraction: float | None) -> str:
    """Return the name of an output; other visible facts or fractions have other names.

    >>> output_name("ranks", "train", None), output_name("ranks", "train+valid", 0.5)
    ('ranks', 'ranks-valid-fraction0.5')
    """
    parts = [stem]
    parts += ["valid"] if visible_facts != "train" else []
    parts += [f"fraction{fraction:g}"] if fraction is not None else []
    return "-".join(parts)


def results_name(visible_facts: str, fraction: float | None) -> str:
    """Return the stem of the result files; a fraction of 1 is the whole."""
    return output_name("results", visible_facts, None if fraction == 1 else fraction)


def progress_or_stop(progress: ProgressCallback | None, stop: Callable[[], bool]) -> ProgressCallback:
    """Return a progress callback that raises `TrainingInterrupted` once `stop` says so."""

    def report(phase: str, done: int, total: int | None) -> None:
        if stop():
            raise TrainingInterrupted
        if progress:
            progress(phase, done, total)

    return report


def draw_degrees(kb: KnowledgeBase, name: str, folder: Path) -> None:
    """Draw the degree distribution of the training facts of a data set."""
    graph = build_graph(kb)
    title = f"{name}: {len(graph):,} objects, {len(graph.neighbours) // 2:,} edges"
    plot_degrees(*graph.degree_distribution(), folder / DEGREES_FILE, title)


def write_results(folder: Path, name: str, results: Mapping[str, Any], page: str) -> None:
    """Write the results as JSON, and the page with the degree distribution if it is drawn."""
    write_json(folder / f"{name}.json", results)
    with atomic_write(folder / f"{name}.md") as temporary:
        picture = f"\n![degrees]({DEGREES_FILE})\n" if (folder / DEGREES_FILE).exists() else ""
        temporary.write_text(page + picture, encoding="utf-8")


def markdown_table(columns: Sequence[str], rows: Sequence[Sequence[str]], left: Sequence[int] = (0,)) -> str:
    """Return a table; all columns but those of `left` are aligned to the right."""
    rule = ["---" if index in left else "---:" for index in range(len(columns))]
    return "\n".join(f"| {' | '.join(line)} |" for line in [columns, rule, *rows])


def write_json(path: Path, body: Mapping[str, Any]) -> None:
    """Write a JSON object atomically."""
    with atomic_write(path) as temporary:
        temporary.write_text(json.dumps(body, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")


def make_folder(folder: Path) -> None:
    """Create a folder if it does not exist."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot create the folder {display_path(folder)}: {error.strerror}") from None


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object that `write_json` wrote."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(
            f"cannot read {display_path(path)}: {error}", hint="remove it, or name another folder with -o"
        ) from None
    return found if isinstance(found, dict) else {}


def work_seconds(events: Sequence[Mapping[str, Any]]) -> float:
    """Return the seconds of work in a log: from each start to the last event before the next start.

    A session that found nothing to do counts nothing, so that a repeated command shows the same times.

    >>> moments = ((0, "start"), (9, "stop"), (20, "start"), (25, "relation"), (26, "end"), (40, "start"), (41, "end"))
    >>> work_seconds([{"time": f"2026-01-01T00:00:{at:02}+00:00", "event": event} for at, event in moments])
    15.0
    """
    sessions: list[list[Mapping[str, Any]]] = []
    for event in events:
        if event["event"] == "start" or not sessions:
            sessions.append([])
        sessions[-1].append(event)
    busy = [session for session in sessions if [event["event"] for event in session] != ["start", "end"]]
    return sum((_event_time(session[-1]) - _event_time(session[0])).total_seconds() for session in busy)


def _event_time(event: Mapping[str, Any]) -> datetime:
    return datetime.fromisoformat(event["time"])


def _require_completion(model: Any) -> Completion:
    if not isinstance(model, Completion):
        raise InputError("the model in this folder is not a completion", hint="name another folder with -o")
    return model

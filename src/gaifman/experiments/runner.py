"""The paper's experiments in a folder: what is done there is not done again, and what was stopped goes on.

Rows of the table that differ in the number of draws alone share one training and one pass over the candidates. Every
model is a run of `gaifman train`, every ranking keeps its relations one by one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from gaifman import __version__
from gaifman.completion import Completion, load
from gaifman.config import ProgressCallback
from gaifman.errors import GaifmanError, InputError, OutputError
from gaifman.evaluation.evaluate import Evaluation, evaluate_draw_counts
from gaifman.experiments.paper import DATASET_NAMES, PAPER_NETWORK, Experiment, TableRow, TrainingSetting, paper_result
from gaifman.experiments.speeds import PAPER_ANSWERS_PER_SECOND as PAPER_SPEED
from gaifman.experiments.speeds import measure_throughput
from gaifman.io.files import atomic_write, display_path
from gaifman.io.model_file import canonical_json
from gaifman.jobs.run import LOG, RECORD, Run, read_log
from gaifman.jobs.train import TrainingInterrupted, finish_cleanup, has_progress, run_training
from gaifman.kb.gaifman_graph import build_graph
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.plots import plot_degrees, plot_throughput

RECORD_FILE, THROUGHPUT_FILE, DEGREES_FILE, THROUGHPUT_PLOT = (
    "experiment.json",
    "throughput.json",
    "degrees.svg",
    "throughput.svg",
)


@dataclass(frozen=True, slots=True)
class DatasetSplits:
    """A data set in memory."""

    train: KnowledgeBase
    valid: KnowledgeBase
    test: KnowledgeBase
    source: Path
    """The file of the training facts."""
    is_published: bool
    """Whether these are the facts that the paper's figures are of."""


@dataclass(frozen=True, slots=True)
class RowResult:
    """One row, done."""

    row: TableRow
    evaluation: Evaluation
    training_seconds: float
    """Seconds; rows of one setting share them."""
    ranking_seconds: float
    """Seconds of the pass, which rows of one setting share."""

    @property
    def answers_per_second(self) -> float:
        """Answers a second: every object at every place of every ranked fact is one."""
        return len(self.evaluation) * self.evaluation.objects / max(self.ranking_seconds, 1e-9)

    def as_dict(self, data: str) -> dict[str, Any]:
        """For JSON: the figures beside the paper's, then all of them."""
        paper, whole = paper_result(data, self.row), self.evaluation.metrics()
        own = {"mean_rank": whole.mean_rank.value, "mrr": whole.mrr.value}
        own |= {f"hits@{most}": 100 * figure.value for most, figure in whole.hits.items()}
        setting = {"N": self.row.draws, **asdict(self.row.setting)}
        return {
            "row": self.row.number,
            "label": self.row.label,
            **setting,
            "ours": {name: round(value, 4) for name, value in own.items()},
            "paper": {"mean_rank": paper.mean_rank, "hits@1": paper.hits_1, "hits@10": paper.hits_10},
            "seconds": {"training": round(self.training_seconds, 1), "ranking": round(self.ranking_seconds, 1)},
            "answers_per_second": round(self.answers_per_second, 1),
            "evaluation": self.evaluation.as_dict(),
        }


class ExperimentRunner:
    """A folder in which a study is done; what is there already is not done again."""

    def __init__(self, experiment: Experiment, splits: DatasetSplits, folder: Path | str, command: str = "") -> None:
        experiment.check()
        self.experiment, self.splits, self.folder, self.command = experiment, splits, Path(folder), command
        self._check_record()

    def _check_record(self) -> None:
        """Write down what models and ranks in this folder hang on, or refuse one that was begun with something else."""
        study, splits, path = self.experiment, self.splits, self.folder / RECORD_FILE
        kbs = {name: getattr(splits, name).fingerprint for name in ("train", "valid", "test")}
        phi = {"phi": study.phi, "text of phi": study.file.text if study.file else None}
        about = {"data set": study.data, **phi, "options": study.options, "seed": study.seed, "facts": kbs}
        wanted = json.loads(canonical_json(about | {"version of gaifman": __version__}))
        make_folder(self.folder)
        if not path.exists():
            if any(not entry.name.startswith(".") for entry in self.folder.iterdir()):
                raise OutputError(f"{display_path(self.folder)} holds other things", hint="name a new folder with -o")
            write_json(path, wanted)
            return
        found = read_json(path)
        other = [name for name in wanted if found.get(name) != wanted[name]]
        if other:
            raise InputError(
                f"{display_path(self.folder)} holds another reproduction; what differs: {', '.join(other)}",
                hint="name another folder with -o",
            )

    @cached_property
    def visible(self) -> KnowledgeBase:
        """What test facts are judged from."""
        train, valid = self.splits.train, self.splits.valid
        return train if self.experiment.visible_facts == "train" else train.with_facts(valid.facts())

    def model_file(self, setting: TrainingSetting) -> Path:
        """Where the model of a setting stands, or will."""
        return self.folder / f"{setting.name}.gaifman"

    def ranks_folder(self, setting: TrainingSetting) -> Path:
        """Where the ranks of a setting are kept: another folder for another choice of rows, facts or fraction."""
        return self.folder / self._result_name(
            f"ranks-{setting.name}-n{'-'.join(map(str, self.experiment.draws(setting)))}"
        )

    @property
    def results_name(self) -> str:
        """How the files with the results begin: a quick look does not replace what took hours."""
        return self._result_name("results", whole=self.experiment.fraction == 1)

    def _result_name(self, first: str, *, whole: bool = False) -> str:
        parts = [first]
        parts += ["valid"] if self.experiment.visible_facts != "train" else []
        parts += [f"fraction{self.experiment.fraction:g}"] if self.experiment.fraction is not None and not whole else []
        return "-".join(parts)

    def train(
        self,
        setting: TrainingSetting,
        *,
        threads: int | None = None,
        progress: ProgressCallback | None = None,
        stop: Callable[[], bool] = lambda: False,
    ) -> Completion:
        """The model of a setting: loaded where it is there, trained where not, from where an earlier training stood."""
        target = self.model_file(setting)
        folder = Path(f"{target}.run")
        if target.is_file() and not (folder / RECORD).exists():
            return _require_completion(load(target))
        with self._open_run(folder, setting) as run:
            try:
                model = finish_cleanup(run, target)
                if model is None:
                    model = run_training(
                        run, self.splits.train, target, threads=threads, report=progress, should_stop=stop
                    )
            except GaifmanError:
                if not has_progress(run):
                    run.discard()
                raise
        return _require_completion(model)

    def _open_run(self, folder: Path, setting: TrainingSetting) -> Run:
        """The run of a training, which `gaifman resume` can go on with too."""
        if (folder / RECORD).exists():
            return Run.open(folder)
        source = {"sources": [str(self.splits.source)], "format": None, "table": None, "iris": "full"}
        begun_with = {
            "kb": source | {"working_dir": str(Path.cwd())},
            "spec": self.experiment.training_job(setting).as_dict(),
            "command": self.command,
            "plot": None,
            "checkpoint_interval": 30.0,
        }
        return Run.create(folder, begun_with)

    def rank(
        self,
        setting: TrainingSetting,
        model: Completion,
        *,
        threads: int | None = None,
        progress: ProgressCallback | None = None,
        stop: Callable[[], bool] = lambda: False,
    ) -> list[RowResult]:
        """The rows of a setting; ranks that are kept are not made again."""
        study, splits, kept = self.experiment, self.splits, self.ranks_folder(setting)
        found = evaluate_draw_counts(
            model,
            self.visible,
            splits.test,
            [splits.valid] if study.visible_facts == "train" else [],
            draws=study.draws(setting),
            threads=threads,
            progress=_progress_or_stop(progress, stop),
            checkpoint_dir=kept,
            fraction=study.fraction,
            seed=study.seed,
        )
        training = work_seconds(read_log(f"{self.model_file(setting)}.{LOG}"))
        ranking = work_seconds(read_log(kept / LOG))
        rows = [row for row in study.rows if row.setting == setting]
        return [RowResult(row, each, training, ranking) for row, each in zip(rows, found, strict=True)]

    def measure_throughput(
        self,
        model: Completion,
        *,
        threads: int | None = None,
        progress: ProgressCallback | None = None,
        stop: Callable[[], bool] = lambda: False,
    ) -> list[dict[str, Any]]:
        """Answers a second against k; measured once in a folder."""
        path, told = self.folder / THROUGHPUT_FILE, _progress_or_stop(progress, stop)
        if path.exists():
            return list(read_json(path)["throughput"])
        measured = measure_throughput(model, self.visible, self.splits.test, threads=threads, progress=told)
        found = [each.as_dict() for each in measured]
        write_json(path, {"throughput": found})
        return found

    def plot(self, measured: Sequence[Mapping[str, Any]]) -> None:
        """Both figures: who has how many neighbours, and how fast answers come."""
        graph, name = build_graph(self.splits.train), DATASET_NAMES[self.experiment.data]
        title = f"{name}: {len(graph):,} objects, {len(graph.neighbours) // 2:,} edges"
        plot_degrees(*graph.degree_distribution(), self.folder / DEGREES_FILE, title)
        lines = {
            "all candidates ranked": [each["ranking_per_second"] for each in measured],
            "independent pairs": [each["pairs_per_second"] for each in measured],
        }
        drawn = {label: values for label, values in lines.items() if any(values)}
        plot_throughput(
            [each["size"] for each in measured],
            drawn,
            self.folder / THROUGHPUT_PLOT,
            f"{name}: answers a second",
            (f"the paper: {PAPER_SPEED:,}", PAPER_SPEED),
        )

    def results(self, done: Sequence[RowResult], measured: Sequence[Mapping[str, Any]] = ()) -> dict[str, Any]:
        """All that came out, for JSON."""
        study, first = self.experiment, done[0].evaluation
        return {
            "data": study.data,
            "is_published": self.splits.is_published,
            "command": self.command,
            "sampled": first.sampled,
            "facts": first.ranked_facts,
            "test_facts": first.test_facts,
            "visible": study.visible_facts,
            "phi": study.phi,
            "options": {**PAPER_NETWORK, **study.options},
            "seed": study.seed,
            "ranks": "filtered, realistic ties",
            "rows": [each.as_dict(study.data) for each in done],
            "throughput": [*measured],
        }

    def write(self, results: Mapping[str, Any]) -> None:
        """Write the results, for programs and for people."""
        write_json(self.folder / f"{self.results_name}.json", results)
        with atomic_write(self.folder / f"{self.results_name}.md") as temporary:
            temporary.write_text(markdown(results), encoding="utf-8")


def _progress_or_stop(progress: ProgressCallback | None, stop: Callable[[], bool]) -> ProgressCallback:
    """A report that ends the work where it is to stop: whoever does it comes by here between two blocks."""

    def told(phase: str, done: int, total: int | None) -> None:
        if stop():
            raise TrainingInterrupted
        if progress:
            progress(phase, done, total)

    return told


METRIC_COLUMNS = ("[N, k, w, w̃]", "mean rank", "paper", "hits@10", "paper", "hits@1", "paper", "MRR")
TIME_COLUMNS = ("[N, k, w, w̃]", "training s", "ranking s", "answers/s")
"""Columns of both tables: side by side they are too wide for a terminal."""


def metric_cells(row: Mapping[str, Any]) -> list[str]:
    """How good a row is, beside the paper's; hits in percent."""
    ours, paper = row["ours"], row["paper"]
    both = [f"{ours['mean_rank']:,.1f}", f"{paper['mean_rank']}"]
    for name in ("hits@10", "hits@1"):
        both += [f"{ours[name]:.1f}", f"{paper[name]:.1f}"]
    return [row["label"], *both, f"{ours['mrr']:.3f}"]


def time_cells(row: Mapping[str, Any]) -> list[str]:
    """How long a row took."""
    seconds = row["seconds"]
    return [
        row["label"],
        f"{seconds['training']:,.0f}",
        f"{seconds['ranking']:,.0f}",
        f"{row['answers_per_second']:,.0f}",
    ]


def notes(results: Mapping[str, Any]) -> list[str]:
    """What a reader of the table must know."""
    found = []
    if results["sampled"]:
        found.append(f"A sample: {results['facts']:,} of {results['test_facts']:,} test facts were ranked.")
    if not results["is_published"]:
        found.append(
            f"The facts are not the published {DATASET_NAMES[results['data']]}: the paper's figures are of others."
        )
    options = ", ".join(f"{name}={json.dumps(value)}" for name, value in sorted(results["options"].items()))
    found.append(f"Φ is {results['phi']}; {options}; seed {results['seed']}; visible are {results['visible']} facts.")
    found.append("Ranks are filtered, with realistic ties. Rows of the same k, w, w̃ share training and ranking.")
    return found


def markdown(results: Mapping[str, Any]) -> str:
    """The results, for people."""
    rows = results["rows"]
    parts = [
        f"# {DATASET_NAMES[results['data']]}, beside the paper's Table 2",
        f"`{results['command']}`",
        *notes(results),
    ]
    parts += [
        _table(METRIC_COLUMNS, [metric_cells(row) for row in rows]),
        _table(TIME_COLUMNS, [time_cells(row) for row in rows]),
    ]
    if results["throughput"]:
        parts += [f"Answers a second, the mean over relations; the paper reports {PAPER_SPEED:,}:"]
        parts += [
            _table(("k", "independent pairs/s", "ranking/s"), [_speed_cells(each) for each in results["throughput"]])
        ]
        parts += [f"![degrees]({DEGREES_FILE}) ![answers a second]({THROUGHPUT_PLOT})"]
    return "\n\n".join(parts) + "\n"


def _speed_cells(each: Mapping[str, Any]) -> list[str]:
    rates = [each["pairs_per_second"], each["ranking_per_second"]]
    size = "∞" if each["size"] is None else str(each["size"])
    return [size, *("–" if rate is None else f"{rate:,.0f}" for rate in rates)]


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [columns, ["---", *["---:"] * (len(columns) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def write_json(path: Path, body: Mapping[str, Any]) -> None:
    """Write an object, whole or not at all."""
    with atomic_write(path) as temporary:
        temporary.write_text(json.dumps(body, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")


def make_folder(folder: Path) -> None:
    """Make a folder where there is none."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{display_path(folder)} cannot be a folder: {error.strerror}") from None


def read_json(path: Path) -> dict[str, Any]:
    """The object in a file of ours."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(
            f"{display_path(path)} cannot be read: {error}", hint="remove it, or name another folder"
        ) from None
    return found if isinstance(found, dict) else {}


def work_seconds(events: Sequence[Mapping[str, Any]]) -> float:
    """Seconds of work by a log: from each start to the last that is heard before the next.

    Where nothing was left to do, nothing is added: the figures of a command stay when it is given again.

    >>> moments = ((0, "start"), (9, "stop"), (20, "start"), (25, "relation"), (26, "end"), (40, "start"), (41, "end"))
    >>> work_seconds([{"time": f"2026-01-01T00:00:{at:02}+00:00", "event": event} for at, event in moments])
    15.0
    """
    sessions: list[list[Mapping[str, Any]]] = []
    for event in events:
        if event["event"] == "start" or not sessions:
            sessions.append([])
        sessions[-1].append(event)
    busy = [own for own in sessions if [event["event"] for event in own] != ["start", "end"]]
    return sum((_event_time(own[-1]) - _event_time(own[0])).total_seconds() for own in busy)


def _event_time(event: Mapping[str, Any]) -> datetime:
    return datetime.fromisoformat(event["time"])


def _require_completion(model: Any) -> Completion:
    if not isinstance(model, Completion):
        raise InputError("the model is that of a query, not a completion", hint="name another folder with -o")
    return model

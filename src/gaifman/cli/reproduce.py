"""`gaifman reproduce`: the paper's experiments from data to a table beside the paper's figures."""

from __future__ import annotations

import shlex
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gaifman.cli.terminal import (
    json_option,
    open_kb,
    print_json,
    print_stopped,
    print_table,
    read_progress,
    work_progress,
)
from gaifman.cli.train import parse_model_options, read_text_file

if TYPE_CHECKING:
    from gaifman.jobs.run import InterruptHandler
    from gaifman.jobs.train import SourceText
    from gaifman.reproduction import DatasetSplits, ExperimentRunner, RowResult
    from gaifman.studies import Experiment


@click.command(short_help="Run the paper's experiments, beside the paper's figures.")
@click.argument("data", type=click.Choice(["wn18", "fb15k"]))
@click.option("--output", "-o", metavar="FOLDER", help="Where all is kept; reproduce-wn18 or reproduce-fb15k.")
@click.option("--rows", multiple=True, metavar="NUMBERS", help="Only these rows of the table, 1 to 5: --rows 1,3.")
@click.option("--fraction", type=float, help="The share of the test facts to rank, for a quick look.")
@click.option(
    "--facts",
    type=click.Choice(["train", "train+valid"]),
    default="train",
    show_default=True,
    help="What is visible while test facts are ranked; learnt is from train.",
)
@click.option("--data", "source", metavar="FOLDER", help="Where WN18 and FB15k are; else GAIFMAN_DATA, else fetched.")
@click.option(
    "--manner",
    type=click.Choice(["ours", "paper"]),
    default="ours",
    show_default=True,
    help="Features, corruptions and network: what does best on the validation facts, or the paper's.",
)
@click.option("--phi", help="Other features: a .phi file, or paper, universal-schema, default.")
@click.option("--option", "options", multiple=True, metavar="NAME=VALUE", help="Another setting: epochs=5.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of everything that is drawn.")
@click.option("--figures/--no-figures", default=True, show_default=True, help="Measure speed and draw both figures.")
@click.option("--threads", type=click.IntRange(min=1), help="How many threads; ranks are the same.")
@json_option
def reproduce(
    data: str,
    output: str | None,
    rows: tuple[str, ...],
    fraction: float | None,
    visible: str,
    data_dir: str | None,
    protocol: str,
    phi: str | None,
    options: tuple[str, ...],
    seed: int,
    figures: bool,
    threads: int | None,
    as_json: bool,
) -> None:
    """Train and rank the rows of the paper's Table 2 on WN18 or FB15k, and set the figures beside the paper's.

    A row is [N, k, w, w̃]: 1 is [1, ∞, 1, 5], 2 is [1, 20, 1, 2], 3, 4 and 5 are [1, 20, 5, 25], [2, 20, 5, 25] and
    [3, 20, 5, 25]. All is kept in FOLDER: models, ranks, results.md, results.json, degrees.svg and runtime.svg.
    Stopped or killed, the same command goes on.

    \b
    Examples:
      gaifman reproduce wn18
      gaifman reproduce wn18 --rows 3,4,5 --fraction 0.02
      gaifman reproduce wn18 --manner paper -o paper
      gaifman reproduce fb15k --phi mine.phi --option activation=relu -o mine
    """
    from gaifman.jobs.run import InterruptHandler
    from gaifman.jobs.train import TrainingInterrupted
    from gaifman.reproduction import ExperimentRunner
    from gaifman.studies import Experiment, add_constant_features, protocol_for, select_rows

    own = protocol_for(protocol, data)
    name, file = (own.phi, own.file) if phi is None else _load_features(phi)
    settings = {**own.options, **parse_model_options(options)}
    study = Experiment(data, select_rows(rows), name, file, settings, visible, fraction, seed)
    study.check()
    folder = Path(output or f"reproduce-{data}")
    if figures:
        _check_plotting()
    command = shlex.join(["gaifman", *sys.argv[1:]])
    interrupt = InterruptHandler("" if as_json else "stopping: the same command goes on")
    try:
        splits = _read_splits(study, data_dir)  # not yet guarded: here Ctrl-C may stop at once
        study = add_constant_features(study, own, splits.train) if phi is None else study
        with interrupt:
            work = ExperimentRunner(study, splits, folder, command)
            results = _run_experiments(work, figures, threads, interrupt)
    except (TrainingInterrupted, KeyboardInterrupt):
        print_stopped("reproduction", command, as_json)
        sys.exit(128 + (interrupt.received or signal.SIGINT))
    if as_json:
        print_json(results)
    else:
        _print_results(results, folder, work.results_name)


def _load_features(phi: str) -> tuple[str, SourceText | None]:
    """The name of a set of features, and the text of a file that it comes from."""
    file = read_text_file(phi) if Path(phi).suffix == ".phi" or Path(phi).is_file() else None
    return Path(phi).stem if file else phi, file


def _check_plotting() -> None:
    """Say now, not after hours, that pictures cannot be drawn."""
    from gaifman.errors import OutputError
    from gaifman.plots import check_plot

    try:
        check_plot(Path("degrees.svg"))
    except OutputError as error:
        raise OutputError(error.message, hint=f"{error.hint}, or --no-figures") from None


def _read_splits(study: Experiment, data_dir: str | None) -> DatasetSplits:
    """The three parts; fetched where they are nowhere."""
    from gaifman.downloads import DATASETS, locate_dataset
    from gaifman.reproduction import DatasetSplits

    with read_progress() as report:
        files = locate_dataset(DATASETS[study.data], data_dir, report)
    train, valid, test = (open_kb((str(path),), "triples") for path in (files.train, files.valid, files.test))
    return DatasetSplits(train, valid, test, files.train.absolute(), files.is_published(DATASETS[study.data]))


def _run_experiments(
    work: ExperimentRunner, figures: bool, threads: int | None, interrupt: InterruptHandler
) -> dict[str, Any]:
    """One training and one ranking after another, then the figures."""
    done: list[RowResult] = []
    measured: list[dict[str, Any]] = []
    for setting in work.experiment.settings:
        with work_progress("examples") as report:
            model = work.train(setting, threads=threads, progress=report, stop=interrupt.stop_requested)
        with work_progress("ranks") as report:
            done += work.rank(setting, model, threads=threads, progress=report, stop=interrupt.stop_requested)
    if figures:
        with work_progress("relations") as report:
            measured = work.measure_throughput(model, threads=threads, progress=report, stop=interrupt.stop_requested)
        work.plot(measured)
    results = work.results(done, measured)
    work.write(results)
    return results


def _print_results(results: dict[str, Any], folder: Path, name: str) -> None:
    from gaifman.reproduction import METRIC_COLUMNS, TIME_COLUMNS, metric_cells, notes, time_cells
    from gaifman.studies import DATASET_NAMES

    rows, data = results["rows"], DATASET_NAMES[results["data"]]
    print_table(
        f"{data}, beside the paper's Table 2", METRIC_COLUMNS, map(metric_cells, rows), range(1, len(METRIC_COLUMNS))
    )
    print_table("Times", TIME_COLUMNS, map(time_cells, rows), range(1, len(TIME_COLUMNS)))
    click.echo()
    for note in notes(results):
        click.echo(note)
    more = ", degrees.svg, runtime.svg" if results["speeds"] else ""
    click.echo(f"wrote {name}.md, {name}.json{more} in {folder}", err=True)

"""`gaifman evaluate`: rank test facts, and say how well a model does."""

from __future__ import annotations

import shlex
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gaifman.cli.console import (
    input_options,
    json_option,
    open_kb,
    print_fields,
    print_json,
    print_stopped,
    print_table,
    read_progress,
    work_progress,
)
from gaifman.cli.train import parse_model_options, read_text_file

if TYPE_CHECKING:
    from gaifman.evaluation.evaluate import Evaluation
    from gaifman.evaluation.ranks import MetricValue, RankMetrics
    from gaifman.experiments.paper import Experiment
    from gaifman.experiments.runner import DatasetSplits, ExperimentRunner, RowResult
    from gaifman.jobs.interrupt import InterruptHandler
    from gaifman.jobs.train import SourceText


MAX_RELATIONS = 10
"""Relations listed on the terminal; `--json` has all."""


@click.command(short_help="Rank test facts, and say how well a model does.")
@click.argument("model")
@click.argument("kb")
@click.argument("test")
@click.option(
    "--filter",
    "filter_files",
    multiple=True,
    metavar="FILE",
    help="Facts that are true too: they are not ranked as rivals.",
)
@click.option("--with", "extra_files", multiple=True, metavar="FILE", help="Judge from the facts of this file too.")
@click.option("--relation", "relations", multiple=True, metavar="NAME", help="Only test facts of this relation.")
@click.option("--raw", is_flag=True, help="Show ranks among all objects, known answers included.")
@click.option("--fraction", type=float, help="The share of the test facts to rank, for a quick look.")
@click.option("--count", type=int, help="Or how many of them.")
@click.option("--draws", type=int, help="Neighbourhoods to average scores over; as many as the model says.")
@click.option("--seed", type=int, default=0, show_default=True, help="Which facts, corruptions and intervals.")
@click.option(
    "--checkpoint-dir", metavar="FOLDER", help="Keep ranks there; stopped or killed, the same command goes on."
)
@click.option("--threads", type=click.IntRange(min=1), help="How many threads; the result is the same.")
@input_options
@json_option
def evaluate(
    model: str,
    kb: str,
    test: str,
    filter_files: tuple[str, ...],
    extra_files: tuple[str, ...],
    relations: tuple[str, ...],
    raw: bool,
    checkpoint_dir: str | None,
    threads: int | None,
    file_format: str | None,
    table: str | None,
    iris: str,
    as_json: bool,
    draws: int | None,
    fraction: float | None,
    count: int | None,
    seed: int,
) -> None:
    """Rank the facts of TEST by what MODEL says, judging from the facts of KB.

    Each place of each fact is given every object, and the right one is ranked among those that make no fact of KB, TEST
    or --filter. Objects that only TEST has are ranked as well. TEST's facts are never visible, even where KB has them.

    \b
    Examples:
      gaifman evaluate wn18.gaifman train.tsv test.tsv --filter valid.tsv
      gaifman evaluate wn18.gaifman train.tsv test.tsv --with valid.tsv --fraction 0.1
      gaifman evaluate wn18.gaifman train.tsv test.tsv --filter valid.tsv --checkpoint-dir wn18.ranks
    """
    from gaifman.completion import load
    from gaifman.evaluation.evaluate import EvaluationConfig
    from gaifman.evaluation.evaluate import evaluate as evaluated

    EvaluationConfig(relations or None, fraction, count, seed=seed)  # checked before anything is read
    reading = file_format, table, iris
    found = load(model)
    facts, tested = open_kb((kb, *extra_files), *reading), open_kb((test,), *reading)
    more = [open_kb(filter_files, *reading)] if filter_files else []
    try:
        with work_progress("ranks") as report:
            result = evaluated(
                found,
                facts,
                tested,
                more,
                relations=relations or None,
                draws=draws,
                fraction=fraction,
                count=count,
                seed=seed,
                threads=threads,
                progress=report,
                checkpoint_dir=checkpoint_dir,
            )
    except KeyboardInterrupt:
        if checkpoint_dir is None:
            raise
        print_stopped("evaluation", shlex.join(["gaifman", *sys.argv[1:]]), as_json)
        sys.exit(128 + signal.SIGINT)
    if as_json:
        print_json(result.as_dict())
    else:
        _print_evaluation(result, raw)


def _print_evaluation(evaluation: Evaluation, raw: bool) -> None:
    """The figures with their intervals, then tables."""
    from gaifman.evaluation.evaluate import INTERVALS, format_metrics

    whole = evaluation.metrics(raw=raw)
    ranked = f"{evaluation.ranked_facts:,}" + (f", a sample of {evaluation.test_facts:,}" if evaluation.sampled else "")
    print_fields(
        [
            ("test facts", ranked),
            ("candidates", _candidates_text(evaluation)),
            ("draws", evaluation.draws),
            *_metric_rows(whole),
        ]
    )
    kind = "among all objects (raw)" if raw else "among objects that are not known answers (filtered)"
    columns = ["", "ranks", "mean rank", "MRR", "hits@1", "hits@3", "hits@10"]
    right = range(1, len(columns))
    print_table(
        f"Ranks {kind}",
        columns,
        [(name, *format_metrics(each)) for name, each in evaluation.table_rows(raw=raw)],
        right,
    )
    by_size = sorted(evaluation.metrics_by("relation", raw=raw).items(), key=lambda row: (-row[1].ranks, row[0]))
    kinds = dict(zip(evaluation.relations, evaluation.categories, strict=True))
    columns[0:1] = ["relation", "category"]
    rows = [(name, kinds[name], *format_metrics(each)) for name, each in by_size[:MAX_RELATIONS]]
    print_table("Relations", columns, rows, range(2, len(columns)))
    if len(by_size) > MAX_RELATIONS:
        click.echo(f"… and {len(by_size) - MAX_RELATIONS:,} more with --json")
    untrained = [name for name, trained in zip(evaluation.relations, evaluation.trained, strict=True) if not trained]
    if untrained:
        click.echo(f"without a trained model, ranked by the fallback: {', '.join(untrained[:MAX_RELATIONS])}")
    _print_classification(evaluation.classification.metrics())
    click.echo(f"\nin brackets: {INTERVALS}")


def _candidates_text(evaluation: Evaluation) -> str:
    text = f"{evaluation.objects:,} objects"
    if evaluation.unseen_objects:
        text += f"; {evaluation.unseen_objects:,} of the test facts' objects not in the knowledge base"
    if evaluation.hidden_test_facts:
        text += f"; {evaluation.hidden_test_facts:,} test {'facts were' if evaluation.hidden_test_facts > 1 else 'fact was'} taken out of it"
    return text


def _metric_rows(whole: RankMetrics) -> list[tuple[str, str]]:
    rows = [("mean rank", _with_interval(whole.mean_rank, 1)), ("MRR", _with_interval(whole.mrr, 3))]
    return rows + [(f"hits@{most}", _with_interval(figure, 3)) for most, figure in whole.hits.items()]


def _with_interval(figure: MetricValue, digits: int) -> str:
    return f"{figure.value:,.{digits}f} [{figure.low:,.{digits}f}, {figure.high:,.{digits}f}]"


def _print_classification(metrics: dict[str, Any]) -> None:
    """How well test facts are told from corruptions, where there are some."""
    if metrics["auc"] is None:
        click.echo("\nthere are no corruptions to tell the test facts from")
        return
    click.echo("\n" + click.style(f"Test facts and {metrics['negatives']:,} corruptions", bold=True))
    area, precision = metrics["auc"], metrics["average_precision"]
    print_fields([("AUC", f"{area:.3f}"), ("average precision", f"{precision:.3f}")])


@click.command(short_help="Run the paper's experiments, beside the paper's figures.")
@click.argument("data", type=click.Choice(["wn18", "fb15k"]))
@click.option("--output", "-o", metavar="FOLDER", help="Where all is kept; reproduce-wn18 or reproduce-fb15k.")
@click.option("--rows", multiple=True, metavar="NUMBERS", help="Only these rows of the table, 1 to 5: --rows 1,3.")
@click.option("--fraction", type=float, help="The share of the test facts to rank, for a quick look.")
@click.option(
    "--visible",
    type=click.Choice(["train", "train+valid"]),
    default="train",
    show_default=True,
    help="What is visible while test facts are ranked; learnt is from train.",
)
@click.option("--data-dir", metavar="FOLDER", help="Where WN18 and FB15k are; else GAIFMAN_DATA, else fetched.")
@click.option(
    "--protocol",
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
    [3, 20, 5, 25]. All is kept in FOLDER: models, ranks, results.md, results.json, degrees.svg and throughput.svg.
    Stopped or killed, the same command goes on.

    \b
    Examples:
      gaifman reproduce wn18
      gaifman reproduce wn18 --rows 3,4,5 --fraction 0.02
      gaifman reproduce wn18 --protocol paper -o paper
      gaifman reproduce fb15k --phi mine.phi --option activation=relu -o mine
    """
    from gaifman.experiments.paper import Experiment, add_constant_features, protocol_for, select_rows
    from gaifman.experiments.runner import ExperimentRunner
    from gaifman.jobs.interrupt import InterruptHandler
    from gaifman.jobs.train import TrainingInterrupted

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
    from gaifman.experiments.datasets import DATASETS, locate_dataset
    from gaifman.experiments.runner import DatasetSplits

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
    from gaifman.experiments.paper import DATASET_NAMES
    from gaifman.experiments.runner import METRIC_COLUMNS, TIME_COLUMNS, metric_cells, notes, time_cells

    rows, data = results["rows"], DATASET_NAMES[results["data"]]
    print_table(
        f"{data}, beside the paper's Table 2", METRIC_COLUMNS, map(metric_cells, rows), range(1, len(METRIC_COLUMNS))
    )
    print_table("Times", TIME_COLUMNS, map(time_cells, rows), range(1, len(TIME_COLUMNS)))
    click.echo()
    for note in notes(results):
        click.echo(note)
    more = ", degrees.svg, throughput.svg" if results["throughput"] else ""
    click.echo(f"wrote {name}.md, {name}.json{more} in {folder}", err=True)

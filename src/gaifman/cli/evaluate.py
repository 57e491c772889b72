"""Commands that measure a model: evaluate and reproduce."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gaifman._tables import columns_from, flat_row
from gaifman.cli.console import (
    MAX_LISTED,
    InputOptions,
    command_text,
    kb_options,
    output_options,
    parse_model_options,
    print_fields,
    print_json,
    print_more,
    print_rows,
    print_stopped,
    print_table,
    read_progress,
    work_progress,
)
from gaifman.cli.train import feature_sources

if TYPE_CHECKING:
    from gaifman.evaluation.evaluate import Evaluation
    from gaifman.evaluation.proposals import ProposalTest
    from gaifman.experiments.benchmark_runner import BenchmarkRunner
    from gaifman.experiments.benchmarks import BenchmarkSplits
    from gaifman.experiments.paper import Experiment
    from gaifman.experiments.runner import DatasetSplits, ExperimentRunner, RowResult
    from gaifman.jobs.run import InterruptHandler
    from gaifman.jobs.train import SourceText
    from gaifman.ranking.ranks import MetricValue, RankMetrics


PAPER_DATA = ("wn18", "fb15k")
"""Data sets of the paper's Table 2."""
BENCHMARK_DATA = (
    *("fb15k-237", "wn18rr", "grail-fb237-v1", "grail-fb237-v2", "grail-wn18rr-v1", "grail-wn18rr-v2"),
    *("fb-auto", "jf17k", "kinships", "umls", "nations", "family", "countries-s1", "countries-s2", "countries-s3"),
)
"""Other benchmarks."""


@click.command(short_help="Evaluate a model on test facts.")
@click.argument("model")
@click.argument("kb")
@click.argument("test")
@click.option(
    "--filter", "filter_files", multiple=True, metavar="FILE", help="More true facts, to leave out as candidates."
)
@click.option("--relation", "relations", multiple=True, metavar="NAME", help="Only test facts of this relation.")
@click.option("--raw", is_flag=True, help="Show raw ranks: among all objects, other true facts included.")
@click.option("--fraction", type=float, help="Fraction of the test facts to rank.  [default: all]")
@click.option("--count", type=int, help="Number of test facts to rank.  [default: all]")
@click.option("--draws", type=int, help="Neighbourhoods per candidate.  [default: the model's]")
@click.option("--seed", type=int, default=0, show_default=True, help="Random seed of samples, negatives and intervals.")
@click.option("--checkpoint-dir", metavar="FOLDER", help="Save ranks here; the same command resumes after a stop.")
@click.option(
    "--proposals/--no-proposals",
    default=True,
    show_default=True,
    help="Check probabilities: propose facts and compare them with those of TEST. Only for ranked lists.",
)
@click.option("--plot", metavar="FILE", help="Plot the reliability of proposals; .svg, .pdf or .png.")
@click.option("--threads", type=click.IntRange(min=1), help="Number of threads.  [default: all processors]")
@kb_options
@output_options
def evaluate(
    model: str,
    kb: str,
    test: str,
    filter_files: tuple[str, ...],
    relations: tuple[str, ...],
    raw: bool,
    fraction: float | None,
    count: int | None,
    draws: int | None,
    seed: int,
    checkpoint_dir: str | None,
    proposals: bool,
    plot: str | None,
    threads: int | None,
    reading: InputOptions,
    as_json: bool,
) -> None:
    """Rank the facts of TEST with MODEL, given the facts of KB; print mean rank, MRR and hits@k. Check probabilities.

    \b
    Examples:
      gaifman evaluate wn18.gaifman train.tsv test.tsv --filter valid.tsv
      gaifman evaluate wn18.gaifman train.tsv test.tsv --with valid.tsv --fraction 0.1
      gaifman evaluate wn18.gaifman train.tsv test.tsv --filter valid.tsv --checkpoint-dir wn18.ranks

    At each position of a test fact, its object is ranked among all objects that give no other true fact: no fact of
    KB, TEST or the --filter files. Test facts are hidden from the model, also if KB has them.

    Probabilities are checked as they are used: facts that are not known are proposed, assuming that as many are missing
    as TEST has, and compared with TEST.
    """
    from gaifman.completion import load
    from gaifman.evaluation.evaluate import EvaluationConfig
    from gaifman.evaluation.evaluate import evaluate as evaluate_model
    from gaifman.evaluation.proposals import has_ranked_lists, measure_proposals
    from gaifman.plots import check_plot, plot_proposals

    names = relations or None
    EvaluationConfig(names, fraction, count, seed=seed)  # errors before any file is read
    if plot:
        check_plot(Path(plot))
    loaded, other = load(model), reading.without_extra_files()
    known, tested = reading.read(kb), other.read(test)
    true = [other.read(*filter_files)] if filter_files else []
    try:
        with work_progress("ranks") as report:
            result = evaluate_model(
                loaded,
                known,
                tested,
                true,
                threads=threads,
                progress=report,
                checkpoint_dir=checkpoint_dir,
                relations=names,
                draws=draws,
                fraction=fraction,
                count=count,
                seed=seed,
            )
        proposed = None
        if proposals and has_ranked_lists(loaded, names):
            with work_progress("relations") as report:
                proposed = measure_proposals(
                    loaded, known, tested, true, relations=names, seed=seed, threads=threads, progress=report
                )
    except KeyboardInterrupt:
        if checkpoint_dir is None:
            raise
        print_stopped("evaluation", command_text(), as_json)
        sys.exit(128 + signal.SIGINT)
    if plot and proposed:
        plot_proposals(proposed, Path(plot))
    if as_json:
        print_json(result.as_dict() | ({"proposals": proposed.as_dict()} if proposed else {}))
        return
    if print_rows(result.columns):
        return
    _print_evaluation(result, raw)
    if proposed:
        _print_proposals(proposed)


def _print_evaluation(evaluation: Evaluation, raw: bool) -> None:
    """Print the metrics with intervals, then by ties, position, category and relation, then the classification."""
    from gaifman.evaluation.evaluate import INTERVALS, format_metrics

    sample = f" (a sample of {evaluation.test_facts:,})" if evaluation.sampled else ""
    print_fields(
        [
            ("test facts", f"{evaluation.ranked_facts:,}{sample}"),
            ("candidates", _candidates_text(evaluation)),
            ("draws", evaluation.draws),
            *_metric_rows(evaluation.metrics(raw=raw)),
        ]
    )
    click.echo(f"(intervals: {INTERVALS})")
    columns = ["ranks", "mean rank", "MRR", "hits@1", "hits@3", "hits@10"]
    rows = [(name, *format_metrics(metrics)) for name, metrics in evaluation.table_rows(raw=raw)]
    print_table(f"{'Raw' if raw else 'Filtered'} ranks", ["", *columns], rows, range(1, 1 + len(columns)))
    by_size = sorted(evaluation.metrics_by("relation", raw=raw).items(), key=lambda row: (-row[1].ranks, row[0]))
    categories = dict(zip(evaluation.relations, evaluation.categories, strict=True))
    rows = [(name, categories[name], *format_metrics(metrics)) for name, metrics in by_size[:MAX_LISTED]]
    print_table("By relation", ["relation", "category", *columns], rows, range(2, 2 + len(columns)))
    print_more(len(by_size) - MAX_LISTED, "relations", "--json has them")
    untrained = [name for name, trained in zip(evaluation.relations, evaluation.trained, strict=True) if not trained]
    if untrained:
        click.echo(f"ranked by the fallback, because they have no model: {', '.join(untrained[:MAX_LISTED])}")
    _print_classification(evaluation.classification.metrics())
    if evaluation.confidences is not None:
        _print_confidences(evaluation.confidences.metrics())


def _print_proposals(proposed: ProposalTest) -> None:
    """Print how many facts are expected and found, the reliability of their probabilities, and other scores beside."""
    from gaifman.evaluation.proposals import MIN_CONFIDENT, MIN_PROPOSED

    table, (confident, precision) = proposed.reliability, proposed.confident()
    title = f"Probabilities of facts that are not known, if {proposed.missing:.1%} of the facts are missing"
    click.echo("\n" + click.style(title, bold=True))
    rows = [
        ("held out", f"{proposed.held_out:,}"),
        ("expected", f"{proposed.expected:,.1f}: the sum of all probabilities"),
    ]
    if table is not None:
        rows.append(("calibration error", f"{table.ece:.3f} of those with {MIN_PROPOSED:g} or more"))
    if precision is not None:
        text = f"{precision:.1%} of {confident:,.0f} with {MIN_CONFIDENT:g} or more"
        rows.append(("held-out facts", text))
    print_fields(rows)
    if table is not None:
        shown = [
            (f"{low:.1f} – {high:.1f}", f"{count:,.0f}", f"{mean:.3f}", f"{found:.3f}")
            for low, high, count, mean, found in zip(
                table.edges, table.edges[1:], table.counts, table.predicted, table.observed, strict=False
            )
            if count
        ]
        columns = ["probability", "proposed", "mean", "held out"]
        print_table(f"Proposed with {MIN_PROPOSED:g} or more", columns, shown, right=[1, 2, 3])
    if sets := proposed.sets.as_dict():
        covered = [
            (name, f"{one['facts']:,.0f}", f"{one['coverage']:.1%}", f"{one['median_size']:,}")
            for name, one in sets.items()
        ]
        columns = ["", "held out", "in the set", "median size"]
        print_table("Answer sets, which hold nine in ten missing answers", columns, covered, right=[1, 2, 3])
    names = {"temperature": "raw score, temperature", "platt": "raw score, Platt", "isotonic": "raw score, isotonic"}
    quality = [
        (names.get(name, name), f"{one.brier:.3f}", f"{one.log_loss:.3f}", "–" if one.ece is None else f"{one.ece:.3f}")
        for name, one in proposed.quality().items()
    ]
    columns = ["", "Brier", "log loss", "calibration error"]
    print_table("Sums over all candidates, per held-out fact", columns, quality, right=[1, 2, 3])
    click.echo("Raw scores are rescaled on half of the held-out facts and measured on the other half.")


def _candidates_text(evaluation: Evaluation) -> str:
    text = f"{evaluation.objects:,} objects"
    if evaluation.unseen_objects:
        text += f"; {evaluation.unseen_objects:,} of the test objects are not in KB"
    if hidden := evaluation.hidden_test_facts:
        text += f"; {hidden:,} test fact{'s' if hidden > 1 else ''} in KB {'were' if hidden > 1 else 'was'} hidden"
    return text


def _metric_rows(metrics: RankMetrics) -> list[tuple[str, str]]:
    rows = [("mean rank", _with_interval(metrics.mean_rank, 1)), ("MRR", _with_interval(metrics.mrr, 3))]
    return rows + [(f"hits@{k}", _with_interval(hits, 3)) for k, hits in metrics.hits.items()]


def _with_interval(metric: MetricValue, digits: int) -> str:
    return f"{metric.value:,.{digits}f} [{metric.low:,.{digits}f}, {metric.high:,.{digits}f}]"


def _print_classification(metrics: dict[str, Any]) -> None:
    """Print how well scores separate test facts from negatives."""
    if metrics["auc"] is None:
        click.echo("\nNo classification: there are no negatives.")
        return
    title = f"Classification: {metrics['facts']:,} test facts and {metrics['negatives']:,} negatives"
    click.echo("\n" + click.style(title, bold=True))
    auc, precision = f"{metrics['auc']:.3f}", f"{metrics['average_precision']:.3f}"
    print_fields([("AUC", auc), ("average precision", precision)])


def _print_confidences(metrics: dict[str, Any]) -> None:
    """Print how near the probabilities are to the confidences of the test facts, beside constants."""
    names = {"model": "model", "relation_mean": "mean of the relation", "relation_median": "median of the relation"}
    rows = [
        (text, f"{metrics[name]['mae']:.3f}", "" if (r := metrics[name]["correlation"]) is None else f"{r:.3f}")
        for name, text in names.items()
    ]
    print_table(f"Confidences of {metrics['facts']:,} test facts", ["", "MAE", "correlation"], rows, right=[1, 2])


@click.command(short_help="Reproduce the paper's experiments and today's benchmarks.")
@click.argument("data", type=click.Choice([*PAPER_DATA, *BENCHMARK_DATA]), metavar="DATA")
@click.option(
    "--output",
    "-o",
    metavar="FOLDER",
    help="Folder of all output.  [default: reproduce-DATA; with --protocol default on wn18, reproduce-wn18-default]",
)
@click.option("--rows", multiple=True, metavar="NUMBERS", help="Rows of the table, 1 to 5, like 1,3.  [default: all]")
@click.option("--fraction", type=float, help="Fraction of the test facts to rank.  [default: all]")
@click.option(
    "--visible",
    type=click.Choice(["train", "train+valid"]),
    default="train",
    show_default=True,
    help="Facts that are visible during ranking; training always uses train.",
)
@click.option(
    "--data-dir",
    metavar="FOLDER",
    help="Folder with the data sets.  [default: GAIFMAN_DATA; wn18 and fb15k are downloaded]",
)
@click.option(
    "--protocol",
    type=click.Choice(["ours", "paper", "default"]),
    help="Features, negatives and network: the best on the validation facts, the paper's, or the default learner.  "
    "[default: ours for wn18 and fb15k, else default]",
)
@click.option(
    "--phi",
    multiple=True,
    help="Another feature set: paper, universal-schema, default, or a .phi file. Repeatable with the default learner, "
    "which adds the formulas of a file to the mined ones.",
)
@click.option("--option", "options", multiple=True, metavar="NAME=VALUE", help="Another training setting: epochs=5.")
@click.option("--seed", type=int, default=0, show_default=True, help="Random seed.")
@click.option("--figures/--no-figures", default=True, show_default=True, help="Plot the degree distribution.")
@click.option("--threads", type=click.IntRange(min=1), help="Number of threads.  [default: all processors]")
@output_options
def reproduce(
    data: str,
    output: str | None,
    rows: tuple[str, ...],
    protocol: str | None,
    figures: bool,
    as_json: bool,
    **settings: Any,
) -> None:
    """Train and rank the rows of the paper's Table 2, or one of today's benchmarks; print published results beside.

    \b
    Examples:
      gaifman reproduce wn18
      gaifman reproduce wn18 --rows 3,4,5 --fraction 0.02
      gaifman reproduce wn18 --protocol paper -o paper
      gaifman reproduce fb15k --phi mine.phi --option activation=relu -o mine
      gaifman reproduce wn18rr --data-dir data
      gaifman reproduce fb15k --protocol default

    DATA is wn18 or fb15k for the paper's table. A row is [N, k, w, w̃]: 1 is [1, ∞, 1, 5], 2 is [1, 20, 1, 2], 3, 4
    and 5 are [1, 20, 5, 25], [2, 20, 5, 25] and [3, 20, 5, 25].

    The default learner runs on fb15k-237, wn18rr, grail-fb237-v1, grail-fb237-v2, grail-wn18rr-v1, grail-wn18rr-v2,
    fb-auto, jf17k, kinships, umls, nations, family, countries-s1, countries-s2 and countries-s3, and with --protocol
    default on wn18 and fb15k.

    The folder gets the models, their ranks, results.md, results.json and degrees.svg. If the command is interrupted,
    the same command resumes it.
    """
    chosen = _choose_protocol(data, protocol, rows)
    own_folder = data in PAPER_DATA and chosen == "default"
    folder = Path(output or f"reproduce-{data}{'-default' if own_folder else ''}")
    request = {**settings, "folder": folder, "figures": figures, "as_json": as_json}
    if chosen == "default":
        name, results = _reproduce_benchmark(data, **request)
    else:
        name, results = _reproduce_rows(data, chosen, rows, **request)
    if as_json:
        print_json(results)
        return
    if print_rows(lambda: columns_from([flat_row(row) for row in results.get("rows", [results])])):
        return
    (_print_benchmark if chosen == "default" else _print_results)(results)
    picture = ", degrees.svg" if figures else ""
    click.echo(f"wrote {name}.md, {name}.json{picture} in {folder}", err=True)


def _choose_protocol(data: str, protocol: str | None, rows: tuple[str, ...]) -> str:
    """Return the protocol; raise an error for one that the data set does not have, and for rows without a table."""
    from gaifman.errors import InputError

    if data in BENCHMARK_DATA and protocol in ("ours", "paper"):
        raise InputError(
            f"--protocol {protocol} is for the data sets of the paper's table, wn18 and fb15k",
            hint=f"leave it out: {data} is run with the default learner",
        )
    chosen = protocol or ("ours" if data in PAPER_DATA else "default")
    if rows and chosen == "default":
        hint = "leave it out" + (", or use --protocol ours" if data in PAPER_DATA else "")
        raise InputError(
            "--rows selects rows of the paper's table, which are settings of its network; the default learner has one",
            hint=hint,
        )
    return chosen


@contextmanager
def _resumable(as_json: bool) -> Iterator[tuple[str, InterruptHandler]]:
    """Give the command and a handler for Ctrl-C; print how to resume if the work in the block is stopped."""
    from gaifman.jobs.run import InterruptHandler
    from gaifman.jobs.train import TrainingInterrupted

    command = command_text()
    interrupt = InterruptHandler("" if as_json else "stopping after the next checkpoint …")
    try:
        yield command, interrupt
    except (TrainingInterrupted, KeyboardInterrupt):
        print_stopped("reproduction", command, as_json)
        sys.exit(128 + (interrupt.received or signal.SIGINT))


def _reproduce_rows(
    data: str,
    protocol: str,
    rows: tuple[str, ...],
    *,
    folder: Path,
    fraction: float | None,
    visible: str,
    data_dir: str | None,
    phi: tuple[str, ...],
    options: tuple[str, ...],
    seed: int,
    figures: bool,
    threads: int | None,
    as_json: bool,
) -> tuple[str, dict[str, Any]]:
    """Run rows of the paper's table; return the stem of the result files, and the results."""
    from gaifman.experiments.paper import Experiment, add_constant_features, protocol_for, select_rows
    from gaifman.experiments.runner import ExperimentRunner

    chosen = protocol_for(protocol, data)
    name, file = _one_feature_set(phi) if phi else (chosen.phi, chosen.file)
    settings = {**chosen.options, **parse_model_options(options)}
    experiment = Experiment(data, select_rows(rows), name, file, settings, visible, fraction, seed)
    experiment.check()
    if figures:
        _check_plotting()
    with _resumable(as_json) as (command, interrupt):
        splits = _read_splits(experiment, data_dir)  # before the handler: here Ctrl-C stops at once
        experiment = experiment if phi else add_constant_features(experiment, chosen, splits.train)
        with interrupt:
            runner = ExperimentRunner(experiment, splits, folder, command)
            results = _run_experiment(runner, figures, threads, interrupt)
    return runner.results_name, results


def _reproduce_benchmark(
    data: str,
    *,
    folder: Path,
    fraction: float | None,
    visible: str,
    data_dir: str | None,
    phi: tuple[str, ...],
    options: tuple[str, ...],
    seed: int,
    figures: bool,
    threads: int | None,
    as_json: bool,
) -> tuple[str, dict[str, Any]]:
    """Run the default learner on a benchmark; return the stem of the result files, and the results."""
    from gaifman.experiments.benchmark_runner import BenchmarkRunner
    from gaifman.experiments.benchmarks import BenchmarkExperiment

    name, parts = feature_sources(phi) if phi else (None, ())
    experiment = BenchmarkExperiment(data, name, parts, parse_model_options(options), visible, fraction, seed)
    experiment.check()
    if figures:
        _check_plotting()
    with _resumable(as_json) as (command, interrupt):
        splits = _read_benchmark(data, data_dir)  # before the handler: here Ctrl-C stops at once
        with interrupt:
            runner = BenchmarkRunner(experiment, splits, folder, command)
            results = _run_benchmark(runner, figures, threads, interrupt)
    return runner.results_name, results


def _one_feature_set(phi: tuple[str, ...]) -> tuple[str, SourceText | None]:
    """Return the name of the feature set of a row of the paper's table, and its text if it is a file."""
    from gaifman.errors import InputError

    if len(phi) > 1:
        raise InputError(
            "a row of the paper's table has one feature set", hint="give --phi once, or use --protocol default"
        )
    name, parts = feature_sources(phi)
    return name, next((part for part in parts if not isinstance(part, str)), None)


def _check_plotting() -> None:
    """Raise an error now, not after hours, if plots cannot be drawn."""
    from gaifman.errors import OutputError
    from gaifman.plots import check_plot

    try:
        check_plot(Path("degrees.svg"))
    except OutputError as error:
        raise OutputError(error.message, hint=f"{error.hint}, or --no-figures") from None


def _read_splits(experiment: Experiment, data_dir: str | None) -> DatasetSplits:
    from gaifman.experiments.datasets import DATASETS, locate_dataset
    from gaifman.experiments.runner import DatasetSplits

    dataset = DATASETS[experiment.data]
    with read_progress() as report:
        files = locate_dataset(dataset, data_dir, report)
    triples = InputOptions("triples")
    train, valid, test = (triples.read(str(path)) for path in (files.train, files.valid, files.test))
    return DatasetSplits(train, valid, test, files.train.absolute(), files.is_published(dataset))


def _read_benchmark(data: str, data_dir: str | None) -> BenchmarkSplits:
    from gaifman.experiments.benchmarks import find_benchmark, locate_benchmark, read_benchmark

    with read_progress() as report:
        files = locate_benchmark(data, data_dir, report)
    return read_benchmark(data, files, InputOptions(find_benchmark(data).file_format, header=False).read)


def _run_experiment(
    runner: ExperimentRunner, figures: bool, threads: int | None, interrupt: InterruptHandler
) -> dict[str, Any]:
    """Train and rank one setting after another, then draw and write."""
    from gaifman.kernels.jit import TRAIN_FUNCTIONS

    stop = interrupt.stop_requested
    rows: list[RowResult] = []
    for setting in runner.experiment.settings:
        with work_progress("examples", TRAIN_FUNCTIONS) as report:
            model = runner.train(setting, threads=threads, progress=report, stop=stop)
        with work_progress("ranks") as report:
            rows += runner.rank(setting, model, threads=threads, progress=report, stop=stop)
    if figures:
        runner.plot_degrees()
    results = runner.results(rows)
    runner.write(results)
    return results


def _run_benchmark(
    runner: BenchmarkRunner, figures: bool, threads: int | None, interrupt: InterruptHandler
) -> dict[str, Any]:
    """Train and rank, then draw and write."""
    from gaifman.kernels.jit import TRAIN_FUNCTIONS

    stop = interrupt.stop_requested
    with work_progress("examples", TRAIN_FUNCTIONS) as report:
        model = runner.train(threads=threads, progress=report, stop=stop)
    with work_progress("ranks") as report:
        result = runner.rank(model, threads=threads, progress=report, stop=stop)
    if figures:
        runner.plot_degrees()
    results = runner.results(result)
    runner.write(results)
    return results


def _print_benchmark(results: dict[str, Any]) -> None:
    from gaifman.experiments.benchmark_runner import COLUMNS, NUMBER_COLUMNS, notes, table_rows, table_title

    print_table(table_title(results), COLUMNS, table_rows(results), NUMBER_COLUMNS)
    click.echo("\n" + "\n".join(notes(results)))


def _print_results(results: dict[str, Any]) -> None:
    from gaifman.experiments.paper import DATASET_NAMES
    from gaifman.experiments.runner import METRIC_COLUMNS, TIME_COLUMNS, metric_cells, notes, time_cells

    rows, data = results["rows"], DATASET_NAMES[results["data"]]
    right = range(1, len(METRIC_COLUMNS))
    print_table(f"{data} beside the paper's Table 2", METRIC_COLUMNS, map(metric_cells, rows), right)
    print_table("Times", TIME_COLUMNS, map(time_cells, rows), range(1, len(TIME_COLUMNS)))
    click.echo("\n" + "\n".join(notes(results)))

"""`gaifman evaluate`: rank test facts, and say how well a model does."""

from __future__ import annotations

import shlex
import signal
import sys
from typing import TYPE_CHECKING, Any

import click

from gaifman.cli.terminal import (
    input_options,
    json_option,
    open_kb,
    print_fields,
    print_json,
    print_stopped,
    print_table,
    work_progress,
)

if TYPE_CHECKING:
    from gaifman.evaluation import Evaluation
    from gaifman.measures import MetricValue, RankMetrics

MAX_RELATIONS = 10
"""Relations listed on the terminal; `--json` has all."""


@click.command(short_help="Rank test facts, and say how well a model does.")
@click.argument("model")
@click.argument("kb")
@click.argument("test")
@click.option("--known", multiple=True, metavar="FILE", help="Facts that are true too: they are not ranked as rivals.")
@click.option("--with", "others", multiple=True, metavar="FILE", help="Judge from the facts of this file too.")
@click.option("--relation", "relations", multiple=True, metavar="NAME", help="Only test facts of this relation.")
@click.option("--raw", is_flag=True, help="Show ranks among all objects, known answers included.")
@click.option("--fraction", type=float, help="The share of the test facts to rank, for a quick look.")
@click.option("--count", type=int, help="Or how many of them.")
@click.option("--draws", type=int, help="Neighbourhoods to average scores over; as many as the model says.")
@click.option("--seed", type=int, default=0, show_default=True, help="Which facts, corruptions and intervals.")
@click.option("--keep", metavar="FOLDER", help="Keep ranks there; stopped or killed, the same command goes on.")
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
    **terms: Any,
) -> None:
    """Rank the facts of TEST by what MODEL says, judging from the facts of KB.

    Each place of each fact is given every object, and the right one is ranked among those that make no fact of KB, TEST
    or --known. Objects that only TEST has are ranked as well. TEST's facts are never visible, even where KB has them.

    \b
    Examples:
      gaifman evaluate wn18.gaifman train.tsv test.tsv --known valid.tsv
      gaifman evaluate wn18.gaifman train.tsv test.tsv --with valid.tsv --fraction 0.1
      gaifman evaluate wn18.gaifman train.tsv test.tsv --known valid.tsv --keep wn18.ranks
    """
    from gaifman.completion import load
    from gaifman.evaluation import EvaluationConfig
    from gaifman.evaluation import evaluate as evaluated

    EvaluationConfig(relations or None, **terms)  # what is wrong is said before much is read
    reading = file_format, table, iris
    found = load(model)
    facts, tested = open_kb((kb, *extra_files), *reading), open_kb((test,), *reading)
    more = [open_kb(filter_files, *reading)] if filter_files else []
    wanted = {"threads": threads, "relations": relations or None, "kept": checkpoint_dir, **terms}
    try:
        with work_progress("ranks") as report:
            result = evaluated(found, facts, tested, more, progress=report, **wanted)
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
    from gaifman.evaluation import INTERVALS, format_metrics

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
    click.echo("\n" + click.style(f"Test facts and {metrics['corruptions']:,} corruptions", bold=True))
    area, precision = metrics["auc"], metrics["average_precision"]
    print_fields([("AUC", f"{area:.3f}"), ("average precision", f"{precision:.3f}")])

"""Commands that train a model: train and resume."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gaifman._tables import columns_from, flat_row
from gaifman.cli.console import (
    DEMO_FILE,
    MAX_LISTED,
    Command,
    InputOptions,
    MappingOptions,
    check_overwrite,
    kb_options,
    output_options,
    parse_model_options,
    print_fields,
    print_json,
    print_more,
    print_rows,
    print_stopped,
    print_table,
    python_snippet,
    training_sampling_options,
    work_progress,
)
from gaifman.cli.settings import command_line
from gaifman.errors import escape_unprintable

if TYPE_CHECKING:
    from gaifman.jobs.run import Run
    from gaifman.jobs.train import SourceText, TrainedModel
    from gaifman.kb.knowledge_base import KnowledgeBase
    from gaifman.logic.ast import Query

CHECKPOINT_INTERVAL = 30.0
"""Seconds between checkpoints of a relation."""


def run_options(command: Command) -> Command:
    """Add the options of `train` and `resume` that do not change the model."""
    for option in (
        click.option(
            "--checkpoint-interval",
            type=click.FloatRange(min=0),
            metavar="SECONDS",
            help=f"Time between checkpoints.  [default: {CHECKPOINT_INTERVAL:g}, or that of the run]",
        ),
        click.option("--threads", type=click.IntRange(min=1), help="Number of threads.  [default: all processors]"),
    ):
        command = option(command)
    return command


def training_options(command: Command) -> Command:
    """Add the settings of `TrainingConfig`."""
    for option in (
        click.option(
            "--option", "options", multiple=True, metavar="NAME=VALUE", help="Base model setting, like epochs=5."
        ),
        click.option(
            "--base",
            default="auto",
            show_default=True,
            help="Base model: listwise (ranked lists), mlp or logistic. auto: listwise for relations, else mlp.",
        ),
        click.option(
            "--expert",
            type=click.Choice(["none", "complex"]),
            default="none",
            show_default=True,
            help="Added to ranked lists: complex for ComplEx, an expert that knows similar objects.",
        ),
        click.option(
            "--missing",
            type=float,
            help="Fraction of true facts that KB is assumed to miss.  [default: 0.1 for ranked lists, 0 for networks]",
        ),
        click.option("--draws", type=int, default=10, show_default=True, help="Neighbourhoods per prediction (N)."),
        click.option(
            "--patience",
            type=int,
            default=0,
            show_default=True,
            help="Stop after this many epochs without a lower held-out loss; 0: never.",
        ),
        click.option(
            "--min-examples",
            type=int,
            default=20_000,
            show_default=True,
            help="Examples to train on at least: small relations get more epochs.",
        ),
        click.option(
            "--min-feature-count",
            type=int,
            default=2,
            show_default=True,
            help="Drop features that fewer examples have.",
        ),
        click.option(
            "--block-size", type=int, default=256, show_default=True, help="Answers whose examples are made at once."
        ),
        click.option("--max-held-out", type=int, default=1000, show_default=True, help="Answers to hold out at most."),
        click.option("--holdout", type=float, default=0.1, show_default=True, help="Fraction of answers to hold out."),
        click.option(
            "--hide",
            type=click.Choice(["auto", "facts", "links"]),
            default="auto",
            show_default=True,
            help="Hidden from an example: the facts that make it true, or all facts that link its objects. "
            "auto: facts, or what --valid chooses.",
        ),
        click.option(
            "--negative-sampling",
            type=click.Choice(["uniform", "typed", "mixed"]),
            default="mixed",
            show_default=True,
            help="Objects of negatives: any, or of the position's type, or both.",
        ),
        click.option(
            "--hard-negative-fraction",
            type=float,
            default=0.0,
            show_default=True,
            help="Fraction of negatives with an object two or three steps away.",
        ),
        click.option("--negatives", type=int, default=25, show_default=True, help="Negatives per answer (w̃)."),
        click.option("--positives", type=int, default=5, show_default=True, help="Neighbourhoods per answer (w)."),
        click.option(
            "--phi",
            multiple=True,
            default=("default",),
            show_default=True,
            help="Feature set (Φ): default, paper, universal-schema, or a .phi file. Repeatable. Ranked lists mine "
            "formulas and add those of a file; paper or universal-schema alone selects the network.",
        ),
    ):
        command = option(command)
    return command


@click.command(short_help="Train a model of a query, or of every relation.")
@click.argument("kb")
@click.argument("query", required=False)
@click.option("--output", "-o", required=True, metavar="MODEL", help="The model file to write.")
@click.option(
    "--also",
    multiple=True,
    metavar="KB",
    help="Train on this knowledge base too; its objects are others, even if named alike. Repeatable.",
)
@click.option("--relation", "relations", multiple=True, metavar="NAME", help="Without QUERY: only this relation.")
@training_sampling_options
@training_options
@click.option(
    "--constraints",
    metavar="FILE|found|none",
    default="found",
    show_default=True,
    help="Constraints that answers respect: those found in the data, also those of FILE, or none. Negatives respect "
    "those of FILE.",
)
@click.option(
    "--valid",
    metavar="FILE",
    help="Validation facts, which are not trained on: what ranked lists hide is chosen by their ranks.",
)
@run_options
@click.option("--plot", metavar="FILE", help="Plot the calibration: .svg, .png or .pdf.")
@click.option("--force", is_flag=True, help="Replace MODEL, or an unfinished run.")
@kb_options
@output_options
def train(
    kb: str,
    query: str | None,
    output: str,
    also: tuple[str, ...],
    relations: tuple[str, ...],
    constraints: str,
    valid: str | None,
    threads: int | None,
    checkpoint_interval: float | None,
    plot: str | None,
    force: bool,
    reading: InputOptions,
    as_json: bool,
    phi: tuple[str, ...],
    options: tuple[str, ...],
    **training_settings: Any,
) -> None:
    """Train a model that predicts the answers of QUERY; without QUERY, one model for each relation of KB.

    \b
    Examples:
      gaifman train demo -o countries.gaifman
      gaifman train demo "exists z. borders(x, z) & borders(z, y)" -o near.gaifman --size 10
      gaifman train train.tsv "born_in(x, y)" -o born.gaifman --phi born.phi --option epochs=5
      gaifman train train.tsv -o train.gaifman --phi paper --phi mine.phi --base listwise
      gaifman train smith.tsv --also jones.tsv --also lee.tsv -o families.gaifman

    Writes the model to MODEL, its model card to MODEL.md and the training log to MODEL.log.jsonl. If the training is
    interrupted, `gaifman resume MODEL` continues it; the model is the same.
    """
    from gaifman.jobs.run import Run
    from gaifman.jobs.train import TrainingSpec

    _check_output(output, plot, force=force)
    name, parts = feature_sources(phi)
    settings = {**training_settings, "phi": name, "options": parse_model_options(options)}
    rules = None if constraints in ("found", "none") else read_text_file(constraints)
    spec = TrainingSpec(settings, query, relations or None, parts, rules, constraints != "none")
    spec.check()
    sources = [kb, *reading.extra_files]
    _check_sources([*sources, *also, *([valid] if valid else [])])
    given = {"sources": sources, "also": list(also), "valid": [valid] if valid else []}
    kbs: dict[str, Any] = {key: [_name_to_record(name) for name in names] for key, names in given.items()}
    files: dict[str, Any] = {
        "format": reading.file_format,
        "table": reading.table,
        "iris": reading.iris,
        "header": reading.header,
        "labels": [] if reading.labels is None else [reading.labels],
        "language": reading.language,
        "limits": [*reading.limits],
        "mapping": reading.mapping.arguments(),
    }
    record: dict[str, Any] = {
        "kb": {**kbs, **files, "working_dir": str(Path.cwd())},
        "spec": spec.as_dict(),
        "command": command_line(),
        "plot": plot,
        "checkpoint_interval": CHECKPOINT_INTERVAL if checkpoint_interval is None else checkpoint_interval,
    }
    with Run.create(run_dir(output), record, force=force) as run:
        urls = {_name_to_record(name): name for names in given.values() for name in names}
        _run_to_end(run, Path(output), threads, as_json, urls=urls, is_new=True)


@click.command(short_help="Resume an interrupted training.")
@click.argument("model")
@run_options
@output_options
def resume(model: str, threads: int | None, checkpoint_interval: float | None, as_json: bool) -> None:
    """Resume the interrupted training of MODEL from its last checkpoint.

    \b
    Examples:
      gaifman resume countries.gaifman
    """
    from gaifman.errors import InputError
    from gaifman.jobs.run import RECORD, Run

    target = Path(model.removesuffix("/").removesuffix(".run"))
    folder = run_dir(str(target))
    if target.is_file() and not (folder / RECORD).exists():
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()  # the last step was interrupted
        raise InputError(f"nothing to resume: {target} is finished")
    with Run.open(folder) as run:
        if checkpoint_interval is not None:
            run.settings["checkpoint_interval"] = checkpoint_interval
        _run_to_end(run, target, threads, as_json, is_new=False)


def run_dir(output: str) -> Path:
    """Return the folder of a model's run."""
    return Path(f"{output}.run")


def _check_output(output: str, plot: str | None, *, force: bool) -> None:
    """Raise an error now for output files that could not be written at the end."""
    from gaifman.errors import OutputError
    from gaifman.io.files import check_writable

    if output.endswith((".run", "/")):
        raise OutputError(f"{output} is not a name for a model", hint="for example: -o countries.gaifman")
    # If there is a run, the files beside the model may be its own.
    for suffix in ("",) if run_dir(output).exists() else ("", ".md", ".log.jsonl"):
        check_overwrite(output + suffix, force=force)
        check_writable(Path(output + suffix))
    if plot:
        from gaifman.plots import check_plot

        check_overwrite(plot, force=force)
        check_plot(Path(plot))


def _check_sources(sources: list[str]) -> None:
    """Raise an error for files that a resumed run could not read again."""
    from gaifman.errors import InputError
    from gaifman.io.files import is_url

    for name in sources:
        if name == "-":
            raise InputError(
                "training cannot read standard input, because a resumed run could not read it again",
                hint="write it to a file first: gaifman convert - kb.duckdb --input-format triples",
            )
        if name != "demo" and not is_url(name) and not Path(name).exists():
            raise InputError(f"there is no file {name}")


def _name_to_record(name: str) -> str:
    """Return the name of a source for the record of a run, which holds no password."""
    from gaifman.io.files import is_url

    if not is_url(name):
        return name
    from gaifman.io.database_urls import url_to_record

    return url_to_record(name)


def _run_to_end(
    run: Run, target: Path, threads: int | None, as_json: bool, *, is_new: bool, urls: Mapping[str, str] | None = None
) -> None:
    """Train, and print the outcome; after Ctrl-C, print how to resume.

    `urls` are sources as they are recorded → as they were given, perhaps with a password.
    """
    from gaifman.errors import GaifmanError, TrainingError
    from gaifman.jobs.run import InterruptHandler
    from gaifman.jobs.train import TrainingInterrupted, finish_cleanup, has_progress, run_training
    from gaifman.kernels.jit import TRAIN_FUNCTIONS

    run.checkpoint_seconds = run.settings["checkpoint_interval"]
    again = f"gaifman resume {shlex.quote(str(target))}"
    interrupt = InterruptHandler("" if as_json else "stopping after the next checkpoint …")
    try:
        model, known = finish_cleanup(run, target), None
        if model is None:
            kbs = _reopen_kbs(run.settings["kb"], urls or {})  # before the handler: here Ctrl-C stops at once
            valid = _reopen_valid(run.settings["kb"], urls or {})
            known = kbs[0]
            if not as_json:
                _print_shared_names(kbs)
            with interrupt, work_progress(kernels=TRAIN_FUNCTIONS) as report:
                model = run_training(
                    run,
                    kbs,
                    target,
                    valid=valid,
                    threads=threads,
                    report=report,
                    should_stop=interrupt.stop_requested,
                    on_model=lambda model: _plot_calibration(model, run.settings),
                )
    except (TrainingInterrupted, KeyboardInterrupt):
        print_stopped("training", again, as_json)
        sys.exit(128 + (interrupt.received or signal.SIGINT))
    except TrainingError:
        _leave_diverged(run, as_json)
        raise
    except GaifmanError:
        if is_new and not has_progress(run):
            run.discard()  # the input was wrong: leave nothing behind
        elif not as_json:
            click.echo(f"the trained relations are saved; after the error is fixed: {again}", err=True)
        raise
    _print_outcome(model, known, target, run.settings, as_json)


def _leave_diverged(run: Run, as_json: bool) -> None:
    """Leave a run that would diverge again: a run keeps its settings. Without trained relations, nothing is left."""
    from gaifman.errors import plural
    from gaifman.jobs.train import count_trained

    if not (trained := count_trained(run)):
        run.discard()
    elif not as_json:
        saved = f"{plural(trained, 'trained relation')} of this run cannot be used with another learning rate"
        click.echo(f"{saved}; to start again: the same command with a lower rate and --force", err=True)


def feature_sources(phi: tuple[str, ...]) -> tuple[str, tuple[str | SourceText, ...]]:
    """Return the name of Φ, and its parts; no parts for one named feature set."""
    parts = tuple(read_text_file(name) if _is_phi_file(name) else name for name in phi)
    if len(parts) == 1 and isinstance(parts[0], str):
        return parts[0], ()
    return " + ".join(map(_part_name, parts)), parts


def _part_name(part: str | SourceText) -> str:
    from gaifman.jobs.train import phi_file_name

    return part if isinstance(part, str) else phi_file_name(part.name)


def _is_phi_file(name: str) -> bool:
    return Path(name).suffix == ".phi" or Path(name).is_file()


def read_text_file(path: str) -> SourceText:
    """Read a text file of a setting."""
    from gaifman.io.files import read_text
    from gaifman.jobs.train import SourceText

    return SourceText(Path(path).name, read_text(path))


def _reopen_kbs(record: dict[str, Any], urls: Mapping[str, str]) -> list[KnowledgeBase]:
    """Read the knowledge bases of a run again; paths are relative to the folder where the run began."""
    first, *rest = (urls.get(name, name) for name in _recorded_sources(record))
    options = _recorded_options(record, rest)
    also = (options.without_extra_files().read(urls.get(name, name)) for name in _recorded_sources(record, "also"))
    return [options.read(first), *also]


def _reopen_valid(record: dict[str, Any], urls: Mapping[str, str]) -> KnowledgeBase | None:
    """Read the validation facts of a run again."""
    options = _recorded_options(record, []).without_extra_files()
    return next((options.read(urls.get(name, name)) for name in _recorded_sources(record, "valid")), None)


def _print_shared_names(kbs: list[KnowledgeBase]) -> None:
    """Say that objects of a collection are different even if they have the same name."""
    from gaifman.errors import plural, shorten
    from gaifman.kb.knowledge_base import shared_names

    if names := shared_names(kbs):
        where = f"objects of several knowledge bases have the same name: {plural(len(names), 'name')}"
        what = f"such as {shorten(names[0])}. They are different objects; --with FILE reads a file into KB instead"
        click.echo(f"note: {where}, {what}", err=True)


def _recorded_options(record: dict[str, Any], extra_files: list[str]) -> InputOptions:
    return InputOptions(
        record["format"],
        record["table"],
        record["iris"],
        tuple(extra_files),
        record["header"],
        tuple(record["limits"]),
        MappingOptions.from_arguments(record["mapping"]),
        next(iter(_recorded_sources(record, "labels")), None),
        record.get("language"),
    )


def _recorded_sources(record: dict[str, Any], key: str = "sources") -> list[str]:
    """Return the files of a run, relative to this folder; `demo` means what it meant when the run began."""
    from gaifman.io.files import is_url

    start, found = Path(record["working_dir"]), []
    for name in record.get(key, []):
        if is_url(name):
            found.append(name)
        elif name == "demo" and not (start / name).exists():
            found.append("demo" if not Path("demo").exists() else str(DEMO_FILE))
        else:
            path = start / name
            found.append(min(os.path.relpath(path), str(path), key=len))
    return found


def _plot_calibration(model: TrainedModel, settings: dict[str, Any]) -> None:
    from gaifman.errors import shorten
    from gaifman.plots import plot_reliability

    report = model.held_out_report
    if settings["plot"] and report and report.uncalibrated and report.calibrated:
        name = model.meta.get("query") or f"{len(model.meta['relations']):,} relations"
        title = f"{shorten(name, 50)}: {len(report.held_out.means):,} held-out tuples"
        path = Path(settings["kb"]["working_dir"]) / settings["plot"]
        plot_reliability(report.uncalibrated, report.calibrated, path, title)


def _print_outcome(
    model: TrainedModel, kb: KnowledgeBase | None, target: Path, settings: dict[str, Any], as_json: bool
) -> None:
    if as_json:
        print_json({"written": str(target), **model.meta})
        return
    rows = model.meta.get("relations", [model.meta["metrics"]])
    if print_rows(lambda: columns_from([*map(flat_row, rows)])):
        click.echo(f"wrote {target}", err=True)
        return
    _print_metrics(model.meta, target)
    plot = f", {settings['plot']} (calibration)" if settings["plot"] else ""
    click.echo(f"\nwrote {target}, {target}.md (model card), {target}.log.jsonl (training log){plot}", err=True)
    if kb is not None:
        _print_next_steps(model, kb, target, settings["kb"])


def _print_metrics(meta: dict[str, Any], target: Path) -> None:
    from gaifman.listwise.expert import describe_expert
    from gaifman.listwise.hide_choice import describe_choice

    metrics = meta["metrics"]
    rows = [("answers", metrics["answers"]), ("features", meta["features"]), ("held-out tuples", metrics["held_out"])]
    if "not_hidden" in metrics:
        rows.append(("true whatever is hidden", f"{metrics['not_hidden']:,} answers, in no figure"))
    if choice := meta.get("hide_choice"):
        rows.append(("hidden in training", describe_choice(choice)))
    if expert := meta.get("expert"):
        rows.append(("expert", describe_expert(expert)))
    print_fields([*rows, *held_out_fields(metrics, meta["config"]["missing"])])
    if "relations" in meta:
        _print_relations(meta["relations"], target)
    click.echo(f"\n{_assumption(meta)}")


def held_out_fields(metrics: dict[str, Any], missing: float | None = None) -> list[tuple[str, object]]:
    """Return the held-out figures of a model as fields, those of popularity beside them; or why there are none."""
    from gaifman.ranking.ranks import describe_sample

    if reason := metrics.get("auc_reason"):
        return [("figures", f"none: {reason}")]
    rows: list[tuple[str, object]] = [
        ("AUC", f"{metrics['auc']:.3f}"),
        ("calibration error", _calibration_error(metrics)),
    ]
    if missing:
        share = f"if {missing:g} of the facts are missing: {metrics['true_negatives']:.3g} of the negatives are true"
        rows.insert(1, ("AUC, corrected", f"{metrics['auc_corrected']:.3f} {share}"))
    if metrics["ranked_facts"]:
        rows += [("typed AUC", _beside_popularity(metrics, "typed_auc", "typed_auc_reason"))]
        rows += [("MRR", _beside_popularity(metrics, "mrr", "mrr_reason")), ("ranked", describe_sample(metrics))]
    return rows


def _calibration_error(metrics: dict[str, Any]) -> str:
    if metrics["ece_after"] is None:
        from gaifman.listwise.training import MIN_PROPOSED

        return f"none: no missing fact is proposed with a probability of at least {MIN_PROPOSED:g}"
    return f"{metrics['ece_after']:.3f} ({metrics['ece_before']:.3f} uncalibrated)"


def _beside_popularity(metrics: dict[str, Any], name: str, reason: str) -> str:
    if metrics[name] is None:
        return f"none: {metrics.get(reason) or metrics.get('mrr_reason')}"
    return f"{metrics[name]:.3f} ({metrics[f'{name}_popularity']:.3f} by popularity: most frequent object first)"


def _assumption(meta: dict[str, Any]) -> str:
    """Return what the figures assume about tuples that the knowledge base does not hold."""
    from gaifman.training import TrainingConfig

    metrics, missing = meta["metrics"], meta["config"]["missing"]
    if meta["base"]["kind"] == "listwise":
        assumed = TrainingConfig(missing=missing).assumed_missing
        return (
            "Figures count what is unknown as false: where facts are missing, they are too low. Probabilities assume\n"
            f"that {assumed:g} of the true facts are missing, at random; --missing sets the share."
        )
    if reason := metrics.get("missing_reason"):
        return f"--missing {missing:g} is too much for these figures: {reason}."
    if missing:
        return f"Probabilities and corrected figures assume that {missing:g} of the true facts are missing, at random."
    return (
        "Figures and probabilities count what is unknown as false: where facts are missing, they are too low.\n"
        "--missing corrects for an assumed fraction of missing facts."
    )


def _print_relations(relations: list[dict[str, Any]], target: Path) -> None:
    """Print the figures of the largest relations; below, why some have none."""
    by_size = sorted(relations, key=lambda row: (-row["answers"], row["name"]))
    table = [(row["name"], row["answers"], *_relation_metrics(row)) for row in by_size[:MAX_LISTED]]
    columns = ["relation", "answers", "held out", "AUC", "typed AUC", "MRR"]
    print_table("Relations (in brackets: by popularity)", columns, table, right=[1, 2, 3, 4, 5])
    for row in by_size[:MAX_LISTED]:
        if reason := row.get("reason") or row.get("auc_reason") or row.get("mrr_reason"):
            click.echo(
                f"{'no figures' if row['trained'] else 'no model'} of {escape_unprintable(row['name'])}: {reason}"
            )
    print_more(len(by_size) - MAX_LISTED, "relations", f"in {target}.md")


def _relation_metrics(row: dict[str, Any]) -> list[object]:
    """Held-out tuples, AUC, typed AUC and MRR of a relation; a dash for what it does not have."""
    if not row["trained"]:
        return ["–"] * 4
    pairs = [(row[name], row[f"{name}_popularity"]) for name in ("typed_auc", "mrr")]
    beside = ["–" if own is None else f"{own:.3f} ({popularity:.3f})" for own, popularity in pairs]
    return [row["held_out"], "–" if row["auc"] is None else f"{row['auc']:.3f}", *beside]


def _print_next_steps(model: TrainedModel, kb: KnowledgeBase, target: Path, record: dict[str, Any]) -> None:
    """Print a command and lines of Python that use the model."""
    sources = _recorded_sources(record)
    reading = _recorded_options(record, sources[1:])
    relation, answer = _example_answer(model, kb)
    words = ["gaifman", "answer", str(target), sources[0], *_query_arguments(model, kb, relation, answer)]
    words += [word for file in reading.extra_files for word in ("--with", file)]
    words += reading.flags()
    click.echo(f"to rank answers:\n  {shlex.join(words)}", err=True)
    call = f"model.probability({', '.join(map(repr, [*relation, *(answer or ('…',))]))})"
    click.echo("in Python:", err=True)
    for line in (*python_snippet(sources, reading, str(target)), call):
        click.echo(f"  {line}", err=True)


def _example_answer(model: TrainedModel, kb: KnowledgeBase) -> tuple[list[str], tuple[str, ...]]:
    """Return the largest trained relation of a completion, and a known answer if a query finds one quickly."""
    from gaifman.config import Budget
    from gaifman.errors import GaifmanError

    relation, asked = _example_query(model, kb)
    try:
        if asked.atomic_relation is not None:  # no database is needed
            first = kb.tuples(asked.atomic_relation)[:1].ravel()
            return relation, tuple(kb.show(kb.object_name(number)) for number in first.tolist())
        from gaifman.queries.answers import query

        return relation, next(query(kb, asked, budget=Budget(seconds=2, rows=1)).shown(), ())
    except GaifmanError:
        return relation, ()


def _example_query(model: TrainedModel, kb: KnowledgeBase) -> tuple[list[str], Query]:
    """Return the relation (none for the model of a query) and the query of an example."""
    from gaifman.completion import Completion
    from gaifman.logic.ast import Query, relation_query

    if isinstance(model, Completion):
        sizes = {name: known.count for name, known in kb.relations.items()}  # others of a collection may have more
        relation = max(model.relations, key=lambda name: (name in sizes, name in model.scorers, sizes.get(name)))
        return [relation], relation_query(relation, model.relations[relation])
    assert isinstance(model.query, Query), "training parses the query"
    return [], model.query


def _query_arguments(model: TrainedModel, kb: KnowledgeBase, relation: list[str], answer: tuple[str, ...]) -> list[str]:
    """Return arguments of `gaifman answer` that bind all variables but the last to the known answer."""
    from gaifman.logic.ast import format_relation

    names = [variable.name for variable in _example_query(model, kb)[1].variables]
    unique = [f"?{name}" if name in kb.objects else name for name in names]  # an object may have the variable's name
    query = [f"{format_relation(name)}({', '.join(unique)})" for name in relation]
    bound = zip(names[:-1], answer, strict=False)
    return query + [word for name, obj in bound for word in ("--bind", f"{name}={obj}")]

"""The metadata of a model, and its card: what the model predicts, how well, and its limits, as Markdown.

The same metadata gives the same card: it has no date and names no machine. Names from the data are escaped, so that
they show as they are.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from string import Template
from typing import Any

from gaifman import __version__
from gaifman._html import code, muted, paragraph, stack, table
from gaifman.errors import FormulaError, InputError, escape_unprintable, plural
from gaifman.io.model_file import translate_state_errors
from gaifman.kb.knowledge_base import KnowledgeBase, shared_names
from gaifman.listwise.expert import describe_expert
from gaifman.listwise.hide_choice import describe_choice
from gaifman.logic.ast import Feature, format_relation
from gaifman.logic.parser import parse_query
from gaifman.models.base import BaseModel, saved_settings
from gaifman.ranking.ranks import RANKING_NOTE, describe_sample
from gaifman.sampling.constraints import Constraints, FoundConstraint, found_from_dict
from gaifman.training import LISTWISE, TrainingConfig

MAX_FORMULAS = 20
"""Added formulas in the table of settings."""
MAX_CONSTRAINTS = 100
"""Found constraints in the table of settings."""
MAX_RELATIONS = 50
"""Maximum number of listed relations: those with the most answers."""

TEMPLATE = Template(
    """\
# $title

$summary

## Intended use

$predicts

## Training data

$data

The fingerprint is that of `gaifman info KB`: the same facts give the same fingerprint. Treat the model as you treat its
data: its features may name objects, and its weights depend on all facts.

## Training

$settings

## Evaluation

The held-out tuples are $holdout of the known answers, which were not answers in training, and negatives made from them,
with objects drawn by $negative_sampling sampling. A negative counts as wrong because the knowledge base does not hold
it. Unknown is not false: where facts are missing, some negatives are true, and AUC, MRR and probabilities are too low.
$parts$missing

$metrics

## Limits

- $prior
- $sees
- The model does not apply to a knowledge base with other relations, or with the same names for other things.
- The model repeats the errors and gaps of its data. What is recorded more often seems more likely.
- A probability shows correlation, not cause, and is no proof. The model must not decide on its own about the rights,
  health, credit, work or liberty of people.

## Usage

Replace MODEL by the name of the file, KB by that of the knowledge base, and OBJECT by names of objects:

$python

The command $answer_command ranks the most probable answers, too.

## Reproduction

$train_command

The same command with the same knowledge base gives the same file, byte for byte, with any number of threads. The seed
is $seed, the version of gaifman $version.
"""
)

# Dots and colons are escaped only where a reader would turn a bare address into a link: numbers stay readable.
_SPECIAL = re.compile(r"[\\`*_{}\[\]<>#&~$^@!]|:(?=//)|(?<=www)\.", re.IGNORECASE)
_METRICS = {
    "answers": "answers",
    "epochs": "epochs",
    "training_loss": "loss of the last epoch, on the training examples",
    "held_out": "held-out tuples",
    "not_hidden": "answers that are true whatever is hidden, and in no figure",
    "prior": "prior: fraction of answers among the held-out tuples",
    "auc": "AUC: probability that an answer scores above a negative",
    "true_negatives": "fraction of negatives assumed to be true",
    "auc_corrected": "AUC, corrected for negatives that are true",
    "typed_auc": "typed AUC: probability that a held-out object ranks above another of the right type",
    "typed_auc_popularity": "typed AUC of popularity: most frequent object first",
    "mrr": "MRR: mean of 1 / rank of a held-out object",
    "mrr_popularity": "MRR of popularity: most frequent object first",
    "loss": "loss: mean cross-entropy in nats; a constant 0.5 gives 0.693",
    "brier": "Brier score: mean squared error; a constant 0.5 gives 0.25",
    "ece_before": "calibration error before calibration",
    "ece_after": "calibration error after calibration",
}
_SETTINGS = {
    "radius": "radius of a neighbourhood",
    "size": "size of a neighbourhood",
    "phi": "feature set",
    "positives": "neighbourhoods per answer",
    "negatives": "negatives per answer",
    "negative_sampling": "negative sampling",
    "hard_negative_fraction": "fraction of hard negatives",
    "hide": "hidden from an example",
    "holdout": "fraction of answers held out",
    "draws": "draws per prediction",
    "missing": "fraction of true answers assumed to be missing",
    "expert": "expert with memory",
}
_RELATION_COLUMNS = {
    "name": "relation",
    "arity": "arity",
    "answers": "answers",
    "trained": "trained",
    "training_loss": "training loss",
    "auc": "AUC",
    "auc_corrected": "corrected AUC",
    "typed_auc": "typed AUC",
    "typed_auc_popularity": "of popularity",
    "mrr": "MRR",
    "mrr_popularity": "of popularity",
    "epochs": "epochs",
    "held_out": "held-out tuples",
    "reason": "reason",
}
_KB_ROWS = ("objects", "relations", "facts", "fingerprint")


def training_metadata(
    config: TrainingConfig,
    base: BaseModel | None,
    kbs: Sequence[KnowledgeBase],
    constraints: Constraints | None = None,
    formulas: Sequence[Feature] = (),
    found: Sequence[FoundConstraint] | None = None,
) -> dict[str, Any]:
    """What the file and the card say about the training.

    Settings, base model (None for ranked lists), knowledge bases, any constraints, and formulas added to mined ones.
    `found` are constraints that were found in the data; None if they do not act.
    """
    sizes = [
        {"fingerprint": kb.fingerprint, "objects": len(kb.objects), "relations": len(kb.relations), "facts": len(kb)}
        for kb in kbs
    ]
    return {
        "version": __version__,
        "config": config.as_dict(),
        "base": {"kind": LISTWISE, "settings": dict(config.options)}
        if base is None
        else {"kind": base.kind, "settings": saved_settings(base) or {}},
        "kb": sizes[0] if len(sizes) == 1 else {"collection": sizes, "shared_names": len(shared_names(kbs))},
        **({"constraints": text} if constraints and (text := constraints.to_text()) else {}),
        **({} if found is None else {"found_constraints": [one.as_dict() for one in found]}),
        **({"added_formulas": [str(formula) for formula in formulas]} if formulas else {}),
    }


@translate_state_errors("model")
def model_card(meta: Mapping[str, Any]) -> str:
    """Return the card of a model or completion from its metadata."""
    complete = meta.get("kind") == "completion"
    required = ("kind", "relations" if complete else "query", "config", "base", "kb", "features", "metrics", "version")
    if missing := [key for key in required if key not in meta]:
        raise InputError(f"the metadata of the model lacks {', '.join(missing)}")
    config = meta["config"]
    query, calls = _example(meta)
    python = "import gaifman", 'kb = gaifman.read("KB")', 'model = gaifman.load("MODEL", kb)', *calls
    return TEMPLATE.substitute(
        _introduction(meta),
        data=_markdown_table(["knowledge base", ""], _kb_rows(meta["kb"])),
        settings=_markdown_table(["setting", ""], _setting_rows(meta) + _found_rows(meta)),
        holdout=_format_value(config["holdout"]),
        negative_sampling=escape_markdown(config["negative_sampling"]),
        missing=escape_markdown(_missing(meta)),
        metrics=_metrics(meta),
        parts="" if _is_listwise(meta) else NETWORK_PARTS,
        prior=_prior(meta),
        sees=LISTWISE_SEES if _is_listwise(meta) else NETWORK_SEES,
        python=_fence("python", *python),
        answer_command=_inline_code(shlex.join(["gaifman", "answer", "MODEL", "KB", *query])),
        train_command=_fence("console", f"$ {_train_command(meta)}"),
        seed=str(config["seed"]),
        version=escape_markdown(meta["version"]),
    )


@translate_state_errors("model")
def summary_html(title: str, meta: Mapping[str, Any]) -> str:
    """Return what a notebook shows of a model or completion."""
    metrics = _label(_summarize_losses(meta["metrics"]), _METRICS)
    short = [(label.partition(":")[0], _format_value(value)) for label, value in metrics]
    summary = table(("", ""), [*((label, _format_value(value)) for label, value in _setting_rows(meta)), *short])
    if meta["kind"] != "completion":
        return stack(paragraph(title), paragraph(code(meta["query"])), summary)
    columns, rows, more = _relation_table(meta)
    cells = [[_format_value(cell) for cell in row] for row in rows]
    note = [paragraph(muted(f"… and {more:,} more with fewer answers"))] if more else []
    return stack(paragraph(title), summary, table(columns, cells, numeric_columns=(1, 2)), *note)


@dataclass(frozen=True, slots=True)
class CardTables:
    """The tables of a card, as names and texts."""

    title: str
    relations: tuple[Sequence[str], Sequence[Sequence[str]], int]
    """Columns, rows of the largest relations, and the number of the others; no rows for the model of one query."""
    data: Sequence[tuple[str, str]]
    settings: Sequence[tuple[str, str]]
    found_constraints: Sequence[str]
    metrics: Sequence[tuple[str, str]]


@translate_state_errors("model")
def card_tables(meta: Mapping[str, Any], max_relations: int | None = MAX_RELATIONS) -> CardTables:
    """Return the tables of the card of a model or completion from its metadata."""

    def texts(rows: Iterable[tuple[str, Any]]) -> list[tuple[str, str]]:
        return [(label, _format_value(value)) for label, value in rows]

    columns, rows, more = _relation_table(meta, max_relations) if meta["kind"] == "completion" else ([], [], 0)
    return CardTables(
        title=_plain_title(meta),
        relations=(columns, [[_format_value(cell) for cell in row] for row in rows], more),
        data=texts(_kb_rows(meta["kb"])),
        settings=texts(_setting_rows(meta)),
        found_constraints=[str(found_from_dict(fields)) for fields in meta.get("found_constraints", ())],
        metrics=texts(_label(_summarize_losses(meta["metrics"]), _METRICS)),
    )


def _plain_title(meta: Mapping[str, Any]) -> str:
    if meta["kind"] == "completion":
        return f"Completion of {plural(len(meta['relations']), 'relation')}"
    return f"Model of {meta['query']}"


def escape_markdown(value: object) -> str:
    r"""Return a value as Markdown that shows just that.

    >>> print(escape_markdown("born_in | *x*"))
    born\_in &#124; \*x\*
    """
    return _SPECIAL.sub(r"\\\g<0>", _format_value(value)).replace("|", "&#124;")


def _introduction(meta: Mapping[str, Any]) -> dict[str, str]:
    """Return the title, the summary and the section on use."""
    if meta["kind"] != "completion":
        query = _inline_code(meta["query"])
        return {
            "title": f"Model of {query}",
            "summary": "A Gaifman model. It predicts the probability that a tuple of objects is an answer of the query "
            "from the neighbourhoods of the objects.",
            "predicts": f"Answers of {query}: objects for its free variables.",
        }
    columns, rows, more = _relation_table(meta)
    parts = ["Facts of these relations:", _markdown_table(columns, rows)]
    parts += [f"And {more:,} more with fewer answers."] if more else []
    untrained = sum(not relation["trained"] for relation in meta["relations"])
    parts += [f"{plural(untrained, 'relation')} could not be trained, for the reason given."] if untrained else []
    return {
        "title": _plain_title(meta),
        "summary": "A Gaifman model for each relation. It predicts the probability that a fact which is not in the "
        "knowledge base is true.",
        "predicts": "\n\n".join(parts),
    }


def _relation_table(
    meta: Mapping[str, Any], limit: int | None = MAX_RELATIONS
) -> tuple[list[str], list[list[Any]], int]:
    """Return the columns, the rows of the largest relations, and the number of the others."""
    relations = [_summarize_losses(_with_reason(relation)) for relation in meta["relations"]]
    relations.sort(key=lambda relation: (-relation["answers"], relation["name"]))
    keys = [key for key in _RELATION_COLUMNS if any(key in relation for relation in relations)]
    rows = [[relation.get(key) for key in keys] for relation in relations[:limit]]
    return [_RELATION_COLUMNS[key] for key in keys], rows, len(relations) - len(rows)


def _with_reason(relation: Mapping[str, Any]) -> Mapping[str, Any]:
    """Add why a relation has no model, or no figures, if it has none."""
    reason = next((relation[name] for name in ("reason", "auc_reason", "mrr_reason") if relation.get(name)), None)
    return {**relation, "reason": reason} if reason else relation


def _summarize_losses(values: Mapping[str, Any]) -> dict[str, Any]:
    """Replace the losses of all epochs by their number and the last one."""
    losses = values.get("losses")
    rest = {key: value for key, value in values.items() if key != "losses"}
    return rest if not losses else {**rest, "epochs": len(losses), "training_loss": losses[-1]}


def _kb_rows(kb: Mapping[str, Any]) -> list[tuple[str, Any]]:
    kbs, shared = kb.get("collection", [kb]), kb.get("shared_names")
    rows = [(key, part[key]) for part in kbs for key in _KB_ROWS]
    return rows + (
        [("names that objects of several knowledge bases have; these are different objects", shared)] if shared else []
    )


def _setting_rows(meta: Mapping[str, Any]) -> list[tuple[str, Any]]:
    config, base = meta["config"], meta["base"]
    size = "all objects" if config["size"] is None else f"{config['size']:,} objects"
    used = {**config, "size": size}
    used.pop("expert", None)  # told if there is one
    added = meta.get("added_formulas", [])
    if _is_listwise(meta):
        drawn = () if config["size"] is None else ("radius", "size", "draws")
        names = (*(["phi"] if added else []), *drawn, "hide", "holdout")
        used = {name: used[name] for name in names} | {"missing": _assumed_missing(meta)}
        if choice := meta.get("hide_choice"):
            used["hide"] = describe_choice(choice)
        if expert := meta.get("expert"):
            used["expert"] = describe_expert(expert)
    rows = [*_label(used, _SETTINGS), ("features", meta["features"]), ("base model", base["kind"])]
    rows += [(f"base model: {name}", value) for name, value in sorted(base["settings"].items())]
    rows += [("added formula", text) for text in added[:MAX_FORMULAS]]
    rows += [("more added formulas", len(added) - MAX_FORMULAS)] if len(added) > MAX_FORMULAS else []
    return rows + [("constraint", line) for line in meta.get("constraints", "").splitlines()]


def _found_rows(meta: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """The constraints that were found, with their evidence."""
    found = [found_from_dict(fields) for fields in meta.get("found_constraints", ())]
    rows: list[tuple[str, Any]] = [("constraint found in the data", str(one)) for one in found[:MAX_CONSTRAINTS]]
    return rows + ([("more constraints found", len(found) - MAX_CONSTRAINTS)] if len(found) > MAX_CONSTRAINTS else [])


def _metrics(meta: Mapping[str, Any]) -> str:
    metrics = meta["metrics"]
    parts = [_markdown_table(["metric", ""], _label(_summarize_losses(metrics), _METRICS))]
    if metrics.get("ranked_facts"):
        parts.append(f"Ranked were {describe_sample(metrics)}. {RANKING_NOTE}")
    reasons = [metrics[name] for name in ("auc_reason", "mrr_reason", "typed_auc_reason") if metrics.get(name)]
    parts += [escape_markdown(f"Where no figure stands, none is claimed: {reasons[0]}.")] if reasons else []
    if meta.get("calibration"):
        cells = [[row["predicted"], row["observed"], row["count"]] for row in meta["calibration"]]
        parts.append("Held-out tuples by predicted probability, and the fraction of answers among them:")
        parts.append(_markdown_table(["predicted", "observed", "tuples"], cells))
    else:
        parts.append("No probability was checked: evaluate the model before you rely on them.")
    return "\n\n".join(parts)


def _missing(meta: Mapping[str, Any]) -> str:
    """Return what is assumed about missing facts."""
    metrics, share = meta["metrics"], meta["config"].get("missing")
    if not share and _is_listwise(meta):
        return "The setting missing is the share of facts that probabilities assume to be missing."
    if not share:
        return "The setting missing corrects figures and probabilities for an assumed share of missing facts."
    expected = metrics.get("true_negatives")
    text = f"Here a fraction of {share:.4g} of the true answers is assumed to be missing, at random"
    text += "." if expected is None else f": then {expected:.4g} of the negatives are true."
    text += " Probabilities, calibration error after calibration, Brier score and loss are corrected for it."
    reason = metrics.get("missing_reason")
    return f"{text} But {reason}: fewer are missing, or not at random." if reason else text


NETWORK_PARTS = """\
If the query has several parts, a negative fulfils all but the part that is hidden from the answer: the AUC says how
well the model predicts that part. """
NETWORK_SEES = """\
The model sees the facts within its radius of the objects, up to its size. For an object without facts it predicts
  the average."""
LISTWISE_SEES = """\
The model sees what its formulas reach from the objects of a tuple. An object without facts is ranked as the average of
  those without."""
LISTWISE_PRIOR = """\
A probability is that of a fact which the knowledge base does not hold, if it misses {missing:.4g} of its facts:
  held-out facts were proposed among all candidates at that share. If more are missing, probabilities are too low."""
NETWORK_PRIOR = """\
A probability refers to tuples like the held-out ones, with their prior.{prior} Among all tuples answers are much
  rarer, and the same probability stands for fewer of them. Use it for ranking, or set the prior to your own fraction
  of answers."""


def _is_listwise(meta: Mapping[str, Any]) -> bool:
    return bool(meta["base"]["kind"] == LISTWISE)


def _assumed_missing(meta: Mapping[str, Any]) -> float:
    return TrainingConfig(missing=meta["config"].get("missing")).assumed_missing


def _prior(meta: Mapping[str, Any]) -> str:
    """Return what probabilities refer to."""
    if _is_listwise(meta):
        return LISTWISE_PRIOR.format(missing=_assumed_missing(meta))
    return NETWORK_PRIOR.format(prior=_training_prior(meta))


def _training_prior(meta: Mapping[str, Any]) -> str:
    prior, positives, negatives = meta["metrics"].get("prior"), meta["config"]["positives"], meta["config"]["negatives"]
    held_out = "" if prior is None else f" Here the fraction of answers is {prior:.4g},"
    training = f"in training it was {positives / (positives + negatives):.4g}."
    return f"{held_out} {training if held_out else training.capitalize()}"


def _example(meta: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Return the query of an example, none for a model, and Python calls that rank and predict."""
    if meta["kind"] != "completion":
        objects = ", ".join(['"OBJECT"'] * _query_arity(meta["query"]))
        return [], ["print(model.answers())", f"model.probability({objects})"]
    first: Mapping[str, Any] = next(iter(meta["relations"]), {"name": "RELATION", "arity": 2})
    variables = ", ".join(f"x{position}" for position in range(1, first["arity"] + 1))
    query = f"{format_relation(first['name'])}({variables})"
    objects = ", ".join([repr(first["name"]), *['"OBJECT"'] * first["arity"]])
    return [query], [f"print(model.answers({query!r}))", f"model.probability({objects})"]


def _query_arity(query: str) -> int:
    try:
        return len(parse_query(query).variables)
    except FormulaError:
        return 1


def _train_command(meta: Mapping[str, Any]) -> str:
    """Return the command of the run, or one that trains such a model."""
    if "command" in meta:
        return str(meta["command"])
    config = meta["config"]
    query = [] if meta["kind"] == "completion" else [meta["query"]]
    size = "all" if config["size"] is None else str(config["size"])
    options = ["--radius", str(config["radius"]), "--size", size, "--seed", str(config["seed"])]
    if _is_listwise(meta):
        options = ["--seed", str(config["seed"])]
        options += ["--expert", config["expert"]] if config.get("expert", "none") != "none" else []
    return shlex.join(["gaifman", "train", "KB", *query, "-o", "MODEL", *options])


def _label(values: Mapping[str, Any], labels: Mapping[str, str]) -> list[tuple[str, Any]]:
    return [(label, values[key]) for key, label in labels.items() if key in values]


def _markdown_table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [header, ["---"] * len(header), *([escape_markdown(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _fence(language: str, *lines: str) -> str:
    """Return a code block whose fence is longer than any run of backticks inside."""
    body = "\n".join(escape_unprintable(line) for line in lines)
    ticks = "`" * max(3, *(len(run) + 1 for run in re.findall("`+", body) or [""]))
    return f"{ticks}{language}\n{body}\n{ticks}"


def _inline_code(value: object) -> str:
    """Return a value between backticks. Not for tables: a bar would end the cell."""
    text = _format_value(value)
    ticks = "`" * (max((len(run) for run in re.findall("`+", text)), default=0) + 1)
    space = " " if text.startswith(("`", " ")) or text.endswith(("`", " ")) else ""
    return f"{ticks}{space}{text}{space}{ticks}"


def _format_value(value: object) -> str:
    match value:
        case None:
            return "–"
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case float():
            return f"{value:.4g}"
        case Mapping():
            return ", ".join(f"{_format_value(key)} {_format_value(inner)}" for key, inner in sorted(value.items()))
        case list() | tuple():
            return ", ".join(map(_format_value, value))
    return escape_unprintable(str(value))

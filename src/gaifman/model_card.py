"""Model cards: what a model answers, how well, and what it must not be used for, as Markdown.

>>> text = model_card({"kind": "model", "query": "borders(x, y)", "radius": 1, "size": 20})
>>> print(text.partition("##")[0].strip())
# A model of `borders(x, y)`
<BLANKLINE>
A Gaifman model: the probability that a tuple of objects is an answer, learnt from the neighbourhoods of known answers.

The same description gives the same card: no dates, no machine. Names are shown as they are, whatever signs of Markdown,
line breaks or marks of direction they hold.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gaifman._html import code as formula
from gaifman._html import muted, paragraph, stack, table
from gaifman.errors import FormulaError, InputError, escape_unprintable
from gaifman.logic.parser import parse_query
from gaifman.logic.printer import format_relation

MAX_RELATIONS = 50
"""Relations listed at most: those with the most answers."""

OBJECT_PLACEHOLDER = '"OBJECT"'
"""What stands for the name of an object in code."""

# Dots and colons only where some programs would make a link of a bare address: numbers stay readable.
_SPECIAL = re.compile(r"[\\`*_{}\[\]<>#&~$^@!]|:(?=//)|(?<=www)\.", re.IGNORECASE)
_LABELS = {
    "held_out": "held-out tuples",
    "loss": "loss: mean cross-entropy in nats; always saying a half gives 0.693",
    "brier": "Brier score: mean squared error of the probabilities; always saying a half gives 0.25",
    "auc": "AUC: how often an answer gets more than a corruption",
    "ece_before": "calibration error before calibration: mean distance of probability and share",
    "ece_after": "calibration error after calibration",
    "prior": "prior: share of answers among the held-out tuples",
    "answers": "answers",
    "epochs": "epochs",
    "training_loss": "loss in the last pass, on the examples it learnt from",
}
_SHORT = {key: label.partition(":")[0] for key, label in _LABELS.items()}
_COLUMN_HEADERS = {"auc": "AUC", "held_out": "held-out tuples", "reason": "why not"}
_EXAMPLE_LABELS = {
    "positives": "neighbourhoods drawn for each answer",
    "negatives": "neighbourhoods of corrupted tuples for each answer",
    "negative_sampling": "objects that corruptions are drawn from",
    "hard_negative_fraction": "share of corruptions with an object near one that stays",
    "hide": "what a training tuple does not see",
    "holdout": "share of the answers held out",
    "seed": "seed",
}


def model_card(meta: Mapping[str, Any]) -> str:
    """The card of a model or completion with this description, as its file has it."""
    asked = "relations" if meta.get("kind") == "completion" else "query"
    if lacking := [key for key in ("kind", asked, "radius", "size") if key not in meta]:
        raise InputError(f"the description of the model lacks {', '.join(lacking)}")
    sections = [
        _title(meta),
        _answers_section(meta),
        _data_section(meta),
        _training_section(meta),
        _evaluation_section(meta),
        _limits_section(meta),
        _usage_section(meta),
    ]
    return "\n\n".join([*sections, _command_section(meta)]) + "\n"


def summary_html(title: str, meta: Mapping[str, Any]) -> str:
    """What a notebook shows of a model or completion: what is said of it, and how it learnt and how well."""
    metrics = [
        (label, _format_value(value)) for label, value in _rows(_SHORT, _summarize_losses(meta.get("metrics") or {}))
    ]
    found = table(("", ""), [*_settings(meta), *metrics])
    if meta.get("kind") != "completion":
        return stack(paragraph(title), paragraph(formula(meta.get("query"))), found)
    keys, relations = ("name", "arity", "answers", "trained", "training_loss"), _most_answers(meta)
    rows = [[_format_value(relation.get(key)) for key in keys] for relation in relations[:MAX_RELATIONS]]
    own = table(("relation", "places", "answers", "trained", "loss in training"), rows, numeric_columns=(1, 2, 4))
    left = len(relations) - MAX_RELATIONS
    rest = [paragraph(muted(f"… and {left:,} more with fewer answers"))] if left > 0 else []
    return stack(paragraph(title), found, own, *rest)


def escape_markdown(value: object) -> str:
    r"""A value as text of Markdown that shows just that.

    >>> print(escape_markdown("born_in | *x*"))
    born\_in &#124; \*x\*
    """
    return _SPECIAL.sub(r"\\\g<0>", _format_value(value)).replace("|", "&#124;")


def inline_code(value: object) -> str:
    """A value between backticks: not for tables, where no text with a bar can stand so."""
    text = _format_value(value)
    ticks = "`" * (max((len(run) for run in re.findall("`+", text)), default=0) + 1)
    room = " " if text.startswith(("`", " ")) or text.endswith(("`", " ")) else ""
    return f"{ticks}{room}{text}{room}{ticks}"


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


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [head, ["---"] * len(head), *([escape_markdown(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _fence(language: str, *lines: str) -> str:
    """A block of code; its fence is longer than any run of backticks inside."""
    body = "\n".join(escape_unprintable(line) for line in lines)
    ticks = "`" * max(3, *(len(run) + 1 for run in re.findall("`+", body) or [""]))
    return f"{ticks}{language}\n{body}\n{ticks}"


def _rows(labels: Mapping[str, str], found: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """What is known, in the order of the labels; then what has no label, by name."""
    known = [(label, found[key]) for key, label in labels.items() if key in found]
    return known + [(key, found[key]) for key in sorted(found.keys() - labels.keys())]


def _column_header(key: str) -> str:
    """The head of a column."""
    return _COLUMN_HEADERS.get(key) or escape_markdown(key)


def _title(meta: Mapping[str, Any]) -> str:
    if meta["kind"] == "completion":
        count = len(meta["relations"])
        return (
            f"# A completion of {count:,} relation{'s' if count != 1 else ''}\n\nA Gaifman model for each relation: "
            "the probability that a fact which is not in the knowledge base is true all the same."
        )
    return (
        f"# A model of {inline_code(meta['query'])}\n\nA Gaifman model: the probability that a tuple of objects is an answer, "
        "learnt from the neighbourhoods of known answers."
    )


def _answers_section(meta: Mapping[str, Any]) -> str:
    head = "## What it answers\n\n"
    if meta["kind"] != "completion":
        return f"{head}The query {inline_code(meta['query'])}: for any objects in the places of its free variables, how likely."
    relations = _most_answers(meta)
    more = sorted(
        {key for relation in relations for key in relation} - {"name", "arity", "answers", "trained", "training_loss"}
    )
    keys = ["name", "arity", "answers", "trained", "training_loss", *more]
    table = _table(
        ["relation", "places", "answers", "trained", "loss in training", *(_column_header(key) for key in more)],
        [[relation.get(key) for key in keys] for relation in relations[:MAX_RELATIONS]],
    )
    left = len(relations) - MAX_RELATIONS
    rest = f"\n\nAnd {left:,} more with fewer answers." if left > 0 else ""
    untrained = sum(relation.get("trained") is False for relation in relations)
    note = f"\n\nFor {untrained:,} of them nothing was learnt: there were too few answers." if untrained else ""
    return f"{head}How likely a fact of one of these relations is.\n\n{table}{rest}{note}"


def _most_answers(meta: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The relations of a completion, those with the most answers first."""
    return sorted(
        map(_summarize_losses, meta["relations"]), key=lambda own: (-own.get("answers", 0), str(own.get("name")))
    )


def _summarize_losses(found: Mapping[str, Any]) -> dict[str, Any]:
    """The losses of all passes as how many there were and what the last one was."""
    losses = found.get("losses")
    rest = {key: value for key, value in found.items() if key != "losses"}
    return rest if not losses else {"epochs": len(losses), "training_loss": losses[-1]} | rest


def _data_section(meta: Mapping[str, Any]) -> str:
    head, kb = "## What it was trained on\n\n", meta.get("kb") or {}
    if not kb:
        return f"{head}The description does not say."
    table = _table(
        ["knowledge base", ""], _rows({"objects": "objects", "relations": "relations", "facts": "facts"}, kb)
    )
    return (
        f"{head}{table}\n\nThe fingerprint is that of `gaifman info KB`: the same facts give the same. Treat the model "
        "as you treat them: its features may name objects, and its weights follow from all facts."
    )


def _training_section(meta: Mapping[str, Any]) -> str:
    base, rows = meta.get("base") or {}, _settings(meta)
    rows += [(f"base model, {key}", value) for key, value in sorted((base.get("settings") or {}).items())]
    recipe = dict(meta.get("examples") or {})
    rows += _rows(_EXAMPLE_LABELS, recipe | ({"seed": str(recipe["seed"])} if "seed" in recipe else {}))
    return f"## How it learnt\n\n{_table(['setting', ''], rows)}"


def _settings(meta: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """What it looks at, and what learns from that."""
    base = meta.get("base") or {}
    size = "all objects" if meta["size"] is None else f"{_format_value(meta['size'])} objects"
    rows = [("depth of a neighbourhood", meta["radius"]), ("size of a neighbourhood", size)]
    rows += [("features", meta["features"])] if "features" in meta else []
    rows += [("set of features", meta["phi"])] if "phi" in meta else []
    return rows + ([("base model", base["kind"])] if "kind" in base else [])


def _reference_population(meta: Mapping[str, Any]) -> str:
    """The tuples that the figures are about."""
    recipe = meta.get("examples") or {}
    share = f"{recipe['holdout']:.4g}" if isinstance(recipe.get("holdout"), int | float) else "a"
    pool = f" from the pool {inline_code(recipe['negative_sampling'])}" if "negative_sampling" in recipe else ""
    pool += (
        f", a share of {recipe['hard_negative_fraction']:.4g} of them near one that stays"
        if _has_hard_negatives(recipe)
        else ""
    )
    part = "the held-out share of the known answers" if share == "a" else f"a share of {share} of the known answers"
    return (
        f"The reference population: {part}, never learnt from, and corruptions of them, with objects drawn{pool}. A "
        "corruption counts as wrong unless it is a known answer; where the knowledge base is incomplete some are true, "
        "and the figures are then too low."
    )


def _has_hard_negatives(recipe: Mapping[str, Any]) -> bool:
    """Whether some corruptions are near; a file of another hand may say anything."""
    near = recipe.get("hard_negative_fraction")
    return isinstance(near, int | float) and near > 0


def _evaluation_section(meta: Mapping[str, Any]) -> str:
    metrics, rows = _summarize_losses(meta.get("metrics") or {}), meta.get("calibration") or []
    parts = ["## How well", _reference_population(meta)]
    if metrics:
        parts.append(_table(["on held-out tuples", ""], _rows(_LABELS, metrics)))
    else:
        parts.append(
            "Nothing was measured on held-out tuples. Do not rely on its probabilities before you have done so."
        )
    if rows:
        parts.append("Of the held-out tuples with about this probability, this share were answers:")
        cells = [[row.get(key) for key in ("predicted", "share", "count")] for row in rows]
        parts.append(_table(["probability", "share", "tuples"], cells))
    return "\n\n".join(parts)


def _prior(meta: Mapping[str, Any]) -> str:
    """How many of the tuples it learnt from were answers."""
    recipe, metrics = meta.get("examples") or {}, meta.get("metrics") or {}
    positives, negatives = recipe.get("positives"), recipe.get("negatives")
    said = []
    if isinstance(metrics.get("prior"), int | float):
        said.append(f"a share of {metrics['prior']:.4g} of the held-out tuples were answers")
    if isinstance(positives, int | float) and isinstance(negatives, int | float) and positives + negatives > 0:
        said.append(f"a share of {positives / (positives + negatives):.4g} of what it learnt from were answers")
    return f" Here {' and '.join(said)}." if said else " The description does not say what share was answers here."


def _limits_section(meta: Mapping[str, Any]) -> str:
    lines = (
        f"A probability is meant for tuples like those of the reference population, with its prior.{_prior(meta)} "
        "Among all tuples of objects answers are far rarer: there the same number stands for fewer of them. Use it to "
        "rank, or correct it for your own share of answers.\n"
        "It sees the facts within its depth of the objects, and no more than its size. Of objects without facts it "
        "knows nothing; what it says of them is the average.\n"
        "A knowledge base with other relations, or with the same names for other things, is not what it learnt from.\n"
        "It repeats what the knowledge base holds, errors and gaps included: what is recorded more often seems "
        "likelier.\n"
        "It gives correlation, not cause, and no proof. It must not decide on its own about persons: their rights, "
        "health, credit, work or liberty."
    ).split("\n")
    return "## Limits\n\n" + "\n".join(f"- {line}" for line in lines)


def _example_call(meta: Mapping[str, Any]) -> str:
    """The call that asks the model, or the first relation of a completion, about a tuple."""
    words, width = [], 0
    if meta["kind"] == "completion":
        first: Mapping[str, Any] = next(iter(meta["relations"]), {})
        words, width = [repr(str(first.get("name", "RELATION")))], int(first.get("arity", 2))
    else:
        width = _query_arity(str(meta["query"]))
    return f"model.probability({', '.join([*words, *[OBJECT_PLACEHOLDER] * width])})"


def _example_query(meta: Mapping[str, Any]) -> str:
    """What a completion is asked to rank, its first relation; nothing for a model, which has its query."""
    if meta["kind"] != "completion":
        return ""
    first: Mapping[str, Any] = next(iter(meta["relations"]), {})
    places = ", ".join(f"x{place + 1}" for place in range(int(first.get("arity", 2))))
    return f"{format_relation(str(first.get('name', 'RELATION')))}({places})"


def _query_arity(query: str) -> int:
    """The number of variables of a query; 1 for what is none of ours."""
    try:
        return max(1, len(parse_query(query).variables))
    except FormulaError:
        return 1


def _usage_section(meta: Mapping[str, Any]) -> str:
    """What to type: objects are named for the query's variables."""
    asked = _example_query(meta)
    rank = f"print(model.answers({repr(asked) if asked else ''}))"
    lines = "import gaifman", 'kb = gaifman.read("KB")', 'model = gaifman.load("MODEL", kb)', rank, _example_call(meta)
    command = inline_code(shlex.join(["gaifman", "answer", "MODEL", "KB", *([asked] if asked else [])]))
    named = "the file's name for MODEL, the knowledge base's for KB, and names of objects"
    ranked = f"The most probable answers come from the command {command} too."
    return f"## How to use it\n\nWith {named}:\n\n{_fence('python', *lines)}\n\n{ranked}"


def _command_section(meta: Mapping[str, Any]) -> str:
    recipe = meta.get("examples") or {}
    given = meta.get("command")
    line = given if isinstance(given, str) else shlex.join(map(str, given or _command(meta, recipe)))
    version = f" It was made with gaifman {escape_markdown(meta['version'])}." if "version" in meta else ""
    seed = f" The seed was {escape_markdown(str(recipe['seed']))}." if "seed" in recipe else ""
    return (
        f"## How it was made\n\n{_fence('console', f'$ {line}')}\n\nThe same command with the same knowledge base "
        f"gives the same file, byte for byte, on any number of threads.{seed}{version}"
    )


def _command(meta: Mapping[str, Any], recipe: Mapping[str, Any]) -> list[str]:
    """The command that makes such a model, where its description does not have it."""
    query = [] if meta["kind"] == "completion" else [str(meta["query"])]
    size = "all" if meta["size"] is None else str(meta["size"])
    seed = ["--seed", str(recipe["seed"])] if "seed" in recipe else []
    return ["gaifman", "train", "KB", *query, "-o", "MODEL", "--radius", str(meta["radius"]), "--size", size, *seed]

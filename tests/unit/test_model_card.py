"""Model cards: every section, nothing made up, and names that try to be Markdown."""

from __future__ import annotations

import ast
import copy
import shlex
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

import gaifman
from gaifman.errors import InputError, escape_unprintable
from gaifman.model_card import MAX_RELATIONS, escape_markdown, model_card
from gaifman.training import TrainingConfig
from kbs import HOSTILE

MARKDOWN = (
    *(
        "| a | b |",
        "`tick`",
        "``",
        "```python",
        "*bold*",
        "_it_",
        "[x](http://evil.example)",
        "![x](y.png)",
        "<script>",
    ),
    *(
        "<!-- x",
        "&amp;",
        "# head",
        "> quote",
        "- item",
        "1. one",
        "\\|",
        "a\\",
        "\\`",
        "~~x~~",
        "$x$",
        "www.evil.example",
    ),
    *(
        "a@b.example",
        "http://evil.example",
        "|",
        "`|`",
        "a\n\n# b",
        "---",
        "***",
        "<b>",
        "]]>",
        "\u202ebidi",
        "\x1b[31m",
    ),
)
NASTY = (*MARKDOWN, *HOSTILE)

MODEL: dict[str, Any] = {
    "kind": "model",
    "query": "∃z parent(x, z) ∧ parent(z, y)",
    "features": 1234,
    "base": {"kind": "mlp", "settings": {"hidden": [100, 100], "learning_rate": 0.1}},
    "config": TrainingConfig(size=20, base="mlp", positives=1, negatives=4, phi="paper", seed=12345).as_dict(),
    "kb": {"fingerprint": "ab12", "objects": 1155, "relations": 35, "facts": 5757},
    "metrics": {"held_out": 400, "loss": 0.21, "ece_before": 0.08, "ece_after": 0.01, "brier": 0.05, "auc": 0.98},
    "calibration": [
        {"predicted": 0.05, "observed": 0.04, "count": 300},
        {"predicted": 0.9, "observed": 0.88, "count": 100},
    ],
    "version": "0.1.0",
}
COMPLETION: dict[str, Any] = {
    "kind": "completion",
    "relations": [
        {"name": "born_in", "arity": 2, "answers": 300, "trained": True, "losses": [0.5, 0.3], "auc": 0.9},
        {"name": "has part", "arity": 3, "answers": 5000, "trained": False, "reason": "fewer than two facts"},
    ],
    **{name: MODEL[name] for name in ("features", "base", "kb", "version")},
    "config": TrainingConfig(radius=2, size=None, base="mlp").as_dict(),
    "metrics": {"held_out": 0},
}
LISTWISE: dict[str, Any] = {
    **COMPLETION,
    "base": {"kind": "listwise", "settings": {"epochs": 3}},
    "config": TrainingConfig(size=None, base="listwise", missing=0.3, seed=7).as_dict(),
}
SECTIONS = ["Intended use", "Training data", "Training", "Evaluation", "Limits", "Usage", "Reproduction"]


def tokens(text: str) -> list[Token]:
    """The card as a reader of Markdown with tables takes it, inner tokens after their blocks."""
    found = []
    for token in MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(text):
        found += [token, *(token.children or [])]
    return found


def shown(token: Token) -> str:
    return "".join(child.content for child in token.children or [])


def cells(text: str) -> list[str]:
    """All cells of all tables, as they are shown."""
    found, before = [], None
    for token in MarkdownIt("commonmark").enable("table").parse(text):
        if token.type == "inline" and before in ("th_open", "td_open"):
            found.append(shown(token))
        before = token.type
    return found


def headings(text: str) -> list[str]:
    found, before = [], None
    for token in MarkdownIt("commonmark").enable("table").parse(text):
        if before == "heading_open":
            found.append(shown(token))
        before = token.type
    return found


def blocks(text: str) -> list[str]:
    return [token.content.rstrip("\n") for token in tokens(text) if token.type == "fence"]


@pytest.mark.parametrize("meta", [MODEL, COMPLETION, LISTWISE], ids=["model", "completion", "listwise"])
def test_every_section_stands_in_its_order(meta: dict[str, Any]) -> None:
    assert headings(model_card(meta))[1:] == SECTIONS


def test_the_card_of_a_model_has_its_settings_and_metrics() -> None:
    text = model_card(MODEL)
    found = cells(text)
    rows = dict(zip(found[::2], found[1::2], strict=False))
    assert rows["facts"] == "5,757"
    assert rows["fingerprint"] == "ab12"
    assert rows["size of a neighbourhood"] == "20 objects"
    assert rows["features"] == "1,234"
    assert rows["base model: hidden"] == "100, 100"
    assert rows["negatives per answer"] == "4"
    assert rows["fraction of hard negatives"] == "0"
    assert rows["calibration error after calibration"] == "0.01"
    assert found[-6:] == ["0.05", "0.04", "300", "0.9", "0.88", "100"]
    assert "are 0.1 of the known answers" in text
    assert "In training it was 0.2." in text
    assert "drawn by mixed sampling" in text
    assert "is 12345, the version of gaifman 0.1.0." in text
    with_prior = model_card(MODEL | {"metrics": {"held_out": 9, "prior": 0.25}})
    assert "Here the fraction of answers is 0.25, in training it was 0.2." in with_prior
    several = model_card(MODEL | {"kb": {"collection": [MODEL["kb"], MODEL["kb"]]}})
    assert cells(several).count("ab12") == 2


def test_the_card_of_ranked_lists_has_no_settings_of_the_network() -> None:
    text = model_card(LISTWISE)
    found = cells(text)
    rows = dict(pairwise(found))
    assert rows["base model"] == "listwise"
    assert rows["base model: epochs"] == "3"
    assert not {"radius of a neighbourhood", "size of a neighbourhood", "draws per prediction"} & {*found}
    assert "if it misses 0.3 of its facts" in text
    assert "In training it was" not in text
    assert blocks(text)[-1] == "$ gaifman train KB -o MODEL --seed 7"


def test_the_card_names_what_was_found_with_its_evidence() -> None:
    found = {"constraint": "functional: capital 1→2", "holds": 9, "instances": 10, "evidence": "9 of 10 have one"}
    rows = cells(model_card(MODEL | {"found_constraints": [found] * 120}))
    assert rows.count("constraint found in the data") == 100
    assert rows[rows.index("constraint found in the data") + 1] == "functional: capital 1→2 (9 of 10 have one)"
    assert rows[rows.index("more constraints found") + 1] == "20"


def test_the_card_names_the_constraints() -> None:
    found = cells(model_card(MODEL | {"constraints": "functional: born_in 1→2\ntypes: born_in person, _\n"}))
    rows = [(found[i], found[i + 1]) for i in range(len(found) - 1) if found[i] == "constraint"]
    assert rows == [("constraint", "functional: born_in 1→2"), ("constraint", "types: born_in person, _")]


def test_a_completion_lists_its_relations_the_largest_first() -> None:
    text = model_card(COMPLETION)
    found = cells(text)
    assert found[:8] == ["relation", "arity", "answers", "trained", "training loss", "AUC", "epochs", "reason"]
    assert found[8:16] == ["has part", "3", "5,000", "no", "–", "–", "–", "fewer than two facts"]
    assert found[16:24] == ["born_in", "2", "300", "yes", "0.3", "0.9", "2", "–"]
    assert "# Completion of 2 relations" in text
    assert "1 relation could not be trained" in text
    assert "all objects" in text
    assert "No probability was checked" in text


def test_of_many_relations_the_largest_are_listed() -> None:
    relations = [{"name": f"r{i}", "arity": 2, "answers": i, "trained": True} for i in range(MAX_RELATIONS + 7)]
    text = model_card({**COMPLETION, "relations": relations})
    assert "And 7 more with fewer answers." in text
    assert f"r{MAX_RELATIONS + 6}" in cells(text)
    assert "r6" not in cells(text)
    assert "# Completion of 1 relation\n" in model_card({**COMPLETION, "relations": relations[:1]})
    assert "# Completion of 0 relations\n" in model_card({**COMPLETION, "relations": []})


@pytest.mark.parametrize("key", ["kind", "query", "config", "base", "kb"])
def test_missing_metadata_is_refused(key: str) -> None:
    meta = {name: value for name, value in MODEL.items() if name != key}
    with pytest.raises(InputError, match=f"lacks {key}"):
        model_card(meta)
    with pytest.raises(InputError, match="lacks relations"):
        model_card({"kind": "completion"})


def test_the_losses_become_the_number_of_epochs_and_the_last_loss() -> None:
    found = cells(model_card({**MODEL, "metrics": {"held_out": 0, "losses": [0.5, 0.4, 0.25]}}))
    rows = dict(zip(found[::2], found[1::2], strict=False))
    assert rows["epochs"] == "3"
    assert rows["loss of the last epoch, on the training examples"] == "0.25"


def test_the_command_of_a_card_can_be_typed() -> None:
    command = blocks(model_card(MODEL))[-1]
    parts = ["--radius", "auto", "--size", "20", "--seed", "12345"]
    assert shlex.split(command) == ["$", "gaifman", "train", "KB", MODEL["query"], "-o", "MODEL", *parts]
    assert "--size all" in blocks(model_card(COMPLETION))[-1]
    assert blocks(model_card({**MODEL, "command": "gaifman train it's"}))[-1] == "$ gaifman train it's"


@pytest.mark.parametrize("what", ["borders(x, y)", "country(x)", None])
def test_the_python_of_a_card_runs_with_real_names_put_in(
    what: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    kb = gaifman.demo()
    gaifman.write(kb, "countries.duckdb")
    quick: dict[str, Any] = {"size": 5, "min_examples": 0, "options": {"epochs": 1, "hidden": [5]}}
    model = gaifman.fit(kb, what, **quick) if what else gaifman.complete(kb, ["capital"], **quick)
    model.save("model.gaifman")
    python = (
        blocks(model_card(model.meta))[0].replace('"KB"', '"countries.duckdb"').replace('"MODEL"', '"model.gaifman"')
    )
    *lines, ask = python.replace('"OBJECT"', '"france"').splitlines()
    found: dict[str, Any] = {}
    exec("\n".join([*lines, f"answer = {ask}"]), found)
    assert 0 <= found["answer"].value <= 1


def test_the_command_of_a_card_names_the_relation_as_formulas_do() -> None:
    asked = "'has part'(x1, x2, x3)"
    odd = model_card({**COMPLETION, "relations": [{"name": "has part", "arity": 3, "answers": 1, "trained": True}]})
    assert f"`gaifman answer MODEL KB {shlex.quote(asked)}`" in odd
    assert f"print(model.answers({asked!r}))" in odd
    assert len(gaifman.parse_query(asked).variables) == 3
    assert "`gaifman answer MODEL KB`" in model_card(MODEL)


@pytest.mark.parametrize("name", ["born_in", "has part", "it's", "exists", "/m/1", "`", 'say "hi"', "back\\slash"])
def test_the_python_of_a_completion_names_its_relation(name: str) -> None:
    python = blocks(
        model_card({**COMPLETION, "relations": [{"name": name, "arity": 3, "answers": 1, "trained": True}]})
    )[0]
    call = ast.parse(python).body[-1]
    assert isinstance(call, ast.Expr)
    assert isinstance(call.value, ast.Call)
    assert [ast.literal_eval(word) for word in call.value.args] == [name, *["OBJECT"] * 3]


@given(st.one_of(st.sampled_from(NASTY), st.text(max_size=12)))
def test_any_name_is_shown_as_it_is(name: str) -> None:
    """In tables and in code, with no link, picture, emphasis or HTML of its own."""
    meta = copy.deepcopy(COMPLETION)
    meta["relations"] = [{"name": name, "arity": 2, "answers": 3, "trained": True}]
    meta["kb"] |= {"fingerprint": name}
    meta |= {"version": name, "config": meta["config"] | {"phi": name, "negative_sampling": name}}
    text = model_card(meta)
    assert headings(text)[1:] == SECTIONS
    assert escape_unprintable(name).split() in [cell.split() for cell in cells(text)[4:8]]
    kinds = {token.type for token in tokens(text)}
    assert not kinds & {"link_open", "image", "html_block", "html_inline", "em_open", "strong_open", "s_open", "hr"}
    assert not any(c != "\n" and not c.isprintable() for c in text)


@given(st.one_of(st.sampled_from(NASTY), st.text(min_size=1, max_size=12)))
def test_any_query_is_shown_as_it_is(query: str) -> None:
    text = model_card({**MODEL, "query": query})
    found = headings(text)
    assert found[1:] == SECTIONS
    assert found[0].split() == f"Model of {escape_unprintable(query)}".split()
    assert f"gaifman train KB {escape_unprintable(shlex.quote(query))} -o MODEL" in blocks(text)[-1]
    assert not any(c != "\n" and not c.isprintable() for c in text)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *((None, "–"), (True, "yes"), (False, "no"), (12345, "12,345"), (0.123456, "0.1235"), ("|", "&#124;")),
        *(([1, "a_b"], r"1, a\_b"), ({"b": 1, "a": None}, "a –, b 1"), ("a\nb", r"a\\nb")),
        *(("WWW.x.y", r"WWW\.x.y"), ("http://x.y", r"http\://x.y"), ("a@b.c", r"a\@b.c")),
    ],
)
def test_values_as_text(value: object, text: str) -> None:
    assert escape_markdown(value) == text


@pytest.mark.parametrize(("query", "text"), [("a", "`a`"), ("`", "`` ` ``"), ("a``b", "```a``b```"), (" ", "`   `")])
def test_a_query_as_code(query: str, text: str) -> None:
    assert model_card({**MODEL, "query": query}).startswith(f"# Model of {text}\n")


def test_the_same_metadata_gives_the_same_card() -> None:
    backwards = {key: MODEL[key] for key in reversed(MODEL)}
    backwards["metrics"] = dict(reversed(MODEL["metrics"].items()))
    assert model_card(backwards) == model_card(MODEL)

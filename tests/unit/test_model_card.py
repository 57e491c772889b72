"""Model cards: every section, nothing made up, and names that try to be Markdown."""

from __future__ import annotations

import ast
import copy
import shlex
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

import gaifman
from gaifman.errors import InputError, escape_unprintable
from gaifman.model_card import MAX_RELATIONS, escape_markdown, inline_code, model_card
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
    "radius": 1,
    "size": 20,
    "features": 1234,
    "phi": "paper",
    "base": {"kind": "network", "settings": {"hidden": [100, 100], "learning_rate": 0.1}},
    "recipe": {
        "positives": 1,
        "negatives": 4,
        "negative_sampling": "mixed",
        "hide": "own",
        "holdout": 0.1,
        "seed": 12345,
    },
    "kb": {"fingerprint": "ab12", "objects": 1155, "relations": 35, "facts": 5757},
    "metrics": {"held_out": 400, "loss": 0.21, "ece_before": 0.08, "ece_after": 0.01, "brier": 0.05, "auc": 0.98},
    "calibration": [{"predicted": 0.05, "share": 0.04, "count": 300}, {"predicted": 0.9, "share": 0.88, "count": 100}],
    "version": "0.1.0",
}
COMPLETION: dict[str, Any] = {
    "kind": "completion",
    "relations": [
        {"name": "born_in", "arity": 2, "answers": 300, "trained": True, "losses": [0.5, 0.3], "auc": 0.9},
        {"name": "has part", "arity": 3, "answers": 5000, "trained": False, "why": "too few"},
    ],
    "radius": 2,
    "size": None,
}
SECTIONS = [
    *("What it answers", "What it was trained on", "How it learnt", "How well", "Limits", "How to use it"),
    "How it was made",
]


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


@pytest.mark.parametrize("meta", [MODEL, COMPLETION], ids=["model", "completion"])
def test_every_section_stands_in_its_order(meta: dict[str, Any]) -> None:
    assert headings(model_card(meta))[1:] == SECTIONS


def test_a_model_says_what_it_knows() -> None:
    text = model_card(MODEL)
    found = cells(text)
    rows = dict(zip(found[::2], found[1::2], strict=False))
    assert rows["facts"] == "5,757"
    assert rows["fingerprint"] == "ab12"
    assert rows["size of a neighbourhood"] == "20 objects"
    assert rows["features"] == "1,234"
    assert rows["base model, hidden"] == "100, 100"
    assert rows["seed"] == "12345"
    assert rows["neighbourhoods of corrupted tuples for each answer"] == "4"
    assert rows["calibration error after calibration"] == "0.01"
    assert found[-6:] == ["0.05", "0.04", "300", "0.9", "0.88", "100"]
    assert "a share of 0.1 of the known answers" in text
    assert "a share of 0.2 of what it learnt from were answers" in text
    assert "objects drawn from the pool `mixed`." in text
    recipe = {"negative_sampling": "mixed", "hard_negative_fraction": 0.25}
    near = model_card(MODEL | {"recipe": recipe})
    assert "from the pool `mixed`, a share of 0.25 of them near one that stays." in near
    assert "share of corruptions with an object near one that stays" in near
    assert "near one that stays." not in model_card(MODEL | {"recipe": {"negative_sampling": "mixed", "near": "some"}})
    assert "The seed was 12345. It was made with gaifman 0.1.0." in text


def test_a_completion_lists_its_relations_the_largest_first() -> None:
    text = model_card(COMPLETION)
    found = cells(text)
    assert found[:6] == ["relation", "places", "answers", "trained", "loss in training", "AUC"]
    assert found[6:14] == ["passes", "why not", "has part", "3", "5,000", "no", "–", "–"]
    assert found[14:24] == ["–", "too few", "born_in", "2", "300", "yes", "0.3", "0.9", "2", "–"]
    assert "# A completion of 2 relations" in text
    assert "For 1 of them nothing was learnt" in text
    assert "all objects" in text


def test_of_many_relations_the_largest_are_listed() -> None:
    relations = [{"name": f"r{i}", "arity": 2, "answers": i, "trained": True} for i in range(MAX_RELATIONS + 7)]
    text = model_card({**COMPLETION, "relations": relations})
    assert "And 7 more with fewer answers." in text
    assert f"r{MAX_RELATIONS + 6}" in cells(text)
    assert "r6" not in cells(text)
    assert "# A completion of 1 relation\n" in model_card({**COMPLETION, "relations": relations[:1]})
    assert "# A completion of 0 relations\n" in model_card({**COMPLETION, "relations": []})


def test_what_is_not_known_is_not_made_up() -> None:
    text = model_card({"kind": "model", "query": "p(x)", "radius": 1, "size": None})
    assert "Nothing was measured" in text
    assert "The description does not say." in text
    assert "does not say what share was answers" in text
    assert "seed" not in text
    assert "with gaifman" not in text.rsplit("##", 1)[1]


@pytest.mark.parametrize("key", ["kind", "query", "radius", "size"])
def test_what_must_be_there(key: str) -> None:
    meta = {name: value for name, value in MODEL.items() if name != key}
    with pytest.raises(InputError, match=f"lacks {key}"):
        model_card(meta)
    with pytest.raises(InputError, match="lacks relations"):
        model_card({"kind": "completion", "radius": 1, "size": 1})


def test_the_losses_of_passes_are_told_as_their_number_and_the_last() -> None:
    found = cells(model_card({**MODEL, "metrics": {"held_out": 0, "losses": [0.5, 0.4, 0.25]}}))
    rows = dict(zip(found[::2], found[1::2], strict=False))
    assert rows["passes over the examples"] == "3"
    assert rows["loss in the last pass, on the examples it learnt from"] == "0.25"
    assert "losses" not in found


def test_the_command_that_made_it_can_be_typed() -> None:
    made = blocks(model_card(MODEL))[-1]
    parts = ["--radius", "1", "--size", "20", "--seed", "12345"]
    assert shlex.split(made) == ["$", "gaifman", "train", "KB", MODEL["query"], "-o", "MODEL", *parts]
    assert shlex.split(blocks(model_card(COMPLETION))[-1])[-2:] == ["--size", "all"]
    given = blocks(model_card({**MODEL, "command": ["gaifman", "train", "my kb.tsv", "p(x)"]}))[-1]
    assert given == "$ gaifman train 'my kb.tsv' 'p(x)'"
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
    odd = model_card({**COMPLETION, "relations": [{"name": "has part", "arity": 3}]})
    assert f"`gaifman answer MODEL KB {shlex.quote(asked)}`" in odd
    assert f"print(model.answers({asked!r}))" in odd
    assert len(gaifman.parse_query(asked).variables) == 3
    assert "`gaifman answer MODEL KB`" in model_card({"kind": "model", "query": "r(x)", "radius": 1, "size": 2})


@pytest.mark.parametrize("name", ["born_in", "has part", "it's", "exists", "/m/1", "`", 'say "hi"', "back\\slash"])
def test_the_python_of_a_completion_names_its_relation(name: str) -> None:
    python = blocks(model_card({**COMPLETION, "relations": [{"name": name, "arity": 3}]}))[0]
    call = ast.parse(python).body[-1]
    assert isinstance(call, ast.Expr)
    assert isinstance(call.value, ast.Call)
    assert [ast.literal_eval(word) for word in call.value.args] == [name, *["OBJECT"] * 3]


@given(st.one_of(st.sampled_from(NASTY), st.text(max_size=12)))
def test_any_name_is_shown_as_it_is(name: str) -> None:
    """In tables and in code, with no link, picture, emphasis or HTML of its own."""
    meta = copy.deepcopy(COMPLETION)
    meta["relations"] = [{"name": name, "arity": 2, "answers": 3, "trained": True, name + "x": 1}]
    meta |= {"phi": name, "kb": {"fingerprint": name}, "version": name, "recipe": {"pool": name, "seed": 1}}
    text = model_card(meta)
    assert headings(text)[1:] == SECTIONS
    assert escape_unprintable(name).split() in [cell.split() for cell in cells(text)[6:12]]
    kinds = {token.type for token in tokens(text)}
    assert not kinds & {"link_open", "image", "html_block", "html_inline", "em_open", "strong_open", "s_open", "hr"}
    assert not any(c != "\n" and not c.isprintable() for c in text)


@given(st.one_of(st.sampled_from(NASTY), st.text(min_size=1, max_size=12)))
def test_any_query_is_shown_as_it_is(query: str) -> None:
    text = model_card({**MODEL, "query": query})
    found = headings(text)
    assert found[1:] == SECTIONS
    assert found[0].split() == f"A model of {escape_unprintable(query)}".split()
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


@pytest.mark.parametrize(("value", "text"), [("a", "`a`"), ("`", "`` ` ``"), ("a``b", "```a``b```"), (" ", "`   `")])
def test_values_as_code(value: str, text: str) -> None:
    assert inline_code(value) == text


def test_the_same_description_gives_the_same_card() -> None:
    backwards = {key: MODEL[key] for key in reversed(MODEL)}
    backwards["metrics"] = dict(reversed(MODEL["metrics"].items()))
    assert model_card(backwards) == model_card(MODEL)
    metrics = {"zebra": 1, "apple": 2, "loss": 3}
    found = cells(model_card({**MODEL, "metrics": metrics}))
    assert found.index("apple") < found.index("zebra")

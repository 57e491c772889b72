"""JSON lines: facts, values, types and labels, one object per line."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from gaifman.config import Limits
from gaifman.errors import InputError
from gaifman.io import read
from gaifman.kb.knowledge_base import KnowledgeBase


def lines(tmp_path: Path, *rows: object, name: str = "x.jsonl") -> KnowledgeBase:
    (tmp_path / name).write_text("".join(row if isinstance(row, str) else json.dumps(row) + "\n" for row in rows))
    return read(tmp_path / name)


def test_every_kind_of_line(tmp_path: Path) -> None:
    kb = lines(
        tmp_path,
        {"head": "ann", "relation": "parent", "tail": "bob", "confidence": 0.5},
        {"relation": "gave", "objects": ["ann", 7, "bob"]},
        "\n",
        {"object": "ann", "type": "person"},
        {"object": "ann", "attribute": "age", "value": 80},
        {"object": "ann", "label": "Ann Lee"},
        {"relation": "knows", "arg1": "ann", "arg2": "bob", "arg3": None, "probability": 0.25},
    )
    assert [str(fact) for fact in kb.facts()] == [
        "gave(ann, 7, bob).",
        "0.25::knows(ann, bob).",
        "0.5::parent(ann, bob).",
        "person(ann).",
    ]
    assert kb.value("age", "ann") == 80
    assert kb.labels == {"ann": "Ann Lee"}
    assert [str(note).partition(",")[0] for note in kb.notes] == ["1 file read as jsonlines"]


def test_missing_facts_are_read_with_their_labels(tmp_path: Path) -> None:
    row = {"head": "Q1", "head_label": "One", "relation": "r", "tail": "Q2", "tail_label": "Two (Q2)"}
    more = {"probability": 0.75, "rank": 1, "conflicts": "", "reason": "x", "facts": "y", "other": 1}
    kb = lines(tmp_path, row | more)
    assert [str(fact) for fact in kb.facts()] == ["0.75::r(Q1, Q2)."]
    assert kb.labels == {"Q1": "One"}
    assert {note.text: note.example for note in kb.notes}["keys of JSON lines that are not read"] == "other"


def test_detected_by_content(tmp_path: Path) -> None:
    row = {"head": "ann", "relation": "parent", "tail": "bob\tb"}
    for name in ("x.txt", "x.json", "x.tsv", "x"):
        assert len(lines(tmp_path, row, row, name=name)) == 1
    (tmp_path / "x.gz").write_bytes(gzip.compress(json.dumps(row).encode()))
    assert len(read(tmp_path / "x.gz")) == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"head": "a", "relation": "r"', "line 1, column 30: not JSON"),
        ('{"a": 1}', "these keys make no fact: a"),
        ("{}", "these keys make no fact: none"),
        ("[1]", "expected a JSON object, got [1]"),
        ('{"head": null, "relation": "r", "tail": "x"}', "head must be a text or an integer, got null"),
        ('{"head": true, "relation": "r", "tail": "x"}', "head must be a text or an integer, got true"),
        ('{"head": 1.5, "relation": "r", "tail": "x"}', "head must be a text or an integer, got 1.5"),
        ('{"head": "", "relation": "r", "tail": "x"}', "a name cannot be empty"),
        ('{"head": "a\\u0000", "relation": "r", "tail": "x"}', "a name cannot contain the character NUL"),
        ('{"head": "a\\ud800", "relation": "r", "tail": "x"}', "half of a surrogate pair"),
        ('{"relation": "r", "objects": "ab"}', 'objects must be a list of names, got "ab"'),
        ('{"relation": "r", "objects": []}', "a fact has 1 to 8 objects, not 0"),
        ('{"relation": "r", "objects": [1, 2, 3, 4, 5, 6, 7, 8, 9]}', "a fact has 1 to 8 objects, not 9"),
        ('{"head": "a", "relation": "r", "tail": "b", "confidence": 2}', "a confidence must be above 0 and at most 1"),
        ('{"head": "a", "relation": "r", "tail": "b", "confidence": "1"}', 'confidence must be a number, got "1"'),
        ('{"head": "a", "relation": "r", "tail": "b", "confidence": NaN}', "NaN is not a number"),
        ('{"object": "a", "attribute": "r", "value": 1e999}', "a value must be a finite number"),
        (f'{{"object": "a", "attribute": "r", "value": {"9" * 400}}}', "value must be a finite number"),
        (f'{{"head": {"9" * 10_000}, "relation": "r", "tail": "b"}}', "Exceeds the limit"),
        (f'{{"head": {"[" * 100_000}, "relation": 1}}', "it is nested too deep"),
        ('{"head": "a", "relation": "s", "tail": "b", "x": "' + "y" * 2_000_000 + '"}', "the line is longer than"),
    ],
)
def test_mistakes(tmp_path: Path, text: str, message: str) -> None:
    good = '{"head": "a", "relation": "s", "tail": "b"}\n'
    with pytest.raises(InputError) as caught:
        lines(tmp_path, good, text + "\n")
    assert message.replace("line 1", "line 2") in str(caught.value)
    assert caught.value.location
    assert caught.value.location.line == 2


def test_arities_and_limits(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"line 2, column 1: r has 2 arguments, not 1") as caught:
        lines(tmp_path, {"head": "a", "relation": "r", "tail": "b"}, {"relation": "r", "objects": ["a"]})
    assert caught.value.hint.endswith("x.jsonl, line 1, column 1")
    (tmp_path / "x.jsonl").write_text('{"relation": "r", "objects": ["a"]}\n' * 5)
    with pytest.raises(InputError, match="there are more than 4 facts and values"):
        read(tmp_path / "x.jsonl", limits=Limits(facts=4))

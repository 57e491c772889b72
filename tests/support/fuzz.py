"""Any text, grammatical or not: the parser returns a tree that prints and parses to itself, or raises our own error.

    python tests/support/fuzz.py --count 1000000 --seed 1

`make test` runs 20,000 texts. A second parser, generated from grammar.lark, must accept every text that ours accepts.
Where it accepts a text that ours refuses, ours must have a reason that no grammar can see.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path

import lark

from gaifman.errors import GaifmanError
from gaifman.logic.ast import Node, to_ascii, to_bracketed
from gaifman.logic.parser import parse, parse_feature, parse_query
from generators import texts

READERS: dict[str, Callable[[str], Node]] = {"formula": parse, "query": parse_query, "feature": parse_feature}
BEYOND_GRAMMAR = (
    "the quantifier binds",
    "and cannot be bound",
    "is an object variable and cannot be a relation here",
    "is a relation variable and cannot be an object here",
    "above, not",
    "takes one argument",
    "is not a number",
    "at most 8 arguments",
    "nested deeper than",
    "more than",
    "a name cannot",
    "is not a character",
    "is not an escape sequence",
    "is not bound here",
    "of the head",
    "a head has only variables",
    "occurs twice in the head",
    "is not used as a relation in this feature",
    "needs an attribute",
    "_ is not a variable",
    "is not used here",
    "this looks like SQL",
)
"""Reasons to refuse what the grammar allows."""


@cache
def grammar() -> lark.Lark:
    """The second parser."""
    text = (Path(__file__).parent / "grammar.lark").read_text()
    return lark.Lark(text, parser="lalr", start=["sentence", "query", "feature"], lexer="basic")


def accepts(text: str, kind: str) -> bool:
    """Whether the second parser reads the text."""
    try:
        grammar().parse(text, start="sentence" if kind == "formula" else kind)
    except lark.exceptions.LarkError:
        return False
    return True


def check(text: str, kind: str) -> Node | None:
    """Parse one text; None if it is refused."""
    try:
        node = READERS[kind](text)
    except GaifmanError as refusal:
        check_refusal(text, kind, refusal)
        return None
    for written in (str(node), to_ascii(node), to_bracketed(node)):
        again = READERS[kind](written)
        assert again == node, f"{text!r} prints as {written!r}, which is read otherwise"
    assert accepts(text, kind), f"accepted a {kind} beyond the grammar: {text!r}"
    return node


def check_refusal(text: str, kind: str, refusal: GaifmanError) -> None:
    """Check that the error can be printed and has a reason."""
    assert str(refusal)
    assert json.dumps(refusal.as_dict())
    beyond = any(reason in refusal.message for reason in BEYOND_GRAMMAR)
    assert beyond or not accepts(text, kind), f"refused a {kind} of the grammar: {text!r}\n{refusal}"


def run(seed: int, count: int) -> dict[str, int]:
    """Check `count` texts, each as a formula, a query or a feature, and return how many are accepted."""
    accepted = 0
    for i, text in enumerate(texts(seed, count)):
        kind = list(READERS)[i // 2 % 3]
        accepted += check(text, kind) is not None
    return {"texts": count, "accepted": accepted, "refused": count - accepted}


def main() -> None:
    """Run in blocks, so that memory stays small, and print the counts."""
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    options.add_argument("--count", type=int, default=20_000)
    options.add_argument("--seed", type=int, default=1)
    chosen = options.parse_args()
    total = {"texts": 0, "accepted": 0, "refused": 0}
    start, block = time.time(), 10_000
    for first in range(0, chosen.count, block):
        seen = run(chosen.seed + first, min(block, chosen.count - first))
        total = {key: total[key] + seen[key] for key in total}
        rate = total["texts"] / (time.time() - start)
        sys.stderr.write(
            f"\r{total['texts']:,} texts, {rate:,.0f} a second, {(chosen.count - total['texts']) / rate:,.0f} s left "
        )
    sys.stderr.write("\n")
    print(json.dumps(total))


if __name__ == "__main__":
    main()

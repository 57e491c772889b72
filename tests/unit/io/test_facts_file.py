"""`.facts` files: syntax, locations over many lines, and the message of each mistake."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaifman.config import Limits
from gaifman.errors import InputError
from gaifman.io import read
from gaifman.io.facts_file import read_facts_file
from gaifman.io.files import InputFile, read_blocks
from gaifman.kb.builder import KnowledgeBaseBuilder
from gaifman.kb.knowledge_base import Fact, KnowledgeBase, format_name
from kbs import HOSTILE, knowledge_bases
from processes import cpu_limit


def facts_of(tmp_path: Path, text: str) -> list[str]:
    (tmp_path / "x.facts").write_text(text, newline="")
    kb = read(tmp_path / "x.facts")
    return [str(fact) for fact in kb.facts()] + [f"{a}({o}) = {v}" for a, o, v in kb.values()]


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("p(a).", ["p(a)."]),
        ("p(a,b).q(c).", ["p(a, b).", "q(c)."]),
        ("p ( a\n , b )\n .", ["p(a, b)."]),
        ("0.9::p(a).", ["0.9::p(a)."]),
        (".5 :: p(a).", ["0.5::p(a)."]),
        ("1e-3::p(a).", ["0.001::p(a)."]),
        ("1::p(a).", ["p(a)."]),
        ("v(a) = 3.", ["v(a) = 3.0"]),
        ("v(a)=-3.5e2.", ["v(a) = -350.0"]),
        ("% only a comment", []),
        ("# one\np(a). % two p(b).\n%three", ["p(a)."]),
        ("p(a % inside\n, b).", ["p(a, b)."]),
        ("P(Ann, BOB).", ["P(Ann, BOB)."]),
        ("'has part'('it\\'s', \"say \\\"hi\\\"\").", ["'has part'('it\\'s', 'say \"hi\"')."]),
        ("p('% no comment', '#').", ["p('% no comment', '#')."]),
        ("p('a,b', 'c).').", ["p('a,b', 'c).')."]),
        ("p('\\n\\t\\u00e9\\U0001f701').", ["p('\\n\\té🜁')."]),
        ("/film/actor(/m/06rf7, 12).", ["/film/actor(/m/06rf7, 12)."]),
        ("3d(1a, 2.5).", ["3d(1a, 2.5)."]),
        ("exists(not).", ["'exists'('not')."]),
        ("été(漢字).", ["été(漢字)."]),
        ("\ufeffp(a).\r\np(b).\r\n", ["p(a).", "p(b)."]),
        ("", []),
    ],
)
def test_the_syntax_of_facts(tmp_path: Path, text: str, facts: list[str]) -> None:
    assert facts_of(tmp_path, text) == facts


@pytest.mark.parametrize(
    ("text", "message", "line", "column"),
    [
        ("p(a)", "expected . at the end of the fact", 1, 5),
        ("p(a)\nq(b).", "expected . at the end of the fact", 1, 5),
        ("p(a).\n\n  p(b) % x\np(c).", "expected . at the end of the fact", 3, 7),
        ("p(a) :- q(a).", "rules are not allowed in a file of facts", 1, 6),
        ("p :- q(a).", "rules are not allowed in a file of facts", 1, 3),
        ("p(?x).", "a fact has no variables", 1, 3),
        ("p(a, _).", "_ is a variable, and a fact has no variables", 1, 6),
        ("p().", "expected an object", 1, 3),
        ("p(a,).", "expected an object", 1, 5),
        ("p(a b).", "expected ) or ,", 1, 5),
        ("p(a, -5).", "expected an object", 1, 6),
        ("p(f(a)).", "an object must be a name, not a term", 1, 4),
        ("p.", "a fact needs at least one object", 1, 2),
        ("p q(a).", "expected ( after the relation", 1, 3),
        ("p('a).", "the quotation mark is not closed on this line", 1, 3),
        ("p('a\nb').", "the quotation mark is not closed on this line", 1, 3),
        ("p(a, ", "expected an object, but the text ends", 1, 5),
        ("(a).", "expected a relation", 1, 1),
        ("p(a). $", "expected a relation", 1, 7),
        ("v(a) = x.", "expected a number after =", 1, 8),
        ("v(a) = nan.", "expected a number after =", 1, 8),
        ("v(a, b) = 3.", "a value belongs to one object and has no confidence", 1, 1),
        ("0.5::v(a) = 3.", "a value belongs to one object and has no confidence", 1, 6),
        ("v(a) = 1e999.", "a value must be a finite number", 1, 8),
        ("1.5::p(a).", "a confidence must be above 0 and at most 1", 1, 1),
        ("p(a).\n 0 :: p(b).", "a confidence must be above 0 and at most 1", 2, 2),
        ("-1::p(b).", "a confidence must be above 0 and at most 1", 1, 1),
        ("p(a, '').", "a name cannot be empty", 1, 6),
        ("p(a, '\\u0000').", "a name cannot contain the character NUL", 1, 6),
        ("p(a, '\\ud800').", "a name cannot contain half of a surrogate pair", 1, 6),
        ("p('\\UFFFFFFFF').", "\\UFFFFFFFF is not a character", 1, 3),
        ("p(a).\np(a, b).", "p has 1 argument, not 2", 2, 1),
        ("p(a,b,c,d,e,f,g,h,i).", "a relation has 1 to 8 arguments, not 9", 1, 19),
        ("p(a).\np(b) = 3.", "p cannot be both a type and an attribute", 2, 1),
    ],
)
def test_mistakes_have_a_message_and_a_location_in_facts(
    tmp_path: Path, text: str, message: str, line: int, column: int
) -> None:
    path = tmp_path / "x.facts"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        read(path)
    assert caught.value.message == message
    assert caught.value.location
    assert caught.value.location.source == str(path)
    assert (caught.value.location.line, caught.value.location.column) == (line, column)


def test_an_error_shows_the_line_and_points(tmp_path: Path) -> None:
    path = tmp_path / "x.facts"
    path.write_text("parent(ann, bob).\nparent(ann, Bob Hope).\n")
    with pytest.raises(InputError) as caught:
        read(path)
    assert str(caught.value).splitlines()[1:] == [
        "  parent(ann, Bob Hope).",
        "                  ^",
        "hint: quote names with spaces or symbols: 'Ann Lee'",
    ]


@given(knowledge_bases(), st.integers(1, 60), st.randoms(use_true_random=False))
def test_blocks_may_end_anywhere(tmp_path_factory, kb: KnowledgeBase, size: int, draw: random.Random) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path_factory.mktemp("io") / "x.facts"
    gaps = [" ", "\n", " % c).\n", "\n\n"]
    lines = [
        str(fact).replace("(", draw.choice(["(", "(\n", "( %.\n"]), 1)
        for fact in kb.facts()
        if "(" not in fact.relation
    ]
    lines += [f"{format_name(a)}({format_name(o)}) = {v!r}." for a, o, v in kb.values()]
    path.write_text("".join(line + draw.choice(gaps) for line in lines), newline="")
    builder = KnowledgeBaseBuilder()
    read_facts_file(read_blocks(InputFile.from_path(path), Limits(), size=size), Limits(), builder)
    found = builder.build()
    assert set(found.facts()) == {fact for fact in kb.facts() if "(" not in fact.relation}
    assert list(found.values()) == list(kb.values())


@pytest.mark.parametrize("size", [3, 7, 20, 1000])
def test_locations_do_not_depend_on_blocks(tmp_path: Path, size: int) -> None:
    path = tmp_path / "x.facts"
    path.write_text("p(a,\n  b).\n% note\nq(c). q(\n d, e).\n")
    with pytest.raises(InputError) as caught:
        read_facts_file(read_blocks(InputFile.from_path(path), Limits(), size=size), Limits(), KnowledgeBaseBuilder())
    assert caught.value.location
    assert (caught.value.location.line, caught.value.location.column) == (4, 7)


def test_a_statement_has_the_limit_of_a_line(tmp_path: Path) -> None:
    path = tmp_path / "x.facts"
    path.write_text("p(" + "a,\n" * 1000)
    with pytest.raises(InputError) as caught:
        read(path, limits=Limits(line=500))
    assert caught.value.location


def test_a_missing_bracket_is_found_fast(tmp_path: Path) -> None:
    path = tmp_path / "x.facts"
    path.write_text("p(" + "/a/b.c-d:e," * 50_000 + "\n" + "p(" + "'" + "\\" * 99_999)
    with cpu_limit(20), pytest.raises(InputError):
        read(path)


@pytest.mark.parametrize("name", HOSTILE)
def test_facts_print_as_they_are_read(tmp_path: Path, name: str) -> None:
    fact = Fact(name, (name, "x"), 0.5)
    assert facts_of(tmp_path, str(fact)) == [str(fact)]


@pytest.mark.parametrize("text", [":- module(x).\np(a).", "p(a).\n  :- dynamic(p/1).", "?- p(X)."])
def test_directives_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.pl").write_text(text)
    with pytest.raises(InputError, match="directives are not allowed") as caught:
        read(tmp_path / "x.pl")
    assert caught.value.location
    assert caught.value.location.text.strip().startswith((":-", "?-"))


@pytest.mark.parametrize("escape", ["\\U00110000", "\\ud800", "\\0", "\\q", "\\x41", "\\u12"])
def test_an_unknown_escape_is_an_error_with_its_location(tmp_path: Path, escape: str) -> None:
    (tmp_path / "x.facts").write_text(f"p(a).\nq(b, 'x{escape}').\n")
    with pytest.raises(InputError) as caught:
        read(tmp_path / "x.facts")
    place = caught.value.location
    assert place
    assert (place.line, place.column, place.width) == (2, 6, len(escape) + 3)


def test_many_relations_in_one_block_take_no_longer_than_few(tmp_path: Path) -> None:
    def seconds(relations: int) -> float:
        (tmp_path / "x.facts").write_text("".join(f"r{n % relations}(a, b{n}).\n" for n in range(40_000)))
        began = time.process_time()
        read(tmp_path / "x.facts")
        return time.process_time() - began

    assert seconds(40_000) < 20 * seconds(10) + 5

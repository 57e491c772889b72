"""HTML for notebooks: well-formed, whatever names hold; each thing that shows itself shows what it says."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from functools import cache
from math import nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gaifman
from gaifman._html import (
    BAR_WIDTH,
    NEGATIVE_COLOUR,
    POSITIVE_COLOUR,
    Html,
    bar,
    bullet_list,
    code,
    muted,
    paragraph,
    signed_number,
    stack,
    table,
    to_html,
)
from gaifman.completion import Completion
from gaifman.errors import escape_unprintable
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.model import GaifmanModel
from gaifman.predict import Estimate
from trained import FEW, towns, worker

HOSTILE = (
    *("<b>bold</b>", "<img src=x onerror=alert(1)>", "</td></table><script>alert(1)</script>", "a&b", "&lt;", "\"'"),
    *("\x07bell", "\x00", "two\nlines", "\u202eleft", "\u2066isolate", "\ud800", "javascript:alert(1)", "' style='x"),
)


def words(page: str) -> str:
    """What a person reads; the HTML is also well-formed XML."""
    return "".join(ET.fromstring(page).itertext())


def tags(page: str) -> set[str]:
    """The elements of a page."""
    return {element.tag.rpartition("}")[2] for element in ET.fromstring(page).iter()}


# Parts


@pytest.mark.parametrize("bad", HOSTILE)
def test_hostile_text_is_shown_as_text(bad: str) -> None:
    row = (bad, code(bad), muted(bad), bar(0.5, bad))
    page = stack(paragraph(bad), bullet_list([bad]), table(row[:1] * 4, [row]))
    assert tags(page) <= {"div", "p", "ul", "li", "table", "thead", "tbody", "tr", "th", "td", "code", "span"}
    assert words(page).count(escape_unprintable(bad)) == 10
    assert words(page).isprintable()


@given(st.text())
def test_any_text_comes_back(text: str) -> None:
    shown = words(stack(text))
    assert shown == escape_unprintable(text)
    assert shown.isprintable()


def test_what_is_html_already_is_not_escaped_again() -> None:
    assert to_html(to_html("<")) == "&lt;"
    assert to_html(Html("<br/>")) == "<br/>"
    assert type(stack("x")) is str


@pytest.mark.parametrize(("share", "length"), [(0, 0), (0.25, 20), (1, BAR_WIDTH), (-1, 0), (7, BAR_WIDTH), (nan, 0)])
def test_the_length_of_a_bar(share: float, length: int) -> None:
    assert re.findall(r"width:(\d+)px", bar(share, "")) == [str(BAR_WIDTH), str(length)]


def test_a_number_has_the_colour_of_its_sign() -> None:
    assert POSITIVE_COLOUR in signed_number(1.0)
    assert NEGATIVE_COLOUR in signed_number(-1.0)
    assert words(signed_number(-1.0)) == "-1.000"


def test_numbers_are_right_aligned_and_an_empty_header_is_not_shown() -> None:
    page = table(("name", "count"), [("a", 1), ("b", 2)], numeric_columns=[1])
    assert [cell.get("style") for cell in ET.fromstring(page).iter("td")] == ["text-align:left", "text-align:right"] * 2
    assert "<thead>" not in table(("", ""), [("a", 1)])
    assert words(table(("x",), [])) == "x"


# What shows itself


@cache
def hostile() -> KnowledgeBase:
    """A knowledge base of hostile names: relations, objects and attributes."""
    names = [name for name in HOSTILE if name not in ("\x00", "\ud800")]  # these can be no names
    pairs = [(one, other) for number, one in enumerate(names) for other in names[number:]]
    facts = [(f"r{name}", *pair) for name in names for pair in pairs]
    return KnowledgeBase.from_facts(facts, {(f"v{name}", name): 1.0 for name in names})


@cache
def works() -> Completion:
    return gaifman.complete(towns(), ["works_in", "lives_in"], **FEW)


def check(page: str) -> str:
    """The words of a page in which nothing of a name has become markup."""
    assert tags(page) <= {"div", "p", "table", "thead", "tbody", "tr", "th", "td", "code", "span", "b"}
    assert not re.search(r"(src|href|on\w+)=|url\(", re.sub(r">[^<]*<", "><", page))
    said = words(page)
    assert said.isprintable()
    return said


def test_a_knowledge_base() -> None:
    said = check(towns()._repr_html_())
    assert said.startswith("KnowledgeBase: 47 objects, 6 relations, ")
    assert "works_in240works_in(p00, t1)." in said
    assert "age40" in said
    assert "attribute" not in check(KnowledgeBase.from_facts([("r", "a")])._repr_html_()).replace("attributes", "")
    assert "0 facts" in check(KnowledgeBase.from_facts([])._repr_html_())


def test_a_knowledge_base_of_many_relations_is_cut() -> None:
    kb = KnowledgeBase.from_facts([(f"r{i:02d}", "a") for i in range(53)])
    said = check(kb._repr_html_())
    assert "… and 3 more relations" in said
    assert "r49" in said
    assert "r50" not in said


def test_exact_answers() -> None:
    kb = towns()
    said = check(gaifman.query(kb, "works_in(x, 't3')")._repr_html_())
    assert said.startswith("works_in(x, 't3')x")
    assert said.endswith("8 answers")
    many = check(gaifman.query(kb, "works_in(x, y)", budget=gaifman.Budget(rows=30))._repr_html_())
    assert many.endswith("… and 10 more30 answers, and there are more")
    assert check(gaifman.query(kb, "exists x. town_of(x, 'c0')")._repr_html_()).endswith("): true")


def test_a_model() -> None:
    said = check(worker()._repr_html_())
    assert "works_in(x, y)" in said
    assert "size of a neighbourhood4 objects" in said
    assert "held-out tuples" in said
    network = GaifmanModel("'<b>'(x)", base="mlp")
    assert check(network._repr_html_()) == "GaifmanModel: '<b>'(x), radius 1, size 20, not trained"
    assert check(GaifmanModel("'<b>'(x)")._repr_html_()) == "GaifmanModel: '<b>'(x), ranked lists, not trained"
    assert "base modelmlp" in check(works().model("works_in")._repr_html_())


def test_a_completion() -> None:
    said = check(works()._repr_html_())
    assert said.startswith("Completion: 2 relations, 2 with a trained model")
    assert re.search(r"lives_in240yes.+works_in240yes", said)


def test_a_completion_of_many_relations_is_cut() -> None:
    one = works()
    rows = [{"name": f"r{i:02d}", "arity": 2, "answers": 100 - i, "trained": False} for i in range(52)]
    many = Completion(one.config, {}, {}, {}, one.calibration, {**one.meta, "relations": rows})
    assert check(many._repr_html_()).endswith("… and 2 more with fewer answers")


def test_ranked_answers() -> None:
    found = worker().answers(x="p03", top=2)
    said = check(found._repr_html_())
    assert said.startswith(f"works_in('p03', y)yprobabilityt3{found[0].estimate}known")
    assert said.endswith(str(found.considered))
    assert "… and 10 more" in check(worker().answers(top=60)._repr_html_())


def test_a_probability() -> None:
    assert check(Estimate(0.5, 0.01, 10)._repr_html_()) == "0.500 ± 0.010"
    assert check(Estimate(0.5, nan, 1)._repr_html_()) == "0.500"


def test_an_evaluation() -> None:
    test = KnowledgeBase.from_facts([*towns().facts("works_in")][:3])
    found = gaifman.evaluate(works(), towns(), test, draws=1)
    said = check(found._repr_html_())
    assert said.startswith("Evaluation: 6 ranks of 3 facts among ")
    assert "hits@10all6" in said


def test_hostile_names_everywhere() -> None:
    kb = hostile()
    few = {**FEW, "positives": 1, "negatives": 1}
    bad = "r<img src=x onerror=alert(1)>"
    completion = gaifman.complete(kb, [bad, "r\u202eleft"], **few)
    pages = [kb._repr_html_(), completion._repr_html_(), completion.model(bad)._repr_html_()]
    atom = "'r<img src=x onerror=alert(1)>'(x, y)"
    pages += [gaifman.query(kb, atom)._repr_html_(), completion.answers(atom, x="\u202eleft")._repr_html_()]
    for page in pages:
        said = check(page)
        assert "<img src=x onerror=alert(1)>" in said

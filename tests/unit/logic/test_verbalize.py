"""Formulas in English."""

from __future__ import annotations

import random

import pytest

import gaifman
from gaifman.logic.ast import Feature
from gaifman.logic.parser import parse_feature
from gaifman.logic.verbalize import describe_feature, readable_name
from generators import Generator

SAID = {
    "borders('spain', 'france')": "spain borders france",
    "country('spain')": "spain counts as country",
    "separates('alps', 'france', 'italy')": "alps separates france, italy",
    "exists r. r('spain', 'france')": "spain is linked to france",
    "exists r. r('spain', 'france', 'alps')": "spain, france and alps are linked",
    "exists x. borders('spain', x)": "spain borders something",
    "exists x, y. separates(x, 'spain', y)": "something separates spain, something",
    "exists x. borders('spain', x) & borders(x, 'italy')": "for some x, spain borders x and x borders italy",
    "forall x. borders(x, 'spain') -> country(x)": "for every x, if x borders spain, then x counts as country",
    "country('spain') <-> landlocked('spain')": "spain counts as country exactly if spain counts as landlocked",
    "country('spain') | ~landlocked('spain')": (
        "spain counts as country or it is not so that spain counts as landlocked"
    ),
    "'spain' != 'france'": "it is not so that spain is france",
    "'spain' = 'france'": "spain is france",
    "area('spain') > area('italy')": "the area of spain > the area of italy",
    "borders('spain', x)": "how many x: spain borders x",
    "borders('spain', x) & borders(x, y)": "how many x and y: spain borders x and x borders y",
    "count borders('spain', x)": "how many: spain borders x",
    "mean area(x) for borders('spain', x)": "the mean of area of x where spain borders x",
    "area('spain') - area('italy')": "the area of spain minus the area of italy",
    "true": "true",
}


@pytest.mark.parametrize("text", SAID)
def test_formulas_in_english(text: str) -> None:
    assert describe_feature(parse_feature(text, gaifman.demo().schema)) == SAID[text]


def test_every_formula_has_a_description() -> None:
    generator = Generator(random.Random(1))
    for _ in range(200):
        assert describe_feature(Feature(generator.formula()))


@pytest.mark.parametrize("name", ["", "_", "/", "//", "/a/b/", "a_b", "/a/b/c_d", "_hypernym"])
def test_a_name_stays_a_name(name: str) -> None:
    assert bool(readable_name(name)) == bool(name)
    assert readable_name("/a/b/c_d") == "c d"
    assert readable_name("_hypernym") == "hypernym"

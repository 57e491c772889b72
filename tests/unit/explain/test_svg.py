"""Diagrams: well-formed for any names, no overlapping names, highlighted facts."""

from __future__ import annotations

import itertools
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings

from gaifman.errors import OutputError
from gaifman.explain.svg import (
    MAX_OTHER_OBJECTS,
    SMALL_FONT_SIZE,
    Diagram,
    check_svg_path,
    render_svg,
    text_width,
    write_svg,
)
from gaifman.kb.knowledge_base import Fact, KnowledgeBase
from kbs import HOSTILE, knowledge_bases

SVG = "{http://www.w3.org/2000/svg}"
BORDERS = Fact("borders", ("spain", "portugal"))
RIVER = Fact("separates", ("tagus", "portugal", "spain"), 0.9)
KING = Fact("monarchy", ("spain",))
EURO = Fact("uses", ("portugal", "euro"))
MEMBERS = ("portugal", "spain", "tagus", "euro", "angola")
SCENE = Diagram(
    "borders('portugal', 'spain')",
    "probability 0.97",
    ("portugal", "spain"),
    MEMBERS,
    (BORDERS, RIVER, KING, EURO),
    {BORDERS: 1, RIVER: 1, KING: -1},
    frozenset({BORDERS}),
)


def parsed(scene: Diagram) -> ET.Element:
    return ET.fromstring(render_svg(scene))


def words(root: ET.Element) -> list[str]:
    return ["".join(text.itertext()) for text in root.iter(f"{SVG}text")]


def boxes(root: ET.Element) -> dict[str, tuple[float, float, float, float]]:
    """Left, top, right and bottom of every name."""
    found = {}
    for group in root.iter(f"{SVG}g"):
        if group.get("class") != "gaifman-name":
            continue
        title, box = group.find(f"{SVG}title"), group.find(f"{SVG}rect")
        assert title is not None
        assert box is not None
        x, y, w, h = (float(box.get(name, "")) for name in ("x", "y", "width", "height"))
        found[title.text or ""] = x, y, x + w, y + h
    return found


def apart(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]


def assert_tidy(root: ET.Element) -> None:
    """Names do not overlap and are inside the diagram."""
    width, height = float(root.get("width", "")), float(root.get("height", ""))
    found = boxes(root)
    for one, other in itertools.combinations(found.values(), 2):
        assert apart(one, other)
    for left, top, right, bottom in found.values():
        assert left >= 0
        assert top >= 0
        assert right <= width
        assert bottom <= height


def test_names_subtitle_and_legend() -> None:
    root = parsed(SCENE)
    text = words(root)
    assert text[-7:][0:2] == ["borders('portugal', 'spain')", "probability 0.97"]
    assert {"portugal", "spain", "tagus", "euro"} <= set(text)
    assert "angola" not in text  # no fact ties it to the pair
    assert {"supports", "opposes", "decisive facts", "other facts", "and 1 more object"} < {*text}
    assert_tidy(root)


def test_highlighted_facts_have_relation_and_colour() -> None:
    text = render_svg(SCENE)
    assert '<tspan class="gaifman-for-text" font-weight="bold">borders</tspan>' in text
    assert '<tspan class="gaifman-for-text">separates</tspan>' in text
    assert '<tspan class="gaifman-against-text">monarchy</tspan>' in text
    assert "uses" not in text
    assert len(re.findall(r'<path class="gaifman-for"[^>]*stroke-width="3.2"', text)) == 1
    assert len(re.findall(r'<path class="gaifman-plain"', text)) == 1


def test_an_arrow_points_to_the_second_position() -> None:
    for objects in (("ann", "bob"), ("bob", "ann")):
        fact = Fact("likes", objects)
        root = parsed(Diagram("q", "", ("ann", "bob"), ("ann", "bob"), (fact,), {fact: 1}))
        (head,) = root.iter(f"{SVG}polygon")
        tip, back, _ = (float(point.split(",")[0]) for point in head.get("points", "").split())
        assert (tip > back) == (objects == ("ann", "bob"))


def test_light_and_dark_colours() -> None:
    text = render_svg(SCENE)
    assert "prefers-color-scheme: dark" in text
    assert '<rect class="gaifman-page" width="100%" height="100%"' in text
    light, dark = text.split("@media")
    for name in set(re.findall(r"\.(gaifman-[a-z-]+)\{", light)):
        assert f".{name}{{" in dark, name


@pytest.mark.parametrize("own", [("a",), ("a", "a"), ("a", "b"), ("a", "b", "c"), ("a", "b", "c", "d")])
def test_tuples_of_any_length(own: tuple[str, ...]) -> None:
    others = tuple(f"other {i}" for i in range(30))
    facts = tuple(Fact("near", (own[i % len(own)], name)) for i, name in enumerate(others))
    among = (Fact("same", (own[0], own[-1])), Fact("next", (others[0], others[2])), Fact("three", (*others[:3],)))
    scene = Diagram(
        "q", "", own, (*dict.fromkeys(own), *others), (*facts, *among), dict.fromkeys((*facts[:9], *among), 1)
    )
    root = parsed(scene)
    assert_tidy(root)
    assert len(boxes(root)) == len(set(own)) + MAX_OTHER_OBJECTS
    assert f"and {30 - MAX_OTHER_OBJECTS} more objects" in words(root)


def test_objects_of_highlighted_facts_come_first() -> None:
    others = tuple(f"o{i}" for i in range(40))
    facts = tuple(Fact("near", ("a", name)) for name in others)
    root = parsed(Diagram("q", "", ("a", "b"), ("a", "b", *others), facts, {facts[-1]: -1}))
    assert "o39" in boxes(root)


def test_every_name_is_escaped_and_visible() -> None:
    bad = "<script>alert(1)</script>&\x07\u202e\"'"
    fact = Fact(bad + "r", (bad, bad + "2"), 0.5)
    alone = Fact(bad + "t", (bad,))
    scene = Diagram(
        bad, bad, (bad, bad + "2"), (bad, bad + "2"), (fact, alone), {fact: 1, alone: -1}, frozenset({fact})
    )
    text = render_svg(scene)
    assert "<script" not in text
    assert "\x07" not in text
    assert "\u202e" not in text
    assert "<script>alert(1)</script>&\\x07\\u202e\"'" in words(ET.fromstring(text))


def test_long_and_wide_names_are_cut_and_kept_in_the_title() -> None:
    long, wide = "x" * 300, "漢字" * 20
    root = parsed(Diagram("q", "", (long, wide), (long, wide), (), {}))
    assert set(boxes(root)) == {long, wide}
    assert_tidy(root)
    assert float(root.get("width", "")) < 1500


@settings(max_examples=40)
@given(knowledge_bases())
def test_any_neighbourhood_is_well_formed(kb: KnowledgeBase) -> None:
    facts = tuple(kb.facts())
    members = tuple(kb.objects)[:10]
    if members:
        scene = Diagram("q", "", members[:2], members, facts, dict.fromkeys(facts[::2], 1), frozenset(facts[:1]))
        assert_tidy(parsed(scene))
        assert render_svg(scene) == render_svg(scene)


def test_hostile_names() -> None:
    facts = tuple(Fact("r", (HOSTILE[0], name)) for name in HOSTILE[1:])
    parsed(Diagram("q", "", (HOSTILE[0],), HOSTILE, facts, dict.fromkeys(facts, 1)))


def test_writing(tmp_path: Path) -> None:
    write_svg(render_svg(SCENE), tmp_path / "spain.svg")
    assert (tmp_path / "spain.svg").read_text() == render_svg(SCENE)
    with pytest.raises(OutputError, match=r"end the name with \.svg"):
        check_svg_path("spain.png")
    with pytest.raises(OutputError, match="nowhere"):
        check_svg_path(tmp_path / "nowhere" / "spain.svg")


def test_the_tooltip_has_the_whole_facts() -> None:
    titles = [g.findtext(f"{SVG}title") for g in parsed(SCENE).iter(f"{SVG}g") if g.get("class") == "gaifman-facts"]
    assert any("0.9::separates(tagus, portugal, spain)." in (title or "") for title in titles)


def test_a_long_title_does_not_make_it_wide() -> None:
    """A name of 900 letters once made a diagram 8,337 wide."""
    root = parsed(replace(SCENE, title=f"borders('portugal', '{'x' * 900}')"))
    assert float(root.get("width", "")) < 1_100
    assert "x" * 900 in (root.findtext(f"{SVG}title") or "")


def test_the_number_of_omitted_objects_is_beside_the_legend() -> None:
    many = (*MEMBERS, *(f"o{i}" for i in range(40)))
    facts = (*SCENE.facts, *(Fact("near", ("spain", f"o{i}")) for i in range(40)))
    for scene in (replace(SCENE, members=many, facts=facts), replace(SCENE, objects=("spain",), members=many)):
        root = parsed(replace(scene, title="q", subtitle=""))
        (left,) = [text for text in root.iter(f"{SVG}text") if "more object" in (text.text or "")]
        (other,) = [text for text in root.iter(f"{SVG}text") if text.text == "other facts"]
        ends = float(other.get("x", "")) + text_width("other facts", SMALL_FONT_SIZE)
        begins = float(left.get("x", "")) - text_width(left.text or "", SMALL_FONT_SIZE)
        assert begins > ends or left.get("y") != other.get("y")

"""The layout of diagrams: columns, edges, labels."""

from __future__ import annotations

from hypothesis import given, settings

from gaifman.explain.svg import (
    MAX_EDGE_CHARS,
    MAX_NAME_CHARS,
    MAX_OTHER_OBJECTS,
    Diagram,
    edge_relations,
    find_edges,
    label_width,
    layout_columns,
    layout_nodes,
    shorten_name,
)
from gaifman.kb.knowledge_base import Fact, KnowledgeBase
from kbs import knowledge_bases

BORDERS = Fact("borders", ("spain", "portugal"))
RIVER = Fact("separates", ("tagus", "portugal", "spain"))
EURO = Fact("uses", ("portugal", "euro"))
FAR = Fact("flows_to", ("tagus", "sea"))
MEMBERS = ("portugal", "spain", "tagus", "euro", "sea", "angola")


def scene(*lit: Fact, objects: tuple[str, ...] = ("portugal", "spain"), chief: tuple[Fact, ...] = ()) -> Diagram:
    return Diagram("q", "", objects, MEMBERS, (BORDERS, RIVER, EURO, FAR), dict.fromkeys(lit, 1), frozenset(chief))


def test_neighbours_of_both_are_between_and_of_one_beside_it() -> None:
    assert layout_columns(scene()) == ([["euro"], ["portugal"], ["tagus"], ["spain"], []], 2)


def test_objects_without_a_link_are_drawn_only_if_highlighted() -> None:
    columns, left_out = layout_columns(scene(FAR))
    assert columns[2] == ["sea", "tagus"]
    assert left_out == 1


def test_columns_of_one_and_three_objects() -> None:
    assert layout_columns(scene(objects=("spain",)))[0] == [["portugal"], ["spain"], ["tagus"]]
    columns = layout_columns(scene(objects=("tagus", "portugal", "spain")))[0]
    assert columns[1] == ["tagus", "portugal", "spain"]


def test_a_ternary_fact_links_the_tuple_to_the_others() -> None:
    ties = find_edges(scene(RIVER, BORDERS, chief=(RIVER,)), set(MEMBERS))
    assert ties == {
        ("spain", "portugal"): [RIVER, BORDERS],
        ("tagus", "portugal"): [RIVER],
        ("tagus", "spain"): [RIVER],
        ("portugal", "euro"): [],
        ("tagus", "sea"): [],
    }
    assert ("tagus", "sea") not in find_edges(scene(), {"portugal", "spain", "tagus"})
    strange = Diagram("q", "", ("euro",), MEMBERS, (RIVER,), {RIVER: 1})
    assert list(find_edges(strange, set(MEMBERS))) == [("tagus", "portugal"), ("portugal", "spain")]


def test_labels_have_as_many_relations_as_fit() -> None:
    facts = [Fact(f"relation_{i}", ("a", "b")) for i in range(4)]
    names, more = edge_relations(facts)
    assert (names, more) == (["relation_0", "relation_1", "relation_2"], 1)
    assert edge_relations([Fact("x" * 300, ("a", "b"))]) == (["x" * 300], 0)
    assert edge_relations([BORDERS, BORDERS]) == (["borders"], 0)
    assert label_width(facts) > label_width(facts[:1])
    assert len(shorten_name("x" * 300)) <= MAX_NAME_CHARS + 1
    assert sum(map(len, names)) <= MAX_EDGE_CHARS


@settings(max_examples=40)
@given(knowledge_bases(largest_arity=5))
def test_boxes_do_not_overlap(kb: KnowledgeBase) -> None:
    facts, members = tuple(kb.facts()), tuple(kb.objects)
    for width in range(1, min(4, len(members)) + 1):
        one = Diagram("q", "", members[:width], members, facts, dict.fromkeys(facts, -1))
        columns, left_out = layout_columns(one)
        shown = [name for column in columns for name in column]
        assert len(shown) == len(set(shown)) == len(members) - left_out
        assert len(shown) <= MAX_OTHER_OBJECTS + width
        spots, _, _ = layout_nodes(one, columns, find_edges(one, set(shown)))
        assert set(spots) == set(shown)
        assert len({(spot.x, spot.y) for spot in spots.values()}) == len(spots)
        assert {name for name, spot in spots.items() if spot.in_tuple} == set(members[:width])

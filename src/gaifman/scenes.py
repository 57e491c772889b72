"""What a picture of a neighbourhood shows, and who stands where in it.

>>> fact = Fact("borders", ("spain", "portugal"))
>>> currency = Fact("uses", ("spain", "euro"))
>>> scene = Diagram("q", "", ("portugal", "spain"), ("portugal", "spain", "euro", "angola"), (fact, currency), {fact: 1})
>>> layout_columns(scene)
([[], ['portugal'], [], ['spain'], ['euro']], 1)
>>> sorted(find_edges(scene, {"portugal", "spain", "euro"}))
[('spain', 'euro'), ('spain', 'portugal')]

The objects of a tuple of two stand left and right, what is near both of them between, what is near one beside it. Those
of other tuples stand below one another. In columns no name covers another.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, combinations, pairwise

from gaifman.errors import shorten
from gaifman.kb.facts import Fact

MAX_OTHER_OBJECTS = 16
"""Objects besides the tuple's own that are drawn."""
MAX_NAME_CHARS, MAX_EDGE_CHARS = 26, 36
"""Characters of a name that are drawn, and of all relations on a line."""
MAX_TITLE_CHARS = 100
"""Characters of the title that are drawn."""
ROW_HEIGHT, FONT_SIZE, SMALL_FONT_SIZE = 46.0, 13, 11
MARGIN, TOP, BOTTOM, CURVE_WIDTH = 24.0, 74.0, 64.0, 48.0


@dataclass(frozen=True, slots=True)
class Diagram:
    """What is drawn."""

    title: str
    subtitle: str
    """What stands below the title."""
    objects: tuple[str, ...]
    """The tuple's own."""
    members: tuple[str, ...]
    """All objects of the neighbourhood."""
    facts: tuple[Fact, ...]
    """All facts among them that are not hidden."""
    highlighted: Mapping[Fact, int] = field(default_factory=dict)
    """Facts that stand out: 1 speaks for the answer, −1 against it."""
    decisive: frozenset[Fact] = frozenset()
    """Facts that stand out most."""


@dataclass(slots=True)
class NodeBox:
    """Where an object stands: the middle of its name."""

    name: str
    x: float
    y: float
    width: float
    in_tuple: bool
    side: int
    """−1 in the leftmost column, 1 in the rightmost, 0 in others."""
    half_width: float
    """Half of what the widest name of its column takes."""
    label_space: float
    """What is kept free beside the column, for words on lines."""
    unary_facts: list[Fact] = field(default_factory=list)
    """Facts that stand out and have no other object."""


def layout_columns(diagram: Diagram) -> tuple[list[list[str]], int]:
    """The objects of each column, and how many are not drawn: those of facts that stand out come first.

    An object that no fact ties to the tuple's is not drawn: another of the fact's objects was not drawn either.
    """
    own = list(dict.fromkeys(diagram.objects))
    told = {name for fact in diagram.highlighted for name in fact.objects}
    tied = told.union(*(fact.objects for fact in diagram.facts if not set(own).isdisjoint(fact.objects)))
    rest = [name for name in diagram.members if name not in own]
    kept = sorted((name for name in rest if name in tied), key=lambda name: name not in told)[:MAX_OTHER_OBJECTS]
    if len(own) != 2:
        return [kept[::2], own, kept[1::2]], len(rest) - len(kept)
    left, between, right = list[str](), list[str](), list[str]()
    for name in kept:
        near = {one for fact in diagram.facts if name in fact.objects for one in own if one in fact.objects}
        (left if near == {own[0]} else right if near == {own[1]} else between).append(name)
    return [_center_first(left), own[:1], _center_first(between), own[1:], _center_first(right)], len(rest) - len(kept)


def _center_first(names: list[str]) -> list[str]:
    """The first in the middle, the others above and below in turns."""
    return [*names[1::2][::-1], *names[::2]]


def find_edges(diagram: Diagram, shown: set[str]) -> dict[tuple[str, str], list[Fact]]:
    """Pairs of objects that stand in a fact, with the facts that stand out.

    A fact of more than two objects ties the tuple's to the others; without one of these, each object to the next.
    """
    found: dict[tuple[str, str], list[Fact]] = {}
    for fact in diagram.facts:
        names = [name for name in dict.fromkeys(fact.objects) if name in shown]
        own = [name for name in names if name in diagram.objects]
        pairs = [pair for pair in combinations(names, 2) if not set(own).isdisjoint(pair)] or pairwise(names)
        for one, other in pairs:
            pair = (other, one) if (other, one) in found else (one, other)
            found.setdefault(pair, [])
            if fact in diagram.highlighted:
                found[pair].append(fact)
    return {pair: sorted(facts, key=lambda fact: fact not in diagram.decisive) for pair, facts in found.items()}


def layout_nodes(
    diagram: Diagram, columns: Sequence[Sequence[str]], edges: Mapping[tuple[str, str], list[Fact]]
) -> tuple[dict[str, NodeBox], float, float]:
    """Spots in columns, and how large the picture is. Between a pair there is room for what links it."""
    own = set(diagram.objects)
    words = _label_space(columns, edges, own)
    parted = len(columns) == 5
    needed = [len(column) + (parted and number == 2) for number, column in enumerate(columns)]
    rows = max(*needed, 2 * len(own) - 1 if len(own) > 2 else 1)
    height = TOP + rows * ROW_HEIGHT + BOTTOM
    spots: dict[str, NodeBox] = {}
    x, gap = MARGIN, 0.0
    for number, column in enumerate(columns):
        widest = max([text_width(shorten_name(name), FONT_SIZE) + 24 for name in column], default=0.0)
        if not column and not (parted and number == 2):
            continue
        x += widest / 2
        outer = -1 if number == 0 else int(number == len(columns) - 1)
        step = 2 * ROW_HEIGHT if len(own) > 2 and number == 1 else ROW_HEIGHT  # what links them stands between
        for name, y in zip(column, _row_positions(len(column), rows, step, parted and number == 2), strict=True):
            room, width = widest / 2, text_width(shorten_name(name), FONT_SIZE) + 24
            spots[name] = NodeBox(name, x, TOP + y, width, name in own, outer, room, words[number])
        gap = max(words[number : number + 2]) + CURVE_WIDTH
        x += widest / 2 + gap
    least = max(text_width(title_text(diagram), 15), text_width(diagram.subtitle, FONT_SIZE), 560.0) + 2 * MARGIN
    width = x - gap + MARGIN
    for spot in spots.values():
        spot.x += max(0.0, least - width) / 2
    return spots, max(width, least), height


def _label_space(
    columns: Sequence[Sequence[str]], edges: Mapping[tuple[str, str], list[Fact]], own: set[str]
) -> list[float]:
    """What is kept free beside each column: a picture is no wider than its longest words need, each in its place."""
    column_of = {name: number for number, column in enumerate(columns) for name in column}
    middle = 2  # the column between a pair, and the one beside any other tuple: there stands what links these
    found = [20.0 if number not in (1, 3) else 0.0 for number in range(len(columns))]
    for names, facts in _facts_sharing_labels(edges, own):
        for number in {column_of[name] for name in names if name not in own} or {middle}:
            found[number] = max(found[number], label_width(facts) + 24)
    return found


def _facts_sharing_labels(
    edges: Mapping[tuple[str, str], list[Fact]], own: set[str]
) -> Iterable[tuple[tuple[str, ...], list[Fact]]]:
    """Facts whose relations may stand in one place: those of a line, and of all lines of an object that is not own."""
    found: dict[str, list[Fact]] = {}
    for (one, other), facts in edges.items():
        if len(own) != 2 and len(own & {one, other}) == 1:
            found.setdefault(other if one in own else one, []).extend(facts)
    return [*(((name,), facts) for name, facts in found.items()), *edges.items()]


def _row_positions(count: int, rows: int, step: float, split: bool) -> list[float]:
    """Where the names of a column stand; one that is parted leaves the middle free."""
    middle = rows * ROW_HEIGHT / 2
    if not split:
        return [middle + (i - (count - 1) / 2) * step for i in range(count)]
    above = (count + 1) // 2
    return [middle + (i - above) * step if i < above else middle + (i - above + 1) * step for i in range(count)]


def edge_relations(facts: Iterable[Fact]) -> tuple[list[str], int]:
    """The relations of facts that have room in a line, one at least, and how many more there are."""
    names = list(dict.fromkeys(fact.relation for fact in facts))
    lengths = accumulate(len(shorten_name(name)) + 2 for name in names)
    kept = max(1, sum(length <= MAX_EDGE_CHARS for length in lengths))
    return names[:kept], len(names[kept:])


def label_width(facts: Iterable[Fact]) -> float:
    """About how wide the words on a line are, of which some may be bold."""
    names, more = edge_relations(facts)
    return (
        1.08 * text_width(", ".join([*map(shorten_name, names), *([f"+{more}"] if more else [])]), SMALL_FONT_SIZE) + 8
    )


def title_text(diagram: Diagram) -> str:
    """The title, as far as there is room for it."""
    return shorten(diagram.title, MAX_TITLE_CHARS)


def shorten_name(name: str) -> str:
    return shorten(name, MAX_NAME_CHARS)


def text_width(text: str, size: float) -> float:
    """About how wide a text is drawn: wide characters count twice."""
    cells = sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)
    return 0.6 * size * cells

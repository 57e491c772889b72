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
from pathlib import Path

from gaifman._html import NEGATIVE_COLOUR, POSITIVE_COLOUR, to_html
from gaifman.errors import OutputError, shorten
from gaifman.io.files import atomic_write, check_writable
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


Point = tuple[float, float]

NODE_HEIGHT = 26.0
MAX_TOOLTIP_CHARS = 400
"""Characters of facts that are shown to whoever points at the words on a line."""

BOLD = ' font-weight="bold"'

STYLE = f"""<style>
.gaifman-page{{fill:#ffffff}} .gaifman-text{{fill:#222222}} .gaifman-quiet{{fill:#666666}}
.gaifman-pill{{fill:#f2f4f7;stroke:#9aa3ad}} .gaifman-own{{fill:#222222;stroke:#222222}}
.gaifman-own-name{{fill:#ffffff}}
.gaifman-plain{{stroke:#d3d8de}}
.gaifman-for{{stroke:{POSITIVE_COLOUR}}} .gaifman-against{{stroke:{NEGATIVE_COLOUR}}}
.gaifman-for-text{{fill:{POSITIVE_COLOUR}}} .gaifman-against-text{{fill:{NEGATIVE_COLOUR}}}
@media (prefers-color-scheme: dark){{
.gaifman-page{{fill:#16191d}} .gaifman-text{{fill:#e8e8e8}} .gaifman-quiet{{fill:#a0a6ad}}
.gaifman-pill{{fill:#262b31;stroke:#59616a}} .gaifman-own{{fill:#e8e8e8;stroke:#e8e8e8}}
.gaifman-own-name{{fill:#16191d}}
.gaifman-plain{{stroke:#3a4149}}
.gaifman-for{{stroke:#6fb3ee}} .gaifman-against{{stroke:#f0a15c}}
.gaifman-for-text{{fill:#6fb3ee}} .gaifman-against-text{{fill:#f0a15c}}
}}
</style>"""


def render_svg(diagram: Diagram) -> str:
    """The picture as SVG."""
    columns, left_out = layout_columns(diagram)
    ties = find_edges(diagram, {name for column in columns for name in column})
    spots, width, height = layout_nodes(diagram, columns, ties)
    for fact in diagram.highlighted:
        if len(set(fact.objects)) == 1 and fact.objects[0] in spots:
            spots[fact.objects[0]].unary_facts.append(fact)
    lines = [line for (one, other), facts in ties.items() for line in _edge(diagram, spots[one], spots[other], facts)]
    # Quiet lines first, then those that stand out, then words and names: what matters covers what does not.
    parts = [text for _, text in sorted(lines, key=lambda line: line[0])]
    parts += [_edge_label(facts, diagram, at) for at, facts in _label_points(ties, spots).items()]
    parts += [_node(spot, diagram) for spot in spots.values()]
    parts += _captions(diagram, width, height, left_out)
    size = f'viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" height="{height:.0f}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" role="img" '
        'style="max-width:100%;height:auto">\n'
        f"<title>{to_html(diagram.title)}</title>\n{STYLE}\n"
        f'<rect class="gaifman-page" width="100%" height="100%" rx="8"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def check_svg_path(path: str | Path) -> None:
    """Raise where the picture could not be written under this name."""
    if Path(path).suffix.lower() != ".svg":
        raise OutputError(f"the picture is SVG, and {path} is named otherwise", hint="end the name with .svg")
    check_writable(Path(path))


def write_svg(text: str, path: str | Path) -> None:
    """Write the picture, whole or not at all."""
    check_svg_path(path)
    with atomic_write(Path(path)) as temporary:
        temporary.write_text(text, encoding="utf-8")


def _edge(diagram: Diagram, one: NodeBox, other: NodeBox, lit: Sequence[Fact]) -> list[tuple[int, str]]:
    """The line between two objects, with when to draw it."""
    one, other = _ordered(one, other)
    if not lit:
        quiet = one.in_tuple or other.in_tuple  # what links others among themselves would hide what matters
        line = f'<path class="gaifman-plain" fill="none" stroke-width="1.2" d="{_path_data(_curve(one, other, lit))}"/>'
        return [(0, line)] if quiet else []
    bend = _curve(one, other, lit)
    kind = "for" if max(diagram.highlighted[fact] for fact in lit) > 0 else "against"
    strong = any(fact in diagram.decisive for fact in lit)
    forward = {fact.objects.index(one.name) < fact.objects.index(other.name) for fact in lit}
    heads = [_arrow_head(end, towards, kind) for way, (end, towards) in _curve_ends(bend).items() if way in forward]
    line = f'<path class="gaifman-{kind}" fill="none" stroke-width="{3.2 if strong else 1.6}" d="{_path_data(bend)}"/>'
    return [(2 if strong else 1, line + "".join(heads))]


def _label_points(edges: Mapping[tuple[str, str], list[Fact]], spots: Mapping[str, NodeBox]) -> dict[Point, list[Fact]]:
    """Where words stand, and of which facts: lines that share a place share them."""
    found: dict[Point, list[Fact]] = {}
    for (one, other), facts in edges.items():
        if facts:
            found.setdefault(_label_point(*_ordered(spots[one], spots[other]), facts), []).extend(facts)
    return found


def _ordered(one: NodeBox, other: NodeBox) -> tuple[NodeBox, NodeBox]:
    """The tuple's own last: words stand beside the other."""
    return (other, one) if one.in_tuple and not other.in_tuple else (one, other)


def _curve(one: NodeBox, other: NodeBox, lit: Sequence[Fact]) -> list[Point]:
    """A Bézier curve after a level piece, on which words can stand: names and words each have their own height."""
    side = _side(one, other)
    if abs(one.x - other.x) < 1:
        ax, bx = (spot.x + side * (spot.width / 2 + 2) for spot in (one, other))
        far = abs(_label_point(one, other, lit)[0] - (ax + bx) / 2) / 0.75  # a curve comes so near to its points
        return [(ax, one.y), (ax, one.y), (ax + side * far, one.y), (bx + side * far, other.y), (bx, other.y)]
    ax, bx = one.x + side * (one.width / 2 + 2), other.x - side * (other.width / 2 + 2)
    level = one.x + side * (one.half_width + one.label_space) if other.in_tuple and not one.in_tuple else ax
    middle = (level + bx) / 2
    return [(ax, one.y), (level, one.y), (middle, one.y), (middle, other.y), (bx, other.y)]


def _side(one: NodeBox, other: NodeBox) -> int:
    """1 where a line leaves a name to the right: towards the other, or away from the middle in the same column."""
    if abs(one.x - other.x) < 1:
        return -1 if one.side < 0 else 1
    return 1 if other.x > one.x else -1


def _path_data(curve: Sequence[Point]) -> str:
    start, level, *rest = (f"{x:.1f} {y:.1f}" for x, y in curve)
    return f"M{start} L{level} C{', '.join(rest)}"


def _label_point(one: NodeBox, other: NodeBox, lit: Sequence[Fact]) -> Point:
    """Where words stand on a line: beside the column of the first, or half way."""
    side, y = _side(one, other), (one.y + other.y) / 2
    if abs(one.x - other.x) < 1:
        return one.x + side * (one.half_width + 12 + label_width(lit) / 2), y
    if other.in_tuple and not one.in_tuple:
        return one.x + side * (one.half_width + one.label_space / 2), one.y
    return (one.x + side * one.width / 2 + other.x - side * other.width / 2) / 2, y


def _curve_ends(curve: Sequence[Point]) -> dict[bool, tuple[Point, int]]:
    """Where the curve ends, and whether it goes right or left there: forwards (True) and backwards."""
    (ax, _), (bx, _), (cx, _), (dx, _), (ex, _) = curve
    return {True: (curve[4], 1 if ex > dx else -1), False: (curve[0], 1 if ax > (cx if ax == bx else bx) else -1)}


def _arrow_head(end: Point, towards: int, kind: str) -> str:
    """An arrow's head, which points right or left."""
    x, y = end
    back = x - 9 * towards
    points = f"{x + 2 * towards:.1f},{y:.1f} {back:.1f},{y - 4.5:.1f} {back:.1f},{y + 4.5:.1f}"
    return f'<polygon class="gaifman-{kind}-text" points="{points}"/>'


def _edge_label(lit: Sequence[Fact], diagram: Diagram, spot: Point) -> str:
    """The relations of facts that stand out, each in its colour, on a piece of the page."""
    x, y = spot
    width = label_width(lit)
    page = (
        f'<rect class="gaifman-page" x="{x - width / 2:.1f}" y="{y - 8:.1f}" width="{width:.1f}" height="16" rx="4"/>'
    )
    facts = " ".join(map(str, dict.fromkeys(lit)))  # with all objects and confidences, for whoever points at it
    title = to_html(shorten(facts, MAX_TOOLTIP_CHARS))
    return f'<g class="gaifman-facts"><title>{title}</title>{page}{_small_text(_coloured_relations(lit, diagram), x, y + 4)}</g>'


def _small_text(words: str, x: float, y: float) -> str:
    """Small words around a point; what is in them is escaped already."""
    return f'<text class="gaifman-quiet" font-size="{SMALL_FONT_SIZE}" text-anchor="middle" x="{x:.1f}" y="{y:.1f}">{words}</text>'


def _coloured_relations(lit: Sequence[Fact], diagram: Diagram) -> str:
    """The relations of facts that stand out, each in its colour, and bold where they stand out most."""
    kinds = {fact.relation: "for" if diagram.highlighted[fact] > 0 else "against" for fact in reversed(lit)}
    strong = {fact.relation for fact in lit if fact in diagram.decisive}
    names, more = edge_relations(lit)
    words = [
        f'<tspan class="gaifman-{kinds[name]}-text"{BOLD * (name in strong)}>{to_html(shorten_name(name))}</tspan>'
        for name in names
    ]
    return ", ".join([*words, *([f"+{more}"] if more else [])])


def _node(spot: NodeBox, diagram: Diagram) -> str:
    """An object."""
    own = spot.in_tuple
    box = f'x="{spot.x - spot.width / 2:.1f}" y="{spot.y - NODE_HEIGHT / 2:.1f}" width="{spot.width:.1f}" height="{NODE_HEIGHT:.0f}"'
    text = (
        f'<g class="gaifman-name"><title>{to_html(spot.name)}</title>'
        f'<rect class="gaifman-{"own" if own else "pill"}" {box} rx="{NODE_HEIGHT / 2:.0f}"/>'
        f'<text class="gaifman-{"own-name" if own else "text"}" font-size="{FONT_SIZE}" text-anchor="middle" '
        f'x="{spot.x:.1f}" y="{spot.y + 4.5:.1f}">{to_html(shorten_name(spot.name))}</text></g>'
    )
    if spot.unary_facts:
        words = _coloured_relations(spot.unary_facts, diagram)
        text += _small_text(words, spot.x, spot.y + NODE_HEIGHT / 2 + 13)
    return text


def _captions(diagram: Diagram, width: float, height: float, left_out: int) -> list[str]:
    """Title, what is said, and what the lines mean."""
    title = to_html(title_text(diagram))
    lines = [
        f'<text class="gaifman-text" font-size="15" font-weight="bold" x="{MARGIN}" y="30">{title}</text>',
        f'<text class="gaifman-quiet" font-size="{FONT_SIZE}" x="{MARGIN}" y="50">{to_html(diagram.subtitle)}</text>',
    ]
    signs = set(diagram.highlighted.values())
    legend = [("gaifman-for", 1.6, "speaks for it")] if 1 in signs else []
    legend += (
        [("gaifman-for", 3.2, "it hangs on these facts")] if diagram.decisive.intersection(diagram.highlighted) else []
    )
    legend += [("gaifman-against", 1.6, "speaks against it")] if -1 in signs else []
    legend += [("gaifman-plain", 1.2, "other facts")]
    x, y = MARGIN, height - 24
    for kind, thick, words in legend:
        lines.append(f'<line class="{kind}" stroke-width="{thick}" x1="{x}" y1="{y}" x2="{x + 26}" y2="{y}"/>')
        lines.append(
            f'<text class="gaifman-quiet" font-size="{SMALL_FONT_SIZE}" x="{x + 32}" y="{y + 4}">{words}</text>'
        )
        x += 32 + text_width(words, SMALL_FONT_SIZE) + 22
    if left_out:
        more = f"and {left_out:,} more object{'s' if left_out > 1 else ''}"
        above = (
            0 if x + text_width(more, SMALL_FONT_SIZE) < width - MARGIN else 18
        )  # where the legend leaves no room beside it
        at = f'text-anchor="end" x="{width - MARGIN:.0f}" y="{y + 4 - above}"'
        lines.append(f'<text class="gaifman-quiet" font-size="{SMALL_FONT_SIZE}" {at}>{more}</text>')
    return lines

"""Diagrams of neighbourhoods as SVG.

>>> fact, currency = Fact("borders", ("spain", "portugal")), Fact("uses", ("spain", "euro"))
>>> members = ("portugal", "spain", "euro", "angola")
>>> diagram = Diagram("q", "", ("portugal", "spain"), members, (fact, currency), {fact: 1})
>>> layout_columns(diagram)
([[], ['portugal'], [], ['spain'], ['euro']], 1)
>>> sorted(find_edges(diagram, {"portugal", "spain", "euro"}))
[('spain', 'euro'), ('spain', 'portugal')]

The objects of a pair are left and right, neighbours of both are between them, and neighbours of one are beside it. The
objects of other tuples are in one column. Names in columns do not overlap.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, combinations, pairwise
from pathlib import Path

from gaifman._html import NEGATIVE_COLOUR, POSITIVE_COLOUR, to_html
from gaifman.errors import OutputError, plural, shorten
from gaifman.io.files import atomic_write, check_writable
from gaifman.kb.knowledge_base import Fact
from gaifman.kb.labels import Labels, label_fact

MAX_OTHER_OBJECTS = 16
"""Limit on the objects besides the tuple's own."""
MAX_NAME_CHARS, MAX_EDGE_CHARS = 26, 36
"""Limits on the characters of a name, and of the relations on an edge."""
MAX_TITLE_CHARS = 100
ROW_HEIGHT, FONT_SIZE, SMALL_FONT_SIZE = 46.0, 13, 11
MARGIN, TOP, BOTTOM, CURVE_WIDTH = 24.0, 74.0, 64.0, 48.0


@dataclass(frozen=True, slots=True)
class Diagram:
    """A neighbourhood to draw."""

    title: str
    subtitle: str
    objects: tuple[str, ...]
    """The objects of the tuple."""
    members: tuple[str, ...]
    """All objects of the neighbourhood."""
    facts: tuple[Fact, ...]
    """All facts among them that are not hidden."""
    highlighted: Mapping[Fact, int] = field(default_factory=dict)
    """Facts of the explanation: 1 supports the prediction, −1 opposes it."""
    decisive: frozenset[Fact] = frozenset()
    """The facts of the counterfactual."""
    labels: Labels = field(default_factory=dict)
    """Object → how it is shown, for objects that have a label."""

    def shown(self, name: str) -> str:
        """The name or label of an object, shortened."""
        return shorten_name(self.labels.get(name, name))


@dataclass(slots=True)
class NodeBox:
    """The box of an object's name; x and y are its centre."""

    name: str
    x: float
    y: float
    width: float
    in_tuple: bool
    side: int
    """−1 in the leftmost column, 1 in the rightmost, 0 in others."""
    half_width: float
    """Half of the width of its column."""
    label_space: float
    """The space beside the column for labels of edges."""
    unary_facts: list[Fact] = field(default_factory=list)
    """Highlighted facts of this object alone."""


def layout_columns(diagram: Diagram) -> tuple[list[list[str]], int]:
    """The objects of each column, and the number of omitted objects. Objects of highlighted facts come first.

    Objects without a fact that links them to the tuple are omitted.
    """
    own = list(dict.fromkeys(diagram.objects))
    highlighted = {name for fact in diagram.highlighted for name in fact.objects}
    linked = highlighted.union(*(fact.objects for fact in diagram.facts if not set(own).isdisjoint(fact.objects)))
    rest = [name for name in diagram.members if name not in own]
    candidates = (name for name in rest if name in linked)
    kept = sorted(candidates, key=lambda name: name not in highlighted)[:MAX_OTHER_OBJECTS]
    if len(own) != 2:
        return [kept[::2], own, kept[1::2]], len(rest) - len(kept)
    left, between, right = list[str](), list[str](), list[str]()
    for name in kept:
        linked_to = {one for fact in diagram.facts if name in fact.objects for one in own if one in fact.objects}
        (left if linked_to == {own[0]} else right if linked_to == {own[1]} else between).append(name)
    return [_center_first(left), own[:1], _center_first(between), own[1:], _center_first(right)], len(rest) - len(kept)


def _center_first(names: list[str]) -> list[str]:
    """The first name in the middle, the others alternately above and below."""
    return [*names[1::2][::-1], *names[::2]]


def find_edges(diagram: Diagram, shown: set[str]) -> dict[tuple[str, str], list[Fact]]:
    """Pairs of objects of a fact → their highlighted facts.

    A fact of more than two objects links the tuple's objects to the others, or else each object to the next.
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
    """The boxes of all names, and the size of the diagram. Edges of a pair leave the middle row free."""
    own = set(diagram.objects)
    label_space = _label_space(columns, edges, own)
    is_pair = len(columns) == 5
    needed = [len(column) + (is_pair and number == 2) for number, column in enumerate(columns)]
    rows = max(*needed, 2 * len(own) - 1 if len(own) > 2 else 1)
    height = TOP + rows * ROW_HEIGHT + BOTTOM
    boxes: dict[str, NodeBox] = {}
    x, gap = MARGIN, 0.0
    for number, column in enumerate(columns):
        widest = max([text_width(diagram.shown(name), FONT_SIZE) + 24 for name in column], default=0.0)
        if not column and not (is_pair and number == 2):
            continue
        x += widest / 2
        outer = -1 if number == 0 else int(number == len(columns) - 1)
        step = 2 * ROW_HEIGHT if len(own) > 2 and number == 1 else ROW_HEIGHT  # edges between them need a row
        for name, y in zip(column, _row_positions(len(column), rows, step, is_pair and number == 2), strict=True):
            width = text_width(diagram.shown(name), FONT_SIZE) + 24
            boxes[name] = NodeBox(name, x, TOP + y, width, name in own, outer, widest / 2, label_space[number])
        gap = max(label_space[number : number + 2]) + CURVE_WIDTH
        x += widest / 2 + gap
    min_width = max(text_width(title_text(diagram), 15), text_width(diagram.subtitle, FONT_SIZE), 560.0) + 2 * MARGIN
    width = x - gap + MARGIN
    for box in boxes.values():
        box.x += max(0.0, min_width - width) / 2
    return boxes, max(width, min_width), height


def _label_space(
    columns: Sequence[Sequence[str]], edges: Mapping[tuple[str, str], list[Fact]], own: set[str]
) -> list[float]:
    """The space beside each column for the labels of its edges."""
    column_of = {name: number for number, column in enumerate(columns) for name in column}
    middle = 2  # the column between a pair, or beside another tuple: labels of edges between its objects
    found = [20.0 if number not in (1, 3) else 0.0 for number in range(len(columns))]
    for names, facts in _facts_sharing_labels(edges, own):
        for number in {column_of[name] for name in names if name not in own} or {middle}:
            found[number] = max(found[number], label_width(facts) + 24)
    return found


def _facts_sharing_labels(
    edges: Mapping[tuple[str, str], list[Fact]], own: set[str]
) -> Iterable[tuple[tuple[str, ...], list[Fact]]]:
    """Objects with the facts that can share one label: those of an edge, or of all edges of an object."""
    found: dict[str, list[Fact]] = {}
    for (one, other), facts in edges.items():
        if len(own) != 2 and len(own & {one, other}) == 1:
            found.setdefault(other if one in own else one, []).extend(facts)
    return [*(((name,), facts) for name, facts in found.items()), *edges.items()]


def _row_positions(count: int, rows: int, step: float, split: bool) -> list[float]:
    """The y of each name of a column; with `split` the middle row is free."""
    middle = rows * ROW_HEIGHT / 2
    if not split:
        return [middle + (i - (count - 1) / 2) * step for i in range(count)]
    above = (count + 1) // 2
    return [middle + (i - above) * step if i < above else middle + (i - above + 1) * step for i in range(count)]


def edge_relations(facts: Iterable[Fact]) -> tuple[list[str], int]:
    """The relations that fit into a label, at least one, and the number of further relations."""
    names = list(dict.fromkeys(fact.relation for fact in facts))
    lengths = accumulate(len(shorten_name(name)) + 2 for name in names)
    kept = max(1, sum(length <= MAX_EDGE_CHARS for length in lengths))
    return names[:kept], len(names[kept:])


def label_width(facts: Iterable[Fact]) -> float:
    """The approximate width of a label, in which some relations can be bold."""
    names, more = edge_relations(facts)
    return (
        1.08 * text_width(", ".join([*map(shorten_name, names), *([f"+{more}"] if more else [])]), SMALL_FONT_SIZE) + 8
    )


def title_text(diagram: Diagram) -> str:
    """The shortened title."""
    return shorten(diagram.title, MAX_TITLE_CHARS)


def shorten_name(name: str) -> str:
    return shorten(name, MAX_NAME_CHARS)


def text_width(text: str, size: float) -> float:
    """The approximate width of a text; wide characters count twice."""
    cells = sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)
    return 0.6 * size * cells


Point = tuple[float, float]

NODE_HEIGHT = 26.0
MAX_TOOLTIP_CHARS = 400
"""Limit on the characters of a tooltip, which shows the facts of a label."""

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
    """The diagram as SVG."""
    columns, omitted = layout_columns(diagram)
    edges = find_edges(diagram, {name for column in columns for name in column})
    boxes, width, height = layout_nodes(diagram, columns, edges)
    for fact in diagram.highlighted:
        if len(set(fact.objects)) == 1 and fact.objects[0] in boxes:
            boxes[fact.objects[0]].unary_facts.append(fact)
    lines = [line for (one, other), facts in edges.items() for line in _edge(diagram, boxes[one], boxes[other], facts)]
    # Plain edges first, then highlighted ones, then labels and names: what matters is drawn on top.
    parts = [text for _, text in sorted(lines, key=lambda line: line[0])]
    parts += [_edge_label(facts, diagram, point) for point, facts in _label_points(edges, boxes).items()]
    parts += [_node(box, diagram) for box in boxes.values()]
    parts += _captions(diagram, width, height, omitted)
    size = f'viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" height="{height:.0f}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" role="img" '
        'style="max-width:100%;height:auto">\n'
        f"<title>{to_html(diagram.title)}</title>\n{STYLE}\n"
        f'<rect class="gaifman-page" width="100%" height="100%" rx="8"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def check_svg_path(path: str | Path) -> None:
    """Raise if the diagram cannot be written to this file."""
    if Path(path).suffix.lower() != ".svg":
        raise OutputError(f"the diagram is SVG, but {path} has another suffix", hint="end the name with .svg")
    check_writable(Path(path))


def write_svg(text: str, path: str | Path) -> None:
    """Write the diagram atomically."""
    check_svg_path(path)
    with atomic_write(Path(path)) as temporary:
        temporary.write_text(text, encoding="utf-8")


def _edge(diagram: Diagram, one: NodeBox, other: NodeBox, facts: Sequence[Fact]) -> list[tuple[int, str]]:
    """The line between two objects with its layer; plain edges between other objects are omitted."""
    one, other = _ordered(one, other)
    curve = _curve(one, other, facts)
    if not facts:
        line = f'<path class="gaifman-plain" fill="none" stroke-width="1.2" d="{_path_data(curve)}"/>'
        return [(0, line)] if one.in_tuple or other.in_tuple else []
    kind = "for" if max(diagram.highlighted[fact] for fact in facts) > 0 else "against"
    decisive = any(fact in diagram.decisive for fact in facts)
    forward = {fact.objects.index(one.name) < fact.objects.index(other.name) for fact in facts}
    heads = [_arrow_head(end, sign, kind) for way, (end, sign) in _curve_ends(curve).items() if way in forward]
    thickness = 3.2 if decisive else 1.6
    line = f'<path class="gaifman-{kind}" fill="none" stroke-width="{thickness}" d="{_path_data(curve)}"/>'
    return [(2 if decisive else 1, line + "".join(heads))]


def _label_points(edges: Mapping[tuple[str, str], list[Fact]], boxes: Mapping[str, NodeBox]) -> dict[Point, list[Fact]]:
    """The position of each label → its facts; edges with the same position share a label."""
    found: dict[Point, list[Fact]] = {}
    for (one, other), facts in edges.items():
        if facts:
            found.setdefault(_label_point(*_ordered(boxes[one], boxes[other]), facts), []).extend(facts)
    return found


def _ordered(one: NodeBox, other: NodeBox) -> tuple[NodeBox, NodeBox]:
    """The two boxes, the tuple's own last: labels are beside the other."""
    return (other, one) if one.in_tuple and not other.in_tuple else (one, other)


def _curve(one: NodeBox, other: NodeBox, facts: Sequence[Fact]) -> list[Point]:
    """The points of a horizontal piece, for the label, and of a Bézier curve."""
    side = _side(one, other)
    if abs(one.x - other.x) < 1:
        ax, bx = (box.x + side * (box.width / 2 + 2) for box in (one, other))
        far = abs(_label_point(one, other, facts)[0] - (ax + bx) / 2) / 0.75  # the curve reaches 3/4 of this distance
        return [(ax, one.y), (ax, one.y), (ax + side * far, one.y), (bx + side * far, other.y), (bx, other.y)]
    ax, bx = one.x + side * (one.width / 2 + 2), other.x - side * (other.width / 2 + 2)
    level = one.x + side * (one.half_width + one.label_space) if other.in_tuple and not one.in_tuple else ax
    middle = (level + bx) / 2
    return [(ax, one.y), (level, one.y), (middle, one.y), (middle, other.y), (bx, other.y)]


def _side(one: NodeBox, other: NodeBox) -> int:
    """1 if the edge leaves the first name to the right: towards the other, or outwards in the same column."""
    if abs(one.x - other.x) < 1:
        return -1 if one.side < 0 else 1
    return 1 if other.x > one.x else -1


def _path_data(curve: Sequence[Point]) -> str:
    start, level, *rest = (f"{x:.1f} {y:.1f}" for x, y in curve)
    return f"M{start} L{level} C{', '.join(rest)}"


def _label_point(one: NodeBox, other: NodeBox, facts: Sequence[Fact]) -> Point:
    """The position of a label: beside the column of the first object, or half way."""
    side, y = _side(one, other), (one.y + other.y) / 2
    if abs(one.x - other.x) < 1:
        return one.x + side * (one.half_width + 12 + label_width(facts) / 2), y
    if other.in_tuple and not one.in_tuple:
        return one.x + side * (one.half_width + one.label_space / 2), one.y
    return (one.x + side * one.width / 2 + other.x - side * other.width / 2) / 2, y


def _curve_ends(curve: Sequence[Point]) -> dict[bool, tuple[Point, int]]:
    """Forwards (True) and backwards: the end of the curve, and 1 if it goes right there, −1 if left."""
    (ax, _), (bx, _), (cx, _), (dx, _), (ex, _) = curve
    return {True: (curve[4], 1 if ex > dx else -1), False: (curve[0], 1 if ax > (cx if ax == bx else bx) else -1)}


def _arrow_head(end: Point, sign: int, kind: str) -> str:
    """The head of an arrow that points right (1) or left (−1)."""
    x, y = end
    back = x - 9 * sign
    points = f"{x + 2 * sign:.1f},{y:.1f} {back:.1f},{y - 4.5:.1f} {back:.1f},{y + 4.5:.1f}"
    return f'<polygon class="gaifman-{kind}-text" points="{points}"/>'


def _edge_label(facts: Sequence[Fact], diagram: Diagram, point: Point) -> str:
    """The relations of highlighted facts, each in its colour, on a background; the tooltip has the facts."""
    x, y = point
    width = label_width(facts)
    box = f'x="{x - width / 2:.1f}" y="{y - 8:.1f}" width="{width:.1f}" height="16"'
    background = f'<rect class="gaifman-page" {box} rx="4"/>'
    shown = (str(label_fact(fact, diagram.labels)) for fact in dict.fromkeys(facts))
    title = to_html(shorten(" ".join(shown), MAX_TOOLTIP_CHARS))
    text = _small_text(_coloured_relations(facts, diagram), x, y + 4)
    return f'<g class="gaifman-facts"><title>{title}</title>{background}{text}</g>'


def _small_text(text: str, x: float, y: float) -> str:
    """Small text centred at x; the text is escaped already."""
    place = f'text-anchor="middle" x="{x:.1f}" y="{y:.1f}"'
    return f'<text class="gaifman-quiet" font-size="{SMALL_FONT_SIZE}" {place}>{text}</text>'


def _coloured_relations(facts: Sequence[Fact], diagram: Diagram) -> str:
    """The relations of highlighted facts, each in its colour; those of decisive facts are bold."""
    kinds = {fact.relation: "for" if diagram.highlighted[fact] > 0 else "against" for fact in reversed(facts)}
    decisive = {fact.relation for fact in facts if fact in diagram.decisive}
    names, more = edge_relations(facts)
    spans = [
        f'<tspan class="gaifman-{kinds[name]}-text"{BOLD * (name in decisive)}>{to_html(shorten_name(name))}</tspan>'
        for name in names
    ]
    return ", ".join([*spans, *([f"+{more}"] if more else [])])


def _node(box: NodeBox, diagram: Diagram) -> str:
    """The box of an object with its name, and the unary facts below it."""
    shape, text = ("own", "own-name") if box.in_tuple else ("pill", "text")
    left, top = box.x - box.width / 2, box.y - NODE_HEIGHT / 2
    area = f'x="{left:.1f}" y="{top:.1f}" width="{box.width:.1f}" height="{NODE_HEIGHT:.0f}"'
    label = diagram.labels.get(box.name, box.name)
    tooltip = box.name if label == box.name or label.endswith(f"({box.name})") else f"{label} ({box.name})"
    node = (
        f'<g class="gaifman-name"><title>{to_html(tooltip)}</title>'
        f'<rect class="gaifman-{shape}" {area} rx="{NODE_HEIGHT / 2:.0f}"/>'
        f'<text class="gaifman-{text}" font-size="{FONT_SIZE}" text-anchor="middle" '
        f'x="{box.x:.1f}" y="{box.y + 4.5:.1f}">{to_html(diagram.shown(box.name))}</text></g>'
    )
    if box.unary_facts:
        node += _small_text(_coloured_relations(box.unary_facts, diagram), box.x, box.y + NODE_HEIGHT / 2 + 13)
    return node


def _captions(diagram: Diagram, width: float, height: float, omitted: int) -> list[str]:
    """Title, subtitle and legend."""
    title = to_html(title_text(diagram))
    lines = [
        f'<text class="gaifman-text" font-size="15" font-weight="bold" x="{MARGIN}" y="30">{title}</text>',
        f'<text class="gaifman-quiet" font-size="{FONT_SIZE}" x="{MARGIN}" y="50">{to_html(diagram.subtitle)}</text>',
    ]
    x, y = MARGIN, height - 24
    for kind, thickness, text in _legend(diagram):
        lines.append(f'<line class="{kind}" stroke-width="{thickness}" x1="{x}" y1="{y}" x2="{x + 26}" y2="{y}"/>')
        place = f'x="{x + 32}" y="{y + 4}"'
        lines.append(f'<text class="gaifman-quiet" font-size="{SMALL_FONT_SIZE}" {place}>{text}</text>')
        x += 32 + text_width(text, SMALL_FONT_SIZE) + 22
    if omitted:
        more = f"and {plural(omitted, 'more object')}"
        fits = x + text_width(more, SMALL_FONT_SIZE) < width - MARGIN
        place = f'text-anchor="end" x="{width - MARGIN:.0f}" y="{y + 4 - (0 if fits else 18)}"'
        lines.append(f'<text class="gaifman-quiet" font-size="{SMALL_FONT_SIZE}" {place}>{more}</text>')
    return lines


def _legend(diagram: Diagram) -> list[tuple[str, float, str]]:
    """Class, thickness and text of each kind of line in the diagram."""
    signs = set(diagram.highlighted.values())
    legend = [("gaifman-for", 1.6, "supports")] if 1 in signs else []
    legend += [("gaifman-for", 3.2, "decisive facts")] if diagram.decisive.intersection(diagram.highlighted) else []
    legend += [("gaifman-against", 1.6, "opposes")] if -1 in signs else []
    return [*legend, ("gaifman-plain", 1.2, "other facts")]

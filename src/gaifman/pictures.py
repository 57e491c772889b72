"""A neighbourhood as a picture, in which some facts stand out: plain SVG, drawn without help.

>>> fact = Fact("borders", ("spain", "portugal"))
>>> scene = Scene("borders('portugal', 'spain')", "0.97", ("portugal", "spain"), ("portugal", "spain", "euro"),
...     (fact, Fact("uses_currency", ("spain", "euro"))), {fact: 1})
>>> text = drawn(scene)
>>> text.startswith("<svg "), text.count('class="gaifman-name"'), ">borders<" in text, ">uses_currency<" in text
(True, 3, True, False)

The objects of the tuple stand left and right, or below one another where they are more than two; what is near both of
them stands between, what is near one beside it: in columns no name covers another. It has a background of its own, so
that it can be read on a light and on a dark page.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import combinations, pairwise
from pathlib import Path

from gaifman.errors import OutputError, shorten, visible
from gaifman.facts import Fact
from gaifman.io.files import check_place, replaced

FOR, AGAINST = "#1f6fb4", "#c8641a"
OTHERS = 16
"""Objects besides the tuple's own that are drawn."""
LONGEST = 26
"""Characters of a name that are drawn."""
ROW, PILL, SIZE, SMALL = 46.0, 26.0, 13, 11
MARGIN, TOP, BOTTOM, BENT = 24.0, 74.0, 64.0, 84.0

BOLD = ' font-weight="bold"'

STYLE = f"""<style>
.gaifman-page{{fill:#ffffff}} .gaifman-text{{fill:#222222}} .gaifman-quiet{{fill:#666666}}
.gaifman-pill{{fill:#f2f4f7;stroke:#9aa3ad}} .gaifman-own{{fill:#222222;stroke:#222222}}
.gaifman-own-name{{fill:#ffffff}}
.gaifman-plain{{stroke:#d3d8de}}
.gaifman-for{{stroke:{FOR}}} .gaifman-against{{stroke:{AGAINST}}}
.gaifman-for-text{{fill:{FOR}}} .gaifman-against-text{{fill:{AGAINST}}}
@media (prefers-color-scheme: dark){{
.gaifman-page{{fill:#16191d}} .gaifman-text{{fill:#e8e8e8}} .gaifman-quiet{{fill:#a0a6ad}}
.gaifman-pill{{fill:#262b31;stroke:#59616a}} .gaifman-own{{fill:#e8e8e8;stroke:#e8e8e8}}
.gaifman-own-name{{fill:#16191d}}
.gaifman-plain{{stroke:#3a4149}}
.gaifman-for{{stroke:#6fb3ee}} .gaifman-against{{stroke:#f0a15c}}
.gaifman-for-text{{fill:#6fb3ee}} .gaifman-against-text{{fill:#f0a15c}}
}}
</style>"""


@dataclass(frozen=True, slots=True)
class Scene:
    """What is drawn."""

    title: str
    said: str
    """What stands below the title."""
    objects: tuple[str, ...]
    """The tuple's own."""
    members: tuple[str, ...]
    """All objects of the neighbourhood."""
    facts: tuple[Fact, ...]
    """All facts among them that are not hidden."""
    lit: Mapping[Fact, int] = field(default_factory=dict)
    """Facts that stand out: 1 speaks for the answer, −1 against it."""
    chief: frozenset[Fact] = frozenset()
    """Facts that stand out most."""


Point = tuple[float, float]


@dataclass(slots=True)
class _Spot:
    """Where an object stands: the middle of its name."""

    name: str
    x: float
    y: float
    width: float
    own: bool
    outer: int
    """−1 in the leftmost column, 1 in the rightmost, 0 in others."""
    room: float
    """Half of what the widest name of its column takes."""
    words: float
    """What is kept free beside the column, for words on lines."""
    tags: list[Fact] = field(default_factory=list)
    """Facts that stand out and have no other object."""


def drawn(scene: Scene) -> str:
    """The picture as SVG."""
    columns, left_out = _columns(scene)
    ties = _ties(scene, {name for column in columns for name in column})
    spots, width, height = _places(scene, columns, ties)
    for fact in scene.lit:
        if len(set(fact.objects)) == 1 and fact.objects[0] in spots:
            spots[fact.objects[0]].tags.append(fact)
    lines = [line for (one, other), facts in ties.items() for line in _tie(scene, spots[one], spots[other], facts)]
    # Quiet lines first, then those that stand out, then names: what matters covers what does not.
    parts = [text for _, text in sorted(lines, key=lambda line: line[0])]
    parts += [_name(spot, scene) for spot in spots.values()]
    parts += _words(scene, width, height, left_out)
    size = f'viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" height="{height:.0f}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" role="img" '
        'style="max-width:100%;height:auto">\n'
        f"<title>{_safe(scene.title)}</title>\n{STYLE}\n"
        f'<rect class="gaifman-page" width="100%" height="100%" rx="8"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def check_picture(path: str | Path) -> None:
    """Raise where the picture could not be written under this name."""
    if Path(path).suffix.lower() != ".svg":
        raise OutputError(f"the picture is SVG, and {path} is named otherwise", hint="end the name with .svg")
    check_place(Path(path))


def write_picture(text: str, path: str | Path) -> None:
    """Write the picture, whole or not at all."""
    check_picture(path)
    with replaced(Path(path)) as temporary:
        temporary.write_text(text, encoding="utf-8")


# Who stands where


def _columns(scene: Scene) -> tuple[list[list[str]], int]:
    """The objects of each column, and how many are not drawn: those of facts that stand out come first.

    An object that no fact ties to the tuple's is not drawn: another of the fact's objects was not drawn either.
    """
    own = list(dict.fromkeys(scene.objects))
    told = {name for fact in scene.lit for name in fact.objects}
    tied = told.union(*(fact.objects for fact in scene.facts if not set(own).isdisjoint(fact.objects)))
    rest = [name for name in scene.members if name not in own]
    kept = sorted((name for name in rest if name in tied), key=lambda name: name not in told)[:OTHERS]
    if len(own) != 2:
        return [kept[::2], own, kept[1::2]], len(rest) - len(kept)
    left, between, right = list[str](), list[str](), list[str]()
    for name in kept:
        near = {one for fact in scene.facts if name in fact.objects for one in own if one in fact.objects}
        (left if near == {own[0]} else right if near == {own[1]} else between).append(name)
    return [_mirrored(left), own[:1], _mirrored(between), own[1:], _mirrored(right)], len(rest) - len(kept)


def _mirrored(names: list[str]) -> list[str]:
    """The first in the middle, the others above and below in turns."""
    return [*names[1::2][::-1], *names[::2]]


def _ties(scene: Scene, shown: set[str]) -> dict[tuple[str, str], list[Fact]]:
    """Pairs of objects that stand in a fact, with the facts that stand out.

    A fact of more than two objects ties the tuple's to the others; without one of these, each object to the next.
    """
    found: dict[tuple[str, str], list[Fact]] = {}
    for fact in scene.facts:
        names = [name for name in dict.fromkeys(fact.objects) if name in shown]
        own = [name for name in names if name in scene.objects]
        pairs = [pair for pair in combinations(names, 2) if not set(own).isdisjoint(pair)] or pairwise(names)
        for one, other in pairs:
            pair = (other, one) if (other, one) in found else (one, other)
            found.setdefault(pair, [])
            if fact in scene.lit:
                found[pair].append(fact)
    return found


def _places(
    scene: Scene, columns: Sequence[Sequence[str]], ties: Mapping[tuple[str, str], list[Fact]]
) -> tuple[dict[str, _Spot], float, float]:
    """Spots in columns, and how large the picture is. Between a pair there is room for what links it."""
    words = max([20.0, *(_width(_label(facts), SMALL) * 1.08 + 24 for facts in ties.values() if facts)])
    gap = words + BENT
    own = set(scene.objects)
    rows = max(1, *(len(column) + (len(columns) == 5 and number == 2) for number, column in enumerate(columns)))
    height = TOP + rows * ROW + BOTTOM
    spots: dict[str, _Spot] = {}
    x = MARGIN
    for number, column in enumerate(columns):
        widest = max([_width(_short(name), SIZE) + 24 for name in column], default=0.0)
        if not column and not (len(columns) == 5 and number == 2):
            continue
        x += widest / 2
        outer = -1 if number == 0 else int(number == len(columns) - 1)
        for name, y in zip(column, _heights(len(column), rows, len(columns) == 5 and number == 2), strict=True):
            spots[name] = _Spot(
                name, x, TOP + y, _width(_short(name), SIZE) + 24, name in own, outer, widest / 2, words
            )
        x += widest / 2 + gap
    least = max(_width(scene.title, 15), _width(scene.said, SIZE), 560.0) + 2 * MARGIN
    width = x - gap + MARGIN
    for spot in spots.values():
        spot.x += max(0.0, least - width) / 2
    return spots, max(width, least), height


def _heights(count: int, rows: int, parted: bool) -> list[float]:
    """Where the names of a column stand; one that is parted leaves the middle free."""
    middle = rows * ROW / 2
    if not parted:
        return [middle + (i - (count - 1) / 2) * ROW for i in range(count)]
    above = (count + 1) // 2
    return [middle + (i - above) * ROW if i < above else middle + (i - above + 1) * ROW for i in range(count)]


# What is drawn


def _tie(scene: Scene, one: _Spot, other: _Spot, lit: Sequence[Fact]) -> list[tuple[int, str]]:
    """The line between two objects, and what stands on it; each with when to draw it."""
    if one.own and not other.own:
        one, other = other, one
    if not lit:
        quiet = one.own or other.own  # what links others among themselves would hide what matters
        line = f'<path class="gaifman-plain" fill="none" stroke-width="1.2" d="{_path(_bend(one, other))}"/>'
        return [(0, line)] if quiet else []
    bend = _bend(one, other)
    kind = "for" if max(scene.lit[fact] for fact in lit) > 0 else "against"
    strong = any(fact in scene.chief for fact in lit)
    forward = {fact.objects.index(one.name) < fact.objects.index(other.name) for fact in lit}
    heads = [_head(end, towards, kind) for way, (end, towards) in _ends(bend).items() if way in forward]
    line = f'<path class="gaifman-{kind}" fill="none" stroke-width="{3.2 if strong else 1.6}" d="{_path(bend)}"/>'
    return [(2 if strong else 1, line + "".join(heads)), (3, _on_line(lit, scene, _free(one, other)))]


def _bend(one: _Spot, other: _Spot) -> list[Point]:
    """A Bézier curve after a level piece, on which words can stand: names and words each have their own height."""
    side = _side(one, other)
    if abs(one.x - other.x) < 1:
        (ax, bx), far = (spot.x + side * (spot.width / 2 + 2) for spot in (one, other)), 30 + abs(one.y - other.y) / 4
        return [(ax, one.y), (ax, one.y), (ax + side * far, one.y), (bx + side * far, other.y), (bx, other.y)]
    ax, bx = one.x + side * (one.width / 2 + 2), other.x - side * (other.width / 2 + 2)
    level = one.x + side * (one.room + one.words) if other.own and not one.own else ax
    middle = (level + bx) / 2
    return [(ax, one.y), (level, one.y), (middle, one.y), (middle, other.y), (bx, other.y)]


def _side(one: _Spot, other: _Spot) -> int:
    """1 where a line leaves a name to the right: towards the other, or away from the middle in the same column."""
    if abs(one.x - other.x) < 1:
        return -1 if one.outer < 0 else 1
    return 1 if other.x > one.x else -1


def _path(bend: Sequence[Point]) -> str:
    start, level, *rest = (f"{x:.1f} {y:.1f}" for x, y in bend)
    return f"M{start} L{level} C{', '.join(rest)}"


def _free(one: _Spot, other: _Spot) -> Point:
    """Where words stand on a line: beside the column of the first, or half way."""
    side = _side(one, other)
    if other.own and not one.own and abs(one.x - other.x) >= 1:
        return one.x + side * (one.room + one.words / 2), one.y
    level, *_, end = _bend(one, other)
    bow = side * (22 + 3 * abs(one.y - other.y) / 16) if abs(one.x - other.x) < 1 else 0.0
    return (level[0] + end[0]) / 2 + bow, (one.y + other.y) / 2


def _ends(bend: Sequence[Point]) -> dict[bool, tuple[Point, int]]:
    """Where the curve ends, and whether it goes right or left there: forwards (True) and backwards."""
    (ax, _), (bx, _), (cx, _), (dx, _), (ex, _) = bend
    return {True: (bend[4], 1 if ex > dx else -1), False: (bend[0], 1 if ax > (cx if ax == bx else bx) else -1)}


def _head(end: Point, towards: int, kind: str) -> str:
    """An arrow's head, which points right or left."""
    x, y = end
    back = x - 9 * towards
    points = f"{x + 2 * towards:.1f},{y:.1f} {back:.1f},{y - 4.5:.1f} {back:.1f},{y + 4.5:.1f}"
    return f'<polygon class="gaifman-{kind}-text" points="{points}"/>'


def _on_line(lit: Sequence[Fact], scene: Scene, spot: Point) -> str:
    """The relations of facts that stand out, each in its colour, on a piece of the page."""
    x, y = spot
    width = 1.08 * _width(_label(lit), SMALL) + 8  # some of it may be bold
    page = (
        f'<rect class="gaifman-page" x="{x - width / 2:.1f}" y="{y - 8:.1f}" width="{width:.1f}" height="16" rx="4"/>'
    )
    words = _coloured(lit, scene)
    return page + _small(words, x, y + 4)


def _small(words: str, x: float, y: float) -> str:
    """Small words around a point; what is in them is escaped already."""
    return (
        f'<text class="gaifman-quiet" font-size="{SMALL}" text-anchor="middle" x="{x:.1f}" y="{y:.1f}">{words}</text>'
    )


def _coloured(lit: Sequence[Fact], scene: Scene) -> str:
    """The relations of facts that stand out, each in its colour, and bold where they stand out most."""
    kinds = {fact.relation: "for" if scene.lit[fact] > 0 else "against" for fact in reversed(lit)}
    strong = {fact.relation for fact in lit if fact in scene.chief}
    return ", ".join(
        f'<tspan class="gaifman-{kinds[name]}-text"{BOLD * (name in strong)}>{_safe(_short(name))}</tspan>'
        for name in _relations(lit)
    )


def _name(spot: _Spot, scene: Scene) -> str:
    """An object."""
    own = spot.own
    box = f'x="{spot.x - spot.width / 2:.1f}" y="{spot.y - PILL / 2:.1f}" width="{spot.width:.1f}" height="{PILL:.0f}"'
    text = (
        f'<g class="gaifman-name"><title>{_safe(spot.name)}</title>'
        f'<rect class="gaifman-{"own" if own else "pill"}" {box} rx="{PILL / 2:.0f}"/>'
        f'<text class="gaifman-{"own-name" if own else "text"}" font-size="{SIZE}" text-anchor="middle" '
        f'x="{spot.x:.1f}" y="{spot.y + 4.5:.1f}">{_safe(_short(spot.name))}</text></g>'
    )
    if spot.tags:
        words = _coloured(spot.tags, scene)
        text += _small(words, spot.x, spot.y + PILL / 2 + 13)
    return text


def _words(scene: Scene, width: float, height: float, left_out: int) -> list[str]:
    """Title, what is said, and what the lines mean."""
    lines = [
        f'<text class="gaifman-text" font-size="15" font-weight="bold" x="{MARGIN}" y="30">{_safe(scene.title)}</text>',
        f'<text class="gaifman-quiet" font-size="{SIZE}" x="{MARGIN}" y="50">{_safe(scene.said)}</text>',
    ]
    signs = set(scene.lit.values())
    legend = [("gaifman-for", 1.6, "speaks for it")] if 1 in signs else []
    legend += [("gaifman-for", 3.2, "it hangs on these facts")] if scene.chief.intersection(scene.lit) else []
    legend += [("gaifman-against", 1.6, "speaks against it")] if -1 in signs else []
    legend += [("gaifman-plain", 1.2, "other facts")]
    x, y = MARGIN, height - 24
    for kind, thick, words in legend:
        lines.append(f'<line class="{kind}" stroke-width="{thick}" x1="{x}" y1="{y}" x2="{x + 26}" y2="{y}"/>')
        lines.append(f'<text class="gaifman-quiet" font-size="{SMALL}" x="{x + 32}" y="{y + 4}">{words}</text>')
        x += 32 + _width(words, SMALL) + 22
    if left_out:
        more = f"and {left_out:,} more object{'s' if left_out > 1 else ''}"
        at = f'text-anchor="end" x="{width - MARGIN:.0f}" y="{y + 4}"'
        lines.append(f'<text class="gaifman-quiet" font-size="{SMALL}" {at}>{more}</text>')
    return lines


# Words


def _relations(facts: Iterable[Fact]) -> list[str]:
    return list(dict.fromkeys(fact.relation for fact in facts))


def _label(facts: Iterable[Fact]) -> str:
    return ", ".join(map(_short, _relations(facts)))


def _short(name: str) -> str:
    return shorten(name, LONGEST)


def _width(text: str, size: float) -> float:
    """About how wide a text is drawn: wide characters count twice."""
    cells = sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)
    return 0.6 * size * cells


def _safe(text: str) -> str:
    return escape(visible(text))

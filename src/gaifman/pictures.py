"""A neighbourhood as a picture, in which some facts stand out: plain SVG, drawn without help.

>>> fact = Fact("borders", ("spain", "portugal"))
>>> scene = Scene("borders('portugal', 'spain')", "0.97", ("portugal", "spain"), ("portugal", "spain", "euro"),
...     (fact, Fact("uses_currency", ("spain", "euro"))), {fact: 1})
>>> text = drawn(scene)
>>> text.startswith("<svg "), text.count('class="gaifman-name"'), ">borders<" in text, ">uses_currency<" in text
(True, 3, True, False)

Who stands where is said by `scenes`. It has a background of its own, so that it can be read on a light and on a dark
page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from gaifman.errors import OutputError, shorten
from gaifman.facts import Fact
from gaifman.io.files import check_place, replaced
from gaifman.markup import AGAINST, FOR, safe
from gaifman.scenes import (
    MARGIN,
    SIZE,
    SMALL,
    Scene,
    Spot,
    columns_of,
    headline,
    label_width,
    places_of,
    relations_on,
    short,
    ties_of,
    width_of,
)

Point = tuple[float, float]

PILL = 26.0
LONG = 400
"""Characters of facts that are shown to whoever points at the words on a line."""

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


def drawn(scene: Scene) -> str:
    """The picture as SVG."""
    columns, left_out = columns_of(scene)
    ties = ties_of(scene, {name for column in columns for name in column})
    spots, width, height = places_of(scene, columns, ties)
    for fact in scene.lit:
        if len(set(fact.objects)) == 1 and fact.objects[0] in spots:
            spots[fact.objects[0]].tags.append(fact)
    lines = [line for (one, other), facts in ties.items() for line in _tie(scene, spots[one], spots[other], facts)]
    # Quiet lines first, then those that stand out, then words and names: what matters covers what does not.
    parts = [text for _, text in sorted(lines, key=lambda line: line[0])]
    parts += [_on_line(facts, scene, at) for at, facts in _labels(ties, spots).items()]
    parts += [_name(spot, scene) for spot in spots.values()]
    parts += _words(scene, width, height, left_out)
    size = f'viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" height="{height:.0f}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" role="img" '
        'style="max-width:100%;height:auto">\n'
        f"<title>{safe(scene.title)}</title>\n{STYLE}\n"
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


def _tie(scene: Scene, one: Spot, other: Spot, lit: Sequence[Fact]) -> list[tuple[int, str]]:
    """The line between two objects, with when to draw it."""
    one, other = _ordered(one, other)
    if not lit:
        quiet = one.own or other.own  # what links others among themselves would hide what matters
        line = f'<path class="gaifman-plain" fill="none" stroke-width="1.2" d="{_path(_bend(one, other, lit))}"/>'
        return [(0, line)] if quiet else []
    bend = _bend(one, other, lit)
    kind = "for" if max(scene.lit[fact] for fact in lit) > 0 else "against"
    strong = any(fact in scene.chief for fact in lit)
    forward = {fact.objects.index(one.name) < fact.objects.index(other.name) for fact in lit}
    heads = [_head(end, towards, kind) for way, (end, towards) in _ends(bend).items() if way in forward]
    line = f'<path class="gaifman-{kind}" fill="none" stroke-width="{3.2 if strong else 1.6}" d="{_path(bend)}"/>'
    return [(2 if strong else 1, line + "".join(heads))]


def _labels(ties: Mapping[tuple[str, str], list[Fact]], spots: Mapping[str, Spot]) -> dict[Point, list[Fact]]:
    """Where words stand, and of which facts: lines that share a place share them."""
    found: dict[Point, list[Fact]] = {}
    for (one, other), facts in ties.items():
        if facts:
            found.setdefault(_free(*_ordered(spots[one], spots[other]), facts), []).extend(facts)
    return found


def _ordered(one: Spot, other: Spot) -> tuple[Spot, Spot]:
    """The tuple's own last: words stand beside the other."""
    return (other, one) if one.own and not other.own else (one, other)


def _bend(one: Spot, other: Spot, lit: Sequence[Fact]) -> list[Point]:
    """A Bézier curve after a level piece, on which words can stand: names and words each have their own height."""
    side = _side(one, other)
    if abs(one.x - other.x) < 1:
        ax, bx = (spot.x + side * (spot.width / 2 + 2) for spot in (one, other))
        far = abs(_free(one, other, lit)[0] - (ax + bx) / 2) / 0.75  # a curve comes so near to its points
        return [(ax, one.y), (ax, one.y), (ax + side * far, one.y), (bx + side * far, other.y), (bx, other.y)]
    ax, bx = one.x + side * (one.width / 2 + 2), other.x - side * (other.width / 2 + 2)
    level = one.x + side * (one.room + one.words) if other.own and not one.own else ax
    middle = (level + bx) / 2
    return [(ax, one.y), (level, one.y), (middle, one.y), (middle, other.y), (bx, other.y)]


def _side(one: Spot, other: Spot) -> int:
    """1 where a line leaves a name to the right: towards the other, or away from the middle in the same column."""
    if abs(one.x - other.x) < 1:
        return -1 if one.outer < 0 else 1
    return 1 if other.x > one.x else -1


def _path(bend: Sequence[Point]) -> str:
    start, level, *rest = (f"{x:.1f} {y:.1f}" for x, y in bend)
    return f"M{start} L{level} C{', '.join(rest)}"


def _free(one: Spot, other: Spot, lit: Sequence[Fact]) -> Point:
    """Where words stand on a line: beside the column of the first, or half way."""
    side, y = _side(one, other), (one.y + other.y) / 2
    if abs(one.x - other.x) < 1:
        return one.x + side * (one.room + 12 + label_width(lit) / 2), y
    if other.own and not one.own:
        return one.x + side * (one.room + one.words / 2), one.y
    return (one.x + side * one.width / 2 + other.x - side * other.width / 2) / 2, y


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
    width = label_width(lit)
    page = (
        f'<rect class="gaifman-page" x="{x - width / 2:.1f}" y="{y - 8:.1f}" width="{width:.1f}" height="16" rx="4"/>'
    )
    facts = " ".join(map(str, dict.fromkeys(lit)))  # with all objects and confidences, for whoever points at it
    title = safe(shorten(facts, LONG))
    return f'<g class="gaifman-facts"><title>{title}</title>{page}{_small(_coloured(lit, scene), x, y + 4)}</g>'


def _small(words: str, x: float, y: float) -> str:
    """Small words around a point; what is in them is escaped already."""
    return (
        f'<text class="gaifman-quiet" font-size="{SMALL}" text-anchor="middle" x="{x:.1f}" y="{y:.1f}">{words}</text>'
    )


def _coloured(lit: Sequence[Fact], scene: Scene) -> str:
    """The relations of facts that stand out, each in its colour, and bold where they stand out most."""
    kinds = {fact.relation: "for" if scene.lit[fact] > 0 else "against" for fact in reversed(lit)}
    strong = {fact.relation for fact in lit if fact in scene.chief}
    names, more = relations_on(lit)
    words = [
        f'<tspan class="gaifman-{kinds[name]}-text"{BOLD * (name in strong)}>{safe(short(name))}</tspan>'
        for name in names
    ]
    return ", ".join([*words, *([f"+{more}"] if more else [])])


def _name(spot: Spot, scene: Scene) -> str:
    """An object."""
    own = spot.own
    box = f'x="{spot.x - spot.width / 2:.1f}" y="{spot.y - PILL / 2:.1f}" width="{spot.width:.1f}" height="{PILL:.0f}"'
    text = (
        f'<g class="gaifman-name"><title>{safe(spot.name)}</title>'
        f'<rect class="gaifman-{"own" if own else "pill"}" {box} rx="{PILL / 2:.0f}"/>'
        f'<text class="gaifman-{"own-name" if own else "text"}" font-size="{SIZE}" text-anchor="middle" '
        f'x="{spot.x:.1f}" y="{spot.y + 4.5:.1f}">{safe(short(spot.name))}</text></g>'
    )
    if spot.tags:
        words = _coloured(spot.tags, scene)
        text += _small(words, spot.x, spot.y + PILL / 2 + 13)
    return text


def _words(scene: Scene, width: float, height: float, left_out: int) -> list[str]:
    """Title, what is said, and what the lines mean."""
    title = safe(headline(scene))
    lines = [
        f'<text class="gaifman-text" font-size="15" font-weight="bold" x="{MARGIN}" y="30">{title}</text>',
        f'<text class="gaifman-quiet" font-size="{SIZE}" x="{MARGIN}" y="50">{safe(scene.said)}</text>',
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
        x += 32 + width_of(words, SMALL) + 22
    if left_out:
        more = f"and {left_out:,} more object{'s' if left_out > 1 else ''}"
        above = 0 if x + width_of(more, SMALL) < width - MARGIN else 18  # where the legend leaves no room beside it
        at = f'text-anchor="end" x="{width - MARGIN:.0f}" y="{y + 4 - above}"'
        lines.append(f'<text class="gaifman-quiet" font-size="{SMALL}" {at}>{more}</text>')
    return lines

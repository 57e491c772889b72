"""What a picture of a neighbourhood shows, and who stands where in it.

>>> fact = Fact("borders", ("spain", "portugal"))
>>> currency = Fact("uses", ("spain", "euro"))
>>> scene = Scene("q", "", ("portugal", "spain"), ("portugal", "spain", "euro", "angola"), (fact, currency), {fact: 1})
>>> columns_of(scene)
([[], ['portugal'], [], ['spain'], ['euro']], 1)
>>> sorted(ties_of(scene, {"portugal", "spain", "euro"}))
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
from gaifman.facts import Fact

OTHERS = 16
"""Objects besides the tuple's own that are drawn."""
LONGEST, LINE = 26, 36
"""Characters of a name that are drawn, and of all relations on a line."""
HEADLINE = 100
"""Characters of the title that are drawn."""
ROW, SIZE, SMALL = 46.0, 13, 11
MARGIN, TOP, BOTTOM, BENT = 24.0, 74.0, 64.0, 48.0


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


@dataclass(slots=True)
class Spot:
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


def columns_of(scene: Scene) -> tuple[list[list[str]], int]:
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


def ties_of(scene: Scene, shown: set[str]) -> dict[tuple[str, str], list[Fact]]:
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
    return {pair: sorted(facts, key=lambda fact: fact not in scene.chief) for pair, facts in found.items()}


def places_of(
    scene: Scene, columns: Sequence[Sequence[str]], ties: Mapping[tuple[str, str], list[Fact]]
) -> tuple[dict[str, Spot], float, float]:
    """Spots in columns, and how large the picture is. Between a pair there is room for what links it."""
    own = set(scene.objects)
    words = _words_beside(columns, ties, own)
    parted = len(columns) == 5
    needed = [len(column) + (parted and number == 2) for number, column in enumerate(columns)]
    rows = max(*needed, 2 * len(own) - 1 if len(own) > 2 else 1)
    height = TOP + rows * ROW + BOTTOM
    spots: dict[str, Spot] = {}
    x, gap = MARGIN, 0.0
    for number, column in enumerate(columns):
        widest = max([width_of(short(name), SIZE) + 24 for name in column], default=0.0)
        if not column and not (parted and number == 2):
            continue
        x += widest / 2
        outer = -1 if number == 0 else int(number == len(columns) - 1)
        step = 2 * ROW if len(own) > 2 and number == 1 else ROW  # what links them stands between
        for name, y in zip(column, _heights(len(column), rows, step, parted and number == 2), strict=True):
            room, width = widest / 2, width_of(short(name), SIZE) + 24
            spots[name] = Spot(name, x, TOP + y, width, name in own, outer, room, words[number])
        gap = max(words[number : number + 2]) + BENT
        x += widest / 2 + gap
    least = max(width_of(headline(scene), 15), width_of(scene.said, SIZE), 560.0) + 2 * MARGIN
    width = x - gap + MARGIN
    for spot in spots.values():
        spot.x += max(0.0, least - width) / 2
    return spots, max(width, least), height


def _words_beside(
    columns: Sequence[Sequence[str]], ties: Mapping[tuple[str, str], list[Fact]], own: set[str]
) -> list[float]:
    """What is kept free beside each column: a picture is no wider than its longest words need, each in its place."""
    column_of = {name: number for number, column in enumerate(columns) for name in column}
    middle = 2  # the column between a pair, and the one beside any other tuple: there stands what links these
    found = [20.0 if number not in (1, 3) else 0.0 for number in range(len(columns))]
    for names, facts in _together(ties, own):
        for number in {column_of[name] for name in names if name not in own} or {middle}:
            found[number] = max(found[number], label_width(facts) + 24)
    return found


def _together(
    ties: Mapping[tuple[str, str], list[Fact]], own: set[str]
) -> Iterable[tuple[tuple[str, ...], list[Fact]]]:
    """Facts whose relations may stand in one place: those of a line, and of all lines of an object that is not own."""
    found: dict[str, list[Fact]] = {}
    for (one, other), facts in ties.items():
        if len(own) != 2 and len(own & {one, other}) == 1:
            found.setdefault(other if one in own else one, []).extend(facts)
    return [*(((name,), facts) for name, facts in found.items()), *ties.items()]


def _heights(count: int, rows: int, step: float, parted: bool) -> list[float]:
    """Where the names of a column stand; one that is parted leaves the middle free."""
    middle = rows * ROW / 2
    if not parted:
        return [middle + (i - (count - 1) / 2) * step for i in range(count)]
    above = (count + 1) // 2
    return [middle + (i - above) * step if i < above else middle + (i - above + 1) * step for i in range(count)]


def relations_on(facts: Iterable[Fact]) -> tuple[list[str], int]:
    """The relations of facts that have room in a line, one at least, and how many more there are."""
    names = list(dict.fromkeys(fact.relation for fact in facts))
    lengths = accumulate(len(short(name)) + 2 for name in names)
    kept = max(1, sum(length <= LINE for length in lengths))
    return names[:kept], len(names[kept:])


def label_width(facts: Iterable[Fact]) -> float:
    """About how wide the words on a line are, of which some may be bold."""
    names, more = relations_on(facts)
    return 1.08 * width_of(", ".join([*map(short, names), *([f"+{more}"] if more else [])]), SMALL) + 8


def headline(scene: Scene) -> str:
    """The title, as far as there is room for it."""
    return shorten(scene.title, HEADLINE)


def short(name: str) -> str:
    return shorten(name, LONGEST)


def width_of(text: str, size: float) -> float:
    """About how wide a text is drawn: wide characters count twice."""
    cells = sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)
    return 0.6 * size * cells

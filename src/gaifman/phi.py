"""Feature sets Φ: as values, as `.phi` files, and the named ones.

>>> print(named("paper", 2, {"borders": 2, "country": 1}).text())
# paper, for 2 variables
each r. r(s1, s2)
each r. r(s2, s1)
each r. ∃x r(s1, x)
each r. ∃x r(x, s1)
each r. ∃x r(s2, x)
each r. ∃x r(x, s2)
each r. ∃x r(s1, x) ∧ r(x, s2)
each r. ∃x r(s2, x) ∧ r(x, s1)
each r. r(s1)
each r. r(s2)
<BLANKLINE>

A `.phi` file has one feature a line; what follows `#` is a comment. A schema `each r. …` stays one line: its instances
are made for the knowledge base it is used with.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations, count, permutations
from pathlib import Path

from gaifman.config import LIMITS, Limits
from gaifman.errors import FormulaError, InputError, Place, shorten
from gaifman.formulas import Attribute, Variable, free
from gaifman.names import nearest, quote
from gaifman.parser import Words, parse_feature
from gaifman.questions import Difference, Feature, query_position
from gaifman.rewriting import instances

NAMED = ("paper", "universal-schema", "default")
"""Feature sets that have a name."""

_RELATION = re.compile(r"\br\b")
LETTERS = "xyzuvwab"
"""Variables of the named sets: one for each place of a relation."""


@dataclass(frozen=True, slots=True)
class FeatureSet:
    """Features, in order; each is one column of the matrix, or a schema that makes many."""

    features: tuple[Feature, ...]
    name: str = ""

    def __len__(self) -> int:
        return len(self.features)

    def __iter__(self) -> Iterator[Feature]:
        return iter(self.features)

    def text(self) -> str:
        """As a `.phi` file: reading it gives the same features."""
        head = [f"# {self.name}"] if self.name else []
        return "\n".join([*head, *map(str, self.features), ""])

    def expanded(self, relations: Mapping[str, int], width: int) -> tuple[Feature, ...]:
        r"""Every feature once, schemas by their instances, for a query of `width` variables.

        >>> [str(f) for f in parse_phi("each r. r(s1, s2)\nr(s1, s2)").expanded({"r": 2, "q": 2}, 2)]
        ['r(s1, s2)', 'q(s1, s2)']
        """
        found: dict[Feature, None] = {}
        for feature in self.features:
            for variable in free(feature):
                if query_position(variable) > width:
                    raise FormulaError(f"{feature} speaks of {variable}, and the query has {width} variables")
            found |= dict.fromkeys(instances(feature, relations))
        return tuple(found)


def parse_phi(
    text: str,
    vocabulary: Words = None,
    *,
    limits: Limits = LIMITS,
    source: str = "features",
    unknown_objects: bool = False,
) -> FeatureSet:
    """The features of a text, one a line; an error has the line of the text."""
    features = []
    for number, line in enumerate(text.split("\n"), start=1):
        bare = uncommented(line)
        if bare.strip():
            features.append(_parse_line(bare, number, vocabulary, limits, source, unknown_objects))
    return FeatureSet(tuple(features))


def _parse_line(
    line: str, number: int, vocabulary: Words, limits: Limits, source: str, unknown_objects: bool
) -> Feature:
    try:
        return parse_feature(line, vocabulary, limits=limits, unknown_objects=unknown_objects)
    except FormulaError as error:
        column, width = (error.place.column, error.place.width) if error.place else (1, 1)
        error.place = Place(source, number, column, line, width)
        raise


def uncommented(line: str) -> str:
    """The line up to a `#` that stands in no quotes."""
    quoted, escaped = "", False
    for at, character in enumerate(line):
        if quoted:
            quoted = "" if character == quoted and not escaped else quoted
            escaped = character == "\\" and not escaped
        elif character in "'\"":
            quoted = character
        elif character == "#" and (at == 0 or line[at - 1].isspace()):
            return line[:at]
    return line


def read_phi(path: str | Path, vocabulary: Words = None, *, limits: Limits = LIMITS) -> FeatureSet:
    """The features of a `.phi` file; constants need not be objects of the knowledge base."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path} is not UTF-8 text: byte {error.start:,} is 0x{error.object[error.start]:02x}"
        ) from None
    except OSError as error:
        raise InputError(f"{shorten(str(path), 120)} cannot be read: {error.strerror}") from None
    found = parse_phi(text, vocabulary, limits=limits, source=path.name, unknown_objects=True)
    return FeatureSet(found.features, path.stem)


def chosen(
    phi: str | FeatureSet, width: int, relations: Mapping[str, int], attributes: Iterable[str] = (), words: Words = None
) -> FeatureSet:
    """A feature set that was given, a named one, or that of a `.phi` file."""
    if isinstance(phi, FeatureSet):
        return phi
    path = Path(phi)
    if phi in NAMED and not path.exists():
        return named(phi, width, relations, attributes)
    if not path.exists():
        raise InputError(
            f"there is no feature set or file {shorten(phi)}",
            near=nearest(phi, NAMED),
            hint=f"a .phi file, or one of {', '.join(NAMED)}",
        )
    return read_phi(path, words)


def named(name: str, width: int, relations: Mapping[str, int], attributes: Iterable[str] = ()) -> FeatureSet:
    """A named set for a query of `width` variables over relations (name → arity) and attributes."""
    if name not in NAMED:
        raise FormulaError(
            f"there is no feature set {quote(name)}", near=nearest(name, NAMED), hint=f"sets: {', '.join(NAMED)}"
        )
    arities = sorted(set(relations.values()), key=lambda arity: (arity != 2, arity))
    attributes = sorted(attributes)
    lines = dict.fromkeys(line for arity in arities for line in _lines(name, width, arity))
    taken = {*relations, *attributes}
    variable = next(other for i in count() if (other := f"r{i or ''}") not in taken)
    lines = dict.fromkeys(re.sub(r"\br\b", variable, line) for line in lines)
    numbers = _numbers(width, attributes) if name == "default" else ()
    return FeatureSet((*map(parse_feature, lines), *numbers), f"{name}, for {width} variables")


def _lines(name: str, width: int, arity: int) -> Iterator[str]:
    pairs = list(permutations(range(1, width + 1), 2))
    if arity != 2:
        yield from () if name == "universal-schema" else _places(width, arity)
        return
    for i, j in pairs:
        yield f"each r. r(s{i}, s{j})"
    if name == "universal-schema":
        return
    for i in range(1, width + 1):
        yield f"each r. exists x. r(s{i}, x)"
        yield f"each r. exists x. r(x, s{i})"
    for i, j in pairs:
        yield f"each r. exists x. r(s{i}, x) & r(x, s{j})"
    if name == "default":
        yield from _richer(width)


def _richer(width: int) -> Iterator[str]:
    """Beyond the paper: self-loops, degrees, common neighbours, and whether anything links two objects."""
    for i in range(1, width + 1):
        yield f"each r. r(s{i}, s{i})"
        yield f"each r. r(s{i}, x)"
        yield f"each r. r(x, s{i})"
    for i in range(1, width + 1):
        for j in range(i + 1, width + 1):
            yield f"each r. exists x. r(s{i}, x) & r(s{j}, x)"
            yield f"each r. exists x. r(x, s{i}) & r(x, s{j})"
            yield f"exists r. r(s{i}, s{j})"
            yield f"exists r. r(s{j}, s{i})"


def _places(width: int, arity: int) -> Iterator[str]:
    """A relation with other than two places: one or two of them are query variables, the others are quantified."""
    for size in (1, 2):
        for places in permutations(range(arity), size) if size <= arity else ():
            for chosen in combinations(range(1, width + 1), size):
                terms = list(LETTERS[:arity])
                for place, i in zip(places, chosen, strict=True):
                    terms[place] = f"s{i}"
                others = [term for term in terms if not query_position(Variable(term))]
                quantifier = f"exists {', '.join(others)}. " if others else ""
                yield f"each r. {quantifier}r({', '.join(terms)})"


def _numbers(width: int, attributes: list[str]) -> Iterator[Feature]:
    """The numbers of the query variables, and the differences between two."""
    for name in attributes:
        own = [Attribute(name, Variable(f"s{i}")) for i in range(1, width + 1)]
        yield from map(Feature, own)
        yield from (Feature(Difference(one, other)) for one, other in combinations(own, 2))

"""Feature sets Φ: as values, as `.phi` files, and by name.

>>> print(named_feature_set("paper", 2, {"borders": 2, "country": 1}).to_text())
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

A `.phi` file has one feature per line; `#` starts a comment. A schema `each r. …` stays one line; it is instantiated
for the knowledge base that it is used with.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, count, permutations
from pathlib import Path

from gaifman.config import DEFAULT_LIMITS, Limits, checked, checked_methods
from gaifman.errors import FormulaError, InputError, Location, plural, shorten, similar_names
from gaifman.logic.ast import (
    Attribute,
    Difference,
    Feature,
    Variable,
    free_variables,
    instantiate,
    query_position,
    quote,
)
from gaifman.logic.parser import SchemaLike, parse_feature, strip_comment

FEATURE_SET_NAMES = ("paper", "universal-schema", "default")
"""Names of feature sets."""

VARIABLE_NAMES = "xyzuvwab"
"""Variables of the named sets: one for each argument of a relation."""


@checked_methods
@dataclass(frozen=True, slots=True)
class FeatureSet:
    """Features in order. Each is one column of the matrix, or a schema for many."""

    features: tuple[Feature, ...]
    name: str = ""

    def __len__(self) -> int:
        return len(self.features)

    def __iter__(self) -> Iterator[Feature]:
        return iter(self.features)

    def to_text(self) -> str:
        """Return the features as a `.phi` file that `parse_phi` reads."""
        head = [f"# {self.name}"] if self.name else []
        return "\n".join([*head, *map(str, self.features), ""])

    def expand(self, relations: Mapping[str, int], arity: int) -> tuple[Feature, ...]:
        r"""Return every feature once, with schemas instantiated, for a query of `arity` variables.

        >>> [str(f) for f in parse_phi("each r. r(s1, s2)\nr(s1, s2)").expand({"r": 2, "q": 2}, 2)]
        ['r(s1, s2)', 'q(s1, s2)']
        """
        found: dict[Feature, None] = {}
        for feature in self.features:
            for variable in free_variables(feature):
                if query_position(variable) > arity:
                    raise FormulaError(f"{feature} uses {variable}, but the query has {plural(arity, 'variable')}")
            found |= dict.fromkeys(instantiate(feature, relations))
        return tuple(found)


Phi = str | FeatureSet | Sequence[str | FeatureSet]
"""Φ as it is given: a named set, a `.phi` file, a `FeatureSet`, or several of these."""


def phi_parts(phi: Phi) -> tuple[str | FeatureSet, ...]:
    """The parts of Φ."""
    parts = (phi,) if isinstance(phi, str | FeatureSet) else tuple(phi)
    for part in parts:
        if not isinstance(part, str | FeatureSet):
            raise InputError(
                f"phi has a name, a .phi file or a feature set at each place, got {shorten(repr(part))}",
                hint='phi="paper", phi=gaifman.parse_phi("borders(s1, s2)"), or a list of such',
            )
    return parts


def phi_name(phi: Phi) -> str:
    """The name of Φ, for settings and model cards; that of a named set only if it is this set.

    >>> phi_name("paper"), phi_name(["default", parse_phi("r(s1, s2)")]), phi_name(FeatureSet((), "paper"))
    ('paper', 'default + custom', 'custom paper')
    """
    return " + ".join(map(_part_name, phi_parts(phi))) or "default"


def _part_name(part: str | FeatureSet) -> str:
    if isinstance(part, str):
        return part
    return f"custom {part.name}" if part.name in FEATURE_SET_NAMES else part.name or "custom"


@checked
def parse_phi(
    text: str,
    schema: SchemaLike = None,
    *,
    limits: Limits = DEFAULT_LIMITS,
    source: str = "features",
    unknown_objects: bool = False,
) -> FeatureSet:
    """Parse features, one per line. An error has the line of the text."""
    features = []
    for number, line in enumerate(text.split("\n"), start=1):
        code = strip_comment(line)
        if code.strip():
            features.append(_parse_line(code, number, schema, limits, source, unknown_objects))
    return FeatureSet(tuple(features))


def _parse_line(
    line: str, number: int, schema: SchemaLike, limits: Limits, source: str, unknown_objects: bool
) -> Feature:
    try:
        return parse_feature(line, schema, limits=limits, allow_unknown_objects=unknown_objects)
    except FormulaError as error:
        column, width = (error.location.column, error.location.width) if error.location else (1, 1)
        error.location = Location(source, number, column, line, width)
        raise


def read_phi(path: str | Path, schema: SchemaLike = None, *, limits: Limits = DEFAULT_LIMITS) -> FeatureSet:
    """Read a `.phi` file. Constants need not be objects of the knowledge base."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path} is not UTF-8 text: byte {error.start:,} is 0x{error.object[error.start]:02x}"
        ) from None
    except OSError as error:
        raise InputError(f"{shorten(str(path), 120)} cannot be read: {error.strerror}") from None
    found = parse_phi(text, schema, limits=limits, source=path.name, unknown_objects=True)
    return FeatureSet(found.features, path.stem)


def resolve_feature_set(
    phi: Phi,
    arity: int,
    relations: Mapping[str, int],
    attributes: Iterable[str] = (),
    schema: SchemaLike = None,
) -> FeatureSet:
    """Return a feature set as it is, by name, or from a `.phi` file; several are joined."""
    if isinstance(phi, FeatureSet):
        return phi
    if not isinstance(phi, str):
        parts = [resolve_feature_set(part, arity, relations, attributes, schema) for part in phi]
        return FeatureSet(tuple(feature for part in parts for feature in part), phi_name(phi))
    path = Path(phi)
    if phi in FEATURE_SET_NAMES and not path.exists():
        return named_feature_set(phi, arity, relations, attributes)
    if not path.exists():
        raise InputError(
            f"there is no feature set or file {shorten(phi)}",
            suggestions=similar_names(phi, FEATURE_SET_NAMES),
            hint=f"give a .phi file or one of {', '.join(FEATURE_SET_NAMES)}",
        )
    return read_phi(path, schema)


def added_features(
    phi: Phi,
    arities: Iterable[int],
    relations: Mapping[str, int],
    attributes: Iterable[str] = (),
    schema: SchemaLike = None,
) -> tuple[Feature, ...]:
    """Return the formulas that ranked lists add to the mined ones, for queries of some arities; `default` adds none.

    >>> [str(f) for f in added_features(["default", parse_phi("each r. r(s2, s1)")], [2], {"r": 2, "q": 2})]
    ['r(s2, s1)', 'q(s2, s1)']
    """
    found: dict[Feature, None] = {}
    sizes = sorted(set(arities))
    for part in phi_parts(phi):
        named = isinstance(part, str) and part in FEATURE_SET_NAMES and not Path(part).exists()
        for arity in sizes if named and part != "default" else () if named else sizes[-1:]:
            features = resolve_feature_set(part, arity, relations, attributes, schema)
            found |= dict.fromkeys(features.expand(relations, arity))
    return tuple(found)


def named_feature_set(
    name: str, query_arity: int, relations: Mapping[str, int], attributes: Iterable[str] = ()
) -> FeatureSet:
    """Return a named set for a query of `query_arity` variables over relations (name → arity) and attributes."""
    if name not in FEATURE_SET_NAMES:
        raise FormulaError(
            f"there is no feature set {quote(name)}",
            suggestions=similar_names(name, FEATURE_SET_NAMES),
            hint=f"give one of {', '.join(FEATURE_SET_NAMES)}",
        )
    arities = sorted(set(relations.values()), key=lambda arity: (arity != 2, arity))
    attributes = sorted(attributes)
    lines = dict.fromkeys(line for arity in arities for line in _template_lines(name, query_arity, arity))
    taken = {*relations, *attributes}
    variable = next(other for i in count() if (other := f"r{i or ''}") not in taken)
    lines = dict.fromkeys(re.sub(r"\br\b", variable, line) for line in lines)
    numbers = _attribute_features(query_arity, attributes) if name == "default" else ()
    return FeatureSet((*map(parse_feature, lines), *numbers), f"{name}, for {query_arity} variables")


def _template_lines(name: str, query_arity: int, arity: int) -> Iterator[str]:
    pairs = list(permutations(range(1, query_arity + 1), 2))
    if arity != 2:
        yield from () if name == "universal-schema" else _nary_lines(query_arity, arity)
        return
    for i, j in pairs:
        yield f"each r. r(s{i}, s{j})"
    if name == "universal-schema":
        return
    for i in range(1, query_arity + 1):
        yield f"each r. exists x. r(s{i}, x)"
        yield f"each r. exists x. r(x, s{i})"
    for i, j in pairs:
        yield f"each r. exists x. r(s{i}, x) & r(x, s{j})"
    if name == "default":
        yield from _extended_lines(query_arity)


def _extended_lines(arity: int) -> Iterator[str]:
    """Yield what `default` adds: loops, degrees, common neighbours, and whether any relation links two objects."""
    for i in range(1, arity + 1):
        yield f"each r. r(s{i}, s{i})"
        yield f"each r. r(s{i}, x)"
        yield f"each r. r(x, s{i})"
    for i in range(1, arity + 1):
        for j in range(i + 1, arity + 1):
            yield f"each r. exists x. r(s{i}, x) & r(s{j}, x)"
            yield f"each r. exists x. r(x, s{i}) & r(x, s{j})"
            yield f"exists r. r(s{i}, s{j})"
            yield f"exists r. r(s{j}, s{i})"


def _nary_lines(query_arity: int, arity: int) -> Iterator[str]:
    """Yield features of relations that are not binary: one or two arguments are query variables."""
    for size in (1, 2):
        for arguments in permutations(range(arity), size) if size <= arity else ():
            for chosen in combinations(range(1, query_arity + 1), size):
                terms = list(VARIABLE_NAMES[:arity])
                for argument, i in zip(arguments, chosen, strict=True):
                    terms[argument] = f"s{i}"
                others = [term for term in terms if not query_position(Variable(term))]
                quantifier = f"exists {', '.join(others)}. " if others else ""
                yield f"each r. {quantifier}r({', '.join(terms)})"


def _attribute_features(arity: int, attributes: list[str]) -> Iterator[Feature]:
    """Yield the attributes of the query variables and their differences."""
    for name in attributes:
        own = [Attribute(name, Variable(f"s{i}")) for i in range(1, arity + 1)]
        yield from map(Feature, own)
        yield from (Feature(Difference(one, other)) for one, other in combinations(own, 2))

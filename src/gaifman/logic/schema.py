"""The schema of a knowledge base: the names that formulas may use.

>>> from gaifman.logic.ast import Atom, Variable
>>> schema = Schema({"borders": 2}, {"population"}, {"france"})
>>> schema.check(Atom("bordrs", (Variable("x"), Variable("y"))))
Traceback (most recent call last):
gaifman.errors.FormulaError: there is no relation bordrs
did you mean: borders
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol, runtime_checkable

from gaifman.errors import FormulaError, Location, plural, similar_names
from gaifman.logic.ast import Atom, Attribute, Constant, Feature, Node, RelationVariable, Span, Variable, walk
from gaifman.logic.notation import format_relation, quote


@dataclass(frozen=True, slots=True)
class Schema:
    """The relations, attributes and objects that a formula may use."""

    relations: Mapping[str, int]
    """Relation → arity."""
    attributes: Collection[str] = frozenset()
    objects: Collection[str] = frozenset()

    def resolve_attribute(self, feature: Feature) -> Feature:
        """Return the feature with `population(s1)` as an attribute, if the schema has no such unary relation."""
        match feature.body:
            case Atom(str(name), (term,), span=span) if name in self.attributes and name not in self.relations:
                return replace(feature, body=Attribute(name, term, span=span))
        return feature

    def check(
        self,
        node: Node,
        text: str = "",
        *,
        source: str = "formula",
        undeclared: tuple[Variable, ...] = (),
        allow_unknown_objects: bool = False,
    ) -> None:
        """Raise for the first name that does not fit the schema.

        `text` is the text that the formula was parsed from, for locations. `undeclared` are the variables that neither
        a quantifier nor a head declares. `allow_unknown_objects` accepts constants that are not objects. In a text a
        relation variable must not have the name of a relation; the formula of a model may.
        """
        error = partial(formula_error, source, text)
        for part in walk(node):
            match part:
                case Atom(str(name), terms):
                    self._check_relation(name, len(terms), part.span, error)
                case Atom(_, terms) if len(terms) not in self.relations.values():
                    raise error(part.span, f"there is no relation with {plural(len(terms), 'argument')}")
                case Attribute(name):
                    self._check_attribute(name, part.span, error)
                case Constant(name) if name not in self.objects and not allow_unknown_objects:
                    suggestions = similar_names(name, self.objects)
                    raise error(part.span, f"there is no object {quote(name)}", suggestions=suggestions)
                case RelationVariable(name) if text and name in self.relations:
                    raise error(
                        part.span,
                        f"{name} is a relation of the knowledge base and cannot be a variable",
                        hint="rename the variable",
                    )
        for variable in undeclared:
            if variable.name in self.objects and text[slice(*variable.span)] == variable.name:
                raise error(
                    variable.span,
                    f"{variable.name} is a variable here, but also the name of an object",
                    hint=f"write {quote(variable.name)} for the object, ?{variable.name} for the variable",
                )

    def _check_relation(self, name: str, arity: int, span: Span, error: Callable[..., FormulaError]) -> None:
        written = format_relation(name)
        if name in self.relations:
            expected = self.relations[name]
            if expected != arity:
                example = f"{written}({', '.join('xyzuvwab'[:expected])})"
                message = f"{written} has {plural(expected, 'argument')}, not {arity}"
                raise error(span, message, hint=f"write: {example}")
        elif name in self.attributes:
            message = f"{written} is an attribute: a number, not true or false"
            raise error(span, message, hint=f"compare it: {written}(x) > 0")
        else:
            suggestions = similar_names(name, [*self.relations, *self.attributes])
            hint = "" if suggestions else "list the relations with gaifman info KB or GET /api/relations"
            raise error(span, f"there is no relation {written}", suggestions=suggestions, hint=hint)

    def _check_attribute(self, name: str, span: Span, error: Callable[..., FormulaError]) -> None:
        if name not in self.attributes:
            suggestions = similar_names(name, self.attributes)
            hint = "a relation cannot be compared with a number" if name in self.relations else ""
            raise error(span, f"there is no attribute {format_relation(name)}", suggestions=suggestions, hint=hint)


@runtime_checkable
class HasSchema(Protocol):
    """Something with a schema, such as a knowledge base."""

    @property
    def schema(self) -> Schema:
        """The names that formulas may use."""


SchemaLike = Schema | HasSchema | None
"""A schema, a knowledge base, or None to accept all names."""


def as_schema(schema: SchemaLike) -> Schema | None:
    """Return the schema itself, or that of a knowledge base."""
    return schema if schema is None or isinstance(schema, Schema) else schema.schema


def formula_error(
    source: str, text: str, span: Span, message: str, *, hint: str = "", suggestions: tuple[str, ...] = ()
) -> FormulaError:
    """Return an error at a span of a text; without a location if the text or span is empty."""
    start, end = span
    location = Location.from_offset(source, text, start, end - start) if text and end else None
    return FormulaError(message, location=location, hint=hint, suggestions=suggestions)

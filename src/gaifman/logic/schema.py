"""What a formula may speak of: the relations, attributes and objects of a knowledge base.

>>> from gaifman.logic.ast import Atom, Variable
>>> words = Schema({"borders": 2}, {"population"}, {"france"})
>>> words.check(Atom("bordrs", (Variable("x"), Variable("y"))))
Traceback (most recent call last):
gaifman.errors.FormulaError: there is no relation bordrs
did you mean: borders
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from gaifman.errors import FormulaError, Location, similar_names
from gaifman.logic.ast import Atom, Attribute, Constant, Feature, Node, RelationVariable, Span, Variable, walk
from gaifman.logic.names import quote
from gaifman.logic.printer import format_relation


@dataclass(frozen=True, slots=True)
class Schema:
    """Names a formula may use."""

    relations: Mapping[str, int]
    """Relation → number of its places."""
    attributes: Collection[str] = frozenset()
    objects: Collection[str] = frozenset()

    def resolve_attribute(self, feature: Feature) -> Feature:
        """A feature `population(s1)` is an attribute where the vocabulary has it as one, and no unary relation."""
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
        """Raise for the first name that does not fit.

        `undeclared` are the variables that no quantifier and no head names; `unknown_objects` lets constants pass that
        are no objects. A relation variable that is called as a relation is a mistake of whoever wrote the text; a
        formula that was read elsewhere, a model's, means the variable.
        """
        where = _TextSource(source, text)
        for part in walk(node):
            match part:
                case Atom(str(name), terms):
                    self._check_relation(name, len(terms), part.span, where)
                case Atom(_, terms) if len(terms) not in self.relations.values():
                    raise where.error(f"there is no relation with {_places(len(terms))}", part.span)
                case Attribute(name):
                    self._check_attribute(name, part.span, where)
                case Constant(name) if name not in self.objects and not allow_unknown_objects:
                    raise where.error(
                        f"there is no object {quote(name)}", part.span, suggestions=similar_names(name, self.objects)
                    )
                case RelationVariable(name) if text and name in self.relations:
                    raise where.error(
                        f"{name} is a relation of the knowledge base, and a variable here",
                        part.span,
                        hint="give the relation variable another name",
                    )
        for variable in undeclared:
            self._check_variable(variable, where)

    def _check_relation(self, name: str, arity: int, span: Span, text_source: _TextSource) -> None:
        if name in self.relations:
            if self.relations[name] != arity:
                right = self.relations[name]
                raise text_source.error(
                    f"{format_relation(name)} has {_places(right)}, not {arity}",
                    span,
                    hint=f"write: {format_relation(name)}({', '.join('xyzuvwab'[:right])})",
                )
        elif name in self.attributes:
            raise text_source.error(
                f"{format_relation(name)} is an attribute: a number, not true or false",
                span,
                hint=f"compare it: {format_relation(name)}(x) > 0",
            )
        else:
            near = similar_names(name, [*self.relations, *self.attributes])
            hint = "" if near else "gaifman info KB lists those there are, and so does GET /api/relations"
            raise text_source.error(f"there is no relation {format_relation(name)}", span, suggestions=near, hint=hint)

    def _check_attribute(self, name: str, span: Span, text_source: _TextSource) -> None:
        if name in self.attributes:
            return
        hint = "a relation cannot be compared with a number" if name in self.relations else ""
        raise text_source.error(
            f"there is no attribute {format_relation(name)}",
            span,
            suggestions=similar_names(name, self.attributes),
            hint=hint,
        )

    def _check_variable(self, variable: Variable, text_source: _TextSource) -> None:
        """A bare name that is an object's is most likely meant as the object."""
        if variable.name in self.objects and text_source.text[slice(*variable.span)] == variable.name:
            raise text_source.error(
                f"{variable.name} is a variable here, and also an object's name",
                variable.span,
                hint=f"write {quote(variable.name)} for the object, ?{variable.name} for the variable",
            )


@dataclass(frozen=True, slots=True)
class _TextSource:
    source: str
    text: str

    def error(self, message: str, span: Span, *, suggestions: tuple[str, ...] = (), hint: str = "") -> FormulaError:
        start, end = span
        place = Location.from_offset(self.source, self.text, start, end - start) if self.text and end else None
        return FormulaError(message, location=place, suggestions=suggestions, hint=hint)


def _places(count: int) -> str:
    return "1 place" if count == 1 else f"{count} places"

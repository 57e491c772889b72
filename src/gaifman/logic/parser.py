"""Parse formulas, queries and features: tokens, then precedence climbing, then a check of the names.

>>> print(parse("∃z knows(x, z) & knows(z, y)"))
∃z knows(x, z) ∧ knows(z, y)
>>> [token.kind for token in tokenise("exists x. p(x) && q")]
Traceback (most recent call last):
gaifman.errors.FormulaError: formula, line 1, column 16: && is not used here
  exists x. p(x) && q
                 ^^
hint: and is written ∧, & or the word and

The parser is written by hand because `exists r. r(s1, s2)` becomes second order by the later use of `r`,
`population(x)` becomes an attribute by the operator after it, common mistakes get their own messages, and the limits
hold during parsing. An independent grammar in the tests accepts exactly the same texts.

A schema has the names that formulas may use:

>>> schema = Schema({"borders": 2}, {"population"}, {"france"})
>>> schema.check(Atom("bordrs", (Variable("x"), Variable("y"))))
Traceback (most recent call last):
gaifman.errors.FormulaError: there is no relation bordrs
did you mean: borders
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol, TypedDict, TypeVar, cast, runtime_checkable

from gaifman.config import DEFAULT_LIMITS, MAX_ARITY, Limits, checked
from gaifman.errors import FormulaError, LimitError, Location, plural, shorten, similar_names
from gaifman.logic.ast import (
    AGGREGATES,
    KEYWORDS,
    OPERATORS,
    PATH,
    WORD,
    Aggregate,
    And,
    Atom,
    Attribute,
    Comparison,
    Constant,
    Difference,
    Equal,
    Exists,
    Feature,
    FeatureBody,
    Forall,
    Formula,
    Iff,
    Implies,
    Node,
    Not,
    Number,
    Or,
    Quantity,
    Query,
    RelationVariable,
    Span,
    Term,
    Truth,
    Variable,
    fold_subscripts,
    format_relation,
    free_variables,
    map_children,
    query_position,
    quote,
    unquote,
    walk,
)

N = TypeVar("N", bound=Node)


class Aliases(Protocol):
    """Other texts that mean objects and relations."""

    def find(self, text: str) -> tuple[str, ...]:
        """Return the objects that a text can mean."""

    def find_relation(self, name: str) -> str:
        """Return the name of a relation or attribute."""

    def show(self, name: str) -> str:
        """Return how an object is shown."""

    def similar(self, text: str) -> tuple[str, ...]:
        """Return how objects with similar names are shown."""


class LabelProblem(TypedDict):
    """The parts of an error about a label."""

    message: str
    suggestions: tuple[str, ...]
    hint: str


MAX_SUGGESTED = 5
"""Objects of one label that an error lists."""


def ambiguous_label(label: str, objects: Sequence[str], aliases: Aliases) -> LabelProblem:
    """Return the parts of the error that a label belongs to several objects."""
    return {
        "message": f"{quote(label)} is the label of {len(objects):,} objects",
        "suggestions": tuple(aliases.show(name) for name in objects[:MAX_SUGGESTED]),
        "hint": "write the name of the object, or its label and name as listed",
    }


@dataclass(frozen=True, slots=True)
class Schema:
    """The relations, attributes and objects that a formula may use."""

    relations: Mapping[str, int]
    """Relation → arity."""
    attributes: Collection[str] = frozenset()
    objects: Collection[str] = frozenset()
    aliases: Aliases | None = None
    """Other texts for the same names: labels and IRIs. None if there are none."""

    def resolve(self, node: N, text: str = "", *, source: str = "formula") -> N:
        """Return the node with the names of objects and relations for their labels and IRIs.

        Raises if a label belongs to several objects.
        """
        if self.aliases is None:
            return node
        match node:
            case Constant(name) if name not in self.objects:
                found = self.aliases.find(name)
                if len(found) > 1:
                    raise formula_error(source, text, node.span, **ambiguous_label(name, found, self.aliases))
                return cast(N, replace(node, name=found[0])) if found else node
            case Atom(str(name)) if name not in self.relations:
                node = replace(node, relation=self.aliases.find_relation(name))
            case Attribute(name) if name not in self.attributes:
                node = replace(node, name=self.aliases.find_relation(name))
        return map_children(node, lambda part: self.resolve(part, text, source=source))

    def _similar_objects(self, name: str) -> tuple[str, ...]:
        return similar_names(name, self.objects) if self.aliases is None else self.aliases.similar(name)

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
                    suggestions = self._similar_objects(name)
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


SPELLINGS = {
    "∧": ("∧", "&", "and"),
    "∨": ("∨", "|", "or"),
    "¬": ("¬", "~", "!", "not"),
    "→": ("→", "⇒", "->", "=>", "implies"),
    "↔": ("↔", "<->", "⇔", "<=>", "iff"),
    "∃": ("∃", "exists"),
    "∀": ("∀", "forall"),
    "≠": ("≠", "!="),
    "≤": ("≤", "<="),
    "≥": ("≥", ">="),
    "-": ("-", "−"),
}
"""Symbol → its spellings, the canonical one first."""

FOREIGN_SYMBOLS = {
    "&&": "and is written ∧, & or the word and",
    "/\\": "and is written ∧, & or the word and",
    "^": "and is written ∧, & or the word and",
    "||": "or is written ∨, | or the word or",
    "\\/": "or is written ∨, | or the word or",
    ";": "or is written ∨, | or the word or",
    "\\+": "not is written ¬, ~, ! or the word not",
    "==": "equality is written =",
    "<>": "inequality is written ≠ or !=",
    "=<": "at most is written ≤ or <=",
    "<-": "a rule is written head(x) :- body",
    "<--": "a rule is written head(x) :- body",
    "∄": "there is none is written ¬∃",
    "∃!": "there is exactly one is written ∃x (p(x) ∧ ∀y (p(y) → x = y))",
}
"""Symbols of other languages, with a hint what to write instead."""

_CANONICAL = {spelling: kind for kind, spellings in SPELLINGS.items() for spelling in spellings}
_PUNCTUATION_SYMBOLS = ("(", ")", ",", ".", ":", ":-", "=", "<", ">")
_PUNCTUATION = frozenset("(),.:")
_SYMBOLS = sorted({*_CANONICAL, *FOREIGN_SYMBOLS, *_PUNCTUATION_SYMBOLS} - KEYWORDS, key=len, reverse=True)
_TOKEN = re.compile(
    rf"(?P<space>\s+)|(?P<word>{WORD})|(?P<path>{PATH})|(?P<variable>\?\w+)"
    rf"|(?P<quoted>'(?:[^'\\\n]|\\[^\n])*'|\"(?:[^\"\\\n]|\\[^\n])*\")"
    rf"|(?P<symbol><(?=-\d)|{'|'.join(map(re.escape, _SYMBOLS))})|(?P<other>.)",
    re.DOTALL,
)
_SQL = re.compile(r"\s*(select)\b(?!\s*\()", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Token:
    """A token of a formula.

    `kind` is word, path, variable, quoted or end; the kind of a symbol or keyword is its canonical spelling.
    """

    kind: str
    text: str
    start: int

    @property
    def span(self) -> Span:
        """Start and end offset in the text."""
        return (self.start, self.start + len(self.text))

    @property
    def name(self) -> str:
        """The name, without quotes or `?`."""
        if self.kind == "quoted":
            return unquote(self.text)
        return self.text.removeprefix("?") if self.kind == "variable" else self.text

    @property
    def display(self) -> str:
        """The text, shortened for error messages."""
        return shorten(self.text)


def tokenise(text: str, limits: Limits = DEFAULT_LIMITS, source: str = "formula") -> list[Token]:
    """Return all tokens, the last of kind `end`. A text that exceeds the limits is refused."""
    if len(text) > limits.characters:
        raise LimitError(
            f"the {source} has {len(text):,} characters; the limit is {limits.characters:,}",
            location=Location(source, 1, 1, text[:100]),
        )
    tokens: list[Token] = []
    nodes = 0
    for match in _TOKEN.finditer(text):
        if match.lastgroup == "space":
            continue
        token = _token(match, text, source)
        nodes += token.kind not in _PUNCTUATION
        if nodes > limits.nodes:
            raise LimitError(
                f"the {source} has more than {limits.nodes:,} names and symbols, which is the limit",
                location=Location.from_offset(source, text, match.start()),
            )
        tokens.append(token)
    return [*tokens, Token("end", "", len(text.rstrip()))]


def _token(match: re.Match[str], text: str, source: str) -> Token:
    kind, written = str(match.lastgroup), match[0]
    if kind == "other" or written in FOREIGN_SYMBOLS or written == "_":
        raise _unexpected_character(written, Location.from_offset(source, text, match.start(), len(written)))
    if kind == "quoted":
        try:
            unquote(written)
        except ValueError as error:
            raise formula_error(source, text, match.span(), str(error)) from None
    if kind == "symbol" or written in KEYWORDS:
        kind = _CANONICAL.get(written, written)
    return Token(kind, written, match.start())


def _unexpected_character(symbol: str, location: Location) -> FormulaError:
    if symbol in FOREIGN_SYMBOLS:
        return FormulaError(f"{symbol} is not used here", location=location, hint=FOREIGN_SYMBOLS[symbol])
    if symbol == "_":
        return FormulaError("_ is not a variable", location=location, hint="give each variable its own name")
    if symbol in "'\"":
        return FormulaError(f"the quote {symbol} is not closed", location=location, hint=f"close it with {symbol}")
    if symbol == "?":
        return FormulaError("a variable name is missing after ?", location=location, hint="write ?x")
    name = unicodedata.name(symbol, f"U+{ord(symbol):04X}").lower()
    return FormulaError(
        f"unexpected character {shorten(symbol)} ({name})",
        location=location,
        hint="names with other characters than letters, digits and _ are quoted: 'like this'",
    )


@dataclass(slots=True)
class TokenStream:
    """The tokens of a text, read from left to right."""

    text: str
    limits: Limits
    source: str
    tokens: list[Token] = field(init=False)
    position: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):
            raise FormulaError(f"a {self.source} is text, not {type(self.text).__name__}")
        if sql := _SQL.match(self.text[:100]):
            hint = "write for example: capital(x, y) & borders(x, 'france')"
            raise formula_error(self.source, self.text[:100], sql.span(1), "this looks like SQL", hint=hint)
        self.tokens = tokenise(self.text, self.limits, self.source)
        if self.token.kind == "end":
            raise FormulaError(f"the {self.source} is empty", hint="write for example: capital(x, y)")

    @property
    def token(self) -> Token:
        return self.tokens[self.position]

    @property
    def next_token(self) -> Token:
        return self.tokens[min(self.position + 1, len(self.tokens) - 1)]

    def advance(self) -> Token:
        token = self.token
        self.position += token.kind != "end"
        return token

    def accept(self, *kinds: str) -> Token | None:
        return self.advance() if self.token.kind in kinds else None

    def expect(self, *kinds: str, description: str = "") -> Token:
        """Consume a token of one of these kinds; an error names the kinds, or the `description`."""
        if self.token.kind not in kinds:
            raise self.unexpected(*([description] if description else kinds))
        return self.advance()

    def error(
        self, message: str, token: Token | Span, hint: str = "", suggestions: tuple[str, ...] = ()
    ) -> FormulaError:
        """Return an error at a token or span."""
        span = token.span if isinstance(token, Token) else token
        return formula_error(self.source, self.text, span, message, hint=hint, suggestions=suggestions)

    def unexpected(self, *expected: str) -> FormulaError:
        ended = self.token.kind == "end"
        message = f"the {self.source} ends too early" if ended else f"unexpected {self.token.display}"
        error = self.error(message, self.token, hint=self.hint())
        error.expected = expected
        return error

    def hint(self) -> str:
        """Return what was probably meant at an unexpected token."""
        token = self.token
        lower = token.text.lower()
        if token.kind == "word" and lower in KEYWORDS:
            return f"keywords are lower case: {lower}"
        if token.kind in KEYWORDS and token.text == token.kind:
            return f"{token.text} is a keyword; quote it to use it as a name: '{token.text}'"
        if token.kind == ",":
            return "a comma means ∧ only in a rule, after head(x) :-; write & here"
        if token.kind == ":-":
            return "a rule has one head, at its start: head(x, y) :- body"
        return ""


def strip_comment(line: str) -> str:
    """Return the line up to the first `#` outside quotes."""
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


NAME_KINDS = ("word", "path", "quoted")
PRECEDENCE = {"↔": 1, "→": 2, "∨": 3, "∧": 4}


@checked
def parse(text: str, schema: SchemaLike = None, *, limits: Limits = DEFAULT_LIMITS, source: str = "formula") -> Formula:
    """Parse a formula; with a schema, all its names must be known."""
    parser = Parser(text, limits, source)
    formula = parser.formula()
    parser.finish()
    if known := as_schema(schema):
        formula = known.resolve(formula, text, source=source)
        known.check(formula, text, source=source, undeclared=free_variables(formula))
    return formula


@checked
def parse_query(
    text: str, schema: SchemaLike = None, *, limits: Limits = DEFAULT_LIMITS, source: str = "query"
) -> Query:
    """Parse a query, with or without a head."""
    parser = Parser(text, limits, source)
    query = parser.query()
    if known := as_schema(schema):
        query = known.resolve(query, text, source=source)
        known.check(query, text, source=source, undeclared=parser.undeclared)
    return query


@checked
def parse_feature(
    text: str,
    schema: SchemaLike = None,
    *,
    limits: Limits = DEFAULT_LIMITS,
    source: str = "feature",
    allow_unknown_objects: bool = False,
) -> Feature:
    """Parse a feature; `allow_unknown_objects` accepts constants that are not objects of the schema."""
    parser = Parser(text, limits, source)
    feature = parser.feature()
    if known := as_schema(schema):
        feature = known.resolve_attribute(known.resolve(feature, text, source=source))
        undeclared = tuple(variable for variable in free_variables(feature) if not query_position(variable))
        known.check(feature, text, source=source, undeclared=undeclared, allow_unknown_objects=allow_unknown_objects)
    parser.check_attribute_terms(feature.body)
    return feature


@dataclass(slots=True)
class BoundVariable:
    """A variable that a quantifier binds; its first use decides whether it is for objects or relations."""

    span: Span
    arity: int | None = None
    """None: not used yet; 0: an object; else the arity of a relation."""


@dataclass(slots=True)
class Parser(TokenStream):
    """Parses a formula, query or feature from a stream of tokens."""

    depth: int = 0
    variables: set[str] = field(default_factory=set)
    scopes: list[dict[str, BoundVariable]] = field(default_factory=list)
    in_rule: bool = False
    """In the body of a rule a comma is ∧."""
    in_feature: bool = False
    """In a feature s1, s2 … stand for the query's tuple."""
    undeclared: tuple[Variable, ...] = ()
    """Variables of a query that its head does not declare."""

    @contextmanager
    def nested(self) -> Iterator[None]:
        self.depth += 1
        if self.depth > self.limits.depth:
            location = Location.from_offset(self.source, self.text, self.token.start)
            message = f"the {self.source} is nested deeper than {self.limits.depth}, which is the limit"
            raise LimitError(message, location=location)
        yield
        self.depth -= 1

    # Formulas, by precedence climbing: ↔ and → group to the right, ∨ and ∧ take any number of parts

    def formula(self, min_precedence: int = 1) -> Formula:
        with self.nested():
            left = self.unary()
            while (symbol := self.connective()) and PRECEDENCE[symbol] >= min_precedence:
                left = self.connected(left, symbol)
        return left

    def connective(self) -> str:
        if self.token.kind == "," and self.in_rule:
            return "∧"
        return self.token.kind if self.token.kind in PRECEDENCE else ""

    def connected(self, left: Formula, symbol: str) -> Formula:
        self.advance()
        if symbol == "↔":
            return Iff(left, self.formula(1))
        if symbol == "→":
            return Implies(left, self.formula(2))
        parts = [left, self.formula(PRECEDENCE[symbol] + 1)]
        while self.connective() == symbol:
            self.advance()
            parts.append(self.formula(PRECEDENCE[symbol] + 1))
        return And(tuple(parts)) if symbol == "∧" else Or(tuple(parts))

    def unary(self) -> Formula:
        if self.accept("¬"):
            with self.nested():
                return Not(self.unary())
        if self.token.kind in ("∃", "∀"):
            return self.quantified()
        if self.accept("("):
            inside = self.formula()
            self.expect(")", *PRECEDENCE)
            return inside
        if truth := self.accept("true", "false"):
            return Truth(truth.kind == "true")
        return self.atomic()

    def quantified(self) -> Formula:
        make = Exists if self.advance().kind == "∃" else Forall
        scope = self.bind()
        self.scopes.append(scope)
        body = self.formula()
        self.scopes.pop()
        return make(tuple(_make_variable(name, bound) for name, bound in scope.items()), body)

    def bind(self) -> dict[str, BoundVariable]:
        """Parse the variables after a quantifier or `each`, and the dot if there is one."""
        scope: dict[str, BoundVariable] = {}
        while True:
            token = self.expect("word", "variable", description="a variable")
            name = self.variable_name(token)
            if name in scope:
                raise self.error(f"the quantifier binds {name} twice", token)
            if self.in_feature and query_position(Variable(name)):
                raise self.error(f"{name} belongs to the query and cannot be bound", token, hint="rename the variable")
            scope[name] = BoundVariable(token.span)
            if not self.accept(","):
                break
        if self.token.kind == "word" and self.next_token.kind in (".", ":", ",", "word"):
            raise self.error("a comma is missing between two variables", self.token, hint="write: exists x, y. …")
        self.accept(".", ":")
        return scope

    # Atoms, equalities, comparisons

    def atomic(self) -> Formula:
        first = self.token
        written = self.operand()
        if isinstance(written, Atom) and self.token.kind not in OPERATORS:
            return self.relation_atom(written, first)
        left = self.attribute(written, first) if isinstance(written, Atom) else written
        operator = self.comparison_operator(first)
        second = self.token
        written = self.operand()
        right = self.attribute(written, second) if isinstance(written, Atom) else written
        if isinstance(left, Variable | Constant) and isinstance(right, Variable | Constant) and operator in ("=", "≠"):
            return Equal(left, right) if operator == "=" else Not(Equal(left, right))
        return Comparison(self.quantity(left, first), operator, self.quantity(right, second))

    def operand(self) -> Atom | Term | Number:
        """Parse a term, a number, or a name with arguments: a relation or, before an operator, an attribute."""
        if self.token.kind in NAME_KINDS and self.next_token.kind == "(":
            token = self.advance()
            terms = self.terms()
            return Atom(token.name, terms, span=token.span)
        if minus := self.accept("-"):
            return self.number(self.expect("path", description="a number"), minus)
        return self.term("a relation", "a term", "(", "¬", "∃", "∀")

    def terms(self) -> tuple[Term, ...]:
        self.expect("(")
        terms = [self.term("a variable", "an object")]
        while self.expect(",", ")").kind == ",":
            terms.append(self.term("a variable", "an object"))
        if len(terms) > MAX_ARITY:
            message = f"a relation has at most {MAX_ARITY} arguments, not {len(terms)}"
            raise self.error(message, self.tokens[self.position - 1])
        return tuple(terms)

    def term(self, *expected: str) -> Term:
        token = self.token
        if token.kind not in ("word", "variable", "quoted", "path"):
            raise self.unexpected(*expected)
        self.advance()
        if token.kind in ("quoted", "path"):
            return Constant(token.name, span=token.span)
        name = self.variable_name(token)
        if bound := self.find_bound(name):
            if bound.arity:
                raise self.error(f"{name} is a relation variable and cannot be an object here", token)
            bound.arity = 0
        return Variable(name, span=token.span)

    def variable_name(self, token: Token) -> str:
        """Return the name of a variable, with s₁ as s1."""
        name = fold_subscripts(token.name)
        self.variables.add(name)
        if len(self.variables) > self.limits.variables:
            location = Location.from_offset(self.source, self.text, token.start, len(token.text))
            raise LimitError(f"the {self.source} has more than {self.limits.variables} variables", location=location)
        return name

    def find_bound(self, name: str) -> BoundVariable | None:
        return next((scope[name] for scope in reversed(self.scopes) if name in scope), None)

    def relation_atom(self, atom: Atom, token: Token) -> Atom:
        """Return the atom, with a relation variable if a quantifier binds the name."""
        name = atom.relation_name
        bound = self.find_bound(fold_subscripts(name)) if token.kind == "word" else None
        if bound is None:
            return atom
        if bound.arity == 0:
            raise self.error(f"{name} is an object variable and cannot be a relation here", token)
        if bound.arity not in (None, len(atom.terms)):
            raise self.error(f"{name} has {plural(bound.arity, 'argument')} above, not {len(atom.terms)}", token)
        bound.arity = len(atom.terms)
        variable = RelationVariable(fold_subscripts(name), span=token.span)
        return Atom(variable, atom.terms, span=token.span)

    def comparison_operator(self, first: Token) -> str:
        if self.token.kind in OPERATORS:
            return self.advance().kind
        if first.kind == "word" and first.text.lower() in KEYWORDS:
            raise self.error(
                f"unexpected {first.display}", first, hint=f"keywords are lower case: {first.text.lower()}"
            )
        raise self.error(
            f"{first.display} alone is not a formula",
            first,
            hint="write a relation with its arguments, borders(x, y), or a comparison, x = y",
        )

    def attribute(self, atom: Atom, token: Token) -> Attribute:
        if len(atom.terms) != 1:
            message = f"{token.display} is an attribute here and takes one argument, not {len(atom.terms)}"
            raise self.error(message, token)
        return Attribute(token.name, atom.terms[0], span=token.span)

    def quantity(self, side: Quantity | Term, token: Token) -> Quantity:
        if isinstance(side, Number | Attribute):
            return side
        if token.kind == "path":
            return self.number(token)
        hint = "compare attributes and numbers: population(x) > 1000000"
        raise self.error(f"{token.display} is not a number", token, hint=hint)

    def number(self, token: Token, minus: Token | None = None) -> Number:
        try:
            value = float(token.text)
        except ValueError:
            value = float("inf")
        if value == float("inf"):
            raise self.error(f"{token.display} is not a number", token)
        return Number(-value if minus else value, span=(minus or token).span)

    # Queries and features

    def finish(self) -> None:
        self.accept(".")
        if self.token.kind != "end":
            raise self.unexpected(*PRECEDENCE, "the end")

    def query(self) -> Query:
        head, variables = self.head() if any(t.kind == ":-" for t in self.tokens) else ("", ())
        body = self.formula()
        self.finish()
        if not head:
            self.undeclared = free_variables(body)
            return Query(free_variables(body), body)
        inside = free_variables(body)
        for variable in variables:
            if variable not in inside:
                suggestions = similar_names(variable.name, [v.name for v in inside])
                message = f"the variable {variable} of the head is not in the body"
                raise self.error(message, variable.span, suggestions=suggestions)
        self.undeclared = others = tuple(v for v in inside if v not in variables)
        return Query(variables, Exists(others, body) if others else body, head)

    def head(self) -> tuple[str, tuple[Variable, ...]]:
        name = self.expect(*NAME_KINDS, description="a relation")
        terms = self.terms()
        self.expect(":-")
        variables: list[Variable] = []
        for term in terms:
            if not isinstance(term, Variable):
                raise self.error("a head has only variables", term.span, hint="put objects in the body: x = 'ada'")
            if term in variables:
                raise self.error(f"the variable {term} occurs twice in the head", term.span)
            variables.append(term)
        self.in_rule = True
        return name.name, tuple(variables)

    def feature(self) -> Feature:
        self.in_feature = True
        each: dict[str, BoundVariable] = {}
        if self.accept("each"):
            each = self.bind()
            self.scopes.append(each)
        body: Formula | Aggregate | Attribute | Difference = self.aggregate_or_formula()
        if isinstance(body, Aggregate | Attribute) and self.accept("-"):
            body = Difference(body, self.subtrahend())
        self.finish()
        for name, bound in each.items():
            if not bound.arity:
                message = f"{name} is not used as a relation in this feature"
                raise self.error(message, bound.span, hint=f"write for example {name}(s1, x)")
        return Feature(body, tuple(RelationVariable(name, span=b.span) for name, b in each.items()))

    def aggregate_or_formula(self) -> Formula | Aggregate | Attribute:
        if self.token.kind in AGGREGATES:
            return self.aggregate()
        if self.at_attribute("-"):
            return self.attribute_term()
        return self.formula()

    def subtrahend(self) -> Aggregate | Attribute:
        return self.aggregate() if self.token.kind in AGGREGATES else self.attribute_term()

    def aggregate(self) -> Aggregate:
        kind = self.advance()
        quantity = None
        if self.at_attribute("for"):
            quantity = self.attribute_term()
            self.advance()
        elif kind.kind != "count":
            hint = f"write: {kind.kind} population(x) for borders(s1, x)"
            raise self.error(f"{kind.kind} needs an attribute", kind, hint=hint)
        return Aggregate(kind.kind, quantity, self.formula())

    def at_attribute(self, after: str) -> bool:
        """Return whether a name with arguments comes next, followed by `after`."""
        if self.token.kind not in NAME_KINDS or self.next_token.kind != "(":
            return False
        closing = next(
            (i for i in range(self.position, len(self.tokens)) if self.tokens[i].kind in (")", "end")), self.position
        )
        return self.tokens[min(closing + 1, len(self.tokens) - 1)].kind == after

    def check_attribute_terms(self, body: FeatureBody) -> None:
        """Refuse an attribute outside an aggregate whose argument is a variable other than s1, s2 …."""
        for side in (body.left, body.right) if isinstance(body, Difference) else (body,):
            if isinstance(side, Attribute) and isinstance(side.term, Variable) and not query_position(side.term):
                hint = (
                    f"write {side.name}(s1), or an aggregate: sum {side.name}({side.term}) for borders(s1, {side.term})"
                )
                raise self.error(f"{side.term} is not bound here", side.term.span, hint=hint)

    def attribute_term(self) -> Attribute:
        if self.token.kind not in NAME_KINDS or self.next_token.kind != "(":
            raise self.unexpected("an attribute", *AGGREGATES)
        token = self.advance()
        return self.attribute(Atom(token.name, self.terms()), token)


def _make_variable(name: str, bound: BoundVariable) -> Variable | RelationVariable:
    return RelationVariable(name, span=bound.span) if bound.arity else Variable(name, span=bound.span)

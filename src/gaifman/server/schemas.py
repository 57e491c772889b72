"""What goes over the wire: the bodies of requests, of answers and of errors.

>>> found = error_body(GaifmanError("there is no object 'frnce'", suggestions=("france",)))
>>> found["error"]["message"], found["error"]["suggestions"]
("there is no object 'frnce'", ['france'])
"""

from __future__ import annotations

import json
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from gaifman.errors import GaifmanError, escape_unprintable

JsonCount = Annotated[int, Field(ge=0, le=2**53)]
"""A number that every reader of JSON keeps."""
JsonPositive = Annotated[int, Field(ge=1, le=2**53)]
NonEmptyStr = Annotated[str, Field(min_length=1)]
PositiveFraction = Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)]


def encode_json(body: object) -> bytes:
    """JSON; half of a surrogate pair, which UTF-8 cannot hold, is written as an escape."""
    return json.dumps(body, ensure_ascii=False, allow_nan=False).encode(errors="backslashreplace")


def error_body(error: GaifmanError) -> dict[str, Any]:
    """The body of every error."""
    place = error.location
    return http_error_body(
        error.message,
        kind=type(error).__name__,
        location=str(place) if place else None,
        line=place.line if place else None,
        column=place.column if place else None,
        caret=place.excerpt() if place else None,
        expected=list(error.expected),
        suggestions=list(error.suggestions),
        hint=error.hint or None,
    )


def http_error_body(message: str, **fields: Any) -> dict[str, Any]:
    """The same of other troubles, by their fields."""
    empty = {
        "kind": "HTTPError",
        "message": escape_unprintable(message),
        "location": None,
        "line": None,
        "column": None,
    }
    return {"error": {**empty, "caret": None, "expected": [], "suggestions": [], "hint": None, **fields}}


# What is sent to the server


class RequestModel(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class QueryRequest(RequestModel):
    """A query over the whole knowledge base."""

    query: str = Field(description="A first-order formula, as in docs/formulas.md.", examples=["borders('france', y)"])
    bindings: dict[str, str] = Field(default={}, description="Variable → name of the object that it stands for.")
    skip: JsonCount = Field(default=0, description="Answers before the first.")
    rows: JsonPositive = Field(default=100, description="Answers at most.")
    count: bool = Field(default=False, description="Also how many answers there are in all.")
    why: bool = Field(default=False, description="Also the facts behind each answer, up to three ways.")


class AnswersRequest(RequestModel):
    """A question to the model."""

    query: str | None = Field(
        default=None,
        description="One relation with objects and variables for a completion; for the model of a query that query, "
        "or nothing.",
        examples=["capital('france', y)"],
    )
    bindings: dict[str, str] = Field(default={}, description="Variable → name of the object that it stands for.")
    top: JsonPositive = Field(default=10, description="Answers at most.")
    known: str = Field(default="mark", description="Known answers: mark, exclude or only.")
    restrict_to: dict[str, str | list[str]] = Field(
        default={}, description="Variable → type, or names, it is limited to."
    )
    candidates: str = Field(default="auto", description="Where candidates for several variables come from.")
    draws: JsonPositive | None = Field(
        default=None, description="Neighbourhoods to average over; the model's own number."
    )
    prior: PositiveFraction | None = Field(
        default=None, description="How likely an answer is before anything is known."
    )


class NewFact(RequestModel):
    """A fact to add."""

    relation: NonEmptyStr
    objects: list[NonEmptyStr] = Field(min_length=1)
    confidence: PositiveFraction = 1.0


class AddFactsRequest(RequestModel):
    """Facts to add, all or none."""

    facts: list[NewFact] = Field(min_length=1)
    new_objects: bool = Field(default=False, description="Whether objects may be new; else an unknown one is refused.")


# What the server says


class ErrorDetail(BaseModel):
    """What is wrong, where, and what to write instead."""

    kind: str
    message: str
    location: str | None
    line: int | None
    column: int | None
    caret: str | None = Field(description="The line that is wrong, with carets below.")
    expected: list[str]
    suggestions: list[str] = Field(description="Names that may have been meant.")
    hint: str | None


class ErrorResponse(BaseModel):
    """The body of every error."""

    error: ErrorDetail


class HealthResponse(BaseModel):
    """Whether the server lives."""

    status: str
    version: str
    uptime_seconds: float = Field(description="Since the start.")


class ModelSummary(BaseModel):
    """What the model answers."""

    kind: str
    query: str | None
    variables: list[str]
    relations: int | None


class AboutResponse(BaseModel):
    """What is served."""

    objects: int
    facts: int
    relations: int
    attributes: int
    fingerprint: str
    notes: list[str]
    model: ModelSummary | None
    editable: bool = Field(description="Whether facts can be added.")
    python: list[str] = Field(description="How a program reads what is served: lines of Python, for people to copy.")
    limits: dict[str, float]


class ObjectSummary(BaseModel):
    """An object that was found."""

    name: str
    degree: int


class ObjectsResponse(BaseModel):
    """Objects by a part of their name."""

    objects: list[ObjectSummary]
    suggestions: list[str] = Field(description="Where none was found: names that may have been meant.")
    skipped: int
    truncated: bool


class ObjectResponse(BaseModel):
    """One object."""

    name: str
    types: list[str]
    values: dict[str, float]
    facts: int
    relations: dict[str, int] = Field(description="Relation → how many of these facts are of it.")
    degree: int


class RelationSummary(BaseModel):
    """A relation."""

    name: str
    arity: int
    facts: int
    trained: bool | None = Field(description="Whether a completion has a trained model; null without a completion.")
    query: str = Field(description="A query for all its facts.")


class RelationsResponse(BaseModel):
    """Relations by a part of their name."""

    relations: list[RelationSummary]
    skipped: int
    truncated: bool


class FactRow(BaseModel):
    """A fact."""

    relation: str
    objects: list[str]
    confidence: float


class FactsResponse(BaseModel):
    """Facts in their order."""

    facts: list[FactRow]
    count: int
    skipped: int
    truncated: bool


class QueryResponse(BaseModel):
    """Exact answers."""

    query: str
    bracketed: str = Field(description="The query with every bracket: how it was read.")
    variables: list[str]
    bindings: dict[str, str]
    unrestricted: list[str] = Field(description="Variables that range over the whole domain.")
    combinations: int
    note: str
    answers: list[list[str]]
    count: int | None
    witnesses: list[list[list[str]]] | None
    skipped: int
    truncated: bool


class AnswerRow(BaseModel):
    """An answer with its probability."""

    names: list[str]
    probability: float
    standard_error: float | None = Field(description="The standard error; null for a single draw.")
    draws: int
    known: bool


class CandidateSummaryFields(BaseModel):
    """What was looked at."""

    count: int
    description: str
    draws: int
    shortlisted: int
    first_pass_draws: int


class AnswersResponse(BaseModel):
    """Ranked answers, the most probable first."""

    query: str
    variables: list[str]
    answers: list[AnswerRow]
    considered: CandidateSummaryFields
    truncated: bool


class Member(BaseModel):
    """A member of a neighbourhood."""

    name: str
    distance: int


class NeighbourhoodRow(BaseModel):
    """One drawn neighbourhood."""

    members: list[Member]
    facts: list[FactRow]
    not_drawn: dict[str, int]
    truncated: bool


class NeighbourhoodsResponse(BaseModel):
    """Drawn neighbourhoods of some objects."""

    objects: list[str]
    radius: int
    size: int
    seed: int
    draws: list[NeighbourhoodRow]


class DegreesResponse(BaseModel):
    """The Gaifman graph in numbers."""

    objects: int
    edges: int
    isolated: int
    mean_degree: float
    median_degree: int
    largest_degree: int
    most_connected: str | None
    degrees: list[list[int]] = Field(description="Degree, and how many objects have it.")


class ModelCardResponse(BaseModel):
    """What the model is."""

    meta: dict[str, Any]
    card: str = Field(description="The same for people, as Markdown.")


class AddFactsResponse(BaseModel):
    """What became of facts to add."""

    added: int
    already_known: int
    total_facts: int


class ReplyModel(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class ParseRequest(ReplyModel):
    """A text that is being typed."""

    query: str = Field(description="A query, or the beginning of one.", examples=["borders('france', y)"])
    bindings: dict[str, str] = Field(default={}, description="Variable → name of the object that it stands for.")


class ExplanationRequest(ReplyModel):
    """An answer of the model that is to be explained."""

    query: str | None = Field(
        default=None,
        description="As it was asked for answers; nothing for the model's own query.",
        examples=["capital('france', y)"],
    )
    bindings: dict[str, str] = Field(default={}, description="Variable → name of the object that it stands for.")
    answer: list[str] = Field(default=[], description="Names for the other variables, in their order.")
    top: JsonPositive = Field(default=10, description="Formulas for it at most, and so many against it.")
    draws: JsonPositive | None = Field(
        default=None, description="Neighbourhoods to average over; the model's own number."
    )
    prior: PositiveFraction | None = Field(
        default=None, description="How likely an answer is before anything is known."
    )


class ParseResponse(BaseModel):
    """How a text is read, or what is wrong with it."""

    bracketed: str | None = Field(description="The query with every bracket; null where something is wrong.")
    variables: list[str]
    rankable: bool = Field(description="Whether the model can be asked it.")
    not_rankable_reason: str | None = Field(description="Why it cannot.")
    restrict_to: dict[str, str] = Field(description="Variable → type that suits it, for the model.")
    error: ErrorDetail | None = Field(description="What is wrong, with line, column and caret.")


class ReasonRow(BaseModel):
    """A formula that spoke for an answer, or against it."""

    formula: str
    description: str = Field(description="The formula in words; brackets are lost.")
    feature: str
    effect: float = Field(description="In log-odds.")
    draws: int = Field(description="Draws in which it said something.")
    value: float
    facts: list[FactRow] = Field(description="Its witnesses.")


class OtherReasons(BaseModel):
    """Formulas that are not listed."""

    count: int
    effect: float


class LogOddsParts(BaseModel):
    """What adds up with the effects of formulas to the log-odds."""

    base: float
    interactions: float
    averaging: float
    calibration: float
    others: OtherReasons


class CounterfactualRow(BaseModel):
    """What would be said without some facts."""

    facts: list[FactRow]
    probability: float
    standard_error: float | None
    draws: int


class SceneFact(FactRow):
    """A fact of a picture."""

    direction: int = Field(description="1 for the answer, −1 against it, 0 neither.")
    decisive: bool = Field(description="Whether the answer hangs on it.")


class SceneRow(BaseModel):
    """One of the drawn neighbourhoods."""

    objects: list[str]
    members: list[str]
    facts: list[SceneFact]


class ExplanationResponse(BaseModel):
    """Why an answer is as probable as the model says."""

    query: str
    variables: dict[str, str]
    known: bool
    hidden: bool
    probability: float
    standard_error: float | None
    draws: int
    log_odds: float
    reasons: list[ReasonRow]
    parts: LogOddsParts
    counterfactual: CounterfactualRow | None
    diagram: SceneRow | None
    picture: str = Field(description="The scene as SVG without a style; its classes are those of docs/pictures.md.")


class ExampleQuery(BaseModel):
    """A query worth asking."""

    query: str
    description: str
    rankable: bool = Field(description="Whether it is for the model.")
    restrict_to: dict[str, str] = Field(description="Variable → type that suits it, for the model.")
    relation: str | None = Field(description="Of a question about one object: the relation that is asked for.")
    objects: list[str | None] = Field(description="Of such a question: its objects, null where a variable stands.")


class ExamplesResponse(BaseModel):
    """Queries worth asking."""

    examples: list[ExampleQuery]

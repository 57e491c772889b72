"""Requests and responses of the HTTP interface.

Each request has one model here: FastAPI reads it, the service takes it. Each response has one model: the service
builds it, FastAPI returns it. A field of the wrong type, a missing one and an unknown one are errors.

>>> FactRow(relation="borders", objects=["france", 1], confidence=1.0)
Traceback (most recent call last):
...
pydantic_core._pydantic_core.ValidationError: 1 validation error for FactRow
objects.1
  Input should be a valid string [type=string_type, input_value=1, input_type=int]
...
"""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer

from gaifman.errors import GaifmanError, escape_unprintable
from gaifman.explain.explanation import DEFAULT_TOP
from gaifman.kb.knowledge_base import Fact

JsonCount = Annotated[int, Field(ge=0, le=2**53)]
"""An integer that every reader of JSON represents exactly."""
JsonPositive = Annotated[int, Field(ge=1, le=2**53)]
NonEmptyStr = Annotated[str, Field(min_length=1)]
PositiveFraction = Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)]
Bindings = dict[str, str]


# Requests


class ParameterModel(BaseModel):
    """Parameters of a query string: text that is converted."""

    model_config = ConfigDict(extra="forbid")


class BodyModel(BaseModel):
    """A JSON body: types must match."""

    model_config = ConfigDict(extra="forbid", strict=True)


class ObjectsRequest(ParameterModel):
    """A search for objects."""

    text: str = Field(default="", description="Part of the name, in upper or lower case.")
    skip: JsonCount = Field(default=0, description="Rows to skip.")
    rows: JsonPositive = Field(default=20, description="Maximum number of rows.")


class RelationsRequest(ObjectsRequest):
    """A search for relations."""

    rows: JsonPositive = Field(default=100, description="Maximum number of rows.")


class FactsRequest(ParameterModel):
    """A page of facts."""

    relation: str | None = Field(default=None, description="Only facts of this relation.")
    object_name: str | None = Field(default=None, alias="object", description="Only facts with this object.")
    skip: JsonCount = Field(default=0, description="Rows to skip.")
    rows: JsonPositive = Field(default=100, description="Maximum number of rows.")


class NeighbourhoodRequest(ParameterModel):
    """Neighbourhoods to draw around a tuple of objects."""

    objects: list[str] = Field(alias="object", min_length=1, max_length=8, description="One for each object.")
    radius: JsonCount = Field(default=1, description="Maximum distance of members from the tuple.")
    size: JsonPositive = Field(default=20, description="Maximum number of members besides the tuple's own objects.")
    draws: JsonPositive = Field(default=1, description="Number of neighbourhoods.")
    seed: JsonCount = Field(default=0, description="Random seed.")


class QueryRequest(BodyModel):
    """An exact query."""

    query: str = Field(description="A first-order formula.", examples=["borders('france', y)"])
    bindings: Bindings = Field(default={}, description="Variable → name of an object.")
    skip: JsonCount = Field(default=0, description="Answers to skip.")
    rows: JsonPositive = Field(default=100, description="Maximum number of answers.")
    count: bool = Field(default=False, description="Also count all answers.")
    why: bool = Field(default=False, description="Also return up to three sets of supporting facts for each answer.")


class ParseRequest(BodyModel):
    """A query to parse."""

    query: str = Field(description="A query, or the start of one.", examples=["borders('france', y)"])
    bindings: Bindings = Field(default={}, description="Variable → name of an object.")


class AnswersParameters(ParameterModel):
    """A query to rank answers for."""

    query: str | None = Field(
        default=None,
        description="For a completion: one relation with objects and variables. For the model of a query: that query "
        "with objects for some of its variables, or nothing.",
        examples=["capital('france', y)"],
    )
    top: JsonPositive = Field(default=10, description="Maximum number of answers.")
    known: str = Field(default="mark", description="What to do with known answers: mark, exclude or only.")
    candidates: str = Field(
        default="auto",
        description="Which objects to rank: by default those seen at the position of the variable or of their type; "
        "all for all objects; or typed, seen or near.",
    )
    draws: JsonPositive | None = Field(
        default=None, description="Neighbourhoods per candidate; by default the model's setting."
    )
    prior: PositiveFraction | None = Field(default=None, description="Share of candidates assumed to be true.")
    constraints: bool = Field(
        default=True, description="Whether constraints make answers improbable that conflict with known facts."
    )

    covered: bool = Field(
        default=False, description="Whether to leave out answers about which the model has little to go on."
    )


class AnswersRequest(AnswersParameters):
    """A query to rank answers for, as a body."""

    model_config = ConfigDict(extra="forbid", strict=True)

    bindings: Bindings = Field(default={}, description="Variable → name of an object.")
    restrict_to: dict[str, str | list[str]] = Field(
        default={}, description="Variable → type of its candidates, or their names."
    )


class ExplanationParameters(ParameterModel):
    """An answer to explain."""

    query: str | None = Field(
        default=None,
        description="The query that was ranked; nothing for the model's own query.",
        examples=["capital('france', y)"],
    )
    answer: list[str] = Field(default=[], description="The objects of the answer, in the order of the variables.")
    top: JsonPositive = Field(default=DEFAULT_TOP, description="Maximum number of formulas for it, and against it.")
    draws: JsonPositive | None = Field(default=None, description="Neighbourhoods; by default the model's setting.")
    prior: PositiveFraction | None = Field(default=None, description="Share of candidates assumed to be true.")
    constraints: bool = Field(
        default=True, description="Whether constraints make answers improbable that conflict with known facts."
    )


class ExplanationRequest(ExplanationParameters):
    """An answer to explain, as a body."""

    model_config = ConfigDict(extra="forbid", strict=True)

    bindings: Bindings = Field(default={}, description="Variable → name of an object.")


class ExamplesRequest(ParameterModel):
    """Which example queries to return."""

    object_name: str | None = Field(default=None, alias="object", description="Only queries about this object.")


class NewFact(BodyModel):
    """A fact to add."""

    relation: NonEmptyStr
    objects: list[NonEmptyStr] = Field(min_length=1)
    confidence: PositiveFraction = 1.0

    def to_fact(self) -> Fact:
        """Return the fact."""
        return Fact(self.relation, tuple(self.objects), self.confidence)


class AddFactsRequest(BodyModel):
    """Facts to add, all or none."""

    facts: list[NewFact] = Field(min_length=1)
    new_objects: bool = Field(default=False, description="Whether unknown objects are added; else they are an error.")


# Responses


class ResponseModel(BaseModel):
    """A JSON response: every field is there, with its type."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


LabelField = Field(default=None, description="Object → how it is shown; only if the knowledge base has labels.")


class LabelledModel(ResponseModel):
    """A JSON response with more fields if the knowledge base has labels."""

    @model_serializer(mode="wrap")
    def _without_labels(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        fields: dict[str, Any] = serialize(self)
        return {name: value for name, value in fields.items() if value is not None or name not in LABEL_FIELDS}


LABEL_FIELDS = frozenset({"labels", "query_labels", "bracketed_labels", "witnesses_labels", "labelled"})
"""Fields that are left out if the knowledge base has no labels."""


class ErrorDetail(ResponseModel):
    """What is wrong, where, and what to write instead."""

    kind: str = "HTTPError"
    message: str
    location: str | None = None
    line: int | None = None
    column: int | None = None
    caret: str | None = Field(default=None, description="The wrong line, with carets below the error.")
    expected: list[str] = []
    suggestions: list[str] = Field(default=[], description="Similar names.")
    hint: str | None = None

    @classmethod
    def from_error(cls, error: GaifmanError) -> Self:
        """Return the fields of an error of the library.

        >>> ErrorDetail.from_error(GaifmanError("there is no object 'frnce'", suggestions=("france",))).suggestions
        ['france']
        """
        location = error.location
        return cls(
            kind=type(error).__name__,
            message=escape_unprintable(error.message),
            location=str(location) if location else None,
            line=location.line if location else None,
            column=location.column if location else None,
            caret=location.excerpt() if location else None,
            expected=list(error.expected),
            suggestions=list(error.suggestions),
            hint=error.hint or None,
        )


class ErrorResponse(ResponseModel):
    """The body of every error."""

    error: ErrorDetail


class HealthResponse(ResponseModel):
    """The server is up."""

    status: str
    version: str
    uptime_seconds: float


class ModelSummary(ResponseModel):
    """What the model answers."""

    kind: str = Field(description="completion, or model for the model of one query.")
    query: str | None
    variables: list[str]
    relations: int | None
    missing: float | None = Field(
        description="Share of facts that the probabilities of ranked lists assume to be missing; null for a network."
    )


class ServiceSummary(ResponseModel):
    """The knowledge base and the model in numbers."""

    objects: int
    facts: int
    relations: int
    attributes: int
    fingerprint: str
    notes: list[str]
    model: ModelSummary | None


class AboutResponse(ServiceSummary):
    """What is served."""

    editable: bool = Field(description="Whether facts can be added.")
    python: list[str] = Field(description="Lines of Python that read the same knowledge base and model.")
    limits: dict[str, float]


class ObjectSummary(ResponseModel):
    """An object."""

    name: str
    degree: int


class ObjectsResponse(LabelledModel):
    """Objects whose name contains a text."""

    objects: list[ObjectSummary]
    suggestions: list[str] = Field(description="Similar names, if no object was found.")
    skipped: int
    truncated: bool
    labels: dict[str, str] | None = LabelField


class ObjectResponse(LabelledModel):
    """One object."""

    name: str
    types: list[str]
    values: dict[str, float]
    facts: int
    relations: dict[str, int] = Field(description="Relation → number of facts with this object.")
    degree: int
    labels: dict[str, str] | None = LabelField


class RelationSummary(ResponseModel):
    """A relation."""

    name: str
    arity: int
    facts: int
    trained: bool | None = Field(description="Whether a completion has a model of it; null without a completion.")
    query: str = Field(description="A query for all its facts.")


class RelationsResponse(ResponseModel):
    """Relations whose name contains a text."""

    relations: list[RelationSummary]
    skipped: int
    truncated: bool


class FactRow(ResponseModel):
    """A fact."""

    relation: str
    objects: list[str]
    confidence: float

    @classmethod
    def from_fact(cls, fact: Fact) -> Self:
        """Return the fields of a fact."""
        return cls(relation=fact.relation, objects=list(fact.objects), confidence=fact.confidence)


class FactsResponse(LabelledModel):
    """A page of facts."""

    facts: list[FactRow]
    count: int
    skipped: int
    truncated: bool
    labels: dict[str, str] | None = LabelField


class QueryResponse(LabelledModel):
    """Exact answers."""

    query: str
    bracketed: str = Field(description="The query with all brackets: how it was parsed.")
    variables: list[str]
    bindings: Bindings
    unrestricted: list[str] = Field(description="Variables that range over all objects.")
    combinations: int
    note: str
    answers: list[list[str]]
    count: int | None
    witnesses: list[list[list[str]]] | None = Field(description="For each answer, sets of supporting facts.")
    skipped: int
    truncated: bool
    labels: dict[str, str] | None = LabelField
    query_labels: str | None = Field(default=None, description="The query with labels for its objects.")
    witnesses_labels: list[list[list[str]]] | None = Field(default=None, description="The witnesses with labels.")


COVERED = "Whether a formula reaches it, or all its objects were seen at their positions."


class ConflictRow(ResponseModel):
    """A constraint that makes an answer improbable."""

    constraint: str
    message: str = Field(description="What the answer conflicts with.")
    evidence: str = Field(description="For how many known facts the constraint holds.")
    found: bool = Field(description="Whether the constraint was found in the data, not declared.")
    factor: float = Field(description="The probability of a certain answer is multiplied by it.")
    facts: list[FactRow] = Field(description="The first known facts that the answer conflicts with.")


class AnswerRow(ResponseModel):
    """An answer with its probability."""

    names: list[str]
    probability: float
    standard_error: float | None = Field(description="Null for a single draw.")
    draws: int
    known: bool
    conflicts: list[ConflictRow]
    covered: bool = Field(description=COVERED)
    uncovered_reason: str = Field(description="Why the model has little to go on, or empty.")


class CandidateSummaryFields(ResponseModel):
    """Which candidates were ranked, and how."""

    count: int
    description: str
    draws: int
    shortlisted: int
    first_pass_draws: int
    left_out: int = Field(description="Candidates that constraints leave out.")
    uncovered: int = Field(description="Answers that are left out because the model has little to go on.")


class AnswerSetFields(ResponseModel):
    """Candidates among which a missing answer is, in `coverage` of such questions."""

    names: list[str] = Field(description="The likeliest first.")
    coverage: float


class AnswersResponse(LabelledModel):
    """Ranked answers, the most probable first."""

    query: str
    variables: list[str]
    answers: list[AnswerRow]
    answer_set: AnswerSetFields | None = Field(
        description="Where the answer is, if one is missing; null for several variables, if hardly any is missing, and "
        "if the model cannot tell."
    )
    considered: CandidateSummaryFields
    truncated: bool
    labels: dict[str, str] | None = LabelField
    query_labels: str | None = Field(default=None, description="The query with labels for its objects.")


class Member(ResponseModel):
    """A member of a neighbourhood."""

    name: str
    distance: int


class NeighbourhoodRow(ResponseModel):
    """One neighbourhood."""

    members: list[Member]
    facts: list[FactRow]
    not_drawn: dict[str, int] = Field(description="Distance → objects that were not drawn.")
    truncated: bool


class NeighbourhoodsResponse(LabelledModel):
    """Neighbourhoods of a tuple of objects."""

    objects: list[str]
    radius: int
    size: int
    seed: int
    draws: list[NeighbourhoodRow]
    labels: dict[str, str] | None = LabelField


class DegreesResponse(LabelledModel):
    """The degree distribution of the Gaifman graph."""

    objects: int
    edges: int
    isolated: int
    mean_degree: float
    median_degree: int
    largest_degree: int
    most_connected: str | None
    degrees: list[list[int]] = Field(description="Pairs of a degree and the number of objects with it.")
    labels: dict[str, str] | None = LabelField


class ModelCardResponse(ResponseModel):
    """The model card."""

    meta: dict[str, Any]
    card: str = Field(description="As Markdown.")


class AddFactsResponse(ResponseModel):
    """How many facts were added."""

    added: int
    already_known: int
    total_facts: int


class ParseResponse(LabelledModel):
    """How a query is parsed, or its error."""

    bracketed: str | None = Field(description="The query with all brackets; null if it has an error.")
    variables: list[str]
    rankable: bool = Field(description="Whether the model can rank its answers.")
    not_rankable_reason: str | None
    error: ErrorDetail | None
    bracketed_labels: str | None = Field(default=None, description="The same with labels for its objects.")


class ReasonRow(LabelledModel):
    """A formula for or against an answer, or a constraint that it conflicts with."""

    kind: str = Field(description="formula or constraint.")
    formula: str
    description: str = Field(description="The formula, or the conflict, in words.")
    feature: str
    effect: float = Field(description="In log-odds.")
    draws: int = Field(description="Draws in which the formula has an effect.")
    value: float
    facts: list[FactRow] = Field(description="Its witnesses.")
    labelled: str | None = Field(default=None, description="The formula with labels for its objects.")


class OtherReasons(ResponseModel):
    """Formulas that are not listed."""

    count: int
    effect: float


class LogOddsParts(ResponseModel):
    """Terms that sum to the log-odds, together with the effects of the formulas."""

    base: float
    interactions: float | None = Field(description="Of a network, else null.")
    averaging: float | None = Field(description="Of a network, else null.")
    calibration: float | None = Field(description="Of a network, else null.")
    competition: float | None = Field(description="Of ranked lists: the other candidates; else null.")
    others: OtherReasons


class CounterfactualRow(ResponseModel):
    """The probability without some facts."""

    facts: list[FactRow]
    probability: float
    standard_error: float | None
    draws: int


class DiagramFact(FactRow):
    """A fact of a diagram."""

    direction: int = Field(description="1 for the answer, −1 against it, 0 neither.")
    decisive: bool = Field(description="Whether it is among the facts of the counterfactual.")


class DiagramFields(ResponseModel):
    """One of the sampled neighbourhoods."""

    objects: list[str]
    members: list[str]
    facts: list[DiagramFact]


class ExplanationResponse(LabelledModel):
    """The explanation of an answer."""

    query: str
    variables: dict[str, str]
    known: bool
    hidden: bool
    probability: float
    standard_error: float | None
    draws: int
    log_odds: float
    conflicts: list[ConflictRow]
    covered: bool = Field(description=COVERED)
    uncovered_reason: str = Field(description="Why the model has little to go on, or empty.")
    reasons: list[ReasonRow]
    parts: LogOddsParts
    counterfactual: CounterfactualRow | None
    diagram: DiagramFields | None
    picture: str = Field(description="The diagram as SVG without styles.")
    labels: dict[str, str] | None = LabelField
    query_labels: str | None = Field(default=None, description="The query with labels for its objects.")


class ExampleQuery(ResponseModel):
    """An example query."""

    query: str
    description: str
    rankable: bool = Field(description="Whether it is for the model.")
    relation: str | None = Field(description="The relation, if the query is about one object.")
    objects: list[str | None] = Field(description="Its objects, null for variables, if it is about one object.")


class ExamplesResponse(LabelledModel):
    """Example queries."""

    examples: list[ExampleQuery]
    labels: dict[str, str] | None = LabelField

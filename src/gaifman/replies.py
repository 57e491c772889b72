"""What goes over the wire for the page: readings, explanations and what is worth asking.

>>> ParseRequest(query="borders(x, y)").given
{}
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from gaifman.messages import ErrorDetail, FactRow, JsonPositive, PositiveFraction


class RequestModel(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class ParseRequest(RequestModel):
    """A text that is being typed."""

    query: str = Field(description="A query, or the beginning of one.", examples=["borders('france', y)"])
    bindings: dict[str, str] = Field(default={}, description="Variable → name of the object that it stands for.")


class ExplanationRequest(RequestModel):
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
    scene: SceneRow | None
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

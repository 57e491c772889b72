"""The HTTP application.

    app = create_app(ServerState(Service(kb, model)))        any ASGI server runs it; `gaifman serve` uses uvicorn

Requests run in worker threads, limited for each kind of work. Health and metrics are answered at any load. Paths have
no parameters: names are in the query string or in JSON.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Depends, FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4 as CONTENT_TYPE
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware

from gaifman import __version__
from gaifman.config import Deadline
from gaifman.errors import (
    BusyError,
    GaifmanError,
    OutputError,
    StoppedError,
    escape_unprintable,
    shorten,
    similar_names,
)
from gaifman.server.example_queries import example_queries, queries_about
from gaifman.server.middleware import (
    UNLIMITED_PATHS,
    GuardMiddleware,
    Metrics,
    ServerLimits,
    WorkLimiter,
    error_response,
)
from gaifman.server.schemas import (
    AboutResponse,
    AddFactsRequest,
    AddFactsResponse,
    AnswersParameters,
    AnswersRequest,
    AnswersResponse,
    DegreesResponse,
    ErrorDetail,
    ErrorResponse,
    ExamplesRequest,
    ExamplesResponse,
    ExplanationParameters,
    ExplanationRequest,
    ExplanationResponse,
    FactsRequest,
    FactsResponse,
    HealthResponse,
    ModelCardResponse,
    NeighbourhoodRequest,
    NeighbourhoodsResponse,
    ObjectResponse,
    ObjectsRequest,
    ObjectsResponse,
    ParseRequest,
    ParseResponse,
    QueryRequest,
    QueryResponse,
    RelationsRequest,
    RelationsResponse,
)
from gaifman.server.service import Service
from gaifman.server.state import ServerState

STATIC_DIR = Path(__file__).parent / "static"
"""The files of the page, each served under its own name."""
MEDIA_TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
"""Suffix of a file → its media type; other files are not served."""
HTML_PATHS = {"/": "/index.html", "/docs": "/docs.html"}
"""Path → file of the page."""
DOCS_HINT = "/docs describes the interface"
SEND_JSON_HINT = "send JSON with Content-Type: application/json"
ERRORS = {
    400: "The request is not valid HTTP or JSON.",
    403: "Facts are added without --allow-edit, or the request comes from another site.",
    405: "Wrong method.",
    408: "The body did not arrive in time.",
    413: "The body is too large.",
    421: "The request is for another host; see --allow-host.",
    422: "A parameter or field is wrong: the message says which, and what to write instead.",
    431: "The headers exceed 64 KiB.",
    500: "An error in the server or on its disk.",
    503: "The server is overloaded, or the request reached its time limit; see Retry-After.",
}
"""Status of an error that every route can have → when."""

T = TypeVar("T")
router = APIRouter()
_bearer = HTTPBearer(auto_error=False, description="The token of this server.")


class AppContext:
    """What the routes of one application share."""

    def __init__(self, state: ServerState, limits: ServerLimits) -> None:
        self.state, self.limits, self.metrics = state, limits, Metrics()
        self.lookups, self.queries, self.computations = WorkLimiter(limits), WorkLimiter(limits), WorkLimiter(limits)
        self.edits = WorkLimiter(replace(limits, max_concurrency=1))  # they run one after another anyway
        self._limiters = (self.lookups, self.queries, self.computations, self.edits)
        self.started = time.monotonic()
        self.parameters: Mapping[tuple[str, str], Mapping[str, bool]] = {}
        """(Method, path) → name of each parameter and whether it is repeatable."""
        self.metrics.running_requests.set_function(lambda: sum(limiter.running for limiter in self._limiters))
        self.metrics.queued_requests.set_function(lambda: sum(limiter.queued for limiter in self._limiters))
        self.metrics.objects.set_function(lambda: len(state.service.kb.objects))
        self.metrics.facts.set_function(lambda: len(state.service.kb))

    async def lookup(self, work: Callable[[Service], T]) -> T:
        """Run work that reads indexes."""
        service = self.state.service
        return await self.lookups.run(lambda _: work(service))

    async def query(self, work: Callable[[Service, Deadline], T]) -> T:
        """Run work that queries the database."""
        service = self.state.service
        return await self.queries.run(lambda deadline: work(service, deadline))

    async def compute(self, work: Callable[[Service, Deadline], T]) -> T:
        """Run work that computes in this process."""
        service = self.state.service
        return await self.computations.run(lambda deadline: work(service, deadline))

    def close(self) -> None:
        """Stop all work."""
        for limiter in self._limiters:
            limiter.close()
        self.state.service.engine.database.interrupt()
        self.state.close()


def create_app(state: ServerState, allowed_hosts: Iterable[str] = ()) -> FastAPI:
    """Return the application. It accepts requests for the loopback's names and for `allowed_hosts`."""
    limits = state.service.limits
    context = AppContext(state, limits)
    files = static_files()
    paths = [*(route.path for route in router.routes), *files, "/openapi.json"]  # type: ignore[attr-defined]
    guard = Middleware(
        GuardMiddleware, paths=paths, allowed_hosts=tuple(allowed_hosts), limits=limits, metrics=context.metrics
    )

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        context.close()

    app = FastAPI(
        title="gaifman",
        version=__version__,
        description="Missing facts of a knowledge base, with probabilities and explanations.",
        docs_url=None,  # FastAPI's page loads scripts from another host; /docs is our own
        redoc_url=None,
        redirect_slashes=False,
        dependencies=[Depends(reject_unknown_parameters)],
        lifespan=lifespan,
        responses={status: {"model": ErrorResponse, "description": text} for status, text in ERRORS.items()},
        middleware=[guard],
    )
    app.state.context = context
    app.include_router(router)
    for path, (body, media_type) in files.items():
        app.add_route(path, _static_route(body, media_type), include_in_schema=False)
    for error, handler in (
        (GaifmanError, _handle_gaifman_error),
        (RequestValidationError, _handle_validation_error),
        (HTTPException, _handle_http_error),
        (NotModified, _handle_not_modified),
    ):
        app.add_exception_handler(error, handler)  # type: ignore[arg-type]
    context.parameters = parameter_names(app.openapi())
    return app


async def get_context(request: Request) -> AppContext:  # async: a plain function would need a thread of a pool
    """Return what the application of a request shares."""
    context: AppContext = request.app.state.context
    return context


Context = Annotated[AppContext, Depends(get_context)]


# Parameters


def parameter_names(document: Mapping[str, Any]) -> dict[tuple[str, str], dict[str, bool]]:
    """Return (method, path) → name of each parameter and whether it is repeatable, of an OpenAPI document."""
    return {
        (method.upper(), path): {
            one["name"]: one["schema"].get("type") == "array" for one in operation.get("parameters", [])
        }
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    }


async def reject_unknown_parameters(request: Request, context: Context) -> None:
    """Refuse unknown parameters and repeated ones: they would be ignored silently."""
    path = request.scope["route"].path
    if path in UNLIMITED_PATHS or not request.scope["query_string"]:  # probes may send any parameter
        return
    repeatable = context.parameters[request.method, path]
    for name, times in Counter(name for name, _ in request.query_params.multi_items()).items():
        error: dict[str, Any] = {"loc": ("query", shorten(name)), "type": "parameter"}
        if name not in repeatable:
            hint = f"parameters: {', '.join(repeatable)}" if repeatable else "this path has no parameters"
            error |= {"msg": "unknown parameter", "suggestions": similar_names(name, repeatable), "hint": hint}
            raise RequestValidationError([error])
        if times > 1 and not repeatable[name]:
            raise RequestValidationError([error | {"msg": "repeated parameter", "hint": "give it once"}])


class NotModified(Exception):
    """The client has the reply already."""


async def check_etag(request: Request, response: Response, context: Context) -> None:
    """Let clients cache a reply: it depends only on the address, the knowledge base and the model."""
    tag = f'"{await context.lookup(lambda service: service.version)}"'
    response.headers.update({"etag": tag, "cache-control": "no-cache"})
    known = [part.strip().removeprefix("W/") for part in request.headers.get("if-none-match", "").split(",")]
    if tag in known or known == ["*"]:
        raise NotModified(tag)


cacheable = [Depends(check_etag)]
NOT_MODIFIED: dict[int | str, dict[str, Any]] = {304: {"description": "The reply has not changed (If-None-Match)."}}


# Routes


@router.get("/api/health")
async def health(context: Context) -> HealthResponse:
    """Report that the server is up; answered at any load."""
    uptime = round(time.monotonic() - context.started, 3)
    return HealthResponse(status="ok", version=__version__, uptime_seconds=uptime)


@router.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
async def metrics(context: Context) -> Response:
    """Return metrics in the text format of Prometheus; answered at any load."""
    return Response(context.metrics.render(), media_type=CONTENT_TYPE)


@router.get("/api/about")
async def about(context: Context) -> AboutResponse:
    """Describe the knowledge base, the model and the limits."""
    summary = await context.lookup(Service.about)
    return AboutResponse(
        **dict(summary),
        editable=context.state.editable,
        python=context.state.python,
        limits=asdict(context.limits),
    )


@router.get("/api/objects")
async def find_objects(context: Context, parameters: Annotated[ObjectsRequest, Query()]) -> ObjectsResponse:
    """Find objects by a part of their name; names that start with it come first."""
    return await context.lookup(lambda service: service.find_objects(parameters))


@router.get("/api/object")
async def describe_object(
    context: Context, name: Annotated[str, Query(description="The name of the object.")]
) -> ObjectResponse:
    """Return the types, numbers and counts of an object."""
    return await context.lookup(lambda service: service.describe_object(name))


@router.get("/api/relations")
async def find_relations(context: Context, parameters: Annotated[RelationsRequest, Query()]) -> RelationsResponse:
    """Find relations by a part of their name."""
    return await context.lookup(lambda service: service.find_relations(parameters))


@router.get("/api/facts")
async def list_facts(context: Context, parameters: Annotated[FactsRequest, Query()]) -> FactsResponse:
    """List facts, sorted by relation and objects."""
    return await context.lookup(lambda service: service.facts(parameters))


@router.post("/api/query")
async def answer_query(context: Context, body: QueryRequest) -> QueryResponse:
    """Return exact answers of a first-order query."""
    return await context.query(lambda service, deadline: service.query(body, deadline))


@router.post("/api/answers")
async def rank_answers(context: Context, body: AnswersRequest) -> AnswersResponse:
    """Return the most probable answers, with standard errors."""
    return await context.compute(lambda service, deadline: service.answers(body, deadline))


@router.get("/api/answers", dependencies=cacheable, responses=NOT_MODIFIED)
async def get_answers(context: Context, parameters: Annotated[AnswersParameters, Query()]) -> AnswersResponse:
    """Return the most probable answers, with standard errors: the same as POST, for links and caches."""
    return await rank_answers(context, AnswersRequest(**dict(parameters)))


@router.post("/api/explanations")
async def explain_answer(context: Context, body: ExplanationRequest) -> ExplanationResponse:
    """Explain a prediction: formulas for and against it, a counterfactual, and one neighbourhood."""
    return await context.compute(lambda service, deadline: service.explain(body, deadline))


@router.get("/api/explanations", dependencies=cacheable, responses=NOT_MODIFIED)
async def get_explanation(
    context: Context, parameters: Annotated[ExplanationParameters, Query()]
) -> ExplanationResponse:
    """Explain a prediction: the same as POST, for links and caches."""
    return await explain_answer(context, ExplanationRequest(**dict(parameters)))


@router.post("/api/parse")
async def parse_text(context: Context, body: ParseRequest) -> ParseResponse:
    """Parse a query. An error of the query is part of the reply, with status 200."""
    return await context.lookup(lambda service: service.parse(body))


@router.get("/api/examples")
async def get_examples(context: Context, parameters: Annotated[ExamplesRequest, Query()]) -> ExamplesResponse:
    """Return example queries of the knowledge base, or about one object."""
    name = parameters.object_name
    if name is None:
        return ExamplesResponse(examples=await context.query(example_queries))
    return await context.lookup(lambda service: _examples_about(service, name))


def _examples_about(service: Service, name: str) -> ExamplesResponse:
    return ExamplesResponse(examples=queries_about(service, name), labels=service.labels_of([name]))


@router.get("/api/neighbourhood")
async def draw_neighbourhoods(
    context: Context, parameters: Annotated[NeighbourhoodRequest, Query()]
) -> NeighbourhoodsResponse:
    """Draw neighbourhoods of a tuple of objects, with the facts inside."""
    return await context.compute(lambda service, deadline: service.neighbourhoods(parameters, deadline))


@router.get("/api/degrees")
async def degree_distribution(context: Context) -> DegreesResponse:
    """Return the degree distribution of the Gaifman graph."""
    return await context.lookup(Service.degrees)


@router.get("/api/model-card")
async def model_card(context: Context) -> ModelCardResponse:
    """Return the model card: training, quality, intended use."""
    return await context.lookup(Service.model_card)


async def require_token(
    context: Context, credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]
) -> None:
    """Refuse a request without the right to add facts."""
    if not context.state.editable:
        raise HTTPException(403, "this server is read-only: it was started without --allow-edit")
    if credentials is None or not context.state.check_token(credentials.credentials):
        raise HTTPException(401, "adding facts requires the token of this server", {"WWW-Authenticate": "Bearer"})


UNAUTHORIZED: dict[int | str, dict[str, Any]] = {
    401: {"model": ErrorResponse, "description": "The token is missing or wrong."}
}


@router.post("/api/facts", responses=UNAUTHORIZED, dependencies=[Depends(require_token)])
async def add_facts(context: Context, body: AddFactsRequest) -> AddFactsResponse:
    """Add facts, all or none. They count from the next request on, and after a restart."""
    facts = [fact.to_fact() for fact in body.facts]
    reply = await context.edits.run(
        lambda deadline: context.state.add_facts(facts, allow_new_objects=body.new_objects, deadline=deadline)
    )
    context.metrics.added_facts.inc(reply.added)
    return reply


# The page


def static_files() -> dict[str, tuple[bytes, str]]:
    """Return path → content and media type of each file of the page. A path of a request never names a file."""
    files = {
        f"/{path.relative_to(STATIC_DIR).as_posix()}": (path.read_bytes(), MEDIA_TYPES[path.suffix])
        for path in sorted(STATIC_DIR.rglob("*"))
        if path.suffix in MEDIA_TYPES
    }
    return files | {path: files[file] for path, file in HTML_PATHS.items()}


def _static_route(body: bytes, media_type: str) -> Callable[[Request], Any]:
    async def respond(_: Request) -> Response:
        return Response(body, media_type=media_type, headers={"cache-control": "no-cache"})

    return respond


# Errors


async def _handle_gaifman_error(request: Request, error: GaifmanError) -> Response:
    context = await get_context(request)
    detail = ErrorDetail.from_error(error)
    if isinstance(error, BusyError):
        context.metrics.overloaded.inc()
        return error_response(503, detail, {"retry-after": "1"})
    if isinstance(error, StoppedError):
        context.metrics.timeouts.inc()
        return error_response(503, detail, {"retry-after": str(math.ceil(context.limits.seconds))})
    return error_response(500 if isinstance(error, OutputError) else 422, detail)


async def _handle_validation_error(_: Request, error: RequestValidationError) -> Response:
    """Report the first error of a request."""
    first = error.errors()[0]
    location = ".".join(str(part) for part in first["loc"])
    hint = first.get("hint") or (SEND_JSON_HINT if location == "body" else DOCS_HINT)
    message = f"{location}: {first['msg']}"
    if first["type"] == "json_invalid":
        character = first["loc"][-1] + 1
        location, hint = f"body, character {character}", SEND_JSON_HINT
        message = f"the body is not JSON, at character {character}: {first['ctx']['error']}"
    detail = ErrorDetail(
        kind="RequestError",
        message=escape_unprintable(message),
        location=escape_unprintable(location),
        suggestions=list(first.get("suggestions", ())),
        hint=hint,
    )
    return error_response(422, detail)


async def _handle_http_error(request: Request, error: HTTPException) -> Response:
    messages = {
        400: f"the body is not JSON: {_unreadable_reason(error.__cause__)}",  # no route of ours raises 400
        404: "there is nothing at this path",
        405: f"this path does not accept {request.method}",
    }
    hint = {400: SEND_JSON_HINT, 404: DOCS_HINT, 405: DOCS_HINT}.get(error.status_code)
    message = escape_unprintable(messages.get(error.status_code, str(error.detail)))
    return error_response(error.status_code, ErrorDetail(message=message, hint=hint), error.headers)


def _unreadable_reason(cause: BaseException | None) -> str:
    if isinstance(cause, UnicodeDecodeError):
        return f"it is not UTF-8, at byte {cause.start + 1}"
    return "it is nested too deeply" if isinstance(cause, RecursionError) else "it cannot be read"


async def _handle_not_modified(_: Request, error: NotModified) -> Response:
    return Response(status_code=304, headers={"etag": str(error), "cache-control": "no-cache"})

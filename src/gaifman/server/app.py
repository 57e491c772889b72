"""The server: what a service says, over HTTP, within limits.

    app = app_of(Desk(Service(kb, model)))        any ASGI server runs it; `gaifman serve` takes uvicorn

Every question goes through the gate of its kind, on a thread of its own; health and metrics are answered beside them,
however busy the server is. There are no parameters in paths: names stand in the query string or in JSON.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Depends, FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware

from gaifman import __version__
from gaifman.cancellation import Deadline
from gaifman.config import ServerLimits
from gaifman.errors import (
    BusyError,
    GaifmanError,
    OutputError,
    StoppedError,
    escape_unprintable,
    shorten,
    similar_names,
)
from gaifman.kb.facts import Fact
from gaifman.server import schemas as messages
from gaifman.server import schemas as replies
from gaifman.server import service as insights
from gaifman.server.limiter import WorkLimiter
from gaifman.server.metrics import CONTENT_TYPE, Metrics
from gaifman.server.middleware import UNLIMITED_PATHS, GuardMiddleware
from gaifman.server.schemas import (
    AddFactsRequest,
    AnswersRequest,
    ErrorResponse,
    ExplanationRequest,
    JsonCount,
    JsonPositive,
    ParseRequest,
    QueryRequest,
    encode_json,
    error_body,
    http_error_body,
)
from gaifman.server.service import ExactQuery, NeighbourhoodQuery, Page, RankedQuery, Service
from gaifman.server.state import ServerState

STATIC_DIR = Path(__file__).parent / "static"
"""The files of the page; each is served under its own name."""
MEDIA_TYPES = {
    ".html": "text/html",
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".woff2": "font/woff2",
    ".txt": "text/plain",
}
"""End of a file's name → what it is; others are not served."""
JSON = "application/json"
OPENAPI_HINT = "/openapi.json describes what there is"
SEND_JSON_HINT = "send JSON, with Content-Type: application/json"

router = APIRouter()
_bearer = HTTPBearer(auto_error=False, description="The token that the server was started with.")


Work = Callable[[Service, Deadline], dict[str, Any]]


class AppContext:
    """What the routes of one application share."""

    def __init__(self, state: ServerState, limits: ServerLimits) -> None:
        self.state, self.limits, self.metrics = state, limits, Metrics()
        self.lookups, self.queries, self.computations = WorkLimiter(limits), WorkLimiter(limits), WorkLimiter(limits)
        self.edits = WorkLimiter(replace(limits, max_concurrency=1))  # they go one after another anyway
        self.limiters = (self.lookups, self.queries, self.computations, self.edits)
        """One for each kind of work, so that who browses waits neither behind queries nor rankings nor additions."""
        self.started = time.monotonic()
        self.metrics.add_gauge("gaifman_running_requests", lambda: sum(gate.running for gate in self.limiters))
        self.metrics.add_gauge("gaifman_queued_requests", lambda: sum(gate.queued for gate in self.limiters))
        self.metrics.add_gauge("gaifman_objects", lambda: len(state.service.kb.objects))
        self.metrics.add_gauge("gaifman_facts", lambda: len(state.service.kb))

    async def run_lookup(self, work: Work) -> Response:
        """What a service says when it looks something up; turned into JSON behind the gate too."""
        return await self._run(self.lookups, work)

    async def run_query(self, work: Work) -> Response:
        """What a service says when it asks the database."""
        return await self._run(self.queries, work)

    async def run_computation(self, work: Work) -> Response:
        """What a service says after computing."""
        return await self._run(self.computations, work)

    async def _run(self, limiter: WorkLimiter, work: Work) -> Response:
        service = self.state.service
        return Response(await limiter.run(lambda deadline: encode_json(work(service, deadline))), media_type=JSON)

    def close(self) -> None:
        """Stop all work."""
        for gate in self.limiters:
            gate.close()
        self.state.service.engine.interrupt()
        self.state.close()


def create_app(state: ServerState, allowed_hosts: Iterable[str] = ()) -> FastAPI:
    """The application; `hosts` are names under which it may be asked, besides the loopback's."""
    limits = state.service.limits
    hall = AppContext(state, limits)

    @asynccontextmanager
    async def living(_: FastAPI) -> AsyncIterator[None]:
        yield
        hall.close()

    pages = static_files()
    paths = [*(route.path for route in router.routes), *pages, "/openapi.json"]  # type: ignore[attr-defined]
    errors = {code: {"model": ErrorResponse} for code in (400, 403, 405, 408, 413, 421, 422, 431, 500, 503)}
    app = FastAPI(
        title="gaifman",
        version=__version__,
        description="The missing facts of a knowledge base, with probabilities and reasons.",
        docs_url=None,  # they load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,  # a path is right, or there is nothing at it
        dependencies=[Depends(reject_unknown_parameters)],
        lifespan=living,
        responses=errors,  # type: ignore[arg-type]
        middleware=[
            Middleware(
                GuardMiddleware, paths=paths, allowed_hosts=tuple(allowed_hosts), limits=limits, metrics=hall.metrics
            )
        ],
    )
    app.state.context = hall
    app.include_router(router)
    for path, (body, kind) in pages.items():
        app.add_route(path, _static_route(body, kind), include_in_schema=False)
    for error, answer in (
        (GaifmanError, _handle_gaifman_error),
        (RequestValidationError, _handle_validation_error),
        (HTTPException, _handle_http_error),
    ):
        app.add_exception_handler(error, answer)  # type: ignore[arg-type]
    return app


async def get_context(request: Request) -> AppContext:  # async: others take a thread of a pool, which may be full
    """What the application of a request shares."""
    return _context(request)


def _context(request: Request) -> AppContext:
    hall: AppContext = request.app.state.context
    return hall


async def reject_unknown_parameters(request: Request) -> None:
    """Refuses parameters that a route does not have, or has once: they would count for nothing without a word."""
    path = request.scope["route"].path
    if path in UNLIMITED_PATHS or not request.scope["query_string"]:  # probes may send what they like
        return
    known = request.app.openapi()["paths"][path][request.method.lower()].get("parameters", [])
    several = {one["name"]: one["schema"].get("type") == "array" for one in known}
    given = Counter(name for name, _ in request.query_params.multi_items())
    for name, times in given.items():
        what = {"loc": ("query", shorten(name)), "type": "parameter"}
        if name not in several:
            hint = f"its parameters: {', '.join(several)}" if several else "it has no parameters"
            what |= {"msg": "there is no such parameter", "suggestions": similar_names(name, several), "hint": hint}
            raise RequestValidationError([what])
        if times > 1 and not several[name]:
            raise RequestValidationError([what | {"msg": "it is given more than once", "hint": "give it once"}])


Context = Annotated[AppContext, Depends(get_context)]
TextParam = Annotated[str, Query(description="A part of the name; large and small letters are the same.")]
SkipParam = Annotated[JsonCount, Query(description="Rows before the first.")]
RowsParam = Annotated[JsonPositive, Query(description="Rows at most.")]


@router.get("/api/health", response_model=messages.HealthResponse)
async def health(context: Context) -> Response:
    """Whether the server lives; answered however busy it is."""
    seconds = round(time.monotonic() - context.started, 3)
    return Response(encode_json({"status": "ok", "version": __version__, "uptime_seconds": seconds}), media_type=JSON)


@router.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
async def metrics(context: Context) -> Response:
    """What the server counts about itself, in the text format of Prometheus."""
    return Response(context.metrics.render(), media_type=CONTENT_TYPE)


@router.get("/api/about", response_model=messages.AboutResponse)
async def about(context: Context) -> Response:
    """What is served: knowledge base, model, limits."""
    more = {"editable": context.state.editable, "python": context.state.python, "limits": asdict(context.limits)}
    return await context.run_lookup(lambda service, _: {**service.about(), **more})


@router.get("/api/objects", response_model=messages.ObjectsResponse)
async def find_objects(context: Context, text: TextParam = "", skip: SkipParam = 0, rows: RowsParam = 20) -> Response:
    """Objects whose name has a text in it: those that begin with it first."""
    return await context.run_lookup(lambda service, _: service.find_objects(text, Page(skip, rows)))


@router.get("/api/object", response_model=messages.ObjectResponse)
async def describe_object(context: Context, name: Annotated[str, Query(description="The whole name.")]) -> Response:
    """One object: types, numbers, how many facts and neighbours."""
    return await context.run_lookup(lambda service, _: service.describe_object(name))


@router.get("/api/relations", response_model=messages.RelationsResponse)
async def find_relations(
    context: Context, text: TextParam = "", skip: SkipParam = 0, rows: RowsParam = 100
) -> Response:
    """Relations whose name has a text in it."""
    return await context.run_lookup(lambda service, _: service.find_relations(text, Page(skip, rows)))


@router.get("/api/facts", response_model=messages.FactsResponse)
async def list_facts(
    context: Context,
    relation: Annotated[str | None, Query(description="Only facts of this relation.")] = None,
    object: Annotated[str | None, Query(description="Only facts with this object.")] = None,  # noqa: A002
    skip: SkipParam = 0,
    rows: RowsParam = 100,
) -> Response:
    """Facts, sorted by relation and objects."""
    return await context.run_lookup(lambda service, _: service.facts(Page(skip, rows), relation, object))


@router.post("/api/query", response_model=messages.QueryResponse)
async def answer_query(context: Context, body: QueryRequest) -> Response:
    """Exact answers of a first-order query over the whole knowledge base."""
    exact = ExactQuery(body.query, body.bindings, Page(body.skip, body.rows), body.count, body.why)
    return await context.run_query(lambda service, deadline: service.query(exact, deadline))


@router.post("/api/answers", response_model=messages.AnswersResponse)
async def rank_answers(context: Context, body: AnswersRequest) -> Response:
    """The answers that the model finds most probable, with standard errors."""
    asked = RankedQuery(**body.model_dump())
    return await context.run_computation(lambda service, deadline: service.answers(asked, deadline))


@router.post("/api/parse", response_model=replies.ParseResponse)
async def parse_text(context: Context, body: ParseRequest) -> Response:
    """How a text is read as a query; what is wrong with it is an answer here, so it can be asked at every key."""
    return await context.run_lookup(lambda service, _: insights.parse_for_page(service, body.query, body.bindings))


@router.post("/api/explanations", response_model=replies.ExplanationResponse)
async def explain_answer(context: Context, body: ExplanationRequest) -> Response:
    """Why an answer is as probable as the model says: formulas and facts, what if these were not known, a picture."""
    doubted = insights.ExplanationQuery(**body.model_dump())
    return await context.run_computation(lambda service, deadline: insights.explain_answer(service, doubted, deadline))


@router.get("/api/examples", response_model=replies.ExamplesResponse)
async def example_queries(
    context: Context,
    object: Annotated[str | None, Query(description="Only questions of this object to the model.")] = None,  # noqa: A002
) -> Response:
    """What is worth asking here: of the knowledge base, or of one object."""
    if object is not None:
        return await context.run_lookup(lambda service, _: {"examples": insights.queries_about(service, object)})
    return await context.run_query(lambda service, deadline: {"examples": insights.example_queries(service, deadline)})


@router.get("/api/neighbourhood", response_model=messages.NeighbourhoodsResponse)
async def draw_neighbourhoods(
    context: Context,
    object: Annotated[list[str], Query(min_length=1, max_length=8, description="Once for each object of the tuple.")],  # noqa: A002
    radius: Annotated[JsonCount, Query(description="How many steps away members may be.")] = 1,
    size: Annotated[JsonPositive, Query(description="Members besides the tuple's own objects at most.")] = 20,
    draws: Annotated[JsonPositive, Query(description="How many neighbourhoods.")] = 1,
    seed: Annotated[JsonCount, Query(description="The same seed draws the same.")] = 0,
) -> Response:
    """Neighbourhoods drawn around some objects, with the facts inside."""
    around = NeighbourhoodQuery(tuple(object), radius, size, draws, seed)
    return await context.run_computation(lambda service, deadline: service.neighbourhood(around, deadline))


@router.get("/api/degrees", response_model=messages.DegreesResponse)
async def degree_distribution(context: Context) -> Response:
    """How many objects have how many neighbours."""
    return await context.run_lookup(lambda service, _: service.degrees())


@router.get("/api/model-card", response_model=messages.ModelCardResponse)
async def model_card(context: Context) -> Response:
    """What the model is: how it was trained, how well it does, what it must not be used for."""
    return await context.run_lookup(lambda service, _: service.model_card())


async def require_token(
    context: Context, credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]
) -> None:
    """Lets nobody through who may not add facts."""
    if not context.state.editable:
        raise HTTPException(403, "this server adds no facts; it was started without --allow-edit")
    if credentials is None or not context.state.check_token(credentials.credentials):
        raise HTTPException(401, "adding facts takes the token of this server", {"WWW-Authenticate": "Bearer"})


@router.post(
    "/api/facts",
    response_model=messages.AddFactsResponse,
    responses={401: {"model": ErrorResponse}},
    dependencies=[Depends(require_token)],
)
async def add_facts(context: Context, body: AddFactsRequest) -> Response:
    """Add facts, all of them or none: the next answer knows them, and so does the server after a restart."""
    new = [Fact(fact.relation, tuple(fact.objects), fact.confidence) for fact in body.facts]
    found = await context.edits.run(
        lambda deadline: context.state.add_facts(new, allow_new_objects=body.new_objects, deadline=deadline)
    )
    context.metrics.added.inc(found["added"])
    return Response(encode_json(found), media_type=JSON)


# The page


def static_files() -> dict[str, tuple[bytes, str]]:
    """Path → content and kind of each file of the page, read once: no path of a request ever leads to a file."""
    files = sorted(path for path in STATIC_DIR.rglob("*") if path.suffix in MEDIA_TYPES)
    found = {
        f"/{path.relative_to(STATIC_DIR).as_posix()}": (path.read_bytes(), MEDIA_TYPES[path.suffix]) for path in files
    }
    return found | ({"/": found["/index.html"]} if "/index.html" in found else {})


def _static_route(body: bytes, media_type: str) -> Callable[[Request], Any]:
    async def page(_: Request) -> Response:
        return Response(body, media_type=media_type, headers={"cache-control": "no-cache"})

    return page


# Errors


async def _handle_gaifman_error(request: Request, error: GaifmanError) -> Response:
    hall, headers, status = _context(request), dict[str, str](), 422
    if isinstance(error, BusyError | StoppedError):
        (hall.metrics.refused if isinstance(error, BusyError) else hall.metrics.timed_out).inc()
        wait = 1 if isinstance(error, BusyError) else math.ceil(hall.limits.seconds)
        status, headers = 503, {"retry-after": str(wait)}
    elif isinstance(error, OutputError):
        status = 500
    return Response(encode_json(error_body(error)), status, headers, JSON)


async def _handle_validation_error(_: Request, error: RequestValidationError) -> Response:
    """The first of what does not fit the description of the request."""
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    hint = first.get("hint") or (SEND_JSON_HINT if where == "body" else OPENAPI_HINT)
    message = f"{where}: {first['msg']}"
    if first["type"] == "json_invalid":
        where, hint = f"body, character {first['loc'][-1] + 1}", SEND_JSON_HINT
        message = f"the body is no JSON, at character {first['loc'][-1] + 1}: {first['ctx']['error']}"
    body = http_error_body(
        message,
        kind="RequestError",
        location=escape_unprintable(where),
        suggestions=list(first.get("suggestions", ())),
        hint=hint,
    )
    return Response(encode_json(body), 422, None, JSON)


async def _handle_http_error(request: Request, error: HTTPException) -> Response:
    words = {404: "there is nothing at this path", 405: f"this path does not take {request.method}"}
    hint = OPENAPI_HINT if error.status_code in words else None
    if error.status_code == 400:  # of the routes none refuses so: the body could not be read
        words, hint = {400: f"the body is no JSON: {_unreadable_reason(error.__cause__)}"}, SEND_JSON_HINT
    body = http_error_body(words.get(error.status_code, str(error.detail)), hint=hint)
    return Response(encode_json(body), error.status_code, error.headers, JSON)


def _unreadable_reason(cause: BaseException | None) -> str:
    """Why a body cannot even be read as text, or is too much for a reader."""
    if isinstance(cause, UnicodeDecodeError):
        return f"it is not UTF-8, at byte {cause.start + 1}"
    return "it is nested too deeply" if isinstance(cause, RecursionError) else "it cannot be read"

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

from gaifman import __version__, insights, messages, replies
from gaifman.config import Serving
from gaifman.deadlines import Deadline
from gaifman.desk import Desk
from gaifman.errors import BusyError, GaifmanError, OutputError, StoppedError, shorten, visible
from gaifman.facts import Fact
from gaifman.gates import Gate
from gaifman.guards import ALWAYS, Guard
from gaifman.messages import AnswersBody, Count, ErrorBody, FactsBody, QueryBody, Whole, encoded, failure, refusal
from gaifman.meters import CONTENT_TYPE, Meters
from gaifman.names import nearest
from gaifman.replies import ExplanationBody, ReadingBody
from gaifman.service import Around, Asked, Exact, Page, Service

WEB = Path(__file__).parent / "web"
"""The files of the page; each is served under its own name."""
KINDS = {
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
OPENAPI = "/openapi.json describes what there is"
SEND = "send JSON, with Content-Type: application/json"

router = APIRouter()
_bearer = HTTPBearer(auto_error=False, description="The token that the server was started with.")


Work = Callable[[Service, Deadline], dict[str, Any]]


class Hall:
    """What the routes of one application share."""

    def __init__(self, desk: Desk, serving: Serving) -> None:
        self.desk, self.serving, self.meters = desk, serving, Meters()
        self.looking, self.asking, self.computing = Gate(serving), Gate(serving), Gate(serving)
        self.adding = Gate(replace(serving, at_once=1))  # they go one after another anyway
        self.gates = (self.looking, self.asking, self.computing, self.adding)
        """One for each kind of work, so that who browses waits neither behind queries nor rankings nor additions."""
        self.since = time.monotonic()
        self.meters.watch("gaifman_running_requests", lambda: sum(gate.running for gate in self.gates))
        self.meters.watch("gaifman_waiting_requests", lambda: sum(gate.waiting for gate in self.gates))
        self.meters.watch("gaifman_objects", lambda: len(desk.service.kb.objects))
        self.meters.watch("gaifman_facts", lambda: len(desk.service.kb))

    async def said(self, work: Work) -> Response:
        """What a service says when it looks something up; turned into JSON behind the gate too."""
        return await self._through(self.looking, work)

    async def asked(self, work: Work) -> Response:
        """What a service says when it asks the database."""
        return await self._through(self.asking, work)

    async def computed(self, work: Work) -> Response:
        """What a service says after computing."""
        return await self._through(self.computing, work)

    async def _through(self, gate: Gate, work: Work) -> Response:
        service = self.desk.service
        return Response(await gate.run(lambda deadline: encoded(work(service, deadline))), media_type=JSON)

    def close(self) -> None:
        """Stop all work."""
        for gate in self.gates:
            gate.close()
        self.desk.service.engine.interrupt()
        self.desk.close()


def app_of(desk: Desk, hosts: Iterable[str] = ()) -> FastAPI:
    """The application; `hosts` are names under which it may be asked, besides the loopback's."""
    serving = desk.service.serving
    hall = Hall(desk, serving)

    @asynccontextmanager
    async def living(_: FastAPI) -> AsyncIterator[None]:
        yield
        hall.close()

    pages = page_files()
    paths = [*(route.path for route in router.routes), *pages, "/openapi.json"]  # type: ignore[attr-defined]
    errors = {code: {"model": ErrorBody} for code in (400, 403, 405, 408, 413, 421, 422, 431, 500, 503)}
    app = FastAPI(
        title="gaifman",
        version=__version__,
        description="The missing facts of a knowledge base, with probabilities and reasons.",
        docs_url=None,  # they load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,  # a path is right, or there is nothing at it
        dependencies=[Depends(right)],
        lifespan=living,
        responses=errors,  # type: ignore[arg-type]
        middleware=[Middleware(Guard, paths=paths, hosts=tuple(hosts), serving=serving, meters=hall.meters)],
    )
    app.state.hall = hall
    app.include_router(router)
    for path, (body, kind) in pages.items():
        app.add_route(path, _page(body, kind), include_in_schema=False)
    for error, answer in ((GaifmanError, _wrong), (RequestValidationError, _invalid), (HTTPException, _http)):
        app.add_exception_handler(error, answer)  # type: ignore[arg-type]
    return app


async def hall_of(request: Request) -> Hall:  # async: others take a thread of a pool, which may be full
    """What the application of a request shares."""
    return _hall(request)


def _hall(request: Request) -> Hall:
    hall: Hall = request.app.state.hall
    return hall


async def right(request: Request) -> None:
    """Refuses parameters that a route does not have, or has once: they would count for nothing without a word."""
    path = request.scope["route"].path
    if path in ALWAYS or not request.scope["query_string"]:  # probes may send what they like
        return
    known = request.app.openapi()["paths"][path][request.method.lower()].get("parameters", [])
    several = {one["name"]: one["schema"].get("type") == "array" for one in known}
    given = Counter(name for name, _ in request.query_params.multi_items())
    for name, times in given.items():
        what = {"loc": ("query", shorten(name)), "type": "parameter"}
        if name not in several:
            hint = f"its parameters: {', '.join(several)}" if several else "it has no parameters"
            what |= {"msg": "there is no such parameter", "near": nearest(name, several), "hint": hint}
            raise RequestValidationError([what])
        if times > 1 and not several[name]:
            raise RequestValidationError([what | {"msg": "it is given more than once", "hint": "give it once"}])


Here = Annotated[Hall, Depends(hall_of)]
Text = Annotated[str, Query(description="A part of the name; large and small letters are the same.")]
Skip = Annotated[Whole, Query(description="Rows before the first.")]
Rows = Annotated[Count, Query(description="Rows at most.")]


@router.get("/api/health", response_model=messages.Health)
async def health(hall: Here) -> Response:
    """Whether the server lives; answered however busy it is."""
    seconds = round(time.monotonic() - hall.since, 3)
    return Response(encoded({"status": "ok", "version": __version__, "seconds": seconds}), media_type=JSON)


@router.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
async def metrics(hall: Here) -> Response:
    """What the server counts about itself, in the text format of Prometheus."""
    return Response(hall.meters.text(), media_type=CONTENT_TYPE)


@router.get("/api/about", response_model=messages.About)
async def about(hall: Here) -> Response:
    """What is served: knowledge base, model, limits."""
    more = {"edit": hall.desk.may_edit, "python": hall.desk.python, "limits": asdict(hall.serving)}
    return await hall.said(lambda service, _: {**service.about(), **more})


@router.get("/api/objects", response_model=messages.Objects)
async def objects(hall: Here, text: Text = "", skip: Skip = 0, rows: Rows = 20) -> Response:
    """Objects whose name has a text in it: those that begin with it first."""
    return await hall.said(lambda service, _: service.objects(text, Page(skip, rows)))


@router.get("/api/object", response_model=messages.Object)
async def one_object(hall: Here, name: Annotated[str, Query(description="The whole name.")]) -> Response:
    """One object: types, numbers, how many facts and neighbours."""
    return await hall.said(lambda service, _: service.object(name))


@router.get("/api/relations", response_model=messages.Relations)
async def relations(hall: Here, text: Text = "", skip: Skip = 0, rows: Rows = 100) -> Response:
    """Relations whose name has a text in it."""
    return await hall.said(lambda service, _: service.relations(text, Page(skip, rows)))


@router.get("/api/facts", response_model=messages.Facts)
async def facts(
    hall: Here,
    relation: Annotated[str | None, Query(description="Only facts of this relation.")] = None,
    object: Annotated[str | None, Query(description="Only facts with this object.")] = None,  # noqa: A002
    skip: Skip = 0,
    rows: Rows = 100,
) -> Response:
    """Facts, sorted by relation and objects."""
    return await hall.said(lambda service, _: service.facts(Page(skip, rows), relation, object))


@router.post("/api/query", response_model=messages.QueryAnswers)
async def query(hall: Here, body: QueryBody) -> Response:
    """Exact answers of a first-order query over the whole knowledge base."""
    exact = Exact(body.query, body.given, Page(body.skip, body.rows), body.count, body.why)
    return await hall.asked(lambda service, deadline: service.query(exact, deadline))


@router.post("/api/answers", response_model=messages.Answers)
async def answers(hall: Here, body: AnswersBody) -> Response:
    """The answers that the model finds most probable, with standard errors."""
    asked = Asked(**body.model_dump())
    return await hall.computed(lambda service, deadline: service.answers(asked, deadline))


@router.post("/api/reading", response_model=replies.Reading)
async def reading(hall: Here, body: ReadingBody) -> Response:
    """How a text is read as a query; what is wrong with it is an answer here, so it can be asked at every key."""
    return await hall.said(lambda service, _: insights.reading(service, body.query, body.given))


@router.post("/api/explanation", response_model=replies.Explained)
async def explanation(hall: Here, body: ExplanationBody) -> Response:
    """Why an answer is as probable as the model says: formulas and facts, what if these were not known, a picture."""
    doubted = insights.Doubted(**body.model_dump())
    return await hall.computed(lambda service, deadline: insights.explanation(service, doubted, deadline))


@router.get("/api/examples", response_model=replies.Examples)
async def examples(
    hall: Here,
    object: Annotated[str | None, Query(description="Only questions of this object to the model.")] = None,  # noqa: A002
) -> Response:
    """What is worth asking here: of the knowledge base, or of one object."""
    if object is not None:
        return await hall.said(lambda service, _: {"examples": insights.questions(service, object)})
    return await hall.asked(lambda service, deadline: {"examples": insights.examples(service, deadline)})


@router.get("/api/neighbourhood", response_model=messages.Neighbourhoods)
async def neighbourhood(
    hall: Here,
    object: Annotated[list[str], Query(min_length=1, max_length=8, description="Once for each object of the tuple.")],  # noqa: A002
    radius: Annotated[Whole, Query(description="How many steps away members may be.")] = 1,
    size: Annotated[Count, Query(description="Members besides the tuple's own objects at most.")] = 20,
    draws: Annotated[Count, Query(description="How many neighbourhoods.")] = 1,
    seed: Annotated[Whole, Query(description="The same seed draws the same.")] = 0,
) -> Response:
    """Neighbourhoods drawn around some objects, with the facts inside."""
    around = Around(tuple(object), radius, size, draws, seed)
    return await hall.computed(lambda service, deadline: service.neighbourhood(around, deadline))


@router.get("/api/degrees", response_model=messages.Degrees)
async def degrees(hall: Here) -> Response:
    """How many objects have how many neighbours."""
    return await hall.said(lambda service, _: service.degrees())


@router.get("/api/model", response_model=messages.Card)
async def model(hall: Here) -> Response:
    """What the model is: how it was trained, how well it does, what it must not be used for."""
    return await hall.said(lambda service, _: service.card())


async def editor(hall: Here, given: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]) -> None:
    """Lets nobody through who may not add facts."""
    if not hall.desk.may_edit:
        raise HTTPException(403, "this server adds no facts; it was started without --allow-edit")
    if given is None or not hall.desk.trusts(given.credentials):
        raise HTTPException(401, "adding facts takes the token of this server", {"WWW-Authenticate": "Bearer"})


@router.post(
    "/api/facts",
    response_model=messages.Added,
    responses={401: {"model": ErrorBody}},
    dependencies=[Depends(editor)],
)
async def add(hall: Here, body: FactsBody) -> Response:
    """Add facts, all of them or none: the next answer knows them, and so does the server after a restart."""
    new = [Fact(fact.relation, tuple(fact.objects), fact.confidence) for fact in body.facts]
    found = await hall.adding.run(lambda deadline: hall.desk.add(new, fresh=body.new_objects, deadline=deadline))
    hall.meters.added.inc(found["added"])
    return Response(encoded(found), media_type=JSON)


# The page


def page_files() -> dict[str, tuple[bytes, str]]:
    """Path → content and kind of each file of the page, read once: no path of a request ever leads to a file."""
    files = sorted(path for path in WEB.rglob("*") if path.suffix in KINDS)
    found = {f"/{path.relative_to(WEB).as_posix()}": (path.read_bytes(), KINDS[path.suffix]) for path in files}
    return found | ({"/": found["/index.html"]} if "/index.html" in found else {})


def _page(body: bytes, kind: str) -> Callable[[Request], Any]:
    async def page(_: Request) -> Response:
        return Response(body, media_type=kind, headers={"cache-control": "no-cache"})

    return page


# Errors


async def _wrong(request: Request, error: GaifmanError) -> Response:
    hall, headers, status = _hall(request), dict[str, str](), 422
    if isinstance(error, BusyError | StoppedError):
        (hall.meters.refused if isinstance(error, BusyError) else hall.meters.stopped).inc()
        wait = 1 if isinstance(error, BusyError) else math.ceil(hall.serving.seconds)
        status, headers = 503, {"retry-after": str(wait)}
    elif isinstance(error, OutputError):
        status = 500
    return Response(encoded(refusal(error)), status, headers, JSON)


async def _invalid(_: Request, error: RequestValidationError) -> Response:
    """The first of what does not fit the description of the request."""
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    hint = first.get("hint") or (SEND if where == "body" else OPENAPI)
    message = f"{where}: {first['msg']}"
    if first["type"] == "json_invalid":
        where, hint = f"body, character {first['loc'][-1] + 1}", SEND
        message = f"the body is no JSON, at character {first['loc'][-1] + 1}: {first['ctx']['error']}"
    body = failure(message, kind="RequestError", where=visible(where), near=list(first.get("near", ())), hint=hint)
    return Response(encoded(body), 422, None, JSON)


async def _http(request: Request, error: HTTPException) -> Response:
    words = {404: "there is nothing at this path", 405: f"this path does not take {request.method}"}
    hint = OPENAPI if error.status_code in words else None
    if error.status_code == 400:  # of the routes none refuses so: the body could not be read
        words, hint = {400: f"the body is no JSON: {_trouble(error.__cause__)}"}, SEND
    body = failure(words.get(error.status_code, str(error.detail)), hint=hint)
    return Response(encoded(body), error.status_code, error.headers, JSON)


def _trouble(cause: BaseException | None) -> str:
    """Why a body cannot even be read as text, or is too much for a reader."""
    if isinstance(cause, UnicodeDecodeError):
        return f"it is not UTF-8, at byte {cause.start + 1}"
    return "it is nested too deeply" if isinstance(cause, RecursionError) else "it cannot be read"

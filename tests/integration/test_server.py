"""A real server on the loopback."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import quote

import pytest

import gaifman
from constrained import completed, completed_by_default, countries
from gaifman.config import Deadline
from gaifman.kb.gaifman_graph import GaifmanGraph, build_graph
from gaifman.kb.knowledge_base import Fact, KnowledgeBase
from gaifman.server.app import STATIC_DIR, create_app, static_files
from gaifman.server.edits import EditsFile
from gaifman.server.middleware import SECURITY_HEADERS, ServerLimits
from gaifman.server.schemas import AnswersRequest
from gaifman.server.service import Service
from gaifman.server.state import ServerState
from http_client import ENDLESS, PATIENT, TIMEOUT, TOKEN, Client, metric, serving, unanswered
from processes import wait_until
from trained import FEW, demo, neighbour, towns, worker

HOSTILE = [
    "<script>alert(1)</script>",
    "\"><img src=x onerror='alert(1)'>",
    "a\u202eb\u2066c",
    "line\nbreak\ttab\x1b[31m\x7f",
    "' OR 1=1 --",
    "../../etc/passwd",
    "%2e%2e%2f",
    "{{7*7}}${7*7}",
    "\u0000".replace("\u0000", "\u0001"),
    "e\u0301\U0001f600",
]


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A server with a model that can add facts."""
    edits = EditsFile(tmp_path_factory.mktemp("served") / "new.facts")
    with serving(ServerState(Service(towns(), worker(), PATIENT), edits, TOKEN)) as found:
        yield found


@pytest.fixture(scope="module")
def bare() -> Iterator[Client]:
    """A server without a model, with hostile names."""
    kb = demo().with_facts([("borders", name, "france") for name in HOSTILE])
    with serving(ServerState(Service(kb, limits=PATIENT))) as found:
        yield found


def test_every_route(client: Client) -> None:
    assert client.get("/api/health").json["status"] == "ok"
    about = client.get("/api/about").json
    assert about["editable"] is True
    assert about["limits"]["seconds"] == 300
    assert client.get("/api/objects?text=p0&rows=2").json["truncated"]
    assert client.get("/api/object?name=p03").json["values"] == {"age": 23.0}
    assert len(client.get("/api/relations").json["relations"]) == 6
    assert client.get("/api/facts?relation=town_of&rows=2").json["count"] == 5
    found = client.post("/api/query", {"query": "town_of(x, 'c0')", "count": True}).json
    assert found["count"] == len(found["answers"]) == 3
    ranked = client.post("/api/answers", {"bindings": {"x": "p01"}, "top": 2}).json
    assert ranked["answers"] == worker().answers(x="p01", top=2).as_dict()["answers"]
    assert len(client.get("/api/neighbourhood?object=p00&object=t0&size=3&draws=2").json["draws"]) == 2
    assert client.get("/api/degrees").json["objects"] == 47
    assert client.get("/api/model-card").json["card"].startswith("# Model of")
    assert b"gaifman_requests_total" in client.get("/metrics").body


@pytest.mark.parametrize("make", [completed, completed_by_default])
def test_constraints_act_on_served_answers_and_can_be_switched_off(make: Callable[[], gaifman.Completion]) -> None:
    completion, query = make(), "capital('country03', y)"
    with serving(ServerState(Service(countries(), completion, PATIENT))) as client:
        found = client.post("/api/answers", {"query": query, "top": 2}).json
        assert found == {**completion.answers(query, top=2).as_dict(), "truncated": True}
        assert found["answers"][1]["conflicts"][0]["message"] == "conflicts with capital(country03, first03)"
        address = f"query={quote(query)}&constraints=false"
        plain = client.get(f"/api/answers?top=2&{address}").json["answers"]
        assert plain == completion.answers(query, top=2, constraints=False).as_dict()["answers"]
        asked = {"query": query, "answer": ["second03"]}
        reasons = client.post("/api/explanations", asked).json["reasons"]
        assert (reasons[0]["kind"], reasons[0]["facts"][0]["objects"]) == ("constraint", ["country03", "first03"])
        reasons = client.get(f"/api/explanations?answer=second03&{address}").json["reasons"]
        assert {reason["kind"] for reason in reasons} == {"formula"}
        added = Service(countries(), completion).with_facts([Fact("capital", ("country39", "second39"))])
        [first, *_] = added.answers(AnswersRequest(query="capital('country39', 'first39')"), Deadline()).answers
        assert first.conflicts[0].message == "conflicts with capital(country39, second39)"


def test_a_completion_is_asked_for_its_relations() -> None:
    completion = gaifman.complete(towns(), ["works_in"], **FEW)
    with serving(ServerState(Service(towns(), completion, PATIENT))) as client:
        found = client.post("/api/answers", {"query": "works_in('p01', y)", "top": 2})
        assert found.json["answers"] == completion.answers("works_in('p01', y)", top=2).as_dict()["answers"]
        assert client.get("/api/relations?text=works").json["relations"][0]["trained"] is True


def test_get_returns_what_post_returns_and_can_be_cached(client: Client) -> None:
    query = quote("works_in('p01', y)")
    pairs: list[tuple[str, dict[str, object]]] = [
        (f"/api/answers?query={query}&top=2&prior=0.1&draws=2", {"top": 2, "prior": 0.1, "draws": 2}),
        (f"/api/explanations?query={query}&answer=t1&top=2", {"answer": ["t1"], "top": 2}),
    ]
    for address, body in pairs:
        first = client.get(address)
        assert first.json == client.post(address.partition("?")[0], {"query": "works_in('p01', y)", **body}).json
        assert first.headers["cache-control"] == "no-cache"
        tag = first.headers["etag"]
        for known in (tag, f"W/{tag}", f'"other", {tag}', "*"):
            again = client.get(address, **{"if-none-match": known})
            assert (again.status, again.body, again.headers["etag"]) == (304, b"", tag)
            assert again.headers["cache-control"] == "no-cache"
        assert client.get(address, **{"if-none-match": '"other"'}).json == first.json
        wrong = client.get(f"{address}&top=x", **{"if-none-match": tag})
        assert (wrong.status, "etag" in wrong.headers) == (422, False)
    assert "etag" not in client.get("/api/about").headers


def test_the_etag_changes_with_the_knowledge_base(tmp_path: Path) -> None:
    state = ServerState(Service(towns(), worker(), PATIENT), EditsFile(tmp_path / "new.facts"), TOKEN)
    with serving(state) as client:
        address = "/api/answers?query=" + quote("works_in('p01', y)")
        tag = client.get(address).headers["etag"]
        client.post("/api/facts", {"facts": [{"relation": "person", "objects": ["t0"]}]}, TOKEN)
        changed = client.get(address, **{"if-none-match": tag})
        assert changed.status == 200
        assert changed.headers["etag"] != tag


def test_a_wrong_type_in_a_reply_is_an_error(
    client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Replies were once dictionaries that nothing checked."""
    monkeypatch.setattr(Service, "about", lambda _: {"objects": 1})
    assert client.get("/api/about").status == 500
    summary = build_graph(towns()).summary()
    monkeypatch.setattr(GaifmanGraph, "summary", lambda _: {**summary, "edges": "12"})
    assert client.get("/api/degrees").status == 500
    assert "edges" in caplog.text
    monkeypatch.undo()
    assert client.get("/api/degrees").status == 200


def test_every_response_has_the_security_headers(client: Client) -> None:
    for reply in (client.get("/api/about"), client.get("/nothing"), client.get("/"), client.get("/metrics")):
        names = set(SECURITY_HEADERS) - {"cache-control"}
        assert {name: reply.headers[name] for name in names} == {name: SECURITY_HEADERS[name] for name in names}
        assert "server" not in reply.headers


def test_other_paths_and_methods(client: Client) -> None:
    for path in ("/docs/", "/redoc", "/static/", "/api", "/api/facts/x", "/index.htm", "//"):
        assert client.get(path).status == 404
        assert client.get(path).error["hint"] == "/docs describes the interface"
    assert client.ask("DELETE", "/api/facts").status == 405
    assert client.ask("DELETE", "/api/facts").error["message"] == "this path does not accept DELETE"


@pytest.mark.parametrize(
    "path",
    [
        "/../pyproject.toml",
        "/..%2f..%2fserver.py",
        "/%2e%2e/server.py",
        "/web/../server.py",
        "/....//server.py",
        "/%00",
        "/\\..\\",
    ],
)
def test_no_path_leads_to_a_file(client: Client, path: str) -> None:
    reply = client.get(path)
    assert reply.status == 404
    assert b"import" not in reply.body


def test_the_files_of_the_page_are_served_and_no_others(client: Client) -> None:
    served = static_files()
    assert "/" in served
    for path, (body, kind) in served.items():
        reply = client.get(path)
        assert (reply.body, reply.headers["content-type"].split(";")[0]) == (body, kind)
    own = {f"/{path.relative_to(STATIC_DIR).as_posix()}" for path in STATIC_DIR.rglob("*") if path.is_file()}
    assert own == set(served) - {"/", "/docs"}, "every file has a known media type"
    assert b"<script>" not in served["/"][0], "the policy forbids inline scripts"


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_come_and_go_as_text(bare: Client, name: str) -> None:
    found = bare.get(f"/api/object?name={quote(name)}")
    assert found.json["name"] == name
    assert found.headers["content-type"] == "application/json"
    assert bare.get(f"/api/facts?object={quote(name)}").json["facts"][0]["objects"] == [name, "france"]
    assert bare.get(f"/api/objects?text={quote(name)}").json["objects"][0]["name"] == name
    answers = bare.post("/api/query", {"query": "borders(x, y)", "bindings": {"x": name}}).json["answers"]
    assert answers == [[name, "france"]]
    around = bare.get(f"/api/neighbourhood?object={quote(name)}").json
    assert around["draws"][0]["members"][0]["name"] == name


@pytest.mark.parametrize("name", [*HOSTILE, "\ud800", "", "x" * 5000])
def test_hostile_names_in_mistakes(client: Client, name: str) -> None:
    error = client.post("/api/query", {"query": "lives_in(x, y)", "bindings": {"x": name}}).error
    assert error["kind"] == "KnowledgeBaseError"
    assert error["message"].isprintable()
    error = client.post("/api/query", {"query": name}).error
    assert error["kind"] in ("FormulaError", "LimitError")
    assert client.post("/api/query", {"query": "p(x)", name: 1}).error["message"].isprintable()


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b'{"query": 1}',
        b'{"query": "p(x)"',
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"query": NaN}',
        b'"\\ud800"',
    ],
)
def test_broken_bodies(client: Client, body: bytes) -> None:
    reply = client.post("/api/query", body)
    assert reply.status in (400, 422)
    assert reply.error["message"]


def test_json_needs_its_content_type(client: Client) -> None:
    reply = client.ask("POST", "/api/query", b'{"query": "person(x)"}', {"content-type": "text/plain"})
    assert reply.status == 422
    assert "application/json" in reply.error["hint"]


def test_oversized_requests(client: Client) -> None:
    assert client.post("/api/query", b" " * 2_000_001).status == 413
    assert client.post("/api/query", {"query": "¬" * 10_000 + "person(x)"}).error["kind"] == "LimitError"
    assert client.get("/api/objects?rows=1001").error["message"] == "rows is at most 1,000 here, not 1,001"
    assert client.get(f"/api/objects?text={'x' * 2000}").status == 422


def test_invalid_http_is_refused(client: Client) -> None:
    for sent in (b"nonsense\r\n\r\n", b"GET / HTTP/1.1\r\n" + b"a: " + b"b" * 100_000 + b"\r\n\r\n"):
        with socket.create_connection(("127.0.0.1", client.port), timeout=TIMEOUT) as connection:
            connection.sendall(sent)
            assert connection.recv(100).startswith(b"HTTP/1.1 4")
    assert client.get("/api/health").status == 200


def test_adding_facts_needs_the_token(client: Client, bare: Client) -> None:
    new = {"facts": [{"relation": "moved", "objects": ["p01", "t0", "t3"], "confidence": 0.5}]}
    for token in (None, "guess", TOKEN + "x"):
        refused = client.post("/api/facts", new, token)
        assert (refused.status, refused.headers["www-authenticate"]) == (401, "Bearer")
        assert refused.error["message"]
    assert client.post("/api/facts", b"{", None).status in (401, 422)
    before = client.get("/api/facts?relation=moved").json["count"]
    assert client.post("/api/facts", new, TOKEN).json == {
        "added": 1,
        "already_known": 0,
        "total_facts": len(towns()) + 1,
    }
    assert client.get("/api/facts?relation=moved").json["count"] == before + 1
    assert client.post("/api/facts", new, TOKEN).json["already_known"] == 1
    wrong = client.post("/api/facts", {"facts": [{"relation": "moved", "objects": ["p01", "t0", "t33"]}]}, TOKEN)
    assert wrong.status == 422
    assert "t3" in wrong.error["suggestions"]
    assert b"gaifman_added_facts_total 1.0" in client.get("/metrics").body
    assert bare.post("/api/facts", new, TOKEN).status == 403


def test_added_facts_are_there_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "new.facts"
    for round_ in range(2):
        edits = EditsFile(path)
        with serving(ServerState(Service(edits.apply_to(towns()), worker(), PATIENT), edits, TOKEN)) as client:
            asked = client.post("/api/query", {"query": "person(x)", "bindings": {"x": "t0"}})
            assert asked.json["answers"] == [["t0"]] * round_
            client.post("/api/facts", {"facts": [{"relation": "person", "objects": ["t0"]}]}, TOKEN)


def test_stuck_queries_block_nobody() -> None:
    with serving(ServerState(Service(demo(), limits=PATIENT))) as client, ExitStack() as asked:
        for _ in range(4):
            asked.enter_context(unanswered(client, "/api/query", ENDLESS))
        wait_until(lambda: metric(client, "gaifman_running_requests") == 4)
        assert client.get("/api/health").status == 200
        assert client.post("/api/query", {"query": "borders('portugal', y)"}).status == 200
        assert metric(client, "gaifman_running_requests") == 4


def test_stuck_queries_are_stopped_at_the_time_limit() -> None:
    with serving(ServerState(Service(demo(), limits=ServerLimits(seconds=0.5)))) as client:
        for _ in range(2):
            reply = client.post("/api/query", ENDLESS)
            assert (reply.status, reply.headers["retry-after"]) == (503, "1")
            assert reply.error["kind"] == "StoppedError"
        assert b"gaifman_timeouts_total 2.0" in client.get("/metrics").body


def test_a_long_ranking_is_stopped() -> None:
    with serving(ServerState(Service(demo(), neighbour(), ServerLimits(seconds=0.5)))) as client:
        reply = client.post("/api/answers", {"draws": 100, "top": 1000})
        assert (reply.status, reply.error["kind"]) == (503, "StoppedError")
        wait_until(lambda: metric(client, "gaifman_running_requests") == 0)


def test_concurrent_rankings_are_the_same_as_single_ones(client: Client) -> None:
    people = [f"p{number:02d}" for number in range(16)]
    found: dict[str, object] = {}

    def ask(name: str) -> None:
        found[name] = client.post("/api/answers", {"bindings": {"x": name}}).json["answers"]

    jobs = [threading.Thread(target=ask, args=(name,)) for name in people]
    for job in jobs:
        job.start()
    for job in jobs:
        job.join()
    for name in people:
        assert found[name] == client.post("/api/answers", {"bindings": {"x": name}}).json["answers"]


def test_requests_are_refused_when_the_queue_is_full() -> None:
    limits = ServerLimits(max_concurrency=1, max_queued=1, seconds=3_000)
    with serving(ServerState(Service(demo(), limits=limits))) as client:
        with unanswered(client, "/api/query", ENDLESS), unanswered(client, "/api/query", ENDLESS):
            wait_until(lambda: metric(client, "gaifman_queued_requests") == 1)
            assert client.get("/api/health").status == 200
            for _ in range(6):
                reply = client.post("/api/query", ENDLESS)
                assert (reply.status, reply.headers["retry-after"]) == (503, "1")
                assert reply.error["kind"] == "BusyError"
                assert reply.error["message"] == "server overloaded: the queue is full"
        assert metric(client, "gaifman_overloaded_total") == 6
        assert client.post("/api/query", {"query": "borders('portugal', y)"}).status == 200


def test_an_empty_knowledge_base_can_be_served() -> None:
    with serving(ServerState(Service(KnowledgeBase.from_facts([])))) as client:
        assert client.get("/api/about").json["objects"] == 0
        assert client.get("/api/objects").json["objects"] == []
        assert client.get("/api/facts").json["facts"] == []
        assert client.get("/api/degrees").json["most_connected"] is None


def test_no_route_has_a_parameter_in_its_path() -> None:
    for path in create_app(ServerState(Service(towns()))).openapi()["paths"]:
        assert "{" not in path

"""`gaifman serve`, as a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

import gaifman
from commands import refused
from gaifman.cli.serve import edits_of, python_of
from gaifman.errors import OutputError
from gaifman.hosting import bound
from learnt import worker
from served import ENDLESS, Client

HERE = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent / "src")}
FACTS = "parent(ann, bob).\nparent(bob, cleo).\nperson(ann).\n"


@contextmanager
def process(
    *words: str, folder: Path, token: str = ""
) -> Iterator[tuple[Client, dict[str, Any], subprocess.Popen[str]]]:
    """A server in a folder: how to ask it, what it said at its start, and the process."""
    command = [sys.executable, "-m", "gaifman", "serve", *words, "--port", "0", "--json"]
    environment = {**HERE, "GAIFMAN_TOKEN": token}
    with subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout
        try:
            line = running.stdout.readline()
            assert line, running.communicate()
            said = json.loads(line)
            yield Client(urlsplit(said["url"]).port or 0), said, running
        finally:
            running.kill()


@pytest.fixture
def family(tmp_path: Path) -> Path:
    """A folder with a knowledge base."""
    (tmp_path / "family.facts").write_text(FACTS)
    return tmp_path


def test_it_serves_a_knowledge_base_and_ends_at_ctrl_c(family: Path) -> None:
    with process("family.facts", folder=family) as (client, said, running):
        assert said == {"url": f"http://127.0.0.1:{client.port}/", "facts": 3, "edits": 0, "token": None}
        assert client.get("/api/about").json["facts"] == 3
        assert client.post("/api/facts", {"facts": []}).status == 403
        running.send_signal(signal.SIGINT)
        _, errors = running.communicate(timeout=30)
        assert running.returncode == 130
        assert "Traceback" not in errors
    assert [path.name for path in family.iterdir()] == ["family.facts"], "what only reads leaves nothing behind"


def test_a_query_that_runs_does_not_keep_it_from_ending(tmp_path: Path) -> None:
    replies = []
    with process("demo", "--seconds", "600", folder=tmp_path) as (client, _, running):
        asking = threading.Thread(target=lambda: replies.append(client.post("/api/query", ENDLESS)))
        asking.start()
        while b"gaifman_running_requests 1.0" not in client.get("/metrics").body:
            time.sleep(0.01)
        running.send_signal(signal.SIGINT)
        _, errors = running.communicate(timeout=60)
        asking.join()
        assert running.returncode == 130
        assert "Traceback" not in errors
    assert replies[0].status == 503
    assert replies[0].error["message"] in ("the server ends", "the query was stopped")


def test_added_facts_survive_even_a_kill(family: Path) -> None:
    new = {"facts": [{"relation": "parent", "objects": ["cleo", "dan"]}], "new_objects": True}
    with process("family.facts", "--allow-edit", folder=family, token="secret") as (client, said, running):
        assert said["token"] is None, "a token that was given is not repeated"
        assert client.post("/api/facts", new, "other").status == 401
        assert client.post("/api/facts", new, "secret").json["added"] == 1
        running.kill()
    assert (family / "family.facts").read_text() == FACTS
    assert (family / "family.facts.edits.facts").read_text() == "parent(cleo, dan).\n"
    with process("family.facts", folder=family) as (client, said, _):
        assert (said["facts"], said["edits"]) == (4, 1)
        assert client.post("/api/query", {"query": "parent('cleo', y)"}).json["answers"] == [["dan"]]


def test_a_token_is_made_where_none_is_given(family: Path) -> None:
    with process("family.facts", "--allow-edit", "--edits", "more.facts", folder=family) as (client, said, _):
        assert len(said["token"]) >= 24
        new = {"facts": [{"relation": "person", "objects": ["bob"]}]}
        assert client.post("/api/facts", new, said["token"]).json["added"] == 1
    assert (family / "more.facts").read_text() == "person(bob).\n"


def test_it_serves_a_model(tmp_path: Path) -> None:
    model = worker()
    model.save(tmp_path / "work.gaifman")
    gaifman.write(model.kb, tmp_path / "towns.duckdb")
    with process("towns.duckdb", "work.gaifman", "--seconds", "300", folder=tmp_path) as (client, _, _):
        found = client.post("/api/answers", {"given": {"x": "p01"}, "top": 3}).json
        assert found["answers"] == model.answers(x="p01", top=3).as_dict()["answers"]
        read = ['kb = gaifman.read("towns.duckdb")', 'model = gaifman.load("work.gaifman", kb)']
        assert client.get("/api/about").json["python"] == ["import gaifman", *read]


def test_what_a_program_reads_is_what_is_served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert python_of(("demo",), None, None, None, "full", folders=True) == ["import gaifman", "kb = gaifman.demo()"]
    told = python_of(("/home/ann/a b.nt", "c.tsv"), "/home/ann/m", "ntriples", None, "local", folders=False)
    assert told[1:] == [
        'kb = gaifman.read("a b.nt", "c.tsv", format="ntriples", iris="local")',
        'model = gaifman.load("m", kb)',
    ]
    assert '"/home/ann/m"' in python_of(("c.tsv",), "/home/ann/m", None, "t", "full", folders=True)[2]
    Path("demo").write_text("r(a, b).")
    assert python_of(("demo",), None, None, None, "full", folders=True)[1] == 'kb = gaifman.read("demo")'


def test_for_people_it_says_where_it_is(family: Path) -> None:
    command = [sys.executable, "-m", "gaifman", "serve", "family.facts", "--port", "0", "--allow-edit"]
    with subprocess.Popen(command, cwd=family, env=HERE, stderr=subprocess.PIPE, text=True) as running:
        assert running.stderr
        end = threading.Timer(60, running.kill)
        end.start()
        lines = [running.stderr.readline() for _ in range(4)]
        running.kill()
        end.cancel()
    assert lines[0].startswith("serving <KnowledgeBase: 3 objects, 2 relations, 3 facts> at http://127.0.0.1:")
    assert lines[1] == "added facts are kept in family.facts.edits.facts: 0 so far\n"
    assert lines[2].startswith("to add facts: Authorization: Bearer ")
    assert lines[3] == "Ctrl-C ends it\n"


def test_mistakes(family: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(family)
    assert "there is no file famly.facts" in refused("serve", "famly.facts", "--port", "0").message
    assert "above 0" in refused("serve", "family.facts", "--seconds", "0").message
    assert "there is no serving at" in refused("serve", "family.facts", "--host", "no host").message
    with bound("127.0.0.1", 0) as taken:
        taken.listen()
        port = str(taken.getsockname()[1])
        assert "in use" in refused("serve", "family.facts", "--port", port).message
    assert "--edits" in refused("serve", "demo", "--port", "0", "--allow-edit").hint


def test_where_added_facts_are_kept(family: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(family)
    assert edits_of("family.facts", None, needed=False) is None
    named = edits_of("demo", "new.facts", needed=False)
    assert named is not None
    assert named.path == Path("new.facts")
    beside = edits_of("family.facts", None, needed=True)
    assert beside is not None
    assert beside.path == Path("family.facts.edits.facts")
    with pytest.raises(OutputError):
        edits_of("demo", None, needed=True)

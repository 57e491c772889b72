"""`gaifman serve`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

import gaifman
import processes
from cli_runner import here, one_message, refused
from cli_runner import run as run_here
from gaifman.cli.console import InputOptions, python_snippet
from gaifman.cli.serve import open_page, print_warning, print_warnings
from gaifman.errors import GaifmanError, OutputError
from gaifman.kb.knowledge_base import Fact, KnowledgeBase
from gaifman.server import run
from gaifman.server.edits import EditsFile
from gaifman.server.run import bind, find_edits_file, preload
from gaifman.server.service import Service
from gaifman.server.state import ServerState
from http_client import ENDLESS, Client, metric
from processes import PATIENCE, child, python, wait_until
from trained import FEW, worker

HERE = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "src")}
FACTS = "parent(ann, bob).\nparent(bob, cleo).\nperson(ann).\n"


@contextmanager
def process(
    *words: str, folder: Path, token: str = ""
) -> Iterator[tuple[Client, dict[str, Any], subprocess.Popen[str]]]:
    """Run a server in a folder; yield a client, what it printed first, and the process."""
    command = python("-m", "gaifman", "serve", *words, "--port", "0", "--json")
    with child(command, cwd=folder, env={**HERE, "GAIFMAN_TOKEN": token}) as running:
        assert running.stdout
        line = running.stdout.readline()
        assert line, running.communicate()
        said = json.loads(line)
        yield Client(urlsplit(said["url"]).port or 0), said, running


@pytest.fixture
def family(tmp_path: Path) -> Path:
    """A folder with a knowledge base."""
    (tmp_path / "family.facts").write_text(FACTS)
    return tmp_path


def test_a_knowledge_base_is_served_until_ctrl_c(family: Path) -> None:
    with process("family.facts", folder=family) as (client, said, running):
        assert said == {"url": f"http://127.0.0.1:{client.port}/", "facts": 3, "edits": 0, "token": None}
        assert client.get("/api/about").json["facts"] == 3
        assert client.post("/api/facts", {"facts": []}).status == 403
        running.send_signal(signal.SIGINT)
        _, errors = running.communicate(timeout=PATIENCE)
        assert running.returncode == 130
        assert "Traceback" not in errors
    assert [path.name for path in family.iterdir()] == ["family.facts"], "a read-only server writes nothing"


def test_a_running_query_does_not_delay_the_end(tmp_path: Path) -> None:
    replies = []
    with process("demo", "--seconds", "600", folder=tmp_path) as (client, _, running):
        asking = threading.Thread(target=lambda: replies.append(client.post("/api/query", ENDLESS)))
        asking.start()
        wait_until(lambda: metric(client, "gaifman_running_requests") == 1)
        running.send_signal(signal.SIGINT)
        _, errors = running.communicate(timeout=PATIENCE)
        asking.join()
        assert running.returncode == 130
        assert "Traceback" not in errors
    assert replies[0].status == 503
    assert replies[0].error["message"] in ("the server is stopping", "the query was cancelled")


def test_added_facts_survive_even_a_kill(family: Path) -> None:
    new = {"facts": [{"relation": "parent", "objects": ["cleo", "dan"]}], "new_objects": True}
    with process("family.facts", "--allow-edit", folder=family, token="secret") as (client, said, running):
        assert said["token"] is None, "a given token is not printed"
        assert client.post("/api/facts", new, "other").status == 401
        assert client.post("/api/facts", new, "secret").json["added"] == 1
        running.kill()
    assert (family / "family.facts").read_text() == FACTS
    assert ("parent", "cleo", "dan") in EditsFile(family / "family.facts.edits.facts").kb
    with process("family.facts", folder=family) as (client, said, _):
        assert (said["facts"], said["edits"]) == (4, 1)
        assert client.post("/api/query", {"query": "parent('cleo', y)"}).json["answers"] == [["dan"]]


def test_a_token_is_made_where_none_is_given(family: Path) -> None:
    with process("family.facts", "--allow-edit", "--edits", "more.facts", folder=family) as (client, said, _):
        assert len(said["token"]) >= 24
        new = {"facts": [{"relation": "person", "objects": ["bob"]}]}
        assert client.post("/api/facts", new, said["token"]).json["added"] == 1
    assert [str(fact) for fact in EditsFile(family / "more.facts").kb.facts()] == ["person(bob)."]


def test_a_model_is_served(tmp_path: Path) -> None:
    model = worker()
    model.save(tmp_path / "work.gaifman")
    gaifman.write(model.kb, tmp_path / "towns.duckdb")
    with process("towns.duckdb", "work.gaifman", "--seconds", "300", folder=tmp_path) as (client, _, _):
        found = client.post("/api/answers", {"bindings": {"x": "p01"}, "top": 3}).json
        assert found["answers"] == model.answers(x="p01", top=3).as_dict()["answers"]
        read = ['kb = gaifman.read("towns.duckdb")', 'model = gaifman.load("work.gaifman", kb)']
        assert client.get("/api/about").json["python"] == ["import gaifman", *read]


def test_the_python_snippet_reads_what_is_served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert python_snippet(["demo"], InputOptions()) == [
        "import gaifman",
        "kb = gaifman.demo()",
    ]
    told = python_snippet(
        ["/home/ann/a b.nt", "c.tsv"], InputOptions("ntriples", None, "local"), "/home/ann/m", full_paths=False
    )
    assert told[1:] == [
        'kb = gaifman.read("a b.nt", "c.tsv", format="ntriples", iris="local")',
        'model = gaifman.load("m", kb)',
    ]
    assert '"/home/ann/m"' in python_snippet(["c.tsv"], InputOptions(table="t"), "/home/ann/m")[2]
    Path("demo").write_text("r(a, b).")
    assert python_snippet(["demo"], InputOptions())[1] == 'kb = gaifman.read("demo")'


def test_the_address_is_printed(family: Path) -> None:
    command = python("-m", "gaifman", "serve", "family.facts", "--port", "0", "--allow-edit")
    with child(command, cwd=family, env=HERE) as running:
        assert running.stderr
        lines = [running.stderr.readline() for _ in range(4)]
    assert lines[0].startswith("serving <KnowledgeBase: 3 objects, 2 relations, 3 facts> at http://127.0.0.1:")
    assert lines[1] == "added facts: 0, stored in family.facts.edits.facts\n"
    assert lines[2].startswith("to add facts: Authorization: Bearer ")
    assert lines[3] == "press Ctrl-C to stop\n"


def test_mistakes(family: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(family)
    assert "there is no file famly.facts" in refused("serve", "famly.facts", "--port", "0").message
    assert "above 0" in refused("serve", "family.facts", "--seconds", "0").message
    assert "at most 86,400" in refused("serve", "family.facts", "--seconds", "inf").message
    assert "from 1 to 1,000" in refused("serve", "family.facts", "--max-concurrency", "1001").message
    assert "cannot bind to" in refused("serve", "family.facts", "--host", "no host").message
    with bind("127.0.0.1", 0) as taken:
        taken.listen()
        port = str(taken.getsockname()[1])
        assert "in use" in refused("serve", "family.facts", "--port", port).message
    assert "--edits" in refused("serve", "demo", "--port", "0", "--allow-edit").hint


def test_facts_added_while_the_knowledge_base_is_read_are_not_lost(
    family: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file of added facts was read first, then the knowledge base, and only then was the file locked."""
    monkeypatch.chdir(family)
    seen = []

    def reading(*_: object) -> KnowledgeBase:
        with pytest.raises(OutputError, match="in use by another server"):  # nobody adds while this goes on
            EditsFile("family.facts.edits.facts").lock()
        return gaifman.read("family.facts")

    def running(state: ServerState, *_: object, **__: object) -> None:
        state.add_facts([Fact("person", ("cleo",))])
        seen.append(len(state.service.kb))

    def between(*words: Any, **options: Any) -> Any:
        found = find_edits_file(*words, **options)  # not yet locked: a server that still runs adds a fact, and stops
        other = EditsFile("family.facts.edits.facts")
        other.lock()
        other.add([Fact("person", ("bob",))])
        other.close()
        return found

    monkeypatch.setattr(run, "find_edits_file", between)
    monkeypatch.setattr(run, "run_server", running)
    monkeypatch.setattr(InputOptions, "read", reading)
    here("serve", "family.facts", "--port", "0", "--allow-edit")
    assert seen == [5]
    kept = EditsFile("family.facts.edits.facts").kb
    assert [str(fact) for fact in kept.facts()] == ["person(bob).", "person(cleo)."]


def test_a_model_that_has_nothing_to_do_with_the_knowledge_base_is_refused_at_the_start(family: Path) -> None:
    """The server began, wrote a traceback, and refused every ranking."""
    (family / "other.facts").write_text("eats(cat, mouse).\n")
    worker().save(family / "work.gaifman")
    gaifman.complete(worker().kb, ["works_in"], **FEW).save(family / "all.gaifman")
    for model, query in (("work.gaifman", []), ("all.gaifman", ["works_in(x, y)"])):
        served = processes.run(
            python("-m", "gaifman", "serve", "other.facts", model, "--port", "0"), cwd=family, env=HERE
        )
        answered = run_here("answer", model, "other.facts", *query, folder=family)
        for done in (served, answered):
            one_message(done, "the knowledge base has none of the")
        assert served.stderr == answered.stderr


def test_a_failed_preload_is_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    class Broken(Service):
        def preload(self) -> None:
            raise GaifmanError("it is not to be", hint="try another")

    preload(Broken(gaifman.demo()), print_warning)
    assert capsys.readouterr().err == "warning: it is not to be\n"


@pytest.mark.parametrize("token", [" ", "\t\n", " x", "x "])
def test_a_blank_token_is_refused(token: str, family: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(family)
    monkeypatch.setenv("GAIFMAN_TOKEN", token)
    assert "blank" in refused("serve", "family.facts", "--port", "0", "--allow-edit").message
    assert [path.name for path in family.iterdir()] == ["family.facts"]


@pytest.mark.parametrize(
    ("host", "names", "token", "said"),
    [
        ("127.0.0.1", [], "short", []),
        ("0.0.0.0", [], "", ["without encryption", "--allow-host"]),
        ("0.0.0.0", ["here.example"], "short", ["without encryption", "a token of 5 characters"]),
        ("0.0.0.0", ["here.example"], "x" * 16, ["without encryption"]),
    ],
)
def test_warnings_of_a_public_server(
    host: str, names: list[str], token: str, said: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with bind(host, 0) as listening:
        print_warnings(listening, names, token)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == len(said)
    assert all(words in line for words, line in zip(said, lines, strict=True))


@pytest.mark.parametrize("script", [None, "#!/bin/sh\necho no browser 1 >&2\nexit 3\n", "#!/bin/sh\nexit 0\n"])
def test_without_a_browser_the_address_is_printed(
    script: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    if script:
        (tmp_path / "xdg-open").write_text(script)
        (tmp_path / "xdg-open").chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "platform", "linux")
    open_page("http://127.0.0.1:1/")
    found = script is not None and "exit 0" in script
    assert capfd.readouterr().err == ("" if found else "no browser found: open http://127.0.0.1:1/\n")


def test_where_added_facts_are_kept(family: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(family)
    assert find_edits_file("family.facts", None, needed=False) is None
    named = find_edits_file("demo", "new.facts", needed=False)
    assert named is not None
    assert named.path == Path("new.facts")
    beside = find_edits_file("family.facts", None, needed=True)
    assert beside is not None
    assert beside.path == Path("family.facts.edits.facts")
    with pytest.raises(OutputError):
        find_edits_file("demo", None, needed=True)


def test_a_link_to_a_knowledge_base_has_its_added_facts(family: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A link once had a file of its own: two servers of one knowledge base knew different facts."""
    monkeypatch.chdir(family)
    Path("link.facts").symlink_to("family.facts")
    Path("next.facts").symlink_to("link.facts")
    for name in ("family.facts", "link.facts", "next.facts"):
        found = find_edits_file(name, None, needed=True)
        assert found is not None
        assert found.path.resolve() == (family / "family.facts.edits.facts").resolve()
    EditsFile("link.facts.edits.facts").add([Fact("person", ("cleo",))])
    with pytest.raises(OutputError, match=r"is a link: .* belong in .*/family\.facts\.edits\.facts") as caught:
        find_edits_file("link.facts", None, needed=False)
    assert "--edits" in caught.value.hint
    Path("family.facts.edits.facts").symlink_to("link.facts.edits.facts")
    assert len(find_edits_file("link.facts", None, needed=False) or ()) == 1, "they are one file"


def test_added_facts_are_not_written_into_the_knowledge_base(family: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(family)
    Path("link.facts").symlink_to("family.facts")
    for name in ("family.facts", "link.facts"):
        with pytest.raises(OutputError, match="is the knowledge base itself"):
            find_edits_file("family.facts", name, needed=True)


def test_notes_about_added_facts_are_warnings(family: Path) -> None:
    (family / "family.facts.edits.facts").write_text("person(cleo).\n")
    with process("family.facts", folder=family) as (_, said, running):
        assert said["edits"] == 1
        running.send_signal(signal.SIGINT)
        assert "warning: family.facts.edits.facts has no checksums" in running.communicate(timeout=PATIENCE)[1]

"""`gaifman review` and `gaifman add`: from proposed facts to a knowledge base with decisions."""

from __future__ import annotations

import csv
import io
import json
import os
import pty
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import gaifman
from cli_runner import here, one_message, refused, run
from gaifman.errors import InputError, KnowledgeBaseError, OutputError
from processes import PATIENCE, child, wait_until

FACTS = """% countries and their capitals
capital(france, paris).
capital(spain, madrid).
country(peru).
city(lima).
city(cusco).
country(chile).
"""
MISSING = """head,relation,tail,probability,rank,conflicts,reason,model
peru,capital,lima,0.97,1,,near(lima),m.gaifman
peru,capital,cusco,0.6,2,conflicts with capital(peru),,m.gaifman
chile,capital,lima,0.5,3,,,m.gaifman
"""
DAY = ("--date", "2026-05-01")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kb.facts").write_text(FACTS)
    (tmp_path / "missing.csv").write_text(MISSING)
    return tmp_path


def keys(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))


def decisions(name: str = "missing.reviewed.csv") -> list[str]:
    with Path(name).open() as file:
        return [row["accept"] for row in csv.DictReader(file)]


# Review


def test_each_fact_is_shown_and_decided(monkeypatch: pytest.MonkeyPatch) -> None:
    keys(monkeypatch, "a\nr\ns\n")
    done = here("review", "missing.csv")
    assert done.stdout == "accepted   1\nrejected   1\nundecided  1\n"
    assert "capital(peru, lima)  0.970\n  reason: near(lima)\n[3 left] accept" in done.stderr
    assert "conflicts: conflicts with capital(peru)" in done.stderr
    assert "wrote missing.reviewed.csv; to add the accepted facts: gaifman add KB missing.reviewed.csv" in done.stderr
    assert decisions() == ["yes", "no", ""]
    assert Path("missing.csv").read_text() == MISSING


def test_the_same_command_continues(monkeypatch: pytest.MonkeyPatch) -> None:
    keys(monkeypatch, "a q")
    here("review", "missing.csv")
    keys(monkeypatch, "r")
    done = here("review", "missing.csv")
    assert "2 facts of 3 to decide" in done.stderr
    assert "capital(peru, lima)" not in done.stderr
    assert decisions() == ["yes", "no", ""]
    keys(monkeypatch, "a")
    here("review", "missing.reviewed.csv")
    assert decisions() == ["yes", "no", "yes"]
    assert "to decide" not in here("review", "missing.csv").stderr


def test_a_step_can_be_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    keys(monkeypatch, "u a s u u r a a")
    done = here("review", "missing.csv")
    assert done.stderr.count("nothing to undo") == 1
    assert done.stderr.count("undone") == 2
    assert decisions() == ["no", "yes", "yes"]


def test_sure_facts_without_conflicts_are_accepted_without_asking(monkeypatch: pytest.MonkeyPatch) -> None:
    keys(monkeypatch, "r q")
    done = here("review", "missing.csv", "--accept-above", "0.5", "--json", "-o", "checked.tsv")
    assert json.loads(done.stdout) == {"written": "checked.tsv", "accepted": 2, "rejected": 1, "undecided": 0}
    assert "accepted without asking: 2 facts with 0.5 or more" in done.stderr
    assert Path("checked.tsv").read_text().splitlines()[0].split("\t")[-1] == "accept"


def test_comments_and_decisions_by_hand_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = MISSING.splitlines()
    text = "\n".join(
        ["Accept;" + lines[0].replace(",", ";") + ";note", *(";" + x.replace(",", ";") for x in lines[1:])]
    )
    Path("missing.csv").write_text(text.replace("\n;peru;capital;lima", "\nTRUE;peru;capital;lima") + ";ask ann\n")
    keys(monkeypatch, "r a")
    done = here("review", "missing.csv")
    assert "  note: ask ann" in done.stderr
    with Path("missing.reviewed.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["Accept"] for row in rows] == ["yes", "no", "yes"]
    assert rows[2]["note"] == "ask ann"


def test_a_file_of_other_facts_is_not_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    keys(monkeypatch, "a q")
    here("review", "missing.csv")
    Path("missing.csv").write_text(MISSING.replace("chile", "peru2"))
    error = refused("review", "missing.csv")
    assert isinstance(error, OutputError)
    assert "not a review of the same facts" in str(error)
    assert decisions() == ["yes", "", ""]
    keys(monkeypatch, "")
    here("review", "missing.csv", "--force")
    assert decisions() == ["", "", ""]


def test_wrong_keys_and_files(monkeypatch: pytest.MonkeyPatch) -> None:
    keys(monkeypatch, "a z")
    done = run("review", "missing.csv")
    assert done.returncode == 1
    assert "error: 'z' is no key of the review\nhint: keys: a accept" in done.stderr
    assert decisions() == ["yes", "", ""], "what was decided is kept"
    Path("bad.csv").write_text(MISSING + "peru,capital,quito,high,4,,,m\n")
    one_message(run("review", "bad.csv"), "a probability is a number from 0 to 1, not 'high'")
    assert not Path("bad.reviewed.csv").exists()
    one_message(run("review", "none.csv"), "there is no file none.csv")
    one_message(run("review", "missing.csv", "-o", "x.facts"), "facts without decisions")
    one_message(run("review", "missing.csv", "-o", "none/x.csv"), "there is no folder none")
    assert run("review", "missing.csv", "--accept-above", "2").returncode == 2


@pytest.fixture
def terminal(folder: Path) -> Iterator[int]:
    ours, theirs = pty.openpty()
    words = [sys.executable, "-m", "gaifman", "review", "missing.csv"]
    with (
        (folder / "shown").open("w") as shown,
        child(words, cwd=folder, stdin=theirs, stdout=shown, stderr=shown) as process,
    ):
        os.close(theirs)

        def press(key: str, then: str) -> None:
            os.write(ours, key.encode())
            wait_until(lambda: then in (folder / "shown").read_text() or process.poll() is not None)

        wait_until(lambda: "[3 left]" in (folder / "shown").read_text() or process.poll() is not None)
        press("z", "Keys: a accept, r reject, s skip, u undo, q save and quit\n[3 left]")
        press("a", "[2 left]")
        process.send_signal(signal.SIGINT)
        yield process.wait(PATIENCE)
    os.close(ours)


def test_single_keys_of_a_terminal_and_ctrl_c(terminal: int, folder: Path) -> None:
    shown = (folder / "shown").read_text()
    assert terminal == 130, shown
    assert "stopped; to resume: gaifman review missing.csv" in shown
    assert decisions() == ["yes", "", ""]


# Add


@pytest.fixture
def reviewed(monkeypatch: pytest.MonkeyPatch) -> str:
    keys(monkeypatch, "a r s")
    here("review", "missing.csv")
    return "missing.reviewed.csv"


def test_decisions_enter_a_new_file_beside_the_old_one(reviewed: str) -> None:
    done = here("add", "kb.facts", reviewed, *DAY)
    assert done.stdout.splitlines() == [
        "new facts            1",
        "already known        0",
        "new known negatives  1",
        "already rejected     0",
        "undecided            1",
        "with conflicts       0",
    ]
    assert "wrote kb.reviewed.facts" in done.stderr
    assert Path("kb.facts").read_text() == FACTS
    assert Path("kb.reviewed.facts").read_text() == (
        FACTS
        + 'capital(peru, lima).\n%@ predicted ["m.gaifman", "2026-05-01", 0.97] capital(peru, lima).\n'
        + '%@ rejected ["m.gaifman", "2026-05-01", 0.6] capital(peru, cusco).\n'
    )
    info = json.loads(here("info", "kb.reviewed.facts", "--json").stdout)
    assert (info["facts"], info["known_negatives"], info["accepted_predictions"]) == (7, 1, 1)
    assert "known negatives" in here("info", "kb.reviewed.facts").stdout


def test_a_dry_run_writes_nothing(reviewed: str) -> None:
    done = here("add", "kb.facts", reviewed, "--dry-run", "--format", "csv", *DAY)
    assert done.stdout.splitlines() == [
        "change,fact,probability,model,conflicts",
        'new fact,"capital(peru, lima)",0.97,m.gaifman,',
        'known negative,"capital(peru, cusco)",0.6,m.gaifman,',
    ]
    assert "dry run: kb.reviewed.facts is not written" in done.stderr
    body = json.loads(here("add", "kb.facts", reviewed, "--dry-run", "--json").stdout)
    assert (body["written"], body["new_facts"], body["rejected"], body["undecided"]) == (None, 1, 1, 1)
    assert sorted(path.name for path in Path().iterdir()) == ["kb.facts", "missing.csv", "missing.reviewed.csv"]


@pytest.mark.parametrize("name", ["new.duckdb", "new.facts.gz", "new.csv"])
def test_decisions_are_in_every_format(reviewed: str, name: str) -> None:
    gaifman.write(gaifman.read("kb.facts"), "kb.csv")
    for source in ("kb.facts", "kb.csv"):
        here("add", source, reviewed, "-o", name, "--force", *DAY)
        kb = gaifman.read(name)
        assert list(kb.rejected) == [("capital", "peru", "cusco")]
        assert kb.provenance["capital", "peru", "lima"] == ("m.gaifman", "2026-05-01", 0.97)
        assert kb == gaifman.add_reviewed(gaifman.read("kb.facts"), reviewed)


def test_a_second_review_goes_on_from_the_first(reviewed: str) -> None:
    here("add", "kb.facts", reviewed, "-o", "one.facts", *DAY)
    again = here("add", "one.facts", reviewed, "--dry-run").stdout
    assert "already known        1" in again
    assert "already rejected     1" in again
    text = Path(reviewed).read_text().replace(",no", ",yes")
    Path(reviewed).write_text(text)
    assert "new facts            1 (1 rejected before)" in here("add", "one.facts", reviewed, "-o", "two.facts").stdout
    kb = gaifman.read("two.facts")
    assert ("capital", "peru", "cusco") in kb
    assert not kb.rejected


def test_conflicts_are_shown(folder: Path) -> None:
    facts = "".join(f"capital(c{i}, t{i}).\n" for i in range(20))
    (folder / "many.facts").write_text(facts)
    (folder / "own.csv").write_text("head,relation,tail,accept\nc1,capital,t2,yes\n")
    text = here("add", "many.facts", "own.csv", "--dry-run").stdout
    assert "with conflicts       1" in text
    assert "conflicts with capital(c1, t1)" in text


def test_the_demo_needs_a_name(folder: Path) -> None:
    (folder / "own.csv").write_text("head,relation,tail,accept\nfrance,borders,portugal,no\n")
    error = refused("add", "demo", "own.csv")
    assert isinstance(error, OutputError)
    assert "-o NEW" in (error.hint or "")
    here("add", "demo", "own.csv", "-o", "demo.facts", "--model", "m.gaifman", *DAY)
    kb = gaifman.read("demo.facts")
    assert kb.rejected["borders", "france", "portugal"] == ("m.gaifman", "2026-05-01", None)
    assert len(kb) == len(gaifman.demo())


def test_bad_input_of_add(reviewed: str, folder: Path) -> None:
    here("add", "kb.facts", reviewed)
    before = Path("kb.reviewed.facts").read_bytes()
    assert isinstance(refused("add", "kb.facts", reviewed), OutputError)
    (folder / "bad.csv").write_text(MISSING.replace("rank", "accept").replace(",1,", ",perhaps,"))
    for words, kind in (
        (("add", "kb.facts", "bad.csv", "--force"), InputError),
        (("add", "kb.facts", "missing.csv", "--force"), InputError),
        (("add", "kb.facts", reviewed, "--force", "--date", "tomorrow"), InputError),
        (("add", "none.facts", reviewed, "-o", "x.facts"), InputError),
        (("add", "kb.facts", reviewed, "-o", "x.parquet"), OutputError),
        (("add", "kb.facts", reviewed, "-o", "none/x.facts"), OutputError),
    ):
        error = refused(*words)
        assert isinstance(error, kind), error
        assert not isinstance(error, KnowledgeBaseError)
    assert Path("kb.reviewed.facts").read_bytes() == before
    one_message(
        run("add", "kb.facts", "bad.csv", "--force"), "bad.csv, line 2, column 24: accept is yes or no, not perhaps"
    )
    assert not Path("x.facts").exists()


def test_from_the_table_to_a_model_that_knows_better(folder: Path) -> None:
    """The whole way: train, predict, review, add, predict and train again."""
    kb = gaifman.demo()
    gaifman.write(kb.without_facts([*kb.facts("borders")][::6]), folder / "known.facts", lossy=True)
    here("train", "known.facts", "-o", "m.gaifman", "--relation", "borders")
    here("predict", "m.gaifman", "known.facts", "--above", "0.1", "-o", "found.csv", "--why")
    with Path("found.csv").open() as file:
        found = [(row["head"], row["relation"], row["tail"]) for row in csv.DictReader(file)]
    assert len(found) > 10
    text = Path("found.csv").read_text().splitlines()
    marks = ["accept", "x", "no", "no", *[""] * (len(found) - 3)]
    Path("found.csv").write_text("".join(f"{mark},{line}\n" for mark, line in zip(marks, text, strict=True)))
    here("add", "known.facts", "found.csv")
    here("predict", "m.gaifman", "known.reviewed.facts", "--above", "0.1", "-o", "again.csv")
    with Path("again.csv").open() as file:
        again = {(row["head"], row["relation"], row["tail"]) for row in csv.DictReader(file)}
    assert not again & {*found[:3]}
    here("train", "known.reviewed.facts", "-o", "new.gaifman", "--relation", "borders")
    head, _, tail = found[1]
    text_of_answers = here("answer", "new.gaifman", "known.reviewed.facts", f"borders('{head}', y)").stdout
    assert tail not in text_of_answers.split()

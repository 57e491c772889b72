"""`gaifman explain`: tables, JSON and a picture; what it says to bad input."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

import constrained
import gaifman
from cli_runner import one_message, output, run
from trained import completion_with_mayor as completed
from trained import towns, worker


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of works_in, a completion, and what they learnt from."""
    place = tmp_path_factory.mktemp("explanations")
    worker().save(place / "works.gaifman")
    completed().save(place / "towns.gaifman")
    gaifman.write(completed().kb, place / "towns.facts")
    return place


def ask(folder: Path, model: str, *words: str) -> str:
    return output("explain", str(folder / model), str(folder / "towns.facts"), *words)


def asked(folder: Path, model: str, *words: str) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(ask(folder, model, *words, "--json"))
    return body


def test_a_conflict_is_a_reason_that_can_be_switched_off(tmp_path: Path) -> None:
    constrained.model().save(tmp_path / "capital.gaifman")
    gaifman.write(constrained.countries(), tmp_path / "countries.duckdb")
    words = ("explain", "capital.gaifman", "countries.duckdb", "--bind", "x=country03", "--answer", "second03")
    text = run(*words, folder=tmp_path).stdout
    against = text.partition("\nAgainst\n")[2].splitlines()
    assert against[2].split()[1:7] == ["functional:", "capital", "1→2", "conflicts", "with", "capital(country03,"]
    assert "constraints and formulas above" in text
    assert text.endswith("\n  capital(country03, first03).\n")
    plain = run(*words, "--no-constraints", "--json", folder=tmp_path).stdout
    assert json.loads(plain) == constrained.model().explain("country03", "second03", constraints=False).as_dict()


def test_tables_of_formulas_for_and_against(folder: Path) -> None:
    lines = ask(folder, "towns.gaifman", "works_in('p03', y)", "--answer", "t3").splitlines()
    found = completed().explain("works_in", "p03", "t3")
    assert lines[0] == "prediction   works_in('p03', 't3') (scored as if it were not known)"
    assert lines[1] == f"probability  {found.estimate}"
    assert lines[2] == "prior        0.5 (set with --prior)"
    assert (lines[4], lines[5].split()) == ("For", ["log-odds", "formula", "facts"])
    home = next(reason for reason in found.supporting if reason.formula == "lives_in('p03', 't3')")
    assert any(line.split()[:1] == [f"{home.effect:+.3f}"] and "lives_in('p03', 't3')" in line for line in lines)
    assert "Against" in lines
    assert "Sum" in lines
    assert any(
        line.split() == [f"{found.log_odds:+.3f}", "total:", "log-odds", "of", "the", "probability"] for line in lines
    )
    assert found.counterfactual is not None
    assert f"Without these facts: {found.counterfactual.estimate}" in lines
    assert lines[-1].strip() == str(found.counterfactual.facts[-1])


def test_json_equals_the_result_of_the_library(folder: Path) -> None:
    question = "works_in('p03', y)"
    each: list[tuple[list[str], dict[str, Any]]] = [
        ([], {}),
        (["--top", "2"], {"top": 2}),
        (["--draws", "3"], {"draws": 3}),
    ]
    for words, settings in each:
        body = asked(folder, "towns.gaifman", question, "--answer", "t3", *words)
        assert body == json.loads(json.dumps(completed().explain("works_in", "p03", "t3", **settings).as_dict()))
    body = asked(folder, "towns.gaifman", question, "-a", "t3", "--prior", "0.01")
    assert body["probability"] == completed().probability("works_in", "p03", "t3", prior=0.01).value
    assert body["probability"] == pytest.approx(1 / (1 + 2.718281828459045 ** -body["log_odds"]))


def test_ways_to_name_an_answer(folder: Path) -> None:
    wanted = asked(folder, "works.gaifman", "works_in('p03', 't3')")
    assert wanted["variables"] == {"x": "p03", "y": "t3"}
    assert asked(folder, "works.gaifman", "--answer", "p03", "--answer", "t3") == wanted
    assert asked(folder, "works.gaifman", "--bind", "x=p03", "--answer", "t3") == wanted
    assert asked(folder, "works.gaifman", "--bind", "x=p03", "--bind", "y=t3") == wanted
    assert asked(folder, "works.gaifman", "works_in(a, 't3')", "--answer", "p03") == wanted
    assert asked(folder, "towns.gaifman", "person(x)", "--answer", "p03")["query"] == "person('p03')"


def test_a_picture(folder: Path, tmp_path: Path) -> None:
    target = tmp_path / "why.svg"
    words = (
        "explain",
        str(folder / "works.gaifman"),
        str(folder / "towns.facts"),
        "works_in('p03', 't3')",
        "--picture",
    )
    done = run(*words, str(target), folder=folder)
    assert done.stderr == f"wrote {target}\n"
    assert "lives_in" in "".join(ET.fromstring(target.read_text()).itertext())
    assert target.read_text() == worker().with_kb(completed().kb).explain("p03", "t3").svg()
    again = run(*words, str(target), folder=folder)
    assert (again.returncode, again.stdout) == (1, "")
    assert "already exists" in again.stderr
    assert run(*words, str(target), "--force", folder=folder).returncode == 0


def test_more_files_and_names_that_terminals_would_obey(folder: Path, tmp_path: Path) -> None:
    more = tmp_path / "more.facts"
    more.write_text("lives_in('evil\\u001b[31m', t2).\nperson('evil\\u001b[31m').\n")
    text = ask(folder, "works.gaifman", "--with", str(more), "--bind", "x=evil\x1b[31m", "--answer", "t2")
    assert "\x1b" not in text
    assert "evil" in text


def test_a_prediction_in_a_tiny_knowledge_base(folder: Path, tmp_path: Path) -> None:
    alone = tmp_path / "alone.facts"
    alone.write_text("lives_in(ann, rome).\nlives_in(eve, oslo).\n")
    text = output("explain", str(folder / "works.gaifman"), str(alone), "works_in('ann', 'oslo')")
    assert "formulas above" in text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["towns.gaifman", "towns.facts"], "needs a query"),
        (["towns.gaifman", "towns.facts", "works_in('p03', y)"], "names an object for each of y, not none"),
        (["towns.gaifman", "towns.facts", "works_in('p03', y)"], "hint: on the command line: --answer NAME"),
        (["towns.gaifman", "towns.facts", "works_in('p03', y)", "-a", "t1", "-a", "t2"], "each of y, not t1, t2"),
        (["towns.gaifman", "towns.facts", "works_in('p03', 't3')", "--answer", "t3"], "names no object, not t3"),
        (
            ["towns.gaifman", "towns.facts", "works_in('p03', y)", "--answer", "t33"],
            "there is no object t33\ndid you mean: t3",
        ),
        (["towns.gaifman", "towns.facts", "works_in('p3', y)", "--answer", "t3"], "there is no object 'p3'"),
        (["towns.gaifman", "towns.facts", "work_in('p03', y)", "--answer", "t3"], "did you mean: works_in"),
        (["towns.gaifman", "towns.facts", "lives_in('p03', y)", "--answer", "t3"], "there is no model of lives_in"),
        (["towns.gaifman", "towns.facts", "mayor('p01', y)", "--answer", "t1"], "only the fallback"),
        (["works.gaifman", "towns.facts", "person(x)", "--answer", "p03"], "the model was trained on works_in(x, y)"),
        (["works.gaifman", "towns.facts", "--bind", "z=p03", "--answer", "t3"], "its variables are x, y"),
        (["works.gaifman", "towns.facts", "-a", "p03", "-a", "t3", "--top", "0"], "top must be an integer"),
        (["works.gaifman", "towns.facts", "-a", "p03", "-a", "t3", "--draws", "0"], "draws must be an integer"),
        (
            ["works.gaifman", "towns.facts", "-a", "p03", "-a", "t3", "--draws", "1000000"],
            "from 1 to 10,000",
        ),
        (["works.gaifman", "towns.facts", "-a", "p03", "-a", "t3", "--prior", "0"], "prior must be a number, above 0"),
        (["works.gaifman", "towns.facts", "-a", "p03", "-a", "t3", "--picture", "why.png"], "end the name with .svg"),
        (["works.gaifman", "towns.facts", "-a", "p03", "-a", "t3", "--picture", "no/why.svg"], "no"),
        (["towns.facts", "towns.facts", "person(x)", "-a", "p03"], "towns.facts"),
        (["none.gaifman", "towns.facts", "person(x)", "-a", "p03"], "none.gaifman"),
        (["works.gaifman", "none.facts", "-a", "p03", "-a", "t3"], "none.facts"),
        (["works.gaifman", "demo", "-a", "france", "-a", "paris"], "none of the"),
    ],
)
def test_mistakes_are_one_message(words: list[str], message: str, folder: Path) -> None:
    one_message(run("explain", *words, folder=folder), message)


def test_mistakes_as_json(folder: Path) -> None:
    done = run("explain", "towns.gaifman", "towns.facts", "works_in('p03', y)", "-a", "t33", "--json", folder=folder)
    body = json.loads(done.stderr)
    assert body["error"] == "KnowledgeBaseError"
    assert "t3" in body["suggestions"]


def test_other_knowledge_bases(folder: Path, tmp_path: Path) -> None:
    gaifman.write(towns(20, "new_"), tmp_path / "new.facts")
    words = ("explain", str(folder / "works.gaifman"), str(tmp_path / "new.facts"))
    text = output(*words, "--bind", "x=new_p03", "--answer", "new_t3")
    assert "lives_in(new_p03, new_t3)." in text

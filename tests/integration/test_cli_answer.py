"""`gaifman answer`: ranked answers as a table and as JSON, from any knowledge base; what it says to bad input."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

import constrained
import gaifman
from cli_runner import one_message, output, run
from gaifman.cli import cli
from gaifman.cli.ask import KNOWN_CHOICES
from gaifman.ranking.candidates import KNOWN_MODES as TREATED
from gaifman.ranking.candidates import MAX_CANDIDATES, STRATEGIES
from trained import GOOD, towns, worker
from trained import completion_with_likes as completed


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of works_in, a completion, what they learnt from, and another knowledge base with other objects."""
    place = tmp_path_factory.mktemp("answers")
    worker().save(place / "works.gaifman")
    completed().save(place / "towns.gaifman")
    gaifman.write(completed().kb, place / "towns.facts")
    gaifman.write(towns(20, "new_"), place / "new.facts")
    constrained.completed().save(place / "capitals.gaifman")
    gaifman.write(constrained.countries(), place / "countries.duckdb")
    return place


def ask(folder: Path, model: str, kb: str, *words: str) -> str:
    return output("answer", str(folder / model), str(folder / kb), *words)


def asked(folder: Path, model: str, kb: str, *words: str) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(ask(folder, model, kb, *words, "--json"))
    return body


# What it prints


def test_a_table_with_the_reading_and_what_was_looked_at(folder: Path) -> None:
    options = ("--top", "2", "--no-constraints")
    lines = ask(folder, "towns.gaifman", "towns.facts", "works_in('p03', y)", *options).splitlines()
    found = completed().answers("works_in('p03', y)", top=2, constraints=False)
    assert lines[0] == "read as  works_in('p03', y)"
    assert lines[1] == f"ranked   {found.considered}"
    assert lines[2] == "prior    0.5 (set with --prior)"
    assert lines[4:6] == ["Answers", "y    probability     known"]
    assert lines[7].split() == ["t3", *str(found[0].estimate).split(), "yes"]
    assert lines[8].split() == [*found[1].names, *str(found[1].estimate).split(), "–"]
    assert len(lines) == 9


def test_objects_are_of_the_type_that_facts_have_unless_any_are_wanted(folder: Path) -> None:
    """Else left and right were among the most probable languages."""
    question = ("towns.gaifman", "towns.facts", "works_in(x, 't3')", "--prior", "0.2")
    text = ask(folder, *question)
    assert "ranked   40 candidates: person (--candidates all ranks all objects)\n" in text
    assert "prior    0.2\n" in text
    assert "ranked   47 candidates: all objects\n" in ask(folder, *question, "--candidates", "all")
    among = asked(folder, *question, "--restrict-to", "x=person")
    assert asked(folder, *question) == among
    assert asked(folder, "works.gaifman", "towns.facts", "--bind", "y=t3")["considered"] == among["considered"]


def test_json_equals_the_result_of_the_library(folder: Path) -> None:
    for words in ([], ["--top", "3"], ["--top", "all"], ["--draws", "2"], ["--prior", "0.01"], ["--known", "only"]):
        body = asked(folder, "towns.gaifman", "towns.facts", "works_in(x, 't3')", *words)
        options: dict[str, Any] = {}
        for name, value in zip(words[::2], words[1::2], strict=True):
            options[name[2:]] = None if value == "all" else value if name == "--known" else json.loads(value)
        among = {} if "only" in words else {"x": "person"}
        assert body == completed().answers("works_in(x, 't3')", restrict_to=among, **options).as_dict()


def test_known_answers_are_left_out(folder: Path) -> None:
    words = ("works_in(x, 't3')", "--known", "exclude")
    body = asked(folder, "towns.gaifman", "towns.facts", *words)
    assert not any(row["known"] for row in body["answers"])
    assert "known" not in ask(folder, "towns.gaifman", "towns.facts", *words).split("probability")[1]


def test_conflicts_are_a_column(folder: Path) -> None:
    words = ("capitals.gaifman", "countries.duckdb", "capital('country03', y)", "--top", "2", "--candidates", "typed")
    lines = ask(folder, *words).splitlines()
    assert lines[5].split() == ["y", "probability", "known", "conflicts"]
    assert lines[7].split()[0] == "first03"
    assert lines[7].endswith("–")
    assert lines[8].endswith("conflicts with capital(country03, first03)")
    body = asked(folder, *words)
    assert body == constrained.completed().answers(words[2], top=2, candidates="typed").as_dict()
    assert body["answers"][1]["conflicts"][0]["constraint"] == "functional: capital 1→2"


def test_constraints_can_be_switched_off(folder: Path) -> None:
    words = ("capitals.gaifman", "countries.duckdb", "capital('country03', y)")
    found = asked(folder, *words, "--no-constraints")
    assert found == constrained.completed().answers(words[2], constraints=False).as_dict()
    assert not any(answer["conflicts"] for answer in found["answers"])


def test_a_model_of_a_query_needs_no_query(folder: Path) -> None:
    plain = asked(folder, "works.gaifman", "towns.facts", "--bind", "x=p03")
    assert plain == asked(folder, "works.gaifman", "towns.facts", "works_in('p03', y)")
    assert plain == asked(folder, "works.gaifman", "towns.facts", "works_in(a, y)", "--bind", "?a=p03")
    assert plain["answers"][0]["names"] == ["t3"]
    assert asked(folder, "works.gaifman", "towns.facts")["variables"] == ["x", "y"]


def test_other_objects(folder: Path) -> None:
    for model, words in (("works.gaifman", ["--bind", "x=new_p03"]), ("towns.gaifman", ["works_in('new_p03', y)"])):
        body = asked(folder, model, "new.facts", *words)
        assert body["answers"][0]["names"] == ["new_t3"]


def test_objects_named_like_variables(folder: Path, tmp_path: Path) -> None:
    more = tmp_path / "more.facts"
    more.write_text("lives_in(x, t2).\nlives_in(y, t2).\n")
    body = asked(folder, "works.gaifman", "towns.facts", "--with", str(more), "--bind", "x=y")
    assert (body["query"], body["answers"][0]["names"]) == ("works_in('y', y)", ["t2"])
    body = asked(folder, "towns.gaifman", "towns.facts", "works_in('x', ?y)", "--with", str(more))
    assert body["answers"][0]["names"] == ["t2"]


def test_more_files(folder: Path, tmp_path: Path) -> None:
    more = tmp_path / "more.facts"
    more.write_text("lives_in(eve, t2).\nperson(eve).\n")
    body = asked(folder, "works.gaifman", "towns.facts", "--with", str(more), "--bind", "x=eve")
    assert body["answers"][0]["names"] == ["t2"]


def test_types_ways_and_limits(folder: Path) -> None:
    body = asked(
        folder, "towns.gaifman", "towns.facts", "works_in(x, 't3')", "--restrict-to", "x=person", "--top", "all"
    )
    assert len(body["answers"]) == 40
    assert body["considered"]["description"] == "person"
    for way, said in (("all", "all pairs of objects"), ("seen", "pairs of objects seen at these positions")):
        body = asked(folder, "towns.gaifman", "towns.facts", "works_in(x, y)", "--candidates", way)
        assert body["considered"]["description"] == said
    body = asked(folder, "towns.gaifman", "towns.facts", "works_in(x, y)", "--max-candidates", "150")
    assert "1 step apart" in body["considered"]["description"]


def test_pairs_in_a_table(folder: Path) -> None:
    text = ask(folder, "works.gaifman", "towns.facts", "--top", "3", "--known", "only")
    assert "ranked   40 candidates: known answers\n" in text
    assert text.splitlines()[5].split() == ["x", "y", "probability", "known"]


def test_nothing_to_show(folder: Path) -> None:
    done = run("answer", "works.gaifman", "towns.facts", "--bind", "x=t0", "--known", "only", folder=folder)
    assert done.returncode == 0
    assert done.stdout.splitlines()[-2] == "ranked   0 candidates: known answers"
    assert done.stderr == "no candidate is left to rank\n"


# Mistakes


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["towns.gaifman", "towns.facts"], 'needs a query\nhint: such as "citizen(x, y)"'),
        (
            ["towns.gaifman", "towns.facts", "lives_in(x, y)"],
            "there is no model of lives_in\n  lives_in(x, y)\n  ^^^^^^^^",
        ),
        (["towns.gaifman", "towns.facts", "work_in(x, y)"], "did you mean: works_in"),
        (["towns.gaifman", "towns.facts", "works_in('p3', y)"], "there is no object 'p3'"),
        (["towns.gaifman", "towns.facts", "works_in(x, y) & person(x)"], "answers queries of one relation"),
        (["works.gaifman", "towns.facts", "person(x)"], "the model was trained on works_in(x, y)"),
        (["works.gaifman", "towns.facts", "--bind", "z=p03"], "its variables are x, y"),
        (
            ["works.gaifman", "towns.facts", "--bind", "x"],
            "--bind needs VARIABLE=OBJECT, got 'x'\nhint: for example: --bind x=france",
        ),
        (
            ["works.gaifman", "towns.facts", "--restrict-to", "x"],
            "--restrict-to needs VARIABLE=TYPE, got 'x'\nhint: for example: --restrict-to x=country",
        ),
        (
            ["works.gaifman", "towns.facts", "--restrict-to", "x=person", "--restrict-to", "x=town"],
            "--restrict-to has two values for x: person and town",
        ),
        (["works.gaifman", "towns.facts", "--restrict-to", "x=persn"], "did you mean: person"),
        (["works.gaifman", "towns.facts", "--draws", "0"], "draws must be an integer"),
        (["works.gaifman", "towns.facts", "--top", "0"], "top must be an integer"),
        (["works.gaifman", "towns.facts", "--draws", "1000000000000"], "draws must be an integer from 1 to 1,000,000"),
        (["works.gaifman", "towns.facts", "--prior", "1"], "prior must be a number, above 0"),
        (["works.gaifman", "towns.facts", "--max-candidates", "0"], "max_candidates must be"),
        (["works.gaifman", "towns.facts", "--max-candidates", "9"], "there are more than 9 candidates"),
        (["towns.facts", "towns.facts", "person(x)"], "towns.facts"),
        (["none.gaifman", "towns.facts", "person(x)"], "none.gaifman"),
        (["works.gaifman", "none.facts"], "none.facts"),
    ],
)
def test_mistakes_are_one_message(words: list[str], message: str, folder: Path) -> None:
    one_message(run("answer", *words, folder=folder), message)


def test_mistakes_as_json(folder: Path) -> None:
    done = run("answer", "towns.gaifman", "towns.facts", "work_in(x, y)", "--json", folder=folder)
    body = json.loads(done.stderr)
    assert body["suggestions"] == ["works_in"]
    assert body["location"]["column"] == 1


def test_wrong_usage(folder: Path) -> None:
    for words in (["works.gaifman"], ["works.gaifman", "towns.facts", "--known", "some"], ["--top", "many"]):
        assert run("answer", *words, folder=folder).returncode == 2


def test_the_options_are_the_librarys() -> None:
    assert KNOWN_CHOICES == TREATED
    options = {option.name: option for option in cli.commands["answer"].params}
    assert tuple(options["candidates"].type.choices) == STRATEGIES  # type: ignore[attr-defined]
    assert options["max_candidates"].default == MAX_CANDIDATES


@pytest.mark.parametrize("query", [["works_in(x, y)"], ["person(x)"], ["--relation", "moved"], ["--with", "more"]])
def test_training_prints_a_command_that_ranks_answers(query: list[str], tmp_path: Path) -> None:
    gaifman.write(towns(), tmp_path / "towns.facts")
    (tmp_path / "more").write_text("mayor(p01, t1).\nmayor(x, y).\n")
    quick = ["--size", "4", "--min-examples", "0", "--option", "epochs=1", "--input-format", "facts"]
    said = run("train", "towns.facts", *query, "-o", "a model", *quick, folder=tmp_path).stderr
    line = said.partition("to rank answers:\n  ")[2].partition("\n")[0]
    name, *words = shlex.split(line)
    assert name == "gaifman"
    assert words[:3] == ["answer", "a model", "towns.facts"]
    done = run(*words, "--json", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    body = json.loads(done.stdout)
    assert len(body["variables"]) == 1
    assert len(body["answers"]) == 10


def test_what_was_trained_by_the_command_is_asked_by_the_command(tmp_path: Path) -> None:
    gaifman.write(towns(), tmp_path / "towns.facts")
    quick = ["--size", str(GOOD["size"]), "--min-examples", "0", "--option", "epochs=1"]
    assert not run("train", "towns.facts", "works_in(x, y)", "-o", "m", *quick, folder=tmp_path).returncode
    done = run("answer", "m", "towns.facts", "works_in(x, 't2')", "--top", "4", folder=tmp_path)
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) == 11

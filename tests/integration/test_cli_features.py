"""`gaifman features` and `gaifman mine`: what they print and write, and what they say to bad input."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import gaifman
from cli_runner import output, run
from comparison_cases import mentors
from gaifman.features.feature_sets import parse_phi, read_phi
from gaifman.features.grounding import SHOWN_GROUNDINGS, find_witness_facts
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.logic.parser import parse_feature
from gaifman.logic.semantics import feature_value, holds

KNOWN = [("knows", "ann", f"p{i}") for i in range(6)]
FAMILY = KnowledgeBase.from_facts(
    [("parent", "ann", "bob"), ("parent", "bob", "cleo"), *KNOWN, ("old", "ann")], {("age", "ann"): 80}
)


@pytest.fixture
def family(tmp_path: Path) -> str:
    path = tmp_path / "family.facts"
    gaifman.write(FAMILY, path)
    return str(path)


def shown(text: str) -> dict[str, str]:
    """Feature → facts, of what is printed."""
    lines = [line for line in text.splitlines() if line.startswith("      ")]
    return {one.split(maxsplit=1)[1]: other.strip() for one, other in zip(lines[::2], lines[1::2], strict=True)}


# features


def test_features_that_are_not_0_stand_with_the_facts_that_say_so(family: str) -> None:
    found = shown(output("features", family, "x,y", "ann", "cleo"))
    assert found["∃x parent(s1, x) ∧ parent(x, s2)"] == "parent(ann, bob). parent(bob, cleo)."
    assert found["old(s1)"] == "old(ann)."
    assert found["∃x knows(s1, x)"] == "knows(ann, p0)."
    assert "parent(s1, s2)" not in found


def test_counts_show_the_first_ways_and_that_there_are_more(family: str, tmp_path: Path) -> None:
    phi = tmp_path / "mine.phi"
    phi.write_text("knows(s1, x)\nparent(s1, x)\n¬knows(s1, x)\nage(s1)\n∀x old(x)\n")
    text = output("features", family, "x", "ann", "--phi", str(phi))
    found = shown(text)
    assert found["knows(s1, x)"] == "knows(ann, p0). knows(ann, p1). knows(ann, p2). …"
    assert found["parent(s1, x)"] == "parent(ann, bob)."
    assert found["¬knows(s1, x)"] == found["age(s1)"] == "no single fact"
    assert "∀x old(x)" not in found
    assert "x (s1)    ann\n" in text
    assert "features  4 of 5 are not 0\n" in text
    assert "\n         80  age(s1)\n" in text


def test_features_as_json(family: str) -> None:
    body = json.loads(output("features", family, "a, b", "ann", "cleo", "--phi", "universal-schema", "--json"))
    assert body["variables"] == {"a": "ann", "b": "cleo"}
    assert (body["total_features"], body["features"]) == (4, [])
    body = json.loads(output("features", family, "a,b", "bob", "ann", "--phi", "universal-schema", "--json"))
    assert body["features"] == [
        {"feature": "parent(s2, s1)", "value": 1.0, "facts": ["parent(ann, bob)."], "more": False}
    ]
    assert body["members"][:2] == ["bob", "ann"]


def test_all_lists_every_feature() -> None:
    short = output("features", "demo", "x,y", "france", "germany", "--phi", "default", "--size", "all")
    assert "more features (--all lists them)" in short
    full = output("features", "demo", "x,y", "france", "germany", "--phi", "default", "--size", "all", "--all")
    assert "--all" not in full
    assert len(shown(full)) > len(shown(short))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["x,y", "ann"], "2 variables (x, y), but 1 object"),
        (["x", "ann", "bob"], "1 variable (x), but 2 objects"),
        (["x,x", "ann", "bob"], "not all different"),
        (["x,", "ann", "bob"], "is not a variable"),
        (["x,y", "ann", "bobb"], "did you mean: bob"),
        (["x,y", "ann", "bob", "--phi", "papr"], "did you mean: paper"),
        (["x,y", "ann", "bob", "--size", "0"], "size must be"),
        (["x,y", "ann", "bob", "--radius", "-1"], "radius must be"),
    ],
)
def test_features_of_bad_input_are_one_message_and_exit_code_1(family: str, words: list[str], message: str) -> None:
    done = run("features", family, *words)
    assert (done.returncode, done.stdout) == (1, "")
    assert message in done.stderr


def test_a_mistake_in_a_phi_file_has_its_line(family: str, tmp_path: Path) -> None:
    (tmp_path / "mine.phi").write_text("parent(s1, s2)\nparnt(s1, s2)\n")
    done = run("features", family, "x,y", "ann", "bob", "--phi", "mine.phi", "--json", folder=tmp_path)
    body = json.loads(done.stderr)
    assert (done.returncode, body["location"]["line"], body["suggestions"]) == (1, 2, ["parent"])
    (tmp_path / "mine.phi").write_text("parent(s1, s3)\n")
    done = run("features", family, "x,y", "ann", "bob", "--phi", "mine.phi", folder=tmp_path)
    assert "s3, but the query has 2 variables" in done.stderr


# Witnesses


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("∃x parent(s1, x) ∧ x = 'bob'", ["parent(ann, bob)."]),
        ("∃x x ≠ s1 ∧ parent(x, s2)", ["parent(bob, cleo)."]),
        ("∃r r(s1, 'bob')", ["parent(ann, bob)."]),
        ("old(s2) ∨ (∃x parent(x, s2))", ["parent(bob, cleo)."]),
        ("∃x age(x) > 70 ∧ old(x)", ["old(ann)."]),
        ("∃x parent(s1, x) ∧ (∃x knows(s1, x))", ["parent(ann, bob).", "knows(ann, p0)."]),
        ("count parent(x, y)", ["parent(ann, bob).", "parent(bob, cleo)."]),
        ("sum age(x) for old(x)", ["old(ann)."]),
        ("∀x old(x) → parent(x, 'bob')", []),
        ("¬old(s2)", []),
        ("age(s1)", []),
        ("s1 ≠ s2", []),
    ],
)
def test_a_witness_is_a_set_of_facts_that_is_enough(text: str, facts: list[str]) -> None:
    feature = parse_feature(text, FAMILY)
    inside = FAMILY.structure()
    assert feature_value(inside, feature, ("ann", "cleo")) != 0
    assert find_witness_facts(inside, feature, ("ann", "cleo")) == (facts, False)


def test_a_witness_alone_makes_the_formula_true() -> None:
    kb = gaifman.demo()
    pair = ("france", "germany")
    inside = kb.induced({*pair, "belgium", "euro", "nato", "rhine", "switzerland"})
    phi = parse_phi(
        "each r. ∃x r(s1, x) ∧ r(x, s2)\neach r, q. ∃x r(s1, x) ∧ q(s2, x)\n∃x, y borders(s1, x) ∧ borders(x, y)"
    )
    compared = 0
    for feature in phi.expand({name: r.arity for name, r in kb.relations.items()}, 2):
        if not feature_value(inside.structure(), feature, pair):
            continue
        facts, _ = find_witness_facts(inside.structure(), feature, pair)
        alone = inside.without_facts([fact for fact in inside.facts() if str(fact) not in facts]).structure()
        assert holds(alone, feature.body, {"s1": pair[0], "s2": pair[1]})  # type: ignore[arg-type]
        compared += 1
    assert compared >= 5


def test_more_groundings_are_reported_for_counts_only() -> None:
    inside = FAMILY.structure()
    facts, more = find_witness_facts(inside, parse_feature("knows(s1, x)"), ("ann",))
    assert (len(facts), more) == (SHOWN_GROUNDINGS, True)
    assert find_witness_facts(inside, parse_feature("∃x knows(s1, x)"), ("ann",)) == (["knows(ann, p0)."], False)


# mine


def test_mine_writes_a_phi_file_and_shows_the_best(tmp_path: Path) -> None:
    target = tmp_path / "borders.phi"
    words = ["borders(x, y)", "--neighbourhoods", "-o", str(target), "--max-features", "12", "--sample", "100"]
    done = run("mine", "demo", *words)
    assert done.returncode == 0
    assert "borders(s2, s1)" in done.stdout
    assert f"wrote {target}: 12 of" in done.stderr
    assert len(read_phi(target, gaifman.demo())) == 12
    assert target.read_text().startswith(
        "# mined for borders(x, y): max_features 12, min_support 0.02, radius 1, size 20, draws 1, "
    )
    assert [path.name for path in tmp_path.iterdir()] == ["borders.phi"]


def test_mine_as_json_writes_the_same_each_time(tmp_path: Path) -> None:
    words = ["mine", "demo", "capital(x, y)", "--neighbourhoods", "--sample", "60", "--size", "all", "--draws", "2"]
    words += ["--json", "-o"]
    one = json.loads(output(*words, str(tmp_path / "one.phi")))
    other = json.loads(output(*words, str(tmp_path / "other.phi")))
    assert one["features"] == other["features"]
    assert (tmp_path / "one.phi").read_bytes() == (tmp_path / "other.phi").read_bytes()
    assert one["answers"] == 60
    assert one["features"][0]["feature"] == "city_in(s2, s1)"
    assert set(one["features"][0]) == {"feature", "support", "negative_support", "gain"}


def test_what_was_mined_can_be_looked_at(tmp_path: Path) -> None:
    target = tmp_path / "borders.phi"
    output("mine", "demo", "borders(x, y)", "-o", str(target), "--max-features", "20", "--sample", "100")
    assert "borders(s2, s1)" in shown(output("features", "demo", "x,y", "france", "spain", "--phi", str(target)))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["borders(x, x)"], "a query over two variables, got 1"),
        (["borders(x, y) & borders(y, z)"], "a query over two variables, got 3"),
        (["borders(x, y) & ~borders(x, y)"], "has no answers"),
        (["borders(x, y)", "--max-path-length", "6"], "max_path_length must be"),
        (["bordes(x, y)"], "did you mean: borders"),
        (["borders(x, y"], "ends too early"),
        (["borders(x, y)", "--min-support", "3"], "min_support must be a number"),
        (["borders(x, y)", "--max-features", "0"], "max_features must be"),
        (["borders(x, y)", "--size", "0"], "size must be"),
    ],
)
def test_mine_writes_nothing_for_bad_input(tmp_path: Path, words: list[str], message: str) -> None:
    done = run("mine", "demo", *words, "-o", "out.phi", folder=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert message in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_mine_replaces_a_file_only_with_force(tmp_path: Path) -> None:
    target = tmp_path / "out.phi"
    target.write_text("precious")
    words = ["mine", "demo", "capital(x, y)", "--sample", "20", "-o", "out.phi"]
    refused = run(*words, folder=tmp_path)
    assert (refused.returncode, target.read_text()) == (1, "precious")
    assert "--force replaces it" in refused.stderr
    assert run(*words, "--force", folder=tmp_path).returncode == 0
    assert target.read_text().startswith("# mined")


def test_mine_shows_the_rules_of_a_relation_with_support_and_confidence(tmp_path: Path) -> None:
    target = tmp_path / "capital.phi"
    text = output("mine", "demo", "capital(x, y)", "-o", str(target))
    assert text.splitlines()[1:5] == [
        "Best formulas, and their confidence",
        "formula                                                answers   for s1   for s2",
        "─" * 80,
        "city_in(s2, s1)                                            197     0.91     0.31",
    ]
    lines = target.read_text().splitlines()
    assert lines[:2] == [
        "# mined for capital: rules by confidence",
        "city_in(s2, s1)  # 197 of 197 answers; confidence 0.91 for s1, 0.31 for s2",
    ]
    assert len(read_phi(target, gaifman.demo())) == len(lines) - 1


def test_mine_shows_the_same_rules_as_json_and_writes_no_file_unless_asked(tmp_path: Path) -> None:
    body = json.loads(output("mine", "demo", "separates(x, y, z)", "--json", "--max-features", "5"))
    assert (body["written"], body["relation"], len(body["features"])) == (None, "separates", 5)
    assert body["features"][0]["confidence"].keys() <= {"s1", "s2", "s3"}
    assert run("mine", "demo", "separates(x, y, z)", folder=tmp_path).returncode == 0
    assert list(tmp_path.iterdir()) == []


def test_mine_shows_formulas_with_constants_apart_and_train_takes_all_of_them(tmp_path: Path) -> None:
    target, model = tmp_path / "languages.phi", tmp_path / "languages.gaifman"
    text = output("mine", "demo", "official_language(x, y)", "-o", str(target), "--max-features", "20")
    paths, constants = text.split("Best formulas with constants, and their confidence")
    assert "'" not in paths
    assert "member_of(s1, 'arab_league') ∧ s2 = 'arabic'                22        –     0.81" in constants
    formulas = read_phi(target, gaifman.demo()).features
    assert (len(formulas), sum("'" in str(formula) for formula in formulas)) == (20, 10)
    output("train", "demo", "official_language(x, y)", "--phi", str(target), "-o", str(model))
    listed = Path(f"{model}.md").read_text().replace("\\", "")
    assert "member_of(s1, 'arab_league') ∧ s2 = 'arabic'" in listed


def test_mine_shows_comparisons_and_train_takes_them(tmp_path: Path) -> None:
    kb, _ = mentors()
    source, target, count = tmp_path / "mentors.facts", tmp_path / "mentors.phi", len(kb.tuples("mentors"))
    gaifman.write(kb, source)
    text = output("mine", str(source), "mentors(x, y)", "-o", str(target))
    _, comparisons = text.split("Comparisons\n")
    [row] = [line.split("  ") for line in comparisons.splitlines() if line.startswith("age")]
    assert [cell.strip() for cell in row if cell][:3] == ["age(s1) > age(s2)", str(count), str(count)]
    assert "age(s1) > age(s2)" in map(str, read_phi(target, kb).features)
    body = json.loads(output("mine", str(source), "mentors(x, y)", "--json"))
    [found] = body["comparisons"]
    assert (found["feature"], found["support"], found["answers"]) == ("age(s1) > age(s2)", count, count)
    assert 0 < found["expected"] < 1
    output("train", str(source), "mentors(x, y)", "--phi", str(target), "-o", str(tmp_path / "mentors.gaifman"))


def test_a_type_has_no_paths_to_mine() -> None:
    done = run("mine", "demo", "city(x)")
    assert done.returncode == 1
    assert "city is a type: there are no paths between its positions" in done.stderr

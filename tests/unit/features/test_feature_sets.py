"""Feature sets: files, errors with their line, and the named sets."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from gaifman.errors import FormulaError, InputError
from gaifman.features.feature_sets import FEATURE_SET_NAMES, FeatureSet, named_feature_set, parse_phi, read_phi
from gaifman.logic.parser import Schema, parse_feature
from generators import VOCABULARY, Generator, over_seeds

PAPER = [
    "each r. r(s1, s2)",
    "each r. r(s2, s1)",
    "each r. ∃x r(s1, x)",
    "each r. ∃x r(x, s1)",
    "each r. ∃x r(s2, x)",
    "each r. ∃x r(x, s2)",
    "each r. ∃x r(s1, x) ∧ r(x, s2)",
    "each r. ∃x r(s2, x) ∧ r(x, s1)",
]


def lines(phi: FeatureSet) -> list[str]:
    return [str(feature) for feature in phi]


# Files


@over_seeds(80)
def test_what_is_printed_is_read_back(seed: int) -> None:
    generator = Generator(random.Random(seed))
    phi = FeatureSet(tuple(generator.feature(depth=3) for _ in range(6)), "six features")
    read = parse_phi(phi.to_text(), VOCABULARY)
    assert read.features == phi.features
    assert parse_phi(read.to_text()).to_text() == read.to_text()


@pytest.mark.parametrize(
    ("line", "kept"),
    [
        ("# a whole line", []),
        ("   ", []),
        ("r(s1, x)  # out-degree", ["r(s1, x)"]),
        ("r(s1, 'a # b')  # c", ["r(s1, 'a # b')"]),
        (r"r(s1, 'it\'s # 1') # c", [r"r(s1, 'it\'s # 1')"]),
        (r"r(s1, 'ends in a backslash \\') # c", [r"r(s1, 'ends in a backslash \\')"]),
        ('r(s1, "two # signs") # c', ["r(s1, 'two # signs')"]),
        ("each r. r(s1, s2).", ["each r. r(s1, s2)"]),
    ],
)
def test_comments_end_a_line_outside_quotes(line: str, kept: list[str]) -> None:
    assert lines(parse_phi(line)) == kept


def test_a_mistake_has_the_line_and_the_column_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.phi"
    path.write_text("# features\nr(s1, s2)\n\n  r(s1, & x)  # wrong\n")
    with pytest.raises(FormulaError) as error:
        read_phi(path)
    place = error.value.location
    assert place is not None
    assert (place.source, place.line, place.column) == ("mine.phi", 4, 9)
    assert "mine.phi, line 4, column 9" in str(error.value)


def test_an_unknown_relation_has_its_location_and_suggestions() -> None:
    with pytest.raises(FormulaError, match="line 2, column 1") as error:
        parse_phi("r(s1, s2)\nhas_part(s1, s2)", VOCABULARY)
    assert error.value.suggestions == ("has part",)


def test_a_file_takes_its_name_and_constants_that_are_no_objects(tmp_path: Path) -> None:
    path = tmp_path / "mine.phi"
    path.write_bytes(b"\xef\xbb\xbfr(s1, 'nobody')\r\nr(s1, s2)\r\n")
    phi = read_phi(path, VOCABULARY)
    assert (phi.name, lines(phi), len(phi)) == ("mine", ["r(s1, 'nobody')", "r(s1, s2)"], 2)
    with pytest.raises(FormulaError, match="nobody"):
        parse_phi("r(s1, 'nobody')", VOCABULARY)


def test_a_file_that_cannot_be_read_is_our_own_error(tmp_path: Path) -> None:
    path = tmp_path / "mine.phi"
    with pytest.raises(InputError, match="cannot be read"):
        read_phi(path)
    path.write_bytes(b"r(s1, '\xff')")
    with pytest.raises(InputError, match="not UTF-8 text: byte 7 is 0xff"):
        read_phi(path)
    with pytest.raises(InputError, match="cannot be read"):
        read_phi(tmp_path)


# Named sets


def test_the_paper_set_for_two_variables_is_the_papers_list() -> None:
    assert lines(named_feature_set("paper", 2, {"borders": 2})) == PAPER
    assert [str(f) for f in named_feature_set("paper", 2, {"b": 2}).expand({"b": 2}, 2)] == [
        line.removeprefix("each r. ").replace("r(", "b(") for line in PAPER
    ]


def test_the_paper_set_for_one_variable_has_no_pairs() -> None:
    assert lines(named_feature_set("paper", 1, {"likes": 2})) == ["each r. ∃x r(s1, x)", "each r. ∃x r(x, s1)"]


def test_the_paper_set_for_three_variables_takes_every_ordered_pair() -> None:
    found = lines(named_feature_set("paper", 3, {"likes": 2}))
    assert len(found) == 6 + 6 + 6
    for i, j in [(1, 2), (1, 3), (2, 1), (2, 3), (3, 1), (3, 2)]:
        assert f"each r. r(s{i}, s{j})" in found
        assert f"each r. ∃x r(s{i}, x) ∧ r(x, s{j})" in found


def test_types_are_features_of_each_variable() -> None:
    assert lines(named_feature_set("paper", 2, {"old": 1})) == ["each r. r(s1)", "each r. r(s2)"]


def test_ternary_relations_have_one_or_two_query_variables_anywhere() -> None:
    found = lines(named_feature_set("paper", 2, {"gave": 3}))
    assert len(found) == len(set(found)) == 3 * 2 + 3 * 2
    assert "each r. ∃y, z r(s1, y, z)" in found
    assert "each r. ∃x r(x, s2, s1)" in found
    assert lines(named_feature_set("paper", 1, {"gave": 3})) == [
        "each r. ∃y, z r(s1, y, z)",
        "each r. ∃x, z r(x, s1, z)",
        "each r. ∃x, y r(x, y, s1)",
    ]


def test_universal_schema_has_only_facts_between_the_pair() -> None:
    assert lines(named_feature_set("universal-schema", 2, {"likes": 2, "old": 1, "gave": 3})) == PAPER[:2]
    assert lines(named_feature_set("universal-schema", 1, {"likes": 2})) == []


def test_the_default_set_holds_the_papers_and_more() -> None:
    found = lines(named_feature_set("default", 2, {"likes": 2, "old": 1}, ["population", "area"]))
    assert found[: len(PAPER)] == PAPER
    for line in (
        "each r. r(s1, x)",
        "each r. r(s2, s2)",
        "each r. ∃x r(s1, x) ∧ r(s2, x)",
        "∃r r(s1, s2)",
        "each r. r(s1)",
        "population(s2)",
        "area(s1) - area(s2)",
    ):
        assert line in found
    assert len(found) == len(set(found))


@pytest.mark.parametrize("name", FEATURE_SET_NAMES)
@pytest.mark.parametrize("width", [1, 2, 3])
def test_a_named_set_is_text_that_reads_as_itself(name: str, width: int) -> None:
    relations = {"p": 1, "q": 2, "t": 3, "f": 4, "eight": 8}
    phi = named_feature_set(name, width, relations, ["age"])
    vocabulary = Schema(relations, ("age",), ())
    assert parse_phi(phi.to_text(), vocabulary).features == phi.features
    assert phi.to_text().startswith(f"# {name}, for {width} variables\n")
    phi.expand(relations, width)


def test_a_knowledge_base_may_have_a_relation_of_the_name_of_the_variable() -> None:
    relations = {"r": 2, "r1": 1}
    phi = named_feature_set("default", 2, relations, ["r2"])
    assert lines(phi)[0] == "each r3. r3(s1, s2)"
    vocabulary = Schema(relations, ("r2",), ())
    assert parse_phi(phi.to_text(), vocabulary).features == phi.features
    for feature in phi.expand(relations, 2):
        vocabulary.check(feature)


def test_an_unknown_set_has_suggestions() -> None:
    with pytest.raises(FormulaError, match="'papr'") as error:
        named_feature_set("papr", 2, {"likes": 2})
    assert error.value.suggestions == ("paper",)
    assert "universal-schema" in error.value.hint


# Instances


def test_names_are_the_formulas_and_do_not_depend_on_what_else_is_there() -> None:
    phi = named_feature_set("paper", 2, {"likes": 2})
    alone = [str(f) for f in phi.expand({"borders": 2}, 2)]
    among = [str(f) for f in phi.expand({"area of": 2, "borders": 2, "old": 1}, 2)]
    assert set(alone) <= set(among)
    assert alone == [name for name in among if "borders" in name]
    assert [str(parse_feature(name)) for name in among] == among


def test_a_feature_written_twice_is_one_column() -> None:
    phi = parse_phi("each r. r(s1, s2)\nlikes(s1, s2)\nlikes(s1,s2)\neach r, q. r(s1, x) & q(x, s2)")
    found = phi.expand({"likes": 2, "old": 1, "knows": 2}, 2)
    assert [str(f) for f in found[:2]] == ["likes(s1, s2)", "knows(s1, s2)"]
    assert len(found) == 2 + 4


def test_a_variable_that_the_query_does_not_have_is_an_error() -> None:
    phi = parse_phi("likes(s1, s3)")
    assert len(phi.expand({"likes": 2}, 3)) == 1
    with pytest.raises(FormulaError, match="uses s3, but the query has 2 variables"):
        phi.expand({"likes": 2}, 2)

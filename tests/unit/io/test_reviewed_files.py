"""Decisions about proposed facts in files: what is written comes back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gaifman.errors import InputError, OutputError
from gaifman.io import read, write
from gaifman.io.additions import reviewed_path, write_additions
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.kb.reviews import FactKey, Provenance
from kbs import knowledge_bases, names

BASE = KnowledgeBase.from_facts(
    [("capital", "france", "paris"), ("borders", "france", "peru"), ("near", "lima", "cusco")]
)
LIMA, CUSCO = ("capital", "peru", "lima"), ("capital", "peru", "cusco")
ACCEPTED: dict[FactKey, Provenance] = {LIMA: Provenance("m.gaifman", "2026-05-01", 0.93)}
REJECTED: dict[FactKey, Provenance] = {CUSCO: Provenance("", "2026-05-01")}
REVIEWED = BASE.with_reviews(ACCEPTED, REJECTED)
provenances = st.builds(
    Provenance,
    st.text(st.characters(min_codepoint=33, exclude_categories=["C", "Z"]), max_size=8),
    st.sampled_from(["", "2026-05-01"]),
    st.none() | st.floats(0, 1),
)


@st.composite
def reviewed(draw: st.DrawFn, /, **how: Any) -> KnowledgeBase:
    """A knowledge base some of whose facts were accepted, and with known negatives."""
    kb = draw(knowledge_bases(isolated=False, **how))
    facts = [(fact.relation, *fact.objects) for fact in kb.facts()]
    accepted = {key: draw(provenances) for key in draw(st.sets(st.sampled_from(facts)))} if facts else {}
    rejected: dict[FactKey, Provenance] = {}
    for relation in [one for one in kb.relations.values() if one.count]:
        key = (relation.name, *(draw(st.sampled_from(kb.objects)) for _ in range(relation.arity)))
        rejected |= {} if key in kb else {key: draw(provenances)}
    return kb.with_reviews(accepted, rejected)


def comes_back(kb: KnowledgeBase, path: Path) -> None:
    write(kb, path)
    found = read(path)
    path.unlink()
    assert found == kb
    assert (dict(found.provenance), dict(found.rejected)) == (dict(kb.provenance), dict(kb.rejected))


@given(kb=reviewed())
@settings(max_examples=30)
def test_facts_files_hold_decisions(tmp_path_factory, kb: KnowledgeBase) -> None:  # type: ignore[no-untyped-def]
    comes_back(kb, tmp_path_factory.mktemp("reviewed") / "kb.facts")


@given(kb=reviewed())
@settings(max_examples=15)
def test_database_files_hold_decisions(tmp_path_factory, kb: KnowledgeBase) -> None:  # type: ignore[no-untyped-def]
    comes_back(kb, tmp_path_factory.mktemp("reviewed") / "kb.duckdb")


@given(kb=reviewed(attributes=False))
@settings(max_examples=30)
def test_comma_separated_tables_hold_decisions(tmp_path_factory, kb: KnowledgeBase) -> None:  # type: ignore[no-untyped-def]
    comes_back(kb, tmp_path_factory.mktemp("reviewed") / "kb.csv")


TABBED = names.filter(lambda name: not set("\t\n\r") & set(name))


@given(kb=reviewed(attributes=False, names=TABBED, smallest_arity=2, largest_arity=2))
@settings(max_examples=30)
def test_triples_hold_decisions(tmp_path_factory, kb: KnowledgeBase) -> None:  # type: ignore[no-untyped-def]
    used = [(fact.relation, *fact.objects) for fact in kb.facts()]
    if {key[0] for key in used} == set(kb.relations):
        comes_back(kb, tmp_path_factory.mktemp("reviewed") / "kb.tsv")


def test_a_table_says_what_it_is_to_other_programs(tmp_path: Path) -> None:
    write(REVIEWED, tmp_path / "kb.csv")
    assert (tmp_path / "kb.csv").read_text().splitlines() == [
        "head,relation,tail,confidence,provenance,provenance_model,provenance_date,provenance_probability",
        "france,borders,peru,1.0,,,,",
        "france,capital,paris,1.0,,,,",
        "peru,capital,lima,1.0,predicted,m.gaifman,2026-05-01,0.93",
        "lima,near,cusco,1.0,,,,",
        "peru,capital,cusco,0.0,rejected,,2026-05-01,",
    ]


def test_a_database_has_a_view_with_names(tmp_path: Path) -> None:
    write(REVIEWED, tmp_path / "kb.duckdb")
    with duckdb.connect(str(tmp_path / "kb.duckdb"), read_only=True) as connection:
        rows = connection.execute("SELECT * FROM reviews ORDER BY provenance").fetchall()
    assert rows == [
        ("capital", ["peru", "lima"], "predicted", "m.gaifman", "2026-05-01", 0.93),
        ("capital", ["peru", "cusco"], "rejected", "", "2026-05-01", None),
    ]
    write(BASE, tmp_path / "plain.duckdb")
    with duckdb.connect(str(tmp_path / "plain.duckdb"), read_only=True) as connection:
        tables = {name for (name,) in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()}
    assert not {name for name in tables if name.startswith("reviews")}, "as before"


def test_parquet_does_not_hold_decisions(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="cannot hold 1 provenance of facts; 1 known negative"):
        write(REVIEWED, tmp_path / "kb.parquet")
    write(REVIEWED, tmp_path / "kb.parquet", lossy=True)
    assert not read(tmp_path / "kb.parquet").rejected


HEADER = "head,relation,tail,provenance,provenance_model,provenance_date,provenance_probability"


@pytest.mark.parametrize(
    ("text", "words", "place"),
    [
        (f"{HEADER}\na,r,b,maybe,m,2026,0.5\n", "the provenance is predicted, rejected or empty, not maybe", (2, 7)),
        (f"{HEADER}\na,r,b,predicted,m,2026,1.5\n", "a probability is a number from 0 to 1, not '1.5'", (2, 24)),
        (f"{HEADER}\na,r,b,predicted\n", "expected at least 7 columns, got 4", (2, 7)),
        (HEADER.replace("_date", "_day") + "\na,r,b,,,,\n", "the column provenance_date is not there", (1, 1)),
        (
            HEADER.replace("relation", "note") + "\na,r,b,,,,\n",
            "beside the columns of a review there must be those of facts",
            (1, 1),
        ),
    ],
)
def test_wrong_columns_of_a_review(tmp_path: Path, text: str, words: str, place: tuple[int, int]) -> None:
    (tmp_path / "kb.csv").write_text(text)
    with pytest.raises(InputError, match=words) as caught:
        read(tmp_path / "kb.csv")
    location = caught.value.location
    assert location is not None
    assert (location.line, location.column) == place


def test_the_columns_may_be_in_any_order(tmp_path: Path) -> None:
    (tmp_path / "kb.csv").write_text(
        "provenance_probability;tail;Provenance;relation;provenance_date;head;provenance_model\n"
        "0,93;lima;predicted;capital;2026-05-01;peru;m.gaifman\n;paris;;capital;;france;\n"
        ";peru;;borders;;france;\n;cusco;;near;;lima;\n;cusco;rejected;capital;2026-05-01;peru;\n"
    )
    assert read(tmp_path / "kb.csv") == REVIEWED
    assert dict(read(tmp_path / "kb.csv").provenance) == ACCEPTED


@pytest.mark.parametrize(
    "line",
    [
        "%@ rejected capital(peru, cusco).",
        '%@ predicted ["m", "d"] p(a).',
        '%@ rejected ["m", "d", 7] p(a).',
        "%@ rejected",
    ],
)
def test_wrong_lines_of_a_facts_file(tmp_path: Path, line: str) -> None:
    (tmp_path / "kb.facts").write_text(f"p(b).\n{line}\n")
    with pytest.raises(InputError, match="must be a decision about a proposed fact") as caught:
        read(tmp_path / "kb.facts")
    assert caught.value.location is not None
    assert caught.value.location.line == 2


def test_a_changed_database_is_refused(tmp_path: Path) -> None:
    write(REVIEWED, path := tmp_path / "kb.duckdb")
    for change, words in (("provenance = 'maybe'", "the provenance is"), ("a1 = 77", "a number is not an id")):
        with duckdb.connect(str(path)) as connection:
            connection.execute("CREATE OR REPLACE TABLE before AS FROM reviews2")
            connection.execute(f"UPDATE reviews2 SET {change}")
        with pytest.raises(InputError, match=words):
            read(path)
        with duckdb.connect(str(path)) as connection:
            connection.execute("DELETE FROM reviews2; INSERT INTO reviews2 FROM before; DROP TABLE before")


# Beside the old file


def test_a_facts_file_keeps_its_comments_and_order(tmp_path: Path) -> None:
    old = tmp_path / "kb.facts"
    old.write_text("% ours\nnear(lima, cusco).  % far\ncapital(france, paris).\nborders(france, peru).")
    write_additions(old, tmp_path / "new.facts", REVIEWED, ACCEPTED, REJECTED)
    text = (tmp_path / "new.facts").read_text()
    assert text.startswith(old.read_text() + "\ncapital(peru, lima).\n")
    found = read(tmp_path / "new.facts")
    assert found == REVIEWED
    assert dict(found.provenance) == ACCEPTED
    again = found.with_reviews({CUSCO: Provenance()}, {})
    write_additions(tmp_path / "new.facts", tmp_path / "newer.facts.gz", again, {CUSCO: Provenance()}, {})
    assert read(tmp_path / "newer.facts.gz") == again


EX = "http://ex.org/"
TURTLE = f"""@prefix : <{EX}> .
# ours
:france :capital :paris ; :borders :peru ; :label "France"@en .
:lima :near :cusco ; a :city .
"""


@pytest.mark.parametrize("suffix", ["nt", "ttl"])
def test_rdf_gets_reified_statements_that_are_no_facts(tmp_path: Path, suffix: str) -> None:
    old = tmp_path / f"kb.{suffix}"
    text = (
        f"<{EX}france> <{EX}capital> <{EX}paris> .\n<{EX}lima> <{EX}near> <{EX}cusco> .\n<{EX}peru> <{EX}near> _:b1 .\n"
    )
    old.write_text(text if suffix == "nt" else TURTLE)
    kb = read(old)
    accepted: dict[FactKey, Provenance] = {
        (f"{EX}capital", f"{EX}peru", f"{EX}lima"): Provenance('a "model"', "2026-05-01", 0.93)
    }
    rejected: dict[FactKey, Provenance] = {
        (f"{EX}capital", f"{EX}peru", f"{EX}cusco"): Provenance("m", "2026-05-01", 1e-05)
    }
    if suffix == "ttl":
        accepted |= {(f"{EX}city", f"{EX}peru"): Provenance()}
    new = kb.with_reviews(accepted, rejected)
    write_additions(old, tmp_path / f"new.{suffix}", new, accepted, rejected)
    assert (tmp_path / f"new.{suffix}").read_text().startswith(old.read_text())
    found = read(tmp_path / f"new.{suffix}")
    assert found == new
    assert (dict(found.provenance), dict(found.rejected)) == (dict(new.provenance), dict(new.rejected))
    whole = read(tmp_path / f"new.{suffix}", iris="full")
    assert (dict(whole.provenance), dict(whole.rejected)) == (accepted, rejected)
    shorter = read(tmp_path / f"new.{suffix}", iris="local")
    assert list(shorter.rejected) == [("capital", "peru", "cusco")]


def test_names_that_rdf_cannot_have_are_refused(tmp_path: Path) -> None:
    (tmp_path / "kb.ttl").write_text(TURTLE)
    kb = read(tmp_path / "kb.ttl", iris="local")
    key = ("capital", "peru", "lima")
    new = kb.with_facts([key])
    with pytest.raises(OutputError, match="peru is no IRI"):
        write_additions(tmp_path / "kb.ttl", tmp_path / "new.ttl", new, {key: Provenance()}, {}, iris="local")
    assert not (tmp_path / "new.ttl").exists()


def test_names_that_are_no_iris_are_urns_in_a_file_that_gaifman_wrote(tmp_path: Path) -> None:
    first = KnowledgeBase.from_facts([("capital", "france", "paris"), ("country", "new peru"), ("city", "lima")])
    write(first, tmp_path / "kb.nt")
    kb = read(tmp_path / "kb.nt")
    assert kb == first
    accepted: dict[FactKey, Provenance] = {("capital", "new peru", "lima"): Provenance()}
    write_additions(tmp_path / "kb.nt", tmp_path / "new.nt", kb.with_reviews(accepted, {}), accepted, {})
    assert dict(read(tmp_path / "new.nt").provenance) == accepted


@pytest.mark.parametrize("suffix", [".nt", ".ttl"])
def test_rdf_that_is_written_has_reviews_with_whole_iris(tmp_path: Path, suffix: str) -> None:
    (tmp_path / "kb.ttl").write_text(TURTLE)
    rejected: dict[FactKey, Provenance] = {(":capital", ":peru", ":cusco"): Provenance("m", "2026-05-01", 0.25)}
    accepted: dict[FactKey, Provenance] = {(":city", ":peru"): Provenance("m")}
    kb = read(tmp_path / "kb.ttl").with_reviews(accepted, rejected)
    write(kb, tmp_path / f"new{suffix}", lossy=True)
    whole = read(tmp_path / f"new{suffix}", iris="full")
    assert list(whole.rejected) == [(f"{EX}capital", f"{EX}peru", f"{EX}cusco")]
    assert list(whole.provenance) == [(f"{EX}city", f"{EX}peru")]
    if suffix == ".ttl":
        found = read(tmp_path / "new.ttl")
        assert (dict(found.provenance), dict(found.rejected)) == (accepted, rejected)


def test_a_review_is_kept_by_files_with_prefixes(tmp_path: Path) -> None:
    (tmp_path / "kb.ttl").write_text(TURTLE)
    rejected: dict[FactKey, Provenance] = {
        (f"{EX}capital", f"{EX}peru", f"{EX}cusco"): Provenance("m", "2026-05-01", 0.25)
    }
    kb = read(tmp_path / "kb.ttl").with_reviews({}, rejected)
    assert list(kb.rejected) == [(":capital", ":peru", ":cusco")]
    write(kb, tmp_path / "kb.duckdb")
    assert dict(read(tmp_path / "kb.duckdb").rejected) == dict(kb.rejected)
    assert dict(read(tmp_path / "kb.duckdb", iris="full").rejected) == rejected


def test_incomplete_reified_statements_are_refused(tmp_path: Path) -> None:
    (tmp_path / "kb.nt").write_text(
        f'<urn:gaifman:review:1> <urn:gaifman:provenance> "rejected" .\n<{EX}a> <{EX}b> <{EX}c> .\n'
    )
    with pytest.raises(InputError, match="urn:gaifman:review:1 is not a decision about a proposed fact"):
        read(tmp_path / "kb.nt")


@pytest.mark.parametrize(
    ("name", "beside"),
    [("family.tsv", "family.reviewed.tsv"), ("a.b.csv.gz", "a.b.reviewed.csv.gz"), ("family", "family.reviewed")],
)
def test_the_name_beside_the_old_file(name: str, beside: str) -> None:
    assert reviewed_path(Path("data") / name) == Path("data") / beside

"""Missing facts: all that reach the threshold, with reasons, in every format; a search is resumed by relation."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path

import duckdb
import pytest

import gaifman
from gaifman.errors import GaifmanError, KnowledgeBaseError, OutputError
from gaifman.jobs.predict import MissingSearch, predict_to_file, run_folder
from gaifman.jobs.run import WorkStopped
from gaifman.missing import MissingFacts, Proposals, ProposalStore, SearchOptions

RELATIONS = ["located_in", "borders", "landlocked"]


@cache
def visible() -> gaifman.KnowledgeBase:
    """The demo without every eighth fact."""
    kb = gaifman.demo()
    return kb.without_facts([*kb.facts()][::8])


@cache
def completion() -> gaifman.Completion:
    return gaifman.complete(visible(), RELATIONS, seed=1)


@cache
def found() -> MissingFacts:
    return completion().missing(0.2, why=True)


def test_every_fact_is_as_probable_as_the_model_says_and_is_not_known() -> None:
    assert len(found()) > 30
    for one in found()[:40]:
        assert gaifman.Fact(one.relation, one.objects) not in visible()
        estimate = completion().probability(one.relation, *one.objects)
        assert (estimate.value, estimate.conflicts) == (one.probability, one.conflicts)
    values = [one.probability for one in found()]
    assert values == sorted(values, reverse=True)
    assert min(values) >= 0.2
    assert found().expected == pytest.approx(sum(values))


def test_answers_and_missing_facts_agree() -> None:
    for one in [one for one in found() if one.relation == "borders"][:5]:
        answers = completion().answers(f"borders('{one.objects[0]}', y)", known="exclude", top=None)
        listed = {answer.names[0]: answer.probability for answer in answers if answer.probability >= 0.2}
        assert listed == {
            each.objects[1]: each.probability
            for each in found()
            if (each.relation, each.objects[0]) == ("borders", one.objects[0])
        }


def test_ranks_are_of_the_relation_and_limits_keep_the_best() -> None:
    for name in RELATIONS:
        assert [one.rank for one in found() if one.relation == name] == [
            *range(1, sum(one.relation == name for one in found()) + 1)
        ]
    best = completion().missing(0.2, top=7)
    assert [(one.relation, one.objects) for one in best] == [(one.relation, one.objects) for one in found()[:7]]
    few = completion().missing(0.2, per_relation=2)
    assert len(few) == sum(min(2, sum(one.relation == name for one in found())) for name in RELATIONS)
    assert {one.relation for one in completion().missing(0.2, ["borders"])} == {"borders"}
    assert completion().missing(0.2, threads=1).as_dict() == completion().missing(0.2, threads=2).as_dict()


def test_reasons_are_facts_that_link_the_objects() -> None:
    reasons = [one for one in found() if one.reason and len(one.objects) == 2 and one.reason.facts]
    assert len(reasons) > 20
    for one in reasons[:20]:
        assert one.reason is not None
        assert all(fact in visible() for fact in one.reason.facts)
        assert one.objects[0] in {name for fact in one.reason.facts for name in fact.objects}
    assert completion().missing(0.2)[0].reason is None


def test_little_to_go_on_can_be_left_out() -> None:
    covered = {(one.relation, one.objects) for one in completion().missing(0.001, ["borders"], covered=True)}
    every = completion().missing(0.001, ["borders"])
    predictor = completion().predictor("borders")
    for one in every[:: max(len(every) // 50, 1)]:
        reason = predictor.probability(one.objects, predictor.budget()).uncovered_reason
        assert ((one.relation, one.objects) in covered) == (not reason)


def test_the_summary_says_what_was_looked_at() -> None:
    summary = found().summary
    assert (summary.relations, summary.found, summary.skipped) == (3, len(found()), ())
    assert summary.candidates > 40_000
    assert f"about {round(found().expected):,} are expected to be true" in str(found())
    assert json.loads(json.dumps(found().as_dict()))["found"] == len(found())
    assert "<table" in found()._repr_html_()


@pytest.mark.parametrize("suffix", ["csv", "tsv", "jsonl", "parquet", "csv.gz"])
def test_files_have_a_row_for_each_fact(tmp_path: Path, suffix: str) -> None:
    own = completion().missing(0.3, ["borders", "located_in"], why=True)
    own.save(path := tmp_path / f"missing.{suffix}")
    with duckdb.connect() as connection:
        query = f"SELECT head, relation, tail, probability, rank, facts FROM '{path}'"
        rows = connection.execute(query).fetchall()
    assert [(row[1], (row[0], row[2]), row[4]) for row in rows] == [
        (one.relation, one.objects, one.rank) for one in own
    ]
    assert [row[3] for row in rows] == pytest.approx([one.probability for one in own])
    assert rows[0][5] == own[0].note


def test_files_of_facts_are_read_again(tmp_path: Path) -> None:
    found().save(tmp_path / "missing.facts")
    again = gaifman.read(tmp_path / "missing.facts")
    assert {(fact.relation, fact.objects) for fact in again.facts()} == {(one.relation, one.objects) for one in found()}
    assert sum(fact.confidence for fact in again.facts()) == pytest.approx(found().expected, rel=1e-4)
    found().save(tmp_path / "missing.nt")
    triples = gaifman.read(tmp_path / "missing.nt")
    assert len(triples) == len(found())
    assert triples.relations["landlocked"].arity == 1
    assert {(fact.relation, fact.objects) for fact in triples.facts()} == {
        (f.relation, f.objects) for f in again.facts()
    }


def test_relations_of_other_arities_have_columns_for_their_objects() -> None:
    columns = found().columns()
    assert [*columns][:4] == ["relation", "arg1", "arg2", "probability"]
    assert None in columns["arg2"]
    assert [*completion().missing(0.999999).columns()] == [
        "head",
        "relation",
        "tail",
        "probability",
        "rank",
        "conflicts",
    ]


def test_nothing_found_is_a_file_with_a_header(tmp_path: Path) -> None:
    none = completion().missing(0.999999, ["borders"])
    none.save(tmp_path / "none.csv")
    assert (tmp_path / "none.csv").read_text() == "head,relation,tail,probability,rank,conflicts\n"
    none.save(tmp_path / "none.parquet")
    with duckdb.connect() as connection:
        assert connection.execute(f"SELECT * FROM '{tmp_path / 'none.parquet'}'").fetchall() == []


def test_a_search_that_stops_continues_where_it_was(tmp_path: Path) -> None:
    completion().save(file := tmp_path / "m.gaifman")
    search = MissingSearch(completion(), file, tmp_path / "out.csv", None, SearchOptions(0.2))
    asked = list[int]()

    def stop() -> bool:
        asked.append(1)
        return len(asked) > 3

    with pytest.raises(WorkStopped):
        predict_to_file(search, threads=1, should_stop=stop)
    assert run_folder(search.target).is_dir()
    assert not search.target.exists()
    other = MissingSearch(completion(), file, search.target, None, SearchOptions(0.3))
    with pytest.raises(GaifmanError, match="different: above"):
        predict_to_file(other)
    predict_to_file(search)
    assert not run_folder(search.target).exists()
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["m.gaifman", "out.csv"]
    replace(completion().missing(0.2), model_name="m.gaifman").save(tmp_path / "whole.csv")
    assert search.target.read_bytes() == (tmp_path / "whole.csv").read_bytes()


def test_what_is_stored_is_not_proposed_again() -> None:
    class Kept(ProposalStore):
        def load(self, relation: str) -> Proposals | None:
            return found().proposals[relation]

        def save(self, relation: str, found: Proposals) -> None:
            raise AssertionError(relation)

    assert completion().find_missing(None, SearchOptions(0.2), store=Kept()).order == found().order


def test_wrong_input() -> None:
    with pytest.raises(GaifmanError, match="above must"):
        completion().missing(1.0)
    with pytest.raises(GaifmanError, match="top must"):
        completion().missing(top=0)
    with pytest.raises(KnowledgeBaseError, match="no model of border"):
        completion().missing(0.5, ["border"])
    with pytest.raises(KnowledgeBaseError, match="must be a sequence"):
        completion().missing(0.5, "borders")
    with pytest.raises(OutputError, match="does not say its format"):
        found().save("missing.xlsx")
    network = gaifman.complete(visible(), ["landlocked"], base="mlp", options={"epochs": 1})
    with pytest.raises(KnowledgeBaseError, match="ranked lists"):
        network.missing()

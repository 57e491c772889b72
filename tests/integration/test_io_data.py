"""The public data sets, read as what they are; needs the folder named by GAIFMAN_DATA."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmark_data import DATA, NEEDED
from gaifman.io import read, write

pytestmark = NEEDED

COUNTS = {
    # folder: format, objects, relations, facts and values of train, lines repeated in it
    "FB15k": ("triples", 14_951, 1_345, 483_142, 0),
    "WN18": ("triples", 40_943, 18, 141_442, 0),
    "FB15k-237": ("triples", 14_505, 237, 272_115, 0),
    "WN18RR": ("triples", 40_559, 11, 86_835, 0),
    "JF17K": ("nary", 28_645, 322, 61_104, 0),
    "FB-AUTO": ("nary", 3_137, 8, 6_778, 0),
    "FB15k-ET": ("types", 14_808, 3_584, 136_618, 0),
    "CN15k": ("triples", 15_000, 36, 193_274, 11_710),
    "NL27k": ("triples", 27_221, 405, 149_100, 0),
    "nations": ("triples", 14, 55, 1_592, 0),
    "umls": ("triples", 135, 46, 5_216, 0),
}


@pytest.mark.parametrize("folder", COUNTS)
def test_each_set_is_read_as_what_it_is(folder: str) -> None:
    form, objects, relations, facts, repeated = COUNTS[folder]
    kb = read(DATA / folder / "train.txt.gz")
    assert kb.notes[0].text == f"files read as {form}"
    assert (len(kb.objects), len(kb.relations), len(kb)) == (objects, relations, facts)
    assert sum(note.count for note in kb.notes[1:]) == repeated


def test_confidences_and_values_are_numbers() -> None:
    confidence = read(DATA / "NL27k" / "train.txt.gz").fact_tables[2].confidence
    assert confidence is not None
    assert 0 < confidence.min() < confidence.max() <= 1
    numeric = read(DATA / "FB15k-numeric" / "numerical_triples.txt.gz")
    assert (len(numeric.attributes), len(numeric.value_table)) == (116, 29_395)


def test_several_files_of_fb15k_make_one() -> None:
    kb = read(
        DATA / "FB15k" / "train.txt.gz",
        DATA / "FB15k-ET" / "train.txt.gz",
        DATA / "FB15k-numeric" / "numerical_triples.txt.gz",
    )
    assert len(kb) == 483_142 + 136_618
    assert kb.types("/m/042kbj")
    assert [note.text for note in kb.notes] == [
        "files read as triples",
        "files read as types",
        "files read as attributes",
    ]


@pytest.mark.parametrize("name", ["kb.duckdb", "kb.facts.gz", "kb.tsv", "kb.parquet"])
@pytest.mark.parametrize("folder", ["JF17K", "CN15k"])
def test_large_ones_come_back(folder: str, name: str, tmp_path: Path) -> None:
    kb = read(DATA / folder / "train.txt.gz")
    write(kb, tmp_path / name)
    assert read(tmp_path / name) == kb

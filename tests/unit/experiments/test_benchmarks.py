"""Benchmarks: their files, settings and published figures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import gaifman
from gaifman.cli.evaluate import BENCHMARK_DATA, PAPER_DATA
from gaifman.errors import GaifmanError, InputError
from gaifman.experiments import benchmarks as home
from gaifman.experiments.benchmarks import (
    BENCHMARKS,
    CHOSEN_SETTINGS,
    BenchmarkExperiment,
    BenchmarkFiles,
    find_benchmark,
    locate_benchmark,
    read_benchmark,
)
from gaifman.experiments.datasets import DATASETS
from gaifman.jobs.train import SourceText
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.training import TrainingConfig
from small_experiments import benchmark_sets, data_set, lines


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of data sets that no variable names."""
    monkeypatch.delenv("GAIFMAN_DATA", raising=False)
    return benchmark_sets(tmp_path / "data")


def reader(file_format: str = "triples") -> Callable[[str], KnowledgeBase]:
    return lambda path: gaifman.read(path, format=file_format, header=False)


# The table


def test_the_command_takes_every_benchmark() -> None:
    assert (*PAPER_DATA, *BENCHMARK_DATA) == tuple(BENCHMARKS)
    assert set(PAPER_DATA) == set(DATASETS)


def test_every_benchmark_has_settings_and_their_training_is_possible() -> None:
    assert list(CHOSEN_SETTINGS) == list(BENCHMARKS)
    for name in BENCHMARKS:
        BenchmarkExperiment(name).check()
    assert CHOSEN_SETTINGS["fb15k-237"] == {"hide": "links"}
    without = {name for name, settings in CHOSEN_SETTINGS.items() if settings.get("max_constants") == 0}
    assert without == {name for name in BENCHMARKS if "grail" in name}


def test_every_figure_has_a_source_and_is_a_share() -> None:
    for benchmark in BENCHMARKS.values():
        for figures in benchmark.published:
            fields = figures.as_dict()
            assert fields.pop("method")
            assert fields.pop("source")
            assert fields, "at least one figure"
            assert all(0 < float(part) < 1 for text in fields.values() for part in text.split("–"))


def test_inductive_figures_are_those_of_their_column() -> None:
    published = {name: [each.mrr for each in BENCHMARKS[name].published] for name in BENCHMARKS if "grail" in name}
    assert published == {
        "grail-fb237-v1": ["0.279", "0.369", "0.422"],
        "grail-fb237-v2": ["0.276", "0.469", "0.514"],
        "grail-wn18rr-v1": ["0.627", "0.701", "0.741"],
        "grail-wn18rr-v2": ["0.625", "0.690", "0.704"],
    }


def test_an_unknown_benchmark_has_near_names() -> None:
    with pytest.raises(InputError, match="there is no benchmark fb15k237") as caught:
        find_benchmark("fb15k237")
    assert "fb15k-237" in caught.value.suggestions


# Settings


def test_the_learner_is_the_default_one_with_the_chosen_settings() -> None:
    plain = BenchmarkExperiment("umls", seed=3).training_job()
    assert plain.config == TrainingConfig(seed=3).as_dict()
    assert (plain.query, plain.relations, plain.phi) == (None, None, ())
    chosen = BenchmarkExperiment("fb15k-237").training_job()
    assert chosen.config == TrainingConfig(hide="links").as_dict()


def test_given_settings_replace_chosen_ones() -> None:
    file = SourceText("mine.phi", "each r. r(s1, s2)\n")
    found = BenchmarkExperiment("fb15k-237", "mine", (file,), {"hide": "facts", "epochs": 2})
    assert found.chosen_settings == {}
    assert found.given_settings == {"hide": "facts", "epochs": 2, "phi": "mine"}
    config = TrainingConfig.from_settings(found.training_job().config)
    assert (config.hide, config.options["epochs"], config.phi) == ("facts", 2, "mine")
    assert found.training_job().phi == (file,)


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "data": ({"data": "uml"}, "there is no benchmark uml"),
    "seed": ({"options": {"seed": 5}}, "seed is set by its own option"),
    "unknown": ({"options": {"epoch": 5}}, "unknown setting epoch"),
    "fraction": ({"fraction": 0.0}, "above 0 and at most 1"),
    "facts": ({"visible_facts": "valid"}, "train, train\\+valid, not 'valid'"),
    "phi": ({"phi": "papers"}, "there is no feature set or file papers"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_settings_are_errors_before_any_work(name: str) -> None:
    settings, message = WRONG[name]
    with pytest.raises(GaifmanError, match=message):
        BenchmarkExperiment(**{"data": "umls", **settings}).check()


# Files


def test_files_are_found_in_a_named_folder_or_by_the_variable(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train = data / "umls" / "train.txt.gz"
    wanted = BenchmarkFiles(train, train, data / "umls" / "valid.txt.gz", data / "umls" / "test.txt.gz")
    assert locate_benchmark("umls", str(data)) == wanted
    monkeypatch.setenv("GAIFMAN_DATA", str(data))
    assert locate_benchmark("umls") == wanted
    data_set(data, "nations", packed=False)
    assert locate_benchmark("nations").test == data / "nations" / "test.txt"


def test_an_inductive_benchmark_answers_from_other_facts(data: Path) -> None:
    (data / "grail" / "fb237_v1" / "valid.txt.gz").unlink()  # not needed
    files = locate_benchmark("grail-fb237-v1", str(data))
    assert (files.train.parent.name, files.visible.parent.name) == ("fb237_v1", "fb237_v1_ind")
    assert files.valid.parent == files.test.parent == files.visible.parent
    splits = read_benchmark("grail-fb237-v1", files, reader())
    assert len(splits.visible) == len(lines(seed=4)["train"])
    assert not set(splits.train.objects) & set(splits.visible.objects)
    assert set(splits.test.objects) <= set(splits.visible.objects)


def test_facts_of_any_arity_are_read(data: Path) -> None:
    splits = read_benchmark("jf17k", locate_benchmark("jf17k", str(data)), reader(BENCHMARKS["jf17k"].file_format))
    assert {name: relation.arity for name, relation in splits.train.relations.items()} == {"gives": 3, "knows": 2}
    assert splits.visible is splits.train
    assert splits.source.is_absolute()


@pytest.mark.parametrize(
    ("name", "places"),
    [
        ("fb15k-237", ["train.txt.gz, valid.txt.gz and test.txt.gz into FOLDER/FB15k-237 (tab-separated triples)"]),
        ("fb-auto", ["FOLDER/FB-AUTO (tab-separated lines: relation, objects)"]),
        ("grail-wn18rr-v1", ["into FOLDER/grail/WN18RR_v1_ind, and train.txt.gz into FOLDER/grail/WN18RR_v1 "]),
    ],
)
@pytest.mark.usefixtures("data")
def test_without_a_folder_the_error_names_all_files(name: str, places: list[str]) -> None:
    with pytest.raises(InputError, match="cannot be downloaded: name a folder") as caught:
        locate_benchmark(name)
    assert all(place in caught.value.hint for place in [*places, "--data-dir FOLDER or GAIFMAN_DATA=FOLDER"])


def test_a_missing_file_is_an_error_that_names_it(data: Path) -> None:
    (data / "umls" / "valid.txt.gz").unlink()
    with pytest.raises(InputError, match=r"there is no file .*umls/valid\.txt\.gz") as caught:
        locate_benchmark("umls", str(data))
    assert "FOLDER/umls" in caught.value.hint
    (data / "grail" / "fb237_v1" / "train.txt.gz").unlink()
    with pytest.raises(InputError, match=r"there is no file .*fb237_v1/train\.txt\.gz"):
        locate_benchmark("grail-fb237-v1", str(data))


def test_wn18_and_fb15k_are_found_as_ever(data: Path) -> None:
    data_set(data, "WN18")
    files = locate_benchmark("wn18", str(data))
    assert files.train == files.visible == data / "WN18" / "train.txt.gz"
    assert not read_benchmark("wn18", files, reader()).is_published


def test_published_facts_are_told_by_their_numbers(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = locate_benchmark("umls", str(data))
    assert not read_benchmark("umls", files, reader()).is_published
    own = {name: len(facts) for name, facts in lines().items()}
    sizes = {**own, "visible": own["train"]}
    monkeypatch.setattr(home, "BENCHMARKS", {"umls": replace(BENCHMARKS["umls"], sizes=sizes)})
    assert read_benchmark("umls", files, reader()).is_published

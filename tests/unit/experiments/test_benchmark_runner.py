"""The runner of benchmarks: finished parts are reused, other settings are refused, results are written."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gaifman
from gaifman.completion import train_completion
from gaifman.errors import InputError, OutputError
from gaifman.evaluation.evaluate import evaluate, evaluate_popularity
from gaifman.experiments import runner as shared
from gaifman.experiments.benchmark_runner import BenchmarkResult, BenchmarkRunner, markdown, notes, table_rows
from gaifman.experiments.benchmarks import (
    BENCHMARKS,
    BenchmarkExperiment,
    BenchmarkSplits,
    locate_benchmark,
    read_benchmark,
)
from gaifman.jobs.run import Run
from gaifman.jobs.train import TrainingInterrupted
from gaifman.training import TrainingConfig
from small_experiments import SMALL, benchmark_sets

SETTINGS = {**SMALL, "base": "mlp", "draws": 2}
"""The network, which trains quickly on tiny data."""
PLAIN = BenchmarkExperiment("umls", options=SETTINGS)
Done = tuple[BenchmarkRunner, BenchmarkResult]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return benchmark_sets(tmp_path_factory.mktemp("data"))


def read_splits(data: Path, name: str) -> BenchmarkSplits:
    file_format = BENCHMARKS[name].file_format
    files = locate_benchmark(name, str(data))
    return read_benchmark(name, files, lambda path: gaifman.read(path, format=file_format, header=False))


@pytest.fixture(scope="module")
def splits(data: Path) -> BenchmarkSplits:
    return read_splits(data, "umls")


@pytest.fixture(scope="module")
def done(splits: BenchmarkSplits, tmp_path_factory: pytest.TempPathFactory) -> Done:
    """A benchmark, to its end."""
    work = BenchmarkRunner(PLAIN, splits, tmp_path_factory.mktemp("done") / "out", "gaifman reproduce umls")
    return work, work.rank(work.train(threads=1), threads=1)


# The work


def test_ranks_are_what_the_library_gives(done: Done, splits: BenchmarkSplits) -> None:
    work, result = done
    model = gaifman.load(work.model_file)
    wanted = evaluate(model, splits.train, splits.test, [splits.valid], threads=1)
    assert result.evaluation.as_dict() == wanted.as_dict()
    assert not result.evaluation.sampled
    assert result.evaluation.draws == 2
    assert result.baseline == evaluate_popularity(model, splits.train, splits.test, [splits.valid]).metrics()


def test_the_model_is_the_one_that_training_gives(done: Done, splits: BenchmarkSplits) -> None:
    model, again = done[0].train(), train_completion(splits.train, TrainingConfig.from_settings(SETTINGS), threads=1)
    assert {name: array.tobytes() for name, array in model.state()[0].items()} == {
        name: array.tobytes() for name, array in again.state()[0].items()
    }
    assert model.config == again.config


def test_new_objects_are_ranked_among_themselves(data: Path, tmp_path: Path) -> None:
    splits = read_splits(data, "grail-fb237-v1")
    work = BenchmarkRunner(BenchmarkExperiment("grail-fb237-v1", options=SETTINGS), splits, tmp_path / "out")
    model = work.train(threads=1)
    result = work.rank(model, threads=1)
    assert result.evaluation.objects == len(splits.visible.objects)
    wanted = evaluate(model, splits.visible, splits.test, [splits.valid], threads=1)
    assert result.evaluation.as_dict() == wanted.as_dict()
    said = notes(work.results(result))
    assert "Trained on the facts of grail/fb237_v1; answers from those of grail/fb237_v1_ind." in said


def test_facts_of_any_arity_are_ranked_at_all_positions(data: Path, tmp_path: Path) -> None:
    splits = read_splits(data, "jf17k")
    work = BenchmarkRunner(BenchmarkExperiment("jf17k", options=SETTINGS), splits, tmp_path / "out")
    result = work.rank(work.train(threads=1), threads=1)
    assert len(result.evaluation) == sum(len(fact.objects) for fact in splits.test.facts())
    assert result.baseline.ranks == len(result.evaluation)


def test_finished_work_is_not_repeated(done: Done, splits: BenchmarkSplits, monkeypatch: pytest.MonkeyPatch) -> None:
    work, result = done
    monkeypatch.setattr(shared, "run_training", lambda *_, **__: pytest.fail("the model exists"))
    again = BenchmarkRunner(PLAIN, splits, work.folder, work.command)
    assert again.results(again.rank(again.train(), threads=1)) == work.results(result), "times too"


def test_a_stopped_training_is_resumed(done: Done, splits: BenchmarkSplits, tmp_path: Path) -> None:
    work = BenchmarkRunner(PLAIN, splits, tmp_path / "out")
    with pytest.raises(TrainingInterrupted):
        work.train(threads=1, stop=lambda: True)
    assert not work.model_file.exists()
    with Run.open(f"{work.model_file}.run") as run:
        assert (run.settings["kb"]["format"], run.settings["kb"]["header"]) == ("triples", False)
    BenchmarkRunner(PLAIN, splits, tmp_path / "out").train(threads=1)
    assert work.model_file.read_bytes() == done[0].model_file.read_bytes()


def test_a_stopped_ranking_is_resumed(done: Done, splits: BenchmarkSplits, tmp_path: Path) -> None:
    work, calls = BenchmarkRunner(PLAIN, splits, tmp_path / "out"), list[int]()
    model = work.train(threads=1)

    def stop() -> bool:
        calls.append(1)
        return len(calls) > 4

    with pytest.raises(TrainingInterrupted):
        work.rank(model, threads=1, stop=stop)
    with Run.open(work.ranks_folder) as run:
        assert run.finished_tasks()
    assert work.rank(model, threads=1).evaluation.as_dict() == done[1].evaluation.as_dict()


def test_the_baseline_ranks_the_facts_of_the_sample(done: Done, splits: BenchmarkSplits) -> None:
    work = BenchmarkRunner(replace(PLAIN, fraction=0.5, seed=0), splits, done[0].folder)
    model = work.train()
    result = work.rank(model, threads=1)
    rows = work._ranked_rows(model, result.evaluation.ranked_facts)
    whole = done[1].evaluation
    assert (result.evaluation.ranked_facts, int(rows.sum()), len(rows)) == (4, 4, 8)
    of_sample = whole.metrics(rows[whole.fact])
    assert of_sample.mrr.value == pytest.approx(result.evaluation.metrics().mrr.value), "the rows are those of it"
    assert result.baseline.ranks == len(result.evaluation)
    popular = evaluate_popularity(model, splits.train, splits.test, [splits.valid])
    ranks = popular.filtered.with_ties("realistic")[rows[popular.fact]]
    assert result.baseline.mrr.value == pytest.approx(float(np.mean(1 / ranks)))


def test_validation_facts_are_visible_where_that_is_wanted(done: Done, splits: BenchmarkSplits) -> None:
    work = BenchmarkRunner(replace(PLAIN, visible_facts="train+valid"), splits, done[0].folder)
    model = work.train()
    both = splits.train.with_facts(splits.valid.facts())
    assert work.rank(model, threads=1).evaluation.as_dict() == evaluate(model, both, splits.test, threads=1).as_dict()
    assert (work.ranks_folder.name, work.results_name) == ("ranks-valid", "results-valid")


# Which folder


@pytest.mark.parametrize(
    ("other", "what"),
    [({"options": {**SETTINGS, "epochs": 2}}, "settings"), ({"seed": 4}, "settings"), ({"data": "family"}, "data set")],
)
def test_a_folder_of_another_reproduction_is_refused(
    other: dict[str, Any], what: str, splits: BenchmarkSplits, done: Done
) -> None:
    with pytest.raises(InputError, match=f"another reproduction; different: {what}\n"):
        BenchmarkRunner(replace(PLAIN, **other), splits, done[0].folder)


def test_other_facts_and_other_files_are_refused(splits: BenchmarkSplits, done: Done, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="different: facts\n"):
        BenchmarkRunner(PLAIN, replace(splits, valid=splits.test), done[0].folder)
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(OutputError, match="is not empty"):
        BenchmarkRunner(PLAIN, splits, tmp_path)


# What comes out


def made(work: BenchmarkRunner, result: BenchmarkResult) -> dict[str, Any]:
    found = work.results(result)
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    return found


def test_results_have_the_baseline_and_published_figures_beside(done: Done) -> None:
    body = made(*done)
    metrics = done[1].evaluation.metrics()
    assert body["ours"]["mrr"] == pytest.approx(metrics.mrr.value, abs=1e-6)
    assert set(body["ours"]) == set(body["most_frequent"]) == {"mrr", "hits@1", "hits@10", "mean_rank"}
    assert set(body["seconds"]) == {"training", "ranking"}
    assert body["settings"] == TrainingConfig.from_settings(SETTINGS).as_dict()
    published = [each.as_dict() for each in BENCHMARKS["fb15k-237"].published]
    ours, baseline, *others = table_rows({**body, "published": published})
    assert ours[:2] == ["gaifman", f"{metrics.mrr.value:.3f}"]
    assert baseline[0] == "most frequent object first"
    assert others[0] == ["AnyBURL", "0.329–0.348", "", "", "", "Meilicke et al."]
    assert others[-1] == ["NBFNet", "0.415", "", "0.599", "", "Zhu et al. 2021"]


def test_what_a_reader_must_know(done: Done) -> None:
    body = made(*done) | {"seconds": {"training": 1234.5, "ranking": 6.0}}
    assert notes(body) == [
        "Wall time: training 1,234.5 s, ranking 6.0 s.",
        "These are not the published facts of UMLS.",
        'Settings of the default learner: base="mlp", draws=2, epochs=1, hidden=[8], min_examples=0, given; seed 0.',
        "Ranks are filtered, at all positions, among 20 objects, with realistic ties; visible facts: train.",
    ]
    sample = notes({**body, "sampled": True, "facts": 4, "published": [{"method": "x"}]})
    assert "A sample: 4 of 8 test facts." in sample
    assert "These are not the published facts of UMLS: the published figures do not apply." in sample
    assert sample[-1] == "Published figures are quoted, not measured here."


def test_settings_tell_what_they_were_chosen_on(done: Done) -> None:
    body = made(*done)
    both = notes({**body, "chosen_settings": {"hide": "links"}, "given_settings": {"epochs": 2}})
    assert 'learner: hide="links", chosen on the validation facts; epochs=2, given; seed 0.' in "\n".join(both)
    none = notes({**body, "given_settings": {}})
    assert "all are the defaults, none was chosen on the validation facts; seed 0." in "\n".join(none)


def test_results_are_written_and_the_figure_is_drawn(done: Done) -> None:
    work, result = done
    body = made(work, result)
    work.write(body)
    page = (work.folder / "results.md").read_text()
    assert page == markdown(body)
    assert page.startswith("# UMLS with the default learner\n\n`gaifman reproduce umls`\n\nWall time: ")
    assert "|  | MRR | hits@1 | hits@10 | mean rank | source |\n| --- | ---: | ---: | ---: | ---: | --- |" in page
    work.plot_degrees()
    work.write(body)
    assert "![degrees](degrees.svg)" in (work.folder / "results.md").read_text()
    assert "UMLS: 20 objects" in (work.folder / "degrees.svg").read_text()
    assert json.loads((work.folder / "results.json").read_text()) == body

"""The runner of experiments: finished parts are reused, other settings are refused, results are written."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import gaifman
from gaifman.completion import train_completion
from gaifman.errors import GaifmanError, InputError, OutputError
from gaifman.evaluation.evaluate import evaluate
from gaifman.experiments import runner as home
from gaifman.experiments.paper import Experiment, TrainingSetting, select_rows
from gaifman.experiments.runner import (
    DatasetSplits,
    ExperimentRunner,
    RowResult,
    markdown,
    metric_cells,
    notes,
    time_cells,
    work_seconds,
)
from gaifman.jobs.run import Run
from gaifman.jobs.train import SourceText, TrainingInterrupted
from gaifman.training import TrainingConfig
from small_experiments import SMALL, data_set

SETTING = TrainingSetting(20, 5, 25)
STUDY = Experiment("wn18", select_rows(["3,4"]), options=SMALL)


@pytest.fixture(scope="module")
def splits(tmp_path_factory: pytest.TempPathFactory) -> DatasetSplits:
    folder = data_set(tmp_path_factory.mktemp("data")) / "WN18"
    train, valid, test = (gaifman.read(folder / f"{part}.txt.gz") for part in ("train", "valid", "test"))
    return DatasetSplits(train, valid, test, folder / "train.txt.gz", is_published=False)


@pytest.fixture(scope="module")
def done(splits: DatasetSplits, tmp_path_factory: pytest.TempPathFactory) -> tuple[ExperimentRunner, list[RowResult]]:
    """A reproduction of two rows, to its end."""
    work = ExperimentRunner(STUDY, splits, tmp_path_factory.mktemp("done") / "out", "gaifman reproduce wn18")
    return work, work.rank(SETTING, work.train(SETTING, threads=1), threads=1)


def begun(splits: DatasetSplits, folder: Path, study: Experiment = STUDY) -> ExperimentRunner:
    return ExperimentRunner(study, splits, folder)


# The work


def test_rows_are_what_the_library_gives(done: tuple[ExperimentRunner, list[RowResult]], splits: DatasetSplits) -> None:
    work, results = done
    model = gaifman.load(work.model_file(SETTING))
    assert [each.row.number for each in results] == [3, 4]
    for each in results:
        wanted = evaluate(model, splits.train, splits.test, [splits.valid], draws=each.row.draws, threads=1)
        assert each.evaluation.as_dict() == wanted.as_dict()
        assert not each.evaluation.sampled


def test_a_model_is_the_one_that_training_gives(
    done: tuple[ExperimentRunner, list[RowResult]], splits: DatasetSplits
) -> None:
    work, _ = done
    model = work.train(SETTING)
    settings: dict[str, Any] = {
        "positives": 5,
        "negatives": 25,
        "size": 20,
        "draws": 3,
        "activation": "sigmoid",
        "batch_size": 128,
        **SMALL,
    }
    config = TrainingConfig.from_settings({"phi": "paper", **settings})
    again = train_completion(splits.train, config, threads=1)
    assert {name: array.tobytes() for name, array in model.state()[0].items()} == {
        name: array.tobytes() for name, array in again.state()[0].items()
    }
    assert model.config == again.config


def test_finished_work_is_not_repeated(
    done: tuple[ExperimentRunner, list[RowResult]], splits: DatasetSplits, monkeypatch: pytest.MonkeyPatch
) -> None:
    work, results = done
    monkeypatch.setattr(home, "run_training", lambda *_, **__: pytest.fail("the model is there"))
    monkeypatch.setattr("gaifman.evaluation.tasks.rank_test_facts", lambda *_: pytest.fail("the ranks are there"))
    again = begun(splits, work.folder)
    found = again.rank(SETTING, again.train(SETTING), threads=1)
    assert [each.as_dict("wn18") for each in found] == [each.as_dict("wn18") for each in results], "times too"


def test_a_stopped_training_is_resumed(
    splits: DatasetSplits, tmp_path: Path, done: tuple[ExperimentRunner, list[RowResult]]
) -> None:
    work = begun(splits, tmp_path / "out")
    with pytest.raises(TrainingInterrupted):
        work.train(SETTING, threads=1, stop=lambda: True)
    assert Path(f"{work.model_file(SETTING)}.run").is_dir()
    assert not work.model_file(SETTING).exists()
    begun(splits, tmp_path / "out").train(SETTING, threads=1)
    assert work.model_file(SETTING).read_bytes() == done[0].model_file(SETTING).read_bytes()


def test_a_stopped_ranking_is_resumed(
    splits: DatasetSplits, tmp_path: Path, done: tuple[ExperimentRunner, list[RowResult]]
) -> None:
    work, calls = begun(splits, tmp_path / "out"), list[int]()
    model = work.train(SETTING, threads=1)

    def stop() -> bool:
        calls.append(1)
        return len(calls) > 4

    with pytest.raises(TrainingInterrupted):
        work.rank(SETTING, model, threads=1, stop=stop)
    with Run.open(work.ranks_folder(SETTING)) as run:
        assert run.finished_tasks()
    found = work.rank(SETTING, model, threads=1)
    assert [each.evaluation.as_dict() for each in found] == [each.evaluation.as_dict() for each in done[1]]


def test_a_training_that_cannot_be_leaves_no_run(splits: DatasetSplits, tmp_path: Path) -> None:
    study = replace(STUDY, phi="mine", file=SourceText("mine.phi", "nothing_known(s1, s2)\n"))
    work = begun(splits, tmp_path / "out", study)
    with pytest.raises(GaifmanError, match="there is no relation nothing_known"):
        work.train(SETTING)
    assert [path.name for path in work.folder.iterdir()] == ["experiment.json"]


# Which folder


def test_facts_rows_and_fractions_have_folders_of_their_own(splits: DatasetSplits, tmp_path: Path) -> None:
    studies = [
        STUDY,
        replace(STUDY, rows=select_rows(["3"])),
        replace(STUDY, fraction=0.5),
        replace(STUDY, visible_facts="train+valid"),
        replace(STUDY, visible_facts="train+valid", fraction=0.25),
    ]
    names = [begun(splits, tmp_path / "out", study).ranks_folder(SETTING).name for study in studies]
    assert names == [
        "ranks-k20-w5-25-n1-2",
        "ranks-k20-w5-25-n1",
        "ranks-k20-w5-25-n1-2-fraction0.5",
        "ranks-k20-w5-25-n1-2-valid",
        "ranks-k20-w5-25-n1-2-valid-fraction0.25",
    ]


def test_validation_facts_are_visible_where_that_is_wanted(
    splits: DatasetSplits, done: tuple[ExperimentRunner, list[RowResult]]
) -> None:
    work = begun(splits, done[0].folder, replace(STUDY, visible_facts="train+valid"))
    assert len(work.visible) == len(splits.train) + len(splits.valid)
    model = work.train(SETTING)
    found = work.rank(SETTING, model, threads=1)[0].evaluation
    both = splits.train.with_facts(splits.valid.facts())
    assert found.as_dict() == evaluate(model, both, splits.test, draws=1, threads=1).as_dict()


@pytest.mark.parametrize(
    ("other", "what"),
    [
        ({"options": {**SMALL, "epochs": 2}}, "options"),
        ({"phi": "universal-schema"}, "phi"),
        ({"seed": 4}, "seed"),
        ({"data": "fb15k"}, "data set"),
    ],
)
def test_a_folder_of_another_reproduction_is_refused(
    other: dict[str, Any], what: str, splits: DatasetSplits, done: tuple[ExperimentRunner, list[RowResult]]
) -> None:
    with pytest.raises(InputError, match=f"another reproduction; different: {what}\n") as caught:
        begun(splits, done[0].folder, replace(STUDY, **other))
    assert "-o" in caught.value.hint


def test_other_facts_are_refused(splits: DatasetSplits, done: tuple[ExperimentRunner, list[RowResult]]) -> None:
    fewer = replace(splits, valid=splits.test)
    with pytest.raises(InputError, match="different: facts\n"):
        begun(fewer, done[0].folder)


def test_a_folder_with_other_files_is_not_touched(splits: DatasetSplits, tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(OutputError, match="is not empty"):
        begun(splits, tmp_path)
    (tmp_path / "sub").mkdir()
    with pytest.raises(OutputError, match="cannot create the folder"):
        begun(splits, tmp_path / "letter.txt")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["letter.txt", "sub"]


def test_a_damaged_record_is_an_error(splits: DatasetSplits, tmp_path: Path) -> None:
    begun(splits, tmp_path / "out")
    (tmp_path / "out" / "experiment.json").write_text("{")
    with pytest.raises(InputError, match=r"cannot read .*experiment\.json"):
        begun(splits, tmp_path / "out")


def test_a_model_of_a_query_in_its_place_is_refused(splits: DatasetSplits, tmp_path: Path) -> None:
    work = begun(splits, tmp_path / "out")
    gaifman.fit(splits.train, "_hypernym(x, y)", options={"epochs": 1}, min_examples=0).save(work.model_file(SETTING))
    with pytest.raises(InputError, match="not a completion"):
        work.train(SETTING)


# What comes out


def made(work: ExperimentRunner, results: list[RowResult]) -> dict[str, Any]:
    found = work.results(results)
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    return found


def test_results_stand_beside_the_papers(done: tuple[ExperimentRunner, list[RowResult]]) -> None:
    work, results = done
    body = made(work, results)
    row = body["rows"][0]
    whole = results[0].evaluation.metrics()
    assert row["paper"] == {"mean_rank": 392, "hits@1": 76.4, "hits@10": 93.6}
    assert row["ours"]["mean_rank"] == pytest.approx(whole.mean_rank.value, abs=1e-4)
    assert row["ours"]["hits@10"] == pytest.approx(100 * whole.hits[10].value, abs=1e-4)
    assert {"raw", "filtered"} <= set(row["evaluation"])
    assert "pessimistic" in row["evaluation"]["filtered"]
    assert (row["N"], row["size"], row["positives"], row["negatives"]) == (1, 20, 5, 25)
    assert row["seconds"]["training"] >= 0
    assert row["answers_per_second"] > 0
    assert metric_cells(row)[:3] == ["[1, 20, 5, 25]", f"{whole.mean_rank.value:,.1f}", "392"]
    assert time_cells(row)[0] == "[1, 20, 5, 25]"


def test_what_a_reader_must_know(done: tuple[ExperimentRunner, list[RowResult]], splits: DatasetSplits) -> None:
    work, results = done
    said = notes(made(work, results))
    assert said[0] == "These are not the published facts of WN18: the paper's figures do not apply."
    assert "visible facts: train." in said[1]
    assert 'activation="sigmoid", batch_size=128, epochs=1' in said[1]
    sample = begun(splits, work.folder, replace(STUDY, fraction=0.5))
    some = sample.rank(SETTING, sample.train(SETTING), threads=1)
    body = made(sample, some)
    assert (body["sampled"], body["facts"], body["test_facts"]) == (True, 4, 8)
    assert notes(body)[0] == "A sample: 4 of 8 test facts."
    assert notes({**body, "is_published": True, "sampled": False})[0].startswith("Φ paper")


def test_the_page_has_both_tables_and_the_command(done: tuple[ExperimentRunner, list[RowResult]]) -> None:
    work, results = done
    text = markdown(made(work, results))
    assert text.startswith("# WN18 beside the paper's Table 2\n\n`gaifman reproduce wn18`\n")
    assert "| [N, k, w, w̃] | mean rank | paper |" in text
    assert "| [N, k, w, w̃] | training s | ranking s | answers/s |" in text


def test_results_are_written_and_the_figure_is_drawn(done: tuple[ExperimentRunner, list[RowResult]]) -> None:
    work, results = done
    work.write(made(work, results))
    assert "degrees.svg" not in (work.folder / "results.md").read_text()
    work.plot_degrees()
    work.write(made(work, results))
    assert "WN18: 20 objects" in (work.folder / "degrees.svg").read_text()
    assert json.loads((work.folder / "results.json").read_text())["rows"][1]["label"] == "[2, 20, 5, 25]"
    assert (work.folder / "results.md").read_text().startswith("# WN18")
    assert "![degrees](degrees.svg)" in (work.folder / "results.md").read_text()


# Time


def moments(*events: tuple[float, str]) -> list[dict[str, Any]]:
    return [{"time": f"2026-01-01T00:00:{at:06.3f}+00:00", "event": event} for at, event in events]


def test_the_seconds_of_a_log() -> None:
    assert work_seconds([]) == 0
    assert work_seconds(moments((0, "start"), (5, "relation"), (8, "end"))) == 8
    killed = moments((0, "start"), (5, "relation"), (30, "start"), (31, "relation"), (32, "end"))
    assert work_seconds(killed) == 7, "from a kill to the next start nobody worked"
    assert work_seconds(moments((0, "start"), (4, "stop"), (40, "start"), (41, "end"))) == 4, "nothing was left to do"

"""Training as a run, in this process: specs, progress, checkpoints, the log, the card, errors."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gaifman
from gaifman.completion import Completion
from gaifman.errors import FormulaError, GaifmanError, InputError, KnowledgeBaseError
from gaifman.jobs.run import ProgressCounter, Run, WorkStopped, read_log
from gaifman.jobs.train import (
    SourceText,
    TrainingInterrupted,
    TrainingSpec,
    finish_cleanup,
    has_progress,
    run_training,
)
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.model import GaifmanModel
from training_runs import QUERY, small

QUICK: dict[str, Any] = {"size": 5, "min_examples": 1500, "options": {"epochs": 4, "hidden": [20]}, "phi": "default"}


@pytest.fixture(scope="module")
def kb(tmp_path_factory: pytest.TempPathFactory) -> KnowledgeBase:
    return gaifman.read(small(tmp_path_factory.mktemp("kb") / "small.facts", 40))


def create(folder: Path, spec: TrainingSpec, seconds: float = 30, **settings: Any) -> Run:
    return Run.create(folder / "m.run", {"spec": spec.as_dict(), **settings}, checkpoint_seconds=seconds)


def trained(folder: Path, spec: TrainingSpec, kb: KnowledgeBase, **expected: Any) -> bytes:
    """A run from its beginning to its end, and the model that it gives."""
    with create(folder, spec) as run:
        run_training(run, kb, folder / "m", **expected)
    return (folder / "m").read_bytes()


def after(blocks: int) -> Callable[[], bool]:
    """Asks to stop when it was asked so often."""
    asked = iter(range(blocks))
    return lambda: next(asked, None) is None


SPECS = {
    "query": TrainingSpec(QUICK, QUERY),
    "patient": TrainingSpec({**QUICK, "patience": 2}, QUERY),
    "completion": TrainingSpec(QUICK),
    "relations": TrainingSpec({**QUICK, "base": "logistic", "options": {}}, relations=("likes", "gives")),
    "phi": TrainingSpec(
        {**QUICK, "phi": "mine"}, QUERY, phi=(SourceText("mine.phi", "each r. r(s1, s2)\nknows(s1, x)\n"),)
    ),
    "rules": TrainingSpec(QUICK, relations=("parent",), constraints=SourceText("c.txt", "functional: parent 1→2\n")),
    "no rules": TrainingSpec(QUICK, relations=("parent",), find_constraints=False),
}


@pytest.mark.parametrize("name", SPECS)
def test_an_spec_survives_json(name: str) -> None:
    spec = SPECS[name]
    spec.check()
    assert TrainingSpec.from_dict(json.loads(json.dumps(spec.as_dict()))) == spec


@pytest.mark.parametrize("name", ["query", "completion", "relations"])
def test_a_run_gives_what_training_without_one_gives(name: str, kb: KnowledgeBase, tmp_path: Path) -> None:
    spec = SPECS[name]
    data = trained(tmp_path, spec, kb, threads=2)
    plain: GaifmanModel | Completion = (
        gaifman.fit(kb, QUERY, **QUICK) if spec.query else gaifman.complete(kb, spec.relations, **spec.config)
    )
    plain.save(tmp_path / "plain")
    assert data == (tmp_path / "plain").read_bytes()
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["m", "m.log.jsonl", "m.md", "plain"]


@pytest.mark.parametrize("name", SPECS)
def test_stopped_after_every_block_and_resumed_it_gives_the_same_bytes(
    name: str, kb: KnowledgeBase, tmp_path: Path
) -> None:
    (tmp_path / "whole").mkdir()
    whole = trained(tmp_path / "whole", SPECS[name], kb, threads=1)
    create(tmp_path, SPECS[name]).close()
    stops = 0
    while not (tmp_path / "m").exists():
        with Run.open(tmp_path / "m.run") as run:
            try:
                run_training(run, kb, tmp_path / "m", threads=1 + stops % 2, should_stop=after(stops % 3 + 1))
            except TrainingInterrupted:
                stops += 1
    assert stops >= 2
    assert (tmp_path / "m").read_bytes() == whole
    events = [event["event"] for event in read_log(tmp_path / "m.log.jsonl")]
    assert events.count("start") == stops + 1
    assert events.count("stop") == stops
    assert events.count("end") == 1
    assert "resume" in events
    assert not (tmp_path / "m.run").exists()


def test_no_checkpoint_is_written_before_its_time(kb: KnowledgeBase, tmp_path: Path) -> None:
    for number, (seconds, written) in enumerate([(1e9, False), (0, True)]):
        folder = tmp_path / str(number)
        folder.mkdir()
        seen: list[bool] = []
        with create(folder, SPECS["query"], seconds) as run:
            run_training(
                run, kb, folder / "m", report=lambda *_, run=run, seen=seen: seen.append(run.has_checkpoints())
            )
        assert any(seen) is written


def test_the_log_tells_what_happened(kb: KnowledgeBase, tmp_path: Path) -> None:
    trained(tmp_path, SPECS["completion"], kb, threads=1)
    events = read_log(tmp_path / "m.log.jsonl")
    assert [event["event"] for event in events[:2]] == ["start", "epoch"]
    assert events[0]["facts"] == len(kb)
    assert events[0]["fingerprint"] == kb.fingerprint
    relations = {event["relation"]: event for event in events if event["event"] == "relation"}
    assert set(relations) == {"gives", "knows", "likes", "parent", "person"}
    assert relations["person"]["reason"] == "every tuple is known"
    assert relations["knows"]["trained"]
    assert 0 <= relations["knows"]["auc"] <= 1
    passes = [event["epoch"] for event in events if event["event"] == "epoch" and event["task"] == "relation gives"]
    assert passes == list(range(1, len(relations["gives"]["losses"]) + 1))
    assert events[-1]["event"] == "end"
    assert events[-1]["held_out"] > 0
    assert all(event["time"] for event in events)


def test_the_card_has_the_command_and_the_model_has_not(kb: KnowledgeBase, tmp_path: Path) -> None:
    with create(tmp_path, SPECS["query"], command="gaifman train secret.facts") as run:
        run_training(run, kb, tmp_path / "m")
    assert "$ gaifman train secret.facts\n" in (tmp_path / "m.md").read_text()
    assert b"secret" not in (tmp_path / "m").read_bytes()


def test_what_is_made_of_the_model_is_made_before_the_run_ends(kb: KnowledgeBase, tmp_path: Path) -> None:
    """An error there, or a kill, leaves a run that needs only to be ended."""

    def fail(_: object) -> None:
        raise KnowledgeBaseError("no picture")

    with create(tmp_path, SPECS["query"]) as run, pytest.raises(KnowledgeBaseError):
        run_training(run, kb, tmp_path / "m", on_model=fail)
    assert not (tmp_path / "m").exists()
    models: list[object] = []
    with Run.open(tmp_path / "m.run") as run:
        model = run_training(run, kb, tmp_path / "m", on_model=models.append)
    assert models == [model]


def test_what_a_killed_process_was_writing_is_removed(kb: KnowledgeBase, tmp_path: Path) -> None:
    create(tmp_path, SPECS["query"]).close()
    for name in (".m.0123abcd.part", ".m.md.0123abcd.part"):
        (tmp_path / name).touch()
    with Run.open(tmp_path / "m.run") as run:
        run_training(run, kb, tmp_path / "m")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["m", "m.log.jsonl", "m.md"]


def test_another_knowledge_base_is_refused(kb: KnowledgeBase, tmp_path: Path) -> None:
    with create(tmp_path, SPECS["query"]) as run:
        with pytest.raises(TrainingInterrupted):
            run_training(run, kb, tmp_path / "m", should_stop=lambda: True)
        assert has_progress(run)
        less = kb.without_facts([next(kb.facts())])
        with pytest.raises(InputError, match="has changed since the run was started") as error:
            run_training(run, less, tmp_path / "m")
        assert "--force" in error.value.hint
        run_training(run, kb, tmp_path / "m")


def test_a_run_without_a_result_has_not_ended(kb: KnowledgeBase, tmp_path: Path) -> None:
    with create(tmp_path, SPECS["query"]) as run:
        assert finish_cleanup(run, tmp_path / "m") is None
        assert not has_progress(run)
        run_training(run, kb, tmp_path / "m")


def test_damaged_checkpoints_and_relations_are_trained_again(kb: KnowledgeBase, tmp_path: Path) -> None:
    (tmp_path / "whole").mkdir()
    whole = trained(tmp_path / "whole", SPECS["completion"], kb)
    with create(tmp_path, SPECS["completion"]) as run, pytest.raises(TrainingInterrupted):
        run_training(run, kb, tmp_path / "m", threads=1, should_stop=after(8))
    for path in (tmp_path / "m.run").glob("do*/*.part"):
        data = bytearray(path.read_bytes())
        data[-1] ^= 1
        path.write_bytes(data)
    with Run.open(tmp_path / "m.run") as run:
        run_training(run, kb, tmp_path / "m")
    assert (tmp_path / "m").read_bytes() == whole
    assert "damaged" in [event["event"] for event in read_log(tmp_path / "m.log.jsonl")]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (TrainingSpec({**QUICK, "radius": -1}), "radius"),
        (TrainingSpec({**QUICK, "colour": 1}), "unknown setting colour"),
        (TrainingSpec({**QUICK, "base": "tree"}), "base must be one of mlp, logistic, got 'tree'"),
        (TrainingSpec({**QUICK, "options": {"epoch": 1}}), "mlp has no option epoch"),
        (TrainingSpec({**QUICK, "phi": "papers"}), "no feature set or file papers"),
        (TrainingSpec(QUICK, "knows(x"), "query, line 1"),
        (TrainingSpec(QUICK, QUERY, ("knows",)), "give a query or relations, not both"),
        (TrainingSpec(QUICK, QUERY, phi=(SourceText("a.phi", "\neach r."),)), "a.phi, line 2"),
        (TrainingSpec(QUICK, QUERY, constraints=SourceText("c.txt", "functional knows")), "c.txt, line 1"),
    ],
)
def test_a_wrong_spec_is_refused_before_anything_is_read(spec: TrainingSpec, message: str) -> None:
    with pytest.raises(GaifmanError) as error:
        spec.check()
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("spec", "kind", "message"),
    [
        (TrainingSpec(QUICK, "know(x, y)"), FormulaError, "there is no relation know"),
        (TrainingSpec(QUICK, "knows(x, y) & parent(y, y) & ~likes(x, x) & x != x"), KnowledgeBaseError, "no answers"),
        (TrainingSpec(QUICK, "exists x. person(x)"), FormulaError, "no free variables"),
        (TrainingSpec(QUICK, relations=("know",)), KnowledgeBaseError, "there is no relation know"),
        (TrainingSpec(QUICK, phi=(SourceText("a.phi", "knows(s1, s2)"),)), FormulaError, "uses s2"),
        (TrainingSpec(QUICK, QUERY, phi=(SourceText("a.phi", "know(s1, s2)"),)), FormulaError, "a.phi, line 1"),
        (TrainingSpec(QUICK, constraints=SourceText("c.txt", "functional: know 1→2")), FormulaError, "c.txt, line 1"),
    ],
)
def test_a_spec_that_does_not_fit_the_knowledge_base_is_refused_before_training(
    spec: TrainingSpec, kind: type[GaifmanError], message: str, kb: KnowledgeBase, tmp_path: Path
) -> None:
    with create(tmp_path, spec) as run:
        with pytest.raises(kind) as error:
            run_training(run, kb, tmp_path / "m")
        assert not has_progress(run)
    assert message in str(error.value)


def test_constraints_may_name_the_head_of_the_query(kb: KnowledgeBase, tmp_path: Path) -> None:
    query = "near(x, y) :- knows(x, z), likes(z, y)"
    rules = SourceText("c.txt", "types: near person, person")
    assert trained(tmp_path, TrainingSpec(QUICK, query, constraints=rules), kb)


def test_progress_counts_finished_and_planned_units() -> None:
    reports: list[tuple[str, int, int | None]] = []
    progress = ProgressCounter("training", lambda *state: reports.append(state))
    progress.plan({"a": 100, "b": 50, "c": 10}, done=["c", "other"])
    assert progress.counts == (10, 160)
    progress.begin("a", 90, 30)
    assert progress.counts == (40, 150)
    progress.add("a", 20)
    progress.begin("b", 50, 0)
    progress.add("b", 70)
    progress.end("a")
    assert reports[0] == ("training", 10, 160)
    assert reports[-1] == ("training", 150, 150)
    done = [state[1] for state in reports]
    assert done == sorted(done)
    progress.stop()
    with pytest.raises(WorkStopped):
        progress.add("b", 1)


def test_the_bar_is_right_from_the_start(kb: KnowledgeBase, tmp_path: Path) -> None:
    """The plan is about what it comes to, and what is done grows up to it."""
    told: list[tuple[str, int, int | None]] = []
    with create(tmp_path, SPECS["completion"]) as run:
        run_training(run, kb, tmp_path / "m", report=lambda *state: told.append(state))
    assert told[0] == ("preparing", 0, None)
    shares = [done / total for phase, done, total in told if phase == "training" and total]
    totals = np.array([total for _, _, total in told[1:]])
    assert np.ptp(totals) < 0.2 * totals[-1]
    assert shares[-1] == 1
    assert shares[len(shares) // 2] < 0.95


def test_a_run_with_validation_facts_is_resumed_to_the_same_bytes(kb: KnowledgeBase, tmp_path: Path) -> None:
    facts = [fact for fact in kb.facts() if fact.relation in ("likes", "knows")][::9]
    train, valid = kb.without_facts(facts), KnowledgeBase.from_facts(facts)
    spec = TrainingSpec({"options": {"max_steps": 1}, "phi": "default"}, relations=("likes", "knows", "parent"))
    (tmp_path / "whole").mkdir()
    whole = trained(tmp_path / "whole", spec, train, valid=valid, threads=2)
    create(tmp_path, spec).close()
    stops = 0
    while not (tmp_path / "m").exists():
        with Run.open(tmp_path / "m.run") as run:
            try:
                run_training(run, train, tmp_path / "m", valid=valid, threads=1, should_stop=after(stops % 4 + 1))
            except TrainingInterrupted:
                stops += 1
    assert stops >= 3
    assert (tmp_path / "m").read_bytes() == whole
    [chosen] = [event for event in read_log(tmp_path / "m.log.jsonl") if event["event"] == "hide"]
    about = gaifman.load(tmp_path / "m").meta["hide_choice"]
    assert {name: chosen[name] for name in about} == about
    assert (about["facts"], about["relations"]) == (len(facts), 2)


def test_other_validation_facts_are_not_resumed_with(kb: KnowledgeBase, tmp_path: Path) -> None:
    facts = [*kb.facts("likes")][::9]
    train, spec = kb.without_facts(facts), TrainingSpec({"options": {"max_steps": 1}, "phi": "default"}, "likes(x, y)")
    with create(tmp_path, spec) as run, pytest.raises(TrainingInterrupted):
        run_training(
            run, train, tmp_path / "m", valid=KnowledgeBase.from_facts(facts), threads=1, should_stop=lambda: True
        )
    with Run.open(tmp_path / "m.run") as run, pytest.raises(InputError, match="has changed"):
        run_training(run, train, tmp_path / "m", valid=KnowledgeBase.from_facts(facts[1:]))

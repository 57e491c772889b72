"""Checkpoints of an evaluation: stopped, killed and resumed it gives the same; another folder is refused."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gaifman
from evaluation_cases import DRAWS, HELD, TEST, completed, ranked, train
from gaifman.errors import InputError, KnowledgeBaseError, OutputError
from gaifman.evaluation import tasks as examining
from gaifman.evaluation.evaluate import Evaluation, evaluate, evaluate_draw_counts
from gaifman.evaluation.scorers import NetworkScorer
from gaifman.evaluation.tasks import TaskResult, open_checkpoint
from gaifman.io.model_file import checksum, model_bytes
from gaifman.jobs.run import Run, read_log
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.kb.tables import Floats, Ints
from gaifman.ranking.ranks import TIES
from processes import run
from trained import FEW, towns, worker


@cache
def whole() -> list[Evaluation]:
    return ranked(None)


def same(one: list[Evaluation], other: list[Evaluation]) -> bool:
    """Bit for bit."""
    return len(one) == len(other) and all(
        a.as_dict() == b.as_dict()
        and all(np.array_equal(a.filtered.with_ties(ties), b.filtered.with_ties(ties)) for ties in TIES)
        and all(np.array_equal(a.raw.with_ties(ties), b.raw.with_ties(ties)) for ties in TIES)
        and np.array_equal(a.classification.scores, b.classification.scores)
        for a, b in zip(one, other, strict=True)
    )


class Stopped(Exception):
    """Raised by a progress callback to stop the work."""


def stop_after(ranks: int) -> Any:
    def report(phase: str, done: int, _: int | None) -> None:
        if phase == "ranking" and done >= ranks:
            raise Stopped

    return report


# Several numbers of draws


def test_several_numbers_of_draws_equal_single_evaluations() -> None:
    for count, found in zip(DRAWS, whole(), strict=True):
        assert found.draws == count
        assert same([found], [evaluate(completed(), train(), TEST, draws=count, threads=1)])


def test_all_draws_are_ranked_in_one_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    scores = NetworkScorer.scores

    def counted(self: NetworkScorer, tuples: Ints, position: int) -> Floats:
        asked.append(len(tuples))
        return scores(self, tuples, position)

    monkeypatch.setattr(NetworkScorer, "scores", counted)
    ranked(None, draws=[1])
    once = sum(asked)
    asked.clear()
    ranked(None, draws=[1, 2, 3])
    assert sum(asked) == once > 0


def test_draws_can_be_in_any_order() -> None:
    assert same(ranked(None, draws=DRAWS[::-1])[::-1], whole())


def test_the_default_number_of_draws() -> None:
    assert evaluate(completed(), train(), TEST, threads=1).draws == completed().config.draws


def test_no_draws_are_refused() -> None:
    with pytest.raises(KnowledgeBaseError, match="at least one"):
        ranked(None, draws=[])


# Checkpoints


def test_finished_relations_are_not_ranked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert same(ranked(tmp_path / "ranks"), whole())
    monkeypatch.setattr(examining, "rank_test_facts", lambda *_: pytest.fail("it was kept"))
    assert same(ranked(tmp_path / "ranks"), whole())
    assert same(ranked(tmp_path / "ranks", threads=3), whole())


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("ranks", [1, 4, 9, 13])
def test_a_stopped_evaluation_resumes_to_the_same_result(ranks: int, threads: int, tmp_path: Path) -> None:
    with pytest.raises(Stopped):
        ranked(tmp_path / "ranks", progress=stop_after(ranks), threads=threads)
    assert same(ranked(tmp_path / "ranks", threads=threads), whole())


def test_progress_counts_finished_relations(tmp_path: Path) -> None:
    with pytest.raises(Stopped):
        ranked(tmp_path / "ranks", progress=stop_after(13))
    with Run.open(tmp_path / "ranks") as run:
        done = sum(len(kept[0]["targets"] > 0) > 0 for kept in map(run.load_task, run.finished_tasks()))
    assert done > 0
    reports: list[tuple[str, int, int | None]] = []
    ranked(tmp_path / "ranks", progress=lambda *words: reports.append(words))
    total = len(whole()[0])
    assert reports[0] == ("preparing", 0, None)
    assert 0 < reports[1][1] < total
    assert reports[-1] == ("ranking", total, total)
    assert [count for _, count, _ in reports] == sorted(count for _, count, _ in reports)


def test_the_log_has_every_event(tmp_path: Path) -> None:
    ranked(tmp_path / "ranks")
    ranked(tmp_path / "ranks")
    events = read_log(tmp_path / "ranks" / "log.jsonl")
    names = [event["event"] for event in events]
    relations = len(whole()[0].relations)
    assert names == ["start", *["relation"] * relations, "end", "start", "end"]
    assert sum(event.get("ranks", 0) for event in events) == len(whole()[0])
    assert (events[0]["resumed"], events[-2]["resumed"]) == (0, relations)


def test_a_damaged_file_is_ranked_again(tmp_path: Path) -> None:
    ranked(tmp_path / "ranks")
    part = sorted((tmp_path / "ranks" / "done").iterdir())[1]
    data = bytearray(part.read_bytes())
    data[-3] ^= 1
    part.write_bytes(data)
    assert same(ranked(tmp_path / "ranks"), whole())
    assert "damaged" in [event["event"] for event in read_log(tmp_path / "ranks" / "log.jsonl")]


KILLED = """
import sys
sys.path.insert(0, {tests!r})
import background_job as job
from pathlib import Path
from evaluation_cases import ranked
job.kill_at({count}, {folder!r})
ranked(Path({folder!r}) / "ranks")
"""


@pytest.mark.parametrize("count", [2, 9, 17])
def test_a_killed_evaluation_resumes(count: int, tmp_path: Path) -> None:
    code = KILLED.format(tests=str(Path(__file__).parents[2] / "support"), count=count, folder=str(tmp_path))
    done = run([sys.executable, "-c", code])
    assert done.returncode == -9, done.stderr
    assert same(ranked(tmp_path / "ranks"), whole())


def test_a_model_of_a_query_has_checkpoints(tmp_path: Path) -> None:
    found = [evaluate(worker(), towns(), TEST, checkpoint_dir=tmp_path / "ranks", threads=t) for t in (1, 2)]
    assert same(found[:1], found[1:])
    assert same(found[:1], [evaluate(worker(), towns(), TEST, threads=1)])


# Folders of other evaluations


OTHER: dict[str, dict[str, Any]] = {
    "numbers of draws": {"draws": [1, 2]},
    "sample of facts": {"fraction": 0.5},
}


@pytest.mark.parametrize("what", OTHER)
def test_a_stale_folder_is_refused_and_left_alone(what: str, tmp_path: Path) -> None:
    ranked(tmp_path / "ranks")
    before = sorted((path, path.stat().st_mtime_ns) for path in (tmp_path / "ranks" / "done").iterdir())
    with pytest.raises(InputError, match=f"different: {what}\n") as caught:
        ranked(tmp_path / "ranks", **OTHER[what])
    assert "choose another folder" in caught.value.hint
    assert sorted((path, path.stat().st_mtime_ns) for path in (tmp_path / "ranks" / "done").iterdir()) == before
    assert same(ranked(tmp_path / "ranks"), whole())


def test_another_model_or_knowledge_base_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "ranks"
    ranked(folder)
    other = gaifman.complete(train(), **FEW | {"seed": 5})
    more = train().with_facts([("likes", "p00", "p02")])
    fewer = KnowledgeBase.from_facts(HELD[:3])
    given: dict[str, Any] = {"draws": DRAWS, "checkpoint_dir": folder, "threads": 1}
    works: dict[str, Callable[[], object]] = {
        "model": lambda: evaluate_draw_counts(other, train(), TEST, **given),
        "knowledge base": lambda: evaluate_draw_counts(completed(), more, TEST, **given),
        "test facts": lambda: evaluate_draw_counts(completed(), train(), fewer, **given),
        "known facts": lambda: evaluate_draw_counts(completed(), train(), TEST, [fewer], **given),
    }
    for what, work in works.items():
        with pytest.raises(InputError, match=f"different: {what}\n"):
            work()


def test_the_seed_and_the_order_of_relations(tmp_path: Path) -> None:
    """Another seed samples other negatives; the order of relations changes nothing."""
    folder, names = tmp_path / "ranks", ["works_in", "moved"]
    first = ranked(folder, relations=names)
    assert same(ranked(folder, relations=names[::-1]), first)
    with pytest.raises(InputError, match="sample of facts"):
        ranked(folder, relations=names, seed=3)


def test_a_folder_with_something_else_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    with pytest.raises(OutputError, match=r"letter\.txt"):
        ranked(tmp_path / "mine")
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["letter.txt"]


def test_a_run_of_something_else_is_refused(tmp_path: Path) -> None:
    with Run.create(tmp_path / "run", {"seed": 1}):
        pass
    with pytest.raises(InputError, match="another evaluation"):
        open_checkpoint(tmp_path / "run", {"model": "x"})
    with pytest.raises(InputError, match="different: the settings"):
        open_checkpoint(tmp_path / "run", {})


def test_a_record_of_another_version_is_refused(tmp_path: Path) -> None:
    ranked(tmp_path / "ranks")
    record = tmp_path / "ranks" / "run.json"
    body = json.loads(record.read_text())
    record.write_text(json.dumps(body | {"gaifman": "9.9.9"}))
    with pytest.raises(InputError) as caught:
        ranked(tmp_path / "ranks")
    assert caught.value.hint == f"choose another folder, or remove {tmp_path / 'ranks'} and rank again"


def test_two_processes_do_not_rank_into_one_folder(tmp_path: Path) -> None:
    ranked(tmp_path / "ranks")
    with Run.open(tmp_path / "ranks"), pytest.raises(OutputError, match="works on the run"):
        ranked(tmp_path / "ranks")


# Results


def test_a_result_has_ranks_for_each_number_of_draws() -> None:
    part = TaskResult(np.arange(24).reshape(2, 2, 3, 2), np.zeros((2, 1)), np.ones(1))
    assert part.ranks_for(1, raw=False).better.tolist() == [12, 13]
    assert part.ranks_for(0, raw=True).candidates.tolist() == [10, 11]


def test_the_checksum_of_a_model_is_the_one_in_its_file() -> None:
    arrays, meta = {"a": np.arange(3)}, {"kind": "model"}
    assert checksum(arrays, meta).encode() in model_bytes(arrays, meta)
    assert checksum({"a": np.arange(4)}, meta) != checksum(arrays, meta) != checksum(arrays, {"kind": "x"})
